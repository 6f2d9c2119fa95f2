"""Private aggregation: exact sums, their sensitivity, the noise, and the cache of releases."""

import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from graphdp import io, noise
from graphdp.data.graph import Graph, in_edges
from graphdp.errors import GraphDPError
from graphdp.graphs import degree
from graphdp.noise import GridNoise, add_noise, grid_of
from graphdp.releases import aggregation
from graphdp.releases import cache as aggregate_cache
from graphdp.releases.aggregation import Release
from graphdp.releases.cache import AggregateCache
from graphdp.rng import stream_key

ROOT = Path(__file__).resolve().parents[1]
ALPHA = 1e-6


def csr(adjacency):
    indptr = np.concatenate([[0], np.cumsum(adjacency.sum(axis=1))]).astype(np.int64)
    return indptr, np.nonzero(adjacency)[1].astype(np.int32)


def edges_of(adjacency):
    return in_edges(*csr(adjacency))


def random_adjacency(nodes, density, seed=0):
    adjacency = np.random.default_rng(seed).random((nodes, nodes)) < density
    np.fill_diagonal(adjacency, False)
    return adjacency


def random_rows(nodes, columns, seed=0):
    x = np.random.default_rng(seed).standard_normal((nodes, columns)).astype(np.float32)
    return aggregation.normalize_rows(x)


def make_graph(nodes=40, seed=0):
    indptr, indices = csr(random_adjacency(nodes, 0.2, seed))
    return Graph(
        name="random",
        x=random_rows(nodes, 3),
        y=np.arange(nodes, dtype=np.int64) % 2,
        indptr=indptr,
        indices=indices,
        node_ids=np.arange(nodes, dtype=np.int64),
        raw_num_nodes=nodes,
        num_classes=2,
    )


def make_release(nodes=40, columns=4, hops=3, noise_std=1.5, seed=0, stream=("test", 0)):
    return Release(random_rows(nodes, columns, seed), hops, noise_std, noise_std > 0, stream)


adjacencies = st.integers(1, 12).flatmap(lambda n: hnp.arrays(bool, (n, n)))


# --- normalisation ---


@given(
    hnp.arrays(
        np.float32,
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=8),
        elements=st.floats(-(2.0**100), 2.0**100, width=32),
    )
)
@settings(max_examples=300)
def test_norms_never_exceed_one_and_entries_are_on_the_grid(x):
    """In exact arithmetic: the claim that sensitivity 1 stands on."""
    unit = aggregation.normalize_rows(x)
    assert unit.dtype == np.float32 and unit.shape == x.shape
    for before, row in zip(x, unit, strict=True):
        square = sum(Fraction(float(v)) ** 2 for v in row)
        if before.any():
            assert (1 - Fraction(1, 2**21)) ** 2 < square <= 1
        else:
            assert square == 0
        assert all((Fraction(float(v)) * 2**30).denominator == 1 for v in row)


def test_normalisation_keeps_the_direction():
    x = np.random.default_rng(0).standard_normal((100, 16)).astype(np.float32)
    expected = x / np.linalg.norm(x, axis=1, keepdims=True)
    np.testing.assert_allclose(aggregation.normalize_rows(x), expected, rtol=0, atol=3e-7)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_features_that_are_not_finite_are_refused(bad):
    x = np.ones((5, 2), dtype=np.float32)
    x[3, 1] = bad
    with pytest.raises(GraphDPError, match="row 3 of the features is not finite"):
        aggregation.normalize_rows(x)


# --- sums ---


@given(adjacencies, st.integers(1, 5), st.integers(0, 100))
@settings(max_examples=200)
def test_sums_are_exact(adjacency, columns, seed):
    """Against integer arithmetic, on any directed graph (empty rows and columns, last node)."""
    x = random_rows(len(adjacency), columns, seed)
    integers = (x.astype(np.float64) * 2**30).astype(np.int64)
    sums = aggregation.sum_in_edges(edges_of(adjacency), x)
    assert sums.dtype == np.float64
    assert np.array_equal(sums * 2**30, adjacency.T.astype(np.int64) @ integers)


