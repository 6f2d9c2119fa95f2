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
from collections.abc import Callable, Iterator
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
    accept: Callable[[str], None] | None = None,
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
        accept: called with the SHA-256 of a file before that has its name in the folder; what it
            raises stops the file from being placed.

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

    files, refused = [], []

    def asked(sha256: str) -> None:
        try:
            if accept is not None:
                accept(sha256)
        except GraphDPError as error:
            refused.append(error)
            raise

    for file in spec.files:
        # A hash seen before is as binding as a published one.
        known = file
        if not _has_hash(file) and file.name in record:
            known = file.model_copy(update={"sha256": record[file.name]})
        try:
            size, sha256, git_sha1 = _obtain(
                spec, known, folder, in_mirror, retries, offline, timeout, backoff, mirror, asked
            )
        except GraphDPError as error:
            if error in refused:
                raise
            raise GraphDPError(
                f"{error}{_first_use(folder, spec.name)}" if known is not file else f"{error}"
            ) from None
        if not _has_hash(file):
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

    folder: where `download` placed them; nothing is checked of what was not placed yet, or may not
    be read. Raises `GraphDPError` naming the first that differs or cannot be read.
    """
    placed, _ = _placed(spec, Path(folder))
    names = [file.name for file in spec.files if not _has_hash(file) and file.name in placed]
    in_mirror = _index(Path(mirror)) if names else {}
    for name in names:
        for path in in_mirror.get(name, []):
            try:
                # A link may lead nowhere.
                same = not path.is_file() or io.sha256_file(path) == placed[name][1]
            except OSError as error:
                raise GraphDPError(
                    f"dataset '{spec.name}': {path} cannot be read ({error.strerror})"
                ) from None
            if not same:
                # No hash of a private file is said.
                fix = _first_use(Path(folder), spec.name, Path(folder, name))
                raise GraphDPError(f"dataset '{spec.name}': {path} has changed.{fix}")


def check_placed(
    spec: DatasetSpec, folder: str | os.PathLike, mirror: str | os.PathLike | None = None
) -> None:
    """Whether files that `download` placed are still those that it found, as far as they are there
    and may be read: who has the graph may do without. What has its size and is no newer than what
    was written of it then is not read again. mirror: where it might be had again.

    Raises `GraphDPError` naming those that differ, and for a manifest that is damaged.
    """
    placed, written = _placed(spec, Path(folder))
    altered = []
    for name, (size, sha256) in placed.items():
        path = Path(folder, name)
        try:
            found = os.stat(path)
            same = size is None or found.st_size == size
            # Not by when it was written, which a copy may take along; of a link, when that was made
            # as well.
            if same and max(found.st_ctime_ns, os.lstat(path).st_ctime_ns) > written:
                same = io.sha256_file(path) == sha256
        except OSError:
            continue  # a job that reads it says so
        altered += [] if same else [name]
    if altered:
        raise _altered(spec, Path(folder), altered, placed, mirror)


def verify(
    spec: DatasetSpec, folder: str | os.PathLike, mirror: str | os.PathLike | None = None
) -> None:
    """Whether a folder has all files of its manifest, each read and compared with its hash.

    mirror: where they might be had again. Raises `GraphDPError` naming what differs.
    """
    manifest, altered = Path(folder, MANIFEST), []
    placed, _ = _placed(spec, Path(folder))
    for name, (_, sha256) in placed.items():
        path = Path(folder, name)
        if not path.is_file():
            fix = _anew(spec.name, manifest)
            raise GraphDPError(f"dataset '{spec.name}': {path} is missing: put it back, or {fix}")
        altered += [] if io.sha256_file(path) == sha256 else [name]
    if altered:
        raise _altered(spec, Path(folder), altered, placed, mirror)


#: Name of a file -> its size in bytes, if known, and its SHA-256.
_Placed = dict[str, tuple[int | None, str]]


def _placed(spec: DatasetSpec, folder: Path) -> tuple[_Placed, int]:
    """The files that were placed in a folder, and when that was written down (ns): by the manifest,
    and where there is none by the hashes of first uses. None where they may not be read.

    Raises `GraphDPError` for a manifest or record that is damaged.
    """
    manifest, record = folder / MANIFEST, folder / RECORD
    try:
        if not manifest.exists():
            seen = _recorded(record)
            written = os.stat(record).st_mtime_ns if seen else 0
            return {name: (None, sha256) for name, sha256 in seen.items()}, written
        files = io.read_json(manifest)["files"]
        if not all(
            one["name"] == Path(one["name"]).name and "\0" not in one["name"] for one in files
        ):
            raise ValueError("no name of a file")
        placed = {one["name"]: (one["size"], one["sha256"]) for one in files}
        return placed, os.stat(manifest).st_mtime_ns
    except (PermissionError, FileNotFoundError, NotADirectoryError):  # perhaps just now
        return {}, 0
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise GraphDPError(f"{manifest} is damaged: {_anew(spec.name, manifest)}") from None


def _altered(
    spec: DatasetSpec,
    folder: Path,
    names: list[str],
    placed: _Placed,
    mirror: str | os.PathLike | None,
) -> GraphDPError:
    """The line about placed files that are others now. One that was supplied by hand may be the
    only copy: none is to be deleted but where it can be had again as it was."""
    in_mirror = _index(Path(mirror)) if mirror is not None else {}
    again = [name for name in names if _to_be_had(spec, folder / name, placed[name][1], in_mirror)]
    meant = [name for name in names if name not in again]
    gone = [*(folder / name for name in again), folder / MANIFEST]
    fixes = [f"to have {' and '.join(again)} again"] if again else []
    if meant:
        gone.append(folder / RECORD)
        fixes.append(f"if {' and '.join(meant)} as now is meant")
    paths = ", ".join(str(folder / name) for name in names)
    were = "was altered since it was placed: put back what it was"
    if len(names) > 1:
        were = "were altered since they were placed: put back what they were"
    return GraphDPError(
        f"dataset '{spec.name}': {paths} {were}, or {', and '.join(fixes)}, "
        f"{_anew(spec.name, *gone)}"
    )


def _to_be_had(
    spec: DatasetSpec, path: Path, sha256: str, in_mirror: dict[str, list[Path]]
) -> bool:
    """Whether a placed file would be had again as it was: from a mirror, or by its URL."""
    file = next((one for one in spec.files if one.name == path.name), None)
    if file is None or (_has_hash(file) and _mismatch(file, *digests(path)) is None):
        return False  # the registry asks for what is there now
    if file.url and _has_hash(file):
        return True
    for one in in_mirror.get(path.name, []):
        try:
            if not one.samefile(path) and io.sha256_file(one) == sha256:
                return True
        except OSError:
            continue
    return False


def _has_hash(file: FileSpec) -> bool:
    return bool(file.sha256 or file.git_sha1)


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
    accept: Callable[[str], None],
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
                return _land(file, source, final, accept)
        except (_Failure, OSError) as error:
            if getattr(error, "errno", None) in io.NO_ROOM:
                raise
            failures.append(f"{candidate}: {error}")

    if file.url and not offline:
        for attempt in range(retries + 1):
            try:
                return _fetch(file, final, timeout, accept)
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
        f"{folder}, or into a mirror folder given as MIRROR=dir (--config mirror=dir)"
        f"{f' (now {mirror})' if mirror is not None else ''}, under the name {file.name}."
    )


def _recorded(path: Path) -> dict[str, str]:
    """File -> the SHA-256 that was found at its first use.

    Raises `PermissionError`, and `GraphDPError` if the record is damaged.
    """
    try:
        if not path.exists():
            return {}
        return {str(name): str(found) for name, found in io.read_json(path).items()}
    except PermissionError:
        raise
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise GraphDPError(f"{path} is damaged ({error}): delete it and run again") from None


def _first_use(folder: Path, dataset: str, *files: Path) -> str:
    return (
        " What is expected is the file that was used first (its hash stands in "
        f"{folder / RECORD}); if another one is meant, "
        f"{_anew(dataset, *files, folder / MANIFEST, folder / RECORD)}."
    )


def _anew(dataset: str, *files: Path) -> str:
    """What to delete so that a dataset is made anew: `files` of its raw folder, and its graph."""
    graph = files[-1].parents[2] / "graphs" / dataset
    gone = ", ".join(map(str, (*(one for one in files if one.exists()), f"{graph}.npz")))
    return f"delete {gone} and {graph}.json, make them anew (target data), and run again"


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
    unknown = not _has_hash(file)
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
    file: FileSpec,
    source: BinaryIO,
    final: Path,
    accept: Callable[[str], None],
    announced: int | None = None,
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
        accept(found[1])
    return found


def _chunks(source: BinaryIO) -> Iterator[bytes]:
    while chunk := source.read(_CHUNK):
        yield chunk


def _fetch(
    file: FileSpec, final: Path, timeout: float, accept: Callable[[str], None]
) -> tuple[int, str, str]:
    assert file.url is not None
    request = urllib.request.Request(file.url, headers={"User-Agent": "graphdp"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            length = response.headers.get("Content-Length")
            return _land(file, response, final, accept, int(length) if length else None)
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
