"""What the GraphSAGE baselines release: plans, bases, accounting, and attempts to break them."""

import itertools
import json
import math
from functools import partial

import mpmath
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import beta, norm

from graphdp import cli
from graphdp.audit.bound import refuted_noise
from graphdp.coins import Coins
from graphdp.data.graph import csr_from_edges
from graphdp.errors import GraphDPError
from graphdp.graphs import degree
from graphdp.graphs.perturbation import perturb
from graphdp.methods.registry import analyses, card
from graphdp.methods.sage.plan import sage_plan
from graphdp.paper import tables
from graphdp.paper.accuracy import ACCURACY_COLUMNS, COUNTS, FLOATS
from graphdp.paper.labels import method_label
from graphdp.privacy import accounting, calibrated, mirrored_loss, sensitivity
from graphdp.privacy.calibration import calibrate, calibration_plan
from graphdp.privacy.composition import epsilon_at
from graphdp.privacy.mechanisms.fixed_size_dpsgd import (
    FixedSizeSteps,
    KnownDraws,
    fixed_size_log_moment,
)
from graphdp.privacy.mechanisms.gaussian import GaussianTerm
from graphdp.privacy.mechanisms.pure import pure_log_moment
from graphdp.privacy.plan import (
    Composition,
    FixedSizeDPSGD,
    Plan,
    PureRelease,
    Sensitivity,
    accounted_by,
)
from graphdp.privacy.selection import composition_epsilon, search_epsilon
from graphdp.privacy.statement import statement
from graphdp.privacy.statement_form import Data, Statement
from graphdp.privacy.statement_words import inference
from graphdp.workflow import known_rows
from graphdp.workflow.calibrations import calibrate_cell

NODE = {"max_degree": 100, "batch_size": 256, "epochs": 10, "max_grad_norm": 1.0}
TRAIN = 19800


def by_name(level, plan_settings, num_train=None, method="sage"):
    plans = analyses(method, level, plan_settings, num_train)
    return {(plan.basis, plan.adjacency): plan for plan in plans}


# --- fixed-size samples that move a group of records ----------------------------------------------


@pytest.mark.parametrize("sampling", [(50, 7, 1), (50, 7, 4), (30, 30, 5), (12, 9, 6), (9, 3, 9)])
@pytest.mark.parametrize("order", [1.5, 2.0, 3.7, 32.0])
def test_hypergeometric_bound_is_the_brute_force_sum(sampling, order):
    population, batch_size, group = sampling
    noise = 0.9
    with mpmath.workdps(50):
        total = mpmath.mpf(0)
        for drawn in range(group + 1):
            ways = mpmath.binomial(group, drawn) * mpmath.binomial(
                population - group, batch_size - drawn
            )
            chance = ways / mpmath.binomial(population, batch_size)
            exponent = mpmath.mpf(order) * (order - 1) * drawn**2 / (2 * (group * noise) ** 2)
            total += chance * mpmath.exp(exponent)
        expected = float(mpmath.log(total))
    found = fixed_size_log_moment(sampling, noise, order)
    assert found == pytest.approx(expected, rel=1e-10)


def test_drawing_everyone_is_the_plain_gaussian():
    for order in (1.5, 2, 10):
        moment = fixed_size_log_moment((40, 40, 7), 1.3, order)
        assert moment / (order - 1) == pytest.approx(order / (2 * 1.3**2), rel=1e-12)


@pytest.mark.parametrize("order", [2, 3, 5, 8])
def test_one_record_against_autodp_without_replacement(order):
    """autodp's bound for one replaced record is tighter, since it does not reveal the batch."""
    from autodp.mechanism_zoo import GaussianMechanism
    from autodp.transformer_zoo import AmplificationBySampling

    step = GaussianMechanism(2.0)
    step.neighboring = "replace_one"
    step.replace_one = True
    amplified = AmplificationBySampling(PoissonSampling=False)(step, 0.05)
    theirs = float(amplified.RenyiDP(order))
    ours = fixed_size_log_moment((100, 5, 1), 2.0, order) / (order - 1)
    assert 0 < theirs <= ours < order / (2 * 2.0**2)


@pytest.mark.parametrize(("noise", "order"), [(0.5, 1.5), (0.5, 2), (1, 4), (2, 16)])
def test_no_pair_of_mixtures_exceeds_the_bound(noise, order):
    """All batches of 3 of 7 records, 2 of which move: the divergence of the two mixtures, by
    numerical integration, both ways and with the records moved together or apart."""
    population, batch_size, group = 7, 3, 2
    bound = fixed_size_log_moment((population, batch_size, group), noise, order)
    batches = list(itertools.combinations(range(population), batch_size))
    for signs in ((1, 1), (1, -1)):
        # In units of the sensitivity, 2 · group · C, a record moves the sum by 1 / group at most.
        means = np.array([sum(signs[i] for i in b if i < group) / group for b in batches])

        # The integrand is smooth and vanishes at both ends, where sums are exact to rounding.
        reach = 14 * noise + order + 1
        x = np.linspace(-reach, reach, 200_001)
        mixture = logsumexp(-((x - means[:, None]) ** 2) / (2 * noise**2), axis=0, b=1 / len(means))
        plain = -(x**2) / (2 * noise**2)
        for p, q in ((mixture, plain), (plain, mixture)):
            total = logsumexp(order * p + (1 - order) * q) + math.log(x[1] - x[0])
            moment = total - math.log(noise * math.sqrt(2 * math.pi))
            assert moment <= bound + 1e-9


