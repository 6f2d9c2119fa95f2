"""GraphSAGE baselines: the network against PyG, per-sample gradients against autograd, training."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import sparse, stats

from graphdp import aggregation
from graphdp.data.graph import csr_from_edges
from graphdp.ensemble import FullBatch, Member
from graphdp.ensemble import sage as model
from graphdp.errors import GraphDPError

NODES, FEATURES, CLASSES = 40, 9, 3


def graph(nodes=NODES, edges=120, seed=0, symmetrise=True):
    rng = np.random.default_rng(seed)
    return csr_from_edges(*rng.integers(0, nodes, (2, edges)), nodes, symmetrise=symmetrise)


def features(kind: str, seed=1):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(NODES, FEATURES)).astype(np.float32)
    if kind == "sparse":
        x[rng.random(x.shape) < 0.7] = 0
        return sparse.csr_matrix(x)
    return x


def dense(x):
    return torch.from_numpy(x.toarray() if sparse.issparse(x) else x)


def member(seed=0, noise=0.0, rate=0.01):
    order = np.random.default_rng(3).permutation(NODES)
    parts = (np.sort(part) for part in np.split(order, [24, 32]))
    return Member((1, seed, "sage"), rate, noise, *parts)


LABELS = np.random.default_rng(2).integers(0, CLASSES, NODES)


@pytest.mark.parametrize("mp_layers", [1, 3])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("symmetrise", [True, False])
def test_network_against_pyg_layer_by_layer(mp_layers, kind, symmetrise):
    """SAGEConv(aggr="sum", normalize, root_weight) and torch's layers with the same weights: two
    members side by side, outputs and gradients."""
    pytest.importorskip("torch_geometric")
    from torch_geometric.nn import SAGEConv

    network = model.Sage(FEATURES, 16, mp_layers, CLASSES, batch_norm=True)
    indptr, indices = graph(symmetrise=symmetrise)
    sources = np.repeat(np.arange(NODES), np.diff(indptr))
    edge_index = torch.from_numpy(np.stack([sources, indices]).astype(np.int64))
    x = features(kind)
    like = torch.empty(0)
    values = np.stack([network.initial(np.random.default_rng(seed)) for seed in (5, 6)])
    values = torch.from_numpy(values).float().requires_grad_()
    running = {n: torch.stack([torch.zeros(32), torch.ones(32)]) for n in network.norms}
    matrix = model.SparseMatrix(model.in_matrix(aggregation.in_edges(indptr, indices)), like)
    given = model.SparseMatrix(x, like) if kind == "sparse" else dense(x)
    ours = model.forward(network, values, running, given, matrix, training=True)
    ours.square().sum().backward()
    for s in range(2):
        p = {n: v[s].detach().clone().requires_grad_() for n, v in network.views(values).items()}
        norms = {n: torch.nn.BatchNorm1d(16) for n in network.norms}
        h = dense(x)
        for i in range(2):
            h = h @ p[f"base{i}.weight"] + p[f"base{i}.bias"]
            h = F.selu(norms[f"base{i}_norm"](h))
        for k in range(mp_layers):
            conv = SAGEConv(16, 16, aggr="sum", normalize=True, root_weight=True)
            own = {
                "lin_l.weight": p[f"conv{k}.weight"].T,
                "lin_l.bias": p[f"conv{k}.bias"],
                "lin_r.weight": p[f"conv{k}.root"].T,
            }
            assert {n: tuple(v.shape) for n, v in conv.named_parameters()} == {
                n: tuple(v.shape) for n, v in own.items()
            }
            h = torch.func.functional_call(conv, own, (h, edge_index))
            h = F.selu(norms[f"conv{k}_norm"](h))
        theirs = h @ p["head.weight"] + p["head.bias"]
        torch.testing.assert_close(ours[:, s], theirs, rtol=1e-5, atol=1e-5)
        theirs.square().sum().backward()
        gradient = network.views(values.grad)
        for name, parameter in p.items():
            if "norm" not in name:
                torch.testing.assert_close(gradient[name][s], parameter.grad, rtol=1e-3, atol=1e-4)
        for name, norm in norms.items():
            columns = slice(16 * s, 16 * s + 16)
            torch.testing.assert_close(running[name][0, columns], norm.running_mean)
            torch.testing.assert_close(running[name][1, columns], norm.running_var)


def test_initial_parameters_are_pygs():
    """Bounds of the uniform draws: 1/√fan_in for weights and biases."""
    network = model.Sage(FEATURES, 16, 2, CLASSES, batch_norm=True)
    values = torch.from_numpy(network.initial(np.random.default_rng(0)))[None]
    views = network.views(values)
    assert 0.9 / 3 < views["base0.weight"].abs().max() <= 1 / 3
    assert 0.2 < views["conv1.root"].abs().max() <= 0.25
    assert (views["conv0_norm.weight"] == 1).all() and (views["conv0_norm.bias"] == 0).all()
    assert sum(v.numel() for v in views.values()) == values.numel()


def fit(seeds, checkpoint="best_validation", epochs=30, **changes):
    network = model.Sage(FEATURES, 16, 2, CLASSES, batch_norm=True)
    edges = aggregation.in_edges(*graph())
    members = [member(seed) for seed in seeds]
    return model.train(
        network, features("sparse"), LABELS, edges, members, FullBatch(epochs),
        checkpoint=checkpoint, device="cpu", **changes,
    )  # fmt: skip


def test_a_members_result_does_not_depend_on_its_block():
    alone, together = fit([7])[0], fit([3, 7])[1]
    np.testing.assert_array_equal(alone.predictions, together.predictions)
    for name, value in alone.parameters.items():
        np.testing.assert_array_equal(value, together.parameters[name])


def test_side_by_side_is_the_same_as_one_by_one():
    """The stacked passes that a GPU takes, in float64 against one member at a time."""
    network = model.Sage(FEATURES, 16, 2, CLASSES, batch_norm=True)
    like = torch.empty(0, dtype=torch.float64)
    matrix = model.SparseMatrix(model.in_matrix(aggregation.in_edges(*graph())), like)
    x, labels = model.SparseMatrix(features("sparse"), like), torch.from_numpy(LABELS)

    def run(members):
        return model._train(network, x, labels, matrix, members, 20, "last", "", like)

    for one, both in zip(
        [run([member(s, rate=r)])[0] for s, r in ((1, 0.01), (2, 0.05))],
        run([member(1, rate=0.01), member(2, rate=0.05)]),
        strict=True,
    ):
        for name, value in one.parameters.items():
            np.testing.assert_allclose(value, both.parameters[name], rtol=1e-8, atol=1e-10)


def test_training_keeps_the_asked_checkpoint():
    best, last = fit([1])[0], fit([1], "last")[0]
    assert best.history.shape == (30,) and best.val_accuracy == best.history.max()
    assert best.best_epoch == 1 + int(best.history.argmax())
    assert last.best_epoch == 30 and last.val_accuracy == best.history[-1]
    assert last.train_accuracy > 0.6  # it learns: 3 classes of random labels, by 30 epochs
    assert best.rounds == 0


# --- node level -----------------------------------------------------------------------------------


def private_network():
    return model.Sage(FEATURES, 16, 1, CLASSES, batch_norm=False)


def subgraph_loss(network, values, x, lists, node):
    """The loss of one sample, written for one node at a time."""
    p = {n: v[0] for n, v in network.views(values[None]).items()}

    def base(rows):
        h = F.selu(rows @ p["base0.weight"] + p["base0.bias"])
        return F.normalize(F.selu(h @ p["base1.weight"] + p["base1.bias"]), dim=-1)

    own = base(x[node : node + 1])
    sums = base(x[lists[node]]).sum(0, keepdim=True)
    h = sums @ p["conv0.weight"] + p["conv0.bias"] + own @ p["conv0.root"]
    h = F.selu(F.normalize(h, dim=-1))
    logits = h @ p["head.weight"] + p["head.bias"]
    return F.cross_entropy(logits, torch.from_numpy(LABELS[node : node + 1]))


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_per_sample_gradients_against_autograd(kind):
    network = private_network()
    indptr, indices = graph(edges=90, symmetrise=False, seed=8)
    edges = aggregation.in_edges(indptr, indices)
    x = features(kind)
    lists = [edges.indices[edges.indptr[v] : edges.indptr[v + 1]] for v in range(NODES)]
    assert min(map(len, lists)) == 0 < max(map(len, lists))  # isolated nodes among them
    values = torch.from_numpy(network.initial(np.random.default_rng(4))).float()
    samples = model.SubGraphs(network, x, edges, torch.empty(0))
    batch = np.arange(0, NODES, 2)
    ours = samples.per_sample(values, batch, torch.from_numpy(LABELS))
    expected = []
    for node in batch:
        leaf = values.clone().requires_grad_()
        loss = subgraph_loss(network, leaf, dense(x), lists, int(node))
        expected.append(torch.autograd.grad(loss, leaf)[0])
    expected = torch.stack(expected)
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)
    # The clipped sum, whatever chunks it is made in.
    clip = float(expected.norm(dim=1).median())
    factors = (clip / expected.norm(dim=1)).clamp(max=1)
    for memory_mb in (0, 1000):
        total = samples.clipped_sum(values, batch, torch.from_numpy(LABELS), clip, memory_mb)
        torch.testing.assert_close(total, factors @ expected, rtol=1e-4, atol=1e-4)
    one = samples.clipped_sum(values, batch[:1], torch.from_numpy(LABELS), 1e-3, 1000)
    assert one.norm() <= 1e-3


def test_a_node_enters_the_samples_of_its_out_neighbours_and_its_own_only():
    """What N_g = D + 1 counts: change one node's features and see whose gradient moves."""
    network = private_network()
    indptr, indices = graph(edges=90, symmetrise=False, seed=8)
    edges = aggregation.in_edges(indptr, indices)
    values = torch.from_numpy(network.initial(np.random.default_rng(4))).float()
    x = features("dense")
    other = x.copy()
    other[11] += 1
    everyone = np.arange(NODES)
    first, second = (
        model.SubGraphs(network, given, edges, torch.empty(0)).per_sample(
            values, everyone, torch.from_numpy(LABELS)
        )
        for given in (x, other)
    )
    moved = set(np.flatnonzero((first - second).abs().amax(1).numpy() > 1e-7).tolist())
    assert moved == {11, *indices[indptr[11] : indptr[12]].tolist()}


