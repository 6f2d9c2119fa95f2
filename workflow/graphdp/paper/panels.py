"""What the figures share: lines, axes that say what their ε is, empty panels, grids."""

import math
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from matplotlib.transforms import Bbox

from graphdp.paper import style
from graphdp.paper.cells import (
    NO_METHOD,
    NOT_AVAILABLE,
    NOT_REQUESTED,
    expected_values,
    experiment_rows,
    missing_reason,
    study_datasets,
)
from graphdp.paper.labels import (
    LATTICE_NOTE,
    OLDER_NOISE,
    as_implemented,
    basis_text,
    covers_weights_alone,
    delta_text,
    method_label,
    method_name,
    short_status,
)
from graphdp.paper.legend import legend_columns, one_per_look
from graphdp.paper.select import CELL, select_best, summarise
from graphdp.privacy.protection import is_private, level_kind


def claims_title(
    cells: pd.DataFrame, label: str, *, details: bool = True, places: pd.Series | None = None
) -> str:
    """The name of an axis with everything that must be said about the ε of its cells.

    details: whether `claims` is part of it; a figure without says it elsewhere. places: where each
    cell stands on the axis, where that tells its δ.
    """
    private = cells[cells["level"].map(is_private).astype(bool)]
    if private.empty:
        return label
    statuses = set(private["epsilon_status"])
    # Of lines whose ε holds and others whose claim is refuted it is what noise was calibrated to.
    symbol = "ε" if "refuted" not in statuses else "claimed ε" if len(statuses) == 1 else "target ε"
    tokens = sorted(set(private["epsilon"]), key=float)
    head = symbol if label == "ε" else f"{label} at {symbol} = {', '.join(tokens)}"
    told = [f"δ = {_deltas(private, label, places)}", *(claims(cells) if details else ())]
    return f"{head} ({'; '.join(told)})"


def _deltas(private: pd.DataFrame, label: str, places: pd.Series | None) -> str:
    """The δ of cells; with places that of the most, and at which it is another."""
    texts = private["delta"].dropna().map(delta_text)
    ordered = sorted(set(texts), key=float)
    if places is None or len(ordered) < 2:
        return ", ".join(ordered)
    where = {delta: sorted(set(places[texts.index[texts == delta]])) for delta in ordered}
    first, *others = sorted(ordered, key=lambda delta: -len(where[delta]))
    told = [f"{delta} at {label} = {', '.join(f'{x:g}' for x in where[delta])}" for delta in others]
    return f"{first}, but {' and '.join(told)}"


def claims(cells: pd.DataFrame) -> list[str]:
    """The adjacencies of cells, then by basis and status of their ε the methods that have it."""
    private = cells[cells["level"].map(is_private).astype(bool)]
    #: (name, basis) -> status -> kinds of levels that have it.
    analysed: dict[tuple[str, str], dict[str, dict[str, None]]] = {}
    by = ["method", "epsilon_basis", "level", "epsilon_status"]
    made = list(private[by].drop_duplicates().itertuples(index=False, name=None))
    statuses = {claim[:3]: claim[3] for claim in made}
    for method, basis, level, status in made:
        # A method goes by one name as its code runs it too, unless that changes the verdict.
        of = as_implemented().get(method, method)
        name = method_name(of if statuses.get((of, basis, level), status) == status else method)
        verdicts = analysed.setdefault((name, basis), {})
        verdicts.setdefault(status, {})[level_kind(level)] = None
    told: dict[str, list[str]] = {}
    for (name, basis), verdicts in analysed.items():
        # Levels are named where an analysis says one thing of some and another of others.
        words = [
            short_status(status) + (f" ({', '.join(kinds)})" if len(verdicts) > 1 else "")
            for status, kinds in verdicts.items()
        ]
        told.setdefault(f"{basis_text(basis)}, {', '.join(words)}", []).append(name)
    adjacencies = dict.fromkeys(re.sub(r"\(\d+\)", "(k)", a) for a in private["adjacency"])
    lines = [f"{', '.join(names)} {verdict}" for verdict, names in told.items()]
    return [f"adjacency {' / '.join(adjacencies)}", *lines] if lines else []