@pytest.mark.parametrize(("noise", "order"), [(0.5, 1.5), (0.5, 2), (1, 4), (2, 16)])
def test_a_node_that_trains_or_is_gone_stays_within_the_bound(noise, order):
    """A participant that trains: with it batches are 3 of 7 records, of which record 0 is its own
    and record 1 hears of it; without it 3 of the 6 others. Whatever clipped gradients ±C there are,
    the divergence of the two mixtures, by numerical integration, is within the bound for G = 2, and
    that for G = 1 is not enough."""
    population, batch_size, group, most = 7, 3, 2, 0.0
    bound = fixed_size_log_moment((population, batch_size, group), noise, order)
    reach = 14 * noise + order + 2
    x = np.linspace(-reach, reach, 4001)

    def mixture(gradients):
        # In units of the sensitivity, 2 · group · C, a gradient is ± 1 / (2 · group).
        batches = list(itertools.combinations(gradients, batch_size))
        means = np.sum(batches, axis=1) / (2 * group)
        return logsumexp(-((x - means[:, None]) ** 2) / (2 * noise**2), axis=0, b=1 / len(means))

    for heard, alone, ups in itertools.product((1, -1), (1, -1), range(population - 1)):
        others = [1] * ups + [-1] * (population - 2 - ups)
        there, gone = mixture([1, heard, *others]), mixture([alone, *others])  # or all turned round
        for p, q in ((there, gone), (gone, there)):
            total = logsumexp(order * p + (1 - order) * q) + math.log(x[1] - x[0])
            moment = total - math.log(noise * math.sqrt(2 * math.pi))
            assert moment <= bound + 1e-9
            most = max(most, moment)
    assert most > fixed_size_log_moment((population, batch_size, 1), group * noise, order)


@given(*3 * [st.integers(1, 60)], st.floats(0.3, 5), st.floats(1.1, 40))
@settings(max_examples=100)
def test_moments_grow_with_batch_and_group_size(population, batch_size, group, noise, order):
    batch_size, group = min(batch_size, population), min(group, population)
    moment = fixed_size_log_moment((population, batch_size, group), noise, order)
    plain = order * (order - 1) / (2 * noise**2)
    assert 0 <= moment <= plain * (1 + 1e-9)
    if batch_size < population:
        more = fixed_size_log_moment((population, batch_size + 1, group), noise, order)
        assert more >= moment * (1 - 1e-9) - 1e-12


# --- how many samples and rows a node moves -------------------------------------------------------


def bounded_in_lists(edges, nodes, max_degree, seed):
    """For each node its in-neighbours in the bounded graph, after the edges by name."""
    indptr, indices = csr_from_edges(*np.transpose(edges), nodes, symmetrise=False)
    keep = degree.bound_degrees(indptr, indices, max_degree, seed)
    sources = np.repeat(np.arange(nodes), np.diff(indptr))[keep]
    lists = {v: frozenset(sources[indices[keep] == v].tolist()) for v in range(nodes)}
    return lists


def without_out_list(edges, node):
    return [(u, v) for u, v in edges if u != node]


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(0, 13))
@settings(max_examples=120)
def test_a_participant_moves_at_most_group_samples_and_the_stated_sum(seed, max_degree, node):
    """Node r takes part or sends nothing: its out-list is there or empty, all others stay."""
    rng = np.random.default_rng(seed)
    edges = sorted({tuple(e) for e in rng.integers(0, 14, (90, 2)).tolist() if e[0] != e[1]})
    with_r = bounded_in_lists(edges, 14, max_degree, seed)
    without = bounded_in_lists(without_out_list(edges, node), 14, max_degree, seed)
    changed = [v for v in range(14) if with_r[v] != without[v]]
    assert node not in changed
    assert len(changed) <= max_degree  # and the node's own sample: D + 1
    for v in changed:  # one row out, at most one row in
        assert with_r[v] - without[v] == {node}
        assert len(without[v] - with_r[v]) <= 1
    x = rng.choice([-1.0, 1.0], 14)
    moved = [sum(x[u] for u in with_r[v]) - sum(x[u] for u in without[v]) for v in changed]
    bound = sensitivity.participant_both_bounded(max_degree).value
    assert np.linalg.norm(moved) <= bound + 1e-12


