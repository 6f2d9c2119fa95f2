"""The numbers of docs/dpa.md are those of the shipped rows, of calibration and of the formulas."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from graphdp.methods.dpa import numbers, page
from graphdp.methods.dpa.paper_tables import printed_cells
from graphdp.methods.dpa.plan import dpa_plan
from graphdp.parties import frames
from graphdp.parties.shares import link_bytes
from graphdp.privacy.accounting.closed_form import gaussian_epsilon

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs/dpa.md").read_text()
EPSILONS = (2, 4, 8, 10, math.inf)
METHODS = {
    "as its code runs it (claim refuted)": ("dpaofficial", "node", 10),
    "corrected, edge level, 10 and 8 rounds": ("dpa", "edge", 10),
    "corrected, edge level, 1 and 1": ("dpa", "edge", 1),
    "corrected, node level, 10 and 8 rounds": ("dpa", "node", 10),
    "corrected, node level, 1 and 1": ("dpa", "node", 1),
}


def test_the_table_is_that_of_the_rows():
    rows = pd.read_csv(ROOT / "workflow/report/dpa-rows.csv.gz")
    rows["rounds"] = [json.loads(text)["feature_layers"] for text in rows["hyperparameters"]]
    compared = []
    table = TEXT[TEXT.index("dpa.page:cora -->") : TEXT.index("## The paper's tables and figures")]
    for line in re.findall(r"^\| (?:as its code|corrected, ).*$", table, flags=re.MULTILINE):
        what, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        method, level, rounds = METHODS[what]
        for epsilon, cell in zip(EPSILONS, cells, strict=True):
            mine = rows[
                (rows["method"] == method)
                & (rows["level"] == ("none" if epsilon == math.inf else level))
                & (rows["rounds"] == rounds)
                & (rows["epsilon"] == epsilon)
            ]
            found = 100 * mine["test_accuracy"]
            assert cell == f"{found.mean():.1f} ({found.min():.1f} to {found.max():.1f})"
            compared += list(mine.index)
    assert set(compared) == set(rows.index)


def test_the_print_is_that_of_the_paper():
    (line,) = re.findall(r"^\| as printed \(Table 3\).*$", TEXT, flags=re.MULTILINE)
    assert line == "| as printed (Table 3) | 27.1 | 66.8 | 77.4 | 78.4 | 88.1 |"


@pytest.mark.parametrize(
    ("said", "level", "adjacency"),
    [
        (11.96, "edge", None),
        (20.72, "node", "participant"),
        (30.11, "node", "node_replace_own_list"),
    ],
)
def test_the_deviations_are_those_of_the_plans(said, level, adjacency):
    degree = {"max_degree": 6, "adjacency": adjacency} if level == "node" else {}
    assert f"{said:.2f}" in TEXT
    energy = sum(
        m.count * m.sensitivity.value**2 for m in dpa_plan(level, 10, 8, **degree).mechanisms
    )
    assert gaussian_epsilon(math.sqrt(energy) / said, 1e-5) == pytest.approx(2, abs=2e-3)


def test_the_bytes_are_those_of_the_formula():
    total = dict.fromkeys(link_bytes(0, 0, 0, 1, 3, 2), 0)
    for columns, rounds in ((64, 10), (7, 8)):
        for link, size in link_bytes(10_556, 0, 2_708, columns, 3, 2).items():
            total[link] += rounds * size
    assert [round(size / 1e6) for size in total.values()] == [121, 0, 119, 45]
    assert f"{frames.HEADER.size + frames.MAC_BYTES} bytes a frame" in TEXT


# --- Table 3 on Cora, CiteSeer and Computers ------------------------------------------------------

PUBLISHED = pd.read_csv(ROOT / "config/published/dpa-gnn.csv").query(
    "artefact == 'Table 3' and method == 'dpaofficial'"
)
BUDGETS = (2, 4, 6, 8, 10, math.inf)
GRAPHS = ("cora", "citeseer", "facebook-pages", "computers")


def study_rows():
    """The rows of Table 3: of the code those of the paper's rounds and D, and of no ablation."""
    rows = pd.read_csv(ROOT / "workflow/report/dpa-gnn-rows.csv.gz")
    settings = pd.DataFrame([json.loads(text) for text in rows["hyperparameters"]])
    absent = settings[["activation", "columns", "noise", "public", "scaling"]].isna().all(axis=1)
    default = absent & (settings["dummy_rate"].fillna(0.5) == 0.5)
    default &= (settings["parties"].fillna(3) == 3) & (settings["shares"].fillna(2) == 2)
    private = (rows["method"] == "dpaofficial") & (rows["level"] == "node")
    for name, values in DEFAULTS.items():
        default &= ~private | (settings[name] == rows["dataset"].map(values))
    # Two rounds are Figure 3's and Table 8's, odd ε Table 6's.
    default &= (settings["feature_layers"] != 2) & rows["epsilon"].isin(BUDGETS)
    return rows.join(settings[["feature_layers", "feature_share"]])[default]


DEFAULTS = {
    "feature_layers": {"cora": 10, "citeseer": 8, "facebook-pages": 6, "computers": 10},
    "label_layers": {"cora": 8, "citeseer": 10, "facebook-pages": 4, "computers": 2},
    "max_degree": {"cora": 6, "citeseer": 5, "facebook-pages": 11, "computers": 17},
}


def variant(rows, what):
    """The rows of a line of the table; without noise a variant has neither level nor share."""
    share = {"5 %": 0.05, "20 %": 0.2}.get(what.partition(",")[0])
    if share:
        mine = rows[(rows["method"] == "dpaofficial") & (rows["feature_layers"] > 2)]
        same = mine["feature_share"] == share
        return mine[same | (mine["feature_share"].isna() & (share == 0.05))]
    if what.startswith("MLP-DP"):
        return rows[rows["method"] == "mlp"]
    mine = rows[rows["method"] == "dpa"]
    if what.startswith("no graph"):
        return mine[mine["feature_layers"] == 0]
    mine = mine[mine["feature_layers"] > 0]
    once = mine["feature_layers"] == 1
    level = mine["level"] == "edge" if "edge level" in what else mine["level"] != "edge"
    return mine[level & (once if "1 and 1" in what else ~once)]


