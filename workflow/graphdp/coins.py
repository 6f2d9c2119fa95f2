"""Coins and whole numbers as they are drawn: keyed, and how far from ideal they can be.

Randomised response and discrete Laplace noise read the words of one stream of AES-256 in counter
mode (`graphdp.words.Words`).

**Flips.** A word of 64 bits below rate · 2⁶⁴: the chance of a flip is wrong by 2⁻⁶⁴ at most, and by
nothing from 2⁻¹¹ on, where a float has no further bits. What is rarer is asked for.

**Geometric numbers.** ⌊E / λ⌋ failures before a success of chance p, with λ = -ln(1 - p) and an
exponential E = -ln u. u has 63 bits, and 126 more below 2⁻¹⁰, so where u > 2⁻¹³⁷ it is wrong by a
factor of 1 ± 2⁻⁵² or less, as a float of 1 ± 2⁻⁵¹; with logarithms within two units of the last
place and a division, E / λ is wrong by d / λ, d ≤ 2⁻⁵¹ + 2⁻⁴⁹ E. k failures have the ideal chance
p e^(-kλ), an interval of E of length λ whose ends so move by d: the chance is wrong by a factor
within e^±(2.1 d / p). The E of k numbers add up to 2 k + 200 at most, but for a chance of 2⁻²⁰⁰.

**What is compared.** Let G and G' differ in one of N pairs, and let M° draw as the code does with
ideal words, but for three things, which it draws as they should be: the noise of the count, the
answer of that one pair, and all answers of pairs that are edges of neither. The edges that G and G'
share are drawn one by one, each from words of its own, by one law (that of a flip, or of Laplace
noise) that is the same in both worlds, whatever it is: so M° is as private as ideal coins are, and
no error of a shared edge counts, however many there are. What is drawn of G, and of G', is within
e^±a of M° but for a chance of f; a adds up as follows.

- *Successes.* Among N trials of one chance p ≤ 0.51 they are walked by gaps, at most 2 p N + 200
  but for a chance of 2⁻²⁰⁰ (Chernoff). Up to the last trial the gaps' E are λ N ≤ 1.4 p N together,
  so the chance of any set of successes is wrong by a factor within e^± of

      (2.1 / p) ((2 p N + 200) 2⁻⁵¹ + 2⁻⁴⁹ λ N) < N 2⁻⁴⁶ + 2⁻⁴² / p.

  A p below 1/N is drawn as 1/N, and each of K successes then kept by one flip of rate p N. That is
  a trial of a chance wrong by a factor of 1 ± η, η = 2⁻⁵² + 2⁻⁶⁴ / (p N), all together of
  e^±(K + 1.1) η with K ≤ N: less than N 2⁻⁵¹ + 2.1 · 2⁻⁶⁴ / p. Of randomised response, thinned to a
  density of 1/N or more (at 0 nothing comes out), 1 / p ≤ 2 (N + 1 + e^ε). So it is N 2⁻⁴¹ with
  all roundings of rates, and of flips, with that of an edge, which goes with chance
  e^-ε / (1 + e^-ε) or more, 2⁻⁶⁰ e^ε: once, and not for every success or edge.
- *lap_graph's further units*, one geometric number for each of the M other pairs that appear. Its
  draw is for a quarter of the pairs at most and refused beyond (by the noisy count, so whatever the
  number of edges, in a dense graph with a noisy count far below it as well), hence M ≤ 0.51 N + 200
  but for a chance of 2⁻²⁰⁰. λ > 2⁻⁹, or λ = ε where that is less: with κ = max(1, 2⁻⁹ / ε)
  1 / p < 513 κ, and they are wrong by (2.1 / p) 2⁻⁴⁹ (2.3 M + 200) < κ (0.7 · 2⁻³⁸ N + 2⁻²⁹·⁵).
- *Laplace noise* of the one pair, two geometric numbers of E < 131: κ 2⁻³⁰·⁸. Of the count, with an
  ε of its own: 2⁻³⁹ / min(1, ε).

Hence what is (ε, δ)-DP with ideal coins is, over N pairs of nodes and with no part's ε below ε₀, as
it is drawn,

    (ε + 2a, e^a δ + (1 + e^(ε + a)) f)-DP,
    a = (N 2⁻³⁸ + 2⁻²⁸) max(1, 2⁻⁹ / ε₀) + 2⁻⁶⁰ e^ε,   f = 2⁻⁹⁰ + (N + 200)² 2⁻¹²⁷

(`as_drawn`). The second part of f is for blocks that never repeat, as those of a permutation do
not: of a random one q blocks are within q²/2¹²⁹ of random bits. A perturbation takes 4 N + 300
words at most (three for an edge, those of the gaps with at most 64 + 1.1 p N that are left over,
two for a pair that appears), two of a block, and further bits of one in 2¹⁰: q ≤ 2 N + 400.

That AES cannot be told from a random permutation, and that whoever attacks does not know the key,
is taken for granted as in `graphdp.noise`.
"""

