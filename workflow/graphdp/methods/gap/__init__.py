"""GAP: graph neural networks with aggregation perturbation (Sajadmanesh et al., 2023).

The baseline of DPDGC's paper is GAP as well, with `adjacency: node_replace`.
"""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, field_validator

from graphdp.methods.bound_degree import STAGE as BOUND_DEGREE
from graphdp.methods.card import CACHE, RELEASES, ROWS, Card, Stage, whole
from graphdp.methods.settings import (
    DROPOUT,
    FullBatchTraining,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ReplaceableTraining,
)
from graphdp.privacy.protection import Words, protects_nodes

HOPS = Field(2, description="K, the number of aggregations")
ENCODER_LAYERS = Field(2, description="layers of the encoder; 0 aggregates the features themselves")
ENCODER_RATE = Field(None, description="the encoder's step size, if not `learning_rate`")


#: The plan reads of the layers only whether there are any.
ENCODER_DEFAULT = {"encoder_layers": ""}


class Public(FullBatchTraining):
    """GAP-∞ and GAP-EDP: features and labels are public."""

    hops: PositiveInt = HOPS
    encoder_layers: NonNegativeInt = ENCODER_LAYERS
    encoder_learning_rate: PositiveFloat | None = ENCODER_RATE
    dropout: float | None = DROPOUT


class Node(ReplaceableTraining):
    """GAP-NDP."""

    IF_NOT_GIVEN = ENCODER_DEFAULT

    hops: PositiveInt = HOPS
    max_degree: PositiveInt = Field(100, description="D, the bound on every out-degree")
    degree_bound: Literal["sampling", "public_candidates"] | None = Field(
        "sampling",
        validate_default=True,
        description="what keeps D: sampling of the node's edges (as published), or "
        "public_candidates, D ids drawn without them (holds when a node is added or removed)",
    )
    differing_terms: Literal["one", "all"] | None = Field(
        "one",
        validate_default=True,
        description="terms of a row that the noise is for: one (as published), or all, 2(D + 1) "
        "times the noise (PNPiGNNs' corrected GAP, whose claim does not hold either)",
    )
    encoder_layers: NonNegativeInt = ENCODER_LAYERS
    encoder_learning_rate: PositiveFloat | None = ENCODER_RATE

    @field_validator("degree_bound")
    @classmethod
    def _omit_default_bound(cls, value: str | None) -> str | None:
        return None if value == "sampling" else value

    @field_validator("differing_terms")
    @classmethod
    def _omit_default_terms(cls, value: str | None) -> str | None:
        return None if value == "one" else value


def plan_settings(level: str, setting: dict[str, Any]) -> dict[str, Any]:
    """What the plan reads of a setting."""
    if level != "node":
        return {"hops": setting["hops"]}
    names = ("hops", "max_degree", "epochs", "batch_size", "max_grad_norm", *_OF_PLAN)
    return _part(setting, names) | {"encoder": setting["encoder_layers"] > 0}


def encoder_settings(level: str, setting: dict[str, Any]) -> dict[str, Any] | None:
    """What determines the encoder of a setting; None for a setting without an encoder.

    At node level that includes K, which the shared noise multiplier depends on, but not D.
    """
    if setting["encoder_layers"] == 0:
        return None
    names = ["hidden", "encoder_layers", "epochs", "dropout"]
    if level == "node":
        names += ["hops", "batch_size", "max_grad_norm", "adjacency"]
    rate = setting.get("encoder_learning_rate", setting["learning_rate"])
    return _part(setting, names) | {"learning_rate": rate}


def release_settings(level: str, setting: dict[str, Any]) -> dict[str, Any]:
    """What determines the noisy aggregates of a setting: encoder, plan (hence noise), K and D."""
    names = ("hops", "max_degree", *_OF_PLAN) if level == "node" else ("hops",)
    return {
        "encoder": encoder_settings(level, setting),
        "plan": plan_settings(level, setting),
    } | _part(setting, names)


#: Hyperparameters that a setting names only where they are not as GAP publishes them.
_OF_PLAN = ("degree_bound", "adjacency", "differing_terms")
_UNNAMED = (*_OF_PLAN, "dropout")


def _part(setting: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The named hyperparameters of a setting."""
    return {name: setting[name] for name in names if name in setting or name not in _UNNAMED}


def encoder_place(
    dataset: str, method: str, level: str, epsilon: str, experiment: str, *, part: dict[str, Any]
) -> str:
    """Where the encoders of a cell are kept.

    Where features are public an encoder reads neither edges nor ε, so all levels and ε of an
    experiment share the one that is trained under `none/inf`.
    """
    if not protects_nodes(level):
        level, epsilon = "none", "inf"
    return f"{dataset}/{method}/{level}/{epsilon}/{experiment}"


METHOD = "graphdp.methods.gap.method"
CARDS = (
    Card(
        name="gap",
        title="GAP",
        levels={"none": Public, "edge": Public, "node": Node},
        plan=plan_settings,
        analyses="graphdp.methods.gap.plan:analyses",
        stages=(
            BOUND_DEGREE,
            Stage(
                "encode",
                f"{METHOD}:encode",
                settings=encoder_settings,
                place=encoder_place,
                calibrated=protects_nodes,
            ),
            Stage(
                "aggregate",
                f"{METHOD}:aggregate",
                settings=release_settings,
                reads=("encode", "bound_degree", CACHE),
                store=RELEASES,
                trains=False,
            ),
            Stage(
                "fit",
                f"{METHOD}:fit",
                settings=whole,
                reads=("encode", "aggregate", CACHE),
                store=ROWS,
            ),
        ),
        look=("#0173b2", "o"),
        examples=(
            "--level edge --epsilon 4 --delta 1e-7 --hops 2",
            "--level node --epsilon 8 --delta 1e-5 --train-nodes 19800 "
            "--batch-size 256 --epochs 10 --max-degree 100 --hops 2 --json",
            "--level node --adjacency node_replace --epsilon 16 --delta 1e-5 --train-nodes 14788 "
            "--batch-size 256 --epochs 100 --max-degree 100 --hops 2",
        ),
        unnamed={
            "degree_bound": "sampling",
            "adjacency": "node_add_remove",
            "differing_terms": "one",
        },
        words=Words(edges="Out-edges of a node, as messages to others."),
    ),
)
