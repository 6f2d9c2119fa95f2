"""The two networks of DPDGC and how one model of each is trained (Chien et al., NeurIPS 2023).

    DP-Emb (equation 2):   Ŷ = σ(A W + b) R         W (n, h), b (h,) trained, R (h, C) fixed
    classifier (LINKX):    p = MLP_X(X);  q = MLP_W(σ(p ‖ Z)) + p + Z;  Ŷ = σ(q) H

The first layer of DP-Emb reads rows of the adjacency matrix. A row is never dense and the gradient
of a sample's loss by W, the outer product of its sparse row a and a vector g of length h, is never
formed: its norm is ‖a‖·‖g‖ (Goodfellow 2015), and the clipped gradients of a batch sum to A_Bᵀ G
in O(entries · h). The noise on W is dense by nature and so costs O(n · h) a step, as does Adam.

Members of a block are trained one after the other: with n · h parameters a step is long enough to
gain nothing from stacking, and a model's result cannot depend on its company.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from graphdp.ensemble.members import Fitted, check_checkpoint, like_of
from graphdp.ensemble.rows import DenseRows, SparseBatch, SparseRows
from graphdp.ensemble.sampling import PoissonRounds
from graphdp.errors import GraphDPError
from graphdp.progress import progress
from graphdp.rng import generator, stream_seed

PREDICTION_ROWS = 8192  # nodes predicted at a time
#: Sees the parameters (P,) and the noisy sum of clipped gradients (P,) of a round; for audits.
Observer = Callable[[Tensor, Tensor], None]
_NORM_EPS = 1e-6  # as in Opacus: keeps the quotient finite, and rounds the clipping factor down


# -------------------------------------------------------------------------------------- training


@dataclass(frozen=True)
class Rounds:
    """How a phase is trained with Adam.

    sampling: "full" (all training nodes in every step) or "shuffle" (every node once an epoch, in
    batches), both without noise; "poisson" or "fixed" (without replacement) samples of
    (expected) size batch_size, exactly `steps` of them, with sums of gradients clipped to norm
    max_grad_norm and noise of standard deviation noise_std, divided by batch_size.
    """

    sampling: Literal["full", "shuffle", "poisson", "fixed"]
    epochs: int
    batch_size: int = 0
    sampling_rate: float = 1.0
    steps: int = 0
    max_grad_norm: float = math.inf
    noise_std: float = 0.0

    @property
    def private(self) -> bool:
        return self.sampling in ("poisson", "fixed")

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise GraphDPError(f"epochs is {self.epochs}: at least 1")
        if self.sampling != "full" and self.batch_size < 1:
            raise GraphDPError(f"batch_size is {self.batch_size}: at least 1")
        if self.private and not (self.noise_std > 0 and math.isfinite(self.noise_std)):
            raise GraphDPError(
                f"noise of scale {self.noise_std} with a finite ε: calibrate the noise"
            )
        if self.private and not (self.steps > 0 and 0 < self.max_grad_norm < math.inf):
            raise GraphDPError("DP training needs positive steps and max_grad_norm")
        if not self.private and self.noise_std != 0:
            raise GraphDPError(f"noise of scale {self.noise_std} would not be used")


def batches(rounds: Rounds, num_train: int, rng: np.random.Generator) -> Iterator[list[np.ndarray]]:
    """The batches of each epoch: positions among the training nodes, int64.

    Epoch i of E private ones ends after round floor(i · steps / E).
    """
    poisson = PoissonRounds(num_train, rounds.sampling_rate, rng) if rounds.private else None
    for epoch in range(rounds.epochs):
        if rounds.private:
            first, last = (e * rounds.steps // rounds.epochs for e in (epoch, epoch + 1))
            if rounds.sampling == "poisson":
                yield [poisson.take(1)[1] for _ in range(first, last)]
            else:
                size = min(rounds.batch_size, num_train)
                yield [rng.choice(num_train, size, replace=False) for _ in range(first, last)]
        elif rounds.sampling == "full":
            yield [np.arange(num_train)]
        else:
            order = rng.permutation(num_train)
            yield np.array_split(order, range(rounds.batch_size, num_train, rounds.batch_size))


def descend(
    values: Tensor,
    add_gradient: Callable[[Tensor, Tensor, float | None], None],
    rounds: Rounds,
    train: np.ndarray,
    learning_rate: float,
    stream: tuple,
    *,
    weight_decay: float = 0.0,
    after_step: Callable[[], None] = lambda: None,
    after_epoch: Callable[[], None] = lambda: None,
    observe: Observer | None = None,
    label: str = "",
) -> int:
    """Train the parameters `values` (P,) in place; returns the number of noisy rounds.

    add_gradient(nodes, gradients, clip): adds to `gradients` (P,) the sum over `nodes` of the
    gradients of their own losses, each clipped to norm `clip` unless that is None.
    train: int64 training nodes, distinct. stream: "sampling" and "noise" are appended to it.
    weight_decay: λ, of which λ times the parameters is added to each step's (noisy) mean gradient.
    observe: called in every noisy round before its step is taken.
    """
    if np.unique(train).size != train.size:
        # A node listed twice would contribute twice the clip to a step.
        raise GraphDPError(f"train nodes of {stream} are not distinct")
    nodes = torch.tensor(train, device=values.device)
    adam = torch.optim.Adam([values], learning_rate, weight_decay=weight_decay, fused=True)
    # Trainings that differ in the scale of their noise alone must not share it.
    noise = torch.Generator(values.device).manual_seed(
        stream_seed(*stream, "noise", repr(rounds.noise_std))
    )
    gradients, done = torch.empty_like(values), 0
    values.grad = gradients
    clip = rounds.max_grad_norm if rounds.private else None
    epochs = batches(rounds, train.size, generator(*stream, "sampling"))
    for epoch in progress(epochs, label, rounds.epochs) if label else epochs:
        for batch in epoch:
            if rounds.private:
                gradients.normal_(0.0, rounds.noise_std, generator=noise)
                done += 1
            else:
                gradients.zero_()
            if batch.size:  # a Poisson sample may be empty: then the step is noise alone
                chosen = nodes[torch.from_numpy(batch).to(values.device)]
                add_gradient(chosen, gradients, clip)
            if observe and rounds.private:
                observe(values, gradients)
            size = rounds.batch_size if rounds.private else batch.size
            gradients.div_(size)
            adam.step()
            after_step()
        after_epoch()
    if not bool(torch.isfinite(values).all()):
        raise GraphDPError("parameters became infinite: scale the features or lower the rate")
    assert done == (rounds.steps if rounds.private else 0), "rounds executed must be accounted"
    return done


def clipping_factors(squared_norms: Tensor, clip: float) -> Tensor:
    """min(1, C / ‖gradient‖) per sample, and 0 for a norm that overflowed."""
    norms = squared_norms.sqrt()
    return (clip / (norms + _NORM_EPS)).clamp(max=1.0).mul(norms.isfinite()).nan_to_num(0.0)


def dropped(x: Tensor, rate: float, draw: torch.Generator) -> Tensor:
    """Dropout: every entry is 0 with probability `rate`, the others are divided by 1 - rate."""
    kept = torch.rand(x.shape, generator=draw, dtype=x.dtype, device=x.device)
    return x * (kept >= rate) / (1 - rate)


def _views(values: Tensor, shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Views of a flat vector in which the named shapes lie one after the other."""
    views, start = {}, 0
    for name, shape in shapes.items():
        size = math.prod(shape)
        views[name] = values[start : start + size].view(shape)
        start += size
    return views


