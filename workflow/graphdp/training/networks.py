"""The networks of GAP, ProGAP and GraphSAGE as sequences of layers.

A network is a short sequence of layers, the first of which may be branches side by side. Nothing
here holds parameters: where these lie is `graphdp.training.layout`, what a layer computes with them
`graphdp.training.layers`.

Sources: Sajadmanesh et al., GAP (USENIX Security 2023), sections 4 and 7.3; Sajadmanesh and
Gatica-Perez, ProGAP (WSDM 2024), sections 4.1 and 5.3.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
    `SAGEConv(aggr="sum", root_weight=True)`, or aggr="mean" with `mean` (0 over no neighbours). The
    parameter "root" is V. Rows are all nodes."""

    mean: bool = False


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


@dataclass(frozen=True)
class Jumping:
    """Sequences of layers, each on the output of the one before; the outputs of all concatenated:
    a Jumping Knowledge network's "cat" (Xu et al., ICML 2018). Each ends in a SELU of its own name,
    whose output lasts."""

    parts: tuple[tuple["Layer", ...], ...]
    outputs: int  # of each part


Layer = Linear | BatchNorm | GroupNorm | Dropout | Selu | Normalise | Branches | Jumping


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
        shape = self.in_features, self.hidden, self.layers, self.classes
        return tuple(_perceptron(*shape, self.batch_norm, self.dropout))


@dataclass(frozen=True)
class Encoder:
    """GAP's encoder: an MLP of `layers` layers to `hidden` units, rows L2-normalised (this is the
    embedding), then (batch norm,) SELU and a linear head for the pre-training.

    GAP section 4.2, equations 3 to 5; section 7.3: 2 layers, 16 hidden units. That rows are
    normalised before the head, and SELU, which equation 3 does not have, are the authors' code's.
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

    GAP section 4.4, equations 10 to 12; section 7.3: 1 base layer, 1 head layer. That rows of the
    concatenation are normalised is the authors' code's.
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

    Dropout, if any, is between norm and SELU in H⁰ and Hᴷ, and after the SELU of the layers
    between, as in the authors' code (core/models/sage.py: PyG's `BasicGNN` and a last layer).

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
            name, last = f"conv{k}_norm", k == self.mp_layers - 1
            layers += _activation(self.batch_norm, self.dropout if last else 0.0, name, width)
            layers += [Dropout(name, self.dropout)] if self.dropout and not last else []
        return (*layers, Linear("head", width, self.classes))


@dataclass(frozen=True)
class JumpingSage:
    """GraphSAGE as ProGAP's baselines have it: a linear layer, `mp_layers` = K message-passing
    layers, Jumping Knowledge, a linear head.

        H⁰ = norm(selu(W X + b))
        Hᵏ = selu(norm(unit(W_k agg(Hᵏ⁻¹) + b_k + V_k Hᵏ⁻¹)))   k = 1..K
        logits = head(selu(norm(J [H¹ .. Hᴷ] + c)))

    agg: the mean over the in-neighbours, and batch norm; or without `batch_norm` (node level) the
    sum, and group norm with one group. ProGAP, sections 5.2 and 5.3, has one layer before, one
    after, and Jumping Knowledge. The rest is its code's (sisaman/ProGAP, core/modules/gnn.py,
    core/nn/gnn.py, core/methods/gnn): PyG's `GraphSAGE(jk="cat", normalize=True)`, SELU before the
    norm in the first layer alone, norm and SELU after the linear map of the concatenation.
    """

    in_features: int
    hidden: int
    mp_layers: int
    classes: int
    batch_norm: bool

    def __post_init__(self):
        _check(self, mp_layers=1)

    @property
    def sequence(self) -> tuple[Layer, ...]:
        width, norm = self.hidden, BatchNorm if self.batch_norm else GroupNorm
        return (
            Linear("base0", self.in_features, width),
            Selu("base0_norm"),
            norm("base0_norm", width),
            Jumping(tuple(self._convolution(k) for k in range(self.mp_layers)), width),
            Linear("jump", width * self.mp_layers, width, absorbed=self.batch_norm),
            norm("jump_norm", width, *["jump.bias"] * self.batch_norm),
            Selu("jump_norm"),
            Linear("head", width, self.classes),
        )

    def _convolution(self, k: int) -> tuple[Layer, ...]:
        norm = BatchNorm if self.batch_norm else GroupNorm
        return (
            Convolution(f"conv{k}", self.hidden, self.hidden, mean=self.batch_norm),
            Normalise(),
            norm(f"conv{k}_norm", self.hidden),
            Selu(f"conv{k}_norm"),
        )


Network = MLP | Encoder | HopClassifier | StageClassifier | Sage | JumpingSage


def leaves(layers: Sequence[Layer]) -> Iterator[Layer]:
    """The layers in order, one by one: those of branches follow each other."""
    for layer in layers:
        if isinstance(layer, Branches | Jumping):
            for part in layer.branches if isinstance(layer, Branches) else layer.parts:
                yield from leaves(part)
        else:
            yield layer
