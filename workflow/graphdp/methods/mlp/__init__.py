"""MLP and MLP-DP: the baselines that never read an edge (GAP, section 7.2)."""

from typing import Any

from pydantic import Field

from graphdp.methods.card import ROWS, Card, Stage, whole
from graphdp.methods.settings import (
    DROPOUT,
    FullBatchTraining,
    PositiveInt,
    ReplaceableTraining,
)
from graphdp.privacy.protection import protects_nodes

LAYERS = Field(3, description="linear layers")


class Public(FullBatchTraining):
    """MLP: no noise."""

    layers: PositiveInt = LAYERS
    dropout: float | None = DROPOUT


class Node(ReplaceableTraining):
    """MLP-DP."""

    layers: PositiveInt = LAYERS


def plan_settings(level: str, setting: dict[str, Any]) -> dict[str, Any]:
    """What the plan reads of a setting."""
    names = ("epochs", "batch_size", "max_grad_norm", "adjacency") if protects_nodes(level) else ()
    return {name: setting[name] for name in names if name in setting}


CARDS = (
    Card(
        name="mlp",
        title="MLP",
        levels={"none": Public, "node": Node},
        plan=plan_settings,
        analyses="graphdp.methods.mlp.plan:analyses",
        stages=(Stage("fit", "graphdp.methods.mlp.method:fit", settings=whole, store=ROWS),),
        look=("#de8f05", "s"),
        examples=("--level node --epsilon 8 --train-nodes 19800 --batch-size 256 --epochs 10",),
        reads_edges=False,
        level_titles={"none": "MLP", "edge": "MLP", "node": "MLP-DP"},
        unnamed={"adjacency": "node_add_remove"},
    ),
)
