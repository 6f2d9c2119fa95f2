"""Panels of DPA-GNN's figures: lines of accuracies, a panel or a pair of panels for each graph."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from graphdp.methods.dpa.paper_tables import Line
from graphdp.paper import style
from graphdp.paper.cells import NO_METHOD, missing_reason, study_datasets
from graphdp.paper.labels import delta_text, held_under
from graphdp.paper.panels import (
    draw_line,
    empty_panel,
    finish,
    say_empty,
    set_ticks,
    share_y,
    widen,
)
from graphdp.paper.remarks import claims, claims_title, reason_of, unavailable_in

Where = Callable[[Mapping], float]
#: Draws what else a panel shows: (its axes, the graph, the side, the study's context).
Beside = Callable[[Axes, str, str, Mapping], None]


def _epsilon(cell: Mapping) -> float:
    return float(cell["epsilon"])


@dataclass(frozen=True, eq=False)
class Drawn:
    """A line of a figure: what it is made of, how it looks, and where a cell stands in it.

    name: in the legend. level: lines without privacy are horizontal. adjacency: under which its ε
    is read instead of its claim's; cells whose ε is larger there are left out.
    """

    line: Line
    name: str
    look: Mapping[str, Any]
    x: Where = _epsilon
    adjacency: str = ""

    def cells(self, rows: pd.DataFrame, context: Mapping) -> pd.DataFrame:
        """Its results with their column `x`."""
        found = list(self.line.results(rows, context).values())
        if self.adjacency:
            found = [read for one in found for read in _read_under(one, self.adjacency)]
        return pd.DataFrame([one | {"x": self.x(one)} for one in found], columns=COLUMNS)


COLUMNS = [
    "dataset", "method", "level", "epsilon", "x", "mean", "ci_low", "ci_high", "n", "delta",
    "noise", "epsilon_basis", "adjacency", "epsilon_status", "epsilons",
]  # fmt: skip


def _read_under(cell: Mapping, adjacency: str) -> list[dict]:
    """The cell with what is said of its ε there, if that holds."""
    held = held_under(cell, adjacency)
    if held is None:
        return []
    said = {"epsilon_basis": held["basis"], "epsilon_status": held["status"]}
    return [{**cell, **said, "adjacency": adjacency}]


def of_method(line: Line, name: str = "", **look: Any) -> Drawn:
    """A line with its method's look."""
    return Drawn(line, name or line.title, style.method_look(line.method) | look)


def series(lines: Sequence[tuple[str, Line, Where]]) -> tuple[Drawn, ...]:
    """Lines of one method as its authors' code runs it, told apart by ordered colours."""
    colours = style.series_colours(len(lines))
    return tuple(
        Drawn(line, name, {"color": colour, "marker": marker, **style.AS_IMPLEMENTED}, x)
        for (name, line, x), colour, marker in zip(
            lines, colours, style.SERIES_MARKERS, strict=False
        )
    )


# --- one panel per graph --------------------------------------------------------------------------


def by_graph(
    lines: Sequence[Drawn], label: str = "ε", log: bool = False, lacks: Sequence[str] = ()
) -> Callable[[pd.DataFrame, Mapping], Figure]:
    """Accuracy against x, a panel per graph that has results; the others are named below.

    lacks: methods of the printed figure that are not here, which are named below as well.
    """
    return by_graph_and_side({"": lines}, label, log, lacks=lacks)


