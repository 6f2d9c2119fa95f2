"""The numbers of docs/heterpoisson.md are those of the shipped rows."""

import json
import re
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parent.parent
METHODS = {
    "corrected, M = 1": ("heterpoisson", 1),
    "the same network without neighbours, M = 0": ("heterpoisson", 0),
    "as published (SML)": ("heterpoissonsml", 1),
    "as its code runs it": ("heterpoissonofficial", 1),
}


def test_the_table_is_that_of_the_rows():
    rows = pd.read_csv(ROOT / "workflow/report/heterpoisson-rows.csv.gz")
    rows["neighbours"] = [json.loads(text)["num_neighbors"] for text in rows["hyperparameters"]]
    text = (ROOT / "docs/heterpoisson.md").read_text()
    compared = 0
    for line in re.findall(r"^\| (?:PubMed|Computers) .*$", text, flags=re.MULTILINE):
        graph, what, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        method, neighbours = METHODS[what]
        for epsilon, cell in zip((2, 4, 8, 16, float("inf")), cells, strict=True):
            mine = rows[
                (rows["dataset"] == graph.lower())
                & (rows["method"] == method)
                & (rows["neighbours"] == neighbours)
                & (rows["epsilon"] == epsilon)
            ]
            found = 100 * mine["test_accuracy"]
            expected = f"{found.mean():.1f} ({found.min():.1f} to {found.max():.1f})"
            assert cell == (expected if len(found) else "–")
            compared += len(found)
    assert compared == len(rows) == 90


def test_less_noise_without_neighbours():
    """ "A third of the noise", at ε = 2."""
    rows = pd.read_csv(ROOT / "workflow/report/heterpoisson-rows.csv.gz")
    two = rows[(rows["epsilon"] == 2) & (rows["method"] == "heterpoisson")]
    two = two.assign(neighbours=['"num_neighbors":1' in h for h in two["hyperparameters"]])
    for _, graph in two.groupby("dataset"):
        noise = graph.groupby("neighbours")["noise_multiplier"]
        assert noise.min()[False] / noise.max()[True] > 0.3
        assert noise.max()[False] / noise.min()[True] < 0.4
