"""The numbers and comparisons of docs/dpdgc.md are those of the shipped rows."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from graphdp.methods.dpdgc import page
from graphdp.methods.dpdgc.plan import corrected_plan, implemented_plan
from graphdp.paper.rows import read_rows
from graphdp.paper.select import bootstrap_ci, select_best
from graphdp.privacy import sensitivity
from graphdp.privacy.calibration import calibrate
from graphdp.privacy.plan import PoissonGroupDPSGD, dpsgd_rounds

ROOT = Path(__file__).parent.parent
TEXT = re.sub(r"\s+", " ", (ROOT / "docs/dpdgc.md").read_text())
ROWS = pd.read_csv(ROOT / "workflow/report/dpdgc-rows.csv.gz", low_memory=False)
PUBLISHED = pd.read_csv(ROOT / "config/published/dpdgc.csv").query("artefact == 'Table 2'")
GRAPHS = ["cora", "chameleon", "squirrel", "photo", "pubmed", "computers", "berkeley13-connected"]
#: Fewer models than this tell nothing of an ordering.
FEWEST = 5


@pytest.fixture(autouse=True)
def in_the_project(monkeypatch):
    monkeypatch.chdir(ROOT)


def bound(points):
    """A number of points that none is above, in tenths."""
    return f"{math.ceil(10 * points - 1e-9) / 10:.1f}"


def rows_of(graph, method, level, epsilon=None):
    """The rows of the setting with the best mean validation accuracy."""
    mine = ROWS[(ROWS["dataset"] == graph) & (ROWS["method"] == method) & (ROWS["level"] == level)]
    if epsilon is not None:
        mine = mine[mine["epsilon"] == epsilon]
    assert mine["epsilon"].nunique() == 1, (graph, method, level)
    means = mine.groupby("hyperparameters")["val_accuracy"].mean()
    return mine[mine["hyperparameters"] == means.idxmax()]


def mean(*cell, fewest=FEWEST):
    found = rows_of(*cell)
    assert len(found) >= fewest, cell
    return 100 * found["test_accuracy"].mean()


def cost(graph, level, epsilon):
    """Points that DPDGC loses where its ε holds."""
    return mean(graph, "dpdgcofficial", level, epsilon) - mean(graph, "dpdgc", level, epsilon)


def off_print():
    """Graph, method, level, ε -> points above print, of every cell that has both."""
    found = {}
    for line in PUBLISHED[PUBLISHED["metric"] == "accuracy"].itertuples():
        # What reads no edge is trained and counted once, for no privacy and for edge level.
        if line.epsilon == 0:
            continue
        level = line.level
        mine = ROWS[
            (ROWS["dataset"] == line.dataset)
            & (ROWS["method"] == line.method)
            & (ROWS["level"] == level)
        ]
        if len(mine):
            epsilon = float("inf") if level == "none" else float(line.epsilon)
            ours = mean(line.dataset, line.method, level, epsilon, fewest=3)
            found[line.dataset, line.method, line.level, line.epsilon] = ours - line.mean
    return found


def test_how_near_the_authors_code_is_to_print():
    off = {cell: gap for cell, gap in off_print().items() if cell[1] == "dpdgcofficial"}
    near = [gap for gap in off.values() if abs(gap) <= 2.5]
    assert f"in {len(near)} of {len(off)} cells within 2.5 points" in TEXT
    chameleon = [gap for cell, gap in off_print().items() if cell[::2] == ("chameleon", "none")]
    assert (min(chameleon), max(chameleon)) == pytest.approx((4, 10), abs=0.5)
    assert len(chameleon) == 4
    assert off_print()["chameleon", "gap", "edge", 1] == pytest.approx(3, abs=0.5)
    assert (
        "On Chameleon every method without privacy is four to ten points above print (GAP-EDP, "
        "whose noise is in its sums alone, three)"
    ) in TEXT


def test_what_is_not_as_printed_is_listed_with_what_is_said_of_it():
    off = off_print()
    far = {cell: gap for cell, gap in off.items() if abs(gap) > 2.5}
    assert (
        f"Of all {len(off)} cells that have both a printed number and models, baselines included "
        "(the MLP's, which stands in two columns of print, once), "
        f"{len(off) - len(far)} are within 2.5 points of it, and {len(far)} are not"
    ) in TEXT
    assert f"% of draws: of {len(off)} cells one or two may be as far off by chance" in TEXT
    coverage = (ROOT / "docs/coverage.md").read_text()
    assert (
        f"Of {len(off)} cells of the accuracy experiment that have both a printed number and "
        f"models of the same graph (what reads no edge, once) {len(off) - len(far)} are within 2.5"
    ) in coverage
    lines = [line for line in page.not_as_printed() if line.startswith("| ")][2:]
    assert len(lines) == len(far)
    shown = [line.split(" | ") for line in lines]
    gaps = [float(cells[3].split()[0]) - float(cells[5].split()[0]) for cells in shown]
    assert sorted(gaps) == pytest.approx(sorted(far.values()), abs=0.11)
    unexplained = {(cells[0].strip("| "), cells[1]) for cells in shown if cells[6] == "no |"}
    assert unexplained == {("Cora", "SAGE-NDP")}
    perhaps = {(cells[0].strip("| "), cells[1]) for cells in shown if cells[6][:7] == "perhaps"}
    assert perhaps == {("Squirrel", "SAGE-∞")}
    assert "but for SAGE on Squirrel, which does at another learning rate, and DP-SAGE" in TEXT


def test_sage_at_two_learning_rates():
    """At 0.01 every interval meets print's, at 0.001 not on Squirrel; both are of one split."""
    rows = read_rows(ROOT / "workflow/report/sage-rate-rows.csv.gz")
    assert set(rows["split"]) == {"shared by torch"} and set(rows["level"]) == {"none"}
    printed = PUBLISHED.query("method == 'sage' and level == 'none' and dataset != 'facebook'")
    printed = printed.set_index("dataset")[["mean", "ci"]]
    meet = {0.001: set(), 0.01: set()}
    cells = rows.groupby(["dataset", "hp_learning_rate"])["test_accuracy"]
    assert cells.size().eq(10).all() and len(cells) == 2 * len(printed) == 12
    for (graph, rate), values in cells:
        _, low, high = bootstrap_ci(100 * values)
        middle, half = printed.loc[graph]
        meet[rate] |= {graph} if low <= middle + half and middle - half <= high else set()
    assert meet[0.01] == set(printed.index)
    assert meet[0.001] == set(printed.index) - {"squirrel"}
    assert "on all six graphs, Squirrel included (95 % intervals meet, at 0.001" in TEXT
    theirs = read_rows(ROOT / "workflow/report/dpdgc-authors-split-rows.csv.gz")
    mine = rows[(rows["hp_learning_rate"] == 0.001) & (rows["dataset"] == "squirrel")]
    same = theirs[(theirs["method"] == "sage") & (theirs["dataset"] == "squirrel")]
    assert mine["test_accuracy"].mean() == pytest.approx(same["test_accuracy"].mean(), abs=0.005)
    lines = [line.strip("| ").split(" | ") for line in page.rates()][2:]
    for title, _, *told in lines:
        graph = {name: graph for graph, name in page.GRAPHS.items()}[title]
        for rate, text in zip((0.001, 0.01), told, strict=True):
            assert text.split()[0] == f"{100 * cells.mean()[graph, rate]:.1f}"