def by_graph_and_side(
    sides: Mapping[str, Sequence[Drawn]],
    label: str = "ε",
    log: bool = False,
    beside: Beside | None = None,
    lacks: Sequence[str] = (),
    said: Sequence[str] = (),
) -> Callable[[pd.DataFrame, Mapping], Figure]:
    """As `by_graph`, with a panel for each side of a graph, side by side.

    label: "ε", or the part of the claimed ε that x is. said: what else is said below all panels.
    """
    not_here = [f"not shown: {', '.join(lacks)} ({NO_METHOD})"] if lacks else []

    def draw(rows: pd.DataFrame, context: Mapping) -> Figure:
        cells = {one: one.cells(rows, context) for lines in sides.values() for one in lines}
        shown = _together(cells.values())
        with style.theme():
            datasets = [name for name in study_datasets(context) if name in set(shown["dataset"])]
            titles = [f"{name}, {side}" if side else name for name in datasets for side in sides]
            figure, axes, titled = style.titled_panels(titles)
            first = next(iter(sides.values()))[0].line
            if not datasets:
                empty(axes, first, context)
            places = [(name, side) for name in datasets for side in sides]
            for (dataset, side), ax in zip(places, titled, strict=True):
                mine = {one: cells[one][cells[one]["dataset"] == dataset] for one in sides[side]}
                _panel(ax, mine, label, log, dataset, context)
                if beside and ax.get_xlabel():
                    beside(ax, dataset, side, context)
            if len(sides) > 1:
                for place in range(0, len(titled), len(sides)):
                    share_y(titled[place : place + len(sides)])
            absent = absent_cells(shown, [one.line for one in cells], context)
            finish(figure, axes, [""], absent, shown, [*said_of(shown), *said, *not_here])
            return figure

    return draw


def _panel(
    ax: Axes,
    cells: Mapping[Drawn, pd.DataFrame],
    label: str,
    log: bool,
    dataset: str,
    context: Mapping,
) -> None:
    drawn = _together(cells.values())
    placed = drawn[drawn["level"] != "none"]
    lines = sorted((one.line for one in cells), key=lambda line: line.level == "none")
    if drawn.empty:
        empty_panel(ax, why_not(dataset, lines[0], context))
        return
    for one, mine in cells.items():
        if one.line.level == "none" and len(mine):
            colour = one.look["color"]
            ax.axhline(mine["mean"].iloc[0], label=one.name, linestyle=":", color=colour)
        elif len(mine):
            mine = mine.sort_values("x")
            refuted = set(mine["epsilon_status"]) == {"refuted"}
            look = {**one.look, **(style.AS_IMPLEMENTED if refuted else {})}
            draw_line(ax, mine["x"], mine, label=one.name, **look)
    widen(ax)
    if log:
        ax.set_xscale("log")
    if placed.empty and lines[0].level != "none":  # it has no more than lines without privacy
        say_empty(ax, why_not(dataset, lines[0], context))
    if placed.empty:
        ax.set_xticks([])
        return
    set_ticks(ax, sorted(set(placed["x"])))
    title = claims_title(placed, label, details=False)
    ax.set_xlabel(title if label == "ε" else f"claimed {label} ({deltas_of(placed)})")


def deltas_of(cells: pd.DataFrame) -> str:
    """The δ of cells, for the title of an axis."""
    return f"δ = {', '.join(dict.fromkeys(map(delta_text, cells['delta'])))}"


def _together(parts: Any) -> pd.DataFrame:
    return pd.concat([pd.DataFrame(columns=COLUMNS), *parts], ignore_index=True)


def empty(axes: Sequence[Sequence[Axes]], line: Line, context: Mapping) -> None:
    """Panels of a figure for which no graph has a result."""
    names = sorted(study_datasets(context), key=lambda name: name in unavailable_in(context))
    for ax in (ax for row in axes for ax in row):
        ax.set_axis_on()
        empty_panel(ax, why_not(names[0], line, context) if names else "no dataset")


def absent_cells(shown: pd.DataFrame, lines: Sequence[Line], context: Mapping) -> list[dict]:
    """What a reader would look for and not find, for the remark below a figure."""
    found = set(shown[["dataset", "method", "level", "epsilon"]].itertuples(index=False, name=None))
    cells = [cell for line in lines for cell in line.cells(context)]
    asked = {cell[0] for cell in cells}
    cells += [
        (name, line.method, line.level, "")
        for name in study_datasets(context)
        for line in lines[:1]
        if name not in asked
    ]
    return [
        dict(zip(("dataset", "method", "level", "epsilon"), cell, strict=True))
        | {"missing_reason": missing_reason(cell, context)}
        for cell in dict.fromkeys(cells)
        if len(shown) and cell not in found
    ]


def said_of(shown: pd.DataFrame) -> Sequence[str]:
    return claims(shown) if len(shown) else []


def why_not(dataset: str, line: Line, context: Mapping) -> str:
    asked = [cell for cell in line.cells(context) if cell[0] == dataset]
    return missing_reason(asked[0], context) if asked else reason_of(dataset, context)
