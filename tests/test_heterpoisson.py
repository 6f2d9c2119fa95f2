"""HeterPoisson through its stage: what is run is what the plan accounts, and what it reads."""

import json
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from scipy import stats

from ensemble_fixture import one_thread  # noqa: F401
from graphdp.data.graph import Graph, csr_from_edges
from graphdp.data.split import split_of
from graphdp.errors import GraphDPError
from graphdp.methods.block import Block
from graphdp.methods.heterpoisson import bags, method
from graphdp.methods.registry import card
from graphdp.methods.settings import key
from graphdp.privacy import calibrated
from graphdp.workflow.calibrations import calibrate_cell

NODES, CLASSES = 300, 3
IDS = ("heterpoisson", "heterpoissonsml", "heterpoissonofficial")


def graph_of(seed=0, x=None, directed=False):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, NODES)
    labels[:CLASSES] = range(CLASSES)
    if x is None:
        x = rng.normal(size=(NODES, 6)) + 2 * np.eye(CLASSES, 6)[labels]
    ends = rng.integers(0, NODES, (2, 900))
    indptr, indices = csr_from_edges(*ends, NODES, symmetrise=not directed)
    return Graph(
        "g", x.astype(np.float32), labels, indptr, indices, np.arange(NODES), NODES, CLASSES
    )


@cache
def calibrated_cell(name, level, epsilon, plan, num_train, num_edges):
    """A calibration takes seconds, and many tests want the same."""
    return calibrate_cell("g", name, level, epsilon, [json.loads(plan)], [num_train], num_edges,
                          "auto")  # fmt: skip


def block(
    graph, name="heterpoisson", epsilon="4", seeds=(0,), more=None, split="shared", **changes
):
    level = "none" if epsilon == "inf" else "node"
    small = {"hidden": 8, "batch_size": 40, "epochs": 3, "test_neighbors": 4} | changes
    setting = card(name).settings(level)(**small).model_dump(exclude_none=True)
    num_train = split_of(graph, 1, split, 0).train.size
    plan = key(card(name).plan(level, setting))
    calibrations = calibrated_cell(name, level, epsilon, plan, num_train, graph.num_edges)
    made = Block(
        graph=graph, dataset="g", method=name, level=level, epsilon=epsilon, seeds=list(seeds),
        study_seed=1, split_rule=split, checkpoint="last", device="cpu",
        calibrations=calibrations, **(more or {}),
    )  # fmt: skip
    return made, setting


@pytest.mark.alike
@pytest.mark.slow
@pytest.mark.parametrize("convolution", ["gcn", "gin", "sage"])
@pytest.mark.parametrize("name", IDS)
def test_what_is_run_is_what_the_plan_accounts(name, convolution):
    seen = []
    more = {"observe": lambda phase, seeds, values, sums: seen.append((phase, sums.clone()))}
    made, setting = block(graph_of(), name, more=more, convolution=convolution)
    ((_, _, model),) = method.fit(made, [setting])
    calibrated.check_execution(made.calibrations[0], model.executed)
    train = made.split(0).train.size
    official = name == "heterpoissonofficial"
    steps = 3 * math.ceil(train / 40) if official else math.ceil(3 * train / 40)
    run = model.executed["training"]
    assert len(seen) == model.rounds == run.count == steps
    assert run.max_grad_norm == 0.5 and run.batch_size == (None if official else 40)
    assert run.noise == ("gaussian" if name == "heterpoisson" else "sml")
    assert all(np.isfinite(value).all() for value in model.parameters.values())


def test_without_privacy_the_same_rounds_learn():
    """Classes are two standard deviations apart: far better than guessing (a third)."""
    made, setting = block(graph_of(), epsilon="inf", epochs=30, num_neighbors=2)
    ((_, _, model),) = method.fit(made, [setting])
    assert model.rounds == 0 and model.executed == {} and model.test_accuracy > 0.7


@pytest.mark.slow
@pytest.mark.parametrize("overlap", ["kept", pytest.param("dropped", marks=pytest.mark.slow)])
def test_equal_arguments_train_equal_models(overlap):
    found = []
    for seeds in ((0, 1), (1,)):
        made, setting = block(graph_of(), seeds=seeds, overlap=overlap)
        models = {seed: model for seed, _, model in method.fit(made, [setting])}
        found.append(models[1].parameters)
    for name, value in found[0].items():
        assert np.array_equal(value, found[1][name])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["transductive", "inductive"])
