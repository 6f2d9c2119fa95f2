"""Tables of accuracies that several of the documentation's pages have, from shipped rows."""

import math
from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from graphdp.paper.accuracy import accuracy_table
from graphdp.paper.accuracy_words import accuracy_text
from graphdp.paper.labels import delta_text
from graphdp.paper.shipped import shipped_context, shipped_rows
from graphdp.privacy.protection import is_private

Place = tuple[str, str]  # level, ε


def shipped_cells(rows: str, config: str, graphs: Sequence[str]) -> pd.DataFrame:
    """`accuracy_table` of what has a result, by dataset, method, level and ε."""
    table = accuracy_table(shipped_rows(rows), shipped_context(config, graphs))
    table = table[table["mean"].notna()]
    return table.set_index(["dataset", "method", "level", "epsilon"]).sort_index()


def expected_cell(values: pd.Series) -> str:
    """Models, mean and tolerance, as docs/artifact.md's tables have them. values: in percent.

    The tolerance, for another seed or another machine's rounding, is three standard deviations of
    the difference of two such means.
    """
    tolerance = 3 * values.std() * math.sqrt(2 / len(values))
    return f"{len(values)} | {values.mean():.1f} | {tolerance:.1f}"


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
