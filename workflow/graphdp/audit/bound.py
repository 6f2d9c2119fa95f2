"""From an attack's scores to a lower bound on ε that holds with a stated confidence.

An attack gives every run of a mechanism a score, in two worlds: the protected unit is there
("present") or not ("absent"). If the mechanism is (ε, δ)-DP, every event E has

    P(E | one world) ≤ e^ε P(E | other world) + δ,

so a threshold test whose rates are known bounds ε from below. Half of the runs choose the
threshold and the world that it favours, the other half bounds the two rates by Clopper and Pearson
(Biometrika 1934), each with half of the failure probability: the bound is above the true ε with
probability at most 1 - confidence, whatever the scores are.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from graphdp.errors import GraphDPError, one_of
from graphdp.privacy.accounting import check_delta, gaussian_epsilon
from graphdp.privacy.plan import Composition, Plan

#: How rates become an ε. "dp": no assumption. "gdp": the mechanism is μ-GDP for an unknown μ, see
#: `lower_bound`. "noise": it is the claimed plan with an unknown noise multiplier: `noise_bound`.
ANALYSES = ("dp", "gdp", "noise")
CONFIDENCE = 0.95
_THRESHOLDS = 400
# The threshold is chosen by bounds of this much smaller failure probability. It would otherwise be
# drawn to the tails, where some of many noisy rates looks good by chance, on this half alone.
_CAUTION = 1e-4
# Noise multipliers between which `noise_bound` searches.
_LEAST_NOISE, _MOST_NOISE = 0.2, 1e3

#: (noise multiplier, interval of losses, whether to round up) -> dp-accounting's privacy loss
#: distribution, for both directions.
Losses = Callable[[float, float, bool], Any]


@dataclass(frozen=True)
class Bound:
    """A lower bound on the ε at `delta`.

    epsilon: the bound, ≥ 0; above the true ε with probability at most `failure_probability`.
    analysis: one of `ANALYSES`. mu: the bound on μ that ε comes from (analysis "gdp"), else None.
    noise_multiplier: the upper bound on the noise that ε comes from (analysis "noise"), else None.
    favours: the world whose rate is the larger one, "present" or "absent"; the event is a score
        above `threshold` if it favours "present", and at or below it otherwise.
    rate_low, rate_high: the lower bound on the favoured world's rate, and the upper one on the
        other's. draws: runs per world. evaluated: those per world that bound the rates.
    """

    epsilon: float
    delta: float
    analysis: str
    mu: float | None
    favours: str
    threshold: float
    rate_low: float
    rate_high: float
    draws: int
    evaluated: int
    confidence: float
    failure_probability: float
    noise_multiplier: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """A JSON object."""
        return asdict(self)


def clopper_pearson(
    successes: np.ndarray | int, trials: int, failure_probability: float
) -> tuple[np.ndarray, np.ndarray]:
    """One-sided lower and upper bounds on a rate, each wrong with at most that probability.

    successes: counts of any shape, out of `trials`. Returns (lower, upper) of the same shape.
    """
    from scipy.stats import beta

    successes = np.asarray(successes)
    with np.errstate(invalid="ignore"):
        lower = beta.ppf(failure_probability, successes, trials - successes + 1)
        upper = beta.ppf(1 - failure_probability, successes + 1, trials - successes)
    return np.where(successes > 0, lower, 0.0), np.where(successes < trials, upper, 1.0)


def lower_bound(
    present: np.ndarray,
    absent: np.ndarray,
    delta: float,
    *,
    analysis: str = "dp",
    confidence: float = CONFIDENCE,
) -> Bound:
    """The lower bound on ε at `delta` from the scores of two worlds.

    present, absent: float (draws,), independent runs in random order; larger scores speak for
    "present". delta: of the claim, in (0, 1). confidence: in (0, 1).

    analysis "dp": ε ≥ ln((rate_low - δ) / rate_high), without any assumption.
    analysis "gdp": a μ-GDP mechanism has Φ⁻¹(rate) - Φ⁻¹(other rate) ≤ μ for every event (Dong,
    Roth and Su, "Gaussian Differential Privacy", 2022; for audits Nasr et al., "Tight Auditing of
    Differentially Private Machine Learning", USENIX Security 2023). This bounds μ, and `epsilon` is
    that of the Gaussian mechanism at `delta`. For a claim that is itself one of μ-GDP (compositions
    of Gaussian releases with bounded sensitivity) a bound above it refutes the sensitivity or the
    noise; it is far tighter than "dp" where δ is small.

    Raises GraphDPError on fewer than 4 draws, different numbers of them, or scores that are NaN.
    """
    delta = check_delta(delta)
    present, absent = np.asarray(present, float), np.asarray(absent, float)
    one_of("analysis", analysis, ANALYSES[:2])
    if not 0 < confidence < 1:
        raise GraphDPError(f"confidence is {confidence!r}; it must lie strictly between 0 and 1")
    if present.shape != absent.shape or present.ndim != 1 or len(present) < 4:
        raise GraphDPError(
            f"scores of shapes {present.shape} and {absent.shape}: an audit needs the same number "
            f"of runs in both worlds, at least 4"
        )
    if np.isnan(present).any() or np.isnan(absent).any():
        raise GraphDPError("an audit's score is NaN; fix the attack")
    draws, half = len(present), len(present) // 2
    failure = (1 - confidence) / 2
    thresholds = _candidates(present[:half], absent[:half])
    best: tuple[float, str, float] = (-math.inf, "present", float(thresholds[0]))
    for favours in ("present", "absent"):
        low, high = _rates(present[:half], absent[:half], thresholds, favours, failure * _CAUTION)
        values = _excess(low, high, delta, analysis)
        index = int(np.argmax(values))
        if values[index] > best[0]:
            best = (float(values[index]), favours, float(thresholds[index]))
    _, favours, threshold = best
    evaluated = draws - half
    low, high = _rates(present[half:], absent[half:], np.array([threshold]), favours, failure)
    value = max(0.0, float(_excess(low, high, delta, analysis)[0]))
    mu = value if analysis == "gdp" else None
    return Bound(
        epsilon=_gaussian(value, delta) if analysis == "gdp" else value,
        delta=delta,
        analysis=analysis,
        mu=mu,
        favours=favours,
        threshold=threshold,
        rate_low=float(low[0]),
        rate_high=float(high[0]),
        draws=draws,
        evaluated=evaluated,
        confidence=confidence,
        failure_probability=1 - confidence,
    )


def noise_bound(bound: Bound, plan: Plan) -> Bound:
    """The bound of "gdp", its two rates now held against the exact trade-off of `plan`.

    With noise multiplier σ the plan has a tight δ_σ(ε), by the privacy loss distribution. Rates
    with rate_low > e^ε rate_high + δ_σ(ε) for some ε refute σ and every larger noise. The ε of the
    smallest refuted σ is a lower bound for whatever runs the plan's steps with some noise (Nasr et
    al. 2023 use the trade-off of the subsampled Gaussian likewise). Discretisation errs on the safe
    side: δ_σ(ε) is rounded up where it is to be refuted, and down where it becomes the bound.

    Raises GraphDPError for a plan that releases nothing, something without noise, or on samples of
    a fixed size, whose trade-off is not known.
    """
    return noise_bound_of_worlds(bound, _plan_losses(plan))


def refuted_noise(
    plan: Plan, delta: float, refuted: Callable[[np.ndarray, np.ndarray], bool]
) -> tuple[float | None, float]:
    """The smallest noise multiplier of `plan` that `refuted` rules out, and its ε at `delta`.

    refuted: (losses ≥ 0, δ of each) -> whether what was seen rules out a mechanism that is (loss,
    δ)-DP for all of them. It is asked for δ_σ(loss) rounded up. (None, 0) if it rules out nothing.
    Raises GraphDPError as `noise_bound` does.
    """
    return _smallest_refuted(_plan_losses(plan), delta, refuted)


def noise_bound_of_worlds(bound: Bound, losses: Losses) -> Bound:
    """As `noise_bound`, by the trade-off of the two worlds of an attack themselves.

    For a plan of which no lower bound on ε is known, or whose analysis reveals more than is seen:
    the worlds' own ε is then a lower bound for whatever runs these steps with some noise.
    """

    def refuted(places: np.ndarray, allowed: np.ndarray) -> bool:
        return bool((bound.rate_low > np.exp(places) * bound.rate_high + allowed).any())

    noise, epsilon = _smallest_refuted(losses, bound.delta, refuted)
    return replace(bound, analysis="noise", mu=None, epsilon=epsilon, noise_multiplier=noise)


def _smallest_refuted(
    losses: Losses, delta: float, refuted: Callable[[np.ndarray, np.ndarray], bool]
) -> tuple[float | None, float]:
    places = np.linspace(0.0, 12.0, 121)

    def without(noise: float) -> bool:
        allowed = losses(noise, 5e-3, True).get_delta_for_epsilon(places)
        return refuted(places, np.asarray(allowed))

    low, high = _LEAST_NOISE, 2.0
    while not without(high):
        low, high = high, 2 * high
        if high > _MOST_NOISE:
            return None, 0.0
    while high > low * 1.002:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if without(middle) else (middle, high)
    return high, float(losses(high, 1e-3, False).get_epsilon_for_delta(delta))


def _plan_losses(plan: Plan) -> Losses:
    """The losses of a plan's steps together. Raises GraphDPError as `noise_bound` does."""
    composition = plan.composition
    if composition.is_empty or composition.unnoised:
        raise GraphDPError(f"{plan.method}, {plan.level} level: the plan has no noise to audit")
    if any("pld" not in term.accountants or not term.tight for term in composition.terms):
        raise GraphDPError(
            f"{plan.method}, {plan.level} level: no trade-off is known; use lower_bound"
        )
    return functools.partial(_loss_distribution, composition)


