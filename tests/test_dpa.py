"""DPA-GNN: its plans, and through its stages that what is run is what they account."""

import functools
import itertools
import json
import math
import tracemalloc
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from pydantic import ValidationError
from scipy import stats

from ensemble_fixture import one_thread  # noqa: F401
from graphdp import cli, noise
from graphdp.data.graph import Graph, csr_from_edges
from graphdp.data.split import Split, split_of
from graphdp.errors import GraphDPError
from graphdp.methods.block import Block
from graphdp.methods.dpa import WORDS, method, network, official
from graphdp.methods.dpa.plan import (
    COUNTS,
    FIRST,
    LABELS,
    LATER,
    LENGTHS,
    analyses,
    dpa_plan,
)
from graphdp.methods.dpa.published_plan import published_analyses, published_plan
from graphdp.methods.registry import card
from graphdp.methods.settings import key
from graphdp.parties import session
from graphdp.parties.fixed_point import project
from graphdp.privacy import calibrated, statement
from graphdp.privacy.accounting.closed_form import gaussian_epsilon
from graphdp.privacy.assumptions import of_release
from graphdp.privacy.calibration import calibrate
from graphdp.privacy.composition import epsilon_at
from graphdp.privacy.pair_sums import mean_dummies
from graphdp.privacy.plan import Plan
from graphdp.privacy.statement_form import Data
from graphdp.privacy.statement_words import inference, left_out, protection, releases, uncounted
from graphdp.workflow.calibrations import calibrate_cell
from parties_watched import watched
from test_parties import certificate

NODES, CLASSES = 120, 3
EDGE = "calibrate dpa --level edge --epsilon 2 --delta 1e-5 --feature-layers 10 --label-layers 8"
NODE = EDGE.replace("edge", "node --max-degree 6")


def run(capsys, line):
    status = cli.main(line.split())
    return status, capsys.readouterr()


# --- plans ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "energy", "adjacency"),
    [
        (EDGE, 18 * 2, "edge_undirected"),
        (f"{EDGE} --max-degree 6", 18 * 6, "edge_undirected"),
        (NODE, 18 * 6, "participant"),
        (f"{NODE} --adjacency node_replace_own_list", 4 * 6 + 17 * 2 * 6, "node_replace_own_list"),
        (
            f"{NODE} --adjacency node_replace_own_list --non-negative",
            18 * 2 * 6,
            "node_replace_own_list",
        ),
    ],
)
def test_one_noise_for_all_rounds_meets_the_target(capsys, line, energy, adjacency):
    """ε follows from μ = √(Σ Δ²) / σ alone."""
    status, output = run(capsys, f"{line} --json")
    found = json.loads(output.out)
    assert (status, found["adjacency"], found["status"]) == (0, adjacency, "conditional")
    std = found["noise_std"]
    assert 1.999 < gaussian_epsilon(math.sqrt(energy) / std, 1e-5) <= 2
    for release in found["releases"]:
        assert release["noise_std"] == std
        assert release["noise_std_per_party"] == pytest.approx(std / math.sqrt(2))
        assert release["noise_std_delivered"] == pytest.approx(std * math.sqrt(1.5))
    assert COUNTS not in {release["phase"] for release in found["releases"]}
    assert any("a party learns in-degrees" in one for one in found["plan"]["assumptions"])


@pytest.mark.parametrize("level", ["edge", "node"])
def test_what_colluding_parties_count_is_in_the_claim_just_if_it_is_hidden(level):
    """No assumption has parties as adversaries of all they see where another says what they read
    there is left out."""
    degree = 6 if level == "node" else None
    bare, hidden = (
        " ".join(dpa_plan(level, 10, 8, degree, **shares).assumptions)
        for shares in ({}, {"feature_share": 0.5, "label_share": 0.3})
    )
    left_out = (
        "at most 1 of the 3 parties together follow the protocol and try to learn more, "
        "from all they see but the numbers of pairs that arrive for a key; 2 shares"
    )
    assert left_out in bare and "which the claim leaves out" in bare
    assert "try to learn more; 2 shares" in hidden and "leaves out" not in hidden
    assert "but the numbers of pairs" not in hidden


def test_the_command_line_says_what_each_party_draws_and_what_is_delivered(capsys):
    """σ of every release, over √2 of one party, and with √(3/2) of all."""
    status, output = run(capsys, f"{EDGE} --feature-share 0.5 --label-share 0.4")
    found = {line.rpartition(": ")[2]: line for line in output.out.splitlines() if "std" in line}
    assert (status, len(found)) == (0, 4) and "numbers of pairs by key" in found
    stds = []
    for line in found.values():
        std, own, delivered = (float(words.split()[-1]) for words in line.split(":")[0].split(","))
        assert own == pytest.approx(std / math.sqrt(2), rel=1e-5)
        assert delivered == pytest.approx(std * math.sqrt(1.5), rel=1e-5)
        stds.append(std)
    energy = sum(n * 2 / std**2 for n, std in zip((1, 9, 8, 1), stds, strict=True))
    assert gaussian_epsilon(math.sqrt(energy), 1e-5) == pytest.approx(2, rel=1e-3)


def test_an_adjacency_and_a_transport_that_are_the_default_name_the_same_model():
    _, setting = block(level="edge")
    _, named = block(level="edge", adjacency="edge_undirected", transport="memory")
    assert named == setting and not {"adjacency", "transport"} & set(setting)
    with pytest.raises(ValidationError, match="listen is of processes"):
        block(level="edge", transport="memory", listen="127.0.0.1")


def test_a_quantile_of_degrees_takes_a_twentieth_of_the_squared_privacy_loss(capsys):
    for shares in ({}, {"feature_share": 0.5, "label_share": 0.3}):
        made = dpa_plan("edge", 10, 8, degree_quantile=0.8, **shares)
        squares = {m.phase: m.count * (m.sensitivity.value / m.unit) ** 2 for m in made.mechanisms}
        assert squares[LENGTHS] / sum(squares.values()) == pytest.approx(0.05)
        # Lists are cut: √6, and √8 for the numbers of users by length.
        assert {round(m.sensitivity.value**2) for m in made.mechanisms} == {6, 8}
        assert (COUNTS in squares) == bool(shares)
    status, output = run(capsys, f"{EDGE} --degree-quantile 0.8 --json")
    found = json.loads(output.out)
    spent = sum(
        one["count"] * (one["sensitivity"]["value"] / one["unit"] / found["noise_multiplier"]) ** 2
        for one in found["plan"]["mechanisms"]
    )
    assert status == 0 and 1.999 < gaussian_epsilon(math.sqrt(spent), 1e-5) <= 2


