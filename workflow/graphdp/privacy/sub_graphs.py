"""DP-SGD over sub-graphs of Poisson-sampled neighbours: in how many gradients one node may be.

A round (PNPiGNNs, Algorithms 1 to 3, corrected): every training node is a centre by its own coin q;
each centre i keeps each distinct node z of its list, never itself, by a coin of rate p(z), and the
gradient of its sub-graph, clipped to C/2, enters a sum with noise of standard deviation σC. Rates
depend on z alone, p(z) ≤ min(1, M / D), D the number of distinct lists that hold z. One node z
takes part or not; everything else, rates included, stays. Units here: C = 1.

**Lemma** (that of `graphdp.privacy.group`, for vectors that need not add up). Let S be random, with
one law in both worlds, c_S and c'_S vectors of norm at most a_S/2 and a'_S/2, P = E N(c_S, σ²I) and
P' = E N(c'_S, σ²I). Then H_α(P ‖ P') ≤ H_α(P* ‖ Q*) and H_α(P' ‖ P) ≤ H_α(Q* ‖ P*) for all α ≥ 0,

    P* = E N(+a_S/2, σ²),   Q* = E N(-a'_S/2, σ²).

*Proof.* The interpolation there asks for ⟨c_S, c_T⟩ ≤ a_S a_T / 4, the same with primes, and
⟨c_S, c'_T⟩ ≥ -a_S a'_T / 4. All three are Cauchy-Schwarz. ∎

*Monotone.* Larger a and a' are allowed, so a law of (a, a') that is stochastically larger (a
coupling of the two exists) dominates. What is revealed with one law in both worlds is averaged:
H = Σ_m P(m) H_m, and if m is coupled with a larger one, so is the average.

**Hidden coins** (overlap kept). Let E_i = {i is a centre and did not draw z}. Given E_i, the
sub-graph of i is the same in both worlds, and E_i has the same law in both: reveal it. Of the
m ~ Bin(D, 1 - q(1-p)) other listers each is, by an independent coin q' = qp / (1 - q(1-p)), a
centre that drew z, with one vector of norm ≤ 1/2 in either world, or no centre. z is a centre by
its coin b ~ Bern(q), with a vector of norm ≤ 1/2 where it takes part and none else. All other coins
are the same and are averaged. So a = j + b and a' = j, j ~ Bin(m, q'). A node that is never a
centre has b's vector 0, so the same pair dominates; without b it is smaller.

**Revealed centres** (a peripheral that is a centre is taken out of the bags). Reveal which listers
are centres, n ~ Bin(D, q). If z is a centre, no bag holds it, and its own vector has norm ≤ 1/2:
a = 1. Else j ~ Bin(n, p) of the revealed sub-graphs change, each by at most 1: a = 2j. Without z
the sum is one known vector: a' = 0. A node that is never a centre: a = 2j always.

**Known multiplicities** (the same rule). Reveal j too: with probability q a shift of 1/2, else one
of j ~ Bin(D, qp), without 1 - q for a node that is never a centre. Gaussians of known shift.

Neither of the last two holds where a peripheral that is a centre stays: z is then in j bags and has
a sub-graph of its own. Under the rule the first does not hold: whether a lister is a centre decides
whether it stays in the bags of all others, so that its hidden coin moves other vectors too.

**How many lists.** D is nobody's secret but is not read from data: all D up to a public number are
covered. By monotonicity fewer lists at one rate are dominated, so that D < M is by D = M, and
all D in [D₁, D₂] by D₂ lists at rate M / D₁, since q' and 1 - q(1-p) fall with D. For larger D a
coin x is at most a Poisson number of mean -ln(1-x), hence j given m is at most Poisson(m μ_D),
μ_D = -ln(1 - q'_D); over a block of D the law of m μ_D is replaced by the largest of its tails.
For known multiplicities -D ln(1 - qM/D) falls with D: one Poisson law covers the rest.

One pair of curves is used: at each α the largest H over all D, for z leaving and z entering apart.
It dominates even if D changed from round to round, and is 0.1 % of ε above the worst single D.
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from graphdp.errors import GraphDPError
from graphdp.privacy.sub_graph_step import BOTH, HIDDEN, KNOWN, REVEALED, Step

#: Chance of what is not followed, per round; it is added to δ.
_TAIL = 1e-17
#: So little chance may be moved to a larger number of listers without being seen.
_MOVED = 1e-7
#: Exact up to this many lists at least, and 24 M.
_EXACT = 80
#: From so many lists on one Poisson law stands for all known multiplicities.
_KNOWN_EXACT = 1024


class Laws(NamedTuple):
    """Laws of the shifts of one round, in units of C/2.

    up, down: (counts, levels) chances of a and of a', one column for each level of what is
    revealed. weights: (laws, levels) chances of the levels, one row for each range of D. dropped:
    chance of what is left out, in any law.
    """

    up: np.ndarray
    down: np.ndarray
    weights: np.ndarray
    dropped: float


def blocks(step: Step) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Ranges (D₁, D₂) that cover every number of lists up to the largest: those to be bounded by D₂
    lists at the rate of D₁, and those to be bounded by Poisson numbers."""
    if step.neighbors == 0 or step.most_lists == 0:
        return [(0, 0)], []
    if step.rate_lists:
        return [(step.most_lists, step.most_lists)], []
    few: list[tuple[int, int]] = []
    last = min(step.most_lists, max(24 * step.neighbors, _EXACT))
    if step.analysis == KNOWN:
        last = min(step.most_lists, max(24 * step.neighbors, _KNOWN_EXACT))
    start = min(step.neighbors, last)
    while start <= last:
        end = min(last, max(start, int(1.015 * start))) if step.neighbors > 5 else start
        few.append((start, end))
        start = end + 1
    many: list[tuple[int, int]] = []
    while last < step.most_lists:
        end = step.most_lists if step.analysis == KNOWN else min(step.most_lists, 5 * last // 4)
        many.append((last + 1, end))
        last = end
    return few, many


@lru_cache(maxsize=32)
def laws(step: Step) -> Laws:
    """The laws of a round over all numbers of lists; `both` has none of its own."""
    if not 0 < step.rate <= 1:
        raise GraphDPError(f"sampling rate is {step.rate}; it must lie in (0, 1]")
    if step.analysis == KNOWN:
        return _known(step)
    few, many = blocks(step)
    columns, rows = [], []
    for first, last in few:
        carried, levels, weights = _binomial_levels(step, first, last)
        columns.append((_binomial_counts(levels, carried), weights))
    for first, last in many:
        levels, weights = _poisson_levels(step, first, last)
        columns.append((_poisson_counts(levels), weights))
    highest = max(counts.shape[0] for counts, _ in columns)
    stacked = np.zeros((highest, sum(counts.shape[1] for counts, _ in columns)))
    at = 0
    for counts, weights in columns:
        stacked[: counts.shape[0], at : at + counts.shape[1]] = counts
        row = np.zeros(stacked.shape[1])
        row[at : at + counts.shape[1]] = weights
        rows.append(row)
        at += counts.shape[1]
    # Two tails a law: counts and levels that are left out.
    return Laws(*_shifts(step, stacked), np.array(rows), 2 * _TAIL)


def dropped(step: Step) -> float:
    """Chance of what the laws of a round leave out; of `both` in either analysis."""
    if step.analysis == BOTH:
        return max(dropped(step._replace(analysis=one)) for one in (KNOWN, REVEALED))
    return laws(step).dropped


def _shifts(step: Step, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Laws of a and a' from those of the number of sub-graphs that carry the node."""
    number, levels = counts.shape
    own = step.rate if step.labelled else 0.0
    if step.analysis == HIDDEN:
        up, down = np.zeros((number + 1, levels)), np.zeros((number + 1, levels))
        up[:-1], down[:-1] = (1 - own) * counts, counts
        up[1:] += own * counts
        return up, down
    up, down = np.zeros((2 * number, levels)), np.zeros((2 * number, levels))
    up[::2] = (1 - own) * counts
    up[1] += own
    down[0] = 1.0
    return up, down


def law_of_numbers(step: Step) -> tuple[np.ndarray, float]:
    """Laws of j ~ Bin(D, qp), one row for each range of numbers of lists, and the chance of larger
    j, which are left out."""
    from scipy.stats import binom, poisson

    few, many = blocks(step._replace(analysis=KNOWN))
    law = [binom(last, step.rate * step.chance(first)) for first, last in few]
    for first, _ in many:
        law.append(poisson(-first * math.log1p(-step.rate * step.chance(first))))
    numbers = np.arange(max(map(_reach, law)) + 1)
    return np.array([one.pmf(numbers) for one in law]), _TAIL


def _known(step: Step) -> Laws:
    """A column for each shift that is known, and the laws of the shifts as weights."""
    own = step.rate if step.labelled else 0.0
    weights, dropped = law_of_numbers(step)
    size = weights.shape[1]
    up = np.zeros((2 * size, size + 1))
    up[2 * np.arange(size), np.arange(size)] = 1.0
    up[1 if own else 0, size] = 1.0
    weights = np.column_stack([(1 - own) * weights, np.full(len(weights), own)])
    down = np.zeros_like(up)
    down[0] = 1.0
    return Laws(up, down, weights, dropped)


def _binomial_levels(step: Step, first: int, last: int) -> tuple[float, np.ndarray, np.ndarray]:
    """Chance to carry, numbers m of counted listers, and their chances. Few m are rounded up."""
    from scipy.stats import binom

    counted, carried = step.listers(first)
    numbers = np.arange(last + 1)
    # A tail below `_TAIL` is left out, and one below `_MOVED` is counted as the first number kept.
    kept = numbers[
        (binom.sf(numbers - 1, last, counted) > _TAIL)
        & ((binom.cdf(numbers, last, counted) > _MOVED) | (numbers == last))
    ]
    weights = binom.pmf(kept, last, counted)
    weights[0] = binom.cdf(kept[0], last, counted)
    return carried, kept, weights


def _reach(law: Any) -> int:
    """The least number, at least 1, that a law is above with a chance of at most `_TAIL`."""
    size = 64
    while law.sf(size) > _TAIL:
        size *= 2
    return max(1, int((law.sf(np.arange(size + 1)) > _TAIL).sum()))


def _binomial_counts(levels: np.ndarray, carried: float) -> np.ndarray:
    from scipy.stats import binom

    most = _reach(binom(levels[-1], carried))
    return binom.pmf(np.arange(most + 1)[:, None], levels, carried)


def _poisson_counts(means: np.ndarray) -> np.ndarray:
    from scipy.stats import poisson

    most = _reach(poisson(means[-1]))
    return poisson.pmf(np.arange(most + 1)[:, None], means)


def _poisson_levels(step: Step, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    """Means of Poisson numbers, with a law above that of m μ_D for every D in [first, last].

    At each of a grid of means the largest tail over D, rounded up to the next mean. Over stretches
    [a, b] of D a tail is at most that of b listers, each counted as at a, at μ_a.
    """
    from scipy.stats import binom

    starts = [first]
    while starts[-1] < last:
        starts.append(max(starts[-1] + 1, int(1.002 * starts[-1])))
    starts = np.array([start for start in starts if start <= last])
    ends = np.append(starts[1:] - 1, last)
    chances = np.array([step.listers(int(start)) for start in starts])
    if chances[0, 1] == 1:  # whoever is counted carries the node: no Poisson number is above that
        raise GraphDPError(
            f"where every training node is in every batch no analysis has nodes in {last:,} lists: "
            "give a smaller batch_size or max_degree"
        )
    means = -np.log1p(-chances[:, 1])
    spread = math.sqrt((1 - chances[-1, 0]) / (chances[-1, 0] * first))
    center = ends[0] * chances[0, 0] * means[0]
    around = np.concatenate([
        np.linspace(-5, -2, 6)[:-1], np.linspace(-2, 2, 41), np.linspace(2, 9, 15)[1:]
    ])  # fmt: skip
    highest = float((ends * means).max())  # all listers counted
    grid = np.append(center * np.maximum(1 + around * spread, 1e-3), 1.001 * highest)
    grid = np.unique(grid[grid <= 1.001 * highest])
    # The next whole number above; a rounding error of the quotient only makes the tail larger.
    above = np.floor(grid / means[:, None] * (1 - 1e-12) - 1e-9)
    tails = binom.sf(above, ends[:, None], chances[:, :1]).max(axis=0)
    kept = np.flatnonzero(tails <= _TAIL)
    if kept.size:  # what lies above the first such mean is left out
        grid, tails = grid[: kept[0] + 1], tails[: kept[0] + 1]
    return grid, np.append(1.0, tails[:-1]) - tails
