"""What MLP and MLP-DP release, and all analyses of that."""

from dataclasses import replace
from typing import Any

from graphdp.privacy.assumptions import (
    FEATURES_ARE_PUBLIC,
    SAMPLES_ARE_COUPLED,
    SELECTION_IS_UNCOUNTED,
    TRAINING_COUNT_IS_PUBLIC,
)
from graphdp.privacy.plan import Plan
from graphdp.privacy.plan_parts import (
    check_adjacency,
    check_given,
    check_known_level,
    dp_adam,
    not_private,
    with_official_steps,
    with_one_less,
    with_sensitivity,
)


def mlp_plan(
    level: str,
    num_train: int | None = None,
    batch_size: int | None = None,
    epochs: int | None = None,
    max_grad_norm: float | None = None,
    adjacency: str = "node_add_remove",
) -> Plan:
    """The graph-free baselines MLP and MLP-DP (GAP, section 7.2).

    edge: the edges are never read, so nothing is released about them and ε = 0.
    node: one DP-Adam phase over the training nodes: Poisson samples, or with `adjacency`
        "node_replace" (as DPDGC, section 6, runs it) samples of a fixed size and sensitivity 2C.
    none: no privacy, ε = ∞ only.

    Units: num_train, batch_size and epochs are counts; max_grad_norm is an L2 norm. Only node
    level reads them. Raises GraphDPError for a missing, wrong or unknown setting.
    """
    check_known_level("mlp", level)
    check_adjacency("mlp", adjacency)
    if level == "none":
        return not_private("mlp")
    if level == "edge":
        return Plan(
            method="mlp",
            level="edge",
            adjacency="edge_directed",
            basis="as_published",
            status="proven",
            assumptions=(FEATURES_ARE_PUBLIC,),
            own_row_covered=None,
            mechanisms=(),
        )
    check_given(
        "mlp",
        num_train=num_train,
        batch_size=batch_size,
        epochs=epochs,
        max_grad_norm=max_grad_norm,
    )
    return Plan(
        method="mlp",
        level="node",
        adjacency=adjacency,
        basis="as_published",
        status="conditional",
        assumptions=(
            "Only the weights are released; a prediction also reads the queried node's features.",
            TRAINING_COUNT_IS_PUBLIC,
            SELECTION_IS_UNCOUNTED,
        ),
        own_row_covered=None,
        mechanisms=(
            dp_adam("classifier", num_train, batch_size, epochs, max_grad_norm, adjacency),
        ),
    )


def analyses(level: str, settings: dict[str, Any], num_train: int | None) -> tuple[Plan, ...]:
    published = mlp_plan(level, num_train=num_train, **settings)
    if level == "none":
        # Without noise, but also without a look at the edges: ε = 0 for them.
        return published, mlp_plan("edge")
    if level == "edge":
        return (published,)
    steps = with_official_steps(published, settings, num_train)
    # Without edges, taking part or not is being there or not.
    if published.adjacency == "node_replace":
        added = replace(
            published,
            adjacency="node_add_remove",
            basis="corrected",
            assumptions=(SAMPLES_ARE_COUPLED, *published.assumptions),
            mechanisms=with_one_less(published, None),
        )
        holds = replace(published, basis="corrected")
        return (published, *steps, holds, replace(added, adjacency="participant"), added)
    participant = replace(published, adjacency="participant", basis="corrected")
    replaced = replace(
        published,
        adjacency="node_replace",
        basis="corrected",
        mechanisms=with_sensitivity(published, None, replaced=True),
    )
    return (published, *steps, participant, replaced)
