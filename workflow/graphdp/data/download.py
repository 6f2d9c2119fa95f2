"""Put a dataset's raw files in place and prove that they are the right ones. No torch.

A file is looked for where it belongs, then in a mirror folder, then on the network. Wherever it
comes from, it gets its final name only after its hash is right.
"""

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
from graphdp.data.raw_files import (
    RECORD,
    digests,
    first_use,
    has_hash,
    index_of,
    mismatch,
    recorded,
)
from graphdp.errors import GraphDPError
from graphdp.progress import progress

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
    accept: Callable[[str], None] = lambda sha256: None,
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
        accept: called with the SHA-256 of every file, before that has its name in the folder unless
            it was there; what it raises stops the file from being placed.

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
    record = recorded(record_path)
    in_mirror = index_of(Path(mirror)) if mirror is not None else {}

    files = []
    for file in spec.files:
        # A hash seen before is as binding as a published one.
        known = file
        if not has_hash(file) and file.name in record:
            known = file.model_copy(update={"sha256": record[file.name]})
        size, sha256, git_sha1 = _obtain(
            spec, known, folder, in_mirror, retries, offline, timeout, backoff, mirror, accept,
            first_use(folder, spec.name) if known is not file else "",
        )  # fmt: skip
        if not has_hash(file):
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
    hint: str,
) -> tuple[int, str, str]:
    final = folder / file.name
    failures: list[str] = []

    if final.is_file():
        found = digests(final)
        if (problem := mismatch(file, *found)) is None:
            accept(found[1])
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
        f"{f' (now {mirror})' if mirror is not None else ''}, under the name {file.name}.{hint}"
    )


def _candidates(dataset: str, file: FileSpec, in_mirror: dict[str, list[Path]]) -> list[Path]:
    """Mirror files to try: those of the right name, then renamed ones of the right size. Raises
    GraphDPError if several of the name differ and no hash says which is meant."""
    named = in_mirror.get(file.name, [])
    unknown = not has_hash(file)
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
        if (problem := mismatch(file, *found)) is not None:
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
