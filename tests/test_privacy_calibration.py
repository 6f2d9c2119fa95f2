"""Calibration: the least noise that meets the target, never above it, and every refusal."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphdp.errors import GraphDPError
from graphdp.io import write_json
from graphdp.methods.dpdgc.plan import corrected_plan
from graphdp.methods.gap.plan import gap_plan
from graphdp.methods.mlp.plan import mlp_plan
from graphdp.privacy import accounting, calibration, least_noise
from graphdp.privacy.calibration import LEAST_SHARE, calibrate, default_delta
from graphdp.privacy.plan import Plan
from graphdp.workflow.calibrations import Kept, calibrate_cell

TRAINING = {"num_train": 19800, "batch_size": 256, "epochs": 10, "max_grad_norm": 1.0}
GAP_NODE = gap_plan("node", hops=2, max_degree=100, **TRAINING)
MLP_NODE = mlp_plan("node", **TRAINING)
GAP_EDGE = gap_plan("edge", hops=3)


@pytest.mark.parametrize("target", [0.1, 0.5, 1, 4, 8, 16, 32])
@pytest.mark.parametrize("plan", [GAP_NODE, MLP_NODE, GAP_EDGE], ids=["gap", "mlp", "edge"])
def test_the_smallest_noise_within_the_target(plan, target):
    result = calibrate(plan, target, 1e-6)
    noise = result.noise_multiplier
    assert LEAST_SHARE * target <= result.epsilon <= target
    assert result.epsilon == accounting.epsilon(plan, noise, 1e-6)
    # Smallest: one part in ten thousand less noise breaks the target.
    assert accounting.epsilon(plan, noise * (1 - 1e-4), 1e-6) > target
    assert result.accounting[0].accountant == "autodp"
    for entry in result.accounting:
        if entry.accountant in ("autodp", "exact"):
            assert entry.epsilon <= target


def test_no_other_valid_accountant_reads_an_epsilon_above_the_target():
    for target in (1, 8, 16):
        result = calibrate(GAP_NODE, target, 1e-6, with_pld=True)
        by_name = {entry.accountant: entry.epsilon for entry in result.accounting}
        assert set(by_name) == {"autodp", "dp_accounting", "pld"}
        assert max(by_name.values()) <= target
        assert by_name["pld"] < by_name["autodp"]


def test_known_edge_level_noise():
    """K = 3, ε = 1, δ = 1e-7 composes exactly at σ = 8.104 (GAP's code; ProGAP's needs 8.620)."""
    assert calibrate(GAP_EDGE, 1, 1e-7).noise_multiplier == pytest.approx(8.104, abs=1e-3)


@settings(max_examples=15)
@given(
    st.integers(0, 5),
    st.integers(300, 10**6),
    st.sampled_from([64, 256, 2048]),
    st.integers(1, 20),
    st.floats(0.5, 32),
    st.sampled_from([1e-8, 1e-6, 1e-5]),
)
def test_calibrate_then_account_returns_the_target(hops, nodes, batch, epochs, target, delta):
    plan = gap_plan("node", hops, 100, nodes, batch, epochs, 1.0)
    result = calibrate(plan, target, delta)
    again = accounting.epsilon(plan, result.noise_multiplier, delta)
    assert again <= target
    assert again >= 0.999 * target


@settings(max_examples=30)
@given(st.integers(1, 20), st.floats(1e-3, 100), st.sampled_from([1e-9, 1e-5, 0.01]))
def test_edge_level_noise_grows_as_the_root_of_the_hops(hops, target, delta):
    one = calibrate(gap_plan("edge", 1), target, delta).noise_multiplier
    many = calibrate(gap_plan("edge", hops), target, delta).noise_multiplier
    assert many == pytest.approx(math.sqrt(hops) * one, rel=3e-5)


@pytest.mark.slow
@pytest.mark.parametrize("level", ["edge", "k1", "k5"])
def test_another_processors_last_digits_leave_the_noise_as_it_is(level, monkeypatch):
    """Transforms differ by 1e-12 or so from processor to processor; the noise names the streams."""
    classifier = {"classifier_epochs": 1} if level != "edge" else {}
    plan = corrected_plan(
        level, num_train=24, batch_size=6, epochs=1, max_grad_norm=0.1, **classifier
    )
    noise, epsilon = calibrate(plan, 4, 1e-3).noise_multiplier, accounting.epsilon
    assert epsilon(plan, noise, 1e-3) <= 4 and float(np.float32(noise)) == noise
    for factor in (1 - 1e-12, 1 + 1e-12):
        monkeypatch.setattr(accounting, "epsilon", lambda *a, f=factor: f * epsilon(*a))
        assert calibrate(plan, 4, 1e-3).noise_multiplier == noise


@given(st.floats(1e-6, 1e9))
def test_noise_is_rounded_up_by_a_ten_millionth_at_most(noise):
    rounded = least_noise.rounded_up(noise)
    assert noise <= rounded <= noise * (1 + 1.2e-7) and least_noise.rounded_up(rounded) == rounded


def test_infinite_epsilon_is_noise_zero():
    for plan in (GAP_NODE, GAP_EDGE, gap_plan("none", hops=2), mlp_plan("none")):
        result = calibrate(plan, math.inf, None)
        assert result.noise_multiplier == 0.0
        assert result.epsilon == math.inf
        assert accounting.epsilon(plan, result.noise_multiplier, 1e-5) == math.inf


def test_epsilon_zero_is_a_plan_that_releases_nothing():
    for plan in (mlp_plan("edge"), gap_plan("edge", hops=0)):
        result = calibrate(plan, 0, None)
        assert result.noise_multiplier is None
        assert result.epsilon == 0.0
        with pytest.raises(GraphDPError, match="releases nothing, so its epsilon is 0 and not 1"):
            calibrate(plan, 1, 1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((GAP_NODE, 0, 1e-5), "epsilon 0 is out of reach"),
        ((GAP_NODE, -1, 1e-5), "epsilon is -1"),
        ((GAP_NODE, math.nan, 1e-5), "epsilon is nan"),
        ((GAP_NODE, "1", 1e-5), "epsilon is '1'"),
        ((GAP_NODE, 1, None), "delta is None"),
        ((GAP_NODE, 1, 1.0), "delta is 1.0"),
        ((GAP_NODE, 1, 0.0), "delta is 0.0"),
        ((gap_plan("none", hops=2), 1, 1e-5), "without noise"),
        ((GAP_NODE, 1e-5, 1e-9), "the accountant reads at least 0.00"),
        ((GAP_EDGE, 1e14, 1e-5), "needs a noise multiplier below"),
        # Poisson batches, whose accounting is of a node that comes or goes.
        (
            (replace(GAP_NODE, adjacency="node_replace"), 4, 1e-6),
            "ask for accountant pld, or sample",
        ),
    ],
)
def test_what_cannot_be_calibrated_is_said_in_one_line(arguments, message):
    with pytest.raises(GraphDPError) as error:
        calibrate(*arguments)
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("factor", "message"),
    [(0.99, "above 4"), (1.05, "jumps from above epsilon 4"), (0.0, "noise multiplier 0")],
)
def test_a_wrong_noise_fails_the_post_conditions(monkeypatch, factor, message):
    """Whatever goes wrong in the search, a calibration that breaks its promise is not returned."""
    search = least_noise.smallest_noise
    monkeypatch.setattr(calibration, "smallest_noise", lambda *a: factor * search(*a))
    with pytest.raises(GraphDPError, match=message):
        calibrate(GAP_EDGE, 4, 1e-6)


def test_where_the_bound_without_replacement_gives_out_is_one_line():
    """Of noise so large dp-accounting's bound takes the logarithm of 0."""
    plan = mlp_plan("node", 1000, 999, 1, 1.0, adjacency="node_replace")
    with pytest.raises(GraphDPError, match="and more noise does not help; raise epsilon or delta"):
        calibrate(plan, 0.1, 1e-12)


