"""GAP's stages: which edges and which noise a setting's aggregates are made of; GAP and the MLP for
a replaced node."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest

from graphdp.data.csbm import csbm
from graphdp.data.graph import csr_from_edges
from graphdp.errors import GraphDPError
from graphdp.graphs import bounds, degree
from graphdp.methods import gap, mlp
from graphdp.methods import train_runs as stages
from graphdp.methods.block import Block
from graphdp.methods.gap import method as gap_method
from graphdp.methods.mlp import method as mlp_method
from graphdp.noise import GridNoise
from graphdp.privacy import calibrated, sensitivity
from graphdp.privacy.plan import Plan
from graphdp.workflow.calibrations import calibrate_cell


def block_of(graph, method, level, epsilon, seeds, **more):
    return Block(
        graph=graph, dataset="small", method=method, level=level, epsilon=epsilon, seeds=seeds,
        study_seed=7, split_rule="shared", **more,
    )  # fmt: skip


class Recorder:
    """A cache that notes what it is asked to release."""

    def __init__(self):
        self.asked = []

    def release(self, graph, keep, releases):
        self.asked += [(keep, release) for release in releases]
        return [str(len(self.asked) - len(releases) + i) for i in range(len(releases))]


@pytest.mark.parametrize("max_degree", [3, 9])
def test_each_degree_bound_is_aggregated_over_its_own_edges(max_degree):
    graph = csbm(200, 6, 12, 3.25, 0.5, 0)
    points = [{}, {"degree_bound": "public_candidates"}]
    settings = [
        gap.Node(hops=1, max_degree=max_degree, encoder_layers=0, epochs=1, **point).model_dump(
            exclude_none=True
        )
        for point in points
    ]
    plans = [gap.plan_settings("node", setting) for setting in settings]
    block = block_of(graph, "gap", "node", "4", [0, 1])
    train = block.split(0).train.size
    entries = calibrate_cell("small", "gap", "node", "4", plans, [train], graph.num_edges, "auto")
    block = block_of(graph, "gap", "node", "4", [0, 1], calibrations=entries)
    edges = graph.indptr, graph.indices, max_degree
    masks = {
        f"{max_degree}": {seed: degree.bound_out_degree(*edges, seed) for seed in (0, 1)},
        f"{max_degree}-public_candidates": {
            seed: degree.public_candidates(*edges, seed, graph.ids, graph.num_ids)
            for seed in (0, 1)
        },
    }
    cache = Recorder()
    released = [gap.release_settings("node", setting) for setting in settings]
    records = gap_method.aggregate(block, released, None, masks, cache)

    assert [(r["seed"], r["settings"]) for r in records] == [
        (seed, setting) for setting in released for seed in (0, 1)
    ]
    streams = set()
    for record in records:
        keep, release = cache.asked[int(record["key"])]
        assert np.array_equal(keep, masks[bounds.bound_name(record["settings"])][record["seed"]])
        # The same noise multiplier and sensitivity √D under both.
        multiplier = entries[0]["noise_multiplier"]
        assert release.noise_std == pytest.approx(multiplier * math.sqrt(max_degree), rel=1e-12)
        streams.add(release.stream)
    assert len(streams) == 4  # no noise is used twice


def test_models_without_an_encoder_read_one_x0(monkeypatch):
    """It is as wide as the features: one for each of 200 models took gigabytes."""
    graph, seeds, given = csbm(200, 6, 12, 3.25, 0.5, 0), [0, 1], []
    block = block_of(graph, "gap", "none", "inf", seeds)
    settings = [
        gap.CARDS[0].levels["none"](hops=hops, encoder_layers=0).model_dump(exclude_none=True)
        for hops in (1, 2)
    ]
    releases = [
        {
            "seed": seed,
            "settings": gap.release_settings("none", setting),
            "key": (seed, setting["hops"]),
        }
        for setting in settings
        for seed in seeds
    ]
    cache = SimpleNamespace(load=lambda name: [np.full((200, 6), name[0])] * name[1])
    monkeypatch.setattr(
        stages,
        "train_runs",
        lambda block, runs, purpose, *, features, **rest: given.extend(features(runs)) or [],
    )
    with pytest.raises(ValueError, match="zip"):  # no model was trained
        gap_method.fit(block, settings, None, releases, cache)
    x0 = graph.x / np.linalg.norm(graph.x, axis=1, keepdims=True)
    assert len(given) == 4 and all(one[0] is given[0][0] for one in given)
    assert np.allclose(given[0][0], x0, rtol=1e-6)
    assert [(int(one[1][0, 0]), len(one) - 1) for one in given] == [
        (seed, setting["hops"]) for seed, setting in block.runs(settings)
    ]


def test_noise_for_all_terms_of_a_row_is_so_many_times_the_published_noise():
    """PNPiGNNs' correction: the aggregation's noise times 2 (D + 1), the training's as it was."""
    settings = [
        gap.Node(hops=2, max_degree=7, epochs=1, **more).model_dump(exclude_none=True)
        for more in ({}, {"differing_terms": "all"}, {"differing_terms": "one"})
    ]
    assert settings[0] == settings[2] and "differing_terms" not in settings[0]
    plans = [gap.plan_settings("node", setting) for setting in settings[:2]]
    entries = calibrate_cell("small", "gap", "node", "4", plans, [500], 900, "auto")
    one, every = (calibrated.phases(entry) for entry in entries)
    assert every["aggregation"].run.noise_std == pytest.approx(
        16 * one["aggregation"].run.noise_std, rel=1e-12
    )
    assert every["encoder"] == one["encoder"] and every["classifier"] == one["classifier"]
    assert [entry["status"] for entry in entries] == ["refuted", "refuted"]
    assert gap.encoder_settings("node", settings[0]) == gap.encoder_settings("node", settings[1])
    assert gap.release_settings("node", settings[0]) != gap.release_settings("node", settings[1])
    for wrong in ({"degree_bound": "public_candidates"}, {"adjacency": "node_replace"}):
        with pytest.raises(GraphDPError, match="leave degree_bound and adjacency out"):
            calibrate_cell("small", "gap", "node", "4", [plans[1] | wrong], [500], 900, "auto")
    with pytest.raises(GraphDPError, match="'some'; choose one of one, all"):
        calibrate_cell(
            "small",
            "gap",
            "node",
            "4",
            [plans[0] | {"differing_terms": "some"}],
            [500],
            900,
            "auto",
        )


