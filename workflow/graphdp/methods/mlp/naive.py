"""Naive DP-SGD, the graph-free baseline of PNPiGNNs (Xiang et al., S&P 2024, section 5.1).

An MLP of ReLU layers on the features as they are. Two ids:

  naive          DP-Adam as it has to be: Poisson samples, every gradient clipped to C, noise of
                 standard deviation σC on their sum, which is divided by the expected batch
  naiveofficial  as the authors' code runs it: every gradient is divided by its norm (so short ones
                 grow to C), an epoch is a shuffled partition into batches of B, accounted as
                 Poisson samples, and noise of σC/B goes on a batch's mean, whatever its size

**Gradients.** With a layer's inputs a and δ = ∂loss/∂(its outputs), the gradient of one node's loss
is a δᵀ for the weights and δ for the bias, of squared norm (‖a‖² + 1)‖δ‖²: no gradient of a single
node is formed.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.nn import functional as F

from graphdp.methods.block import Block
from graphdp.methods.mlp import NORMALISED, plan_settings
from graphdp.methods.settings import key

#: Nodes that are predicted at a time.
_AT_ONCE = 8192


def fit(block: Block, settings: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any], Any]]:
    """Train every seed of the block x setting; returns (seed, setting, fitted model) triples."""
    return [(seed, setting, _train(block, seed, setting)) for seed, setting in block.runs(settings)]


class Network:
    """`layers` linear layers with ReLU in between; values (P,) are its parameters."""

    def __init__(self, widths: list[int], x: np.ndarray | sparse.csr_matrix, values: Tensor):
        from graphdp.training.descent import views

        self.layers, self.x, self.values = len(widths) - 1, x, values
        self.shapes: dict[str, tuple[int, ...]] = {}
        for i, shape in enumerate(itertools.pairwise(widths)):
            self.shapes |= {f"W{i}": shape, f"b{i}": shape[1:]}
        self.p = views(values, self.shapes) if values.numel() else {}

    def initial(self, rng: np.random.Generator) -> np.ndarray:
        """The parameters of a fresh model, as torch.nn.Linear draws them: float64 (P,)."""
        fans = [self.shapes[f"W{i}"][0] for i in range(self.layers) for _ in range(2)]
        parts = zip(self.shapes.values(), fans, strict=True)
        drawn = [rng.uniform(-1, 1, math.prod(s)) / math.sqrt(fan) for s, fan in parts]
        return np.concatenate(drawn)

    def forward(self, nodes: np.ndarray, training: bool = False) -> tuple[list, list]:
        """Inputs and outputs of every layer; the last output is the scores (B, C)."""
        rows = self.x[nodes]
        a = torch.tensor(rows.toarray() if sparse.issparse(rows) else rows).to(self.values)
        inputs, outputs = [], []
        for i in range(self.layers):
            inputs.append(a)
            z = a @ self.p[f"W{i}"] + self.p[f"b{i}"]
            if training and not i:
                z.requires_grad_()
            outputs.append(z)
            a = F.relu(z)
        return inputs, outputs

    def add_gradients(
        self, nodes: Tensor, labels: Tensor, into: Tensor, clip: float | None, scaled: bool
    ) -> None:
        """Add to `into` (P,) the sum of the nodes' gradients of their cross-entropies, each clipped
        to norm `clip`, or with `scaled` brought to it, up or down. labels: int64 (n,)."""
        from graphdp.training.descent import clipping_factors, views
        from graphdp.training.sums import add_outer, add_sum

        inputs, outputs = self.forward(nodes.cpu().numpy(), training=True)
        loss = F.cross_entropy(outputs[-1], labels[nodes], reduction="sum")
        deltas = torch.autograd.grad(loss, outputs)
        if clip is not None:
            pairs = zip(inputs, deltas, strict=True)
            norms = sum((a.square().sum(1) + 1) * d.square().sum(1) for a, d in pairs).detach()
            factors = (scaling_factors if scaled else clipping_factors)(norms, clip)
            # Not 0 times what overflowed, which would be NaN: one node would end the run.
            kept = (factors > 0)[:, None]
            deltas = [torch.where(kept, d * factors[:, None], 0.0) for d in deltas]
            inputs = [torch.where(kept, a, 0.0) for a in inputs]
        gradients = views(into, self.shapes)
        with torch.no_grad():
            for i, (a, d) in enumerate(zip(inputs, deltas, strict=True)):
                add_outer(gradients[f"W{i}"], a, d)
                add_sum(gradients[f"b{i}"], d)

    def scores(self) -> Tensor:
        """Scores of all nodes: (n, C)."""
        parts = np.array_split(np.arange(self.x.shape[0]), -(-self.x.shape[0] // _AT_ONCE))
        with torch.no_grad():
            return torch.cat([self.forward(part)[1][-1] for part in parts])


def scaling_factors(squared_norms: Tensor, clip: float) -> Tensor:
    """C / ‖gradient‖ per sample, up or down, and 0 for a norm that overflowed."""
    return (clip / (squared_norms.sqrt() + 1e-6)).nan_to_num(0.0)


def _train(block: Block, seed: int, setting: dict[str, Any]) -> Any:
    from graphdp.rng import generator
    from graphdp.training.descent import descend
    from graphdp.training.features import check_features
    from graphdp.training.members import like_of

    graph, split, rounds = block.graph, block.split(seed), _rounds(block, seed, setting)
    stream = block.stream(seed, block.method, key(setting))
    like = like_of(block.device, torch.float32)
    check_features(graph.x)
    widths = [
        graph.num_features, *[setting["hidden"]] * (setting["layers"] - 1), graph.num_classes,
    ]  # fmt: skip
    values = Network(widths, graph.x, torch.empty(0)).initial(generator(*stream, "init"))
    network = Network(widths, graph.x, torch.from_numpy(values).to(like))
    labels, official = torch.tensor(graph.y).to(like.device), block.method == "naiveofficial"
    observe = block.observe
    done = descend(
        network.values,
        official_sums(network, labels, rounds.batch_size) if official else sums(network, labels),
        rounds,
        split.train,
        setting["learning_rate"],
        stream,
        noise=block.noise_source,
        observe=observe and (lambda *noisy_round: observe("classifier", [seed], *noisy_round)),
    )
    if done and official:
        done = replace(done, records=NORMALISED)
    return _fitted(block, split, setting, network, done)


def sums(network: Network, labels: Tensor) -> Callable[[Tensor, Tensor, float | None], None]:
    """What `descend` adds up in a round: clipped gradients."""

    def add(nodes: Tensor, gradients: Tensor, clip: float | None) -> None:
        network.add_gradients(nodes, labels, gradients, clip, scaled=False)

    return add


def official_sums(
    network: Network, labels: Tensor, batch_size: int
) -> Callable[[Tensor, Tensor, float | None], None]:
    """The same of the authors' code: gradients of norm C, their *mean* times B."""

    def add(nodes: Tensor, gradients: Tensor, clip: float | None) -> None:
        network.add_gradients(nodes, labels, gradients, clip, scaled=True)
        gradients.mul_(batch_size / len(nodes))

    return add


