"""Rows of a matrix that a first layer reads, sparse or dense, for one model at a time.

Sparse rows never become dense, and nothing here costs more than a pass over their entries.
"""

from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.nn import functional as F

from graphdp.training.sums import add_outer, add_rows


class SparseRows:
    """The rows of a sparse matrix (n, f), or of a 0/1 matrix if `values` is None.

    indptr: int64 (n + 1,), indices: integers (entries,), values: float32 (entries,).
    """

    def __init__(
        self, indptr: np.ndarray, indices: np.ndarray, values: np.ndarray | None, like: Tensor
    ):
        self.starts = torch.tensor(indptr[:-1], dtype=torch.int64, device=like.device)
        self.counts = torch.tensor(np.diff(indptr), dtype=torch.int64, device=like.device)
        self.indices = torch.tensor(indices, dtype=torch.int32, device=like.device)
        self.values = (
            None if values is None else torch.tensor(values, dtype=like.dtype, device=like.device)
        )

    def take(self, rows: Tensor) -> "SparseBatch":
        """The batch of the rows `rows`, int64 (B,)."""
        counts = self.counts[rows]
        offsets = counts.cumsum(0) - counts
        places = torch.arange(int(counts.sum()), device=rows.device)
        places += torch.repeat_interleave(self.starts[rows] - offsets, counts)
        values = None if self.values is None else self.values[places]
        return SparseBatch(self.indices[places].long(), offsets, counts, values)


@dataclass
class SparseBatch:
    """Rows of a batch: columns (entries,), where each row starts (B,), its entries (B,), values."""

    columns: Tensor
    offsets: Tensor
    counts: Tensor
    values: Tensor | None

    def times(self, weight: Tensor) -> Tensor:
        """The rows times `weight` (f, h): (B, h)."""
        return F.embedding_bag(
            self.columns, weight, self.offsets, mode="sum", per_sample_weights=self.values
        )

    def squared_norms(self) -> Tensor:
        """‖row‖²: float64 (B,), of a 0/1 matrix int64."""
        if self.values is None:
            return self.counts
        squares = self.values.double().square()
        total = torch.zeros(len(self.counts), dtype=squares.dtype, device=squares.device)
        owners = torch.repeat_interleave(
            torch.arange(len(self.counts), device=squares.device), self.counts
        )
        add_rows(total, owners, squares)
        return total

    def add_gradient(self, weight: Tensor, g: Tensor) -> None:
        """Add Σ row gᵀ to `weight` (f, h), g (B, h)."""
        add_rows(weight, self.columns, self._per_entry(g))

    def group_gradients(self, g: Tensor, inputs: int) -> Tensor:
        """Σ row gᵀ of every group of rows that follow each other: g (groups, rows, h) gives
        (groups, f, h); inputs: f."""
        groups, rows, width = g.shape
        first = torch.arange(groups, device=g.device).mul_(inputs)
        owners = torch.repeat_interleave(first.repeat_interleave(rows), self.counts)
        total = g.new_zeros(groups * inputs, width)
        add_rows(total, owners + self.columns, self._per_entry(g.flatten(0, 1)))
        return total.view(groups, inputs, width)

    def _per_entry(self, g: Tensor) -> Tensor:
        each = torch.repeat_interleave(g, self.counts, dim=0)
        return each if self.values is None else each.mul_(self.values[:, None])


class DenseRows:
    """The rows of a dense matrix (n, f)."""

    def __init__(self, x: np.ndarray, like: Tensor):
        self.x = torch.tensor(x, dtype=like.dtype, device=like.device)

    def take(self, rows: Tensor) -> "DenseBatch":
        return DenseBatch(self.x[rows])


@dataclass
class DenseBatch:
    """Dense rows of a batch: x (B, f)."""

    x: Tensor

    def times(self, weight: Tensor) -> Tensor:
        return self.x @ weight

    def squared_norms(self) -> Tensor:
        return self.x.square().sum(1)

    def add_gradient(self, weight: Tensor, g: Tensor) -> None:
        add_outer(weight, self.x, g)

    def group_gradients(self, g: Tensor, inputs: int) -> Tensor:
        return self.x.view(*g.shape[:2], inputs).mT @ g


def rows_of(x: np.ndarray | sparse.csr_matrix, like: Tensor) -> SparseRows | DenseRows:
    """The rows of a feature matrix, sparse or dense; float32 (n, f)."""
    if sparse.issparse(x):
        return SparseRows(x.indptr, x.indices, x.data, like)
    return DenseRows(x, like)
