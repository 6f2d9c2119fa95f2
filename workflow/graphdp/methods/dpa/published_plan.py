"""What DPA-GNN as published claims of its releases, and what its authors' code does about it.

Read from its source (MLPrivacy/DPA-GNN, 3fe4b401, utils.py of 12075529); it was not executed.
"""

import math
from dataclasses import replace
from typing import Any

from graphdp.errors import GraphDPError
from graphdp.methods.dpa.plan import COUNTS, FIRST, LABELS, LATER, SHUFFLER_IS_TRUSTED
from graphdp.privacy.assumptions import SELECTION_IS_UNCOUNTED
from graphdp.privacy.plan import (
    ClaimedLaplace,
    ClassicalGaussian,
    FixedPureRelease,
    Plan,
    Sensitivity,
    UnnoisedRelease,
)
from graphdp.privacy.plan_parts import check_given, check_known_level, not_private

_LATER_ROUNDS = (
    "Rounds after the first are taken for post-processing; they read the edges again, without "
    "noise: of two nodes alone, the last rows are equal just if they are neighbours."
)
_RECEIVERS_CUT = (
    "Lists are cut by the receiver's key, so that a user may send to any number of others (152 on "
    "Cora where 6 is accounted)."
)
_CLASSICAL = "The classical formula for σ is a theorem for ε < 1 alone, and fails above 8.4."
_LAPLACE = (
    "The Laplace noise is set for an ℓ1 distance of 2 max_degree, which one-hot labels keep to; a "
    "row of features of norm 1 has an ℓ1 norm of up to √C for C columns, and moves as much more."
)
_DUMMIES_ONE_KEY = (
    "One dummy budget covers one key of one party in one round; an undirected edge is two keys, a "
    "node max_degree of them."
)
_BOUND_IS_PRIVATE = "The paper takes max_degree from a quantile of the private degrees."
_TWO_DELTAS = "Features and labels are claimed at a δ of 1e-5 each, so together at 2e-5."
_FRESH_SELECTION = (
    "The code cuts the shuffled shares in three afresh in each round, so that both shares of a "
    "pair reach one party with probability 1/3, and counts are told again by each round."
)
_FLOAT_SHARES = (
    "Its shares are normal numbers of deviation 1 and what is left: one alone tells of the row."
)

#: δ of each of the two Gaussian releases (section 7.1.4).
PUBLISHED_DELTA = 1e-5
_PUBLIC = ("features", "labels", "edges")
PUBLIC = "The {} are taken as public."


def dummy_epsilon(dummy_rate: float, parties: int, shares: int) -> float:
    """ε_e as printed: ln max(1/(1 - r), 1/(1 - t/m) + 1 - r) (equation 13).

    It is a bound for one key, one party and one round, whose exact value is the larger of
    ln 1/(1 - r) and ln 1/(1 - t/m). Raises GraphDPError unless 0 < r < 1 and 1 < t < m.
    """
    if not 0 < dummy_rate < 1:
        raise GraphDPError(f"dummy_rate is {dummy_rate!r}; it must lie strictly between 0 and 1")
    if parties < 2:
        raise GraphDPError(f"parties is {parties}; give at least 3")
    if shares < 2:
        raise GraphDPError(f"shares is {shares}: one share is the row itself; give at least 2")
    if not shares < parties:
        fix = f"give 2 to {parties - 1}" if parties > 3 else "give 2" if parties == 3 else ""
        raise GraphDPError(
            f"shares is {shares} with {parties} parties: the published formula needs fewer shares "
            f"than parties; {fix or 'give at least 3 parties'}"
        )
    return math.log(max(1 / (1 - dummy_rate), 1 / (1 - shares / parties) + 1 - dummy_rate))


