"""Training of blocks of models of equal shape as stacked tensors."""

from graphdp.ensemble.features import StageInputs
from graphdp.ensemble.networks import MLP, Encoder, HopClassifier, StageClassifier
from graphdp.ensemble.training import DPAdam, Fitted, FullBatch, Member, predict, train

__all__ = [
    "MLP",
    "DPAdam",
    "Encoder",
    "Fitted",
    "FullBatch",
    "HopClassifier",
    "Member",
    "StageClassifier",
    "StageInputs",
    "predict",
    "train",
]
