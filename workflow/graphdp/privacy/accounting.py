"""From a plan and a noise multiplier to ε(δ) and δ(ε), by several accountants.

Accountants (the name goes into every artefact):

- "autodp": the project's primary accountant. Plans of Gaussian releases alone compose exactly
  (autodp's ComposeGaussian; its generic Composition would be looser). Other plans compose in
  Rényi DP with autodp's Poisson amplification, `improved_bound_flag` set: exact for Gaussians.
- "autodp_rdp": as above, but Rényi DP for every plan.
- "dp_accounting": Google's Rényi accountant, at whole orders: the independent cross-check.
- "pld": Google's privacy-loss-distribution accountant, pessimistic rounding. The tight value.
- "exact": closed form for Gaussian releases alone (Balle and Wang 2018, Theorem 8).
- "renyi": Rényi divergences by quadrature; only for plans with groups (below), as a cross-check.

Two kinds of plans have a primary accountant of their own (`primary`). Steps in which a group of
records may be replaced (`graphdp.privacy.group`) are composed as privacy loss distributions, "pld",
and "renyi" must not read less. Steps on samples of a fixed size, one record replaced, are composed
by "dp_accounting" (Wang, Balle, Kasiviswanathan 2019, Theorem 27), which alone knows them here.

Two kinds of release are outside of these libraries. The ε of pure releases alone is their sum,
whichever accountant is asked ("exact" among them); beside others they enter Rényi DP as randomised
response. Steps over fixed-size samples that move a group of records are accounted in Rényi DP
alone ("autodp", "autodp_rdp"), by Daigavane et al. 2021: `fixed_size_log_moment`.

All of them assume that adding or removing one unit changes one record of a DP-SGD sample and
moves each release by at most its sensitivity; the plan says under which adjacency that is so.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from graphdp.errors import GraphDPError
from graphdp.privacy.plan import Composition, Plan

ACCOUNTANTS = ("autodp", "autodp_rdp", "dp_accounting", "pld", "exact")
#: The accountants of plans with groups; "renyi" knows no other plans.
GROUP_ACCOUNTANTS = ("pld", "renyi")
#: autodp and dp-accounting must agree to this, relative, at equal Rényi orders.
AGREEMENT = 1e-3
#: Width of a bin of the privacy loss distribution. Rounding is pessimistic: a wide bin costs
#: tightness (below 0.1 % here), never validity.
PLD_INTERVAL = 1e-3
#: Below this noise multiplier ε is in the hundreds and the distribution takes minutes.
PLD_LEAST_NOISE = 0.1


def _rdp_orders() -> tuple[float, ...]:
    orders = [i / 20 for i in range(40, 200)] + [i / 4 for i in range(40, 160)]
    orders += map(float, range(40, 257))
    while orders[-1] < 8192:
        orders.append(min(8192.0, orders[-1] + orders[-1] // 64))
    return tuple(orders)


#: Rényi orders of autodp. Dense where a large ε is decided (ε = 8 sits near order 4, where whole
#: orders alone cost 1 % of ε), high orders for small ε. None below 2, where autodp's amplified
#: steps know nothing better than order 2.
RDP_ORDERS = _rdp_orders()
RDP_ORDERS_TEXT = "2 to 10 by 0.05, to 40 by 0.25, to 256 by 1, then about 1.5 % apart up to 8192"
#: The orders of dp-accounting, and of the cross-check: both libraries compute the subsampled
#: Gaussian exactly at whole orders. In between autodp interpolates the moments (an upper bound).
WHOLE_ORDERS = tuple(order for order in RDP_ORDERS if order.is_integer())
#: What is computed here and not by a library: the steps of `FixedSizeDPSGD`.
FIXED_SIZE_METHOD = "Rényi DP; fixed-size samples: own sum of Daigavane et al. 2021"
#: How an RDP curve becomes ε(δ), for the statements.
RDP_CONVERSION = "Balle et al. 2020, Theorem 21; Canonne, Kamath, Steinke 2020, Proposition 12"


def check_delta(delta: float) -> float:
    """`delta` itself; GraphDPError unless 0 < delta < 1."""
    if isinstance(delta, bool) or not isinstance(delta, int | float) or not 0 < delta < 1:
        raise GraphDPError(
            f"delta is {delta!r}; it must lie strictly between 0 and 1, below 1 / number of units"
        )
    return float(delta)


def primary(composition: Composition) -> str:
    """The accountant whose ε counts for such a composition."""
    if composition.grouped:
        return "pld"
    return "dp_accounting" if composition.fixed else "autodp"


def epsilon(
    plan: Plan, noise_multiplier: float, delta: float, accountant: str | None = None
) -> float:
    """The ε at `delta` of a plan run with this noise multiplier (noise std / sensitivity).

    accountant: one of `ACCOUNTANTS`; None for the plan's `primary` one. ε is exactly 0 for a plan
    that releases nothing (and for infinite noise), and exactly ∞ for noise 0 or a release without
    noise.

    Raises GraphDPError when delta is not in (0, 1), the noise is negative, the accountant is
    unknown, or it is asked of a plan whose steps it does not know.
    """
    delta = check_delta(delta)
    accountant = accountant or primary(plan.composition)
    composition, known = _prepare(plan, noise_multiplier, accountant)
    if known is not None:
        return known
    return _EPSILON[accountant](composition, float(noise_multiplier), delta)


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
    """The composition, and its ε where that is 0 or ∞ without any computation (else None)."""
    if not noise >= 0:  # also refuses NaN
        raise GraphDPError(f"noise multiplier is {noise!r}; give a number of at least 0")
    composition = plan.composition
    names = GROUP_ACCOUNTANTS if composition.grouped else ACCOUNTANTS
    if accountant not in {*ACCOUNTANTS, *names}:
        raise GraphDPError(f"accountant is {accountant!r}; choose one of {', '.join(names)}")
    _check_knows(accountant, composition)
    if accountant == "exact" and not (
        composition.is_gaussian or composition.is_pure or composition.unnoised
    ):
        raise GraphDPError(
            "the exact accountant knows Gaussian releases only and this plan subsamples; "
            "use autodp, dp_accounting or pld"
        )
    if accountant in ("dp_accounting", "pld") and not has_second_library(composition):
        raise GraphDPError(
            f"{accountant} knows no fixed-size samples that move a group of records; use autodp"
        )
    if composition.is_empty:
        return composition, 0.0
    if noise == 0 or composition.unnoised:
        return composition, math.inf
    if noise == math.inf:
        return composition, 0.0
    return composition, composition.pure / noise if composition.is_pure else None


def has_second_library(composition: Composition) -> bool:
    """Whether dp-accounting can account for these releases as well."""
    return not (composition.fixed_size or (composition.pure and not composition.is_pure))


def _check_knows(accountant: str, composition: Composition) -> None:
    """Refuse an accountant that would leave out or misread some of the composition's steps."""
    others = (
        composition.fixed_size or composition.pure or (composition.grouped and composition.fixed)
    )
    if (composition.grouped or composition.fixed) and others:
        raise GraphDPError("no accountant composes these ways of sampling with each other")
    known = GROUP_ACCOUNTANTS if composition.grouped else (primary(composition),)
    if (composition.grouped or composition.fixed) and accountant not in known:
        raise GraphDPError(
            f"accountant {accountant} does not know this plan's sampling; use {' or '.join(known)}"
        )
    if accountant == "renyi" and composition.sampled:
        raise GraphDPError("accountant renyi knows no single Poisson-sampled records; use pld")


