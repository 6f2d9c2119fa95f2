"""The leaderboard: all methods under one promise, and whether a graph is worth reading under it.

Beside every method stands the network that reads no edge (of several the one with the best mean
validation accuracy): at edge level it needs no noise (ε = 0), at node level it has the same ε,
adjacency and δ. What is refuted, or predicts without noise, is not compared.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib import cm
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from scipy import stats

from graphdp.errors import GraphDPError
from graphdp.paper import style
from graphdp.paper.accuracy import (
    ACCURACY_COLUMNS,
    ACCURACY_EXPERIMENT,
    accuracy_table,
    typed,
)
from graphdp.paper.accuracy_words import (
    accuracy_notes,
    accuracy_text,
    claim_label,
    readings_of,
)
from graphdp.paper.cells import experiment_rows, study_datasets
from graphdp.paper.labels import (
    covers_weights_alone,
    delta_text,
    edge_free_methods,
    method_label,
    method_name,
)
from graphdp.paper.panels import FEW_SEEDS, draw_fields, empty_panel
from graphdp.paper.printing import Printed
from graphdp.paper.remarks import claims, claims_title, reason_of, seeds_of
from graphdp.paper.select import CELL, select_best
from graphdp.privacy.protection import is_private, level_order, level_text

CAPTION = (
    "Accuracy on the test nodes in percent: the mean over seeds with its 95 % bootstrap interval "
    "(1,000 resamples), of the setting with the best mean validation accuracy, of as many as stand "
    "there. Over no graph: what is gained over the network that reads no edge, in points, with the "
    "95 % interval of Student's t over pairs of one seed and split; better or worse where that is "
    "apart from 0. Of cells without any difference one in forty would be called better by chance, "
    "and one in forty worse."
)
BETTER, WORSE, OPEN = "better", "worse", "not told apart"
TOO_FEW = "too few models to say"
#: Cells that are not compared.
REFUTED, WEIGHTS_ALONE = "claim refuted", "predictions without noise"
_NOT_COMPARED = (REFUTED, WEIGHTS_ALONE)
_PRINTED = ("published_mean", "published_ci", "published_source")
LEADERBOARD_COLUMNS = (
    *CELL,
    "at_epsilon",
    "rank",
    *(name for name in ACCURACY_COLUMNS if name not in (*CELL, *_PRINTED)),
    "without_graph",
    "gain",
    "gain_low",
    "gain_high",
    "pairs",
    "worth",
)
LEADERBOARD_NUMBERS = (
    *("mean", "ci_low", "ci_high", "delta"),
    *("without_graph", "gain", "gain_low", "gain_high"),
)
LEADERBOARD_COUNTS = ("rank", "n", "settings_compared", "settings_incomplete", "pairs")
_COLOURS = "PuOr_r"
#: Points; a gain beyond has the colour of the end.
_SCALE = Normalize(-20, 20)
_SIGNS = {BETTER: " ▲", WORSE: " ▼"}


def leaderboard_table(rows: pd.DataFrame, context: Mapping) -> pd.DataFrame:
    """The private cells of the accuracy experiment, best first within dataset, level and ε.

    Columns `LEADERBOARD_COLUMNS`, then `accuracy_table`'s ε under each analysis. at_epsilon: where
    it is compared: ε = 0 stands beside every ε of its level. rank: by the mean, of the cells that
    are compared, the network that reads no edge among them; equal means share a rank.
    without_graph: mean of that network; gain, gain_low, gain_high: how much better the method is in
    points, the mean over `pairs` of one seed and split with its 95 % interval (`paired`). worth:
    `BETTER`, `WORSE` or `OPEN` by that interval, `TOO_FEW` of less than `FEW_SEEDS` pairs, or why
    the cell is not compared.

    Raises GraphDPError where what is compared differs in its splits, its adjacency or its δ.
    """
    table = accuracy_table(rows, context)
    best, _ = select_best(experiment_rows(rows, context, ACCURACY_EXPERIMENT))
    models = {cell: group.set_index("seed") for cell, group in best.groupby(list(CELL))}
    lines = []
    for dataset in study_datasets(context):
        here = table[table["dataset"] == dataset]
        for level, epsilon in _budgets(table):
            mine = here[(here["level"] == level) & here["epsilon"].isin([epsilon, "0"])]
            lines += _ranked(mine.assign(at_epsilon=epsilon), models)
    readings = [name for name in table.columns if name not in ACCURACY_COLUMNS]
    frame = pd.DataFrame(lines, columns=[*LEADERBOARD_COLUMNS, *readings])
    return typed(frame, LEADERBOARD_NUMBERS, LEADERBOARD_COUNTS)


def paired(apart: pd.Series) -> tuple[float, float, float]:
    """Mean of differences and its 95 % interval by Student's t; NaN limits for fewer than two.

    Of ten or five normal differences around 0 it leaves out 0 in 5 % of cases, a percentile
    bootstrap in some 10 and 15.
    """
    mean = float(apart.mean())
    if len(apart) < 2:
        return mean, float("nan"), float("nan")
    half = float(stats.sem(apart) * stats.t.ppf(0.975, len(apart) - 1))
    return mean, mean - half, mean + half


def _budgets(table: pd.DataFrame) -> list[tuple[str, str]]:
    """Every (level, ε > 0) of the private cells, in order."""
    private = table[table["level"].map(is_private).astype(bool) & (table["epsilon"] != "0")]
    found = {*private[["level", "epsilon"]].itertuples(index=False, name=None)}
    return sorted(found, key=lambda one: (level_order(one[0]), float(one[1])))


def _ranked(here: pd.DataFrame, models: Mapping[tuple, pd.DataFrame]) -> list[dict]:
    """The lines of one dataset, level and ε, best first; then what is not compared or missing."""
    here = here.assign(worth=[_not_compared(line) for line in here.to_dict("records")])
    compared = here[(here["worth"] == "") & here["mean"].notna()]
    _check_alike(compared[compared["epsilon"] != "0"])
    here = here.assign(rank=compared["mean"].rank(method="min", ascending=False))
    free = [cell for cell in _cells(compared) if cell[1] in edge_free_methods()]
    alone = max(free, key=lambda cell: _of(cell, models)["val_accuracy"].mean(), default=None)
    lines = []
    for line, cell in zip(here.to_dict("records"), _cells(here), strict=True):
        beside = {}
        if alone and line["worth"] == "" and cell in models:
            beside = _gain(cell, alone, models)
        lines.append({"pairs": None} | line | beside)
    last = len(lines) + 1
    return sorted(
        lines, key=lambda one: (last if pd.isna(one["rank"]) else one["rank"], one["method"])
    )


def _cells(table: pd.DataFrame) -> list[tuple]:
    return list(table[list(CELL)].itertuples(index=False, name=None))


def _not_compared(line: Mapping) -> str:
    if line["epsilon_status"] == "refuted":
        return REFUTED
    return WEIGHTS_ALONE if line["hyperparameters"] and covers_weights_alone(line) else ""


def _of(cell: tuple, models: Mapping[tuple, pd.DataFrame]) -> pd.DataFrame:
    """The models of a cell; what an edge-free method trains without privacy is its ε = 0."""
    return models[cell] if cell in models else models[(*cell[:2], "none", "inf")]


def _gain(cell: tuple, alone: tuple, models: Mapping[tuple, pd.DataFrame]) -> dict:
    """How much better a cell's models are than those of the same seeds that read no edge."""
    ours, theirs = models[cell], _of(alone, models)
    seeds = ours.index.intersection(theirs.index)
    without = 100 * theirs.loc[seeds, "test_accuracy"]
    if cell[1] in edge_free_methods():
        return {"without_graph": without.mean()}
    for column in ("split", "study_seed", "graph"):
        if (ours.loc[seeds, column] != theirs.loc[seeds, column]).any():
            raise GraphDPError(
                f"rows of {', '.join(cell)} and of {', '.join(alone)} differ in {column}, so "
                "that models of one seed are no pairs; collect the rows of one study"
            )
    if seeds.empty:
        return {"pairs": 0, "worth": TOO_FEW}
    gain, low, high = paired(100 * ours.loc[seeds, "test_accuracy"] - without)
    worth = BETTER if low > 0 else WORSE if high < 0 else OPEN
    return {
        "without_graph": without.mean(),
        "gain": gain,
        "gain_low": low,
        "gain_high": high,
        "pairs": len(seeds),
        "worth": worth if len(seeds) >= FEW_SEEDS else TOO_FEW,
    }


