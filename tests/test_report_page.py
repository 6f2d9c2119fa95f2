"""The report as a page: what it shows, and how it behaves in a browser at two widths."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from graphdp.paper import report as page_of
from graphdp.paper import rows
from graphdp.paper.artefacts import draw_all
from graphdp.paper.markdown import has_long_word, to_html
from graphdp.paper.printing import to_latex, to_markdown
from graphdp.paper.shipped import FOLDER, shipped_context, shipped_rows
from graphdp.paper.tables import tables

STATEMENT = """# Privacy statement: gap on cora, edge level

Calibrated for ε = 1 at δ = 1e-05 (as_published, edge_directed); `noise` **3.7**.

- Data: cora & <others>
- Settings: hops 1

| basis | adjacency | ε | assumptions |
| --- | --- | --- | --- |
| as_published | edge_directed | 1 |  |

1. The first assumption, of_a_very_long_word_that_does_not_break_by_itself_in_any_way_at_all.
"""
#: As long as GAP's at node level: a setting's part of it, with words that a narrow column breaks.
SETTING = """# Privacy statement, release: reproduction: gap on cora, node level

Calibrated for ε = 2 at δ = 0.0001 (as_published, node_add_remove); noise multiplier 3.668.

- Settings: batch_size 256, hops {hops}, max_degree 100

## Accounting

| basis | adjacency | ε | claimed ε | δ | status | own row | method | assumptions |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| as_implemented | node_add_remove | none | 1.907 | 0.0001 | refuted | does not apply | Rényi DP, \
Poisson amplification, as removal and addition (group privacy) (autodp 0.2.3.1) | 5, 1, 2, 3, 4 |
| corrected | node_replace | 4.648 | 4.648 | 0.0001 | conditional | no | exact Gaussian | 8, 7 |

## Mechanisms

| phase | query | count | sampling rate | sensitivity | source | noise std |
| --- | --- | --- | --- | --- | --- | --- |
| aggregation | sum of in-neighbours' unit-norm rows, each with a weight that the degrees of both \
of its ends determine | {hops} | – | 10 = sqrt(max_degree) (L2) | graphdp.privacy.perturbed_sums, \
proof there | 36.68 |
"""
COMMAND = "snakemake --cores all --configfile config/papers/dpdgc.yaml"
PAPERS = {
    "dpdgc": (
        ["cora"],
        ("accuracy", "scorecard", "dpdgc_table2", "orderings"),
        # One of the figures has nothing of Cora.
        ("dpdgc_table2", "dpdgc_figure3a", "scorecard"),
        COMMAND,
    ),
    # Its first tables have no column of accuracies, and the page six graphs beside one another.
    "gap": (
        ["cora", "berkeley13", "pubmed"],
        ("table2", "table3", "accuracy", "scorecard", "orderings", "attack_orderings"),
        ("figure6",),
        "snakemake --cores 1 all --configfile config/papers/gap.yaml --config "
        "known_rows=[workflow/report/gap-rows.csv.gz,workflow/report/gap-attacks.csv.gz] "
        "train=false datasets=[cora,berkeley13,pubmed] mirror=/a/folder/with/the/files/of/graphs",
    ),
}


def _made(paper, folder):
    """A paper's report of its shipped rows, with statements of an edge and of a node."""
    datasets, names, figures, command = PAPERS[paper]
    mine = shipped_rows(f"{paper}-rows.csv.gz").query("dataset in @datasets")
    rows.write_rows(mine.reset_index(drop=True), folder / "rows.csv")
    attacks = {}
    if paper == "gap":
        of_all = pd.read_csv(FOLDER / "gap-attacks.csv.gz", dtype=str, keep_default_na=False)
        of_all.query("dataset in @datasets").to_csv(folder / "attacks.csv", index=False)
        attacks = {"attacks": folder / "attacks.csv"}
    for level, epsilons in (("edge", ("1", "16", "2")), ("node", ("8",))):
        (folder / f"statements/cora/gap/{level}").mkdir(parents=True)
        for epsilon in epsilons:
            parts = (SETTING.format(hops=hops) for hops in range(1, 6))
            text = STATEMENT if level == "edge" else "\n---\n\n".join(parts)
            (folder / f"statements/cora/gap/{level}/{epsilon}.md").write_text(text)
    draw_all(
        {"rows": folder / "rows.csv", **attacks},
        shipped_context(f"config/papers/{paper}.yaml", datasets),
        [f"{folder}/{name}.{kind}" for name in names for kind in ("csv", "md", "tex")],
        [f"{folder}/{figure}.{kind}" for figure in figures for kind in ("svg", "png")],
        folder / "report.html",
        [folder / "statements/cora"],
        command,
    )
    return folder / "report.html"


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Paper -> its report, made at the first asking."""
    made = {}

    def of(paper):
        if paper not in made:
            made[paper] = _made(paper, tmp_path_factory.mktemp(paper))
        return made[paper]

    return of


@pytest.fixture(scope="module")
def report(reports):
    """Of DPDGC's shipped rows of Cora."""
    return reports("dpdgc")


