"""DPDGC's Figures 3a to 3d, and its Table 2 drawn: as implemented beside corrected, unsaved."""

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from graphdp.paper import style
from graphdp.paper.accuracy import (
    ACCURACY_EXPERIMENT,
    COUNTS,
    FLOATS,
    accuracy_table,
    published_table,
)
from graphdp.paper.cells import (
    CELL,
    expected_cells,
    experiment_rows,
    missing_reason,
    read_published,
    study_datasets,
)
from graphdp.paper.labels import as_implemented, method_label, method_name
from graphdp.paper.panels import BAR, draw_line, empty_panel, finish, set_ticks, share_y, wrap
from graphdp.paper.plots import Drawing
from graphdp.paper.printing import Printed
from graphdp.paper.remarks import claims, claims_title, missing_cells, reason_of, unavailable_in
from graphdp.paper.select import select_best, summarise
from graphdp.paper.statistics import STATISTICS_NUMBERS, show_statistics, table1
from graphdp.paper.tables import Table, show_published
from graphdp.privacy.protection import level_kind, level_order, neighbors


def table2(rows: pd.DataFrame, context: Mapping) -> Figure:
    """Table 2 drawn: accuracy at every level, one panel per dataset; side by side what the
    paper prints (open diamonds), DPDGC as implemented (hollow), corrected, and the baselines."""
    table = accuracy_table(rows, context)
    alone = _reads_no_edge(table)
    edge = set(table.loc[(table["level"] == "edge") & ~alone, "epsilon"])
    if len(edge) == 1:  # its accuracy is the same for any ε
        table = table.assign(epsilon=table["epsilon"].where(~alone, *edge))
    table = table[~_reads_no_edge(table)]
    places = list(
        dict.fromkeys(
            sorted(
                table[["level", "epsilon"]].itertuples(index=False, name=None),
                key=lambda place: (level_order(place[0]), float(place[1])),
            )
        )
    )
    official = as_implemented()
    methods = sorted(
        dict.fromkeys(table["method"]),
        key=lambda method: (
            method not in official,
            method not in official.values(),
        ),
    )
    with style.theme():
        datasets = list(dict.fromkeys(table["dataset"])) or study_datasets(context)
        figure, axes, titled = style.titled_panels(datasets)
        shown = table[table["mean"].notna()]
        noisy = shown[~alone[shown.index]]
        once = _claims_agree(noisy)
        for dataset, ax in zip(datasets, titled, strict=True):
            cells = table[table["dataset"] == dataset]
            if cells["mean"].isna().all():
                reasons = [*cells["missing_reason"], reason_of(dataset, context)]
                empty_panel(ax, reasons[0])
            else:
                _levels_panel(ax, cells, places, methods)
                mine = noisy[noisy["dataset"] == dataset]
                ax.set_xlabel(wrap(claims_title(mine, "level", details=not once), 52))
        missing = table[table["mean"].isna() & ~table["dataset"].isin(unavailable_in(context))]
        said = [*(claims(noisy) if once else []), *[_ALONE] * bool(alone.any())]
        finish(figure, axes, datasets, missing.to_dict("records"), noisy, said)
        return figure


def figure3a(rows: pd.DataFrame, context: Mapping) -> Figure:
    """Figure 3a: accuracy against ε at edge level, corrected and as implemented."""
    return _decoupled(rows, context, "edge-budget", lambda cell: float(cell["epsilon"]), "ε")


def figure3b(rows: pd.DataFrame, context: Mapping) -> Figure:
    """Figure 3b: accuracy against ε at node and k-neighbour level."""
    return _decoupled(rows, context, "node-budget", lambda cell: float(cell["epsilon"]), "ε")


def figure3c(rows: pd.DataFrame, context: Mapping) -> Figure:
    """Figure 3c: accuracy against k. Methods without a k-neighbour level of their own (they
    are there what they are at node level) are horizontal lines."""
    return _decoupled(
        rows, context, "neighbors", lambda cell: neighbors(cell["level"]), "k", by_level=False
    )


