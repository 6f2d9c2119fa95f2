"""A computing party: a process of its own, started with `python -m graphdp.parties.party`.

It reads what it has to know from its standard input (`process`, `session.Session`), adds up its
shares of every round by key, adds its noise and its mask on all keys, and sends the result to the
server. It ends with a line on standard error if anything is not as it has to be.
"""

import asyncio
import ssl
import sys
from typing import Any

import numpy as np

from graphdp.parties.fixed_point import dummies, party_noise
from graphdp.parties.frames import (
    HELLO,
    KEYS,
    PAIRS,
    SUMS,
    Link,
    ProtocolError,
    client_tls,
    keep_alive,
    study_hash,
)
from graphdp.parties.process import run, say
from graphdp.parties.shares import (
    KEY_BYTES,
    STREAMS,
    VALUE_BYTES,
    Round,
    choose_parties,
    dummies_name,
    mask,
    noise_name,
    split_rows,
    sum_by_key,
)
from graphdp.parties.waiting import PATIENCE, seconds_of_work

#: Bytes of a frame's body, about.
FRAME_BYTES = 1 << 22
#: What the shuffler is told of a share.
SHARE = np.dtype([("sender", "<u4"), ("party", "u1"), ("key", "<u4")])


async def connect(spec: dict[str, Any], other: str, own: str) -> Link:
    """A link to "server" or "shuffler", which learns by the first frame who this is."""
    host, port = spec["addresses"][other]
    try:
        reader, writer = await asyncio.wait_for(
            asyncio.open_connection(host, port, ssl=client_tls(spec.get("tls"))),
            spec["start_timeout"],
        )
    except ssl.SSLCertVerificationError as error:
        why = error.verify_message.rstrip(".")
        raise ProtocolError(f"{other} at {host}:{port} shows a wrong certificate: {why}") from None
    except (OSError, TimeoutError) as error:
        raise ProtocolError(f"{other} at {host}:{port} does not answer ({error})") from None
    keep_alive(writer)
    name = own.encode()
    writer.write(bytes([len(name)]) + name)  # which key to check with
    secret, study = spec["secrets"][other], study_hash(spec["study"])
    link = Link(reader, writer, secret, own, other, study, spec["timeouts"][other])
    await link.send(HELLO, b"")
    return link


async def work(spec: dict[str, Any]) -> None:
    """All rounds of a session."""
    party, n = spec["party"], spec["num_keys"]
    own = f"party {party}"
    server, shuffler = await connect(spec, "server", own), await connect(spec, "shuffler", own)
    seeds = {int(other): seed for other, seed in spec["seeds"].items()}
    own_keys, chosen = _own_pairs(spec)
    senders = np.full(len(own_keys), n + party, np.uint32)
    for fields in spec["rounds"]:
        one = Round(**fields)
        try:
            await send_keys(shuffler, one, senders, own_keys, chosen)
            keys = await _keys(shuffler, one, n)
            _wait_longer(spec, one, len(keys), server, shuffler)
            for piece in one.pieces:
                name = (spec["secret"], "zeros", piece.stream, piece.number, piece.start)
                zeros = np.zeros((len(own_keys), piece.columns), np.int64)
                await send_values(shuffler, piece, split_rows(zeros, spec["shares"], name))
                values = await values_of(shuffler, piece, len(keys), PAIRS)
                total = sum_by_key(keys, values, n)
                noise = party_noise(noise_name(spec["noise"], piece), total.shape, one.party_std)
                total += noise.view(np.uint64)
                total += mask(party, seeds, piece, n)
                await send_values(server, piece, total[None], SUMS)
        except ProtocolError as error:
            raise ProtocolError(f"{own}, {one.words}: {error}") from None
    say({"sent": {"server": server.sent, "shuffler": shuffler.sent}})
    server.close()
    shuffler.close()


