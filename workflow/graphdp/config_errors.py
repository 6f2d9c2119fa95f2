"""What is wrong with a configuration, in one line with the key and the nearest valid value."""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

#: What pydantic misses -> what to write.
_WANTED = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "give a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "give a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "give true or false"),
    "string_type": "give text, in quotes where it looks like a number",
    **dict.fromkeys(("list_type", "tuple_type"), "give a list ([a, b])"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "give keys and values"),
    "too_short": "give at least one",
}
_LONGEST = 60
_SHOWN = 20
_NAME = "letters, digits, '.', '_' and '-', with a letter or digit first"


def short(value: Any) -> str:
    """A value as messages show it: on one line, and not longer than it helps."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def unknown(kind: str, name: str, known: Sequence[str]) -> str:
    """That a name is none of those known, with the nearest of them."""
    folded = {one.lower(): one for one in reversed(known)}
    near = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.5)
    many = ", ".join(known[:_SHOWN]) + (", ..." if len(known) > _SHOWN else "")
    hint = f"did you mean {folded[near[0]]!r}?" if near else f"known: {many or 'none'}"
    return f"unknown {kind} {short(name)}; {hint}"


def first_fault(
    error: ValidationError,
    config: Any = None,
    keys_at: Callable[[tuple, Any], tuple[str, list[str]]] | None = None,
) -> str:
    """The first of the faults that pydantic found, with its place.

    config: what was validated. keys_at: as `graphdp.config.keys_at`.
    """
    first = error.errors(include_url=False)[0]
    place = first["loc"]
    if first["type"] not in ("extra_forbidden", "missing"):
        # Which member of a union did not match is nothing that stands in the configuration.
        place = tuple(part for part in place if part not in ("float", "str", "[key]"))
    where = ".".join(part if str(part).isprintable() else repr(part) for part in map(str, place))
    return f"{where + ': ' if where else ''}{_explain(first, config, keys_at)}"


def _explain(error: dict[str, Any], config: Any, keys_at: Callable | None) -> str:
    kind, place = error["type"], error["loc"]
    if kind == "extra_forbidden" and keys_at:
        value = config
        for part in place[:-1]:
            value = value[part]
        what, known = keys_at(place[:-1], value)
        return f"{unknown('key', str(place[-1]), known)} (of {what})"
    return explained(error)


def explained(error: Mapping[str, Any]) -> str:
    """One of pydantic's errors in words, without its place."""
    kind, place, given = error["type"], error["loc"], error["input"]
    if kind == "missing" and isinstance(place[-1], int):
        return "a value is missing"
    if kind == "missing":
        return f"the key {place[-1]!r} is missing; add `{place[-1]}: ...`"
    if kind == "string_pattern_mismatch" and "A-Za-z0-9._-" in error["ctx"]["pattern"]:
        return f"a name has {_NAME}, not {short(given)}"
    if kind == "literal_error":
        return f"choose {error['ctx']['expected']}, not {short(given)}"
    message = re.sub(r"^(Value|Assertion) error, ", "", error["msg"])
    return message if kind == "value_error" else f"{_WANTED.get(kind, message)}, not {short(given)}"