def cross_check(plan: Plan, noise_multiplier: float, delta: float) -> tuple[float, float]:
    """ε by autodp and by dp-accounting, both in Rényi DP at equal orders.

    Returns (autodp, dp_accounting). Raises GraphDPError with both numbers when they differ by more
    than `AGREEMENT` relative to the larger. An ε of both below `AGREEMENT` passes: down there
    dp-accounting bounds δ through the KL divergence, which autodp does not.
    """
    if plan.composition.grouped:
        return _cross_check_groups(plan, noise_multiplier, delta)
    google = epsilon(plan, noise_multiplier, delta, "dp_accounting")
    if plan.composition.fixed:
        # The only accountant of fixed samples here; a test holds its curve against autodp's.
        return google, google
    if google in (0.0, math.inf) or plan.composition.is_pure:
        ours = epsilon(plan, noise_multiplier, delta, "autodp_rdp")
    else:
        ours, _ = autodp_rdp_epsilon(plan.composition, noise_multiplier, delta, WHOLE_ORDERS)
    larger = max(ours, google)
    if ours != google and larger > AGREEMENT and not abs(ours - google) <= AGREEMENT * larger:
        raise GraphDPError(
            f"the accountants disagree at noise multiplier {noise_multiplier:g}, delta {delta:g}: "
            f"autodp says epsilon {ours:.9g}, dp-accounting {google:.9g}; trust neither and check "
            f"the versions of both against envs/requirements.txt"
        )
    return ours, google


