"""By what a graph is known again, whatever its file is called: digests of parts of its content."""

import hashlib

import numpy as np
from scipy import sparse

from graphdp import io
from graphdp.data.graph import Graph


def content_hashes(graph: Graph) -> dict[str, list[str]]:
    """Hex SHA-256 of each part of what is in a graph, whatever it is called and its nodes' order.

    "features" and "labels" with the ids; "edges", as pairs of ids in either direction; "rows", each
    node's features and label without its id, which without `ids` in the file is its place there,
    and "rows of features", without the label. A part that is empty has none, nor have features that
    are the same for all or the number of the node: it would be that of many a graph.
    """
    order = np.argsort(graph.ids)
    ids = graph.ids[order]
    found = {"labels": [io.sha256_arrays(ids, graph.y[order])]} if len(ids) else {}
    x = sparse.csr_array(graph.x, copy=True)[order]
    x.sum_duplicates()
    x.eliminate_zeros()
    x.sort_indices()
    if x.nnz and not _says_nothing(x):
        places = (x.indptr.astype(np.int64), x.indices.astype(np.int64))
        found["features"] = [io.sha256_arrays(ids, *places, x.data)]
        found["rows"] = [_sha256_of_rows(x, graph.y[order])]
        found["rows of features"] = [_sha256_of_rows(x, np.zeros(len(ids)))]
    if graph.num_edges:
        rank = np.empty(len(ids), np.int64)
        rank[order] = np.arange(len(ids))
        ends = rank[np.repeat(np.arange(len(ids)), np.diff(graph.indptr))], rank[graph.indices]
        pairs = np.unique(np.minimum(*ends) * len(ids) + np.maximum(*ends))
        found["edges"] = [io.sha256_arrays(ids[pairs // len(ids)], ids[pairs % len(ids)])]
    return found


def _says_nothing(x: sparse.csr_array) -> bool:
    """Whether all rows are the same, or x is the identity, as where a graph without features is
    given some; x in canonical form, in the order of the ids."""
    counts = np.diff(x.indptr)
    if len(counts) < 2 or not (counts == counts[0]).all():
        return False
    places, data = x.indices.reshape(len(counts), -1), x.data.reshape(len(counts), -1)
    if (places == places[0]).all() and (data == data[0]).all():
        return True
    numbered = counts[0] == 1 and bool((places[:, 0] == np.arange(len(counts))).all())
    return numbered and bool((data == 1).all())


def _sha256_of_rows(x: sparse.csr_array, y: np.ndarray) -> str:
    """Of the features and labels of all nodes, in whatever order they come."""
    places, data = x.indices.astype(np.int64), x.data.astype(np.float64)
    spans = zip(x.indptr[:-1], x.indptr[1:], y.astype(np.int64), strict=True)
    rows = [
        hashlib.sha256(label.tobytes() + places[a:b].tobytes() + data[a:b].tobytes()).digest()
        for a, b, label in spans
    ]
    return hashlib.sha256(b"".join(sorted(rows))).hexdigest()
