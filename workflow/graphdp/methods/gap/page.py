"""GAP in docs/gap.md and README.md, written from the shipped rows by `make redraw`."""

from collections.abc import Callable, Iterator, Mapping

import pandas as pd

from graphdp.paper import attack
from graphdp.paper.accuracy import degree_bounds_table
from graphdp.paper.accuracy_words import accuracy_text
from graphdp.paper.labels import delta_text
from graphdp.paper.ordering_words import verdict_lines
from graphdp.paper.orderings import attack_orderings_table
from graphdp.paper.overview import Panel
from graphdp.paper.pages import (
    expected_table,
    listed,
    method_lines,
    shipped_cells,
    shipped_orderings,
    where_it_stands,
)
from graphdp.paper.select import select_best, summarise
from graphdp.paper.shipped import shipped_attacks, shipped_context, shipped_rows

ROWS, ATTACKS = "gap-rows.csv.gz", "gap-attacks.csv.gz"
CONFIG = "config/papers/gap.yaml"
GRAPHS = ("berkeley13", "uva16", "pubmed", "cora")
EDGE, NODE = ("0.1", "0.2", "0.5", "1", "2", "4", "8"), ("1", "2", "4", "8", "16")


def edge_level() -> Iterator[str]:
    """The lines of the accuracies at edge level and without privacy."""
    places = [*(("edge", epsilon) for epsilon in EDGE), ("none", "inf")]
    methods = {"GAP": "gap", "SAGE": "sage", "MLP, reads no edge": "mlp"}
    yield from method_lines(_cells(), GRAPHS, methods, places)


def node_level() -> Iterator[str]:
    """The lines of the accuracies at node level."""
    methods = {
        "GAP-NDP, claimed (refuted)": "gap",
        "SAGE-NDP, claimed (refuted)": "sage",
        "MLP-DP, reads no edge": "mlp",
    }
    yield from method_lines(_cells(), GRAPHS, methods, [("node", epsilon) for epsilon in NODE])


def undirected() -> Iterator[str]:
    """The lines of what the noise for an undirected edge costs."""
    budgets = ("1", "4", "8")
    yield f"| graph, δ | noise for | {' | '.join(f'target ε = {e}' for e in budgets)} |"
    yield "| --- " * (2 + len(budgets)) + "|"
    graphs = ("berkeley13", "pubmed")
    published = _cells()
    corrected = shipped_cells(
        "gap-undirected-rows.csv.gz", "config/studies/gap-undirected.yaml", graphs
    )
    for graph in graphs:
        for cells, noise in (
            (published, "edge_directed (as published, proven)"),
            (corrected, "edge_undirected (corrected, proven)"),
        ):
            found = [cells.loc[(graph, "gap", "edge", epsilon)] for epsilon in budgets]
            graph_once = f"{graph}, {delta_text(found[0]['delta'])}" if cells is published else ""
            yield f"| {graph_once} | {noise} | {' | '.join(map(accuracy_text, found))} |"


def bounds() -> Iterator[str]:
    """The lines of what degree bounds cost at node level."""
    context = shipped_context("config/studies/degree-bounds.yaml", ["berkeley13"])
    table = degree_bounds_table(shipped_rows("degree-bounds-rows.csv.gz"), context)
    budgets = ("4", "8")
    yield f"| degree bound | {' | '.join(f'target ε = {e} (node level)' for e in budgets)} |"
    yield "| --- " * (1 + len(budgets)) + "|"
    for (bound, degree), line in table.groupby(["degree_bound", "max_degree"], sort=False):
        told = " | ".join(accuracy_text(cell) for _, cell in line.iterrows())
        yield f"| {_BOUNDS[bound].format(degree)} | {told} |"


_BOUNDS = {
    "sampling": "sampling, D = {} (as published, refuted: no ε holds)",
    "public_candidates": "public candidates, D = {} (corrected, conditional)",
    "": "MLP-DP, reads no edge (as published, conditional)",
}


def table3() -> Iterator[str]:
    """The lines of Table 3: mean AUC of node membership inference, in percent."""
    table = _attacked(attack.table3)
    table = table[table["mean"].notna()].set_index(["dataset", "method", "epsilon"]).sort_index()
    budgets = ("inf", "1", "2", "4", "8", "16")
    titles = ["no privacy", *(f"target ε = {e} (node level)" for e in budgets[1:])]
    yield f"| graph | method | {' | '.join(titles)} |"
    yield "| --- " * (2 + len(budgets)) + "|"
    for graph in dict.fromkeys(table.index.get_level_values("dataset")):
        for method, title in (("gap", "GAP"), ("sage", "SAGE"), ("mlp", "MLP")):
            told = (accuracy_text(table.loc[(graph, method, e)]) for e in budgets)
            yield f"| {graph if method == 'gap' else ''} | {title} | {' | '.join(told)} |"