# ---------------------------------------------------------------------------------------- DP-Emb


@dataclass(frozen=True)
class Embedding:
    """A trained DP-Emb: W float32 (n, h), b float32 (h,), and the noisy rounds that were run."""

    weight: np.ndarray
    bias: np.ndarray
    rounds: int


class EmbeddingGradient:
    """Gradients of DP-Emb's cross-entropy by its parameters, which lie one after the other in
    `values`: W and b, and with `batch_norm` (without privacy only) those of a norm before σ.

    head: R (h, C) and its bias (C,), both fixed. labels_shift: in a batch the rows with entries
    meet the labels in front and the empty rows those behind, whoever's labels they are. dropout,
    with `batch_norm` only: its rate between the norm and σ, and what draws it.
    """

    def __init__(
        self,
        rows: SparseRows,
        labels: Tensor,
        head: tuple[Tensor, Tensor],
        values: Tensor,
        batch_norm: bool = False,
        labels_shift: bool = False,
        dropout: tuple[float, torch.Generator] | None = None,
    ):
        self.rows, self.labels, self.head = rows, labels, head
        self.labels_shift, self.dropout = labels_shift, dropout
        self.shapes = self.parameters(len(rows.counts), head[0].shape[0], batch_norm)
        self.views = _views(values, self.shapes)
        hidden = head[0].shape[0]
        self.running = (values.new_zeros(hidden), values.new_ones(hidden)) if batch_norm else None

    @staticmethod
    def parameters(nodes: int, hidden: int, batch_norm: bool) -> dict[str, tuple[int, ...]]:
        """Name -> shape of every parameter, in their order in the flat vector."""
        norm = {"norm.weight": (hidden,), "norm.bias": (hidden,)} if batch_norm else {}
        return {"weight": (nodes, hidden), "bias": (hidden,)} | norm

    def hidden(self, nodes: Tensor) -> tuple[SparseBatch, Tensor]:
        """Rows of `nodes` (B,), in the order of their labels, and A W + b for them (B, h)."""
        if self.labels_shift:
            nodes = nodes[(self.rows.counts[nodes] == 0).sort(stable=True).indices]
        batch = self.rows.take(nodes)
        return batch, batch.times(self.views["weight"]).add_(self.views["bias"])

    def scores(self, hidden: Tensor, training: bool) -> Tensor:
        """Class scores (B, C) of A W + b."""
        if self.running:
            scale, shift = self.views["norm.weight"], self.views["norm.bias"]
            # torch refuses statistics of a single row; keep the running ones then.
            own = training and len(hidden) > 1
            hidden = F.batch_norm(hidden, *self.running, scale, shift, own)
            if training and self.dropout:
                hidden = dropped(hidden, *self.dropout)
        return torch.addmm(self.head[1], F.selu(hidden), self.head[0])

    def classes(self, nodes: Tensor) -> Tensor:
        """Predicted classes of `nodes`, int64."""
        return self.scores(self.hidden(nodes)[1], training=False).argmax(1)

    def add(self, nodes: Tensor, gradients: Tensor, clip: float | None) -> None:
        """As `descend` needs it."""
        batch, hidden = self.hidden(nodes)
        into = _views(gradients, self.shapes)
        if self.running:
            assert clip is None, "batch norm mixes samples"
            g = self._through_norm(hidden, nodes, into)
        else:
            g = torch.softmax(self.scores(hidden, training=True), 1)
            g[torch.arange(len(nodes), device=g.device), self.labels[nodes]] -= 1
            g = g @ self.head[0].T
            g = torch.ops.aten.elu_backward(g, *_SELU, False, hidden)
        if clip is not None:
            # ‖(a gᵀ, g)‖² = (‖a‖² + 1) ‖g‖²
            norms = (batch.squared_norms() + 1) * g.square().sum(1)
            g *= clipping_factors(norms, clip)[:, None]
        batch.add_gradient(into["weight"], g)
        into["bias"].add_(g.sum(0))

    def _through_norm(self, hidden: Tensor, nodes: Tensor, into: dict[str, Tensor]) -> Tensor:
        """The gradient at A W + b (B, h); adds those of the norm."""
        names = ("norm.weight", "norm.bias")
        inputs = [hidden, *(self.views[name] for name in names)]
        for tensor in inputs:
            tensor.requires_grad_(True)
        scores = self.scores(hidden, training=True)
        loss = F.cross_entropy(scores, self.labels[nodes], reduction="sum")
        g, *found = torch.autograd.grad(loss, inputs)
        for name, gradient in zip(names, found, strict=True):
            self.views[name].requires_grad_(False)
            into[name].add_(gradient)
        return g


