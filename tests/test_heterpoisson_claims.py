"""HeterPoisson's claims line by line: nodes without a label, settings, splits; and what no input
may do to a run."""

import json
from functools import partial

import numpy as np
import pytest
import torch

from graphdp import cli, cli_calibrate
from graphdp.errors import GraphDPError
from graphdp.methods.heterpoisson.bags import Bags
from graphdp.methods.heterpoisson.network import (
    CONVOLUTIONS,
    Convolution,
    DenseFeatures,
    Model,
    SparseFeatures,
    features_of,
)
from graphdp.methods.heterpoisson.plan import (
    IT_TRAINS,
    corrected_analyses,
    heterpoisson_plan,
    published_analyses,
)
from graphdp.methods.registry import analyses, card
from graphdp.privacy import accounting, calibration, selection
from graphdp.privacy.composition import epsilon_at, parts
from graphdp.privacy.statement import cell_statements
from graphdp.privacy.statement_page import render_markdown
from graphdp.workflow.calibrations import calibrate_cell

TRAIN, DELTA = 2000, 1e-5
GIVEN = {"batch_size": 200, "epochs": 1, "max_grad_norm": 1.0, "num_neighbors": 2}
PUBLIC = {"degree_bound": "public_candidates", "max_degree": 6}
FLOAT = torch.empty(0)


def lines(make, **more):
    return {plan.adjacency: plan for plan in make("node", GIVEN | more, TRAIN)}


# --- nodes without a training label ---------------------------------------------------------------


@pytest.mark.parametrize("overlap", ["kept", "dropped"])
@pytest.mark.parametrize("public", [{"max_degree": 12}, PUBLIC])
def test_nodes_without_a_label_have_a_line_under_every_adjacency(overlap, public):
    """With overlaps dropped their ε may be the larger one (here, at q = .5): never left unsaid."""
    found = lines(corrected_analyses, overlap=overlap, batch_size=1000, **public)
    held = [name for name, plan in found.items() if plan.status != "refuted"]
    for name in [name for name in held if not name.endswith("_peripheral")]:
        own, other = found[name], found[f"{name}_peripheral"]
        assert (IT_TRAINS in own.assumptions) == (overlap == "dropped")
        assert IT_TRAINS not in other.assumptions and not other.mechanisms[0].labelled
        epsilons = [accounting.epsilon(plan, 4.0, DELTA) for plan in (own, other)]
        assert (epsilons[1] > epsilons[0]) == (overlap == "dropped")
    assert len(held) == (4 if public is PUBLIC else 2)


def test_in_the_inductive_setting_the_weights_do_not_depend_on_nodes_without_a_label():
    for make, more in (
        (corrected_analyses, {"max_degree": 12}),
        (corrected_analyses, PUBLIC),
        (published_analyses, {}),
    ):
        for setting in ("transductive", "inductive"):
            found = lines(make, setting=setting, **more)
            (first, *_) = found.values()
            for name, plan in found.items():
                if name.endswith("_peripheral"):
                    assert (epsilon_at(plan, first, 4.0, DELTA) == 0) == (setting == "inductive")
                    assert plan.composition.is_empty == (setting == "inductive")
    of_training_nodes = heterpoisson_plan("node", TRAIN, **GIVEN, setting="inductive")
    assert of_training_nodes == heterpoisson_plan("node", TRAIN, **GIVEN)
    with pytest.raises(GraphDPError, match="choose transductive or inductive"):
        heterpoisson_plan("node", TRAIN, **GIVEN, setting="both")


# --- statements -----------------------------------------------------------------------------------


def statement_of(method, split="shared by id", **more):
    its = card(method)
    full = its.settings("node")(**(GIVEN | more)).model_dump(exclude_none=True)
    tried = [its.plan("node", full)]
    entries = calibrate_cell(
        "pubmed", method, "node", "2", tried, [TRAIN], 88648, DELTA, "published"
    )
    entries = json.loads(json.dumps(entries))
    (made,) = cell_statements(
        entries, "pubmed", "ab" * 32, 19717, 88648, method, "last", tried, True, 1,
        split=split, analyses=partial(analyses, method, "node"), words=its.words,
    )  # fmt: skip
    return made


