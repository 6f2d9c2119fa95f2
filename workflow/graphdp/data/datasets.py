"""The dataset registry: what each dataset consists of, and what it must look like once loaded.

`config/datasets.yaml` is the only place where URLs, hashes, preprocessing and expected statistics
stand; this module gives them types. It imports neither torch nor numpy, so every job can read it.
"""

import csv
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from graphdp import repeated_keys
from graphdp.config_errors import explained, short, unknown
from graphdp.errors import GraphDPError


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class FileSpec(_Strict):
    """One raw file. With neither hash, the first one seen is recorded and enforced from then on."""

    name: str = Field(pattern=r"^[^/\\]+$")  # base name in the dataset's folder
    url: str | None = None  # None: the user supplies the file
    size: int | None = None  # bytes
    sha256: str | None = Field(None, pattern=r"^[0-9a-f]{64}$")
    git_sha1: str | None = Field(None, pattern=r"^[0-9a-f]{40}$")  # SHA-1 of the git blob


class Preprocessing(_Strict):
    """What `graphdp.data.preprocess` does, in this order."""

    symmetrise: bool = True  # add the reverse of every edge
    min_class_count: int = Field(1, ge=1)  # drop classes with fewer labelled nodes than this
    remove_isolated: bool = False  # drop nodes without any edge, last
    # Classes are 0..num_classes-1 as the files number them, whichever occur; None: those that do.
    num_classes: int | None = Field(None, ge=2, le=10**6)


class Statistics(_Strict):
    """Expected counts after preprocessing (edges: directed entries); those given are checked."""

    source: str
    nodes: int | None = None
    edges: int | None = None
    features: int | None = None
    classes: int | None = None


class DatasetSpec(_Strict):
    """Everything needed to obtain, load and check one dataset."""

    name: str = ""
    title: str
    loader: str  # a key of `graphdp.data.loaders.LOADERS`
    files: tuple[FileSpec, ...] = ()
    parameters: dict[str, Any] = {}  # arguments of the loader
    preprocessing: Preprocessing = Preprocessing()
    statistics: Statistics | None = None  # None: generated, or counts not known
    notes: str = ""  # what is loaded and why, where papers and files differ
    by_hand: str = ""  # how a user supplies files that cannot be downloaded


class Definition(_Strict):
    """A variant that a study's config defines from a registered dataset."""

    base: str
    title: str | None = None
    parameters: dict[str, Any] = {}
    preprocessing: dict[str, Any] = {}
    statistics: Statistics | None = None


class _School(_Strict):
    """What is special about one Facebook100 school."""

    title: str | None = None
    size: int | None = None
    sha256: str | None = None
    preprocessing: dict[str, Any] = {}
    statistics: Statistics | None = None
    notes: str = ""


class _Facebook100(_Strict):
    hashes: str  # table `file<TAB>git_sha1`, beside the registry
    url: str  # with {file}
    loader: str
    preprocessing: Preprocessing
    notes: str
    aliases: dict[str, str]  # registered name -> school
    schools: dict[str, _School]
    union: DatasetSpec  # its files are those of every school


class _RegistryFile(_Strict):
    datasets: dict[str, DatasetSpec]
    facebook100: _Facebook100


class Registry:
    """Every dataset that can be named, Facebook100's hundred schools included."""

    def __init__(self, path: Path, datasets: dict[str, DatasetSpec]) -> None:
        self._path = path
        self._datasets = datasets

    @property
    def names(self) -> tuple[str, ...]:
        """All registered names, sorted."""
        return tuple(sorted(self._datasets))

    def resolve(
        self, name: str, definitions: Mapping[str, Mapping[str, Any]] | None = None
    ) -> DatasetSpec:
        """The specification of a dataset, or of a variant that `definitions` derives from one.

        Args:
            name: a registered name or a key of `definitions`.
            definitions: per variant `base` (a registered name) and what differs from it:
                `parameters` of the loader, `preprocessing`, `title`, `statistics`. Where the
                parameters or the preprocessing differ, the base's expected counts no longer apply
                and only the variant's own `statistics` are checked.

        Raises:
            GraphDPError: unknown name, parameter or key (with the nearest valid one), or a value
                of the wrong type.
        """
        definitions = definitions or {}
        if name not in definitions:
            return self._registered(name, extra_names=definitions)
        if name in self._datasets:
            raise GraphDPError(
                f"dataset definition '{name}' hides the registered dataset of that name: rename it"
            )
        where = f"dataset definition '{name}'"
        variant = _parse(Definition, definitions[name], where)
        base = self._registered(variant.base)
        changes: dict[str, Any] = {"name": name, "title": variant.title or f"{base.title} ({name})"}
        if variant.parameters:
            changes["parameters"] = base.parameters | _like(
                base.parameters, variant.parameters, where
            )
        if variant.preprocessing:
            merged = base.preprocessing.model_dump() | variant.preprocessing
            changes["preprocessing"] = _parse(Preprocessing, merged, f"{where}: preprocessing")
        if variant.parameters or variant.preprocessing:
            changes["statistics"] = None
        if variant.statistics:
            changes["statistics"] = variant.statistics
        return base.model_copy(update=changes)

    def _registered(self, name: str, extra_names: Mapping[str, Any] | None = None) -> DatasetSpec:
        if name in self._datasets:
            return self._datasets[name]
        known = sorted([*self._datasets, *(extra_names or {})])
        raise GraphDPError(f"{unknown('dataset', name, known)} ({self._path})")