@pytest.mark.parametrize("adjacency", ["participant", "node_replace_own_list"])
def test_shares_are_of_the_squared_privacy_loss_and_the_rest_hides_counts(adjacency):
    plan = dpa_plan("node", 10, 8, 6, feature_share=0.5, label_share=0.3, adjacency=adjacency)
    squares = {m.phase: m.count * (m.sensitivity.value / m.unit) ** 2 for m in plan.mechanisms}
    total = sum(squares.values())
    assert (squares[FIRST] + squares[LATER]) / total == pytest.approx(0.5)
    assert squares[LABELS] / total == pytest.approx(0.3)
    assert squares[COUNTS] / total == pytest.approx(0.2)
    alone = dpa_plan("node", 10, 8, 6, label_share=0.3)
    assert COUNTS not in {m.phase for m in alone.mechanisms}


def test_the_same_noise_is_worth_less_for_more():
    plan = dpa_plan("edge", 10, 8)
    directed = analyses("edge", {"feature_layers": 10, "label_layers": 8}, None)[1]
    mu = math.sqrt(18) * 1.0 / (8.0 * math.sqrt(2))
    assert epsilon_at(directed, plan, 8.0, 1e-5) == pytest.approx(gaussian_epsilon(mu, 1e-5))
    settings = {"feature_layers": 10, "label_layers": 8, "max_degree": 6}
    participant, replaced = analyses("node", settings, None)
    std = 8.0 * math.sqrt(6)
    assert epsilon_at(replaced, participant, 8.0, 1e-5) == pytest.approx(
        gaussian_epsilon(math.sqrt(4 * 6 + 17 * 2 * 6) / std, 1e-5)
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--colluding 2", "colluding is 2 with 2 shares"),
        ("--shares 4", "shares is 4 with 3 parties; give 2 to 3\n"),
        ("--shares 1 --parties 2", "shares is 1 with 2 parties; give 2\n"),
        ("--parties 1", "parties is 1; give at least 2\n"),
        ("--parties 101", "parties is 101; give at most 100\n"),
        ("--dummy-rate 0.5", "reads no --dummy-rate; give --feature-share and --label-share"),
        ("--feature-share 0.7 --label-share 0.5", "together at most 1"),
        # Its square underflowed: labels and dummies were in no plan, and their releases uncounted.
        ("--feature-share 5e-324 --label-share 0.5", "must be at least 1e-09 and together"),
        ("--colluding -1", "colluding is -1; give at least 0"),
        ("--adjacency node_replace_own_list", "'edge_undirected' or 'edge_directed', not "
         "node_replace_own_list; node_replace_own_list goes with --level node\n"),
        ("--max-degree 6 --degree-quantile 0.8", "either max_degree or degree_quantile"),
    ],
)  # fmt: skip
def test_wrong_settings_are_one_line(capsys, words, message):
    status, output = run(capsys, f"{EDGE} {words}")
    assert status == 2 and message in output.err and output.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message", "better"),
    [
        ("--parties 1", "parties is 1; give at least 3", "--parties 3"),
        ("--parties 2", "shares than parties; give at least 3 parties", "--parties 3"),
        ("--shares 3", "fewer shares than parties; give 2", "--shares 2"),
        ("--shares 1", "one share is the row itself; give at least 2", "--shares 2"),
        ("--shares 5 --parties 4", "give 2 to 3", "--shares 3 --parties 4"),
    ],
)
def test_wrong_numbers_of_the_published_formula_are_told_what_it_takes(
    capsys, words, message, better
):
    line = "calibrate dpaofficial --level node --epsilon 4 --delta 1e-5 --max-degree 6"
    status, output = run(capsys, f"{line} {words}")
    assert status == 2 and output.err.endswith(f"{message}\n")
    assert output.err.count("\n") == 1 and run(capsys, f"{line} {better}")[0] == 0


def test_what_is_given_in_place_of_a_dummy_rate_makes_dummies(capsys):
    status, output = run(capsys, f"{EDGE} --feature-share 0.4 --label-share 0.4 --json")
    phases = {one["phase"] for one in json.loads(output.out)["releases"]}
    assert status == 0 and COUNTS in phases


def test_an_adjacency_of_another_level_is_refused_with_those_that_are_calibrated_for():
    with pytest.raises(GraphDPError, match=r"choose one of edge_undirected, edge_directed$"):
        dpa_plan("edge", 10, 8, adjacency="participant")
    with pytest.raises(GraphDPError, match="choose one of participant, node_replace_own_list"):
        dpa_plan("node", 10, 8, 6, adjacency="edge_directed")


@pytest.mark.parametrize(
    ("more", "ratio"),
    [
        ({}, math.sqrt(2)),
        ({"max_degree": 6}, math.sqrt(3)),
        ({"feature_share": 0.4, "label_share": 0.4}, math.sqrt(2)),
    ],
)
def test_noise_is_for_the_adjacency_that_is_asked_for_and_read_under_the_other(more, ratio):
    """Of whole lists one pair moves a sum by 1 and both pairs of an edge by √2; of lists that are
    sampled by √2 and √6 (`pair_sums`). For the same ε the noise is that much larger."""
    given = {"feature_layers": 10, "label_layers": 8} | more
    made = {}
    for adjacency in ("edge_directed", "edge_undirected"):
        first, other = analyses("edge", given | {"adjacency": adjacency}, None)
        assert first.adjacency == adjacency != other.adjacency
        made[adjacency] = first, other, calibrate(first, 2.0, 1e-5).noise_multiplier

    def stds(adjacency):
        plan, _, noise = made[adjacency]
        return np.array([one.noise_std(noise) for one in plan.mechanisms])

    np.testing.assert_allclose(stds("edge_undirected") / stds("edge_directed"), ratio, rtol=1e-5)
    asked, undirected, noise = made["edge_directed"]
    # The exact Gaussian: μ of both lines from the released sums, each Δ over its σ.
    square = sum(one.count * (one.sensitivity.value / one.noise_std(noise)) ** 2
                 for one in asked.mechanisms)  # fmt: skip
    assert 1.999 < gaussian_epsilon(math.sqrt(square), 1e-5) <= 2
    expected = gaussian_epsilon(ratio * math.sqrt(square), 1e-5)
    assert epsilon_at(undirected, asked, noise, 1e-5) == pytest.approx(expected, rel=1e-6)


