"""Legends: one entry for what looks alike, and in how many columns entries fit."""

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy as np
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D

from graphdp.privacy.protection import level_suffix

#: At the end of a method's name: its level, which the panels' titles say.
_LEVEL = re.compile(rf"({level_suffix('edge')}|{level_suffix('node')})\b")


def one_per_look(handles: Mapping[str, Any]) -> dict[str, Any]:
    """Legend entries of which none looks like another: a method has one for all its levels."""
    alike: dict[tuple, list[str]] = {}
    for label, handle in handles.items():
        alike.setdefault(_look_of(handle, label), []).append(label)
    return {joined(labels): handles[labels[0]] for labels in alike.values()}


def _look_of(handle: Any, label: str) -> tuple:
    line = handle if isinstance(handle, Line2D) else getattr(handle, "lines", [None])[0]
    if not isinstance(line, Line2D):
        return (label,)
    colours = map(to_hex, (line.get_color(), line.get_markeredgecolor()))
    face = line.get_markerfacecolor()
    face = face if face == "none" else to_hex(face)
    return (*colours, face, line.get_marker(), line.get_linestyle(), line.get_linewidth())


def joined(labels: Sequence[str]) -> str:
    """One name for several: the words that they share stand once, of a method's levels none."""
    if len(labels) == 1:
        return labels[0]
    names = list(dict.fromkeys(_LEVEL.sub("", label) for label in labels))
    words = [name.split() for name in names]
    start, end = (_alike(words), _alike([name[::-1] for name in words]))
    if len(names) == 1 or any(len(name) <= start + end for name in words):
        return " / ".join(names)
    middles = (" ".join(name[start : len(name) - end]) for name in words)
    first = words[0]
    return " ".join([*first[:start], " / ".join(middles), *first[len(first) - end :]])


def _alike(names: Sequence[Sequence[str]]) -> int:
    """With how many equal words all names begin."""
    return sum(1 for _ in takewhile(lambda each: len(set(each)) == 1, zip(*names, strict=False)))


def legend_columns(labels: Sequence[str], width: float) -> int:
    """In how many columns entries fit into `width` points: filled one after the other, each as wide
    as its longest. An entry takes about 4.8 pt a character and 45 pt for its sample."""
    longest = np.array([4.8 * len(label) + 45 for label in labels])
    for columns in range(len(labels), 1, -1):
        if sum(part.max() for part in np.array_split(longest, columns)) <= width:
            return columns
    return 1
