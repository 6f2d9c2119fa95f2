"""The report as a page: what it shows, and how it behaves in a browser at two widths."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from graphdp.paper import rows
from graphdp.paper.artefacts import draw_all
from graphdp.paper.markdown import to_html
from graphdp.paper.shipped import shipped_context, shipped_rows

STATEMENT = """# Privacy statement: gap on cora, edge level

Calibrated for ε = 1 at δ = 1e-05 (as_published, edge_directed); `noise` **3.7**.

- Data: cora & <others>
- Settings: hops 1

| basis | adjacency | ε | assumptions |
| --- | --- | --- | --- |
| as_published | edge_directed | 1 |  |

1. The first assumption, of_a_very_long_word_that_does_not_break_by_itself_in_any_way_at_all.
"""
COMMAND = "snakemake --cores all --configfile config/papers/dpdgc.yaml"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Of DPDGC's shipped rows of Cora."""
    folder = tmp_path_factory.mktemp("page")
    context = shipped_context("config/papers/dpdgc.yaml", ["cora"])
    mine = shipped_rows("dpdgc-rows.csv.gz").query("dataset == 'cora'").reset_index(drop=True)
    rows.write_rows(mine, folder / "rows.csv")
    (folder / "statements/cora/gap/edge").mkdir(parents=True)
    (folder / "statements/cora/gap/edge/1.md").write_text(STATEMENT)
    names = ("accuracy", "dpdgc_table2", "orderings")
    draw_all(
        {"rows": folder / "rows.csv"},
        context,
        [f"{folder}/{name}.{kind}" for name in names for kind in ("csv", "md", "tex")],
        [f"{folder}/dpdgc_table2.{kind}" for kind in ("svg", "png")],
        folder / "report.html",
        [folder / "statements/cora"],
        COMMAND,
    )
    return folder / "report.html"


def test_statements_become_html_and_nothing_else_does():
    made = to_html(STATEMENT)
    assert "<h3>Privacy statement: gap on cora, edge level</h3>" in made
    assert "<code>noise</code> <strong>3.7</strong>" in made
    assert "<ul><li>Data: cora &amp; &lt;others&gt;</li><li>Settings: hops 1</li></ul>" in made
    assert '<td data-label="ε">1</td><td data-label="assumptions"></td></tr>' in made
    assert "<ol><li>The first assumption" in made


def test_the_page_says_when_how_and_of_which_commits_it_was_made(report):
    page = report.read_text()
    assert re.search(r"page made</dt><dd>\d\d \w+ 20\d\d, \d\d:\d\d UTC", page)
    assert f"<dd>{COMMAND}</dd>" in page
    commits = set(rows.read_rows(report.parent / "rows.csv")["git_commit"])
    assert commits and all(commit in page for commit in commits)


def test_statements_are_linked_and_stand_in_the_page(report):
    page = report.read_text()
    (link,) = re.findall(r'<a href="(statements/[^"]+)">', page)
    assert (report.parent / link).read_text() == STATEMENT
    assert "<summary>cora, GAP-EDP (edge level, target 1)</summary>" in page
    assert "Privacy statement: gap on cora, edge level" in page


def test_analyses_of_one_noise_share_a_column(report):
    """As in the Markdown, where each has a column that is mostly empty."""
    page = report.read_text()
    heads = re.findall(r"<tr>((?:<th scope=\"col\">[^<]*</th>)+)</tr>", page)[0]
    assert re.findall(r">([^<]+)</th>", heads)[-1] == "ε of the same noise by analysis"
    assert len(re.findall("<th", heads)) <= 7
    (line,) = [line for line in page.split("<tr>") if ">SAGE-NDP<" in line and ">17.0 [" in line][
        :1
    ]
    assert "corrected, node replaced: 36.06, conditional\ncorrected, participant: 16" in line


CHECKS = (Path(__file__).parent / "report_checks.js").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_in_a_browser_nothing_is_cut_and_everything_answers(report, tmp_path, width, scheme):
    """A frame of the width that is asked for: a browser's window has a least one."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    browser = next(filter(None, map(shutil.which, names)), None)
    if browser is None:
        pytest.skip("no Chromium is installed")
    page = report.read_text()
    assert page.count("</body>") == 1
    (tmp_path / "page.html").write_text(page.replace("<head>", f"<head><script>{CHECKS}</script>"))
    (tmp_path / "frame.html").write_text(
        '<!DOCTYPE html><pre id="found"></pre><script>addEventListener("message", (event) => '
        'document.getElementById("found").append(event.data + "\\n"));</script>'
        f'<iframe src="page.html" style="border: 0; width: {width}px; height: 900px"></iframe>'
    )
    result = subprocess.run(
        [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
            "--virtual-time-budget=20000", "--window-size=1400,1000",
            f"--blink-settings=preferredColorScheme={1 if scheme == 'light' else 0}",
            f"--user-data-dir={tmp_path}/profile", "--dump-dom", f"file://{tmp_path}/frame.html",
        ],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert "CONSOLE" not in result.stderr, result.stderr
    told = re.search(r'<pre id="found">(.*)\n</pre>', result.stdout, flags=re.DOTALL)
    assert told, result.stdout[-2000:] + result.stderr[-2000:]
    found = json.loads(told[1].replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&"))
    assert found["width"] == width and found["dark"] == (scheme == "dark")
    assert found["scroll"] <= width and found["wide"] == []
    assert found["unfocused"] == [] and found["focusable"] >= 4
    means = [float(text.split()[0]) for text in found["before"] if text]
    up = [float(text.split()[0]) for text in found["up"] if text]
    assert up == sorted(means) != means
    assert [float(text.split()[0]) for text in found["down"] if text] == up[::-1]
    assert found["sorted"] == "descending"
    assert 0 < len(found["left"]) < len(found["before"])
    assert all("GAP" in text and "node" in text for text in found["left"])
    opened, inside, larger = found["enlarged"]
    assert opened and inside and larger >= 1 and found["back"]
    if width == 390:
        assert larger > 2
