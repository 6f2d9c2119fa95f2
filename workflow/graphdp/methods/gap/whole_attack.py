"""An attack on all that GAP releases of one participant: encoder, aggregates and classifier.

What is run are the method's three stages, one after the other. Node 0 takes part or not: it is a
training node with a feature of its own, and sends to D nodes. As many anchors as the noise asks for
send there as well, so that a row tells its length by its direction. From every phase the attacker
has a log-likelihood ratio, or nearly one: in training node 0's clipped gradient without what is
along another's, as `graphdp.audit.canaries`; in the released rows as `graphdp.audit.graph_pairs`.
Their sum is the score. Node 0's own row of the aggregates is not seen: it is taken for zero.
"""

import math
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from graphdp.audit.canaries import CLASSES, HIDDEN, LEARNING_RATE, STACK
from graphdp.audit.front_door import audit_block, calibration_entry, graph_of, trained
from graphdp.audit.recorder import Recorder
from graphdp.audit.whole_plan import round_ratio
from graphdp.data.graph import Graph, csr_from_edges
from graphdp.data.split import Split
from graphdp.graphs.bounds import bound_name
from graphdp.methods.bound_degree import bound_degree
from graphdp.methods.gap import encoder_settings, release_settings
from graphdp.methods.gap.method import aggregate, encode, encoder_name, fit
from graphdp.privacy import calibrated
from graphdp.privacy.calibration import Calibration
from graphdp.progress import brief

_FEATURE = 10.0


def graph_of_world(world: str, num_train: int, max_degree: int, anchors: int) -> Graph:
    """Node 0, the other training nodes, `max_degree` targets, the anchors, and one node more."""
    first = num_train + max_degree
    targets = np.arange(num_train, first)
    x = np.zeros((first + anchors + 1, 2), np.float32)
    x[:, 1] = _FEATURE
    x[0] = _FEATURE, 0
    labels = np.ones(len(x), np.int64)
    labels[0] = 0
    senders = np.arange(first, first + anchors)
    if world == "present":
        senders = np.append(senders, 0)
    ends = np.repeat(senders, max_degree), np.tile(targets, len(senders))
    edges = csr_from_edges(*ends, len(x), symmetrise=False)
    return graph_of(*edges, x, labels, CLASSES)


def whole_scores(
    calibration: Calibration,
    settings: dict[str, Any],
    num_train: int,
    world: str,
    draws: int,
    seed: int,
) -> np.ndarray:
    """Scores of `draws` runs in one world: float64 (draws,). settings: those of the plan."""
    import torch

    from graphdp.training.inputs import DenseBlock

    setting = settings | {"hidden": HIDDEN, "encoder_layers": 1, "learning_rate": LEARNING_RATE}
    train = np.arange(0 if world == "present" else 1, num_train)
    # The stage "encode" looks for its training nodes; rate and rounds are those of the plan.
    entry = calibration_entry(calibration, len(train), settings | {"encoder": True})
    phases = {name: one.run for name, one in calibrated.phases(entry).items()}
    degree, std = settings["max_degree"], phases["aggregation"].noise_std
    anchors = math.ceil(8 * std)
    graph = graph_of_world(world, num_train, degree, anchors)
    targets, anchor = num_train + np.arange(degree), num_train + degree
    last = np.array([graph.num_nodes - 1])
    scores, encoders = np.zeros(draws), {}
    encoding = encoder_settings("node", setting)

    def names(run: int) -> tuple[int | str, ...]:
        return "audit", seed, "whole", world, run

    def observe(phase, runs, parameters, noisy_sum):
        if phase == "encoder":
            inputs = np.tile(graph.x[:2].T, (len(runs), 1, 1, 1))
        else:
            rows = np.stack([encoders[encoder_name(run, encoding)][:2].T for run in runs])
            # What was aggregated for nodes that hear nobody is noise; it is not seen.
            inputs = np.zeros((len(runs), 1 + settings["hops"], *rows.shape[1:]), np.float32)
            inputs[:, 0] = rows
        own, other = (
            (DenseBlock(torch.from_numpy(inputs[..., node : node + 1].copy())), int(graph.y[node]))
            for node in (0, 1)
        )
        found = round_ratio(parameters, noisy_sum, own, other, phases[phase])
        scores[np.asarray(runs)] += found.numpy()

    for start in range(0, draws, STACK):
        runs = range(start, min(start + STACK, draws))
        block = audit_block(entry, graph, runs, names, Split(train, last, last), observe)
        with TemporaryDirectory(prefix="graphdp-audit-") as folder, brief():
            cache = Recorder(folder)
            masks = bound_degree(block, [{"bound": bound_name(setting)}])
            encoders |= encode(block, [encoding])
            released = release_settings("node", setting)
            records = aggregate(block, [released], encoders, masks, cache)
            trained(fit, block, setting, (encoders, records, cache))
            for run, (release, name) in zip(runs, cache.made, strict=True):
                own, other = release.x0[[0, anchor]].astype(np.float64)
                centre = anchors * other + own / 2
                square = centre @ centre + len(own) * std**2
                gain = own - (own @ centre) / square * centre
                found = math.sqrt(square) * cache.load(name)[0][targets] @ gain - gain @ gain / 2
                scores[run] += found.sum() / std**2
    return scores
