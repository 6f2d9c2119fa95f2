"""The parameters of a stack of networks: where each lies in memory.

The `Layout` gives every parameter its place in a flat vector of length P, so a stack of S models is
one (S, P) tensor: noise, clipping and Adam act on all parameters of all members at once, and each
layer works on views of it.
"""

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphdp.errors import GraphDPError
from graphdp.training.networks import (
    BatchNorm,
    Branches,
    Convolution,
    GroupNorm,
    Jumping,
    Linear,
    Network,
    leaves,
)


class Layout:
    """Where each parameter of a network lies in the flat vector.

    The first layer's weight comes first and the length is a multiple of its output width: so the
    (S, P) tensor is also a matrix whose rows are the rows of all members' first weights, and sparse
    features look them up there without a copy. Weights are (groups, inputs, outputs).

    neighbours: the graph that convolutions sum over (`graphdp.training.inputs.Neighbours`), whose
    networks need the rows of all nodes in every pass.
    """

    def __init__(self, network: Network, neighbours: Any = None):
        self.network = network
        self.neighbours = neighbours
        self.layers = network.sequence
        self.leaves = tuple(leaves(self.layers))
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.running: dict[str, tuple[int, ...]] = {}
        for layer in self.leaves:
            if isinstance(layer, Linear):
                self.shapes[f"{layer.name}.weight"] = (layer.groups, layer.inputs, layer.outputs)
                self.shapes[f"{layer.name}.bias"] = (layer.groups * layer.outputs, 1)
                if isinstance(layer, Convolution):
                    self.shapes[f"{layer.name}.root"] = (1, layer.inputs, layer.outputs)
            elif isinstance(layer, BatchNorm | GroupNorm):
                for name in ("weight", "bias"):
                    self.shapes[f"{layer.name}.{name}"] = (layer.channels, 1)
            if isinstance(layer, BatchNorm):
                for name in ("running_mean", "running_var"):
                    self.running[f"{layer.name}.{name}"] = (layer.channels, 1)
        self.row = self.leaves[0].outputs
        size = sum(math.prod(shape) for shape in self.shapes.values())
        self.size = -(-size // self.row) * self.row

    @cached_property
    def width(self) -> int:
        """Sum of the widths of all activations of one row, its input included (for memory)."""
        total = width = self.leaves[0].inputs * self.leaves[0].groups
        for layer in self.leaves:
            if isinstance(layer, Linear):
                width = layer.groups * layer.outputs
            total += 5 * width if isinstance(layer, Convolution) else width  # sums, transposed
        for layer in self.layers:
            if isinstance(layer, Branches):  # their other inputs, and the concatenation twice
                total += 3 * layer.outputs * len(layer.branches)
            if isinstance(layer, Jumping):
                total += 2 * layer.outputs * len(layer.parts)
        return total

    def initial(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Parameters (P,) and running statistics (R,) of a fresh model, float64.

        Weights and biases U(±1/√fan_in), as `torch.nn.Linear` and PyG's `Linear`; norms
        weight 1, bias 0, running mean 0, running variance 1.
        """
        parts = []
        for layer in self.leaves:
            if isinstance(layer, Linear):
                bound = 1 / math.sqrt(layer.inputs)
                root = ("root",) if isinstance(layer, Convolution) else ()
                for name in ("weight", "bias", *root):
                    shape = self.shapes[f"{layer.name}.{name}"]
                    parts.append(rng.uniform(-bound, bound, math.prod(shape)))
            elif isinstance(layer, BatchNorm | GroupNorm):
                parts += [np.ones(layer.channels), np.zeros(layer.channels)]
        values = np.zeros(self.size)
        flat = np.concatenate(parts)
        values[: flat.size] = flat
        running = [np.full(s[0], float(name.endswith("var"))) for name, s in self.running.items()]
        return values, np.concatenate([np.empty(0), *running])

    @staticmethod
    def views(flat: Tensor, shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
        """Views (S, *shape) of a (S, ...) tensor in which the named shapes lie one by one."""
        views, start = {}, 0
        for name, shape in shapes.items():
            size = math.prod(shape)
            views[name] = flat[:, start : start + size].unflatten(1, shape)
            start += size
        return views


class Stack:
    """The parameters `values` (S, P) and running statistics `running` (S, R) of S models, with a
    view (S, ...) per name in `self[name]`."""

    def __init__(self, layout: Layout, values: Tensor, running: Tensor | None = None):
        self.layout = layout
        self.values = values
        self.running = running
        self._views = layout.views(values, layout.shapes)
        if running is not None:
            self._views |= layout.views(running, layout.running)

    def __getitem__(self, name: str) -> Tensor:
        return self._views[name]

    def __len__(self) -> int:
        return self.values.shape[0]

    @cached_property
    def rows(self) -> Tensor:
        """The parameters as rows of the first layer's width: (S·P/width, width)."""
        return self.values.view(-1, self.layout.row)

    @cached_property
    def members(self) -> tuple["Stack", ...]:
        """Each member as a stack of one (sharing memory)."""
        if len(self) == 1:
            return (self,)
        values = self.values.split(1)
        running = [None] * len(self) if self.running is None else self.running.split(1)
        return tuple(Stack(self.layout, *one) for one in zip(values, running, strict=True))

    def gradients(self, dtype: torch.dtype | None = None) -> "Stack":
        """A stack of zeros in the shape of the parameters."""
        return Stack(self.layout, torch.zeros_like(self.values, dtype=dtype))

    def arrays(self) -> dict[str, np.ndarray]:
        """Parameters of a stack of one, by name, as `torch.nn` shapes them: weights (outputs,
        inputs), or (groups, outputs, inputs) for several groups; vectors (channels,)."""
        arrays = {}
        for name, view in self._views.items():
            array = view[0].detach().cpu().numpy()
            if array.ndim == 3:
                array = array.transpose(0, 2, 1)
            array = array.squeeze(-1) if array.ndim == 2 else array
            arrays[name] = np.array(array[0] if array.ndim == 3 and len(array) == 1 else array)
        return arrays

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Overwrite some of the parameters and running statistics of a stack of one, named and
        shaped as `arrays` gives them. Raises `GraphDPError` for those that the network lacks."""
        own = self.arrays()
        for name, array in arrays.items():
            if name not in own or own[name].shape != array.shape:
                raise GraphDPError(f"initial {name} of shape {array.shape} is not in the network")
            view, tensor = self[name][0], torch.from_numpy(array).to(self.values)
            view.copy_((tensor.mT if view.ndim == 3 else tensor).reshape(view.shape))
