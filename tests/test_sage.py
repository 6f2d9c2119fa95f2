"""GraphSAGE baselines: the network against PyG, per-sample gradients against autograd, training."""

import dataclasses
import itertools
import json
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from scipy import sparse, stats

from graphdp.data.csbm import csbm
from graphdp.data.graph import InEdges, csr_from_edges, in_edges
from graphdp.errors import GraphDPError
from graphdp.graphs import degree
from graphdp.methods.block import Block
from graphdp.methods.registry import analyses, card
from graphdp.methods.sage import (
    Edge,
    Node,
    ProgapsEdge,
    ProgapsNode,
    ProgapsPublic,
    Public,
    plan_settings,
    release_settings,
)
from graphdp.methods.sage import method as sage
from graphdp.methods.sage import network as model
from graphdp.methods.sage.plan import sage_plan
from graphdp.methods.settings import distinct, key
from graphdp.privacy import sensitivity
from graphdp.releases import aggregation
from graphdp.releases.cache import AggregateCache
from graphdp.training import (
    DPAdam,
    FullBatch,
    GraphInputs,
    JumpingSage,
    Member,
    Sage,
    layers,
    predict,
    train,
)
from graphdp.training.features import SharedDense, SharedSparse
from graphdp.training.inputs import Neighbours, Scratch
from graphdp.training.layout import Layout, Stack
from graphdp.workflow import model_rows as rows
from graphdp.workflow.calibrations import calibrate_cell

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
@pytest.mark.parametrize(("symmetrise", "dropout"), [(True, 0.0), (False, 0.0), (False, 0.3)])
def test_network_against_pyg_layer_by_layer(mp_layers, kind, symmetrise, dropout):
    """SAGEConv(aggr="sum", normalize, root_weight) and torch's layers with the same weights (and
    masks: before SELU, but after it between convolutions, as in PyG's `BasicGNN`): two members
    side by side, outputs and gradients."""
    pytest.importorskip("torch_geometric")
    from torch_geometric.nn import SAGEConv

    network = Sage(FEATURES, 16, mp_layers, CLASSES, batch_norm=True, dropout=dropout)
    indptr, indices = graph(symmetrise=symmetrise)
    sources = np.repeat(np.arange(NODES), np.diff(indptr))
    edge_index = torch.from_numpy(np.stack([sources, indices]).astype(np.int64))
    like = torch.empty(0, dtype=torch.float64)
    layout = Layout(network, Neighbours(in_edges(indptr, indices), like))
    stack = Stack(layout, *(
        torch.from_numpy(np.stack(part))
        for part in zip(*(layout.initial(np.random.default_rng(s)) for s in (5, 6)), strict=True)
    ))  # fmt: skip
    start = [Stack(layout, m.values.clone(), m.running.clone()).arrays() for m in stack.members]
    x = features(kind).astype(np.float64)
    source = SharedSparse(x, layout, like) if kind == "sparse" else SharedDense(x, like)
    block = source.block([0, 1], [np.arange(NODES)] * 2, training=True)
    draws = [torch.Generator().manual_seed(s) for s in range(2)]

    def masks(layer, shape):
        kept = 1 - layer.rate
        drawn = [torch.empty(shape[1:], dtype=torch.float64) for _ in draws]
        pairs = zip(drawn, draws, strict=True)
        return torch.stack([m.bernoulli_(kept, generator=g) / kept for m, g in pairs])

    scratch = Scratch(like)
    ours, tape = layers.forward_training(stack, block, scratch, masks=masks)
    ours = ours.clone()
    gradients = stack.gradients()
    for delta in layers.backward(stack, tape, 2 * ours, gradients, scratch):
        delta.add_to(gradients)
    for s in range(2):
        draw = torch.Generator().manual_seed(s)

        def dropped(h, draw=draw):
            if not dropout:
                return h
            mask = torch.empty(h.T.shape, dtype=h.dtype).bernoulli_(1 - dropout, generator=draw)
            return h * mask.T / (1 - dropout)

        p = {n: torch.from_numpy(v).requires_grad_() for n, v in start[s].items()}
        norms = {n: torch.nn.BatchNorm1d(16).double() for n in network_norms(mp_layers)}
        h = dense(x)
        for i in range(2):
            h = h @ p[f"base{i}.weight"].T + p[f"base{i}.bias"]
            h = F.selu(dropped(norms[f"base{i}_norm"](h)))
        for k in range(mp_layers):
            conv = SAGEConv(16, 16, aggr="sum", normalize=True, root_weight=True)
            own = {
                "lin_l.weight": p[f"conv{k}.weight"],
                "lin_l.bias": p[f"conv{k}.bias"],
                "lin_r.weight": p[f"conv{k}.root"],
            }
            assert {n: tuple(v.shape) for n, v in conv.named_parameters()} == {
                n: tuple(v.shape) for n, v in own.items()
            }
            h = torch.func.functional_call(conv, own, (h, edge_index))
            h = norms[f"conv{k}_norm"](h)
            h = F.selu(dropped(h)) if k == mp_layers - 1 else dropped(F.selu(h))
        theirs = h @ p["head.weight"].T + p["head.bias"]
        torch.testing.assert_close(ours[s].T, theirs, rtol=1e-8, atol=1e-10)
        theirs.square().sum().backward()
        found = Stack(layout, gradients.values[s : s + 1]).arrays()
        for name, parameter in p.items():
            if "norm" not in name:
                expected = parameter.grad.numpy()
                np.testing.assert_allclose(found[name], expected, rtol=1e-7, atol=1e-8)
        after = stack.members[s].arrays()
        for name, norm in norms.items():
            for part in ("weight", "bias"):
                expected = getattr(norm, part).grad.numpy()
                np.testing.assert_allclose(found[f"{name}.{part}"], expected, rtol=1e-7, atol=1e-8)
            for part in ("running_mean", "running_var"):
                np.testing.assert_allclose(after[f"{name}.{part}"], getattr(norm, part), rtol=1e-8)


def pygs(network):
    """ProGAP's baseline of torch's and PyG's own modules, layer by layer as its code builds it."""
    from torch_geometric.nn import GraphSAGE

    class Theirs(torch.nn.Module):
        def __init__(self):
            super().__init__()
            width, mean = network.hidden, network.batch_norm

            def norm():
                kind = torch.nn.BatchNorm1d if mean else partial(torch.nn.GroupNorm, 1)
                return kind(width)

            self.base0, self.base0_norm = torch.nn.Linear(FEATURES, width), norm()
            self.sage = GraphSAGE(
                width, width, network.mp_layers, width, act=F.selu, jk="cat", norm=norm(),
                aggr="mean" if mean else "sum", normalize=True, root_weight=True,
            )  # fmt: skip
            self.jump_norm, self.head = norm(), torch.nn.Linear(width, network.classes)

        def forward(self, x, edge_index):
            h = self.base0_norm(F.selu(self.base0(x)))
            h = F.selu(self.jump_norm(self.sage(h, edge_index)))
            return self.head(h)

    return Theirs().double()


