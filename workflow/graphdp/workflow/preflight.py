"""Before the first job: whether all that a configuration names is there, and fits together.

`graphdp.config` checks keys, types and ranges; what lies outside of the configuration (the registry
of datasets, the numbers of papers, tables and figures) is looked up here. Nothing here imports
pandas or torch: every start of Snakemake does this.
"""

import ast
import importlib.util
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from graphdp import private
from graphdp.config import Study, unknown, validate
from graphdp.data.csbm_sizes import check_sizes
from graphdp.data.datasets import DatasetSpec, Registry, load_registry
from graphdp.errors import GraphDPError
from graphdp.methods import registry as methods
from graphdp.workflow.known_rows import KnownIndex

PUBLISHED = "config/published"
#: Modules with the tables and figures of all studies; a paper's own are in its method's folder.
_GENERAL = {"table": "graphdp.paper.tables", "figure": "graphdp.paper.figures"}


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
        if spec.loader == "csbm":
            check_sizes(name, **spec.parameters)
    _check_named_datasets(study, registry)
    _check_models(study)
    _check_shown(study)
    datasets = {name: specs[name] for name in study.datasets}
    private.check_data(study, datasets)
    known = KnownIndex(study.known_rows, study.study) if study.known_rows else None
    return Prepared(study, datasets, known)


def _check_named_datasets(study: Study, registry: Registry) -> None:
    """Datasets that are named elsewhere than under `datasets`: a run may be restricted to fewer."""
    named = {f"per_dataset.{name}": name for name in study.per_dataset}
    named |= {f"split_fractions.{name}": name for name in study.split_fractions}
    for experiment, entries in study.experiments.items():
        for number, entry in enumerate(entries):
            for name in entry.datasets or ():
                named[f"experiments.{experiment}.{number}.datasets"] = name
                _check_dataset(f"experiments.{experiment}.{number}.datasets", name, study, registry)
    for where, name in named.items():
        _check_dataset(where, name, study, registry)


def _check_dataset(where: str, name: str, study: Study, registry: Registry) -> None:
    if name not in registry.names and name not in study.definitions:
        known = [*registry.names, *study.definitions]
        raise GraphDPError(f"config: {where}: {unknown('dataset', name, known)}")


def _check_models(study: Study) -> None:
    """Whether there is a model to train; raises as `Study.settings`."""
    found = False
    for dataset in study.datasets:
        attacked = [entry for attack in study.attacks.values() for entry in attack.entries]
        asked = [entry for entries in study.experiments.values() for entry in entries]
        for entry in [*asked, *attacked]:
            if entry.datasets is None or dataset in entry.datasets:
                found = bool(study.settings(dataset, entry)) or found
    if not found:
        raise GraphDPError(
            f"config: experiments: no entry is about {', '.join(study.datasets)}; change datasets, "
            "of the study or of an entry"
        )


def _check_shown(study: Study) -> None:
    for kind, names in (("table", study.tables), ("figure", study.figures)):
        for name in names:
            if name not in shown(kind):
                other = "figure" if kind == "table" else "table"
                hint = f"{name!r} is a {other}, which stands under {other}s"
                fault = unknown(kind, name, sorted(shown(kind)))
                raise GraphDPError(f"config: {kind}s: {hint if name in shown(other) else fault}")
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