def test_sums_are_exact_at_a_hub():
    """50,000 in-edges of one node, where sums in float32 are not exact."""
    nodes = 50_001
    indptr = np.minimum(np.arange(nodes + 1), nodes - 1).astype(np.int64)
    indices = np.full(nodes - 1, nodes - 1, dtype=np.int32)
    x = aggregation.normalize_rows(
        1 + np.random.default_rng(0).random((nodes, 3)).astype(np.float32)
    )
    sums = aggregation.sum_in_edges(in_edges(indptr, indices), x)
    integers = (x[:-1].astype(np.float64) * 2**30).astype(np.int64)
    assert np.array_equal(sums[-1] * 2**30, integers.sum(axis=0))
    assert not sums[:-1].any()
    assert (np.cumsum(x[:-1], axis=0, dtype=np.float32)[-1] != sums[-1]).any()


def test_columns_blocks_and_threads_do_not_change_a_byte(monkeypatch):
    adjacency = random_adjacency(300, 0.1)
    edges, x = edges_of(adjacency), random_rows(300, 40)
    whole = aggregation.sum_in_edges(edges, x)
    assert whole.any()
    for block in (1, 100, 5000):
        monkeypatch.setattr(aggregation, "_BLOCK_EDGES", block)
        monkeypatch.setattr(aggregation, "_BLOCK_ENTRIES", block)
        for threads in (1, 3):
            assert np.array_equal(aggregation.sum_in_edges(edges, x, threads), whole)
    for column in (0, 17, 39):
        alone = aggregation.sum_in_edges(edges, x[:, column : column + 1])
        assert np.array_equal(alone, whole[:, column : column + 1])


def test_features_of_another_graph_are_refused():
    with pytest.raises(GraphDPError, match="do not fit a graph of 4 nodes"):
        aggregation.sum_in_edges(edges_of(random_adjacency(4, 0.5)), random_rows(5, 2))


# --- sensitivity of one sum ---


@given(adjacencies.filter(np.any), st.data(), st.integers(0, 100))
@settings(max_examples=100)
def test_one_directed_edge_moves_the_sum_by_its_row_alone(adjacency, data, seed):
    """GAP, appendix A.1, Lemma 1: sensitivity 1, here without any rounding."""
    source, target = data.draw(st.sampled_from(np.argwhere(adjacency).tolist()))
    without = adjacency.copy()
    without[source, target] = False
    x = random_rows(len(adjacency), 4, seed)
    moved = aggregation.sum_in_edges(edges_of(adjacency), x) - aggregation.sum_in_edges(
        edges_of(without), x
    )
    assert np.array_equal(moved[target], x[source].astype(np.float64))
    assert not np.delete(moved, target, axis=0).any()
    assert 1 - 2**-21 < np.linalg.norm(moved) <= 1


@given(adjacencies, st.data(), st.integers(1, 6), st.integers(0, 100))
@settings(max_examples=100)
def test_one_participant_of_a_bounded_graph_moves_other_rows_by_at_most_sqrt_d(
    adjacency, data, max_degree, seed
):
    """GAP, appendix A.3, Lemma 3, participant adjacency (all other lists stay), own row left out:
    the whole way through the degree bound, with the same sampling seed on both sides."""
    node = data.draw(st.integers(0, len(adjacency) - 1))
    x = random_rows(len(adjacency), 4, seed)

    def bounded_sum(adjacency):
        indptr, indices = csr(adjacency)
        keep = degree.bound_out_degree(indptr, indices, max_degree, seed)
        edges = in_edges(*degree.apply_mask(indptr, indices, keep))
        return aggregation.sum_in_edges(edges, x)

    without = adjacency.copy()
    without[node] = False
    moved = np.delete(bounded_sum(adjacency) - bounded_sum(without), node, axis=0)
    assert np.linalg.norm(moved) <= np.sqrt(max_degree)


def test_sqrt_d_is_reached():
    """A node with D out-neighbours moves D rows by 1 each."""
    adjacency = np.zeros((10, 10), dtype=bool)
    adjacency[0, 1:] = True
    x = random_rows(10, 4)
    moved = aggregation.sum_in_edges(edges_of(adjacency), x)
    assert 3 * (1 - 2**-21) < np.linalg.norm(moved) <= 3


# --- noise and hops ---


