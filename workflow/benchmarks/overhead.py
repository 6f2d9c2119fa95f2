"""Jobs and CPU seconds of studies, and how much of that is not training.

    python workflow/benchmarks/overhead.py --mirror DIR [--project CHECKOUT] [--part demo]

Each part runs, or plans, a study in a copy of the project's folder, where nothing was made yet.
CPU seconds are those of Snakemake and all its jobs; of a study that trains, what the rows say of
their training jobs (starts of processes included) stands beside. With `--project` of another
checkout, as of an older commit, the same is measured of that, with this environment's libraries.
"""

import argparse
import csv
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROWS = "workflow/report/dpdgc-rows.csv.gz"
#: Part -> (its title, words for Snakemake, the study whose models are trained).
PARTS = {
    "demo": ("the demo", [], "demo"),
    "table": (
        "a table of two graphs from shipped rows",
        ["tables", "--configfile", "config/papers/dpdgc.yaml", "--config",
         "datasets=[cora,photo]", f"known_rows=[{ROWS}]", "train=false",
         "tables=[dpdgc_table2]", "figures=[]"],
        None,
    ),
    "gap": ("planning GAP's paper", ["-n", "--configfile", "config/papers/gap.yaml"], None),
    "pnpignn": (
        "planning PNPiGNNs' paper", ["-n", "--configfile", "config/papers/pnpignn.yaml"], None,
    ),
}  # fmt: skip


def cpu_seconds() -> float:
    """Of all children that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def copy_of(project: Path, folder: Path) -> Path:
    """The project without what it made."""
    for name in ("Snakefile", "rules", "workflow", "profiles", "config", "envs"):
        if (project / name).is_dir():
            shutil.copytree(project / name, folder / name)
        elif (project / name).exists():
            shutil.copy(project / name, folder / name)
    return folder


def measure(project: Path, words: list[str], trained: str | None) -> tuple[int, float, float]:
    """Jobs (the targets left out), CPU seconds, and those of the training jobs."""
    with tempfile.TemporaryDirectory() as name:
        folder, before = copy_of(project, Path(name)), cpu_seconds()
        command = [sys.executable, "-m", "snakemake", "--cores", "2", *words]
        environment = os.environ | {
            "PYTHONPATH": str(folder / "workflow"), "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        said, used = run.stdout + run.stderr, cpu_seconds() - before
        if run.returncode:
            sys.exit(f"{' '.join(command)} failed:\n{said[-2000:]}")
        counts = re.search(r"^Job stats:\n(.*?)^total +\d+", said, flags=re.MULTILINE | re.DOTALL)
        jobs = re.findall(r"^(\w+) +(\d+)$", counts[1] if counts else "", flags=re.MULTILINE)
        number = sum(int(count) for rule, count in jobs if rule not in ("all", "tables"))
        training = 0.0
        if trained:
            with (folder / f"results/{trained}/rows.csv").open() as file:
                training = sum(float(row["cpu_seconds"]) for row in csv.DictReader(file))
    return number, used, training


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mirror", type=Path, help="folder with the raw files; for the table")
    parser.add_argument("--project", type=Path, default=ROOT, help="another checkout")
    parser.add_argument("--part", nargs="*", choices=PARTS, default=list(PARTS))
    given = parser.parse_args()
    print("| study | jobs | CPU s | of these, training jobs |\n| --- | --- | --- | --- |")
    for part in given.part:
        title, words, trained = PARTS[part]
        if part == "table":
            if given.mirror is None:
                print(f"| {title} | give --mirror | | |")
                continue
            words = [*words, f"mirror={given.mirror.resolve()}"]
        number, used, training = measure(given.project.resolve(), words, trained)
        print(f"| {title} | {number:,} | {used:.0f} | {training:.0f} |", flush=True)


if __name__ == "__main__":
    main()
