"""Privacy loss distributions where they are asked for: less noise, and what may not change."""

import json
import math
import tempfile
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest
from scipy.special import ndtr

from graphdp import cli, config
from graphdp.attacks.membership import membership_epsilon
from graphdp.errors import GraphDPError
from graphdp.methods.registry import analyses
from graphdp.privacy import accounting
from graphdp.privacy.accounting.by_google import parts_pld
from graphdp.privacy.calibration import CALIBRATE_FOR, calibrate, calibration_plan
from graphdp.privacy.composition import as_read, composed_epsilon, epsilon_at, parts
from graphdp.privacy.mechanisms.fixed_size_dpsgd import KnownDraws
from graphdp.privacy.plan import (
    ASKED,
    FixedSizeDPSGD,
    Plan,
    PoissonDPSGD,
    PoissonGroupDPSGD,
    Sensitivity,
    accounted_by,
)
from graphdp.workflow.calibrations import calibrate_cell, of_block
from graphdp.workflow.grid import Grid
from graphdp.workflow.preflight import prepare
from graphdp.workflow.released import calibrate_study_cell
from test_privacy_statement import make

TRAIN, DELTA = 2031, 1e-4
ROUNDS = {"epochs": 10, "batch_size": 256, "max_grad_norm": 1.0}
SETTINGS = {
    "mlp": ROUNDS,
    "gap": ROUNDS | {"hops": 3, "max_degree": 10, "encoder": True},
    "progap": ROUNDS | {"depth": 3, "max_degree": 10},
    "sage": ROUNDS | {"max_degree": 10},
}


def participant(method, accountant="pld"):
    plans = accounted_by(accountant, analyses(method, "node", SETTINGS[method], TRAIN))
    return calibration_plan(plans, "corrected"), plans


@pytest.mark.parametrize("method", SETTINGS)
@pytest.mark.parametrize("epsilon", [1.0, 16.0])
def test_it_needs_less_noise_and_keeps_its_promise(method, epsilon):
    (own, _), (asked, plans) = participant(method, "auto"), participant(method)
    loose, found = (calibrate(plan, epsilon, DELTA) for plan in (own, asked))
    assert [one.accountant for one in found.accounting] == ["pld", "autodp_rdp"]
    assert 0.999 * epsilon <= found.epsilon <= epsilon < found.accounting[1].epsilon
    assert 1.05 < loose.noise_multiplier / found.noise_multiplier < 1.11
    # By the library itself, in bins a tenth as wide: ε is not above the target, nor far below.
    noise = found.noise_multiplier
    with_finer = parts_pld([(asked.composition, noise)], 1e-4).get_epsilon_for_delta(DELTA)
    assert 0.99 * epsilon < with_finer <= epsilon
    # Of every analysis of the same noise the ε is at most that of Rényi DP.
    for plan in plans:
        if plan.composition.unnoised:
            continue
        tight = epsilon_at(plan, asked, noise, DELTA)
        (alike,) = accounted_by("auto", [plan])
        assert tight <= epsilon_at(alike, own, noise, DELTA) * (1 + 1e-9), plan.adjacency


def test_what_composes_exactly_is_not_read_otherwise():
    """Gaussian releases alone by the closed form, pure ones by their sum, as without asking."""
    for method, settings in (("gap", {"hops": 2}), ("sage", {"perturbation": "asymmetric"})):
        for plan in analyses(method, "edge", settings, TRAIN):
            (asked,) = accounted_by("pld", [plan])
            if plan.basis == "as_implemented":
                continue
            one, other = calibrate(plan, 2.0, 1e-5), calibrate(asked, 2.0, 1e-5)
            assert one.noise_multiplier == other.noise_multiplier
            assert one.accounting == other.accounting


def test_the_plan_that_is_written_down_says_who_was_asked():
    (own, _), (asked, _) = participant("gap", "auto"), participant("gap")
    assert "accountant" not in own.to_dict() and asked.to_dict()["accountant"] == "pld"
    assert Plan.from_dict(json.loads(json.dumps(asked.to_dict()))) == asked != own
    assert Plan.from_dict(own.to_dict()) == own
    with pytest.raises(GraphDPError, match="accountant is 'rdp'; choose one of auto, pld"):
        accounted_by("rdp", [own])


def test_parts_of_a_composition_keep_who_was_asked():
    asked, _ = participant("gap")
    composition = asked.composition
    assert composition.asks_pld
    assert composition.sketch.asks_pld and composition.lasting.asks_pld
    ((alone, _),) = parts(asked, asked, 2.0)
    assert alone.asks_pld


