"""Sensitivities against every small graph: the bounds hold, are attained, or are refuted."""

import itertools
import math

import numpy as np
import pytest

from graphdp.errors import GraphDPError
from graphdp.privacy import sensitivity

NODES = 4
DEGREES = (1, 2, 3)
PAIRS = [(u, v) for u in range(NODES) for v in range(NODES) if u != v]
#: One-dimensional unit rows are signs: sums of aligned rows are the largest there are.
SIGNS = np.array(list(itertools.product((1.0, -1.0), repeat=NODES)))[:, :, None]


def all_digraphs() -> np.ndarray:
    """(4096, 4, 4) adjacency matrices of every digraph on 4 nodes without self-loops."""
    graphs = np.zeros((2 ** len(PAIRS), NODES, NODES))
    bits = np.arange(len(graphs))
    for position, (u, v) in enumerate(PAIRS):
        graphs[:, u, v] = bits >> position & 1
    return graphs


ALL = all_digraphs()


def unit_rows(seed: int, columns: int) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=(NODES, columns))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


FEATURES = [*SIGNS, unit_rows(0, 2), unit_rows(1, 3)]


def bounded(max_degree: int) -> np.ndarray:
    return ALL[(ALL.sum(axis=2) <= max_degree).all(axis=1)]


def aggregate(graphs: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.swapaxes(graphs, -1, -2) @ x


def norm_without(difference: np.ndarray, row: int) -> np.ndarray:
    """Frobenius norms of (graphs, rows, columns) with one row left out."""
    rest = np.delete(difference, row, axis=-2)
    return np.sqrt((rest**2).sum(axis=(-1, -2)))


@pytest.mark.parametrize("x", FEATURES, ids=range(len(FEATURES)))
def test_one_directed_entry_moves_the_aggregate_by_exactly_one(x):
    before = aggregate(ALL, x)
    for u, v in PAIRS:
        flipped = ALL.copy()
        flipped[:, u, v] = 1 - flipped[:, u, v]
        moved = np.sqrt(((aggregate(flipped, x) - before) ** 2).sum(axis=(1, 2)))
        np.testing.assert_allclose(moved, sensitivity.edge_directed().value, rtol=1e-12)


@pytest.mark.parametrize("x", FEATURES, ids=range(len(FEATURES)))
def test_one_undirected_edge_moves_the_aggregate_by_exactly_sqrt_two(x):
    """So the published sensitivity of 1 is exceeded by every edge of a symmetric graph."""
    symmetric = ALL[(np.swapaxes(ALL, 1, 2) == ALL).all(axis=(1, 2))]
    assert len(symmetric) == 64
    before = aggregate(symmetric, x)
    for u, v in itertools.combinations(range(NODES), 2):
        flipped = symmetric.copy()
        flipped[:, [u, v], [v, u]] = 1 - flipped[:, [u, v], [v, u]]
        moved = np.sqrt(((aggregate(flipped, x) - before) ** 2).sum(axis=(1, 2)))
        np.testing.assert_allclose(moved, sensitivity.edge_undirected().value, rtol=1e-12)


@pytest.mark.parametrize("max_degree", DEGREES)
@pytest.mark.parametrize(
    "bound", [sensitivity.participant, sensitivity.node_add_remove_as_published]
)
def test_a_node_whose_removal_leaves_other_lists_alone_moves_sqrt_degree(bound, max_degree):
    """Own row left out. Participant: the others keep their lists. Add/remove of a graph that is
    bounded already: their edges to the node vanish, which touches its own row alone."""
    graphs = bounded(max_degree)
    largest = 0.0
    for node, x in itertools.product(range(NODES), FEATURES):
        without = graphs.copy()
        without[:, node, :] = 0
        if bound is sensitivity.node_add_remove_as_published:
            without[:, :, node] = 0
        moved = norm_without(aggregate(graphs, x) - aggregate(without, x), node)
        largest = max(largest, moved.max())
    assert largest == pytest.approx(bound(max_degree).value, rel=1e-12)


@pytest.mark.parametrize("max_degree", DEGREES)
def test_replacing_a_node_moves_at_most_twice_sqrt_degree_and_attains_it(max_degree):
    """Features and both in- and out-edges of the node replaced, own row left out."""
    graphs = bounded(max_degree)
    lists = [
        np.array([0.0, *bits])
        for bits in itertools.product((0, 1), repeat=NODES - 1)
        if sum(bits) <= max_degree
    ]
    largest = 0.0
    for new_list, x in itertools.product(lists, FEATURES):
        for new_row in (x[0], -x[0], np.roll(x[0], 1)):
            replaced = graphs.copy()
            replaced[:, 0, :] = new_list
            replaced[:, 1:, 0] = 1 - replaced[:, 1:, 0]
            other = x.copy()
            other[0] = new_row
            moved = norm_without(aggregate(graphs, x) - aggregate(replaced, other), 0)
            largest = max(largest, moved.max())
    assert largest == pytest.approx(sensitivity.node_replace(max_degree).value, rel=1e-12)


def test_the_own_row_is_not_covered():
    """The published bound excludes it silently: the removed node's row sums up to n - 1 terms."""
    star = np.zeros((NODES, NODES))
    star[1:, 0] = 1  # everyone points to node 0, nobody has more than one out-edge
    x = np.ones((NODES, 1))
    own_row = aggregate(star, x)[0]
    assert np.linalg.norm(own_row) == NODES - 1
    assert sensitivity.node_add_remove_as_published(1).value < NODES - 1


def expected_aggregate(lists: list[tuple[int, ...]], max_degree: int, nodes: int) -> np.ndarray:
    """Exact expectation of the sum of ones over in-edges when every list longer than `max_degree`
    is replaced by a uniform subset of that size: the mean over all its subsets."""
    total = np.zeros(nodes)
    for targets in lists:
        subsets = list(itertools.combinations(targets, min(max_degree, len(targets))))
        for subset in subsets:
            total[list(subset)] += 1 / len(subsets)
    return total


@pytest.mark.parametrize("max_degree", [1, 2, 4])
@pytest.mark.parametrize("senders", [11, 100, 1000])
def test_random_degree_bounding_refutes_the_published_node_sensitivity(senders, max_degree):
    """K_{m,D+1}: removing one receiver moves the others' expected rows by m√D/(D+1) in total.

    That is above √D as soon as m > D + 1 and has no bound in m. Replacing it by a node that nobody
    points to moves them as much, which is above 2√D as soon as m > 2 (D + 1).
    """
    receivers = tuple(range(max_degree + 1))
    full = expected_aggregate([receivers] * senders, max_degree, len(receivers))
    removed = expected_aggregate([receivers[:-1]] * senders, max_degree, len(receivers))
    moved = np.linalg.norm((removed - full)[:-1])
    assert moved == pytest.approx(senders * math.sqrt(max_degree) / (max_degree + 1), rel=1e-9)
    assert moved > sensitivity.node_add_remove_as_published(max_degree).value
    assert moved > sensitivity.node_replace(max_degree).value


def test_every_sensitivity_names_formula_and_source():
    for bound in (
        sensitivity.edge_directed(),
        sensitivity.edge_undirected(),
        sensitivity.node_add_remove_as_published(9),
        sensitivity.participant(9),
        sensitivity.node_replace(9),
        sensitivity.clipped_gradient_sum(2.0),
        sensitivity.replaced_gradient_sum(2.0),
    ):
        assert bound.formula
        assert any(s in bound.source for s in ("GAP", "DPDGC", "Abadi", "triangle inequality"))
    assert sensitivity.replaced_gradient_sum(1.5).value == 3.0
    assert sensitivity.node_replace(9).value == 6.0
    assert sensitivity.participant(0).value == 0.0


@pytest.mark.parametrize("max_degree", [-1, 2.5, "3", True])
def test_a_degree_bound_must_be_a_whole_number(max_degree):
    with pytest.raises(GraphDPError, match="max_degree"):
        sensitivity.participant(max_degree)
