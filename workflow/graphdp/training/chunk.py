"""Members that are trained as one stack, and the batches that they sample."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from graphdp.errors import GraphDPError
from graphdp.noise import NoiseSource
from graphdp.privacy.execution import Execution
from graphdp.progress import progress
from graphdp.rng import generator, stream_seed
from graphdp.training.features import Features
from graphdp.training.inputs import Scratch
from graphdp.training.layers import Input, Masks, backward, forward, forward_training
from graphdp.training.layout import Layout, Stack
from graphdp.training.members import DPAdam, Fitted, FullBatch, Member
from graphdp.training.networks import Dropout, Encoder, StageClassifier
from graphdp.training.optimiser import Adam
from graphdp.training.private import add_clipped_gradients
from graphdp.training.replay import Replay
from graphdp.training.sampling import FixedRounds, PoissonRounds, sample_generator
from graphdp.training.sums import SUMS

PREDICTION_ROWS = 32768  # nodes predicted at a time


def prediction_rows(nodes: np.ndarray, layout: Layout) -> Iterable[np.ndarray]:
    """The nodes in parts to be predicted at a time: in one part where rows are summed."""
    size = nodes.size if layout.neighbours else PREDICTION_ROWS
    return (nodes[start : start + size] for start in range(0, nodes.size, size))


def width_of(training: DPAdam) -> int:
    """Samples of a member that are processed at once: three standard deviations above the expected
    batch. It must depend on nothing else, so that padding is the same in whatever company."""
    deviations = 3 if training.sampling == "poisson" else 0
    return 16 * math.ceil((training.batch_size + deviations * training.batch_size**0.5) / 16)


class Batches:
    """The sampled batches of a chunk, padded to a common width.

    A batch wider than that is processed in several passes, whose clipped sums add up.
    """

    STEPS = 8  # rounds drawn at once

    def __init__(self, training: DPAdam, source: Features, labels, members: list[Member], like):
        self._width = width_of(training)
        self._rounds = []
        for m in members:
            size, rng = m.train.size, sample_generator(m.stream, m.noise_multiplier)
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


def _padded(
    found: Sequence[tuple[np.ndarray, np.ndarray]],
) -> tuple[list[np.ndarray], np.ndarray]:
    """Rows int64 (rows,) of several members, and how often each occurs in each class, int64
    (classes, rows), padded to the longest: padding is a row that stands for no node."""
    longest = max(rows.size for rows, _ in found)
    rows = [np.pad(rows, (0, longest - rows.size), mode="edge") for rows, _ in found]
    return rows, np.stack([np.pad(n, ((0, 0), (0, longest - n.shape[1]))) for _, n in found])


class Chunk:
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
        self.validation = self._evaluations([m.val for m in members])
        self.history: list[Tensor] = []
        self.training = self._evaluations([m.train for m in members]) if train_history else []
        self.train_history: list[Tensor] = []
        self.executed: list[Execution | None] = [None] * len(members)
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

    def _evaluations(self, nodes: Sequence[np.ndarray]) -> list[tuple[Input, Tensor]]:
        """Each member's distinct inputs among its nodes, and how often each occurs in each class,
        int64 (., classes, rows): one by one on a CPU, of all members at once on a GPU."""
        everyone = list(range(len(nodes)))
        together = [[s] for s in everyone] if self.like.device.type == "cpu" else [everyone]
        found = []
        for some in together:
            rows, counts = _padded([self._distinct(s, nodes[s]) for s in some])
            block = self.source.block(some, rows, training=False)
            found.append((block, torch.from_numpy(counts).to(self.like.device)))
        return found

    def _correct(self, nodes: list[tuple[Input, Tensor]]) -> Tensor:
        """How many of its nodes each member classifies rightly, int64 (S,)."""
        found = []
        stacks = self.stack.members if len(nodes) > 1 else [self.stack]
        for stack, (block, counts) in zip(stacks, nodes, strict=True):
            logits, _ = forward(stack, block, self.scratch)
            classes = logits.max(1, keepdim=True).indices  # twice as fast as argmax
            found.append(counts.gather(1, classes).sum((1, 2)))
        return torch.cat(found)

    def fit(
        self,
        training: FullBatch | DPAdam,
        checkpoint: str,
        label: str,
        noise: NoiseSource,
        watch: Callable[[Stack, Stack], None] | None = None,
    ) -> int:
        """Train; returns the number of noisy rounds, each of which `watch` is shown."""
        self._validate = Replay(lambda: self._correct(self.validation), self.like.device)
        try:
            if isinstance(training, FullBatch):
                return self._fit_full(training, checkpoint, label)
            return self._fit_private(training, checkpoint, label, noise, watch)
        finally:
            del self._validate  # it holds this object, and a GPU's memory with it

    def _fit_full(self, training: FullBatch, checkpoint: str, label: str) -> int:
        # Under dropout nodes with equal inputs differ: each has masks of its own.
        dropped = any(isinstance(layer, Dropout) for layer in self.layout.leaves)
        found = [self._distinct(s, m.train, not dropped) for s, m in enumerate(self.members)]
        generators = self._generators() if dropped else []
        masks = self._masks([rows.size for rows, _ in found], generators) if dropped else None
        rows, nodes = _padded(found)
        block = self.source.block(range(len(rows)), rows, training=True)
        nodes = self._tensor(nodes)
        weights = nodes.sum(1, keepdim=True)
        total = weights.sum(-1, keepdim=True)
        weights = None if bool((weights == 1).all()) else weights
        # The norms see all nodes of a graph, the loss its training nodes.
        seen = None if self.layout.neighbours else weights
        gradients = self.stack.gradients()

        def step() -> None:
            logits, tape = forward_training(self.stack, block, self.scratch, seen, masks)
            # The gradient of the mean cross-entropy, over all nodes that a row stands for.
            g = torch.softmax(logits, 1)
            g = g if weights is None else g.mul_(weights)
            g.sub_(nodes).div_(total)
            gradients.values.zero_()
            for delta in backward(self.stack, tape, g, gradients, self.scratch):
                delta.add_to(gradients)
            self.adam.apply(gradients.values)

        replay = Replay(step, self.like.device, generators)
        epochs = range(training.epochs)
        for _ in progress(epochs, label) if label else epochs:
            self.adam.advance()
            replay()
            self._end_epoch(checkpoint)
        return 0

    def _generators(self) -> list[torch.Generator]:
        """Of each member's dropout, on the device that computes."""
        return [
            torch.Generator(self.like.device).manual_seed(stream_seed(*m.stream, "dropout"))
            for m in self.members
        ]

    def _masks(self, rows: list[int], generators: list[torch.Generator]) -> Masks:
        """New masks at every call, from the members' own generators; rows: of each member."""

        def masks(layer: Dropout, shape: Sequence[int]) -> Tensor:
            mask = self.scratch(f"mask {layer.name}", shape)
            for one, count, drawn in zip(mask, rows, generators, strict=True):
                one[:, :count].bernoulli_(1 - layer.rate, generator=drawn)
                one[:, count:] = 0  # padding
            return mask.div_(1 - layer.rate)

        return masks

    def _fit_private(
        self, training: DPAdam, checkpoint: str, label: str, noise: NoiseSource, watch
    ) -> int:
        batches = Batches(training, self.source, self.labels, self.members, self.like)
        scales = [m.noise_multiplier * training.sensitivity for m in self.members]
        # Another scale draws other noise: the same noise at two scales would cancel.
        drawn = noise(
            [(*m.stream, "noise", repr(s)) for m, s in zip(self.members, scales, strict=True)]
        )
        stds = torch.tensor(scales, dtype=torch.float64)
        gradients = self.stack.gradients()
        exact = self.stack.gradients(SUMS)

        def one_pass(rows: Tensor, labels: Tensor, present: Tensor) -> None:
            block, clip = self.source.batch(rows), training.max_grad_norm
            add_clipped_gradients(self.stack, block, labels, present, clip, exact, self.scratch)

        replay = Replay(one_pass, self.like.device)
        ends = Counter(i * training.steps // training.epochs for i in range(1, training.epochs + 1))
        done = 0
        for _ in range(ends[done]):  # fewer rounds than epochs: some end before the first round
            self._end_epoch(checkpoint)
        steps = range(training.steps)
        for _ in progress(steps, label) if label else steps:
            exact.values.zero_()
            for inputs in batches.next():
                replay(*inputs)
            gradients.values.copy_(exact.values)
            if not training.noise_free:
                drawn.add(gradients.values, stds)
            if watch:
                watch(self.stack, gradients)
            self.adam.step(gradients.values.div_(training.batch_size))
            done += 1
            for _ in range(ends[done]):
                self._end_epoch(checkpoint)
        assert done == batches.rounds == training.steps, "rounds executed must be those accounted"
        self.executed = [
            Execution(
                training.sampling,
                done,
                scale,
                training.sampling_rate,
                training.max_grad_norm,
                training.batch_size,
                draws=done * gradients.values.shape[1],
            )
            for scale in scales
        ]
        return done

    def _end_epoch(self, checkpoint: str) -> None:
        """Evaluate on the validation nodes, and keep the parameters that are best so far."""
        correct = self._validate().clone()
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
        for rows in prediction_rows(distinct, self.layout):
            for s in range(count):
                block = self.source.block([s], [rows], training=False)
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
            executed=self.executed[s],
        )
