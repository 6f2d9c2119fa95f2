"""Raw graph to `Graph`: what is dropped, in which order, and the check of the counts."""

import os
from pathlib import Path

import numpy as np

from graphdp.data.datasets import DatasetSpec, Preprocessing
from graphdp.data.graph import Graph, csr_from_edges
from graphdp.data.loaders import LOADERS, RawGraph
from graphdp.errors import GraphDPError

#: Ids of a universe; the split, and public candidates, draw for each, there or not.
MOST_IDS = 10**8


def preprocess(spec: DatasetSpec, folder: str | os.PathLike) -> Graph:
    """Load a dataset's verified raw files, preprocess them and check the result.

    Args:
        spec: the dataset (`Registry.resolve`).
        folder: where `graphdp.data.download.download` put its files.

    Raises:
        GraphDPError: the files cannot be read, nothing is left, or a count differs from
            `spec.statistics` (the message has both numbers).
    """
    if spec.loader not in LOADERS:
        raise GraphDPError(
            f"dataset '{spec.name}': unknown loader '{spec.loader}': known are {', '.join(LOADERS)}"
        )
    folder = Path(folder)
    absent = [file.name for file in spec.files if not (folder / file.name).is_file()]
    if absent:
        raise GraphDPError(
            f"dataset '{spec.name}': {folder} lacks {', '.join(absent)}: download it first"
        )
    try:
        raw = LOADERS[spec.loader](folder, [file.name for file in spec.files], **spec.parameters)
    except GraphDPError:
        raise
    except Exception as error:  # damaged files raise anything
        raise GraphDPError(
            f"dataset '{spec.name}': cannot read the raw files in {folder} with loader "
            f"'{spec.loader}' ({type(error).__name__}: {error}): check or replace them"
        ) from error
    graph = build(spec.name, raw, spec.preprocessing).validate()
    for what, count, least in (
        ("classes", graph.num_classes, 2),
        ("features", graph.num_features, 1),
    ):
        if count < least:
            raise GraphDPError(
                f"dataset '{spec.name}' has {count} {what}, and a model needs {least} or more: "
                "check the raw files and the preprocessing"
            )
    check_statistics(spec, graph)
    return graph


def build(name: str, raw: RawGraph, steps: Preprocessing) -> Graph:
    """Preprocess a raw graph, in the order of GAP's authors.

    1. Nodes without a class are dropped. What is left is the "raw graph" that the train/validation/
       test split is drawn over where it is as published (`Graph.node_ids`,
       `Graph.raw_num_nodes`).
    2. Classes with fewer than `min_class_count` nodes are dropped with their nodes; the others are
       renumbered 0..C-1 in their order. With `num_classes` all stay, as they are numbered.
    3. Edges between kept nodes: symmetrised if asked for, duplicates and self-loops dropped.
    4. Nodes that have no edge left in either direction are dropped if asked for. (The rows that
       exist then depend on the edges: see the note at the top of `config/datasets.yaml`.)

    Feature columns are those of the files, whether or not a kept node uses them.

    Raises:
        GraphDPError: the arrays do not fit together, or no node or class is left.
    """
    n = len(raw.y)
    if raw.x.shape[0] != n or raw.sources.shape != raw.targets.shape:
        raise GraphDPError(
            f"dataset '{name}': features of {raw.x.shape[0]} nodes, classes of {n}, "
            f"{len(raw.sources)} sources and {len(raw.targets)} targets do not fit together"
        )
    for ends in (raw.sources, raw.targets):
        if len(ends) and (ends.min() < 0 or ends.max() >= n):
            wrong = ends.min() if ends.min() < 0 else ends.max()
            raise GraphDPError(
                f"dataset '{name}': an edge names node {wrong} of 0..{n - 1}; edges name nodes by "
                "their row, from 0, not by an id"
            )

    ids, num_ids = _universe(name, raw)
    labelled = raw.y >= 0
    counts = np.bincount(raw.y[labelled])
    classes = np.flatnonzero(counts >= steps.min_class_count)
    classes = classes[counts[classes] > 0]
    if steps.num_classes is not None:
        classes = np.arange(steps.num_classes)
        if len(counts) > steps.num_classes:
            raise GraphDPError(
                f"dataset '{name}': a node is of class {len(counts) - 1}, and num_classes allows "
                f"0..{steps.num_classes - 1}"
            )
    if not labelled.any():
        raise GraphDPError(
            f"dataset '{name}': no node has a class: y is -1 for all {n}; give classes 0, 1, ..."
        )
    if len(classes) == 0:
        raise GraphDPError(
            f"dataset '{name}': no class has min_class_count = {steps.min_class_count} nodes (the "
            f"largest has {counts.max(initial=0)}): lower min_class_count in a definition"
        )
    keep = labelled & np.isin(raw.y, classes)
    sources, targets = _induced(raw.sources, raw.targets, keep)
    num_kept = int(keep.sum())
    indptr, indices = csr_from_edges(sources, targets, num_kept, symmetrise=steps.symmetrise)

    nodes = np.flatnonzero(keep)  # positions in the files
    if steps.remove_isolated:
        connected = np.diff(indptr) > 0
        connected[indices] = True
        if not connected.any():
            raise GraphDPError(f"dataset '{name}': remove_isolated leaves no node: no edge is left")
        sources = np.repeat(np.arange(num_kept, dtype=np.int32), np.diff(indptr))
        sources, targets = _induced(sources, indices, connected)
        nodes = nodes[connected]
        indptr, indices = csr_from_edges(sources, targets, len(nodes), symmetrise=False)

    position_among_labelled = np.cumsum(labelled) - 1
    return Graph(
        name=name,
        x=raw.x[nodes],
        y=np.searchsorted(classes, raw.y[nodes]).astype(np.int64),
        indptr=indptr,
        indices=indices,
        node_ids=position_among_labelled[nodes].astype(np.int64),
        raw_num_nodes=int(labelled.sum()),
        num_classes=len(classes),
        ids=ids[nodes],
        num_ids=num_ids,
    )


