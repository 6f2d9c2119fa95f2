"""ProGAP's own tables and figures: Tables 1 and 2, Figures 2 to 4, and layer-wise training."""

import itertools
import json
from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from graphdp.paper import style
from graphdp.paper.accuracy import COUNTS, FLOATS, published_table
from graphdp.paper.cells import (
    expected_values,
    experiment_rows,
    missing_reason,
    study_datasets,
)
from graphdp.paper.labels import method_label
from graphdp.paper.panels import (
    BAR,
    FEW_SEEDS,
    FEWEST_FOR_A_BAND,
    LEAST_SPAN,
    SMALL,
    draw_line,
    empty_panel,
    finish,
    panel_grid,
    wrap,
)
from graphdp.paper.plots import (
    ACCURACY_CAPTION,
    PRIVATE_LEVELS,
    Drawing,
    accuracy_figure,
    by_number,
)
from graphdp.paper.remarks import (
    Compared,
    claims,
    claims_title,
    missing_cells,
    missing_values,
    reason_of,
)
from graphdp.paper.select import CELL, bootstrap_ci, select_best, summarise
from graphdp.paper.statistics import STATISTICS_NUMBERS, show_statistics, table1
from graphdp.paper.tables import Table, show_published
from graphdp.privacy.protection import level_order

DEPTH_EXPERIMENT, CONVERGENCE_EXPERIMENT, LAYERWISE_EXPERIMENT = "depth", "convergence", "layerwise"


def figure3(rows: pd.DataFrame, context: Mapping) -> Figure:
    """Convergence: accuracy on training and validation nodes after every epoch, stage by stage."""
    mine = experiment_rows(rows, context, CONVERGENCE_EXPERIMENT)
    kept = mine["curves"] != "" if "curves" in mine.columns else np.zeros(len(mine), dtype=bool)
    best, _ = select_best(mine[kept])

    def panel(ax: Axes, summary: pd.DataFrame, level: str) -> None:
        tokens = sorted(summary["epsilon"].unique(), key=float)
        colours = dict(zip(tokens, style.series_colours(len(tokens)), strict=True))
        if len(tokens) == 1:  # colour tells no ε from another, and is the method's as elsewhere
            colours = {tokens[0]: style.method_style("progap")[0]}
        for cell in summary[list(CELL)].itertuples(index=False):
            models = best[(best[list(CELL)] == list(cell)).all(axis=1)]
            curves = [json.loads(text) for text in models["curves"]]
            for part, dashes in (("train", "--"), ("val", "-")):
                accuracy = np.array([np.concatenate(curve[part]) for curve in curves])
                line = pd.DataFrame(
                    [bootstrap_ci(100 * values) for values in accuracy.T],
                    columns=["mean", "ci_low", "ci_high"],
                ).assign(n=len(curves))
                label = {"train": "training", "val": "validation"}[part]
                label += "" if len(tokens) == 1 else f", {cell.epsilon}"
                shape = {"color": colours[cell.epsilon], "linestyle": dashes, "linewidth": 1.1}
                draw_line(ax, line.index + 1, line, label=label, **shape)
            ends = np.cumsum([len(stage) for stage in curves[0]["val"]])
        for end in ends[:-1]:
            ax.axvline(end + 0.5, color="0.6", linewidth=0.8, linestyle=":")
        ends = [0, *ends]
        middles = [(low + high) / 2 + 0.5 for low, high in itertools.pairwise(ends)]
        ax.xaxis.set_major_locator(FixedLocator(middles))
        names = {middle: f"{stage}" for stage, middle in enumerate(middles)}
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: names.get(value, "")))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.grid(False, axis="x")
        title = claims_title(summary, f"stage, {ends[1]} epochs each,", details=False)
        ax.set_xlabel(wrap(title, 52))

    with style.theme():
        summary = summarise(best)
        return panel_grid(
            summary, context, CONVERGENCE_EXPERIMENT, PRIVATE_LEVELS, panel, "history"
        )


def figure4(rows: pd.DataFrame, context: Mapping) -> Figure:
    """Accuracy against the depth, one line per ε; edge level left, node level right."""
    return by_number(rows, context, DEPTH_EXPERIMENT, "depth", "depth K")


#: Points from the right edge of a panel to the end of the numbers beside it.
_NUMBERS = 68