def figure3d(rows: pd.DataFrame, context: Mapping) -> Figure:
    """Figure 3d: accuracy against φ on cSBM, one panel per size of the graphs, with what can be
    read off the authors' picture."""

    def phi(cell: Mapping) -> float:
        return float(_PHI.match(cell["dataset"])["phi"].replace("m", "-"))

    named = [name for name in study_datasets(context) if _PHI.match(name)]
    panels = {name: _PHI.match(name)["size"] for name in named}
    published = read_published(context.get("published"))
    read_off = published[published["metric"] == "read_off_accuracy"]
    return _decoupled(rows, context, "csbm", phi, "φ", panels=panels, read_off=read_off)


#: Names of cSBM variants, e.g. "csbm-paper-phi-m0.5" (φ = -0.5).
_PHI = re.compile(r"(?P<size>.+)-phi-(?P<phi>m?[0-9.]+)$")


def _decoupled(
    rows: pd.DataFrame,
    context: Mapping,
    experiment: str,
    position: Callable[[Mapping], float | None],
    label: str,
    *,
    by_level: bool = True,
    panels: Mapping[str, str] | None = None,
    read_off: pd.DataFrame | None = None,
) -> Figure:
    """Accuracy against `position(cell)`: DPDGC as corrected beside DPDGC as implemented (hollow),
    and its baselines, each method in its colour; a panel per level, or (`by_level` false) one for
    all levels.

    A cell without a position is a horizontal line. panels: dataset -> its panel; default: one each.
    read_off: points of the paper's figure, as `read_published` has them.
    """
    expected = [c for c in expected_cells(context, experiment) if c[2] != "edge" or c[3] != "0"]
    panels = panels or {cell[0]: cell[0] for cell in expected}
    panels = panels or {name: name for name in study_datasets(context)}
    mine = experiment_rows(rows, context, experiment)
    best, _ = select_best(mine[~_reads_no_edge(mine)])
    summary, alone = summarise(best), _without_edges(rows, context, experiment)
    with style.theme():
        names = list(dict.fromkeys(panels.values()))
        levels = sorted({cell[2] for cell in expected}, key=level_order)
        apart = by_level and len(levels) > 1
        places = [(name, level) for level in (levels if apart else [None]) for name in names]
        titles = [f"{name}, {_level_title(level)}" if level else name for name, level in places]
        figure, axes, titled = style.titled_panels(titles)
        mine = summary[summary["dataset"].isin(list(panels))]
        once = _claims_agree(mine)
        for (name, level), ax in zip(places, titled, strict=True):
            datasets = [dataset for dataset, panel in panels.items() if panel == name]
            shown = _of_level(summary[summary["dataset"].isin(datasets)], level)
            if shown.empty:
                asked = [
                    cell for cell in expected if cell[0] in datasets and level in (None, cell[2])
                ]
                reason = reason_of(datasets[0], context)
                empty_panel(ax, missing_reason(asked[0], context) if asked else reason)
            else:
                _decoupled_panel(ax, shown, position, label, by_level, apart)
                if set(shown["level"]) == {"edge"}:
                    _draw_alone(ax, alone[alone["dataset"].isin(datasets)], position, label)
                if read_off is not None:
                    _draw_read_off(ax, read_off.merge(shown[[*CELL]]), position)
                room = 46 if len(titled) > 1 else 80
                x = pd.Series(map(position, shown.to_dict("records")), shown.index, dtype=float)
                known = None if label == "ε" or x.isna().any() else x
                title = claims_title(shown, label, details=not once, places=known)
                ax.set_xlabel(wrap(title, room))
        if apart:  # the levels of a graph beside each other
            for name in names:
                share_y([ax for place, ax in zip(places, titled, strict=True) if place[0] == name])
        missing = missing_cells(expected, summary, context, panels)
        said = claims(mine) if once else []
        if not alone.empty and "edge" in levels:
            said.append(_ALONE)
        finish(figure, axes, names, missing, summary, said)
        return figure


_ALONE = "MLP at edge level: ε = 0"


def _reads_no_edge(cells: pd.DataFrame) -> pd.Series:
    """Which cells are of what reads no edge, at edge level, where its ε is 0."""
    return (cells["level"] == "edge") & (cells["epsilon"] == "0")


