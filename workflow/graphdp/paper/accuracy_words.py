"""The words in a line of a table of accuracies, and below it."""

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from graphdp.paper.labels import (
    covers_weights_alone,
    epsilon_label,
    method_label,
    notes,
    reading_title,
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
        " / ".join(dict.fromkeys(r["adjacency"] for r in claims)),
    )


def reading_titles(table: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(filter(None, map(reading_title, table.columns))))


def readings_of(records: Sequence[Mapping]) -> dict[str, str]:
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


def accuracy_notes(table: pd.DataFrame) -> list[str]:
    cells = table[table["mean"].notna()].to_dict("records")
    result = [*notes(cells), *filter(None, [_weights_alone_note(cells)])]
    sources = sorted(set(table.loc[table["published_mean"].notna(), "published_source"]))
    if sources:
        result.append(
            f"Paper: {'; '.join(sources)}, beside results on the same dataset only; its ± is the "
            "half-width of a 95 % interval."
        )
    if reading_titles(table):
        result.append(
            "What stands of ε by analysis is what the same noise is worth under each, at the δ of "
            "the cell; none: no finite ε is known to hold."
        )
    checkpoints = set(table.loc[table["mean"].notna(), "checkpoint"])
    chosen = "the choice of hyperparameters"
    if "best_validation" in checkpoints:
        chosen += " and of the best epoch"
    if checkpoints:
        result.append(f"No ε counts {chosen}, made on validation nodes without noise.")
    incomplete = table[table["settings_incomplete"].fillna(0) > 0]
    if len(incomplete):
        names = ", ".join(
            f"{line.dataset} {method_label(line.method, line.level)} at "
            f"{claim_label([line._asdict()])}"
            for line in incomplete.itertuples()
        )
        result.append(f"Settings with missing seeds were left out of the comparison for: {names}.")
    return result