def test_a_distribution_above_renyi_dp_is_refused(monkeypatch):
    """Rényi DP can only be looser: where it says less, one of them is wrong."""
    asked, _ = participant("mlp")
    tight, loose = accounting.cross_check(asked, 1.0, DELTA)
    assert tight < loose == accounting.epsilon(asked, 1.0, DELTA, "autodp_rdp")
    wrong = {"autodp_rdp": lambda *of: tight * 0.99}
    monkeypatch.setattr(accounting, "_EPSILON", accounting._EPSILON | wrong)
    with pytest.raises(GraphDPError, match=r"the accountants disagree.*autodp_rdp"):
        accounting.cross_check(asked, 1.0, DELTA)


def one_round(rate):
    clip = Sensitivity(2.0, "2C", "a replaced record")
    made = (PoissonDPSGD("gradients", rate, 1, clip, "training"),)
    return Plan("mlp", "node", "node_replace", "corrected", "proven", (), None, made)


@pytest.mark.parametrize("rate", [0.05, 0.3])
@pytest.mark.parametrize("noise", [0.5, 1.5])
def test_a_replaced_record_against_the_two_worlds_themselves(rate, noise):
    """One round, gradients of 1 and -1: a sum drawn with this record or without, at noise 2σ."""
    (plan,) = accounted_by("pld", [one_round(rate)])
    std = 2 * noise
    x = np.linspace(-1 - 9 * std, 1 + 9 * std, 400_001)

    def density(shift):
        return np.exp(-((x - shift) ** 2) / (2 * std**2)) / (std * math.sqrt(2 * math.pi))

    up, down = ((1 - rate) * density(0) + rate * density(s) for s in (1, -1))
    found = epsilon_at(plan, plan, noise, 1e-3)
    exact = np.maximum(up - math.exp(found) * down, 0).sum() * (x[1] - x[0])
    assert exact <= 1e-3 * (1 + 1e-6)
    assert exact == pytest.approx(1e-3, rel=0.01)
    # By two moves, as without asking, ε is larger, and holds as well.
    (alike,) = accounted_by("auto", [plan])
    assert found < epsilon_at(alike, alike, noise, 1e-3)


def test_a_replaced_record_where_batches_hold_everyone_is_a_gaussian_release():
    (plan,) = accounted_by("pld", [one_round(1.0)])
    exact = accounting.gaussian_epsilon(1 / 0.8, 1e-5)
    assert epsilon_at(plan, plan, 0.8, 1e-5) == pytest.approx(exact, rel=1e-9)
    mu = 1 / 0.8
    delta = ndtr(mu / 2 - exact / mu) - math.exp(exact) * ndtr(-mu / 2 - exact / mu)
    assert delta == pytest.approx(1e-5, rel=1e-6)


def test_several_models_together_are_read_as_one_larger_plan():
    """Two equal models are one of twice the rounds and releases."""
    asked, _ = participant("gap")
    twice = parts(asked, asked, 3.0) * 2
    both = calibration_plan(
        accounted_by("pld", analyses("gap", "node", SETTINGS["gap"], TRAIN)), "corrected"
    )
    doubled = tuple(
        type(m)(**{**vars(m), **({"steps": 2 * m.steps} if hasattr(m, "steps") else {"count": 6})})
        for m in both.mechanisms
    )
    larger = Plan(**{**vars(both), "mechanisms": doubled})
    assert composed_epsilon(twice, DELTA) == pytest.approx(
        epsilon_at(larger, larger, 3.0, DELTA), rel=1e-3
    )


def test_a_search_is_read_in_renyi_dp_either_way():
    grid = [{"hops": k} for k in (1, 2)]
    of_study = {}
    for accountant in ("auto", "pld"):
        (entry, *_) = made = make("gap", "node", "4", grid, "corrected", accountant=accountant)
        assert [one.epsilon for one in entry.accounting if one.adjacency == "participant"] == [
            pytest.approx(4.0, rel=1e-3)
        ]
        of_study[accountant] = made
    (said,) = {
        (one.accountant, one.method)
        for one in of_study["pld"][0].accounting
        if one.adjacency == "participant"
    }
    assert said == ("pld", "privacy loss distribution, Poisson amplification")
    own_list = "node_replace_own_list"
    (replaced,) = [a for a in of_study["pld"][0].accounting if a.adjacency == own_list]
    assert replaced.method == "privacy loss distribution of groups"
    assert not any("group privacy" in one.method for one in of_study["pld"][0].accounting)
    assert any("group privacy" in one.method for one in of_study["auto"][0].accounting)
    # The noise is less, and a search reads it without loss distributions: its ε is larger.
    searched = {
        who: {
            (one.how, one.adjacency): one.epsilon
            for one in made[0].selection.entries
            if one.adjacency == "participant"
        }
        for who, made in of_study.items()
    }
    for how in ("random_search", "composition"):
        ratio = searched["pld"][how, "participant"] / searched["auto"][how, "participant"]
        assert 1.05 < ratio < 1.2, how