def test_the_usual_adjacency_is_no_other_setting():
    """Models of `adjacency: edge_undirected` are those of none given."""
    read = card("dpa").settings("edge")
    given = {"feature_layers": 2, "label_layers": 2}
    assert read(**given, adjacency="edge_undirected") == read(**given)
    assert read(**given, adjacency="edge_directed").adjacency == "edge_directed"


@pytest.mark.parametrize("adjacency", ["participant", "node_replace_own_list"])
@pytest.mark.parametrize("shares", [{}, {"feature_share": 0.5, "label_share": 0.3}])
def test_at_node_level_releases_over_the_root_of_a_quantile_lose_what_they_would_at_any_degree(
    adjacency, shares
):
    """At one multiplier each release is worth what it is with a D given, whatever D is; the
    lengths, where one user moves from one to another (√2), take a twentieth more."""
    counted = dpa_plan("node", 10, 8, degree_quantile=0.8, adjacency=adjacency, **shares)
    loss = {m.phase: m.count * (m.sensitivity.value / m.unit) ** 2 for m in counted.mechanisms}
    assert loss[LENGTHS] / sum(loss.values()) == pytest.approx(0.05)
    for degree in (1, 6, 63):
        given = dpa_plan("node", 10, 8, degree, adjacency=adjacency, **shares)
        assert {m.phase for m in given.mechanisms} == loss.keys() - {LENGTHS}
        for m in given.mechanisms:
            scaled = next(one for one in counted.mechanisms if one.phase == m.phase)
            # Noise of one is that of the other: σ over the root of D.
            assert scaled.unit * math.sqrt(degree) == pytest.approx(m.unit)
            assert loss[m.phase] == pytest.approx(m.count * (m.sensitivity.value / m.unit) ** 2)
    (lengths,) = (m for m in counted.mechanisms if m.phase == LENGTHS)
    assert lengths.sensitivity.value == pytest.approx(math.sqrt(2)) and lengths.rows


def test_dummies_at_a_quantile_are_counted_for_as_many_keys_as_the_longest_list_has():
    shares = {"feature_share": 0.5, "label_share": 0.3}
    counted, given = (
        next(m for m in dpa_plan("node", 10, 8, **how, **shares).mechanisms if m.phase == COUNTS)
        for how in ({"degree_quantile": 0.8}, {"max_degree": 63})
    )
    assert counted.drawn_delta(2.0) == pytest.approx(given.drawn_delta(2.0)) and (
        counted.drawn_delta(2.0) > 0
    )


def test_one_of_two_bounds_is_given_at_node_level(capsys):
    """The default of 6 is that of neither; with both, or none of them null, it is one line."""
    read = card("dpa").settings("node")
    layers = {"feature_layers": 2, "label_layers": 2}
    assert read(**layers).max_degree == 6
    assert read(**layers, degree_quantile=0.8).max_degree is None
    for both in ({"max_degree": 6, "degree_quantile": 0.8}, {"max_degree": None}):
        with pytest.raises(ValidationError, match="give either max_degree or degree_quantile"):
            read(**layers, **both)
    status, output = run(capsys, f"{NODE} --degree-quantile 0.8")
    assert status == 2 and output.err.endswith("dpa: give either max_degree or degree_quantile\n")


def test_without_degree_or_layers_the_missing_option_is_named(capsys):
    status, output = run(capsys, EDGE.replace("edge", "node"))
    assert status == 2 and "give --max-degree or --degree-quantile\n" in output.err
    status, output = run(capsys, EDGE.replace(" --label-layers 8", ""))
    assert status == 2 and "give --label-layers" in output.err


@pytest.mark.parametrize("epsilon", [2.0, 10.0])
def test_the_published_noise_is_the_classical_formula_s(capsys, epsilon):
    line = f"calibrate dpaofficial --level node --epsilon {epsilon} --delta 1e-5 --max-degree 6"
    status, output = run(capsys, f"{line} --json")
    found = json.loads(output.out)
    assert (status, found["basis"], found["status"]) == (0, "as_published", "refuted")
    stds = {one["phase"]: one.get("noise_std") for one in found["releases"]}
    factor = math.sqrt(12) * math.sqrt(2 * math.log(1.25e5))
    edges = math.log(3.5)
    assert stds[FIRST] == pytest.approx(factor / (0.05 * epsilon))
    assert stds[LABELS] == pytest.approx(factor / (0.95 * epsilon - edges))
    assert found["epsilon"] == pytest.approx(epsilon)


def test_the_published_laplace_noise_is_scaled_for_one_hot_rows_alone(capsys):
    """Scale 2 D / ε of each stream. D keys that move by a row of features and D by another, of k
    equal entries each: pure ε is their ℓ1 distance over the scale, √k times what is claimed."""
    line = "calibrate dpaofficial --level node --epsilon 4 --delta 1e-5 --max-degree 6"
    status, output = run(capsys, f"{line} --noise laplace --json")
    found = json.loads(output.out)
    assert (status, found["status"]) == (0, "refuted")
    assert any("ℓ1 norm of up to √C" in one for one in found["plan"]["assumptions"])
    stds = {one["phase"]: one.get("noise_std") for one in found["releases"]}
    own = {FIRST: 0.05 * 4, LABELS: 0.95 * 4 - math.log(3.5)}
    for phase, epsilon in own.items():
        scale = stds[phase] / math.sqrt(2)
        assert scale == pytest.approx(12 / epsilon)
        for entries in (1, 18):
            row = np.full(entries, 1 / math.sqrt(entries))
            loss = 2 * 6 * np.abs(row).sum() / scale
            assert loss == pytest.approx(math.sqrt(entries) * epsilon)


@pytest.mark.parametrize(
    ("public", "epsilon", "expected"),
    [
        ("labels", 4.001, {FIRST: 0.001}),
        ("features", 4.1, {LABELS: 0.1}),
        ("edges", 4.0, {FIRST: 0.2, LABELS: 3.8}),
    ],
)
def test_what_is_public_takes_no_part_of_the_published_epsilon(capsys, public, epsilon, expected):
    """Section 7.2.2. r is set for ε_e = 4, by equation 13; expected: phase -> its own ε."""
    line = f"calibrate dpaofficial --level node --epsilon {epsilon} --delta 1e-5 --max-degree 6"
    rate = 1 - math.exp(-4)
    status, output = run(capsys, f"{line} --public {public} --dummy-rate {rate} --json")
    found = json.loads(output.out)
    assert (status, found["status"]) == (0, "refuted")
    factor = math.sqrt(12) * math.sqrt(2 * math.log(1.25e5))
    stds = {one["phase"]: one.get("noise_std") for one in found["releases"]}
    noisy = {phase: factor / std for phase, std in stds.items() if phase != COUNTS}
    assert noisy == pytest.approx(expected)
    assert (COUNTS in stds) == (public != "edges")
    assert f"The {public} are taken as public." in found["plan"]["assumptions"]


