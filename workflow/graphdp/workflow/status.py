"""Where a study stands: what is done, at work, failed and left, from its files alone."""

import fcntl
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import yaml

from graphdp import io, private, repeated_keys, seals
from graphdp.errors import GraphDPError
from graphdp.workflow.finished import bundled, finished_blocks
from graphdp.workflow.grid import Cell, Grid
from graphdp.workflow.job import lock_of
from graphdp.workflow.preflight import Prepared, prepare

STATES = ("done", "running", "failed", "left")


@dataclass(frozen=True)
class Job:
    """A job of a study and its state.

    kind: its stage or rule, with the method and level that it is about, if any. made: what it
    makes. log: its log. cause: of a failure, one line. seconds: that it took, if it is done.
    """

    kind: str
    made: str
    log: Path
    state: str
    cause: str = ""
    seconds: float | None = None

    @property
    def stage(self) -> str:
        return self.kind.partition(" ")[0]


def find_config(study: str) -> Path:
    """The configuration file of a study: a path, or the name of one of the project's own.

    Raises `GraphDPError` if there is none.
    """
    if Path(study).is_file():
        return Path(study)
    own = [*Path("config").glob("*.yaml"), *Path("config").glob("*/*.yaml")]
    named = {path.stem: path for path in own if path.stem not in ("config", "datasets")}
    named["demo"] = Path("config/config.yaml")
    if study not in named:
        raise GraphDPError(
            f"no configuration file {study}; give one, or one of {', '.join(sorted(named))}, from "
            "the project's folder"
        )
    return named[study]


def status(config: Path) -> list[Job]:
    """Every job of a study, with its state. Raises `GraphDPError` as `prepare`."""
    try:
        content = io.read_yaml(config)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise GraphDPError(f"{config} cannot be read ({' '.join(str(error).split())})") from None
    if not isinstance(content, dict):
        raise GraphDPError(f"{config} is no configuration; give keys and values, as in config/")
    repeated_keys.check(config)
    prepared = prepare(content)
    work = Path(private.FOLDER if prepared.study.release == "private" else "results")
    return [_job(*job) for job in dict.fromkeys(_jobs(prepared, work))]


def _jobs(prepared: Prepared, work: Path) -> Iterator[tuple[str, Path, Path, str]]:
    """(kind, what is made, log, digest for its seal) of every job; bundles stand several times."""
    study, results = prepared.study, work / prepared.study.study
    for dataset in study.datasets:
        graph = work / "data/graphs" / f"{dataset}.npz"
        yield "preprocess", graph, work / f"data/logs/preprocess/{dataset}.log", ""
    grid = Grid(study, made=bundled(results))
    for dataset in study.datasets:
        made = results / "calibrations" / dataset
        yield "calibrate", made, results / f"logs/calibrate/{dataset}.log", ""

    def known(cell: Cell) -> list[str]:
        return prepared.known.blocks(cell, study) if prepared.known else []

    finished = finished_blocks(results / "fit")
    needed = {
        (cell.path, block)
        for cell in grid.cells
        for block in grid.trained(cell, finished, known(cell))
    }
    for unit in grid.units.values():
        bundle = grid.bundle(unit)
        members = grid.members(unit.stage.name, bundle) if bundle else [unit]
        digest = seals.digest([grid.task(one) for one in members])
        for block in dict.fromkeys(block for path, block in needed if path in unit.cells):
            made = grid.result(unit.stage.name, unit.place, block)[0]
            kind = f"{unit.stage.name} {unit.method} {unit.level}"
            yield kind, results / made, results / f"logs/{made}.log", digest
    finished = finished_blocks(results / "attacks")
    for cell in grid.attacked:
        for block in grid.trained(cell, finished, known(cell)):
            place = f"{cell.path}/{block}"
            log = results / f"logs/attack/{place}.log"
            yield f"attack {cell.method} {cell.level}", results / f"attacks/{place}.csv", log, ""
    if study.release == "private":
        released = Path("results") / study.study / "statement.json"
        yield "release", released, results / "logs/release.log", ""
    else:
        yield "collect", results / "rows.csv", results / "logs/collect.log", ""
        yield "draw", results / "report.html", results / "logs/draw.log", ""


def _job(kind: str, made: Path, log: Path, digest: str) -> Job:
    hidden = log.with_name(f"{log.name}.private")
    log = hidden if hidden.is_file() else log
    said = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    if _locked(lock_of(log)):
        return Job(kind, str(made), log, "running")
    if _sealed(made, digest) or (kind == "release" and _released(made.parent)):
        took = re.search(r"^done: .*wall_seconds ([\d.e+]+)", said, flags=re.MULTILINE)
        return Job(kind, str(made), log, "done", seconds=float(took[1]) if took else None)
    lines = [line for line in said.splitlines() if line.strip()]
    failed = bool(lines) and (lines[-1].startswith("error: ") or "Traceback (most" in said)
    # Why a job of a private release failed may tell of the data: its log alone says so.
    cause = lines[-1] if failed and log != hidden else ""
    return Job(kind, str(made), log, "failed" if failed else "left", cause)


def _released(folder: Path) -> bool:
    """Whether what is published of a private release is all there."""
    names = ("row.csv", "model.npz", "statement.json", "statement.md")
    return all((folder / name).is_file() for name in names)


def _sealed(made: Path, digest: str) -> bool:
    """Whether a result is there and finished; what is in it is checked by who reads it."""
    seal = seals.read(made) if made.exists() and seals.seal_of(made).is_file() else None
    return seal is not None and digest in ("", seal["made_of"])


def _locked(lock: Path) -> bool:
    """Whether a job holds its lock, as it does while it runs."""
    if not lock.is_file():
        return False
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            pass  # a file system without locks
    return False


def seconds_left(jobs: Sequence[Job]) -> float | None:
    """How long what is not done takes one after the other: as the jobs of its stage, method and
    level took that are done, else as those of its stage; None if there is one without either."""
    total = 0.0
    for job in jobs:
        if job.state != "done":
            done = [one for one in jobs if one.seconds is not None]
            like = [one.seconds for one in done if one.kind == job.kind]
            like = like or [one.seconds for one in done if one.stage == job.stage]
            if not like:
                return None
            total += mean(like)
    return total


def render(name: str, jobs: Sequence[Job]) -> str:
    """The status as text."""
    lines = [name, "", f"{'':<14}" + "".join(f"{state:>9}" for state in STATES)]
    for stage in dict.fromkeys(job.stage for job in jobs):
        of = [job.state for job in jobs if job.stage == stage]
        lines.append(f"{stage:<14}" + "".join(f"{of.count(state):>9}" for state in STATES))
    for state in ("running", "failed"):
        found = [job for job in jobs if job.state == state]
        said = (" ".join(filter(None, (job.made, job.cause, f"({job.log})"))) for job in found)
        lines += ["", *(f"{state}: {one}" for one in said)] * bool(found)
    left = seconds_left(jobs)
    if all(job.state == "done" for job in jobs):
        lines += ["", "Everything is done."]
    elif left is None:
        lines += ["", "How long the rest takes is not known: nothing like it was done."]
    else:
        lines += ["", f"The rest takes about {_duration(left)}, if one job runs at a time."]
    return "\n".join(lines)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