def _without_edges(rows: pd.DataFrame, context: Mapping, experiment: str) -> pd.DataFrame:
    """The accuracies of what reads no edge, by the experiment's models or else by Table 2's."""
    for name in (experiment, ACCURACY_EXPERIMENT):
        found = experiment_rows(rows, context, name)
        found = found[_reads_no_edge(found)]
        if not found.empty:
            break
    return summarise(select_best(found)[0])


def _draw_alone(
    ax: Axes, cells: pd.DataFrame, position: Callable[[Mapping], float | None], label: str
) -> None:
    """What reads no edge: horizontal where ε is the axis, which it does not depend on."""
    for method, line in cells.groupby("method", sort=False):
        look, name = style.method_look(method), method_name(method)
        if label == "ε":
            ax.axhline(line["mean"].iloc[0], color=look["color"], linestyle=":", label=name)
            continue
        line = line.assign(x=[position(cell) for cell in line.to_dict("records")]).sort_values("x")
        draw_line(ax, line["x"], line, label=name, **look)


def _level_title(level: str) -> str:
    return (
        "no privacy"
        if level == "none"
        else f"{_level_tick(level)}{'' if 'k' in level else ' level'}"
    )


def _of_level(cells: pd.DataFrame, level: str | None) -> pd.DataFrame:
    """The cells of a panel: those of its level, and at a k-neighbour level what the methods that
    have none are at node level."""
    if level is None:
        return cells
    own = cells["level"] == level
    if level_kind(level) == "k":
        with_k = set(cells.loc[cells["level"].map(level_kind) == "k", "method"])
        own |= (cells["level"] == "node") & ~cells["method"].isin(with_k)
    return cells[own]


def _decoupled_panel(
    ax: Axes,
    cells: pd.DataFrame,
    position: Callable[[Mapping], float | None],
    label: str,
    by_level: bool,
    apart: bool,
) -> None:
    cells = cells.assign(x=[position(cell) for cell in cells.to_dict("records")])
    kinds = cells["level"].map(level_kind)
    ordered = list(dict.fromkeys(cells["method"]))
    for (method, kind), line in sorted(
        cells.groupby(["method", kinds], sort=False),
        key=lambda named: (ordered.index(named[0][0]), level_order(named[1]["level"].iloc[0])),
    ):
        look = style.method_look(method)
        name = method_name(method) if apart else method_label(method, line["level"].iloc[0])
        if not by_level and kind == "k":
            name = re.sub(r"-N\d+", "-Nk", name)
        if line["x"].isna().all():
            ax.axhline(line["mean"].iloc[0], color=look["color"], linestyle=":", label=name)
            continue
        line = line.sort_values("x")
        draw_line(ax, line["x"], line, label=name, **look)
    if label == "ε":
        ax.set_xscale("log")
    set_ticks(ax, sorted(set(cells["x"].dropna().astype(float))))


def _draw_read_off(
    ax: Axes, printed: pd.DataFrame, position: Callable[[Mapping], float | None]
) -> None:
    """Diamonds in their methods' colours, with what they may be misread by."""
    for (method, _), points in printed.groupby(["method", "level"], sort=False):
        ax.errorbar(
            [position(cell) for cell in points.to_dict("records")],
            points["mean"],
            yerr=points["ci"],
            markersize=7,
            label=f"{method_name(as_implemented().get(method, method))}, authors' picture (± 2)",
            **style.printed_look(method),
        )


def _claims_agree(shown: pd.DataFrame) -> bool:
    """Whether all panels say the same of the ε of a method's level, but for δ."""
    by_place = shown[shown["level"] != "none"].groupby(["method", "level"])
    claims_made = by_place[["epsilon_basis", "epsilon_status", "adjacency"]].nunique()
    return bool(claims_made.le(1).all(axis=None))