def their_name(name: str) -> str:
    """Ours -> what PyG's model calls the parameter or statistic."""
    module, _, part = name.partition(".")
    if module == "jump":
        return f"sage.lin.{part}"
    if module.startswith("conv"):
        k = module[4:].removesuffix("_norm")
        if module.endswith("_norm"):
            return f"sage.norms.{k}.{part}"
        own = {"weight": "lin_l.weight", "bias": "lin_l.bias", "root": "lin_r.weight"}
        return f"sage.convs.{k}.{own[part]}"
    return name


@pytest.mark.parametrize("mp_layers", [1, 3])
@pytest.mark.parametrize(("kind", "symmetrise"), [("dense", True), ("sparse", False)])
@pytest.mark.parametrize("batch_norm", [True, False])
def test_progaps_network_against_pygs_graphsage(mp_layers, kind, symmetrise, batch_norm):
    """`GraphSAGE(jk="cat")` between a linear layer and a head, with the same weights: two members
    side by side, outputs, gradients and statistics; then the outputs in evaluation mode."""
    pytest.importorskip("torch_geometric")
    network = JumpingSage(FEATURES, 16, mp_layers, CLASSES, batch_norm=batch_norm)
    indptr, indices = graph(symmetrise=symmetrise)
    assert (np.diff(in_edges(indptr, indices).indptr) == 0).any()  # a mean over nobody
    sources = np.repeat(np.arange(NODES), np.diff(indptr))
    edge_index = torch.from_numpy(np.stack([sources, indices]).astype(np.int64))
    like = torch.empty(0, dtype=torch.float64)
    layout = Layout(network, Neighbours(in_edges(indptr, indices), like))
    drawn = [layout.initial(np.random.default_rng(s)) for s in (5, 6)]
    stack = Stack(layout, *(torch.from_numpy(np.stack(part)) for part in zip(*drawn, strict=True)))
    stack.values += 0.1 * torch.from_numpy(np.random.default_rng(9).normal(size=layout.size))
    start = [Stack(layout, m.values.clone(), m.running.clone()).arrays() for m in stack.members]
    x = features(kind).astype(np.float64)
    source = SharedSparse(x, layout, like) if kind == "sparse" else SharedDense(x, like)
    block = source.block([0, 1], [np.arange(NODES)] * 2, training=True)
    scratch = Scratch(like)
    ours, tape = layers.forward_training(stack, block, scratch)
    ours = ours.clone()
    gradients = stack.gradients()
    for delta in layers.backward(stack, tape, 2 * ours, gradients, scratch):
        delta.add_to(gradients)
    evaluated, _ = layers.forward(stack, block, Scratch(like))
    for s in range(2):
        theirs = pygs(network)
        missing = theirs.load_state_dict(
            {their_name(name): torch.from_numpy(value) for name, value in start[s].items()},
            strict=False,
        )
        assert not missing.unexpected_keys
        assert all(name.endswith("num_batches_tracked") for name in missing.missing_keys)
        out = theirs(dense(x), edge_index)
        torch.testing.assert_close(ours[s].T, out.detach(), rtol=1e-8, atol=1e-10)
        out.square().sum().backward()
        found = Stack(layout, gradients.values[s : s + 1]).arrays()
        for name, parameter in theirs.named_parameters():
            own = {their_name(mine): value for mine, value in found.items()}[name]
            if batch_norm and name == "sage.lin.bias":
                assert parameter.grad.abs().max() < 1e-8 and not own.any()  # the norm absorbs it
                continue
            np.testing.assert_allclose(own, parameter.grad.numpy(), rtol=1e-7, atol=1e-8)
        after, state = stack.members[s].arrays(), theirs.state_dict()
        for name in layout.running:
            np.testing.assert_allclose(after[name], state[their_name(name)], rtol=1e-8, atol=1e-12)
        theirs.eval()
        torch.testing.assert_close(
            evaluated[s].T, theirs(dense(x), edge_index).detach(), rtol=1e-8, atol=1e-10
        )


def network_norms(mp_layers):
    return ["base0_norm", "base1_norm", *(f"conv{k}_norm" for k in range(mp_layers))]


def test_initial_parameters_are_pygs():
    """Bounds of the uniform draws: 1/√fan_in for weights and biases."""
    layout = Layout(Sage(FEATURES, 16, 2, CLASSES, batch_norm=True))
    drawn = layout.initial(np.random.default_rng(0))
    views = Stack(layout, *(torch.from_numpy(part)[None] for part in drawn)).arrays()
    assert 0.9 / 3 < np.abs(views["base0.weight"]).max() <= 1 / 3
    assert 0.2 < np.abs(views["conv1.root"]).max() <= 0.25
    assert (views["conv0_norm.weight"] == 1).all() and (views["conv0_norm.bias"] == 0).all()
    drawn = model.initial(private_network(), np.random.default_rng(0))
    views = model.parameters(private_network(), drawn)
    assert sum(v.numel() for v in views.values()) == drawn.numel()
    assert 0.9 / 3 < views["base0.weight"].abs().max() <= 1 / 3


def fit(seeds, checkpoint="best_validation", epochs=30, **changes):
    network = Sage(FEATURES, 16, 2, CLASSES, batch_norm=True)
    inputs = GraphInputs(features("sparse"), in_edges(*graph()))
    members = [member(seed) for seed in seeds]
    return train(
        network, inputs, LABELS, members, FullBatch(epochs),
        checkpoint=checkpoint, device="cpu", **changes,
    )  # fmt: skip


def test_a_members_result_does_not_depend_on_its_company():
    # Bitwise among blocks of equal size; alone up to rounding, see the test below.
    one, other = fit([7, 3])[0], fit([7, 9])[0]
    np.testing.assert_array_equal(one.predictions, other.predictions)
    for name, value in one.parameters.items():
        np.testing.assert_array_equal(value, other.parameters[name])


