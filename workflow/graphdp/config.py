"""The study configuration: its types and its validation.

`config/schema.json` and `config/README.md` are generated from these types by
`python -m graphdp.config` (`graphdp.config_reference`), and a test fails when they differ.

Nothing here imports torch: every start of Snakemake reads this module.
"""

import itertools
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    create_model,
    field_validator,
    model_validator,
)

from graphdp import private
from graphdp.commands import without_arguments
from graphdp.config_checks import known_names, known_values, one_analysis
from graphdp.config_errors import first_fault, unknown
from graphdp.config_types import (
    Epsilons,
    Fractions,
    KNeighbors,
    Name,
    Names,
    OneOrMore,
    as_list,
    delta_choice,
    no_folder_of_ours,
)
from graphdp.errors import GraphDPError
from graphdp.methods.registry import card, cards
from graphdp.methods.settings import Strict
from graphdp.privacy.protection import (
    is_private,
    level_kind,
)

#: (method, kind of level), of which entries there can be.
GRIDS = tuple((method, level) for method, its in cards().items() for level in its.levels)


@cache
def grid_type(method: str, level: str) -> type[BaseModel]:
    """The type of an experiment's entry, one of `GRIDS`: each hyperparameter as a value or a list
    of values. Made when it is asked for: all of them take a quarter of a second."""
    settings = cards()[method].levels[level]
    fields: dict[str, Any] = {
        "method": (Literal[method], Field(description="which method")),
        "level": (
            KNeighbors if level == "k" else Literal[level],
            Field(description="what is protected"),
        ),
    }
    if is_private(level):
        fields["epsilon"] = (
            Epsilons,
            Field(description="target ε, finite; calibrate_for says of which analysis"),
        )
    fields["datasets"] = (
        Annotated[Names, Field(min_length=1)] | None,
        Field(None, description="only these datasets of the study, if given"),
    )
    fields["except_datasets"] = (
        Annotated[Names, Field(min_length=1)] | None,
        Field(None, description="all datasets of the study but these, if given"),
    )
    for name, info in settings.model_fields.items():
        item = info.annotation
        if info.metadata:
            item = Annotated[item, *info.metadata]
        values = Annotated[list[item], Field(min_length=1), *OneOrMore]
        fields[name] = (values, Field([info.default], description=info.description))
    doc = f"Grid of {method} at level {level}."
    return create_model(f"{method}_{level}", __base__=Strict, __doc__=doc, **fields)


def _grid_entry(value: Any) -> BaseModel:
    """Validate one entry against the grid type that its method and level name."""
    if isinstance(value, BaseModel):
        return value
    if not isinstance(value, dict):
        example = next(method for method, level in GRIDS if level == "edge")
        raise ValueError(
            f"an entry is a mapping such as {{method: {example}, level: edge, epsilon: [1, 4]}}"
        )
    for name in ("method", "level"):
        if name not in value:
            raise ValueError(f"the key {name!r} is missing; add e.g. `{name}: ...`")
    known = sorted({method for method, _ in GRIDS})
    method, level = value["method"], value["level"]
    if method not in known:
        raise ValueError(unknown("method", str(method), known))
    levels = [lv for m, lv in GRIDS if m == method]
    kind = level_kind(level)
    if kind not in levels or level == "k":
        shown = ["k<number>" if lv == "k" else lv for lv in levels]
        raise ValueError(unknown(f"level of {method}", str(level), shown))
    value = cards()[method].levels[kind].without_defaults(value, [None])
    return grid_type(method, kind).model_validate(value)


GridEntry = Annotated[Any, BeforeValidator(_grid_entry)]


def is_about(entry: BaseModel, dataset: str) -> bool:
    """Whether an entry of an experiment is about a dataset of the study."""
    if entry.except_datasets is not None and dataset in entry.except_datasets:
        return False
    return entry.datasets is None or dataset in entry.datasets


