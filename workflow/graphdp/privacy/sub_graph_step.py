"""One round over sub-graphs, as far as privacy depends on it, and the analyses of it by name.

The analyses are those of `graphdp.privacy.sub_graphs`; this file needs no numpy.
"""

from typing import NamedTuple

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
        counted = 1 - q * (1 - p) if q < 1 else p  # what is rounded must not fall below q p
        return counted, min(1.0, q * p / counted) if counted else 0.0
