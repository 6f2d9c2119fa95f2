"""Accuracy per cell as a tidy frame: ours, the paper's, and why a cell is missing."""

import json
from collections.abc import Mapping, Sequence

import pandas as pd

from graphdp.paper.cells import (
    expected_cells,
    experiment_rows,
    missing_reason,
    read_published,
    study_datasets,
)
from graphdp.paper.labels import as_implemented, edge_free_methods, reading_column, reading_order
from graphdp.paper.rows import IDENTITY
from graphdp.paper.select import CELL, select_best, summarise
from graphdp.privacy.protection import canonical_epsilon, is_private, level_order, whole_nodes
from graphdp.privacy.rounding import at_most

ACCURACY_EXPERIMENT = "accuracy"
ACCURACY_COLUMNS = (
    *CELL,
    "mean",
    "ci_low",
    "ci_high",
    "n",
    "published_mean",
    "published_ci",
    "published_source",
    "epsilon_basis",
    "adjacency",
    "delta",
    "epsilon_status",
    "checkpoint",
    "noise",
    "hyperparameters",
    "settings_compared",
    "settings_incomplete",
    "missing_reason",
)
COUNTS = ("n", "settings_compared", "settings_incomplete")
FLOATS = ("mean", "ci_low", "ci_high", "published_mean", "published_ci", "delta")


def accuracy_table(rows: pd.DataFrame, context: Mapping) -> pd.DataFrame:
    """Every cell of the study's accuracy experiment, and what the paper prints for its datasets.

    Columns `ACCURACY_COLUMNS`: mean, ci_low, ci_high in percent of the test nodes, n models;
    published_mean and published_ci (half-width) only where the paper prints the same cell on the
    same dataset; the selected hyperparameters (JSON); a cell without a result has an empty mean and
    its `missing_reason`. After these, one text column per analysis (`labels.reading_column`) says
    what the cell's noise is worth under it: "4, proven", or "none" where no ε is known to hold.
    """
    cells = dict.fromkeys(expected_cells(context, ACCURACY_EXPERIMENT))
    names = set(study_datasets(context))
    printed = _published_accuracies(context)
    cells |= dict.fromkeys(cell for cell in printed if cell[0] in names)
    return _fill(_in_order(cells, study_datasets(context)), printed, rows, context)


def published_table(
    rows: pd.DataFrame, context: Mapping, artefact: str = "Table 2"
) -> pd.DataFrame:
    """The rows of a table of the paper, on the paper's datasets and on those of the study's
    accuracy experiment.

    Columns as `accuracy_table`. Cells that the paper prints and the study lacks appear with their
    reason. Where the study has a method and level at other ε than the printed one, these stand in
    its place, with nothing printed beside them.

    Under a method as its authors' code runs it stands the method as it should be, for which a paper
    prints nothing.
    """
    published = read_published(context.get("published"))
    published = published[(published["artefact"] == artefact) & (published["metric"] == "accuracy")]
    asked = expected_cells(context, ACCURACY_EXPERIMENT)
    lines: dict[tuple[str, str, str], None] = {}
    for line in published[["method", "level", "epsilon"]].drop_duplicates().itertuples(index=False):
        # A method as its authors' code runs it is followed by the method as it should be.
        for method in filter(None, (line.method, as_implemented().get(line.method))):
            budgets = [cell[3] for cell in asked if cell[1:3] == (method, line.level)]
            if not budgets or line.epsilon in budgets:
                budgets = [line.epsilon]
            lines |= dict.fromkeys((method, line.level, epsilon) for epsilon in budgets)
    asked = {cell[0] for cell in asked}
    own = [name for name in study_datasets(context) if name in asked]
    datasets = list(dict.fromkeys([*published["dataset"], *own]))
    cells = [(dataset, *line) for dataset in datasets for line in lines]
    return _fill(cells, _published_accuracies(context), rows, context)


