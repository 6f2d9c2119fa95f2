"""What NoisyMean releases: one matrix, with discrete Gaussian noise."""

from typing import Any

from graphdp.privacy.assumptions import FEATURES_ARE_PUBLIC, SELECTION_IS_UNCOUNTED
from graphdp.privacy.mechanisms.discrete_gaussian import DiscreteGaussianRelease
from graphdp.privacy.plan import Plan, Sensitivity
from graphdp.privacy.plan_parts import check_known_level, not_private

ONLY_SUMS_ARE_RELEASED = (
    "Only the noisy sums are released; a prediction also reads the queried node's own features."
)
SPLIT_IS_INDEPENDENT = (
    "Which of the other nodes are training nodes, and which classes there are, does not depend on "
    "the protected node."
)


def noisymean_plan(level: str, feature_clip: float | None = None) -> Plan:
    """The sums of every class's clipped features, released once.

    edge: no edge is read, so nothing is released and ε = 0. none: no privacy, ε = ∞ only.
    Raises GraphDPError for an unknown level.
    """
    check_known_level("noisymean", level)
    if level == "none":
        return not_private("noisymean")
    if level == "edge":
        return Plan(
            method="noisymean",
            level="edge",
            adjacency="edge_directed",
            basis="corrected",
            status="proven",
            assumptions=(FEATURES_ARE_PUBLIC,),
            own_row_covered=None,
            mechanisms=(),
        )
    bound = Sensitivity(
        feature_clip,
        "C",
        "a node has one class, so it is in one sum, with features of norm C at most",
    )
    return Plan(
        method="noisymean",
        level="node",
        adjacency="node_add_remove",
        basis="corrected",  # nobody published it: an analysis that holds under its assumptions
        status="conditional",
        assumptions=(ONLY_SUMS_ARE_RELEASED, SPLIT_IS_INDEPENDENT, SELECTION_IS_UNCOUNTED),
        own_row_covered=None,
        mechanisms=(DiscreteGaussianRelease("sums of each class's features", bound, "sums"),),
    )


def analyses(level: str, settings: dict[str, Any], num_train: int | None) -> tuple[Plan, ...]:
    """Every analysis of it, the one that is stated first: here a single one.

    Without noise there is a second one: ε = 0 for the edges, which are not read.
    """
    plan = noisymean_plan(level, **settings)
    return (plan, noisymean_plan("edge")) if level == "none" else (plan,)
