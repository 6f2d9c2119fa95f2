"""From a plan and a noise multiplier to ε(δ) and δ(ε), by several accountants.

Accountants (the name goes into every artefact):

- "autodp": the project's primary accountant. Plans of Gaussian releases alone compose exactly
  (autodp's ComposeGaussian; its generic Composition would be looser). Other plans compose in
  Rényi DP with autodp's Poisson amplification, `improved_bound_flag` set: exact for Gaussians.
- "autodp_rdp": as above, but Rényi DP for every plan.
- "dp_accounting": Google's Rényi accountant, at whole orders: the independent cross-check.
- "pld": Google's privacy-loss-distribution accountant, pessimistic rounding. The tight value.
- "exact": closed form for Gaussian releases alone (Balle and Wang 2018, Theorem 8).
- "renyi": Rényi divergences in closed form or by quadrature, as the cross-check of "pld". By
  quadrature they are accurate but no certified bound; a random search's ε may rest on them.
- "mixture": Gaussians of random and known shift, averaged over it. Tight, rounded pessimistically.
- "published": a theorem's Rényi divergences, at the orders that its authors' code takes.

An accountant adds up what a plan's terms (`graphdp.privacy.mechanisms`) say of themselves, and each
term names the accountants that know it. `primary` is the one that the plan asks for, or else the
first of `PRIMARY`, that knows all of them; Gaussian releases alone compose exactly in any case.
The ε of pure releases alone is their sum, whichever accountant is asked.

All of them assume that adding or removing one unit (or replacing it, where a term says so) changes
one record of a DP-SGD sample and moves each release by at most its sensitivity; the plan says under
which adjacency that is so.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import version

from graphdp.errors import GraphDPError, one_of
from graphdp.privacy.accounting.by_autodp import (
    autodp_delta,
    autodp_epsilon,
    autodp_rdp_curve,
    autodp_rdp_delta,
    autodp_rdp_epsilon,
)
from graphdp.privacy.accounting.by_google import (
    PLD_INTERVAL,
    PLD_LEAST_NOISE,
    google_parts_epsilon,
    google_rdp_curve,
    google_rdp_delta,
    google_rdp_epsilon,
    pld_delta,
    pld_epsilon,
    pld_parts_epsilon,
    pld_resolves,
)
from graphdp.privacy.accounting.by_mixture import (
    mixture_delta,
    mixture_epsilon,
    mixture_parts_epsilon,
)
from graphdp.privacy.accounting.closed_form import gaussian_delta, gaussian_epsilon
from graphdp.privacy.accounting.orders import (
    RDP_CONVERSION,
    RDP_ORDERS,
    RDP_ORDERS_TEXT,
    WHOLE_ORDERS,
    conversion_floor,
    converted,
    smallest_over_orders,
)
from graphdp.privacy.accounting.quadrature import (
    published_parts_epsilon,
    renyi_delta,
    renyi_epsilon,
    renyi_rdp_curve,
)
from graphdp.privacy.plan import Composition, Plan
from graphdp.privacy.protection import LEAST_DELTA

__all__ = [
    "ACCOUNTANTS",
    "AGREEMENT",
    "PLD_INTERVAL",
    "PLD_LEAST_NOISE",
    "PRIMARY",
    "RDP_CONVERSION",
    "RDP_ORDERS",
    "RDP_ORDERS_TEXT",
    "WHOLE_ORDERS",
    "autodp_rdp_curve",
    "autodp_rdp_epsilon",
    "by_quadrature",
    "check_delta",
    "converted",
    "cross_check",
    "delta",
    "epsilon",
    "gaussian_delta",
    "gaussian_epsilon",
    "google_rdp_epsilon",
    "how",
    "knows",
    "least_epsilon",
    "library",
    "parts_epsilon",
    "pld_resolves",
    "primary",
    "rdp_curve",
    "second",
    "sketched_epsilon",
    "smallest_over_orders",
]

ACCOUNTANTS = ("autodp", "autodp_rdp", "dp_accounting", "pld", "exact")
#: The accountants whose ε counts, the preferred one first, and the one that each is held against.
PRIMARY = {
    "autodp": "dp_accounting",
    "dp_accounting": None,
    "pld": "renyi",
    "mixture": None,
    "published": None,
}
#: autodp and dp-accounting must agree to this, relative, at equal Rényi orders.
AGREEMENT = 1e-3


def check_delta(delta: float) -> float:
    """`delta` itself; GraphDPError unless `LEAST_DELTA` <= delta < 1."""
    if isinstance(delta, bool) or not isinstance(delta, int | float) or not 0 < delta < 1:
        raise GraphDPError(
            f"delta is {delta!r}; it must lie strictly between 0 and 1, below 1 / number of units"
        )
    if delta < LEAST_DELTA:
        raise GraphDPError(f"delta is {delta!r}; at least {LEAST_DELTA} is possible")
    return float(delta)


def library(accountant: str) -> str:
    """Name and version of the library behind an accountant; "" without one."""
    names = {"autodp": "autodp", "autodp_rdp": "autodp"}
    names |= {"dp_accounting": "dp-accounting", "pld": "dp-accounting"}
    name = names.get(accountant)
    return f"{name} {version(name)}" if name else ""


def knows(accountant: str, composition: Composition) -> bool:
    """Whether an accountant can compose all of a composition's terms with each other."""
    if composition.unnoised or composition.is_pure:
        return True
    if accountant == "exact":
        return composition.is_gaussian
    relations = {term.relation for term in composition.terms} - {""}
    known = all(accountant in term.accountants for term in composition.terms)
    return known and len(relations) <= 1


