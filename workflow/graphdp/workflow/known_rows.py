"""Rows of earlier runs (`known_rows`): a study takes these models over instead of training them.

A row is taken over for a setting and a seed of a cell. It keeps what it says of itself: time,
device, versions and the commit that trained it. Where it came from (study seed, split, graph) and
what its ε means are checked against the study that takes it over and its calibration. Files may
hold trained models (rows.csv) or attacked ones (attacks.csv); older ones of the latter do not say
where a row came from, of which only what its ε means is checked.
"""

import csv
import gzip
import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphdp import seals
from graphdp.errors import GraphDPError
from graphdp.io import read_json
from graphdp.methods.registry import card
from graphdp.methods.settings import key
from graphdp.privacy import calibrated

if TYPE_CHECKING:  # the Snakefile reads the index alone, without pandas
    import pandas as pd

    from graphdp.config import Study
    from graphdp.methods.block import Block
    from graphdp.workflow.grid import Cell

# Calibration is the same search everywhere; libraries may round its last digits differently.
_CLOSE = 1e-6
# Near what a transform rounds off ε does not fall with every digit of the noise: rows were seen to
# have 2.5e-6 more of it than today's search finds, and on another processor 2.9e-6 less. So much
# more is taken, and so much less where today's accountant reads no larger ε of it than the target.
_MORE_NOISE = 5e-6
#: What names a trained model among the rows of a study.
_NAME = ("dataset", "method", "level", "epsilon", "hyperparameters", "checkpoint", "seed")

#: The same of an attacked one.
_ATTACKED = ("attack", *_NAME[:5], "nodes_per_class", "seed")
_KINDS = {"models": _NAME, "attacks": _ATTACKED}

Name = tuple[str, ...]


def _name(
    dataset: str, method: str, level: str, epsilon: str, setting: dict, checkpoint: str, seed: int
) -> Name:
    return (dataset, method, level, epsilon, key(setting), checkpoint, str(seed))


def _attack_name(
    attack: str, dataset: str, method: str, level: str, epsilon: str, nodes_per_class: int,
    setting: dict, seed: int,
) -> Name:  # fmt: skip
    where = attack, dataset, method, level, epsilon
    return (*where, key(setting), str(nodes_per_class), str(seed))


class KnownIndex:
    """Which models have rows in the files that a study names under `known_rows`.

    Reads names alone, so that every start of Snakemake can afford it; `take_over` checks the rest.
    Raises `GraphDPError` if a file is missing, is not a rows file, or is of another study.
    """

    def __init__(self, paths: Sequence[str | os.PathLike], study: str):
        self._names: set[Name] = set()
        self._files: dict[str, list[str]] = {kind: [] for kind in _KINDS}
        for path in paths:
            kind, rows = _read(path, study)
            self._files[kind].append(str(path))
            self._names.update(_of_row(row, kind) for row in rows)

    def files(self, kind: str) -> list[str]:
        """The files that hold "models", or "attacks"."""
        return self._files[kind]

    def blocks(self, cell: "Cell", study: "Study") -> list[str]:
        """The blocks of the study's seeds ("0-4", "7-7") that have a row for every setting of a
        cell, or attacked cell, each as long as can be."""
        kept = card(cell.method).checkpoint(cell.level, study.checkpoint)
        where = cell.dataset, cell.method, cell.level, cell.epsilon
        attack = cell.experiment, *where, cell.nodes_per_class

        def name(setting: dict, seed: int) -> Name:
            if cell.nodes_per_class is None:
                return _name(*where, setting, kept, seed)
            return _attack_name(*attack, setting, seed)

        found = [
            seed
            for seed in range(study.seeds_of(cell.experiment))
            if all(name(setting, seed) in self._names for setting in cell.settings)
        ]
        firsts = [seed for seed in found if seed - 1 not in found]
        lasts = [seed for seed in found if seed + 1 not in found]
        return [f"{first}-{last}" for first, last in zip(firsts, lasts, strict=True)]


