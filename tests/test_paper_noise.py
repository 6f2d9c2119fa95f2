"""What rows and reports say of the generator that drew the noise."""

import pytest

from graphdp.noise import GENERATOR
from graphdp.paper import report
from graphdp.paper.rows import BEFORE, read_rows
from paper_fixture import context, synthetic_rows


@pytest.fixture
def rows():
    return synthetic_rows(context())


def test_rows_that_do_not_say_it_are_older_than_the_generator(rows, tmp_path):
    """Of noise alone: models without any say nothing."""
    path = tmp_path / "rows.csv"
    rows.to_csv(path, index=False)
    found = read_rows(path)
    noisy = found["noise_multiplier"].notna() & (found["epsilon"] != "inf")
    assert noisy.any() and not noisy.all()
    assert set(found.loc[noisy, "noise"]) == {BEFORE}
    assert set(found.loc[~noisy, "noise"]) == {""}
    # Collected with newer rows, each keeps its own.
    rows["noise"] = GENERATOR
    rows.to_csv(path, index=False)
    assert set(read_rows(path)["noise"]) == {GENERATOR}


def test_a_report_warns_of_noise_on_a_lattice(rows, tmp_path):
    path = tmp_path / "rows.csv"
    rows.to_csv(path, index=False)
    old = dict(report._run_summary(read_rows(path)))["Gaussian noise"]
    count = (read_rows(path)["noise"] == BEFORE).sum()
    assert old.startswith(f"{BEFORE}: {count:,} models. As {BEFORE} draws it")
    assert "lies on a lattice" in old
    rows["noise"] = GENERATOR
    rows.to_csv(path, index=False)
    new = dict(report._run_summary(read_rows(path)))["Gaussian noise"]
    assert new == f"{GENERATOR}: {len(rows):,} models"
    rows["noise"] = ""
    rows.to_csv(path, index=False)
    assert "Gaussian noise" not in dict(report._run_summary(read_rows(path)))
