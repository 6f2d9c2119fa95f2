"""The ensemble trainer against plain PyTorch and Opacus, and members against each other."""

import functools
import itertools
from dataclasses import replace

import numpy as np
import opacus
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from torch import nn
from torch.nn import functional as F

from ensemble_fixture import one_thread  # noqa: F401  (used by every test here)
from graphdp.errors import GraphDPError
from graphdp.rng import generator, stream_seed
from graphdp.training import (
    MLP,
    DPAdam,
    Encoder,
    FullBatch,
    HopClassifier,
    Member,
    StageClassifier,
    StageInputs,
    train,
)
from graphdp.training import fit as trainer
from graphdp.training.inputs import Scratch
from graphdp.training.layout import Layout, Stack
from graphdp.training.members import like_of
from graphdp.training.private import add_clipped_gradients

# Opacus' hooks on a first layer, whose input needs no gradient.
pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing")

NODES, FEATURES, HIDDEN, CLASSES, HOPS = 400, 30, 8, 4, 2


# The networks written plainly, as the paper describes them.


class PlainMLP(nn.Module):
    def __init__(self, widths, batch_norm):
        super().__init__()
        pairs = list(itertools.pairwise(widths))
        self.linears = nn.ModuleList(nn.Linear(a, b) for a, b in pairs)
        norms = widths[1:-1] if batch_norm else []
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for width in norms)

    def forward(self, x):
        for i, linear in enumerate(self.linears[:-1]):
            x = linear(x)
            x = self.norms[i](x) if len(self.norms) else x
            x = F.selu(x)
        return self.linears[-1](x)

    def parts(self):
        parts = {f"linear{i}": linear for i, linear in enumerate(self.linears)}
        return parts | {f"norm{i}": norm for i, norm in enumerate(self.norms)}


class PlainHead(nn.Module):
    def __init__(self, width, batch_norm):
        super().__init__()
        self.norm = nn.BatchNorm1d(width) if batch_norm else None
        self.linear = nn.Linear(width, CLASSES)

    def forward(self, x):
        x = F.normalize(x)
        return self.linear(F.selu(self.norm(x) if self.norm else x))

    def parts(self):
        return {"head": self.linear} | ({"head_norm": self.norm} if self.norm else {})


class PlainEncoder(nn.Module):
    def __init__(self, widths, batch_norm):
        super().__init__()
        self.mlp = PlainMLP(widths, batch_norm)
        self.head = PlainHead(widths[-1], batch_norm)

    def forward(self, x):
        return self.head(self.mlp(x))

    def parts(self):
        return self.mlp.parts() | self.head.parts()


class PlainHopClassifier(nn.Module):
    def __init__(self, inputs, batch_norm):
        super().__init__()
        self.bases = nn.ModuleList(nn.Linear(inputs, HIDDEN) for _ in range(HOPS + 1))
        self.head = PlainHead(HIDDEN * (HOPS + 1), batch_norm)

    def forward(self, x):
        return self.head(torch.cat([base(x[:, k]) for k, base in enumerate(self.bases)], 1))

    def parts(self):
        return {f"bases[{k}]": base for k, base in enumerate(self.bases)} | self.head.parts()


