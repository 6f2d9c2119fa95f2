"""What the authors' network reads: all rows of a bag, standardised over the graph, dense or sparse.

The rows of some bags are those of their centres, then those of their peripherals; a row's `owner`
is the place of its centre. What pads a bag has no features and is not among them.
"""

from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.nn import functional as F

from graphdp.methods.heterpoisson.bags import Bags
from graphdp.methods.heterpoisson.network import (
    SPARSE_WIDTH,
    activate,
    batch_of,
    squares,
    standardised,
)
from graphdp.training.features import checked
from graphdp.training.sparse_rows import SparseBatch
from graphdp.training.sums import add_outer


class DenseStandardised:
    """Features (n, f) as a dense matrix x."""

    def __init__(self, x: np.ndarray, like: Tensor):
        self.x = checked(torch.tensor(x, dtype=like.dtype, device=like.device))

    def rows(self, bags: Bags, summed: bool) -> "DenseBagRows":
        """The rows of the bags, and their a; `summed` for GIN's m."""
        count, device = len(bags.centres), self.x.device
        nodes = torch.from_numpy(np.concatenate([bags.centres, bags.peripherals])).to(device)
        owner = torch.from_numpy(owners_of(bags)).to(device)
        x = self.x[nodes]
        m = sums(x, owner, count)
        if not summed:
            filled = (x != 0).any(1).to(x.dtype)
            m /= sums(filled[:, None], owner, count).clamp(min=1)
        return DenseBagRows(x, F.elu(standardised(F.elu(m))), owner, bags)


@dataclass(frozen=True)
class DenseBagRows:
    """x (R, f), a (B, f), owner int64 (R,)."""

    x: Tensor
    a: Tensor
    owner: Tensor
    bags: Bags

    def products(self, weight: Tensor) -> Tensor:
        """x times `weight` (f, h): (R, h)."""
        return self.x @ weight

    def a_products(self, weight: Tensor) -> Tensor:
        """a times `weight` (f, h): (B, h)."""
        return self.a @ weight

    def gradient(self, delta: Tensor) -> Tensor:
        """xᵀ δ, of δ (R, h): (f, h)."""
        return self.x.T @ delta

    def add_a_gradient(self, weight: Tensor, total: Tensor) -> None:
        """Add aᵀ Δ, of Δ (B, h), to `weight` (f, h)."""
        add_outer(weight, self.a, total)

    def a_squares(self) -> Tensor:
        """‖a‖²: float64 (B,)."""
        return squares(self.a)

    def cross(self) -> Tensor:
        """⟨a, x_j⟩ of each row and its bag's a: float64 (R,)."""
        return (self.x * self.a[self.owner]).sum(1).double()

    def pairs(self, delta: Tensor) -> Tensor:
        """Σ_jl ⟨x_j, x_l⟩⟨δ_j, δ_l⟩ of each bag: float64 (B,). Bags of one size go together."""
        count, sizes = len(self.bags.centres), self.bags.sizes
        found = torch.zeros(count, dtype=torch.float64, device=delta.device)
        for size in np.unique(sizes):
            mine = np.flatnonzero(sizes == size)
            places = count + self.bags.starts[mine, None] + np.arange(size)
            places = torch.from_numpy(np.column_stack([mine, places])).to(delta.device)
            x, d = self.x[places].double(), delta[places].double()
            found[torch.from_numpy(mine).to(delta.device)] = ((x @ x.mT) * (d @ d.mT)).sum((1, 2))
        return found


class SparseStandardised:
    """Features x + shift, x sparse (n, f) and `shift` in every column: no product with them costs
    more than a pass over the entries of x."""

    def __init__(self, x: sparse.csr_matrix, shift: float, like: Tensor):
        self.x, self.shift, self._like = x.astype(np.float64), shift, like
        checked(torch.from_numpy(self.x.data))

    def rows(self, bags: Bags, summed: bool) -> "SparseBagRows":
        """As `DenseStandardised.rows`, in float64 but for the products with weights."""
        count, owner = len(bags.centres), owners_of(bags)
        x = self.x[np.concatenate([bags.centres, bags.peripherals])]
        sizes = np.diff(x.indptr)
        of_bag = sparse.csr_matrix((np.ones(len(owner)), (owner, np.arange(len(owner)))))
        m, base = of_bag @ x, self.shift * (1.0 + bags.sizes)
        if not summed:
            filled = np.bincount(owner, (self.shift != 0) | (sizes > 0), count).clip(min=1)
            m.data /= np.repeat(filled, np.diff(m.indptr))
            base /= filled
        base = activate(m, base)
        device = self._like.device
        return SparseBagRows(
            x,
            self.shift,
            m,
            base,
            torch.from_numpy(owner).to(device),
            batch_of(x, self._like),
            batch_of(m, self._like),
            torch.tensor(base, dtype=self._like.dtype, device=device),
        )