def test_the_choice_among_one_model_costs_what_the_model_does():
    (made,) = make("mlp", "node", "4", [{}], "corrected", accountant="pld")
    own = {one.adjacency: one.epsilon for one in made.accounting if one.basis == "corrected"}
    chosen = [(one.how, one.adjacency, one.epsilon) for one in made.selection.entries]
    for how in ("composition", "random_search"):
        for adjacency in ("participant", "node_replace"):
            assert (how, adjacency, pytest.approx(own[adjacency], rel=1e-6)) in chosen


def test_a_study_that_asks_calibrates_with_less_noise():
    entry = {"method": "mlp", "level": "node", "epsilon": 4}
    study = {"study": "s", "datasets": ["pubmed"], "experiments": {"a": [entry]}}
    noises = {}
    for accountant in ("auto", "pld"):
        grid = Grid(config.validate(study | {"accountant": accountant}))
        (cell,) = grid.cells
        asked = grid.calibrated(cell)
        (unit,) = (u for u in grid.units.values() if u.calibrated)
        assert asked["accountant"] == grid.task(unit)["noise"]["accountant"] == accountant
        (made,) = calibrate_cell(
            *(asked[name] for name in ("dataset", "method", "level", "epsilon", "settings")),
            [TRAIN], 5000, DELTA, "corrected", 2708, accountant=asked["accountant"],
        )  # fmt: skip
        noises[accountant] = made["noise_multiplier"]
        (holds,) = [e["epsilon"] for e in made["epsilons"] if e["adjacency"] == "participant"]
        assert 3.99 < holds <= 4
    assert 1.05 < noises["auto"] / noises["pld"] < 1.11
    with pytest.raises(GraphDPError, match=r"accountant.*'auto'.*'pld'"):
        config.validate(study | {"accountant": "rdp"})


def test_the_command_takes_an_accountant(capsys):
    words = "calibrate mlp --level node --epsilon 8 --delta 1e-5 --train-nodes 19800 --epochs 10"
    found = {}
    for accountant in ("auto", "pld"):
        line = f"{words} --batch-size 256 --accountant {accountant} --json".split()
        assert cli.main(line) == 0
        found[accountant] = json.loads(capsys.readouterr().out)
    assert found["pld"]["accounting"][0]["accountant"] == "pld"
    assert found["pld"]["noise_multiplier"] < 0.96 * found["auto"]["noise_multiplier"]
    by_name = {one["accountant"]: one["epsilon"] for one in found["auto"]["accounting"]}
    assert by_name["pld"] < by_name["autodp"] <= 8


# --- noise for a replaced node --------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1.0, 16.0])
def test_noise_for_a_replaced_node_is_that_of_the_same_rounds_of_dpdgc(epsilon):
    """Its classifier's phase is written down for a replaced record from the start."""
    plans = accounted_by("pld", analyses("mlp", "node", ROUNDS, TRAIN))
    plan = calibration_plan(plans, "replaced")
    assert (plan.adjacency, plan.basis) == ("node_replace", "corrected")
    found = calibrate(plan, epsilon, DELTA)
    (rounds,) = plan.mechanisms
    clip = Sensitivity(1.0, "C", "clipped")
    rate, steps = rounds.sampling_rate, rounds.steps
    group = PoissonGroupDPSGD("gradients", rate, steps, 1, clip, 2.0, "classifier")
    theirs = Plan("test", "node", "node_replace", "corrected", "proven", (), None, (group,))
    assert found.noise_multiplier == calibrate(theirs, epsilon, DELTA).noise_multiplier
    assert rounds.noise_std(found.noise_multiplier) == group.noise_std(found.noise_multiplier)
    assert [one.accountant for one in found.accounting] == ["pld", "renyi"]
    # By two moves the same noise is worth more ε, and no one else can be asked for this plan.
    (alike,) = accounted_by("auto", [plan])
    assert epsilon_at(alike, alike, found.noise_multiplier, DELTA) > 1.1 * epsilon
    with pytest.raises(GraphDPError, match="ask for accountant pld"):
        calibrate(alike, epsilon, DELTA)


