"""Attacks on DP-Adam: canaries whose gradients an attacker who sees every noisy sum looks for.

What is run is a method's own last stage; a block's `observe` shows the noisy sum of clipped
gradients of every Poisson round, which is what DP-Adam releases. Canaries are ordinary training
nodes with a feature that no other node has. So what they add to the gradients of the first layer's
weights for that feature is theirs alone, and their sampling, clipping and noise are those of any
node. The learning rate is so small that the parameters stay as they were initialised: a canary
would else be learnt, and its gradient would fall below the clip. (The ε of DP-Adam does not depend
on the learning rate.)

Sources: Nasr et al., "Tight Auditing of Differentially Private Machine Learning" (USENIX Security
2023), white-box gradient canaries; Steinke, Nasr and Jagielski, "Privacy Auditing with One (1)
Training Run" (NeurIPS 2023).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from graphdp.audit.front_door import audit_block, calibration_entry, edgeless, trained
from graphdp.audit.one_run import guess, one_run_bound, one_run_noise_bound
from graphdp.data.split import Split
from graphdp.errors import GraphDPError
from graphdp.methods.block import Observer
from graphdp.noise import NoiseSource
from graphdp.privacy import calibrated
from graphdp.privacy.calibration import Calibration
from graphdp.rng import generator, stream_seed

CLASSES, HIDDEN = 3, 16
LEARNING_RATE = 1e-9
#: Members that are trained as one stack.
STACK = 2000


Reads = Callable[[np.ndarray, list[int], dict[str, Any], str], tuple[Any, ...]]


def _nothing(x: np.ndarray, seeds: list[int], setting: dict[str, Any], folder: str) -> tuple:
    """Of a stage that reads no stage before it."""
    return ()


@dataclass(frozen=True)
class Training:
    """A method's stage that trains with DP-Adam on features, as an audit runs it.

    stage: its function. setting: the hyperparameters that are not DP-Adam's. reads: (features
    float32 (n, f), seeds, setting, an empty folder) -> what it is given of the stages before it.
    feature: a canary's own feature, of which others have none, as the network reads it.
    one_run_feature: that of many canaries in one run. What the gradient has elsewhere, where it
    meets those of other canaries, is lost there: the larger, the less.
    max_grad_norm: C, so small that a canary's gradient is clipped. phase: the plan's, that it
    trains. plan: settings of the plan besides DP-Adam's, of which the stage reads its calibration.
    clipped: `clipped` for a network that is no stack.
    """

    stage: Callable[..., list[tuple]]
    setting: Mapping[str, Any]
    reads: Reads = _nothing
    feature: float = 10.0
    one_run_feature: float = 30.0
    max_grad_norm: float = 1.0
    phase: str = "classifier"
    plan: Mapping[str, Any] = field(default_factory=dict)
    clipped: Callable[..., Any] | None = None


@dataclass(frozen=True)
class Phase:
    """DP-Adam as calibrated: what the plan accounts is what is trained.

    calibration: of a plan of which canaries attack the training's phase. num_train, batch_size,
    epochs: those of the plan. classes: that labels may be of.
    """

    training: Training
    calibration: Calibration
    num_train: int
    batch_size: int
    epochs: int
    classes: int = CLASSES

    @property
    def mechanism(self):
        """The plan's DP-SGD mechanism of this phase."""
        own = self.training.phase
        (found,) = (m for m in self.calibration.plan.mechanisms if m.phase == own)
        return found

    @property
    def entry(self) -> dict[str, Any]:
        """The calibration, as a job reads it."""
        settings = {"max_grad_norm": self.training.max_grad_norm}
        if self.training.plan:
            rounds = {"epochs": self.epochs, "batch_size": self.batch_size}
            settings |= rounds | self.training.plan
        return calibration_entry(self.calibration, self.num_train, settings)

    def noise_std(self, phase: str = "") -> float:
        """σ of the noise on a sum of clipped gradients, as the plan has it."""
        return calibrated.phase(self.entry, phase or self.training.phase).run.noise_std

    def train(
        self,
        x: np.ndarray,
        labels: np.ndarray,
        train: np.ndarray,
        seeds: list[int],
        names: Callable[[int], tuple[int | str, ...]],
        observe: Observer,
        noise: NoiseSource | None = None,
    ) -> None:
        """Train a model per seed on the nodes `train` with the method's stage.

        noise: what draws the noise, in place of the project's own.
        Raises `GraphDPError` if other noise was drawn than the plan accounts, as a job does.
        """
        last = np.array([len(x) - 1])
        graph, nodes = edgeless(x, labels, self.classes), Split(train, last, last)
        block = audit_block(self.entry, graph, seeds, names, nodes, observe, noise)
        setting = {
            **self.training.setting,
            "learning_rate": LEARNING_RATE,
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "max_grad_norm": self.training.max_grad_norm,
        }
        with TemporaryDirectory(prefix="graphdp-audit-") as folder:
            reads = self.training.reads(x, seeds, setting, folder)
            trained(self.training.stage, block, setting, reads)


def _block(parameters: Any, x: np.ndarray) -> Any:
    """`x`, float32 (n, f), as a batch of every member: the same for every hop that it reads."""
    import torch

    from graphdp.training.inputs import DenseBlock
    from graphdp.training.networks import Branches

    layout = parameters.layout
    rows = torch.from_numpy(x.T.copy()).expand(len(parameters), layout.leaves[0].groups, -1, -1)
    block = DenseBlock(rows)
    return [block] if isinstance(layout.layers[0], Branches) else block