def _cross_check_groups(plan: Plan, noise_multiplier: float, delta: float) -> tuple[float, float]:
    """ε by privacy loss distributions and by Rényi divergences, which may only be looser.

    Both rest on the lemma of `graphdp.privacy.group`, and share no code beyond its pair.
    """
    tight = epsilon(plan, noise_multiplier, delta, "pld")
    loose = epsilon(plan, noise_multiplier, delta, "renyi")
    if not tight <= loose * (1 + AGREEMENT) + AGREEMENT:
        raise GraphDPError(
            f"the accountants disagree at noise multiplier {noise_multiplier:g}, delta {delta:g}: "
            f"pld says epsilon {tight:.9g} and renyi {loose:.9g}, which can only be larger; "
            "trust neither"
        )
    return tight, loose


# --- exact: Gaussian releases alone ---------------------------------------------------------------


def _mu(composition: Composition, noise: float) -> float:
    """The composition of k Gaussian releases of multiplier σ is one Gaussian with μ = √k / σ."""
    return math.sqrt(composition.gaussian) / noise


def gaussian_delta(mu: float, epsilon: float) -> float:
    """δ(ε) of a Gaussian mechanism with sensitivity / noise std = `mu` > 0, at `epsilon` ≥ 0.

    Φ(a) - e^ε Φ(b) with a = μ/2 - ε/μ and b = -μ/2 - ε/μ (Balle and Wang 2018, Theorem 8), to a
    relative error below 1e-9. Since b² - a² = 2ε, both terms share the factor exp(-a²/2), which
    taken out leaves a difference of scaled error functions that cannot underflow.
    """
    from scipy.special import erfcx, ndtr

    a = mu / 2 - epsilon / mu
    b = -mu / 2 - epsilon / mu
    half_tail = 0.5 * math.exp(-a * a / 2)
    second = half_tail * erfcx(-b / math.sqrt(2))
    first = half_tail * erfcx(-a / math.sqrt(2)) if a < 0 else ndtr(a)
    return max(0.0, float(first - second))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest ε ≥ 0 with `gaussian_delta(mu, ε)` ≤ delta (relative error below 1e-9)."""
    from scipy.optimize import brentq

    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0

    def excess(epsilon: float) -> float:
        # In logarithms, where the tail is nearly linear; an underflow is far below any δ.
        return math.log(max(gaussian_delta(mu, epsilon), 1e-320)) - math.log(delta)

    # ε ≤ μ²/2 + μ √(2 ln 1/δ): the Rényi bound μ²α/2 + ln(1/δ)/(α - 1) at its best order.
    upper = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta))
    if upper == math.inf:
        return math.inf
    return float(brentq(excess, 0.0, upper, xtol=1e-14 * upper, rtol=1e-14))


def _exact_epsilon(composition: Composition, noise: float, delta: float) -> float:
    return gaussian_epsilon(_mu(composition, noise), delta)


def _exact_delta(composition: Composition, noise: float, epsilon: float) -> float:
    return gaussian_delta(_mu(composition, noise), epsilon)


# --- Rényi DP -------------------------------------------------------------------------------------


def smallest_over_orders(
    value_at: Callable[[float], float], orders: Sequence[float]
) -> tuple[float, float]:
    """The smallest value of a one-valleyed function over increasing `orders`, and its order.

    Both conversions have one valley: with g(α) = (α - 1)·RDP(α) convex (a log-moment, or its
    interpolation), δ at order α is log-convex, and (α - 1)·ε(α) = g(α) + (α - 1)ln(1 - 1/α) - ln α
    - ln δ is convex, so its ratio to α - 1 has one valley. So each library's slow moments are
    computed at some 15 orders in place of 700. A miss could only give a larger, still valid, bound.
    """
    values: dict[int, float] = {}

    def value(index: int) -> float:
        if index not in values:
            values[index] = value_at(orders[index])
        return values[index]

    last = len(orders) - 1
    # Gallop up from the cheap low orders until the values no longer fall...
    low, step = 0, 1
    while low + step <= last and value(low + step) < value(low):
        low, step = low + step, 2 * step
    low, high = low - step // 2, min(last, low + step)
    # ...then halve the stretch that holds the valley.
    while low < high:
        middle = (low + high) // 2
        if value(middle + 1) < value(middle):
            low = middle + 1
        else:
            high = middle
    return value(low), orders[low]


@lru_cache(maxsize=64)
def autodp_rdp_curve(composition: Composition, noise: float) -> Callable[[float], float]:
    """autodp's RDP(order) of a composition, by its analytical moments accountant.

    The code behind `AmplificationBySampling(improved_bound_flag=True)`, called directly: the
    wrapper spends 20 ms per noise on a table of 100 orders (m = 2 skips it), and recomputes two
    whole orders for every fractional one, where here each is computed once.
    """
    from autodp.mechanism_zoo import GaussianMechanism
    from autodp.rdp_acct import anaRDPacct

    step = GaussianMechanism(noise)
    sampled = anaRDPacct(m=2)
    for rate, steps in composition.sampled:
        sampled.compose_poisson_subsampled_mechanisms(step.RenyiDP, rate, coeff=steps)
    sampled.build_zeroth_oracle()
    pure = composition.pure / noise

    @cache
    def log_moment(order: int) -> float:
        # On the way autodp evaluates quick bounds that it does not use, and these may overflow.
        with np.errstate(all="ignore"):
            return (order - 1) * float(sampled.evalRDP(order))

    def rdp(order: float) -> float:
        below = math.floor(order)
        share = order - below
        # Log-moments are convex, so the chord is an upper bound; autodp interpolates the same way.
        moment = log_moment(below)
        if share:
            moment += share * (log_moment(below + 1) - moment)
        for sampling, steps in composition.fixed_size:
            moment += steps * fixed_size_log_moment(sampling, noise, order)
        if pure:
            moment += pure_log_moment(pure, order)
        return composition.gaussian * float(step.RenyiDP(order)) + moment / (order - 1)

    return rdp


def fixed_size_log_moment(sampling: tuple[int, int, int], noise: float, order: float) -> float:
    """(α - 1) times the Rényi DP at order α of a step of `FixedSizeDPSGD`.

    sampling: (N, B, G). ln Σ_ρ P(ρ) exp(α(α - 1) ρ² / (2 G² σ²)) with ρ, the number of differing
    records in a batch, Hypergeometric(N, G, B). Given the batch, the noisy sums are Gaussians whose
    means lie at most ρ / G sensitivities apart; and exp((α - 1) D_α) is jointly convex, so that of
    the mixture over batches is at most the mean.
    Source: Daigavane et al. 2021, moments bound for one-layer networks (their λ = 2 G C σ).
    """
    from scipy.special import logsumexp

    changed, log_chances = _hypergeometric(*sampling)
    exponents = order * (order - 1) * (changed / (sampling[2] * noise)) ** 2 / 2
    return max(0.0, float(logsumexp(log_chances + exponents)))


@lru_cache(maxsize=64)
def _hypergeometric(population: int, batch_size: int, group: int) -> tuple[np.ndarray, np.ndarray]:
    """How many of a group are drawn: every possible number, and the logarithm of its chance."""
    from scipy.stats import hypergeom

    drawn = np.arange(max(0, batch_size - (population - group)), min(group, batch_size) + 1)
    return drawn, hypergeom.logpmf(drawn, population, group, batch_size)


def pure_log_moment(epsilon: float, order: float) -> float:
    """(α - 1) times the Rényi DP at order α of any ε-DP release: that of randomised response.

    With p = e^ε / (1 + e^ε): ln(p^α (1 - p)^(1 - α) + (1 - p)^α p^(1 - α)). Every ε-DP release
    is a post-processing of it (Kairouz, Oh and Viswanath 2015).
    """
    return float(np.logaddexp(order * epsilon, (1 - order) * epsilon) - np.logaddexp(epsilon, 0))


def least_epsilon(plan: Plan, delta: float) -> float:
    """The ε that "autodp" still reads when the noise of `plan` grows without bound.

    0 for Gaussian releases alone. In Rényi DP what remains is the conversion at the highest order,
    ln(1 - 1/α) - ln(αδ) / (α - 1) when positive: no noise gets below it.
    """
    composition = plan.composition
    if composition.grouped or not (
        composition.sampled or composition.fixed_size or composition.fixed
    ):
        return 0.0
    order = (WHOLE_ORDERS if composition.fixed else RDP_ORDERS)[-1]
    return max(0.0, math.log1p(-1 / order) - math.log(order * delta) / (order - 1))


def autodp_rdp_epsilon(
    composition: Composition, noise: float, delta: float, orders: Sequence[float] = RDP_ORDERS
) -> tuple[float, float]:
    """ε at `delta` by autodp's Rényi DP over `orders`, and the order that gives it."""
    rdp = autodp_rdp_curve(composition, noise)

    def epsilon_at(order: float) -> float:
        # autodp's own conversion, at fixed orders in place of its local search over real orders,
        # so that the result can be repeated by other tools.
        divergence = rdp(order) + math.log1p(-1 / order)
        return divergence - (math.log(delta) + math.log(order)) / (order - 1)

    value, order = smallest_over_orders(epsilon_at, orders)
    return max(value, 0.0), order


