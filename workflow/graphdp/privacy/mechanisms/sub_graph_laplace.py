"""Rounds over sub-graphs with symmetric multivariate Laplace noise, one node there or not."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from graphdp.errors import one_of
from graphdp.privacy.mechanisms.base import (
    Curve,
    Sensitivity,
    Steps,
    SubGraphSums,
    Term,
    check_sub_graphs,
    is_count,
    require,
)

if TYPE_CHECKING:
    import numpy as np

#: The published theorem, or what holds in every dimension.
ACCOUNTED = ("one_dimension", "revealed_scale")


@dataclass(frozen=True)
class ClaimedLaplaceSteps(Steps):
    """((sampling rate, neighbours, most lists), number of steps) pairs by the published theorem."""

    place: ClassVar[int] = 8
    what: ClassVar[str] = "symmetric Laplace noise as published"
    accountants: ClassVar[tuple[str, ...]] = ("published",)
    method: ClassVar[str] = "Rényi DP of PNPiGNNs, Theorem 2"

    @property
    def orders(self) -> tuple[float, ...]:
        """As the base class says."""
        from graphdp.privacy.symmetric_laplace import ORDERS

        return ORDERS

    def renyi(self, noise: float) -> Curve:
        """In closed form."""
        from graphdp.privacy.symmetric_laplace import claimed_divergence

        return lambda order: sum(
            count * claimed_divergence(order, *step, noise) for step, count in self.steps
        )


@dataclass(frozen=True)
class LaplaceSteps(Steps):
    """The same pairs, the noise's scale and all multiplicities revealed."""

    place: ClassVar[int] = 8
    what: ClassVar[str] = "symmetric Laplace noise"
    accountants: ClassVar[tuple[str, ...]] = ("mixture", "renyi")
    method: ClassVar[str] = "mixture of Gaussians, scale and multiplicities revealed"

    def renyi(self, noise: float) -> Curve:
        """Infinite at every order: the noise's scale may be as small as it likes."""
        return lambda order: float("inf")

    def mean_square(self, noise: float) -> float:
        """As the base class says."""
        from graphdp.privacy import symmetric_laplace

        return sum(
            count * symmetric_laplace.mean_square(*step, noise) for step, count in self.steps
        )

    def squares(self, noise: float, width: float) -> "list[tuple[np.ndarray, int]]":
        """As the base class says."""
        from graphdp.privacy import symmetric_laplace

        return [
            (symmetric_laplace.squares(*step, noise, width), count) for step, count in self.steps
        ]


@dataclass(frozen=True)
class SubGraphLaplace(SubGraphSums):
    """DP-Adam over sub-graphs with symmetric Laplace noise (`graphdp.privacy.symmetric_laplace`).

    The noise is √W times a Gaussian of standard deviation noise_multiplier × C in each coordinate,
    with one W ~ Exp(1) for all coordinates of a round. steps: rounds that are accounted. executed:
    rounds that are run. overlap: "zeroed", or "official" for the authors' order-dependent rule.
    accounted: one of `ACCOUNTED`. The other fields: as `SubGraphDPSGD`.
    """

    kind: ClassVar[str] = "sub_graph_laplace"
    noise: ClassVar[str] = "sml"
    noise_words: ClassVar[str] = "; the Gaussian's std, times one root of Exp(1) a round"

    query: str
    sampling_rate: float
    steps: int
    executed: int
    max_grad_norm: Sensitivity
    batch_size: int
    num_neighbors: int
    overlap: str
    most_lists: int
    accounted: str
    phase: str

    def __post_init__(self) -> None:
        check_sub_graphs(self)
        one_of("overlap", self.overlap, ("zeroed", "official"))
        one_of("accounted", self.accounted, ACCOUNTED)
        require(is_count(self.executed), f"executed is {self.executed!r}; give a number of rounds")

    @property
    def rounds(self) -> int:
        """How many rounds are run."""
        return self.executed

    def terms(self) -> tuple[Term, ...]:
        """Its steps."""
        step = self.sampling_rate, self.num_neighbors, self.most_lists
        kind = ClaimedLaplaceSteps if self.accounted == "one_dimension" else LaplaceSteps
        return (kind(((step, self.steps),)),)
