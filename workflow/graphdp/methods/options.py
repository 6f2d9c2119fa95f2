"""The options of `graphdp calibrate`: the hyperparameters that the methods' plans read."""

import itertools
import types
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from graphdp.methods import registry
from graphdp.methods.card import Card
from graphdp.privacy.protection import is_private, level_kind


@dataclass
class Option:
    """An option of `graphdp calibrate`: one hyperparameter, of all methods that have it."""

    type: type
    choices: list[str] = field(default_factory=list)
    methods: dict[str, list[str]] = field(default_factory=dict)  # description -> who has it

    @property
    def help(self) -> str:
        return "; ".join(f"{words} ({', '.join(of)})" for words, of in self.methods.items())


class _Watched(dict):
    """A setting that remembers which hyperparameters were looked at."""

    def __init__(self, values: dict[str, Any]):
        super().__init__(values)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.read.add(str(name))
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.read.add(name)
        return super().get(name, default)


def plan_fields(its: Card, level: str) -> list[str]:
    """The hyperparameters that a method's plan reads at a level, in the order of its settings."""
    if level_kind(level) not in its.levels:
        return []
    settings = its.settings(level)
    watched = _Watched(settings().model_dump(exclude_none=True))
    its.plan(level, watched)
    return [name for name in settings.model_fields if name in watched.read]


@cache
def options() -> dict[str, Option]:
    """Every hyperparameter that some method's plan reads, by name."""
    found: dict[str, Option] = {}
    for its in registry.cards().values():
        for kind in filter(is_private, its.levels):
            for name in plan_fields(its, kind.replace("k", "k1")):
                info = its.levels[kind].model_fields[name]
                value, choices = type_of(info.annotation)
                option = found.setdefault(name, Option(value))
                option.choices += [c for c in choices if c not in option.choices]
                if its.name not in itertools.chain(*option.methods.values()):
                    option.methods.setdefault(info.description or "", []).append(its.name)
    return found


def type_of(annotation: Any) -> tuple[type, list[str]]:
    """The type of a hyperparameter's value on the command line, and its choices, if it has any."""
    if get_origin(annotation) is Annotated:
        return type_of(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        (given,) = (one for one in get_args(annotation) if one is not type(None))
        return type_of(given)
    if get_origin(annotation) is Literal:
        values = get_args(annotation)
        return (bool, []) if isinstance(values[0], bool) else (str, [str(v) for v in values])
    return annotation, []