def test_the_bound_on_a_participants_sum_is_tight():
    """r and, without it, s send to the same D nodes whose in-lists take one node: 2√D for
    x_s = -x_r. Here D = 1, and a seed at which r comes before s."""
    edges = [(0, 2), (1, 2)]
    for seed in range(40):
        with_r = bounded_in_lists(edges, 3, 1, seed)
        if with_r[2] == {0}:
            assert bounded_in_lists(without_out_list(edges, 0), 3, 1, seed)[2] == {1}
            break
    else:
        pytest.fail("no seed keeps the first node (chance 2^-40)")
    assert abs(1 - -1) == sensitivity.participant_both_bounded(1).value


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(0, 13))
@settings(max_examples=120)
def test_with_out_lists_alone_bounded_a_node_moves_as_many_samples(seed, max_degree, node):
    """ProGAP's DP-GNN. Node r takes part or sends nothing: at most D in-lists lose r and no other
    changes, however long they are; with its own sample D + 1. Where r's list is replaced by another
    2 D change, and its own sample."""
    rng = np.random.default_rng(seed)
    edges = sorted({tuple(e) for e in rng.integers(0, 14, (90, 2)).tolist() if e[0] != e[1]})

    def heard(edges):
        indptr, indices = csr_from_edges(*np.transpose(edges), 14, symmetrise=False)
        keep = degree.bound_out_degree(indptr, indices, max_degree, seed)
        sources = np.repeat(np.arange(14), np.diff(indptr))[keep]
        return [frozenset(sources[indices[keep] == v].tolist()) for v in range(14)]

    with_r, without = heard(edges), heard(without_out_list(edges, node))
    changed = [v for v in range(14) if with_r[v] != without[v]]
    assert all(with_r[v] == without[v] | {node} for v in changed)
    assert node not in changed and len(changed) <= max_degree
    other = [(node, int(v)) for v in rng.permutation(14)[:6] if v != node]
    replaced = heard(without_out_list(edges, node) + other)
    moved = [v for v in range(14) if node in with_r[v] | replaced[v]]
    assert all(with_r[v] - {node} == replaced[v] - {node} for v in range(14))
    assert len(moved) <= 2 * max_degree
    groups = {
        plan.adjacency: plan.mechanisms[0].group
        for plan in analyses("progapsage", "node", NODE | {"max_degree": max_degree}, TRAIN)
        if isinstance(plan.mechanisms[0], FixedSizeDPSGD)
    }
    assert (
        groups["participant"] == max_degree + 1
        and groups["node_replace_own_list"] == 2 * max_degree + 1
    )


def test_in_lists_of_progaps_dp_gnn_have_no_bound():
    """So the rows of a batch's union of sub-graphs that one node's features move have none either:
    200 nodes that send to what node 0 sends to, each of one out-edge."""
    edges = [(u, 201) for u in range(201)]
    indptr, indices = csr_from_edges(*np.transpose(edges), 202, symmetrise=False)
    keep = degree.bound_out_degree(indptr, indices, 1, seed=3)
    assert keep.sum() == 201
    plan = by_name("node", NODE | {"max_degree": 1}, TRAIN, "progapsage")
    assert plan["as_implemented", "node_add_remove"].composition.unnoised


def test_removing_a_node_moves_more_samples_than_the_published_group():
    """Why node_add_remove is refuted: 30 nodes send to the same D + 1 nodes; without one of these
    the lists of the 30 are drawn anew."""
    max_degree, sources = 1, range(2, 32)
    edges = [(u, v) for u in sources for v in (0, 1)]
    indptr, indices = csr_from_edges(*np.transpose(edges), 32, symmetrise=False)
    before = degree.bound_out_degree(indptr, indices, max_degree, seed=3)
    to_first = int((before & (indices == 1)).sum())
    # Without node 0 all of the 30 send to node 1, so about half of them are new there.
    assert 30 - to_first > max_degree + 1


# --- plans and bases ------------------------------------------------------------------------------


def test_node_plan_holds_the_steps_the_group_and_one_release_for_inference():
    plan = sage_plan("node", num_train=TRAIN, **NODE)
    training, aggregation = plan.mechanisms
    assert (training.population, training.batch_size, training.group) == (TRAIN, 256, 101)
    assert training.steps == 10 * TRAIN // 256 == 773
    assert training.max_grad_norm.value == 2 * 101 * 1.0
    assert (aggregation.count, aggregation.sensitivity.value) == (1, 10.0)
    assert plan.status == "refuted" and plan.own_row_covered is False
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
    assert plan.composition == Composition(
        (GaussianTerm(1), FixedSizeSteps((((TRAIN, 256, 101), 773),)))
    )


def test_without_noise_at_inference_the_plan_is_about_the_weights_alone():
    plan = sage_plan("node", num_train=TRAIN, inference="exact", **NODE)
    noisy = sage_plan("node", num_train=TRAIN, **NODE)
    assert plan.mechanisms == noisy.mechanisms[:1]
    assert plan.status == "refuted" and plan.own_row_covered is None
    assert any("neighbours without noise" in one for one in plan.assumptions)
    less = calibrate(plan, 8.0, 1e-5).noise_multiplier
    assert less < calibrate(noisy, 8.0, 1e-5).noise_multiplier
    for name, one in by_name("node", NODE | {"inference": "exact"}, TRAIN).items():
        assert [m.phase for m in one.mechanisms] == ["classifier"]
        assert name[0] == "corrected" or any("not counted" in text for text in one.assumptions)
    with pytest.raises(GraphDPError, match="'none'; choose one of noisy, exact"):
        sage_plan("node", num_train=TRAIN, inference="none", **NODE)


