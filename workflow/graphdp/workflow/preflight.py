"""Before the first job: whether all that a configuration names is there, and fits together.

`graphdp.config` checks keys, types and ranges; what lies outside of the configuration (the registry
of datasets, the numbers of papers, tables and figures) is looked up here. Nothing here imports
pandas or torch: every start of Snakemake does this.
"""

import ast
import importlib.util
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from graphdp import private
from graphdp.config import Study, unknown, validate
from graphdp.config_errors import short
from graphdp.data import placed
from graphdp.data.csbm_sizes import check_sizes
from graphdp.data.datasets import DatasetSpec, Registry, load_registry
from graphdp.errors import GraphDPError
from graphdp.methods import registry as methods
from graphdp.methods.settings import key
from graphdp.parties import places
from graphdp.privacy.assumptions import sides_by_id
from graphdp.privacy.calibration import calibration_plan
from graphdp.privacy.plan import accounted_by
from graphdp.privacy.protection import REPLACED, is_private, replaces, whole_nodes
from graphdp.workflow import released_data
from graphdp.workflow.known_rows import KnownIndex

PUBLISHED = "config/published"
#: Larger than any batch.
_MANY_NODES = 10**12
#: Types of loaders' parameters, as the code annotates them -> those of values, in words.
_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "a text"),
    "bool": ((bool,), "true or false without quotes"),
    "int | None": ((int, type(None)), "a whole number without quotes"),
}
#: Modules with the tables and figures of all studies; a paper's own are in its method's folder.
_GENERAL = {"table": "graphdp.paper.tables", "figure": "graphdp.paper.figures"}
#: Of these what shows the experiment `accuracy` alone, whatever others a study has.
_OF_ACCURACY = {"table": ("accuracy", "leaderboard"), "figure": ("figure6", "leaderboard")}


@dataclass(frozen=True)
class Prepared:
    """A study, its datasets by name, and the rows of earlier runs that it names (or None)."""

    study: Study
    datasets: dict[str, DatasetSpec]
    known: KnownIndex | None


def prepare(config: Mapping[str, Any], registry: Registry | None = None) -> Prepared:
    """A study that can be run: its configuration, checked.

    registry: of datasets, if not the project's. Raises `GraphDPError` with one line that names the
    key, what is wrong, and what it might have been.
    """
    study = validate(dict(config))
    registry = registry or load_registry("config/datasets.yaml")
    specs = {
        name: registry.resolve(name, study.definitions)
        for name in [*study.datasets, *study.definitions]
    }
    for name, spec in specs.items():
        _check_loader(name, spec)
        if spec.loader == "csbm":
            check_sizes(name, **spec.parameters)
    _check_named_datasets(study, registry)
    _check_models(study)
    _check_shown(study)
    datasets = {name: specs[name] for name in study.datasets}
    private.check_data(study, datasets)
    if study.release == "private":
        private.check_same_dataset(study.study, study.datasets[0])
        released_data.check_no_copy(datasets)
        released_data.check_ledger_there()
    else:
        private.check_no_release(study.study)
        released_data.check_datasets_not_released(datasets)
    _check_known(study)
    known = KnownIndex(study.known_rows, study.study) if study.known_rows else None
    return Prepared(study, datasets, known)


def _check_known(study: Study) -> None:
    """That known rows lie outside of the study's folder, where Snakemake deletes what it makes."""
    own = Path("results", study.study).resolve()
    for path in study.known_rows or ():
        if Path(path).resolve().is_relative_to(own):
            raise GraphDPError(
                f"config: known_rows: {path} is where this study writes; copy it to another place "
                f"first, as in cp {path} earlier-{Path(path).name}, and name the copy"
            )


def _check_loader(name: str, spec: DatasetSpec) -> None:
    """That there is the loader of a dataset, and that it takes the entry's parameters."""
    if spec.loader not in loaders():
        raise GraphDPError(f"dataset {name!r}: {unknown('loader', spec.loader, list(loaders()))}")
    taken, needed = loaders()[spec.loader]
    for parameter, value in spec.parameters.items() if taken is not None else ():
        if parameter not in taken:
            fault = unknown("parameter", parameter, list(taken)) if taken else "takes no parameters"
            raise GraphDPError(f"dataset {name!r}: loader {spec.loader!r}: {fault}")
        types, words = _TYPES[taken[parameter]]
        if type(value) not in types:
            raise GraphDPError(
                f"dataset {name!r}: loader {spec.loader!r}: {parameter} must be {words}, not "
                f"{short(value)}; write it so under parameters"
            )
    for parameter in needed:
        if parameter not in spec.parameters:
            raise GraphDPError(
                f"dataset {name!r}: loader {spec.loader!r} needs {parameter!r}; give it under "
                "parameters"
            )
    file = spec.parameters.get("file")
    if spec.loader == "arrays" and file not in [one.name for one in spec.files]:
        raise GraphDPError(
            f"dataset {name!r}: parameters name the file {file!r}, which is not under files; put "
            f"it into the mirror's folder, and its name there: {Path(str(file)).name}"
        )


