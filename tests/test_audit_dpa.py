"""DPA-GNN's audits: how far their pairs move sums, the law of scores, and deliberate bugs.

| bug | seen by |
| --- | --- |
| half of the noise, in all rounds or in one phase alone | audits `dpa-*` |
| half of the noise of dummies alone | audits `dpa-party-*` |
| one party draws half of its noise, or none | audits `dpa-*`, `dpa-party-*` |
| parties' noise not added up: one party's alone | audits `dpa-*` |
| noise shared out among all parties, not those that do not collude | audits `dpa-*` |
| Δ too small by √2, or that of other lists, rows or rounds | the audit of that adjacency |
| lists cut by position | audit `dpa-cut-undirected-eps4` |
| a round more than planned, a list that is not cut | refused |
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from ensemble_fixture import one_thread  # noqa: F401
from graphdp.audit.bound import lower_bound
from graphdp.audit.claims import claims, get, run
from graphdp.audit.detectable import gaussian, replaced
from graphdp.errors import GraphDPError
from graphdp.graphs import degree
from graphdp.methods.dpa import audit, method, plan, sums_attack, worlds
from graphdp.methods.dpa.audit import plan_of
from graphdp.methods.dpa.official_attack import equal_scores, first_scores
from graphdp.methods.dpa.plan import FIRST, LABELS
from graphdp.methods.dpa.published_plan import published_plan
from graphdp.methods.dpa.worlds import DEGREE, WORLDS
from graphdp.parties import memory
from graphdp.parties.session import Session
from graphdp.privacy import calibrated
from graphdp.privacy.calibration import calibrate

PARTIES = {"parties": 3, "shares": 2, "colluding": 1}
ROUNDS = PARTIES | {"feature_layers": 3, "label_layers": 2}
TWO = PARTIES | {"feature_layers": 2, "label_layers": 1}
ONE = PARTIES | {"feature_layers": 1, "label_layers": 1}
REPLACED = {"adjacency": "node_replace_own_list", "max_degree": DEGREE}
#: Pair, level, adjacency, setting.
CASES = {
    "edge-directed": (worlds.edge_pair(1), "edge", "edge_directed", TWO),
    "edge-undirected": (worlds.edge_pair(2), "edge", "edge_undirected", TWO),
    "cut-directed": (worlds.cut_pair(1), "edge", "edge_directed", TWO | {"max_degree": 1}),
    "cut-undirected": (worlds.cut_pair(2), "edge", "edge_undirected", ONE | {"max_degree": 1}),
    "participant": (
        worlds.participant_pair(), "node", "participant", ROUNDS | {"max_degree": DEGREE}
    ),
    "replace-turned": (worlds.turned_pair(), "node", "node_replace_own_list", ONE | REPLACED),
    "replace-moved": (
        worlds.moved_pair(), "node", "node_replace_own_list",
        ROUNDS | REPLACED | {"non_negative": True},
    ),
}  # fmt: skip
#: Of the cheapest attack: 10,000 runs of most.
DRAWS = 20_000


def outcome(name, draws=DRAWS, claim=None):
    result = run(claim or get(name), draws=draws)
    print(f"{name}: claimed {result['claimed_epsilon']:.3g}, bound {result['lower_bound']:.3g}")
    return result["verdict"]


# --- the pairs and their scores -------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_a_pair_moves_the_first_sums_by_all_that_is_accounted(name):
    """Of rows and of labels: Δ to the last bit, among 600 copies (cut lists: by the worst)."""
    pair, level, adjacency, setting = CASES[name]
    calibration = calibrate(plan_of(level, adjacency, setting), 4, 1e-5)
    blocks = {w: sums_attack.block_of(pair.graph(w, 600), calibration, (w,), None) for w in WORLDS}
    accounted = {m.phase: m.sensitivity.value for m in calibration.plan.mechanisms}
    for stream, phase in (("features", FIRST), ("labels", LABELS)):
        means = []
        for block in blocks.values():
            senders, keys = method.kept_pairs(block, 0, setting)
            rows = sums_attack.first_rows(block, setting, stream)
            found = np.zeros_like(rows)
            np.add.at(found, keys, rows[senders])
            means.append(found.reshape(600, -1))
        moved = np.linalg.norm(means[0] - means[1], axis=1)
        assert moved.max() == pytest.approx(accounted[phase], rel=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_scores_have_the_law_of_the_plan_s_gaussian(name):
    """N(±μ²/2, μ²), μ² = Σ Δ²/σ², within six standard errors (2e-9 each): all rounds move by Δ. A
    noisy row shorter than 1 costs less than 2 % of μ²."""
    pair, level, adjacency, setting = CASES[name]
    calibration = calibrate(plan_of(level, adjacency, setting), 4, 1e-5)
    noise, draws = calibration.noise_multiplier, 4000
    mu = math.sqrt(
        sum(
            m.count * (m.sensitivity.value / (noise * m.noise_unit)) ** 2
            for m in calibration.plan.mechanisms
        )
    )
    for world, sign in zip(WORLDS, (1, -1), strict=True):
        scores = sums_attack.sum_scores(pair, calibration, setting, world, draws, 3)
        assert len(scores) == draws
        error = 6 * mu / math.sqrt(draws)
        assert 0.98 * mu**2 / 2 - error < sign * scores.mean() < mu**2 / 2 + error
        error = 6 / math.sqrt(2 * draws)
        assert 0.98 - error < scores.std() / mu < 1 + error


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [{"shares": 3}, {"parties": 4, "shares": 3, "colluding": 2}])
def test_over_tcp_the_scores_are_the_same(sizes):
    """Released sums and what colluding parties drew, which their processes wrote down, bit for
    bit; where shares go to all parties and to three of four."""
    setting = ONE | {"max_degree": 2, "label_share": 0.5} | sizes
    pair, found = worlds.participant_pair(2, 2), []
    calibration = calibrate(plan_of("node", "participant", setting), 4, 1e-5)
    for more in ({}, {"transport": "tcp"}):
        found.append(sums_attack.sum_scores(pair, calibration, setting | more, "present", 30, 0))
    assert (found[0] == found[1]).all() and found[0].std() > 0


@pytest.mark.alike
@pytest.mark.slow
@pytest.mark.parametrize("name", [*CASES, "server", "five"])
def test_the_code_as_it_is_stays_below_and_half_of_its_noise_does_not(name):
    name = f"dpa-{name}-eps4"
    assert outcome(name) != "refuted"
    with get(name).scaled(0.5):
        assert outcome(name) == "refuted"


def test_every_adjacency_of_the_plan_has_a_claim():
    found = {(one.plan.level, one.adjacency) for name, one in claims().items() if "dpa-" in name}
    assert found == {
        (level, line.adjacency)
        for level, setting in (("edge", ROUNDS), ("node", ROUNDS | {"max_degree": 2}))
        for line in plan.analyses(level, setting, None)
    }


# --- bugs -----------------------------------------------------------------------------------------


def less(factor, stream, numbers):
    """Less noise in some rounds of a stream."""

    def change(draw):
        def drawn(name, shape, std):
            own = name[1] == stream and name[2] in numbers
            return draw(name, shape, std * factor if own else std)

        return drawn

    return replaced(memory, "party_noise", change)


@pytest.mark.parametrize(
    ("name", "stream", "numbers"),
    [
        ("edge-undirected", "features", (0,)),
        ("edge-undirected", "features", (1,)),
        ("edge-undirected", "labels", (0,)),
        ("participant", "features", (1, 2)),
        ("participant", "labels", (0, 1)),
        ("replace-turned", "features", (0,)),
        ("replace-turned", "labels", (0,)),
    ],
)
def test_half_of_the_noise_of_one_phase(name, stream, numbers):
    """A third of μ² or two fifths; the replaced user's runs are the cheapest."""
    with less(0.5, stream, numbers):
        draws = 200_000 if name == "replace-turned" else DRAWS
        assert outcome(f"dpa-{name}-eps4", draws) == "refuted"