def _autodp_rdp_delta(composition: Composition, noise: float, epsilon: float) -> float:
    rdp = autodp_rdp_curve(composition, noise)

    def log_delta_at(order: float) -> float:
        divergence = rdp(order) + math.log1p(-1 / order)
        return (order - 1) * (divergence - epsilon) - math.log(order)

    return math.exp(min(smallest_over_orders(log_delta_at, RDP_ORDERS)[0], 0.0))


def _autodp_epsilon(composition: Composition, noise: float, delta: float) -> float:
    if not composition.is_gaussian:
        return autodp_rdp_epsilon(composition, noise, delta)[0]
    from autodp.mechanism_zoo import ExactGaussianMechanism
    from autodp.transformer_zoo import ComposeGaussian

    step = ExactGaussianMechanism(noise)
    return float(ComposeGaussian()([step], [composition.gaussian]).get_approxDP(delta))


def _autodp_delta(composition: Composition, noise: float, epsilon: float) -> float:
    if not composition.is_gaussian:
        return _autodp_rdp_delta(composition, noise, epsilon)
    # ComposeGaussian overrides only ε(δ) with the exact value, so δ(ε) comes from its formula.
    from autodp.dp_bank import get_logdelta_ana_gaussian

    log_delta = get_logdelta_ana_gaussian(1 / _mu(composition, noise), epsilon)
    return float(math.exp(log_delta))


