"""HeterPoisson's bags: rates, overlaps and what predictions read, against brute force."""

import numpy as np
import pytest
from scipy import stats

from graphdp.data.graph import csr_from_edges, in_edges
from graphdp.errors import GraphDPError
from graphdp.methods.heterpoisson.bags import (
    Bags,
    HeterPoisson,
    Lists,
    Official,
    between,
    with_strangers,
    without_overlap,
)

NODES = 30
ALPHA = 1e-6


def directed(seed: int, edges: int = 150, nodes: int = NODES):
    rng = np.random.default_rng(seed)
    ends = rng.integers(nodes, size=(2, edges))
    return csr_from_edges(*ends, nodes, symmetrise=False)


def lists_by_hand(indptr, indices):
    lists = {v: [] for v in range(len(indptr) - 1)}
    for u in lists:
        for v in indices[indptr[u] : indptr[u + 1]]:
            lists[v].append(u)
    return lists


def test_the_rate_counts_the_lists_that_hold_a_node_and_not_the_lists_own_length():
    """On a directed graph the two differ: a hub that 20 nodes list, each listing it alone."""
    sources = np.array([0] * 20 + [1, 2, 3])
    targets = np.array([*range(1, 21), 0, 0, 0])
    lists = Lists.of(in_edges(*csr_from_edges(sources, targets, 21, symmetrise=False)), 2)
    assert lists.rate[0] == 2 / 20
    assert (lists.rate[[1, 2, 3]] == 1.0).all()  # one list each: 2 / 1, but no more than 1
    assert lists.rate[0] * 20 <= 2


@pytest.mark.parametrize("num_neighbors", [0, 1, 3])
def test_no_node_is_expected_in_more_than_so_many_bags(num_neighbors):
    indptr, indices = directed(1)
    lists = Lists.of(in_edges(indptr, indices), num_neighbors)
    holders = np.bincount(np.repeat(np.arange(NODES), np.diff(indptr)), minlength=NODES)
    assert (lists.rate * holders <= num_neighbors + 1e-12).all()
    assert (lists.rate <= 1).all()
    bags = lists.sampled(np.arange(NODES), np.random.default_rng(0))
    assert num_neighbors or not len(bags.peripherals)


def test_public_rates_do_not_look_at_the_lists_and_are_refused_beyond_their_bound():
    edges = in_edges(*directed(2))
    assert set(Lists.of(edges, 2, max_degree=25, public_rate=True).rate) == {2 / 25}
    announced = Lists.of(edges, 2, max_degree=25)
    assert np.array_equal(announced.rate, Lists.of(edges, 2).rate)
    for public in (True, False):
        with pytest.raises(GraphDPError, match="lists hold one node, but the plan takes 2"):
            Lists.of(edges, 1, max_degree=2, public_rate=public)


def test_bags_are_whole_lists_thinned_by_independent_coins():
    """Each (centre, neighbour) is kept as often as its rate says: two-sided, 1e-6 over all."""
    indptr, indices = directed(3)
    lists = Lists.of(in_edges(indptr, indices), 2)
    by_hand, rng, draws = lists_by_hand(indptr, indices), np.random.default_rng(4), 4000
    centres = np.array([5, 0, 17, 8])
    whole = lists.all_of(centres)
    for i, centre in enumerate(centres):
        found = whole.peripherals[whole.starts[i] : whole.starts[i + 1]]
        assert sorted(found) == sorted(by_hand[centre])
    counts = np.zeros(len(whole.peripherals))
    together = np.zeros((len(counts), len(counts)))
    for _ in range(draws):
        bags = lists.sampled(centres, rng)
        pairs = set(zip(bags.owners, bags.peripherals, strict=True))
        kept = [pair in pairs for pair in zip(whole.owners, whole.peripherals, strict=True)]
        counts += kept
        together += np.outer(kept, kept)
    rates = lists.rate[whole.peripherals]
    level = ALPHA / (2 * len(counts) ** 2)
    for i, rate in enumerate(rates):
        assert stats.binomtest(int(counts[i]), draws, rate).pvalue > level
        for j in range(i):
            both = stats.binomtest(int(together[i, j]), draws, rate * rates[j])
            assert both.pvalue > level


def test_overlaps_by_brute_force():
    lists = Lists.of(in_edges(*directed(5, 400)), 9)
    rng = np.random.default_rng(6)
    for _ in range(20):
        centres = rng.permutation(NODES)[:12]
        bags = lists.sampled(centres, rng)
        place = {int(c): i for i, c in enumerate(centres)}
        for overlap in ("kept", "dropped", "zeroed", "official"):
            found = without_overlap(bags, overlap, NODES)
            expected, blank = [], []
            for owner, z in zip(bags.owners, bags.peripherals, strict=True):
                central = int(z) in place
                if overlap == "dropped" and central:
                    continue
                if overlap == "official" and central and place[int(z)] < owner:
                    continue
                expected.append((owner, z))
                blank.append(overlap == "zeroed" and central)
            assert list(zip(found.owners, found.peripherals, strict=True)) == expected
            assert (found.blank is None and not any(blank)) or list(found.blank) == blank
    with pytest.raises(GraphDPError, match="overlap is 'removed'; choose one of kept"):
        without_overlap(bags, "removed", NODES)