class PlainStage(nn.Module):
    """ProGAP's submodel: its inputs side by side, the features first; frozen bases are inputs."""

    def __init__(self, stage, base_layers, batch_norm, layerwise=False):
        super().__init__()
        self.first = stage if layerwise else 0
        self.bases = nn.ModuleList()
        for k in range(self.first, stage + 1):
            widths = [FEATURES if k == 0 else HIDDEN] + [HIDDEN] * base_layers
            layers = []
            for a, b in itertools.pairwise(widths):
                norm = nn.BatchNorm1d(b) if batch_norm else nn.GroupNorm(1, b)
                layers += [nn.Linear(a, b), nn.SELU(), norm]
            self.bases.append(nn.Sequential(*layers))
        self.head = nn.Linear(HIDDEN * (stage + 1), CLASSES)
        self.widths = [HIDDEN if layerwise and stage else FEATURES] + [HIDDEN] * stage

    def outputs(self, x):
        inputs = x.split(self.widths, 1)
        frozen, own = inputs[: self.first], inputs[self.first :]
        return [*frozen, *(base(part) for base, part in zip(self.bases, own, strict=True))]

    def forward(self, x):
        return self.head(F.normalize(torch.cat(self.outputs(x), 1)))

    def parts(self):
        parts = {"head": self.head}
        for k, base in enumerate(self.bases, self.first):
            for i in range(len(base) // 3):
                parts[f"base{k}_linear{i}"] = base[3 * i]
                parts[f"base{k}_norm{i}"] = base[3 * i + 2]
        return parts


# Name -> stage, base layers, layerwise.
STAGES = {"stage 0": (0, 2, False), "stage 2": (2, 1, False), "frozen": (2, 2, True)}


def stage_classifier(stage, base_layers, layerwise, **shape):
    return StageClassifier(
        stage, in_features=FEATURES, base_layers=base_layers, layerwise=layerwise, **shape
    )


def networks(batch_norm):
    shape = dict(hidden=HIDDEN, classes=CLASSES, batch_norm=batch_norm)
    stages = {name: stage_classifier(*stage, **shape) for name, stage in STAGES.items()}
    return stages | {
        "mlp": MLP(in_features=FEATURES, layers=3, **shape),
        "encoder": Encoder(in_features=FEATURES, layers=2, **shape),
        "deep encoder": Encoder(in_features=FEATURES, layers=3, **shape),
        "classifier": HopClassifier(hops=HOPS, in_features=FEATURES, **shape),
    }


def plain(name, batch_norm, arrays=None):
    """The plain network, in double precision, with the given parameters."""
    hidden = [FEATURES, HIDDEN, HIDDEN]
    net = {
        "mlp": lambda: PlainMLP([*hidden, CLASSES], batch_norm),
        "encoder": lambda: PlainEncoder(hidden, batch_norm),
        "deep encoder": lambda: PlainEncoder([*hidden, HIDDEN], batch_norm),
        "classifier": lambda: PlainHopClassifier(FEATURES, batch_norm),
        **{
            stage: lambda k=k: PlainStage(k[0], k[1], batch_norm, k[2])
            for stage, k in STAGES.items()
        },
    }[name]().double()
    if arrays is not None:
        for part, tensor in tensors(net):
            tensor.data.copy_(torch.from_numpy(pick(arrays, part)))
    return net


def tensors(net):
    """(name in the ensemble, tensor) of every parameter and running statistic."""
    for part, module in net.parts().items():
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            if name != "num_batches_tracked":
                yield f"{part}.{name}", tensor


def pick(arrays, name):
    """An array by name; "bases[k].weight" is group k of the stacked bases."""
    if not name.startswith("bases["):
        return arrays[name]
    k, kind = int(name[6]), name.split(".")[1]
    array = arrays[f"bases.{kind}"]
    return array.reshape(HOPS + 1, HIDDEN, *array.shape[2:])[k]


# Data


def data(seed=0, kind="dense", members=1):
    """(features as `train` takes them, dense x per member, labels); entries of very unlike size."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, NODES)
    if kind == "hops":
        x = rng.normal(size=(members, NODES, HOPS + 1, FEATURES)).astype(np.float32)
        x += labels[:, None, None] / 2
        return list(x), list(x), labels
    if kind in STAGES:
        return stage_data(kind, labels, members)
    x = rng.normal(size=(NODES, FEATURES)) * (rng.random((NODES, FEATURES)) < 0.2)
    x[:, :CLASSES] += np.eye(CLASSES)[labels]
    x = (x * rng.lognormal(size=(NODES, 1))).astype(np.float32)
    x[7] = 0  # a row without entries
    x[300:] = x[:100]  # nodes with equal features, and mostly unequal labels
    x[380:] *= 2  # equal columns, unequal values
    return sparse.csr_matrix(x) if kind == "sparse" else x, [x] * members, labels


def stage_data(name, labels, members):
    """`StageInputs` of a stage, and the same side by side: the features, then noisy sums."""
    stage, _, layerwise = STAGES[name]
    features, (x, *_), _ = data(kind="dense" if layerwise else "sparse")
    rng = np.random.default_rng(2)
    own = rng.normal(size=(members, stage + layerwise, NODES, HIDDEN)).astype(np.float32)
    own *= rng.lognormal(sigma=0.5, size=(members, 1, NODES, 1)).astype(np.float32)
    own[:, -1:, :, 0] += labels
    own = [list(arrays) for arrays in own]
    if layerwise:
        return StageInputs(None, own), [np.hstack(arrays) for arrays in own], labels
    return StageInputs(features, own), [np.hstack([x, *arrays]) for arrays in own], labels


def of_member(features, s):
    """What `train` takes for one member of a block."""
    if isinstance(features, StageInputs):
        return StageInputs(features.features, [features.aggregates[s]])
    return [features[s]] if isinstance(features, list) else features


def scaled(features, scale):
    if isinstance(features, StageInputs):
        own = [[part * scale for part in arrays] for arrays in features.aggregates]
        shared = features.features
        return StageInputs(None if shared is None else shared * scale, own)
    return [f * scale for f in features] if isinstance(features, list) else features * scale


CASES = [
    ("mlp", "dense"),
    ("mlp", "sparse"),
    ("encoder", "dense"),
    ("encoder", "sparse"),
    ("deep encoder", "sparse"),
    ("classifier", "hops"),
    *((name, name) for name in STAGES),
]
each_case = pytest.mark.parametrize(("name", "kind"), CASES)


def split(seed):
    nodes = np.random.default_rng([seed, 1]).permutation(NODES)
    return [np.sort(part) for part in np.split(nodes, [280, 340])]


def member(seed, noise=0.0, rate=0.01, **changes):
    train_nodes, val, test = split(seed)
    fields = dict(
        stream=(12, seed, "test"), learning_rate=rate, noise_multiplier=noise,
        train=train_nodes, val=val, test=test,
    )  # fmt: skip
    return Member(**(fields | changes))


def private(steps=45, noise_free=False, batch_size=32):
    return DPAdam(5, batch_size, batch_size / 280, steps, 1.0, noise_free=noise_free)


def source(features, layout, like, members):
    shared = trainer._shared(layout.network, features, layout, like)
    return trainer._source(layout.network, features, shared, list(range(members)), like)


# 1. Clipped sums against Opacus


@functools.cache
def opacus_sum(name, kind, clip, seeds, rows, scale=1.0):
    """Per member: what Opacus sums up, by parameter name, for the given rows of its data."""
    _, xs, labels = data(kind=kind, members=len(seeds))
    layout = Layout(networks(False)[name])
    sums = []
    for s, seed in enumerate(seeds):
        stack = initial(layout, [seed])
        net = plain(name, False, stack.arrays())
        sampled = opacus.GradSampleModule(net, loss_reduction="sum")
        optimizer = opacus.optimizers.DPOptimizer(
            torch.optim.SGD(sampled.parameters(), lr=1.0),
            noise_multiplier=0.0,
            max_grad_norm=clip,
            expected_batch_size=len(rows),
            loss_reduction="sum",
        )
        x = torch.from_numpy(xs[s][list(rows)]).double() * scale
        loss = F.cross_entropy(sampled(x), torch.from_numpy(labels[list(rows)]), reduction="sum")
        loss.backward()
        optimizer.clip_and_accumulate()
        sums.append({name: tensor.summed_grad.numpy() for name, tensor in tensors(net)})
    return sums


def initial(layout, seeds, dtype=torch.float64):
    drawn = [layout.initial(generator(12, seed, "test", "init")) for seed in seeds]
    return Stack(layout, *(torch.from_numpy(np.stack(v)).to(dtype) for v in zip(*drawn)))  # noqa: B905


def ghost_sum(name, kind, clip, seeds, rows, dtype, scale=1.0, padding=3, growth=1.0):
    """Per member: the ensemble's clipped sum, with some padding, as `Stack.arrays` names it."""
    features, _, labels = data(kind=kind, members=len(seeds))
    features = scaled(features, scale)
    layout = Layout(networks(False)[name])
    stack = initial(layout, seeds, dtype)
    stack[f"{layout.leaves[0].name}.weight"].mul_(growth)
    inputs = source(features, layout, stack.values, len(seeds))
    lookup = inputs.prepare_batches([np.arange(NODES)] * len(seeds))
    padded = np.concatenate([rows, np.zeros(padding, np.int64)]).astype(np.int64)
    present = torch.ones(len(seeds), len(padded), dtype=dtype)
    present[:, len(rows) :] = 0
    batch = inputs.batch(torch.from_numpy(np.stack([table[padded] for table in lookup])))
    targets = torch.from_numpy(labels[padded]).expand(len(seeds), -1)
    gradients = stack.gradients()
    add_clipped_gradients(stack, batch, targets, present, clip, gradients, Scratch(stack.values))
    return [gradients.members[s].arrays() for s in range(len(seeds))]


ROWS = tuple(range(60))
CLIPS = (0.3, 1.4, 2.0, 50.0)


@each_case
@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_clipped_sum_equals_opacus(name, kind, clip, dtype):
    seeds = (0, 1, 2)
    expected = opacus_sum(name, kind, clip, seeds, ROWS)
    found = ghost_sum(name, kind, clip, seeds, np.array(ROWS), dtype)
    for theirs, ours in zip(expected, found, strict=True):
        for part, value in theirs.items():
            np.testing.assert_allclose(pick(ours, part), value, rtol=1e-5, atol=1e-5)


@each_case
def test_some_samples_are_clipped_and_some_are_not(name, kind):
    """Otherwise the comparison with Opacus would not see the clipping, at any of its clips."""
    norms = [
        np.sqrt(sum((v**2).sum() for v in opacus_sum(name, kind, 1e9, (0,), (row,))[0].values()))
        for row in ROWS[:20]
    ]
    assert any(min(norms) < 0.95 * clip and max(norms) > 1.05 * clip for clip in CLIPS)


# 5. A node's contribution


@settings(max_examples=60)
@given(
    case=st.sampled_from(CASES),
    row=st.integers(0, NODES - 1),
    exponent=st.floats(-6, 10),
    clip=st.floats(1e-3, 1e2),
)
def test_one_node_moves_the_sum_by_at_most_the_clip(case, row, exponent, clip):
    """Sensitivity of the sum under add/remove of one node, for every member, at any feature scale
    (Abadi et al. 2016, Algorithm 1)."""
    scale = np.float32(10.0**exponent)
    with_node = ghost_sum(*case, clip, (0, 1), np.array([1, 2, row]), torch.float64, scale)
    without = ghost_sum(*case, clip, (0, 1), np.array([1, 2]), torch.float64, scale, padding=4)
    for a, b in zip(with_node, without, strict=True):
        moved = np.sqrt(sum(((a[part] - b[part]) ** 2).sum() for part in a))
        assert moved <= clip * (1 + 1e-9)


@each_case
def test_one_huge_node_contributes_no_more_than_the_clip_in_float32(name, kind):
    """Scales up to where the squared norm overflows: the sum stays finite and bounded."""
    for scale in (1.0, 1e5, 1e10):
        sums = ghost_sum(
            name, kind, 1.0, (0, 1, 2), np.array([3]), torch.float32, np.float32(scale)
        )
        for arrays in sums:
            norm = np.sqrt(sum((value.astype(float) ** 2).sum() for value in arrays.values()))
            assert norm <= 1 + 1e-5


def test_a_node_whose_gradient_norm_overflows_contributes_nothing():
    """Hidden units of 1e20 have squares beyond float32; with a saturated softmax that is ∞ · 0."""
    rows = np.arange(20)
    for growth in (1e17, 1e20):
        for sums in ghost_sum("mlp", "dense", 1.0, (0, 1), rows, torch.float32, growth=growth):
            norm = np.sqrt(sum((value.astype(float) ** 2).sum() for value in sums.values()))
            assert norm <= len(rows) * (1 + 1e-5)  # and so no NaN


def test_features_that_could_not_be_clipped_are_refused():
    for bad in (np.nan, np.inf, 1e13):
        features, _, labels = data()
        features[5, 3] = bad
        with pytest.raises(GraphDPError, match="finite"):
            train(networks(False)["mlp"], features, labels, [member(0, 1.0)], private())


# 2. Full batches against a plain loop


@each_case
@pytest.mark.parametrize("batch_norm", [True, False])
def test_full_batch_training_equals_a_plain_loop(name, kind, batch_norm):
    """Parameters, running statistics, predictions and best epoch after 20 epochs, in float64."""
    features, xs, labels = data(kind=kind)
    network, one = networks(batch_norm)[name], member(3)
    fitted = train(
        network, features, labels, [one], FullBatch(20), checkpoint="last", dtype=torch.float64
    )[0]

    net = plain(name, batch_norm, initial(Layout(network), [3]).arrays())
    optimizer = torch.optim.Adam(net.parameters(), lr=one.learning_rate)
    x, y = torch.from_numpy(xs[0]).double(), torch.from_numpy(labels)
    history = []
    for _ in range(20):
        net.train()
        optimizer.zero_grad()
        F.cross_entropy(net(x[one.train]), y[one.train]).backward()
        optimizer.step()
        net.eval()
        with torch.no_grad():
            outputs = net(x)
        right = (outputs.argmax(1) == y).numpy()
        history.append(right[one.val].mean())

    np.testing.assert_allclose(fitted.history, history, rtol=0, atol=1e-12)
    for part, value in tensors(net):
        np.testing.assert_allclose(
            pick(fitted.parameters, part), value.detach().numpy(), rtol=1e-6, atol=1e-7
        )
    np.testing.assert_array_equal(fitted.predictions, outputs.argmax(1).numpy())
    assert fitted.test_accuracy == pytest.approx(right[one.test].mean())
    assert fitted.train_accuracy == pytest.approx(right[one.train].mean())
    best = train(network, features, labels, [one], FullBatch(20), dtype=torch.float64)[0]
    assert best.best_epoch == int(np.argmax(history)) + 1  # the first of the best
    assert best.val_accuracy == pytest.approx(max(history))


@pytest.mark.parametrize(("name", "kind"), [c for c in CASES if c[0] not in STAGES])
def test_dropout_is_that_of_a_plain_loop_with_the_same_masks(name, kind):
    """Between norm and SELU, as in the authors' code; nodes with equal features are not merged."""
    features, xs, labels = data(kind=kind)
    network, one, rate = replace(networks(True)[name], dropout=0.4), member(3), 0.4
    epochs = 6
    fitted = train(
        network, features, labels, [one], FullBatch(epochs), checkpoint="last", dtype=torch.float64
    )[0]

    net = plain(name, True, initial(Layout(network), [3]).arrays())
    device = like_of("auto", torch.float64).device
    draws = torch.Generator(device).manual_seed(stream_seed(*one.stream, "dropout"))
    shares = []

    def drop(module, inputs, output):
        if module.training:
            mask = torch.empty(output.T.shape, dtype=output.dtype, device=device)
            mask = mask.bernoulli_(1 - rate, generator=draws).cpu()
            shares.append(float(mask.mean()))
            return output * mask.T / (1 - rate)

    norms = [m for m in net.modules() if isinstance(m, nn.BatchNorm1d)]
    for norm in norms:
        norm.register_forward_hook(drop)
    optimizer = torch.optim.Adam(net.parameters(), lr=one.learning_rate)
    x, y = torch.from_numpy(xs[0]).double(), torch.from_numpy(labels)
    for _ in range(epochs):
        net.train()
        optimizer.zero_grad()
        F.cross_entropy(net(x[one.train]), y[one.train]).backward()
        optimizer.step()
    assert len(shares) == epochs * len(norms) and len(set(shares)) > 4  # new masks each time
    for part, value in tensors(net):
        np.testing.assert_allclose(
            pick(fitted.parameters, part), value.detach().numpy(), rtol=1e-6, atol=1e-7
        )
    net.eval()
    with torch.no_grad():
        np.testing.assert_array_equal(fitted.predictions, net(x).argmax(1).numpy())


def test_dropout_does_not_depend_on_the_block_and_is_not_for_dp_training():
    features, _, labels = data(kind="sparse")
    network = replace(networks(True)["mlp"], dropout=0.5)
    alone = train(network, features, labels, [member(5)], FullBatch(3))[0]
    both = train(network, features, labels, [member(4), member(5)], FullBatch(3))[1]
    np.testing.assert_array_equal(alone.predictions, both.predictions)
    with pytest.raises(GraphDPError, match="dropout is not for DP training"):
        train(replace(network, batch_norm=False), features, labels, [member(5, 1.0)], private())
    with pytest.raises(GraphDPError, match="at least 0 and below 1"):
        replace(network, dropout=1.0)


def test_the_best_epoch_keeps_its_own_parameters():
    """The checkpoint of the best epoch equals the last one of a run that ends there."""
    features, _, labels = data(kind="sparse")
    network = networks(True)["mlp"]
    best = train(network, features, labels, [member(1, rate=0.05)], FullBatch(30))[0]
    assert 1 < best.best_epoch < 30
    short = FullBatch(best.best_epoch)
    same = train(network, features, labels, [member(1, rate=0.05)], short, checkpoint="last")[0]
    for name, value in same.parameters.items():
        np.testing.assert_array_equal(best.parameters[name], value)


def test_embedding_is_the_normalised_output_of_the_encoder():
    features, xs, labels = data(kind="sparse")
    network = networks(True)["encoder"]
    fitted = train(network, features, labels, [member(0)], FullBatch(3), dtype=torch.float64)[0]
    net = plain("encoder", True, fitted.parameters).eval()
    expected = F.normalize(net.mlp(torch.from_numpy(xs[0]).double())).detach().numpy()
    assert fitted.embedding.dtype == np.float32 and fitted.embedding.shape == (NODES, HIDDEN)
    np.testing.assert_allclose(fitted.embedding, expected, atol=1e-6)


@pytest.mark.parametrize("name", list(STAGES))
def test_embedding_of_a_stage_is_the_output_of_its_last_base(name):
    features, xs, labels = data(kind=name)
    network = networks(True)[name]
    fitted = train(network, features, labels, [member(0)], FullBatch(3), dtype=torch.float64)[0]
    net = plain(name, True, fitted.parameters).eval()
    expected = net.outputs(torch.from_numpy(xs[0]).double())[-1].detach().numpy()
    np.testing.assert_allclose(fitted.embedding, expected, rtol=1e-6, atol=1e-6)


def test_training_starts_from_the_given_parameters():
    """Warm start: what is given replaces what is drawn, the rest is drawn as without it."""
    features, _, labels = data(kind="stage 2")
    network = networks(True)["stage 2"]
    cold = train(network, features, labels, [member(0)], FullBatch(4), checkpoint="last")[0]
    given = {name: value for name, value in cold.parameters.items() if name.startswith("base1")}
    assert {name.split(".")[1] for name in given} == {
        "weight", "bias", "running_mean", "running_var",
    }  # fmt: skip
    still = member(0, rate=1e-30)
    fresh = train(network, features, labels, [still], FullBatch(1), checkpoint="last")[0]
    members = [member(0, rate=1e-30, initial=given), still]
    both = StageInputs(features.features, features.aggregates * 2)
    warm, other = train(network, both, labels, members, FullBatch(1), checkpoint="last")
    for name, value in warm.parameters.items():
        if not name.endswith(("running_mean", "running_var")):  # one step moves these
            expected = given.get(name, fresh.parameters[name])
            np.testing.assert_allclose(value, expected, rtol=0, atol=1e-29)
        # A block of two: on a GPU a stack of two, whose sums round otherwise.
        np.testing.assert_allclose(
            other.parameters[name], fresh.parameters[name], rtol=0 if on_cpu() else 1e-6
        )
    moved = cold.parameters["base1_norm0.running_mean"]
    assert np.abs(warm.parameters["base1_norm0.running_mean"] - moved).max() < 0.2
    bad = member(0, initial={"base3_linear0.bias": np.zeros(HIDDEN)})
    with pytest.raises(GraphDPError, match="not in the network"):
        train(network, features, labels, [bad], FullBatch(1))


def test_training_history_is_that_of_the_epochs_and_changes_nothing():
    features, _, labels = data(kind="sparse")
    network, one = networks(True)["mlp"], member(3)
    without = train(network, features, labels, [one], FullBatch(6))[0]
    fitted = train(network, features, labels, [one], FullBatch(6), train_history=True)[0]
    assert without.train_history is None
    np.testing.assert_array_equal(fitted.predictions, without.predictions)
    for epoch in range(6):
        until = FullBatch(epoch + 1)
        last = train(network, features, labels, [one], until, checkpoint="last")[0]
        assert fitted.train_history[epoch] == pytest.approx(last.train_accuracy, abs=1e-12)


# DP training against a plain loop


@each_case
def test_private_training_equals_a_plain_loop(name, kind):
    """Noise-free DP-Adam on the same Poisson rounds as a loop over Opacus' clipped sums."""
    from graphdp.training.sampling import PoissonRounds, sample_generator

    features, xs, labels = data(kind=kind)
    network, one, training = networks(False)[name], member(2), private(steps=12, noise_free=True)
    fitted = train(
        network, features, labels, [one], training, checkpoint="last", dtype=torch.float64
    )[0]
    assert fitted.rounds == 12

    net = plain(name, False, initial(Layout(network), [2]).arrays())
    sampled = opacus.GradSampleModule(net, loss_reduction="sum")
    optimizer = opacus.optimizers.DPOptimizer(
        torch.optim.Adam(sampled.parameters(), lr=0.01),
        noise_multiplier=0.0, max_grad_norm=1.0, expected_batch_size=32, loss_reduction="mean",
    )  # fmt: skip
    sampled.loss_reduction = "sum"  # Opacus divides by the expected batch size, as we do
    rounds = PoissonRounds(280, 32 / 280, sample_generator(one.stream, one.noise_multiplier))
    x, y = torch.from_numpy(xs[0]).double(), torch.from_numpy(labels)
    for _ in range(12):
        nodes = one.train[rounds.take(1)[1]]
        optimizer.zero_grad()
        F.cross_entropy(sampled(x[nodes]), y[nodes], reduction="sum").backward()
        optimizer.step()
    for part, value in tensors(net):
        np.testing.assert_allclose(
            pick(fitted.parameters, part), value.detach().numpy(), rtol=1e-5, atol=1e-6
        )


# 3, 4, 8. Members and their company


BLOCKS = [("encoder", "sparse"), ("classifier", "hops"), ("stage 2", "stage 2")]


def on_cpu():
    """Whether `device: auto` is a CPU here."""
    return like_of("auto", torch.float32).device.type == "cpu"


def block(training, name="encoder", kind="sparse", count=10, changes=None, **options):
    """Fit `count` members; `changes` maps a member's position to changed fields."""
    features, _, labels = data(kind=kind, members=count)
    noise = 0.8 if isinstance(training, DPAdam) else 0.0
    members = [member(s, noise, 0.005 * (1 + s % 2)) for s in range(count)]
    for s, fields in (changes or {}).items():
        members[s] = member(s, **({"noise": noise} | fields))
    batch_norm = isinstance(training, FullBatch)
    return train(networks(batch_norm)[name], features, labels, members, training, **options)


@pytest.mark.parametrize("training", [FullBatch(15), private()])
@pytest.mark.parametrize(("name", "kind"), BLOCKS)
def test_a_block_predicts_as_its_members_do_alone(training, name, kind):
    together = block(training, name, kind)
    features, _, labels = data(kind=kind, members=10)
    batch_norm = isinstance(training, FullBatch)
    noise = 0.0 if batch_norm else 0.8
    equal = []
    for s in range(10):
        own = of_member(features, s)
        one = member(s, noise, 0.005 * (1 + s % 2))
        alone = train(networks(batch_norm)[name], own, labels, [one], training)[0]
        equal.append(alone.predictions == together[s].predictions)
        assert alone.best_epoch == together[s].best_epoch
    assert np.mean(equal) >= 0.999


CHANGES = {
    "rate": {"rate": 0.5},
    "noise": {"noise": 3.0},
    "stream": {"stream": ("another",)},
    "many nodes": {"train": np.arange(350)},
    "one node": {"train": np.array([5])},
}


@pytest.mark.parametrize(
    ("name", "kind"), [("mlp", "dense"), ("mlp", "sparse"), ("stage 2", "stage 2")]
)
@pytest.mark.parametrize(
    ("training", "change"),
    [(private(steps=20), change) for change in CHANGES]
    + [(FullBatch(8), change) for change in CHANGES if change != "noise"],
)
def test_changing_one_member_leaves_the_others_bitwise(training, change, name, kind):
    """On a GPU but for the rounding of sums where full batches are padded to another length."""
    before = block(training, name, kind, count=4)
    after = block(training, name, kind, count=4, changes={1: CHANGES[change]})
    padded = isinstance(training, FullBatch) and "train" in CHANGES[change] and not on_cpu()
    for s in (0, 2, 3):
        for part, value in before[s].parameters.items():
            np.testing.assert_allclose(
                after[s].parameters[part], value, rtol=0, atol=2e-6 if padded else 0
            )
    assert any((after[1].parameters[p] != v).any() for p, v in before[1].parameters.items())


@pytest.mark.parametrize("training", [FullBatch(8), private(steps=20)])
def test_labels_and_inputs_of_one_member_do_not_reach_the_others(training):
    features, _, labels = data(kind="hops", members=3)
    noise = 0.0 if isinstance(training, FullBatch) else 0.8
    network = networks(isinstance(training, FullBatch))["classifier"]
    members = [member(s, noise) for s in range(3)]
    labels = np.stack([labels] * 3)
    before = train(network, features, labels, members, training)
    labels[1] = (labels[1] + 1) % CLASSES
    after = train(network, [features[0], features[1] * 100, features[2]], labels, members, training)
    for s in (0, 2):
        for part, value in before[s].parameters.items():
            np.testing.assert_array_equal(after[s].parameters[part], value)


@pytest.mark.parametrize(("name", "kind"), BLOCKS)
def test_memory_limits_change_chunks_and_not_results(name, kind, monkeypatch):
    whole = block(private(), name, kind)
    sizes = []
    chunks = trainer._chunks

    def spy(*arguments):
        for chunk in chunks(*arguments):
            sizes.append(len(chunk))
            yield chunk

    monkeypatch.setattr(trainer, "_chunks", spy)
    small = block(private(), name, kind, memory_mb=1)
    assert sum(sizes) == 10
    assert len(sizes) > 1 or (kind == "sparse" and not on_cpu())  # dense there, and smaller
    for a, b in zip(whole, small, strict=True):
        assert np.mean(a.predictions == b.predictions) >= 0.999
        assert a.best_epoch == b.best_epoch


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("mlp", "sparse"),
        ("encoder", "dense"),
        ("classifier", "hops"),
        *((name, name) for name in STAGES),
    ],
)
def test_full_batches_in_one_stack_predict_as_one_by_one(name, kind, monkeypatch):
    """A GPU stacks full batches, padding them to the longest; on a CPU they are trained in turn."""
    features, _, labels = data(kind=kind, members=3)
    network = networks(True)[name]
    members = [member(0), member(1, train=np.arange(120)), member(2, rate=0.05)]
    in_turn = train(network, features, labels, members, FullBatch(10), dtype=torch.float64)
    monkeypatch.setattr(trainer, "_chunks", lambda *arguments: [[0, 1, 2]])
    stacked = train(network, features, labels, members, FullBatch(10), dtype=torch.float64)
    for one, other in zip(in_turn, stacked, strict=True):
        assert np.mean(one.predictions == other.predictions) >= 0.999
        for part, value in one.parameters.items():
            np.testing.assert_allclose(other.parameters[part], value, rtol=1e-6, atol=1e-7)


