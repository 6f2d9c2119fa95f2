"""One way to descend: Adam on one model, over full batches or on noisy sums of clipped gradients.

How a phase is trained is data (`Rounds`); what the network is, its caller's. Members of a block are
trained one after the other: for networks whose step is long enough to gain nothing from stacking.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from graphdp.errors import GraphDPError
from graphdp.noise import GridNoise, NoiseSource
from graphdp.privacy.execution import Execution
from graphdp.progress import progress
from graphdp.training.sampling import PoissonRounds, sample_generator
from graphdp.training.sums import SUMS

#: Sees the parameters (P,) and the noisy sum of clipped gradients (P,) of a round; for audits.
Observer = Callable[[Tensor, Tensor], None]
_NORM_EPS = 1e-6  # as in Opacus: keeps the quotient finite, and rounds the clipping factor down


@dataclass(frozen=True)
class Rounds:
    """How a phase is trained with Adam.

    sampling: "full" (all training nodes in every step) or "shuffle" (every node once an epoch, in
    batches), both without noise; "poisson" or "fixed" (without replacement) samples of
    (expected) size batch_size, exactly `steps` of them, with sums of gradients clipped to norm
    max_grad_norm and noise of standard deviation noise_std, divided by batch_size. "partition":
    the batches of "shuffle" with that noise, for authors' code that accounts them as samples.
    `noise_free` allows noise of scale 0 (and no other), for comparisons without any privacy.
    """

    sampling: Literal["full", "shuffle", "poisson", "fixed", "partition"]
    epochs: int
    batch_size: int = 0
    sampling_rate: float = 1.0
    steps: int = 0
    max_grad_norm: float = math.inf
    noise_std: float = 0.0
    noise_free: bool = False

    @property
    def private(self) -> bool:
        return self.sampling in ("poisson", "fixed", "partition")

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise GraphDPError(f"epochs is {self.epochs}: at least 1")
        if self.sampling != "full" and self.batch_size < 1:
            raise GraphDPError(f"batch_size is {self.batch_size}: at least 1")
        if self.noise_free and not (self.private and self.noise_std == 0):
            raise GraphDPError("noise-free rounds are sampled ones with noise of scale 0")
        noisy = self.noise_std > 0 and math.isfinite(self.noise_std)
        if self.private and not noisy and not self.noise_free:
            raise GraphDPError(
                f"noise of scale {self.noise_std} with a finite ε: calibrate the noise"
            )
        if self.private and not (self.steps > 0 and 0 < self.max_grad_norm < math.inf):
            raise GraphDPError("DP training needs positive steps and max_grad_norm")
        if not self.private and self.noise_std != 0:
            raise GraphDPError(f"noise of scale {self.noise_std} would not be used")


def rounds_of(
    run: Execution, epochs: int, *, noise_free: bool = False, batch_size: int | None = None
) -> Rounds:
    """The noisy rounds that a plan accounts. batch_size: by which sums are divided, if not as it
    says; noise_free: without privacy, as `Rounds`."""
    return Rounds(
        run.sampling,
        epochs,
        batch_size or run.batch_size,
        run.sampling_rate,
        run.count,
        run.max_grad_norm,
        run.noise_std,
        noise_free=noise_free,
    )


def batches(rounds: Rounds, num_train: int, rng: np.random.Generator) -> Iterator[list[np.ndarray]]:
    """The batches of each epoch: positions among the training nodes, int64.

    Epoch i of E private ones ends after round floor(i · steps / E).
    """
    sampled = rounds.sampling in ("poisson", "fixed")
    poisson = PoissonRounds(num_train, rounds.sampling_rate, rng) if sampled else None
    for epoch in range(rounds.epochs):
        if sampled:
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
    noise: NoiseSource = GridNoise,
    mean: Callable[[Tensor, int], None] | None = None,
    observe: Observer | None = None,
    label: str = "",
) -> Execution | None:
    """Train the parameters `values` (P,) in place; returns how the noisy rounds were run, if any.

    add_gradient(nodes, gradients, clip): adds to `gradients` (P,) the sum over `nodes` of the
    gradients of their own losses, each clipped to norm `clip` unless that is None; then they are
    float64, else of the parameters' dtype.
    train: int64 training nodes, distinct. stream: "sampling" and "noise" are appended to it.
    weight_decay: λ, of which λ times the parameters is added to each step's (noisy) mean gradient.
    mean(sums, size): makes the noisy sums (P,) of a batch of `size` nodes, in place, the gradient
    of a step, for code that does not divide them by `rounds.batch_size`.
    observe: called in every noisy round before its step is taken; noise: what draws it; for audits.
    """
    if np.unique(train).size != train.size:
        # A node listed twice would contribute twice the clip to a step.
        raise GraphDPError(f"train nodes of {stream} are not distinct")
    nodes = torch.tensor(train, device=values.device)
    adam = torch.optim.Adam([values], learning_rate, weight_decay=weight_decay, fused=True)
    # Trainings that differ in the scale of their noise alone must not share it.
    drawn = noise([(*stream, "noise", repr(rounds.noise_std))])
    std = torch.tensor([rounds.noise_std], dtype=torch.float64)
    gradients, done = torch.empty_like(values), 0
    values.grad = gradients
    exact = torch.empty_like(values, dtype=SUMS) if rounds.private else gradients
    clip = rounds.max_grad_norm if rounds.private else None
    noisy = rounds.private and not rounds.noise_free
    epochs = batches(rounds, train.size, sample_generator(stream, rounds.noise_std))
    for epoch in progress(epochs, label, rounds.epochs) if label else epochs:
        for batch in epoch:
            exact.zero_()
            if batch.size:  # a Poisson sample may be empty: then the step is noise alone
                chosen = nodes[torch.from_numpy(batch).to(values.device)]
                add_gradient(chosen, exact, clip)
            if rounds.private:
                gradients.copy_(exact)
            if noisy:
                drawn.add(gradients[None], std)
                if observe:
                    observe(values, gradients)
            done += rounds.private
            if mean:
                mean(gradients, batch.size)
            else:
                gradients.div_(rounds.batch_size if rounds.private else batch.size)
            adam.step()
            after_step()
        after_epoch()
    if not bool(torch.isfinite(values).all()):
        raise GraphDPError("parameters became infinite: scale the features or lower the rate")
    assert done == (rounds.steps if rounds.private else 0), "rounds executed must be accounted"
    if not noisy:
        return None
    rate = rounds.sampling_rate
    if rounds.sampling == "fixed":  # reads no rate: it is what it was, of these nodes
        rate = min(rounds.batch_size, train.size) / train.size
    return Execution(
        rounds.sampling,
        done,
        rounds.noise_std,
        rate,
        rounds.max_grad_norm,
        None if mean else rounds.batch_size,
        draws=done * values.numel(),
    )


def clipping_factors(squared_norms: Tensor, clip: float) -> Tensor:
    """min(1, C / ‖gradient‖) per sample, and 0 for a norm that overflowed."""
    norms = squared_norms.sqrt()
    return (clip / (norms + _NORM_EPS)).clamp(max=1.0).mul(norms.isfinite()).nan_to_num(0.0)


def dropped(x: Tensor, rate: float, draw: torch.Generator) -> Tensor:
    """Dropout: every entry is 0 with probability `rate`, the others are divided by 1 - rate."""
    kept = torch.rand(x.shape, generator=draw, dtype=x.dtype, device=x.device)
    return x * (kept >= rate) / (1 - rate)


def views(values: Tensor, shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Views of a flat vector in which the named shapes lie one after the other."""
    views, start = {}, 0
    for name, shape in shapes.items():
        size = math.prod(shape)
        views[name] = values[start : start + size].view(shape)
        start += size
    return views
