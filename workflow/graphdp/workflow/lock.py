"""Before the first job: one run of the workflow at a time, with a lock that cannot go stale.

Snakemake's own lock is a file that a killed run leaves behind and that stops the next run until
`--unlock`. This one is held by the operating system for the life of the process (`flock`), so a
`kill -9` releases it. The default profile turns Snakemake's lock off and the Snakefile holds this.
"""

import fcntl
import os
from pathlib import Path

from graphdp.errors import GraphDPError

_held: list[int] = []  # descriptors stay open, and locked, until the process ends


def check_folders(*folders: str | os.PathLike) -> None:
    """Raise `GraphDPError` if a file, or a link to nothing, is where a folder will be."""
    for folder in map(Path, folders):
        for path in (*reversed(folder.parents), folder):
            try:
                there, is_folder = os.path.lexists(path), path.is_dir()
            except OSError as error:
                raise GraphDPError(f"{path} cannot be read ({error.strerror})") from None
            if there and not is_folder:
                what = "is a link to nothing" if path.is_symlink() else "is no folder"
                raise GraphDPError(f"{path} {what}: move it away, and run again")


def check_writable(folder: str | os.PathLike) -> None:
    """Raise `GraphDPError`, naming it, if a folder or one in it cannot be written.

    Of what is not there, the next folder above it counts.
    """
    folder = Path(folder)
    while not folder.exists():
        folder = folder.parent
    for where, _, _ in os.walk(folder):
        if not os.access(where, os.W_OK | os.X_OK):
            raise GraphDPError(
                f"the folder {where} cannot be written: give it to you (chmod u+rwx), or remount "
                "its disk, and run again"
            )


def hold(path: str | os.PathLike) -> None:
    """Take the lock for the rest of this process; idempotent within a process.

    Raises `GraphDPError` if another live process holds it, or it cannot be made.
    """
    if _held:
        return
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise GraphDPError(
            f"{path} cannot be written ({error.strerror}): remove it, or make its folder writable"
        ) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.read(descriptor, 64).decode(errors="replace").strip()
        os.close(descriptor)
        raise GraphDPError(
            f"another run (process {owner or 'unknown'}) is working in this folder; wait for it to "
            "end, or stop it, then run again"
        ) from None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    _held.append(descriptor)
