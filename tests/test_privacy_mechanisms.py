"""Kinds of mechanism: found by their files, with noise in their own unit, and an ε of their own."""

import math
import textwrap
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphdp.errors import GraphDPError
from graphdp.methods.dpdgc.plan import corrected_plan
from graphdp.privacy import accounting, calibrated, mechanisms
from graphdp.privacy.calibration import calibrate
from graphdp.privacy.composition import composed_epsilon, epsilon_at, parts
from graphdp.privacy.plan import (
    ClaimedLaplace,
    ClassicalGaussian,
    Composition,
    DegreeScaledGaussian,
    DistributedGaussian,
    FixedPureRelease,
    GaussianReleases,
    Plan,
    PoissonDPSGD,
    PoissonGroupDPSGD,
    PureRelease,
    Sensitivity,
    ShuffledDPSGD,
    ShuffledEpochs,
    SubGraphDPSGD,
    SubGraphLaplace,
    UnnoisedRelease,
    WithoutReplacementDPSGD,
)
from graphdp.privacy.protection import Words
from graphdp.privacy.statement_form import MechanismEntry
from graphdp.privacy.statement_words import inference, releases

UNIT = Sensitivity(1.0, "1", "by definition")
CLIP = Sensitivity(3.0, "C", "x")
SUMS = GaussianReleases("sums", UNIT, 3, "aggregation")
DEGREES = FixedPureRelease("degrees", UNIT, 0.5, "degrees")


def make_plan(*released, **changes):
    plan = Plan("test", "edge", "edge_directed", "corrected", "proven", (), None, released)
    return replace(plan, **changes)


# --- what every kind has to answer ----------------------------------------------------------------


def examples():
    return [
        SUMS,
        PoissonDPSGD("q", 0.1, 7, Sensitivity(3.0, "C", "x"), "p"),
        WithoutReplacementDPSGD("q", 0.1, 7, Sensitivity(3.0, "2C", "x"), "p"),
        PoissonGroupDPSGD("q", 0.1, 7, 4, Sensitivity(3.0, "C", "x"), 2.5, "p"),
        mechanisms.KINDS["fixed_size_dpsgd"]("q", 90, 9, 4, 7, Sensitivity(24.0, "2gC", "x"), "p"),
        SubGraphDPSGD("q", 0.1, 7, CLIP, 9, 2, "kept", 90, 0, True, "hidden_coins", "p"),
        SubGraphLaplace("q", 0.1, 7, 8, CLIP, 9, 2, "zeroed", 90, "one_dimension", "p"),
        ShuffledDPSGD("q", 0.1, 7, 8, CLIP, "all", "p"),
        ShuffledEpochs("q", Sensitivity(7.5, "x", "y"), 2, 4, 9, CLIP, "all", "p"),
        PureRelease("q", UNIT, 0.25, "p"),
        DEGREES,
        UnnoisedRelease("q", "p"),
        DistributedGaussian("q", CLIP, 2.0, 4, "p", 3, 1),
        DegreeScaledGaussian("q", CLIP, 2.0, 4, "p", 3, 1, most_degree=63),
        ClassicalGaussian("q", CLIP, 0.25, 0.5, False, 1e-5, "p"),
        ClaimedLaplace("q", CLIP, 0.25, 0.5, False, 0.0, "p"),
    ]


def test_every_file_is_a_kind_and_every_kind_is_tried_here():
    assert {type(m) for m in examples()} == set(mechanisms.KINDS.values())


