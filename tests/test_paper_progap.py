"""ProGAP's artefacts: printed numbers, the tables with them, figures on the Figure objects."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_rgb

from graphdp.methods.progap.figures import figure3, figure4, layerwise
from graphdp.paper import cells, figures, orderings, rows, select, style, tables
from paper_fixture import context, synthetic_rows

PUBLISHED = Path(__file__).parents[1] / "config" / "published" / "progap.csv"
EDGE, NODE = ["0.25", "1"], ["2", "8"]
EPOCHS = 4


def experiments():
    base = {"method": "progap", "base_layers": [1], "layerwise": [False], "history": [False]}
    gap = {"method": "gap", "hops": [1, 2], "encoder_layers": [2]}
    accuracy = [base | {"level": "none", "epsilon": ["inf"], "depth": [1, 2, 3]}]
    for level, epsilon in (("edge", EDGE), ("node", NODE)):
        accuracy.append(base | {"level": level, "epsilon": epsilon, "depth": [1, 2, 3]})
        accuracy.append(gap | {"level": level, "epsilon": epsilon})
    accuracy.append({"method": "mlp", "level": "none", "epsilon": ["inf"], "hidden": [16]})
    ends = (("edge", ["1"]), ("node", ["8"]))
    return {
        "accuracy": accuracy,
        "convergence": [
            base | {"level": level, "epsilon": e, "depth": [2], "history": [True]}
            for level, e in ends
        ],
        "layerwise": [
            base | {"level": level, "epsilon": e, "depth": [1, 2], "layerwise": [False, True]}
            for level, e in (*ends, ("none", ["inf"]))
        ],
    }


def curve(seed, scale):
    """Three stages; stage s rises to 0.3 + 0.1 s, a little higher for later seeds."""
    epochs = np.arange(1, EPOCHS + 1) / EPOCHS
    return [(scale * (0.3 + 0.1 * s) * epochs + 0.001 * seed).tolist() for s in range(3)]


@pytest.fixture(scope="module")
def study():
    made = context(datasets=("facebook", "pubmed"), published=PUBLISHED)
    return made | {"experiments": experiments(), "methods": ["gap", "mlp", "progap"]}


@pytest.fixture(scope="module")
def frame(study, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    made = synthetic_rows(study)
    kept = made["hyperparameters"].map(lambda text: json.loads(text).get("history", False))
    made["curves"] = [
        json.dumps({"train": curve(seed, 1.1), "val": curve(seed, 1.0)}) if keep else ""
        for seed, keep in zip(made["seed"], kept, strict=True)
    ]
    made.to_csv(folder / "part.csv", index=False)
    rows.collect_rows([folder / "part.csv"], folder / "rows.csv")
    return rows.read_rows(folder / "rows.csv")


def panels(figure):
    """ "graph, level" -> the panel: what more its title says, of ε, is left out."""
    return {", ".join(ax.get_title().split(", ")[:2]): ax for ax in figure.axes if ax.axison}


def lines(ax):
    return {
        line.get_label(): (np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float))
        for line in ax.get_lines()
        if not line.get_label().startswith("_")
    }


def texts(figure):
    found = [t.get_text() for t in figure.findobj(lambda o: hasattr(o, "get_text"))]
    return [t.replace("\n", " ").replace("\u00a0", " ") for t in found if t]


def test_published_numbers_of_progap():
    table = cells.read_published(PUBLISHED)
    assert table.groupby("artefact").size().to_dict() == {"Table 1": 25, "Table 2": 55}
    second = table[table["artefact"] == "Table 2"].set_index(
        ["method", "level", "epsilon", "dataset"]
    )
    second = second.sort_index()
    printed = second["mean"]
    # What the text says of it (sections 1 and 6.1): the largest gains over GAP, both on FB-100.
    gains = {}
    for level, epsilon in (("edge", "1"), ("node", "8")):
        ours, theirs = printed["progap", level, epsilon], printed["gap", level, epsilon]
        gains[level] = (ours - theirs).round(6)
        assert gains[level].idxmax() == "fb-100" and (gains[level] > 0).all()
    assert gains["edge"]["fb-100"] == 10.4 and gains["node"]["fb-100"] == 5.5
    less = printed["progap", "node", "8"] < printed["progapsageofficial", "node", "8"]
    assert less[less].index.tolist() == ["reddit"]
    assert second.loc[("mlp", "edge", "0", "wenet"), ["mean", "ci"]].tolist() == [51.5, 0.22]
    assert second.loc[("progap", "none", "inf", "reddit"), ["mean", "ci"]].tolist() == [99.3, 0.03]


def test_table_2_shows_ours_beside_the_printed_numbers(frame, study):
    table = tables.tables()["progap_table2"].make(frame, study)
    assert set(table["dataset"]) == {"facebook", "reddit", "amazon", "fb-100", "wenet", "pubmed"}
    table = table.set_index(["dataset", "method", "level", "epsilon"])
    # 11 printed lines, EdgeRand's and DP-GNN's of the code, and these two as they should be.
    assert len(table.loc["facebook"]) == 13
    assert table.loc[("facebook", "progapsageofficial", "node", "8"), "published_mean"] == 62.6
    assert np.isnan(table.loc[("facebook", "progapsage", "node", "8"), "published_mean"])
    assert table.loc[("facebook", "progapsage", "none", "inf"), "published_mean"] == 84.7
    mine = table.loc[("facebook", "progap", "edge", "1")]
    assert mine["published_mean"] == 77.2 and mine["mean"] > 40 and mine["n"] == 5
    assert table.loc[("pubmed", "progap", "node", "8"), "epsilon_status"] == "refuted"
    assert np.isnan(table.loc[("pubmed", "progap", "edge", "1"), "published_mean"])
    assert table.loc[("wenet", "gap", "none", "inf"), "missing_reason"] == cells.NOT_REQUESTED
    # The frozen and the recorded models of the other experiments take no part in the choice.
    assert mine["settings_compared"] == 3
    first = tables.tables()["progap_table1"].make(frame, study).set_index("dataset")
    assert first.loc["wenet", "published_edges"] == 22_684_206


def test_figure_2_draws_progap_beside_gap(frame, study):
    found = panels(figures.figures()["progap_figure2"].draw(frame, study))
    edge = lines(found["pubmed, edge level"])
    assert set(edge) == {"ProGAP-EDP", "GAP-EDP", "ProGAP-∞", "MLP"}
    assert list(edge["ProGAP-EDP"][0]) == [0.25, 1]


def test_figure_3_draws_every_epoch_of_every_stage(frame, study):
    figure = figure3(frame, study)
    found = panels(figure)
    assert list(found) == [
        f"{dataset}, {level} level"
        for dataset in ("facebook", "pubmed")
        for level in ("edge", "node")
    ]
    ax = found["pubmed, node level"]
    drawn = lines(ax)
    assert set(drawn) == {"training", "validation"}
    for name, scale in (("training", 1.1), ("validation", 1.0)):
        x, y = drawn[name]
        assert list(x) == list(range(1, 3 * EPOCHS + 1))
        mean = np.mean([np.concatenate(curve(seed, scale)) for seed in range(5)], axis=0)
        np.testing.assert_allclose(y, 100 * mean, rtol=1e-9)
    ticks = [label.get_text() for label in ax.get_xticklabels()]
    assert ticks == ["0", "1", "2"]
    label = ax.get_xlabel().replace("\n", " ").replace("\u00a0", " ")
    assert label == f"stage, {EPOCHS} epochs each, at claimed ε = 8 (δ = 1e-5)"
    foot = "adjacency edge_directed / node_add_remove; ProGAP as published, proven (edge), refuted"
    assert foot in figure.get_supxlabel().replace("\n", " ")
    assert not any("not shown" in text for text in texts(figure))


def test_figure_4_draws_one_line_per_epsilon_over_the_depths(frame, study):
    figure = figure4(frame, study)
    found = panels(figure)
    drawn = lines(found["facebook, edge level"])
    assert set(drawn) == {"0.25", "1"}
    assert all(list(np.round(x)) == [1, 2, 3] for x, _ in drawn.values())
    assert found["facebook, node level"].get_title() == "facebook, node level, claimed ε (δ = 1e-5)"
    assert not any("GAP-EDP" in text and "not shown" in text for text in texts(figure))


def _gains(ax):
    """Name of a line -> the gain that is drawn there, its interval's ends, and the text beside."""
    names = [label.get_text() for label in ax.get_yticklabels()]
    dots = [one.get_offsets()[0] for one in ax.collections if isinstance(one, PathCollection)]
    bars = [one.get_segments()[0] for one in ax.collections if isinstance(one, LineCollection)]
    texts = [text.get_text() for text in ax.texts if text.xyann[1] == 0]
    assert [y for _, y in dots] == [bar[0][1] for bar in bars] == list(range(len(names)))
    return {
        name: (dot[0], bar[:, 0], text)
        for name, dot, bar, text in zip(names, dots, bars, texts, strict=True)
    }


