"""DP-SGD on Poisson samples when a whole group of records is replaced: the exact accounting.

**Lemma.** Let S contain each of g records independently with probability q. Let u_i, u'_i be any
vectors of norm at most C (the clipped gradients of record i in the one data set and in the other),
and P = E_S N(Σ_{i∈S} u_i, σ²I), P' = E_S N(Σ_{i∈S} u'_i, σ²I). Then for every α ≥ 0

    H_α(P ‖ P') ≤ H_α(P* ‖ Q*),   H_α(P ‖ P') = ∫ (p - α p')₊,
    P* = Σ_j Bin(j; g, q) N(+jC, σ²),   Q* = Σ_j Bin(j; g, q) N(-jC, σ²),

in one dimension whatever the dimension of the gradients, and with equality for u_i = Ce = -u'_i.

*Proof.* Take σ = 1. Write c_S = Σ_{i∈S} u_i, c'_S = Σ_{i∈S} u'_i, p_S = P(S). With x ~ N(0, I),

    H_α(P ‖ P') = E φ(Σ_S p_S exp(X_S - Var X_S / 2) - α Σ_S p_S exp(X'_S - Var X'_S / 2)),

φ(t) = t₊, X_S = ⟨c_S, x⟩, X'_S = ⟨c'_S, x⟩: the sums are the densities of P and P' with respect to
N(0, I). For Y_S = |S|C y, Y'_S = -|S|C y, y ~ N(0, 1), the same expression is H_α(P* ‖ Q*).
Interpolate (Kahane 1985): Z_t = √(1-t) X + √t Y with X and Y independent, f(t) = E φ_η(...) with
φ_η smooth, convex, of bounded slope. Gaussian integration by parts gives

    f'(t) = ½ Σ_{a,b} w_a w_b (Cov Y - Cov X)(a, b) E[φ_η'' exp(Z_a - Var/2) exp(Z_b - Var/2)],

a and b running over all S (w = p_S) and all primed S (w = -α p_S); the terms with φ_η' cancel
against the change of the variances. Of two unprimed or two primed, Cov Y = |S||T|C² ≥ Cov X by
Cauchy-Schwarz, and the weights have equal signs; of one of each, Cov Y = -|S||T|C² ≤ Cov X, and the
signs differ. So no term is negative, f(0) ≤ f(1), and η → 0. ∎

A step of DP-SGD also adds the other records of the batch. They are drawn with the same coins and
have the same clipped gradients in both data sets: given them, both worlds are moved by one vector,
and H_α is jointly convex, so the average over them obeys the same bound. Given all earlier outputs
the u_i are fixed, so the pair dominates each step of an adaptive composition, and the steps'
privacy losses add up (Zhu, Dong, Wang 2022, Theorem 10). Fewer than g records: let the others' u
be 0.

The pair is its own mirror image, so one privacy loss distribution serves both directions. The loss
log(P*/Q*)(x) rises with x, so H at α = e^ε is P*(x > x_ε) - e^ε Q*(x > x_ε).

What it replaces: accounting "J of the group are in the batch" as known (H = E_J δ_Gauss(ε; 2JC/σ))
is valid and far looser, since it amplifies δ and not ε; two moves, all out and all in, cost twice
the ε; and the accounting of one record with noise scaled by √g is no bound at all.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np

from graphdp.errors import GraphDPError
from graphdp.privacy import mirrored_loss

#: A step's chance of more group members in a batch than are followed; it is added to its δ.
_TAIL = 1e-20
#: Chance that the noise of a step is farther out than the grid of losses reaches; added to its δ.
_BEYOND = 1e-18


class Pair:
    """The dominating pair of one step, in units of the noise's standard deviation.

    rate: q in (0, 1]. group_size: g ≥ 1. shift: C / σ > 0, half of what one record can move the
    sum by.
    """

    def __init__(self, rate: float, group_size: int, shift: float):
        from scipy.stats import binom

        if not (0 < rate <= 1 and group_size >= 1 and 0 < shift < math.inf):
            raise GraphDPError(
                f"group of {group_size} at rate {rate}, shift {shift}: give a rate in (0, 1], "
                "a group of at least 1 and a finite shift above 0"
            )
        counts = np.arange(group_size + 1)
        log_chance = binom.logpmf(counts, group_size, rate)
        self._all = counts * shift, log_chance
        # Low counts are never left out: they weigh most where the loss is small.
        kept = counts[binom.sf(counts - 1, group_size, rate) > _TAIL]
        self._means, self._logs = kept * shift, log_chance[kept]
        self._dropped = float(binom.sf(kept[-1], group_size, rate))

    def loss(self, x: np.ndarray) -> np.ndarray:
        """log (P*/Q*)(x) without the counts that are left out; odd and increasing in x."""
        up = self._logs - self._means**2 / 2 + np.multiply.outer(x, self._means)
        down = self._logs - self._means**2 / 2 - np.multiply.outer(x, self._means)
        return _logsumexp(up) - _logsumexp(down)

    def _place(self, epsilons: np.ndarray) -> np.ndarray:
        """x with loss(x) = ε, by bisection between points of a table and Newton steps."""
        top = 1.0
        while self.loss(np.array([top]))[0] < epsilons[-1]:
            top *= 2
        table = np.linspace(0.0, top, 4097)
        losses = self.loss(table)
        x = np.interp(epsilons, losses, table)
        for _ in range(4):
            step = 1e-6 * (1 + x)
            slope = (self.loss(x + step) - self.loss(x - step)) / (2 * step)
            # Under a large shift the loss is flat around 0, where it is 0: x stays there.
            away, move = self.loss(x) - epsilons, np.zeros_like(x)
            x = np.clip(x - np.divide(away, slope, out=move, where=slope > 0), 0.0, top)
        return x

    def delta(self, epsilons: np.ndarray) -> np.ndarray:
        """H at α = e^ε for increasing ε ≥ 0: the hockey-stick divergence, never below the true one
        by more than rounding."""
        from scipy.special import log_ndtr

        epsilons = np.asarray(epsilons, dtype=float)
        x = self._place(epsilons)
        above = _logsumexp(self._logs + log_ndtr(self._means - x[:, None]))
        below = _logsumexp(self._logs + log_ndtr(-self._means - x[:, None]))
        gap = np.exp(above) - np.exp(np.minimum(epsilons + below, above))
        return np.clip(gap + self._dropped, 0.0, 1.0)

    def chance_above(self, losses: np.ndarray) -> np.ndarray:
        """P*(loss > l) for l = -losses[::-1] and then losses[1:], increasing from 0: (2k - 1,)."""
        from scipy.special import log_ndtr

        x = self._place(np.asarray(losses, dtype=float))
        x = np.concatenate([-x[:0:-1], x])
        return np.exp(_logsumexp(self._logs + log_ndtr(self._means - x[:, None])))

    def largest_loss(self) -> float:
        """A loss that P* exceeds with a chance of at most `_BEYOND`, counts left out aside."""
        from scipy.special import log_ndtr

        x = np.linspace(0.0, float(self._means[-1]) + 10.0, 2001)
        above = _logsumexp(self._logs + log_ndtr(self._means - x[:, None]))
        inside = np.flatnonzero(above <= math.log(_BEYOND))
        return float(self.loss(x[inside[:1]])[0])

    def renyi(self, order: float) -> float:
        """Rényi divergence of P* from Q* of an order above 1, by the trapezoidal rule, which for
        such integrands converges faster than any power of the step."""
        means, logs = self._all
        high = (2 * order - 1) * float(means[-1]) + 12.0
        low = -float(means[-1]) - 12.0
        x, step = np.linspace(low, high, max(2001, math.ceil((high - low) * 20)), retstep=True)
        values = np.empty(x.size)
        for start in range(0, x.size, 4096):  # bounds the working memory for large groups
            part = x[start : start + 4096, None]
            up = _logsumexp(logs - (part - means) ** 2 / 2)
            down = _logsumexp(logs - (part + means) ** 2 / 2)
            values[start : start + 4096] = order * up + (1 - order) * down
        total = float(_logsumexp(values)) + math.log(step / math.sqrt(2 * math.pi))
        return max(total / (order - 1), 0.0)  # in this order, in which nan stays one


def _logsumexp(values: np.ndarray) -> np.ndarray:
    top = values.max(axis=-1, keepdims=True)
    with np.errstate(under="ignore"):
        return np.log(np.exp(values - top).sum(axis=-1)) + top[..., 0]


@lru_cache(maxsize=64)
def privacy_loss(
    rate: float, group_size: int, shift: float, interval: float, pessimistic: bool = True
) -> Any:
    """The privacy loss distribution of one step, as dp-accounting's `PrivacyLossDistribution`.

    By `mirrored_loss`; not pessimistic for audits. Arguments as `Pair`; interval: width of the grid
    of losses.
    """
    pair = Pair(rate, group_size, shift)
    if not pessimistic:
        return mirrored_loss.rounded_down(pair.chance_above, pair.largest_loss(), interval)
    return mirrored_loss.rounded_up(pair.delta, pair.largest_loss(), interval)
