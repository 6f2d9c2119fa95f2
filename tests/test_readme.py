"""The commands of README and docs are real: each is parsed and planned as written."""

import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from graphdp import seals
from graphdp.audit.claims import claims
from project_fixture import Project, dry_run

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
README = "\n".join(path.read_text() for path in PAGES)


def commands() -> list[str]:
    """Indented lines that start with make, snakemake or graphdp, those that end in `\\` joined, and
    what stands alone in a cell of a table; each once."""
    text = README.replace("\\\n", " ")
    indented = r"^    ((?:make|snakemake|graphdp) .*)$"
    found = re.findall(indented, text, flags=re.MULTILINE) + re.findall(r"\| `(make .*?)` \|", text)
    return list(dict.fromkeys(re.sub(r"\s+", " ", command) for command in found))


def run(words: list[str], **extra: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(
        words, cwd=ROOT, env=environment | extra, capture_output=True, text=True, timeout=120
    )


def plan(words: list[str]) -> None:
    """Plan the jobs of a snakemake command, whatever was planned already."""
    result = dry_run([*words[1:], "--quiet"], ROOT)
    assert result.returncode == 0, f"{result.stdout}{result.stderr}"[-2000:]


@cache
def plan_once(call: str) -> None:
    """Plan what several commands of make expand to."""
    plan(shlex.split(call))


def test_the_readme_names_the_two_commands_and_the_papers():
    assert {"make demo", "make test"} <= set(commands())
    for paper in (ROOT / "config/papers").glob("*.yaml"):
        command = rf"make paper PAPER={paper.stem}( DATASETS=.*)?"
        assert any(re.fullmatch(command, one) for one in commands()), paper.stem


@pytest.mark.slow
@pytest.mark.parametrize("command", [c for c in commands() if c.startswith("snakemake")])
def test_snakemake_commands_are_planned_as_written(command):
    plan(shlex.split(command))


@pytest.mark.slow
@pytest.mark.parametrize("command", [c for c in commands() if c.startswith("make")])
def test_make_commands_expand_to_calls_that_are_planned(command):
    """`make -n` prints the shell commands; every snakemake call among them is planned."""
    result = run(["make", "--dry-run", *shlex.split(command)[1:]])
    assert result.returncode == 0, result.stderr
    calls = re.findall(r"^\.venv/bin/(snakemake .*)$", result.stdout, flags=re.MULTILINE)
    calls = [call for call in calls if "--lint" not in call]
    for call in calls:
        plan_once(call)
    assert calls or "pytest" in result.stdout or "graphdp.redraw" in result.stdout


def test_make_paper_passes_on_exactly_what_it_is_given():
    words = ["PAPER=gap", "DATASETS=berkeley13 pubmed", "EPSILONS=1 4", "SEEDS=3", "MIRROR=dir"]
    words += ["ONLY=accuracy nmi"]
    result = run(["make", "--dry-run", "paper", *words])
    last = re.findall(r"^\.venv/bin/(snakemake .*)$", result.stdout, flags=re.MULTILINE)[-1]
    assert shlex.split(last) == [
        "snakemake", "--cores", "all", "--configfile", "config/papers/gap.yaml", "--config",
        "missing_data=skip", "datasets=[berkeley13,pubmed]", "only=[accuracy,nmi]",
        "epsilons=[1,4]", "seeds=3", "mirror=dir",
    ]  # fmt: skip


def test_make_passes_on_words_with_spaces_as_one():
    result = run(["make", "--dry-run", "paper", "PAPER=gap", "MIRROR=/my data", "SEEDS=1 2"])
    last = re.findall(r"^\.venv/bin/(snakemake .*)$", result.stdout, flags=re.MULTILINE)[-1]
    assert shlex.split(last)[-2:] == ["seeds=1 2", "mirror=/my data"]


@pytest.mark.parametrize("word", ["DATASET=cora", "EPSILON=1", "SEED=1"])
def test_a_variable_that_make_paper_does_not_know_is_no_whole_study(word):
    result = run(["make", "paper", "PAPER=gap", word])
    assert result.returncode != 0
    assert "write DATASETS, EPSILONS or SEEDS" in result.stderr


@pytest.mark.parametrize("paper", ["", "PAPER=gpa", "PAPER=%", "PAPER=gap progap"])
def test_an_unknown_paper_is_one_clear_line(paper):
    result = run(["make", "paper", *([paper] if paper else [])])
    assert result.returncode != 0
    assert "use one of: dpa-gnn dpdgc gap" in result.stderr


def test_files_that_readme_and_docs_name_exist():
    names = re.findall(r"`((?:config|workflow|rules|envs|docs|tests|profiles)/[\w./-]+)`", README)
    assert len(names) > 20
    for name in names:
        assert (ROOT / name).exists(), name


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub links to them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda path: path.name)
def test_links_lead_to_files_and_headings(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if link.startswith(("http:", "https:")):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists() and target.is_relative_to(ROOT), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_is_reached_from_the_readme_and_that_is_short():
    reached, left = set(), [ROOT / "README.md"]
    while left:
        page = left.pop()
        if page not in reached:
            reached.add(page)
            links = re.findall(r"\]\(([\w./-]+\.md)", page.read_text())
            left += [(page.parent / link).resolve() for link in links]
    assert set(PAGES) <= reached
    assert len((ROOT / "README.md").read_text().splitlines()) < 130


@pytest.mark.parametrize("name", ["README.md", "docs/artifact.md", "docs/audits.md"])
def test_the_number_of_audited_claims_is_what_the_audits_have(name):
    assert re.findall(r"\b(\d+) claims\b", (ROOT / name).read_text()) == [str(len(claims()))]


@pytest.mark.slow
def test_graphdp_commands_run_as_written():
    found = [command for command in commands() if command.startswith("graphdp")]
    found = [command for command in found if not command.startswith("graphdp rows")]
    assert found
    for command in found:
        result = run(shlex.split(command))
        says = "failed" if command.startswith("graphdp status") else "noise"
        assert result.returncode == 0 and says in result.stdout


@pytest.mark.slow
def test_rows_of_a_grid_in_pieces_are_joined_and_planned_as_written(tmp_path):
    """With one block of the results that its page speaks of, of what is shipped."""
    (command,) = [command for command in commands() if command.startswith("graphdp rows")]
    rows = pd.read_csv(
        ROOT / "workflow/report/pnpignn-rows.csv.gz", dtype=str, keep_default_na=False
    )
    of_cell = (rows["method"] == "heterpoisson") & (rows["level"] == "node")
    some = rows[of_cell & (rows["dataset"] == "pubmed") & (rows["epsilon"] == "2")].head(10)
    project = Project(tmp_path, "config/papers/pnpignn.yaml")
    block = tmp_path / "results/pnpignn/fit/pubmed/heterpoisson/node/2/accuracy_sage/0-9.csv"
    block.parent.mkdir(parents=True)
    some.to_csv(block, index=False)
    seals.write(block)
    join, draw = (shlex.split(one) for one in command.split(" && "))
    assert f"{len(some)} models of study pnpignn" in project.graphdp(*join[1:]).stdout
    result = dry_run([*draw[1:], "--quiet"], tmp_path, **project.environment)
    assert result.returncode == 0, f"{result.stdout}{result.stderr}"[-2000:]
