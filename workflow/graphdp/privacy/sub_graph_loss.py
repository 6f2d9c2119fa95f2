"""Privacy loss of a round of `graphdp.privacy.sub_graphs`: curves, distributions, divergences.

In a pair P* = Σ P(a) N(a s), Q* = Σ P(a') N(-a' s) (noise of standard deviation 1, s = C / 2σ) the
loss log(P*/Q*)(x) rises with x. So H at α = e^loss(x) is P*(X > x) - α Q*(X > x), which is exact at
the points of a grid of x. Between them H, convex in α, lies below its chord.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from graphdp.privacy.sub_graph_step import BOTH, KNOWN, REVEALED, Step
from graphdp.privacy.sub_graphs import Laws, laws

#: Distance of the points x, in standard deviations of the noise.
_SPACING = 0.04
#: Points beyond the outermost mean: the noise is farther out with chance 1e-17.
_REACH = 8.5
#: Points at which a curve is kept.
_PLACES = 2500
#: Levels rarer than this have few places of their own.
_OFTEN = 1e-4
#: Beyond this order a Rényi divergence counts as infinite: few multiplicities would decide it.
_HIGHEST_ORDER = 64
#: e^loss is a number up to this loss.
_LARGEST_LOSS = 700.0
#: Levels whose curves are read together.
_LEVELS = 64
#: Added to every H for rounding: relative to 1 its terms are exact to 1e-16.
_ROUNDING = 1e-15


class Nodes(NamedTuple):
    """A pair's curve where it is exact: losses, and H at them, (points, levels), losses rising."""

    losses: np.ndarray
    values: np.ndarray


def nodes(its: Laws, shift: float) -> tuple[Nodes, Nodes]:
    """H(P* ‖ Q*) and H(Q* ‖ P*) of each level. shift: s, C / 2σ."""
    from scipy.special import ndtr

    means = np.arange(its.up.shape[0]) * shift
    lowest = -means[int(np.flatnonzero(its.down.any(axis=1))[-1])]
    points = np.arange(lowest - _REACH, means[-1] + _REACH + _SPACING, _SPACING)
    log_up, log_down = _log_ratio(points, means, its.up), _log_ratio(-points, means, its.down)
    losses = np.maximum.accumulate(log_up - log_down, axis=0)
    above = ndtr(means - points[:, None]) @ its.up, ndtr(-means - points[:, None]) @ its.down
    below = ndtr(points[:, None] - means) @ its.up, ndtr(points[:, None] + means) @ its.down
    # A smaller α, where e^loss is no number, makes the bound larger.
    leaving = above[0] - np.exp(np.minimum(losses, _LARGEST_LOSS)) * above[1]
    entering = below[1] - np.exp(np.minimum(-losses, _LARGEST_LOSS)) * below[0]
    return (
        Nodes(losses, np.clip(leaving, 0.0, 1.0)),
        Nodes(-losses[::-1], np.clip(entering[::-1], 0.0, 1.0)),
    )


