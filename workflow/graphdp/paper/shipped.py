"""What is shipped with the project: rows of models, and numbers of figures that no row holds.

Rows stand in `workflow/report`. Such numbers stand in a file beside the code that makes them, with
the columns figure, series (both str), x and y (float64); y has six digits, or is whole.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from graphdp import io
from graphdp.config import Study, validate
from graphdp.errors import GraphDPError
from graphdp.paper.attack import read_attacks
from graphdp.paper.context import study_context
from graphdp.paper.rows import read_rows
from graphdp.workflow import asked

#: Rows and figures that are part of the project.
FOLDER = Path(__file__).parents[2] / "report"

Line = tuple[str, str, float, float]
_COLUMNS = ["figure", "series", "x", "y"]


@cache
def shipped_rows(name: str) -> pd.DataFrame:
    """The rows of a file of `FOLDER`, as `read_rows` gives them; read once, so not to be changed.

    name: of a file, or a pattern of several of one study ("progap-*-rows.csv.gz", one for each
    graph, so that none gets too large). Raises `GraphDPError` as `read_rows`.
    """
    files = sorted(FOLDER.glob(name)) or [FOLDER / name]
    return pd.concat([read_rows(file) for file in files], ignore_index=True)


@cache
def shipped_attacks(name: str) -> pd.DataFrame:
    """As `shipped_rows`, of attacks, as `read_attacks` gives them."""
    return read_attacks(FOLDER / name)


def shipped_context(config: str, datasets: Sequence[str]) -> dict[str, Any]:
    """The context (`graphdp.paper.cells`) of a part of a study, from its configuration alone: it
    has neither statistics nor calibrations, which tables of accuracies and figures do not read.

    config: path of a configuration file, below the project's folder. Raises `GraphDPError` for a
    configuration that is not valid.
    """
    return study_context(asked.about(shipped_study(config, datasets), {}), {}, [])


def shipped_study(config: str, datasets: Sequence[str]) -> Study:
    """The part of a study on some datasets. Raises `GraphDPError` as `shipped_context`."""
    content = io.read_yaml(config)
    return validate(content | {"datasets": list(datasets)})


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
        parts[name] = lines.assign(y=[_short(value) for value in lines["y"]])
    with io.atomic_path(file) as temporary:
        pd.concat(parts.values()).to_csv(temporary, index=False, lineterminator="\n")


def _short(value: float) -> float:
    """Six digits; of a whole number, which is a count, all."""
    return value if float(value).is_integer() else float(f"{value:.6g}")