def test_an_accountant_whose_arithmetic_is_coarse_is_one_line(monkeypatch):
    """Where it reads whole tenths there is nothing between 1.0, above the target, and 0.9. (Real
    ones are coarse where ε is near what they round off; where that is differs by machine.)"""
    plan = mlp_plan("node", 1000, 100, 1, 1.0, adjacency="node_replace")
    whole, pair = accounting.epsilon, accounting.google_rdp_epsilon
    monkeypatch.setattr(accounting, "epsilon", lambda *a: round(whole(*a), 1))
    monkeypatch.setattr(
        accounting, "google_rdp_epsilon", lambda *a: (round(pair(*a)[0], 1), pair(*a)[1])
    )
    with pytest.raises(GraphDPError, match=r"jumps from above epsilon 0.94 down to 0.9, ") as error:
        calibrate(plan, 0.94, 1e-5)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_where_rounding_ends_the_search_more_noise_is_not_advised():
    plan = mlp_plan("node", 2000, 256, 3, 1.0, adjacency="node_replace")
    with pytest.raises(
        GraphDPError,
        match=r"^mlp, node level: epsilon 0\.01 is out of reach: its .*"
        r"round off where it reads 0\.\d+, .* not help; raise epsilon or delta$",
    ):
        calibrate(plan, 0.01, 1e-12)  # fmt: skip
    with pytest.raises(GraphDPError, match=r"down to 0, .* in between apart; raise epsilon or d"):
        calibrate(plan, 1e-3, 1e-5)
    # Of ten million rounds without sampling ε still falls with the noise.
    plan = mlp_plan("node", 10, 10, calibration.MOST_ROUNDS, 1.0)
    with pytest.raises(GraphDPError, match="1e-06 needs a noise multiplier above"):
        calibrate(plan, 1e-6, 1e-12)