def algorithm_1(adjacency, release, clean_input=False):
    """GAP's Algorithm 1 in dense numpy, with the noise of the release's stream."""
    current = clean = aggregation.normalize_rows(release.x0)
    result = []
    for hop in range(1, release.hops + 1):
        stream = GridNoise([(*release.noise_name, "hop", hop)])
        source = clean if clean_input else current
        sums = adjacency.T.astype(np.float64) @ source.astype(np.float64)
        clean = aggregation.normalize_rows(sums)
        noisy = add_noise(sums, release.noise_std, stream) if release.noise_std else sums
        current = aggregation.normalize_rows(noisy)
        result.append(current)
    return np.stack(result)


@pytest.mark.parametrize("noise_std", [0.0, 2.5])
def test_hops_are_algorithm_1(noise_std):
    """Each hop aggregates the noisy, normalised rows of the hop before, not the clean ones."""
    adjacency, release = random_adjacency(40, 0.2), make_release(noise_std=noise_std)
    (found,) = aggregation.private_hops(edges_of(adjacency), [release])
    assert found.shape == (3, 40, 4) and found.dtype == np.float32
    assert np.array_equal(found, algorithm_1(adjacency, release))
    if noise_std:
        assert not np.allclose(found[1], algorithm_1(adjacency, release, clean_input=True)[1])


@pytest.mark.parametrize("noise_std", [0.0, 2.5])
def test_progaps_nap_normalises_its_input_and_not_its_output(noise_std):
    """ProGAP, equation 7: Σ_j A_ji x_j/‖x_j‖ + N(0, σ²), whatever the scale of x."""
    adjacency, x0 = random_adjacency(40, 0.2), 7 * random_rows(40, 4)
    nap = Release(x0, 1, noise_std, noise_std > 0, ("test", 0), renormalise=False)
    (found,) = aggregation.private_hops(edges_of(adjacency), [nap])
    unit = x0.astype(float) / np.linalg.norm(x0.astype(float), axis=1, keepdims=True)
    expected = adjacency.T.astype(float) @ unit
    if noise_std:
        # The unit rows here are rounded otherwise: a sum may fall into the next cell of the grid.
        noise = GridNoise([(*nap.noise_name, "hop", 1)])
        expected = add_noise(expected, noise_std, noise)
        assert (np.abs(found - expected) <= grid_of(noise_std)).all()
        assert (found == expected).mean() > 0.99
    else:
        np.testing.assert_allclose(found, [expected], rtol=0, atol=1e-5)
    assert np.linalg.norm(found[0], axis=1).max() > 1.5


def test_outputs_have_unit_norm_and_isolated_nodes_stay_zero_without_noise():
    adjacency = random_adjacency(30, 0.3)
    adjacency[:, 7] = False
    edges = edges_of(adjacency)
    (noisy,) = aggregation.private_hops(edges, [make_release(nodes=30)])
    np.testing.assert_allclose(np.linalg.norm(noisy, axis=2), 1, rtol=0, atol=1e-6)
    (clean,) = aggregation.private_hops(edges, [make_release(nodes=30, noise_std=0.0)])
    assert not clean[:, 7].any()
    np.testing.assert_allclose(np.linalg.norm(clean[0, 8:], axis=1), 1, rtol=0, atol=1e-6)


def test_noise_has_the_stated_scale_in_every_hop(monkeypatch):
    """On a graph without edges the noisy sums are the noise: 3 hops of 2,000 × 16 draws.

    Variance against exact chi-square quantiles, mean against the exact normal, correlation of
    each two hops against the normal approximation of n = 32,000: nine two-sided tests at
    1e-6 / 9 each, so a right generator fails with probability at most about 1e-6.
    """
    seen, std = [], 3.0
    original = aggregation.normalize_rows
    monkeypatch.setattr(
        aggregation, "normalize_rows", lambda x: (seen.append(x.copy()), original(x))[1]
    )
    release = make_release(nodes=2000, columns=16, noise_std=std)
    edges = edges_of(np.zeros((2000, 2000), dtype=bool))
    aggregation.private_hops(edges, [release])
    noise = np.array(seen[-3:]).reshape(3, -1) / std
    draws, tail = noise.shape[1], ALPHA / 9 / 2
    low, high = stats.chi2.ppf([tail, 1 - tail], draws)
    limit = stats.norm.isf(tail) / np.sqrt(draws)
    for hop in noise:
        assert low < (hop**2).sum() < high
        assert abs(hop.mean()) < limit
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert abs(np.corrcoef(noise[first], noise[second])[0, 1]) < limit


