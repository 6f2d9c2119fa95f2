"""One run against others: jax_privacy's numbers, exact tails, a linear program, and real noise."""

import csv
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq, linprog
from scipy.special import ndtr, ndtri

from graphdp.audit.one_run import (
    guess,
    least_rate,
    one_run_bound,
    one_run_noise_bound,
    p_value,
    refutes,
)
from graphdp.methods.mlp.plan import mlp_plan
from graphdp.privacy.accounting import gaussian_epsilon
from graphdp.privacy.calibration import calibrate

ALPHA = 1e-6
#: Of one Gaussian release, without sampling.
PLAN = mlp_plan("node", 100, 100, 1, 1.0)


def theirs(quantity):
    """What `jax_privacy.auditing` 2.0.0 (Google) says, over a grid of counts, δ and confidence.

    Its functions `_one_run_p_value`, `_epsilon_one_run` and `_epsilon_one_run_fdp` made the table
    once; that module needs no JAX, but the package does, whatever one uses of it, and it installs
    packages called `tests` and `docs`: so no environment of this project has it.
    """
    with open(Path(__file__).parent / "one_run_jax_privacy.csv") as file:
        for row in csv.DictReader(file):
            if row.pop("quantity") == quantity:
                counts = [int(row[name]) for name in ("canaries", "guesses", "correct")]
                others = "epsilon", "delta", "failure_probability", "value"
                yield counts, *(float(row[name] or "nan") for name in others)


def test_p_values_are_those_of_jax_privacy():
    rows = list(theirs("p_value"))
    assert len(rows) > 200
    for counts, epsilon, delta, _, value in rows:
        # Where p is tiny their difference of two tails loses digits.
        assert p_value(*counts, epsilon, delta) == pytest.approx(value, rel=1e-8, abs=1e-13)


def test_bounds_are_those_of_jax_privacy():
    rows = list(theirs("bound"))
    assert len(rows) > 100 and sum(value > 0 for *_, value in rows) > 60
    for counts, _, delta, failure, value in rows:
        assert one_run_bound(*counts, delta, 1 - failure) == pytest.approx(value, abs=3e-6)


@pytest.mark.slow
def test_gaussian_bounds_are_those_of_jax_privacy():
    """With the exact trade-off of a Gaussian; from the plan's losses it is at most that, and near
    it."""
    rows = [row for row in theirs("gaussian_bound") if row[-1] > 0.02]
    assert len(rows) > 40
    for index, (counts, _, delta, failure, value) in enumerate(rows):

        def excess(mu, counts=counts, failure=failure):
            def least(rate):
                return float(ndtr(ndtri(min(rate, 1.0)) - mu))

            return 1.0 if refutes(*counts, least, failure) else -1.0

        mu = brentq(excess, 1e-3, 20, xtol=1e-8)
        assert gaussian_epsilon(mu, delta) == pytest.approx(value, abs=1e-4)
        if index % 8 == 0:
            _, ours = one_run_noise_bound(*counts, PLAN, delta, 1 - failure)
            assert 0.93 * value - 0.02 < ours < value + 1e-3


@pytest.mark.parametrize(("canaries", "guesses"), [(9, 9), (30, 12)])
@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 1000), Fraction(1, 20)])
@pytest.mark.parametrize("odds", [Fraction(1), Fraction(3), Fraction(20)])
def test_p_values_are_the_formula_in_exact_fractions(canaries, guesses, delta, odds):
    """β + 2 m δ max_i (P(W ≥ v - i) - β) / i, W ~ Binomial(r, e^ε / (1 + e^ε)), e^ε rational."""
    rate = odds / (1 + odds)
    chances = [
        math.comb(guesses, k) * rate**k * (1 - rate) ** (guesses - k) for k in range(guesses + 1)
    ]
    for correct in range(1, guesses + 1):
        beta = sum(chances[correct:])
        worst = max((sum(chances[correct - i :]) - beta) / i for i in range(1, correct + 1))
        exact = min(Fraction(1), beta + 2 * canaries * delta * worst)
        found = p_value(canaries, guesses, correct, math.log(odds), float(delta))
        assert found == pytest.approx(float(exact), rel=1e-10)


