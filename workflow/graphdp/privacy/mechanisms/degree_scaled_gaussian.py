"""Gaussian releases of several parties, each over the square root of a bound on lists.

The bound D is the result of an earlier release of the plan, so that σ of what is released cannot be
known before. Of a query over √D both the sensitivity and σ are: if Δ = a √D and the parties draw
noise of σ √D, then μ = Δ / (σ √D) = a / σ whatever D is, and the releases compose with the one that
found D as any adaptive Gaussian releases do.
"""

from dataclasses import dataclass
from typing import ClassVar

from graphdp.privacy.mechanisms.base import is_count, require
from graphdp.privacy.mechanisms.distributed_gaussian import DistributedGaussian


@dataclass(frozen=True)
class DegreeScaledGaussian(DistributedGaussian):
    """As `DistributedGaussian`, of a query over √D.

    sensitivity, unit: of the query over √D, so without D in them. most_degree: the largest D that
    the earlier release may have found, at least 1.
    """

    kind: ClassVar[str] = "degree_scaled_gaussian"

    most_degree: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            is_count(self.most_degree) and self.most_degree >= 1,
            f"{self.query}: most_degree is {self.most_degree!r}; give a whole number of at least 1",
        )

    def drawn_delta(self, epsilon: float) -> float:
        """As there; as many numbers of pairs move as with the largest D."""
        from graphdp.privacy.pair_sums import cut_loss

        if self.rows:
            return super().drawn_delta(epsilon)
        return cut_loss(epsilon, self.most_degree * self.sensitivity.value**2, self.parties)
