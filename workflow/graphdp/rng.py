"""Named random streams.

Every random draw of the project comes from a stream named by (study seed, run seed, purpose, ...).
A stream depends on its name alone, so a model's initialisation, sampling and noise do not depend on
which models share its job, on the order of the jobs, or on the number of workers.

`generator` is seedable and fast, not cryptographic. Samples of batches, on whose secrecy an ε
rests, are drawn by `keyed_generator`, noise and coins by `graphdp.noise` and `graphdp.coins`.
"""

import hashlib
import json

import numpy as np


def stream_seed(*name: int | str | float) -> int:
    """A 63-bit seed from a stream's name, e.g. `stream_seed(12345, 0, "encoder", "noise")`.

    SHA-256 of the JSON of the name, so `(1, "1")` and `("1", 1)` differ.
    """
    digest = hashlib.sha256(json.dumps(name).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def stream_key(*name: int | str | float) -> bytes:
    """A key of 256 bits for the stream of that name: the whole SHA-256 of its JSON."""
    return hashlib.sha256(json.dumps(name).encode()).digest()


def generator(*name: int | str | float) -> np.random.Generator:
    """A numpy generator (Philox, counter based) for the stream of that name."""
    return np.random.Generator(np.random.Philox(stream_seed(*name)))


def keyed_generator(*name: int | str | float) -> np.random.Generator:
    """A numpy generator of AES-128 in counter mode, keyed with half of `stream_key`."""
    from randomgen import AESCounter

    key = int.from_bytes(stream_key(*name)[:16], "little")
    return np.random.Generator(AESCounter(key=key))
