"""PNPiGNNs' figures that are made from rows: accuracies of variants, and heat maps."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from graphdp.methods.heterpoisson.paper_tables import (
    AS_IMPLEMENTED,
    AS_PUBLISHED,
    CONVOLUTIONS,
    CORRECTED,
    OURS,
    WITHOUT,
    Line,
    best_cells,
)
from graphdp.paper import style
from graphdp.paper.cells import (
    expected_cells,
    experiment_rows,
    missing_reason,
    read_published,
    study_datasets,
)
from graphdp.paper.panels import (
    claims,
    claims_title,
    draw_line,
    empty_panel,
    finish,
    reason_of,
    set_ticks,
    share_y,
    wrap,
)
from graphdp.paper.select import select_best, summarise

#: Whose print stands beside graphs that the paper has with other features.
STANDS_BESIDE = {"facebook-pages": "facebook-pages-128", "twitch-de": "twitch-de-128"}
#: Of the network without neighbours, which is the same method.
_WITHOUT_LOOK = "#333333", "o"
#: The convolution of Figures 5, 6 and 10, which the paper does not name.
SHOWN_CONVOLUTION = "sage"


def accuracy_of(dataset: str) -> Callable[[pd.DataFrame, Mapping], Figure]:
    """The figure of one graph: accuracy against ε, a panel per convolution, all variants."""

    def draw(rows: pd.DataFrame, context: Mapping) -> Figure:
        found = {line.title: _cells(rows, context, line, dataset) for line in OURS}
        everything = pd.concat(found.values(), ignore_index=True)
        with style.theme():
            figure, axes = style.panels(1, len(CONVOLUTIONS))
            for convolution, ax in zip(CONVOLUTIONS, axes[0], strict=True):
                ax.set_title(f"{dataset}, {convolution.upper()}")
                shown = everything[everything["convolution"] == convolution]
                if shown.empty:
                    empty_panel(ax, _why(dataset, CORRECTED, context))
                    continue
                for line in OURS:
                    mine = found[line.title]
                    _draw(ax, line, mine[mine["convolution"] == convolution])
                _draw_print(ax, dataset, convolution, context)
                _epsilons(ax, shown)
            share_y(axes[0])
            finish(figure, axes, [dataset], [], everything, _said(everything))
            return figure

    return draw


def figure5(rows: pd.DataFrame, context: Mapping) -> Figure:
    """SML noise, by the published analysis, against Gaussian noise, by one that holds."""
    lines = {"Gaussian, corrected analysis": CORRECTED, "SML, published analysis": AS_PUBLISHED}

    def cells(dataset: str) -> dict[str, pd.DataFrame]:
        found = {name: _cells(rows, context, line, dataset) for name, line in lines.items()}
        return {name: f[f["convolution"] == SHOWN_CONVOLUTION] for name, f in found.items()}

    looks = {name: style.method_style(line.method) for name, line in lines.items()}
    return _by_dataset(context, cells, looks, CORRECTED)


def overlap(setting: str) -> Callable[[pd.DataFrame, Mapping], Figure]:
    """Figures 6 and 10: a peripheral that is a centre is kept, or dropped. setting:
    "transductive" or "inductive"."""

    def draw(rows: pd.DataFrame, context: Mapping) -> Figure:
        mine = experiment_rows(rows, context, "overlap")
        if "hp_overlap" in mine:
            mine = mine[mine["hp_setting"] == setting]
            chosen, _ = select_best(mine, ["hp_overlap"])
            summary = summarise(chosen, ["hp_overlap"])
        else:
            summary = _nothing().assign(hp_overlap="")

        def cells(dataset: str) -> dict[str, pd.DataFrame]:
            own = summary[summary["dataset"] == dataset]
            return {
                name: own[own["hp_overlap"] == rule]
                for name, rule in (("not enforced (kept)", "kept"), ("enforced (dropped)", "dropped"))
            }

        colour, marker = style.method_style("heterpoisson")
        looks = {"not enforced (kept)": (colour, marker), "enforced (dropped)": ("#7a3b69", "v")}
        return _by_dataset(context, cells, looks, Line("", "heterpoisson", "overlap"))

    return draw


def heat_maps(experiment: str) -> Callable[[pd.DataFrame, Mapping], Figure]:
    """Figures 7 and 9: accuracy by M and N_test, at ε = 2 (left) and without privacy (right)."""

    def draw(rows: pd.DataFrame, context: Mapping) -> Figure:
        by = ["hp_num_neighbors", "hp_test_neighbors"]
        mine = experiment_rows(rows, context, experiment)
        summary = _nothing()
        if set(by) <= set(mine.columns):
            summary = summarise(select_best(mine, by)[0], by)
        asked = expected_cells(context, experiment)
        places = list(dict.fromkeys(cell[3] for cell in asked)) or ["2", "inf"]
        with style.theme():
            datasets = study_datasets(context)
            figure, axes = style.panels(max(len(datasets), 1), len(places))
            for dataset, line in zip(datasets, axes, strict=False):
                for epsilon, ax in zip(places, line, strict=True):
                    shown = summary[
                        (summary["dataset"] == dataset) & (summary["epsilon"] == epsilon)
                    ]
                    ax.set_title(f"{dataset}, {'no privacy' if epsilon == 'inf' else f'ε = {epsilon}'}")
                    if shown.empty:
                        empty_panel(ax, _why(dataset, Line("", "heterpoisson", experiment), context))
                    else:
                        _heat(ax, shown, *by)
            private = summary[summary["epsilon"] != "inf"]
            told = [claims_title(private, "ε"), *claims(private)[:0]] if len(private) else []
            finish(figure, axes, datasets, [], summary, told)
            for line in axes:
                for ax in line:
                    if ax.get_ylabel():
                        ax.set_ylabel("M in training")
            return figure

    return draw


def _heat(ax: Axes, shown: pd.DataFrame, row: str, column: str) -> None:
    table = shown.assign(**{name: pd.to_numeric(shown[name]) for name in (row, column)})
    table = table.pivot(index=row, columns=column, values="mean").sort_index(ascending=False)
    values = table.to_numpy(dtype=float)
    low, high = np.nanmin(values), np.nanmax(values)
    ax.imshow(values, cmap="viridis", aspect="auto", vmin=low, vmax=max(high, low + 0.1))
    for (y, x), value in np.ndenumerate(values):
        if np.isfinite(value):
            dark = value < (low + high) / 2 + 0.1 * (high - low)
            ax.text(x, y, f"{value:.1f}", ha="center", va="center", color="w" if dark else "k")
    ax.set_xticks(range(len(table.columns)), [f"{value:g}" for value in table.columns])
    ax.set_yticks(range(len(table.index)), [f"{value:g}" for value in table.index])
    ax.set_xlabel("neighbours read in testing, N_test")
    ax.grid(False)


def _by_dataset(
    context: Mapping,
    cells: Callable[[str], dict[str, pd.DataFrame]],
    looks: Mapping[str, tuple[str, str]],
    line: Line,
) -> Figure:
    """One panel per dataset, accuracy against ε. cells: dataset -> name of a line -> its cells."""
    with style.theme():
        datasets = study_datasets(context)
        figure, axes, titled = style.titled_panels(datasets)
        everything = []
        for dataset, ax in zip(datasets, titled, strict=True):
            found = cells(dataset)
            shown = pd.concat(found.values(), ignore_index=True)
            if shown.empty:
                empty_panel(ax, _why(dataset, line, context))
                continue
            for name, mine in found.items():
                colour, marker = looks[name]
                _plot(ax, mine, name, colour, marker)
            _epsilons(ax, shown)
            everything.append(shown)
        shown = pd.concat(everything, ignore_index=True) if everything else _nothing()
        finish(figure, axes, datasets, [], shown, _said(shown))
        return figure


def _cells(rows: pd.DataFrame, context: Mapping, line: Line, dataset: str) -> pd.DataFrame:
    """The results of a line on a dataset, with its column `convolution`."""
    found, _ = best_cells(rows[rows["dataset"] == dataset], context, line, line.experiment)
    if not found:
        return _nothing()
    return pd.DataFrame([one | {"convolution": key[1]} for key, one in found.items()])


def _nothing() -> pd.DataFrame:
    columns = [*summarise(pd.DataFrame(columns=["dataset", "method", "level", "epsilon"])).columns]
    return pd.DataFrame(columns=[*columns, "convolution"])


def _draw(ax: Axes, line: Line, cells: pd.DataFrame) -> None:
    colour, marker = _WITHOUT_LOOK if line is WITHOUT else style.method_style(line.method)
    claimed = {} if line in (CORRECTED, WITHOUT) else {"linestyle": "--", "markerfacecolor": "w"}
    _plot(ax, cells, line.title, colour, marker, **claimed)


def _plot(ax: Axes, cells: pd.DataFrame, name: str, colour: str, marker: str, **shape) -> None:
    if len(cells):
        cells = cells.assign(x=cells["epsilon"].astype(float)).sort_values("x")
        draw_line(ax, cells["x"], cells, label=name, color=colour, marker=marker, **shape)


def _draw_print(ax: Axes, dataset: str, convolution: str, context: Mapping) -> None:
    printed = read_published(context.get("published"))
    printed = printed[
        (printed["artefact"] == "Table 2")
        & (printed["dataset"] == STANDS_BESIDE.get(dataset, dataset))
        & (printed["method"] == AS_IMPLEMENTED.method)
        & (printed["setting"] == f"convolution={convolution}")
    ]
    if len(printed):
        ax.errorbar(
            printed["epsilon"].astype(float),
            printed["mean"],
            yerr=printed["ci"].fillna(0),
            color="#d55e00",
            marker="D",
            markersize=6,
            markerfacecolor="none",
            linestyle="none",
            label="paper" + (", other features (128)" if dataset in STANDS_BESIDE else ""),
        )


def _epsilons(ax: Axes, shown: pd.DataFrame) -> None:
    ax.set_xscale("log")
    set_ticks(ax, sorted(set(shown["epsilon"].astype(float))))
    ax.set_xlabel(wrap(claims_title(shown, "ε", details=False), 52))


def _said(shown: pd.DataFrame) -> Sequence[str]:
    return claims(shown) if len(shown) else []


def _why(dataset: str, line: Line, context: Mapping) -> str:
    """Why a dataset has no results of a line."""
    asked = [
        cell
        for cell in expected_cells(context, line.experiment)
        if cell[:2] == (dataset, line.method)
    ]
    return missing_reason(asked[0], context) if asked else reason_of(dataset, context)
