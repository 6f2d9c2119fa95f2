"""The one-layer networks of PNPiGNNs on flat bags, with each sub-graph's clipped gradient.

Of a centre's features x₀ and the sum s of its k peripherals' (`graphdp.methods.heterpoisson.bags`):

    a = elu(std(elu(m))),  m = (x₀ + s) / (k + 1) for GCN and SAGE, x₀ + s for GIN
    z = W (a + κ x₀) + 2b  with κ = 1 for GCN and SAGE, 2 + λ for GIN; for SAGE also + W₂ x₀ + b₂
    ŷ = V std(elu(z)) + c

std(v) = (v - mean(v)) / (std(v) + 1e-6) of a vector's own entries, so that a row depends on its own
sub-graph alone; λ is learned, from 1. In the authors' code all rows of a bag pass the layer and are
standardised together (`official.py`). M = 0 leaves an MLP with the same head.

**Gradients.** δ = ∂loss/∂z and g = ∂loss/∂ŷ of a sub-graph give all of its gradient: for W it is
(a + κ x₀) δᵀ, for b 2δ, for W₂ and b₂ x₀ δᵀ and δ, for λ ⟨W x₀, δ⟩, for V and c t gᵀ and g with
t = std(elu(z)). Their norms are products of norms, and the clipped sum is one product of matrices:
no gradient of a single sub-graph is formed.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.nn import functional as F

from graphdp.errors import one_of
from graphdp.methods.heterpoisson.bags import Bags, Draw
from graphdp.training.descent import clipping_factors, views
from graphdp.training.features import checked
from graphdp.training.sparse_rows import DenseBatch, SparseBatch
from graphdp.training.sums import add_outer, add_sum

CONVOLUTIONS = ("gcn", "gin", "sage")
#: Features of this width or more are kept sparse, however many are 0: that is private, and the last
#: bits of sums differ.
SPARSE_WIDTH = 1024
PREDICTED_AT_ONCE = 4096


@dataclass(frozen=True)
class Convolution:
    """A network's shape."""

    features: int
    hidden: int
    classes: int
    convolution: str

    def __post_init__(self) -> None:
        one_of("convolution", self.convolution, CONVOLUTIONS)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name -> shape of every parameter, in their order in the flat vector."""
        found: dict[str, tuple[int, ...]] = {"W": (self.features, self.hidden), "b": (self.hidden,)}
        if self.convolution == "sage":
            found |= {"W2": (self.features, self.hidden), "b2": (self.hidden,)}
        if self.convolution == "gin":
            found |= {"lambda": (1,)}
        return found | {"V": (self.hidden, self.classes), "c": (self.classes,)}

    def initial(self, rng: np.random.Generator) -> np.ndarray:
        """The parameters of a fresh model, as torch.nn draws them, λ = 1: float64 (P,)."""
        inputs = {"W": self.features, "b": self.features, "W2": self.features, "b2": self.features}
        inputs |= {"V": self.hidden, "c": self.hidden}
        parts = []
        for name, shape in self.shapes.items():
            if name == "lambda":
                parts.append(np.ones(1))
            else:
                parts.append(rng.uniform(-1, 1, math.prod(shape)) / math.sqrt(inputs[name]))
        return np.concatenate(parts)


def standardised(x: Tensor) -> Tensor:
    """Each row (B, w) less its mean, over its standard deviation + 1e-6."""
    return (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-6)


def squares(rows: Tensor) -> Tensor:
    """‖row‖²: float64 (B,), since float32 has no room for squares of what is small or large."""
    return torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64).square()


@dataclass(frozen=True)
class DenseInputs:
    """a and x₀ of a batch: dense (B, f), and the rows of a batch."""

    a: Tensor
    own: DenseBatch

    def joint(self, kappa: float) -> "DenseJoint":
        """a + κ x₀."""
        return DenseJoint(self.a.add(self.own.x, alpha=kappa))

    def own_squares(self) -> Tensor:
        """‖x₀‖²: float64 (B,)."""
        return squares(self.own.x)


class DenseJoint(DenseBatch):
    """Rows a + κ x₀ of a batch."""

    def squared_norms(self) -> Tensor:
        """float64 (B,)."""
        return squares(self.x)

    def only(self, kept: Tensor) -> "DenseJoint":
        """Zero where not `kept`, bool (B, 1): what has a gradient of 0 may have overflowed."""
        return DenseJoint(torch.where(kept, self.x, 0.0))


@dataclass(frozen=True)
class SparseInputs:
    """As `DenseInputs`: a is `base` (B,) where a sub-graph's features are all zero, and else a
    sparse matrix is added to it. products: ‖a‖², ⟨a, x₀⟩ and ‖x₀‖², float64 (B,) each."""

    base: Tensor
    rest: SparseBatch
    own: SparseBatch
    products: tuple[Tensor, Tensor, Tensor]

    def joint(self, kappa: float) -> "SparseJoint":
        """a + κ x₀."""
        return SparseJoint(self, kappa)

    def own_squares(self) -> Tensor:
        """‖x₀‖²: float64 (B,)."""
        return self.products[2]


@dataclass(frozen=True)
class SparseJoint:
    """Rows a + κ x₀ of a batch, as a first layer reads them."""

    of: SparseInputs
    kappa: float

    def times(self, weight: Tensor) -> Tensor:
        shift = self.of.base[:, None] * weight.sum(0)
        return shift + self.of.rest.times(weight) + self.kappa * self.of.own.times(weight)

    def squared_norms(self) -> Tensor:
        """float64 (B,): a sum that may cancel."""
        aa, ao, oo = self.of.products
        return (aa + 2 * self.kappa * ao + self.kappa**2 * oo).clamp_min(0)

    def only(self, kept: Tensor) -> "SparseJoint":
        """As `DenseJoint.only`: its parts are finite each."""
        return self

    def add_gradient(self, weight: Tensor, g: Tensor) -> None:
        weight.add_(self.of.base.to(weight.dtype) @ g.to(weight.dtype))
        self.of.rest.add_gradient(weight, g)
        self.of.own.add_gradient(weight, g * self.kappa)


class DenseFeatures:
    """Features (n, f) as a dense matrix."""

    def __init__(self, x: np.ndarray | sparse.csr_matrix, like: Tensor):
        dense = x.toarray() if sparse.issparse(x) else x
        self.x = checked(torch.tensor(dense, dtype=like.dtype, device=like.device))

    def inputs(self, bags: Bags, summed: bool) -> DenseInputs:
        """a and x₀ of the bags; `summed` for GIN's m."""
        device = self.x.device
        own = self.x[torch.from_numpy(bags.centres).to(device)]
        m = own.clone()
        if len(bags.peripherals):
            rows = torch.from_numpy(bags.peripherals).to(device)
            weights = None
            if bags.blank is not None:
                weights = torch.from_numpy(~bags.blank).to(device, m.dtype)
            starts = torch.from_numpy(bags.starts[:-1]).to(device)
            m += F.embedding_bag(rows, self.x, starts, mode="sum", per_sample_weights=weights)
        if not summed:
            m /= torch.from_numpy(bags.sizes + 1).to(device, m.dtype)[:, None]
        return DenseInputs(F.elu(standardised(F.elu(m))), DenseBatch(own))


