"""PNPiGNNs' figures that are made from rows: accuracies of variants, and heat maps."""

from collections.abc import Callable, Mapping, Sequence

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
    missing_reason,
    read_published,
    study_datasets,
)
from graphdp.paper.panels import draw_line, empty_panel, finish, heat_map, set_ticks, share_y, wrap
from graphdp.paper.remarks import claims, claims_title, reason_of, unavailable_in
from graphdp.paper.select import select_best, summarise

#: Whose print stands beside graphs that the paper has with other features.
STANDS_BESIDE = {"facebook-pages": "facebook-pages-128", "twitch-de": "twitch-de-128"}
#: Of the network without neighbours, which is the same method.
_WITHOUT_LOOK = {"color": "#333333", "marker": "o"}
_CHOICE = "its code: the M that is best on test nodes"
#: The convolution of Figures 5, 6 and 10, which the paper does not name.
SHOWN_CONVOLUTION = "sage"


def accuracy_of(*datasets: str) -> Callable[[pd.DataFrame, Mapping], Figure]:
    """Accuracy against ε, a line of panels per dataset, a panel per convolution, all variants.

    M of what the code runs is chosen on the test nodes, as the code does and as stands beside print
    in docs/heterpoisson.md; of the others on validation nodes.
    """

    def draw(rows: pd.DataFrame, context: Mapping) -> Figure:
        every = []
        with style.theme():
            figure, axes = style.panels(len(datasets), len(CONVOLUTIONS))
            for dataset, panels in zip(datasets, axes, strict=True):
                found = {line: _cells(_as_chosen(rows, line), context, line, dataset)
                         for line in OURS}  # fmt: skip
                every += found.values()
                for convolution, ax in zip(CONVOLUTIONS, panels, strict=True):
                    ax.set_title(f"{dataset}, {convolution.upper()}")
                    mine = {
                        line: cells[cells["convolution"] == convolution]
                        for line, cells in found.items()
                    }
                    if not any(map(len, mine.values())):
                        empty_panel(ax, _why(dataset, CORRECTED, context))
                        continue
                    for line, cells in mine.items():
                        _plot(ax, cells, line.title, _look(line))
                    _draw_print(ax, dataset, convolution, context)
                    _epsilons(ax, pd.concat(mine.values(), ignore_index=True))
                share_y(panels)
            everything = pd.concat(every, ignore_index=True)
            finish(figure, axes, datasets, [], everything, [*_said(everything), _CHOICE])
            return figure

    return draw


def _as_chosen(rows: pd.DataFrame, line: Line) -> pd.DataFrame:
    """The rows with the accuracy by which the M of a line is chosen as their `val_accuracy`."""
    return rows.assign(val_accuracy=rows["test_accuracy"]) if line is AS_IMPLEMENTED else rows


def figure5(rows: pd.DataFrame, context: Mapping) -> Figure:
    """SML noise, by the published analysis, against Gaussian noise, by one that holds."""
    lines = {"Gaussian, corrected analysis": CORRECTED, "SML, published analysis": AS_PUBLISHED}

    def cells(dataset: str) -> dict[str, pd.DataFrame]:
        found = {name: _cells(rows, context, line, dataset) for name, line in lines.items()}
        return {name: f[f["convolution"] == SHOWN_CONVOLUTION] for name, f in found.items()}

    looks = {name: _look(line) for name, line in lines.items()}
    return _by_dataset(context, cells, looks, CORRECTED)


def overlap(setting: str) -> Callable[[pd.DataFrame, Mapping], Figure]:
    """Figures 6 and 10: a peripheral that is a centre is kept, or dropped. setting:
    "transductive" or "inductive"."""

    def draw(rows: pd.DataFrame, context: Mapping) -> Figure:
        asked_of = Line("", CORRECTED.method, "overlap")
        mine = asked_of.rows(rows, context)
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
                for name, rule in (
                    ("not enforced (kept)", "kept"),
                    ("enforced (dropped)", "dropped"),
                )
            }

        looks = {
            "not enforced (kept)": _look(CORRECTED),
            "enforced (dropped)": {"color": "#7a3b69", "marker": "v"},
        }
        return _by_dataset(context, cells, looks, asked_of)

    return draw


def heat_maps(experiment: str) -> Callable[[pd.DataFrame, Mapping], Figure]:
    """Figures 7 and 9: accuracy by M and N_test, at ε = 2 (left) and without privacy (right)."""

    def draw(rows: pd.DataFrame, context: Mapping) -> Figure:
        by = ["hp_num_neighbors", "hp_test_neighbors"]
        asked_of = Line("", CORRECTED.method, experiment)
        mine = asked_of.rows(rows, context)
        summary = _nothing()
        if set(by) <= set(mine.columns):
            summary = summarise(select_best(mine, by)[0], by)
        asked = asked_of.cells(context)
        places = list(dict.fromkeys(cell[3] for cell in asked)) or ["2", "inf"]
        with style.theme():
            datasets = [name for name in study_datasets(context) if name in set(summary["dataset"])]
            figure, axes = style.panels(max(len(datasets), 1), len(places))
            if not datasets:
                _empty(axes, asked_of, context)
            for dataset, line in zip(datasets, axes, strict=False):
                for epsilon, ax in zip(places, line, strict=True):
                    shown = summary[
                        (summary["dataset"] == dataset) & (summary["epsilon"] == epsilon)
                    ]
                    what = "no privacy" if epsilon == "inf" else f"ε = {epsilon}"
                    ax.set_title(f"{dataset}, {what}")
                    if shown.empty:
                        empty_panel(ax, _why(dataset, asked_of, context))
                    else:
                        scale = summary.loc[summary["dataset"] == dataset, "mean"]
                        heat_map(ax, shown, *by, "neighbours read in testing, N_test", scale)
            private = summary[summary["epsilon"] != "inf"]
            told = [claims_title(private, "ε")] if len(private) else []
            finish(figure, axes, [""], _absent(summary, asked_of, context), summary, told)
            for line in axes:
                for ax in line:
                    if ax.get_ylabel():
                        ax.set_ylabel("M in training")
            return figure

    return draw


