"""DP-GNN (Daigavane et al. 2021): GraphSAGE with one message-passing layer, trained by DP-Adam.

The network is GAP's, `Sage` with K = 1, without batch norm, and the rows of H⁰ divided by their
norm: that bounds the sum at inference. Or it is ProGAP's, `JumpingSage` with K = 1 and group norms,
whose H⁰ is not bounded, since nothing noises its sums. A sample is a training node with its
in-neighbours. GraphSAGE without per-sample gradients is one of the networks of
`graphdp.training.train`.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy import sparse
from torch import Tensor

from graphdp.data.graph import InEdges
from graphdp.errors import GraphDPError
from graphdp.noise import GridNoise, NoiseSource
from graphdp.privacy.execution import Execution
from graphdp.progress import progress
from graphdp.rng import generator
from graphdp.training.descent import Observer, clipping_factors
from graphdp.training.features import check_features
from graphdp.training.layout import Layout
from graphdp.training.members import Member, like_of
from graphdp.training.networks import JumpingSage, Sage
from graphdp.training.normalisation import GROUP_NORM_EPS
from graphdp.training.optimiser import Adam
from graphdp.training.sampling import fixed_size_sample, sample_generator
from graphdp.training.sparse_rows import rows_of
from graphdp.training.sums import SUMS, add_rows, add_weighted, squared_norms


@dataclass(frozen=True)
class FixedSizeDP:
    """DP-Adam: exactly `steps` rounds, each of `batch_size` training nodes drawn uniformly without
    replacement, independently of the other rounds; clipped gradients are summed, noise of standard
    deviation `noise_std` is added, and the sum divided by `batch_size`.

    rows: clip rows of the union of a batch's sub-graphs and not samples, as GAP's, ProGAP's and
    DPDGC's code does (`SubGraphs.clipped_row_sum`).
    """

    batch_size: int
    steps: int
    max_grad_norm: float
    noise_std: float
    rows: bool = False


@dataclass(frozen=True)
class PrivateSage:
    """A network trained by DP-Adam. embedding: H⁰, float32 (n, hidden), of `Sage` rows of norm 1.
    parameters: name -> array, weights (inputs, outputs). executed: its rounds, as they were run."""

    parameters: dict[str, np.ndarray]
    embedding: np.ndarray
    executed: Execution

    @property
    def rounds(self) -> int:
        """Noisy rounds that were run."""
        return self.executed.count


def train_private(
    network: Sage | JumpingSage,
    x: np.ndarray | sparse.csr_matrix,
    labels: np.ndarray,
    edges: InEdges,
    member: Member,
    training: FixedSizeDP,
    *,
    noise: NoiseSource = GridNoise,
    observe: Observer | None = None,
    device: str = "auto",
    memory_mb: int = 2048,
    label: str = "",
    dtype: torch.dtype = torch.float32,
) -> PrivateSage:
    """Train one member by DP-Adam over sub-graphs, without validating in between.

    edges: the bounded graph's in-edges. noise: what draws the noise; observe: called in every round
    before its step is taken, for audits. Raises `GraphDPError` for a network with batch norm or
    with more than one message-passing layer, for noise that is not above 0, for features that
    `check_features` refuses, and if the parameters become infinite.
    """
    dropout = isinstance(network, Sage) and network.dropout
    if network.batch_norm or dropout or network.mp_layers != 1:
        raise GraphDPError("DP training needs one message-passing layer, no batch norm or dropout")
    if not training.noise_std > 0:
        raise GraphDPError(f"noise of scale {training.noise_std} with a finite ε: calibrate it")
    check_features(x)
    like = like_of(device, dtype)
    samples = SubGraphs(network, x, edges, like)
    targets = torch.from_numpy(np.array(labels)).to(like.device)
    values = initial(network, generator(*member.stream, "init")).to(like)[None]
    adam = Adam(values, like.new_full((1, 1), member.learning_rate))
    # Another scale draws other noise: the same noise at two scales would cancel.
    drawn = noise([(*member.stream, "noise", repr(training.noise_std))])
    std = torch.tensor([training.noise_std], dtype=torch.float64)
    batches = sample_generator(member.stream, training.noise_std)
    done = 0
    steps = range(training.steps)
    for _ in progress(steps, label) if label else steps:
        batch = member.train[fixed_size_sample(member.train.size, training.batch_size, batches)]
        clip = training.max_grad_norm
        if training.rows:
            clipped = samples.clipped_row_sum(values[0], batch, targets, clip)
        else:
            clipped = samples.clipped_sum(values[0], batch, targets, clip, memory_mb)
        noisy = clipped.to(values.dtype)[None]
        drawn.add(noisy, std)
        if observe:
            observe(values[0], noisy[0])
        adam.step(noisy.div_(training.batch_size))
        done += 1
    assert done == training.steps, "rounds executed must be those accounted"
    if not torch.isfinite(values).all():
        raise GraphDPError("parameters became infinite: scale the features or lower the rate")
    embedding = samples.embedding(values[0]).cpu().numpy().astype(np.float32)
    found = {name: view.cpu().numpy() for name, view in parameters(network, values[0]).items()}
    size = training.batch_size
    rate, clip = size / member.train.size, training.max_grad_norm
    draws = done * values.numel()
    executed = Execution("fixed", done, training.noise_std, rate, clip, size, draws=draws)
    return PrivateSage(found, embedding, executed)


def initial(network: Sage | JumpingSage, rng: np.random.Generator) -> Tensor:
    """The parameters of a fresh network, float64 (P,)."""
    layout = Layout(network)
    size = sum(math.prod(shape) for shape in layout.shapes.values())  # the layout pads
    return torch.from_numpy(layout.initial(rng)[0][:size])


def parameters(network: Sage | JumpingSage, values: Tensor) -> dict[str, Tensor]:
    """Parameter -> its view of `values` (P,): weights (inputs, outputs), others (outputs,)."""
    views = Layout.views(values[None], Layout(network).shapes)
    return {name: v[0, 0] if v.ndim == 4 else v[0, :, 0] for name, v in views.items()}


def logits_of(
    network: Sage | JumpingSage, parameters: dict[str, np.ndarray], h: np.ndarray, sums: np.ndarray
) -> np.ndarray:
    """What a private network says of each node, from H⁰ and the sums Aᵀ H⁰, noisy or exact:
    (n, classes). Reads no edge.
    """
    h, sums = torch.from_numpy(np.array(h)), torch.from_numpy(np.array(sums))
    p = {name: torch.from_numpy(value) for name, value in parameters.items()}
    return _readout(network, _Pass(p), sums, h).numpy()


def _base(network: Sage | JumpingSage, run: "_Pass", z0: Tensor) -> Tensor:
    """H⁰, from what the first linear map gives."""
    if isinstance(network, JumpingSage):
        return run.norm("base0_norm", F.selu(z0))
    return F.normalize(F.selu(run.linear("base1", F.selu(z0))), dim=-1)


def _readout(network: Sage | JumpingSage, run: "_Pass", sums: Tensor, h: Tensor) -> Tensor:
    """The logits, from the sums over in-neighbours and a node's own row of H⁰."""
    h = F.normalize(run.convolution("conv0", sums, h), dim=-1)
    if isinstance(network, JumpingSage):
        h = run.linear("jump", F.selu(run.norm("conv0_norm", h)))
        h = run.norm("jump_norm", h)
    return run.linear("head", F.selu(h))


