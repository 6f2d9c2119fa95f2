"""GAP's own tables and figures: Tables 1 to 3, and Figures 6 to 9."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from graphdp.paper.accuracy import COUNTS, FLOATS, published_table
from graphdp.paper.attack import TABLE3_COUNTS, TABLE3_NUMBERS, read_attacks, show_table3, table3
from graphdp.paper.plots import (
    ACCURACY_CAPTION,
    Drawing,
    accuracy_figure,
    by_number,
    contrast,
)
from graphdp.paper.statistics import STATISTICS_NUMBERS, show_statistics, table1
from graphdp.paper.tables import Table, show_published

ENCODER_EXPERIMENT, HOPS_EXPERIMENT, DEGREE_EXPERIMENT = "encoder", "hops", "degree"


def figure7(rows: pd.DataFrame, context: Mapping) -> Figure:
    """With and without the encoder: accuracy against ε, edge level left, node level right."""
    names = ("with encoder", "without encoder")
    return contrast(
        rows, context, ENCODER_EXPERIMENT, "encoder_layers", lambda layers: layers > 0, names
    )


def figure8(rows: pd.DataFrame, context: Mapping) -> Figure:
    """Accuracy against the number of hops, one line per ε; edge level left, node level right."""
    return by_number(rows, context, HOPS_EXPERIMENT, "hops", "hops K")


def figure9(rows: pd.DataFrame, context: Mapping) -> Figure:
    """Accuracy against the maximum degree at node level, one line per ε, one panel per dataset."""
    label = "maximum degree D"
    return by_number(rows, context, DEGREE_EXPERIMENT, "max_degree", label, ("node",), log=True)


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
