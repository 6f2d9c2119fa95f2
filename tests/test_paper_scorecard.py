"""The scorecard: ours against the paper's numbers, and the orderings that the paper claims."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from graphdp.errors import GraphDPError
from graphdp.paper import orderings, scorecard, select
from graphdp.paper import rows as tidy
from graphdp.paper.ordering_words import show_orderings
from graphdp.privacy.protection import is_level
from paper_fixture import context, synthetic_rows
from study_fixture import study as paper_study

PUBLISHED = Path(__file__).parent.parent / "config/published/gap.csv"


@pytest.fixture(scope="module")
def study():
    return context(("berkeley13", "facebook"), PUBLISHED, {"amazon": "no network"})


@pytest.fixture(scope="module")
def frame(study, tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    synthetic_rows(study).to_csv(path, index=False)
    return tidy.read_rows(path)


def line(table, **where):
    mask = np.logical_and.reduce([table[name] == value for name, value in where.items()])
    (found,) = table[mask].to_dict("records")
    return found


def test_only_the_papers_own_datasets_are_compared(frame, study):
    table = scorecard.scorecard_table(frame, study)
    ours = line(table, dataset="facebook", method="gap", level="edge", epsilon="4")
    models = frame[(frame["dataset"] == "facebook") & (frame["epsilon"] == "4")]
    best, _ = select.select_best(models)
    mean = 100 * best["test_accuracy"].mean()
    assert ours["published_mean"] == 76.3  # Table 2
    assert ours["difference"] == pytest.approx(mean - 76.3, abs=1e-9)
    assert ours["overlap"] == "no" and ours["ci_high"] < 76.3 - ours["published_ci"]
    elsewhere = line(table, dataset="berkeley13", method="gap", level="edge", epsilon="4")
    assert np.isnan(elsewhere["difference"]) and elsewhere["overlap"] == ""
    assert elsewhere["beside"] == scorecard.OTHER_DATASET
    unprinted = line(table, dataset="facebook", method="gap", level="edge", epsilon="1")
    assert unprinted["beside"] == scorecard.NOT_PRINTED


@pytest.mark.parametrize(
    ("relation", "higher", "lower", "expected"),
    [
        ("above", (70, 69, 71), (60, 59, 61), "holds"),
        ("above", (70, 65, 75), (66, 62, 70), "holds, intervals overlap"),
        ("above", (66, 62, 70), (70, 65, 75), "fails, intervals overlap"),
        ("above", (60, 59, 61), (70, 69, 71), "fails"),
        ("at_least", (66, 62, 70), (70, 65, 75), "holds"),
        ("at_least", (60, 59, 61), (70, 69, 71), "fails"),
        ("about", (70, 69, 71), (71.9, 71, 72), "holds"),
        ("about", (70, 69, 71), (72.1, 71, 73), "fails"),
        ("about", (73, 72, 74), (70, 69, 71), "fails"),
        ("above", (np.nan, np.nan, np.nan), (60, 59, 61), "missing"),
    ],
)
def test_verdicts(relation, higher, lower, expected):
    names = ("mean", "low", "high")
    values = {f"higher_{n}": v for n, v in zip(names, higher, strict=True)}
    values |= {f"lower_{n}": v for n, v in zip(names, lower, strict=True)}
    values |= {"relation": relation, "higher_n": 10, "lower_n": 5}
    assert orderings.verdict(values) == expected
    if expected != "missing":
        assert orderings.verdict(values | {"lower_n": 4}) == "too few seeds"
        assert orderings.verdict(values | {"higher_n": 2}) == "too few seeds"


@pytest.mark.parametrize("paper", ["gap", "progap"])
def test_about_as_good_without_privacy_is_as_near_as_the_paper_prints(paper):
    claims = orderings.read_orderings(PUBLISHED.with_name("orderings.csv"), paper)
    claim = claims[(claims["relation"] == "about") & (claims["level"] == "none")].iloc[0]
    printed = pd.read_csv(PUBLISHED.with_name(f"{paper}.csv"))
    table2 = printed[(printed["artefact"] == "Table 2") & (printed["level"] == "none")]
    table2 = table2.pivot(index="dataset", columns="method", values="mean")
    apart = (table2[claim["higher"]] - table2[claim["lower"]]).abs()
    assert float(claim["within"]) == pytest.approx(apart.max(), abs=1e-9)
    assert f"{apart.max():.1f}" in claim["source"]


def test_orderings_compare_the_selected_models_of_each_side(frame, study):
    table = orderings.orderings_table(frame, study)
    helps = {"claim": "the encoder helps GAP", "level": "edge", "dataset": "facebook"}
    found = line(table, **helps, epsilon="1")
    mine = frame[
        (frame["dataset"] == "facebook")
        & (frame["method"] == "gap")
        & (frame["level"] == "edge")
        & (frame["epsilon"] == "1")
    ]
    for side, layers in (("higher", 2), ("lower", 0)):
        best, _ = select.select_best(mine[mine["hp_encoder_layers"] == layers])
        assert found[f"{side}_mean"] == pytest.approx(100 * best["test_accuracy"].mean())
    assert found["verdict"] == "holds" and found["higher_n"] == found["lower_n"] == 5
    fewer = orderings.orderings_table(frame[frame["seed"] < 4], study)
    assert set(fewer["verdict"]) == {"missing", "too few seeds"}
    # The MLP reads no edge: one model, held against every ε.
    flat = table[(table["lower"] == "mlp") & (table["level"] == "edge")]
    assert set(flat[flat["dataset"] == "facebook"]["epsilon"]) == {"0.5", "1", "4"}
    assert flat[flat["dataset"] == "facebook"]["lower_mean"].nunique() == 1
    missing = table[table["verdict"] == "missing"]
    assert set(missing["dataset"]) == {"berkeley13", "facebook", "amazon"}
    assert (missing["missing_reason"] != "").all()
    assert line(table, claim="GAP above SAGE", level="edge", dataset="facebook", epsilon="1")[
        "missing_reason"
    ].startswith("SAGE-EDP: not requested")


@pytest.mark.parametrize(
    ("one", "two", "three", "expected"),
    [
        (0.60, 0.55, 0.50, "fails"),  # accuracy falls with K
        (0.60, 0.595, 0.50, "fails, intervals overlap"),  # K = 1 is the best, by a little
        (0.50, 0.60, 0.55, "holds"),
        (0.50, 0.60, 0.70, "holds"),
    ],
)
def test_one_hop_is_no_part_of_several(frame, study, one, two, three, expected):
    """K by validation among all would be K = 1 where that is the best: held against itself."""
    means = {1: one, 2: two, 3: three}
    mine = frame[
        (frame["dataset"] == "facebook") & (frame["level"] == "edge") & (frame["epsilon"] == "1")
        & (frame["method"] == "gap") & (frame["hp_hops"] == 1) & (frame["hp_encoder_layers"] == 2)
    ]  # fmt: skip
    assert len(mine) == 5
    spread = np.linspace(-0.02, 0.02, len(mine))
    rows = pd.concat(
        [
            mine.assign(
                hp_hops=hops,
                hyperparameters=mine["hyperparameters"].str.replace('"hops":1', f'"hops":{hops}'),
                val_accuracy=mean + spread,
                test_accuracy=mean + spread,
            )
            for hops, mean in means.items()
        ],
        ignore_index=True,
    )
    own = study | {"experiments": {"accuracy": [entry("gap", "edge", "1", hops=[1, 2, 3])]}}
    found = line(
        orderings.orderings_table(rows, own),
        claim="several hops above one for GAP",
        dataset="facebook",
    )
    assert found["verdict"] == expected
    assert found["lower_mean"] == pytest.approx(100 * one)
    assert found["higher_mean"] == pytest.approx(100 * max(two, three))


def entry(method, level, epsilon, **grid):
    return {"method": method, "level": level, "epsilon": [epsilon], **grid}


@pytest.mark.parametrize(
    ("higher", "lower", "shared"),
    [
        ("gap", "gap:hops=1", True),
        ("gap:hops>1", "gap:hops=2", True),
        ("gap:hops>1", "gap:hops>2", True),
        ("gap:hops>1", "gap:max_degree=10", True),
        ("gap@edge", "gap", True),
        ("gap:hops>1", "gap:hops=1", False),
        ("gap:hops=2", "gap:hops=1", False),
        ("gap@none", "gap", False),
        ("gap", "sage", False),
    ],
)
def test_sides_that_share_models_are_refused(tmp_path, higher, lower, shared):
    """The wider side's selection may be a model of the other: such a claim could not fail."""
    header = ",".join(orderings.ORDERINGS_COLUMNS)
    text = f"{header}\ngap,a claim,edge,above,{higher},{lower},accuracy,,,,,section 1\n"
    (tmp_path / "orderings.csv").write_text(text)
    if shared:
        with pytest.raises(GraphDPError, match="share models; let one exclude"):
            orderings.read_orderings(tmp_path / "orderings.csv", "gap")
    else:
        assert len(orderings.read_orderings(tmp_path / "orderings.csv", "gap")) == 1