class _Pass:
    """The maps of a network with parameters p (`parameters`), which write down what they gave, and
    of what: that is all that a sample's gradient needs."""

    def __init__(self, p: dict[str, Tensor]):
        self.p = p
        #: Map -> its output, and parameter -> what it multiplies (a bias multiplies nothing).
        self.outputs: dict[str, Tensor] = {}
        self.inputs: dict[str, dict[str, Tensor]] = {}

    def linear(self, name: str, x: Tensor) -> Tensor:
        z = x @ self.p[f"{name}.weight"] + self.p[f"{name}.bias"]
        return self._gave(name, z, weight=x)

    def convolution(self, name: str, sums: Tensor, h: Tensor) -> Tensor:
        z = sums @ self.p[f"{name}.weight"] + self.p[f"{name}.bias"] + h @ self.p[f"{name}.root"]
        return self._gave(name, z, weight=sums, root=h)

    def norm(self, name: str, x: Tensor) -> Tensor:
        """A group norm with one group: of each row by itself."""
        unit = F.layer_norm(x, x.shape[-1:], eps=GROUP_NORM_EPS)
        z = unit * self.p[f"{name}.weight"] + self.p[f"{name}.bias"]
        return self._gave(name, z, weight=unit)

    def _gave(self, name: str, z: Tensor, **inputs: Tensor) -> Tensor:
        self.outputs[name] = z
        self.inputs[name] = {f"{name}.{part}": x for part, x in inputs.items()}
        return z