def test_the_layerwise_figure_draws_what_is_gained_by_pairs_of_a_seed(frame, study):
    found = panels(layerwise(frame, study))
    assert list(found) == ["facebook", "pubmed"]
    drawn = _gains(found["pubmed"])
    # An ε has its δ and status in its line, the rest stands below.
    assert list(drawn) == [
        "ProGAP-∞", "ProGAP-EDP at ε = 1 (δ = 1e-7)", "ProGAP-NDP at claimed ε = 8 (δ = 1e-5)",
    ]  # fmt: skip
    mine = frame[(frame["dataset"] == "pubmed") & frame["hp_layerwise"].notna()]
    for (gain, bar, text), level, epsilon in zip(
        drawn.values(), ("none", "edge", "node"), ("inf", "1", "8"), strict=True
    ):
        cell = mine[(mine["level"] == level) & (mine["epsilon"] == epsilon) & ~mine["hp_history"]]
        asked = cell[(cell["hp_depth"] <= 2) & (cell["method"] == "progap")]
        ways = []
        for frozen in (False, True):
            best, _ = select.select_best(asked[asked["hp_layerwise"] == frozen])
            ways.append(100 * best.set_index("seed")["test_accuracy"].sort_index())
        gained = ways[1] - ways[0]
        assert len(gained) == 5 and gain == pytest.approx(gained.mean())
        # The interval is that of the differences by seed, not of two means.
        assert tuple(bar) == pytest.approx(select.bootstrap_ci(gained)[1:])
        assert text == f"{ways[0].mean():.1f} → {ways[1].mean():.1f}"
        assert -11 < gain < -5  # the synthetic accuracy falls by eight points


