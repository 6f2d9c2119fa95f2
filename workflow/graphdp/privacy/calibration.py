"""The smallest noise multiplier that keeps a plan within its privacy target.

Every post-condition is checked when a calibration is made, not only in the tests: the composed ε
is at most the target and at least 0.99 of it, the noise is above 0 for a finite ε, and two
independent libraries agree on the Rényi accounting.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from graphdp.errors import GraphDPError, one_of
from graphdp.privacy import accounting
from graphdp.privacy.accounted import AccountedEpsilon, account, json_number
from graphdp.privacy.least_noise import TOLERANCE, rounded_up, sketched_noise, smallest_noise
from graphdp.privacy.plan import Plan
from graphdp.privacy.protection import LEAST_EPSILON, REPLACED, replaces

#: Whose analysis a model's noise is calibrated for (`calibration_plan`).
CALIBRATE_FOR = ("published", "corrected", "replaced")
#: Calibration aims this far (relative) below the target, so that neither rounding nor another
#: optimiser over the same curve reads an ε above it.
SAFETY = 1e-6
#: A composed ε below this share of the target would waste accuracy: it is an error.
LEAST_SHARE = 0.99
#: Rounds of a sampled phase whose accounting takes seconds.
MOST_ROUNDS = 10_000_000
#: From the noise of a sketch on, which is near the one that is sought, or of Rényi DP, somewhat
#: above it.
_FROM_SKETCH, _FROM_RENYI = 1.01, 1.08
#: The ε of a sketch is at most that of its plan up to this factor, for the rounding of both.
_SKETCH_ERROR = 1.0001
#: Accountants by Fourier transforms, whose last digits depend on the processor. The noise names the
#: random streams, so what is found by them is rounded up to a number that all processors find.
_BY_TRANSFORM = ("pld", "mixture")
#: So many times the noise is raised where its last digits decide.
_MORE_NOISE = 200
_T = TypeVar("_T")


@dataclass(frozen=True)
class Calibration:
    """A plan, its target, the noise multiplier that meets it, and every accountant's ε.

    target_epsilon: the ε asked for (0, finite, or ∞). delta: the δ, None where ε needs none.
    noise_multiplier: noise std / sensitivity of every mechanism (1 / ε for a plan of pure
        releases); > 0 for a finite ε, 0.0 for ε = ∞, None when the plan releases nothing and so
        has no noise.
    accounting: the primary accountant (see `accounting.primary`) first; pure ε add up without one.
    """

    plan: Plan
    target_epsilon: float
    delta: float | None
    noise_multiplier: float | None
    accounting: tuple[AccountedEpsilon, ...]

    @property
    def epsilon(self) -> float:
        """The composed ε by the primary accountant: at most the target."""
        return self.accounting[0].epsilon

    def to_dict(self) -> dict[str, Any]:
        """A JSON object for an artefact: never an ε without its δ, adjacency, basis and status."""
        return {
            "target_epsilon": json_number(self.target_epsilon),
            "epsilon": json_number(self.epsilon),
            "delta": self.delta,
            "adjacency": self.plan.adjacency,
            "basis": self.plan.basis,
            "status": self.plan.status,
            "noise_multiplier": self.noise_multiplier,
            "accounting": [entry.to_dict() for entry in self.accounting],
            "rdp_orders": accounting.RDP_ORDERS_TEXT,
            "rdp_conversion": accounting.RDP_CONVERSION,
            "plan": self.plan.to_dict(),
        }


def default_delta(count: int) -> float:
    """10^-(number of digits of `count`), as the GAP and ProGAP code choose δ.

    `count` is the number of protected units (`protection.protected_units`), at least 1. The result
    is below 1 / count. Raises GraphDPError for other counts.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise GraphDPError(f"count of units is {count!r}; give a whole number of at least 1")
    return float(f"1e-{len(str(count))}")


