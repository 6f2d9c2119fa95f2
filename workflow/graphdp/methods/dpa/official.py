"""DPA-GNN as the authors' code runs it (MLPrivacy/DPA-GNN: train.py, utils.py), in plain sums.

What its three parties add up is the sum itself, since all shares of a pair are added by somebody.
With the degrees with dummies d, Ã the pairs kept, and noise in the first round alone:

  H⁰ = rows of features over their norms           Y⁰ = one-hot labels, 0 for test nodes
  H¹ = (Ã H⁰ + N(0, σ_h²)) / d,  Hˡ = Ã Hˡ⁻¹ / d   Y likewise with σ_y; the last is not divided
  a network (`network`) on H^(l_h), whose targets are the largest entries of Y^(l_y)

Where this is not what the paper says: learning rate 0.01 and weight decay 5e-4; every node sends to
itself, and that pair counts in D; a key with more than D pairs loses some at random, whoever sent
them; dummies are 1 + a geometric number; validation nodes send their labels; the last weights are
kept. Here D is given, where the code takes a quantile of the degrees (Cora, 0.8: 6). The noise is
that of `graphdp.noise`, not numpy's; shares, which add up to nothing, are left out. Level none:
all pairs, no dummies, no noise. `noise: laplace` is that of the paper's Table 7. `scaling` takes
other degrees for d; of what is `public` features or labels have no noise, and edges no dummies.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from graphdp.methods.block import Block
from graphdp.methods.dpa import official_plan_settings
from graphdp.methods.dpa.plan import FIRST, LABELS
from graphdp.methods.settings import key
from graphdp.privacy.execution import Execution
from graphdp.rng import generator


def fit(block: Block, settings: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any], Any]]:
    """Train every seed of the block x setting; returns (seed, setting, fitted model) triples."""
    return [(seed, setting, _fit(block, seed, setting)) for seed, setting in block.runs(settings)]


def _fit(block: Block, seed: int, setting: dict[str, Any]) -> Any:
    from graphdp.methods.dpa.features import chosen_columns, one_hot, unit_rows
    from graphdp.methods.dpa.network import train

    graph, split = block.graph, block.split(seed)
    stream = block.stream(seed, "dpa", key(setting))
    pairs, degrees = kept_pairs(graph, setting, generator(*stream, "lists"), block.level == "none")
    x = unit_rows(chosen_columns(graph.x, setting, (block.dataset, seed)))
    y = one_hot(graph.y, graph.num_classes, split)
    executed: dict[str, Execution] = {}

    def rounds(rows: np.ndarray, phase: str, count: int) -> np.ndarray:
        planned = None
        if setting.get("public") != ("labels" if phase == LABELS else "features"):
            planned = block.phase(official_plan_settings(block.level, setting), seed, phase)
        for number in range(count):
            rows = pairs @ rows
            if number == 0 and planned is not None:
                name = block.noise_stream(seed, "dpa", phase, key(setting))
                rows, executed[phase] = _noisy(rows, planned.run, name)
            if block.observe:
                block.observe(phase, [seed], None, rows)
            if number < count - 1:
                rows = rows / degrees[:, None]
        return rows

    return train(
        rounds(x, FIRST, setting["feature_layers"]),
        rounds(y, LABELS, setting["label_layers"]).argmax(1),
        graph.y,
        split,
        graph.num_classes,
        setting,
        stream,
        block.device,
        executed,
        block.posteriors,
    )


def _noisy(rows: np.ndarray, run: Execution, name: tuple) -> tuple[np.ndarray, Execution]:
    from graphdp.noise import GridNoise, add_noise

    if run.noise == "laplace":
        return _with_laplace(rows, run.noise_std / math.sqrt(2), name), replace(run, count=1)
    noisy = add_noise(rows, run.noise_std, GridNoise([name]))
    drawn = Execution("none", 1, run.noise_std, sensitivity=run.sensitivity, draws=int(noisy.size))
    return noisy, drawn


def _with_laplace(rows: np.ndarray, scale: float, name: tuple) -> np.ndarray:
    """Rows rounded to a grid of scale/2048 to scale/1024, with discrete Laplace noise on it."""
    from graphdp.coins import Coins

    grid = 2.0 ** (math.frexp(scale)[1] - 11)
    coins = Coins(*name)
    noise = [coins.laplace(rows.shape[1], grid / scale) for _ in rows]
    return grid * (np.rint(rows / grid) + np.array(noise))


def kept_pairs(
    graph: Any, setting: dict[str, Any], rng: np.random.Generator, whole: bool
) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Ã, (n, n) with a row per key, and what sums are divided by, (n,): degrees with dummies, or
    others if `scaling` says so. whole: all pairs, no dummies."""
    n = graph.num_nodes
    held = np.diff(graph.indptr)
    senders = np.repeat(np.arange(n), held)
    keys = np.concatenate([graph.indices, np.arange(n)])
    senders = np.concatenate([senders, np.arange(n)])
    counts = np.zeros(n)
    if not whole:
        order = np.lexsort((rng.random(len(keys)), keys))
        keys, senders = keys[order], senders[order]
        first = np.searchsorted(keys, np.arange(n))
        place = np.arange(len(keys)) - first[keys]
        kept = place < setting["max_degree"]
        keys, senders = keys[kept], senders[kept]
        dummies = rng.geometric(setting["dummy_rate"], n)
        if "scaling" not in setting and setting.get("public") != "edges":
            counts += dummies
    counts += np.bincount(keys, minlength=n)
    ones = np.ones(len(keys))
    pairs = sparse.csr_matrix((ones, (keys, senders)), shape=(n, n))
    return pairs, held + 1.0 if setting.get("scaling") == "raw" else counts
