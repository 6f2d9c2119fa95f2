"""One noise, several analyses: what a model's noise is worth under each basis.

The noise of a model is set once, for one plan (the reference, normally as published). A basis is
another plan of the same releases: other sensitivities, other numbers of steps, another adjacency.
At the same absolute noise the multiplier of a mechanism is inversely proportional to its
sensitivity, so under a basis it is

    noise multiplier (basis) = noise multiplier (reference) x Δ (reference) / Δ (basis).

For Gaussian releases this is exact: they compose to one Gaussian with μ² = Σ Δ² / std².

The number of rounds that the official code runs is read from its source (sisaman/GAP,
core/data/loader/poisson.py and core/trainer/trainer.py; sisaman/ProGAP and thupchnsky/dp-gnn,
core/data/loader/node.py); it was not executed here.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from graphdp.errors import GraphDPError
from graphdp.privacy import accounting, dpdgc, sensitivity
from graphdp.privacy.plan import (
    Composition,
    FixedSizeDPSGD,
    GaussianReleases,
    Mechanism,
    Plan,
    PoissonDPSGD,
    PoissonGroupDPSGD,
    PureRelease,
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

#: Releases of one noise multiplier each.
Parts = tuple[tuple[Composition, float], ...]

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

    That is the paper's, or for GAP on public candidates the corrected one, which the paper lacks.

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

    calibrate_for: "published" for the paper's, "corrected" for the first corrected analysis of
    `bases` with a finite ε; where there is none, the method's own stands as it is.

    Raises GraphDPError for another value of `calibrate_for`, and as `bases` does.
    """
    if calibrate_for not in ("published", "corrected"):
        raise GraphDPError(f"calibrate_for is {calibrate_for!r}; choose published or corrected")
    plans = bases(method, level, settings, num_train)
    if calibrate_for == "corrected":
        finite = (p for p in plans if p.basis == "corrected" and not p.composition.unnoised)
        return next(finite, plans[0])
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
        return (dpdgc.published_plan(level),)
    claim = dpdgc.published_plan(level, num_train=num_train, basis="as_implemented", **settings)
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


def _bound(mechanism: Mechanism) -> float | None:
    """What a mechanism's noise is measured in: its sensitivity, or None without noise."""
    match mechanism:
        case GaussianReleases() | PureRelease():
            return mechanism.sensitivity.value
        case PoissonDPSGD() | FixedSizeDPSGD() | WithoutReplacementDPSGD():
            return mechanism.max_grad_norm.value
        case PoissonGroupDPSGD():  # whatever the group: the noise is what is measured
            return mechanism.noise_per_clip * mechanism.max_grad_norm.value
        case UnnoisedRelease():
            return None


def parts(basis: Plan, reference: Plan, noise_multiplier: float) -> Parts:
    """The releases of `basis`, each with its own multiplier, at the noise set for `reference`.

    noise_multiplier: that of `reference`, ≥ 0. Mechanisms are matched by phase. Mechanisms that
    release nothing are left out, so a plan that releases nothing gives ().

    Raises GraphDPError when a phase of `basis` has no noise in `reference`.
    """
    if not noise_multiplier >= 0:  # also refuses NaN
        raise GraphDPError(f"noise multiplier is {noise_multiplier!r}; give a number of at least 0")
    noised = {mechanism.phase: _bound(mechanism) for mechanism in reference.mechanisms}
    groups: dict[float, list[Mechanism]] = {}
    for mechanism in basis.mechanisms:
        if mechanism.releases_nothing:
            continue
        bound, ratio = _bound(mechanism), 1.0
        if bound is not None:
            if noised.get(mechanism.phase) is None:
                raise GraphDPError(
                    f"{basis.method}, {basis.basis}: phase {mechanism.phase!r} has no noise in "
                    f"the reference plan; analyse the same releases"
                )
            ratio = noised[mechanism.phase] / bound
        groups.setdefault(noise_multiplier * ratio, []).append(mechanism)
    return tuple(
        (replace(basis, mechanisms=tuple(mechanisms)).composition, noise)
        for noise, mechanisms in groups.items()
    )


def epsilon_at(basis: Plan, reference: Plan, noise_multiplier: float, delta: float) -> float:
    """ε at `delta` under `basis` of a model whose noise was set for `reference`.

    Exactly 0 for a basis that releases nothing, ∞ without noise. Raises GraphDPError as `parts`
    and `accounting.check_delta` do.
    """
    return adjacent_epsilon(
        basis.adjacency, composed_epsilon, parts(basis, reference, noise_multiplier), delta
    )


