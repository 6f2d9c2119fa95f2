"""Gaussian releases of whole queries, such as noisy sums over neighbours."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from graphdp.privacy.execution import Execution
from graphdp.privacy.mechanisms.base import (
    Curve,
    Mechanism,
    Output,
    Sensitivity,
    Term,
    is_count,
    require,
)


@dataclass(frozen=True)
class GaussianTerm(Term):
    """`count` unsampled Gaussian releases, each with μ = 1 / noise."""

    place: ClassVar[int] = 0
    what: ClassVar[str] = "Gaussian releases"
    accountants: ClassVar[tuple[str, ...]] = (
        "autodp",
        "autodp_rdp",
        "dp_accounting",
        "pld",
        "renyi",
    )

    count: int

    @property
    def gaussian_count(self) -> int:
        """All of them."""
        return self.count

    def plus(self, other: Self) -> Self:
        """Both terms as one."""
        return type(self)(self.count + other.count)

    def rdp(self, noise: float) -> Curve:
        """By autodp."""
        from autodp.mechanism_zoo import GaussianMechanism

        step = GaussianMechanism(noise)
        return lambda order: self.count * float(step.RenyiDP(order))

    def renyi(self, noise: float) -> Curve:
        """count · α / (2 σ²)."""
        return lambda order: self.count * order / (2 * noise * noise)

    def events(self, noise: float) -> list[tuple[Any, int]]:
        """As the base class says."""
        from dp_accounting import GaussianDpEvent

        return [(GaussianDpEvent(noise), self.count)]

    def loss_distributions(
        self, noise: float, interval: float, pessimistic: bool = True
    ) -> list[tuple[Any, int]]:
        """k releases are one, of noise smaller by √k."""
        from dp_accounting.pld import privacy_loss_distribution as distribution

        release = distribution.from_gaussian_mechanism(
            noise / math.sqrt(self.count),
            value_discretization_interval=interval,
            pessimistic_estimate=pessimistic,
            use_connect_dots=pessimistic,
        )
        return [(release, 1)]


@dataclass(frozen=True)
class GaussianReleases(Mechanism):
    """`count` adaptive Gaussian releases of queries with one L2 sensitivity.

    The noise of each has standard deviation noise_multiplier × sensitivity.value per coordinate,
    so each release alone is μ-GDP with μ = 1 / noise_multiplier.
    """

    kind: ClassVar[str] = "gaussian"
    publishes: ClassVar[Output | None] = Output("noisy aggregates", rows=True)

    query: str
    sensitivity: Sensitivity
    count: int
    phase: str

    def __post_init__(self) -> None:
        require(
            is_count(self.count),
            f"{self.query}: count is {self.count!r}; give a whole number of at least 0",
        )

    @property
    def releases_nothing(self) -> bool:
        """True when no private data enters any output."""
        return self.count == 0 or self.sensitivity.value == 0

    @property
    def noise_unit(self) -> float:
        """The sensitivity."""
        return self.sensitivity.value

    def execution(
        self, noise_multiplier: float, num_train: int, max_grad_norm: float | None
    ) -> Execution:
        """So many releases of the query."""
        std, bound = self.noise_std(noise_multiplier), self.sensitivity.value
        return Execution("none", self.count, std, sensitivity=bound)

    def terms(self) -> tuple[Term, ...]:
        """The releases."""
        return (GaussianTerm(self.count),)

    def statement_entry(self, noise_multiplier: float | None) -> dict[str, Any]:
        """As the base class says."""
        return self._gaussian_entry(self.sensitivity, noise_multiplier, count=self.count)
