"""Privacy statements: what they say, that they never overstate, and the commands that read them."""

import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from graphdp import cli, coins
from graphdp.errors import GraphDPError
from graphdp.methods.registry import analyses, card
from graphdp.methods.settings import distinct
from graphdp.privacy import statement_form
from graphdp.privacy.assumptions import EDGE_COUNT_IS_PRIVATE, EDGE_COUNT_IS_PUBLIC
from graphdp.privacy.protection import Words, protects_nodes
from graphdp.privacy.statement import cell_statements
from graphdp.privacy.statement_form import AccountingEntry, Statement, differences
from graphdp.privacy.statement_page import render_markdown
from graphdp.privacy.statement_words import protection
from graphdp.workflow.calibrations import calibrate_cell
from study_fixture import every_level

ROOT = Path(__file__).parent.parent
TRAIN, EDGES = 19800, 1_685_168


def make(
    method, level, epsilon, grid=({},), calibrate_for="published", accountant="auto", **changes
):
    """The statements of a cell as the workflow makes them: calibration through JSON and back."""
    its = card(method)
    full = [its.settings(level)(**point).model_dump(exclude_none=True) for point in grid]
    tried = [its.plan(level, setting) for setting in full]
    entries = calibrate_cell(
        "facebook",
        method,
        level,
        epsilon,
        distinct(tried),
        [TRAIN],
        EDGES,
        "auto",
        calibrate_for,
        accountant=accountant,
    )
    arguments = {
        "entries": json.loads(json.dumps(entries)),
        "graph_name": "facebook",
        "fingerprint": "ab" * 32,
        "num_nodes": 26406,
        "num_edges": EDGES,
        "method": method,
        "checkpoint": "best_validation",
        "settings_tried": tried,
        "undirected": True,
        "repeats": 10,
        "analyses": partial(analyses, method, level),
        "words": its.words,
    }
    return cell_statements(**arguments | changes)


@pytest.fixture(scope="module")
def node():
    return make("gap", "node", "8", [{"hops": k} for k in (1, 2)])[1]


@pytest.fixture(scope="module")
def edge():
    return make("gap", "edge", "4", [{"hops": 2}])[0]


ALL = [
    ("gap", "none", "inf"),
    ("gap", "edge", "1"),
    ("gap", "node", "2"),
    ("mlp", "none", "inf"),
    ("mlp", "node", "1"),
]


@pytest.mark.parametrize(("method", "level", "epsilon"), ALL)
def test_statements_survive_json_and_match_the_schema(method, level, epsilon):
    jsonschema = pytest.importorskip("jsonschema")
    (made,) = make(method, level, epsilon)
    written = json.loads(json.dumps(made.to_json(), allow_nan=False))
    assert Statement.from_json(written) == made
    jsonschema.validate(written, statement_form.schema())


@pytest.mark.parametrize(
    ("method", "own", "status", "holds_for"),
    [
        ("gap", False, "refuted", "node_replace_own_list"),
        ("mlp", None, "conditional", "node_replace"),
    ],
)
def test_a_replaced_node_is_stated_with_its_samples_and_bounds(method, own, status, holds_for):
    grid = [{"adjacency": "node_replace", "epochs": epochs} for epochs in (10, 20)]
    made = make(method, "node", "8", grid)[0]
    assert made.guarantee.adjacency == made.target.adjacency == "node_replace"
    assert "replaced" in made.guarantee.unit and made.guarantee.own_row_covered is own
    sampled = [m for m in made.mechanisms if m.kind == "without_replacement_dpsgd"]
    assert len(sampled) == (2 if method == "gap" else 1)
    for mechanism in sampled:
        assert (mechanism.sampling, mechanism.formula) == ("without_replacement", "2*C")
        assert mechanism.noise_std == pytest.approx(2 * made.target.noise_multiplier)
    # Of the official code's rounds, which are fewer, a refuted claim alone is stated.
    published, *as_implemented, corrected, participant = made.accounting[: 4 if own is False else 3]
    assert len(as_implemented) == (method == "gap")
    assert (published.status, corrected.adjacency) == (status, holds_for)
    assert corrected.status == "conditional"
    assert corrected.epsilon == published.claimed_epsilon == pytest.approx(8, rel=1e-4)
    assert corrected.accountant == "dp_accounting"
    assert participant.adjacency == "participant"
    assert participant.epsilon < corrected.epsilon
    # The search is charged for under every analysis that holds.
    charged = {(e.adjacency, e.how): e.epsilon for e in made.selection.entries}
    assert charged[holds_for, "random_search"] > corrected.epsilon
    assert charged[holds_for, "composition"] > corrected.epsilon
    assert Statement.from_json(json.loads(json.dumps(made.to_json()))) == made
    assert "without" in render_markdown(made)


