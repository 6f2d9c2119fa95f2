"""DPDGC's two networks against plain PyTorch and Opacus; the release; what is refused."""

import math
from dataclasses import replace

import numpy as np
import opacus
import pytest
import torch
from scipy import sparse
from scipy.stats import norm
from torch import nn
from torch.nn import functional as F

from ensemble_fixture import one_thread  # noqa: F401  (used by every test here)
from graphdp import rng
from graphdp.data.csbm import csbm
from graphdp.data.graph import InEdges, in_edges
from graphdp.data.split import split_of
from graphdp.errors import GraphDPError
from graphdp.methods.block import Block
from graphdp.methods.dpdgc import classifier, release_settings
from graphdp.methods.dpdgc import method as dpdgc
from graphdp.methods.dpdgc import network as decoupled
from graphdp.methods.dpdgc.classifier import Classifier, Linkx, train_classifier
from graphdp.methods.dpdgc.network import EmbeddingGradient, train_embedding
from graphdp.methods.registry import card
from graphdp.noise import GridNoise, add_noise, grid_of
from graphdp.privacy import calibrated, execution
from graphdp.privacy.protection import level_kind
from graphdp.training import descent
from graphdp.training.descent import Rounds
from graphdp.training.sparse_rows import DenseRows, SparseRows, rows_of
from graphdp.workflow.calibrations import calibrate_cell

# Opacus' hooks on a first layer, whose input needs no gradient.
pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing")

DOUBLE = torch.empty(0, dtype=torch.float64)
NODES, HIDDEN, CLASSES, FEATURES = 90, 7, 3, 12


@pytest.fixture(scope="module")
def graph():
    return csbm(n=NODES, f=FEATURES, d=9.0, epsilon=3.25, phi=0.6, seed=1)


@pytest.fixture
def rows(graph):
    return in_edges(graph.indptr, graph.indices)


def dense(rows):
    a = np.zeros((rows.num_nodes, rows.num_nodes))
    for i in range(rows.num_nodes):
        a[i, rows.indices[rows.indptr[i] : rows.indptr[i + 1]]] = 1
    return a


def opacus_sum(model, x, y, clip):
    """The sum of the clipped gradients of the samples, by Opacus, per parameter."""
    module = opacus.GradSampleModule(model, loss_reduction="sum")
    optimizer = opacus.optimizers.DPOptimizer(
        torch.optim.SGD(module.parameters(), lr=1.0),
        noise_multiplier=0.0,
        max_grad_norm=clip,
        expected_batch_size=1,
        loss_reduction="sum",
    )
    F.cross_entropy(module(x), y, reduction="sum").backward()
    optimizer.clip_and_accumulate()
    return [p.summed_grad.detach().clone() for p in optimizer.params]


class PlainEmbedding(nn.Module):
    def __init__(self, head, batch_norm=False):
        super().__init__()
        self.linear = nn.Linear(NODES, HIDDEN).double()
        self.norm = nn.BatchNorm1d(HIDDEN).double() if batch_norm else nn.Identity()
        self.head = head

    def forward(self, a):
        return F.selu(self.norm(self.linear(a))) @ self.head[0] + self.head[1]


def fixed_head(seed=0):
    """Neither orthonormal nor without bias."""
    draw = np.random.default_rng(seed)
    return draw.standard_normal((HIDDEN, CLASSES)) / HIDDEN**0.5, draw.standard_normal(CLASSES)


