"""HeterPoisson's networks: clipped gradients against autograd, and what a sub-graph depends on."""

import numpy as np
import pytest
import torch
from scipy import sparse, stats
from torch.nn import functional as F

from graphdp.errors import GraphDPError
from graphdp.methods.heterpoisson import official, official_rows
from graphdp.methods.heterpoisson.bags import Bags
from graphdp.methods.heterpoisson.network import (
    CONVOLUTIONS,
    Convolution,
    DenseFeatures,
    Model,
    SparseFeatures,
)
from graphdp.methods.heterpoisson.noise import sml
from graphdp.methods.heterpoisson.official import OfficialModel
from graphdp.methods.heterpoisson.official_rows import DenseStandardised, SparseStandardised
from graphdp.noise import GridNoise
from graphdp.training.descent import Rounds, descend, views

NODES, WIDTH, CLASSES = 40, 17, 3
DOUBLE = torch.empty(0, dtype=torch.float64)


def example(seed=0, centres=15):
    rng = np.random.default_rng(seed)
    x = (rng.random((NODES, WIDTH)) < 0.4) * rng.normal(size=(NODES, WIDTH))
    x[3] = 0
    labels = torch.tensor(rng.integers(0, CLASSES, NODES))
    sizes = rng.integers(0, 4, centres)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    chosen = rng.permutation(NODES)[:centres]
    return rng, x, labels, Bags(chosen, starts, rng.integers(0, NODES, starts[-1]))


def std(v):
    return (v - v.mean()) / (v.std() + 1e-6)


def scores_of(shape, values, x, bags, i, longest=None):
    """One sub-graph's scores, written down row by row; `longest`: of the authors' padded bag."""
    p, c = views(values, shape.shapes), bags.centres[i]
    mine = slice(bags.starts[i], bags.starts[i + 1])
    rows = torch.tensor(x[bags.peripherals[mine]])
    if bags.blank is not None:
        rows = rows * torch.tensor(~bags.blank[mine])[:, None]
    rows = torch.cat([torch.tensor(x[c])[None], rows])
    count = len(rows)
    if longest:
        count = max(1, int((rows != 0).any(1).sum()))
        rows = torch.cat([rows, rows.new_zeros(longest - len(rows), WIDTH)])
    gin = shape.convolution == "gin"
    a = F.elu(std(F.elu(rows.sum(0) if gin else rows.sum(0) / count)))
    own = rows if longest else rows[:1]
    if gin:
        z = (a + (1 + p["lambda"]) * own) @ p["W"] + p["b"] + own @ p["W"] + p["b"]
    else:
        z = (a @ p["W"] + p["b"]) + (own @ p["W"] + p["b"])
    if shape.convolution == "sage":
        z = z + own @ p["W2"] + p["b2"]
    return std(F.elu(z))[0] @ p["V"] + p["c"]


def loss_of(shape, values, x, bags, i, labels, longest=None):
    scores = scores_of(shape, values, x, bags, i, longest)
    return F.cross_entropy(scores[None], labels[bags.centres[i]][None])


@pytest.mark.parametrize("clip", [None, 0.3, 5.0])
@pytest.mark.parametrize("convolution", CONVOLUTIONS)
@pytest.mark.parametrize("kind", ["dense", "sparse", "blank", "official", "official, sparse"])
def test_the_clipped_sum_is_that_of_each_sub_graphs_own_gradient(kind, convolution, clip):
    rng, x, labels, bags = example()
    shape = Convolution(WIDTH, 11, CLASSES, convolution)
    values = torch.tensor(shape.initial(rng))
    if kind == "blank":
        bags = Bags(bags.centres, bags.starts, bags.peripherals, rng.random(bags.starts[-1]) < 0.5)
    longest = int(bags.sizes.max()) + 1 if "official" in kind else None
    if kind == "official":
        model = OfficialModel(shape, DenseStandardised(x, DOUBLE), values)
    elif "official" in kind:
        shifted = SparseStandardised(sparse.csr_matrix(x), -0.3, DOUBLE)
        model, x = OfficialModel(shape, shifted, values), x - 0.3
    else:
        of = SparseFeatures if kind == "sparse" else DenseFeatures
        model = Model(shape, of(sparse.csr_matrix(x), DOUBLE), values)
    found, expected = torch.zeros_like(values), torch.zeros_like(values)
    model.add_clipped(bags, labels, found, clip)
    clipped = 0
    for i in range(len(bags.centres)):
        free = values.clone().requires_grad_()
        (one,) = torch.autograd.grad(loss_of(shape, free, x, bags, i, labels, longest), free)
        factor = 1.0 if clip is None else min(1.0, clip / (float(one.norm()) + 1e-6))
        clipped += factor < 1
        expected += factor * one
    assert (found - expected).abs().max() < 1e-13 * max(1, expected.abs().max())
    assert clip is None or clipped > 0


