"""Training of blocks of models of equal shape as stacked tensors."""

from graphdp.ensemble.features import StageInputs
from graphdp.ensemble.networks import MLP, Encoder, HopClassifier, StageClassifier
from graphdp.ensemble.training import Fitted, FullBatch, Member, PoissonDP, predict, train

__all__ = [
    "MLP",
    "Encoder",
    "Fitted",
    "FullBatch",
    "HopClassifier",
    "Member",
    "PoissonDP",
    "StageClassifier",
    "StageInputs",
    "predict",
    "train",
]
