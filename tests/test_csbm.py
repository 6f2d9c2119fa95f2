"""The generated graph against its definition (DPDGC, Appendix K).

Statistical tests: every seed is fixed, so a test always gives the same answer; over all seeds each
would fail a correct generator with the probability that its docstring states.
"""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from graphdp.data import csbm as module
from graphdp.data.csbm import csbm, edge_probabilities, signal
from graphdp.errors import GraphDPError

PHI = (-1.0, -0.5, 0.0, 0.5, 1.0)


def class_means(graph):
    """Mean of v_i b_i over all nodes, float64 (f,)."""
    v = np.where(graph.y == 0, 1.0, -1.0)
    return v @ graph.x.astype(np.float64) / graph.num_nodes


@given(
    n=st.integers(2, 10**6),
    f=st.integers(1, 10**4),
    epsilon=st.floats(0, 10),
    phi=st.floats(-1, 1),
)
def test_signal_lies_on_the_arc(n, f, epsilon, phi):
    lam, mu = signal(n, f, epsilon, phi)
    assert lam**2 + mu**2 / (n / f) == pytest.approx(1 + epsilon, rel=1e-9)
    assert mu >= 0
    assert lam == 0 or math.copysign(1, lam) == math.copysign(1, phi)


def test_extremes_have_exactly_one_signal():
    for phi in (-1, 1):
        lam, mu = signal(1000, 50, 3.25, phi)
        assert mu == 0 and lam == phi * math.sqrt(4.25)
    lam, mu = signal(1000, 50, 3.25, 0)
    assert lam == 0 and mu == pytest.approx(math.sqrt(20 * 4.25))
    within, between = edge_probabilities(1000, 50, 10, 3.25, 0)
    assert within == between == 10 / 1000


