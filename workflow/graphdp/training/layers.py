"""Forward and backward passes of a stack of networks, written out by hand.

Activations are (S, channels, rows). The backward pass yields, for every linear layer, its input a
and the gradient g at its output, column by column; a caller adds up a gᵀ as it likes. Besides the
same for a group norm's weight and bias, that is all that per-sample clipping needs: the gradient of
one sample's loss is the outer product of its columns of a and g, and the norm of an outer product
is the product of the norms (Goodfellow, "Efficient per-example gradient computations", 2015), so no
per-sample gradient is ever formed.

On a CPU these passes are bound by memory: hence the reused buffers and the work done in place. What
divides by a norm or a deviation stands in `graphdp.training.normalisation`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graphdp.training.inputs import Block, DenseBlock, Scratch
from graphdp.training.layout import Stack
from graphdp.training.networks import (
    BatchNorm,
    Branches,
    Convolution,
    Dropout,
    GroupNorm,
    Jumping,
    Layer,
    Linear,
    Normalise,
    NormalisedLinear,
    Selu,
)
from graphdp.training.normalisation import (
    NORMALISE_EPS,
    batch_norm,
    batch_norm_backward,
    group_norm,
    group_norm_backward,
    inverse_norms,
    normalised_linear,
    normalised_linear_backward,
    running_affine,
)
from graphdp.training.sums import add_sum

SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


@dataclass
class Delta:
    """A linear layer with its input (a block for the first layer) and the gradient at its output
    (S, groups·outputs, rows)."""

    layer: Linear
    a: Block
    g: Tensor

    def squared_norms(self) -> Tensor:
        """Squared norm of each sample's gradient, weight and bias together: (S, rows)."""
        g = self.g.unflatten(1, (self.layer.groups, self.layer.outputs)).square().sum(2)
        return ((self.a.squared_norms() + 1) * g).sum(1)

    def add_to(self, gradients: Stack) -> None:
        """Add the gradients summed over the rows."""
        self.a.add_gradient(self.layer, gradients, self.g)
        if not self.layer.absorbed:
            _add_bias(gradients, self.layer.name, self.g)


@dataclass
class AffineDelta:
    """The weight and bias of a group norm, with its normalised input x and the gradient at its
    output, both (S, channels, rows): a sample's gradient is g · x for the weight, g for the bias.
    """

    layer: GroupNorm
    x: Tensor
    g: Tensor

    def squared_norms(self) -> Tensor:
        """Squared norm of each sample's gradient, weight and bias together: (S, rows)."""
        return self.x.square().add_(1).mul_(self.g.square()).sum(1)

    def add_to(self, gradients: Stack) -> None:
        """Add the gradients summed over the rows."""
        add_sum(gradients[f"{self.layer.name}.weight"][..., 0], self.g * self.x, -1)
        _add_bias(gradients, self.layer.name, self.g)


@dataclass
class NormalisedDelta:
    """A `NormalisedLinear` layer with its input x (S, inputs, rows), the inverses of the norms
    (S, 1, rows) of its rows and the gradient at its output (S, outputs, rows)."""

    layer: NormalisedLinear
    x: Tensor
    inverse: Tensor
    g: Tensor

    def squared_norms(self) -> Tensor:
        """Squared norm of each sample's gradient, weight and bias together: (S, rows)."""
        unit = self.x.square().sum(1).mul_(self.inverse.squeeze(1).square())
        return unit.add_(1).mul_(self.g.square().sum(1))

    def add_to(self, gradients: Stack) -> None:
        """Add the gradients summed over the rows."""
        DenseBlock(self.x.unsqueeze(1)).add_gradient(self.layer, gradients, self.g * self.inverse)
        _add_bias(gradients, self.layer.name, self.g)


def _add_bias(gradients: Stack, name: str, g: Tensor) -> None:
    add_sum(gradients[f"{name}.bias"][..., 0], g, -1)


AnyDelta = Delta | AffineDelta | NormalisedDelta

