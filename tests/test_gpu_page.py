"""What docs/gpu.md says in words, against the shipped rows and numbers."""

import re
from pathlib import Path

import pytest
import yaml

from graphdp.paper import devices
from graphdp.paper.shipped import lines_of, shipped_rows
from study_fixture import every_level

ROOT = Path(__file__).parents[1]
TEXT = " ".join((ROOT / "docs/gpu.md").read_text(encoding="utf-8").split())
STUDY = yaml.safe_load((ROOT / "config/studies/devices.yaml").read_text(encoding="utf-8"))


def asked():
    return {(one["method"], one["level"]) for one in STUDY["experiments"]["accuracy"]}


def test_the_study_has_every_method_and_level():
    assert set(every_level()) == asked()


def test_one_device_trained_each_file():
    assert set(shipped_rows(devices.CPU)["device"]) == {"cpu (x86_64)"}
    assert set(shipped_rows(devices.GPU)["device"]) == {"NVIDIA H200"} and "NVIDIA H200" in TEXT
    for name in (devices.CPU, devices.GPU):
        assert set(shipped_rows(name)["seed"]) == set(range(10))


def test_what_did_not_run_is_named():
    missing = asked() - {(m, level) for m, level, _ in devices._names(devices.pairs())}
    assert missing == {("dpdgc", "node"), ("dpdgcofficial", "node"), ("dpdgcofficial", "k1")}
    assert (
        "Not run on the GPU in this study: DPDGC at node level, and its authors' code at node and "
        "k-neighbour level." in TEXT
    )


def test_no_cell_moves_by_more_than_chance():
    """Of the 95 % intervals of paired differences at most as many miss zero as chance would have in
    all but one of a thousand tables."""
    from scipy import stats

    (sentence,) = devices.summary()
    outside, cells = map(int, re.search(r"in (\d+) of the other (\d+) zero", sentence).groups())
    assert outside <= stats.binom.ppf(0.999, cells, 0.05)


def _ratios():
    """(method, level, graph) -> CPU seconds of a model on a CPU over those on the GPU."""
    found = devices.pairs()
    found = found[found["versions_cpu"] == found["versions_gpu"]]
    took = found.groupby(devices._names(found))[["cpu_seconds_cpu", "cpu_seconds_gpu"]].mean()
    return took["cpu_seconds_cpu"] / took["cpu_seconds_gpu"]


STACKS = ("mlp", "gap", "progap", "progapsage", "progapsageofficial", "sage")
NAMED = {
    r"at edge level\) take (\d+) to (\d+) times fewer": lambda m, level: (
        m in STACKS and level in ("none", "edge")
    ),
    r"DPA-GNN takes ([\d.]+) to ([\d.]+) times": lambda m, level: m.startswith("dpa"),
    r"HeterPoisson ([\d.]+) to ([\d.]+),": lambda m, level: m.startswith("heterpoisson"),
    r"naive DP-SGD ([\d.]+) to ([\d.]+) ": lambda m, level: m.startswith("naive"),
}


@pytest.mark.parametrize("words", NAMED)
def test_what_is_said_to_gain(words):
    mine = [ratio for (m, level, _), ratio in _ratios().items() if NAMED[words](m, level)]
    said = re.search(words, TEXT).groups()
    digits = 1 if "." in said[0] else 0
    assert [f"{r:.{digits}f}" for r in (min(mine), max(mine))] == list(said) and len(mine) > 6


def test_what_is_said_to_lose():
    ratios = _ratios()
    alone = [r for (m, level, _), r in ratios.items() if (m, level) in ALONE]
    said = re.search(r"short steps, take ([\d.]+) to ([\d.]+) times more", TEXT).groups()
    assert [f"{1 / max(alone):.1f}", f"{1 / min(alone):.1f}"] == list(said) and len(alone) == 4
    noisy = [r for (m, level, _), r in ratios.items() if (m, level) in NOISY_STACKS]
    said = re.search(r"between ([\d.]+) times fewer and ([\d.]+) times more", TEXT).groups()
    assert [f"{max(noisy):.1f}", f"{1 / min(noisy):.1f}"] == list(said) and len(noisy) == 4
    # All that was timed on both is said of one of these.
    told = sum(any(own(m, level) for own in NAMED.values()) for m, level, _ in ratios.index)
    assert told + len(alone) + len(noisy) == len(ratios)


NOISY_STACKS = {("mlp", "node"), ("gap", "node"), ("progap", "node")}
ALONE = {("dpdgc", "k1"), ("progapsage", "node"), ("progapsageofficial", "node")}


def test_what_is_said_of_stacks():
    steps = lines_of(devices.NUMBERS, "full batches, ms a step").set_index(["x", "series"])["y"]
    assert steps[100, "compiled"] < steps[100, "one by one"] < steps[100, "replayed"]
    assert steps[100, "replayed"] < 1.1 * steps[100, "one by one"]
    for size in (1, 10):
        assert steps[size, "replayed"] < min(steps[size, w] for w in ("one by one", "compiled"))
    assert "replaying adds nothing; `torch.compile`" in TEXT


def test_numbers_are_those_of_the_benchmarks():
    (sentence,) = devices.sums()
    assert "1.03 s on 16 threads" in sentence and "4.9 ms in float32" in sentence
    lines = list(devices.loops())
    assert lines[2].endswith("| 5.6 |") and lines[4].endswith("| 10.6 |")
    assert "| full batches | 100 | – | 13.83 (0.014) | 14.79 (0.015) | 11.73 (0.012) |" in (
        list(devices.stacks())
    )
    assert len(list(devices.cells())) == 2 + devices.pairs().groupby(devices._CELL).ngroups