def test_node_bases_and_what_the_noise_is_worth_under_them():
    published = sage_plan("node", num_train=TRAIN, **NODE)
    noise = calibrate(published, 8.0, 1e-5).noise_multiplier
    found = {
        name: epsilon_at(plan, published, noise, 1e-5)
        for name, plan in by_name("node", NODE, TRAIN).items()
    }
    assert list(found) == [
        ("as_published", "node_add_remove"),
        ("as_implemented", "node_add_remove"),
        ("corrected", "participant"),
        ("corrected", "node_replace_own_list"),
        ("corrected", "node_add_remove"),
    ]
    claimed, rows, participant, replaced, unbounded = found.values()
    assert claimed == pytest.approx(8, rel=1e-4) and claimed <= 8
    # 773 full Gaussians, in which each of 101 samples counts for 202 rows, and one: closed form.
    assert rows == pytest.approx(
        accounting.gaussian_epsilon(math.sqrt(773 * 202**2 + 1) / noise, 1e-5), rel=1e-9
    )
    assert claimed < participant < replaced < unbounded == math.inf
    corrected = calibration_plan(analyses("sage", "node", NODE, TRAIN), "corrected")
    again = calibrate(corrected, 8.0, 1e-5)
    assert again.plan.adjacency == "participant"
    assert again.noise_multiplier > 0 and 0.99 * 8 <= again.epsilon <= 8
    # Where the claim is of a replaced node, so is the first corrected analysis.
    replacing = NODE | {"adjacency": "node_replace"}
    corrected = calibration_plan(analyses("sage", "node", replacing, TRAIN), "corrected")
    assert corrected.adjacency == "node_replace_own_list"
    assert corrected.mechanisms[0].group == 2 * NODE["max_degree"] + 1


@pytest.mark.parametrize("adjacency", ["node_add_remove", "node_replace"])
def test_clipped_rows_have_the_claim_of_clipped_samples_and_no_corrected_analysis(adjacency):
    setting = NODE | {"adjacency": adjacency}
    claim, implemented, *_ = analyses("sage", "node", setting, TRAIN)
    rows = analyses("sage", "node", setting | {"clipping": "rows"}, TRAIN)
    assert rows[1:] == (implemented,) and rows[0].mechanisms == claim.mechanisms
    assert {plan.status for plan in rows} == {"refuted"}
    assert all("every row of the union" in plan.assumptions[0] for plan in rows)
    # Fewer rounds are none of the official code, nor of what runs here.
    assert implemented.mechanisms[0].count == claim.mechanisms[0].steps
    assert calibration_plan(list(rows), "corrected") == rows[0]


def test_progaps_baselines_are_worth_what_those_of_gap_are_with_exact_inference():
    """Other networks, the same releases: but as implemented no ε is known at node level."""
    own = by_name("node", NODE, TRAIN, "progapsage")
    theirs = by_name("node", NODE | {"inference": "exact"}, TRAIN)
    claim = own["as_published", "node_add_remove"]
    assert claim.method == "progapsage" and claim.status == "refuted"
    assert "predictions read neighbours without noise" in claim.assumptions[1]
    noise = calibrate(claim, 8.0, 1e-5).noise_multiplier
    worth = {name: epsilon_at(plan, claim, noise, 1e-5) for name, plan in own.items()}
    assert worth.pop(("as_implemented", "node_add_remove")) == math.inf
    gaps = theirs["as_published", "node_add_remove"]
    for name, value in worth.items():
        assert value == epsilon_at(theirs[name], gaps, noise, 1e-5)
    assert own["corrected", "participant"].status == "conditional"
    assert own["corrected", "node_add_remove"].composition.unnoised
    # As its code runs them the same ε is claimed, and none is known to hold.
    official = by_name("node", NODE, TRAIN, "progapsageofficial")
    first, *others = official.values()
    assert first.mechanisms == claim.mechanisms and "every row of the union" in first.assumptions[0]
    assert {plan.status for plan in official.values()} == {"refuted"}
    assert all(plan.composition.unnoised for plan in others)
    assert [plan.adjacency for plan in others] == ["node_add_remove", "participant", "node_replace"]
    chunks = {"perturbation": "asymmetric_chunks"}
    theirs = by_name("edge", chunks)
    for name, plan in by_name("edge", chunks, method="progapsageofficial").items():
        assert (plan.mechanisms, plan.status) == (theirs[name].mechanisms, "refuted")
    edge = {"perturbation": "asymmetric"}
    for name, plan in by_name("edge", edge, method="progapsage").items():
        other = by_name("edge", edge)[name]
        assert (plan.mechanisms, plan.status) == (other.mechanisms, other.status)


@given(st.sampled_from([10, 100, 400]), st.floats(0.5, 20))
@settings(max_examples=10)
def test_node_calibration_never_exceeds_its_target(max_degree, epsilon):
    plan = sage_plan("node", num_train=TRAIN, **NODE | {"max_degree": max_degree})
    found = calibrate(plan, epsilon, 1e-5)
    assert 0.99 * epsilon <= found.epsilon <= epsilon
    assert [entry.accountant for entry in found.accounting] == ["autodp"]
    assert "Daigavane" in found.accounting[0].method
    fewer = accounting.epsilon(plan, found.noise_multiplier * 0.99, 1e-5)
    assert fewer > epsilon * 0.999


def test_other_accountants_say_that_they_know_no_groups():
    plan = sage_plan("node", num_train=TRAIN, **NODE)
    for accountant in ("dp_accounting", "exact"):
        with pytest.raises(GraphDPError, match=r"use autodp|subsamples"):
            accounting.epsilon(plan, 1.0, 1e-5, accountant)


# --- privacy loss distributions, where they are asked for -----------------------------------------

#: Population, batch size, group: one that few batches hold, one of which all are drawn at times,
#: and one that every batch holds some of.
DRAWS = [(2031, 256, 101), (20, 7, 4), (12, 10, 5)]


