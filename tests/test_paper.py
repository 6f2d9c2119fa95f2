"""Rows, selection, tables and published numbers of the paper's artefacts."""

import json
import re
from copy import deepcopy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from graphdp import config
from graphdp.errors import GraphDPError
from graphdp.paper import accuracy, cells, labels, printing, rows, select, tables
from graphdp.paper.context import study_context
from graphdp.privacy.plan import STATUSES
from graphdp.privacy.protection import canonical_epsilon
from graphdp.workflow import asked
from graphdp.workflow.calibrations import calibrate_cell
from paper_fixture import (
    attacks,
    context,
    published_with_an_unknown_method,
    synthetic_attacks,
    synthetic_rows,
)
from study_fixture import row as row_of
from study_fixture import write_rows

PUBLISHED = Path(__file__).parents[1] / "config" / "published" / "gap.csv"
# An ε with a value must be followed by what it means.
_VALUE = r"(?:[\d.]+(?![\d.])|∞|\$\\infty\$)"
BARE = re.compile(
    rf"(?:ε|\\varepsilon\$?)\s*=\s*{_VALUE}(?! \((?:edge level|node level|no privacy))"
)


@pytest.fixture
def study():
    return context(published=PUBLISHED)


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """The synthetic study's rows in two files, as two jobs would write them."""
    frame = synthetic_rows(context(published=PUBLISHED))
    folder = tmp_path_factory.mktemp("parts")
    half = len(frame) // 2
    frame.iloc[half:].to_csv(folder / "a.csv", index=False)
    frame.iloc[:half].to_csv(folder / "b.csv", index=False)
    return [folder / "a.csv", folder / "b.csv"]


@pytest.fixture(scope="module")
def written(parts):
    """rows.csv of the synthetic study."""
    path = parts[0].with_name("rows.csv")
    rows.collect_rows(parts, path)
    return path


def _small(**settings):
    """Rows of one cell: settings name -> [(val, test) per seed]."""
    lines = []
    for hops, values in settings.items():
        for seed, (val, test) in enumerate(values):
            lines.append(
                {
                    "study": "s",
                    "dataset": "d",
                    "method": "gap",
                    "level": "edge",
                    "epsilon": "4",
                    "delta": 1e-7,
                    "seed": seed,
                    "hyperparameters": json.dumps({"hops": int(hops.removeprefix("k"))}),
                    "val_accuracy": val,
                    "test_accuracy": test,
                    "checkpoint": "best_validation",
                    "epsilon_basis": "as_published",
                    "adjacency": "edge_directed",
                    "epsilon_status": "proven",
                    "epsilons": "[]",
                    "noise": "",
                }
            )
    return pd.DataFrame(lines)


# --------------------------------------------------------------------------------------------- rows


def test_rows_survive_a_round_trip_exactly(tmp_path, study):
    frame = synthetic_rows(study)
    frame.to_csv(tmp_path / "part.csv", index=False)
    rows.collect_rows([tmp_path / "part.csv"], tmp_path / "rows.csv")
    back = rows.read_rows(tmp_path / "rows.csv")
    key = list(rows.IDENTITY)
    left, right = (f.sort_values(key).reset_index(drop=True) for f in (frame, back))
    assert list(left["test_accuracy"]) == list(right["test_accuracy"])
    assert list(left["hyperparameters"]) == list(right["hyperparameters"])
    assert set(back["epsilon"]) == {"inf", "0.5", "1", "4", "2", "8"}
    assert back.loc[back["method"] == "gap", "hp_hops"].isin([1, 2]).all()
    assert back.loc[back["method"] == "mlp", "hp_hops"].isna().all()
    assert back["delta"].isna().equals(back["level"] == "none")


def test_collecting_does_not_depend_on_the_order_of_the_files(tmp_path, parts, written):
    again = tmp_path / "again.csv"
    rows.collect_rows(parts[::-1], again)
    assert again.read_bytes() == written.read_bytes()
    back = rows.read_rows(again)
    gap = back[
        (back["dataset"] == "pubmed") & (back["method"] == "gap") & (back["level"] == "node")
    ]
    assert [float(e) for e in gap["epsilon"]] == sorted(float(e) for e in gap["epsilon"])
    # Degrees sort as numbers: 10 before 100 before 200, at each number of hops.
    first = gap[(gap["epsilon"] == "2") & (gap["hp_encoder_layers"] == 2) & (gap["hp_hops"] == 1)]
    assert list(first["hp_max_degree"].drop_duplicates()) == [10, 100, 200]


