"""Audits of naive DP-SGD: scores as accounted, and what sees each deliberate bug.

| bug | seen by |
| --- | --- |
| half of the noise | `canary-naive-eps4`, `naiveofficial-epochs-eps1`; refused if declared |
| twice the clip, a node that is not clipped | `canary-naive-eps4`, `naiveofficial-epochs-eps1` |
| all nodes in every round | `canary-naive-eps4` |
| shuffled batches under a plan of Poisson samples, and the reverse | refused if declared |
| a round more than accounted | refused |
"""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import stats

from ensemble_fixture import one_thread  # noqa: F401
from graphdp.audit.canaries import Phase
from graphdp.audit.claims import get, run
from graphdp.audit.detectable import gaussian
from graphdp.errors import GraphDPError
from graphdp.methods.mlp import naive, naive_attack
from graphdp.methods.mlp.audit import _OFFICIAL
from graphdp.privacy.calibration import calibrate
from graphdp.training import descent

ALPHA = 1e-6
CANARY, EPOCHS = "canary-naive-eps4", "naiveofficial-epochs-eps1"
SHUFFLED, LAST = "naiveofficial-shuffled-eps2", "naiveofficial-last-batch-eps2"
WORLDS = ("present", "absent")


def outcome(name, runs):
    claim = get(name)
    result = run(claim, draws=round(runs / claim.share))
    print(f"{name}: claimed {result['claimed_epsilon']:.3g}, bound {result['lower_bound']:.3g}")
    return result["verdict"]


def scores(name, nodes, size, epochs, runs):
    """Those of both worlds, and σ / C."""
    claim = get(name)
    calibration = calibrate(claim.reference, claim.target_epsilon, claim.delta)
    phase = Phase(_OFFICIAL, calibration, nodes, size, epochs, classes=naive_attack.CLASSES)
    found = (naive_attack.shuffled_scores(phase, world, runs, 3) for world in WORLDS)
    return *found, calibration.noise_multiplier


@pytest.mark.slow
def test_with_one_batch_an_epoch_the_sums_move_by_twice_the_clip():
    """Two epochs: N(±μ²/2, μ²) with μ = 2√2 / σ, where the plan has 2√2 √2 / σ. Chance of failure
    4e-6."""
    runs = 300
    *found, sigma = scores(EPOCHS, 8, 8, 2, runs)
    mu, z = 2 * math.sqrt(2) / sigma, stats.norm.isf(ALPHA / 2)
    for sign, one in zip((1, -1), found, strict=True):
        error = one - sign * mu**2 / 2
        assert abs(error.mean()) < z * mu / math.sqrt(runs)
        tails = stats.chi2(runs).ppf([ALPHA / 4, 1 - ALPHA / 4])
        assert tails[0] < ((error / mu) ** 2).sum() < tails[1]


@pytest.mark.parametrize(("name", "sizes"), [(SHUFFLED, (4, 4)), (LAST, (8, 2))])
def test_scores_of_shuffled_batches_have_the_law_of_a_moved_batch(name, sizes):
    """One batch, of b nodes with a chance of b / N, moves by 2 C B / b: scores of real rounds
    against simulated ones, by Kolmogorov and Smirnov. Chance of failure 2e-6."""
    *found, sigma = scores(name, sum(sizes), sizes[0], 1, 300)
    rng, shifts = np.random.default_rng(0), 2 * sizes[0] / np.array(sizes) / sigma
    rates = np.array(sizes) / sum(sizes)
    for world, one in zip(WORLDS, found, strict=True):
        seen = rng.standard_normal((20_000, 2))
        if world == "present":
            which = (rng.random(20_000) < rates[1]).astype(int)
            seen[np.arange(20_000), which] += shifts[which]
        law = np.log(np.exp(seen * shifts - shifts**2 / 2) @ rates)
        assert stats.ks_2samp(one, law).pvalue > ALPHA


@pytest.mark.slow
@pytest.mark.parametrize(("name", "runs"), [(CANARY, 600), (EPOCHS, 2000)])
def test_half_of_the_noise_is_caught_and_the_right_noise_is_not(name, runs):
    assert outcome(name, runs) != "refuted"
    with gaussian(0.5):
        assert outcome(name, runs) == "refuted"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sums", "runs"), [(CANARY, "sums", 600), (EPOCHS, "official_sums", 2000)]
)
def test_twice_the_clip_is_caught(monkeypatch, name, sums, runs):
    make = getattr(naive, sums)

    def doubled(*given):
        add = make(*given)
        return lambda nodes, gradients, clip: add(nodes, gradients, 2 * clip)

    monkeypatch.setattr(naive, sums, doubled)
    assert outcome(name, runs) == "refuted"


@pytest.mark.slow
def test_a_node_that_is_not_clipped_is_caught(monkeypatch):
    """The canary's own gradient is some times longer than C."""
    add = naive.Network.add_gradients

    def one_spared(self, nodes, labels, into, clip, scaled):
        add(self, nodes[nodes != 0], labels, into, clip, scaled)
        if (nodes == 0).any():
            add(self, nodes[nodes == 0], labels, into, None, scaled)

    make = naive.sums
    monkeypatch.setattr(naive, "sums", lambda network, labels: make(Spared(network), labels))

    class Spared:
        def __init__(self, network):
            self.add_gradients = partial(one_spared, network)

    assert outcome(CANARY, 600) == "refuted"


@pytest.mark.slow
def test_training_that_takes_everyone_in_every_round_is_caught(monkeypatch):
    real = descent.PoissonRounds
    monkeypatch.setattr(descent, "PoissonRounds", lambda size, rate, rng: real(size, 1.0, rng))
    assert outcome(CANARY, 600) == "refuted"


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        (CANARY, {"sampling": "partition"}, "poisson but it was partition"),
        (EPOCHS, {"sampling": "poisson"}, "partition but it was poisson"),
        (CANARY, {"steps": 9}, "noisy rounds or releases 8 but it was 9"),
        (EPOCHS, {"noise_std": 0.5}, "noise std .* but it was 0.5"),
        (EPOCHS, {"max_grad_norm": 2.0}, "1.0 but it was 2.0"),
    ],
)
def test_a_stage_that_trains_otherwise_than_its_plan_is_refused(monkeypatch, name, change, told):
    """Broken in what the stage makes of the plan's rounds."""
    rounds = naive._rounds
    monkeypatch.setattr(naive, "_rounds", lambda *given: replace(rounds(*given), **change))
    with pytest.raises(GraphDPError, match=f"classifier: the plan accounts .*{told}"):
        outcome(name, 100)
