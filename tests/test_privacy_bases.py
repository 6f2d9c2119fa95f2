"""One noise under several analyses, and the price of choosing among models."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphdp.data.split import split_of
from graphdp.errors import GraphDPError
from graphdp.methods.registry import analyses
from graphdp.privacy import accounting
from graphdp.privacy.assumptions import SIDES_FOLLOW_FROM_IDS, SIDES_STAY
from graphdp.privacy.calibration import calibrate, calibration_plan
from graphdp.privacy.composition import composed_epsilon, epsilon_at, parts, smallest_epsilon
from graphdp.privacy.mechanisms.without_replacement_dpsgd import WithoutReplacementSteps
from graphdp.privacy.plan import Composition, PoissonDPSGD
from graphdp.privacy.selection import composition_epsilon, search_epsilon
from graphdp.workflow.calibrations import calibrate_cell

NODE = {
    "hops": 2,
    "max_degree": 100,
    "epochs": 10,
    "batch_size": 256,
    "max_grad_norm": 1.0,
    "encoder": True,
}
PUBLIC = {"degree_bound": "public_candidates"}
REPLACE = {"adjacency": "node_replace"}
SAGE = {"max_degree": 100, "epochs": 10, "batch_size": 256, "max_grad_norm": 1.0}
PROGAP = {
    "depth": 2,
    "max_degree": 100,
    "epochs": 10,
    "batch_size": 256,
    "max_grad_norm": 1.0,
}
MLP = {"epochs": 10, "batch_size": 256, "max_grad_norm": 1.0}
TRAIN = 19800


def by_name(method, level, plan_settings, num_train=None):
    plans = analyses(method, level, plan_settings, num_train)
    return {(plan.basis, plan.adjacency): plan for plan in plans}


@pytest.mark.parametrize(
    ("method", "level", "plan_settings", "expected"),
    [
        (
            "gap",
            "edge",
            {"hops": 2},
            {
                ("as_published", "edge_directed", "proven"),
                ("corrected", "edge_undirected", "proven"),
            },
        ),
        (
            "gap",
            "node",
            NODE,
            {
                ("as_published", "node_add_remove", "refuted"),
                ("as_implemented", "node_add_remove", "refuted"),
                ("corrected", "participant", "conditional"),
                ("corrected", "node_replace_own_list", "conditional"),
                ("corrected", "node_add_remove", "refuted"),
            },
        ),
        (
            "gap",
            "node",
            NODE | PUBLIC,
            {
                ("corrected", "node_add_remove", "conditional"),
                ("corrected", "participant", "conditional"),
                ("corrected", "node_replace", "conditional"),
            },
        ),
        (
            "mlp",
            "node",
            MLP,
            {
                ("as_published", "node_add_remove", "conditional"),
                ("corrected", "participant", "conditional"),
                ("corrected", "node_replace", "conditional"),
            },
        ),
        (
            "progap",
            "edge",
            {"depth": 2},
            {
                ("as_published", "edge_directed", "proven"),
                ("corrected", "edge_undirected", "proven"),
            },
        ),
        (
            "progap",
            "node",
            PROGAP,
            {
                ("as_published", "node_add_remove", "refuted"),
                ("as_implemented", "node_add_remove", "refuted"),
                ("corrected", "participant", "conditional"),
                ("corrected", "node_replace_own_list", "conditional"),
                ("corrected", "node_add_remove", "refuted"),
            },
        ),
        (
            "gap",
            "node",
            NODE | REPLACE,
            {
                ("as_published", "node_replace", "refuted"),
                ("as_implemented", "node_replace", "refuted"),
                ("corrected", "node_replace_own_list", "conditional"),
                ("corrected", "participant", "conditional"),
                ("corrected", "node_add_remove", "refuted"),
            },
        ),
        (
            "gap",
            "node",
            NODE | PUBLIC | REPLACE,
            {
                ("corrected", "node_replace", "conditional"),
                ("corrected", "participant", "conditional"),
                ("corrected", "node_add_remove", "conditional"),
            },
        ),
        (
            "mlp",
            "node",
            MLP | REPLACE,
            {
                ("as_published", "node_replace", "conditional"),
                ("corrected", "node_replace", "conditional"),
                ("corrected", "participant", "conditional"),
                ("corrected", "node_add_remove", "conditional"),
            },
        ),
        (
            "gap",
            "node",
            NODE | {"differing_terms": "all"},
            {
                ("as_published", "node_add_remove", "refuted"),
                ("as_implemented", "node_add_remove", "refuted"),
                ("corrected", "participant", "conditional"),
                ("corrected", "node_replace_own_list", "conditional"),
                ("corrected", "node_add_remove", "refuted"),
            },
        ),
        (
            "sage",
            "node",
            SAGE | {"inference": "exact"},
            {
                ("as_published", "node_add_remove", "refuted"),
                ("as_implemented", "node_add_remove", "refuted"),
                ("corrected", "participant", "conditional"),
                ("corrected", "node_replace_own_list", "conditional"),
                ("corrected", "node_add_remove", "refuted"),
            },
        ),
        (
            "sage",
            "node",
            SAGE | REPLACE,
            {
                ("as_published", "node_replace", "refuted"),
                ("as_implemented", "node_replace", "refuted"),
                ("corrected", "participant", "conditional"),
                ("corrected", "node_replace_own_list", "conditional"),
                ("corrected", "node_add_remove", "refuted"),
            },
        ),
        ("gap", "none", {"hops": 2}, {("as_published", "", "")}),
        ("progap", "none", {"depth": 2}, {("as_published", "", "")}),
        (
            "mlp",
            "none",
            {},
            {("as_published", "", ""), ("as_published", "edge_directed", "proven")},
        ),
    ],
)
def test_every_analysis_is_there_with_its_status(method, level, plan_settings, expected):
    plans = analyses(method, level, plan_settings, TRAIN)
    assert {(p.basis, p.adjacency, p.status) for p in plans} == expected
    stated = "corrected" if "degree_bound" in plan_settings else "as_published"
    assert plans[0].basis == stated


def test_public_candidates_give_node_add_remove_the_epsilon_that_sampling_claims():
    """Same noise, same ε; and the analysis that the noise is calibrated for is that adjacency's."""
    published = analyses("gap", "node", NODE, TRAIN)[0]
    public, participant, replaced = analyses("gap", "node", NODE | PUBLIC, TRAIN)
    noise = calibrate(published, 8, 1e-5).noise_multiplier
    assert calibrate(public, 8, 1e-5).noise_multiplier == noise
    assert epsilon_at(public, public, noise, 1e-5) == pytest.approx(8, rel=1e-5)
    assert epsilon_at(participant, public, noise, 1e-5) == pytest.approx(8, rel=1e-5)
    assert epsilon_at(replaced, public, noise, 1e-5) > 16
    for calibrate_for in ("published", "corrected"):
        chosen = calibration_plan(analyses("gap", "node", NODE | PUBLIC, TRAIN), calibrate_for)
        assert chosen == public
    for plan in (public, participant, replaced):
        assert not any("sampled without" in text for text in plan.assumptions)
        assert any("public universe" in text for text in plan.assumptions)


