"""Jobs that a killed run left on this machine (those on Slurm: tests/test_slurm.py)."""

import subprocess
import sys
import time

import psutil

from graphdp.workflow import orphans

LASTING = """import pathlib, signal, sys, time
{first}
pathlib.Path(sys.argv[0] + ".began").touch()
time.sleep(100)
"""


def job(folder, name, first=""):
    """A process that runs a script from where Snakemake keeps those of its jobs."""
    script = folder / ".snakemake/scripts" / name
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(LASTING.format(first=first))
    process = subprocess.Popen([sys.executable, script])
    deadline = time.monotonic() + 60
    while not script.with_name(f"{name}.began").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return process


def test_what_does_not_end_is_not_said_to_have_ended(tmp_path, monkeypatch):
    """Another user's job: root may end every one, so refusals are played."""
    mine = tmp_path / "project"
    own, foreign = job(mine, "tmp1.stage.py"), job(mine, "tmp2.stage.py")

    def refusing(signal):
        def sent(process):
            if process.pid == foreign.pid:
                raise psutil.AccessDenied(process.pid)
            signal(process)

        return sent

    for name in ("terminate", "kill"):
        monkeypatch.setattr(psutil.Process, name, refusing(getattr(psutil.Process, name)))
    try:
        assert orphans.end(mine, patience=1) == [f"{own.pid}"]
        assert foreign.poll() is None
    finally:
        for process in (own, foreign):
            process.kill()
            process.wait()


def test_jobs_of_this_folder_alone_are_ended_however_they_take_it(tmp_path):
    mine = tmp_path / "project"
    usual = job(mine, "tmp1.stage.py")
    stubborn = job(mine, "tmp2.stage.py", "signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    other = job(tmp_path / "project2", "tmp3.stage.py")
    reader = subprocess.Popen(["tail", "-f", mine / ".snakemake/scripts/tmp1.stage.py"])
    try:
        ended = orphans.end(mine, patience=1)
        assert sorted(ended) == sorted([f"{usual.pid}", f"{stubborn.pid}"])
        assert not psutil.pid_exists(usual.pid) and not psutil.pid_exists(stubborn.pid)
        assert (other.poll(), reader.poll()) == (None, None)
        assert orphans.end(mine) == []
    finally:
        for process in (usual, stubborn, other, reader):
            process.kill()
            process.wait()