def test_dp_sage_on_photo():
    few = rows_of("photo", "sage", "node", 16)
    (printed,) = PUBLISHED.query("dataset == 'photo' and method == 'sage' and level == 'node'")[
        "mean"
    ]
    assert (
        f"DP-SAGE on Photo has {100 * few['test_accuracy'].mean():.1f} % over {len(few)} seeds "
        f"where {printed:.1f} are printed"
    ) in TEXT
    cora = 100 * rows_of("cora", "sage", "node", 16)["test_accuracy"].mean()
    (printed,) = PUBLISHED.query(
        "dataset == 'cora' and method == 'sage' and level == 'node'"
    ).itertuples()
    assert f"{cora:.1f} with samples, printed {printed.mean:.1f} ± {printed.ci:.1f})." in TEXT
    theirs = read_rows(ROOT / "workflow/report/dpdgc-authors-split-rows.csv.gz")
    theirs = theirs[(theirs["method"] == "sage") & (theirs["level"] == "node")]
    theirs = 100 * theirs.set_index("dataset")["test_accuracy"]
    forty = theirs.loc["cora"].to_numpy()
    assert len(forty) == 40
    assert (
        f"split forty models have {forty.mean():.1f} there, with a standard deviation of "
        f"{forty.std(ddof=1):.1f} points"
    ) in TEXT
    drawn = np.random.default_rng(0).choice(forty, (50_000, 10), replace=True).mean(1)
    assert (
        "and ten of them, drawn with replacement, print's mean or less in "
        f"{100 * (drawn <= printed.mean).mean():.0f} % of draws"
    ) in TEXT
    assert f"and on the authors' split {theirs.loc['photo'].mean():.1f}." in TEXT


def test_the_rows_of_a_batch_of_photo(real_graph):
    """64 nodes and at most 100 that each reads, each once: the mean of 400 draws, whose deviation
    is 7 of some 1,450."""
    graph, generator = real_graph("photo"), np.random.default_rng(0)
    sizes = []
    for _ in range(400):
        batch = generator.choice(len(graph.y), 64, replace=False)
        lists = [graph.indices[graph.indptr[v] : graph.indptr[v + 1]] for v in batch]
        read = [generator.choice(one, min(len(one), 100), replace=False) for one in lists]
        sizes.append(len(np.unique(np.concatenate([batch, *read]))))
    assert 1400 < np.mean(sizes) < 1500
    assert "A batch of 64 is 1,400 to 1,500 rows there" in TEXT


