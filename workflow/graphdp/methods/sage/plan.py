"""What the GraphSAGE baselines release at each level, and all analyses of that."""

from dataclasses import replace
from typing import Any

from graphdp.errors import one_of
from graphdp.privacy import sensitivity
from graphdp.privacy.assumptions import (
    EDGE_COUNT_IS_PUBLIC,
    FEATURES_ARE_PUBLIC,
    LISTS_ARE_SAMPLED_ALONE,
    OTHER_LISTS_STAY,
    ROW_IS_WITHHELD,
    SELECTION_IS_UNCOUNTED,
    TRAINING_COUNT_IS_PUBLIC,
)
from graphdp.privacy.plan import (
    FixedSizeDPSGD,
    GaussianReleases,
    Mechanism,
    Plan,
    PureRelease,
    Sensitivity,
    UnnoisedRelease,
    dpsgd_rounds,
)
from graphdp.privacy.plan_parts import (
    PUBLISHED_SUM,
    check_adjacency,
    check_given,
    check_known_level,
    not_private,
)
from graphdp.privacy.protection import OWN_LIST_REPLACED, REPLACED

#: What predictions read of neighbours: a noisy sum, or all without noise.
INFERENCES = ("noisy", "exact")
#: What DP-GNN clips: samples, or rows of the union of a batch's sub-graphs.
CLIPPINGS = ("samples", "rows")
EXACT_INFERENCE = (
    "Only the weights are released; predictions read neighbours without noise, and what they tell "
    "of any node's features and edges is not counted."
)
#: perturbation -> what each part of it releases: phase -> (query, share of ε).
_PERTURBATIONS = {
    # GAP's code gives a tenth of ε to the density; Wu et al. a hundredth to the count.
    "asymmetric": {
        "density": ("number of undirected edges", 0.1),
        "link": ("every pair of nodes, by randomised response with thinned ones", 0.9),
    },
    "edge_rand": {"link": ("every pair of nodes, by randomised response", 1.0)},
    "lap_graph": {
        "density": ("number of undirected edges", 0.01),
        "link": ("every pair of nodes, with Laplace noise", 0.99),
    },
    "asymmetric_chunks": {
        "density": ("number of directed entries in each 500 rows", 0.1),
        "link": ("every ordered pair of nodes, by randomised response with thinned ones", 0.9),
    },
}
_CHUNKS = (
    "Each 500 of the n rows have a noisy density of their own, whose noise is that for a density "
    "of the whole matrix, too small by the factor n / 500 (n / r where only r rows are left). So "
    "an entry costs 0.9 ε + 0.1 ε n / r, with r of the smallest chunk, and an undirected edge "
    "twice that, which grows with the graph."
)


def sage_plan(
    level: str,
    perturbation: str = "asymmetric",
    max_degree: int | None = None,
    num_train: int | None = None,
    batch_size: int | None = None,
    epochs: int | None = None,
    max_grad_norm: float | None = None,
    adjacency: str = "node_add_remove",
    directed: bool | None = None,
    inference: str = "noisy",
) -> Plan:
    """The GraphSAGE baselines (GAP, section 7.2) as published.

    edge: one perturbed graph (Wu et al. 2022; `graphdp.graphs.perturbation`), all else is
        post-processing. Every undirected edge is perturbed once, with `directed` every directed
        one; pure ε, so the noise multiplier is 1 / ε.
    node: DP-GNN (Daigavane et al. 2021), one message-passing layer over lists bounded by max_degree
        both ways: floor(epochs · N / B) DP-Adam steps over fixed-size samples of the training
        nodes. A node is in its own sub-graph and in those of at most max_degree others, so
        N_g = max_degree + 1 samples depend on it. Then one noisy sum for inference, cached, with
        sensitivity √max_degree (GAP, section 7.2 and Theorem 2). One noise multiplier for both
        (GAP, section 7.3). The claim is refuted under node_add_remove for GAP's reason: see
        `sensitivity.node_add_remove_as_published`. With `adjacency` "node_replace" the noisy sum
        has sensitivity 2√max_degree, as in DPDGC's code; training is the same, since its bound
        2 N_g C lets every sample that a node is in change. Refuted for the same reason. With
        `inference` "exact" (Daigavane et al.; NDP in PNPiGNNs, section 5.1) no sum is released and
        the plan is about the weights alone: predictions read neighbours without noise.
    none: no privacy, ε = ∞ only.

    Units: max_degree, num_train, batch_size and epochs are counts; max_grad_norm is an L2 norm.
    Raises GraphDPError for a missing, wrong or unknown setting.
    """
    check_known_level("sage", level)
    check_adjacency("sage", adjacency)
    if level == "none":
        return not_private("sage")
    if level == "edge":
        one_of("sage: perturbation", perturbation, _PERTURBATIONS)
        chunks = perturbation == "asymmetric_chunks"
        return Plan(
            method="sage",
            level="edge",
            adjacency="edge_directed",
            basis="as_published",
            status="refuted" if chunks else "proven",
            assumptions=(*[_CHUNKS] * chunks, FEATURES_ARE_PUBLIC, EDGE_COUNT_IS_PUBLIC),
            own_row_covered=None,
            mechanisms=tuple(
                PureRelease(query, sensitivity.perturbed_pairs(1), share, phase)
                for phase, (query, share) in _PERTURBATIONS[perturbation].items()
            ),
        )
    check_given(
        "sage",
        max_degree=max_degree,
        num_train=num_train,
        batch_size=batch_size,
        epochs=epochs,
        max_grad_norm=max_grad_norm,
    )
    one_of("sage: inference", inference, INFERENCES)
    _, steps = dpsgd_rounds(num_train, batch_size, epochs)
    group = max_degree + 1
    exact = inference == "exact"
    summed = GaussianReleases(
        query="sum of in-neighbours' unit-norm rows, for inference",
        sensitivity=PUBLISHED_SUM[adjacency](max_degree),
        count=1,
        phase="aggregation",
    )
    return Plan(
        method="sage",
        level="node",
        adjacency=adjacency,
        basis="as_published",
        status="refuted",
        assumptions=(
            "The bounded lists of the other nodes do not depend on the protected node; "
            "random sampling of neighbours breaks this.",
            EXACT_INFERENCE
            if exact
            else "The protected node's own row of the aggregate is not released.",
            TRAINING_COUNT_IS_PUBLIC,
            SELECTION_IS_UNCOUNTED,
        ),
        own_row_covered=None if exact else False,
        mechanisms=(
            FixedSizeDPSGD(
                query="sum of clipped gradients of sub-graphs",
                population=num_train,
                batch_size=min(batch_size, num_train),
                group=group,
                steps=steps,
                max_grad_norm=sensitivity.clipped_group_gradient_sum(group, max_grad_norm),
                phase="classifier",
            ),
            *(() if exact else (summed,)),
        ),
    )