def test_the_layerwise_figure_has_no_empty_room(frame, study):
    """Its axis spans the gains, not the accuracies; no line without a dot, all in the panel."""
    even = frame.assign(test_accuracy=frame["test_accuracy"] * 0.01 + 0.8)
    for rows_of in (frame, even):
        figure = layerwise(rows_of, study)
        ((low, high),) = {ax.get_xlim() for ax in panels(figure).values()}
        ends = [
            x for ax in panels(figure).values() for _, bar, _ in _gains(ax).values() for x in bar
        ]
        assert low < min(ends) and high > max(*ends, 0)
        assert high - low <= 1.1 * max(5, max(*ends, 0) - min(*ends, 0))
        assert figure.get_figheight() < 4


def test_the_layerwise_figure_says_what_it_has_no_pair_of(frame, study):
    frozen = (frame["hp_layerwise"] == True) & (frame["dataset"] == "pubmed")  # noqa: E712
    figure = layerwise(frame[~(frozen & (frame["level"] == "edge"))], study)
    assert len(_gains(panels(figure)["pubmed"])) == 2
    assert len(_gains(panels(figure)["facebook"])) == 3
    foot = figure.get_supxlabel().replace("\n", " ")
    assert "not shown: ProGAP-EDP layer-wise on pubmed (no result in rows.csv)" in foot
    # Means of two have no interval, and few seeds a small marker.
    few = layerwise(frame[frame["seed"] < 2], study)
    assert not any(isinstance(one, LineCollection) for ax in few.axes for one in ax.collections)
    assert "small markers: fewer than 5" in few.get_supxlabel().replace("\n", " ")


