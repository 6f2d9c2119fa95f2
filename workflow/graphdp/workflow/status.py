"""Where a study stands: what is done, at work, failed and left, from its files alone."""

import fcntl
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import yaml

from graphdp import io, private, repeated_keys, seals
from graphdp.errors import GraphDPError
from graphdp.workflow.job import lock_of
from graphdp.workflow.made import Made
from graphdp.workflow.preflight import check_raw, prepare

STATES = ("done", "running", "failed", "left")


@dataclass(frozen=True)
class Job:
    """A job of a study and its state.

    kind: its stage or rule, with the method and level that it is about, if any. made: what it
    makes. log: its log. cause: why it failed, or ended without a word, in one line. seconds: that
    it took, if it is done.
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
    try:
        repeated_keys.check(config)
        prepared = prepare(content)
        made = Made(prepared)
        check_raw(prepared.study, prepared.datasets, made.raw_folder)
        return _states(made)
    except OSError as error:
        whose = ": it is another user's; ask for it" * isinstance(error, PermissionError)
        raise GraphDPError(
            f"{error.filename or config} cannot be read ({error.strerror}){whose}"
        ) from None


def _states(made: Made) -> list[Job]:
    # By what they make: a bundle stands once for each level that it is about.
    described: dict[Path, tuple[Any, ...]] = {}
    for one in _jobs(made):
        described.setdefault(one[1], one)
    found = []
    for one in described.values():
        try:
            found.append(_job(*one))
        except FileNotFoundError:  # removed as its job began, which holds its lock by now
            found.append(_job(*one))
    return found


def _jobs(made: Made) -> Iterator[tuple[Any, ...]]:
    """(kind, what is made, log, digest for its seals, what else is made) of every job; bundles
    stand several times."""
    study, results = made.study, Path(made.results)
    for dataset in made.available():
        log = Path(made.work, f"data/logs/preprocess/{dataset}.log")
        others = (made.statistics_file(dataset),)
        yield "preprocess", Path(made.graph_file(dataset)), log, made.graph_made_of(dataset), others
    for dataset in made.calibrated_datasets():
        folder = Path(made.calibration_folder(dataset))
        others = (made.statements_folder(dataset),)
        log = results / f"logs/calibrate/{dataset}.log"
        yield "calibrate", folder, log, made.calibrations_made_of(dataset), others
    needed = {(cell.path, block) for cell, block in made.trained()}
    for unit in made.grid.units.values():
        digest = made.made_of(made.members(unit))
        for block in dict.fromkeys(block for path, block in needed if path in unit.cells):
            path = made.grid.result(unit.stage.name, unit.place, block)[0]
            kind = f"{unit.stage.name} {unit.method} {unit.level}"
            yield kind, results / path, results / f"logs/{path}.log", digest
    for cell in made.grid.attacked:
        for block in made.attacked_blocks(cell):
            log = results / f"logs/attack/{cell.path}/{block}.log"
            kind = f"attack {cell.method} {cell.level}"
            yield kind, Path(made.attack_file(cell, block)), log, made.attack_made_of(cell)
    if made.private:
        # Published, it stays so: under another configuration the ledger refuses a second one.
        yield "release", Path(made.released_files()[0]), results / "logs/release.log", ""
        return
    collect = results / "logs/collect.log"
    yield "collect", Path(made.rows_file()), collect, made.rows_made_of(), (made.context_file(),)
    if study.attacks:
        log = results / "logs/collect_attacks.log"
        file = Path(str(made.attack_rows_file()))
        yield "collect_attacks", file, log, made.attacks_made_of()
    drawn = *map(str, made.table_files()), *map(str, made.figure_files())
    log = results / "logs/draw.log"
    yield "draw", Path(made.report_file()), log, made.report_made_of(), drawn


def _job(kind: str, made: Path, log: Path, digest: str, others: Sequence[str] = ()) -> Job:
    hidden = log.with_name(f"{log.name}.private")
    log = hidden if hidden.is_file() else log
    said = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    locked = _locked(lock_of(log))
    if locked:
        return Job(kind, str(made), log, "running")
    try:
        if kind == "release":
            done = _released(made.parent)
        else:
            done = all(_sealed(Path(one), digest) for one in (made, *others))
            done = done and seals.reads_what_is_there(made)
            for one in map(Path, (made, *others) if done else ()):
                # Arrays are large, and checked by the job that reads them.
                if one.suffix != ".npz":
                    seals.check(one)
    except GraphDPError as error:
        return Job(kind, str(made), log, "failed", f"{error}")
    if done:
        took = re.search(r"^done: .*wall_seconds ([\d.e+]+)", said, flags=re.MULTILINE)
        return Job(kind, str(made), log, "done", seconds=float(took[1]) if took else None)
    lines = [line for line in said.splitlines() if line.strip()]
    failed = bool(lines) and (lines[-1].startswith("error: ") or "Traceback (most" in said)
    # Why a job of a private release failed may tell of the data: its log alone says so.
    cause = lines[-1] if failed and log != hidden else ""
    began = log.is_file() and lock_of(log).is_file()  # the lock's file stays, of any earlier run
    if began and locked is False and not failed and not made.exists():
        # Where there are no locks nobody knows whether it still runs.
        ended = re.search(r"^done: ", said, flags=re.MULTILINE)
        cause = "" if ended else "began and ended without a word: perhaps killed, as for memory"
    return Job(kind, str(made), log, "failed" if failed else "left", cause)


def _released(folder: Path) -> bool:
    """Whether what is published of a private release is all there, and its job was done. Raises
    `GraphDPError` if it is not as it was published."""
    private.check_published(folder.name)
    files = [folder / name for name in private.PUBLISHED]
    return all(one.is_file() for one in (*files, Path(private.FOLDER, folder.name, private.RECORD)))


def _sealed(made: Path, digest: str) -> bool:
    """Whether a result is there and finished, of what the study asks for."""
    seal = seals.read(made) if made.exists() and seals.seal_of(made).is_file() else None
    return seal is not None and seal["made_of"] == digest


def _locked(lock: Path) -> bool | None:
    """Whether a job holds its lock, as it does while it runs; None on a file system without."""
    if not lock.is_file():
        return False
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return None
    return False


def seconds_left(jobs: Sequence[Job]) -> tuple[float, list[str]]:
    """How long what is not done takes one after the other: as the jobs of its stage, method and
    level took that are done, else as those of its stage; and the stages that have neither."""
    done = [one for one in jobs if one.seconds is not None]
    total, unknown = 0.0, {}
    for job in jobs:
        if job.state != "done":
            like = [one.seconds for one in done if one.kind == job.kind]
            like = like or [one.seconds for one in done if one.stage == job.stage]
            if like:
                total += mean(like)
            else:
                unknown[job.stage] = None
    return total, list(unknown)


def render(name: str, jobs: Sequence[Job]) -> str:
    """The status as text."""
    lines = [name, "", f"{'':<16}" + "".join(f"{state:>9}" for state in STATES)]
    for stage in dict.fromkeys(job.stage for job in jobs):
        of = [job.state for job in jobs if job.stage == stage]
        lines.append(f"{stage:<16}" + "".join(f"{of.count(state):>9}" for state in STATES))
    for state in ("running", "failed", "left"):
        found = [job for job in jobs if job.state == state and (job.cause or state != "left")]
        said = (" ".join(filter(None, (job.made, job.cause, f"({job.log})"))) for job in found)
        lines += ["", *(f"{state}: {one}" for one in said)] * bool(found)
    left, unknown = seconds_left(jobs)
    missing = [job for job in jobs if job.state in ("left", "failed")]
    gone = [job.made for job in missing if not Path(job.made).exists()]
    if gone and jobs[-1].state == "done" and jobs[-1].stage != "release":
        lines += [
            "",
            f"{' '.join(gone)}: made and gone, and what is made from it is there; to have it "
            f"again, name it as a target (snakemake --cores all all {gone[0]} ...).",
        ]
    if all(job.state == "done" for job in jobs):
        lines += ["", "Everything is done."]
    elif not left:
        lines += ["", "How long the rest takes is not known: nothing like it was done."]
    else:
        more = f" (not counted, since none was done yet: {', '.join(unknown)})" * bool(unknown)
        lines += ["", f"The rest takes about {_duration(left)}, if one job runs at a time{more}."]
    return "\n".join(lines)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