def test_gap_for_a_replaced_node_has_sums_of_its_own_bound():
    """Where no list is sampled: else no noise is for a node replaced with all of its edges."""
    plans = accounted_by("pld", analyses("gap", "node", SETTINGS["gap"], TRAIN))
    assert calibration_plan(plans, "replaced").adjacency == "participant"
    public = SETTINGS["gap"] | {"degree_bound": "public_candidates"}
    plans = accounted_by("pld", analyses("gap", "node", public, TRAIN))
    plan = calibration_plan(plans, "replaced")
    assert plan.adjacency == "node_replace" and plan.status == "conditional"
    noise = calibrate(plan, 8.0, DELTA).noise_multiplier
    summed = [m for m in plan.mechanisms if hasattr(m, "sensitivity")]
    (bound,) = {m.sensitivity.value for m in summed}
    assert bound == pytest.approx(2 * math.sqrt(10))
    # The rounds alone, at sampling everyone, and the sums: all Gaussian.
    steps = sum(m.steps for m in plan.mechanisms if hasattr(m, "steps"))
    releases = sum(m.count for m in summed)
    most = accounting.gaussian_epsilon(math.sqrt(steps + releases) / noise, DELTA)
    least = accounting.gaussian_epsilon(math.sqrt(releases) / noise, DELTA)
    assert least < epsilon_at(plan, plan, noise, DELTA) <= 8 < most


def test_a_method_without_a_replaced_node_says_so(capsys):
    line = "calibrate heterpoisson --level node --epsilon 2 --delta 1e-5 --train-nodes 15773"
    line += " --batch-size 4096 --epochs 9 --num-neighbors 1 --calibrate-for replaced"
    assert cli.main(line.split()) != 0
    said = capsys.readouterr().err
    assert "no corrected analysis of a replaced node" in said and said.count("\n") == 1
    plans = analyses("gap", "edge", {"hops": 2}, TRAIN)
    assert calibration_plan(plans, "replaced") == calibration_plan(plans, "corrected")


# --- where loss distributions cannot follow -------------------------------------------------------


def test_a_noise_that_is_too_small_for_them_is_read_in_renyi_dp():
    """mlp at ε = 512: its noise for a replaced node is half of 0.14, below what is followed."""
    asked, plans = participant("mlp")
    found = calibrate(asked, 512.0, DELTA)
    assert 0.1 < found.noise_multiplier < 0.2
    (replaced,) = [plan for plan in plans if plan.adjacency == "node_replace"]
    (alike,) = accounted_by("auto", [replaced])
    read = as_read(replaced, asked, found.noise_multiplier)
    assert read == alike and as_read(asked, asked, found.noise_multiplier) == asked
    expected = epsilon_at(alike, accounted_by("auto", [asked])[0], found.noise_multiplier, DELTA)
    assert epsilon_at(replaced, asked, found.noise_multiplier, DELTA) == expected > 512
    (made,) = make("mlp", "node", "900", [{}], "corrected", accountant="pld")
    by = {one.adjacency: one.accountant for one in made.accounting if one.basis == "corrected"}
    assert by == {"participant": "pld", "node_replace": ""}
    (last,) = [one.epsilon for one in made.accounting if one.adjacency == "node_replace"]
    assert last == "inf"  # two moves have no δ left to share


def test_more_small_steps_than_bins_are_fine_enough_for_are_refused():
    settings = {"epochs": 100, "batch_size": 1000, "max_grad_norm": 1.0}
    plans = accounted_by("pld", analyses("mlp", "node", settings, 1_000_000))
    with pytest.raises(GraphDPError, match="ask for accountant auto, or for fewer steps"):
        calibrate(calibration_plan(plans, "corrected"), 1.0, 1e-7)


@pytest.mark.parametrize("sigma", [500.0, 1e5])
def test_a_tiny_epsilon_is_not_below_the_exact_one(sigma):
    """One fixed-size round, against the mean over batches: in bins of 1e-9 it was, by 1e-12."""
    draws = KnownDraws(2031, 256, 11, sigma)
    clip = Sensitivity(22.0, "2GC", "a group")
    made = (FixedSizeDPSGD("gradients", 2031, 256, 11, 1, clip, "training"),)
    plan = Plan("sage", "node", "participant", "corrected", "proven", (), None, made, "pld")
    found = epsilon_at(plan, plan, sigma, 1e-4 if sigma < 1e4 else 5e-7)
    assert found < 1e-4
    (reached,) = draws.delta(np.array([found]))
    assert reached <= (1e-4 if sigma < 1e4 else 5e-7)


