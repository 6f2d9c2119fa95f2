"""How much of a paper's grid has been run: models by experiment and graph; how near to print."""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from graphdp.config import Study
from graphdp.methods.settings import key
from graphdp.paper.scorecard import scorecard_table
from graphdp.workflow.grid import Cell, Grid

#: A cell is as printed if it is no further off, in percentage points.
NEAR = 2.5


def coverage(study: Study, rows: pd.DataFrame, attacks: pd.DataFrame | None = None) -> pd.DataFrame:
    """Of each experiment and attack on each graph of a study, in its order.

    rows, attacks: as `read_rows` and `read_attacks` give them (None: no attack was run). Columns:
    experiment, dataset (str); settings that it asks for and no earlier experiment trains, run, how
    many of them have a model, and the least and most models that one of these has (int64); left,
    CPU seconds that the models which are not there would take at the mean of those of the same
    graph, method and level (float64; NaN where there is none of a kind).
    """
    grid = Grid(study)
    parts = [rows] if attacks is None else [rows, attacks]
    found = {name: n for part in parts for name, n in _models(part).items()}
    costs = [_costs(part) for part in parts]
    lines: dict[tuple[str, str], dict[str, Any]] = {}
    for cell in (*grid.cells, *grid.attacked):
        line = lines.setdefault(
            (cell.experiment, cell.dataset), {"settings": 0, "seeds": [], "left": 0.0}
        )
        seeds = [found.get(_name(cell, setting), 0) for setting in cell.settings]
        line["settings"] += len(seeds)
        line["seeds"] += [n for n in seeds if n]
        asked = study.seeds_of(cell.experiment)
        if missing := sum(max(0, asked - n) for n in seeds):
            cost = costs[-1 if cell.experiment in study.attacks else 0]
            kind = (cell.dataset, cell.method, cell.level)
            line["left"] += missing * cost.get(kind, math.nan)
    table = [
        {
            "experiment": experiment,
            "dataset": dataset,
            "settings": line["settings"],
            "run": len(line["seeds"]),
            "least": min(line["seeds"], default=0),
            "most": max(line["seeds"], default=0),
            "left": line["left"],
        }
        for (experiment, dataset), line in lines.items()
    ]
    names = list(study.experiments) + list(study.attacks)
    frame = pd.DataFrame(table)
    order = frame["experiment"].map(names.index)
    return frame.assign(order=order).sort_values("order", kind="stable").drop(columns="order")


def lines_of(table: pd.DataFrame, artefacts: Mapping[str, str]) -> Iterator[str]:
    """Lines of Markdown of `coverage`: an experiment a line, graphs of which as much has been run
    together. artefacts: experiment -> the paper's tables and figures that it is for."""
    yield "| for | experiment | graphs | settings run | seeds | left, CPU time |"
    yield "| --- " * 6 + "|"
    for experiment, group in table.groupby("experiment", sort=False):
        first = f"{artefacts.get(experiment, '')} | `{experiment}`"
        for (run, settings, least, most), mine in group.groupby(
            ["run", "settings", "least", "most"], sort=False
        ):
            names = list(mine["dataset"])
            told = (
                ", ".join(names) if len(names) <= 4 else f"{len(names)} ({names[0]} to {names[-1]})"
            )
            seeds = "–" if not run else f"{least}" if least == most else f"{least} to {most}"
            left = _time(mine["left"].sum(skipna=False))
            yield f"| {first} | {told} | {run} of {settings} | {seeds} | {left} |"
            first = "|"


def near_print(rows: pd.DataFrame, context: Mapping) -> tuple[int, int]:
    """(cells of the accuracy experiment within `NEAR` points of print, cells that have both)."""
    apart = scorecard_table(rows, context)["difference"].dropna().abs()
    return int((apart <= NEAR).sum()), len(apart)


def _time(seconds: float) -> str:
    if math.isnan(seconds):
        return "not known"
    minutes = seconds / 60
    return "–" if not seconds else f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def _costs(rows: pd.DataFrame) -> dict[tuple, float]:
    """Mean CPU seconds of a model by dataset, method and level."""
    return rows.groupby(["dataset", "method", "level"])["cpu_seconds"].mean().to_dict()


def _models(rows: pd.DataFrame) -> dict[tuple, int]:
    """Models by dataset, method, level, ε and setting."""
    named = rows.assign(hyperparameters=[key(json.loads(h)) for h in rows["hyperparameters"]])
    columns = ["dataset", "method", "level", "epsilon", "hyperparameters"]
    return named.groupby(columns)["seed"].nunique().to_dict()


def _name(cell: Cell, setting: Mapping[str, Any]) -> tuple:
    return cell.dataset, cell.method, cell.level, cell.epsilon, key(dict(setting))
