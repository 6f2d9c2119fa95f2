"""Gaussian releases whose noise several parties draw, each a part of it."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from graphdp.errors import GraphDPError
from graphdp.privacy.execution import Execution
from graphdp.privacy.mechanisms.base import (
    Mechanism,
    Output,
    Sensitivity,
    Term,
    is_count,
    is_finite,
    require,
)
from graphdp.privacy.mechanisms.gaussian import GaussianTerm

#: As many as `graphdp.privacy.pair_sums` proves the noise on whole numbers for; shares name their
#: party by a byte, so that of 257 or more two shares of a pair could go to one.
MOST_PARTIES = 100


def check_parties(parties: int, shares: int, colluding: int) -> None:
    """Refuse numbers of parties m, shares t and colluders t_c with which nothing is hidden.

    t shares of a pair are all there is of it, so t colluders may read it.
    """
    if not 2 <= parties <= MOST_PARTIES:
        end = "at least 2" if parties < 2 else f"at most {MOST_PARTIES}"
        raise GraphDPError(f"parties is {parties}; give {end}")
    if not 2 <= shares <= parties:
        fix = "2" if parties == 2 else f"2 to {parties}"
        raise GraphDPError(f"shares is {shares} with {parties} parties; give {fix}")
    if colluding < 0:
        raise GraphDPError(f"colluding is {colluding}; give at least 0")
    if colluding >= shares:
        raise GraphDPError(
            f"colluding is {colluding} with {shares} shares: so many parties read every pair; "
            f"give at most {shares - 1}, or more shares"
        )


def party_std(noise_std: float, parties: int, colluding: int) -> float:
    """Deviation of one party's noise: without any `colluding` of them there is `noise_std` left."""
    return noise_std / math.sqrt(parties - colluding)


def delivered_std(noise_std: float, parties: int, colluding: int) -> float:
    """Deviation of the noise of all parties together, which is what a sum carries."""
    return noise_std * math.sqrt(parties / (parties - colluding))


@dataclass(frozen=True)
class DistributedGaussianTerm(GaussianTerm):
    """Unsampled Gaussian releases with μ² = count / noise² together; any count above 0."""

    place: ClassVar[int] = 1
    what: ClassVar[str] = "Gaussian releases of several parties"

    count: float

    def events(self, noise: float) -> list[tuple[Any, int]]:
        """dp-accounting's Gaussian, of noise smaller by √count."""
        from dp_accounting import GaussianDpEvent

        return [(GaussianDpEvent(noise / math.sqrt(self.count)), 1)]


@dataclass(frozen=True)
class DistributedGaussian(Mechanism):
    """`count` adaptive Gaussian releases whose noise is the sum of that of several parties.

    σ = noise_multiplier × unit is the deviation of what `colluding` parties do not know of it, and
    is what is accounted: μ² = count (sensitivity / σ)². Each of the `parties` draws
    σ / √(parties - colluding), and what is delivered has σ √(parties / (parties - colluding))
    (`graphdp.privacy.pair_sums`). unit: in units of the query, above 0; releases of other
    sensitivities may so have one σ.
    """

    kind: ClassVar[str] = "distributed_gaussian"

    query: str
    sensitivity: Sensitivity
    unit: float
    count: int
    phase: str
    parties: int
    colluding: int
    rows: bool = True

    def __post_init__(self) -> None:
        require(
            is_count(self.count),
            f"{self.query}: count is {self.count!r}; give a whole number of at least 0",
        )
        require(
            is_finite(self.unit) and self.unit > 0,
            f"{self.query}: unit of noise is {self.unit!r}; give a finite number above 0",
        )
        check_parties(self.parties, self.parties, self.colluding)
        object.__setattr__(self, "unit", float(self.unit))

    @property
    def publishes(self) -> Output:
        """Rows of all nodes, or what the parties see alone."""
        what = "noisy aggregates" if self.rows else "numbers of pairs by key, to the parties"
        return Output(what, rows=self.rows)

    @property
    def releases_nothing(self) -> bool:
        """True when no private data enters any output."""
        return self.count == 0 or self.sensitivity.value == 0

    @property
    def noise_words(self) -> str:
        """What a statement adds to the query."""
        return f" (noise by {shared_by(self.parties, self.colluding)})"

    @property
    def noise_unit(self) -> float:
        """σ per noise multiplier."""
        return self.unit

    def noise_levels(self, noise_multiplier: float) -> dict[str, float]:
        """σ, a party's share of it, and what all of them deliver."""
        std = noise_multiplier * self.unit
        return {
            "noise_std": std,
            "noise_std_per_party": party_std(std, self.parties, self.colluding),
            "noise_std_delivered": delivered_std(std, self.parties, self.colluding),
        }

    def drawn_epsilon(self, noise_multiplier: float) -> float:
        """For as many numbers as a model may draw."""
        from graphdp.privacy.pair_sums import DRAWN_EPSILON

        return DRAWN_EPSILON

    def drawn_delta(self, epsilon: float) -> float:
        """Of rows, the chance beside `drawn_epsilon`; of numbers of pairs, which are hidden by
        dummies, what their cut at 0 loses."""
        from graphdp.privacy.pair_sums import cut_loss

        if self.rows:
            return (1 + math.exp(min(epsilon, 700.0))) * 1e-25
        return cut_loss(epsilon, self.sensitivity.value**2, self.parties)

    def execution(
        self, noise_multiplier: float, num_train: int, max_grad_norm: float | None
    ) -> Execution:
        """So many releases, each with the noise of all parties."""
        return Execution(
            "none",
            self.count,
            self.noise_std(noise_multiplier),
            sensitivity=self.sensitivity.value,
            records=shared_by(self.parties, self.colluding),
        )

    def terms(self) -> tuple[Term, ...]:
        """The releases."""
        return (DistributedGaussianTerm(self.count * (self.sensitivity.value / self.unit) ** 2),)

    def statement_entry(self, noise_multiplier: float | None) -> dict[str, Any]:
        """As the base class says; the multiplier is σ over this sensitivity."""
        std = None if noise_multiplier is None else noise_multiplier * self.unit
        own = std / self.sensitivity.value if std and self.sensitivity.value else std
        return self._entry(
            self.sensitivity,
            "L2",
            query=self.query + self.noise_words,
            count=self.count,
            noise_multiplier=own,
            noise_std=std,
        )


def shared_by(parties: int, colluding: int) -> str:
    """Who draws the noise, in words."""
    return f"{parties} parties, {colluding} of which may know theirs"