def with_stds(change):
    """InMemory.add_up where party p draws change(p) times its noise, which may be 0."""

    def add_up(self, one, rows):
        sums = self._pairs @ rows
        for p, secret in enumerate(self._secrets):
            if change(p):
                name = memory.noise_name(secret, one)  # of a round in one piece
                sums += memory.party_noise(name, rows.shape, change(p) * one.party_std)
        return sums

    return add_up


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda p: p != 2, id="a party that draws nothing"),
        pytest.param(lambda p: 0.5 if p == 2 else 1, id="a party that draws half"),
        pytest.param(lambda p: p == 0, id="noise that is not added up"),
    ],
)
@pytest.mark.parametrize("name", ["dpa-edge-undirected-eps4", "dpa-participant-eps4"])
def test_noise_of_some_parties_missing(monkeypatch, name, change):
    monkeypatch.setattr(memory.InMemory, "add_up", with_stds(lambda p: 1))
    assert outcome(name) != "refuted"
    monkeypatch.setattr(memory.InMemory, "add_up", with_stds(change))
    assert outcome(name) == "refuted"


@pytest.mark.parametrize("name", ["dpa-five-eps4", "dpa-participant-eps4"])
def test_noise_shared_out_among_all_parties(monkeypatch, name):
    """With two of five the others' is then √(3/5) of what is accounted; the plan says nothing."""
    monkeypatch.setattr(method, "party_std", lambda std, parties, _: std / math.sqrt(parties))
    assert outcome(name) == "refuted"


