"""Tables of accuracies that several of the documentation's pages have, from shipped rows."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pandas as pd

from graphdp.paper.accuracy import accuracy_table
from graphdp.paper.accuracy_words import accuracy_text
from graphdp.paper.labels import delta_text
from graphdp.paper.orderings import orderings_table
from graphdp.paper.shipped import shipped_context, shipped_rows
from graphdp.privacy.protection import is_private

Place = tuple[str, str]  # level, ε


def shipped_cells(rows: str, config: str, graphs: Sequence[str]) -> pd.DataFrame:
    """`accuracy_table` of what has a result, by dataset, method, level and ε."""
    table = accuracy_table(shipped_rows(rows), shipped_context(config, graphs))
    table = table[table["mean"].notna()]
    return table.set_index(["dataset", "method", "level", "epsilon"]).sort_index()


def shipped_orderings(rows: str, config: str, graphs: Sequence[str]) -> pd.DataFrame:
    """`orderings_table` of these graphs: what the paper claims, and whether it holds."""
    return orderings_table(shipped_rows(rows), shipped_context(config, graphs))


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: "a, b and c", "none" of none."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else "none"


def expected_table(measure: str, lines: Iterable[tuple[str, str, pd.Series]]) -> Iterator[str]:
    """A table of docs/artifact.md: what is claimed, its line of a table that a command makes, and
    the values of its models in percent, of which it says the number, the mean and a tolerance.

    The tolerance, for another seed or another machine's rounding, is three standard deviations of
    the difference of two such means.
    """
    yield f"| | line of the table | models | expected{measure}, % | tolerance |"
    yield "| --- | --- | --- | --- | --- |"
    for what, line, values in lines:
        tolerance = 3 * values.std() * math.sqrt(2 / len(values))
        yield f"| {what} | {line} | {len(values)} | {values.mean():.1f} | {tolerance:.1f} |"


def where_it_stands(table: str, jobs: pd.DataFrame, kind: str) -> str:
    """Below it: where the command writes that table, and what its models or attacks took."""
    minutes, memory = jobs["cpu_seconds"].sum() / 60, jobs["peak_rss_mb"].max()
    return (
        f"The table is `results/{jobs['study'].iloc[0]}/tables/{table}.md`. CPU time of its "
        f"{len(jobs):,} {kind}: {minutes:.0f} minutes; memory of a job: {memory:,.0f} MB."
    )


def method_lines(
    cells: pd.DataFrame, graphs: Sequence[str], methods: Mapping[str, str], places: Sequence[Place]
) -> Iterator[str]:
    """A table with a line per graph and method, and a column per level and ε.

    cells: as `shipped_cells`. methods: what a line is called -> its method. A line without a result
    is left out; each column says "target" where a cell's claim is refuted.
    """
    private = [place for place in places if is_private(place[0])]
    shown = cells[
        [name in set(methods.values()) for name in cells.index.get_level_values("method")]
    ]
    shown = shown[[key[2:] in private for key in shown.index]]
    target = "target " if (shown["epsilon_status"] == "refuted").any() else ""
    names = [f"{target}ε = {e}" if is_private(level) else "ε = ∞" for level, e in places]
    yield f"| graph, δ | | {' | '.join(names)} |"
    yield "| --- " * (2 + len(places)) + "|"
    for graph in graphs:
        first = f"{graph}, {delta_text(shown.loc[graph]['delta'].max())}"
        for title, method in methods.items():
            found = [
                accuracy_text(cells.loc[cell]) if cell in cells.index else ""
                for cell in ((graph, method, *place) for place in places)
            ]
            if any(found):
                yield f"| {first} | {title} | {' | '.join(text or '–' for text in found)} |"
                first = ""
