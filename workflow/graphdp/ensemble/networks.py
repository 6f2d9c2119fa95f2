"""The networks of GAP, ProGAP and GraphSAGE, and their parameters as blocks of stacked models.

A network is a short sequence of layers, the first of which may be branches side by side. The
`Layout` gives every parameter its place in a flat vector of length P, so a stack of S models is one
(S, P) tensor: noise, clipping and Adam act on all parameters of all members at once, and each layer
works on views of it.

Sources: Sajadmanesh et al., GAP (USENIX Security 2023), sections 4 and 7.3; Sajadmanesh and
Gatica-Perez, ProGAP (WSDM 2024), sections 4.1 and 5.3.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphdp.errors import GraphDPError


@dataclass(frozen=True)
class Linear:
    """`groups` linear maps side by side, outputs concatenated (one group: a plain linear layer).

    With `absorbed`, a batch norm follows directly: it subtracts the bias again, so the bias has
    gradient zero and enters the running mean only.
    """

    name: str
    inputs: int
    outputs: int
    groups: int = 1
    absorbed: bool = False


@dataclass(frozen=True)
class NormalisedLinear(Linear):
    """A linear map (one group) of rows divided by their L2 norms: `Normalise` and `Linear` in one,
    (W x) / ‖x‖ + b, which never forms the normalised rows."""


@dataclass(frozen=True)
class Convolution(Linear):
    """GraphSAGE's layer (one group), W Σ h_u + b + V h_v over the in-neighbours u of node v: PyG's
    `SAGEConv(aggr="sum", root_weight=True)`. The parameter "root" is V. Rows are all nodes."""


@dataclass(frozen=True)
class BatchNorm:
    """`torch.nn.BatchNorm1d` (eps 1e-5, momentum 0.1); `bias` names the bias that it absorbs."""

    name: str
    channels: int
    bias: str | None = None


@dataclass(frozen=True)
class GroupNorm:
    """`torch.nn.GroupNorm` with one group (eps 1e-5): each row by its own mean and variance over
    the channels, then a weight and a bias per channel. It mixes no samples."""

    name: str
    channels: int


@dataclass(frozen=True)
class Selu:
    """`torch.nn.SELU`. `name` tells apart those whose outputs are needed at the same time."""

    name: str


@dataclass(frozen=True)
class Dropout:
    """`torch.nn.Dropout`: in training every entry is 0 with probability `rate`, and the others are
    divided by 1 - `rate`."""

    name: str
    rate: float


@dataclass(frozen=True)
class Normalise:
    """Each row divided by its L2 norm, as `torch.nn.functional.normalize`."""


@dataclass(frozen=True)
class Branches:
    """Sequences of layers side by side, each with an input of its own; outputs concatenated.

    A branch without layers passes its input on. Stands only at the beginning of a network.
    """

    branches: tuple[tuple["Layer", ...], ...]
    outputs: int  # of each branch


Layer = Linear | BatchNorm | GroupNorm | Dropout | Selu | Normalise | Branches


def _activation(
    batch_norm: bool, dropout: float, name: str, channels: int, bias: str | None = None
) -> list[Layer]:
    norm: list[Layer] = [BatchNorm(name, channels, bias)] if batch_norm else []
    dropped: list[Layer] = [Dropout(name, dropout)] if dropout else []
    return [*norm, *dropped, Selu(name)]


def _perceptron(
    inputs: int, hidden: int, depth: int, outputs: int, norm: bool, dropout: float
) -> list[Layer]:
    """`depth` linear layers, all but the last followed by (batch norm, dropout and) SELU."""
    layers: list[Layer] = []
    for i in range(depth - 1):
        layers.append(Linear(f"linear{i}", inputs, hidden, absorbed=norm))
        layers += _activation(norm, dropout, f"norm{i}", hidden, f"linear{i}.bias")
        inputs = hidden
    return [*layers, Linear(f"linear{depth - 1}", inputs, outputs)]


def _head(width: int, classes: int, norm: bool, dropout: float) -> list[Layer]:
    """Rows L2-normalised, (batch norm, dropout,) SELU and a linear layer to the classes."""
    activation = _activation(norm, dropout, "head_norm", width)
    return [Normalise(), *activation, Linear("head", width, classes)]


def _check(network: "Network", **least: int) -> None:
    for name, value in {"in_features": 1, "hidden": 1, "classes": 2, **least}.items():
        if getattr(network, name) < value:
            kind = type(network).__name__
            raise GraphDPError(f"{name} of {kind} is {getattr(network, name)}: at least {value}")
    if not 0 <= getattr(network, "dropout", 0.0) < 1:
        raise GraphDPError(f"dropout is {network.dropout}: at least 0 and below 1")


@dataclass(frozen=True)
class MLP:
    """GAP's graph-free baseline: `layers` linear layers with (batch norm and) SELU in between.

    GAP section 7.3: 3 layers, 16 hidden units; no batch norm at node level.
    """

    in_features: int
    hidden: int
    layers: int
    classes: int
    batch_norm: bool
    dropout: float = 0.0

    def __post_init__(self):
        _check(self, layers=1)

    @property
    def sequence(self) -> tuple[Layer, ...]:
        return tuple(
            _perceptron(
                self.in_features,
                self.hidden,
                self.layers,
                self.classes,
                self.batch_norm,
                self.dropout,
            )
        )


@dataclass(frozen=True)
class Encoder:
    """GAP's encoder: an MLP of `layers` layers to `hidden` units, rows L2-normalised (this is the
    embedding), then (batch norm,) SELU and a linear head for the pre-training.

    GAP section 4.1, equation 4; section 7.3: 2 layers, 16 hidden units.
    """

    in_features: int
    hidden: int
    layers: int
    classes: int
    batch_norm: bool
    dropout: float = 0.0

    def __post_init__(self):
        _check(self, layers=1)

    @property
    def sequence(self) -> tuple[Layer, ...]:
        shape = self.in_features, self.hidden, self.layers, self.hidden
        mlp = _perceptron(*shape, self.batch_norm, self.dropout)
        return (*mlp, *_head(self.hidden, self.classes, self.batch_norm, self.dropout))


@dataclass(frozen=True)
class HopClassifier:
    """GAP's classifier: one linear base per hop 0..`hops`, outputs concatenated, rows of the
    concatenation L2-normalised, (batch norm,) SELU, linear head. Its input is (n, hops + 1, d).

    GAP section 4.3, equations 10 to 12; section 7.3: 1 base layer, 1 head layer.
    """

    hops: int
    in_features: int
    hidden: int
    classes: int
    batch_norm: bool
    dropout: float = 0.0

    def __post_init__(self):
        _check(self, hops=0)

    @property
    def sequence(self) -> tuple[Layer, ...]:
        bases = Linear("bases", self.in_features, self.hidden, groups=self.hops + 1)
        width = self.hidden * (self.hops + 1)
        return (bases, *_head(width, self.classes, self.batch_norm, self.dropout))


@dataclass(frozen=True)
class StageClassifier:
    """ProGAP's submodel M_s of stage s: `base_layers` linear layers per base MLP 0..s, each with
    SELU and batch or group norm; the bases' outputs concatenated (JK), rows L2-normalised, and
    a linear head. Base 0 reads the features, base k ≥ 1 the noisy sums of stage k.

    batch_norm: group norm with one group instead, where it is False (node level). layerwise: the
    bases before the last are frozen, and read as their outputs (n, hidden).

    ProGAP, equations 9 and 10 and section 5.3. The paper leaves open the order of SELU and norm and
    the normalisation before the head: both are its code's (sisaman/ProGAP, core/nn/mlp.py and
    core/modules/prog.py). GAP has its norms before SELU.
    """

    stage: int
    in_features: int
    hidden: int
    base_layers: int
    classes: int
    batch_norm: bool
    layerwise: bool = False

    def __post_init__(self):
        _check(self, stage=0, base_layers=1)

    @property
    def reads_features(self) -> bool:
        """Whether the first input is the features; if not, all are matrices (n, hidden)."""
        return self.stage == 0 or not self.layerwise

    @property
    def aggregates(self) -> int:
        """Number of inputs (n, hidden), besides the features if those are read."""
        return self.stage + (not self.reads_features)

    @property
    def sequence(self) -> tuple[Layer, ...]:
        frozen = self.stage if self.layerwise else 0
        bases = [self._base(k) if k >= frozen else () for k in range(self.stage + 1)]
        width = self.hidden * len(bases)
        head = NormalisedLinear("head", width, self.classes)
        return (Branches(tuple(bases), self.hidden), head)

    def _base(self, k: int) -> tuple[Layer, ...]:
        layers: list[Layer] = []
        inputs = self.in_features if k == 0 else self.hidden
        norm = BatchNorm if self.batch_norm else GroupNorm
        for i in range(self.base_layers):
            name = f"base{k}_norm{i}"
            layers.append(Linear(f"base{k}_linear{i}", inputs, self.hidden))
            layers += [Selu(name), norm(name, self.hidden)]
            inputs = self.hidden
        return tuple(layers)


@dataclass(frozen=True)
class Sage:
    """GraphSAGE: two linear layers, `mp_layers` = K message-passing layers, a linear head.

        H⁰ = base(X)                                          each layer (norm, dropout,) SELU
        Hᵏ = selu(norm(unit(W_k Aᵀ Hᵏ⁻¹ + b_k + V_k Hᵏ⁻¹)))   k = 1..K; unit: rows over their norm
        logits = head(Hᴷ)

    A[u, v] = 1 when u sends to v. GAP, section 7.2, "Model implementation details"; the layer is
    PyG's `SAGEConv(aggr="sum", normalize=True, root_weight=True)`, as in the authors' code. The
    paper leaves open the order of norm and SELU (norm first here, as in its MLPs).
    """

    in_features: int
    hidden: int
    mp_layers: int
    classes: int
    batch_norm: bool
    dropout: float = 0.0

    def __post_init__(self):
        _check(self, mp_layers=1)

    @property
    def sequence(self) -> tuple[Layer, ...]:
        width, layers, inputs = self.hidden, [], self.in_features
        for name in ("base0", "base1"):
            layers.append(Linear(name, inputs, width, absorbed=self.batch_norm))
            layers += _activation(
                self.batch_norm, self.dropout, f"{name}_norm", width, f"{name}.bias"
            )
            inputs = width
        for k in range(self.mp_layers):
            layers += [Convolution(f"conv{k}", width, width), Normalise()]
            layers += _activation(self.batch_norm, self.dropout, f"conv{k}_norm", width)
        return (*layers, Linear("head", width, self.classes))


Network = MLP | Encoder | HopClassifier | StageClassifier | Sage


def leaves(layers: Sequence[Layer]) -> Iterator[Layer]:
    """The layers in order, one by one: those of branches follow each other."""
    for layer in layers:
        if isinstance(layer, Branches):
            for branch in layer.branches:
                yield from leaves(branch)
        else:
            yield layer


class Layout:
    """Where each parameter of a network lies in the flat vector.

    The first layer's weight comes first and the length is a multiple of its output width: so the
    (S, P) tensor is also a matrix whose rows are the rows of all members' first weights, and sparse
    features look them up there without a copy. Weights are (groups, inputs, outputs).

    neighbours: the graph that convolutions sum over (`graphdp.ensemble.inputs.Neighbours`), whose
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

    def gradients(self) -> "Stack":
        """A stack of zeros in the shape of the parameters."""
        return Stack(self.layout, torch.zeros_like(self.values))

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