def degree_bounds_table(rows: pd.DataFrame, context: Mapping) -> pd.DataFrame:
    """Accuracy at node level per degree bound and D, over all experiments of the study.

    Columns `ACCURACY_COLUMNS` (nothing printed), then `degree_bound` ("sampling" where the paper's
    has no name, "quantile 0.8" where D is found from the data; "" for a method that reads no edge)
    and `max_degree`, as text, "" if not given. The other hyperparameters are selected for each.
    """
    mine = [experiment_rows(rows, context, name) for name in context.get("experiments", {})]
    mine = pd.concat([rows.iloc[:0], *mine], ignore_index=True)
    mine = mine[mine["level"].map(whole_nodes).astype(bool)].drop_duplicates(list(IDENTITY))
    bound, degree, quantile = (
        mine.get(name, pd.Series(index=mine.index, dtype=object)).astype(object)
        for name in ("hp_degree_bound", "hp_max_degree", "hp_degree_quantile")
    )
    by = ["degree_bound", "max_degree"]
    bounded = degree.notna()
    counted = quantile.map(lambda q: "" if pd.isna(q) else f"quantile {q:g}").astype(object)
    mine = mine.assign(
        degree_bound=bound.where(bound.notna(), "sampling").where(bounded, counted),
        max_degree=degree.where(bounded, 0).astype("int64"),
    )
    table = summarise(select_best(mine, by)[0], by)
    ranks = {
        "dataset": lambda column: column.map(study_datasets(context).index),
        "epsilon": lambda column: column.map(float),
    }
    table = table.sort_values(
        ["dataset", "epsilon", *by], key=lambda c: ranks.get(c.name, lambda same: same)(c)
    )
    text = table["max_degree"].astype(str).where(table["max_degree"] > 0, "")
    table = table.assign(max_degree=text)
    return typed(table.reindex(columns=[*ACCURACY_COLUMNS, *by]).reset_index(drop=True))


def _published_accuracies(context: Mapping) -> dict[tuple, dict]:
    published = read_published(context.get("published"))
    published = published[(published["metric"] == "accuracy") & (published["setting"] == "")]
    cells: dict[tuple, dict] = {}
    for row in published.itertuples():
        cell = (row.dataset, row.method, row.level, row.epsilon)
        cells.setdefault(
            cell,
            {"published_mean": row.mean, "published_ci": row.ci, "published_source": row.source},
        )
    return cells


def _in_order(cells: Mapping, datasets: Sequence[str]) -> list[tuple]:
    return sorted(
        cells,
        key=lambda cell: (
            datasets.index(cell[0]),
            level_order(cell[2]),
            cell[1] in edge_free_methods(),
            cell[1],
            float(cell[3]),
        ),
    )


def _fill(
    cells: Sequence[tuple], published: Mapping, rows: pd.DataFrame, context: Mapping
) -> pd.DataFrame:
    mine = experiment_rows(rows, context, ACCURACY_EXPERIMENT)
    best, incomplete = select_best(mine)
    found = {
        tuple(line[name] for name in CELL): line for line in summarise(best).to_dict("records")
    }
    calibrated = {
        (c["dataset"], c["method"], c["level"], canonical_epsilon(c["epsilon"])): {
            "delta": c.get("delta"),
            "epsilon_basis": c.get("basis"),
            "adjacency": c.get("adjacency"),
            "epsilon_status": c.get("status"),
        }
        for c in context.get("calibrations", [])
    }
    table = []
    columns: dict[str, None] = {}
    for cell in cells:
        line = dict(zip(CELL, cell, strict=True)) | published.get(cell, {})
        if cell in found:
            readings = _readings(found[cell]["epsilons"])
            columns |= dict.fromkeys(readings)
            line |= found[cell] | readings
        else:
            reason = incomplete.get(cell) or missing_reason(cell, context)
            line |= calibrated.get(cell, {}) | {"missing_reason": reason}
        table.append(line)
    frame = pd.DataFrame(table, columns=[*ACCURACY_COLUMNS, *sorted(columns, key=reading_order)])
    # The ε of a printed number is the paper's, that of a missing model nobody's.
    bare = frame["epsilon_basis"].isna() | (frame["epsilon_basis"] == "")
    missing = (
        frame["mean"].isna()
        & frame["published_mean"].isna()
        & frame["level"].map(is_private).astype(bool)
    )
    frame["epsilon_basis"] = frame["epsilon_basis"].mask(bare, "as_published")
    frame["epsilon_basis"] = frame["epsilon_basis"].mask(bare & missing, "not_calibrated")
    return typed(frame)


def _readings(epsilons: str) -> dict[str, str]:
    """Column -> ε and status, of a model's ε under every analysis (the rows' JSON)."""
    readings = {}
    for reading in json.loads(epsilons):
        value = reading["epsilon"]
        holds = value != "none"
        column = reading_column(reading["basis"], reading["adjacency"])
        readings[column] = f"{at_most(value, 4)}, {reading['status']}" if holds else "none"
    return readings


def typed(
    frame: pd.DataFrame, floats: Sequence[str] = FLOATS, counts: Sequence[str] = COUNTS
) -> pd.DataFrame:
    """The frame with its columns' types: float64, Int64 (counts), else str ("" when empty)."""
    for name in frame.columns:
        if name in floats:
            frame[name] = pd.to_numeric(frame[name]).astype("float64")
        elif name in counts:
            frame[name] = pd.to_numeric(frame[name]).astype("Int64")
        else:
            frame[name] = frame[name].astype(object).fillna("").astype(str)
    return frame