def weights_alone(shown: pd.DataFrame) -> list[str]:
    """Of which methods the ε says nothing of predictions, and so of the accuracies drawn."""
    labels = dict.fromkeys(
        method_label(as_implemented().get(cell["method"], cell["method"]), cell["level"])
        for cell in shown.to_dict("records")
        if covers_weights_alone(cell)
    )
    told = f"{' / '.join(labels)} infers without noise: its ε is the weights' alone"
    return [told] if labels else []


#: The interval of two models is no more than the two.
FEWEST_FOR_A_BAND = 3
#: Means over fewer seeds have a small marker.
FEW_SEEDS = 5
#: Labels of what a remark explains where a figure has it; legends leave out what begins with "_".
BAND, BAR, SMALL = "_band", "_bar", "_small marker"


def draw_line(ax: Axes, x: pd.Series, line: pd.DataFrame, *, bars: bool = False, **shape) -> None:
    """Means with a band for their intervals, or a bar where no neighbour has one, or with `bars`.
    Means of fewer than `FEWEST_FOR_A_BAND` models (column n) have neither."""
    x = np.asarray(x, dtype=float)
    mean, low, high, n = (
        line[name].to_numpy(dtype=float) for name in ("mean", "ci_low", "ci_high", "n")
    )
    (drawn,) = ax.plot(x, mean, **shape)
    few = n < FEW_SEEDS
    if "marker" in shape and few.any():
        drawn.set_markevery(~few)
        ax.scatter(
            x[few],
            mean[few],
            s=(0.65 * drawn.get_markersize()) ** 2,
            marker=shape["marker"],
            facecolors=drawn.get_markerfacecolor(),
            edgecolors=shape["color"],
            linewidths=0.8,
            zorder=drawn.get_zorder() + 0.1,
            label=SMALL,
        )
    known = np.isfinite(low) & (n >= FEWEST_FOR_A_BAND)
    beside = np.append(known[1:], False) | np.append(False, known[:-1])
    joined = known & beside & (not bars)
    alone = known & ~joined
    if joined.any():
        color = shape["color"]
        ax.fill_between(x, low, high, where=joined, color=color, alpha=0.18, lw=0, label=BAND)
    if alone.any():
        ax.vlines(x[alone], low[alone], high[alone], color=shape["color"], lw=1.2, label=BAR)


def epsilon_axis(ax: Axes, cells: pd.DataFrame, others: Iterable[str] = ()) -> None:
    """A logarithmic ε axis with a tick per ε of `cells` and of `others`, and their δ; what else
    must be said of ε (`claims`) stands once below the figure."""
    ax.set_xscale("log")
    set_ticks(ax, sorted({float(epsilon) for epsilon in [*cells["epsilon"], *others]}))
    ax.set_xlabel(wrap(claims_title(cells, "ε", details=False), 52))


def wrap(text: str, width: int) -> str:
    """Lines of at most `width` characters, broken between phrases where phrases fit in a line."""
    phrases = re.split(r"(?<=[;,]) ", text)
    kept = " ".join(p.replace(" ", "\u00a0") if len(p) <= width else p for p in phrases)
    return "\n".join(textwrap.wrap(kept, width, break_on_hyphens=False))


#: Inches of an axis beside another, before its labels take their room.
_NARROWEST = 2.7


