"""From a study's configuration to its cells, seed blocks and files. No torch, no Snakemake."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from graphdp import methods
from graphdp.config import Study
from graphdp.degree import bound_name, parse_bound
from graphdp.errors import GraphDPError
from graphdp.methods.settings import distinct, key
from graphdp.privacy.plan import level_kind


@dataclass(frozen=True)
class Cell:
    """What one experiment adds on one dataset for one method, level and ε.

    `settings` are the hyperparameter settings that no earlier experiment of the study trains for
    the same dataset, method, level and ε; a training job fits all of them for a block of seeds.
    """

    dataset: str
    method: str
    level: str
    epsilon: str
    experiment: str
    settings: tuple[dict[str, Any], ...]

    @property
    def path(self) -> str:
        """The cell's part of a file name: dataset/method/level/ε/experiment."""
        return f"{self.released}/{self.experiment}"

    @property
    def released(self) -> str:
        """Of what one model is selected, over all experiments: "dataset/method/level/ε"."""
        return f"{self.dataset}/{self.method}/{self.level}/{self.epsilon}"


class Grid:
    """The cells of a study, by name: what its experiments train, and what its attacks attack."""

    def __init__(self, study: Study, datasets: list[str] | None = None):
        """`datasets`: the ones to train on, if not all that the study names."""
        self.study = study
        self.cells: list[Cell] = []
        for dataset in study.datasets if datasets is None else datasets:
            self._add_dataset(dataset)
        self.attacked = [
            Cell(dataset, entry.method, entry.level, epsilon, attack, (setting,))
            for dataset in (study.datasets if datasets is None else datasets)
            for attack, spec in study.attacks.items()
            for entry in spec.entries
            for epsilon in epsilons(study, entry)
            for setting in study.settings(dataset, entry)
        ]
        self._by_path = {cell.path: cell for cell in self.cells}
        self._attacked_by_path = {cell.path: cell for cell in self.attacked}

    def _add_dataset(self, dataset: str) -> None:
        seen: dict[tuple[str, str, str], set[str]] = {}
        for experiment, entries in self.study.experiments.items():
            fresh: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
            for entry in entries:
                if entry.datasets is not None and dataset not in entry.datasets:
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

    def cells_of(self, released: str) -> list[Cell]:
        """The cells among whose models that of a `Cell.released` is selected."""
        return [cell for cell in self.cells if cell.released == released]

    def settings_tried(self, released: str) -> list[dict[str, Any]]:
        """The plan's settings of every hyperparameter setting that the selection looks at.

        One per setting, so with repetitions where settings share a plan.
        """
        return [
            methods.load(cell.method).plan_settings(cell.level, setting)
            for cell in self.cells_of(released)
            for setting in cell.settings
        ]

    def settings(self, path: str) -> list[dict[str, Any]]:
        """The settings of the cell with that path."""
        return list(self.cell(path).settings)

    def encoder_path(self, cell: Cell) -> str:
        """Where the encoders of a cell are kept.

        Without node-level privacy an encoder reads neither edges nor ε, so all levels and ε of an
        experiment share the one that is trained under `none/inf`.
        """
        level, epsilon = ("none", "inf") if cell.level != "node" else (cell.level, cell.epsilon)
        return f"{cell.dataset}/{cell.method}/{level}/{epsilon}/{cell.experiment}"

    def encoder_settings(self, path: str) -> list[dict[str, Any]]:
        """The distinct encoder settings that the cells which share an encoder path need."""
        found = []
        for cell in self.cells:
            if "encode" in methods.load(cell.method).STAGES and self.encoder_path(cell) == path:
                read = methods.load(cell.method).encoder_settings
                found += [read(cell.level, setting) for setting in cell.settings]
        return distinct([setting for setting in found if setting is not None])

    def plan_settings(self, path: str) -> list[dict[str, Any]]:
        """The distinct parts of a cell's settings that its privacy plan reads."""
        cell = self.cell(path)
        read = methods.load(cell.method).plan_settings
        return distinct([read(cell.level, setting) for setting in cell.settings])

    def release_settings(self, path: str) -> list[dict[str, Any]]:
        """The distinct parts of a cell's settings that its release of a matrix reads."""
        cell = self.cell(path)
        read = methods.load(cell.method).release_settings
        return distinct([read(cell.level, setting) for setting in cell.settings])

    def degree_bounds(self, path: str) -> list[str]:
        """The names of the degree bounds of a cell's settings (none for cells without a bound)."""
        cell = self.cell(path)
        settings = [setting for setting in cell.settings if "max_degree" in setting]
        bounds = {bound_name(setting) for setting in settings}
        return sorted(bounds, key=parse_bound)

    def experiments(self) -> dict[str, list[dict[str, Any]]]:
        """What each experiment asks for: its entries with the ε of this run, for the artefacts.

        A hyperparameter has a list of values, or {dataset: list, "default": list} where
        `per_dataset` replaces its default.
        """
        return {
            name: [self._spec(entry) for entry in entries]
            for name, entries in self.study.experiments.items()
        }

    def attacks(self) -> dict[str, list[dict[str, Any]]]:
        """What each attack asks for, in the form of `experiments`."""
        return {
            name: [self._spec(entry) for entry in attack.entries]
            for name, attack in self.study.attacks.items()
        }

    def _spec(self, entry: Any) -> dict[str, Any]:
        spec = {"method": entry.method, "level": entry.level}
        spec["epsilon"] = epsilons(self.study, entry)
        if entry.datasets is not None:
            spec["datasets"] = list(entry.datasets)
        for name in methods.load(entry.method).LEVELS[level_kind(entry.level)].model_fields:
            values = [value for value in getattr(entry, name) if value is not None]
            replaced = {
                dataset: [own[name]]
                for dataset, own in self.study.per_dataset.items()
                if name in own and name not in entry.model_fields_set
            }
            if values:
                spec[name] = {"default": values} | replaced if replaced else values
        return spec

    def blocks(self, finished: Iterable[str] = (), known: Sequence[str] = ()) -> list[str]:
        """The blocks of seeds as tokens "first-last": "0-4", "5-9".

        finished: tokens of blocks that earlier runs of the study trained. They are kept where they
        fit, the longest first, so that more seeds train only the new ones. known: tokens of blocks
        that are kept before these.
        """
        size, seeds = self.study.seed_block, self.study.seeds
        kept = [tuple(map(int, token.split("-"))) for token in known]
        spans = {tuple(map(int, token.split("-"))) for token in finished}
        spans = {
            (first, last)
            for first, last in spans
            if first <= last < seeds and all(last < start or end < first for start, end in kept)
        }
        spans |= set(kept)
        tokens, start = [], 0
        while start < seeds:
            ends = [last for first, last in spans if first == start]
            if ends:
                end = max(ends)
            else:
                later = [first for first, _ in spans if first > start]
                end = min([start + size, seeds, *later]) - 1
            tokens.append(f"{start}-{end}")
            start = end + 1
        return tokens


def epsilons(study: Study, entry: Any) -> list[str]:
    """The ε tokens of an experiment's entry: "inf" at level none, else the study's or its own."""
    if entry.level == "none":
        return ["inf"]
    return list(study.epsilons or entry.epsilon)