def test_releases_together_have_the_bytes_of_releases_alone(monkeypatch):
    edges = edges_of(random_adjacency(50, 0.2))
    releases = [
        make_release(nodes=50, columns=4, hops=1, noise_std=0.7, stream=("a",)),
        make_release(nodes=50, columns=9, hops=4, noise_std=2.0, stream=("b",), seed=1),
        make_release(nodes=50, columns=1, hops=2, noise_std=0.0, stream=("c",)),
    ]
    together = aggregation.private_hops(edges, releases)
    for release, found in zip(releases, together, strict=True):
        (alone,) = aggregation.private_hops(edges, [release], threads=2)
        assert alone.tobytes() == found.tobytes()
    monkeypatch.setattr(aggregation, "_BLOCK_ROWS", 7)
    monkeypatch.setattr(noise, "_PART", 5)
    for found, other in zip(together, aggregation.private_hops(edges, releases), strict=True):
        assert found.tobytes() == other.tobytes()


def test_the_ledger_counts_one_release_per_private_hop():
    ledger = []
    releases = [
        make_release(hops=3, noise_std=2.0, stream=("a",)),
        make_release(hops=2, noise_std=0.0, stream=("b",)),
    ]
    aggregation.private_hops(edges_of(random_adjacency(40, 0.2)), releases, ledger=ledger)
    assert [(entry.stream, entry.hop, entry.noise_std) for entry in ledger] == [
        (("a",), hop, 2.0) for hop in (1, 2, 3)
    ]


def test_noise_differs_by_scale_hops_and_stream():
    """The same noise at two scales would cancel: (S + σz) and (S + σ'z) give away S."""
    nodes, x0 = 30, random_rows(30, 4)
    edges = edges_of(np.zeros((nodes, nodes), dtype=bool))
    releases = [
        Release(x0, 1, 1.0, True, ("s", 0)),
        Release(x0, 1, 2.0, True, ("s", 0)),
        Release(x0, 2, 1.0, True, ("s", 0)),
        Release(x0, 1, 1.0, True, ("s", 1)),
    ]
    # Without edges a first hop is the direction of the noise, whatever its scale.
    first = [found[0] for found in aggregation.private_hops(edges, releases)]
    for i in range(len(first)):
        for other in first[:i]:
            assert not np.allclose(first[i], other)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noise_std": 0.0}, "noise of scale 0 with a finite ε"),
        ({"private": False}, "with ε = inf"),
        ({"noise_std": -1.0}, "finite and not negative"),
        ({"noise_std": float("nan")}, "finite and not negative"),
        ({"noise_std": float("inf")}, "finite and not negative"),
        ({"hops": 0}, "hops must be a whole number of at least 1"),
        ({"hops": 1.5}, "hops must be a whole number of at least 1"),
        ({"renormalise": False}, "2 hops without normalising between them"),
        ({"x0": np.ones((3, 2))}, "x0 must be a float32 matrix"),
        ({"x0": np.ones(3, np.float32)}, "x0 must be a float32 matrix"),
    ],
)
def test_bad_releases_are_refused(change, message):
    good = {"x0": random_rows(3, 2), "hops": 2, "noise_std": 1.0, "private": True, "stream": ("s",)}
    with pytest.raises(GraphDPError, match=re.escape(message)) as error:
        Release(**good | change)
    assert "\n" not in str(error.value)


# --- the cache ---


@pytest.fixture
def noise_draws(monkeypatch):
    """Names of the noise generators that were made."""
    names = []
    original = aggregation.GridNoise
    monkeypatch.setattr(
        aggregation, "GridNoise", lambda given: (names.extend(given), original(given))[1]
    )
    return names


def test_a_release_is_drawn_once(tmp_path, noise_draws):
    """Two consumers, say classifiers with different settings, ask for the same aggregates: the
    mechanism runs once, so its ε is spent once."""
    graph = make_graph()
    first, second = AggregateCache(tmp_path), AggregateCache(tmp_path)
    (name,) = first.release(graph, None, [make_release()])
    assert len(noise_draws) == len(first.ledger) == 3
    assert second.release(graph, None, [make_release(), make_release()]) == [name, name]
    assert len(noise_draws) == 3 and second.ledger == []
    assert np.array_equal(first.load(name), second.load(name))


