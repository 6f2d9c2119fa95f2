"""The registry of audits, their outcomes, and the table and figure of them."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from conftest import part_of
from ensemble_fixture import one_thread  # noqa: F401
from graphdp import seals
from graphdp.audit import claims, training_claims
from graphdp.audit import outcomes as report
from graphdp.audit.claims import get, meets, run, verdict
from graphdp.errors import GraphDPError
from graphdp.privacy.accounting import gaussian_epsilon

ROOT = Path(__file__).parent.parent
CLAIMS = claims.claims()


def test_the_registry_holds_what_is_to_be_audited():
    expected = {name: claim.expected for name, claim in CLAIMS.items()}
    for epsilon in (1, 2, 4, 8):
        for hops in (1, 2):
            assert expected[f"gap-node-common-neighbours-k{hops}-eps{epsilon}"] == "exceeds"
    assert expected["gap-edge-directed-k1-eps4"] == "tight"
    assert expected["gap-edge-undirected-published-k1-eps4"] == "exceeds"
    assert expected["gap-edge-undirected-corrected-k1-eps4"] == "below"
    assert expected["gap-node-participant-k2-eps4"] == "below"
    assert expected["gap-node-all-terms-k1-eps4"] == "exceeds"
    assert expected["gap-node-all-terms-participant-k1-eps8"] == "tight"
    assert expected["sage-exact-participant-eps4"] == "below"
    assert expected["naiveofficial-epochs-eps1"] == "below"
    for name in ("shuffled", "last-batch"):
        assert expected[f"naiveofficial-{name}-eps2"] == "exceeds"
    for name in ("encoder", "classifier", "mlp", "naive", "progap-stage0"):
        assert expected[f"canary-{name}-eps4"] == "below"
    assert expected["one-run-mlp-eps4"] == "below" and training_claims._CANARIES >= 4000
    for unit in ("edge", "node", "k1", "k5"):
        assert expected[f"dpdgc-release-{unit}-eps4"] == "tight"
        assert expected[f"dpdgc-training-{unit}-eps4"] == "below"
        assert expected[f"dpdgc-rounds-{unit}-eps4"] == "below"
    for name in ("release-edge-eps1", "release-node-eps4", "release-k1-eps4", "release-k5-eps4",
                 "training-node-eps4", "training-k25-eps4", "whole-k1-eps16"):  # fmt: skip
        assert expected[f"dpdgcofficial-{name}"] == "exceeds"
    for name, claim in CLAIMS.items():
        assert name == claim.name and re.fullmatch(r"[a-z0-9_-]+", name)
        assert claim.expected in claims.EXPECTED
        # What is expected to be exceeded is either refuted or read under another adjacency.
        if claim.expected == "exceeds":
            assert claim.plan.status == "refuted" or claim.plan.adjacency != claim.adjacency
        else:
            assert claim.plan.status != "refuted" and claim.plan.adjacency == claim.adjacency


def test_claimed_epsilons_are_those_of_the_plans():
    """Published: the target. One undirected edge at the same noise: μ is √2 as large."""
    one = run(get("gap-edge-undirected-corrected-k1-eps4"), draws=100)
    assert one["claimed_epsilon"] == pytest.approx(
        gaussian_epsilon(math.sqrt(2) / one["noise_multiplier"], one["delta"]), rel=1e-9
    )
    one = run(get("gap-edge-undirected-published-k1-eps4"), draws=100)
    assert one["claimed_epsilon"] == pytest.approx(4, rel=1e-4) and one["claimed_epsilon"] <= 4
    assert one["claimed_adjacency"] == "edge_directed" and one["adjacency"] == "edge_undirected"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "gap-edge-directed-k1-eps4",
        "gap-edge-directed-k2-eps4",
        "gap-edge-undirected-published-k1-eps4",
        "gap-edge-undirected-corrected-k1-eps4",
        "gap-node-own-row-k1-eps1",
        "gap-node-common-neighbours-k1-eps1",
    ],
)
def test_outcomes_are_as_expected(name):
    result = run(get(name), draws=60_000)
    assert result["as_expected"], (result["claimed_epsilon"], result["lower_bound"])
    assert result["confidence"] == 0.95 and result["failure_probability"] == pytest.approx(0.05)
    assert run(get(name), draws=1000, seed=5) == run(get(name), draws=1000, seed=5)


@pytest.mark.slow
def test_no_construction_exceeds_the_participant_claim():
    result = run(get("gap-node-participant-k1-eps4"), draws=10_000)
    found = result["details"]["constructions"]
    assert len(found) >= 20 and max(found.values()) == result["lower_bound"]
    assert result["verdict"] != "refuted" and result["as_expected"]
    # The attack has teeth: where √D is reached it comes near.
    assert result["lower_bound"] > 1


def test_the_parts_are_all_claims_once():
    parts = [part_of(CLAIMS, f"{first}/3") for first in (1, 2, 3)]
    assert sorted(name for part in parts for name in part) == sorted(CLAIMS)
    assert part_of(CLAIMS, "1/1") == list(CLAIMS)
    with pytest.raises(pytest.UsageError, match="give one such as 2/3"):
        part_of(CLAIMS, "4/3")


@pytest.mark.slow
@pytest.mark.parametrize("name", part_of(CLAIMS, os.environ.get("GRAPHDP_CLAIMS")))
def test_every_claim_comes_out_as_expected(name):
    # In full it is a job of `snakemake audit`. Fewer runs tell too much as well as more do, and of
    # noise on a lattice 450 show what 1,500 do, up to the height of the bound.
    few = get(name).expected == "below" or name.startswith("noise_lattice_")
    draws = 60_000 if few else claims.DRAWS
    assert run(get(name), draws=draws)["as_expected"]


@pytest.mark.parametrize(
    ("claimed", "lower", "found"),
    [(4, 4.01, "refuted"), (4, 4.0, "tight"), (4, 3.4, "tight"), (4, 3.39, "consistent")],
)
def test_verdicts(claimed, lower, found):
    assert verdict(claimed, lower) == found
    assert meets("exceeds", found) == (found == "refuted")
    assert meets("below", found) == (found != "refuted")
    assert meets("tight", found) == (found == "tight")


def test_an_unknown_claim_is_one_clear_line():
    with pytest.raises(
        GraphDPError, match=r"no audit of a claim 'xyz'; there are \d+, such as .*/audit\.py"
    ):
        get("xyz")
    with pytest.raises(
        GraphDPError, match=r"did you mean gap-edge-directed-k1-eps4 or .*\?$"
    ) as no:
        get("gap-edge-direct-k1-eps4")
    assert len(str(no.value)) < 200


def test_the_registry_needs_no_torch():
    code = (
        "import sys; from graphdp.audit import claims, outcomes;"
        "claims.get('gap-node-participant-k1-eps4');"
        "assert not {'torch', 'snakemake'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.fixture(scope="module")
def results():
    names = (
        "gap-edge-directed-k1-eps4",
        "gap-edge-undirected-published-k1-eps4",
        "gap-node-own-row-k1-eps8",
    )
    found = [run(get(name), draws=2000) for name in names]
    # One that did not come out as it must.
    return [*found, found[1] | {"verdict": "consistent", "as_expected": False, "lower_bound": 3.0}]


def test_table_and_figure_say_what_each_epsilon_is(results, tmp_path):
    paths = {kind: tmp_path / f"audit.{kind}" for kind in ("csv", "md", "tex", "svg", "png")}
    report.write(results, **paths)
    assert all(path.stat().st_size > 500 for path in paths.values())
    table = pd.read_csv(paths["csv"])
    assert table["claim"].tolist() == [result["claim"] for result in results]
    assert (
        not table[["basis", "adjacency", "delta", "status", "failure_probability"]]
        .isna()
        .any(axis=None)
    )
    text = paths["md"].read_text()
    assert "ε = 4 (edge level, as published, edge_directed, δ = 1e-6; proven)" in text
    assert "claimed ε = 8 (node level, as published, node_add_remove, δ = 1e-5; refuted" in text
    assert "UNEXPECTED" in text and text.count("95 %") >= len(results)
    again = tmp_path / "again.svg"
    report.write(results, **paths | {"svg": again})
    assert again.read_bytes() == paths["svg"].read_bytes()


@pytest.mark.slow
def test_no_label_of_the_whole_figure_is_cut(results):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    lines = [
        results[0]
        | {"claim": claim.name, "family": claim.family, "title": claim.title, "delta": claim.delta}
        | {"basis": claim.plan.basis, "status": claim.plan.status}
        | {"claimed_adjacency": claim.plan.adjacency, "adjacency": claim.adjacency}
        | {"claimed_epsilon": claim.target_epsilon}
        | {"lower_bound": 3 * claim.target_epsilon, "as_expected": claim.target_epsilon > 8}
        for claim in CLAIMS.values()
    ]
    figure = report.draw(lines)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    (axes,) = figure.axes
    texts = [text for text in (*axes.texts, *axes.get_yticklabels()) if text.get_text()]
    assert len(texts) > 2 * len(CLAIMS)
    width = figure.bbox.width
    for text in texts:
        box = text.get_window_extent(canvas.get_renderer())
        assert box.x0 >= 0 and box.x1 <= width, text.get_text()
        if text.get_text().startswith("≥"):  # beside a bar, and not across the frame
            assert box.x1 <= axes.bbox.x1, text.get_text()
    # A figure of some screens: its axis is numbered, and its colours are named, at both ends.
    assert {label.get_window_extent().y0 > axes.bbox.y1 for label in _numbers(axes)} == {
        True,
        False,
    }
    tops = [legend.get_window_extent().y0 > axes.bbox.y1 for legend in figure.legends]
    assert sorted(tops) == [False, True]
    # An ε is never without its adjacency and status: in the heading, or else on the line.
    shown = " ".join(text.get_text() for text in texts)
    for claim in CLAIMS.values():
        assert claim.plan.adjacency in shown
    assert "one entry of A, edge_directed, proven, δ = 1e-6" in shown


def _numbers(axes):
    """The labels of ε that are drawn, of both ends."""
    ticks = axes.xaxis.get_major_ticks()
    labels = [label for tick in ticks for label in (tick.label1, tick.label2)]
    return [label for label in labels if label.get_visible() and label.get_text()]


def test_proven_does_not_stand_over_a_claim_that_is_read_for_other_worlds(results):
    shown = {text.get_text() for text in report.draw(results).axes[0].texts}
    (directed,) = (text for text in shown if text.startswith("GAP, edge level, directed edge"))
    (undirected,) = (text for text in shown if text.startswith("GAP, edge level, undirected edge"))
    assert directed.endswith("(ε as published, proven for edge_directed)")
    assert undirected.endswith("proven for edge_directed alone, read here for edge_undirected)")


def test_unexpected_outcomes_are_one_clear_line(results):
    # With so few runs the others may come out otherwise.
    fine = [result | {"as_expected": True} for result in results[:-1]]
    report.check(fine)
    with pytest.raises(GraphDPError, match=r"1 of 4 audits .* UNEXPECTED: gap-edge-undir") as e:
        report.check([*fine, results[-1]])
    assert "bound 3, claimed 4, must exceed the claim" in str(e.value) and "\n" not in str(e.value)


@pytest.mark.slow
def test_the_rule_fails_on_an_unexpected_outcome_and_keeps_table_and_figure(
    results, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name in ("Snakefile", "rules", "workflow", "profiles", "config", "envs"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    folder = Path("results/audit")
    folder.mkdir(parents=True)

    def put(name, result):
        path = folder / f"{name}.json"
        path.write_text(json.dumps(result | {"claim": name}))
        seals.write(path)

    for name in CLAIMS:
        put(name, results[0] | {"as_expected": True})

    def audit():
        return subprocess.run(
            # Only the outcomes' ages count: they were not made by this workflow.
            [sys.executable, "-m", "snakemake", "audit", "--cores=1", "--rerun-triggers=mtime"],
            env=os.environ | {"PYTHONPATH": str(tmp_path / "workflow")},
            capture_output=True,
            text=True,
            timeout=300,
        )

    passed = audit()
    assert passed.returncode == 0, passed.stderr[-3000:]
    put(name, results[-1])
    failed = audit()
    assert failed.returncode != 0
    assert f"error: 1 of {len(CLAIMS)} audits came out UNEXPECTED: {name}" in failed.stderr
    assert "UNEXPECTED" in (folder / "audit.md").read_text()
    assert (folder / "audit.png").exists()


def test_records_are_json_and_others_are_refused(results, tmp_path):
    path = tmp_path / "one.json"
    path.write_text(json.dumps(results[0], allow_nan=False))
    assert report.read([path]) == [results[0]]
    path.write_text("{}")
    with pytest.raises(GraphDPError, match="no audit result"):
        report.read([path])
