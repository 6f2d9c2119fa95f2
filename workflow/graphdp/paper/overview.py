"""The picture of README.md: what is printed, what the authors' code gives, and what is left with an
ε that holds; a panel for each paper whose rows are shipped."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from graphdp.paper import style

#: Kind of accuracy -> what the legend calls it, and its look, in colours that are no method's.
KINDS = {
    "printed": ("printed", style.PRINTED),
    "claimed": (
        "by the authors' code or formula: claim refuted",
        {"marker": "o", "color": "#c2185b", "markerfacecolor": "white"},
    ),
    "holds": ("with an ε that holds", {"marker": "s", "color": "#556b2f"}),
    "alone": ("no edge read, with an ε that holds", {"marker": "_", "color": "#6b7280"}),
}


@dataclass(frozen=True)
class Panel:
    """A paper's part of the picture.

    places: the names of its columns. accuracies: place (a position among them), kind (a key of
    `KINDS`), mean, low and high (95 % interval, of what is printed the paper's own ±; NaN where
    there is none), in percent. label: all that must be said of ε.
    """

    title: str
    places: Sequence[str]
    accuracies: pd.DataFrame
    label: str


def draw(panels: Sequence[Panel]) -> Figure:
    """The panels, two in a row and as wide as they have columns."""
    with style.theme():
        rows = [panels[start : start + 2] for start in range(0, len(panels), 2)]
        figure = Figure(figsize=(11, 3.4 * len(rows) + 0.3), layout="constrained")
        parts = figure.subfigures(len(rows), 1, squeeze=False)[:, 0]
        for part, row in zip(parts, rows, strict=True):
            widths = [len(panel.places) for panel in row]
            line = part.subplots(1, len(row), squeeze=False, width_ratios=widths)[0]
            for ax, panel in zip(line, row, strict=True):
                _draw(ax, panel)
            line[0].set_ylabel("test accuracy, %")
        figure.legend(
            *line[0].get_legend_handles_labels(),
            loc="outside upper center",
            ncol=len(KINDS),
            frameon=False,
        )
        return figure


def _draw(ax: Axes, panel: Panel) -> None:
    for number, (kind, (name, look)) in enumerate(KINDS.items()):
        mine = panel.accuracies[panel.accuracies["kind"] == kind]
        bars = [mine["mean"] - mine["low"], mine["high"] - mine["mean"]]
        ax.errorbar(
            mine["place"] + 0.2 * (number - 1.5),
            mine["mean"],
            yerr=pd.concat(bars, axis=1).fillna(0).to_numpy(dtype=float).T,
            markersize=9 if kind == "alone" else 5.5,
            markeredgewidth=2.2 if kind == "alone" else 1.2,
            elinewidth=1.2,
            label=name,
            **{"linestyle": "none", **look},
        )
    for place in range(1, len(panel.places)):
        ax.axvline(place - 0.5, color="0.9", linewidth=0.8)
    ax.set_xticks(range(len(panel.places)), panel.places)
    ax.set_xlim(-0.5, len(panel.places) - 0.5)
    ax.grid(False, axis="x")
    ax.set_title(panel.title)
    ax.set_xlabel(panel.label)
