"""Training of blocks of models of equal shape as stacked tensors."""

from graphdp.training.features import GraphInputs, StageInputs
from graphdp.training.fit import predict, train
from graphdp.training.members import DPAdam, Fitted, FullBatch, Member
from graphdp.training.networks import (
    MLP,
    Encoder,
    HopClassifier,
    JumpingSage,
    Sage,
    StageClassifier,
)

__all__ = [
    "MLP",
    "DPAdam",
    "Encoder",
    "Fitted",
    "FullBatch",
    "GraphInputs",
    "HopClassifier",
    "JumpingSage",
    "Member",
    "Sage",
    "StageClassifier",
    "StageInputs",
    "predict",
    "train",
]
