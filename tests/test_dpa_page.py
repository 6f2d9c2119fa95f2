"""The numbers of docs/dpa.md are those of the shipped rows, of calibration and of the formulas."""

import json
import math
import re
from pathlib import Path

import pandas as pd
import pytest

from graphdp.methods.dpa.plan import dpa_plan
from graphdp.parties import frames
from graphdp.parties.shares import link_bytes
from graphdp.privacy.accounting.closed_form import gaussian_epsilon

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs/dpa.md").read_text()
EPSILONS = (2, 4, 8, 10, math.inf)
METHODS = {
    "as its code runs it (claim refuted)": ("dpaofficial", "node", 10),
    "corrected, edge level, 10 and 8 rounds": ("dpa", "edge", 10),
    "corrected, edge level, 1 and 1": ("dpa", "edge", 1),
    "corrected, node level, 10 and 8 rounds": ("dpa", "node", 10),
    "corrected, node level, 1 and 1": ("dpa", "node", 1),
}


def test_the_table_is_that_of_the_rows():
    rows = pd.read_csv(ROOT / "workflow/report/dpa-rows.csv.gz")
    rows["rounds"] = [json.loads(text)["feature_layers"] for text in rows["hyperparameters"]]
    compared = []
    for line in re.findall(r"^\| (?:as its code|corrected, ).*$", TEXT, flags=re.MULTILINE):
        what, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        method, level, rounds = METHODS[what]
        for epsilon, cell in zip(EPSILONS, cells, strict=True):
            mine = rows[
                (rows["method"] == method)
                & (rows["level"] == ("none" if epsilon == math.inf else level))
                & (rows["rounds"] == rounds)
                & (rows["epsilon"] == epsilon)
            ]
            found = 100 * mine["test_accuracy"]
            assert cell == f"{found.mean():.1f} ({found.min():.1f} to {found.max():.1f})"
            compared += list(mine.index)
    assert set(compared) == set(rows.index)


def test_the_print_is_that_of_the_paper():
    (line,) = re.findall(r"^\| as printed \(Table 3\).*$", TEXT, flags=re.MULTILINE)
    assert line == "| as printed (Table 3) | 27.1 | 66.8 | 77.4 | 78.4 | 88.1 |"


@pytest.mark.parametrize(
    ("said", "level", "adjacency"),
    [(11.96, "edge", None), (20.72, "node", "participant"), (30.11, "node", "node_replace")],
)
def test_the_deviations_are_those_of_the_plans(said, level, adjacency):
    degree = {"max_degree": 6, "adjacency": adjacency} if level == "node" else {}
    assert f"{said:.2f}" in TEXT
    energy = sum(
        m.count * m.sensitivity.value**2 for m in dpa_plan(level, 10, 8, **degree).mechanisms
    )
    assert gaussian_epsilon(math.sqrt(energy) / said, 1e-5) == pytest.approx(2, abs=2e-3)


def test_the_bytes_are_those_of_the_formula():
    total = dict.fromkeys(link_bytes(0, 0, 0, 1, 3, 2), 0)
    for columns, rounds in ((64, 10), (7, 8)):
        for link, size in link_bytes(10_556, 0, 2_708, columns, 3, 2).items():
            total[link] += rounds * size
    assert [round(size / 1e6) for size in total.values()] == [121, 0, 119, 45]
    assert f"{frames.OVERHEAD} bytes a frame" in TEXT