@pytest.mark.parametrize("convolution", CONVOLUTIONS)
def test_no_sub_graph_moves_another_ones_gradient_but_padding_does(convolution):
    """One peripheral more in the last bag: with padded bags all other gradients change."""
    rng, x, labels, bags = example(1)
    shape = Convolution(WIDTH, 11, CLASSES, convolution)
    values = torch.tensor(shape.initial(rng))
    size, longest = len(bags.centres), int(bags.sizes.max()) + 1
    extra = rng.integers(0, NODES, longest)
    starts = bags.starts.copy()
    starts[-1] += longest
    larger = Bags(bags.centres, starts, np.concatenate([bags.peripherals, extra]))
    for network, moves in ((Model, False), (OfficialModel, True)):
        features = DenseStandardised if moves else DenseFeatures
        model = network(shape, features(x, DOUBLE), values)
        changed = []
        for batch in (bags, larger):
            whole, last = torch.zeros_like(values), torch.zeros_like(values)
            model.add_clipped(batch, labels, whole, 0.5)
            if moves:  # the last one alone, padded as in the batch
                rows = int(batch.sizes.max()) + 1
                model._add(batch.part(size - 1, size), rows, labels, last, 0.5)
            else:
                model.add_clipped(batch.part(size - 1, size), labels, last, 0.5)
            changed.append(whole - last)
        moved = float((changed[0] - changed[1]).norm())
        assert (moved > 1e-3) if moves else (moved < 1e-13)


def test_scores_are_those_of_one_bag_at_a_time():
    rng, x, _, bags = example(2)
    shape = Convolution(WIDTH, 11, CLASSES, "sage")
    values = torch.tensor(shape.initial(rng))
    model = Model(shape, SparseFeatures(sparse.csr_matrix(x), DOUBLE), values)
    whole = model.scores(bags)
    alone = torch.cat([model.scores(bags.part(i, i + 1)) for i in range(len(bags.centres))])
    assert (whole - alone).abs().max() < 1e-12


@pytest.mark.parametrize("convolution", CONVOLUTIONS)
def test_official_scores_are_padded_by_batches_of_predictions(convolution, monkeypatch):
    """Batches of 4, each padded to its own largest bag."""
    monkeypatch.setattr(official, "_PREDICTED_TOGETHER", 4)
    rng, x, _, bags = example(3)
    shape = Convolution(WIDTH, 11, CLASSES, convolution)
    values = torch.tensor(shape.initial(rng))
    found = OfficialModel(shape, DenseStandardised(x, DOUBLE), values).scores(bags)
    longest = [int(bags.sizes[i - i % 4 :][:4].max()) + 1 for i in range(len(bags.centres))]
    assert len(set(longest)) > 1
    for i, rows in enumerate(longest):
        expected = scores_of(shape, values, x, bags, i, rows)
        assert (found[i] - expected).abs().max() < 1e-12


def test_official_features_are_standardised_over_all_entries_at_once(monkeypatch):
    """By torch's mean and standard deviation, as the authors' code computes them."""
    _, x, _, _ = example(4)
    dense = torch.tensor(x * 0.01)
    expected = (dense - dense.mean()) / (dense.std() + 1e-6)
    for given in (dense.numpy(), sparse.csr_matrix(dense.numpy())):
        found = official_rows.standardised_features(given, DOUBLE).x
        assert (found - expected).abs().max() < 1e-13
        monkeypatch.setattr(official_rows, "SPARSE_WIDTH", WIDTH)
        wide = official_rows.standardised_features(given, DOUBLE)
        assert np.abs(wide.x.toarray() + wide.shift - expected.numpy()).max() < 1e-13
        monkeypatch.undo()
    assert (expected - (dense - dense.mean()) / dense.std()).abs().max() > 1e-4  # the 1e-6 is there