def _wait_longer(spec: dict[str, Any], one: Round, shares: int, *links: Link) -> None:
    """Wait for what others have to do with as many shares of each party as came to this one: of the
    number of pairs it is told no other way."""
    columns = max(piece.columns for piece in one.pieces)
    pairs = shares * spec["parties"] // spec["shares"]
    sizes = spec["num_keys"], columns, spec["parties"], spec["shares"]
    for link in links:
        multiple = PATIENCE["party", link.other]
        link.timeout = spec["timeouts"][link.other] + multiple * seconds_of_work(pairs, 0, *sizes)


async def _keys(shuffler: Link, one: Round, n: int) -> np.ndarray:
    """Of the shares that the party gets in a round, int64 (R,)."""
    body = await whole(shuffler, KEYS, one, 0, KEY_BYTES)
    keys = np.frombuffer(body, np.uint32)
    if keys.size and keys.max() >= n:
        raise ProtocolError(f"{shuffler.other} sent key {keys.max()} of {n}")
    return keys.astype(np.int64)


async def whole(link: Link, kind: int, one: Round, columns: int, row_bytes: int) -> bytes:
    """The bodies of all frames of a kind in a round, or in a piece of it."""
    parts, last = [], False
    while not last:
        body, _, last = await link.receive(
            kind,
            stream=STREAMS.index(one.stream),
            number=one.number,
            columns=columns,
            row_bytes=row_bytes,
        )
        parts.append(body)
    return b"".join(parts)


async def values_of(link: Link, piece: Round, rows: int, kind: int) -> np.ndarray:
    """What so many rows hold in a piece: uint64 (rows, C)."""
    body = await whole(link, kind, piece, piece.columns, piece.columns * VALUE_BYTES)
    found = np.frombuffer(body, np.uint64).reshape(-1, piece.columns)
    if len(found) != rows:
        raise ProtocolError(f"{link.other} sent {len(found)} rows of {rows}")
    return found


def _own_pairs(spec: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """(keys, chosen parties) of the party's dummies, drawn once for all rounds."""
    if not spec["count_std"]:
        return np.zeros(0, np.uint32), np.zeros((0, spec["shares"]), np.uint8)
    drawn = dummies(
        dummies_name(spec["noise"]), spec["num_keys"], spec["mean_dummies"], spec["count_std"]
    )
    keys = np.repeat(np.arange(spec["num_keys"], dtype=np.uint32), drawn)
    chosen = choose_parties(
        len(keys), spec["parties"], spec["shares"], (spec["secret"], "choice", spec["party"])
    )
    return keys, chosen


async def send_keys(
    shuffler: Link, one: Round, senders: np.ndarray, keys: np.ndarray, chosen: np.ndarray
) -> None:
    """Announce the shares of pairs to the shuffler: senders, parties and keys, share by share."""
    count, shares = chosen.shape
    told = np.empty((shares, count), SHARE)
    told["sender"], told["party"], told["key"] = senders, chosen.T, keys
    await send_rows(shuffler, KEYS, one, told.reshape(-1))


async def send_values(link: Link, piece: Round, values: np.ndarray, kind: int = PAIRS) -> None:
    """Send what a piece of a round has in it: uint64 (t, P, C), in the order of the keys."""
    await send_rows(link, kind, piece, values.reshape(-1, piece.columns), piece.columns)


async def send_rows(link: Link, kind: int, one: Round, rows: np.ndarray, columns: int = 0) -> None:
    """Send rows in frames of about `FRAME_BYTES`; of none an empty one."""
    step = max(1, FRAME_BYTES * len(rows) // max(1, rows.nbytes))
    for start in range(0, max(len(rows), 1), step):
        part = rows[start : start + step]
        await link.send(
            kind,
            part.tobytes(),
            stream=STREAMS.index(one.stream),
            number=one.number,
            rows=len(part),
            columns=columns,
            last=start + step >= len(rows),
        )


def main() -> int:
    """Run one party."""
    return run(work)


if __name__ == "__main__":
    sys.exit(main())