def drawn(sampling):
    """Chance of each number of a group in a batch, by counting batches."""
    population, batch, group = sampling
    ways = {
        k: math.comb(group, k) * math.comb(population - group, batch - k)
        for k in range(group + 1)
        if 0 <= batch - k <= population - group
    }
    return {k: way / math.comb(population, batch) for k, way in ways.items()}


@pytest.mark.parametrize("sampling", DRAWS)
@pytest.mark.parametrize("noise", [0.3, 1.0, 4.0])
def test_the_divergence_of_known_draws_is_the_mean_over_batches(sampling, noise):
    """Against batches counted one by one and the Gaussian's own δ."""
    epsilons = np.array([0.0, 0.01, 0.3, 1.0, 3.0, 10.0])
    expected = [
        sum(
            chance * accounting.gaussian_delta(k / (sampling[2] * noise), epsilon)
            for k, chance in drawn(sampling).items()
            if k
        )
        for epsilon in epsilons
    ]
    found = KnownDraws(*sampling, noise).delta(epsilons)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("sampling", DRAWS)
def test_one_step_as_a_distribution_is_its_divergence_rounded_up(sampling):
    """Up on the pessimistic grid, down on the other, both near it."""
    term = FixedSizeSteps(((sampling, 1),))
    epsilons = np.array([0.0, 0.05, 0.5, 2.0])
    exact = KnownDraws(*sampling, 0.6).delta(epsilons)
    ((above, one),) = term.loss_distributions(0.6, 1e-3)
    ((below, _),) = term.loss_distributions(0.6, 1e-3, pessimistic=False)
    high, low = (np.array(of.get_delta_for_epsilon(epsilons)) for of in (above, below))
    assert one == 1 and (high >= exact * (1 - 1e-9)).all() and (low <= exact * (1 + 1e-9)).all()
    np.testing.assert_allclose(high, exact, rtol=3e-3)
    np.testing.assert_allclose(low, exact, rtol=3e-2)


@pytest.mark.parametrize("sampling", DRAWS)
@pytest.mark.parametrize("noise", [0.1, 1.0, 30.0])
def test_hardly_any_loss_lies_beyond_the_largest_that_is_followed(sampling, noise):
    """In the worst draw, and all the more in the mean over draws."""
    largest = KnownDraws(*sampling, noise).largest_loss
    most = max(drawn(sampling)) / (sampling[2] * noise)
    assert norm.sf(largest / most - most / 2) <= 1.001e-18
    assert norm.sf(0.95 * largest / most - most / 2) > 1e-18


def test_what_lies_beyond_the_followed_losses_counts_as_delta():
    draws = KnownDraws(*DRAWS[1], 0.5)
    cut = mirrored_loss.rounded_up(draws.delta, 0.5, 1e-3)
    (at_cut,) = draws.delta(np.array([0.5]))
    assert cut.get_delta_for_epsilon(5.0) >= at_cut * (1 - 1e-9) > 0.01


def test_two_batches_as_distributions_against_every_pair_of_them():
    """Composed: 2 rounds are one Gaussian for each pair of draws, of the root of both squares."""
    sampling, noise = DRAWS[1], 0.8
    plan = rounds(sampling, 2)
    chances = drawn(sampling)
    exact = {
        epsilon: sum(
            p * q * accounting.gaussian_delta(math.hypot(j, k) / (sampling[2] * noise), epsilon)
            for j, p in chances.items()
            for k, q in chances.items()
            if j or k
        )
        for epsilon in (0.1, 1.0, 2.5)
    }
    for epsilon, expected in exact.items():
        found = accounting.delta(plan, noise, epsilon, "pld")
        assert expected <= found <= 1.003 * expected


def rounds(sampling, steps):
    population, batch, group = sampling
    clip = sensitivity.clipped_group_gradient_sum(group, 1.0)
    made = FixedSizeDPSGD("gradients", population, batch, group, steps, clip, "training")
    return Plan("sage", "node", "participant", "corrected", "conditional", ("a",), False, (made,))


@pytest.mark.parametrize("sampling", DRAWS)
def test_no_gradients_exceed_the_divergence_of_known_draws(sampling):
    """Worlds that it bounds: gradients of one direction, which turn round in the other world, so
    that only the batch's draws are hidden. Their divergence comes near it, and never above it."""
    noise, chances = 0.7, drawn(sampling)
    # A step's two worlds as mixtures: k of the group have moved the sum from -k C to k C.
    shifts = np.array(list(chances)) / (sampling[2] * noise)
    weights = np.array(list(chances.values()))
    x = np.linspace(-12, 12, 200_001)
    up, down = (
        sum(
            w * np.exp(-((x - sign * s / 2) ** 2) / 2) / math.sqrt(2 * math.pi)
            for w, s in zip(weights, shifts, strict=True)
        )
        for sign in (1, -1)
    )
    epsilons = np.array([0.0, 0.1, 0.5, 1.5])
    bound = KnownDraws(*sampling, noise).delta(epsilons)
    worlds = np.array(
        [np.maximum(up - math.exp(e) * down, 0).sum() * (x[1] - x[0]) for e in epsilons]
    )
    assert (worlds <= bound * (1 + 1e-6) + 1e-12).all()
    assert worlds[0] == pytest.approx(bound[0], rel=1e-4)  # at ε = 0 its sign tells the world


