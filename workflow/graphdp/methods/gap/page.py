"""GAP in docs/gap.md and README.md, written from the shipped rows by `make redraw`."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import pandas as pd

from graphdp.paper import attack
from graphdp.paper.accuracy import degree_bounds_table
from graphdp.paper.labels import delta_text
from graphdp.paper.orderings import attack_orderings_table, orderings_table, verdict_lines
from graphdp.paper.select import select_best, summarise
from graphdp.paper.shipped import shipped_attacks, shipped_context, shipped_rows
from graphdp.paper.tables import accuracy_text

CONFIG = "config/papers/gap.yaml"
GRAPHS = ("berkeley13", "uva16", "pubmed", "cora")
EDGE, NODE = ("0.5", "1", "2", "4", "8"), ("2", "4", "8", "16")


def edge_level() -> Iterator[str]:
    """The lines of the accuracies at edge level, beside the MLP, which reads no edge."""
    cells = _cells("gap-rows.csv.gz")
    yield f"| graph, δ | {' | '.join(f'ε = {e}' for e in EDGE)} | ε = ∞ | MLP |"
    yield "| --- " * (3 + len(EDGE)) + "|"
    for graph in GRAPHS:
        found = [cells.loc[(graph, "gap", "edge", epsilon)] for epsilon in EDGE]
        without = [cells.loc[(graph, method, "none", "inf")] for method in ("gap", "mlp")]
        told = map(accuracy_text, [*found, *without])
        yield f"| {graph}, {delta_text(found[0]['delta'])} | {' | '.join(told)} |"


def node_level() -> Iterator[str]:
    """The lines of the accuracies at node level: GAP, and MLP-DP, which reads no edge."""
    cells = _cells("gap-rows.csv.gz")
    yield f"| graph, δ | | {' | '.join(f'target ε = {e}' for e in NODE)} |"
    yield "| --- " * (2 + len(NODE)) + "|"
    for graph in GRAPHS:
        delta = cells.loc[(graph, "gap", "node", NODE[0]), "delta"]
        for method, title in (("gap", "GAP-NDP, claimed (refuted)"), ("mlp", "MLP-DP")):
            told = [accuracy_text(cells.loc[(graph, method, "node", epsilon)]) for epsilon in NODE]
            graph_once = f"{graph}, {delta_text(delta)}" if method == "gap" else ""
            yield f"| {graph_once} | {title} | {' | '.join(told)} |"


def undirected() -> Iterator[str]:
    """The lines of what the noise for an undirected edge costs."""
    budgets = ("1", "4", "8")
    yield f"| graph, δ | noise for | {' | '.join(f'target ε = {e}' for e in budgets)} |"
    yield "| --- " * (2 + len(budgets)) + "|"
    published, corrected = map(_cells, ("gap-rows.csv.gz", "gap-undirected-rows.csv.gz"))
    for graph in ("berkeley13", "pubmed"):
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


def attacks() -> Iterator[str]:
    """The lines of what the paper claims of Table 3, and whether it holds."""
    yield from verdict_lines(_attacked(attack_orderings_table))


def orderings() -> Iterator[str]:
    """The lines of what else the paper claims, and whether it holds."""
    rows = shipped_rows("gap-rows.csv.gz")
    yield from verdict_lines(orderings_table(rows, shipped_context(CONFIG, GRAPHS)))


def _attacked(make: Callable[[pd.DataFrame, Mapping], pd.DataFrame]) -> pd.DataFrame:
    rows = shipped_attacks("gap-attacks.csv.gz")
    return make(rows, shipped_context(CONFIG, sorted(set(rows["dataset"]))))


def came_out() -> str:
    """What README.md says of the paper."""
    cells = _cells("gap-rows.csv.gz")

    def lead(graph: str, level: str, epsilon: str) -> float:
        alone = (graph, "mlp", *(("none", "inf") if level == "edge" else (level, epsilon)))
        return cells.loc[(graph, "gap", level, epsilon), "mean"] - cells.loc[alone, "mean"]

    above = sum(lead(graph, "edge", epsilon) > 0 for graph in GRAPHS for epsilon in EDGE)
    first: dict[str, list[str]] = {}
    for graph in GRAPHS:
        won = [epsilon for epsilon in NODE if lead(graph, "node", epsilon) > 0]
        first.setdefault(f"from a claimed {won[0]} on" if won else "never", []).append(graph)
    told = ", ".join(f"for {_listed(graphs)} {when}" for when, graphs in first.items())
    return (
        f"On four graphs: at edge level above the MLP in {above} of {len(GRAPHS) * len(EDGE)} "
        "cells (edge_directed, proven). At node level (node_add_remove, refuted) above MLP-DP "
        f"{told}"
    )


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _cells(name: str) -> pd.DataFrame:
    """Mean, interval and δ of the selected models, by dataset, method, level and ε."""
    best, _ = select_best(shipped_rows(name))
    return summarise(best).set_index(["dataset", "method", "level", "epsilon"]).sort_index()
