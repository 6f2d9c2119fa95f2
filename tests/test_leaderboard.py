"""The leaderboard: gains over the network that reads no edge, ranks, and what its figure shows."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from graphdp.errors import GraphDPError
from graphdp.paper import leaderboard, printing, rows
from graphdp.rng import generator
from paper_fixture import context, synthetic_rows

CELL = ["dataset", "method", "level", "epsilon"]
EDGE, NODE = ["2", "4", "16"], ["2", "8"]
#: Under one promise, which here all of them keep.
PROMISE = {"edge": ("edge_undirected", "proven"), "node": ("participant", "conditional")}


@pytest.fixture
def study():
    found = context(datasets=("pubmed",))
    entries = [
        {"method": method, "level": level, "epsilon": epsilons}
        for method in ("gap", "progap")
        for level, epsilons in (("none", ["inf"]), ("edge", EDGE), ("node", NODE))
    ]
    entries += [
        {"method": method, "level": level, "epsilon": epsilons}
        for method in ("mlp", "naive")
        for level, epsilons in (("none", ["inf"]), ("node", NODE))
    ]
    hops = {"hops": [1, 2], "depth": [1, 2]}
    for entry in entries:
        name = {"gap": "hops", "progap": "depth"}.get(entry["method"])
        entry |= {name: hops[name]} if name else {}
    return found | {"experiments": {"accuracy": entries}}


def made(study, seeds=6):
    """Synthetic rows of which all claims are under `PROMISE`."""
    frame = synthetic_rows(study, seeds=seeds)
    for level, (adjacency, status) in PROMISE.items():
        mine = frame["level"] == level
        labels = {"adjacency": adjacency, "epsilon_status": status, "epsilon_basis": "corrected"}
        for name, value in labels.items():
            frame.loc[mine, name] = value
    return frame


def read(frame, folder):
    frame.to_csv(folder / "rows.csv", index=False)
    return rows.read_rows(folder / "rows.csv")


@pytest.fixture
def frame(study, tmp_path):
    return read(made(study), tmp_path)


def line_of(table, method, level, at, graph="pubmed"):
    wanted = dict(dataset=graph, method=method, level=level, at_epsilon=at)
    found = table[(table[list(wanted)] == list(wanted.values())).all(axis=1)]
    (line,) = found.to_dict("records")
    return line


def best(frame, method, level, epsilon):
    """By seed, of the setting with the best mean validation accuracy."""
    mine = frame[(frame["method"] == method) & (frame["level"] == level)]
    mine = mine[mine["epsilon"] == epsilon]
    chosen = mine.groupby("hyperparameters")["val_accuracy"].mean().idxmax()
    return mine[mine["hyperparameters"] == chosen].set_index("seed")


@pytest.mark.parametrize("at", [("edge", "4"), ("edge", "16"), ("node", "8")])
def test_a_gain_is_the_mean_over_pairs_of_a_seed_with_students_interval(study, frame, at):
    """By hand, beside the edge-free method with the better mean validation accuracy."""
    level, epsilon = at
    free = [
        best(frame, name, *(("none", "inf") if level == "edge" else at))
        for name in ("mlp", "naive")
    ]
    alone = max(free, key=lambda models: models["val_accuracy"].mean())
    table = leaderboard.leaderboard_table(frame, study)
    for method in ("gap", "progap"):
        ours = best(frame, method, level, epsilon)
        test = stats.ttest_rel(100 * ours["test_accuracy"], 100 * alone["test_accuracy"])
        low, high = test.confidence_interval(0.95)
        line = line_of(table, method, level, epsilon)
        assert line["gain"] == pytest.approx((low + high) / 2, rel=1e-9)
        assert line["gain_low"] == pytest.approx(low, rel=1e-9)
        assert line["gain_high"] == pytest.approx(high, rel=1e-9)
        assert line["pairs"] == 6
        assert line["without_graph"] == pytest.approx(100 * alone["test_accuracy"].mean())


def test_the_reference_is_chosen_by_validation_accuracy_and_of_pairs_alone(study, tmp_path):
    """The naive network tests better and validates worse; of it two seeds more are there."""
    frame = made(study)
    naive, mlp = frame["method"] == "naive", frame["method"] == "mlp"
    frame.loc[naive, "test_accuracy"] = 0.99
    frame.loc[naive, "val_accuracy"] = 0.1
    fewer = frame[~(mlp & (frame["level"] == "node") & (frame["seed"] < 1))]
    table = leaderboard.leaderboard_table(read(fewer, tmp_path), study)
    line = line_of(table, "gap", "node", "8")
    mine = best(fewer, "mlp", "node", "8")["test_accuracy"]
    assert line["pairs"] == 5
    assert line["without_graph"] == pytest.approx(100 * mine.mean())
    ours = 100 * best(frame, "gap", "node", "8")["test_accuracy"].loc[mine.index].mean()
    assert line["gain"] == pytest.approx(ours - line["without_graph"])


def test_students_interval_covers_no_difference_as_often_as_it_says():
    """4,000 draws of 5 and of 10: 5 % are missed within five standard deviations, which fails by
    chance in less than 1 of 100,000 runs (binomial)."""
    draws = generator("leaderboard", "coverage").standard_normal((4000, 10))
    for pairs in (5, 10):
        limits = [leaderboard.paired(pd.Series(one[:pairs]))[1:] for one in draws]
        missed = np.mean([low > 0 or high < 0 for low, high in limits])
        assert abs(missed - 0.05) < 5 * np.sqrt(0.05 * 0.95 / len(draws))


def test_ranks_are_by_the_mean_ties_share_one_and_edge_free_methods_have_theirs(study, tmp_path):
    frame = made(study)
    frame.loc[frame["method"].isin(["gap", "progap"]), ["val_accuracy", "test_accuracy"]] = 0.5
    table = leaderboard.leaderboard_table(read(frame, tmp_path), study)
    for level, epsilon in (("edge", "2"), ("edge", "16"), ("node", "2")):
        here = table[(table["level"] == level) & (table["at_epsilon"] == epsilon)]
        means = here.set_index("method")["mean"]
        expected = {name: 1 + (means > mean).sum() for name, mean in means.items()}
        assert here.set_index("method")["rank"].to_dict() == expected
        assert expected["gap"] == expected["progap"]
        assert list(here["rank"]) == sorted(here["rank"])
    # What needs no noise stands beside every ε of its level; ε are in order of their size.
    free = table[(table["level"] == "edge") & (table["method"] == "mlp")]
    assert list(free["at_epsilon"]) == EDGE
    assert set(free["epsilon"]) == {"0"}
    assert free["gain"].isna().all()


@pytest.mark.parametrize(
    ("by", "worth"),
    [
        ([4, 5, 6, 5, 4], leaderboard.BETTER),
        ([-4, -5, -6, -5, -4], leaderboard.WORSE),
        ([4, -5, 6, -5, 1], leaderboard.OPEN),
        ([4, 5, 6, 5], leaderboard.TOO_FEW),
    ],
)
def test_better_or_worse_is_said_where_the_interval_of_five_pairs_leaves_out_zero(
    study, tmp_path, by, worth
):
    frame = made(study, seeds=len(by))
    frame = frame[frame["method"] != "naive"]
    mlp = frame[(frame["method"] == "mlp") & (frame["level"] == "none")]
    base = mlp.set_index("seed")["test_accuracy"]
    edge = (frame["method"] == "gap") & (frame["level"] == "edge")
    moved = frame["seed"].map(base) + frame["seed"].map(dict(enumerate(by))) / 100
    frame["test_accuracy"] = frame["test_accuracy"].where(~edge, moved)
    table = leaderboard.leaderboard_table(read(frame, tmp_path), study)
    line = line_of(table, "gap", "edge", "4")
    assert line["gain"] == pytest.approx(np.mean(by))
    assert line["worth"] == worth
    printed = printing.to_markdown(leaderboard.show_leaderboard(table))
    assert f"| {np.mean(by):+.1f} [" in printed
    assert worth in printed


@pytest.mark.parametrize("column", ["split", "study_seed", "graph"])
def test_models_that_differ_in_more_than_the_method_are_no_pairs(study, tmp_path, column):
    frame = made(study)
    frame.loc[frame["method"] == "gap", column] = "77"
    with pytest.raises(GraphDPError, match=rf"pubmed, gap, edge, .* differ in {column}, so that"):
        leaderboard.leaderboard_table(read(frame, tmp_path), study)


def test_two_promises_in_one_comparison_are_refused(study, tmp_path):
    frame = made(study)
    progap = (frame["method"] == "progap") & (frame["level"] == "node")
    frame.loc[progap, "adjacency"] = "node_replace"
    told = r"several \(node_replace: progap; participant: .*\); set calibrate_for: corrected"
    with pytest.raises(GraphDPError, match=told):
        leaderboard.leaderboard_table(read(frame, tmp_path), study)
    frame = made(study)
    frame.loc[progap, "delta"] = 1e-3
    with pytest.raises(GraphDPError, match=r"one delta, .*1e-3: progap.*; set one delta"):
        leaderboard.leaderboard_table(read(frame, tmp_path), study)


def test_a_refuted_claim_is_not_compared_and_no_reference(study, tmp_path):
    frame = made(study)
    for name in ("progap", "mlp"):
        frame.loc[(frame["method"] == name) & (frame["level"] == "node"), "epsilon_status"] = (
            "refuted"
        )
    table = leaderboard.leaderboard_table(read(frame, tmp_path), study)
    line = line_of(table, "progap", "node", "8")
    assert line["worth"] == leaderboard.REFUTED
    assert pd.isna(line["rank"])
    assert pd.isna(line["gain"])
    gap = line_of(table, "gap", "node", "8")
    naive = 100 * best(frame, "naive", "node", "8")["test_accuracy"].mean()
    assert (gap["rank"], gap["without_graph"]) == (1, pytest.approx(naive))
    figure = leaderboard.leaderboard_figure(read(frame, tmp_path), study)
    node = {ax.get_title(): ax for ax in figure.axes}["pubmed, node level"]
    assert [tick.get_text() for tick in node.get_yticklabels()] == ["GAP", "Naive DP-SGD"]
    told = " ".join(figure.get_supxlabel().split()) + figure.get_label()
    assert "left out, claim refuted: MLP-DP, ProGAP-NDP" in told


def test_predictions_without_noise_are_not_compared(study, tmp_path):
    """DP-GNN with exact inference: its ε is of the weights."""
    exact = {"method": "sage", "level": "node", "epsilon": NODE, "inference": ["exact"]}
    study["experiments"]["accuracy"].append(exact | {"max_degree": [100]})
    table = leaderboard.leaderboard_table(read(made(study), tmp_path), study)
    assert line_of(table, "sage", "node", "8")["worth"] == leaderboard.WEIGHTS_ALONE
    assert pd.isna(line_of(table, "sage", "node", "8")["rank"])


def test_a_cell_without_a_result_is_last_and_without_a_reference_there_is_no_gain(study, frame):
    fewer = frame[~((frame["method"] == "gap") & (frame["epsilon"] == "2"))]
    free = fewer["method"].isin(["mlp", "naive"]) & (fewer["level"] == "node")
    fewer = fewer[~free].reset_index(drop=True)
    table = leaderboard.leaderboard_table(fewer, study)
    here = table[(table["level"] == "node") & (table["at_epsilon"] == "2")]
    assert here["method"].iloc[0] == "progap"
    missing = line_of(table, "gap", "node", "2")
    assert pd.isna(missing["rank"])
    assert missing["missing_reason"] == "no result in rows.csv"
    assert pd.isna(line_of(table, "gap", "node", "8")["gain"])
    assert line_of(table, "gap", "node", "8")["worth"] == ""
    # A field without a result says so and has no colour; with one good cell GAP is not first.
    figure = leaderboard.leaderboard_figure(fewer, study)
    node = {ax.get_title(): ax for ax in figure.axes}["pubmed, node level"]
    names = [tick.get_text() for tick in node.get_yticklabels()]
    place = names.index("GAP")
    field = {text.get_position(): text.get_text() for text in node.texts}
    assert field[0, place] == "–"
    assert np.ma.getmaskarray(node.images[0].get_array())[place, 0]
    assert names[0] == "ProGAP"


def test_a_study_without_a_private_model_has_an_empty_figure_that_says_so(study, frame):
    entries = [one for one in study["experiments"]["accuracy"] if one["level"] == "none"]
    entries = [one for one in entries if one["method"] == "gap"]
    alone = study | {"experiments": {"accuracy": entries}}
    assert leaderboard.leaderboard_table(frame, alone).empty
    figure = leaderboard.leaderboard_figure(frame, alone)
    words = " ".join(text.get_text() for ax in figure.axes for text in ax.texts)
    assert "no results: not requested in this run" in " ".join(words.split())


def test_the_figure_has_each_mean_in_its_field_and_the_colour_of_its_gain(study, frame):
    figure = leaderboard.leaderboard_figure(frame, study)
    table = leaderboard.leaderboard_table(frame, study)
    panels = {ax.get_title(): ax for ax in figure.axes if ax.get_title()}
    assert list(panels) == ["pubmed, edge level", "pubmed, node level"]
    for level, ax in zip(("edge", "node"), panels.values(), strict=True):
        names = [tick.get_text() for tick in ax.get_yticklabels()]
        budgets = [tick.get_text() for tick in ax.get_xticklabels()]
        assert budgets == (EDGE if level == "edge" else NODE)
        ranks = table[table["level"] == level].groupby("method")["rank"].mean()
        first, second = ranks[["gap", "progap"]].sort_values().index
        # What reads no edge says that its ε is 0 at edge level.
        free = {
            "edge": {"mlp": "MLP (ε = 0)", "naive": "Naive (ε = 0)"},
            "node": {"mlp": "MLP-DP", "naive": "Naive DP-SGD"},
        }[level]
        known = {"gap": "GAP", "progap": "ProGAP", **free}
        assert names[:2] == [known[first], known[second]]
        assert set(names[2:]) == set(free.values())
        assert ax.get_xlabel() == f"ε (δ = 1e-{7 if level == 'edge' else 5})"
        (line,) = [one for one in ax.lines if len(set(one.get_ydata())) == 1]
        assert line.get_ydata()[0] == 1.5
        (image,) = ax.images
        fields = {text.get_position()[::-1]: text.get_text() for text in ax.texts}
        assert len(fields) == len(names) * len(budgets)
        for y, name in enumerate(names):
            method = {words: name for name, words in known.items()}[name]
            for x, epsilon in enumerate(budgets):
                cell = line_of(table, method, level, epsilon)
                sign = {"better": " ▲", "worse": " ▼"}.get(cell["worth"], "")
                assert fields[y, x] == f"{cell['mean']:.1f}{sign}"
                assert image.get_array()[y, x] == pytest.approx(cell["gain"] if sign else 0)
    # What is gained is orange, what is lost violet.
    red, _, blue, _ = image.cmap(image.norm(15.0))
    assert red > blue
    red, _, blue, _ = image.cmap(image.norm(-15.0))
    assert blue > red
    assert "edge_directed" not in figure.get_supxlabel()


def test_a_gain_of_nothing_has_no_minus():
    line = {"gain": -0.01, "gain_low": -0.0, "gain_high": 0.0}
    assert leaderboard.gain_text(line) == "0.0 [0.0, 0.0]"


def test_a_limit_near_zero_says_on_which_side_it_is():
    """So that better and worse can be counted from the text."""
    line = {"gain": -3.05, "gain_low": -6.05283, "gain_high": -0.04945}
    assert leaderboard.gain_text(line) == "-3.0 [-6.1, -0.05]"
    line = {"gain": 0.0, "gain_low": -0.0008, "gain_high": 0.05}
    assert leaderboard.gain_text(line) == "0.0 [-0.001, 0.1]"
