"""ProGAP trained as a block, against a plain loop over the same layers.

    python workflow/benchmarks/progap.py --mirror DIR [--dataset berkeley13] [--seeds 10]
                                         [--part edge|node|all] [--device cpu|cuda]

Plain loop: one model at a time, `torch.nn` modules on dense features, Opacus as in its
documentation, validation after every epoch. The block is `graphdp.methods.progap.method.fit`. Both
arms fit the same models with the same noise multiplier on the same split:

  edge  K = 3, ε = 1: 4 stages of 100 epochs of full batches, a noisy aggregation between any two
  node  K = 4, ε = 8: out-degrees bounded by 100; 5 stages of DP-Adam, 10 epochs of batches of 256

The ε are as published (edge_directed; node_add_remove, refuted), at the published choice of δ.
Each arm is a process of its own; its CPU seconds (user + system, the start of the process with its
imports included) are those that the operating system counted.
"""

import argparse
import copy
import json
import math
import tempfile
import time
from pathlib import Path

import arms
import numpy as np

MAX_DEGREE = 100
SETTINGS = {
    "edge": {"depth": 3, "base_layers": 1},
    "node": {"depth": 4, "base_layers": 2, "max_degree": MAX_DEGREE},
}
EPSILON = {"edge": "1", "node": "8"}
STUDY_SEED = 1


def main() -> None:
    titles = {"edge": "ProGAP, edge level", "node": "ProGAP, node level"}
    arms.run(__file__, __doc__.splitlines()[0], titles, prepare, run_arm)


def prepare(args: argparse.Namespace, work: Path) -> None:
    """The graph and the calibrations, as earlier jobs of a workflow would leave them."""
    from graphdp.data.split import split_of
    from graphdp.methods.progap import plan_settings
    from graphdp.workflow.calibrations import calibrate_cell

    graph = arms.prepare_graph(args.dataset, args.mirror, work)
    num_train = split_of(graph, STUDY_SEED, "shared", 0).train.size
    made = {}
    for level in SETTINGS:
        plan = [plan_settings(level, setting(level))]
        made[level] = calibrate_cell(
            args.dataset, "progap", level, EPSILON[level], plan, [num_train], graph.num_edges,
            "auto",
        )  # fmt: skip
    (work / "calibrations.json").write_text(json.dumps(made))
    print(
        f"{args.dataset}: {graph.num_nodes} nodes, {num_train} of them train, "
        f"{graph.num_features} features; noise multipliers "
        f"{made['edge'][0]['noise_multiplier']:.3f} (edge), "
        f"{made['node'][0]['noise_multiplier']:.3f} (node)"
    )


def setting(level: str) -> dict:
    """The hyperparameters, defaults included."""
    from graphdp.methods.registry import card

    return card("progap").settings(level)(**SETTINGS[level]).model_dump()


def run_arm(args: argparse.Namespace) -> None:
    """In a process of its own: fit all models one way, print the result as JSON."""
    from graphdp.data.graph import Graph
    from graphdp.graphs.degree import bound_out_degree
    from graphdp.methods.block import Block

    seeds = list(range(args.seeds))
    block = Block(
        graph=Graph.load(args.work / "graph.npz"),
        dataset="benchmark",
        method="progap",
        level=args.part,
        epsilon=EPSILON[args.part],
        seeds=seeds,
        study_seed=STUDY_SEED,
        split_rule="shared",
        device=args.device,
        calibrations=json.loads((args.work / "calibrations.json").read_text())[args.part],
    )
    fit = {"ensemble": ensemble, "plain": plain}[args.arm](block)
    start = time.process_time()
    masks = {}
    if args.part == "node":
        graph = block.graph
        kept = {s: bound_out_degree(graph.indptr, graph.indices, MAX_DEGREE, s) for s in seeds}
        masks = {f"{MAX_DEGREE}": kept}
    print(json.dumps({"accuracies": fit(masks), "start": start}))


# The block


def ensemble(block):
    """The project's own way: every stage as one block, its releases in a cache on disk."""
    import torch

    import graphdp.training  # noqa: F401  (its import belongs to the start)
    from graphdp.methods.progap import method as progap
    from graphdp.releases.cache import AggregateCache

    torch.set_num_threads(1)

    def fit(masks):
        with tempfile.TemporaryDirectory() as folder:
            cache = AggregateCache(folder)
            models = progap.fit(block, [setting(block.level)], masks, cache)
        return [model.test_accuracy for _, _, model in models]

    return fit


