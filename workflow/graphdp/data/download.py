"""Put a dataset's raw files in place and prove that they are the right ones. No torch, no numpy.

A file is looked for where it belongs, then in a mirror folder, then on the network. Wherever it
comes from, it gets its final name only after its hash is right.
"""

import hashlib
import http.client
import os
import shutil
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from graphdp import io
from graphdp.data.datasets import DatasetSpec, FileSpec
from graphdp.errors import GraphDPError
from graphdp.progress import progress

# Hashes of files whose hash nobody published, written when such a file is first seen.
RECORD = "recorded-hashes.json"
#: What `download` returns, beside the files.
MANIFEST = "manifest.json"
_CHUNK = 1 << 20
_FINAL_STATUS = frozenset({400, 401, 403, 404, 405, 410, 451})  # asking again will not help


class _Failure(Exception):
    """Why one source did not deliver; `final` if asking it again cannot help."""

    def __init__(self, message: str, final: bool = True) -> None:
        super().__init__(message)
        self.final = final


def download(
    spec: DatasetSpec,
    folder: str | os.PathLike,
    mirror: str | os.PathLike | None = None,
    retries: int = 3,
    offline: bool = False,
    timeout: float = 60.0,
    backoff: float = 2.0,
) -> dict:
    """Place and verify every file of `spec` in `folder`.

    Args:
        spec: the dataset; a spec without files (a generated graph) needs nothing.
        folder: created if absent; files that are already there with the right hash are kept.
        mirror: a folder searched recursively (but not through links to other folders); a file there
            is taken if its hash is right, whatever its sub-folder (where no hash is known: if its
            name is right).
        retries: how often a failing network source is asked again.
        offline: never open a URL.
        timeout: seconds without an answer from the network.
        backoff: seconds before the first retry, doubled for each further one.

    Returns:
        the manifest, JSON-able and the same wherever the files came from: `dataset` and `files`,
        per file its name, url, size in bytes, sha256, git_sha1 and `verified`, which says against
        what: "sha256", "git_sha1", or "first use" (no hash was known; the one found was recorded in
        `recorded-hashes.json` in the folder and is enforced from then on).

    Raises:
        OSError: there is no room for a file.
        GraphDPError: a file cannot be had; the message names dataset, file, URL, expected and found
            hash, and says how to supply it by hand.
    """
    folder = Path(folder)
    mirror = mirror or None  # an empty config value would otherwise mean the working folder
    if mirror is not None and not Path(mirror).is_dir():
        raise GraphDPError(f"mirror folder {mirror} does not exist: give an existing one or none")
    folder.mkdir(parents=True, exist_ok=True)
    record_path = folder / RECORD
    record = _recorded(record_path)
    in_mirror = _index(Path(mirror)) if mirror is not None else {}

    files = []
    for file in spec.files:
        # A hash seen before is as binding as a published one.
        known = file
        if not (file.sha256 or file.git_sha1) and file.name in record:
            known = file.model_copy(update={"sha256": record[file.name]})
        try:
            size, sha256, git_sha1 = _obtain(
                spec, known, folder, in_mirror, retries, offline, timeout, backoff, mirror
            )
        except GraphDPError as error:
            raise GraphDPError(
                f"{error}{_first_use(record_path, spec.name)}" if known is not file else f"{error}"
            ) from None
        if not (file.sha256 or file.git_sha1):
            record[file.name] = sha256
            io.write_json(record_path, record)
        files.append(
            {
                "name": file.name,
                "url": file.url,
                "size": size,
                "sha256": sha256,
                "git_sha1": git_sha1,
                "verified": "sha256"
                if file.sha256
                else ("git_sha1" if file.git_sha1 else "first use"),
            }
        )
    return {"dataset": spec.name, "files": files}


def check_unchanged(
    spec: DatasetSpec, folder: str | os.PathLike, mirror: str | os.PathLike
) -> None:
    """Whether the mirror still has the files that were taken from it by name alone, for no hash of
    them is known: a corrected file would not be used without a word.

    folder: where `download` placed them; nothing is checked of what was not placed yet. Raises
    `GraphDPError` naming the first that differs.
    """
    record = Path(folder, RECORD)
    recorded = _recorded(record)
    names = [file.name for file in spec.files if not (file.sha256 or file.git_sha1)]
    if not any(name in recorded for name in names):
        return
    in_mirror = _index(Path(mirror))
    for name in filter(recorded.get, names):
        for path in in_mirror.get(name, []):
            # A link may lead nowhere.
            if path.is_file() and io.sha256_file(path) != recorded[name]:
                # No hash of a private file is said.
                raise GraphDPError(
                    f"dataset '{spec.name}': {path} has changed.{_first_use(record, spec.name)}"
                )


