"""The ledger of private releases: what was released of which data, written before noise is drawn.

ε add up over releases of one dataset, and no statement says so: a second one is refused. Hashes of
data stand in it keyed, by a key of its own beside it, since who knows all of a graph but one edge
can hash both.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from graphdp import durable, keys, private
from graphdp.errors import GraphDPError

_T = TypeVar("_T")
LEDGER = f"{private.FOLDER}/ledger.jsonl"
#: The fields of a release's line, which has the `mac` of these as well. Another commit alone is no
#: other release: `made_with` has the code. A line of what was published has `dataset`, `published`
#: and `mac`.
FIELDS = ("commit", "data", "dataset", "made_with", "noise", "release")
#: Parts that data of other people may have as well, as where edges form a ring.
_ALIKE = frozenset({"labels", "edges", "features", "rows of features"})


def reserve(
    entry: Mapping[str, Any],
    data: Mapping[str, Sequence[str]],
    path: str | os.PathLike = LEDGER,
    use_key: Callable[[], None] = lambda: None,
) -> None:
    """Write a release down before its noise is drawn; the same release again is no second one.

    entry: JSON object of all `FIELDS` but `data`: `dataset`, its name; `noise`, a hash that names
    the noise; `made_with`, kind -> what else determines what is released; `commit` of the project
    and `release`, for who reads it. data: kind -> hashes of a part of the data, of which one alone
    tells that it was released before. use_key: called where nothing here stands against a release,
    before its line is written (`key_record.use`); what it raises ends this.

    Raises `GraphDPError` for a second release of a dataset, under this name or of any part of its
    data; for the same noise with anything else that is not the same; and for a ledger or key that
    is damaged or missing.
    """
    path = Path(path)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _unreadable(path, error) from None
    with _locked(path):
        lines = _bytes_to_write(path)
        if not lines:
            check_nothing_published(path)
        key = _key(path, bool(lines))
        hashes = {
            kind: [keys.keyed_hash(key, kind, one) for one in found] for kind, found in data.items()
        }
        new = json.loads(json.dumps({**entry, "data": hashes}))
        mac = ""
        for number, line in enumerate(lines, 1):
            earlier, mac = _read(line, key, mac, path, number)
            if "published" in earlier:
                continue
            if all(earlier[name] == new[name] for name in FIELDS if name != "commit"):
                use_key()
                return
            fault = _fault(earlier, new)
            if fault:
                what, fix = fault
                raise GraphDPError(
                    f"{new['dataset']} was released before ({path}, line {number}: "
                    f"{earlier['release']}), {what}: the ε of two releases add up, and no "
                    f"statement says so; nothing is drawn{fix}"
                )
        use_key()
        _append(path, lines, json.dumps(new | {"mac": _mac(key, mac, new)}, sort_keys=True) + "\n")
        if not lines:
            os.replace(_new_key(path), path.with_suffix(".key"))


def datasets(path: str | os.PathLike = LEDGER) -> set[str]:
    """The datasets that have releases, by name. Raises as `_lines`."""
    return {line["dataset"] for line in _lines(Path(path))}


def held(data: Mapping[str, Iterable[str]], path: str | os.PathLike = LEDGER) -> str:
    """Which kind of data is a release's, under whatever name; "" if none is. Raises as `_lines`.

    data: as that of `reserve`, or some kinds of it.
    """
    path = Path(path)
    lines = [line["data"] for line in _lines(path) if "data" in line]
    key = _key_of_lines(path) if lines else b""
    for kind, found in data.items() if lines else ():
        released = {hashed for line in lines for hashed in line.get(kind, [])}
        if any(keys.keyed_hash(key, kind, one) in released for one in found):
            return kind
    return ""


def state(path: str | os.PathLike = LEDGER) -> str:
    """What changes with every line of a ledger; "" where it has none. Raises as `_lines`."""
    lines = _lines(Path(path))
    return hashlib.sha256(json.dumps(lines, sort_keys=True).encode()).hexdigest() if lines else ""


def check_nothing_published(path: str | os.PathLike = LEDGER) -> None:
    """That no private study has published, as where there is no ledger. If the ledger's folder is
    another user's, others than oneself may have. Raises `GraphDPError`."""
    path = Path(path)
    foreign = path.parent.is_dir() and not _own(path.parent)  # or where a disk is not mounted
    found = []
    if not foreign:
        records = [study / private.RECORD for study in _within(path.parent)]
        found = [one for one in records if _looked_at(private.stands, one)]
    # With all of private/ lost, what was published is still there, or some of it.
    for study in _within(path.parent.parent / "results"):
        published = _looked_at(private.published_in, study) or []
        found += [one for one in published if not foreign or _own(one)]
    for record in found:
        raise GraphDPError(
            f"the ledger {path} is missing, and {record} says that {record.parent.name} was "
            "published: restore it and its key from a copy, or if somebody else published that "
            f"elsewhere, move {record.parent} away"
        )


