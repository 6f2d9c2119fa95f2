"""One key, one release: what stands beside a key of what it has released."""

import contextlib
import copy
import errno
import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from graphdp import cli, durable, key_record, keys, ledger
from graphdp.errors import GraphDPError
from test_ledger import DATA, ENTRY


@pytest.fixture
def key(tmp_path):
    keys.make_key(tmp_path / "own.key")
    return tmp_path / "own.key"


def changed():
    """Entry and data of other releases, each with one thing changed."""
    for name in ("dataset", "noise", "release"):
        yield ENTRY | {name: "other"}, DATA
    for kind in ENTRY["made_with"]:
        entry = copy.deepcopy(ENTRY)
        entry["made_with"][kind] = "other"
        yield entry, DATA
    yield ENTRY | {"made_with": {}}, DATA
    for kind, hashes in DATA.items():
        yield ENTRY, DATA | {kind: [*hashes, "other"]}
        yield ENTRY, {other: found for other, found in DATA.items() if other != kind}


def test_a_key_makes_the_same_release_again_and_no_other(key):
    key_record.use(key, ENTRY, DATA)
    record = key_record.record_of(key)
    before = record.read_bytes()
    assert record == key.with_name("own.key.used")
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    own = {"release": "private", "key_file": key, "study_seed": 0}
    hashes = [one for found in DATA.values() for one in found]
    for hidden in (*hashes, "hops", keys.read_key(key).hex(), keys.root(own)):
        assert f'"{hidden}' not in before.decode()
    key_record.use(key, ENTRY | {"commit": "c2"}, DATA)  # whose code is the same
    others = list(changed())
    assert len(others) == 12
    for entry, data in others:
        with pytest.raises(GraphDPError, match=r"is another release's .*: s, commit c1\)"):
            key_record.use(key, entry, data)
    assert record.read_bytes() == before
    # Another key may release it, and a link to the first is no other key.
    keys.make_key(key.with_name("second.key"))
    key_record.use(key.with_name("second.key"), *others[0])
    key.with_name("link").symlink_to(key)
    with pytest.raises(GraphDPError, match="is another release's"):
        key_record.use(key.with_name("link"), *others[0])


def test_a_second_ledger_takes_no_line_by_the_key_of_a_first(key, tmp_path):
    """Next month's table in another checkout, with last month's key in the configuration."""

    def reserve(folder, entry, data):
        path = tmp_path / folder / "ledger.jsonl"
        ledger.reserve(entry, data, path, lambda: key_record.use(key, entry, data))
        return path

    first = reserve("june", ENTRY, DATA)
    july = DATA | {"edges": ["e2"]}
    for _ in range(2):
        with pytest.raises(GraphDPError, match="is another release's"):
            reserve("july", ENTRY, july)
        assert not (tmp_path / "july/ledger.jsonl").exists()
        assert not (tmp_path / "july/ledger.key").exists()
    # The same release elsewhere is the same bytes, and no second one.
    assert len(reserve("copy", ENTRY, DATA).read_bytes().splitlines()) == 1
    # What a ledger refuses leaves the key as it was; so does its own release, made again.
    keys.make_key(tmp_path / "new.key")
    with pytest.raises(GraphDPError, match="was released before"):
        ledger.reserve(
            ENTRY | {"noise": "z"}, DATA, first,
            lambda: key_record.use(tmp_path / "new.key", ENTRY, DATA),
        )  # fmt: skip
    assert not key_record.record_of(tmp_path / "new.key").exists()
    key_record.record_of(key).unlink()  # as of a release by an earlier version
    reserve("june", ENTRY, DATA)
    assert key_record.record_of(key).exists()


def test_no_changed_byte_of_a_record_goes_unnoticed(key):
    key_record.use(key, ENTRY, DATA)
    record = key_record.record_of(key)
    whole = record.read_bytes()
    for place in range(len(whole) - 1):  # the last ends the line
        found = bytearray(whole)
        found[place] ^= 1
        record.write_bytes(found)
        with pytest.raises(GraphDPError, match="is damaged or of another key"):
            key_record.use(key, ENTRY, DATA)
        assert record.read_bytes() == found
    for wrong in (b"", b"[]", b"1", b"null", b'"commit"', whole[:-20], b"[" * 100_000):
        record.write_bytes(wrong)
        with pytest.raises(GraphDPError, match="is damaged or of another key"):
            key_record.use(key, ENTRY, DATA)
    record.unlink()
    record.symlink_to("nowhere")
    with pytest.raises(GraphDPError, match="is damaged or of another key"):
        key_record.use(key, ENTRY, DATA)
    record.unlink()
    record.mkdir()
    with pytest.raises(GraphDPError, match=r"own\.key\.used cannot be read \(Is a directory\)"):
        key_record.use(key, ENTRY, DATA)


