"""Coins as they are drawn: against exact arithmetic, closed forms and a second AES.

Statistical tests compare counts with exact binomial intervals; each states its failure probability.
"""

import contextlib
import itertools
import math

import mpmath
import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats

from graphdp.coins import Coins, as_drawn
from graphdp.data.graph import csr_from_edges
from graphdp.errors import GraphDPError
from graphdp.graphs import perturbation
from graphdp.rng import keyed_generator, stream_key
from graphdp.words import Words


def assert_binomial(successes: int, trials: int, probability: float) -> None:
    """Two-sided exact test: fails by chance with probability at most 1e-8."""
    low, high = stats.binom.ppf([5e-9, 1 - 5e-9], trials, probability)
    assert low <= successes <= high, (successes, trials, probability)


class Given(Words):
    """Words that a test chooses."""

    def __init__(self, words, further=0.0):
        self._given, self._more = np.asarray(words, np.uint64), further

    def fill_u(self, u):
        u[:] = self._given[: len(u)]

    def further_bits(self, size):
        return np.full(size, self._more)


def coins_of(words, further=0.0) -> Coins:
    coins = Coins("given")
    coins._words = Given(words, further)
    return coins


# --- Bits -----------------------------------------------------------------------------------------


def test_a_keyed_generator_is_aes_128_in_counter_mode():
    """Its words against blocks of another library's AES, encrypted one by one."""
    raw = keyed_generator("a", 1).bit_generator.random_raw(64)
    cipher = Cipher(algorithms.AES(stream_key("a", 1)[:16]), modes.ECB()).encryptor()
    blocks = {cipher.update(i.to_bytes(16, "little")) for i in range(80)}
    words = {int.from_bytes(b[at : at + 8], "little") for b in blocks for at in (0, 8)}
    assert set(raw.tolist()) <= words and len(set(raw.tolist())) == 64
    assert not set(keyed_generator("a", 2).bit_generator.random_raw(64).tolist()) & words


def test_equal_names_give_equal_coins():
    first, again, other = (Coins("x", n).words(100) for n in (1, 1, 2))
    assert np.array_equal(first, again) and not np.isin(first, other).any()


# --- Flips ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.0, 2.0**-64, 1e-9, 0.3, 0.75, 1 - 2.0**-53, 1.0])
def test_a_flip_has_its_rate_to_the_last_of_64_bits(rate):
    """The number of words that come out true is rate · 2⁶⁴, but for its rounding."""
    true = int(mpmath.mpf(rate) * 2**64)
    around = [max(true - 1, 0), min(true, 2**64 - 1)]
    found = coins_of(around).flips(2, rate)
    assert found[1] == (rate == 1)
    assert found[0] == (rate > 0)


# --- Geometric numbers ----------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [1e-7, 1e-3, 0.02, 0.5, 0.9])
def test_failures_change_where_exact_arithmetic_says(rate):
    """The words between which k turns into k + 1, found by bisection, against those of exact
    arithmetic: within the docstring's d of one another, in units of ln u."""
    mpmath.mp.prec = 200
    lam = -mpmath.log1p(-mpmath.mpf(rate))
    for k in (1, 2, 7, 50, 400):
        exact = mpmath.exp(-k * lam) * 2**63  # below it there are k failures or more
        if exact < 2**53:
            break
        low, high = 2**53, 2**63 - 1
        while high - low > 1:
            middle = (low + high) // 2
            if coins_of([middle]).failures(1, rate)[0] >= k:
                low = middle
            else:
                high = middle
        moved = abs(mpmath.log((low + high) / 2 / exact))
        assert moved <= 2.0**-51 + 2.0**-49 * k * lam + mpmath.mpf(2) ** -63 / exact * 2**63
        assert abs(low - exact) <= 2 + exact * (2.0**-51 + 2.0**-49 * float(k * lam))


def test_small_words_have_further_bits():
    """Just below 2⁻¹⁰ a further bit counts, just above it none is asked for."""
    rate = 1e-12
    below = [coins_of([3], more).failures(1, rate)[0] for more in (0.0, 0.75)]
    assert below[0] > below[1]
    above = [coins_of([2**53], more).failures(1, rate)[0] for more in (0.0, 2.0**40)]
    assert above[0] == above[1]
    lowest = coins_of([0], 2.0**-126).failures(1, 0.5)[0]
    assert lowest == 189  # 2⁻¹⁸⁹, as exact as can be


@pytest.mark.parametrize("rate", [0.004, 0.3, 0.8])
def test_failures_are_geometric(rate):
    """Twelve cells, exact tests: fails by chance with at most 12e-8."""
    draws = 200_000
    found = Coins("geometric", rate).failures(draws, rate)
    for k in range(12):
        assert_binomial(int((found == k).sum()), draws, rate * (1 - rate) ** k)


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, math.nan])
def test_no_chance_of_success_is_refused(rate):
    with pytest.raises(GraphDPError, match="no chance of success"):
        Coins("x").failures(3, rate)


