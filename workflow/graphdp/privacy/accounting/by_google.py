"""Accounting by Google's dp-accounting: Rényi DP, and privacy loss distributions."""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from graphdp.errors import GraphDPError
from graphdp.privacy.accounting.orders import WHOLE_ORDERS, smallest_over_orders
from graphdp.privacy.mechanisms.base import Steps
from graphdp.privacy.plan import Composition

#: Width of a bin of the privacy loss distribution. Rounding is pessimistic: a wide bin costs
#: tightness, never validity (below 0.1 % for up to some ten thousand steps; of 100,000 small ones
#: up to a fifth, where Rényi DP reads less). A small ε is read with narrower bins.
PLD_INTERVAL = 1e-3
#: An ε of fewer bins than this is read again with bins a sixteenth as wide.
_PLD_BINS = 500
_LEAST_INTERVAL = 1.6e-8  # narrower still, divergences round off more than a bin holds
#: Below this noise multiplier ε is in the hundreds and the distribution takes minutes.
PLD_LEAST_NOISE = 0.1
#: The composition of so many steps may leave out this much of their mass; it counts as δ.
_PLD_TRUNCATION = 1e-15
#: What the Fourier transforms of a composed distribution are taken to round off δ, for each step:
#: 2.7 times the most that was seen (1.44 · 2⁻⁵², by tilted transforms). Not proven.
_ROUNDING = 2.0**-50
#: A δ below so many times that is refused: so near to it ε does not fall steadily with the noise.
_RESOLVED = 4
#: For less than this share of δ there is room in `calibration.SAFETY`.
_ROUNDED_SHARE = 1e-6
#: Below this share a quarter counts: what was seen exceeds that by at most 1.1e-5 of δ, and ε, if
#: ε |d ln δ / dε| is 20 or more (2 ln 1/δ of a Gaussian), by 6e-7 of itself: room as above. Where
#: that is less, at a small ε and a large δ, the bins were seen to overstate ε by more (1.7e-6).
_SMALL_SHARE = 1e-4
#: Releases of one noise multiplier each.
Parts = Sequence[tuple[Composition, float]]


def _event(composition: Composition, noise: float) -> Any:
    from dp_accounting import DpEventBuilder

    builder = DpEventBuilder()
    for term in composition.terms:
        for event, count in term.events(noise):
            builder.compose(event, count)
    return builder.build()


def _rdp(parts: Parts, orders: Sequence[float]) -> Any:
    from dp_accounting import NeighboringRelation
    from dp_accounting.rdp import RdpAccountant

    # What names no relation, such as plain Gaussian releases, reads the same under either.
    named = {term.relation for composition, _ in parts for term in composition.terms} - {""}
    relation = NeighboringRelation[named.pop().upper() if named else "ADD_OR_REMOVE_ONE"]
    total = RdpAccountant(orders, relation)
    for composition, noise in parts:
        total.compose(_event(composition, noise))
    return total


def google_rdp_curve(composition: Composition, noise: float, order: float) -> float:
    """RDP(order) by dp-accounting, for an order above 1."""
    return float(_rdp([(composition, noise)], [order])._rdp[0])


def google_rdp_epsilon(
    composition: Composition, noise: float, delta: float, orders: Sequence[float] = WHOLE_ORDERS
) -> tuple[float, float]:
    """ε at `delta` by dp-accounting's Rényi DP over `orders`, and the order that gives it."""
    return google_parts_epsilon([(composition, noise)], delta, orders)


def google_parts_epsilon(
    parts: Parts, delta: float, orders: Sequence[float] = WHOLE_ORDERS
) -> tuple[float, float]:
    """As `google_rdp_epsilon`, for releases with a noise multiplier each."""

    def epsilon_at(order: float) -> float:
        try:
            total = _rdp(parts, [order])
        except ValueError:
            # Where 1 / noise² is lost beside 1, its bound without replacement takes the log of 0.
            return math.inf
        # Of what is no number it would make an ε of 0.
        return float(total.get_epsilon(delta)) if math.isfinite(total._rdp[0]) else math.inf

    return smallest_over_orders(epsilon_at, orders)


def google_rdp_delta(composition: Composition, noise: float, epsilon: float) -> float:
    """δ at `epsilon` by dp-accounting's Rényi DP."""
    # dp-accounting also bounds δ by the KL divergence, a second valley: so all orders at once, up
    # to where that takes a fifth of a second (leaving orders out only loosens a tiny ε).
    orders = [order for order in WHOLE_ORDERS if order <= 256]
    return float(_rdp([(composition, noise)], orders).get_delta(epsilon))


def pld_epsilon(composition: Composition, noise: float, delta: float) -> float:
    """ε at `delta` by privacy loss distributions."""
    if not _has_events(composition):
        return pld_parts_epsilon([(composition, noise)], delta)
    exact = _without_rounding([(composition, noise)], delta)
    return _refined(
        lambda interval: float(_library_pld(composition, noise, interval).get_epsilon(exact))
    )