def _at_places(x: Tensor) -> Tensor:
    """What a sample has once, (B, channels), as of its one place."""
    return x[:, None] if x.ndim == 2 else x


class SubGraphs:
    """The 1-hop sub-graphs of a graph, and their clipped gradients.

    A batch is padded to (B, P): column 0 is the sample's own node, the others are its in-neighbours
    and then padding, the own node again. Each of these B · P places has its own row in every layer,
    so what flows back to it belongs to one sample, and that sample's gradient of a layer is the sum
    over its places of (input) (gradient at the output)ᵀ.
    """

    def __init__(self, network: Sage | JumpingSage, x, edges: InEdges, like: Tensor):
        self.network, self._like = network, like
        self._indptr, self._indices = edges.indptr, edges.indices
        self._x = rows_of(x, like)

    def embedding(self, values: Tensor) -> Tensor:
        """H⁰ of all nodes, (n, hidden), of `Sage` rows of norm 1."""
        p = parameters(self.network, values)
        everyone = self._x.take(torch.arange(len(self._indptr) - 1, device=values.device))
        z0 = everyone.times(p["base0.weight"]) + p["base0.bias"]
        return _base(self.network, _Pass(p), z0)

    def clipped_sum(
        self, values: Tensor, batch: np.ndarray, labels: Tensor, clip: float, memory_mb: int
    ) -> Tensor:
        """Σ over the batch of each sample's gradient clipped to norm `clip`: float64 (P,).

        A sample's gradient is formed before it is clipped, and what is summed is what was measured:
        its terms may cancel, and their norm then says nothing of what another sum of them gives.
        """
        total = torch.zeros_like(values, dtype=SUMS)
        into = parameters(self.network, total)
        for rows in self._chunks(batch, memory_mb):
            gradients = {
                name: one.flatten(1) for name, one in self._gradients(values, rows, labels).items()
            }
            factors = clipping_factors(sum(map(squared_norms, gradients.values())), clip)
            # A sample whose norm overflows, or so nearly that its factor would lose digits, does
            # not enter at all: not even times 0, for its numbers may be infinite.
            kept = factors >= torch.finfo(values.dtype).tiny
            if not kept.all():
                rest = rows[kept.cpu().numpy()]
                total += self.clipped_sum(values, rest, labels, clip, memory_mb)
                continue
            for name, one in gradients.items():
                add_weighted(into[name].view(-1), one, factors)
        return total

    def _chunks(self, batch: np.ndarray, memory_mb: int):
        """Runs of samples of similar size, so that little is padded, that fit into the memory."""
        network = self.network
        size = np.diff(self._indptr)[batch] + 1
        batch = batch[np.argsort(size, kind="stable")]
        own = sum(math.prod(shape) for shape in Layout(network).shapes.values())
        width = 20 * network.hidden + 4 * network.in_features
        most = memory_mb << 20
        start, largest = 0, np.sort(size)
        while start < len(batch):
            stop = start + 1
            while stop < len(batch):
                floats = (stop + 1 - start) * (2 * own + int(largest[stop]) * width)
                padded = largest[stop] > 2.5 * largest[start] + 4
                if padded or floats * self._like.element_size() > most:
                    break
                stop += 1
            yield batch[start:stop]
            start = stop

    def per_sample(self, values: Tensor, batch: np.ndarray, labels: Tensor) -> Tensor:
        """The gradient of each sample's cross-entropy over all parameters: (B, P)."""
        gradients = self._gradients(values, batch, labels)
        return torch.cat([gradients[name].flatten(1) for name in Layout(self.network).shapes], 1)

    def _gradients(self, values: Tensor, batch: np.ndarray, labels: Tensor) -> dict[str, Tensor]:
        """The same by parameter: (B, *shape) each."""
        x0, g0, weights, vectors = self._factors(values, batch, labels)
        gradients = {"base0.weight": x0.group_gradients(g0, self.network.in_features)}
        gradients |= {name: x.mT @ g for name, (x, g) in weights.items()}
        return gradients | {name: g.sum(1) for name, g in vectors.items()}

    def _factors(
        self, values: Tensor, batch: np.ndarray, labels: Tensor
    ) -> tuple[Any, Tensor, dict[str, tuple[Tensor, Tensor]], dict[str, Tensor]]:
        """Of the first weight the inputs (rows of the features at all places) and the gradients g
        (B, places, out) at its outputs; of the others weight -> inputs x (B, places, in) and g; and
        vector -> g, of a bias that at the outputs, of a norm's weight that times what it scales. A
        sample's gradients are Σ x gᵀ and Σ g over its places."""
        places, present = self._pad(batch)
        run = _Pass(parameters(self.network, values))
        x0, z0 = self._first(run.p, places.flatten())
        z0 = z0.unflatten(0, places.shape).requires_grad_()
        h = _base(self.network, run, z0)
        sums = (h[:, 1:] * present[:, 1:, None]).sum(1)
        logits = _readout(self.network, run, sums, h[:, 0])
        nodes = torch.from_numpy(batch).to(labels.device)
        loss = F.cross_entropy(logits, labels[nodes], reduction="sum")
        g0, *others = torch.autograd.grad(loss, (z0, *run.outputs.values()))
        weights, vectors = {}, {"base0.bias": g0}
        for (name, inputs), g in zip(run.inputs.items(), others, strict=True):
            g = _at_places(g)
            vectors[f"{name}.bias"] = g
            for parameter, x in inputs.items():
                x = _at_places(x.detach())
                if run.p[parameter].ndim == 1:
                    vectors[parameter] = x * g
                else:
                    weights[parameter] = x, g
        return x0, g0, weights, vectors  # padding has g = 0

    def _first(self, p: dict[str, Tensor], nodes: Tensor) -> tuple[Any, Tensor]:
        """The features of nodes, and what the first linear map gives of them."""
        with torch.no_grad():
            x0 = self._x.take(nodes)
            return x0, x0.times(p["base0.weight"]) + p["base0.bias"]

    def clipped_row_sum(
        self, values: Tensor, batch: np.ndarray, labels: Tensor, clip: float
    ) -> Tensor:
        """Σ of the gradients of rows clipped to norm `clip`, as the authors' code has it: (P,).

        The code passes a batch's sub-graphs as one graph, their union, through the network, and
        Opacus takes every row that a layer reads for a sample. A node is a row, whichever samples
        it belongs to; its gradient, of the mean loss times the number of rows, is clipped by
        itself. A node's label turns the rows of all that send to it, and its features those of all
        that send to where it sends: in-degrees bound how far the sum moves, not out-degrees
        (`sensitivity.clipped_union_rows`).

        Source: core/data/loader/node.py with core/methods/gnn/node.py of sisaman/ProGAP, and with
        core/methods/node/sage/sage_ndp.py of sisaman/GAP and of thupchnsky/dp-gnn (DPDGC); Opacus
        1.6.0, `GradSampleModule` (loss_reduction "mean"), against which a test holds it.
        """
        degrees, neighbours = self._in_lists(batch)
        nodes, places = np.unique(np.concatenate([batch, neighbours]), return_inverse=True)
        offsets = np.concatenate([[0], np.cumsum(degrees)])
        nodes, places, offsets, asked = (
            torch.from_numpy(part).to(values.device) for part in (nodes, places, offsets, batch)
        )
        own, senders = places.split([len(batch), len(neighbours)])
        run = _Pass(parameters(self.network, values))
        x0, z0 = self._first(run.p, nodes)
        h = _base(self.network, run, z0.requires_grad_())
        sums = F.embedding_bag(senders, h, offsets, mode="sum", include_last_offset=True)
        logits = _readout(self.network, run, sums, h[own])
        loss = F.cross_entropy(logits, labels[asked]) * len(nodes)
        g0, *others = torch.autograd.grad(loss, (z0, *run.outputs.values()))
        # Maps of H⁰ have all rows, those behind the sums the rows of the batch.
        everyone = torch.arange(len(nodes), device=values.device)
        maps = [
            (name, inputs, g, everyone if name.startswith("base") else own)
            for (name, inputs), g in zip(run.inputs.items(), others, strict=True)
        ]
        squares = (x0.squared_norms() + 1) * g0.square().sum(1)
        for _, inputs, g, rows in maps:
            add_rows(squares, rows, g.square().sum(1))
            for parameter, x in inputs.items():
                if run.p[parameter].ndim == 1:
                    part = (x.detach() * g).square().sum(1)
                else:
                    part = x.detach().square().sum(1) * g.square().sum(1)
                add_rows(squares, rows, part)
        factors = clipping_factors(squares, clip)[:, None].to(values.dtype)
        total = torch.zeros_like(values)
        into = parameters(self.network, total)
        x0.add_gradient(into["base0.weight"], g0 * factors)
        into["base0.bias"].add_((g0 * factors).sum(0))
        for name, inputs, g, rows in maps:
            clipped = g * factors[rows]
            into[f"{name}.bias"].add_(clipped.sum(0))
            for parameter, x in inputs.items():
                vector, x = run.p[parameter].ndim == 1, x.detach()
                into[parameter].add_((x * clipped).sum(0) if vector else x.T @ clipped)
        return total

    def _in_lists(self, batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How many in-neighbours each node of a batch has, and these, one list after the other."""
        degrees = np.diff(self._indptr)[batch]
        starts = np.repeat(self._indptr[batch] - (np.cumsum(degrees) - degrees), degrees)
        return degrees, self._indices[starts + np.arange(int(degrees.sum()))]

    def _pad(self, batch: np.ndarray) -> tuple[Tensor, Tensor]:
        """Nodes of the places (B, P), int64, and whether each is one, as numbers 0 and 1."""
        degrees, neighbours = self._in_lists(batch)
        # Padding repeats the sample's own node: of no other may its numbers depend, not even if
        # they overflow.
        places = np.repeat(batch[:, None], int(degrees.max(initial=0)) + 1, 1)
        filled = np.arange(1, places.shape[1]) <= degrees[:, None]
        places[:, 1:][filled] = neighbours
        present = np.concatenate([np.ones((len(batch), 1), bool), filled], 1)
        device = self._like.device
        return (
            torch.from_numpy(places).to(device),
            torch.from_numpy(present).to(device, self._like.dtype),
        )