@pytest.mark.parametrize(("published", "undirected"), [(1, 1.45), (4, 5.89), (8, 12.0)])
def test_an_undirected_edge_costs_more_than_published(published, undirected):
    """1 → 1.45, 4 → 5.89, 8 → 12.0 at δ = 1e-7, for any number of hops."""
    for hops in (1, 3):
        plans = by_name("gap", "edge", {"hops": hops})
        reference = plans["as_published", "edge_directed"]
        noise = calibrate(reference, published, 1e-7).noise_multiplier
        epsilon = epsilon_at(plans["corrected", "edge_undirected"], reference, noise, 1e-7)
        assert epsilon == pytest.approx(undirected, abs=0.01)


def test_progap_has_gaps_bases_at_as_many_aggregations_and_phases():
    """K = 1: both train twice and aggregate once, so every basis reads the same ε."""
    gap = analyses("gap", "node", NODE | {"hops": 1}, TRAIN)
    progap = analyses("progap", "node", PROGAP | {"depth": 1}, TRAIN)
    for one, other in zip(gap, progap, strict=True):
        assert (one.basis, one.adjacency) == (other.basis, other.adjacency)
        assert epsilon_at(one, gap[0], 1.3, 1e-5) == epsilon_at(other, progap[0], 1.3, 1e-5)