_OFFICIAL_PERTURBATION = (
    "The official code perturbs the two directed entries of an edge apart, so its ε counts twice; "
    "it also estimates a density per 500 of the n rows, with noise that is too small by the factor "
    "n / 500, so that even twice the ε is not reached."
)
_ROWS_ARE_CLIPPED = (
    "The official code clips, of each batch, the gradient of every row of the union of its "
    "sub-graphs, not that of every sample. "
)
_BOUNDED_ROWS = _ROWS_ARE_CLIPPED + (
    "A changed sample has at most D + 1 rows before and after, so it counts 2 (D + 1) times."
)
_UNION_ROWS = _ROWS_ARE_CLIPPED + (
    "A node's label turns the rows of all its in-neighbours, and in-degrees are not bounded: no "
    "finite number of rows is known."
)
_EVERY_ROUND = (
    "Here every round counts as a full Gaussian: all samples that a node is in may be in its batch."
)
_OFFICIAL_BATCHES = (
    "The official code partitions the shuffled training nodes into batches in each epoch, for "
    "which the hypergeometric bound over independent samples is no bound. " + _EVERY_ROUND
)
_OFFICIAL_POISSON = (
    "The official code (DPDGC's version of GAP's) draws floor(N / B) Poisson samples per epoch, "
    "for which the hypergeometric bound over samples of a fixed size is no bound. " + _EVERY_ROUND
)