@pytest.mark.parametrize(
    ("settings", "deltas"),
    [
        ({}, [1e-5, 1e-5]),
        ({"public": "edges"}, [1e-5, 1e-5]),
        ({"public": "features"}, [1e-5]),
        ({"noise": "laplace"}, [0.0, 0.0]),
    ],
)
def test_a_published_epsilon_is_called_a_claim_with_the_deltas_that_its_noise_is_set_for(
    settings, deltas
):
    """In what is calibrated and in the statement; a smaller δ is refused, since σ follows from the
    plan's: by the classical formula, turned round, from each σ and its own ε."""
    plan = published_plan("node", 6, **settings)
    made = calibrate(plan, 4.0, 1e-4)
    sigmas = [m for m in plan.mechanisms if m.kind == "classical_gaussian"]
    read = []
    for m in sigmas:
        own, std = m.own_share(made.noise_multiplier), m.noise_std(made.noise_multiplier)
        read.append(1.25 / math.exp((std * own / m.sensitivity.value) ** 2 / 2))
    assert read == pytest.approx([delta for delta in deltas if delta])
    stated = statement._account(plan, plan, made.noise_multiplier, 1e-4)
    (own,) = made.accounting
    assert own.accountant == stated.accountant == "published" and own.method == stated.method
    if len(read) == 2:
        assert "1e-05 for each of 2 Gaussian releases, 2e-05 together" in own.method
    else:
        assert ("δ = 1e-05 for" if read else "δ = 0") in own.method
    assert "a claim" in own.method and "pure" not in own.method
    for delta in (1e-5, 9e-6):
        if read and delta < 1e-5:
            with pytest.raises(GraphDPError, match=r"delta is 9e-06.* give delta 1e-05$"):
                calibrate(plan, 4.0, delta)
        else:  # whatever δ is above that, the noise is the same
            assert calibrate(plan, 4.0, delta).noise_multiplier == made.noise_multiplier


def test_what_the_code_does_has_no_finite_epsilon():
    settings = {"max_degree": 6}
    plans = card("dpaofficial").analyses.partition(":")[2]
    from graphdp.methods.dpa import published_plan as module

    published, run_as, corrected = getattr(module, plans)("node", settings, None)
    assert [p.basis for p in (published, run_as, corrected)] == [
        "as_published", "as_implemented", "corrected",
    ]  # fmt: skip
    for other in (run_as, corrected):
        assert other.status == "refuted" and other.composition.unnoised
    with pytest.raises(GraphDPError, match="nothing is left"):
        published.mechanisms[1].noise_std(1 / 0.01)


@pytest.mark.parametrize(
    ("name", "level", "given"),
    [
        ("dpa", "edge", {"feature_layers": 10, "label_layers": 8}),
        ("dpa", "node", {"feature_layers": 10, "label_layers": 8, "max_degree": 6}),
        ("dpa", "node", {"feature_layers": 1, "label_layers": 1, "max_degree": 6,
                         "feature_share": 0.4, "label_share": 0.4}),
        ("dpaofficial", "node", {"max_degree": 6}),
        ("dpaofficial", "node", {"max_degree": 6, "public": "labels"}),
        ("dpaofficial", "node", {"max_degree": 6, "public": "edges"}),
    ],
)  # fmt: skip
def test_every_analysis_of_a_statement_names_whom_it_trusts(name, level, given):
    lines = (analyses if name == "dpa" else published_analyses)(level, given, None)
    assert len({(one.basis, one.adjacency) for one in lines}) == len(lines)
    for line, release in itertools.product(lines, ("reproduction", "private")):
        said = of_release(line.assumptions, release)
        trusted = [one for one in said if one.startswith("The shuffler is trusted and colludes")]
        assert len(trusted) == 1, (line.basis, line.adjacency)


def test_a_statement_says_that_own_rows_are_covered():
    plan = dpa_plan("node", 10, 8, 6)
    found = {one.what: one.covered for one in releases(plan, WORDS, "reproduction", "last")}
    assert found["noisy aggregates"] and found["predictions"]
    assert not found["accuracies, and a choice made by them"]
    assert "and nothing else" in inference(plan)
    said = protection(plan, WORDS, "reproduction", "best_validation")
    assert not any("own prediction" in one for one in said.not_protected)
    # A user that sends nothing keeps its row: a graph with a row less is no adjacent one.
    assert "Whether a user sends anything." in said.protected
    assert not any("ids" in one for one in said.protected)
    assert any("Which users there are" in one for one in said.not_protected)
    # Nor is a row of the user's own read without noise where a checkpoint is selected.
    (chosen,) = (one for one in said.not_protected if "validation" in one)
    assert "checkpoints and settings: labels and features, and" in chosen
    assert not left_out(plan, [], 1, False, "shared", "private")
    bare = replace(plan, own_row_covered=False)
    assert not {o.what: o.covered for o in releases(bare, WORDS, "reproduction", "last")}[
        "noisy aggregates"
    ]


def test_a_statement_adds_what_the_drawn_noise_may_lose():
    """2 (√(N 2⁻⁵⁴ · 60) + 2⁻¹⁸ · 60) at the most numbers that a model may draw."""
    most = 2 * (math.sqrt(noise.MOST_DRAWS * 2.0**-54 * 60) + 60 * 2.0**-18)
    made, _ = block(max_degree=3, feature_share=0.5, label_share=0.4)
    (entry,) = made.calibrations
    data = Data(name="g", fingerprint="f", nodes=NODES, directed_edges=400,
                train_nodes=entry["num_train"], undirected=True)  # fmt: skip
    rng = statement._random_numbers(entry, data, "reproduction")
    ideal = noise.as_drawn(float(entry["target_epsilon"]), entry["delta"])
    assert most <= rng.drawn_epsilon - ideal[0] <= 0.031
    assert ideal[1] < rng.drawn_delta < ideal[1] + 1e-12  # dummies that are cut at 0
    # What is proven of Gaussian noise is not said of another one.
    made, _ = block("dpaofficial", max_degree=4, noise="laplace")
    rng = statement._random_numbers(made.calibrations[0], data, "reproduction")
    assert rng.drawn_epsilon is None
    assert rng.note.startswith("Gaussian noise alone is analysed as it is drawn; of laplace noise")


