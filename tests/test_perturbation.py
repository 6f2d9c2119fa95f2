"""Graph perturbation: flip probabilities, ε, symmetry, sparse draws.

Statistical tests compare counts with exact binomial intervals; each states its failure probability.
"""

import itertools
import math
import tracemalloc

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse, stats

from graphdp.coins import Coins, as_drawn
from graphdp.data.graph import csr_from_edges
from graphdp.errors import GraphDPError
from graphdp.graphs import perturbation
from graphdp.graphs.perturbation import (
    PERTURBATIONS,
    Perturbed,
    asymmetric_probabilities,
    edge_rand_probabilities,
    noisy_count,
    perturb,
)

EPSILONS = {"asymmetric": {"link": 1.8, "density": 0.2}, "edge_rand": {"link": 2.0},
            "lap_graph": {"link": 1.9, "density": 0.1},
            "asymmetric_chunks": {"link": 1.8, "density": 0.2}}  # fmt: skip
SYMMETRIC = tuple(kind for kind in PERTURBATIONS if kind != "asymmetric_chunks")


def random_graph(nodes: int, edges: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, nodes, (2, edges))
    return csr_from_edges(*ends, nodes, symmetrise=True)


def dense(graph) -> np.ndarray:
    indptr, indices = graph
    shape = (len(indptr) - 1,) * 2
    return sparse.csr_array((np.ones(len(indices)), indices, indptr), shape=shape).toarray()


def draw(graph, kind: str, seed: int, epsilons=None, max_edges: int = 10**7):
    return perturb(*graph, kind, epsilons or EPSILONS[kind], Coins("test", seed), max_edges)


def assert_binomial(successes: int, trials: int, probability: float) -> None:
    """Two-sided exact test: fails by chance with probability at most 1e-8."""
    low, high = stats.binom.ppf([5e-9, 1 - 5e-9], trials, probability)
    assert low <= successes <= high, (successes, trials, probability)


@given(st.floats(0.01, 20), st.floats(1e-6, 1))
def test_asymmetric_response_is_exactly_epsilon_private_and_keeps_the_density(epsilon, density):
    goes, add = asymmetric_probabilities(epsilon, density)
    keep = 1 - goes
    assert 0 <= add <= keep <= 1
    ratios = [keep / add, (1 - add) / goes]
    # An edge of the output is the worst case where ones are thinned (at q = 1 both are).
    assert math.log(max(ratios)) == pytest.approx(epsilon, rel=1e-6)
    if density <= 0.5:
        assert density * keep + (1 - density) * add == pytest.approx(density, rel=1e-9)


@given(st.floats(0.001, 30))
def test_edge_rand_is_randomised_response(epsilon):
    goes, add = edge_rand_probabilities(epsilon)
    assert goes == add
    assert math.log((1 - goes) / add) == pytest.approx(epsilon, rel=1e-9)


