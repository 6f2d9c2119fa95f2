"""Rounds over sub-graphs of Poisson-sampled neighbours: what a plan says of them.

The analyses are those of `graphdp.privacy.sub_graphs`; this file needs no numpy.
"""

from typing import Any, ClassVar, NamedTuple

from graphdp.privacy.execution import Execution
from graphdp.privacy.mechanisms.base import NoisySums, check_rounds, is_count, require

HIDDEN, KNOWN, REVEALED, BOTH = (
    "hidden_coins",
    "known_multiplicities",
    "revealed_centres",
    "both",
)
#: Overlap rule -> the analyses that hold under it. "both": known multiplicities or revealed
#: centres, whichever is smaller at each α.
ANALYSES = {"kept": (HIDDEN,), "dropped": (BOTH, KNOWN, REVEALED)}


class Step(NamedTuple):
    """One round, as far as privacy depends on it.

    rate: q in (0, 1]. neighbors: M. most_lists: lists that may hold a node, at most. rate_lists: 0
    if a node's rate is M over the number of its own lists, else the public number that M is divided
    by. labelled: whether the node that is protected may be a centre. analysis: one of `ANALYSES`.
    """

    rate: float
    neighbors: int
    most_lists: int
    rate_lists: int
    labelled: bool
    analysis: str

    def chance(self, lists: int) -> float:
        """p, the chance to be drawn, of a node that so many lists hold."""
        lists = self.rate_lists or lists
        return min(1.0, self.neighbors / lists) if lists else 0.0

    def listers(self, lists: int) -> tuple[float, float]:
        """Chance of a lister to be among those that are counted, and of those to carry the node."""
        q, p = self.rate, self.chance(lists)
        if self.analysis == REVEALED:
            return q, p
        counted = 1 - q * (1 - p)
        return counted, q * p / counted if counted else 0.0


class SubGraphSums(NoisySums):
    """What rounds over sub-graphs have in common, whatever their noise.

    Fields besides those of `NoisySums`: sampling_rate (q), batch_size (the fixed divisor),
    num_neighbors (M), overlap (what is done with peripherals that are centres), most_lists.
    """

    #: Of its noise: "gaussian" or another shape's name, and its words in a statement.
    noise: ClassVar[str]
    noise_words: ClassVar[str]
    inference: ClassVar[str] = (
        "A prediction reads the queried node's features and those of some of its neighbours among "
        "nodes that did not train, without noise; no training node is read."
    )
    reads_sub_graphs: ClassVar[bool] = True

    sampling_rate: float
    batch_size: int
    num_neighbors: int
    overlap: str
    most_lists: int

    @property
    def rounds(self) -> int:
        """How many rounds are run."""
        return self.steps

    def execution(
        self, noise_multiplier: float, num_train: int, max_grad_norm: float | None
    ) -> Execution:
        """Poisson rounds of sub-graphs, each gradient clipped to C/2, divided by `batch_size`."""
        return Execution(
            "poisson",
            self.rounds,
            self.noise_std(noise_multiplier),
            self.sampling_rate,
            self.max_grad_norm.value / 2,
            self.batch_size,
            records=f"sub-graphs of {self.num_neighbors} neighbours, overlap {self.overlap}",
            noise=self.noise,
        )

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


def check_sub_graphs(mechanism: Any) -> None:
    """`check_rounds`, and refuse counts that are none."""
    check_rounds(mechanism)
    for name in ("batch_size", "num_neighbors", "most_lists"):
        value = getattr(mechanism, name)
        require(
            is_count(value), f"{mechanism.query}: {name} is {value!r}; give a whole number, 0 or up"
        )