# --- what is run ----------------------------------------------------------------------------------


def graph_of(seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, NODES)
    labels[:CLASSES] = range(CLASSES)
    x = np.abs(rng.normal(size=(NODES, 6))) + 2 * np.eye(CLASSES, 6)[labels]
    ends = rng.integers(0, NODES, (2, 400))
    ends = ends[:, (labels[ends[0]] == labels[ends[1]]) & (ends[0] != ends[1])]
    indptr, indices = csr_from_edges(*ends, NODES, symmetrise=True)
    return Graph(
        "g", x.astype(np.float32), labels, indptr, indices, np.arange(NODES), NODES, CLASSES
    )


@cache
def calibrated_cell(name, level, epsilon, plan, num_train, num_edges):
    """A calibration takes seconds, and many tests want the same."""
    return calibrate_cell("g", name, level, epsilon, [json.loads(plan)], [num_train], num_edges,
                          "auto")  # fmt: skip


def block(name="dpa", level="node", epsilon="8", **changes):
    graph = graph_of()
    small = {"hidden": 8, "epochs": 30} | changes
    if name == "dpa" or level == "none":
        small = {"feature_layers": 2, "label_layers": 2} | small
    if level == "none":
        epsilon = "inf"
    setting = card(name).settings(level)(**small).model_dump(exclude_none=True)
    num_train = split_of(graph, 1, "shared", 0).train.size
    plan = key(card(name).plan(level, setting))
    calibrations = calibrated_cell(name, level, epsilon, plan, num_train, graph.num_edges)
    made = Block(
        graph=graph, dataset="g", method=name, level=level, epsilon=epsilon, seeds=[0],
        study_seed=1, split_rule="shared", checkpoint="last", device="cpu",
        calibrations=calibrations,
    )  # fmt: skip
    return made, setting


@pytest.mark.parametrize(
    ("level", "changes"),
    [
        ("edge", {}),
        ("edge", {"max_degree": 3}),
        ("edge", {"adjacency": "edge_directed"}),
        ("edge", {"degree_quantile": 0.8, "feature_share": 0.5, "label_share": 0.4}),
        ("node", {"max_degree": 3}),
        ("node", {"max_degree": 3, "adjacency": "node_replace_own_list", "columns": 4}),
        ("node", {"max_degree": 3, "feature_share": 0.5, "label_share": 0.4}),
        ("node", {"max_degree": 3, "parties": 5, "shares": 3, "colluding": 2}),
        ("node", {"degree_quantile": 0.8}),
        ("node", {"degree_quantile": 0.8, "feature_share": 0.5, "label_share": 0.45,
                  "adjacency": "node_replace_own_list"}),
    ],
)  # fmt: skip
def test_what_is_run_is_what_the_plan_accounts(level, changes):
    made, setting = block(level=level, **changes)
    ((_, _, model),) = method.fit(made, [setting])
    calibrated.check_execution(made.calibrations[0], model.executed)
    columns = setting.get("columns", 6)
    parties = setting["parties"]
    assert model.executed[FIRST].draws == parties * NODES * columns
    assert model.executed[LABELS].count == 2
    assert model.executed[LABELS].draws == 2 * parties * NODES * CLASSES
    assert (COUNTS in model.executed) == ("label_share" in changes)


@pytest.mark.parametrize("transport", [None, "tcp"])
@pytest.mark.parametrize("less", [0.01, 1 - 2**-40])
def test_other_noise_than_planned_gives_no_row(monkeypatch, transport, less):
    """What is written down is what the parties are given to draw, whatever the plan has."""
    own = method._Rounds._of_a_party
    monkeypatch.setattr(method._Rounds, "_of_a_party", lambda self, std: own(self, std) * less)
    sizes = {"feature_share": 0.5, "label_share": 0.4, "transport": transport}
    made, setting = block(max_degree=3, **sizes)
    ((_, _, model),) = method.fit(made, [setting])
    planned = calibrated.phases(made.calibrations[0])
    assert set(planned) == {FIRST, LATER, LABELS, COUNTS}
    for phase, one in planned.items():
        done = model.executed[phase]
        assert done.noise_std == pytest.approx(one.run.noise_std * less, rel=1e-15)
        assert replace(done, noise_std=one.run.noise_std) == one.run
    with pytest.raises(GraphDPError, match=r"noise std .* the ε of this model does not hold"):
        calibrated.check_execution(made.calibrations[0], model.executed)


def test_dummies_of_the_plan_are_drawn_in_one_process():
    """As many as are accounted, within six standard errors: wrong once in 1e-8 runs."""
    made, setting = block(max_degree=3, feature_share=0.5, label_share=0.4)
    sent = method.kept_pairs(made, 0, setting)
    rounds = method._Rounds(made, 0, setting, {"features": 6, "labels": 3}, *sent)
    drawn = rounds._transport.counts - np.bincount(sent[1], minlength=NODES)
    std = calibrated.phases(made.calibrations[0])[COUNTS].run.noise_std
    error = std * math.sqrt(3 / 2)
    assert abs(drawn.mean() - 3 * mean_dummies(std, 3, 1)) < 6 * error / math.sqrt(NODES)
    assert abs(drawn.std() / error - 1) < 6 / math.sqrt(2 * NODES)


@pytest.mark.parametrize("transport", [None, "tcp"])
def test_dummies_that_nobody_draws_are_not_written_down(monkeypatch, transport):
    """As where the numbers of pairs are planned, and the parties not told of them."""
    made, setting = block(
        max_degree=3, feature_share=0.5, label_share=0.4, transport=transport
    )  # fmt: skip
    monkeypatch.setattr(method._Rounds, "_counts", lambda self: {})
    ((_, _, model),) = method.fit(made, [setting])
    with pytest.raises(GraphDPError, match="counts: noise is planned but none was run"):
        calibrated.check_execution(made.calibrations[0], model.executed)


def test_a_user_sends_no_more_pairs_than_the_plan_accounts(monkeypatch):
    made, setting = block(max_degree=3)
    senders, keys = method.kept_pairs(made, 0, setting)
    assert np.bincount(senders).max() == 3
    edges = made.graph.indptr, made.graph.indices
    listed = {(u, v) for u in range(NODES) for v in edges[1][edges[0][u] : edges[0][u + 1]]}
    assert set(zip(senders.tolist(), keys.tolist(), strict=True)) <= listed
    from graphdp.graphs import degree

    monkeypatch.setattr(degree, "keep_edges", lambda *_: np.ones(len(edges[1]), bool))
    with pytest.raises(GraphDPError, match="where the plan accounts 3"):
        method.kept_pairs(made, 0, setting)


