"""ProGAP: progressive GNNs with aggregation perturbation (Sajadmanesh and Gatica-Perez, 2024)."""

from typing import Annotated, Any

from pydantic import Field

from graphdp.methods.bound_degree import STAGE as BOUND_DEGREE
from graphdp.methods.card import CACHE, ROWS, Card, Stage, whole
from graphdp.methods.settings import (
    FullBatchTraining,
    PositiveInt,
    PrivateTraining,
)
from graphdp.privacy.protection import Words, protects_nodes

Depth = Annotated[int, Field(ge=0, le=1000)]
DEPTH = Field(2, description="K, the number of aggregations; there are K + 1 stages")
BASE_LAYERS = Field(1, description="linear layers of each base MLP")
LAYERWISE = Field(False, description="freeze the bases of earlier stages")
HISTORY = Field(False, description="keep training and validation accuracy after every epoch")


class Public(FullBatchTraining):
    """ProGAP without privacy and at edge level: features and labels are public."""

    depth: Depth = DEPTH
    base_layers: PositiveInt = BASE_LAYERS
    layerwise: bool = LAYERWISE
    history: bool = HISTORY


class Node(PrivateTraining):
    """ProGAP at node level."""

    depth: Depth = DEPTH
    max_degree: PositiveInt = Field(100, description="D, the bound on every out-degree")
    base_layers: PositiveInt = BASE_LAYERS
    layerwise: bool = LAYERWISE
    history: bool = HISTORY


def plan_settings(level: str, setting: dict[str, Any]) -> dict[str, Any]:
    """What the plan reads of a setting."""
    names = ["depth"]
    if protects_nodes(level):
        names += ["max_degree", "epochs", "batch_size", "max_grad_norm"]
    return {name: setting[name] for name in names}


CARDS = (
    Card(
        name="progap",
        title="ProGAP",
        levels={"none": Public, "edge": Public, "node": Node},
        plan=plan_settings,
        analyses="graphdp.methods.progap.plan:analyses",
        stages=(
            BOUND_DEGREE,
            Stage(
                "fit",
                "graphdp.methods.progap.method:fit",
                settings=whole,
                reads=("bound_degree", CACHE),
                store=ROWS,
            ),
        ),
        look=("#d55e00", "p"),
        examples=("--level edge --epsilon 1 --delta 1e-7 --depth 3",),
        words=Words(edges="Out-edges of a node, as messages to others."),
    ),
)