def test_what_training_alone_costs_is_read_as_the_whole_plan_is():
    asked, _ = participant("mlp")
    entry = calibrate(asked, 4.0, DELTA).to_dict()
    assert membership_epsilon(entry) == pytest.approx(4.0, rel=1e-3)
    # Of noise for a replaced node: what it is worth for one that comes or goes.
    plans = accounted_by("pld", analyses("mlp", "node", ROUNDS, TRAIN))
    replaced, comes = calibration_plan(plans, "replaced"), calibration_plan(plans, "corrected")
    found = calibrate(replaced, 4.0, DELTA)
    worth = epsilon_at(comes, replaced, found.noise_multiplier, DELTA)
    assert membership_epsilon(found.to_dict()) == pytest.approx(worth, rel=1e-6)
    assert worth < 0.6 * 4.0


def test_listed_experiments_are_for_the_corrected_analysis_whatever_the_others():
    entry = {"method": "mlp", "level": "node", "epsilon": 2}
    study = {"study": "s", "datasets": ["pubmed"], "experiments": {"a": [entry], "b": [entry]},
             "calibrate_for": "replaced", "corrected_experiments": ["b"]}  # fmt: skip
    made = config.validate(study)
    assert [made.calibrated_for(name) for name in "ab"] == ["replaced", "corrected"]


def test_a_replaced_node_of_poisson_samples_needs_its_accountant_before_a_job_is_started():
    entry = {"method": "mlp", "level": "node", "epsilon": 2}
    study = {"study": "s", "datasets": ["pubmed"], "calibrate_for": "replaced",
             "experiments": {"a": [entry], "b": [entry]}, "tables": [], "figures": []}  # fmt: skip
    for known in ({"accountant": "pld"}, {"corrected_experiments": ["a", "b"]}):
        assert prepare(study | known).study.calibrate_for == "replaced"
    for missing in ({}, {"corrected_experiments": ["a"]}):
        with pytest.raises(GraphDPError, match=r"^config: calibrate_for: mlp .*: pld$"):
            prepare(study | missing)
    # What has no such noise is refused, and not given that of another promise.
    for method in ("gap", "progap", "sage", "dpa"):
        other = study | {"accountant": "pld", "experiments": {"a": [entry | {"method": method}]}}
        with pytest.raises(GraphDPError, match=rf"calibrate_for: {method} at level node has no "):
            prepare(other)
    public = entry | {"method": "gap", "degree_bound": "public_candidates"}
    prepare(study | {"accountant": "pld", "experiments": {"a": [public]}})


def test_a_study_takes_what_calibration_knows():
    fields = config.Study.model_fields
    assert get_args(fields["calibrate_for"].annotation) == CALIBRATE_FOR
    assert get_args(fields["accountant"].annotation) == ASKED


def test_a_studys_accountant_reaches_its_jobs_and_its_statements():
    """Both ways to a calibration: the job that states it, and the one that trains with it."""
    graph = SimpleNamespace(num_nodes=2708, num_edges=5000)
    study = SimpleNamespace(train_nodes=TRAIN, delta=DELTA)
    cell = {"dataset": "g", "method": "mlp", "level": "node", "epsilon": "4", "settings": [ROUNDS],
            "calibrate_for": "corrected", "nodes_per_class": None}  # fmt: skip
    noises = {}
    for accountant in ("auto", "pld"):
        (stated,) = calibrate_study_cell(cell | {"accountant": accountant}, graph, study, None)
        block = SimpleNamespace(
            **{name: cell[name] for name in ("dataset", "method", "level", "epsilon")},
            graph=graph, seeds=[0], num_train=lambda seed: TRAIN, release="reproduction",
        )  # fmt: skip
        with tempfile.TemporaryDirectory() as cache:
            asked = cell | {"delta": DELTA, "accountant": accountant, "cache": cache}
            (run,) = of_block(block, asked | {"accounting": "digest"})
        assert run["noise_multiplier"] == stated["noise_multiplier"]
        noises[accountant] = run["noise_multiplier"]
    assert 1.05 < noises["auto"] / noises["pld"] < 1.11
