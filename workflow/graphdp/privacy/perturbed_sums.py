"""Plans and analyses of methods with aggregation perturbation: noisy sums of neighbours' rows.

The noise of a model is set once, for one plan (the reference, normally as published). An analysis
is another plan of the same releases: other sensitivities, other numbers of steps, another
adjacency. What the noise is worth under each is in `graphdp.privacy.composition`.
"""

from dataclasses import replace
from typing import Any

from graphdp.privacy import sensitivity
from graphdp.privacy.assumptions import (
    EDGE_COUNT_IS_PUBLIC,
    FEATURES_ARE_PUBLIC,
    LISTS_ARE_SAMPLED_ALONE,
    OTHER_LISTS_STAY,
    ROW_IS_WITHHELD,
    SAMPLES_ARE_COUPLED,
    SELECTION_IS_UNCOUNTED,
    SIDES_FOLLOW_FROM_IDS,
    SIDES_STAY,
    TRAINING_COUNT_IS_PUBLIC,
)
from graphdp.privacy.plan import GaussianReleases, Plan, UnnoisedRelease
from graphdp.privacy.plan_parts import (
    PUBLISHED_SUM,
    check_given,
    check_known_level,
    dp_adam,
    not_private,
    with_official_steps,
    with_one_less,
    with_sensitivity,
)
from graphdp.privacy.protection import OWN_LIST_REPLACED, REPLACED, edges_alone, is_private


def published_plan(
    method: str,
    level: str,
    aggregations: int,
    before: tuple[str, ...],
    after: tuple[str, ...],
    max_degree: int | None,
    num_train: int | None,
    batch_size: int | None,
    epochs: int | None,
    max_grad_norm: float | None,
    adjacency: str = "node_add_remove",
) -> Plan:
    """The plan of a method with aggregation perturbation, as published.

    aggregations: number of noisy sums of unit-norm rows. before, after: the phases that train on
    private nodes (DP-Adam at node level), those before the first aggregation and the others.
    """
    check_known_level(method, level)
    if not is_private(level):
        return not_private(method)
    if edges_alone(level):
        aggregation = sensitivity.edge_directed()
    else:
        check_given(
            method,
            max_degree=max_degree,
            num_train=num_train,
            batch_size=batch_size,
            epochs=epochs,
            max_grad_norm=max_grad_norm,
        )
        aggregation = PUBLISHED_SUM[adjacency](max_degree)
    releases = GaussianReleases(
        query="sum of in-neighbours' unit-norm rows",
        sensitivity=aggregation,
        count=aggregations,
        phase="aggregation",
    )
    if edges_alone(level):
        return Plan(
            method=method,
            level="edge",
            adjacency="edge_directed",
            basis="as_published",
            status="proven",
            assumptions=(
                "One directed entry of the adjacency matrix differs; an undirected edge is two.",
                FEATURES_ARE_PUBLIC,
                EDGE_COUNT_IS_PUBLIC,
            ),
            own_row_covered=None,
            mechanisms=(releases,),
        )
    training = (num_train, batch_size, epochs, max_grad_norm, adjacency)
    return Plan(
        method=method,
        level="node",
        adjacency=adjacency,
        basis="as_published",
        status="refuted",
        assumptions=(
            "The out-degree bound of the other nodes does not depend on the protected node; "
            "random sampling of neighbours breaks this.",
            "The protected node's own row of each aggregate is not released.",
            TRAINING_COUNT_IS_PUBLIC,
            SELECTION_IS_UNCOUNTED,
        ),
        own_row_covered=False,
        mechanisms=(
            *(dp_adam(phase, *training) for phase in before),
            releases,
            *(dp_adam(phase, *training) for phase in after),
        ),
    )


