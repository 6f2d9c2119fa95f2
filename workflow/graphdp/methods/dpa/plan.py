"""What DPA-GNN releases at each level, and all analyses of that.

The sensitivities, and why what the parties do suffices, are in `graphdp.privacy.pair_sums`. What
is published, and what the authors' code does, is in `published_plan`.
"""

import math
from dataclasses import replace
from typing import Any

from graphdp.errors import GraphDPError, one_of
from graphdp.privacy.assumptions import (
    BOUND_IS_COUNTED,
    EDGE_COUNT_IS_PUBLIC,
    FEATURES_ARE_PUBLIC,
    SELECTION_IS_UNCOUNTED,
)
from graphdp.privacy.mechanisms.distributed_gaussian import check_parties
from graphdp.privacy.pair_sums import (
    MOST_LENGTH,
    count_sensitivity,
    length_sensitivity,
    sum_sensitivity,
)
from graphdp.privacy.plan import (
    DegreeScaledGaussian,
    DistributedGaussian,
    Plan,
    Sensitivity,
)
from graphdp.privacy.plan_parts import check_given, check_known_level, not_private
from graphdp.privacy.protection import OWN_LIST_REPLACED, is_private

#: Phases: the sums of a round's rows, by stream, and the numbers of pairs that the parties see.
FIRST, LATER, LABELS, COUNTS = "first features", "later features", "labels", "counts"
#: The numbers of users by length of list, of which D is a quantile; and their part of μ².
LENGTHS, LENGTHS_SHARE = "lengths", 0.05
#: Of μ², below which numbers of two phases may lose each other in rounding.
_LEAST_SHARE = 1e-9
#: Level -> what noise is calibrated for, the first if nothing is said.
ADJACENCIES = {
    "edge": ("edge_undirected", "edge_directed"),
    "node": ("participant", OWN_LIST_REPLACED),
}

ADVERSARY = (
    "The server, any users and at most {colluding} of the {parties} parties together follow the "
    "protocol and try to learn more{without}; {shares} shares hide a row from them."
)
WITHOUT_COUNTS = ", from all they see but the numbers of pairs that arrive for a key"
SHUFFLER_IS_TRUSTED = (
    "The shuffler is trusted and colludes with nobody: it sees who sends how many pairs."
)
COUNTS_ARE_BARE = (
    "How many pairs arrive for a key is not hidden: there are no dummies, and every party sees it. "
    "So a party learns in-degrees, which the claim leaves out: of all that is seen it holds "
    "against the server and users alone."
)
COUNTS_ARE_NOISY = (
    "The parties draw the dummies, which are kept in all rounds as is the choice of parties; that "
    "none is cut at 0 holds but for a chance of 1e-18 a key (`pair_sums.cut_loss`)."
)
OTHERS_HOLD_EDGES = (
    "Edges that neighbours hold are theirs and stay: the released row of a user who sends nothing "
    "still tells of them."
)
LISTS_ARE_CUT_ALONE = "A list longer than max_degree is cut without looking at any other list."
BOUND_IS_PUBLIC = (
    "Which users there are, the split and max_degree are public: a user that sends nothing keeps "
    "its key and its row."
)
USERS_ARE_PUBLIC = (
    "Which users there are and the split are public: a user that sends nothing keeps its key and "
    "its row, and tells that its list is empty."
)
LINKS_ARE_PRIVATE = (
    "Nobody else reads the links: without TLS frames are authenticated and not encrypted, and how "
    "long they are is not hidden."
)
LISTS_ARE_WHOLE = "Lists are not cut."
LISTS_ARE_SAMPLED = (
    "Lists are cut by sampling, so that an edge more takes the place of one other at most, whoever "
    "knows the seed."
)


