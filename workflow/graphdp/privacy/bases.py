"""Which plans are the analyses ("bases") of what a model releases.

The noise of a model is set once, for one plan (the reference, normally as published). A basis is
another plan of the same releases: other sensitivities, other numbers of steps, another adjacency.
What the noise is worth under each is in `graphdp.privacy.composition`.

The number of rounds that the official code runs is read from its source (sisaman/GAP,
core/data/loader/poisson.py and core/trainer/trainer.py; sisaman/ProGAP and thupchnsky/dp-gnn,
core/data/loader/node.py); it was not executed here.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from graphdp.errors import GraphDPError
from graphdp.privacy import dpdgc, sensitivity
from graphdp.privacy.plan import (
    GaussianReleases,
    Mechanism,
    Plan,
    PoissonDPSGD,
    PoissonGroupDPSGD,
    Sensitivity,
    UnnoisedRelease,
    WithoutReplacementDPSGD,
)
from graphdp.privacy.plans import (
    ROW_IS_WITHHELD,
    gap_plan,
    mlp_plan,
    progap_plan,
    sage_plan,
)

_COUPLED_SAMPLES = (
    "Batch size and number of rounds do not depend on whether the protected node is there. A batch "
    "of fixed size that it is drawn into is one without it in which it takes another node's place: "
    "so each round is dominated by a Poisson round of sensitivity 2C."
)
_OTHER_LISTS_STAY = (
    "The bounded out-lists of all other nodes do not depend on the protected node; in a "
    "symmetrised graph they do, since each of its edges stands in two lists."
)
_SAMPLED_ALONE = (
    "Every out-list is sampled without looking at any other list; so a list does not depend on "
    "whether the protected node takes part."
)
_OFFICIAL_PERTURBATION = (
    "The official code perturbs the two directed entries of an edge apart, so its ε counts twice; "
    "it also estimates a density per 500 of the n rows, with noise that is too small by the factor "
    "n / 500, so that even twice the ε is not reached."
)
_OFFICIAL_BATCHES = (
    "The official code partitions the shuffled training nodes into batches in each epoch, for "
    "which the hypergeometric bound over independent samples is no bound. What it does is worth "
    "one full Gaussian per epoch: all samples that a node is in may fall into one batch."
)
_OFFICIAL_POISSON = (
    "The official code (DPDGC's version of GAP's) draws floor(N / B) Poisson samples per epoch, "
    "for which the hypergeometric bound over samples of a fixed size is no bound. Here every "
    "sample that a node is in has a coin of its own."
)
_OFFICIAL_STEPS = (
    "The official code runs floor(N / B) rounds in each epoch and accounts "
    "floor(epochs · N / B) in all."
)


def bases(
    method: str, level: str, settings: dict[str, Any], num_train: int | None = None
) -> tuple[Plan, ...]:
    """Every analysis of what a model releases, the one that its method states first.

    That is the paper's; for what the paper lacks (GAP on public candidates, DPDGC with its groups
    counted) the corrected one; and for DPDGC's code, whose claim nobody printed, as implemented.

    method, level: as in the calibration, e.g. "gap", "node". settings: the plan's settings (a
    calibration entry's `settings`). num_train: number of training nodes; only node level reads it.

    as_implemented stands only where the official code's arithmetic differs from the paper's.
    corrected are the analyses that hold under their `assumptions`, and for GAP and ProGAP at node
    level also node_add_remove, for which no finite sensitivity survives sampling: its ε is ∞.

    At edge level the official ProGAP code releases what the paper says, so it has no as_implemented
    plan: it only accounts for it by Rényi DP, which asks for about 6 % more noise than is needed.

    Raises GraphDPError for an unknown method or level and for missing or wrong settings.
    """
    if method not in _BASES:
        raise GraphDPError(f"no bases for method {method!r}; known: {', '.join(_BASES)}")
    return _BASES[method](level, settings, num_train)


def calibration_plan(
    method: str, level: str, settings: dict[str, Any], num_train: int | None, calibrate_for: str
) -> Plan:
    """The analysis that a model's noise is calibrated for.

    calibrate_for: "published" for the one that the method states, "corrected" for the first
    corrected analysis of `bases` with a finite ε, at edge level of an undirected edge, so that all
    methods promise the same; where there is none, the method's own stands as it is.

    Raises GraphDPError for another value of `calibrate_for`, and as `bases` does.
    """
    if calibrate_for not in ("published", "corrected"):
        raise GraphDPError(f"calibrate_for is {calibrate_for!r}; choose published or corrected")
    plans = bases(method, level, settings, num_train)
    if calibrate_for == "corrected":
        finite = (p for p in plans if p.basis == "corrected" and not p.composition.unnoised)
        return min(finite, key=lambda p: p.adjacency == "edge_directed", default=plans[0])
    return plans[0]


def _gap(level: str, settings: dict[str, Any], num_train: int | None) -> tuple[Plan, ...]:
    return _perturbed(gap_plan(level, num_train=num_train, **settings), settings, num_train)


def _progap(level: str, settings: dict[str, Any], num_train: int | None) -> tuple[Plan, ...]:
    return _perturbed(progap_plan(level, num_train=num_train, **settings), settings, num_train)


def _perturbed(
    published: Plan, settings: dict[str, Any], num_train: int | None
) -> tuple[Plan, ...]:
    """The bases of a method with aggregation perturbation."""
    level = published.level
    if level == "none":
        return (published,)
    if level == "edge":
        both_entries = replace(
            published,
            adjacency="edge_undirected",
            basis="corrected",
            assumptions=(
                "Both directed entries of one undirected edge differ.",
                *published.assumptions[1:],
            ),
            mechanisms=_moved(published, sensitivity.edge_undirected()),
        )
        return published, both_entries
    max_degree = settings["max_degree"]
    lists, kept = published.assumptions[0], published.assumptions[2:]
    sampled = settings.get("degree_bound", "sampling") == "sampling"
    if published.adjacency == "node_replace":
        return _perturbed_for_replacement(published, settings, num_train)
    participant = replace(
        published,
        adjacency="participant",
        basis="corrected",
        status="conditional",
        assumptions=(_SAMPLED_ALONE if sampled else lists, ROW_IS_WITHHELD, *kept),
        mechanisms=_moved(published, sensitivity.participant(max_degree)),
    )
    replaced = replace(
        published,
        adjacency="node_replace",
        basis="corrected",
        status="conditional",
        assumptions=(_OTHER_LISTS_STAY if sampled else lists, ROW_IS_WITHHELD, *kept),
        mechanisms=_moved(published, sensitivity.node_replace(max_degree), replaced=True),
    )
    if not sampled:  # the bound holds as it is, and no other code has it
        return published, participant, replaced
    steps = _as_implemented(published, settings, num_train)
    return (published, *steps, participant, replaced, _unbounded(published))


def _perturbed_for_replacement(
    published: Plan, settings: dict[str, Any], num_train: int
) -> tuple[Plan, ...]:
    """The bases of a perturbed plan whose noise and samples are set for a replaced node.

    Replacement comes first: it is what the noise was set for, and holds where the lists of the
    other nodes stay. A node that takes part or not is then covered by the same noise.
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
            _SAMPLED_ALONE if sampled else lists, ROW_IS_WITHHELD, _COUPLED_SAMPLES, *kept
        ),
        mechanisms=_without_one(published, sensitivity.participant(max_degree)),
    )  # fmt: skip
    if not sampled:
        added = replace(
            participant,
            adjacency="node_add_remove",
            mechanisms=_without_one(published, sensitivity.public_candidates(max_degree)),
        )
        return published, participant, added
    replaced = replace(
        published,
        basis="corrected",
        status="conditional",
        assumptions=(_OTHER_LISTS_STAY, ROW_IS_WITHHELD, *kept),
    )
    steps = _as_implemented(published, settings, num_train)
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


