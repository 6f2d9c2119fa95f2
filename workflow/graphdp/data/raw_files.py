"""Raw files of datasets: what stands beside them, their hashes, and what helps where one is wrong.

No torch.
"""

import hashlib
import os
from pathlib import Path

from graphdp import io
from graphdp.data.datasets import FileSpec
from graphdp.errors import GraphDPError

# Hashes of files whose hash nobody published, written when such a file is first seen.
RECORD = "recorded-hashes.json"
#: What `download` returns, beside the files.
MANIFEST = "manifest.json"
_CHUNK = 1 << 20


def has_hash(file: FileSpec) -> bool:
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


def mismatch(file: FileSpec, size: int, sha256: str, git_sha1: str) -> str | None:
    """What is wrong with a file of this size and hashes; None if it is the expected one."""
    if file.sha256 and sha256 != file.sha256:
        return f"found sha256 {sha256} ({size} bytes), expected {file.sha256}"
    if file.git_sha1 and git_sha1 != file.git_sha1:
        return f"found git blob SHA-1 {git_sha1} ({size} bytes), expected {file.git_sha1}"
    if file.size is not None and size != file.size:
        return f"found {size} bytes, expected {file.size}"
    return None


def recorded(path: Path) -> dict[str, str]:
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


def first_use(folder: Path, dataset: str, *files: Path) -> str:
    return (
        " What is expected is the file that was used first (its hash stands in "
        f"{folder / RECORD}); if another one is meant, "
        f"{anew(dataset, *files, folder / MANIFEST, folder / RECORD)}."
    )


def anew(dataset: str, *files: Path) -> str:
    """What to delete so that a dataset is made anew: `files` of its raw folder, and its graph."""
    graph = files[-1].parents[2] / "graphs" / dataset
    gone = ", ".join(map(str, (*(one for one in files if one.exists()), f"{graph}.npz")))
    return f"delete {gone} and {graph}.json, make them anew (target data), and run again"


def index_of(mirror: Path) -> dict[str, list[Path]]:
    """Base name -> files of that name anywhere under the mirror, in a fixed order."""
    index: dict[str, list[Path]] = {}
    for parent, _, names in os.walk(mirror):
        for name in names:
            index.setdefault(name, []).append(Path(parent, name))
    return {name: sorted(paths) for name, paths in index.items()}