def test_progap_as_implemented_leaves_out_the_partial_batch_in_every_stage():
    implemented = by_name("progap", "node", PROGAP, TRAIN)["as_implemented", "node_add_remove"]
    steps = {m.phase: m.steps for m in implemented.mechanisms if m.kind == "poisson_dpsgd"}
    assert steps == {"stage0": 770, "stage1": 770, "stage2": 770}  # 10 x floor(19800 / 256)


def test_the_official_progap_code_adds_six_percent_more_noise_at_edge_level():
    """Its Rényi composition against the exact one, K = 3, ε = 1, δ = 1e-7: 8.620 against 8.104."""
    plan = by_name("progap", "edge", {"depth": 3})["as_published", "edge_directed"]
    exact = calibrate(plan, 1, 1e-7).noise_multiplier
    assert exact == pytest.approx(8.104, abs=1e-3)

    def renyi(noise):
        return accounting.autodp_rdp_epsilon(plan.composition, noise, 1e-7)[0]

    assert renyi(8.620 * (1 - 1e-3)) > 1 > renyi(8.620 * (1 + 1e-3))


@settings(max_examples=40)
@given(st.integers(1, 6), st.floats(0.5, 30), st.floats(1e-9, 1e-3))
def test_progaps_closed_form_of_theorem_4_1_holds_and_is_loose(depth, noise, delta):
    """Theorem 4.1: ε = K/2σ² + √(2K log(1/δ))/σ."""
    plan = analyses("progap", "edge", {"depth": depth})[0]
    log = math.log(1 / delta)
    printed = depth / (2 * noise**2) + math.sqrt(2 * depth * log) / noise
    assert epsilon_at(plan, plan, noise, delta) <= printed


@pytest.mark.parametrize("noise", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5])
def test_theorem_4_2_of_progap_as_printed_is_no_bound(rate, noise):
    """At order 2 its term l = 2 is all there is: exp(C²/2σ²) lies below the true divergence, which
    is 1 + q² (exp(C²/σ²) - 1), here also integrated; with exp(C²/σ²) the theorem is exact."""
    from scipy.integrate import quad
    from scipy.stats import norm

    def of_exponent(exponent):
        return math.log((1 - rate) * (1 + rate) + rate**2 * math.exp(exponent))

    def density_ratio_squared(x):
        mixed = (1 - rate) + rate * math.exp((2 * x - 1) / (2 * noise**2))
        return norm.pdf(x, scale=noise) * mixed**2

    # The integrand is a sum of Gaussians of width σ around 0, 1 and 2.
    limits = (-15 * noise, 2 + 15 * noise)
    true = math.log(quad(density_ratio_squared, *limits, points=[0, 1, 2], limit=200)[0])
    assert of_exponent(1 / noise**2) == pytest.approx(true, rel=1e-6, abs=1e-12)
    assert of_exponent(1 / (2 * noise**2)) < true * (1 - 1e-3)
    # The accountant's curve is not the printed one.
    plan = analyses("progap", "node", PROGAP | {"depth": 0, "epochs": 1, "batch_size": 1}, 1)[0]
    step = PoissonDPSGD("q", rate, 1, plan.mechanisms[0].max_grad_norm, "stage0")
    composition = plan.__class__(**vars(plan) | {"mechanisms": (step,)}).composition
    assert accounting.autodp_rdp_curve(composition, noise)(2) == pytest.approx(true, rel=1e-5)


@settings(max_examples=30)
@given(st.integers(1, 9), st.floats(0.3, 30), st.floats(1e-9, 1e-3))
def test_undirected_is_exactly_the_gaussian_of_twice_the_squared_norm(hops, noise, delta):
    plans = by_name("gap", "edge", {"hops": hops})
    reference = plans["as_published", "edge_directed"]
    epsilon = epsilon_at(plans["corrected", "edge_undirected"], reference, noise, delta)
    exact = accounting.gaussian_epsilon(math.sqrt(2 * hops) / noise, delta)
    assert epsilon == pytest.approx(exact, rel=1e-9, abs=1e-12)
    assert epsilon >= epsilon_at(reference, reference, noise, delta)


