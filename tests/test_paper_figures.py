"""Figures and the report: what they show is checked on the Figure objects and the HTML itself."""

import itertools
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib import cm
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from PIL import Image

from graphdp.errors import GraphDPError
from graphdp.methods.gap import figures as gap
from graphdp.methods.registry import cards
from graphdp.paper import (
    accuracy,
    figures,
    overview,
    remarks,
    report,
    rows,
    shipped,
    style,
    tables,
)
from graphdp.paper.legend import joined as one_name
from graphdp.paper.panels import draw_fields, draw_line, set_ticks, summary_of
from graphdp.paper.plots import accuracy_figure
from paper_fixture import context, published_with_an_unknown_method, synthetic_rows
from study_fixture import axis_titles

PUBLISHED = Path(__file__).parents[1] / "config" / "published" / "gap.csv"


@pytest.fixture(scope="module")
def study():
    return context(datasets=("facebook", "pubmed"), published=PUBLISHED)


@pytest.fixture(scope="module")
def written(study, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    synthetic_rows(study).to_csv(folder / "part.csv", index=False)
    rows.collect_rows([folder / "part.csv"], folder / "rows.csv")
    return folder / "rows.csv"


@pytest.fixture(scope="module")
def frame(written):
    return rows.read_rows(written)


def _panels(figure):
    """ "graph, level" -> the panel: what more its title says, of ε, is left out."""
    return {", ".join(ax.get_title().split(", ")[:2]): ax for ax in figure.axes if ax.axison}


def _lines(ax):
    """label -> (x, y) of the drawn lines that carry a label."""
    return {
        line.get_label(): (np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float))
        for line in ax.get_lines()
        if not line.get_label().startswith("_")
    }


def _texts(figure):
    texts = [t.get_text() for t in figure.findobj(lambda o: hasattr(o, "get_text"))]
    return [text for text in [*texts, style.beside(figure)] if text]


def test_figure_6_draws_every_method_at_every_epsilon(frame, study):
    figure = accuracy_figure(frame, study)
    panels = _panels(figure)
    assert list(panels) == [
        "facebook, edge level",
        "facebook, node level",
        "pubmed, edge level",
        "pubmed, node level",
    ]
    edge, node = _lines(panels["pubmed, edge level"]), _lines(panels["pubmed, node level"])
    assert set(edge) == {"GAP-EDP", "GAP-∞", "MLP"}
    assert set(node) == {"GAP-NDP", "GAP-∞", "MLP-DP"}
    assert list(edge["GAP-EDP"][0]) == [0.5, 1, 4]
    table = accuracy.accuracy_table(frame, study)
    pubmed = table[table["dataset"] == "pubmed"].set_index(["method", "level", "epsilon"])["mean"]
    assert list(edge["GAP-EDP"][1]) == [pubmed["gap", "edge", e] for e in ("0.5", "1", "4")]
    assert list(node["MLP-DP"][1]) == [pubmed["mlp", "node", e] for e in ("2", "8")]
    assert set(edge["GAP-∞"][1]) == {pubmed["gap", "none", "inf"]}
    assert set(edge["MLP"][1]) == {pubmed["mlp", "edge", "0"]}
    assert panels["pubmed, edge level"].get_ylim() == panels["pubmed, node level"].get_ylim()


def test_levels_share_a_scale_where_it_is_near_both_of_their_own(frame, study):
    edge = frame["level"] != "node"
    columns = ["val_accuracy", "test_accuracy"]
    narrow = frame.copy()
    narrow.loc[edge, columns] = 0.5 + 0.01 * narrow.loc[edge, columns]
    for rows_of, shared in ((frame, True), (narrow, False)):
        left, right = accuracy_figure(rows_of, study).axes[2:]
        assert (left.get_ylim() == right.get_ylim()) == shared
        # A panel of another scale than its neighbour says again what its axis is.
        assert left.get_ylabel() == "accuracy, %"
        assert right.get_ylabel() == ("" if shared else "accuracy, %")


def test_figure_6_has_no_panels_of_a_level_that_the_study_lacks(frame):
    alone = context(datasets=("facebook", "pubmed"))
    entries = alone["experiments"]["accuracy"]
    alone["experiments"] = {"accuracy": [one for one in entries if one["level"] != "edge"]}
    figure = accuracy_figure(frame[frame["method"] != "mlp"], alone)
    assert list(_panels(figure)) == ["facebook, node level", "pubmed, node level"]
    assert not any("not requested" in text for text in _texts(figure))


