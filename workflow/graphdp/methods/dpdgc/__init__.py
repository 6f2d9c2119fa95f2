"""DPDGC: differentially private decoupled graph convolutions (Chien et al., NeurIPS 2023).

Two ids: "dpdgc", the method as it has to be for its ε to hold, and "dpdgcofficial", the method as
its authors' code runs it (`method.py` says what differs). Both are one code.
"""

from dataclasses import replace
from typing import Any

from pydantic import Field

from graphdp.methods.card import ROWS, Card, Stage, whole
from graphdp.methods.settings import PositiveFloat, PositiveInt, Settings
from graphdp.privacy.protection import Words

#: The classifier has as many epochs as the embedding, if only these are given.
SAME_EPOCHS = {"classifier_epochs": "epochs"}


class Decoupled(Settings):
    """What DPDGC has at every level (Appendix K)."""

    IF_NOT_GIVEN = SAME_EPOCHS

    hidden: PositiveInt = Field(64, description="h, width of W and of every hidden layer")
    learning_rate: PositiveFloat = Field(0.001, description="Adam's step size")
    embedding_learning_rate: PositiveFloat | None = Field(
        None, description="the embedding's step size, if not `learning_rate`"
    )
    epochs: PositiveInt = Field(100, description="passes of the embedding phase")
    classifier_epochs: PositiveInt = Field(100, description="passes of the classifier")
    feature_layers: PositiveInt = Field(1, description="linear layers on the features (MLP_X)")
    layers: PositiveInt = Field(2, description="linear layers on both inputs (MLP_W)")


DROPOUT = Field(0.5, ge=0, lt=1, description="dropout of the classifier")
CLIP = Field(1.0, description="C, L2 clip of a node's gradient")
RATIO = Field(
    1.0,
    ge=0.05,  # beyond either the accountant follows the one phase into losses of hundreds
    le=100,
    description="shares the noise: noise std of the embedding phase is this times 2 sqrt(group "
    "size) C noise multipliers (ε stays exact, calibration makes up for it)",
)


class Public(Decoupled):
    """DPDGC without privacy."""

    batch_size: PositiveInt | None = Field(None, description="nodes a step; all of them if not set")
    dropout: float = DROPOUT


class SharedEdge(Decoupled):
    """Edge level: features and labels are public."""

    batch_size: PositiveInt = Field(256, description="(expected) nodes in a step of either phase")
    max_grad_norm: PositiveFloat = CLIP
    dropout: float = DROPOUT


class SharedNeighbors(Decoupled):
    """k-neighbour level, "k<number>"."""

    batch_size: PositiveInt = Field(256, description="expected nodes in a step of either phase")
    max_grad_norm: PositiveFloat = CLIP


class SharedNode(SharedNeighbors):
    """Node level."""

    max_degree: PositiveInt = Field(100, description="D, the bound on every column of A")


class Edge(SharedEdge):
    """Edge level: features and labels are public."""

    embedding_noise_ratio: PositiveFloat = RATIO


class Neighbors(SharedNeighbors):
    """k-neighbour level, "k<number>"."""

    embedding_noise_ratio: PositiveFloat = RATIO


class Node(SharedNode):
    """Node level."""

    max_degree: PositiveInt = Field(
        100, description="D, number of ids that may list a node, drawn without its edges"
    )
    embedding_noise_ratio: PositiveFloat = RATIO


FEATURE_LAYERS = Field(2, description="linear layers on the features (MLP_X)")


class PublicOfficial(Public):
    """DPDGC's code without privacy."""

    feature_layers: PositiveInt = FEATURE_LAYERS
    embedding_dropout: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="dropout of the embedding (0.5 on cSBM in the authors' scripts)",
    )


class EdgeOfficial(SharedEdge):
    """DPDGC's code at edge level."""

    feature_layers: PositiveInt = FEATURE_LAYERS


class NeighborsOfficial(SharedNeighbors):
    """DPDGC's code at k-neighbour level, "k<number>"."""

    feature_layers: PositiveInt = FEATURE_LAYERS


class NodeOfficial(SharedNode):
    """DPDGC's code at node level."""

    feature_layers: PositiveInt = FEATURE_LAYERS


_PLAN = ("batch_size", "epochs", "classifier_epochs", "max_grad_norm", "max_degree",
         "embedding_noise_ratio")  # fmt: skip


def plan_settings(level: str, setting: dict[str, Any]) -> dict[str, Any]:
    """What the plan reads of a setting."""
    if level == "none":
        return {}
    names = [name for name in _PLAN if level != "edge" or name != "classifier_epochs"]
    return {name: setting[name] for name in names if name in setting}


def release_settings(level: str, setting: dict[str, Any]) -> dict[str, Any]:
    """What determines the released matrix of a setting: the embedding and the plan's noise."""
    rate = setting.get("embedding_learning_rate", setting["learning_rate"])
    names = ("hidden", "epochs", "batch_size", "max_degree", "embedding_dropout")
    return {name: setting[name] for name in names if name in setting} | {
        "learning_rate": rate,
        "plan": plan_settings(level, setting),
    }


METHOD = "graphdp.methods.dpdgc.method"
PLAN = "graphdp.methods.dpdgc.plan"
STAGES = (
    Stage("embed", f"{METHOD}:embed", settings=release_settings),
    Stage("fit", f"{METHOD}:fit", settings=whole, reads=("embed",), store=ROWS),
)
WORDS = Words(
    edges="Edges to and from a node ({splits}).",
    sampled="each column of A",
    candidates="edges from a node's public candidates to it, drawn without its edges",
    keeps_last=True,
)
CARDS = (
    Card(
        name="dpdgc",
        title="DPDGC",
        levels={"none": Public, "edge": Edge, "k": Neighbors, "node": Node},
        plan=plan_settings,
        analyses=f"{PLAN}:corrected_analyses",
        stages=STAGES,
        look=("#cc78bc", "v"),
        examples=(
            "--level k5 --epsilon 16 --delta 1e-5 --train-nodes 14235 --batch-size 256 "
            "--epochs 100",
        ),
        words=WORDS,
    ),
    Card(
        name="dpdgcofficial",
        title="DPDGC",
        levels={
            "none": PublicOfficial,
            "edge": EdgeOfficial,
            "k": NeighborsOfficial,
            "node": NodeOfficial,
        },
        plan=plan_settings,
        analyses=f"{PLAN}:implemented_analyses",
        stages=STAGES,
        look=("#cc78bc", "X"),
        as_implemented_of="dpdgc",
        words=replace(WORDS, keeps_last=False, chosen_by_edges=True),
    ),
)