@pytest.mark.parametrize("mechanism", examples(), ids=lambda m: m.kind)
@pytest.mark.parametrize("noise", [None, 0.0, 1.7])
def test_every_kind_survives_json_and_has_an_entry(mechanism, noise):
    assert mechanisms.from_dict(mechanisms.to_dict(mechanism)) == mechanism
    entry = MechanismEntry(**mechanism.statement_entry(noise))
    query = mechanism.query + getattr(mechanism, "noise_words", "")
    assert (entry.kind, entry.query, entry.phase) == (mechanism.kind, query, mechanism.phase)
    if mechanism.noise_unit is not None:
        expected = None if noise is None else pytest.approx(noise * mechanism.noise_unit)
        assert entry.noise_std == expected
    elif mechanism.kind == "classical_gaussian":  # its σ is no multiple of the multiplier
        factor = 3 * math.sqrt(2 * math.log(1.25e5))
        expected = pytest.approx(factor / (0.25 * (1 / noise + 0.5))) if noise else noise
        assert entry.noise_std == expected
    elif mechanism.kind != "unnoised":
        assert entry.noise_std is None
    assert not mechanism.releases_nothing


def test_units_of_noise():
    units = {m.kind: m.noise_unit for m in examples()}
    assert units == {
        "gaussian": 1.0,
        "poisson_dpsgd": 3.0,
        "without_replacement_dpsgd": 3.0,
        "poisson_group_dpsgd": 7.5,
        "fixed_size_dpsgd": 24.0,
        "sub_graph_dpsgd": 3.0,
        "sub_graph_laplace": 3.0,
        "shuffled_dpsgd": 3.0,
        "shuffled_epochs": 7.5,
        "pure": None,
        "fixed_pure": None,
        "unnoised": None,
        "degree_scaled_gaussian": 2.0,
        "distributed_gaussian": 2.0,
        "classical_gaussian": None,
        "claimed_laplace": None,
    }


def test_the_noise_of_a_phase_is_in_the_unit_of_its_own_mechanism():
    """DPDGC at k = 5: 2√6 C per multiplier in the embedding phase, 2C in that of the classifier."""
    settings = {"batch_size": 64, "epochs": 2, "classifier_epochs": 2, "max_grad_norm": 1.5}
    plan = corrected_plan("k5", num_train=500, **settings)
    entry = {"settings": settings, "plan": plan.to_dict(), "noise_multiplier": 1.1}
    entry["num_train"] = 500

    def noise_std(phase, entry=entry):
        return calibrated.phase(entry, phase).run.noise_std

    assert noise_std("embedding") == pytest.approx(1.1 * 2 * math.sqrt(6) * 1.5)
    assert noise_std("classifier") == pytest.approx(1.1 * 2 * 1.5)
    assert noise_std("release") == pytest.approx(1.1 * math.sqrt(5))
    for mechanism in plan.mechanisms:
        stated = mechanism.statement_entry(1.1)["noise_std"]
        assert noise_std(mechanism.phase) == pytest.approx(stated)
    with pytest.raises(GraphDPError, match="noises no 'link'"):
        noise_std("link")
    graph = make_plan(PureRelease("pairs", UNIT, 1.0, "link"))
    with pytest.raises(GraphDPError, match="noises no 'link'"):  # Laplace noise has no σ
        noise_std("link", entry | {"plan": graph.to_dict()})


def test_what_no_accountant_knows_together_is_refused_in_one_line():
    one, other = examples()[1:3]
    with pytest.raises(
        GraphDPError, match=r"no accountant composes Poisson samples .* and samples"
    ):
        calibrate(make_plan(one, other), 1.0, 1e-5)
    with pytest.raises(GraphDPError, match=r"accountant pld does not know samples .*; use dp_acc"):
        accounting.epsilon(make_plan(other), 1.0, 1e-5, "pld")


# --- releases with an ε of their own --------------------------------------------------------------


@given(st.floats(0.05, 20), st.floats(0.01, 0.95), st.sampled_from([0.1, 0.4, 1.0]))
@settings(max_examples=40)
def test_pure_releases_share_what_a_fixed_epsilon_leaves(epsilon, part, share):
    shares = [PureRelease("graph", UNIT, share, "graph")]
    if share < 1:
        shares.append(PureRelease("count", UNIT, 1 - share, "count"))
    fixed = replace(DEGREES, epsilon=part * epsilon)
    plan = make_plan(fixed, *shares)
    found = calibrate(plan, epsilon, 1e-6)
    assert found.noise_multiplier == pytest.approx(1 / ((1 - part) * epsilon), rel=1e-9)
    assert found.epsilon <= epsilon
    assert found.epsilon == pytest.approx(epsilon, rel=1e-12)
    spent = calibrated.pure_epsilons({"settings": {}, **found.to_dict()})
    assert spent["degrees"] == part * epsilon
    assert spent["graph"] == pytest.approx(share * (1 - part) * epsilon, rel=1e-9)
    assert sum(spent.values()) == pytest.approx(epsilon, rel=1e-12)
    for accountant in accounting.ACCOUNTANTS:
        assert accounting.epsilon(plan, found.noise_multiplier, 1e-6, accountant) == found.epsilon


