"""GraphSAGE with sum aggregation, and its two ways of training.

    H⁰ = base(X)                                     two linear layers (batch norm,) SELU
    Hᵏ = selu(norm(unit(W_k Aᵀ Hᵏ⁻¹ + b_k + V_k Hᵏ⁻¹)))   k = 1..K; unit: rows divided by their norm
    logits = head(Hᴷ)                                one linear layer

A[u, v] = 1 when u sends to v. GAP (USENIX Security 2023), section 7.2, "Model implementation
details"; W, b and V are those of PyG's `SAGEConv(aggr="sum", normalize=True, root_weight=True)`,
as in the authors' code. The paper leaves open the order of norm and SELU (norm first here, as in
its MLPs).

Full batches: the members' columns stand side by side, (n, S · channels), so that one sparse product
serves all members that are trained together on a graph. On a CPU that is one at a time: 16 columns
stay in its cache, and a product of 160 took twice as long per member (measured on one core, on a
random graph of 22,900 nodes).

With DP-Adam (Daigavane et al. 2021; K = 1 and no batch norm) a sample is a training
node with its in-neighbours. The rows of H⁰ have norm 1 there: that bounds the sum at inference.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from scipy import sparse
from torch import Tensor

from graphdp.aggregation import InEdges
from graphdp.ensemble.optimiser import Adam
from graphdp.ensemble.private import GaussianNoise
from graphdp.ensemble.sampling import fixed_size_sample
from graphdp.ensemble.training import Fitted, FullBatch, Member
from graphdp.errors import GraphDPError
from graphdp.progress import progress
from graphdp.rng import generator, stream_seed

_NORM_EPS = 1e-6  # as in `ensemble.private`: rounds the clipping factor down


@dataclass(frozen=True)
class Sage:
    """The shape of a network: `mp_layers` = K message-passing layers of `hidden` channels; dropout
    (without privacy only) precedes every SELU."""

    in_features: int
    hidden: int
    mp_layers: int
    classes: int
    batch_norm: bool
    dropout: float = 0.0

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Parameter -> shape, in the order of the flat vector: weights (inputs, outputs)."""
        width = self.hidden
        shapes: dict[str, tuple[int, ...]] = {}
        for i, inputs in enumerate((self.in_features, width)):
            shapes |= {f"base{i}.weight": (inputs, width), f"base{i}.bias": (width,)}
        for k in range(self.mp_layers):
            shapes |= {f"conv{k}.weight": (width, width), f"conv{k}.bias": (width,)}
            shapes[f"conv{k}.root"] = (width, width)
        if self.batch_norm:
            for name in self.norms:
                shapes |= {f"{name}.weight": (width,), f"{name}.bias": (width,)}
        return shapes | {"head.weight": (width, self.classes), "head.bias": (self.classes,)}

    @property
    def norms(self) -> list[str]:
        """The names of the batch norms."""
        return ["base0_norm", "base1_norm", *(f"conv{k}_norm" for k in range(self.mp_layers))]

    def initial(self, rng: np.random.Generator) -> np.ndarray:
        """Parameters (P,) of a fresh model: U(±1/√fan_in), as PyG's `Linear`; norms 1 and 0."""
        parts = []
        for name, shape in self.shapes.items():
            if "norm" in name:
                parts.append(np.full(shape, float(name.endswith("weight"))))
            else:
                inputs = self.in_features if name.startswith("base0") else self.hidden
                bound = 1 / math.sqrt(inputs)
                parts.append(rng.uniform(-bound, bound, shape).ravel())
        return np.concatenate(parts)

    def views(self, values: Tensor) -> dict[str, Tensor]:
        """Parameter -> (S, *shape), views of the flat parameters (S, P)."""
        views, start = {}, 0
        for name, shape in self.shapes.items():
            size = math.prod(shape)
            views[name] = values[:, start : start + size].unflatten(1, shape)
            start += size
        return views