def test_the_reference_itself_reads_what_the_accountant_reads():
    for method, plan_settings in (("gap", NODE), ("mlp", MLP)):
        reference = analyses(method, "node", plan_settings, TRAIN)[0]
        expected = accounting.epsilon(reference, 1.1, 1e-5)
        assert epsilon_at(reference, reference, 1.1, 1e-5) == pytest.approx(expected, rel=1e-9)


def test_participant_has_the_published_noise_and_replacement_costs_more_than_twice():
    plans = by_name("gap", "node", NODE, TRAIN)
    reference = plans["as_published", "node_add_remove"]
    published = epsilon_at(reference, reference, 1.0, 1e-5)
    assert epsilon_at(plans["corrected", "participant"], reference, 1.0, 1e-5) == published
    own_list = plans["corrected", "node_replace_own_list"]
    assert epsilon_at(own_list, reference, 1.0, 1e-5) > 2 * published
    assert epsilon_at(plans["corrected", "node_add_remove"], reference, 1.0, 1e-5) == math.inf


def test_replacement_is_a_removal_and_an_addition():
    """(ε', δ')-DP for each move gives (2ε', (1 + e^ε')δ')-DP: the δ' used must fit, and fill, δ."""
    plans = by_name("mlp", "node", MLP, TRAIN)
    reference = plans["as_published", "node_add_remove"]
    delta = 1e-5
    moved = epsilon_at(plans["corrected", "node_replace"], reference, 1.679, delta) / 2
    share = accounting.delta(reference, 1.679, moved)
    assert 0.98 * delta < share * (1 + math.exp(moved)) <= delta * (1 + 1e-6)


def _two_sided_gaussians(rate, noise, sign):
    """Density of a round on a grid: sampled with `rate`, the record adds `sign` times the clip."""
    grid = np.linspace(-30, 30, 60_001)

    def density(centre):
        return np.exp(-((grid - centre) ** 2) / (2 * noise**2))

    mixed = (1 - rate) * density(0) + rate * density(sign)
    return mixed / mixed.sum()


@pytest.mark.parametrize("noise", [0.7, 1.0, 2.0])
@pytest.mark.parametrize("rate", [0.01, 0.2, 1.0])
def test_replacement_bound_covers_opposite_gradients(rate, noise):
    """Tries to break it: one round, where x adds +C and its replacement adds -C.

    At rate 1 the bound is exact, so there the two sides are equal up to the grid's 1e-6 (relative).
    """
    plans = by_name("mlp", "node", MLP | {"epochs": 1, "batch_size": 1}, 1)
    reference = plans["as_published", "node_add_remove"]
    step = PoissonDPSGD("q", rate, 1, reference.mechanisms[0].max_grad_norm, "classifier")
    doubled = plans["corrected", "node_replace"].mechanisms[0].max_grad_norm
    one_round = reference.__class__(**vars(reference) | {"mechanisms": (step,)})
    replaced = plans["corrected", "node_replace"]
    twice = PoissonDPSGD("q", rate, 1, doubled, "classifier")
    replaced = replaced.__class__(**vars(replaced) | {"mechanisms": (twice,)})
    for delta in (1e-3, 1e-5):
        epsilon = epsilon_at(replaced, one_round, noise, delta)
        p, q = (_two_sided_gaussians(rate, noise, sign) for sign in (1, -1))
        assert np.maximum(p - math.exp(epsilon) * q, 0).sum() <= delta * (1 + 1e-6)


def test_noise_for_a_replaced_node_covers_one_that_takes_part_or_not():
    """The same noise is worth less ε to a participant, whose aggregation moves by √D and whose
    rounds are Poisson's at worst; and lists that are public give the same when it is removed."""
    for method, plan_settings, own in (
        ("gap", NODE | REPLACE, "node_replace_own_list"),
        ("mlp", MLP | REPLACE, "node_replace"),
    ):
        plans = by_name(method, "node", plan_settings, TRAIN)
        reference = plans["as_published", "node_replace"]
        replaced, participant = (
            epsilon_at(plans["corrected", adjacency], reference, 1.3, 1e-5)
            for adjacency in (own, "participant")
        )
        assert replaced == pytest.approx(accounting.epsilon(reference, 1.3, 1e-5), rel=1e-12)
        assert participant < replaced / 1.5
    gap = by_name("gap", "node", NODE | REPLACE, TRAIN)
    reference = gap["as_published", "node_replace"]
    # Halved sensitivity of the sums, unchanged noise of the rounds.
    found = parts(gap["corrected", "participant"], reference, 1.3)
    assert sorted(noise for _, noise in found) == [1.3, 2.6]
    public = by_name("gap", "node", NODE | PUBLIC | REPLACE, TRAIN)
    reference = public["corrected", "node_replace"]
    values = [
        epsilon_at(public["corrected", adjacency], reference, 1.3, 1e-5)
        for adjacency in ("participant", "node_add_remove")
    ]
    assert values[0] == values[1] < math.inf


