"""Every figure by name: those of all studies here, each paper's own in its method's folder."""

import os
from collections.abc import Mapping
from functools import cache
from importlib import import_module

from graphdp.methods import registry
from graphdp.paper import style
from graphdp.paper.cells import known
from graphdp.paper.leaderboard import leaderboard_figure
from graphdp.paper.plots import Drawing
from graphdp.paper.rows import read_rows
from graphdp.paper.scorecard import scorecard_figure

_GENERAL: dict[str, Drawing] = {
    "scorecard": Drawing(
        "Scorecard",
        scorecard_figure,
        "Left: our accuracy minus the printed one, on the paper's datasets. Right: the orderings "
        "that the paper claims, at every ε of the study.",
    ),
    "leaderboard": Drawing(
        "Leaderboard",
        leaderboard_figure,
        "Accuracy in percent of every method, the best on the whole first, at each ε, for the "
        "hyperparameters that validation accuracy chooses. Colours, and bold print of what is "
        "better, say what is gained over the network that reads no edge (a panel's last line) "
        "where a 95 % interval over seeds tells them apart; at edge level that needs no noise.",
    ),
}


@cache
def figures() -> Mapping[str, Drawing]:
    """Name -> how to draw it."""
    found = dict(_GENERAL)
    for module in registry.modules("figures").values():
        found |= import_module(module).FIGURES
    return found


def build_figure(
    name: str,
    rows_csv: str | os.PathLike,
    context: Mapping,
    output_svg: str | os.PathLike,
    output_png: str | os.PathLike,
) -> None:
    """Draw the figure `name` (a key of `figures()`) as SVG and PNG."""
    drawing = known(name, figures(), "figure")
    style.save(drawing.draw(read_rows(rows_csv), context), output_svg, output_png)
