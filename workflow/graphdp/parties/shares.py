"""Shares and masks modulo 2⁶⁴, the schedule of a session, and the bytes of its links."""

from dataclasses import dataclass, replace

import numpy as np

from graphdp.parties.ring import FRACTION_BITS, step_bits
from graphdp.rng import stream_key
from graphdp.words import Words

#: Streams of rounds, by the number that frames carry.
STREAMS = ("features", "labels", "lengths")
KEY_BYTES, SENDER_BYTES, PARTY_BYTES, VALUE_BYTES = 4, 4, 1, 8
#: Columns of rows that go through the protocol together, which bounds the memory of all.
PIECE_COLUMNS = 64


@dataclass(frozen=True)
class Round:
    """One round, or a piece of one, as all know it beforehand.

    party_std: σ of one party's noise, a real number. start: the first column, of a piece.
    """

    stream: str
    number: int
    columns: int
    party_std: float
    start: int = 0

    @property
    def pieces(self) -> list["Round"]:
        """The round some columns at a time."""
        return [
            replace(self, columns=min(PIECE_COLUMNS, self.columns - start), start=start)
            for start in range(0, self.columns, PIECE_COLUMNS)
        ]

    @property
    def place(self) -> slice:
        """The columns of a piece."""
        return slice(self.start, self.start + self.columns)

    @property
    def step_bits(self) -> int:
        """Rows and noise are multiples of 2^step_bits."""
        return step_bits(self.party_std * 2.0**FRACTION_BITS)

    @property
    def words(self) -> str:
        """For messages, counted from 1."""
        return f"round {self.number + 1} of {self.stream}"


def noise_secret(name: tuple, party: int) -> str:
    """What names a party's noise: of a model's name, which no party knows.

    It is all that a party's process is told, so that it cannot draw the noise of others.
    """
    return stream_key(*name, "party", party).hex()


def noise_name(secret: str, one: Round) -> tuple:
    """What names a party's noise in a piece of a round."""
    return secret, one.stream, one.number, one.start


def dummies_name(secret: str) -> tuple:
    """What names a party's dummies."""
    return secret, "dummies"


def uniform(name: tuple, shape: tuple[int, ...]) -> np.ndarray:
    """Uniform numbers modulo 2⁶⁴, uint64 of `shape`: AES-256 in counter mode under a name's key."""
    found = np.empty(shape, np.uint64)
    Words(*name).fill_u(found.reshape(-1))
    return found


def split_rows(rows: np.ndarray, shares: int, name: tuple) -> np.ndarray:
    """`shares` additive shares of rows, int64 (P, C): uint64 (shares, P, C).

    Any `shares` - 1 of them are uniform and independent of the rows.
    """
    found = np.empty((shares, *rows.shape), np.uint64)
    found[1:] = uniform(name, (shares - 1, *rows.shape))
    found[0] = rows.astype(np.uint64)
    for one in found[1:]:
        found[0] -= one
    return found


def choose_parties(count: int, parties: int, shares: int, name: tuple) -> np.ndarray:
    """Which parties get the shares of each of `count` pairs: uint8 (count, shares), distinct."""
    return np.argsort(uniform(name, (count, parties)), axis=1)[:, :shares].astype(np.uint8)


def mask(party: int, seeds: dict[int, str], one: Round, num_keys: int) -> np.ndarray:
    """A party's mask of a piece of a round, uint64 (n, C); those of all parties add up to zero.

    seeds: other party -> the secret that the two share. Every round and piece has fresh masks.
    """
    found = np.zeros((num_keys, one.columns), np.uint64)
    for other, seed in seeds.items():
        drawn = uniform((seed, "mask", one.stream, one.number, one.start), found.shape)
        (np.add if party < other else np.subtract)(found, drawn, out=found)
    return found


def sum_by_key(keys: np.ndarray, values: np.ndarray, num_keys: int) -> np.ndarray:
    """Values, uint64 (R, C), added up by key modulo 2⁶⁴: uint64 (num_keys, C)."""
    found = np.zeros((num_keys, values.shape[1]), np.uint64)
    if len(keys):
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        found[ordered[starts]] = np.add.reduceat(values[order], starts, axis=0)
    return found


def link_bytes(
    pairs: int, dummies: int, num_keys: int, columns: int, parties: int, shares: int
) -> dict[str, int]:
    """Bytes of one round over the links, without headers: of each direction all links together.

    pairs: that users send, dummies: that parties add. A share has `columns` values of 8 bytes and
    its key; on its way to the shuffler also its party and, of a user, its sender.
    """
    share = KEY_BYTES + columns * VALUE_BYTES
    sent = share + PARTY_BYTES + SENDER_BYTES
    return {
        "users to shuffler": pairs * shares * sent + num_keys * KEY_BYTES,
        "parties to shuffler": dummies * shares * sent,
        "shuffler to parties": (pairs + dummies) * shares * share,
        "parties to server": parties * num_keys * columns * VALUE_BYTES,
    }