def apart(graph, level):
    """Points that DPDGC gains with an ε that holds, and whether the intervals are apart."""
    ours, theirs = (
        rows_of(graph, method, level, 16)["test_accuracy"] for method in ("dpdgc", "dpdgcofficial")
    )
    assert len(ours) == len(theirs) == 10
    gain = ours.mean() - theirs.mean()
    return 100 * gain, abs(gain) > 2 * ((ours.var() + theirs.var()) / 10) ** 0.5


def test_what_an_epsilon_that_holds_costs_at_k_neighbour_and_node_level():
    for level in ("k1", "k5"):
        gains = {graph: apart(graph, level) for graph in GRAPHS}
        assert {g for g, (gain, sure) in gains.items() if gain > 0 and sure} == {"cora", "pubmed"}
    near = {g for g in GRAPHS if -1 <= apart(g, "k1")[0] <= 0}
    assert near == {"chameleon", "photo"}
    assert all(apart(graph, "k25")[0] < 0 for graph in GRAPHS)
    for graph in GRAPHS:
        ours = mean(graph, "dpdgc", "node", 16)
        assert ours < min(mean(graph, other, "node", 16) for other in ("mlp", "gap"))
    told = (
        "better on Cora and Pubmed for one neighbour and for five, where Poisson samples with "
        "exact group accounting need less noise (by unrounded means {} and {} points for one, {} "
        "and {} for five). "
        "For one it is within a point on Chameleon and Photo, and loses {:.0f} to {:.0f} on "
        "Computers, Squirrel and berkeley13; for five about two on Photo and Computers, {:.0f} to "
        "{:.0f} on Squirrel, Chameleon and berkeley13; for 25 on every graph. - **For a node** it "
        "is below MLP-DP and GAP (whose claim is refuted) on every graph"
    )
    gained = [f"{apart(g, k)[0]:.1f}" for k in ("k1", "k5") for g in ("cora", "pubmed")]
    schools, few = "berkeley13-connected", ("computers", "squirrel", "berkeley13-connected")
    one = [-apart(graph, "k1")[0] for graph in few]
    five = [-apart(graph, "k5")[0] for graph in ("squirrel", "chameleon", schools)]
    assert told.format(*gained, min(one), max(one), min(five), max(five)) in TEXT
    assert all(1.5 < -apart(graph, "k5")[0] < 2.5 for graph in ("photo", "computers"))


def test_what_an_epsilon_that_holds_costs_at_edge_level():
    costs = {graph: cost(graph, "edge", 1) for graph in GRAPHS}
    little = {graph for graph, lost in costs.items() if 0 < lost <= 2}
    much = sorted(lost for graph, lost in costs.items() if graph not in little)
    assert little == {"cora", "photo", "pubmed", "computers"}
    assert (much[0], much[-1]) == pytest.approx((4, 8), abs=0.5)
    assert (
        "up to two points on Cora, Photo, Pubmed and Computers and four to eight elsewhere" in TEXT
    )


def test_what_of_the_paper_is_then_no_longer_true():
    at = ("edge", 1)
    rivals = [mean("chameleon", "gap", *at), mean("chameleon", "mlp", "none")]
    assert mean("chameleon", "dpdgc", *at) < min(rivals)
    assert max(rivals) < mean("chameleon", "dpdgcofficial", *at)
    gap = mean("computers", "gap", *at)
    assert abs(mean("computers", "dpdgcofficial", *at) - gap) < 1
    assert mean("computers", "dpdgc", *at) < gap - 1
    alone = mean("cora", "mlp", "node", 16)
    assert mean("cora", "dpdgcofficial", "k1", 16) < alone < mean("cora", "dpdgc", "k1", 16)
    pubmed = [mean("pubmed", *cell, 16) for cell in (("mlp", "node"), ("dpdgc", "k1"))]
    assert pubmed[0] < pubmed[1]
    ours = mean("cora", "dpdgc", "k1", 16)
    other = pd.read_csv(ROOT / "workflow/report/mlp-poisson-rows.csv.gz", low_memory=False)
    other = 100 * other.loc[other["dataset"] == "cora", "test_accuracy"].mean()
    assert ours < other
    assert (
        "That it beats GAP and the MLP on Chameleon at edge level, is within a point of GAP on "
        "Computers there, and is below MLP-DP on Cora for one neighbour (and on Pubmed, by the "
        "mean), is then no longer true; the last by the paper's accountant of MLP-DP alone "
        f"({ours:.1f} against {alone:.1f} % on Cora): by DPDGC's own MLP-DP has {other:.1f} %."
    ) in TEXT


