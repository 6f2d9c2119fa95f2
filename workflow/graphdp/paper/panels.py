"""What the figures share: lines, axes, empty panels, grids (`graphdp.paper.remarks`: the words)."""

import math
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter
from matplotlib.transforms import Bbox

from graphdp.paper import style
from graphdp.paper.cells import (
    expected_values,
    experiment_rows,
    missing_reason,
    study_datasets,
)
from graphdp.paper.labels import (
    LATTICE_NOTE,
    OLDER_NOISE,
)
from graphdp.paper.legend import legend_columns, one_per_look
from graphdp.paper.remarks import (
    Compared,
    claims,
    claims_title,
    missing_cells,
    missing_values,
    not_shown,
    of_refuted,
    reason_of,
    seeds_of,
    weights_alone,
)
from graphdp.paper.select import select_best, summarise

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
    """A tick at each value that has results, and room beyond the first and the last.

    Of values too near to one another for their labels some have a grid line alone.
    """
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
    ax.xaxis.set_minor_locator(FixedLocator([value for value in values if value not in labelled]))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.grid(ax.xaxis.get_gridlines()[0].get_visible(), which="minor", axis="x")


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
    style.say_nothing(ax, f"no results: {reason}")
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
    texts = [[f"{value:.1f}" if np.isfinite(value) else "" for value in line] for line in values]
    dark = values < low + 0.6 * (high - low)
    draw_fields(ax, values, texts, dark, cmap="viridis", vmin=low, vmax=high)
    ax.set_xticks(range(len(table.columns)), [f"{value:g}" for value in table.columns])
    ax.set_yticks(range(len(table.index)), [f"{value:g}" for value in table.index])
    ax.set_xlabel(label)


def draw_fields(
    ax: Axes, values: np.ndarray, texts: Sequence[Sequence[str]], dark: np.ndarray, **colours: Any
) -> None:
    """A coloured field for every value, grey where it is NaN, with its text, white on what is dark.

    values: float (rows, columns). texts: as many. dark: bool of that shape. colours: of `imshow`.
    """
    ax.set_facecolor("0.9")
    ax.imshow(values, aspect="auto", **colours)
    for (y, x), white in np.ndenumerate(dark):
        if texts[y][x]:
            ax.text(x, y, texts[y][x], ha="center", va="center", color="w" if white else "k")
    ax.grid(False)


def summary_of(rows: pd.DataFrame, context: Mapping, experiment: str, by: str) -> pd.DataFrame:
    """Mean and interval per cell and value of `by`, the other hyperparameters selected for each."""
    mine = experiment_rows(rows, context, experiment)
    if by not in mine.columns:
        mine = mine.assign(**{by: None})
    best, _ = select_best(mine, [by])
    summary = summarise(best, [by])
    return summary.assign(**{by: pd.to_numeric(summary[by])})


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
            widen(ax)
    missing = missing_cells(cells, summary, context)
    if compared:
        missing += missing_values(asked, summary, context, compared)
    said = claims(summary) if len(summary) else []
    finish(figure, axes, datasets, missing, summary, said, legend_title)
    return figure


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
    """Limits that span `LEAST_SPAN` points, around the same middle."""
    low, high = ax.get_ylim()
    room = max(0, LEAST_SPAN - (high - low)) / 2
    if room:
        ax.set_ylim(low - room, high + room)


#: δ in brackets of its own, at the end of an axis title.
_DELTA = re.compile(r"\s\(δ\s=\s[^;()]+\)$")


def add_to_title(ax: Axes, words: str) -> None:
    """Put words (" more", ", more") behind a panel's title, or below it where they would run into
    the title beside it."""
    title = ax.get_title()
    whole = title + words
    ax.set_title(whole if len(whole) <= 52 else f"{title}\n{words.lstrip(', ')}")


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
            words = delta[0].replace("\u00a0", " ").replace("\n", " ")
            add_to_title(ax, words)
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
    kinds = {part.get_label() for ax in figure.axes for part in (*ax.collections, *ax.patches)}
    intervals = [name for label, name in ((BAND, "bands"), (BAR, "bars")) if label in kinds]
    also = [
        seeds_of(shown) + (f" (small markers: fewer than {FEW_SEEDS})" if SMALL in kinds else ""),
        f"{' and '.join(intervals)}: 95 % intervals" if intervals else "",
        older,
        of_refuted(shown),
        not_shown(missing, shown),
    ]
    if any("setting" in cell for cell in missing):  # the comparison itself is not whole
        also.insert(0, also.pop())
    told = [*said, *weights_alone(shown)]
    lines += max(0, style.footnote(figure, told, [phrase for phrase in also if phrase]) - 1)
    figure.set_figheight(figure.get_figheight() + 0.17 * lines)
