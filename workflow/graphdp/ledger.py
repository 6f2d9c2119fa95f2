"""The ledger of private releases: what was released of which data, written before noise is drawn.

ε add up over releases of one dataset, and no statement says so: a second one is refused. Hashes of
data stand in it keyed, by a key of its own beside it, since who knows all of a graph but one edge
can hash both.
"""

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from graphdp import private
from graphdp.errors import GraphDPError

LEDGER = f"{private.FOLDER}/ledger.jsonl"
#: The fields of a line. Another commit alone is no other release: `made_with` has the code.
FIELDS = ("commit", "data", "dataset", "made_with", "noise", "release")


def reserve(
    entry: Mapping[str, Any],
    data: Mapping[str, Sequence[str]],
    path: str | os.PathLike = LEDGER,
) -> None:
    """Write a release down before its noise is drawn; the same release again is no second one.

    entry: JSON object of all `FIELDS` but `data`: `dataset`, its name; `noise`, a hash that names
    the noise; `made_with`, kind -> what else determines what is released; `commit` of the project
    and `release`, for who reads it. data: kind -> hashes of a part of the data, of which one alone
    tells that it was released before.

    Raises `GraphDPError` for a second release of a dataset, under this name or of any part of its
    data; for the same noise with anything else that is not the same; and for a ledger or key that
    is damaged or missing.
    """
    path = Path(path)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(file, "rb") as ledger:
        fcntl.flock(file, fcntl.LOCK_EX)
        ledger.seek(0)
        lines = ledger.readlines()
        key = _key(path, bool(lines))
        hashes = {
            kind: [private.keyed_hash(key, kind, one) for one in found]
            for kind, found in data.items()
        }
        new = json.loads(json.dumps({**entry, "data": hashes}))
        for number, line in enumerate(lines, 1):
            earlier = _read(line, path, number)
            if all(earlier[name] == new[name] for name in FIELDS if name != "commit"):
                return
            fault = _fault(earlier, new)
            if fault:
                what, fix = fault
                raise GraphDPError(
                    f"{new['dataset']} was released before ({path}, line {number}: "
                    f"{earlier['release']}), {what}: the ε of two releases add up, and no "
                    f"statement says so; nothing is drawn{fix}"
                )
        _append(file, path, json.dumps(new, sort_keys=True) + "\n")


def _append(file: int, path: Path, line: str) -> None:
    """Write a line to the disk, or leave the ledger as it was: half of one would stop all runs."""
    before, text = os.fstat(file).st_size, line.encode()
    try:
        while text:
            text = text[os.write(file, text) :]
        os.fsync(file)
        if not before:  # the names of ledger and key
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except OSError as error:
        os.ftruncate(file, before)
        if not before:
            path.with_suffix(".key").unlink()
        raise GraphDPError(
            f"{path} cannot be written ({error.strerror}): nothing is drawn; make room and run "
            "again"
        ) from None


def _key(path: Path, used: bool) -> bytes:
    """The ledger's key, made with its first line."""
    file = path.with_suffix(".key")
    if used and not file.exists():
        raise GraphDPError(
            f"{file}, which keys the hashes of the ledger {path}, is missing: restore it from a "
            "copy"
        )
    if file.exists() and not used:
        raise GraphDPError(
            f"the ledger {path} is empty or was missing, and its key is there: restore it from a "
            f"copy, or if nothing was ever released here, delete {file}"
        )
    if not used:
        private.make_key(file)
    return private.read_key(file)


def _read(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        earlier = json.loads(line)
        whole = line.endswith(b"\n") and sorted(earlier) == sorted(FIELDS)
        if whole and isinstance(earlier["data"], dict):
            return earlier
    except (ValueError, TypeError):
        pass
    raise GraphDPError(
        f"line {number} of the ledger {path} is damaged, or of another version: restore it from a "
        "copy"
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
        return f"with the same {', '.join(seen)}", ""
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