def analyses(level: str, settings: dict[str, Any], num_train: int | None) -> tuple[Plan, ...]:
    """All analyses of `sage_plan`, which says what the settings are, that as published first.

    With `clipping` "rows" at node level rows are clipped instead of samples, as the authors' code
    does it: the claim is the same, and what holds is worth far less; no corrected analysis.
    Raises GraphDPError for a wrong setting.
    """
    settings = dict(settings)
    clipping = settings.pop("clipping", "samples")
    one_of("sage: clipping", clipping, CLIPPINGS)
    published = sage_plan(level, num_train=num_train, **settings)
    if level == "none":
        return (published,)
    if level == "edge" and settings["perturbation"] == "asymmetric_chunks":
        density, link = published.mechanisms
        own = UnnoisedRelease(density.query, density.phase)
        one, both = (
            replace(
                published,
                adjacency=adjacency,
                basis="as_implemented",
                mechanisms=(own, replace(link, sensitivity=sensitivity.perturbed_pairs(entries))),
            )
            for entries, adjacency in enumerate(("edge_directed", "edge_undirected"), 1)
        )
        return published, one, both
    if level == "edge":
        twice = tuple(
            replace(m, sensitivity=sensitivity.perturbed_pairs(2)) for m in published.mechanisms
        )
        apart = bool(settings.get("directed"))
        undirected = replace(
            published,
            adjacency="edge_undirected",
            basis="corrected",
            assumptions=(
                "The two directed entries of an edge are perturbed apart."
                if apart
                else "Every pair of nodes is perturbed once, for both of its directed entries.",
                *published.assumptions,
            ),
            mechanisms=twice if apart else published.mechanisms,
        )
        if settings["perturbation"] != "asymmetric":
            return published, undirected
        implemented = replace(
            undirected,
            basis="as_implemented",
            status="refuted",
            assumptions=(_OFFICIAL_PERTURBATION, *published.assumptions),
            mechanisms=twice,
        )
        return published, implemented, undirected
    training, *aggregation = published.mechanisms  # none for inference without noise
    max_degree, clip = settings["max_degree"], settings["max_grad_norm"]

    def group_of(group: int, summed: Sensitivity) -> tuple[Mechanism, ...]:
        bound = sensitivity.clipped_group_gradient_sum(group, clip)
        return (
            replace(training, group=group, max_grad_norm=bound),
            *(replace(one, sensitivity=summed) for one in aggregation),
        )

    kept = published.assumptions[2:]  # what is public, and what is not counted
    withheld = ROW_IS_WITHHELD if aggregation else EXACT_INFERENCE
    replacing = group_of(2 * max_degree + 1, sensitivity.replace_both_bounded(max_degree))
    batches, samples, sums = _OFFICIAL_BATCHES, training.group, aggregation
    if published.adjacency == "node_replace":
        batches, samples, (_, *sums) = _OFFICIAL_POISSON, 2 * max_degree + 1, replacing
    rows = GaussianReleases(
        query="sum of clipped gradients of rows",
        sensitivity=sensitivity.clipped_union_rows(samples, max_degree, clip),
        count=training.steps,
        phase=training.phase,
    )
    implemented = replace(
        published,
        basis="as_implemented",
        assumptions=(_BOUNDED_ROWS, batches, *published.assumptions),
        mechanisms=(rows, *sums),
    )
    if clipping == "rows":
        return replace(published, assumptions=(_BOUNDED_ROWS, *published.assumptions)), implemented
    participant = replace(
        published,
        adjacency="participant",
        basis="corrected",
        status="conditional",
        assumptions=(LISTS_ARE_SAMPLED_ALONE, withheld, *kept),
        mechanisms=group_of(max_degree + 1, sensitivity.participant_both_bounded(max_degree)),
    )
    replaced = replace(
        published,
        adjacency=OWN_LIST_REPLACED,
        basis="corrected",
        status="conditional",
        assumptions=(OTHER_LISTS_STAY, withheld, *kept),
        mechanisms=replacing,
    )
    unbounded = replace(
        published,
        adjacency="node_add_remove",
        basis="corrected",
        assumptions=(
            "No finite number of samples is known to depend on a node whose removal lets others "
            "take its place in the lists of its in-neighbours.",
        ),
        mechanisms=(
            UnnoisedRelease(query="sub-graphs of randomly bounded lists", phase="classifier"),
        ),
    )
    # The first corrected one is of what the claim promises.
    corrected = (participant, replaced)
    if published.adjacency == "node_replace":
        corrected = (replaced, participant)
    return published, implemented, *corrected, unbounded


def progaps_analyses(
    level: str, settings: dict[str, Any], num_train: int | None
) -> tuple[Plan, ...]:
    """The bases of ProGAP's baselines (its section 5.2).

    edge: EdgeRand releases what `sage` does. node: DP-GNN's rounds are those of `sage` with exact
    inference. That it bounds out-degrees alone changes no number: with lists sampled alone, node
    r's row enters the sub-graphs of its at most D kept out-neighbours and its own, N_g = D + 1,
    however long in-lists are. Those D lose the row of r where r takes no part (bounded in-lists let
    another take its place), which `sensitivity.clipped_group_gradient_sum` covers: 2C each. Where a
    node is removed others sample anew, and how many is not bounded, as for `sage`.
    """
    exact = {"inference": "exact"} if level == "node" else {}
    plans = [replace(p, method="progapsage") for p in analyses(level, settings | exact, num_train)]
    if level != "node":
        return tuple(plans)
    published, _, *corrected = plans  # what `sage` has as implemented is of GAP's code
    return published, _of_union_rows(published), *corrected


def progaps_implemented(
    level: str, settings: dict[str, Any], num_train: int | None
) -> tuple[Plan, ...]:
    """The bases of ProGAP's baselines as its code runs them (sisaman/ProGAP, core/methods/gnn): the
    printed ε, and that none is known to hold, of EdgeRand's chunks or DP-GNN's rows."""
    plans = progaps_analyses(level, settings, num_train)
    if level == "node":
        claim = replace(plans[0], assumptions=_of_union_rows(plans[0]).assumptions)
        others = (replace(claim, adjacency=a) for a in ("participant", REPLACED))
        plans = (claim, *map(_of_union_rows, (claim, *others)))
    return tuple(replace(plan, method="progapsageofficial") for plan in plans)


def _of_union_rows(published: Plan) -> Plan:
    """What is known of DP-GNN's rounds where rows are clipped: nothing."""
    (rounds,) = published.mechanisms
    return replace(
        published,
        basis="as_implemented",
        assumptions=(_UNION_ROWS, *published.assumptions[1:]),
        mechanisms=(UnnoisedRelease(query=rounds.query, phase=rounds.phase),),
    )