@pytest.mark.parametrize("max_degree", [10, 100])
def test_node_calibration_by_privacy_loss_distributions(max_degree):
    """Less noise than by Rényi DP, which can only be looser; the same plan otherwise."""
    setting = NODE | {"max_degree": max_degree}
    plan = by_name("node", setting, TRAIN)["corrected", "participant"]
    (asked,) = accounted_by("pld", [plan])
    for epsilon in (1.0, 8.0):
        loose, found = (calibrate(one, epsilon, 1e-5) for one in (plan, asked))
        assert 0.999 * epsilon <= found.epsilon <= epsilon
        assert [e.accountant for e in found.accounting] == ["pld", "autodp_rdp"]
        assert found.accounting[1].epsilon > 1.02 * epsilon
        assert 1.02 < loose.noise_multiplier / found.noise_multiplier < 1.15
        assert found.plan.mechanisms == plan.mechanisms
        fewer = accounting.epsilon(asked, found.noise_multiplier * 0.999, 1e-5)
        assert fewer > epsilon


def test_no_audit_takes_known_draws_for_the_worst_worlds():
    plan = by_name("node", NODE, TRAIN)["corrected", "participant"]
    with pytest.raises(GraphDPError, match="no trade-off is known"):
        refuted_noise(plan, 1e-5, lambda losses, allowed: False)


