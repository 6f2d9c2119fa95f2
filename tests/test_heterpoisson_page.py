"""The numbers of docs/heterpoisson.md are those of the shipped rows."""

import re
from pathlib import Path

import pytest

from graphdp.methods.heterpoisson import page
from graphdp.paper.shipped import shipped_rows

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs/heterpoisson.md").read_text()


@pytest.fixture(scope="module")
def rows():
    return page.shipped()


def test_table_2_shows_the_best_number_of_neighbours(rows):
    """By hand: means, and the choice of M."""
    mine = page.cell(rows, "as its code runs it", "pubmed", "sage", 2)
    means = {
        number: one["test_accuracy"].mean()
        for number, one in rows.query(
            "dataset == 'pubmed' and method == 'heterpoissonofficial' and epsilon == '2'"
        )
        .query("hp_convolution == 'sage'")
        .groupby("hp_num_neighbors")
    }
    assert len(means) == 4 and mine["test_accuracy"].mean() == max(means.values())
    best = max(means, key=means.get)
    (line,) = (line for line in page.table2() if line.startswith("| PubMed, SAGE | as its code"))
    assert line.split(" | ")[2].startswith(f"{100 * means[best]:.1f} ± ")
    assert line.split(" | ")[2].endswith(f"({best})")


def test_what_is_said_of_print(rows):
    found = page.apart(rows)
    told = re.search(
        r"Of the (\d+) cells that can be read in print, (\d+) are within 2\.5\s+points and the "
        r"farthest\s+is\s+(\d+\.\d) off",
        TEXT,
    )
    kept = shipped_rows("pnpignn-isolated-rows.csv.gz")
    assert (
        f"isolated nodes, which the code keeps, M = 1 has {page.percent(kept.test_accuracy)}"
        in TEXT
    )
    near = sum(one <= 2.5 for one in found)
    assert told.groups() == (str(len(found)), str(near), f"{max(found):.1f}")


def test_how_many_models(rows):
    told = re.search(r"`workflow/report/pnpignn-rows\.csv\.gz`, ([\d,]+) models", TEXT)
    assert int(told[1].replace(",", "")) == len(rows)


def test_by_number_of_neighbours(rows):
    """PubMed with SAGE: a line for each M, of ten models a cell."""
    mine = rows.query(
        "dataset == 'pubmed' and method == 'heterpoisson' and hp_convolution == 'sage'"
    )
    assert set(mine.groupby(["hp_num_neighbors", "epsilon"]).size()) == {10}
    assert [line.split(" | ")[0] for line in page.by_neighbours()][2:] == [
        f"| {m}" for m in range(5)
    ]


def test_where_neighbours_help(rows):
    """What the page says of corrected accuracies against those without neighbours."""
    told = re.search(r"ahead of the network without neighbours in (\d+) of (\d+) cells", TEXT)
    ahead, cells = 0, 0
    for graph in page.GRAPHS:
        for convolution in page.CONVOLUTIONS:
            for epsilon in page.EPSILONS:
                with_them, without = (
                    page.cell(rows, line, graph, convolution, epsilon)["test_accuracy"]
                    for line in ("corrected", "no neighbours (M = 0)")
                )
                if len(with_them) and len(without):
                    cells += 1
                    ahead += with_them.mean() > without.mean()
    assert told.groups() == (str(ahead), str(cells))
    readme = (ROOT / "README.md").read_text().replace("\n", " ")
    near = [one <= 2.5 for one in page.apart(rows)]
    assert ahead == 0 and f"without neighbours in each of {cells} cells" in readme
    assert f"runs it {sum(near)} of the {len(near)} cells of PNPiGNNs' Table 2" in readme