def _universe(name: str, raw: RawGraph) -> tuple[np.ndarray, int]:
    """The ids of a raw graph's nodes, int64 (n,), and the size of their universe."""
    n = len(raw.y)
    if raw.ids is None:
        return np.arange(n, dtype=np.int64), n
    ids = np.asarray(raw.ids)
    whole = ids.dtype.kind in "iu"
    num_ids = raw.num_ids
    if num_ids is None:
        num_ids = int(ids.max()) + 1 if whole and ids.size else n
    if type(num_ids) is not int or not 0 <= num_ids <= MOST_IDS:
        raise GraphDPError(
            f"dataset '{name}': the universe of ids has {num_ids!r} members; a whole number of at "
            f"most {MOST_IDS:,} is possible (a draw is made for each): number nodes within fewer"
        )
    if (
        ids.shape != (n,)
        or not whole
        or len(np.unique(ids)) != n
        or (n and not 0 <= ids.min() <= ids.max() < num_ids)
    ):
        raise GraphDPError(
            f"dataset '{name}': ids must be {n} different integers within 0..{num_ids - 1}"
        )
    return ids.astype(np.int64), num_ids


def _induced(
    sources: np.ndarray, targets: np.ndarray, keep: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Edges with both ends kept, renumbered by rank among the kept nodes; int32."""
    new = (np.cumsum(keep) - 1).astype(np.int32)
    inside = keep[sources] & keep[targets]
    return new[sources[inside]], new[targets[inside]]


def check_statistics(spec: DatasetSpec, graph: Graph) -> None:
    """Compare a graph with the counts that the registry expects; None there means unchecked.

    Raises:
        GraphDPError: naming every count that differs, with both numbers.
    """
    if spec.statistics is None:
        return
    found = {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "features": graph.num_features,
        "classes": graph.num_classes,
    }
    wrong = [
        f"{key}: expected {expected:,}, found {found[key]:,}"
        for key in found
        if (expected := getattr(spec.statistics, key)) is not None and expected != found[key]
    ]
    if wrong:
        raise GraphDPError(
            f"dataset '{spec.name}' does not have the counts of {spec.statistics.source}: "
            f"{'; '.join(wrong)}. Check the raw files and the preprocessing in the registry; a "
            "variant of your own belongs under a definition with its own statistics"
        )


def statistics(graph: Graph) -> dict:
    """What Table 1 of the papers shows, JSON-able.

    nodes; edges (directed entries); average_degree (edges / nodes); median_degree and
    max_out_degree (of the out-degrees); features; classes; homophily
    (`class_insensitive_homophily`); fingerprint (SHA-256 of the graph).

    The "Degree" of GAP's and ProGAP's Table 1 is the median: Facebook's 62 stands beside
    2,117,924 / 26,406 = 80 edges per node.
    """
    degrees = np.diff(graph.indptr)
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "average_degree": graph.num_edges / max(graph.num_nodes, 1),
        "median_degree": float(np.median(degrees)) if len(degrees) else 0.0,
        "max_out_degree": int(degrees.max(initial=0)),
        "features": graph.num_features,
        "classes": graph.num_classes,
        "homophily": class_insensitive_homophily(graph),
        "fingerprint": graph.fingerprint(),
    }


def class_insensitive_homophily(graph: Graph) -> float:
    """Class-insensitive edge homophily in [0, 1] (Lim et al. 2021; DPDGC, Appendix K, Table 1).

    (1/(C−1)) Σ_c max(0, h_c − n_c/n), with h_c the share of the edges that leave class c which stay
    in it. Appendix K prints |E| as the denominator of h_c; with that one Cora would have 0.0004,
    while this definition, Lim et al.'s, gives every value of its Table 1 (Cora 0.7657).
    """
    num_classes = graph.num_classes
    if num_classes < 2 or graph.num_edges == 0:
        return 0.0
    source_class = np.repeat(graph.y, np.diff(graph.indptr))
    stays = source_class == graph.y[graph.indices]
    leaving = np.bincount(source_class, minlength=num_classes)
    staying = np.bincount(source_class[stays], minlength=num_classes)
    share = np.bincount(graph.y, minlength=num_classes) / graph.num_nodes
    h = staying / np.maximum(leaving, 1)
    return float(np.maximum(h - share, 0).sum() / (num_classes - 1))