def primary(composition: Composition) -> str:
    """The accountant whose ε counts for such a composition.

    Raises GraphDPError if no accountant knows all of its terms together.
    """
    exact = composition.is_gaussian or composition.is_pure
    asked = ["pld"] if composition.asks_pld and not exact else []
    for accountant in [*asked, *PRIMARY]:
        if knows(accountant, composition):
            return accountant
    kinds = " and ".join(term.what for term in composition.terms)
    raise GraphDPError(f"no accountant composes {kinds}; plan releases that one of them knows")


def second(composition: Composition) -> str | None:
    """The accountant that checks the primary one of such a composition; None if none can."""
    own = primary(composition)
    others = [PRIMARY[own]] if PRIMARY[own] else []
    if own == "pld":  # asked for, of what Rényi DP knows as well
        others.append("autodp_rdp")
    return next((other for other in others if knows(other, composition)), None)


def how(composition: Composition) -> str:
    """How the primary accountant composes it, in words; "" for what composes exactly."""
    by_pld = primary(composition) == "pld"
    words = ((by_pld and term.method_by_pld) or term.method for term in composition.terms)
    return "; ".join(dict.fromkeys(filter(None, words)))


def epsilon(
    plan: Plan, noise_multiplier: float, delta: float, accountant: str | None = None
) -> float:
    """The ε at `delta` of a plan run with this noise multiplier (noise std / sensitivity).

    accountant: one of those above; None for the plan's `primary` one. ε is exactly 0 for a plan
    that releases nothing, exactly ∞ for noise 0 or a release without noise, and for infinite noise
    what the releases with an ε of their own spend.

    Raises GraphDPError when delta is not in (0, 1), the noise is negative, the accountant is
    unknown, it is asked of a plan whose steps it does not know, or it finds no number.
    """
    delta = check_delta(delta)
    accountant = accountant or primary(plan.composition)
    composition, known = _prepare(plan, noise_multiplier, accountant)
    if known is not None:
        return known
    found = _EPSILON[accountant](composition, float(noise_multiplier), delta)
    if math.isnan(found):  # a search would take it for an ε that meets its target
        raise GraphDPError(
            f"accountant {accountant} finds no number for noise multiplier {noise_multiplier:g} at "
            f"δ = {delta:g}; choose another ε or δ"
        )
    return found


def sketched_epsilon(plan: Plan, noise_multiplier: float, delta: float) -> float:
    """As `epsilon`, quickly: at most that, and near it. For the noise to begin a search from."""
    sketch = plan.composition.sketch
    return _EPSILON[primary(sketch)](sketch, float(noise_multiplier), delta)


