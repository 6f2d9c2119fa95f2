"""Secret keys: of a private release, and of a ledger's hashes."""

import hmac
import json
import os
import re
import secrets
import stat
from collections.abc import Mapping
from typing import Any

from graphdp.errors import GraphDPError

_HEX = 64  # digits of a key of 256 bits


def make_key(path: str | os.PathLike) -> None:
    """Write a fresh key of 256 bits to a new file that its owner alone may read (mode 0600).

    Raises `GraphDPError` if the file is there already, or cannot be written.
    """
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise GraphDPError(f"{path} is there already; a key is never overwritten") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise GraphDPError(f"{path!r}: {why}; give a file in a folder of yours") from None
    try:
        os.fchmod(file, 0o600)  # whatever the umask
        with os.fdopen(file, "w") as opened:
            opened.write(f"{secrets.token_hex(_HEX // 2)}\n")
            opened.flush()
            os.fsync(file)
    except OSError as error:
        os.unlink(path)  # half a key is none
        raise GraphDPError(f"{path} cannot be written ({error.strerror}): make room") from None


def read_key(path: str | os.PathLike, fix: str = "graphdp key makes one") -> bytes:
    """The key of a file that `make_key` wrote.

    fix: what helps where it is damaged.
    Raises `GraphDPError` if there is none, if others than its owner may read it, or if it holds
    something else.
    """
    try:
        with open(path, encoding="ascii") as file:
            mode, text = os.fstat(file.fileno()).st_mode, file.read()
    except FileNotFoundError:
        raise GraphDPError(f"no key file {path}: make one with graphdp key {path}") from None
    except (OSError, ValueError):
        raise GraphDPError(f"{path} cannot be read as a key: {fix}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise GraphDPError(f"others may read the key file {path}: chmod 600 {path}")
    # Just as `make_key` writes it: capital letters would be the same key in a damaged file.
    if not re.fullmatch(rf"[0-9a-f]{{{_HEX}}}\n?", text):
        raise GraphDPError(f"{path} is no key of {_HEX} hexadecimal digits: {fix}")
    return bytes.fromhex(text.strip())


def keyed_hash(key: bytes, *name: int | str | float) -> str:
    """Hex HMAC-SHA256 of the JSON of a name."""
    return hmac.digest(key, json.dumps(name).encode(), "sha256").hex()


class Secret(str):
    """Text that messages and tracebacks do not show."""

    def __repr__(self) -> str:
        return "<secret>"


def root(config: Mapping[str, Any]) -> str:
    """What names the streams of a study in place of its seed: a secret, or "" in reproduction.

    config: a study's, with `release`, `key_file` and `study_seed`. Never write it anywhere.
    Raises as `read_key`.
    """
    if config.get("release") != "private":
        return ""
    return Secret(keyed_hash(read_key(config["key_file"]), "streams", config["study_seed"]))


def published_hash(secret: str, fingerprint: str) -> str:
    """A hash of data as rows and statements show it: of a private release one keyed by its secret
    (`root`), since who knows all of a graph but one edge can hash both."""
    return keyed_hash(secret.encode(), "graph", fingerprint) if secret else fingerprint
