"""An attack on the noisy gradients of DPDGC's classifier, of which one node is replaced.

What is run is the stage `graphdp.methods.dpdgc.method.fit` on a released matrix of zeros; the
block's `observe` shows the noisy sum of clipped gradients of every round. Node 0 alone has its
feature, and in the two worlds the two labels, which turn its clipped gradient round: the sum moves
by 2C, where all are in the batch. Else the number of the others, who are all equal, is random, and
what is along their gradient is left out. The learning rate is so small that the parameters stay as
they were initialised (the ε does not depend on it).
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from graphdp.audit.front_door import audit_block, calibration_entry, edgeless, trained
from graphdp.data.split import Split
from graphdp.methods.dpdgc import method as dpdgc
from graphdp.methods.dpdgc import release_settings
from graphdp.privacy import calibrated
from graphdp.privacy.calibration import Calibration
from graphdp.progress import brief

CLASSES, HIDDEN = 2, 4
LEARNING_RATE = 1e-9
_FEATURE = 10.0


@dataclass(frozen=True)
class Phase:
    """The classifier's phase as calibrated; settings are those of its plan."""

    calibration: Calibration
    num_train: int
    batch_size: int
    classifier_epochs: int
    max_grad_norm: float

    @property
    def mechanism(self) -> Any:
        """The plan's DP-Adam mechanism of this phase."""
        (found,) = (m for m in self.calibration.plan.mechanisms if m.phase == "classifier")
        return found

    @cached_property
    def entry(self) -> dict[str, Any]:
        """The calibration, as a job reads it."""
        clip = {"max_grad_norm": self.max_grad_norm}
        return calibration_entry(self.calibration, self.num_train, clip)

    @cached_property
    def noise_std(self) -> float:
        """σ of the noise on a sum of clipped gradients, as the plan has it."""
        return calibrated.phase(self.entry, "classifier").run.noise_std

    @cached_property
    def setting(self) -> dict[str, Any]:
        """The hyperparameters, as the stage is given them."""
        return {
            "hidden": HIDDEN,
            "feature_layers": 1,
            "layers": 1,
            "learning_rate": LEARNING_RATE,
            "epochs": 1,
            "classifier_epochs": self.classifier_epochs,
            "batch_size": self.batch_size,
            "max_grad_norm": self.max_grad_norm,
        }


def classifier_scores(phase: Phase, world: str, draws: int, seed: int) -> np.ndarray:
    """Log-likelihood ratios of `draws` training runs in which node 0 has one label ("present") or
    the other: float64 (draws,).

    Along its gradient, or what is left of it, of norm L, a round's sum s is without the others
    Gaussian around ±L if node 0 is in the batch, and around 0 if it is not.
    """
    import torch

    from graphdp.methods.dpdgc.classifier import Classifier, Linkx
    from graphdp.training.sparse_rows import rows_of

    size = phase.num_train + 1  # the last one to validate and test on
    x = np.zeros((size, 2), np.float32)
    x[0, 0] = x[1:, 1] = _FEATURE
    labels = np.zeros(size, np.int64)
    labels[0] = int(world == "absent")
    z = np.zeros((size, HIDDEN), np.float32)
    setting, level = phase.setting, phase.calibration.plan.level
    name = release_settings(level, setting)
    shape = Linkx(2, HIDDEN, CLASSES, 1, 1, batch_norm=False)
    like, truth = torch.empty(0), torch.zeros(size, dtype=torch.int64)
    rate, variance = phase.mechanism.sampling_rate, phase.noise_std**2
    known: dict[int, tuple[torch.Tensor, float]] = {}
    scores = np.zeros(draws)

    def moved(values: torch.Tensor) -> tuple[torch.Tensor, float]:
        """The clipped gradient of node 0 in "present", or what is left of it (P,), and that part
        of the others' sum."""
        network = Classifier(shape, rows_of(x, like), torch.from_numpy(z), values)
        own, other = torch.zeros_like(values), torch.zeros_like(values)
        add = network.gradient(truth, torch.Generator())
        for node, found in enumerate((own, other)):
            add(torch.tensor([node]), found, phase.max_grad_norm)
        own, other = own.double(), other.double()
        if rate == 1:
            return own, (phase.num_train - 1) * float(own @ other)
        return own - (own @ other) / (other @ other) * other, 0.0

    def observe(_, runs, values, noisy_sum):
        (run,) = runs
        if run not in known:
            known.clear()
            known[run] = moved(values.detach().clone())
        direction, others = known[run]
        square, found = float(direction @ direction), float(noisy_sum.double() @ direction) - others
        absent = math.log1p(-rate) if rate < 1 else -math.inf
        present, turned = (
            np.logaddexp(absent, math.log(rate) + (sign * found - square / 2) / variance)
            for sign in (1, -1)
        )
        scores[run] += present - turned

    last = np.array([size - 1])
    block = audit_block(
        phase.entry,
        edgeless(x, labels, CLASSES),
        range(draws),
        lambda run: ("audit", seed, "classifier", world, run),
        Split(np.arange(phase.num_train), last, last),
        observe,
    )
    with brief():
        released = {dpdgc.embedding_name(run, name): z for run in block.seeds}
        trained(dpdgc.fit, block, setting, (released,))
    return scores
