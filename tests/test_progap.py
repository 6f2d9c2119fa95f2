"""ProGAP: the method against a plain loop, what it releases, and what it reads afterwards."""

import dataclasses
import functools
import json
import math

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from ensemble_fixture import one_thread  # noqa: F401  (used by every test here)
from graphdp import rng
from graphdp.data.csbm import csbm
from graphdp.errors import GraphDPError
from graphdp.graphs import degree
from graphdp.methods import release_runs as releases
from graphdp.methods import train_runs as training
from graphdp.methods.block import Block
from graphdp.methods.progap import method as progap
from graphdp.methods.progap import plan_settings
from graphdp.methods.progap.plan import progap_plan
from graphdp.methods.registry import card
from graphdp.methods.settings import distinct, key
from graphdp.noise import GridNoise, add_noise
from graphdp.releases.cache import AggregateCache
from graphdp.training.layout import Layout
from graphdp.training.networks import StageClassifier
from graphdp.workflow import model_rows as rows
from graphdp.workflow.calibrations import calibrate_cell

EPSILONS = {"none": "inf", "edge": "4", "node": "8"}
DEGREE = 4


@pytest.fixture(scope="module")
def graph():
    return csbm(400, 12, 8.0, 3.25, 0.5, 1)


def grid(level, **lists):
    """Settings of a level: the product of the given lists, everything else as in `quick`."""
    quick = {"epochs": 3, "learning_rate": 0.05, "hidden": 6}
    if level == "node":
        quick |= {"batch_size": 64, "max_degree": DEGREE}
    points = [quick]
    for name, values in lists.items():
        points = [point | {name: value} for point in points for value in values]
    settings = card("progap").settings(level)
    return [settings(**point).model_dump(exclude_none=True) for point in points]


def make_block(graph, level, settings, seeds=(0,), epsilon=None, **changes):
    epsilon = epsilon or EPSILONS[level]
    fields = {
        "graph": graph, "dataset": "small", "method": "progap", "level": level,
        "epsilon": epsilon, "seeds": list(seeds), "study_seed": 7, "split_rule": "shared",
        "study": "study",
    }  # fmt: skip
    block = Block(**fields | changes)
    plans = distinct([plan_settings(level, setting) for setting in settings])
    entries = calibrate_cell(
        "small", "progap", level, epsilon, plans,
        [block.split(0).train.size], graph.num_edges, "auto", num_nodes=graph.num_nodes,
    )  # fmt: skip
    return dataclasses.replace(block, calibrations=json.loads(json.dumps(entries)))


def bounded(graph, seeds):
    masks = {
        seed: degree.bound_out_degree(graph.indptr, graph.indices, DEGREE, seed) for seed in seeds
    }
    return {f"{DEGREE}": masks}


def run(graph, level, settings, tmp_path, **changes):
    """(block, cache, {(seed, setting's key): (setting, submodel)}) of a training."""
    block = make_block(graph, level, settings, **changes)
    cache = AggregateCache(tmp_path / "cache")
    masks = bounded(graph, block.seeds) if level == "node" else {}
    trained = progap.train_progressively(block, settings, masks, cache)
    return block, cache, {(seed, key(s)): (s, submodel) for seed, s, submodel in trained}


# --- Algorithms 1 and 2 ---


class Plain(nn.Module):
    """The submodel of a stage, written as in the paper."""

    def __init__(self, base, head):
        super().__init__()
        self.base, self.head = nn.ModuleList(base), head

    def forward(self, aggregates):
        x = [base(part) for base, part in zip(self.base, aggregates, strict=True)]
        return self.head(F.normalize(torch.cat(x, 1)))


