"""DPA-GNN's figures that are made from rows: accuracies against ε and settings, and heat maps.

The printed figures carry no numbers that can be read, so that only those of Table 3 stand beside.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from graphdp.methods.dpa.graph_panels import (
    COLUMNS,
    Drawn,
    absent_cells,
    by_graph,
    by_graph_and_side,
    deltas_of,
    empty,
    of_method,
    said_of,
    series,
    why_not,
)
from graphdp.methods.dpa.paper_tables import (
    EDGE,
    EDGE_ONCE,
    NO_GRAPH,
    NODE,
    NODE_ONCE,
    OFFICIAL,
    PLAIN,
    TABLE3,
    Line,
    implemented,
    printed_cells,
)
from graphdp.methods.registry import cards
from graphdp.paper import style
from graphdp.paper.cells import study_datasets
from graphdp.paper.labels import method_label
from graphdp.paper.panels import draw_line, empty_panel, finish, heat_map, set_ticks, widen
from graphdp.paper.remarks import claims_title, unavailable_in
from graphdp.paper.rows import HYPERPARAMETER_PREFIX
from graphdp.paper.select import select_best, summarise

#: Of the network without a graph, whichever method it is compared with.
_WITHOUT_LOOK = {"color": "#777777", "marker": "o"}

# --- Figures 3 to 7 -------------------------------------------------------------------------------

_FIVE = {"feature_share": 0.05}
figure3 = by_graph(
    (
        of_method(Line("", OFFICIAL, "none", ("edges_only",)), "its code, no noise at any ε_e"),
        of_method(Line("", "dpa", "edge", ("edges_only",)), "corrected, 2 and 2 rounds"),
    ),
    lacks=("RR", "Blink", "Solitude", "DPRR"),
)


def _by_edges(experiment: str, public: str) -> tuple[Drawn, ...]:
    """Figures 4 and 5: a line for each ε_e, against what is left of ε."""
    lines = []
    for edges in (4, 8):
        settings = {"dummy_rate": 1 - math.exp(-edges), "public": public}
        lines.append(
            (
                f"its code, claimed ε_e = {edges}",
                implemented(experiments=(experiment,), settings=settings),
                lambda cell, edges=edges: round(float(cell["epsilon"]) - edges, 6),
            )
        )
    return series(lines)


figure4 = by_graph(_by_edges("features_edges", "labels"), "ε_h", log=True, lacks=("Solitude",))
figure5 = by_graph(_by_edges("edges_labels", "features"), "ε_y", log=True, lacks=("RR",))
figure6 = by_graph(
    (of_method(implemented(experiments=("features_labels",), settings={"public": "edges"}),
                "its code"),),
    lacks=("LPGNN", "RGNN"),
)  # fmt: skip


def _other(method: str, experiment: str, adjacency: str = "") -> Drawn:
    line, name = Line("", method, experiments=(experiment,)), method_label(method, "node")
    name += f", for a {adjacency}" if adjacency else ""
    return replace(of_method(line, name), adjacency=adjacency)


figure7 = by_graph_and_side(
    {
        "by the papers' claims": (
            of_method(implemented(settings=_FIVE), method_label(OFFICIAL, "node")),
            *(
                _other(method, "central_published")
                for method in ("naiveofficial", "gap", "heterpoissonofficial", "dpdgcofficial")
                if method in cards()
            ),
        ),
        "with an ε that holds": (
            of_method(NODE, method_label("dpa", "node")),
            *(
                _other(method, experiment, adjacency)
                for method, experiment, adjacency in (
                    ("mlp", "central", ""), ("gap", "central_published", "participant"),
                    ("progap", "central", ""), ("heterpoisson", "central", ""),
                    ("dpdgc", "central_replaced", ""),
                )
                if method in cards()
            ),
        ),
    }
)  # fmt: skip


# --- Figures 8 to 10 ------------------------------------------------------------------------------


def _by_settings(
    rows: pd.DataFrame, context: Mapping, line: Line, names: Sequence[str]
) -> pd.DataFrame:
    """The results of a line for each value of hyperparameters, with a column for each."""
    by = [HYPERPARAMETER_PREFIX + name for name in names]
    found = line.rows(rows, context)
    if not set(by) <= set(found.columns):
        return pd.DataFrame(columns=[*COLUMNS, *by])
    summary = summarise(select_best(found, by)[0], by)
    return summary.assign(**{name: pd.to_numeric(summary[name]) for name in by})


def _asked(context: Mapping, experiment: str, dataset: str, name: str) -> list[float]:
    """The values of a hyperparameter that the study asks for on a graph."""
    specs = context.get("experiments", {}).get(experiment, [])
    mine = [spec for spec in specs if dataset in spec.get("datasets", [dataset])]
    return sorted({value for spec in mine for value in spec[name]})


def _untrained(
    shown: pd.DataFrame, context: Mapping, experiment: str, names: Sequence[str], colour: str = ""
) -> list[str]:
    """How many settings of the graphs that are shown have no result, for the remark. colour: in
    which they are drawn."""
    asked = 0
    for dataset in set(shown["dataset"]):
        for spec in context.get("experiments", {}).get(experiment, []):
            if dataset in spec.get("datasets", [dataset]):
                asked += len(spec["epsilon"]) * math.prod(len(spec[name]) for name in names)
    lacking = asked - len(shown)
    return [f"{lacking} of {asked} settings have no result{colour}"] if lacking > 0 else []


def figure8(rows: pd.DataFrame, context: Mapping) -> Figure:
    """Accuracy by l_h and l_y, at a claimed ε of 4 (left) and 8, a line of panels per graph."""
    line = implemented(experiments=("layers",))
    by = ("feature_layers", "label_layers")
    shown = _by_settings(rows, context, line, by)
    # A single setting, which other figures train as well, compares nothing.
    settings = shown.groupby("dataset")["hyperparameters" if len(shown) else "mean"].nunique()
    alone = list(settings.index[settings == 1])
    shown = shown[~shown["dataset"].isin(alone)]
    with style.theme():
        datasets = [name for name in study_datasets(context) if name in set(shown["dataset"])]
        figure, axes = style.panels(max(len(datasets), 1), 2)
        if not datasets:
            empty(axes, line, context)
        for dataset, row in zip(datasets, axes, strict=False):
            for epsilon, ax in zip(("4", "8"), row, strict=True):
                ax.set_title(f"{dataset}, claimed ε = {epsilon}")
                mine = shown[(shown["dataset"] == dataset) & (shown["epsilon"] == epsilon)]
                if mine.empty:
                    empty_panel(ax, why_not(dataset, line, context))
                else:
                    columns = (HYPERPARAMETER_PREFIX + name for name in by)
                    scale = shown.loc[shown["dataset"] == dataset, "mean"]
                    grid = tuple(_asked(context, "layers", dataset, name) for name in by)
                    heat_map(ax, mine, *columns, "l_y, rounds of labels", scale, grid)
        told = [claims_title(shown, "ε")] if len(shown) else []
        told += _untrained(shown, context, "layers", by, colour=" (grey)")
        absent = absent_cells(shown, [line], context)
        for cell in absent:
            if cell["dataset"] in alone:
                cell["missing_reason"] = "a single setting"
        finish(figure, axes, [""], absent, shown, told)
        for ax in (ax for row in axes for ax in row if ax.get_ylabel()):
            ax.set_ylabel("l_h, rounds of features")
        return figure


def against(
    experiment: str,
    name: str,
    label: str,
    even: bool = False,
    apart: str = "",
    beside: Callable[[Axes], None] | None = None,
) -> Callable[[pd.DataFrame, Mapping], Figure]:
    """Figures 9 and 10: accuracy against a hyperparameter, a line per ε, a panel per graph.

    even: whether its values stand at equal distances. apart: what the last one of these is, to
    which no line leads. beside: draws what else a panel shows.
    """
    line, column = implemented(experiments=(experiment,)), HYPERPARAMETER_PREFIX + name

    def draw(rows: pd.DataFrame, context: Mapping) -> Figure:
        shown = _by_settings(rows, context, line, (name,))
        tokens = sorted(set(shown["epsilon"]), key=float)
        with style.theme():
            datasets = [one for one in study_datasets(context) if one in set(shown["dataset"])]
            figure, axes, titled = style.titled_panels(datasets)
            if not datasets:
                empty(axes, line, context)
            colours = style.series_colours(len(tokens))
            for dataset, ax in zip(datasets, titled, strict=False):
                mine = shown[shown["dataset"] == dataset]
                values = sorted({*mine[column], *_asked(context, experiment, dataset, name)})
                for token, colour, marker in zip(
                    tokens, colours, style.SERIES_MARKERS, strict=False
                ):
                    own = mine[mine["epsilon"] == token].sort_values(column)
                    look = {"color": colour, "marker": marker, **style.AS_IMPLEMENTED}
                    x = own[column].map(values.index) if even else own[column]
                    alone = (own[column] == values[-1]) & bool(apart)
                    for part in (own[~alone], own[alone]):
                        draw_line(ax, x[part.index], part, label=f"claimed ε = {token}", **look)
                if even:
                    names = [f"{value:g}" for value in values]
                    names[-1] += f"\n{apart}" if apart else ""
                    ax.set_xticks(range(len(values)), names)
                    ax.set_xlim(-0.3, len(values) - 0.7)
                else:
                    set_ticks(ax, values)
                ax.set_xlabel(f"{label} ({deltas_of(mine)})")
                widen(ax)
                if beside:
                    beside(ax)
            told = [*said_of(shown), *_untrained(shown, context, experiment, (name,))]
            finish(figure, axes, [""], absent_cells(shown, [line], context), shown, told)
            return figure

    return draw


def dummies(ax: Axes) -> None:
    """How many dummies a node gets at each r, as bars: 1 / r, as the code draws them (equation 27
    would give (1 - r) / r)."""
    other, rates, name = ax.twinx(), ax.get_xticks(), "dummies of a node"
    other.bar(rates, [1 / rate for rate in rates], width=0.06, color="0.87", zorder=0, label=name)
    other.set_ylabel(name)
    other.grid(False)
    ax.set_zorder(other.get_zorder() + 1)
    ax.patch.set_visible(False)


figure9 = against(
    "clipping", "max_degree", "D, of c = 20, 40, 60, 80 and 100 %", even=True, apart="no cut"
)
figure10 = against("dummies", "dummy_rate", "r", beside=dummies)


# --- beyond the paper -----------------------------------------------------------------------------

_NO_GRAPH = Drawn(NO_GRAPH, "no graph, no noise", _WITHOUT_LOOK)
_ROUND = {"linestyle": "-.", "marker": "^"}  # hollow is what has no ε that holds
#: Which lines of Table 3 the figure of a graph has, and what their bars are.
_OF_PRINT = "its code, paper: ε_h = 5 % of ε; paper's bars: standard deviation"


def of_graph(dataset: str) -> Callable[[pd.DataFrame, Mapping], Figure]:
    """The figure of one graph: at node level as implemented, the print, corrected with the paper's
    rounds and with one of each stream; at edge level corrected; and the network without a graph,
    which at edge level has ε = 0."""
    sides = {
        "node level": (
            of_method(implemented(settings=_FIVE), "its code"),
            of_method(NODE, "corrected"),
            of_method(NODE_ONCE, "corrected, 1 and 1 rounds", **_ROUND),
            of_method(PLAIN, "its code, no noise"),
            _NO_GRAPH,
        ),
        "edge level": (
            of_method(EDGE, "corrected"),
            of_method(EDGE_ONCE, "corrected, 1 and 1 rounds", **_ROUND),
            _NO_GRAPH,
        ),
    }
    whole = by_graph_and_side(sides, beside=_draw_print, said=[_OF_PRINT])

    def draw(rows: pd.DataFrame, context: Mapping) -> Figure:
        others = {name: why for name, why in unavailable_in(context).items() if name == dataset}
        mine = {**context, "datasets": [dataset], "unavailable": others}
        if dataset not in study_datasets(context):
            mine["experiments"] = {}  # nothing is asked of it
        figure = whole(rows[rows["dataset"] == dataset], mine)
        for ax in figure.axes:
            if not ax.get_title():  # an empty panel
                with style.theme():
                    ax.set_title(dataset)
        return figure

    return draw


def _draw_print(ax: Axes, dataset: str, side: str, context: Mapping) -> None:
    """Table 3's accuracies with their deviations, in the panel of node level."""
    line = next(one for one in TABLE3 if one.method == OFFICIAL)
    found = printed_cells(context, "Table 3", line)
    mine = [(cell[3], one) for cell, one in found.items() if cell[0] == dataset]
    if mine and side == "node level":
        ax.errorbar(
            [float(epsilon) for epsilon, _ in mine],
            [one["published_mean"] for _, one in mine],
            yerr=[one["published_ci"] for _, one in mine],
            label="paper",
            markersize=6,
            **style.PRINTED,
        )
