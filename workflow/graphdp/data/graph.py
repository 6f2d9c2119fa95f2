"""The graph that every later stage reads: immutable arrays, CSR of out-edges."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from graphdp import io
from graphdp.errors import GraphDPError


@dataclass(frozen=True, eq=False)
class Graph:
    """A node-classification graph after preprocessing.

    Arrays are read-only views; no method changes the graph. Row i of every array is node i.

    Attributes:
        name: name of the dataset (or of the variant that a config defines).
        x: features, float32 (n, f), either a numpy array or a `scipy.sparse.csr_matrix` (wide
            one-hot or bag-of-words features stay sparse).
        y: classes 0..num_classes-1, int64 (n,).
        indptr: int64 (n + 1,); out-edges of node i are `indices[indptr[i]:indptr[i + 1]]`.
        indices: targets of the out-edges, int32 (m,), strictly increasing within a row (so there
            are no duplicates), no self-loops.
        node_ids: int64 (n,), strictly increasing: where each node stood in the raw graph, which is
            what the loader returned without its unlabelled nodes. The published
            train/validation/test split is drawn over the raw graph (see `graphdp.data.split`).
        raw_num_nodes: number of nodes of the raw graph.
        num_classes: number of classes C.
        ids: int64 (n,), all different: what each node is called, whichever other nodes there are:
            its id in a public universe 0..num_ids-1, of the files themselves or, where they have
            none, its place in them. `node_ids` unless given.
        num_ids: size of the universe; `raw_num_nodes` unless given.

    Raises:
        GraphDPError: an array has the wrong dtype or shape.
    """

    name: str
    x: np.ndarray | sp.csr_matrix
    y: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    node_ids: np.ndarray
    raw_num_nodes: int
    num_classes: int
    ids: np.ndarray | None = None
    num_ids: int | None = None

    def __post_init__(self) -> None:
        if self.ids is None:
            object.__setattr__(self, "ids", self.node_ids)
        if self.num_ids is None:
            object.__setattr__(self, "num_ids", self.raw_num_nodes)
        n = self.y.size
        shapes = {"y": (n,), "indptr": (n + 1,), "indices": (self.indices.size,)}
        shapes |= {"node_ids": (n,), "ids": (n,)}
        dtypes = dict.fromkeys(shapes, np.int64) | {"indices": np.int32}
        for field, shape in shapes.items():
            array = getattr(self, field)
            self._require(
                array.dtype == dtypes[field] and array.shape == shape,
                f"{field} must be {np.dtype(dtypes[field])} of shape {shape}, "
                f"got {array.dtype} of shape {array.shape}",
            )
            object.__setattr__(self, field, _read_only(array))
        self._require(
            self.x.dtype == np.float32 and self.x.ndim == 2 and self.x.shape[0] == n,
            f"x must be float32 of shape ({n}, features), got {self.x.dtype} of {self.x.shape}",
        )
        if sp.issparse(self.x):
            self._require(self.x.format == "csr", f"sparse x must be CSR, got {self.x.format}")
            x = sp.csr_matrix(
                tuple(_read_only(a) for a in (self.x.data, self.x.indices, self.x.indptr)),
                shape=self.x.shape,
                copy=False,
            )
            object.__setattr__(self, "x", x)
        else:
            object.__setattr__(self, "x", _read_only(self.x))

    def _require(self, holds: bool, message: str) -> None:
        if not holds:
            raise GraphDPError(f"graph '{self.name}': {message}")

    @property
    def num_nodes(self) -> int:
        return len(self.y)

    @property
    def num_edges(self) -> int:
        """Number of directed entries (an undirected edge counts twice)."""
        return len(self.indices)

    @property
    def num_features(self) -> int:
        return self.x.shape[1]

    def validate(self) -> "Graph":
        """Check every invariant of the class docstring, in O(edges); returns the graph itself.

        Raises:
            GraphDPError: naming the first invariant that does not hold.
        """
        n, m = self.num_nodes, self.num_edges
        degrees = np.diff(self.indptr)
        self._require(
            self.indptr[0] == 0 and self.indptr[-1] == m and bool((degrees >= 0).all()),
            "indptr must rise from 0 to the number of edges",
        )
        if m:
            self._require(
                self.indices.min() >= 0 and self.indices.max() < n,
                f"edge targets outside 0..{n - 1}",
            )
            rising = self.indices[1:] > self.indices[:-1]
            starts = self.indptr[1:-1]
            rising[starts[(starts > 0) & (starts < m)] - 1] = True  # between rows anything goes
            self._require(bool(rising.all()), "targets of a row must be strictly increasing")
            rows = np.repeat(np.arange(n, dtype=np.int32), degrees)
            self._require(not (rows == self.indices).any(), "self-loops are not allowed")
        self._require(
            not n or (self.y.min() >= 0 and self.y.max() < self.num_classes),
            f"classes outside 0..{self.num_classes - 1}",
        )
        self._require(
            bool((np.diff(self.node_ids) > 0).all())
            and (not n or (self.node_ids[0] >= 0 and self.node_ids[-1] < self.raw_num_nodes)),
            f"node_ids must be strictly increasing within 0..{self.raw_num_nodes - 1}",
        )
        self._require(
            len(np.unique(self.ids)) == n
            and (not n or (self.ids.min() >= 0 and self.ids.max() < self.num_ids)),
            f"ids must be {n} different numbers within 0..{self.num_ids - 1}",
        )
        values = self.x.data if sp.issparse(self.x) else self.x
        wrong = ~np.isfinite(values)
        if wrong.any():
            row, *column = np.argwhere(wrong)[0]
            if not column:  # a place among the entries of sparse features
                row, column = (
                    np.searchsorted(self.x.indptr, row, "right") - 1,
                    [self.x.indices[row]],
                )
            self._require(
                False,
                f"{np.count_nonzero(wrong)} features are not finite, the first in row {row}, "
                f"column {column[0]} (from 0, of the nodes that are kept); correct the raw files",
            )
        return self

    def fingerprint(self) -> str:
        """Hex SHA-256 of name, sizes, features, classes, edges and `node_ids`, but not of `ids`."""
        header = f"{self.name}\0{self.raw_num_nodes}\0{self.num_classes}\0{self.num_features}"
        arrays = (
            *_feature_arrays(self.x).values(),
            self.y,
            self.indptr,
            self.indices,
            self.node_ids,
        )
        return hashlib.sha256(f"{header}\0{io.sha256_arrays(*arrays)}".encode()).hexdigest()

    def save(self, path: str | os.PathLike) -> None:
        """Write the graph to one `.npz`, atomically; equal graphs give equal bytes."""
        io.save_npz(
            path,
            name=np.array(self.name),
            sizes=np.array([self.raw_num_nodes, self.num_classes, self.num_ids], dtype=np.int64),
            y=self.y,
            indptr=self.indptr,
            indices=self.indices,
            node_ids=self.node_ids,
            ids=self.ids,
            **_feature_arrays(self.x),
        )

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Graph":
        """Read a graph that `save` wrote.

        Raises:
            GraphDPError: the file is missing, damaged, or not a graph.
        """
        if not Path(path).is_file():
            raise GraphDPError(f"no graph file {path}: run the preprocess step first")
        try:
            arrays = io.load_npz(path)
            if "x" in arrays:
                x = arrays["x"]
            else:
                x = sp.csr_matrix(
                    (arrays["x_data"], arrays["x_indices"], arrays["x_indptr"]),
                    shape=tuple(arrays["x_shape"]),
                )
            sizes = zip(("raw_num_nodes", "num_classes", "num_ids"), arrays["sizes"], strict=True)
            name = str(arrays["name"])
            fields = {key: arrays[key] for key in ("y", "indptr", "indices", "node_ids", "ids")}
            fields |= {key: int(size) for key, size in sizes}
        except Exception as error:  # a damaged zip raises many types
            raise GraphDPError(
                f"{path} is not a readable graph file ({error}): delete it and preprocess again"
            ) from error
        return cls(name=name, x=x, **fields)


def csr_from_edges(
    sources: np.ndarray, targets: np.ndarray, num_nodes: int, *, symmetrise: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Coalesced CSR of out-edges without self-loops.

    Args:
        sources, targets: integer arrays (m,), any order, duplicates allowed.
        num_nodes: n; all entries lie in 0..n-1.
        symmetrise: add the reverse of every edge.

    Returns:
        indptr int64 (n + 1,), indices int32 (m',), strictly increasing within a row.
    """
    no_loop = sources != targets
    sources, targets = sources[no_loop], targets[no_loop]
    # Boolean entries: duplicates add up to True, they cannot overflow, and cost one byte each.
    ones = np.ones(len(sources), dtype=bool)
    adjacency = sp.csr_matrix((ones, (sources, targets)), shape=(num_nodes, num_nodes))
    if symmetrise:
        adjacency = adjacency + adjacency.T.tocsr()
    adjacency.sum_duplicates()  # also sorts
    return adjacency.indptr.astype(np.int64), adjacency.indices.astype(np.int32)


