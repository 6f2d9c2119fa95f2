"""Before the first job: jobs that a killed run left at work in this folder are ended.

What such a job was making is unfinished for the run that begins, which makes it again; the job
itself would go on beside it, and write where Snakemake removes what is unfinished. The locks of
jobs (`graphdp.workflow.job`) are a second line: not every shared disk carries them from node to
node.
"""

import os
import shutil
import subprocess
import time
from pathlib import Path

import psutil

from graphdp.errors import GraphDPError

#: Names of Slurm jobs begin with it (`slurm-jobname-prefix` of profiles/slurm*).
PREFIX = "graphdp"
#: Where the executor plugin logs: without it no Slurm job was started from the folder.
_LOGS = ".snakemake/slurm_logs"
#: Where Snakemake keeps the scripts that jobs run.
_SCRIPTS = ".snakemake/scripts"


def end(folder: Path, patience: float = 10.0) -> list[str]:
    """End this machine's jobs of a folder; returns the ids of the processes that have ended.

    To be called while no run is at work in the folder (`graphdp.workflow.lock`). What does not end
    in `patience` seconds is killed. What another user started is left.
    """
    scripts = f"{folder.resolve() / _SCRIPTS}{os.sep}"
    found = [
        process
        for process in psutil.process_iter(["name", "cmdline"])
        if (process.info["name"] or "").startswith("python")  # not an editor
        and any(word.startswith(scripts) for word in process.info["cmdline"] or ())
    ]
    ended = []
    for signal in ("terminate", "kill"):
        found = [process for process in found if _reached(process, signal)]
        gone, found = psutil.wait_procs(found, timeout=patience)
        ended += gone
    return [f"{process.pid}" for process in ended]


def _reached(process: psutil.Process, signal: str) -> bool:
    """Send a signal; whether it is worth waiting for the end of the process, or it has ended."""
    try:
        getattr(process, signal)()
    except psutil.AccessDenied:  # another user's
        return False
    except psutil.NoSuchProcess:
        pass
    return True


def cancel(folder: Path, patience: float = 180.0) -> list[str]:
    """Cancel this user's Slurm jobs that were submitted from a folder; returns their ids.

    To be called while no run is at work in the folder (`graphdp.workflow.lock`). Waits until they
    have ended, at most `patience` seconds. Raises `GraphDPError` if Slurm does not answer, or if
    one does not end.
    """
    if not (folder / _LOGS).is_dir() or shutil.which("squeue") is None:
        return []
    found = _left(folder)
    if found:
        _ask("scancel", *found)
    end = time.monotonic() + patience
    while still := [one for one in _left(folder) if one in found]:
        if time.monotonic() > end:
            raise GraphDPError(
                f"Slurm jobs {', '.join(still)} of a killed run do not end: see "
                "squeue, and run again when they are gone"
            )
        time.sleep(1)
    return found


def _left(folder: Path) -> list[str]:
    """Ids of the jobs that wait, run or end."""
    said = _ask("squeue", "--me", "--noheader", "--format=%A|%j|%Z")
    jobs = [line.strip().split("|", 2) for line in said.splitlines() if line.count("|") >= 2]
    place = folder.resolve()
    return [
        number
        for number, name, where in jobs
        if name.startswith(f"{PREFIX}_") and Path(where).resolve() == place
    ]


def _ask(*command: str) -> str:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=60
        ).stdout
    except subprocess.CalledProcessError as error:
        why = error.stderr.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        why = str(error)
    raise GraphDPError(
        f"Slurm does not say whether jobs of a killed run are at work here ({why}): run again when "
        "squeue answers"
    )