def test_answers_have_their_ratio_at_every_density_exactly():
    """Both ratios of an answer, from the rates as floats in exact arithmetic, within what
    `as_drawn` adds, at every noisy count that clipping leaves. At a count of 0 no edge may stay,
    as none appears: there no finite ratio would do."""
    mpmath.mp.prec = 200
    for epsilon, pairs in itertools.product(np.arange(0.05, 12, 0.05), (45, 10**6, 10**12)):
        room = as_drawn(float(epsilon), pairs)[0]
        for count in (0, 1, 2, pairs // 4, pairs // 2, pairs - 1, pairs):
            goes, add = map(mpmath.mpf, asymmetric_probabilities(float(epsilon), count / pairs))
            assert 1 - goes <= mpmath.exp(room) * add
            assert 1 - add <= mpmath.exp(room) * goes


@pytest.mark.parametrize("epsilon", [30.0, 40.0])
def test_an_edge_may_go_at_a_large_epsilon_too(epsilon):
    """Its chance is e^-ε and not what is left of a rounded 1."""
    for goes, _ in (edge_rand_probabilities(epsilon), asymmetric_probabilities(epsilon, 0.5)):
        assert goes == pytest.approx(math.exp(-epsilon), rel=1e-12)


def test_density_noise_is_discrete_laplace_of_scale_one_over_epsilon():
    coins = Coins("density")
    epsilon, draws = 0.7, 40_000
    noise = np.array([noisy_count(100, epsilon, coins) - 100 for _ in range(draws)])
    unit = math.tanh(epsilon / 2)  # Σ e^(-ε|k|) = (1 + e^-ε) / (1 - e^-ε)
    for k in range(-3, 4):  # 7 exact tests: together below 1e-7
        assert_binomial(int((noise == k).sum()), draws, unit * math.exp(-epsilon * abs(k)))


def test_one_undirected_edge_moves_the_count_by_one_and_one_pair():
    """The sensitivities behind the two shares: however an edge is chosen."""
    graph = random_graph(12, 30)
    pairs = perturbation._Pairs(12)
    edges = pairs.of_graph(*graph)
    adjacency = dense(graph)
    for i, j in zip(*np.nonzero(np.triu(adjacency)), strict=True):
        less = adjacency.copy()
        less[i, j] = less[j, i] = 0
        left = pairs.of_graph(*csr_from_edges(*np.nonzero(less), 12, symmetrise=False))
        assert len(edges) - len(left) == 1
        assert np.setxor1d(edges, left).size == 1


def test_pairs_are_numbered_one_to_one():
    for nodes in (2, 3, 7):
        pairs = perturbation._Pairs(nodes)
        ends = np.array(list(itertools.combinations(range(nodes), 2)))
        numbers = pairs.starts[ends[:, 0]] + ends[:, 1] - ends[:, 0] - 1
        np.testing.assert_array_equal(numbers, np.arange(pairs.count))
        np.testing.assert_array_equal(np.transpose(pairs.ends(numbers)), ends)


def test_ordered_pairs_are_numbered_one_to_one_and_a_directed_edge_is_one_of_them():
    for nodes in (1, 2, 3, 7):
        entries = perturbation._Entries(nodes)
        ends = np.array(list(itertools.permutations(range(nodes), 2))).reshape(-1, 2)
        graph = csr_from_edges(*ends.T, nodes, symmetrise=False)
        np.testing.assert_array_equal(entries.of_graph(*graph), np.arange(entries.count))
        np.testing.assert_array_equal(np.transpose(entries.ends(np.arange(entries.count))), ends)
    adjacency = np.random.default_rng(0).random((12, 12)) < 0.3
    np.fill_diagonal(adjacency, False)
    entries = perturbation._Entries(12)
    edges = entries.of_graph(*csr_from_edges(*np.nonzero(adjacency), 12, symmetrise=False))
    for i, j in zip(*np.nonzero(adjacency), strict=True):
        less = adjacency.copy()
        less[i, j] = False
        left = entries.of_graph(*csr_from_edges(*np.nonzero(less), 12, symmetrise=False))
        assert len(edges) - len(left) == np.setxor1d(edges, left).size == 1


@pytest.mark.parametrize("kind", PERTURBATIONS)
def test_the_entries_of_a_directed_graph_are_perturbed_apart(kind):
    """Rates of randomised response, and no entry tells of the opposite one."""
    nodes, parts = 60, EPSILONS[kind]
    truth = np.random.default_rng(1).random((nodes, nodes)) < 0.1
    np.fill_diagonal(truth, False)
    graph = csr_from_edges(*np.nonzero(truth), nodes, symmetrise=False)
    runs = 200
    drawn = []
    for seed in range(runs):
        coins = Coins("directed", seed)
        drawn.append(dense(perturb(*graph, kind, parts, coins, 10**7, directed=True)) > 0)
    assert not any(one.diagonal().any() for one in drawn)
    if kind != "edge_rand":
        return
    goes, add = edge_rand_probabilities(parts["link"])
    off = ~np.eye(nodes, dtype=bool)
    stayed, appeared = (sum(int((one & where).sum()) for one in drawn) for where in
                        (truth, ~truth & off))  # fmt: skip
    assert_binomial(stayed, runs * int(truth.sum()), 1 - goes)
    assert_binomial(appeared, runs * int((~truth & off).sum()), add)
    # Pairs without an edge either way: both entries appear together as if apart.
    neither = np.triu(~truth & ~truth.T, 1)
    both = sum(int((one & one.T & neither).sum()) for one in drawn)
    assert_binomial(both, runs * int(neither.sum()), add * add)


def test_pair_numbers_are_exact_for_millions_of_nodes():
    nodes = 2_000_000
    pairs = perturbation._Pairs(nodes)
    numbers = np.array([0, nodes - 2, nodes - 1, pairs.count - 1, pairs.count // 3])
    sources, targets = pairs.ends(numbers)
    assert (sources[0], targets[0]) == (0, 1)
    assert (sources[1], targets[1]) == (0, nodes - 1)
    assert (sources[2], targets[2]) == (1, 2)
    assert (sources[3], targets[3]) == (nodes - 2, nodes - 1)
    np.testing.assert_array_equal(pairs.starts[sources] + targets - sources - 1, numbers)


@given(st.sets(st.integers(0, 40)), st.data())
def test_ranks_of_non_edges(edges, data):
    edges = np.array(sorted(edges), dtype=np.int64)
    others = np.setdiff1d(np.arange(41), edges)
    ranks = np.array(sorted(data.draw(st.sets(st.integers(0, len(others) - 1)))), dtype=np.int64)
    np.testing.assert_array_equal(perturbation._non_edges(edges, ranks), others[ranks])


@pytest.mark.parametrize("kind", ["asymmetric", "edge_rand"])
def test_every_pair_flips_with_the_stated_probability(kind, monkeypatch):
    """Brute force over all pairs of 8 nodes; 28 exact tests, together below 3e-7."""
    graph = random_graph(8, 12)
    true = dense(graph)
    edges = int(true.sum()) // 2
    # The estimate is held at the true count, so that the flips have one known probability.
    monkeypatch.setattr(perturbation, "noisy_count", lambda count, epsilon, coins: count)
    if kind == "asymmetric":
        goes, add = asymmetric_probabilities(EPSILONS[kind]["link"], edges / 28)
    else:
        goes, add = edge_rand_probabilities(EPSILONS[kind]["link"])
    draws = 2000
    totals = sum(dense(draw(graph, kind, seed)) for seed in range(draws))
    for i, j in itertools.combinations(range(8), 2):
        assert_binomial(int(totals[i, j]), draws, 1 - goes if true[i, j] else add)


def directed_graph(nodes: int, chance: float, seed: int):
    truth = np.random.default_rng(seed).random((nodes, nodes)) < chance
    np.fill_diagonal(truth, False)
    return truth, csr_from_edges(*np.nonzero(truth), nodes, symmetrise=False)


def test_chunks_flip_by_the_density_of_their_own_targets(monkeypatch):
    """Brute force over all entries of 8 nodes in chunks of 3, 3 and 2 targets, against p q and
    (1 - p) q as the authors' code computes them; 56 exact tests, together below 6e-7."""
    monkeypatch.setattr(perturbation, "CHUNK", 3)
    monkeypatch.setattr(perturbation, "noisy_count", lambda count, epsilon, coins: count)
    truth, graph = directed_graph(8, 0.3, 4)
    draws, p = 2000, 1 / (1 + math.exp(-EPSILONS["asymmetric_chunks"]["link"]))
    totals = sum(dense(draw(graph, "asymmetric_chunks", seed)) for seed in range(draws))
    densities = []
    for i, j in itertools.permutations(range(8), 2):
        first = j // 3 * 3  # rows of the authors' matrix are targets
        d = truth[:, first : first + 3].mean()
        q = min(1, d / (2 * p * d - p - d + 1))
        assert_binomial(int(totals[i, j]), draws, p * q if truth[i, j] else (1 - p) * q)
        densities.append(d)
    assert len(set(densities)) == 3  # chunks that differ, and rows that would not


def test_noise_of_a_chunks_density_is_that_for_a_whole_matrix(monkeypatch):
    """Of a density of r n entries, Laplace noise of scale 1 / (n² ε_d): of the count r / (n ε_d).
    The last of the chunks has 40 targets."""
    asked = []

    def spy(count, epsilon, coins):
        asked.append((count, epsilon))
        return count

    monkeypatch.setattr(perturbation, "noisy_count", spy)
    truth, graph = directed_graph(1040, 0.004, 5)
    draw(graph, "asymmetric_chunks", 1)
    rows = [500, 500, 40]
    assert [count for count, _ in asked] == [
        truth[:, a : a + r].sum() for a, r in zip((0, 500, 1000), rows, strict=True)
    ]
    for (_, epsilon), r in zip(asked, rows, strict=True):
        assert 1 / epsilon / (r * 1040) == pytest.approx(1 / (1040**2 * 0.2), rel=1e-12)


@pytest.mark.slow
def test_chunks_do_not_keep_their_epsilon(monkeypatch):
    """The last of 100 nodes has a chunk of its own. Nobody sends to it, or one does: its noisy
    count costs 0.1 ε n / r = 10 where ε = 1 is claimed. Whether something comes out there, by exact
    bounds of 1500 draws each: fails by chance with probability at most 1e-8 (5e-9 each)."""
    monkeypatch.setattr(perturbation, "CHUNK", 99)
    claimed = {"link": 0.9, "density": 0.1}
    draws, heard = 1500, {}
    for world, ends in (("there", ([0], [99])), ("not", ([], []))):
        graph = csr_from_edges(*np.array(ends, np.int64), 100, symmetrise=False)
        heard[world] = sum(
            bool((draw(graph, "asymmetric_chunks", seed, claimed)[1] == 99).any())
            for seed in range(draws)
        )
    least = stats.beta.ppf(5e-9, heard["there"], draws - heard["there"] + 1)
    most = stats.beta.ppf(1 - 5e-9, heard["not"] + 1, draws - heard["not"])
    assert math.log(least / most) > 2 * sum(claimed.values())


@pytest.mark.parametrize("entries", [1, 2])
def test_an_edge_costs_what_is_derived_for_chunks(entries, monkeypatch):
    """Which counts an edge moves, and the ε of all that it moves: n ε_d / r for each count and
    ε_link for each entry, at most `entries` times that of the smallest chunk."""
    monkeypatch.setattr(perturbation, "CHUNK", 4)
    nodes, parts = 10, EPSILONS["asymmetric_chunks"]
    bound = entries * (parts["link"] + parts["density"] * nodes / 2)  # chunks of 4, 4 and 2

    def counts(ends):
        found = []
        monkeypatch.setattr(
            perturbation, "noisy_count", lambda n, epsilon, coins: found.append((n, epsilon)) or n
        )
        sources, targets = np.array(sorted(ends)).T
        draw(csr_from_edges(sources, targets, nodes, symmetrise=False), "asymmetric_chunks", 1)
        return found

    truth, _ = directed_graph(nodes, 0.3, 6)
    edges = set(zip(*np.nonzero(truth | truth.T), strict=True)) | {(8, 9), (9, 8)}
    with_all, most = counts(edges), 0.0
    for i, j in edges:
        without = counts(edges - set([(i, j), (j, i)][:entries]))
        moved = zip(with_all, without, strict=True)
        spent = sum(abs(a - b) * epsilon for (a, epsilon), (b, _) in moved)
        spent += entries * parts["link"]
        assert spent <= bound * (1 + 1e-12)
        most = max(most, spent)
    assert most == pytest.approx(bound)


def test_lap_graph_draws_as_if_every_pair_had_noise(monkeypatch):
    """Against the plain mechanism on all pairs: the share of true edges that it keeps. Fisher's
    exact test of two proportions, failure probability 1e-7."""
    monkeypatch.setattr(perturbation, "noisy_count", lambda count, epsilon, coins: count)
    graph = random_graph(60, 25)
    true, draws = dense(graph), 400
    epsilon = 3.0
    kept = np.zeros(2, int)
    brute = np.zeros(2, int)
    upper = np.triu_indices(60, 1)
    edge = true[upper] > 0
    count = int(edge.sum())
    rng = np.random.default_rng(99)
    for seed in range(draws):
        epsilons = {"link": epsilon, "density": 1.0}
        noisy = dense(draw(graph, "lap_graph", seed, epsilons))[upper] > 0
        assert noisy.sum() == count
        values = edge + rng.laplace(scale=1 / epsilon, size=edge.size)
        plain = np.zeros_like(edge)
        plain[np.argsort(-values)[:count]] = True
        for total, graph_ in ((kept, noisy), (brute, plain)):
            total += [(graph_ & edge).sum(), (graph_ & ~edge).sum()]
    trials = draws * count
    table = [[kept[0], trials - kept[0]], [brute[0], trials - brute[0]]]
    assert stats.fisher_exact(table).pvalue > 1e-7
    assert 0.05 < kept[0] / trials < 0.95  # the comparison is about something


@pytest.mark.parametrize("kind", SYMMETRIC)
def test_output_is_symmetric_without_loops_and_repeatable(kind):
    graph = random_graph(300, 900)
    first, again, other = draw(graph, kind, 5), draw(graph, kind, 5), draw(graph, kind, 6)
    np.testing.assert_array_equal(first[1], again[1])
    assert len(first[1]) != len(other[1]) or (first[1] != other[1]).any()
    adjacency = dense(first)
    assert (adjacency == adjacency.T).all() and not adjacency.diagonal().any()
    assert adjacency.max() == 1
    assert first[0].dtype == np.int64 and first[1].dtype == np.int32


@pytest.mark.parametrize("kind", PERTURBATIONS)
def test_without_bounds_on_epsilon_the_graph_itself_comes_out(kind):
    graph = random_graph(300, 900)
    epsilons = dict.fromkeys(EPSILONS[kind], 800.0)
    noisy = draw(graph, kind, 1, epsilons)
    np.testing.assert_array_equal(noisy[0], graph[0])
    np.testing.assert_array_equal(noisy[1], graph[1])


@pytest.mark.parametrize("kind", ["asymmetric", "lap_graph"])
def test_as_many_edges_come_out_as_go_in(kind):
    """Mean of 30 draws. asymmetric: Binomial-like with mean m, std below √(2m/30) = 25 with the
    noise of the estimate (std below 15 / √30) on top: 250 are 9 of these standard deviations."""
    graph = random_graph(2000, 10_000)
    edges = len(graph[1]) / 2
    counts = [len(draw(graph, kind, seed)[1]) / 2 for seed in range(30)]
    assert abs(np.mean(counts) - edges) < 250


def test_two_hundred_thousand_nodes_without_a_square():
    graph = random_graph(200_000, 300_000)
    tracemalloc.start()
    noisy = draw(graph, "asymmetric", 1, {"link": 0.9, "density": 0.1})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    edges = len(noisy[1]) / 2
    assert abs(edges - 300_000) < 6000  # 10 standard deviations
    assert peak < perturbation.BYTES_PER_EDGE * edges  # 30 MB; the square would be 4e10 bytes


def test_too_dense_an_output_names_the_smallest_epsilon_that_fits():
    graph = random_graph(5000, 5000)
    with pytest.raises(GraphDPError, match=r"smallest ε that fits is 4\.83") as error:
        draw(graph, "edge_rand", 1, {"link": 1.0}, max_edges=100_000)
    assert "\n" not in str(error.value)
    noisy = draw(graph, "edge_rand", 1, {"link": 4.83}, max_edges=100_000)
    assert len(noisy[1]) / 2 < 110_000
    with pytest.raises(GraphDPError, match="raise memory_mb"):
        draw(graph, "asymmetric", 1, max_edges=100)
    with pytest.raises(GraphDPError, match="too many for a sparse draw"):
        draw(random_graph(20, 150), "lap_graph", 1)


def test_bad_input_is_one_clear_line():
    graph = random_graph(10, 20)
    with pytest.raises(GraphDPError, match="choose one of asymmetric"):
        draw(graph, "flip", 1, {"link": 1.0})
    with pytest.raises(GraphDPError, match="needs an ε above 0 for link and density"):
        draw(graph, "asymmetric", 1, {"link": 1.0})
    with pytest.raises(GraphDPError, match="needs an ε above 0"):
        draw(graph, "asymmetric", 1, {"link": 1.0, "density": 0.0})
    directed = csr_from_edges(np.array([0]), np.array([1]), 3, symmetrise=False)
    with pytest.raises(GraphDPError, match="the graph is directed"):
        draw(directed, "edge_rand", 1)


@pytest.mark.parametrize("kind", PERTURBATIONS)
def test_an_empty_graph_is_perturbed_too(kind):
    empty = (np.zeros(201, np.int64), np.empty(0, np.int32))
    indptr, indices = draw(empty, kind, 3)
    assert indptr[-1] == len(indices)


def test_files_of_perturbed_graphs(tmp_path):
    graph = random_graph(30, 60)
    graphs = {
        (3, "asymmetric"): Perturbed(*draw(graph, "asymmetric", 3), EPSILONS["asymmetric"]),
        (4, "lap_graph"): Perturbed(*graph, {"link": 1 / 3, "density": 1e-3}),
    }
    perturbation.save_graphs(tmp_path / "g.npz", graphs, graph="f" * 64)
    loaded = perturbation.load_graphs(tmp_path / "g.npz", graph="f" * 64)
    assert set(loaded) == set(graphs)
    for key, (*arrays, epsilons) in graphs.items():
        for ours, theirs in zip(loaded[key][:2], arrays, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert loaded[key].epsilons == epsilons
    with pytest.raises(GraphDPError, match="another graph"):
        perturbation.load_graphs(tmp_path / "g.npz", graph="e" * 64)
    (tmp_path / "bad.npz").write_bytes(b"x")
    with pytest.raises(GraphDPError, match="not a readable file"):
        perturbation.load_graphs(tmp_path / "bad.npz", graph="f" * 64)


@pytest.mark.parametrize("edges", [1473, 1474, 1475, 1476])
def test_few_new_edges_are_drawn_whatever_the_number_of_edges(edges):
    """A rate that is below one over the number of other pairs, by a rounding alone or by far."""
    rng = np.random.default_rng(0)
    pairs = perturbation._Pairs(300)
    ends = pairs.ends(np.sort(rng.choice(pairs.count, edges, replace=False)))
    graph = csr_from_edges(*ends, 300, symmetrise=True)
    both = {"link": 14.0, "density": 1.0}
    for kind, parts in (("edge_rand", {"link": 12.0}), ("asymmetric", both)):
        noisy = draw(graph, kind, 1, parts)
        assert abs(len(noisy[1]) / 2 - edges) < 50


def test_lap_graph_runs_on_as_many_edges_as_there_may_be(monkeypatch):
    """Whether it can run follows from what is asked for, not from the true number of edges."""
    monkeypatch.setattr(perturbation, "noisy_count", lambda count, epsilon, coins: 5)
    rng = np.random.default_rng(0)
    pairs = perturbation._Pairs(40)
    for edges in (0, 300, 516, 517, 700, pairs.count):
        ends = pairs.ends(np.sort(rng.choice(pairs.count, edges, replace=False)))
        graph = csr_from_edges(*ends, 40, symmetrise=True)
        assert len(draw(graph, "lap_graph", 1)[1]) == 10


@pytest.mark.parametrize(
    ("kind", "answers"), [("asymmetric", "asymmetric_probabilities"), ("lap_graph", "_largest")]
)
def test_each_part_is_drawn_with_the_epsilon_of_its_name(kind, answers, monkeypatch):
    told, count, reply = [], perturbation.noisy_count, getattr(perturbation, answers)
    place = {"asymmetric": 0, "lap_graph": 2}[kind]
    monkeypatch.setattr(
        perturbation, "noisy_count", lambda *a: (told.append(("density", a[1])), count(*a))[1]
    )
    monkeypatch.setattr(
        perturbation, answers, lambda *a: (told.append(("link", a[place])), reply(*a))[1]
    )
    perturb(*random_graph(60, 40), kind, {"link": 3.0, "density": 0.25}, Coins("x"), 10**7)
    assert told == [("density", 0.25), ("link", 3.0)]
