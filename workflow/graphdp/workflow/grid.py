"""From a study's configuration to its cells, seed blocks and files. No torch, no Snakemake."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from graphdp.config import Study, is_about
from graphdp.errors import GraphDPError
from graphdp.methods.card import CACHE, OPEN_CACHE, Stage
from graphdp.methods.registry import card
from graphdp.methods.settings import distinct, key
from graphdp.privacy.protection import is_private
from graphdp.workflow.asked import epsilons
from graphdp.workflow.partition import cell_bundles, seed_blocks
from graphdp.workflow.stages import CALIBRATE


@dataclass(frozen=True)
class Cell:
    """What one experiment adds on one dataset for one method, level and ε.

    `settings` are the hyperparameter settings that no earlier experiment of the study trains for
    the same dataset, method, level and ε; a training job fits all of them for a block of seeds.
    nodes_per_class: of an attacked cell, whose experiment is the attack's name; None else.
    """

    dataset: str
    method: str
    level: str
    epsilon: str
    experiment: str
    settings: tuple[dict[str, Any], ...]
    nodes_per_class: int | None = None

    @property
    def path(self) -> str:
        """The cell's part of a file name: dataset/method/level/ε/experiment."""
        return f"{self.released}/{self.experiment}"

    @property
    def name(self) -> str:
        """The cell among those of its dataset: method/level/ε/experiment."""
        return f"{self.method}/{self.level}/{self.epsilon}/{self.experiment}"

    @property
    def released(self) -> str:
        """Of what one model is selected, over all experiments: "dataset/method/level/ε"."""
        return f"{self.dataset}/{self.method}/{self.level}/{self.epsilon}"


@dataclass(frozen=True)
class Unit:
    """What one job of a stage works on, for a block of seeds.

    place: where its result is kept, dataset/method/level/ε/experiment unless the stage says
    otherwise. cells: the paths of the cells that need it. settings: the distinct parts of their
    settings that determine it.
    """

    stage: Stage
    place: str
    dataset: str
    method: str
    level: str
    epsilon: str
    cells: list[str]
    settings: list[dict[str, Any]]

    @property
    def calibrated(self) -> bool:
        """Whether it draws noise that a calibration holds."""
        return self.stage.calibrated(self.level)


