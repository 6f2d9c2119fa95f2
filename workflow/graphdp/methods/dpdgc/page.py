"""DPDGC in docs/dpdgc.md and README.md, written from the shipped rows by `make redraw`."""

from collections.abc import Iterator

import pandas as pd

from graphdp.paper.accuracy import accuracy_table
from graphdp.paper.overview import Panel
from graphdp.paper.shipped import shipped_context, shipped_rows
from graphdp.paper.tables import accuracy_text

GRAPHS = {
    "cora": "Cora",
    "chameleon": "Chameleon",
    "squirrel": "Squirrel",
    "photo": "Photo",
    "pubmed": "Pubmed",
    "computers": "Computers",
    "berkeley13-connected": "berkeley13",
}
#: What the table calls a column -> level, ε.
COLUMNS = {
    "none": ("none", "inf"),
    "edge_directed, ε = 1": ("edge", "1"),
    "k_neighbor(1), ε = 16": ("k1", "16"),
    "k_neighbor(5), ε = 16": ("k5", "16"),
    "k_neighbor(25), ε = 16": ("k25", "16"),
    "node_replace, ε = 16": ("node", "16"),
}


def table2() -> Iterator[str]:
    """The lines of DPDGC's Table 2: per graph what is printed, as implemented and corrected."""
    cells = _cells()
    yield f"| graph | | {' | '.join(COLUMNS)} |"
    yield "| --- " * (2 + len(COLUMNS)) + "|"
    for graph, title in GRAPHS.items():
        theirs, ours = (
            [cells.loc[(graph, method, *place)] for place in COLUMNS.values()]
            for method in ("dpdgcofficial", "dpdgc")
        )
        lines = {
            "as implemented": map(accuracy_text, theirs),
            "corrected": map(accuracy_text, ours),
        }
        if theirs[0].notna()["published_mean"]:
            printed = (
                f"{cell['published_mean']:.1f} ± {cell['published_ci']:.1f}" for cell in theirs
            )
            lines = {"printed": printed} | lines
        for number, (what, shown) in enumerate(lines.items()):
            yield f"| {'' if number else title} | {what} | {' | '.join(shown)} |"


def apart() -> list[float]:
    """Points between the accuracies of the authors' code and print, of every printed cell."""
    cells = _cells().xs("dpdgcofficial", level="method")
    printed = cells[cells["published_mean"].notna()]
    return list((printed["mean"] - printed["published_mean"]).abs())


def came_out() -> str:
    """What README.md says of the paper."""
    off = apart()
    return (
        f"As its code runs it {sum(one <= 2.5 for one in off)} of {len(off)} printed cells within "
        "2.5 points, at an ε that is refuted. With one that holds (edge level proven, else "
        "conditional) better on Cora and Pubmed for one neighbour, up to eight points worse at "
        "edge level, and at node level below MLP-DP and GAP on every graph"
    )


def overview() -> Panel:
    """Node level on the graphs that the paper prints."""
    cells, graphs = _cells(), list(GRAPHS)[:-1]
    lines = []
    for place, graph in enumerate(graphs):
        theirs, ours, alone = (
            cells.loc[(graph, method, "node", "16")] for method in ("dpdgcofficial", "dpdgc", "mlp")
        )
        half, mean = theirs["published_ci"], theirs["published_mean"]
        lines.append((place, "printed", mean, mean - half, mean + half))
        for kind, found in (("claimed", theirs), ("holds", ours), ("alone", alone)):
            lines.append((place, kind, found["mean"], found["ci_low"], found["ci_high"]))
    return Panel(
        "DPDGC",
        [GRAPHS[graph] for graph in graphs],
        pd.DataFrame(lines, columns=["place", "kind", "mean", "low", "high"]),
        "claimed ε = 16 (node_replace; δ = 1e-4, Pubmed and Computers 1e-5;\n"
        "what holds: corrected, conditional)",
    )


def _cells() -> pd.DataFrame:
    """`accuracy_table` by dataset, method, level and ε."""
    context = shipped_context("config/papers/dpdgc.yaml", list(GRAPHS))
    table = accuracy_table(shipped_rows("dpdgc-rows.csv.gz"), context)
    return table.set_index(["dataset", "method", "level", "epsilon"]).sort_index()
