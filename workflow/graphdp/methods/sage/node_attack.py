"""Attacks on SAGE at node level (DP-GNN): its training on sub-graphs, and its noisy sum.

What is run is the stage `graphdp.methods.sage.method.fit` on lists that `bound_degree` bounded, for
D = 1; the block's `observe` shows the noisy sum of clipped gradients of every round. All nodes that
are asked look the same, and so do all that send to them but node 0. So a sample's clipped gradient
is known for each sender that its sub-graph may have, and a round's sum tells how many have which.
All training nodes are in every batch. The learning rate is so small that the parameters stay as
they were initialised (the ε does not depend on it).
"""

from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from graphdp.audit.front_door import audit_block, calibration_entry, graph_of, trained
from graphdp.audit.recorder import Recorder
from graphdp.data.graph import Graph, InEdges, csr_from_edges
from graphdp.data.split import Split
from graphdp.graphs.bounds import bound_name
from graphdp.methods.bound_degree import bound_degree
from graphdp.methods.sage.method import fit
from graphdp.privacy import calibrated
from graphdp.privacy.calibration import Calibration
from graphdp.progress import brief
from graphdp.releases import aggregation

CLASSES, HIDDEN = 2, 4
LEARNING_RATE = 1e-9
_NODE_0, _SENDER, _ASKED = np.array([[4, 0], [-4, 0], [0, 4]], np.float32)
# Runs whose sums are kept on disk at a time.
_BLOCK = 250


@dataclass(frozen=True)
class Unit:
    """A graph with and without node 0.

    present, absent: (source, target) pairs. asked: how many training nodes there are; they come
    last. heard: how many of them have a sender in "absent", the first ones. replaced: whether node
    0 takes the place of a sender (with a chance of 1/2), or else the senders are heard less.
    """

    nodes: int
    asked: int
    present: tuple[tuple[int, int], ...]
    absent: tuple[tuple[int, int], ...]
    heard: int
    replaced: bool

    @property
    def train(self) -> np.ndarray:
        """The training nodes."""
        return np.arange(self.nodes - self.asked, self.nodes)

    def graph(self, world: str) -> Graph:
        """A world, and a node without edges to validate and test on."""
        pairs = np.array(self.present if world == "present" else self.absent, np.int64)
        x = np.tile(_SENDER, (self.nodes + 1, 1))
        x[0], x[self.train] = _NODE_0, _ASKED
        edges = csr_from_edges(*pairs.T, self.nodes + 1, symmetrise=False)
        return graph_of(*edges, x, np.zeros(self.nodes + 1, np.int64), CLASSES)


def neighbours(senders: int) -> Unit:
    """Every sender lists node 0 and a training node of its own, and keeps one of the two: where
    node 0 is gone, all training nodes hear of theirs."""
    own = tuple((1 + i, 1 + senders + i) for i in range(senders))
    to_0 = tuple((1 + i, 0) for i in range(senders))
    return Unit(1 + 2 * senders, senders, own + to_0, own, senders, replaced=False)


def participant() -> Unit:
    """One of two training nodes hears of node 1. If node 0 takes part, it sends there as well, and
    one of the two is kept."""
    return Unit(4, 2, ((0, 2), (1, 2)), ((1, 2),), 1, replaced=True)


def node_scores(
    unit: Unit,
    calibration: Calibration,
    setting: dict[str, Any],
    world: str,
    draws: int,
    seed: int,
) -> np.ndarray:
    """Scores of `draws` runs in one world, float64 (draws,).

    The part of every round's sum along what one changed sample moves it by, over its variance; and
    where node 0 takes a sender's place that of the released sum: then it is the log-likelihood
    ratio of node 0 kept or not. setting: as "fit" is given it.
    """
    import torch

    from graphdp.methods.sage.network import SubGraphs
    from graphdp.training import Sage

    clip = setting["max_grad_norm"]
    entry = calibration_entry(calibration, unit.asked, {"max_grad_norm": clip})
    stds = {name: one.run.noise_std for name, one in calibrated.phases(entry).items()}
    graph = unit.graph(world)
    # Samples without a sender, with one, and with node 0.
    x = np.stack([_ASKED, _ASKED, _ASKED, _SENDER, _NODE_0])
    senders = InEdges(np.array([0, 0, 1, 2, 2, 2]), np.array([3, 4], np.int32))
    samples = SubGraphs(Sage(2, HIDDEN, 1, CLASSES, False), x, senders, torch.empty(0))
    labels = torch.zeros(len(x), dtype=torch.int64)
    known: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    scores = np.zeros(draws)

    def observe(_, runs, values, noisy_sum):
        (run,) = runs
        if run not in known:
            known.clear()
            alone, sender, node_0 = (
                samples.clipped_sum(values, np.array([kind]), labels, clip, 64).double()
                for kind in range(3)
            )
            change = (node_0 if unit.replaced else alone) - sender
            base = unit.heard * sender + (unit.asked - unit.heard) * alone
            known[run] = change, base + change / 2
        change, middle = known[run]
        scores[run] += float((noisy_sum.double() - middle) @ change) / stds["classifier"] ** 2

    last = np.array([unit.nodes])
    for start in range(0, draws, _BLOCK):
        runs = range(start, min(start + _BLOCK, draws))
        block = audit_block(
            entry,
            graph,
            runs,
            lambda run: ("audit", seed, "node", world, run),
            Split(unit.train, last, last),
            observe,
        )
        with TemporaryDirectory(prefix="graphdp-audit-") as folder, brief():
            cache = Recorder(folder)
            masks = bound_degree(block, [{"bound": bound_name(setting)}])
            trained(fit, block, setting, (masks, cache, {}))
            for run, (release, name) in zip(runs, cache.made, strict=True):
                if unit.replaced:
                    rows = aggregation.normalize_rows(release.x0)[:2].astype(np.float64)
                    found = cache.load(name)[0][unit.train[0]] - rows.mean(0)
                    scores[run] += found @ (rows[0] - rows[1]) / stds["aggregation"] ** 2
    return scores