def _log_ratio(points: np.ndarray, means: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """log Σ P(a) N(x; a s) / N(x; 0), (points, levels)."""
    exponents = np.multiply.outer(points, means) - means**2 / 2
    top = exponents.max(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        found = top + np.log(np.exp(exponents - top) @ chances)
    # A level without the count that is largest at a point may have underflowed there.
    for level in np.flatnonzero(np.isinf(found).any(axis=0)):
        own = np.flatnonzero(chances[:, level])
        top = exponents[:, own].max(axis=1)
        rest = np.exp(exponents[:, own] - top[:, None]) @ chances[own, level]
        found[:, level] = top + np.log(rest)
    return found


def _at(places: np.ndarray, losses: np.ndarray, values: np.ndarray) -> np.ndarray:
    """A bound on H at `places` (ε) from its nodes: chords in α, from H = 1 at α = 0."""
    if max(losses[-1], places[-1]) < _LARGEST_LOSS:  # α is a number
        alphas = np.append(0.0, np.exp(losses))
        return np.interp(np.exp(places), alphas, np.append(1.0, values))
    index = np.searchsorted(losses, places, side="right") - 1
    inside = np.clip(index, 0, losses.size - 2)
    low, width = losses[inside], np.diff(losses)[inside]
    with np.errstate(all="ignore"):
        share = np.where(width > 0, np.expm1(places - low) / np.expm1(width), 0.0)
        found = values[inside] + np.clip(share, 0.0, 1.0) * (values[inside + 1] - values[inside])
        first = 1 + np.exp(np.minimum(places - losses[0], 0.0)) * (values[0] - 1)
    found = np.where(index < 0, first, found)
    return np.where(index >= losses.size - 1, values[-1], found)


class Curves(NamedTuple):
    """H of a round at e^(places * interval), (places,), for the node leaving and entering."""

    places: np.ndarray
    leaving: np.ndarray
    entering: np.ndarray


@lru_cache(maxsize=8)
def curves(step: Step, shift: float, interval: float) -> Curves:
    """The largest H over all numbers of lists, at places that suit either direction.

    Raises GraphDPError for a rate outside (0, 1].
    """
    parts = [step._replace(analysis=one) for one in (KNOWN, REVEALED)]
    parts = parts if step.analysis == BOTH else [step]
    its = [laws(part) for part in parts]
    found = [nodes(one, shift) for one in its]
    places = np.unique(
        np.concatenate(
            [_places(one, *pair, interval) for one, pair in zip(its, found, strict=True)]
        )
    )
    best = None
    for one, pair in zip(its, found, strict=True):
        values = [_largest(one, direction, places * interval) for direction in pair]
        best = values if best is None else list(map(np.minimum, best, values))
    if len(parts) > 1:  # the true curve is convex and below both, so below the convex hull
        best = [_hull(places * interval, values) for values in best]
    return Curves(places, *best)


def _places(its: Laws, leaving: Nodes, entering: Nodes, interval: float) -> np.ndarray:
    """Multiples of the interval where losses lie, as many as are kept, most of them of levels that
    are not rare."""
    heaviest = its.weights.max(axis=0)
    often, seldom = np.flatnonzero(heaviest > _OFTEN), np.flatnonzero(heaviest <= _OFTEN)
    losses = []
    for levels, thinned in (
        (often[:: -(-often.size // 16)], 1),
        (seldom[:: 1 + seldom.size // 8], 8),
    ):
        for level in levels:
            # Beyond these the one curve or the other is a straight line.
            bent = np.minimum(leaving.values[:, level], entering.values[::-1, level]) > _ROUNDING
            found = leaving.losses[bent, level]
            losses.append(np.append(found[::thinned], found[-1:]))
    found = np.unique(np.rint(np.concatenate(losses) / interval).astype(np.int64))
    found = np.union1d(found, -found)
    kept = np.unique(np.linspace(0, found.size - 1, min(found.size, _PLACES)).astype(int))
    return np.union1d(found[kept], np.arange(-2, 3))


def _largest(its: Laws, direction: Nodes, epsilons: np.ndarray) -> np.ndarray:
    """A bound on H at e^epsilons under the worst of the laws. Thousands of levels, most of which
    one law alone has: a few at a time, for the laws that have any of them."""
    read = _reader(direction, epsilons)
    values = np.zeros((its.weights.shape[0], epsilons.size))
    for start in range(0, its.weights.shape[1], _LEVELS):
        weights = its.weights[:, start : start + _LEVELS]
        some = np.flatnonzero(weights.any(axis=1))
        levels = np.array([read(start + one) for one in range(weights.shape[1])])
        values[some] += weights[some] @ levels
    values = values.max(axis=0) + its.dropped + _ROUNDING
    return np.minimum.accumulate(np.clip(values, 0.0, 1.0))


def _reader(direction: Nodes, epsilons: np.ndarray) -> Callable[[int], np.ndarray]:
    """What `_at` says of a level's curve at epsilons, with the exponentials of all levels taken at
    once where they are numbers."""
    losses, values = direction.losses.T, direction.values.T
    if max(losses.max(), epsilons[-1]) >= _LARGEST_LOSS:
        return lambda level: _at(epsilons, losses[level], values[level])
    alphas, first = np.exp(epsilons), ((0, 0), (1, 0))
    ends = np.pad(np.exp(losses), first)
    values = np.pad(values, first, constant_values=1.0)
    return lambda level: np.interp(alphas, ends[level], values[level])


def _hull(epsilons: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The largest function below `values` that is convex in α = e^ε."""
    alphas = np.exp(np.minimum(epsilons, 600.0))
    kept: list[int] = []
    for new in range(epsilons.size):
        while len(kept) > 1:
            last, before = kept[-1], kept[-2]
            chord = (values[new] - values[before]) * (alphas[last] - alphas[before])
            if (values[last] - values[before]) * (alphas[new] - alphas[before]) < chord:
                break
            kept.pop()
        kept.append(new)
    return np.minimum(values, _at(epsilons, epsilons[kept], values[kept]))


@lru_cache(maxsize=8)
def privacy_loss(step: Step, shift: float, interval: float) -> Any:
    """The privacy loss distribution of a round, as dp-accounting's `PrivacyLossDistribution`, for
    both directions; losses as in `graphdp.privacy.group.privacy_loss`, always pessimistic."""
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    its = curves(step, shift, interval)
    masses = [
        pld_pmf.create_pmf_pessimistic_connect_dots(interval, its.places, values)
        for values in (its.leaving, its.entering)
    ]
    return PrivacyLossDistribution(*masses)


@lru_cache(maxsize=256)
def renyi(step: Step, shift: float, order: float) -> float:
    """Rényi divergence of an order above 1: the largest over numbers of lists and directions.

    Without what is left out (`sub_graphs.dropped`): with it, they are infinite in part. By the
    trapezoidal rule, which for such integrands converges faster than any power of the distance of
    points; that error and that of the far end are not bounded here, so it is no certified bound. At
    the near end the integrand φ p^order q^(1 - order), p = P*/φ and q = Q*/φ, is left off where
    p ≤ 1 ≤ q: below half of the largest mean on the other side each count's e^(-a s x - (a s)²/2)
    in q is at least 1, and in p at most. Farther out than 8.5 φ has 1e-17.
    """
    if step.analysis == BOTH:
        return min(renyi(step._replace(analysis=one), shift, order) for one in (KNOWN, REVEALED))
    its = laws(step)
    if step.analysis == KNOWN:
        shifts = its.up.argmax(axis=0) * shift
        moments = order * (order - 1) * shifts**2 / 2
        return _largest_moment(moments, its.weights) / (order - 1)
    if order > _HIGHEST_ORDER:
        return math.inf
    means = np.arange(its.up.shape[0]) * shift
    near, far = max(means[-1] / 2, _REACH), (2 * order - 1) * means[-1] + 12.0
    # Zeros of p and q, where powers branch, lie about π / 2s off the line or farther.
    distance = min(max(0.27 / shift, 1 / 8), 1 / 4)
    points, width = np.linspace(-far, far, math.ceil(2 * far / distance) + 1, retstep=True)
    moments = np.full((2, its.up.shape[1]), -np.inf)
    for start in range(0, points.size, 512):  # bounds the working memory
        part = points[start : start + 512]
        log_up, log_down = _log_ratio(part, means, its.up), _log_ratio(-part, means, its.down)
        gauss = part[:, None] ** 2 / 2
        for moment, first, second, side in (
            (moments[0], log_up, log_down, part),
            (moments[1], log_down, log_up, -part),
        ):
            kept = side >= -near
            if not kept.any():
                continue
            values = order * first[kept] + (1 - order) * second[kept] - gauss[kept]
            top = values.max(axis=0)
            np.logaddexp(moment, top + np.log(np.exp(values - top).sum(axis=0)), out=moment)
    moments += math.log(width / math.sqrt(2 * math.pi))
    largest = np.max([_largest_moment(one, its.weights) for one in moments])  # nan stays one
    return max(float(largest), 0.0) / (order - 1)


def _largest_moment(moments: np.ndarray, weights: np.ndarray) -> float:
    """log of the largest Σ w e^moment over the rows of `weights`."""
    used = weights.any(axis=0)  # by a level that no row has all others may underflow
    moments, top = moments[used], moments[used].max()
    return float(top + np.log((weights[:, used] @ np.exp(moments - top)).max()))