def calibrate(
    plan: Plan, epsilon: float, delta: float | None, *, with_pld: bool = False
) -> Calibration:
    """The smallest noise multiplier (to 1e-5 relative) whose composed ε is at most `epsilon`.

    epsilon: target ε, 0 or in [1e-6, ∞]. delta: in (0, 1), below 1 / number of units; may be None
    for ε = 0 and ε = ∞. with_pld: also state the tight ε by privacy loss distribution, which costs
    about 0.1 s; left out for noise so small that it would cost minutes.

    ε = ∞ means noise 0 and is stated as such; ε = 0 needs a plan that releases nothing.

    Raises GraphDPError when the target cannot be met, is met only by wasting more than 1 % of it,
    or the accountants disagree; for more than `MOST_ROUNDS` of a phase; for a δ below the one that
    a published claim's noise is set for; and for a replaced record where the accounting is of one
    added or removed (`composition.epsilon_at` reads such a plan at a noise that is given).
    """
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not epsilon >= 0:
        raise GraphDPError(f"epsilon is {epsilon!r}; give a number of at least 0, or inf")
    if 0 < epsilon < LEAST_EPSILON:
        raise GraphDPError(
            f"epsilon {epsilon:g} is too small to calibrate: give at least {LEAST_EPSILON:g}, or 0"
        )
    composition = plan.composition
    what = f"{plan.method}, {plan.level} level"
    if composition.is_empty and 0 < epsilon < math.inf:
        raise GraphDPError(
            f"{what}: the plan releases nothing, so its epsilon is 0 and not {epsilon:g}; "
            f"ask for epsilon 0"
        )
    if delta is not None or 0 < epsilon < math.inf:
        delta = accounting.check_delta(delta)
    if epsilon == math.inf:
        entry = AccountedEpsilon("autodp", math.inf, "no noise: no guarantee", "")
        return Calibration(plan, math.inf, delta, 0.0, (entry,))
    if composition.is_empty:
        entry = AccountedEpsilon("autodp", 0.0, "nothing is released", "")
        return Calibration(plan, 0.0, delta, None, (entry,))
    if epsilon == 0:
        raise GraphDPError(
            f"{what}: epsilon 0 is out of reach because the plan releases something; "
            f"ask for epsilon > 0 or release nothing"
        )
    _check_reachable(plan, epsilon, delta, what)
    find = _pure_noise if composition.is_pure else _composed_noise
    noise = find(plan, epsilon, delta, what)
    if not noise > 0:
        raise GraphDPError(f"{what}: noise multiplier {noise!r} for a finite epsilon; report a bug")
    entries = account(plan, noise, delta, with_pld)
    if accounting.primary(composition) in _BY_TRANSFORM:
        # Near the rounding of a transform ε does not fall with every digit of the noise.
        for _ in range(_MORE_NOISE):
            if entries[0].epsilon <= epsilon:
                break
            noise = rounded_up(noise * (1 + TOLERANCE))
            entries = account(plan, noise, delta, with_pld)
    if accounting.second(composition):
        accounting.cross_check(plan, noise, delta)
    _check(plan, epsilon, noise, entries)
    return Calibration(plan, float(epsilon), delta, noise, entries)


def _check_reachable(plan: Plan, epsilon: float, delta: float, what: str) -> None:
    """GraphDPError for a finite target that no noise can meet, or that cannot be accounted."""
    composition = plan.composition
    for mechanism in plan.mechanisms:
        if getattr(mechanism, "steps", 0) > MOST_ROUNDS:
            raise GraphDPError(
                f"{what}: {mechanism.query}: more than {MOST_ROUNDS:,} rounds would take hours to "
                f"account; give fewer epochs or larger batches"
            )
    if composition.unnoised:
        raise GraphDPError(
            f"{what}: the plan releases something without noise; ask for epsilon inf, "
            f"or for level edge or node"
        )
    if replaces(plan.adjacency) and composition.adds_or_removes:
        raise GraphDPError(
            f"{what}: its accounting holds for a record added or removed, not for one replaced; "
            f"ask for accountant pld, or sample batches of a fixed size"
        )
    if composition.least_epsilon >= _aim(epsilon):
        raise GraphDPError(
            f"{what}: releases with an epsilon of their own spend {composition.least_epsilon:g}, "
            f"which leaves nothing of epsilon {epsilon:g} to the others; raise epsilon"
        )
    least = accounting.least_epsilon(plan, delta)
    if least >= _aim(epsilon):
        raise GraphDPError(
            f"{what}: epsilon {epsilon:g} at delta {delta:g} is out of reach: with any noise the "
            f"accountant reads at least {least:.3g}; raise epsilon or delta"
        )


def _aim(epsilon: float) -> float:
    return epsilon * (1 - SAFETY)


def _pure_noise(plan: Plan, epsilon: float, delta: float, what: str) -> float:
    """The noise of a plan of pure releases, whose ε add up: in closed form."""
    composition = plan.composition
    least = max(composition.claimed_deltas, default=0.0)
    if delta < least:
        raise GraphDPError(
            f"{what}: delta is {delta:g}, but its noise is set for a claim at δ = {least:g}, "
            f"whatever delta is; give delta {least:g}"
        )
    if not composition.pure_share:
        raise GraphDPError(
            f"{what}: every release has an epsilon of its own, so no noise is left to "
            f"calibrate; let one of them take what the others leave"
        )
    noise = composition.pure_share / (epsilon - composition.least_epsilon)
    while composition.pure_epsilon(noise) > epsilon:  # by a rounding error at most
        noise = math.nextafter(noise, math.inf)
    return noise