def test_what_a_participant_is_covered_with_where_nodes_are_replaced():
    """docs/privacy.md, of GAP and MLP-DP as DPDGC runs them."""
    rows = ROWS[(ROWS["level"] == "node") & ROWS["method"].isin(["gap", "mlp"])]
    shares = []
    for epsilon, readings in zip(rows["epsilon"], rows["epsilons"], strict=True):
        read = {(one["basis"], one["adjacency"]): one for one in json.loads(readings)}
        assert read["as_published", "node_replace"]["claimed_epsilon"] == pytest.approx(
            float(epsilon), rel=0.01
        )
        shares.append(read["corrected", "participant"]["epsilon"] / float(epsilon))
    assert len(shares) > 300
    told = f"a participant is covered with {min(shares):.2f} to {max(shares):.2f} of the ε"
    assert told in (ROOT / "docs" / "privacy.md").read_text()


def test_what_readme_says_is_that_of_the_rows():
    said = page.came_out()
    assert "better on Cora and Pubmed for one neighbour" in said
    assert f"up to {max(cost(graph, 'edge', 1) for graph in GRAPHS):.1f} points worse" in said
    assert "at node level below MLP-DP and GAP, whose claim is refuted, on 7 of 7 graphs" in said
    assert said in (ROOT / "README.md").read_text()


def test_figure_3a_says_what_ten_models_tell():
    school = "berkeley13-connected"
    edge = ROWS[(ROWS["dataset"] == school) & (ROWS["level"] == "edge")]
    assert set(edge.groupby(["epsilon", "method", "hyperparameters"]).size()) == {10}
    assert "as implemented refuted, else proven; 10 seeds" in TEXT
    theirs, ours, gap = (mean(school, m, "edge", 1) for m in ("dpdgcofficial", "dpdgc", "gap"))
    assert ours < theirs < gap
    assert (
        f"DPDGC is below GAP at ε = 1 holds: {theirs:.1f} % as implemented and {ours:.1f} "
        f"corrected against {gap:.1f}"
    ) in TEXT
    found = {
        epsilon: [mean(school, m, "edge", epsilon) for m in ("dpdgcofficial", "dpdgc", "gap")]
        for epsilon in (2, 4, 8, 16)
    }
    assert {e for e, (theirs, _, gap) in found.items() if theirs > gap} == {4, 8, 16}
    assert {e for e, (_, ours, gap) in found.items() if ours < gap} == {2, 4, 8}
    _, ours, gap = found[4]
    _, our16, gap16 = found[16]
    assert (
        f"corrected it is below at 4 ({ours:.1f} against {gap:.1f} %) and 8, and above at 16 "
        f"({our16:.1f} against {gap16:.1f})"
    ) in TEXT
    assert "| DPDGC above GAP | edge |" in TEXT and "| holds: 16; fails: 4, 8 |" in TEXT


def test_figure_3c_says_what_ten_models_tell():
    at = ("computers",)
    alone = mean(*at, "mlp", "node", 16)
    widths = (1, 5, 10, 25, 50, 100)
    theirs = {k: mean(*at, "dpdgcofficial", f"k{k}", 16) for k in widths}
    ours = {k: mean(*at, "dpdgc", f"k{k}", 16) for k in widths}
    assert (
        f"reads no edge, has {alone:.1f} %. As implemented DPDGC is above it for 5 neighbours "
        f"({theirs[5]:.1f}), not told apart for 10 ({theirs[10]:.1f}), and below from 25 on "
        f"({theirs[25]:.1f}); corrected it is above for one ({ours[1]:.1f}), not for 5 "
        f"({ours[5]:.1f}), and below from 10 on ({ours[10]:.1f})."
    ) in TEXT
    _, low, high = bootstrap_ci(100 * rows_of(*at, "mlp", "node", 16)["test_accuracy"])
    sides = {}
    for method in ("dpdgcofficial", "dpdgc"):
        for k in widths:
            values = 100 * rows_of(*at, method, f"k{k}", 16)["test_accuracy"]
            assert len(values) == 10
            _, bottom, top = bootstrap_ci(values)
            sides[method, k] = (bottom > high) - (top < low)
    assert [sides["dpdgcofficial", k] for k in widths] == [1, 1, 0, -1, -1, -1]
    assert [sides["dpdgc", k] for k in widths] == [1, 0, -1, -1, -1, -1]
    (line,) = [line for line in page.accountants() if line.startswith("| Computers, ")]
    tight = line.split("|")[3].split()[0]
    assert f"MLP-DP has {tight} % (above), more than corrected DPDGC at every k" in TEXT
    assert max(ours.values()) < float(tight)


