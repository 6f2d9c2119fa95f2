"""DPDGC's classifier, in the manner of LINKX (Chien et al., NeurIPS 2023).

p = MLP_X(X);  q = MLP_W(σ(p ‖ Z)) + p + Z;  Ŷ = σ(q) H
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from graphdp.errors import GraphDPError
from graphdp.noise import GridNoise, NoiseSource
from graphdp.rng import generator, stream_seed
from graphdp.training.descent import (
    Observer,
    Rounds,
    clipping_factors,
    descend,
    dropped,
    views,
)
from graphdp.training.members import Fitted, check_checkpoint, like_of
from graphdp.training.sparse_rows import DenseRows, SparseRows
from graphdp.training.sums import add_outer, add_sum

PREDICTION_ROWS = 8192  # nodes predicted at a time


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
        self.views = views(values, shape.shapes)
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
            into = views(gradients, self.shape.shapes)
            for name, gradient in zip(norms, found[len(tape) :], strict=True):
                self.views[name].requires_grad_(False)
                into[name].add_(gradient)
            inputs = [x.detach() if isinstance(x, Tensor) else x for _, x, _ in tape]
            if clip is not None:
                total = sum(
                    (_squared_norms(x) + 1) * g.square().sum(1)
                    for x, g in zip(inputs, deltas, strict=True)
                )
                factors = clipping_factors(total, clip)[:, None].to(deltas[0].dtype)
                # A node that overflowed is left out: 0 times what it has is no number.
                kept = factors > 0
                deltas = [torch.where(kept, g * factors, 0.0) for g in deltas]
                inputs = [torch.where(kept, x, 0.0) if isinstance(x, Tensor) else x for x in inputs]
            for (name, _, _), x, g in zip(tape, inputs, deltas, strict=True):
                if isinstance(x, Tensor):
                    add_outer(into[f"{name}.weight"], x, g)
                else:
                    x.add_gradient(into[f"{name}.weight"], g)
                add_sum(into[f"{name}.bias"], g)

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
    noise: NoiseSource = GridNoise,
    observe: Observer | None = None,
    checkpoint: str = "best_validation",
    device: str = "auto",
    label: str = "",
    dtype: torch.dtype = torch.float32,
) -> Fitted:
    """Train the classifier on X and the released matrix Z (Algorithm 2, lines 16 to 20).

    x: the rows of X (`rows_of`) on the same device. z: float32 (n, h). labels: int64 (n,).
    split: train, validation and test nodes, int64. checkpoint: "best_validation" keeps the first
    epoch of highest validation accuracy, "last" the last. stream: "init", "sampling", "noise" and
    "dropout" are appended to it. noise: what draws that of noisy rounds; observe: called in each of
    them before its step is taken, for audits.

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
        noise=noise,
        after_epoch=end_epoch,
        observe=observe,
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
        rounds=done.count if done else 0,
        executed=done,
    )
