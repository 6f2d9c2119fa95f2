"""Checks of a study's configuration that look at several of its entries."""

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from graphdp.config_errors import first_fault, unknown


def known_values(
    values: Mapping[str, Any], where: str, settings: Sequence[type[BaseModel]]
) -> None:
    """Whether hyperparameters (name -> value or list) are such as some of the settings have.

    Raises ValueError that begins with `where`.
    """
    names = sorted({name for one in settings for name in one.model_fields})
    for name, value in values.items():
        if name not in names:
            raise ValueError(where + unknown("hyperparameter", name, names))
        given = value if isinstance(value, list | tuple) else [value]
        if not given:
            raise ValueError(f"{where}{name} has no value; leave it out")
        for one in given:
            faults = [_fault(of, name, one) for of in settings if name in of.model_fields]
            if all(faults):
                raise ValueError(where + faults[0])


def _fault(settings: type[BaseModel], name: str, value: Any) -> str:
    try:
        settings.model_validate({name: value})
        return ""
    except ValidationError as error:
        return first_fault(error)


def one_analysis(value: Mapping[str, Sequence[BaseModel]]) -> None:
    """Whether every cell has one ε, and every ε of a statement one meaning.

    value: experiment -> its entries. A cell's models are selected among those of one ε, whose
    meaning some settings change. Raises ValueError naming what is mixed.
    """
    for (name, entries), (setting, words) in itertools.product(
        value.items(), {"degree_bound": "degree bounds", "adjacency": "adjacencies"}.items()
    ):
        values: dict[tuple[str, str], set[str | None]] = {}
        for entry in entries:
            values.setdefault((entry.method, entry.level), set()).update(
                getattr(entry, setting, ())
            )
        if any(len(found) > 1 for found in values.values()):
            raise ValueError(
                f"{name} mixes {words}, whose ε mean different things; give each an "
                "experiment of its own, or where they have the same ε a study"
            )
    # The statement of an ε composes the search over all experiments that have it.
    adjacencies: dict[tuple[str, str, str], set[str | None]] = {}
    for entry in itertools.chain(*value.values()):
        for epsilon in getattr(entry, "epsilon", ()):
            cell = (entry.method, entry.level, epsilon)
            adjacencies.setdefault(cell, set()).update(getattr(entry, "adjacency", ()))
    for (method, level, epsilon), found in adjacencies.items():
        if len(found) > 1:
            raise ValueError(
                f"{method} at level {level} and target epsilon {epsilon} has two adjacencies "
                "in two experiments, whose searches do not compose; give each a study"
            )


def known_names(key: str, names: Collection[str], experiments: Collection[str]) -> None:
    """Whether what a key names are experiments (or attacks) of the study.

    Raises ValueError with the first that is not, and those that there are.
    """
    for name in names:
        if name not in experiments:
            raise ValueError(
                f"{key}: there is no experiment {name!r}; known: {', '.join(experiments)}"
            )
