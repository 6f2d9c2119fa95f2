"""PNPiGNNs: HeterPoisson, node-level private training over sub-graphs (Xiang et al., S&P 2024).

Three ids: "heterpoisson", Gaussian noise and an analysis that holds; "heterpoissonsml", the paper's
symmetric multivariate Laplace noise; "heterpoissonofficial", that as the authors' code runs it.
"""

from typing import Any, Literal

from pydantic import Field

from graphdp.methods.card import ROWS, Card, Stage, whole
from graphdp.methods.settings import NonNegativeInt, PositiveFloat, PositiveInt, Settings
from graphdp.privacy.protection import Words

#: Of `graphdp calibrate`: `max_degree` need not be given.
_NO_DEGREE = {"max_degree": ""}


class Training(Settings):
    """What HeterPoisson has at every level (section 5, Appendix A.2)."""

    IF_NOT_GIVEN = _NO_DEGREE

    hidden: PositiveInt = Field(128, description="width of the hidden layer")
    learning_rate: PositiveFloat = Field(0.01, description="Adam's step size")
    epochs: PositiveInt = Field(9, description="ceil(epochs * N / batch_size) rounds of sampling")
    batch_size: PositiveInt = Field(4096, description="expected centres of a round; at most N")
    max_grad_norm: PositiveFloat = Field(
        1.0, description="C; a sub-graph's gradient is clipped to C/2"
    )
    convolution: Literal["gcn", "gin", "sage"] = Field("sage", description="the graph convolution")
    num_neighbors: NonNegativeInt = Field(
        1, description="M: how often a node is a neighbour, were all nodes centres, at most"
    )
    test_neighbors: NonNegativeInt = Field(
        13, description="neighbours that a prediction reads, of those that did not train"
    )
    setting: Literal["transductive", "inductive"] = Field(
        "transductive", description="whether nodes that do not train are neighbours in training"
    )


class WithRule(Training):
    """HeterPoisson with a choice of what is done with neighbours that are centres."""

    overlap: Literal["kept", "dropped"] = Field(
        "kept", description="a neighbour that is a centre of the round stays, or is left out"
    )


class Node(WithRule):
    """HeterPoisson at node level."""

    analysis: Literal["hidden_coins", "known_multiplicities", "revealed_centres"] | None = Field(
        None,
        description="by which analysis σ is set, of those that hold for the overlap rule; the "
        "smaller bound if not given",
    )
    max_degree: PositiveInt | None = Field(
        None, description="lists that may hold one node; as many as training nodes if not given"
    )
    degree_bound: Literal["public_candidates"] | None = Field(
        None,
        description="public_candidates: a node may be listed by max_degree ids, drawn without its "
        "edges, and is drawn with rate M / max_degree, for a claim on nodes added or removed (with "
        "split_sides: by_id)",
    )


class NodeLaplace(Training):
    """HeterPoisson with symmetric Laplace noise at node level."""

    max_degree: PositiveInt | None = Field(
        None, description="lists that may hold one node; as many as training nodes if not given"
    )


_PLAN = ("batch_size", "epochs", "max_grad_norm", "num_neighbors", "overlap", "analysis",
         "degree_bound", "max_degree", "setting")  # fmt: skip


def plan_settings(level: str, setting: dict[str, Any]) -> dict[str, Any]:
    """What the plan reads of a setting."""
    if level == "none":
        return {}
    return {name: setting[name] for name in _PLAN if name in setting}


PLAN = "graphdp.methods.heterpoisson.plan"
STAGES = (Stage("fit", "graphdp.methods.heterpoisson.method:fit", settings=whole, store=ROWS),)
WORDS = Words(
    edges="Edges to and from a node, as far as trained weights tell of them ({splits}).",
    participant="A node's row in others' sub-graphs and theirs in its own, as far as trained "
    "weights tell of them ({splits}).",
    others="A node's own list: how many lists hold another node sets how often that one is drawn.",
    candidates="edges from a node to its public candidates, drawn without its edges",
    declared="no node is in more lists, as announced beforehand",
)
_EXAMPLE = (
    "--level node --epsilon 2 --delta 2.41e-5 --train-nodes 15773 --batch-size 4096 --epochs 9 "
    "--num-neighbors 1"
)
CARDS = (
    Card(
        name="heterpoisson",
        title="HeterPoisson",
        levels={"none": WithRule, "node": Node},
        plan=plan_settings,
        analyses=f"{PLAN}:corrected_analyses",
        stages=STAGES,
        look=("#fbafe4", "P"),
        last_epoch=("none", "node"),
        tried={"overlap": ("kept", "dropped")},
        examples=(_EXAMPLE,),
        words=WORDS,
    ),
    Card(
        name="heterpoissonsml",
        title="HeterPoisson-SML",
        levels={"none": Training, "node": NodeLaplace},
        plan=plan_settings,
        analyses=f"{PLAN}:published_analyses",
        stages=STAGES,
        look=("#56b4e9", "*"),
        last_epoch=("none", "node"),
        words=WORDS,
    ),
    Card(
        name="heterpoissonofficial",
        title="HeterPoisson-SML",
        levels={"none": Training, "node": NodeLaplace},
        plan=plan_settings,
        analyses=f"{PLAN}:implemented_analyses",
        stages=STAGES,
        look=("#56b4e9", "h"),
        as_implemented_of="heterpoissonsml",
        last_epoch=("none", "node"),
        words=WORDS,
    ),
)