def test_predictions_read_no_training_node(kind):
    """Other features of all training nodes change no score of another node, given the weights; one
    for a training node reads others of them, and no other node."""
    graph = graph_of()
    made, setting = block(graph, num_neighbors=3, test_neighbors=50, setting=kind)
    trained_on = made.split(0).train
    x = graph.x.copy()
    x[trained_on] = 7.0
    changed, _ = block(graph_of(x=x), num_neighbors=3, test_neighbors=50)
    _, lists = method.lists_of(made, 0, setting)
    others = np.setdiff1d(np.arange(NODES), trained_on)
    assert not np.isin(lists.all_of(others).peripherals, trained_on).any()
    assert len(lists.all_of(others).peripherals)
    assert np.isin(lists.all_of(trained_on).peripherals, trained_on).all()
    assert len(lists.all_of(trained_on).peripherals)

    shape = method_shape(graph)
    values = torch.tensor(shape.initial(np.random.default_rng(0))).float()
    chosen = lists.some_of(others, 50, np.random.default_rng(1))
    scores = [model_of(shape, one.graph, values).scores(chosen).numpy() for one in (made, changed)]
    assert np.array_equal(*scores)


def method_shape(graph):
    from graphdp.methods.heterpoisson.network import Convolution

    return Convolution(graph.num_features, 8, CLASSES, "sage")


def model_of(shape, graph, values):
    from graphdp.methods.heterpoisson.network import Model, features_of

    return Model(shape, features_of(graph.x, torch.empty(0)), values)


@pytest.mark.slow
def test_inductive_training_reads_training_nodes_alone():
    graph = graph_of()
    for setting_name, reads_others in (("transductive", True), ("inductive", False)):
        made, setting = block(graph, setting=setting_name, num_neighbors=2)
        lists, _ = method.lists_of(made, 0, setting)
        train = made.split(0).train
        read = lists.all_of(train).peripherals
        assert bool((~np.isin(read, train)).any()) is reads_others


@pytest.mark.slow
def test_no_more_training_nodes_list_a_node_than_are_announced():
    """The plan accounts as many lists as there are training nodes, of a private release as many as
    are announced: 100 here, where a node that all others list is in the lists of over 200."""
    ends = np.stack([np.delete(np.arange(NODES), 7), np.full(NODES - 1, 7)])
    indptr, indices = csr_from_edges(*ends, NODES, symmetrise=True)
    star = replace(graph_of(), indptr=indptr, indices=indices)
    made, setting = block(star, num_neighbors=2)
    train = made.split(0).train
    _, small = block(graph_of(), num_neighbors=2)
    method.lists_of(made, 0, setting)
    method.lists_of(replace(made, announced=train.size), 0, setting)
    method.lists_of(replace(made, graph=graph_of(), announced=100), 0, small)
    held = (train != 7).sum()
    for reads in ("transductive", "inductive"):
        with pytest.raises(GraphDPError, match=f"^{held} training nodes list one .* takes 100"):
            method.lists_of(replace(made, announced=100), 0, setting | {"setting": reads})


@pytest.mark.alike
@pytest.mark.slow
@pytest.mark.parametrize("name", IDS)
def test_inductive_rates_as_published_count_the_lists_of_the_whole_graph(name):
    """Algorithm 3, line 4, and the authors' code; ours may count those that are read alone."""
    graph = graph_of(4, directed=True)
    made, setting = block(graph, name, setting="inductive", num_neighbors=2)
    lists, _ = method.lists_of(made, 0, setting)
    train = set(made.split(0).train.tolist())
    for z in range(0, NODES, 7):
        listed = set(graph.indices[graph.indptr[z] : graph.indptr[z + 1]].tolist())
        if name == "heterpoisson":
            listed = {i for i in listed if (i in train) == (z in train)}
        assert lists.rate[z] == min(1, 2 / max(1, len(listed)))


def test_official_predictions_keep_to_their_part_and_fill_up_with_strangers():
    """What a node of a part reads, seen by a model that notes it."""
    graph, seen = graph_of(5), {}
    made, setting = block(graph, "heterpoissonofficial", setting="inductive", test_neighbors=3)
    split = made.split(0)
    _, lists = method.lists_of(made, 0, setting)
    parts = split.train, split.val, split.test

    class Noting:
        def scores(self, bags):
            for i, centre in enumerate(bags.centres):
                seen[int(centre)] = bags.peripherals[bags.starts[i] : bags.starts[i + 1]]
            return torch.tensor(bags.centres)[:, None].float()

    coins = np.random.default_rng(6)
    found = method.official_scores(Noting(), lists, parts, 3, coins)
    assert found[:, 0].tolist() == list(range(NODES))
    alone = 0
    for part in parts:
        for v in part:
            neighbours = graph.indices[graph.indptr[v] : graph.indptr[v + 1]]
            own = np.intersect1d(neighbours, part)
            assert np.isin(seen[v], part).all()
            if own.size:
                assert len(seen[v]) == min(3, own.size) and np.isin(seen[v], own).all()
            else:
                assert len(seen[v]) == 3
                alone += 1
    assert alone > 20


