"""What padding tells in the authors' code: one more neighbour moves every sub-graph's gradient.

Every training node but node 0 lists a helper of its own, which is not trained on, so all bags have
two rows. Node 0 is on one list more; where that centre draws it, the batch's largest bag has three
rows, all others are padded by one, and all their gradients, real ones of equal features, turn by
the same angle. The attacker knows a bag's gradient for either length, and looks along what sets the
second apart from the first. Nothing is made of the norm: the noise is taken as Laplace on a line.
"""

import math
from dataclasses import replace

import numpy as np

from graphdp.audit.front_door import audit_block, calibration_entry, graph_of, trained
from graphdp.data.graph import Graph, csr_from_edges
from graphdp.data.split import Split
from graphdp.methods.heterpoisson.method import fit
from graphdp.methods.heterpoisson.worst_attack import LEARNING_RATE
from graphdp.privacy import calibrated
from graphdp.privacy.calibration import Calibration
from graphdp.progress import brief

NODES, CLASSES, HIDDEN = 200, 2, 2
#: Of the plan.
SETTING = {"batch_size": 100, "epochs": 1, "max_grad_norm": 1.0}
SETTING |= {"num_neighbors": 1, "max_degree": 1}
#: Runs with the same initial weights, on which it depends how far gradients turn.
_RUNS = 100


def world_graph(world: str) -> Graph:
    """Nodes 0 to N - 1 train; N to 2N - 2 are the helpers of 1 to N - 1; the last has no edge."""
    ends = [(NODES + i, 1 + i) for i in range(NODES - 1)]
    if world == "present":
        ends.append((0, 1))
    size = 2 * NODES
    x = np.zeros((size, 3), np.float32)
    x[:NODES, 0], x[NODES:, 1], x[0] = 1.0, 2.0, (0, 0, 3)
    edges = csr_from_edges(*np.array(ends).T, size, symmetrise=False)
    return graph_of(*edges, x, None, CLASSES)


def padding_scores(calibration: Calibration, world: str, draws: int, seed: int) -> np.ndarray:
    """Log-likelihood ratios, nearly, of `draws` runs in one world: float64 (draws,)."""
    import torch

    from graphdp.methods.heterpoisson.bags import Bags
    from graphdp.methods.heterpoisson.network import Convolution
    from graphdp.methods.heterpoisson.official import OfficialModel
    from graphdp.methods.heterpoisson.official_rows import standardised_features

    (training,) = calibration.plan.mechanisms
    entry = calibration_entry(calibration, NODES)
    std = calibrated.phase(entry, "training").run.noise_std
    graph, last = world_graph(world), np.array([2 * NODES - 1])
    setting = SETTING | {"hidden": HIDDEN, "learning_rate": LEARNING_RATE, "convolution": "sage"}
    setting |= {"test_neighbors": 1, "setting": "transductive"}
    shape = Convolution(graph.num_features, HIDDEN, CLASSES, "sage")
    features, labels = standardised_features(graph.x, torch.empty(0)), torch.tensor(graph.y)
    bag = Bags(np.array([2]), np.array([0, 1]), np.array([NODES + 1]))
    rate = training.sampling_rate
    rounds = training.executed
    scores: list[float] = []

    def observe(phase, seeds, values, noisy_sum):
        if not known:  # the weights stay as they are
            model, pair = OfficialModel(shape, features, values), []
            for longest in (2, 3):
                gradient = torch.zeros_like(values)
                model._add(bag, longest, labels, gradient, 0.5)
                pair.append(gradient.double())
            apart = pair[1] - pair[0] * (pair[0] @ pair[1]) / (pair[0] @ pair[0])
            known.extend((apart / apart.norm(), float(apart.norm()) * rate * NODES))
        direction, move = known
        found = float(noisy_sum.double() @ direction)
        louder = math.sqrt(2) / std * (abs(found) - abs(found - move))
        scores.append(float(np.logaddexp(math.log1p(-rate), math.log(rate) + louder)))

    for run in range(0, draws, _RUNS):
        count, known = min(_RUNS, draws - run), []
        longer = replace(training, steps=training.steps * count, executed=rounds * count)
        plan = replace(calibration.plan, mechanisms=(longer,))
        block = audit_block(
            calibration_entry(replace(calibration, plan=plan), NODES),
            graph,
            [0],
            lambda _, run=run: ("audit", seed, "padding", world, run),
            Split(np.arange(int(world == "absent"), NODES), last, last),
            observe,
        )
        with brief():
            trained(fit, block, setting | {"epochs": SETTING["epochs"] * count})
    return np.array(scores).reshape(draws, rounds).sum(1)
