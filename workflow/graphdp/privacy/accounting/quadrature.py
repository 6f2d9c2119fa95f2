"""Accounting by Rényi divergences that no library computes: the cross-check of groups."""

import math
from collections.abc import Callable
from functools import cache

from graphdp.errors import GraphDPError
from graphdp.privacy.accounting.orders import smallest_over_orders
from graphdp.privacy.plan import Composition

#: Few, since the check allows this accountant to be the looser one.
_ORDERS = tuple(1 + 2 ** (i / 4) for i in range(-16, 29))


def renyi_rdp_curve(composition: Composition, noise: float) -> Callable[[float], float]:
    """RDP(order), for orders above 1; all terms must be known to "renyi"."""
    curves = [term.renyi(noise) for term in composition.terms]
    return cache(lambda order: sum(curve(order) for curve in curves))


def renyi_epsilon(composition: Composition, noise: float, delta: float) -> float:
    """ε at `delta`."""
    rdp = renyi_rdp_curve(composition, noise)

    def epsilon_at(order: float) -> float:
        return rdp(order) + math.log1p(-1 / order) - math.log(delta * order) / (order - 1)

    return max(0.0, smallest_over_orders(epsilon_at, _ORDERS)[0])


def renyi_delta(composition: Composition, noise: float, epsilon: float) -> float:
    """Always a GraphDPError."""
    raise GraphDPError("accountant renyi gives ε(δ) only; use pld for δ(ε)")