def test_statements_become_html_and_nothing_else_does():
    made = to_html(STATEMENT)
    assert "<h3>Privacy statement: gap on cora, edge level</h3>" in made
    assert "<code>noise</code> <strong>3.7</strong>" in made
    assert "<ul><li>Data: cora &amp; &lt;others&gt;</li><li>Settings: hops 1</li></ul>" in made
    assert '<td data-label="ε">1</td><td data-label="assumptions"></td></tr>' in made
    assert "<ol><li>The first assumption" in made


@pytest.mark.slow
def test_the_page_says_when_how_and_of_which_commits_it_was_made(report):
    page = report.read_text()
    assert re.search(r"page made</dt><dd>\d\d \w+ 20\d\d, \d\d:\d\d UTC", page)
    assert f"<dd>{COMMAND}</dd>" in page
    commits = set(rows.read_rows(report.parent / "rows.csv")["git_commit"])
    assert commits and all(commit in page for commit in commits)


@pytest.mark.slow
def test_statements_are_linked_and_stand_in_the_page_in_the_order_of_their_epsilon(report):
    page = report.read_text()
    links = re.findall(r'<a href="(statements/[^"]+)">', page)
    edge = [f"statements/cora/gap/edge/{epsilon}.md" for epsilon in (1, 2, 16)]
    assert links == [*edge, "statements/cora/gap/node/8.md"]
    assert (report.parent / links[0]).read_text() == STATEMENT
    assert "<summary>cora, GAP-EDP (edge level, target ε 1)</summary>" in page
    assert page.count("Privacy statement: gap on cora, edge level") == 3
    assert "its file alone" not in page and "too large" not in page


def test_the_statements_of_a_cell_open_setting_by_setting(report):
    """Named by what they differ in; all five are in the page."""
    (cell,) = re.findall(
        r"GAP-NDP \(node level, target ε 8\)</summary>.*?</section>", page_text(report)
    )
    names = re.findall("<details><summary>([^<]+)</summary>", cell)
    assert names == [f"hops {hops}" for hops in range(1, 6)]
    assert cell.count("<h3>Privacy statement, release: reproduction: gap on cora") == 5


def page_text(report):
    return report.read_text().replace("\n", " ")


def test_a_grid_as_large_as_a_papers_has_its_statements_in_the_page(tmp_path):
    """GAP on four graphs: 77 of them, 3.7 MB."""
    (tmp_path / "statements/cora/gap/node").mkdir(parents=True)
    pages = [tmp_path / f"statements/cora/gap/node/{epsilon}.md" for epsilon in range(1, 6)]
    for page in pages:
        page.write_text(STATEMENT + "- Protected: nothing\n" * 36_000)
    assert sum(page.stat().st_size for page in pages) > 3_700_000
    assert all(told["parts"] for told in page_of._statements(pages, tmp_path))


