"""Train a block of models of equal shape at once.

Every member has its own random streams, data split and hyperparameters; members share tensors for
speed and nothing else, so a member's result does not depend on which others are in its block.
"""

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from graphdp.errors import GraphDPError
from graphdp.noise import GridNoise, NoiseSource
from graphdp.training.checks import check
from graphdp.training.chunk import Chunk, prediction_rows, width_of
from graphdp.training.features import Features, PerMember, SharedDense, SharedSparse, Staged
from graphdp.training.inputs import Neighbours, Scratch
from graphdp.training.layers import forward
from graphdp.training.layout import Layout, Stack
from graphdp.training.members import DPAdam, Fitted, FullBatch, Member, like_of
from graphdp.training.networks import (
    HopClassifier,
    JumpingSage,
    Network,
    Sage,
    StageClassifier,
)

#: On a GPU sparse features of up to so many bytes are made dense: a product of dense matrices has
#: no bag whose length others wait for.
DENSE_BYTES = 4 << 30
#: (positions of the members, parameters (S, P) before the step, noisy sum of clipped gradients
#: (S, P)): what a noisy round computes and releases. The tensors are the trainer's own.
Observer = Callable[[list[int], Stack, Stack], None]


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
    noise: NoiseSource = GridNoise,
    observe: Observer | None = None,
) -> list[Fitted]:
    """Train every member and return the results in the order of `members`.

    A member's result does not depend on the others: bitwise among blocks of equal size on a CPU,
    else up to the rounding of sums, which libraries order by the shape of a stack.

    features: float32 (n, f), dense or `scipy.sparse`, shared by all members; for a `HopClassifier`
    a sequence with, per member, an array (n, hops + 1, d) or a list of hops + 1 arrays (n, d); for
    a `StageClassifier` its `StageInputs`, for a `Sage` or `JumpingSage` its `GraphInputs`. labels:
    int64 (n,), or (len(members), n) where they differ. checkpoint: "best_validation" keeps the
    first epoch of highest validation accuracy, "last" the last epoch. device: "auto" takes CUDA if
    there is one. memory_mb: members are trained in chunks that fit into this many MiB, and in
    halves of them where a GPU has less. label: names the work in progress lines (no lines without
    it). train_history: also evaluate on the training nodes after every epoch, which changes no
    result. posteriors: also keep every node's probabilities. observe: called in every noisy round
    before its step is taken; noise: what draws it; both are for audits. Equal arguments give equal
    results on the same kind of device.

    Raises `GraphDPError` on arguments that do not fit together, on a noise multiplier of 0 (or
    less) in `DPAdam` without `noise_free`, and if the parameters become infinite.
    """
    labels = check(network, features, labels, members, training, checkpoint)
    like = like_of(device, dtype)
    layout = _layout(network, features, like)
    shared = _shared(network, features, layout, like)
    results: list[Fitted | None] = [None] * len(members)

    def fit(chunk: list[int]) -> None:
        source = _source(network, features, shared, chunk, like)
        name = label and f"{label} {min(chunk) + 1}-{max(chunk) + 1} of {len(members)}"
        own = [members[s] for s in chunk]
        job = Chunk(layout, source, labels[chunk], own, like, train_history)
        watch = observe and (lambda *round: observe(chunk, *round))
        rounds = job.fit(training, checkpoint, name, noise, watch)
        for s, result in zip(chunk, job.results(checkpoint, rounds, posteriors), strict=True):
            results[s] = result

    waiting = list(_chunks(layout, shared, members, training, like, memory_mb, train_history))
    while waiting:
        chunk = waiting.pop(0)
        # Whoever observes rounds is not to see some of them twice.
        if not _fits(partial(fit, chunk), 1 if observe else len(chunk)):
            half = -(-len(chunk) // 2)
            waiting[:0] = [chunk[:half], chunk[half:]]
    return results  # type: ignore[return-value]


def _fits(fit: Callable[[], None], count: int) -> bool:
    """Whether there was memory on the GPU to `fit` so many members. Raises `GraphDPError` where
    there is none for one."""
    try:
        fit()
        return True
    except RuntimeError as error:
        if not _short_of_memory(error):
            raise
        if count == 1:
            raise GraphDPError(
                "a model does not fit into the memory that is free on the GPU: set device: cpu, or "
                "run fewer jobs at a time"
            ) from error
    # After the handler: until then the error holds what did not fit.
    torch.cuda.empty_cache()
    print(
        f"{count} models do not fit into the memory that is free on the GPU: "
        f"{-(-count // 2)} at a time",
        file=sys.stderr,
        flush=True,
    )
    return False


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
    for rows in prediction_rows(np.arange(source.num_nodes), layout):
        logits, _ = forward(stack, source.block([0], [rows], training=False), scratch)
        classes[rows] = logits[0].max(0).indices.cpu().numpy()
    return classes


def _short_of_memory(error: BaseException | None) -> bool:
    """Whether that is what went wrong: a recording that breaks off ends in an error of its own."""
    while error is not None and not isinstance(error, torch.OutOfMemoryError):
        error = error.__cause__ or error.__context__
    return error is not None


def _layout(network: Network, features: Any, like: Tensor) -> Layout:
    graph = Neighbours(features.edges, like) if isinstance(network, Sage | JumpingSage) else None
    return Layout(network, graph)


def _shared(network: Network, features: Any, layout: Layout, like: Tensor) -> Features | None:
    """The matrix that all members read, if there is one."""
    if isinstance(network, StageClassifier):
        features = features.features if network.reads_features else None
    elif isinstance(network, Sage | JumpingSage):
        features = features.features
    if features is None or isinstance(network, HopClassifier):
        return None
    if not sparse.issparse(features):
        return SharedDense(np.asarray(features), like)
    if like.device.type != "cpu" and math.prod(features.shape) * like.element_size() <= DENSE_BYTES:
        return SharedDense(features.toarray(), like)
    return SharedSparse(sparse.csr_matrix(features), layout, like)


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
    train_history: bool,
) -> Iterable[list[int]]:
    """Members that are trained together, by position: as many as fit into the memory.

    A full batch on a CPU is trained member by member: the work is far larger than the overhead of
    a call, and what the next call reads is still in the cache. Sums over neighbours take the same
    time for two members as for one: the list of edges is read once.
    """
    largest = max(member.train.size for member in members)
    if layout.neighbours:
        largest = layout.neighbours.num_nodes
    needed = _member_bytes(layout, shared, largest, training, like)
    if like.device.type != "cpu":  # where all members are evaluated at once
        evaluated = max(member.val.size for member in members) + train_history * largest
        needed += like.element_size() * 4 * layout.width * evaluated
    size = max(1, (memory_mb << 20) // needed)
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
        copies += 10  # words of 64 bits, sums and parts of the noise in float64
        rows = width_of(training)
        if isinstance(layout.network, StageClassifier):
            own = num_train * layout.network.hidden * layout.network.aggregates
        elif shared is None:
            own = num_train * layout.leaves[0].inputs * layout.leaves[0].groups
        if isinstance(shared, SharedSparse):
            row += 2 * shared.longest * layout.row
    return like.element_size() * (copies * layout.size + rows * row + own)
