"""Attacks on DP-Adam: canaries whose gradients an attacker who sees every noisy sum looks for.

The training is `graphdp.training.train`, unchanged; its `observe` shows the noisy sum of clipped
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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphdp.audit.front_door import calibration_entry
from graphdp.audit.one_run import guess, one_run_bound
from graphdp.errors import GraphDPError
from graphdp.privacy import calibrated
from graphdp.privacy.calibration import Calibration
from graphdp.rng import generator, stream_seed

HOPS, CLASSES, HIDDEN = 2, 3, 16
LEARNING_RATE = 1e-9
#: A canary's own feature; others have none of it. Large, so that its gradient is clipped.
CANARY_FEATURE = 10.0
# Members that are trained as one stack.
_BLOCK = 2000


@dataclass(frozen=True)
class Network:
    """A network as a method builds it where nodes are protected.

    shape: number of features -> network. hops: of a network that reads X⁰ and as many sums; 0 for
    one that reads the features alone.
    """

    shape: Callable[[int], Any]
    hops: int = 0


@dataclass(frozen=True)
class Phase:
    """One DP-Adam phase as calibrated: what the plan accounts is what is trained.

    calibration: of a plan with a phase "classifier". num_train, batch_size, epochs: those of the
    plan.
    """

    network: Network
    calibration: Calibration
    num_train: int
    batch_size: int
    epochs: int

    @property
    def mechanism(self):
        """The plan's DP-SGD mechanism of this phase."""
        (found,) = (m for m in self.calibration.plan.mechanisms if m.phase == "classifier")
        return found

    def inputs(self, x: np.ndarray, members: int) -> Any:
        """`x`, float32 (n, f), as the network reads it: shared, or the same for every hop."""
        if not self.network.hops:
            return x
        return [np.repeat(x[:, None], self.network.hops + 1, axis=1)] * members

    def block(self, x: np.ndarray, members: int) -> Any:
        """`x` as a batch of every member."""
        import torch

        from graphdp.training.inputs import DenseBlock

        groups = 1 + self.network.hops
        rows = torch.from_numpy(x.T.copy()).expand(members, groups, -1, -1)
        return DenseBlock(rows)

    def train(self, x: np.ndarray, labels: np.ndarray, members: list, observe: Any) -> None:
        """Train `members`; refuses other noise than the plan accounts, as the workflow does."""
        from graphdp.training import DPAdam, train

        entry = calibration_entry(self.calibration, self.num_train)
        run = calibrated.phase(entry, "classifier").run
        fitted = train(
            self.network.shape(x.shape[1]),
            self.inputs(x, len(members)),
            labels,
            members,
            DPAdam(self.epochs, run.batch_size, run.sampling_rate, run.count, run.max_grad_norm),
            checkpoint="last",
            device="cpu",
            observe=observe,
        )
        for model in fitted:
            calibrated.check_execution(entry, {"classifier": model.executed})


def _clipped(phase: Phase, parameters, x: np.ndarray, labels: np.ndarray):
    """The clipped gradients of the rows of `x`, summed, for every member: a stack (S, P)."""
    import torch

    from graphdp.training.inputs import Scratch
    from graphdp.training.private import add_clipped_gradients

    members, gradients = len(parameters), parameters.gradients()
    add_clipped_gradients(
        parameters,
        phase.block(x, members),
        torch.from_numpy(labels).expand(members, -1),
        parameters.values.new_ones(members, len(x)),
        phase.mechanism.max_grad_norm.value,
        gradients,
        Scratch(parameters.values),
    )
    return gradients


