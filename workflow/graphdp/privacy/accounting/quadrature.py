"""Accounting by Rényi divergences that no library computes: the cross-check of groups, and claims
that are published at orders of their own."""

from collections.abc import Callable, Sequence
from functools import cache

from graphdp.errors import GraphDPError
from graphdp.privacy.accounting.orders import converted, smallest_over_orders
from graphdp.privacy.plan import Composition

#: Few, since the check allows this accountant to be the looser one.
_ORDERS = tuple(1 + 2 ** (i / 4) for i in range(-16, 29))


def renyi_rdp_curve(composition: Composition, noise: float) -> Callable[[float], float]:
    """RDP(order), for orders above 1; all terms must be known to "renyi"."""
    curves = [term.renyi(noise) for term in composition.terms]
    return cache(lambda order: sum(curve(order) for curve in curves))


def renyi_epsilon(
    composition: Composition, noise: float, delta: float, orders: Sequence[float] = _ORDERS
) -> float:
    """ε at `delta`."""
    return renyi_parts_epsilon([(composition, noise)], delta, orders)


def published_parts_epsilon(parts: Sequence[tuple[Composition, float]], delta: float) -> float:
    """ε at `delta` of releases with a noise multiplier each, at orders that all of them name."""
    named = [set(term.orders) for composition, _ in parts for term in composition.terms]
    return renyi_parts_epsilon(parts, delta, sorted(set.intersection(*named)))


def renyi_parts_epsilon(
    parts: Sequence[tuple[Composition, float]], delta: float, orders: Sequence[float]
) -> float:
    """ε at `delta` of releases with a noise multiplier each."""
    curves = [renyi_rdp_curve(composition, noise) for composition, noise in parts]

    def rdp(order: float) -> float:
        return sum(curve(order) for curve in curves)

    def epsilon_at(order: float) -> float:
        return converted(rdp(order), order, delta)

    return max(0.0, smallest_over_orders(epsilon_at, orders)[0])


def renyi_delta(composition: Composition, noise: float, epsilon: float) -> float:
    """Always a GraphDPError."""
    raise GraphDPError("Rényi divergences by quadrature give ε(δ) only; use pld for δ(ε)")
