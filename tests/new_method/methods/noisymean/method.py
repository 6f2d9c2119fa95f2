"""NoisyMean, from top to bottom.

1. release   S = the sum of every class's clipped features over the training nodes, plus noise
2. predict   the class c whose mean points most in the direction of the node's features:
             the largest <x, S_c> / |S_c|

A mean is a sum divided by a number of nodes. The direction needs no such number, so none is
released. At level none the same without noise. Edges are not read.
"""

import math
from typing import Any

import numpy as np
from scipy.sparse import issparse

from graphdp.methods.block import Block
from graphdp.methods.noisymean import plan_settings
from graphdp.methods.settings import key
from graphdp.privacy.execution import Execution
from graphdp.rng import keyed_generator

#: Features of norm C are so many steps of the grid long.
STEPS = 1000


def fit(block: Block, settings: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any], Any]]:
    """Fit every seed of the block x setting; returns (seed, setting, fitted model) triples."""
    return [(seed, setting, _fit(block, seed, setting)) for seed, setting in block.runs(settings)]


def _fit(block: Block, seed: int, setting: dict[str, Any]) -> Any:
    """One model, with what was executed by phase: a row is refused if the plan says otherwise."""
    from graphdp.training import Fitted  # torch, which reading a card must not import

    graph, nodes = block.graph, block.split(seed)
    x = graph.x.toarray() if issparse(graph.x) else graph.x
    # The plan's phase "sums" with its noise; None at level none.
    planned = block.phase(plan_settings(block.level, setting), seed, "sums")
    noise_std = planned.run.noise_std if planned else 0.0
    # The noise multiplier is part of the name, as the graph is: at another one, or on a graph with
    # a node less, the same noise would be drawn again, and the two releases would give it away.
    multiplier = planned.noise_multiplier if planned else 0.0
    stream = block.noise_stream(seed, "sums", key(setting), multiplier)
    sums, executed = noisy_sums(
        x[nodes.train],
        graph.y[nodes.train],
        graph.num_classes,
        setting["feature_clip"],
        noise_std,
        keyed_generator(*stream),
    )
    means = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
    scores = x @ means.T
    predictions = scores.argmax(axis=1)

    def accuracy(part: np.ndarray) -> float:
        return float((predictions[part] == graph.y[part]).mean())

    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    posteriors = exponentials / exponentials.sum(axis=1, keepdims=True)
    return Fitted(
        train_accuracy=accuracy(nodes.train),
        val_accuracy=accuracy(nodes.val),
        test_accuracy=accuracy(nodes.test),
        best_epoch=1,
        predictions=predictions.astype(np.int16),
        embedding=None,
        parameters={"means": means},
        history=np.array([accuracy(nodes.val)]),
        rounds=0,
        executed={"sums": executed} if executed else {},
        posteriors=posteriors.astype(np.float32) if block.posteriors else None,
    )


def noisy_sums(
    x: np.ndarray,
    y: np.ndarray,
    num_classes: int,
    feature_clip: float,
    noise_std: float,
    rng: np.random.Generator,
) -> tuple[np.ndarray, Execution | None]:
    """The release: the sums of each class's clipped features, and what noise was drawn.

    x: (n, f). y: int (n,), the classes. feature_clip: the most that one node moves the sums, in
    L2. noise_std: σ in the same units; 0 for no noise, and then nothing was executed.
    Returns float64 (num_classes, f).

    Rows are cut to norm C and rounded towards 0 to whole steps of C / STEPS. So a row is at most
    STEPS steps long: the square of its length is a whole number.
    """
    step = feature_clip / STEPS
    x = np.asarray(x, dtype=np.float64)
    norms = np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    whole = np.trunc(x * np.minimum(1.0, feature_clip / norms) / step).astype(np.int64)
    sums = np.zeros((num_classes, x.shape[1]), dtype=np.int64)
    np.add.at(sums, y, whole)
    if noise_std == 0:
        return sums * step, None
    sums += discrete_gaussian(noise_std / step, sums.shape, rng)
    # Of this shape's name, so that nothing is said of it that is proven of `graphdp.noise` alone.
    drawn = Execution("none", 1, noise_std, sensitivity=feature_clip, noise="discrete gaussian")
    return sums * step, drawn


def discrete_gaussian(sigma: float, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Independent draws, int64: k has a probability proportional to exp(-k² / (2 σ²)).

    By rejection from a discrete Laplace (Canonne, Kamath and Steinke 2020, Algorithm 3), with
    floating-point numbers where they have fractions.
    """
    scale = math.floor(sigma) + 1
    found = np.zeros(0, dtype=np.int64)
    while found.size < math.prod(shape):
        # The difference of two geometric numbers is discrete Laplace.
        first, second = rng.geometric(-math.expm1(-1 / scale), (2, 2 * math.prod(shape) + 16))
        drawn = first - second
        accepted = np.exp(-((np.abs(drawn) - sigma**2 / scale) ** 2) / (2 * sigma**2))
        found = np.concatenate([found, drawn[rng.random(drawn.size) < accepted]])
    return found[: math.prod(shape)].reshape(shape)