def all_analyses(
    published: Plan, settings: dict[str, Any], num_train: int | None
) -> tuple[Plan, ...]:
    """The bases of a method with aggregation perturbation."""
    level = published.level
    if not is_private(level):
        return (published,)
    if edges_alone(level):
        both_entries = replace(
            published,
            adjacency="edge_undirected",
            basis="corrected",
            assumptions=(
                "Both directed entries of one undirected edge differ.",
                *published.assumptions[1:],
            ),
            mechanisms=with_sensitivity(published, sensitivity.edge_undirected()),
        )
        return published, both_entries
    max_degree = settings["max_degree"]
    if published.adjacency == "node_replace":
        return _for_replacement(published, settings, num_train)
    lists = published.assumptions[0]
    # Between graphs with the same nodes sides are the same.
    kept = tuple(one for one in published.assumptions[2:] if one != SIDES_FOLLOW_FROM_IDS)
    sampled = settings.get("degree_bound", "sampling") == "sampling"
    participant = replace(
        published,
        adjacency="participant",
        basis="corrected",
        status="conditional",
        assumptions=(LISTS_ARE_SAMPLED_ALONE if sampled else lists, ROW_IS_WITHHELD, *kept),
        mechanisms=with_sensitivity(published, sensitivity.participant(max_degree)),
    )
    # What is sampled anew in others' lists when the edges to a node change has no bound.
    replaced = replace(
        published,
        adjacency=OWN_LIST_REPLACED if sampled else REPLACED,
        basis="corrected",
        status="conditional",
        assumptions=(OTHER_LISTS_STAY if sampled else lists, ROW_IS_WITHHELD, *kept),
        mechanisms=with_sensitivity(published, sensitivity.node_replace(max_degree), replaced=True),
    )
    if not sampled:  # the bound holds as it is, and no other code has it
        return published, participant, replaced
    steps = with_official_steps(published, settings, num_train)
    return (published, *steps, participant, replaced, _unbounded(published))


def _for_replacement(published: Plan, settings: dict[str, Any], num_train: int) -> tuple[Plan, ...]:
    """The bases of a perturbed plan whose noise and samples are set for a replaced node.

    Where lists are sampled the noise covers a node replaced with its own list, not with the edges
    to it that others hold: that comes first, then a node that takes part or not.
    """
    max_degree = settings["max_degree"]
    lists, kept = published.assumptions[0], published.assumptions[2:]
    sampled = settings.get("degree_bound", "sampling") == "sampling"
    participant = replace(
        published,
        adjacency="participant",
        basis="corrected",
        status="conditional",
        assumptions=(
            LISTS_ARE_SAMPLED_ALONE if sampled else lists,
            ROW_IS_WITHHELD,
            SAMPLES_ARE_COUPLED,
            *kept,
        ),
        mechanisms=with_one_less(published, sensitivity.participant(max_degree)),
    )
    if not sampled:
        added = replace(
            participant,
            adjacency="node_add_remove",
            assumptions=(lists, ROW_IS_WITHHELD, SIDES_STAY, SAMPLES_ARE_COUPLED, *kept),
            mechanisms=with_one_less(published, sensitivity.public_candidates(max_degree)),
        )
        return published, participant, added
    replaced = replace(
        published,
        adjacency=OWN_LIST_REPLACED,
        basis="corrected",
        status="conditional",
        assumptions=(OTHER_LISTS_STAY, ROW_IS_WITHHELD, *kept),
    )
    steps = with_official_steps(published, settings, num_train)
    return (published, *steps, replaced, participant, _unbounded(published))


def _unbounded(published: Plan) -> Plan:
    """What is known of an added or removed node where lists are sampled: nothing."""
    return replace(
        published,
        adjacency="node_add_remove",
        basis="corrected",
        assumptions=(
            "No finite sensitivity is known for lists bounded by random sampling: removing one of "
            "D + 1 common neighbours moves the sum by m · sqrt(D) / (D + 1), without bound in m.",
        ),
        mechanisms=(
            UnnoisedRelease(query="sums over randomly bounded lists", phase="aggregation"),
        ),
    )
