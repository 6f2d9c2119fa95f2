"""How much of a paper's grid has been run: models by experiment and graph; what the rest would
take; how near to print."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from graphdp.config import Study
from graphdp.methods.settings import key
from graphdp.paper.costs import Costs, Kind, is_dearer
from graphdp.paper.scorecard import scorecard_table
from graphdp.workflow.grid import Cell, Grid

#: A cell is as printed if it is no further off, in percentage points.
NEAR = 2.5


def coverage(
    study: Study,
    rows: pd.DataFrame,
    attacks: pd.DataFrame | None = None,
    costs: Costs | None = None,
) -> pd.DataFrame:
    """Of each experiment and attack on each graph of a study, in its order.

    rows, attacks: as `read_rows` and `read_attacks` give them (None: no attack was run). costs: of
    the sources "<study>" and "<study>, attacks", and of others that estimate what neither has
    (None: of these rows and attacks alone). Columns: experiment, dataset (str); settings that it
    asks for and no earlier experiment trains, run, how many of them have a model, and the least and
    most models that one of these has (int64); left, CPU seconds that the models which are not there
    would take (float64; NaN where nothing tells), rough, whether some are estimated from other
    graphs, and more, whether some take more than that (bool).
    """
    grid = Grid(study)
    parts = [rows] if attacks is None else [rows, attacks]
    found = {name: n for part in parts for name, n in _models(part).items()}
    sources = [study.study, f"{study.study}, attacks"]
    costs = costs or Costs(dict(zip(sources, parts, strict=False)))
    lines: dict[tuple[str, str], dict[str, Any]] = {}
    for cell in (*grid.cells, *grid.attacked):
        line = lines.setdefault(
            (cell.experiment, cell.dataset),
            {"settings": 0, "seeds": [], "left": 0.0, "rough": False, "more": False},
        )
        seeds = [found.get(_name(cell, setting), 0) for setting in cell.settings]
        line["settings"] += len(seeds)
        line["seeds"] += [n for n in seeds if n]
        asked = study.seeds_of(cell.experiment)
        graph, source = cell.dataset, sources[cell.experiment in study.attacks]
        if not costs.knows(graph):
            graph = study.definitions.get(graph, {}).get("base", graph)
        for setting, n in zip(cell.settings, seeds, strict=True):
            if missing := max(0, asked - n):
                kind = Kind(source, cell.method, cell.level, is_dearer(setting))
                seconds, rough = costs.of(kind, graph)
                if kind.dearer and rough:
                    # How much dearer depends on the graph: by its features.
                    line["more"] = True
                    if math.isnan(seconds):
                        seconds, rough = costs.of(kind._replace(dearer=False), graph)
                line["left"] += missing * seconds
                line["rough"] |= rough
    table = [
        {
            "experiment": experiment,
            "dataset": dataset,
            "settings": line["settings"],
            "run": len(line["seeds"]),
            "least": min(line["seeds"], default=0),
            "most": max(line["seeds"], default=0),
            "left": line["left"],
            "rough": line["rough"],
            "more": line["more"],
        }
        for (experiment, dataset), line in lines.items()
    ]
    names = list(study.experiments) + list(study.attacks)
    frame = pd.DataFrame(table)
    order = frame["experiment"].map(names.index)
    return frame.assign(order=order).sort_values("order", kind="stable").drop(columns="order")


def lines_of(table: pd.DataFrame, artefacts: Mapping[str, str]) -> Iterator[str]:
    """Lines of Markdown of `coverage`: an experiment a line, graphs of which as much has been run
    together, and those of which nothing has been run in one line at the end. artefacts: experiment
    -> the paper's tables and figures that it is for."""
    yield "| for | experiment | graphs | settings run | seeds | left, CPU time |"
    yield "| --- " * 6 + "|"
    run = table.groupby("dataset")["run"].transform("sum") > 0
    for experiment, group in table[run].groupby("experiment", sort=False):
        first = f"{artefacts.get(experiment, '')} | `{experiment}`"
        for (run_here, settings, least, most), mine in group.groupby(
            ["run", "settings", "least", "most"], sort=False
        ):
            seeds = "–" if not run_here else f"{least}" if least == most else f"{least} to {most}"
            shown = f"{run_here} of {settings} | {seeds} | {_left(mine)}"
            yield f"| {first} | {_listed(mine['dataset'])} | {shown} |"
            first = "|"
    whole = table[~run].groupby("dataset", sort=False)
    sizes = whole["settings"].sum()
    for settings in dict.fromkeys(sizes):
        names = list(sizes.index[sizes == settings])
        for known in (True, False):
            told = [n for n in names if whole.get_group(n)["left"].notna().all() == known]
            if told:
                mine = table[table["dataset"].isin(told)]
                yield f"| all | all | {_listed(told)} | 0 of {settings:,} | – | {_left(mine)} |"


def _listed(names: Sequence[str]) -> str:
    names = list(names)
    return ", ".join(names) if len(names) <= 4 else f"{len(names)} ({names[0]} to {names[-1]})"


def _left(table: pd.DataFrame) -> str:
    told = _time(table["left"].sum(skipna=False))
    if not table["left"].any() or table["left"].isna().any():
        return told
    about = "about " if table["rough"].any() else ""
    return f"{'more than ' if table['more'].any() else ''}{about}{told}"


def near_print(rows: pd.DataFrame, context: Mapping) -> tuple[int, int]:
    """(cells of the accuracy experiment within `NEAR` points of print, cells that have both)."""
    apart = beside_print(rows, context)["difference"].abs()
    return int((apart <= NEAR).sum()), len(apart)


def beside_print(rows: pd.DataFrame, context: Mapping) -> pd.DataFrame:
    """The lines of `scorecard_table` that have both. What reads no edge and is printed without
    privacy and at ε = 0 is one model, and stands here once."""
    table = scorecard_table(rows, context)
    both = table[table["difference"].notna()]
    places = both["dataset"] + " " + both["method"]
    again = (both["epsilon"] == "0") & places.isin(places[both["level"] == "none"])
    return both[~again]


def _time(seconds: float) -> str:
    if math.isnan(seconds):
        return "not known"
    minutes = seconds / 60
    return "–" if not seconds else f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def _models(rows: pd.DataFrame) -> dict[tuple, int]:
    """Models by dataset, method, level, ε and setting."""
    named = rows.assign(hyperparameters=[key(json.loads(h)) for h in rows["hyperparameters"]])
    columns = ["dataset", "method", "level", "epsilon", "hyperparameters"]
    return named.groupby(columns)["seed"].nunique().to_dict()


def _name(cell: Cell, setting: Mapping[str, Any]) -> tuple:
    return cell.dataset, cell.method, cell.level, cell.epsilon, key(dict(setting))
