"""Whole files or none, named random streams, and the lock that a kill releases."""

import errno
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from graphdp import io, rng
from graphdp.errors import GraphDPError
from graphdp.workflow import lock


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "out.json"
    io.write_json(path, {"a": 1})

    def fail_half_way():
        with io.atomic_path(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert io.read_json(path) == {"a": 1}
    assert os.listdir(tmp_path) == ["out.json"]


def test_what_fails_for_another_reason_keeps_its_own_words(tmp_path):
    """As a download that stalls while its file is open."""
    for said, text in (
        (TimeoutError("timed out"), "timed out"),
        (ConnectionResetError(104, "Connection reset"), r"\[Errno 104\] Connection reset"),
    ):
        with pytest.raises(type(said), match=f"^{text}$"), io.atomic_path(tmp_path / "out.npz"):
            raise said


def test_a_disk_that_fails_names_the_file(tmp_path):
    with (
        pytest.raises(OSError, match=r"Input/output error: '.*out\.npz'"),
        io.atomic_path(tmp_path / "out.npz"),
    ):
        raise OSError(errno.EIO, "Input/output error")


def test_a_full_disk_names_what_could_not_be_written(tmp_path):
    """The system does not, of a file that is open."""
    script = (
        "import resource, signal; from graphdp import io; "
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); "
        "io.write_text('out.txt', 'x' * 9000)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stderr.endswith("OSError: [Errno 27] File too large: 'out.txt'\n")
    assert os.listdir(tmp_path) == []


def test_json_refuses_what_json_cannot_say(tmp_path):
    with pytest.raises(ValueError, match="JSON compliant"):
        io.write_json(tmp_path / "x.json", {"epsilon": float("inf")})
    assert os.listdir(tmp_path) == []


def test_equal_arrays_give_equal_bytes(tmp_path):
    x = np.arange(12.0).reshape(3, 4)
    io.save_npz(tmp_path / "a.npz", x=x)
    io.save_npz(tmp_path / "b.npz", x=x.copy())
    assert io.sha256_file(tmp_path / "a.npz") == io.sha256_file(tmp_path / "b.npz")
    assert np.array_equal(io.load_npz(tmp_path / "a.npz")["x"], x)


def test_array_digests_see_values_shape_and_dtype():
    x = np.zeros(4, dtype=np.float32)
    y = x.copy()
    y[2] = 1
    digests = {
        io.sha256_arrays(a)
        for a in (x, y, x.reshape(2, 2), x.astype(np.int32), x.astype(np.float64))
    }
    assert len(digests) == 5


def test_streams_depend_on_the_name_alone():
    first = rng.generator(1, 2, "noise").standard_normal(4)
    rng.generator(1, 2, "other").standard_normal(9)
    assert np.array_equal(first, rng.generator(1, 2, "noise").standard_normal(4))


def test_different_names_are_different_streams():
    names = [(1, 2), (2, 1), (1, "2"), (12,), (1, 2, ""), (1.5, 2)]
    assert len({rng.stream_seed(*name) for name in names}) == len(names)


def test_a_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    (tmp_path / "results/tiny/fit").mkdir(parents=True)
    lock.check_writable(tmp_path / "results/tiny")
    lock.check_writable(tmp_path / "results/other/not/there")
    monkeypatch.setattr(lock.os, "access", lambda path, _: not str(path).endswith("tiny/fit"))
    with pytest.raises(GraphDPError, match="tiny/fit cannot be written"):
        lock.check_writable(tmp_path / "results/tiny")
    monkeypatch.setattr(lock.os, "access", lambda path, _: not str(path).endswith("results"))
    with pytest.raises(GraphDPError, match="results cannot be written"):
        lock.check_writable(tmp_path / "results/other/not/there")


def test_what_stands_where_a_folder_will_be_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lock.check_folders("results/tiny", "results/data")
    Path("elsewhere").mkdir()
    Path("results").symlink_to("elsewhere")  # results may lie on another disk
    lock.check_folders("results/tiny", "results/data")
    Path("results/data").touch()
    with pytest.raises(GraphDPError, match=r"^results/data is no folder: move it away"):
        lock.check_folders("results/tiny", "results/data/graphs")
    Path("results").unlink()
    Path("results").symlink_to("no/where")
    with pytest.raises(GraphDPError, match=r"^results is a link to nothing: move it away"):
        lock.check_folders("results/tiny")


def test_a_lock_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "lock").mkdir()
    with pytest.raises(GraphDPError, match=r"lock cannot be written \(Is a directory\): remove it"):
        lock.hold(tmp_path / "lock")


HOLDER = """
import sys, time
from graphdp.workflow import lock
lock.hold(sys.argv[1])
print("held", flush=True)
time.sleep(60)
"""


def test_lock_stops_a_second_run_and_dies_with_its_holder(tmp_path):
    path = tmp_path / "lock"
    command = [sys.executable, "-c", textwrap.dedent(HOLDER), str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(GraphDPError, match=str(holder.pid)):
            lock.hold(path)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    lock.hold(path)
    os.close(lock._held.pop())
