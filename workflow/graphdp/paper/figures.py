"""The figures of the papers as functions of rows: matplotlib Figures, unsaved.

A panel or line without results says so in the figure; it never fails and never draws a zero.
"""

import itertools
import json
import os
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from graphdp.paper import style
from graphdp.paper.accuracy import ACCURACY_EXPERIMENT, accuracy_table
from graphdp.paper.cells import (
    NO_METHOD,
    NOT_AVAILABLE,
    NOT_REQUESTED,
    expected_cells,
    experiment_rows,
    known,
    missing_reason,
    study_datasets,
)
from graphdp.paper.labels import (
    AS_IMPLEMENTED,
    EDGE_FREE_METHODS,
    basis_text,
    delta_text,
    level_order,
    method_label,
    method_name,
    scope_text,
    status_text,
)
from graphdp.paper.rows import read_rows
from graphdp.paper.scorecard import scorecard_figure
from graphdp.paper.select import CELL, bootstrap_ci, select_best, summarise
from graphdp.privacy.plan import level_kind, neighbors

ENCODER_EXPERIMENT, HOPS_EXPERIMENT, DEGREE_EXPERIMENT = "encoder", "hops", "degree"
DEPTH_EXPERIMENT, CONVERGENCE_EXPERIMENT, LAYERWISE_EXPERIMENT = "depth", "convergence", "layerwise"
_PRIVATE_LEVELS = ("edge", "node")
_WITH_ENCODER, _PROGRESSIVE = "hp_with_encoder", "hp_progressive"


@dataclass(frozen=True)
class Drawing:
    """How to draw a figure, and the words that go with it."""

    title: str
    draw: Callable[[pd.DataFrame, Mapping], Figure]
    caption: str


def build_figure(
    name: str,
    rows_csv: str | os.PathLike,
    context: Mapping,
    output_svg: str | os.PathLike,
    output_png: str | os.PathLike,
) -> None:
    """Draw the figure `name` (a key of `FIGURES`) as SVG and PNG."""
    drawing = known(name, FIGURES, "figure")
    style.save(drawing.draw(read_rows(rows_csv), context), output_svg, output_png)


def figure6(rows: pd.DataFrame, context: Mapping) -> Figure:
    """Accuracy against ε: one line of panels per dataset, edge level left, node level right.

    Lines with 95 % bands are the private methods; horizontal lines need no ε (no privacy, or a
    method that reads no edges); open diamonds are the paper's printed numbers for the same dataset.
    """
    with style.theme():
        table = accuracy_table(rows, context)
        datasets = study_datasets(context)
        figure, axes = style.panels(max(len(datasets), 1), 2)
        for dataset, line in zip(datasets, axes, strict=False):
            for level, ax in zip(_PRIVATE_LEVELS, line, strict=True):
                _accuracy_panel(ax, table[table["dataset"] == dataset], dataset, level, context)
            _share_y(line)
        missing = table[table["mean"].isna() & ~table["dataset"].isin(_unavailable(context))]
        shown = table.loc[table["mean"].notna(), list(CELL)]
        _finish(figure, axes, datasets, _not_shown(missing.to_dict("records"), shown))
        return figure


def figure7(rows: pd.DataFrame, context: Mapping) -> Figure:
    """With and without the encoder: accuracy against ε, edge level left, node level right."""
    if "hp_encoder_layers" in rows.columns:
        layers = pd.to_numeric(rows["hp_encoder_layers"])
        rows = rows.assign(**{_WITH_ENCODER: (layers > 0).astype(object).where(layers.notna())})
    names = ("with encoder", "without encoder")
    return _contrast(rows, context, ENCODER_EXPERIMENT, "encoder_layers", _WITH_ENCODER, names)


def figure8(rows: pd.DataFrame, context: Mapping) -> Figure:
    """Accuracy against the number of hops, one line per ε; edge level left, node level right."""
    return _by_number(rows, context, HOPS_EXPERIMENT, "hops", "hops K")


def figure9(rows: pd.DataFrame, context: Mapping) -> Figure:
    """Accuracy against the maximum degree at node level, one line per ε, one panel per dataset."""

    def panel(ax: Axes, summary: pd.DataFrame, level: str) -> None:
        ax.set_xscale("log")
        _lines_by_epsilon(ax, summary, "hp_max_degree", level)
        ax.set_xlabel("maximum degree D")
        _ticks(ax, sorted(summary["hp_max_degree"].unique()))

    with style.theme():
        summary = _summary(rows, context, DEGREE_EXPERIMENT, "hp_max_degree")
        return _grid(summary, context, DEGREE_EXPERIMENT, ("node",), panel, "max_degree")