def _rounds(block: Block, seed: int, setting: dict[str, Any]) -> Any:
    """The rounds that the plan accounts; without privacy the same samples without noise."""
    from graphdp.methods.mlp.plan import naive_rounds
    from graphdp.training.descent import rounds_of

    planned = block.phase(plan_settings(block.level, setting), seed, "classifier")
    if planned is None:
        run = naive_rounds(block.method, setting, block.num_train(seed))
    else:
        run = planned.run
    return rounds_of(run, setting["epochs"], noise_free=planned is None)


def _fitted(block: Block, split: Any, setting: dict[str, Any], network: Network, done: Any) -> Any:
    from graphdp.training import Fitted

    scores = network.scores()
    classes = scores.argmax(1).cpu().numpy()
    right = classes == block.graph.y
    accuracies = [float(right[part].mean()) for part in (split.train, split.val, split.test)]
    return Fitted(
        *accuracies,
        best_epoch=setting["epochs"],
        predictions=classes.astype(np.int16),
        embedding=None,
        parameters={name: view.cpu().numpy() for name, view in network.p.items()},
        history=np.array(accuracies[1:2]),
        rounds=done.count if done else 0,
        executed={"classifier": done} if done else {},
        posteriors=torch.softmax(scores, 1).cpu().numpy() if block.posteriors else None,
    )