def test_equal_releases_in_one_call_are_made_once(tmp_path, noise_draws):
    names = AggregateCache(tmp_path).release(make_graph(), None, [make_release()] * 2)
    assert names[0] == names[1] and len(noise_draws) == 3


def test_the_cache_holds_what_the_mechanism_makes(tmp_path):
    graph = make_graph()
    cache = AggregateCache(tmp_path)
    keep = degree.bound_out_degree(graph.indptr, graph.indices, 3, seed=1)
    full, bounded = make_release(), make_release(stream=("bounded",))
    (name,) = cache.release(graph, None, [full])
    (masked,) = cache.release(graph, keep, [bounded])
    edges = in_edges(graph.indptr, graph.indices)
    assert np.array_equal(cache.load(name), aggregation.private_hops(edges, [full])[0])
    edges = in_edges(*degree.apply_mask(graph.indptr, graph.indices, keep))
    assert np.array_equal(cache.load(masked), aggregation.private_hops(edges, [bounded])[0])


def test_batches_do_not_change_a_byte(tmp_path, monkeypatch):
    graph = make_graph()
    releases = [make_release(columns=c, stream=("s", c)) for c in (2, 3, 5)]
    whole = AggregateCache(tmp_path / "whole")
    names = whole.release(graph, None, releases)
    monkeypatch.setattr(aggregate_cache, "_STACKED_BYTES", 8 * 40 * 5)
    assert len(list(aggregate_cache._batches(dict(enumerate((r, None) for r in releases))))) == 2
    pieces = AggregateCache(tmp_path / "pieces")
    assert pieces.release(graph, None, releases) == names
    for name in names:
        assert whole.path(name).read_bytes() == pieces.path(name).read_bytes()


def test_the_key_covers_everything_that_determines_the_release(tmp_path):
    graph, base = make_graph(), make_release()
    keep = degree.bound_out_degree(graph.indptr, graph.indices, 3, seed=1)
    other_keep = degree.bound_out_degree(graph.indptr, graph.indices, 3, seed=2)
    variants = [
        (graph, None, base),
        (make_graph(seed=1), None, base),
        (graph, keep, base),
        (graph, other_keep, base),
        (graph, None, make_release(seed=1)),
        (graph, None, make_release(hops=2)),
        (graph, None, make_release(noise_std=1.6)),
        (graph, None, make_release(noise_std=0.0)),
        (graph, None, make_release(stream=("test", 1))),
    ]
    names = [
        AggregateCache(tmp_path / str(i)).release(g, mask, [release])[0]
        for i, (g, mask, release) in enumerate(variants)
    ]
    assert len(set(names)) == len(variants)


def test_the_sidecar_says_what_the_key_stands_for(tmp_path):
    graph, release = make_graph(), make_release()
    (name,) = AggregateCache(tmp_path).release(graph, None, [release])
    about = io.read_json(tmp_path / f"{name}.json")
    assert about["shape"] == [3, 40, 4]
    assert about["fields"]["graph"] == graph.fingerprint()
    assert about["fields"]["x0"] == io.sha256_arrays(release.x0)
    assert about["fields"]["noise_std"] == "1.5"
    # A name may hold a secret: of it there is a hash alone.
    assert about["fields"]["stream"] == stream_key("cached", "test", 0).hex()
    assert aggregate_cache.key(release, about["fields"]) == name


