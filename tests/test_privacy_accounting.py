"""Accounting: against closed forms, high precision, and each library's own pipeline."""

import math
import warnings

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphdp.errors import GraphDPError
from graphdp.methods.gap.plan import gap_plan
from graphdp.methods.mlp.plan import mlp_plan
from graphdp.privacy import accounting
from graphdp.privacy.accounting import (
    ACCOUNTANTS,
    RDP_ORDERS,
    WHOLE_ORDERS,
    cross_check,
    delta,
    epsilon,
    gaussian_delta,
    gaussian_epsilon,
    smallest_over_orders,
)
from graphdp.privacy.accounting.by_google import pld_parts_epsilon
from graphdp.privacy.calibration import calibrate
from graphdp.privacy.composition import smallest_epsilon
from graphdp.privacy.mechanisms.base import Steps
from graphdp.privacy.mechanisms.fixed_size_dpsgd import fixed_size_log_moment
from graphdp.privacy.mechanisms.poisson_group_dpsgd import GroupSteps
from graphdp.privacy.mechanisms.without_replacement_dpsgd import WithoutReplacementDPSGD
from graphdp.privacy.plan import (
    Composition,
    GaussianReleases,
    Plan,
    PoissonDPSGD,
    Sensitivity,
    UnnoisedRelease,
)

UNIT = Sensitivity(1.0, "1", "by definition")
#: GAP-NDP as in the papers on a Facebook-sized graph: 2 × 773 DP-Adam steps and two hops.
GAP_NODE = gap_plan(
    "node",
    hops=2,
    max_degree=100,
    num_train=19800,
    batch_size=256,
    epochs=10,
    max_grad_norm=1.0,
)


def make_plan(*parts):
    """A plan of Gaussian releases (a whole number) and DP-SGD phases (rate, steps)."""
    mechanisms = tuple(
        GaussianReleases("sum", UNIT, part, "aggregation")
        if isinstance(part, int)
        else PoissonDPSGD("gradients", *part, UNIT, "training")
        for part in parts
    )
    return Plan("test", "node", "participant", "corrected", "proven", (), None, mechanisms)


# --- the Gaussian mechanism -----------------------------------------------------------------------


def high_precision_delta(mu: float, eps: float) -> mpmath.mpf:
    mu, eps = mpmath.mpf(mu), mpmath.mpf(eps)
    cdf = mpmath.ncdf
    return cdf(mu / 2 - eps / mu) - mpmath.exp(eps) * cdf(-mu / 2 - eps / mu)


@pytest.mark.parametrize("mu", [1e-3, 0.02, 0.3, 1.0, 3.0, 10.0, 30.0])
@pytest.mark.parametrize("eps", [0.0, 1e-4, 0.1, 1.0, 4.0, 16.0, 100.0])
def test_gaussian_delta_against_high_precision(mu, eps):
    with mpmath.workdps(400):
        expected = high_precision_delta(mu, eps)
        if expected < mpmath.mpf("1e-290"):
            assert gaussian_delta(mu, eps) <= 1e-280
        else:
            assert abs(mpmath.mpf(gaussian_delta(mu, eps)) / expected - 1) < 1e-9


