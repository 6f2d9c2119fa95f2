"""Files that are either whole or absent: everything is written to a temporary name and renamed."""

import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

#: Errors of writing that nothing but room on the disk, or another disk, helps against.
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
#: Errors of a disk, in writing to it, where the system names no file.
_OF_A_DISK = NO_ROOM | {errno.EIO, errno.ESTALE}


@contextmanager
def atomic_path(path: str | os.PathLike) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it to `path` on success, remove it on failure.

    The temporary name keeps the suffix of `path` (libraries choose formats by it). A process that
    dies in between leaves at most a hidden `.tmp-*` file, never a half-written `path`.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".tmp-", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp makes private files; results are to be shared as the user's umask says.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        os.replace(temporary, path)
    except OSError as error:
        # Writing to a file that is open names none; nor do errors of what is read meanwhile.
        if error.filename == name or (error.filename is None and error.errno in _OF_A_DISK):
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | os.PathLike, text: str) -> None:
    """Write `text` (UTF-8) to `path` atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | os.PathLike, value: Any) -> None:
    """Write `value` as indented JSON with sorted keys, atomically. NaN and infinity are refused."""
    write_text(
        path,
        json.dumps(value, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n",
    )


def read_json(path: str | os.PathLike) -> Any:
    """Read a JSON file."""
    return json.loads(Path(path).read_text(encoding="utf-8"))


def read_yaml(path: str | os.PathLike) -> Any:
    """Load a YAML file."""
    import yaml

    from graphdp.repeated_keys import LOADER

    return yaml.load(Path(path).read_text(encoding="utf-8"), LOADER)


def save_npz(path: str | os.PathLike, **arrays: np.ndarray) -> None:
    """Write arrays to an uncompressed `.npz` atomically; equal arrays give equal bytes."""
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def load_npz(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Read every array of an `.npz` file; pickled objects are refused."""
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def save_npy(path: str | os.PathLike, array: np.ndarray) -> None:
    """Write one array to a `.npy` atomically (readable with `mmap_mode`)."""
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.save(file, array, allow_pickle=False)


def sha256_file(path: str | os.PathLike) -> str:
    """Hex SHA-256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_arrays(*arrays: np.ndarray) -> str:
    """Hex SHA-256 over dtype, shape and bytes of each array, in order."""
    digest = hashlib.sha256()
    for array in arrays:
        array = np.ascontiguousarray(array)
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.data if array.size else b"")
    return digest.hexdigest()
