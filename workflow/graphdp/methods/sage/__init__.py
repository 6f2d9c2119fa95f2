"""The GraphSAGE baselines: GAP's (section 7.2) SAGE-∞, SAGE-EDP and SAGE-NDP (DP-GNN), and ProGAP's
(section 5.2) GraphSAGE, EdgeRand and DP-GNN, which are other networks."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from graphdp.methods.bound_degree import STAGE as BOUND_DEGREE
from graphdp.methods.card import CACHE, GRAPHS, ROWS, Card, Stage, whole
from graphdp.methods.settings import (
    DROPOUT,
    FullBatchTraining,
    PositiveInt,
    PrivateTraining,
    ReplaceableTraining,
)
from graphdp.privacy.protection import Words

LAYERS = Field(2, description="K, the number of message-passing layers")


class ProgapsPublic(FullBatchTraining):
    """ProGAP's GraphSAGE without privacy."""

    mp_layers: PositiveInt = LAYERS


class Public(ProgapsPublic):
    """SAGE-∞."""

    dropout: float | None = DROPOUT


class ProgapsEdge(FullBatchTraining):
    """ProGAP's EdgeRand: features and labels are public."""

    mp_layers: PositiveInt = LAYERS
    perturbation: Literal["asymmetric", "edge_rand", "lap_graph", "asymmetric_chunks"] = Field(
        "asymmetric",
        description="how the graph is perturbed; asymmetric_chunks is asymmetric as the authors' "
        "code runs it, whose ε does not hold",
    )
    directed: Literal[True] | None = Field(
        None,
        description="whether the two directed entries of a connection are perturbed apart, as has "
        "to be on a directed graph (asymmetric_chunks does so anyway)",
    )

    @field_validator("directed")
    @classmethod
    def _omit_what_chunks_do_anyway(cls, value: bool | None, info: ValidationInfo) -> bool | None:
        return None if info.data.get("perturbation") == "asymmetric_chunks" else value


class Edge(ProgapsEdge):
    """SAGE-EDP."""

    dropout: float | None = DROPOUT


class Node(ReplaceableTraining):
    """SAGE-NDP: one message-passing layer."""

    max_degree: PositiveInt = Field(100, description="D, the bound on every out- and in-degree")
    degree_bound: Literal["both_degrees"] = Field(
        "both_degrees", description="how degrees are bounded: out-lists, then in-lists, are sampled"
    )
    inference: Literal["noisy", "exact"] | None = Field(
        "noisy",
        validate_default=True,
        description="what predictions read of neighbours: one noisy sum (GAP's DP-GNN), or exact, "
        "sums without noise, which no ε covers (as the DP-GNN paper and PNPiGNNs run it)",
    )

    clipping: Literal["samples", "rows"] | None = Field(
        "samples",
        validate_default=True,
        description="what is clipped: samples; or rows of the union of a batch's sub-graphs, as "
        "GAP's and DPDGC's code does it, whose ε does not hold",
    )

    @field_validator("inference", "clipping")
    @classmethod
    def _omit_defaults(cls, value: str | None) -> str | None:
        return None if value in ("noisy", "samples") else value


class ProgapsEdgeOfficial(ProgapsPublic):
    """ProGAP's EdgeRand as its code runs it."""

    perturbation: Literal["asymmetric_chunks"] = Field(
        "asymmetric_chunks", description="how the graph is perturbed: as the authors' code does it"
    )


class ProgapsNode(PrivateTraining):
    """ProGAP's DP-GNN: one message-passing layer, no noise at inference."""

    max_degree: PositiveInt = Field(100, description="D, the bound on every out-degree")


def plan_settings(level: str, setting: dict[str, Any]) -> dict[str, Any]:
    """What the plan reads of a setting."""
    names = {
        "none": (),
        "edge": ("perturbation", "directed"),
        "node": (
            "max_degree",
            "epochs",
            "batch_size",
            "max_grad_norm",
            "adjacency",
            "inference",
            "clipping",
        ),
    }[level]
    return {name: setting[name] for name in names if name in setting}


def release_settings(level: str, setting: dict[str, Any]) -> dict[str, Any]:
    """What determines the perturbed graph of a setting: neither its depth nor its training."""
    return plan_settings(level, setting)


def _exact(level: str, setting: Mapping[str, Any]) -> bool:
    """Whether a setting of SAGE has exact inference."""
    return setting.get("inference") == "exact"


def _progaps_exact(level: str, setting: Mapping[str, Any]) -> bool:
    """ProGAP's DP-GNN has no other inference."""
    return level == "node"


#: The ids of ProGAP's baselines, and of these as the authors' code runs them.
PROGAPS, PROGAPS_OFFICIAL = "progapsage", "progapsageofficial"
METHOD = "graphdp.methods.sage.method"
STAGES = (
    BOUND_DEGREE,
    Stage(
        "perturb",
        f"{METHOD}:perturb",
        settings=release_settings,
        store=GRAPHS,
        levels=("edge",),
        trains=False,
    ),
    Stage(
        "fit",
        f"{METHOD}:fit",
        settings=whole,
        reads=("bound_degree", CACHE, "perturb"),
        store=ROWS,
    ),
)
_PROGAPS_TITLES = {
    "none": "ProGAP's GraphSAGE",
    "edge": "ProGAP's EdgeRand",
    "node": "ProGAP's DP-GNN",
}
_PROGAPS_WORDS = Words(edges="Out-edges of a node, as messages to others, in training alone.")
CARDS = (
    Card(
        name="sage",
        title="SAGE",
        levels={"none": Public, "edge": Edge, "node": Node},
        plan=plan_settings,
        analyses="graphdp.methods.sage.plan:analyses",
        stages=STAGES,
        look=("#029e73", "^"),
        examples=(
            "--level edge --epsilon 4 --delta 1e-7 --perturbation asymmetric",
            "--level node --epsilon 8 --train-nodes 19800 --batch-size 256 --epochs 10 "
            "--max-degree 100",
        ),
        last_epoch=("node",),
        weights_alone=_exact,
        unnamed={"adjacency": "node_add_remove", "inference": "noisy", "clipping": "samples"},
        words=Words(
            edges="Out-edges of a node, as messages to others.",
            sampled="each node's out-list, then of its in-list",
        ),
    ),
    Card(
        name=PROGAPS,
        title="ProGAP's SAGE",
        levels={"none": ProgapsPublic, "edge": ProgapsEdge, "node": ProgapsNode},
        plan=plan_settings,
        analyses="graphdp.methods.sage.plan:progaps_analyses",
        stages=STAGES,
        look=("#44aa99", "<"),
        examples=(
            "--level node --epsilon 8 --train-nodes 19800 --batch-size 256 --epochs 10 "
            "--max-degree 100",
        ),
        last_epoch=("node",),
        weights_alone=_progaps_exact,
        level_titles=_PROGAPS_TITLES,
        words=_PROGAPS_WORDS,
    ),
    Card(
        name=PROGAPS_OFFICIAL,
        title="ProGAP's SAGE",
        levels={"edge": ProgapsEdgeOfficial, "node": ProgapsNode},
        plan=plan_settings,
        analyses="graphdp.methods.sage.plan:progaps_implemented",
        stages=STAGES,
        look=("#44aa99", ">"),
        as_implemented_of=PROGAPS,
        last_epoch=("node",),
        weights_alone=_progaps_exact,
        level_titles=_PROGAPS_TITLES,
        words=_PROGAPS_WORDS,
    ),
)
