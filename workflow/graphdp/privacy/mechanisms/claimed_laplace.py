"""Laplace releases as DPA-GNN claims them, with an ℓ1 sensitivity that is not checked here."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from graphdp.privacy.execution import Execution
from graphdp.privacy.mechanisms.classical_gaussian import ClassicalGaussian


@dataclass(frozen=True)
class ClaimedLaplace(ClassicalGaussian):
    """One release with Laplace noise of scale sensitivity / ε_own, beside others.

    ε is shared out as `ClassicalGaussian` says; noise_std is √2 times the scale.
    """

    kind: ClassVar[str] = "claimed_laplace"

    def noise_std(self, noise_multiplier: float) -> float:
        """Its standard deviation; 0 without noise."""
        if not noise_multiplier:
            return 0.0
        return math.sqrt(2) * self.sensitivity.value / self.own_share(noise_multiplier)

    def execution(
        self, noise_multiplier: float, num_train: int, max_grad_norm: float | None
    ) -> Execution:
        """One release."""
        std, bound = self.noise_std(noise_multiplier), self.sensitivity.value
        return Execution("none", 1, std, sensitivity=bound, noise="laplace")

    def statement_entry(self, noise_multiplier: float | None) -> dict[str, Any]:
        """As the base class says; the noise is not Gaussian, so it has no standard deviation."""
        own = 1 / self.own_share(noise_multiplier) if noise_multiplier else noise_multiplier
        return self._entry(self.sensitivity, "L1", noise_multiplier=own, noise_std=None)