def test_lists_are_cut_at_the_quantile_of_noisy_lengths(monkeypatch):
    """Almost without noise it is that of the lengths; and what is drawn is what the plan has."""
    kept = []
    real = method.kept_pairs
    monkeypatch.setattr(method, "kept_pairs", lambda *a: kept.append(real(*a)) or kept[-1])
    made, setting = block(level="edge", epsilon="1000", degree_quantile=0.6)
    ((_, _, model),) = method.fit(made, [setting])
    calibrated.check_execution(made.calibrations[0], model.executed)
    lengths, cut = (np.bincount(senders, minlength=NODES) for senders, _ in kept)
    expected = np.sort(lengths)[math.ceil(0.6 * NODES) - 1]
    assert cut.max() == expected < lengths.max()
    assert (cut == np.minimum(lengths, expected)).all()
    assert model.executed[LENGTHS].draws == setting["parties"] * NODES * 64


@pytest.mark.parametrize("transport", [None, "tcp"])
def test_at_node_level_sums_of_lists_cut_at_a_quantile_have_noise_for_that_quantile(
    monkeypatch, transport
):
    """Of the plan's σ √D, for D as it was found; no list is longer. Dummies as well. Deviations
    within six standard errors: wrong once in 1e-8 runs."""
    kept, seen = [], []
    real = method.kept_pairs
    monkeypatch.setattr(method, "kept_pairs", lambda *a: kept.append(real(*a)) or kept[-1])
    made, setting = block(
        level="node", degree_quantile=0.6, transport=transport,
        feature_share=0.5, label_share=0.48,
    )  # fmt: skip
    made = replace(made, observe=lambda phase, _, rows, found: seen.append((phase, rows, found)))
    ((_, _, model),) = method.fit(made, [setting])
    calibrated.check_execution(made.calibrations[0], model.executed)
    lengths, cut = (np.bincount(senders, minlength=NODES) for senders, _ in kept)
    (tally,) = (found[0] for phase, _, found in seen if phase == LENGTHS)
    degree = np.flatnonzero(np.cumsum(tally) >= 0.6 * NODES)[0]
    assert cut.max() == degree > 1 and (cut == np.minimum(lengths, degree)).all()
    senders, keys = kept[1]
    phases = calibrated.phases(made.calibrations[0])
    for phase, rows, found in seen:
        if phase == LENGTHS:
            continue
        expected = np.zeros_like(found)
        np.add.at(expected, keys, rows[senders])
        std = phases[phase].run.noise_std * math.sqrt(degree * 3 / 2)
        left = (found - expected) / std
        assert abs(left.var() - 1) < 6 * math.sqrt(2 / left.size), phase


def test_noise_for_shorter_lists_than_are_sent_is_no_round(monkeypatch):
    """What is written down of noise is over √D: a D that is too small would be seen by nobody."""
    made, setting = block(level="node", degree_quantile=0.6)
    counted, kept = method._degree_at_quantile, method.kept_pairs
    monkeypatch.setattr(method, "_degree_at_quantile", lambda *a: (1, counted(*a)[1]))
    monkeypatch.setattr(method, "kept_pairs", lambda *a: kept(*a[:2], setting))
    with pytest.raises(GraphDPError, match=r"a user has \d+ pairs where there is noise for 1"):
        method.fit(made, [setting])


def test_what_no_degree_could_be_released_with_is_refused_before_the_lengths_are():
    """Dummies whose noise is too small at D = 1, if not at the D that would be found."""
    shares = {"feature_share": 0.1, "label_share": 0.1}
    made, setting = block(level="node", degree_quantile=0.8, **shares)
    seen = []
    made = replace(made, observe=lambda *a: seen.append(a))
    with pytest.raises(GraphDPError, match=r"numbers of pairs would get noise of 0\.331"):
        method.fit(made, [setting])
    assert not seen


@pytest.mark.parametrize("level", ["edge", "node"])
def test_a_statement_says_that_a_bound_is_found_and_counted(level):
    """Of a bound that is given it says that nobody counts how it was chosen."""
    for counted, how in enumerate(({"max_degree": 3}, {"degree_quantile": 0.8})):
        made, setting = block(level=level, **how)
        (entry,) = made.calibrations
        plan = Plan.from_dict(entry["plan"])
        (last,) = (line for line in uncounted(plan, WORDS, "last", 1, 1, "reproduction")
                   if "ranges of the search" in line)  # fmt: skip
        assert ("a degree bound where there is one" in last) != bool(counted)
        bound = statement._guarantee(plan, setting, WORDS).degree_bound
        assert bound.max_degree == (63 if counted else 3)
        assert ("cut at the 0.8 quantile of noisy lengths" in bound.method) == bool(counted)


@pytest.mark.parametrize("degree", [1, 2, 4])
def test_an_undirected_edge_moves_the_lists_that_are_cut_by_no_more_whatever_the_seed(degree):
    """All rows alike, which is the worst: Δ² is that of the numbers of pairs."""
    made, setting = block(level="edge", max_degree=3)
    setting = setting | {"max_degree": degree}
    graph, worst = made.graph, 0.0
    sources = np.repeat(np.arange(NODES), np.diff(graph.indptr))
    for u, v in np.stack([sources, graph.indices])[:, ::5].T:
        stays = ~(np.isin(sources, (u, v)) & np.isin(graph.indices, (u, v)))
        ends = sources[stays], graph.indices[stays]
        indptr, indices = csr_from_edges(*ends, NODES, symmetrise=False)
        less = replace(made, graph=replace(graph, indptr=indptr, indices=indices))
        for seed in range(3):
            keys = [method.kept_pairs(one, seed, setting)[1] for one in (made, less)]
            moved = np.subtract(*(np.bincount(k, minlength=NODES) for k in keys))
            worst = max(worst, float(moved @ moved))
    assert 4 <= worst <= 6


def test_the_released_rows_are_the_sums_with_the_delivered_noise():
    """Against a loop over pairs, by the deviation of what is left: within six standard errors,
    wrong once in 1e-8 runs."""
    made, setting = block(max_degree=3, feature_layers=1, label_layers=1, columns=6)
    seen = []
    made = replace(made, observe=lambda phase, _, rows, found: seen.append((phase, rows, found)))
    method.fit(made, [setting])
    senders, keys = method.kept_pairs(made, 0, setting)
    std = calibrated.phases(made.calibrations[0])[FIRST].run.noise_std
    for phase, rows, found in seen:
        expected = np.zeros_like(found)
        for sender, receiver in zip(senders, keys, strict=True):
            expected[receiver] += rows[sender]
        left = (found - expected) / (std * math.sqrt(3 / 2))
        assert abs(left.var() - 1) < 6 * math.sqrt(2 / left.size)
        assert abs(left.mean()) < 6 / math.sqrt(left.size)
        if phase == LABELS:
            assert not rows[made.split(0).test].any()


