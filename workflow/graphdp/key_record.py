"""What a secret key has released, written down beside it: one key, one release.

Of two releases by one key, in whatever folders, who sees both knows whether anything changed
between them, be it one edge: noise and hashes of data are named by the key. A ledger knows the
releases of its own folder alone.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from graphdp import durable, keys
from graphdp.errors import GraphDPError

#: The fields of a record: what its release is called and its commit, for who reads it; a keyed hash
#: of all that it is; and that of these, by which the record is known to be of its key.
FIELDS = ("commit", "hash", "mac", "release")


def record_of(key_file: str | os.PathLike) -> Path:
    """Where a key's record lies: `KEY.used`, beside the file itself where `key_file` is a link."""
    return Path(f"{os.path.realpath(key_file)}.used")


def check_unused(key_file: str | os.PathLike) -> None:
    """Raise `GraphDPError` if a new key would have the record of an earlier one of its name."""
    try:
        record = record_of(key_file)
        used = os.path.lexists(record)
    except ValueError:  # no name of a file, which `keys.make_key` says
        return
    if used:
        raise GraphDPError(
            f"{record} says what an earlier key of this name has released: give another name"
        )


def use(
    key_file: str | os.PathLike, entry: Mapping[str, Any], data: Mapping[str, Sequence[str]]
) -> None:
    """Write down what a key releases, before noise is drawn by it; the same again passes.

    entry, data: as those of `ledger.reserve`. Another commit alone is no other release.

    Raises `GraphDPError` if the key has released anything else, if its record is damaged or of
    another key, if there can be none, and as `keys.read_key`.
    """
    key, record = keys.read_key(key_file), record_of(key_file)
    what = {name: value for name, value in entry.items() if name != "commit"} | {"data": data}
    fields = {
        "commit": entry["commit"],
        "release": entry["release"],
        "hash": keys.keyed_hash(key, "release", json.dumps(what, sort_keys=True)),
    }
    try:
        with durable.locked(key_file):  # its folder may be the ledger's, which is held
            earlier = _read(record, key)
            if earlier is None:
                written = fields | {"mac": _mac(key, fields)}
                durable.write(record, f"{json.dumps(written, sort_keys=True)}\n".encode())
    except OSError as error:
        raise GraphDPError(
            f"{record}, which is to say what the key has released, cannot be written "
            f"({error.strerror}): nothing is drawn; keep the key in a folder that you may write to"
        ) from None
    if earlier and earlier["hash"] != fields["hash"]:
        raise GraphDPError(
            f"the key {key_file} is another release's ({record}: {earlier['release']}, commit "
            f"{earlier['commit']}): of two by one key who sees both knows whether anything changed "
            "between them; nothing is drawn; make a key for this one with graphdp key FILE, even "
            "if that one was never made"
        )


def _mac(key: bytes, fields: Mapping[str, Any]) -> str:
    return keys.keyed_hash(key, "used", json.dumps(fields, sort_keys=True))


def _read(record: Path, key: bytes) -> dict[str, Any] | None:
    """The fields of a record; None where there is none."""
    try:
        fields = json.loads(record.read_bytes())
        if sorted(fields) == sorted(FIELDS) and fields.pop("mac") == _mac(key, fields):
            return fields
    except FileNotFoundError:
        if not record.is_symlink():
            return None
    except OSError as error:
        raise GraphDPError(f"{record} cannot be read ({error.strerror})") from None
    except (ValueError, TypeError, RecursionError):
        pass
    raise GraphDPError(
        f"{record}, which says what a key has released, is damaged or of another key: restore it "
        "from a copy, or make another key with graphdp key FILE"
    )