def test_side_by_side_is_the_same_as_one_by_one():
    """Two members in one stack, in float64, against one member at a time."""
    network = Sage(FEATURES, 16, 2, CLASSES, batch_norm=True)
    inputs = GraphInputs(features("sparse"), in_edges(*graph()))
    members = [member(1, rate=0.01), member(2, rate=0.05)]

    def run(members):
        return train(
            network, inputs, LABELS, members, FullBatch(20), dtype=torch.float64, device="cpu"
        )

    together = run(members)
    for one, both in zip([run([m])[0] for m in members], together, strict=True):
        for name, value in one.parameters.items():
            np.testing.assert_allclose(value, both.parameters[name], rtol=1e-8, atol=1e-10)
        np.testing.assert_array_equal(one.predictions, both.predictions)
    # What is predicted from the kept parameters, in a call of its own.
    again = predict(network, inputs, together[0].parameters, dtype=torch.float64, device="cpu")
    np.testing.assert_array_equal(again, together[0].predictions)


def test_training_keeps_the_asked_checkpoint():
    best, last = fit([1])[0], fit([1], "last")[0]
    assert best.history.shape == (30,) and best.val_accuracy == best.history.max()
    assert best.best_epoch == 1 + int(best.history.argmax())
    assert last.best_epoch == 30 and last.val_accuracy == best.history[-1]
    assert last.train_accuracy > 0.6  # it learns: 3 classes of random labels, by 30 epochs
    assert best.rounds == 0


# --- node level -----------------------------------------------------------------------------------


def private_network(whose=Sage):
    return whose(FEATURES, 16, 1, CLASSES, batch_norm=False)


def subgraph_loss(network, values, x, lists, node):
    """The loss of one sample, written for one node at a time."""
    p = model.parameters(network, values)

    def base(rows):
        h = F.selu(rows @ p["base0.weight"] + p["base0.bias"])
        return F.normalize(F.selu(h @ p["base1.weight"] + p["base1.bias"]), dim=-1)

    own = base(x[node : node + 1])
    sums = base(x[lists[node]]).sum(0, keepdim=True)
    h = sums @ p["conv0.weight"] + p["conv0.bias"] + own @ p["conv0.root"]
    h = F.selu(F.normalize(h, dim=-1))
    logits = h @ p["head.weight"] + p["head.bias"]
    return F.cross_entropy(logits, torch.from_numpy(LABELS[node : node + 1]))


def progaps_loss(network, values, x, lists, node):
    """As `subgraph_loss`, of PyG's modules on the sub-graph alone."""
    p = model.parameters(network, values)
    state = {their_name(name): v.T if v.ndim == 2 else v for name, v in p.items()}
    nodes = [node, *lists[node]]
    edge_index = torch.stack([torch.arange(1, len(nodes)), torch.zeros(len(nodes) - 1).long()])
    logits = torch.func.functional_call(pygs(network).float(), state, (x[nodes], edge_index))
    return F.cross_entropy(logits[:1], torch.from_numpy(LABELS[node : node + 1]))


#: Of each network of DP-GNN the loss of one sample.
LOSSES = {Sage: subgraph_loss, JumpingSage: progaps_loss}


@pytest.mark.parametrize("whose", LOSSES)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_per_sample_gradients_against_autograd(kind, whose):
    network = private_network(whose)
    indptr, indices = graph(edges=90, symmetrise=False, seed=8)
    edges = in_edges(indptr, indices)
    x = features(kind)
    lists = [edges.indices[edges.indptr[v] : edges.indptr[v + 1]] for v in range(NODES)]
    assert min(map(len, lists)) == 0 < max(map(len, lists))  # isolated nodes among them
    values = model.initial(network, np.random.default_rng(4)).float()
    if whose is JumpingSage:  # norms whose weights are not all 1, nor their biases 0
        values += 0.2 * torch.from_numpy(np.random.default_rng(6).normal(size=len(values))).float()
    samples = model.SubGraphs(network, x, edges, torch.empty(0))
    batch = np.arange(0, NODES, 2)
    ours = samples.per_sample(values, batch, torch.from_numpy(LABELS))
    expected = []
    for node in batch:
        leaf = values.clone().requires_grad_()
        loss = LOSSES[whose](network, leaf, dense(x), lists, int(node))
        expected.append(torch.autograd.grad(loss, leaf)[0])
    expected = torch.stack(expected)
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)
    # The clipped sum, whatever chunks it is made in.
    clip = float(expected.norm(dim=1).median())
    factors = (clip / expected.norm(dim=1)).clamp(max=1)
    for memory_mb in (0, 1000):
        total = samples.clipped_sum(values, batch, torch.from_numpy(LABELS), clip, memory_mb)
        torch.testing.assert_close(total.float(), factors @ expected, rtol=1e-4, atol=1e-4)
    one = samples.clipped_sum(values, batch[:1], torch.from_numpy(LABELS), 1e-3, 1000)
    assert one.norm() <= 1e-3


def gaps(network):
    """GAP's DP-GNN of torch's and PyG's own modules, layer by layer as its code and DPDGC's do."""
    from torch_geometric.nn import SAGEConv

    class Theirs(torch.nn.Module):
        def __init__(self):
            super().__init__()
            width = network.hidden
            self.base0, self.base1 = torch.nn.Linear(FEATURES, width), torch.nn.Linear(width, width)
            conv = SAGEConv(width, width, aggr="sum", normalize=True, root_weight=True)
            self.sage = torch.nn.ModuleDict({"convs": torch.nn.ModuleList([conv])})
            self.head = torch.nn.Linear(width, network.classes)

        def forward(self, x, edge_index):
            h = F.normalize(F.selu(self.base1(F.selu(self.base0(x)))), dim=-1)
            return self.head(F.selu(self.sage["convs"][0](h, edge_index)))

    return Theirs()