@pytest.mark.parametrize("clip", [0.05, 1.0, 1e6])
def test_clipped_sums_of_sparse_rows_are_those_of_opacus_on_dense_rows(graph, rows, clip):
    """Also at isolated nodes, whose row has no entry."""
    counts = np.diff(rows.indptr)
    assert counts.min() >= 0 and counts.max() > 8
    head = tuple(map(torch.tensor, fixed_head()))
    torch.manual_seed(0)
    plain = PlainEmbedding(head)
    with torch.no_grad():
        plain.linear.weight.mul_(20)
    values = torch.cat(
        [plain.linear.weight.detach().T.reshape(-1), plain.linear.bias.detach()]
    ).clone()
    labels = torch.tensor(graph.y)
    network = EmbeddingGradient(
        SparseRows(rows.indptr, rows.indices, None, DOUBLE), labels, head, values
    )
    nodes = torch.tensor([0, 5, 17, 88, *range(30, 60)])
    found = torch.zeros_like(values)
    network.add(nodes, found, clip)
    a = torch.tensor(dense(rows))[nodes]
    weight, bias = opacus_sum(plain, a, labels[nodes], clip)
    expected = torch.cat([weight.T.reshape(-1), bias])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max()))
    # Without clipping: the plain gradient.
    found = torch.zeros_like(values)
    network.add(nodes, found, None)
    fresh = PlainEmbedding(head)
    fresh.load_state_dict({k.removeprefix("_module."): v for k, v in plain.state_dict().items()})
    F.cross_entropy(fresh(a), labels[nodes], reduction="sum").backward()
    expected = torch.cat([fresh.linear.weight.grad.T.reshape(-1), fresh.linear.bias.grad])
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def test_behind_a_row_without_entries_labels_shift_as_in_the_authors_loader(graph):
    """That loader numbers the rows of a batch by where the row index of their entries changes."""
    keep = np.random.default_rng(0).random(graph.indices.size) < 0.15
    counts = np.array([k.sum() for k in np.split(keep, graph.indptr[1:-1])])
    thin = InEdges(np.concatenate([[0], counts.cumsum()]), graph.indices[keep])
    nodes = torch.tensor(np.random.default_rng(1).permutation(NODES)[:40])
    assert 3 < (counts[nodes] == 0).sum() < 37
    owners, columns = torch.tensor(dense(thin))[nodes].nonzero().T
    places = torch.cat([owners.new_zeros(1), owners.diff() != 0]).cumsum(0)
    a = torch.zeros(40, NODES, dtype=torch.float64)
    a[places, columns] = 1

    head = tuple(map(torch.tensor, fixed_head()))
    plain, labels = PlainEmbedding(head), torch.tensor(graph.y)
    F.cross_entropy(plain(a), labels[nodes], reduction="sum").backward()
    linear = plain.linear
    values = torch.cat([linear.weight.detach().T.reshape(-1), linear.bias.detach()]).clone()
    network = EmbeddingGradient(
        SparseRows(thin.indptr, thin.indices, None, DOUBLE), labels, head, values, labels_shift=True
    )
    found = torch.zeros_like(values)
    network.add(nodes, found, None)
    expected = torch.cat([linear.weight.grad.T.reshape(-1), linear.bias.grad])
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    assert torch.equal(network.classes(nodes), plain(a).argmax(1))


@pytest.mark.parametrize("weight_decay", [0.0, 0.05])
@pytest.mark.parametrize("batch_norm", [False, True])
def test_embedding_without_noise_is_a_plain_loop(graph, rows, batch_norm, weight_decay):
    """With and without a batch norm before σ and an L2 penalty, as torch's Adam has them."""
    head, epochs = fixed_head(3), 6
    start = run_embedding(
        graph, rows, Rounds("full", 1), learning_rate=1e-300, head=head, normalised=False,
        dtype=torch.float64,
    )  # fmt: skip
    plain = PlainEmbedding(tuple(map(torch.tensor, head)), batch_norm)
    with torch.no_grad():
        plain.linear.weight.copy_(torch.tensor(start.weight).T)
        plain.linear.bias.copy_(torch.tensor(start.bias))
    optimizer = torch.optim.Adam(plain.parameters(), lr=0.01, weight_decay=weight_decay)
    train = torch.arange(0, 60)
    a, y = torch.tensor(dense(rows))[train], torch.tensor(graph.y)[train]
    for _ in range(epochs):
        optimizer.zero_grad()
        F.cross_entropy(plain(a), y).backward()
        optimizer.step()
    found = run_embedding(
        graph, rows, Rounds("full", epochs), head=head, normalised=False, dtype=torch.float64,
        batch_norm=batch_norm, weight_decay=weight_decay,
    )  # fmt: skip
    weight, bias = plain.linear.weight.detach().T, plain.linear.bias.detach()
    assert float(np.abs(found.weight - start.weight).max()) > 0.02  # it has moved
    if batch_norm:  # which subtracts the bias again: its gradient is rounding alone
        np.testing.assert_allclose(found.weight, weight, atol=1e-7)
    else:
        np.testing.assert_allclose(found.weight, weight, atol=1e-10)
        np.testing.assert_allclose(found.bias, bias, atol=1e-10)


def test_the_heads():
    """Orthonormal columns; in the authors' code scaled."""
    columns, bias = dpdgc.head(16, 4, ("h",))
    np.testing.assert_allclose(columns.T @ columns, np.eye(4), atol=1e-12)
    assert (bias == 0).all()
    scaled, bias = dpdgc.official_head(64, 5, ("h",))
    np.testing.assert_allclose(scaled.T @ scaled, 6 / 64 * np.eye(5), atol=1e-12)
    assert (bias == 0).all()
    with pytest.raises(GraphDPError, match="widen `hidden`"):
        dpdgc.head(3, 4, ("h",))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_resetting_the_authors_head_leaves_it_as_it_is():
    """Its layer is PyG's lazy one, whose weight the code assigns before the first call."""
    from torch_geometric.nn import Linear

    layer = Linear(-1, 5)
    layer.weight = nn.Parameter(torch.randn(5, 64))
    torch.nn.init.constant_(layer.bias, 0.0)
    assigned = layer.weight.detach().clone()
    layer(torch.randn(3, 64))
    layer.reset_parameters()
    assert torch.equal(layer.weight, assigned) and not layer.bias.any()


