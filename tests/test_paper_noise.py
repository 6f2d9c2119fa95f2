"""What rows and reports say of the generator that drew the noise."""

import pytest

from graphdp.noise import GENERATOR
from graphdp.paper import figures, labels, report, tables
from graphdp.paper.labels import OLDER_NOISE
from graphdp.paper.rows import read_rows
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
    assert set(found.loc[noisy, "noise"]) == {OLDER_NOISE}
    assert set(found.loc[~noisy, "noise"]) == {""}
    # Collected with newer rows, each keeps its own.
    rows["noise"] = GENERATOR
    rows.to_csv(path, index=False)
    assert set(read_rows(path)["noise"]) == {GENERATOR}


def test_a_report_warns_of_noise_on_a_lattice(rows, tmp_path):
    path = tmp_path / "rows.csv"

    def said(noise):
        changed = rows if noise is None else rows.assign(noise=noise)
        changed.to_csv(path, index=False)
        found = read_rows(path)
        meanings = {who: text for who, text, _ in report._meanings(found, [])}
        return dict(report._run_summary(found)).get("Gaussian noise"), meanings, found

    tile, meanings, found = said(None)
    count = (found["noise"] == OLDER_NOISE).sum()
    assert tile == f"{OLDER_NOISE}: {count:,} models"
    assert "lies on a lattice" in meanings[f"Noise by {OLDER_NOISE}, {count:,} models"]
    tile, meanings, _ = said(GENERATOR)
    assert tile == f"{GENERATOR}: {len(rows):,} models"
    assert not any("lattice" in text for text in meanings.values())
    tile, meanings, _ = said("")
    assert tile is None and not any("lattice" in text for text in meanings.values())


@pytest.mark.parametrize("noise", [None, GENERATOR])
def test_tables_and_figures_of_older_rows_say_so(rows, tmp_path, noise):
    """Beside the numbers themselves, for who sees no report."""
    changed = rows if noise is None else rows.assign(noise=noise)
    changed.to_csv(tmp_path / "rows.csv", index=False)
    study = context()
    paths = [tmp_path / f"accuracy.{kind}" for kind in ("csv", "md", "tex")]
    tables.build_table("accuracy", tmp_path / "rows.csv", study, *paths)
    page = paths[1].read_text()
    about = [line for line in page.splitlines() if labels.LATTICE_NOTE in line]
    assert len(about) == (noise is None)
    if about:
        names = about[0].partition(":")[0]
        assert "GAP-EDP" in names and "GAP-NDP" in names and "∞" not in names
    found = read_rows(tmp_path / "rows.csv")
    for name in ("figure6", "figure8"):
        drawn = figures.figures()[name].draw(found, study)
        said = drawn._supxlabel.get_text().replace("\n", " ")
        assert ("lies on a lattice" in said) == (noise is None)
