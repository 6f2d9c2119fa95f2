"""An attack on all that ProGAP releases of one participant: both stages and the sums between.

What is run is the stage `graphdp.methods.progap.method.fit`. Node 0 takes part or not: it is a
training node with a feature of its own, and sends to D nodes that hear nobody else. The score adds
up the log-likelihood ratios of the rounds of both stages (`graphdp.audit.whole_plan`) and of the
released sums. Node 0's own row of these is not seen: it is taken for zero.
"""

from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from graphdp.audit.canaries import CLASSES, LEARNING_RATE, STACK
from graphdp.audit.front_door import audit_block, calibration_entry, graph_of, trained
from graphdp.audit.recorder import Recorder
from graphdp.audit.whole_plan import round_ratio
from graphdp.data.graph import Graph, csr_from_edges
from graphdp.data.split import Split
from graphdp.graphs.bounds import bound_name
from graphdp.methods.bound_degree import bound_degree
from graphdp.methods.progap.method import fit
from graphdp.privacy import calibrated
from graphdp.privacy.calibration import Calibration
from graphdp.progress import brief
from graphdp.releases import aggregation

_FEATURE = 10.0


def graph_of_world(world: str, num_train: int, max_degree: int) -> Graph:
    """Node 0, the other training nodes, `max_degree` targets, and one node more."""
    x = np.zeros((num_train + max_degree + 1, 2), np.float32)
    x[:, 1] = _FEATURE
    x[0] = _FEATURE, 0
    labels = np.ones(len(x), np.int64)
    labels[0] = 0
    targets = num_train + np.arange(max_degree if world == "present" else 0)
    edges = csr_from_edges(np.zeros_like(targets), targets, len(x), symmetrise=False)
    return graph_of(*edges, x, labels, CLASSES)


def whole_scores(
    calibration: Calibration,
    setting: dict[str, Any],
    num_train: int,
    world: str,
    draws: int,
    seed: int,
) -> np.ndarray:
    """Scores of `draws` runs in one world: float64 (draws,). setting: as "fit" is given it, of
    depth 1, but for the learning rate."""
    import torch

    from graphdp.training.inputs import DenseBlock

    setting = setting | {"learning_rate": LEARNING_RATE}
    train = np.arange(0 if world == "present" else 1, num_train)
    entry = calibration_entry(calibration, num_train, {"max_grad_norm": setting["max_grad_norm"]})
    phases = {name: one.run for name, one in calibrated.phases(entry).items()}
    graph = graph_of_world(world, num_train, setting["max_degree"])
    targets = num_train + np.arange(setting["max_degree"])
    last = np.array([graph.num_nodes - 1])
    unseen = DenseBlock(torch.zeros(1, 1, setting["hidden"], 1))
    rows = [
        DenseBlock(torch.from_numpy(graph.x[node].reshape(1, 1, -1, 1).copy())) for node in (0, 1)
    ]
    scores = np.zeros(draws)

    def observe(phase, runs, parameters, noisy_sum):
        size = len(parameters)
        own, other = (
            (
                [
                    DenseBlock(block.x.expand(size, -1, -1, -1))
                    for block in ([row] if phase == "stage0" else [row, unseen])
                ],
                int(graph.y[node]),
            )
            for node, row in enumerate(rows)
        )
        found = round_ratio(parameters, noisy_sum, own, other, phases[phase])
        scores[np.asarray(runs)] += found.numpy()

    for start in range(0, draws, STACK):
        runs = range(start, min(start + STACK, draws))
        block = audit_block(
            entry,
            graph,
            runs,
            lambda run: ("audit", seed, "whole", world, run),
            Split(train, last, last),
            observe,
        )
        with TemporaryDirectory(prefix="graphdp-audit-") as folder, brief():
            cache = Recorder(folder)
            masks = bound_degree(block, [{"bound": bound_name(setting)}])
            trained(fit, block, setting, (masks, cache))
            for run, (release, name) in zip(runs, cache.made, strict=True):
                own_row = aggregation.normalize_rows(release.x0[:1])[0].astype(np.float64)
                found = (cache.load(name)[0][targets] - own_row / 2) @ own_row
                scores[run] += found.sum() / phases["aggregation"].noise_std ** 2
    return scores
