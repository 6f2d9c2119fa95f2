"""NoisyMean: the class whose mean is nearest, where the means are released once with noise.

An example of a method, made to be copied. This file is its card; it imports no torch.
"""

from typing import Any

from pydantic import Field

from graphdp.methods.card import ROWS, Card, Stage, whole
from graphdp.methods.settings import PositiveFloat, Settings
from graphdp.privacy.protection import protects_nodes


class Means(Settings):
    """The hyperparameters, which are the same with and without privacy."""

    feature_clip: PositiveFloat = Field(1.0, description="C, the L2 clip of a node's features")


def plan_settings(level: str, setting: dict[str, Any]) -> dict[str, Any]:
    """What the plan reads of a setting. Settings that agree in it share a calibration."""
    return {"feature_clip": setting["feature_clip"]} if protects_nodes(level) else {}


CARDS = (
    Card(
        name="noisymean",
        title="NoisyMean",
        levels={"none": Means, "node": Means},
        plan=plan_settings,
        analyses="graphdp.methods.noisymean.plan:analyses",
        stages=(Stage("fit", "graphdp.methods.noisymean.method:fit", settings=whole, store=ROWS),),
        look=("#56b4e9", "P"),
        reads_edges=False,
        last_epoch=("none", "node"),  # there are no epochs to choose among
        level_titles={"none": "NoisyMean-∞", "edge": "NoisyMean", "node": "NoisyMean-NDP"},
        examples=("--level node --epsilon 4 --train-nodes 19800 --feature-clip 1",),
    ),
)
