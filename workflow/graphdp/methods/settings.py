"""Hyperparameters: the types that configs are validated against and that rows record."""

import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

PositiveInt = Annotated[int, Field(ge=1)]
NonNegativeInt = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Settings(BaseModel):
    """One setting of a method's hyperparameters (a point of the grid)."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class FullBatchTraining(Settings):
    """Adam over full batches (GAP, section 7.3: non-private and edge-level methods)."""

    hidden: PositiveInt = Field(16, description="width of every hidden layer")
    learning_rate: PositiveFloat = Field(0.01, description="Adam's step size")
    epochs: PositiveInt = Field(100, description="passes over the training nodes")


class PrivateTraining(Settings):
    """DP-Adam with Poisson sampling (GAP, section 7.3: node-level methods)."""

    hidden: PositiveInt = Field(16, description="width of every hidden layer")
    learning_rate: PositiveFloat = Field(0.01, description="Adam's step size")
    epochs: PositiveInt = Field(10, description="floor(epochs * N / batch_size) Poisson rounds")
    batch_size: PositiveInt = Field(256, description="expected size of a Poisson batch")
    max_grad_norm: PositiveFloat = Field(1.0, description="L2 clip of a node's gradient")


def key(values: dict[str, Any]) -> str:
    """Canonical JSON of hyperparameters: what rows store and artefacts are looked up by."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


def distinct(dicts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The distinct dictionaries of a list, in order of first appearance."""
    return list({key(d): d for d in dicts}.values())