def _within(folder: Path) -> list[Path]:
    """What a folder of one's own has, sorted; nothing if it is not there."""
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise GraphDPError(f"{folder} cannot be read ({error.strerror})") from None


def _looked_at(what: Callable[[Path], _T], path: Path) -> _T | None:
    """What is found of a path; None where another user has closed it. Raises `GraphDPError` where
    that was oneself."""
    try:
        return what(path)
    except OSError as error:
        closed = Path(error.filename or path).parent
        if not _own(closed):
            return None
        raise GraphDPError(
            f"{closed} cannot be read ({error.strerror}), and may have a private release: open it "
            "(chmod u+rwx), or move it away"
        ) from None


def _lines(path: Path) -> list[dict[str, Any]]:
    """What stands in a ledger; nothing where there is none, or its folder is another user's and
    nobody else's to read.

    Raises `GraphDPError` for a ledger or key that is damaged or missing, and where one is missing
    and the other is not.
    """
    try:
        lines = _bytes_of(path)
        if not lines and path.with_suffix(".key").exists():
            # A first release may have been written meanwhile, the line before the key's name.
            lines = _bytes_of(path)
            if not lines:
                raise _emptied(path)
    except PermissionError:
        if not _own(path.parent):
            return []
        raise GraphDPError(
            f"the ledger {path} lies in your folder and you may not read it: take it over (chown) "
            "and chmod 600 it"
        ) from None
    except OSError as error:
        raise _unreadable(path, error) from None
    if not lines:
        return []
    key, mac, found = _key_of_lines(path), "", []
    for number, line in enumerate(lines, 1):
        fields, mac = _read(line, key, mac, path, number)
        found.append(fields)
    return found


def _own(folder: Path) -> bool:
    try:
        return os.stat(folder).st_uid == os.getuid()
    except OSError:  # a link into what is another's
        return False


def _bytes_of(path: Path) -> list[bytes]:
    for one in (path, path.with_suffix(".key")):
        if one.is_symlink() and not one.exists():  # its disk may not be mounted
            raise GraphDPError(f"{one} is a link to nothing: bring back what it points to")
    try:
        return path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []


def _bytes_to_write(path: Path) -> list[bytes]:
    """The same, for who writes, to whom another user's is no empty one."""
    try:
        return _bytes_of(path)
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> GraphDPError:
    return GraphDPError(f"the ledger {path} cannot be read ({error.strerror})")


