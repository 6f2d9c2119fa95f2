"""What every script of the workflow does around its one library call: log, time, fail clearly."""

import contextlib
import json
import os
import platform
import resource
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from graphdp.errors import GraphDPError

_START = time.monotonic()
#: What `usage` leaves out: earlier work of this process that was counted already.
_COUNTED = {"cpu_seconds": 0.0, "wall_seconds": 0.0}


def run(snakemake: Any, main: Callable[[Any], None]) -> None:
    """Call `main(snakemake)` with everything it prints sent to the rule's log.

    A `GraphDPError` ends the job with its one line in the log and on the terminal; any other
    exception leaves its traceback in the log. Both end the process with exit code 1. Of a private
    release the log, which Snakemake may show, says where all of that stands: what goes wrong may
    tell of the data.
    """
    log = Path(snakemake.log[0])
    log.parent.mkdir(parents=True, exist_ok=True)
    if snakemake.config.get("release") == "private":
        log.write_text(f"what this job says stands in {log}.private\n", encoding="utf-8")
        log = log.with_name(f"{log.name}.private")
        hidden = f"error: a job of a private release failed; {log} says why"
    else:
        hidden = ""
    with log.open("w", encoding="utf-8", buffering=1) as file:
        try:
            with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
                main(snakemake)
                _COUNTED.update(cpu_seconds=0.0, wall_seconds=0.0)
                used = usage()
                print("done: " + ", ".join(f"{name} {value:g}" for name, value in used.items()))
        except GraphDPError as error:
            print(f"error: {error}", file=file)
            sys.exit(hidden or f"error: {error}")
        except Exception as error:
            traceback.print_exc(file=file)
            sys.exit(hidden or f"error: {type(error).__name__}: {error} (traceback in {log})")


def block_seeds(token: str) -> list[int]:
    """The seeds of a block token: "5-7" -> [5, 6, 7]."""
    first, last = map(int, token.split("-"))
    return list(range(first, last + 1))


def usage() -> dict[str, float]:
    """CPU seconds (threads and children included), wall seconds, peak memory of this process."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    # ru_maxrss is in KiB on Linux and in bytes on macOS.
    scale = 1024 if platform.system() == "Linux" else 1
    return {
        "cpu_seconds": round(cpu - _COUNTED["cpu_seconds"], 3),
        "wall_seconds": round(time.monotonic() - _START - _COUNTED["wall_seconds"], 3),
        "peak_rss_mb": round(own.ru_maxrss * scale / 1e6, 1),
    }


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
    found = {"python": platform.python_version()}
    for package in ("graphdp", *packages):
        found[package] = metadata.version(package)
    return json.dumps(found, sort_keys=True)


def set_threads(threads: int) -> None:
    """Limit torch to `threads` CPU threads."""
    import torch

    torch.set_num_threads(threads)
    os.environ["OMP_NUM_THREADS"] = str(threads)
