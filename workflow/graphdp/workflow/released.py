"""What a study releases, cell by cell: the calibrations as files, and the privacy statements."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from graphdp.attacks.nodes import members_per_class
from graphdp.data.graph import Graph
from graphdp.data.split import split_of
from graphdp.keys import published_hash
from graphdp.methods.registry import analyses, card
from graphdp.privacy.statement import cell_statements
from graphdp.privacy.statement_page import render_pages
from graphdp.workflow.calibrations import Kept, calibrate_cell


def calibrate_study_cell(
    cell: Mapping[str, Any], graph: Graph, study: Any, kept: Kept, secret: str = ""
) -> list[dict[str, Any]]:
    """The entries of one cell of a study.

    cell: `dataset`, `method`, `level`, `epsilon`, `settings` (of its plan), `calibrate_for`,
    `accountant` and, of an attacked cell, `nodes_per_class`. study: has `study_seed`, `split` (the
    rule), `seeds` (of distinct splits), `train_nodes` (as announced, or None) and `delta`. secret:
    names the streams of a private release. Raises as `calibrate_cell`.
    """
    if study.train_nodes:
        num_trains = [study.train_nodes]
    elif cell["nodes_per_class"]:  # its models train on nodes of their own
        num_trains = [int(members_per_class(graph.y, cell["nodes_per_class"]).sum())]
    else:
        root = secret or study.study_seed
        splits = (split_of(graph, root, study.split, seed) for seed in range(study.seeds))
        num_trains = [split.train.size for split in splits]
    return calibrate_cell(
        cell["dataset"],
        cell["method"],
        cell["level"],
        cell["epsilon"],
        cell["settings"],
        num_trains,
        graph.num_edges,
        study.delta,
        cell["calibrate_for"],
        graph.num_nodes,
        kept,
        "private" if secret else "reproduction",
        cell["accountant"],
    )


@dataclass(frozen=True)
class Stated:
    """The privacy statements of a dataset, method, level and ε: as JSON, and as a page to read."""

    json: list[dict[str, Any]]
    page: str


def state(
    released: Mapping[str, Any],
    entries: Mapping[str, list[dict[str, Any]]],
    graph: Graph,
    preprocessing: Mapping[str, Any],
    split: str,
    secret: str = "",
) -> Stated:
    """The statements of what is released: the models selected among those of its cells.

    released: `dataset`, `method`, `level`, `checkpoint`, `repeats` (seeds), `cells` (names in
    `entries`) and `tried`, the plan's settings of every setting tried. preprocessing: of the graph.
    split: its rule.
    secret: names the streams of a private release, whose statement says nothing exact of the graph.
    """
    its, kind = card(released["method"]), "private" if secret else "reproduction"
    statements = cell_statements(
        [entry for name in released["cells"] for entry in entries[name]],
        released["dataset"],
        published_hash(secret, graph.fingerprint()),
        graph.num_nodes,
        graph.num_edges,
        its.name,
        its.checkpoint(released["level"], released["checkpoint"]),
        released["tried"],
        # Symmetrised graphs are undirected; of the others it is not known.
        preprocessing["symmetrise"] or None,
        released["repeats"],
        preprocessing["min_class_count"],
        preprocessing["remove_isolated"],
        split=split,
        release=kind,
        analyses=partial(analyses, its.name, released["level"]),
        words=its.words,
    )
    return Stated([statement.to_json() for statement in statements], render_pages(statements))