# What the first layer reads: a block, or for branches one block each.
Input = Block | Sequence[Block]
# (layer, shape (S, channels, rows)) -> what a dropout multiplies with, in a tensor of its own.
Masks = Callable[[Dropout, Sequence[int]], Tensor]


def forward(stack: Stack, inputs: Input, scratch: Scratch) -> tuple[Tensor, Tensor | None]:
    """Evaluation mode (batch norm by running statistics): the outputs (S, classes, rows), and the
    network's embedding (S, channels, rows), if it has one: the output of its last branch, or else
    of its `Normalise` layer.

    Both lie in `scratch`: use them before its next use.
    """
    return _forward(stack, stack.layout.layers, inputs, scratch)


def _forward(
    stack: Stack, layers: Sequence[Layer], x: Any, scratch: Scratch
) -> tuple[Tensor, Tensor | None]:
    embedding = None
    for layer in layers:
        match layer:
            case Branches():
                parts = [
                    _forward(stack, branch, own, scratch)[0] if branch else _tensor(own)
                    for branch, own in zip(layer.branches, x, strict=True)
                ]
                x, embedding = _concatenate(parts, scratch), parts[-1]
            case Jumping():
                parts = []
                for part in layer.parts:
                    x, _ = _forward(stack, part, x, scratch)
                    parts.append(x)
                x = _concatenate(parts, scratch)
            case NormalisedLinear():
                x, _ = normalised_linear(layer, stack, x, scratch)
            case Convolution():
                x, _ = _convolution(layer, stack, x, scratch)
            case Linear():
                x = _linear(layer, stack, _block(x), scratch)
            case BatchNorm():
                scale, shift = running_affine(layer, stack)
                x = torch.mul(x, scale, out=scratch(f"norm {layer.name}", x.shape)).add_(shift)
            case GroupNorm():
                x, _ = group_norm(layer, stack, x, scratch)
            case Dropout():
                pass
            case Selu():
                x = _selu(layer, x, scratch)
            case Normalise():
                x = x.mul_(inverse_norms(x, scratch)[0])
                embedding = x if embedding is None else embedding
    return x, embedding


def forward_training(
    stack: Stack,
    inputs: Input,
    scratch: Scratch,
    weights: Tensor | None = None,
    masks: Masks | None = None,
) -> tuple[Tensor, list[Any]]:
    """Outputs (S, classes, rows) in training mode, and what `backward` needs of each layer.

    weights: (S, 1, rows), how many nodes each row stands for (0: padding); None for one each. Batch
    norm uses the statistics of these nodes, and updates the running ones as torch does. masks: for
    networks with dropout. The results lie in `scratch`: finish the backward pass before its next
    use.
    """
    return _forward_training(stack, stack.layout.layers, inputs, scratch, weights, masks)


def _forward_training(
    stack: Stack,
    layers: Sequence[Layer],
    x: Any,
    scratch: Scratch,
    weights: Tensor | None,
    masks: Masks | None,
) -> tuple[Tensor, list[Any]]:
    tape: list[Any] = []
    for layer in layers:
        match layer:
            case Branches():
                parts, tapes = [], []
                for branch, own in zip(layer.branches, x, strict=True):
                    if branch:
                        part, saved = _forward_training(stack, branch, own, scratch, weights, masks)
                    else:
                        part, saved = _tensor(own), []
                    parts.append(part)
                    tapes.append(saved)
                x = _concatenate(parts, scratch)
                tape.append(tapes)
            case Jumping():
                parts, tapes = [], []
                for part in layer.parts:
                    x, saved = _forward_training(stack, part, x, scratch, weights, masks)
                    parts.append(x)
                    tapes.append(saved)
                x = _concatenate(parts, scratch)
                tape.append(tapes)
            case NormalisedLinear():
                x, saved = normalised_linear(layer, stack, x, scratch)
                tape.append(saved)
            case Convolution():
                x, saved = _convolution(layer, stack, x, scratch)
                tape.append(saved)
            case Linear():
                tape.append(_block(x))
                x = _linear(layer, stack, tape[-1], scratch)
            case BatchNorm():
                x, saved = batch_norm(layer, stack, x, weights, scratch)
                tape.append(saved)
            case GroupNorm():
                x, saved = group_norm(layer, stack, x, scratch)
                tape.append(saved)
            case Dropout():
                mask = masks(layer, x.shape)
                x = torch.mul(x, mask, out=scratch(f"dropout {layer.name}", x.shape))
                tape.append(mask)
            case Selu():
                x = _selu(layer, x, scratch)
                tape.append(x)
            case Normalise():
                inverse, norms = inverse_norms(x, scratch)
                x = x.mul_(inverse)
                tape.append((x, inverse, norms))
    return x, tape


