"""Plans: what is refused, what round-trips, and what the methods' plans release."""

import dataclasses
import json
import math
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphdp.errors import GraphDPError
from graphdp.methods.gap.plan import gap_plan
from graphdp.methods.mlp.plan import mlp_plan
from graphdp.methods.progap.plan import progap_plan
from graphdp.methods.sage.plan import sage_plan
from graphdp.privacy.assumptions import SIDES_FOLLOW_FROM_IDS
from graphdp.privacy.mechanisms.gaussian import GaussianTerm
from graphdp.privacy.mechanisms.poisson_dpsgd import PoissonSteps
from graphdp.privacy.mechanisms.without_replacement_dpsgd import WithoutReplacementSteps
from graphdp.privacy.plan import (
    Composition,
    GaussianReleases,
    Plan,
    PoissonDPSGD,
    Sensitivity,
    UnnoisedRelease,
    dpsgd_rounds,
)

UNIT = Sensitivity(1.0, "1", "by definition")
TRAINING = {"num_train": 19800, "batch_size": 256, "epochs": 10, "max_grad_norm": 1.0}


def gaussian(count=1, sensitivity=UNIT):
    return GaussianReleases("sum", sensitivity, count, "aggregation")


def dpsgd(sampling_rate=0.01, steps=100, max_grad_norm=UNIT):
    return PoissonDPSGD("gradients", sampling_rate, steps, max_grad_norm, "classifier")


def make_plan(*mechanisms, **changes):
    values = {
        "method": "test",
        "level": "node",
        "adjacency": "participant",
        "basis": "corrected",
        "status": "proven",
        "assumptions": ("one",),
        "own_row_covered": False,
        "mechanisms": mechanisms,
    }
    return Plan(**(values | changes))


def composed(gaussian_count, *terms):
    return Composition((*([GaussianTerm(gaussian_count)] if gaussian_count else []), *terms))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Sensitivity(-1.0, "x", "y"), "sensitivity is -1.0"),
        (lambda: Sensitivity(math.inf, "x", "y"), "sensitivity is inf"),
        (lambda: Sensitivity(1.0, "", "y"), "formula"),
        (lambda: gaussian(-1), "count is -1"),
        (lambda: gaussian(1.5), "count is 1.5"),
        (lambda: gaussian(True), "count is True"),
        (lambda: dpsgd(sampling_rate=0), "sampling rate is 0"),
        (lambda: dpsgd(sampling_rate=1.01), "sampling rate is 1.01"),
        (lambda: dpsgd(sampling_rate=math.nan), "sampling rate is nan"),
        (lambda: dpsgd(steps=-1), "steps is -1"),
        (lambda: dpsgd(max_grad_norm=Sensitivity(0, "0", "x")), "max_grad_norm is 0"),
        (lambda: make_plan(status="sure"), "status is 'sure'"),
        (lambda: make_plan(status=""), "status is ''"),
        (lambda: make_plan(status="conditional", assumptions=()), "name the conditions"),
        (lambda: make_plan(adjacency="node"), "adjacency is 'node'"),
        (lambda: make_plan(adjacency="k_neighbor(k)"), "adjacency is 'k_neighbor"),
        (lambda: make_plan(basis="guessed"), "basis is 'guessed'"),
        (lambda: make_plan(level="graph"), "level is 'graph'"),
        (lambda: make_plan(level="none"), "level none promises nothing"),
        (lambda: make_plan(own_row_covered="no"), "own_row_covered"),
        (lambda: make_plan("noise"), "is no mechanism"),
        (lambda: make_plan(method=""), "no method"),
    ],
)
def test_bad_plans_are_refused_in_one_line(build, message):
    with pytest.raises(GraphDPError) as error:
        build()
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("adjacency", ["edge_undirected", "node_replace", "k_neighbor(5)"])
def test_adjacencies_of_the_vocabulary_are_taken(adjacency):
    assert make_plan(adjacency=adjacency).adjacency == adjacency