def _mlp(level: str, settings: dict[str, Any], num_train: int | None) -> tuple[Plan, ...]:
    published = mlp_plan(level, num_train=num_train, **settings)
    if level == "none":
        # Without noise, but also without a look at the edges: ε = 0 for them.
        return published, mlp_plan("edge")
    if level == "edge":
        return (published,)
    steps = _as_implemented(published, settings, num_train)
    # Without edges, taking part or not is being there or not.
    if published.adjacency == "node_replace":
        added = replace(
            published,
            adjacency="node_add_remove",
            basis="corrected",
            assumptions=(_COUPLED_SAMPLES, *published.assumptions),
            mechanisms=_without_one(published, None),
        )
        holds = replace(published, basis="corrected")
        return (published, *steps, holds, replace(added, adjacency="participant"), added)
    participant = replace(published, adjacency="participant", basis="corrected")
    replaced = replace(
        published,
        adjacency="node_replace",
        basis="corrected",
        mechanisms=_moved(published, None, replaced=True),
    )
    return (published, *steps, participant, replaced)


def _sage(level: str, settings: dict[str, Any], num_train: int | None) -> tuple[Plan, ...]:
    published = sage_plan(level, num_train=num_train, **settings)
    if level == "none":
        return (published,)
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
    training, aggregation = published.mechanisms
    max_degree, clip = settings["max_degree"], settings["max_grad_norm"]

    def group_of(group: int, summed: Sensitivity) -> tuple[Mechanism, ...]:
        bound = sensitivity.clipped_group_gradient_sum(group, clip)
        return (
            replace(training, group=group, max_grad_norm=bound),
            replace(aggregation, sensitivity=summed),
        )

    kept = published.assumptions[2:]  # what is public, and what is not counted
    rounds: Mechanism = GaussianReleases(
        query=training.query,
        sensitivity=training.max_grad_norm,
        count=settings["epochs"],
        phase=training.phase,
    )
    batches = _OFFICIAL_BATCHES
    if published.adjacency == "node_replace":
        batches = _OFFICIAL_POISSON
        rounds = PoissonGroupDPSGD(
            query=training.query,
            sampling_rate=training.batch_size / training.population,
            steps=settings["epochs"] * max(1, training.population // training.batch_size),
            group_size=training.group,
            max_grad_norm=sensitivity.clipped_gradient_sum(clip),
            noise_per_clip=2 * training.group,
            phase=training.phase,
        )
    implemented = replace(
        published,
        basis="as_implemented",
        assumptions=(batches, *published.assumptions),
        mechanisms=(rounds, aggregation),
    )
    participant = replace(
        published,
        adjacency="participant",
        basis="corrected",
        status="conditional",
        assumptions=(_SAMPLED_ALONE, ROW_IS_WITHHELD, *kept),
        mechanisms=group_of(max_degree + 1, sensitivity.participant_both_bounded(max_degree)),
    )
    replaced = replace(
        published,
        adjacency="node_replace",
        basis="corrected",
        status="conditional",
        assumptions=(_OTHER_LISTS_STAY, ROW_IS_WITHHELD, *kept),
        mechanisms=group_of(2 * max_degree + 1, sensitivity.replace_both_bounded(max_degree)),
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
    return published, implemented, participant, replaced, unbounded


def _dpdgc(level: str, settings: dict[str, Any], num_train: int | None) -> tuple[Plan, ...]:
    reference = dpdgc.corrected_plan(level, num_train=num_train, **settings)
    if level != "edge":
        return (reference,)
    both = dpdgc.corrected_plan(level, num_train=num_train, undirected=True, **settings)
    return reference, both


def _dpdgcofficial(level: str, settings: dict[str, Any], num_train: int | None) -> tuple[Plan, ...]:
    if level == "none":
        return (dpdgc.implemented_plan(level),)
    claim = dpdgc.implemented_plan(level, num_train=num_train, **settings)
    return claim, dpdgc.implemented_bound(settings, num_train, level)


_BASES: dict[str, Callable[[str, dict[str, Any], int | None], tuple[Plan, ...]]] = {
    "gap": _gap,
    "mlp": _mlp,
    "progap": _progap,
    "sage": _sage,
    "dpdgc": _dpdgc,
    "dpdgcofficial": _dpdgcofficial,
}


def _moved(
    plan: Plan, aggregation: Sensitivity | None, replaced: bool = False
) -> tuple[Mechanism, ...]:
    """The plan's mechanisms with another sensitivity of the aggregations, and with `replaced` that
    of a replaced record of the Poisson rounds."""

    def moved(mechanism: Mechanism) -> Mechanism:
        if isinstance(mechanism, GaussianReleases) and aggregation is not None:
            return replace(mechanism, sensitivity=aggregation)
        if isinstance(mechanism, PoissonDPSGD) and replaced:
            bound = sensitivity.replaced_gradient_sum(mechanism.max_grad_norm.value)
            return replace(mechanism, max_grad_norm=bound)
        return mechanism

    return tuple(map(moved, plan.mechanisms))


def _without_one(plan: Plan, aggregation: Sensitivity | None) -> tuple[Mechanism, ...]:
    """The mechanisms of a plan with fixed-size samples, between data with and without one record r.

    Let the larger data have N records, of which a round draws B, and q = B / N. Without r a round
    is a Gaussian around the sum of a uniform set S of B others. With r it is the same with
    probability 1 - q, and else, S being as before, around that sum with a uniform member of S
    exchanged for r, which moves it by at most 2C. Given S and the member these are the two sides
    of a Poisson round at rate q with sensitivity 2C, and hockey-stick divergences are jointly
    convex. The bound grows with q, so that the smaller data may as well be the N records.
    """

    def one_less(mechanism: Mechanism) -> Mechanism:
        if not isinstance(mechanism, WithoutReplacementDPSGD):
            return mechanism
        same = {name: getattr(mechanism, name) for name in ("query", "steps", "phase")}
        rate, bound = mechanism.sampling_rate, mechanism.max_grad_norm
        return PoissonDPSGD(sampling_rate=rate, max_grad_norm=bound, **same)

    return tuple(map(one_less, _moved(plan, aggregation)))


def _as_implemented(published: Plan, settings: dict[str, Any], num_train: int) -> tuple[Plan, ...]:
    """The plan with the official code's number of DP-Adam steps; nothing where that is the same."""
    # The node loaders of the three repositories stop before a batch that would reach beyond N
    # (drop_last), also where it is a sample. With B > N they train on nothing.
    steps = settings["epochs"] * (num_train // settings["batch_size"])
    if not steps:
        return ()
    mechanisms = tuple(
        replace(m, steps=steps) if isinstance(m, PoissonDPSGD | WithoutReplacementDPSGD) else m
        for m in published.mechanisms
    )
    if mechanisms == published.mechanisms:
        return ()
    return (
        replace(
            published,
            basis="as_implemented",
            assumptions=(_OFFICIAL_STEPS, *published.assumptions),
            mechanisms=mechanisms,
        ),
    )