def test_collecting_refuses_a_model_twice(tmp_path, parts):
    with pytest.raises(GraphDPError, match=r"185 rows stand twice, the first is study=") as error:
        rows.collect_rows([*parts, parts[0]], tmp_path / "out.csv")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out.csv").exists()


def test_no_results_at_all_give_an_empty_table_with_all_columns(tmp_path):
    rows.collect_rows([], tmp_path / "rows.csv")
    empty = rows.read_rows(tmp_path / "rows.csv")
    assert len(empty) == 0
    assert set(rows.COLUMNS) <= set(empty.columns)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("epsilon", "4 or so", "not a token"),
        ("epsilon", "-1", "not a token"),
        ("epsilon", "nan", "not a token"),
        ("val_accuracy", "76.3", "fraction between 0 and 1"),
        ("test_accuracy", "", "test_accuracy is empty"),
        ("noise_multiplier", "0", "noise of scale 0"),
        ("noise_multiplier", "much", "not a number"),
        ("delta", "", "0 < delta < 1"),
        ("delta", "1", "0 < delta < 1"),
        ("level", "graph", "level is not one of"),
        ("level", "none", "belong together"),
        ("seed", "1.5", "whole number"),
        ("epsilon_status", "sure", "epsilon_status is not one of"),
        ("adjacency", "", "needs its epsilon_basis and adjacency"),
        ("hyperparameters", "{hops: 2}", "not a JSON object"),
        ("hyperparameters", "[2]", "not a JSON object"),
        ("epsilons", "[{", "epsilons is not a JSON array"),
        ("versions", "{", "versions is not a JSON object"),
        ("versions", "[" * 100_000, "versions is not a JSON object"),
        ("curves", "[", "curves is not a JSON object"),
    ],
)
def test_a_broken_row_is_refused_with_its_line(tmp_path, study, column, value, message):
    frame = synthetic_rows(study).astype(str)
    frame = frame[(frame["level"] == "edge")].reset_index(drop=True)
    frame.loc[3, column] = value
    frame.fillna("").to_csv(tmp_path / "part.csv", index=False)
    with pytest.raises(GraphDPError, match=message) as error:
        rows.read_rows(tmp_path / "part.csv")
    assert "\n" not in str(error.value)
    if column != "epsilon":
        assert str(error.value).startswith("part.csv: line 5: ")


def test_a_missing_column_is_named(tmp_path, study):
    synthetic_rows(study).drop(columns=["adjacency"]).to_csv(tmp_path / "part.csv", index=False)
    with pytest.raises(GraphDPError, match="no column adjacency"):
        rows.collect([tmp_path / "part.csv"])


# ---------------------------------------------------------------------------------------- selection


def test_selection_follows_validation_and_not_test_accuracy():
    frame = _small(
        k1=[(0.70, 0.99), (0.70, 0.99), (0.70, 0.99)],
        k2=[(0.60, 0.50), (0.80, 0.52), (0.73, 0.54)],  # mean 0.71: the best, though not everywhere
        k3=[(0.90, 0.60), (0.60, 0.60), (0.60, 0.60)],  # has the best single validation accuracy
    )
    best, left_out = select.select_best(frame)
    assert left_out == {}
    assert {json.loads(h)["hops"] for h in best["hyperparameters"]} == {2}
    assert list(best["test_accuracy"]) == [0.50, 0.52, 0.54]
    assert list(best["settings_compared"]) == [3, 3, 3]
    assert select.summarise(best)["mean"].item() == pytest.approx(52.0, abs=1e-9)


def test_of_equal_settings_the_first_by_value_wins():
    # 10 sorts before 9 as text; the means are equal although the sums round differently.
    values = [(0.1, 0.5), (0.2, 0.5), (0.3, 0.5)]
    best, _ = select.select_best(_small(k10=values, k9=values[::-1]))
    assert {json.loads(h)["hops"] for h in best["hyperparameters"]} == {9}


def test_a_setting_without_all_seeds_is_not_compared():
    frame = _small(k1=[(0.6, 0.6)] * 3, k2=[(0.9, 0.9)] * 2)
    best, left_out = select.select_best(frame)
    assert {json.loads(h)["hops"] for h in best["hyperparameters"]} == {1}
    assert set(best["settings_compared"]) == {1}
    assert set(best["settings_incomplete"]) == {1}
    assert left_out == {}
    disjoint = frame[~((frame["seed"] == 0) & frame["hyperparameters"].str.contains("1"))]
    best, left_out = select.select_best(disjoint)
    assert len(best) == 0
    assert left_out == {("d", "gap", "edge", "4"): "incomplete: none of 2 settings has all seeds"}