# --- Successes and Laplace ------------------------------------------------------------------------


@pytest.mark.parametrize("count", [49, 98, 103])
def test_a_rate_of_one_over_the_count_is_drawn(count):
    """(1 / 49) · 49 is less than 1 in floats."""
    assert Coins("x", count).successes(count, 1 / count).size < 20
    assert Coins("x", count).successes(count, 0.5 / count).size < 20


@pytest.mark.parametrize(("count", "rate"), [(40, 0.2), (40, 0.01), (3000, 0.002)])
def test_every_trial_succeeds_with_its_rate(count, rate):
    """Also with a rate below one over the count, which is drawn in two steps. Exact tests of at
    most 40 places and of the sum: fails by chance with at most 41e-8."""
    coins, runs = Coins("trials", count), 4000
    hits = np.zeros(count, int)
    for _ in range(runs):
        places = coins.successes(count, rate)
        assert (np.diff(places) > 0).all() and places.size <= count
        hits[places] += 1
    for hit in hits[:40]:
        assert_binomial(int(hit), runs, rate)
    assert_binomial(int(hits.sum()), runs * count, rate)


def test_no_trial_and_no_rate_succeed_never():
    assert Coins("x").successes(0, 0.5).size == Coins("x").successes(10**12, 0.0).size == 0
    assert Coins("x").successes(10, 1.0).tolist() == list(range(10))


def test_laplace_noise_of_a_large_epsilon_is_not_rounded_away():
    """At ε = 45 a word of 2⁻⁶⁵ is a failure: 1 - e^-ε is 1 in floats."""
    assert coins_of([0], 2.0**-2).failures(1, 1.0)[0] == 0
    assert coins_of([0], 2.0**-2)._geometric(1, 45.0)[0] == 1


@pytest.mark.parametrize("epsilon", [0.02, 0.7, 5.0])
def test_laplace_noise_is_discrete_laplace(epsilon):
    """P(k) = tanh(ε/2) e^(-ε|k|); exact tests of nine values, by chance with at most 9e-8."""
    draws = 200_000
    noise = Coins("laplace", epsilon).laplace(draws, epsilon)
    for k in range(-4, 5):
        chance = math.tanh(epsilon / 2) * math.exp(-epsilon * abs(k))
        assert_binomial(int((noise == k).sum()), draws, chance)


# --- How far from ideal ---------------------------------------------------------------------------


def test_what_drawing_adds():
    """The docstring's bound holds its own terms: of every rate from 1/N to 1/2, of every ε, and of
    lap_graph's further units, with as many pairs as may appear."""
    mpmath.mp.prec = 100
    two = mpmath.mpf(2)
    for pairs in (10**3, 10**6, 2 * 10**8, 10**12):
        n = mpmath.mpf(pairs)
        for rate in np.geomspace(1 / pairs, 0.51, 30):
            lam, p = -mpmath.log1p(-rate), mpmath.mpf(rate)
            assert lam <= 1.4 * p
            terms = (2 * p * n + 200) / two**51 + lam * n / two**49
            successes = 2.1 / p * terms
            assert successes < n / two**46 + 1 / (p * two**42) <= 1.02 * n / two**41.9
        appear = 0.51 * n + 200
        for epsilon in (1e-6, 1e-3, 2.0**-9, 0.01, 0.7, 5.0):
            lam = mpmath.mpf(unit(epsilon))
            p = -mpmath.expm1(-lam)
            assert 1 / p < 513 * max(1, two**-9 / epsilon)
            more = 2.1 / p * (appear / two**51 + (2.01 * appear + 200) / two**49)
            pair = 2 * 2.1 / p * (two**-51 + 131 / two**49)
            count = 2 * 2.1 / -mpmath.expm1(-epsilon) * (two**-51 + 131 / two**49)
            assert count < two**-39 / min(1, epsilon)
            assert n / two**41 + more + pair + count < (as_drawn(epsilon, pairs)[0] - epsilon) / 2


def unit(epsilon):
    """As lap_graph has it: ε g in (2⁻⁹, 2⁻⁸], or ε itself."""
    return epsilon * 2.0 ** -max(0, math.ceil(math.log2(epsilon)) + 8)