def progap_figure3(rows: pd.DataFrame, context: Mapping) -> Figure:
    """Convergence: accuracy on training and validation nodes after every epoch, stage by stage."""
    mine = experiment_rows(rows, context, CONVERGENCE_EXPERIMENT)
    kept = mine["curves"] != "" if "curves" in mine.columns else np.zeros(len(mine), dtype=bool)
    best, _ = select_best(mine[kept])

    def panel(ax: Axes, summary: pd.DataFrame, level: str) -> None:
        tokens = sorted(summary["epsilon"].unique(), key=float)
        colours = dict(zip(tokens, style.series_colours(len(tokens)), strict=True))
        for cell in summary[list(CELL)].itertuples(index=False):
            models = best[(best[list(CELL)] == list(cell)).all(axis=1)]
            curves = [json.loads(text) for text in models["curves"]]
            for part, dashes in (("train", "--"), ("val", "-")):
                accuracy = np.array([np.concatenate(curve[part]) for curve in curves])
                line = pd.DataFrame(
                    [bootstrap_ci(100 * values) for values in accuracy.T],
                    columns=["mean", "ci_low", "ci_high"],
                )
                label = {"train": "training", "val": "validation"}[part]
                label += "" if len(tokens) == 1 else f", {cell.epsilon}"
                shape = {"color": colours[cell.epsilon], "linestyle": dashes, "linewidth": 1.1}
                _line(ax, line.index + 1, line, label=label, **shape)
            ends = np.cumsum([len(stage) for stage in curves[0]["val"]])
        for end in ends[:-1]:
            ax.axvline(end + 0.5, color="0.6", linewidth=0.8, linestyle=":")
        ends = [0, *ends]
        middles = [(low + high) / 2 + 0.5 for low, high in itertools.pairwise(ends)]
        ax.xaxis.set_major_locator(FixedLocator(middles))
        names = {middle: f"{stage}" for stage, middle in enumerate(middles)}
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: names.get(value, "")))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.grid(False, axis="x")
        what = _epsilon_title(summary, level).replace("ε (", f"ε = {', '.join(tokens)} (", 1)
        ax.set_xlabel(f"stage, {ends[1]} epochs each\n" + _wrap(what, 52))

    with style.theme():
        summary = summarise(best)
        return _grid(summary, context, CONVERGENCE_EXPERIMENT, _PRIVATE_LEVELS, panel, "history")


def progap_figure4(rows: pd.DataFrame, context: Mapping) -> Figure:
    """Accuracy against the depth, one line per ε; edge level left, node level right."""
    return _by_number(rows, context, DEPTH_EXPERIMENT, "depth", "depth K")


def progap_layerwise(rows: pd.DataFrame, context: Mapping) -> Figure:
    """Progressive against layer-wise training (earlier bases frozen): accuracy against ε."""
    if "hp_layerwise" in rows.columns:
        frozen = rows["hp_layerwise"]
        rows = rows.assign(**{_PROGRESSIVE: (frozen == False).where(frozen.notna(), None)})  # noqa: E712
    names = ("progressive", "layer-wise")
    return _contrast(rows, context, LAYERWISE_EXPERIMENT, "layerwise", _PROGRESSIVE, names)