@pytest.mark.parametrize(("whose", "theirs_of"), [(JumpingSage, pygs), (Sage, gaps)])
@pytest.mark.parametrize(("clip", "kind"), [(1e-3, "sparse"), (0.3, "dense"), (1e6, "sparse")])
def test_clipped_rows_are_those_of_opacus_on_a_union_of_sub_graphs(clip, kind, whose, theirs_of):
    """PyG's modules on the union of a batch's sub-graphs under Opacus' hooks, which the code of
    ProGAP, and that of GAP and DPDGC calls: clips at which all rows, some and none are cut."""
    opacus = pytest.importorskip("opacus")
    from torch_geometric.nn import Linear

    linear = opacus.grad_sample.linear.compute_linear_grad_sample
    opacus.grad_sample.register_grad_sampler(Linear)(linear)
    network = private_network(whose)
    indptr, indices = graph(edges=90, symmetrise=False, seed=8)
    edges, x = in_edges(indptr, indices), features(kind)
    values = model.initial(network, np.random.default_rng(4)).float()
    values += 0.2 * torch.from_numpy(np.random.default_rng(6).normal(size=len(values))).float()
    batch = np.arange(0, NODES, 2)
    lists = [edges.indices[edges.indptr[v] : edges.indptr[v + 1]] for v in batch]
    union = np.unique(np.concatenate([batch, *lists]))
    assert len(batch) < len(union) < len(batch) + sum(map(len, lists))  # shared in-neighbours
    theirs = theirs_of(network).float()
    p = model.parameters(network, values)
    theirs.load_state_dict({their_name(n): v.T if v.ndim == 2 else v for n, v in p.items()})
    hooked = opacus.GradSampleModule(theirs, loss_reduction="mean")
    sources = np.searchsorted(union, np.concatenate(lists))
    targets = np.searchsorted(union, np.repeat(batch, [len(own) for own in lists]))
    given = dense(x)[union].requires_grad_()  # Opacus hooks modules that pass a gradient on
    logits = hooked(given, torch.from_numpy(np.stack([sources, targets])))
    own = torch.from_numpy(np.searchsorted(union, batch))
    F.cross_entropy(logits[own], torch.from_numpy(LABELS[batch])).backward()
    rows = {n: q.grad_sample for n, q in theirs.named_parameters()}
    assert {len(one) for one in rows.values()} == {len(union)}
    norms = sum(one.flatten(1).square().sum(1) for one in rows.values()).sqrt()
    factors = (clip / norms).clamp(max=1)
    samples = model.SubGraphs(network, x, edges, torch.empty(0))
    total = samples.clipped_row_sum(values, batch, torch.from_numpy(LABELS), clip)
    for name, found in model.parameters(network, total).items():
        expected = torch.einsum("n,n...->...", factors, rows[their_name(name)])
        expected = expected.T if found.ndim == 2 else expected
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4 * min(clip, 1))


def test_one_label_turns_the_rows_of_all_in_neighbours():
    """Why 2 (D + 1) C is no bound where rows are clipped: 60 nodes of one out-edge each (D = 1)
    send to one node, whose label changes. Where samples are clipped its own alone turns."""
    senders, clip, bound = 60, 1e-3, 2 * 2 * 1e-3
    network = JumpingSage(2, 8, 1, 2, batch_norm=False)
    edges = InEdges(np.array([0, senders, *[senders] * senders]), np.arange(1, senders + 1))
    x = np.tile(np.array([[1.0, 0.0]], np.float32), (senders + 1, 1))
    samples = model.SubGraphs(network, x, edges, torch.empty(0))
    values = model.initial(network, np.random.default_rng(0)).float()
    labels = [torch.full((senders + 1,), label) for label in (0, 1)]
    asked = np.array([0])
    rows = [samples.clipped_row_sum(values, asked, own, clip) for own in labels]
    assert (rows[0] - rows[1]).norm() > 1.9 * senders * clip > 25 * bound
    one = [samples.clipped_sum(values, asked, own, clip, 100) for own in labels]
    assert (one[0] - one[1]).norm() <= 2 * clip


def row_sum(network, x, lists, labels, batch, clip):
    """The sum of a batch's clipped rows; lists: a node's in-neighbours, for each node."""
    indptr = np.cumsum([0, *map(len, lists)])
    edges = InEdges(indptr, np.array([u for own in lists for u in own], np.int32))
    samples = model.SubGraphs(network, x, edges, torch.empty(0, dtype=torch.float64))
    values = model.initial(network, np.random.default_rng(10))
    return samples.clipped_row_sum(values, np.array(batch), torch.from_numpy(labels), clip)


def test_one_label_turns_more_rows_than_all_samples_of_a_node_are_accounted_for():
    """GAP's and DPDGC's DP-GNN, in-degrees bounded by D: in accounting one sample moves a round by
    2 C at most and all D + 1 of a node by 2 (D + 1) C. Where rows are clipped one label alone,
    which changes one sample, moves it by 2 D C; label and features by more than all that."""
    max_degree, clip = 8, 1e-4
    heard = [[0, *range(s, s + 7)] for s in range(9, 65, 7)]  # of nodes 1 to 8
    lists = [list(range(65, 73)), *heard, *[[]] * 64]
    x, labels = np.tile(np.array([[0.3, 0.0]]), (73, 1)), np.zeros(73, np.int64)
    x[0], other = [5, 0], x.copy()
    other[0] = -5, 3
    turned = labels.copy()
    turned[0] = 1
    network = Sage(2, 8, 1, 2, batch_norm=False)
    accounted, bound = (
        sensitivity.clipped_group_gradient_sum(9, clip).value,
        sensitivity.clipped_union_rows(9, max_degree, clip).value,
    )
    batch = range(9)
    before = row_sum(network, x, lists, labels, batch, clip)
    label = (row_sum(network, x, lists, turned, batch, clip) - before).norm()
    both = (row_sum(network, other, lists, turned, batch, clip) - before).norm()
    assert 15 * clip < label <= sensitivity.clipped_union_rows(1, max_degree, clip).value
    assert 1.5 * accounted < both <= bound


@pytest.mark.parametrize("clip", [1e-4, 0.3, 1.0, 10.0])
def test_rows_of_changed_samples_move_the_sum_by_their_bound_at_most(clip):
    """Tries to break `clipped_union_rows`: node 0 has other features, another label and out-list,
    and its place in the batch may go to another node. So the union grows or shrinks, which rescales
    all rows: clips at which all rows are cut, some, and hardly any."""
    network, nodes, max_degree, most = Sage(3, 6, 1, 2, batch_norm=False), 16, 3, 0.0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        others = [
            rng.choice(np.arange(1, nodes), max_degree, replace=False).tolist()
            for _ in range(nodes)
        ]
        x, labels = 1 + 0.3 * rng.normal(size=(nodes, 3)), rng.integers(0, 2, nodes)
        batch = rng.permutation(nodes)[:6]
        sums, worlds = [], []
        for world in range(2):
            sent = rng.choice(np.arange(1, nodes), max_degree, replace=False)
            lists = [
                [*own[: max_degree - 1], 0] if v in sent else own for v, own in enumerate(others)
            ]
            if world:
                x[0], labels[0] = 3 * rng.normal(size=3), 1 - labels[0]
                if rng.random() < 0.5:
                    batch = np.where(
                        batch == 0, next(v for v in range(16) if v not in batch), batch
                    )
            sums.append(row_sum(network, x, lists, labels, batch, clip))
            worlds.append([(v, *lists[v]) for v in batch])
        changed = sum(a != b or 0 in a for a, b in zip(*worlds, strict=True))
        moved = float((sums[1] - sums[0]).norm())
        bound = sensitivity.clipped_union_rows(changed, max_degree, clip)
        assert moved <= bound.value * (1 + 1e-9) + 1e-12
        most = max(
            most, moved / sensitivity.clipped_group_gradient_sum(max(changed, 1), clip).value
        )
    assert (most > 1.9) == (clip < 10)  # as many samples, clipped themselves, move by 1 at most