def test_of_too_many_statements_the_longest_are_links_and_the_page_says_so(
    report, tmp_path, monkeypatch
):
    monkeypatch.setattr(page_of, "_SHOWN", 3 * len(STATEMENT.encode()))
    told = page_of._statements(
        [report.parent / f"statements/cora/gap/{name}.md" for name in ("node/8", "edge/1")],
        report.parent,
    )
    assert [bool(statement["parts"]) for statement in told] == [False, True]
    read = rows.read_rows(report.parent / "rows.csv")
    page = page_of.render_report(
        shipped_context("config/papers/dpdgc.yaml", ["cora"]), read, {}, {}, pd.DataFrame(), told
    )
    assert "1 of 2, the longest, are in their files alone" in page
    long, short = re.findall(r'<details class="statement">.*?</details>', page, re.DOTALL)
    assert "Too long for this page" in long and "Privacy statement" not in long
    assert "Too long for this page" not in short and "Privacy statement: gap" in short


def test_without_statements_the_page_promises_none(report):
    read = rows.read_rows(report.parent / "rows.csv")
    context = shipped_context("config/papers/dpdgc.yaml", ["cora"])
    page = page_of.render_report(context, read, {}, {}, pd.DataFrame())
    assert "no ε here counts that" in page and "statements" not in page.split("</style>")[1]


def test_a_table_without_a_line_says_why(tmp_path):
    """A run of GAP's accuracies alone: its attacks, and the orderings of them, have no cell."""
    context = shipped_context("config/papers/gap.yaml", ["cora"]) | {"attacks": {}}
    made = {
        name: tables()[name].show(tables()[name].make(tables()[name].read(None), context))
        for name in ("table3", "attack_orderings")
    }
    told = {
        "table3": "Nothing that this table shows was requested in this run.",
        "attack_orderings": "The paper claims no ordering of what was requested in this run.",
    }
    page = page_of.render_report(context, shipped_rows("gap-rows.csv.gz"), made, {}, pd.DataFrame())
    for name, printed in made.items():
        assert printed.cells.empty
        assert to_markdown(printed) == f"{printed.caption}\n\n{told[name]}\n"
        latex = to_latex(printed, name)
        assert told[name] in latex and "tabular" not in latex and f"tab:{name}" in latex
        assert f'<p class="empty">{told[name]}</p>' in page
    part = page[page.index('<section id="tables">') : page.index('<section id="privacy">')]
    assert "<table" not in part


#: The label of an ε that is somebody's: its level, basis, adjacency, δ and status.
LABEL = re.compile(
    r"(claimed )?ε = [\d.]+ \((edge|node|\d+-neighbour) level, "
    r"(as published|as implemented|corrected), "
    r"(edge|node|k|participant)[\w()]*, δ = [^;]+; (proven|conditional|refuted, no guarantee)\)"
)


def test_each_cell_of_a_table_says_all_of_its_epsilon(report):
    # Of what is missing nothing more is known than the paper's number.
    page = report.read_text().partition('<section id="missing">')[0]
    cells = re.findall(r'<td data-label="privacy"[^>]*>([^<]*)</td>', page)
    private = [one for one in cells if not one.startswith(("ε = ∞ (no privacy)", "ε = 0 ("))]
    assert len(private) > 40
    assert [one for one in private if not LABEL.fullmatch(one)] == []
    refuted = [one for one in private if "refuted" in one]
    assert refuted and all(one.startswith("claimed ") for one in refuted)
    fails = [one for one in re.findall(r'<td data-label="fails at"[^>]*>([^<]*)</td>', page) if one]
    assert fails == [
        "target ε 16 (1-neighbour level; MLP-DP: as published, node_replace, δ = 1e-4, "
        "conditional; DPDGC-N1: corrected, k_neighbor(1), δ = 1e-4, conditional)"
    ]


