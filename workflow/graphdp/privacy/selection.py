"""What it costs to release the best of several models, chosen by looking at all of them."""

import math
from collections.abc import Sequence
from functools import cache

from graphdp.errors import GraphDPError
from graphdp.privacy import accounting
from graphdp.privacy.composition import (
    Parts,
    composed_epsilon,
    join,
    noised,
    renyi_curves,
    smallest_epsilon,
)

COMPOSITION_SOURCE = "the models of all settings are released together: their losses add up"
SEARCH_SOURCE = (
    "Papernot and Steinke, Hyperparameter Tuning with Rényi Differential Privacy, ICLR 2022, "
    "Theorem 2 with η = 1 (geometric number of trials)"
)


def composition_epsilon(models: Sequence[Parts], delta: float) -> float:
    """ε at `delta` of releasing every model tried (and so of any choice among them).

    models: the releases of each model, from `composition.parts`. Holds for fixed grids and for
    adaptive ones.
    """
    return composed_epsilon(join(models), delta)


def search_epsilon(models: Sequence[Parts], mean_trials: float, delta: float) -> float:
    """ε at `delta` of the best of a random number K of trials, each of a randomly drawn setting.

    K is geometric with mean `mean_trials` = 1/γ ≥ 1, and only the best trial's output is released.
    If one trial has RDP R(λ) at every order λ > 1, then for every order λ̂ > 1 the outcome has RDP

        R(λ) + (1 + η)(1 - 1/λ̂) R(λ̂) + (1 + η) ln(1/γ) / λ̂ + ln E[K] / (λ - 1),  η = 1,

    (Papernot and Steinke 2022, Theorem 2; E[K] = 1/γ). A trial draws one of `models` at random, so
    R is at most the largest of their curves. With mean_trials = 1 it is the cost of one trial.

    Where the curves leave out an event of chance η in a trial (`Term.unfollowed`), the outcome is
    in either world within E[K] η of one that has them: (ε, δ) becomes (ε, δ + (1 + e^ε) E[K] η).

    Raises GraphDPError for mean_trials < 1, for no model, or for δ outside (0, 1).
    """
    delta = accounting.check_delta(delta)
    if not (math.isfinite(mean_trials) and mean_trials >= 1):
        raise GraphDPError(f"mean_trials is {mean_trials!r}; give a finite number of at least 1")
    if not models:
        raise GraphDPError("no model to select from; give the releases of at least one")
    if mean_trials == 1 and len(models) == 1:
        return composed_epsilon(models[0], delta)
    trials = [noised(model) for model in models]
    if None in trials:
        return math.inf
    if not any(trials):
        return 0.0
    curves = [renyi_curves(model) for model in dict.fromkeys(trials)]
    trials_log = math.log(mean_trials)

    @cache
    def rdp(order: float) -> float:
        return max(sum(curve(order) for curve in model) for model in curves)

    # The order λ̂ of the second term is free: the cheapest is taken.
    extra, _ = accounting.smallest_over_orders(
        lambda order: 2 * ((1 - 1 / order) * rdp(order) + trials_log / order),
        accounting.RDP_ORDERS,
    )
    if mean_trials == 1:
        extra = 0.0  # K = 1 always: a single trial
    missed = mean_trials * max(map(_unfollowed, trials))

    def epsilon_at(delta: float) -> float:
        return smallest_epsilon(lambda order: rdp(order) + extra + trials_log / (order - 1), delta)

    found = epsilon_at(delta)
    while missed:
        charged = found * (1 + 1e-6)
        left = delta - (1 + math.exp(min(charged, 700.0))) * missed
        if left <= 0:
            return math.inf
        found = epsilon_at(left)
        if found <= charged:
            return charged
    return found


def _unfollowed(model: Parts) -> float:
    return sum(term.unfollowed for composition, _ in model for term in composition.terms)
