"""Kills, full disks, read-only folders and damaged files: `make test-faults`.

    python tests/faults/run.py [--seed 1] [--kills 100] [--private 40] [--damaged 60] [--folder DIR]

Each study is disturbed, then run again as a user would; its rows must be those of a run that
nothing disturbed. Prints counts and the seed, which repeats a run but for what the clock decides;
ends with 1 if anything fell through.
"""

import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import server
from releases import KEY, LEDGER, Releases, ledger_lines, private_logs
from server import Countdown, Run, kill_at, small_files
from studies import RESULTS, Bench, errors_in, remove

WRITES = 90  # about as many as a whole study does
PARTS = ("kills", "private", "disks", "read-only", "damaged", "other", "mirror")
MODES = ("clock, all", "clock, workflow", "clock, job", "write, all", "write, job")


class Log:
    """What was done, and what fell through."""

    def __init__(self) -> None:
        self.done, self.faults = Counter(), []

    def add(self, kind: str, faults: list[str], number: int = 1) -> None:
        self.done[kind] += number
        for fault in faults:
            self.faults.append(f"{kind}: {fault}")
            print(f"FELL THROUGH: {kind}: {fault}", flush=True)


def kill_once(folder: Path, rng: random.Random, seconds: float, log: Log) -> str:
    """A run that is killed; returns how, or "" if it ended before that."""
    mode = rng.choice(MODES)
    moment, choice = rng.random() * seconds, rng.random()
    whole = mode.endswith("all")
    prepare = partial(kill_at, Countdown(rng.randrange(WRITES)), whole)
    run = Run(folder, prepare=prepare if mode.startswith("write") else lambda: None)
    twice = rng.random() < 0.15
    if mode.startswith("clock"):
        time.sleep(moment)
        if twice:
            second(folder, run, log)
        killed = not run.done()
        if mode == "clock, job":
            killed = run.kill_a_job(choice)
        else:
            run.kill(whole)
        code, _ = run.wait()
        return mode if killed and code else ""
    code, _ = run.wait()
    return mode if code else ""


def second(folder: Path, first: Run, log: Log) -> None:
    """Another run in the same folder at once."""
    code, said = Run(folder).wait()
    if first.done() or "Nothing to be done" in said:
        return  # too late: it may have run
    # Snakemake may be first to notice it, by a file that is gone while it plans.
    told = "another run" in said or "a concurrent process has deleted it" in said
    wrong = [] if code and told else [f"a second run ended with {code}: {said[-300:]}"]
    log.add("second run at once", wrong)


def kills(bench: Bench, rng: random.Random, number: int, log: Log) -> None:
    """Several kills in a row, then a run that must finish. Orphans are alive when it begins."""
    begin = time.monotonic()
    assert Run(bench.copy(bench.fresh)).wait()[0] == 0
    seconds = time.monotonic() - begin
    while sum(count for kind, count in log.done.items() if kind.startswith("kill (")) < number:
        folder = bench.started(rng.random())
        for _ in range(rng.randint(1, 5)):
            mode = kill_once(folder, rng, 0.8 * seconds, log)
            if mode:
                log.add(f"kill ({mode})", [])
        # Snakemake may be killed as it removes a folder: then a line says to delete the rest of it.
        faults, advice = bench.advised(folder)
        log.add("run after kills", faults)
        log.done["advice after kills"] += advice
        print(f"{log.done.total()} so far, {_cpu():.0f} s of CPU", flush=True)
        shutil.rmtree(folder, ignore_errors=True)