def test_each_column_has_a_name(report):
    """It is a button, a choice of what to sort by and, on a narrow page, a line's label."""
    page = report.read_text()
    assert page.count('<th scope="col">') > 20
    assert '<th scope="col"></th>' not in page and 'data-label=""' not in page
    assert page.count('data-label="level">') > 20


def test_a_figure_that_shows_nothing_is_a_line_of_text_with_the_reason(report):
    page = report.read_text()
    figures = re.findall(r"<figure>.*?</figure>", page, re.DOTALL)
    assert len(figures) == page.count("<svg ") == 2
    assert not any("Figure 3a" in figure for figure in figures)
    told = '<p class="empty"><strong>DPDGC Figure 3a.</strong> No results: not requested in this '
    assert f"{told}run.</p>" in page
    assert (report.parent / "dpdgc_figure3a.png").exists()


def test_only_a_word_of_more_than_20_letters_may_break():
    assert has_long_word("of_a_very_long_word_that_does_not_break")
    assert not has_long_word("node_add_remove, conditional, as_implemented, " + 20 * "a")


def test_analyses_of_one_noise_share_a_column(report):
    """As in the Markdown, where each has a column that is mostly empty."""
    page = report.read_text()
    heads = re.findall(r"<tr>((?:<th scope=\"col\">[^<]*</th>)+)</tr>", page)[0]
    assert re.findall(r">([^<]+)</th>", heads)[-1] == "ε of the same noise by analysis"
    assert len(re.findall("<th", heads)) <= 7
    mine = shipped_rows("dpdgc-rows.csv.gz").query(
        "dataset == 'cora' and method == 'sage' and level == 'node'"
    )
    cell = f">{100 * mine['test_accuracy'].mean():.1f} ["
    line = next(one for one in page.split("<tr>") if ">SAGE-NDP<" in one and cell in one)
    assert (
        "corrected, node and own list replaced: 36.06, conditional\ncorrected, participant: 16"
    ) in line


CHECKS = (Path(__file__).parent / "report_checks.js").read_text()


#: A number that a cell begins with; what is missing, or says that there is none.
NUMBER = re.compile(r"(?:claimed )?(?:ε = )?([-+]?[\d,.]+(?![\w])|∞)")
NOTHING = re.compile(r"$|–|none\b|missing\b")


def _number(text):
    found = NUMBER.match(text)
    return None if found is None else float(found[1].replace(",", "").replace("∞", "inf"))


def _sorted_by_number(column, cells):
    """Of a column that has been sorted: its numbers, after a check that what is missing is last."""
    known = [text for text in cells if not NOTHING.match(text)]
    assert cells[: len(known)] == known, column
    return [_number(text) for text in known]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("paper", "width", "scheme"),
    [
        *[("dpdgc", width, scheme) for width in (1280, 390) for scheme in ("light", "dark")],
        ("gap", 1280, "light"),
        ("gap", 390, "dark"),
    ],
)
def test_in_a_browser_nothing_is_cut_and_everything_answers(
    reports, tmp_path, paper, width, scheme
):
    found = _found_in_a_browser(reports(paper), tmp_path, width, scheme)
    assert found["width"] == width and found["dark"] == (scheme == "dark")
    assert found["scroll"] <= width and found["wide"] == []
    assert found["broken"] == []
    assert found["unfocused"] == [] and found["focusable"] >= 4
    assert {"A", "BUTTON", "INPUT", "SUMMARY"} <= set(found["kinds"])
    numeric = {}
    for column in found["sorted"]:
        assert (column["rising"], column["falling"]) == ("ascending", "descending")
        assert sorted(column["up"]) == sorted(column["down"]) == sorted(column["before"])
        known = [text for text in column["before"] if not NOTHING.match(text)]
        if known and all(_number(text) is not None for text in known):
            numeric[column["table"], column["head"]] = [_number(text) for text in known]
            up, down = (_sorted_by_number(column, column[way]) for way in ("up", "down"))
            assert up == sorted(map(_number, known)) == down[::-1], column
    # Columns that must be among them, unsorted as they stand, and one of both signs.
    assert {("Accuracy", "privacy"), ("Accuracy", "accuracy, %")} <= set(numeric)
    accuracies = numeric["Accuracy", "accuracy, %"]
    assert accuracies != sorted(accuracies)
    if paper == "dpdgc":
        differences = numeric["Scorecard", "difference"]
        assert min(differences) < 0 < max(differences) and differences != sorted(differences)
    assert len(found["filtered"]) >= 3
    for one in found["filtered"]:
        assert 0 < len(one["left"]) <= one["all"] == one["back"]
        assert all(word in text for text in one["left"] for word in one["words"])
    assert any(len(one["left"]) < one["all"] for one in found["filtered"])
    opened, inside, larger = found["enlarged"]
    assert opened and inside and larger >= 1 and found["back"]
    assert found["figures"] >= 1 and found["wrong"] == []
    if width == 390:
        assert larger > 2


