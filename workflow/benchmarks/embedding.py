"""What DPDGC's embedding with noise takes, by graph: the rows of its models count other jobs.

    python workflow/benchmarks/embedding.py [--steps 60]

Of generated graphs with as many nodes as those of its study, mean degree 20: CPU seconds of a step
on one thread, times the steps of 100 epochs over the training nodes. Prints the lines of
`embedding` in workflow/report/shipped.yaml.
"""

import argparse
import time

import numpy as np
import torch

from graphdp.data.csbm import csbm
from graphdp.methods.dpdgc.network import train_embedding
from graphdp.training.descent import Rounds

EPOCHS, HIDDEN = 100, 64
#: Graph -> nodes, share of them in training, batch size (config/papers/dpdgc.yaml;
#: those of CiteSeer and Facebook pages of config/papers/dpa-gnn.yaml).
SIZES = {
    "cora": (2_708, 0.75, 64),
    "chameleon": (2_277, 0.75, 64),
    "citeseer": (3_327, 0.5, 64),
    "squirrel": (5_201, 0.75, 64),
    "photo": (7_535, 0.75, 64),
    "pubmed": (19_717, 0.75, 256),
    "computers": (13_471, 0.75, 64),
    "facebook-pages": (22_470, 0.5, 64),
    "berkeley13-connected": (18_979, 0.75, 256),
    "csbm-paper": (10_000, 0.75, 256),
    "csbm-code": (30_000, 0.025, 256),
}


def seconds_of(nodes: int, train: int, batch: int, steps: int) -> float:
    """CPU seconds of a step, without those of the start."""
    graph = csbm(nodes, 2, 20.0, 3.25, 0.5, 1)
    head = np.eye(HIDDEN, 2, dtype=np.float32), np.zeros(2, np.float32)
    taken = []
    for count in (steps // 6, steps):
        start = time.process_time()
        train_embedding(
            graph.indptr, graph.indices, graph.y, np.arange(train), np.arange(train, train + 10),
            Rounds("poisson", 1, batch, batch / train, count, 1.0, 1.0), head=head,
            learning_rate=0.001, stream=("embedding",), normalised=True, device="cpu",
        )  # fmt: skip
        taken.append(time.process_time() - start)
    return (taken[1] - taken[0]) / (steps - steps // 6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--steps", type=int, default=60, help="steps that are timed")
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    seconds_of(1_000, 750, 64, steps)
    for name, (nodes, share, batch) in SIZES.items():
        train = int(nodes * share)
        whole = EPOCHS * train // batch * seconds_of(nodes, train, batch, steps)
        print(f"  {name}: {whole:.0f}", flush=True)


if __name__ == "__main__":
    main()