def test_a_cell_must_not_mix_guarantees():
    frame = _small(k1=[(0.6, 0.6)] * 2)
    frame.loc[1, "adjacency"] = "edge_undirected"
    with pytest.raises(GraphDPError, match="mix adjacency 'edge_directed' and 'edge_undirected'"):
        select.select_best(frame)
    twice = pd.concat([_small(k1=[(0.6, 0.6)])] * 2)
    with pytest.raises(GraphDPError, match="hold a seed twice"):
        select.select_best(twice)


def test_bootstrap_interval_agrees_with_scipy():
    """Two percentile intervals with 20,000 resamples each, of the same ten values.

    With s the standard deviation of the resampled means, a limit has the standard error
    √(0.025 · 0.975 / 20,000) / (φ(1.96) / s) = 0.019 s, the difference of two limits 0.027 s.
    The tolerance of 0.15 s is more than five of those: failure probability below 1e-6.
    """
    values = np.random.default_rng(3).normal(0.72, 0.03, size=10)
    tolerance = 0.15 * values.std() / np.sqrt(len(values))
    mean, low, high = select.bootstrap_ci(values, resamples=20_000)
    theirs = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(7)
    ).confidence_interval
    assert mean == pytest.approx(values.mean(), abs=1e-12)
    assert low == pytest.approx(theirs.low, abs=tolerance)
    assert high == pytest.approx(theirs.high, abs=tolerance)
    assert low < mean < high


def test_bootstrap_interval_covers_the_mean_as_often_as_it_says():
    """Coverage over 2,000 samples of 40 normal values, each with its own resamples.

    The percentile interval covers about 93.8 % here (z limits instead of t, and a variance that is
    too small by 39/40). The number covered then has a standard deviation of 10.8, so leaving
    [0.91, 0.966] takes more than five of them: failure probability below 1e-6.
    """
    draws = np.random.default_rng(11).normal(size=(2000, 40))
    hits = 0
    for seed, values in enumerate(draws):
        _, low, high = select.bootstrap_ci(values, seed=seed)
        hits += low <= 0 <= high
    assert 0.91 < hits / 2000 < 0.966


def test_bootstrap_of_one_value_claims_no_interval():
    mean, low, high = select.bootstrap_ci([0.5])
    assert mean == 0.5
    assert np.isnan(low) and np.isnan(high)
    with pytest.raises(GraphDPError, match="no values"):
        select.bootstrap_ci([])
    assert select.bootstrap_ci([1, 2, 4]) == select.bootstrap_ci([1, 2, 4])


# ------------------------------------------------------------------------------------------- tables


def _line(table, *cell):
    found = table[(table[list(select.CELL)] == list(cell)).all(axis=1)]
    assert len(found) == 1
    return found.iloc[0]


def test_table_numbers_equal_a_computation_by_hand(written, study):
    frame = rows.read_rows(written)
    table = accuracy.accuracy_table(frame, study)
    line = _line(table, "pubmed", "gap", "node", "8")
    mine = frame[
        (frame["dataset"] == "pubmed")
        & (frame["method"] == "gap")
        & (frame["level"] == "node")
        & (frame["epsilon"] == "8")
    ]
    by_setting = {}
    for row in mine.to_dict("records"):
        setting = json.loads(row["hyperparameters"])
        # The grids of Figures 7 and 9 are not part of the table's.
        if setting["encoder_layers"] == 2 and setting["max_degree"] in (100, 200):
            by_setting.setdefault(row["hyperparameters"], []).append(row)
    assert len(by_setting) == 4
    best = max(by_setting, key=lambda s: np.mean([r["val_accuracy"] for r in by_setting[s]]))
    tests = [100 * r["test_accuracy"] for r in by_setting[best]]
    assert line["mean"] == pytest.approx(np.mean(tests), abs=1e-9)
    assert min(tests) <= line["ci_low"] < line["mean"] < line["ci_high"] <= max(tests)
    assert line["n"] == 5
    assert line["hyperparameters"] == best
    assert line["delta"] == 1e-5
    assert line["adjacency"] == "node_add_remove"
    assert line["epsilon_status"] == "refuted"
    assert line["missing_reason"] == ""