def load_registry(path: str | os.PathLike) -> Registry:
    """Read `datasets.yaml` (and the table of Facebook100 hashes that it names, beside it).

    Raises:
        GraphDPError: the file is missing or does not fit the types, saying where.
    """
    path = Path(path)
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), repeated_keys.LOADER)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        why = " ".join(str(error).split())
        raise GraphDPError(f"cannot read the dataset registry {path}: {why}") from error
    repeated_keys.check(path)
    parsed = _parse(_RegistryFile, content, str(path))
    datasets = {
        name: spec.model_copy(update={"name": name}) for name, spec in parsed.datasets.items()
    }
    family = _facebook100(parsed.facebook100, path.parent / parsed.facebook100.hashes)
    return Registry(path, datasets | family)


def _facebook100(family: _Facebook100, table: Path) -> dict[str, DatasetSpec]:
    try:
        rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines(), delimiter="\t"))
        hashes = {row["file"].removesuffix(".mat"): row["git_sha1"] for row in rows}
    except (OSError, ValueError, KeyError) as error:
        raise GraphDPError(
            f"cannot read the Facebook100 hashes {table} (columns file, git_sha1): {error}"
        ) from error
    datasets = {}
    for school, git_sha1 in hashes.items():
        name = school.lower()
        special = family.schools.get(name, _School())
        datasets[name] = DatasetSpec(
            name=name,
            title=special.title or f"Facebook100 {school}",
            loader=family.loader,
            files=(
                FileSpec(
                    name=f"{school}.mat",
                    url=family.url.format(file=f"{school}.mat"),
                    size=special.size,
                    sha256=special.sha256,
                    git_sha1=git_sha1,
                ),
            ),
            preprocessing=_parse(
                Preprocessing,
                family.preprocessing.model_dump() | special.preprocessing,
                f"facebook100: {name}: preprocessing",
            ),
            statistics=special.statistics,
            notes=" ".join(filter(None, (family.notes, special.notes))),
        )
    for alias, name in family.aliases.items():
        datasets[alias] = datasets[name].model_copy(update={"name": alias})
    schools = sorted(name for name in datasets if name not in family.aliases)
    datasets["fb-100"] = family.union.model_copy(
        update={"name": "fb-100", "files": tuple(datasets[name].files[0] for name in schools)}
    )
    return datasets


def _like(defaults: Mapping[str, Any], given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """`given` with every key known from `defaults` and every value of the default's type."""
    checked = {}
    for key, value in given.items():
        if key not in defaults:
            raise GraphDPError(f"{where}: {unknown('parameter', str(key), sorted(defaults))}")
        wanted = type(defaults[key])
        if wanted is float and type(value) is int:
            try:
                value = float(value)
            except OverflowError:
                raise GraphDPError(
                    f"{where}: parameter '{key}' is too large ({short(value)}); give at most 1e+308"
                ) from None
        if type(value) is not wanted:
            raise GraphDPError(
                f"{where}: parameter '{key}' must be of type {wanted.__name__}, got {short(value)}"
            )
        checked[key] = value
    return checked


def _parse(model: type[_Strict], content: Any, where: str) -> Any:
    """`model` from plain data; the first error as one line with its place and the nearest key."""
    try:
        # By way of JSON: strict types then still take lists where they say tuple.
        return model.model_validate_json(json.dumps(content, default=str))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        message = explained(first)
        if first["type"] == "extra_forbidden":
            fields = _fields_at(model, first["loc"][:-1])
            message = unknown("key", str(first["loc"][-1]), sorted(fields))
        raise GraphDPError(f"{where}: {place}: {message}") from error


def _fields_at(model: Any, place: tuple) -> list[str]:
    """Field names of the model at `place` inside `model`; [] where no model stands there."""
    for part in place:
        if _is_model(model):
            field = model.model_fields.get(str(part))
            model = field.annotation if field else None
        else:  # dict[str, X], tuple[X, ...], X | None
            model = next(filter(_is_model, get_args(model)), None)
    if not _is_model(model):
        model = next(filter(_is_model, get_args(model)), None)
    return list(model.model_fields) if model else []


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
