"""What is asked of a block of models, and what comes back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from graphdp.errors import GraphDPError
from graphdp.privacy.execution import Execution

CHECKPOINTS = ("best_validation", "last")


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
    the second for a replaced one (`sensitivity`), unless the plan has another `noise_unit`.

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
    noise_unit: float | None = None

    @property
    def sensitivity(self) -> float:
        """The most that one record moves the sum: C where it joins it, 2C where it is replaced.

        The noise's standard deviation is noise multiplier · sensitivity.
        """
        if self.noise_unit is not None:
            return self.noise_unit
        return self.max_grad_norm if self.sampling == "poisson" else 2 * self.max_grad_norm


@dataclass(frozen=True)
class Fitted:
    """A trained model, at its best epoch by validation accuracy or at its last.

    Accuracies are fractions, by the checkpoint that was kept. best_epoch counts from 1.
    predictions: int16 (n,) for all nodes. embedding: float32 (n, hidden) of an `Encoder`, or of
    the last base of a `StageClassifier`, else None. parameters: by name, as `torch.nn` shapes them.
    history: validation accuracy after each epoch, float64 (epochs,). train_history: training
    accuracy likewise, in evaluation mode, if it was asked for. rounds: noisy rounds that were
    executed (0 for full batches). executed: how they were run, None for full batches; of a method's
    model by phase, of all its phases. posteriors: float32 (n, classes), the probabilities of all
    nodes, if they were asked for.
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
    executed: Execution | Mapping[str, Execution] | None = None
    posteriors: np.ndarray | None = None


def check_checkpoint(checkpoint: str) -> None:
    """Raises GraphDPError for an unknown rule of which epoch to keep."""
    if checkpoint not in CHECKPOINTS:
        raise GraphDPError(f"checkpoint {checkpoint!r} is not one of {', '.join(CHECKPOINTS)}")


def like_of(device: str, dtype: torch.dtype) -> Tensor:
    """An empty tensor of the device ("auto": CUDA if there is one) and dtype to compute in.

    Raises `GraphDPError` for "cuda" where there is none.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise GraphDPError("device: cuda: torch sees no GPU here; set device: auto, or cpu")
    device = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    return torch.empty(0, dtype=dtype, device=device)