def test_figure_6_names_the_basis_and_shows_printed_numbers_on_the_same_dataset(frame, study):
    figure = accuracy_figure(frame, study)
    panels = _panels(figure)
    # What is the same in every panel stands once, in two lines at most.
    foot = figure.get_supxlabel()
    assert foot.count("\n") <= 1 and foot.replace("\n", " ").startswith(
        "adjacency edge_directed / node_add_remove; GAP as published, proven (edge), refuted "
        "(node); MLP as published, conditional; mean over 5 seeds; "
    )
    labels = [panels[f"pubmed, {level} level"].get_xlabel() for level in ("edge", "node")]
    labels = [label.replace("\u00a0", " ") for label in labels]
    assert labels == ["ε (δ = 1e-7)", "target ε (δ = 1e-5)"]
    # Where every claim is refuted there are claims alone.
    refuted = accuracy_figure(frame[frame["method"] != "mlp"], study)
    assert axis_titles(refuted).count("claimed ε (δ = 1e-5)") == 2
    printed = {
        container.get_label(): container[0].get_xydata().tolist()
        for container in panels["facebook, edge level"].containers
    }
    assert printed == {"GAP-EDP (paper)": [[4, 76.3]], "SAGE-EDP (paper)": [[4, 50.4]]}
    assert not panels["pubmed, edge level"].containers
    assert not panels["pubmed, node level"].containers


def test_a_level_line_of_two_models_has_no_band(frame, study):
    """As their curves: the interval of two is no more than the two."""
    for seeds, banded in ((2, False), (3, True)):
        panels = _panels(accuracy_figure(frame[frame["seed"] < seeds], study))
        assert "GAP-∞" in _lines(panels["pubmed, edge level"])
        spans = [one for one in panels["pubmed, edge level"].patches if one.get_label() == "_band"]
        assert bool(spans) == banded


def test_figure_6_says_what_is_not_shown(tmp_path, frame, study):
    texts = _texts(accuracy_figure(frame, study))
    assert any(
        "not shown: SAGE-∞, SAGE-EDP, SAGE-NDP on facebook (not requested "
        "in this run)" in text.replace("\n", " ")
        for text in texts
    )
    unknown = study | {"published": published_with_an_unknown_method(PUBLISHED, tmp_path)}
    texts = _texts(accuracy_figure(frame, unknown))
    assert any(
        "not shown: GIN-∞, GIN-EDP, GIN-NDP (method not yet part of the pipeline)"
        in text.replace("\n", " ")
        for text in texts
    )
    partly = frame[~((frame["dataset"] == "pubmed") & (frame["epsilon"] == "4"))]
    texts = [t.replace("\n", " ") for t in _texts(accuracy_figure(partly, study))]
    assert any("GAP-EDP at some ε on pubmed (no result in rows.csv)" in text for text in texts)


def test_figures_say_over_how_many_seeds_their_means_are(frame, study):
    def told(rows):
        return " ".join(_texts(accuracy_figure(rows, study))).replace("\n", " ")

    assert "mean over 5 seeds;" in told(frame)
    pubmed, first = frame["dataset"] == "pubmed", frame["seed"] < 1
    assert "mean over 5 seeds on facebook; mean over 1 seed on pubmed" in told(
        frame[~pubmed | first]
    )
    some = frame[~pubmed | (frame["level"] != "node") | (frame["seed"] < 3)]
    assert "mean over 3 to 5 seeds on pubmed" in told(some)


def test_figure_6_keeps_equal_accuracies_at_a_single_epsilon_apart(frame, study):
    one = frame[(frame["level"] != "node") | (frame["epsilon"] == "8")].copy()
    one.loc[one["level"] == "node", ["val_accuracy", "test_accuracy"]] = 0.6
    panel = _panels(accuracy_figure(one, study))["pubmed, node level"]
    lines = _lines(panel)
    (gap,), (mlp,) = (lines[name][0] for name in ("GAP-NDP", "MLP-DP"))
    assert lines["GAP-NDP"][1] == lines["MLP-DP"][1]
    assert 1.1 < mlp / gap < 1.2 and gap * mlp == pytest.approx(64)  # around 8
    assert panel.get_xlim()[0] < gap < mlp < panel.get_xlim()[1]


