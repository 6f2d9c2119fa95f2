"""MLP and MLP-DP: the baselines that never read an edge (GAP, section 7.2).

Three linear layers with SELU. At level none: full-batch Adam with batch norm; reported in the paper
as edge level with ε = 0, since no edge is read. At level node: DP-Adam without batch norm; with
`adjacency: node_replace` as DPDGC's DP-MLP (section 6) is trained.
"""

from typing import Any

from graphdp.methods.block import Block
from graphdp.methods.mlp import plan_settings
from graphdp.privacy.protection import protects_nodes


def fit(block: Block, settings: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any], Any]]:
    """Train every seed of the block x setting; returns (seed, setting, fitted model) triples."""
    from graphdp.methods.train_runs import train_runs
    from graphdp.training import MLP

    graph, runs = block.graph, block.runs(settings)

    def network(setting: dict[str, Any]) -> MLP:
        batch_norm = not protects_nodes(block.level)
        shape = graph.num_features, setting["hidden"], setting["layers"], graph.num_classes
        return MLP(*shape, batch_norm=batch_norm, dropout=setting.get("dropout", 0.0))

    models = train_runs(
        block,
        runs,
        "mlp",
        network=network,
        phase="classifier",
        entry=lambda seed, s: block.entry(plan_settings(block.level, s), seed),
        features=lambda runs: graph.x,
    )
    return [(*run, model) for run, model in zip(runs, models, strict=True)]
