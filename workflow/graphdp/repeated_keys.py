"""Keys that stand twice in a mapping of a YAML file: its readers keep the last without a word."""

import os
from collections.abc import Iterator
from pathlib import Path

import yaml

from graphdp.errors import GraphDPError

#: libyaml, where it is built in, takes a tenth, and each job of the workflow parses the registry.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def check(path: str | os.PathLike) -> None:
    """Raises `GraphDPError`, with the line, for a key that stands twice in one mapping of a file of
    YAML or JSON, and for one of so many levels that they cannot be looked through. One that cannot
    be read, or is neither, is left to who reads it."""
    try:
        root = yaml.compose(Path(path).read_text(encoding="utf-8"), LOADER)
    except (OSError, ValueError, yaml.YAMLError):
        return
    try:
        repeated = next(_repeated(root, set()), None)
    except RecursionError:
        raise GraphDPError(f"{path}: brackets or lists stand in one another too deep") from None
    if repeated:
        key, line = repeated
        raise GraphDPError(f"{path}, line {line}: {key!r} stands twice there; keep one of the two")


def _repeated(node: yaml.Node | None, seen: set[int]) -> Iterator[tuple[str, int]]:
    """(key, line) of what stands again; what an alias names is looked at once."""
    if node is None or isinstance(node, yaml.ScalarNode) or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for one in node.value:
            yield from _repeated(one, seen)
        return
    keys: set[tuple[str, str]] = set()
    for key, value in node.value:
        if isinstance(key, yaml.ScalarNode):
            if (key.tag, key.value) in keys:
                yield key.value, key.start_mark.line + 1
            keys.add((key.tag, key.value))
        yield from _repeated(value, seen)