def private_releases(releases: Releases, rng: random.Random, number: int, log: Log) -> None:
    """Kills of a private study: at any moment one line of the ledger for what was drawn, and
    nothing published but the release."""
    begin = time.monotonic()
    assert Run(releases.copy(releases.fresh)).wait()[0] == 0
    seconds, kinds = time.monotonic() - begin, "kill of a private"
    while sum(count for kind, count in log.done.items() if kind.startswith(kinds)) < number:
        folder = releases.started(rng.random())
        for _ in range(rng.randint(1, 4)):
            if ledger_lines(folder) and rng.random() < 0.3:
                strike = partial(kill_at, Countdown(rng.randrange(WRITES // 3)), True)
                wrong = releases.second(folder, prepare=strike)
                log.add("kill of a private study, as a second release begins", wrong)
            elif mode := kill_once(folder, rng, 0.8 * seconds, log):
                log.add(f"kill of a private study ({mode})", releases.wrong(folder))
        faults, advice = releases.advised(folder)
        log.add("private run after kills", faults)
        log.done["advice after kills"] += advice
        log.add("second private release", releases.second(folder))
        log.add("private run after a refused one", releases.finish(folder))
        shutil.rmtree(folder, ignore_errors=True)
    for size in (20, 70, 1500, 3000, 9000, 30000):
        folder = releases.copy(releases.fresh)
        Run(folder, prepare=partial(small_files, size)).wait()
        log.add("full disk (file size), private", releases.wrong(folder) + releases.finish(folder))
        shutil.rmtree(folder)


def files_to_damage(finished: Path, folder: str, rng: random.Random) -> list[Path]:
    """What the project wrote below a folder of a finished run, relative to it, in random order."""
    found = [path for path in (finished / folder).glob("**/*") if path.is_file()]
    made = sorted(path.relative_to(finished) for path in found if "logs" not in path.parts)
    made = [path for path in made if path.name != ".snakemake_timestamp"]
    return rng.sample(made, len(made))


def damaged_private(releases: Releases, rng: random.Random, number: int, log: Log) -> None:
    """Files in private/ cut, flipped, emptied or removed, and the ledger and its key."""
    order = files_to_damage(releases.finished, "private", rng)
    hows = ("cut", "flipped", "emptied", "short", "removed")
    for path in [order[index % len(order)] for index in range(number)] + [LEDGER, KEY] * len(hows):
        # A key that lacks its end of line alone is whole.
        how = rng.choice([how for how in hows if (path, how) != (KEY, "short")])
        folder = releases.copy(releases.finished)
        line = ledger_lines(folder)
        damage(folder / path, how, rng)
        for name in ("private/hospital/fit", "private/hospital/aggregate", "results"):
            if not path.as_posix().startswith(name):
                remove(folder / name)
        if path in (LEDGER, KEY):
            code, said = Run(folder).wait()
            wrong = [] if code else ["it is used"]
            if "Traceback" in said + private_logs(folder) or not (
                errors_in(private_logs(folder)) or errors_in(said)
            ):
                wrong.append(f"no line says so: {said[-800:]}{private_logs(folder)}")
            shutil.copy(releases.finished / path, folder / path)
            wrong += releases.wrong(folder) + releases.finish(folder)
            wrong += [] if ledger_lines(folder) == line else ["its line is another"]
        else:
            wrong, advice = releases.advised(folder)
            log.done["advice that led on"] += advice
        log.add(f"{how} private file", [f"{path}: {fault}" for fault in wrong])
        shutil.rmtree(folder)


def private_parts(bench: Bench, rng: random.Random, number: int, log: Log) -> None:
    releases = Releases(bench.folder)
    private_releases(releases, rng, number, log)
    damaged_private(releases, rng, number // 2, log)


def full_disks(bench: Bench, rng: random.Random, log: Log) -> None:
    """Files that may not grow, and where it is allowed a disk that is full."""
    for _ in range(6):
        folder, size = bench.started(rng.random()), rng.choice((200, 2000, 8000, 20000, 60000))
        Run(folder, prepare=partial(small_files, size)).wait()
        log.add("full disk (file size)", bench.finish(folder))
        shutil.rmtree(folder)
    for _ in range(4):
        folder = bench.started(rng.random())
        kept = folder.with_name(f"{folder.name}-kept")
        results = folder / "results"
        if results.exists():
            results.rename(kept)
        results.mkdir()
        size = rng.randrange(100, 700)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "none", str(results)]
        if subprocess.run(mount, capture_output=True).returncode:
            log.add("full disk (tmpfs): not allowed here", [])
            break
        try:
            used = (
                kept.is_dir()
                and subprocess.run(
                    ["cp", "-a", f"{kept}/.", str(results)], capture_output=True
                ).returncode
            )
            code, said = (1, "") if used else Run(folder).wait()
            wrong = ["a traceback"] if code and "Traceback" in _jobs_part(said) else []
            again = shutil.copytree(results, folder / "results-of-the-full-disk")
        finally:
            subprocess.run(["umount", str(results)], check=True)
        results.rmdir()
        again.rename(results)
        # Where the copy did not fit, many files of it are cut at once, and what is said is done.
        log.add("full disk (tmpfs)", wrong + bench.advised(folder, tries=12)[0])
        shutil.rmtree(folder)
        remove(kept)


def _jobs_part(said: str) -> str:
    """What jobs say of a failure; Snakemake's own records may not be written either."""
    return "\n".join(line for line in said.splitlines() if "error:" in line)


def read_only(bench: Bench, rng: random.Random, log: Log) -> None:
    for place in ("results", RESULTS, RESULTS / "fit", RESULTS / "logs"):
        folder = bench.started(0.5)
        for path in folder.glob(f"{RESULTS}/fit/**/*.csv"):
            path.unlink()
        locked = [folder / place, *(folder / place).rglob("*")]
        modes = [path.stat().st_mode for path in locked]
        for path in locked:
            path.chmod(0o555 if path.is_dir() else 0o444)
        code, said = Run(folder, prepare=server.without_privileges).wait()
        wrong = [] if code == 1 else [f"a run in a read-only folder ended with {code}"]
        # Of outputs that may not be replaced, Snakemake itself speaks.
        why = ("cannot be written", "Write-protected output files")
        if not any(words in said for words in why) or "Traceback" in said:
            wrong.append(f"it does not say why in a line: {said[-800:]}")
        for path, mode in zip(locked, modes, strict=True):
            if path.exists():
                path.chmod(mode)
        log.add(f"read-only {place}", wrong + bench.finish(folder))
        shutil.rmtree(folder)


def damage(path: Path, how: str, rng: random.Random) -> None:
    """Cut a file, flip a bit of it, empty it, or remove it; its times stay."""
    content, times = bytearray(path.read_bytes()), path.stat()
    if how == "removed":
        path.unlink()
        return
    if how == "flipped" and content:
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    else:
        content = content[: {"cut": len(content) // 2, "emptied": 0}.get(how, len(content) - 1)]
    path.write_bytes(content)
    if rng.random() < 0.5:  # bit rot, and not an edit
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def damaged(bench: Bench, rng: random.Random, number: int, log: Log) -> None:
    """Files under results/ cut, flipped, emptied or removed, each of them at least once; whatever
    reads them runs again."""
    order = files_to_damage(bench.finished, "results", rng)
    for index in range(max(number, len(order))):
        path, how = (
            order[index % len(order)],
            rng.choice(("cut", "flipped", "emptied", "short", "removed")),
        )
        folder = bench.copy(bench.finished)
        damage(folder / path, how, rng)
        read_again(folder, path)
        faults, advice = bench.advised(folder)
        log.add(f"{how} file", [f"{path}: {fault}" for fault in faults])
        log.done["advice that led on"] += advice
        shutil.rmtree(folder)


def read_again(folder: Path, path: Path) -> None:
    """Remove the results of what reads a file, so that it is read."""
    place = path.as_posix()
    later = ["rows.csv", "report.html"]
    if "/fit/" not in place and not path.name.startswith((".rows", "rows", "context", ".context")):
        later += ["fit"]
    if "/data/" in place or "/encode/" in place or "/cache/calibrations" in place:
        later += ["aggregate"]
    if "/data/" in place or "/cache/calibrations" in place:
        later += ["encode", "bound_degree", "calibrations"]
    if "/data/raw" in place:
        later += ["../data/graphs/mine.npz"]
    for name in later:
        if not place.startswith(f"{RESULTS}/{name}"):
            remove(folder / RESULTS / name)


def of_another_study(bench: Bench, rng: random.Random, log: Log) -> None:
    """Files of a study with another seed in place of this one's, with their seals."""
    other = bench.copy(bench.finished)
    text = (other / "study.yaml").read_text() + "study_seed: 7\n"
    (other / "study.yaml").write_text(text)
    assert Run(other, "rows").wait()[0] == 0
    for stage in ("encode", "aggregate", "fit", "rows.csv", "calibrations"):
        folder = bench.copy(bench.finished)
        remove(folder / RESULTS / stage)
        source = other / RESULTS / stage
        if source.is_dir():
            shutil.copytree(source, folder / RESULTS / stage)
        else:
            shutil.copy(source, folder / RESULTS / stage)
        remove(folder / ".snakemake/metadata")  # so that Snakemake cannot know either
        for name in ["report.html", "rows.csv"][: 1 if stage == "rows.csv" else 2]:
            remove(folder / RESULTS / name)
        if stage in ("encode", "aggregate"):
            remove(folder / RESULTS / "fit")
        faults, advice = bench.advised(folder, tries=8)
        log.add("results of another study", [f"{stage}: {fault}" for fault in faults])
        log.done["advice that led on"] += advice


def damaged_mirror(bench: Bench, rng: random.Random, log: Log) -> None:
    whole = bench.raw.read_bytes()
    for how in ("cut", "flipped", "emptied", "short", "removed"):
        folder = bench.copy(bench.fresh)
        damage(bench.raw, how, rng)
        code, said = Run(folder).wait()
        line = "cannot get file mine.npz"
        wrong = (
            [] if code and line in said and "Traceback" not in said else [f"{how}: {said[-500:]}"]
        )
        bench.raw.write_bytes(whole)
        log.add("damaged mirror", wrong + bench.finish(folder))
        shutil.rmtree(folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, default in (("seed", None), ("kills", 100), ("private", 40), ("damaged", 60)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--only", nargs="+", choices=PARTS, help="the parts to run")
    parser.add_argument("--folder", type=Path, help="where copies of the project go")
    given = parser.parse_args()
    if given.folder and not given.folder.is_dir():
        parser.error(f"there is no folder {given.folder}: mkdir {given.folder}")
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    server.warm()
    log = Log()
    parts = {
        "kills": lambda bench, rng: kills(bench, rng, given.kills, log),
        "private": lambda bench, rng: private_parts(bench, rng, given.private, log),
        "disks": lambda bench, rng: full_disks(bench, rng, log),
        "read-only": lambda bench, rng: read_only(bench, rng, log),
        "damaged": lambda bench, rng: damaged(bench, rng, given.damaged, log),
        "other": lambda bench, rng: of_another_study(bench, rng, log),
        "mirror": lambda bench, rng: damaged_mirror(bench, rng, log),
    }
    with tempfile.TemporaryDirectory(dir=given.folder, prefix="graphdp-faults-") as folder:
        bench = Bench(Path(folder))
        for name in given.only or PARTS:
            parts[name](bench, random.Random(f"{seed} {name}"))
            print(f"{name}: {dict(log.done)}, {_cpu():.0f} s of CPU", flush=True)
    print(f"\nseed {seed}, {_cpu():.0f} s of CPU")
    for kind, count in sorted(log.done.items()):
        print(f"{count:5d}  {kind}")
    print(f"{len(log.faults):5d}  fell through")
    return int(bool(log.faults))


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    sys.exit(main())
