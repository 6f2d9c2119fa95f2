"""Releases of whole numbers with discrete Gaussian noise.

What is released is a vector on a grid (every entry a multiple of one step), and so is its noise:
there are no gaps between floating-point numbers that an attacker could look into.

Source: Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020).
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from graphdp.privacy.execution import Execution
from graphdp.privacy.mechanisms.base import Curve, Mechanism, Sensitivity, Term


@dataclass(frozen=True)
class DiscreteGaussianTerm(Term):
    """`count` releases. Each has a Rényi divergence of at most α / (2 noise²), whatever the grid.

    That is what a Gaussian of the same noise has; but the exact ε of Gaussians does not hold here,
    so this is a term of its own, composed in Rényi DP alone.
    """

    place: ClassVar[int] = 6
    what: ClassVar[str] = "discrete Gaussian releases"
    accountants: ClassVar[tuple[str, ...]] = ("autodp", "autodp_rdp", "dp_accounting", "renyi")
    method: ClassVar[str] = "Rényi DP, discrete Gaussian (zero-concentrated DP)"

    count: int

    def plus(self, other: "DiscreteGaussianTerm") -> "DiscreteGaussianTerm":
        """Both terms as one."""
        return DiscreteGaussianTerm(self.count + other.count)

    def rdp(self, noise: float) -> Curve:
        """By autodp."""
        from autodp.mechanism_zoo import DiscreteGaussianMechanism

        release = DiscreteGaussianMechanism(noise)
        return lambda order: self.count * float(release.RenyiDP(order))

    def renyi(self, noise: float) -> Curve:
        """count · α / (2 σ²)."""
        return lambda order: self.count * order / (2 * noise * noise)

    def events(self, noise: float) -> list[tuple[Any, int]]:
        """dp-accounting has no event for it, but one for what is shown of it: ρ = 1 / (2 σ²)."""
        from dp_accounting import ZCDpEvent

        return [(ZCDpEvent(1 / (2 * noise * noise)), self.count)]


@dataclass(frozen=True)
class DiscreteGaussianRelease(Mechanism):
    """One release of a vector on a grid, with discrete Gaussian noise on the same grid.

    The noise's parameter σ is noise_multiplier × sensitivity.value, in units of the query; its
    standard deviation is at most that. sensitivity: in L2.
    """

    kind: ClassVar[str] = "discrete_gaussian"

    query: str
    sensitivity: Sensitivity
    phase: str

    @property
    def releases_nothing(self) -> bool:
        """True when no private data enters any output."""
        return self.sensitivity.value == 0

    @property
    def noise_unit(self) -> float:
        """The sensitivity."""
        return self.sensitivity.value

    def execution(
        self, noise_multiplier: float, num_train: int, max_grad_norm: float | None
    ) -> Execution:
        """One release of the query."""
        std, bound = self.noise_std(noise_multiplier), self.sensitivity.value
        return Execution("none", 1, std, sensitivity=bound, noise="discrete gaussian")

    def terms(self) -> tuple[Term, ...]:
        """The release."""
        return (DiscreteGaussianTerm(1),)

    def statement_entry(self, noise_multiplier: float | None) -> dict[str, Any]:
        """As the base class says."""
        return self._gaussian_entry(self.sensitivity, noise_multiplier)