def test_the_papers_cells_are_those_of_the_rows_and_of_the_print():
    rows, used = study_rows(), []
    rows = rows[rows["method"].isin(["dpa", "dpaofficial", "mlp"])]  # others: Figure 7
    section = TEXT.partition("### Table 3\n")[2].partition("\n### ")[0]
    names = "Cora|CiteSeer|Facebook pages|Computers"
    lines = re.findall(rf"^\| ({names}), (.*?) \| (.*) \|$", section, flags=re.MULTILINE)
    for graph, what, cells in lines:
        graph = graph.lower().replace(" ", "-")
        own = rows[rows["dataset"] == graph]
        for epsilon, cell in zip(BUDGETS, cells.split(" | "), strict=True):
            if "as printed" in what:
                share = 0.2 if what.startswith("20") else 0.05
                found = PUBLISHED[
                    (PUBLISHED["dataset"] == graph)
                    & (PUBLISHED["setting"] == f"feature_share={share:g}")
                    & (PUBLISHED["epsilon"] == epsilon)
                ]
                expected = "–"
                if len(found):
                    expected = f"{found['mean'].item():.1f} ± {found['ci'].item():.1f}"
            else:
                mine = variant(own, what)
                mine = mine[mine["epsilon"] == epsilon]
                values = 100 * mine["test_accuracy"]
                expected = "–"
                if len(mine):
                    expected = f"{values.mean():.1f} ± {values.std():.1f}"
                    few = re.search(r"(\d+) seeds(?: \(∞: (\d+)\))?$", what)
                    models = int(few[2] or few[1]) if few and epsilon == math.inf else None
                    assert len(mine) == (models or (int(few[1]) if few else 10))
                used += list(mine.index)
            assert cell == expected, (graph, what, epsilon)
    assert len(used) == len(set(used)) == len(rows) > 0


def test_how_far_the_authors_code_is_from_the_print():
    """The counts and the largest gap that the text names."""
    rows = study_rows().query("method == 'dpaofficial' and level == 'node'")
    gaps = {}
    for one in PUBLISHED[PUBLISHED["dataset"].isin(DEFAULTS["max_degree"])].itertuples():
        mine = rows[
            (rows["dataset"] == one.dataset)
            & (rows["epsilon"] == float(one.epsilon))
            & (rows["feature_share"] == float(one.setting.partition("=")[2]))
        ]
        gap = 100 * mine["test_accuracy"].mean() - one.mean
        gaps[one.dataset, one.setting, float(one.epsilon)] = gap, abs(gap) <= one.ci
    assert len(gaps) == 40
    within = sum(fits for _, fits in gaps.values())
    furthest = min(gaps, key=lambda place: gaps[place][0])
    assert (furthest[0], furthest[2]) == ("cora", 4)
    text = re.sub(r"\s+", " ", TEXT)
    assert f"within its deviation in {within} of the 40 cells" in text
    readme = re.sub(r"\s+", " ", (ROOT / "README.md").read_text())
    fits, cells = page.within()
    assert f"As its code runs it {fits} of {cells} cells of Table 3" in readme
    assert (fits, cells) == (within, 40)
    assert f"{-gaps[furthest][0]:.1f} points below" in text
    highest = max(gaps, key=lambda place: gaps[place][0])
    assert highest == ("facebook-pages", "feature_share=0.05", 10)
    assert f"at most {gaps[highest][0]:.1f} points above" in text


def test_what_the_largest_sessions_take():
    """Of one machine; the formula's bytes are those that were counted."""
    found = [numbers.cost_of(size, "large") for size in numbers.LARGE]
    for size, one in zip(numbers.LARGE, found, strict=True):
        assert {link: one[link] for link in numbers.formula(size)} == numbers.formula(size)
    computers, more, pages, most, whole = (one["cpu"] for one in found)
    sent = sum(numbers.formula(numbers.LARGE[-1]).values())
    text = re.sub(r"\s+", " ", TEXT)
    assert f"sends {sent / 1e9:.1f} GB and takes {whole:.0f} CPU seconds" in text
    assert f"its 6 and 4 rounds by that {6 * whole / 60:.0f} minutes" in text
    assert (
        f"takes {more:.0f} and {most:.0f} CPU seconds, {more / computers:.0f} and "
        f"{most / pages:.0f} times what it takes without ({computers:.1f} and {pages:.1f})"
    ) in text


def test_what_a_model_takes_on_the_largest_graph():
    rows = study_rows().query("dataset == 'facebook-pages' and level == 'node'")
    code = rows[rows["method"] == "dpaofficial"].groupby("epsilon")["cpu_seconds"].mean()
    ours = rows[rows["method"] == "dpa"].groupby("feature_layers")["cpu_seconds"].mean()
    text = re.sub(r"\s+", " ", TEXT)
    assert (
        f"On Facebook pages, at node level, the code takes {code.min():.0f} to {code.max():.0f}, "
        f"corrected one round of each {ours[1]:.0f} and all of them {ours[6]:.0f}"
    ) in text
    assert f"Not reached in one process ({ours[6]:.0f}, below)" in text
    edge = study_rows().query("dataset == 'facebook-pages' and level == 'edge'")
    edge = edge.groupby(["feature_layers", "epsilon"])["cpu_seconds"].mean()
    whole, once = edge[6], edge[1]
    assert (
        f"Facebook pages take {whole.min():.0f} to {whole.max():.0f}, with one round of each "
        f"{once.min():.0f} to {once.max():.0f}."
    ) in text


def test_what_is_left_with_an_epsilon_that_holds():
    """By hand: the best of both numbers of rounds at each ε, beside MLP-DP at the same."""
    node = study_rows().query("level == 'node'")
    ours = node[node["method"] == "dpa"].groupby(["dataset", "epsilon", "feature_layers"])
    ours = 100 * ours["test_accuracy"].mean().groupby(["dataset", "epsilon"]).max()
    alone = node[node["method"] == "mlp"].groupby(["dataset", "epsilon"])["test_accuracy"].mean()
    below = 100 * alone - ours
    assert len(below) == below.notna().sum() == 20
    assert (
        f"at most {ours.max():.1f} % are left on any graph, everywhere {int(below.min())} points "
        "or more below MLP-DP"
    ) in page.came_out()
    assert page.came_out() in (ROOT / "README.md").read_text()