@dataclass(frozen=True)
class SparseBagRows:
    """As `DenseBagRows`: rows x + shift, and a = base + rest; their batches for products."""

    x: sparse.csr_matrix
    shift: float
    rest: sparse.csr_matrix
    base: np.ndarray
    owner: Tensor
    x_batch: SparseBatch
    rest_batch: SparseBatch
    base_of: Tensor

    def products(self, weight: Tensor) -> Tensor:
        return self.x_batch.times(weight) + self.shift * weight.sum(0)

    def a_products(self, weight: Tensor) -> Tensor:
        return self.rest_batch.times(weight) + self.base_of[:, None] * weight.sum(0)

    def gradient(self, delta: Tensor) -> Tensor:
        found = (self.shift * delta.sum(0)).repeat(self.x.shape[1], 1)
        self.x_batch.add_gradient(found, delta)
        return found

    def add_a_gradient(self, weight: Tensor, total: Tensor) -> None:
        weight.add_(self.base_of @ total)
        self.rest_batch.add_gradient(weight, total)

    def a_squares(self) -> Tensor:
        entries = np.asarray(self.rest.multiply(self.rest).sum(1)).ravel()
        found = self.x.shape[1] * self.base**2 + 2 * self.base * _row_sums(self.rest) + entries
        return torch.tensor(found, device=self.owner.device)

    def cross(self) -> Tensor:
        owner = self.owner.cpu().numpy()
        theirs = np.asarray(self.rest[owner].multiply(self.x).sum(1)).ravel()
        theirs += self.shift * _row_sums(self.rest)[owner]
        theirs += self.base[owner] * (_row_sums(self.x) + self.shift * self.x.shape[1])
        return torch.tensor(theirs, device=self.owner.device)

    def pairs(self, delta: Tensor) -> Tensor:
        owner, width, count = self.owner.cpu().numpy(), self.x.shape[1], len(self.base)
        # Columns of their own for each bag: products of two bags' rows are zero.
        columns = self.x.indices + np.repeat(owner * width, np.diff(self.x.indptr))
        own = sparse.csr_matrix((self.x.data, columns, self.x.indptr), (len(owner), count * width))
        both, d = (own @ own.T).tocoo(), delta.double()
        j, k = (torch.from_numpy(one.astype(np.int64)).to(d.device) for one in (both.row, both.col))
        each = torch.from_numpy(both.data).to(d.device) * (d[j] * d[k]).sum(1)
        total = sums(d, self.owner, count)
        weighted = torch.from_numpy(_row_sums(self.x)).to(d.device)[:, None] * d
        mixed = (sums(weighted, self.owner, count) * total).sum(1)
        constant = width * self.shift**2 * total.square().sum(1) + 2 * self.shift * mixed
        return constant.index_add(0, self.owner[j], each)


def _row_sums(x: sparse.csr_matrix) -> np.ndarray:
    return np.asarray(x.sum(1)).ravel()


def standardised_features(
    x: np.ndarray | sparse.csr_matrix, like: Tensor
) -> DenseStandardised | SparseStandardised:
    """Features (n, f) less the mean of all entries, over their deviation: private data, uncounted.

    Dense or sparse as their public width decides. Raises GraphDPError for what is not finite.
    """
    if x.shape[1] < SPARSE_WIDTH:
        dense = (x.toarray() if sparse.issparse(x) else x).astype(np.float64)
        return DenseStandardised((dense - dense.mean()) / (dense.std(ddof=1) + 1e-6), like)
    entries = sparse.csr_matrix(x).astype(np.float64)
    count, mean = entries.shape[0] * entries.shape[1], entries.sum() / np.prod(entries.shape)
    spread = ((entries.data - mean) ** 2).sum() + (count - entries.nnz) * mean**2
    scale = np.sqrt(spread / (count - 1)) + 1e-6
    return SparseStandardised(entries / scale, -mean / scale, like)


def owners_of(bags: Bags) -> np.ndarray:
    """The bag of each row: int64 (R,)."""
    return np.concatenate([np.arange(len(bags.centres)), bags.owners])


def sums(rows: Tensor, owner: Tensor, count: int) -> Tensor:
    """Rows (R, w) summed by owner: (count, w)."""
    return rows.new_zeros(count, rows.shape[1]).index_add(0, owner, rows)
