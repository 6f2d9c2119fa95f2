"""DP-SGD over fixed-size samples in which a protected unit moves a group of records."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from graphdp.privacy.execution import Execution
from graphdp.privacy.mechanisms.base import (
    Curve,
    NoisySums,
    Sensitivity,
    Steps,
    Term,
    check_clip,
    is_count,
    require,
)

#: e to this power, less 1, is a number.
_LARGEST_EXPONENT = 500.0


@dataclass(frozen=True)
class FixedSizeSteps(Steps):
    """Fixed-size samples that move a group: (`FixedSizeDPSGD.sampling`, number of steps) pairs."""

    place: ClassVar[int] = 3
    what: ClassVar[str] = "fixed-size samples that move a group of records"
    accountants: ClassVar[tuple[str, ...]] = ("autodp", "autodp_rdp", "pld")
    tight: ClassVar[bool] = False
    #: Computed here and not by a library.
    method: ClassVar[str] = "Rényi DP; fixed-size samples: own sum of Daigavane et al. 2021"
    method_by_pld: ClassVar[str] = "privacy loss distribution of fixed-size samples, known draws"

    def log_moment(self, noise: float) -> Curve:
        """By `fixed_size_log_moment`."""
        return lambda order: sum(
            count * fixed_size_log_moment(sampling, noise, order) for sampling, count in self.steps
        )

    def loss_distributions(
        self, noise: float, interval: float, pessimistic: bool = True
    ) -> list[tuple[Any, int]]:
        """As the base class says."""
        from graphdp.privacy import mirrored_loss

        build = mirrored_loss.rounded_up if pessimistic else mirrored_loss.rounded_down
        found = []
        for sampling, count in self.steps:
            draws = KnownDraws(*sampling, noise)
            of_loss = draws.delta if pessimistic else draws.chance_above
            found.append((build(of_loss, draws.largest_loss, interval), count))
        return found


class KnownDraws:
    """What bounds a step of `FixedSizeDPSGD` for every δ: the number of differing records drawn, ρ,
    is told with the noisy sum.

    Given the batch the two sums are Gaussians at most μ = ρ / (G σ) deviations apart, and the
    hockey-stick divergence is jointly convex: so that of the mixtures over batches is at most its
    mean, Σ_ρ P(ρ) δ(ε; μ), with δ the Gaussian's (Balle and Wang 2018, Theorem 8). That mean is the
    divergence of (ρ, N(0, 1)) from (ρ, N(μ, 1)), a pair that is its own mirror image, so that
    steps add up as privacy losses (Zhu, Dong, Wang 2022, Theorem 10). `fixed_size_log_moment` are
    the moments of the same pair.

    population, batch_size, group: as `FixedSizeDPSGD`. noise: σ, the noise multiplier, above 0.
    """

    #: Chance of a farther loss than the largest that is followed; it counts as δ.
    BEYOND: ClassVar[float] = 1e-18

    def __init__(self, population: int, batch_size: int, group: int, noise: float) -> None:
        import numpy as np

        changed, log_chances = _hypergeometric(population, batch_size, group)
        self._chances = np.exp(log_chances)
        self._shifts = changed / (group * noise)

    @property
    def largest_loss(self) -> float:
        """A loss that is exceeded with a chance of at most `BEYOND`."""
        from scipy.special import ndtri

        far = float(self._shifts[-1])
        return far * (far / 2 - float(ndtri(self.BEYOND)))

    def delta(self, epsilons: Any) -> Any:
        """The divergence at e^ε, for an array of ε ≥ 0: the mean of the Gaussian's δ over ρ."""
        import numpy as np

        from graphdp.privacy.accounting.closed_form import gaussian_deltas

        epsilons = np.asarray(epsilons, dtype=float)
        total = np.zeros_like(epsilons)
        for chance, shift in zip(self._chances, self._shifts, strict=True):
            if shift:  # else the same in both worlds
                total += chance * gaussian_deltas(shift, epsilons)
        return total

    def chance_above(self, losses: Any) -> Any:
        """P(loss > l) for l = -losses[::-1] and then losses[1:], increasing from 0: (2k - 1,)."""
        import numpy as np
        from scipy.special import ndtr

        losses = np.asarray(losses, dtype=float)
        losses = np.concatenate([-losses[:0:-1], losses])
        total = np.zeros_like(losses)
        for chance, shift in zip(self._chances, self._shifts, strict=True):
            above = ndtr(shift / 2 - losses / shift) if shift else (losses < 0).astype(float)
            total += chance * above
        return total


