"""MLP and MLP-DP: the baselines that never read an edge (GAP, section 7.2).

Two more ids, "naive" and "naiveofficial": PNPiGNNs' naive DP-SGD, as it has to be and as its
authors' code runs it (`naive.py`).
"""

from typing import Any

from pydantic import Field

from graphdp.methods.card import ROWS, Card, Stage, whole
from graphdp.methods.settings import (
    DROPOUT,
    FullBatchTraining,
    PositiveFloat,
    PositiveInt,
    ReplaceableTraining,
    Settings,
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


class Naive(Settings):
    """Naive DP-SGD, at level none without noise (PNPiGNNs' run_NaiveDPSGD.sh)."""

    hidden: PositiveInt = Field(32, description="width of every hidden layer (Reddit: 16)")
    layers: PositiveInt = Field(4, description="linear layers")
    learning_rate: PositiveFloat = Field(0.001, description="Adam's step size")
    epochs: PositiveInt = Field(5, description="floor(epochs * N / batch_size) rounds of sampling")
    batch_size: PositiveInt = Field(2048, description="expected size of a sampled batch")
    max_grad_norm: PositiveFloat = Field(1.0, description="C, the L2 clip of a node's gradient")


class NaiveOfficial(Naive):
    """Naive DP-SGD as the authors' code runs it."""

    epochs: PositiveInt = Field(5, description="shuffled passes over the training nodes")
    batch_size: PositiveInt = Field(2048, description="B, size of a batch but for the last")
    max_grad_norm: PositiveFloat = Field(1.0, description="C, the norm given to every gradient")


#: How a record enters a round of the authors' code, as plans and executions say it.
NORMALISED = "gradients divided by their norms, mean of a batch times B"


def plan_settings(level: str, setting: dict[str, Any]) -> dict[str, Any]:
    """What the plan reads of a setting."""
    names = ("epochs", "batch_size", "max_grad_norm", "adjacency") if protects_nodes(level) else ()
    return {name: setting[name] for name in names if name in setting}


_NAIVE_TITLES = {"none": "Naive", "edge": "Naive", "node": "Naive DP-SGD"}
NAIVE_STAGES = (Stage("fit", "graphdp.methods.mlp.naive:fit", settings=whole, store=ROWS),)
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
    Card(
        name="naive",
        title="Naive DP-SGD",
        levels={"none": Naive, "node": Naive},
        plan=plan_settings,
        analyses="graphdp.methods.mlp.plan:naive_analyses",
        stages=NAIVE_STAGES,
        look=("#999933", "H"),
        examples=(
            "--level node --epsilon 2 --delta 2.41e-5 --train-nodes 15773 --batch-size 2048 "
            "--epochs 5",
        ),
        reads_edges=False,
        level_titles=_NAIVE_TITLES,
        last_epoch=("none", "node"),
    ),
    Card(
        name="naiveofficial",
        title="Naive DP-SGD",
        levels={"none": NaiveOfficial, "node": NaiveOfficial},
        plan=plan_settings,
        analyses="graphdp.methods.mlp.plan:naive_implemented",
        stages=NAIVE_STAGES,
        look=("#999933", "H"),
        as_implemented_of="naive",
        reads_edges=False,
        level_titles=_NAIVE_TITLES,
        last_epoch=("none", "node"),
    ),
)