def test_schema_is_generated_from_the_types():
    """Fails when a type changes and `python -m graphdp.privacy.statement_form` was not run."""
    assert json.loads((ROOT / statement_form.SCHEMA).read_text()) == statement_form.schema()


def test_refuted_claims_print_none_and_keep_the_claim(node):
    refuted = [e for e in node.accounting if e.status == "refuted"]
    assert {e.epsilon for e in refuted} == {"none"}
    published = node.accounting[0]
    assert (published.basis, published.claimed_epsilon) == (
        "as_published",
        pytest.approx(8, rel=1e-5),
    )
    assert published.delta == 1e-5
    row = next(
        line for line in render_markdown(node).splitlines() if line.startswith("| as_published")
    )
    assert row.startswith("| as_published | node_add_remove | none | 8 | 1e-05 | refuted |")


@pytest.mark.parametrize(("method", "level", "epsilon"), ALL)
def test_no_epsilon_is_bare_and_none_below_the_claim_without_reason(method, level, epsilon):
    (made,) = make(method, level, epsilon)
    for claim in [*made.accounting, *made.selection.entries]:
        if isinstance(claim.epsilon, float) and claim.epsilon > 0:
            assert claim.delta is not None and claim.delta * TRAIN < 1
            assert claim.adjacency and claim.status and claim.basis
        assert claim.epsilon in ("none", claim.claimed_epsilon)
    for claim in made.selection.entries:  # a choice never costs less than the model chosen
        single = next(
            e for e in made.accounting if (e.basis, e.adjacency) == (claim.basis, claim.adjacency)
        )
        assert claim.epsilon >= single.epsilon


def test_noise_that_is_stated_is_noise_times_sensitivity(node):
    multiplier = node.target.noise_multiplier
    encoder, aggregation, classifier = node.mechanisms
    assert multiplier == pytest.approx(1.00363, abs=1e-4)
    assert aggregation.noise_std == pytest.approx(multiplier * math.sqrt(100))
    assert aggregation.formula == "sqrt(max_degree)" and "Theorem 2" in aggregation.source
    assert encoder.count == classifier.count == 10 * TRAIN // 256
    assert encoder.sampling_rate == 256 / TRAIN


def test_public_candidates_have_an_epsilon_where_sampling_has_none(node):
    (public,) = make("gap", "node", "8", [{"hops": 2, "degree_bound": "public_candidates"}])
    first = public.accounting[0]
    assert (first.adjacency, first.status) == ("node_add_remove", "conditional")
    assert first.epsilon == pytest.approx(8, rel=1e-5)
    assert public.target.basis == "corrected"
    assert all(e.epsilon != "none" for e in public.accounting)
    adjacencies = {e.adjacency for e in public.selection.entries}
    assert adjacencies == {"node_add_remove", "participant", "node_replace"}
    bound = public.guarantee.degree_bound
    assert (bound.max_degree, bound.data_dependent) == (100, False)
    assert node.guarantee.degree_bound.data_dependent
    assert "do not depend on the nodes that they name" in render_markdown(public)
    assert Statement.from_json(json.loads(json.dumps(public.to_json()))) == public


