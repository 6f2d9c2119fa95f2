"""GAP trained as a block, against a plain loop on the same work.

    python workflow/benchmarks/ensemble.py --mirror DIR [--dataset berkeley13] [--seeds 10]
                                           [--part edp|ndp|all] [--device cpu|cuda]

Plain loop: one model at a time, PyG's `MLP` and `Linear` on dense features, Opacus as in its
documentation (`PrivacyEngine.make_private` on a `DataLoader`), validation after every epoch.
Both arms fit the same models with the same noise multiplier on the same split:

  edp   encoder, 100 epochs of full batches; K = 2 noisy aggregations; classifier, 100 epochs
  ndp   encoder, DP-Adam, 10 epochs of batches of 256; out-degrees bounded by 100; K = 2 noisy
        aggregations; classifier, DP-Adam, 10 epochs

Each arm is a process of its own; its CPU seconds (user + system, the start of the process with its
imports included) are those that the operating system counted. Prints them per model, the ratio,
and both mean test accuracies, which show that the work is the same.
"""

import argparse
import json
import math
import time
from pathlib import Path

import arms
import numpy as np

HOPS, MAX_DEGREE, HIDDEN, RATE = 2, 100, 16, 0.01
EPOCHS = {"edp": 100, "ndp": 10}
BATCH_SIZE, CLIP = 256, 1.0
EPSILON = {"edp": 4.0, "ndp": 8.0}  # as in GAP's Table 2


def main() -> None:
    titles = {"edp": "GAP-EDP", "ndp": "GAP-NDP"}
    arms.run(__file__, __doc__.splitlines()[0], titles, prepare, run_arm)


def prepare(args: argparse.Namespace, work: Path) -> None:
    """The graph and the noise multipliers, as earlier jobs of a workflow would leave them."""
    from graphdp.data.split import split_of
    from graphdp.methods.gap.plan import gap_plan
    from graphdp.privacy.calibration import calibrate

    graph = arms.prepare_graph(args.dataset, args.mirror, work)
    num_train = split_of(graph, 1, "shared", 0).train.size
    dpsgd = dict(
        num_train=num_train,
        batch_size=BATCH_SIZE,
        epochs=EPOCHS["ndp"],
        max_grad_norm=CLIP,
        max_degree=MAX_DEGREE,
    )
    plans = {
        "edp": (gap_plan("edge", HOPS), graph.num_edges),
        "ndp": (gap_plan("node", HOPS, **dpsgd), num_train),
    }
    noise = {}
    for part, (plan, units) in plans.items():
        delta = 10.0 ** -len(str(units))
        noise[part] = calibrate(plan, EPSILON[part], delta).noise_multiplier
    (work / "noise.json").write_text(json.dumps(noise))
    print(
        f"{args.dataset}: {graph.num_nodes} nodes, {num_train} of them train, "
        f"{graph.num_features} features; noise multipliers "
        f"{noise['edp']:.3f} (edge), {noise['ndp']:.3f} (node)"
    )


def run_arm(args: argparse.Namespace) -> None:
    """In a process of its own: fit all models one way, print the result as JSON."""
    from graphdp.data.graph import Graph
    from graphdp.data.split import split_of

    graph = Graph.load(args.work / "graph.npz")
    nodes = split_of(graph, 1, "shared", 0)
    noise = json.loads((args.work / "noise.json").read_text())[args.part]
    fit, start = ARMS[args.arm](args.part, args.device)
    accuracies = fit(graph, nodes, noise, args.seeds)
    print(json.dumps({"accuracies": accuracies, "start": start}))


# The block


def ensemble(part: str, device: str):
    """The project's own way: both training stages as one block, aggregates of all seeds at once."""
    from graphdp.data.graph import in_edges
    from graphdp.graphs.degree import apply_mask, bound_out_degree
    from graphdp.privacy.plan import dpsgd_rounds
    from graphdp.releases import aggregation
    from graphdp.training import DPAdam, Encoder, FullBatch, HopClassifier, Member, train

    private = part == "ndp"

    def fit(graph, nodes, noise, seeds):
        training = FullBatch(EPOCHS[part])
        if private:
            rate, steps = dpsgd_rounds(nodes.train.size, BATCH_SIZE, EPOCHS[part])
            training = DPAdam(EPOCHS[part], BATCH_SIZE, rate, steps, CLIP)

        def members(purpose):
            multiplier = noise if private else 0.0
            split = nodes.train, nodes.val, nodes.test
            return [Member((1, s, purpose), RATE, multiplier, *split) for s in range(seeds)]

        def block(network, features, purpose):
            return train(network, features, graph.y, members(purpose), training, device=device)

        encoder = Encoder(graph.num_features, HIDDEN, 2, graph.num_classes, not private)
        embeddings = [one.embedding for one in block(encoder, graph.x, "encoder")]
        releases = [
            aggregation.Release(
                x0=x0,
                hops=HOPS,
                noise_std=noise * (math.sqrt(MAX_DEGREE) if private else 1),
                private=True,
                stream=("benchmark", part, s),
            )
            for s, x0 in enumerate(embeddings)
        ]
        if private:
            hops = []
            for s, release in enumerate(releases):
                keep = bound_out_degree(graph.indptr, graph.indices, MAX_DEGREE, s)
                edges = in_edges(*apply_mask(graph.indptr, graph.indices, keep))
                hops += aggregation.private_hops(edges, [release])
        else:
            edges = in_edges(graph.indptr, graph.indices)
            hops = aggregation.private_hops(edges, releases)
        inputs = [[x0, *xs] for x0, xs in zip(embeddings, hops, strict=True)]
        classifier = HopClassifier(HOPS, HIDDEN, HIDDEN, graph.num_classes, not private)
        return [one.test_accuracy for one in block(classifier, inputs, "classifier")]

    return fit, time.process_time()


