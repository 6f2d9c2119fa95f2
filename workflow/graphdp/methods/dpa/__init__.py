"""DPA-GNN: distributed private aggregation (Jia et al., USENIX Security 2025).

Two ids: "dpa", noise in every round and a protocol whose claim holds; "dpaofficial", the method as
the authors' code runs it.
"""

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from graphdp.methods.card import ROWS, Card, Stage, whole
from graphdp.methods.settings import NonNegativeInt, PositiveFloat, PositiveInt, Settings
from graphdp.parties import places
from graphdp.privacy.protection import Words

PARTIES = Field(3, description="m, the computing parties")
SHARES = Field(2, description="t, the shares of a pair, each sent to another party")
COLLUDING = Field(1, description="t_c, the parties that may collude; fewer than shares")
QUANTILE = Field(
    None,
    gt=0,
    lt=1,
    description="D is this quantile of the lengths of lists, for a twentieth of μ²; in place of "
    "max_degree",
)
_FEWER = "D, the pairs that a user sends; all its edges if not given (an edge then costs less)"


class Training(Settings):
    """Sums, and the network on them. Paper: learning rate 0.0005 and weight decay 0.01; the
    authors' code: the defaults here."""

    feature_layers: PositiveInt = Field(10, description="l_h, the rounds of sums of features")
    label_layers: PositiveInt = Field(8, description="l_y, the rounds of sums of labels")
    columns: PositiveInt | None = Field(
        None, description="columns of the features that are kept, drawn at random; all if not given"
    )
    hidden: PositiveInt = Field(64, description="width of the hidden layer")
    learning_rate: PositiveFloat = Field(0.01, description="Adam's step size")
    weight_decay: float = Field(5e-4, ge=0, allow_inf_nan=False, description="Adam's L2 penalty")
    dropout: float = Field(0.5, ge=0, lt=1, description="dropout before the last layer")
    epochs: PositiveInt = Field(200, description="most passes over the training nodes")


class Public(Training):
    """Without noise."""

    feature_layers: NonNegativeInt = Field(
        10, description="l_h, the rounds of sums of features; 0: a user's own row, no graph"
    )
    label_layers: NonNegativeInt = Field(
        8, description="l_y, the rounds of sums of labels; 0: a user's own label, no graph"
    )
    activation: Literal["none"] | None = Field(
        None, description="none: no ReLU in the network, as in the paper's Table 8"
    )


class Shared(Training):
    """The protocol."""

    IF_NOT_GIVEN = {"parties": "", "shares": "", "colluding": "", "max_degree": ""}  # noqa: RUF012
    INSTEAD = {  # noqa: RUF012
        "dummy_rate": "give --feature-share and --label-share: dummies have what these leave of μ²"
    }

    parties: PositiveInt = PARTIES
    shares: PositiveInt = SHARES
    colluding: int = COLLUDING
    feature_share: PositiveFloat | None = Field(
        None,
        description="of the privacy loss (of μ² for dpa, of ε for dpaofficial), for the features",
    )
    label_share: PositiveFloat | None = Field(
        None, description="of μ², for the labels; what both leave hides the numbers of pairs"
    )
    transport: Literal["memory", "tcp"] | None = Field(
        None,
        description="tcp: parties and shuffler are processes of their own; memory, or not given: "
        "their sums are made in one process, with the same result",
    )
    listen: str | None = Field(
        None,
        description="tcp: this machine's address, at which the training job listens (and without "
        "hosts the shuffler); 127.0.0.1 if not given",
    )
    hosts: str | None = Field(
        None,
        description="tcp: where the shuffler runs and listens, and where each party runs, with "
        "spaces between, or allocation, the nodes of the Slurm job; on this machine if not given",
    )
    launch: str | None = Field(
        None,
        description="tcp: what starts a program on a host: ssh {host}, or srun --overlap "
        "--ntasks=1 --nodes=1 --nodelist={host}",
    )
    tls: str | None = Field(
        None,
        description="tcp: a folder with certificate.pem, key.pem and authority.pem, for encrypted "
        "links",
    )

    @field_validator("transport")
    @classmethod
    def _omit_default_transport(cls, value: str | None) -> str | None:
        return None if value == "memory" else value

    @model_validator(mode="after")
    def _links_are_of_processes(self) -> "Shared":
        for name in ("listen", "hosts", "launch", "tls"):
            if getattr(self, name) is not None and self.transport is None:
                raise ValueError(f"{name} is of processes; give transport: tcp as well")
        if why := places.fault(self.hosts, self.launch, self.parties, self.listen, self.tls):
            raise ValueError(why)
        return self


