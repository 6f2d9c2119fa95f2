"""The ledger of private releases: what is a second release, and of what it holds hashes."""

import contextlib
import copy
import itertools
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse

from graphdp import durable, io, keys, ledger
from graphdp.data import content
from graphdp.data.content import content_hashes
from graphdp.data.graph import Graph, csr_from_edges
from graphdp.errors import GraphDPError
from graphdp.methods.block import Block
from graphdp.methods.registry import card
from graphdp.methods.settings import key
from graphdp.paper.rows import COLUMNS
from graphdp.privacy.plan import Plan
from graphdp.workflow import job, publish

ENTRY = {
    "dataset": "a", "noise": "x", "release": "s", "commit": "c1",
    "made_with": {"settings": [{"hops": 1}, 1e-5], "libraries": {"torch": "2.5", "numpy": "2"}},
}  # fmt: skip
DATA = {"files": ["f1", "f2"], "labels": ["l1"], "edges": ["e1"]}
OTHER = {"dataset": "b", "noise": "y"}


def test_the_same_release_again_is_no_second_one(tmp_path):
    path = tmp_path / "private" / "ledger.jsonl"
    ledger.reserve(ENTRY, DATA, path)
    ledger.reserve(ENTRY | {"commit": "c2"}, DATA, path)  # whose code is the same
    ledger.reserve(ENTRY | OTHER, {"files": ["g"], "labels": ["m"]}, path)
    ledger.reserve(ENTRY | OTHER, {"files": ["g"], "labels": ["m"]}, path)
    assert len(path.read_text().splitlines()) == 2
    for file in (path, path.with_suffix(".key")):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("changes", "data", "message"),
    [
        ({"noise": "z"}, {"files": ["g"]}, "with other edges or nodes"),
        ({"dataset": "b", "noise": "z"}, DATA, "with the same files, labels, edges"),
        (OTHER, {"files": ["g", "f2"]}, "with the same files"),
        (OTHER, {"files": ["g"], "labels": ["l1"]}, "with the same labels"),
        (OTHER, {"edges": ["e1"], "labels": ["m"]}, "with the same edges"),
        ({"made_with": {**ENTRY["made_with"], "settings": [{"hops": 2}, 1e-5]}}, DATA,
         r"with this noise and another settings: .*; bring back what it was \(commit c1\)"),
        ({"made_with": {**ENTRY["made_with"], "libraries": {"torch": "2.6", "numpy": "2"}}}, DATA,
         r"another libraries \(torch 2.5\): .*; bring back what it was"),
        ({"made_with": {**ENTRY["made_with"], "code": {"fit": "1"}}}, DATA, "another code: "),
        ({"release": "t"}, DATA, "with this noise and another release"),
        ({}, {"files": ["g"]}, "with this noise and another data"),
    ],
)  # fmt: skip
def test_any_match_is_a_second_release(tmp_path, changes, data, message):
    path = tmp_path / "ledger.jsonl"
    ledger.reserve(ENTRY, DATA, path)
    before = path.read_bytes()
    with pytest.raises(GraphDPError, match=message) as error:
        ledger.reserve(ENTRY | changes, data, path)
    assert str(error.value).count("released before (") == 1 and "\n" not in str(error.value)
    assert "nothing is drawn" in str(error.value)
    assert path.read_bytes() == before


def test_hashes_stand_keyed_and_other_kinds_of_them_do_not_match(tmp_path):
    paths = [tmp_path / name / "ledger.jsonl" for name in "ab"]
    for path in paths:
        ledger.reserve(ENTRY, DATA, path)
        assert not any(f'"{one}"' in path.read_text() for one in ("f1", "l1", "e1"))
    found = [json.loads(path.read_text())["data"] for path in paths]
    key = keys.read_key(paths[0].with_suffix(".key"))
    assert found[0]["files"][0] == keys.keyed_hash(key, "files", "f1") != found[1]["files"][0]
    ledger.reserve(ENTRY | OTHER, {"labels": ["f1"]}, paths[0])


def test_any_other_character_in_ledger_or_key_is_noticed(tmp_path):
    """Each would let a second release through, whose hashes then match no line; so would a line
    that is gone from above another."""
    path = tmp_path / "ledger.jsonl"
    ledger.reserve(ENTRY, DATA, path)
    ledger.reserve(ENTRY | OTHER, {"files": ["g"], "labels": ["m"]}, path)
    third = (ENTRY | {"dataset": "c", "noise": "n"}, {"files": ["h"]}, path)
    rng = np.random.default_rng(0)
    for file in (path, path.with_suffix(".key")):
        whole = file.read_bytes()
        for place in rng.choice(len(whole) - 1, 60, replace=False):
            found = bytearray(whole)
            found[place] = b"0123456789abcdef"[(b"0123456789abcdef".find(found[place]) + 1) % 16]
            file.write_bytes(found)
            with pytest.raises(GraphDPError, match=r"line [12] of the ledger .* is damaged"):
                ledger.reserve(*third)
            assert file.read_bytes() == found
        file.write_bytes(whole)
    lines = path.read_bytes().splitlines(keepends=True)
    for wrong in (lines[1:], [lines[0], lines[0]], lines[::-1]):
        path.write_bytes(b"".join(wrong))
        with pytest.raises(GraphDPError, match=r"line [12] of the ledger .* is damaged"):
            ledger.reserve(*third)
    path.write_bytes(b"".join(lines))
    ledger.reserve(*third)
    assert path.read_bytes().startswith(b"".join(lines))