def backward(
    stack: Stack, tape: list[Any], g: Tensor, gradients: Stack, scratch: Scratch
) -> list[AnyDelta]:
    """Propagate the gradient `g` at the outputs, (S, classes, rows), summed over the nodes that a
    row stands for; returns the deltas of the linear layers and of the group norms.

    Batch norms and convolutions mix samples, so that their parameters have no per-sample gradient:
    it is added to `gradients` here.
    Every delta has a tensor of its own (in `scratch`), which later layers leave alone.
    """
    deltas: list[AnyDelta] = []
    _backward(stack, stack.layout.layers, tape, g, gradients, scratch, deltas)
    return deltas


def _backward(
    stack: Stack,
    layers: Sequence[Layer],
    tape: list[Any],
    g: Tensor,
    gradients: Stack,
    scratch: Scratch,
    deltas: list[AnyDelta],
) -> Tensor:
    """As `backward`; returns the gradient at the input of the layers, where that is no data."""
    for index, (layer, saved) in reversed(list(enumerate(zip(layers, tape, strict=True)))):
        match layer:
            case Branches():
                parts = g.split(layer.outputs, 1)
                for branch, part, own in zip(layer.branches, parts, saved, strict=True):
                    if branch:  # works in place on its part: nobody else reads that
                        _backward(stack, branch, own, part, gradients, scratch, deltas)
            case Jumping():
                *parts, g = g.split(layer.outputs, 1)
                for part, own in zip(reversed(layer.parts), reversed(saved), strict=True):
                    g = _backward(stack, part, own, g, gradients, scratch, deltas)
                    if parts:  # what reads the part's output besides the next part
                        g = g.add_(parts.pop())
            case NormalisedLinear():
                deltas.append(NormalisedDelta(layer, saved[0], saved[2], g))
                g = normalised_linear_backward(layer, stack, saved, g, scratch)
            case Convolution():
                g = _convolution_backward(layer, stack, saved, g, gradients, scratch)
            case Linear():
                deltas.append(Delta(layer, saved, g))
                if index > 0:  # the first layer's input is data
                    weight = stack[f"{layer.name}.weight"][:, 0]
                    shape = (len(g), layer.inputs, g.shape[-1])
                    g = torch.bmm(weight, g, out=scratch(f"g {layer.name}", shape))
            case BatchNorm():
                g = batch_norm_backward(layer, stack, saved, g, gradients, scratch)
            case GroupNorm():
                x, inverse = saved
                deltas.append(AffineDelta(layer, x, g))
                g = group_norm_backward(layer, stack, x, inverse, g, scratch)
            case Dropout():
                g = g.mul_(saved)
            case Selu():
                torch.ops.aten.elu_backward.grad_input(
                    g, SELU_ALPHA, SELU_SCALE, 1.0, True, saved, grad_input=g
                )
            case Normalise():
                y, inverse, norms = saved
                # d(x/‖x‖) = (g - y⟨y, g⟩)/‖x‖; below the floor the norm counts as constant.
                along = torch.mul(g, y, out=scratch("work", g.shape)).sum(1, keepdim=True)
                g = g.addcmul_(y, along.mul_(norms > NORMALISE_EPS), value=-1).mul_(inverse)
    return g


