"""The leaderboard in docs/leaderboard.md, written from shipped rows by `make redraw`."""

import json
from collections.abc import Iterator, Mapping
from functools import cache

import pandas as pd

from graphdp.audit import outcomes
from graphdp.paper.labels import (
    basis_text,
    delta_text,
    edge_free_methods,
    method_label,
    short_status,
)
from graphdp.paper.leaderboard import BETTER, OPEN, WORSE, gain_text, leaderboard_table
from graphdp.paper.shipped import shipped_context, shipped_rows
from graphdp.privacy.protection import level_text
from graphdp.privacy.rounding import at_most

ROWS, CONFIG = "leaderboard-rows.csv.gz", "config/studies/leaderboard.yaml"
#: The ε of `labels`.
_SHOWN = {"edge": "4", "node": "8"}


def board(level: str) -> pd.DataFrame:
    """`leaderboard_table` of a level, of what has a result."""
    table = _table()
    return table[(table["level"] == level) & table["mean"].notna()]


@cache
def _table() -> pd.DataFrame:
    found = shipped_rows(ROWS)
    asked = shipped_context(CONFIG, list(dict.fromkeys(found["dataset"])))
    return leaderboard_table(found, asked)


def gains(level: str) -> Iterator[str]:
    """The lines of a table: what every method gains over the network that reads no edge, by ε."""
    table = board(level)
    budgets = list(dict.fromkeys(table["at_epsilon"]))
    yield f"| graph, δ | | {' | '.join(f'ε = {budget}' for budget in budgets)} |"
    yield "| --- " * (2 + len(budgets)) + "|"
    for graph in dict.fromkeys(table["dataset"]):
        here = table[table["dataset"] == graph]
        head = f"{graph}, {delta_text(here['delta'].max())}"
        free = here["method"].isin(edge_free_methods())
        for method in [*_in_order(here[~free]), *_in_order(here[free])]:
            lines = here[here["method"] == method].set_index("at_epsilon").to_dict("index")
            told = (_told(lines.get(budget)) for budget in budgets)
            yield f"| {head} | {method_label(method, level)} | {' | '.join(told)} |"
            head = ""


def _in_order(here: pd.DataFrame) -> list[str]:
    return list(here.groupby("method")["rank"].mean().sort_values(kind="stable").index)


def _told(line: Mapping | None) -> str:
    if line is None:
        return "–"
    return gain_text(line) or f"{line['mean']:.1f} % itself"


def labels(level: str) -> Iterator[str]:
    """The lines of a table: one ε of each method under every analysis of the same noise, what
    attacks reach of it, and of how many settings it is the best, on the first graph."""
    table = board(level)
    budget, graph = _SHOWN[level], table["dataset"].iloc[0]
    here = table[(table["dataset"] == graph) & (table["epsilon"] == budget)]
    rows = shipped_rows(ROWS)
    rows = rows[(rows["dataset"] == graph) & (rows["level"] == level)]
    rows = rows[rows["epsilon"] == budget]
    bases = ("as_published", "as_implemented", "corrected")
    yield f"| {graph} | {' | '.join(map(basis_text, bases))} | audited | settings |"
    yield "| --- " * (3 + len(bases)) + "|"
    for line in here.sort_values("method").to_dict("records"):
        chosen = rows[rows["method"] == line["method"]]
        chosen = chosen[chosen["hyperparameters"] == line["hyperparameters"]]
        analyses = json.loads(chosen["epsilons"].iloc[0])
        told = [_analysed(analyses, basis) for basis in bases]
        told.append(_audited(line["method"], level, line["adjacency"]))
        told.append(str(line["settings_compared"]))
        yield f"| {method_label(line['method'], level)} | {' | '.join(told)} |"


def _analysed(analyses: list[dict], basis: str) -> str:
    told = []
    for analysis in analyses:
        if analysis["basis"] == basis:
            value = analysis["epsilon"]
            value = "none" if value == "none" else at_most(value, 3)
            told.append(f"{value} ({analysis['adjacency']}, {short_status(analysis['status'])})")
    return "; ".join(told) or "–"


def _audited(method: str, level: str, adjacency: str) -> str:
    found = [
        one["lower_bound"] / one["claimed_epsilon"]
        for one in outcomes.shipped()
        if (one["method"], one["level"], one["claimed_adjacency"]) == (method, level, adjacency)
        and one["adjacency"] == adjacency
        and one["status"] != "refuted"
    ]
    if not found:
        return f"not attacked for {adjacency}"
    claims = "1 claim" if len(found) == 1 else f"{len(found)} claims"
    return f"{claims}, at most {100 * max(found):.0f} % reached"


def takes(level: str) -> Iterator[str]:
    """The lines of a table: CPU seconds of a model, and how often each value of what was searched
    is in the setting that validation chooses, over graphs and ε."""
    rows, table = shipped_rows(ROWS), board(level)
    yield "| | CPU s | chosen, in so many of the cells |"
    yield "| --- | --- | --- |"
    for method in sorted(set(table["method"])):
        mine = rows[(rows["method"] == method) & (rows["level"] == level)]
        if mine.empty:
            continue
        tried = pd.DataFrame([json.loads(text) for text in mine["hyperparameters"].unique()])
        chosen = table[(table["method"] == method)]["hyperparameters"].map(json.loads)
        told = []
        for name in (one for one in tried if tried[one].nunique(dropna=False) > 1):
            # A setting that lacks what others have is without it, as of dropout.
            found = pd.Series([setting.get(name) for setting in chosen])
            counts = found.value_counts(dropna=False).sort_index()
            values = (
                f"{'none' if pd.isna(value) else value} ({count})"
                for value, count in counts.items()
            )
            told.append(f"`{name}` {', '.join(values)}")
        seconds = pd.to_numeric(mine["cpu_seconds"]).mean()
        yield f"| {method_label(method, level)} | {seconds:.1f} | {'; '.join(told) or '–'} |"


def said() -> Iterator[str]:
    """A line for each level: how many cells are better, not told apart or worse than the network
    that reads no edge, and the most that is gained."""
    for level in ("edge", "node"):
        table = board(level)
        mine = table[table["gain"].notna()]
        counts = mine["worth"].value_counts()
        most = mine.sort_values("gain", ascending=False).iloc[0]
        graphs = " and ".join(dict.fromkeys(mine["dataset"]))
        told = ", ".join(f"{counts.get(worth, 0)} {worth}" for worth in (BETTER, OPEN, WORSE))
        label = f"δ = {delta_text(most['delta'])}, {short_status(most['epsilon_status'])}"
        yield (
            f"- {level_text(level)} ({most['adjacency']}; {graphs}): beside the network that reads "
            f"no edge {told} (of {len(mine)} cells); the largest gain is {gain_text(most)} points, "
            f"by {method_label(most['method'], level)} on {most['dataset']} "
            f"at ε = {most['epsilon']} ({label})."
        )