@pytest.mark.slow
def test_loss_distributions_reach_an_epsilon_that_renyi_dp_does_not():
    plan = replace(mlp_plan("node", 2000, 256, 3, 1.0), accountant="pld")
    result = calibrate(plan, 1e-4, 1e-5)
    assert LEAST_SHARE * 1e-4 <= result.epsilon <= 1e-4 < result.accounting[1].epsilon
    # The central limit of so many tiny rounds: a Gaussian of μ = q √T / σ (Bu et al. 2020).
    mu = 256 / 2000 * math.sqrt(23) / result.noise_multiplier
    assert accounting.gaussian_epsilon(mu, 1e-5) == pytest.approx(1e-4, rel=0.05)
    with pytest.raises(GraphDPError, match="is out of reach: with any noise"):
        calibrate(replace(plan, accountant="auto"), 1e-4, 1e-5)


@pytest.mark.parametrize(("target", "delta"), [(4, 0.999), (0.01, 0.9), (1, 0.99)])
def test_a_delta_that_only_one_library_bounds_by_kl_is_said_to_be_too_large(target, delta):
    message = f"delta {delta} is so large that .* autodp reads .* give a delta below 1 / number"
    with pytest.raises(GraphDPError, match=message) as error:
        calibrate(mlp_plan("node", 2000, 256, 3, 1.0), target, delta)
    assert "versions" not in str(error.value)


def test_an_epsilon_of_zero_at_an_ordinary_delta_is_a_disagreement(monkeypatch):
    monkeypatch.setattr(accounting, "google_rdp_epsilon", lambda *a: (0.0, 2))
    for delta in (1e-6, 0.05):
        with pytest.raises(GraphDPError, match="accountants disagree"):
            accounting.cross_check(GAP_NODE, 1.0, delta)


