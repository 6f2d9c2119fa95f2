"""The numbers of docs/heterpoisson.md are those of the shipped rows."""

import re

import pandas as pd
import pytest

import heterpoisson_page as page

TEXT = (page.ROOT / "docs/heterpoisson.md").read_text()


@pytest.fixture(scope="module")
def rows():
    return page.shipped()


def test_table_2_is_that_of_the_rows(rows):
    """Every line stands there as the rows give it; and by hand: means, and the choice of M."""
    assert "\n".join(page.table(rows)) in TEXT
    mine = page.cell(rows, "as its code runs it", "pubmed", "sage", 2)
    means = {
        number: one["test_accuracy"].mean()
        for number, one in rows.query(
            "dataset == 'pubmed' and method == 'heterpoissonofficial' and epsilon == 2"
        )
        .query("convolution == 'sage'")
        .groupby("num_neighbors")
    }
    assert len(means) == 4 and mine["test_accuracy"].mean() == max(means.values())


def test_what_is_said_of_print(rows):
    found = page.apart(rows)
    told = re.search(
        r"Of the (\d+) cells that can be read in print, (\d+) are within 2\.5\s+points and the "
        r"farthest\s+is\s+(\d+\.\d) off",
        TEXT,
    )
    kept = pd.read_csv(page.ROOT / "workflow/report/pnpignn-isolated-rows.csv.gz")
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
    """PubMed with SAGE."""
    section = TEXT.partition("### More neighbours")[2].partition("\n### ")[0]
    found = re.findall(r"^\| (\d) \| (.*) \|$", section, flags=re.MULTILINE)
    mine = rows.query("dataset == 'pubmed' and method == 'heterpoisson' and convolution == 'sage'")
    assert [number for number, _ in found] == list("01234")
    for number, cells in found:
        for epsilon, cell in zip(page.EPSILONS, cells.split(" | "), strict=True):
            some = mine[mine["num_neighbors"] == int(number)]
            some = some[some["epsilon"] == epsilon]
            assert len(some) == 10
            noise = some["noise_multiplier"].unique()
            assert cell == f"{page.percent(some['test_accuracy'])}, σ = {noise.item():.2f}"


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
    readme = (page.ROOT / "README.md").read_text().replace("\n", " ")
    near = [one <= 2.5 for one in page.apart(rows)]
    assert ahead == 0 and f"without neighbours in each of {cells} cells" in readme
    assert f"runs it {sum(near)} of the {len(near)} cells of PNPiGNNs' Table 2" in readme