def dpdgc_table2(rows: pd.DataFrame, context: Mapping) -> Figure:
    """DPDGC's Table 2 drawn: accuracy at every level, one panel per dataset; side by side what the
    paper prints (open diamonds), DPDGC as implemented (hollow), corrected, and the baselines."""
    table = accuracy_table(rows, context)
    table = table[(table["level"] != "edge") | (table["epsilon"] != "0")]
    places = list(
        dict.fromkeys(
            sorted(
                table[["level", "epsilon"]].itertuples(index=False, name=None),
                key=lambda place: (level_order(place[0]), float(place[1])),
            )
        )
    )
    methods = sorted(
        dict.fromkeys(table["method"]),
        key=lambda method: (method not in AS_IMPLEMENTED, method not in AS_IMPLEMENTED.values()),
    )
    with style.theme():
        datasets = list(dict.fromkeys(table["dataset"])) or study_datasets(context)
        columns = min(2, max(len(datasets), 1))
        figure, axes = style.panels(max(-(-len(datasets) // columns), 1), columns)
        flat = [ax for line in axes for ax in line]
        for dataset, ax in zip(datasets, flat, strict=False):
            ax.set_title(dataset)
            cells = table[table["dataset"] == dataset]
            if cells["mean"].isna().all():
                reasons = [*cells["missing_reason"], _reason(dataset, context)]
                _empty_panel(ax, reasons[0])
            else:
                _levels_panel(ax, cells, places, methods)
        for ax in flat[len(datasets) :]:
            ax.set_axis_off()
        missing = table[table["mean"].isna() & ~table["dataset"].isin(_unavailable(context))]
        shown = table.loc[table["mean"].notna(), list(CELL)]
        _finish(figure, axes, datasets, _not_shown(missing.to_dict("records"), shown))
        return figure


def dpdgc_figure3a(rows: pd.DataFrame, context: Mapping) -> Figure:
    """DPDGC's Figure 3a: accuracy against ε at edge level, corrected and as implemented."""
    return _decoupled(rows, context, "edge-budget", lambda cell: float(cell["epsilon"]), "ε")


def dpdgc_figure3b(rows: pd.DataFrame, context: Mapping) -> Figure:
    """DPDGC's Figure 3b: accuracy against ε at node and k-neighbour level."""
    return _decoupled(rows, context, "node-budget", lambda cell: float(cell["epsilon"]), "ε")


def dpdgc_figure3c(rows: pd.DataFrame, context: Mapping) -> Figure:
    """DPDGC's Figure 3c: accuracy against k. Methods without a k-neighbour level of their own (they
    are there what they are at node level) are horizontal lines."""
    return _decoupled(
        rows, context, "neighbors", lambda cell: neighbors(cell["level"]), "k", by_level=False
    )


def dpdgc_figure3d(rows: pd.DataFrame, context: Mapping) -> Figure:
    """DPDGC's Figure 3d: accuracy against φ on cSBM, one panel per size of the graphs."""

    def phi(cell: Mapping) -> float:
        return float(_PHI.match(cell["dataset"])["phi"].replace("m", "-"))

    named = [name for name in study_datasets(context) if _PHI.match(name)]
    panels = {name: _PHI.match(name)["size"] for name in named}
    return _decoupled(rows, context, "csbm", phi, "φ", panels=panels)


#: Names of cSBM variants, e.g. "csbm-paper-phi-m0.5" (φ = -0.5).
_PHI = re.compile(r"(?P<size>.+)-phi-(?P<phi>m?[0-9.]+)$")


FIGURES: dict[str, Drawing] = {
    "figure6": Drawing(
        "Figure 6",
        figure6,
        "Accuracy against ε at edge level (left) and node level (right). Bands are 95 % bootstrap "
        "intervals over seeds; horizontal lines are methods without privacy or without edges.",
    ),
    "figure7": Drawing(
        "Figure 7",
        figure7,
        "Effect of the encoder on accuracy at edge level (left) and node level (right).",
    ),
    "figure8": Drawing(
        "Figure 8",
        figure8,
        "Effect of the number of hops at edge level (left) and node level (right).",
    ),
    "scorecard": Drawing(
        "Scorecard",
        scorecard_figure,
        "Left: our accuracy minus the printed one, on the paper's datasets. Right: the orderings "
        "that the paper claims, at every ε of the study.",
    ),
    "figure9": Drawing(
        "Figure 9", figure9, "Effect of the maximum degree on accuracy at node level."
    ),
    "progap_figure2": Drawing(
        "ProGAP Figure 2",
        figure6,
        "Accuracy against ε at edge level (left) and node level (right). Bands are 95 % bootstrap "
        "intervals over seeds; horizontal lines are methods without privacy or without edges.",
    ),
    "progap_figure3": Drawing(
        "ProGAP Figure 3",
        progap_figure3,
        "Convergence over the stages at edge level (left) and node level (right): accuracy on "
        "training and validation nodes, in evaluation mode, after every epoch.",
    ),
    "progap_figure4": Drawing(
        "ProGAP Figure 4",
        progap_figure4,
        "Effect of the depth on accuracy at edge level (left) and node level (right).",
    ),
    "dpdgc_table2": Drawing(
        "DPDGC Table 2, drawn",
        dpdgc_table2,
        "Accuracy at every level: DPDGC as its authors' code runs it (whose ε is a claim) beside "
        "what the paper prints, as corrected (with an ε that holds under its assumptions), and the "
        "baselines.",
    ),
    "dpdgc_figure3a": Drawing(
        "DPDGC Figure 3a",
        dpdgc_figure3a,
        "Accuracy against ε at edge level: DPDGC as corrected, with an ε that holds (full lines), "
        "and as its authors' code runs it, whose ε is a claim (dashed).",
    ),
    "dpdgc_figure3b": Drawing(
        "DPDGC Figure 3b",
        dpdgc_figure3b,
        "Accuracy against ε at node and k-neighbour level: DPDGC as corrected, with an ε that "
        "holds under its assumptions (full lines), and as its authors' code runs it, whose ε is a "
        "claim (dashed).",
    ),
    "dpdgc_figure3c": Drawing(
        "DPDGC Figure 3c",
        dpdgc_figure3c,
        "Accuracy against the number k of protected neighbours. Methods with one accuracy for any "
        "k are horizontal lines.",
    ),
    "dpdgc_figure3d": Drawing(
        "DPDGC Figure 3d",
        dpdgc_figure3d,
        "Accuracy against φ on contextual stochastic block models: -1 a heterophilic graph without "
        "features, 0 features alone, 1 a homophilic graph without features.",
    ),
    "progap_layerwise": Drawing(
        "ProGAP progressive or layer-wise",
        progap_layerwise,
        "Progressive training (all bases train in every stage) against layer-wise training (the "
        "bases of earlier stages are frozen) at edge level (left) and node level (right).",
    ),
}


# ------------------------------------------------------------------------------------------- kinds


def _decoupled(
    rows: pd.DataFrame,
    context: Mapping,
    experiment: str,
    position: Callable[[Mapping], float | None],
    label: str,
    *,
    by_level: bool = True,
    panels: Mapping[str, str] | None = None,
) -> Figure:
    """Accuracy against `position(cell)`, one line per method and level (or per method): DPDGC as
    corrected (full lines) beside DPDGC as implemented (dashed, hollow), and its baselines.

    A cell without a position is a horizontal line. panels: dataset -> its panel; default: one each.
    """
    expected = [c for c in expected_cells(context, experiment) if c[2] != "edge" or c[3] != "0"]
    panels = panels or {cell[0]: cell[0] for cell in expected}
    panels = panels or {name: name for name in study_datasets(context)}
    mine = experiment_rows(rows, context, experiment)
    best, _ = select_best(mine[~((mine["level"] == "edge") & (mine["epsilon"] == "0"))])
    summary = summarise(best)
    with style.theme():
        names = list(dict.fromkeys(panels.values()))
        columns = min(2, max(len(names), 1))
        figure, axes = style.panels(max(-(-len(names) // columns), 1), columns)
        flat = [ax for line in axes for ax in line]
        levels = sorted({cell[2] for cell in expected}, key=level_order)
        colours = dict(zip(levels, style.series_colours(len(levels)), strict=True))
        for name, ax in zip(names, flat, strict=False):
            datasets = [dataset for dataset, panel in panels.items() if panel == name]
            ax.set_title(name)
            shown = summary[summary["dataset"].isin(datasets)]
            if shown.empty:
                asked = [cell for cell in expected if cell[0] in datasets]
                reason = _reason(datasets[0], context)
                _empty_panel(ax, missing_reason(asked[0], context) if asked else reason)
            else:
                _decoupled_panel(ax, shown, position, label, by_level, colours)
        for ax in flat[len(names) :]:
            ax.set_axis_off()
        found = set(summary[list(CELL)].itertuples(index=False, name=None))
        missing = [
            dict(zip(CELL, cell, strict=True)) | {"missing_reason": missing_reason(cell, context)}
            for cell in expected
            if cell not in found and cell[0] not in _unavailable(context)
        ]
        _finish(figure, axes, names, _not_shown(missing, summary[list(CELL)]))
        return figure


#: Lines of the baselines by level, in figures where DPDGC's colours are levels.
_BASELINE_DASHES = {"none": ":", "edge": "-.", "k": "--", "node": "-"}


def _decoupled_panel(
    ax: Axes,
    cells: pd.DataFrame,
    position: Callable[[Mapping], float | None],
    label: str,
    by_level: bool,
    colours: Mapping[str, tuple],
) -> None:
    cells = cells.assign(x=[position(cell) for cell in cells.to_dict("records")])
    kinds = cells["level"] if by_level else cells["level"].map(level_kind)
    for (method, kind), line in cells.groupby(["method", kinds], sort=False):
        colour, marker = style.method_style(method)
        name = method_label(method, line["level"].iloc[0])
        decoupled = method in (*AS_IMPLEMENTED, *AS_IMPLEMENTED.values())
        if decoupled and by_level:
            colour = colours[kind]
        if not by_level and kind == "k":
            name = re.sub(r"-N\d+", "-Nk", name)
        shape = {"markerfacecolor": "white", "linestyle": "--"} if method in AS_IMPLEMENTED else {}
        if not decoupled and by_level:  # its levels share its colour
            shape = {"linestyle": _BASELINE_DASHES[level_kind(kind)]}
        if line["x"].isna().all():
            ax.axhline(line["mean"].iloc[0], color=colour, linestyle=":", label=name)
            continue
        line = line.sort_values("x")
        if decoupled and not shape:
            shape = {"linewidth": 2.0}
        _line(ax, line["x"], line, label=name, color=colour, marker=marker, **shape)
    if label == "ε":
        ax.set_xscale("log")
    _ticks(ax, sorted(set(cells["x"].dropna().astype(float))))
    ax.set_xlabel(_wrap(_claims_title(cells, label), 46))


def _levels_panel(
    ax: Axes, cells: pd.DataFrame, places: Sequence[tuple[str, str]], methods: Sequence[str]
) -> None:
    """A dataset's accuracies, one place per (level, ε) and beside each other the methods."""
    step = 0.8 / (len(methods) + 1)
    at = {place: x for x, place in enumerate(places)}
    cells = cells.assign(
        x=[at[place] for place in zip(cells["level"], cells["epsilon"], strict=True)]
    )
    for number, method in enumerate(methods):
        colour, marker = style.method_style(method)
        mine = cells[cells["method"] == method]
        name = method_name(method)
        if method in AS_IMPLEMENTED:
            printed = mine[mine["published_mean"].notna()]
            ax.errorbar(
                printed["x"] - 0.4 + step / 2,
                printed["published_mean"],
                yerr=printed["published_ci"],
                color=colour,
                marker="D",
                markerfacecolor="none",
                linestyle="none",
                label=f"{method_name(AS_IMPLEMENTED[method])} (paper)",
            )
        found = mine[mine["mean"].notna()]
        if found.empty:
            continue
        bars = [found["mean"] - found["ci_low"], found["ci_high"] - found["mean"]]
        ax.errorbar(
            found["x"] - 0.4 + (number + 1.5) * step,
            found["mean"],
            yerr=np.nan_to_num(np.array(bars, dtype=float)),
            color=colour,
            marker=marker,
            markerfacecolor="white" if method in AS_IMPLEMENTED else colour,
            linestyle="none",
            label=name,
        )
    for x in range(len(places) - 1):
        ax.axvline(x + 0.5, color="0.85", linewidth=0.8)
    names = [
        "none" if level == "none" else f"{_level_tick(level)}\nε = {epsilon}"
        for level, epsilon in places
    ]
    ax.set_xticks(range(len(places)), names)
    ax.set_xlim(-0.5, len(places) - 0.5)
    ax.grid(False, axis="x")
    ax.set_xlabel(_wrap(_claims_title(cells[cells["mean"].notna()], "level"), 52))


def _level_tick(level: str) -> str:
    return f"k = {neighbors(level)}" if level_kind(level) == "k" else level


def _claims_title(cells: pd.DataFrame, label: str) -> str:
    """The name of an axis with everything that must be said about the ε of its cells."""
    private = cells[cells["level"] != "none"]
    if private.empty:
        return label
    by_claim: dict[tuple[str, str], dict[str, dict[str, None]]] = {}
    for cell in private.to_dict("records"):
        name = method_name(AS_IMPLEMENTED.get(cell["method"], cell["method"]))
        names = by_claim.setdefault((cell["epsilon_basis"], cell["epsilon_status"]), {})
        names.setdefault(name, {})[level_kind(cell["level"])] = None
    # Levels are named where one analysis of a method says one thing of some and another of others.
    verdicts = Counter((basis, name) for (basis, _), names in by_claim.items() for name in names)
    claims = []
    for (basis, status), names in by_claim.items():
        told = [
            f"{name} ({', '.join(kinds)})" if verdicts[basis, name] > 1 else name
            for name, kinds in names.items()
        ]
        claims.append(f"{', '.join(told)} {basis_text(basis)}, {status_text(status)}")
    adjacencies = dict.fromkeys(re.sub(r"\(\d+\)", "(k)", a) for a in private["adjacency"])
    deltas = sorted({delta_text(delta) for delta in private["delta"].dropna()}, key=float)
    symbol = "claimed ε" if "refuted" in set(private["epsilon_status"]) else "ε"
    tokens = sorted(set(private["epsilon"]), key=float)
    head = symbol if label == "ε" else f"{label} at {symbol} = {', '.join(tokens)}"
    details = [f"δ = {', '.join(deltas)}", f"adjacency {' / '.join(adjacencies)}", *claims]
    return f"{head} ({'; '.join(details)})"


def _by_number(
    rows: pd.DataFrame, context: Mapping, experiment: str, name: str, label: str
) -> Figure:
    """Accuracy against a whole-numbered hyperparameter, one line per ε; edge left, node right."""
    column = f"hp_{name}"

    def panel(ax: Axes, summary: pd.DataFrame, level: str) -> None:
        _lines_by_epsilon(ax, summary, column, level)
        ax.set_xlabel(label)
        _ticks(ax, sorted(summary[column].unique()))

    with style.theme():
        # The accuracy experiment trains every value; it serves where none is named.
        own = experiment in context.get("experiments", {})
        experiment = experiment if own else ACCURACY_EXPERIMENT
        summary = _summary(rows, context, experiment, column)
        return _grid(summary, context, experiment, _PRIVATE_LEVELS, panel, name)


def _contrast(
    rows: pd.DataFrame,
    context: Mapping,
    experiment: str,
    hyperparameter: str,
    column: str,
    names: tuple[str, str],
) -> Figure:
    """Accuracy against ε where `column`, made from `hyperparameter`, is true, and where it is not;
    `names` say which is which."""

    def panel(ax: Axes, summary: pd.DataFrame, level: str) -> None:
        # At a single ε the two stand side by side: their intervals would hide each other.
        apart = 1.05 if summary["epsilon"].nunique() == 1 else 1.0
        for (method, true), line in summary.groupby(["method", column]):
            colour, marker = style.method_style(method)
            line = line.assign(x=line["epsilon"].astype(float)).sort_values("x")
            line["x"] *= 1 / apart if true else apart
            shape = {} if true else {"markerfacecolor": "white", "linestyle": "--"}
            label = f"{method_label(method, level)} {names[0] if true else names[1]}"
            _line(ax, line["x"], line, label=label, color=colour, marker=marker, **shape)
        _epsilon_axis(ax, summary, level)

    with style.theme():
        summary = _summary(rows, context, experiment, column)
        return _grid(summary, context, experiment, _PRIVATE_LEVELS, panel, hyperparameter)


# ------------------------------------------------------------------------------------------ panels


def _accuracy_panel(
    ax: Axes, table: pd.DataFrame, dataset: str, level: str, context: Mapping
) -> None:
    ax.set_title(f"{dataset}, {level} level")
    shown = table[table["mean"].notna()]
    private = shown[(shown["level"] == level) & (shown["epsilon"].astype(float) > 0)]
    if private.empty:
        cells = expected_cells(context, ACCURACY_EXPERIMENT)
        asked = next((cell for cell in cells if cell[0] == dataset and cell[2] == level), None)
        _empty_panel(ax, missing_reason(asked, context) if asked else _reason(dataset, context))
        return
    methods = private["method"].nunique()
    # At a single ε there is no line to follow: equal accuracies would hide each other.
    apart = 1.12 if private["epsilon"].nunique() == 1 else 1.0
    for place, (method, line) in enumerate(private.groupby("method", sort=False)):
        shift = apart ** (place - (methods - 1) / 2)
        line = line.assign(x=line["epsilon"].astype(float) * shift).sort_values("x")
        colour, marker = style.method_style(method)
        label = method_label(method, level)
        _line(ax, line["x"], line, label=label, color=colour, marker=marker)
    flat = shown[
        ((shown["level"] == "none") & ~shown["method"].isin(EDGE_FREE_METHODS))
        | ((shown["level"] == level) & (shown["epsilon"] == "0"))
    ]
    for line in flat.itertuples():
        colour, _ = style.method_style(line.method)
        dashes = "--" if line.level == "none" else ":"
        ax.axhline(
            line.mean, color=colour, linestyle=dashes, label=method_label(line.method, line.level)
        )
        if np.isfinite(line.ci_low):
            ax.axhspan(line.ci_low, line.ci_high, color=colour, alpha=0.12, linewidth=0)
    printed = table[table["published_mean"].notna() & (table["level"] == level)]
    printed = printed[printed["epsilon"].astype(float) > 0]
    for line in printed.itertuples():
        colour, _ = style.method_style(line.method)
        ax.errorbar(
            [float(line.epsilon)],
            [line.published_mean],
            yerr=None if np.isnan(line.published_ci) else [line.published_ci],
            color=colour,
            marker="D",
            markersize=7,
            markerfacecolor="none",
            linestyle="none",
            label=f"{method_label(line.method, level)} (paper)",
        )
    _epsilon_axis(ax, private, level, printed["epsilon"])


def _lines_by_epsilon(ax: Axes, summary: pd.DataFrame, x: str, level: str) -> None:
    """One line per ε (and method, where there are several); the legend's title says what ε is."""
    tokens = sorted(summary["epsilon"].unique(), key=float)
    colours = dict(zip(tokens, style.series_colours(len(tokens)), strict=True))
    several = summary["method"].nunique() > 1
    for (method, epsilon), line in summary.groupby(["method", "epsilon"], sort=False):
        line = line.sort_values(x)
        label = f"{epsilon}, {method_label(method, level)}" if several else epsilon
        marker = style.SERIES_MARKERS[tokens.index(epsilon) % len(style.SERIES_MARKERS)]
        _line(ax, line[x].astype(float), line, label=label, color=colours[epsilon], marker=marker)
    handles, names = ax.get_legend_handles_labels()
    order = sorted(range(len(names)), key=lambda i: float(names[i].split(",")[0]))
    legend = ax.legend(
        [handles[i] for i in order],
        [names[i] for i in order],
        title=_wrap(_epsilon_title(summary, level), 21),
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        frameon=False,
    )
    legend.get_title().set_multialignment("left")
    legend._legend_box.align = "left"


def _line(ax: Axes, x: pd.Series, line: pd.DataFrame, **shape) -> None:
    """Means with a band for their intervals; a single point shows its interval as a bar."""
    x = np.asarray(x, dtype=float)
    mean, low, high = (line[name].to_numpy(dtype=float) for name in ("mean", "ci_low", "ci_high"))
    ax.plot(x, mean, **shape)
    known = np.isfinite(low)
    if known.sum() > 1:
        ax.fill_between(x[known], low[known], high[known], color=shape["color"], alpha=0.18, lw=0)
    elif known.any():
        ax.vlines(x[known], low[known], high[known], color=shape["color"], lw=1.2)


def _epsilon_axis(ax: Axes, cells: pd.DataFrame, level: str, others: Iterable[str] = ()) -> None:
    """A logarithmic ε axis, labelled in full, with a tick per ε of `cells` and of `others`."""
    ax.set_xscale("log")
    _ticks(ax, sorted({float(epsilon) for epsilon in [*cells["epsilon"], *others]}))
    ax.set_xlabel(_wrap(_epsilon_title(cells, level), 52))


def _epsilon_title(cells: pd.DataFrame, level: str) -> str:
    """What an ε of these cells is: level, basis, δ, adjacency, and the status of each method."""
    claims = cells[["method", "epsilon_basis", "adjacency", "epsilon_status"]].drop_duplicates()
    scopes = [
        scope_text(level, basis, cells["delta"]) for basis in claims["epsilon_basis"].unique()
    ]
    by_status: dict[str, list[str]] = {}
    for claim in claims.itertuples():
        by_status.setdefault(claim.epsilon_status, []).append(method_label(claim.method, level))
    verdicts = [status_text(status) for status in by_status]
    if len(by_status) > 1:
        verdicts = [
            f"{', '.join(dict.fromkeys(methods))}: {status_text(status)}"
            for status, methods in by_status.items()
        ]
    symbol = "claimed ε" if "refuted" in by_status else "ε"
    parts = [" / ".join(scopes), "adjacency " + " / ".join(claims["adjacency"].unique()), *verdicts]
    return f"{symbol} ({'; '.join(parts)})"


def _wrap(text: str, width: int) -> str:
    """Lines of at most `width` characters, broken between phrases where phrases fit in a line."""
    phrases = re.split(r"(?<=[;,]) ", text)
    kept = " ".join(p.replace(" ", "\u00a0") if len(p) <= width else p for p in phrases)
    return "\n".join(textwrap.wrap(kept, width, break_on_hyphens=False))


def _ticks(ax: Axes, values: Sequence[float]) -> None:
    """A tick at each value that has results, and room beyond the first and the last."""
    low, high = values[0], values[-1]
    if ax.get_xscale() == "log":
        margin = 1.12 if low < high else 1.6
        ax.set_xlim(low / margin, high * margin)
        # Labels nearer than a ninth of the narrowest axis would run into each other.
        gap = np.log(high * margin**2 / low) / 9
        labelled = [values[0]]
        for value in values[1:]:
            if np.log(value / labelled[-1]) >= gap:
                labelled.append(value)
    else:
        margin = 0.06 * (high - low) if low < high else 0.6
        ax.set_xlim(low - margin, high + margin)
        labelled = values
    ax.xaxis.set_major_locator(FixedLocator(labelled))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_locator(NullLocator())


def _empty_panel(ax: Axes, reason: str) -> None:
    ax.text(
        0.5,
        0.5,
        "\n".join(textwrap.wrap(f"no results: {reason}", 27)),
        transform=ax.transAxes,
        ha="center",
        va="center",
        color="0.35",
    )
    ax.set_xticks([])
    ax.set_yticks([])
    ax.grid(False)


# ------------------------------------------------------------------------------------------- grids


def _summary(rows: pd.DataFrame, context: Mapping, experiment: str, by: str) -> pd.DataFrame:
    """Mean and interval per cell and value of `by`, the other hyperparameters selected for each."""
    mine = experiment_rows(rows, context, experiment)
    if by not in mine.columns:
        mine = mine.assign(**{by: None})
    best, _ = select_best(mine, [by])
    summary = summarise(best, [by])
    return summary.assign(**{by: pd.to_numeric(summary[by])})


def _grid(
    summary: pd.DataFrame,
    context: Mapping,
    experiment: str,
    levels: Sequence[str],
    panel: Callable[[Axes, pd.DataFrame, str], None],
    hyperparameter: str,
) -> Figure:
    """Dataset × level panels: one line per dataset, or two datasets per line for a single level.

    The figure is about the methods of the experiment that have the hyperparameter.
    """
    entries = context.get("experiments", {}).get(experiment, [])
    methods = {entry["method"] for entry in entries if hyperparameter in entry}
    expected = [cell for cell in expected_cells(context, experiment) if cell[1] in methods]
    datasets = study_datasets(context)
    places = [(dataset, level) for dataset in datasets for level in levels]
    columns = 2 if len(places) > 1 else 1
    figure, axes = style.panels(max(-(-len(places) // columns), 1), columns)
    flat = [ax for line in axes for ax in line]
    for (dataset, level), ax in zip(places, flat, strict=False):
        ax.set_title(f"{dataset}, {level} level")
        mine = summary[(summary["dataset"] == dataset) & (summary["level"] == level)]
        if mine.empty:
            asked = [cell for cell in expected if (cell[0], cell[2]) == (dataset, level)]
            _empty_panel(
                ax, missing_reason(asked[0], context) if asked else _reason(dataset, context)
            )
        else:
            panel(ax, mine, level)
    for ax in flat[len(places) :]:
        ax.set_axis_off()
    shown = summary[list(CELL)]
    found = set(shown.itertuples(index=False, name=None))
    missing = [
        dict(zip(CELL, cell, strict=True)) | {"missing_reason": missing_reason(cell, context)}
        for cell in expected
        if cell not in found and cell[0] not in _unavailable(context) and cell[2] in levels
    ]
    _finish(figure, axes, datasets, _not_shown(missing, shown))
    return figure


def _unavailable(context: Mapping) -> Mapping[str, str]:
    return context.get("unavailable", {})


def _reason(dataset: str, context: Mapping) -> str:
    unavailable = _unavailable(context)
    return f"{NOT_AVAILABLE}: {unavailable[dataset]}" if dataset in unavailable else NOT_REQUESTED


def _share_y(line: Sequence[Axes]) -> None:
    """Equal accuracy limits in the panels of one dataset that have data."""
    drawn = [ax for ax in line if ax.has_data() and ax.get_yticks().size]
    if len(drawn) > 1:
        limits = [ax.get_ylim() for ax in drawn]
        for ax in drawn:
            ax.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))


def _not_shown(missing: Sequence[Mapping], shown: pd.DataFrame) -> str:
    """What a reader would look for and not find, by reason."""
    lines = set(shown[["dataset", "method", "level"]].itertuples(index=False, name=None))
    reasons: dict[str, dict[str, None]] = {}
    for cell in missing:
        what = method_label(cell["method"], cell["level"])
        if (cell["dataset"], cell["method"], cell["level"]) in lines:
            what = f"some ε of {what}"
        if cell["missing_reason"] != NO_METHOD:
            what += f" on {cell['dataset']}"
        reasons.setdefault(cell["missing_reason"], {})[what] = None
    return "; ".join(f"not shown: {', '.join(names)} ({why})" for why, names in reasons.items())


def _finish(figure: Figure, axes: list[list[Axes]], datasets: Sequence[str], remark: str) -> None:
    if not datasets:
        _empty_panel(axes[0][0], "the study names no dataset")
    handles: dict[str, object] = {}
    for line in axes:
        drawn = [ax for ax in line if ax.get_xlabel()]
        if drawn:
            drawn[0].set_ylabel("accuracy, %")
        for ax in drawn:
            if ax.get_legend() is None:
                for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
                    handles.setdefault(label, handle)
    # Lines of text that a figure has no room for yet: those of the legend beyond three, of the
    # longest axis title of each row of panels beyond three, of the remark beyond two.
    lines = sum(max(0, max(ax.get_xlabel().count("\n") + 1 for ax in row) - 3) for row in axes)
    if handles:
        # A legend entry takes about 5 pt a character and 45 pt for its sample.
        columns = max(1, int(72 * figure.get_figwidth() / (5 * max(map(len, handles)) + 45)))
        lines += max(0, -(-len(handles) // columns) - 3)
        figure.legend(
            list(handles.values()),
            list(handles),
            loc="outside upper center",
            ncol=columns,
            frameon=False,
        )
    if remark:
        told = textwrap.wrap(remark, 58 * len(axes[0]))
        lines += max(0, len(told) - 2)
        figure.supxlabel("\n".join(told), fontsize=7.5, color="0.35", x=0.01, ha="left")
    figure.set_figheight(figure.get_figheight() + 0.17 * lines)