@pytest.mark.parametrize(
    "line",
    ["{", pytest.param("[" * 99_999, id="nested"), "[]", '{"dataset": "a"}', "null", '"data"'],
)
def test_a_damaged_ledger_is_noticed(tmp_path, line):
    path = tmp_path / "ledger.jsonl"
    keys.make_key(path.with_suffix(".key"))
    path.write_text(f"{line}\n")
    with pytest.raises(GraphDPError, match=r"line 1 of the ledger .* is damaged"):
        ledger.reserve(ENTRY, DATA, path)
    assert path.read_text() == f"{line}\n"


def test_a_ledger_without_its_key_is_noticed(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger.reserve(ENTRY, DATA, path)
    os.remove(path.with_suffix(".key"))
    with pytest.raises(GraphDPError, match=r"ledger.key, which keys .* restore it from a copy"):
        ledger.reserve(ENTRY | OTHER, {"files": ["g"]}, path)
    assert not path.with_suffix(".key").exists()


@pytest.mark.parametrize("left", [0, 40])
def test_a_full_disk_leaves_the_ledger_as_it_was(tmp_path, left):
    """Half a line would stop every later run. The file's size is limited in a process of its own,
    where so is that of the first line and of the ledger's key."""
    path = tmp_path / "ledger.jsonl"
    for room, there in ((10, False), (left + 66, False), (left, True)):
        if there:
            ledger.reserve(ENTRY, DATA, path)
        before = {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.stat().st_size}
        size = path.stat().st_size if there else 0
        code = f"""
import resource, signal
from graphdp import ledger
from graphdp.errors import GraphDPError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({size + room},) * 2)
try:
    ledger.reserve({ENTRY | OTHER}, {{"files": ["g"]}}, {str(path)!r})
except GraphDPError as error:
    print(error)
"""
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert "cannot be written (File too large)" in said.stdout and not said.stderr
        assert said.stdout.count("\n") == 1
        after = {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.stat().st_size}
        assert after == before
    ledger.reserve(ENTRY | OTHER, {"files": ["g"]}, path)
    assert len(path.read_text().splitlines()) == 2


def test_links_to_one_ledger_are_held_by_one_lock(tmp_path, monkeypatch):
    """Else two projects that share it would write over each other's lines."""
    shared, held = tmp_path / "shared/ledger.jsonl", []
    ledger.reserve(ENTRY, DATA, shared)
    monkeypatch.setattr(durable.fcntl, "flock", lambda file, _: held.append(os.fstat(file).st_ino))
    for number, name in enumerate("cd"):
        linked = tmp_path / name / "ledger.jsonl"
        linked.parent.mkdir()
        for suffix in (".jsonl", ".key"):
            linked.with_suffix(suffix).symlink_to(shared.with_suffix(suffix))
        ledger.reserve({**ENTRY, "dataset": name, "noise": name}, {"files": [name]}, linked)
        assert linked.is_symlink() and len(shared.read_text().splitlines()) == 2 + number
    ledger.publish("c", "0" * 64, tmp_path / "d/ledger.jsonl")
    assert held == [shared.parent.stat().st_ino] * 3


def test_what_a_killed_write_left_does_not_pass_on_its_mode_nor_lead_elsewhere(tmp_path):
    path, new = tmp_path / "private/ledger.jsonl", tmp_path / "private/ledger.jsonl.new"
    ledger.reserve(ENTRY, DATA, path)
    new.write_text("half")
    new.chmod(0o644)
    ledger.reserve(ENTRY | OTHER, {"files": ["g"]}, path)
    (tmp_path / "else").write_text("else")
    new.symlink_to(tmp_path / "else")
    ledger.publish("b", "0" * 64, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and not path.is_symlink()
    assert len(path.read_text().splitlines()) == 3 and (tmp_path / "else").read_text() == "else"


KILLED = """
import os, signal, sys
from graphdp import ledger
left, half = int(sys.argv[1]), sys.argv[2] == "half"

def guarded(call):
    def step(*args, **options):
        global left
        left -= 1
        if left < 0:
            if half and call is fsync:  # a kill in the middle of a write
                os.ftruncate(args[0], os.fstat(args[0]).st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*args, **options)
    return step

fsync = os.fsync
for name in ("open", "fsync", "replace", "unlink", "fchmod"):
    setattr(os, name, guarded(getattr(os, name)))
ledger.reserve({entry}, {data}, "private/ledger.jsonl")
"""


@pytest.mark.parametrize("half", ["half", "whole"])
def test_a_kill_at_any_step_leaves_the_ledger_before_or_after(tmp_path, half):
    """Of the first line, with which its key is made, and of the second; the next call goes on."""
    firsts = [(ENTRY, DATA), (ENTRY | OTHER, {"files": ["g"]})]
    for number, (entry, data) in enumerate(firsts):
        kills, code = 0, KILLED.format(entry=entry, data=data)
        while True:
            folder = tmp_path / f"{number}-{kills}"
            path = folder / "private/ledger.jsonl"
            path.parent.mkdir(parents=True)
            for earlier in firsts[:number]:
                ledger.reserve(*earlier, path)
            before = path.read_bytes() if number else b""
            words = [sys.executable, "-c", code, str(kills), half]
            run = subprocess.run(words, cwd=folder, capture_output=True, text=True)
            assert run.returncode in (0, -signal.SIGKILL), run.stderr
            found = path.read_bytes() if path.exists() else b""
            assert found.startswith(before) and found.count(b"\n") in (number, number + 1)
            assert found in (b"", before) or found.endswith(b"\n")
            for _ in range(2):
                ledger.reserve(entry, data, path)
            assert path.read_bytes().startswith(found)
            assert len(path.read_text().splitlines()) == number + 1
            other = entry | {"made_with": entry["made_with"] | {"settings": []}}
            with pytest.raises(GraphDPError, match="another settings"):
                ledger.reserve(other, data, path)
            left = sorted(file.name for file in path.parent.iterdir())
            assert left == ["ledger.jsonl", "ledger.key"]
            assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}
            if not run.returncode:
                break
            kills += 1
        assert kills >= (4, 8)[number == 0]


@pytest.mark.parametrize("lose", [os.remove, lambda path: open(path, "w").close()])
def test_a_lost_ledger_whose_key_is_there_is_noticed(tmp_path, lose):
    """Else the same data would be released again."""
    path = tmp_path / "ledger.jsonl"
    ledger.reserve(ENTRY, DATA, path)
    text = path.read_bytes()
    lose(path)
    with pytest.raises(GraphDPError, match=r"is empty or was missing, .* delete .*ledger.key"):
        ledger.reserve(ENTRY | OTHER, DATA, path)
    for reads in (ledger.datasets, lambda path: ledger.held(DATA, path)):
        with pytest.raises(GraphDPError, match="is empty or was missing, and its key is there"):
            reads(path)
    path.write_bytes(text)
    with pytest.raises(GraphDPError, match="with the same files"):
        ledger.reserve(ENTRY | OTHER, DATA, path)


@pytest.mark.parametrize("record", ["private/mine/published.json", "results/mine/statement.json"])
def test_a_ledger_lost_with_its_key_is_noticed_where_something_was_published(tmp_path, record):
    """With all of private/ perhaps: what was published would be replaced by a second release."""
    path = tmp_path / "private/ledger.jsonl"
    ledger.check_nothing_published(path)
    (tmp_path / record).parent.mkdir(parents=True)
    (tmp_path / record).write_text("{}")
    (tmp_path / "results/other/statements").mkdir(parents=True)  # a reproduction's
    for look in (ledger.check_nothing_published, lambda path: ledger.reserve(ENTRY, DATA, path)):
        with pytest.raises(GraphDPError, match=rf"{record} says that mine was published: restore"):
            look(path)
    assert not [one for one in (path, path.with_suffix(".key")) if one.exists()]
    (tmp_path / record).unlink()
    ledger.reserve(ENTRY, DATA, path)


@pytest.mark.parametrize("closed", ["private/mine", "results/mine"])
def test_a_folder_of_ones_own_that_may_not_be_looked_into_may_have_a_release(
    tmp_path, monkeypatch, closed
):
    """Another user's may: that one's releases are that one's."""
    path = tmp_path / "private/ledger.jsonl"
    for folder in ("private/mine", "results/mine"):
        (tmp_path / folder).mkdir(parents=True)
    ledger.check_nothing_published(path)
    look = Path.lstat

    def refused(self):
        if self.parent == tmp_path / closed:
            raise PermissionError(13, "Permission denied", str(self))
        return look(self)

    monkeypatch.setattr(Path, "lstat", refused)
    with pytest.raises(
        GraphDPError, match=rf"{closed} cannot be read \(Permission denied\), and may"
    ):
        ledger.check_nothing_published(path)
    own = ledger._own
    monkeypatch.setattr(ledger, "_own", lambda one: one.name != "mine" and own(one))
    ledger.check_nothing_published(path)


@pytest.mark.parametrize("linked", [("jsonl", "key"), ("jsonl",), ("key",)])
def test_a_ledger_whose_disk_is_not_mounted_is_noticed(tmp_path, linked):
    """It and its key are links then, to nothing: not begun anew beside them."""
    path, disk = tmp_path / "private/ledger.jsonl", tmp_path / "disk"
    ledger.reserve(ENTRY, DATA, path)
    disk.mkdir()
    for suffix in linked:
        file = path.with_suffix(f".{suffix}")
        file.rename(disk / file.name)
        file.symlink_to(disk / file.name)
    assert ledger.held(DATA, path) == "files"
    disk.rename(tmp_path / "away")
    for mounted in (False, True):  # the folder where it is mounted, empty
        if mounted:
            disk.mkdir()
        for look in (
            ledger.state,
            lambda path: ledger.reserve(ENTRY | OTHER, DATA, path),
            lambda path: ledger.publish("a", "0" * 64, path),
        ):
            with pytest.raises(GraphDPError, match=r"is a link to nothing|is missing: restore it"):
                look(path)
        assert all(path.with_suffix(f".{suffix}").is_symlink() for suffix in linked)
    disk.rmdir()
    (tmp_path / "away").rename(disk)
    with pytest.raises(GraphDPError, match="with the same files"):
        ledger.reserve(ENTRY | OTHER, DATA, path)


@pytest.mark.parametrize("wrong", ["a file", "a link to nothing"])
def test_a_folder_that_is_none_is_one_clear_line(tmp_path, wrong):
    folder = tmp_path / "private"
    folder.write_text("") if wrong == "a file" else folder.symlink_to(tmp_path / "nowhere")
    for look in (
        lambda path: ledger.reserve(ENTRY, DATA, path),
        lambda path: ledger.publish("a", "0" * 64, path),
    ):
        with pytest.raises(GraphDPError, match=r"cannot be read \(|is missing: restore it"):
            look(folder / "ledger.jsonl")


def test_parts_of_data_are_found_whatever_holds_them(tmp_path):
    path = tmp_path / "ledger.jsonl"
    assert ledger.held(DATA, path) == "" == ledger.state(path) and not ledger.datasets(path)
    ledger.reserve(ENTRY, DATA, path)
    ledger.publish("a", "0" * 64, path)
    assert ledger.datasets(path) == {"a"}
    for kind, one, found in (
        ("files", "f2", True), ("edges", "e1", True), ("files", "e1", False),
        ("rows", "l1", False), ("labels", "l2", False),
    ):  # fmt: skip
        asked = {"model": ["f1"], kind: ["other", one]}
        assert ledger.held(asked, path) == (kind if found else "")
    before = ledger.state(path)
    assert before and ledger.state(path) == before
    ledger.reserve(ENTRY | OTHER, {"files": ["f3"]}, path)
    assert ledger.state(path) != before


def test_a_first_release_while_a_ledger_is_read_is_no_lost_one(tmp_path, monkeypatch):
    """To delete the key that is there, as is said of a lost one, would lose it."""
    path = tmp_path / "ledger.jsonl"
    read, read_bytes = [], type(path).read_bytes

    def late(self):
        if self == path and not read:
            read.append(self)
            with contextlib.suppress(FileNotFoundError):
                read_bytes(self)
            ledger.reserve(ENTRY, DATA, path)
            raise FileNotFoundError
        return read_bytes(self)

    monkeypatch.setattr(type(path), "read_bytes", late)
    assert ledger.datasets(path) == {"a"}


def test_a_ledger_of_another_user_says_nothing(tmp_path, monkeypatch):
    """One's own that cannot be read, as of a copy that root put back, stops what asks for it."""
    path = tmp_path / "ledger.jsonl"
    ledger.reserve(ENTRY, DATA, path)

    def refused(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(path), "read_bytes", refused)
    for ask in (ledger.datasets, ledger.state, lambda path: ledger.held(DATA, path)):
        with pytest.raises(GraphDPError, match="lies in your folder and you may not read it: take"):
            ask(path)
    with pytest.raises(GraphDPError, match=r"cannot be read \(Permission denied\)"):
        ledger.reserve(ENTRY, DATA, path)
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    assert ledger.datasets(path) == set() and ledger.held(DATA, path) == ledger.state(path) == ""


def test_a_folder_where_a_file_of_the_ledger_is_to_be_is_said(tmp_path):
    path = tmp_path / "ledger.jsonl"
    path.mkdir()
    for write in (
        lambda: ledger.reserve(ENTRY, DATA, path),
        lambda: ledger.publish("a", "m", path),
        lambda: ledger.datasets(path),
    ):
        with pytest.raises(GraphDPError, match=r"ledger.jsonl cannot be read \(Is a directory\)"):
            write()
    path.rmdir()
    (tmp_path / "ledger.key.new").mkdir()
    with pytest.raises(GraphDPError, match=r"ledger.key.new is a folder, where a key is to be"):
        ledger.reserve(ENTRY, DATA, path)
    assert not path.exists()


def test_who_reads_a_ledger_renames_nothing(tmp_path, monkeypatch):
    """The first release is about to name its key, and would find it gone."""
    path = tmp_path / "ledger.jsonl"
    replace = os.replace

    def late(source, target):
        if str(source).endswith(".key.new"):
            assert ledger.held(DATA, path) and ledger.datasets(path) == {"a"}
        replace(source, target)

    monkeypatch.setattr(os, "replace", late)
    ledger.reserve(ENTRY, DATA, path)
    assert ledger.held(DATA, path)
    assert sorted(os.listdir(tmp_path)) == ["ledger.jsonl", "ledger.key"]


def test_a_line_without_an_end_is_damaged(tmp_path):
    """The next one would be written behind it."""
    path = tmp_path / "ledger.jsonl"
    ledger.reserve(ENTRY, DATA, path)
    path.write_text(path.read_text().rstrip())
    with pytest.raises(GraphDPError, match=r"line 1 of the ledger .* is damaged"):
        ledger.reserve(ENTRY | OTHER, {"files": ["g"]}, path)


# --- What is reserved of a release ----------------------------------------------------------------


def graph(**changes):
    """A directed graph of 40 nodes, with ids of a universe of 100."""
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 40, (2, 200))
    arrays = {
        "name": "mine", "x": (rng.random((40, 6)) < 0.5).astype(np.float32),
        "y": rng.integers(0, 3, 40), "edges": edges, "symmetrise": False,
        "node_ids": np.arange(40), "raw_num_nodes": 40, "num_classes": 3,
        "ids": rng.permutation(100)[:40], "num_ids": 100,
    } | changes  # fmt: skip
    edges, symmetrise = arrays.pop("edges"), arrays.pop("symmetrise")
    indptr, indices = csr_from_edges(*edges, 40, symmetrise=symmetrise)
    return Graph(indptr=indptr, indices=indices, **arrays).validate()