# The plain loop


def plain(block):
    """One model after the other, with torch, Opacus and scipy as their documentations show."""
    import scipy.sparse as sp
    import torch
    from torch import nn
    from torch.nn import functional as F

    from graphdp.graphs.degree import apply_mask
    from graphdp.methods.progap import plan_settings

    private, graph, device = block.level == "node", block.graph, block.device
    own = setting(block.level)
    hidden, rate, epochs = own["hidden"], own["learning_rate"], own["epochs"]
    noise = block.entry(plan_settings(block.level, own), 0)["noise_multiplier"]
    if private:
        from opacus import PrivacyEngine
        from torch.utils.data import DataLoader, TensorDataset
    torch.set_num_threads(1)

    def base(inputs):
        layers = []
        for _ in range(own["base_layers"]):
            norm = nn.GroupNorm(1, hidden) if private else nn.BatchNorm1d(hidden)
            layers += [nn.Linear(inputs, hidden), nn.SELU(), norm]
            inputs = hidden
        return nn.Sequential(*layers)

    class Stage(nn.Module):
        def __init__(self, bases):
            super().__init__()
            self.bases = nn.ModuleList(bases)
            self.head = nn.Linear(hidden * len(bases), graph.num_classes)

        def forward(self, *aggregates):
            x = [base(part) for base, part in zip(self.bases, aggregates, strict=True)]
            return self.head(F.normalize(torch.cat(x, 1)))

    def accuracy(model, inputs, y):
        model.eval()
        with torch.no_grad():
            return (model(*inputs).argmax(1) == y).float().mean().item()

    def fit_stage(model, inputs, y, nodes):
        """Train; returns the model with the parameters of its best epoch."""
        model = model.to(device)
        train = [part[nodes.train] for part in inputs], y[nodes.train]
        val = [part[nodes.val] for part in inputs], y[nodes.val]
        optimizer = torch.optim.Adam(model.parameters(), lr=rate)
        trained, batches = model, [(*train[0], train[1])]
        if private:
            loader = DataLoader(TensorDataset(*train[0], train[1]), batch_size=own["batch_size"])
            trained, optimizer, batches = PrivacyEngine().make_private(
                module=model,
                optimizer=optimizer,
                data_loader=loader,
                noise_multiplier=noise,
                max_grad_norm=own["max_grad_norm"],
            )
        best = -1.0
        for _ in range(epochs):
            trained.train()
            for *parts, labels in batches:
                optimizer.zero_grad()
                F.cross_entropy(trained(*parts), labels).backward()
                optimizer.step()
            found = accuracy(trained, *val)
            if found > best:
                best = found
                state = {name: value.clone() for name, value in trained.state_dict().items()}
        trained.load_state_dict(state)
        if private:
            trained.remove_hooks()
        return model

    def fit(masks):
        dense = graph.x.toarray() if sp.issparse(graph.x) else graph.x
        features = torch.from_numpy(dense).to(device)
        y = torch.from_numpy(np.array(graph.y)).to(device)
        accuracies = []
        for seed in block.seeds:
            torch.manual_seed(seed)
            nodes = block.split(seed)
            indptr, indices, std = graph.indptr, graph.indices, noise
            if private:
                indptr, indices = apply_mask(indptr, indices, masks[f"{MAX_DEGREE}"][seed])
                std = noise * math.sqrt(MAX_DEGREE)
            ones = np.ones(len(indices), np.float32)
            in_edges = sp.csr_matrix((ones, indices, indptr), (graph.num_nodes,) * 2).T.tocsr()
            inputs, bases = [features], []
            for stage in range(own["depth"] + 1):
                if stage > 0:
                    with torch.no_grad():
                        x = F.normalize(bases[-1].eval()(inputs[-1])).cpu().numpy()
                    sums = torch.from_numpy(in_edges @ x).to(device)
                    inputs.append(sums + std * torch.randn_like(sums))
                bases.append(base(graph.num_features if stage == 0 else hidden))
                model = fit_stage(Stage(copy.deepcopy(bases)), inputs, y, nodes)
                bases = list(model.bases)
            accuracies.append(accuracy(model, [p[nodes.test] for p in inputs], y[nodes.test]))
        return accuracies

    return fit


if __name__ == "__main__":
    main()