def _read(path: str | os.PathLike, study: str) -> tuple[str, list[dict[str, str]]]:
    """(which kind of rows a file holds, the rows)."""
    if not os.path.isfile(path):
        raise GraphDPError(f"known_rows: there is no file {path}; correct or remove it")
    seals.check_if_sealed(path)
    opened = gzip.open if str(path).endswith(".gz") else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            text = file.read()
        reader = csv.DictReader(io.StringIO(text), strict=True)
        kind = "attacks" if "attack" in (reader.fieldnames or ()) else "models"
        rows = list(reader)
        if not text.endswith("\n") or any(None in row or None in row.values() for row in rows):
            raise ValueError("it ends, or a line of it, before its time")
    except (OSError, EOFError, ValueError, csv.Error) as error:
        raise GraphDPError(
            f"known_rows: {path} is not readable ({error}); correct or remove it"
        ) from None
    missing = [name for name in ("study", *_KINDS[kind]) if rows and rows[0].get(name) is None]
    if missing:
        what = {"models": "a rows.csv", "attacks": "an attacks.csv"}[kind]
        raise GraphDPError(
            f"known_rows: {Path(path).name}: no column {', '.join(missing)}; it is not {what}"
        )
    strange = sorted({row["study"] for row in rows} - {study})
    if strange:
        raise GraphDPError(
            f"known_rows: rows of the study {strange[0]!r} are not of {study!r}; remove them"
        )
    return kind, rows


def _token(row: Mapping[str, str]) -> str:
    from graphdp.privacy.protection import canonical_epsilon

    return canonical_epsilon(row["epsilon"])


def _of_row(row: Mapping[str, str], kind: str) -> Name:
    return tuple(_token(row) if name == "epsilon" else row[name] for name in _KINDS[kind])


def take_over(
    rows: "pd.DataFrame",
    places: Mapping[Name, int],
    cell: Mapping[str, Any],
    block: "Block",
) -> list["pd.Series"]:
    """The rows of a block of a cell, after comparing each with the block.

    rows, places: all known rows, and where each model is among them. cell: `settings`.
    Raises `GraphDPError` if a row is missing, is of another study seed, split or graph, or if δ,
    the noise multiplier, the label of ε or ε under any analysis are not what the calibration says.
    """
    its, found, origin = card(block.method), [], block.origin()
    where = block.dataset, block.method, block.level, block.epsilon
    for setting in cell["settings"]:
        for seed in block.seeds:
            name = _name(*where, setting, block.checkpoint, seed)
            if name not in places:
                raise GraphDPError(f"known_rows: no row for {name}")
            row = rows.iloc[places[name]]
            settings = its.plan(block.level, setting)
            entry = calibrated.lookup(block.calibrations, settings, block.num_train(seed))
            _check(row, origin, entry)
            found.append(row)
    return found


def known_models(
    paths: Sequence[str | os.PathLike],
    wanted: Sequence[Mapping[str, Any]],
    graphs: Mapping[str, str],
    folders: Mapping[str, Path],
) -> "pd.DataFrame":
    """The rows of all cells that a study takes over, each checked (`take_over`).

    wanted: the cells, each with the fields of its `Block` (as `block`), its `settings`, the name of
    its calibration's file and its blocks of seeds (as `seeds`: lists of numbers). graphs: dataset
    -> file. folders: dataset -> the folder of its calibrations.
    """
    import pandas as pd

    from graphdp.data.graph import Graph
    from graphdp.methods.block import Block
    from graphdp.paper.rows import collect

    rows = collect(paths)
    named = rows[list(_NAME)].astype(str).itertuples(index=False, name=None)
    places = {name: place for place, name in enumerate(named)}
    loaded: dict[str, Graph] = {}
    found = []
    for cell in wanted:
        fields = cell["block"]
        dataset = fields["dataset"]
        if dataset not in loaded:
            loaded[dataset] = Graph.load(graphs[dataset])
        entries = read_json(folders[dataset] / cell["calibration"])
        for seeds in cell["seeds"]:
            block = Block(graph=loaded[dataset], seeds=list(seeds), calibrations=entries, **fields)
            found += take_over(rows, places, cell, block)
    return pd.DataFrame(found, columns=rows.columns)


