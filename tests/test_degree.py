"""Degree bounding: exact bound, uniform samples, and nothing touched that need not be."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from graphdp.data.csbm import csbm
from graphdp.data.graph import csr_from_edges
from graphdp.errors import GraphDPError
from graphdp.graphs import bounds, degree

ALPHA = 1e-6


def csr(degrees):
    """A directed graph with the given out-degrees; targets count up within each row."""
    indptr = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)
    indices = np.concatenate([np.arange(d) for d in degrees] + [[]]).astype(np.int32)
    return indptr, indices


def rows_of(indptr, values):
    return [values[a:b] for a, b in itertools.pairwise(indptr)]


def subset_counts(samples):
    """How often each subset occurs among rows of a bool matrix, by bit pattern."""
    codes = samples @ (1 << np.arange(samples.shape[1]))
    return np.bincount(codes, minlength=1 << samples.shape[1])


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=30),
    st.integers(1, 45),
    st.integers(0, 2**63 - 1),
)
@settings(max_examples=150)
def test_every_row_keeps_exactly_what_it_must(degrees, max_degree, seed):
    indptr, indices = csr(degrees)
    keep = degree.bound_out_degree(indptr, indices, max_degree, seed)
    assert keep.dtype == bool and keep.shape == indices.shape
    kept = [int(row.sum()) for row in rows_of(indptr, keep)]
    assert kept == [min(d, max_degree) for d in degrees]
    assert np.array_equal(keep, degree.bound_out_degree(indptr, indices, max_degree, seed))

    new_indptr, new_indices = degree.apply_mask(indptr, indices, keep)
    rows, masks = rows_of(indptr, indices), rows_of(indptr, keep)
    expected = [row[mask] for row, mask in zip(rows, masks, strict=True)]
    assert new_indptr.dtype == np.int64 and new_indices.dtype == np.int32
    for found, row in zip(rows_of(new_indptr, new_indices), expected, strict=True):
        assert np.array_equal(found, row)


@given(
    st.lists(st.integers(0, 30), min_size=2, max_size=20),
    st.data(),
    st.integers(1, 10),
    st.integers(0, 2**32),
)
@settings(max_examples=100)
def test_a_row_depends_on_no_other_row(degrees, data, max_degree, seed):
    """Emptying or changing one node's out-list leaves the samples of all other nodes as they are:
    what sensitivity √D under participant adjacency needs."""
    node = data.draw(st.integers(0, len(degrees) - 1))
    changed = list(degrees)
    changed[node] = data.draw(st.integers(0, 60))
    before, after = (
        rows_of(indptr, degree.bound_out_degree(indptr, indices, max_degree, seed))
        for indptr, indices in (csr(degrees), csr(changed))
    )
    for row in range(len(degrees)):
        if row != node:
            assert np.array_equal(before[row], after[row])


def test_blocks_do_not_change_the_sample(monkeypatch):
    degrees = np.random.default_rng(0).integers(0, 200, size=500)
    indptr, indices = csr(degrees)
    whole = degree.bound_out_degree(indptr, indices, 7, 3)
    for entries in (1, 150, 5000):
        monkeypatch.setattr(degree, "_BLOCK_ENTRIES", entries)
        assert np.array_equal(whole, degree.bound_out_degree(indptr, indices, 7, 3))


def test_the_bound_holds_even_if_all_keys_collide(monkeypatch):
    monkeypatch.setattr(degree, "_mix", np.zeros_like)
    indptr, indices = csr([8, 9, 30, 3])
    keep = degree.bound_out_degree(indptr, indices, 4, 0)
    assert [int(row.sum()) for row in rows_of(indptr, keep)] == [4, 4, 4, 3]


def test_the_last_node_sends_too():
    indptr, indices = csr([0, 3, 0, 50])
    keep = degree.bound_out_degree(indptr, indices, 5, 0)
    assert rows_of(indptr, keep)[3].sum() == 5
    assert rows_of(indptr, keep)[1].all()


def test_only_out_edges_are_bounded():
    """20 nodes point at node 0: no out-degree is above 1, so nothing may go."""
    indptr = np.concatenate([[0], np.arange(21)]).astype(np.int64)
    indices = np.zeros(20, dtype=np.int32)
    assert degree.bound_out_degree(indptr, indices, 1, 0).all()


def test_no_edges_and_a_bound_above_all_degrees():
    indptr, indices = csr([0, 0])
    keep = degree.bound_out_degree(indptr, indices, 3, 0)
    assert keep.shape == (0,)
    assert degree.apply_mask(indptr, indices, keep)[0].tolist() == [0, 0, 0]
    indptr, indices = csr([4, 9])
    assert degree.bound_out_degree(indptr, indices, 10, 0).all()


def test_seeds_give_different_samples():
    """Two independent samples of 1,000 rows, 5 of 50 edges each, agree in every row with
    probability C(50, 5)^-1000 < 1e-6."""
    indptr, indices = csr([50] * 1000)
    first, second = (degree.bound_out_degree(indptr, indices, 5, seed) for seed in (0, 1))
    assert (first != second).any()


@pytest.mark.parametrize("width", [7, 8])
def test_all_subsets_are_equally_likely(width):
    """Subsets of 3 from the rows of one graph, beside longer rows (which pads the blocks).

    Uniform subsets have uniform single and joint inclusions. Chi-square test at 1e-6 (expected
    counts above 1,000); a right sampler fails with probability about 1e-6.
    """
    indptr, indices = csr([width, 13] * 60_000)
    keep = degree.bound_out_degree(indptr, indices, 3, 11)
    counts = subset_counts(keep.reshape(-1, width + 13)[:, :width].astype(np.int64))
    valid = [sum(1 << i for i in chosen) for chosen in itertools.combinations(range(width), 3)]
    assert counts.sum() == counts[valid].sum() == 60_000
    assert stats.chisquare(counts[valid]).pvalue > ALPHA


def test_uniform_over_seeds():
    """One row, the last, under 8,000 seeds: all 10 subsets of 2 from 5, chi-square at 1e-6."""
    indptr, indices = csr([2, 5])
    samples = [degree.bound_out_degree(indptr, indices, 2, seed)[2:] for seed in range(8000)]
    counts = subset_counts(np.array(samples, dtype=np.int64))
    assert (counts > 0).sum() == 10
    assert stats.chisquare(counts[counts > 0]).pvalue > ALPHA


def test_rows_are_independent_of_their_neighbours():
    """The choices of two consecutive rows, 1 of 3 each: 9 equally likely pairs, chi-square at
    1e-6 with 100,000 pairs; likewise for rows 1,000 apart."""
    indptr, indices = csr([3] * 200_000)
    choice = degree.bound_out_degree(indptr, indices, 1, 5).reshape(-1, 3).argmax(axis=1)
    assert stats.chisquare(np.bincount(3 * choice[::2] + choice[1::2])).pvalue > ALPHA
    apart = np.bincount(3 * choice[:1000] + choice[1000:2000], minlength=9)
    assert stats.chisquare(apart).pvalue > ALPHA


def test_long_rows_are_sampled_evenly():
    """100 of 1,000 in 2,000 rows: each position is kept Binomial(2000, 0.1) times. Exact tails,
    Bonferroni over 1,000 positions and two sides: false alarm at most 1e-6 in all."""
    indptr, indices = csr([1000] * 2000)
    keep = degree.bound_out_degree(indptr, indices, 100, 2)
    counts = keep.reshape(2000, 1000).sum(axis=0)
    low, high = stats.binom.ppf([ALPHA / 2000, 1 - ALPHA / 2000], 2000, 0.1)
    assert low <= counts.min() and counts.max() <= high


def random_csr(seed, nodes, density):
    """A random digraph without self-loops."""
    matrix = np.random.default_rng(seed).random((nodes, nodes)) < density
    np.fill_diagonal(matrix, False)
    indptr = np.concatenate([[0], np.cumsum(matrix.sum(axis=1))]).astype(np.int64)
    return indptr, np.nonzero(matrix)[1].astype(np.int32)


@given(st.integers(0, 2**32), st.integers(2, 15), st.floats(0, 1), st.integers(1, 16), st.data())
@settings(max_examples=150)
def test_public_candidates_do_not_look_at_the_graph(seed, nodes, density, max_degree, data):
    """Any edge is kept or not as in the complete graph, in any graph over the same ids, also when
    nodes are missing and the others have moved up: what √D under node_add_remove needs."""
    num_ids = nodes + data.draw(st.integers(0, 5))
    ids = np.sort(np.random.default_rng(seed).choice(num_ids, nodes, replace=False))
    everywhere = random_csr(0, num_ids, 2.0)
    allowed = np.zeros((num_ids, num_ids), dtype=bool)
    keep = degree.public_candidates(*everywhere, max_degree, seed)
    allowed[~np.eye(num_ids, dtype=bool)] = keep
    assert (allowed.sum(axis=0) == min(max_degree, num_ids - 1)).all()
    assert (allowed.sum(axis=1) == min(max_degree, num_ids - 1)).all()

    indptr, indices = random_csr(seed, nodes, density)
    keep = degree.public_candidates(indptr, indices, max_degree, seed, ids, num_ids)
    senders = np.repeat(np.arange(nodes), np.diff(indptr))
    assert keep.dtype == bool
    assert np.array_equal(keep, allowed[ids[senders], ids[indices]])
    more = degree.public_candidates(indptr, indices, max_degree + 1, seed, ids, num_ids)
    assert (keep <= more).all()


def test_blocks_do_not_change_public_candidates(monkeypatch):
    indptr, indices = random_csr(3, 90, 0.4)
    indptr = np.concatenate([[0, 0], indptr, indptr[-1:], indptr[-1:]])  # rows without edges
    whole = degree.public_candidates(indptr, indices, 7, 3)
    for entries in (1, 37, 1000):
        monkeypatch.setattr(degree, "_BLOCK_ENTRIES", entries)
        assert np.array_equal(whole, degree.public_candidates(indptr, indices, 7, 3))


def test_public_candidates_drop_self_loops_and_take_empty_graphs():
    indptr, indices = np.array([0, 2, 3]), np.array([0, 1, 1], dtype=np.int32)
    assert degree.public_candidates(indptr, indices, 5, 0).tolist() == [False, True, False]
    empty = np.zeros(0, dtype=np.int32)
    assert degree.public_candidates(np.array([0, 0]), empty, 1, 0).shape == (0,)
    assert degree.public_candidates(np.array([0]), empty, 1, 0).shape == (0,)


@pytest.mark.slow
def test_every_edge_is_a_candidate_equally_often():
    """Over 20,000 seeds every ordered pair of 5 ids is kept Binomial(20000, 2 / 4) times. Exact
    tails, Bonferroni over 20 pairs and two sides: false alarm at most 1e-6 in all."""
    indptr, indices = random_csr(0, 5, 2.0)
    counts = sum(
        degree.public_candidates(indptr, indices, 2, seed).astype(int) for seed in range(20_000)
    )
    low, high = stats.binom.ppf([ALPHA / 40, 1 - ALPHA / 40], 20_000, 0.5)
    assert low <= counts.min() and counts.max() <= high


@pytest.mark.parametrize("ids", [[0, 1], [0, 1, 1], [0, 1, 5], [-1, 0, 1]])
def test_ids_outside_the_universe_are_refused(ids):
    indptr, indices = csr([1, 0, 0])
    with pytest.raises(GraphDPError, match="ids must be 3 different numbers"):
        degree.public_candidates(indptr, indices, 1, 0, np.array(ids), 5)


@pytest.mark.parametrize("bad", [0, -3, 2.5, True])
def test_a_bad_bound_is_refused(bad):
    indptr, indices = csr([4])
    with pytest.raises(GraphDPError, match="max_degree must be a whole number of at least 1"):
        degree.bound_out_degree(indptr, indices, bad, 0)
    with pytest.raises(GraphDPError, match="max_degree must be a whole number of at least 1"):
        degree.public_candidates(indptr, indices, bad, 0)


@pytest.mark.parametrize("indptr", [[0, 2], [1, 3], [0, 4, 3], []])
def test_bad_pointers_are_refused(indptr):
    with pytest.raises(GraphDPError, match="no CSR row pointer of 3 edges"):
        degree.bound_out_degree(np.array(indptr, dtype=np.int64), np.zeros(3, np.int32), 1, 0)


def test_a_mask_of_another_graph_is_refused():
    indptr, indices = csr([4, 2])
    with pytest.raises(GraphDPError, match="the graph has 6 edges"):
        degree.apply_mask(indptr, indices, np.ones(5, dtype=bool))


def test_masks_survive_the_file(tmp_path):
    indptr, indices = csr([11, 3, 9])
    masks = {seed: degree.bound_out_degree(indptr, indices, 4, seed) for seed in (0, 7)}
    path = tmp_path / "masks.npz"
    degree.save_masks(path, masks, bound="4-public_candidates", graph="a" * 64)
    found = degree.load_masks(path, graph="a" * 64)
    assert found.bound == "4-public_candidates" and found.masks.keys() == {0, 7}
    for seed, keep in masks.items():
        assert found.masks[seed].dtype == bool
        assert np.array_equal(found.masks[seed], keep)
    with pytest.raises(GraphDPError, match=re.escape(f"{path} holds degree masks of another")):
        degree.load_masks(path, graph="b" * 64)


def test_masks_are_packed(tmp_path):
    """One bit per edge and seed, and little else."""
    path = tmp_path / "masks.npz"
    masks = {seed: np.ones(80_000, dtype=bool) for seed in range(10)}
    degree.save_masks(path, masks, bound="1", graph="a" * 64)
    assert path.stat().st_size < 10 * 80_000 / 8 + 10_000


def test_a_damaged_mask_file_is_refused(tmp_path):
    path = tmp_path / "masks.npz"
    degree.save_masks(path, {0: np.ones(999, dtype=bool)}, bound="1", graph="a" * 64)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(GraphDPError, match="not a readable degree-mask file") as error:
        degree.load_masks(path, graph="a" * 64)
    assert "\n" not in str(error.value)


def test_bounds_have_names():
    names = {
        "7": {"max_degree": 7},
        "7-public_candidates": {"max_degree": 7, "degree_bound": "public_candidates"},
    }
    for name, setting in names.items():
        assert bounds.bound_name(setting) == name
        assert bounds.parse_bound(name) == (7, setting.get("degree_bound", "sampling"))


@pytest.mark.parametrize("masks", [{}, {0: np.ones(3, bool), 1: np.ones(4, bool)}])
def test_masks_that_do_not_belong_together_are_refused(tmp_path, masks):
    with pytest.raises(GraphDPError, match="must be of one length"):
        degree.save_masks(tmp_path / "masks.npz", masks, bound="1", graph="a" * 64)


def test_mask_fingerprints_tell_masks_apart():
    keep = np.array([True, False, True])
    assert degree.mask_fingerprint(keep) == degree.mask_fingerprint(keep.copy())
    # The second packs to the same bits.
    for other in (~keep, np.array([True, False, True, False])):
        assert degree.mask_fingerprint(keep) != degree.mask_fingerprint(other)


@given(
    st.integers(1, 20),
    st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)), max_size=150),
    st.integers(1, 8),
    st.integers(0, 2**62),
)
@settings(max_examples=150)
def test_both_degrees_are_bounded_and_nothing_is_wasted(nodes, edges, max_degree, seed):
    """Directed graphs of all shapes, last node included."""
    ends = np.array([e for e in edges if max(e) < nodes], dtype=np.int64).reshape(-1, 2)
    indptr, indices = csr_from_edges(*ends.T, nodes, symmetrise=False)
    keep = degree.bound_degrees(indptr, indices, max_degree, seed)
    out_only = degree.bound_out_degree(indptr, indices, max_degree, seed)
    assert keep.dtype == bool and keep.shape == indices.shape
    assert not (keep & ~out_only).any()
    assert all(row.sum() <= max_degree for row in rows_of(indptr, keep))
    after_out = np.bincount(indices[out_only], minlength=nodes)
    in_degrees = np.bincount(indices[keep], minlength=nodes)
    assert in_degrees.tolist() == np.minimum(after_out, max_degree).tolist()


def test_the_last_node_sends_and_receives():
    indptr, indices = csr_from_edges(np.array([2, 0]), np.array([0, 2]), 3, symmetrise=False)
    assert degree.bound_degrees(indptr, indices, 1, seed=5).all()


def test_in_lists_are_uniform_samples():
    """5 nodes send to one, 2 may stay: each of 10 pairs as often (χ², failure probability 1e-6)."""
    indptr = np.array([0, 1, 2, 3, 4, 5, 5])
    indices = np.full(5, 5, np.int32)
    samples = np.array([degree.bound_degrees(indptr, indices, 2, seed) for seed in range(5000)])
    counts = subset_counts(samples)
    counts = counts[[code for code in range(32) if code.bit_count() == 2]]
    assert counts.sum() == 5000
    assert stats.chisquare(counts).pvalue > ALPHA


def test_an_in_list_changes_by_one_place_without_one_sender():
    """8 nodes send to node 8, which keeps 3: without a sender that was kept, one other moves up."""
    indices = np.full(8, 8, np.int32)
    for seed in range(20):
        keep = degree.bound_degrees(np.array([*range(9), 8]), indices, 3, seed)
        for gone in range(8):
            left = np.array([*range(gone + 1), *range(gone, 8), 7])
            kept = degree.bound_degrees(left, indices[:7], 3, seed)
            kept = np.insert(kept, gone, False)
            assert (kept & ~keep).sum() == int(keep[gone])
            assert (keep & ~kept).sum() == int(keep[gone])


@pytest.mark.parametrize("max_degree", [0, -1, 2.5])
def test_both_sided_bound_must_be_a_positive_number(max_degree):
    with pytest.raises(GraphDPError, match="max_degree must be a whole number"):
        degree.bound_degrees(*csr([3, 2]), max_degree, 1)


@given(st.lists(st.integers(0, 40), max_size=20, unique=True), st.integers(0, 40),
       st.integers(1, 12), st.integers(0, 2**63 - 1))  # fmt: skip
@settings(max_examples=150)
def test_one_more_target_takes_the_place_of_one_other_at_most(listed, more, max_degree, seed):
    def kept(targets):
        indices = np.array(sorted(targets), np.int32)
        keep = degree.first_targets(np.array([0, len(indices)]), indices, max_degree, seed)
        assert keep.sum() == min(len(indices), max_degree)
        return set(indices[keep].tolist())

    without, with_it = kept({*listed} - {more}), kept({*listed, more})
    assert with_it - without <= {more} and len(without - with_it) <= 1


def test_first_targets_are_uniform_samples():
    """Every subset of 3 of 5 as often; each row has coins of its own."""
    rows = 20_000
    indptr, indices = csr([5] * rows)
    keep = degree.first_targets(indptr, indices, 3, 7).reshape(rows, 5)
    counts = subset_counts(keep)
    assert stats.chisquare(counts[counts > 0]).pvalue > ALPHA and (counts > 0).sum() == 10


@pytest.mark.parametrize(
    ("bound", "decides"),
    [
        ({}, "stream"), ({"degree_bound": "both_degrees"}, "stream"),
        ({"degree_bound": "public_candidates"}, "public"),
    ],
)  # fmt: skip
def test_public_candidates_follow_from_a_public_name_and_samples_from_a_stream(bound, decides):
    """What noise is named by, a secret in private releases, decides no public order."""
    from graphdp.graphs.bounds import bound_name

    graph, name = csbm(60, 4, 12.0, 1.0, 0.5, 0), bound_name({"max_degree": 3} | bound)

    def kept(**names):
        named = {"stream": ("a", 1), "public": ("b", 1)} | names
        return degree.keep_edges(graph, name, named["stream"], named["public"])

    other = {"stream": "public", "public": "stream"}[decides]
    assert np.array_equal(kept(), kept(**{other: ("c", 2)}))
    assert not np.array_equal(kept(), kept(**{decides: ("c", 2)}))


@pytest.mark.parametrize(
    ("bound", "into"),
    [({}, False), ({"degree_bound": "both_degrees"}, True),
     ({"degree_bound": "public_candidates"}, True)],
)  # fmt: skip
def test_the_name_of_a_bound_says_whether_in_degrees_are_bounded(bound, into):
    from graphdp.graphs.bounds import bound_name

    indptr = np.arange(0, 91, 9)
    indices = np.concatenate([np.delete(np.arange(10), i) for i in range(10)]).astype(np.int32)
    graph = csbm(10, 4, 4.0, 1.0, 0.5, 0)
    graph = type(graph)("full", graph.x, graph.y, indptr, indices, graph.node_ids, 10, 2)
    keep = degree.keep_edges(graph, bound_name({"max_degree": 3} | bound), ("s",), ("p",))
    sources = np.repeat(np.arange(10), 9)[keep]
    assert np.bincount(sources, minlength=10).max() <= 3
    assert (np.bincount(indices[keep], minlength=10).max() <= 3) == into