@pytest.mark.parametrize("shift", [0.0, 0.7])
def test_official_rows_are_the_same_dense_and_sparse(shift):
    """Node 3 has no feature: shifted it counts as a row of its bag, else it does not."""
    _, x, _, bags = example(5)
    bags = Bags(bags.centres, bags.starts, np.where(bags.peripherals % 4, bags.peripherals, 3))
    for summed in (True, False):
        dense = DenseStandardised(x + shift, DOUBLE).rows(bags, summed)
        wide = SparseStandardised(sparse.csr_matrix(x), shift, DOUBLE).rows(bags, summed)
        weight = torch.randn(WIDTH, 5, generator=torch.manual_seed(1), dtype=torch.float64)
        total, delta = torch.randn(len(bags.centres), 5), torch.randn(len(wide.owner), 5)
        total, delta = total.double(), delta.double()
        found = []
        for rows in (dense, wide):
            gradient = torch.zeros_like(weight)
            rows.add_a_gradient(gradient, total)
            parts = rows.products(weight), rows.a_products(weight), rows.gradient(delta), gradient
            found.append([*parts, rows.a_squares(), rows.cross(), rows.pairs(delta)])
        for one, other in zip(*found, strict=True):
            assert (one - other).abs().max() < 1e-11


def test_an_unknown_convolution_is_refused():
    with pytest.raises(GraphDPError, match="'gat'; choose one of gcn, gin, sage"):
        Convolution(4, 4, 2, "gat")


def test_sml_noise_is_laplace_in_each_coordinate_and_its_norm_tells_the_scale():
    """A Kolmogorov-Smirnov test of each statement at 1e-6. Coordinates of one round share W, so
    that each round gives one; ‖noise‖² / (σ² d) is W ~ Exp(1), nearly, for many coordinates."""
    scale, rounds, width = 2.0, 2000, 400
    noise = sml(GridNoise)([("sml", 1), ("sml", 2)])
    drawn = []
    for _ in range(rounds):
        sums = torch.zeros(2, width, dtype=torch.float64)
        noise.add(sums, torch.tensor([scale, scale], dtype=torch.float64))
        drawn.append(sums)
    one = torch.stack(drawn)[:, 0].numpy()
    laplace = stats.laplace(scale=scale / np.sqrt(2))
    assert stats.kstest(one[:, 0], laplace.cdf).pvalue > 1e-6
    mixing = (one**2).mean(1) / scale**2
    # The mean of 400 squares is off by 7 %: compare where that moves the distribution little.
    for quantile in (0.25, 0.5, 0.75):
        share = (mixing < stats.expon.ppf(quantile)).mean()
        assert abs(share - quantile) < 5 * np.sqrt(0.25 / rounds) + 0.02
    other = torch.stack(drawn)[:, 1].numpy()
    correlation = np.corrcoef((one**2).mean(1), (other**2).mean(1))[0, 1]
    assert abs(correlation) < 5 / np.sqrt(rounds)


def test_rounds_without_noise_are_sampled_and_clipped_alike():
    """At equal streams they draw the batches of scale 0; two rounds of the sum by hand."""
    batches, clips = [], []

    def add(nodes, gradients, clip):
        batches.append(nodes.tolist())
        clips.append(clip)
        gradients += 1.0

    values = torch.zeros(3)
    rounds = Rounds("poisson", 1, 5, 0.5, 2, 0.5, 0.0, noise_free=True)
    assert descend(values, add, rounds, np.arange(10), 0.1, ("free",)) is None
    assert len(batches) == 2 and clips == [0.5, 0.5] and batches[0] != batches[1]
    assert torch.allclose(values, torch.full((3,), -0.2), atol=1e-4)
    for wrong in ({"noise_std": 1.0}, {"sampling": "full"}):
        with pytest.raises(GraphDPError, match="noise-free rounds"):
            Rounds(**{"sampling": "poisson", "epochs": 1, "batch_size": 5, "sampling_rate": 0.5,
                      "steps": 2, "max_grad_norm": 0.5, "noise_free": True} | wrong)  # fmt: skip


def test_a_mean_of_ones_own_is_told_apart_from_the_fixed_divisor():
    seen = []

    def mean(sums, size):
        seen.append(size)
        sums.div_(max(size, 1))

    def add(nodes, gradients, clip):
        gradients += len(nodes)

    rounds = Rounds("poisson", 1, 5, 0.5, 4, 0.5, 1.0)
    done = descend(torch.zeros(3), add, rounds, np.arange(10), 0.1, ("own",), mean=mean)
    assert len(set(seen)) > 1 and done.batch_size is None
    fixed = descend(torch.zeros(3), add, rounds, np.arange(10), 0.1, ("own",))
    assert fixed.batch_size == 5 and fixed.count == done.count == 4
