"""DPA-GNN's figures that no trained model is in: degrees as parties see them, and costs."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from graphdp.methods.dpa import numbers
from graphdp.paper import style
from graphdp.paper.panels import set_ticks

_BARS = ("#88ccee", "#ddcc77", "#999999")
#: Links, in the order of a round, and their looks.
_LINKS = {
    "users to shuffler": ("#332288", "o"),
    "shuffler to parties": ("#117733", "s"),
    "parties to server": ("#882255", "^"),
}
_AXES = {
    "parties": "m, parties (t = 2, n = 1,000)",
    "shares": "t, shares (m = 6, n = 1,000)",
    "users": "n, users (m = 3, t = 2)",
}


def figure11(rows: pd.DataFrame, context: Mapping) -> Figure:
    """Ten nodes of each graph: pairs of their key, with dummies, and what three parties see."""
    lines = numbers.shipped("degrees")
    with style.theme():
        names = list(numbers.RATES)
        figure, _, titled = style.titled_panels(names)
        for name, ax in zip(names, titled, strict=True):
            for party, colour in enumerate(_BARS, 1):
                seen = lines[lines["series"] == f"{name}, party {party}"]
                ax.bar(seen["x"] + 0.25 * (party - 2), seen["y"], 0.25, color=colour,
                       label=f"party {party}")  # fmt: skip
            for what, colour, marker in (
                ("pairs", "#0173b2", "o"), ("with dummies", "#d55e00", "s"),
            ):  # fmt: skip
                mine = lines[lines["series"] == f"{name}, {what}"]
                label = "pairs of its key" if what == "pairs" else what
                ax.plot(mine["x"], mine["y"], color=colour, marker=marker, label=label)
            ax.set_xticks(range(1, numbers.NODES + 1))
            ax.set_xlabel("node")
            ax.set_ylabel("pairs")
            ax.yaxis.get_major_locator().set_params(integer=True)
            ax.grid(False, axis="x")
        _legend(figure, titled[0], 5)
        return figure


def cost(rows: pd.DataFrame, context: Mapping) -> Figure:
    """Bytes by link (above) and seconds (below) of one model, against m, t and n."""
    with style.theme():
        figure, axes = style.panels(2, len(_AXES))
        for (name, label), above, below in zip(_AXES.items(), *axes, strict=True):
            sizes = numbers.VARIED[name]
            x = [getattr(size, name) for size in sizes]
            formulas, found = map(numbers.formula, sizes), map(numbers.cost_of, sizes)
            ours, counted = pd.DataFrame(formulas), pd.DataFrame(found)
            for link, (colour, marker) in _LINKS.items():
                above.plot(x, ours[link] / 1e6, color=colour, label=f"{link}, formula")
                above.plot(x, counted[link] / 1e6, color=colour, ls="none", marker=marker,
                           markerfacecolor="none", markersize=7, label="counted")  # fmt: skip
            for what, colour, marker in (("cpu", "#333333", "o"), ("wall", "#949494", "s")):
                title = "CPU, all processes" if what == "cpu" else "wall"
                below.plot(x, counted[what], color=colour, marker=marker, label=title)
            for ax in (above, below):
                set_ticks(ax, x)
                ax.set_xlabel(label)
                ax.set_ylim(bottom=0)
        axes[0][0].set_ylabel("MB of one model")
        axes[1][0].set_ylabel("seconds of one model")
        axes[1][0].legend(frameon=False, loc="lower right")
        _legend(figure, axes[0][0], 3)
        (rounds, columns), (label_rounds, classes) = sizes[0].streams.values()
        told = (
            f"{rounds + label_rounds} rounds in every model: {rounds} of {columns} columns, "
            f"{label_rounds} of {classes}; 5 pairs a user, no dummies"
        )
        style.footnote(figure, [told])
        return figure


def _legend(figure: Figure, ax: Axes, columns: int) -> None:
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncol=columns, frameon=False)