def test_the_figure_shows_one_square_per_ordering_and_one_point_per_printed_cell(frame, study):
    figure = scorecard.scorecard_figure(frame, study)
    left, right = figure.axes
    assert len(left.get_yticks()) == 5  # of Table 2's facebook column, SAGE is not in this study
    assert len(right.lines) == len(orderings.orderings_table(frame, study))
    nothing = scorecard.scorecard_figure(frame.iloc[:0], context(datasets=()))
    texts = [text.get_text() for axes in nothing.axes for text in axes.texts]
    assert texts == ["no ordering to check"]
    # Where nothing of the paper's stands beside ours the orderings have the figure to themselves.
    others = frame[frame["dataset"] == "berkeley13"]
    (only,) = scorecard.scorecard_figure(others, study).axes
    assert len(only.lines) == len(orderings.orderings_table(others, study))


def test_each_line_of_the_figure_has_delta_and_all_else_of_its_epsilon_stands_below(frame, study):
    figure = scorecard.scorecard_figure(frame, study)
    left, right = ([text.get_text() for text in ax.get_yticklabels()] for ax in figure.axes)
    assert "facebook, GAP-EDP, ε = 4, δ = 1e-7" in left
    assert "facebook, GAP-NDP, claimed ε = 8, δ = 1e-5" in left
    assert "facebook, MLP-DP, ε = 8, δ = 1e-5" in left
    assert "facebook, GAP-∞, no privacy" in left and "facebook, MLP, ε = 0, reads no edge" in left
    assert "the encoder helps GAP\nfacebook, edge level, δ = 1e-7" in right
    assert "GAP on par with MLP-DP or better\nfacebook, node level, δ = 1e-5" in right
    # One graph is not there: of its lines there is no δ.
    assert "the encoder helps GAP\namazon, edge level" in right
    below = figure.get_supxlabel().replace("\n", " ")
    for words in (
        "adjacency edge_directed / node_add_remove",
        "GAP as published, proven (edge), refuted (node)",
        "MLP as published, conditional",
        "refuted: no guarantee",
    ):
        assert words in below
    # So where the orderings have the figure to themselves.
    only = scorecard.scorecard_figure(frame[frame["dataset"] == "berkeley13"], study)
    assert len(only.axes) == 1
    assert "GAP as published, proven (edge), refuted (node)" in only.get_supxlabel()