def check_placed(
    spec: DatasetSpec, folder: str | os.PathLike, mirror: str | os.PathLike | None = None
) -> None:
    """Whether files that `download` placed are still those of its manifest, as far as they are
    there and may be read: who has the graph may do without. What has its size and is no newer than
    the manifest is not read again. mirror: where it might be had again.

    Raises `GraphDPError` naming the first that differs, and for a manifest that is damaged.
    """
    manifest = Path(folder, MANIFEST)
    try:
        placed = os.stat(manifest).st_mtime_ns
        files = {
            one["name"]: (one["size"], one["sha256"]) for one in io.read_json(manifest)["files"]
        }
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise GraphDPError(f"{manifest} is damaged: {_anew(manifest, spec.name)}") from None
    for name, (size, sha256) in files.items():
        path = Path(folder, name)
        try:
            found = os.stat(path)
            same = found.st_size == size
            # Not by when it was written, which a copy may take along.
            if same and found.st_ctime_ns > placed:
                same = io.sha256_file(path) == sha256
        except OSError:
            continue  # a job that reads it says so
        if not same:
            raise _altered(spec, manifest, name, mirror)


def verify(
    spec: DatasetSpec, folder: str | os.PathLike, mirror: str | os.PathLike | None = None
) -> None:
    """Whether a folder has all files of its manifest, each read and compared with its hash.

    mirror: where they might be had again. Raises `GraphDPError` naming the first that differs.
    """
    manifest = Path(folder, MANIFEST)
    for one in io.read_json(manifest)["files"]:
        path = Path(folder, one["name"])
        if not path.is_file():
            fix = _anew(manifest, spec.name, manifest)
            raise GraphDPError(f"dataset '{spec.name}': {path} is missing: put it back, or {fix}")
        if io.sha256_file(path) != one["sha256"]:
            raise _altered(spec, manifest, one["name"], mirror)


def _altered(
    spec: DatasetSpec, manifest: Path, name: str, mirror: str | os.PathLike | None
) -> GraphDPError:
    """The line about a placed file that is another now. The only copy of a file that was supplied
    by hand may be this one, and then it is not to be deleted."""
    path = manifest.with_name(name)
    hashed = any(file.name == name and (file.sha256 or file.git_sha1) for file in spec.files)
    again = hashed or (mirror is not None and name in _index(Path(mirror)))
    which = (path, manifest) if again else (manifest, manifest.with_name(RECORD))
    fix = "to have it again" if again else "if this one is meant"
    return GraphDPError(
        f"dataset '{spec.name}': {path} was altered since it was placed: put back what it was, or "
        f"{fix}, {_anew(manifest, spec.name, *which)}"
    )


def digests(path: str | os.PathLike) -> tuple[int, str, str]:
    """Size in bytes, SHA-256, and git blob SHA-1 (of `blob <size>\\0` + content) of a file."""
    size = os.path.getsize(path)
    sha256, git_sha1 = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size)
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            sha256.update(chunk)
            git_sha1.update(chunk)
    return size, sha256.hexdigest(), git_sha1.hexdigest()


def _obtain(
    spec: DatasetSpec,
    file: FileSpec,
    folder: Path,
    in_mirror: dict[str, list[Path]],
    retries: int,
    offline: bool,
    timeout: float,
    backoff: float,
    mirror: str | os.PathLike | None,
) -> tuple[int, str, str]:
    final = folder / file.name
    failures: list[str] = []

    if final.is_file():
        found = digests(final)
        if (problem := _mismatch(file, *found)) is None:
            return found
        failures.append(f"{final}: {problem}")

    for candidate in _candidates(spec.name, file, in_mirror):
        try:
            with candidate.open("rb") as source:
                return _land(file, source, final)
        except (_Failure, OSError) as error:
            if getattr(error, "errno", None) in io.NO_ROOM:
                raise
            failures.append(f"{candidate}: {error}")

    if file.url and not offline:
        for attempt in range(retries + 1):
            try:
                return _fetch(file, final, timeout)
            except _Failure as error:
                failures.append(f"attempt {attempt + 1}: {error}")
                if error.final or attempt == retries:
                    break
            pause = backoff * 2**attempt
            print(f"{file.name}: {failures[-1]}; again in {pause:g} s", file=sys.stderr, flush=True)
            time.sleep(pause)

    expected = (
        f"sha256 {file.sha256}"
        if file.sha256
        else (f"git blob SHA-1 {file.git_sha1}" if file.git_sha1 else "no hash known")
    )
    url = file.url or "none"
    if file.url and offline:
        url += " (not tried: offline)"
    by_hand = spec.by_hand or "Supply it by hand"
    raise GraphDPError(
        f"dataset '{spec.name}': cannot get file {file.name}; URL: {url}; expected: {expected}; "
        f"tried: {'; '.join(failures) if failures else 'nothing found'}. {by_hand}: put it into "
        f"{folder}, or into a mirror folder given as MIRROR=dir"
        f"{f' (now {mirror})' if mirror is not None else ''}, under the name {file.name}."
    )