def plain_progap(block, setting, layers=1):
    """Algorithm 2 in double precision for one seed: the validation accuracies of every stage and
    the final parameters. Takes initial values and noise from the method's own streams."""
    graph, seed, (level, hidden) = block.graph, block.seeds[0], (block.level, setting["hidden"])
    nodes, y = block.split(seed), torch.from_numpy(graph.y)
    adjacency = np.zeros((graph.num_nodes, graph.num_nodes))
    sources = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    adjacency[sources, graph.indices] = 1
    # At edge level the sensitivity is 1.
    sigma = block.entry(plan_settings(level, setting), seed)["noise_multiplier"] or 0.0
    base, aggregates, history = [], [torch.from_numpy(np.asarray(graph.x)).double()], []
    for stage in range(setting["depth"] + 1):
        own = progap.stage_setting(level, setting, stage)
        network = StageClassifier(
            stage, graph.num_features, hidden, layers, graph.num_classes, batch_norm=True
        )
        stream = block.stream(seed, f"stage{stage}", key(own), "init")
        values, _ = Layout(network).initial(rng.generator(*stream))
        views = Layout.views(torch.from_numpy(values)[None], Layout(network).shapes)

        def linear(name, views=views):
            weight, bias = views[f"{name}.weight"][0, 0], views[f"{name}.bias"][0, :, 0]
            made = nn.Linear(*weight.shape).double()
            made.weight.data.copy_(weight.T)
            made.bias.data.copy_(bias)
            return made

        if stage > 0:
            with torch.no_grad():
                x = base[-1].eval()(aggregates[-1]).float().numpy().astype(float)
            unit = x / np.linalg.norm(x, axis=1, keepdims=True)
            name = block.noise_stream(seed, "aggregation", stage, key(own))
            noisy = adjacency.T @ unit
            if sigma:
                noise = GridNoise([(*name, repr(float(sigma)), 1, "hop", 1)])
                noisy = add_noise(noisy, sigma, noise)
            aggregates.append(torch.from_numpy(noisy.astype(np.float32)).double())
        modules = []
        for i in range(layers):
            norm = nn.BatchNorm1d(hidden).double()
            modules += [linear(f"base{stage}_linear{i}"), nn.SELU(), norm]
        base.append(nn.Sequential(*modules))
        model = Plain(base, linear("head"))
        optimizer = torch.optim.Adam(model.parameters(), lr=setting["learning_rate"])
        history.append([])
        for _ in range(setting["epochs"]):
            model.train()
            optimizer.zero_grad()
            outputs = model([part[nodes.train] for part in aggregates])
            F.cross_entropy(outputs, y[nodes.train]).backward()
            optimizer.step()
            with torch.no_grad():
                right = model.eval()(aggregates).argmax(1) == y
            history[-1].append(right[nodes.val].double().mean().item())
    return history, model, right


@pytest.mark.parametrize(("level", "layers"), [("none", 1), ("edge", 1), ("edge", 2)])
def test_training_is_algorithm_2(graph, tmp_path, monkeypatch, level, layers):
    """Three stages against a plain loop with the same initial values and the same noise, both in
    double precision (embeddings and releases are float32 in both)."""
    monkeypatch.setattr(training, "train", functools.partial(training.train, dtype=torch.float64))
    settings = grid(level, depth=[2], base_layers=[layers], epochs=[8])
    block, _, trained = run(graph, level, settings, tmp_path, checkpoint="last")
    ((_, submodel),) = trained.values()
    history, model, right = plain_progap(block, settings[0], layers)
    np.testing.assert_allclose(
        [stage.history for stage in submodel.stages], history, rtol=0, atol=1e-12
    )
    found = submodel.stages[-1].parameters
    for k, base in enumerate(model.base):
        for i in range(layers):
            for name, module in (("linear", base[3 * i]), ("norm", base[3 * i + 2])):
                expected = module.weight.detach()
                np.testing.assert_allclose(found[f"base{k}_{name}{i}.weight"], expected, atol=1e-5)
    np.testing.assert_allclose(found["head.weight"], model.head.weight.detach(), atol=1e-5)
    assert ((submodel.stages[-1].predictions == graph.y) == right.numpy()).all()


def test_only_the_last_base_and_a_new_head_start_afresh(graph, tmp_path, monkeypatch):
    """Algorithm 2, line 7: 𝔓_{s+1} starts from 𝔓_s without its head; frozen bases do not move."""
    started = []
    original = training.train

    def spy(network, features, labels, members, *arguments, **options):
        started.append([set(member.initial) for member in members])
        return original(network, features, labels, members, *arguments, **options)

    monkeypatch.setattr(training, "train", spy)
    run(graph, "none", grid("none", depth=[2]), tmp_path)
    bases = [{name.split("_")[0] for name in one} for ((one),) in started]
    assert bases == [set(), {"base0"}, {"base0", "base1"}]
    started.clear()
    _, _, trained = run(graph, "none", grid("none", depth=[2], layerwise=[True]), tmp_path)
    assert started == [[set()], [set()], [set()]]
    ((_, submodel),) = trained.values()
    names = [{name.split("_")[0] for name in stage.parameters} for stage in submodel.stages]
    assert [{n for n in one if n.startswith("base")} for one in names] == [
        {"base0"}, {"base1"}, {"base2"},
    ]  # fmt: skip


def test_it_learns_from_the_graph(tmp_path):
    """A contextual block model of two classes that features alone tell to 69 % (measured at K = 0):
    every stage adds to it, and with noise it is learnt as well (225 test nodes)."""
    graph = csbm(1500, 20, 20.0, 6.0, 0.5, 3)

    def accuracies(level, epsilon, depths, **lists):
        settings = grid(level, depth=depths, hidden=[16], **lists)
        _, _, trained = run(graph, level, settings, tmp_path, epsilon=epsilon)
        return [submodel.stages[-1].test_accuracy for _, submodel in trained.values()]

    features, one_hop, two_hops = accuracies("none", "inf", [0, 1, 2], epochs=[30])
    assert features < 0.72 < 0.8 < one_hop and one_hop + 0.05 < two_hops
    assert accuracies("edge", "8", [2], epochs=[30])[0] > 0.82
    assert accuracies("node", "64", [1], epochs=[20])[0] > 0.6