def _tensor(block: Block) -> Tensor:
    """A dense block of one group as a tensor (S or 1, channels, rows)."""
    return block.x[:, 0]


def _concatenate(parts: list[Tensor], scratch: Scratch) -> Tensor:
    members, channels, rows = (max(part.shape[i] for part in parts) for i in range(3))
    shape = (members, channels * len(parts), rows)
    return torch.cat(parts, 1, out=scratch("branches", shape))


def _block(x: Any) -> Block:
    return DenseBlock(x.unsqueeze(1)) if isinstance(x, Tensor) else x


def _linear(layer: Linear, stack: Stack, block: Block, scratch: Scratch) -> Tensor:
    x = block.forward(layer, stack, scratch)
    return x if layer.absorbed else x.add_(stack[f"{layer.name}.bias"])


def _selu(layer: Selu, x: Tensor, scratch: Scratch) -> Tensor:
    """SELU, by exp2, which is three times as fast on a CPU as torch's expm1; near zero the result
    is off by at most a rounding error of 1 (6e-8 in float32)."""
    below = SELU_SCALE * SELU_ALPHA  # of which exp(x) - 1, here exp2(log2(below) + x log2(e))
    y = torch.clamp_max(x, 0, out=scratch(f"selu {layer.name}", x.shape))
    torch.add(x.new_full((), math.log2(below)), y, alpha=math.log2(math.e), out=y)
    y.exp2_().sub_(below)
    return y.add_(torch.clamp_min(x, 0, out=scratch("work", x.shape)), alpha=SELU_SCALE)


def _convolution(
    layer: Convolution, stack: Stack, x: Tensor, scratch: Scratch
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """W Aᵀx + b + V x, and what its backward pass needs: x and Aᵀx (or the means)."""
    neighbours = stack.layout.neighbours
    sums = _over_nodes(neighbours.sums, x, f"sums {layer.name}", scratch)
    if layer.mean:
        sums.mul_(neighbours.shares)
    weight, root = (stack[f"{layer.name}.{name}"][:, 0] for name in ("weight", "root"))
    shape = (len(x), layer.outputs, x.shape[-1])
    y = torch.bmm(weight.transpose(1, 2), sums, out=scratch(layer.name, shape))
    return y.baddbmm_(root.transpose(1, 2), x).add_(stack[f"{layer.name}.bias"]), (x, sums)


def _convolution_backward(
    layer: Convolution,
    stack: Stack,
    saved: tuple[Tensor, Tensor],
    g: Tensor,
    gradients: Stack,
    scratch: Scratch,
) -> Tensor:
    """dx = A Wᵀg + Vᵀg, where means are taken with Wᵀg over the in-degrees."""
    inputs = dict(zip(("root", "weight"), saved, strict=True))
    for name, x in inputs.items():
        gradients[f"{layer.name}.{name}"][:, 0].baddbmm_(x, g.transpose(1, 2))
    gradients[f"{layer.name}.bias"].add_(g.sum(-1, keepdim=True))
    weight, root = (stack[f"{layer.name}.{name}"][:, 0] for name in ("weight", "root"))
    name, shape = f"g {layer.name}", (len(g), layer.inputs, g.shape[-1])
    through = torch.bmm(weight, g, out=scratch("work", shape))
    neighbours = stack.layout.neighbours
    if layer.mean:
        through.mul_(neighbours.shares)
    dx = _over_nodes(neighbours.transposed_sums, through, name, scratch)
    return dx.baddbmm_(root, g)


def _over_nodes(
    product: Callable[[Tensor], Tensor], x: Tensor, name: str, scratch: Scratch
) -> Tensor:
    """`product`, which sums rows of nodes, of activations (S, channels, n): all members at once."""
    nodes_first = (x.shape[2], *x.shape[:2])
    columns = scratch("columns", nodes_first).copy_(x.permute(2, 0, 1))
    sums = product(columns.flatten(1)).view(nodes_first)
    return scratch(name, x.shape).copy_(sums.permute(1, 2, 0))