# SELU as ELU: alpha, scale, input scale.
_SELU = (1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1.0)


def train_embedding(
    indptr: np.ndarray,
    indices: np.ndarray,
    labels: np.ndarray,
    train: np.ndarray,
    val: np.ndarray,
    rounds: Rounds,
    *,
    head: tuple[np.ndarray, np.ndarray],
    learning_rate: float,
    stream: tuple,
    normalised: bool,
    batch_norm: bool = False,
    labels_shift: bool = False,
    dropout: float = 0.0,
    weight_decay: float = 0.0,
    checkpoint: str = "last",
    device: str = "auto",
    label: str = "",
    dtype: torch.dtype = torch.float32,
    observe: Observer | None = None,
) -> Embedding:
    """Train DP-Emb on the rows of A, the lists of the nodes (Algorithm 2, line 13).

    indptr, indices: CSR of A, int64 (n + 1,) and integers (m,); row i lists the nodes that i
    points to. labels: int64 (n,). train, val: int64 nodes. head: R (h, C) and its bias (C,).
    normalised: keep the rows of W at norm c = 1 from the start and after every step; being a
    function of the noisy weights alone, that is post-processing. batch_norm, labels_shift and
    dropout (a rate): as `EmbeddingGradient`. weight_decay, observe: as `descend`. checkpoint:
    "last", or "best_validation", which reads the edges and labels of the validation nodes without
    noise.

    stream: "init", "sampling", "noise" and "dropout" are appended to it. Equal arguments give equal
    results on the same kind of device. Raises GraphDPError on arguments that do not fit together.
    """
    check_checkpoint(checkpoint)
    if rounds.private and batch_norm:
        raise GraphDPError("batch norm mixes samples: leave it out of DP training")
    if dropout and not batch_norm:
        raise GraphDPError("dropout of the embedding goes with its batch norm")
    nodes, hidden = len(indptr) - 1, len(head[0])
    like = like_of(device, dtype)
    # As torch.nn.Linear: U(±1/√fan_in), for the weight and the bias.
    initial = generator(*stream, "init").uniform(-1, 1, (nodes + 1) * hidden) / math.sqrt(nodes)
    if batch_norm:
        initial = np.concatenate([initial, np.ones(hidden), np.zeros(hidden)])
    values = torch.from_numpy(initial).to(like)
    draw = torch.Generator(like.device).manual_seed(stream_seed(*stream, "dropout"))
    network = EmbeddingGradient(
        SparseRows(indptr, indices, None, like),
        torch.tensor(labels).to(like.device),
        tuple(torch.from_numpy(part).to(like) for part in head),
        values,
        batch_norm,
        labels_shift,
        (dropout, draw) if dropout else None,
    )
    weight = network.views["weight"]

    def normalise() -> None:
        if normalised:
            # A row of zeros (never met after a random start) stays what it is.
            weight.div_(torch.linalg.vector_norm(weight, dim=1, keepdim=True).clamp_min_(1e-30))

    kept, best = values, -1

    def keep_best() -> None:
        nonlocal kept, best
        correct = sum(
            int((network.classes(part) == network.labels[part]).sum())
            for part in torch.tensor(val).to(like.device).split(PREDICTION_ROWS)
        )
        if correct > best:
            kept, best = values.clone(), correct

    normalise()
    done = descend(
        values,
        network.add,
        rounds,
        train,
        learning_rate,
        stream,
        weight_decay=weight_decay,
        after_step=normalise,
        after_epoch=keep_best if checkpoint == "best_validation" else lambda: None,
        observe=observe,
        label=label,
    )
    arrays = {name: view.cpu().numpy() for name, view in _views(kept, network.shapes).items()}
    return Embedding(np.array(arrays["weight"]), np.array(arrays["bias"]), done)