@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize(("large", "small"), [(1e7, 0.2), (1e9, 20.0), (1e12, 2e4)])
def test_a_sample_whose_terms_cancel_enters_with_its_clip_at_most(large, small, layout):
    """Three in-neighbours, of which the first and the last take each other back in a column that
    the network does not read: the terms of the weights' gradient are large, and their sum is not.
    Measured by one sum and added by another it would exceed its clip a thousandfold."""
    network, clip = Sage(6, 16, 1, 3, False), 1.0
    values = model.initial(network, np.random.default_rng(0)).float()
    model.parameters(network, values)["base0.weight"][0] = 0
    x = np.zeros((4, 6), np.float32)
    x[:, 1], x[1:, 0] = 1, [large, small, -large]
    edges = InEdges(np.array([0, 3, 3, 3, 3]), np.array([1, 2, 3]))
    samples = model.SubGraphs(
        network, sparse.csr_matrix(x) if layout == "sparse" else x, edges, torch.empty(0)
    )
    labels = torch.zeros(4, dtype=torch.int64)
    found = samples.clipped_sum(values, np.array([0]), labels, clip, 1000)
    assert 0 < float(found.norm()) < clip * (1 + 1e-6)


@pytest.mark.parametrize("whose", LOSSES)
def test_a_node_enters_the_samples_of_its_out_neighbours_and_its_own_only(whose):
    """What N_g = D + 1 counts: change one node's features and see whose gradient moves."""
    network = private_network(whose)
    indptr, indices = graph(edges=90, symmetrise=False, seed=8)
    edges = in_edges(indptr, indices)
    values = model.initial(network, np.random.default_rng(4)).float()
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


@pytest.mark.parametrize("whose", LOSSES)
@pytest.mark.parametrize("node", [0, 11])
@pytest.mark.parametrize("size", [1e12, 1e20, 1e30, 3e38])
def test_a_node_whose_numbers_overflow_moves_no_more_samples(whose, node, size):
    """Features, and weights far from those of a start, that overflow float32 in one node's rows:
    its own sample and those of its out-neighbours may move by 2 C each, and no other does, also
    where they are padded."""
    network, clip, moved = private_network(whose), 1e-2, []
    indptr, indices = graph(edges=90, symmetrise=False, seed=8)
    edges = in_edges(indptr, indices)
    for seed, scale in itertools.product(range(3), (1, 1e4)):
        rng = np.random.default_rng(seed)
        values = scale * model.initial(network, rng).float()
        x = features("dense")
        other = x.copy()
        other[node] = size * np.sign(rng.normal(size=FEATURES))
        first, second = (
            model.SubGraphs(network, given, edges, torch.empty(0)).clipped_sum(
                values, np.arange(NODES), torch.from_numpy(LABELS), clip, 1000
            )
            for given in (x, other)
        )
        moved.append(float((first - second).norm()))
    group = 1 + indptr[node + 1] - indptr[node]
    assert max(moved) <= 2 * group * clip  # NaN is more
    assert not np.isnan(moved).any() and max(moved) > 0


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
    edges = in_edges(*graph())
    training = model.FixedSizeDP(8, steps, 1.0, noise_std)
    return model.train_private(
        changes.get("network", private_network()), changes.get("x", features("sparse")), LABELS,
        edges, member(noise=1.0, rate=0.05), training, device="cpu",
    )  # fmt: skip


def test_private_training_learns_and_counts_its_rounds():
    fitted = train_private(steps=150)
    assert fitted.rounds == 150
    norms = np.linalg.norm(fitted.embedding, axis=1)
    np.testing.assert_allclose(norms, 1, atol=1e-5)
    edges = in_edges(*graph())
    sums = aggregation.sum_in_edges(edges, fitted.embedding)
    logits = model.logits_of(
        private_network(), fitted.parameters, fitted.embedding, sums.astype(np.float32)
    )
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
    network = private_network()
    start = model.initial(network, model.generator(*member().stream, "init")).float()
    start = model.parameters(network, start)
    steps = [
        np.concatenate([(f.parameters[n] - start[n].numpy()).ravel() for n in start])
        for f in (quiet, loud)
    ]
    flipped = np.mean(np.sign(steps[0]) != np.sign(steps[1]))
    assert 0.3 < flipped < 0.7


def test_what_private_training_refuses():
    with pytest.raises(GraphDPError, match="finite ε"):
        train_private(0.0)
    inputs = GraphInputs(features("sparse"), in_edges(*graph()))
    noisy = DPAdam(2, 8, 1 / 3, 4, 1.0)
    with pytest.raises(GraphDPError, match="message passing mixes samples"):
        train(private_network(), inputs, LABELS, [member(noise=1.0)], noisy)
    with pytest.raises(GraphDPError, match="one message-passing layer"):
        train_private(network=Sage(FEATURES, 16, 2, CLASSES, batch_norm=False))
    for x in (np.full((NODES, FEATURES), 2e12, np.float32), features("sparse") * np.float32(1e13)):
        with pytest.raises(GraphDPError, match=r"at most 1e\+12: rescale them"):
            train_private(x=x)


# --- the method: releases, rows ---


@pytest.fixture(scope="module")
def small():
    return csbm(400, 12, 8.0, 3.25, 0.5, 1)


def make_block(graph, level, settings, seeds=(0, 1), method="sage", **changes):
    epsilon = {"none": "inf", "edge": "4", "node": "8"}[level]
    block = Block(
        graph=graph, dataset="small", method=method, level=level, epsilon=epsilon,
        seeds=list(seeds), study_seed=7, split_rule="shared", study="study", **changes,
    )  # fmt: skip
    entries = calibrate_cell(
        "small", method, level, epsilon,
        distinct([plan_settings(level, setting) for setting in settings]),
        [block.split(0).train.size], graph.num_edges, "auto", num_nodes=graph.num_nodes,
    )  # fmt: skip
    return dataclasses.replace(block, calibrations=json.loads(json.dumps(entries)))