def expected_attacks() -> Iterator[str]:
    """The lines of docs/artifact.md about Table 3: a line of that table each, on one school."""
    rows = shipped_attacks(ATTACKS)
    rows = rows[rows["dataset"] == "berkeley13"]
    found = rows.set_index(["method", "epsilon"])["auc"].sort_index() * 100
    claims = (
        ("GAP, no privacy", "GAP-∞", ("gap", "inf")),
        ("the MLP, no privacy", "MLP", ("mlp", "inf")),
        ("GAP, claimed ε = 8 (node_add_remove, δ = 1e-4, refuted)", "GAP-NDP", ("gap", "8")),
        ("MLP-DP, ε = 8 (node_add_remove, δ = 1e-4, conditional)", "MLP-DP", ("mlp", "8")),
    )
    yield from expected_table(" AUC", ((what, line, found.loc[of]) for what, line, of in claims))
    yield ""
    yield where_it_stands("table3", rows, "attacks")


def attacks() -> Iterator[str]:
    """The lines of what the paper claims of Table 3, and whether it holds."""
    yield from verdict_lines(_attacked(attack_orderings_table))


def orderings() -> Iterator[str]:
    """The lines of what else the paper claims, and whether it holds."""
    yield from verdict_lines(shipped_orderings(ROWS, CONFIG, GRAPHS))


def _attacked(make: Callable[[pd.DataFrame, Mapping], pd.DataFrame]) -> pd.DataFrame:
    rows = shipped_attacks(ATTACKS)
    return make(rows, shipped_context(CONFIG, sorted(set(rows["dataset"]))))


def came_out() -> str:
    """What README.md says of the paper."""
    cells = _cells()

    def leads(graph: str, level: str, epsilon: str, *, apart: bool = False) -> bool:
        """Whether GAP's mean is above the MLP's, or its whole interval is."""
        alone = (graph, "mlp", *(("none", "inf") if level == "edge" else (level, epsilon)))
        ours, theirs = cells.loc[(graph, "gap", level, epsilon)], cells.loc[alone]
        return ours["ci_low" if apart else "mean"] > theirs["ci_high" if apart else "mean"]

    at_edges = [(graph, "edge", epsilon) for graph in GRAPHS for epsilon in EDGE]
    above = sum(leads(*cell) for cell in at_edges)
    apart = sum(leads(*cell, apart=True) for cell in at_edges)
    first: dict[str, list[str]] = {}
    for graph in GRAPHS:
        won = [epsilon for epsilon in NODE if leads(graph, "node", epsilon)]
        first.setdefault(f"from a claimed {won[0]} on" if won else "never", []).append(graph)
    told = ", ".join(f"for {listed(graphs)} {when}" for when, graphs in first.items())
    return (
        f"On four graphs, by the means: at edge level (ε of {EDGE[0]} to {EDGE[-1]}) above the "
        f"MLP in {above} of {len(at_edges)} cells, {apart} with intervals apart (edge_directed, "
        f"proven). At node level (node_add_remove, refuted), with its encoder, above MLP-DP {told}"
    )


def overview() -> Panel:
    """A school, by what is promised: of an edge, where the claim holds; of a node, where public
    candidates have an ε that does; of a participant, whom the models of the claim protect as well.
    """
    graph, cells = "berkeley13", _cells()
    bounded = shipped_rows("degree-bounds-rows.csv.gz")
    public = bounded["hp_degree_bound"] == "public_candidates"
    best, _ = select_best(bounded[public])
    candidates = summarise(best).set_index(["dataset", "method", "level", "epsilon"])
    columns = []
    for epsilon in ("1", "4"):
        here = cells.loc[(graph, "gap", "edge", epsilon)]
        columns.append(
            ("edge", epsilon, {"holds": here, "alone": cells.loc[(graph, "mlp", "edge", "0")]})
        )
    for promise in ("node", "participant"):
        for epsilon in ("4", "8"):
            cell, alone = ((graph, method, "node", epsilon) for method in ("gap", "mlp"))
            here = {"claimed": cells.loc[cell], "holds": candidates.loc[cell]}
            if promise == "participant":
                here = {"holds": cells.loc[cell]}
            columns.append((promise, epsilon, here | {"alone": cells.loc[alone]}))
    return Panel(
        f"GAP, {graph}",
        [f"{promise}\nε = {epsilon}" for promise, epsilon, _ in columns],
        pd.DataFrame(
            [
                (place, kind, line["mean"], line["ci_low"], line["ci_high"])
                for place, (_, _, found) in enumerate(columns)
                for kind, line in found.items()
            ],
            columns=["place", "kind", "mean", "low", "high"],
        ),
        "target ε; edge: edge_directed, δ = 1e-7, as published, proven; node: node_add_remove;\n"
        "participant: the models of that claim; both δ = 1e-5; what holds: corrected, conditional",
    )


def _cells() -> pd.DataFrame:
    return shipped_cells(ROWS, CONFIG, GRAPHS)
