"""The `graphdp` command line, run as a user does."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from graphdp import cli
from graphdp.methods.gap.plan import gap_plan
from graphdp.methods.mlp.plan import mlp_plan
from graphdp.methods.sage.plan import sage_plan
from graphdp.privacy.calibration import calibrate

ROOT = Path(__file__).parents[1]
NODE = (
    "calibrate gap --level node --epsilon 8 --delta 1e-5 --train-nodes 19800 --batch-size 256 "
    "--epochs 10 --max-degree 100 --hops 2"
)


def run(capsys, line):
    status = cli.main(line.split())
    return status, capsys.readouterr()


def test_json_holds_the_calibration_of_the_plan(capsys):
    status, output = run(capsys, f"{NODE} --json")
    read = json.loads(output.out)
    plan = gap_plan("node", 2, 100, 19800, 256, 10, 1.0)
    assert status == 0
    assert read["noise_multiplier"] == calibrate(plan, 8, 1e-5).noise_multiplier
    assert {entry["accountant"] for entry in read["accounting"]} == {
        "autodp",
        "dp_accounting",
        "pld",
    }
    assert read["status"] == "refuted"


def test_text_names_delta_adjacency_and_status(capsys):
    status, output = run(capsys, NODE)
    assert status == 0
    for part in ("1.00363", "1e-05", "node_add_remove", "refuted", "read its epsilon as none"):
        assert part in output.out


def test_a_delta_that_would_allow_to_publish_a_node_is_refused_or_warned_of(capsys):
    """Refused where the claim is corrected; of the papers' own claims warned, off the JSON."""
    loose = NODE.replace("1e-5", "0.5")
    status, output = run(capsys, f"{loose} --json")
    assert status == 0 and json.loads(output.out)["delta"] == 0.5
    assert "warning: delta 0.5 is not below 1/19800" in output.err and "at most 1e-5" in output.err
    corrected = loose.replace("calibrate gap", "calibrate dpdgc").replace(" --hops 2", "")
    status, output = run(capsys, corrected)
    assert status == 2 and output.out == ""
    assert output.err.startswith("graphdp: delta 0.5 is not below 1/19800")
    # A corrected claim of a plan that is published as well, by the number of all nodes.
    status, output = run(capsys, f"{NODE} --degree-bound public_candidates --nodes 100000")
    assert status == 2 and "1e-05 is not below 1/100000, one over" in output.err
    status, output = run(capsys, f"{NODE} --nodes 100000")
    assert status == 0 and "warning: delta 1e-05 is not below 1/100000, one over" in output.err
    status, output = run(capsys, f"{NODE} --nodes 100")
    assert status == 2 and "--nodes 100 is below --train-nodes 19800" in output.err
    # Of a refusal there is no warning.
    for wrong in ("nan", "1", "-1e-5", "0.5 --epsilon -1"):
        status, output = run(capsys, NODE.replace("1e-5", wrong))
        assert status == 2 and "warning" not in output.err and output.err.count("\n") == 1
    # Just below one over the nodes it is taken, without a word.
    status, output = run(capsys, NODE.replace("1e-5", str(0.999 / 19800)))
    assert status == 0 and output.err == ""


def test_without_noise_no_status_is_claimed(capsys):
    status, output = run(capsys, "calibrate gap --level edge --epsilon inf --hops 2")
    assert status == 0 and "no noise, no guarantee" in output.out
    assert "proven" not in output.out and "claim under" not in output.out


@pytest.mark.parametrize("epsilon", ["1e-300", "1e-9", "9e-7"])
def test_a_tiny_epsilon_is_one_clear_line(capsys, epsilon):
    for line in (f"calibrate gap --level edge --epsilon {epsilon} --delta 1e-7 --hops 2",
                 NODE.replace("--epsilon 8", f"--epsilon {epsilon}")):  # fmt: skip
        status, output = run(capsys, line)
        assert status == 2 and output.out == ""
        assert output.err.count("\n") == 1 and "give at least 1e-06, or 0" in output.err


def test_delta_defaults_to_the_papers_choice_at_node_level_only(capsys):
    default = run(capsys, f"{NODE.replace('--delta 1e-5 ', '')} --json")[1].out
    assert json.loads(default)["delta"] == 1e-5
    status, output = run(capsys, "calibrate gap --level edge --epsilon 1 --hops 2")
    assert status == 2
    assert "give --delta, below one over the number of edges" in output.err
    # Between graphs with a replaced node the units are all nodes, which the command does not know.
    replaced = f"{NODE.replace('--delta 1e-5 ', '')} --adjacency node_replace"
    status, output = run(capsys, replaced)
    assert status == 2
    assert "give --delta, below one over the number of nodes" in output.err
    status, output = run(capsys, f"{replaced} --nodes 100000 --json")
    assert status == 0 and json.loads(output.out)["delta"] == 1e-6


