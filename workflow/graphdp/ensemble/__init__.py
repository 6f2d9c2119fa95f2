"""Training of blocks of models of equal shape as stacked tensors."""

from graphdp.ensemble.networks import MLP, Encoder, HopClassifier
from graphdp.ensemble.training import Fitted, FullBatch, Member, PoissonDP, train

__all__ = [
    "MLP",
    "Encoder",
    "Fitted",
    "FullBatch",
    "HopClassifier",
    "Member",
    "PoissonDP",
    "train",
]