# --- what is shared, exactly ---


def same(one, other):
    names = sorted(one.parameters)
    assert names == sorted(other.parameters)
    return all(np.array_equal(one.parameters[n], other.parameters[n]) for n in names)


def test_without_privacy_a_shallow_model_is_the_beginning_of_a_deep_one(graph, tmp_path):
    settings = grid("none", depth=[1, 2, 3], layerwise=[False, True])
    _, cache, together = run(graph, "none", settings, tmp_path, seeds=(0, 1))
    assert len(together) == 12
    for seed, setting in [(0, settings[0]), (1, settings[3])]:
        _, _, alone = run(graph, "none", [setting], tmp_path / "alone", seeds=(seed,))
        (mine,) = alone.values()
        shared = together[seed, key(setting)]
        assert same(mine[1].stages[-1], shared[1].stages[-1])
        assert mine[1].releases == shared[1].releases
    deep = [sub for s, sub in together.values() if s["depth"] == 3]
    made = {name for sub in deep for name in sub.releases}
    # The first release, of stage 0, is one for both variants of a seed; the others are not.
    assert len(list(cache.folder.glob("*.npy"))) == len(made) == 2 * (1 + 2 + 2)


def test_at_edge_level_depths_share_stage_0_and_nothing_else(graph, tmp_path, monkeypatch):
    trained = []
    original = training.train
    monkeypatch.setattr(
        training,
        "train",
        lambda network, features, labels, members, *rest, **options: (
            trained.append((network.stage, len(members))),
            original(network, features, labels, members, *rest, **options),
        )[1],
    )
    settings = grid("edge", depth=[1, 2], learning_rate=[0.01, 0.05])
    _, _, models = run(graph, "edge", settings, tmp_path, seeds=(0, 1))
    # Stage 0 once for 2 rates x 2 seeds; then depth 1, then depth 2.
    assert trained == [(0, 4), (1, 4), (1, 4), (2, 4)]
    by_depth = {s["depth"]: sub for s, sub in models.values() if s["learning_rate"] == 0.05}
    assert by_depth[1].stages[0].parameters is by_depth[2].stages[0].parameters
    assert by_depth[1].releases[0] != by_depth[2].releases[0]  # noise and multiplier differ


def test_keeping_the_history_changes_nothing_but_the_noise(graph, tmp_path):
    """Without noise the models are the same; with noise each has its own, since jobs that train
    one model in different company agree only up to rounding."""
    for level in ("none", "edge", "node"):
        plain, kept = (grid(level, depth=[2], history=[h])[0] for h in (False, True))
        _, _, models = run(graph, level, [plain, kept], tmp_path / level)
        (_, one), (_, other) = models.values()
        assert same(one.stages[-1], other.stages[-1]) is (level == "none")
        assert (set(one.releases) & set(other.releases) == set()) is (level != "none")
    block = make_block(graph, "edge", grid("edge", depth=[2]))
    settings = grid("edge", depth=[2], history=[False, True])
    cache = AggregateCache(tmp_path / "cache")
    fitted = {s["history"]: m for _, s, m in progap.fit(block, settings, {}, cache)}
    assert fitted[False].train_history is None
    assert [len(stage) for stage in fitted[True].train_history] == [3, 3, 3]
    best = int(np.argmax(fitted[True].history[-1]))
    assert fitted[True].train_history[-1][best] == pytest.approx(fitted[True].train_accuracy)


# --- what is released ---


@pytest.mark.parametrize("level", ["edge", "node"])
def test_every_model_makes_the_releases_of_its_plan_once(graph, tmp_path, level):
    """K noisy sums with σ = multiplier x sensitivity, and no more when everything runs again."""
    settings = grid(level, depth=[1, 3], learning_rate=[0.01, 0.05])
    block, cache, models = run(graph, level, settings, tmp_path, seeds=(0, 1))
    expected = []
    for seed, setting in block.runs(settings):
        multiplier = block.entry(plan_settings(level, setting), seed)["noise_multiplier"]
        num_train = block.split(seed).train.size
        plan = progap_plan(level, num_train=num_train, **plan_settings(level, setting))
        (sums,) = [m for m in plan.mechanisms if m.phase == "aggregation"]
        assert sums.count == setting["depth"]
        expected += [multiplier * sums.sensitivity.value] * sums.count
        assert sums.sensitivity.value == (1 if level == "edge" else math.sqrt(DEGREE))
    found = [made.noise_std for made in cache.ledger]
    assert sorted(found) == pytest.approx(sorted(expected), rel=1e-12)
    # Every release has a noise stream of its own.
    assert len({made.stream for made in cache.ledger}) == len(found)
    assert len(list(cache.folder.glob("*.npy"))) == len(found)
    again = AggregateCache(cache.folder)
    masks = bounded(graph, (0, 1)) if level == "node" else {}
    repeated = progap.train_progressively(block, settings, masks, again)
    for seed, setting, submodel in repeated:
        before = models[seed, key(setting)][1]
        assert submodel.releases == before.releases
        assert same(submodel.stages[-1], before.stages[-1])
    assert again.ledger == []


