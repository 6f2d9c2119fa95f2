"""DP-SGD over shuffled batches, accounted as if they were Poisson samples."""

from dataclasses import dataclass
from typing import Any, ClassVar

from graphdp.privacy.execution import Execution
from graphdp.privacy.mechanisms.base import (
    NoisySums,
    Sensitivity,
    Term,
    check_rounds,
    is_count,
    require,
)
from graphdp.privacy.mechanisms.gaussian import GaussianTerm
from graphdp.privacy.mechanisms.poisson_dpsgd import PoissonSteps


@dataclass(frozen=True)
class ShuffledDPSGD(NoisySums):
    """A claim: `executed` rounds over shuffled batches have the ε of `steps` Poisson rounds.

    Every epoch each record is in exactly one batch, which no coin of its own decides: the claim is
    refuted. A round is the mean of a batch's gradients of norm at most max_grad_norm.value, with
    noise of standard deviation noise_multiplier × max_grad_norm.value over the full batch's size,
    also in an epoch's last, smaller batch. `Execution` speaks of means times the full batch's size.

    records: how a record enters a round, in words.
    """

    kind: ClassVar[str] = "shuffled_dpsgd"
    noise_words: ClassVar[str] = ", of shuffled batches that are accounted as Poisson samples"

    query: str
    sampling_rate: float
    steps: int
    executed: int
    max_grad_norm: Sensitivity
    records: str
    phase: str

    def __post_init__(self) -> None:
        check_rounds(self)
        require(is_count(self.executed), f"executed is {self.executed!r}; give a number of rounds")

    def execution(
        self, noise_multiplier: float, num_train: int, max_grad_norm: float | None
    ) -> Execution:
        """Every record once an epoch."""
        return Execution(
            "partition",
            self.executed,
            self.noise_std(noise_multiplier),
            self.sampling_rate,
            self.max_grad_norm.value,
            round(self.sampling_rate * num_train),
            records=self.records,
        )

    def terms(self) -> tuple[Term, ...]:
        """What is claimed: those of Poisson rounds."""
        if self.sampling_rate == 1:
            return (GaussianTerm(self.steps),)
        return (PoissonSteps(((self.sampling_rate, self.steps),)),)

    def statement_entry(self, noise_multiplier: float | None) -> dict[str, Any]:
        """As the base class says."""
        return self._gaussian_entry(
            self.max_grad_norm,
            noise_multiplier,
            query=f"{self.query}{self.noise_words}",
            count=self.steps,
            sampling="poisson",
            sampling_rate=self.sampling_rate,
        )