class PlainLinkx(nn.Module):
    """The classifier written plainly, from `Linkx` and a flat vector of its parameters."""

    def __init__(self, shape, values):
        super().__init__()
        self.shape = shape
        views = descent.views(values, shape.shapes)
        self.linears = nn.ModuleDict()
        for name, (inputs, outputs) in shape.linears.items():
            self.linears[name] = nn.Linear(inputs, outputs).double()
            self.linears[name].weight.data = views[f"{name}.weight"].T.clone()
            self.linears[name].bias.data = views[f"{name}.bias"].clone()
        self.norms = nn.ModuleDict()
        for name, channels in shape.norms.items():
            self.norms[name] = nn.BatchNorm1d(channels).double()
            self.norms[name].weight.data = views[f"norm {name}.weight"].clone()
            self.norms[name].bias.data = views[f"norm {name}.bias"].clone()

    def activate(self, name, x):
        return F.selu(self.norms[name](x) if name in self.norms else x)

    def perceptron(self, name, x, depth):
        for i in range(depth - 1):
            x = self.activate(f"{name}{i}", self.linears[f"{name}{i}"](x))
        return self.linears[f"{name}{depth - 1}"](x)

    def forward(self, both):
        x, z = both.split([self.shape.features, self.shape.hidden], 1)
        p = self.perceptron("features", x, self.shape.feature_layers)
        q = self.perceptron("joint", self.activate("both", torch.cat([p, z], 1)), self.shape.layers)
        return self.linears["head"](self.activate("head", q + p + z))

    def gradients(self):
        parts = []
        for linear in self.linears.values():
            parts += [linear.weight.grad.T.reshape(-1), linear.bias.grad]
        for batch_norm in self.norms.values():
            parts += [batch_norm.weight.grad, batch_norm.bias.grad]
        return torch.cat(parts)


def linkx(batch_norm, feature_layers=2):
    return Linkx(FEATURES, HIDDEN, CLASSES, feature_layers, layers=2, batch_norm=batch_norm)


def data(seed=0):
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((NODES, FEATURES)) * (draw.random((NODES, FEATURES)) < 0.3)
    return x, draw.standard_normal((NODES, HIDDEN)), draw.integers(0, CLASSES, NODES)


@pytest.mark.parametrize("feature_layers", [1, 2])
@pytest.mark.parametrize("is_sparse", [True, False])
@pytest.mark.parametrize("clip", [0.3, 1e6])
def test_the_classifiers_clipped_sums_are_those_of_opacus(is_sparse, clip, feature_layers):
    shape = linkx(False, feature_layers)
    x, z, labels = data()
    values = torch.tensor(shape.initial(np.random.default_rng(1)))
    held = rows_of(sparse.csr_matrix(x) if is_sparse else x, DOUBLE)
    assert isinstance(held, SparseRows if is_sparse else DenseRows)
    labels = torch.tensor(labels)
    model = Classifier(shape, held, torch.tensor(z), values)
    nodes = torch.tensor([3, 1, *range(20, 50)])
    found = torch.zeros_like(values)
    model.gradient(labels, torch.Generator())(nodes, found, clip)
    plain = PlainLinkx(shape, values)
    both = torch.tensor(np.hstack([x, z]))[nodes]
    named = dict(
        zip([n for n, _ in plain.named_parameters()], opacus_sum(plain, both, labels[nodes], clip),
            strict=True)
    )  # fmt: skip
    parts = []
    for name in shape.linears:
        parts += [named[f"linears.{name}.weight"].T.reshape(-1), named[f"linears.{name}.bias"]]
    expected = torch.cat(parts)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max()))


def test_a_node_that_overflows_is_left_out_of_the_classifiers_clipped_sum():
    """It moves the sum by nothing, where 0 times infinity would end the run: its neighbours could
    tell that it is there."""
    shape = linkx(False)
    x, z, labels = (torch.tensor(part) for part in data())
    x, z = x.float(), z.float()
    z[3] = math.inf
    values = torch.tensor(shape.initial(np.random.default_rng(1))).float()
    model = Classifier(shape, rows_of(x.numpy(), torch.empty(0)), z, values)
    with_it, without = torch.zeros_like(values), torch.zeros_like(values)
    for nodes, found in (([3, 1, 4, 5], with_it), ([1, 4, 5], without)):
        model.gradient(labels, torch.Generator())(torch.tensor(nodes), found, 0.3)
    assert not torch.isfinite(model.forward(torch.tensor([3]), None, False)[0]).all()
    assert float(without.abs().max()) > 0.01
    torch.testing.assert_close(with_it, without)


