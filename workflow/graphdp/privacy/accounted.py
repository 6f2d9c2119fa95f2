"""The ε of a plan at a noise that is given, by every accountant that applies to it."""

import math
from dataclasses import dataclass
from typing import Any

from graphdp.privacy import accounting
from graphdp.privacy.plan import Plan


@dataclass(frozen=True)
class AccountedEpsilon:
    """One accountant's ε of a plan at one noise.

    accountant: its name, of `accounting.ACCOUNTANTS`, or "renyi", "mixture" or "published".
    epsilon: ≥ 0, possibly ∞. method: how it composes and converts. library: name and version
    ("" for the closed form). optimal_order: the Rényi order that gives ε, None for other methods.
    """

    accountant: str
    epsilon: float
    method: str
    library: str
    optimal_order: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """A JSON object; an infinite ε is the text "inf"."""
        return {
            "accountant": self.accountant,
            "epsilon": json_number(self.epsilon),
            "method": self.method,
            "library": self.library,
            "optimal_order": self.optimal_order,
        }


def json_number(value: float) -> float | str:
    """An ε for JSON, which has no infinity: the project writes ∞ as its token everywhere."""
    return "inf" if value == math.inf else value


def account(plan: Plan, noise: float, delta: float, with_pld: bool) -> tuple[AccountedEpsilon, ...]:
    """ε by every accountant that applies, the primary one first.

    noise: the multiplier, positive. delta: in (0, 1). with_pld: also the tight ε by privacy loss
    distribution, where that takes no minutes. Raises GraphDPError where an accountant cannot tell.
    """
    composition = plan.composition
    if composition.is_pure:
        pure = composition.pure_epsilon(noise)
        who, how = composition.adding_up
        return (AccountedEpsilon(who, pure, how, ""),)
    own, other = accounting.primary(composition), accounting.second(composition)
    if own == "autodp":
        entries = _by_renyi(plan, noise, delta)
    elif own == "dp_accounting":
        value, order = accounting.google_rdp_epsilon(composition, noise, delta)
        entries = [_entry(own, value, accounting.how(composition), order)]
    else:
        value = accounting.epsilon(plan, noise, delta, own)
        entries = [_entry(own, value, accounting.how(composition))]
    if own == "pld" and other == "autodp_rdp":
        loose, order = accounting.autodp_rdp_epsilon(composition, noise, delta)
        entries.append(_entry(other, loose, "Rényi DP, looser: cross-check", order))
    if other == "renyi":
        loose = accounting.epsilon(plan, noise, delta, other)
        entries.append(
            _entry(
                other, loose, "Rényi DP by quadrature, looser and no certified bound: cross-check"
            )
        )
    extra = with_pld and own != "pld" and accounting.knows("pld", composition)
    extra = extra and accounting.pld_resolves(composition, delta)
    if extra and noise >= accounting.PLD_LEAST_NOISE:
        tight = accounting.epsilon(plan, noise, delta, "pld")
        entries.append(_entry("pld", tight, "privacy loss distribution"))
    return tuple(entries)


def _by_renyi(plan: Plan, noise: float, delta: float) -> list[AccountedEpsilon]:
    """By autodp, by the closed form if all is Gaussian, and by dp-accounting if it knows all."""
    composition = plan.composition
    ours, order = accounting.autodp_rdp_epsilon(composition, noise, delta)
    method = accounting.how(composition)
    if composition.is_gaussian:
        method = "Rényi DP, looser: for the cross-check only"
        exact = accounting.epsilon(plan, noise, delta, "autodp")
        closed = accounting.epsilon(plan, noise, delta, "exact")
        entries = [
            _entry("autodp", exact, "exact Gaussian"),
            _entry("exact", closed, "closed form: Balle and Wang 2018, Theorem 8"),
            _entry("autodp_rdp", ours, method, order),
        ]
    else:
        entries = [_entry("autodp", ours, method, order)]
    if accounting.second(composition):
        # At autodp's order: any single order is a valid bound, and equal orders can be compared.
        theirs, _ = accounting.google_rdp_epsilon(composition, noise, delta, (order,))
        entries.append(_entry("dp_accounting", theirs, method, order))
    return entries


def _entry(
    accountant: str, value: float, method: str, order: float | None = None
) -> AccountedEpsilon:
    return AccountedEpsilon(accountant, value, method, accounting.library(accountant), order)
