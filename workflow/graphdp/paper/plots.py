"""Kinds of figures that several papers have: accuracy against ε, against a number, and contrasts.

A panel or line without results says so in the figure; it never fails and never draws a zero.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from graphdp.paper import style
from graphdp.paper.accuracy import ACCURACY_EXPERIMENT, accuracy_table
from graphdp.paper.cells import expected_cells, missing_reason, study_datasets
from graphdp.paper.labels import as_implemented, edge_free_methods, method_label
from graphdp.paper.panels import (
    BAND,
    FEWEST_FOR_A_BAND,
    add_to_title,
    draw_line,
    empty_panel,
    epsilon_axis,
    finish,
    panel_grid,
    set_ticks,
    share_y,
    summary_of,
    widen,
)
from graphdp.paper.remarks import Compared, claims, claims_title, reason_of, unavailable_in
from graphdp.privacy.protection import is_private

PRIVATE_LEVELS = ("edge", "node")


#: Of `accuracy_figure`.
ACCURACY_CAPTION = (
    "Accuracy against ε at edge level (left) and node level (right), or at the one level that the "
    "study has. Bands are 95 % bootstrap intervals over seeds; horizontal lines are methods "
    "without privacy or without edges. A target ε is what noise is calibrated to, for some methods "
    "by a claim that is refuted."
)


#: The factor between ε at which methods of one ε stand.
_APART = 1.12


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
    method that reads no edges); diamonds are the paper's printed numbers for the same dataset, in
    their method's colour.
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
            if ax.has_data():
                widen(ax)
        if len(levels) > 1:
            for line in axes:
                # One level's lines would lie on each other on a scale far beyond their own.
                share_y(line, stretch=2)
        missing = table[table["mean"].isna() & ~table["dataset"].isin(unavailable_in(context))]
        shown = table[table["mean"].notna()]
        said = claims(shown[shown["epsilon"] != "0"])
        finish(figure, axes, datasets, missing.to_dict("records"), shown, said)
        return figure


def by_number(
    rows: pd.DataFrame,
    context: Mapping,
    experiment: str,
    name: str,
    label: str,
    levels: Sequence[str] = PRIVATE_LEVELS,
    *,
    log: bool = False,
) -> Figure:
    """Accuracy against a whole-numbered hyperparameter, one line per ε; edge left, node right.

    label: ends in its letter ("hops K").
    """
    column = f"hp_{name}"
    letter = label.split()[-1]

    def panel(ax: Axes, mine: pd.DataFrame, level: str) -> None:
        if log:
            ax.set_xscale("log")
        lines_by_epsilon(ax, mine, column, level, tokens)
        ax.set_xlabel(label)
        add_to_title(ax, f", {claims_title(mine, 'ε', details=False)}")
        set_ticks(ax, sorted(mine[column].unique()))

    with style.theme():
        # The accuracy experiment trains every value; it serves where none is named.
        own = experiment in context.get("experiments", {})
        experiment = experiment if own else ACCURACY_EXPERIMENT
        summary = summary_of(rows, context, experiment, column)
        summary = summary[summary["level"].isin(levels)]
        tokens = sorted(set(summary["epsilon"]), key=float)
        compared = Compared(name, column, lambda value: (value, f"{letter} =", f"{value:g}"))
        title = "target ε (lines stand a little apart sideways)"
        return panel_grid(summary, context, experiment, levels, panel, compared, title)


def contrast(
    rows: pd.DataFrame,
    context: Mapping,
    experiment: str,
    hyperparameter: str,
    true: Callable[[Any], bool],
    names: tuple[str, str],
) -> Figure:
    """Accuracy against ε where a hyperparameter's value is `true`, and where it is not; `names` say
    which is which. Horizontal lines are the same without privacy."""
    column, value_of = f"is_{hyperparameter}", f"hp_{hyperparameter}"
    if value_of in rows.columns:
        told = [None if pd.isna(value) else true(value) for value in rows[value_of]]
        rows = rows.assign(**{column: pd.Series(told, index=rows.index, dtype=object)})

    def name_of(line: Any) -> str:
        return names[0] if line[column] else names[1]

    def panel(ax: Axes, mine: pd.DataFrame, level: str) -> None:
        # At a single ε the two stand side by side: their intervals would hide each other.
        apart = 1.05 if mine["epsilon"].nunique() == 1 else 1.0
        for (method, holds), line in mine.groupby(["method", column]):
            colour, marker = style.method_style(method)
            line = line.assign(x=line["epsilon"].astype(float)).sort_values("x")
            line["x"] *= 1 / apart if holds else apart
            shape = {} if holds else {"markerfacecolor": "white", "linestyle": "--"}
            label = f"{method_label(method, level)} {name_of(line.iloc[0])}"
            draw_line(ax, line["x"], line, label=label, color=colour, marker=marker, **shape)
        free = ~summary["level"].map(is_private).astype(bool)
        here = summary[free & (summary["dataset"] == mine["dataset"].iloc[0])]
        for line in here.to_dict("records"):
            label = f"{method_label(line['method'], line['level'])} {name_of(line)}"
            colour, _ = style.method_style(line["method"])
            dashes = "-." if line[column] else ":"
            ax.axhline(line["mean"], color=colour, linestyle=dashes, label=label)
        epsilon_axis(ax, mine)

    with style.theme():
        summary = summary_of(rows, context, experiment, column)
        compared = Compared(
            hyperparameter,
            column,
            lambda value: (true(value), names[0] if true(value) else names[1], ""),
        )
        return panel_grid(summary, context, experiment, PRIVATE_LEVELS, panel, compared)


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
    budgets = private.groupby("method", sort=False)["epsilon"].nunique()
    alone = list(budgets.index[budgets == 1])
    for method, line in private.groupby("method", sort=False):
        # At a single ε there is no line to follow: equal accuracies would hide each other.
        place = alone.index(method) - (len(alone) - 1) / 2 if method in alone else 0
        shift = _APART**place
        line = line.assign(x=line["epsilon"].astype(float) * shift).sort_values("x")
        label = method_label(method, level)
        draw_line(ax, line["x"], line, label=label, **style.method_look(method))
    flat = shown[
        (~shown["level"].map(is_private).astype(bool) & ~shown["method"].isin(edge_free_methods()))
        | ((shown["level"] == level) & (shown["epsilon"] == "0"))
    ]
    for line in flat.itertuples():
        colour, _ = style.method_style(line.method)
        dashes = "-." if line.method in as_implemented() else "--"
        dashes = ":" if is_private(line.level) else dashes
        ax.axhline(
            line.mean, color=colour, linestyle=dashes, label=method_label(line.method, line.level)
        )
        if np.isfinite(line.ci_low) and line.n >= FEWEST_FOR_A_BAND:
            band = {"alpha": 0.12, "linewidth": 0, "label": BAND}
            ax.axhspan(line.ci_low, line.ci_high, color=colour, **band)
    printed = table[table["published_mean"].notna() & (table["level"] == level)]
    printed = printed[printed["epsilon"].astype(float) > 0]
    for line in printed.itertuples():
        ax.errorbar(
            [float(line.epsilon)],
            [line.published_mean],
            yerr=None if np.isnan(line.published_ci) else [line.published_ci],
            markersize=7,
            label=f"{method_label(line.method, level)} (paper)",
            **style.printed_look(line.method),
        )
    epsilon_axis(ax, private, printed["epsilon"])


def lines_by_epsilon(
    ax: Axes, summary: pd.DataFrame, x: str, level: str, tokens: Sequence[str]
) -> None:
    """One line per ε, which looks the same wherever it is one of `tokens`, and per method, where
    there are several: dashes tell these apart. Lines stand a little apart with bars for their
    intervals: of seven bands over each other none can be read."""
    log = ax.get_xscale() == "log"
    at = summary[x].astype(float)
    at = np.unique(np.log(at) if log else at)
    step = 0.06 * (np.diff(at).min() if len(at) > 1 else 1)
    colours = dict(zip(tokens, style.series_colours(len(tokens)), strict=True))
    methods = list(dict.fromkeys(summary["method"]))
    lines = sorted(
        summary.groupby(["method", "epsilon"], sort=False),
        key=lambda named: (methods.index(named[0][0]), float(named[0][1])),
    )
    for number, ((method, epsilon), line) in enumerate(lines):
        line = line.sort_values(x)
        apart = step * (number - (len(lines) - 1) / 2)
        shown_at = line[x].astype(float)
        shown_at = shown_at * np.exp(apart) if log else shown_at + apart
        label = f"{epsilon}, {method_label(method, level)}" if len(methods) > 1 else epsilon
        look = {
            "marker": style.SERIES_MARKERS[tokens.index(epsilon) % len(style.SERIES_MARKERS)],
            "linestyle": ("-", "--", ":", "-.")[methods.index(method) % 4],
        }
        draw_line(ax, shown_at, line, bars=True, label=label, color=colours[epsilon], **look)
