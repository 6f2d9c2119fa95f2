"""The table of docs/dpdgc.md, written from the shipped rows by `make redraw`."""

from collections.abc import Iterator

from graphdp.paper.accuracy import accuracy_table
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
    context = shipped_context("config/papers/dpdgc.yaml", list(GRAPHS))
    table = accuracy_table(shipped_rows("dpdgc-rows.csv.gz"), context)
    cells = table.set_index(["dataset", "method", "level", "epsilon"])
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