def set_ticks(ax: Axes, values: Sequence[float]) -> None:
    """A tick at each value that has results, and room beyond the first and the last."""
    low, high = values[0], values[-1]
    if ax.get_xscale() == "log":
        margin = 1.12 if low < high else 1.6
        ax.set_xlim(low / margin, high * margin)
        # Labels nearer than a ninth of the narrowest axis would run into each other. The last one
        # is kept, in place of those that are too near to it.
        width = ax.get_figure().get_figwidth() * ax.get_position().width
        gap = np.log(high * margin**2 / low) / (9 * max(1, width / _NARROWEST))
        labelled = [low]
        for value in values[1:]:
            if np.log(value / labelled[-1]) >= gap:
                labelled.append(value)
        while len(labelled) > 1 and np.log(high / labelled[-1]) < gap:
            labelled.pop()
        labelled = list(dict.fromkeys([*labelled, high]))
    else:
        margin = 0.06 * (high - low) if low < high else 0.6
        ax.set_xlim(low - margin, high + margin)
        labelled = values
    ax.xaxis.set_major_locator(FixedLocator(labelled))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_locator(NullLocator())


def say_empty(ax: Axes, reason: str) -> None:
    """Write into a panel why it lacks what a reader would look for."""
    ax.text(
        0.5,
        0.5,
        "\n".join(textwrap.wrap(f"no results: {reason}", 27)),
        transform=ax.transAxes,
        ha="center",
        va="center",
        color="0.35",
        bbox={"facecolor": "white", "edgecolor": "none"},
    )
    ax.set_xticks([])


def empty_panel(ax: Axes, reason: str) -> None:
    """A panel that says in words why it shows nothing."""
    say_empty(ax, reason)
    ax.set_yticks([])
    ax.grid(False)


def heat_map(
    ax: Axes,
    shown: pd.DataFrame,
    row: str,
    column: str,
    label: str,
    scale: pd.Series | None = None,
    grid: tuple[Iterable[float], Iterable[float]] = ((), ()),
) -> None:
    """Means by two hyperparameters, `row` upwards and `column` (named `label`) to the right, each
    written into its field; the colours span the panel's own values, or those of `scale`, at least
    0.1 of them. grid: values of `row` and of `column` that have a place as well, grey where they
    have no mean."""
    table = shown.assign(**{name: pd.to_numeric(shown[name]) for name in (row, column)})
    table = table.pivot(index=row, columns=column, values="mean")
    rows, columns = ({*own, *more} for own, more in zip(table.axes, grid, strict=True))
    table = table.reindex(index=sorted(rows, reverse=True), columns=sorted(columns))
    values = table.to_numpy(dtype=float)
    spanned = values if scale is None else scale.to_numpy(dtype=float)
    low = np.nanmin(spanned)
    high = max(np.nanmax(spanned), low + 0.1)
    ax.set_facecolor("0.9")
    ax.imshow(values, cmap="viridis", aspect="auto", vmin=low, vmax=high)
    for (y, x), value in np.ndenumerate(values):
        if np.isfinite(value):
            dark = value < low + 0.6 * (high - low)
            ax.text(x, y, f"{value:.1f}", ha="center", va="center", color="w" if dark else "k")
    ax.set_xticks(range(len(table.columns)), [f"{value:g}" for value in table.columns])
    ax.set_yticks(range(len(table.index)), [f"{value:g}" for value in table.index])
    ax.set_xlabel(label)
    ax.grid(False)


def summary_of(rows: pd.DataFrame, context: Mapping, experiment: str, by: str) -> pd.DataFrame:
    """Mean and interval per cell and value of `by`, the other hyperparameters selected for each."""
    mine = experiment_rows(rows, context, experiment)
    if by not in mine.columns:
        mine = mine.assign(**{by: None})
    best, _ = select_best(mine, [by])
    summary = summarise(best, [by])
    return summary.assign(**{by: pd.to_numeric(summary[by])})


@dataclass(frozen=True)
class Compared:
    """The hyperparameter whose values a figure compares.

    of: a value of the grid -> the value in the summary, which is `column` there, and how a remark
    calls it, in two parts: ("D =", "10"), or ("without encoder", "").
    """

    hyperparameter: str
    column: str
    of: Callable[[Any], tuple[Any, str, str]]


