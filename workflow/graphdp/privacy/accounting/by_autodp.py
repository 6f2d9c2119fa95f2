"""Accounting by autodp: Rényi DP, and the exact composition of Gaussian releases."""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

from graphdp.privacy.accounting.orders import RDP_ORDERS, smallest_over_orders
from graphdp.privacy.plan import Composition


@lru_cache(maxsize=64)
def autodp_rdp_curve(composition: Composition, noise: float) -> Callable[[float], float]:
    """RDP(order) of a composition, from what its terms say of themselves.

    noise: finite and above 0. All terms must be known to "autodp".
    """
    curves, moments = [], []
    for term in composition.terms:
        moment = term.log_moment(noise)
        if moment is None:
            curves.append(term.rdp(noise))
        else:
            moments.append(moment)

    def rdp(order: float) -> float:
        whole = sum(curve(order) for curve in curves)
        return whole + sum(moment(order) for moment in moments) / (order - 1)

    return rdp


def autodp_rdp_epsilon(
    composition: Composition, noise: float, delta: float, orders: Sequence[float] = RDP_ORDERS
) -> tuple[float, float]:
    """ε at `delta` by autodp's Rényi DP over `orders`, and the order that gives it."""
    rdp = autodp_rdp_curve(composition, noise)

    def epsilon_at(order: float) -> float:
        # autodp's own conversion, at fixed orders in place of its local search over real orders,
        # so that the result can be repeated by other tools.
        divergence = rdp(order) + math.log1p(-1 / order)
        return divergence - (math.log(delta) + math.log(order)) / (order - 1)

    value, order = smallest_over_orders(epsilon_at, orders)
    return max(value, 0.0), order


def autodp_rdp_delta(composition: Composition, noise: float, epsilon: float) -> float:
    rdp = autodp_rdp_curve(composition, noise)

    def log_delta_at(order: float) -> float:
        divergence = rdp(order) + math.log1p(-1 / order)
        return (order - 1) * (divergence - epsilon) - math.log(order)

    return math.exp(min(smallest_over_orders(log_delta_at, RDP_ORDERS)[0], 0.0))


def autodp_epsilon(composition: Composition, noise: float, delta: float) -> float:
    if not composition.is_gaussian:
        return autodp_rdp_epsilon(composition, noise, delta)[0]
    from autodp.mechanism_zoo import ExactGaussianMechanism
    from autodp.transformer_zoo import ComposeGaussian

    step = ExactGaussianMechanism(noise)
    return float(ComposeGaussian()([step], [composition.gaussian]).get_approxDP(delta))


def autodp_delta(composition: Composition, noise: float, epsilon: float) -> float:
    if not composition.is_gaussian:
        return autodp_rdp_delta(composition, noise, epsilon)
    # ComposeGaussian overrides only ε(δ) with the exact value, so δ(ε) comes from its formula.
    from autodp.dp_bank import get_logdelta_ana_gaussian

    mu = math.sqrt(composition.gaussian) / noise
    log_delta = get_logdelta_ana_gaussian(1 / mu, epsilon)
    return float(math.exp(log_delta))
