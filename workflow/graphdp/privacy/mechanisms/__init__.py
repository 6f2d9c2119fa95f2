"""The kinds of mechanism: one file each, found by looking into this folder.

A kind is a file with one subclass of `base.Mechanism` (its fields, its unit of noise, its entry in
a statement) and a subclass of `base.Term` (how the accountants read it). Plans, accountants,
calibration and statements ask these two and name no kind, so that a new file is all that a new
kind needs. The methods import the class that they use; `KINDS` is for reading plans back.
"""

import importlib
import pkgutil
from dataclasses import asdict, fields
from typing import Any

from graphdp.errors import GraphDPError, one_of
from graphdp.privacy.mechanisms.base import Mechanism, Sensitivity, require

#: kind -> class, for every file of this folder.
KINDS: dict[str, type[Mechanism]] = {}


def discover() -> dict[str, type[Mechanism]]:
    """`KINDS` after reading the files of this folder, which happens on import, once more.

    Raises GraphDPError for a file without a mechanism or with several, and for a kind that two
    files define.
    """
    found: dict[str, type[Mechanism]] = {}
    for entry in sorted(pkgutil.iter_modules(__path__), key=lambda entry: entry.name):
        if entry.name == "base":
            continue
        module = importlib.import_module(f"{__name__}.{entry.name}")
        own = [
            value
            for value in vars(module).values()
            if isinstance(value, type)
            and issubclass(value, Mechanism)
            and value.__module__ == module.__name__
        ]
        require(
            len(own) == 1,
            f"{module.__name__} defines {len(own)} mechanisms; a file holds exactly one",
        )
        kind = own[0].kind
        require(kind not in found, f"two files define the mechanism {kind!r}; rename one")
        found[kind] = own[0]
    KINDS.clear()
    KINDS.update(found)
    return KINDS


def to_dict(mechanism: Mechanism) -> dict[str, Any]:
    """A JSON object: `kind` and the fields. `from_dict` gives back an equal mechanism."""
    return {"kind": mechanism.kind} | asdict(mechanism)


def from_dict(value: dict[str, Any]) -> Mechanism:
    """The mechanism that `to_dict` wrote.

    Raises GraphDPError for an unknown kind and for unknown or missing keys.
    """
    value = dict(value)
    kind = value.pop("kind", None)
    one_of("kind of mechanism", kind, tuple(KINDS))
    for field in fields(KINDS[kind]):
        if field.type is Sensitivity and field.name in value:
            value[field.name] = build(Sensitivity, value[field.name])
    return build(KINDS[kind], value)


def build(cls: type, value: dict[str, Any]) -> Any:
    """`cls(**value)` after checking that the keys are exactly the fields of a dataclass."""
    names = {field.name for field in fields(cls)}
    for problem, keys in (("unknown", value.keys() - names), ("missing", names - value.keys())):
        if keys:
            raise GraphDPError(f"{cls.__name__}: {problem} key {', '.join(sorted(keys))}")
    return cls(**value)


discover()