def clipped(phase: Phase, parameters, x: np.ndarray, labels: np.ndarray):
    """The clipped gradients of the rows of `x`, float32 (n, f), with `labels`, int64 (n,), summed,
    for every member: a stack (S, P)."""
    if phase.training.clipped:
        return phase.training.clipped(phase, parameters, x, labels)
    import torch

    from graphdp.training.inputs import Scratch
    from graphdp.training.private import add_clipped_gradients

    members, gradients = len(parameters), parameters.gradients()
    add_clipped_gradients(
        parameters,
        _block(parameters, x),
        torch.from_numpy(labels).expand(members, -1),
        parameters.values.new_ones(members, len(x)),
        phase.training.max_grad_norm,
        gradients,
        Scratch(parameters.values),
    )
    return gradients


def _log_ratio(found: Any, square: Any, noise_std: float, rate: float) -> Any:
    """Log-likelihood ratio of one round, for and against a canary that is sampled with `rate`.

    found: the inner product of the noisy sum with what the canary adds to it if it is sampled.
    square: the squared norm of that.
    """
    import torch

    exponent = (found - square / 2) / noise_std**2
    # rate 1 is legal: then the logarithm of 1 - q is -∞ and drops out
    out = torch.full_like(exponent, math.log1p(-rate) if rate < 1 else -math.inf)
    return torch.logaddexp(out, exponent + math.log(rate))


def white_box_scores(phase: Phase, world: str, draws: int, seed: int) -> np.ndarray:
    """Log-likelihood ratios of `draws` training runs with ("present") or without one canary.

    All other nodes are equal, so that their sum has one direction, which the attacker knows and
    projects out. What remains of the canary's clipped gradient, of norm L, is in a round's sum with
    probability q, so the round's ratio is ln(1 - q + q exp((s L - L² / 2) / (σC)²)), where s is
    the noisy sum along that direction. Returns float64 (draws,).
    """
    x = np.zeros((phase.num_train + 2, 2), np.float32)
    x[0, 0] = phase.training.feature
    labels = np.ones(len(x), np.int64)
    labels[0] = 0
    first = 0 if world == "present" else 1
    rate, std = phase.mechanism.sampling_rate, phase.noise_std()
    scores = np.zeros(draws)
    known: dict[tuple[int, ...], tuple[Any, Any]] = {}

    def observe(_, runs, parameters, noisy_sum):
        if tuple(runs) not in known:  # the parameters stay as they are in a run's first round
            known.clear()
            canary, other = (
                clipped(phase, parameters, x[[i]], labels[[i]]).values.double() for i in (0, 1)
            )
            along = (canary * other).sum(1) / (other * other).sum(1).clamp_min(1e-30)
            canary -= along[:, None] * other
            known[tuple(runs)] = canary, canary.norm(dim=1) ** 2
        canary, square = known[tuple(runs)]
        found = (noisy_sum.values.double() * canary).sum(1)
        scores[np.asarray(runs)] += _log_ratio(found, square, std, rate).numpy()

    for start in range(0, draws, STACK):
        runs = list(range(start, min(start + STACK, draws)))
        train = np.arange(first, phase.num_train)
        phase.train(x, labels, train, runs, lambda run: ("audit", seed, world, run), observe)
    return scores


@dataclass(frozen=True)
class OneRun:
    """The outcome of a one-run audit: counts, and lower bounds on ε at δ.

    noise_multiplier, epsilon: as of `one_run_noise_bound`. without_assumption: as of
    `one_run_bound`.
    """

    canaries: int
    included: int
    guesses: int
    correct: int
    noise_multiplier: float | None
    epsilon: float
    without_assumption: float
    delta: float
    confidence: float


def one_run(
    phase: Phase, canaries: int, guesses: int, delta: float, seed: int, confidence: float = 0.95
) -> OneRun:
    """Audit one training run: each canary is a training node or not by the toss of a coin.

    Canary i is the only node with feature i, so the sum of all canaries' gradients holds, in the
    first layer's weights for feature i, that of canary i alone; a canary's score is the
    log-likelihood ratio of the noisy sums there. The number of guesses is fixed beforehand.

    Raises GraphDPError when there are more canaries than training nodes.
    """
    if canaries > phase.num_train:
        raise GraphDPError(f"{canaries} canaries among {phase.num_train} training nodes: use fewer")
    size = phase.num_train + 2
    x = np.zeros((size, canaries), np.float32)
    x[np.arange(canaries), np.arange(canaries)] = phase.training.one_run_feature
    labels = generator("audit", seed, "labels").integers(0, CLASSES, size)
    inside = generator("audit", seed, "coins").random(canaries) < 0.5
    train = np.concatenate([np.flatnonzero(inside), np.arange(canaries, phase.num_train)])
    rate, std = phase.mechanism.sampling_rate, phase.noise_std()
    scores = np.zeros(canaries)

    def observe(_, runs, parameters, noisy_sum):
        name = f"{parameters.layout.layers[0].name}.weight"
        expected = clipped(phase, parameters, x[:canaries], labels[:canaries])[name][0].double()
        # (groups, features, outputs): all that belongs to a feature
        found = (expected * noisy_sum[name][0]).sum((0, 2))
        scores[:] += _log_ratio(found, (expected**2).sum((0, 2)), std, rate).numpy()

    run = stream_seed(seed, "one run")
    phase.train(x, labels, train, [run], lambda run: ("audit", run), observe)
    guessed = guess(scores, guesses)
    correct = int(((guessed > 0) & inside).sum() + ((guessed < 0) & ~inside).sum())
    counts = canaries, guesses, correct
    noise, epsilon = one_run_noise_bound(*counts, phase.calibration.plan, delta, confidence)
    return OneRun(
        canaries=canaries,
        included=int(inside.sum()),
        guesses=guesses,
        correct=correct,
        noise_multiplier=noise,
        epsilon=epsilon,
        without_assumption=one_run_bound(*counts, delta, confidence),
        delta=delta,
        confidence=confidence,
    )
