"""Sums over the records of a batch, in the dtype of what they are added to.

What noise is added to is a sum of B gradients v_i, each of norm C at most. Added one after the
other in float32 it can move by far more than C when one of them is left out: partial sums on either
side of a power of two are rounded to grids of different width, so that small terms which vanish on
one side count in full on the other, in all up to some B² 2⁻²⁴ C. So they are summed in float64,
into which products of two float32 numbers go exactly, and rounded to float32 once.

In whatever order, a sum is then within B² 2⁻⁵³ C of the exact one (Higham, Accuracy and Stability
of Numerical Algorithms, section 4.2: in a coordinate within (B - 1) 2⁻⁵³ Σ |v_ij|, and norms of
sums are below sums of norms), and rounding it moves it by 2⁻²⁴ B C at most. Of two such sums, with
a record and without, the distance is at most

    C (1 + B 2⁻²³ + B² 2⁻⁵²)

to first order: 1.00003 C for B = 256, 1.0005 C for 4,096. That ‖v_i‖ ≤ C holds but for the rounding
of the factor by which v_i was clipped, whose norm is a sum in float32.
"""

import torch
from torch import Tensor

#: Of what noise is added to.
SUMS = torch.float64


def add_outer(target: Tensor, x: Tensor, g: Tensor) -> None:
    """target (f, h) += Σ over rows of x gᵀ; x (B, f), g (B, h)."""
    target.addmm_(x.to(target.dtype).T, g.to(target.dtype))


def add_rows(target: Tensor, index: Tensor, rows: Tensor) -> None:
    """target[index] += rows, summing repeated indices in a reproducible order."""
    rows = rows.to(target.dtype)
    if target.device.type == "cpu":
        target.index_add_(0, index, rows)
    else:  # index_add_ adds in any order on a GPU, an accumulating index_put_ sorts first
        target.index_put_((index,), rows, accumulate=True)


def add_sum(target: Tensor, rows: Tensor, dim: int | tuple[int, ...] = 0) -> None:
    """target += Σ of `rows` over `dim`."""
    target.add_(rows.sum(dim, dtype=target.dtype))
