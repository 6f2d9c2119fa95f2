"""A new method is a folder, and a new kind of mechanism a file: nothing else is touched.

`tests/new_method` holds both as they lie in the library. A temporary copy of the project with a
finished study is given them, and then has all that the methods of the project have.
"""

import csv
import json
import math
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from graphdp.errors import GraphDPError
from graphdp.privacy.statement_form import Statement
from project_fixture import ROOT, Project

pytestmark = pytest.mark.slow  # all but one look at a study that is run first

NEW = Path(__file__).parent / "new_method"
METHOD, KIND, TITLE, COLOUR = "noisymean", "discrete_gaussian", "NoisyMean-NDP", "#56b4e9"
CLAIM = "noisymean-sums-eps2"
FILES = sorted(path.relative_to(NEW) for path in NEW.rglob("*.py"))
STUDY = {
    "study": "tiny",
    "title": "Tiny",
    "datasets": ["small"],
    "definitions": {"small": {"base": "csbm", "parameters": {"n": 300, "f": 8, "d": 6}}},
    "seeds": 2,
    "seed_block": 2,
    "device": "cpu",
    "experiments": {
        "accuracy": [
            {"method": "mlp", "level": "none", "epochs": 5},
            {"method": "mlp", "level": "node", "epsilon": [4], "epochs": 1, "batch_size": 64},
        ]
    },
}
ENTRIES = [
    {"method": METHOD, "level": "none"},
    {"method": METHOD, "level": "node", "epsilon": [4], "feature_clip": [0.5, 1.0]},
]


def with_entries(*entries):
    return {"experiments": {"accuracy": [*STUDY["experiments"]["accuracy"], *entries]}}


def add_method(project: Project) -> None:
    """Copy the files to where they belong. None of them is there already."""
    for path in FILES:
        target = project.folder / "workflow/graphdp" / path
        assert not target.exists()
        target.parent.mkdir(exist_ok=True)
        shutil.copy(NEW / path, target)


def test_the_commands_of_the_documentation_make_a_method(tmp_path):
    """Of the example under another name, which `calibrate` then knows."""
    project = Project(tmp_path, STUDY)
    shutil.copytree(NEW, tmp_path / "tests/new_method")
    page = (ROOT / "docs/architecture.md").read_text()
    section = page.partition("## Add a method\n")[2].partition("\n## ")[0]
    commands = re.findall(r"^    (.*)$", section, flags=re.MULTILINE)
    assert len(commands) == 4
    for command in commands:
        project.run("bash", "-c", command)
    line = "calibrate mymean --level node --epsilon 4 --delta 1e-5 --train-nodes 19800"
    assert "mymean" in project.graphdp(*line.split(), "--feature-clip", "1").stdout
    project.configure(**with_entries({"method": "mymean", "level": "none"}))
    assert "mymean" in project.snakemake("--dry-run", "rows").stdout

    # No method in a folder, a mistake in one, one id for two: one line, from every command.
    folder = tmp_path / "workflow/graphdp/methods"
    for name, text in {"empty": "", "spoiled": "CARDS = (Crad,)\n"}.items():
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(text)
    mistake = "methods/spoiled: NameError: name 'Crad' is not defined"
    for said in ("methods/empty is no method", mistake, "two methods are called 'mymean'"):
        result = project.graphdp(*line.split(), check=False)
        assert (result.returncode, result.stderr.count("\n")) == (2, 1) and said in result.stderr
        planned = project.snakemake("--dry-run", "rows", check=False)
        assert planned.returncode and said in planned.stdout + planned.stderr
        assert "Traceback" not in planned.stdout + planned.stderr
        shutil.rmtree(folder / ("empty" if (folder / "empty").exists() else "spoiled"), True)
        if not ((folder / "spoiled").exists() or (folder / "twin").exists()):
            shutil.copytree(folder / "mymean", folder / "twin")


def test_a_mistake_in_a_plan_is_one_line(tmp_path):
    """As it is imported, and as it is made."""
    project = Project(tmp_path, STUDY)
    plan = project.folder / "workflow/graphdp/methods/mlp/plan.py"
    text = plan.read_text()
    line = "calibrate mlp --level node --epsilon 4 --delta 1e-5 --train-nodes 1980 --epochs 2"
    made = "def analyses("
    assert text.count(made) == 1
    for broken in (text + "\nx = Plna\n", text.replace(made, f"{made[:-1]}x(")):
        plan.write_text(broken)
        result = project.graphdp(*line.split(), "--batch-size", "64", check=False)
        assert (result.returncode, result.stderr.count("\n")) == (2, 1), result.stderr
        assert "workflow/graphdp/methods/mlp: " in result.stderr
        assert "correct it, or move the folder away" in result.stderr


