"""Degree bounds under node_add_remove: every small graph, and counterexamples that grow."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize

from graphdp.errors import GraphDPError
from graphdp.graphs import degree
from graphdp.privacy import sensitivity, stability

NODES = 4
PAIRS = [(u, v) for u in range(NODES) for v in range(NODES) if u != v]
SIGNS = np.array(list(itertools.product((1.0, -1.0), repeat=NODES)))[:, :, None]
SENDERS = (10, 100, 1000)


def all_digraphs():
    """(4096, 4, 4): every digraph on 4 nodes without self-loops."""
    graphs = np.zeros((2 ** len(PAIRS), NODES, NODES), dtype=bool)
    bits = np.arange(len(graphs))
    for position, (u, v) in enumerate(PAIRS):
        graphs[:, u, v] = bits >> position & 1
    return graphs


def all_undirected(nodes):
    """(2^(nodes choose 2), nodes, nodes): every symmetric graph."""
    pairs = list(itertools.combinations(range(nodes), 2))
    graphs = np.zeros((2 ** len(pairs), nodes, nodes), dtype=bool)
    bits = np.arange(len(graphs))
    for position, (u, v) in enumerate(pairs):
        graphs[:, u, v] = graphs[:, v, u] = bits >> position & 1
    return graphs


def csr(graphs):
    """Many small graphs as one, side by side."""
    nodes = graphs.shape[1]
    graph, _, targets = np.nonzero(graphs)
    indptr = np.concatenate([[0], np.cumsum(graphs.sum(axis=2).ravel())]).astype(np.int64)
    return indptr, (graph * nodes + targets).astype(np.int32)


def removed(graphs, node):
    without = graphs.copy()
    without[:, node, :] = without[:, :, node] = False
    return without


def weighted(graphs, weights):
    dense = np.zeros(graphs.shape)
    dense[graphs] = weights
    return dense


def largest_move(before, after, node):
    """No features with rows of norm ≤ 1 move M by more: √(Σ_v (Σ_u |w(u, v) - w'(u, v)|)²).

    The triangle inequality in each row; attained when the x_u can be signs that fit all rows.
    """
    rows = np.asarray(abs(before - after).sum(axis=0)).ravel()
    if node is not None:
        rows[node] = 0
    return float(np.linalg.norm(rows))


def largest_moves(before, after, node):
    """`largest_move` of many small graphs; the own row left out unless `node` is None."""
    rows = np.abs(before - after).sum(axis=1)
    if node is not None:
        rows[:, node] = 0
    return np.linalg.norm(rows, axis=1)


# --- public candidates ----------------------------------------------------------------------------


def candidates(graphs, max_degree, seed, ids, num_ids):
    """What `degree.public_candidates` keeps of each graph, each asked for on its own."""
    kept = np.zeros(graphs.shape)
    for graph, out in zip(graphs, kept, strict=True):
        keep = degree.public_candidates(*csr(graph[None]), max_degree, seed, ids, num_ids)
        out[graph] = keep
    return kept


@pytest.mark.slow
@pytest.mark.parametrize("max_degree", [1, 2, 3])
def test_public_candidates_move_sqrt_degree_and_attain_it(max_degree):
    """All 4,096 digraphs on 4 of 5 ids, all removals, features: all signs and orthogonal rows."""
    graphs = all_digraphs()
    ids = np.array([0, 1, 3, 4])
    kept = candidates(graphs, max_degree, 1, ids, 5)
    assert kept.sum(axis=2).max() <= max_degree and kept.sum(axis=1).max() <= max_degree
    without_own, with_own = [], []
    for node in range(NODES):
        after = candidates(removed(graphs, node), max_degree, 1, ids, 5)
        change = np.swapaxes(kept - after, 1, 2)
        for x in [*SIGNS, np.eye(NODES)]:
            moved = change @ x
            with_own.append(np.linalg.norm(moved, axis=(1, 2)).max())
            moved[:, node] = 0
            without_own.append(np.linalg.norm(moved, axis=(1, 2)).max())
        # No features of any dimension do more.
        without_own.append(largest_moves(kept, after, node).max())
        with_own.append(largest_moves(kept, after, None).max())
    attained = min(max_degree, int(kept.sum(axis=2).max()))
    assert max(without_own) == pytest.approx(math.sqrt(attained), rel=1e-12)
    assert max(without_own) <= sensitivity.public_candidates(max_degree).value * (1 + 1e-12)
    bound = sensitivity.public_candidates_with_own_row(max_degree).value
    assert max(with_own) <= bound * (1 + 1e-12)


@pytest.mark.parametrize("max_degree", [1, 3, 6])
def test_a_complete_graph_attains_both_bounds_of_public_candidates(max_degree):
    complete = csr(~np.eye(7, dtype=bool)[None])
    keep = degree.public_candidates(*complete, max_degree, 0)
    before, after = (
        stability.matrix(*g, degree.public_candidates(*g, max_degree, 0))
        for g in (complete, stability.without_node(*complete, 2))
    )
    assert keep.sum() == 7 * max_degree
    ones = np.ones((7, 1))
    bound = sensitivity.public_candidates(max_degree).value
    assert stability.move(before, after, ones, 2) == pytest.approx(bound, rel=1e-12)
    bound = sensitivity.public_candidates_with_own_row(max_degree).value
    assert stability.move(before, after, ones, None) == pytest.approx(bound, rel=1e-12)


@pytest.mark.parametrize("senders", SENDERS)
@pytest.mark.parametrize(
    "family", [stability.shared_receivers, stability.hub_of_stars, stability.saturated_path]
)
def test_no_family_moves_public_candidates(family, senders):
    for max_degree in (1, 3):
        graph = family(senders, max_degree)
        node = 0
        after = stability.without_node(*graph, node)
        weights = (
            stability.matrix(*g, degree.public_candidates(*g, max_degree, 5))
            for g in (graph, after)
        )
        moved = largest_move(*weights, node)
        assert moved <= sensitivity.public_candidates(max_degree).value * (1 + 1e-12)


# --- refuted candidates ---------------------------------------------------------------------------


def refutation(name, graph, max_degree, node, x):
    weights = stability.REFUTED[name]
    before, after = (
        stability.matrix(*g, weights(*g, max_degree, 3))
        for g in (graph, stability.without_node(*graph, node))
    )
    return stability.move(before, after, x, node)


@pytest.mark.parametrize("max_degree", [1, 2, 5])
@pytest.mark.parametrize("senders", SENDERS)
def test_hash_priority_with_refill_moves_one_row_by_the_number_of_senders(senders, max_degree):
    graph = stability.shared_receivers(senders, max_degree)
    nodes = len(graph[0]) - 1
    first = int(degree.public_order(nodes, 3)[: max_degree + 1].argmin())
    moved = refutation("hash_priority", graph, max_degree, first, np.ones((nodes, 1)))
    assert moved == pytest.approx(senders, rel=1e-12)


@pytest.mark.parametrize("max_degree", [1, 2, 5])
@pytest.mark.parametrize("senders", SENDERS)
def test_sender_scaling_moves_linearly_in_the_number_of_senders(senders, max_degree):
    graph = stability.shared_receivers(senders, max_degree)
    moved = refutation("sender_scaling", graph, max_degree, 0, np.ones((len(graph[0]) - 1, 1)))
    step = 1 - math.sqrt(max_degree / (max_degree + 1))
    assert moved == pytest.approx(senders * math.sqrt(max_degree) * step, rel=1e-9)


@pytest.mark.parametrize("max_degree", [1, 2, 5])
@pytest.mark.parametrize("stars", SENDERS)
def test_two_sided_scaling_moves_with_the_root_of_the_number_of_stars(stars, max_degree):
    graph = stability.hub_of_stars(stars, max_degree)
    x = np.ones((len(graph[0]) - 1, 1))
    x[0] = -1
    moved = refutation("two_sided_scaling", graph, max_degree, 0, x)
    assert moved >= math.sqrt(stars * max_degree / (max_degree + 1))
    # On the family that refutes the others it stays within √D.
    graph = stability.shared_receivers(stars, max_degree)
    x = np.ones((len(graph[0]) - 1, 1))
    assert refutation("two_sided_scaling", graph, max_degree, 0, x) <= math.sqrt(max_degree)


@pytest.mark.parametrize("max_degree", [1, 2, 5])
@pytest.mark.parametrize("length", [10, 100, 200])
def test_edge_order_truncation_moves_every_inner_row_of_a_path(length, max_degree):
    graph = stability.saturated_path(length, max_degree)
    nodes = len(graph[0]) - 1
    start = nodes - length - 1
    opposite = np.ones((nodes, 1))
    # + + - - + + ...: the neighbours before and after a node have opposite signs.
    opposite[start:, 0] = np.resize([1.0, 1.0, -1.0, -1.0], length + 1)
    moved = refutation("edge_order_truncation", graph, max_degree, start, opposite)
    # Every inner row changes its neighbour; the last one gains or loses its only one.
    assert moved**2 == pytest.approx(4 * (length - 1) + 1)
    orthogonal = refutation("edge_order_truncation", graph, max_degree, start, np.eye(nodes))
    assert orthogonal**2 == pytest.approx(2 * (length - 1) + 1)
    # The degrees inside the path do not move.
    degrees = refutation("edge_order_truncation", graph, max_degree, start, np.ones((nodes, 1)))
    assert degrees == pytest.approx(1)


@pytest.mark.parametrize("max_degree", [1, 2, 5])
@pytest.mark.parametrize("stars", [10, 100, 300])
def test_first_edges_truncation_moves_with_the_root_of_the_number_of_stars(stars, max_degree):
    graph = stability.hub_of_stars(stars, max_degree)
    x = np.eye(len(graph[0]) - 1)
    moved = refutation("first_edges_truncation", graph, max_degree, 0, x)
    # The hub keeps D of its own edges: as many centres also lose it.
    assert moved**2 == pytest.approx(2 * stars + max_degree)


@pytest.mark.parametrize("max_degree", [1, 2])
def test_refuted_candidates_respect_their_bounds(max_degree):
    """They bound what they say they bound, or refuting them would mean nothing."""
    undirected = all_undirected(5)
    indptr, indices = csr(undirected)
    order = stability.edge_order_truncation(indptr, indices, max_degree)
    two_sided = stability.two_sided_scaling(indptr, indices, max_degree)
    priority = stability.hash_priority(indptr, indices, max_degree, 0)
    scaling = stability.sender_scaling(indptr, indices, max_degree)
    first = stability.first_edges_truncation(indptr, indices, max_degree)
    assert (first <= order).all()
    for weights in (order, first, two_sided, priority):
        sent = weighted(undirected, weights).sum(axis=2)
        assert sent.max() <= max_degree + 1e-12
    assert weighted(undirected, order).sum(axis=1).max() == max_degree
    assert weighted(undirected, two_sided).sum(axis=1).max() <= max_degree + 1e-12
    squares = (weighted(undirected, scaling) ** 2).sum(axis=2)
    assert squares.max() == pytest.approx(max_degree)
    # An edge is missing only where an end is full.
    full = weighted(undirected, order).sum(axis=2) == max_degree
    missing = undirected & (weighted(undirected, order) == 0)
    assert (missing <= (full[:, :, None] | full[:, None, :])).all()


@pytest.mark.parametrize("name", ["edge_order_truncation", "first_edges_truncation"])
def test_truncation_refuses_a_directed_graph(name):
    with pytest.raises(GraphDPError, match="symmetric"):
        stability.REFUTED[name](np.array([0, 1, 1]), np.array([1], dtype=np.int32), 1, 0)


# --- balanced weights -----------------------------------------------------------------------------


@pytest.mark.parametrize("max_degree", [1, 2, 3])
@pytest.mark.parametrize("graphs", [all_digraphs(), all_undirected(5)], ids=["directed", "5 nodes"])
def test_balanced_weights_move_less_than_their_bound(graphs, max_degree):
    """Every digraph on 4 nodes and every graph on 5, all removals, the worst features of each."""
    nodes, gap = graphs.shape[1], 1e-9
    before = weighted(graphs, stability.balanced_weights(*csr(graphs), max_degree, gap))
    bound = sensitivity.balanced_weights(max_degree, nodes, gap).value
    largest = 0.0
    for node in range(nodes):
        without = removed(graphs, node)
        after = weighted(without, stability.balanced_weights(*csr(without), max_degree, gap))
        largest = max(largest, largest_moves(before, after, None).max())
    assert math.sqrt(max_degree) <= largest <= bound


@pytest.mark.parametrize("max_degree", [1, 2, 3])
def test_balanced_weights_are_feasible_optimal_and_symmetric(max_degree):
    graphs = all_undirected(5)
    weights = weighted(graphs, stability.balanced_weights(*csr(graphs), max_degree, 1e-12))
    for axis in (1, 2):
        assert weights.sum(axis=axis).max() <= max_degree * (1 + 1e-12)
    assert weights.max() <= 1 + 1e-12 and weights[graphs].min() > 0
    np.testing.assert_allclose(weights, np.swapaxes(weights, 1, 2), atol=1e-5)
    # Nobody is held back unless an end is full.
    full = weights.sum(axis=2) > max_degree - 1e-4
    assert (graphs & (weights < 1 - 1e-4) <= (full[:, :, None] | full[:, None, :])).all()


def test_balanced_weights_against_a_general_solver():
    """Random digraphs of 7 nodes, D = 2, by sequential quadratic programming."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        graph = (rng.random((1, 7, 7)) < 0.6) & ~np.eye(7, dtype=bool)
        _, senders, receivers = np.nonzero(graph)
        ours = stability.balanced_weights(*csr(graph), 2, 1e-10)
        ends = np.concatenate([np.eye(7)[senders], np.eye(7)[receivers]], axis=1).T
        found = minimize(
            lambda w: np.sum(w * np.log(w) - w),
            np.full(len(senders), 0.1),
            jac=np.log,
            bounds=[(1e-9, 1)] * len(senders),
            constraints={
                "type": "ineq",
                "fun": lambda w, e=ends: 2 - e @ w,
                "jac": lambda w, e=ends: -e,
            },
            options={"maxiter": 500, "ftol": 1e-12},
        )
        np.testing.assert_allclose(ours, found.x, atol=1e-4)


@pytest.mark.parametrize("max_degree", [1, 3])
@pytest.mark.parametrize(
    "family", [stability.shared_receivers, stability.hub_of_stars, stability.saturated_path]
)
def test_no_family_moves_balanced_weights_beyond_their_bound(family, max_degree):
    for size in (10, 100, 1000):
        graph = family(size, max_degree)
        n, gap = len(graph[0]) - 1, 1e-2
        for node in (0, n - 1, n - size):
            before, after = (
                stability.matrix(*g, stability.balanced_weights(*g, max_degree, gap))
                for g in (graph, stability.without_node(*graph, node))
            )
            moved = largest_move(before, after, None)
            assert moved <= sensitivity.balanced_weights(max_degree, n, gap).value


@pytest.mark.parametrize("max_degree", [1, 4, 9, 12])
def test_the_log_factor_is_the_largest_there_is(max_degree):
    """g against a general solver for the maximum of Σ (w - w ln w), 9 weights of sum ≤ D."""
    found = minimize(
        lambda w: np.sum(w * np.log(w) - w),
        np.full(9, 0.05),
        bounds=[(1e-9, 1)] * 9,
        constraints={"type": "ineq", "fun": lambda w: max_degree - w.sum()},
    )
    g = sensitivity.balanced_weights(max_degree, 10).value ** 2 / (4 * max_degree)
    assert g == pytest.approx(-found.fun, rel=1e-5)


def test_the_gap_is_part_of_the_bound_and_must_be_reached():
    exact, loose = (sensitivity.balanced_weights(2, 9, gap).value for gap in (0.0, 0.01))
    assert loose - exact == pytest.approx(2 * math.sqrt(2 * 2 * 0.01))
    graph = stability.saturated_path(50, 2)
    with pytest.raises(GraphDPError, match="duality gap"):
        stability.balanced_weights(*graph, 2, gap=1e-12, max_rounds=20)