def _read_only(array: np.ndarray) -> np.ndarray:
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def _feature_arrays(x: np.ndarray | sp.csr_matrix) -> dict[str, np.ndarray]:
    if not sp.issparse(x):
        return {"x": x}
    return {
        "x_data": x.data,
        "x_indices": x.indices.astype(np.int32, copy=False),
        "x_indptr": x.indptr.astype(np.int64, copy=False),
        "x_shape": np.array(x.shape, dtype=np.int64),
    }


@dataclass(frozen=True, eq=False)
class InEdges:
    """The edges sorted by target: `indices[indptr[v]:indptr[v + 1]]` are the sources of v.

    indptr: int32 or int64 (n + 1,). indices: int32 (m,), or int64 beyond 2³¹ edges.
    """

    indptr: np.ndarray
    indices: np.ndarray

    @property
    def num_nodes(self) -> int:
        return len(self.indptr) - 1

    def reversed(self) -> "InEdges":
        """The same edges, each in the other direction."""
        return in_edges(self.indptr, self.indices)


def in_edges(indptr: np.ndarray, indices: np.ndarray) -> InEdges:
    """Sort edges by target.

    Args:
      indptr: int64 (n + 1,), CSR row pointers of the out-edges; row = source.
      indices: int32 (m,), targets, each below n.
    """
    nodes = len(indptr) - 1
    # CSR of A is CSC of Aᵀ. The values are never read; one byte each is the least scipy takes.
    ones = np.ones(len(indices), dtype=np.int8)
    transposed = sp.csc_array((ones, indices, indptr), shape=(nodes, nodes)).tocsr()
    return InEdges(transposed.indptr, transposed.indices)