def delta(
    plan: Plan, noise_multiplier: float, epsilon: float, accountant: str | None = None
) -> float:
    """The δ at `epsilon` ≥ 0 of a plan run with this noise multiplier; arguments as `epsilon`.

    Exactly 0 where ε is 0 without any computation, exactly 1 where it is ∞.
    """
    if not epsilon >= 0:
        raise GraphDPError(f"epsilon is {epsilon!r}; give a number of at least 0")
    accountant = accountant or primary(plan.composition)
    composition, known = _prepare(plan, noise_multiplier, accountant)
    if known == 0.0 or epsilon == math.inf:
        return 0.0
    if known == math.inf:
        return 1.0
    if known is not None:  # pure ε: that of randomised response, the worst case
        return max(0.0, -math.expm1(epsilon - known) / (1 + math.exp(-known)))
    return _DELTA[accountant](composition, float(noise_multiplier), float(epsilon))


def _prepare(plan: Plan, noise: float, accountant: str) -> tuple[Composition, float | None]:
    """The composition, and its ε where that needs no accountant (else None)."""
    if not noise >= 0:  # also refuses NaN
        raise GraphDPError(f"noise multiplier is {noise!r}; give a number of at least 0")
    composition = plan.composition
    one_of("accountant", accountant, _EPSILON)
    if not knows(accountant, composition):
        raise GraphDPError(_not_known(accountant, composition))
    if composition.is_empty:
        return composition, 0.0
    if noise == 0 or composition.unnoised:
        return composition, math.inf
    if noise == math.inf:
        return composition, composition.least_epsilon
    return composition, composition.pure_epsilon(noise) if composition.is_pure else None


def _not_known(accountant: str, composition: Composition) -> str:
    """Why an accountant is refused, and which ones are not."""
    known = [name for name in _EPSILON if knows(name, composition)]
    instead = f"use {' or '.join(known)}" if known else "no accountant knows all of them together"
    others = [term.what for term in composition.terms if accountant not in term.accountants]
    why = " and ".join(others or [term.what for term in composition.terms])
    if accountant == "exact":
        why = "this plan, since it knows Gaussian releases only, or pure ones"
    return f"accountant {accountant} does not know {why}; {instead}"


def by_quadrature(composition: Composition) -> bool:
    """Whether `rdp_curve` takes Rényi divergences of such a composition by quadrature."""
    exact = knows("autodp", composition) or knows("dp_accounting", composition)
    return not exact and knows("renyi", composition)


def least_epsilon(plan: Plan, delta: float) -> float:
    """A bound on the ε that is still read when the noise of `plan` grows without bound.

    0 for Gaussian releases alone. Releases with an ε of their own keep it, and in Rényi DP there
    remains the conversion at the highest order.
    """
    composition = plan.composition
    own = primary(composition)
    if own == "published":
        return max(conversion_floor(delta, term.orders[-1]) for term in composition.terms)
    converts = own not in ("pld", "mixture")
    if not converts or composition.is_gaussian or composition.is_pure:
        return composition.least_epsilon
    return max(conversion_floor(delta), composition.least_epsilon)


def cross_check(plan: Plan, noise_multiplier: float, delta: float) -> tuple[float, float]:
    """ε by a plan's primary accountant and by the one that checks it.

    autodp and dp-accounting, both in Rényi DP at equal orders, may not differ by more than
    `AGREEMENT` relative to the larger. An ε of both below `AGREEMENT` passes: down there
    dp-accounting bounds δ through the KL divergence, which autodp does not. Of "pld" and a Rényi
    accountant the second may only be looser, bins apart. Where no second accountant knows the plan,
    the one ε is given twice.

    Raises GraphDPError with both numbers when they disagree.
    """
    composition = plan.composition
    own, other = primary(composition), second(composition)
    if other is None:
        value = epsilon(plan, noise_multiplier, delta, own)
        return value, value
    if own == "pld":
        return _check_distribution(plan, noise_multiplier, delta, other)
    google = epsilon(plan, noise_multiplier, delta, "dp_accounting")
    if google in (0.0, math.inf) or composition.is_pure:
        ours = epsilon(plan, noise_multiplier, delta, "autodp_rdp")
    else:
        ours, _ = autodp_rdp_epsilon(composition, noise_multiplier, delta, WHOLE_ORDERS)
    larger = max(ours, google)
    if google == 0 < ours and delta**2 > -math.expm1(-rdp_curve(composition, noise_multiplier)(2)):
        raise GraphDPError(
            f"delta {delta:g} is so large that dp-accounting, which bounds it by the KL divergence "
            f"as well, reads epsilon 0 where autodp reads {ours:.9g}: neither can check the other; "
            f"give a delta below 1 / number of units"
        )
    if ours != google and larger > AGREEMENT and not abs(ours - google) <= AGREEMENT * larger:
        raise GraphDPError(
            f"the accountants disagree at noise multiplier {noise_multiplier:g}, delta {delta:g}: "
            f"autodp says epsilon {ours:.9g}, dp-accounting {google:.9g}; trust neither and check "
            f"the versions of both against envs/requirements.txt"
        )
    return ours, google


