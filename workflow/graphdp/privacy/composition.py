"""One noise, several analyses: the ε of releases whose noise was set for another plan.

At the same absolute noise the multiplier of a mechanism is inversely proportional to its
sensitivity, so under a basis (an analysis of the same releases) it is

    noise multiplier (basis) = noise multiplier (reference) x Δ (reference) / Δ (basis).

For Gaussian releases this is exact: they compose to one Gaussian with μ² = Σ Δ² / std².
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from graphdp.errors import GraphDPError
from graphdp.privacy import accounting
from graphdp.privacy.plan import Composition, Mechanism, Plan, accounted_by
from graphdp.privacy.protection import replaces

#: Releases of one noise multiplier each.
Parts = tuple[tuple[Composition, float], ...]


def parts(basis: Plan, reference: Plan, noise_multiplier: float) -> Parts:
    """The releases of `basis`, each with its own multiplier, at the noise set for `reference`.

    noise_multiplier: that of `reference`, ≥ 0. Mechanisms are matched by phase. Mechanisms that
    release nothing are left out, so a plan that releases nothing gives ().

    Raises GraphDPError when a phase of `basis` has no noise in `reference`, or noise of two scales.
    """
    if not noise_multiplier >= 0:  # also refuses NaN
        raise GraphDPError(f"noise multiplier is {noise_multiplier!r}; give a number of at least 0")
    noised: dict[str, float | None] = {}
    for mechanism in reference.mechanisms:
        unit = mechanism.scale_unit
        if noised.setdefault(mechanism.phase, unit) != unit:
            raise GraphDPError(
                f"{reference.method}: phase {mechanism.phase!r} has noise of two scales; name its "
                "mechanisms apart"
            )
    groups: dict[float, list[Mechanism]] = {}
    for mechanism in basis.mechanisms:
        if mechanism.releases_nothing:
            continue
        bound, ratio = mechanism.scale_unit, 1.0
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
    read = as_read(basis, reference, noise_multiplier)
    return adjacent_epsilon(
        read.adjacency, composed_epsilon, parts(read, reference, noise_multiplier), delta
    )


def as_read(basis: Plan, reference: Plan, noise_multiplier: float) -> Plan:
    """`basis` as `epsilon_at` reads it: without the accountant that it asks for where a noise is
    too small for privacy loss distributions."""
    releases = noised(parts(basis, reference, noise_multiplier))
    least = min((noise for _, noise in releases or ()), default=math.inf)
    if basis.accountant == "pld" and least < accounting.PLD_LEAST_NOISE:
        (basis,) = accounted_by("auto", [basis])
    return basis


def adjacent_epsilon(
    adjacency: str, epsilon: Callable[[Any, float], float], releases: Any, delta: float
) -> float:
    """`epsilon(releases, delta)`, read as `adjacency` needs it.

    releases: `Parts` or a list of them, whatever `epsilon` takes.

    Where a node is replaced subsampled rounds do not have the worst case that the accountants know.
    So a replacement is taken as two moves, the node leaves and another one enters, each with half
    of the sensitivity. If both are (ε', δ')-DP, then with P, M and Q the chances of an event
    before, between and after: P ≤ e^ε' M + δ' ≤ e^2ε' Q + (1 + e^ε') δ', so the replacement is
    (2 ε', (1 + e^ε') δ')-DP. The largest δ' that fits `delta` is searched for. An ε that the noise
    does not change is charged in full to either move.
    """
    delta = accounting.check_delta(delta)
    if not replaces(adjacency) or not _subsamples(releases):
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
        return releases[0].adds_or_removes
    return any(map(_subsamples, releases))


def _with_noise_doubled(releases: Any) -> Any:
    if _is_part(releases):
        return releases[0], 2 * releases[1]
    return tuple(map(_with_noise_doubled, releases))


def composed_epsilon(releases: Parts, delta: float) -> float:
    """ε at `delta` of several releases with a noise multiplier each, one record differing.

    Gaussian releases alone: the closed form. Pure ε alone: their sum. Otherwise the primary
    accountant of all of them together; in autodp's Rényi DP the curves add up.

    Raises GraphDPError if no accountant knows all of them.
    """
    delta = accounting.check_delta(delta)
    releases = noised(releases)
    if releases is None:
        return math.inf
    if not releases:
        return 0.0
    together = Composition(
        tuple(term for part, _ in releases for term in part.terms), releases[0][0].accountant
    )
    if together.is_pure:
        return sum(composition.pure_epsilon(noise) for composition, noise in releases)
    if together.is_gaussian:
        squares = sum(composition.gaussian / noise**2 for composition, noise in releases)
        return accounting.gaussian_epsilon(math.sqrt(squares), delta)
    accountant = accounting.primary(together)
    if accountant != "autodp":
        return accounting.parts_epsilon(releases, delta, accountant)
    curves = renyi_curves(releases)
    return smallest_epsilon(lambda order: sum(curve(order) for curve in curves), delta)


def noised(releases: Parts) -> Parts | None:
    """The releases that count: () if nothing is released, None if something has no noise."""
    if any(composition.unnoised for composition, _ in releases):
        return None
    counted = []
    for composition, noise in releases:
        if noise == math.inf:  # what is left does not depend on the noise
            composition, noise = composition.lasting, 1.0
        if not composition.is_empty:
            counted.append((composition, noise))
    return None if any(noise == 0 for _, noise in counted) else tuple(counted)


def renyi_curves(releases: Parts) -> list[Callable[[float], float]]:
    """RDP(order) of each release, by `accounting.rdp_curve`; noise above 0 and finite."""
    return [accounting.rdp_curve(composition, noise) for composition, noise in releases]


def smallest_epsilon(rdp: Callable[[float], float], delta: float) -> float:
    """ε at `delta` of an RDP curve: the conversion of `accounting`, at its orders."""

    def epsilon_of(order: float) -> float:
        return accounting.converted(rdp(order), order, delta)

    return max(0.0, accounting.smallest_over_orders(epsilon_of, accounting.RDP_ORDERS)[0])


def join(releases: Sequence[Parts]) -> Parts:
    """The releases of several models together."""
    return tuple(part for of_model in releases for part in of_model)