def test_composition_counts_what_is_released_and_nothing_else():
    plan = make_plan(
        dpsgd(0.1, 7),
        gaussian(3),
        gaussian(0),
        gaussian(5, Sensitivity(0.0, "sqrt(max_degree)", "max_degree = 0")),
        dpsgd(0.2, 0),
        dpsgd(0.05, 2),
        dpsgd(0.1, 4),
        dpsgd(1.0, 6),
    )
    assert plan.composition == composed(3 + 6, PoissonSteps(((0.05, 2), (0.1, 11))))
    assert make_plan(gaussian(0), dpsgd(steps=0)).composition.is_empty
    assert make_plan(UnnoisedRelease("weights", "training")).composition.unnoised


counts = st.integers(0, 50)
names = st.sampled_from(["encoder", "aggregation", 'sum of ε × "rows"'])
sensitivities = st.builds(Sensitivity, st.floats(0.01, 100), names, names)
mechanisms = st.one_of(
    st.builds(GaussianReleases, names, sensitivities, counts, names),
    st.builds(PoissonDPSGD, names, st.floats(1e-6, 1), counts, sensitivities, names),
    st.builds(UnnoisedRelease, names, names),
)


@settings(max_examples=50)
@given(st.lists(mechanisms, max_size=4), st.sampled_from([True, False, None]))
def test_plans_survive_json_and_are_hashable(items, own_row):
    plan = make_plan(*items, own_row_covered=own_row)
    again = Plan.from_dict(json.loads(json.dumps(plan.to_dict())))
    assert again == plan
    assert hash(again) == hash(plan)


def test_from_dict_names_the_wrong_key():
    good = gap_plan("edge", hops=2).to_dict()
    with pytest.raises(GraphDPError, match="unknown key noise"):
        Plan.from_dict(good | {"noise": 1})
    with pytest.raises(GraphDPError, match="missing key level"):
        Plan.from_dict({key: value for key, value in good.items() if key != "level"})
    with pytest.raises(GraphDPError, match="kind of mechanism is 'laplace'"):
        Plan.from_dict(good | {"mechanisms": [{"kind": "laplace"}]})


def test_plans_are_immutable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        gap_plan("edge", hops=2).level = "node"


@pytest.mark.parametrize(
    ("num_train", "batch_size", "epochs", "expected"),
    [
        (19800, 256, 10, (256 / 19800, 773)),  # 198000 / 256 = 773.4
        (1000, 100, 3, (0.1, 30)),
        (1000, 300, 1, (0.3, 3)),
        (100, 256, 10, (1.0, 10)),  # a batch larger than the data is the data
        (100, 100, 0, (1.0, 0)),
        (1, 1, 1, (1.0, 1)),
    ],
)
def test_dpsgd_rounds(num_train, batch_size, epochs, expected):
    assert dpsgd_rounds(num_train, batch_size, epochs) == expected


@given(st.integers(1, 10**7), st.integers(1, 10**5), st.integers(1, 500))
def test_dpsgd_rounds_are_at_least_one_and_at_most_the_epochs(num_train, batch_size, epochs):
    rate, steps = dpsgd_rounds(num_train, batch_size, epochs)
    assert 0 < rate <= 1
    assert steps >= 1
    assert steps * min(batch_size, num_train) <= epochs * num_train
    assert (steps + 1) * min(batch_size, num_train) > epochs * num_train


@pytest.mark.parametrize("bad", [(0, 1, 1), (10, 0, 1), (10, 1, -1), (10, 1, 1.5)])
def test_dpsgd_rounds_refuse_nonsense(bad):
    with pytest.raises(GraphDPError, match="whole number"):
        dpsgd_rounds(*bad)