def test_another_delta_draws_other_noise_where_it_is_secret():
    """If two private releases had the same normals, at their two scales, sums would be left without
    noise. What is left of independent ones has at least the deviation of one."""
    made, setting = block(max_degree=3)
    plan = card("dpa").plan("node", setting)
    (entry,) = made.calibrations
    (other,) = calibrate_cell(
        "g", "dpa", "node", "8", [plan], [entry["num_train"]], made.graph.num_edges, 1e-9
    )
    drawn, stds = [], []
    for calibration in (entry, other):
        seen = []
        one = replace(
            made,
            calibrations=[calibration],
            observe=lambda phase, _, rows, found, seen=seen: seen.append(np.array(found)),
            release="private",
            secret="5" * 64,
        )
        method.fit(one, [setting])
        drawn.append(seen[0])
        stds.append(calibrated.phases(calibration)[FIRST].run.noise_std)
    first, second = drawn
    assert stds[1] > 1.05 * stds[0]
    left = first - (second - first) * stds[0] / (stds[1] - stds[0])
    assert left.std() > stds[0]


def test_an_observer_keeps_what_later_rounds_overwrite():
    """What is sent in a round is the function of what was released before it."""
    seen = []
    made, setting = block(max_degree=3)
    made = replace(made, observe=lambda phase, _, rows, found: seen.append((phase, rows, found)))
    method.fit(made, [setting])
    assert [phase for phase, _, _ in seen] == [FIRST, LATER, LABELS, LABELS]
    for (_, _, released), (_, sent, _) in (seen[:2], seen[2:]):
        norms = np.sqrt((released**2).sum(1, keepdims=True))
        np.testing.assert_allclose(sent, released / np.maximum(norms, 1), rtol=1e-14)
        assert (norms > 1).any()


def test_rounds_of_many_columns_keep_their_rows_in_one_memory():
    """All that two rounds take beside the rows is less than half of these."""
    made, setting = block(max_degree=3)
    rounds = method._Rounds(
        made, 0, setting, {"features": 20_000}, *method.kept_pairs(made, 0, setting)
    )
    rows = np.random.default_rng(0).normal(size=(NODES, 20_000))
    tracemalloc.start()
    with rounds:
        found = rounds.run("features", rows)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.shares_memory(found, rows) and most < rows.nbytes / 2
    assert rounds.executed()[FIRST].draws == setting["parties"] * rows.size


def test_both_transports_train_the_same_model_encrypted_or_not(tmp_path):
    models = []
    certificate(tmp_path)
    for transport in (None, "tcp"):
        tls = str(tmp_path) if transport else None
        made, setting = block(max_degree=3, transport=transport, tls=tls)
        ((_, _, model),) = method.fit(made, [setting])
        models.append(model)
        assert ("transport" in setting) == (transport == "tcp")
    for name, value in models[0].parameters.items():
        assert (value == models[1].parameters[name]).all()
    assert models[0].executed == models[1].executed


def test_a_rerun_has_the_same_noise_and_secrets_of_its_own():
    """Of these are shares, masks, choices of parties and order."""
    made, setting = block(max_degree=3, transport="tcp")
    first, again = (
        method._Rounds(
            made, 0, setting, {"features": 5}, *method.kept_pairs(made, 0, setting)
        )._transport
        for _ in range(2)
    )
    assert isinstance(first, session.Session) and first._noise == again._noise
    assert first._secret != again._secret


def test_where_parties_run_is_no_part_of_what_names_a_model_s_noise():
    _, setting = block(max_degree=3)
    how = {"hosts": "a b c d", "launch": "ssh {host}", "listen": "e", "tls": "keys"}
    _, far = block(max_degree=3, transport="tcp", **how)
    assert far == setting | how | {"transport": "tcp"}
    assert method.asked(far) == method.asked(setting) == key(setting)


def test_missing_certificates_are_named(tmp_path):
    made, setting = block(max_degree=3, transport="tcp", tls=str(tmp_path))
    with pytest.raises(GraphDPError, match=r"there is no .*certificate\.pem"):
        method.fit(made, [setting])


def test_links_that_others_could_read_are_encrypted():
    """Refused with the configuration, and by the job whatever it is given."""
    message = r"listen: shares sent to 10\.0\.0\.1 in clear"
    with pytest.raises(ValidationError, match=message):
        block(max_degree=3, transport="tcp", listen="10.0.0.1")
    made, setting = block(max_degree=3, transport="tcp")
    with pytest.raises(GraphDPError, match=message):
        method.fit(made, [setting | {"listen": "10.0.0.1"}])


def test_a_session_that_fails_leaves_no_model(monkeypatch):
    made, setting = block(max_degree=3, transport="tcp")
    monkeypatch.setattr(
        session.Session, "_said",
        property(lambda self: self._kept + 1, lambda self, value: setattr(self, "_kept", value)),
        raising=False,
    )  # fmt: skip
    with pytest.raises(GraphDPError, match=r"round 1 of features: .*nothing was forwarded"):
        method.fit(made, [setting])


def test_a_frame_that_is_spoiled_leaves_no_model(monkeypatch):
    made, setting = block(max_degree=3, transport="tcp")
    spoils = {"party 1": {"spoils": {"kind": "sums", "number": 1, "how": "a bit"}}}
    monkeypatch.setattr(session, "Session", functools.partial(watched, spoils))
    message = "round 2 of features: party 1 sent a frame with a wrong HMAC"
    with pytest.raises(GraphDPError, match=message):
        method.fit(made, [setting])


@pytest.mark.parametrize("name", ["dpa", "dpaofficial"])
def test_without_privacy_it_learns(name):
    made, setting = block(name, level="none", epochs=100)
    fit = method.fit if name == "dpa" else official.fit
    ((_, _, model),) = fit(made, [setting])
    assert model.executed == {} and model.test_accuracy > 0.8


# --- as the authors' code runs it -----------------------------------------------------------------


def test_the_official_noise_is_that_of_its_plan():
    made, setting = block("dpaofficial", max_degree=4)
    ((_, _, model),) = official.fit(made, [setting])
    calibrated.check_execution(made.calibrations[0], model.executed)
    assert set(model.executed) == {FIRST, LABELS}


