"""Profiles and rules for a Slurm cluster, without one; `make test-slurm` starts a real Slurm."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml
from snakemake.api import SnakemakeApi
from snakemake.cli import get_argument_parser
from snakemake.resources import GroupResources, Resources
from snakemake.settings.types import ConfigSettings, OutputSettings, ResourceSettings

from graphdp import cli
from graphdp.errors import GraphDPError
from graphdp.methods import registry
from graphdp.workflow import orphans
from project_fixture import Project

ROOT = Path(__file__).parent.parent
PROFILES = ("slurm", "slurm-gres")
#: Needs the network, or takes seconds and reads what is there.
ON_THE_LOGIN_NODE = {
    "download", "collect", "collect_attacks", "draw", "release", "audit_report", "audit",
}  # fmt: skip
PRIVATE = {
    "study": "hospital", "datasets": ["mine"], "release": "private", "key_file": "../key",
    "delta": 1e-5, "calibrate_for": "corrected", "train_nodes": 220, "mirror": ".",
    "experiments": {"model": [{"method": "mlp", "level": "node", "epsilon": 8}]},
}  # fmt: skip
MINE = {
    "title": "Mine", "loader": "arrays", "parameters": {"file": "mine.npz"},
    "files": [{"name": "mine.npz"}], "preprocessing": {"num_classes": 3},
}  # fmt: skip


def profile(name: str) -> dict:
    return yaml.safe_load((ROOT / f"profiles/{name}/config.yaml").read_text())


def loaded(name, parent):
    """The workflow of the demo, or of a private release, in a new folder without results. What its
    Snakefile defines (`globals`) is replaced where another one is loaded."""
    config = PRIVATE
    if name == "demo":
        config = yaml.safe_load((ROOT / "config/config.yaml").read_text())
    folder, before = Project(parent, config).folder, os.getcwd()
    if name == "private":
        known = yaml.safe_load((folder / "config/datasets.yaml").read_text())
        known["datasets"]["mine"] = MINE
        (folder / "config/datasets.yaml").write_text(yaml.safe_dump(known))
        cli.main(["key", str(folder.parent / "key")])
    with SnakemakeApi(OutputSettings()) as api:
        found = api.workflow(
            resource_settings=ResourceSettings(cores=1),
            config_settings=ConfigSettings(config=config),
            snakefile=folder / "Snakefile",
            workdir=folder,
        )._workflow
        assert list(found.rules)  # now the Snakefile has been read
    os.chdir(before)
    return found


@pytest.fixture(scope="module", params=["demo", "private"])
def rules(request, tmp_path_factory) -> dict:
    """The rules that run something: of a reproduction, and of a private release, which has more."""
    workflow = loaded(request.param, tmp_path_factory.mktemp(request.param))
    found = {rule.name: rule for rule in workflow.rules if not rule.norun}
    local = {name for name in found if name in workflow._localrules}
    assert ("release" in found) == (request.param == "private")
    return {"all": found, "local": local}


def asked(rule, resource: str, attempt: int) -> int:
    value = rule.resources[resource].evaluate(
        wildcards=None, input=None, attempt=attempt, threads=1, rulename=rule.name, async_run=None
    )
    return value.value


def test_every_rule_asks_for_memory_and_time_that_double_with_each_retry(rules):
    for name, rule in rules["all"].items():
        for resource in ("mem_mb", "runtime"):
            first = asked(rule, resource, 1)
            assert first >= (1000 if resource == "mem_mb" else 10), name
            assert [asked(rule, resource, n) for n in (2, 3)] == [2 * first, 4 * first], name


def test_every_rule_says_how_many_threads_it_uses():
    for path in (ROOT / "rules").glob("*.smk"):
        text = path.read_text()
        # `use rule stage as bundle` has those of `stage`.
        assert text.count("    threads: ") == text.count("    script:\n"), path.name


def test_what_needs_the_network_or_takes_seconds_stays_on_the_login_node(rules):
    assert rules["local"] == ON_THE_LOGIN_NODE & set(rules["all"])


@pytest.mark.parametrize("name", PROFILES)
def test_jobs_of_every_submitted_rule_share_slurm_jobs(name, rules):
    groups = dict(entry.split("=") for entry in profile(name)["groups"])
    submitted = set(rules["all"]) - rules["local"]
    assert submitted <= set(groups)
    assert not ON_THE_LOGIN_NODE & set(groups)  # a group would be submitted
    components = [entry.split("=")[0] for entry in profile(name)["group-components"]]
    assert set(components) <= set(groups.values())


@pytest.mark.parametrize("name", PROFILES)
def test_snakemake_and_the_plugin_know_every_key_of_a_profile(name):
    options = {o for action in get_argument_parser()._actions for o in action.option_strings}
    assert "--slurm-jobname-prefix" in options  # the plugin is there
    assert {f"--{key}" for key in profile(name)} <= options
    assert not any(key.startswith("slurm-array") for key in profile(name))


@pytest.mark.parametrize("name", PROFILES)
def test_the_next_run_finds_the_jobs_of_a_profile_by_their_names(name):
    assert profile(name)["slurm-jobname-prefix"] == orphans.PREFIX
    assert profile(name)["executor"] == "slurm"


def test_the_profile_for_gres_differs_in_how_gpus_are_asked_for_alone():
    gres = profile("slurm-gres")
    asked_for = dict(entry.split("=", 1) for entry in gres.pop("set-resources"))
    assert gres == profile("slurm")
    assert {asked_for[f"{rule}:gpu"] for rule in ("stage", "bundle", "attack")} == {"0"}
    stages = {(stage.name, stage.trains) for c in registry.cards().values() for stage in c.stages}
    for rule in ("stage", "bundle"):
        for stage, trains in stages:
            wildcards = type("Wildcards", (), {"stage": stage})
            said = eval(asked_for[f"{rule}:gres"], {"wildcards": wildcards})
            # Jobs of a stage share a Slurm job, so that all or none of them train.
            assert said == ("gpu:1" if trains else ""), stage
            assert (stage, not trains) not in stages


@pytest.mark.parametrize("name", PROFILES)
def test_a_slurm_job_of_four_asks_for_one_gpu_and_the_memory_of_one(name):
    given = profile(name)
    turn = dict(entry.split("=") for entry in given["resources"])
    assert given["set-resource-scopes"] == [f"{key}=local" for key in turn]
    assert given["default-resources"] == given["resources"]
    jobs = [
        type("Job", (), {"resources": one, "pipe_group": None})
        for one in [{"mem_mb": 4500, "runtime": 60, "gpu": 1, "_cores": 1, "turn": 1}] * 4
    ]
    limits = Resources.parse(given["resources"], allow_expressions=False)
    asked_for = GroupResources.basic_layered([jobs], limits, run_local=False)
    assert {name: asked_for[name] for name in ("mem_mb", "runtime", "gpu", "_cores")} == {
        "mem_mb": 4500, "runtime": 240, "gpu": 1, "_cores": 1,
    }  # fmt: skip


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """A queue in a file; `scancel` ends all but those whose name says that they last."""
    queue, programs = tmp_path / "queue", tmp_path / "bin"
    programs.mkdir()
    scripts = {
        "squeue": f'#!/bin/sh\n[ -f "{queue}" ] || {{ echo no controller >&2; exit 1; }}\n'
        f'cat "{queue}"\n',
        "scancel": f'#!/bin/sh\nfor id in "$@"; do sed -i "/^$id|[^|]*brief/d" "{queue}"; done\n',
    }
    for name, text in scripts.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    (tmp_path / "project/.snakemake/slurm_logs").mkdir(parents=True)
    return queue


def test_jobs_of_a_killed_run_in_this_folder_alone_are_cancelled(slurm, tmp_path):
    mine, other = tmp_path / "project", tmp_path / "elsewhere"
    others = [f"2|graphdp_brief|{other}\n", f"3|brief|{mine}\n", f"4|graphdp_brief|{mine}/sub\n"]
    slurm.write_text("".join([f"1|graphdp_brief|{mine}\n", *others, f"15|graphdp_brief|{mine}\n"]))
    assert orphans.cancel(mine) == ["1", "15"]
    assert slurm.read_text() == "".join(others)
    assert orphans.cancel(mine) == []


def test_a_job_that_does_not_end_and_a_slurm_that_does_not_answer_are_one_line(slurm, tmp_path):
    slurm.write_text(f"7|graphdp_lasting|{tmp_path}/project\n")
    with pytest.raises(GraphDPError, match="jobs 7 of a killed run do not end: see squeue"):
        orphans.cancel(tmp_path / "project", patience=0)
    slurm.unlink()
    with pytest.raises(GraphDPError, match=r"\(no controller\): run again when squeue answers"):
        orphans.cancel(tmp_path / "project")


def test_a_folder_without_slurm_jobs_asks_nobody(slurm, tmp_path, monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("asked"))
    assert orphans.cancel(tmp_path) == []


SEALED = {
    "preprocess",
    "stage",
    "bundle",
    "attack",
    "collect",
    "collect_attacks",
    "calibrate",
    "draw",
}


class Wildcards(dict):
    """What Snakemake gives a function."""

    __getattr__ = dict.__getitem__


def test_every_job_names_its_code_and_what_its_result_is_made_of(rules):
    """By the one Snakemake runs it again when the library is edited; by the other its seal tells
    results of another configuration where Snakemake has no records."""
    for name, rule in rules["all"].items():
        given = set(rule.params.keys())
        assert ("code" in given) == (name != "audit"), name  # which looks each time
        assert ("sealed" in given) == (name in SEALED), name


def test_what_a_stage_reads_must_be_of_its_configuration(tmp_path, monkeypatch):
    names = loaded("demo", tmp_path).globals
    monkeypatch.chdir(tmp_path)  # results of the demo may stand in the project's own folder
    made, grid = names["MADE"], names["GRID"]
    reading = [(place, unit) for place, unit in grid.units.items() if grid.reads(unit)]
    assert reading
    for (stage, place), unit in reading:
        (block,) = made.blocks(grid.cell(unit.cells[0]))[:1]
        suffix = unit.stage.store[2]
        wildcards = Wildcards(stage=stage, place=place, block=block, suffix=suffix)
        sealed, inputs = names["stage_sealed"](wildcards), names["stage_inputs"](wildcards)
        assert set(sealed["read"]) == {inputs["graph"], *inputs["results"]}
        assert all(sealed["read"].values()) and len(inputs["results"]) > 0


def test_the_ledger_is_told_the_code_of_every_job_that_makes_a_release(tmp_path):
    """Of the graph as well: with other code that makes it, it would be another release."""
    names = loaded("private", tmp_path).globals
    told = names["released_with"]("mine")
    units = [f"{unit.stage.name} {unit.place}" for unit in names["GRID"].units.values()]
    assert set(told["code"]) == {*units, "preprocess"} and len(units) == len(told["parameters"]) > 0
    assert all(len(digest) == 16 for digest in told["code"].values())
    assert told["graph"].startswith("private/") and told["manifest"].startswith("private/")