def _check_distribution(
    plan: Plan, noise_multiplier: float, delta: float, other: str
) -> tuple[float, float]:
    tight = epsilon(plan, noise_multiplier, delta, "pld")
    loose = epsilon(plan, noise_multiplier, delta, other)
    if not tight <= loose * (1 + AGREEMENT) + AGREEMENT:
        raise GraphDPError(
            f"the accountants disagree at noise multiplier {noise_multiplier:g}, delta {delta:g}: "
            f"pld says epsilon {tight:.9g} and {other} {loose:.9g}, which can only be larger "
            "up to bins: either one of them is wrong, or there are more small steps than bins are "
            "fine enough for; ask for accountant auto, or for fewer steps"
        )
    return tight, loose


# --- releases with a noise multiplier each --------------------------------------------------------


def parts_epsilon(
    parts: Sequence[tuple[Composition, float]], delta: float, accountant: str
) -> float:
    """ε at `delta` of releases with a noise multiplier each, finite and above 0.

    accountant: a primary one but "autodp", which must know all of them.
    """
    return _PARTS_EPSILON[accountant](parts, delta)


def rdp_curve(composition: Composition, noise: float) -> Callable[[float], float]:
    """RDP(order), for orders above 1, by the first accountant in Rényi DP that knows all terms.

    Raises GraphDPError if there is none.
    """
    if knows("autodp", composition):
        return autodp_rdp_curve(composition, noise)
    if knows("dp_accounting", composition):
        return cache(lambda order: google_rdp_curve(composition, noise, order))
    if knows("renyi", composition):
        return renyi_rdp_curve(composition, noise)
    kinds = " and ".join(term.what for term in composition.terms)
    raise GraphDPError(f"no accountant in Rényi DP composes {kinds}")


_EPSILON: dict[str, Callable[[Composition, float, float], float]] = {
    "autodp": autodp_epsilon,
    "autodp_rdp": lambda *arguments: autodp_rdp_epsilon(*arguments)[0],
    "dp_accounting": lambda *arguments: google_rdp_epsilon(*arguments)[0],
    "pld": pld_epsilon,
    "exact": lambda c, noise, delta: gaussian_epsilon(math.sqrt(c.gaussian) / noise, delta),
    "renyi": renyi_epsilon,
    "mixture": mixture_epsilon,
    "published": lambda c, noise, delta: published_parts_epsilon([(c, noise)], delta),
}
_PARTS_EPSILON: dict[str, Callable[[Sequence[tuple[Composition, float]], float], float]] = {
    "dp_accounting": lambda parts, delta: google_parts_epsilon(parts, delta)[0],
    "pld": pld_parts_epsilon,
    "mixture": mixture_parts_epsilon,
    "published": published_parts_epsilon,
}
_DELTA: dict[str, Callable[[Composition, float, float], float]] = {
    "autodp": autodp_delta,
    "autodp_rdp": autodp_rdp_delta,
    "dp_accounting": google_rdp_delta,
    "pld": pld_delta,
    "exact": lambda c, noise, epsilon: gaussian_delta(math.sqrt(c.gaussian) / noise, epsilon),
    "renyi": renyi_delta,
    "mixture": mixture_delta,
    "published": renyi_delta,
}