def pld_delta(composition: Composition, noise: float, epsilon: float) -> float:
    """δ at `epsilon` by privacy loss distributions."""
    interval = PLD_INTERVAL
    while 0 < epsilon < _PLD_BINS * interval and interval > _LEAST_INTERVAL:
        interval /= 16
    if _has_events(composition):
        found = float(_library_pld(composition, noise, interval).get_delta(epsilon))
    else:
        found = float(parts_pld([(composition, noise)], interval).get_delta_for_epsilon(epsilon))
    return min(1.0, max(0.0, found) + _rounded_off([(composition, noise)], found))


def pld_parts_epsilon(parts: Parts, delta: float) -> float:
    """ε at `delta` of releases with a noise multiplier each, by `parts_pld`.

    Raises GraphDPError where `delta` is too near to what its transforms may round off.
    """
    exact = _without_rounding(parts, delta)
    return _refined(lambda interval: float(parts_pld(parts, interval).get_epsilon_for_delta(exact)))


def pld_resolves(composition: Composition, delta: float) -> bool:
    """Whether `delta` is well above what the transforms of a composition may round off."""
    return _RESOLVED * _rounded_off([(composition, 1.0)], delta) <= delta


def _without_rounding(parts: Parts, delta: float) -> float:
    rounding = _rounded_off(parts, delta)
    if _RESOLVED * rounding > delta:
        raise GraphDPError(
            f"δ = {delta:g} is too near to what the composition of so many steps may round off, "
            f"{rounding:.2g}: give at least {_RESOLVED} times that, or fewer steps"
        )
    return delta - rounding


def _rounded_off(parts: Parts, delta: float) -> float:
    """What the composition of many steps may have rounded off a δ, where that matters to it.

    The transform of one step is taken to the power of their number, and its relative rounding
    error with it: over all losses that is a δ of `_ROUNDING` a step, or for a δ so much larger a
    quarter of that.
    """
    terms = [term for composition, _ in parts for term in composition.terms]
    counts = [count for term in terms if isinstance(term, Steps) for _, count in term.steps]
    rounding = _ROUNDING * sum(count for count in counts if count > 1)
    if rounding <= _SMALL_SHARE * delta:
        rounding /= 4
    return rounding if rounding > _ROUNDED_SHARE * delta else 0.0


def _refined(epsilon_with: Callable[[float], float]) -> float:
    """ε from bins of `PLD_INTERVAL`, or from as much narrower ones as a small ε needs.

    Every width gives an upper bound (of a δ that rounding has been taken from), so the smallest of
    them holds.
    """
    interval = PLD_INTERVAL
    found = epsilon_with(interval)
    while 0 < found < _PLD_BINS * interval and interval > _LEAST_INTERVAL:
        interval /= 16
        found = min(found, epsilon_with(interval))
    return found


@lru_cache(maxsize=8)  # ε at many δ is read from one
def _parts_pld(parts: tuple[tuple[Composition, float], ...], interval: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as distribution

    total = distribution.identity(interval)
    for composition, noise in parts:
        _check_noise(composition, noise)
        for term in reversed(composition.terms):  # the largest distribution first
            for step, count in term.loss_distributions(noise, interval):
                if count > 1:
                    step = step.self_compose(count, _PLD_TRUNCATION)
                total = total.compose(step, _PLD_TRUNCATION)
    return total


def parts_pld(parts: Parts, interval: float = PLD_INTERVAL) -> Any:
    """The privacy loss distribution of releases with a noise multiplier each, in bins of a width.

    Returns dp-accounting's `PrivacyLossDistribution`. Raises GraphDPError for a noise below
    `PLD_LEAST_NOISE`. All terms must be known to "pld".
    """
    return _parts_pld(tuple(parts), interval)


def _has_events(composition: Composition) -> bool:
    return all("dp_accounting" in term.accountants for term in composition.terms)


@lru_cache(maxsize=8)
def _library_pld(composition: Composition, noise: float, interval: float = PLD_INTERVAL) -> Any:
    from dp_accounting.pld import PLDAccountant

    _check_noise(composition, noise)
    accountant = PLDAccountant(value_discretization_interval=interval)
    return accountant.compose(_event(composition, noise))


def _check_noise(composition: Composition, noise: float) -> None:
    if noise < PLD_LEAST_NOISE:
        renyi = all("autodp" in term.accountants for term in composition.terms)
        raise GraphDPError(
            f"noise multiplier {noise:g} is too small for the pld accountant, whose tables grow "
            f"with the privacy loss: below {PLD_LEAST_NOISE:g} it takes minutes; ask for a smaller "
            f"epsilon{', or for accountant auto' if renyi else ''}"
        )