def _check_alike(cells: pd.DataFrame) -> None:
    for column, fix in (
        ("adjacency", "set calibrate_for: corrected, or give each a study"),
        ("delta", "set one delta"),
    ):
        promises = cells.groupby(column)["method"].unique()
        if len(promises) > 1:
            told = "; ".join(
                f"{delta_text(value) if column == 'delta' else value}: {', '.join(of)}"
                for value, of in promises.items()
            )
            raise GraphDPError(
                f"a leaderboard compares methods under one {column}, and its rows have several "
                f"({told}); {fix}"
            )


def show_leaderboard(table: pd.DataFrame) -> Printed:
    """The leaderboard, one line per cell."""
    lines = [
        {
            "dataset": line["dataset"],
            "at target ε": line["at_epsilon"],
            "rank": "" if pd.isna(line["rank"]) else str(line["rank"]),
            "method": method_label(line["method"], line["level"]),
            "privacy": claim_label([line]),
            "accuracy, %": accuracy_text(line) or f"missing: {line['missing_reason']}",
            "models": "" if pd.isna(line["n"]) else str(line["n"]),
            "settings": "" if pd.isna(line["n"]) else str(line["settings_compared"]),
            "over no graph": gain_text(line),
            "with the graph": line["worth"],
        }
        | readings_of([line])
        for line in table.to_dict("records")
    ]
    # Nothing printed stands here.
    remarks = accuracy_notes(table.assign(published_mean=np.nan, published_source=""))
    return Printed(CAPTION, pd.DataFrame(lines), tuple(remarks))


