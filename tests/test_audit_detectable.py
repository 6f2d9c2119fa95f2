"""How little noise an audit misses: measured at the generator, shipped, and shown."""

import re
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from ensemble_fixture import one_thread  # noqa: F401
from graphdp.audit import detectable, outcomes
from graphdp.audit.claims import DRAWS, claims, get, run
from graphdp.audit.detectable import FACTORS, measure
from graphdp.errors import GraphDPError
from graphdp.noise import GridNoise

RELEASE = "dpdgc-release-edge-eps4"
LINES = detectable.shipped()
TO_MEASURE = [name for name, claim in claims().items() if not detectable.untested(claim)]


def spread(name):
    sums = torch.zeros(1, 20_000, dtype=torch.float64)
    GridNoise([("detectable", name)]).add(sums, torch.tensor([4.0], dtype=torch.float64))
    return float(sums.std())


def test_the_noise_is_scaled_within_the_context_alone():
    """Standard deviations of 20,000 draws: within 3 % but for a chance below 1e-8."""
    add = GridNoise.add
    with detectable.gaussian(0.25):
        assert spread("within") == pytest.approx(1.0, rel=0.03)
    assert spread("after") == pytest.approx(4.0, rel=0.03) and GridNoise.add is add
    with pytest.raises(RuntimeError), detectable.gaussian(0.5):
        raise RuntimeError
    assert GridNoise.add is add
    with (
        pytest.raises(GraphDPError, match="add of GridNoise drew nothing"),
        detectable.gaussian(0.5),
    ):
        pass


def test_less_noise_is_drawn_than_is_accounted_and_only_that():
    """The plan, its calibration and the claim stay; no check of the stages sees a difference."""
    claim = get(RELEASE)
    whole = run(claim, 20_000)
    with detectable.gaussian(0.5):
        half = run(claim, 20_000)
    for name in ("noise_multiplier", "claimed_epsilon", "draws", "analysis"):
        assert half[name] == whole[name]
    assert half["bound"]["mu"] == pytest.approx(2 * whole["bound"]["mu"], rel=0.1)
    assert whole["verdict"] != "refuted" and half["verdict"] == "refuted"


@pytest.mark.slow
def test_a_factor_is_quiet_and_the_next_one_is_caught():
    claim, draws = get("one-run-mlp-eps4"), 100
    line = measure(claim, draws)
    assert line["quiet_at"] / line["caught_at"] == pytest.approx(2 ** (1 / 4), abs=1e-3)
    # One run catches half of the noise, and not all that lies above.
    assert 0.5 <= line["caught_at"] < 0.75
    assert line["bound_quiet"] <= 4 < line["bound_caught"]


@pytest.mark.parametrize("first", [*range(1, len(FACTORS) + 1)])
def test_the_search_ends_at_the_first_factor_that_is_caught(first):
    """Whichever it is, also none; in 8 runs at most, in 2 if it is the first."""
    place = []

    @contextmanager
    def scaled(factor):
        place.append(FACTORS.index(factor))
        yield

    def attack(claim, calibration, draws, seed):
        bound, details = get(RELEASE).attack(claim, calibration, 100, seed)
        return replace(bound, epsilon=5.0 if place[-1] >= first else 3.0), details

    line = measure(replace(get(RELEASE), attack=attack, scaled=scaled), 100)
    assert line["quiet_at"] == round(FACTORS[first - 1], 4)
    caught = round(FACTORS[first], 4) if first < len(FACTORS) else None
    assert line["caught_at"] == caught and (line["bound_caught"] is None) == (caught is None)
    assert len(place) <= 8 and len(set(place)) == len(place) and (first > 1 or len(place) == 2)


def test_what_has_no_factor_says_why():
    for name, reason in (
        ("gap-edge-undirected-published-k1-eps4", "not applicable: must exceed its claim"),
        ("noise_lattice_mlp", "none: does not test the scale"),
    ):
        assert detectable.factor(name, claims(), LINES) == reason
        with pytest.raises(GraphDPError, match=reason):
            measure(get(name), 100)
    assert detectable.factor("one-run-mlp-eps4", claims(), LINES[:0]) == "not measured"
    quiet = pd.DataFrame([{"claim": "one-run-mlp-eps4", "quiet_at": 0.125, "caught_at": None}])
    assert "quiet at 0.12 too" in detectable.factor(
        "one-run-mlp-eps4", claims(), quiet.set_index("claim")
    )
    # Refuted as it is: there is nothing to be measured.
    wrong = replace(get("gap-edge-undirected-published-k1-eps4"), expected="below")
    with pytest.raises(GraphDPError, match="with all of its noise"):
        measure(wrong, 20_000)


def test_every_claim_that_must_stay_quiet_has_its_factor():
    """`python -m graphdp.audit.detectable` measures what is missing here."""
    assert sorted(LINES.index) == sorted(TO_MEASURE)
    for name, line in LINES.iterrows():
        claim = get(name)
        assert (line["target_epsilon"], line["delta"]) == (claim.target_epsilon, claim.delta)
        assert line["share"] == claim.share and 60_000 <= line["draws"] <= DRAWS
        for place in ("quiet_at", "caught_at"):
            assert np.isnan(line[place]) or np.abs(np.array(FACTORS) - line[place]).min() < 1e-4


