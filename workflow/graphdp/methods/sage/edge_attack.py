"""Attacks on the perturbed graph of SAGE at edge level: is an edge there?

What is run is the stage `graphdp.methods.sage.method.perturb`, on a graph that has no edge but the
one in question: nodes 0 and 1, joined or not. Each run is one release of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphdp.audit.front_door import audit_block, calibration_entry, graph_of
from graphdp.data.graph import Graph, csr_from_edges
from graphdp.data.split import Split
from graphdp.methods.sage.method import perturb, release_name
from graphdp.privacy.calibration import Calibration

# Releases that are kept at a time.
_BLOCK = 5000
_NOBODY = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Edge:
    """An edge that is there or not. nodes: of the graph. entries: of the adjacency matrix that it
    is, 1 (directed, so that the graph is) or 2."""

    nodes: int
    entries: int

    def graph(self, world: str) -> Graph:
        """The graph in "present" or "absent"."""
        ends = [(0, 1), (1, 0)][: self.entries] if world == "present" else []
        sources, targets = np.array(ends, np.int64).reshape(-1, 2).T
        return graph_of(*csr_from_edges(sources, targets, self.nodes, symmetrise=False))


def edge_scores(
    edge: Edge,
    calibration: Calibration,
    setting: Mapping[str, Any],
    world: str,
    draws: int,
    seed: int,
) -> np.ndarray:
    """Two scores of `draws` releases in one world, float64 (2, draws).

    First, how many entries between nodes 0 and 1 came out, over 1 + the others: where a noisy count
    says how many do, the edge's own tell more the fewer there are. Second, how many came out.
    """
    entry, graph = calibration_entry(calibration, settings=setting), edge.graph(world)
    scores = np.zeros((2, draws))
    for start in range(0, draws, _BLOCK):
        runs = range(start, min(start + _BLOCK, draws))
        block = audit_block(
            entry,
            graph,
            runs,
            lambda run: ("audit", seed, "edge", world, run),
            Split(_NOBODY, _NOBODY, _NOBODY),
        )
        graphs = perturb(block, [dict(setting)])
        for run in runs:
            indptr, indices, _ = graphs[run, release_name(setting)]
            own = (indices[: indptr[1]] == 1).sum() + (indices[indptr[1] : indptr[2]] == 0).sum()
            scores[:, run] = own / (1 + len(indices) - own), len(indices)
    return scores