def test_figure_3b_says_how_many_models_it_has_and_which_lines_are_above():
    school = ROWS[ROWS["dataset"] == "berkeley13-connected"]
    school = school[school["level"].isin(["k1", "k5", "k25", "node"])]
    models = school.groupby(["epsilon", "method", "level", "hyperparameters"]).size()
    assert {e: set(models[e]) for e in (1, 2, 4, 8, 16)} == {
        1: {5}, 2: {5}, 4: {5}, 8: {5}, 16: {10},
    }  # fmt: skip
    assert "(10 seeds at ε = 16, 5 at 1 to 8;" in TEXT

    def scores(method, level, epsilon):
        of = school["method"].eq(method) & school["level"].eq(level)
        return 100 * school.loc[of & school["epsilon"].eq(epsilon), "test_accuracy"]

    def side(method, level, epsilon):
        """1 above MLP-DP, -1 below, 0 not told apart."""
        alone = scores("mlp", "node", epsilon)
        apart = stats.ttest_ind(scores(method, level, epsilon), alone, equal_var=False)
        low, high = apart.confidence_interval()
        return int(low > 0) - int(high < 0)

    def gain(method, level, epsilon):
        mean = scores(method, level, epsilon).mean() - scores("mlp", "node", epsilon).mean()
        return f"{mean:.1f}"

    sides = {
        (method, level): [side(method, level, e) for e in (1, 2, 4, 8, 16)]
        for method in ("dpdgcofficial", "dpdgc")
        for level in ("k1", "k5", "k25", "node")
    }
    always, never = [1] * 5, [-1] * 5
    assert sides == {
        ("dpdgcofficial", "k1"): always,
        ("dpdgcofficial", "k5"): always,
        ("dpdgcofficial", "k25"): always,
        ("dpdgcofficial", "node"): [1, 0, 1, 1, 1],
        ("dpdgc", "k1"): [0, 0, 1, 1, 1],
        ("dpdgc", "k5"): [-1, -1, 0, 0, 1],
        ("dpdgc", "k25"): never,
        ("dpdgc", "node"): never,
    }
    of_code = gain("dpdgcofficial", "k1", 16), gain("dpdgcofficial", "node", 16)
    assert (
        "DPDGC is above MLP-DP at every ε and level, but for a node at 2, not told apart: by {} "
        "points for one neighbour and {} for a node at a claimed 16.".format(*of_code)
    ) in TEXT
    corrected = gain("dpdgc", "k1", 4), gain("dpdgc", "k1", 16), gain("dpdgc", "k5", 16)
    assert (
        "above it for one neighbour from ε = 4 on, by {} points there and {} at 16, and for five "
        "at 16 alone, by {}; for 25 neighbours and for a node it is below it at every "
        "ε.".format(*corrected)
    ) in TEXT


def test_figure_3d_is_of_five_models_and_its_orderings_are_said():
    blocks = ROWS[ROWS["dataset"].str.startswith("csbm-")]
    models = blocks.groupby(["dataset", "method", "level", "epsilon"]).size()
    assert set(models) == {5}
    assert "in the sizes of the paper and of its code, five seeds each" in TEXT
    assert "too few seeds" not in "".join(page.orderings("blocks"))

    def interval(phi, method, level):
        mine = blocks[blocks["dataset"] == f"csbm-paper-phi-{phi}"]
        mine = mine[(mine["method"] == method) & (mine["level"] == level)]
        return bootstrap_ci(100 * mine["test_accuracy"])

    def above(phi, one, other):
        """1 or -1 where the intervals are apart, else 0."""
        (_, low, high), (_, bottom, top) = interval(phi, *one), interval(phi, *other)
        return int(low > top) - int(high < bottom)

    alone, strong = ("mlp", "node"), ("m1", "1")
    k1, code_k1 = ("dpdgc", "k1"), ("dpdgcofficial", "k1")
    node, code_node = ("dpdgc", "node"), ("dpdgcofficial", "node")
    verdicts = {
        what: [above(phi, what, alone) for phi in strong] for what in (k1, code_k1, node, code_node)
    }
    assert verdicts == {k1: [1, 1], code_k1: [1, 1], node: [0, 0], code_node: [1, 1]}
    assert (above("0", code_k1, alone), above("0", k1, alone)) == (-1, 0)
    # From which |φ| on, where both signs agree.
    sizes = ("0.25", "0.5", "0.75", "1")

    def better(phi, what):
        """Points above MLP-DP, and whether Welch's t tells them apart."""
        own, theirs = (
            100
            * blocks[
                (blocks["dataset"] == f"csbm-paper-phi-{phi}")
                & (blocks["method"] == method)
                & (blocks["level"] == level)
            ]["test_accuracy"]
            for method, level in (what, alone)
        )
        test = stats.ttest_ind(own, theirs, equal_var=False)
        return own.mean() - theirs.mean(), bool(test.pvalue < 0.05 and test.statistic > 0)

    apart = {
        what: [size for size in sizes if better(size, what)[1] and better(f"m{size}", what)[1]]
        for what in verdicts
    }
    assert apart == {k1: ["1"], code_k1: ["0.5", "0.75", "1"], node: [], code_node: ["1"]}
    (plus, sure), (minus, unsure) = better("0.75", k1), better("m0.75", k1)
    assert sure and not unsure and above("m0.75", k1, alone) == 1
    assert (
        "by Welch's t (95 %) at either sign: for one neighbour as implemented from 0.5 on "
        f"(refuted), corrected at 1 alone (conditional; at 0.75 by {plus:.1f} points, at -0.75 by "
        f"{minus:.1f} and not told apart, though the bootstrapped intervals are apart); for a node "
        "as implemented at 1 alone, corrected at none"
    ) in TEXT
    weak = [f"{sign}{size}" for size in sizes[:3] for sign in ("", "m")] + ["0"]
    assert all(above(phi, node, alone) == -1 for phi in weak)
    behind = [interval(phi, *alone)[0] - interval(phi, *node)[0] for phi in weak]
    assert (
        f"at |φ| of 0.75 and less it is {min(behind):.0f} to {max(behind):.0f} points below MLP-DP"
    ) in TEXT
    at = {
        what: [f"{interval(phi, *what)[0]:.1f}" for phi in (*strong, "0")]
        for what in (alone, k1, code_k1, node, code_node)
    }
    assert (
        "({0[0]} and {0[1]} against {1[0]} and {1[1]} %, refuted), and still above corrected "
        "({2[0]} and {2[1]}, conditional)".format(at[code_k1], at[alone], at[k1])
    ) in TEXT
    assert (
        "as implemented ({0[0]} and {0[1]}, refuted) and not corrected ({1[0]} and {1[1]}, by "
        "overlapping intervals): there both are below chance".format(at[code_node], at[node])
    ) in TEXT
    assert all(float(one) < 50 for what in (alone, node) for one in at[what][:2])
    assert (
        f"At φ = 0 MLP-DP has {at[alone][2]} %, more than DPDGC for one neighbour as implemented "
        f"({at[code_k1][2]}), not told apart from it corrected ({at[k1][2]})"
    ) in TEXT

    means = 100 * blocks.groupby(["dataset", "method", "level"])["test_accuracy"].mean()
    costs = {
        level: [
            means[f"csbm-paper-phi-{phi}", "dpdgcofficial", level]
            - means[f"csbm-paper-phi-{phi}", "dpdgc", level]
            for phi in ("1", "m1")
        ]
        for level in ("edge", "k1")
    }
    assert (
        "is {:.0f} points at edge level (a proven ε in place of a refuted one) and {:.0f} for one "
        "neighbour".format(*map(np.mean, costs.values()))
    ) in TEXT
    assert all(abs(one - np.mean(some)) < 0.5 for some in costs.values() for one in some)
    code = means[means.index.get_level_values("dataset").str.startswith("csbm-code")]
    off = (code[code.index.get_level_values("level").isin(["k1", "node"])] - 50).abs().max()
    assert f"is within {bound(off)} points of chance, 50 %, for every φ" in TEXT
    beside = max(
        abs(code[graph, method, "edge"] - code[graph, "mlp", "none"])
        for graph in set(code.index.get_level_values("dataset"))
        for method in ("dpdgc", "dpdgcofficial")
    )
    assert f"at edge level within {bound(beside)} of the MLP" in TEXT


def test_what_the_authors_delta_would_change_on_the_block_models():
    """Their δ is 10 to the minus digits of the training nodes'."""
    csbm = ROWS[ROWS["dataset"].str.startswith("csbm") & (ROWS["level"] == "k1")]
    assert set(csbm["delta"]) == {1e-5}
    told = []
    for place, nodes in (("paper", 7500), ("code", 750)):
        mine = csbm[csbm["dataset"].str.startswith(f"csbm-{place}")]
        used = mine.loc[mine["method"] == "dpdgcofficial", "noise_multiplier"]
        used, others = used.iloc[0], used  # equal but for the last digits of two processors
        assert (others / used - 1).abs().max() < 1e-6
        delta = 10.0 ** -len(str(nodes))
        claim = implemented_plan(
            "k1",
            num_train=nodes,
            batch_size=256,
            epochs=100,
            classifier_epochs=100,
            max_grad_norm=1.0,
        )
        assert calibrate(claim, 16, 1e-5).noise_multiplier == pytest.approx(used, rel=2e-5)
        told.append((delta, used / calibrate(claim, 16, delta).noise_multiplier - 1))
    assert [delta for delta, _ in told] == [1e-4, 1e-3]
    assert f"asks for {told[0][1]:.0%} more noise in the paper's sizes".replace("%", " %") in TEXT
    assert f"and {told[1][1]:.0%} more in the code's".replace("%", " %") in TEXT