def test_a_search_over_both_bounds_has_no_epsilon_under_add_remove():
    grid = [{"degree_bound": bound} for bound in ("public_candidates", "sampling")]
    for order in (grid, grid[::-1]):
        for made in make("gap", "node", "8", order):
            charged = [e for e in made.selection.entries if e.adjacency == "node_add_remove"]
            assert all(e.epsilon in ("inf", "none") for e in charged)


def test_edge_level_says_what_an_undirected_edge_costs(edge):
    directed, undirected = edge.accounting
    assert directed.epsilon == pytest.approx(4, rel=1e-5)
    assert undirected.epsilon == pytest.approx(5.89, abs=0.01)
    assert undirected.adjacency == "edge_undirected" and undirected.status == "proven"
    assert all(release.covered for release in edge.releases)


def test_search_is_charged_per_setting():
    one = make("gap", "edge", "1", [{"hops": 2}])[0]
    many = make(
        "gap", "edge", "1", [{"hops": 2, "learning_rate": rate} for rate in (0.1, 0.01, 0.001)]
    )
    (many,) = many  # three settings, one plan
    assert many.selection.settings_tried == 3
    for before, after in zip(one.selection.entries, many.selection.entries, strict=True):
        assert before.how == after.how and after.epsilon > before.epsilon
    composition, search = many.selection.entries[:2]
    assert composition.how == "composition" and search.how == "random_search"
    assert "Theorem 2" in search.source
    assert any("fixed grid" in text for text in search.assumptions)
    # Three equal Gaussian models have √3 times the μ of one.
    from graphdp.privacy.accounting import gaussian_epsilon

    mu = math.sqrt(3 * 2) / many.target.noise_multiplier
    assert composition.epsilon == pytest.approx(gaussian_epsilon(mu, 1e-7), rel=1e-9)


def test_a_method_without_edges_protects_them_entirely():
    (made,) = make("mlp", "none", "inf")
    assert [(e.adjacency, e.epsilon) for e in made.accounting] == [
        ("", "inf"),
        ("edge_directed", 0.0),
    ]
    assert not any(release.covered for release in made.releases)


@pytest.mark.parametrize(
    ("method", "level"), [(m, k) for m, k in every_level() if protects_nodes(k)]
)
def test_where_the_graph_stays_no_statement_hides_that_a_node_is_there(method, level):
    """A participant that takes no part still stands in others' lists, unless no edge is read."""
    its = card(method)
    fields = its.settings(level).model_fields
    setting = its.settings(level)(**({"max_degree": 4} if "max_degree" in fields else {}))
    settings = its.plan(level, setting.model_dump(exclude_none=True))
    for plan in analyses(method, level, settings, 4100):
        said = protection(plan, its.words, "private", "last")
        hidden = "Which ids of the universe are there." in said.protected
        stays = plan.adjacency.startswith("participant")
        leaves = plan.adjacency.startswith("node_add_remove")
        assert hidden == (leaves or (stays and not its.reads_edges)), plan.adjacency
        if stays and its.reads_edges:
            text = " ".join(said.not_protected)
            assert "That a node is there" in text or "Which users there are" in text
            # The number of lists that hold a node sets its rate, and each list counts in many.
            own_list = method.startswith("heterpoisson")
            assert ("A node's own list" in text) == own_list
            assert own_list != any("dges" in one and "own" not in one for one in said.protected)


def test_what_is_not_counted_is_named(node):
    text = " ".join(node.uncounted)
    for part in (
        "on validation nodes, of which labels",
        "2 hyperparameter settings",
        "10 seeds",
        "training nodes",
    ):
        assert part in text
    last = make("mlp", "node", "1", checkpoint="last")[0]
    assert not any("best epoch" in line for line in last.uncounted)


