"""The AUC against all pairs, and its bounds against the mechanisms that reach them."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auc_fixture import single_bound
from graphdp.attacks.auc import auc, pooled_bound
from graphdp.errors import GraphDPError
from graphdp.rng import generator

SCORES = st.lists(st.integers(-3, 3), min_size=1, max_size=12)
EPSILONS, DELTAS = (0.0, 0.1, 1.0, 3.0, 8.0), (0.0, 1e-4, 0.05, 0.3)


@given(SCORES, SCORES)
def test_auc_is_the_share_of_pairs_in_the_right_order(members, others):
    pairs = [(a > b) + 0.5 * (a == b) for a in members for b in others]
    assert auc(np.array(members), np.array(others)) == pytest.approx(np.mean(pairs), abs=1e-12)


def test_judging_the_same_balanced_nodes_falls_below_one_half():
    """Six classes of 800 nodes, half of them members, and an attack that knows the class alone: it
    learns which classes have more members in 6/10 of the nodes, and so fewer in the rest: the mean
    of 100 draws is more than 5 standard errors below one half. Where all classes are balanced, as
    among a target model's nodes, it guesses: exactly one half."""
    random = generator("same model")
    member = np.tile([True, False], 2400)
    label = np.repeat(np.arange(6), 800)
    same, other = [], []
    for _ in range(100):
        order = random.permutation(4800)
        seen, held_out = order[:2880], order[3360:]
        score = np.array([member[seen][label[seen] == c].mean() for c in range(6)])[label]
        same.append(auc(score[held_out][member[held_out]], score[held_out][~member[held_out]]))
        other.append(auc(score[member], score[~member]))
    assert np.mean(same) < 0.5 - 5 * np.std(same) / 10
    assert other == [0.5] * 100


def test_auc_of_a_constant_score_is_one_half():
    assert auc(np.zeros(7), np.zeros(3)) == 0.5


@pytest.mark.parametrize("members", [[], [math.nan]])
def test_auc_refuses_what_has_no_order(members):
    with pytest.raises(GraphDPError, match="AUC"):
        auc(np.array(members), np.array([1.0]))


@pytest.mark.parametrize(("epsilon", "delta"), [*itertools.product(EPSILONS, DELTAS)])
def test_single_bound_is_reached_by_the_mechanism_that_hides_least(epsilon, delta):
    """With chance δ the bit itself, else randomised response: the worst (ε, δ)-DP mechanism."""
    flip = 1 / (1 + math.exp(epsilon))
    inside = np.array([delta, (1 - delta) * (1 - flip), (1 - delta) * flip, 0.0])
    outside = inside[::-1]
    reached = sum(
        p * q * ((i < j) + 0.5 * (i == j))
        for (i, p), (j, q) in itertools.product(enumerate(inside), enumerate(outside))
    )
    assert single_bound(epsilon, delta) == pytest.approx(reached, abs=1e-12)


def curve(epsilon, delta, x):
    return np.minimum(
        1, np.minimum(delta + np.exp(epsilon) * x, 1 - np.exp(-epsilon) * (1 - delta - x))
    )


@pytest.mark.parametrize(("epsilon", "delta"), [*itertools.product(EPSILONS, DELTAS)])
def test_single_bound_is_the_area_under_the_curve_that_dp_leaves(epsilon, delta):
    x = np.linspace(0, 1, 200_001)
    assert np.trapezoid(curve(epsilon, delta, x), x) == pytest.approx(
        single_bound(epsilon, delta), abs=1e-5
    )


@pytest.mark.parametrize(("epsilon", "delta"), [*itertools.product((0.0, 0.3, 1.0), (0.0, 1e-4))])
def test_pooled_bound_is_the_largest_average_over_both_orders(epsilon, delta):
    exchange = 2 * epsilon, (1 + math.exp(epsilon)) * delta
    beta = np.linspace(0, 1, 10_001)
    both = (curve(*exchange, beta) + curve(*exchange, 1 - beta)) / 2
    assert pooled_bound(epsilon, delta) == pytest.approx(both.max(), abs=1e-9)


def test_a_joint_mechanism_beats_the_bound_for_one_node_but_not_the_pooled_one():
    """Two nodes; the answer names one of them. Its chance of v is 1/2 if both or none is a member,
    and 1 - e^-ε / 2 if v alone is: ε-DP in either membership, for which `pooled_bound` must hold
    though `single_bound` does not."""
    epsilon = 1.0
    named = {(0, 0): 0.5, (1, 1): 0.5, (1, 0): 1 - math.exp(-epsilon) / 2}
    named[0, 1] = 1 - named[1, 0]
    for (v, w), (a, b) in itertools.product(named, named):
        if abs(v - a) + abs(w - b) == 1:
            p, q = named[v, w], named[a, b]
            assert max(p / q, (1 - p) / (1 - q)) <= math.exp(epsilon) * (1 + 1e-12)
    reached = (named[1, 0] + 1 - named[0, 1]) / 2
    assert single_bound(epsilon, 0) < reached <= pooled_bound(epsilon, 0)


def test_bounds_run_from_one_half_to_one():
    for bound in (single_bound, pooled_bound):
        assert bound(0, 0) == 0.5
        assert bound(math.inf, 0) == bound(1e4, 0) == pytest.approx(1)
        values = [bound(epsilon, 1e-5) for epsilon in np.linspace(0, 20, 50)]
        assert values == sorted(values) and max(values) <= 1
    for wrong in ((-1, 0), (math.nan, 0), (1, 2)):
        with pytest.raises(GraphDPError, match="bound"):
            pooled_bound(*wrong)
