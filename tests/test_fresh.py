"""`make test-fresh`: what it takes of the host, why it cannot run, that it leaves nothing."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "fresh/run.py"
_spec = importlib.util.spec_from_file_location("fresh_run", SCRIPT)
fresh = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fresh)


def test_pip_settings_of_the_host_are_one_file_in_which_variables_come_first(tmp_path):
    wheels, index = tmp_path / "wheels", tmp_path / "index"
    (index / "simple").mkdir(parents=True)
    wheels.mkdir()
    listed = (
        f":env:.find-links='{wheels}'\n:env:.disable-pip-version-check='1'\n"
        f"global.find-links='/elsewhere'\nglobal.extra-index-url='file://{index}/simple https://x.org/100%'\n"
        "install.no-compile='true'\nWARNING: something = else\n"
    )
    settings = fresh.pip_settings(listed)
    assert {name: dict(settings[name]) for name in settings.sections()} == {
        "global": {
            "find-links": str(wheels),
            "extra-index-url": f"file://{index}/simple https://x.org/100%",
            "disable-pip-version-check": "1",
        },
        "install": {"no-compile": "true"},
    }
    # An index on disk names packages beside it; what is not there is left out.
    assert fresh.local_paths(settings) == [index, wheels]
    assert fresh.local_paths(fresh.pip_settings("global.a='/ file:///none relative'")) == []


@pytest.mark.parametrize(
    ("user", "absent", "status", "line"),
    [
        (1000, (), 0, "a fresh Debian needs root (debootstrap, chroot): sudo make test-fresh"),
        (0, ("debootstrap",), 0, "no debootstrap: apt-get update && apt-get install -y "),
        (0, (), 1, "no right to mount"),
        (0, (), 0, ""),
    ],
)
def test_where_it_cannot_run_is_one_line(user, absent, status, line, monkeypatch, capsys):
    monkeypatch.setattr(fresh.os, "geteuid", lambda: user)
    monkeypatch.setattr(fresh.shutil, "which", lambda name: None if name in absent else name)
    ended = subprocess.CompletedProcess([], status)
    monkeypatch.setattr(fresh.subprocess, "run", lambda *_, **__: ended)
    assert fresh.missing().startswith(line) and bool(fresh.missing()) == bool(line)
    if line:
        monkeypatch.setattr(sys, "argv", [str(SCRIPT)])
        assert fresh.main() == 2
        said = capsys.readouterr()
        assert said.err.startswith(f"error: {line}") and said.err.count("\n") == 1
        assert said.out == ""


def can_mount() -> bool:
    if os.geteuid() != 0 or any(shutil.which(name) is None for name in fresh.PROGRAMS[1:]):
        return False
    mounts = ["unshare", "--mount", "--pid", "--fork", "true"]
    return subprocess.run(mounts, capture_output=True).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="needs root, unshare, setpriv, chroot, git and mounts")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, None])
def test_nothing_is_left_however_it_ends(how, tmp_path):
    """A debootstrap that mounts something and then waits, or fails; the run is killed at that."""
    folder, programs, begun = tmp_path / "folder", tmp_path / "bin", tmp_path / "begun"
    folder.mkdir()
    programs.mkdir()
    debootstrap = programs / "debootstrap"
    debootstrap.write_text(
        '#!/bin/sh\nmkdir -p "$4/mounted" "$4/etc"; mount -t tmpfs none "$4/mounted" || exit 1\n'
        f'echo x > "$4/mounted/file"; touch "{begun}"; {"sleep 600" if how else "exit 3"}\n'
    )
    debootstrap.chmod(0o755)
    run = subprocess.Popen(
        [sys.executable, SCRIPT, "--folder", folder],
        env=os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A suite in the background ignores SIGINT, and what it starts would as well.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    if how:
        deadline = time.monotonic() + 60
        while not begun.exists():
            assert run.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        assert len(list(folder.iterdir())) == 1
        run.send_signal(how)
    said = run.communicate(timeout=60)[1]
    assert run.returncode != 0
    assert begun.exists()
    if how is None:
        assert run.returncode == 1 and said == "error: debootstrap: exit status 1\n"
    deadline = time.monotonic() + 60
    while list(folder.iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    mounts = Path("/proc/self/mounts").read_text()
    assert str(folder) not in mounts
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert str(folder) not in process.read_text()
        except OSError:
            continue  # it has ended
