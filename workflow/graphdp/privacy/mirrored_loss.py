"""Privacy loss distributions of pairs that are their own mirror image, on dp-accounting's grid.

Such a pair's two directions have one distribution of the loss: H(e^-ε) = 1 - e^-ε + e^-ε H(e^ε).
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

#: The grid of losses is this fine (in intervals) around 0 and 16 times coarser farther out.
_FINE, _COARSE = 4096, 16


def rounded_up(
    delta: Callable[[np.ndarray], np.ndarray], largest_loss: float, interval: float
) -> Any:
    """From the hockey-stick divergences of a pair, as dp-accounting's `PrivacyLossDistribution`.

    The line through the divergences at the grid's points lies above the true ones ("connect the
    dots", Doroshenko et al. 2022), and what lies beyond `largest_loss` counts as δ.

    delta: H(e^ε) at an array of ε ≥ 0. interval: width of the grid of losses.
    """
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    last = max(1, math.ceil(largest_loss / interval))
    grid = np.arange(min(last, _FINE) + 1)
    if last > _FINE:
        far = np.arange(_FINE + _COARSE, last + 2 * _COARSE, _COARSE)
        grid = np.concatenate([grid, far])
    deltas = np.minimum.accumulate(delta(grid * interval))
    shrink = np.exp(-grid[:0:-1] * interval)
    mirrored = -np.expm1(-grid[:0:-1] * interval) + shrink * deltas[:0:-1]
    places = np.concatenate([-grid[:0:-1], grid])
    values = np.clip(np.concatenate([mirrored, deltas]), 0.0, 1.0)
    values = np.minimum.accumulate(values)
    return PrivacyLossDistribution(
        pld_pmf.create_pmf_pessimistic_connect_dots(interval, places, values)
    )


def rounded_down(
    chance_above: Callable[[np.ndarray], np.ndarray], largest_loss: float, interval: float
) -> Any:
    """As `rounded_up`, for audits: losses are rounded down to the grid, so that no δ is above the
    true one by more than rounding.

    chance_above: in the first of the pair, at an array of n losses from 0 on, of a loss above each
    of these and of their mirror images: (2n - 1,), from the lowest loss up.
    """
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    last = max(1, math.ceil(largest_loss / interval))
    # What lies beyond the last point counts as if it were there; below the first, not at all.
    chances = -np.diff(np.append(chance_above(np.arange(last + 1) * interval), 0.0))
    return PrivacyLossDistribution(
        pld_pmf.DensePLDPmf(interval, -last, np.maximum(chances, 0.0), 0.0, False)
    )
