"""DP-SGD over Poisson samples when a group of records is replaced at once."""

from dataclasses import dataclass
from typing import Any, ClassVar

from graphdp.privacy.execution import Execution
from graphdp.privacy.mechanisms.base import (
    Curve,
    NoisySums,
    Sensitivity,
    Steps,
    Term,
    check_rounds,
    is_count,
    is_finite,
    require,
)


@dataclass(frozen=True)
class GroupSteps(Steps):
    """((sampling rate, group size, noise per clip), number of steps) pairs.

    Composed as privacy loss distributions; Rényi divergences by quadrature are the cross-check.
    Both rest on the lemma of `graphdp.privacy.group`, and share no code beyond its pair.
    """

    place: ClassVar[int] = 6
    what: ClassVar[str] = "Poisson samples of a replaced group of records"
    accountants: ClassVar[tuple[str, ...]] = ("pld", "renyi")
    method: ClassVar[str] = "privacy loss distribution of groups"
    #: Privacy loss distributions grow as the noise falls: come near the root in small strides.
    stride: ClassVar[float] = 1.5

    def renyi(self, noise: float) -> Curve:
        """By quadrature."""
        from graphdp.privacy import group

        pairs = [
            (count, group.Pair(rate, size, 1 / (noise * per_clip)))
            for (rate, size, per_clip), count in self.steps
        ]
        return lambda order: sum(count * pair.renyi(order) for count, pair in pairs)

    def loss_distributions(
        self, noise: float, interval: float, pessimistic: bool = True
    ) -> list[tuple[Any, int]]:
        """As the base class says."""
        from graphdp.privacy import group

        return [
            (group.privacy_loss(rate, size, 1 / (noise * per_clip), interval, pessimistic), count)
            for (rate, size, per_clip), count in self.steps
        ]


@dataclass(frozen=True)
class PoissonGroupDPSGD(NoisySums):
    """DP-SGD or DP-Adam over Poisson samples when up to `group_size` records are replaced at once.

    As `PoissonDPSGD`, but between two adjacent data sets the same `group_size` records may all have
    other contents. Every record keeps its own independent coin, so how many of the group are in a
    batch is binomial. `graphdp.privacy.group` holds the lemma by which this is accounted; the
    guarantee is that of replacement, not of adding or removing.

    max_grad_norm: C, the clip of one record's gradient. noise_per_clip: the noise on the sum has
    standard deviation noise_multiplier × noise_per_clip × max_grad_norm.value. Any value above 0 is
    accounted exactly; it shares the privacy loss between this phase and the plan's others.
    """

    kind: ClassVar[str] = "poisson_group_dpsgd"

    query: str
    sampling_rate: float
    steps: int
    group_size: int
    max_grad_norm: Sensitivity
    noise_per_clip: float
    phase: str

    def __post_init__(self) -> None:
        check_rounds(self)
        require(
            is_count(self.group_size) and self.group_size >= 1,
            f"{self.query}: group_size is {self.group_size!r}; give a whole number of at least 1",
        )
        require(
            is_finite(self.noise_per_clip) and self.noise_per_clip > 0,
            f"{self.query}: noise_per_clip is {self.noise_per_clip!r}; it must be above 0",
        )
        object.__setattr__(self, "noise_per_clip", float(self.noise_per_clip))

    @property
    def noise_unit(self) -> float:
        """noise_per_clip · C, whatever the group: the noise is what is measured."""
        return self.noise_per_clip * self.max_grad_norm.value

    def noise_std(self, noise_multiplier: float) -> float:
        """In this order of the factors, which decides the last digit."""
        return noise_multiplier * self.noise_per_clip * self.max_grad_norm.value

    def execution(
        self, noise_multiplier: float, num_train: int, max_grad_norm: float | None
    ) -> Execution:
        """Poisson rounds of `sampling_rate`, divided by the expected batch."""
        return Execution(
            "poisson",
            self.steps,
            self.noise_std(noise_multiplier),
            self.sampling_rate,
            self.max_grad_norm.value,
            round(self.sampling_rate * num_train),
        )

    def terms(self) -> tuple[Term, ...]:
        """Its steps."""
        step = self.sampling_rate, self.group_size, self.noise_per_clip
        return (GroupSteps(((step, self.steps),)),)

    def statement_entry(self, noise_multiplier: float | None) -> dict[str, Any]:
        """The whole group may be in a batch, so the sum moves by up to 2gC."""
        clip, size = self.max_grad_norm.value, self.group_size
        std = None if noise_multiplier is None else noise_multiplier * self.noise_per_clip * clip
        return self._entry(
            Sensitivity(
                2 * size * clip,
                f"2*{size}*C",
                f"triangle inequality over {size} replaced records; lemma of graphdp.privacy.group",
            ),
            "L2",
            noise_multiplier=None if std is None else std / (2 * size * clip),
            noise_std=std,
            count=self.steps,
            sampling="poisson",
            sampling_rate=self.sampling_rate,
        )