import math

import numpy as np

from graphdp.errors import GraphDPError
from graphdp.words import MASK, Words

#: Below it geometric numbers grow so large that no bound on their errors is stated.
LEAST_EPSILON = 1e-6

_MASK = np.uint64(MASK)
_RARE = np.uint64(1 << 53)  # u below 2⁻¹⁰ has further bits
_PART = 1 << 20  # numbers drawn at a time


def as_drawn(
    epsilon: float, pairs: int, delta: float = 0.0, least: float | None = None
) -> tuple[float, float]:
    """(ε, δ) of coins for `pairs` pairs of nodes as they are drawn, from those of ideal ones.

    least: the smallest ε of a part of it; all of `epsilon` unless given.
    Raises `GraphDPError` for an ε that is not finite, an ε or part below `LEAST_EPSILON`, and for
    more pairs than 2^42.
    """
    if not 0 <= pairs <= 2**42:
        raise GraphDPError(f"{pairs} pairs of nodes: coins are analysed for up to 2^42")
    if not epsilon < math.inf:
        raise GraphDPError(f"epsilon {epsilon}: there are no coins to speak of")
    least = epsilon if least is None else min(epsilon, least)
    _check(least)
    if epsilon > 40:
        return epsilon, 1.0
    a = (pairs * 2.0**-38 + 2.0**-28) * max(1.0, 2.0**-9 / least) + math.exp(epsilon) * 2.0**-60
    if a > 300:
        return epsilon + 2 * a, 1.0
    failure = (1 + math.exp(epsilon + a)) * (2.0**-90 + (pairs + 200.0) ** 2 * 2.0**-127)
    return epsilon + 2 * a, min(1.0, math.exp(a) * delta + failure)


def _check(epsilon: float) -> None:
    if not epsilon >= LEAST_EPSILON:
        raise GraphDPError(
            f"ε = {epsilon:g} for a part of a perturbation: coins are analysed from "
            f"{LEAST_EPSILON:g} on; raise epsilon"
        )


class Coins:
    """The coins of one stream, in order. Equal names and calls give equal coins."""

    def __init__(self, *name: int | str | float):
        self._words = Words(*name)

    def words(self, size: int) -> np.ndarray:
        """uint64 (size,)."""
        words = np.empty(size, np.uint64)
        self._words.fill_u(words)
        return words

    def flips(self, size: int, rate: float) -> np.ndarray:
        """bool (size,), each true with chance `rate`."""
        if rate >= 1:
            return np.ones(size, bool)
        return self.words(size) < np.uint64(int(rate * 2.0**64))

    def failures(self, size: int, rate: float) -> np.ndarray:
        """Failures before a success of chance `rate`, at most 2⁶² of them: int64 (size,).

        Raises `GraphDPError` unless the rate lies above 0 and up to 1.
        """
        if not 0 < rate <= 1:
            raise GraphDPError(f"a rate of {rate} is no chance of success")
        if rate == 1:
            return np.zeros(size, np.int64)
        return self._geometric(size, -math.log1p(-rate))

    def _geometric(self, size: int, exponent: float) -> np.ndarray:
        """Failures before a success of chance 1 - e^-exponent: int64 (size,)."""
        bits = self.words(size) & _MASK
        u = bits.astype(np.float64) + 0.5
        rare = bits < _RARE
        u[rare] = bits[rare].astype(np.float64) + self._words.further_bits(int(rare.sum()))
        gaps = -np.log(u * 2.0**-63) / exponent
        return np.minimum(gaps, 2.0**62).astype(np.int64)

    def laplace(self, size: int, epsilon: float) -> np.ndarray:
        """Discrete Laplace noise, P(k) ∝ e^(-ε |k|): int64 (size,).

        Raises `GraphDPError` for an ε below `LEAST_EPSILON`.
        Source: Ghosh, Roughgarden and Sundararajan, STOC 2009 (two-sided geometric mechanism).
        """
        _check(epsilon)
        return self._geometric(size, epsilon) - self._geometric(size, epsilon)

    def successes(self, count: int, rate: float) -> np.ndarray:
        """The places, ascending, of the successes among `count` trials of chance `rate`: int64.

        It costs only the successes.
        """
        if rate <= 0 or not count:
            return np.empty(0, np.int64)
        if rate * count < 1:
            places = self._walk(count, 1 / count)
            return places[self.flips(len(places), rate * count)]
        return self._walk(count, rate)

    def _walk(self, count: int, rate: float) -> np.ndarray:
        """`successes`, by their gaps."""
        parts, last = [], -1
        while last < count:
            size = min(_PART, 64 + int(1.1 * rate * (count - last)))
            gaps = np.minimum(self.failures(size, rate), count) + 1  # no sum may overflow
            parts.append(last + np.cumsum(gaps))
            last = int(parts[-1][-1])
        places = np.concatenate(parts)
        return places[: np.searchsorted(places, count)]