def test_gap_node_plan_is_encoder_aggregations_classifier():
    plan = gap_plan("node", hops=3, max_degree=100, **TRAINING)
    assert [m.phase for m in plan.mechanisms] == ["encoder", "aggregation", "classifier"]
    assert plan.mechanisms[1].count == 3
    assert plan.mechanisms[1].sensitivity.value == 10.0
    assert plan.composition == composed(3, PoissonSteps(((256 / 19800, 2 * 773),)))
    assert (plan.adjacency, plan.status) == ("node_add_remove", "refuted")
    assert plan.own_row_covered is False
    without = gap_plan("node", hops=3, max_degree=100, encoder=False, **TRAINING)
    assert without.composition == composed(3, PoissonSteps(((256 / 19800, 773),)))


def test_gap_on_public_candidates_releases_the_same_under_an_analysis_that_holds():
    published = gap_plan("node", hops=3, max_degree=100, **TRAINING)
    plan = gap_plan("node", hops=3, max_degree=100, degree_bound="public_candidates", **TRAINING)
    assert plan.composition == published.composition
    assert plan.mechanisms[1].sensitivity.value == 10.0
    assert "public_candidates" in plan.mechanisms[1].sensitivity.source
    assert (plan.basis, plan.adjacency, plan.status) == (
        "corrected",
        "node_add_remove",
        "conditional",
    )
    assert plan.own_row_covered is False
    # On the published split one node less moves others to another side.
    assert plan.assumptions[2:] == (SIDES_FOLLOW_FROM_IDS, *published.assumptions[2:])
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
    assert hash(plan) != hash(published)
    # Without private nodes there is no list to bound.
    edge = gap_plan("edge", hops=3, degree_bound="public_candidates")
    assert edge == gap_plan("edge", hops=3)


def test_a_replaced_node_doubles_the_bounds_and_fixes_the_size_of_batches():
    """GAP and the MLP as DPDGC runs them: 2√D (Theorem 5.1), 2C, samples without replacement."""
    plan = gap_plan("node", hops=3, max_degree=100, adjacency="node_replace", **TRAINING)
    assert [m.kind for m in plan.mechanisms] == [
        "without_replacement_dpsgd",
        "gaussian",
        "without_replacement_dpsgd",
    ]
    encoder, aggregation, classifier = plan.mechanisms
    assert aggregation.sensitivity.value == 20.0
    assert encoder.max_grad_norm.value == classifier.max_grad_norm.value == 2.0
    assert (encoder.sampling_rate, encoder.steps) == (256 / 19800, 773)
    assert plan.composition == composed(3, WithoutReplacementSteps(((256 / 19800, 2 * 773),)))
    assert (plan.adjacency, plan.status) == ("node_replace", "refuted")
    assert plan.own_row_covered is False
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
    public = gap_plan(
        "node",
        hops=3,
        max_degree=100,
        degree_bound="public_candidates",
        adjacency="node_replace",
        **TRAINING,
    )
    assert public.composition == plan.composition
    assert public.mechanisms[1].sensitivity.value == 20.0
    assert (public.basis, public.status) == ("corrected", "conditional")
    mlp = mlp_plan("node", adjacency="node_replace", **TRAINING)
    assert mlp.composition == composed(0, WithoutReplacementSteps(((256 / 19800, 773),)))
    assert (mlp.adjacency, mlp.status) == ("node_replace", "conditional")
    # Whoever samples everybody samples nobody.
    everybody = mlp_plan("node", 50, 64, 7, 1.0, adjacency="node_replace")
    assert everybody.composition == composed(7)
    sage = sage_plan("node", max_degree=9, adjacency="node_replace", **TRAINING)
    training, aggregation = sage.mechanisms
    assert (training.max_grad_norm.value, aggregation.sensitivity.value) == (20.0, 6.0)
    assert training == sage_plan("node", max_degree=9, **TRAINING).mechanisms[0]


def test_gap_edge_plan_is_the_aggregations_alone():
    plan = gap_plan("edge", hops=4)
    assert plan.composition == composed(4)
    assert plan.mechanisms[0].sensitivity.value == 1.0
    assert (plan.adjacency, plan.status) == ("edge_directed", "proven")


