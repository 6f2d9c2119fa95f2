"""The closed form: Gaussian releases alone."""

import math
from typing import Any


def gaussian_delta(mu: float, epsilon: float) -> float:
    """δ(ε) of a Gaussian mechanism with sensitivity / noise std = `mu` > 0, at `epsilon` ≥ 0.

    Φ(a) - e^ε Φ(b) with a = μ/2 - ε/μ and b = -μ/2 - ε/μ (Balle and Wang 2018, Theorem 8), to a
    relative error below 1e-9. Since b² - a² = 2ε, both terms share the factor exp(-a²/2), which
    taken out leaves a difference of scaled error functions that cannot underflow.
    """
    from scipy.special import erfcx, ndtr

    a = mu / 2 - epsilon / mu
    b = -mu / 2 - epsilon / mu
    half_tail = 0.5 * math.exp(-a * a / 2)
    second = half_tail * erfcx(-b / math.sqrt(2))
    first = half_tail * erfcx(-a / math.sqrt(2)) if a < 0 else ndtr(a)
    return max(0.0, float(first - second))


def gaussian_deltas(mu: Any, epsilon: Any) -> Any:
    """`gaussian_delta` of arrays of μ > 0 and ε that broadcast, float64."""
    import numpy as np
    from scipy.special import erfcx, ndtr

    a, b = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    half = 0.5 * np.exp(-np.minimum(a * a, 1400.0) / 2)  # above the smallest floats
    first = np.where(a < 0, half * erfcx(np.maximum(-a, 0.0) / math.sqrt(2)), ndtr(a))
    return np.maximum(first - half * erfcx(-b / math.sqrt(2)), 0.0)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest ε ≥ 0 with `gaussian_delta(mu, ε)` ≤ delta (relative error below 1e-9)."""
    from scipy.optimize import brentq

    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0

    def excess(epsilon: float) -> float:
        # In logarithms, where the tail is nearly linear; an underflow is far below any δ.
        return math.log(max(gaussian_delta(mu, epsilon), 1e-320)) - math.log(delta)

    # ε ≤ μ²/2 + μ √(2 ln 1/δ): the Rényi bound μ²α/2 + ln(1/δ)/(α - 1) at its best order.
    upper = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta))
    if upper == math.inf:
        return math.inf
    return float(brentq(excess, 0.0, upper, xtol=1e-14 * upper, rtol=1e-14))
