"""Accounting of Gaussians whose shift, in units of their noise, is random and known.

Given the sum S of the squared shifts everything is one Gaussian release, so that δ(ε) is the
average of its δ(ε; √S) over S. It rises with S, so S is rounded up to a grid.
"""

from collections.abc import Sequence

from graphdp.privacy.plan import Composition

#: Releases of one noise multiplier each.
Parts = Sequence[tuple[Composition, float]]
#: The grid of S reaches so many times as far as where the δ at hand is decided.
_REACH = 20.0


def mixture_epsilon(composition: Composition, noise: float, delta: float) -> float:
    """ε at `delta`."""
    return mixture_parts_epsilon([(composition, noise)], delta)


def mixture_parts_epsilon(parts: Parts, delta: float) -> float:
    """ε at `delta` of releases with a noise multiplier each, all known to "mixture"."""
    from scipy.optimize import brentq

    from graphdp.privacy import symmetric_laplace

    # S is above x with a chance of about E[squares] / x, x large.
    decided = sum(term.mean_square(noise) for composition, noise in parts
                  for term in composition.terms) / delta  # fmt: skip
    width = _REACH * decided / symmetric_laplace.SIZE
    law = _law(parts, width)

    def excess(epsilon: float) -> float:
        return symmetric_laplace.mixture_delta(law, width, epsilon) / delta - 1

    if excess(0.0) <= 0:
        return 0.0
    high = decided
    while excess(high) > 0:
        high *= 2
        if high > 1e3 * decided:
            return float("inf")
    found = float(brentq(excess, 0.0, high, xtol=1e-7 * high))
    while excess(found) > 0:
        found *= 1 + 1e-6
    return found


def mixture_delta(composition: Composition, noise: float, epsilon: float) -> float:
    """δ at `epsilon` ≥ 0."""
    from graphdp.privacy import symmetric_laplace

    # Up to S of 2ε a Gaussian's loss is seldom above ε; beyond 40 times that nearly always.
    width = 80 * max(epsilon, 0.1) / symmetric_laplace.SIZE
    return symmetric_laplace.mixture_delta(_law([(composition, noise)], width), width, epsilon)


def _law(parts: Parts, width: float):
    from graphdp.privacy import symmetric_laplace

    squares = [
        one
        for composition, noise in parts
        for term in composition.terms
        for one in term.squares(noise, width)
    ]
    return symmetric_laplace.sum_of(squares)