def test_noise_for_all_terms_of_a_row_is_too_little_as_well():
    """Its sensitivity, 2 (D + 1) √D, is passed by a node's own row, which sums all who list it, and
    without that row by the lists of m nodes that point to the same D + 1: in expectation
    m √D / (D + 1) where one of these goes."""
    max_degree = 2
    bound = sensitivity.all_terms_as_claimed(max_degree).value
    assert bound == pytest.approx(2 * 3 * math.sqrt(2))
    senders = 200  # each lists node 0 alone: so the bound on out-degrees drops nothing
    star = csr_from_edges(
        np.arange(1, senders + 1), np.zeros(senders, int), senders + 1, symmetrise=False
    )
    keep = degree.bound_out_degree(*star, max_degree, 0)
    assert (
        keep.all() and senders > bound
    )  # unit rows that are equal: the sum's norm is their number
    targets = np.arange(max_degree + 1)
    sources = np.repeat(np.arange(3, 3 + senders), max_degree + 1)
    common = csr_from_edges(sources, np.tile(targets, senders), 3 + senders, symmetrise=False)
    without = csr_from_edges(
        np.repeat(np.arange(3, 3 + senders), max_degree), np.tile(targets[1:], senders),
        3 + senders, symmetrise=False,
    )  # fmt: skip
    found = []
    for seed in range(20):
        counts = []
        for graph in (common, without):
            kept = graph[1][degree.bound_out_degree(*graph, max_degree, seed)]
            counts.append(np.bincount(kept, minlength=3)[1:3])
        found.append(np.linalg.norm(counts[0] - counts[1]))
    expected = senders * math.sqrt(max_degree) / (max_degree + 1)
    assert np.mean(found) == pytest.approx(expected, rel=0.1) and min(found) > 5 * bound


@pytest.mark.parametrize("method", [gap, mlp])
def test_dropout_reaches_every_network_and_has_no_name_where_there_is_none(method, monkeypatch):
    graph = csbm(200, 6, 12, 3.25, 0.5, 0)
    plain, dropped = (
        method.Public(epochs=2, **more).model_dump(exclude_none=True)
        for more in ({}, {"dropout": 0.5})
    )
    assert "dropout" not in plain and dropped == plain | {"dropout": 0.5}
    networks = []
    real = stages.train
    monkeypatch.setattr(stages, "train", lambda *a, **k: (networks.append(a[0]), real(*a, **k))[1])
    name = method.__name__.rpartition(".")[2]
    block = block_of(graph, name, "none", "inf", [0])
    if method is gap:
        encoder, other = (gap.encoder_settings("none", s) for s in (dropped, plain))
        assert encoder == other | {"dropout": 0.5}
        embeddings = gap_method.encode(block, [encoder])
        own = gap.release_settings("none", dropped)
        releases = [{"seed": 0, "settings": own, "key": "x", "executed": None}]
        sums = np.zeros((dropped["hops"], graph.num_nodes, dropped["hidden"]), np.float32)
        gap_method.fit(
            block, [dropped], embeddings, releases, SimpleNamespace(load=lambda name: sums)
        )
    else:
        mlp_method.fit(block, [dropped])
    assert [network.dropout for network in networks] == [0.5] * (2 if method is gap else 1)


