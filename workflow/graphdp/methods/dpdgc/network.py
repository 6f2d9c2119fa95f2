"""DP-Emb, the network that DPDGC's embedding is trained with (Chien et al., NeurIPS 2023).

    Ŷ = σ(A W + b) R         W (n, h), b (h,) trained, R (h, C) fixed                 (equation 2)

Its first layer reads rows of the adjacency matrix. A row is never dense and the gradient of a
sample's loss by W, the outer product of its sparse row a and a vector g of length h, is never
formed: its norm is ‖a‖·‖g‖ (Goodfellow 2015), and the clipped gradients of a batch sum to A_Bᵀ G
in O(entries · h). The noise on W is dense by nature and so costs O(n · h) a step, as does Adam.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from graphdp.errors import GraphDPError
from graphdp.noise import GridNoise, NoiseSource
from graphdp.privacy.execution import Execution
from graphdp.rng import generator, stream_seed
from graphdp.training.descent import Observer, Rounds, clipping_factors, descend, dropped, views
from graphdp.training.members import check_checkpoint, like_of
from graphdp.training.sparse_rows import SparseBatch, SparseRows
from graphdp.training.sums import add_sum

PREDICTION_ROWS = 8192  # nodes predicted at a time


@dataclass(frozen=True)
class Embedding:
    """A trained DP-Emb: W float32 (n, h), b float32 (h,), and how its noisy rounds were run."""

    weight: np.ndarray
    bias: np.ndarray
    executed: Execution | None

    @property
    def rounds(self) -> int:
        """Noisy rounds that were run."""
        return self.executed.count if self.executed else 0


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
        self.views = views(values, self.shapes)
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
        into = views(gradients, self.shapes)
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
        add_sum(into["bias"], g)

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
    noise: NoiseSource = GridNoise,
    observe: Observer | None = None,
) -> Embedding:
    """Train DP-Emb on the rows of A, the lists of the nodes (Algorithm 2, line 13).

    indptr, indices: CSR of A, int64 (n + 1,) and integers (m,); row i lists the nodes that i
    points to. labels: int64 (n,). train, val: int64 nodes. head: R (h, C) and its bias (C,).
    normalised: keep the rows of W at norm c = 1 from the start and after every step; being a
    function of the noisy weights alone, that is post-processing. batch_norm, labels_shift and
    dropout (a rate): as `EmbeddingGradient`. weight_decay, noise, observe: as `descend`.
    checkpoint: "last", or "best_validation", which reads the edges and labels of the validation
    nodes without noise.

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
        noise=noise,
        observe=observe,
        label=label,
    )
    arrays = {name: view.cpu().numpy() for name, view in views(kept, network.shapes).items()}
    return Embedding(np.array(arrays["weight"]), np.array(arrays["bias"]), done)