def test_page_holds_everything_a_reviewer_asks_for(node):
    page = render_markdown(node)
    for heading in (
        "Accounting",
        "With the search charged for",
        "Mechanisms",
        "What is protected",
        "Not counted",
        "Assumptions",
    ):
        assert f"\n## {heading}\n" in page
    for part in (node.data.fingerprint[:16], "participant", "not cryptographic"):
        assert part in page
    # Every assumption of every claim has a number, and every number that is used is explained.
    explained = set(re.findall(r"^(\d+)\. ", page, flags=re.M))
    tables = [line for line in page.splitlines() if line.startswith("| ")]
    used = set(re.findall(r"\b\d+\b", " ".join(line.split("|")[-2] for line in tables[2:7])))
    assert used and used <= explained
    assert len(page.splitlines()) < 90


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 8.0, "status": "refuted"}, "epsilon none"),
        ({"epsilon": 8.0, "delta": None}, "needs its delta"),
        ({"status": "conditional", "assumptions": []}, "needs its assumptions"),
        ({"delta": 1.0}, "less than 1"),
    ],
)
def test_a_claim_that_overstates_cannot_be_made(edge, changes, message):
    value = edge.to_json()
    value["accounting"][0] |= changes
    with pytest.raises(GraphDPError, match=message):
        Statement.from_json(value)
    assert AccountingEntry.model_validate(edge.to_json()["accounting"][0]) == edge.accounting[0]


def test_a_delta_that_would_allow_to_publish_an_edge_is_refused_or_warned_of():
    many = {"num_edges": 10_000_000}
    (published,) = make("gap", "edge", "1", [{"hops": 1}], **many)
    assert published.uncounted[0].startswith("Warning: delta 1e-07 is not below 1/10000000, one")
    with pytest.raises(GraphDPError, match="not below 1/10000000"):
        make("gap", "edge", "1", [{"hops": 1}], "corrected", **many)
    # The text holds a number of the data, and so would its absence: not in a private statement.
    with pytest.raises(GraphDPError, match="not below 1/10000000"):
        make("gap", "edge", "1", [{"hops": 1}], release="private", **many)
    (enough,) = make("gap", "edge", "1", [{"hops": 1}], num_edges=9_999_999)
    assert not any("Warning" in line for line in enough.uncounted)


def test_a_private_release_is_not_calibrated_for_such_a_delta():
    """Nor so that a published claim's statement would tell that it is one."""
    cell = "mine", "gap", "edge", "1", [{"hops": 1}], [TRAIN], 10_000_000, 1e-7
    assert calibrate_cell(*cell)[0]["delta"] == 1e-7
    with pytest.raises(GraphDPError, match="not below 1/10000000"):
        calibrate_cell(*cell, release="private")


@pytest.mark.parametrize(
    ("method", "setting"),
    [("gap", {"hops": 1}), ("sage", {"perturbation": "lap_graph"}), ("dpdgc", {})],
)
def test_a_private_statement_takes_no_number_of_edges_as_public(method, setting):
    (public,) = make(method, "edge", "1", [setting])
    (made,) = make(method, "edge", "1", [setting], release="private")
    counted = [
        [text for claim in claims for text in claim.assumptions if "number of edges" in text]
        for claims in (public.accounting + public.selection.entries,
                       made.accounting + made.selection.entries)
    ]  # fmt: skip
    assert set(counted[0]) == {EDGE_COUNT_IS_PUBLIC} and set(counted[1]) == {EDGE_COUNT_IS_PRIVATE}
    assert len(counted[0]) == len(counted[1])
    page = render_markdown(made)
    assert EDGE_COUNT_IS_PRIVATE in page and EDGE_COUNT_IS_PUBLIC not in page


def test_what_is_drawn_of_pure_epsilon_follows_from_its_smallest_part():
    """lap_graph's count of edges has a hundredth of ε."""
    (made,) = make("sage", "edge", "0.1", [{"perturbation": "lap_graph"}], num_nodes=1000)
    given = 0.1, 1000 * 999, made.target.delta
    assert made.rng.drawn_epsilon == coins.as_drawn(*given, 0.1 * 0.01)[0]
    assert made.rng.drawn_epsilon > coins.as_drawn(*given)[0]