def panel_grid(
    summary: pd.DataFrame,
    context: Mapping,
    experiment: str,
    levels: Sequence[str],
    panel: Callable[[Axes, pd.DataFrame, str], None],
    hyperparameter: str | Compared,
    legend_title: str = "",
) -> Figure:
    """Dataset × level panels: one line per dataset, or two datasets per line for a single level.

    The figure is about the methods of the experiment that have the hyperparameter; where it
    compares values, a value without a result is missed as well.
    """
    compared = hyperparameter if isinstance(hyperparameter, Compared) else None
    name = compared.hyperparameter if compared else hyperparameter
    asked = [
        (cell, value)
        for cell, value in expected_values(context, experiment, name)
        if cell[2] in levels
    ]
    cells = list(dict.fromkeys(cell for cell, _ in asked))
    datasets = study_datasets(context)
    places = [(dataset, level) for dataset in datasets for level in levels]
    titles = [f"{dataset}, {level} level" for dataset, level in places]
    figure, axes, titled = style.titled_panels(titles)
    for (dataset, level), ax in zip(places, titled, strict=True):
        mine = summary[(summary["dataset"] == dataset) & (summary["level"] == level)]
        if mine.empty:
            here = [cell for cell in cells if (cell[0], cell[2]) == (dataset, level)]
            empty_panel(
                ax, missing_reason(here[0], context) if here else reason_of(dataset, context)
            )
        else:
            panel(ax, mine, level)
    missing = missing_cells(cells, summary, context)
    if compared:
        missing += missing_values(asked, summary, context, compared)
    said = claims(summary) if len(summary) else []
    finish(figure, axes, datasets, missing, summary, said, legend_title)
    return figure


def missing_values(
    expected: Iterable[tuple[tuple, Any]], shown: pd.DataFrame, context: Mapping, compared: Compared
) -> list[dict]:
    """The values that `shown` lacks in cells that it has for others, with the reason.

    setting: how a value is called; partly: whether its line is there at other ε.
    """
    keys = list(shown[list(CELL)].itertuples(index=False, name=None))
    found = set(zip(keys, shown[compared.column], strict=True))
    lines = {(cell[:3], value) for cell, value in found}
    missing = []
    for cell, of in expected:
        value, *setting = compared.of(of)
        if cell in set(keys) and (cell, value) not in found:
            missing.append(
                dict(zip(CELL, cell, strict=True))
                | {"missing_reason": missing_reason(cell, context)}
                | {"setting": tuple(setting), "partly": (cell[:3], value) in lines}
            )
    return missing


def missing_cells(
    expected: Iterable[tuple],
    shown: pd.DataFrame,
    context: Mapping,
    panels: Mapping[str, str] | None = None,
) -> list[dict]:
    """The expected cells that `shown` lacks, with the reason.

    panels: dataset -> the panel that it shares with others. A dataset that is not there has its
    cells here only if its panel shows others; else the panel itself says so.
    """
    panels = panels or {}
    found = set(shown[list(CELL)].itertuples(index=False, name=None))
    drawn = {panels[dataset] for dataset in shown["dataset"] if dataset in panels}
    return [
        dict(zip(CELL, cell, strict=True)) | {"missing_reason": missing_reason(cell, context)}
        for cell in expected
        if cell not in found
        and (cell[0] not in unavailable_in(context) or panels.get(cell[0]) in drawn)
    ]


def unavailable_in(context: Mapping) -> Mapping[str, str]:
    """Dataset -> why it is not there."""
    return context.get("unavailable", {})


def reason_of(dataset: str, context: Mapping) -> str:
    """Why a dataset has no panel to show."""
    unavailable = unavailable_in(context)
    return f"{NOT_AVAILABLE}: {unavailable[dataset]}" if dataset in unavailable else NOT_REQUESTED


def share_y(line: Sequence[Axes], stretch: float = math.inf) -> None:
    """Equal accuracy limits in the panels of one dataset that have data; none if one of them would
    span more than `stretch` times its own."""
    drawn = [ax for ax in line if ax.has_data() and ax.get_yticks().size]
    if len(drawn) > 1:
        limits = [ax.get_ylim() for ax in drawn]
        low, high = min(low for low, _ in limits), max(high for _, high in limits)
        if high - low <= stretch * min(above - below for below, above in limits):
            for ax in drawn:
                ax.set_ylim(low, high)


