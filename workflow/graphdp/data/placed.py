"""Whether raw files that `graphdp.data.download` placed are still the right ones.

No torch.
"""

import os
from pathlib import Path

from graphdp import io
from graphdp.data.datasets import DatasetSpec
from graphdp.data.raw_files import (
    MANIFEST,
    RECORD,
    anew,
    digests,
    first_use,
    has_hash,
    index_of,
    mismatch,
    recorded,
)
from graphdp.errors import GraphDPError


def check_unchanged(
    spec: DatasetSpec, folder: str | os.PathLike, mirror: str | os.PathLike
) -> None:
    """Whether the mirror still has the files that were taken from it by name alone, for no hash of
    them is known: a corrected file would not be used without a word.

    folder: where `download` placed them; nothing is checked of what was not placed yet, or may not
    be read. Raises `GraphDPError` naming the first that differs or cannot be read.
    """
    placed, _ = _placed(spec, Path(folder))
    names = [file.name for file in spec.files if not has_hash(file) and file.name in placed]
    in_mirror = index_of(Path(mirror)) if names else {}
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
                fix = first_use(Path(folder), spec.name, Path(folder, name))
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
            fix = anew(spec.name, manifest)
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
            seen = recorded(record)
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
        raise GraphDPError(f"{manifest} is damaged: {anew(spec.name, manifest)}") from None


def _altered(
    spec: DatasetSpec,
    folder: Path,
    names: list[str],
    placed: _Placed,
    mirror: str | os.PathLike | None,
) -> GraphDPError:
    """The line about placed files that are others now. One that was supplied by hand may be the
    only copy: none is to be deleted but where it can be had again as it was."""
    in_mirror = index_of(Path(mirror)) if mirror is not None else {}
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
        f"{anew(spec.name, *gone)}"
    )


def _to_be_had(
    spec: DatasetSpec, path: Path, sha256: str, in_mirror: dict[str, list[Path]]
) -> bool:
    """Whether a placed file would be had again as it was: from a mirror, or by its URL."""
    file = next((one for one in spec.files if one.name == path.name), None)
    if file is None or (has_hash(file) and mismatch(file, *digests(path)) is None):
        return False  # the registry asks for what is there now
    if file.url and has_hash(file):
        return True
    for one in in_mirror.get(path.name, []):
        try:
            if not one.samefile(path) and io.sha256_file(one) == sha256:
                return True
        except OSError:
            continue
    return False
