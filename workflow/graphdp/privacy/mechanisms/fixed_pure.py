"""Releases with a pure ε of their own, which the plan's noise multiplier does not change."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from graphdp.privacy.mechanisms.base import (
    Curve,
    Mechanism,
    Output,
    Sensitivity,
    Term,
    is_finite,
    require,
)
from graphdp.privacy.mechanisms.pure import pure_log_moment


@dataclass(frozen=True)
class FixedPureTerm(Term):
    """Releases of one ε each. Beside others they count as randomised response."""

    place: ClassVar[int] = 5
    what: ClassVar[str] = "releases with an ε of their own"
    accountants: ClassVar[tuple[str, ...]] = ("autodp", "autodp_rdp", "pld", "renyi")
    method: ClassVar[str] = "Rényi DP, fixed ε as randomised response"
    pure_share: ClassVar[float] = 0.0

    #: Sorted. Each stands alone: randomised response with their sum would read a larger ε.
    epsilons: tuple[float, ...]

    @property
    def least_epsilon(self) -> float:
        """All of it: noise elsewhere takes nothing off."""
        return math.fsum(self.epsilons)

    def plus(self, other: "FixedPureTerm") -> "FixedPureTerm":
        """Both terms as one."""
        return FixedPureTerm(tuple(sorted((*self.epsilons, *other.epsilons))))

    def log_moment(self, noise: float) -> Curve:
        """By `pure_log_moment`."""
        return lambda order: sum(pure_log_moment(epsilon, order) for epsilon in self.epsilons)

    def renyi(self, noise: float) -> Curve:
        """The same in full."""
        moment = self.log_moment(noise)
        return lambda order: moment(order) / (order - 1)

    def loss_distributions(
        self, noise: float, interval: float, pessimistic: bool = True
    ) -> list[tuple[Any, int]]:
        """As the base class says: of randomised response between two answers."""
        from dp_accounting.pld import privacy_loss_distribution as distribution

        def answer(epsilon: float) -> Any:
            odds = math.exp(-epsilon)  # the library's parameter is twice the chance of a lie
            return distribution.from_randomized_response(
                2 * odds / (1 + odds),
                2,
                value_discretization_interval=interval,
                pessimistic_estimate=pessimistic,
            )

        return [(answer(epsilon), 1) for epsilon in self.epsilons]


@dataclass(frozen=True)
class FixedPureRelease(Mechanism):
    """A release with pure ε-DP that has an ε of its own, at δ = 0: ε = epsilon × sensitivity.value.

    Its noise is set by `epsilon` and not by the plan's noise multiplier: a Laplace mechanism has
    noise of scale 1 / epsilon, randomised response perturbs every answer with ε = epsilon.
    Calibration leaves the rest of the plan's ε to the other mechanisms. sensitivity: the L1
    sensitivity, or the number of answers that differ; an analysis in which it is k times as large
    reads k times the ε.
    """

    kind: ClassVar[str] = "fixed_pure"
    publishes: ClassVar[Output | None] = Output("noisy statistics", rows=False)

    query: str
    sensitivity: Sensitivity
    epsilon: float
    phase: str

    def __post_init__(self) -> None:
        require(
            is_finite(self.epsilon) and self.epsilon > 0,
            f"{self.query}: fixed ε is {self.epsilon!r}; give a finite number above 0",
        )
        object.__setattr__(self, "epsilon", float(self.epsilon))

    @property
    def releases_nothing(self) -> bool:
        """True when no private data enters any output."""
        return self.sensitivity.value == 0

    def own_epsilon(self, noise_multiplier: float) -> float:
        """Its own, whatever the multiplier."""
        return self.epsilon

    def terms(self) -> tuple[Term, ...]:
        """Its ε."""
        return (FixedPureTerm((self.epsilon * self.sensitivity.value,)),)

    def statement_entry(self, noise_multiplier: float | None) -> dict[str, Any]:
        """As the base class says; the noise is not Gaussian, so it has no standard deviation.

        In units of the sensitivity the noise is 1 / epsilon, and 0 where the plan runs without any.
        """
        own = 1 / self.epsilon if noise_multiplier else noise_multiplier
        return self._entry(self.sensitivity, "L1", noise_multiplier=own, noise_std=None)