def test_where_an_ordering_fails_the_claims_of_both_sides_stand():
    claimed = {
        "basis": "as_published", "adjacency": "node_add_remove", "delta": 1e-5, "mean": 60.0,
    }  # fmt: skip
    sides = {
        "higher": claimed | {"status": "refuted"},
        "lower": claimed | {"status": "conditional"},
    }
    line = {f"{side}_{name}": one[name] for side, one in sides.items() for name in one}
    line |= {
        "claim": "GAP on par with MLP-DP or better", "level": "node", "dataset": "pubmed",
        "higher": "gap", "lower": "mlp", "verdict": "fails", "missing_reason": "",
    }  # fmt: skip
    lines = [line | {"epsilon": epsilon} for epsilon in ("1", "2", "4")]
    lines[2] |= {"lower_delta": 1e-6}
    (told,) = show_orderings(pd.DataFrame(lines)).cells["fails at"]
    both = "GAP-NDP: as published, node_add_remove, δ = 1e-5, refuted, no guarantee; MLP-DP: "
    assert told == (
        f"target ε 1, 2 (node level; {both}as published, node_add_remove, δ = 1e-5, conditional); "
        f"target ε 4 (node level; {both}as published, node_add_remove, δ = 1e-6, conditional)"
    )
    # What has no ε, and a number, claim nothing.
    encoder = line | {"level": "edge", "epsilon": "1", "lower": "mlp"}
    encoder |= {"higher_adjacency": "edge_directed", "higher_status": "proven"}
    (told,) = show_orderings(pd.DataFrame([encoder])).cells["fails at"]
    assert told == (
        "target ε 1 (edge level; GAP-EDP: as published, edge_directed, δ = 1e-5, proven; "
        "MLP: reads no edge)"
    )
    free = line | {"level": "none", "epsilon": "inf", "lower": "50"}
    (told,) = show_orderings(pd.DataFrame([free])).cells["fails at"]
    assert told == "no privacy"