def _by_dataset(
    context: Mapping,
    cells: Callable[[str], dict[str, pd.DataFrame]],
    looks: Mapping[str, Mapping[str, str]],
    line: Line,
) -> Figure:
    """One panel per dataset, accuracy against ε. cells: dataset -> name of a line -> its cells."""
    with style.theme():
        found = {dataset: cells(dataset) for dataset in study_datasets(context)}
        shown = {name: pd.concat(its.values(), ignore_index=True) for name, its in found.items()}
        datasets = [name for name in found if len(shown[name])]
        figure, axes, titled = style.titled_panels(datasets)
        if not datasets:
            _empty(axes, line, context)
        for dataset, ax in zip(datasets, titled, strict=False):
            for name, mine in found[dataset].items():
                _plot(ax, mine, name, looks[name])
            _epsilons(ax, shown[dataset])
        everything = pd.concat(shown.values(), ignore_index=True) if shown else _nothing()
        absent = _absent(everything, line, context)
        finish(figure, axes, [""], absent, everything, _said(everything))
        return figure


def _empty(axes: Sequence[Sequence[Axes]], line: Line, context: Mapping) -> None:
    """Panels of a figure for which no dataset has a result."""
    names = sorted(study_datasets(context), key=lambda name: name in unavailable_in(context))
    for ax in (ax for row in axes for ax in row):
        ax.set_axis_on()
        empty_panel(ax, _why(names[0], line, context) if names else "no dataset")


def _absent(shown: pd.DataFrame, line: Line, context: Mapping) -> list[dict]:
    """The datasets without a result, for the remark below a figure."""
    return [
        {"dataset": name, "method": line.method, "level": "node",
         "missing_reason": _why(name, line, context)}
        for name in study_datasets(context)
        if len(shown) and name not in set(shown["dataset"])
    ]  # fmt: skip


def _cells(rows: pd.DataFrame, context: Mapping, line: Line, dataset: str) -> pd.DataFrame:
    """The results of a line on a dataset, with its column `convolution`."""
    found, _ = best_cells(rows[rows["dataset"] == dataset], context, line)
    if not found:
        return _nothing()
    return pd.DataFrame([one | {"convolution": key[1]} for key, one in found.items()])


def _nothing() -> pd.DataFrame:
    columns = [*summarise(pd.DataFrame(columns=["dataset", "method", "level", "epsilon"])).columns]
    return pd.DataFrame(columns=[*columns, "convolution"])


def _look(line: Line) -> dict[str, str]:
    """How a line is drawn: hollow and not solid if its ε is a claim, of the code or the paper."""
    if line is WITHOUT:
        return _WITHOUT_LOOK
    look = style.method_look(line.method)
    published = {"linestyle": ":", "markerfacecolor": "white"}
    return look | (published if line.method == AS_PUBLISHED.method else {})


def _plot(ax: Axes, cells: pd.DataFrame, name: str, look: Mapping[str, str]) -> None:
    if len(cells):
        cells = cells.assign(x=cells["epsilon"].astype(float)).sort_values("x")
        draw_line(ax, cells["x"], cells, label=name, **look)


def _draw_print(ax: Axes, dataset: str, convolution: str, context: Mapping) -> None:
    printed = read_published(context.get("published"))
    printed = printed[
        (printed["artefact"] == "Table 2")
        & (printed["dataset"] == STANDS_BESIDE.get(dataset, dataset))
        & (printed["method"] == AS_IMPLEMENTED.method)
        & (printed["setting"] == f"convolution={convolution}")
    ]
    if len(printed):
        others = dataset in STANDS_BESIDE
        ax.errorbar(
            printed["epsilon"].astype(float),
            printed["mean"],
            yerr=printed["ci"].fillna(0),
            markersize=6,
            label="paper" + (", other features (128)" if others else ""),
            **style.PRINTED | ({"markerfacecolor": "0.8"} if others else {}),
        )


def _epsilons(ax: Axes, shown: pd.DataFrame) -> None:
    ax.set_xscale("log")
    set_ticks(ax, sorted(set(shown["epsilon"].astype(float))))
    ax.set_xlabel(wrap(claims_title(shown, "ε", details=False), 52))


def _said(shown: pd.DataFrame) -> Sequence[str]:
    return claims(shown) if len(shown) else []


def _why(dataset: str, line: Line, context: Mapping) -> str:
    """Why a dataset has no results of a line."""
    asked = [cell for cell in line.cells(context) if cell[0] == dataset]
    return missing_reason(asked[0], context) if asked else reason_of(dataset, context)