def test_how_far_from_ideal_coins_are():
    for epsilon, pairs, given, least in (
        (1.0, 2 * 10**8, 0.0, None),
        (8.0, 10**6, 1e-5, 0.08),
        (20.0, 10**9, 0.0, 0.2),
        (0.1, 10**6, 0.0, 1e-3),
        (1e-6, 10**4, 0.0, None),
    ):
        found, delta = as_drawn(epsilon, pairs, given, least)
        room = max(1, mpmath.mpf(2) ** -9 / (least or epsilon))
        a = (mpmath.mpf(pairs) / 2**38 + mpmath.mpf(2) ** -28) * room
        a += mpmath.exp(epsilon) / mpmath.mpf(2) ** 60
        assert found == pytest.approx(float(epsilon + 2 * a), rel=1e-14)
        assert found < epsilon + 1e-2
        failure = mpmath.mpf(2) ** -90 + mpmath.mpf(pairs + 200) ** 2 / mpmath.mpf(2) ** 127
        whole = mpmath.exp(a) * given + (1 + mpmath.exp(epsilon + a)) * failure
        assert delta == pytest.approx(float(whole), rel=1e-12)
    assert as_drawn(41.0, 10)[1] == 1
    for arguments in ((1.0, 2**42 + 1), (math.inf, 10)):
        with pytest.raises(GraphDPError, match="coins"):
            as_drawn(*arguments)


def test_blocks_that_never_repeat_are_counted():
    """With N = 2e8 pairs edge_rand reads 54 million words, 27 million blocks."""
    blocks = 5.4e7 / 2
    assert as_drawn(1.0, 2 * 10**8)[1] > (1 + math.e) * blocks**2 / 2.0**129 > 2.0**-80


@pytest.mark.parametrize("epsilon", [9.9e-7, 0.0, -1.0])
def test_too_small_an_epsilon_is_one_clear_line(epsilon):
    for draw in (
        lambda: as_drawn(epsilon, 10),
        lambda: as_drawn(1.0, 10, 0.0, epsilon),
        lambda: Coins("x").laplace(3, epsilon),
    ):
        with pytest.raises(GraphDPError, match=r"analysed from 1e-06 on; raise epsilon") as error:
            draw()
        assert "\n" not in str(error.value)


class Counted(Words):
    """Words of a stream, and how many were read."""

    def __init__(self, *name):
        super().__init__(*name)
        self.words = self.blocks = 0

    def fill_u(self, u):
        self.words += len(u)
        super().fill_u(u)

    def further_bits(self, size):
        self.blocks += size
        return super().further_bits(size)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", ["asymmetric", "edge_rand", "lap_graph"])
def test_a_perturbation_reads_no_more_words_and_blocks_than_are_counted(kind, directed):
    """Of graphs without an edge, with some, and with all, each ε small and large."""
    for nodes, density in itertools.product((8, 150), (0.0, 0.1, 0.6, 1.0)):
        upper = np.triu(np.random.default_rng(1).random((nodes, nodes)) < density, 1)
        graph = csr_from_edges(*np.nonzero(upper), nodes, symmetrise=True)
        pairs = nodes * (nodes - 1) // (1 if directed else 2)
        for link in (1e-3, 0.5, 8.0):
            parts = {"link": link} if kind == "edge_rand" else {"link": link, "density": 1e-3}
            coins = Coins("words", kind, nodes, density, link)
            coins._words = counted = Counted("words", kind, nodes, density, link)
            with contextlib.suppress(GraphDPError):  # by the noisy count of edges, of lap_graph
                perturbation.perturb(*graph, kind, parts, coins, 10**6, directed)
            assert counted.words <= 4 * pairs + 300
            assert counted.words / 2 + counted.blocks <= 2 * pairs + 400


def test_few_pairs_appear_in_a_dense_graph_whose_noisy_count_is_small(monkeypatch):
    """lap_graph's further units, which its bound has for half of the pairs at most."""
    monkeypatch.setattr(perturbation, "noisy_count", lambda count, epsilon, coins: wanted)
    found = []

    class Seen(Coins):
        def failures(self, size, rate):
            found.append(size)
            return super().failures(size, rate)

    nodes, pairs = 150, 150 * 149
    for density, wanted in itertools.product((0.5, 0.7, 0.9, 0.95, 1.0), (1, 1000, 4000)):
        full = np.random.default_rng(1).random((nodes, nodes)) < density
        graph = csr_from_edges(*np.nonzero(full), nodes, symmetrise=False)
        found.clear()
        parts = {"link": 0.5, "density": 0.1}
        noisy = perturbation.perturb(*graph, "lap_graph", parts, Seen(density), 10**6, True)
        assert len(noisy[1]) == wanted
        assert found[-1] <= 0.51 * pairs + 200
    wanted = pairs // 4
    with pytest.raises(GraphDPError, match="too many for a sparse draw"):
        perturbation.perturb(*graph, "lap_graph", parts, Seen(2), 10**6, True)
