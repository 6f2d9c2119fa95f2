"""The form of a privacy statement: its fields, and its file.

The fields follow NIST SP 800-226 and section 5.3 of "How to DP-fy ML" (Ponomareva et al. 2023).
`config/statement.schema.json` is generated from the types here by
`python -m graphdp.privacy.statement_form`; a test fails when they differ.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from graphdp import io, seals
from graphdp.commands import without_arguments
from graphdp.errors import GraphDPError
from graphdp.privacy.mechanisms import KINDS

SCHEMA = Path("config/statement.schema.json")

NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Delta = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=0)]
#: ε as a number, "inf" without noise, "none" where the claim is refuted.
Epsilon = NonNegative | Literal["inf", "none"]
Status = Literal["proven", "conditional", "refuted", ""]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Data(_Part):
    """The graph that a model was trained on."""

    name: str = Field(description="name of the dataset")
    fingerprint: str = Field(
        description="SHA-256 of features, labels and edges; of a private release, keyed by a secret"
    )
    nodes: Count | None = Field(description="null in a private release")
    directed_edges: Count | None = Field(
        description="entries of the adjacency matrix; null in a private release"
    )
    train_nodes: Count = Field(description="in a private release as they are announced")
    undirected: bool | None = Field(description="whether every edge stands in both directions")

    def published(self, release: str) -> "Data":
        """What of it is published: of a private release no exact count."""
        hidden = {"nodes": None, "directed_edges": None} if release == "private" else {}
        return self.model_copy(update=hidden)


class DegreeBound(_Part):
    """The bound on how many other nodes read a node."""

    max_degree: Count
    method: str
    data_dependent: bool = Field(description="whether a list depends on the nodes that it names")


class Guarantee(_Part):
    """What two adjacent graphs differ in."""

    level: Annotated[str, Field(pattern=r"^(none|edge|node|k[0-9]+)$")]
    adjacency: str
    unit: str
    own_row_covered: bool | None
    degree_bound: DegreeBound | None


class Protection(_Part):
    """What the guarantee speaks of, and what it does not."""

    protected: list[str]
    not_protected: list[str]


class Release(_Part):
    """An output of training, and whether the guarantee covers its publication."""

    what: str
    covered: bool
    why: str


class MechanismEntry(_Part):
    """One mechanism with the noise that was drawn."""

    kind: str = Field(description="a file of graphdp.privacy.mechanisms")
    query: str
    phase: str
    norm: Literal["L2", "L1", ""]
    sensitivity: NonNegative | None
    formula: str
    source: str
    noise_multiplier: NonNegative | None = Field(
        description="noise std / sensitivity; of a pure release share / ε, with the share that its "
        "query has of the plan's ε"
    )
    noise_std: NonNegative | None = Field(description="per coordinate, in units of the query")
    count: Count = Field(description="releases, or DP-Adam steps")
    sampling: Literal["none", "poisson", "without_replacement"]
    sampling_rate: NonNegative | None

    @field_validator("kind")
    @classmethod
    def _is_known(cls, kind: str) -> str:
        if kind not in KINDS:
            raise ValueError(f"unknown kind of mechanism; known: {', '.join(KINDS)}")
        return kind


class Claim(_Part):
    """An ε, never without its basis, δ, adjacency and status."""

    basis: Literal["as_published", "as_implemented", "corrected"]
    adjacency: str
    status: Status
    epsilon: Epsilon = Field(description="none: no finite ε is known to hold")
    claimed_epsilon: NonNegative | Literal["inf"] = Field(description="what the formula says")
    delta: Delta | None
    assumptions: list[str]

    @model_validator(mode="after")
    def _is_never_bare(self) -> "Claim":
        if self.status == "refuted" and self.epsilon != "none":
            raise ValueError("a refuted claim has epsilon none")
        if isinstance(self.epsilon, float) and self.epsilon > 0 and self.delta is None:
            raise ValueError("a finite epsilon needs its delta")
        if self.status == "conditional" and not self.assumptions:
            raise ValueError("a conditional claim needs its assumptions")
        return self


class AccountingEntry(Claim):
    """ε of the model's noise under one analysis."""

    own_row_covered: bool | None
    accountant: str
    library: str
    method: str
    orders: str = Field(description="Rényi orders, where any are used")
    conversion: str
    direction: Literal["upper bound"]