def test_official_predictions_of_nodes_that_a_split_leaves_out(monkeypatch):
    made, setting = block(graph_of(5), "heterpoissonofficial")
    whole = made.split(0)
    some = replace(whole, val=whole.val[1:], test=whole.test[2:])
    none = replace(whole, test=np.append(whole.val, whole.test))
    seen = []

    def scores(model, lists, parts, count, coins):
        seen.append([part.tolist() for part in parts])
        return official(model, lists, parts, count, coins)

    official = method.official_scores
    monkeypatch.setattr(method, "official_scores", scores)
    for split in (whole, some, none):
        monkeypatch.setattr(type(made), "split", lambda self, seed, split=split: split)
        ((_, _, fitted),) = method.fit(made, [setting])
        assert len(fitted.predictions) == NODES
    left = [*whole.val.tolist(), *whole.test[:2].tolist()]
    assert seen[0] == [part.tolist() for part in (whole.train, whole.val, whole.test)]
    assert seen[1] == [whole.train.tolist(), sorted(left), some.test.tolist()]
    assert seen[2][1] == []


def test_official_training_draws_strangers_of_training_nodes_where_it_is_inductive(monkeypatch):
    given = []
    monkeypatch.setattr(
        bags,
        "with_strangers",
        lambda b, lists, count, strangers, coins: given.append(strangers) or b,
    )
    for setting_name in ("inductive", "transductive"):
        made, setting = block(graph_of(), "heterpoissonofficial", setting=setting_name)
        method.fit(made, [setting])
        whom = made.split(0).train if setting_name == "inductive" else np.arange(NODES)
        assert np.array_equal(given[0], whom)
        given.clear()


def test_the_official_step_divides_by_those_drawn_and_clamps_every_coordinate():
    sums = torch.tensor([40.0, -0.5, 0.02])
    method.official_mean(5.0)(sums, 20)
    assert torch.allclose(sums, torch.tensor([0.0025, -0.0025, 0.001]))
    unclamped = torch.tensor([40.0, -0.5])
    method.official_mean(0.0)(unclamped, 20)
    assert torch.allclose(unclamped, torch.tensor([2.0, -0.025]))


def test_public_candidates_have_one_public_rate():
    public = {"degree_bound": "public_candidates", "max_degree": 60, "num_neighbors": 2}
    made, setting = block(graph_of(), **public)
    with pytest.raises(GraphDPError, match="moves others; set split_sides: by_id"):
        method.fit(made, [setting])
    made, setting = block(graph_of(), split="shared by id", **public)
    lists, _ = method.lists_of(made, 0, setting)
    assert set(lists.rate) == {2 / 60}
    assert made.calibrations[0]["adjacency"] == "node_add_remove"
    ((_, _, model),) = method.fit(made, [setting])
    calibrated.check_execution(made.calibrations[0], model.executed)


@pytest.mark.parametrize(
    ("target", "name", "change", "told"),
    [
        ("_rounds", "noise_std", lambda r: r.noise_std / 2, "noise std"),
        ("_rounds", "steps", lambda r: r.steps + 1, "noisy rounds"),
        ("_rounds", "max_grad_norm", lambda r: 2 * r.max_grad_norm, "clip norm 0.5 but it was 1"),
        ("_rounds", "sampling_rate", lambda r: r.sampling_rate / 2, "sampling rate"),
        ("_rounds", "batch_size", lambda r: r.batch_size + 1, "batch divisor"),
    ],
)
def test_rounds_other_than_the_plans_are_refused(monkeypatch, target, name, change, told):
    """Broken in the wiring of the method."""
    real = getattr(method, target)

    def broken(*arguments):
        rounds = real(*arguments)
        object.__setattr__(rounds, name, change(rounds))
        return rounds

    monkeypatch.setattr(method, target, broken)
    made, setting = block(graph_of())
    ((_, _, model),) = method.fit(made, [setting])
    with pytest.raises(GraphDPError, match=f"training: the plan accounts .*{told}"):
        calibrated.check_execution(made.calibrations[0], model.executed)


