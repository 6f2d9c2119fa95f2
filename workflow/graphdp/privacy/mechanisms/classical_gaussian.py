"""Gaussian releases by the classical formula, with ε added up: claims as published."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from graphdp.privacy.execution import Execution
from graphdp.privacy.mechanisms.base import (
    Mechanism,
    Output,
    Sensitivity,
    Term,
    is_finite,
    require,
)


@dataclass(frozen=True)
class ClassicalGaussianTerm(Term):
    """Claims of share · (1 / noise + other) - kept each, of which `share` and `least` add up.

    claimed_deltas: sorted.
    """

    place: ClassVar[int] = 7
    what: ClassVar[str] = "Gaussian releases by the classical formula"

    share: float
    least: float
    claimed_deltas: tuple[float, ...]

    @property
    def pure_share(self) -> float:
        """As a release with pure ε, though it is claimed at `claimed_deltas`."""
        return self.share

    @property
    def least_epsilon(self) -> float:
        """What does not fall with the noise."""
        return self.least

    def plus(self, other: "ClassicalGaussianTerm") -> "ClassicalGaussianTerm":
        """Both terms as one."""
        deltas = tuple(sorted((*self.claimed_deltas, *other.claimed_deltas)))
        return ClassicalGaussianTerm(self.share + other.share, self.least + other.least, deltas)


@dataclass(frozen=True)
class ClassicalGaussian(Mechanism):
    """One Gaussian release with σ = S √(2 ln(1.25 / delta)) / ε_own, beside others.

    The plan's ε is 1 / noise_multiplier + other_epsilon, where `other_epsilon` is that of all
    releases with an ε of their own. This one takes ε_own = share of all of it, less other_epsilon
    if it `pays` for those. The formula is a theorem for ε_own < 1 alone (Dwork and Roth 2014,
    Appendix A). delta: of this release; those of several add up to the δ of the claim.
    """

    kind: ClassVar[str] = "classical_gaussian"
    publishes: ClassVar[Output | None] = Output("noisy aggregates", rows=True)

    query: str
    sensitivity: Sensitivity
    share: float
    other_epsilon: float
    pays: bool
    delta: float
    phase: str

    def __post_init__(self) -> None:
        require(
            is_finite(self.share) and 0 < self.share <= 1,
            f"{self.query}: share of ε is {self.share!r}; it must lie in (0, 1]",
        )
        require(
            is_finite(self.other_epsilon) and self.other_epsilon >= 0,
            f"{self.query}: other ε is {self.other_epsilon!r}; give a number of at least 0",
        )

    @property
    def releases_nothing(self) -> bool:
        """True when no private data enters any output."""
        return self.sensitivity.value == 0

    def own_share(self, noise_multiplier: float) -> float:
        """ε_own. Raises GraphDPError where nothing is left for it."""
        whole = 1 / noise_multiplier + self.other_epsilon
        own = self.share * whole - (self.other_epsilon if self.pays else 0.0)
        require(
            own > 0,
            f"{self.query}: of ε = {whole:g} nothing is left for it beside {self.other_epsilon:g}; "
            f"raise epsilon",
        )
        return own

    def noise_std(self, noise_multiplier: float) -> float:
        """σ; 0 without noise."""
        if not noise_multiplier:
            return 0.0
        factor = math.sqrt(2 * math.log(1.25 / self.delta))
        return self.sensitivity.value * factor / self.own_share(noise_multiplier)

    def execution(
        self, noise_multiplier: float, num_train: int, max_grad_norm: float | None
    ) -> Execution:
        """One release."""
        std = self.noise_std(noise_multiplier)
        return Execution("none", 1, std, sensitivity=self.sensitivity.value)

    def terms(self) -> tuple[Term, ...]:
        """Its part of the claim."""
        least = self.share * self.other_epsilon - (self.other_epsilon if self.pays else 0.0)
        return (ClassicalGaussianTerm(self.share, least, (self.delta,)),)

    def statement_entry(self, noise_multiplier: float | None) -> dict[str, Any]:
        """As the base class says; the multiplier is σ over the sensitivity."""
        std = self.noise_std(noise_multiplier) if noise_multiplier else noise_multiplier
        own = std / self.sensitivity.value if std else std
        return self._entry(self.sensitivity, "L2", noise_multiplier=own, noise_std=std)
