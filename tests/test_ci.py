"""What CI runs: .ci/run, with programs that only say that they were called, and its public twin."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
ALWAYS = ["make test", "make test-slow CLAIMS=1/10 ALIKE=1/3", "make demo"]


def run(
    tmp_path: Path,
    minutes: str,
    uid: int,
    apt: int,
    *installed: str,
    fails: str = "-",
    commit: str = "",
    browser: str = "google-chrome",
):
    """Exit status and lines of .ci/run.

    apt: exit status of apt-get. installed: programs of Slurm. fails: a target of make.
    commit: what git says, if it is there. browser: a program that is there.
    """
    programs = tmp_path / "bin"
    programs.mkdir()
    scripts = {
        "make": f'echo make "$@"; [ "$1" != {fails} ]',
        "id": f"echo {uid}",
        "apt-get": f"echo apt-get; exit {apt}",
    }
    for name in ("bash", "dirname"):
        (programs / name).symlink_to(shutil.which(name))
    if commit:
        scripts["git"] = f"echo {commit}"
    for name, script in (scripts | dict.fromkeys([*installed, browser], "true")).items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    result = subprocess.run(
        ["bash", ROOT / ".ci/run"],
        env={"PATH": str(programs), "CI_MINUTES": minutes},
        capture_output=True,
        text=True,
    )
    assert result.stderr == ""
    return result.returncode, result.stdout.splitlines()


@pytest.mark.parametrize(
    ("commit", "claims", "alike"),
    [
        ("0000ff", "1/10", "1/3"), ("00ff00", "6/10", "1/3"), ("0100ab", "7/10", "2/3"),
        ("000500", "6/10", "3/3"), ("000900", "10/10", "1/3"),
    ],
)  # fmt: skip
def test_a_commit_runs_the_part_of_what_is_alike_that_its_hash_names(
    commit, claims, alike, tmp_path
):
    number = int(commit[:4], 16)
    assert number % 10 + 1 == int(claims.split("/")[0]) and number % 3 + 1 == int(alike[0])
    lines = run(tmp_path, "0", 0, 0, commit=commit)[1]
    assert lines[1] == f"make test-slow CLAIMS={claims} ALIKE={alike}"


@pytest.mark.parametrize("minutes", ["", "24", "90"])
def test_a_real_slurm_is_tested_where_it_is_there_in_time(minutes, tmp_path):
    found = run(tmp_path, minutes, 0, 100, "slurmctld", "munged")
    assert found == (0, [*ALWAYS, "make test-slurm"])


def test_its_packages_are_installed_where_they_can_be(tmp_path):
    assert run(tmp_path, "", 0, 0, "munged") == (0, [*ALWAYS, "make test-slurm"])


@pytest.mark.parametrize(
    ("minutes", "uid", "apt", "installed", "why"),
    [
        ("", 1000, 0, ("slurmctld", "munged"), "it needs root"),
        ("21", 0, 0, ("slurmctld", "munged"), "21 minutes are left of CI_MINUTES"),
        ("0", 0, 0, ("slurmctld", "munged"), "0 minutes are left of CI_MINUTES"),
        ("", 0, 100, ("munged",), "slurm-wlm munge fails"),
    ],
)
def test_where_it_cannot_be_tested_is_one_line(minutes, uid, apt, installed, why, tmp_path):
    status, lines = run(tmp_path, minutes, uid, apt, *installed)
    assert (status, lines[:-1]) == (0, ALWAYS)
    assert lines[-1].startswith("make test-slurm is left out: ") and why in lines[-1]


@pytest.mark.parametrize(
    ("uid", "apt", "told"),
    [
        (0, 0, []),
        (0, 100, ["apt-get install -y --no-install-recommends chromium fails"]),
        (1000, 0, ["to install one needs root"]),
    ],
)
def test_a_browser_is_installed_where_it_can_be(uid, apt, told, tmp_path):
    status, lines = run(tmp_path, "0", uid, apt, browser="elinks")
    assert status == 0
    why = [line for line in lines if line.startswith("the report is not opened in a browser: ")]
    assert [one in line for one, line in zip(told, why, strict=True)] == [True] * len(told)
    assert [line for line in lines if line not in why][:3] == ALWAYS


def test_what_slurm_shows_fails_the_whole(tmp_path):
    installed = ("slurmctld", "munged")
    assert run(tmp_path, "", 0, 0, *installed, fails="test-slurm")[0] != 0


def test_the_public_twin_runs_the_same_and_every_python_that_is_promised():
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    commands = {name: [s["run"] for s in job["steps"] if "run" in s] for name, job in jobs.items()}
    assert commands == {"all": ["bash .ci/run"], "demo": ["make demo"]}
    first, last = re.search(
        r"Python 3\.(\d+) to 3\.(\d+)", (ROOT / "README.md").read_text()
    ).groups()
    (one,) = [s["with"]["python-version"] for s in jobs["all"]["steps"] if "with" in s]
    versions = [one, *jobs["demo"]["strategy"]["matrix"]["python-version"]]
    assert versions == [f"3.{minor}" for minor in range(int(first), int(last) + 1)]