@pytest.mark.slow
def test_nodes_added_or_removed_need_a_split_that_moves_no_other():
    with pytest.raises(GraphDPError, match="node_add_remove does not hold; set split_sides: by_id"):
        statement_of("heterpoisson", "shared", **PUBLIC)
    made = statement_of("heterpoisson", **PUBLIC, overlap="dropped", batch_size=1000)
    told = {line.adjacency: line for line in made.accounting}
    assert list(told)[:2] == ["node_add_remove", "node_add_remove_peripheral"]
    assert any("split_sides: by_id" in one for one in made.accounting[0].assumptions)
    assert 2 < told["node_add_remove_peripheral"].epsilon < 4
    statement_of(
        "heterpoisson", "shared", max_degree=3
    )  # of a participant the graph and its split are fixed


def test_statements_say_whom_a_prediction_reads():
    made = statement_of("heterpoisson", setting="inductive", max_degree=3)
    assert "Transductive and inductive alike" in made.inference_privacy
    assert "which no ε covers" in made.inference_privacy
    (predictions,) = [one for one in made.releases if one.what == "predictions"]
    assert not predictions.covered and "neighbours without noise" in predictions.why
    told = {line.adjacency: line for line in made.accounting}
    assert told["participant_peripheral"].epsilon == 0


def test_statements_of_laplace_noise_say_nothing_of_what_is_drawn():
    """W is an exponential number of numpy, and the grid of the noise follows it."""
    made = statement_of("heterpoissonsml", max_degree=3)
    assert made.rng.drawn_epsilon is None and made.rng.drawn_delta is None
    assert made.rng.note.startswith("Of symmetric Laplace noise the Gaussian numbers alone")
    gaussian = statement_of("heterpoisson", max_degree=3).rng
    assert gaussian.drawn_epsilon > 2 and "Laplace" not in gaussian.note
    assert "nothing is said of what is drawn" in render_markdown(made)


# --- the random search ----------------------------------------------------------------------------


def test_a_random_search_charges_for_what_its_curves_leave_out(monkeypatch):
    """ε solves ε = f(δ - (1 + e^ε) E[K] η), f the ε of the curves alone and η of all rounds."""
    plans = [
        heterpoisson_plan("node", TRAIN, **(GIVEN | {"num_neighbors": m}), max_degree=8)
        for m in (1, 2)
    ]
    models = [parts(plan, plan, 4.0) for plan in plans]
    (term,) = plans[0].composition.terms
    assert term.unfollowed == 10 * 2e-17  # two tails of 1e-17 in each of ten rounds
    charged = selection.search_epsilon(models, 3.0, DELTA)
    missed = 1e-7
    monkeypatch.setattr(type(term), "unfollowed", 0.0)
    alone = selection.search_epsilon(models, 3.0, DELTA)
    left = DELTA - (1 + np.exp(charged)) * 3 * 10 * 2e-17
    assert alone < charged and charged >= selection.search_epsilon(models, 3.0, left)
    left = DELTA - (1 + np.exp(1.02 * alone)) * 3 * missed
    much = selection.search_epsilon(models, 3.0, left)
    monkeypatch.setattr(type(term), "unfollowed", missed)
    found = selection.search_epsilon(models, 3.0, DELTA)
    assert 1.001 * alone < found == pytest.approx(much, rel=5e-3)
    monkeypatch.setattr(type(term), "unfollowed", DELTA)
    assert selection.search_epsilon(models, 3.0, DELTA) == np.inf


def test_a_search_by_quadrature_says_so():
    its, entries = card("heterpoisson"), []
    tried = [
        its.plan(
            "node",
            its.settings("node")(**(GIVEN | {"num_neighbors": m}), max_degree=4).model_dump(
                exclude_none=True
            ),
        )
        for m in (1, 2)
    ]
    entries = calibrate_cell(
        "g", "heterpoisson", "node", "2", tried, [TRAIN], 9000, DELTA, "published"
    )
    entries = json.loads(json.dumps(entries))
    (made, _) = cell_statements(
        entries, "g", "ab" * 32, 3000, 9000, "heterpoisson", "last", tried, True, 1,
        analyses=partial(analyses, "heterpoisson", "node"), words=its.words,
    )  # fmt: skip
    for entry in made.selection.entries:
        told = any("no certified bound" in one for one in entry.assumptions)
        assert told == (entry.how == "random_search")


# --- no input aborts a run, and none enters with more than the clip -------------------------------