@pytest.mark.parametrize(("epsilon", "fixed"), [(1.0, 0.3), (4.0, 0.5), (8.0, 6.0)])
@pytest.mark.parametrize("more", [(), (PoissonDPSGD("q", 0.02, 200, UNIT, "training"),)])
def test_beside_gaussians_the_total_is_met(epsilon, fixed, more):
    degrees = replace(DEGREES, epsilon=fixed)
    plan, alone = make_plan(degrees, SUMS, *more), make_plan(SUMS, *more)
    found = calibrate(plan, epsilon, 1e-6, with_pld=True)
    noise = found.noise_multiplier
    read = {entry.accountant: entry.epsilon for entry in found.accounting}
    assert list(read) == ["autodp", "pld"]
    assert 0.99 * epsilon <= found.epsilon <= epsilon
    assert found.epsilon > accounting.epsilon(alone, noise, 1e-6, "autodp_rdp")
    assert noise > calibrate(alone, epsilon, 1e-6).noise_multiplier
    # Never below the tight value, and never above simply adding the two up.
    tight = accounting.epsilon(alone, noise, 1e-6, "pld")
    assert tight < read["pld"] <= found.epsilon
    assert read["pld"] <= tight + fixed + 2 * accounting.PLD_INTERVAL
    assert epsilon_at(plan, plan, noise, 1e-6) == pytest.approx(found.epsilon, rel=1e-12)


def test_beside_gaussians_the_distribution_is_that_of_the_product():
    """δ(ε) of one Gaussian and one bit of randomised response, by direct integration."""
    x, step = np.linspace(-14, 15, 400_001, retstep=True)
    p = np.exp(-((x - 1 / 1.5) ** 2) / 2) / math.sqrt(2 * math.pi)
    q = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    kept = 1 / (1 + math.exp(-0.5))
    plan = make_plan(DEGREES, replace(SUMS, count=1))
    for epsilon in (0.2, 1.0, 2.5):
        chances = ((kept, 1 - kept), (1 - kept, kept))
        exact = sum(
            np.maximum(one * p - math.exp(epsilon) * other * q, 0).sum() * step
            for one, other in chances
        )
        found = accounting.delta(plan, 1.5, epsilon, "pld")
        assert exact <= found * (1 + 1e-6) <= exact * 1.01
        assert exact <= accounting.delta(plan, 1.5, epsilon, "autodp_rdp")


def test_beside_groups():
    settings = {"batch_size": 64, "epochs": 2, "classifier_epochs": 2, "max_grad_norm": 1.0}
    plan = corrected_plan("k1", num_train=500, **settings)
    more = replace(plan, mechanisms=(*plan.mechanisms, DEGREES))
    found = calibrate(more, 4.0, 1e-4)
    assert [entry.accountant for entry in found.accounting] == ["pld", "renyi"]
    assert 3.96 <= found.epsilon <= 4.0
    assert found.noise_multiplier > calibrate(plan, 4.0, 1e-4).noise_multiplier


def test_a_fixed_epsilon_beyond_the_total_is_refused():
    shared = PureRelease("graph", UNIT, 1.0, "graph")
    for other in (SUMS, shared):
        with pytest.raises(GraphDPError, match=r"spend 0\.5, which leaves nothing of epsilon 0\.5"):
            calibrate(make_plan(DEGREES, other), 0.5, 1e-6)
    with pytest.raises(GraphDPError, match="no noise is left to calibrate"):
        calibrate(make_plan(DEGREES), 1.0, 1e-6)
    for bad in (0, -1.0, math.inf, True, "1"):
        with pytest.raises(GraphDPError, match="fixed ε is"):
            replace(DEGREES, epsilon=bad)


