"""Seals: what a job finished, with the digest of every byte, checked before anybody uses it.

When a job is done, `graphdp.workflow.job.run` writes a seal for each of its outputs: `.NAME.seal`
beside the file or folder NAME, a JSON object of `place` (its path in the project), `made_of` (a
digest of what determines it, where the rule says so), `sha256` (of each file in it) and `read` (of
each sealed input a digest of its content, for `graphdp status`). The next job checks the seals of
its inputs before it opens them. So a result that was cut, altered, left by a killed job, or copied
from another study is not used, whatever kind of file it is.

The digests are not keyed: those of a private release stay in `private/`.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from graphdp import io
from graphdp.errors import GraphDPError

Paths = str | os.PathLike
#: Seconds that a seal may be late beside its result.
PATIENCE = 5.0
_SELF = "."  # stands for the file itself, where it is no folder


def digest(value: Any) -> str:
    """A short digest of a JSON value, for `made_of`."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def seal_of(path: Paths) -> Path:
    """Where the seal of a file or folder lies."""
    path = Path(path)
    return path.with_name(f".{path.name}.seal")


def write(path: Paths, made_of: str = "", read: Mapping[str, str] | None = None) -> None:
    """Seal a file, or a folder with all that is in it but hidden files.

    path: as the rule names it, relative to the project's folder. made_of: a digest of what
    determines the result. read: `contents` of what it was made from.
    """
    found = {name: io.sha256_file(file) for name, file in _files(Path(path)).items()}
    seal = {"place": Path(path).as_posix(), "made_of": made_of, "sha256": found}
    io.write_json(seal_of(path), seal | {"read": dict(read or {})})


def contents(paths: Iterable[str]) -> dict[str, str]:
    """Of those results that are sealed a digest of what is in them, by their seals."""
    return {path: digest(read(Path(path))["sha256"]) for path in paths if seal_of(path).is_file()}


def reads_what_is_there(path: Path) -> bool:
    """Whether a sealed result was made from what its inputs hold now, as far as they are there."""
    said = read(path).get("read", {})
    return all(said[one] == now for one, now in contents(said).items())


def remove(path: Paths) -> None:
    """Remove the seal of what is about to be made again."""
    seal_of(path).unlink(missing_ok=True)


def check(path: Paths, made_of: str = "") -> None:
    """Raise `GraphDPError`, in one line that says what to do, if a result is not whole.

    made_of: what it must be made of; "" for anything.
    """
    path = Path(path)
    if not seal_of(path).is_file() and not (path.exists() and _appears(seal_of(path))):
        raise _refused(path, "was not finished, or is not of this version (it has no seal)")
    seal = read(path)
    _check_place(path, seal)
    if made_of and seal["made_of"] not in ("", made_of):
        raise _refused(path, "is of another configuration")
    files = _files(path)
    for name in sorted({*files, *seal["sha256"]}):
        _check_file(path, name, files.get(name), seal)


def check_made_of(path: Paths, made_of: str) -> None:
    """Raise `GraphDPError` if a result is there and its seal names another configuration; what is
    in it is not looked at, nor is a result without a seal, which `check` refuses. A seal that names
    none is of an earlier version."""
    path = Path(path)
    sealed = path.exists() and seal_of(path).is_file()
    if sealed and read(path)["made_of"] not in ("", made_of):
        raise _refused(path, "is of another configuration, of which Snakemake has no record")


def check_if_sealed(path: Paths) -> bool:
    """As `check`, for a file that may come from elsewhere: without a seal, its own or that of a
    folder around it, it passes. Returns whether there is one."""
    path = Path(path).absolute()
    for sealed in (path, *path.parents):
        if sealed.name and seal_of(sealed).is_file():
            name = _SELF if sealed == path else path.relative_to(sealed).as_posix()
            seal = read(sealed)
            _check_place(sealed, seal)
            _check_file(sealed, name, path, seal)
            return True
    return False


def check_inputs(
    paths: Iterable[str], made_of: Mapping[str, str], unsealed: Iterable[str] = ()
) -> None:
    """Check what a job reads of `results/` and `private/`; made_of: path -> digest, where known.

    unsealed: what may come from elsewhere. Raises as `check`.
    """
    for path in dict.fromkeys(paths):
        if path in unsealed:
            check_if_sealed(path)
        elif path.startswith(("results/", "private/")):
            check(path, made_of.get(path, ""))


def _appears(seal: Path) -> bool:
    """Whether a seal is there, or soon: a network's file system may show it late to another
    machine than its job's."""
    until = time.monotonic() + PATIENCE
    while not seal.is_file():
        os.listdir(seal.parent)  # so that what is remembered of the folder is asked for again
        if time.monotonic() >= until:
            return False
        time.sleep(0.5)
    return True


def _files(path: Path) -> dict[str, Path]:
    """What a seal of a path lists: name -> file."""
    if not path.is_dir():
        return {_SELF: path}

    def refuse(error: OSError) -> None:  # a folder that may not be read is no empty one
        raise error

    files = (Path(top, one) for top, _, names in os.walk(path, onerror=refuse) for one in names)
    named = {file.relative_to(path).as_posix(): file for file in files if file.is_file()}
    return {name: file for name, file in named.items() if not Path(name).name.startswith(".")}


def read(path: Path) -> dict[str, Any]:
    """What stands in the seal of a result: `place`, `made_of`, `sha256`, `read`; see above.

    Raises `GraphDPError` if it is damaged.
    """
    try:
        seal = json.loads(seal_of(path).read_text(encoding="utf-8"))
        # Of an earlier version it does not say what was read.
        whole = {*seal} | {"read"} == {"place", "made_of", "sha256", "read"}
        if whole and all(isinstance(seal.get(one, {}), dict) for one in ("sha256", "read")):
            return seal
    except (ValueError, TypeError, RecursionError):
        pass
    raise _refused(path, "has a damaged seal")


def _check_place(path: Path, seal: Mapping) -> None:
    # By the end of the path: the project's folder may be moved.
    if not f"/{path.absolute().as_posix()}".endswith(f"/{seal['place']}"):
        raise _refused(path, f"was made as {seal['place']}")


def _check_file(path: Path, name: str, file: Path | None, seal: Mapping) -> None:
    which = "" if name == _SELF else f" ({name})"
    if file is None or not file.is_file():
        raise _refused(path, f"is incomplete{which or ' (it is not there)'}")
    if name not in seal["sha256"]:
        raise _refused(path, f"holds a file that its job did not write{which}")
    if io.sha256_file(file) != seal["sha256"][name]:
        raise _refused(path, f"was altered or cut after it was made{which}")


def _refused(path: Path, what: str) -> GraphDPError:
    # Named, for Snakemake makes nothing anew that only what is there already was made from.
    return GraphDPError(
        f"{path} {what}; delete it and run again, which makes it anew (if not, name it as a "
        f"target: snakemake --cores all all {path} ...)"
    )