def test_the_sides_of_an_ordering_have_the_claims_of_their_rows(frame, study):
    table = orderings.orderings_table(frame, study)
    cells = orderings.claimed_cells(table[table["claim"] == "GAP on par with MLP-DP or better"])
    assert set(cells["method"]) == {"gap", "mlp"} and set(cells["epsilon"]) == {"2", "8"}
    for cell in cells.to_dict("records"):
        of = frame[np.logical_and.reduce([frame[name] == cell[name] for name in select.CELL])]
        for name in ("epsilon_basis", "adjacency", "epsilon_status", "delta"):
            assert set(of[name]) == {cell[name]}


def test_every_papers_orderings_name_levels_and_relations_that_exist():
    path = PUBLISHED.with_name("orderings.csv")
    for paper in ("gap", "progap", "dpdgc"):
        table = orderings.read_orderings(path, paper)
        assert len(table) and all(map(is_level, table["level"]))


@pytest.mark.parametrize("paper", ["gap", "progap", "dpdgc"])
def test_every_side_of_an_ordering_is_in_its_papers_study(paper):
    """A name that no entry has would be missing for ever."""
    study = paper_study(paper)
    places = orderings.curve_places({"train": [[0.1], [0.2]], "val": [[0.1], [0.2]]})
    for claim in orderings.read_orderings(PUBLISHED.with_name("orderings.csv"), paper).to_dict(
        "records"
    ):
        entries = study.experiments.get(claim["experiment"])
        if claim["measure"] == "auc":
            entries = study.attacks[claim["experiment"]].entries
        for side in map(orderings.Side.of, (claim["higher"], claim["lower"])):
            level = side.level or claim["level"]
            found = [
                entry
                for entry in entries
                if entry.method == side.method
                # What reads no edge is at edge level what it is without privacy.
                and (entry.level == level or (side.method, level) == ("mlp", "edge"))
                and (
                    not side.name
                    or (side.name == "at" and side.value in places and True in entry.history)
                    or any(map(side.has, getattr(entry, side.name, None) or ()))
                )
            ]
            assert found or side.number is not None, (claim["claim"], side)


@pytest.mark.parametrize(
    ("here", "there", "message"),
    [
        (",above,", ",over,", "relation 'over'; use above, at_least, about"),
        (",auc,", ",recall,", "measure 'recall'; use convergence, auc"),
    ],
)
def test_an_unknown_word_is_refused(tmp_path, here, there, message):
    text = PUBLISHED.with_name("orderings.csv").read_text()
    assert here in text
    (tmp_path / "orderings.csv").write_text(text.replace(here, there, 1))
    with pytest.raises(GraphDPError, match=message):
        orderings.read_orderings(tmp_path / "orderings.csv", "gap")