class Grid:
    """The cells of a study, by name: what its experiments train, and what its attacks attack."""

    def __init__(
        self,
        study: Study,
        datasets: list[str] | None = None,
        made: Iterable[tuple[str, str, str]] = (),
    ):
        """`datasets`: the ones to train on, if not all that the study names. made: what earlier
        runs made in bundles, as (stage, place of the bundle, "level-ε"). Bundles are kept where all
        their cells are still there."""
        self.study = study
        self._made = set(made)
        self.cells: list[Cell] = []
        for dataset in study.datasets if datasets is None else datasets:
            self._add_dataset(dataset)
        self.attacked = [
            Cell(
                dataset,
                entry.method,
                entry.level,
                epsilon,
                attack,
                (setting,),
                spec.nodes_per_class,
            )
            for dataset in (study.datasets if datasets is None else datasets)
            for attack, spec in study.attacks.items()
            for entry in spec.entries
            for epsilon in epsilons(study, entry)
            for setting in study.settings(dataset, entry)
        ]
        self._by_path = {cell.path: cell for cell in self.cells}
        self._known_places: dict[tuple[str, str], dict[str, list[dict[str, Any]]]] = {}
        self._attacked_by_path = {cell.path: cell for cell in self.attacked}

    def _add_dataset(self, dataset: str) -> None:
        seen: dict[tuple[str, str, str], set[str]] = {}
        for experiment, entries in self.study.experiments.items():
            fresh: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
            for entry in entries:
                if not is_about(entry, dataset):
                    continue
                for epsilon in epsilons(self.study, entry):
                    name = (entry.method, entry.level, epsilon)
                    known = seen.setdefault(name, set())
                    for setting in self.study.settings(dataset, entry):
                        if key(setting) not in known:
                            known.add(key(setting))
                            fresh.setdefault(name, []).append(setting)
            for (method, level, epsilon), settings in fresh.items():
                self.cells.append(
                    Cell(dataset, method, level, epsilon, experiment, tuple(settings))
                )

    def cell(self, path: str) -> Cell:
        """The cell with that `Cell.path`. Raises `GraphDPError` if the study has none."""
        if path not in self._by_path:
            raise GraphDPError(
                f"the study {self.study.study!r} has no cell {path}; name a dataset that is there "
                "and a method, level, ε and experiment of its configuration"
            )
        return self._by_path[path]

    def attacked_cell(self, path: str) -> Cell:
        """The attacked cell with that `Cell.path`, whose experiment is the attack's name."""
        return self._attacked_by_path[path]

    def cells_of(self, released: str, cells: Sequence[Cell] | None = None) -> list[Cell]:
        """The cells among whose models that of a `Cell.released` is selected.

        cells: those that have models, if not all of the study.
        """
        having = self.cells if cells is None else cells
        return [cell for cell in having if cell.released == released]

    def settings_tried(
        self, released: str, cells: Sequence[Cell] | None = None
    ) -> list[dict[str, Any]]:
        """The plan's settings of every hyperparameter setting that the selection looks at.

        One per setting, so with repetitions where settings share a plan. cells: as `cells_of`.
        """
        return [
            card(cell.method).plan(cell.level, setting)
            for cell in self.cells_of(released, cells)
            for setting in cell.settings
        ]

    def unit(self, stage: str, place: str) -> Unit:
        """What a stage works on in a place. Raises `GraphDPError` if no cell needs that."""
        if (stage, place) not in self.units:
            raise GraphDPError(
                f"the study {self.study.study!r} has no {stage} of {place}; name a dataset that is "
                "there and a method, level, ε and experiment of its configuration"
            )
        return self.units[stage, place]

    @cached_property
    def units(self) -> dict[tuple[str, str], Unit]:
        """(stage, place) -> unit, over all cells."""
        found: dict[tuple[str, str], Unit] = {}
        for cell in self.cells:
            for stage in card(cell.method).stages:
                for place, parts in self._places(cell, stage).items():
                    if (stage.name, place) not in found:
                        names = place.split("/")
                        own = names[2:4] if len(names) == 5 else [cell.level, cell.epsilon]
                        found[stage.name, place] = Unit(
                            stage, place, cell.dataset, cell.method, *own, [], []
                        )
                    unit = found[stage.name, place]
                    unit.cells.append(cell.path)
                    unit.settings[:] = (
                        distinct([*unit.settings, *parts]) if unit.settings else parts
                    )
        return found

    def _places(self, cell: Cell, stage: Stage) -> dict[str, list[dict[str, Any]]]:
        """Where a cell's results of a stage are kept -> the parts of its settings that are there.

        Nothing where the level has no such stage, or no setting of the cell.
        """
        if (cell.path, stage.name) in self._known_places:
            return self._known_places[cell.path, stage.name]
        found = self._known_places[cell.path, stage.name] = {}
        if stage.at(cell.level):
            parts = [stage.settings(cell.level, setting) for setting in cell.settings]
            names = cell.dataset, cell.method, cell.level, cell.epsilon, cell.experiment
            for part in distinct([part for part in parts if part is not None]):
                place = stage.place(*names, part=part) if stage.place else cell.path
                found.setdefault(place, []).append(part)
        return found

    def reads(self, unit: Unit) -> dict[str, list[str]]:
        """Stage -> the places from which a unit reads its results."""
        return {
            name: list(
                dict.fromkeys(
                    place
                    for path in unit.cells
                    for place in self._places(self.cell(path), card(unit.method).stage(name))
                )
            )
            for name in unit.stage.reads
            if name != CACHE
        }

    @cached_property
    def _bundles(self) -> dict[str, str]:
        """Cell path -> the place of the bundle that it is in, of cells that share a job.

        A bundle is of one method and experiment; its place is dataset/method/members/experiment,
        e.g. "edge-1+edge-4+node-8". Bundles of earlier runs come first, so that a further ε is in
        one of its own.
        """
        if self.study.cell_block == 1:
            return {}
        earlier = sorted({place for stage, place, _ in self._made if stage == "fit"})
        return cell_bundles(self.cells, self.study.cell_block, earlier)

    def bundle(self, unit: Unit) -> str:
        """The place of the bundle that runs a unit; "" if it has a job of its own."""
        if unit.stage.of_graph or not self._bundles:
            return ""
        # What several bundles need is where it was made before, or made by the first of them.
        wanted = list(dict.fromkeys(self._bundles[path] for path in unit.cells))
        name, member = unit.stage.name, f"{unit.level}-{unit.epsilon}"
        return next((place for place in wanted if (name, place, member) in self._made), wanted[0])

    def members(self, stage: str, place: str) -> list[Unit]:
        """The units of a stage that a bundle runs. Raises `GraphDPError` if there are none."""
        found = [
            u for u in self.units.values() if u.stage.name == stage and self.bundle(u) == place
        ]
        if not found:
            raise GraphDPError(f"the study {self.study.study!r} has no bundle {stage}/{place}")
        return found

    def result(self, stage: str, place: str, block: str) -> tuple[str, str]:
        """Of a unit and a block of seeds: (what its job makes, the file with the unit's result),
        both below the study's folder."""
        unit = self.unit(stage, place)
        suffix, bundle = unit.stage.store[2], self.bundle(unit)
        if not bundle:
            return (f"{stage}/{place}/{block}.{suffix}",) * 2
        folder = f"{stage}/bundles/{bundle}/{block}"
        return folder, f"{folder}/{unit.level}-{unit.epsilon}.{suffix}"

    def task(self, unit: Unit) -> dict[str, Any]:
        """What determines the result of a unit, for its job; see `stages.run_stage`."""
        stage, study = unit.stage, self.study
        loads = {name: card(unit.method).stage(name).store[1] for name in self.reads(unit)}
        return {
            "run": stage.run,
            "save": stage.store[0],
            "reads": {name: loads.get(name, OPEN_CACHE) for name in stage.reads},
            "settings": unit.settings,
            "trains": stage.trains,
            # What its noise depends on: it calibrates, or finds what the same plan had before.
            "noise": self._noise_of(unit) if unit.calibrated else None,
            "block": self.block(unit)
            if not stage.of_graph
            else {
                "study": study.study,
                "dataset": unit.dataset,
                "study_seed": study.study_seed,
                "release": study.release,
            },
        }

    def noise(self, experiment: str, plan_settings: list[dict[str, Any]]) -> dict[str, Any]:
        """What a cell's noise depends on besides its method, level, ε and data."""
        study = self.study
        return {
            "settings": plan_settings,
            "delta": study.delta,
            "calibrate_for": study.calibrated_for(experiment),
            "accountant": study.accountant,
        } | self._released

    def _noise_of(self, unit: Unit) -> dict[str, Any]:
        experiment = self.cell(unit.place).experiment
        found = self.noise(experiment, self.plan_settings(unit.place))
        # Without noise another δ is no reason to train again.
        return found if is_private(unit.level) else found | {"delta": None}

    @cached_property
    def _released(self) -> dict[str, Any]:
        """Of a private release all hyperparameters, for the ledger."""
        if self.study.release != "private":
            return {}
        return {"models": [[cell.path, list(cell.settings)] for cell in self.cells]}

    def block(self, where: Cell | Unit) -> dict[str, Any]:
        """The fields of a `Block` that a cell or unit determines."""
        study = self.study
        return {
            "study": study.study,
            "dataset": where.dataset,
            "method": where.method,
            "level": where.level,
            "epsilon": where.epsilon,
            "study_seed": study.study_seed,
            "split_rule": study.split_rule(where.dataset),
            "checkpoint": card(where.method).checkpoint(where.level, study.checkpoint),
            "release": study.release,
            "announced": study.train_nodes,
        }

    def code(self, unit: Unit) -> list[str]:
        """The library code that a unit's job runs besides its script ("module:function")."""
        task, its = self.task(unit), card(unit.method)
        noise = [CALIBRATE, its.analyses] if unit.calibrated else []
        return [task["run"], task["save"], *task["reads"].values(), its.plan_code(), *noise]

    def methods(self) -> list[str]:
        """The methods of all experiments and attacks, each once."""
        return list(dict.fromkeys(cell.method for cell in [*self.cells, *self.attacked]))

    def calibrated(self, cell: Cell) -> dict[str, Any]:
        """What is calibrated for a cell, as `released.calibrate_study_cell` takes it."""
        return {
            "name": cell.name,
            "dataset": cell.dataset,
            "method": cell.method,
            "level": cell.level,
            "epsilon": cell.epsilon,
            "settings": _plan_settings(cell),
            "calibrate_for": self.study.calibrated_for(cell.experiment),
            "accountant": self.study.accountant,
            "nodes_per_class": cell.nodes_per_class,
        }

    def released(self, dataset: str, cells: Sequence[Cell]) -> list[dict[str, Any]]:
        """What is stated of a dataset's models, as `released.state` takes it.

        cells: those that have models.
        """
        names = dict.fromkeys(cell.released for cell in cells if cell.dataset == dataset)
        found = []
        for released in names:
            own = self.cells_of(released, cells)
            first = own[0]
            found.append(
                {
                    "name": released.partition("/")[2],
                    "dataset": dataset,
                    "method": first.method,
                    "level": first.level,
                    "checkpoint": self.study.checkpoint,
                    "repeats": max(self.study.seeds_of(cell.experiment) for cell in own),
                    "cells": [cell.name for cell in own],
                    "tried": self.settings_tried(released, cells),
                }
            )
        return found

    def attack_task(self, cell: Cell) -> dict[str, Any]:
        """What determines the models of an attacked cell, and the attack on them."""
        return {
            "noise": self.noise(cell.experiment, _plan_settings(cell)),
            "setting": cell.settings[0],
            "nodes_per_class": cell.nodes_per_class,
            "block": {
                "study": self.study.study,
                "dataset": cell.dataset,
                "method": cell.method,
                "level": cell.level,
                "epsilon": cell.epsilon,
                "study_seed": self.study.study_seed,
            },
        }

    @staticmethod
    def attack_code(cell: Cell) -> list[str]:
        """The library code that an attack's job finds by name: all stages of the method."""
        its = card(cell.method)
        return [stage.run for stage in its.stages] + [its.plan_code(), CALIBRATE, its.analyses]

    def plan_settings(self, path: str) -> list[dict[str, Any]]:
        """The distinct parts of a cell's settings that its privacy plan reads."""
        return _plan_settings(self.cell(path))

    def trained(
        self, cell: Cell, finished: Mapping[str, Sequence[str]], known: Sequence[str] = ()
    ) -> list[str]:
        """The blocks of a cell, or attacked cell, whose models are trained here.

        finished: of every place the blocks that earlier runs left there (`finished_blocks`).
        known: blocks that are taken over.
        """
        if not self.study.train:
            return []
        left = finished.get(self._bundles.get(cell.path, cell.path), ())
        return [b for b in self.blocks(left, known, cell.experiment) if b not in known]

    def blocks(
        self, finished: Iterable[str] = (), known: Sequence[str] = (), experiment: str = ""
    ) -> list[str]:
        """The blocks of an experiment's seeds as tokens "first-last": "0-4", "5-9".

        finished: tokens of blocks that earlier runs of the study trained. They are kept where they
        fit, the longest first, so that more seeds train only the new ones. known: tokens of blocks
        that are kept before these.
        """
        seeds = self.study.seeds_of(experiment)
        return seed_blocks(seeds, self.study.seed_block, finished, known)


def _plan_settings(cell: Cell) -> list[dict[str, Any]]:
    return distinct([card(cell.method).plan(cell.level, setting) for setting in cell.settings])
