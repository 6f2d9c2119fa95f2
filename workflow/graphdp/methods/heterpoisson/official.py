"""The network as the authors' code runs it: all rows of a padded bag are standardised together.

Of a bag with rows x₀ (the centre), x₁, ..., x_k (peripherals) and zeros up to the batch's largest
bag, and with a as in `network` (the mean for GCN and SAGE is over the rows that are not zero):

    z_j = W (a + κ x_j) + 2b for every row, for SAGE also + W₂ x_j + b₂
    ŷ = V t₀ + c,  t = std(elu(z)) over all rows and units of the bag at once

So every sub-graph's gradient depends on how large the largest of the batch is, and the norms of
gradients need products of all pairs of a bag's rows: ‖a Δᵀ + κ Σ x_j δ_jᵀ‖² = ‖a‖²‖Δ‖²
+ 2κ Σ_j ⟨a, x_j⟩⟨Δ, δ_j⟩ + κ² Σ_jl ⟨x_j, x_l⟩⟨δ_j, δ_l⟩ with δ_j = ∂loss/∂z_j and Δ = Σ_j δ_j.
"""

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.nn import functional as F

from graphdp.methods.heterpoisson.bags import Bags
from graphdp.methods.heterpoisson.network import Convolution, DenseFeatures, standardised
from graphdp.training.descent import clipping_factors, views

#: The authors' code pads predictions by batches of so many.
_PREDICTED_TOGETHER = 1000
#: Sub-graphs at a time: bounds the memory of their rows.
_AT_ONCE = 512


def standardised_features(x: np.ndarray | sparse.csr_matrix, like: Tensor) -> DenseFeatures:
    """Features less the mean of all entries, over their deviation: private data, uncounted."""
    dense = (x.toarray() if sparse.issparse(x) else x).astype(np.float64)
    return DenseFeatures((dense - dense.mean()) / (dense.std(ddof=1) + 1e-6), like)


