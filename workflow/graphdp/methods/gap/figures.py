"""GAP's own tables and figures: Tables 1 to 3, and Figures 6 to 9."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from graphdp.paper import style
from graphdp.paper.accuracy import COUNTS, FLOATS, published_table
from graphdp.paper.attack import TABLE3_COUNTS, TABLE3_NUMBERS, read_attacks, show_table3, table3
from graphdp.paper.panels import panel_grid, set_ticks, summary_of
from graphdp.paper.plots import (
    ACCURACY_CAPTION,
    Drawing,
    accuracy_figure,
    by_number,
    contrast,
    lines_by_epsilon,
)
from graphdp.paper.statistics import STATISTICS_NUMBERS, show_statistics, table1
from graphdp.paper.tables import Table, show_published

ENCODER_EXPERIMENT, HOPS_EXPERIMENT, DEGREE_EXPERIMENT = "encoder", "hops", "degree"
_WITH_ENCODER = "hp_with_encoder"


def figure7(rows: pd.DataFrame, context: Mapping) -> Figure:
    """With and without the encoder: accuracy against ε, edge level left, node level right."""
    if "hp_encoder_layers" in rows.columns:
        layers = pd.to_numeric(rows["hp_encoder_layers"])
        rows = rows.assign(**{_WITH_ENCODER: (layers > 0).astype(object).where(layers.notna())})
    names = ("with encoder", "without encoder")
    return contrast(rows, context, ENCODER_EXPERIMENT, "encoder_layers", _WITH_ENCODER, names)


def figure8(rows: pd.DataFrame, context: Mapping) -> Figure:
    """Accuracy against the number of hops, one line per ε; edge level left, node level right."""
    return by_number(rows, context, HOPS_EXPERIMENT, "hops", "hops K")


def figure9(rows: pd.DataFrame, context: Mapping) -> Figure:
    """Accuracy against the maximum degree at node level, one line per ε, one panel per dataset."""

    def panel(ax: Axes, summary: pd.DataFrame, level: str) -> None:
        ax.set_xscale("log")
        lines_by_epsilon(ax, summary, "hp_max_degree", level)
        ax.set_xlabel("maximum degree D")
        set_ticks(ax, sorted(summary["hp_max_degree"].unique()))

    with style.theme():
        summary = summary_of(rows, context, DEGREE_EXPERIMENT, "hp_max_degree")
        return panel_grid(summary, context, DEGREE_EXPERIMENT, ("node",), panel, "max_degree")


TABLES: dict[str, Table] = {
    "table1": Table("Table 1", table1, show_statistics, STATISTICS_NUMBERS),
    "table2": Table("Table 2", published_table, show_published, FLOATS, COUNTS),
    "table3": Table(
        "Table 3",
        table3,
        show_table3,
        TABLE3_NUMBERS,
        TABLE3_COUNTS,
        read=read_attacks,
        of_attacks=True,
    ),
}
FIGURES: dict[str, Drawing] = {
    "figure6": Drawing("Figure 6", accuracy_figure, ACCURACY_CAPTION),
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
    "figure9": Drawing(
        "Figure 9", figure9, "Effect of the maximum degree on accuracy at node level."
    ),
}