def test_noise_shared_out_among_four_parties_of_which_two_collude(monkeypatch):
    """Three of four get a share of each pair. By 10,000 runs; √(2/4) of the noise is left of
    what is accounted."""
    setting = ONE | {"parties": 4, "shares": 3, "colluding": 2, "max_degree": 2}
    calibration = calibrate(plan_of("node", "participant", setting), 4.0, 1e-5)

    def found():
        scores = [
            sums_attack.sum_scores(
                worlds.participant_pair(2, 2), calibration, setting, w, 10_000, 0
            )
            for w in WORLDS
        ]
        return lower_bound(*scores, 1e-5, analysis="gdp").epsilon

    assert 3 < found() < 4
    monkeypatch.setattr(method, "party_std", lambda std, parties, _: std / math.sqrt(parties))
    assert found() > 5


def planned_again(monkeypatch, name, change):
    """A claim of which the plan was made with other sensitivities."""
    real = plan.sum_sensitivity
    monkeypatch.setattr(plan, "sum_sensitivity", lambda *a, **b: change(real, *a, **b))
    _, level, adjacency, setting = CASES[name]
    claim = get(f"dpa-{name}-eps4")
    made = plan_of(level, adjacency, setting)
    return replace(claim, plan=made, reference=made)


def smaller(real, *arguments, **others):
    bound = real(*arguments, **others)
    return replace(bound, value=bound.value / math.sqrt(2))


@pytest.mark.alike
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_sensitivity_that_is_too_small_by_the_root_of_two(monkeypatch, name):
    claim = planned_again(monkeypatch, name, smaller)
    assert outcome(name, claim=claim) == "refuted"


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("cut-directed", {"sampled": False}),
        ("cut-undirected", {"sampled": False}),
        ("replace-turned", {"first": False}),
    ],
)
def test_a_sensitivity_of_other_lists_or_rounds(monkeypatch, name, wrong):
    claim = planned_again(monkeypatch, name, lambda real, *a, **b: real(*a, **(b | wrong)))
    assert outcome(name, claim=claim) == "refuted"


def test_the_sensitivity_of_rows_without_negative_entries_for_rows_that_have_some(monkeypatch):
    claim = planned_again(
        monkeypatch,
        "replace-turned",
        lambda real, *a, **b: real(*a, **(b | {"non_negative": True})),
    )
    assert outcome("replace-turned", claim=claim) == "refuted"


def test_lists_that_are_cut_by_position(monkeypatch):
    """An edge more then draws both lists anew: Δ² is 8 where 6 is accounted."""
    name = "dpa-cut-undirected-eps4"
    monkeypatch.setattr(degree, "first_targets", degree.bound_out_degree)
    assert outcome(name, 60_000) == "refuted"


def test_a_round_more_than_planned_is_refused():
    pair, level, adjacency, setting = CASES["edge-undirected"]
    calibration = calibrate(plan_of(level, adjacency, setting), 4, 1e-5)
    with pytest.raises(GraphDPError, match="noisy rounds or releases 1 but it was 2"):
        sums_attack.sum_scores(pair, calibration, setting | {"feature_layers": 3}, "present", 4, 0)


