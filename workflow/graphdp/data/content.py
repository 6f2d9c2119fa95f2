"""By what a graph is known again, whatever its file is called: digests of parts of its content."""

import hashlib

import numpy as np
from scipy import sparse

from graphdp import io
from graphdp.data.graph import Graph

#: So many rows have to be different to be known by, in whatever order they come.
FEW = 16


def content_hashes(graph: Graph) -> dict[str, list[str]]:
    """Hex SHA-256 of each part of what is in a graph, whatever it is called and its nodes' order.

    "features" and "labels" with the ids, and in their order alone, for the same nodes may be
    numbered otherwise; "edges", as pairs of ids in either direction, likewise; "rows", each node's
    features and label without its id, which without `ids` in the file is its place there, and
    "rows of features", without the label. A part that would be that of many a graph has none: one
    that is empty, labels by which nodes without ids are sorted, rows of which fewer than `FEW` are
    different, which are counts alone, and features that tell nothing (`_tells`).
    """
    order = np.argsort(graph.ids)
    ids = graph.ids[order]
    numberings = [np.arange(len(ids), dtype=ids.dtype)]
    if not np.array_equal(ids, numberings[0]):
        numberings.insert(0, ids)
    found = {}
    if len(ids):
        # By class many a graph's nodes are sorted: then their order tells nothing.
        steps = np.diff(graph.y[order])
        mixed = (steps > 0).any() and (steps < 0).any()
        for names in numberings if mixed else numberings[:-1]:
            found.setdefault("labels", []).append(io.sha256_arrays(names, graph.y[order]))
    x = sparse.csr_array(graph.x, copy=True)[order]
    x.sum_duplicates()
    x.eliminate_zeros()
    x.sort_indices()
    if x.nnz and len(ids) > 1:
        by_id, by_rows = _tells(x)
        if by_id:
            places = (x.indptr.astype(np.int64), x.indices.astype(np.int64))
            found["features"] = [io.sha256_arrays(names, *places, x.data) for names in numberings]
        for kind, labels in (("rows", graph.y[order]), ("rows of features", np.zeros(len(ids)))):
            hashed, different = _sha256_of_rows(x, labels)
            if different >= FEW and (by_rows or kind == "rows"):
                found[kind] = [hashed]
    if graph.num_edges:
        rank = np.empty(len(ids), np.int64)
        rank[order] = np.arange(len(ids))
        ends = rank[np.repeat(np.arange(len(ids)), np.diff(graph.indptr))], rank[graph.indices]
        pairs = np.divmod(np.unique(np.minimum(*ends) * len(ids) + np.maximum(*ends)), len(ids))
        found["edges"] = [io.sha256_arrays(*(names[end] for end in pairs)) for names in numberings]
    return found


def _tells(x: sparse.csr_array) -> tuple[bool, bool]:
    """Whether features tell one graph from many others, by who has them and in whatever order; x in
    canonical form, in the order of the ids.

    Not if all rows are the same, nor if what differs between them is the number of the node, or of
    one of equally many groups: in a column for each, or as evenly spaced numbers in one.
    """
    n, columns = x.shape
    first = np.zeros(columns, x.dtype)
    first[x.indices[: x.indptr[1]]] = x.data[: x.indptr[1]]
    as_first = np.bincount(x.indices[x.data == first[x.indices]], minlength=columns)
    differ = (as_first < n)[x.indices]
    left = np.count_nonzero(differ)
    if not left or left > n:  # more than one number for each node
        return (left > 0,) * 2
    nodes = np.repeat(np.arange(n), np.diff(x.indptr))[differ]
    places, numbers = x.indices[differ], x.data[differ]
    if np.unique(nodes).size == left and not np.ptp(numbers):  # one column of each at most
        rising = left >= n - 1 and (np.diff(places) > 0).all()
        groups = np.unique(places, return_counts=True)[1]
        groups = np.append(groups, n - left) if left < n else groups
        return not rising, bool(np.ptp(groups))
    if np.unique(places).size == 1:
        by_node = np.zeros(n)
        by_node[nodes] = numbers
        values, groups = np.unique(by_node, return_counts=True)
        even = not np.ptp(groups) and _evenly_spaced(values)
        return not _evenly_spaced(by_node), not even
    return True, True


def _evenly_spaced(numbers: np.ndarray) -> bool:
    """Whether float32 numbers lie on a line that is not level, as closely as their type can."""
    step = abs(numbers[-1] - numbers[0]) / (len(numbers) - 1)
    near = min(4 * np.finfo(np.float32).eps * np.abs(numbers).max(), step / 4)
    line = np.linspace(numbers[0], numbers[-1], len(numbers))
    return bool(step and (np.abs(numbers - line) <= near).all())


def _sha256_of_rows(x: sparse.csr_array, y: np.ndarray) -> tuple[str, int]:
    """Of the features and labels of all nodes, in whatever order they come; and how many of these
    are different."""
    places, data = x.indices.astype(np.int64), x.data.astype(np.float64)
    spans = zip(x.indptr[:-1], x.indptr[1:], y.astype(np.int64), strict=True)
    rows = [
        hashlib.sha256(label.tobytes() + places[a:b].tobytes() + data[a:b].tobytes()).digest()
        for a, b, label in spans
    ]
    return hashlib.sha256(b"".join(sorted(rows))).hexdigest(), len(set(rows))