def test_a_grid_of_another_experiment_does_not_leak_into_the_table(written, study):
    frame = rows.read_rows(written)
    wanted = _line(accuracy.accuracy_table(frame, study), "pubmed", "gap", "node", "8")
    narrow = (frame["hp_max_degree"] == 10) | (frame["hp_encoder_layers"] == 0)
    frame.loc[narrow, "val_accuracy"] = 1.0
    still = _line(accuracy.accuracy_table(frame, study), "pubmed", "gap", "node", "8")
    assert narrow.any()
    assert still["hyperparameters"] == wanted["hyperparameters"]
    frame.loc[frame["hp_max_degree"] == 200, "val_accuracy"] = 1.0
    moved = _line(accuracy.accuracy_table(frame, study), "pubmed", "gap", "node", "8")
    assert json.loads(moved["hyperparameters"])["max_degree"] == 200


def test_a_grid_may_differ_by_dataset(written, study):
    frame = rows.read_rows(written)
    node = study["experiments"]["accuracy"][2]
    assert node["batch_size"] == {"default": [256], "elsewhere": [2048]}
    found = cells.experiment_rows(frame, study, "accuracy")
    kept = found[(found["level"] == "node") & (found["method"] == "gap")]
    assert set(kept["dataset"]) == {"berkeley13", "pubmed"}
    node["batch_size"] = {"default": [256], "pubmed": [2048]}
    found = cells.experiment_rows(frame, study, "accuracy")
    kept = found[(found["level"] == "node") & (found["method"] == "gap")]
    assert set(kept["dataset"]) == {"berkeley13"}


@pytest.mark.parametrize("own", [64, [64, 32], [64]])
def test_rows_of_a_datasets_own_values_belong_to_their_experiment(tmp_path, own):
    """Of every value that the grid trains, and of no other."""
    entry = {"method": "mlp", "level": "node", "epsilon": 1, "hidden": [8, 16]}
    its = config.validate(
        {
            "study": "s", "title": "t", "datasets": ["cora", "pubmed"], "delta": 1e-5,
            "experiments": {"a": [entry], "elsewhere": [entry | {"batch_size": 7}]},
            "per_dataset": {"cora": {"batch_size": own}}, "tables": [], "figures": [],
        }
    )  # fmt: skip
    context = {"datasets": its.datasets, "experiments": asked.experiments(its)}

    def one(cell, setting, seed):
        claim = "as_published", "node_add_remove", "proven"
        known = dict.fromkeys(("val_accuracy", "test_accuracy", "train_accuracy"), 0.5)
        return row_of("s", cell, setting, seed, 1e-5, claim, split="per_seed", **known)

    frame = rows.read_rows(write_rows(its, dict.fromkeys(its.datasets), one, tmp_path / "r.csv"))
    found = cells.experiment_rows(frame, context, "a")
    sizes = {name: set(of["hp_batch_size"]) for name, of in found.groupby("dataset")}
    assert sizes == {"cora": set(np.atleast_1d(own)), "pubmed": {256}}
    assert len(found) == 2 * 3 * (np.size(own) + 1)


def test_the_mlp_also_stands_at_edge_level_with_epsilon_zero(written, study):
    table = accuracy.accuracy_table(rows.read_rows(written), study)
    free = _line(table, "pubmed", "mlp", "edge", "0")
    plain = _line(table, "pubmed", "mlp", "none", "inf")
    assert free["mean"] == plain["mean"]
    assert free["delta"] == 0
    assert free["epsilon_status"] == "proven"