@pytest.mark.parametrize("perturbation", ["asymmetric", "edge_rand", "lap_graph"])
@given(epsilon=st.floats(0.05, 30))
@settings(max_examples=20)
def test_edge_noise_is_one_over_epsilon_and_the_shares_add_up(perturbation, epsilon):
    plan = sage_plan("edge", perturbation)
    found = calibrate(plan, epsilon, 1e-7)
    parts = calibrated.pure_epsilons({"settings": {}, **found.to_dict()})
    assert sum(parts.values()) <= epsilon * (1 + 1e-15)
    assert found.epsilon <= epsilon
    assert found.epsilon == pytest.approx(epsilon, rel=1e-14)
    shares = {"asymmetric": 0.9, "edge_rand": 1.0, "lap_graph": 0.99}
    assert parts["link"] == pytest.approx(shares[perturbation] * epsilon, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_pure_epsilon_against_the_privacy_loss_distribution(epsilon):
    """Randomised response and Laplace noise, composed by dp-accounting: at tiny δ it reads ε."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    plan = sage_plan("edge")
    parts = calibrated.pure_epsilons({"settings": {}, **calibrate(plan, epsilon, 1e-7).to_dict()})
    interval = {"value_discretization_interval": 1e-4}
    link = pld.from_randomized_response(2 / (1 + math.exp(parts["link"])), 2, **interval)
    density = pld.from_laplace_mechanism(1 / parts["density"], **interval)
    tight = link.compose(density).get_epsilon_for_delta(1e-12)
    assert tight == pytest.approx(epsilon, abs=2e-3)


def test_edge_bases():
    published = sage_plan("edge")
    noise = calibrate(published, 4.0, 1e-7).noise_multiplier
    plans = by_name("edge", {"perturbation": "asymmetric"})
    found = {name: epsilon_at(plan, published, noise, 1e-7) for name, plan in plans.items()}
    assert found == {
        ("as_published", "edge_directed"): pytest.approx(4.0, rel=1e-14),
        ("as_implemented", "edge_undirected"): pytest.approx(8.0, rel=1e-14),
        ("corrected", "edge_undirected"): pytest.approx(4.0, rel=1e-14),
    }
    assert plans["as_implemented", "edge_undirected"].status == "refuted"
    assert plans["corrected", "edge_undirected"].status == "proven"
    assert len(by_name("edge", {"perturbation": "edge_rand"})) == 2
    # Where ordered pairs are perturbed apart, both entries of a connection cost twice.
    for kind in ("asymmetric", "edge_rand", "lap_graph"):
        apart = by_name("edge", {"perturbation": kind, "directed": True})
        claim = apart["as_published", "edge_directed"]
        assert epsilon_at(claim, claim, noise, 1e-7) == pytest.approx(4.0, rel=1e-14)
        both = epsilon_at(apart["corrected", "edge_undirected"], claim, noise, 1e-7)
        assert both == pytest.approx(8.0, rel=1e-14)


@pytest.mark.parametrize("calibrate_for", ["published", "corrected"])
@pytest.mark.parametrize("directed", [{}, {"directed": True}])
@pytest.mark.parametrize("perturbation", ["asymmetric", "edge_rand", "lap_graph"])
@pytest.mark.parametrize("method", ["sage", "progapsage"])
def test_answers_are_perturbed_with_the_epsilon_that_is_read(
    method, perturbation, directed, calibrate_for
):
    """Whichever analysis sets the noise: the entries of one edge that are answered apart, two of an
    undirected one, times the ε of their answers (and of the count, which moves by as many)."""
    setting = {"perturbation": perturbation} | directed
    (entry,) = calibrate_cell(
        "toy", method, "edge", "1", [setting], [100], 1000, 1e-5, calibrate_for, num_nodes=50
    )
    answered = sum(calibrated.pure_epsilons(entry).values())
    read = {(r["basis"], r["adjacency"]): r for r in entry["epsilons"]}
    held = {
        ("as_published", "edge_directed"): 1,
        ("corrected", "edge_undirected"): 2 if directed else 1,
    }
    for place, answers in held.items():
        assert read[place]["status"] == "proven"
        assert read[place]["epsilon"] == pytest.approx(answers * answered, rel=1e-12)
    own = read[entry["basis"], entry["adjacency"]]
    assert own["epsilon"] == pytest.approx(1, rel=1e-12)


def test_both_entries_of_an_edge_are_hidden_with_the_epsilon_of_the_corrected_plan():
    """Two nodes, with an edge and without; the event that both entries come out. The bound fails
    with probability 2e-9; the ratio with twice the ε is e², within its reach."""
    (entry,) = calibrate_cell(
        "toy", "sage", "edge", "1", [{"perturbation": "edge_rand", "directed": True}], [100], 1000,
        1e-5, "corrected", num_nodes=50,
    )  # fmt: skip
    epsilons, draws = calibrated.pure_epsilons(entry), 4000
    worlds = {
        "edge": (np.array([0, 1, 2], np.int64), np.array([1, 0], np.int32)),
        "none": (np.zeros(3, np.int64), np.zeros(0, np.int32)),
    }
    seen = {}
    for world, graph in worlds.items():
        coins = Coins("both entries", world)
        made = (
            perturb(*graph, "edge_rand", epsilons, coins, 10**6, directed=True)
            for _ in range(draws)
        )
        seen[world] = sum(len(indices) == 2 for _, indices in made)
    least = beta.ppf(1e-9, seen["edge"], draws - seen["edge"] + 1)
    most = beta.ppf(1 - 1e-9, seen["none"] + 1, draws - seen["none"])
    assert 0.5 < math.log(least / most) <= entry["target_epsilon"]


def test_chunks_claim_an_epsilon_and_none_is_known_to_hold():
    plans = by_name("edge", {"perturbation": "asymmetric_chunks"})
    claim = plans["as_published", "edge_directed"]
    found = calibrate(claim, 4.0, 1e-7)
    assert calibrated.pure_epsilons({"settings": {}, **found.to_dict()}) == pytest.approx(
        {"density": 0.4, "link": 3.6}, rel=1e-12
    )
    worth = {name: epsilon_at(p, claim, 0.25, 1e-7) for name, p in plans.items()}
    assert worth == {
        ("as_published", "edge_directed"): pytest.approx(4.0, rel=1e-14),
        ("as_implemented", "edge_directed"): math.inf,
        ("as_implemented", "edge_undirected"): math.inf,
    }
    assert {plan.status for plan in plans.values()} == {"refuted"}
    assert all("too small by the factor" in plan.assumptions[0] for plan in plans.values())
    # Where a corrected analysis is asked for there is none, so the claim stands, and is refused.
    assert calibration_plan(list(plans.values()), "corrected") == claim


def test_delta_of_a_pure_release_is_that_of_randomised_response():
    plan = sage_plan("edge", "edge_rand")
    p = math.exp(2.0) / (1 + math.exp(2.0))
    for epsilon in (0.0, 0.5, 1.9):
        expected = p - math.exp(epsilon) * (1 - p)
        assert accounting.delta(plan, 0.5, epsilon) == pytest.approx(expected, rel=1e-12)
    assert accounting.delta(plan, 0.5, 2.1) == 0


def test_pure_releases_compose_in_a_search():
    parts = ((sage_plan("edge").composition, 0.25),)
    assert composition_epsilon([parts, parts], 1e-7) == pytest.approx(8.0)
    # One trial at random of two with a mean of one: at most the pure ε itself, plus conversion.
    searched = search_epsilon([parts, parts], 2.0, 1e-7)
    assert 4.0 < searched < 12 + 2


def test_renyi_curve_of_a_pure_release_is_that_of_randomised_response():
    epsilon, p = 1.3, 1 / (1 + math.exp(-1.3))
    for order in (1.5, 2, 20):
        exact = math.log(p**order * (1 - p) ** (1 - order) + (1 - p) ** order * p ** (1 - order))
        assert pure_log_moment(epsilon, order) == pytest.approx(exact, rel=1e-12)
        assert pure_log_moment(epsilon, order) <= (order - 1) * epsilon


def test_missing_and_wrong_settings_are_one_line():
    with pytest.raises(GraphDPError, match="give max_degree, num_train"):
        sage_plan("node", batch_size=1, epochs=1, max_grad_norm=1.0)
    with pytest.raises(GraphDPError, match="choose one of asymmetric, edge_rand, lap_graph"):
        sage_plan("edge", "flip")
    bound = Sensitivity(1, "1", "x")
    with pytest.raises(GraphDPError, match="'row'; choose one of samples, rows"):
        analyses("sage", "node", NODE | {"clipping": "row"}, TRAIN)
    with pytest.raises(GraphDPError, match="share of ε is 0"):
        PureRelease("q", bound, 0, "link")
    with pytest.raises(GraphDPError, match="batch_size is 9"):
        FixedSizeDPSGD("q", 8, 9, 1, 1, bound, "classifier")


def test_the_card_knows_whose_epsilon_speaks_of_the_weights_alone():
    """Of each method and setting what the plan's statement says of predictions; and a table says it
    below."""
    edge = {"perturbation": "asymmetric"}
    for method, level, setting in (
        ("sage", "edge", edge),
        ("sage", "node", NODE),
        ("sage", "node", NODE | {"inference": "exact"}),
        ("progapsage", "edge", edge),
        ("progapsage", "node", NODE),
        ("progapsageofficial", "node", NODE),
    ):
        plan = analyses(method, level, setting, TRAIN)[0]
        exact = "without noise" in inference(plan)
        assert card(method).weights_alone(level, setting) is exact
        cell = dict.fromkeys(ACCURACY_COLUMNS, "") | dict.fromkeys(FLOATS, 0.5)
        cell |= dict.fromkeys(COUNTS, 0) | {"dataset": "csbm", "method": method, "level": level}
        cell |= {"epsilon": "8", "hyperparameters": json.dumps(setting)}
        below = " ".join(tables.show_accuracy(pd.DataFrame([cell])).notes)
        assert (f"{method_label(method, level)}: each ε is of the weights alone" in below) is exact


@pytest.mark.parametrize(
    ("method", "level", "setting"),
    [
        ("sage", "edge", {"perturbation": "asymmetric"}),
        ("sage", "edge", {"perturbation": "asymmetric_chunks"}),
        ("sage", "node", NODE),
        ("sage", "node", NODE | {"inference": "exact"}),
        ("sage", "node", NODE | {"clipping": "rows"}),
        ("progapsage", "node", NODE),
        ("progapsageofficial", "node", NODE),
    ],
)
def test_statement(method, level, setting):
    entry = calibrate_cell(
        "csbm", method, level, "4", [setting], [TRAIN], 900_000, "auto", num_nodes=26_000
    )[0]
    data = Data(
        name="csbm", fingerprint="f" * 64, nodes=26_000, directed_edges=900_000,
        train_nodes=TRAIN, undirected=True,
    )  # fmt: skip
    made = statement(
        entry,
        data,
        method=method,
        checkpoint="last",
        tried=[entry],
        analyses=partial(analyses, method, level),
        words=card(method).words,
    )
    assert Statement.from_json(made.to_json()) == made
    kinds = {m.kind: m for m in made.mechanisms}
    if level == "edge":
        assert set(kinds) == {"pure"} and kinds["pure"].norm == "L1"
        assert "perturbed graph" in made.inference_privacy
        assert "perturbed graph" in [release.what for release in made.releases]
    else:
        exact = "inference" in setting or method != "sage"
        assert set(kinds) == {"fixed_size_dpsgd"} | (set() if exact else {"gaussian"})
        assert ("exact rows" in made.inference_privacy) is exact
        assert ("one noisy aggregate" in made.inference_privacy) is not exact
        assert exact is any("as far as predictions" in one for one in made.protection.not_protected)
        why = {release.what: release.why for release in made.releases}["predictions"]
        assert exact is ("neighbours' data without noise" in why)
        assert kinds["fixed_size_dpsgd"].sampling == "without_replacement"
        assert kinds["fixed_size_dpsgd"].noise_std == pytest.approx(202 * entry["noise_multiplier"])
        both = "then of its in-list" in made.guarantee.degree_bound.method
        assert both is (method == "sage")
        assert made.accounting[0].epsilon == "none"


def test_command_line(capsys):
    words = "calibrate sage --level edge --epsilon 2 --delta 1e-7 --perturbation lap_graph --json"
    assert cli.main(words.split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["noise_multiplier"] == 0.5 and found["status"] == "proven"
    words = "calibrate sage --level node --epsilon 8 --train-nodes 19800 --batch-size 256"
    assert cli.main([*words.split(), "--epochs", "10", "--max-degree", "100"]) == 0
    assert "Daigavane" in capsys.readouterr().out


def test_rows_are_known_in_whichever_order_their_analyses_stand():
    """They were shipped in another; swapped adjacencies, or another ε, are no order."""

    def read(replaced, participant):
        return [
            {"basis": "corrected", "adjacency": "node_replace", "epsilon": replaced},
            {"basis": "corrected", "adjacency": "participant", "epsilon": participant},
        ]

    def known(found):
        both = map(known_rows._by_analysis, (found, read(36.0, 16.0)))
        return known_rows._same(*both, 1e-6)

    assert known(read(36.0, 16.0)) and known(read(36.0, 16.0)[::-1])
    assert not known(read(16.0, 36.0)) and not known(read(36.0, 16.1))
    assert not known(read(36.0, 16.0)[:1])


def test_a_row_with_less_noise_is_known_only_where_its_epsilon_is_not_larger():
    """Of pure ε every digit of the noise counts: what a search may round off is none of theirs."""
    entry = calibrate(sage_plan("edge"), 2.0, 1e-7).to_dict()
    noise = entry["noise_multiplier"]
    assert known_rows._is_enough(entry, noise * (1 + 4e-6), noise)
    assert known_rows._is_enough(entry, noise * (1 - 5e-7), noise)  # the digits of a file
    assert not known_rows._is_enough(entry, noise * (1 - 2e-6), noise)
    # The search kept this far from the target: here it is the accountant that decides.
    wasteful = entry | {"target_epsilon": 2.0 * (1 + 3e-6)}
    assert known_rows._is_enough(wasteful, noise * (1 - 2e-6), noise)
    assert not known_rows._is_enough(wasteful, noise * (1 - 4e-6), noise)
    assert not known_rows._is_enough(wasteful | {"target_epsilon": 9.0}, noise * (1 - 6e-6), noise)
