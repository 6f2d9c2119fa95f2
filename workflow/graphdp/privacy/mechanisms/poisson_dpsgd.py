"""DP-SGD over Poisson samples, one record added or removed."""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from graphdp.privacy.execution import Execution
from graphdp.privacy.mechanisms.base import (
    Curve,
    NoisySums,
    Sensitivity,
    Steps,
    Term,
    check_rounds,
)
from graphdp.privacy.mechanisms.gaussian import GaussianTerm
from graphdp.privacy.mechanisms.poisson_group_dpsgd import GroupSteps


@dataclass(frozen=True)
class PoissonSteps(Steps):
    """Poisson-subsampled Gaussians: (sampling rate below 1, number of steps) pairs."""

    place: ClassVar[int] = 1
    what: ClassVar[str] = "Poisson samples of single records"
    accountants: ClassVar[tuple[str, ...]] = ("autodp", "autodp_rdp", "dp_accounting", "pld")
    relation: ClassVar[str] = "add_or_remove_one"
    method: ClassVar[str] = "Rényi DP, Poisson amplification"
    method_by_pld: ClassVar[str] = "privacy loss distribution, Poisson amplification"

    @property
    def replacing(self) -> GroupSteps:
        """A group of one: its gradients before and after have a norm of C, half of what they move
        the sum by."""
        return GroupSteps(tuple(((rate, 1, 2.0), count) for rate, count in self.steps))

    def log_moment(self, noise: float) -> Curve:
        """By autodp's analytical moments accountant.

        The code behind `AmplificationBySampling(improved_bound_flag=True)`, called directly: the
        wrapper spends 20 ms per noise on a table of 100 orders (m = 2 skips it), and recomputes two
        whole orders for every fractional one, where here each is computed once.
        """
        import numpy as np
        from autodp.mechanism_zoo import GaussianMechanism
        from autodp.rdp_acct import anaRDPacct

        step = GaussianMechanism(noise)
        sampled = anaRDPacct(m=2)
        for rate, count in self.steps:
            sampled.compose_poisson_subsampled_mechanisms(step.RenyiDP, rate, coeff=count)
        sampled.build_zeroth_oracle()

        @cache
        def at_whole(order: int) -> float:
            # On the way autodp evaluates quick bounds that it does not use, and these may overflow.
            with np.errstate(all="ignore"):
                return (order - 1) * float(sampled.evalRDP(order))

        def log_moment(order: float) -> float:
            below = math.floor(order)
            share = order - below
            # Log-moments are convex: the chord is an upper bound; autodp interpolates likewise.
            moment = at_whole(below)
            if share:
                moment += share * (at_whole(below + 1) - moment)
            return moment

        return log_moment

    def events(self, noise: float) -> list[tuple[Any, int]]:
        """As the base class says."""
        from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent

        step = GaussianDpEvent(noise)
        return [(PoissonSampledDpEvent(rate, step), count) for rate, count in self.steps]

    def loss_distributions(
        self, noise: float, interval: float, pessimistic: bool = True
    ) -> list[tuple[Any, int]]:
        """As the base class says."""
        from dp_accounting.pld import privacy_loss_distribution as distribution

        return [
            (
                distribution.from_gaussian_mechanism(
                    noise,
                    value_discretization_interval=interval,
                    sampling_prob=rate,
                    pessimistic_estimate=pessimistic,
                    use_connect_dots=pessimistic,
                ),
                count,
            )
            for rate, count in self.steps
        ]


@dataclass(frozen=True)
class PoissonDPSGD(NoisySums):
    """DP-SGD or DP-Adam: `steps` noisy sums of clipped gradients over Poisson samples.

    Every step draws each record independently with probability `sampling_rate` and adds noise of
    standard deviation noise_multiplier × max_grad_norm.value to the sum of the per-record
    gradients, each clipped to L2 norm max_grad_norm.value (Abadi et al. 2016, Algorithm 1).
    """

    kind: ClassVar[str] = "poisson_dpsgd"

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
        """Poisson rounds of `sampling_rate`, divided by the expected batch."""
        return Execution(
            "poisson",
            self.steps,
            self.noise_std(noise_multiplier),
            self.sampling_rate,
            self.max_grad_norm.value if max_grad_norm is None else max_grad_norm,
            round(self.sampling_rate * num_train),
        )

    def terms(self) -> tuple[Term, ...]:
        """Its steps. Sampling everyone is no sampling: a step is a plain Gaussian release."""
        if self.sampling_rate == 1:
            return (GaussianTerm(self.steps),)
        return (PoissonSteps(((self.sampling_rate, self.steps),)),)

    def statement_entry(self, noise_multiplier: float | None) -> dict[str, Any]:
        """As the base class says."""
        return self._gaussian_entry(
            self.max_grad_norm,
            noise_multiplier,
            count=self.steps,
            sampling="poisson",
            sampling_rate=self.sampling_rate,
        )
