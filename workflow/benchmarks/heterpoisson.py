"""What HeterPoisson's clipped sums cost: products of norms against one gradient per sub-graph.

    python workflow/benchmarks/heterpoisson.py [--rounds 3] [--batch 1054]

Of the same bags (SAGE, 500 features, hidden 128, two peripherals on average) computes the sum of
clipped gradients by `graphdp.methods.heterpoisson.network` and by `torch.func`, each sub-graph
padded to the largest bag there, in turn and on one thread. Prints the largest difference of the
sums, the CPU seconds of each, the median of the paired ratios, and the memory that each one added.

Then trains a model of the same shape for a few noisy rounds, and once more with batches of about
one sub-graph. What does not grow with the batch is the most that models trained side by side could
share: prints its share of a round, and by how much cheaper a stack could be at best.
"""

import argparse
import statistics
import time

import numpy as np
import torch
from torch.func import grad, vmap
from torch.nn import functional as F

from graphdp.methods.heterpoisson.bags import Bags
from graphdp.methods.heterpoisson.network import (
    Convolution,
    DenseFeatures,
    Model,
    gradient_of,
    standardised,
)
from graphdp.training.descent import Rounds, clipping_factors, descend, views
from graphdp.workflow import job

FEATURES, HIDDEN, CLASSES, NEIGHBOURS, CLIP = 500, 128, 3, 2, 0.5


def by_gradients(shape: Convolution, values, x: DenseFeatures, bags: Bags, labels):
    """The clipped sum from every sub-graph's own gradient: (P,)."""
    longest = int(bags.sizes.max(initial=0)) + 1
    places = np.zeros((len(bags.centres), longest), np.int64)
    places[:, 0] = bags.centres
    ranks = np.arange(len(bags.peripherals)) - np.repeat(bags.starts[:-1], bags.sizes) + 1
    places[bags.owners, ranks] = bags.peripherals
    present = torch.from_numpy(np.arange(longest) <= bags.sizes[:, None]).to(values.dtype)
    rows = x.x[torch.from_numpy(places)] * present[:, :, None]

    def loss(values, rows, count, label):
        p, own = views(values, shape.shapes), rows[:1]
        a = F.elu(standardised(F.elu(rows.sum(0, keepdim=True) / count)))
        z = a @ p["W"] + p["b"] + own @ p["W"] + p["b"] + own @ p["W2"] + p["b2"]
        return F.cross_entropy(standardised(F.elu(z)) @ p["V"] + p["c"], label[None])

    counts, mine = present.sum(1), labels[torch.from_numpy(bags.centres)]
    each = vmap(grad(loss), in_dims=(None, 0, 0, 0))(values, rows, counts, mine)
    return clipping_factors(each.double().square().sum(1), CLIP).to(each.dtype) @ each


def by_norms(shape: Convolution, values, x: DenseFeatures, bags: Bags, labels):
    """The same as the method computes it."""
    total = torch.zeros_like(values)
    Model(shape, x, values).add_clipped(bags, labels, total, CLIP)
    return total


def seconds_a_round(shape: Convolution, initial, x: DenseFeatures, bags: Bags, labels, batch: int):
    """CPU seconds of a noisy round over some `batch` of the bags' sub-graphs."""

    def draw(nodes):
        first = bags.part(0, len(nodes))
        return Bags(nodes, first.starts, first.peripherals)

    values, count, steps = initial.clone(), len(bags.centres), 20
    rounds = Rounds("poisson", 1, batch, batch / count, steps, CLIP, 1.0)
    add = gradient_of(Model(shape, x, values).add_clipped, draw, labels)
    start = time.process_time()
    descend(values, add, rounds, np.arange(count), 0.01, ("benchmark", batch))
    return (time.process_time() - start) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="paired timings")
    parser.add_argument("--batch", type=int, default=1054, help="sub-graphs of a batch")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    nodes = 4 * args.batch
    x = DenseFeatures(rng.random((nodes, FEATURES), np.float32), torch.empty(0))
    labels = torch.from_numpy(rng.integers(0, CLASSES, nodes))
    sizes = rng.poisson(NEIGHBOURS, args.batch)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    bags = Bags(rng.permutation(nodes)[: args.batch], starts, rng.integers(0, nodes, starts[-1]))
    shape = Convolution(FEATURES, HIDDEN, CLASSES, "sage")
    values = torch.from_numpy(shape.initial(rng)).float()
    ways = {"norms": by_norms, "gradients": by_gradients}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    sums, added = {}, {}
    for turn in range(args.rounds + 1):  # the first is not counted
        for name, way in ways.items():
            before = job.peak_memory()
            start = time.process_time()
            sums[name] = way(shape, values, x, bags, labels)
            if turn:
                seconds[name].append(time.process_time() - start)
            else:
                added[name] = (job.peak_memory() - before) / 2**20
    apart = float((sums["norms"] - sums["gradients"]).norm() / sums["gradients"].norm())
    ratios = [g / n for n, g in zip(*seconds.values(), strict=True)]
    n, g = (statistics.median(values) for values in seconds.values())
    times = statistics.median(ratios)
    print(
        f"{args.batch} sub-graphs: {g:.3f} -> {n:.3f} CPU s a step, {times:.0f} times cheaper; "
        f"memory added {added['gradients']:.0f} -> {added['norms']:.0f} MB; "
        f"sums differ by {apart:.1e} of their norm"
    )
    pairs = [
        [seconds_a_round(shape, values, x, bags, labels, n) for n in (args.batch - 1, 1)]
        for _ in range(args.rounds)
    ]
    whole, shared = (statistics.median(column) for column in zip(*pairs, strict=True))
    share = statistics.median(one / all_ for all_, one in pairs)
    print(
        f"a noisy round: {whole:.4f} CPU s, {shared:.4f} with a sub-graph in place of "
        f"{args.batch - 1}; ten models side by side could be {1 / (1 - 0.9 * share):.2f} times "
        "cheaper at most"
    )


if __name__ == "__main__":
    main()