def test_the_authors_code_keeps_about_half_of_the_overlaps():
    lists = Lists.of(in_edges(*directed(7, 3000, 200)), 8)
    rng = np.random.default_rng(8)
    centres, kept, all_of_them = np.arange(100), 0, 0
    for _ in range(50):
        bags = Official(lists, np.arange(200), rng)(centres)
        kept += (bags.peripherals < 100).sum()
        all_of_them += (lists.sampled(centres, rng).peripherals < 100).sum()
    # A standard deviation of the ratio is about 0.01.
    assert 0.4 < kept / all_of_them < 0.6


def test_the_authors_code_cuts_long_lists_and_gives_strangers_to_nodes_without_one():
    nodes = 700
    sources, targets = np.arange(1, nodes), np.zeros(nodes - 1, int)
    lists = Lists.of(in_edges(*csr_from_edges(sources, targets, nodes, symmetrise=False)), 1)
    assert (lists.rate[1:] == 1).all()
    rng = np.random.default_rng(9)
    bags = Official(lists, np.arange(nodes), rng)(np.array([0, 3]))
    at = list(bags.centres).index(0)
    mine = bags.peripherals[bags.starts[at] : bags.starts[at + 1]]
    # Node 3, a centre without a list, has one stranger; it may have been removed from 0's bag.
    assert set(range(1, 501)) - {3} <= set(mine) <= set(range(1, 501))
    assert bags.sizes[1 - at] == 1 or bags.peripherals[bags.starts[1 - at]] in (0,)
    ours = HeterPoisson(lists, "kept", rng)(np.array([0, 3]))
    assert list(ours.sizes) == [nodes - 1, 0]


def test_strangers_fill_the_bags_of_those_alone_and_of_nobody_else():
    """Uniform over those named, with replacement: a chi-squared test at 1e-6."""
    indptr, indices = directed(14, 25)
    lists = Lists.of(in_edges(indptr, indices), 1)
    by_hand, rng = lists_by_hand(indptr, indices), np.random.default_rng(15)
    strangers, counts = np.array([3, 4, 8, 20]), np.zeros(NODES)
    alone = {v for v, listed in by_hand.items() if not listed}
    assert 3 < len(alone) < NODES - 3
    for _ in range(500):
        centres = rng.permutation(NODES)
        thinned = lists.sampled(centres, rng)  # a bag may be empty, though its list is not
        bags = with_strangers(thinned, lists, 3, strangers, rng)
        for i, centre in enumerate(centres):
            mine = bags.peripherals[bags.starts[i] : bags.starts[i + 1]]
            before = thinned.peripherals[thinned.starts[i] : thinned.starts[i + 1]]
            if centre in alone:
                assert len(mine) == 3
                counts += np.bincount(mine, minlength=NODES)
            else:
                assert list(mine) == list(before)
    assert set(np.flatnonzero(counts)) == set(strangers)
    assert stats.chisquare(counts[strangers]).pvalue > ALPHA
    assert with_strangers(thinned, lists, 0, strangers, rng) is thinned


def test_predictions_read_distinct_neighbours_and_all_of_short_lists():
    indptr, indices = directed(10, 400)
    lists = Lists.of(in_edges(indptr, indices), 0)
    by_hand = lists_by_hand(indptr, indices)
    rng, counts = np.random.default_rng(11), {}
    for _ in range(2000):
        bags = lists.some_of(np.arange(NODES), 5, rng)
        assert list(bags.sizes) == [min(5, len(by_hand[v])) for v in range(NODES)]
        first = bags.peripherals[: bags.sizes[0]]
        assert len(set(first)) == len(first) and set(first) <= set(by_hand[0])
        for z in first:
            counts[z] = counts.get(z, 0) + 1
    expected = 2000 * 5 / len(by_hand[0])
    # Uniform without replacement: each count has less variance than a Poisson one.
    assert (
        stats.chi2.sf(
            sum((counts[z] - expected) ** 2 / expected for z in by_hand[0]), len(by_hand[0]) - 1
        )
        > ALPHA
    )


def test_edges_between_the_sides_of_a_split_are_left_out():
    indptr, indices = directed(12, 300)
    sides = np.random.default_rng(13).integers(0, 2, NODES)
    found = between(indptr, indices, sides)
    for v, listed in lists_by_hand(indptr, indices).items():
        kept = [u for u in listed if sides[u] == sides[v]]
        assert sorted(found.indices[found.indptr[v] : found.indptr[v + 1]]) == sorted(kept)


def test_parts_of_bags():
    bags = Bags(np.array([4, 2, 9]), np.array([0, 2, 2, 5]), np.array([1, 3, 5, 7, 8]))
    part = bags.part(1, 3)
    assert list(part.centres) == [2, 9] and list(part.starts) == [0, 0, 3]
    assert list(part.peripherals) == [5, 7, 8] and list(part.owners) == [1, 1, 1]