def adjacent_epsilon(
    adjacency: str, epsilon: Callable[[Any, float], float], releases: Any, delta: float
) -> float:
    """`epsilon(releases, delta)`, read as `adjacency` needs it.

    releases: `Parts` or a list of them, whatever `epsilon` takes.

    Under node_replace the subsampled rounds do not have the worst case that the accountants know.
    So a replacement is taken as two moves, the node leaves and another one enters, each with half
    of the sensitivity. If both are (ε', δ')-DP, then with P, M and Q the chances of an event
    before, between and after: P ≤ e^ε' M + δ' ≤ e^2ε' Q + (1 + e^ε') δ', so the replacement is
    (2 ε', (1 + e^ε') δ')-DP. The largest δ' that fits `delta` is searched for.
    """
    delta = accounting.check_delta(delta)
    if adjacency != "node_replace" or not _subsamples(releases):
        return epsilon(releases, delta)
    one_move = _with_noise_doubled(releases)

    def excess(log_share: float) -> float:
        """How far, in logarithms, the δ of both moves is above the one that is allowed."""
        moved = epsilon(one_move, delta * math.exp(log_share))
        return log_share + float(np.logaddexp(0.0, moved))

    # δ' lies below δ / 2, and a smaller one is always allowed once it is small enough.
    low, high = -2.0, -math.log(2)
    while excess(low) > 0:
        low, high = 2 * low, low
        if delta * math.exp(low) < 1e-280:
            return math.inf
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) > 0 else (middle, high)
    return 2 * epsilon(one_move, delta * math.exp(low))


def _is_part(releases: Any) -> bool:
    return len(releases) == 2 and isinstance(releases[0], Composition)


def _subsamples(releases: Any) -> bool:
    if _is_part(releases):
        return bool(releases[0].sampled)
    return any(map(_subsamples, releases))


def _with_noise_doubled(releases: Any) -> Any:
    if _is_part(releases):
        return releases[0], 2 * releases[1]
    return tuple(map(_with_noise_doubled, releases))


def composed_epsilon(releases: Parts, delta: float) -> float:
    """ε at `delta` of several releases with a noise multiplier each, one record differing.

    Gaussian releases alone: the closed form. Pure ε alone: their sum. With groups (of which any
    number differ) or samples without replacement: the accountant that knows them. Otherwise
    autodp's Rényi DP, whose curves add up.
    """
    delta = accounting.check_delta(delta)
    releases = noised(releases)
    if releases is None:
        return math.inf
    if not releases:
        return 0.0
    if any(composition.grouped or composition.fixed for composition, _ in releases):
        return accounting.parts_epsilon(releases, delta)
    if all(composition.is_pure for composition, _ in releases):
        return sum(composition.pure / noise for composition, noise in releases)
    if all(composition.is_gaussian for composition, _ in releases):
        squares = sum(composition.gaussian / noise**2 for composition, noise in releases)
        return accounting.gaussian_epsilon(math.sqrt(squares), delta)
    curves = renyi_curves(releases)
    return smallest_epsilon(lambda order: sum(curve(order) for curve in curves), delta)


def noised(releases: Parts) -> Parts | None:
    """The releases that count: () if nothing is released, None if something has no noise."""
    releases = tuple(
        (composition, noise)
        for composition, noise in releases
        if not composition.is_empty and (noise != math.inf or composition.unnoised)
    )
    if any(composition.unnoised or noise == 0 for composition, noise in releases):
        return None
    return releases


def renyi_curves(releases: Parts) -> list[Callable[[float], float]]:
    """RDP(order) of each release, by autodp (groups by quadrature, samples of a fixed size by
    dp-accounting); every noise must be above 0 and finite."""

    def curve(composition: Composition, noise: float) -> Callable[[float], float]:
        if composition.grouped:
            return accounting.groups_rdp(composition, noise)
        if composition.fixed:
            return accounting.fixed_rdp(composition, noise)
        return accounting.autodp_rdp_curve(composition, noise)

    return [curve(composition, noise) for composition, noise in releases]


def smallest_epsilon(rdp: Callable[[float], float], delta: float) -> float:
    """ε at `delta` of an RDP curve: the conversion of `accounting`, at its orders."""

    def epsilon_of(order: float) -> float:
        return rdp(order) + math.log1p(-1 / order) - math.log(delta * order) / (order - 1)

    return max(0.0, accounting.smallest_over_orders(epsilon_of, accounting.RDP_ORDERS)[0])


def join(releases: Sequence[Parts]) -> Parts:
    """The releases of several models together."""
    return tuple(part for of_model in releases for part in of_model)