#: Accuracies that a panel spans at least, in points: on less, noise looks like structure.
LEAST_SPAN = 5


def widen(ax: Axes) -> None:
    """Limits that span `LEAST_SPAN`."""
    low, high = ax.get_ylim()
    room = max(0, LEAST_SPAN - (high - low)) / 2
    if room:
        ax.set_ylim(low - room, high + room)


def not_shown(missing: Sequence[Mapping], shown: pd.DataFrame) -> str:
    """What a reader would look for and not find, by reason; what is missing on the same datasets
    stands together."""
    lines = set(shown[["dataset", "method", "level"]].itertuples(index=False, name=None))
    datasets = set(shown["dataset"])
    #: (reason, what is missing, of which setting, whether at some ε alone) -> where -> its values
    found: dict[tuple, dict[str, dict[str, None]]] = {}
    for cell in missing:
        why, what = cell["missing_reason"], method_label(cell["method"], cell["level"])
        where, (setting, value) = cell["dataset"], cell.get("setting", ("", ""))
        partly = cell.get("partly", (where, cell["method"], cell["level"]) in lines)
        if why == NO_METHOD:
            where = ""
        elif where not in datasets:
            what, where = where, ""
        key = why, what, setting, partly and bool(where)
        found.setdefault(key, {}).setdefault(where, {})[value] = None
    told: dict[str, dict[str, list[str]]] = {}
    for (why, what, setting, partly), places in found.items():
        by_values: dict[tuple, list[str]] = {}
        for where, values in places.items():
            by_values.setdefault(tuple(values), []).append(where)
        for values, names in by_values.items():
            of = " ".join(filter(None, [setting, ", ".join(values)]))
            of = f" {of}" if of else ""
            of += " at some ε" if partly else ""
            of += f" on {', '.join(names)}" if any(names) else ""
            told.setdefault(why, {}).setdefault(of, []).append(what)
    return "; ".join(
        f"not shown: {'; '.join(f'{_names(names)}{of}' for of, names in each.items())} ({why})"
        for why, each in told.items()
    )


def _names(names: Iterable[str]) -> str:
    """Names, or of very many how many: the report lists what is missing one by one."""
    names = list(names)
    return ", ".join(names) if len(names) <= 12 else f"{len(names)} lines ({names[0]} and others)"


def seeds_of(shown: pd.DataFrame) -> str:
    """How many seeds the means of a figure are taken over, by dataset where that differs."""
    spans: dict[str, list[str]] = {}
    for dataset, counts in shown.groupby("dataset", sort=False)["n"]:
        least, most = int(counts.min()), int(counts.max())
        span = str(most) if least == most else f"{least} to {most}"
        span += " seed" if most == 1 else " seeds"
        spans.setdefault(span, []).append(dataset)
    if len(spans) == 1:
        return f"mean over {next(iter(spans))}"
    return "; ".join(f"mean over {span} on {', '.join(names)}" for span, names in spans.items())


#: δ in brackets of its own, at the end of an axis title.
_DELTA = re.compile(r"\s\(δ\s=\s[^;()]+\)$")


