"""Node membership inference: whom it asks about, what it finds, what its models release."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auc_fixture import single_bound
from ensemble_fixture import one_thread  # noqa: F401  (used by every test here)
from graphdp.attacks import membership
from graphdp.attacks.attack_rows import write_rows
from graphdp.attacks.auc import pooled_bound
from graphdp.attacks.nodes import ROLES, class_counts, members_per_class, sample_nodes
from graphdp.data.csbm import csbm
from graphdp.errors import GraphDPError
from graphdp.methods.card import Stage, whole
from graphdp.methods.mlp import method as mlp
from graphdp.methods.registry import card
from graphdp.paper.attack import collect_attacks, read_attacks
from graphdp.privacy.plan import Plan, UnnoisedRelease
from graphdp.releases.cache import AggregateCache
from graphdp.rng import generator
from graphdp.workflow.calibrations import calibrate_cell

HOPS = 2
SETTINGS = {
    ("mlp", "none"): {"hidden": 64},
    ("mlp", "node"): {"batch_size": 32, "epochs": 4},
    ("gap", "none"): {"hidden": 64, "hops": HOPS},
    ("gap", "node"): {"batch_size": 32, "epochs": 4, "hops": HOPS, "max_degree": 5},
    ("progap", "node"): {"batch_size": 32, "epochs": 2, "depth": 1, "max_degree": 5},
    ("sage", "none"): {"hidden": 64, "mp_layers": HOPS},
    ("sage", "node"): {"batch_size": 32, "epochs": 2, "max_degree": 5},
}


@pytest.fixture(scope="module")
def graph():
    return csbm(1000, 40, 8.0, 3.25, 0.5, 1)


def attacked(graph, method, level, epsilon="inf", repeats=(0, 1), nodes_per_class=250):
    """(block, the method's card, its setting)."""
    its = card(method)
    setting = its.settings(level)(**SETTINGS[method, level]).model_dump(exclude_none=True)
    entries = calibrate_cell(
        "small", method, level, epsilon, [its.plan(level, setting)],
        [int(members_per_class(graph.y, nodes_per_class).sum())],
        graph.num_edges, "auto", num_nodes=graph.num_nodes,
    )  # fmt: skip
    block = membership.AttackBlock.of_repeats(
        list(repeats),
        nodes_per_class,
        graph=graph,
        dataset="small",
        method=method,
        level=level,
        epsilon=epsilon,
        study_seed=7,
        study="study",
        calibrations=json.loads(json.dumps(entries)),
    )
    return block, its, setting


def aucs(outcomes):
    return [outcome.auc for outcome in outcomes]


def spread(members, repeats):
    """Standard deviation of the mean AUC of scores that know nothing (Mann-Whitney)."""
    return math.sqrt((2 * members + 1) / (12 * members**2) / repeats)


# --- whom ---


@settings(max_examples=60)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=4), st.integers(1, 25), st.integers(0, 9))
def test_members_and_others_are_disjoint_and_as_many_of_each_class(sizes, wanted, seed):
    y = generator(seed, "labels").permutation(np.repeat(np.arange(len(sizes)), sizes))
    if max(sizes) < 6 or wanted < 3:
        with pytest.raises(GraphDPError, match="no class"):
            sample_nodes(y, wanted, generator(seed))
        return
    sampled = sample_nodes(y, wanted, generator(seed))
    parts = [part for s in sampled.values() for part in (s.train, s.val, s.test)]
    together = np.concatenate(parts)
    assert len(np.unique(together)) == len(together)
    given_to_each = np.minimum(np.array(sizes) // 2, wanted)
    for own in sampled.values():
        for part, share in ((own.train, 2), (own.test, 2)):
            counts = np.bincount(y[part], minlength=len(sizes))
            np.testing.assert_array_equal(counts, given_to_each * share // 5)
        assert own.train.size + own.val.size + own.test.size == given_to_each.sum()


def test_the_authors_numbers():
    y = np.repeat(np.arange(3), [2000, 5000, 1500])
    np.testing.assert_array_equal(class_counts(y, 1000), [1000, 1000, 750])
    np.testing.assert_array_equal(members_per_class(y, 1000), [400, 400, 300])


def test_every_node_is_a_member_equally_often():
    """Of 40 nodes a class gives 8 members per role: 1/5 each, 400 draws; 5 standard deviations of
    a binomial, so each of the 160 counts fails with probability below 6e-7."""
    y = np.repeat([0, 1], 40)
    counts = {role: np.zeros(80) for role in ROLES}
    for draw in range(400):
        for role, own in sample_nodes(y, 1000, generator("uniform", draw)).items():
            counts[role][own.train] += 1
    for count in counts.values():
        assert np.abs(count - 80).max() < 5 * math.sqrt(400 * 0.2 * 0.8)


def test_all_methods_and_epsilons_attack_the_same_nodes_and_share_no_stream(graph):
    one, _, _ = attacked(graph, "mlp", "node", "1")
    other, _, _ = attacked(graph, "gap", "none", repeats=(1,))
    for role in ROLES:
        seed = membership.model_seed(1, role)
        np.testing.assert_array_equal(one.split(seed).train, other.split(seed).train)
    blocks = [one, other, attacked(graph, "mlp", "node", "1", nodes_per_class=200)[0]]
    names = [block.stream(seed, "init") for block in blocks for seed in block.seeds]
    assert len(set(names)) == len(names)


# --- what it finds ---


@pytest.mark.slow
@pytest.mark.parametrize("method", ["mlp", "gap", "sage"])
def test_an_overfitted_model_gives_its_members_away(graph, method, tmp_path):
    """Above one half by 5 standard deviations of scores that know nothing: 3e-7."""
    block, its, setting = attacked(graph, method, "none", repeats=range(5))
    outcomes = membership.membership_inference(block, its, setting, AggregateCache(tmp_path))
    members = block.split(0).train.size
    assert members == 200
    assert np.mean(aucs(outcomes)) > 0.5 + 5 * spread(members, 5)
    if method != "sage":  # of which 60 members of each model are too few to tell
        same = [outcome.auc_same_model for outcome in outcomes]
        assert np.mean(same) > 0.5 + 5 * spread(0.3 * members, 5)
    for outcome in outcomes:
        model = outcome.models["target"]
        assert model.train_accuracy > model.test_accuracy
        np.testing.assert_allclose(model.posteriors.sum(1), 1, atol=1e-5)
        np.testing.assert_array_equal(model.posteriors.argmax(1), model.predictions)


def test_a_model_that_answers_everybody_alike_gives_nobody_away(graph, monkeypatch, tmp_path):
    """Members and others have equal numbers of each class, so the AUC is exactly one half."""
    block, its, setting = attacked(graph, "mlp", "none")
    run_all = membership.run_all

    def constant(*arguments):
        fitted = run_all(*arguments)
        for _, _, model in fitted:
            model.posteriors[:] = 1 / model.posteriors.shape[1]
        return fitted

    monkeypatch.setattr(membership, "run_all", constant)
    outcomes = membership.membership_inference(block, its, setting, AggregateCache(tmp_path))
    assert aucs(outcomes) == [0.5, 0.5]


def test_unrelated_labels_give_nobody_away(graph, monkeypatch, tmp_path):
    """The attack model is told of memberships that have nothing to do with the shadow model: an
    AUC beyond 5 standard deviations has probability 6e-7."""
    block, its, setting = attacked(graph, "mlp", "none")
    samples = membership.attack_samples

    def shuffled(posteriors, y, nodes):
        x, member = samples(posteriors, y, nodes)
        return generator("shuffled").permutation(x), member

    monkeypatch.setattr(membership, "attack_samples", shuffled)
    outcomes = membership.membership_inference(block, its, setting, AggregateCache(tmp_path))
    assert abs(np.mean(aucs(outcomes)) - 0.5) < 5 * spread(200, 2)


@pytest.mark.parametrize("method", ["mlp", "gap"])
def test_differential_privacy_keeps_the_attack_below_its_bound(graph, method, tmp_path):
    """At ε = 1 the attack stays within what guessing reaches (5 standard deviations: 6e-7 for
    scores that know nothing), far below the bounds and below the model without privacy."""
    block, its, setting = attacked(graph, method, "node", "1")
    outcomes = membership.membership_inference(block, its, setting, AggregateCache(tmp_path))
    entry = block.calibrations[0]
    epsilon = membership.membership_epsilon(entry)
    assert abs(np.mean(aucs(outcomes)) - 0.5) < 5 * spread(200, 2)
    assert np.mean(aucs(outcomes)) < single_bound(epsilon, entry["delta"])
    assert single_bound(epsilon, entry["delta"]) < pooled_bound(epsilon, entry["delta"]) < 0.94


# --- what it costs ---


def test_membership_costs_the_training_phases_alone(graph):
    mlp = attacked(graph, "mlp", "node", "1")[0].calibrations[0]
    assert membership.membership_epsilon(mlp) == pytest.approx(mlp["accounting"][0]["epsilon"])
    gap = attacked(graph, "gap", "node", "1")[0].calibrations[0]
    assert 0 < membership.membership_epsilon(gap) < 1
    none = attacked(graph, "gap", "none")[0].calibrations[0]
    assert membership.membership_epsilon(none) == math.inf


@pytest.mark.parametrize("method", ["gap", "progap", "sage"])
def test_queries_release_nothing_beyond_the_plan(graph, method, tmp_path):
    block, its, setting = attacked(graph, method, "node", "4", repeats=(3,))
    cache = AggregateCache(tmp_path)
    (outcome,) = membership.membership_inference(block, its, setting, cache)
    (entry,) = block.calibrations
    planned = sum(m.get("count", 0) for m in entry["plan"]["mechanisms"])
    sigma = block.phase(entry["settings"], block.seeds[0], "aggregation").run.noise_std
    assert len(cache.ledger) == planned * len(ROLES) > 0
    assert {one.noise_std for one in cache.ledger} == {sigma}
    assert len({(one.stream, one.hop) for one in cache.ledger}) == len(cache.ledger)
    assert outcome.repeat == 3


def test_a_method_with_other_stages_is_run_through_all_of_them(graph, monkeypatch, tmp_path):
    block, its, setting = attacked(graph, "mlp", "none")
    distil = Stage("distil", "graphdp.methods.mlp.method:distil", settings=whole)
    fit, read = mlp.fit, []
    monkeypatch.setattr(mlp, "distil", lambda block, settings: list(block.seeds), raising=False)
    monkeypatch.setattr(
        mlp, "fit", lambda block, settings, made: (read.append(made), fit(block, settings))[1]
    )
    last = replace(its.stage("fit"), reads=("distil",))
    its = replace(its, stages=(distil, last))
    membership.membership_inference(block, its, setting, AggregateCache(tmp_path))
    assert read == [block.seeds]


def test_a_repeat_does_not_depend_on_its_block(graph, tmp_path):
    alone, its, setting = attacked(graph, "gap", "node", "4", repeats=(1,))
    both, _, _ = attacked(graph, "gap", "node", "4")
    fitted = [
        {seed: m for seed, _, m in membership.run_all(b, its, setting, AggregateCache(path))}
        for b, path in ((alone, tmp_path / "a"), (both, tmp_path / "b"))
    ]
    for seed in alone.seeds:
        np.testing.assert_allclose(
            fitted[0][seed].posteriors, fitted[1][seed].posteriors, atol=1e-4
        )


# --- rows ---


@pytest.fixture
def rows(graph, tmp_path):
    block, its, setting = attacked(graph, "mlp", "node", "1")
    outcomes = membership.membership_inference(block, its, setting, AggregateCache(tmp_path))
    return block, setting, outcomes


def test_rows_name_what_was_attacked_and_what_its_epsilon_covers(rows, tmp_path):
    write_rows(tmp_path / "0-1.csv", *rows)
    collect_attacks([tmp_path / "0-1.csv"], tmp_path / "attacks.csv")
    table = read_attacks(tmp_path / "attacks.csv")
    assert list(table["seed"]) == [0, 1]
    assert table["auc"].tolist() == aucs(rows[2])
    assert set(table["epsilon"]) == {"1"} and set(table["adjacency"]) == {"node_add_remove"}
    assert (table["membership_epsilon"] <= 1).all() and (table["delta"] == 1e-3).all()
    assert (table["noise_multiplier"] > 0).all() and (table["auc_bound"] < 1).all()
    with pytest.raises(GraphDPError, match="stands twice"):
        collect_attacks([tmp_path / "0-1.csv"] * 2, tmp_path / "twice.csv")


def test_a_model_with_an_extra_round_gives_no_row(rows, tmp_path):
    *rest, outcomes = rows
    shadow = outcomes[1].models["shadow"]
    run = shadow.executed["classifier"]
    executed = {"classifier": replace(run, count=run.count + 1)}
    extra = outcomes[1].models | {"shadow": replace(shadow, executed=executed)}
    with pytest.raises(GraphDPError, match="noisy rounds"):
        write_rows(tmp_path / "x.csv", *rest, [outcomes[0], replace(outcomes[1], models=extra)])
    assert not (tmp_path / "x.csv").exists()


def test_no_attack_gives_empty_rows(tmp_path):
    collect_attacks([], tmp_path / "attacks.csv")
    assert read_attacks(tmp_path / "attacks.csv").empty


def test_no_membership_epsilon_where_a_phase_is_of_a_kind_that_is_not_known(graph):
    entry = attacked(graph, "gap", "node", "1")[0].calibrations[0]
    assert membership.membership_epsilon(entry) < math.inf
    plan = Plan.from_dict(entry["plan"])
    more = (*plan.mechanisms, UnnoisedRelease("numbers of neighbours", "counts"))
    unknown = replace(plan, mechanisms=more).to_dict()
    assert membership.membership_epsilon(entry | {"plan": unknown}) == math.inf
