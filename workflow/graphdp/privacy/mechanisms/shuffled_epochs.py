"""The noisy means of an epoch's shuffled batches, as one Gaussian release."""

from dataclasses import dataclass
from typing import Any, ClassVar

from graphdp.privacy.execution import Execution
from graphdp.privacy.mechanisms.base import (
    Mechanism,
    Sensitivity,
    Term,
    check_clip,
    is_count,
    require,
)
from graphdp.privacy.mechanisms.gaussian import GaussianTerm


@dataclass(frozen=True)
class ShuffledEpochs(Mechanism):
    """`epochs` shuffled passes over all records in batches of `batch_size`, each one release.

    What is released of an epoch is the mean of every batch's gradients of norm at most
    max_grad_norm.value, times batch_size, with noise of standard deviation noise_multiplier ×
    sensitivity.value per coordinate. sensitivity: of all of them together
    (`sensitivity.shuffled_epoch`). Later batches may depend on earlier noisy ones: with the
    permutation fixed, how far each moves does not.

    rounds: batches of an epoch. records: how a record enters a round, in words.
    """

    kind: ClassVar[str] = "shuffled_epochs"

    query: str
    sensitivity: Sensitivity
    epochs: int
    rounds: int
    batch_size: int
    max_grad_norm: Sensitivity
    records: str
    phase: str

    def __post_init__(self) -> None:
        for name in ("epochs", "rounds", "batch_size"):
            value = getattr(self, name)
            require(is_count(value), f"{self.query}: {name} is {value!r}; give a whole number")
        check_clip(self)

    @property
    def releases_nothing(self) -> bool:
        """True when no private data enters any output."""
        return self.epochs == 0

    @property
    def noise_unit(self) -> float:
        """The sensitivity."""
        return self.sensitivity.value

    def execution(
        self, noise_multiplier: float, num_train: int, max_grad_norm: float | None
    ) -> Execution:
        """Every record once an epoch."""
        return Execution(
            "partition",
            self.epochs * self.rounds,
            self.noise_std(noise_multiplier),
            self.batch_size / num_train,
            self.max_grad_norm.value,
            self.batch_size,
            records=self.records,
        )

    def terms(self) -> tuple[Term, ...]:
        """A Gaussian release an epoch."""
        return (GaussianTerm(self.epochs),)

    def statement_entry(self, noise_multiplier: float | None) -> dict[str, Any]:
        """As the base class says."""
        return self._gaussian_entry(self.sensitivity, noise_multiplier, count=self.epochs)
