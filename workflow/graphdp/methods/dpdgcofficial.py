"""DPDGC as its authors' code runs it, to show what the published accuracies rest on.

What differs from `methods/dpdgc.py`, read in that code (thupchnsky/dp-gnn):

- W is never brought to row norm c (a temporary copy is), while the noise on A W is set for c = 1e-8
- Z is not normalised
- batches have a fixed size, drawn without replacement; the noise of the embedding phase is
  2√(D + 1) or 2√(k + 1) times the multiplier, with the accounting of one record
- the classifier's MLP on the features has two layers (Appendix K: one); the embedding has an L2
  penalty (Appendix K: none), a head of another scale that all repeats share (`official_head`), and
  without privacy also a batch norm, on cSBM with dropout
- in the embedding phase a row of A without entries shifts the labels of the rows behind it: the
  loader numbers a batch's rows by where the row index of their entries changes

- at node level the columns of A are sampled, which bounds nothing (`graphdp.privacy.dpdgc`)

So its ε is a claim that no analysis supports, and its rows say so (basis "as implemented", status
"refuted"). Not repeated here: the classifier's loader drops the last, smaller batch of an epoch, so
that phase runs floor(N / B) rounds per epoch, and the embedding phase ceil(N / B), where in all
floor(epochs · N / B) are accounted for; at node level the column of the last node is lost.
"""

from pydantic import Field

# Everything else is one code: it looks at the name of the method where the two differ.
from graphdp.methods import dpdgc
from graphdp.methods.dpdgc import embed, fit, plan_settings, release_settings
from graphdp.methods.settings import PositiveInt

FEATURE_LAYERS = Field(2, description="linear layers on the features (MLP_X)")


class Public(dpdgc.Public):
    """DPDGC's code without privacy."""

    feature_layers: PositiveInt = FEATURE_LAYERS
    embedding_dropout: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="dropout of the embedding (0.5 on cSBM in the authors' scripts)",
    )


class Edge(dpdgc.OfficialEdge):
    """DPDGC's code at edge level."""

    feature_layers: PositiveInt = FEATURE_LAYERS


class Neighbors(dpdgc.OfficialNeighbors):
    """DPDGC's code at k-neighbour level, "k<number>"."""

    feature_layers: PositiveInt = FEATURE_LAYERS


class Node(dpdgc.OfficialNode):
    """DPDGC's code at node level."""

    feature_layers: PositiveInt = FEATURE_LAYERS


LEVELS = {"none": Public, "edge": Edge, "k": Neighbors, "node": Node}
STAGES = ("embed",)
USES_GRAPH = True

__all__ = ["LEVELS", "STAGES", "USES_GRAPH", "embed", "fit", "plan_settings",
           "release_settings"]  # fmt: skip