def _recorded(path: Path) -> dict[str, str]:
    """File -> the SHA-256 that was found at its first use.

    Raises `GraphDPError` if the record is damaged.
    """
    if not path.exists():
        return {}
    try:
        return {str(name): str(found) for name, found in io.read_json(path).items()}
    except (ValueError, AttributeError) as error:
        raise GraphDPError(
            f"{path} is damaged ({error}): delete it and run again; the files' hashes are then "
            "recorded anew"
        ) from None


def _first_use(record: Path, dataset: str) -> str:
    return (
        f" What is expected is the file that was used first (its hash stands in {record}); if "
        f"another one is meant, {_anew(record, dataset)}."
    )


def _anew(record: Path, dataset: str, *files: Path) -> str:
    """What to delete so that a dataset is made anew: the folder of its raw files, or `files`."""
    gone = ", ".join(map(str, files or (record.parent,)))
    return (
        f"delete {gone} and {record.parents[2]}/graphs/{dataset}.*, make them anew (target data), "
        "and run again"
    )


def _index(mirror: Path) -> dict[str, list[Path]]:
    """Base name -> files of that name anywhere under the mirror, in a fixed order."""
    index: dict[str, list[Path]] = {}
    for parent, _, names in os.walk(mirror):
        for name in names:
            index.setdefault(name, []).append(Path(parent, name))
    return {name: sorted(paths) for name, paths in index.items()}


def _candidates(dataset: str, file: FileSpec, in_mirror: dict[str, list[Path]]) -> list[Path]:
    """Mirror files to try: those of the right name, then renamed ones of the right size. Raises
    GraphDPError if several of the name differ and no hash says which is meant."""
    named = in_mirror.get(file.name, [])
    unknown = not (file.sha256 or file.git_sha1)
    if unknown and len(named) > 1 and len({digests(path) for path in named}) > 1:
        found = ", ".join(map(str, named))
        raise GraphDPError(
            f"dataset '{dataset}': files {file.name} of the mirror differ ({found}); keep one, or "
            "give its sha256 in the registry"
        )
    if file.size is None or unknown:
        return named
    renamed = [
        path
        for name, paths in sorted(in_mirror.items())
        for path in paths
        if name != file.name and path.is_file() and path.stat().st_size == file.size
    ]
    return [*named, *renamed]


def _mismatch(file: FileSpec, size: int, sha256: str, git_sha1: str) -> str | None:
    """What is wrong with a file of this size and hashes; None if it is the expected one."""
    if file.sha256 and sha256 != file.sha256:
        return f"found sha256 {sha256} ({size} bytes), expected {file.sha256}"
    if file.git_sha1 and git_sha1 != file.git_sha1:
        return f"found git blob SHA-1 {git_sha1} ({size} bytes), expected {file.git_sha1}"
    if file.size is not None and size != file.size:
        return f"found {size} bytes, expected {file.size}"
    return None


def _land(
    file: FileSpec, source: BinaryIO, final: Path, announced: int | None = None
) -> tuple[int, str, str]:
    """Copy `source` to a temporary name, check it, and only then give it its final name."""
    with io.atomic_path(final) as temporary:
        with temporary.open("wb") as sink:
            if announced is None:
                shutil.copyfileobj(source, sink, _CHUNK)
            else:
                rounds = -(-announced // _CHUNK)
                for chunk in progress(_chunks(source), f"{file.name} [MiB]", rounds):
                    sink.write(chunk)
        found = digests(temporary)
        if announced is not None and found[0] < announced:
            raise _Failure(f"got {found[0]} of {announced} bytes", final=False)
        if (problem := _mismatch(file, *found)) is not None:
            raise _Failure(problem)
    return found


def _chunks(source: BinaryIO) -> Iterator[bytes]:
    while chunk := source.read(_CHUNK):
        yield chunk


def _fetch(file: FileSpec, final: Path, timeout: float) -> tuple[int, str, str]:
    assert file.url is not None
    request = urllib.request.Request(file.url, headers={"User-Agent": "graphdp"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            length = response.headers.get("Content-Length")
            return _land(file, response, final, int(length) if length else None)
    except urllib.error.HTTPError as error:
        final_answer = error.code in _FINAL_STATUS
        raise _Failure(f"HTTP {error.code} {error.reason}", final=final_answer) from error
    except (OSError, http.client.HTTPException) as error:
        if getattr(error, "errno", None) in io.NO_ROOM:
            raise
        # URLError, time-outs, resets and truncated answers are all one of these two.
        raise _Failure(f"{type(error).__name__}: {error}", final=False) from error
    except ValueError as error:  # not a URL at all
        raise _Failure(str(error)) from error
