"""Lower bounds from scores: not above what holds, beyond their failure probability, and near it."""

import math
import runpy
import sys

import numpy as np
import pytest
from scipy import stats

from graphdp.audit.bound import clopper_pearson, lower_bound
from graphdp.audit.membership import membership
from graphdp.audit.one_run import guess, one_run_bound, p_value
from graphdp.errors import GraphDPError
from graphdp.methods import registry
from graphdp.privacy.accounting import gaussian_epsilon

ALPHA = 1e-6


def gaussian_scores(mu, draws, seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal(draws) + mu, rng.standard_normal(draws)


def test_clopper_pearson_agrees_with_scipy_and_covers_the_ends():
    for successes in (0, 1, 17, 999, 1000):
        low, high = clopper_pearson(successes, 1000, 0.025)
        exact = stats.binomtest(successes, 1000).proportion_ci(0.95, method="exact")
        assert (low, high) == pytest.approx((exact.low, exact.high), rel=1e-9)


@pytest.mark.alike
@pytest.mark.slow
@pytest.mark.parametrize("mu", [0.3, 1.0, 2.0])
def test_gaussian_bounds_come_near_the_closed_form_from_below(mu):
    """A bound with failure probability 1e-6 is below the exact ε; with 1e6 draws 95 % is near."""
    present, absent = gaussian_scores(mu, 1_000_000, 7)
    for delta in (1e-1, 1e-2, 1e-6):
        exact = gaussian_epsilon(mu, delta)
        for analysis in ("dp", "gdp"):
            bound = lower_bound(present, absent, delta, analysis=analysis, confidence=1 - ALPHA)
            assert bound.epsilon <= exact
        near = lower_bound(present, absent, delta, analysis="gdp")
        assert near.mu >= 0.96 * mu
        assert near.epsilon == pytest.approx(gaussian_epsilon(near.mu, delta), rel=1e-12)
        if delta == 1e-1 and mu > 0.5:
            assert lower_bound(present, absent, delta).epsilon >= 0.9 * exact


def test_both_directions_are_searched():
    """A unit that silences a score is found by the event that favours its absence."""
    rng = np.random.default_rng(3)
    # Below 0 only without the unit (in 1 of 10 runs); above it both worlds look alike.
    present = rng.random(20_000)
    absent = np.where(rng.random(20_000) < 0.1, -1.0, rng.random(20_000))
    bound = lower_bound(present, absent, 1e-5)
    assert bound.favours == "absent" and bound.epsilon > math.log(0.09 / 5e-4)
    mirrored = lower_bound(-absent, -present, 1e-5)
    assert mirrored.favours == "present" and mirrored.epsilon == pytest.approx(bound.epsilon, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("analysis", ["dp", "gdp"])
def test_the_bound_covers_at_its_confidence(analysis):
    """400 audits of mechanisms with a known ε: more failures than a rate of 5 % explains are a bug.

    The worst case for "dp" is randomised response, whose event is fixed; for "gdp" a Gaussian.
    Failure probability of this test: below 1e-6.
    """
    failures, delta = 0, 1e-9
    for seed in range(400):
        if analysis == "dp":
            rng = np.random.default_rng(seed)
            rate = 1 / (1 + math.exp(-1.0))
            present, absent = (rng.random((2, 600)) < [[rate], [1 - rate]]).astype(float)
            exact = 1.0
        else:
            present, absent = gaussian_scores(0.7, 600, seed)
            exact = gaussian_epsilon(0.7, delta)
        failures += lower_bound(present, absent, delta, analysis=analysis).epsilon > exact
    assert stats.binomtest(failures, 400, 0.05, alternative="greater").pvalue > ALPHA


def test_equal_worlds_and_constant_scores_prove_nothing():
    scores = np.zeros(1000)
    for analysis in ("dp", "gdp"):
        assert lower_bound(scores, scores, 1e-5, analysis=analysis).epsilon == 0
    bound = lower_bound(*gaussian_scores(0.0, 5000, 1), 1e-5, confidence=1 - ALPHA)
    assert bound.epsilon == 0


def test_perfect_separation_is_limited_by_the_number_of_draws():
    """ln((TPR - δ) / FPR), no error in n runs: FPR ≤ 1 - 0.025^(1/n) and TPR ≥ 0.025^(1/n)."""
    ones, zeros = np.ones(2000), np.zeros(2000)
    bound = lower_bound(ones, zeros, 1e-5)
    root = 0.025 ** (1 / 1000)
    assert bound.epsilon == pytest.approx(math.log((root - 1e-5) / (1 - root)), rel=1e-9)
    assert bound.draws == 2000 and bound.evaluated == 1000
    assert bound.failure_probability == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((np.zeros(10), np.zeros(9), 1e-5), "same number"),
        ((np.zeros(3), np.zeros(3), 1e-5), "same number"),
        ((np.array([0, 1, 2, math.nan]), np.zeros(4), 1e-5), "NaN"),
        ((np.zeros(10), np.zeros(10), 0.0), "delta"),
    ],
)
def test_bad_scores_are_one_clear_line(arguments, problem):
    with pytest.raises(GraphDPError, match=problem):
        lower_bound(*arguments)