def test_fixed_size_samples_are_uniform_subsets_and_independent_of_each_other():
    """All 10 subsets of 2 of 5 equally often (χ²), and no dependence on the round before (χ² of
    the 10 x 10 table): failure probability 1e-6 each."""
    rng = np.random.default_rng(5)
    draws = [model.fixed_size_sample(5, 2, rng) for _ in range(20_000)]
    assert all(len(set(d.tolist())) == 2 for d in draws)
    codes = np.array([(1 << d).sum() for d in draws])
    _, codes = np.unique(codes, return_inverse=True)
    assert stats.chisquare(np.bincount(codes, minlength=10)).pvalue > 1e-6
    table = np.zeros((10, 10))
    np.add.at(table, (codes[0::2], codes[1::2]), 1)
    assert stats.chi2_contingency(table).pvalue > 1e-6


def train_private(noise_std=1e-3, steps=40, **changes):
    edges = aggregation.in_edges(*graph())
    training = model.FixedSizeDP(8, steps, 1.0, noise_std)
    return model.train_private(
        changes.get("network", private_network()), features("sparse"), LABELS, edges,
        member(noise=1.0, rate=0.05), training, device="cpu",
    )  # fmt: skip


def test_private_training_learns_and_counts_its_rounds():
    fitted = train_private(steps=150)
    assert fitted.rounds == 150
    norms = np.linalg.norm(fitted.embedding, axis=1)
    np.testing.assert_allclose(norms, 1, atol=1e-5)
    edges = aggregation.in_edges(*graph())
    sums = aggregation.sum_in_edges(edges, fitted.embedding)
    logits = model.logits_of(fitted.parameters, fitted.embedding, sums.astype(np.float32))
    accuracy = (logits.argmax(1) == LABELS)[member().train].mean()
    assert accuracy > 0.6
    # The readout from sums is the network of `forward` with rows of norm 1 below it.
    again = train_private(steps=150)
    for name, value in fitted.parameters.items():
        np.testing.assert_array_equal(value, again.parameters[name])


def test_noise_of_the_stated_scale_is_added():
    """One step from the same start with and without much noise: Adam's first step is the sign of
    the gradient, so noise of scale 1e6 flips about half of them."""
    quiet, loud = train_private(1e-9, 1), train_private(1e6, 1)
    start = {
        n: v[0].numpy()
        for n, v in private_network()
        .views(torch.from_numpy(private_network().initial(
            model.generator(*member().stream, "init"))).float()[None])
        .items()
    }  # fmt: skip
    steps = [
        np.concatenate([(f.parameters[n] - start[n]).ravel() for n in start]) for f in (quiet, loud)
    ]
    flipped = np.mean(np.sign(steps[0]) != np.sign(steps[1]))
    assert 0.3 < flipped < 0.7


def test_what_private_training_refuses():
    with pytest.raises(GraphDPError, match="finite ε"):
        train_private(0.0)
    with pytest.raises(GraphDPError, match="one message-passing layer"):
        train_private(network=model.Sage(FEATURES, 16, 2, CLASSES, batch_norm=False))