def test_of_edges_delta_counts_the_entries_that_are_given(capsys):
    line = "calibrate gap --level edge --epsilon 1 --hops 2"
    assert json.loads(run(capsys, f"{line} --edges 200000 --json")[1].out)["delta"] == 1e-6
    status, output = run(capsys, f"{line} --edges 200000 --delta 1e-5")
    assert status == 0 and "warning: delta 1e-05 is not below 1/200000, one over" in output.err
    status, output = run(capsys, f"{line} --edges 200000 --delta 1e-5 --calibrate-for corrected")
    assert status == 2 and output.err.startswith("graphdp: delta 1e-05 is not below 1/200000")
    # Without their number it is said for how many δ means something: 2 · 0.49 < 1 < 3 · 0.49.
    status, output = run(capsys, f"{line} --delta 0.49")
    assert status == 0 and "over the number of edges for at most 2 of them" in output.out
    assert run(capsys, f"{line} --edges 0 --delta 0.4")[1].err.startswith("graphdp: --edges 0: ")


def test_calibrating_for_the_corrected_analysis_takes_its_noise(capsys):
    """Of an undirected edge two entries differ: √2 of the noise, at the same multiplier."""
    line = "calibrate gap --level edge --epsilon 1 --delta 1e-6 --hops 2 --json"
    own = json.loads(run(capsys, line)[1].out)
    corrected = json.loads(run(capsys, f"{line} --calibrate-for corrected")[1].out)
    assert (own["basis"], own["adjacency"]) == ("as_published", "edge_directed")
    assert (corrected["basis"], corrected["adjacency"]) == ("corrected", "edge_undirected")
    assert corrected["noise_std"] == pytest.approx(2**0.5 * own["noise_std"], rel=1e-6)
    # By the nodes, not by the training nodes that the paper's δ counts.
    node = f"{NODE.replace('--delta 1e-5 ', '')} --nodes 100000 --json"
    assert json.loads(run(capsys, node)[1].out)["delta"] == 1e-5
    assert json.loads(run(capsys, f"{node} --calibrate-for corrected")[1].out)["delta"] == 1e-6
    status, output = run(
        capsys, "calibrate dpdgcofficial --level edge --epsilon 2 --delta 1e-5 --train-nodes 500 "
        "--batch-size 5 --epochs 10 --calibrate-for corrected"
    )  # fmt: skip
    assert status == 2 and "no corrected analysis has a finite epsilon" in output.err


@pytest.mark.parametrize(("epsilon", "noise"), [("inf", 0.0), ("4", 1.8354)])
def test_edge_level_needs_only_hops(capsys, epsilon, noise):
    line = f"calibrate gap --level edge --epsilon {epsilon} --delta 1e-7 --hops 2 --json"
    read = json.loads(run(capsys, line)[1].out)
    assert read["noise_multiplier"] == pytest.approx(noise, abs=1e-3)


def test_progap_is_calibrated_for_its_depth(capsys):
    line = "calibrate progap --level edge --epsilon 1 --delta 1e-7 --depth 3 --json"
    read = json.loads(run(capsys, line)[1].out)
    assert read["noise_multiplier"] == pytest.approx(8.104, abs=1e-3)
    line = NODE.replace("gap", "progap").replace("--hops 2", "--depth 4")
    read = json.loads(run(capsys, f"{line} --json")[1].out)
    assert read["epsilon"] <= 8
    phases = [m["phase"] for m in read["plan"]["mechanisms"] if m["kind"] == "poisson_dpsgd"]
    assert phases == [f"stage{stage}" for stage in range(5)]


def test_the_degree_bound_decides_what_the_epsilon_means(capsys):
    text = run(capsys, f"{NODE} --degree-bound public_candidates")[1].out
    for part in ("1.00363", "node_add_remove", "conditional", "public universe of ids"):
        assert part in text
    assert "none" not in text


@pytest.mark.parametrize("method", ["gap", "mlp", "sage"])
def test_a_replaced_node_needs_its_own_noise(capsys, method):
    plans = {
        "gap": gap_plan("node", 2, 100, 19800, 256, 10, 1.0, adjacency="node_replace"),
        "mlp": mlp_plan("node", 19800, 256, 10, 1.0, adjacency="node_replace"),
        "sage": sage_plan("node", "asymmetric", 100, 19800, 256, 10, 1.0, "node_replace"),
    }
    line = NODE.replace("gap", method) + " --adjacency node_replace --json"
    if method != "gap":
        line = line.replace(" --hops 2", "")
    if method == "mlp":
        line = line.replace(" --max-degree 100", "")
    read = json.loads(run(capsys, line)[1].out)
    assert read["noise_multiplier"] == calibrate(plans[method], 8, 1e-5).noise_multiplier
    assert read["adjacency"] == "node_replace"
    assert read["status"] == ("conditional" if method == "mlp" else "refuted")
    text = run(capsys, line.removesuffix(" --json"))[1].out
    assert "claim under node_replace" in text


