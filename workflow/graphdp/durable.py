"""Files that are on the disk, whole, before what they speak of happens, and their owner's alone."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def locked(path: str | os.PathLike) -> Iterator[None]:
    """Let no other process of this machine hold the same file or folder; this one's death ends it.
    Raises `OSError` if it may not be read."""
    # NFS lets nobody lock a file alone that is open for reading; other disks do, as of a file that
    # its owner has made unwritable.
    writable = not os.path.isdir(path) and os.access(path, os.W_OK)
    descriptor = os.open(path, os.O_RDWR if writable else os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write(path: str | os.PathLike, content: bytes) -> None:
    """Write a file (mode 0600) to the disk, or leave the one that is there: a new file takes its
    place, since half of one, of a full disk or a kill, would stop all that reads it.

    path: of a link, what it points to is written. Raises `OSError`.
    """
    target = Path(os.path.realpath(path))
    new = target.with_name(f"{target.name}.new")
    try:
        new.unlink(missing_ok=True)  # of a killed run: not through a link, nor with its mode
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, target)
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise
