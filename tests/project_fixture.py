"""A temporary copy of the project with one study, on which the real workflow is run."""

import ast
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
SNAKEMAKE = [sys.executable, "-m", "snakemake", "--cores", "2"]
PARTS = ("Snakefile", "rules", "workflow", "profiles", "config", "envs")

#: Processes that have Snakemake's modules already, which is half of what a dry run takes. Not this
#: library's: each copy of the project has its own.
_LOADED = multiprocessing.get_context("forkserver")
_LOADED.set_forkserver_preload(["snakemake.cli"])


def dry_run(words: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess:
    """What `snakemake --dry-run` says in a folder, by its program's own entry."""
    with tempfile.TemporaryDirectory() as scratch:
        said = [Path(scratch, name) for name in ("stdout", "stderr")]
        process = _LOADED.Process(target=_dry_run, args=(words, folder, environment, said))
        process.start()
        process.join(120)
        process.kill()
        process.join()
        return subprocess.CompletedProcess(words, process.exitcode, *(p.read_text() for p in said))


def _dry_run(words: list[str], folder: Path, environment: dict, said: list[Path]) -> None:
    from snakemake.cli import main

    os.chdir(folder)
    os.environ.update(environment)
    for number, path in enumerate(said, start=1):
        with path.open("w") as file:
            os.dup2(file.fileno(), number)
    sys.argv = ["snakemake", *words]
    main([*words, "--dry-run"])


class Project:
    """A copy of the project.

    folder: where it stands. study: its configuration as a dictionary, or as a file of the project.
    """

    def __init__(self, folder: Path, study: dict[str, Any] | str):
        self.folder, self.study = folder, study
        for name in PARTS:
            source = ROOT / name
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, folder / name)
        self.environment = os.environ | {"PYTHONPATH": str(folder / "workflow")}
        self.configure()

    def configure(self, **changes: Any) -> None:
        """Change keys of the study."""
        if isinstance(self.study, dict):
            text = yaml.safe_dump(self.study | changes)
        else:
            text = (self.folder / self.study).read_text()
        (self.folder / "study.yaml").write_text(text)

    def copy_to(self, folder: Path) -> "Project":
        """Another copy with all results, whose modification times Snakemake compares."""
        shutil.copytree(self.folder, folder, symlinks=True)
        # Not made anew, which would write the study's file again.
        other = Project.__new__(Project)
        other.folder, other.study = folder, self.study
        other.environment = os.environ | {"PYTHONPATH": str(folder / "workflow")}
        return other

    def run(
        self, *command: str, check: bool = True, timeout: float = 400
    ) -> subprocess.CompletedProcess:
        """A command in the copy, with its library."""
        result = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if check and result.returncode:
            pytest.fail(f"{command} failed:\n{result.stdout[-3000:]}{result.stderr[-6000:]}")
        return result

    def python(self, code: str) -> str:
        """What a piece of Python prints."""
        return self.run(sys.executable, "-c", code).stdout

    def graphdp(self, *words: str, check: bool = True) -> subprocess.CompletedProcess:
        """The command line of the copy."""
        return self.run(sys.executable, "-m", "graphdp.cli", *words, check=check)

    def command(self, *words: str) -> list[str]:
        """What runs the workflow of the copy, with its study."""
        return [*SNAKEMAKE, *words, "--configfile", "study.yaml"]

    def snakemake(self, *words: str, check: bool = True) -> subprocess.CompletedProcess:
        """The workflow of the copy, with its study."""
        return self.run(*self.command(*words), check=check)

    def planned(self, *words: str) -> dict[str, int]:
        """Kind of job -> number that a dry run would start (targets without work left out).

        That is the rule's name, and of the rules for stages with the stage's: "stage fit".
        """
        command = self.command(*words)[len(SNAKEMAKE) - 2 :]
        result = dry_run(command, self.folder, **self.environment)
        if result.returncode:
            pytest.fail(f"{command} failed:\n{result.stdout[-3000:]}{result.stderr[-6000:]}")
        # What is said of a job stands indented below its rule.
        rules = r"^(?:local)?rule (\w+):\n((?: .*\n)*)"
        jobs = []
        for rule, said in re.findall(rules, result.stdout + result.stderr, flags=re.MULTILINE):
            stage = re.search(r"^ +wildcards: .*\bstage=(\w+)", said, flags=re.MULTILINE)
            jobs.append(f"{rule} {stage[1]}" if rule in ("stage", "bundle") else rule)
        return {job: jobs.count(job) for job in sorted(set(jobs) - {"all", "rows"})}

    def edit(self, name: str, function: str) -> None:
        """Change what a function of the library does, as a digest sees it: one more statement."""
        path = self.folder / "workflow" / "graphdp" / name
        lines = path.read_text().splitlines(keepends=True)
        top = ast.parse("".join(lines)).body
        (defined,) = (d for d in top if isinstance(d, ast.FunctionDef) and d.name == function)
        first = defined.body[bool(ast.get_docstring(defined))]
        lines.insert(first.lineno - 1, f"{' ' * first.col_offset}assert True\n")
        path.write_text("".join(lines))

    def comment(self, name: str) -> None:
        """Change how a module is written, and nothing that it does."""
        path = self.folder / "workflow" / "graphdp" / name
        path.write_text(f"# Edited.\n{path.read_text()}\n# edited\n")