class SparseMatrix:
    """A constant sparse matrix that gradients pass through.

    A product sums, for each row, the listed rows of the other factor: torch's `embedding_bag`, which
    was 1.5 times as fast as its CSR product on 16 columns and 3.5 times on 160 (one core, a school
    of 19,000 nodes), and which needs no weights where all entries are 1.
    """

    def __init__(self, matrix: sparse.sparray | sparse.spmatrix, like: Tensor):
        matrix = sparse.csr_array(matrix)
        self._forward = _bags(matrix, like)
        self._backward = _bags(matrix.T.tocsr(), like)

    def __matmul__(self, x: Tensor) -> Tensor:
        return _Product.apply(self._forward, self._backward, x)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, forward, backward, x):
        ctx.backward_bags = backward
        return _sums(forward, x)

    @staticmethod
    def backward(ctx, g):
        return None, None, _sums(ctx.backward_bags, g.contiguous())


# Row v of a matrix: column indices int32 (nnz,) from offset v to offset v + 1 (rows + 1,), and
# their values (nnz,), or None where all are 1.
_Bags = tuple[Tensor, Tensor, Tensor | None]


def _bags(matrix: sparse.csr_array, like: Tensor) -> _Bags:
    indices = torch.from_numpy(matrix.indices.astype(np.int32)).to(like.device)
    offsets = torch.from_numpy(matrix.indptr.astype(np.int32)).to(like.device)
    if (matrix.data == 1).all():
        return indices, offsets, None
    return indices, offsets, torch.from_numpy(np.array(matrix.data)).to(like)


def _sums(bags: _Bags, x: Tensor) -> Tensor:
    indices, offsets, weights = bags
    return F.embedding_bag(
        indices, x, offsets, mode="sum", per_sample_weights=weights, include_last_offset=True
    )


def in_matrix(edges: InEdges) -> sparse.csr_array:
    """Aᵀ as float32 CSR (n, n): row v marks the in-neighbours of v."""
    ones = np.ones(len(edges.indices), np.float32)
    return sparse.csr_array((ones, edges.indices, edges.indptr), shape=2 * (edges.num_nodes,))


def forward(
    network: Sage,
    values: Tensor,
    running: dict[str, Tensor],
    x: SparseMatrix | Tensor,
    neighbours: SparseMatrix,
    training: bool,
    generators: Sequence[torch.Generator] = (),
) -> Tensor:
    """The logits of all nodes, (n, S, classes), differentiable in the parameters `values` (S, P).

    running: name of a batch norm -> its running mean and variance, (2, S · hidden); `training`
    normalises by the statistics of all nodes and updates them. neighbours: Aᵀ. generators: of each
    member, for the dropout in training.
    """
    members = len(values)
    p = network.views(values)

    def linear(h: Tensor, weight: str) -> Tensor:
        parts = h.unflatten(1, (members, -1))
        return torch.einsum("nsi,sio->nso", parts, p[weight]).flatten(1)

    def activation(h: Tensor, norm: str) -> Tensor:
        if network.batch_norm:
            statistics = running[norm]
            scale, shift = p[f"{norm}.weight"].flatten(), p[f"{norm}.bias"].flatten()
            h = F.batch_norm(h, statistics[0], statistics[1], scale, shift, training)
        if training and network.dropout:
            kept, shape = 1 - network.dropout, (len(h), network.hidden)
            masks = [h.new_empty(shape).bernoulli_(kept, generator=g) for g in generators]
            h = h * torch.cat(masks, 1).div_(kept)
        return F.selu(h)

    weight = (
        p["base0.weight"].transpose(0, 1).flatten(1)
    )  # (f, S · hidden): no member has its own X
    h = activation(x @ weight + p["base0.bias"].flatten(), "base0_norm")
    h = activation(linear(h, "base1.weight") + p["base1.bias"].flatten(), "base1_norm")
    for k in range(network.mp_layers):
        sums = neighbours @ h
        h = (
            linear(sums, f"conv{k}.weight")
            + p[f"conv{k}.bias"].flatten()
            + linear(h, f"conv{k}.root")
        )
        h = F.normalize(h.unflatten(1, (members, -1)), dim=-1).flatten(1)
        h = activation(h, f"conv{k}_norm")
    return (linear(h, "head.weight") + p["head.bias"].flatten()).unflatten(1, (members, -1))