def test_node_level_reads_the_bounded_graph_of_each_seed(graph, tmp_path, monkeypatch):
    seen = []
    original = AggregateCache.release
    monkeypatch.setattr(
        AggregateCache,
        "release",
        lambda self, g, keep, made, **k: (
            seen.append(keep.copy()), original(self, g, keep, made, **k),
        )[1],
    )  # fmt: skip
    run(graph, "node", grid("node", depth=[1]), tmp_path, seeds=(0, 1))
    masks = bounded(graph, (0, 1))[f"{DEGREE}"]
    assert [keep.tolist() for keep in seen] == [masks[0].tolist(), masks[1].tolist()]


@pytest.mark.parametrize("level", ["none", "edge", "node"])
def test_inference_reads_cached_releases_and_no_edge(graph, tmp_path, level, monkeypatch):
    """The adjacency is removed after training, and making a release is forbidden."""
    settings = grid(level, depth=[2], layerwise=[False, True])
    block, cache, models = run(graph, level, settings, tmp_path)
    edgeless = dataclasses.replace(
        graph,
        indptr=np.zeros_like(graph.indptr),
        indices=graph.indices[:0],
    )
    blind = dataclasses.replace(block, graph=edgeless)

    def forbidden(*arguments, **options):
        raise AssertionError("inference asked for a release")

    monkeypatch.setattr(AggregateCache, "release", forbidden)
    monkeypatch.setattr(releases, "release_runs", forbidden)
    for setting, submodel in models.values():
        found = progap.predict(blind, setting, submodel, cache)
        np.testing.assert_array_equal(found, submodel.stages[-1].predictions)


# --- rounds and rows ---


def test_rows_hold_the_rounds_of_every_stage(graph, tmp_path):
    settings = grid("node", depth=[1, 2], history=[True])
    block = make_block(graph, "node", settings, seeds=(0, 1))
    cache = AggregateCache(tmp_path / "cache")
    models = progap.fit(block, settings, bounded(graph, (0, 1)), cache)
    steps = 3 * block.split(0).train.size // 64
    for _, setting, model in models:
        counts = {phase: run.count for phase, run in model.executed.items()}
        stages = {f"stage{s}": steps for s in range(setting["depth"] + 1)}
        assert counts == stages | {"aggregation": setting["depth"]}
    rows.write_rows(tmp_path / "rows.csv", models, block)
    written = pd.read_csv(tmp_path / "rows.csv")
    assert len(written) == 4 and (written["epsilon_status"] == "refuted").all()
    curves = json.loads(written["curves"].iloc[-1])
    assert [len(stage) for stage in curves["train"]] == [len(s) for s in curves["val"]] == [3] * 3

    def refused(executed, message):
        seed, setting, model = models[-1]
        wrong = [(seed, setting, dataclasses.replace(model, executed=executed))]
        with pytest.raises(GraphDPError, match=message):
            rows.write_rows(tmp_path / "wrong.csv", wrong, block)
        assert not (tmp_path / "wrong.csv").exists()

    right = models[-1][2].executed
    more = dataclasses.replace(right["stage1"], count=steps + 1)
    message = f"stage1: the plan accounts noisy rounds .* {steps} but it was {steps + 1};"
    refused(right | {"stage1": more}, message)
    left = {k: v for k, v in right.items() if k != "stage2"}
    refused(left, "stage2: noise is planned but none was run;")
    refused(right | {"stage3": more}, "stage3: noise is run but none was planned;")


# --- clear failures ---


def test_a_degree_bound_beyond_the_graph_is_refused(graph):
    settings = grid("node", max_degree=[399, 400])
    assert make_block(graph, "node", settings[:1]).calibrations
    with pytest.raises(
        GraphDPError, match=r"max_degree 400 is larger .* at most 399 neighbours"
    ) as error:
        make_block(graph, "node", settings)
    assert "\n" not in str(error.value)


def test_depth_0_has_no_edge_level_epsilon(graph):
    """It reads no edge: there is nothing to calibrate (the message of the node level is tested with
    the command line)."""
    with pytest.raises(GraphDPError, match="releases nothing, so its epsilon is 0 and not 1"):
        make_block(graph, "edge", grid("edge", depth=[0]), epsilon="1")
