"""A CPU and a GPU side by side in docs/gpu.md, from shipped rows and numbers by `make redraw`."""

from collections.abc import Iterator
from functools import cache

import pandas as pd
from scipy import stats

from graphdp.methods.registry import card
from graphdp.paper.shipped import FOLDER, lines_of, shipped_rows

CPU, GPU = "devices-cpu-rows.csv.gz", "devices-gpu-rows.csv.gz"
#: What the benchmarks printed on one machine, as `graphdp.paper.shipped` has numbers; x: models of
#: a stack, or columns.
NUMBERS = FOLDER.parent / "benchmarks" / "gpu.csv"
_CELL = ["dataset", "method", "level", "epsilon"]
_EDGES = "sums over 61,206,241 edges, 16 columns"


@cache
def pairs() -> pd.DataFrame:
    """The models that both devices trained, with `_cpu` and `_gpu` in their columns' names."""
    columns = [*_CELL, "hyperparameters", "seed", "test_accuracy", "cpu_seconds", "versions"]
    here, there = (shipped_rows(name)[columns] for name in (CPU, GPU))
    return here.merge(there, on=[*_CELL, "hyperparameters", "seed"], suffixes=("_cpu", "_gpu"))


def differences() -> pd.Series:
    """Of each model its test accuracy on the GPU less that on the CPU, in points."""
    return 100 * (pairs()["test_accuracy_gpu"] - pairs()["test_accuracy_cpu"])


def cells() -> Iterator[str]:
    """The lines of the table of models: mean ± half of its 95 % interval (t), in percent."""
    yield (
        "| method | level | graph | models | accuracy on a CPU | on a GPU | largest difference "
        "of one model | CPU seconds a model on a CPU | on a GPU |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    together = pairs().assign(apart=differences().abs())
    for method, level, dataset in sorted(set(_names(together))):
        mine = together[_names(together) == (method, level, dataset)]
        shown = [_mean(100 * mine[f"test_accuracy_{device}"]) for device in ("cpu", "gpu")]
        took = [f"{mine[f'cpu_seconds_{device}'].mean():.1f}" for device in ("cpu", "gpu")]
        if (mine["versions_cpu"] != mine["versions_gpu"]).any():
            took = ["–", "–"]  # not on the same machine
        yield (
            f"| {card(method).title} (`{method}`) | {level} | {dataset} | {len(mine)} "
            f"| {' | '.join(shown)} | {mine['apart'].max():.1f} | {' | '.join(took)} |"
        )


def _names(rows: pd.DataFrame) -> pd.Series:
    names = zip(rows["method"], rows["level"], rows["dataset"], strict=True)
    return pd.Series(list(names), index=rows.index)


def _mean(values: pd.Series) -> str:
    half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    return f"{values.mean():.1f} ± {half:.1f}"


def summary() -> Iterator[str]:
    """The sentence about the whole table."""
    apart, found = differences(), pairs()
    mean = apart.groupby([found[name] for name in _CELL]).agg(["mean", "sem", "size"])
    half = stats.t.ppf(0.975, mean["size"] - 1) * mean["sem"]
    moved = int((mean["sem"] > 0).sum())  # where all are the same, no interval can miss zero
    outside = int((mean["mean"].abs() > half + 1e-9).sum())
    same, near = ((apart.abs() <= most).mean() for most in (0.005, 0.5))
    yield (
        f"{len(found)} models of {len(mean)} settings: {100 * same:.0f} % have the same accuracy "
        f"to 0.01 points, {100 * near:.0f} % within half a point. The mean of a setting moves by "
        f"at most {mean['mean'].abs().max():.1f} points; in {len(mean) - moved} settings no model "
        f"moves at all, and in {outside} of the other {moved} zero lies outside the 95 % interval "
        f"of the paired difference, where chance would have {0.05 * moved:.0f}."
    )


def stacks() -> Iterator[str]:
    """The lines of the table of stacks: milliseconds of a step, and seconds of a model."""
    ways = ["on a CPU", "one by one", "replayed", "compiled"]
    yield "| ms a step (s a model) | models | " + " | ".join(ways) + " |"
    yield "| --- | --- " + "| --- " * len(ways) + "|"
    steps = lines_of(NUMBERS, "steps of a model").set_index("series")["y"]
    for part, title in (("full batches", ""), ("DP-Adam", ", samples of 256")):
        took = lines_of(NUMBERS, f"{part}, ms a step").set_index(["x", "series"])["y"]
        for size in sorted(set(took.index.get_level_values("x"))):
            shown = [
                f"{took[size, way]:.2f} ({took[size, way] * steps[part] / size / 1000:.3f})"
                if (size, way) in took.index
                else "–"
                for way in ways
            ]
            yield f"| {part}{title} | {size:.0f} | {' | '.join(shown)} |"


def kernels() -> Iterator[str]:
    """The sentence on a profile of ten models."""
    found = lines_of(NUMBERS, "kernels run, %").set_index("series")["y"]
    yield (
        f"Of ten replayed models kernels run {found['full batches']:.0f} % of the time with full "
        f"batches and {found['DP-Adam']:.0f} % with DP-Adam. The rest is the CPU's: in DP-Adam a "
        "cipher draws samples and noise there, so that they are the same on any device."
    )


def loops() -> Iterator[str]:
    """The lines of the table of stacks beside a plain loop on the same GPU."""
    yield "| seconds of a model | models | CPU | wall | start (CPU) | plain / stack, start apart |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for name in ("GAP-EDP", "ProGAP, edge level"):
        found = [
            lines_of(NUMBERS, f"{name}, {what}").set_index("series")
            for what in ("CPU s a model", "wall s a model", "start, s a model")
        ]
        after = found[1]["y"] - found[2]["y"]
        for arm in ("stack", "plain loop"):
            shown = " | ".join(f"{one.at[arm, 'y']:.2f}" for one in found)
            ratio = f"{after['plain loop'] / after['stack']:.1f}" if arm == "stack" else ""
            yield f"| {name}, {arm} | {found[0].at[arm, 'x']:.0f} | {shown} | {ratio} |"


def sums() -> Iterator[str]:
    """The sentences on sums over the edges of a graph of ogbn-products' size."""
    y = lines_of(NUMBERS, _EDGES).set_index("series")["y"]
    kinds = ("float32", "float64")
    times = [f"{1000 * y[f'GPU, {kind}, s']:.1f} ms in {kind}" for kind in kinds]
    shares = [f"{y[f'GPU, {kind}, share of a copy, %']:.0f}" for kind in kinds]
    yield (
        f"The {_EDGES} (a generated graph of 81 million edges, out-degrees bounded by 100), take "
        f"{y['CPU, 16 threads, float64, s']:.2f} s on 16 threads of the CPU and on the GPU "
        f"{' and '.join(times)}, {' and '.join(shares)} % of what a plain copy moves there "
        f"({y['GPU, plain copy, GB/s']:,.0f} GB/s), with {y['GPU, float64, peak GiB']:.2f} GiB at "
        f"most. To bring the graph onto the GPU takes {y['graph onto the GPU, s']:.1f} s, a whole "
        f"private hop on the CPU {y['CPU, private hop, s']:.1f}, the rest of it noise and norms: "
        "so releases are summed on the CPU."
    )