def edge_settings(**lists):
    return [
        Edge(epochs=3, **dict(zip(lists, values, strict=True))).model_dump(exclude_none=True)
        for values in itertools.product(*lists.values())
    ]


def test_the_perturbed_graph_is_drawn_once_for_all_depths(small, monkeypatch):
    settings = edge_settings(mp_layers=[1, 2, 3])
    block = make_block(small, "edge", settings)
    releases = distinct([release_settings("edge", setting) for setting in settings])
    assert releases == [{"perturbation": "asymmetric"}]
    perturbed = sage.perturb(block, releases)
    assert set(perturbed) == {(0, "asymmetric"), (1, "asymmetric")}
    # The same artefact again, from the names of its streams.
    again = sage.perturb(block, releases)
    for name, graph in perturbed.items():
        np.testing.assert_array_equal(graph[1], again[name][1])
    assert len(perturbed[0, "asymmetric"][1]) != len(perturbed[1, "asymmetric"][1])

    # Training and prediction see the perturbed graphs and no true edge.
    edgeless = dataclasses.replace(
        small, indptr=np.zeros_like(small.indptr), indices=small.indices[:0]
    )
    blind = dataclasses.replace(block, graph=edgeless)
    monkeypatch.setattr(sage.perturbation, "perturb", None)
    seen = sage.fit(block, settings, {}, None, perturbed)
    blindly = sage.fit(blind, settings, {}, None, perturbed)
    assert len(seen) == 6
    for (seed, setting, one), (same_seed, same_setting, other) in zip(seen, blindly, strict=True):
        assert (seed, setting) == (same_seed, same_setting)
        np.testing.assert_array_equal(one.predictions, other.predictions)


def test_the_shares_of_epsilon_reach_the_perturbation(small, monkeypatch):
    settings = edge_settings(
        perturbation=["asymmetric", "edge_rand", "lap_graph", "asymmetric_chunks"]
    )
    block = make_block(small, "edge", settings, seeds=(0,))
    given = {}

    def spy(indptr, indices, kind, epsilons, rng, max_edges, directed):
        assert not directed
        given[kind] = dict(epsilons)
        return indptr, indices

    monkeypatch.setattr(sage.perturbation, "perturb", spy)
    sage.perturb(block, [release_settings("edge", setting) for setting in settings])
    assert given == {
        "asymmetric": pytest.approx({"density": 0.4, "link": 3.6}),
        "edge_rand": {"link": 4.0},
        "lap_graph": pytest.approx({"density": 0.04, "link": 3.96}),
        "asymmetric_chunks": pytest.approx({"density": 0.4, "link": 3.6}),
    }


@pytest.mark.parametrize("part", ["density", "link"])
def test_answers_of_another_epsilon_than_planned_give_no_row(small, part, monkeypatch):
    """Whichever part of the release is drawn with it, and also where its file was made so."""
    (setting,) = edge_settings(perturbation=["asymmetric"])
    block = make_block(small, "edge", [setting], seeds=(0,))
    released = [release_settings("edge", setting)]

    def model():
        ((_, _, fitted),) = sage.fit(block, [setting], {}, None, sage.perturb(block, released))
        return fitted

    honest = model()
    rows.accounted(block, 0, setting, honest)
    assert rows.generator_of(honest.executed) == ""  # no noise that has a scale
    planned = sage.calibrated.pure_epsilons(block.calibrations[0])
    louder = planned | {part: 1.001 * planned[part]}
    monkeypatch.setattr(sage.calibrated, "pure_epsilons", lambda entry: louder)
    with pytest.raises(GraphDPError, match=f"{part}: the plan accounts ε of an answer"):
        rows.accounted(block, 0, setting, model())
    with pytest.raises(GraphDPError, match="noise is planned but none was run"):
        rows.accounted(block, 0, setting, dataclasses.replace(honest, executed={}))


def test_chunks_are_of_entries_whether_or_not_that_is_asked_for(small):
    settings = edge_settings(perturbation=["asymmetric_chunks"], directed=[None, True])
    assert settings[0] == settings[1] and "directed" not in settings[0]
    block = make_block(small, "edge", settings[:1], seeds=(0,))
    graphs = sage.perturb(block, [release_settings("edge", settings[0])])
    ((name, (indptr, indices, _)),) = graphs.items()
    assert name == (0, "asymmetric_chunks")
    shape = (small.num_nodes, small.num_nodes)
    matrix = sparse.csr_array((np.ones(len(indices)), indices, indptr), shape=shape)
    assert (matrix != matrix.T).nnz > 0


def test_a_directed_graph_is_perturbed_entry_by_entry(small):
    """Where `directed` says so; both kinds of release may stand beside each other."""
    settings = edge_settings(directed=[None, True])
    block = make_block(small, "edge", settings, seeds=(0,))
    released = [release_settings("edge", setting) for setting in settings]
    graphs = sage.perturb(block, released)
    kind = settings[0]["perturbation"]
    assert set(graphs) == {(0, kind), (0, f"{kind}-directed")}
    shape = (small.num_nodes, small.num_nodes)
    for (_, name), (indptr, indices, _) in graphs.items():
        matrix = sparse.csr_array((np.ones(len(indices)), indices, indptr), shape=shape)
        one_way = (matrix != matrix.T).nnz
        assert one_way > 0 if name.endswith("directed") else one_way == 0
    fitted = sage.fit(block, settings, {}, None, graphs)
    assert not np.array_equal(fitted[0][2].predictions, fitted[1][2].predictions)


def test_level_none_learns_from_the_graph_and_reads_nothing_else(small):
    settings = [Public(mp_layers=2, epochs=60).model_dump(exclude_none=True)]
    fitted = sage.fit(make_block(small, "none", settings, seeds=(0,)), settings, {}, None, {})
    assert fitted[0][2].test_accuracy > 0.8


def node_settings(kind=Node, **changes):
    return [
        kind(epochs=2, batch_size=64, max_degree=max_degree, **changes).model_dump(
            exclude_none=True
        )
        for max_degree in (3, 5)
    ]


def node_masks(graph, seeds=(0, 1)):
    return {
        f"{d}-both_degrees": {
            seed: degree.bound_degrees(graph.indptr, graph.indices, d, seed) for seed in seeds
        }
        for d in (3, 5)
    }