def _google_event(composition: Composition, noise: float) -> Any:
    import dp_accounting

    gaussian = dp_accounting.GaussianDpEvent(noise)
    builder = dp_accounting.DpEventBuilder()
    if composition.gaussian:
        builder.compose(gaussian, composition.gaussian)
    for rate, steps in composition.sampled:
        builder.compose(dp_accounting.PoissonSampledDpEvent(rate, gaussian), steps)
    for rate, steps in composition.fixed:
        # The library reads the two numbers for their ratio alone.
        sample = dp_accounting.SampledWithoutReplacementDpEvent(1.0, rate, gaussian)
        builder.compose(sample, steps)
    return builder.build()


def _google_rdp(composition: Composition, noise: float, orders: Sequence[float]) -> Any:
    from dp_accounting import NeighboringRelation
    from dp_accounting.rdp import RdpAccountant

    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    if composition.fixed:  # plain Gaussian releases read the same under either relation
        relation = NeighboringRelation.REPLACE_ONE
    return RdpAccountant(orders, relation).compose(_google_event(composition, noise))


def google_rdp_epsilon(
    composition: Composition, noise: float, delta: float, orders: Sequence[float] = WHOLE_ORDERS
) -> tuple[float, float]:
    """ε at `delta` by dp-accounting's Rényi DP over `orders`, and the order that gives it."""

    def epsilon_at(order: float) -> float:
        return float(_google_rdp(composition, noise, [order]).get_epsilon(delta))

    return smallest_over_orders(epsilon_at, orders)