def dpa_plan(
    level: str,
    feature_layers: int | None = None,
    label_layers: int | None = None,
    max_degree: int | None = None,
    parties: int = 3,
    shares: int = 2,
    colluding: int = 1,
    feature_share: float | None = None,
    label_share: float | None = None,
    adjacency: str | None = None,
    non_negative: bool = False,
    degree_quantile: float | None = None,
) -> Plan:
    """DPA-GNN with noise in every round, for t_c parties that collude.

    adjacency: at edge level "edge_undirected" (the default) or "edge_directed", at node level
        "participant" (the default) or "node_replace_own_list".
    feature_share, label_share: of μ² = Σ Δ²/σ², for the rounds of features and of labels; what is
    left goes to the numbers of pairs, hidden by dummies. If one is not given it takes the rest; if
    neither is, σ is the same in all rounds and there are no dummies.
    degree_quantile: max_degree is this quantile of the lengths of lists, found for `LENGTHS_SHARE`
    of μ². Where nodes are protected σ follows from it: the later releases are then of their
    queries over √max_degree (`DegreeScaledGaussian`).

    Units: counts. Raises GraphDPError for missing, wrong or unknown settings.
    """
    check_known_level("dpa", level)
    if not is_private(level):
        return not_private("dpa")
    check_given("dpa", feature_layers=feature_layers, label_layers=label_layers)
    check_parties(parties, shares, colluding)
    if level == "node" and degree_quantile is None:
        check_given("dpa", max_degree=max_degree)
    adjacency = adjacency or ADJACENCIES[level][0]
    one_of(f"dpa, {level} level: adjacency", adjacency, ADJACENCIES[level])
    if degree_quantile is not None:
        _check_quantile(max_degree, degree_quantile)
    sampled = max_degree is not None or degree_quantile is not None
    bounds = _bounds(adjacency, max_degree, non_negative, sampled)
    rounds = {FIRST: 1, LATER: feature_layers - 1, LABELS: label_layers, COUNTS: 1}
    units = _units(bounds, rounds, feature_share, label_share)
    if degree_quantile is not None:
        others = sum(rounds[p] * (bounds[p].value / unit) ** 2 for p, unit in units.items())
        square = others * LENGTHS_SHARE / (1 - LENGTHS_SHARE)
        rounds[LENGTHS], units[LENGTHS] = 1, bounds[LENGTHS].value / math.sqrt(square)
    queries = {
        FIRST: "sums by key of projected features",
        LATER: "sums by key of projected sums of features",
        LABELS: "sums by key of one-hot labels, later of projected sums",
        COUNTS: "numbers of pairs by key",
        LENGTHS: "numbers of users by length of list",
    }
    scaled = level == "node" and degree_quantile is not None

    def release(phase: str) -> DistributedGaussian:
        values: dict[str, Any] = {
            "query": queries[phase],
            "sensitivity": bounds[phase],
            "unit": units[phase],
            "count": rounds[phase],
            "phase": phase,
            "parties": parties,
            "colluding": colluding,
            "rows": phase != COUNTS,
        }
        if not scaled or phase == LENGTHS:
            return DistributedGaussian(**values)
        values["query"] += f", over {_ROOT}"
        return DegreeScaledGaussian(**values, most_degree=MOST_LENGTH)

    mechanisms = tuple(release(phase) for phase in rounds if phase in units)
    return Plan(
        method="dpa",
        level=level,
        adjacency=adjacency,
        basis="corrected",
        status="conditional",
        assumptions=(
            ADVERSARY.format(
                parties=parties,
                shares=shares,
                colluding=colluding,
                without="" if COUNTS in units else WITHOUT_COUNTS,
            ),
            SHUFFLER_IS_TRUSTED,
            LINKS_ARE_PRIVATE,
            COUNTS_ARE_NOISY if COUNTS in units else COUNTS_ARE_BARE,
            *(() if degree_quantile is None else (BOUND_IS_COUNTED,)),
            *_of_level(level, sampled, counted=degree_quantile is not None),
        ),
        own_row_covered=True if level == "node" else None,
        mechanisms=mechanisms,
    )


def _check_quantile(max_degree: int | None, quantile: float) -> None:
    """Refuse a quantile that is none, and one beside a D."""
    if max_degree is not None:
        raise GraphDPError("dpa: give either max_degree or degree_quantile")
    if not 0 < quantile < 1:
        raise GraphDPError(f"dpa: degree_quantile is {quantile!r}; it must lie between 0 and 1")


