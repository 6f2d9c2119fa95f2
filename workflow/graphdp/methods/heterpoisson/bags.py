"""HeterPoisson's sub-graphs: which neighbours a centre keeps in a round (Algorithms 2 and 3).

A bag is a centre with the neighbours that it kept, its peripherals. Bags are flat: the peripherals
of centre i of a batch are `peripherals[starts[i]:starts[i + 1]]`; nothing is padded.
"""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from graphdp.data.graph import InEdges, in_edges
from graphdp.errors import GraphDPError

#: What becomes of a peripheral that is itself a centre of the round.
OVERLAPS = ("kept", "dropped", "zeroed", "official")
#: The authors' code looks at the first so many neighbours of a node.
OFFICIAL_LONGEST_LIST = 500


@dataclass(frozen=True)
class Bags:
    """Centres int64 (B,), starts int64 (B + 1,), peripherals int64 (E,); blank bool (E,) or None:
    peripherals that count as rows but whose features are taken to be zero."""

    centres: np.ndarray
    starts: np.ndarray
    peripherals: np.ndarray
    blank: np.ndarray | None = None

    @property
    def sizes(self) -> np.ndarray:
        """Number of peripherals of each centre: int64 (B,)."""
        return np.diff(self.starts)

    @property
    def owners(self) -> np.ndarray:
        """The place among the centres of each peripheral's own: int64 (E,)."""
        return np.repeat(np.arange(len(self.centres)), self.sizes)

    def kept(self, keep: np.ndarray) -> "Bags":
        """The bags with the peripherals that the mask `keep` (E,) leaves."""
        counts = np.concatenate([[0], np.cumsum(keep)])
        blank = None if self.blank is None else self.blank[keep]
        return Bags(self.centres, counts[self.starts], self.peripherals[keep], blank)

    def part(self, first: int, last: int) -> "Bags":
        """The bags of the centres `first` to `last` - 1."""
        start, stop = self.starts[first], self.starts[last]
        blank = None if self.blank is None else self.blank[start:stop]
        return Bags(
            self.centres[first:last],
            self.starts[first : last + 1] - start,
            self.peripherals[start:stop],
            blank,
        )


class Draw(Protocol):
    """What makes the bags of a batch, and says how."""

    records: str

    def __call__(self, centres: np.ndarray) -> Bags:
        """centres: int64 (B,), distinct."""


@dataclass(frozen=True)
class Lists:
    """Every node's list of neighbours that it may keep, and every node's rate of being kept.

    lists: the lists, of distinct nodes and never the node itself. num_neighbors: M. rate: float64
    (n,), the chance with which whoever lists node z, and is a centre, keeps z.
    """

    lists: InEdges
    num_neighbors: int
    rate: np.ndarray

    @classmethod
    def of(
        cls,
        lists: InEdges,
        num_neighbors: int,
        max_degree: int | None = None,
        public_rate: bool = False,
        counted: InEdges | None = None,
    ) -> "Lists":
        """Rates min(1, M / number of lists that hold the node): so a node is kept about M times
        where every centre is drawn, whoever lists it. max_degree: the most lists that hold a node,
        as a plan takes it for granted; with `public_rate` M / max_degree for all, which tells
        nothing of any list. counted: longer lists, of which these are parts, to be counted in
        their place. Raises `GraphDPError` where a node is in more lists.

        The number of lists is counted in the lists themselves: that of *whom a node lists* would
        bound nothing on a directed graph.
        """
        holders = np.bincount(lists.indices, minlength=lists.num_nodes)
        if max_degree is not None and holders.max(initial=0) > max_degree:
            raise GraphDPError(
                f"{holders.max()} lists hold one node, but the plan takes {max_degree} for the "
                "most: raise max_degree"
            )
        if counted is not None:
            holders = np.bincount(counted.indices, minlength=lists.num_nodes)
        counts = np.full(lists.num_nodes, max_degree) if public_rate else np.maximum(holders, 1)
        rate = num_neighbors / counts
        return cls(lists, num_neighbors, np.minimum(rate, 1.0))

    def all_of(self, centres: np.ndarray) -> Bags:
        """The bags with whole lists."""
        sizes = (self.lists.indptr[centres + 1] - self.lists.indptr[centres]).astype(np.int64)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        places = np.arange(starts[-1]) + np.repeat(self.lists.indptr[centres] - starts[:-1], sizes)
        return Bags(centres, starts, self.lists.indices[places].astype(np.int64))

    def sampled(self, centres: np.ndarray, coins: np.random.Generator) -> Bags:
        """Algorithm 3: every neighbour is kept by a coin of its own."""
        bags = self.all_of(centres)
        return bags.kept(coins.random(len(bags.peripherals)) < self.rate[bags.peripherals])

    def some_of(self, centres: np.ndarray, most: int, coins: np.random.Generator) -> Bags:
        """For predictions: `most` of each list, drawn without replacement, or all of a shorter."""
        bags = self.all_of(centres)
        order = np.lexsort((coins.random(len(bags.peripherals)), bags.owners))
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order)) - np.repeat(bags.starts[:-1], bags.sizes)
        return bags.kept(ranks < most)