def _found_in_a_browser(report, folder, width, scheme):
    """What `report_checks.js` finds in a frame of a width: a browser's window has a least one."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    browser = next(filter(None, map(shutil.which, names)), None)
    if browser is None:
        pytest.skip("no Chromium is installed")
    page = report.read_text()
    assert page.count("</body>") == 1
    (folder / "page.html").write_text(page.replace("<head>", f"<head><script>{CHECKS}</script>"))
    (folder / "frame.html").write_text(
        '<!DOCTYPE html><pre id="found"></pre><script>addEventListener("message", (event) => '
        'document.getElementById("found").append(event.data + "\\n"));</script>'
        f'<iframe src="page.html" style="border: 0; width: {width}px; height: 900px"></iframe>'
    )
    result = subprocess.run(
        [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
            "--virtual-time-budget=20000", "--window-size=1400,1000",
            f"--blink-settings=preferredColorScheme={1 if scheme == 'light' else 0}",
            f"--user-data-dir={folder}/profile", "--dump-dom", f"file://{folder}/frame.html",
        ],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert "CONSOLE" not in result.stderr, result.stderr
    told = re.search(r'<pre id="found">(.*)\n</pre>', result.stdout, flags=re.DOTALL)
    assert told, result.stdout[-2000:] + result.stderr[-2000:]
    return json.loads(told[1].replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&"))


CALIBRATED = {
    "dataset": "pubmed", "method": "gap", "level": "node", "epsilon": "8", "delta": 1e-5,
    "noise_multiplier": 3.125, "hyperparameters": {"hops": 2, "max_degree": 50},
    "accountant": "autodp", "epsilon_accounted": 7.75, "epsilon_dp_accounting": 7.875,
    "basis": "as_published", "adjacency": "node_add_remove", "status": "refuted", "assumptions": [],
}  # fmt: skip


CLAIMED = (
    "claimed ε = 8 (node level, as published, node_add_remove, δ = 1e-5; refuted, no guarantee)"
)


def test_what_was_calibrated_stands_with_each_accountants_epsilon():
    (line,) = page_of._calibration([CALIBRATED]).to_dict("records")
    assert line == {
        "dataset": "pubmed", "method": "GAP-NDP", "calibrated for": CLAIMED,
        "setting": "hops 2, max_degree 50",
        "noise multiplier": "3.125", "same ε as accounted": "7.75", "by": "autodp",
        "by dp-accounting (RDP)": "7.875",
    }  # fmt: skip


def test_a_cell_without_a_result_has_the_label_of_its_claim():
    cell = CALIBRATED | {
        "epsilon_basis": "as_published", "epsilon_status": "refuted", "missing_reason": "no graph",
    }  # fmt: skip
    (line,) = page_of._missing(pd.DataFrame([cell])).to_dict("records")
    assert line == {
        "dataset": "pubmed", "method": "GAP-NDP", "privacy": CLAIMED, "reason": "no graph"
    }  # fmt: skip