def test_degree_bounds_stand_apart_and_hops_are_selected_for_each(tmp_path):
    """A study's own experiment per bound; the published bound has no name in the settings."""
    node = {"method": "gap", "level": "node", "epsilon": ["8"], "hops": [1, 2], "max_degree": [50]}
    public = node | {"degree_bound": ["public_candidates"], "max_degree": [50, 400]}
    mlp = {"method": "mlp", "level": "node", "epsilon": ["8"]}
    study = context(datasets=("pubmed",))
    counted = {"method": "sage", "level": "node", "epsilon": ["8"], "degree_quantile": [0.5, 0.8]}
    study["experiments"] = {
        "accuracy": [node, mlp], "public": [public], "again": [node], "counted": [counted],
    }  # fmt: skip
    frame = synthetic_rows(study, seeds=3)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    study["experiments"]["accuracy"][0] = node | {"degree_bound": ["sampling"]}
    read = rows.read_rows(tmp_path / "rows.csv")
    table = accuracy.degree_bounds_table(read, study)
    lines = table[["method", "degree_bound", "max_degree", "n"]].values.tolist()
    assert lines == [
        ["mlp", "", "", 3],
        ["gap", "public_candidates", "50", 3],
        ["gap", "public_candidates", "400", 3],
        ["sage", "quantile 0.5", "", 3],
        ["sage", "quantile 0.8", "", 3],
        ["gap", "sampling", "50", 3],
    ]
    shown = tables.show_degree_bounds(table).cells["degree bound"].tolist()
    assert shown == ["reads no edge", *["public candidates"] * 2, "quantile 0.5", "quantile 0.8",
                     "sampling"]  # fmt: skip
    assert set(table["settings_compared"]) == {1, 2}
    of_bound = read[
        (read["hp_degree_bound"] == "public_candidates") & (read["hp_max_degree"] == 50)
    ]
    best = of_bound.groupby("hp_hops")["val_accuracy"].mean().idxmax()
    expected = 100 * of_bound[of_bound["hp_hops"] == best]["test_accuracy"].mean()
    assert table["mean"][1] == pytest.approx(expected, rel=1e-12)


def test_missing_cells_stand_with_their_reason(tmp_path, written):
    study = context(published=PUBLISHED, unavailable={"amazon": "no network"})
    study["experiments"]["accuracy"][1]["epsilon"].append("2")
    frame = rows.read_rows(written)
    table = accuracy.accuracy_table(frame, study)
    expected = {
        ("pubmed", "gap", "edge", "2"): "no result in rows.csv",
        ("amazon", "gap", "edge", "4"): "dataset not available: no network",
        ("amazon", "mlp", "edge", "0"): "dataset not available: no network",
    }
    for cell, reason in expected.items():
        line = _line(table, *cell)
        assert np.isnan(line["mean"]), cell
        assert pd.isna(line["n"]), cell
        assert line["missing_reason"] == reason
    # Every cell of the configuration is there once, with a mean or with a reason.
    assert table["mean"].isna().equals(table["missing_reason"] != "")
    assert not table.duplicated(list(select.CELL)).any()
    assert set(cells.expected_cells(study, "accuracy")) <= set(
        table[list(select.CELL)].itertuples(index=False, name=None)
    )
    paper = accuracy.published_table(frame, study)
    assert _line(paper, "amazon", "sage", "edge", "4")["missing_reason"].startswith("dataset not")
    assert _line(paper, "pubmed", "sage", "edge", "4")["missing_reason"] == cells.NOT_REQUESTED
    assert _line(paper, "facebook", "gap", "edge", "4")["missing_reason"] == cells.NOT_REQUESTED
    assert _line(paper, "facebook", "gap", "edge", "4")["published_mean"] == 76.3
    study["published"] = published_with_an_unknown_method(PUBLISHED, tmp_path)
    paper = accuracy.published_table(frame, study)
    assert _line(paper, "pubmed", "gin", "edge", "4")["missing_reason"] == cells.NO_METHOD


def test_published_numbers_stand_beside_the_same_dataset_only(written, study):
    table = accuracy.accuracy_table(rows.read_rows(written), study)
    assert table["published_mean"].isna().all()  # berkeley13 is not facebook
    assert set(table["dataset"]) == {"berkeley13", "pubmed"}
    same = context(datasets=("facebook",), published=PUBLISHED)
    table = accuracy.accuracy_table(rows.read_rows(written), same)
    line = _line(table, "facebook", "gap", "node", "8")
    assert (line["published_mean"], line["published_ci"]) == (63.2, 0.35)
    assert _line(table, "facebook", "mlp", "edge", "0")["published_mean"] == 50.8
    assert np.isnan(_line(table, "facebook", "gap", "node", "2")["published_mean"])
    assert np.isnan(_line(table, "facebook", "mlp", "none", "inf")["published_mean"])


