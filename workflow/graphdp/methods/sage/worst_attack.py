"""DP-GNN's two phases with the worst gradients and rows that a participant's accounting allows.

The gradients of real sub-graphs turn round in part, and node 0 takes another's place in some of the
runs; so `node_attack` misses half of the noise. The accounting, however, holds for any gradients
and any rows (`sensitivity.participant_both_bounded`). So here a sample's gradient is +L e if node
0's features stand in its sub-graph and -L e if not, before clipping, and a node's row of H⁰ is +e
or -e likewise; the coins of `bound_degree` are those of a run that leaves node 0 all its D places,
in both worlds. What is run is the rest: the lists that `bound_degree` bounds, the stage `fit`, the
plan's rounds and its sum as the stage reads them, samples, clipping, sums and noise. All training
nodes are in every batch: what is released is Gaussian, and a run's score its log-likelihood ratio.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np

from graphdp.audit.front_door import audit_block, calibration_entry, graph_of, trained
from graphdp.audit.recorder import Recorder
from graphdp.data.graph import Graph, csr_from_edges
from graphdp.data.split import Split
from graphdp.errors import GraphDPError
from graphdp.graphs.bounds import bound_name
from graphdp.methods.bound_degree import bound_degree
from graphdp.methods.sage.method import fit
from graphdp.privacy import calibrated
from graphdp.privacy.calibration import Calibration
from graphdp.progress import brief

CLASSES, HIDDEN, LEARNING_RATE = 2, 2, 1e-9
MAX_DEGREE = 2
#: Node 0, which trains; two pairs of senders; and two pairs of training nodes that these send to.
_PAIRS = (((1, 2), (5, 6)), ((3, 4), (7, 8)))
TRAIN = np.array([0, 5, 6, 7, 8])
#: Long enough that clipping brings every gradient to C.
_LENGTH = 1e3
# Runs whose coins are looked at, and runs whose sums are kept on disk at a time.
_COINS, _BLOCK = 100, 500


def world_graph(world: str) -> Graph:
    """A world. Where node 0 takes part it has features of its own and lists all four targets, of
    which D are kept, and there it takes a sender's place."""
    edges = [pair for sources, to in _PAIRS for s in sources for pair in ((s, t) for t in to)]
    x = np.tile(np.array([-1.0, 0.0], np.float32), (10, 1))
    if world == "present":
        edges += [(0, t) for _, to in _PAIRS for t in to]
        x[0] = 1.0, 0.0
    csr = csr_from_edges(*np.array(edges).T, len(x), symmetrise=False)
    return graph_of(*csr, x, np.zeros(len(x), np.int64), CLASSES)


def lists(setting: dict[str, Any], world: str) -> tuple[np.ndarray, np.ndarray]:
    """The kept edges of a world, bool (m,), and node 0's targets where it takes part, (D,), for
    the first coins that leave it the most; GraphDPError if these are fewer than D.

    The coins are public, and the same in both worlds: neither features nor noise depend on them.
    """
    name = bound_name(setting)
    entry = {"plan": {"method": "sage", "level": "node"}}
    kept = {}
    for each in ("present", world):
        block = audit_block(entry, world_graph(each), range(_COINS), lambda run: ("coins", run))
        kept[each] = bound_degree(block, [{"bound": name}])[name]
    graph = world_graph("present")
    end = graph.indptr[1]
    run = max(range(_COINS), key=lambda one: kept["present"][one][:end].sum())
    targets = graph.indices[:end][kept["present"][run][:end]]
    if len(targets) < setting["max_degree"]:
        raise GraphDPError(f"node 0 keeps {len(targets)} places at most in {_COINS} runs")
    return kept[world][run], targets


@contextmanager
def worst(graph: Graph) -> Iterator[None]:
    """Gradients of samples, before clipping, and rows of H⁰ that tell whether node 0 takes part."""
    import torch

    from graphdp.methods.sage.network import SubGraphs

    takes_part = torch.from_numpy(graph.x[:, 0] > 0)
    factors, embedding = SubGraphs._factors, SubGraphs.embedding

    def turned(self, values, batch, labels):
        x0, g0, weights, biases = factors(self, values, batch, labels)
        places, filled = self._pad(batch)
        holds = (takes_part[places] & filled.bool()).any(1)
        weights = {name: (x, torch.zeros_like(g)) for name, (x, g) in weights.items()}
        biases = {name: torch.zeros_like(g) for name, g in biases.items()}
        biases["head.bias"][:, 0, 0] = torch.where(holds, _LENGTH, -_LENGTH)
        return x0, torch.zeros_like(g0), weights, biases

    def opposed(self, values):
        rows = torch.zeros_like(embedding(self, values))
        rows[:, 0] = torch.where(takes_part, 1.0, -1.0)
        return rows

    with patch.object(SubGraphs, "_factors", turned), patch.object(SubGraphs, "embedding", opposed):
        yield


def worst_scores(
    calibration: Calibration, setting: dict[str, Any], world: str, draws: int, seed: int
) -> dict[str, np.ndarray]:
    """Log-likelihood ratios of `draws` runs in one world by phase: "classifier", its rounds, and
    unless inference is exact "aggregation", the sum for it; each float64 (draws,).

    setting: of the plan. Raises `GraphDPError` if other noise was drawn than the plan accounts, as
    a job does.
    """
    import torch

    from graphdp.methods.sage.network import parameters
    from graphdp.training import Sage

    setting = {"hidden": HIDDEN, "learning_rate": LEARNING_RATE} | setting
    setting |= {"degree_bound": "both_degrees"}
    clip, max_degree = setting["max_grad_norm"], setting["max_degree"]
    entry = calibration_entry(calibration, len(TRAIN), {"max_grad_norm": clip})
    stds = {name: one.run.noise_std for name, one in calibrated.phases(entry).items()}
    graph, network = world_graph(world), Sage(2, HIDDEN, 1, CLASSES, False)
    keep, targets = lists(setting, world)
    # Along e a round's sum moves by 2 C for each of D + 1 samples; halfway these add nothing. A
    # target's row moves by 2, from -D, as node 0 replaces one of its D senders.
    move, middle = 2 * (max_degree + 1) * clip, -(len(TRAIN) - max_degree - 1) * clip
    scores = {name: np.zeros(draws) for name in stds}
    place: list[int] = []

    def observe(_, runs, values, noisy_sum):
        if not place:
            places = torch.arange(values.numel(), dtype=torch.float64)
            place.append(int(parameters(network, places)["head.bias"][0]))
        found = float(noisy_sum[place[0]])
        scores["classifier"][runs[0]] += (found - middle) * move / stds["classifier"] ** 2

    last = np.array([graph.num_nodes - 1])
    for start in range(0, draws, _BLOCK):
        runs = range(start, min(start + _BLOCK, draws))
        block = audit_block(
            entry,
            graph,
            runs,
            lambda run: ("audit", seed, "worst", world, run),
            Split(TRAIN, last, last),
            observe,
        )
        with TemporaryDirectory(prefix="graphdp-audit-") as folder, brief(), worst(graph):
            cache = Recorder(folder)
            masks = {bound_name(setting): dict.fromkeys(runs, keep)}
            trained(fit, block, setting, (masks, cache, {}))
            if "aggregation" not in stds:
                continue
            for run, (_, name) in zip(runs, cache.made, strict=True):
                moved = cache.load(name)[0][targets, 0].astype(np.float64) + max_degree - 1
                scores["aggregation"][run] = 2 * moved.sum() / stds["aggregation"] ** 2
    return scores
