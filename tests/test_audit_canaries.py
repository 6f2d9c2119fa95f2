"""Canaries in DP-Adam: what the observer sees, and scores distributed as theory says."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import ndtr, ndtri

from ensemble_fixture import one_thread  # noqa: F401
from graphdp.audit import canaries
from graphdp.audit.bound import lower_bound, noise_bound
from graphdp.audit.canaries import Phase, Training
from graphdp.errors import GraphDPError
from graphdp.methods.gap import audit as gap
from graphdp.methods.mlp import audit as mlp
from graphdp.methods.mlp.plan import mlp_plan
from graphdp.methods.progap import audit as progap
from graphdp.privacy.accounting import gaussian_epsilon
from graphdp.privacy.calibration import calibrate
from graphdp.training import MLP, DPAdam, Member, train

ALPHA = 1e-6
#: As the methods' claims have them.
TRAININGS = {
    "mlp": Training(mlp.fit, {"hidden": canaries.HIDDEN, "layers": 3}),
    "classifier": gap._TRAINING,
    "progap-stage0": progap._TRAINING,
}
PLANS = {"mlp": mlp._plan, "classifier": gap._classifier, "progap-stage0": progap._stage0}


def phase(name, num_train=24, batch_size=6, epochs=2, epsilon=4.0):
    training = TRAININGS[name]
    settings = {"num_train": num_train, "batch_size": batch_size, "epochs": epochs}
    clip = {"max_grad_norm": training.max_grad_norm}
    return Phase(training, calibrate(PLANS[name](settings | clip), epsilon, 1e-3), **settings)


def fit(observe=None, memory_mb=2048):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((40, 5)).astype(np.float32), rng.integers(0, 3, 40)
    nodes = np.arange(40)
    members = [Member(("m", i), 0.01, 1.0, nodes[:20], nodes[20:30], nodes[30:]) for i in range(5)]
    training = DPAdam(epochs=2, batch_size=5, sampling_rate=0.25, steps=8, max_grad_norm=1.0)
    network = MLP(5, 4, 2, 3, batch_norm=False)
    return train(network, x, y, members, training, observe=observe, memory_mb=memory_mb)


def test_the_observer_sees_every_round_and_changes_nothing():
    seen = []

    def observe(chunk, parameters, noisy_sum):
        assert len(parameters) == len(noisy_sum) == len(chunk)
        seen.append((tuple(chunk), parameters.values.clone(), noisy_sum.values.clone()))

    watched, alone = fit(observe), fit()
    for one, other in zip(watched, alone, strict=True):
        for name, value in one.parameters.items():
            assert np.array_equal(value, other.parameters[name])
    assert [chunk for chunk, *_ in seen] == [tuple(range(5))] * 8
    # Adam's first step is the learning rate times the sign of what is released.
    _, before, noisy_sum = seen[0]
    assert torch.allclose(seen[1][1] - before, -0.01 * noisy_sum.sign(), atol=1e-6)


@pytest.mark.parametrize("name", TRAININGS)
def test_with_everyone_sampled_the_scores_are_those_of_a_gaussian(name):
    """q = 1, one round: N(±L²/2σ², L²/σ²), L the part of the clip that others do not share."""
    one = phase(name, 8, 8, 1)
    sigma = one.calibration.noise_multiplier
    present, absent = (canaries.white_box_scores(one, w, 400, 3) for w in ("present", "absent"))
    apart = present.mean() - absent.mean()  # L²/σ², each score with a variance of L²/σ²
    error = stats.norm.isf(ALPHA) / sigma * math.sqrt(2 / 400)
    assert (0.8 / sigma) ** 2 - error < apart < 1 / sigma**2 + error
    signal = math.sqrt(apart) * sigma
    for scores, sign in ((present, 1), (absent, -1)):
        # L varies a little between initialisations: a mixture, close to one Gaussian.
        standard = (scores * sigma / signal - sign * signal / (2 * sigma)).std()
        assert standard == pytest.approx(1, abs=5 / math.sqrt(400))


def test_likelihood_ratios_average_to_one_without_the_canary():
    """E[exp(score)] = 1 in "absent": the score is a likelihood ratio of the real rounds."""
    ratios = np.exp(canaries.white_box_scores(phase("mlp", epsilon=2.0), "absent", 600, 1))
    error = ratios.std() / math.sqrt(len(ratios))
    assert abs(ratios.mean() - 1) < stats.norm.isf(ALPHA / 2) * error


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.8, 3.0])
def test_bounds_on_the_noise_invert_the_trade_off(noise):
    """Without sampling the trade-off is Φ(Φ⁻¹(α) + √T/σ): rates on it give back σ and its ε."""
    plan = mlp_plan("node", 8, 8, 4, 1.0)
    mu = 2 / noise
    scores = np.random.default_rng(2).standard_normal((2, 200))
    rates = lower_bound(*scores, 1e-3, analysis="gdp")

    def bound(mu, low=0.05):
        exact = replace(rates, rate_high=low, rate_low=float(ndtr(ndtri(low) + mu)))
        return noise_bound(exact, plan)

    found = bound(mu)
    assert noise <= found.noise_multiplier < 1.02 * noise
    assert found.epsilon <= gaussian_epsilon(mu, 1e-3)
    assert found.epsilon == pytest.approx(gaussian_epsilon(mu, 1e-3), rel=0.03)
    assert bound(1.2 * mu).epsilon > found.epsilon
    assert bound(0.0).epsilon == 0


@pytest.mark.alike
@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", "classifier"])
@pytest.mark.parametrize("batch_size", [150, 600])
def test_one_run_sees_every_canary_apart(name, batch_size):
    """Almost without noise all guesses are right; with its noise the bound is below the claim."""
    one = phase(name, 600, batch_size, 4, epsilon=8.0)
    loud = canaries.one_run(one, 500, 100, 1e-4, 0)
    assert loud.canaries == 500 and 200 < loud.included < 300
    assert 0 < loud.without_assumption < loud.epsilon < 8
    assert loud.noise_multiplier > one.calibration.noise_multiplier
    clear = canaries.one_run(phase(name, 600, batch_size, 4, epsilon=200.0), 500, 100, 1e-4, 0)
    # A canary that no round samples (1 % of them at a rate of 1/4) looks as if it were out.
    assert clear.correct >= (95 if batch_size == 150 else 100)
    # Where all guesses are right with all of the noise as well, there is no more to show.
    assert clear.epsilon > loud.epsilon or loud.correct == clear.correct == 100


def test_scores_of_one_run_are_log_likelihood_ratios_of_each_canary(monkeypatch):
    """With everyone in the one round, given the coin: N(±L²/2σ², L²/σ²), L near C."""
    seen, guess = [], canaries.guess
    monkeypatch.setattr(canaries, "guess", lambda *a: seen.append(a[0].copy()) or guess(*a))
    one = phase("mlp", 600, 600, 1)
    canaries.one_run(one, 600, 100, 1e-4, 2)
    inside = canaries.generator("audit", 2, "coins").random(600) < 0.5
    signs = np.where(inside, 1, -1)
    (scores,) = seen
    # Half of the mean distance L²/σ²; L varies with the label.
    apart, error = (signs * scores).mean() * 2, scores[inside].std() * 2 / math.sqrt(600)
    sigma = one.calibration.noise_multiplier
    assert (0.85 / sigma) ** 2 - 4.9 * error < apart < sigma**-2 + 4.9 * error
    assert scores[inside].std() == pytest.approx(math.sqrt(apart), rel=0.25)


def test_bad_phases_are_one_clear_line():
    with pytest.raises(GraphDPError, match="use fewer"):
        canaries.one_run(phase("mlp"), 500, 100, 1e-4, 0)