def test_table_2_has_the_papers_lines_and_other_budgets_where_a_study_has_them(written, study):
    frame = rows.read_rows(written)
    table = accuracy.published_table(frame, study)
    lines = table[["method", "level", "epsilon"]].drop_duplicates()
    assert list(lines.itertuples(index=False, name=None)) == [
        ("gap", "none", "inf"),
        ("sage", "none", "inf"),
        ("gap", "edge", "4"),
        ("sage", "edge", "4"),
        ("mlp", "edge", "0"),
        ("gap", "node", "8"),
        ("sage", "node", "8"),
        ("mlp", "node", "8"),
    ]
    assert list(table["dataset"].unique()) == [
        "facebook",
        "reddit",
        "amazon",
        "berkeley13",
        "pubmed",
    ]
    # A study of other budgets has them where the paper has its own, and print where ε is the same.
    others = deepcopy(study)
    budgets = {"edge": ["1", "0.5"], "node": ["2"]}
    for spec in others["experiments"]["accuracy"]:
        if spec["epsilon"] != ["0"]:
            spec["epsilon"] = budgets.get(spec["level"], spec["epsilon"])
    other = accuracy.published_table(frame, others)
    mine = other[other["method"] == "gap"]
    shown = mine[mine["dataset"] == "pubmed"][["level", "epsilon"]].itertuples(index=False)
    assert list(map(tuple, shown)) == [
        ("none", "inf"), ("edge", "1"), ("edge", "0.5"), ("node", "2")
    ]  # fmt: skip
    assert set(
        other.loc[other["published_mean"].notna() & (other["method"] == "gap"), "level"]
    ) == {"none"}
    # SAGE, which this study does not run, keeps the paper's.
    sage = other[(other["method"] == "sage") & (other["dataset"] == "facebook")]
    assert list(sage["epsilon"]) == ["inf", "4", "8"] and sage["published_mean"].notna().all()
    full = accuracy.accuracy_table(frame, study)
    cell = ("berkeley13", "gap", "edge", "1")
    assert _line(other, *cell)["mean"] == _line(full, *cell)["mean"]


def test_incomplete_settings_are_named_under_the_table(written, study):
    frame = rows.read_rows(written)
    cell = (frame["dataset"] == "pubmed") & (frame["level"] == "edge") & (frame["epsilon"] == "4")
    frame = frame[~(cell & (frame["seed"] == 0) & (frame["hp_hops"] == 1))]
    table = accuracy.accuracy_table(frame, study)
    line = _line(table, "pubmed", "gap", "edge", "4")
    assert (line["settings_compared"], line["settings_incomplete"]) == (1, 1)
    assert json.loads(line["hyperparameters"])["hops"] == 2
    remarks = " ".join(tables.show_accuracy(table).notes)
    assert (
        "missing seeds were left out of the comparison for: pubmed GAP-EDP at ε = 4 (edge"
        in remarks
    )


def test_statistics_stand_beside_the_printed_ones(study):
    table = tables.tables()["table1"].make(pd.DataFrame(), study)
    lines = {line["dataset"]: line for line in table.to_dict("records")}
    assert list(lines) == ["facebook", "reddit", "amazon", "berkeley13", "pubmed"]
    assert lines["amazon"]["published_nodes"] == 1790731
    assert lines["amazon"]["published_edges"] == 80966832
    assert lines["amazon"]["missing_reason"] == cells.NOT_REQUESTED
    assert lines["pubmed"]["nodes"] == 19001
    assert np.isnan(lines["pubmed"]["published_nodes"])
    printed = tables.tables()["table1"].show(table)
    shown = printed.cells.set_index(["dataset", "source"])
    assert shown.loc[("facebook", "GAP (USENIX Security 2023), Table 1"), "edges"] == "2,117,924"
    # The paper's degree is the median: 62, where 2,117,924 / 26,406 = 80.2.
    assert shown.loc[("facebook", "GAP (USENIX Security 2023), Table 1"), "median degree"] == "62"
    assert shown.loc[("pubmed", "this study"), "median degree"] == "40.50"
    ours = tables.tables()["statistics"].make(pd.DataFrame(), study)
    assert list(ours["dataset"]) == ["berkeley13", "pubmed"]