def test_equal_arguments_give_equal_results():
    for training in (FullBatch(5), private(steps=10)):
        a, b = block(training, count=3), block(training, count=3)
        for one, other in zip(a, b, strict=True):
            for part, value in one.parameters.items():
                np.testing.assert_array_equal(other.parameters[part], value)


# 9. It learns


@pytest.mark.parametrize(
    ("training", "noise"), [(FullBatch(60), 0.0), (DPAdam(10, 64, 64 / 280, 300, 1.0), 0.7)]
)
def test_it_learns_what_is_easy(training, noise):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, NODES)
    x = (np.eye(CLASSES)[labels] * 3 + rng.normal(size=(NODES, CLASSES)) * 0.3).astype(np.float32)
    hops = np.stack([x, x, -x], 1)
    shape = dict(in_features=CLASSES, hidden=16, classes=CLASSES, batch_norm=noise == 0)
    for network, features in (
        (MLP(layers=3, **shape), x),
        (Encoder(layers=2, **shape), sparse.csr_matrix(x)),
        (HopClassifier(hops=2, **shape), [hops, hops]),
    ):
        members = [member(0, noise), member(1, noise)]
        for one in train(network, features, labels, members, training, checkpoint="last"):
            assert one.test_accuracy > 0.95 and one.val_accuracy == one.history[-1]
            assert one.best_epoch == training.epochs


