"""Rounds over sub-graphs with symmetric multivariate Laplace noise: the claim, and what is true.

The noise is √W Z with Z ~ N(0, σ²I) and one W ~ Exp(1) a round (PNPiGNNs, Algorithm 4). Units as in
`graphdp.privacy.sub_graphs`: C = 1.

**The claim** (Theorem 2): D_α ≤ T/(α-1) · ln E_k[α/(2α-1) e^(√2 (α-1) k/σ) + (α-1)/(2α-1) e^(-√2 α
k/σ)], k = 1/2 with probability q, else k ~ Bin(D, qM/D); the two exponentials are the divergence of
two Laplace distributions on a line. Lemma 1, by which the line is enough, is false: in d ≥ 2
dimensions the norm of what is drawn tells of W. (d = 3, k = 1, σ = 2, α = 2: claimed .3599, true
.595.) Σ over a binomial is a power, (1 + π(e^t - 1))^D, which rises with D at π = λ/D either way
(ln(1 + x/D) D does), so the largest D is the claim's worst.

**What holds** in every dimension: reveal W, the number j of listers that drew the node, and
whether it is a centre itself, b. Given them a round is a Gaussian of shift at most j + b/2 (a
zeroed row is not a missing one, so b does not take j's place), and rounds compose to

    δ(ε) = E_S[δ_Gauss(ε; √S)],   S = Σ_t (j_t + b_t/2)² / (σ² W_t),

which rises with S. For the worst number of lists the law of 2j + b is replaced by one that is
stochastically larger than that of any D. E[1/W] = ∞, so S has a tail like 1/S: large losses are
about as likely as 1/ε, and no Rényi divergence is finite.
"""

import math
from functools import lru_cache

import numpy as np

from graphdp.privacy.sub_graph_step import KNOWN, Step
from graphdp.privacy.sub_graphs import law_of_numbers

#: Orders at which the authors' code looks (its σ is found by them).
ORDERS = tuple(map(float, np.linspace(1.0001, 10, 100)))
#: A law of S has so many points above 0.
SIZE = 2**18
#: Added to δ for the rounding of transforms.
_ROUNDING = 1e-11


def claimed_divergence(
    order: float, rate: float, neighbors: int, lists: int, noise: float
) -> float:
    """D_α of one round by the published theorem, at σ = `noise` and D = `lists`; inf where it is
    beyond the floating-point numbers."""
    drawn = rate * min(1.0, neighbors / lists) if lists else 0.0
    up, down = math.sqrt(2) * (order - 1) / noise, -math.sqrt(2) * order / noise
    if up > 700:
        return math.inf

    def log_mean(slope: float) -> float:
        """ln E e^(slope k)."""
        own = math.log(rate) + slope / 2
        if rate == 1:
            return own
        others = math.log1p(-rate) + lists * math.log1p(drawn * math.expm1(slope))
        return float(np.logaddexp(own, others))

    first = math.log(order / (2 * order - 1)) + log_mean(up)
    second = math.log((order - 1) / (2 * order - 1)) + log_mean(down)
    return float(np.logaddexp(first, second)) / (order - 1)


@lru_cache(maxsize=16)
def shifts(rate: float, neighbors: int, most_lists: int) -> tuple[np.ndarray, float]:
    """A law that is stochastically at least that of 2j + b for every D ≤ most_lists: chances of
    0, 1, 2, ..., and the chance of what is left out."""
    numbers, dropped = law_of_numbers(Step(rate, neighbors, most_lists, 0, True, KNOWN))
    laws = np.zeros((numbers.shape[0], 2 * numbers.shape[1]))
    laws[:, ::2] = (1 - rate) * numbers
    laws[:, 1::2] = rate * numbers
    tails = np.cumsum(laws[:, ::-1], axis=1)[:, ::-1].max(axis=0)  # P(2j + b ≥ c)
    tails[0] = 1.0
    return tails - np.append(tails[1:], 0.0), dropped


def mean_square(rate: float, neighbors: int, most_lists: int, noise: float) -> float:
    """E[(j + b/2)²] / σ²: S exceeds a large x in a round with about this chance over x."""
    chances, _ = shifts(rate, neighbors, most_lists)
    return float(chances @ (np.arange(chances.size) / 2 / noise) ** 2)


def squares(rate: float, neighbors: int, most_lists: int, noise: float, width: float) -> np.ndarray:
    """Chances of one round's part of S, rounded up to 0, width, 2 width, ...: (`SIZE` + 1,). What
    is missing from 1 lies beyond."""
    chances, dropped = shifts(rate, neighbors, most_lists)
    ends = np.arange(SIZE + 1) * width
    below = np.full(SIZE + 1, chances[0])  # P(S ≤ end)
    for count in np.flatnonzero(chances[1:]) + 1:
        with np.errstate(divide="ignore"):
            below += chances[count] * np.exp(-((count / 2 / noise) ** 2) / ends)
    return np.diff(below * (1 - dropped), prepend=0.0)


def sum_of(parts: list[tuple[np.ndarray, int]]) -> np.ndarray:
    """The law of the sum of independent parts, each so many times; what is missing lies beyond."""
    from scipy.signal import fftconvolve

    def both(first: np.ndarray | None, second: np.ndarray) -> np.ndarray:
        if first is None:
            return second
        return np.maximum(fftconvolve(first, second)[: first.size], 0.0)

    total = None
    for power, count in parts:
        while count:
            if count % 2:
                total = both(total, power)
            count //= 2
            if count:
                power = both(power, power)
    return total


def mixture_delta(law: np.ndarray, width: float, epsilon: float) -> float:
    """δ at ε ≥ 0 of Gaussians of known shift, whose squares have this law."""
    from graphdp.privacy.accounting.closed_form import gaussian_deltas

    deltas = gaussian_deltas(np.sqrt(np.arange(1, law.size) * width), epsilon)
    beyond = max(0.0, 1.0 - float(law.sum()))
    return min(1.0, float(law[1:] @ deltas) + beyond + _ROUNDING)