@pytest.mark.alike
@pytest.mark.slow
@pytest.mark.parametrize("name", list(tables.tables()))
def test_tables_are_written_and_never_print_a_bare_epsilon(tmp_path, written, study, name):
    study = context(published=PUBLISHED, unavailable={"amazon": "no_network & no mirror"})
    paths = [tmp_path / f"{name}.{kind}" for kind in ("csv", "md", "tex")]
    if tables.tables()[name].of_attacks:
        study |= {"attacks": attacks()}
        written = synthetic_attacks(tmp_path / "attacks.csv", ["berkeley13"])
    table = tables.tables()[name]
    tables.build_table(name, written, study, *paths)
    tidy = tables.read_csv(paths[0], name)
    pd.testing.assert_frame_equal(tidy, table.make(table.read(written), study), check_exact=True)
    assert all(table.show(tidy).cells.columns)  # a head without a word is a button without a name
    markdown, latex = (path.read_text(encoding="utf-8") for path in paths[1:])
    for text in (markdown, latex):
        assert not BARE.search(text)
        assert "nan" not in text.lower()
    if name in ("accuracy", "table2"):
        columns = {"dataset", "method", "level", "epsilon", "mean", "ci_low", "ci_high", "n",
                   "published_mean", "published_ci"}  # fmt: skip
        assert columns <= set(tidy.columns)
        for word in ("as published", "δ = 1e-7", "node_add_remove", "refuted", "proven"):
            assert word in markdown
        assert "claimed ε = 8 (node level, as published, node_add_remove, δ = 1e-5; ref" in markdown
        line = _line(tidy, "pubmed", "gap", "edge", "4")
        assert line["epsilon_as_published"] == "4, proven"
        assert line["epsilon_corrected_edge_undirected"] == "6, conditional"
        line = _line(tidy, "pubmed", "gap", "node", "8")
        assert line["epsilon_as_published"] == "none"  # refuted
        assert "| ε corrected, participant" in markdown
        assert r"claimed $\varepsilon$ = 8 (node level, as published, node\_add\_remove, " in latex
        assert r"no\_network \& no mirror" in latex
    if len(tidy):
        assert r"\toprule" in latex and r"\bottomrule" in latex
    else:  # a table of another paper's experiments, which GAP's study does not name
        assert "was requested in this run." in markdown and "was requested in this run." in latex
    assert latex.count("{") == latex.count("}")
    assert latex.isascii()


def test_the_bare_epsilon_pattern_finds_bare_ones():
    for bare in ("ε = 4", "ε=0.5, δ = 1e-7", "| ε = ∞ |", r"$\varepsilon$ = 8 \\"):
        assert BARE.search(bare), bare
    for labelled in ("ε = 4 (edge level, as published)", "ε = ∞ (no privacy)"):
        assert not BARE.search(labelled), labelled


def test_an_unknown_table_is_refused(tmp_path, written, study):
    with pytest.raises(GraphDPError, match="no table is called 'table9'; there are statistics"):
        tables.build_table("table9", written, study, *[tmp_path / "x"] * 3)


def test_tables_of_a_study_without_any_result(tmp_path):
    rows.collect_rows([], tmp_path / "rows.csv")
    study = context(datasets=(), published=PUBLISHED, unavailable={"facebook": "no network"})
    table = accuracy.accuracy_table(rows.read_rows(tmp_path / "rows.csv"), study)
    assert table["mean"].isna().all()
    assert _line(table, "facebook", "gap", "edge", "4")["published_mean"] == 76.3
    assert "missing: dataset not available: no network" in printing.to_markdown(
        tables.show_accuracy(table)
    )


# ------------------------------------------------------------------------------------------- labels


def test_labels_say_what_an_epsilon_is():
    edge = "edge", "4", "as_published", [1e-7], "proven"
    assert labels.epsilon_label(*edge, "edge_directed") == (
        "ε = 4 (edge level, as published, edge_directed, δ = 1e-7; proven)"
    )
    node = "node", "8", "as_published", [1e-5, 1e-4], "refuted"
    assert labels.epsilon_label(*node, "node_replace") == (
        "claimed ε = 8 (node level, as published, node_replace, δ = 1e-5 to 1e-4; refuted, no "
        "guarantee)"
    )
    assert labels.epsilon_label(
        "node", "8", "corrected", [2.5e-6], "conditional", "participant"
    ) == ("ε = 8 (node level, corrected, participant, δ = 2.5e-6; conditional)")
    # Of a printed number whose claim nobody looked at, and of noise that nobody calibrated.
    assert labels.epsilon_label("edge", "4") == (
        "ε = 4 (edge level, as published; status not stated)"
    )
    assert labels.epsilon_label("k5", "16", "not_calibrated") == (
        "ε = 16 (5-neighbour level, not calibrated)"
    )
    assert labels.method_label("gap", "none") == "GAP-∞"
    assert labels.method_label("mlp", "edge") == "MLP"
    assert labels.method_label("mlp", "node") == "MLP-DP"
    assert "√2" in labels.explain("edge", "edge_directed", "proven")
    assert "No ε is known to hold" in labels.explain("node", "node_add_remove", "refuted")
    assert [canonical_epsilon(t) for t in ("4.0", "0.10", "inf", 16)] == [
        "4",
        "0.1",
        "inf",
        "16",
    ]


