"""Attacks on the noisy sums that ProGAP's stages release.

What is run is the stage `graphdp.methods.progap.method.fit`. Copies of a small graph lie side by
side: every row has its own noise and, in sampled lists, its own keys, and all that is trained is
trained on further nodes without edges. So given the models the copies are independent runs. The
sums are not normalised after the noise: along a direction that the attacker knows they are Gaussian
around what is summed there.
"""

from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from graphdp.audit.front_door import AuditBlock, audit_block, calibration_entry, graph_of, trained
from graphdp.audit.recorder import Recorder
from graphdp.data.graph import Graph, csr_from_edges
from graphdp.data.split import Split
from graphdp.graphs.bounds import bound_name
from graphdp.methods.bound_degree import bound_degree
from graphdp.methods.progap.method import fit
from graphdp.privacy.calibration import Calibration
from graphdp.privacy.protection import protects_nodes
from graphdp.progress import brief
from graphdp.releases import aggregation
from graphdp.rng import generator

CLASSES = 2
#: Nodes without edges beside the copies: all training nodes, and two to validate and test on.
TRAIN = 24
# Rows of one graph: bounds the memory to a few hundred MB.
_ROWS = 1 << 18


@dataclass(frozen=True)
class Sums:
    """A graph of `nodes` with and without one unit, of which copies are attacked.

    present, absent: (source, target) pairs. rows: the (row, source) pairs whose sums are looked at,
    along the source's own row. sign: 1 if they grow with the unit, -1 if they shrink.
    """

    nodes: int
    present: tuple[tuple[int, int], ...]
    absent: tuple[tuple[int, int], ...]
    rows: tuple[tuple[int, int], ...]
    sign: int = 1

    def graph(self, world: str, copies: int) -> Graph:
        """`copies` of a world, whose nodes look all the same, then the nodes without edges."""
        pairs = np.array(self.present if world == "present" else self.absent, np.int64)
        starts = np.arange(copies)[:, None] * self.nodes
        ends = [(starts + pairs.reshape(-1, 2)[:, side]).ravel() for side in (0, 1)]
        size = copies * self.nodes + TRAIN + 2
        x = np.ones((size, 2), np.float32)
        x[:, 1] = 0.5
        x[-TRAIN - 2 :] = generator("audit", "features").standard_normal((TRAIN + 2, 2))
        labels = np.arange(size) % CLASSES
        return graph_of(*csr_from_edges(*ends, size, symmetrise=False), x, labels, CLASSES)


def edge(undirected: bool) -> Sums:
    """One edge 0 → 1, with 1 → 0 if `undirected`, of two nodes that have no other."""
    pairs = ((0, 1), (1, 0))[: 1 + undirected]
    return Sums(2, pairs, (), tuple((target, source) for source, target in pairs))


def common_neighbours(senders: int, max_degree: int) -> Sums:
    """`graphdp.audit.graph_pairs.common_neighbours` without anchors: one of the D + 1 nodes that
    all senders list is removed, and the other D are heard of more often."""
    targets, first = max_degree + 1, max_degree + 1
    listed = tuple((first + s, t) for s in range(senders) for t in range(targets))
    others = tuple(pair for pair in listed if pair[1])
    rows = tuple((target, first) for target in range(1, targets))
    return Sums(targets + senders, listed, others, rows, sign=-1)


def sum_scores(
    sums: Sums,
    calibration: Calibration,
    setting: dict[str, Any],
    world: str,
    draws: int,
    seed: int,
) -> np.ndarray:
    """The noisy sums of `draws` copies, along what the unit moves them by: float64 (draws,).

    Of an edge, whose rows are empty without it, that is the log-likelihood ratio but for a constant
    and a factor. setting: as "fit" is given it.
    """
    size = max(1, _ROWS // sums.nodes)
    return np.concatenate(
        [
            _scores(sums, calibration, setting, world, min(size, draws - start), seed, start)
            for start in range(0, draws, size)
        ]
    )


def _scores(
    sums: Sums,
    calibration: Calibration,
    setting: dict[str, Any],
    world: str,
    copies: int,
    seed: int,
    start: int,
) -> np.ndarray:
    plan = calibration.plan
    graph = sums.graph(world, copies)
    last = graph.num_nodes
    nodes = Split(np.arange(last - TRAIN - 2, last - 2), np.array([last - 2]), np.array([last - 1]))
    clip = {"max_grad_norm": setting["max_grad_norm"]} if protects_nodes(plan.level) else {}
    entry = calibration_entry(calibration, TRAIN, clip)
    block = audit_block(
        entry, graph, [seed + start], lambda run: ("audit", "sums", seed, world, start), nodes
    )
    scores = np.zeros(copies)
    with TemporaryDirectory(prefix="graphdp-audit-") as folder, brief():
        cache = Recorder(folder)
        trained(fit, block, setting, (_masks(block, setting), cache))
        for release, name in cache.made:
            inputs = aggregation.normalize_rows(release.x0).astype(np.float64)
            found = cache.load(name)[0]
            for row, source in sums.rows:
                own = slice(row, copies * sums.nodes, sums.nodes)
                along = slice(source, copies * sums.nodes, sums.nodes)
                scores += sums.sign * (found[own] * inputs[along]).sum(1)
    return scores


def _masks(block: AuditBlock, setting: dict[str, Any]) -> dict[str, dict[int, np.ndarray]]:
    """What the stage that bounds degrees leaves, where it is run."""
    if not protects_nodes(block.level):
        return {}
    return bound_degree(block, [{"bound": bound_name(setting)}])