@pytest.mark.parametrize(
    ("plan", "advice"),
    [
        (corrected_plan("edge", None, 2000, 256, 3, None, 1.0), "smaller epsilon"),
        (
            replace(mlp_plan("node", 2000, 256, 3, 1.0), accountant="pld"),
            "smaller epsilon, or for accountant auto",
        ),
    ],
)
def test_of_too_little_noise_for_loss_distributions_only_what_there_is_is_advised(plan, advice):
    with pytest.raises(GraphDPError, match=f"below 0.1 it takes minutes; ask for a {advice}$"):
        accounting.epsilon(plan, 0.09, 1e-5)


def test_disagreeing_accountants_stop_a_calibration(monkeypatch):
    true = accounting.google_rdp_epsilon
    monkeypatch.setattr(
        accounting, "google_rdp_epsilon", lambda *a: (true(*a)[0] * 0.99, true(*a)[1])
    )
    with pytest.raises(GraphDPError, match="accountants disagree"):
        calibrate(GAP_NODE, 4, 1e-6)
    monkeypatch.undo()
    closed = accounting.gaussian_epsilon
    monkeypatch.setattr(accounting, "gaussian_epsilon", lambda mu, d: 1.01 * closed(mu, d))
    with pytest.raises(GraphDPError, match="closed form"):
        calibrate(GAP_EDGE, 4, 1e-6)


@pytest.mark.parametrize(
    ("plan", "epsilon", "delta"),
    [
        (GAP_NODE, 8, 1e-5),
        (GAP_EDGE, 1, 1e-7),
        (GAP_EDGE, math.inf, None),
        (mlp_plan("edge"), 0, None),
    ],
)
def test_the_artefact_is_plain_json_and_never_a_bare_epsilon(tmp_path, plan, epsilon, delta):
    result = calibrate(plan, epsilon, delta)
    write_json(tmp_path / "noise.json", result.to_dict())
    read = json.loads((tmp_path / "noise.json").read_text())
    assert read["noise_multiplier"] == result.noise_multiplier
    assert read["delta"] == delta
    assert (read["adjacency"], read["status"], read["basis"]) == (
        plan.adjacency,
        plan.status,
        plan.basis,
    )
    assert Plan.from_dict(read["plan"]) == plan
    names = [entry["accountant"] for entry in read["accounting"]]
    assert names[0] == "autodp"
    if 0 < epsilon < math.inf:
        assert "dp_accounting" in names
        assert all(
            entry["library"] or entry["accountant"] == "exact" for entry in read["accounting"]
        )
    if epsilon == math.inf:
        assert read["epsilon"] == "inf"


def test_calibrations_are_immutable_and_hashable():
    result = calibrate(GAP_EDGE, 1, 1e-7)
    assert hash(result) == hash(calibrate(GAP_EDGE, 1, 1e-7))
    with pytest.raises(AttributeError):
        result.noise_multiplier = 1.0


@pytest.mark.parametrize(
    ("count", "expected"), [(1, 0.1), (9, 0.1), (10, 0.01), (19804, 1e-5), (2117924, 1e-7)]
)
def test_default_delta_is_below_one_over_the_units(count, expected):
    assert default_delta(count) == expected
    assert default_delta(count) < 1 / count


@pytest.mark.parametrize("count", [0, -3, 1.5, True])
def test_default_delta_refuses_nonsense(count):
    with pytest.raises(GraphDPError, match="count of units"):
        default_delta(count)


def test_which_job_calibrates_first_shows_in_no_byte(tmp_path):
    """Who calibrates and who finds it kept write the same: the faster job does not show in rows."""
    setting = {"epochs": 3, "batch_size": 16, "max_grad_norm": 1.0}
    made, found = (
        calibrate_cell(
            "small", "mlp", "node", "2", [setting], [100], 300, "auto",
            kept=Kept(tmp_path, "of the code"),
        )
        for _ in range(2)
    )  # fmt: skip
    assert len(list(tmp_path.iterdir())) == 1 and found[0]["epsilons"]
    assert json.dumps(made) == json.dumps(found)
