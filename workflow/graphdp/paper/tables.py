"""Tables as functions of rows: a tidy frame for machines, and its printed form for people."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
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
from graphdp.paper.attack import read_attacks
from graphdp.paper.cells import known
from graphdp.paper.labels import (
    covers_weights_alone,
    epsilon_label,
    method_label,
    notes,
    reading_title,
)
from graphdp.paper.orderings import (
    ORDERING_NUMBERS,
    attack_orderings_table,
    orderings_table,
    show_orderings,
)
from graphdp.paper.printing import Printed
from graphdp.paper.rows import read_rows
from graphdp.paper.scorecard import SCORECARD_NUMBERS, scorecard_table, show_scorecard
from graphdp.paper.statistics import (
    STATISTICS_NUMBERS,
    show_statistics,
    statistics_table,
)
from graphdp.privacy.protection import is_private, level_text


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
            | _readings([line])
        )
    cells = pd.DataFrame(lines, columns=[*columns, *_reading_titles(table)])
    if not (cells["paper, %"] != "").any():
        cells = cells.drop(columns="paper, %")
    return Printed(_ACCURACY_CAPTION, cells, tuple(_accuracy_notes(table)))


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
        tuple(_accuracy_notes(table)),
        "No model at node level was requested in this run, or none has a result.",
    )


def show_published(table: pd.DataFrame) -> Printed:
    """A table of the paper, one line per method and ε, one column per dataset."""
    reasons = list(dict.fromkeys(table.loc[table["missing_reason"] != "", "missing_reason"]))
    lines = []
    for (method, level, _), group in table.groupby(["method", "level", "epsilon"], sort=False):
        records = group.to_dict("records")
        line = {
            "": level_text(level) if is_private(level) else "no privacy",
            "method": method_label(method, level),
            "privacy": claim_label(records),
        }
        for record in records:
            reason = record["missing_reason"]
            ours = accuracy_text(record) or f"missing [{reasons.index(reason) + 1}]"
            paper = published_text(record)
            line[record["dataset"]] = f"{ours}; paper {paper}" if paper else ours
        lines.append(line | _readings(records))
    columns = [
        "", "method", "privacy", *dict.fromkeys(table["dataset"]), *_reading_titles(table)
    ]  # fmt: skip
    footnotes = [f"[{number}] {reason}." for number, reason in enumerate(reasons, 1)]
    return Printed(
        _ACCURACY_CAPTION,
        pd.DataFrame(lines, columns=columns),
        (*footnotes, *_accuracy_notes(table)),
    )


_ACCURACY_CAPTION = (
    "Accuracy on the test nodes in percent: the mean over seeds with its 95 % bootstrap interval "
    "(1,000 resamples), for the hyperparameters with the best mean validation accuracy."
)


def claim_label(records: Sequence[Mapping]) -> str:
    """The ε label of cells that differ in the dataset alone; what the cells with results claim."""
    claims = [r for r in records if r["adjacency"]] or records
    statuses = {r["epsilon_status"] for r in claims}
    # Of several statuses the weakest speaks for the line.
    status = next((s for s in ("refuted", "conditional", "", "proven") if s in statuses), "")
    first = claims[0]
    return epsilon_label(
        first["level"],
        first["epsilon"],
        first["epsilon_basis"],
        [r["delta"] for r in claims],
        status,
    )


def _reading_titles(table: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(filter(None, map(reading_title, table.columns))))


def _readings(records: Sequence[Mapping]) -> dict[str, str]:
    """Title -> ε under that analysis, of cells that differ in the dataset alone.

    Columns that share a title (k-neighbour adjacency, one for each k) stand in one.
    """
    readings: dict[str, dict[str, None]] = {}
    for column in records[0]:
        if title := reading_title(column):
            values = (record[column] for record in records if record[column])
            readings.setdefault(title, {}).update(dict.fromkeys(values))
    return {title: " / ".join(values) for title, values in readings.items()}


def accuracy_text(line: Mapping) -> str:
    if math.isnan(line["mean"]):
        return ""
    if math.isnan(line["ci_low"]):
        return f"{line['mean']:.1f} (one model, no interval)"
    return f"{line['mean']:.1f} [{line['ci_low']:.1f}, {line['ci_high']:.1f}]"


def published_text(line: Mapping) -> str:
    if math.isnan(line["published_mean"]):
        return ""
    half_width = "" if math.isnan(line["published_ci"]) else f" ± {line['published_ci']:.2f}"
    return f"{line['published_mean']:.1f}{half_width}"


def _weights_alone_note(cells: Sequence[Mapping]) -> str:
    """Of which cells the ε says nothing of predictions, and so of accuracies; "" if of none.

    cells: mappings with method, level and hyperparameters (JSON).
    """
    names = {
        method_label(cell["method"], cell["level"]) for cell in cells if covers_weights_alone(cell)
    }
    if not names:
        return ""
    return (
        f"{', '.join(sorted(names))}: each ε is of the weights alone; predictions read neighbours "
        "without noise, and no ε covers what they tell."
    )


def _accuracy_notes(table: pd.DataFrame) -> list[str]:
    cells = table[table["mean"].notna()].to_dict("records")
    result = [*notes(cells), *filter(None, [_weights_alone_note(cells)])]
    sources = sorted(set(table.loc[table["published_mean"].notna(), "published_source"]))
    if sources:
        result.append(
            f"Paper: {'; '.join(sources)}, beside results on the same dataset only; its ± is the "
            "half-width of a 95 % interval."
        )
    if _reading_titles(table):
        result.append(
            "The columns of ε say what the same noise is worth under each analysis, at the δ of "
            "the cell; none: no finite ε is known to hold."
        )
    checkpoints = set(table.loc[table["mean"].notna(), "checkpoint"])
    chosen = "the choice of hyperparameters"
    if "best_validation" in checkpoints:
        chosen += " and of the best epoch"
    if checkpoints:
        result.append(f"No ε counts {chosen}, made on validation labels without noise.")
    incomplete = table[table["settings_incomplete"].fillna(0) > 0]
    if len(incomplete):
        names = ", ".join(
            f"{line.dataset} {method_label(line.method, line.level)} at "
            f"{claim_label([line._asdict()])}"
            for line in incomplete.itertuples()
        )
        result.append(f"Settings with missing seeds were left out of the comparison for: {names}.")
    return result


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
