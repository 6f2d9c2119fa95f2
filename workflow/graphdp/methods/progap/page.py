"""ProGAP in docs/progap.md and README.md, written from the shipped rows by `make redraw`."""

from collections.abc import Iterator
from functools import cache

import pandas as pd

from graphdp.methods.progap.figures import LAYERWISE_EXPERIMENT
from graphdp.paper.accuracy_words import accuracy_text
from graphdp.paper.cells import experiment_rows
from graphdp.paper.ordering_words import verdict_lines
from graphdp.paper.pages import listed, method_lines, shipped_cells, shipped_orderings
from graphdp.paper.select import select_best, summarise
from graphdp.paper.shipped import shipped_context, shipped_rows

ROWS, CONFIG = "progap-*-rows.csv.gz", "config/papers/progap.yaml"
EDGE, NODE = ("0.25", "0.5", "1", "2", "4"), ("2", "4", "8", "16", "32")
#: What a line of a table is called -> its method, in the order of the lines.
EDGE_LINES = {
    "ProGAP": "progap",
    "GAP": "gap",
    "GraphSAGE, EdgeRand": "progapsage",
    "EdgeRand, as its code runs it (refuted)": "progapsageofficial",
    "MLP, reads no edge": "mlp",
}
NODE_LINES = {
    "ProGAP, claimed (refuted)": "progap",
    "GAP, claimed (refuted)": "gap",
    "DP-GNN, claimed, of its weights alone (refuted)": "progapsage",
    "DP-GNN, as its code runs it (refuted)": "progapsageofficial",
    "MLP-DP, reads no edge": "mlp",
}


def edge_level() -> Iterator[str]:
    """The lines of the accuracies at edge level and without privacy."""
    places = [*(("edge", epsilon) for epsilon in EDGE), ("none", "inf")]
    yield from method_lines(shipped_cells(ROWS, CONFIG, graphs()), graphs(), EDGE_LINES, places)


def node_level() -> Iterator[str]:
    """The lines of the accuracies at node level."""
    places = [("node", epsilon) for epsilon in NODE]
    yield from method_lines(shipped_cells(ROWS, CONFIG, graphs()), graphs(), NODE_LINES, places)


def layerwise() -> Iterator[str]:
    """The lines of progressive against layer-wise training."""
    rows = experiment_rows(shipped_rows(ROWS), _context(), LAYERWISE_EXPERIMENT)
    best, _ = select_best(rows, ["hp_layerwise"])
    cells = summarise(best, ["hp_layerwise"])
    cells = cells.set_index(["dataset", "level", "epsilon", "hp_layerwise"])
    columns = {
        "ε = 1 (edge level)": ("edge", "1"),
        "target ε = 8 (node level)": ("node", "8"),
        "without privacy": ("none", "inf"),
    }
    yield f"| graph | trained | {' | '.join(columns)} |"
    yield "| --- " * (2 + len(columns)) + "|"
    for graph in graphs():
        for frozen, name in ((False, "progressively"), (True, "layer by layer")):
            places = ((graph, *place, frozen) for place in columns.values())
            told = (accuracy_text(cells.loc[p]) if p in cells.index else "–" for p in places)
            yield f"| {'' if frozen else graph} | {name} | {' | '.join(told)} |"


def orderings() -> Iterator[str]:
    """The lines of what the paper claims, and whether it holds in the shipped rows."""
    yield from verdict_lines(_orderings())


def came_out() -> str:
    """What README.md says of the paper."""
    counts = _orderings()
    counts = counts[counts["verdict"] != "missing"]

    def said(claim: str, level: str) -> str:
        mine = counts[(counts["claim"] == claim) & (counts["level"] == level)]
        above = (mine["higher_mean"] > mine["lower_mean"]).sum()
        return f"{above} of {len(mine)} ({(mine['higher_low'] > mine['lower_high']).sum()})"

    return (
        f"On {listed(graphs())}, by the means (in brackets: with intervals apart): at edge "
        f"level (edge_directed, proven) above GAP in {said('ProGAP above GAP', 'edge')} cells and "
        f"above the MLP in {said('ProGAP above the MLP', 'edge')}; at node level (node_add_remove, "
        f"refuted) above GAP in {said('ProGAP above GAP', 'node')} and above MLP-DP, which is "
        f"conditional, in {said('ProGAP above MLP-DP', 'node')}"
    )


@cache
def _orderings() -> pd.DataFrame:
    return shipped_orderings(ROWS, CONFIG, graphs())


def graphs() -> list[str]:
    """The graphs of the shipped rows on which the whole grid has run."""
    rows = shipped_rows(ROWS)
    settings = rows.groupby("dataset")[["level", "epsilon", "method", "hyperparameters"]]
    run = settings.apply(lambda mine: len(mine.drop_duplicates()))
    return sorted(run.index[run == run.max()])


def _context() -> dict:
    return shipped_context(CONFIG, graphs())