def without_overlap(bags: Bags, overlap: str, num_nodes: int) -> Bags:
    """Algorithm 2, lines 13 to 22: what is done about peripherals that are centres of the round.

    "kept": nothing. "dropped": they are removed from the bags. "zeroed", as printed: their features
    are zero, but they stay. "official", as the authors' code has it: removed if the centre came
    earlier in the batch.
    """
    if overlap == "kept":
        return bags
    place = np.full(num_nodes, len(bags.centres))  # of a node among the centres
    place[bags.centres] = np.arange(len(bags.centres))
    if overlap == "official":
        return bags.kept(place[bags.peripherals] >= bags.owners)
    central = place[bags.peripherals] < len(bags.centres)
    if overlap == "dropped":
        return bags.kept(~central)
    if overlap != "zeroed":
        raise GraphDPError(f"overlap is {overlap!r}; choose one of {', '.join(OVERLAPS)}")
    return Bags(bags.centres, bags.starts, bags.peripherals, central)


def records(num_neighbors: int, overlap: str) -> str:
    """How a round's records are drawn, as plans and executions say it."""
    return f"sub-graphs of {num_neighbors} neighbours, overlap {overlap}"


@dataclass(frozen=True)
class HeterPoisson:
    """The bags of one round after another (Algorithm 2, given the centres).

    coins: draws who is kept; on their secrecy an ε may rest.
    """

    lists: Lists
    overlap: str
    coins: np.random.Generator

    def __call__(self, centres: np.ndarray) -> Bags:
        nodes = self.lists.lists.num_nodes
        return without_overlap(self.lists.sampled(centres, self.coins), self.overlap, nodes)

    @property
    def records(self) -> str:
        """What it draws, for the execution."""
        return records(self.lists.num_neighbors, self.overlap)


@dataclass(frozen=True)
class Official:
    """As the authors' code draws bags: lists are cut to their first 500, a centre without a list is
    given M strangers, and the batch is shuffled before overlaps are removed.

    strangers: the nodes whom it draws them from, int64.
    """

    lists: Lists
    strangers: np.ndarray
    coins: np.random.Generator

    def __call__(self, centres: np.ndarray) -> Bags:
        centres = self.coins.permutation(centres)
        shorter = replace(self.lists, lists=_cut(self.lists.lists, OFFICIAL_LONGEST_LIST))
        bags = shorter.sampled(centres, self.coins)
        bags = with_strangers(
            bags, self.lists, self.lists.num_neighbors, self.strangers, self.coins
        )
        return without_overlap(bags, "official", self.lists.lists.num_nodes)

    @property
    def records(self) -> str:
        """What it draws, for the execution."""
        return records(self.lists.num_neighbors, "official")


def with_strangers(
    bags: Bags, lists: Lists, count: int, strangers: np.ndarray, coins: np.random.Generator
) -> Bags:
    """The authors' code: a centre with an empty list has `count` of the nodes `strangers`, drawn
    with replacement, for its peripherals. Such a centre's bag is empty."""
    alone = np.flatnonzero(np.diff(lists.lists.indptr)[bags.centres] == 0)
    if not alone.size * count:
        return bags
    drawn = coins.choice(strangers, alone.size * count)
    owners = np.concatenate([bags.owners, np.repeat(alone, count)])
    order = np.argsort(owners, kind="stable")
    starts = np.searchsorted(owners[order], np.arange(len(bags.centres) + 1))
    return Bags(bags.centres, starts, np.concatenate([bags.peripherals, drawn])[order])


def _cut(lists: InEdges, longest: int) -> InEdges:
    sizes = np.diff(lists.indptr)
    rank = np.arange(len(lists.indices)) - np.repeat(lists.indptr[:-1], sizes)
    indptr = np.concatenate([[0], np.cumsum(np.minimum(sizes, longest))])
    return InEdges(indptr, lists.indices[rank < longest])


def between(indptr: np.ndarray, indices: np.ndarray, sides: np.ndarray) -> InEdges:
    """Every node's in-neighbours of its own side, of out-edges in CSR: sides (n,), equal numbers
    for one side."""
    sources = np.repeat(np.arange(len(sides)), np.diff(indptr))
    same = sides[sources] == sides[indices]
    counts = np.bincount(sources[same], minlength=len(sides))
    return in_edges(np.concatenate([[0], np.cumsum(counts)]), indices[same])