def _of_level(level: str, sampled: bool, counted: bool) -> tuple[str, ...]:
    """sampled: whether lists are cut. counted: whether at a D that is released."""
    if level == "node":
        public = USERS_ARE_PUBLIC if counted else BOUND_IS_PUBLIC
        return OTHERS_HOLD_EDGES, LISTS_ARE_CUT_ALONE, public, SELECTION_IS_UNCOUNTED
    lists = LISTS_ARE_SAMPLED if sampled else LISTS_ARE_WHOLE
    return lists, FEATURES_ARE_PUBLIC, EDGE_COUNT_IS_PUBLIC


#: What a query is over, where D is released before it.
_ROOT = "sqrt(max_degree)"


def _bounds(
    adjacency: str, max_degree: int | None, non_negative: bool, sampled: bool
) -> dict[str, Sensitivity]:
    """Phase -> the sensitivity of one of its releases. sampled: whether lists are cut.

    Where nodes are protected and max_degree is None, of those over √max_degree.
    """
    scaled = max_degree is None and adjacency in ADJACENCIES["node"]
    most = 1 if scaled else max_degree
    first = sum_sensitivity(adjacency, most, first=True, non_negative=non_negative, sampled=sampled)
    later = sum_sensitivity(adjacency, most, sampled=sampled)
    counts = count_sensitivity(adjacency, most, sampled=sampled)
    # One-hot rows have no negative entry, and later rows move as little.
    found = {FIRST: first, LATER: later, LABELS: later, COUNTS: counts}
    if scaled:  # at D = 1 the square root is 1
        found = {
            phase: replace(one, formula=f"{one.formula}/{_ROOT}") for phase, one in found.items()
        }
    return found | {LENGTHS: length_sensitivity(adjacency)}


def _units(
    bounds: dict[str, Sensitivity],
    rounds: dict[str, int],
    feature_share: float | None,
    label_share: float | None,
) -> dict[str, float]:
    """Phase -> σ per noise multiplier; without COUNTS where nothing is left for them.

    σ of the features is the multiplier times Δ of the first round. With energies E = Σ Δ² of the
    phases and shares s of μ², σ² = E / (s μ²).
    """
    unit = bounds[FIRST].value
    squares = {phase: rounds[phase] * bounds[phase].value ** 2 for phase in rounds}
    if feature_share is None and label_share is None:
        return dict.fromkeys((FIRST, LATER, LABELS), unit)
    if feature_share is None:
        feature_share = 1 - label_share
    elif label_share is None:
        label_share = 1 - feature_share
    rest = 1 - feature_share - label_share
    if not (min(feature_share, label_share) >= _LEAST_SHARE and rest > -1e-12):
        raise GraphDPError(
            f"dpa: feature_share {feature_share:g} and label_share {label_share:g} must be at "
            f"least {_LEAST_SHARE:g} and together at most 1"
        )
    per_share = feature_share * unit**2 / (squares[FIRST] + squares[LATER])
    found = dict.fromkeys((FIRST, LATER), unit)
    found[LABELS] = math.sqrt(squares[LABELS] * per_share / label_share)
    if rest > 1e-12:
        found[COUNTS] = math.sqrt(squares[COUNTS] * per_share / rest)
    return found


def with_adjacency(plan: Plan, settings: dict[str, Any], adjacency: str) -> Plan:
    """The same noise under another adjacency of the plan's level."""
    most, sampled = settings.get("max_degree"), "max_degree" in settings
    sampled = sampled or "degree_quantile" in settings
    bounds = _bounds(adjacency, most, bool(settings.get("non_negative", False)), sampled)
    moved = tuple(replace(m, sensitivity=bounds[m.phase]) for m in plan.mechanisms)
    return replace(plan, adjacency=adjacency, mechanisms=moved)


def analyses(level: str, settings: dict[str, Any], num_train: int | None) -> tuple[Plan, ...]:
    """Of an undirected edge and a directed one, or of a participant and a replaced node: first
    the one that noise is calibrated for."""
    plan = dpa_plan(level, **settings)
    if level == "none":
        return (plan,)
    (other,) = (one for one in ADJACENCIES[level] if one != plan.adjacency)
    return plan, with_adjacency(plan, settings, other)