@pytest.mark.parametrize("phi", PHI)
def test_edge_counts_follow_the_printed_probabilities(phi):
    """Edges within and between classes against binomials of (d ± λ√d)/n: fails at most 1e-7 each.

    Exact two-sided test at level 1e-7 on the sum over 20 graphs; two tests per φ, 1e-6 in all.
    """
    n, d, runs = 600, 8.0, 20
    lam = math.sqrt(4.25) * math.sin(phi * math.pi / 2)
    counts = np.zeros(2, dtype=int)
    for seed in range(runs):
        graph = csbm(n, 3, d, 3.25, phi, seed)
        sources = np.repeat(np.arange(n), np.diff(graph.indptr))
        same = graph.y[sources] == graph.y[graph.indices]
        assert graph.num_edges % 2 == 0
        counts += [same.sum() // 2, (~same).sum() // 2]
    half = n // 2
    pairs = [half * (half - 1), half * half]
    for count, number, sign in zip(counts, pairs, (1, -1), strict=True):
        probability = (d + sign * lam * math.sqrt(d)) / n
        assert stats.binomtest(int(count), runs * number, probability).pvalue > 1e-7


def test_every_pair_is_equally_likely():
    """Chi-square over all 28 pairs of 8 nodes, 1,000 graphs, φ = 0: fails with about 1e-7."""
    hits = np.zeros((8, 8))
    runs, d = 1000, 3.0
    for seed in range(runs):
        graph = csbm(8, 1, d, 0.0, 0.0, seed)
        hits[np.repeat(np.arange(8), np.diff(graph.indptr)), graph.indices] += 1
    assert (hits == hits.T).all() and (np.diag(hits) == 0).all()
    p = d / 8
    observed = hits[np.triu_indices(8, 1)]
    statistic = ((observed - runs * p) ** 2 / (runs * p * (1 - p))).sum()
    assert stats.chi2.isf(1 - 5e-8, 28) < statistic < stats.chi2.isf(5e-8, 28)


def test_pair_codes_enumerate_all_pairs():
    i, j = module._pair(np.arange(61 * 60 // 2))
    assert list(zip(i, j, strict=True)) == [(a, b) for a in range(61) for b in range(a)]


def test_pair_codes_are_exact_where_floating_point_is_not():
    """First and last pair of rows near the largest node number that int32 targets allow."""
    rows = np.concatenate([np.arange(1, 100), np.arange(2**31 - 1000, 2**31)])
    first = rows * (rows - 1) // 2
    for code, column in ((first, 0 * rows), (first + rows - 1, rows - 1)):
        i, j = module._pair(code)
        assert (i == rows).all() and (j == column).all()


@pytest.mark.parametrize("phi", PHI)
def test_feature_means_have_the_printed_scale(phi):
    """mean(v_i b_i) = √(μ/n)u + noise: f·‖mean‖²·n/(μ+1) is χ²_f; fails at most 1e-7 per φ.

    The sum over 10 graphs is χ² with 10 f degrees of freedom.
    """
    n, f, runs = 500, 40, 10
    _, mu = signal(n, f, 3.25, phi)
    total = sum(
        float((class_means(csbm(n, f, 5.0, 3.25, phi, seed)) ** 2).sum()) for seed in range(runs)
    )
    statistic = f * n * total / (mu + 1)
    assert stats.chi2.isf(1 - 5e-8, f * runs) < statistic < stats.chi2.isf(5e-8, f * runs)


@pytest.mark.parametrize("phi", PHI)
def test_feature_noise_is_independent_with_variance_1_over_f(phi):
    """Around the class means features are N(0, I/f): variance, coordinates and rows; at most 4e-7.

    Each of four statistics is tested at 1e-7 (two-sided): total variance (χ²), the class-blind mean
    (χ²_f, no signal since classes are equal), correlations of neighbouring coordinates and of
    neighbouring rows (both asymptotically normal with variance 1 / number of terms).
    """
    n, f = 2000, 30
    graph = csbm(n, f, 5.0, 3.25, phi, 7)
    v = np.where(graph.y == 0, 1.0, -1.0)
    noise = graph.x - np.outer(v, class_means(graph))
    degrees = (n - 1) * f
    statistic = f * float((noise**2).sum())
    assert stats.chi2.isf(1 - 5e-8, degrees) < statistic < stats.chi2.isf(5e-8, degrees)
    blind = f * n * float((graph.x.astype(np.float64).mean(0) ** 2).sum())
    assert stats.chi2.isf(1 - 5e-8, f) < blind < stats.chi2.isf(5e-8, f)
    for product in (noise[:, 1:] * noise[:, :-1], noise[1:] * noise[:-1]):
        score = f * float(product.sum()) / math.sqrt(product.size)
        assert abs(score) < stats.norm.isf(5e-8)


def test_classes_are_equal_and_in_random_order():
    """Equal sizes exactly; no run of equal classes longer than 60 of 2,000: fails below 1e-14."""
    for n in (2000, 2001):
        graph = csbm(n, 2, 5.0, 3.25, 0.5, 3)
        assert np.bincount(graph.y).tolist() == [n - n // 2, n // 2]
        changes = np.flatnonzero(np.diff(graph.y))
        assert np.diff(changes).max() < 60


def test_graph_is_undirected_valid_and_deterministic():
    graph = csbm(300, 10, 6.0, 3.25, 0.5, 11).validate()
    edges = set(zip(np.repeat(np.arange(300), np.diff(graph.indptr)), graph.indices, strict=True))
    assert all((j, i) in edges for i, j in edges)
    assert graph.num_classes == 2 and graph.raw_num_nodes == 300
    assert graph.fingerprint() == csbm(300, 10, 6.0, 3.25, 0.5, 11).fingerprint()
    other = csbm(300, 10, 6.0, 3.25, 0.5, 12)
    assert not np.array_equal(graph.x, other.x)
    assert not np.array_equal(graph.indices, other.indices)
    assert not np.array_equal(graph.y, other.y)


def test_large_graph_never_holds_a_dense_adjacency():
    tracemalloc.start()
    graph = csbm(30_000, 4, 10.0, 3.25, 0.5, 0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6, "n × n bytes would be 900 MB"
    assert graph.num_edges / graph.num_nodes == pytest.approx(10, abs=0.3)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"d": 2.0, "phi": 1.0}, r"leave \[0, 1\]"),
        ({"d": 500.0}, r"leave \[0, 1\]"),
        ({"phi": 1.5}, "-1 ≤ phi ≤ 1"),
        ({"n": 1}, "n ≥ 2"),
        ({"f": 0}, "f ≥ 1"),
        ({"d": 0.0}, "d > 0"),
        ({"epsilon": -1.0}, "epsilon > -1"),
        # Whole numbers that are no floats: their own line, with the first digits.
        ({"d": 10**400}, r"d > 0, .* \(both finite\) .* d=1000+\.\.\., epsilon"),
        ({"epsilon": 10**400}, r"epsilon > -1 \(both finite\)"),
        ({"n": 10**400}, r"10+\.\.\. nodes with 3 features are too many numbers"),
    ],
)
def test_out_of_range_parameters(parameters, message):
    valid = {"n": 400, "f": 3, "d": 8.0, "epsilon": 3.25, "phi": 0.5, "seed": 0}
    with pytest.raises(GraphDPError, match=message):
        csbm(**(valid | parameters))