def train(
    network: Sage,
    x: np.ndarray | sparse.csr_matrix,
    labels: np.ndarray,
    edges: InEdges,
    members: Sequence[Member],
    training: FullBatch,
    *,
    checkpoint: str = "best_validation",
    device: str = "auto",
    memory_mb: int = 2048,
    label: str = "",
    posteriors: bool = False,
    dtype: torch.dtype = torch.float32,
) -> list[Fitted]:
    """Train every member on one graph by full-batch Adam; results in the order of `members`.

    x: float32 (n, f), dense or sparse. labels: int64 (n,). edges: the in-edges of the graph that
    all members see, in training and in prediction. The other arguments are those of
    `ensemble.train`. A member's result does not depend on the others, up to rounding.

    Raises `GraphDPError` if the parameters become infinite.
    """
    like = _like(device, dtype)
    features = SparseMatrix(x, like) if sparse.issparse(x) else _tensor(x, like)
    neighbours = SparseMatrix(in_matrix(edges), like)
    targets = torch.from_numpy(np.array(labels)).to(like.device)
    size = 1
    if like.device.type != "cpu":
        floats = len(labels) * network.hidden * (8 + 8 * network.mp_layers)
        size = max(1, (memory_mb << 20) // (like.element_size() * floats))
    results: list[Fitted] = []
    for start in range(0, len(members), size):
        chunk = members[start : start + size]
        name = label and f"{label} {start + 1}-{start + len(chunk)} of {len(members)}"
        results += _train(
            network, features, targets, neighbours, chunk, training.epochs, checkpoint, name, like,
            posteriors,
        )  # fmt: skip
    return results


def _train(
    network, x, labels, neighbours, members, epochs, checkpoint, label, like, posteriors=False
):
    count = len(members)
    initial = [network.initial(generator(*member.stream, "init")) for member in members]
    values = _tensor(np.stack(initial), like).requires_grad_()
    width = count * network.hidden
    running = {}
    for name in network.norms if network.batch_norm else ():
        running[name] = torch.stack([like.new_zeros(width), like.new_ones(width)])
    rates = _tensor(np.array([[member.learning_rate] for member in members]), like)
    adam = Adam(values.data, rates)
    parts = {
        part: [torch.from_numpy(getattr(member, part)).to(like.device) for member in members]
        for part in ("train", "val", "test")
    }
    history, best = [], torch.full((count,), -1.0, device=like.device)
    predictions = torch.zeros(count, len(labels), dtype=torch.int16, device=like.device)
    kept = values.detach().clone()
    shares: list[np.ndarray | None] = [None] * count
    best_epoch = [0] * count
    generators = [
        torch.Generator(like.device).manual_seed(stream_seed(*member.stream, "dropout"))
        for member in members
    ]
    steps = range(epochs)
    for epoch in progress(steps, label) if label else steps:
        logits = forward(network, values, running, x, neighbours, True, generators)
        loss = sum(
            F.cross_entropy(logits[nodes, s], labels[nodes])
            for s, nodes in enumerate(parts["train"])
        )
        (gradient,) = torch.autograd.grad(loss, values)
        adam.step(gradient)
        if checkpoint == "last" and epoch < epochs - 1:
            continue
        with torch.no_grad():
            logits = forward(network, values, running, x, neighbours, training=False)
        classes = logits.argmax(-1).T.to(torch.int16)
        correct = torch.stack(
            [(classes[s, n] == labels[n]).double().mean() for s, n in enumerate(parts["val"])]
        )
        history.append(correct)
        for s in range(count):
            if checkpoint == "last" or correct[s] > best[s]:
                best[s], best_epoch[s] = correct[s], epoch + 1
                predictions[s], kept[s] = classes[s], values.detach()[s]
                if posteriors:
                    shares[s] = logits[:, s].softmax(1).cpu().numpy()
    if not torch.isfinite(values).all():
        raise GraphDPError("parameters became infinite: scale the features or lower the rate")
    right = predictions == labels
    curves = torch.stack(history, 1).cpu().numpy()
    return [
        Fitted(
            train_accuracy=float(right[s, parts["train"][s]].double().mean()),
            val_accuracy=float(right[s, parts["val"][s]].double().mean()),
            test_accuracy=float(right[s, parts["test"][s]].double().mean()),
            best_epoch=best_epoch[s],
            predictions=predictions[s].cpu().numpy(),
            embedding=None,
            parameters=_arrays(network, kept[s]),
            history=curves[s],
            rounds=0,
            posteriors=shares[s],
        )
        for s in range(count)
    ]


def _arrays(network: Sage, values: Tensor) -> dict[str, np.ndarray]:
    return {name: v[0].cpu().numpy() for name, v in network.views(values[None]).items()}


def _like(device: str, dtype: torch.dtype) -> Tensor:
    device = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    return torch.empty(0, dtype=dtype, device=device)


def _tensor(array: np.ndarray, like: Tensor) -> Tensor:
    return torch.from_numpy(np.array(array)).to(like.device, like.dtype)


# --- node level -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class FixedSizeDP:
    """DP-Adam: exactly `steps` rounds, each of `batch_size` training nodes drawn uniformly without
    replacement, independently of the other rounds; clipped gradients are summed, noise of standard
    deviation `noise_std` is added, and the sum divided by `batch_size`."""

    batch_size: int
    steps: int
    max_grad_norm: float
    noise_std: float


@dataclass(frozen=True)
class PrivateSage:
    """A network trained by DP-Adam. embedding: H⁰, float32 (n, hidden) with rows of norm 1.
    parameters: name -> array, weights (inputs, outputs). rounds: those that were executed."""

    parameters: dict[str, np.ndarray]
    embedding: np.ndarray
    rounds: int


def train_private(
    network: Sage,
    x: np.ndarray | sparse.csr_matrix,
    labels: np.ndarray,
    edges: InEdges,
    member: Member,
    training: FixedSizeDP,
    *,
    device: str = "auto",
    memory_mb: int = 2048,
    label: str = "",
    dtype: torch.dtype = torch.float32,
) -> PrivateSage:
    """Train one member by DP-Adam over sub-graphs, without validating in between.

    edges: the bounded graph's in-edges. Raises `GraphDPError` for a network with batch norm or with
    more than one message-passing layer, for noise that is not above 0, and if the parameters become
    infinite.
    """
    if network.batch_norm or network.dropout or network.mp_layers != 1:
        raise GraphDPError("DP training needs one message-passing layer, no batch norm or dropout")
    if not training.noise_std > 0:
        raise GraphDPError(f"noise of scale {training.noise_std} with a finite ε: calibrate it")
    like = _like(device, dtype)
    samples = SubGraphs(network, x, edges, like)
    targets = torch.from_numpy(np.array(labels)).to(like.device)
    values = _tensor(network.initial(generator(*member.stream, "init"))[None], like)
    adam = Adam(values, like.new_full((1, 1), member.learning_rate))
    # Another noise multiplier draws other noise: the same noise at two scales would cancel.
    seed = stream_seed(*member.stream, "noise", member.noise_multiplier)
    noise = GaussianNoise([seed], like.new_full((1, 1), training.noise_std), values.shape[1])
    batches = generator(*member.stream, "sampling")
    done = 0
    steps = range(training.steps)
    for step in progress(steps, label) if label else steps:
        if step % noise.STEPS == 0:
            drawn = noise.steps()
        batch = member.train[fixed_size_sample(member.train.size, training.batch_size, batches)]
        clipped = samples.clipped_sum(values[0], batch, targets, training.max_grad_norm, memory_mb)
        adam.step((clipped + drawn[step % noise.STEPS, 0])[None] / training.batch_size)
        done += 1
    assert done == training.steps, "rounds executed must be those accounted"
    if not torch.isfinite(values).all():
        raise GraphDPError("parameters became infinite: scale the features or lower the rate")
    embedding = samples.embedding(values[0]).cpu().numpy().astype(np.float32)
    return PrivateSage(_arrays(network, values[0]), embedding, done)


def logits_of(parameters: dict[str, np.ndarray], h: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """What a private network says of each node, from H⁰ and the (noisy) sums Aᵀ H⁰: (n, classes).

    Reads no edge.
    """
    h, sums = torch.from_numpy(np.array(h)), torch.from_numpy(np.array(sums))
    p = {name: torch.from_numpy(value) for name, value in parameters.items()}
    return _readout(p, sums, h).numpy()


def _readout(p: dict[str, Tensor], sums: Tensor, h: Tensor) -> Tensor:
    h = sums @ p["conv0.weight"] + p["conv0.bias"] + h @ p["conv0.root"]
    return F.selu(F.normalize(h, dim=-1)) @ p["head.weight"] + p["head.bias"]


def _squared_norms(x: Tensor, g: Tensor) -> Tensor:
    """‖Σ_p x_p g_pᵀ‖² of each sample, float64 (B,): x (B, places, in), g (B, places, out).

    With few places it is Σ_pq (x_p · x_q)(g_p · g_q), for which no product of in × out numbers is
    formed. In float64: these terms cancel where the gradient is much smaller than they are.
    """
    if x.shape[1] <= g.shape[2] // 2:
        x, g = x.double(), g.double()
        return ((x @ x.mT) * (g @ g.mT)).sum((1, 2)).clamp_min(0.0)
    return (x.mT @ g).flatten(1).norm(dim=1).double().square()


class SubGraphs:
    """The 1-hop sub-graphs of a graph, and their clipped gradients.

    A batch is padded to (B, P): column 0 is the sample's own node, the others are its in-neighbours
    and then padding. Each of these B · P places has its own row in every layer, so what flows back
    to it belongs to one sample, and that sample's gradient of a layer is the sum over its places of
    (input) (gradient at the output)ᵀ.
    """

    def __init__(self, network: Sage, x, edges: InEdges, like: Tensor):
        self.network, self._like = network, like
        self._indptr, self._indices = edges.indptr, edges.indices
        self._sparse = sparse.csr_array(x) if sparse.issparse(x) else None
        self._dense = None if sparse.issparse(x) else _tensor(x, like)
        self._x = SparseMatrix(x, like) if sparse.issparse(x) else self._dense

    def embedding(self, values: Tensor) -> Tensor:
        """H⁰ of all nodes, (n, hidden), rows of norm 1."""
        p = {name: view[0] for name, view in self.network.views(values[None]).items()}
        h = F.selu(self._x @ p["base0.weight"] + p["base0.bias"])
        return F.normalize(F.selu(h @ p["base1.weight"] + p["base1.bias"]), dim=-1)

    def clipped_sum(
        self, values: Tensor, batch: np.ndarray, labels: Tensor, clip: float, memory_mb: int
    ) -> Tensor:
        """Σ over the batch of each sample's gradient clipped to norm `clip`: (P,)."""
        total = torch.zeros_like(values)
        into = {name: view[0] for name, view in self.network.views(total[None]).items()}
        for rows in self._chunks(batch, memory_mb):
            weights, biases = self._factors(values, rows, labels)
            squares = [_squared_norms(x, g) for x, g in weights.values()]
            squares += [g.double().sum(1).square().sum(1) for g in biases.values()]
            norms = sum(squares).sqrt()
            # A sample whose norm overflows does not enter at all.
            kept = norms.isfinite()
            factors = (clip / (norms + _NORM_EPS)).clamp(max=1.0).mul(kept).nan_to_num(0.0)
            factors = factors.to(total.dtype)[:, None, None]
            for name, (x, g) in weights.items():
                g = torch.where(kept[:, None, None], g * factors, 0.0)
                into[name].addmm_(x.flatten(0, 1).T, g.flatten(0, 1))
            for name, g in biases.items():
                into[name].add_(torch.where(kept[:, None, None], g * factors, 0.0).sum((0, 1)))
        return total

    def _chunks(self, batch: np.ndarray, memory_mb: int):
        """Runs of samples of similar size, so that little is padded, that fit into the memory."""
        network = self.network
        size = np.diff(self._indptr)[batch] + 1
        batch = batch[np.argsort(size, kind="stable")]
        parameters = network.in_features * network.hidden
        width = 20 * network.hidden + 4 * network.in_features
        most = memory_mb << 20
        start, largest = 0, np.sort(size)
        while start < len(batch):
            stop = start + 1
            while stop < len(batch):
                floats = (stop + 1 - start) * (parameters + int(largest[stop]) * width)
                padded = largest[stop] > 1.5 * largest[start] + 4
                if padded or floats * self._like.element_size() > most:
                    break
                stop += 1
            yield batch[start:stop]
            start = stop

    def per_sample(self, values: Tensor, batch: np.ndarray, labels: Tensor) -> Tensor:
        """The gradient of each sample's cross-entropy over all parameters: (B, P)."""
        weights, biases = self._factors(values, batch, labels)
        gradients = {name: x.mT @ g for name, (x, g) in weights.items()}
        gradients |= {name: g.sum(1) for name, g in biases.items()}
        return torch.cat([gradients[name].flatten(1) for name in self.network.shapes], 1)

    def _factors(
        self, values: Tensor, batch: np.ndarray, labels: Tensor
    ) -> tuple[dict[str, tuple[Tensor, Tensor]], dict[str, Tensor]]:
        """Weight -> inputs x (B, places, in) and gradients g (B, places, out) at the outputs, and
        bias -> g: a sample's gradients are Σ x gᵀ and Σ g over its places."""
        places, present = self._pad(batch)
        p = {name: view[0] for name, view in self.network.views(values[None]).items()}
        with torch.no_grad():
            x = self._rows(places)
            z0 = x @ p["base0.weight"] + p["base0.bias"]
        z0.requires_grad_()
        a1 = F.selu(z0)
        z1 = a1 @ p["base1.weight"] + p["base1.bias"]
        h = F.normalize(F.selu(z1), dim=-1)
        sums, root = (h[:, 1:] * present[:, 1:, None]).sum(1), h[:, 0]
        z2 = sums @ p["conv0.weight"] + p["conv0.bias"] + root @ p["conv0.root"]
        a3 = F.selu(F.normalize(z2, dim=-1))
        z3 = a3 @ p["head.weight"] + p["head.bias"]
        nodes = torch.from_numpy(batch).to(labels.device)
        loss = F.cross_entropy(z3, labels[nodes], reduction="sum")
        g0, g1, g2, g3 = torch.autograd.grad(loss, (z0, z1, z2, z3))
        g2, g3 = g2[:, None], g3[:, None]
        inputs = {
            "base0.weight": (x, g0),  # padding has g0 = 0
            "base1.weight": (a1, g1),
            "conv0.weight": (sums[:, None], g2),
            "conv0.root": (root[:, None], g2),
            "head.weight": (a3[:, None], g3),
        }
        weights = {name: (inward.detach(), g) for name, (inward, g) in inputs.items()}
        return weights, {"base0.bias": g0, "base1.bias": g1, "conv0.bias": g2, "head.bias": g3}

    def _pad(self, batch: np.ndarray) -> tuple[Tensor, Tensor]:
        """Nodes of the places (B, P), int64, and whether each is one, as numbers 0 and 1."""
        degrees = np.diff(self._indptr)[batch]
        places = np.zeros((len(batch), int(degrees.max(initial=0)) + 1), np.int64)
        places[:, 0] = batch
        filled = np.arange(1, places.shape[1]) <= degrees[:, None]
        starts = np.repeat(self._indptr[batch] - (np.cumsum(degrees) - degrees), degrees)
        places[:, 1:][filled] = self._indices[starts + np.arange(int(degrees.sum()))]
        present = np.concatenate([np.ones((len(batch), 1), bool), filled], 1)
        device = self._like.device
        return (
            torch.from_numpy(places).to(device),
            torch.from_numpy(present).to(device, self._like.dtype),
        )

    def _rows(self, places: Tensor) -> Tensor:
        """The features of the nodes at the places, dense: (B, P, f)."""
        if self._dense is not None:
            return self._dense[places]
        rows = self._sparse[places.flatten().cpu().numpy()].toarray()
        return torch.from_numpy(rows).to(self._like).unflatten(0, places.shape)