def test_what_a_graph_is_worth_and_what_a_model_takes():
    """Which cells reach the network without a graph, and CPU seconds, as the text has them."""
    rows, reach, beyond = study_rows(), set(), []
    for graph in ("citeseer", "cora", "facebook-pages", "computers"):
        own = rows[rows["dataset"] == graph]
        alone = own.loc[own["feature_layers"] == 0, "test_accuracy"].mean()
        claimed = own[(own["method"] == "dpaofficial") & (own["level"] == "node")]
        means = claimed.groupby(["epsilon", "feature_share"])["test_accuracy"].mean()
        reach |= {(graph, epsilon) for (epsilon, _), mean in means.items() if mean >= alone}
        beyond.append(100 * (means.max() - alone))
        server = own[own["method"] == "mlp"].groupby("epsilon")["test_accuracy"].mean()
        better = {e for (e, share), mean in means.items() if share == 0.05 and mean < server[e]}
        few = {"citeseer": {2, 4, 6, 8, 10}, "facebook-pages": {2, 4}}
        assert better == few.get(graph, {2})
    assert reach == {("cora", 8), ("cora", 10), *(("computers", e) for e in (6, 8, 10))}
    private = rows[rows["level"] == "node"]
    seconds = private.groupby(["dataset", "method", "feature_layers"])["cpu_seconds"].mean()
    said = [
        seconds[place]
        for place in (
            ("cora", "dpaofficial", 10),
            ("citeseer", "dpaofficial", 8),
            ("cora", "dpa", 10),
            ("citeseer", "dpa", 1),
        )
    ]
    text = re.sub(r"\s+", " ", TEXT)
    assert f"on Computers (there by {beyond[-1]:.1f} points at most)" in text
    own = rows[rows["dataset"] == "computers"]
    edge = own[own["level"] == "edge"]
    pages = rows[(rows["dataset"] == "facebook-pages") & (rows["level"] == "edge")]
    assert set(edge["delta"]) == set(pages["delta"]) == {1e-6}
    left = 100 * pages.groupby(["feature_layers", "epsilon"])["test_accuracy"].mean()
    assert (
        f"On Facebook pages {left[1].max():.1f} % are left with one round of each, "
        f"{left[6].max():.1f} with 6 and 4 (the same)."
    ) in text
    means = 100 * edge.groupby(["feature_layers", "epsilon"])["test_accuracy"].mean()
    alone = 100 * own.loc[own["feature_layers"] == 0, "test_accuracy"].mean()
    assert means.idxmax() == (1, 10)
    assert (
        f"{means.max():.1f} % with one round of each at ε = 10 (edge_undirected, corrected, "
        f"δ = 1e-6, conditional), {alone - means.max():.1f} points below the network"
    ) in text
    assert (
        "takes {:.1f} CPU seconds on Cora and {:.1f} on CiteSeer as its code runs it, corrected "
        "{:.1f} on Cora with 10 and 8 rounds and {:.1f} on CiteSeer with one of each".format(*said)
    ) in text
    once, whole = (seconds["facebook-pages", "dpa", rounds] for rounds in (1, 6))
    few, all_of_them = (seconds["computers", "dpa", rounds] for rounds in (1, 10))
    assert (
        f"corrected one round of each {once:.0f} and all of them {whole:.0f}, on Computers "
        f"{few:.0f} and {all_of_them:.0f}."
    ) in text