def gain_text(line: Mapping) -> str:
    """A gain in points with its interval, "+3.1 [2.0, 4.2]"; "" for a line without one. A gain that
    rounds to 0 has no sign. A limit that is not 0 is not written as 0.0, so that the text says on
    which side of 0 it is."""
    if pd.isna(line["gain"]):
        return ""
    gain = f"{line['gain']:+z.1f}".replace("+0.0", "0.0")
    if pd.isna(line["gain_low"]):
        return gain
    return f"{gain} [{_limit_text(line['gain_low'])}, {_limit_text(line['gain_high'])}]"


def _limit_text(limit: float) -> str:
    """With one decimal, near 0 with as many as it takes to be told from it."""
    texts = (f"{limit:z.{decimals}f}" for decimals in range(1, 10))
    return next((text for text in texts if float(text) != 0), "0.0")


def leaderboard_figure(rows: pd.DataFrame, context: Mapping) -> Figure:
    """A panel per dataset and level, with a line per method that is compared, the best on the whole
    first, and a column per ε: accuracies, in the colour of what is gained over the network that
    reads no edge, which is the last line."""
    with style.theme():
        table = leaderboard_table(rows, context)
        # Without a private cell a panel says for each dataset why.
        levels = list(dict.fromkeys(table["level"])) or [""]
        places = [(dataset, level) for dataset in study_datasets(context) for level in levels]
        titles = [f"{d}, {level_text(level)}" if level else d for d, level in places] or [""]
        figure, _, titled = style.titled_panels(titles)
        if not places:
            empty_panel(titled[0], "the study names no dataset")
        for (dataset, level), ax in zip(places, titled, strict=False):
            here = table[(table["dataset"] == dataset) & (table["level"] == level)]
            here = here[~here["worth"].isin(_NOT_COMPARED)]
            if here["mean"].notna().any():
                _panel(ax, here)
            else:
                empty_panel(ax, reason_of(dataset, context))
        field = cm.ScalarMappable(_SCALE, _COLOURS)
        bar = figure.colorbar(
            field, ax=titled, location="bottom", aspect=50, shrink=0.6, pad=0.02, extend="both"
        )
        bar.set_label("points gained over the network that reads no edge, where told apart")
        told = table[table["mean"].notna() & (table["epsilon"] != "0")]
        shown = told[~told["worth"].isin(_NOT_COMPARED)]
        left = told[told["worth"].isin(_NOT_COMPARED)]
        said = [
            "▲ better, ▼ worse than the network that reads no edge (95 % interval over pairs), no "
            "sign: not told apart",
            *(claims(shown) if len(shown) else []),
        ]
        also = [seeds_of(shown)] if len(shown) else []
        for why, cells in left.groupby("worth"):
            names = dict.fromkeys(map(method_label, cells["method"], cells["level"]))
            also.append(f"left out, {why}: {', '.join(names)}")
        style.footnote(figure, said, also)
        return figure


def _panel(ax: Axes, here: pd.DataFrame) -> None:
    budgets = list(dict.fromkeys(here["at_epsilon"]))
    cells = here.set_index(["method", "at_epsilon"])
    # Without a result a method is last.
    ranks = here["rank"].astype("float64").fillna(len(cells))
    by_rank = ranks.groupby(here["method"]).mean().sort_values(kind="stable").index
    free = [method for method in by_rank if method in edge_free_methods()]
    methods = [*(method for method in by_rank if method not in free), *free]
    gains = np.full((len(methods), len(budgets)), np.nan)
    texts = [["–"] * len(budgets) for _ in methods]
    for (method, budget), line in cells[cells["mean"].notna()].iterrows():
        y, x = methods.index(method), budgets.index(budget)
        gains[y, x] = line["gain"] if line["worth"] in _SIGNS else 0
        texts[y][x] = f"{line['mean']:.1f}{_SIGNS.get(line['worth'], '')}"
    dark = np.abs(gains) > 0.65 * _SCALE.vmax
    draw_fields(ax, gains, texts, dark, cmap=_COLOURS, norm=_SCALE)
    ax.set_xticks(range(len(budgets)), budgets)
    needs_none = set(here.loc[here["epsilon"] == "0", "method"])
    ax.set_yticks(
        range(len(methods)),
        [
            f"{method_label(name, here['level'].iloc[0])}{' (ε = 0)' if name in needs_none else ''}"
            if name in free
            else method_name(name)
            for name in methods
        ],
    )
    if free and len(free) < len(methods):
        ax.axhline(len(methods) - len(free) - 0.5, color="0.3", linewidth=1)
    paid = here[here["mean"].notna() & (here["epsilon"] != "0")]
    ax.set_xlabel(claims_title(paid, "ε", details=False))