def test_too_large_features_are_refused(graph):
    work, setting = block("dpdgc", "k2", "8", graph, seeds=(0,))
    work = replace(work, graph=replace(graph, x=graph.x * np.float32(1e14)))
    with pytest.raises(GraphDPError, match=r"at most 1e\+12: rescale them"):
        dpdgc.fit(work, [setting], {})


def test_the_classifier_with_batch_norm_is_the_plain_one():
    """Gradients, running statistics, and predictions by these."""
    shape = linkx(True)
    x, z, labels = data(3)
    labels = torch.tensor(labels)
    values = torch.tensor(shape.initial(np.random.default_rng(2)))
    model = Classifier(shape, rows_of(sparse.csr_matrix(x), DOUBLE), torch.tensor(z), values)
    plain = PlainLinkx(shape, values)
    both = torch.tensor(np.hstack([x, z]))
    nodes = torch.arange(10, 60)
    add = model.gradient(labels, torch.Generator())
    for _ in range(2):
        found = torch.zeros_like(values)
        add(nodes, found, None)
        plain.zero_grad()
        F.cross_entropy(plain(both[nodes]), labels[nodes], reduction="sum").backward()
    torch.testing.assert_close(found, plain.gradients(), rtol=1e-9, atol=1e-10)
    plain.eval()
    assert torch.equal(model.predict(torch.arange(NODES)), plain(both).argmax(1))


def test_dropout_keeps_the_expected_share_and_the_mean():
    shape = Linkx(1, 400, 2, 1, 1, batch_norm=False, dropout=0.3)
    values = torch.zeros(sum(math.prod(s) for s in shape.shapes.values()), dtype=torch.float64)
    z = torch.ones(50, 400, dtype=torch.float64)
    model = Classifier(shape, DenseRows(np.zeros((50, 1)), DOUBLE), z, values)
    _, tape = model.forward(torch.arange(50), torch.Generator().manual_seed(0), True)
    x = next(x for name, x, _ in tape if name == "head").detach()
    kept = x > 0
    # 20,000 coins of 0.7: five standard deviations fail with a chance of 6e-7.
    assert abs(float(kept.double().mean()) - 0.7) < 5 * math.sqrt(0.21 / x.numel())
    torch.testing.assert_close(x[kept], torch.full_like(x[kept], 1.0507009873554805 / 0.7))
    _, tape = model.forward(torch.arange(50), None, False)
    x = next(x for name, x, _ in tape if name == "head")
    assert bool((x > 1.05).all())


def test_dropout_of_the_embedding_stands_between_its_norm_and_the_activation(graph, rows):
    head = torch.eye(HIDDEN, dtype=torch.float64), torch.zeros(HIDDEN, dtype=torch.float64)
    sizes = EmbeddingGradient.parameters(NODES, HIDDEN, True)
    values = torch.ones(sum(math.prod(s) for s in sizes.values()), dtype=torch.float64)
    matrix, labels = SparseRows(rows.indptr, rows.indices, None, DOUBLE), torch.tensor(graph.y)
    draw = torch.Generator().manual_seed(0)
    network = EmbeddingGradient(matrix, labels, head, values, True, dropout=(0.3, draw))
    hidden = torch.randn(3000, HIDDEN, dtype=torch.float64)
    found = network.scores(hidden, training=True)
    normed = F.batch_norm(hidden, None, None, values[-7:], values[-7:], True)
    kept = found != 0
    # 21,000 coins of 0.7: five standard deviations fail with a chance of 6e-7.
    assert abs(float(kept.double().mean()) - 0.7) < 5 * math.sqrt(0.21 / found.numel())
    torch.testing.assert_close(found[kept], F.selu(normed / 0.7)[kept])
    assert bool((network.scores(hidden, training=False) != 0).all())
    with pytest.raises(GraphDPError, match="goes with its batch norm"):
        run_embedding(graph, rows, Rounds("full", 1), normalised=False, dropout=0.5)
    runs = [
        run_embedding(
            graph, rows, Rounds("full", 2), normalised=False, batch_norm=True, dropout=rate
        ).weight
        for rate in (0.0, 0.5, 0.5)
    ]
    assert not np.array_equal(runs[0], runs[1]) and np.array_equal(runs[1], runs[2])


# ----------------------------------------------------------------------------------- the rounds


def private(sampling="poisson", **changes):
    settings = {
        "epochs": 3, "batch_size": 20, "sampling_rate": 0.25, "steps": 11, "max_grad_norm": 0.7,
        "noise_std": 0.5,
    }  # fmt: skip
    return Rounds(sampling, **(settings | changes))


def run_embedding(graph, rows, rounds, **changes):
    settings = dict(
        head=dpdgc.head(HIDDEN, graph.num_classes, (1, "head")), learning_rate=0.01,
        stream=(1, "a"), normalised=True, device="cpu",
    )  # fmt: skip
    train, val = np.arange(0, 60), np.arange(60, 75)
    return train_embedding(
        rows.indptr, rows.indices, graph.y, train, val, rounds, **(settings | changes)
    )