@cache
def loaders() -> Mapping[str, tuple[Mapping[str, str] | None, Collection[str]]]:
    """Loader -> the parameters that it takes, with their annotations (None: any), and those that it
    needs.

    Read off the code, as `shown`: of each function what stands behind folder and files.
    """
    tree = ast.parse(_source("graphdp.data.loaders")).body
    functions = {node.name: node.args for node in tree if isinstance(node, ast.FunctionDef)}
    (table,) = (n.value for n in tree if isinstance(n, ast.AnnAssign) and n.target.id == "LOADERS")
    found = {}
    for name, function in zip(table.keys, table.values, strict=True):
        arguments = functions[function.id]
        own = {one.arg: ast.unparse(one.annotation) for one in arguments.args[2:]}
        needed = list(own)[: len(own) - len(arguments.defaults)]
        found[ast.literal_eval(name)] = (None if arguments.kwarg else own, needed)
    return found


def _check_named_datasets(study: Study, registry: Registry) -> None:
    """Datasets that are named elsewhere than under `datasets`: a run may be restricted to fewer."""
    named = {f"per_dataset.{name}": name for name in study.per_dataset}
    named |= {f"split_fractions.{name}": name for name in study.split_fractions}
    for experiment, entries in study.experiments.items():
        for number, entry in enumerate(entries):
            for names in ("datasets", "except_datasets"):
                for name in getattr(entry, names) or ():
                    where = f"experiments.{experiment}.{number}.{names}"
                    _check_dataset(where, name, study, registry)
    for where, name in named.items():
        _check_dataset(where, name, study, registry)
    # A part of a study (`only`) need not have what the rest has.
    for dataset, values in study.per_dataset.items() if study.only is None else ():
        takes = [methods.card(entry.method).settings(entry.level).model_fields
                 for entry in study.entries_of(dataset)]  # fmt: skip
        for name in values:
            if takes and not any(name in fields for fields in takes):
                raise GraphDPError(
                    f"config: per_dataset.{dataset}: no entry about {dataset} has a {name}; leave "
                    "it out"
                )


def _check_dataset(where: str, name: str, study: Study, registry: Registry) -> None:
    if name not in registry.names and name not in study.definitions:
        known = [*registry.names, *study.definitions]
        raise GraphDPError(f"config: {where}: {unknown('dataset', name, known)}")


def _check_models(study: Study) -> None:
    """Whether there is a model to train, and of each a plan; raises as `Study.settings`."""
    asked = [
        (dataset, study.calibrated_for(name), entry)
        for dataset in study.datasets
        for name, entry in study.named_entries_of(dataset)
    ]
    if not asked:
        raise GraphDPError(
            f"config: experiments: no entry is about {', '.join(study.datasets)}; change datasets, "
            "of the study or of an entry"
        )
    if not (study.train or study.known_rows):
        raise GraphDPError(
            "config: train: false shows what known_rows holds; give known_rows, or leave train out"
        )
    checked = set()
    for dataset, calibrate_for, entry in asked:
        plan = methods.card(entry.method).plan
        for setting in study.settings(dataset, entry):
            settings = plan(entry.level, setting)
            model = entry.method, entry.level, key(settings), calibrate_for
            if model not in checked:
                checked.add(model)
                _check_plan(study, entry.method, entry.level, settings, calibrate_for)


def _check_plan(
    study: Study, method: str, level: str, settings: dict[str, Any], calibrate_for: str
) -> None:
    """Whether values fit together: parties and their shares, an analysis and its accountant."""
    if not is_private(level):
        return
    # How many nodes train is known when the data are.
    num_train = study.train_nodes or _MANY_NODES
    try:
        plans = methods.analyses(method, level, settings, num_train)
    except GraphDPError as error:
        raise GraphDPError(
            f"config: {method} at level {level}: {_without(error, method)}"
        ) from None
    chosen = calibration_plan(accounted_by(study.accountant, plans), calibrate_for)
    if study.release == "private":
        private.check_plan(method, chosen, num_train)
    if calibrate_for == "replaced" and whole_nodes(level) and chosen.adjacency != REPLACED:
        raise GraphDPError(
            f"config: calibrate_for: {method} at level {level} has no noise for a node that is "
            "replaced with all of its edges; set calibrate_for: corrected"
        )
    if replaces(chosen.adjacency) and chosen.composition.adds_or_removes:
        raise GraphDPError(
            f"config: calibrate_for: {method} at level {level} draws Poisson samples, for which a "
            f"replaced node has no other accountant; set accountant: pld"
        )
    # Also of an analysis that is stated beside the one that sets the noise.
    by_id = sides_by_id(plans)
    if by_id and study.split_sides != "by_id":
        raise GraphDPError(
            f"config: split_sides: with a node more or less the published split moves others to "
            f"another side, so {by_id[0]} of {method} does not hold; set by_id"
        )


