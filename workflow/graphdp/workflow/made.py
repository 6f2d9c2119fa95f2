"""What a study makes, where, by which jobs and from what: for the rules and for `graphdp status`.

Files are named relative to the project's folder. Nothing here imports pandas or torch: every start
of Snakemake reads this module.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graphdp import io, private, seals
from graphdp.methods import registry
from graphdp.methods.registry import card
from graphdp.workflow import asked, job
from graphdp.workflow.finished import bundled, finished_blocks
from graphdp.workflow.grid import Cell, Grid, Unit
from graphdp.workflow.preflight import Prepared


class Made:
    """A study's files and what its jobs work on, with what is on disk already.

    work: the folder of all that is not published ("results", or "private" of a private release);
    results: the study's in it; cache: what studies share. unavailable: datasets that `missing_data:
    skip` leaves out -> why.
    """

    def __init__(self, prepared: Prepared):
        self.study, self.datasets = prepared.study, prepared.datasets
        self._known = prepared.known
        self._known_blocks: dict[tuple[str, bool], list[str]] = {}
        self.private = self.study.release == "private"
        self.work = private.FOLDER if self.private else "results"
        self.results = f"{self.work}/{self.study.study}"
        self.cache = f"{self.work}/cache"
        self.unavailable = self._unavailable()
        self.grid = Grid(self.study, self.available(), bundled(Path(self.results)))
        self._finished = finished_blocks(Path(self.results, "fit"))
        self._attacked = finished_blocks(Path(self.results, "attacks"))

    # --- data -------------------------------------------------------------------------------------

    def graph_file(self, dataset: str) -> str:
        return f"{self.work}/data/graphs/{dataset}.npz"

    def statistics_file(self, dataset: str) -> str:
        return f"{self.work}/data/graphs/{dataset}.json"

    def raw_folder(self, dataset: str) -> str:
        return f"{self.work}/data/raw/{dataset}"

    def manifest_file(self, dataset: str) -> str:
        """Of a dataset's raw files."""
        return f"{self.raw_folder(dataset)}/manifest.json"

    def available(self) -> list[str]:
        return [name for name in self.study.datasets if name not in self.unavailable]

    def _unavailable(self) -> dict[str, str]:
        if self.study.missing_data == "fail":
            return {}
        return {
            # The same words for all, so that a figure can name them together.
            name: f"not downloaded, see its log in {self.work}/data/logs/download"
            for name, spec in self.datasets.items()
            if spec.files  # a generated graph is always there
            and not os.path.exists(self.manifest_file(name))
        }

    def graph_spec(self, dataset: str) -> str:
        """What determines a dataset's graph besides its raw files, JSON."""
        return self.datasets[dataset].model_dump_json(exclude={"notes", "by_hand"})

    def graph_made_of(self, dataset: str) -> str:
        """A digest of that, for the graph's seal."""
        return seals.digest(self.graph_spec(dataset))

    def preprocessing(self, dataset: str) -> dict[str, Any]:
        """What was done to a dataset's graph, as its registry entry or definition says."""
        return self.datasets[dataset].preprocessing.model_dump()

    # --- models and attacks -----------------------------------------------------------------------

    def result(self, stage: str, place: str, block: str) -> list[str]:
        """Of a unit of a stage: what its job makes, and the file with the unit's result."""
        return [f"{self.results}/{path}" for path in self.grid.result(stage, place, block)]

    def attack_file(self, cell: Cell, block: str) -> str:
        return f"{self.results}/attacks/{cell.path}/{block}.csv"

    def attack_made_of(self, cell: Cell) -> str:
        """A digest of what determines the rows of an attacked cell, for their seal."""
        return seals.digest([self.grid.attack_task(cell), self.graph_made_of(cell.dataset)])

    def attacked_datasets(self) -> list[str]:
        return list(dict.fromkeys(cell.dataset for cell in self.attacked_cells()))

    def attacks_made_of(self) -> str:
        """A digest of which attacks have rows and of what these were made of, for the seal of
        attacks.csv."""
        read = [self.calibrations_made_of(one) for one in self.attacked_datasets()]
        known = [self.attacks_taken_over(), self._known_content("attacks")]
        return seals.digest([self.collected_attacks_made_of(), read, *known])

    def collected_attacks_made_of(self) -> dict[str, str]:
        """The files of the attacks that are made here -> what each must be made of."""
        return {
            self.attack_file(cell, block): self.attack_made_of(cell)
            for cell in self.grid.attacked
            for block in self.attacked_blocks(cell)
        }

    def known_blocks(self, cell: Cell) -> list[str]:
        """The blocks of a cell whose rows are taken over from `known_rows`."""
        if not self._known:
            return []
        name = cell.path, cell.nodes_per_class is None  # an attack may be named as an experiment
        if name not in self._known_blocks:
            self._known_blocks[name] = self._known.blocks(cell, self.study)
        return self._known_blocks[name]

    def known_files(self, kind: str) -> list[str]:
        """The files of known rows of "models", or "attacks"."""
        return self._known.files(kind) if self._known else []

    def _known_content(self, kind: str) -> list[str]:
        return [io.sha256_file(file) for file in self.known_files(kind)]

    def blocks(self, cell: Cell) -> list[str]:
        """The blocks of a cell that are trained here."""
        return self.grid.trained(cell, self._finished, self.known_blocks(cell))

    def attacked_blocks(self, cell: Cell) -> list[str]:
        """The blocks of an attacked cell that are attacked here."""
        return self.grid.trained(cell, self._attacked, self.known_blocks(cell))

    def cells_with_models(self) -> list[Cell]:
        """All cells, but with `train: false` only those that known rows are of."""
        return [cell for cell in self.grid.cells if self.study.train or self.known_blocks(cell)]

    def attacked_cells(self) -> list[Cell]:
        """All attacked cells, but with `train: false` only those that known rows are of."""
        return [cell for cell in self.grid.attacked if self.study.train or self.known_blocks(cell)]

    def datasets_with_models(self) -> list[str]:
        return list(dict.fromkeys(cell.dataset for cell in self.cells_with_models()))

    def taken_over(self) -> list[dict[str, Any]]:
        """What is taken over of known rows, for `known_rows.known_models`."""
        return [
            self._models(cell) | {"calibration": f"{cell.name}.json", "seeds": self._seeds(cell)}
            for cell in self.grid.cells
            if self.known_blocks(cell)
        ]

    def attacks_taken_over(self) -> list[dict[str, Any]]:
        """What is taken over of known attacks, for `known_rows.known_attacks`."""
        return [
            {
                "attack": cell.experiment,
                **self.grid.attack_task(cell),
                "calibration": f"{cell.name}.json",
                "seeds": self._seeds(cell),
            }
            for cell in self.grid.attacked
            if self.known_blocks(cell)
        ]

    def trained(self) -> list[tuple[Cell, str]]:
        """Every cell and block of it that is trained here."""
        return [(cell, block) for cell in self.grid.cells for block in self.blocks(cell)]

    def collected_models(self) -> list[dict[str, Any]]:
        """The files of the models that are trained here, each with what must stand in it."""
        return [
            {"file": self.result("fit", cell.path, block)[1]}
            | self._models(cell)
            | {"seeds": job.block_seeds(block)}
            for cell, block in self.trained()
        ]

    def rows_made_of(self) -> str:
        """A digest of which models have rows and of what these were made of, for the seal of
        rows.csv."""
        cells = [(cell.dataset, cell.name) for cell in self.cells_with_models()]
        read = [self.calibrations_made_of(one) for one in self.datasets_with_models()]
        graphs = [self.graph_made_of(one) for one in self.available()]
        models = [self.collected_models(), self.collected_made_of()]
        known = [self.taken_over(), self._known_content("models")]
        context = asked.about(self.study, self.unavailable)
        return seals.digest([*models, *known, cells, read, graphs, context])

    def report_made_of(self) -> str:
        """A digest of that, of the attacks and of what is drawn, for the seals of all of it."""
        rows = [self.rows_made_of(), self.attacks_made_of()]
        shown = [self.study.tables, self.study.figures]
        return seals.digest([rows, shown, [io.sha256_file(one) for one in self.published_files()]])

    def _models(self, cell: Cell) -> dict[str, Any]:
        return {"block": self.grid.block(cell), "settings": list(cell.settings)}

    def _seeds(self, cell: Cell) -> list[list[int]]:
        return [job.block_seeds(block) for block in self.known_blocks(cell)]

    # --- calibration and statements ---------------------------------------------------------------

    def calibration_folder(self, dataset: str) -> str:
        return f"{self.results}/calibrations/{dataset}"

    def statements_folder(self, dataset: str) -> str:
        return f"{self.results}/statements/{dataset}"

    def statements_folders(self) -> list[str]:
        return [self.statements_folder(dataset) for dataset in self.datasets_with_models()]

    def calibrated_datasets(self) -> list[str]:
        """The datasets whose calibrations, or statements, are read."""
        taken = [cell.dataset for cell in self.grid.attacked if self.known_blocks(cell)]
        return list(dict.fromkeys([*self.datasets_with_models(), *taken]))

    def calibrated_cells(self, dataset: str) -> list[Cell]:
        """The cells of a dataset whose noise is calibrated: those with models, and attacked
        ones."""
        cells = self.cells_with_models() + self.attacked_cells()
        return [cell for cell in cells if cell.dataset == dataset]

    def calibrations_of(self, dataset: str) -> dict[str, Any]:
        """What determines the calibrations and statements of a dataset, besides its graph."""
        study = self.study
        return {
            "cells": [self.grid.calibrated(cell) for cell in self.calibrated_cells(dataset)],
            "released": self.grid.released(dataset, self.cells_with_models()),
            "preprocessing": self.preprocessing(dataset),
            "delta": study.delta,
            "split": study.split_rule(dataset),
            # One split serves every seed unless each seed has its own.
            "seeds": study.seeds if study.split == "per_seed" else 1,
            "study_seed": study.study_seed,
            "train_nodes": study.train_nodes,
        }

    def calibrations_made_of(self, dataset: str) -> str:
        """A digest of that and of the graph, for the seals of both."""
        return seals.digest([self.calibrations_of(dataset), self.graph_made_of(dataset)])

    def analyses_code(self, dataset: str) -> list[str]:
        """Code that calibration finds by name: the analyses of a dataset's methods, their words."""
        methods = sorted({cell.method for cell in self.calibrated_cells(dataset)})
        return [
            name
            for method in methods
            for name in (card(method).analyses, registry.cards_code(method))
        ]

    # --- stages -----------------------------------------------------------------------------------

    def members(self, unit: Unit) -> list[Unit]:
        """What the job of a unit makes: the units of its bundle, or itself alone."""
        bundle = self.grid.bundle(unit)
        return self.grid.members(unit.stage.name, bundle) if bundle else [unit]

    def made_of(self, units: Sequence[Unit]) -> str:
        """A digest of what determines the results of units, for their seal."""
        return seals.digest(
            [[self.grid.task(unit), self.graph_made_of(unit.dataset)] for unit in units]
        )

    def tasks(self, units: Sequence[Unit], block: str) -> list[dict[str, Any]]:
        """What determines each unit's result, and the files that it reads and writes."""
        tasks = []
        for unit in units:
            files = {
                stage: [self.result(stage, place, block)[1] for place in places]
                for stage, places in self.grid.reads(unit).items()
            }
            output = self.result(unit.stage.name, unit.place, block)[1]
            tasks.append(self.grid.task(unit) | {"files": files, "output": output})
        return tasks

    def collected_made_of(self) -> dict[str, str]:
        """What the jobs that train here make -> what each must be made of."""
        found: dict[str, str] = {}
        for cell, block in self.trained():
            made, _ = self.result("fit", cell.path, block)
            if made not in found:  # of a bundle, with all its members
                found[made] = self.made_of(self.members(self.grid.unit("fit", cell.path)))
        return found

    def read(self, units: Sequence[Unit], block: str) -> dict[str, str]:
        """The results of other stages that units read -> what each must be made of."""
        places = dict.fromkeys(
            (stage, place)
            for unit in units
            for stage, places in self.grid.reads(unit).items()
            for place in places
        )
        return {
            self.result(stage, place, block)[0]: self.made_of(
                self.members(self.grid.unit(stage, place))
            )
            for stage, place in places
        }

    # --- what people read -------------------------------------------------------------------------

    def rows_file(self) -> str:
        return f"{self.results}/rows.csv"

    def context_file(self) -> str:
        """What artefacts need to know besides the rows."""
        return f"{self.results}/context.json"

    def attack_rows_file(self) -> str | list[str]:
        """No file where the study attacks nothing."""
        return f"{self.results}/attacks.csv" if self.study.attacks else []

    def report_file(self) -> str:
        return f"{self.results}/report.html"

    def table_files(self) -> list[str]:
        kinds = "csv", "md", "tex"
        return [f"{self.results}/tables/{n}.{kind}" for n in self.study.tables for kind in kinds]

    def figure_files(self) -> list[str]:
        kinds = "svg", "png"
        return [f"{self.results}/figures/{n}.{kind}" for n in self.study.figures for kind in kinds]

    def published_files(self) -> list[str]:
        """The numbers that the paper prints and the orderings that it claims."""
        names = [self.study.paper, "orderings"] if self.study.paper else []
        return [f"config/published/{name}.csv" for name in names]

    def released_files(self) -> list[str]:
        """Of a private release: all that is published, and the record that it is."""
        named = [f"results/{self.study.study}/{name}" for name in private.PUBLISHED]
        return [*named, f"{self.results}/{private.RECORD}"]

    def released_unit(self) -> tuple[Cell, str, str]:
        """The one model of a private study: its cell, what its job makes, and the row's file."""
        (cell,), (block,) = self.grid.cells, self.grid.blocks([])
        made, row = self.result("fit", cell.path, block)
        return cell, made, row
