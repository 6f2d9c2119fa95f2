"""Attacks on naive DP-SGD: what the audits of DP-Adam need to run it, and shuffled batches.

The authors' code cuts a permutation of the training nodes into batches, and its round is a batch's
mean of gradients of norm C. Here all nodes but node 0 have one gradient g, and node 0 has -g: with
two classes another label turns a gradient round. So without node 0 every round's sum (its mean
times B) is B g plus noise, and with it that of one batch an epoch, of b nodes, moves by 2 C B / b:
which batch that is has the law b / N, and a run's score is its log-likelihood ratio.
"""

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from graphdp.methods.block import Block

if TYPE_CHECKING:
    from graphdp.audit.canaries import Phase

CLASSES = 2
#: Runs of which one training is made.
_RUNS = 1000


def fit(block: Block, settings: list[dict[str, Any]]) -> list[tuple]:
    """The stage `naive.fit`, whose one network at a time is shown as a stack of one."""
    from graphdp.methods.mlp import naive

    def observe(phase: str, runs: list[int], *flat: Any) -> None:
        block.observe(phase, runs, *(SimpleNamespace(values=one[None]) for one in flat))

    return naive.fit(replace(block, observe=observe), settings)


def clipped(phase: "Phase", parameters: Any, x: np.ndarray, labels: np.ndarray) -> SimpleNamespace:
    """The clipped gradients of the rows of `x`, float32 (n, f), with `labels`, int64 (n,), summed,
    or those of norm C of the authors' code: a stack of one, (1, P)."""
    import torch

    from graphdp.methods.mlp import naive

    (values,), setting = parameters.values, phase.training.setting
    widths = [x.shape[1], *[setting["hidden"]] * (setting["layers"] - 1), phase.classes]
    sums = torch.zeros_like(values)
    naive.Network(widths, x, values).add_gradients(
        torch.arange(len(x)),
        torch.from_numpy(labels),
        sums,
        phase.training.max_grad_norm,
        scaled=phase.calibration.plan.method == "naiveofficial",
    )
    return SimpleNamespace(values=sums[None])


def shuffled_scores(phase: "Phase", world: str, draws: int, seed: int) -> np.ndarray:
    """Log-likelihood ratios of `draws` training runs with ("present") or without node 0: float64
    (draws,).

    The learning rate is so small that the parameters stay as they were, so that the epochs of many
    runs are those of one long training, whose plan is the phase's with more rounds and the same
    noise. The last batch needs two nodes: without node 0 there are then as many rounds.
    """
    from scipy.special import logsumexp

    from graphdp.audit import canaries

    nodes, size = phase.num_train, min(phase.batch_size, phase.num_train)
    x = np.full((nodes + 1, 1), phase.training.feature, np.float32)
    labels = np.zeros(len(x), np.int64)
    labels[0] = 1
    train = np.arange(0 if world == "present" else 1, nodes)
    batches = np.diff([*range(0, nodes, size), nodes])
    std, found = phase.noise_std(), []
    known: list[tuple[Any, Any]] = []

    def observe(_, runs, parameters, noisy_sum):
        if not known:
            turned, other = (
                canaries.clipped(phase, parameters, x[[i]], labels[[i]]).values[0].double()
                for i in (0, 1)
            )
            known.append((turned - other, size * other))
        change, base = known[0]
        scaled = size / batches[len(found) % len(batches)] * change
        along = (noisy_sum.values[0].double() - base) @ scaled
        found.append(float(along - scaled @ scaled / 2) / std**2)

    for start in range(0, draws, _RUNS):
        known.clear()
        name = ("audit", seed, "shuffled", world, start)
        longer = repeated(phase, min(_RUNS, draws - start))
        longer.train(x, labels, train, [0], lambda _, name=name: name, observe)
    ratios = np.reshape(found, (draws, phase.epochs, len(batches)))
    return logsumexp(ratios, axis=2, b=batches / nodes).sum(1)


def repeated(phase: "Phase", count: int) -> "Phase":
    """A phase of `count` times the epochs, at the same noise."""
    calibration = phase.calibration
    training = phase.mechanism
    more = replace(training, steps=training.steps * count, executed=training.executed * count)
    plan = replace(calibration.plan, mechanisms=(more,))
    return replace(phase, epochs=phase.epochs * count, calibration=replace(calibration, plan=plan))
