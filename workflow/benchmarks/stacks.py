"""What a GPU makes of stacks: GAP's encoder, full batches and DP-Adam, launched in three ways.

    python workflow/benchmarks/stacks.py --mirror DIR [--dataset berkeley13] [--sizes 1 10 100]
                                         [--device cuda]

Of every size of stack: milliseconds of an epoch of full batches and of a round of DP-Adam (samples
of 256), validation after each epoch (100 epochs, 10 in DP-Adam) included, and all of it per model;
on one thread of the CPU, and on the GPU launched one operation at a time, replayed as a CUDA graph,
and (full batches) compiled by `torch.compile`. Then a profile of replayed epochs and rounds: the
share of the time in which a kernel runs, and its longest kernels.
"""

import argparse
import contextlib
import statistics
import tempfile
import time
import warnings
from pathlib import Path

import arms
import torch

from graphdp.data.split import split_of
from graphdp.privacy.plan import dpsgd_rounds
from graphdp.training import DPAdam, Encoder, FullBatch, Member, chunk, train

EPOCHS = {"full batches": 100, "DP-Adam": 10}


def models(graph, part: str, count: int, device: str, epochs: int) -> tuple[float, float]:
    """Seconds that training `count` encoders takes, and their mean test accuracy."""
    nodes, private = split_of(graph, 1, "shared", 0), part == "DP-Adam"
    training = FullBatch(epochs)
    if private:
        rate, steps = dpsgd_rounds(nodes.train.size, 256, epochs)
        training = DPAdam(epochs, 256, rate, steps, 1.0)
    split = nodes.train, nodes.val, nodes.test
    members = [Member((1, s, "stacks"), 0.01, float(private), *split) for s in range(count)]
    network = Encoder(graph.num_features, 16, 2, graph.num_classes, not private)
    start = time.perf_counter()
    found = train(network, graph.x, graph.y, members, training, device=device, memory_mb=16_000)
    if device == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    return seconds, statistics.mean(one.test_accuracy for one in found)


def steps(graph, part: str, epochs: int) -> int:
    """Epochs of full batches, or rounds."""
    size = split_of(graph, 1, "shared", 0).train.size
    return epochs if part == "full batches" else dpsgd_rounds(size, 256, epochs)[1]


@contextlib.contextmanager
def launched(way: str):
    """Within it steps are launched so."""
    own = chunk.Replay
    if way == "one by one":
        chunk.Replay = lambda step, device, generators=(): step
    elif way == "compiled":
        chunk.Replay = lambda step, device, generators=(): torch.compile(step, dynamic=False)
    try:
        yield
    finally:
        chunk.Replay = own


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mirror")
    parser.add_argument("--dataset", default="berkeley13")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        graph = arms.prepare_graph(args.dataset, args.mirror, Path(folder))
    ways = ["on a CPU"]
    if args.device == "cuda":
        ways += ["one by one", "replayed"]
        print(torch.cuda.get_device_name())
    print(f"{args.dataset}: {graph.num_nodes} nodes, {graph.num_features} features")
    for part, epochs in EPOCHS.items():
        compiled = ["compiled"] if part == "full batches" and len(ways) > 1 else []
        for size in args.sizes:
            for way in [*ways, *compiled]:
                device = "cpu" if way == "on a CPU" else args.device
                if device == "cpu" and size > 10:
                    continue  # it would take minutes
                with launched(way), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    if device == "cuda":
                        models(graph, part, size, device, 2)  # warms up, compiles
                    seconds, accuracy = models(graph, part, size, device, epochs)
                each = 1000 * seconds / steps(graph, part, epochs)
                print(
                    f"{part}, {size} models, {way}: {each:.2f} ms a step, {seconds / size:.3f} s "
                    f"a model; accuracy {accuracy:.4f}",
                    flush=True,
                )
    if args.device == "cuda":
        for part in EPOCHS:
            profile(graph, part, 10)


def profile(graph, part: str, size: int) -> None:
    """How long kernels run of the time of a training."""
    from torch.profiler import ProfilerActivity

    models(graph, part, size, "cuda", 2)
    with torch.profiler.profile(activities=[ProfilerActivity.CUDA]) as found:
        seconds, _ = models(graph, part, size, "cuda", EPOCHS[part])
    kernels = found.key_averages()
    busy = sum(one.self_device_time_total for one in kernels) / 1e6
    print(
        f"{part}, {size} models, profiled: {seconds:.3f} s, kernels run {busy / seconds:.0%} of it"
    )
    for one in sorted(kernels, key=lambda k: -k.self_device_time_total)[:8]:
        print(f"  {one.self_device_time_total / 1000:8.1f} ms  {one.count:6d} x  {one.key[:90]}")


if __name__ == "__main__":
    main()
