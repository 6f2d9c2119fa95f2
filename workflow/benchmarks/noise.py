"""What the noise costs: a DP-Adam step with the noise of `graphdp.noise` against torch's float32.

    python workflow/benchmarks/noise.py [--rounds 5]

Trains the same models with both, in turn, on one thread, and prints the CPU seconds of each and the
median of the paired ratios: stacks of ten in the private phases of GAP and MLP-DP on a graph of 501
features, and wider ones; and DPDGC's DP-Emb, one model whose parameters are a row for every node.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch

from graphdp.audit.lattice import TorchNoise
from graphdp.data.csbm import csbm
from graphdp.methods.dpdgc.network import train_embedding
from graphdp.noise import GridNoise, NoiseSource
from graphdp.training import MLP, DPAdam, HopClassifier, Member, train
from graphdp.training.descent import Rounds

NODES, CLASSES, STEPS, MEMBERS = 4000, 6, 150, 10


def stacks(rng: np.random.Generator) -> Iterator[tuple[str, Callable[[NoiseSource], None]]]:
    """(title, training with a noise) of every stack of ten models."""
    labels, nodes = rng.integers(0, CLASSES, NODES), np.arange(NODES)
    x = rng.standard_normal((NODES, 501), np.float32)
    hops = rng.standard_normal((NODES, 3, 16), np.float32)
    members = [
        Member(("noise", i), 0.01, 1.0, nodes[:3000], nodes[3000:3500], nodes[3500:])
        for i in range(MEMBERS)
    ]
    narrow, wide = (MLP(501, hidden, 3, CLASSES, batch_norm=False) for hidden in (16, 64))
    classifier = HopClassifier(2, 16, 16, CLASSES, batch_norm=False)
    for title, network, inputs, batch in (
        ("MLP-DP, 501 features, 16 hidden", narrow, x, 256),
        ("MLP-DP, 501 features, 16 hidden", narrow, x, 2048),
        ("MLP-DP, 501 features, 64 hidden", wide, x, 256),
        ("GAP's classifier, 2 hops, 16 hidden", classifier, [hops] * MEMBERS, 256),
    ):
        training = DPAdam(1, batch, batch / 3000, STEPS, 1.0)

        def run(noise: NoiseSource, network=network, inputs=inputs, training=training) -> None:
            train(
                network, inputs, labels, members, training,
                checkpoint="last", device="cpu", noise=noise,
            )  # fmt: skip

        yield f"{title}, batch {batch}, {MEMBERS} models", run


def embeddings(rng: np.random.Generator) -> Iterator[tuple[str, Callable[[NoiseSource], None]]]:
    """As `stacks`, of DPDGC's embedding on graphs of average degree 20."""
    for nodes, batch in ((2700, 64), (2700, 256), (13_000, 64)):
        graph = csbm(nodes, 2, 20.0, 3.25, 0.5, 1)
        head = rng.standard_normal((64, 2)).astype(np.float32), np.zeros(2, np.float32)
        rounds = Rounds("poisson", 1, batch, batch / nodes, STEPS, 1.0, 1.0)

        def run(noise: NoiseSource, graph=graph, rounds=rounds, head=head) -> None:
            train_embedding(
                graph.indptr, graph.indices, graph.y, np.arange(graph.num_nodes),
                np.arange(10), rounds, head=head, learning_rate=0.01, stream=("noise",),
                normalised=True, device="cpu", noise=noise,
            )  # fmt: skip

        yield f"DP-Emb, {nodes:,} nodes, 64 hidden, batch {batch}, 1 model", run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="paired timings")
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    for title, run in (*stacks(rng), *embeddings(rng)):
        seconds: dict[str, list[float]] = {"torch": [], "grid": []}
        for _ in range(rounds + 1):
            for kind, noise in (("torch", TorchNoise), ("grid", GridNoise)):
                start = time.process_time()
                run(noise)
                seconds[kind].append(time.process_time() - start)
        ratios = [g / t for g, t in zip(seconds["grid"][1:], seconds["torch"][1:], strict=True)]
        per_step = {k: statistics.median(v[1:]) / STEPS * 1e3 for k, v in seconds.items()}
        print(
            f"{title}: {per_step['torch']:.2f} -> {per_step['grid']:.2f} CPU ms a step, ratio "
            f"{statistics.median(ratios):.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