def test_dpdgcs_code_clips_rows_where_graphsage_is_accounted_by_samples():
    """Same noise as the plan's, 2 (D + 1) C noise multipliers. Of a replaced node 2 D + 1 samples
    change, of D + 1 rows before and after, and a row by 2 C; and 2 D rows of the sum for inference.
    """
    plans = by_name("sage", "node", SAGE | REPLACE, TRAIN)
    reference = plans["as_published", "node_replace"]
    official = plans["as_implemented", "node_replace"]
    rounds, aggregation = official.mechanisms
    assert rounds.count >= 770  # floor(N / B) in each of 10 epochs
    assert rounds.sensitivity.value == 201 * 2 * 101 * 2
    assert aggregation.sensitivity.value == 2 * math.sqrt(200)
    ratio, summed = 201 * 2 * 101 * 2 / (2 * 101), math.sqrt(2)
    total = math.sqrt(rounds.count * ratio**2 + summed**2) / 1.1
    found = epsilon_at(official, reference, 1.1, 1e-5)
    assert found == pytest.approx(accounting.gaussian_epsilon(total, 1e-5), rel=1e-9)


def _round_of_subsets(gradients, batch_size, noise):
    """Density on a grid of one round: the sum of a uniform subset of the gradients, noised."""
    grid = np.linspace(-40, 40, 40_001)
    sums = [sum(s) for s in itertools.combinations(gradients, batch_size)]
    density = sum(np.exp(-((grid - centre) ** 2) / (2 * noise**2)) for centre in sums)
    return density / density.sum()


def test_rounds_of_fixed_size_with_and_without_a_record_are_poissons_at_twice_the_clip():
    """Tries to break it: all gradients in {-C, 0, C} of 5 records, one of which goes; C alone, the
    bound of a Poisson round, is not enough."""
    noise, size = 1.5, 2

    def dominating(bound):
        grid = np.linspace(-40, 40, 40_001)
        one, other = (np.exp(-((grid - c) ** 2) / (2 * noise**2)) for c in (0, bound))
        one, other = one / one.sum(), other / other.sum()
        return one, (1 - size / 5) * one + size / 5 * other

    pairs = [
        (_round_of_subsets(rest, size, noise), _round_of_subsets((*rest, new), size, noise))
        for rest in itertools.combinations_with_replacement((-1, 0, 1), 4)
        for new in (-1, 0, 1)
    ]
    epsilons = np.linspace(0, 4, 21)

    def profile(p, q):
        return np.maximum(p[None] - np.exp(epsilons)[:, None] * q[None], 0).sum(1)

    twice, once = dominating(2), dominating(1)
    found = np.array([[profile(p, q), profile(q, p)] for p, q in pairs])  # without to with, back
    ways = np.array([profile(*twice), profile(*twice[::-1])])
    assert (found <= ways[None] + 1e-9).all()
    # Tight: all others at -C, the new one at C.
    assert np.isclose(found.max(0), ways, atol=1e-9).all()
    single = np.array([profile(*once), profile(*once[::-1])])
    assert (found.max(0) > single + 1e-3).any()