def _without(error: GraphDPError, method: str) -> str:
    return str(error).removeprefix(f"{method}: ").removeprefix(f"{method}, ")


def check_mirror(study: Study) -> None:
    """Whether the folder with raw files is there; another machine, as jobs of a cluster have, may
    not see it. Raises `GraphDPError`."""
    if study.mirror is not None and not Path(study.mirror).is_dir():
        raise GraphDPError(
            f"config: mirror: there is no folder {study.mirror!r}; correct it, or leave it out"
        )


def check_raw(
    study: Study, datasets: Mapping[str, DatasetSpec], raw_folder: Callable[[str], str]
) -> None:
    """Whether raw files are those that graphs were made of, and those that the mirror alone tells
    the ones that were taken from it: no rule reads either again, so that a corrected one would not
    be used, without a word.

    raw_folder: of a dataset, where its files were placed. Raises `GraphDPError`.
    """
    for name, spec in datasets.items():
        placed.check_placed(spec, raw_folder(name), study.mirror)
        if study.mirror is not None:
            placed.check_unchanged(spec, raw_folder(name), study.mirror)


def check_links(study: Study, local: bool) -> None:
    """Of parties that are processes, whether the certificates of their links are there (hosts share
    a file system), and if jobs are `local` the program that starts others: elsewhere it may be
    another. Raises `GraphDPError`."""
    asked = [(dataset, entry) for dataset in study.datasets for entry in study.entries_of(dataset)]
    for dataset, entry in asked if study.train else ():
        for setting in study.settings(dataset, entry):
            if setting.get("transport") != "tcp":
                continue
            try:
                places.certificates(setting)
                if local:
                    places.check_launch(setting.get("launch", ""))
            except GraphDPError as error:
                raise GraphDPError(f"config: {entry.method}: {error}") from None


def _check_shown(study: Study) -> None:
    for kind, names in (("table", study.tables), ("figure", study.figures)):
        for name in names:
            if name not in shown(kind):
                other = "figure" if kind == "table" else "table"
                hint = f"{name!r} is a {other}, which stands under {other}s"
                fault = unknown(kind, name, sorted(shown(kind)))
                raise GraphDPError(f"config: {kind}s: {hint if name in shown(other) else fault}")
            # An attack alone, or a part of a study, need not have what the rest has.
            whole = study.only is None and study.experiments
            if name in _OF_ACCURACY[kind] and whole and "accuracy" not in study.experiments:
                raise GraphDPError(
                    f"config: {kind}s: {name} shows the experiment accuracy, and the study has "
                    f"{', '.join(study.experiments)}; name it so, or name what else is to be made "
                    f"({kind}s: [] for none)"
                )
    if study.paper is not None:
        papers = sorted(path.stem for path in Path(PUBLISHED).glob("*.csv"))
        papers = [name for name in papers if name != "orderings"]
        if study.paper not in papers:
            raise GraphDPError(f"config: paper: {unknown('paper', study.paper, papers)}")


@cache
def shown(kind: str) -> Collection[str]:
    """The names of all tables, or figures ("table", "figure").

    Read off the code, without running it: drawing imports a second's worth of libraries. They are
    the keys of the dictionaries `TABLES` and `FIGURES` (`_GENERAL` for all studies) there.
    """
    where = {_GENERAL[kind]: "_GENERAL"}
    where |= {module: f"{kind.upper()}S" for module in methods.modules("figures").values()}
    names: set[str] = set()
    for module, table in where.items():
        for node in ast.parse(_source(module)).body:
            if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == table:
                names |= set(map(ast.literal_eval, node.value.keys))
    return names


def _source(module: str) -> str:
    # The parents are imported by this, which are cheap, and not the module itself.
    spec = importlib.util.find_spec(module)
    with open(os.fspath(spec.origin), encoding="utf-8") as file:
        return file.read()