def _label_once(line: Sequence[Axes]) -> None:
    """The axis title of a line of panels once, below its middle, if it is the same for all; where
    they differ in δ alone, δ goes into the panels' titles."""
    if len(line) < 2:
        return
    labels = [ax.get_xlabel() for ax in line]
    if len(set(labels)) > 1:
        deltas = [_DELTA.search(label) for label in labels]
        without = {_DELTA.sub("", label) for label in labels}
        if len(without) > 1 or not all(deltas):
            return
        labels = list(without)
        for ax, delta in zip(line, deltas, strict=True):
            words = delta[0].replace("\u00a0", " ").replace("\n", " ").strip()
            title = f"{ax.get_title()} {words}"
            # A longer one would run into the title beside it.
            ax.set_title(title if len(title) <= 52 else f"{ax.get_title()}\n{words}")
    for ax in line:  # a blank keeps the room below each panel
        ax.set_xlabel("\u00a0" + labels[0].count("\n") * "\n")
    middle = line[len(line) // 2]
    if len(line) % 2:
        middle.set_xlabel(labels[0])
        return

    def room(renderer: Any) -> Bbox:
        blank = middle.xaxis.label.get_window_extent(renderer)
        edges = line[0].get_window_extent().x0, line[-1].get_window_extent().x1
        return Bbox([[edges[0], blank.y0], [edges[1], blank.y1]])

    # As the title of one panel it would stand below that panel's middle.
    title = middle.annotate(labels[0], (0.5, 1), xycoords=room, ha="center", va="top")
    title.set(in_layout=False, annotation_clip=False, fontsize=middle.xaxis.label.get_fontsize())


def finish(
    figure: Figure,
    axes: list[list[Axes]],
    datasets: Sequence[str],
    missing: Sequence[Mapping],
    shown: pd.DataFrame,
    said: Sequence[str] = (),
    legend_title: str = "",
) -> None:
    """Axis titles, one legend for all panels, and the room that these take; below or, where two
    lines are full, `style.beside` it: what is `said` of all panels, over how many seeds the shown
    cells are means, and which cells are missing. legend_title: of entries that begin with a number,
    which orders them."""
    if not datasets:
        empty_panel(axes[0][0], "the study names no dataset")
    handles: dict[str, object] = {}
    for line in axes:
        drawn = [ax for ax in line if ax.get_xlabel()]
        for left, ax in zip([None, *drawn], drawn, strict=False):
            # A title on a panel says as well that its scale is not that of the panel to its left.
            if left is None or ax.get_ylim() != left.get_ylim():
                ax.set_ylabel("accuracy, %")
            beside = set(ax.get_shared_x_axes().get_siblings(ax)) - {ax}
            for part in (ax, *beside):  # with a second axis that it may have
                for handle, label in zip(*part.get_legend_handles_labels(), strict=True):
                    handles.setdefault(label, handle)
        _label_once(drawn)
    # Lines of text that a figure has no room for yet: those of the legend beyond three, of the
    # longest axis title of each row of panels beyond three, of the remark beyond one.
    lines = sum(max(0, max(ax.get_xlabel().count("\n") + 1 for ax in row) - 3) for row in axes)
    if handles:
        handles = one_per_look(handles)
        if legend_title:
            first = {label: float(label.split(",")[0]) for label in handles}
            handles = {label: handles[label] for label in sorted(handles, key=first.get)}
        columns = legend_columns(list(handles), 72 * figure.get_figwidth())
        lines += max(0, -(-len(handles) // columns) + bool(legend_title) - 3)
        figure.legend(
            list(handles.values()),
            list(handles),
            title=legend_title or None,
            loc="outside upper center",
            ncol=columns,
            frameon=False,
        )
    older = LATTICE_NOTE if (shown.get("noise") == OLDER_NOISE).any() else ""
    refuted = "refuted" in set(shown.get("epsilon_status", ()))
    kinds = {part.get_label() for ax in figure.axes for part in (*ax.collections, *ax.patches)}
    intervals = [name for label, name in ((BAND, "bands"), (BAR, "bars")) if label in kinds]
    also = [
        seeds_of(shown) + (f" (small markers: fewer than {FEW_SEEDS})" if SMALL in kinds else ""),
        f"{' and '.join(intervals)}: 95 % intervals" if intervals else "",
        older,
        "ε that holds under a refuted claim: none" if refuted else "",
        not_shown(missing, shown),
    ]
    if any("setting" in cell for cell in missing):  # the comparison itself is not whole
        also.insert(0, also.pop())
    told = [*said, *weights_alone(shown)]
    lines += max(0, style.footnote(figure, told, [phrase for phrase in also if phrase]) - 1)
    figure.set_figheight(figure.get_figheight() + 0.17 * lines)