@pytest.mark.parametrize("noise", [0.6, 1.0, 3.0])
def test_rounds_of_fixed_size_with_a_replaced_record_stay_below_the_theorem(noise):
    """Tries to break it: all gradients in {-C, 0, C}, N = 4 or 5, every batch size."""
    for count, size in ((4, 1), (4, 2), (5, 3), (4, 4)):
        composition = Composition((WithoutReplacementSteps(((size / count, 1),)),))
        bound = accounting.rdp_curve(composition, noise)
        for rest in itertools.combinations_with_replacement((-1, 0, 1), count - 1):
            for one, other in itertools.permutations((-1, 0, 1), 2):
                # The noise is in units of the sensitivity 2C.
                p, q = (_round_of_subsets((*rest, x), size, 2 * noise) for x in (one, other))
                for order in (2, 3, 8):
                    kept = (p > 1e-200) & (q > 1e-200)  # the rest is below any rounding
                    loss = np.log(p[kept]) - np.log(q[kept])
                    moment = np.sum(np.exp(np.log(p[kept]) + (order - 1) * loss))
                    assert math.log(moment) / (order - 1) <= bound(order) * (1 + 1e-9) + 1e-9


def test_the_search_is_charged_for_samples_of_a_fixed_size():
    reference = analyses("mlp", "node", MLP | REPLACE, TRAIN)[0]
    model = parts(reference, reference, 1.4)
    single = epsilon_at(reference, reference, 1.4, 1e-5)
    assert search_epsilon([model], 1, 1e-5) == pytest.approx(single, rel=1e-9)
    assert single < search_epsilon([model] * 3, 3, 1e-5) < 3 * single
    # Three models are one of three times the steps.
    longer = analyses("mlp", "node", MLP | REPLACE | {"epochs": 30}, TRAIN)[0]
    assert abs(longer.mechanisms[0].steps - 3 * reference.mechanisms[0].steps) <= 2
    joint = composition_epsilon([model] * 3, 1e-5)
    assert joint == pytest.approx(epsilon_at(longer, longer, 1.4, 1e-5), rel=3e-3)


@pytest.mark.parametrize(("batch_size", "steps"), [(256, 770), (200, 990), (30_000, 0)])
def test_as_implemented_leaves_out_the_last_partial_batch_of_an_epoch(batch_size, steps):
    plans = analyses("gap", "node", NODE | {"batch_size": batch_size}, TRAIN)
    implemented = [p for p in plans if p.basis == "as_implemented"]
    published = plans[0].mechanisms[0].steps
    told = [steps] if steps not in (0, published) else []
    assert [p.mechanisms[0].steps for p in implemented] == told
    assert published >= steps
    # The published rounds are run: what is accounted of fewer is no bound, and no claim that holds.
    assert {p.status for p in implemented} <= {"refuted"}
    for adjacency in ({}, REPLACE):
        for plan in analyses("mlp", "node", MLP | adjacency | {"batch_size": batch_size}, TRAIN):
            assert plan.basis != "as_implemented"


def test_who_is_added_or_removed_leaves_the_sides_of_others_or_no_claim_holds():
    """With the published permutation one node more, the last, moves 407 of 4,000 others."""
    for method, own, sides in (
        ("mlp", MLP, SIDES_STAY),
        ("mlp", MLP | REPLACE, SIDES_STAY),
        ("gap", NODE | PUBLIC, SIDES_FOLLOW_FROM_IDS),
        ("gap", NODE | PUBLIC | REPLACE, SIDES_STAY),
    ):
        for plan in analyses(method, "node", own, TRAIN):
            assert (sides in plan.assumptions) == (plan.adjacency == "node_add_remove"), plan
    for rule, expected in (("shared", 407), ("shared by id", 0)):
        graphs = [
            SimpleNamespace(raw_num_nodes=n, node_ids=np.arange(n), ids=np.arange(n), num_ids=4000)
            for n in (3999, 4000)
        ]
        one, other = (split_of(graph, 0, rule, 0).train for graph in graphs)
        moved = np.setdiff1d(one, other).size
        assert moved == expected


@settings(max_examples=15)
@given(
    st.floats(0.6, 4),
    st.floats(1.05, 2),
    st.sampled_from(["gap", "mlp"]),
    st.sampled_from([{}, REPLACE]),
)
def test_epsilon_of_every_basis_falls_with_noise(noise, factor, method, adjacency):
    plans = analyses(method, "node", (NODE if method == "gap" else MLP) | adjacency, TRAIN)
    for plan in plans:
        more = epsilon_at(plan, plans[0], noise, 1e-5)
        less = epsilon_at(plan, plans[0], noise * factor, 1e-5)
        assert less < more or less == more == math.inf