def _composed_noise(plan: Plan, epsilon: float, delta: float, what: str) -> float:
    """The noise at which the primary accountant composes to the target, by search."""
    composition, aim = plan.composition, _aim(epsilon)
    stride, start = min(term.stride for term in composition.terms), 1.0
    if composition.sketch != composition:
        stride, start = _FROM_SKETCH, sketched_noise(plan, aim, delta)
    elif composition.asks_pld and accounting.second(composition) == "autodp_rdp":
        renyi = cache(lambda x: accounting.epsilon(plan, x, delta, "autodp_rdp"))
        with suppress(GraphDPError):  # Rényi DP may read no ε so small
            stride, start = _FROM_RENYI, smallest_noise(renyi, aim, what)
    noise = smallest_noise(
        cache(lambda x: accounting.epsilon(plan, x, delta)), aim, what, stride, start
    )
    if accounting.primary(composition) in _BY_TRANSFORM:
        noise = rounded_up(noise)
    return noise


def calibration_plan(plans: Sequence[Plan], calibrate_for: str) -> Plan:
    """The analysis that a model's noise is calibrated for.

    plans: all analyses of a method, its own first (`registry.analyses`). calibrate_for: one of
    `CALIBRATE_FOR`: "published" for that one; "corrected" for the first corrected analysis with a
    finite ε, at edge level of an undirected edge, so that all methods promise the same; "replaced"
    for that of a node replaced with all its edges, where there is one, else as "corrected". Where
    there is none, the method's own stands as it is. Raises GraphDPError for another value of
    `calibrate_for`.
    """
    one_of("calibrate_for", calibrate_for, CALIBRATE_FOR)
    if calibrate_for == "published":
        return plans[0]
    finite = [p for p in plans if p.basis == "corrected" and not p.composition.unnoised]
    first = [p for p in finite if p.adjacency == REPLACED and calibrate_for == "replaced"]
    others = sorted(finite, key=lambda p: p.adjacency == "edge_directed")
    return [*first, *others, plans[0]][0]


def cheapest_first(
    plans: Sequence[tuple[_T, Plan, float | None]], epsilon: float
) -> Iterator[tuple[_T, Plan, float | None]]:
    """(anything, plan, δ) triples by the noise that a sketch of each plan needs, least first.

    As they come for one plan alone, and where a plan has no sketch or the target needs none. Raises
    GraphDPError where a target is out of reach of the sketch, and so of the plan.
    """
    sketched = all(plan.composition.sketch != plan.composition for _, plan, _ in plans)
    if len(plans) < 2 or not sketched or not LEAST_EPSILON <= epsilon < math.inf:
        yield from plans
        return
    found, start = [], 1.0
    for i, (_, plan, delta) in enumerate(plans):
        start = sketched_noise(plan, epsilon, accounting.check_delta(delta), start)
        found.append((start, i))
    for _, i in sorted(found):
        yield plans[i]


def needs_more(plan: Plan, epsilon: float, delta: float | None, noise: float | None) -> bool:
    """Whether a plan certainly needs more noise than `noise`: even its sketch is above ε there."""
    composition = plan.composition
    if not noise or not 0 < epsilon < math.inf or composition.is_empty or composition.unnoised:
        return False
    return accounting.sketched_epsilon(plan, noise, delta) > epsilon * _SKETCH_ERROR


def _check(plan: Plan, target: float, noise: float, entries: tuple[AccountedEpsilon, ...]) -> None:
    """The post-conditions of a finite calibration; GraphDPError names the one that is broken."""
    what = f"{plan.method}, {plan.level} level: calibration to epsilon {target:g} is broken"
    composed = entries[0].epsilon
    if composed < LEAST_SHARE * target:
        raise GraphDPError(
            f"{plan.method}, {plan.level} level: at noise multiplier {noise:.6g} its accountant "
            f"jumps from above epsilon {target:g} down to {composed:.4g}, so that more than "
            f"{1 - LEAST_SHARE:.0%} of it would be wasted: its arithmetic tells nothing in between "
            f"apart; raise epsilon or delta"
        )
    if not composed <= target:
        raise GraphDPError(
            f"{what}: noise multiplier {noise:g} gives epsilon {composed:.9g}, above {target:g}"
        )
    for entry in entries:
        if entry.accountant == "exact" and not math.isclose(
            entry.epsilon, composed, rel_tol=accounting.AGREEMENT
        ):
            raise GraphDPError(
                f"{what}: autodp says epsilon {composed:.9g}, the closed form {entry.epsilon:.9g}"
            )