@pytest.mark.parametrize("mu", [1e-3, 0.05, 0.2, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("target", [1e-15, 1e-9, 1e-7, 1e-5, 1e-2, 0.3])
def test_gaussian_epsilon_against_high_precision(mu, target):
    found = gaussian_epsilon(mu, target)
    with mpmath.workdps(60):
        if high_precision_delta(mu, 0) <= target:
            assert found == 0.0
        else:
            # The root lies within 1e-9 of the answer, on both sides.
            assert high_precision_delta(mu, found * (1 - 1e-9)) > target
            assert high_precision_delta(mu, found * (1 + 1e-9)) < target


def test_published_values_of_three_hops():
    """ε = 1, δ = 1e-7, K = 3: σ is 8.104 composed exactly and 8.620 in Rényi DP (the generic
    composition that ProGAP's code uses wastes 6 % of noise)."""
    three = make_plan(3)
    for accountant in ("autodp", "exact"):
        assert epsilon(three, 8.104, 1e-7, accountant) == pytest.approx(1.0, abs=1e-4)
    for accountant in ("autodp_rdp", "dp_accounting"):
        assert epsilon(three, 8.620, 1e-7, accountant) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("noise", [0.5, 2.0, 30.0])
def test_every_accountant_on_gaussian_releases(noise):
    plan = make_plan(3, (1.0, 2))  # sampling everyone is no sampling: five releases
    exact = epsilon(plan, noise, 1e-6, "exact")
    assert epsilon(plan, noise, 1e-6, "autodp") == pytest.approx(exact, rel=1e-9)
    assert exact <= epsilon(plan, noise, 1e-6, "pld") <= exact + 5 * accounting.PLD_INTERVAL
    for accountant in ("autodp_rdp", "dp_accounting"):
        assert exact < epsilon(plan, noise, 1e-6, accountant) < 1.2 * exact
    for accountant in ("autodp", "exact"):
        assert delta(plan, noise, exact, accountant) == pytest.approx(1e-6, rel=1e-6)


# --- Rényi DP against the libraries' own pipelines ------------------------------------------------


def native_autodp(plan, noise):
    """The mechanism as GAP's code builds it: Composition of AmplificationBySampling."""
    from autodp.mechanism_zoo import GaussianMechanism
    from autodp.transformer_zoo import AmplificationBySampling, Composition

    composition = plan.composition
    step = GaussianMechanism(noise)
    amplify = AmplificationBySampling(PoissonSampling=True)
    steps = [pair for term in composition.terms if isinstance(term, Steps) for pair in term.steps]
    sampled = [amplify(step, rate, improved_bound_flag=True) for rate, _ in steps]
    counts = [count for _, count in steps]
    return Composition()([step, *sampled], [composition.gaussian, *counts])


@pytest.mark.parametrize("noise", [0.5, 1.0, 3.0, 12.0])
def test_rdp_equals_autodps_amplification_by_sampling(noise):
    plan = make_plan((0.013, 1546), 2, (0.2, 3))
    ours = accounting.autodp_rdp_curve(plan.composition, noise)
    native = native_autodp(plan, noise)
    for order in (2.0, 2.05, 3.0, 3.55, 17.75, 64.0, 130.0):
        assert ours(order) == pytest.approx(native.RenyiDP(order), rel=1e-12)


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
@pytest.mark.parametrize("noise", [0.7, 1.0, 1.6, 5.0])
@pytest.mark.parametrize("hops", [1, 5])
def test_epsilon_is_autodps_own_on_a_grid_of_orders(noise, hops):
    """autodp minimises over real orders; the fixed grid costs less than 0.1 % and never gains."""
    plan = make_plan((0.013, 1546), hops)
    native = float(native_autodp(plan, noise).get_approxDP(1e-5))
    assert native * (1 - 1e-6) <= epsilon(plan, noise, 1e-5) <= native * 1.001


@pytest.mark.parametrize("accountant", ["autodp_rdp", "dp_accounting"])
@pytest.mark.parametrize("parts", [[(0.013, 1546), 2], [3], [(0.01, 9000)], [(0.4, 10), 1]])
def test_the_search_over_orders_finds_the_least_epsilon_of_all(accountant, parts):
    plan = make_plan(*parts)
    composition = plan.composition
    find, orders = {
        "autodp_rdp": (accounting.autodp_rdp_epsilon, RDP_ORDERS),
        "dp_accounting": (accounting.google_rdp_epsilon, WHOLE_ORDERS),
    }[accountant]
    low = [order for order in orders if order <= 70]
    for noise in (0.6, 2.0, 6.0):
        everywhere = min(find(composition, noise, 1e-5, (order,))[0] for order in low)
        assert find(composition, noise, 1e-5)[0] == pytest.approx(everywhere, rel=1e-12)


@pytest.mark.parametrize("parts", [[(0.013, 1546), 2], [(0.013, 773)], [5], [(0.7, 1), (0.01, 9)]])
@pytest.mark.parametrize("noise", [0.4, 1.0, 4.0, 40.0])
def test_autodp_and_dp_accounting_agree_at_equal_orders(parts, noise):
    ours, google = cross_check(make_plan(*parts), noise, 1e-6)
    assert ours == pytest.approx(google, rel=1e-8)


def test_disagreement_fails_with_both_numbers(monkeypatch):
    true = accounting.google_rdp_epsilon
    monkeypatch.setattr(
        accounting, "google_rdp_epsilon", lambda *a: (true(*a)[0] * 1.002, true(*a)[1])
    )
    with pytest.raises(GraphDPError) as error:
        cross_check(GAP_NODE, 1.0, 1e-5)
    google = accounting.google_rdp_epsilon(GAP_NODE.composition, 1.0, 1e-5)[0]
    for part in ("disagree", f"{google / 1.002:.9g}", f"{google:.9g}"):
        assert part in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("noise", [0.8, 1.6, 6.0])
def test_the_loss_distribution_is_tighter_than_renyi(noise):
    tight = epsilon(GAP_NODE, noise, 1e-5, "pld")
    assert 0.8 * epsilon(GAP_NODE, noise, 1e-5) < tight < epsilon(GAP_NODE, noise, 1e-5)
    assert delta(GAP_NODE, noise, tight, "pld") == pytest.approx(1e-5, rel=1e-2)


@pytest.mark.parametrize("noise", [12.0, 50.0, 415.0])
def test_the_loss_distribution_is_tight_at_a_small_epsilon_too(noise):
    """Bins of a thousandth are as wide as a tenth of ε at noise 415: 1.86 times the Rényi value."""
    loose, tight = epsilon(GAP_NODE, noise, 1e-5), epsilon(GAP_NODE, noise, 1e-5, "pld")
    assert 0.8 * loose < tight < loose
    assert delta(GAP_NODE, noise, tight, "pld") == pytest.approx(1e-5, rel=1e-2)
    releases = make_plan(3)
    exact = epsilon(releases, noise, 1e-5, "exact")
    assert exact <= epsilon(releases, noise, 1e-5, "pld") <= 1.01 * exact


def test_accounting_is_silent():
    """autodp evaluates bounds that overflow on its way; nothing of that reaches a job's log."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for noise in (0.2, 1.0, 50.0, 5000.0):
            assert epsilon(GAP_NODE, noise, 1e-6) > 0


# --- properties -----------------------------------------------------------------------------------

noises = st.floats(0.4, 20)
deltas = st.sampled_from([1e-9, 1e-6, 1e-5, 1e-3])
rates = st.floats(1e-4, 1.0)
parts = st.one_of(st.integers(1, 6), st.tuples(rates, st.integers(1, 2000)))
plans = st.lists(parts, min_size=1, max_size=3).map(lambda items: make_plan(*items))
properties = settings(max_examples=25)
#: Rounding in sums of up to thousands of steps.
ROUNDING = 1e-9


@properties
@given(plans, noises, st.floats(1.01, 10), deltas)
def test_epsilon_falls_with_noise(plan, noise, factor, d):
    loud, quiet = epsilon(plan, noise * factor, d), epsilon(plan, noise, d)
    # Where δ alone covers the release, ε is 0 at either noise.
    assert loud < quiet * (1 + ROUNDING) or loud == quiet == 0


@properties
@given(st.integers(1, 5), st.floats(1e-4, 0.9), st.integers(1, 500), noises, deltas)
def test_epsilon_rises_with_releases_steps_and_sampling_rate(count, rate, steps, noise, d):
    """Rates stay below 1: there a plan becomes purely Gaussian, and the exact composition that then
    applies is tighter than Rényi DP."""
    base = epsilon(make_plan(count, (rate, steps)), noise, d)
    more = [
        make_plan(count + 1, (rate, steps)),
        make_plan(count, (rate, 2 * steps)),
        make_plan(count, (min(0.95, 1.5 * rate), steps)),
    ]
    for plan in more:
        assert epsilon(plan, noise, d) >= base * (1 - ROUNDING)
    more_gaussians = epsilon(more[0], noise, d)
    assert more_gaussians > base or more_gaussians == base == 0


@properties
@given(st.permutations([3, (0.01, 100), (0.2, 5), 1, (0.01, 50)]), noises)
def test_the_order_of_mechanisms_does_not_matter(parts, noise):
    reference = make_plan(4, (0.01, 150), (0.2, 5))
    plan = make_plan(*parts)
    assert plan.composition == reference.composition
    assert epsilon(plan, noise, 1e-5) == epsilon(reference, noise, 1e-5)


@properties
@given(plans, noises, deltas)
def test_delta_inverts_epsilon(plan, noise, d):
    eps = epsilon(plan, noise, d)
    if eps > 0:
        assert delta(plan, noise, eps) <= d * (1 + 1e-6)
        assert delta(plan, noise, eps * 0.9) > d * (1 - 1e-6)


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_delta_of_every_accountant_falls_with_epsilon(accountant):
    plan = make_plan(2) if accountant == "exact" else GAP_NODE
    values = [delta(plan, 1.5, eps, accountant) for eps in (0.0, 2.0, 6.0)]
    assert 1 >= values[0] > values[1] > values[2] > 0


# --- values that need no computation --------------------------------------------------------------


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_infinity_and_zero_are_values(accountant):
    gaussian = make_plan(2)
    for nothing in (make_plan(), make_plan(0), make_plan((0.1, 0)), mlp_plan("edge")):
        assert epsilon(nothing, 0.0, 1e-5, accountant) == 0.0
        assert epsilon(nothing, 1.0, 1e-5, accountant) == 0.0
        assert delta(nothing, 1.0, 0.0, accountant) == 0.0
    assert epsilon(gaussian, 0.0, 1e-5, accountant) == math.inf
    assert epsilon(gaussian, math.inf, 1e-5, accountant) == 0.0
    assert delta(gaussian, 0.0, 3.0, accountant) == 1.0
    assert delta(gaussian, 1.0, math.inf, accountant) == 0.0
    unnoised = Plan(
        "test", "none", "", "as_published", "", (), None, (UnnoisedRelease("weights", "all"),)
    )
    assert epsilon(unnoised, 5.0, 1e-5, accountant) == math.inf


@pytest.mark.parametrize("bad", [0.0, 1.0, 1.5, -0.1, math.nan, None, True])
def test_delta_must_lie_strictly_between_zero_and_one(bad):
    with pytest.raises(GraphDPError, match="delta is"):
        epsilon(GAP_NODE, 1.0, bad)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: epsilon(GAP_NODE, -1.0, 1e-5), "noise multiplier is -1.0"),
        (lambda: epsilon(GAP_NODE, math.nan, 1e-5), "noise multiplier is nan"),
        (lambda: epsilon(GAP_NODE, 1.0, 1e-5, "opacus"), "accountant is 'opacus'"),
        (lambda: epsilon(GAP_NODE, 1.0, 1e-5, "exact"), "Gaussian releases only"),
        (lambda: epsilon(GAP_NODE, 0.01, 1e-5, "pld"), "too small for the pld accountant"),
        (lambda: delta(GAP_NODE, 1.0, -1.0), "epsilon is -1.0"),
        (lambda: delta(GAP_NODE, 1.0, math.nan), "epsilon is nan"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(call, message):
    with pytest.raises(GraphDPError) as error:
        call()
    assert message in str(error.value) and "\n" not in str(error.value)


def test_orders_are_increasing_and_whole_ones_exact():
    assert np.all(np.diff(RDP_ORDERS) > 0)
    assert (RDP_ORDERS[0], RDP_ORDERS[-1]) == (2.0, 8192.0)
    assert set(range(2, 257)) <= set(WHOLE_ORDERS)


# --- numbers that rounding could make too small ---------------------------------------------------


@pytest.mark.parametrize(
    ("population", "batch", "group", "noise", "order"),
    [
        (10**8, 1024, 10, 2.0, 2.0), (10**9, 10_000, 1555, 802.0, 40.0),
        (169_343, 256, 10, 10.0, 8.0), (1000, 900, 300, 1.0, 3.0), (12, 12, 5, 0.5, 2.5),
        (50, 7, 50, 0.05, 300.0),
    ],
)  # fmt: skip
def test_moments_of_fixed_size_samples_keep_their_digits(population, batch, group, noise, order):
    """Chances of one in ten million beside one: of millions of such steps ε was once 2.6 times too
    small, since the logarithm of each chance had lost as many digits as the population has."""
    whole = mpmath.mpf(math.comb(population, batch)) if population < 10**4 else None
    with mpmath.workdps(60):

        def chance(k):
            others = population - group
            if whole is not None:
                return mpmath.mpf(math.comb(group, k)) * math.comb(others, batch - k) / whole
            return mpmath.binomial(group, k) * mpmath.exp(
                mpmath.loggamma(others + 1)
                - mpmath.loggamma(batch - k + 1)
                - mpmath.loggamma(others - batch + k + 1)
                - mpmath.loggamma(population + 1)
                + mpmath.loggamma(batch + 1)
                + mpmath.loggamma(population - batch + 1)
            )

        mean = mpmath.fsum(
            chance(k)
            * mpmath.expm1(mpmath.mpf(order) * (order - 1) * (k / (group * noise)) ** 2 / 2)
            for k in range(max(0, batch + group - population), min(group, batch) + 1)
        )
        expected = mpmath.log1p(mean)
    found = fixed_size_log_moment((population, batch, group), noise, order)
    assert found == pytest.approx(float(expected), rel=1e-11)


@pytest.mark.parametrize(
    ("steps", "mu", "delta"),
    [
        (100_000, 3, 4e-10),
        (100_000, 1, 4e-10),
        (30_000, 3, 2e-10),
        (3000, 2, 2e-11),
        (900, 2, 1e-5),
    ],
)
def test_what_transforms_round_off_counts_as_delta(steps, mu, delta):
    """At q = 1 all rounds are one Gaussian: its δ was once above by what a power of a transform
    rounds off. Where δ is far above that, ε is what it was."""
    rounds = Composition((GroupSteps((((1.0, 1, 2.0), steps),)),))
    found = pld_parts_epsilon([(rounds, math.sqrt(steps) / mu)], delta)
    true = gaussian_epsilon(mu, delta)
    assert true <= found < (1.05 if delta < 1e-9 else 1.0002) * true
    rounding = steps * 2.0**-50
    assert found >= gaussian_epsilon(mu, delta - rounding if rounding > 1e-4 * delta else delta)


def test_a_delta_below_what_transforms_round_off_is_refused():
    rounds = Composition((GroupSteps((((0.1, 1, 2.0), 100_000),)),))
    with pytest.raises(GraphDPError, match=r"may round off, 8\.9e-11: give at least 4 times"):
        pld_parts_epsilon([(rounds, 100.0)], 3e-10)


def test_where_distributions_resolve_no_delta_they_are_left_out_beside_the_accountant():
    plan = mlp_plan("node", 100_000, batch_size=256, epochs=100, max_grad_norm=1.0)
    for of_one, told in ((1e-5, True), (1e-12, False)):
        found = calibrate(plan, 8.0, of_one, with_pld=True)
        assert found.epsilon <= 8
        assert ("pld" in {entry.accountant for entry in found.accounting}) is told


def test_what_is_no_number_is_no_bound():
    """dp-accounting's divergence overflows at 1e-156 and its ε was 0; nan loses to every 0."""
    rounds = Plan(
        "test", "node", "node_replace", "corrected", "proven", (), None,
        (WithoutReplacementDPSGD("q", 0.1, 50, Sensitivity(1.0, "C", "clip"), "p"),),
    )  # fmt: skip
    assert accounting.epsilon(rounds, 1e-156, 1e-6) == math.inf
    values = {2.0: math.nan, 3.0: 1.0, 4.0: math.nan}
    assert smallest_over_orders(values.get, (2.0, 3.0, 4.0)) == (1.0, 3.0)
    assert smallest_epsilon(lambda order: math.nan, 1e-5) == math.inf
