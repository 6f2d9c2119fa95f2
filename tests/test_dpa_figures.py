"""DPA-GNN's figures from rows."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb

import dpa_fixture as fixture
from dpa_fixture import at, expected
from graphdp.methods.dpa import numbers
from graphdp.methods.dpa import paper_tables as printed
from graphdp.methods.dpa.figures import FIGURES, TABLES
from study_fixture import lines_of, told

study, context, frame = fixture.fixtures()


@pytest.fixture(scope="module")
def table3(frame, context):
    return TABLES["dpa_table3"].make(frame, context)


@pytest.mark.slow
def test_a_graphs_figure_draws_the_tables_means_and_the_print(frame, context, table3):
    figure = FIGURES["dpa_cora"].draw(frame, context)
    node, edge = figure.axes
    assert [node.get_title(), edge.get_title()] == ["cora, node level", "cora, edge level"]
    tokens = ("2", "4", "6", "8", "10")
    for ax, name, line, group in (
        (node, "its code", "DPA-GNN, its code", "ε_h = 5 % of ε"),
        (node, "corrected", printed.NODE.title, ""),
        (edge, "corrected, 1 and 1 rounds", printed.EDGE_ONCE.title, ""),
    ):
        means_of = [at(table3, line, "cora", e, group)["mean"] for e in tokens]
        assert list(lines_of(ax)[name][:, 1]) == pytest.approx(means_of)
    (container,) = node.containers
    assert [y for _, y in container[0].get_xydata()] == [27.1, 66.8, 74.5, 77.4, 78.4]
    assert not edge.containers
    # Both dotted and without privacy: one is much lighter.
    flat = {line.get_label(): to_rgb(line.get_color()) for line in node.get_lines()}
    light, dark = (flat[name] for name in ("no graph, no noise", "its code, no noise"))
    assert np.mean(light) - np.mean(dark) > 0.15
    assert "refuted claims: no ε is known to hold" in told(figure)
    # Of Table 3's two shares the one above.
    assert "its code, paper: ε_h = 5 % of ε; paper's bars: standard deviation" in told(figure)
    gone = FIGURES["dpa_citeseer"].draw(frame, context)
    assert "not downloaded" in told(gone)
    assert [ax.get_title() for ax in gone.axes] == ["citeseer"]


@pytest.mark.slow
def test_no_panel_has_more_than_six_series(frame, context):
    for name, one in FIGURES.items():
        for ax in one.draw(frame, context).axes:
            # A band or bar belongs to its line.
            labels = ax.get_legend_handles_labels()[1]
            assert len(set(labels)) <= 6, (name, labels)


def test_parts_of_epsilon_stand_where_they_belong(study, frame, context):
    ax = FIGURES["dpa_figure4"].draw(frame, context).axes[0]
    lines = lines_of(ax)
    assert set(lines) == {"its code, claimed ε_e = 4", "its code, claimed ε_e = 8"}
    eight = lines["its code, claimed ε_e = 8"]
    assert list(eight[:, 0]) == [0.001, 0.01, 0.1, 1, 2]
    whole = expected(
        study, "features_edges", "dpaofficial", "cora", "9", public="labels"
    )  # fmt: skip
    assert 0 <= eight[3, 1] - whole <= 0.4
    ax = FIGURES["dpa_figure5"].draw(frame, context).axes[0]
    assert lines_of(ax)["its code, claimed ε_e = 4"][:, 0].tolist() == [0.1, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("number", "names"),
    [(3, "RR, Blink, Solitude, DPRR"), (4, "Solitude"), (5, "RR"), (6, "LPGNN, RGNN")],
)
def test_printed_lines_that_are_not_here_are_named_in_the_picture(frame, context, number, names):
    figure = FIGURES[f"dpa_figure{number}"].draw(frame, context)
    below = figure.get_supxlabel().replace("\n", " ")
    assert f"not shown: {names} (method not yet part of the pipeline)" in below


def test_heat_maps_and_hyperparameters(study, frame, context):
    panels = {ax.get_title(): ax for ax in FIGURES["dpa_figure8"].draw(frame, context).axes}
    values = panels["computers, claimed ε = 8"].images[0].get_array()
    assert values.shape == (5, 5)
    assert not np.ma.is_masked(values) and np.isfinite(values).all()
    whole = expected(
        study, "layers", "dpaofficial", "computers", "8", feature_layers=4, label_layers=10
    )
    assert 0 <= values[3, 4] - whole <= 0.4  # l_h upwards from 2, l_y to the right
    # A graph has one scale at both ε, and settings without results their grey places.
    few = frame[frame["hp_feature_layers"].isin([8, 10]) | (frame["dataset"] == "cora")]
    figure = FIGURES["dpa_figure8"].draw(few, context)
    assert "30 of 100 settings have no result (grey)" in told(figure)
    panels = {ax.get_title(): ax for ax in figure.axes}
    four, eight = (panels[f"computers, claimed ε = {e}"] for e in ("4", "8"))
    assert four.images[0].get_clim() == eight.images[0].get_clim()
    assert np.isfinite(four.images[0].get_array().filled(np.nan)).sum(axis=1).tolist() == [
        5,
        5,
        0,
        0,
        0,
    ]
    assert [text.get_text() for text in four.get_yticklabels()] == ["10", "8", "6", "4", "2"]
    assert four.get_facecolor()[:3] == (0.9, 0.9, 0.9)
    # One setting is no comparison.
    one = (frame["hp_feature_layers"] == 10) & (frame["hp_label_layers"] == 2)
    figure = FIGURES["dpa_figure8"].draw(frame[one | (frame["dataset"] == "cora")], context)
    assert {ax.get_title().partition(",")[0] for ax in figure.axes} == {"cora"}
    assert "computers (a single setting)" in told(figure)


def test_hyperparameters_have_all_their_ticks(frame, context):
    some = frame[(frame["dataset"] == "cora") | (frame["hp_max_degree"] == 17)]
    for rows in (frame, some):
        ax = FIGURES["dpa_figure9"].draw(rows, context).axes[1]
        assert [t.get_text() for t in ax.get_xticklabels()] == [
            "9", "17", "31", "49", "2993\nno cut",
        ]  # fmt: skip
        drawn = [line for line in ax.get_lines() if line.get_label() == "claimed ε = 4"]
        # No line leads to what is not cut.
        joined = [list(map(float, line.get_xdata())) for line in drawn if len(line.get_xdata())]
        assert joined == ([[0, 1, 2, 3], [4]] if rows is frame else [[1]])
    figure = FIGURES["dpa_figure10"].draw(frame, context)
    bars = next(ax for ax in figure.axes if ax.get_ylabel() == "dummies of a node").patches
    assert [bar.get_height() for bar in bars] == pytest.approx([10, 10 / 3, 2, 10 / 7, 10 / 9])
    assert "dummies of a node" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_noise_is_not_drawn_as_structure(frame, context):
    """All accuracies within a point, on axes that span five."""
    even = frame.assign(test_accuracy=0.8 + 0.01 * (frame["test_accuracy"] % 1))
    for number in (4, 5, 9, 10):
        for ax in FIGURES[f"dpa_figure{number}"].draw(even, context).axes:
            if ax.get_lines():
                assert np.ptp(ax.get_ylim()) == pytest.approx(5)


def test_a_level_without_results_says_so_in_its_panel(frame, context):
    level = (frame["dataset"] == "computers") & (frame["level"] == "edge")
    figure = FIGURES["dpa_computers"].draw(frame[~level], context)
    node, edge = figure.axes
    (text,) = edge.texts
    assert text.get_text().startswith("no results: ") and not node.texts
    assert set(lines_of(edge)) == {"no graph, no noise"} and edge.get_ylim() == node.get_ylim()
    assert edge.get_xlabel() == ""


def test_central_methods_stand_by_what_their_epsilon_is(frame, context):
    left, right, *_ = FIGURES["dpa_figure7"].draw(frame, context).axes
    assert set(lines_of(left)) == {
        "DPA-GNN-NDP (its code)", "Naive DP-SGD (its code)", "GAP-NDP",
        "HeterPoisson-SML-NDP (its code)", "DPDGC-NDP (its code)",
    }  # fmt: skip
    # What is refuted is hollow and dashed, by whichever paper; what holds is neither.
    looks = {
        ax: {(line.get_linestyle(), line.get_markerfacecolor() == "white") for line in ax.lines}
        for ax in (left, right)
    }
    assert looks == {left: {("--", True)}, right: {("-", False)}}
    assert set(lines_of(right)) == {
        "DPA-GNN-NDP", "MLP-DP", "GAP-NDP, for a participant", "ProGAP-NDP", "HeterPoisson-NDP",
        "DPDGC-NDP",
    }  # fmt: skip
    # GAP's models are the same, and stand right where a participant's ε is not above the claim.
    claimed, held = lines_of(left)["GAP-NDP"], lines_of(right)["GAP-NDP, for a participant"]
    assert claimed[:, 0].tolist() == [2, 4, 6, 8, 10]
    assert held.tolist() == claimed[:4].tolist()


def test_the_costs_are_drawn_as_they_were_counted(context, frame):
    """Lines for the formula, hollow marks of three shapes for what was counted, as the caption has
    it, against each size."""
    figure = FIGURES["dpa_cost"].draw(frame, context)
    for (name, sizes), ax in zip(numbers.VARIED.items(), figure.axes, strict=False):
        counted = [line for line in ax.get_lines() if line.get_label() == "counted"]
        assert [line.get_marker() for line in counted] == ["o", "s", "^"]
        assert {line.get_markerfacecolor() for line in counted} == {"none"}
        ours = [line for line in ax.get_lines() if line.get_label().endswith(", formula")]
        for line, marks in zip(ours, counted, strict=True):
            link = line.get_label().removesuffix(", formula")
            assert list(line.get_xdata()) == [getattr(size, name) for size in sizes]
            assert list(line.get_ydata()) == [numbers.formula(size)[link] / 1e6 for size in sizes]
            assert list(marks.get_ydata()) == list(line.get_ydata())
    assert "hollow circles, squares and triangles: counted" in FIGURES["dpa_cost"].caption


def test_without_rows_every_figure_says_why(context, frame):
    of_rows = [
        *(name for name, one in FIGURES.items() if one.of_study),
        *(name for name, one in FIGURES.items() if one.title.startswith("DPA-GNN on")),
    ]
    assert len(of_rows) == 12
    for name in of_rows:
        figure = FIGURES[name].draw(frame.iloc[:0], context)
        assert "no results" in told(figure), name
