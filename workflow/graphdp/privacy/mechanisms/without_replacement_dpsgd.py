"""DP-SGD over samples of a fixed size without replacement, one record replaced."""

from dataclasses import dataclass
from typing import Any, ClassVar

from graphdp.privacy.execution import Execution
from graphdp.privacy.mechanisms.base import NoisySums, Sensitivity, Steps, Term, check_rounds
from graphdp.privacy.mechanisms.gaussian import GaussianTerm


@dataclass(frozen=True)
class WithoutReplacementSteps(Steps):
    """Gaussians over samples of a fixed size: (sampling rate below 1, number of steps) pairs.

    Accounted by dp-accounting alone: Wang, Balle, Kasiviswanathan 2019, Theorem 27.
    """

    place: ClassVar[int] = 2
    what: ClassVar[str] = "samples of a fixed size"
    accountants: ClassVar[tuple[str, ...]] = ("dp_accounting",)
    relation: ClassVar[str] = "replace_one"
    method: ClassVar[str] = "Rényi DP, sampling without replacement"

    def events(self, noise: float) -> list[tuple[Any, int]]:
        """As the base class says."""
        from dp_accounting import GaussianDpEvent, SampledWithoutReplacementDpEvent

        step = GaussianDpEvent(noise)
        # The library reads the two sizes for their ratio alone.
        return [
            (SampledWithoutReplacementDpEvent(1.0, rate, step), count) for rate, count in self.steps
        ]


@dataclass(frozen=True)
class WithoutReplacementDPSGD(NoisySums):
    """DP-SGD or DP-Adam over samples of a fixed size without replacement, one record replaced.

    Noise of standard deviation noise_multiplier × max_grad_norm.value; max_grad_norm.value is what
    the sum is *taken* to move by, 2C for one replaced record.
    """

    kind: ClassVar[str] = "without_replacement_dpsgd"

    query: str
    sampling_rate: float
    steps: int
    max_grad_norm: Sensitivity
    phase: str

    def __post_init__(self) -> None:
        check_rounds(self)

    def execution(
        self, noise_multiplier: float, num_train: int, max_grad_norm: float | None
    ) -> Execution:
        """Rounds on samples of a fixed size; the sensitivity does not tell the clip."""
        return Execution(
            "fixed",
            self.steps,
            self.noise_std(noise_multiplier),
            self.sampling_rate,
            max_grad_norm,
            round(self.sampling_rate * num_train),
        )

    def terms(self) -> tuple[Term, ...]:
        """Its steps. Sampling everyone is no sampling: a step is a plain Gaussian release."""
        if self.sampling_rate == 1:
            return (GaussianTerm(self.steps),)
        return (WithoutReplacementSteps(((self.sampling_rate, self.steps),)),)

    def statement_entry(self, noise_multiplier: float | None) -> dict[str, Any]:
        """As the base class says."""
        return self._gaussian_entry(
            self.max_grad_norm,
            noise_multiplier,
            count=self.steps,
            sampling="without_replacement",
            sampling_rate=self.sampling_rate,
        )