# 10. What is refused


def refused(match, *, training=None, network=None, features=None, labels=None, **fields):
    x, _, y = data()
    with pytest.raises(GraphDPError, match=match) as caught:
        train(
            network or networks(False)["mlp"],
            x if features is None else features,
            y if labels is None else labels,
            [member(0, **({"noise": 1.0} | fields))],
            training or private(),
        )
    assert "\n" not in str(caught.value)


def test_noise_of_zero_is_refused_unless_said():
    for noise in (0.0, -1.0, np.nan, np.inf):
        refused("no privacy", noise=noise)
    refused("would not be used", noise=1.0, training=private(noise_free=True))
    refused("would not be used", noise=1.0, training=FullBatch(2))


def test_what_does_not_fit_together_is_refused():
    refused("batch norm", network=networks(True)["mlp"])
    refused("not distinct", train=np.array([1, 1, 2]))
    refused("empty", val=np.array([], np.int64))
    refused("not in the graph", test=np.array([NODES]))
    refused("learning rate", rate=0.0)
    refused("labels", labels=np.full(NODES, CLASSES))
    refused("labels", labels=np.zeros(NODES))
    refused("shape", features=np.zeros((NODES, 3), np.float32))
    refused("per member", network=networks(False)["classifier"])
    refused("hop inputs", network=networks(False)["classifier"], features=[np.zeros((NODES, 2, 3))])
    stage, inputs = networks(False)["stage 2"], data(kind="stage 2")[0]
    refused("needs StageInputs", network=stage)
    refused("shape", network=stage, features=StageInputs(np.zeros((NODES, 2)), inputs.aggregates))
    fewer = [inputs.aggregates[0][:1]]
    refused("aggregates", network=stage, features=StageInputs(inputs.features, fewer))
    refused("sampling rate", training=DPAdam(1, 32, 1.5, 3, 1.0))
    refused("positive steps", training=DPAdam(1, 32, 0.1, 0, 1.0))
    refused("epochs", training=FullBatch(0), noise=0.0)
    with pytest.raises(GraphDPError, match="in_features"):
        MLP(in_features=0, hidden=1, layers=1, classes=2, batch_norm=False)
    x, _, y = data()
    with pytest.raises(GraphDPError, match="checkpoint"):
        train(networks(True)["mlp"], x, y, [member(0)], FullBatch(1), checkpoint="best")