def _google_rdp_delta(composition: Composition, noise: float, epsilon: float) -> float:
    # dp-accounting also bounds δ by the KL divergence, a second valley: so all orders at once, up
    # to where that takes a fifth of a second (leaving orders out only loosens a tiny ε).
    orders = [order for order in WHOLE_ORDERS if order <= 256]
    return float(_google_rdp(composition, noise, orders).get_delta(epsilon))


def parts_epsilon(parts: Sequence[tuple[Composition, float]], delta: float) -> float:
    """ε at `delta` of releases with a noise multiplier each, groups or fixed samples among them.

    Every noise must be finite and above 0.
    """
    if any(composition.grouped for composition, _ in parts):
        return float(groups_pld(parts).get_epsilon_for_delta(delta))

    def epsilon_at(order: float) -> float:
        total = _google_rdp(*parts[0], [order])
        for composition, noise in parts[1:]:
            total.compose(_google_event(composition, noise))
        return float(total.get_epsilon(delta))

    return smallest_over_orders(epsilon_at, WHOLE_ORDERS)[0]


# --- privacy loss distribution --------------------------------------------------------------------


#: The composition of so many steps may leave out this much of their mass; it counts as δ.
_PLD_TRUNCATION = 1e-15


def _check_pld_noise(noise: float) -> None:
    if noise < PLD_LEAST_NOISE:
        raise GraphDPError(
            f"noise multiplier {noise:g} is too small for the pld accountant, whose tables grow "
            f"with the privacy loss; use autodp below {PLD_LEAST_NOISE:g}"
        )


def _pld(composition: Composition, noise: float) -> Any:
    from dp_accounting.pld import PLDAccountant

    _check_pld_noise(noise)
    accountant = PLDAccountant(value_discretization_interval=PLD_INTERVAL)
    return accountant.compose(_google_event(composition, noise))


def groups_pld(parts: Sequence[tuple[Composition, float]]) -> Any:
    """The privacy loss distribution of releases with a noise multiplier each, groups included.

    Returns dp-accounting's `PrivacyLossDistribution`. Raises GraphDPError for a noise below
    `PLD_LEAST_NOISE` and for samples of a fixed size.
    """
    from dp_accounting.pld import privacy_loss_distribution as distribution

    from graphdp.privacy import group

    total = distribution.identity(PLD_INTERVAL)
    for composition, noise in parts:
        _check_pld_noise(noise)
        if composition.fixed:
            raise GraphDPError("no privacy loss distribution is known for samples of a fixed size")
        steps = [
            (group.privacy_loss(rate, size, 1 / (noise * per_clip), PLD_INTERVAL), count)
            for rate, size, per_clip, count in composition.grouped
        ]
        for rate, count in composition.sampled:
            gaussian = distribution.from_gaussian_mechanism(
                noise, value_discretization_interval=PLD_INTERVAL, sampling_prob=rate
            )
            steps.append((gaussian, count))
        if composition.gaussian:
            # k releases are one, of noise smaller by √k.
            gaussian = distribution.from_gaussian_mechanism(
                noise / math.sqrt(composition.gaussian), value_discretization_interval=PLD_INTERVAL
            )
            steps.append((gaussian, 1))
        for step, count in steps:
            if count > 1:
                step = step.self_compose(count, _PLD_TRUNCATION)
            total = total.compose(step, _PLD_TRUNCATION)
    return total