def test_half_of_the_noise_of_every_phase_that_is_audited_is_caught():
    """By one audit at least: DP-Emb's own gradients, for one, do not show it. In whole plans of
    ProGAP and DPA-GNN as well, with half of all noise."""
    caught = {}
    for name, line in LINES.iterrows():
        plan = get(name).plan
        phases = {mechanism.phase for mechanism in plan.mechanisms}
        place = plan.method, plan.level, *phases
        if len(phases) > 1:
            if plan.method not in ("progap", "dpa", "dpaofficial"):
                continue
            place = plan.method, plan.level, "all"
        caught[place] = max(caught.get(place, 0), np.nan_to_num(line["caught_at"]))
    assert {place for place, factor in caught.items() if factor < 0.5} == set()
    for method, level, phase in (
        *((method, "node", "classifier") for method in ("mlp", "naive", "naiveofficial")),
        ("gap", "edge", "aggregation"),
        ("gap", "node", "aggregation"),
        ("gap", "node", "classifier"),
        ("gap", "node", "encoder"),
        ("progap", "edge", "aggregation"),
        ("progap", "node", "stage0"),
        ("progap", "node", "all"),
        ("dpa", "edge", "all"),
        ("dpa", "node", "all"),
        ("dpaofficial", "node", "all"),
        ("sage", "node", "classifier"),
        ("sage", "node", "aggregation"),
        *(("dpdgc", level, "classifier") for level in ("node", "k1")),
        *(("dpdgc", level, phase) for level in ("edge", "node", "k1", "k5")
          for phase in ("embedding", "release")),
    ):  # fmt: skip
        assert caught[method, level, phase] >= 0.5


def test_the_documentation_has_the_factors_that_are_shipped():
    text = (Path(__file__).parent.parent / "docs/audits.md").read_text()
    found = re.findall(
        r"^\| `([a-z0-9_-]+)` \| ([0-9.]+) \| ([0-9.]+|none) \| ", text, re.MULTILINE
    )
    assert dict((name, rest) for name, *rest in found) == {
        name: [f"{line['quiet_at']:.2g}", f"{line['caught_at']:.2g}".replace("nan", "none")]
        for name, line in LINES.iterrows()
    }


def test_table_and_figure_show_the_factors(tmp_path):
    names = ("one-run-mlp-eps4", "gap-edge-undirected-published-k1-eps4", "noise_lattice_mlp")
    result = run(get(RELEASE), 1000)
    results = [result | {"claim": name, "family": name} for name in names]
    table = outcomes.tidy(results).set_index("claim")["detectable_factor"]
    quiet, caught = LINES.loc["one-run-mlp-eps4", ["quiet_at", "caught_at"]]
    assert table["one-run-mlp-eps4"] == f"{quiet:.2g}; caught at {caught:.2g}"
    assert table["noise_lattice_mlp"] == "none: does not test the scale"
    paths = {kind: tmp_path / f"audit.{kind}" for kind in ("csv", "md", "tex", "svg", "png")}
    outcomes.write(results, **paths)
    for kind in ("csv", "md", "tex"):
        text = paths[kind].read_text()
        assert "detectable" in text and "not applicable: must exceed its claim" in text
    shown = [text.get_text() for text in outcomes.draw(results).axes[0].texts]
    assert sum(f"sees {caught:.2g} σ" in text for text in shown) == 1
    assert sum("sees" in text for text in shown) == 1


@pytest.mark.parametrize(("bound", "bars", "said"), [(0.0, 0, "arrow: below"), (0.3, 1, "bar)")])
def test_a_bound_below_the_axis_has_no_bar(bound, bars, said):
    """Of 0 neither: it would look as one at the axis' end."""
    result = run(get(RELEASE), 1000) | {"lower_bound": bound, "claimed_epsilon": 0.5}
    (axes,) = outcomes.draw([result]).axes
    bar = [line for line in axes.get_lines() if len(line.get_xdata()) == 2]
    assert [line.get_xdata()[1] for line in bar] == [bound] * bars
    assert said in axes.get_xlabel() and axes.get_xlim()[0] < 0.3


@pytest.mark.alike
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["gap-edge-directed-k1-eps4", "dpdgc-release-k5-eps4", "one-run-classifier-eps4"]
)
def test_the_shipped_factors_are_measured_again(name):
    """The same streams: other processors may move a bound that lies at its claim by a step."""
    line = measure(get(name), DRAWS)
    ratio = line["quiet_at"] / LINES.loc[name, "quiet_at"]
    assert 0.83 < ratio < 1.2


def test_the_command_adds_a_line_and_keeps_the_others(tmp_path, monkeypatch, capsys):
    path = tmp_path / "detectable.csv"
    monkeypatch.setattr(detectable, "FILE", path)
    LINES[LINES["claim"] == RELEASE].to_csv(path, index=False)
    monkeypatch.setattr(
        detectable, "shipped", lambda: pd.read_csv(path).set_index("claim", drop=False)
    )
    detectable.main(["dpdgc-release-k1-eps4"])
    found = pd.read_csv(path)
    assert sorted(found["claim"]) == ["dpdgc-release-edge-eps4", "dpdgc-release-k1-eps4"]
    assert "dpdgc-release-k1-eps4: quiet at" in capsys.readouterr().out
    pd.testing.assert_frame_equal(
        found[found["claim"] == RELEASE].reset_index(drop=True),
        LINES[LINES["claim"] == RELEASE].reset_index(drop=True),
    )