class Edge(Shared):
    """DPA-GNN at edge level."""

    max_degree: PositiveInt | None = Field(None, description=_FEWER)
    degree_quantile: float | None = QUANTILE
    adjacency: Literal["edge_undirected", "edge_directed"] | None = Field(
        "edge_undirected",
        validate_default=True,
        description="what the claim is about: an undirected edge, or edge_directed, one pair of a "
        "list; the other's line follows from the same noise",
    )

    @field_validator("adjacency")
    @classmethod
    def _omit_the_usual_adjacency(cls, value: str | None) -> str | None:
        return None if value == "edge_undirected" else value


class Node(Shared):
    """DPA-GNN at node level."""

    IF_NOT_GIVEN = {"parties": "", "shares": "", "colluding": ""}  # noqa: RUF012

    EITHER = {"max_degree": "degree_quantile"}  # noqa: RUF012

    max_degree: PositiveInt | None = Field(6, description="D, the pairs that a user sends")
    degree_quantile: float | None = QUANTILE
    adjacency: Literal["participant", "node_replace_own_list"] | None = Field(
        "participant",
        validate_default=True,
        description="what the claim is about: a user sends its pairs or none (participant), or "
        "node_replace_own_list, other data and another list in its place",
    )
    non_negative: Literal[True] | None = Field(
        None, description="set negative features to 0: a replaced node then moves less"
    )

    @field_validator("adjacency")
    @classmethod
    def _omit_the_usual_adjacency(cls, value: str | None) -> str | None:
        return None if value == "participant" else value


class Official(Training):
    """The authors' code at node level."""

    IF_NOT_GIVEN = {"parties": "", "shares": ""}  # noqa: RUF012

    max_degree: PositiveInt = Field(
        6, description="D, the pairs that a user receives, the one with itself included"
    )
    parties: PositiveInt = PARTIES
    shares: PositiveInt = SHARES
    dummy_rate: PositiveFloat = Field(0.5, lt=1, description="r of the geometric dummies")
    feature_share: PositiveFloat = Field(0.05, lt=1, description="ε_h as a share of ε")
    public: Literal["features", "labels", "edges"] | None = Field(
        None,
        description="what is taken as public, and so has neither noise nor a part of ε (the "
        "paper's ablations)",
    )
    noise: Literal["laplace"] | None = Field(
        None, description="laplace: Laplace noise of scale 2 D / ε (the paper's Table 7)"
    )
    scaling: Literal["raw", "clipped"] | None = Field(
        None,
        description="the degrees that sums are divided by: the true ones, or those of the cut "
        "lists; if not given, these with the dummies",
    )


_PLAN = ("feature_layers", "label_layers", "max_degree", "parties", "shares", "colluding",
         "feature_share", "label_share", "adjacency", "non_negative",
         "degree_quantile")  # fmt: skip
_OFFICIAL = ("max_degree", "parties", "shares", "dummy_rate", "feature_share", "public",
             "noise")  # fmt: skip


def plan_settings(level: str, setting: dict[str, Any]) -> dict[str, Any]:
    """What the plan reads of a setting."""
    return {} if level == "none" else {name: setting[name] for name in _PLAN if name in setting}


def official_plan_settings(level: str, setting: dict[str, Any]) -> dict[str, Any]:
    """What the plan of the authors' code reads of a setting."""
    return {} if level == "none" else {name: setting[name] for name in _OFFICIAL if name in setting}


PLAN = "graphdp.methods.dpa.plan"
WORDS = Words(
    edges="Edges that a user holds, as pairs sent to others ({splits}).",
    sampled="a user's own list",
)
CARDS = (
    Card(
        name="dpa",
        title="DPA-GNN",
        levels={"none": Public, "edge": Edge, "node": Node},
        plan=plan_settings,
        analyses=f"{PLAN}:analyses",
        stages=(Stage("fit", "graphdp.methods.dpa.method:fit", settings=whole, store=ROWS),),
        look=("#332288", "<"),
        last_epoch=("none", "edge", "node"),
        examples=(
            "--level edge --epsilon 2 --delta 1e-5 --feature-layers 10 --label-layers 8 --json",
            "--level node --adjacency participant --max-degree 6 --epsilon 2 --delta 1e-5 "
            "--feature-layers 10 --label-layers 8",
        ),
        words=WORDS,
    ),
    Card(
        name="dpaofficial",
        title="DPA-GNN",
        levels={"none": Public, "node": Official},
        plan=official_plan_settings,
        analyses="graphdp.methods.dpa.published_plan:published_analyses",
        stages=(Stage("fit", "graphdp.methods.dpa.official:fit", settings=whole, store=ROWS),),
        look=("#332288", ">"),
        as_implemented_of="dpa",
        last_epoch=("none", "node"),
        words=WORDS,
    ),
)