def _pld_epsilon(composition: Composition, noise: float, delta: float) -> float:
    if composition.grouped:
        return float(groups_pld([(composition, noise)]).get_epsilon_for_delta(delta))
    return float(_pld(composition, noise).get_epsilon(delta))


def _pld_delta(composition: Composition, noise: float, epsilon: float) -> float:
    if composition.grouped:
        return float(groups_pld([(composition, noise)]).get_delta_for_epsilon(epsilon))
    return float(_pld(composition, noise).get_delta(epsilon))


#: Orders of the cross-check of groups: few, since the check allows it to be the looser one.
_GROUP_ORDERS = tuple(1 + 2 ** (i / 4) for i in range(-16, 29))


def fixed_rdp(composition: Composition, noise: float) -> Callable[[float], float]:
    """RDP(order), for orders above 1, of samples of a fixed size and Gaussian releases when one
    record is replaced (Wang, Balle, Kasiviswanathan 2019, Theorem 27, by dp-accounting)."""
    if composition.grouped or composition.sampled or composition.fixed_size or composition.pure:
        raise GraphDPError("samples of a fixed size compose with Gaussian releases only")

    @cache
    def rdp(order: float) -> float:
        return float(_google_rdp(composition, noise, [order])._rdp[0])

    return rdp


def groups_rdp(composition: Composition, noise: float) -> Callable[[float], float]:
    """RDP(order), for orders above 1, of a composition of groups and Gaussian releases."""
    from graphdp.privacy import group

    if composition.fixed or composition.sampled:
        raise GraphDPError("groups compose with Gaussian releases and other groups only")
    pairs = [
        (steps, group.Pair(rate, size, 1 / (noise * per_clip)))
        for rate, size, per_clip, steps in composition.grouped
    ]

    @cache
    def rdp(order: float) -> float:
        divergence = composition.gaussian * order / (2 * noise * noise)
        return divergence + sum(steps * pair.renyi(order) for steps, pair in pairs)

    return rdp


def _renyi_epsilon(composition: Composition, noise: float, delta: float) -> float:
    rdp = groups_rdp(composition, noise)

    def epsilon_at(order: float) -> float:
        return rdp(order) + math.log1p(-1 / order) - math.log(delta * order) / (order - 1)

    return max(0.0, smallest_over_orders(epsilon_at, _GROUP_ORDERS)[0])


def _no_delta(composition: Composition, noise: float, epsilon: float) -> float:
    raise GraphDPError("accountant renyi gives ε(δ) only; use pld for δ(ε)")


_EPSILON: dict[str, Callable[[Composition, float, float], float]] = {
    "autodp": _autodp_epsilon,
    "autodp_rdp": lambda *arguments: autodp_rdp_epsilon(*arguments)[0],
    "dp_accounting": lambda *arguments: google_rdp_epsilon(*arguments)[0],
    "pld": _pld_epsilon,
    "exact": _exact_epsilon,
    "renyi": _renyi_epsilon,
}
_DELTA: dict[str, Callable[[Composition, float, float], float]] = {
    "autodp": _autodp_delta,
    "autodp_rdp": _autodp_rdp_delta,
    "dp_accounting": _google_rdp_delta,
    "pld": _pld_delta,
    "exact": _exact_delta,
    "renyi": _no_delta,
}