@pytest.mark.parametrize("convolution", CONVOLUTIONS)
@pytest.mark.parametrize("width", [5, 1100])
def test_whatever_the_features_and_weights_every_gradient_is_finite_and_clipped(convolution, width):
    """Extreme features and weights: squares and products leave float32 on either side. Without the
    norms in float64 and the rows left out, NaN or more than the clip gets into the sum."""
    rng = np.random.default_rng(width)
    sizes, nodes = rng.integers(0, 6, 8), 12
    starts = np.concatenate([[0], np.cumsum(sizes)])
    bags = Bags(np.arange(8), starts, rng.integers(0, nodes, starts[-1]))
    labels = torch.tensor(rng.integers(0, 3, nodes))
    shape, left_out = Convolution(width, 11, 3, convolution), 0
    for scale in (1.0, 1e-20, 1e10, 1e20, 3e37):
        values = torch.tensor(shape.initial(rng) * scale).clamp(-3e38, 3e38).float()
        for trial in range(4):
            x = rng.choice([1e12, -1e12, 1e-30, 1e6, 0.0], (nodes, width)).astype(np.float32)
            x = np.full_like(x, 1e12) if trial == 0 else x
            model = Model(shape, features_of(x, FLOAT), values)
            for i in range(len(sizes)):
                total = torch.zeros_like(values)
                model.add_clipped(bags.part(i, i + 1), labels, total, 0.5)
                assert torch.isfinite(total).all()
                assert float(total.double().norm()) <= 0.5 * (1 + 1e-5)
                left_out += not total.any()
    assert left_out  # of some the squares were beyond float32, or the scores no numbers


@pytest.mark.parametrize("kind", [DenseFeatures, SparseFeatures])
@pytest.mark.parametrize("wrong", [2e12, np.nan, -np.inf])
def test_features_beyond_their_bound_are_refused(kind, wrong):
    from scipy import sparse

    x = np.zeros((4, 3), np.float32)
    x[2, 1] = wrong
    with pytest.raises(GraphDPError, match=r"finite and at most 1e\+12: rescale"):
        kind(sparse.csr_matrix(x), FLOAT)


def test_no_data_decides_between_dense_and_sparse_sums():
    """How many features are zero is private: their number is not."""
    from scipy import sparse

    for width, kind in ((1023, DenseFeatures), (1024, SparseFeatures)):
        for share in (0.0, 0.01, 1.0):
            x = (np.random.default_rng(0).random((3, width)) < share).astype(np.float32)
            assert type(features_of(x, FLOAT)) is kind
            assert type(features_of(sparse.csr_matrix(x), FLOAT)) is kind


# --- the command line -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "more", ["--max-degree 14", "--max-degree 14 --degree-bound public_candidates"]
)
def test_the_rule_of_more_noise_is_left_out_by_its_sketch(more, capsys, monkeypatch):
    """The answer is that of both rules calibrated in full, of which one is now enough."""
    words = (
        f"calibrate heterpoisson --level node --epsilon 2 --delta {DELTA} --train-nodes {TRAIN} "
        f"--batch-size 200 --epochs 1 --num-neighbors 2 {more} --json"
    )
    asked, noise = [], {}
    real = calibration.calibrate
    monkeypatch.setattr(
        cli_calibrate,
        "calibrate",
        lambda plan, *rest, **named: asked.append(plan) or real(plan, *rest, **named),
    )
    for rule in ("", "--overlap kept", "--overlap dropped"):
        assert cli.main(f"{words} {rule}".split()) == 0
        noise[rule] = json.loads(capsys.readouterr().out)["noise_multiplier"]
        assert len(asked) == 1
        asked.clear()
    assert noise[""] == min(noise["--overlap kept"], noise["--overlap dropped"])


def test_a_random_search_charges_for_what_every_trial_leaves_out(monkeypatch):
    plan = heterpoisson_plan("node", TRAIN, **(GIVEN | {"num_neighbors": 1}), max_degree=8)
    models, missed = [parts(plan, plan, 4.0)], 1e-7
    (term,) = plan.composition.terms
    monkeypatch.setattr(type(term), "unfollowed", missed)
    found = selection.search_epsilon(models, 3.0, DELTA)
    monkeypatch.setattr(type(term), "unfollowed", 0.0)
    left = DELTA - (1 + np.exp(found)) * 3 * missed
    assert 0 < left < 0.95 * DELTA
    assert 0 <= found / selection.search_epsilon(models, 3.0, left) - 1 < 1e-4