def white_box_scores(phase: Phase, world: str, draws: int, seed: int) -> np.ndarray:
    """Log-likelihood ratios of `draws` training runs with ("present") or without one canary.

    All other nodes are equal, so that their sum has one direction, which the attacker knows and
    projects out. What remains of the canary's clipped gradient, of norm L, is in a round's sum with
    probability q, so the round's ratio is ln(1 - q + q exp((s L - L² / 2) / (σC)²)), where s is
    the noisy sum along that direction. Returns float64 (draws,).
    """
    import torch

    from graphdp.training import Member

    x = np.zeros((phase.num_train + 2, 2), np.float32)
    x[0, 0] = CANARY_FEATURE
    labels = np.ones(len(x), np.int64)
    labels[0] = 0
    first = 0 if world == "present" else 1
    train = np.arange(first, phase.num_train)
    held_out = np.array([phase.num_train])
    mechanism, noise = phase.mechanism, phase.calibration.noise_multiplier
    rate, std = mechanism.sampling_rate, noise * mechanism.max_grad_norm.value
    scores = np.zeros(draws)

    for start in range(0, draws, _BLOCK):
        members = [
            Member(("audit", seed, world, run), LEARNING_RATE, noise, train, held_out, held_out)
            for run in range(start, min(start + _BLOCK, draws))
        ]

        def observe(chunk, parameters, noisy_sum, start=start):
            canary, other = (
                _clipped(phase, parameters, x[[i]], labels[[i]]).values.double() for i in (0, 1)
            )
            along = (canary * other).sum(1) / (other * other).sum(1).clamp_min(1e-30)
            canary -= along[:, None] * other
            length = canary.norm(dim=1)
            found = (noisy_sum.values.double() * canary).sum(1)
            exponent = (found - length**2 / 2) / std**2
            # rate 1 is legal: then the logarithm of 1 - q is -∞ and drops out
            ratio = torch.logaddexp(
                torch.full_like(exponent, math.log1p(-rate) if rate < 1 else -math.inf),
                exponent + math.log(rate),
            )
            scores[start + np.asarray(chunk)] += ratio.numpy()

        phase.train(x, labels, members, observe)
    return scores


@dataclass(frozen=True)
class OneRun:
    """The outcome of a one-run audit: counts, and the lower bound on ε at δ."""

    canaries: int
    included: int
    guesses: int
    correct: int
    epsilon: float
    delta: float
    confidence: float


def one_run(
    phase: Phase, canaries: int, guesses: int, delta: float, seed: int, confidence: float = 0.95
) -> OneRun:
    """Audit one training run: each canary is a training node or not by the toss of a coin.

    Canary i is the only node with feature i, so the sum of all canaries' gradients holds, in the
    first layer's weights for feature i, that of canary i alone; a canary's score adds up its inner
    product with the noisy sums there. The number of guesses is fixed beforehand.

    Raises GraphDPError when there are more canaries than training nodes.
    """
    from graphdp.training import Member

    if canaries > phase.num_train:
        raise GraphDPError(f"{canaries} canaries among {phase.num_train} training nodes: use fewer")
    size = phase.num_train + 2
    x = np.zeros((size, canaries), np.float32)
    x[np.arange(canaries), np.arange(canaries)] = CANARY_FEATURE
    labels = generator("audit", seed, "labels").integers(0, CLASSES, size)
    inside = generator("audit", seed, "coins").random(canaries) < 0.5
    train = np.concatenate([np.flatnonzero(inside), np.arange(canaries, phase.num_train)])
    held_out = np.array([size - 1])
    noise = phase.calibration.noise_multiplier
    member = Member(
        ("audit", stream_seed(seed, "one run")), LEARNING_RATE, noise, train, held_out, held_out
    )
    scores = np.zeros(canaries)

    def observe(chunk, parameters, noisy_sum):
        name = f"{parameters.layout.layers[0].name}.weight"
        expected = _clipped(phase, parameters, x[:canaries], labels[:canaries])[name][0]
        # (groups, features, outputs): all that belongs to a feature
        scores[:] += (expected * noisy_sum[name][0]).sum((0, 2)).double().numpy()

    phase.train(x, labels, [member], observe)
    guessed = guess(scores, guesses)
    correct = int(((guessed > 0) & inside).sum() + ((guessed < 0) & ~inside).sum())
    bound = one_run_bound(canaries, guesses, correct, delta, confidence)
    return OneRun(canaries, int(inside.sum()), guesses, correct, bound, delta, confidence)