def edit(project: Project, path: str, old: str, new: str) -> None:
    """Replace what stands once in a file of the copied library."""
    file = project.folder / "workflow/graphdp" / path
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Project:
    """A finished study, before there was the method."""
    project = Project(tmp_path_factory.mktemp("project"), STUDY)
    project.snakemake()
    return project


@pytest.fixture(scope="module")
def project(finished, tmp_path_factory) -> Project:
    """The same with the method's files; the study is as before."""
    copy = finished.copy_to(tmp_path_factory.mktemp("added") / "copy")
    add_method(copy)
    return copy


@pytest.fixture(scope="module")
def trained(project, tmp_path_factory) -> Project:
    """The same after a run of the study that names the method."""
    copy = project.copy_to(tmp_path_factory.mktemp("trained") / "copy")
    copy.configure(**with_entries(*ENTRIES))
    new = {"calibrate": 1, "collect": 1, "draw": 1, "stage fit": 2}
    assert copy.planned() == new
    copy.snakemake()
    return copy


def test_it_is_a_folder_and_a_file():
    assert {path.parent.as_posix() for path in FILES} == {
        f"methods/{METHOD}",
        "privacy/mechanisms",
    }
    assert [path.stem for path in FILES if "mechanisms" in path.parts] == [KIND]
    # The kind of its noise is where somebody followed "Add a method".
    assert not (ROOT / "workflow/graphdp/methods" / METHOD).exists()


def test_adding_it_to_a_finished_study_leaves_nothing_to_be_done(finished, project):
    assert finished.planned() == {}
    assert project.planned() == {}


def test_adding_it_after_the_demo_leaves_nothing_to_be_done(tmp_path):
    demo = Project(tmp_path, "config/config.yaml")
    demo.snakemake()
    assert (tmp_path / "results/demo/report.html").exists()
    assert demo.planned() == {}
    add_method(demo)
    assert demo.planned() == {}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"feature_clip": -1}, "feature_clip.*greater than 0, not -1"),
        ({"feature_clop": 1}, "unknown key 'feature_clop'; did you mean 'feature_clip'"),
        ({"level": "k5"}, "unknown level of noisymean 'k5'"),
    ],
)
def test_its_settings_are_validated(project, entry, message):
    study = STUDY | with_entries(ENTRIES[1] | entry)
    said = project.python(
        "from graphdp.config import validate\n"
        "from graphdp.errors import GraphDPError\n"
        "try:\n"
        f"    validate({study!r})\n"
        "except GraphDPError as error:\n"
        "    print(error)\n"
    )
    assert re.search(message, said) and said.count("\n") == 1


def test_its_plan_and_its_calibration_by_two_accountants(project):
    words = ["calibrate", METHOD, "--level", "node", "--epsilon", "4", "--train-nodes", "225"]
    found = json.loads(project.graphdp(*words, "--feature-clip", "0.5", "--json").stdout)
    (mechanism,) = found["plan"]["mechanisms"]
    assert (mechanism["kind"], mechanism["sensitivity"]["value"]) == (KIND, 0.5)
    assert (found["adjacency"], found["status"]) == ("node_add_remove", "conditional")
    assert found["plan"]["assumptions"]
    read = {entry["accountant"]: entry["epsilon"] for entry in found["accounting"]}
    assert set(read) == {"autodp", "dp_accounting"}
    assert 3.96 <= read["autodp"] <= 4
    assert read["dp_accounting"] == pytest.approx(read["autodp"], rel=1e-3)


def test_its_options_are_in_the_help(project):
    text = " ".join(project.graphdp("calibrate", "--help").stdout.split())
    assert "--feature-clip" in text and f"C, the L2 clip of a node's features ({METHOD})" in text
    assert f"graphdp calibrate {METHOD} --level node" in text
    words = ["calibrate", METHOD, "--level", "node", "--epsilon", "4", "--train-nodes", "225"]
    refused = project.graphdp(*words, "--feature-clip", "0", check=False)
    assert refused.returncode == 2
    assert refused.stderr.startswith("graphdp: --feature-clip: input should be greater than 0")


