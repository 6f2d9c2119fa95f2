"""What every script of the workflow does around its one library call: log, time, fail clearly."""

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import platform
import re
import resource
import shlex
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, TextIO

from graphdp import __version__, io, private, seals
from graphdp.errors import GraphDPError

_START = time.monotonic()
#: What `usage` leaves out: earlier work of this process that was counted already.
_COUNTED = {"cpu_seconds": 0.0, "wall_seconds": 0.0}


#: Where the machine, and not the project, is at fault.
_NO_PLACE = io.NO_ROOM | {errno.EACCES, errno.EPERM}


def command() -> str:
    """What was typed to start the workflow, also in the processes that it starts."""
    return os.environ.setdefault("GRAPHDP_COMMAND", shlex.join(["snakemake", *sys.argv[1:]]))


def run(snakemake: Any, main: Callable[[Any], None]) -> None:
    """Call `main(snakemake)` with everything it prints sent to the rule's log, on inputs that are
    whole (`graphdp.seals`); seal what it made.

    A `GraphDPError` ends the job with its one line in the log and on the terminal, and so does a
    full disk; any other exception leaves its traceback in the log. All end the process with exit
    code 1. Of a private release the log, which Snakemake may show, says where all of that stands:
    what goes wrong may tell of the data.

    A job that a killed run left at work is waited for: two never write the same files at once.
    """
    log, hidden = Path(snakemake.log[0]), ""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        if snakemake.config.get("release") == "private":
            log.write_text(f"what this job says stands in {log}.private\n", encoding="utf-8")
            log = log.with_name(f"{log.name}.private")
            hidden = f"error: a job of a private release failed; {log} says why"
        lock = _lock(log)
        file = log.open("w", encoding="utf-8", buffering=1)
    except OSError as error:
        sys.exit(f"error: {_no_place(error, log)}")
    failed, logged = None, False
    try:
        silent = _descriptors_to(file) if hidden else contextlib.nullcontext()
        with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file), silent:
            _run(snakemake, main)
    except GraphDPError as error:
        failed = f"error: {error}"
    except KeyboardInterrupt:
        failed = "error: interrupted; run the same command again to go on"
    except (Exception, SystemExit) as error:
        if isinstance(error, OSError) and error.errno in _NO_PLACE:
            failed = f"error: {_no_place(error, log)}"
        elif type(error).__name__ == "OutOfMemoryError":  # torch's, which not every job imports
            failed = (
                "error: this job does not fit into the memory that is free on the GPU: set "
                "device: cpu, or run fewer jobs at a time"
            )
        elif isinstance(error, MemoryError):
            failed = (
                f"error: this job needs more memory than there is ({error}): lower the study's "
                "sizes, or run fewer jobs at a time"
            )
        else:
            failed = f"error: {type(error).__name__}: {error} (traceback in {log})"
            logged = True
            with contextlib.suppress(OSError):  # where there is no room for it either
                traceback.print_exc(file=file)
    with contextlib.suppress(OSError), lock, file:
        if failed and not logged:
            print(failed, file=file)
    if failed:
        sys.exit(hidden or failed)


@contextlib.contextmanager
def _descriptors_to(file: TextIO) -> Iterator[None]:
    """What libraries and other programs write, past Python's streams, into a file as well, be it
    from a buffer of theirs."""
    kept = [os.dup(number) for number in (1, 2)]
    try:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
        yield
    finally:
        with contextlib.suppress(OSError, AttributeError, ValueError):
            sys.__stdout__.flush()
            sys.__stderr__.flush()
            ctypes.CDLL(None).fflush(None)
        for number, one in zip((1, 2), kept, strict=True):
            os.dup2(one, number)
            os.close(one)


def _run(snakemake: Any, main: Callable[[Any], None]) -> None:
    sealed = snakemake.params.get("sealed") or {}
    known = snakemake.input.get("known", ())
    seals.check_inputs(
        list(snakemake.input), sealed.get("read", {}), [known] if isinstance(known, str) else known
    )
    read = seals.contents(snakemake.input)
    for output in snakemake.output:
        seals.remove(output)
        if os.path.isdir(output):  # of a job of a killed run, which ended after this one began
            shutil.rmtree(output)
    main(snakemake)
    for output in snakemake.output:
        # What a private release publishes is read by nobody here.
        if snakemake.config.get("release") != "private" or output.startswith(f"{private.FOLDER}/"):
            seals.write(output, sealed.get("own", ""), read)
    _COUNTED.update(cpu_seconds=0.0, wall_seconds=0.0)
    print("done: " + ", ".join(f"{name} {value:g}" for name, value in usage().items()))


def lock_of(log: Path) -> Path:
    """The file that a job holds a lock on while it runs. Not the log, which Snakemake removes."""
    return log.with_name(f".{log.name}.lock")


def _lock(log: Path) -> TextIO:
    """The lock of a log's job, held until it is closed or this process ends, by whatever."""
    file = lock_of(log).open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"a killed run's job is still at work: waiting for it ({log})", file=sys.stderr)
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError:
        pass  # a file system without locks
    return file


def _no_place(error: OSError, log: Path) -> str:
    return (
        f"{error.filename or log.parent} cannot be written, or read ({error.strerror}): make room, "
        "or permit it, and run again"
    )


def block_seeds(token: str) -> list[int]:
    """The seeds of a block token: "5-7" -> [5, 6, 7]."""
    first, last = map(int, token.split("-"))
    return list(range(first, last + 1))


def usage() -> dict[str, float]:
    """CPU seconds (threads and children included), wall seconds, peak memory of this process."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    return {
        "cpu_seconds": round(cpu - _COUNTED["cpu_seconds"], 3),
        "wall_seconds": round(time.monotonic() - _START - _COUNTED["wall_seconds"], 3),
        "peak_rss_mb": round(peak_memory() / 1e6, 1),
    }


def peak_memory() -> int:
    """Peak memory of this program so far, bytes. Linux's `ru_maxrss` begins with that of the
    process which started this one, however large; VmHWM begins at 0."""
    status = Path("/proc/self/status")
    peak = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    if peak:
        return int(peak[1]) * 1024
    # In KiB on Linux and in bytes on macOS.
    scale = 1024 if platform.system() == "Linux" else 1
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def lap() -> None:
    """Let `usage` count from here, for a job that does several things one after the other."""
    now = usage()
    for name in ("cpu_seconds", "wall_seconds"):
        _COUNTED[name] += now[name]


def git_commit() -> str:
    """The commit of the project, with `+` if files differ from it; "unknown" outside a checkout."""
    folder = Path(__file__).parent

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=folder, capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        dirty = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "--short=12", "HEAD") + ("+" if dirty else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def versions(*packages: str) -> str:
    """JSON object of the versions of Python, graphdp and `packages`."""
    # Of graphdp itself from its code: it need not be installed.
    found = {"python": platform.python_version(), "graphdp": __version__}
    found |= {package: metadata.version(package) for package in packages}
    return json.dumps(found, sort_keys=True)


def check_cores(cores: int | None) -> None:
    """Refuse `--cores 0`, with which Snakemake waits for ever, and less. None is Snakemake's own.

    Raises `GraphDPError`.
    """
    if cores is not None and cores < 1:
        raise GraphDPError(f"--cores (JOBS) is {cores}; give at least 1, or all")


def set_threads(threads: int) -> None:
    """Limit torch to `threads` CPU threads, and processes that a job starts."""
    import torch

    torch.set_num_threads(threads)
    os.environ["OMP_NUM_THREADS"] = str(threads)
