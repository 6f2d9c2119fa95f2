"""MLP and MLP-DP: the baselines that never read an edge (GAP, section 7.2).

Three linear layers with SELU. At level none: full-batch Adam with batch norm; reported in the paper
as edge level with ε = 0, since no edge is read. At level node: DP-Adam without batch norm; with
`adjacency: node_replace` as DPDGC's DP-MLP (section 6) is trained.
"""

from typing import Any

from pydantic import Field

from graphdp.methods.block import Block
from graphdp.methods.settings import (
    DROPOUT,
    FullBatchTraining,
    PositiveInt,
    ReplaceableTraining,
)

LAYERS = Field(3, description="linear layers")


class Public(FullBatchTraining):
    """MLP: no noise."""

    layers: PositiveInt = LAYERS
    dropout: float | None = DROPOUT


class Node(ReplaceableTraining):
    """MLP-DP."""

    layers: PositiveInt = LAYERS


LEVELS = {"none": Public, "node": Node}
STAGES: tuple[str, ...] = ()
USES_GRAPH = False


def plan_settings(level: str, setting: dict[str, Any]) -> dict[str, Any]:
    """What the plan reads of a setting."""
    names = ("epochs", "batch_size", "max_grad_norm", "adjacency") if level == "node" else ()
    return {name: setting[name] for name in names if name in setting}


def fit(block: Block, settings: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any], Any]]:
    """Train every seed of the block x setting; returns (seed, setting, fitted model) triples."""
    from graphdp.ensemble import MLP
    from graphdp.methods.training import train_runs

    graph, runs = block.graph, block.runs(settings)

    def network(setting: dict[str, Any]) -> MLP:
        batch_norm = block.level != "node"
        shape = graph.num_features, setting["hidden"], setting["layers"], graph.num_classes
        return MLP(*shape, batch_norm=batch_norm, dropout=setting.get("dropout", 0.0))

    models = train_runs(
        block,
        runs,
        "mlp",
        network=network,
        noise=lambda seed, s: block.noise_multiplier(plan_settings(block.level, s), seed),
        features=lambda runs: graph.x,
    )
    return [(*run, model) for run, model in zip(runs, models, strict=True)]
