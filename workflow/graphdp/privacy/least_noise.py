"""The search for the least noise: along an accountant's ε, which falls as the noise grows."""

import math
from collections.abc import Callable

from graphdp.errors import GraphDPError
from graphdp.privacy import accounting
from graphdp.privacy.plan import Plan

#: Relative width of the bracket in which the noise multiplier is found.
TOLERANCE = 1e-5
#: Noise multipliers outside this range mean that the target cannot be met in earnest.
_LEAST_NOISE, _MOST_NOISE = 1e-6, 1e9
#: Binary digits that all processors find alike (`rounded_up`).
_BITS = 24


def smallest_noise(
    epsilon_at: Callable[[float], float],
    aim: float,
    what: str,
    stride: float = 4.0,
    start: float = 1.0,
) -> float:
    """The least noise with ε ≤ `aim`, from the private side: within 1 + `TOLERANCE` of it.

    epsilon_at: the ε that is read at a noise multiplier. what: whose, for messages. stride: factor
    by which the noise goes up or down from `start` until it brackets the root. Raises GraphDPError
    where the aim is met by no noise in earnest.
    """
    from scipy.optimize import brentq

    high, read = start, {}
    while epsilon_at(high) > aim:
        read[high] = epsilon_at(high)
        high *= stride
        if high > _MOST_NOISE:
            raise GraphDPError(f"{what}: epsilon {aim:.4g} {_out_of_reach(read)}")
    low = high / stride
    while epsilon_at(low) <= aim:
        high, low = low, low / stride
        if low < _LEAST_NOISE:
            raise GraphDPError(
                f"{what}: epsilon {aim:.4g} needs a noise multiplier below {_LEAST_NOISE:g}; "
                f"ask for a smaller epsilon, or inf for no noise"
            )
    # ε is close to a power of the noise, so the root is found in logarithms. A noise that reads
    # ε = 0 counts as far below the aim.
    root = math.exp(
        brentq(
            lambda x: math.log(max(epsilon_at(math.exp(x)), 1e-12) / aim),
            math.log(low),
            math.log(high),
            xtol=TOLERANCE / 4,
        )
    )
    # brentq may stop on either side of the root: step to the private one.
    while epsilon_at(root) > aim:
        root *= 1 + TOLERANCE / 4
    return root


def _out_of_reach(read: dict[float, float]) -> str:
    """Why no noise was found, from the ε that was read at each noise."""
    least = min(read.values())
    if least < 0.5 * min(read[noise] for noise in read if noise < _MOST_NOISE / 1000):
        return f"needs a noise multiplier above {_MOST_NOISE:g}; raise epsilon or delta"
    return (
        f"is out of reach: its accountant's numbers round off where it reads {least:.3g}, and more "
        "noise does not help; raise epsilon or delta"
    )


def rounded_up(noise: float) -> float:
    """The least number of `_BITS` binary digits that is not below `noise`: by 1.2e-7 at most."""
    fraction, exponent = math.frexp(noise)
    return math.ldexp(math.ceil(math.ldexp(fraction, _BITS)), exponent - _BITS)


def sketched_noise(plan: Plan, aim: float, delta: float, start: float = 1.0) -> float:
    """The least noise of a plan's sketch, which is quick to account and near that of the plan."""
    stride = min(term.stride for term in plan.composition.terms)
    return smallest_noise(
        lambda x: accounting.sketched_epsilon(plan, x, delta),
        aim,
        f"{plan.method}, {plan.level} level",
        stride,
        start,
    )