class SelectionEntry(Claim):
    """ε of releasing the selected model, with the search charged for."""

    how: Literal["composition", "random_search"]
    source: str


class Selection(_Part):
    """How the model was chosen and what that costs."""

    checkpoint: str
    settings_tried: Count
    repeats: Count = Field(description="seeds with which every setting is trained")
    entries: list[SelectionEntry]


class Target(_Part):
    """What the noise was calibrated for."""

    basis: Literal["as_published", "as_implemented", "corrected"]
    adjacency: str
    epsilon: NonNegative | Literal["inf"]
    delta: Delta | None
    noise_multiplier: NonNegative | None


class Rng(_Part):
    """The random numbers behind sampling and noise."""

    generator: str
    cryptographic: bool
    note: str
    drawn_epsilon: NonNegative | None = Field(
        description="the target's ε with what drawing adds to it (graphdp.noise, graphdp.coins); "
        "null where nothing is drawn, or noise that is not analysed as it is drawn"
    )
    drawn_delta: NonNegative | None = Field(description="the target's δ likewise")


class Statement(_Part):
    """The privacy statement of one trained model."""

    schema_version: Literal[2]
    release: Literal["reproduction", "private"]
    method: str
    settings: dict[str, Any] = Field(description="hyperparameters that the plan reads")
    data: Data
    guarantee: Guarantee
    protection: Protection
    releases: list[Release]
    inference_privacy: str
    mechanisms: list[MechanismEntry]
    target: Target
    accounting: Annotated[list[AccountingEntry], Field(min_length=1)]
    selection: Selection
    uncounted: list[str]
    rng: Rng

    def to_json(self) -> dict[str, Any]:
        """A JSON object; `Statement.from_json` gives back an equal statement."""
        return self.model_dump(mode="json")

    @classmethod
    def from_json(cls, value: Any) -> "Statement":
        """The statement that `to_json` wrote. Raises GraphDPError, naming the first bad field."""
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the file"
            raise GraphDPError(
                f"not a privacy statement: {where}: {first['msg']}; write it anew with the workflow"
            ) from None


def differences(first: Any, second: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """Where two JSON values differ: (dotted path, first value, second value); None where absent."""
    if isinstance(first, list) and isinstance(second, list):
        first, second = ({str(i): v for i, v in enumerate(items)} for items in (first, second))
    if not (isinstance(first, dict) and isinstance(second, dict)):
        return [] if first == second else [(path, first, second)]
    found = []
    for key in dict.fromkeys([*first, *second]):
        where = f"{path}.{key}" if path else key
        found += differences(first.get(key), second.get(key), where)
    return found


def read_statements(path: str) -> list[Statement]:
    """The statements of a file: one JSON object, or a list of them.

    Raises GraphDPError if the file cannot be read, holds something else, or was altered since its
    study was run.
    """
    try:
        seals.check_if_sealed(path)
        value = io.read_json(path)
    except OSError as error:
        raise GraphDPError(f"{path}: {error.strerror or error}; give a statement's file") from None
    except (ValueError, RecursionError):
        raise GraphDPError(f"{path}: not JSON; give a statement's file") from None
    if value == []:
        raise GraphDPError(f"{path}: an empty list, without a statement; give a statement's file")
    try:
        return [Statement.from_json(v) for v in (value if isinstance(value, list) else [value])]
    except GraphDPError as error:
        raise GraphDPError(f"{path}: {error}") from None


def schema() -> dict[str, Any]:
    """The JSON schema of a statement."""
    return Statement.model_json_schema(mode="serialization")


if __name__ == "__main__":
    without_arguments("graphdp.privacy.statement_form", __doc__)
    io.write_json(SCHEMA, schema())
