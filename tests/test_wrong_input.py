"""Wrong configurations and wrong command lines end with one line that helps, and nothing else.

The configurations are derived from the types (`wrong_configurations`): what a new key, method or
hyperparameter does not refuse, fails here.
"""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

from graphdp import cli
from graphdp.data.datasets import Registry, load_registry
from graphdp.data.loaders import LOADERS
from graphdp.errors import GraphDPError
from graphdp.methods.registry import cards
from graphdp.paper.figures import figures
from graphdp.paper.tables import tables
from graphdp.training.members import like_of
from graphdp.workflow import preflight
from graphdp.workflow.preflight import loaders, prepare, shown
from wrong_command_lines import all_lines
from wrong_configurations import all_cases, study

ROOT = Path(__file__).parent.parent
LONGEST = 500
CSBM = {"n": 100, "f": 10, "d": 10.0, "epsilon": 3.25, "phi": 0.5, "seed": 0}


@pytest.fixture(autouse=True)
def project(monkeypatch):
    monkeypatch.chdir(ROOT)


def fault_of(message: str) -> str:
    """What is wrong with a message itself; "" if nothing is."""
    if "\n" in message or len(message) > LONGEST:
        return "is not one short line"
    hint = re.search(r"'([^']*)'; did you mean '([^']*)'", message)
    if hint and hint[1] == hint[2]:
        return "advises what was given"
    if "pydantic" in message or "type=" in message:
        return "is not for people"
    return ""


def test_the_study_that_is_changed_is_right(registry):
    prepare(study(), registry)


def test_wrong_configurations_are_refused_before_the_first_job(registry):
    cases, faults = all_cases(), []
    assert len(cases) > 500
    for what, config, words in cases:
        try:
            prepare(config, registry)
        except GraphDPError as error:
            message = str(error)
            missing = [word for word in words if word not in message]
            fault = fault_of(message) or (f"does not say {missing}" if missing else "")
            faults += [f"{what}: {fault}: {message}"] if fault else []
        except Exception as error:
            faults.append(f"{what}: {type(error).__name__}")
        else:
            faults.append(f"{what}: accepted")
    assert not faults, f"{len(faults)} of {len(cases)}:\n" + "\n".join(faults[:20])


@pytest.mark.parametrize(
    "path", sorted([ROOT / "config/config.yaml", *(ROOT / "config").glob("*/*.yaml")]), ids=str
)
def test_shipped_studies_can_be_run(path, registry):
    prepare(yaml.safe_load(path.read_text()), registry)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loader": "musea"}, r"dataset 'cora': unknown loader 'musea'; did you mean 'musae'\?"),
        ({"loader": ""}, r"dataset 'cora': unknown loader ''; known: amazon"),
        ({"parameters": {}}, r"dataset 'cora': loader 'planetoid' needs 'name'; give it"),
        (
            {"parameters": {"name": "Cora", "nmae": 1}},
            r"dataset 'cora': loader 'planetoid': unknown parameter 'nmae'; did you mean 'name'\?",
        ),
        ({"loader": "lastfm_asia"}, r"loader 'lastfm_asia': takes no parameters"),
        (
            {"loader": "arrays", "parameters": {"file": "ind.cora.x", "num_ids": "100"}},
            r"loader 'arrays': num_ids must be a whole number without quotes, not '100'; write it",
        ),
        (
            {"loader": "arrays", "parameters": {"file": "ind.cora.x", "sparse": "no"}},
            r"loader 'arrays': sparse must be true or false without quotes, not 'no'; write it",
        ),
        (
            {"loader": "csbm", "parameters": CSBM | {"n": "100"}},
            "dataset 'cora': csbm: n must be a whole number without quotes, not '100'",
        ),
        (
            {"loader": "csbm", "parameters": CSBM | {"d": True}},
            "dataset 'cora': csbm: d must be a number without quotes, not True",
        ),
        ({"parameters": {"name": 3}}, r"loader 'planetoid': name must be a text, not 3; write it"),
        (
            {"loader": "arrays", "parameters": {"file": "/elsewhere/mine.npz"}},
            r"the file '/elsewhere/mine.npz', which is not under files; put it .* there: mine.npz",
        ),
    ],
)
def test_a_wrong_entry_of_the_registry_is_noticed_before_anything_is_downloaded(change, message):
    cora = load_registry(ROOT / "config/datasets.yaml").resolve("cora")
    wrong = Registry(Path("datasets.yaml"), {"cora": cora.model_copy(update=change)})
    with pytest.raises(GraphDPError, match=message):
        prepare(study() | {"datasets": ["cora"]}, wrong)


def test_the_loaders_are_read_off_the_code():
    assert list(loaders()) == list(LOADERS)
    for name, (taken, needed) in loaders().items():
        own = list(inspect.signature(LOADERS[name]).parameters.values())[2:]
        any_name = any(one.kind is one.VAR_KEYWORD for one in own)
        assert any_name == (taken is None)
        assert any_name or list(taken) == [one.name for one in own]
        assert set((taken or {}).values()) <= set(preflight._TYPES)
        due = [one for one in own if one.default is one.empty and one.kind is not one.VAR_KEYWORD]
        assert needed == [one.name for one in due]


