"""Table 3: its numbers from rows, the paper's beside them, and what its words claim."""

from pathlib import Path

import pandas as pd
import pytest

from graphdp.errors import GraphDPError
from graphdp.paper import printing, tables
from graphdp.paper.attack import read_attacks, show_table3, table3
from graphdp.paper.cells import read_published
from graphdp.paper.orderings import attack_orderings_table
from graphdp.paper.select import bootstrap_ci
from paper_fixture import attacks, published_with_an_unknown_method, synthetic_attacks

PUBLISHED = Path(__file__).parent.parent / "config" / "published" / "gap.csv"


def context(*datasets):
    return {
        "datasets": list(datasets),
        "published": str(PUBLISHED),
        "experiments": {},
        "attacks": attacks(),
    }


def test_table_3_stands_beside_the_papers_numbers_on_its_datasets_only(tmp_path):
    rows = read_attacks(
        synthetic_attacks(
            tmp_path / "a.csv", ["facebook", "berkeley13"], {("facebook", "mlp", "8")}
        )
    )
    table = table3(rows, context("facebook", "berkeley13")).set_index(
        ["dataset", "method", "epsilon"]
    )
    line = table.loc["facebook", "gap", "inf"]
    assert line["published_mean"] == 81.67 and line["n"] == 3
    expected = bootstrap_ci([51.0, 52.0, 53.0])
    assert (line["mean"], line["ci_low"], line["ci_high"]) == pytest.approx(expected)
    assert line["same_model_mean"] == pytest.approx(60)
    assert table.loc["berkeley13"]["published_mean"].isna().all()
    assert len(table.loc["berkeley13"]) == 6
    # 5 ε and ∞ for each of three methods are printed; what was not run says why.
    facebook = table.loc["facebook"]
    assert len(facebook) == 18
    assert facebook.loc["mlp", "8"]["missing_reason"] == "no result in rows.csv"
    assert facebook.loc["mlp", "16"]["missing_reason"] == "not requested in this run"
    assert facebook.loc["sage", "4"]["missing_reason"] == "not requested in this run"
    assert (facebook["published_mean"].notna()).all()
    other = context("facebook") | {
        "published": published_with_an_unknown_method(PUBLISHED, tmp_path)
    }
    unknown = table3(rows, other).set_index(["method", "epsilon"]).loc["gin", "4"]
    assert unknown["missing_reason"] == "method not yet part of the pipeline"


def test_the_printed_table_labels_every_epsilon(tmp_path):
    rows = read_attacks(synthetic_attacks(tmp_path / "a.csv", ["berkeley13"]))
    printed = show_table3(table3(rows, context("berkeley13")))
    assert "paper, %" not in printed.cells
    by_privacy = dict(zip(printed.cells["privacy"], printed.cells.to_dict("records"), strict=False))
    assert "ε = ∞ (no privacy)" in by_privacy
    claimed = [label for label in by_privacy if label.startswith("claimed ε = 8 (node level")]
    assert len(claimed) == 1 and "δ = 1e-4" in claimed[0] and "refuted" in claimed[0]
    covered = printed.cells["ε corrected, training membership"]
    assert set(covered) == {"none", "0.75, conditional"}
    assert any("GAP-NDP: ε at node level" in note for note in printed.notes)
    for text in (printing.to_markdown(printed), printing.to_latex(printed, "table3")):
        assert "52.0 [51.0, 53.0]" in text


def test_orderings_of_attacks_are_those_of_table_3(tmp_path):
    """What the attack finds: guessing is 50 %, and a claim may say within how many points."""
    path = synthetic_attacks(tmp_path / "a.csv", ["berkeley13"], seeds=5)
    own = context("berkeley13") | {
        "paper": "gap", "orderings": str(PUBLISHED.with_name("orderings.csv"))
    }  # fmt: skip
    rows = read_attacks(path)
    rows["auc"] += rows["level"].map({"none": 0.2, "node": -0.005})  # 53 % before
    found = attack_orderings_table(rows, own).set_index(["claim", "epsilon"])
    auc = rows.groupby(["method", "epsilon"])["auc"].mean() * 100
    line = found.loc["the attack finds members of GAP without privacy", "inf"]
    assert (line["higher_mean"], line["lower_mean"]) == (pytest.approx(auc["gap", "inf"]), 50)
    assert line["verdict"] == "holds" and line["lower_low"] == line["lower_high"] == 50
    close = found.loc["privacy leaves it little of GAP", "8"]
    assert close["higher_mean"] == pytest.approx(auc["gap", "8"])
    assert 2 < close["higher_mean"] - 50 <= 3 and close["verdict"] == "holds"
    defended = found.loc["privacy defends GAP", "8"]
    assert defended["higher_mean"] == pytest.approx(auc["gap", "inf"])
    assert defended["lower_mean"] == pytest.approx(auc["gap", "8"])
    assert found.loc["it finds fewer members of SAGE than of GAP", "inf"]["missing_reason"] == (
        "SAGE-∞: not requested in this run"
    )
    fewer = attack_orderings_table(rows[rows["seed"] < 4], own)
    assert set(fewer["verdict"]) == {"too few seeds", "missing"}


def test_the_papers_table_3_orders_as_its_text_says():
    """Section 7.4.2: the attack works without privacy, least on SAGE, and little at any ε."""
    printed = read_published(PUBLISHED)
    auc = (
        printed[printed["artefact"] == "Table 3"]
        .set_index(["dataset", "method", "epsilon"])
        .sort_index()
    )
    assert len(auc) == 3 * 3 * 6 and set(auc["metric"]) == {"auc"}
    for dataset in ("facebook", "reddit", "amazon"):
        without = auc.loc[dataset].xs("inf", level="epsilon")["mean"]
        assert without.idxmin() == "sage"
        for method in ("gap", "sage", "mlp"):
            private = auc.loc[dataset].loc[method].drop("inf")["mean"]
            assert private.max() < without[method] and private.between(49.9, 58.4).all()


def test_a_study_that_attacks_nothing_shows_what_is_printed_as_missing(tmp_path):
    """So that a part of a study, without its attacks, has all its tables."""
    own = context("facebook") | {
        "attacks": {}, "paper": "gap", "orderings": str(PUBLISHED.with_name("orderings.csv"))
    }  # fmt: skip
    files = [tmp_path / f"t.{kind}" for kind in ("csv", "md", "tex")]
    for name in ("table3", "attack_orderings"):
        tables.build_table(name, None, own, *files)
        assert len(tables.read_csv(files[0], name)) == (18 if name == "table3" else 0)
        told = files[1].read_text()
        assert name != "table3" or told.count("missing: not requested in this run") == 18


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "x.csv").write_text("study,dataset\ns,d\n")
    with pytest.raises(GraphDPError, match=r"attacks\.csv"):
        read_attacks(tmp_path / "x.csv")


def test_rows_of_another_attack_are_not_in_table_3(tmp_path):
    rows = read_attacks(synthetic_attacks(tmp_path / "a.csv", ["facebook"]))
    other = rows.assign(attack="another", auc=0.99)
    own = context("facebook")
    both = table3(pd.concat([rows, other], ignore_index=True), own)
    pd.testing.assert_frame_equal(both, table3(rows, own))