@pytest.mark.parametrize(
    ("method", "level", "plan_settings", "adjacency"),
    [
        ("gap", "edge", {"hops": 2}, "edge_undirected"),
        ("gap", "node", NODE, "participant"),
        ("mlp", "node", MLP, "participant"),
        ("gap", "node", NODE | REPLACE, "node_replace_own_list"),
        ("mlp", "node", MLP | REPLACE, "node_replace"),
        ("mlp", "edge", {}, "edge_directed"),  # reads no edge: nothing to correct
    ],
)
def test_calibration_aims_at_the_published_or_the_first_corrected_analysis(
    method, level, plan_settings, adjacency
):
    plans = analyses(method, level, plan_settings, TRAIN)
    published, corrected = (calibration_plan(plans, w) for w in ("published", "corrected"))
    assert published == plans[0]
    assert corrected.adjacency == adjacency
    assert corrected.status != "refuted"
    with pytest.raises(GraphDPError, match="choose one of published, corrected, replaced"):
        calibration_plan(plans, "correct")


def test_edge_cases():
    reference, undirected = analyses("gap", "edge", {"hops": 2})
    assert epsilon_at(undirected, reference, 0.0, 1e-5) == math.inf
    assert epsilon_at(undirected, reference, math.inf, 1e-5) == 0
    none, no_edges = analyses("mlp", "none", {})
    assert epsilon_at(none, none, 0.0, 1e-5) == math.inf
    assert epsilon_at(no_edges, none, 0.0, 1e-5) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: analyses("gat", "edge", {}), "no method is called 'gat'"),
        (lambda: analyses("gap", "node", NODE), "give num_train"),
        (lambda: epsilon_at(*analyses("gap", "edge", {"hops": 1}), -1, 1e-5), "noise multiplier"),
        (lambda: epsilon_at(*analyses("gap", "edge", {"hops": 1}), 1, 1.0), "delta"),
        (
            lambda: parts(
                analyses("gap", "node", NODE, 99)[0], analyses("mlp", "node", MLP, 99)[0], 1.0
            ),
            "has no noise in the reference",
        ),
        (lambda: search_epsilon([()], 0.5, 1e-5), "mean_trials"),
        (lambda: search_epsilon([], 2, 1e-5), "no model"),
    ],
)
def test_bad_input_is_one_line(call, message):
    with pytest.raises(GraphDPError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


# --- selection ------------------------------------------------------------------------------------


def edge_parts(hops, noise):
    plan = analyses("gap", "edge", {"hops": hops})[0]
    return parts(plan, plan, noise)


def test_composition_over_gaussian_models_is_exact():
    models = [edge_parts(hops, noise) for hops, noise in ((1, 2.0), (2, 3.0), (5, 1.5))]
    mu = math.sqrt(1 / 4 + 2 / 9 + 5 / 2.25)
    exact = accounting.gaussian_epsilon(mu, 1e-6)
    for order in itertools.permutations(models):
        assert composition_epsilon(order, 1e-6) == pytest.approx(exact, rel=1e-9)


def test_composition_over_sampled_models_is_that_of_one_long_model():
    plan = analyses("gap", "node", NODE, TRAIN)[0]
    twice = analyses("gap", "node", NODE | {"hops": 4, "epochs": 20}, TRAIN)[0]
    once = parts(plan, plan, 1.2)
    # 2 x floor(10 N / B) and floor(20 N / B) differ by at most one of 1,500 rounds.
    expected = composed_epsilon(parts(twice, twice, 1.2), 1e-5)
    assert composition_epsilon([once, once], 1e-5) == pytest.approx(expected, rel=2e-3)


def test_search_costs_more_than_one_model_and_less_than_many():
    model = edge_parts(2, 3.0)
    single = composed_epsilon(model, 1e-6)
    costs = [search_epsilon([model] * m, m, 1e-6) for m in (1, 2, 5, 20, 100)]
    assert costs[0] == single
    assert costs == sorted(costs) and costs[1] > single
    assert costs[-1] < composition_epsilon([model] * 100, 1e-6)


def test_nothing_released_costs_nothing_and_no_noise_costs_everything():
    assert search_epsilon([(), ()], 2, 1e-5) == 0
    assert search_epsilon([edge_parts(1, 1.0), edge_parts(1, 0.0)], 2, 1e-5) == math.inf


def _best_of_geometric(masses, gamma):
    """Distribution of the best of K ~ Geometric(γ) draws over outcomes ordered by their score."""
    below = np.cumsum(masses, axis=-1)
    # The probability generating function of K at the chance that a draw is no better.
    best = gamma * below / (1 - (1 - gamma) * below)
    return np.diff(best, axis=-1, prepend=0)


def _renyi(p, q, order):
    return np.log((p**order * q ** (1 - order)).sum(-1)) / (order - 1)


def test_search_theorem_holds_on_random_discrete_mechanisms():
    """Tries to break Theorem 2 (η = 1): exact distributions of the selected outcome, many pairs.

    The test is exact, not statistical: the seed only picks the 4,000 pairs of distributions.
    """
    rng = np.random.default_rng(0)
    orders = (1.5, 2.0, 4.0, 16.0)
    tightest = math.inf
    for mean in (1.5, 4.0, 20.0):
        for size in (2, 3, 8):
            p, q = rng.dirichlet(np.full(size, 0.7), (2, 4000)) + 1e-6
            p, q = p / p.sum(-1, keepdims=True), q / q.sum(-1, keepdims=True)
            best_p, best_q = _best_of_geometric(p, 1 / mean), _best_of_geometric(q, 1 / mean)
            # RDP of the base mechanism is two-sided: either input may be the first.
            base = {a: np.maximum(_renyi(p, q, a), _renyi(q, p, a)) for a in orders}
            for order, other in itertools.product(orders, repeat=2):
                bound = (
                    base[order]
                    + 2 * (1 - 1 / other) * base[other]
                    + 2 * math.log(mean) / other
                    + math.log(mean) / (order - 1)
                )
                slack = bound - _renyi(best_p, best_q, order)
                assert slack.min() >= -1e-9
                tightest = min(tightest, slack.min())
    assert tightest < 1  # the pairs come close to the bound, so that a wrong one would be seen


def test_search_epsilon_is_the_theorem_evaluated_for_a_gaussian():
    """For RDP λ/2·μ² the best λ̂ can be found on a fine grid independently of the code."""
    noise, mean, delta = 3.0, 5.0, 1e-6
    rho = 1 / (2 * noise**2)
    orders = np.exp(np.linspace(math.log(1.01), math.log(5000), 40_000))
    extra = (2 * (1 - 1 / orders) * rho * orders + 2 * math.log(mean) / orders).min()
    curve = rho * orders + extra + math.log(mean) / (orders - 1)
    epsilon = curve + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)
    assert search_epsilon([edge_parts(1, noise)] * 5, mean, delta) == pytest.approx(
        epsilon.min(), rel=2e-3
    )