@pytest.mark.parametrize(("adjacency", "factor"), [("node_add_remove", 1), ("node_replace", 2)])
def test_node_level_runs_the_plan(adjacency, factor, small, tmp_path, monkeypatch):
    """Rounds, batch size, noise of the gradient sum, and one noisy sum per model, in the cache."""
    settings = node_settings(max_grad_norm=0.5, adjacency=adjacency)
    block = make_block(small, "node", settings)
    given = []
    original = model.train_private

    def spy(network, x, labels, edges, member, training, **options):
        given.append((training, np.diff(edges.indptr).max()))
        return original(network, x, labels, edges, member, training, **options)

    monkeypatch.setattr(model, "train_private", spy)
    cache = AggregateCache(tmp_path / "cache")
    models = sage.fit(block, settings, node_masks(small), cache, {})
    num_train = block.split(0).train.size
    for (training, in_degree), (_, setting, fitted) in zip(given, models, strict=True):
        plan = sage_plan("node", num_train=num_train, **plan_settings("node", setting))
        dpsgd, summed = plan.mechanisms
        noise = block.phase(plan_settings("node", setting), 0, "classifier").noise_multiplier
        assert training.steps == dpsgd.steps == fitted.rounds == 2 * num_train // 64
        assert training.batch_size == dpsgd.batch_size == 64
        group = setting["max_degree"] + 1
        assert training.noise_std == pytest.approx(noise * 2 * group * 0.5)
        assert in_degree <= setting["max_degree"]
        assert summed.count == 1
    found = sorted(made.noise_std for made in cache.ledger)
    noises = [
        block.entry(plan_settings("node", s), 0)["noise_multiplier"]
        * factor
        * s["max_degree"] ** 0.5
        for s in settings
    ]
    assert found == pytest.approx(sorted(2 * noises))
    assert len({made.stream for made in cache.ledger}) == 4
    # A second job finds the sums and draws none; its models are the same.
    again = AggregateCache(cache.folder)
    repeated = sage.fit(block, settings, node_masks(small), again, {})
    assert again.ledger == []
    for (*_, one), (*_, other) in zip(models, repeated, strict=True):
        np.testing.assert_array_equal(one.predictions, other.predictions)

    rows.write_rows(tmp_path / "rows.csv", models, block)
    written = pd.read_csv(tmp_path / "rows.csv")
    assert len(written) == 4 and (written["epsilon_status"] == "refuted").all()

    def shortened(m):
        one = dataclasses.replace(m.executed["classifier"], count=1)
        return dataclasses.replace(m, executed=m.executed | {"classifier": one})

    short = [(s, setting, shortened(m)) for s, setting, m in models]
    with pytest.raises(GraphDPError, match=r"classifier: .* noisy rounds .* but it was 1;"):
        rows.write_rows(tmp_path / "wrong.csv", short, block)


def test_clipping_rows_is_a_setting_of_its_own_and_its_epsilon_refuted(
    small, tmp_path, monkeypatch
):
    """The same noise and the same rounds, whose sums are those of rows; one analysis, of no ε that
    holds."""
    settings = node_settings(clipping="rows", adjacency="node_replace")
    plain = node_settings(clipping="samples", adjacency="node_replace")
    assert "clipping" not in plain[0] and settings[0] == plain[0] | {"clipping": "rows"}
    block = make_block(small, "node", settings, seeds=(0,))
    of_samples = make_block(small, "node", plain, seeds=(0,))
    called, original = [], model.SubGraphs.clipped_row_sum

    def spy(self, *given):
        called.append(given[-1])
        return original(self, *given)

    monkeypatch.setattr(model.SubGraphs, "clipped_row_sum", spy)
    masks, cache = node_masks(small, (0,)), AggregateCache(tmp_path / "cache")
    models = sage.fit(block, settings, masks, cache, {})
    assert len(called) == sum(one.rounds for *_, one in models) > 0
    for setting, other in zip(settings, plain, strict=True):
        runs = [
            one.phase(plan_settings("node", own), 0, "classifier").run
            for one, own in ((block, setting), (of_samples, other))
        ]
        assert runs[0] == runs[1]
    rows.write_rows(tmp_path / "rows.csv", models, block)
    written = pd.read_csv(tmp_path / "rows.csv")
    readings = [json.loads(one) for one in written["epsilons"]]
    assert {(r["basis"], r["status"], r["epsilon"]) for own in readings for r in own} == {
        ("as_published", "refuted", "none"),
        ("as_implemented", "refuted", "none"),
    }


def test_exact_inference_is_the_sum_without_noise_and_all_noise_is_trainings(small, tmp_path):
    settings = node_settings(inference="exact")
    noisy = node_settings()
    assert "inference" not in noisy[0] and settings[0] == noisy[0] | {"inference": "exact"}
    block = make_block(small, "node", settings, seeds=(0,))
    masks, cache = node_masks(small, (0,)), AggregateCache(tmp_path / "cache")
    models = sage.fit(block, settings, masks, cache, {})
    assert all(one.noise_std == 0 for one in cache.ledger)
    shape = Sage(small.num_features, 16, 1, small.num_classes, batch_norm=False)
    for _, setting, fitted in models:
        assert set(fitted.executed) == {"classifier"}
        keep = masks[f"{setting['max_degree']}-both_degrees"][0]
        edges = in_edges(*degree.apply_mask(small.indptr, small.indices, keep))
        sums = np.zeros_like(fitted.embedding)
        for v in range(small.num_nodes):
            sums[v] = fitted.embedding[edges.indices[edges.indptr[v] : edges.indptr[v + 1]]].sum(0)
        logits = model.logits_of(shape, fitted.parameters, fitted.embedding, sums)
        assert (logits.argmax(1) == fitted.predictions).mean() > 0.999  # ties by rounding
    rows.write_rows(tmp_path / "rows.csv", models, block)  # what was run is what was planned
    written = pd.read_csv(tmp_path / "rows.csv")
    assert len(written) == 2 and (written["epsilon_status"] == "refuted").all()


def progaps_models(small, cache, seeds=(0, 1), method="progapsage"):
    """ProGAP's DP-GNN with its block, its degree masks and its settings."""
    settings = node_settings(ProgapsNode, max_grad_norm=0.5)
    assert "degree_bound" not in settings[0] and "inference" not in settings[0]
    block = make_block(small, "node", settings, seeds, method)
    masks = {
        f"{d}": {s: degree.bound_out_degree(small.indptr, small.indices, d, s) for s in seeds}
        for d in (3, 5)
    }
    return block, masks, sage.fit(block, settings, masks, cache, {})


