"""The files in envs/: pins, conda environment, hashes; jobs where the library is not installed."""

import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from project_fixture import Project

ROOT = Path(__file__).parent.parent
_spec = importlib.util.spec_from_file_location("generate", ROOT / "envs/generate.py")
generate = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(generate)

STUDY = {
    "study": "tiny",
    "datasets": ["mine"],
    "definitions": {"mine": {"base": "csbm", "parameters": {"n": 300, "f": 8, "d": 6}}},
    "seeds": 1,
    "experiments": {"accuracy": [{"method": "mlp", "level": "none", "epochs": 1}]},
    "tables": ["accuracy"],
    "figures": [],
}
#: What Snakemake asks a conda for. Its environments have the packages in a folder.
CONDA = """\
#!/bin/sh
case "$1 $2" in
"info --json") echo '{{"conda_prefix": "{prefix}", "platform": "linux-64"}}' ;;
"--version ") echo "conda 25.1.0" ;;
"clean -y") ;;
"config --get") echo '{{"get": {{"channel_priority": "strict"}}}}' ;;
"env create")
    while [ $# -gt 1 ]; do
        case "$1" in --file) cp "$2" {prefix}/read.yaml ;; --prefix) made="$2" ;; esac
        shift
    done
    {python} -m venv --without-pip "$made"
    echo {packages} > "$made"/lib/python{version}/site-packages/packages.pth ;;
*) echo "conda: $*" >&2; exit 1 ;;
esac
"""


def pinned(text: str) -> dict[str, Requirement]:
    found = [Requirement(line.split(" --hash")[0]) for line in text.splitlines() if line[:1] != "#"]
    named = {canonicalize_name(one.name): one for one in found}
    assert len(named) == len(found)
    return named


def test_the_conda_environment_is_what_follows_from_the_pins():
    assert generate.CONDA.read_text() == generate.conda()
    environment = yaml.safe_load(generate.conda())
    python, pip, packages = environment["dependencies"]
    assert (python, pip) == ("python=3.11", "pip")
    # Nothing that looks beside the file: Snakemake copies it.
    assert pinned("\n".join(packages["pip"])) == pinned(generate.PINS.read_text())
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", pin) for pin in packages["pip"])


def test_every_dependency_is_pinned_to_a_version_that_it_allows():
    pins = pinned(generate.PINS.read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for wanted in map(Requirement, project["dependencies"]):
        (pin,) = pins[canonicalize_name(wanted.name)].specifier
        assert wanted.specifier.contains(pin.version), wanted


def test_the_lock_holds_the_pins_and_what_other_platforms_need_each_with_hashes():
    text, pins = generate.LOCK.read_text(), pinned(generate.PINS.read_text())
    locked = pinned(text)
    assert {name: one for name, one in locked.items() if one.marker is None} == pins
    for name, one in locked.items():
        assert name in pins or "sys_platform" in str(one.marker), name
    for line in text.splitlines()[2:]:
        assert re.fullmatch(r"[\w.-]+==\S+( ; .*?)?( --hash=sha256:[0-9a-f]{64})+", line), line
    assert "://" not in text


def test_as_a_module_it_says_in_a_line_that_it_runs_in_a_clone(tmp_path):
    """What `snakedeploy` makes of a repository: no `onstart`, and so no locks and keys."""
    (tmp_path / "Snakefile").write_text(
        f"module other:\n    snakefile: '{ROOT}/Snakefile'\n    config: {{}}\n"
        "use rule * from other\n"
    )
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--dry-run"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode != 0
    assert "not as a module nor in another folder: git clone it" in result.stderr + result.stdout


@pytest.mark.slow
def test_jobs_run_in_a_conda_environment_without_the_library(tmp_path):
    """`--sdm conda` with a stand-in for conda; nothing of the project is installed anywhere."""
    conda, made = tmp_path / "conda", tmp_path / "made"
    (conda / "bin").mkdir(parents=True)
    (tmp_path / "project").mkdir()
    packages = tmp_path / "packages"
    packages.mkdir()
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if "graphdp" not in package.name:
            (packages / package.name).symlink_to(package)
    (conda / "bin/conda").write_text(
        CONDA.format(
            prefix=conda,
            python=sys.executable,
            packages=packages,
            version=sysconfig.get_python_version(),
        )
    )
    (conda / "bin/conda").chmod(0o755)
    (conda / "bin/activate").write_text('PATH="$1/bin:$PATH"\n')
    subprocess.run(
        [conda / "bin/conda", "env", "create", "--file", os.devnull, "--prefix", made], check=True
    )
    python = made / "bin/python"
    look = "import importlib.util as i; print(*map(bool, map(i.find_spec, ['torch', 'graphdp'])))"
    found = subprocess.run([python, "-c", look], cwd=tmp_path, capture_output=True, text=True)
    assert found.stdout.split() == ["True", "False"]
    project = Project(tmp_path / "project", STUDY)
    del project.environment["PYTHONPATH"]
    project.environment["PATH"] = f"{conda}/bin:{os.environ['PATH']}"
    project.run(
        str(python), "-m", "snakemake", "--sdm", "conda", "--cores", "2", "rows",
        "--configfile", "study.yaml",
    )  # fmt: skip
    assert (conda / "read.yaml").read_text() == generate.conda()
    assert len((project.folder / "results/tiny/rows.csv").read_text().splitlines()) == 2
    (environment,) = (project.folder / ".snakemake/conda").glob("*/bin/python")
    assert environment.exists()