def publish(dataset: str, model: str, path: str | os.PathLike = LEDGER) -> None:
    """Write down which model of a dataset's release is published, before it is; the same again
    passes.

    Whatever made it otherwise (threads, a processor, a library, a GPU), a second model of one
    release has other sums under the same noise, which tells how they differ.

    model: SHA-256 of its file. Raises `GraphDPError` for another model than the one that was
    published, for a dataset without a release, and for a ledger or key that is damaged or missing.
    """
    path = Path(path)
    try:
        there = path.exists()
    except OSError as error:
        raise _unreadable(path, error) from None
    if not there:
        raise GraphDPError(f"the ledger {path} is missing: restore it from a copy")
    with _locked(path):
        lines = _bytes_to_write(path)
        key, mac, of = _key(path, True), "", None
        new = {"dataset": dataset, "published": keys.keyed_hash(key, "model", model)}
        for number, line in enumerate(lines, 1):
            earlier, mac = _read(line, key, mac, path, number)
            if earlier["dataset"] != dataset:
                continue
            if "published" not in earlier:
                of = earlier
            elif earlier == new:
                return
            else:
                raise GraphDPError(
                    f"another model of {dataset} was published ({path}, line {number}): under one "
                    "noise two tell how their sums differ, so nothing is published; restore "
                    f"results/ from a copy, or bring back what made it (commit {of['commit']}, "
                    "processor, libraries, environment)"
                )
        if of is None:
            raise GraphDPError(f"the ledger {path} has no release of {dataset}: restore it")
        _append(path, lines, json.dumps(new | {"mac": _mac(key, mac, new)}, sort_keys=True) + "\n")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let no other process write a ledger, by whichever link. Raises `GraphDPError` if its folder
    may not be read."""
    # Which is not there for a link to nothing, said elsewhere.
    target = Path(os.path.realpath(path)).parent
    with ExitStack() as stack:
        try:
            stack.enter_context(durable.locked(target if target.is_dir() else path.parent))
        except OSError as error:
            raise _unreadable(path, error) from None
        yield


def _append(path: Path, lines: Sequence[bytes], line: str) -> None:
    """Write a line behind those that are there, or leave the ledger as it was: half a line would
    stop all runs."""
    try:
        durable.write(path, b"".join(lines) + line.encode())
    except OSError as error:
        if not path.exists():
            _new_key(path).unlink(missing_ok=True)
        raise GraphDPError(
            f"{path} cannot be written ({error.strerror}): nothing is drawn or published; make "
            "room and run again"
        ) from None


def _new_key(path: Path) -> Path:
    """Where the key of a ledger lies until its first line is written."""
    return path.with_suffix(".key.new")


def _key(path: Path, used: bool) -> bytes:
    """The ledger's key, for who writes. Before the first line it is made anew under another name
    (`_new_key`), and a killed run may have left that: perhaps half of it, or once there is a line
    the ledger's own.
    """
    file, new = path.with_suffix(".key"), _new_key(path)
    if file.exists() and not used:
        raise _emptied(path)
    if not used:
        if new.is_dir():
            raise GraphDPError(f"{new} is a folder, where a key is to be written: move it away")
        new.unlink(missing_ok=True)
        keys.make_key(new)
        return keys.read_key(new)
    if not file.exists() and new.is_file():
        os.replace(new, file)
    return _key_of_lines(path)


def _key_of_lines(path: Path) -> bytes:
    """The key of a ledger that has lines, for who reads: nothing is renamed, which another process
    may be about to do."""
    file = path.with_suffix(".key")
    for one in (file, _new_key(path)):
        if one.exists():
            try:
                return keys.read_key(one, "restore it from a copy")
            except GraphDPError:
                if one.exists():
                    raise
    if file.exists():  # it had its name between the two looks
        return keys.read_key(file, "restore it from a copy")
    raise GraphDPError(
        f"{file}, which keys the hashes of the ledger {path}, is missing: restore it from a copy"
    )


def _emptied(path: Path) -> GraphDPError:
    file = path.with_suffix(".key")
    return GraphDPError(
        f"the ledger {path} is empty or was missing, and its key is there: restore it from a "
        f"copy, or if nothing was ever released here, delete {file}"
    )


def _mac(key: bytes, before: str, fields: Mapping[str, Any]) -> str:
    """By which a line is known to be whole, of this key, and behind the one whose `before` is."""
    return keys.keyed_hash(key, "line", before, json.dumps(fields, sort_keys=True))


def _read(
    line: bytes, key: bytes, before: str, path: Path, number: int
) -> tuple[dict[str, Any], str]:
    """The fields of a line, and its `mac`; before: that of the line above it."""
    try:
        earlier = json.loads(line)
        mac = earlier.pop("mac")
        if line.endswith(b"\n") and mac == _mac(key, before, earlier):
            return earlier, mac
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    raise GraphDPError(
        f"line {number} of the ledger {path} is damaged, of another key than {path.stem}.key, or "
        "of another version: restore both from a copy"
    )


def _fault(earlier: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, str] | None:
    """Why a release is a second one, and what to do; None if the other is of other data."""
    if earlier["noise"] == new["noise"]:
        changed = _changed(earlier["made_with"], new["made_with"])
        changed += [name for name in ("data", "release") if earlier[name] != new[name]]
        return (
            f"with this noise and another {', '.join(changed)}",
            f"; bring back what it was (commit {earlier['commit']}) for the same release again",
        )
    seen = [
        kind
        for kind, hashes in new["data"].items()
        if not set(hashes).isdisjoint(earlier["data"].get(kind, []))
    ]
    if seen:
        fix = "; if these are other people's data, release them from another folder"
        return f"with the same {', '.join(seen)}", fix if set(seen) <= _ALIKE else ""
    if earlier["dataset"] == new["dataset"]:
        return "with other edges or nodes", ""
    return None


def _changed(earlier: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What two releases were made with that differs, by name: "libraries (torch 2.5.1)"."""
    found = []
    for kind in sorted({*earlier, *new}):
        before, now = earlier.get(kind), new.get(kind)
        if before == now:
            continue
        if isinstance(before, dict) and isinstance(now, dict):
            names = [n for n in sorted({*before, *now}) if before.get(n) != now.get(n)]
            short = {n: before[n] for n in names if len(str(before.get(n, " " * 99))) < 20}
            kind += f" ({', '.join(f'{n} {short[n]}' if n in short else n for n in names)})"
        found.append(kind)
    return found