class SparseFeatures:
    """Features (n, f) as a sparse matrix: nothing here costs more than a pass over the entries."""

    def __init__(self, x: sparse.csr_matrix, like: Tensor):
        self.x, self._like = x.astype(np.float64), like
        checked(torch.from_numpy(self.x.data))

    def inputs(self, bags: Bags, summed: bool) -> SparseInputs:
        """As `DenseFeatures.inputs`, in float64 but for the products with weights."""
        own = self.x[bags.centres]
        chosen = np.ones(len(bags.peripherals)) if bags.blank is None else ~bags.blank * 1.0
        shape = len(bags.centres), self.x.shape[0]
        m = own + sparse.csr_matrix((chosen, bags.peripherals, bags.starts), shape) @ self.x
        m.sum_duplicates()
        sizes = np.diff(m.indptr)
        if not summed:
            m.data /= np.repeat(bags.sizes + 1, sizes)
        base = activate(m)
        width, owners = self.x.shape[1], np.repeat(np.arange(len(sizes)), sizes)
        rest_squares = np.bincount(owners, m.data**2, len(sizes))
        rest_sums = np.bincount(owners, m.data, len(sizes))
        own_sums = np.asarray(own.sum(1)).ravel()
        products = [
            width * base**2 + 2 * base * rest_sums + rest_squares,
            base * own_sums + np.asarray(m.multiply(own).sum(1)).ravel(),
            np.asarray(own.multiply(own).sum(1)).ravel(),
        ]
        like = self._like
        return SparseInputs(
            torch.tensor(base, dtype=like.dtype, device=like.device),
            batch_of(m, like),
            batch_of(own, like),
            tuple(torch.tensor(one, device=like.device) for one in products),
        )


def activate(m: sparse.csr_matrix, base: float | np.ndarray = 0.0) -> np.ndarray:
    """a = elu(std(elu(base + m))) of rows m (B, f): what of it stands in every column, (B,); the
    rest takes the place of m's entries. base: () or (B,), what is to be added to every column."""
    sizes, width = np.diff(m.indptr), m.shape[1]
    owners = np.repeat(np.arange(len(sizes)), sizes)
    base = np.broadcast_to(base, len(sizes))
    m.data = _elu(base[owners] + m.data) - _elu(base)[owners]
    # Mean and standard deviation of all f entries, of which most are `base`: less that, 0.
    mean = np.bincount(owners, m.data, len(sizes)) / width
    squares = np.bincount(owners, (m.data - mean[owners]) ** 2, len(sizes))
    std = np.sqrt((squares + (width - sizes) * mean**2) / (width - 1)) + 1e-6
    found = _elu(-mean / std)
    m.data = _elu((m.data - mean[owners]) / std[owners]) - found[owners]
    return found


