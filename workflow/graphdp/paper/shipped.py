"""Numbers of figures that no row holds, in a file beside the code that makes them.

The columns are figure, series (both str), x and y (float64); y has six digits.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from graphdp import io
from graphdp.errors import GraphDPError

Line = tuple[str, str, float, float]
_COLUMNS = ["figure", "series", "x", "y"]


def lines_of(file: Path, figure: str) -> pd.DataFrame:
    """The lines of a figure: series (str), x, y (float64)."""
    found = pd.read_csv(file)
    return found.loc[found["figure"] == figure, ["series", "x", "y"]].reset_index(drop=True)


def make_lines(
    file: Path, made: Mapping[str, Callable[[], Iterable[Line]]], names: Sequence[str] = ()
) -> None:
    """Make the lines of the named figures (all of `made` if none is), and keep those of the others.

    made: figure -> what makes its lines. Raises `GraphDPError` for an unknown figure.
    """
    names = names or list(made)
    if unknown := [name for name in names if name not in made]:
        raise GraphDPError(f"no figure is called {unknown[0]!r}; there are {', '.join(made)}")
    frame = pd.read_csv(file) if file.exists() else pd.DataFrame(columns=_COLUMNS)
    parts = {name: frame[frame["figure"] == name] for name in made}
    for name in names:
        lines = pd.DataFrame(list(made[name]()), columns=_COLUMNS)
        parts[name] = lines.assign(y=[float(f"{value:.6g}") for value in lines["y"]])
    with io.atomic_path(file) as temporary:
        pd.concat(parts.values()).to_csv(temporary, index=False, lineterminator="\n")