def test_the_names_of_tables_and_figures_are_read_off_the_code():
    assert set(shown("table")) == set(tables())
    assert set(shown("figure")) == set(figures())


def test_wrong_command_lines_are_refused_in_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines, faults = all_lines(tmp_path), []
    assert len(lines) >= 100
    for words, parts in lines:
        try:
            code = cli.main(words)
        except SystemExit as error:
            code = error.code
        except Exception as error:
            faults.append(f"{words}: {type(error).__name__}: {error}")
            continue
        said = capsys.readouterr()
        message = said.err.removesuffix("\n")
        missing = [part for part in parts if part not in message]
        if code != 2:
            faults.append(f"{words}: exit {code}: {said.out[:80]!r} {message!r}")
        elif said.out or fault_of(message) or missing or not message.startswith("graphdp: "):
            faults.append(f"{words}: {fault_of(message)} {missing or ''}: {message}")
    assert not faults, f"{len(faults)} of {len(lines)}:\n" + "\n".join(faults)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_one_clear_line():
    with pytest.raises(GraphDPError, match="torch sees no GPU here; set device: auto, or cpu"):
        like_of("cuda", torch.float32)


@pytest.mark.slow
def test_output_that_cannot_be_written_is_one_line(tmp_path):
    """A full disk, and a terminal that knows no δ."""
    words = ["calibrate", "gap", "--level", "edge", "--epsilon", "4", "--delta", "1e-6"]
    command = [sys.executable, "-m", "graphdp.cli", *words, "--hops", "2"]
    with open("/dev/full", "w") as full:
        found = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert found.returncode == 2 and found.stderr.count("\n") == 1
    assert "the output cannot be written: No space left on device" in found.stderr
    plain = os.environ | {"PYTHONIOENCODING": "ascii"}
    found = subprocess.run(command, capture_output=True, text=True, env=plain)
    assert (found.returncode, found.stderr) == (0, "") and r"\u03b4" in found.stdout


def test_a_refuted_claim_names_its_adjacency_and_the_way_to_what_holds(capsys):
    words = ["calibrate", "gap", "--level", "node", "--epsilon", "8", "--delta", "1e-5"]
    words += ["--hops", "2", "--max-degree", "100"]
    words += ["--epochs", "9", "--batch-size", "64", "--train-nodes", "900"]
    assert cli.main(words) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert "read its epsilon as none under node_add_remove" in last
    way = re.search(r"--calibrate-for \w+", last)[0].split()
    assert cli.main([*words, *way]) == 0
    held = capsys.readouterr().out
    assert "claim under participant, status conditional" in held and "counterexample" not in held


@pytest.mark.parametrize(
    ("method", "example"), [(one.name, text) for one in cards().values() for text in one.examples]
)
def test_the_examples_of_the_help_are_right(method, example, capsys):
    assert cli.main(["calibrate", method, *example.split()]) == 0
    assert re.search(r"noise.multiplier", capsys.readouterr().out)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("results/data/graphs/nosuch.npz", "No rule to produce results/data/graphs/nosuch.npz"),
        (
            "results/demo/fit/csbm-small/gap/edge/3/accuracy/0-4.csv",
            "the study 'demo' has no fit of csbm-small/gap/edge/3/accuracy; name a dataset",
        ),
    ],
)
def test_a_target_that_the_study_does_not_make_is_said_to_be_none(target, words):
    command = [sys.executable, "-m", "snakemake", "--dry-run", target]
    found = subprocess.run(command, capture_output=True, text=True, timeout=300)
    told = found.stdout + found.stderr
    assert found.returncode != 0 and words in told and "KeyError" not in told


@pytest.mark.slow
def test_an_unknown_audit_is_one_line_without_a_traceback():
    command = [sys.executable, "-m", "snakemake", "--dry-run", "results/audit/gap-edge.json"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=300)
    told = found.stdout + found.stderr
    assert found.returncode != 0 and "Traceback" not in told and "Exception" not in told
    assert "no audit of a claim 'gap-edge'; did you mean gap-" in told


@pytest.mark.parametrize("name", ["rows.csv", "attacks.csv", "fit/../rows.csv"])
def test_known_rows_are_not_what_the_study_itself_writes(name, registry, tmp_path, monkeypatch):
    """Snakemake deletes what a job is about to make: it would be the only copy of the rows."""
    content = yaml.safe_load((ROOT / "config/config.yaml").read_text())
    monkeypatch.chdir(ROOT)
    path = f"results/{content['study']}/{name}"
    for given in (path, str(ROOT / path)):
        with pytest.raises(GraphDPError, match=r"known_rows: .* is where this study writes; copy"):
            prepare(content | {"known_rows": [given]}, registry)
    with pytest.raises(GraphDPError, match="there is no file"):
        prepare(content | {"known_rows": [str(tmp_path / "rows.csv")]}, registry)