def test_progap_plan_is_a_dp_phase_per_stage_and_an_aggregation_between_any_two():
    plan = progap_plan("node", depth=3, max_degree=100, **TRAINING)
    phases = ["stage0", "aggregation", "stage1", "stage2", "stage3"]
    assert [m.phase for m in plan.mechanisms] == phases
    assert plan.mechanisms[1].count == 3
    assert plan.mechanisms[1].sensitivity.value == 10.0
    assert plan.composition == composed(3, PoissonSteps(((256 / 19800, 4 * 773),)))
    assert (plan.adjacency, plan.status) == ("node_add_remove", "refuted")
    assert progap_plan("edge", depth=3).composition == composed(3)
    # Depth 0 is an MLP: one phase, and no edge is read.
    assert progap_plan("edge", depth=0).composition.is_empty
    one_phase = progap_plan("node", depth=0, max_degree=100, **TRAINING).composition
    assert one_phase == mlp_plan("node", **TRAINING).composition


def test_gap_and_progap_with_as_many_phases_and_aggregations_cost_the_same():
    """GAP trains twice whatever K; ProGAP with K = 1 as well."""
    gap = gap_plan("node", hops=1, max_degree=50, **TRAINING)
    progap = progap_plan("node", depth=1, max_degree=50, **TRAINING)
    assert progap.composition == gap.composition
    assert progap.assumptions == gap.assumptions


def test_mlp_plans():
    assert mlp_plan("edge").composition.is_empty
    assert mlp_plan("node", **TRAINING).composition == composed(
        0, PoissonSteps(((256 / 19800, 773),))
    )


@pytest.mark.parametrize(
    "plan", [gap_plan("none", hops=2), mlp_plan("none"), progap_plan("none", depth=2)]
)
def test_level_none_is_never_an_empty_plan(plan):
    assert plan.composition.unnoised
    assert not plan.composition.is_empty


def test_zero_degree_or_hops_release_no_edges():
    assert gap_plan("edge", hops=0).composition.is_empty
    graphless = gap_plan("node", hops=3, max_degree=0, **TRAINING).composition
    assert graphless == gap_plan("node", hops=0, max_degree=100, **TRAINING).composition
    assert graphless.gaussian == 0


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: gap_plan("nodes", hops=1), "level is 'nodes'"),
        (lambda: gap_plan("node", hops=1, max_degree=100), "give num_train, batch_size"),
        (lambda: gap_plan("node", hops=1, max_degree=-1, **TRAINING), "max_degree is -1"),
        (lambda: gap_plan("edge", hops=-1), "count is -1"),
        (lambda: gap_plan("node", hops=1, degree_bound="hash"), "degree_bound is 'hash'"),
        (lambda: gap_plan("edge", hops=1, adjacency="participant"), "adjacency is 'participant'"),
        (lambda: mlp_plan("node"), "give num_train"),
        (lambda: mlp_plan("node", adjacency="replace"), "adjacency is 'replace'"),
        (lambda: progap_plan("node", depth=1, max_degree=10), "progap, node level: give num_train"),
        (lambda: progap_plan("edge", depth=-1), "depth is -1"),
        (lambda: progap_plan("edge", depth=1.5), "depth is 1.5"),
        (lambda: mlp_plan("edges"), "level is 'edges'"),
    ],
)
def test_wrong_settings_are_named(build, message):
    with pytest.raises(GraphDPError) as error:
        build()
    assert message in str(error.value)


def test_privacy_modules_never_import_torch():
    """Calibration jobs must start fast; torch alone takes seconds."""
    code = (
        "import sys; from graphdp.privacy import accounting, calibration, sensitivity; "
        "from graphdp.methods.gap.plan import gap_plan; "
        "calibration.calibrate(gap_plan('edge', 2), 1.0, 1e-5); "
        "print('torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "False", result.stderr