class Attack(Strict):
    """One attack of a study: whom it attacks. See `graphdp.attacks`."""

    nodes_per_class: Annotated[int, Field(ge=1)] = Field(
        1000, description="nodes per class for each of the target and the shadow model"
    )
    entries: Annotated[list[GridEntry], Field(min_length=1)] = Field(
        description="the attacked models; as in an experiment, but each with a single setting"
    )

    @field_validator("entries", mode="after")
    @classmethod
    def _single_settings(cls, entries: list) -> list:
        seen = set()
        for entry in entries:
            if (entry.method, entry.level) in seen:
                raise ValueError(f"{entry.method} at level {entry.level} stands twice; keep one")
            seen.add((entry.method, entry.level))
            for key in ("datasets", "except_datasets"):
                if getattr(entry, key) is not None:
                    raise ValueError(
                        f"{key}: an attack is on all datasets of the study; leave it out"
                    )
            for name in card(entry.method).settings(entry.level).model_fields:
                if len(getattr(entry, name)) > 1:
                    raise ValueError(f"{name} has several values; an attack takes one")
        return entries


class Study(Strict):
    """One study: what is trained on which data, and what is drawn from it."""

    study: Annotated[Name, AfterValidator(no_folder_of_ours)] = Field(
        description="name of the study; results go to results/<study>/"
    )
    title: str = Field("", description="heading of the report")
    paper: Name | None = Field(
        None, description="shows the printed numbers of config/published/<paper>.csv beside ours"
    )
    datasets: Annotated[list[Name], Field(min_length=1), *OneOrMore] = Field(
        description="registered names (config/datasets.yaml), schools, or names of `definitions`"
    )
    definitions: dict[Name, dict[str, Any]] = Field(
        {}, description="variants of datasets: name -> {base: csbm, parameters: {phi: 0.5}}"
    )
    seeds: Annotated[int, Field(ge=1, le=10_000)] = Field(10, description="repeats of every model")
    experiment_seeds: dict[Name, Annotated[int, Field(ge=1)]] = Field(
        {}, description="experiment -> repeats, where they are fewer than `seeds`"
    )
    seed_block: Annotated[int, Field(ge=1)] = Field(
        10, description="repeats that one job trains together; 1 gives one job per repeat"
    )
    cell_block: Annotated[int, Field(ge=1)] = Field(
        1,
        description="cells (levels and ε) of one method and experiment that one job runs, one "
        "after the other; more saves the start of processes where a cell takes seconds",
    )
    # PyTorch, which draws one kind of split from it, takes a negative one for another and a longer
    # one for none.
    study_seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = Field(
        12345, description="root of every random stream"
    )
    release: Literal["reproduction", "private"] = Field(
        "reproduction",
        description="reproduction: every key follows from the study seed; or private: of one model "
        "on private data, from a secret key, see docs/private.md",
    )
    key_file: str | None = Field(
        None, description="release: private: the file of the secret key (`graphdp key FILE`)"
    )
    train_nodes: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="release: private: the number of training nodes that is announced, and that "
        "sampling rate and steps are computed from",
    )
    split: Literal["shared", "per_seed"] = Field(
        "shared", description="one split for all repeats (as published), or one per repeat"
    )
    split_sides: Literal["by_id", "published", "torch"] = Field(
        "by_id",
        description="by_id: each node's side follows from its own id, whichever other nodes there "
        "are; or published: exact shares of a permutation, in which a node more or less moves many "
        "others (GAP's, which shipped rows have); or torch: published, with the permutation that "
        "DPDGC's authors draw",
    )
    split_fractions: dict[Name, Fractions] = Field(
        {},
        description="dataset -> shares of training, validation and test nodes, where they are "
        "not 0.75, 0.1, 0.15",
    )
    checkpoint: Literal["best_validation", "last"] = Field(
        "best_validation",
        description="the epoch that is kept: best on the un-noised validation nodes (as "
        "published; not private) or the last (private)",
    )
    delta: Annotated[float | str, AfterValidator(delta_choice)] = Field(
        "auto",
        description="auto: 10^-digits of the number of edges (edge level) or of nodes; for "
        "node_add_remove, if calibrate_for is published, of training nodes, as the papers "
        "count; train_nodes^-1.1: that power of the number of training nodes. A number not below "
        "one over that of protected edges or nodes is refused for a corrected analysis, and "
        "warned of else; `at most 1e-5` takes the largest power of ten below it instead",
    )
    calibrate_for: Literal["published", "corrected", "replaced"] = Field(
        "published",
        description="the analysis that meets ε: the method's own (the paper's; of dpa, dpdgc and "
        "heterpoisson a corrected one), the first corrected one (edge level: an undirected edge; "
        "node level: a participant, or a replaced node), or the one of a replaced node where there "
        "is one (of Poisson samples with accountant: pld)",
    )
    accountant: Literal["auto", "pld"] = Field(
        "auto",
        description="auto: sampled rounds in Rényi DP where it knows them, as published; pld: by "
        "privacy loss distributions wherever these know all that a model releases, with less "
        "noise (docs/privacy.md)",
    )
    corrected_experiments: Annotated[list[Name], *OneOrMore] = Field(
        [], description="experiments calibrated for the corrected analysis whatever calibrate_for"
    )
    epsilons: Epsilons | None = Field(
        None, description="replaces the finite ε of every entry of every level"
    )
    per_dataset: dict[Name, dict[str, Any]] = Field(
        {}, description="dataset -> hyperparameter -> value, for entries that do not set it"
    )
    experiments: dict[Name, list[GridEntry]] = Field(
        {}, description="name -> grids; what an earlier experiment trains is not trained again"
    )
    attacks: dict[Literal["nmi"], Attack] = Field(
        {}, description="nmi: node membership inference, see below"
    )
    only: Annotated[list[Name], Field(min_length=1), *OneOrMore] | None = Field(
        None, description="the experiments and attacks that are run, by name; all if not given"
    )
    known_rows: Annotated[list[str], *OneOrMore] = Field(
        [],
        description="rows files of earlier runs of the study (rows.csv or attacks.csv, plain or "
        ".gz): their models are taken over, not trained again",
    )
    train: bool = Field(
        True, description="false: train no model; what `known_rows` does not hold is missing"
    )
    tables: Names = Field(["statistics", "accuracy"], description="tables to make")
    figures: Names = Field(["figure6"], description="figures to make")
    mirror: str | None = Field(
        None, description="folder with raw files, searched before the network"
    )
    missing_data: Literal["fail", "skip"] = Field(
        "fail",
        description="skip: leave out datasets that are not downloaded yet and show them as missing",
    )
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="where models are trained")
    gpu: Annotated[int, Field(ge=0)] = Field(0, description="GPUs that a training job asks for")
    threads: Annotated[int, Field(ge=1)] = Field(1, description="CPU threads of a training job")
    memory_mb: Annotated[int, Field(ge=256)] = Field(
        3000, description="bound on a training job's tensors; larger blocks train in chunks"
    )

    @field_validator("experiments", mode="after")
    @classmethod
    def _has_one_analysis(cls, value: dict) -> dict:
        one_analysis(value)
        return value

    @model_validator(mode="after")
    def _has_entries(self) -> "Study":
        if not (self.experiments or self.attacks) or not all(self.experiments.values()):
            raise ValueError(
                "every study needs an experiment or an attack, and every experiment an entry"
            )
        return self

    @field_validator("per_dataset", mode="after")
    @classmethod
    def _per_dataset_is_known(cls, value: dict) -> dict:
        settings = [settings for its in cards().values() for settings in its.levels.values()]
        for dataset, values in value.items():
            known_values(values, f"{dataset}: ", settings)
        return value

    @field_validator("definitions", mode="after")
    @classmethod
    def _no_folder_of_stages(cls, value: dict) -> dict:
        if "bundles" in value:
            raise ValueError("bundles: the name is kept for folders of results; choose another")
        return value

    @model_validator(mode="before")
    @classmethod
    def _private_defaults(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("release") == "private":
            return private.DEFAULTS | value
        return value

    @model_validator(mode="after")
    def _can_be_released(self) -> "Study":
        for key in ("experiment_seeds", "corrected_experiments"):
            known_names(key, getattr(self, key), self.experiments)
        known_names("only", self.only or (), [*self.experiments, *self.attacks])
        private.check(self)
        return self

    def part(self) -> "Study":
        """The study with what `only` names alone: of experiments, attacks and what is of them."""
        if self.only is None:
            return self
        kept: dict[str, Any] = {
            key: {name: of for name, of in getattr(self, key).items() if name in self.only}
            for key in ("experiments", "attacks", "experiment_seeds")
        }
        corrected = [name for name in self.corrected_experiments if name in self.only]
        return self.model_copy(update=kept | {"corrected_experiments": corrected})

    def seeds_of(self, experiment: str) -> int:
        """Repeats of the models of an experiment."""
        return min(self.seeds, self.experiment_seeds.get(experiment, self.seeds))

    def calibrated_for(self, experiment: str) -> str:
        """The analysis that meets ε in an experiment, one of `CALIBRATE_FOR`."""
        return "corrected" if experiment in self.corrected_experiments else self.calibrate_for

    def split_rule(self, dataset: str) -> str:
        """How a dataset is split, as `graphdp.data.split.split_of` reads it."""
        shares = self.split_fractions.get(dataset)
        words = [self.split]
        words += {"by_id": ["by id"], "torch": ["by torch"]}.get(self.split_sides, [])
        words += ["/".join(map(str, shares))] if shares else []
        return " ".join(words)

    def settings(self, dataset: str, entry: BaseModel) -> list[dict[str, Any]]:
        """Every hyperparameter setting of an experiment's entry on a dataset, as dictionaries.

        Raises `GraphDPError` if the dataset has a value that the entry's method does not take.
        """
        settings = card(entry.method).settings(entry.level)
        grid = {name: getattr(entry, name) for name in settings.model_fields}
        for name, value in self.per_dataset.get(dataset, {}).items():
            if name in grid and name not in entry.model_fields_set:
                grid[name] = as_list(value)
        try:
            return [
                settings(**dict(zip(grid, values, strict=True))).model_dump(exclude_none=True)
                for values in itertools.product(*grid.values())
            ]
        except ValidationError as error:
            # Each value alone was checked before: of a dataset's it may be another method's, or
            # two do not go together.
            where = f"{entry.method} at level {entry.level} on {dataset}"
            raise GraphDPError(f"config: {where}: {first_fault(error)}") from None

    def entries_of(self, dataset: str) -> list[BaseModel]:
        """The entries, of experiments and attacks, that are about a dataset."""
        return [entry for _, entry in self.named_entries_of(dataset)]

    def named_entries_of(self, dataset: str) -> list[tuple[str, BaseModel]]:
        """As `entries_of`, each behind the name of its experiment or attack."""
        attacked = ((name, attack.entries) for name, attack in self.attacks.items())
        return [
            (name, entry)
            for name, entries in (*self.experiments.items(), *attacked)
            for entry in entries
            if is_about(entry, dataset)
        ]


def validate(config: dict[str, Any]) -> Study:
    """Check a study's configuration; returns the part of it that is asked for.

    Raises `GraphDPError` with one line that names the key, what is wrong and, for an unknown key,
    the nearest valid one.
    """
    try:
        return Study.model_validate(config).part()
    except ValidationError as error:
        raise GraphDPError(f"config: {first_fault(error, config, keys_at)}") from None


def keys_at(place: tuple, value: Any) -> tuple[str, list[str]]:
    """(what stands in a place of a configuration, its keys), for who misspelt one.

    place: the keys and positions that lead there. value: what is given there.
    """
    if "experiments" in place[:1] or "entries" in place:
        method, level = value["method"], value["level"]
        grid = grid_type(method, level_kind(level))
        return f"{method} at level {level}", sorted(grid.model_fields)
    return ("an attack", [*Attack.model_fields]) if place else ("a study", [*Study.model_fields])


def main(folder: str = "config") -> None:
    """Regenerate the schema and the reference."""
    from graphdp import config_reference, io

    io.write_json(Path(folder) / "schema.json", config_reference.schema())
    io.write_text(Path(folder) / "README.md", config_reference.reference())


if __name__ == "__main__":
    without_arguments("graphdp.config", __doc__)
    main()