def test_its_cells_are_trained_with_the_noise_of_their_plan(trained):
    rows = pd.read_csv(trained.folder / "results/tiny/rows.csv", dtype={"epsilon": str})
    rows = rows[rows["method"] == METHOD]
    assert rows.groupby(["level", "epsilon"]).size().to_dict() == {
        ("none", "inf"): 2,
        ("node", "4"): 4,
    }
    assert rows.loc[rows["level"] == "none", "test_accuracy"].min() > 0.6  # two classes
    private = rows[rows["level"] == "node"]
    assert (private["noise_multiplier"] > 0).all()
    assert set(private["adjacency"]) == {"node_add_remove"}
    assert set(private["epsilon_status"]) == {"conditional"}
    assert trained.planned() == {}


def test_other_noise_than_planned_gives_no_row(trained, tmp_path):
    copy = trained.copy_to(tmp_path / "copy")
    place = f"methods/{METHOD}/method.py"
    edit(copy, place, "planned.run.noise_std if", "planned.run.noise_std / 2 if")
    result = copy.snakemake("rows", check=False)
    assert result.returncode != 0
    said = result.stdout + result.stderr
    assert re.search(r"sums: the plan accounts noise std \S+ but it was \S+; the ε of this", said)


def test_its_statement(trained):
    path = trained.folder / f"results/tiny/statements/small/{METHOD}/node/4"
    page = Path(f"{path}.md").read_text()
    assert page.count("# Privacy statement, release: reproduction (") == 2  # one per feature_clip
    said = json.loads(Path(f"{path}.json").read_text())
    for statement in said:
        (mechanism,) = statement["mechanisms"]
        assert mechanism["kind"] == KIND
        std = statement["target"]["noise_multiplier"] * statement["settings"]["feature_clip"]
        assert mechanism["noise_std"] == pytest.approx(std)
        (account,) = statement["accounting"]
        assert 3.96 <= account["epsilon"] <= 4 and account["status"] == "conditional"
        assert "discrete Gaussian" in account["method"]
    assert trained.graphdp("statement", f"{path}.json").stdout.strip() == page.strip()
    with pytest.raises(GraphDPError, match="unknown kind of mechanism"):
        Statement.from_json(said[0])  # here, where the kind has no file


def test_its_colour_and_name_are_in_figures_and_tables(trained):
    results = trained.folder / "results/tiny"
    assert COLOUR in (results / "figures/figure6.svg").read_text()
    assert TITLE in (results / "tables/accuracy.md").read_text()
    assert TITLE in (results / "report.html").read_text()
    code = (
        "import json\n"
        "from graphdp.paper.figures import figures\n"
        "from graphdp.paper.rows import read_rows\n"
        "context = json.load(open('results/tiny/context.json'))\n"
        "figure = figures()['figure6'].draw(read_rows('results/tiny/rows.csv'), context)\n"
        "for axes in figure.axes:\n"
        "    for handle, label in zip(*axes.get_legend_handles_labels()):\n"
        "        line = getattr(handle, 'lines', [handle])[0]\n"
        "        print(label, line.get_color(), sep=',')\n"
    )
    lines = set(map(tuple, csv.reader(trained.python(code).splitlines())))
    assert (TITLE, COLOUR) in lines


OTHER_NOISE = """
from dataclasses import replace
import numpy as np
from graphdp.data.csbm import csbm
from graphdp.methods.block import Block
from graphdp.methods.noisymean import method
from graphdp.privacy import calibrated
from graphdp.workflow.calibrations import calibrate_cell

seen, draw = [], method.discrete_gaussian
method.discrete_gaussian = lambda *said: seen.append(draw(*said)) or seen[-1]
graph, setting = csbm(60, 4, 4.0, 3.25, 0.5, 1), {"feature_clip": 1.0}
less = graph.x.copy()
less[7] = 0
for one in (graph, graph, replace(graph, x=less)):
    block = Block(
        graph=one, dataset="g", method="noisymean", level="node", epsilon="4", seeds=[0],
        study_seed=1, split_rule="shared by id", checkpoint="last",
    )
    entries = calibrate_cell(
        "g", "noisymean", "node", "4", [setting], [block.num_train(0)], 100, 1e-5, num_nodes=60
    )
    method.fit(replace(block, calibrations=entries), [setting])
assert np.array_equal(seen[0], seen[1])
shapes = {phase.run.noise for phase in calibrated.phases(entries[0]).values()}
print(np.mean(seen[0] == seen[2]) < 0.1, *shapes)
"""


def test_its_noise_is_another_on_a_graph_with_a_node_less(project):
    """Else the two releases would differ in that node's features alone."""
    assert project.python(OTHER_NOISE).strip() == "True discrete gaussian"


