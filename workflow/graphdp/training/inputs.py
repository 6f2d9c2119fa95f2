"""What the first layer of a stack reads: sparse or dense rows, shared or of each member its own.

An input block knows its own product with the first layer's weights, the gradient of those weights,
and (for clipping) the squared norms of its rows. Activations are (S, channels, rows) everywhere:
with few channels and many rows, every pass over them is contiguous.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from graphdp.data.graph import InEdges
from graphdp.training.layout import Stack
from graphdp.training.networks import Linear
from graphdp.training.sums import add_rows


class Scratch:
    """Buffers that are used again in every step: allocating anew costs a CPU as much as the
    arithmetic. A buffer is known by its name and shape; whoever asks for it overwrites it."""

    def __init__(self, like: Tensor):
        self._like = like
        self._buffers: dict[tuple[str, tuple[int, ...]], Tensor] = {}

    def __call__(self, name: str, shape: Sequence[int]) -> Tensor:
        key = name, tuple(shape)
        if key not in self._buffers:
            self._buffers[key] = self._like.new_empty(key[1])
        return self._buffers[key]


@dataclass
class DenseBlock:
    """x: (S or 1, groups, inputs, rows)."""

    x: Tensor

    def forward(self, layer: Linear, stack: Stack, scratch: Scratch) -> Tensor:
        """First layer without bias: (S, groups·outputs, rows)."""
        weight = stack[f"{layer.name}.weight"].transpose(-1, -2)
        shape = (*weight.shape[:-1], self.x.shape[-1])
        return torch.matmul(weight, self.x, out=scratch(layer.name, shape)).flatten(1, 2)

    def squared_norms(self) -> Tensor:
        """‖row‖² per group: (S or 1, groups, rows)."""
        return self.x.square().sum(-2)

    def add_gradient(self, layer: Linear, gradients: Stack, g: Tensor) -> None:
        """Add x gᵀ to the gradient of the first weights; g: (S, groups·outputs, rows)."""
        weight = gradients[f"{layer.name}.weight"]
        rows, g = self.x.to(weight.dtype), g.to(weight.dtype)
        g = g.unflatten(1, (layer.groups, layer.outputs))
        for k in range(layer.groups):
            x = rows[:, k].expand(len(g), -1, -1)
            if layer.outputs < layer.inputs:  # a short left factor is twice as fast in MKL
                weight[:, k].add_(torch.bmm(g[:, k], x.transpose(1, 2)).transpose(1, 2))
            else:
                weight[:, k].baddbmm_(x, g[:, k].transpose(1, 2))


@dataclass
class BagBlock:
    """Sparse rows of a batch as bags: columns int64 and values (S·rows, most entries of a row).

    `columns` are rows of `Stack.rows`, so members look up their own weights; padding has value 0.
    """

    columns: Tensor
    values: Tensor
    members: int

    def forward(self, layer: Linear, stack: Stack, scratch: Scratch) -> Tensor:
        sums = torch.nn.functional.embedding_bag(
            self.columns, stack.rows, mode="sum", per_sample_weights=self.values
        )
        return sums.view(self.members, -1, layer.outputs).transpose(1, 2).contiguous()

    def squared_norms(self) -> Tensor:
        return self.values.square().sum(-1).view(self.members, 1, -1)

    def add_gradient(self, layer: Linear, gradients: Stack, g: Tensor) -> None:
        rows = g.transpose(1, 2).reshape(-1, 1, layer.outputs) * self.values[:, :, None]
        add_rows(gradients.rows, self.columns.flatten(), rows.flatten(0, 1))


class Neighbours:
    """A graph as what rows of all nodes are summed over.

    The sums are torch's `embedding_bag`: 1.5 times as fast as its CSR product on 16 columns, 3.5
    times on 160 (one core, a school of 19,000 nodes).
    """

    def __init__(self, edges: InEdges, like: Tensor):
        self.num_nodes = edges.num_nodes
        self._in = _bags(edges, like)
        self._out = _bags(edges.reversed(), like)
        #: 1 / in-degree of each node (1 without in-neighbours): sums become means, (n,).
        self.shares = torch.from_numpy(1 / np.diff(edges.indptr).clip(1)).to(like)

    def sums(self, x: Tensor) -> Tensor:
        """Aᵀ x, over the in-neighbours of each node: (n, columns)."""
        return self._sums(x, *self._in)

    def transposed_sums(self, x: Tensor) -> Tensor:
        """A x, over the out-neighbours of each node: (n, columns)."""
        return self._sums(x, *self._out)

    @staticmethod
    def _sums(x: Tensor, indices: Tensor, offsets: Tensor) -> Tensor:
        return torch.nn.functional.embedding_bag(
            indices, x, offsets, mode="sum", include_last_offset=True
        )


def _bags(edges: InEdges, like: Tensor) -> tuple[Tensor, Tensor]:
    kind = np.int32 if len(edges.indices) < 2**31 else np.int64
    return tuple(
        torch.from_numpy(part.astype(kind)).to(like.device)
        for part in (edges.indices, edges.indptr)
    )


@dataclass
class SparseBlock:
    """Sparse rows of full batches: one matrix (S·rows, rows of `Stack.rows`), block diagonal.

    `transposed` is kept where gradients are needed.
    """

    x: Tensor
    transposed: Tensor | None
    members: int

    @classmethod
    def of(cls, rows: Sequence[sparse.csr_matrix], stride: int, training: bool, like: Tensor):
        """Members' rows, each (rows, f); member s reads rows s·stride .. of the weights."""
        height, width = sum(r.shape[0] for r in rows), len(rows) * stride
        moved = [
            sparse.csr_matrix((r.data, r.indices + s * stride, r.indptr), (r.shape[0], width))
            for s, r in enumerate(rows)
        ]
        matrix = sparse.vstack(moved, "csr") if len(moved) > 1 else moved[0]
        assert matrix.shape == (height, width)
        transposed = _csr(matrix.T.tocsr(), like) if training else None
        return cls(_csr(matrix, like), transposed, len(rows))

    def forward(self, layer: Linear, stack: Stack, scratch: Scratch) -> Tensor:
        product = _product(self.x, stack.rows, scratch)
        product = product.view(self.members, -1, layer.outputs).transpose(1, 2)
        return scratch(layer.name, product.shape).copy_(product)

    def add_gradient(self, layer: Linear, gradients: Stack, g: Tensor) -> None:
        rows = g.transpose(1, 2).reshape(-1, layer.outputs)
        gradients.rows.add_(_product(self.transposed, rows, scratch=None))


def _product(matrix: Tensor, rows: Tensor, scratch: Scratch | None) -> Tensor:
    """A CSR matrix times `rows`, summed in the same order each time, as cuSPARSE does not."""
    if matrix.device.type == "cpu":
        out = scratch and scratch("product", (matrix.shape[0], rows.shape[1]))
        return torch.mm(matrix, rows, out=out)
    return torch.nn.functional.embedding_bag(
        matrix.col_indices(),
        rows,
        matrix.crow_indices(),
        mode="sum",
        per_sample_weights=matrix.values(),
        include_last_offset=True,
    )


def _csr(matrix: sparse.csr_matrix, like: Tensor) -> Tensor:
    data = torch.from_numpy(matrix.data).to(like.dtype)
    with warnings.catch_warnings(), torch.sparse.check_sparse_tensor_invariants():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(np.int32)),
            torch.from_numpy(matrix.indices.astype(np.int32)),
            data,
            matrix.shape,
        ).to(like.device)


Block = DenseBlock | BagBlock | SparseBlock
