"""The leaderboard: all methods under one promise, and whether a graph is worth reading under it.

What stands beside every method is the network that reads no edge (of several methods the one with
the best mean): at edge level it needs no noise (ε = 0), at node level it has the same ε, adjacency
and δ.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib import cm
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from graphdp.errors import GraphDPError
from graphdp.paper import style
from graphdp.paper.accuracy import ACCURACY_COLUMNS, ACCURACY_EXPERIMENT, accuracy_table
from graphdp.paper.accuracy_words import (
    accuracy_notes,
    accuracy_text,
    claim_label,
    readings_of,
)
from graphdp.paper.cells import experiment_rows, study_datasets
from graphdp.paper.labels import edge_free_methods, method_label, method_name
from graphdp.paper.panels import FEW_SEEDS, empty_panel
from graphdp.paper.printing import Printed
from graphdp.paper.remarks import claims, claims_title, reason_of, seeds_of
from graphdp.paper.select import CELL, bootstrap_ci, select_best
from graphdp.privacy.protection import is_private, level_text

CAPTION = (
    "Accuracy on the test nodes in percent: the mean over seeds with its 95 % bootstrap interval "
    "(1,000 resamples), of the setting with the best mean validation accuracy, of as many as stand "
    "there. Over no graph: what is gained over the network that reads no edge, seed by seed on the "
    "same split, in points; more or less where its interval leaves out 0."
)
_COLOURS = "PuOr_r"
#: Points; a gain beyond has the colour of the end.
_SCALE = Normalize(-30, 30)
#: Said of a method beside the one that reads no edge, by the interval of their difference.
WORTH = {1: "more", 0: "as much", -1: "less"}
TOO_FEW = "too few models to say"
_PRINTED = ("published_mean", "published_ci", "published_source")
LEADERBOARD_COLUMNS = (
    *CELL,
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


def leaderboard_table(rows: pd.DataFrame, context: Mapping) -> pd.DataFrame:
    """The private cells of the accuracy experiment, best first within dataset, level and ε.

    Columns `LEADERBOARD_COLUMNS`, then `accuracy_table`'s ε under each analysis. rank: by the mean,
    of the cells that have one, the network that reads no edge among them; equal means share a rank.
    without_graph: mean of that network; gain, gain_low, gain_high: how much better the method is, a
    mean over pairs of one seed, which have one split, with its 95 % bootstrap interval, in points.
    worth: "more", "less" or "as much" by that interval, of at least `FEW_SEEDS` pairs.

    Raises GraphDPError where what is compared differs in its splits or in its adjacency.
    """
    table = accuracy_table(rows, context)
    # At edge level ε = 0 stands beside every ε.
    budgets = {
        (level, epsilon)
        for level, epsilon in zip(table["level"], table["epsilon"], strict=True)
        if is_private(level) and epsilon != "0"
    }
    mine = experiment_rows(rows, context, ACCURACY_EXPERIMENT)
    best, _ = select_best(mine)
    models = {cell: group.set_index("seed") for cell, group in best.groupby(list(CELL))}
    lines = []
    for dataset in study_datasets(context):
        for level, epsilon in sorted(budgets, key=lambda one: (one[0], float(one[1]))):
            here = table[(table["dataset"] == dataset) & (table["level"] == level)]
            lines += _ranked(here[here["epsilon"].isin([epsilon, "0"])], models)
    readings = [name for name in table.columns if name not in ACCURACY_COLUMNS]
    frame = pd.DataFrame(lines, columns=[*LEADERBOARD_COLUMNS, *readings])
    for name in LEADERBOARD_COUNTS:
        frame[name] = pd.to_numeric(frame[name]).astype("Int64")
    for name in LEADERBOARD_NUMBERS:
        frame[name] = pd.to_numeric(frame[name]).astype("float64")
    return frame


def _ranked(here: pd.DataFrame, models: Mapping[tuple, pd.DataFrame]) -> list[dict]:
    """The lines of one dataset, level and ε, best first, those without a result last."""
    free = here[here["method"].isin(edge_free_methods()) & here["mean"].notna()]
    alone = None if free.empty else free.sort_values("mean", ascending=False).iloc[0]
    _check_one_adjacency(here[here["mean"].notna() & (here["epsilon"] != "0")])
    here = here.assign(rank=here["mean"].rank(method="min", ascending=False))
    lines = []
    for line in here.sort_values(["rank", "method"]).to_dict("records"):
        cell = tuple(line[name] for name in CELL)
        found = {}
        if alone is not None and cell in models:
            found = {"without_graph": alone["mean"]}
            if line["method"] not in edge_free_methods():
                found |= _gain(cell, tuple(alone[list(CELL)]), models)
        lines.append({"pairs": None, "worth": ""} | line | found)
    return lines


def _gain(cell: tuple, alone: tuple, models: Mapping[tuple, pd.DataFrame]) -> dict:
    """How much better a cell's models are than those of the same seeds that read no edge."""
    ours = models[cell]
    # What an edge-free method trains without privacy is its ε = 0 at edge level.
    theirs = models.get(alone, models.get((*alone[:2], "none", "inf")))
    seeds = ours.index.intersection(theirs.index)
    for column in ("split", "study_seed", "graph"):
        if (ours.loc[seeds, column] != theirs.loc[seeds, column]).any():
            raise GraphDPError(
                f"rows of {', '.join(cell)} and of {', '.join(alone)} differ in {column}, so "
                "that models of one seed are no pairs; collect the rows of one study"
            )
    apart = 100 * (ours.loc[seeds, "test_accuracy"] - theirs.loc[seeds, "test_accuracy"])
    if apart.empty:
        return {"pairs": 0, "worth": TOO_FEW}
    gain, low, high = bootstrap_ci(apart)
    sign = 1 if low > 0 else -1 if high < 0 else 0
    worth = WORTH[sign] if len(apart) >= FEW_SEEDS else TOO_FEW
    return {
        "gain": gain, "gain_low": low, "gain_high": high, "pairs": len(apart), "worth": worth
    }  # fmt: skip