@pytest.mark.parametrize("setting", [{}, {"adjacency": "node_replace"}])
def test_delta_counts_all_nodes_since_all_are_protected(setting):
    """Also under node_add_remove: who has no training label has features and edges to protect."""
    grid = [{"hops": 1} | setting]
    assert "Warning" not in make("gap", "node", "8", grid, num_nodes=99_999)[0].uncounted[0]
    warned = make("gap", "node", "8", grid, num_nodes=100_000)[0]
    assert "1e-05 is not below 1/100000," in warned.uncounted[0]
    with pytest.raises(GraphDPError, match="1e-05 is not below 1/100000,"):
        make("gap", "node", "8", grid, "corrected", num_nodes=100_000)


@pytest.mark.parametrize(
    ("method", "level", "epsilon", "isolated", "classes"),
    [
        ("gap", "none", "inf", False, False),
        ("gap", "edge", "1", True, False),  # labels are public there
        ("gap", "node", "2", True, True),
    ],
)
def test_nodes_left_out_beforehand_are_not_counted(method, level, epsilon, isolated, classes):
    (kept,) = make(method, level, epsilon, [{"hops": 1}])
    (left,) = make(
        method, level, epsilon, [{"hops": 1}], min_class_count=1000, remove_isolated=True
    )
    more = [text for text in left.uncounted if text not in kept.uncounted]
    assert any(text.startswith("Nodes without an edge were dropped") for text in more) == isolated
    assert any("fewer than 1000 nodes" in text for text in more) == classes
    assert len(more) == isolated + classes


def test_a_plan_that_the_method_no_longer_states_is_refused():
    entries = make_entries()
    entries[0]["plan"]["mechanisms"][0]["sensitivity"]["value"] = 0.5
    with pytest.raises(GraphDPError, match="run calibrate again"):
        make("gap", "edge", "1", [{"hops": 2}], entries=entries)


def make_entries():
    entries = calibrate_cell("facebook", "gap", "edge", "1", [{"hops": 2}], [TRAIN], EDGES, "auto")
    return json.loads(json.dumps(entries))


# --- the commands ---------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path, node, edge):
    paths = []
    for name, value in (
        ("node", node.to_json()),
        ("edge", edge.to_json()),
        ("both", [node.to_json(), edge.to_json()]),
    ):
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_text(json.dumps(value))
    return paths


def test_statement_command_renders(files, node, edge, capsys):
    assert cli.main(["statement", str(files[0])]) == 0
    assert capsys.readouterr().out == render_markdown(node)
    assert cli.main(["statement", str(files[2])]) == 0
    assert capsys.readouterr().out == f"{render_markdown(node)}\n---\n\n{render_markdown(edge)}"


def test_compare_command_lists_what_differs_and_only_that(files, tmp_path, node, edge, capsys):
    changed = node.to_json()
    changed["data"]["nodes"] = 7
    changed["uncounted"].append("another thing")
    other = tmp_path / "other.json"
    other.write_text(json.dumps(changed))
    assert cli.main(["compare", str(files[0]), str(other), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"field": "data.nodes", "first": 26406, "second": 7},
        {"field": f"uncounted.{len(node.uncounted)}", "first": None, "second": "another thing"},
    ]
    assert cli.main(["compare", str(files[0]), str(other)]) == 0
    assert capsys.readouterr().out.splitlines()[:3] == [
        "data.nodes",
        f"  {files[0]}: 26406",
        f"  {other}: 7",
    ]
    assert cli.main(["compare", str(files[0]), str(files[0])]) == 0
    assert capsys.readouterr().out == "the statements are equal\n"
    # An ε that differs has its label, though that is equal in both.
    changed = node.to_json()
    place = [one["status"] for one in changed["accounting"]].index("conditional")
    entry = changed["accounting"][place]
    entry["epsilon"] = 123.5
    other.write_text(json.dumps(changed))
    assert cli.main(["compare", str(files[0]), str(other)]) == 0
    label = [entry["basis"], entry["adjacency"], f"δ = {entry['delta']:g}", entry["status"]]
    own = f" ({', '.join(label)})"
    where, first, second = capsys.readouterr().out.splitlines()
    assert where == f"accounting.{place}.epsilon"
    assert first.endswith(own) and second == f"  {other}: 123.5{own}"
    # Each has its own, where these differ.
    assert cli.main(["compare", str(files[0]), str(files[1])]) == 0
    said = capsys.readouterr().out.splitlines()
    at = said.index("accounting.0.epsilon")
    for line, one in zip(said[at + 1 : at + 3], (node, edge), strict=True):
        one = one.to_json()["accounting"][0]
        label = [one["basis"], one["adjacency"], f"δ = {one['delta']:g}", one["status"]]
        assert line.endswith(f" ({', '.join(label)})")