def test_figure_6_keeps_methods_of_one_epsilon_apart_beside_lines(frame, study):
    gap = frame[(frame["method"] == "gap") & (frame["level"] == "node")]
    once = [gap[gap["epsilon"] == "8"].assign(method=name) for name in ("sage", "progap")]
    specs = study["experiments"]["accuracy"]
    of_gap = next(one for one in specs if (one["method"], one["level"]) == ("gap", "node"))
    asked = [*specs, *(of_gap | {"method": name} for name in ("sage", "progap"))]
    own = study | {"experiments": study["experiments"] | {"accuracy": asked}}
    figure = accuracy_figure(pd.concat([frame, *once], ignore_index=True), own)
    lines = _lines(_panels(figure)["pubmed, node level"])
    assert list(lines["GAP-NDP"][0]) == [2, 8]
    (first,), (second,) = (lines[name][0] for name in ("ProGAP-NDP", "SAGE-NDP"))
    assert lines["ProGAP-NDP"][1] == lines["SAGE-NDP"][1]
    assert second / first == pytest.approx(1.12) and first * second == pytest.approx(64)


def test_an_epsilon_of_the_weights_alone_is_said_to_be_in_the_picture(monkeypatch):
    monkeypatch.chdir(PUBLISHED.parents[2])
    context = shipped.shipped_context("config/papers/progap.yaml", ["cora"])
    frame = shipped.shipped_rows("progap-*-rows.csv.gz")

    def foot(frame):
        return accuracy_figure(frame, context).get_supxlabel().replace("\n", " ")

    said = "ProGAP's DP-GNN infers without noise: its ε is the weights' alone"
    assert said in foot(frame)
    of_nodes = frame["method"].str.startswith("progapsage") & (frame["level"] == "node")
    assert "infers" not in foot(frame[~of_nodes])


def test_figure_7_compares_with_and_without_the_encoder(frame, study):
    panels = _panels(gap.figure7(frame, study))
    assert len(panels) == 4
    node = _lines(panels["facebook, node level"])
    assert set(node) == {"GAP-NDP with encoder", "GAP-NDP without encoder"}
    for level, epsilons in (("edge", [0.5, 1, 4]), ("node", [2, 8])):
        lines = _lines(panels[f"pubmed, {level} level"]).values()
        assert [list(x) for x, _ in lines] == [epsilons, epsilons]
    assert "not shown" not in " ".join(_texts(gap.figure7(frame, study)))
    # The synthetic accuracy falls by ten points without the encoder, give or take two.
    gain = node["GAP-NDP with encoder"][1] - node["GAP-NDP without encoder"][1]
    assert ((gain > 8) & (gain < 12)).all()


def test_a_contrast_has_horizontal_lines_for_what_has_no_privacy(study, tmp_path):
    entries = study["experiments"]["encoder"]
    free = entries[0] | {"level": "none", "epsilon": ["inf"]}
    own = study | {"experiments": study["experiments"] | {"encoder": [*entries, free]}}
    synthetic_rows(own).to_csv(tmp_path / "part.csv", index=False)
    rows.collect_rows([tmp_path / "part.csv"], tmp_path / "rows.csv")
    figure = gap.figure7(rows.read_rows(tmp_path / "rows.csv"), own)
    lines = _lines(_panels(figure)["pubmed, edge level"])
    for name in ("GAP-∞ with encoder", "GAP-∞ without encoder"):
        assert len(set(lines[name][1])) == 1
    assert lines["GAP-∞ with encoder"][1][0] > lines["GAP-∞ without encoder"][1][0]


def test_figure_8_draws_one_line_per_epsilon_over_the_hops(frame, study):
    figure = gap.figure8(frame, study)
    panels = _panels(figure)
    lines = _lines(panels["pubmed, edge level"])
    assert set(lines) == {"0.5", "1", "4"}
    # Beside each other, with bars.
    xs = [lines[epsilon][0] for epsilon in ("0.5", "1", "4")]
    assert all(list(np.round(x)) == [1, 2] for x in xs)
    assert (np.diff(xs, axis=0) > 0.04).all() and np.ptp(xs, axis=0).max() < 0.2
    bars = [part.get_segments() for part in panels["pubmed, edge level"].collections]
    assert [[bar[0][0] for bar in part] for part in bars] == [list(x) for x in xs]
    assert "bars: 95 % intervals" in figure.get_supxlabel()
    # One legend for all panels, in which an ε looks the same at every level.
    assert all(ax.get_legend() is None for ax in panels.values())
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["0.5", "1", "2", "4", "8"]
    assert legend.get_title().get_text() == "target ε (lines stand a little apart sideways)"
    assert panels["pubmed, node level"].get_title() == "pubmed, node level, claimed ε (δ = 1e-5)"
    assert "GAP as published, proven (edge), refuted (node)" in figure.get_supxlabel()
    # The accuracy experiment bounds degrees at 100 or 200: the 10 of Figure 9 must not be chosen.
    chosen = summary_of(frame, study, "accuracy", "hp_hops")
    degrees = chosen.loc[chosen["level"] == "node", "hyperparameters"]
    assert not degrees.str.contains('"max_degree":10,').any()


