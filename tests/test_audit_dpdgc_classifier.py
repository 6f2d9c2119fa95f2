"""Audits of DPDGC's classifier: scores as theory says, and deliberate bugs."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from ensemble_fixture import one_thread  # noqa: F401
from graphdp.audit.claims import get, run
from graphdp.errors import GraphDPError
from graphdp.methods.dpdgc import audit as registered
from graphdp.methods.dpdgc import classifier_attack as audit
from graphdp.methods.dpdgc import method as dpdgc
from graphdp.methods.dpdgc.plan import corrected_plan
from graphdp.noise import GridNoise
from graphdp.privacy.calibration import calibrate

ALPHA = 1e-6
SAMPLED, ALL = "dpdgc-classifier-k1-eps4", "dpdgc-classifier-k1-all-eps4"


def outcome(name, runs):
    claim = get(name)
    result = run(claim, draws=round(runs / claim.share))
    print(f"{name}: claimed {result['claimed_epsilon']:.3g}, bound {result['lower_bound']:.3g}")
    return result


def phase(name, epsilon):
    claim = get(name)
    settings = registered._SOME if name == SAMPLED else registered._EVERYONE
    return audit.Phase(calibrate(claim.plan, epsilon, claim.delta), **settings)


@pytest.mark.slow
def test_with_everyone_sampled_the_worlds_are_two_clips_apart():
    """N(±μ²/2, μ²) with μ = √rounds / noise multiplier (each but for a chance of 1e-6)."""
    one = phase(ALL, 4.0)
    present, absent = (
        audit.classifier_scores(one, world, 120, 1) for world in ("present", "absent")
    )
    square = one.mechanism.steps / one.calibration.noise_multiplier**2
    error = stats.norm.isf(ALPHA / 2) * math.sqrt(square / 120)
    assert abs(present.mean() - square / 2) < error and abs(absent.mean() + square / 2) < error
    low, high = stats.chi2.ppf([ALPHA, 1 - ALPHA], 119) / 119
    assert low < present.var(ddof=1) / square < high and low < absent.var(ddof=1) / square < high


@pytest.mark.slow
def test_likelihood_ratios_average_to_one():
    """E[exp(score)] = 1 in "absent", with sampling: of the real rounds (chance 1e-6)."""
    ratios = np.exp(audit.classifier_scores(phase(SAMPLED, 1.0), "absent", 200, 1))
    assert abs(ratios.mean() - 1) < stats.norm.isf(ALPHA / 2) * ratios.std() / math.sqrt(200)


@pytest.mark.slow
def test_the_code_as_it_is_stays_below():
    """A bound above a claim that holds has a chance of 5 % at most; this seed has none."""
    result = outcome(ALL, 300)
    assert 1 < result["lower_bound"] < 4 and result["as_expected"]


def test_edge_level_trains_the_classifier_without_noise():
    phases = [m.phase for m in corrected_plan("edge", None, 24, 6, 1, None, 1.0).mechanisms]
    assert phases == ["embedding", "release"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [ALL, pytest.param(SAMPLED, marks=pytest.mark.slow)])
def test_training_with_half_of_the_noise(monkeypatch, name):
    add = GridNoise.add
    monkeypatch.setattr(GridNoise, "add", lambda self, sums, std: add(self, sums, std / 2))
    assert outcome(name, 200 if name == ALL else 1000)["verdict"] == "refuted"


@pytest.mark.parametrize(
    ("change", "told"),
    [({"noise_std": 9.0}, "noise std"), ({"sampling_rate": 0.5}, "sampling rate 0.25 but it was")],
)
def test_a_stage_that_trains_otherwise_than_its_plan_is_refused(monkeypatch, change, told):
    rounds = dpdgc.noisy_rounds
    monkeypatch.setattr(dpdgc, "noisy_rounds", lambda *a: replace(rounds(*a), **change))
    with pytest.raises(GraphDPError, match=f"classifier: the plan accounts {told}"):
        outcome(SAMPLED, 100)