def test_noise_does_not_change_a_fixed_epsilon_and_sensitivity_does():
    plan = make_plan(DEGREES, SUMS)
    assert accounting.epsilon(plan, math.inf, 1e-6) == 0.5
    assert accounting.epsilon(plan, 0.0, 1e-6) == math.inf
    assert composed_epsilon(parts(plan, plan, math.inf), 1e-6) == 0.5
    both = replace(DEGREES, sensitivity=Sensitivity(2.0, "2", "both ends"))
    shared = PureRelease("graph", UNIT, 1.0, "graph")
    claim, twice = make_plan(DEGREES, shared), make_plan(both, shared)
    assert epsilon_at(twice, claim, 0.5, 1e-6) == pytest.approx(2 * 0.5 + 2)
    assert replace(DEGREES, sensitivity=Sensitivity(0.0, "0", "x")).releases_nothing


def test_a_replacement_pays_a_fixed_epsilon_twice_where_it_is_two_moves():
    steps = PoissonDPSGD("q", 0.01, 5, UNIT, "training")
    plan = make_plan(DEGREES, steps, level="node", adjacency="node_replace")
    assert epsilon_at(plan, plan, 1e4, 1e-6) >= 2 * 0.4


def test_what_a_statement_says_of_it():
    plan = make_plan(DEGREES, SUMS)
    assert [(r.what, r.covered) for r in releases(plan, Words(), "reproduction", "last")][1:3] == [
        ("noisy aggregates", True),
        ("noisy statistics", True),
    ]
    assert inference(plan).startswith("Predictions use the aggregates")
    assert DEGREES.statement_entry(2.0)["noise_multiplier"] == 2.0  # 1 / 0.5, whatever the plan's
    assert DEGREES.statement_entry(7.0)["noise_multiplier"] == 2.0


# --- a new kind -----------------------------------------------------------------------------------

NEW_KIND = '''
"""Half of the noise: a Gaussian release that is twice as costly as it looks."""

from dataclasses import dataclass
from typing import ClassVar

from graphdp.privacy.execution import Execution
from graphdp.privacy.mechanisms.base import Mechanism, Sensitivity, Term


@dataclass(frozen=True)
class HalfTerm(Term):
    place: ClassVar[int] = 1
    what: ClassVar[str] = "releases with half of the noise"
    accountants: ClassVar[tuple[str, ...]] = ("autodp", "autodp_rdp", "dp_accounting", "renyi")
    method: ClassVar[str] = "Rényi DP of half of the noise"

    count: int

    def plus(self, other):
        return HalfTerm(self.count + other.count)

    def renyi(self, noise):
        return lambda order: self.count * order * 2 / noise**2

    def events(self, noise):
        from dp_accounting import GaussianDpEvent

        return [(GaussianDpEvent(noise / 2), self.count)]


@dataclass(frozen=True)
class HalfRelease(Mechanism):
    kind: ClassVar[str] = "half_gaussian"

    query: str
    sensitivity: Sensitivity
    phase: str

    @property
    def releases_nothing(self):
        return self.sensitivity.value == 0

    @property
    def noise_unit(self):
        return self.sensitivity.value / 2

    def execution(self, noise_multiplier, num_train, max_grad_norm):
        return Execution("none", 1, self.noise_std(noise_multiplier))

    def terms(self):
        return (HalfTerm(1),)

    def statement_entry(self, noise_multiplier):
        std = None if noise_multiplier is None else noise_multiplier * self.noise_unit
        return self._entry(
            self.sensitivity, "L2", noise_multiplier=noise_multiplier, noise_std=std
        )
'''