def test_it_is_said_where_the_accountant_asked_for_does_not_know_a_release(capsys):
    line = NODE.replace("gap", "mlp").replace(" --max-degree 100 --hops 2", "")
    text = run(capsys, f"{line} --accountant pld --adjacency node_replace")[1].out
    assert "pld does not know samples of a fixed size; the ε is by dp_accounting." in text
    for known in ("--accountant pld", "--adjacency node_replace"):
        assert "does not know" not in run(capsys, f"{line} {known}")[1].out
    # Gaussian releases compose exactly in any case.
    edge = "calibrate gap --level edge --epsilon 4 --delta 1e-6 --hops 2 --accountant pld"
    assert "does not know" not in run(capsys, edge)[1].out


def test_a_method_that_reads_no_edges_has_epsilon_zero(capsys):
    status, output = run(capsys, "calibrate mlp --level edge --epsilon 0")
    assert status == 0
    assert "nothing is released" in output.out


@pytest.mark.parametrize("method", ["mlp", "naive", "naiveofficial"])
@pytest.mark.parametrize("analysis", ["published", "corrected", "replaced"])
def test_where_nothing_is_released_every_analysis_has_epsilon_zero(capsys, method, analysis):
    line = f"calibrate {method} --level edge --calibrate-for {analysis} --epsilon"
    status, output = run(capsys, f"{line} 0")
    assert status == 0 and "nothing is released" in output.out and output.err == ""
    for more in ("", " --delta 1e-5"):
        status, output = run(capsys, f"{line} 4{more}")
        assert status == 2 and output.err.count("\n") == 1
        assert "releases nothing, so its epsilon is 0 and not 4; ask for epsilon 0" in output.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("calibrate gap --level edge --epsilon 1 --delta 2 --hops 1", "delta is 2.0"),
        ("calibrate gap --level edge --epsilon 0 --hops 1", "epsilon 0 is out of reach"),
        ("calibrate gap --level edge --epsilon 1 --delta 1e-5", "give --hops"),
        ("calibrate gap --level edge --epsilon 1 --delta 1e-5 --hop 1", "--hop 1"),  # no short form
        (
            "calibrate gap --level node --epsilon 1 --hops 1 --train-nodes 9",
            "give --epochs, --batch-size, --max-degree",
        ),
        ("calibrate gap --level edge --epsilon one --hops 1", "invalid float value"),
        ("calibrate progap --level edge --epsilon 1 --delta 1e-5", "give --depth"),
        (
            NODE.replace("gap", "progap")
            .replace("--hops 2", "--depth 3")
            .replace("--epsilon 8", "--epsilon 1e-4"),
            "epsilon 0.0001 at delta 1e-05 is out of reach: with any noise the accountant reads at "
            "least",
        ),
        (
            f"{NODE} --adjacency node_replace".replace("gap", "progap").replace("hops", "depth"),
            "progap, node level, reads no --adjacency; leave it out",
        ),
        ("calibrate gat --level edge --epsilon 1", "invalid choice"),
        (NODE.replace("1e-5", "-1e-5"), "delta is -1e-05; it must lie strictly between 0 and 1"),
        (NODE.replace("1e-5", "-.5E+1"), "delta is -5.0; it must"),
        (NODE.replace("--epsilon 8", "--epsilon -inf"), "epsilon is -inf; give a number of at"),
        (NODE.replace("19800", "0"), "--train-nodes 0: at least 1 is needed"),
        (NODE.replace("19800", "-5"), "--train-nodes -5: at least 1 is needed"),
        ("", "COMMAND"),
    ],
)
def test_errors_are_one_line(capsys, line, message):
    try:
        status = cli.main(line.split())
    except SystemExit as stop:
        status = stop.code
    error = capsys.readouterr().err
    assert status == 2
    assert message in error
    assert error.startswith("graphdp: ") and error.count("\n") == 1


def test_it_answers_in_five_seconds_of_cpu_without_torch():
    code = (
        "import sys, time; from graphdp import cli; "
        f"cli.main({NODE.split()!r}); "
        "print(time.process_time(), 'torch' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    seconds, torch = result.stdout.split()[-2:]
    assert float(seconds) < 5
    assert torch == "False"


def test_the_version_is_that_of_the_package(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), flags=re.MULTILINE)
    assert ended.value.code == 0 and capsys.readouterr().out == f"graphdp {cited[1]}\n"


def test_an_installed_package_has_all_files_that_are_no_code():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    package = ROOT / "workflow/graphdp"
    patterns = settings["tool"]["setuptools"]["package-data"]["graphdp"]
    listed = {path for pattern in patterns for path in package.glob(pattern)}
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "."], cwd=package, capture_output=True, text=True
    ).stdout.split("\0")
    files = {package / name for name in tracked if name and not name.endswith(".py")}
    assert files == listed and any(path.name == "numbers.csv" for path in files)
