"""DPDGC's study, printed numbers, tables and figures."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from graphdp import config
from graphdp.errors import GraphDPError
from graphdp.methods.dpdgc import figures as drawn
from graphdp.methods.settings import key
from graphdp.paper import labels, orderings, rows, scorecard, style, tables
from graphdp.paper.accuracy import published_table
from graphdp.paper.cells import experiment_rows, read_published
from graphdp.paper.rows import COLUMNS
from graphdp.privacy import protection
from graphdp.rng import generator
from graphdp.workflow import asked as asked_for
from graphdp.workflow.grid import Grid
from study_fixture import axis_titles

ROOT = Path(__file__).parents[1]
PUBLISHED = ROOT / "config" / "published" / "dpdgc.csv"
PHI = ("m1", "m0.5", "0", "0.5", "1")
CLAIMS = {
    "dpdgc": ("corrected", "conditional"),
    "dpdgcofficial": ("as_implemented", "refuted"),
    "gap": ("as_published", "refuted"),
    "sage": ("as_published", "refuted"),
    "mlp": ("as_published", "conditional"),
}


@pytest.fixture(scope="module")
def study():
    return config.validate(yaml.safe_load((ROOT / "config/papers/dpdgc.yaml").read_text()))


# ------------------------------------------------------------------------------------ the study


def test_the_papers_settings(study):
    """Appendix K: hidden 64, learning rate 1e-3, 100 + 100 epochs, D = 100, batch 256 or 64,
    dropout 0.5 without DP-Adam in the classifier and none with it."""
    grid = Grid(study)
    for cell in grid.cells:
        for setting in cell.settings:
            assert (setting["hidden"], setting["learning_rate"], setting["epochs"]) == (
                64,
                1e-3,
                100,
            )
            if cell.method == "mlp":
                assert setting["layers"] == 3
            if cell.level == "node" and cell.method != "mlp":
                assert setting["max_degree"] == 100
            # The baselines run for a replaced node; DPDGC has no other adjacency.
            baseline = cell.level == "node" and not cell.method.startswith("dpdgc")
            assert setting.get("adjacency") == ("node_replace" if baseline else None)
            if cell.method == "sage":
                assert setting.get("mp_layers") == (None if cell.level == "node" else 2)
            if cell.level not in ("none", "edge") or cell.method.startswith("dpdgc"):
                small = cell.dataset in ("squirrel", "chameleon", "computers", "cora", "photo")
                full = cell.level == "none" and cell.dataset not in (
                    "squirrel",
                    "chameleon",
                    "pubmed",
                )
                assert setting.get("batch_size") == (None if full else 64 if small else 256)
            if cell.method.startswith("dpdgc"):
                assert setting["classifier_epochs"] == 100
                assert setting.get("dropout") == (0.5 if cell.level in ("none", "edge") else None)


def test_the_cells_of_table_2_are_all_there(study):
    grid = Grid(study)
    mine = {(c.dataset, c.method, c.level, c.epsilon) for c in grid.cells}
    printed = read_published(PUBLISHED)
    printed = printed[printed["metric"] == "accuracy"]
    for cell in printed.itertuples():
        level, epsilon = cell.level, cell.epsilon
        if cell.method == "mlp" and level == "edge":
            level, epsilon = "none", "inf"
        assert (cell.dataset, cell.method, level, epsilon) in mine
        if cell.method == "dpdgcofficial":
            assert (cell.dataset, "dpdgc", level, epsilon) in mine


def test_csbm_stands_in_both_sizes_over_phi(study):
    # Appendix K: "the settings used for the Facebook dataset"; the authors' loader: 2.5 %.
    sizes = ("paper", 10000, 200, "shared"), ("code", 30000, 2000, "shared 0.025/0.025/0.95")
    for size, nodes, features, split in sizes:
        values = []
        for name, definition in study.definitions.items():
            if name.startswith(f"csbm-{size}-"):
                parameters = definition["parameters"]
                assert (parameters["n"], parameters["f"]) == (nodes, features)
                found = drawn._PHI.match(name)
                assert found["size"] == f"csbm-{size}"
                assert float(found["phi"].replace("m", "-")) == parameters["phi"]
                assert study.split_rule(name) == split
                values.append(parameters["phi"])
        assert values == list(np.arange(-1, 1.01, 0.25))
    assert study.split_rule("cora") == "shared"


def test_entries_for_some_datasets_and_levels_by_k():
    base = {"study": "s", "datasets": ["csbm", "cora"]}
    entry = {"method": "dpdgc", "level": "k7", "epsilon": 4}
    grid = Grid(config.validate(base | {"experiments": {"a": [entry | {"datasets": ["cora"]}]}}))
    assert [cell.path for cell in grid.cells] == ["cora/dpdgc/k7/4/a"]
    assert asked_for.experiments(grid.study)["a"][0]["datasets"] == ["cora"]
    for level, message in (("k", "unknown level of dpdgc 'k'"), ("kk", "k<number>")):
        with pytest.raises(GraphDPError, match=message):
            config.validate(base | {"experiments": {"a": [entry | {"level": level}]}})
    with pytest.raises(GraphDPError, match="unknown level of gap 'k7'"):
        config.validate(base | {"experiments": {"a": [entry | {"method": "gap"}]}})


# ------------------------------------------------------------------------------- printed numbers


def test_printed_numbers():
    printed = read_published(PUBLISHED)
    assert len(printed) == 158 and (printed["metric"] == "read_off_accuracy").sum() == 11

    def at(*cell):
        return next(
            (r.mean, r.ci)
            for r in printed.itertuples()
            if (r.dataset, r.method, r.level, r.epsilon) == cell
        )

    # Columns of Table 2 (15 cells each, accuracies and intervals), as the paper prints them.
    table2 = printed[printed["artefact"] == "Table 2"]
    sums = table2.groupby("dataset")[["mean", "ci"]].sum().round(2)
    assert {name: tuple(row) for name, row in sums.iterrows()} == {
        "squirrel": (562.13, 13.14),
        "chameleon": (676.19, 19.36),
        "facebook": (926.51, 6.57),
        "pubmed": (1253.16, 5.01),
        "computers": (1185.14, 5.64),
        "cora": (993.01, 14.89),
        "photo": (1239.47, 6.26),
    }
    assert at("squirrel", "dpdgcofficial", "none", "inf") == (79.92, 0.26)
    assert at("facebook", "dpdgcofficial", "k1", "16") == (80.94, 0.27)
    assert at("computers", "dpdgcofficial", "k25", "16") == (78.25, 0.31)
    assert at("photo", "dpdgcofficial", "node", "16") == (82.15, 0.54)
    assert at("cora", "gap", "edge", "1") == (76.95, 0.90)
    assert at("pubmed", "mlp", "node", "16") == (85.72, 0.11)
    assert at("chameleon", "sage", "node", "16") == (20.96, 1.27)
    # The paper's DP-MLP at edge level is its MLP.
    assert at("cora", "mlp", "edge", "0") == at("cora", "mlp", "none", "inf") == (76.48, 0.91)
    counts = printed[printed["artefact"] == "Table 1"]
    assert set(counts["metric"]) >= {"nodes", "edges", "features", "classes", "homophily"}
    assert counts.set_index(["dataset", "metric"])["mean"]["facebook", "edges"] == 2117924


# ---------------------------------------------------------------------------- tables and figures


def experiments():
    def spec(method, level, epsilon, **more):
        return {"method": method, "level": level, "epsilon": epsilon, "hidden": [64]} | more

    both = ("dpdgcofficial", "dpdgc")
    real, school, csbm = ["cora", "facebook"], ["facebook"], [f"csbm-code-phi-{p}" for p in PHI]
    levels = ("k1", "k5", "node")
    return {
        "accuracy": [
            *(spec(m, "none", ["inf"], datasets=real) for m in both),
            *(spec(m, "edge", ["1"], datasets=real) for m in both),
            *(spec(m, lv, ["16"], datasets=real) for m in both for lv in levels),
            spec("gap", "node", ["16"], datasets=real, adjacency=["node_replace"]),
            spec("sage", "edge", ["1"], datasets=real),
            spec("sage", "node", ["16"], datasets=real),
            spec("mlp", "none", ["inf"], datasets=real),
        ],
        "edge-budget": [spec(m, "edge", ["1", "4"], datasets=school) for m in both],
        "node-budget": [
            *(spec(m, lv, ["8", "16"], datasets=school) for m in both for lv in levels),
            spec("mlp", "node", ["8", "16"], datasets=school),
        ],
        "neighbors": [
            *(spec(m, lv, ["16"], datasets=["cora"]) for m in both for lv in ("k1", "k5")),
            spec("gap", "node", ["16"], datasets=["cora"]),
        ],
        "csbm": [
            *(spec(m, "k1", ["16"], datasets=csbm) for m in both),
            spec("mlp", "none", ["inf"], datasets=csbm),
        ],
    }


@pytest.fixture(scope="module")
def context():
    names = ["cora", "facebook", *(f"csbm-code-phi-{p}" for p in PHI)]
    return {
        "study": "s", "title": "S", "paper": "dpdgc", "datasets": names, "unavailable": {},
        "published": str(PUBLISHED), "orderings": None, "methods": ["dpdgc", "dpdgcofficial", "gap",
        "mlp", "sage"], "experiments": experiments(), "statistics": {}, "calibrations": [],
    }  # fmt: skip


@pytest.fixture(scope="module")
def frame(context, tmp_path_factory):
    made = {}
    for specs in context["experiments"].values():
        for spec in specs:
            for dataset in spec["datasets"]:
                for epsilon in spec["epsilon"]:
                    for seed in range(3):
                        row = a_row(dataset, spec["method"], spec["level"], epsilon, seed)
                        made[tuple(row[c] for c in COLUMNS[:8])] = row
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    pd.DataFrame(list(made.values()))[list(COLUMNS)].to_csv(path, index=False)
    return rows.read_rows(path)


def a_row(dataset, method, level, epsilon, seed):
    basis, status = CLAIMS[method]
    status = "proven" if (method, level) == ("sage", "edge") else status
    adjacency = {"edge": "edge_directed", "node": "node_replace"}.get(
        level, f"k_neighbor({level[1:]})"
    )
    private = level != "none"
    accuracy = 0.5 + 0.1 * (method == "dpdgcofficial") + 0.01 * seed
    noise = generator("row", dataset, method, level, epsilon, seed).uniform(0, 0.01)
    return dict.fromkeys(COLUMNS, "") | {
        "study": "s", "dataset": dataset, "method": method, "level": level, "epsilon": epsilon,
        "delta": 1e-5 if private else "", "seed": seed, "hyperparameters": key({"hidden": 64}),
        "val_accuracy": accuracy, "test_accuracy": accuracy + noise,
        "noise_multiplier": 2.0 if private else "", "checkpoint": "best_validation",
        "study_seed": "12345", "split": "shared", "graph": "89abcdef0123",
        "epsilon_basis": basis if private else "", "adjacency": adjacency if private else "",
        "epsilon_status": status if private else "", "epsilons": "[]",
    }  # fmt: skip


def test_table_1_shows_density_and_homophily_as_the_paper_prints_them(context):
    found = {
        "nodes": 2708, "edges": 10556, "average_degree": 3.9, "max_out_degree": 168,
        "features": 1433, "classes": 7, "homophily": 0.76572,
    }  # fmt: skip
    table = tables.tables()["dpdgc_table1"].make(None, context | {"statistics": {"cora": found}})
    line = table[table["dataset"] == "cora"].iloc[0]
    assert line["edge_density"] == pytest.approx(line["published_edge_density"], abs=5e-5)
    cells = tables.tables()["dpdgc_table1"].show(table).cells
    ours, paper = cells[cells["dataset"] == "cora"].to_dict("records")
    for name, text in (("edge density", "0.0029"), ("homophily", "0.7657")):
        assert ours[name] == paper[name] == text
    without = table.assign(published_edge_density=np.nan)
    assert "edge density" not in tables.tables()["dpdgc_table1"].show(without).cells


def test_table_2_has_both_columns_and_the_printed_numbers_stand_beside_the_official_code(
    frame, context
):
    table = published_table(frame, context)
    lines = table[table["dataset"] == "cora"].set_index(["method", "level", "epsilon"])
    official = lines.loc[("dpdgcofficial", "k1", "16")]
    ours = lines.loc[("dpdgc", "k1", "16")]
    assert (official["published_mean"], official["published_ci"]) == (59.98, 0.81)
    assert np.isnan(ours["published_mean"])
    assert (official["epsilon_status"], ours["epsilon_status"]) == ("refuted", "conditional")
    # No column for graphs that the accuracy experiment does not ask for.
    assert not table["dataset"].str.startswith("csbm").any()
    order = list(dict.fromkeys(zip(table["method"], table["level"], strict=True)))
    assert order.index(("dpdgc", "k1")) == order.index(("dpdgcofficial", "k1")) + 1
    text = tables.tables()["dpdgc_table2"].show(table).cells.to_string()
    assert "DPDGC-N1 (its code)" in text and "DPDGC-N1 " in text
    assert "claimed ε = 16 (1-neighbour level, as implemented" in text
    assert "refuted, no guarantee" in text
    assert "k_neighbor(1), δ = 1e-5; conditional" in text


def test_table_2_shows_the_baselines_beside_what_is_printed(frame, context):
    table = published_table(frame, context)
    lines = table[table["dataset"] == "cora"].set_index(["method", "level", "epsilon"])
    for method, level, epsilon, printed, status in (
        ("sage", "edge", "1", (59.95, 1.98), "proven"),
        ("sage", "node", "16", (15.86, 1.55), "refuted"),
        ("gap", "node", "16", (54.36, 1.14), "refuted"),
    ):
        line = lines.loc[(method, level, epsilon)]
        assert (line["published_mean"], line["published_ci"]) == printed
        assert not np.isnan(line["mean"]) and line["epsilon_status"] == status
    shown = tables.tables()["dpdgc_table2"].show(table)
    text = shown.cells.to_string()
    assert "SAGE-EDP" in text and "paper 15.9 ± 1.55" in text
    assert any("k-neighbour level GAP" in note for note in shown.notes)


def test_table_2_shows_what_every_k_neighbour_level_is_worth_in_one_column(frame, context):
    def readings(row):
        if row["method"] != "dpdgc" or not row["level"].startswith("k"):
            return "[]"
        k = int(row["level"][1:])
        reading = {"basis": "corrected", "adjacency": f"k_neighbor({k})", "status": "conditional"}
        return json.dumps([reading | {"epsilon": 10 + k, "claimed_epsilon": 10 + k}])

    rows_ = frame.assign(epsilons=frame.apply(readings, axis=1))
    shown = tables.tables()["dpdgc_table2"].show(published_table(rows_, context)).cells
    assert shown.columns.is_unique
    column = shown.set_index("method")["ε corrected, k neighbours replaced"]
    for k in (1, 5):
        assert column[f"DPDGC-N{k}"] == f"{10 + k}, conditional"
    assert column["DPDGC-EDP"] == ""


def test_rows_of_one_adjacency_are_not_taken_for_the_other(frame, context):
    """A row that says nothing was trained for a node added or removed, and no cell takes it for a
    replaced one."""
    asked = {"node_replace": 0, "node_add_remove": 0}
    for adjacency in asked:
        spec = {"method": "gap", "level": "node", "epsilon": ["16"], "adjacency": [adjacency]}
        own = {**context, "experiments": {"a": [spec]}}
        named = frame.assign(hp_adjacency=None)
        asked[adjacency] = len(experiment_rows(named, own, "a"))
        named = frame.assign(hp_adjacency="node_replace")
        assert len(experiment_rows(named, own, "a")) == (
            0 if adjacency == "node_add_remove" else len(frame[frame["method"] == "gap"])
        )
    assert asked["node_replace"] == 0 < asked["node_add_remove"]


def test_every_claim_names_cells_of_the_study(study):
    """What DPDGC's text says of its own datasets: in the paper's study no side is unknown."""
    grid = Grid(study)
    own = {
        "datasets": list(dict.fromkeys(c.dataset for c in grid.cells)), "paper": "dpdgc",
        "orderings": str(PUBLISHED.with_name("orderings.csv")),
        "experiments": asked_for.experiments(grid.study),
    }  # fmt: skip
    table = orderings.orderings_table(pd.DataFrame(columns=list(COLUMNS)), own)
    assert set(table["verdict"]) == {"missing"}
    assert not table["missing_reason"].str.contains("not requested").any()
    named = orderings.read_orderings(own["orderings"], "dpdgc")
    assert set(named["claim"]) == set(table["claim"])
    larger = table[table["dataset"] == "facebook"]
    assert set(larger[larger["claim"] == "DPDGC above GAP"]["epsilon"]) == {"4", "8", "16"}


def test_claims_compare_levels_and_are_about_their_own_datasets(frame, context):
    own = context | {"orderings": str(PUBLISHED.with_name("orderings.csv"))}
    table = orderings.orderings_table(frame, own)
    fall = table[table["claim"] == "DPDGC at k = 1 no worse than at k = 5"]
    assert list(fall["dataset"]) == ["cora", "facebook"]
    means = published_table(frame, context).set_index(["dataset", "method", "level"])["mean"]
    for line in fall.itertuples():
        assert line.higher_mean == means[line.dataset, "dpdgc", "k1"]
        assert line.lower_mean == means[line.dataset, "dpdgc", "k5"]
    # Of the heterophilic graphs none is in this study, of the homophilic ones Cora.
    assert "DPDGC above SAGE" not in set(table["claim"])
    about = table[table["claim"] == "DPDGC is about as good as GAP"]
    assert list(about["dataset"]) == ["cora"] and list(about["verdict"]) == ["missing"]
    figure = scorecard.scorecard_figure(frame, own)
    labels_shown = [t.get_text() for t in figure.axes[1].get_yticklabels()]
    assert (
        "DPDGC at k = 1 no worse than at k = 5\ncora, 1-neighbour level, δ = 1e-5" in labels_shown
    )


def test_labels_of_k_neighbour_levels():
    assert labels.method_label("dpdgc", "k25") == "DPDGC-N25"
    assert labels.method_label("dpdgcofficial", "edge") == "DPDGC-EDP (its code)"
    assert protection.level_text("k5") == "5-neighbour level"
    assert sorted(["node", "k25", "none", "k5", "edge"], key=protection.level_order) == [
        "none", "edge", "k5", "k25", "node",
    ]  # fmt: skip
    assert "5 each of its in- and out-edges" in protection.adjacency_text("k_neighbor(5)")
    assert "exchanging one person's features" in labels.explain(
        "k5", "k_neighbor(5)", "conditional"
    )


def lines_of(figure):
    found = {}
    for ax in figure.axes:
        for line in ax.get_lines():
            found[ax.get_title(), line.get_label()] = line
    return found


def foot_of(figure):
    """What is said of all panels, in the figure and beside it."""
    return f"{figure.get_supxlabel()}; {style.beside(figure)}".replace("\n", " ")


def text_of(figure):
    return " ".join(axis_titles(figure))


def test_table_2_is_drawn_with_what_is_printed_beside_both_columns(frame, context):
    figure = drawn.table2(frame, context)
    ax = next(ax for ax in figure.axes if ax.get_title() == "cora")
    assert [t.get_text() for t in ax.get_xticklabels()] == [
        "none", "edge\nε = 1", "k = 1\nε = 16", "k = 5\nε = 16", "k = 25\nε = 16", "node\nε = 16",
    ]  # fmt: skip
    points = {}
    for shown in ax.containers:
        x, y = (np.asarray(part, dtype=float) for part in shown.lines[0].get_data())
        points[shown.get_label()] = dict(zip(np.round(x).astype(int), y, strict=True))
    # Printed at all six places (none is a place of its own); our cells where there are rows.
    assert set(points["DPDGC (paper)"]) == set(range(6))
    assert (points["DPDGC (paper)"][0], points["DPDGC (paper)"][2]) == (82.44, 59.98)
    table = published_table(frame, context).set_index(["dataset", "method", "level"])
    for name, method in (("DPDGC (its code)", "dpdgcofficial"), ("DPDGC", "dpdgc")):
        assert set(points[name]) == {0, 1, 2, 3, 5}
        for place, level in ((0, "none"), (1, "edge"), (2, "k1"), (3, "k5"), (5, "node")):
            assert points[name][place] == table.loc[("cora", method, level), "mean"]
    assert set(points["SAGE"]) == {1, 5}
    # The MLP reads no edge: its ε is 0 where one is protected.
    assert set(points["MLP"]) == {0, 1} and points["MLP"][0] == points["MLP"][1]
    assert "level at target ε = 1, 16" in text_of(figure)
    assert "; bars: 95 % intervals" in foot_of(figure)


def test_panels_of_table_2_that_claim_the_same_say_it_once_and_others_apart(frame, context):
    def told(rows):
        figure = drawn.table2(rows, context)
        panels = [ax.get_title() for ax in figure.axes if ax.get_title()]
        return panels, axis_titles(figure), foot_of(figure)

    cora, level = frame["dataset"] == "cora", frame["level"]
    same = told(frame)[:2]
    assert same == (["cora", "facebook"], ["level at target ε = 1, 16 (δ = 1e-5)"])
    # Where δ follows from the level it is said of which.
    by_level = frame.assign(delta=frame["delta"].where(level != "edge", frame["delta"] / 10))
    (title,) = told(by_level)[1]
    assert " ".join(title.split()) == (
        "level at target ε = 1, 16 (δ = 1e-6 for edge, 1e-5 for k and node)"
    )
    # Of two δ each panel says its own.
    panels, titles, foot = told(
        frame.assign(delta=frame["delta"].where(~cora, 10 * frame["delta"]))
    )
    assert panels == ["cora (δ = 1e-4)", "facebook (δ = 1e-5)"]
    assert titles == ["level at target ε = 1, 16"]
    for part in ("adjacency edge_directed / k_neighbor(k) / node_replace",
                 "DPDGC as implemented, refuted", "refuted claims: no ε is known to hold",
                 "SAGE as published, proven (edge), refuted (node)", "mean over 3"):  # fmt: skip
        assert part in foot, (part, foot)

    # One level of one graph with another status: each panel speaks for itself again.
    other = frame["epsilon_status"].where(~(cora & (level == "k1")), "proven")
    panels, (first, second), foot = told(frame.assign(epsilon_status=other))
    assert panels == ["cora", "facebook"]
    assert "DPDGC corrected, conditional" in second
    assert all("adjacency edge_directed" in title for title in (first, second))
    assert "proven" in first and "DPDGC as implemented" not in foot


def test_figure_3d_of_both_sizes_says_its_claims_once(frame, context):
    code = frame[frame["dataset"].str.startswith("csbm-code")]
    paper = code.assign(dataset=code["dataset"].str.replace("code", "paper"))
    both = [*dict.fromkeys(code["dataset"]), *dict.fromkeys(paper["dataset"])]
    specs = [spec | {"datasets": both} for spec in context["experiments"]["csbm"]]
    study = context | {"datasets": both, "experiments": {"csbm": specs}}
    figure = drawn.figure3d(pd.concat([code, paper], ignore_index=True), study)
    titles = [ax.get_title() for ax in figure.axes]
    assert titles == [
        f"{size}, {level}"
        for level in ("no privacy", "k = 1")
        for size in ("csbm-code", "csbm-paper")
    ]
    # Once for a line of two panels, below the middle of both.
    assert axis_titles(figure) == ["φ", "φ at target ε = 16 (δ = 1e-5)"]
    figure.draw_without_rendering()
    for left, right in (figure.axes[:2], figure.axes[2:]):
        (title,) = [text for ax in (left, right) for text in ax.texts]
        box = title.get_window_extent()
        middle = (left.bbox.x0 + right.bbox.x1) / 2
        assert (box.x0 + box.x1) / 2 == pytest.approx(middle, abs=1)
        ticks = min(label.get_window_extent().y0 for label in left.get_xticklabels())
        assert box.y1 < ticks and box.y0 > left.get_tightbbox().y0 - 2
    assert "DPDGC as implemented, refuted" in figure.get_supxlabel().replace("\n", " ")
    # What can be read off the authors' picture stands in the paper's sizes alone, in the colour of
    # its method.
    (legend,) = figure.legends
    told = {text.get_text() for text in legend.get_texts()}
    for method, name in (("dpdgc", "DPDGC"), ("mlp", "MLP")):
        assert f"{name}, authors' picture (± 2)" in told
        colours = [
            line.get_markeredgecolor()
            for ax in figure.axes
            for line in ax.lines
            if line.get_marker() == "D"
        ]
        assert style.method_style(method)[0] in colours
    diamonds = {
        ax.get_title(): [
            line.get_xydata().tolist() for line in ax.lines if line.get_marker() == "D"
        ]
        for ax in figure.axes
        if ax.get_title()
    }
    assert {title: found for title, found in diamonds.items() if found} == {
        "csbm-paper, k = 1": [[[-1, 75], [1, 75]]],
        "csbm-paper, no privacy": [[[0, 69]]],
    }


def test_figure_3a_and_3b_show_both_columns_side_by_side(frame, context):
    found = lines_of(drawn.figure3a(frame, context))
    assert {"DPDGC-EDP", "DPDGC-EDP (its code)", "MLP"} == {label for _, label in found}
    alone = frame[(frame["method"] == "mlp") & (frame["dataset"] == "facebook")]
    alone = alone[alone["level"] == "none"]["test_accuracy"]
    assert found["facebook", "MLP"].get_ydata() == pytest.approx([100 * alone.mean()] * 2)
    official, ours = (found["facebook", name] for name in ("DPDGC-EDP (its code)", "DPDGC-EDP"))
    assert list(official.get_xdata()) == list(ours.get_xdata()) == [1.0, 4.0]
    assert (official.get_markerfacecolor(), official.get_linestyle()) == ("white", "--")
    assert official.get_color() == ours.get_color() == ours.get_markerfacecolor()
    assert min(official.get_ydata()) > max(ours.get_ydata())
    figure = drawn.figure3b(frame, context)
    found = lines_of(figure)
    panels = [title.partition(", ")[2] for title, label in found if label == "DPDGC"]
    assert panels == ["k = 1", "k = 5", "node level"], "k grows from panel to panel"
    colours = {line.get_color() for (_, label), line in found.items() if label == "DPDGC"}
    assert len(colours) == 1
    assert {label for _, label in found} >= {"DPDGC", "DPDGC (its code)"}
    text = text_of(figure) + foot_of(figure)
    for part in ("target ε", "δ = 1e-5", "k_neighbor(k)", "node_replace", "corrected, conditional",
                 "as implemented, refuted",
                 "refuted claims: no ε is known to hold"):  # fmt: skip
        assert part in text, (part, text)


def test_figure_3c_runs_over_k_with_other_methods_as_horizontal_lines(frame, context):
    figure = drawn.figure3c(frame, context)
    found = lines_of(figure)
    assert list(found["cora", "DPDGC-Nk"].get_xdata()) == [1.0, 5.0]
    assert list(found["cora", "GAP-NDP"].get_xdata()) == [0, 1]  # an axhline
    # What is said of ε stands below, as in figures of several panels.
    assert set(axis_titles(figure)) == {"k at target ε = 16 (δ = 1e-5)"}
    assert "DPDGC as implemented, refuted" in foot_of(figure)


def test_figure_3d_runs_over_phi_in_order(frame, context):
    found = lines_of(drawn.figure3d(frame, context))
    line = found["csbm-code, k = 1", "DPDGC"]
    assert list(line.get_xdata()) == [-1.0, -0.5, 0.0, 0.5, 1.0]
    assert ("csbm-code, no privacy", "MLP") in found


def test_figure_3d_says_at_which_phi_delta_is_another(frame, context):
    other = frame["dataset"].isin(["csbm-code-phi-m0.5", "csbm-code-phi-1"])
    delta = frame["delta"].where(~other, frame["delta"] / 10)
    titles = axis_titles(drawn.figure3d(frame.assign(delta=delta), context))
    assert "φ at target ε = 16 (δ = 1e-5, but 1e-6 at φ = -0.5, 1)" in titles


def test_figure_3d_names_the_graphs_that_its_panel_lacks(frame, context):
    """They are dots on a line that others draw: one that is not there leaves no empty panel."""
    gone = {"csbm-code-phi-0.5": "not generated"}
    fewer = frame[~frame["dataset"].isin(["csbm-code-phi-0.5", "csbm-code-phi-m1"])]
    said = foot_of(drawn.figure3d(fewer, context | {"unavailable": gone}))
    assert "not shown: csbm-code-phi-0.5 (dataset not available: not generated)" in said
    assert "not shown: csbm-code-phi-m1 (no result in rows.csv)" in said
    # Without any of them the panel says so, and the remark nothing.
    none = frame[~frame["dataset"].str.startswith("csbm")]
    gone = {name: "not generated" for name in context["datasets"] if name.startswith("csbm")}
    figure = drawn.figure3d(none, context | {"unavailable": gone})
    assert "not shown" not in foot_of(figure)
    assert "not generated" in " ".join(t.get_text() for ax in figure.axes for t in ax.texts)


@pytest.mark.filterwarnings("error")
def test_many_lines_have_a_panel_for_each_level(context, tmp_path):
    """Eleven lines, in panels with room: matplotlib warns where they collapse."""
    lines = [
        (method, level, epsilon)
        for method in ("dpdgcofficial", "dpdgc", "gap")
        for level, epsilon in (("none", "inf"), ("edge", "16"), ("k1", "16"), ("node", "16"))
        if (method, level) != ("gap", "k1")
    ]
    made = [
        a_row(f"csbm-code-phi-{p}", *line, seed) for line in lines for p in PHI for seed in (0, 1)
    ]
    pd.DataFrame(made)[list(COLUMNS)].to_csv(tmp_path / "rows.csv", index=False)
    specs = [
        {"method": m, "level": lv, "epsilon": [e], "hidden": [64],
         "datasets": [f"csbm-code-phi-{p}" for p in PHI]}
        for m, lv, e in lines
    ]  # fmt: skip
    own = context | {"experiments": {"csbm": specs}}
    figure = drawn.figure3d(rows.read_rows(tmp_path / "rows.csv"), own)
    style.save(figure, tmp_path / "a.svg", tmp_path / "a.png")
    assert len(figure.axes) == 4
    for ax in figure.axes:
        assert ax.get_position().height * figure.get_figheight() > 2
        assert 2 <= len(ax.get_lines()) <= 3
    assert len({ax.get_ylim() for ax in figure.axes}) == 1
    # GAP has no k-neighbour level: it is there what it is at node level.
    k, node = (
        next(line for line in ax.get_lines() if line.get_label() == "GAP") for ax in figure.axes[2:]
    )
    assert list(k.get_ydata()) == list(node.get_ydata())


def test_figures_without_results_say_so(frame, context):
    empty = frame.iloc[:0]
    for name in ("table2", "figure3a", "figure3b", "figure3c", "figure3d"):
        figure = getattr(drawn, name)(empty, context)
        texts = [t.get_text() for ax in figure.axes for t in ax.texts]
        assert any("no results" in text for text in texts), name
