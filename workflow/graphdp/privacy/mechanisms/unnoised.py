"""Releases of private data without noise."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from graphdp.privacy.mechanisms.base import Mechanism, Term


@dataclass(frozen=True)
class UnnoisedTerm(Term):
    """Something is released without noise, which every accountant reads as ε = ∞."""

    place: ClassVar[int] = 9
    what: ClassVar[str] = "releases without noise"
    least_epsilon: ClassVar[float] = math.inf

    def plus(self, other: "UnnoisedTerm") -> "UnnoisedTerm":
        """Both terms as one."""
        return self


@dataclass(frozen=True)
class UnnoisedRelease(Mechanism):
    """A release of private data without noise: ε = ∞ whatever the noise multiplier.

    It stands in the plan of a method that is not private (level "none"), so that such a plan can
    not be mistaken for one that releases nothing.
    """

    kind: ClassVar[str] = "unnoised"

    query: str
    phase: str

    @property
    def releases_nothing(self) -> bool:
        """Always False."""
        return False

    def terms(self) -> tuple[Term, ...]:
        """An infinite ε."""
        return (UnnoisedTerm(),)

    def statement_entry(self, noise_multiplier: float | None) -> dict[str, Any]:
        """As the base class says; no noise and no bound."""
        return self._entry(None, "", noise_multiplier=0.0, noise_std=0.0)