def permuted(one):
    """The graph with its nodes in another order."""
    order = np.random.default_rng(1).permutation(40)
    edges = np.repeat(np.arange(40), np.diff(one.indptr)), one.indices
    place = np.argsort(order)
    return graph(
        x=one.x[order], y=one.y[order], ids=one.ids[order], edges=(place[edges[0]], place[edges[1]])
    )


@pytest.mark.parametrize(
    "features",
    [
        lambda rng, ids: np.eye(60),
        lambda rng, ids: 2 * np.eye(60),
        lambda rng, ids: np.eye(60)[rng.permutation(60)],
        lambda rng, ids: np.hstack([np.eye(60), np.ones((60, 1))]),
        lambda rng, ids: np.eye(100)[np.sort(ids)],
        lambda rng, ids: np.arange(60)[:, None],
        lambda rng, ids: np.arange(60)[:, None] / 60,
        lambda rng, ids: rng.permutation(60)[:, None] / 7,
        lambda rng, ids: rng.permutation(np.arange(60) % 2)[:, None],
        lambda rng, ids: rng.permutation(np.arange(60) % 10)[:, None],
        lambda rng, ids: np.ones((60, 3)),
        lambda rng, ids: np.eye(60)[:, 1:],
        lambda rng, ids: np.eye(20)[rng.permutation(np.arange(60) % 20)],
        lambda rng, ids: rng.permutation(np.arange(60) % 20)[:, None] / 19,
    ],
)
def test_unrelated_graphs_whose_features_tell_little_have_no_part_in_common(features):
    """Whether ids are places, or of the same people."""
    for people in (np.arange(60), np.random.default_rng(9).permutation(100)[:60]):
        seen = []
        for number in range(4):
            rng = np.random.default_rng(number)
            x = features(rng, people).astype(np.float32)
            order = np.argsort(np.argsort(people))  # rows by id, as all have them
            edges = csr_from_edges(*rng.integers(0, 60, (2, 150)), 60, symmetrise=False)
            made = Graph(
                "one", x[order], rng.integers(0, 3, 60), *edges, np.arange(60), 60, 3, people, 100
            )
            seen += [set(map(str, content_hashes(made.validate()).values()))]
        assert not any(one & other for one, other in itertools.combinations(seen, 2))