@pytest.mark.parametrize("sampling", ["poisson", "fixed"])
def test_each_round_adds_the_planned_noise_to_the_clipped_sum_and_divides_by_the_batch(
    graph, rows, sampling, monkeypatch
):
    """What Adam is given less the clipped sums is Gaussian of the planned scale, new each time."""
    given, sums = [], []
    step, add = torch.optim.Adam.step, EmbeddingGradient.add

    def stepped(self):
        ((values,),) = (group["params"] for group in self.param_groups)
        given.append(values.grad.clone())
        step(self)

    monkeypatch.setattr(torch.optim.Adam, "step", stepped)

    def recorded(self, nodes, gradients, clip):
        own = torch.zeros_like(gradients)
        add(self, nodes, own, clip)
        assert clip == 0.7
        assert float(own.norm()) <= 0.7 * len(nodes) + 1e-6
        assert len(set(nodes.tolist())) == len(nodes)
        assert sampling == "poisson" or len(nodes) == 20
        sums.append(own)
        gradients += own

    monkeypatch.setattr(EmbeddingGradient, "add", recorded)
    model = run_embedding(graph, rows, private(sampling))
    assert model.rounds == len(given) == len(sums) == 11
    noise = torch.stack([20 * g - own for g, own in zip(given, sums, strict=True)]).double()
    count = noise.numel()
    # Each bound fails with a chance below 1e-6 (five standard deviations).
    assert abs(float(noise.mean())) < 5 * 0.5 / math.sqrt(count)
    assert abs(float(noise.std()) / 0.5 - 1) < 5 / math.sqrt(2 * count)
    flat = noise.flatten().sort().values.numpy() / 0.5
    gap = np.abs(norm.cdf(flat) - (np.arange(count) + 0.5) / count).max()
    assert gap < 2.7 / math.sqrt(count)  # Kolmogorov: 2 exp(-2 · 2.7²) = 9e-7
    correlations = torch.corrcoef(noise).fill_diagonal_(0).abs().max()
    assert float(correlations) < 6.5 / math.sqrt(noise.shape[1])


def test_trainings_that_differ_in_the_scale_of_their_noise_alone_do_not_share_it(
    graph, rows, monkeypatch
):
    """From two of them that did, both noises would follow."""
    monkeypatch.setattr(EmbeddingGradient, "add", lambda self, nodes, gradients, clip: None)
    found = []
    for scale in (0.5, 1.0):
        given = []
        rounds = private(noise_std=scale)
        run_embedding(graph, rows, rounds, observe=lambda _, g, into=given: into.append(g.clone()))
        found.append(torch.stack(given).double().flatten() / scale)
    # Independent: the mean product is normal with variance 1 / count; fails with a chance of 6e-7.
    assert abs(float((found[0] * found[1]).mean())) < 5 / math.sqrt(found[0].numel())


def test_poisson_batches_take_each_node_with_the_planned_rate():
    rounds = private(epochs=7, steps=4000)
    taken = [b for e in descent.batches(rounds, 80, rng.generator("test")) for b in e]
    assert len(taken) == 4000
    counts = np.bincount(np.concatenate(taken), minlength=80)
    expected, std = 4000 * 0.25, math.sqrt(4000 * 0.25 * 0.75)
    assert np.abs(counts - expected).max() < 6 * std  # 80 × 2e-9
    sizes = np.array([b.size for b in taken])
    # Independent coins: the size is binomial, of variance 80 q (1 - q).
    assert abs(sizes.var() / (80 * 0.25 * 0.75) - 1) < 6 * math.sqrt(2 / 4000)


def test_batches_without_noise_cover_the_training_nodes_once_an_epoch():
    shuffled = descent.batches(Rounds("shuffle", 2, 32), 70, rng.generator("test"))
    for epoch in shuffled:
        assert [b.size for b in epoch] == [32, 32, 6]
        assert sorted(np.concatenate(epoch)) == list(range(70))
    (full,) = descent.batches(Rounds("full", 1), 70, rng.generator("test"))
    assert [b.tolist() for b in full] == [list(range(70))]


def test_rows_of_the_weight_have_norm_one_and_runs_repeat(graph, rows):
    first = run_embedding(graph, rows, private())
    np.testing.assert_allclose(np.linalg.norm(first.weight, axis=1), 1, atol=1e-6)
    again = run_embedding(graph, rows, private())
    assert np.array_equal(first.weight, again.weight) and np.array_equal(first.bias, again.bias)
    other = run_embedding(graph, rows, private(), stream=(2, "a"))
    assert not np.array_equal(first.weight, other.weight)
    free = run_embedding(graph, rows, private(), normalised=False)
    assert np.linalg.norm(free.weight, axis=1).max() < 0.9