def fixed_size_log_moment(sampling: tuple[int, int, int], noise: float, order: float) -> float:
    """(α - 1) times the Rényi DP at order α of a step of `FixedSizeDPSGD`.

    sampling: (N, B, G). ln Σ_ρ P(ρ) exp(α(α - 1) ρ² / (2 G² σ²)) with ρ, the number of differing
    records in a batch, Hypergeometric(N, G, B). Given the batch, the noisy sums are Gaussians whose
    means lie at most ρ / G sensitivities apart; and exp((α - 1) D_α) is jointly convex, so that of
    the mixture over batches is at most the mean.
    Source: Daigavane et al. 2021, moments bound for one-layer networks (their λ = 2 G C σ).
    """
    import numpy as np
    from scipy.special import logsumexp

    changed, log_chances = _hypergeometric(*sampling)
    exponents = order * (order - 1) * (changed / (sampling[2] * noise)) ** 2 / 2
    if exponents[-1] < _LARGEST_EXPONENT:  # else 1 + a number that may be far below rounding
        return float(np.log1p(np.exp(log_chances) @ np.expm1(exponents)))
    return float(logsumexp(log_chances + exponents))


@lru_cache(maxsize=64)
def _hypergeometric(population: int, batch_size: int, group: int) -> tuple[Any, Any]:
    """How many of a group are drawn: every possible number, and the logarithm of its chance.

    By the ratio of each chance to the one before: scipy's logarithm is a difference of numbers as
    large as the population and loses as many digits, over millions of steps all of them.
    """
    import numpy as np
    from scipy.special import logsumexp

    least = max(0, batch_size - (population - group))
    drawn = np.arange(least, min(group, batch_size) + 1)
    before = drawn[:-1].astype(object)  # whole numbers of any size
    more = (group - before) * (batch_size - before)
    fewer = (before + 1) * (population - group - batch_size + before + 1)
    ratios = [math.log(up) - math.log(down) for up, down in zip(more, fewer, strict=True)]
    logs = np.concatenate([[0.0], np.cumsum(ratios)])
    return drawn, logs - logsumexp(logs)


@dataclass(frozen=True)
class FixedSizeDPSGD(NoisySums):
    """DP-SGD over fixed-size samples in which a protected unit moves up to `group` records.

    Every step draws `batch_size` of `population` records uniformly without replacement,
    independently of the other steps, and adds noise of standard deviation noise_multiplier ×
    max_grad_norm.value to the sum of the per-record gradients, each clipped to L2 norm C. At most
    `group` records differ between adjacent data, each by a gradient of norm 2C at most, so
    max_grad_norm.value = 2 · group · C bounds the sum's move when all of them are drawn.

    A step's Rényi DP at order α (Daigavane et al. 2021) has ρ of them, in expectation
    over ρ ~ Hypergeometric(population, group, batch_size):
    ln E[exp(α(α - 1) ρ² / (2 group² noise_multiplier²))] / (α - 1).
    """

    kind: ClassVar[str] = "fixed_size_dpsgd"
    inference: ClassVar[str] = (
        "Predictions use one noisy aggregate, released after training. Rows of other nodes are "
        "covered; the protected node's own row, and so its own prediction, is not."
    )
    exact_inference: ClassVar[str] = (
        "A prediction reads the exact rows of the queried node's neighbours, training nodes among "
        "them, without noise: no ε covers what it tells of their features and edges."
    )

    query: str
    population: int
    batch_size: int
    group: int
    steps: int
    max_grad_norm: Sensitivity
    phase: str

    def __post_init__(self) -> None:
        for name, least, most in (
            ("population", 1, math.inf),
            ("batch_size", 1, self.population),
            ("group", 1, math.inf),
            ("steps", 0, math.inf),
        ):
            value = getattr(self, name)
            require(
                is_count(value) and least <= value <= most,
                f"{self.query}: {name} is {value!r}; it must lie in [{least}, {most}]",
            )
        check_clip(self)

    @property
    def sampling(self) -> tuple[int, int, int]:
        """What one step's Rényi DP depends on: population, batch size, and how many can differ."""
        return self.population, self.batch_size, min(self.group, self.population)

    def execution(
        self, noise_multiplier: float, num_train: int, max_grad_norm: float | None
    ) -> Execution:
        """Rounds on samples of `batch_size`; the sensitivity does not tell the clip."""
        return Execution(
            "fixed",
            self.steps,
            self.noise_std(noise_multiplier),
            self.batch_size / self.population,
            max_grad_norm,
            self.batch_size,
        )

    def terms(self) -> tuple[Term, ...]:
        """Its steps."""
        return (FixedSizeSteps(((self.sampling, self.steps),)),)

    def statement_entry(self, noise_multiplier: float | None) -> dict[str, Any]:
        """As the base class says."""
        return self._gaussian_entry(
            self.max_grad_norm,
            noise_multiplier,
            count=self.steps,
            sampling="without_replacement",
            sampling_rate=self.batch_size / self.population,
        )