def _loss_distribution(
    composition: Composition, noise: float, interval: float, pessimistic: bool = True
) -> Any:
    """dp-accounting's distribution, for adding and for removing (or for replacing a group); rounded
    up if `pessimistic`."""
    parts = [
        step.self_compose(count)
        for term in composition.terms
        for step, count in term.loss_distributions(noise, interval, pessimistic)
    ]
    return functools.reduce(lambda one, other: one.compose(other), parts)


def _candidates(present: np.ndarray, absent: np.ndarray) -> np.ndarray:
    """Thresholds at quantiles of both worlds, dense in the tails."""
    tails = np.geomspace(1 / len(present), 0.5, _THRESHOLDS // 4)
    levels = np.concatenate([tails, 1 - tails])
    found = [np.quantile(scores, levels, method="lower") for scores in (present, absent)]
    return np.unique(np.concatenate(found))


def _rates(
    present: np.ndarray, absent: np.ndarray, thresholds: np.ndarray, favours: str, failure: float
) -> tuple[np.ndarray, np.ndarray]:
    """Per threshold: the favoured world's rate from below, the other world's from above."""
    trials = len(present)
    below = [np.searchsorted(np.sort(x), thresholds, side="right") for x in (present, absent)]
    if favours == "present":
        favoured, other = trials - below[0], trials - below[1]
    else:
        other, favoured = below
    return clopper_pearson(favoured, trials, failure)[0], clopper_pearson(other, trials, failure)[1]


def _excess(low: np.ndarray, high: np.ndarray, delta: float, analysis: str) -> np.ndarray:
    """What the rates prove: a lower bound on ε ("dp") or on μ ("gdp"), -∞ where nothing."""
    from scipy.special import ndtri

    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log((low - delta) / high) if analysis == "dp" else ndtri(low) - ndtri(high)
    return np.where(np.isfinite(value), value, -np.inf)


def _gaussian(mu: float, delta: float) -> float:
    return gaussian_epsilon(mu, delta) if mu > 0 else 0.0