@pytest.mark.slow
def test_sml_noise_overlap_and_divisor_other_than_the_plans_are_refused(monkeypatch):
    for name, wrong, told in (
        ("heterpoisson", {"overlap": "dropped"}, "records"),
        ("heterpoisson", {"num_neighbors": 3}, "records"),
    ):
        made, setting = block(graph_of(), name)
        ((_, _, model),) = method.fit(made, [setting])
        other, _ = block(graph_of(), name, **wrong)
        with pytest.raises(GraphDPError, match=told):
            calibrated.check_execution(other.calibrations[0], model.executed)
    sml, _ = block(graph_of(), "heterpoissonsml")
    with pytest.raises(GraphDPError, match="noise sml but it was gaussian"):
        calibrated.check_execution(sml.calibrations[0], model.executed)
    official, setting = block(graph_of(), "heterpoissonofficial")
    ((_, _, model),) = method.fit(official, [setting])
    with pytest.raises(GraphDPError, match="batch divisor 40 but it was None"):
        calibrated.check_execution(made.calibrations[0], model.executed)


@pytest.mark.slow
@pytest.mark.parametrize("overlap", ["kept", "dropped"])
def test_one_node_moves_the_sum_of_a_round_as_the_plan_says(overlap):
    """The worst inputs that the clip allows, on a directed graph, by brute force over many rounds:
    with z there or not, the sums of one round differ by at most k (C), k bags with z, and ½ if z is
    a centre; with the rule on, by ½ alone then."""
    graph = graph_of(3, directed=True)
    made, setting = block(graph, num_neighbors=3, overlap=overlap)
    lists, _ = method.lists_of(made, 0, setting)
    shape, labels = method_shape(graph), torch.tensor(graph.y)
    values = torch.tensor(shape.initial(np.random.default_rng(4))).float() * 5
    model = model_of(shape, graph, values)
    train, z = made.split(0).train, int(made.split(0).train[7])
    rng, moved = np.random.default_rng(5), []
    for _ in range(60):
        centres = train[rng.random(train.size) < 0.3]
        drawn = lists.sampled(centres, rng)
        there = bags.without_overlap(drawn, overlap, NODES)
        keep = drawn.peripherals != z
        absent = bags.Bags(*_without(drawn.kept(keep), z))
        absent = bags.without_overlap(absent, overlap, NODES)
        sums = []
        for one in (there, absent):
            total = torch.zeros_like(values)
            model.add_clipped(one, labels, total, 0.5)
            sums.append(total.double())
        k = int(
            (there.peripherals[~np.isin(there.owners, np.flatnonzero(centres == z))] == z).sum()
        )
        central = bool((centres == z).any())
        assert not (central and k and overlap == "dropped")
        bound = k + central / 2
        moved.append(float((sums[0] - sums[1]).norm()))
        assert moved[-1] <= bound + 1e-4
    assert max(moved) > 0.4  # z did something


def _without(one, z):
    """Centres, starts and peripherals of bags without that of z."""
    keep = one.centres != z
    sizes = one.sizes[keep]
    return (
        one.centres[keep],
        np.concatenate([[0], np.cumsum(sizes)]),
        one.peripherals[keep[one.owners]],
    )


@pytest.mark.slow
def test_the_norm_of_sml_noise_tells_its_scale_and_gaussian_noise_does_not():
    """What refutes the published claim: a round's noise of many coordinates is Gaussian of a scale
    that its own norm tells. A chance of 1e-6 to fail by luck, for each of the two."""
    ratios = {}
    for name in ("heterpoissonsml", "heterpoisson"):
        seen = []
        more = {"observe": lambda phase, seeds, values, sums, seen=seen: seen.append(sums.clone())}
        made, setting = block(graph_of(), name, more=more, hidden=64, epochs=12)
        ((_, _, model),) = method.fit(made, [setting])
        std = model.executed["training"].noise_std
        ratios[name] = np.array([float(s.double().square().mean()) / std**2 for s in seen])
    size, rounds = seen[0].numel(), len(seen)
    off = stats.norm.isf(1e-6 / rounds) * math.sqrt(2 / size) + 0.02  # and the gradients
    assert (abs(ratios["heterpoisson"] - 1) < off).all()
    # Of Exp(1) numbers that many lie all within `off` of 1 with a chance below 1e-6.
    inside = math.exp(-(1 - off)) - math.exp(-(1 + off))
    assert inside**rounds < 1e-6
    assert (abs(ratios["heterpoissonsml"] - 1) > off).any()
