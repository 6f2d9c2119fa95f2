"""Results that were cut, altered, not finished, or are of another study are not used."""

import errno
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from graphdp import io, seals
from graphdp.errors import GraphDPError
from graphdp.paper import rows
from graphdp.workflow import job
from graphdp.workflow.known_rows import KnownIndex

FILE = "results/tiny/fit/0-1.csv"


class Named(dict):
    """What Snakemake gives a script: a list of values of which some have names."""

    def __iter__(self):
        return iter(self.values())

    def __getitem__(self, index):
        return list(self.values())[index]


def asked(output, inputs=(), release="reproduction", **params):
    return SimpleNamespace(
        input=Named(enumerate(inputs)),
        output=Named({0: output}),
        params=params,
        log=["logs/job.log"],
        config={"release": release},
    )


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(seals, "PATIENCE", 0.0)
    return tmp_path


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def copy(path):
    """Of another place, seal and all."""
    other = path.with_name("5-9.csv")
    io.write_text(other, "other")
    seals.write(other)
    seals.seal_of(other).rename(seals.seal_of(path))
    other.rename(path)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (cut, "was altered or cut"),
        (flip, "was altered or cut"),
        (lambda path: path.write_text(""), "was altered or cut"),
        (Path.unlink, "is incomplete"),
        (copy, "was made as results/tiny/fit/5-9.csv"),
        (lambda path: seals.remove(path), "was not finished"),
        (lambda path: (seals.remove(path), path.unlink()), "was not finished"),
        (lambda path: cut(seals.seal_of(path)), "has a damaged seal"),
        (lambda path: seals.seal_of(path).write_text("[]"), "has a damaged seal"),
        (lambda path: seals.seal_of(path).write_text("[" * 99_999), "has a damaged seal"),
    ],
)
def test_a_result_with_a_fault_is_named_in_one_line(fault, words):
    io.write_text(FILE, "a,b\n1,2\n")
    seals.write(FILE, "0123")
    seals.check(FILE)
    seals.check(FILE, "0123")
    with pytest.raises(GraphDPError, match="is of another configuration"):
        seals.check(FILE, "4567")
    fault(Path(FILE))
    with pytest.raises(GraphDPError, match=words) as caught:
        seals.check(FILE)
    assert FILE in str(caught.value) and "\n" not in str(caught.value)
    assert "delete it and run again" in str(caught.value)


def test_a_folder_is_sealed_as_a_whole_and_its_files_one_by_one(project):
    folder = Path("results/tiny/statements/small")
    for name in ("a.json", "deep/b.json", ".tmp-left"):
        io.write_text(folder / name, name)
    seals.write(folder)
    io.write_text(folder / "deep/.tmp-left", "of a killed process")
    seals.check(folder)
    seals.check_if_sealed(folder / "deep/b.json")
    flip(folder / "deep/b.json")
    seals.check_if_sealed(folder / "a.json")
    with pytest.raises(GraphDPError, match=r"small was altered or cut .*\(deep/b.json\)"):
        seals.check_if_sealed(folder / "deep/b.json")
    with pytest.raises(GraphDPError, match=r"\(deep/b.json\)"):
        seals.check(folder)
    io.write_text(folder / "deep/b.json", "deep/b.json")
    io.write_text(folder / "c.json", "")
    with pytest.raises(GraphDPError, match=r"did not write \(c.json\)"):
        seals.check(folder)


def test_a_project_may_be_moved(project):
    io.write_text("one/" + FILE, "1")
    os.chdir("one")
    seals.write(FILE)
    os.chdir(project)
    Path("one").rename("two")
    seals.check(project / "two" / FILE)
    os.chdir("two")
    seals.check(FILE)


def test_a_seal_may_be_late(monkeypatch):
    """As on the file system of a cluster."""
    io.write_text(FILE, "made")
    seals.write(FILE)
    late = seals.seal_of(FILE).rename("late")
    monkeypatch.setattr(seals, "PATIENCE", 30.0)
    monkeypatch.setattr(seals.time, "sleep", lambda _: late.rename(seals.seal_of(FILE)))
    seals.check(FILE)