@pytest.fixture
def half(tmp_path, monkeypatch):
    """The class of a mechanism in a file of its own, beside those of the project."""
    (tmp_path / "half_gaussian.py").write_text(textwrap.dedent(NEW_KIND))
    with monkeypatch.context() as patch:
        patch.setattr(mechanisms, "__path__", [*mechanisms.__path__, str(tmp_path)])
        yield mechanisms.discover()["half_gaussian"]
    assert "half_gaussian" not in mechanisms.discover()


def test_a_new_kind_is_one_file(half):
    plan = make_plan(half("sums", Sensitivity(3.0, "3", "x"), "aggregation"))
    assert Plan.from_dict(plan.to_dict()) == plan
    found = calibrate(plan, 2.0, 1e-6)
    assert [entry.accountant for entry in found.accounting] == ["autodp", "dp_accounting"]
    ours, google = (entry.epsilon for entry in found.accounting)
    assert 1.98 <= ours <= 2.0 and google == pytest.approx(ours, rel=1e-3)
    assert found.accounting[0].method == "Rényi DP of half of the noise"
    # As many as a Gaussian release with twice the multiplier, in Rényi DP.
    twin = make_plan(replace(SUMS, count=1))
    expected = accounting.epsilon(twin, found.noise_multiplier / 2, 1e-6, "autodp_rdp")
    assert found.epsilon == pytest.approx(expected, rel=1e-9)
    # Beside others, at a noise set for another plan, and in a statement.
    mixed = make_plan(*plan.mechanisms, replace(SUMS, phase="more"), DEGREES)
    assert 3.96 <= calibrate(mixed, 4.0, 1e-6).epsilon <= 4.0
    wider = make_plan(half("sums", Sensitivity(6.0, "6", "x"), "aggregation"))
    ((_, noise),) = parts(wider, plan, found.noise_multiplier)
    assert noise == found.noise_multiplier / 2
    (mechanism,) = plan.mechanisms
    entry = MechanismEntry(**mechanism.statement_entry(found.noise_multiplier))
    assert entry.kind == "half_gaussian" and entry.noise_std == 1.5 * found.noise_multiplier
    cell = {"settings": {}, "num_train": 1, **found.to_dict()}
    run = calibrated.phase(cell, "aggregation").run
    assert run.noise_std == 1.5 * found.noise_multiplier
    calibrated.check_execution(cell, {"aggregation": run})
    with pytest.raises(GraphDPError, match="pld does not know releases with half of the noise"):
        accounting.epsilon(plan, 1.0, 1e-6, "pld")


def test_a_kind_that_no_file_defines_is_refused():
    with pytest.raises(GraphDPError, match="kind of mechanism is 'half_gaussian'"):
        mechanisms.from_dict({"kind": "half_gaussian", **asdict(SUMS)})
    entry = SUMS.statement_entry(1.0)
    with pytest.raises(ValueError, match="unknown kind of mechanism"):
        MechanismEntry(**entry | {"kind": "half_gaussian"})


def test_files_without_a_mechanism_or_with_a_known_kind_are_refused(tmp_path, monkeypatch):
    try:
        with monkeypatch.context() as patch:
            patch.setattr(mechanisms, "__path__", [*mechanisms.__path__, str(tmp_path)])
            (tmp_path / "empty_kind.py").write_text("")
            with pytest.raises(GraphDPError, match="empty_kind defines 0 mechanisms"):
                mechanisms.discover()
            (tmp_path / "empty_kind.py").unlink()
            text = textwrap.dedent(NEW_KIND).replace('"half_gaussian"', '"gaussian"')
            (tmp_path / "other_gaussian.py").write_text(text)
            with pytest.raises(GraphDPError, match="two files define the mechanism 'gaussian'"):
                mechanisms.discover()
    finally:
        mechanisms.discover()


def test_compositions_do_not_depend_on_the_order_of_terms():
    terms = [term for m in examples() for term in m.terms()]
    assert Composition(tuple(terms)) == Composition(tuple(reversed(terms)))
    assert hash(Composition(tuple(terms * 2))) == hash(Composition(tuple(reversed(terms * 2))))
