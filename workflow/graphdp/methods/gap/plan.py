"""What GAP releases at each level, and all analyses of that.

The number of rounds that the official code runs is read from its source (sisaman/GAP,
core/data/loader/poisson.py and core/trainer/trainer.py; thupchnsky/dp-gnn,
core/data/loader/node.py); it was not executed here.
"""

from dataclasses import replace
from typing import Any

from graphdp.errors import GraphDPError, one_of
from graphdp.privacy import sensitivity
from graphdp.privacy.assumptions import (
    CANDIDATES_ARE_PUBLIC,
    ROW_IS_WITHHELD,
    SIDES_FOLLOW_FROM_IDS,
)
from graphdp.privacy.perturbed_sums import all_analyses, published_plan
from graphdp.privacy.plan import GaussianReleases, Plan
from graphdp.privacy.plan_parts import check_adjacency, with_sensitivity

#: What bounds a node's out-degree: GAP's sample of its edges, or candidates drawn without them.
DEGREE_BOUNDS = ("sampling", "public_candidates")
#: Of a row of an aggregate: how many terms the noise is for.
DIFFERING_TERMS = ("one", "all")
_FEW_TERMS = (
    "Every row of an aggregate sums at most D + 1 rows, the protected node's own among them; only "
    "out-degrees are bounded, so it may sum as many as there are nodes."
)


def gap_plan(
    level: str,
    hops: int,
    max_degree: int | None = None,
    num_train: int | None = None,
    batch_size: int | None = None,
    epochs: int | None = None,
    max_grad_norm: float | None = None,
    encoder: bool = True,
    degree_bound: str = "sampling",
    adjacency: str = "node_add_remove",
    differing_terms: str = "one",
) -> Plan:
    """GAP (Sajadmanesh et al., USENIX Security 2023) as published, or with another degree bound.

    edge: `hops` noisy aggregations, sensitivity 1 (Theorem 1). Encoder and classifier read public
        features and labels and the noisy aggregates: post-processing.
    node: DP-Adam for the encoder (left out when `encoder` is False), `hops` noisy aggregations
        with sensitivity √max_degree (Theorem 2), DP-Adam for the classifier (Proposition 3).
        Both phases have the same settings (section 7.3). The claim is refuted under
        node_add_remove: see `sensitivity.node_add_remove_as_published`. With `degree_bound`
        "public_candidates" the same noise holds (`sensitivity.public_candidates`): basis
        corrected, status conditional.
        With `adjacency` "node_replace" it is GAP as DPDGC (NeurIPS 2023) analyses and runs it
        (Theorem 5.1, Corollary H.5): aggregations with sensitivity 2√max_degree, DP-Adam over
        samples of a fixed size without replacement with sensitivity 2C. That claim is refuted as
        well: whoever is replaced may leave the lists of others, who then keep other neighbours.
        With `differing_terms` "all" the aggregations have 2 (D + 1) times the noise, as PNPiGNNs
        (S&P 2024, section 6.2) corrects GAP: a claim of theirs, refuted
        (`sensitivity.all_terms_as_claimed`).
    none: no privacy, ε = ∞ only.

    Units: hops, max_degree, num_train, batch_size and epochs are counts; max_grad_norm is an L2
    norm. Edge level reads `hops` alone, level none nothing.
    Raises GraphDPError for a missing, wrong or unknown setting.
    """
    one_of("gap: degree_bound", degree_bound, DEGREE_BOUNDS)
    check_adjacency("gap", adjacency)
    training = (num_train, batch_size, epochs, max_grad_norm, adjacency)
    published = published_plan(
        "gap", level, hops, ("encoder",) if encoder else (), ("classifier",), max_degree, *training
    )
    one_of("gap: differing_terms", differing_terms, DIFFERING_TERMS)
    if level == "node" and differing_terms == "all":
        if degree_bound != "sampling" or adjacency != "node_add_remove":
            raise GraphDPError(
                "gap: differing_terms all is for lists that are sampled and nodes added or "
                "removed; leave degree_bound and adjacency out"
            )
        bound = sensitivity.all_terms_as_claimed(max_degree)
        return replace(
            published,
            assumptions=(published.assumptions[0], _FEW_TERMS, *published.assumptions[2:]),
            mechanisms=with_sensitivity(published, bound),
        )
    if level != "node" or degree_bound == "sampling":
        return published
    bound, sides = sensitivity.public_candidates(max_degree), [SIDES_FOLLOW_FROM_IDS]
    if adjacency == "node_replace":  # the lists of others stay, so the published bound holds
        bound, sides = sensitivity.node_replace(max_degree), []
    return replace(
        published,
        basis="corrected",
        status="conditional",
        assumptions=(CANDIDATES_ARE_PUBLIC, ROW_IS_WITHHELD, *sides, *published.assumptions[2:]),
        mechanisms=tuple(
            replace(mechanism, sensitivity=bound)
            if isinstance(mechanism, GaussianReleases)
            else mechanism
            for mechanism in published.mechanisms
        ),
    )


def analyses(level: str, settings: dict[str, Any], num_train: int | None) -> tuple[Plan, ...]:
    return all_analyses(gap_plan(level, num_train=num_train, **settings), settings, num_train)