def layerwise(rows: pd.DataFrame, context: Mapping) -> Figure:
    """What layer-wise training (earlier bases frozen) gains over progressive: a panel per dataset
    and in it a line per level and ε."""
    name, column = "layerwise", "hp_layerwise"
    mine = experiment_rows(rows, context, LAYERWISE_EXPERIMENT)
    best, _ = select_best(mine.assign(**{column: mine.get(column)}), [column])
    best = best.assign(**{column: best[column].astype(bool)})
    summary, gained = summarise(best, [column]), _gains(best)
    asked = expected_values(context, LAYERWISE_EXPERIMENT, name)
    cells = list(dict.fromkeys(cell for cell, _ in asked))
    with style.theme():
        datasets = study_datasets(context)
        # Three where there are fewer: what an empty panel says needs their room.
        lines = [max(3, (gained["dataset"] == dataset).sum()) for dataset in datasets] or [3]
        figure = Figure(
            figsize=(2 * style.PANEL_WIDTH, 0.29 * sum(lines) + 0.35 * len(lines) + 0.75),
            layout="constrained",
        )
        axes = figure.subplots(len(lines), 1, squeeze=False, height_ratios=lines)
        ends = [0.0, *gained[["low", "high", "mean"]].to_numpy(dtype=float).ravel()]
        low, high = np.nanmin(ends), np.nanmax(ends)
        room = max(0, LEAST_SPAN - (high - low)) / 2 + 0.04 * (high - low)
        for dataset, ax in zip(datasets, axes[:, 0], strict=False):
            ax.set_title(dataset)
            here = gained[gained["dataset"] == dataset]
            if here.empty:
                own = [cell for cell in cells if cell[0] == dataset]
                reason = missing_reason(own[0], context) if own else reason_of(dataset, context)
                empty_panel(ax, reason)
            else:
                shown = summary[summary["dataset"] == dataset]
                _draw_gains(ax, here, shown)
                ax.set_xlim(low - room, high + room)
        drawn = [ax for ax in axes[:, 0] if ax.has_data()]
        if drawn:
            drawn[-1].set_xlabel(
                "points of accuracy that layer-wise training gains over progressive"
            )
            for ax in drawn[:-1]:
                ax.tick_params(labelbottom=False)
            drawn[0].annotate(
                "progressive → layer-wise, %", (1, 1), (_NUMBERS, 5), "axes fraction",
                "offset points", ha="right", fontsize=8,
            )  # fmt: skip
        missing = missing_cells(cells, summary, context)
        compared = Compared(
            name, column, lambda frozen: (frozen, "layer-wise" if frozen else "progressive", "")
        )
        missing += missing_values(asked, summary, context, compared)
        said = claims(summary) if len(summary) else []
        finish(figure, axes.tolist(), datasets, missing, summary, said)
        for ax in axes[:, 0]:
            ax.set_ylabel("")
        return figure


def _gains(best: pd.DataFrame) -> pd.DataFrame:
    """Per cell what layer-wise training gains, in points, over the seeds that both ways have: mean,
    low and high (95 % bootstrap interval over pairs of models of one seed), n, and the accuracies
    (percent) that it is the difference of."""
    gains = []
    for cell, models in best.groupby([*CELL], sort=False):
        pairs = models.pivot(index="seed", columns="hp_layerwise", values="test_accuracy") * 100
        pairs = pairs.reindex(columns=[False, True]).dropna()
        if len(pairs):
            mean, low, high = bootstrap_ci(pairs[True] - pairs[False])
            ways = pairs[False].mean(), pairs[True].mean()
            gains.append((*cell, mean, low, high, len(pairs), *ways))
    columns = [*CELL, "mean", "low", "high", "n", "progressive", "frozen"]
    gains.sort(key=lambda gain: (level_order(gain[2]), float(gain[3])))
    return pd.DataFrame(gains, columns=columns)


def _draw_gains(ax: Axes, gained: pd.DataFrame, summary: pd.DataFrame) -> None:
    """Gains of a dataset, a line each, named with all that is to say of its ε but what stands below
    the figure. summary: the cells' accuracies, with their δ and claims."""
    names = []
    for place, line in enumerate(gained.itertuples()):
        cell = summary[(summary[list(CELL)] == [getattr(line, key) for key in CELL]).all(axis=1)]
        names.append(claims_title(cell, method_label(line.method, line.level), details=False))
        colour, marker = style.method_style(line.method)
        few = line.n < FEW_SEEDS
        size = 18 if few else 42
        ax.scatter(line.mean, place, s=size, color=colour, marker=marker, zorder=3,
                   label=SMALL if few else None)  # fmt: skip
        if line.n >= FEWEST_FOR_A_BAND:
            ax.hlines(place, line.low, line.high, color=colour, linewidth=1.6, label=BAR)
        ways = f"{line.progressive:.1f} → {line.frozen:.1f}"
        ax.annotate(ways, (1, place), (_NUMBERS, 0), ax.get_yaxis_transform(), "offset points",
                    ha="right", va="center", fontsize=8)  # fmt: skip
    ax.axvline(0, color="0.35", linewidth=0.9)
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.grid(False, axis="y")


TABLES: dict[str, Table] = {
    "progap_table1": Table("ProGAP Table 1", table1, show_statistics, STATISTICS_NUMBERS),
    "progap_table2": Table("ProGAP Table 2", published_table, show_published, FLOATS, COUNTS),
}
FIGURES: dict[str, Drawing] = {
    "progap_figure2": Drawing("ProGAP Figure 2", accuracy_figure, ACCURACY_CAPTION),
    "progap_figure3": Drawing(
        "ProGAP Figure 3",
        figure3,
        "Convergence over the stages at edge level (left) and node level (right): accuracy on "
        "training and validation nodes, in evaluation mode, after every epoch.",
    ),
    "progap_figure4": Drawing(
        "ProGAP Figure 4",
        figure4,
        "Effect of the depth on accuracy at edge level (left) and node level (right).",
    ),
    "progap_layerwise": Drawing(
        "ProGAP progressive or layer-wise",
        layerwise,
        "What layer-wise training (the bases of earlier stages are frozen) gains over progressive "
        "training (all bases train in every stage): the mean of models of the same seed, with its "
        "95 % bootstrap interval, and right the accuracies.",
    ),
}