def test_conversion_is_the_accountants():
    plan = analyses("mlp", "node", MLP, TRAIN)[0]
    composition = plan.composition
    curve = accounting.autodp_rdp_curve(composition, 1.3)
    expected, _ = accounting.autodp_rdp_epsilon(composition, 1.3, 1e-5)
    assert smallest_epsilon(curve, 1e-5) == pytest.approx(expected, rel=1e-12)


def test_a_refuted_claim_is_read_as_no_epsilon():
    """Rows keep the number that it claims apart."""
    plan = {"hops": 2, "max_degree": 20, "epochs": 2, "batch_size": 64, "max_grad_norm": 1.0,
            "encoder": True}  # fmt: skip
    (entry,) = calibrate_cell("g", "gap", "node", "8", [plan], [1000], 5000, "auto")
    found = {(one["basis"], one["adjacency"]): one for one in entry["epsilons"]}
    claim = found["as_published", "node_add_remove"]
    assert (claim["status"], claim["epsilon"]) == ("refuted", "none")
    assert claim["claimed_epsilon"] == pytest.approx(8, rel=1e-3)
    for one in entry["epsilons"]:
        held = one["status"] != "refuted" and one["claimed_epsilon"] != "inf"
        assert one["epsilon"] == (one["claimed_epsilon"] if held else "none")
    assert found["corrected", "participant"]["epsilon"] == pytest.approx(8, rel=1e-3)