@pytest.mark.slow
def test_regenerating_gives_the_same_bytes_in_another_process_with_other_threads(tmp_path):
    graph = make_graph()
    (name,) = AggregateCache(tmp_path / "here").release(graph, None, [make_release()])
    here = io.sha256_file(tmp_path / "here" / f"{name}.npy")
    graph.save(tmp_path / "graph.npz")
    np.save(tmp_path / "x0.npy", make_release().x0)
    code = (
        "import sys, numpy as np\n"
        "from graphdp.releases.aggregation import Release\n"
        "from graphdp.releases.cache import AggregateCache\n"
        "from graphdp.data.graph import Graph, in_edges\n"
        "folder = sys.argv[1]\n"
        "release = Release(np.load(folder + '/x0.npy'), 3, 1.5, True, ('test', 0))\n"
        "cache = AggregateCache(folder + '/there')\n"
        "print(cache.release(Graph.load(folder + '/graph.npz'), None, [release], threads=3)[0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == name
    assert io.sha256_file(tmp_path / "there" / f"{name}.npy") == here


def test_deleting_and_regenerating_gives_the_same_bytes(tmp_path):
    cache, graph = AggregateCache(tmp_path), make_graph()
    (name,) = cache.release(graph, None, [make_release()])
    before = cache.path(name).read_bytes()
    cache.path(name).unlink()
    assert cache.release(graph, None, [make_release()]) == [name]
    assert cache.path(name).read_bytes() == before


def test_a_release_without_its_sidecar_is_made_again(tmp_path):
    """As after a kill between the two files."""
    cache, graph = AggregateCache(tmp_path), make_graph()
    (name,) = cache.release(graph, None, [make_release()])
    (tmp_path / f"{name}.json").unlink()
    with pytest.raises(GraphDPError, match="is not in"):
        cache.load(name)
    cache.release(graph, None, [make_release()])
    assert cache.load(name).shape == (3, 40, 4)


@pytest.mark.parametrize("size", [0, 40, 900])
def test_a_truncated_release_is_refused(tmp_path, size):
    cache, graph = AggregateCache(tmp_path), make_graph()
    (name,) = cache.release(graph, None, [make_release()])
    cache.path(name).write_bytes(cache.path(name).read_bytes()[:size])
    for use in (lambda: cache.load(name), lambda: cache.release(graph, None, [make_release()])):
        with pytest.raises(GraphDPError, match="is damaged") as error:
            use()
        assert "\n" not in str(error.value)


def test_a_changed_byte_is_found(tmp_path):
    cache = AggregateCache(tmp_path)
    (name,) = cache.release(make_graph(), None, [make_release()])
    content = bytearray(cache.path(name).read_bytes())
    content[-1] ^= 1
    cache.path(name).write_bytes(bytes(content))
    with pytest.raises(GraphDPError, match="SHA-256 is not the recorded one"):
        cache.load(name)


def test_one_noise_stream_serves_one_release(tmp_path):
    """The difference of two releases under the same noise would be exact: in one call that is
    refused, later the new release replaces the old."""
    cache, graph = AggregateCache(tmp_path), make_graph()
    releases = [make_release(), make_release(seed=1)]
    with pytest.raises(GraphDPError, match="share the noise stream"):
        cache.release(graph, None, releases)
    assert list(tmp_path.iterdir()) == [] and cache.ledger == []
    (old,) = cache.release(graph, None, releases[:1])
    (new,) = cache.release(graph, None, releases[1:])
    assert cache.load(new).shape == (3, 40, 4)
    with pytest.raises(GraphDPError, match=r"is not in .* run again what made it"):
        cache.load(old)
    assert {path.stem for path in tmp_path.iterdir()} == {new}


def test_releases_without_noise_live_side_by_side(tmp_path):
    cache, graph = AggregateCache(tmp_path), make_graph()
    exact = [make_release(noise_std=0.0, seed=seed) for seed in (0, 1)]
    names = cache.release(graph, None, exact)
    assert len(set(names)) == 2
    other = Release(exact[0].x0, 3, 0.0, False, ("another", "stream"))
    assert cache.release(graph, None, [other]) == names[:1]
    for name in names:
        assert cache.load(name).shape == (3, 40, 4)


# --- the benchmark ---


@pytest.mark.slow
def test_the_benchmark_runs_small():
    command = [sys.executable, ROOT / "workflow" / "benchmarks" / "aggregation.py"]
    sizes = ["--nodes", "3000", "--edges", "60000", "--max-degree", "20", "--threads", "2"]
    done = subprocess.run([*command, *sizes], capture_output=True, text=True, check=True)
    assert "3000 nodes, 60000 directed edges" in done.stdout
    assert "releases made: 1" in done.stdout
    assert re.search(r"private hop: .* of a plain copy", done.stdout)
    assert re.search(r"peak memory so far +0\.\d\d GiB", done.stdout)


def test_sums_that_are_left_as_they_are_have_a_key_of_their_own(tmp_path):
    """GAP's and ProGAP's of one hop over equal rows differ in the last step alone; without noise
    no stream tells them apart."""
    rows = random_rows(40, 4)
    made = [Release(rows, 1, 0.0, False, (), renormalise=each) for each in (True, False)]
    cache = AggregateCache(tmp_path)
    first, second = cache.release(make_graph(), None, made)
    assert first != second
    assert abs(cache.load(first)).max() <= 1 < abs(cache.load(second)).max()
