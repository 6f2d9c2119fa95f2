"""Tables as functions of rows: a tidy frame for machines, and its printed form for people."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module

import pandas as pd

from graphdp import io
from graphdp.methods import registry
from graphdp.paper import printing
from graphdp.paper.accuracy import (
    COUNTS,
    FLOATS,
    accuracy_table,
    degree_bounds_table,
)
from graphdp.paper.accuracy_words import (
    accuracy_notes,
    accuracy_text,
    claim_label,
    published_text,
    reading_titles,
    readings_of,
)
from graphdp.paper.attack import read_attacks
from graphdp.paper.cells import known
from graphdp.paper.labels import method_label
from graphdp.paper.leaderboard import (
    LEADERBOARD_COUNTS,
    LEADERBOARD_NUMBERS,
    leaderboard_table,
    show_leaderboard,
)
from graphdp.paper.ordering_words import show_orderings
from graphdp.paper.orderings import (
    ORDERING_NUMBERS,
    attack_orderings_table,
    orderings_table,
)
from graphdp.paper.printing import Printed
from graphdp.paper.rows import read_rows
from graphdp.paper.scorecard import SCORECARD_NUMBERS, scorecard_table, show_scorecard
from graphdp.paper.statistics import (
    STATISTICS_NUMBERS,
    show_statistics,
    statistics_table,
)
from graphdp.privacy.protection import level_text


@dataclass(frozen=True)
class Table:
    """How to make a table: its tidy frame from rows and context, and its printed form from that."""

    title: str
    make: Callable[[pd.DataFrame, Mapping], pd.DataFrame]
    show: Callable[[pd.DataFrame], Printed]
    floats: tuple[str, ...]  # columns that are not text
    counts: tuple[str, ...] = ()
    read: Callable[..., pd.DataFrame] = read_rows
    of_attacks: bool = False  # made from the rows of attacks


def build_table(
    name: str,
    rows_csv: str | os.PathLike | None,
    context: Mapping,
    output_csv: str | os.PathLike,
    output_md: str | os.PathLike,
    output_tex: str | os.PathLike,
) -> None:
    """Write the table `name` (a key of `tables()`) as tidy CSV, Markdown and LaTeX.

    rows_csv: the rows.csv, or whatever else the table reads (`Table.read`); None for no attacks.
    """
    table = known(name, tables(), "table")
    tidy = table.make(table.read(rows_csv), context)
    printed = table.show(tidy)
    write_csv(tidy, output_csv)
    io.write_text(output_md, printing.to_markdown(printed))
    io.write_text(output_tex, printing.to_latex(printed, name))


def show_accuracy(table: pd.DataFrame) -> Printed:
    """The accuracy table, one line per cell."""
    columns = ["dataset", "method", "privacy", "accuracy, %", "models", "paper, %"]
    lines = []
    for line in table.to_dict("records"):
        lines.append(
            {
                "dataset": line["dataset"],
                "method": method_label(line["method"], line["level"]),
                "privacy": claim_label([line]),
                "accuracy, %": accuracy_text(line) or f"missing: {line['missing_reason']}",
                "models": "" if pd.isna(line["n"]) else str(line["n"]),
                "paper, %": published_text(line),
            }
            | readings_of([line])
        )
    cells = pd.DataFrame(lines, columns=[*columns, *reading_titles(table)])
    if not (cells["paper, %"] != "").any():
        cells = cells.drop(columns="paper, %")
    return Printed(_ACCURACY_CAPTION, cells, tuple(accuracy_notes(table)))


def show_degree_bounds(table: pd.DataFrame) -> Printed:
    """The table of degree bounds, one line per cell, bound and D."""
    lines = [
        {
            "dataset": line["dataset"],
            "method": method_label(line["method"], line["level"]),
            "privacy": claim_label([line]),
            "degree bound": line["degree_bound"].replace("_", " ") or "reads no edge",
            "D": line["max_degree"],
            "accuracy, %": accuracy_text(line),
            "models": str(line["n"]),
        }
        for line in table.to_dict("records")
    ]
    columns = ["dataset", "method", "privacy", "degree bound", "D", "accuracy, %", "models"]
    return Printed(
        _ACCURACY_CAPTION,
        pd.DataFrame(lines, columns=columns),
        tuple(accuracy_notes(table)),
        "No model at node level was requested in this run, or none has a result.",
    )


def show_published(table: pd.DataFrame) -> Printed:
    """A table of the paper, one line per method and ε, one column per dataset."""
    reasons = list(dict.fromkeys(table.loc[table["missing_reason"] != "", "missing_reason"]))
    lines = []
    for (method, level, _), group in table.groupby(["method", "level", "epsilon"], sort=False):
        records = group.to_dict("records")
        line = {
            "level": level_text(level),
            "method": method_label(method, level),
            "privacy": claim_label(records),
        }
        for record in records:
            reason = record["missing_reason"]
            ours = accuracy_text(record) or f"missing [{reasons.index(reason) + 1}]"
            paper = published_text(record)
            line[record["dataset"]] = f"{ours}; paper {paper}" if paper else ours
        lines.append(line | readings_of(records))
    columns = [
        "level", "method", "privacy", *dict.fromkeys(table["dataset"]), *reading_titles(table)
    ]  # fmt: skip
    footnotes = [f"[{number}] {reason}." for number, reason in enumerate(reasons, 1)]
    return Printed(
        _ACCURACY_CAPTION,
        pd.DataFrame(lines, columns=columns),
        (*footnotes, *accuracy_notes(table)),
    )


_ACCURACY_CAPTION = (
    "Accuracy on the test nodes in percent: the mean over seeds with its 95 % bootstrap interval "
    "(1,000 resamples), for the hyperparameters with the best mean validation accuracy."
)


_GENERAL: dict[str, Table] = {
    "statistics": Table("Datasets", statistics_table, show_statistics, STATISTICS_NUMBERS),
    "accuracy": Table("Accuracy", accuracy_table, show_accuracy, FLOATS, COUNTS),
    "scorecard": Table("Scorecard", scorecard_table, show_scorecard, SCORECARD_NUMBERS, COUNTS),
    "orderings": Table("Orderings", orderings_table, show_orderings, ORDERING_NUMBERS),
    "attack_orderings": Table(
        "Orderings of attacks",
        attack_orderings_table,
        show_orderings,
        ORDERING_NUMBERS,
        read=read_attacks,
        of_attacks=True,
    ),
    "degree_bounds": Table(
        "Degree bounds", degree_bounds_table, show_degree_bounds, FLOATS, COUNTS
    ),
    "leaderboard": Table(
        "Leaderboard",
        leaderboard_table,
        show_leaderboard,
        LEADERBOARD_NUMBERS,
        LEADERBOARD_COUNTS,
    ),
}


@cache
def tables() -> Mapping[str, Table]:
    """Name -> how to make it: those of all studies, and each paper's own (its method's folder)."""
    found = dict(_GENERAL)
    for module in registry.modules("figures").values():
        found |= import_module(module).TABLES
    return found


def write_csv(table: pd.DataFrame, path: str | os.PathLike) -> None:
    """Write a tidy table, atomically; missing values are empty fields."""
    with io.atomic_path(path) as temporary:
        table.to_csv(temporary, index=False, lineterminator="\n")


def read_csv(path: str | os.PathLike, name: str) -> pd.DataFrame:
    """Read the tidy form of the table `name` back with the types it had."""
    table = known(name, tables(), "table")
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    for columns, kind in ((table.floats, "float64"), (table.counts, "Int64")):
        for column in columns:
            values = frame[column].where(frame[column] != "")
            frame[column] = pd.to_numeric(values).astype(kind)
    return frame
