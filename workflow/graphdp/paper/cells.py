"""Which cells a study asks for, which rows belong to an experiment, and why a cell is missing.

A cell is dataset × method × level × ε. The `context` of a study is a JSON object with the keys
    study, title, paper        text
    datasets                   names in the order of the study
    experiments                {name: [{method, level, epsilon: [tokens], <hyperparameter>: ...}]};
                               a hyperparameter has one value, a list, or {dataset: either};
                               "datasets", where an entry is not about all
    attacks                    the same, of what attacks attack
    statistics                 {dataset: {nodes, edges, average_degree, features, classes, ...}}
    published                  path of the paper's printed numbers, or null
    orderings                  path of the orderings that papers claim, or null
    unavailable                {dataset: reason}
    calibrations               [{dataset, method, level, epsilon, delta, noise_multiplier, ...}]
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from graphdp.errors import GraphDPError
from graphdp.methods.registry import cards
from graphdp.paper.labels import edge_free_methods
from graphdp.paper.rows import HYPERPARAMETER_PREFIX
from graphdp.paper.select import CELL
from graphdp.privacy.protection import canonical_epsilon, edges_alone, is_private

NOT_AVAILABLE = "dataset not available"
NOT_REQUESTED = "not requested in this run"
NO_METHOD = "method not yet part of the pipeline"
NO_ROWS = "no result in rows.csv"

_NOT_HYPERPARAMETERS = {"method", "level", "epsilon", "datasets"}

PUBLISHED_COLUMNS = (
    "artefact",
    "dataset",
    "method",
    "level",
    "epsilon",
    "metric",
    "mean",
    "ci",
    "source",
)


def read_published(path: str | os.PathLike | None) -> pd.DataFrame:
    """The numbers that a paper prints (config/published/*.csv); empty for no path.

    `mean` and `ci` (half-width; NaN where none is printed) are float64, the rest str. `setting`
    ("" in files without it) says of which hyperparameter's value a number is, where a paper prints
    several for a cell: "convolution=gcn". Raises GraphDPError for missing columns or a cell printed
    twice in one artefact.
    """
    if path is None:
        return pd.DataFrame(columns=[*PUBLISHED_COLUMNS, "setting"], dtype=str)
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    name = Path(path).name
    missing = [column for column in PUBLISHED_COLUMNS if column not in table.columns]
    if missing:
        raise GraphDPError(f"{name}: no column {', '.join(missing)}")
    if "setting" not in table:
        table["setting"] = ""
    for column in ("mean", "ci"):
        table[column] = pd.to_numeric(table[column].where(table[column] != "")).astype("float64")
    named = table["epsilon"] != ""
    table["epsilon"] = [canonical_epsilon(e) if e else "" for e in table["epsilon"]]
    key = ["artefact", *CELL, "metric", "setting"]
    if table.duplicated(key).any():
        twice = ", ".join(table.loc[table.duplicated(key), key].iloc[0])
        raise GraphDPError(f"{name}: {twice} stands twice; keep one")
    if (named & (table["method"] == "")).any():
        raise GraphDPError(f"{name}: a row with an epsilon needs its method")
    return table


def study_datasets(context: Mapping) -> list[str]:
    """Every dataset that the study names, the unavailable ones last."""
    names = list(context["datasets"])
    return names + [name for name in context.get("unavailable", {}) if name not in names]


def expected_cells(context: Mapping, experiment: str) -> list[tuple[str, str, str, str]]:
    """The cells (dataset, method, level, ε) that an experiment asks for, in the study's order.

    What an edge-free method trains without privacy also stands as its ε = 0 edge-level cell.
    """
    cells = {}
    for cell, _ in _entries(context, experiment):
        cells[cell] = None
        if _is_edge_free(*cell[1:3]):
            cells[(*cell[:2], "edge", "0")] = None
    return list(cells)


def expected_values(
    context: Mapping, experiment: str, hyperparameter: str
) -> list[tuple[tuple[str, str, str, str], object]]:
    """As `expected_cells`, of the entries that name a hyperparameter: a cell and one of its
    values."""
    found = {}
    for cell, spec in _entries(context, experiment):
        for value in values_for(spec.get(hyperparameter), cell[0]) or ():
            found[cell, value] = None
    return list(found)


def _entries(
    context: Mapping, experiment: str
) -> Iterator[tuple[tuple[str, str, str, str], Mapping]]:
    """Every cell that an entry of an experiment asks for, with the entry."""
    for dataset in study_datasets(context):
        for spec in context.get("experiments", {}).get(experiment, []):
            if dataset not in spec.get("datasets", [dataset]):
                continue
            for token in _as_list(spec["epsilon"]):
                yield (dataset, spec["method"], spec["level"], canonical_epsilon(token)), spec


def experiment_rows(rows: pd.DataFrame, context: Mapping, experiment: str) -> pd.DataFrame:
    """The rows that belong to an experiment of the context, each once.

    A row belongs to it when one of its entries names the row's method, level, ε and, for every
    hyperparameter that both mention, the row's value. The grid matters: the degrees of Figure 9
    must not take part in the selection for Table 2. Rows of an edge-free method trained without
    privacy are added once more as the ε = 0 edge-level cell.
    """
    keep = pd.Series(False, index=rows.index)
    for spec in context.get("experiments", {}).get(experiment, []):
        keep |= _matches(rows, spec)
    kept = rows[keep & rows["dataset"].isin(study_datasets(context))]
    twins = kept[
        kept["method"].isin(edge_free_methods()) & ~kept["level"].map(is_private).astype(bool)
    ].assign(
        level="edge",
        epsilon="0",
        delta=0.0,
        epsilon_basis="as_published",
        adjacency="edge_directed",
        epsilon_status="proven",
    )
    return pd.concat([kept, twins], ignore_index=True)


def missing_reason(cell: tuple[str, str, str, str], context: Mapping) -> str:
    """Why a cell has no result: one of this module's reasons, with detail where there is any."""
    dataset, method = cell[:2]
    unavailable = context.get("unavailable", {})
    if dataset in unavailable:
        return f"{NOT_AVAILABLE}: {unavailable[dataset]}" if unavailable[dataset] else NOT_AVAILABLE
    specs = [spec for specs in context.get("experiments", {}).values() for spec in specs]
    if method not in {*cards(), *(spec["method"] for spec in specs)}:
        return NO_METHOD
    requested = any(
        cell in expected_cells(context, name) for name in context.get("experiments", {})
    )
    return NO_ROWS if requested else NOT_REQUESTED


def known(name: str, registry: Mapping, kind: str):
    """An entry of a registry of tables or figures; GraphDPError naming the valid ones if absent."""
    if name not in registry:
        raise GraphDPError(f"no {kind} is called {name!r}; there are {', '.join(registry)}")
    return registry[name]


def _matches(rows: pd.DataFrame, spec: Mapping) -> pd.Series:
    level, tokens = spec["level"], [canonical_epsilon(t) for t in _as_list(spec["epsilon"])]
    if spec["method"] in edge_free_methods() and edges_alone(level):
        level, tokens = "none", ["inf"]
    match = (
        (rows["method"] == spec["method"]) & (rows["level"] == level) & rows["epsilon"].isin(tokens)
    )
    if "datasets" in spec:
        match &= rows["dataset"].isin(spec["datasets"])
    # What a row means that says nothing about a hyperparameter.
    unnamed = cards()[spec["method"]].unnamed if spec["method"] in cards() else {}
    # Models that differ in their seed alone agree or do not agree together.
    places = np.flatnonzero(match)
    kind = rows[["dataset", "hyperparameters"]].iloc[places]
    kind = kind.groupby(list(kind.columns), sort=False).ngroup().to_numpy()
    one_of_each = places[np.unique(kind, return_index=True)[1]]
    datasets = rows["dataset"].iloc[one_of_each]
    agrees = np.ones(len(one_of_each), bool)
    for name, values in spec.items():
        column = HYPERPARAMETER_PREFIX + name
        if name in _NOT_HYPERPARAMETERS or column not in rows.columns:
            continue
        by_dataset = {d: values_for(values, d) for d in datasets.unique()}
        said = [
            _agrees(unnamed.get(name) if value is None else value, by_dataset[dataset])
            for value, dataset in zip(rows[column].iloc[one_of_each], datasets, strict=True)
        ]
        agrees &= np.array(said, bool)
    agreeing = np.zeros(len(rows), bool)
    agreeing[places] = agrees[kind]
    return pd.Series(agreeing, index=rows.index)


def _agrees(value, allowed: list | None) -> bool:
    """Whether a row's value is one of the entry's; where either says nothing, it is."""
    return value is None or allowed is None or value in allowed


def values_for(values, dataset: str) -> list | None:
    """The values that an entry allows for a dataset; None where it says nothing about it."""
    if isinstance(values, Mapping):
        values = values.get(dataset, values.get("default"))
    return None if values is None else _as_list(values)


def _is_edge_free(method: str, level: str) -> bool:
    return method in edge_free_methods() and not is_private(level)


def _as_list(values) -> list:
    return list(values) if isinstance(values, list | tuple) else [values]