def test_what_can_be_read_of_the_papers_block_models():
    """In the paper's sizes near what is read off, in the code's far."""
    read = pd.read_csv(ROOT / "config/published/dpdgc.csv").query("artefact == 'Figure 3d'")
    read = read[read["metric"] == "read_off_accuracy"]
    means = 100 * ROWS.groupby(["dataset", "method", "level"])["test_accuracy"].mean()
    off = {
        size: {
            (line.dataset, line.method, line.level): abs(
                means[line.dataset.replace("paper", size), line.method, line.level] - line.mean
            )
            for line in read.itertuples()
        }
        for size in ("paper", "code")
    }
    gap = [off["paper"].pop((f"csbm-paper-phi-{phi}", "gap", "none")) for phi in ("m1", "1")]
    for phi in ("m1", "1"):
        of = {"dataset": f"csbm-paper-phi-{phi}", "method": "gap", "level": "none"}
        mine = ROWS[np.logical_and.reduce([ROWS[name] == value for name, value in of.items()])]
        assert bootstrap_ci(100 * mine["test_accuracy"])[1] < 60 + 2
    values = read.assign(phi=read["dataset"].str.split("-phi-m?", regex=True).str[1])
    assert len(values.drop_duplicates(["phi", "method", "level", "mean"])) == 6
    assert "six values can be read, to about two points" in TEXT and set(read["ci"]) == {2}
    assert (
        f"ours as implemented are within {bound(max(off['paper'].values()))} points of each but "
        f"GAP without privacy at φ = -1 and 1 ({gap[0]:.1f} and {gap[1]:.1f}, its interval meets "
        f"what is read), in the code's sizes up to {max(off['code'].values()):.1f} off"
    ) in TEXT


def test_chunks_make_little_difference():
    rows = pd.read_csv(ROOT / "workflow/report/randedge-chunks-rows.csv.gz")
    assert set(rows.groupby("dataset").size()) == {10} and rows["dataset"].nunique() == 6
    printed = PUBLISHED.query("method == 'sage' and level == 'edge'").set_index("dataset")["mean"]
    below = printed - 100 * rows.groupby("dataset")["test_accuracy"].mean()
    computers, cora = (printed[g] - mean(g, "sage", "edge", 1) for g in ("computers", "cora"))
    assert (
        f"in chunks Computers is {below['computers']:.1f} points below print and Cora "
        f"{below['cora']:.1f}, entry by entry {computers:.1f} and {cora:.1f} (by unrounded means)."
    ) in TEXT


def test_labels_and_seeds_of_the_pictures():
    real = ROWS[ROWS["dataset"].isin(GRAPHS)]
    dp_sage = (real["method"] == "sage") & (real["level"] == "node")
    shown = real[~dp_sage & (real["epsilon"].isin([1, 16, float("inf")]))]
    shown = shown[shown["level"].isin(["none", "edge", "k1", "k5", "k25", "node"])]
    shown = shown[(shown["level"] == "edge") == (shown["epsilon"] == 1)]
    assert set(shown.groupby(["dataset", "method", "level", "hyperparameters"]).size()) == {10}
    models = real[dp_sage].groupby("dataset").size().to_dict()
    assert models == dict.fromkeys(("cora", "chameleon", "squirrel", "photo", "pubmed"), 10)
    assert "DPDGC's Table 2, 10 seeds (test accuracy" in " ".join(TEXT.split())
    deltas = shown[shown["level"] != "none"].groupby(shown["level"] == "edge")["delta"]
    assert {edge: set(values) for edge, values in deltas} == {
        True: {1e-5, 1e-6, 1e-7},
        False: {1e-4, 1e-5},
    }
    assert "δ is 1e-5 to 1e-7 at edge level, 1e-4 or 1e-5 at k-neighbour and node level" in TEXT


