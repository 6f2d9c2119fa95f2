"""Deliberate bugs in the real code: each drives a lower bound above its claim, or is refused."""

from dataclasses import replace

import numpy as np
import pytest

from ensemble_fixture import one_thread  # noqa: F401
from graphdp.audit import graph_pairs as audit
from graphdp.audit.bound import lower_bound
from graphdp.audit.claims import get, run
from graphdp.audit.graph_pairs import Mechanism
from graphdp.errors import GraphDPError
from graphdp.graphs import degree
from graphdp.methods import train_runs
from graphdp.methods.gap.audit import _Aggregation, _mechanism
from graphdp.noise import GridNoise
from graphdp.privacy.calibration import calibrate
from graphdp.releases import aggregation
from graphdp.training import chunk

EDGE, TWO_HOPS = "gap-edge-directed-k1-eps4", "gap-edge-directed-k2-eps4"
PARTICIPANT = "gap-node-participant-k1-eps4"
ALL_TERMS = "gap-node-all-terms-participant-k1-eps8"
CANARY, CLASSIFIER = "canary-mlp-eps4", "canary-classifier-eps4"
ONE_RUN = "one-run-mlp-eps4"
#: Runs per world of the cheapest attack; enough to see each bug.
DRAWS = 10_000
#: A training run costs far more than an aggregation: 800 and 2,000 per world have to do.
TRAININGS = {CANARY: 16_000, CLASSIFIER: 40_000}


def outcome(name, draws=None):
    result = run(get(name), draws=draws or TRAININGS.get(name, DRAWS))
    print(f"{name}: claimed {result['claimed_epsilon']:.3g}, bound {result['lower_bound']:.3g}")
    return result["verdict"]


@pytest.mark.alike
@pytest.mark.slow
@pytest.mark.parametrize("name", [EDGE, TWO_HOPS, PARTICIPANT, ALL_TERMS, CANARY, ONE_RUN])
def test_the_code_as_it_is_stays_below(name):
    assert outcome(name) != "refuted"


def mutate_perturb(monkeypatch, change):
    perturb = aggregation._perturb
    monkeypatch.setattr(aggregation, "_perturb", lambda *a: perturb(*change(*a)))


@pytest.mark.parametrize("name", [EDGE, TWO_HOPS, ALL_TERMS])
def test_aggregation_with_half_of_the_noise(monkeypatch, name):
    mutate_perturb(
        monkeypatch, lambda sums, r, hop: (sums, replace(r, noise_std=r.noise_std / 2), hop)
    )
    assert outcome(name) == "refuted"


@pytest.mark.parametrize("name", [EDGE, PARTICIPANT, ALL_TERMS])
def test_a_stage_that_asks_for_other_noise_than_its_plan_is_refused(monkeypatch, name):
    """Broken in the wiring of GAP's stage, which the audit runs, not in the aggregation."""
    release = aggregation.Release

    def quiet(*, noise_std, **others):
        return release(noise_std=noise_std / 2, **others)

    monkeypatch.setattr(aggregation, "Release", quiet)
    with pytest.raises(GraphDPError, match=r"aggregation: the plan accounts .* but it was"):
        outcome(name)


def test_one_noise_for_both_hops(monkeypatch):
    mutate_perturb(monkeypatch, lambda sums, r, hop: (sums, r, 1))
    assert outcome(TWO_HOPS) == "refuted"


def test_rows_that_are_not_normalised(monkeypatch):
    normalize = aggregation.normalize_rows
    monkeypatch.setattr(aggregation, "normalize_rows", lambda x: 2 * normalize(x))
    assert outcome(EDGE) == "refuted"


def test_lists_that_are_not_bounded_are_refused(monkeypatch):
    """By the stage, which the audit runs: nothing is released of such lists."""
    monkeypatch.setattr(
        degree, "bound_out_degree", lambda indptr, indices, *_: np.ones(len(indices), dtype=bool)
    )
    with pytest.raises(GraphDPError, match=r"has 12 out-edges where the plan accounts 4"):
        outcome(PARTICIPANT)


def test_lists_that_are_not_bounded_exceed_the_claim(monkeypatch):
    """Why they are refused: the aggregation of such lists, run without its stage."""
    monkeypatch.setattr(_Aggregation, "release", Mechanism.release)
    monkeypatch.setattr(
        degree, "bound_out_degree", lambda indptr, indices, *_: np.ones(len(indices), dtype=bool)
    )
    assert outcome(PARTICIPANT) == "refuted"


@pytest.mark.slow
def test_the_own_row_released():
    """The same runs: with the removed node's row withheld nothing is learnt, with it everything."""
    claim = get("gap-node-own-row-k1-eps8")
    calibration = calibrate(claim.reference, claim.target_epsilon, claim.delta)
    mechanism = _mechanism(calibration)
    released = audit.own_row(60)

    def bound(construction):
        scores = [
            audit.draw_scores(construction, mechanism, world, 4 * DRAWS, 0)
            for world in ("present", "absent")
        ]
        return lower_bound(*scores, claim.delta).epsilon

    assert bound(replace(released, hidden=(0,))) == 0
    assert bound(released) > claim.target_epsilon - 1
    # At the smaller claims one row refutes with these few runs.
    assert outcome("gap-node-own-row-k1-eps1") == "refuted"


@pytest.mark.alike
@pytest.mark.slow
@pytest.mark.parametrize("name", [CANARY, CLASSIFIER, ONE_RUN])
def test_training_with_half_of_the_noise(monkeypatch, name):
    add = GridNoise.add
    monkeypatch.setattr(GridNoise, "add", lambda self, sums, std: add(self, sums, std / 2))
    assert outcome(name) == "refuted"


@pytest.mark.slow
def test_training_with_twice_the_clip(monkeypatch):
    add = chunk.add_clipped_gradients

    def doubled(stack, block, labels, present, clip, gradients, scratch):
        add(stack, block, labels, present, 2 * clip, gradients, scratch)

    monkeypatch.setattr(chunk, "add_clipped_gradients", doubled)
    assert outcome(CANARY) == "refuted"


@pytest.mark.slow
def test_training_that_takes_everyone_in_every_round(monkeypatch):
    class Everyone(chunk.PoissonRounds):
        def __init__(self, size, rate, rng):
            super().__init__(size, 1.0, rng)

    monkeypatch.setattr(chunk, "PoissonRounds", Everyone)
    assert outcome(CANARY) == "refuted"


@pytest.mark.parametrize("name", [CANARY, CLASSIFIER])
def test_a_stage_that_trains_with_half_of_the_noise_is_refused(monkeypatch, name):
    """Broken in the wiring that methods share, not in the trainer."""
    member = train_runs.Member

    def quiet(*, noise_multiplier, **others):
        return member(noise_multiplier=noise_multiplier / 2, **others)

    monkeypatch.setattr(train_runs, "Member", quiet)
    with pytest.raises(GraphDPError, match=r"classifier: the plan accounts noise std .* but"):
        outcome(name, draws=1)  # the first training says it, however many there are


def test_one_step_more_than_accounted_is_refused(monkeypatch):
    class More(train_runs.DPAdam):
        def __init__(self, *arguments, **others):
            super().__init__(*arguments, **others)
            object.__setattr__(self, "steps", self.steps + 1)

    monkeypatch.setattr(train_runs, "DPAdam", More)
    with pytest.raises(GraphDPError, match=r"accounts noisy rounds .* 8 but it was 9;"):
        outcome(CANARY, draws=1)