# ------------------------------------------------------------------------------------ classifier


@dataclass(frozen=True)
class Linkx:
    """The classifier's shape: p = MLP_X(X) of `feature_layers`, q = MLP_W(σ(p ‖ Z)) of `layers`,
    Ŷ = σ(q + p + Z) H. With `batch_norm`, batch norm precedes every σ, and dropout follows it.
    """

    features: int
    hidden: int
    classes: int
    feature_layers: int
    layers: int
    batch_norm: bool
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if min(self.features, self.hidden, self.feature_layers, self.layers) < 1:
            raise GraphDPError("the classifier needs features, hidden units and layers")
        if not 0 <= self.dropout < 1:
            raise GraphDPError(f"dropout is {self.dropout}: at least 0 and below 1")

    @property
    def linears(self) -> dict[str, tuple[int, int]]:
        """Name -> (inputs, outputs) of every linear layer; the first one reads X."""
        found = {}
        for i in range(self.feature_layers):
            found[f"features{i}"] = (self.hidden if i else self.features, self.hidden)
        for i in range(self.layers):
            found[f"joint{i}"] = (self.hidden if i else 2 * self.hidden, self.hidden)
        return found | {"head": (self.hidden, self.classes)}

    @property
    def norms(self) -> dict[str, int]:
        """Name -> channels of every batch norm."""
        if not self.batch_norm:
            return {}
        found = {f"features{i}": self.hidden for i in range(self.feature_layers - 1)}
        found["both"] = 2 * self.hidden
        found |= {f"joint{i}": self.hidden for i in range(self.layers - 1)}
        return found | {"head": self.hidden}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name -> shape of every parameter, in their order in the flat vector."""
        found: dict[str, tuple[int, ...]] = {}
        for name, (inputs, outputs) in self.linears.items():
            found[f"{name}.weight"], found[f"{name}.bias"] = (inputs, outputs), (outputs,)
        for name, channels in self.norms.items():
            found[f"norm {name}.weight"] = found[f"norm {name}.bias"] = (channels,)
        return found

    def initial(self, rng: np.random.Generator) -> np.ndarray:
        """The parameters of a fresh model, as torch.nn draws them: float64 (P,)."""
        parts = []
        for inputs, outputs in self.linears.values():
            parts.append(rng.uniform(-1, 1, (inputs + 1) * outputs) / math.sqrt(inputs))
        for channels in self.norms.values():
            parts += [np.ones(channels), np.zeros(channels)]
        return np.concatenate(parts)


class Classifier:
    """A classifier with its parameters `values` (P,) and, for batch norm, running statistics."""

    def __init__(self, shape: Linkx, x: SparseRows | DenseRows, z: Tensor, values: Tensor):
        self.shape, self.x, self.z = shape, x, z
        self.views = _views(values, shape.shapes)
        self.running = {
            name: (values.new_zeros(channels), values.new_ones(channels))
            for name, channels in shape.norms.items()
        }

    def forward(
        self, nodes: Tensor, dropout: torch.Generator | None, training: bool
    ) -> tuple[Tensor, list[tuple[str, Any, Tensor]]]:
        """Class scores (B, C), and of every linear layer its name, input and output.

        The input of the first layer is a batch of rows, of the others a tensor (B, inputs).
        """
        tape: list[tuple[str, Any, Tensor]] = []

        def linear(name: str, x: Any) -> Tensor:
            weight = self.views[f"{name}.weight"]
            product = x @ weight if isinstance(x, Tensor) else x.times(weight)
            y = product + self.views[f"{name}.bias"]
            if not tape:  # every later output depends on the first one
                y.requires_grad_(training)
            tape.append((name, x, y))
            return y

        def activate(name: str, x: Tensor) -> Tensor:
            if self.shape.batch_norm:
                scale, shift = (self.views[f"norm {name}.{part}"] for part in ("weight", "bias"))
                # torch refuses statistics of a single row; keep the running ones then.
                own = training and len(x) > 1
                x = F.batch_norm(x, *self.running[name], scale, shift, own)
            if training and self.shape.dropout:
                x = dropped(x, self.shape.dropout, dropout)
            return F.selu(x)

        def perceptron(name: str, x: Any, depth: int) -> Tensor:
            for i in range(depth - 1):
                x = activate(f"{name}{i}", linear(f"{name}{i}", x))
            return linear(f"{name}{depth - 1}", x)

        z = self.z[nodes]
        p = perceptron("features", self.x.take(nodes), self.shape.feature_layers)
        both = activate("both", torch.cat([p, z], 1))
        q = perceptron("joint", both, self.shape.layers) + p + z
        return linear("head", activate("head", q)), tape

    def gradient(
        self, labels: Tensor, dropout: torch.Generator
    ) -> Callable[[Tensor, Tensor, float | None], None]:
        """What `descend` needs: adds up the (clipped) gradients of the nodes' own losses."""
        norms = [name for name in self.shape.shapes if name.startswith("norm ")]

        def add(nodes: Tensor, gradients: Tensor, clip: float | None) -> None:
            for name in norms:
                self.views[name].requires_grad_(True)
            scores, tape = self.forward(nodes, dropout, training=True)
            loss = F.cross_entropy(scores, labels[nodes], reduction="sum")
            outputs = [y for _, _, y in tape]
            found = torch.autograd.grad(loss, outputs + [self.views[name] for name in norms])
            deltas = list(found[: len(tape)])
            into = _views(gradients, self.shape.shapes)
            for name, gradient in zip(norms, found[len(tape) :], strict=True):
                self.views[name].requires_grad_(False)
                into[name].add_(gradient)
            inputs = [x.detach() if isinstance(x, Tensor) else x for _, x, _ in tape]
            if clip is not None:
                total = sum(
                    (_squared_norms(x) + 1) * g.square().sum(1)
                    for x, g in zip(inputs, deltas, strict=True)
                )
                factors = clipping_factors(total, clip)[:, None]
                deltas = [g * factors for g in deltas]
            for (name, _, _), x, g in zip(tape, inputs, deltas, strict=True):
                if isinstance(x, Tensor):
                    into[f"{name}.weight"].addmm_(x.T, g)
                else:
                    x.add_gradient(into[f"{name}.weight"], g)
                into[f"{name}.bias"].add_(g.sum(0))

        return add

    def predict(self, nodes: Tensor) -> Tensor:
        """Predicted classes of `nodes`, int64."""
        with torch.no_grad():
            parts = nodes.split(PREDICTION_ROWS)
            return torch.cat([self.forward(part, None, False)[0].argmax(1) for part in parts])