def _elu(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def batch_of(rows: sparse.csr_matrix, like: Tensor) -> SparseBatch:
    """The rows for products with weights."""
    device = like.device
    return SparseBatch(
        torch.tensor(rows.indices, dtype=torch.int64, device=device),
        torch.tensor(rows.indptr[:-1], dtype=torch.int64, device=device),
        torch.tensor(np.diff(rows.indptr), dtype=torch.int64, device=device),
        torch.tensor(rows.data, dtype=like.dtype, device=device),
    )


def features_of(x: np.ndarray | sparse.csr_matrix, like: Tensor) -> DenseFeatures | SparseFeatures:
    """The features (n, f), dense or sparse as their public width decides.

    Raises GraphDPError for what is not finite or beyond `graphdp.training.features.LARGEST`.
    """
    if x.shape[1] >= SPARSE_WIDTH:
        return SparseFeatures(sparse.csr_matrix(x), like)
    return DenseFeatures(x, like)


class Model:
    """A network with its parameters `values` (P,)."""

    def __init__(
        self, shape: Convolution, features: DenseFeatures | SparseFeatures, values: Tensor
    ):
        self.shape, self.features = shape, features
        self.p = views(values, shape.shapes)

    def _forward(self, bags: Bags, training: bool = False) -> tuple:
        """The inputs, z, t and ŷ of the bags' centres, and λ's factor W x₀ (None but for GIN)."""
        p, kind = self.p, self.shape.convolution
        inputs = self.features.inputs(bags, summed=kind == "gin")
        joint = inputs.joint(2 + float(p["lambda"]) if kind == "gin" else 1.0)
        z = joint.times(p["W"]) + 2 * p["b"]
        if kind == "sage":
            z += inputs.own.times(p["W2"]) + p["b2"]
        z.requires_grad_(training)
        t = standardised(F.elu(z))
        slope = inputs.own.times(p["W"]) if training and kind == "gin" else None
        return inputs, joint, z, t, t @ p["V"] + p["c"], slope

    def add_clipped(
        self, bags: Bags, labels: Tensor, gradients: Tensor, clip: float | None
    ) -> None:
        """Add to `gradients` (P,) the sum of the sub-graphs' gradients of the cross-entropy of
        their centres, each clipped to norm `clip` unless that is None. labels: int64 (n,)."""
        kind = self.shape.convolution
        inputs, joint, z, t, scores, slope = self._forward(bags, training=True)
        truth = labels[torch.from_numpy(bags.centres).to(labels.device)]
        with torch.no_grad():
            g = F.softmax(scores, 1)
            g[torch.arange(len(truth), device=g.device), truth] -= 1
        (delta,) = torch.autograd.grad(t, z, g @ self.p["V"].T)
        t = t.detach()
        if kind == "gin":
            slope = (slope * delta).sum(1)
        if clip is not None:
            inner = joint.squared_norms() + 4
            if kind == "sage":
                inner = inner + inputs.own_squares() + 1
            total = inner * squares(delta) + (squares(t) + 1) * squares(g)
            if kind == "gin":
                total = total + slope.double().square()
            factors = clipping_factors(total, clip).to(delta.dtype)
            # Not 0 times what overflowed, which would be NaN.
            kept = (factors > 0)[:, None]
            delta = torch.where(kept, delta * factors[:, None], 0.0)
            g, t = torch.where(kept, g * factors[:, None], 0.0), torch.where(kept, t, 0.0)
            if kind == "gin":  # κ is a parameter
                slope = torch.where(kept[:, 0], slope * factors, 0.0)
                joint = joint.only(kept)
        into = views(gradients, self.shape.shapes)
        joint.add_gradient(into["W"], delta)
        add_sum(into["b"], 2 * delta)
        if kind == "sage":
            inputs.own.add_gradient(into["W2"], delta)
            add_sum(into["b2"], delta)
        if kind == "gin":
            add_sum(into["lambda"], slope)
        add_outer(into["V"], t, g)
        add_sum(into["c"], g)

    def scores(self, bags: Bags) -> Tensor:
        """Class scores (B, C) of the bags' centres."""
        with torch.no_grad():
            parts = range(0, len(bags.centres), PREDICTED_AT_ONCE)
            stops = [min(first + PREDICTED_AT_ONCE, len(bags.centres)) for first in parts]
            return torch.cat(
                [self._forward(bags.part(a, b))[4] for a, b in zip(parts, stops, strict=True)]
            )


def gradient_of(
    add_clipped: Callable[[Bags, Tensor, Tensor, float | None], None], draw: Draw, labels: Tensor
) -> Callable[[Tensor, Tensor, float | None], None]:
    """What `descend` needs: draws a round's bags and adds up their (clipped) gradients."""

    def add(nodes: Tensor, gradients: Tensor, clip: float | None) -> None:
        add_clipped(draw(nodes.cpu().numpy()), labels, gradients, clip)

    return add