# The plain loop


def plain(part: str, device: str):
    """One model after the other, with PyG, Opacus and scipy as their documentations show."""
    import scipy.sparse as sp
    import torch
    from torch import nn
    from torch.nn import functional as F
    from torch_geometric.nn import MLP, Linear

    from graphdp.graphs.degree import apply_mask, bound_out_degree

    private = part == "ndp"
    if private:
        from opacus import PrivacyEngine
        from torch.utils.data import DataLoader, TensorDataset

    class Head(nn.Module):
        def __init__(self, width, classes):
            super().__init__()
            self.norm = nn.Identity() if private else nn.BatchNorm1d(width)
            self.linear = Linear(width, classes)

        def forward(self, x):
            return self.linear(F.selu(self.norm(F.normalize(x))))

    class GapEncoder(nn.Module):
        def __init__(self, features, classes):
            super().__init__()
            norm = None if private else "batch_norm"
            self.mlp = MLP([features, HIDDEN, HIDDEN], norm=norm, act="selu")
            self.head = Head(HIDDEN, classes)

        def forward(self, x):
            return self.head(self.mlp(x))

    class GapClassifier(nn.Module):
        def __init__(self, classes):
            super().__init__()
            self.bases = nn.ModuleList(Linear(HIDDEN, HIDDEN) for _ in range(HOPS + 1))
            self.head = Head(HIDDEN * (HOPS + 1), classes)

        def forward(self, x):
            return self.head(torch.cat([base(x[:, k]) for k, base in enumerate(self.bases)], 1))

    def accuracy(model, x, y):
        model.eval()
        with torch.no_grad():
            return (model(x).argmax(1) == y).float().mean().item()

    def fit_model(model, x, y, nodes, noise):
        """Train; returns the model with the parameters of its best epoch."""
        model = model.to(device)
        train_x, train_y = x[nodes.train], y[nodes.train]
        val_x, val_y = x[nodes.val], y[nodes.val]
        optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
        trained, batches = model, [(train_x, train_y)]
        if private:
            loader = DataLoader(TensorDataset(train_x, train_y), batch_size=BATCH_SIZE)
            trained, optimizer, batches = PrivacyEngine().make_private(
                module=model,
                optimizer=optimizer,
                data_loader=loader,
                noise_multiplier=noise,
                max_grad_norm=CLIP,
            )
        best = -1.0
        for _ in range(EPOCHS[part]):
            trained.train()
            for batch_x, batch_y in batches:
                optimizer.zero_grad()
                F.cross_entropy(trained(batch_x), batch_y).backward()
                optimizer.step()
            found = accuracy(trained, val_x, val_y)
            if found > best:
                best = found
                state = {name: value.clone() for name, value in trained.state_dict().items()}
        trained.load_state_dict(state)
        return model

    def fit(graph, nodes, noise, seeds):
        torch.set_num_threads(1)
        dense = graph.x.toarray() if sp.issparse(graph.x) else graph.x
        features = torch.from_numpy(dense).to(device)
        y = torch.from_numpy(np.array(graph.y)).to(device)
        accuracies = []
        for seed in range(seeds):
            torch.manual_seed(seed)
            encoder = GapEncoder(graph.num_features, graph.num_classes)
            encoder = fit_model(encoder, features, y, nodes, noise).eval()
            with torch.no_grad():
                x = F.normalize(encoder.mlp(features)).cpu().numpy()
            indptr, indices, std = graph.indptr, graph.indices, noise
            if private:
                keep = bound_out_degree(indptr, indices, MAX_DEGREE, seed)
                indptr, indices = apply_mask(indptr, indices, keep)
                std = noise * math.sqrt(MAX_DEGREE)
            ones = np.ones(len(indices), np.float32)
            adjacency = sp.csr_matrix((ones, indices, indptr), (graph.num_nodes,) * 2)
            hops = [x]
            for _ in range(HOPS):
                sums = torch.from_numpy(adjacency.T @ hops[-1])
                hops.append(F.normalize(sums + std * torch.randn_like(sums)).numpy())
            inputs = torch.from_numpy(np.stack(hops, 1)).to(device)
            model = fit_model(GapClassifier(graph.num_classes), inputs, y, nodes, noise)
            accuracies.append(accuracy(model, inputs[nodes.test], y[nodes.test]))
        return accuracies

    return fit, time.process_time()


ARMS = {"ensemble": ensemble, "plain": plain}


if __name__ == "__main__":
    main()
