"""Coins and whole numbers as they are drawn: keyed, and how far from ideal they can be.

Randomised response and discrete Laplace noise read the words of one stream of AES-256 in counter
mode (`graphdp.noise.Words`).

**Flips.** A word of 64 bits below rate · 2⁶⁴: the chance of a flip is wrong by 2⁻⁶⁴ at most. What
is rarer is asked for, so that of an edge that goes with chance e^-ε / (1 + e^-ε) or more that is a
factor within e^±b, b = 2⁻⁶² e^ε.

**Geometric numbers.** ⌊E / λ⌋ failures before a success of chance p, with λ = -ln(1 - p) and an
exponential E = -ln u. u has 63 bits, and 126 more below 2⁻¹⁰, so it is wrong by a factor of
1 ± 2⁻⁵² or less, as a float of 1 ± 2⁻⁵¹; with logarithms within two units of the last place and a
division, E / λ is wrong by d / λ, d ≤ 2⁻⁵¹ + 2⁻⁴⁹ E. k failures have the ideal chance p e^(-kλ),
an interval of E of length λ whose ends so move by d: the chance is wrong by a factor within
e^±(2.1 d / p).

**Successes.** Among N trials of one chance they are walked by such gaps, of which there are at most
2 p N + 200 but for a chance of e⁻⁶⁶ (Chernoff). The gaps add up to N at most, but for the last one,
so the chance of any set of successes is wrong by a factor within e^±a,

    a = (2.1 / p) ((2 p N + 200) 2⁻⁵¹ + 2⁻⁴⁹ λ (3 N + 200 / p)) < N 2⁻⁴⁵ + 2⁻³⁹ / p   for p ≤ 1/2.

A p below 1/N is drawn as 1/N, and each success then kept by a flip: so a < N 2⁻³⁸, in which there
is room for two discrete Laplace draws for each edge (with λ above 2⁻⁹; a smaller one makes it
larger) and for the roundings of the rates. Hence what is (ε, δ)-DP with ideal coins is, over N
pairs of nodes, as it is drawn, with a = N 2⁻³⁸ + b,

    (ε + 2a, e^a δ + (1 + e^(ε + a)) 2⁻⁹⁰)-DP

(`as_drawn`). That AES cannot be told from random bits, and that whoever attacks does not know the
key, is taken for granted as in `graphdp.noise`.
"""

import math

import numpy as np

from graphdp.errors import GraphDPError
from graphdp.noise import Words

_MASK = np.uint64((1 << 63) - 1)
_RARE = np.uint64(1 << 53)  # u below 2⁻¹⁰ has further bits
_PART = 1 << 20  # numbers drawn at a time


def as_drawn(epsilon: float, pairs: int, delta: float = 0.0) -> tuple[float, float]:
    """(ε, δ) of coins for `pairs` pairs of nodes as they are drawn, from those of ideal ones.

    Raises `GraphDPError` for an ε that is not finite, and for more pairs than 2^42.
    """
    if not 0 <= pairs <= 2**42:
        raise GraphDPError(f"{pairs} pairs of nodes: coins are analysed for up to 2^42")
    if not 0 <= epsilon < math.inf:
        raise GraphDPError(f"epsilon {epsilon}: there are no coins to speak of")
    if epsilon > 40:
        return epsilon, 1.0
    a = pairs * 2.0**-38 + math.exp(epsilon) * 2.0**-62
    failure = (1 + math.exp(epsilon + a)) * 2.0**-90
    return epsilon + 2 * a, min(1.0, math.exp(a) * delta + failure)


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

        Source: Ghosh, Roughgarden and Sundararajan, STOC 2009 (two-sided geometric mechanism).
        """
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
