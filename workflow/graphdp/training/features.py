"""The features that a stack is trained on, and the input blocks made from them."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from graphdp.data.graph import InEdges
from graphdp.errors import GraphDPError
from graphdp.training.inputs import BagBlock, Block, DenseBlock, SparseBlock
from graphdp.training.layout import Layout

# Beyond this, squared norms overflow float32, and a sample could no longer be clipped.
LARGEST = 1e12


def checked(x: Tensor) -> Tensor:
    """`x`, once it is known to be finite and at most `LARGEST`; else raises GraphDPError."""
    if x.numel() and not bool(x.abs().max() <= LARGEST):  # NaN compares false
        raise GraphDPError(f"features must be finite and at most {LARGEST:g}: rescale them")
    return x


def _read_only(array: np.ndarray) -> Tensor:
    """`array` as a tensor that shares its memory, and that nobody writes to."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def check_features(x: np.ndarray | sparse.csr_matrix) -> None:
    """Raise GraphDPError unless features float32 (n, f) are finite and at most `LARGEST`."""
    checked(_read_only(x.data if sparse.issparse(x) else x))


def _first_of_equal_rows(x: sparse.csr_matrix) -> np.ndarray:
    first: dict[tuple[bytes, bytes], int] = {}
    return np.array(
        [
            first.setdefault((x.indices[a:b].tobytes(), x.data[a:b].tobytes()), row)
            for row, (a, b) in enumerate(pairwise(x.indptr))
        ]
    )


