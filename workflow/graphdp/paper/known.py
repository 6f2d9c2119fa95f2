"""Rows of earlier runs (`known_rows`): a study takes these models over instead of training them.

A row is taken over for a setting and a seed of a cell. It keeps what it says of itself: time,
device, versions and the commit that trained it. Where it came from (study seed, split, graph) and
what its ε means are checked against the study that takes it over and its calibration.
"""

import json
import math
import os
from collections.abc import Sequence

import pandas as pd

from graphdp import methods
from graphdp.config import Study
from graphdp.errors import GraphDPError
from graphdp.grid import Cell
from graphdp.methods.block import Block
from graphdp.methods.settings import key
from graphdp.paper.rows import collect, write_rows
from graphdp.privacy import cells

# Calibration is the same search everywhere; libraries may round its last digits differently.
_CLOSE = 1e-6


class KnownRows:
    """The rows of the files that a study names under `known_rows` (CSV, plain or gzipped).

    Raises `GraphDPError` if a file is missing, is not a rows file, is of another study, or if two
    rows claim to be the same trained model.
    """

    def __init__(self, paths: Sequence[str | os.PathLike], study: str):
        for path in paths:
            if not os.path.isfile(path):
                raise GraphDPError(f"known_rows: there is no file {path}; correct or remove it")
        self.rows = collect(paths)
        strange = sorted(set(self.rows["study"]) - {study})
        if strange:
            raise GraphDPError(
                f"known_rows: rows of the study {strange[0]!r} are not of {study!r}; remove them"
            )
        names = ("dataset", "method", "level", "epsilon", "hyperparameters", "checkpoint", "seed")
        self._places = {
            name: place
            for place, name in enumerate(self.rows[list(names)].itertuples(index=False, name=None))
        }

    def blocks(self, cell: Cell, study: Study) -> list[str]:
        """The blocks of the study's seeds ("0-4", "7-7") that have a row for every setting of a
        cell, each as long as can be."""
        kept = methods.checkpoint(cell.method, cell.level, study.checkpoint)
        found = [
            seed
            for seed in range(study.seeds)
            if all(self._name(cell, s, kept, seed) in self._places for s in cell.settings)
        ]
        firsts = [seed for seed in found if seed - 1 not in found]
        lasts = [seed for seed in found if seed + 1 not in found]
        return [f"{first}-{last}" for first, last in zip(firsts, lasts, strict=True)]

    def row(self, cell: Cell, setting: dict, checkpoint: str, seed: int) -> pd.Series:
        """The row of a model; `checkpoint` is the epoch that its method kept.

        Raises `GraphDPError` if there is none.
        """
        name = self._name(cell, setting, checkpoint, seed)
        if name not in self._places:
            raise GraphDPError(f"known_rows: no row for {name}")
        return self.rows.iloc[self._places[name]]

    @staticmethod
    def _name(cell: Cell, setting: dict, checkpoint: str, seed: int) -> tuple:
        return (
            cell.dataset, cell.method, cell.level, cell.epsilon, key(setting), checkpoint, seed,
        )  # fmt: skip


def take_over(known: KnownRows, cell: Cell, block: Block, output: str | os.PathLike) -> None:
    """Write the rows of a block of a cell, after comparing each with the block.

    Raises `GraphDPError` if a row is of another study seed, split or graph, or if δ, the noise
    multiplier, the label of ε or ε under any analysis are not what the calibration says.
    """
    read, found = methods.load(cell.method).plan_settings, []
    origin = block.origin()
    for setting in cell.settings:
        for seed in block.seeds:
            row = known.row(cell, setting, block.checkpoint, seed)
            settings = read(cell.level, setting)
            entry = cells.lookup(block.calibrations, settings, block.split(seed).train.size)
            _check(row, origin, entry)
            found.append(row)
    write_rows(pd.DataFrame(found), output)


def _check(row: pd.Series, origin: dict, entry: dict) -> None:
    """Refuse a row that is not of the study's data, or whose ε is not what its calibration says."""
    name = f"{row['dataset']}/{row['method']}/{row['level']}/{row['epsilon']}, seed {row['seed']}"
    said = {c: row[c] for c in ("epsilon_basis", "adjacency", "epsilon_status")}
    said |= {"noise_multiplier": row["noise_multiplier"], "delta": row["delta"]}
    said["epsilons"] = json.loads(row["epsilons"])
    calibrated = cells.label(entry) | {
        "noise_multiplier": cells.noise_multiplier(entry) or math.nan,
        "delta": math.nan if entry["delta"] is None else entry["delta"],
        "epsilons": entry["epsilons"],
    }
    for source, expected, found in (("study", origin, row), ("calibration", calibrated, said)):
        for column, value in expected.items():
            if not _same(found[column], value):
                raise GraphDPError(
                    f"known_rows: the row of {name}, has {column} {found[column]}, the {source} "
                    f"{value}; leave known_rows out to train the model"
                )


def _same(a: object, b: object) -> bool:
    """Equality of JSON values and numbers, with NaN equal to NaN."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[name], b[name]) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, float) or isinstance(b, float):
        try:
            return math.isclose(a, b, rel_tol=_CLOSE) or (math.isnan(a) and math.isnan(b))
        except TypeError:
            return False
    return a == b