@pytest.mark.parametrize(("canaries", "guesses", "correct"), [(8, 8, 7), (20, 10, 9), (12, 6, 5)])
@pytest.mark.parametrize("mu", [0.3, 1.0])
def test_refutes_where_the_best_attack_has_a_smaller_chance(canaries, guesses, correct, mu):
    """The recursion against a linear program: the most that `correct` or more right guesses can
    have under all its constraints, over all distributions of the number of right ones."""
    losses = np.linspace(0, 6, 61)
    # δ(loss) of a Gaussian.
    deltas = ndtr(mu / 2 - losses / mu) - np.exp(losses) * ndtr(-mu / 2 - losses / mu)
    numbers = np.arange(guesses + 1)
    rows, limits = [], []
    for i in range(1, guesses + 1):
        right = np.where(numbers >= i, numbers, 0) / canaries
        wrong = np.where(numbers >= i - 1, guesses - numbers, 0) / canaries
        for loss, delta in zip(losses, deltas, strict=True):
            factor = math.exp(loss)
            rows += [right - factor * wrong, factor * right - wrong]
            limits += [delta, factor - 1 + delta]
    most = -linprog(
        -(numbers >= correct).astype(float),
        A_ub=np.array(rows),
        b_ub=limits,
        A_eq=np.ones((1, guesses + 1)),
        b_eq=[1.0],
    ).fun
    assert 0.01 < most < 0.99
    least = least_rate(losses, deltas)
    assert refutes(canaries, guesses, correct, least, most + 1e-5)
    assert not refutes(canaries, guesses, correct, least, most - 1e-5)


def right_guesses(canaries, guesses, mu, runs, seed):
    """Of the attack on ideal Gaussian noise, for canaries that are all at right angles."""
    rng = np.random.default_rng(seed)
    for _ in range(runs):
        inside = rng.random(canaries) < 0.5
        found = guess(mu * inside + rng.standard_normal(canaries), guesses)
        yield int(((found > 0) & inside).sum() + ((found < 0) & ~inside).sum())


@pytest.mark.parametrize(("canaries", "guesses", "mu"), [(60, 30, 1.5), (400, 400, 0.4)])
def test_the_noise_is_refuted_no_more_often_than_stated(canaries, guesses, mu):
    """1,000 runs of ideal Gaussian noise: refuted in 20 % at most where that is the failure
    probability. Failure probability of this test: below 1e-6."""

    def least(rate):
        return float(ndtr(ndtri(min(rate, 1.0)) - mu))

    right = list(right_guesses(canaries, guesses, mu, 1000, 3))
    refuted = {v: refutes(canaries, guesses, v, least, 0.2) for v in set(right)}
    assert any(refuted[v] for v in right) or canaries > 60
    failures = sum(refuted[v] for v in right)
    assert stats.binomtest(failures, 1000, 0.2, alternative="greater").pvalue > ALPHA


def test_what_one_run_can_show_of_half_of_the_noise():
    """ε = 4 at δ = 1e-5 on ideal noise: a plan's trade-off shows it with 4,000 canaries, (ε, δ)-DP
    alone does not, and at ε = 8 it never could with 100 guesses, all of them right."""
    plan = mlp_plan("node", 4000, 4000, 1, 1.0)
    noise = calibrate(plan, 4.0, 1e-5).noise_multiplier
    right = sorted(right_guesses(4000, 400, 2 / noise, 9, 1))
    _, epsilon = one_run_noise_bound(4000, 400, right[0], plan, 1e-5)
    assert epsilon > 4.5
    assert one_run_bound(4000, 400, right[4], 1e-5) < 4
    # The guesses as they are with the right noise leave it standing.
    right = max(right_guesses(4000, 400, 1 / noise, 9, 1))
    assert 2 < one_run_noise_bound(4000, 400, right, plan, 1e-5)[1] < 4
    # All right: (e^ε / (1 + e^ε))^r = 5 %.
    for guesses, most in ((100, 3.49), (1000, 5.81), (8930, 8.0)):
        assert one_run_bound(guesses, guesses, guesses, 0.0) == pytest.approx(most, abs=0.005)
        exact = -math.log(math.expm1(-math.log(0.05) / guesses))
        assert exact == pytest.approx(most, abs=0.005)
