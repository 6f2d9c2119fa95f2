"""The small study that faults are done to, and what must be true of it afterwards."""

import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from server import ROOT, Run

sys.path.insert(0, str(ROOT / "tests"))
from graphdp.io import sha256_file
from project_fixture import Project

STUDY = {
    "study": "tiny",
    "datasets": ["mine"],
    "mirror": "../mirror",
    "device": "cpu",
    "seeds": 2,
    "seed_block": 2,
    "experiments": {
        "accuracy": [
            {"method": "gap", "level": "edge", "epsilon": [4], "hops": [1], "epochs": 2},
            {"method": "gap", "level": "node", "epsilon": [8], "hops": [1], "max_degree": 4,
             "epochs": 2, "batch_size": 64},
            {"method": "mlp", "level": "none", "epochs": 2},
        ]
    },
    "tables": ["accuracy"],
    "figures": ["figure6"],
}  # fmt: skip
#: What two runs of a model may differ in.
OWN = ["cpu_seconds", "wall_seconds", "peak_rss_mb"]
RESULTS = Path("results/tiny")


def write_mirror(folder: Path) -> Path:
    """The raw file of a generated graph."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, 200)
    x = (rng.random((200, 8)) < 0.3 + 0.3 * (y[:, None] == np.arange(8) % 3)).astype(np.float32)
    edges = np.unique(np.sort(rng.integers(0, 200, (2, 900)), axis=0), axis=1)
    folder.mkdir(parents=True)
    np.savez(folder / "mine.npz", x=x, y=y, edge_index=edges[:, edges[0] != edges[1]])
    return folder / "mine.npz"


class Bench:
    """A folder for copies of the project, and the rows of a run that nothing disturbed."""

    def __init__(self, folder: Path):
        self.folder, self._number = folder, 0
        self.raw = write_mirror(folder / "mirror")
        self.fresh = self._project("fresh")
        self.finished = folder / "finished"
        shutil.copytree(self.fresh, self.finished)
        code, said = Run(self.finished).wait()
        assert code == 0, f"the study does not run:\n{said}"
        self.reference = rows_of(self.finished)
        assert len(self.reference) == 6

    def _project(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        Project(folder, STUDY)
        registry = folder / "config/datasets.yaml"
        known = yaml.safe_load(registry.read_text())
        known["datasets"]["mine"] = {
            "title": "Mine", "loader": "arrays", "parameters": {"file": "mine.npz"},
            "files": [{"name": "mine.npz", "sha256": sha256_file(self.raw)}],
        }  # fmt: skip
        registry.write_text(yaml.safe_dump(known))
        return folder

    def copy(self, of: Path) -> Path:
        """A copy of a project, with the modification times that Snakemake compares."""
        self._number += 1
        return Path(shutil.copytree(of, self.folder / f"copy-{self._number}"))

    def started(self, choice: float) -> Path:
        """A project at some stage of its study: nothing made yet, or its later results missing."""
        folder = self.copy(self.fresh if choice < 0.4 else self.finished)
        if choice >= 0.4:
            later = ["rows.csv", "report.html"] + ["fit"] * (choice > 0.6)
            later += ["aggregate", "encode", "calibrations"] * (choice > 0.8)
            for name in later:
                remove(folder / RESULTS / name)
        return folder

    def faults_of(self, folder: Path) -> list[str]:
        """What is wrong with a finished study; nothing if its rows are the undisturbed ones."""
        found = []
        try:
            if not rows_of(folder).equals(self.reference):
                found.append("its rows are others")
        except OSError as error:
            found.append(f"it has no rows ({error})")
        if not (folder / RESULTS / "report.html").is_file():
            found.append("it has no report")
        return found

    def finish(self, folder: Path) -> list[str]:
        """Run a study to its end, as a user would, and say what is wrong."""
        code, said = Run(folder).wait()
        if code:
            return [f"the next run ended with {code}:\n{errors_in(said) or said[-1500:]}"]
        return self.faults_of(folder)

    def advised(self, folder: Path, tries: int = 4) -> tuple[list[str], int]:
        """Run a study to its end, doing what each error says; what is wrong, and the errors."""
        advice, targets = 0, []
        for _ in range(tries):
            code, said = Run(folder, *targets).wait()
            if code == 0:
                return self.faults_of(folder), advice
            lines = errors_in(said)
            if not lines:
                return [f"no error says what to do:\n{said[-1500:]}"], advice
            if "Traceback" in said:
                return [f"a traceback:\n{said[-1500:]}"], advice
            advice += 1
            for line in lines:
                if follow(folder, line):
                    continue
                targets = named_targets(line)  # what is deleted and did not come back
                if not targets:
                    return [f"no advice that can be followed: {line}"], advice
        return [f"still failing after {tries} pieces of advice: {lines}"], advice


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def rows_of(folder: Path) -> pd.DataFrame:
    rows = pd.read_csv(folder / RESULTS / "rows.csv", dtype=str, keep_default_na=False)
    return rows.drop(columns=OWN)


def errors_in(said: str) -> list[str]:
    """The distinct lines that a run's jobs ended with."""
    # Before the first job; after one, what Snakemake says of it is no advice.
    refused = r"^WorkflowError(?: in file .*)?:\n(?!At least one job)(.*)$"
    found = re.findall(r"^error: .*$", said, flags=re.MULTILINE)
    return list(dict.fromkeys(found + re.findall(refused, said, flags=re.MULTILINE)))


def named_targets(line: str) -> list[str]:
    """What an error says to name as targets, if deleting alone does not help."""
    found = re.search(r"name it as a target: snakemake --cores all ([^)]*?)(?: \.\.\.)?\)", line)
    return found[1].split() if found else []


def follow(folder: Path, line: str) -> bool:
    """Delete what an error says to delete: its first path ("delete it"), and those named."""
    if "delete" not in line:
        return False
    named = re.findall(r"(?:results|private)/[^\s,;:()]+", line)
    before, _, after = line.partition("delete")
    wanted = [name for name in named if name in after]
    if after.lstrip().startswith(("it", "the file", "the folder")):
        wanted += [name for name in named if name in before][:1]
    there = [folder / name for name in wanted if os.path.lexists(folder / name)]
    for path in there:
        remove(path)
    return bool(there)