def test_cells_that_are_off_print_on_the_authors_split():
    """The table's column is of the study on that split, and says "yes" where it is near print."""
    rows = read_rows(ROOT / "workflow/report/dpdgc-authors-split-rows.csv.gz")
    assert set(rows["split"]) == {"shared by torch"} and set(rows["study_seed"]) == {"12345"}
    sizes = rows.groupby(["dataset", "method", "level", "hyperparameters"]).size()
    many = sizes.xs(("cora", "sage", "node"))
    assert list(many) == [40] and (sizes == 10).sum() == len(sizes) - 1
    best, _ = select_best(rows)
    cells = 100 * best.groupby(["dataset", "method", "level"])["test_accuracy"].mean()
    lines = [line.strip("| ").split(" | ") for line in page.not_as_printed() if " | " in line][2:]
    told, yes = {}, set()
    titles = {title: graph for graph, title in page.GRAPHS.items()}
    for graph, method, privacy, _, there, printed, why in lines:
        level = {"EDP": "edge", "NDP": "node"}.get(method.rpartition("-")[2], "none")
        name = method.split("-")[0].lower() + ("official" if "its code" in method else "")
        if there != "–":
            told[titles[graph], name, level] = float(there.split()[0])
            near = abs(float(there.split()[0]) - float(printed.split()[0])) <= 2.5
            assert near == why.startswith("yes")
            yes |= {(graph, method, privacy)} if near else set()
    assert len(told) > 6 and len(yes) > 5
    for cell, mean_there in told.items():
        assert mean_there == pytest.approx(cells[cell], abs=0.06)


def test_what_dp_sage_has_with_rows_clipped():
    rows = pd.read_csv(ROOT / "workflow/report/dpsage-rows.csv.gz")
    assert set(rows["epsilon"]) == {16} and set(rows["epsilon_status"]) == {"refuted"}
    assert {json.loads(text)["clipping"] for text in rows["hyperparameters"]} == {"rows"}
    found = 100 * rows.groupby("dataset")["test_accuracy"].mean()
    assert rows.groupby("dataset").size().to_dict() == {"cora": 10, "photo": 10}
    assert f"Photo has {found['photo']:.1f} % (10 seeds, under the same labels" in TEXT
    assert f"Cora, where noise decides, has {found['cora']:.1f} % (" in TEXT


def test_mlp_dp_by_dpdgcs_accountant():
    """The noise of the rows is what DPDGC's classifier phase needs for MLP-DP's rounds, and the
    comparisons are those of the rows."""
    rows = pd.read_csv(ROOT / "workflow/report/mlp-poisson-rows.csv.gz", low_memory=False)
    sizes = {"cora": 2031, "pubmed": 14787, "chameleon": 1707, "computers": 10109, "photo": 5650,
             "squirrel": 3901}  # fmt: skip
    ratios, apart = [], {}
    for graph, mine in rows.groupby("dataset"):
        settings = json.loads(mine["hyperparameters"].iloc[0])
        theirs = rows_of(graph, "mlp", "node", 16)
        shared = json.loads(theirs["hyperparameters"].iloc[0])
        assert {name: shared[name] for name in settings} == settings
        rate, steps = dpsgd_rounds(sizes[graph], settings["batch_size"], settings["epochs"])
        clip = sensitivity.clipped_gradient_sum(1.0)
        phase = PoissonGroupDPSGD("classifier", rate, steps, 1, clip, 2.0, "classifier")
        plan = corrected_plan(
            "node", num_train=sizes[graph], batch_size=settings["batch_size"], epochs=1,
            classifier_epochs=settings["epochs"], max_grad_norm=1.0, max_degree=10,
        )  # fmt: skip
        assert any(
            (one.sampling_rate, one.steps, one.noise_per_clip) == (rate, steps, 2.0)
            for one in plan.mechanisms
            if getattr(one, "phase", "") == "classifier"
        )
        delta = mine["delta"].iloc[0]
        assert delta == theirs["delta"].iloc[0]
        needed = calibrate(replace(plan, mechanisms=(phase,)), 16, delta).noise_multiplier
        (used,) = mine["noise_multiplier"].unique()
        assert used == needed, graph
        ratios.append(theirs["noise_multiplier"].iloc[0] / used)
        assert len(mine) == len(theirs) == 10
        apart[graph] = mean(graph, "dpdgc", "k1", 16) - 100 * mine["test_accuracy"].mean()
        assert mean(graph, "dpdgc", "node", 16) < 100 * theirs["test_accuracy"].mean()
        assert theirs["test_accuracy"].mean() < mine["test_accuracy"].mean()
    assert f"{min(ratios):.1f} to {max(ratios):.1f} times the noise" in TEXT
    four = ["cora", "photo", "pubmed", "computers"]
    below = sorted(-apart.pop(graph) for graph in four)
    assert f"{below[0]:.1f} to {below[-1]:.1f} points below MLP-DP on Cora, Photo, Pubmed" in TEXT
    assert abs(apart["chameleon"]) < 1
    assert f"above it on Squirrel alone ({apart['squirrel']:.1f})" in TEXT
    labels = ["epsilon", "adjacency", "epsilon_basis", "epsilon_status"]
    assert set(rows[labels].itertuples(index=False, name=None)) == {
        (16, "node_replace", "corrected", "conditional")
    }
    assert "at ε = 16 (node_replace, corrected, conditional):" in " ".join(TEXT.split())
