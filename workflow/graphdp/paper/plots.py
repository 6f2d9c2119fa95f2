"""Kinds of figures that several papers have: accuracy against ε, against a number, and contrasts.

A panel or line without results says so in the figure; it never fails and never draws a zero.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from graphdp.paper import style
from graphdp.paper.accuracy import ACCURACY_EXPERIMENT, accuracy_table
from graphdp.paper.cells import expected_cells, missing_reason, study_datasets
from graphdp.paper.labels import edge_free_methods, method_label
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
from graphdp.privacy.protection import is_private

PRIVATE_LEVELS = ("edge", "node")


#: Of `accuracy_figure`.
ACCURACY_CAPTION = (
    "Accuracy against ε at edge level (left) and node level (right), or at the one level that the "
    "study has. Bands are 95 % bootstrap intervals over seeds; horizontal lines are methods "
    "without privacy or without edges."
)


@dataclass(frozen=True)
class Drawing:
    """How to draw a figure, and the words that go with it.

    of_study: whether its panels are of the study's datasets, not of one graph or of no model.
    """

    title: str
    draw: Callable[[pd.DataFrame, Mapping], Figure]
    caption: str
    of_study: bool = True


def accuracy_figure(rows: pd.DataFrame, context: Mapping) -> Figure:
    """Accuracy against ε: one line of panels per dataset, edge level left, node level right; of a
    study (and print) with one of the levels alone a panel per dataset, two a line.

    Lines with 95 % bands are the private methods; horizontal lines need no ε (no privacy, or a
    method that reads no edges); open diamonds are the paper's printed numbers for the same dataset.
    """
    with style.theme():
        table = accuracy_table(rows, context)
        datasets = study_datasets(context)
        private = set(table.loc[table["epsilon"].astype(float) > 0, "level"])
        levels = [level for level in PRIVATE_LEVELS if level in private] or PRIVATE_LEVELS
        places = [(dataset, level) for dataset in datasets for level in levels]
        figure, axes, titled = style.titled_panels([f"{d}, {level} level" for d, level in places])
        for (dataset, level), ax in zip(places, titled, strict=True):
            _accuracy_panel(ax, table[table["dataset"] == dataset], dataset, level, context)
        if len(levels) > 1:
            for line in axes:
                share_y(line)
        missing = table[table["mean"].isna() & ~table["dataset"].isin(unavailable_in(context))]
        shown = table[table["mean"].notna()]
        finish(figure, axes, datasets, missing.to_dict("records"), shown)
        return figure


def by_number(
    rows: pd.DataFrame, context: Mapping, experiment: str, name: str, label: str
) -> Figure:
    """Accuracy against a whole-numbered hyperparameter, one line per ε; edge left, node right."""
    column = f"hp_{name}"

    def panel(ax: Axes, summary: pd.DataFrame, level: str) -> None:
        lines_by_epsilon(ax, summary, column, level)
        ax.set_xlabel(label)
        set_ticks(ax, sorted(summary[column].unique()))

    with style.theme():
        # The accuracy experiment trains every value; it serves where none is named.
        own = experiment in context.get("experiments", {})
        experiment = experiment if own else ACCURACY_EXPERIMENT
        summary = summary_of(rows, context, experiment, column)
        return panel_grid(summary, context, experiment, PRIVATE_LEVELS, panel, name)


def contrast(
    rows: pd.DataFrame,
    context: Mapping,
    experiment: str,
    hyperparameter: str,
    column: str,
    names: tuple[str, str],
) -> Figure:
    """Accuracy against ε where `column`, made from `hyperparameter`, is true, and where it is not;
    `names` say which is which. Horizontal lines are the same without privacy."""

    def panel(ax: Axes, mine: pd.DataFrame, level: str) -> None:
        # At a single ε the two stand side by side: their intervals would hide each other.
        apart = 1.05 if mine["epsilon"].nunique() == 1 else 1.0
        for (method, true), line in mine.groupby(["method", column]):
            colour, marker = style.method_style(method)
            line = line.assign(x=line["epsilon"].astype(float)).sort_values("x")
            line["x"] *= 1 / apart if true else apart
            shape = {} if true else {"markerfacecolor": "white", "linestyle": "--"}
            label = f"{method_label(method, level)} {names[0] if true else names[1]}"
            draw_line(ax, line["x"], line, label=label, color=colour, marker=marker, **shape)
        free = ~summary["level"].map(is_private).astype(bool)
        for line in summary[free & (summary["dataset"] == mine["dataset"].iloc[0])].itertuples():
            true = bool(getattr(line, column))
            label = f"{method_label(line.method, line.level)} {names[0] if true else names[1]}"
            colour, _ = style.method_style(line.method)
            ax.axhline(line.mean, color=colour, linestyle="-." if true else ":", label=label)
        epsilon_axis(ax, mine, level)

    with style.theme():
        summary = summary_of(rows, context, experiment, column)
        return panel_grid(summary, context, experiment, PRIVATE_LEVELS, panel, hyperparameter)


def _accuracy_panel(
    ax: Axes, table: pd.DataFrame, dataset: str, level: str, context: Mapping
) -> None:
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
        (~shown["level"].map(is_private).astype(bool) & ~shown["method"].isin(edge_free_methods()))
        | ((shown["level"] == level) & (shown["epsilon"] == "0"))
    ]
    for line in flat.itertuples():
        colour, _ = style.method_style(line.method)
        dashes = ":" if is_private(line.level) else "--"
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


def lines_by_epsilon(ax: Axes, summary: pd.DataFrame, x: str, level: str) -> None:
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
