"""DPDGC as its authors' code runs it, to show what the published accuracies rest on.

What differs from `methods/dpdgc.py`, read from that code: W is never brought to row norm c (a
temporary copy is), while the noise on A W is set for c = 1e-8; Z is not normalised; batches have a
fixed size, drawn without replacement; the noise of the embedding phase is 2√(D + 1) or 2√(k + 1)
times the multiplier, with the accounting of one record. So its ε is a claim that no analysis
supports, and its rows say so (basis "as implemented", status "refuted").

Two slips of that code are not repeated here: repeats after the first draw another, not orthonormal,
head, and nodes without neighbours shift the labels of the rows behind them.
"""

# Everything else is one code: it looks at the name of the method where the two differ.
from graphdp.methods.dpdgc import (
    OfficialEdge,
    OfficialNeighbors,
    OfficialNode,
    Public,
    embed,
    fit,
    plan_settings,
    release_settings,
)

LEVELS = {"none": Public, "edge": OfficialEdge, "k": OfficialNeighbors, "node": OfficialNode}
STAGES = ("embed",)
USES_GRAPH = True

__all__ = ["LEVELS", "STAGES", "USES_GRAPH", "embed", "fit", "plan_settings",
           "release_settings"]  # fmt: skip
