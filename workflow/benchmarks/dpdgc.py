"""DP-Emb on sparse rows against dense rows with plain Opacus, and on a graph of 10 M edges.

    python workflow/benchmarks/dpdgc.py --mirror DIR [--dataset berkeley13] [--epochs 100]
    python workflow/benchmarks/dpdgc.py --part large [--nodes 200000] [--edges 10000000]

Each arm is a process of its own, one thread. The plain arm gives a dense row of A to Opacus'
GradSampleModule, which forms each sample's gradient of W; a few of its steps are timed, since they
are all alike. Prints CPU seconds per step after the start, and the peak memory of each process.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from graphdp.workflow import job

BATCH, HIDDEN, CLIP, STD = 256, 64, 1.0, 2.0


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def sparse_arm(indptr, indices, labels, classes: int, train: np.ndarray, epochs: int) -> int:
    """The project's training loop; returns its steps."""
    from graphdp.methods.dpdgc.method import head
    from graphdp.methods.dpdgc.network import train_embedding
    from graphdp.privacy.plan import dpsgd_rounds
    from graphdp.training.descent import Rounds

    rate, steps = dpsgd_rounds(train.size, BATCH, epochs)
    rounds = Rounds("poisson", epochs, BATCH, rate, steps, CLIP, STD)
    train_embedding(
        indptr,
        indices,
        labels,
        train,
        train[:1],
        rounds,
        head=head(HIDDEN, classes, ("benchmark", "head")),
        learning_rate=1e-3,
        stream=("benchmark",),
        normalised=True,
        device="cpu",
    )
    return steps


def plain_arm(indptr, indices, labels, classes: int, train: np.ndarray, steps: int) -> int:
    """Opacus on dense rows, the same batch size, optimiser and projection; returns its steps."""
    import opacus
    import torch

    nodes = len(indptr) - 1

    class Embedding(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(nodes, HIDDEN)
            head = torch.linalg.qr(torch.randn(HIDDEN, HIDDEN)).Q[:, :classes]
            self.register_buffer("head", head.contiguous())

        def forward(self, rows):
            return torch.nn.functional.selu(self.linear(rows)) @ self.head

    module = opacus.GradSampleModule(Embedding())
    optimizer = opacus.optimizers.DPOptimizer(
        torch.optim.Adam(module.parameters(), lr=1e-3),
        noise_multiplier=STD / CLIP,
        max_grad_norm=CLIP,
        expected_batch_size=BATCH,
    )
    random, truth = np.random.default_rng(0), torch.tensor(labels)
    weight = module._module.linear.weight
    for _ in range(steps):
        chosen = random.choice(train, BATCH, replace=False)
        rows = torch.zeros(BATCH, nodes)
        for place, node in enumerate(chosen):
            rows[place, indices[indptr[node] : indptr[node + 1]].astype(np.int64)] = 1
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(module(rows), truth[chosen]).backward()
        optimizer.step()
        with torch.no_grad():
            weight.div_(weight.norm(dim=0, keepdim=True))
    return steps


def run_arm(arm: str, work: Path, amount: int) -> None:
    """Train, then print CPU seconds of the training, its steps and the peak memory as JSON."""
    import torch

    import graphdp.methods.dpdgc.network  # noqa: F401  (imports are no part of a step)

    torch.set_num_threads(1)
    with np.load(work / "rows.npz") as held:
        graph = [held[name] for name in ("indptr", "indices", "labels")]
        classes, train = int(held["classes"]), held["train"]
    run = sparse_arm if arm == "sparse" else plain_arm
    start = cpu(), time.monotonic()
    steps = run(*graph, classes, train, amount)
    peak = job.peak_memory() / 2**20
    print(
        json.dumps(
            {
                "cpu": cpu() - start[0],
                "wall": time.monotonic() - start[1],
                "steps": steps,
                "peak_mb": peak,
            }
        )
    )


def measure(arm: str, work: Path, amount: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--arm", arm, "--work", str(work), "--amount", str(amount)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"the {arm} arm failed")
    found = json.loads(done.stdout.splitlines()[-1])
    per_step = [1000 * found[name] / found["steps"] for name in ("cpu", "wall")]
    print(
        f"{arm:<7}{found['steps']:>6} steps, {per_step[0]:9.2f} CPU ms and {per_step[1]:9.2f} ms a "
        f"step, {found['cpu']:8.1f} CPU s in all, peak memory {found['peak_mb']:7.0f} MiB",
        flush=True,
    )
    return found


def save_rows(work: Path, indptr, indices, labels, classes: int) -> None:
    from graphdp.rng import generator

    train = generator("benchmark", "train").permutation(len(labels))[: 3 * len(labels) // 4]
    np.savez(
        work / "rows.npz",
        indptr=indptr,
        indices=indices,
        labels=labels,
        classes=classes,
        train=train,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=("school", "large"), default="school")
    parser.add_argument("--mirror", help="folder with the raw files of the dataset")
    parser.add_argument("--dataset", default="berkeley13")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--plain-steps", type=int, default=5)
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--arm", choices=("sparse", "plain"), help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--amount", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.arm:
        run_arm(args.arm, args.work, args.amount)
        return
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if args.part == "school":
            from arms import prepare_graph

            graph = prepare_graph(args.dataset, args.mirror, work)
            save_rows(work, graph.indptr, graph.indices, graph.y, graph.num_classes)
            print(f"{args.dataset}: {graph.num_nodes} nodes, {graph.num_edges} directed edges")
            sparse = measure("sparse", work, args.epochs)
            plain = measure("plain", work, args.plain_steps)
            ratio = plain["cpu"] / plain["steps"] / (sparse["cpu"] / sparse["steps"])
            print(f"plain / sparse = {ratio:.1f} in CPU time per step")
        else:
            from aggregation import generate

            indptr, indices = generate(args.nodes, args.edges)
            labels = np.random.default_rng(1).integers(0, 5, args.nodes)
            save_rows(work, indptr, indices, labels, 5)
            print(f"generated: {args.nodes} nodes, {len(indices)} directed edges")
            measure("sparse", work, 1)


if __name__ == "__main__":
    main()
