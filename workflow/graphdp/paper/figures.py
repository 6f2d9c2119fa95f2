"""The figures of the papers as functions of rows: matplotlib Figures, unsaved.

A panel or line without results says so in the figure; it never fails and never draws a zero.
"""

import itertools
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from graphdp.paper import dpdgc, style
from graphdp.paper.accuracy import ACCURACY_EXPERIMENT, accuracy_table
from graphdp.paper.cells import (
    expected_cells,
    experiment_rows,
    known,
    missing_reason,
    study_datasets,
)
from graphdp.paper.labels import EDGE_FREE_METHODS, method_label
from graphdp.paper.panels import (
    draw_line,
    empty_panel,
    epsilon_axis,
    epsilon_title,
    finish,
    panel_grid,
    reason_of,
    set_ticks,
    share_y,
    summary_of,
    unavailable_in,
    wrap,
)
from graphdp.paper.rows import read_rows
from graphdp.paper.scorecard import scorecard_figure
from graphdp.paper.select import CELL, bootstrap_ci, select_best, summarise

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
            share_y(line)
        missing = table[table["mean"].isna() & ~table["dataset"].isin(unavailable_in(context))]
        shown = table[table["mean"].notna()]
        finish(figure, axes, datasets, missing.to_dict("records"), shown)
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
        set_ticks(ax, sorted(summary["hp_max_degree"].unique()))

    with style.theme():
        summary = summary_of(rows, context, DEGREE_EXPERIMENT, "hp_max_degree")
        return panel_grid(summary, context, DEGREE_EXPERIMENT, ("node",), panel, "max_degree")


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
                draw_line(ax, line.index + 1, line, label=label, **shape)
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
        what = epsilon_title(summary, level).replace("ε (", f"ε = {', '.join(tokens)} (", 1)
        ax.set_xlabel(f"stage, {ends[1]} epochs each\n" + wrap(what, 52))

    with style.theme():
        summary = summarise(best)
        return panel_grid(
            summary, context, CONVERGENCE_EXPERIMENT, _PRIVATE_LEVELS, panel, "history"
        )


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
        dpdgc.table2,
        "Accuracy at every level: DPDGC as its authors' code runs it (whose ε is a claim) beside "
        "what the paper prints, as corrected (with an ε that holds under its assumptions), and the "
        "baselines.",
    ),
    "dpdgc_figure3a": Drawing(
        "DPDGC Figure 3a",
        dpdgc.figure3a,
        "Accuracy against ε at edge level: DPDGC as corrected, with an ε that holds (full lines), "
        "and as its authors' code runs it, whose ε is a claim (dashed).",
    ),
    "dpdgc_figure3b": Drawing(
        "DPDGC Figure 3b",
        dpdgc.figure3b,
        "Accuracy against ε at node and k-neighbour level: DPDGC as corrected, with an ε that "
        "holds under its assumptions (full lines), and as its authors' code runs it, whose ε is a "
        "claim (dashed).",
    ),
    "dpdgc_figure3c": Drawing(
        "DPDGC Figure 3c",
        dpdgc.figure3c,
        "Accuracy against the number k of protected neighbours. Methods with one accuracy for any "
        "k are horizontal lines.",
    ),
    "dpdgc_figure3d": Drawing(
        "DPDGC Figure 3d",
        dpdgc.figure3d,
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


def _by_number(
    rows: pd.DataFrame, context: Mapping, experiment: str, name: str, label: str
) -> Figure:
    """Accuracy against a whole-numbered hyperparameter, one line per ε; edge left, node right."""
    column = f"hp_{name}"

    def panel(ax: Axes, summary: pd.DataFrame, level: str) -> None:
        _lines_by_epsilon(ax, summary, column, level)
        ax.set_xlabel(label)
        set_ticks(ax, sorted(summary[column].unique()))

    with style.theme():
        # The accuracy experiment trains every value; it serves where none is named.
        own = experiment in context.get("experiments", {})
        experiment = experiment if own else ACCURACY_EXPERIMENT
        summary = summary_of(rows, context, experiment, column)
        return panel_grid(summary, context, experiment, _PRIVATE_LEVELS, panel, name)


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
            draw_line(ax, line["x"], line, label=label, color=colour, marker=marker, **shape)
        epsilon_axis(ax, summary, level)

    with style.theme():
        summary = summary_of(rows, context, experiment, column)
        return panel_grid(summary, context, experiment, _PRIVATE_LEVELS, panel, hyperparameter)


def _accuracy_panel(
    ax: Axes, table: pd.DataFrame, dataset: str, level: str, context: Mapping
) -> None:
    ax.set_title(f"{dataset}, {level} level")
    shown = table[table["mean"].notna()]
    private = shown[(shown["level"] == level) & (shown["epsilon"].astype(float) > 0)]
    if private.empty:
        cells = expected_cells(context, ACCURACY_EXPERIMENT)
        asked = next((cell for cell in cells if cell[0] == dataset and cell[2] == level), None)
        empty_panel(ax, missing_reason(asked, context) if asked else reason_of(dataset, context))
        return
    methods = private["method"].nunique()
    # At a single ε there is no line to follow: equal accuracies would hide each other.
    apart = 1.12 if private["epsilon"].nunique() == 1 else 1.0
    for place, (method, line) in enumerate(private.groupby("method", sort=False)):
        shift = apart ** (place - (methods - 1) / 2)
        line = line.assign(x=line["epsilon"].astype(float) * shift).sort_values("x")
        colour, marker = style.method_style(method)
        label = method_label(method, level)
        draw_line(ax, line["x"], line, label=label, color=colour, marker=marker)
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
    epsilon_axis(ax, private, level, printed["epsilon"])


def _lines_by_epsilon(ax: Axes, summary: pd.DataFrame, x: str, level: str) -> None:
    """One line per ε (and method, where there are several); the legend's title says what ε is."""
    tokens = sorted(summary["epsilon"].unique(), key=float)
    colours = dict(zip(tokens, style.series_colours(len(tokens)), strict=True))
    several = summary["method"].nunique() > 1
    for (method, epsilon), line in summary.groupby(["method", "epsilon"], sort=False):
        line = line.sort_values(x)
        label = f"{epsilon}, {method_label(method, level)}" if several else epsilon
        marker = style.SERIES_MARKERS[tokens.index(epsilon) % len(style.SERIES_MARKERS)]
        draw_line(
            ax, line[x].astype(float), line, label=label, color=colours[epsilon], marker=marker
        )
    handles, names = ax.get_legend_handles_labels()
    order = sorted(range(len(names)), key=lambda i: float(names[i].split(",")[0]))
    legend = ax.legend(
        [handles[i] for i in order],
        [names[i] for i in order],
        title=wrap(epsilon_title(summary, level), 21),
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        frameon=False,
    )
    legend.get_title().set_multialignment("left")
    legend._legend_box.align = "left"