def test_a_job_seals_what_it_made_and_reads_what_is_sealed():
    def main(snakemake):
        io.write_text(snakemake.output[0], "made")

    one = asked(FILE, sealed={"own": "0123", "read": {}})
    job.run(one, main)
    seals.check(FILE, "0123")

    other = asked("results/tiny/rows.csv", [FILE, "config/a.yaml"], sealed={"read": {FILE: "0123"}})
    job.run(other, main)
    other.params["sealed"]["read"][FILE] = "4567"
    cut(Path(FILE))
    with pytest.raises(SystemExit, match=f"error: {FILE} is of another configuration"):
        job.run(other, main)
    other.params = {}
    with pytest.raises(SystemExit, match=f"error: {FILE} was altered or cut"):
        job.run(other, main)
    log = Path("logs/job.log").read_text()
    assert log.startswith(f"error: {FILE} was altered") and log.count("\n") == 1


def test_a_job_that_fails_leaves_no_seal_of_earlier():
    def fail(snakemake):
        io.write_text(snakemake.output[0], "half")
        raise GraphDPError("no")

    io.write_text(FILE, "whole")
    seals.write(FILE)
    with pytest.raises(SystemExit):
        job.run(asked(FILE), fail)
    assert not seals.seal_of(FILE).exists()


def test_a_full_disk_is_one_line_without_a_traceback():
    def fail(snakemake):
        raise OSError(errno.ENOSPC, "No space left on device", "results/x")

    with pytest.raises(
        SystemExit, match=r"error: results/x cannot be written, or read \(No space left"
    ):
        job.run(asked(FILE), fail)
    assert "Traceback" not in Path("logs/job.log").read_text()


def test_too_little_memory_is_one_line_without_a_traceback():
    def fail(snakemake):
        np.empty(2**55, np.float64)

    with pytest.raises(SystemExit, match=r"error: this job needs more memory .* \(Unable to alloc"):
        job.run(asked(FILE), fail)
    assert "Traceback" not in Path("logs/job.log").read_text()


def test_a_full_gpu_is_one_line_without_a_traceback():
    import torch

    def fail(snakemake):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has")

    with pytest.raises(SystemExit, match=r"free on the GPU: set device: cpu, or run fewer jobs"):
        job.run(asked(FILE), fail)
    assert Path("logs/job.log").read_text().count("\n") == 1


def test_what_a_private_release_publishes_has_no_seal():
    """The seals of what stays are in private/, as their digests are not keyed."""

    def main(snakemake):
        for output in snakemake.output:
            io.write_text(output, "made")

    for output, sealed in (("results/mine/row.csv", False), ("private/mine/fit/0-0.csv", True)):
        job.run(asked(output, release="private"), main)
        assert seals.seal_of(output).exists() == sealed
    assert {path.parts[0] for path in Path(".").rglob(".*.seal")} == {"private"}


PAST_PYTHON = """
import ctypes, os, subprocess, sys
sys.path.insert(0, sys.argv[1])
from test_seals import asked
from graphdp.workflow import job

def main(snakemake):
    os.write(2, b"node 17 has degree 93")
    subprocess.run([sys.executable, "-c", "print('row 8 of x')"])
    ctypes.CDLL(None).printf(b"in the buffer of C")
    sys.__stdout__.write("in the buffer of Python")
    raise SystemExit("node 17")

job.run(asked("private/mine/fit/0-0.csv", release="private"), main)
"""


def test_a_private_job_hides_what_is_written_past_pythons_streams():
    """As by a library in C, and by another program."""
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", PAST_PYTHON, here]
    own = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    found = subprocess.run(command, capture_output=True, text=True, check=False, env=own)
    assert found.returncode == 1 and found.stdout == "" and found.stderr.count("\n") == 1
    assert found.stderr.startswith("error: a job of a private release failed; ")
    (log,) = Path(".").rglob("*.private")
    text = log.read_text()
    for words in ("node 17 has degree 93", "row 8 of x", "buffer of C", "buffer of Python", "Exit"):
        assert words in text


WORKER = """
import sys, time
from pathlib import Path
from types import SimpleNamespace
sys.path.insert(0, sys.argv[1])
from test_seals import asked
from graphdp import io
from graphdp.workflow import job

def main(snakemake):
    io.write_text("started", "")
    while not Path("go").exists():
        io.write_text(f"{snakemake.output[0]}/{sys.argv[2]}", "half")
        time.sleep(0.05)
    io.write_text(f"{snakemake.output[0]}/{sys.argv[2]}", "whole")

job.run(asked("results/tiny/folder"), main)
"""


