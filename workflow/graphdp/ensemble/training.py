"""Train a block of models of equal shape at once.

Every member has its own random streams, data split and hyperparameters; members share tensors for
speed and nothing else, so a member's result does not depend on which others are in its block.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from graphdp.ensemble.features import (
    Features,
    GraphInputs,
    PerMember,
    SharedDense,
    SharedSparse,
    Staged,
    StageInputs,
)
from graphdp.ensemble.inputs import Neighbours, Scratch
from graphdp.ensemble.layers import Input, Masks, backward, forward, forward_training
from graphdp.ensemble.networks import (
    Dropout,
    Encoder,
    HopClassifier,
    Layout,
    Network,
    Sage,
    Stack,
    StageClassifier,
    leaves,
)
from graphdp.ensemble.optimiser import Adam
from graphdp.ensemble.private import GaussianNoise, add_clipped_gradients
from graphdp.ensemble.sampling import FixedRounds, PoissonRounds
from graphdp.errors import GraphDPError
from graphdp.progress import progress
from graphdp.rng import generator, stream_seed

PREDICTION_ROWS = 32768  # nodes predicted at a time
CHECKPOINTS = ("best_validation", "last")

#: (positions of the members, parameters (S, P) before the step, noisy sum of clipped gradients
#: (S, P)): what a noisy round computes and releases. The tensors are the trainer's own.
Observer = Callable[[list[int], Stack, Stack], None]


@dataclass(frozen=True)
class Member:
    """One model of a block.

    stream: the name of its random streams; "init", "sampling", "noise" and "dropout" are appended
    to it.
    noise_multiplier: noise std / `DPAdam.sensitivity`; 0 unless trained by `DPAdam`.
    train, val, test: int64 node indices, none of them empty.
    initial: parameters and running statistics to start from, named and shaped as in
    `Fitted.parameters`; what it does not name is drawn afresh.
    """

    stream: tuple
    learning_rate: float
    noise_multiplier: float
    train: np.ndarray
    val: np.ndarray
    test: np.ndarray
    initial: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class FullBatch:
    """Adam on the mean cross-entropy over all training nodes, one step per epoch."""

    epochs: int


@dataclass(frozen=True)
class DPAdam:
    """DP-Adam: exactly `steps` rounds on samples of the training nodes; clipped gradients are
    summed, noised and divided by `batch_size`.

    sampling: "poisson" takes each node with probability `sampling_rate`, `batch_size` in
    expectation; "fixed" takes exactly `batch_size`, uniformly without replacement, which are the
    share `sampling_rate` of the nodes. The first is accounted for a record that is there or not,
    the second for a replaced one (`sensitivity`).

    Epoch i of `epochs` ends after round floor(i · steps / epochs). `noise_free` allows a noise
    multiplier of 0 (and no other), for comparisons without any privacy.
    """

    epochs: int
    batch_size: int
    sampling_rate: float
    steps: int
    max_grad_norm: float
    noise_free: bool = False
    sampling: Literal["poisson", "fixed"] = "poisson"

    @property
    def sensitivity(self) -> float:
        """The most that one record moves the sum: C where it joins it, 2C where it is replaced.

        The noise's standard deviation is noise multiplier · sensitivity.
        """
        return self.max_grad_norm if self.sampling == "poisson" else 2 * self.max_grad_norm


@dataclass(frozen=True)
class Fitted:
    """A trained model, at its best epoch by validation accuracy or at its last.

    Accuracies are fractions, by the checkpoint that was kept. best_epoch counts from 1.
    predictions: int16 (n,) for all nodes. embedding: float32 (n, hidden) of an `Encoder`, or of
    the last base of a `StageClassifier`, else None. parameters: by name, as `torch.nn` shapes them.
    history: validation accuracy after each epoch, float64 (epochs,). train_history: training
    accuracy likewise, in evaluation mode, if it was asked for. rounds: noisy rounds that were
    executed (0 for full batches). posteriors: float32 (n, classes), the probabilities of all nodes,
    if they were asked for.
    """

    train_accuracy: float
    val_accuracy: float
    test_accuracy: float
    best_epoch: int
    predictions: np.ndarray
    embedding: np.ndarray | None
    parameters: dict[str, np.ndarray]
    history: np.ndarray
    rounds: int
    train_history: np.ndarray | None = None
    posteriors: np.ndarray | None = None


def train(
    network: Network,
    features: Any,
    labels: np.ndarray,
    members: Sequence[Member],
    training: FullBatch | DPAdam,
    *,
    checkpoint: str = "best_validation",
    device: str = "auto",
    memory_mb: int = 2048,
    label: str = "",
    train_history: bool = False,
    posteriors: bool = False,
    dtype: torch.dtype = torch.float32,
    observe: Observer | None = None,
) -> list[Fitted]:
    """Train every member and return the results in the order of `members`.

    A member's result does not depend on the others: bitwise among blocks of equal size on a CPU,
    else up to the rounding of sums, which libraries order by the shape of a stack.

    features: float32 (n, f), dense or `scipy.sparse`, shared by all members; for a `HopClassifier`
    a sequence with, per member, an array (n, hops + 1, d) or a list of hops + 1 arrays (n, d); for
    a `StageClassifier` its `StageInputs`, for a `Sage` its `GraphInputs`. labels: int64 (n,), or
    (len(members), n) where they differ. checkpoint: "best_validation" keeps the first epoch of
    highest validation accuracy, "last" the last epoch. device: "auto" takes CUDA if there is one.
    memory_mb: members are trained in chunks that fit into this many MiB. label: names the work in
    progress lines (no lines without it). train_history: also evaluate on the training nodes after
    every epoch, which changes no result. posteriors: also keep every node's probabilities. observe:
    called in every noisy round before its step is taken; for audits. Equal arguments give equal
    results on the same kind of device.

    Raises `GraphDPError` on arguments that do not fit together, on a noise multiplier of 0 (or
    less) in `DPAdam` without `noise_free`, and if the parameters become infinite.
    """
    labels = _check(network, features, labels, members, training, checkpoint)
    like = like_of(device, dtype)
    layout = _layout(network, features, like)
    shared = _shared(network, features, layout, like)
    results: list[Fitted | None] = [None] * len(members)
    for chunk in _chunks(layout, shared, members, training, like, memory_mb):
        source = _source(network, features, shared, chunk, like)
        name = label and f"{label} {min(chunk) + 1}-{max(chunk) + 1} of {len(members)}"
        own = [members[s] for s in chunk]
        job = _Chunk(layout, source, labels[chunk], own, like, train_history)
        watch = observe and (lambda *round, chunk=chunk: observe(chunk, *round))
        rounds = job.fit(training, checkpoint, name, watch)
        for s, result in zip(chunk, job.results(checkpoint, rounds, posteriors), strict=True):
            results[s] = result
    return results  # type: ignore[return-value]


def predict(
    network: Network,
    features: Any,
    parameters: Mapping[str, np.ndarray],
    *,
    device: str = "auto",
    dtype: torch.dtype = torch.float32,
) -> np.ndarray:
    """The classes that one trained network predicts for all nodes, int16 (n,).

    features: as `train` takes them for one member. parameters: a `Fitted.parameters`, all of them.
    """
    like = like_of(device, dtype)
    layout = _layout(network, features, like)
    sizes = (layout.size, sum(math.prod(shape) for shape in layout.running.values()))
    stack = Stack(layout, *(like.new_zeros(1, size) for size in sizes))
    if missing := {*layout.shapes, *layout.running} - set(parameters):
        raise GraphDPError(f"parameters of {network} lack {', '.join(sorted(missing))}")
    stack.load(parameters)
    shared = _shared(network, features, layout, like)
    source = _source(network, features, shared, [0], like)
    scratch = Scratch(like)
    classes = np.empty(source.num_nodes, np.int16)
    for rows in _prediction_rows(np.arange(source.num_nodes), layout):
        logits, _ = forward(stack, source.block([0], [rows], training=False), scratch)
        classes[rows] = logits[0].max(0).indices.cpu().numpy()
    return classes


def _layout(network: Network, features: Any, like: Tensor) -> Layout:
    graph = Neighbours(features.edges, like) if isinstance(network, Sage) else None
    return Layout(network, graph)


def _prediction_rows(nodes: np.ndarray, layout: Layout) -> Iterable[np.ndarray]:
    """The nodes in parts to be predicted at a time: in one part where rows are summed."""
    size = nodes.size if layout.neighbours else PREDICTION_ROWS
    return (nodes[start : start + size] for start in range(0, nodes.size, size))


def check_checkpoint(checkpoint: str) -> None:
    """Raises GraphDPError for an unknown rule of which epoch to keep."""
    if checkpoint not in CHECKPOINTS:
        raise GraphDPError(f"checkpoint {checkpoint!r} is not one of {', '.join(CHECKPOINTS)}")


def like_of(device: str, dtype: torch.dtype) -> Tensor:
    """An empty tensor of the device ("auto": CUDA if there is one) and dtype to compute in."""
    device = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    return torch.empty(0, dtype=dtype, device=device)


def _check(network, features, labels, members, training, checkpoint) -> np.ndarray:
    """Raise on what does not fit together; returns the labels as (members, n)."""
    if not members:
        raise GraphDPError("a block needs at least one member")
    check_checkpoint(checkpoint)
    labels = np.asarray(labels)
    if labels.ndim == 1:
        labels = np.broadcast_to(labels, (len(members), labels.size))
    if labels.dtype.kind not in "iu" or len(labels) != len(members):
        raise GraphDPError("labels must be integers, (n,) or (members, n)")
    if labels.min(initial=0) < 0 or labels.max(initial=0) >= network.classes:
        raise GraphDPError(f"labels must lie in 0..{network.classes - 1}")
    _check_features(network, features, labels.shape[1], len(members))
    if training.epochs < 1:
        raise GraphDPError(f"epochs is {training.epochs}: at least 1")
    for member in members:
        _check_member(member, labels.shape[1], training)
    if isinstance(training, DPAdam):
        if network.batch_norm:
            raise GraphDPError("batch norm mixes samples: DP training needs batch_norm=False")
        if isinstance(network, Sage):
            raise GraphDPError("message passing mixes samples: train Sage by sage.train_private")
        if any(isinstance(layer, Dropout) for layer in leaves(network.sequence)):
            raise GraphDPError("dropout is not for DP training: leave it out")
        if training.steps < 1 or training.batch_size < 1 or not training.max_grad_norm > 0:
            raise GraphDPError("DP training needs positive steps, batch_size and max_grad_norm")
        if training.sampling not in ("poisson", "fixed"):
            raise GraphDPError(f"sampling is {training.sampling!r}; choose poisson or fixed")
    return labels


def _check_features(network, features, num_nodes: int, members: int) -> None:
    if isinstance(network, StageClassifier):
        _check_stage_inputs(network, features, num_nodes, members)
    elif isinstance(network, HopClassifier):
        if sparse.issparse(features) or len(features) != members:
            raise GraphDPError(f"a HopClassifier needs one input per member ({members})")
        expected = (num_nodes, network.hops + 1, network.in_features)
        for given in features:
            if isinstance(given, list | tuple):
                shapes = {part.shape for part in given}
                shape = (*shapes.pop(), len(given)) if len(shapes) == 1 else ()
                shape = (shape[0], shape[2], shape[1]) if len(shape) == 3 else shape
            else:
                shape = given.shape
            if shape != expected:
                raise GraphDPError(f"a member's hop inputs have shape {shape}, not {expected}")
    elif isinstance(network, Sage):
        expected = (num_nodes, network.in_features)
        if not isinstance(features, GraphInputs) or features.features.shape != expected:
            raise GraphDPError(f"a Sage network needs GraphInputs with features {expected}")
        if features.edges.num_nodes != num_nodes:
            raise GraphDPError(f"the graph has {features.edges.num_nodes} nodes, not {num_nodes}")
    elif features.shape != (num_nodes, network.in_features):
        raise GraphDPError(
            f"features have shape {features.shape}, not {(num_nodes, network.in_features)}"
        )


def _check_stage_inputs(network, inputs, num_nodes: int, members: int) -> None:
    if not isinstance(inputs, StageInputs) or len(inputs.aggregates) != members:
        raise GraphDPError(
            f"a StageClassifier needs StageInputs with one entry per member ({members})"
        )
    expected = (num_nodes, network.in_features)
    if network.reads_features and getattr(inputs.features, "shape", None) != expected:
        raise GraphDPError(f"features of a StageClassifier must have the shape {expected}")
    expected = [(num_nodes, network.hidden)] * network.aggregates
    for own in inputs.aggregates:
        if [part.shape for part in own] != expected:
            raise GraphDPError(f"a member's aggregates must be {len(expected)} of {expected[:1]}")


def _check_member(member: Member, num_nodes: int, training: FullBatch | DPAdam) -> None:
    for name in ("train", "val", "test"):
        nodes = getattr(member, name)
        if nodes.size == 0 or nodes.min() < 0 or nodes.max() >= num_nodes:
            raise GraphDPError(f"{name} nodes of {member.stream} are empty or not in the graph")
    if np.unique(member.train).size != member.train.size:
        # A node listed twice would contribute twice the clip to a step.
        raise GraphDPError(f"train nodes of {member.stream} are not distinct")
    if isinstance(training, DPAdam) and training.sampling == "fixed":
        rate, size = training.sampling_rate, training.batch_size
        if not math.isclose(rate * member.train.size, size):
            raise GraphDPError(
                f"{size} of {member.train.size} nodes of {member.stream} are not the share "
                f"{rate} that is accounted; sample batch size / nodes"
            )
    if not (member.learning_rate > 0 and math.isfinite(member.learning_rate)):
        raise GraphDPError(f"learning rate {member.learning_rate} of {member.stream}: above 0")
    noisy = isinstance(training, DPAdam) and not training.noise_free
    multiplier = member.noise_multiplier
    if noisy and not (multiplier > 0 and math.isfinite(multiplier)):
        raise GraphDPError(
            f"noise multiplier {multiplier} of {member.stream} gives no privacy: "
            "calibrate it, or say noise_free=True"
        )
    if not noisy and multiplier != 0:
        raise GraphDPError(f"noise multiplier {multiplier} of {member.stream} would not be used")


def _shared(network: Network, features: Any, layout: Layout, like: Tensor) -> Features | None:
    """The matrix that all members read, if there is one."""
    if isinstance(network, StageClassifier):
        features = features.features if network.reads_features else None
    elif isinstance(network, Sage):
        features = features.features
    if features is None or isinstance(network, HopClassifier):
        return None
    if sparse.issparse(features):
        return SharedSparse(sparse.csr_matrix(features), layout, like)
    return SharedDense(np.asarray(features), like)


def _source(
    network: Network, features: Any, shared: Features | None, chunk: list[int], like: Tensor
) -> Features:
    """What the members of a chunk read."""
    if isinstance(network, StageClassifier):
        own = [features.aggregates[s] for s in chunk]
        return Staged(shared, PerMember(own, like) if network.aggregates else None)
    return shared or PerMember([features[s] for s in chunk], like)


def _chunks(
    layout: Layout,
    shared: Features | None,
    members: Sequence[Member],
    training: FullBatch | DPAdam,
    like: Tensor,
    memory_mb: int,
) -> Iterable[list[int]]:
    """Members that are trained together, by position: as many as fit into the memory.

    A full batch on a CPU is trained member by member: the work is far larger than the overhead of
    a call, and what the next call reads is still in the cache. Sums over neighbours take the same
    time for two members as for one: the list of edges is read once.
    """
    largest = max(member.train.size for member in members)
    if layout.neighbours:
        largest = layout.neighbours.num_nodes
    size = max(1, (memory_mb << 20) // _member_bytes(layout, shared, largest, training, like))
    if isinstance(training, FullBatch) and like.device.type == "cpu":
        size = min(size, 2 if layout.neighbours else 1)
    for start in range(0, len(members), size):
        yield list(range(start, min(len(members), start + size)))


def _member_bytes(
    layout: Layout,
    shared: Features | None,
    num_train: int,
    training: FullBatch | DPAdam,
    like: Tensor,
) -> int:
    """An estimate, rather too large, of the memory that one member of a stack needs."""
    copies = 6  # parameters, gradients, two moments, work space, checkpoint
    rows, row, own = num_train, 4 * layout.width, 0
    if isinstance(training, DPAdam):
        copies += 2 * GaussianNoise.STEPS
        rows = _width(training)
        if isinstance(layout.network, StageClassifier):
            own = num_train * layout.network.hidden * layout.network.aggregates
        elif shared is None:
            own = num_train * layout.leaves[0].inputs * layout.leaves[0].groups
        if isinstance(shared, SharedSparse):
            row += 2 * shared.longest * layout.row
    return like.element_size() * (copies * layout.size + rows * row + own)


def _width(training: DPAdam) -> int:
    """Samples of a member that are processed at once: three standard deviations above the expected
    batch. It must depend on nothing else, so that padding is the same in whatever company."""
    deviations = 3 if training.sampling == "poisson" else 0
    return 16 * math.ceil((training.batch_size + deviations * training.batch_size**0.5) / 16)


class _Batches:
    """The sampled batches of a chunk, padded to a common width.

    A batch wider than that is processed in several passes, whose clipped sums add up.
    """

    STEPS = 8  # rounds drawn at once

    def __init__(self, training: DPAdam, source: Features, labels, members: list[Member], like):
        self._width = _width(training)
        self._rounds = []
        for m in members:
            size, rng = m.train.size, generator(*m.stream, "sampling")
            if training.sampling == "poisson":
                self._rounds.append(PoissonRounds(size, training.sampling_rate, rng))
            else:
                self._rounds.append(FixedRounds(size, training.batch_size, rng))
        self._lookup = source.prepare_batches([m.train for m in members])
        self._labels = [labels[s][m.train] for s, m in enumerate(members)]
        self._like = like
        self._ready: list[list[tuple[Tensor, Tensor, Tensor]]] = []
        self.rounds = 0  # handed out

    def next(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """The next round's passes: table rows and labels, int64 (S, W), and presence (S, W)."""
        if not self._ready:
            self._ready = self._draw()
        self.rounds += 1
        return self._ready.pop(0)

    def _draw(self) -> list[list[tuple[Tensor, Tensor, Tensor]]]:
        drawn = [rounds.take(self.STEPS) for rounds in self._rounds]
        most = np.max([counts for counts, _ in drawn], axis=0)
        passes = np.maximum(-(-most // self._width), 1)
        shape = (self.STEPS, len(drawn), int(passes.max()) * self._width)
        rows, labels = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        present = np.zeros(shape, bool)
        for s, (counts, items) in enumerate(drawn):
            filled = np.arange(shape[2]) < counts[:, None]
            present[:, s] = filled
            rows[:, s][filled] = self._lookup[s][items]
            labels[:, s][filled] = self._labels[s][items]
        device = self._like.device
        tensors = [
            torch.from_numpy(rows).to(device),
            torch.from_numpy(labels).to(device),
            torch.from_numpy(present).to(device, self._like.dtype),
        ]
        return [
            [
                tuple(t[step, :, i * self._width : (i + 1) * self._width] for t in tensors)
                for i in range(passes[step])
            ]
            for step in range(self.STEPS)
        ]


class _Chunk:
    """Members that are trained as one stack."""

    def __init__(
        self,
        layout: Layout,
        source: Features,
        labels: np.ndarray,
        members: list[Member],
        like: Tensor,
        train_history: bool,
    ):
        self.layout, self.source, self.labels, self.members = layout, source, labels, members
        self.like = like
        self.scratch = Scratch(like)
        initial = [layout.initial(generator(*m.stream, "init")) for m in members]
        self.stack = Stack(layout, *(self._tensor(np.stack(v)) for v in zip(*initial, strict=True)))
        for one, m in zip(self.stack.members, members, strict=True):
            one.load(m.initial)
        rates = self._tensor(np.array([[m.learning_rate] for m in members]))
        self.adam = Adam(self.stack.values, rates)
        self.validation = [self._evaluation(s, m.val) for s, m in enumerate(members)]
        self.history: list[Tensor] = []
        self.training = []
        if train_history:
            self.training = [self._evaluation(s, m.train) for s, m in enumerate(members)]
        self.train_history: list[Tensor] = []
        self.best = torch.full((len(members),), -1, device=like.device)
        self.kept = Stack(layout, self.stack.values.clone(), self.stack.running.clone())

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.like.device, self.like.dtype)

    def _distinct(
        self, s: int, nodes: np.ndarray, merge: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """The distinct inputs among a member's nodes (without `merge` the nodes, for convolutions
        those of the graph), and how often each occurs in each class: int64 (rows,) and (classes,
        rows)."""
        if self.layout.neighbours:
            rows, place = np.arange(self.source.num_nodes), nodes
        else:
            read = self.source.twins(nodes) if merge else nodes
            rows, place = np.unique(read, return_inverse=True)
        classes = self.layout.network.classes
        cells = np.bincount(
            self.labels[s][nodes] * rows.size + place, minlength=classes * rows.size
        )
        return rows, cells.reshape(classes, rows.size)

    def _evaluation(self, s: int, nodes: np.ndarray) -> tuple[Input, Tensor]:
        """A member's distinct inputs among some nodes, and how often each occurs in each class."""
        rows, counts = self._distinct(s, nodes)
        return self._member_block(s, rows), torch.from_numpy(counts).to(self.like.device)

    def _member_block(self, s: int, rows: np.ndarray) -> Input:
        return self.source.block([s], [rows], training=False)

    def _predict(self, stack: Stack, s: int, block: Input) -> tuple[Tensor, Tensor | None]:
        """Member s: predicted classes (rows,), and the network's embedding (1, ., rows)."""
        logits, embedding = forward(stack.members[s], block, self.scratch)
        return logits[0].max(0).indices, embedding  # twice as fast as argmax

    def _correct(self, nodes: list[tuple[Input, Tensor]]) -> Tensor:
        """How many of its nodes each member classifies rightly, int64 (S,)."""
        return torch.stack(
            [
                counts.gather(0, self._predict(self.stack, s, block)[0].unsqueeze(0)).sum()
                for s, (block, counts) in enumerate(nodes)
            ]
        )

    def fit(
        self,
        training: FullBatch | DPAdam,
        checkpoint: str,
        label: str,
        watch: Callable[[Stack, Stack], None] | None = None,
    ) -> int:
        """Train; returns the number of noisy rounds, each of which `watch` is shown."""
        if isinstance(training, FullBatch):
            return self._fit_full(training, checkpoint, label)
        return self._fit_private(training, checkpoint, label, watch)

    def _fit_full(self, training: FullBatch, checkpoint: str, label: str) -> int:
        # Under dropout nodes with equal inputs differ: each has masks of its own.
        dropped = any(isinstance(layer, Dropout) for layer in self.layout.leaves)
        found = [self._distinct(s, m.train, not dropped) for s, m in enumerate(self.members)]
        masks = self._masks([rows.size for rows, _ in found]) if dropped else None
        longest = max(rows.size for rows, _ in found)
        rows = [np.pad(rows, (0, longest - rows.size), mode="edge") for rows, _ in found]
        block = self.source.block(range(len(rows)), rows, training=True)
        # How many nodes a row stands for, by class; padding stands for none.
        nodes = np.stack([np.pad(n, ((0, 0), (0, longest - n.shape[1]))) for _, n in found])
        nodes = self._tensor(nodes)
        weights = nodes.sum(1, keepdim=True)
        total = weights.sum(-1, keepdim=True)
        weights = None if bool((weights == 1).all()) else weights
        # The norms see all nodes of a graph, the loss its training nodes.
        seen = None if self.layout.neighbours else weights
        gradients = self.stack.gradients()
        epochs = range(training.epochs)
        for _ in progress(epochs, label) if label else epochs:
            logits, tape = forward_training(self.stack, block, self.scratch, seen, masks)
            # The gradient of the mean cross-entropy, over all nodes that a row stands for.
            g = torch.softmax(logits, 1)
            g = g if weights is None else g.mul_(weights)
            g.sub_(nodes).div_(total)
            gradients.values.zero_()
            for delta in backward(self.stack, tape, g, gradients, self.scratch):
                delta.add_to(gradients)
            self.adam.step(gradients.values)
            self._end_epoch(checkpoint)
        return 0

    def _masks(self, rows: list[int]) -> Masks:
        """New masks at every call, from the members' own streams; rows: of each member."""
        device = self.like.device
        generators = [
            torch.Generator(device).manual_seed(stream_seed(*m.stream, "dropout"))
            for m in self.members
        ]

        def masks(layer: Dropout, shape: Sequence[int]) -> Tensor:
            mask = self.scratch(f"mask {layer.name}", shape)
            for one, count, drawn in zip(mask, rows, generators, strict=True):
                one[:, :count].bernoulli_(1 - layer.rate, generator=drawn)
                one[:, count:] = 0  # padding
            return mask.div_(1 - layer.rate)

        return masks

    def _fit_private(self, training: DPAdam, checkpoint: str, label: str, watch) -> int:
        batches = _Batches(training, self.source, self.labels, self.members, self.like)
        scales = [m.noise_multiplier * training.sensitivity for m in self.members]
        # Another noise multiplier draws other noise: the same noise at two scales would cancel.
        seeds = [stream_seed(*m.stream, "noise", m.noise_multiplier) for m in self.members]
        noise = GaussianNoise(seeds, self._tensor(np.array(scales)[:, None]), self.layout.size)
        ends = Counter(i * training.steps // training.epochs for i in range(1, training.epochs + 1))
        done = 0
        for _ in range(ends[done]):  # fewer rounds than epochs: some end before the first round
            self._end_epoch(checkpoint)
        steps = range(training.steps)
        for step in progress(steps, label) if label else steps:
            if step % noise.STEPS == 0:
                drawn = noise.steps()
            gradients = Stack(self.layout, drawn[step % noise.STEPS])
            for rows, labels, present in batches.next():
                block = self.source.batch(rows)
                clip = training.max_grad_norm
                add_clipped_gradients(
                    self.stack, block, labels, present, clip, gradients, self.scratch
                )
            if watch:
                watch(self.stack, gradients)
            self.adam.step(gradients.values.div_(training.batch_size))
            done += 1
            for _ in range(ends[done]):
                self._end_epoch(checkpoint)
        assert done == batches.rounds == training.steps, "rounds executed must be those accounted"
        return done

    def _end_epoch(self, checkpoint: str) -> None:
        """Evaluate on the validation nodes, and keep the parameters that are best so far."""
        correct = self._correct(self.validation)
        self.history.append(correct)
        if self.training:
            self.train_history.append(self._correct(self.training))
        if checkpoint == "best_validation":
            better = (correct > self.best).unsqueeze(1)
            for kept, now in (
                (self.kept.values, self.stack.values),
                (self.kept.running, self.stack.running),
            ):
                torch.where(better, now, kept, out=kept)
            self.best = torch.maximum(self.best, correct)
        else:
            self.kept = self.stack

    def results(self, checkpoint: str, rounds: int, posteriors: bool) -> list[Fitted]:
        """Predict all nodes with the kept parameters."""
        if not torch.isfinite(self.kept.values).all():
            raise GraphDPError("parameters became infinite: scale the features or lower the rate")
        size, count = self.source.num_nodes, len(self.members)
        network = self.layout.network
        predictions = np.empty((count, size), np.int16)
        embedding = None
        if isinstance(network, Encoder | StageClassifier):
            embedding = np.empty((count, size, network.hidden), np.float32)
        shares = np.empty((count, size, network.classes), np.float32) if posteriors else None
        twins = self.source.twins(np.arange(size))
        distinct = np.unique(twins)
        for rows in _prediction_rows(distinct, self.layout):
            for s in range(count):
                block = self._member_block(s, rows)
                logits, embedded = forward(self.kept.members[s], block, self.scratch)
                predictions[s, rows] = logits[0].max(0).indices.cpu().numpy()
                if shares is not None:
                    shares[s, rows] = torch.softmax(logits[0], 0).T.cpu().numpy()
                if embedding is not None:
                    embedding[s, rows] = embedded[0].T.cpu().numpy()
        history = torch.stack(self.history, 1).cpu().numpy()
        train_history = [None] * count
        if self.train_history:
            train_history = torch.stack(self.train_history, 1).cpu().numpy()
        predictions = predictions[:, twins]
        embedding = None if embedding is None else embedding[:, twins]
        shares = [None] * count if shares is None else shares[:, twins]
        results = [
            self._result(
                s, predictions[s], embedding, history[s], train_history[s], checkpoint, rounds
            )
            for s in range(count)
        ]
        return [replace(one, posteriors=own) for one, own in zip(results, shares, strict=True)]

    def _result(
        self, s, predictions, embedding, correct, train_correct, checkpoint, rounds
    ) -> Fitted:
        member = self.members[s]
        right = predictions == self.labels[s]
        best = int(correct.argmax()) if checkpoint == "best_validation" else len(correct) - 1
        return Fitted(
            train_accuracy=float(right[member.train].mean()),
            val_accuracy=float(correct[best] / member.val.size),
            test_accuracy=float(right[member.test].mean()),
            best_epoch=best + 1,
            predictions=predictions,
            embedding=None if embedding is None else embedding[s],
            parameters=self.kept.members[s].arrays(),
            history=correct / member.val.size,
            rounds=rounds,
            train_history=None if train_correct is None else train_correct / member.train.size,
        )