def test_a_new_key_has_no_record_of_an_earlier_one(key, capsys):
    key_record.use(key, ENTRY, DATA)
    key.unlink()
    assert cli.main(["key", str(key)]) == 2
    assert "own.key.used says what an earlier key of this name" in capsys.readouterr().err
    assert not key.exists()
    keys.make_key(key)  # by another program
    with pytest.raises(GraphDPError, match="is damaged or of another key"):
        key_record.use(key, ENTRY, DATA)


@pytest.mark.parametrize("fails", ["open", "fsync", "replace"])
def test_without_a_record_nothing_is_released(key, tmp_path, monkeypatch, fails):
    """A folder that is for reading alone, or a full disk."""
    real, path = getattr(os, fails), tmp_path / "ledger.jsonl"
    ledger.reserve(ENTRY | {"dataset": "b", "noise": "y"}, {"files": ["g"]}, path)
    before = path.read_bytes()

    def refused(first, *rest, **named):
        if fails != "fsync" and "own.key.used" not in str(first):
            return real(first, *rest, **named)
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr(os, fails, refused)
        with pytest.raises(GraphDPError, match=r"own\.key\.used, .* cannot be written \(Read-only"):
            ledger.reserve(ENTRY, DATA, path, lambda: key_record.use(key, ENTRY, DATA))
    assert path.read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "ledger.jsonl", "ledger.key", "own.key",
    ]  # fmt: skip
    ledger.reserve(ENTRY, DATA, path, lambda: key_record.use(key, ENTRY, DATA))


def test_a_kill_leaves_no_record_or_a_whole_one(key, monkeypatch):
    """At every call by which it is written."""

    class Killed(BaseException):
        pass

    calls = []

    def counted(real, number):
        def call(*arguments, **named):
            calls.append(real)
            if len(calls) == number:
                raise Killed
            return real(*arguments, **named)

        return call

    record = key_record.record_of(key)
    for number in range(1, 20):
        calls.clear()
        record.unlink(missing_ok=True)
        with monkeypatch.context() as patch:
            for name in ("open", "fsync", "replace"):
                patch.setattr(os, name, counted(getattr(os, name), number))
            with contextlib.suppress(Killed):
                key_record.use(key, ENTRY, DATA)
        if record.exists():
            assert json.loads(record.read_bytes())["release"] == "s"
        key_record.use(key, ENTRY, DATA)
        if len(calls) < number:
            break
    assert 4 <= len(calls) < number


def test_of_two_that_use_a_key_at_once_one_is_refused(key):
    """In ten rounds: were both let through, it would be by chance alone that none saw it."""
    program = (
        "import json, sys, time\n"
        "from graphdp import key_record\n"
        "from graphdp.errors import GraphDPError\n"
        "key, entry, data, start = json.loads(sys.stdin.readline())\n"
        "for number in range(10):\n"
        "    time.sleep(max(0, start + number * .05 - time.time()))\n"
        "    try:\n"
        "        key_record.use(f'{key}{number}', entry, data)\n"
        "        print('made', flush=True)\n"
        "    except GraphDPError as error:\n"
        "        print('else' if 'another release' in str(error) else error, flush=True)\n"
    )
    for number in range(10):
        keys.make_key(f"{key}{number}")
    environment = os.environ | {"PYTHONPATH": str(Path(durable.__file__).parents[1])}
    start = time.time() + 3
    runs = []
    for edge in ("e1", "e2"):
        run = subprocess.Popen(
            [sys.executable, "-c", program], text=True, env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        run.stdin.write(json.dumps([str(key), ENTRY, DATA | {"edges": [edge]}, start]) + "\n")
        run.stdin.close()
        runs.append(run)
    said = [run.stdout.read().split() for run in runs]
    assert [run.wait() for run in runs] == [0, 0]
    assert [sorted(pair) for pair in zip(*said, strict=True)] == [["else", "made"]] * 10