def test_what_gives_no_privacy_is_refused(graph, rows):
    for std in (0.0, math.inf, math.nan):
        with pytest.raises(GraphDPError, match="noise of scale"):
            private(noise_std=std)
    with pytest.raises(GraphDPError, match="would not be used"):
        Rounds("full", 3, noise_std=1.0)
    with pytest.raises(GraphDPError, match="are not distinct"):
        train_embedding(
            rows.indptr, rows.indices, graph.y, np.array([1, 1]), np.array([2]), private(),
            head=fixed_head(), learning_rate=0.1, stream=(), normalised=True, device="cpu",
        )  # fmt: skip
    with pytest.raises(GraphDPError, match="batch norm mixes samples"):
        run_embedding(graph, rows, private(), batch_norm=True)
    shape = linkx(True)
    x, z, labels = data()
    split = np.arange(40), np.arange(40, 60), np.arange(60, 90)
    arguments = (rows_of(x, torch.empty(0)), z.astype(np.float32), labels, split, private())
    with pytest.raises(GraphDPError, match="batch norm mixes samples"):
        train_classifier(shape, *arguments, learning_rate=0.1, stream=(), device="cpu")


# ---------------------------------------------------------------------------------- the release


def test_the_release_is_the_sum_with_noise_of_the_planned_scale(rows):
    draw = np.random.default_rng(0)
    weight = draw.standard_normal((NODES, 400)).astype(np.float32)
    bias = draw.standard_normal(400).astype(np.float32)
    unit = weight / np.linalg.norm(weight, axis=1, keepdims=True).astype(np.float64)
    exact = dense(rows) @ unit + bias
    z = dpdgc.release(rows, weight, bias, 0.0, ("s",))
    expected = exact / np.linalg.norm(exact, axis=1, keepdims=True)
    np.testing.assert_allclose(z, expected, atol=2e-6)
    # With much noise, row-normalised: each row is the normalised noisy row; its direction is the
    # named stream's noise.
    std = 1e3
    sums = add_noise(exact - bias, std, GridNoise([("s", repr(std))])) + bias
    noisy = dpdgc.release(rows, weight, bias, std, ("s",))
    expected = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    # Sums that are rounded otherwise may fall into the next cell of the grid.
    apart = np.abs(noisy - expected) > 2e-6
    assert apart.mean() < 1e-3 and np.abs(noisy - expected).max() < grid_of(std) / std


def test_at_norm_one_float32_loses_nothing_and_at_the_papers_norm_everything(rows):
    """Adding b = 0.1: rows of W of norm 1e-8 vanish in float32, rows of norm 1 keep all digits."""
    draw = np.random.default_rng(1)
    weight = draw.standard_normal((NODES, 64))
    weight /= np.linalg.norm(weight, axis=1, keepdims=True)
    bias = np.full(64, 0.1)
    sums = dense(rows) @ weight
    for scale, lost in ((1.0, 1e-6), (dpdgc.OFFICIAL_ROW_NORM, None)):
        single = (scale * sums).astype(np.float32) + bias.astype(np.float32)
        signal = (single.astype(np.float64) - np.float32(0.1)) / scale
        error = np.abs(signal - sums).max() / np.abs(sums).max()
        assert error < lost if lost else error > 0.01
    z = dpdgc.release(rows, weight.astype(np.float32), bias.astype(np.float32), 0.0, ())
    exact = sums + bias
    error = z - exact / np.linalg.norm(exact, axis=1, keepdims=True)
    assert np.abs(error).max() < 1e-6


def test_the_officially_released_matrix_carries_practically_no_noise(rows):
    draw = np.random.default_rng(2)
    weight = (0.01 * draw.standard_normal((NODES, 64))).astype(np.float32)
    bias = np.zeros(64, np.float32)
    z = dpdgc.release_as_implemented(rows, weight, bias, 30.0, ("s",))
    exact = dense(rows) @ weight
    assert np.abs(z - exact).max() < 1e-5 * np.abs(exact).max() * 10
    # 1e-8 times 30; 5,760 draws: a tenth is ten standard deviations.
    assert 2.7e-7 < np.std(z - exact) < 3.3e-7


# ------------------------------------------------------------------------------------ the method


def block(name, level, epsilon, graph, seeds=(0,), **changes):
    its, kind = card(name), level_kind(level)
    small = {"epochs": 2, "classifier_epochs": 2, "hidden": HIDDEN}
    small |= {} if kind == "none" else {"batch_size": 16}
    small |= {"max_degree": 6} if kind == "node" else {}
    setting = its.settings(level)(**(small | changes)).model_dump(exclude_none=True)
    num_train = split_of(graph, 1, "shared", 0).train.size
    calibrations = calibrate_cell(
        "c", name, level, epsilon, [its.plan(level, setting)], [num_train],
        graph.num_edges, "auto",
    )  # fmt: skip
    made = Block(
        graph=graph, dataset="c", method=name, level=level, epsilon=epsilon, seeds=list(seeds),
        study_seed=1, split_rule="shared", device="cpu", calibrations=calibrations,
    )  # fmt: skip
    return made, setting


