"""Degree bounding and one private aggregation hop on a graph of ogbn-products' size.

    python workflow/benchmarks/aggregation.py [--nodes 1790731] [--edges 80966832] [--threads 2]
                                              [--device cuda]

The graph is generated (Chung-Lu with log-normal weights: heavy-tailed degrees, symmetric, no
locality in its node numbers, which is the hard case for a gather). Prints seconds per step, peak
memory, and the bytes per second of the aggregation as a share of a plain copy in the same run.

Bytes moved by a sum over in-edges, c columns: edges × (index + 4 c gathered) + nodes × (pointer
+ 8 c written). A copy of b bytes moves 2 b.
"""

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from graphdp.data.graph import InEdges, in_edges
from graphdp.graphs import degree
from graphdp.releases import aggregation
from graphdp.training.inputs import Neighbours
from graphdp.workflow import job

# Spread of the logarithm of the expected degrees: a largest degree of about 200 times the mean.
SPREAD = 1.2
CHUNK = 1 << 22


def generate(nodes: int, edges: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A symmetric heavy-tailed graph: indptr int64 (nodes + 1,), indices int32 (edges,)."""
    random = np.random.default_rng(seed)
    weights = random.lognormal(sigma=SPREAD, size=nodes)
    # A node appears in the urn as often as its weight says; an edge joins two draws.
    copies = np.ceil(weights * (edges / weights.sum())).astype(np.int64)
    urn = np.repeat(np.arange(nodes, dtype=np.int32), copies)
    half = edges // 2
    pairs = np.empty(0, dtype=np.int64)
    while len(pairs) < half:
        drawn = [pairs]
        wanted = int(1.05 * (half - len(pairs))) + 1000
        for start in range(0, wanted, CHUNK):
            size = min(CHUNK, wanted - start)
            ends = urn[random.integers(len(urn), size=(2, size))].astype(np.int64)
            low, high = ends.min(axis=0), ends.max(axis=0)
            drawn.append((low * nodes + high)[low < high])
        pairs = np.concatenate(drawn)
        # Sort and compare: several times faster than np.unique at this size.
        pairs.sort()
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]
    del urn, drawn
    surplus = np.ones(len(pairs), dtype=bool)
    surplus[random.choice(len(pairs), len(pairs) - half, replace=False)] = False
    pairs = pairs[surplus]
    both = np.empty(2 * half, dtype=np.int64)
    both[:half] = pairs
    both[half:] = pairs % nodes * nodes + pairs // nodes
    del pairs
    both.sort()
    indptr = np.searchsorted(both, np.arange(nodes + 1) * nodes)
    return indptr.astype(np.int64), (both % nodes).astype(np.int32)


def timed(label: str, work: Callable[[], Any]) -> tuple[Any, float]:
    """Run, print and return what `work` returns, and the seconds it took."""
    start = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - start
    peak = job.peak_memory() / 2**30
    print(f"{label:<42} {seconds:8.2f} s   peak memory so far {peak:5.2f} GiB", flush=True)
    return result, seconds


def copy_rate(megabytes: int) -> float:
    """Bytes per second, read and written, of the best of five plain copies."""
    source = np.ones(megabytes << 17)
    target = np.zeros_like(source)
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        np.copyto(target, source)
        seconds.append(time.perf_counter() - start)
    return 2 * source.nbytes / min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1_790_731)
    parser.add_argument("--edges", type=int, default=80_966_832, help="directed entries")
    parser.add_argument("--columns", type=int, default=16)
    parser.add_argument("--max-degree", type=int, default=100)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--device", default="cpu", help="where sums are also taken by torch")
    args = parser.parse_args()

    graph, _ = timed("generate the graph", partial(generate, args.nodes, args.edges))
    degrees = np.diff(graph[0])
    quantiles = np.quantile(degrees, [0.5, 0.9, 0.99, 1]).astype(int)
    print(
        f"{args.nodes} nodes, {len(graph[1])} directed edges; degree mean {degrees.mean():.1f}, "
        f"median {quantiles[0]}, 90 % {quantiles[1]}, 99 % {quantiles[2]}, max {quantiles[3]}"
    )

    keep, bounding = timed(
        f"bound the out-degrees by {args.max_degree}",
        partial(degree.bound_out_degree, *graph, args.max_degree, seed=0),
    )
    graph, applying = timed("apply the mask", partial(degree.apply_mask, *graph, keep))
    print(f"{len(graph[1])} edges kept")
    edges, sorting = timed("sort the edges by target", partial(in_edges, *graph))
    del graph, keep

    x0 = np.random.default_rng(1).standard_normal((args.nodes, args.columns), dtype=np.float32)
    x0 = aggregation.normalize_rows(x0)
    release = aggregation.Release(x0, hops=1, noise_std=1.0, private=True, stream=("benchmark",))
    _, summing = min(
        (
            timed("sum over in-edges", partial(aggregation.sum_in_edges, edges, x0, args.threads))
            for _ in range(3)
        ),
        key=lambda found: found[1],
    )
    ledger: list[aggregation.NoisySum] = []
    _, hop = timed(
        "private hop (normalise, sum, noise, normalise)",
        partial(aggregation.private_hops, edges, [release], args.threads, ledger),
    )
    moved = len(edges.indices) * (edges.indices.itemsize + 4 * args.columns)
    moved += args.nodes * (edges.indptr.itemsize + 8 * args.columns)
    copy = copy_rate(megabytes=512 if args.nodes > 100_000 else 16)
    print(f"releases made: {len(ledger)}; threads: {args.threads}")
    print(
        f"bounding, mask, sorting and one private hop: {bounding + applying + sorting + hop:.2f} s"
    )
    print(f"plain copy: {copy / 1e9:.2f} GB/s")
    for label, seconds in (("sum", summing), ("private hop", hop)):
        rate = moved / seconds
        print(
            f"{label}: {moved / 1e9:.2f} GB moved in {seconds:.2f} s, {rate / 1e9:.2f} GB/s, "
            f"{rate / copy:.0%} of a plain copy"
        )
    if args.device != "cpu":
        sums_on(args.device, edges, x0)


def sums_on(device: str, edges: InEdges, x: np.ndarray) -> None:
    """The sums over in-edges by what trains convolutions, `Neighbours`, on a GPU, and in float64,
    as releases are summed: seconds, bytes moved, share of a plain copy there, peak memory."""
    like = torch.empty(0, device=device)
    big = torch.ones(1 << 30, device=device)
    target = torch.empty_like(big)
    copy = 2 * 4 * big.numel() / _seconds(partial(target.copy_, big))
    del big, target
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    here = torch.from_numpy(x).to(device)
    start = time.perf_counter()
    graph = Neighbours(edges, like)
    torch.cuda.synchronize()
    print(f"{torch.cuda.get_device_name()}: plain copy {copy / 1e9:.0f} GB/s")
    print(f"the graph and its reverse onto it: {time.perf_counter() - start:.2f} s")
    for kind in (torch.float32, torch.float64):
        rows = here.to(kind)
        seconds, width = _seconds(partial(graph.sums, rows)), rows.element_size()
        moved = len(edges.indices) * (4 + width * x.shape[1])
        moved += edges.num_nodes * (4 + width * x.shape[1])
        exact = sum_in_edges_of(edges, x, 1000)
        off = float(np.abs(graph.sums(rows)[:1000].double().cpu().numpy() - exact).max())
        print(
            f"sum in {kind}: {1000 * seconds:.2f} ms, {moved / 1e9:.2f} GB moved, "
            f"{moved / seconds / copy:.0%} of a plain copy, off by at most {off:.1e}; peak memory "
            f"{torch.cuda.max_memory_allocated() / 2**30:.2f} GiB"
        )


def sum_in_edges_of(edges: InEdges, x: np.ndarray, nodes: int) -> np.ndarray:
    """The sums of the first `nodes` nodes in float64, one by one."""
    rows = (edges.indices[edges.indptr[v] : edges.indptr[v + 1]] for v in range(nodes))
    return np.array([x[one].astype(np.float64).sum(0) for one in rows])


def _seconds(work: Callable[[], Any]) -> float:
    """The median of ten, after three that warm up."""
    found = []
    for _ in range(13):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        found.append(time.perf_counter() - start)
    return float(np.median(found[3:]))


if __name__ == "__main__":
    main()
