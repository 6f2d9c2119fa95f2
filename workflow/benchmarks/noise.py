"""What the noise costs: a DP-Adam step with the noise of `graphdp.noise` against torch's float32.

    python workflow/benchmarks/noise.py [--rounds 5]

Trains the same stacks of ten models with both, in turn, on one thread, and prints the CPU seconds
of each and the median of the paired ratios. Shapes: the private phases of GAP and MLP-DP on a graph
of 501 features, and wider ones.
"""

import argparse
import statistics
import time

import numpy as np
import torch

from graphdp.audit.lattice import TorchNoise
from graphdp.noise import GridNoise
from graphdp.training import MLP, DPAdam, HopClassifier, Member, train

NODES, CLASSES, STEPS, MEMBERS = 4000, 6, 150, 10


def shapes(rng: np.random.Generator):
    """(name, network, inputs, batch size) of every row."""
    x = rng.standard_normal((NODES, 501), np.float32)
    hops = rng.standard_normal((NODES, 3, 16), np.float32)
    for batch in (256, 2048):
        yield (
            "MLP-DP, 501 features, 16 hidden",
            MLP(501, 16, 3, CLASSES, batch_norm=False),
            x,
            batch,
        )
    yield "MLP-DP, 501 features, 64 hidden", MLP(501, 64, 3, CLASSES, batch_norm=False), x, 256
    network = HopClassifier(2, 16, 16, CLASSES, batch_norm=False)
    yield "GAP's classifier, 2 hops, 16 hidden", network, [hops] * MEMBERS, 256


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="paired timings")
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    labels, nodes = rng.integers(0, CLASSES, NODES), np.arange(NODES)
    members = [
        Member(("noise", i), 0.01, 1.0, nodes[:3000], nodes[3000:3500], nodes[3500:])
        for i in range(MEMBERS)
    ]
    for name, network, inputs, batch in shapes(rng):
        training = DPAdam(1, batch, batch / 3000, STEPS, 1.0)
        seconds: dict[str, list[float]] = {"torch": [], "grid": []}
        for _ in range(rounds + 1):
            for kind, noise in (("torch", TorchNoise), ("grid", GridNoise)):
                start = time.process_time()
                train(
                    network, inputs, labels, members, training,
                    checkpoint="last", device="cpu", noise=noise,
                )  # fmt: skip
                seconds[kind].append(time.process_time() - start)
        ratios = [g / t for g, t in zip(seconds["grid"][1:], seconds["torch"][1:], strict=True)]
        per_step = {k: statistics.median(v[1:]) / STEPS * 1e3 for k, v in seconds.items()}
        print(
            f"{name}, batch {batch}: {per_step['torch']:.2f} -> {per_step['grid']:.2f} CPU ms a "
            f"step of {MEMBERS} models, ratio {statistics.median(ratios):.2f}"
        )


if __name__ == "__main__":
    main()