@pytest.mark.alike
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "level", "epsilon", "shared"),
    [
        *(
            (name, level, epsilon, {})
            for name in ("dpdgc", "dpdgcofficial")
            for level, epsilon in
            (("none", "inf"), ("edge", "2"), ("k1", "8"), ("k3", "8"), ("node", "8"))
        ),
        # The embedding's noise in another proportion to the rest.
        ("dpdgc", "k3", "8", {"embedding_noise_ratio": 0.5}),
        ("dpdgc", "edge", "2", {"embedding_noise_ratio": 2.0}),
    ],
)  # fmt: skip
def test_the_noise_and_the_rounds_are_the_plans(graph, name, level, epsilon, shared, monkeypatch):
    made, released = [], []
    trainers = decoupled.train_embedding, classifier.train_classifier
    trained = []

    def embedding(*args, **options):
        made.append(args[5])
        trained.append(options)
        return trainers[0](*args, **options)

    monkeypatch.setattr(decoupled, "train_embedding", embedding)
    monkeypatch.setattr(
        classifier, "train_classifier", lambda *a, **k: (made.append(a[5]), trainers[1](*a, **k))[1]
    )
    release = dpdgc.release if name == "dpdgc" else dpdgc.release_as_implemented
    for released_by in ("release", "release_as_implemented"):
        real = getattr(dpdgc, released_by)
        monkeypatch.setattr(
            dpdgc, released_by, lambda *a, real=real: (released.append((real, a[3])), real(*a))[1]
        )
    work, setting = block(name, level, epsilon, graph, **shared)
    wanted = [release_settings(level, setting)]
    embeddings = dpdgc.embed(work, wanted)
    ((_, _, model),) = dpdgc.fit(work, [setting], embeddings)
    assert work.checkpoint == "best_validation"
    official = name == "dpdgcofficial"
    wanted = {
        "normalised": not official,
        "labels_shift": official,
        "batch_norm": official and level == "none",
        "weight_decay": 1e-5 if official else 0.0,
        # The choice of an epoch would read the validation nodes' edges without noise.
        "checkpoint": "best_validation" if official or level == "none" else "last",
    }
    assert {name: trained[0][name] for name in wanted} == wanted and len(trained) == 1
    (entry,) = work.calibrations
    multiplier = entry["noise_multiplier"]
    phases = {m["phase"]: m for m in entry["plan"]["mechanisms"]}
    if shared:
        group = {"k3": 4, "edge": 1}[level]
        factor = shared["embedding_noise_ratio"] * 2 * math.sqrt(group)
        assert phases["embedding"]["noise_per_clip"] == pytest.approx(factor)
        assert 0.99 * float(epsilon) < entry["epsilon"] <= float(epsilon)
    for phase, rounds in zip(("embedding", "classifier"), made, strict=True):
        planned = phases.get(phase)
        if planned is None:
            # At edge level in batches, as the authors' scripts; without privacy all nodes at once.
            batched = level == "edge"
            assert rounds.sampling == ("shuffle" if batched else "full")
            assert rounds.batch_size == (setting["batch_size"] if batched else 0)
            continue
        unit = planned["max_grad_norm"]["value"] * planned.get("noise_per_clip", 1.0)
        assert rounds.noise_std == multiplier * unit
        assert rounds.sampling == ("poisson" if name == "dpdgc" else "fixed")
        assert (rounds.steps, rounds.sampling_rate) == (planned["steps"], planned["sampling_rate"])
        assert rounds.max_grad_norm == setting["max_grad_norm"]
    assert model.rounds == phases.get("classifier", {}).get("steps", 0)
    sensitivity = phases["release"]["sensitivity"]["value"] if level != "none" else 0
    ((used, noise),) = released
    assert used is release and noise == pytest.approx((multiplier or 0) * sensitivity)


def test_every_seed_has_its_own_release_and_an_equal_setting_the_same(graph):
    work, setting = block("dpdgc", "k2", "8", graph, seeds=(0, 1))
    wanted = [release_settings("k2", setting)]
    made = [dpdgc.embed(work, wanted) for _ in range(2)]
    # Beside each of the two, with what noise it was made.
    assert [len(one) for one in made] == [4, 4]
    names = [dpdgc.embedding_name(seed, wanted[0]) for seed in (0, 1)]
    assert execution.unpacked(made[0], names[0]).keys() == {"embedding", "release"}
    assert all(made[0][f"{n} executed"] == made[1][f"{n} executed"] for n in names)
    first, again = ({name: one[name] for name in names} for one in made)
    a, b = first.values()
    assert not np.array_equal(a, b)
    for name, z in first.items():
        assert np.array_equal(z, again[name])
        assert z.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(z, axis=1), 1, atol=1e-6)