def test_a_list_that_is_not_cut_is_refused(monkeypatch):
    monkeypatch.setattr(degree, "keep_edges", lambda graph, *_: np.ones(graph.num_edges, bool))
    with pytest.raises(GraphDPError, match=f"a user has {2 * DEGREE} pairs"):
        outcome("dpa-participant-eps4", 400)


def told(change):
    """Parties that are processes, of which some are told other scales than are planned."""
    return replaced(
        Session,
        "_launch",
        lambda launch: lambda self, name, spec: launch(self, name, spec | change(name, spec)),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dpa-party-edge-eps4", "dpa-party-participant-eps4"])
def test_half_of_the_noise_of_dummies_alone(name):
    """By 9,000 runs: by 3,000 it would be missed two times in five."""
    with told(lambda _, spec: {"count_std": spec["count_std"] / 2} if "count_std" in spec else {}):
        assert outcome(name, 300_000) == "refuted"


@pytest.mark.slow
def test_a_process_that_draws_next_to_no_noise():
    def change(name, spec):
        few = [one | {"party_std": one["party_std"] / 1000} for one in spec["rounds"]]
        return {"rounds": few} if name == "party 2" else {}

    with told(change):
        assert outcome("dpa-party-participant-eps4", 100_000) == "refuted"


# --- the authors' code ----------------------------------------------------------------------------

OFFICIAL = {"max_degree": DEGREE, "parties": 3, "shares": 2, "dummy_rate": 0.5}
OFFICIAL |= {"feature_share": 0.05}


def test_two_users_have_equal_second_sums_just_if_they_hear_of_the_same():
    """Whatever the noise: in all of 500 runs of either world."""
    calibration = calibrate(published_plan("node", DEGREE), 2, 2e-5)
    setting = OFFICIAL | {"feature_layers": 2, "label_layers": 1}
    found = {
        world: equal_scores(worlds.equal_pair(), calibration, setting, world, 500, 0)
        for world in WORLDS
    }
    assert not found["absent"].any() and found["present"].min() > 0


def test_a_replaced_user_moves_the_first_official_sums_by_all_that_is_accounted():
    """Scores N(±μ²/2, μ²), μ² = 2 D (1/σ_h² + 1/σ_y²), within six standard errors (2e-9)."""
    calibration = calibrate(audit.one_round_plan(0.6), 4, 2e-5)
    setting = OFFICIAL | {"feature_layers": 1, "label_layers": 1, "feature_share": 0.6}
    mechanisms = calibration.plan.mechanisms
    stds = [m.noise_std(calibration.noise_multiplier) for m in mechanisms]
    mu = math.sqrt(2 * DEGREE * sum(1 / std**2 for std in stds))
    for world, sign in zip(WORLDS, (1, -1), strict=True):
        scores = first_scores(worlds.replaced_pair(), calibration, setting, world, 4000, 0)
        assert abs(sign * scores.mean() - mu**2 / 2) < 6 * mu / math.sqrt(4000)
        assert abs(scores.std() / mu - 1) < 6 / math.sqrt(8000)


@pytest.mark.parametrize(("name", "phase"), [("labels", LABELS), ("features", FIRST)])
def test_half_of_one_official_stream_s_noise(monkeypatch, name, phase):
    from graphdp.methods.dpa import official

    claim = f"dpaofficial-{name}-eps4"
    assert outcome(claim) != "refuted"
    calibration = calibrate(get(claim).plan, 4, get(claim).delta)
    entry = sums_attack.block_of(worlds.equal_pair().graph("present", 1), calibration, (), None)
    std = calibrated.phase(entry.entry({}, 0), phase).run.noise_std
    real = official._noisy

    def noisy(rows, run, stream):
        with gaussian(0.5 if run.noise_std == std else 1.0):
            return real(rows, run, stream)

    monkeypatch.setattr(official, "_noisy", noisy)
    assert outcome(claim) == "refuted"


def test_the_one_round_claims_cover_no_refuted_one():
    """They stand for the noise alone: other adjacency, no dummies, and their assumptions said."""
    for share in (0.05, 0.6):
        made = audit.one_round_plan(share)
        assert (made.status, made.adjacency) == ("conditional", "node_replace_own_list")
        assert {m.phase for m in made.mechanisms} == {FIRST, LABELS}
        assert made.assumptions != published_plan("node", DEGREE).assumptions