def _squared_norms(x: Any) -> Tensor:
    return x.square().sum(1) if isinstance(x, Tensor) else x.squared_norms()


def train_classifier(
    shape: Linkx,
    x: SparseRows | DenseRows,
    z: np.ndarray,
    labels: np.ndarray,
    split: Sequence[np.ndarray],
    rounds: Rounds,
    *,
    learning_rate: float,
    stream: tuple,
    checkpoint: str = "best_validation",
    device: str = "auto",
    label: str = "",
    dtype: torch.dtype = torch.float32,
) -> Fitted:
    """Train the classifier on X and the released matrix Z (Algorithm 2, lines 16 to 20).

    x: the rows of X (`rows_of`) on the same device. z: float32 (n, h). labels: int64 (n,).
    split: train, validation and test nodes, int64. checkpoint: "best_validation" keeps the first
    epoch of highest validation accuracy, "last" the last. stream: "init", "sampling", "noise" and
    "dropout" are appended to it.

    Raises GraphDPError on arguments that do not fit together.
    """
    check_checkpoint(checkpoint)
    if rounds.private and (shape.batch_norm or shape.dropout):
        raise GraphDPError("batch norm mixes samples and dropout is not for DP training: leave out")
    if z.shape != (len(labels), shape.hidden):
        raise GraphDPError(f"Z has shape {z.shape}, not {(len(labels), shape.hidden)}")
    like = like_of(device, dtype)
    values = torch.from_numpy(shape.initial(generator(*stream, "init"))).to(like)
    model = Classifier(shape, x, torch.tensor(z).to(like), values)
    truth = torch.tensor(labels).to(like.device)
    train, val, test = (torch.tensor(nodes, device=like.device) for nodes in split)
    dropout = torch.Generator(like.device).manual_seed(stream_seed(*stream, "dropout"))

    def accuracy(nodes: Tensor) -> float:
        return float((model.predict(nodes) == truth[nodes]).double().mean())

    history: list[float] = []
    kept: list[Tensor] = []
    state = [values, *(part for pair in model.running.values() for part in pair)]

    def end_epoch() -> None:
        history.append(accuracy(val))
        if checkpoint == "last" or history[-1] > max(history[:-1], default=-1.0):
            kept[:] = [part.detach().clone() for part in state]

    done = descend(
        values,
        model.gradient(truth, dropout),
        rounds,
        split[0],
        learning_rate,
        stream,
        after_epoch=end_epoch,
        label=label,
    )
    with torch.no_grad():
        for part, best in zip(state, kept, strict=True):
            part.copy_(best)
    best_epoch = int(np.argmax(history)) + 1 if checkpoint == "best_validation" else len(history)
    return Fitted(
        train_accuracy=accuracy(train),
        val_accuracy=accuracy(val),
        test_accuracy=accuracy(test),
        best_epoch=best_epoch,
        predictions=model.predict(torch.arange(len(labels), device=like.device))
        .short()
        .cpu()
        .numpy(),
        embedding=None,
        parameters={name: view.detach().cpu().numpy() for name, view in model.views.items()},
        history=np.array(history),
        rounds=done,
    )