# ---------------------------------------------------------------------------------------- published


def test_published_numbers_of_gap():
    table = cells.read_published(PUBLISHED)
    assert table.groupby("artefact").size().to_dict() == {
        "Table 1": 15,
        "Table 2": 24,
        "Table 3": 54,
    }
    assert set(table["dataset"]) == {"facebook", "reddit", "amazon"}
    second = table[table["artefact"] == "Table 2"].set_index(["method", "level", "dataset"])
    assert second.loc[("gap", "edge", "facebook"), ["epsilon", "mean", "ci"]].tolist() == [
        "4",
        76.3,
        0.21,
    ]
    assert second.loc[("sage", "node", "amazon"), ["epsilon", "mean", "ci"]].tolist() == [
        "8",
        27.5,
        0.83,
    ]
    assert second.loc[("mlp", "edge", "reddit"), ["epsilon", "mean", "ci"]].tolist() == [
        "0",
        82.4,
        0.10,
    ]
    third = table[table["artefact"] == "Table 3"].set_index(["method", "epsilon", "dataset"])
    assert set(third["metric"]) == {"auc"}
    assert third.loc[("mlp", "16", "reddit"), "mean"] == 58.32
    assert third.loc[("sage", "inf", "amazon"), ["level", "mean"]].tolist() == ["none", 59.41]


def test_published_numbers_are_checked(tmp_path):
    head = ",".join(cells.PUBLISHED_COLUMNS)
    line = "Table 2,facebook,gap,edge,4,accuracy,76.3,0.21,paper"
    (tmp_path / "p.csv").write_text(f"{head}\n{line}\n{line.replace(',4,', ',4.0,')}\n")
    with pytest.raises(GraphDPError, match="stands twice"):
        cells.read_published(tmp_path / "p.csv")
    (tmp_path / "p.csv").write_text("dataset,mean\nx,1\n")
    with pytest.raises(GraphDPError, match="no column artefact"):
        cells.read_published(tmp_path / "p.csv")
    assert len(cells.read_published(None)) == 0


def test_notes_say_the_status_of_every_claim():
    cell = {"method": "gap", "level": "node", "epsilon": "8", "epsilon_basis": "corrected",
            "adjacency": "participant", "delta": 1e-5, "dataset": "pubmed"}  # fmt: skip
    told = labels.notes([cell | {"epsilon_status": one} for one in STATUSES])
    assert all(note.startswith("GAP-NDP: ε at node level, corrected, δ = 1e-5; ") for note in told)
    assert [note.rpartition("; ")[2] for note in told] == [
        "conditional.", "proven.", "refuted, no guarantee.",
    ]  # fmt: skip


def test_what_was_calibrated_is_known_by_its_target():
    """The ε that the noise has lies below it, by up to 1 %, and names no cell."""
    (entry,) = calibrate_cell("cora", "gap", "edge", "4.0", [{"hops": 2}], [100], 300, "auto")
    (found,) = study_context({"study": "s"}, {}, [[entry | {"epsilon": 3.97}]])["calibrations"]
    assert (found["dataset"], found["method"], found["epsilon"]) == ("cora", "gap", "4")
    assert found["epsilon_accounted"] == 3.97
    assert found["epsilon_dp_accounting"] > 4  # Rényi DP, looser


def test_of_models_with_several_deltas_the_weakest_stands_for_the_cell():
    """With a split per seed δ = "auto" follows each one's number of training nodes."""
    frame = _small(k1=[(0.6, 0.6)] * 3).assign(delta=[1e-7, 1e-5, 1e-6])
    best, _ = select.select_best(frame)
    assert select.summarise(best)["delta"].item() == 1e-5


def test_of_several_statuses_the_weakest_speaks_for_a_line():
    cell = {"level": "edge", "epsilon": "4", "epsilon_basis": "corrected", "delta": 1e-7,
            "adjacency": "edge_directed"}  # fmt: skip
    statuses = ("refuted", "conditional", "proven")
    own = {one: tables.claim_label([cell | {"epsilon_status": one}]) for one in statuses}
    assert len(set(own.values())) == 3
    for i, worse in enumerate(statuses):
        for better in statuses[i:]:
            both = [cell | {"epsilon_status": one} for one in (better, worse)]
            assert tables.claim_label(both) == tables.claim_label(both[::-1]) == own[worse]
