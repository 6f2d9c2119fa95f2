"""Training of blocks of models of equal shape as stacked tensors."""

from graphdp.ensemble.features import GraphInputs, StageInputs
from graphdp.ensemble.members import DPAdam, Fitted, FullBatch, Member
from graphdp.ensemble.networks import MLP, Encoder, HopClassifier, Sage, StageClassifier
from graphdp.ensemble.training import predict, train

__all__ = [
    "MLP",
    "DPAdam",
    "Encoder",
    "Fitted",
    "FullBatch",
    "GraphInputs",
    "HopClassifier",
    "Member",
    "Sage",
    "StageClassifier",
    "StageInputs",
    "predict",
    "train",
]