@pytest.mark.parametrize("n", [2, 150, 5000])
def test_numbers_of_nodes_are_known_by_their_spacing(n):
    """As closely as float32 has them; a rank, a share and a standard score."""
    rank = np.arange(n)
    for numbers in (rank, rank / n, 1 - rank / n, (rank - rank.mean()) / rank.std(), 3e4 + rank):
        assert content._evenly_spaced(np.float32(numbers).astype(float))
    for moved in (rank == 0, 0.5 * (rank == n // 2)):
        numbers = rank / n + moved / n
        assert n == 2 or not content._evenly_spaced(np.float32(numbers).astype(float))
    assert not content._evenly_spaced(np.ones(n))


def test_the_number_of_the_node_with_its_label_is_known_in_another_order():
    rng = np.random.default_rng(0)
    first = {"x": np.eye(40, dtype=np.float32), "ids": np.arange(40), "y": rng.integers(0, 3, 40)}
    order = rng.permutation(40)
    other = {name: value[order] for name, value in first.items()} | {"ids": np.arange(40)}
    same, moved = content_hashes(graph(**first)), content_hashes(graph(**other))
    assert same["rows"] == moved["rows"] and same["labels"] != moved["labels"]
    assert "features" not in same and "rows of features" not in same | moved


def test_groups_of_different_sizes_are_known_in_another_order():
    """One-hot, in one column, and with nodes that are in none; of equal sizes none would be."""
    rng = np.random.default_rng(0)
    group = np.r_[np.arange(20), 19 - np.arange(20) // 2]
    for x in (np.eye(21)[group], group[:, None] + 5.0, np.eye(21)[group][:, 1:]):
        order = rng.permutation(40)
        first, moved = (
            content_hashes(graph(x=one.astype(np.float32), y=rng.integers(0, 3, 40)))
            for one in (x, x[order])
        )
        assert first["rows of features"] == moved["rows of features"]
        assert first["features"] != moved["features"]


def test_nodes_that_are_numbered_otherwise_are_the_same():
    """As by a program that counts from 1, with features scaled or none at all."""
    edges = np.random.default_rng(2).integers(0, 40, (2, 90))
    y = np.random.default_rng(3).integers(0, 3, 40)
    for x in (graph().x, np.ones((40, 1), np.float32)):
        one = graph(x=x, y=y, edges=edges, ids=np.arange(40))
        for ids in (np.arange(1, 41), 2 * np.arange(40) + 7):
            other = content_hashes(graph(x=2 * x, y=y, edges=edges, ids=ids))
            same = {
                kind
                for kind, hashes in content_hashes(one).items()
                if set(hashes) & set(other.get(kind, []))
            }
            assert same == {"labels", "edges"}


def test_parts_of_the_data_have_hashes_of_their_own():
    first = content_hashes(graph())
    assert sorted(first) == ["edges", "features", "labels", "rows", "rows of features"]
    assert content_hashes(permuted(graph())) == first
    for changes, parts in (
        ({"x": 2 * graph().x}, {"features", "rows", "rows of features"}),
        ({"y": np.zeros(40, np.int64)}, {"labels", "rows"}),
        ({"edges": np.array([[0, 1], [2, 3]])}, {"edges"}),
        # An edge in the other direction as well is the same one; a name and a universe are none.
        ({"symmetrise": True, "name": "yours", "num_ids": 400}, set()),
        ({"x": sparse.csr_matrix(graph().x)}, set()),
    ):
        found = content_hashes(graph(**changes))
        assert {kind for kind in first if found[kind] != first[kind]} == parts
    # Sorted by class are many a graph's nodes, whose places tell nothing then.
    by_class = np.sort(np.arange(40) % 3)
    for y, has in ((by_class, False), (by_class[::-1].copy(), False), (np.arange(40) % 3, True)):
        assert ("labels" in content_hashes(graph(y=y, ids=np.arange(40)))) == has
    assert (
        len(content_hashes(graph(y=by_class, ids=np.arange(1, 41)))["labels"]) == 1
    )  # with ids of its own
    empty = graph(x=np.zeros((40, 6), np.float32), edges=np.zeros((2, 0), np.int64))
    assert list(content_hashes(empty)) == ["labels"]
    # So have graphs without features that are given some: others with as many nodes have the same.
    eye, one = np.eye(40, dtype=np.float32), np.ones((40, 6), np.float32)
    few = one.copy()
    few[:, 2:] = 0
    for x in (one, few):
        assert sorted(content_hashes(graph(x=x))) == ["edges", "labels"]
    few[3, 0] = 2
    for x in (eye[np.arange(40) // 2], eye[np.arange(40)[::-1]], few):
        assert "features" in content_hashes(graph(x=x, ids=np.arange(40)))
    twice = sparse.csr_matrix(
        (np.ones(80, np.float32), np.repeat(np.arange(40) % 6, 2), np.arange(0, 81, 2)), (40, 6)
    )
    assert content_hashes(graph(x=twice)) == content_hashes(graph(x=twice.toarray()))


def release(folder, one, *, dataset="mine", files=("ab",), key_file=None, **study):
    """Reserve a release of a graph as a job does."""
    if not key_file and not (folder / "own.key").exists():
        keys.make_key(folder / "own.key")
    one.save(folder / "graph.npz")
    manifest = {"files": [{"name": "mine.npz", "sha256": sha256} for sha256 in files]}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    block = Block(
        one, dataset, study.pop("seeds", [0]), 1, "gap", "node", "8", "shared by id", "last",
        study="s", release="private", secret="s", announced=30,
        calibrations=study.pop("calibrations", []), memory_mb=study.pop("memory_mb", 3000),
    )  # fmt: skip
    publish.reserve(
        block,
        {
            "models": [["mine/gap/node/8/a", [{"hops": 1}]]], "delta": 1e-5,
            "calibrate_for": "corrected", "code": {"fit": "1", "preprocess": "2"},
            "parameters": [{"run": "fit"}], "graph": folder / "graph.npz",
            "manifest": folder / "manifest.json",
            "key_file": key_file or folder / "own.key",
        } | study,
    )  # fmt: skip
    return block


@pytest.mark.parametrize(
    ("made", "changes", "message"),
    [
        # Another universe leaves other edges: not under the same noise, nor as a release apart.
        ({"num_ids": 400}, {}, "the same files, labels, features, rows, rows of features, edges"),
        ({"symmetrise": True}, {"dataset": "yours"}, "files, labels, features, rows, rows of fea"),
        ({"y": np.zeros(40, np.int64)}, {"dataset": "yours"},
         "the same files, features, rows of features, edges:"),
        ({"x": np.ones((40, 6), np.float32)}, {"dataset": "yours", "files": ["cd"]},
         "with the same labels, edges:"),
        ({"edges": np.array([[0], [1]])}, {"dataset": "yours", "files": ["cd"]},
         "with the same labels, features, rows, rows of features:"),
        ({}, {"code": {"fit": "3", "preprocess": "2"}}, r"another code \(fit 1\)"),
        ({}, {"parameters": [{"run": "other"}]}, "another parameters"),
        ({}, {"models": []}, "another settings"),
    ],
)  # fmt: skip
def test_a_release_of_the_same_data_is_recognised(tmp_path, monkeypatch, made, changes, message):
    monkeypatch.chdir(tmp_path)
    release(tmp_path, graph())
    release(tmp_path, graph())
    monkeypatch.setattr(job, "git_commit", lambda: "unknown")
    release(tmp_path, graph())  # outside of a checkout the code says what it is
    before = (tmp_path / "private/ledger.jsonl").read_bytes()
    with pytest.raises(GraphDPError, match=message):
        release(tmp_path, graph(**made), **changes)
    assert (tmp_path / "private/ledger.jsonl").read_bytes() == before


@pytest.mark.parametrize("library", ["autodp", "dp-accounting", "torch", "cryptography", "scipy"])
def test_another_version_of_a_library_is_refused(tmp_path, monkeypatch, library):
    monkeypatch.chdir(tmp_path)
    release(tmp_path, graph())
    version = job.metadata.version
    monkeypatch.setattr(
        job.metadata, "version", lambda name: "99" if name == library else version(name)
    )
    with pytest.raises(GraphDPError, match=rf"another libraries \({library} [0-9.]*"):
        release(tmp_path, graph())


def test_what_rounds_sums_otherwise_is_refused(tmp_path, monkeypatch):
    """Another bound on memory, other vector instructions: under the same noise other sums."""
    monkeypatch.chdir(tmp_path)
    release(tmp_path, graph())
    with pytest.raises(GraphDPError, match=r"with this noise and another memory_mb"):
        release(tmp_path, graph(), memory_mb=256)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "OTHER")
    with pytest.raises(GraphDPError, match=r"with this noise and another instructions"):
        release(tmp_path, graph())


def test_batches_of_a_fixed_size_are_refused_before_the_ledger(tmp_path, monkeypatch):
    """A shuffled partition of 34 nodes has a last batch of 2 where one of the 40 announced has 8:
    its mean moves four times as far as the noise is set for."""
    from graphdp.workflow.calibrations import calibrate_cell

    monkeypatch.chdir(tmp_path)
    settings = {"max_grad_norm": 1.0, "batch_size": 16, "epochs": 1}
    cell = "mine", "naiveofficial", "node", "8", [settings], [40], 100, 1e-5, "corrected"
    (entry,) = calibrate_cell(*cell)
    assert entry["status"] == "conditional"
    with pytest.raises(GraphDPError, match="batches of a fixed size tell the number of training"):
        release(tmp_path, graph(), calibrations=[entry])
    assert not (tmp_path / "private").exists()


@pytest.mark.slow
def test_noise_that_is_not_analysed_as_drawn_is_refused_before_the_ledger(tmp_path, monkeypatch):
    """What is proven of SML noise is proven of exact real numbers alone."""
    from graphdp.workflow.calibrations import calibrate_cell

    monkeypatch.chdir(tmp_path)
    settings = {
        "max_grad_norm": 1.0, "batch_size": 10, "epochs": 1, "num_neighbors": 1, "max_degree": 3,
        "setting": "transductive",
    }  # fmt: skip
    cell = "mine", "heterpoissonsml", "node", "8", [settings], [30], 100, 1e-5, "corrected"
    (entry,) = calibrate_cell(*cell)
    assert entry["status"] != "refuted"
    with pytest.raises(GraphDPError, match="nothing is proven of its noise as it is drawn"):
        release(tmp_path, graph(), calibrations=[entry])
    assert not (tmp_path / "private").exists()


def test_another_repeat_is_refused(tmp_path, monkeypatch):
    """It would be another model, of other noise."""
    monkeypatch.chdir(tmp_path)
    release(tmp_path, graph())
    for seeds in ([1], [0, 1]):
        with pytest.raises(GraphDPError, match=r"with this noise and another seeds: "):
            release(tmp_path, graph(), seeds=seeds)
    release(tmp_path, graph())


def test_another_sigma_is_refused_and_stands_in_the_ledger(tmp_path, monkeypatch):
    from graphdp.workflow.calibrations import calibrate_cell

    monkeypatch.chdir(tmp_path)
    settings = {"max_grad_norm": 1.0, "batch_size": 10, "epochs": 1, "adjacency": "node_add_remove"}
    cell = "mine", "mlp", "node", "8", [settings], [30], 100, 1e-5, "corrected"
    first = json.loads(json.dumps(calibrate_cell(*cell)))
    release(tmp_path, graph(), calibrations=first)
    release(tmp_path, graph(), calibrations=first)
    (line,) = (tmp_path / "private/ledger.jsonl").read_text().splitlines()
    (scales,) = json.loads(line)["made_with"]["σ"]
    assert min(scales.values()) > 0.1
    less = [entry | {"noise_multiplier": entry["noise_multiplier"] / 2} for entry in first]
    with pytest.raises(GraphDPError, match="another calibration, σ: "):
        release(tmp_path, graph(), calibrations=less)


def test_the_universe_of_ids_names_the_noise_of_private_releases_alone():
    """A reproduction's streams are what they were."""
    names = {"private": set(), "reproduction": set()}
    for (kind, found), num_ids in itertools.product(names.items(), (100, 400)):
        block = Block(graph(num_ids=num_ids), "mine", [0], 1, release=kind, secret="s")
        found.add(json.dumps(block.noise_stream(0, "aggregation")))
    assert len(names["private"]) == 2 and len(names["reproduction"]) == 1


def test_another_study_of_a_dataset_is_a_second_release_too(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger.reserve(ENTRY, DATA, path)
    with pytest.raises(GraphDPError, match="with other edges or nodes"):
        ledger.reserve(ENTRY | {"noise": "z", "release": "t"}, {"files": ["g"]}, path)


@pytest.mark.parametrize("basis", ["as_published", "as_implemented", "corrected"])
def test_a_refuted_claim_is_refused_before_the_ledger(tmp_path, monkeypatch, basis):
    monkeypatch.chdir(tmp_path)
    plan = Plan("test", "node", "node_add_remove", basis, "refuted", (), None, ())
    entry = {"plan": plan.to_dict(), "num_train": 40}
    with pytest.raises(GraphDPError, match="the claim of node_add_remove is refuted"):
        release(tmp_path, graph(), calibrations=[entry])
    assert not (tmp_path / "private").exists()


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [
        ("target", "epsilon", 4.0), ("target", "delta", 1e-6), ("target", "noise_multiplier", 3.0),
        ("target", "adjacency", "node_replace"), ("target", "basis", "as_published"),
        ("settings", "epochs", 1), ("data", "fingerprint", "ba9876543210"),
    ],
)  # fmt: skip
def test_the_statement_of_another_model_is_not_published(tmp_path, place, name, value, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger.reserve(ENTRY | {"dataset": "d"}, DATA)
    its = card("mlp")
    setting = its.settings("node")().model_dump(exclude_none=True)
    io.save_npz(tmp_path / "0-0.npz", W=np.ones(2))
    row = dict.fromkeys(COLUMNS, "") | {
        "study": "s", "dataset": "d", "method": "mlp", "level": "node", "epsilon": "8",
        "delta": 1e-5, "seed": 0, "hyperparameters": key(setting), "noise_multiplier": 2.0,
        "checkpoint": "last", "study_seed": "1", "split": "shared by id", "graph": "0123456789ab",
        "epsilon_basis": "corrected", "adjacency": "participant", "epsilon_status": "conditional",
        "epsilons": "[]", "versions": "{}", "release": "private",
        "model_sha256": io.sha256_file(tmp_path / "0-0.npz"),
    }  # fmt: skip
    pd.DataFrame([row]).to_csv(tmp_path / "0-0.csv", index=False)
    stated = {
        "target": {"epsilon": 8.0, "delta": 1e-5, "noise_multiplier": 2.0,
                   "adjacency": "participant", "basis": "corrected"},
        "settings": its.plan("node", setting), "data": {"fingerprint": "0123456789abcdef"},
    }  # fmt: skip
    other = copy.deepcopy(stated)
    other[place][name] = value
    (tmp_path / "8.md").write_text("stated")

    def published(one, folder):
        (tmp_path / "8.json").write_text(json.dumps([one]))
        names = {"row": "row.csv", "model": "model.npz", "json": "s.json", "md": "s.md"}
        to = {name: tmp_path / folder / file for name, file in names.items()}
        publish.publish(tmp_path / "0-0.csv", tmp_path / "8", **to)
        return len(list((tmp_path / folder).iterdir()))

    assert published(stated, "own") == 4
    with pytest.raises(GraphDPError, match=r"8\.json states the "):
        published(other, "other")
    assert not (tmp_path / "other").exists()


def test_one_model_of_a_release_is_published(tmp_path):
    """Under the same noise a second one, whatever made it other, would tell how sums differ."""
    path = tmp_path / "ledger.jsonl"
    with pytest.raises(GraphDPError, match="is missing: restore it"):
        ledger.publish("d", "0" * 64, path)
    ledger.reserve(ENTRY, DATA, path)
    with pytest.raises(GraphDPError, match="has no release of another"):
        ledger.publish("another", "0" * 64, path)
    ledger.publish(ENTRY["dataset"], "0" * 64, path)
    before = path.read_bytes()
    assert before.count(b"\n") == 2 and b"0" * 64 not in before
    ledger.publish(ENTRY["dataset"], "0" * 64, path)
    ledger.reserve(ENTRY | {"commit": "later"}, DATA, path)
    with pytest.raises(GraphDPError, match=r"another model of .* was published .*line 2.*commit c"):
        ledger.publish(ENTRY["dataset"], "1" * 64, path)
    assert path.read_bytes() == before
    # Lines behind it are of it as much as of those of releases.
    ledger.reserve(ENTRY | {"dataset": "e", "noise": "z"}, {"files": ["g"]}, path)
    ledger.publish("e", "1" * 64, path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], *lines[2:]]))
    with pytest.raises(GraphDPError, match=r"line 2 of the ledger .* is damaged"):
        ledger.publish("e", "1" * 64, path)


def test_the_same_rows_in_another_order_are_the_same_data():
    """Without ids in the file a node's id is its place there, and all else changes with it."""
    one = graph(ids=np.arange(40))
    order = np.random.default_rng(1).permutation(40)
    place = np.argsort(order)  # of each node in the other file
    edges = place[np.repeat(np.arange(40), np.diff(one.indptr))], place[one.indices]
    other = graph(x=one.x[order], y=one.y[order], edges=np.array(edges), ids=np.arange(40))
    first, second = content_hashes(one), content_hashes(other)
    assert {name for name in first if first[name] == second[name]} == {"rows", "rows of features"}
    y = one.y.copy()
    y[3] = (y[3] + 1) % 3
    relabelled = content_hashes(graph(y=y, ids=np.arange(40)))
    assert relabelled["rows"] != first["rows"]
    assert relabelled["rows of features"] == first["rows of features"]
