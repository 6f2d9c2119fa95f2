"""Releases with pure ε-DP whose ε is a share of the plan's."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from graphdp.privacy.execution import Execution, answered
from graphdp.privacy.mechanisms.base import (
    Curve,
    Mechanism,
    Output,
    Sensitivity,
    Term,
    is_finite,
    require,
)


@dataclass(frozen=True)
class PureTerm(Term):
    """Pure releases: ε = share / noise. Beside other terms they count as randomised response."""

    place: ClassVar[int] = 4
    what: ClassVar[str] = "pure releases beside others"
    accountants: ClassVar[tuple[str, ...]] = ("autodp", "autodp_rdp")
    method: ClassVar[str] = "Rényi DP, pure releases as randomised response"

    share: float

    @property
    def pure_share(self) -> float:
        """All of it."""
        return self.share

    def plus(self, other: "PureTerm") -> "PureTerm":
        """Both terms as one."""
        return PureTerm(self.share + other.share)

    def log_moment(self, noise: float) -> Curve:
        """By `pure_log_moment`."""
        epsilon = self.share / noise
        return lambda order: pure_log_moment(epsilon, order)


def pure_log_moment(epsilon: float, order: float) -> float:
    """(α - 1) times the Rényi DP at order α of any ε-DP release: that of randomised response.

    With p = e^ε / (1 + e^ε): ln(p^α (1 - p)^(1 - α) + (1 - p)^α p^(1 - α)). Every ε-DP release
    is a post-processing of it (Kairouz, Oh and Viswanath 2015).
    """
    import numpy as np

    return float(np.logaddexp(order * epsilon, (1 - order) * epsilon) - np.logaddexp(epsilon, 0))


@dataclass(frozen=True)
class PureRelease(Mechanism):
    """A release with pure ε-DP: ε = share / noise_multiplier, at δ = 0.

    A Laplace mechanism has noise of scale noise_multiplier × sensitivity.value / share; randomised
    response gives each answer ε / sensitivity.value. With sensitivity.value the L1 sensitivity, or
    the number of answers that differ, an analysis in which it is k times as large reads k times
    the ε. The shares of a plan's releases add up to 1, so that noise_multiplier = 1 / ε.
    """

    kind: ClassVar[str] = "pure"
    publishes: ClassVar[Output | None] = Output("perturbed graph", rows=False)
    inference: ClassVar[str] = (
        "Predictions read the perturbed graph, which is released once; no edge is read again."
    )

    query: str
    sensitivity: Sensitivity
    share: float
    phase: str

    def __post_init__(self) -> None:
        require(
            is_finite(self.share) and 0 < self.share <= 1,
            f"{self.query}: share of ε is {self.share!r}; it must lie in (0, 1]",
        )
        object.__setattr__(self, "share", float(self.share))

    @property
    def releases_nothing(self) -> bool:
        """True when no private data enters any output."""
        return self.sensitivity.value == 0

    @property
    def scale_unit(self) -> float:
        """The L1 sensitivity, or the number of answers that differ."""
        return self.sensitivity.value

    def own_epsilon(self, noise_multiplier: float) -> float:
        """ε of each single answer: that many answers differ, so its share of ε is divided by it."""
        if self.releases_nothing:
            return math.inf
        return self.share / (noise_multiplier * self.sensitivity.value)

    def answering(self, noise_multiplier: float) -> Execution:
        """One release, each answer with `own_epsilon`."""
        return answered(self.own_epsilon(noise_multiplier))

    def terms(self) -> tuple[Term, ...]:
        """Its share."""
        return (PureTerm(self.share),)

    def statement_entry(self, noise_multiplier: float | None) -> dict[str, Any]:
        """As the base class says; the noise is not Gaussian, so it has no standard deviation."""
        own = None if noise_multiplier is None else noise_multiplier / self.share
        return self._entry(self.sensitivity, "L1", noise_multiplier=own, noise_std=None)
