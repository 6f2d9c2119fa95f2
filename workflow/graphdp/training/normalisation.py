"""Batch norm, group norm and rows over their L2 norms: forward and backward, by hand.

The counterparts of `torch.nn.BatchNorm1d`, `torch.nn.GroupNorm` (one group) and
`torch.nn.functional.normalize`, for stacks of networks: activations are (S, channels, rows), as in
`graphdp.training.layers`, which calls all this. What is saved for the backward pass lies in
`scratch`; gradients `g` are overwritten where that saves a buffer.
"""

from typing import Any

import torch
from torch import Tensor

from graphdp.training.inputs import Scratch
from graphdp.training.layout import Stack
from graphdp.training.networks import BatchNorm, GroupNorm, NormalisedLinear

BATCH_NORM_EPS = 1e-5
GROUP_NORM_EPS = 1e-5
BATCH_NORM_MOMENTUM = 0.1
NORMALISE_EPS = 1e-12


def inverse_norms(x: Tensor, scratch: Scratch) -> tuple[Tensor, Tensor]:
    norms = torch.mul(x, x, out=scratch("work", x.shape)).sum(1, keepdim=True).sqrt_()
    return norms.clamp_min(NORMALISE_EPS).reciprocal_(), norms


def running_affine(layer: BatchNorm, stack: Stack) -> tuple[Tensor, Tensor]:
    """Batch norm by running statistics as x · scale + shift, a bias before it included."""
    scale = torch.rsqrt(stack[f"{layer.name}.running_var"] + BATCH_NORM_EPS)
    scale = scale * stack[f"{layer.name}.weight"]
    mean = stack[f"{layer.name}.running_mean"]
    if layer.bias is not None:
        mean = mean - stack[layer.bias]
    return scale, stack[f"{layer.name}.bias"] - mean * scale


def batch_norm(
    layer: BatchNorm, stack: Stack, x: Tensor, weights: Tensor | None, scratch: Scratch
) -> tuple[Tensor, Any]:
    if weights is None:
        count = x.new_full((1, 1, 1), x.shape[-1])
        mean = x.mean(-1, keepdim=True)
        centred = torch.sub(x, mean, out=scratch(layer.name, x.shape))
        variance = torch.linalg.vector_norm(centred, dim=-1, keepdim=True).square_() / count
    else:
        count = weights.sum(-1, keepdim=True)
        mean = torch.bmm(x, weights.transpose(1, 2)) / count
        centred = torch.sub(x, mean, out=scratch(layer.name, x.shape))
        squares = torch.mul(centred, centred, out=scratch("work", x.shape))
        variance = torch.bmm(squares, weights.transpose(1, 2)) / count
    inverse = torch.rsqrt(variance + BATCH_NORM_EPS)
    if layer.bias is not None:
        mean = mean + stack[layer.bias]
    unbiased = variance * (count / (count - 1).clamp_min_(1))
    stack[f"{layer.name}.running_mean"].lerp_(mean, BATCH_NORM_MOMENTUM)
    stack[f"{layer.name}.running_var"].lerp_(unbiased, BATCH_NORM_MOMENTUM)
    scale = inverse * stack[f"{layer.name}.weight"]
    y = torch.mul(centred, scale, out=scratch(f"norm {layer.name}", x.shape))
    return y.add_(stack[f"{layer.name}.bias"]), (centred, inverse, weights, count)


def batch_norm_backward(
    layer: BatchNorm, stack: Stack, saved: Any, g: Tensor, gradients: Stack, scratch: Scratch
) -> Tensor:
    """With x̂ = centred · inverse: dx = weight · inverse · (g - mean(g) - x̂ mean(g x̂)).

    Where a row stands for w nodes, g is the sum over them, and so the means count w times.
    """
    centred, inverse, weights, count = saved
    sums = g.sum(-1, keepdim=True)
    along = torch.mul(g, centred, out=scratch("work", g.shape)).sum(-1, keepdim=True).mul_(inverse)
    gradients[f"{layer.name}.bias"].add_(sums)
    gradients[f"{layer.name}.weight"].add_(along)
    mean, slope = sums / count, along * inverse / count
    if weights is None:
        g.addcmul_(centred, slope, value=-1).sub_(mean)
    else:
        common = torch.mul(centred, slope, out=scratch("work", g.shape)).add_(mean)
        g.addcmul_(common, weights, value=-1)
    return g.mul_(inverse * stack[f"{layer.name}.weight"])


def group_norm(
    layer: GroupNorm, stack: Stack, x: Tensor, scratch: Scratch
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    unit = torch.sub(x, x.mean(1, keepdim=True), out=scratch(layer.name, x.shape))
    variance = torch.mul(unit, unit, out=scratch("work", x.shape)).mean(1, keepdim=True)
    inverse = variance.add_(GROUP_NORM_EPS).rsqrt_()
    unit.mul_(inverse)
    y = torch.mul(unit, stack[f"{layer.name}.weight"], out=scratch(f"norm {layer.name}", x.shape))
    return y.add_(stack[f"{layer.name}.bias"]), (unit, inverse)


def group_norm_backward(
    layer: GroupNorm, stack: Stack, unit: Tensor, inverse: Tensor, g: Tensor, scratch: Scratch
) -> Tensor:
    """With x̂ = unit and h = weight · g: dx = inverse · (h - mean(h) - x̂ mean(h x̂)), per row."""
    h = torch.mul(g, stack[f"{layer.name}.weight"], out=scratch(f"g {layer.name}", g.shape))
    slope = torch.mul(h, unit, out=scratch("work", g.shape)).mean(1, keepdim=True)
    mean = h.mean(1, keepdim=True)
    return h.addcmul_(unit, slope, value=-1).sub_(mean).mul_(inverse)


def normalised_linear(
    layer: NormalisedLinear, stack: Stack, x: Tensor, scratch: Scratch
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor, Tensor]]:
    inverse, norms = inverse_norms(x, scratch)
    weight = stack[f"{layer.name}.weight"][:, 0]
    shape = (len(x), layer.outputs, x.shape[-1])
    product = torch.bmm(weight.transpose(1, 2), x, out=scratch(f"product {layer.name}", shape))
    y = torch.mul(product, inverse, out=scratch(layer.name, shape))
    return y.add_(stack[f"{layer.name}.bias"]), (x, product, inverse, norms)


def normalised_linear_backward(
    layer: NormalisedLinear, stack: Stack, saved: Any, g: Tensor, scratch: Scratch
) -> Tensor:
    """With y = W x / ‖x‖: dx = (Wᵀ g - x ⟨W x, g⟩/‖x‖²)/‖x‖; below the floor ‖x‖ is constant."""
    x, product, inverse, norms = saved
    scaled = g * inverse
    along = (scaled * product).sum(1, keepdim=True).mul_(inverse.square())
    weight = stack[f"{layer.name}.weight"][:, 0]
    dx = torch.bmm(weight, scaled, out=scratch(f"g {layer.name}", x.shape))
    return dx.addcmul_(x, along.mul_(norms > NORMALISE_EPS), value=-1)
