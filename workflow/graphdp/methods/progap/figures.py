"""ProGAP's own tables and figures: Tables 1 and 2, Figures 2 to 4, and layer-wise training."""

import itertools
import json
from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from graphdp.paper import style
from graphdp.paper.accuracy import COUNTS, FLOATS, published_table
from graphdp.paper.cells import experiment_rows
from graphdp.paper.panels import draw_line, panel_grid, wrap
from graphdp.paper.plots import (
    ACCURACY_CAPTION,
    PRIVATE_LEVELS,
    Drawing,
    accuracy_figure,
    by_number,
    contrast,
)
from graphdp.paper.remarks import claims_title
from graphdp.paper.select import CELL, bootstrap_ci, select_best, summarise
from graphdp.paper.statistics import STATISTICS_NUMBERS, show_statistics, table1
from graphdp.paper.tables import Table, show_published

DEPTH_EXPERIMENT, CONVERGENCE_EXPERIMENT, LAYERWISE_EXPERIMENT = "depth", "convergence", "layerwise"


def figure3(rows: pd.DataFrame, context: Mapping) -> Figure:
    """Convergence: accuracy on training and validation nodes after every epoch, stage by stage."""
    mine = experiment_rows(rows, context, CONVERGENCE_EXPERIMENT)
    kept = mine["curves"] != "" if "curves" in mine.columns else np.zeros(len(mine), dtype=bool)
    best, _ = select_best(mine[kept])

    def panel(ax: Axes, summary: pd.DataFrame, level: str) -> None:
        tokens = sorted(summary["epsilon"].unique(), key=float)
        colours = dict(zip(tokens, style.series_colours(len(tokens)), strict=True))
        if len(tokens) == 1:  # colour tells no ε from another, and is the method's as elsewhere
            colours = {tokens[0]: style.method_style("progap")[0]}
        for cell in summary[list(CELL)].itertuples(index=False):
            models = best[(best[list(CELL)] == list(cell)).all(axis=1)]
            curves = [json.loads(text) for text in models["curves"]]
            for part, dashes in (("train", "--"), ("val", "-")):
                accuracy = np.array([np.concatenate(curve[part]) for curve in curves])
                line = pd.DataFrame(
                    [bootstrap_ci(100 * values) for values in accuracy.T],
                    columns=["mean", "ci_low", "ci_high"],
                ).assign(n=len(curves))
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
        title = claims_title(summary, f"stage, {ends[1]} epochs each,", details=False)
        ax.set_xlabel(wrap(title, 52))

    with style.theme():
        summary = summarise(best)
        return panel_grid(
            summary, context, CONVERGENCE_EXPERIMENT, PRIVATE_LEVELS, panel, "history"
        )


def figure4(rows: pd.DataFrame, context: Mapping) -> Figure:
    """Accuracy against the depth, one line per ε; edge level left, node level right."""
    return by_number(rows, context, DEPTH_EXPERIMENT, "depth", "depth K")


def layerwise(rows: pd.DataFrame, context: Mapping) -> Figure:
    """Progressive against layer-wise training (earlier bases frozen): accuracy against ε."""
    names = ("progressive", "layer-wise")
    return contrast(
        rows, context, LAYERWISE_EXPERIMENT, "layerwise", lambda frozen: not frozen, names
    )


TABLES: dict[str, Table] = {
    "progap_table1": Table("ProGAP Table 1", table1, show_statistics, STATISTICS_NUMBERS),
    "progap_table2": Table("ProGAP Table 2", published_table, show_published, FLOATS, COUNTS),
}
FIGURES: dict[str, Drawing] = {
    "progap_figure2": Drawing("ProGAP Figure 2", accuracy_figure, ACCURACY_CAPTION),
    "progap_figure3": Drawing(
        "ProGAP Figure 3",
        figure3,
        "Convergence over the stages at edge level (left) and node level (right): accuracy on "
        "training and validation nodes, in evaluation mode, after every epoch.",
    ),
    "progap_figure4": Drawing(
        "ProGAP Figure 4",
        figure4,
        "Effect of the depth on accuracy at edge level (left) and node level (right).",
    ),
    "progap_layerwise": Drawing(
        "ProGAP progressive or layer-wise",
        layerwise,
        "Progressive training (all bases train in every stage) against layer-wise training (the "
        "bases of earlier stages are frozen) at edge level (left) and node level (right); lines "
        "that lie flat are both without privacy.",
    ),
}