def test_a_method_has_its_colour_where_no_epsilon_is_told_by_it(frame, study):
    own = to_rgb(style.method_style("progap")[0])
    curves = figure3(frame, study)
    for ax in panels(curves).values():
        drawn = [line for line in ax.get_lines() if not line.get_label().startswith("_")]
        assert len(drawn) == 2 and {to_rgb(line.get_color()) for line in drawn} == {own}
    for ax in panels(layerwise(frame, study)).values():
        assert {to_rgb(one.get_edgecolor()[0][:3]) for one in ax.collections} == {own}
    # Two ε in a panel are told apart.
    node = (frame["level"] == "node") & (frame["hp_history"] == True)  # noqa: E712
    more = pd.concat([frame, frame[node].assign(epsilon="4")], ignore_index=True)
    asked = [spec | {"epsilon": ["4", "8"]} if spec["level"] == "node" else spec
             for spec in study["experiments"]["convergence"]]  # fmt: skip
    wider = study | {"experiments": study["experiments"] | {"convergence": asked}}
    ax = panels(figure3(more, wider))["pubmed, node level"]
    colours = {line.get_label(): to_rgb(line.get_color()) for line in ax.get_lines()}
    assert colours["validation, 4"] != colours["validation, 8"] == colours["training, 8"]


@pytest.mark.parametrize("name", [n for n in figures.figures() if n.startswith("progap")])
def test_nothing_is_cut_or_covered(frame, study, name):
    figure = figures.figures()[name].draw(frame, study)
    with style.theme():
        figure.draw_without_rendering()
        page = figure.bbox
        for ax in figure.axes:
            box = ax.get_tightbbox()
            assert box.x0 >= page.x0 - 1 and box.x1 <= page.x1 + 1, ax.get_title()
            assert box.y0 >= page.y0 - 1 and box.y1 <= page.y1 + 1, ax.get_title()


def test_orderings_of_convergence_are_those_of_the_curves(frame, study):
    """By `curve` validation ends at 0.3, 0.4 and 0.5, training a tenth of that above."""
    own = study | {"paper": "progap", "orderings": str(PUBLISHED.with_name("orderings.csv"))}
    table = orderings.orderings_table(frame, own)
    mine = table[(table["dataset"] == "pubmed") & (table["level"] == "node")].set_index("claim")
    assert set(mine[mine["lower"].str.contains("at=")]["epsilon"]) == {"8"}
    ends = np.array([curve(seed, 1.0) for seed in range(5)])[:, :, -1].mean(axis=0)
    grows = mine.loc["validation accuracy grows over the stages"]
    assert grows["higher_mean"] == pytest.approx(100 * ends[2])
    assert grows["lower_mean"] == pytest.approx(100 * ends[0])
    assert grows["verdict"] == "holds" and grows["higher_n"] == 5
    less = mine.loc["later stages gain less"]  # as much, for the curves rise by equal steps
    assert less["higher_mean"] == pytest.approx(less["lower_mean"]) == pytest.approx(10)
    apart = mine.loc["training accuracy about as good as validation accuracy"]
    assert apart["higher_mean"] - apart["lower_mean"] == pytest.approx(5, abs=0.1)
    assert apart["verdict"] == "fails"
    without = orderings.orderings_table(frame.drop(columns="curves"), own).set_index("claim")
    assert (without.loc["later stages gain less", "verdict"] == "missing").all()


def test_rows_without_curves_leave_figure_3_empty(frame, study):
    figure = figure3(frame.drop(columns="curves"), study)
    assert any(text.startswith("no results: no result in rows.csv") for text in texts(figure))


def test_curves_survive_the_joining_of_rows(frame):
    kept = frame[frame["curves"] != ""]
    assert set(kept["hp_history"]) == {True} and len(kept) == 20
    assert set(frame.loc[frame["curves"] == "", "hp_history"]) == {False, None}
    best, _ = select.select_best(kept)
    assert json.loads(best["curves"].iloc[0])["val"][2][-1] == pytest.approx(0.5, abs=0.01)