def test_its_noise_is_discrete_gaussian(project):
    """Of small and of large σ, against the probabilities of the definition."""
    found = json.loads(
        project.python(
            "import json\n"
            "import numpy as np\n"
            f"from graphdp.methods.{METHOD}.method import discrete_gaussian\n"
            "from graphdp.rng import generator\n"
            "draws = discrete_gaussian(0.7, (200, 500), generator('small'))\n"
            "large = discrete_gaussian(1500.0, (100_000,), generator('large'))\n"
            "shares = [float((abs(draws) == k).mean()) for k in range(4)]\n"
            "print(json.dumps([draws.shape, shares, float(large.mean()), float(large.std())]))\n"
        )
    )
    weights = [math.exp(-(k**2) / (2 * 0.7**2)) * (2 if k else 1) for k in range(20)]
    assert found[0] == [200, 500]
    for share, weight in zip(found[1], weights, strict=False):
        assert share == pytest.approx(weight / sum(weights), abs=0.006)
    assert found[2] == pytest.approx(0, abs=20) and found[3] == pytest.approx(1500, rel=0.01)


def claim_outcome(project: Project, draws: int) -> dict:
    return json.loads(
        project.python(
            "import json, sys\n"
            "from graphdp.audit.claims import get, run\n"
            f"print(json.dumps(run(get({CLAIM!r}), draws={draws})))\n"
            "assert 'torch' not in sys.modules\n"
        )
    )


def test_its_audit_claim_holds_and_half_of_the_noise_refutes_it(project, tmp_path):
    holds = claim_outcome(project, 100_000)
    assert holds["as_expected"] and holds["verdict"] != "refuted"
    assert 1 < holds["lower_bound"] < holds["claimed_epsilon"] <= 2  # the attack has teeth
    copy = project.copy_to(tmp_path / "copy")
    place = f"methods/{METHOD}/method.py"
    edit(copy, place, "discrete_gaussian(noise_std /", "discrete_gaussian(noise_std / 2 /")
    refuted = claim_outcome(copy, 100_000)
    assert refuted["verdict"] == "refuted" and not refuted["as_expected"]
    # A plan that says less of the sensitivity than is true.
    copy = project.copy_to(tmp_path / "plan")
    edit(
        copy,
        f"methods/{METHOD}/plan.py",
        '        feature_clip,\n        "C"',
        'feature_clip / 2, "C"',
    )
    refuted = claim_outcome(copy, 100_000)
    assert refuted["verdict"] == "refuted" and not refuted["as_expected"]


def test_its_detectable_factor_is_measured_by_its_own_noise(project):
    """A claim says how its noise is multiplied; else it is taken to be of `graphdp.noise`."""
    found = project.python(
        "from dataclasses import replace\n"
        "from graphdp.audit import detectable\n"
        "from graphdp.audit.claims import get\n"
        "from graphdp.errors import GraphDPError\n"
        f"claim = get({CLAIM!r})\n"
        "line = detectable.measure(claim, 20_000)\n"
        "assert 0.5 <= line['quiet_at'] < 1 and line['bound_caught'] > 2, line\n"
        "try:\n"
        "    detectable.measure(replace(claim, scaled=detectable.gaussian), 1000)\n"
        "except GraphDPError as error:\n"
        "    print(error)\n"
    )
    assert "add of GridNoise drew nothing" in found


def test_its_audit_is_a_job_of_the_workflow(project, tmp_path):
    copy = project.copy_to(tmp_path / "copy")
    copy.snakemake(f"results/audit/{CLAIM}.json")
    assert json.loads((copy.folder / f"results/audit/{CLAIM}.json").read_text())["as_expected"]


def test_editing_how_its_noise_is_accounted_calibrates_again(trained, tmp_path):
    """Four times the divergence: what was kept of earlier calibrations must not be taken."""
    copy = trained.copy_to(tmp_path / "copy")
    place = f"privacy/mechanisms/{KIND}.py"
    edit(copy, place, "DiscreteGaussianMechanism(noise)", "DiscreteGaussianMechanism(noise / 2)")
    edit(copy, place, "ZCDpEvent(1 / (2 * noise * noise))", "ZCDpEvent(2 / (noise * noise))")
    copy.snakemake("rows")

    def noise(project):
        rows = pd.read_csv(project.folder / "results/tiny/rows.csv")
        return rows.loc[(rows["method"] == METHOD) & (rows["level"] == "node"), "noise_multiplier"]

    assert list(noise(copy) / noise(trained)) == pytest.approx([2] * 4, rel=1e-3)