@pytest.mark.parametrize("method", ["progapsage", "progapsageofficial"])
def test_progaps_dp_gnn_runs_the_plan(method, small, tmp_path, monkeypatch):
    """Rounds, batch size and noise of the gradient sum; no release for inference; out-lists of at
    most D, in-lists of more."""
    given, original = [], model.train_private

    def spy(network, x, labels, edges, member, training, **options):
        given.append((network, training, np.diff(edges.indptr).max()))
        return original(network, x, labels, edges, member, training, **options)

    monkeypatch.setattr(model, "train_private", spy)
    cache = AggregateCache(tmp_path / "cache")
    block, masks, models = progaps_models(small, cache, method=method)
    num_train = block.split(0).train.size
    for (network, training, in_degree), (_, setting, fitted) in zip(given, models, strict=True):
        plan = analyses(method, "node", plan_settings("node", setting), num_train)[0]
        (dpsgd,) = plan.mechanisms
        noise = block.phase(plan_settings("node", setting), 0, "classifier").noise_multiplier
        assert network == JumpingSage(small.num_features, 16, 1, small.num_classes, False)
        assert training.steps == dpsgd.steps == fitted.rounds == 2 * num_train // 64
        assert training.rows is (method == "progapsageofficial")
        assert training.batch_size == dpsgd.batch_size == 64
        group = setting["max_degree"] + 1
        assert dpsgd.group == group
        assert training.noise_std == pytest.approx(noise * 2 * group * 0.5)
        assert in_degree > setting["max_degree"]
        assert set(fitted.executed) == {"classifier"}
    assert cache.ledger == []
    rows.write_rows(tmp_path / "rows.csv", models, block)  # what was run is what was planned
    written = pd.read_csv(tmp_path / "rows.csv")
    assert len(written) == 4 and (written["epsilon_status"] == "refuted").all()
    longer = {
        bound: {s: np.ones_like(keep) for s, keep in of.items()} for bound, of in masks.items()
    }
    with pytest.raises(GraphDPError, match="out-edges where the plan accounts 3"):
        sage.fit(block, [models[0][1]], longer, cache, {})


def test_what_progaps_dp_gnn_predicts_tells_of_neighbours_without_noise(small, tmp_path):
    """The sums are exact, of rows of any norm, and the same weights predict otherwise for a node
    when a neighbour's features change, by as much in every call."""
    block, masks, models = progaps_models(small, AggregateCache(tmp_path), (0,))
    seed, setting, fitted = models[0]
    network = JumpingSage(small.num_features, 16, 1, small.num_classes, False)
    edges = in_edges(*degree.apply_mask(small.indptr, small.indices, masks["3"][seed]))
    target = int(np.diff(edges.indptr).argmax())
    neighbour = int(edges.indices[edges.indptr[target]])

    def logits(x):
        flat = [fitted.parameters[name].ravel() for name in Layout(network).shapes]
        values = torch.from_numpy(np.concatenate(flat))
        h = model.SubGraphs(network, x, edges, torch.empty(0)).embedding(values).numpy()
        assert np.abs(np.linalg.norm(h, axis=1) - 1).max() > 0.1
        own = dataclasses.replace(block, graph=dataclasses.replace(small, x=x))
        ((sums, drawn),) = sage._sums(
            own, [(seed, setting)], masks, None, {(seed, key(setting)): h}
        )
        exact = np.zeros_like(h)
        for v in range(small.num_nodes):
            exact[v] = h[edges.indices[edges.indptr[v] : edges.indptr[v + 1]]].sum(0)
        np.testing.assert_allclose(sums, exact, rtol=1e-5, atol=1e-5)
        assert drawn is None
        return model.logits_of(network, fitted.parameters, h, sums)

    before, other = logits(small.x), small.x.copy()
    assert (before.argmax(1) == fitted.predictions).mean() > 0.999  # ties by rounding
    other[neighbour] += 3
    moved = np.abs(logits(other) - before).max(1)
    assert moved[target] > 1e-3
    np.testing.assert_array_equal(logits(other), logits(other))
    sent = small.indices[small.indptr[neighbour] : small.indptr[neighbour + 1]]
    assert set(np.flatnonzero(moved).tolist()) <= {neighbour, *sent.tolist()}


def test_progaps_edgerand_reads_one_perturbed_graph_in_its_own_network(small, monkeypatch):
    settings = [ProgapsEdge(epochs=3, mp_layers=k).model_dump(exclude_none=True) for k in (1, 2)]
    block = make_block(small, "edge", settings, (0,), "progapsage")
    perturbed = sage.perturb(block, [release_settings("edge", settings[0])])
    blind = dataclasses.replace(
        small, indptr=np.zeros_like(small.indptr), indices=small.indices[:0]
    )
    seen = sage.fit(block, settings, {}, None, perturbed)
    blindly = sage.fit(dataclasses.replace(block, graph=blind), settings, {}, None, perturbed)
    for (*_, setting, one), (*_, other) in zip(seen, blindly, strict=True):
        np.testing.assert_array_equal(one.predictions, other.predictions)
        assert one.parameters["jump.weight"].shape == (16, 16 * setting["mp_layers"])


def test_progaps_graphsage_learns_from_the_graph(small):
    settings = [ProgapsPublic(mp_layers=2, epochs=60).model_dump(exclude_none=True)]
    block = make_block(small, "none", settings, (0,), "progapsage")
    assert sage.fit(block, settings, {}, None, {})[0][2].test_accuracy > 0.8


def test_node_level_keeps_the_last_epoch_whatever_the_study_says():
    assert card("sage").checkpoint("node", "best_validation") == "last"
    assert card("progapsage").checkpoint("node", "best_validation") == "last"
    assert card("sage").checkpoint("edge", "best_validation") == "best_validation"
    assert card("gap").checkpoint("node", "best_validation") == "best_validation"
    assert card("gap").checkpoint("node", "last") == "last"


def test_perturbations_at_another_epsilon_share_no_coins(small, monkeypatch):
    """Also at one target ε, where the noise is set for another analysis (`calibrate_for`)."""
    (setting,) = edge_settings(perturbation=["edge_rand"])
    block, names = make_block(small, "edge", [setting], seeds=(0,)), []
    monkeypatch.setattr(sage, "Coins", lambda *name: names.append(name))
    monkeypatch.setattr(sage.perturbation, "perturb", lambda *a, **k: (None, None))
    for factor in (1, 2):
        (entry,) = block.calibrations
        more = entry | {"noise_multiplier": factor * entry["noise_multiplier"]}
        sage.perturb(
            dataclasses.replace(block, calibrations=[more]), [release_settings("edge", setting)]
        )
    assert len(names) == 2 and names[0] != names[1]