def test_a_panel_spans_no_less_than_five_points_so_that_noise_is_not_drawn_as_structure(
    frame, study
):
    columns, middle = ["val_accuracy", "test_accuracy"], 0.5
    narrow = frame.copy()
    narrow.loc[:, columns] = middle + 0.01 * (narrow.loc[:, columns] - middle)
    for draw in (gap.figure7, gap.figure8, gap.figure9, accuracy_figure):
        # (Of facebook there are printed numbers, which keep their own distance.)
        drawn = [ax for name, ax in _panels(draw(narrow, study)).items() if "pubmed" in name]
        assert drawn
        for ax in drawn:
            low, high = ax.get_ylim()
            # Two levels of a dataset share a scale where that is near both of their own.
            assert 5 - 1e-9 <= high - low <= 10
            values = np.concatenate([y for _, y in _lines(ax).values()])
            assert low < values.min() <= values.max() < high


def test_figure_9_draws_one_line_per_epsilon_over_the_degrees(frame, study):
    panels = _panels(gap.figure9(frame, study))
    assert list(panels) == ["facebook, node level", "pubmed, node level"]
    lines = _lines(panels["pubmed, node level"])
    assert set(lines) == {"2", "8"}
    # On a logarithmic axis by equal factors.
    low, high = lines["2"][0], lines["8"][0]
    assert low * high == pytest.approx([100, 10000])
    assert high / low == pytest.approx(2 * [10**0.06])
    assert panels["pubmed, node level"].get_xscale() == "log"


def test_figures_say_which_of_the_values_they_compare_are_missing(frame, study):
    def told(figure):
        assert not style.beside(figure).startswith("not shown")
        return figure.get_supxlabel().replace("\n", " ")

    without = frame["hp_encoder_layers"] == 0
    pubmed, node = frame["dataset"] == "pubmed", frame["level"] == "node"
    none = (
        "; not shown: GAP-EDP, GAP-NDP without encoder on facebook, pubmed (no result in rows.csv)"
    )
    assert none in told(gap.figure7(frame[~without], study))
    some = "; not shown: GAP-NDP without encoder on pubmed (no result in rows.csv)"
    assert some in told(gap.figure7(frame[~(without & pubmed & node)], study))
    one = "; not shown: GAP-NDP without encoder at some ε on pubmed (no result in rows.csv)"
    at_8 = frame["epsilon"] == "8"
    assert one in told(gap.figure7(frame[~(without & pubmed & node & at_8)], study))
    # A grid of three bounds: two are missing on both datasets, one on the other alone.
    own = context(("facebook", "pubmed"), PUBLISHED, degrees=(10, 20, 100))
    bound = "; not shown: GAP-NDP D = 20 on facebook; GAP-NDP D = 10, 20 on pubmed (no result"
    assert bound in told(gap.figure9(frame[~(pubmed & (frame["hp_max_degree"] == 10))], own))


def test_a_legend_has_no_two_entries_that_look_alike(frame, study):
    for draw, names in (
        (accuracy_figure, ["GAP", "GAP-∞", "GAP (paper)", "SAGE (paper)", "MLP", "MLP-DP",
                           "MLP-DP (paper)"]),
        (gap.figure7, ["GAP without encoder", "GAP with encoder"]),
    ):  # fmt: skip
        (legend,) = draw(frame, study).legends
        assert sorted(text.get_text() for text in legend.get_texts()) == sorted(names)
    joined = one_name(["ProGAP's EdgeRand (its code)", "ProGAP's DP-GNN (its code)"])
    assert joined == "ProGAP's EdgeRand / DP-GNN (its code)"
    assert one_name(["paper", "paper, other"]) == "paper / paper, other"