def test_naive_dp_sgd_takes_too_few_steps_to_leave_its_start(real_graph):
    """No ε has a mean above the largest class on two graphs; on Computers and, where it takes the
    most steps, on Facebook pages it is somewhat more."""
    rows = pd.read_csv(ROOT / "workflow/report/dpa-gnn-rows.csv.gz", low_memory=False)
    rows = rows[rows["method"] == "naiveofficial"]
    setting = json.loads(rows["hyperparameters"].unique().item())
    steps, above = {}, {}
    for name, mine in rows.groupby("dataset"):
        y = np.asarray(real_graph(name).y)
        steps[name] = setting["epochs"] * math.ceil(y.size // 2 / setting["batch_size"])
        means = mine.groupby("epsilon")["test_accuracy"].mean()
        assert len(means) == 5
        above[name] = 100 * (means.max() - np.bincount(y).max() / y.size)
    assert max(steps, key=steps.get) == "facebook-pages" and len(steps) == 4
    few, most = min(steps.values()), max(steps.values())
    text = " ".join(TEXT.split())
    assert f"takes {few} to {most} steps of .001 (five epochs, batches of 2,048)" in text
    assert setting["learning_rate"] == 0.001
    more = above.pop("facebook-pages")
    dense = above.pop("computers")
    assert set(above) == {"cora", "citeseer"} and max(above.values()) <= 0 < dense
    assert (
        "by the means of each ε no more than the largest class on Cora and CiteSeer, at most "
        f"{dense:.1f} points more on Computers, and at most {more:.1f} on Facebook pages, where it "
        "takes the most"
    ) in text


def test_what_is_said_of_methods_with_a_trusted_server():
    """Figure 7: best by validation, as the picture has it, and who is first and last."""
    all_rows = pd.read_csv(ROOT / "workflow/report/dpa-gnn-rows.csv.gz", low_memory=False)
    others = all_rows[~all_rows["method"].isin(["dpa", "dpaofficial"])]
    rows = study_rows()
    rows = pd.concat([rows[rows["method"].isin(["dpa", "dpaofficial"])], others])
    rows = rows[rows["level"] == "node"]
    once = (rows["method"] == "dpa") & (rows["feature_layers"] < 2)
    less = (rows["method"] == "dpaofficial") & (rows["feature_share"] != 0.05)
    labels = ["adjacency", "epsilon_basis", "epsilon_status"]
    told = rows.groupby("method")[labels].agg(lambda found: " / ".join(sorted(set(found))))
    holds = "corrected", "conditional"
    claim = "as_published", "refuted"
    assert set(rows["delta"]) == {1e-5}
    assert {method: tuple(its) for method, its in told.T.items()} == {
        **dict.fromkeys(("dpa", "mlp", "progap", "heterpoisson"), ("participant", *holds)),
        "dpdgc": ("node_replace", *holds),
        **dict.fromkeys(("dpaofficial", "heterpoissonofficial"), ("participant", *claim)),
        **dict.fromkeys(("gap", "naiveofficial"), ("node_add_remove", *claim)),
        "dpdgcofficial": ("node_replace", "as_implemented", "refuted"),
    }
    where = ["dataset", "method", "epsilon", "hyperparameters"]
    grouped = rows[~once & ~less].groupby(where)
    counts = grouped.size().reset_index(name="models")
    few = counts["dataset"].isin(["computers", "facebook-pages"])
    few &= ~counts["method"].isin(["dpa", "dpaofficial", "mlp"])
    assert set(counts.loc[few, "models"]) == {3} and set(counts.loc[~few, "models"]) == {10}
    means = grouped[["val_accuracy", "test_accuracy"]].mean().reset_index()
    best = means.loc[means.groupby(where[:3])["val_accuracy"].idxmax()]
    best = best.set_index(where[:3])["test_accuracy"].unstack("method")
    held = best[["dpa", "mlp", "gap", "progap", "heterpoisson", "dpdgc"]]
    claimed = best[["dpaofficial", "naiveofficial", "gap", "heterpoissonofficial", "dpdgcofficial"]]
    assert (held.idxmin(axis=1) == "dpa").all() and best.notna().all(axis=None)
    assert len(best) == 20
    first = held.idxmax(axis=1)
    ahead = {(graph, e) for (graph, e), method in first.items() if method == "mlp"}
    assert ahead == {
        ("cora", 2), *(("citeseer", e) for e in (2, 4, 6)), ("computers", 2), ("computers", 4)
    }  # fmt: skip
    assert set(first.drop("computers")) == {"mlp", "heterpoisson"}
    assert set(first["facebook-pages"]) == {"heterpoisson"}
    dense = held.loc["computers"].loc[6:]
    assert set(dense.idxmax(axis=1)) == {"progap"}
    more = 100 * (dense["progap"] - dense["mlp"])
    words = " ".join(TEXT.split())
    assert (
        f"ProGAP, {more.min():.1f} to {more.max():.1f} points ahead of MLP-DP (three models "
        "against ten;"
    ) in words
    first = claimed.idxmax(axis=1)
    ours = {(graph, e) for (graph, e), method in first.items() if method == "dpaofficial"}
    three = "cora", "computers", "facebook-pages"
    assert ours == {(graph, e) for graph in three for e in (4, 6, 8, 10)}
    least = 100 * (claimed["dpaofficial"] - claimed.drop(columns="dpaofficial").max(axis=1))
    told = f"(by the means, by {least['facebook-pages', 4]:.1f} points on the last, at 4)"
    assert told in words
    assert least[list(ours)].min() == least["facebook-pages", 4]
    assert (best["gap"] > best["dpaofficial"])["citeseer"].all()


def test_what_is_said_of_public_features_labels_and_edges():
    """Figures 3 to 6."""
    text = " ".join(TEXT[TEXT.index("### Where some of it is public") :].split())
    rows = pd.read_csv(ROOT / "workflow/report/dpa-gnn-rows.csv.gz", low_memory=False)
    settings = pd.DataFrame([json.loads(one) for one in rows["hyperparameters"]])
    rows = rows.join(settings[["public", "activation", "feature_layers", "label_layers"]])
    official = rows[rows["method"] == "dpaofficial"]

    def means(mine, *by):
        grouped = mine.groupby(["dataset", *by])["test_accuracy"]
        assert set(grouped.size()) == {10}
        return 100 * grouped.mean()

    claims = official[official["public"].notna()]
    labels = ["adjacency", "epsilon_basis", "epsilon_status", "delta"]
    assert set(claims[labels].itertuples(index=False, name=None)) == {
        ("participant", "as_published", "refuted", 1e-5)
    }
    two = rows["feature_layers"].eq(2) & rows["label_layers"].eq(2)
    held = rows[(rows["method"] == "dpa") & (rows["level"] == "edge") & two]
    plain = rows["level"].eq("none") & two & rows["activation"].isna()
    free = means(official[plain[official.index]])
    assert set(held[["dataset", *labels]].itertuples(index=False, name=None)) == {
        (graph, "edge_undirected", "corrected", "conditional", delta)
        for graph, delta in zip(GRAPHS, (1e-5, 1e-5, 1e-6, 1e-6), strict=True)
    }
    most = means(held, "epsilon").groupby("dataset").max()
    for words, of in (
        (
            "{:.1f} % on Cora, {:.1f} on CiteSeer, {:.1f} on Facebook pages, {:.1f} on Computers",
            free,
        ),
        ("at most {:.1f}, {:.1f}, {:.1f} and {:.1f} % are left", most),
    ):
        assert words.format(*(of[graph] for graph in GRAPHS)) in text
    assert held["epsilon"].max() == 8

    shown = means(official[official["public"] == "labels"], "epsilon")
    for graph, words in (
        ("cora", "Cora has {:.1f} to {:.1f} %"),
        ("citeseer", "CiteSeer {:.1f} to {:.1f}"),
        ("facebook-pages", "Facebook pages {:.1f} to {:.1f}"),
    ):
        assert words.format(shown[graph].min(), shown[graph].max()) in text, graph
    least = min(shown["computers", 4.001], shown["computers", 8.001])
    rest = [
        shown["computers", e] for e in (4.1, 5.0, 6.0, 8.1, 9.0, 10.0)
    ]  # ε_e of 4 or 8, and ε_h
    assert f"Computers {least:.1f} or more at 0.001" in text
    assert f"at 0.001, and {min(rest):.1f} to {max(rest):.1f} from 0.1 on" in text
    noise = official[(official["public"] == "labels") & (official["epsilon"] == 4.001)]
    noise = noise.loc[noise["dataset"] == "cora", "noise_multiplier"].unique()
    scale = math.sqrt(2 * math.log(1.25 / 1e-5)) * math.sqrt(2 * 6)
    assert (
        noise == pytest.approx(1000)
        and f"{1000 * scale:,.0f} on Cora where rows have norm 1" in text
    )

    shown = means(official[official["public"] == "features"], "epsilon")
    ends = {graph: min(shown[graph, 8.0], shown[graph, 12.0]) for graph in shown.index.levels[0]}
    assert (
        f"{ends['cora']:.1f} % on Cora, {ends['citeseer']:.1f} on CiteSeer, "
        f"{ends['facebook-pages']:.1f} on Facebook pages and {ends['computers']:.1f} on Computers "
        "at 4"
    ) in text
    largest = {"cora": 30.2, "citeseer": 21.1, "computers": 37.2}  # tested above, with real graphs
    assert all(shown[graph, e] < largest[graph] for graph in largest for e in (4.1, 8.1))
    start = min(shown["facebook-pages", e] for e in (4.1, 8.1))
    assert start > 30.6
    assert (
        "from less than the largest class at a claimed 0.1 (but on Facebook pages, where "
        f"{start:.1f} % are right and that class is 30.6)"
    ) in text

    shown = means(official[official["public"] == "edges"], "epsilon")
    private = study_rows()
    private = private[(private["method"] == "dpaofficial") & (private["feature_share"] == 0.05)]
    private = means(private, "epsilon")
    for graph, words in (
        ("cora", "Cora has {:.1f} % ({:.1f} where they are private)"),
        ("citeseer", "CiteSeer {:.1f} ({:.1f})"),
        ("facebook-pages", "Facebook pages {:.1f} ({:.1f})"),
        ("computers", "Computers {:.1f} ({:.1f})"),
    ):
        assert words.format(shown[graph, 2.0], private[graph, 2.0]) in text
        assert all(abs(shown[graph, e] - private[graph, e]) <= 2 for e in (8.0, 10.0))
    assert set(official.loc[official["public"] == "edges", "seed"]) == set(range(10))


#: As the text writes them.
NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


def off_print(graph):
    """Of the cells of `page.ablations` that have models: (line, claimed ε) -> points that the
    authors' code is above print, unrounded, and the printed deviation."""
    found = {}
    for name, lines in page._ABLATIONS.items():
        for line in lines:
            means = 100 * page._of(line, graph).groupby("epsilon")["test_accuracy"].mean()
            for cell, one in printed_cells(page._context(), name, line).items():
                if cell[0] == graph and cell[3] in means:
                    gap = means[cell[3]] - one["published_mean"]
                    place = f"{name}: {line.group or line.title}", cell[3]
                    found[place] = gap, one["published_ci"]
    return found


def ablations(graph):
    """A graph's section in one line, and of each of its cells (ours less print, printed deviation),
    unrounded."""
    section = TEXT.partition(f"### Ablations on {graph}")[2].partition("\n##")[0]
    fits = off_print(graph.lower().replace(" ", "-"))
    return " ".join(section.split()), fits


@pytest.mark.parametrize("graph", ["Cora", "CiteSeer", "Computers", "Facebook pages"])
def test_unrounded_gaps_are_those_of_the_tables(graph):
    """By the cells as they stand in a table, each of which is off by 0.05 at most."""
    section = TEXT.partition(f"### Ablations on {graph}")[2].partition("\n##")[0]
    shown = {}
    for what, budgets, printed, ours in re.findall(
        r"^\| (Table .*?) \| (.*?) \| (.*?) \| (.*?) \|$", section, flags=re.MULTILINE
    ):
        columns = [text.replace("∞", "inf").split(", ") for text in (budgets, printed, ours)]
        for epsilon, theirs, mine in zip(*columns, strict=True):
            if mine != "–":
                mean, deviation = map(float, theirs.split(" ± "))
                shown[what, epsilon] = float(mine.split(" ± ")[0]) - mean, deviation
    _, fits = ablations(graph)
    assert set(fits) == set(shown) and len(fits) >= 20
    for place, found in fits.items():
        assert found == pytest.approx(shown[place], abs=0.101), place


@pytest.mark.parametrize("graph", ["Cora", "CiteSeer", "Computers", "Facebook pages"])
def test_how_many_cells_of_the_ablations_are_within_the_print(graph):
    section, fits = ablations(graph)
    beyond = {place: gap for place, (gap, deviation) in fits.items() if abs(gap) > deviation}
    within = (
        f"{len(fits) - len(beyond)} of these {len(fits)} cells lie within the printed deviation"
    )
    assert within in section
    if graph in ("Computers", "Facebook pages"):
        assert sum(deviation <= 1 for _, deviation in fits.values()) > len(fits) / 2
        near = sum(abs(gap) <= 2.5 for gap, _ in fits.values())
        assert f"which is a point or less for most of them, and {near} within 2.5 points" in section
    below = {place: gap for place, gap in beyond.items() if gap < 0}
    above = {place: gap for place, gap in beyond.items() if gap > 0}
    most = max(float(epsilon) for _, epsilon in below)
    if graph == "Cora":
        count, budgets = NUMBERS[len(below)], {float(epsilon) for _, epsilon in above}
        assert (
            f"{count.capitalize()} of the other {len(beyond)} lie below, and have a claimed ε of "
            f"{most:g} or less. {NUMBERS[len(above)].capitalize()} lie above, at a claimed "
            f"{min(budgets):g} or {max(budgets):g}: "
        ) in section
        assert len(budgets) == 2
        few = above.pop(("Table 9: 10 columns", "8"))
        assert (
            f"{NUMBERS[len(above)]} by {min(above.values()):.1f} to {max(above.values()):.1f} "
            f"points; with 10 columns it is {NUMBERS[round(few)]} points"
        ) in section
    if graph == "CiteSeer":
        assert f"({NUMBERS[len(below)]} cells, at {most:g} or less), most where sums" in section
        assert "raw degrees" in min(below, key=below.get)[0]
        assert list(above) == [(f"Table 9: {few} columns", "8") for few in (10, 50, 100)]
        assert "10, 50 and 100." in section


def test_which_cells_of_computers_are_far_from_print():
    section, fits = ablations("Computers")
    far = {place: gap for place, (gap, _) in fits.items() if abs(gap) > 2.5}
    raw = [far.pop(place) for place in list(far) if "raw" in place[0]]
    assert len(raw) == 5
    names = [("Table 6: α of clipped degrees", "3"), ("Table 6: α of dummy degrees", "3"),
             ("Table 4: t/m = 3/4", "4"), ("Table 9: 10 columns", "8")]  # fmt: skip
    assert set(far) == set(names)
    clipped, dummy, shares, columns = map(far.get, names)
    assert (
        f"Of the other {NUMBERS[len(raw) + len(far)]}, sums scaled by raw degrees are "
        f"{-max(raw):.0f} to {-min(raw):.0f} points below print at every claimed ε; a claimed 3 is "
        f"{-clipped:.0f} below with clipped degrees and {-dummy:.0f} with dummy degrees; t/m = 3/4 "
        f"at a claimed 4 is {-shares:.2f} below; 10 columns are {columns:.0f} above."
    ) in section


def test_what_has_run_of_the_ablations_on_facebook_pages():
    section, fits = ablations("Facebook pages")
    tables = [table.partition(":")[0] for table, _ in fits]
    assert {name: tables.count(name) for name in tables} == {
        "Table 4": 8, "Table 6": 15, "Table 7": 5, "Table 8": 1, "Table 9": 6
    }  # fmt: skip
    raw = {e: fits["Table 6: α of raw degrees", e][0] for e in ("3", "5", "7", "9", "11")}
    assert raw.pop("3") < 0
    assert f"by {min(raw.values()):.0f} to {max(raw.values()):.0f} from a claimed 5 on." in section
    gaps = [round(fits[f"Table 9: {columns} columns", "8"][0]) for columns in (50, 100)]
    assert f"by {gaps[0]} points with 50 and {gaps[1]} with 100; with raw" in section
    rows = pd.read_csv(ROOT / "workflow/report/dpa-gnn-rows.csv.gz", low_memory=False)
    rows = rows[(rows["dataset"] == "facebook-pages") & (rows["method"] == "dpaofficial")]
    usual = f'"max_degree":{DEFAULTS["max_degree"]["facebook-pages"]},'
    rows = rows[rows["hyperparameters"].str.contains(usual, regex=False)]
    rates = rows["hyperparameters"].str.contains(r'"dummy_rate":0\.[1379],')  # Figure 10's
    chosen = rows["hyperparameters"].str.contains(r'"feature_layers":6,.*"label_layers":4,')
    rows = rows[~rates & (chosen | (rows["level"] != "node"))]  # the others are Figure 8's
    models = rows.groupby(["level", "epsilon", "hyperparameters"]).size()
    scaled = models[models.index.get_level_values("hyperparameters").str.contains("scaling")]
    assert set(scaled) == {3} and "Table 4 is Table 3's), of Table 6 three." in section
    own = models.index.get_level_values("epsilon").isin([3, 5, 7, 9, 11])
    assert set(models[own]) <= {3, 10} and set(models[~own]) == {10}


def test_the_learning_rate_decides_what_few_columns_give():
    """Print is between the code's and the paper's, and near a rate that neither names."""
    rows = pd.concat(
        pd.read_csv(ROOT / f"workflow/report/{name}-rows.csv.gz", low_memory=False)
        for name in ("dpa-columns", "dpa-gnn")
    )
    settings = pd.json_normalize(rows["hyperparameters"].map(json.loads).tolist())
    rows = rows.assign(**settings[["columns", "learning_rate", "weight_decay"]].to_dict("list"))
    few = rows[rows["columns"].notna() & rows["dataset"].isin(["cora", "citeseer"])]
    assert set(few["epsilon"]) == {8} and set(few["method"]) == {"dpaofficial"}
    assert few.groupby("learning_rate")["weight_decay"].unique().map(list).to_dict() == {
        0.0005: [0.01], 0.001: [0.0005], 0.01: [0.0005]
    }  # fmt: skip
    models = few.groupby(["dataset", "columns", "learning_rate"])["test_accuracy"]
    assert set(models.size()) == {10}
    means = (100 * models.mean()).unstack()
    printed = pd.read_csv(ROOT / "config/published/dpa-gnn.csv")
    printed = printed[(printed["artefact"] == "Table 9") & (printed["setting"] != "columns=all")]
    printed = printed.assign(columns=printed["setting"].str.removeprefix("columns=").astype(float))
    printed = printed.set_index(["dataset", "columns"])["mean"].reindex(means.index)
    off = means.sub(printed, axis=0)
    beyond = off[(off[0.0005] > 0) | (off[0.01] < 0)]
    beyond = beyond[beyond.index.get_level_values("columns") <= 100]
    assert list(beyond.index) == [("citeseer", 50)]
    text = re.sub(r"\s+", " ", TEXT)
    assert f"but for 50 on CiteSeer, which is {beyond[0.0005].iloc[0]:.1f} below;" in text
    most = off[0.001].abs().max()
    assert len(off) == 10 and f"all ten are within {math.ceil(10 * most) / 10:.1f} points" in text
    assert most < off[0.01].abs().max() / 2


def test_cora_stays_below_print_with_other_seeds_too():
    rows = pd.read_csv(ROOT / "workflow/report/dpa-four-rows.csv.gz")
    assert set(rows["study_seed"]) == {1} and set(rows.groupby("hyperparameters").size()) <= {
        10,
        30,
    }
    settings = pd.json_normalize(rows["hyperparameters"].map(json.loads).tolist())
    # Table 6's with dummy degrees at 3 and 5, Table 3's with 5 % at 4.
    printed = {3: 52.5, 4: 66.8, 5: 71.9}
    table = TEXT[TEXT.index("dpa.page:four") :]
    table = table[: table.index("<!-- end -->")]
    usual = (settings["max_degree"] == 6) & (settings["learning_rate"] == 0.01)
    means = {}
    for epsilon, theirs in printed.items():
        mine = 100 * rows.loc[(rows["epsilon"] == epsilon) & usual, "test_accuracy"]
        means[epsilon] = mine.mean()
        assert len(mine) == 10 and f"{mine.mean():.1f} ± {mine.std():.1f}" in table
        assert f"{theirs} ± " in table
        # By more than two deviations of a mean of ten.
        assert theirs - mine.mean() > 2 * mine.std() / 10**0.5
    for other in (settings["max_degree"] == 5, settings["learning_rate"] == 0.0005):
        mine = 100 * rows.loc[other, "test_accuracy"]
        assert len(mine) == 10 and f"{mine.mean():.1f} ± {mine.std():.1f}" in table
        assert mine.mean() < means[4] + mine.std() / 10**0.5
    assert "So it is no chance, and neither D nor the paper's own learning rate" in TEXT


def _corrected(level="node"):
    """Graph -> the best mean accuracy at an ε that holds, in percent."""
    rows = pd.read_csv(ROOT / "workflow/report/dpa-gnn-rows.csv.gz", low_memory=False)
    rows = rows[(rows["method"] == "dpa") & (rows["level"] == level)]
    means = rows.groupby(["dataset", "epsilon", "hyperparameters"])["test_accuracy"].mean()
    return (100 * means).groupby("dataset").max()


def test_what_is_left_is_less_than_the_largest_class(real_graph):
    best, largest = _corrected(), {}
    for graph in best.index:
        labels = np.asarray(real_graph(graph).y)
        largest[graph] = 100 * np.bincount(labels[labels >= 0]).max() / (labels >= 0).sum()
        assert best[graph] < largest[graph]
    order = ("citeseer", "cora", "facebook-pages", "computers")
    told = "at most {:.1f} % are right on CiteSeer and {:.1f} on Cora".format(*best[[*order[:2]]])
    said = re.sub(r"\s+", " ", TEXT)
    assert told in said
    assert "{:.1f} % on Facebook pages, and {:.1f} on Computers".format(*best[[*order[2:]]]) in said
    assert "({:.1f}, {:.1f}, {:.1f} and {:.1f} %)".format(*map(largest.get, order)) in said
    above = [best["citeseer"] - 100 / 6, best["cora"] - 100 / 7]
    assert min(above) > 0.5 and max(above) < 3
    assert "one to three points more than a guess among six or seven classes" in said


def means_by_rounds(graph, epsilons=(4, 8)):
    """Figure 8: claimed ε -> mean accuracies in percent, rounds of features by those of labels."""
    rows = pd.read_csv(ROOT / "workflow/report/dpa-gnn-rows.csv.gz", low_memory=False)
    rows = rows[(rows["dataset"] == graph) & (rows["method"] == "dpaofficial")]
    rows = rows[rows["level"] == "node"].reset_index(drop=True)
    settings = pd.json_normalize(rows["hyperparameters"].map(json.loads).tolist())
    names = ["feature_layers", "label_layers", "dummy_rate"]
    rows = rows.join(settings[names])
    plain = settings.drop(columns=names).astype(object).fillna("").astype(str)
    usual = plain.mode().iloc[0]
    rows = rows[(plain == usual).all(axis=1) & rows["dummy_rate"].eq(0.5)]
    rows = rows[rows["epsilon"].isin(epsilons)]
    means = 100 * rows.groupby(["epsilon", *names[:2]])["test_accuracy"].mean()
    found = {epsilon: grid.droplevel(0).unstack() for epsilon, grid in means.groupby("epsilon")}
    assert [table.shape for table in found.values()] == [(5, 5)] * len(epsilons)
    assert all(table.notna().all(axis=None) for table in found.values())
    return found


def test_more_rounds_are_what_the_text_says():
    words = " ".join(TEXT.split())
    for graph in ("cora", "citeseer"):
        for axis in (0, 1):
            grids = means_by_rounds(graph).values()
            better = [np.diff(table, axis=axis).ravel() > 0 for table in grids]
            assert 0.7 < np.mean(better) < 1
    assert "Cora and CiteSeer (not drawn) more rounds are mostly better, in both streams" in words
    four, eight = means_by_rounds("computers").values()
    assert all(np.mean(np.diff(table, axis=0) > 0) > 0.8 for table in (four, eight))
    assert (np.diff(eight, axis=1) < 0).all()
    assert set(four.idxmax(axis=1)) == {2, 4}
    first, last = eight.loc[10, 2], eight.loc[10, 10]
    said = f"with 10 of these from {first:.1f} % at 2, the paper's choice, to {last:.1f} at 10; at"
    assert said in words
    pages, more = means_by_rounds("facebook-pages").values()
    assert set(pages.idxmax(axis=1)) == {4, 6} and set(more.idxmax(axis=1)) == {2, 4}
    assert (more.stack().idxmax(), more.max(axis=None)) == ((10, 2), more.loc[10, 2])
    best = f"with 2 of labels have {more.loc[10, 2]:.1f} %, the paper's choice {more.loc[6, 4]:.1f}"
    assert best in words
    assert np.mean(np.diff(pages, axis=0) > 0) > 0.7
    near = pages.loc[4:, 4]
    assert (
        f"all are within {math.ceil(10 * (near.max() - near.min())) / 10:.1f} points, "
        f"{near[10]:.1f} % at 10 and {near[6]:.1f} at 6, the paper's choice"
    ) in words


def test_the_best_rates_of_dummies_are_those_of_the_rows():
    """Figure 10: at every claimed ε, on each graph that has it."""
    rows = pd.read_csv(ROOT / "workflow/report/dpa-gnn-rows.csv.gz", low_memory=False)
    settings = pd.DataFrame([json.loads(text) for text in rows["hyperparameters"]])
    asked = {"feature_share": 0.05, "parties": 3, "shares": 2}
    kept = (rows["method"] == "dpaofficial") & (rows["level"] == "node")
    kept &= settings[["activation", "columns", "noise", "public", "scaling"]].isna().all(axis=1)
    for name, value in asked.items():
        kept &= settings[name] == value
    best, lost = {}, {}
    for graph in ("cora", "citeseer", "computers", "facebook-pages"):
        here = kept & (rows["dataset"] == graph) & rows["epsilon"].isin([4, 6, 8, 10])
        for name, values in DEFAULTS.items():
            here &= settings[name] == values[graph]
        accuracy = 100 * rows["test_accuracy"][here]
        means = accuracy.groupby([rows["epsilon"], settings["dummy_rate"]]).mean().unstack()
        counts = accuracy.groupby([rows["epsilon"], settings["dummy_rate"]]).size().unstack()
        few = counts.columns != (0.5 if graph == "facebook-pages" else counts.columns)
        assert set(counts.loc[:, few].stack()) <= {3} and set(counts.loc[:, ~few].stack()) == {10}
        assert means.shape == (4, 5)
        best[graph] = means.idxmax(axis=1)
        few = means.drop(columns=0.9)
        lost[graph] = (few.max(axis=1) - few.min(axis=1)).max()
    words = " ".join(TEXT.split())
    (usual,) = set(best["citeseer"])
    (other,) = best["cora"].index[best["cora"] != usual]
    assert (
        f"The best r on Cora is {usual}, at a claimed {other:g} "
        f"{best['cora'][other]}; on CiteSeer (not drawn) {usual} at every claimed ε; on Computers "
        "(not drawn) {}, {}, {} and {} at a claimed 4, 6, 8 and 10, ".format(*best["computers"])
        + f"where up to 0.7 all are within {math.ceil(10 * lost['computers']) / 10:.1f} points; on "
        + "Facebook pages, with three seeds (0.5 has ten), {}, {}, {} and {}, ".format(
            *best["facebook-pages"]
        )
        + f"and up to 0.7 all are within {math.ceil(10 * lost['facebook-pages']) / 10:.1f} points."
    ) in words


def test_bytes_of_what_was_not_run_are_those_of_the_formula():
    """Facebook pages with all columns, which no shipped line has: a round of each stream, and all
    with 2.8 million dummies."""
    text = " ".join(TEXT.split())

    def sent(dummies, features, labels):
        sizes = 152_097, dummies, 22_470
        of = [link_bytes(*sizes, columns, 3, 2) for columns in (4714, 4)]
        return features * sum(of[0].values()) + labels * sum(of[1].values())

    assert f"with all 4,714 columns sends {sent(0, 1, 1) / 1e9:.1f} GB" in text
    assert "1.7 million on Computers and 2.8 on Facebook pages" in text
    assert f"with dummies {sent(2_800_000, 6, 4) / 1e12:.1f} TB, by the formula: not run" in text


def test_everything_has_models():
    """By docs/coverage.md, which is made from the rows: the page names nothing as missing."""
    told = " ".join(TEXT[TEXT.index("## What is not here yet") :].split())
    coverage = (ROOT / "docs/coverage.md").read_text()
    table = coverage.partition("redraw:coverage dpa-gnn -->")[2].partition("<!-- end -->")[0]
    runs = re.findall(r"^\| [^|]* \| `[^|]*` \| [^|]* \| (\d+) of (\d+) \|", table, re.MULTILINE)
    assert len(runs) >= 20 and all(int(some) > 0 for some, _ in runs)
    assert "on Facebook pages " not in told and "on Computers " not in told


def by_degree_bound(graph):
    """Figure 9: of each claimed ε and D the test accuracies, in percent."""
    rows = pd.read_csv(ROOT / "workflow/report/dpa-gnn-rows.csv.gz", low_memory=False)
    settings = pd.DataFrame([json.loads(text) for text in rows["hyperparameters"]])
    asked = {"feature_share": 0.05, "dummy_rate": 0.5, "parties": 3, "shares": 2}
    asked |= {name: DEFAULTS[name][graph] for name in ("feature_layers", "label_layers")}
    kept = (rows["method"] == "dpaofficial") & (rows["level"] == "node")
    kept &= rows["epsilon"].isin([4, 6, 8, 10]) & (rows["dataset"] == graph)
    kept &= settings[["activation", "columns", "noise", "public", "scaling"]].isna().all(axis=1)
    for name, value in asked.items():
        kept &= settings[name] == value
    accuracy = 100 * rows["test_accuracy"][kept]
    return accuracy.groupby([rows["epsilon"], settings["max_degree"]])


def test_the_best_degree_bounds_are_those_of_the_rows():
    """Figure 9: at every claimed ε."""
    bounds = {"cora": (6, 169), "citeseer": (5, 100), "computers": (17, 2993)}
    words = " ".join(TEXT.split())
    for graph, (best, whole) in bounds.items():
        models = by_degree_bound(graph)
        means = models.mean().unstack()
        assert set(models.size()) == {10} and len(models) == means.size in (16, 20)
        assert (means.idxmax(axis=1) == best).all()
        if graph == "computers":
            cut = means.drop(columns=whole)
            lost = (cut.max(axis=1) - cut.min(axis=1)).max()
            assert lost == pytest.approx(1.7, abs=0.05) and "within 1.7 points" in words
            assert (cut.max(axis=1) - means[whole]).min() > 28
    assert "the best D on Cora is 6, as in the paper's Figure 9 (c = 80 %), on CiteSeer 5" in words
    assert "on Computers 17 (40 %)" in words and "no cut at all costs 28 points or more" in words


def test_the_best_degree_bounds_of_facebook_pages():
    models = by_degree_bound("facebook-pages")
    means = models.mean().unstack()
    counts = models.size().unstack()
    assert set(counts.pop(11)) == {10} and set(counts.stack()) == {3}
    assert list(means.index) == [4, 6, 8, 10] and set(counts) == {3, 6, 23, 710}
    best = means.idxmax(axis=1)
    assert best.pop(6) == 6 and set(best) == {11} and 0 < means.loc[6, 6] - means.loc[6, 11] < 0.1
    words = " ".join(TEXT.split())
    assert "with three seeds (11 has ten), it is 11 (60 %), the paper's choice, but at" in words
    assert "but at a claimed 6, where it is 6 (40 %) by less than a tenth of a point" in words
    lost = means.max(axis=1) - means[710]
    assert f"no cut at all costs {int(lost.min())} points or more. CiteSeer's" in words


def test_which_clipping_rates_of_citeseer_share_a_degree_bound(real_graph):
    degrees = np.diff(real_graph("citeseer").indptr) + 1
    rates = (0.2, 0.4, 0.6, 0.8, 1)
    bounds = [numbers.degree_at(degrees, rate) for rate in rates]
    (shared,) = {bound for bound in bounds if bounds.count(bound) > 1}
    first, second = (100 * rate for rate, at in zip(rates, bounds, strict=True) if at == shared)
    assert len(set(bounds)) == 4
    words = f"four D for five c, since {first:g} and {second:g} % both give {shared}."
    assert words in " ".join(TEXT.split())
