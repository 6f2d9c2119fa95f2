"""Hyperparameters: the types that configs are validated against and that rows record."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

#: More than any graph has; and names of files hold the numbers, which Snakemake refuses where they
#: have 20 equal digits in a row. A field's own `le` would give way to it.
MOST = 10**9
PositiveInt = Annotated[int, Field(ge=1, le=MOST)]
NonNegativeInt = Annotated[int, Field(ge=0, le=MOST)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]

#: Of the baselines as DPDGC trains them without noise (its appendix K); GAP's have none.
DROPOUT = Field(None, gt=0, lt=1, description="dropout at every SELU, if any")


class Strict(BaseModel):
    """What configurations are made of: no unknown keys, and no true or false for a number."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _no_booleans(cls, values: Any) -> Any:
        if isinstance(values, dict):
            for name in values.keys() & _without_booleans(cls):
                if _holds_boolean(values[name]):
                    raise ValueError(f"{name}: a number or a name is needed, not true or false")
        return values


@cache
def _without_booleans(model: type[BaseModel]) -> frozenset[str]:
    fields = model.model_fields.items()
    return frozenset(name for name, info in fields if not _takes_booleans(info.annotation))


def _takes_booleans(annotation: Any) -> bool:
    if annotation in (bool, Any) or (
        isinstance(annotation, type) and issubclass(annotation, BaseModel)
    ):
        return True
    return any(isinstance(arg, bool) or _takes_booleans(arg) for arg in get_args(annotation))


def _holds_boolean(value: Any) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    return isinstance(value, bool) or (
        isinstance(value, list | tuple) and any(map(_holds_boolean, value))
    )


class Settings(Strict):
    """One setting of a method's hyperparameters (a point of the grid)."""

    #: Of `graphdp calibrate`: a count that the plan reads and that need not be given -> the one
    #: whose value it takes then, or "" for its own default.
    IF_NOT_GIVEN: ClassVar[Mapping[str, str]] = {}
    #: What is given in place of what: name -> another, beside which the name has no default.
    EITHER: ClassVar[Mapping[str, str]] = {}
    #: Of `graphdp calibrate`: an option of others that there is none of here -> what to give.
    INSTEAD: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def without_defaults(cls, values: dict, nothing: Any = None) -> dict:
        """`values` with `nothing` for what has none of its own beside what is given (`EITHER`)."""
        others = cls.EITHER.items()
        given = {name for name, other in others if values.get(other) not in (None, nothing)}
        return dict.fromkeys(given, nothing) | values

    @model_validator(mode="before")
    @classmethod
    def _no_default_beside_the_other(cls, values: Any) -> Any:
        return cls.without_defaults(values) if isinstance(values, dict) else values

    @model_validator(mode="after")
    def _one_of_either(self) -> Self:
        for name, other in self.EITHER.items():
            if (getattr(self, name) is None) == (getattr(self, other) is None):
                raise ValueError(f"give either {name} or {other}")
        return self


class FullBatchTraining(Settings):
    """Adam over full batches (GAP, section 7.3: non-private and edge-level methods)."""

    hidden: PositiveInt = Field(16, description="width of every hidden layer")
    learning_rate: PositiveFloat = Field(0.01, description="Adam's step size")
    epochs: PositiveInt = Field(100, description="passes over the training nodes")


class PrivateTraining(Settings):
    """DP-Adam over samples of the training nodes (GAP, section 7.3: node-level methods)."""

    hidden: PositiveInt = Field(16, description="width of every hidden layer")
    learning_rate: PositiveFloat = Field(0.01, description="Adam's step size")
    epochs: PositiveInt = Field(10, description="floor(epochs * N / batch_size) rounds of sampling")
    batch_size: PositiveInt = Field(256, description="(expected) size of a sampled batch")
    max_grad_norm: PositiveFloat = Field(1.0, description="L2 clip of a node's gradient")


class ReplaceableTraining(PrivateTraining):
    """As `PrivateTraining`, with a choice of what adjacent graphs differ in."""

    adjacency: Literal["node_add_remove", "node_replace"] | None = Field(
        "node_add_remove",
        validate_default=True,
        description="what the claim is about: a node there or not (Poisson batches), or "
        "node_replace, a node replaced (batches of a fixed size and sensitivities for that; as "
        "DPDGC runs its baselines)",
    )

    @field_validator("adjacency")
    @classmethod
    def _omit_default_adjacency(cls, value: str | None) -> str | None:
        return None if value == "node_add_remove" else value


def key(values: dict[str, Any]) -> str:
    """Canonical JSON of hyperparameters: what rows store and artefacts are looked up by."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


def distinct(dicts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The distinct dictionaries of a list, in order of first appearance."""
    return list({key(d): d for d in dicts}.values())