def test_methods_and_print_are_told_apart():
    looks = [card.look for card in cards().values() if not card.as_implemented_of]
    kinds = [look["color"] for _, look in overview.KINDS.values()]
    # Of README's picture no kind of accuracy has the colour of a method.
    colours = [*(colour for colour, _ in looks), *kinds, style._OTHER[0]]
    points = np.array([[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in colours])
    apart = np.linalg.norm(points[:, None] - points[None], axis=-1)
    assert apart[np.triu_indices(len(colours), 1)].min() > 40
    assert apart[len(looks) : len(looks) + len(kinds), : len(looks)].min() > 60
    # Print is a diamond and no method is.
    markers = {card.look[1] for card in cards().values()}
    assert not {"D", "d"} & {*markers, *style.SERIES_MARKERS} and style.PRINTED["marker"] == "D"
    assert overview.KINDS["printed"][1] == style.PRINTED


def test_the_authors_code_has_its_methods_colour_hollow_and_dashed(monkeypatch):
    monkeypatch.chdir(PUBLISHED.parents[2])
    variants = {name: card for name, card in cards().items() if card.as_implemented_of}
    assert len(variants) > 4
    for name, card in variants.items():
        own = style.method_look(card.as_implemented_of)
        look = style.method_look(name)
        assert look["color"] == own["color"] == card.look[0]
        assert (look["markerfacecolor"], look["linestyle"]) == ("white", "--")
        assert "markerfacecolor" not in own and "linestyle" not in own
    # So it is drawn: ProGAP's baselines at node level, among lines of other methods.
    context = shipped.shipped_context("config/papers/progap.yaml", ["cora"])
    figure = accuracy_figure(shipped.shipped_rows("progap-*-rows.csv.gz"), context)
    lines = {line.get_label(): line for line in figure.axes[1].get_lines()}
    own, variant = (lines["ProGAP's DP-GNN" + end] for end in ("", " (its code)"))
    assert variant.get_color() == own.get_color() == own.get_markerfacecolor()
    assert (variant.get_markerfacecolor(), variant.get_linestyle()) == ("white", "--")


@pytest.mark.parametrize(
    "name", [name for name, f in figures.figures().items() if f.of_study and name != "scorecard"]
)
def test_a_figure_without_data_says_what_is_missing(frame, name):
    absent = context(datasets=(), unavailable={"reddit": "no network"})
    figure = figures.figures()[name].draw(frame, absent)
    texts = _texts(figure)
    assert any("no results: dataset not available: no" in t.replace("\n", " ") for t in texts)
    assert style.why_nothing(figure) == "no results: dataset not available: no network"
    unasked = context(datasets=("pubmed",))
    unasked["experiments"] = {}
    figure = figures.figures()[name].draw(frame, unasked)
    texts = _texts(figure)
    assert "no results: not requested in this run" in [t.replace("\n", " ") for t in texts]
    assert style.why_nothing(figure) == "no results: not requested in this run"
    nothing = context(datasets=())
    assert any(
        "no dataset" in text for text in _texts(figures.figures()[name].draw(frame, nothing))
    )


def test_a_figure_shows_nothing_only_if_each_of_its_panels_does(frame, study):
    assert style.why_nothing(accuracy_figure(frame, study)) == ""
    other = context(datasets=("facebook", "reddit"), unavailable={"amazon": "no network"})
    other["experiments"]["accuracy"] = [
        spec for spec in other["experiments"]["accuracy"] if spec["level"] == "edge"
    ]
    partly = accuracy_figure(frame, other)
    assert any("no results" in text for text in _texts(partly))
    assert style.why_nothing(partly) == ""
    why = style.why_nothing(accuracy_figure(frame.iloc[:0], other))
    assert "facebook, edge level, reddit, edge level: no results: no result in rows.csv" in why
    assert "amazon, edge level: no results: dataset not available: no network" in why
    none = figures.figures()["scorecard"].draw(frame.iloc[:0], context(datasets=()))
    assert style.why_nothing(none) == "no ordering to check"


@pytest.mark.parametrize(
    ("name", "datasets"),
    [(name, ("facebook", "pubmed")) for name in figures.figures()]
    + [("figure6", ("facebook",)), ("figure9", ("pubmed",))],
)
def test_nothing_is_cut_or_covered(frame, name, datasets):
    figure = figures.figures()[name].draw(frame, context(datasets=datasets, published=PUBLISHED))
    with style.theme():
        figure.draw_without_rendering()
        page = figure.bbox
        for ax in figure.axes:
            box = ax.get_tightbbox()
            if ax.axison:
                assert box.x0 >= page.x0 - 1 and box.x1 <= page.x1 + 1, ax.get_title()
                assert box.y0 >= page.y0 - 1 and box.y1 <= page.y1 + 1, ax.get_title()
                ticks = [
                    label.get_window_extent() for label in ax.get_xticklabels() if label.get_text()
                ]
                ticks = sorted((t for t in ticks if t.width), key=lambda t: t.x0)
                assert all(a.x1 < b.x0 for a, b in itertools.pairwise(ticks)), ax.get_title()
        for legend in figure.legends:
            box = legend.get_window_extent()
            assert box.x0 >= page.x0 and box.x1 <= page.x1
            assert all(box.y0 >= ax.get_tightbbox().y1 - 1 for ax in figure.axes)


def test_tick_labels_that_would_touch_are_left_out():
    with style.theme():
        _, [[ax]] = style.panels(1, 1)
    ax.set_xscale("log")
    set_ticks(ax, [10, 20, 50, 100, 200, 300, 400])
    assert list(ax.xaxis.get_major_locator()()) == [10, 20, 50, 100, 200, 400]
    set_ticks(ax, [0.1, 0.2, 0.5, 1, 2, 4, 8])
    assert list(ax.xaxis.get_major_locator()()) == [0.1, 0.2, 0.5, 1, 2, 4, 8]
    low, high = ax.get_xlim()
    assert low < 0.1 and high > 8
    # The ends have labels; in a wide panel there is room for one between.
    set_ticks(ax, [0.001, 0.01, 0.1, 1, 2])
    assert list(ax.xaxis.get_major_locator()()) == [0.001, 0.01, 0.1, 2]
    # The value between has a line of the grid, as its neighbours have, and no label.
    (between,) = ax.xaxis.get_minor_ticks()
    assert list(ax.xaxis.get_minor_locator()()) == [1]
    assert between.gridline.get_visible() and not between.label1.get_text()
    ax.get_figure().set_figwidth(8)
    set_ticks(ax, [0.001, 0.01, 0.1, 1, 2])
    assert list(ax.xaxis.get_major_locator()()) == [0.001, 0.01, 0.1, 1, 2]
    assert not list(ax.xaxis.get_minor_locator()())


def test_equal_rows_give_equal_bytes(tmp_path, written, study):
    for turn in ("a", "b"):
        figures.build_figure(
            "figure9", written, study, tmp_path / f"{turn}.svg", tmp_path / f"{turn}.png"
        )
    for kind in ("svg", "png"):
        first = (tmp_path / f"a.{kind}").read_bytes()
        assert len(first) > 5000
        assert first == (tmp_path / f"b.{kind}").read_bytes()


def test_an_unknown_figure_is_refused(tmp_path, written, study):
    with pytest.raises(GraphDPError, match="no figure is called 'figure5'; there are scorecard"):
        figures.build_figure("figure5", written, study, tmp_path / "x.svg", tmp_path / "x.png")


# ------------------------------------------------------------------------------------------- report


class _Page(HTMLParser):
    """Collects the text, the ids, the addresses and any tag closed out of order."""

    VOID = frozenset({"meta", "br", "link", "img", "hr"})

    def __init__(self, html):
        super().__init__()
        self.stack, self.problems, self.ids, self.addresses, self.text = [], [], [], [], ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.stack.append(tag)
        self._note(attrs)

    def handle_startendtag(self, tag, attrs):
        self._note(attrs)

    def _note(self, attrs):
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("href", "src", "xlink:href"):
                self.addresses.append(value)

    def handle_endtag(self, tag):
        if not self.stack or self.stack.pop() != tag:
            self.problems.append(tag)

    def handle_data(self, data):
        if self.stack and self.stack[-1] not in ("style", "script"):
            self.text += data


@pytest.fixture(scope="module")
def page(tmp_path_factory, written):
    folder = tmp_path_factory.mktemp("report")
    study = context(
        datasets=("facebook", "pubmed"), published=PUBLISHED, unavailable={"amazon": "no <network>"}
    )
    study["published"] = published_with_an_unknown_method(PUBLISHED, folder)
    study["calibrations"][0]["assumptions"] = ["The number of edges is public."]
    study["statistics"]["pubmed"] |= {"nodes": 100_000}  # δ is 1e-5
    made = {}
    for name in ("table1", "accuracy", "table2"):
        made[name] = folder / f"{name}.csv"
        outputs = [folder / f"{name}.{kind}" for kind in ("md", "tex")]
        tables.build_table(name, written, study, made[name], *outputs)
    drawn = {}
    for name in ("figure8", "figure9"):
        drawn[name] = folder / f"{name}.svg"
        figures.build_figure(name, written, study, drawn[name], folder / f"{name}.png")
    report.build_report(written, study, made, drawn, folder / "report.html")
    return (folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_report_is_well_formed_and_self_contained(page):
    assert page.lstrip().startswith("<!DOCTYPE html>")
    parsed = _Page(page)
    assert parsed.problems == [] and parsed.stack == []
    assert len(parsed.ids) == len(set(parsed.ids)) > 20
    targets = {address for address in parsed.addresses if address.startswith("#")}
    assert targets and targets == set(parsed.addresses)  # nothing is loaded from elsewhere
    assert {target[1:] for target in targets} <= set(parsed.ids)
    assert {name for name in re.findall(r"url\(#([^)]+)\)", page)} <= set(parsed.ids)
    assert page.count("<svg ") == 2 and page.count('role="img"') == 2
    assert "<metadata" not in page and "<?xml" not in page


@pytest.mark.slow
def test_the_report_says_what_ran_and_what_each_epsilon_means(page):
    text = _Page(page).text
    for words in (
        "A small study",
        "370",  # models
        "15 min 25 s",  # 370 models of 2.5 s
        "0123abc",
        "2.13.0",
        "3.125",  # a calibrated noise multiplier
        "Edge level, one directed edge",
        "No ε is known to hold",
        "GAP-NDP on pubmed. Warning: delta 1e-05 is not below 1/100000, one over the number of",
        "The number of edges is public.",
        "dataset not available: no <network>",
        "method not yet part of the pipeline",
        "76.3 ± 0.21",
        "claimed ε = 8 (node level, as published, node_add_remove, δ = 1e-5; refuted, no "
        "guarantee)",
    ):
        assert words in text, words
    bare = re.search(
        r"ε\s*=\s*(?:[\d.]+(?![\d.])|∞)(?! \((?:edge level|node level|no privacy))", text
    )
    assert bare is None, text[bare.start() - 80 : bare.end() + 40]


def test_the_report_of_a_study_without_any_result(tmp_path):
    study = context(datasets=(), unavailable={"facebook": "no network"})
    rows.collect_rows([], tmp_path / "rows.csv")
    paths = [tmp_path / f"accuracy.{kind}" for kind in ("csv", "md", "tex")]
    tables.build_table("accuracy", tmp_path / "rows.csv", study, *paths)
    report.build_report(
        tmp_path / "rows.csv", study, {"accuracy": paths[0]}, {}, tmp_path / "report.html"
    )
    text = _Page((tmp_path / "report.html").read_text(encoding="utf-8")).text
    assert "No model was trained" in text
    assert "dataset not available: no network" in text
    assert "No noise was calibrated" in text


def test_durations_are_readable():
    assert [report.duration(s) for s in (45.23, 725, 12000)] == [
        "45.2 s",
        "12 min 5 s",
        "3 h 20 min",
    ]


def test_two_models_have_no_band():
    """Their interval is no more than the two; between others it is drawn, and alone as a bar."""
    line = pd.DataFrame({"mean": range(5), "ci_low": range(-1, 4), "ci_high": range(2, 7)})
    ax = Figure().subplots()
    draw_line(ax, pd.Series(range(5)), line.assign(n=[3, 3, 2, 10, 2]), color="k")
    band, bar = ax.collections
    (polygon,) = band.get_paths()
    assert polygon.get_extents().get_points().tolist() == [[0, -1], [1, 3]]
    assert [one.tolist() for one in bar.get_segments()] == [[[3, 2], [3, 5]]]


def test_means_of_few_seeds_have_small_markers_and_the_picture_says_so(frame, study):
    line = pd.DataFrame({"mean": [1, 2, 3.0], "ci_low": 0.0, "ci_high": 4.0, "n": [4, 5, 1]})
    ax = Figure().subplots()
    draw_line(ax, pd.Series([10, 20, 30]), line, color="k", marker="o", markerfacecolor="white")
    (drawn,) = ax.get_lines()
    assert list(drawn.get_markevery()) == [False, True, False]
    small = next(part for part in ax.collections if part.get_label() == "_small marker")
    assert small.get_offsets().tolist() == [[10, 1], [30, 3]]
    assert small.get_sizes()[0] ** 0.5 < 0.7 * drawn.get_markersize()
    assert small.get_facecolor().tolist() == [[1, 1, 1, 1]]

    few = frame[(frame["level"] != "edge") | (frame["epsilon"] != "1") | (frame["seed"] < 4)]
    told = [" ".join(_texts(accuracy_figure(rows_of, study))) for rows_of in (few, frame)]
    said = "mean over 4 to 5 seeds (small markers: fewer than 5); bands: 95 % intervals"
    assert said in told[0].replace("\n", " ") and "small" not in told[1]


@pytest.mark.parametrize("columns", [1, 2])
def test_a_footnote_has_two_lines_and_the_rest_stands_beside(columns, tmp_path):
    said = ["adjacency node_replace", "GAP as published, refuted"]
    also = [f"remark {number} of the rest & <all>" for number in range(9)]
    figure, _ = style.panels(1, columns)
    assert style.footnote(figure, said, also) == 2
    foot = figure.get_supxlabel().replace("\n", " ")
    kept = foot.count("remark")
    assert 0 < kept < 9 and foot == "; ".join([*said, *also[:kept]])
    assert style.beside(figure) == "; ".join(also[kept:])
    # Nor is what is said of ε: claims that do not fit come first beside, and the footnote says so.
    claims = [f"method {number} as published, proven (edge), refuted (node)" for number in range(9)]
    assert style.footnote(figure, claims, also) == 2
    *below, more = figure.get_supxlabel().replace("\n", " ").split("; ")
    assert below and more == "more on ε: caption"
    assert "; ".join([*below, style.beside(figure)]) == "; ".join([*claims, *also])
    # One phrase that is longer than the room stands beside as well.
    assert style.footnote(figure, [", ".join(claims)]) == 1
    assert (figure.get_supxlabel(), style.beside(figure)) == (more, ", ".join(claims))
    # Both formats of a study and the shipped one carry the rest.
    style.footnote(figure, said, also)
    style.save(figure, tmp_path / "a.svg", tmp_path / "a.png")
    style.save_small(figure, tmp_path / "b.png")
    for name in ("a.png", "b.png"):
        with Image.open(tmp_path / name) as picture:
            assert picture.text["Description"] == style.beside(figure)
    svg = (tmp_path / "a.svg").read_text()
    assert report.beside(svg) == f" Of this picture: {style.beside(figure)}."
    assert report.beside(svg.replace("dc:description", "dc:title")) == ""


def test_a_small_picture_has_the_colours_of_the_large_one(tmp_path):
    """Rare ones too: those of a colour bar beside fields that cover most of the picture."""
    figure, (axes,) = style.panels(1, 2)
    gains = np.random.default_rng(1).uniform(-20, 5, (6, 4))
    for ax in axes:
        texts = [[f"{gain:.1f}" for gain in line] for line in gains]
        draw_fields(ax, gains, texts, gains < -13, cmap="PuOr_r", norm=Normalize(-20, 20))
    figure.colorbar(cm.ScalarMappable(Normalize(-20, 20), "PuOr_r"), ax=axes, location="bottom")
    style.save(figure, tmp_path / "a.svg", tmp_path / "a.png")
    style.save_small(figure, tmp_path / "b.png")
    large, small = (
        np.asarray(Image.open(tmp_path / name).convert("RGB")).astype(int)
        for name in ("a.png", "b.png")
    )
    assert np.abs(large - small).max() <= 16
    assert 2 * (tmp_path / "b.png").stat().st_size < (tmp_path / "a.png").stat().st_size


def test_each_adjacency_of_a_level_stands_with_its_methods():
    def cell(method, level, adjacency, status="conditional", basis="corrected"):
        return {"method": method, "level": level, "epsilon": "4", "epsilon_basis": basis,
                "adjacency": adjacency, "epsilon_status": status}  # fmt: skip

    edge = cell("gap", "edge", "edge_undirected", "proven")
    node = [cell(method, "node", "participant") for method in ("gap", "mlp")]
    # One for each level: which is whose follows from the panel.
    assert remarks.claims(pd.DataFrame([edge, *node])) == [
        "adjacency edge_undirected / participant",
        "GAP corrected, proven (edge), conditional (node)",
        "MLP corrected, conditional",
    ]
    others = [cell("dpdgc", "node", "node_replace"), cell("dpdgc", "k5", "k_neighbor(5)")]
    assert remarks.claims(pd.DataFrame([edge, *node, *others])) == [
        "corrected, proven under edge_undirected: GAP",
        "corrected, conditional under participant: GAP, MLP, under node_replace: DPDGC, "
        "under k_neighbor(k): DPDGC",
    ]


def test_of_refuted_claims_it_is_said_what_is_known_of_participants():
    def cell(method, *held):
        analyses = [
            {"adjacency": name, "basis": "corrected", "status": "conditional", "epsilon": epsilon}
            for name, epsilon in held
        ]
        return {"method": method, "level": "node", "epsilon": "8", "epsilon_status": "refuted",
                "epsilons": json.dumps(analyses)}  # fmt: skip

    def told(*cells):
        return remarks.of_refuted(pd.DataFrame(cells))

    none = "refuted claims: no ε is known to hold"
    one = cell("gap", ("node_replace", 30.0), ("participant", 7.999))
    larger, lost = cell("sage", ("participant", 16.8)), cell("sage", ("participant", "none"))
    assert told(cell("gap")) == told(larger) == told(lost) == none
    assert (
        told(one, larger)
        == told(one)
        == (f"{none} under that adjacency; for a participant that of GAP-NDP holds (conditional)")
    )
    assert told(one, cell("gap")) == none  # of all of a method's or of none
    assert told(one | {"epsilon_status": "conditional"}) == ""
    # As a table of accuracies has it, a column for each analysis.
    read = cell("progap") | {"epsilon_corrected_participant": "8, conditional"}
    assert told(read).endswith("for a participant that of ProGAP-NDP holds (conditional)")
    for other in ("8.002, conditional", "none", ""):
        assert told(read | {"epsilon_corrected_participant": other}) == none