def _levels_panel(
    ax: Axes, cells: pd.DataFrame, places: Sequence[tuple[str, str]], methods: Sequence[str]
) -> None:
    """A dataset's accuracies, one place per (level, ε) and beside each other the methods. All bars
    are 95 % intervals, the paper's as well."""
    step = 0.8 / (len(methods) + 1)
    at = {place: x for x, place in enumerate(places)}
    cells = cells.assign(
        x=[at[place] for place in zip(cells["level"], cells["epsilon"], strict=True)]
    )
    for number, method in enumerate(methods):
        mine = cells[cells["method"] == method]
        name = method_name(method)
        if method in as_implemented():
            printed = mine[mine["published_mean"].notna()]
            ax.errorbar(
                printed["x"] - 0.4 + step / 2,
                printed["published_mean"],
                yerr=printed["published_ci"],
                label=f"{method_name(as_implemented()[method])} (paper)",
                **style.PRINTED,
            )
        found = mine[mine["mean"].notna()]
        if found.empty:
            continue
        bars = [found["mean"] - found["ci_low"], found["ci_high"] - found["mean"]]
        drawn = ax.errorbar(
            found["x"] - 0.4 + (number + 1.5) * step,
            found["mean"],
            yerr=np.nan_to_num(np.array(bars, dtype=float)),
            label=name,
            **style.method_look(method) | {"linestyle": "none"},
        )
        for interval in drawn.lines[2]:
            interval.set_label(BAR)
    for x in range(len(places) - 1):
        ax.axvline(x + 0.5, color="0.85", linewidth=0.8)
    names = [
        "none" if level == "none" else f"{_level_tick(level)}\nε = {epsilon}"
        for level, epsilon in places
    ]
    ax.set_xticks(range(len(places)), names)
    ax.set_xlim(-0.5, len(places) - 0.5)
    ax.grid(False, axis="x")


def _level_tick(level: str) -> str:
    return f"k = {neighbors(level)}" if level_kind(level) == "k" else level


def show_table2(table: pd.DataFrame) -> Printed:
    """DPDGC's Table 2, as `show_published`."""
    printed = show_published(table)
    note = (
        "At k-neighbour level GAP, MLP-DP and SAGE are what they are at node level (the paper "
        "prints GAP's and MLP-DP's numbers there again); MLP is also its DP-MLP at edge level."
    )
    return Printed(printed.caption, printed.cells, (note, *printed.notes))


TABLES: dict[str, Table] = {
    "dpdgc_table1": Table("DPDGC Table 1", table1, show_statistics, STATISTICS_NUMBERS),
    "dpdgc_table2": Table("DPDGC Table 2", published_table, show_table2, FLOATS, COUNTS),
}
FIGURES: dict[str, Drawing] = {
    "dpdgc_table2": Drawing(
        "DPDGC Table 2, drawn",
        table2,
        "Accuracy at every level: DPDGC as its authors' code runs it (whose ε is a claim) beside "
        "what the paper prints, as corrected (with an ε that holds under its assumptions), and the "
        "baselines. The MLP reads no edge: at edge level, where it stands beside the others, its "
        "ε is 0.",
    ),
    "dpdgc_figure3a": Drawing(
        "DPDGC Figure 3a",
        figure3a,
        "Accuracy against ε at edge level: DPDGC as corrected, with an ε that holds, "
        "and as its authors' code runs it, whose ε is a claim (hollow). Dotted: the MLP, which "
        "reads no edge.",
    ),
    "dpdgc_figure3b": Drawing(
        "DPDGC Figure 3b",
        figure3b,
        "Accuracy against ε at node and k-neighbour level: DPDGC as corrected, with an ε that "
        "holds under its assumptions, and as its authors' code runs it, whose ε is a "
        "claim (hollow).",
    ),
    "dpdgc_figure3c": Drawing(
        "DPDGC Figure 3c",
        figure3c,
        "Accuracy against the number k of protected neighbours. Methods with one accuracy for any "
        "k are horizontal lines.",
    ),
    "dpdgc_figure3d": Drawing(
        "DPDGC Figure 3d",
        figure3d,
        "Accuracy against φ on contextual stochastic block models: -1 a heterophilic graph without "
        "features, 0 features alone, 1 a homophilic graph without features.",
    ),
}