def test_laplace_noise_has_the_law_of_its_scale():
    """Kolmogorov and Smirnov, with the last step of the grid spread out: wrong once in 1e9 runs."""
    scale, rows = 3.0, np.random.default_rng(0).normal(size=(400, 100))
    found = official._with_laplace(rows, scale, ("laplace", 0))
    grid = 2.0**-9
    assert not (found / grid % 1).any() and (found / grid % 2).any()
    left = (found - grid * np.rint(rows / grid)).ravel()
    left += np.random.default_rng(1).uniform(-grid / 2, grid / 2, left.size)
    assert stats.kstest(left, "laplace", (0, scale)).pvalue > 1e-9


def test_laplace_noise_is_that_of_the_plan():
    made, setting = block("dpaofficial", max_degree=4, noise="laplace")
    ((_, _, model),) = official.fit(made, [setting])
    calibrated.check_execution(made.calibrations[0], model.executed)
    assert {one.noise for one in model.executed.values()} == {"laplace"}


def test_the_official_lists_are_cut_by_receivers_and_have_loops_and_dummies():
    graph, rng = graph_of(), np.random.default_rng(0)
    pairs, degrees = official.kept_pairs(
        graph, {"max_degree": 4, "dummy_rate": 0.5}, rng, whole=False
    )
    received = np.asarray(pairs.sum(1)).ravel()
    whole, counts = official.kept_pairs(graph, {}, rng, whole=True)
    assert (received == np.minimum(4, np.asarray(whole.sum(1)).ravel())).all()
    assert (whole.diagonal() == 1).all() and (counts == np.diff(graph.indptr) + 1).all()
    assert (degrees - received).min() == 1  # one dummy at least; mean 2 within six standard errors
    assert abs((degrees - received).mean() - 2) < 6 * math.sqrt(2 / NODES)
    assert np.asarray(pairs.sum(0)).max() > 4  # senders are not bounded


@pytest.mark.parametrize("edge", [True, False])
def test_two_official_rounds_tell_whether_two_nodes_are_neighbours(edge):
    """Equal closed neighbourhoods give equal last rows, whatever the noise of the first round."""
    ends = np.array([[0, 1], [1, 0]])[:, : 2 * edge]
    indptr, indices = csr_from_edges(*ends, 2, symmetrise=False)
    graph = Graph("g", np.eye(2, dtype=np.float32), np.array([0, 1]), indptr, indices,
                  np.arange(2), 2, 2)  # fmt: skip
    rng = np.random.default_rng(1)
    pairs, degrees = official.kept_pairs(graph, {"max_degree": 4, "dummy_rate": 0.5}, rng, False)
    first = (pairs @ np.eye(2) + rng.normal(0, 100, (2, 2))) / degrees[:, None]
    last = pairs @ first
    assert (last[0] == last[1]).all() == edge


@pytest.mark.parametrize("name", ["dpa", "dpaofficial"])
def test_without_rounds_no_edge_is_read(name):
    made, setting = block(name, "none", feature_layers=0, label_layers=0)
    run_it = method.fit if name == "dpa" else official.fit
    alone = replace(
        made.graph, indptr=np.zeros(NODES + 1, np.int64), indices=made.graph.indices[:0]
    )
    models = [run_it(replace(made, graph=g), [setting])[0][2] for g in (made.graph, alone)]
    for one, other in zip(*(m.parameters.values() for m in models), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("public", ["features", "labels", "edges"])
def test_what_is_public_is_summed_without_noise(public):
    made, setting = block("dpaofficial", epsilon="8", max_degree=3, public=public)
    seen = {}
    made = replace(made, observe=lambda phase, _, __, rows: seen.setdefault(phase, rows))
    ((_, _, model),) = official.fit(made, [setting])
    calibrated.check_execution(made.calibrations[0], model.executed)
    noisy = {"features": {LABELS}, "labels": {FIRST}, "edges": {FIRST, LABELS}}[public]
    assert set(model.executed) - {COUNTS} == noisy
    whole = {phase: bool(np.allclose(rows, np.round(rows))) for phase, rows in seen.items()}
    assert whole[LABELS] == (LABELS not in noisy)


def test_scaling_names_the_degrees_that_sums_are_divided_by():
    made, setting = block("dpaofficial", max_degree=3)
    graph, true = made.graph, np.diff(made.graph.indptr) + 1

    def degrees(**changes):
        return official.kept_pairs(graph, setting | changes, np.random.default_rng(0), False)[1]

    np.testing.assert_array_equal(degrees(scaling="raw"), true)
    np.testing.assert_array_equal(degrees(scaling="clipped"), np.minimum(true, 3))
    np.testing.assert_array_equal(degrees(public="edges"), np.minimum(true, 3))
    assert (degrees() > np.minimum(true, 3)).all()


def test_the_network_learns_from_the_released_rows_alone(monkeypatch):
    """Its inputs and targets are those sums; true labels are for accuracies."""
    given, released, real = [], {}, network.train
    monkeypatch.setattr(network, "train", lambda *a: (given.append(a), real(*a))[1])
    made, setting = block(max_degree=3)
    made = replace(made, observe=lambda phase, _, rows, found: released.update({phase: found}))
    method.fit(made, [setting])
    ((x, targets, *_),) = given
    assert np.array_equal(x, project(released[LATER].copy()))
    assert np.array_equal(targets, released[LABELS].argmax(1))
    assert (targets != made.graph.y).any()


def test_true_labels_decide_no_parameter_and_no_epoch():
    draw = np.random.default_rng(0)
    x = draw.normal(size=(60, 5))
    targets = (x @ draw.normal(size=(5, CLASSES))).argmax(1)
    split = Split(np.arange(30), np.arange(30, 45), np.arange(45, 60))
    setting = {
        "hidden": 8, "learning_rate": 0.05, "weight_decay": 0.0, "dropout": 0.0, "epochs": 300,
    }  # fmt: skip

    def fitted(labels):
        return network.train(x, targets, labels, split, CLASSES, setting, (1,), "cpu", {}, False)

    one, other = fitted(targets), fitted(draw.integers(0, CLASSES, 60))
    assert 60 < one.best_epoch == other.best_epoch  # while the targets' loss falls
    for name, value in one.parameters.items():
        assert np.array_equal(value, other.parameters[name]), name
    assert np.array_equal(one.predictions, other.predictions)
    assert one.val_accuracy != other.val_accuracy
