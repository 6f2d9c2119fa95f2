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
from torch import Tensor
from torch.nn import functional as F

from graphdp.methods.heterpoisson.bags import Bags
from graphdp.methods.heterpoisson.network import Convolution, squares
from graphdp.methods.heterpoisson.official_rows import DenseStandardised, SparseStandardised, sums
from graphdp.training.descent import clipping_factors, views
from graphdp.training.sums import add_outer

#: The authors' code pads predictions by batches of so many.
_PREDICTED_TOGETHER = 1000
#: Sub-graphs at a time: bounds the memory of their rows.
_AT_ONCE = 512


class OfficialModel:
    """A network with its parameters `values` (P,)."""

    def __init__(
        self, shape: Convolution, features: DenseStandardised | SparseStandardised, values: Tensor
    ):
        self.shape, self.features = shape, features
        self.p = views(values, shape.shapes)

    def _forward(self, bags: Bags, longest: int, training: bool = False) -> tuple:
        """The rows, their products with W (W + W₂ for SAGE), κ, owners and z, t and ŷ. z has the
        rows, and then one for each bag that stands for its padding up to `longest` rows."""
        p, kind, count = self.p, self.shape.convolution, len(bags.centres)
        rows = self.features.rows(bags, summed=kind == "gin")
        owner = torch.cat([rows.owner, torch.arange(count, device=rows.owner.device)])
        times = np.ones(len(owner))
        times[-count:] = longest - 1 - bags.sizes
        kappa = 2 + float(p["lambda"]) if kind == "gin" else 1.0
        z = (rows.a_products(p["W"]) + 2 * p["b"])[owner]
        products = rows.products(p["W"] + p["W2"] if kind == "sage" else p["W"])
        z[: len(products)].add_(products, alpha=kappa)
        if kind == "sage":
            z += p["b2"]
        z.requires_grad_(training)
        h = F.elu(z)
        times = torch.from_numpy(times).to(h)
        width = longest * h.shape[1]
        mean = sums((h.sum(1) * times)[:, None], owner, count) / width
        squared = (h - mean[owner]).square().sum(1) * times
        std = (sums(squared[:, None], owner, count) / (width - 1)).sqrt()
        t = (h[:count] - mean) / (std + 1e-6)
        return rows, products, kappa, owner, z, t, t @ p["V"] + p["c"]

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
        rows, products, kappa, owner, z, t, scores = self._forward(bags, longest, training=True)
        truth = labels[torch.from_numpy(bags.centres).to(labels.device)]
        with torch.no_grad():
            g = F.softmax(scores, 1)
            g[torch.arange(count, device=g.device), truth] -= 1
        (delta,) = torch.autograd.grad(t, z, g @ self.p["V"].T)
        t = t.detach()
        total = sums(delta, owner, count)
        # What pads has no features: from here on the rows' own alone.
        owner, delta = rows.owner, delta[: len(rows.owner)]
        slope = None
        if kind == "gin":
            slope = sums((products * delta).sum(1)[:, None], owner, count)[:, 0]
        if clip is not None:
            pairs, d2 = rows.pairs(delta), squares(total)
            cross = rows.cross() * (delta.double() * total.double()[owner]).sum(1)
            cross = sums(cross[:, None], owner, count)[:, 0]
            norm = rows.a_squares() * d2 + 2 * kappa * cross + kappa**2 * pairs
            norm = norm.clamp_min(0) + 4 * d2
            if kind == "sage":
                norm = norm + pairs.clamp_min(0) + d2
            if kind == "gin":
                norm = norm + slope.double().square()
            norm = norm + (squares(t) + 1) * squares(g)
            factors = clipping_factors(norm, clip).to(delta.dtype)
            delta, total = delta * factors[owner, None], total * factors[:, None]
            g = g * factors[:, None]
            slope = None if slope is None else slope * factors
        into = views(gradients, self.shape.shapes)
        own = rows.gradient(delta)
        rows.add_a_gradient(into["W"], total)
        into["W"].add_(own, alpha=kappa)
        into["b"].add_(total.sum(0), alpha=2)
        if kind == "sage":
            into["W2"].add_(own)
            into["b2"].add_(total.sum(0))
        if kind == "gin":
            into["lambda"].add_(slope.sum())
        add_outer(into["V"], t, g)
        into["c"].add_(g.sum(0))

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