def _check_one_adjacency(cells: pd.DataFrame) -> None:
    promises = cells.groupby("adjacency")["method"].unique()
    if len(promises) > 1:
        told = "; ".join(f"{name}: {', '.join(of)}" for name, of in promises.items())
        raise GraphDPError(
            "a leaderboard compares methods under one adjacency, and its rows have several "
            f"({told}); set calibrate_for: corrected, or give each a study"
        )


def show_leaderboard(table: pd.DataFrame) -> Printed:
    """The leaderboard, one line per cell."""
    lines = [
        {
            "dataset": line["dataset"],
            "privacy": claim_label([line]),
            "rank": "" if pd.isna(line["rank"]) else str(line["rank"]),
            "method": method_label(line["method"], line["level"]),
            "accuracy, %": accuracy_text(line) or f"missing: {line['missing_reason']}",
            "models": "" if pd.isna(line["n"]) else str(line["n"]),
            "settings": "" if pd.isna(line["n"]) else str(line["settings_compared"]),
            "over no graph": gain_text(line),
            "with the graph": line["worth"],
        }
        | readings_of([line])
        for line in table.to_dict("records")
    ]
    remarks = accuracy_notes(
        table.assign(published_mean=np.nan, published_source="")
    )  # nothing printed stands here
    return Printed(CAPTION, pd.DataFrame(lines), tuple(remarks))


def gain_text(line: Mapping) -> str:
    """A gain in points with its interval, "+3.1 [2.0, 4.2]"; "" for a line without one."""
    if pd.isna(line["gain"]):
        return ""
    limits = "" if pd.isna(line["gain_low"]) else " [{gain_low:.1f}, {gain_high:.1f}]"
    return ("{gain:+.1f}" + limits).format(**line)


def leaderboard_figure(rows: pd.DataFrame, context: Mapping) -> Figure:
    """A panel per dataset and level, with a line per method, the best on the whole first, and a
    column per ε: accuracies, in the colour of what is gained over the network that reads no edge,
    which is the last line."""
    with style.theme():
        table = leaderboard_table(rows, context)
        levels = list(dict.fromkeys(table["level"]))
        places = [(dataset, level) for dataset in study_datasets(context) for level in levels]
        figure, _, titled = style.titled_panels(["" for _ in places])
        for (dataset, level), ax in zip(places, titled, strict=True):
            here = table[(table["dataset"] == dataset) & (table["level"] == level)]
            ax.set_title(f"{dataset}, {level_text(level)}")
            if here["mean"].notna().any():
                _panel(ax, here)
            else:
                empty_panel(ax, reason_of(dataset, context))
        shown = table[table["mean"].notna()]
        field = cm.ScalarMappable(_SCALE, _COLOURS)
        bar = figure.colorbar(field, ax=titled, location="bottom", aspect=50, shrink=0.6, pad=0.02)
        bar.set_label(
            "points gained over the network that reads no edge (white: none, or too few seeds)"
        )
        style.footnote(figure, claims(shown), [seeds_of(shown)] if len(shown) else [])
        return figure


def _panel(ax: Axes, here: pd.DataFrame) -> None:
    free = here["method"].isin(edge_free_methods())
    by_rank = here[~free].groupby("method")["rank"].mean().sort_values(kind="stable")
    methods = [*by_rank.index, *dict.fromkeys(here.loc[free, "method"])]
    budgets = sorted({*here["epsilon"]} - {"0"}, key=float)
    gains = np.zeros((len(methods), len(budgets)))
    for y, method in enumerate(methods):
        lines = here[here["method"] == method].set_index("epsilon")
        for x, epsilon in enumerate(budgets):
            # What needs no noise is the same beside every ε.
            line = lines.iloc[0] if "0" in lines.index else lines.loc[epsilon]
            told = WORTH[1], WORTH[-1]
            gains[y, x] = line["gain"] if line["worth"] in told else 0
            bold = "bold" if line["worth"] == WORTH[1] else "normal"
            text = "–" if pd.isna(line["mean"]) else f"{line['mean']:.1f}"
            dark = abs(gains[y, x]) > 0.65 * _SCALE.vmax
            ax.text(x, y, text, ha="center", va="center", weight=bold, color="w" if dark else "k")
    ax.imshow(gains, cmap=_COLOURS, norm=_SCALE, aspect="auto")
    ax.set_xticks(range(len(budgets)), budgets)
    ax.set_yticks(range(len(methods)), [method_name(name) for name in methods])
    ax.axhline(len(methods) - 1.5, color="0.3", linewidth=1)
    ax.set_xlabel(claims_title(here[here["mean"].notna()], "ε", details=False))
    ax.grid(False)