# --- one run --------------------------------------------------------------------------------------


def test_p_value_is_that_of_randomised_response():
    """Randomised response is the worst case at δ = 0: its right guesses are Binomial(r, rate)."""
    rng = np.random.default_rng(5)
    epsilon, guesses, runs = 1.5, 60, 200_000
    right = rng.binomial(guesses, 1 / (1 + math.exp(-epsilon)), runs)
    for correct in (40, 50, 55):
        seen = int((right >= correct).sum())
        p = p_value(100, guesses, correct, epsilon)
        assert stats.binomtest(seen, runs, p).pvalue > ALPHA


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("delta", [1e-4, 1e-2])
def test_p_value_holds_for_mechanisms_that_use_their_delta(epsilon, delta):
    """Exact tails of two (ε, δ)-DP mechanisms: all canaries revealed at once with probability δ,
    or each on its own; else randomised response."""
    m = 40
    rate = 1 / (1 + math.exp(-epsilon))
    for correct in range(1, m + 1):
        p = p_value(m, m, correct, epsilon, delta)
        tail = stats.binom.sf(correct - 1, m, rate)
        assert delta + (1 - delta) * tail <= p + 1e-12
        each = stats.binom.sf(correct - 1, m, delta + (1 - delta) * rate)
        assert each <= p + 1e-12


def test_one_run_bound_is_monotone_and_inverts_the_p_value():
    bounds = [one_run_bound(500, 100, correct, 1e-5) for correct in range(0, 101, 5)]
    assert bounds == sorted(bounds)
    assert bounds[10] == 0  # half of the guesses right: nothing learnt
    assert bounds[-1] > 3
    for delta, correct in ((0.0, 80), (1e-5, 80), (1e-3, 95)):
        epsilon = one_run_bound(500, 100, correct, delta)
        assert p_value(500, 100, correct, epsilon, delta) <= 0.05
        assert p_value(500, 100, correct, epsilon + 1e-5, delta) >= 0.05 - 1e-4
    assert one_run_bound(500, 100, 90, 1e-3) < one_run_bound(500, 100, 90, 0.0)


def test_one_run_bound_covers_randomised_response():
    """3,000 one-run audits of ε = 1: at most 5 % are above it, up to chance (below 1e-6)."""
    rng = np.random.default_rng(9)
    right = rng.binomial(200, 1 / (1 + math.exp(-1.0)), 3000)
    bound = {int(v): one_run_bound(200, 200, int(v), 0.0) for v in np.unique(right)}
    failures = sum(bound[int(v)] > 1.0 for v in right)
    assert stats.binomtest(failures, 3000, 0.05, alternative="greater").pvalue > ALPHA


def test_guesses_are_the_extremes():
    scores = np.array([0.3, -2.0, 5.0, 0.1, 0.2])
    assert guess(scores, 2).tolist() == [0, -1, 1, 0, 0]
    with pytest.raises(GraphDPError, match="even number"):
        guess(scores, 3)
    with pytest.raises(GraphDPError, match="right of"):
        p_value(10, 11, 5, 1.0)


def test_the_accuracy_of_scores_that_know_nothing_is_that_of_guessing():
    """The threshold is chosen on other runs than those that are counted: on the same 20 ones it
    would be right in 60 %. Five standard deviations fail with a chance of 6e-7."""
    draw = np.random.default_rng(0)
    found = [membership(*draw.normal(size=(2, 20)))["accuracy"] for _ in range(500)]
    assert abs(np.mean(found) - 0.5) < 5 * math.sqrt(0.25 / 20 / 500)
    sure = membership(np.ones(20), np.zeros(20))
    assert (sure["accuracy"], sure["auc"], sure["tpr"]) == (1, 1, 1)


def test_membership_that_cannot_be_measured_ends_with_one_line(monkeypatch):
    def refuse(kind):
        raise GraphDPError(f"no {kind}")

    monkeypatch.setattr(registry, "modules", refuse)
    monkeypatch.setattr(sys, "argv", ["membership"])
    monkeypatch.delitem(sys.modules, "graphdp.audit.membership")  # it is run anew
    with pytest.raises(SystemExit, match=r"^error: no audit$"):
        runpy.run_module("graphdp.audit.membership", run_name="__main__")