class SharedSparse:
    """One CSR matrix (n, f) for all members; it is never made dense.

    Nodes with equal features (in Facebook100, half of them) are told apart by labels alone, so a
    full batch passes through a network once per distinct row: see `twins`. Not where the network
    sums over neighbours, which tells those nodes apart.
    """

    def __init__(self, x: sparse.csr_matrix, layout: Layout, like: Tensor):
        if not x.has_canonical_format:
            x = x.copy()
            x.sum_duplicates()
        self.num_nodes = x.shape[0]
        self._x = x
        checked(_read_only(x.data))
        self._twins = np.arange(x.shape[0]) if layout.neighbours else _first_of_equal_rows(x)
        # Entries of the longest row: a batch holds so many rows of the first weights per sample.
        self.longest = max(int(np.diff(x.indptr).max(initial=0)), 1)
        self._stride = layout.size // layout.row
        self._like = like
        self._bags: tuple[Tensor, Tensor] | None = None

    def twins(self, nodes: np.ndarray) -> np.ndarray:
        """For each node the first one that has the same input."""
        return self._twins[nodes]

    def block(self, members: Sequence[int], rows: Sequence[np.ndarray], training: bool) -> Block:
        """The rows of each member as a fixed block; `training` if gradients will be needed."""
        return SparseBlock.of([self._x[r] for r in rows], self._stride, training, self._like)

    def prepare_batches(self, train: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Get ready for batches; returns, per member, the table row of each of its train nodes."""
        counts = np.diff(self._x.indptr)
        columns = np.zeros((self.num_nodes, self.longest), np.int64)
        values = np.zeros((self.num_nodes, self.longest), self._x.dtype)
        filled = np.arange(self.longest) < counts[:, None]
        columns[filled], values[filled] = self._x.indices, self._x.data
        device = self._like.device
        self._bags = (
            torch.from_numpy(columns).to(device),
            torch.from_numpy(values).to(device, self._like.dtype),
        )
        return list(train)

    def batch(self, rows: Tensor) -> Block:
        """The block of table rows `rows`, int64 (S, W)."""
        columns, values = (table.index_select(0, rows.flatten()) for table in self._bags)
        members = len(rows)
        first = torch.arange(members, device=rows.device).mul_(self._stride)
        columns = columns.view(members, -1).add_(first[:, None]).view(columns.shape)
        return BagBlock(columns, values, members)


class SharedDense:
    """One dense matrix (n, f) for all members."""

    def __init__(self, x: np.ndarray, like: Tensor):
        self.num_nodes = x.shape[0]
        self._x = checked(_read_only(np.ascontiguousarray(x)).to(like.device, like.dtype))

    def twins(self, nodes: np.ndarray) -> np.ndarray:
        return nodes

    def block(self, members: Sequence[int], rows: Sequence[np.ndarray], training: bool) -> Block:
        same = all(np.array_equal(rows[0], r) for r in rows[1:])
        parts = [
            self._x[torch.from_numpy(r).to(self._x.device)] for r in rows[: 1 if same else None]
        ]
        return DenseBlock(torch.stack(parts).transpose(1, 2).unsqueeze(1))

    def prepare_batches(self, train: Sequence[np.ndarray]) -> list[np.ndarray]:
        return list(train)

    def batch(self, rows: Tensor) -> Block:
        x = self._x.index_select(0, rows.flatten()).view(*rows.shape, -1)
        return DenseBlock(x.transpose(1, 2).unsqueeze(1))


class PerMember:
    """Of each member its own inputs for every hop: an array (n, hops + 1, d), or a list of
    hops + 1 arrays (n, d); memory-mapped ones are read as needed."""

    def __init__(self, inputs: Sequence[Any], like: Tensor):
        self.num_nodes = (
            len(inputs[0][0]) if isinstance(inputs[0], list | tuple) else len(inputs[0])
        )
        self._inputs = inputs
        self._like = like
        self.device = like.device
        self._table: Tensor | None = None

    def _read(self, member: int, rows: np.ndarray) -> np.ndarray:
        inputs = self._inputs[member]
        if isinstance(inputs, list | tuple):
            return np.stack([part[rows] for part in inputs], axis=1)
        return np.asarray(inputs[rows])

    def twins(self, nodes: np.ndarray) -> np.ndarray:
        return nodes

    def block(self, members: Sequence[int], rows: Sequence[np.ndarray], training: bool) -> Block:
        parts = [self._read(s, r).transpose(1, 2, 0) for s, r in zip(members, rows, strict=True)]
        x = torch.from_numpy(np.ascontiguousarray(np.stack(parts)))
        return DenseBlock(checked(x.to(self._like.device, self._like.dtype)))

    def prepare_batches(self, train: Sequence[np.ndarray]) -> list[np.ndarray]:
        ends = np.cumsum([rows.size for rows in train])
        # Member by member into its place: all of them beside the table would be it twice.
        for member, (rows, end) in enumerate(zip(train, ends, strict=True)):
            part = checked(torch.from_numpy(self._read(member, rows)))
            if not member:
                self._table = self._like.new_empty((int(ends[-1]), *part.shape[1:]))
            self._table[end - rows.size : end] = part
        return [np.arange(end - rows.size, end) for end, rows in zip(ends, train, strict=True)]

    def batch(self, rows: Tensor) -> Block:
        x = self._table.index_select(0, rows.flatten()).unflatten(0, rows.shape)
        return DenseBlock(x.permute(0, 2, 3, 1))


@dataclass(frozen=True)
class StageInputs:
    """What a block of `StageClassifier` networks reads.

    features: float32 (n, f), dense or sparse, shared by all members; None if the network does not
    read them. aggregates: per member a list of `network.aggregates` arrays float32 (n, hidden).
    """

    features: Any
    aggregates: Sequence[Sequence[np.ndarray]]


class Staged:
    """The inputs of the branches of a `StageClassifier`: the features, if it reads them, and then
    each member's own matrices, if it has any."""

    def __init__(self, shared: SharedSparse | SharedDense | None, own: PerMember | None):
        self.num_nodes = (shared or own).num_nodes
        self._shared, self._own = shared, own
        self._nodes: Tensor | None = None

    def twins(self, nodes: np.ndarray) -> np.ndarray:
        return nodes if self._own else self._shared.twins(nodes)

    def block(
        self, members: Sequence[int], rows: Sequence[np.ndarray], training: bool
    ) -> list[Block]:
        blocks = [self._shared.block(members, rows, training)] if self._shared else []
        return blocks + (self._split(self._own.block(members, rows, training)) if self._own else [])

    @staticmethod
    def _split(block: DenseBlock) -> list[Block]:
        return [DenseBlock(block.x[:, k : k + 1]) for k in range(block.x.shape[1])]

    def prepare_batches(self, train: Sequence[np.ndarray]) -> list[np.ndarray]:
        table = self._shared.prepare_batches(train) if self._shared else []
        if not self._own:
            return table
        if self._shared:
            # The members' own table lists all train nodes: which rows of the shared one they are.
            self._nodes = torch.from_numpy(np.concatenate(table)).to(self._own.device)
        return self._own.prepare_batches(train)

    def batch(self, rows: Tensor) -> list[Block]:
        if not self._own:
            return [self._shared.batch(rows)]
        own = self._split(self._own.batch(rows))
        return [self._shared.batch(self._nodes[rows]), *own] if self._shared else own


@dataclass(frozen=True)
class GraphInputs:
    """What a block of `Sage` networks reads, the same for all members.

    features: float32 (n, f), dense or sparse. edges: of the graph that they see.
    """

    features: Any
    edges: InEdges


Features = SharedSparse | SharedDense | PerMember | Staged
