"""DP-SGD over sub-graphs of Poisson-sampled neighbours, Gaussian noise, one node there or not."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from graphdp.errors import GraphDPError, one_of
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
from graphdp.privacy.sub_graph_step import ANALYSES, KNOWN, Step


@dataclass(frozen=True)
class SubGraphSteps(Steps):
    """(`sub_graphs.Step` as a plain tuple, number of such steps) pairs.

    Composed as privacy loss distributions, one for each direction, rounded up throughout. Rényi
    divergences are the cross-check: by quadrature and of truncated laws, so no certified bound.
    Both rest on the pairs of `graphdp.privacy.sub_graphs`.
    """

    place: ClassVar[int] = 7
    what: ClassVar[str] = "Poisson samples of sub-graphs"
    accountants: ClassVar[tuple[str, ...]] = ("pld", "renyi")
    method: ClassVar[str] = "privacy loss distribution of sub-graphs"
    stride: ClassVar[float] = 2.0

    @property
    def sketch(self) -> "SubGraphSteps":
        """With the few numbers of lists among which the worst one usually is."""
        fewer = []
        for step, count in self.steps:
            its = Step(*step)
            few = min(its.most_lists, 2 * its.neighbors + 8)
            if its.analysis != KNOWN and not its.rate_lists:
                its = its._replace(most_lists=few)
            fewer.append((tuple(its), count))
        return replace(self, steps=tuple(fewer))

    @property
    def unfollowed(self) -> float:
        """As the base class says: what the laws of multiplicities leave out."""
        from graphdp.privacy import sub_graphs

        return sum(count * sub_graphs.dropped(Step(*step)) for step, count in self.steps)

    def renyi(self, noise: float) -> Curve:
        """By quadrature, without what is `unfollowed`."""
        from graphdp.privacy import sub_graph_loss

        return lambda order: sum(
            count * sub_graph_loss.renyi(Step(*step), 0.5 / noise, order)
            for step, count in self.steps
        )

    def loss_distributions(
        self, noise: float, interval: float, pessimistic: bool = True
    ) -> list[tuple[Any, int]]:
        """As the base class says. Raises GraphDPError for a lower bound, which is not known."""
        from graphdp.privacy import sub_graph_loss

        if not pessimistic:
            raise GraphDPError("of Poisson samples of sub-graphs no lower bound on ε is known")
        return [
            (sub_graph_loss.privacy_loss(Step(*step), 0.5 / noise, interval), count)
            for step, count in self.steps
        ]


@dataclass(frozen=True)
class SubGraphDPSGD(SubGraphSums):
    """DP-Adam over sub-graphs: `steps` noisy sums of clipped gradients (`privacy.sub_graphs`).

    Every training node is a centre with probability `sampling_rate`; the gradient of its sub-graph
    is clipped to C/2; the sum gets Gaussian noise of standard deviation noise_multiplier × C.

    max_grad_norm: C, what the sum moves by for each sub-graph that changes. overlap: "kept", or
    "dropped" if a peripheral that is a centre in the round is taken out of the bags. most_lists:
    lists that may hold one node. rate_lists: 0 if a node is drawn with rate M over the number of
    lists that hold it, else the public number that stands in that place for all nodes. labelled:
    whether the protected node may be a centre. analysis: one of `sub_graphs.ANALYSES[overlap]`.
    """

    kind: ClassVar[str] = "sub_graph_dpsgd"
    noise: ClassVar[str] = "gaussian"
    noise_words: ClassVar[str] = ""

    query: str
    sampling_rate: float
    steps: int
    max_grad_norm: Sensitivity
    batch_size: int
    num_neighbors: int
    overlap: str
    most_lists: int
    rate_lists: int
    labelled: bool
    analysis: str
    phase: str

    def __post_init__(self) -> None:
        check_sub_graphs(self)
        one_of("overlap", self.overlap, tuple(ANALYSES))
        require(
            self.analysis in ANALYSES[self.overlap],
            f"analysis {self.analysis} does not hold with overlap {self.overlap}; choose "
            f"{' or '.join(ANALYSES[self.overlap])}",
        )
        require(is_count(self.rate_lists), f"rate_lists is {self.rate_lists!r}; give a number")

    def terms(self) -> tuple[Term, ...]:
        """Its steps."""
        step = (
            self.sampling_rate,
            self.num_neighbors,
            self.most_lists,
            self.rate_lists,
            self.labelled,
            self.analysis,
        )
        return (SubGraphSteps(((step, self.steps),)),)