def test_a_graph_without_an_edge_has_no_edge_level():
    with pytest.raises(GraphDPError, match="dataset 'bare' has no edge, so level edge has nothing"):
        calibrate_cell("bare", "gap", "edge", "1", [{"hops": 1}], [40], 0, "auto", num_nodes=90)


@pytest.mark.parametrize("delta", [2, 0, math.nan, 1])
def test_a_statement_with_an_impossible_delta_is_refused(files, tmp_path, delta, capsys):
    changed = json.loads(files[0].read_text())
    changed["target"]["delta"] = delta
    other = tmp_path / "other.json"
    other.write_text(json.dumps(changed))
    assert cli.main(["statement", str(other)]) == 2
    out, said = capsys.readouterr()
    assert not out and "target.delta" in said and said.count("\n") == 1


def test_differences_reach_into_lists_and_missing_keys():
    assert differences({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}], "c": 4}) == [
        ("a.1.b", 2, 3),
        ("c", None, 4),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        ("{", "not JSON"),
        ("{}", "not a privacy statement: schema_version"),
        ('{"schema_version": 1}', "not a privacy statement: schema_version"),
    ],
)
def test_errors_are_one_line(tmp_path, capsys, content, message):
    path = tmp_path / "x.json"
    if content is not None:
        path.write_text(content)
    for command in (["statement", str(path)], ["compare", str(path), str(path)]):
        assert cli.main(command) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.startswith("graphdp: ") and error.count("\n") == 1


def test_it_answers_in_five_seconds_of_cpu_without_torch(files):
    code = (
        "import sys, time; from graphdp import cli; "
        f"cli.main(['statement', {str(files[0])!r}]); "
        "import graphdp.methods.registry, graphdp.privacy.selection; "
        "print(time.process_time(), 'torch' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    seconds, torch = result.stdout.split()[-2:]
    assert float(seconds) < 5
    assert torch == "False"


@pytest.mark.parametrize("command", ["statement", "compare"])
def test_help_has_examples(command, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([command, "--help"])
    assert stop.value.code == 0
    assert f"graphdp {command} " in capsys.readouterr().out.split("examples:")[1]


def test_a_published_split_is_said_to_depend_on_who_is_there():
    """Of claims that protect whether a node is there; its side by its id needs no such word."""

    def said(split, method="gap", **setting):
        setting |= {"hops": 1} if method == "gap" else {}
        made = make(method, "node", "8", [setting], split=split)[0]
        return [line for line in made.uncounted if "permutation" in line]

    assert len(said("shared")) == len(said("per_seed 0.5/0.25/0.25")) == 1
    assert said("shared by id") == said("shared", adjacency="node_replace") == []
    # The MLP's noise for a replaced node has an ε of one that is there or not as well.
    (line,) = said("shared", "mlp", adjacency="node_replace")
    assert line.endswith("No ε of node_add_remove counts that.")
    assert said("shared by id", "mlp", adjacency="node_replace") == []


def test_a_method_that_reads_edges_says_of_which_its_epsilon_is():
    """Else the statement of a participant would be that of a method that reads none."""
    for name in ("gap", "progap"):
        with pytest.raises(GraphDPError, match=f"{name} protects nodes and reads edges: say"):
            replace(card(name), words=Words())
        assert replace(card(name), words=Words(), reads_edges=False)
    assert replace(card("mlp"), words=Words())
