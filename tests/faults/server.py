"""Runs of the real workflow, each forked from a process that has imported everything.

A start of Snakemake and of each job costs seconds of imports, which a hundred kills cannot afford.
Here Snakemake's own `main` runs in a fork, and so does each script, in a process of its own as
usual: what is left out are the imports alone. Kills are real (SIGKILL).
"""

import contextlib
import ctypes
import importlib
import mmap
import os
import resource
import runpy
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: How long a run may take; longer means that it hangs.
PATIENCE = 400


_IMPORTED = (
    "snakemake.cli", "autodp.rdp_acct", "matplotlib.pyplot", "opacus", "torch",
    "graphdp.paper.artefacts", "graphdp.workflow.calibrations", "graphdp.workflow.model_rows",
    "graphdp.workflow.preflight",
)  # fmt: skip


def warm() -> None:
    """Import what jobs import, and read the code that they are made of."""
    for name in _IMPORTED:
        importlib.import_module(name)
    import torch
    from snakemake.script import PythonScript

    from graphdp.methods import registry
    from graphdp.workflow import code, job

    # Rows hold the commit, which another may follow while this goes on.
    job.git_commit = lambda: "unknown"
    torch.set_num_threads(1)
    for its in registry.cards().values():
        code.digest(None, its.analyses, *(stage.run for stage in its.stages))
    PythonScript.execute_script = _execute_script


def without_privileges() -> None:
    """Let this process and its forks, if root's, write where permissions allow it alone."""

    class Head(ctypes.Structure):
        _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))

    none = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable capabilities, twice
    head = Head(0x20080522, 0)
    if ctypes.CDLL(None).capset(ctypes.byref(head), ctypes.byref(none)):
        raise OSError("capabilities cannot be given up")


class Countdown:
    """A number in memory that all processes of a run share: how many writes until the kill."""

    def __init__(self, left: int):
        self._memory = mmap.mmap(-1, 8)
        self._memory[:] = struct.pack("q", left)

    def strikes(self) -> bool:
        (left,) = struct.unpack("q", self._memory[:])
        self._memory[:] = struct.pack("q", left - 1)
        return left == 0


def kill_at(countdown: Countdown, whole: bool) -> None:
    """In this process and its forks: SIGKILL at the beginning of the countdown's last write.

    A write is where a file gets its temporary name, its name, or loses it, or where the disk must
    have it. whole: kill all
    processes of the run, and not the one that writes alone.
    """

    def guarded(call: Callable) -> Callable:
        def write(*args, **options):
            if countdown.strikes():
                os.killpg(0, signal.SIGKILL) if whole else os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **options)

        return write

    os.replace, os.unlink, os.fsync = guarded(os.replace), guarded(os.unlink), guarded(os.fsync)
    tempfile.mkstemp = guarded(tempfile.mkstemp)


def _execute_script(self, name: str, edit: bool = False) -> None:
    """In place of Snakemake's, which starts a new Python for the script."""
    child = os.fork()
    if child == 0:
        os.closerange(3, 4096)  # as a new program has it: no lock of the workflow's
        code = 1
        try:
            runpy.run_path(str(name), run_name="__main__")
            code = 0
        except SystemExit as error:
            if isinstance(error.code, str):
                print(error.code, file=sys.stderr, flush=True)
            code = 0 if error.code is None else error.code if isinstance(error.code, int) else 1
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush(), sys.stderr.flush()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise subprocess.CalledProcessError(code, ["script"])


class Run:
    """A run of the workflow in a folder, at work."""

    def __init__(
        self,
        folder: Path,
        *words: str,
        prepare: Callable[[], None] = lambda: None,
    ):
        """prepare: called in the run's process before it starts."""
        self.said = Path(tempfile.mkstemp(prefix="said-", dir=folder.parent)[1])
        self.began, self.pid = time.monotonic(), os.fork()
        if self.pid:
            return
        code = 70
        try:
            os.setsid()
            os.chdir(folder)
            file = os.open(self.said, os.O_WRONLY)
            os.dup2(file, 1), os.dup2(file, 2)
            prepare()
            from snakemake.cli import main

            try:
                main([*words, "--cores", "2", "--configfile", "study.yaml"])
                code = 0
            except SystemExit as error:
                code = error.code if isinstance(error.code, int) else int(error.code is not None)
                if isinstance(error.code, str):  # as Python does at its end
                    os.write(2, f"{error.code}\n".encode())
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)

    def wait(self) -> tuple[int, str]:
        """The exit code (minus the signal, if it was killed) and what it said."""
        while time.monotonic() - self.began < PATIENCE:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                text = self.said.read_text(errors="replace")
                self.said.unlink()
                return os.waitstatus_to_exitcode(status), text
            time.sleep(0.02)
        os.killpg(self.pid, signal.SIGKILL)
        raise TimeoutError(f"a run did not end: {self.said}")

    def done(self) -> bool:
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def kill(self, whole: bool) -> None:
        """SIGKILL to all its processes, or to Snakemake alone, whose jobs live on."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL) if whole else os.kill(self.pid, signal.SIGKILL)

    def kill_a_job(self, choice: float) -> bool:
        """SIGKILL to one of its jobs, if it has any."""
        jobs = [pid for pid in _session(self.pid) if pid != self.pid]
        if jobs:
            with contextlib.suppress(ProcessLookupError):
                os.kill(jobs[int(choice * len(jobs))], signal.SIGKILL)
        return bool(jobs)


def _session(leader: int) -> list[int]:
    """The processes of a session that are alive."""
    found = []
    for entry in os.listdir("/proc"):
        with contextlib.suppress(ValueError, OSError, IndexError):
            fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader and fields[0] != "Z":
                found.append(int(entry))
    return found


def small_files(size: int) -> None:
    """Let no file of this process and its forks grow beyond a size in bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
