"""The small private study that faults are done to, and what must be true of it at any moment."""

import shutil
import subprocess
import sys
from pathlib import Path

import yaml
from server import Run
from studies import errors_in, follow, remove

from graphdp.private import PUBLISHED
from project_fixture import Project

STUDY = {
    "study": "hospital",
    "datasets": ["own"],
    "release": "private",
    "key_file": "../hospital.key",
    "mirror": "../mirror",
    "device": "cpu",
    "delta": 1e-5,
    "train_nodes": 140,
    "calibrate_for": "corrected",
    "experiments": {
        "model": [
            {"method": "gap", "level": "node", "epsilon": 8, "hops": 1, "max_degree": 4,
             "epochs": 2, "batch_size": 32, "hidden": 4},
        ]
    },
}  # fmt: skip
RESULTS, PRIVATE = Path("results/hospital"), Path("private")
LEDGER, KEY = PRIVATE / "ledger.jsonl", PRIVATE / "ledger.key"
#: Where results of noise lie.
NOISY = ("private/hospital/fit", "private/hospital/aggregate", "private/cache/aggregates")


class Releases:
    """Copies of a project with a private study, all with one key, and what an undisturbed run of it
    published."""

    def __init__(self, folder: Path):
        """folder: where copies go, beside the folder `mirror` with the raw file."""
        self.folder, self._number = folder, 0
        self.fresh = folder / "private-fresh"
        self.fresh.mkdir()
        Project(self.fresh, STUDY)
        registry = self.fresh / "config/datasets.yaml"
        known = yaml.safe_load(registry.read_text())
        known["datasets"]["own"] = {
            "title": "Own", "loader": "arrays", "parameters": {"file": "mine.npz"},
            "files": [{"name": "mine.npz"}], "preprocessing": {"num_classes": 3},
        }  # fmt: skip
        registry.write_text(yaml.safe_dump(known))
        words = [sys.executable, "-m", "graphdp.cli", "key", str(folder / "hospital.key")]
        subprocess.run(words, check=True, capture_output=True)
        self.finished = folder / "private-finished"
        shutil.copytree(self.fresh, self.finished)
        code, said = Run(self.finished).wait()
        assert code == 0, f"the private study does not run:\n{said}{private_logs(self.finished)}"
        self.published = published(self.finished)
        assert sorted(self.published) == sorted(PUBLISHED)
        assert len(ledger_lines(self.finished)) == 1

    def copy(self, of: Path) -> Path:
        self._number += 1
        return Path(shutil.copytree(of, self.folder / f"private-copy-{self._number}"))

    def started(self, choice: float) -> Path:
        """Nothing made yet; or the release made and its later results lost."""
        if choice < 0.5:
            return self.copy(self.fresh)
        folder = self.copy(self.finished)
        for name in [RESULTS, *NOISY][: 1 + int(choice * 80) % 4]:
            remove(folder / name)
        return folder

    def wrong(self, folder: Path) -> list[str]:
        """What may not be at any moment; nothing if all is well."""
        found = []
        for name, content in published(folder).items():
            if self.published.get(name) != content:
                found.append(f"published {name} is not the release's")
        lines = ledger_lines(folder)
        if len(lines) > 1:
            found.append(f"{len(lines)} lines for one release")
        if not all(line.endswith(b"\n") for line in lines):
            found.append("half a line in the ledger")
        noise = [path for name in NOISY for path in (folder / name).rglob("*") if path.is_file()]
        if noise and not lines:
            found.append(f"{noise[0]} was drawn and no line says so")
        return found

    def finish(self, folder: Path) -> list[str]:
        """Run to the end; the same release must be published, of one line that stays as it is."""
        line = ledger_lines(folder)
        code, said = Run(folder).wait()
        if code:
            return [f"the next run ended with {code}:\n{said[-1500:]}{private_logs(folder)}"]
        faults = self.wrong(folder)
        if published(folder) != self.published:
            faults.append("not all is published")
        if line and ledger_lines(folder) != line:
            faults.append("its line in the ledger is another")
        return faults

    def second(self, folder: Path, **options) -> list[str]:
        """Another release of the same data is refused, and changes nothing; then the first is the
        study again. options: of the run."""
        before, text = ledger_lines(folder), (folder / "study.yaml").read_text()
        other = yaml.safe_load(text)
        other["experiments"]["model"][0]["epochs"] = 3
        (folder / "study.yaml").write_text(yaml.safe_dump(other))
        code, _ = Run(folder, **options).wait()
        (folder / "study.yaml").write_text(text)
        faults = self.wrong(folder) + ([] if code else ["a second release was not refused"])
        if not options and "was released before (private/ledger.jsonl" not in private_logs(folder):
            faults.append(f"it is not said why: {private_logs(folder)}")
        if ledger_lines(folder) != before:
            faults.append("a refused release changed the ledger")
        return faults

    def advised(self, folder: Path, tries: int = 5) -> tuple[list[str], int]:
        """As `Bench.advised`: what jobs say of errors stands in private logs."""
        for advice in range(tries):
            for log in (folder / PRIVATE).rglob("*.log.private"):
                log.unlink()
            code, said = Run(folder).wait()
            if code == 0:
                return self.finish(folder), advice
            if "Traceback" in said + private_logs(folder):
                return [f"a traceback:\n{said[-1500:]}{private_logs(folder)}"], advice
            lines = errors_in(private_logs(folder)) or errors_in(said)
            if not lines or not all(follow(folder, line) for line in lines):
                return [f"no advice that can be followed: {lines or said[-1500:]}"], advice
        return [f"still failing after {tries} pieces of advice: {lines}"], tries


def published(folder: Path) -> dict[str, bytes]:
    """Name -> content of what stands in a private study's folder of results, but for what a killed
    job left under a temporary name."""
    paths = (folder / RESULTS).rglob("*")
    return {
        path.name: path.read_bytes()
        for path in paths
        if path.is_file() and not path.name.startswith(".")
    }


def ledger_lines(folder: Path) -> list[bytes]:
    """Of releases; one more says which model of each is published."""
    path = folder / LEDGER
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return [line for line in lines if b'"published"' not in line]


def private_logs(folder: Path) -> str:
    """What the jobs of a private study say of failures."""
    logs = (path.read_text(errors="replace") for path in (folder / PRIVATE).rglob("*.log.private"))
    return "\n".join(log for log in logs if "rror" in log)