def known_attacks(
    paths: Sequence[str | os.PathLike],
    wanted: Sequence[Mapping[str, Any]],
    graphs: Mapping[str, str],
    folders: Mapping[str, Path],
) -> "pd.DataFrame":
    """The rows of all attacked cells that a study takes over, as they stand (str), each checked.

    wanted: the cells, each with what `Grid.attack_task` says, the name of its `attack`, that of its
    calibration's file and its blocks of seeds. graphs: dataset -> file. folders: dataset -> the
    folder of its calibrations.
    Raises `GraphDPError` if a row is of another study seed, split or graph, if δ, the noise
    multiplier, the label of ε or ε under any analysis are not what the calibration says, or if it
    knows no model with so many members.
    """
    import pandas as pd

    from graphdp.attacks.nodes import ATTACK
    from graphdp.data.graph import Graph
    from graphdp.methods.block import Block
    from graphdp.paper.attack import read_attacks

    texts = [pd.read_csv(path, dtype=str, keep_default_na=False) for path in paths]
    # Older files do not say where their rows came from.
    kept = pd.concat(texts, ignore_index=True).fillna("")
    rows = pd.concat([read_attacks(path) for path in paths], ignore_index=True)
    places = {_of_row(row, "attacks"): i for i, row in enumerate(kept.to_dict("records"))}
    origins: dict[str, dict[str, str]] = {}
    found = []
    for cell in wanted:
        block, setting = cell["block"], cell["setting"]
        where = [block[name] for name in ("dataset", "method", "level", "epsilon")]
        entries = read_json(folders[block["dataset"]] / cell["calibration"])
        plan = card(block["method"]).plan(block["level"], setting)
        dataset = block["dataset"]
        if dataset not in origins:
            graph = Graph.load(graphs[dataset])
            origins[dataset] = Block(graph=graph, seeds=[], split_rule=ATTACK, **block).origin()
        for seed in (seed for seeds in cell["seeds"] for seed in seeds):
            name = _attack_name(cell["attack"], *where, cell["nodes_per_class"], setting, seed)
            row, said = rows.iloc[places[name]], kept.iloc[places[name]]
            origin = {part: its for part, its in origins[dataset].items() if said.get(part)}
            _check(row, origin, calibrated.lookup(entries, plan, int(row["members"])))
            found.append(places[name])
    return kept.iloc[found]


def _check(row: "pd.Series", origin: dict, entry: dict) -> None:
    """Refuse a row that is not of the study's data, or whose ε is not what its calibration says."""
    name = f"{row['dataset']}/{row['method']}/{row['level']}/{row['epsilon']}, seed {row['seed']}"
    said = {c: row[c] for c in ("epsilon_basis", "adjacency", "epsilon_status")}
    said |= {"noise_multiplier": row["noise_multiplier"], "delta": row["delta"]}
    said["epsilons"] = _by_analysis(json.loads(row["epsilons"]))
    expected = calibrated.label(entry) | {
        "noise_multiplier": calibrated.noise_multiplier(entry) or math.nan,
        "delta": math.nan if entry["delta"] is None else entry["delta"],
        "epsilons": _by_analysis(entry["epsilons"]),
    }
    for source, wanted, found in (("study", origin, row), ("calibration", expected, said)):
        for column, value in wanted.items():
            more = column == "noise_multiplier" and _is_enough(entry, found[column], value)
            close = _MORE_NOISE if more or column == "epsilons" else _CLOSE
            if not _same(found[column], value, close):
                raise GraphDPError(
                    f"known_rows: the row of {name}, has {column} {found[column]}, the {source} "
                    f"{value}; leave known_rows out to train the model"
                )


def _is_enough(entry: dict, noise: float, calibrated: float) -> bool:
    """Whether a noise is at least the calibrated one, or but for digits that the search may not
    tell apart, and the accountant reads at most the target ε of it."""
    if noise > calibrated or _same(noise, calibrated, _CLOSE):
        return True
    if not _same(noise, calibrated, _MORE_NOISE):
        return False
    from graphdp.privacy import accounting
    from graphdp.privacy.plan import Plan

    found = accounting.epsilon(Plan.from_dict(entry["plan"]), noise, entry["delta"])
    return found <= float(entry["target_epsilon"])


def _by_analysis(epsilons: list[dict]) -> list[dict]:
    """The ε of all analyses in an order of their names: which comes first may have changed."""
    return sorted(epsilons, key=lambda one: (one["basis"], one["adjacency"]))


def _same(a: object, b: object, close: float) -> bool:
    """Equality of JSON values and numbers, with NaN equal to NaN."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[name], b[name], close) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_same(x, y, close) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) or isinstance(b, float):
        try:
            return math.isclose(a, b, rel_tol=close) or (math.isnan(a) and math.isnan(b))
        except TypeError:
            return False
    return a == b