class OfficialModel:
    """A network with its parameters `values` (P,)."""

    def __init__(self, shape: Convolution, features: DenseFeatures, values: Tensor):
        self.shape, self.x = shape, features.x
        self.p = views(values, shape.shapes)

    def _forward(self, bags: Bags, longest: int, training: bool = False) -> tuple:
        """Real rows (the centres, then the peripherals), their products with W (κ W + W₂ for SAGE),
        the bags of all rows, a, κ, z, t and ŷ. After the real rows z has one of zeros for each
        bag, for the padding up to `longest` rows."""
        p, kind = self.p, self.shape.convolution
        count, device = len(bags.centres), self.x.device
        nodes = torch.from_numpy(np.concatenate([bags.centres, bags.peripherals])).to(device)
        rows = self.x[nodes]
        order = np.arange(count)
        owner = torch.from_numpy(np.concatenate([order, bags.owners, order])).to(device)
        real = owner[: len(rows)]
        times = np.ones(len(owner))
        times[-count:] = longest - 1 - bags.sizes
        times = torch.from_numpy(times).to(device, rows.dtype)
        m = _sums(rows, real, count)
        if kind != "gin":
            filled = (rows != 0).any(1).to(rows.dtype)
            m /= _sums(filled[:, None], real, count).clamp(min=1)
        a = F.elu(standardised(F.elu(m)))
        kappa = 2 + float(p["lambda"]) if kind == "gin" else 1.0
        z = (a @ p["W"] + 2 * p["b"])[owner]
        products = rows @ (p["W"] + p["W2"] if kind == "sage" else p["W"])
        z[: len(rows)].add_(products, alpha=kappa)
        if kind == "sage":
            z += p["b2"]
        z.requires_grad_(training)
        h = F.elu(z)
        width = longest * h.shape[1]
        mean = _sums((h.sum(1) * times)[:, None], owner, count) / width
        squares = (h - mean[owner]).square().sum(1) * times
        std = (_sums(squares[:, None], owner, count) / (width - 1)).sqrt()
        t = (h[:count] - mean) / (std + 1e-6)
        return rows, products, owner, a, kappa, z, t, t @ p["V"] + p["c"]

    def add_clipped(
        self, bags: Bags, labels: Tensor, gradients: Tensor, clip: float | None
    ) -> None:
        """As `network.Model.add_clipped`."""
        longest = int(bags.sizes.max(initial=0)) + 1
        for first in range(0, len(bags.centres), _AT_ONCE):
            part = bags.part(first, min(first + _AT_ONCE, len(bags.centres)))
            self._add(part, longest, labels, gradients, clip)

    def _add(
        self, bags: Bags, longest: int, labels: Tensor, gradients: Tensor, clip: float | None
    ) -> None:
        kind, count = self.shape.convolution, len(bags.centres)
        forward = self._forward(bags, longest, training=True)
        rows, products, owner, a, kappa, z, t, scores = forward
        truth = labels[torch.from_numpy(bags.centres).to(labels.device)]
        with torch.no_grad():
            g = F.softmax(scores, 1)
            g[torch.arange(count, device=g.device), truth] -= 1
        (delta,) = torch.autograd.grad(t, z, g @ self.p["V"].T)
        t = t.detach()
        total = _sums(delta, owner, count)
        # What pads has no features: from here on the real rows' alone.
        delta, owner = delta[: len(rows)], owner[: len(rows)]
        slope = None
        if kind == "gin":
            slope = _sums((products * delta).sum(1)[:, None], owner, count)[:, 0]
        if clip is not None:
            pairs = self._pairs(bags, rows, delta)
            a2, d2 = a.double().square().sum(1), total.double().square().sum(1)
            cross = (rows * a[owner]).sum(1) * (delta * total[owner]).sum(1)
            cross = _sums(cross[:, None].double(), owner, count)[:, 0]
            norm = (a2 * d2 + 2 * kappa * cross + kappa**2 * pairs).clamp_min(0) + 4 * d2
            if kind == "sage":
                norm = norm + pairs.clamp_min(0) + d2
            if kind == "gin":
                norm = norm + slope.double().square()
            norm = norm + (t.double().square().sum(1) + 1) * g.double().square().sum(1)
            factors = clipping_factors(norm, clip).to(delta.dtype)
            delta, total = delta * factors[owner, None], total * factors[:, None]
            g = g * factors[:, None]
            slope = None if slope is None else slope * factors
        into = views(gradients, self.shape.shapes)
        inputs = rows.T @ delta
        into["W"].addmm_(a.T, total).add_(inputs, alpha=kappa)
        into["b"].add_(total.sum(0), alpha=2)
        if kind == "sage":
            into["W2"].add_(inputs)
            into["b2"].add_(total.sum(0))
        if kind == "gin":
            into["lambda"].add_(slope.sum())
        into["V"].addmm_(t.T, g)
        into["c"].add_(g.sum(0))

    @staticmethod
    def _pairs(bags: Bags, rows: Tensor, delta: Tensor) -> Tensor:
        """Σ_jl ⟨x_j, x_l⟩⟨δ_j, δ_l⟩ of each bag: float64 (B,), of the rows of centres and
        peripherals. Bags of one size go together."""
        count, sizes = len(bags.centres), bags.sizes
        found = torch.zeros(count, dtype=torch.float64, device=rows.device)
        for size in np.unique(sizes):
            mine = np.flatnonzero(sizes == size)
            places = count + bags.starts[mine, None] + np.arange(size)
            places = torch.from_numpy(np.column_stack([mine, places])).to(rows.device)
            x, d = rows[places].double(), delta[places].double()
            found[torch.from_numpy(mine).to(rows.device)] = ((x @ x.mT) * (d @ d.mT)).sum((1, 2))
        return found

    def scores(self, bags: Bags) -> Tensor:
        """Class scores (B, C) of the bags' centres, padded by what is predicted together."""
        with torch.no_grad():
            found = []
            for first in range(0, len(bags.centres), _PREDICTED_TOGETHER):
                batch = bags.part(first, min(first + _PREDICTED_TOGETHER, len(bags.centres)))
                longest = int(batch.sizes.max(initial=0)) + 1
                for start in range(0, len(batch.centres), _AT_ONCE):
                    part = batch.part(start, min(start + _AT_ONCE, len(batch.centres)))
                    found.append(self._forward(part, longest)[-1])
            return torch.cat(found)


def _sums(rows: Tensor, owner: Tensor, count: int) -> Tensor:
    """Rows (R, w) summed by owner: (count, w)."""
    return rows.new_zeros(count, rows.shape[1]).index_add(0, owner, rows)