def published_plan(
    level: str,
    max_degree: int | None = None,
    parties: int = 3,
    shares: int = 2,
    dummy_rate: float = 0.5,
    feature_share: float = 0.05,
    public: str | None = None,
    noise: str | None = None,
) -> Plan:
    """DPA-GNN as published and as its code sets its noise: one noisy round for each stream.

    node: ε = ε_h + ε_e + ε_y with ε_h = feature_share · ε, ε_e of the dummies, S = √(2 D)
    (equation 32, where D leaves out the self-loop that the code's D counts). The claim is refuted.
    public: "features", "labels" or "edges", which then have no part of ε (section 7.2.2); of a
    single noisy stream ε is what ε_e leaves.
    noise: "laplace", of scale 2 D / ε, as in Table 7 and a comment of the code.
    none: no privacy, ε = ∞ only.

    Raises GraphDPError for missing, wrong or unknown settings.
    """
    name = "dpaofficial"
    check_known_level(name, level)
    if level != "node":
        if level != "none":
            raise GraphDPError(f"{name} has no level {level}; choose node or none")
        return not_private(name)
    check_given(name, max_degree=max_degree)
    if public not in (None, *_PUBLIC):
        raise GraphDPError(f"{name}: public is {public!r}; choose one of {', '.join(_PUBLIC)}")
    bound = Sensitivity(
        math.sqrt(2 * max_degree), "sqrt(2*max_degree)", "equation 32 and appendix A.2 (refuted)"
    )
    edges = dummy_epsilon(dummy_rate, parties, shares) if public != "edges" else 0.0
    one_stream = public in ("features", "labels")
    streams = (
        ("features", FIRST, "first sums of features", feature_share, False),
        ("labels", LABELS, "first sums of labels", 1 - feature_share, True),
    )
    kind, delta = ClassicalGaussian, PUBLISHED_DELTA
    if noise is not None:
        if noise != "laplace":
            raise GraphDPError(f"{name}: noise is {noise!r}; give laplace, or leave it out")
        kind, delta = ClaimedLaplace, 0.0
        bound = Sensitivity(2.0 * max_degree, "2*max_degree", "the code's comment (refuted)")
    noisy = tuple(
        kind(
            query, bound, 1.0 if one_stream else share, edges, pays or one_stream,
            delta, phase,
        )
        for stream, phase, query, share, pays in streams
        if stream != public
    )  # fmt: skip
    if public != "edges":
        one_key = Sensitivity(1.0, "1", "Theorem 1 (one key)")
        noisy += (FixedPureRelease("numbers of pairs by key", one_key, edges, COUNTS),)
    return Plan(
        method=name,
        level="node",
        adjacency="participant",
        basis="as_published",
        status="refuted",
        assumptions=(
            *_refutations(public, noise),
            *(() if one_stream or not delta else (_TWO_DELTAS,)),
            SHUFFLER_IS_TRUSTED,
            SELECTION_IS_UNCOUNTED,
        ),
        own_row_covered=False,
        mechanisms=noisy,
    )


def _refutations(public: str | None, noise: str | None) -> tuple[str, ...]:
    """Why the claim does not hold, with what is taken as public."""
    own = _CLASSICAL if noise is None else _LAPLACE
    if public == "edges":
        return PUBLIC.format(public), _RECEIVERS_CUT, own
    told = (_LATER_ROUNDS, _DUMMIES_ONE_KEY, own, _BOUND_IS_PRIVATE)
    return (PUBLIC.format(public), *told) if public else told


def published_analyses(
    level: str, settings: dict[str, Any], num_train: int | None
) -> tuple[Plan, ...]:
    """The claim, what the code does about it, and what is known of it: nothing."""
    plan = published_plan(level, **settings)
    # Where edges are public no round reads them in secret, and how many pairs a user may send is
    # not bounded: there is nothing more to compute.
    if level == "none" or settings.get("public") == "edges":
        return (plan,)
    later = UnnoisedRelease(query="sums by key of rounds after the first", phase=LATER)
    run = replace(
        plan,
        basis="as_implemented",
        assumptions=(
            _LATER_ROUNDS,
            _RECEIVERS_CUT,
            _FRESH_SELECTION,
            _FLOAT_SHARES,
            SHUFFLER_IS_TRUSTED,
        ),
        mechanisms=(*plan.mechanisms, later),
    )
    unknown = replace(
        run,
        basis="corrected",
        assumptions=("No finite ε is known to hold.", _LATER_ROUNDS, SHUFFLER_IS_TRUSTED),
    )
    return plan, run, replace(unknown, mechanisms=(later,))