def replaceable(method, adjacency, calibrate_for="published", **changes):
    """A node-level block with its setting, calibrated, and its plan."""
    graph = csbm(200, 6, 12, 3.25, 0.5, 0)
    level = {"epochs": 3, "batch_size": 40, "max_grad_norm": 0.7, "adjacency": adjacency} | changes
    setting = method.Node(**level).model_dump(exclude_none=True)
    plan = method.plan_settings("node", setting)
    name = method.__name__.rpartition(".")[2]
    block = block_of(graph, name, "node", "4", [0, 1])
    train = block.split(0).train.size
    entries = calibrate_cell(
        "small", name, "node", "4", [plan], [train], graph.num_edges, "auto", calibrate_for
    )
    block = block_of(graph, name, "node", "4", [0, 1], calibrations=entries)
    return block, setting, Plan.from_dict(entries[0]["plan"]), entries[0]["noise_multiplier"]


@pytest.mark.parametrize("calibrate_for", ["published", "corrected"])
@pytest.mark.parametrize(
    ("adjacency", "kind", "sampling"),
    [
        ("node_add_remove", "poisson_dpsgd", "poisson"),
        ("node_replace", "without_replacement_dpsgd", "fixed"),
    ],
)
def test_every_phase_trains_as_its_plan_says(adjacency, kind, sampling, calibrate_for, monkeypatch):
    """Sampling, rate, rounds and the noise's standard deviation, multiplier x the plan's bound;
    the aggregates' noise likewise."""
    given, scales, train = [], [], stages.train

    def spy(network, features, labels, members, training, **options):
        given.append((training, members))
        return train(network, features, labels, members, training, **options)

    class Noise(GridNoise):
        def add(self, sums, noise_std):
            if not any(noise_std is one for one in scales):
                scales.append(noise_std)
            super().add(sums, noise_std)

    monkeypatch.setattr(stages, "train", spy)
    block, setting, plan, multiplier = replaceable(gap, adjacency, calibrate_for, max_degree=9)
    block = dataclasses.replace(block, noise=Noise)
    encoders = gap_method.encode(block, [gap.encoder_settings("node", setting)])
    edges = block.graph.indptr, block.graph.indices, 9
    masks = {"9": {seed: degree.bound_out_degree(*edges, seed) for seed in (0, 1)}}
    cache = Recorder()
    records = gap_method.aggregate(
        block, [gap.release_settings("node", setting)], encoders, masks, cache
    )
    cache.load = lambda name: np.zeros((setting["hops"], block.graph.num_nodes, 16), np.float32)
    fitted = gap_method.fit(block, [setting], encoders, records, cache)
    encoder, aggregation, classifier = plan.mechanisms
    assert encoder.kind == classifier.kind == kind
    assert len(given) == len(scales) == 2
    for mechanism, (training, members), scale in zip(
        (encoder, classifier), given, scales, strict=True
    ):
        assert (training.sampling, training.sampling_rate, training.steps) == (
            sampling,
            mechanism.sampling_rate,
            mechanism.steps,
        )
        assert [m.noise_multiplier for m in members] == [multiplier] * 2
        assert scale.flatten().tolist() == pytest.approx(
            [multiplier * mechanism.max_grad_norm.value] * 2, rel=1e-6
        )
    assert all(model.rounds == classifier.steps for *_, model in fitted)
    factor = 1 if adjacency == "node_add_remove" else 2
    assert aggregation.sensitivity.value == pytest.approx(factor * 3)
    for _, release in cache.asked:
        assert release.noise_std == pytest.approx(multiplier * aggregation.sensitivity.value)
    given.clear()
    scales.clear()
    block, setting, plan, multiplier = replaceable(mlp, adjacency, calibrate_for)
    block = dataclasses.replace(block, noise=Noise)
    mlp_method.fit(block, [setting])
    (mechanism,), ((training, _),) = plan.mechanisms, given
    assert (mechanism.kind, training.sampling) == (kind, sampling)
    assert (training.sampling_rate, training.steps) == (mechanism.sampling_rate, mechanism.steps)
    assert scales[0].flatten().tolist() == pytest.approx([multiplier * factor * 0.7] * 2, rel=1e-6)


def test_the_two_adjacencies_share_no_stream_and_the_usual_one_has_no_name():
    _, usual, *_ = replaceable(gap, "node_add_remove")
    _, replaced, *_ = replaceable(gap, "node_replace")
    assert "adjacency" not in usual
    for settings in (gap.encoder_settings, gap.release_settings, gap.plan_settings):
        one, other = settings("node", usual), settings("node", replaced)
        assert one != other and "adjacency" not in one
    assert mlp.plan_settings("node", {**mlp.Node().model_dump(exclude_none=True)}) == {
        "epochs": 10,
        "batch_size": 256,
        "max_grad_norm": 1.0,
    }


@pytest.mark.parametrize(
    "change",
    [{"split_rule": "per_seed"}, {"split_rule": "shared 0.5/0.25/0.25"}, {"checkpoint": "last"}],
)
def test_studies_with_another_split_or_checkpoint_share_no_stream(change):
    """What they train differs: releases of both with one noise would show the difference bare."""
    graph = csbm(200, 6, 12, 3.25, 0.5, 0)
    usual = block_of(graph, "gap", "node", "4", [0])
    other = dataclasses.replace(usual, **change)
    assert usual.stream(0, "noise") != other.stream(0, "noise")