def test_columns_are_bounded_and_rows_keep_their_own_entries():
    """On a directed graph, where rows and columns differ: i -> j for j > i, so late columns are
    long. Every entry kept is one of A; a column longer than D keeps exactly D, another all."""
    from graphdp.data.graph import csr_from_edges

    nodes, bound = 30, 5
    edges = np.array([(i, j) for i in range(nodes) for j in range(i + 1, nodes)])
    indptr, indices = csr_from_edges(edges[:, 0], edges[:, 1], nodes, symmetrise=False)

    class Directed:
        pass

    graph = Directed()
    graph.indptr, graph.indices = indptr, indices
    a = dense(InEdges(indptr, indices))
    assert a[0].sum() == nodes - 1 and a[:, 0].sum() == 0
    kept = dense(dpdgc.bounded_rows(graph, bound, 7))
    assert (kept <= a).all()
    assert np.array_equal(kept.sum(0), np.minimum(a.sum(0), bound))
    assert not np.array_equal(kept, dense(dpdgc.bounded_rows(graph, bound, 8)))


def test_rows_are_the_lists_that_nodes_point_with(graph, monkeypatch):
    read = []
    real = decoupled.train_embedding
    monkeypatch.setattr(
        decoupled, "train_embedding", lambda *a, **k: (read.append(a[:2]), real(*a, **k))[1]
    )
    for name, level, epsilon in (
        ("dpdgc", "edge", "2"), ("dpdgcofficial", "node", "8"), ("dpdgc", "node", "8")
    ):  # fmt: skip
        work, setting = block(name, level, epsilon, graph)
        dpdgc.embed(work, [release_settings(level, setting)])
    assert np.array_equal(read[0][1], graph.indices) and np.array_equal(read[0][0], graph.indptr)
    assert np.bincount(read[1][1], minlength=NODES).max() == 6 < np.diff(graph.indptr).max()
    # Of the 89 others six may list a node, whatever the edges are.
    ours = dpdgc.candidate_rows(graph, 6, ("c", 0))
    assert np.array_equal(read[2][0], ours.indptr) and np.array_equal(read[2][1], ours.indices)
    assert len(read[2][1]) < 0.15 * len(graph.indices)


def test_noise_of_scale_zero_is_refused(graph):
    work, setting = block("dpdgc", "k2", "8", graph)
    work.calibrations[0]["noise_multiplier"] = 0.0
    with pytest.raises(GraphDPError, match="noise of scale 0"):
        dpdgc.embed(work, [release_settings("k2", setting)])
    with pytest.raises(GraphDPError, match="noise of scale 0"):
        calibrated.phases(work.calibrations[0])


def test_the_method_learns_a_clear_graph():
    """A graph with strong communities and features without signal: chance is 50 %."""
    graph = csbm(n=600, f=8, d=20.0, epsilon=3.25, phi=1.0, seed=0)
    work, setting = block("dpdgc", "none", "inf", graph, epochs=40, classifier_epochs=40, hidden=32,
                          learning_rate=0.01)  # fmt: skip
    embeddings = dpdgc.embed(work, [release_settings("none", setting)])
    ((_, _, model),) = dpdgc.fit(work, [setting], embeddings)
    assert model.test_accuracy > 0.8
    assert len(model.history) == 40 and model.history[model.best_epoch - 1] == model.history.max()


def test_the_best_epoch_is_chosen_by_the_validation_nodes(graph, monkeypatch):
    """In both stages, and by no test node."""
    work, setting = block("dpdgc", "none", "inf", graph, classifier_epochs=30, learning_rate=0.05)
    split, asked = work.split(0), []
    monkeypatch.setattr(
        decoupled, "train_embedding", lambda *a, **k: (asked.append(a), train_embedding(*a, **k))[1]
    )
    embeddings = dpdgc.embed(work, [release_settings("none", setting)])
    (given,) = asked
    assert np.array_equal(given[3], split.train) and np.array_equal(given[4], split.val)
    ((_, _, model),) = dpdgc.fit(work, [setting], embeddings)
    counts = model.history * split.val.size  # how many of them are right
    assert np.allclose(counts, np.rint(counts)) and len(set(counts)) > 1
    assert model.history[model.best_epoch - 1] == model.history.max() == model.val_accuracy
    right = model.predictions == graph.y
    told = model.train_accuracy, model.val_accuracy, model.test_accuracy
    assert told == tuple(right[part].mean() for part in (split.train, split.val, split.test))