def test_a_job_waits_for_the_same_job_of_a_killed_run():
    """... and what that one leaves is not mixed with its own."""
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", textwrap.dedent(WORKER), here]
    with subprocess.Popen([*command, "orphan"]) as orphan:
        while not Path("started").exists():
            assert orphan.poll() is None
        with subprocess.Popen([*command, "second"], stderr=subprocess.PIPE, text=True) as second:
            assert "waiting for it" in second.stderr.readline()
            assert not list(Path("results/tiny/folder").glob("second"))
            io.write_text("go", "")
    assert orphan.returncode == second.returncode == 0
    seals.check("results/tiny/folder")
    assert [path.name for path in Path("results/tiny/folder").iterdir()] == ["second"]


# --- Rows -----------------------------------------------------------------------------------------

BLOCK = {
    "study": "tiny", "dataset": "small", "method": "mlp", "level": "none", "epsilon": "inf",
    "checkpoint": "best_validation", "study_seed": 12345, "split_rule": "shared",
}  # fmt: skip
SETTINGS = [{"hidden": 8}, {"hidden": 16}]


def written(path, **changes):
    made = [
        dict.fromkeys(rows.COLUMNS, "") | BLOCK | {
            "seed": seed, "hyperparameters": f'{{"hidden":{setting["hidden"]}}}', "split": "shared",
            "val_accuracy": 0.5, "test_accuracy": 0.5, "graph": "0123456789ab", "epsilons": "[]",
        } | changes
        for setting in SETTINGS for seed in (0, 1)
    ]  # fmt: skip
    pd.DataFrame(made).drop(columns="split_rule").to_csv(path, index=False)
    return path


def test_rows_are_those_of_every_setting_and_seed(project):
    path = written(project / "0-1.csv")
    rows.check_models(path, BLOCK, SETTINGS, [0, 1])
    for settings, seeds in ((SETTINGS, [0, 1, 2]), (SETTINGS[:1], [0, 1]), (SETTINGS, [2, 3])):
        with pytest.raises(GraphDPError, match=r"0-1.csv has 4 models") as caught:
            rows.check_models(path, BLOCK, settings, seeds)
        assert "\n" not in str(caught.value)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:3]))
    with pytest.raises(GraphDPError, match="has 2 models, 2 of the 4 wanted"):
        rows.check_models(path, BLOCK, SETTINGS, [0, 1])
    path.write_text("".join([*lines, lines[-1]]))
    with pytest.raises(GraphDPError, match="has 5 models, 0 of the 4 wanted"):
        rows.check_models(path, BLOCK, SETTINGS, [0, 1])


@pytest.mark.parametrize(
    "change",
    [{"study": "other"}, {"study_seed": "1"}, {"split": "per_seed"}, {"checkpoint": "last"}],
)
def test_rows_of_another_study_are_named(project, change):
    path = written(project / "0-1.csv", **change)
    ((name, value),) = change.items()
    with pytest.raises(GraphDPError, match=f"a row has {name} {value}"):
        rows.check_models(path, BLOCK, SETTINGS, [0, 1])


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8, 0.99])
def test_known_rows_that_end_in_mid_line_are_refused(project, share):
    path = written(project / "rows.csv")
    KnownIndex([path], "tiny")
    text = path.read_text()
    path.write_text(text[: int(share * len(text))])
    with pytest.raises(GraphDPError, match=r"rows.csv is not readable") as caught:
        KnownIndex([path], "tiny")
    assert "\n" not in str(caught.value)


def test_known_rows_of_this_project_are_read_with_their_seal(project):
    path = Path("results/tiny/rows.csv")
    path.parent.mkdir(parents=True)
    written(path)
    seals.write(path)
    KnownIndex([path], "tiny")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:3]))  # at the end of a line
    with pytest.raises(GraphDPError, match=r"rows.csv was altered or cut"):
        KnownIndex([path], "tiny")


def test_what_a_private_release_reads_is_checked_as_well():
    for path in ("results/tiny/fit/0-0.csv", "private/mine/fit/0-0.csv"):
        io.write_text(path, "made")
        seals.write(path, "0123")
        seals.check_inputs([path], {path: "0123"})
        with pytest.raises(GraphDPError, match=f"{path} is of another configuration"):
            seals.check_inputs([path], {path: "4567"})
        cut(Path(path))
        with pytest.raises(GraphDPError, match=f"{path} was altered or cut"):
            seals.check_inputs([path], {})


def test_a_folder_that_lost_a_file_is_not_whole():
    folder = Path("results/tiny/statements/small")
    for name in ("a.json", "deep/b.json"):
        io.write_text(folder / name, name)
    seals.write(folder)
    (folder / "deep/b.json").unlink()
    with pytest.raises(GraphDPError, match=r"small is incomplete \(deep/b.json\)"):
        seals.check(folder)
