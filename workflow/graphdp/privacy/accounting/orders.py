"""Rényi orders, and the search over them for the smallest ε."""

import math
from collections.abc import Callable, Sequence


def _rdp_orders() -> tuple[float, ...]:
    orders = [i / 20 for i in range(40, 200)] + [i / 4 for i in range(40, 160)]
    orders += map(float, range(40, 257))
    while orders[-1] < 8192:
        orders.append(min(8192.0, orders[-1] + orders[-1] // 64))
    return tuple(orders)


#: Rényi orders of autodp. Dense where a large ε is decided (ε = 8 sits near order 4, where whole
#: orders alone cost 1 % of ε), high orders for small ε. None below 2, where autodp's amplified
#: steps know nothing better than order 2.
RDP_ORDERS = _rdp_orders()
RDP_ORDERS_TEXT = "2 to 10 by 0.05, to 40 by 0.25, to 256 by 1, then about 1.5 % apart up to 8192"
#: The orders of dp-accounting, and of the cross-check: both libraries compute the subsampled
#: Gaussian exactly at whole orders. In between autodp interpolates the moments (an upper bound).
WHOLE_ORDERS = tuple(order for order in RDP_ORDERS if order.is_integer())
#: How an RDP curve becomes ε(δ), for the statements.
RDP_CONVERSION = "Balle et al. 2020, Theorem 21; Canonne, Kamath, Steinke 2020, Proposition 12"


def converted(divergence: float, order: float, delta: float) -> float:
    """The ε at `delta` of a Rényi divergence at an order (`RDP_CONVERSION`); may be negative."""
    return divergence + math.log1p(-1 / order) - math.log(delta * order) / (order - 1)


def smallest_over_orders(
    value_at: Callable[[float], float], orders: Sequence[float]
) -> tuple[float, float]:
    """The smallest value of a one-valleyed function over increasing `orders`, and its order.

    Both conversions have one valley: with g(α) = (α - 1)·RDP(α) convex (a log-moment, or its
    interpolation), δ at order α is log-convex, and (α - 1)·ε(α) = g(α) + (α - 1)ln(1 - 1/α) - ln α
    - ln δ is convex, so its ratio to α - 1 has one valley. So each library's slow moments are
    computed at some 15 orders in place of 700. A miss could only give a larger, still valid, bound.
    """
    values: dict[int, float] = {}

    def value(index: int) -> float:
        if index not in values:
            found = value_at(orders[index])
            # No number is no bound: a comparison, or a largest of it and 0, would pass it over.
            values[index] = math.inf if math.isnan(found) else found
        return values[index]

    last = len(orders) - 1
    # Gallop up from the cheap low orders until the values no longer fall...
    low, step = 0, 1
    while low + step <= last and value(low + step) < value(low):
        low, step = low + step, 2 * step
    low, high = low - step // 2, min(last, low + step)
    # ...then halve the stretch that holds the valley.
    while low < high:
        middle = (low + high) // 2
        if value(middle + 1) < value(middle):
            low = middle + 1
        else:
            high = middle
    return value(low), orders[low]


def conversion_floor(delta: float, order: float = RDP_ORDERS[-1]) -> float:
    """The ε at `delta` of releases that lose nothing at any order up to the highest, `order`: no
    noise gets below it."""
    return max(0.0, converted(0.0, order, delta))
