"""Attacks on DPA-GNN as its authors' code runs it, by the server, who sees every round's sums.

What is run is the stage `official.fit`, on copies of a pair side by side. No list of these is cut.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from graphdp.audit.front_door import AuditBlock, trained
from graphdp.methods.dpa import official
from graphdp.methods.dpa.plan import FIRST, LABELS
from graphdp.methods.dpa.sums_attack import (
    CALL_USERS,
    NETWORK,
    View,
    blocks_of,
    first_rows,
    ratio,
)
from graphdp.methods.dpa.worlds import WORLDS, Pair
from graphdp.privacy import calibrated
from graphdp.privacy.calibration import Calibration
from graphdp.progress import brief


def _seen(
    pair: Pair,
    calibration: Calibration,
    setting: dict[str, Any],
    world: str,
    draws: int,
    seed: int,
) -> Iterator[tuple[dict[str, AuditBlock], View]]:
    """What is released of `draws` runs, some at a time."""
    most = CALL_USERS // pair.num_nodes
    for start in range(0, draws, most):
        view, copies = View(), min(most, draws - start)
        blocks = blocks_of(pair, calibration, copies, (seed, start), world, view)
        with brief():
            trained(official.fit, blocks[world], NETWORK | setting)
        yield blocks, view


def first_scores(
    pair: Pair,
    calibration: Calibration,
    setting: dict[str, Any],
    world: str,
    draws: int,
    seed: int,
) -> np.ndarray:
    """Log likelihood ratios of the noisy rounds of both streams: float64 (draws,)."""
    found = []
    for blocks, view in _seen(pair, calibration, setting, world, draws, seed):
        entry = blocks[world].entry({}, 0)
        total = 0.0
        for phase, stream in ((FIRST, "features"), (LABELS, "labels")):
            released = next(sums for name, _, sums in view.rounds if name == phase)
            means = {one: _sums(blocks[one], stream) for one in WORLDS}
            std = calibrated.phase(entry, phase).run.noise_std
            total = total + ratio(pair, released, means, std)
        found.append(total)
    return np.concatenate(found)


def _sums(block: AuditBlock, stream: str) -> np.ndarray:
    """What keys receive in the first round, the pairs with themselves included: (n, C)."""
    graph, rows = block.graph, first_rows(block, {}, stream)
    ones = np.ones(len(graph.indices))
    sent = sparse.csr_matrix((ones, graph.indices, graph.indptr), shape=(len(rows), len(rows)))
    return sent.T @ rows + rows


def equal_scores(
    pair: Pair,
    calibration: Calibration,
    setting: dict[str, Any],
    world: str,
    draws: int,
    seed: int,
) -> np.ndarray:
    """How far the second sums of users 1 and 2 are apart, over their size: float64 (draws,)."""
    found = []
    for _, view in _seen(pair, calibration, setting, world, draws, seed):
        second = [sums for phase, _, sums in view.rounds if phase == FIRST][1]
        rows = second.reshape(-1, pair.num_nodes, second.shape[1])
        apart = np.linalg.norm(rows[:, 1] - rows[:, 2], axis=1)
        found.append(apart / np.linalg.norm(rows[:, 2], axis=1))
    return np.concatenate(found)
