"""A computing party: a process of its own, started with `python -m graphdp.parties.party`.

It reads what it has to know as one JSON object from its standard input (`session.Session`), adds up
its shares of every round by key, adds its noise and its mask on all keys, and sends the result to
the server. It ends with a line on standard error if anything is not as it has to be.
"""

import asyncio
import json
import sys
from typing import Any

import numpy as np

from graphdp.errors import GraphDPError
from graphdp.parties.fixed_point import dummies, party_noise
from graphdp.parties.frames import (
    HELLO,
    PAIRS,
    SUMS,
    Link,
    ProtocolError,
    client_tls,
    study_hash,
)
from graphdp.parties.shares import (
    KEY_BYTES,
    STREAMS,
    VALUE_BYTES,
    Round,
    choose_parties,
    mask,
    noise_name,
    split_rows,
    sum_by_key,
)

#: Bytes of a frame's body, about.
FRAME_BYTES = 1 << 22


async def connect(spec: dict[str, Any], other: str, own: str) -> Link:
    """A link to "server" or "shuffler", which learns by the first frame who this is."""
    host, port = spec["addresses"][other]
    try:
        reader, writer = await asyncio.wait_for(
            asyncio.open_connection(host, port, ssl=client_tls(spec.get("tls"))),
            spec["start_timeout"],
        )
    except (OSError, TimeoutError) as error:
        raise ProtocolError(f"{other} at {host}:{port} does not answer ({error})") from None
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
    zeros = _own_pairs(spec)
    for fields in spec["rounds"]:
        one = Round(**fields)
        try:
            await _send_zeros(shuffler, one, spec, *zeros)
            total = np.zeros((n, one.columns), np.uint64)
            last = False
            while not last:
                keys, values, last = await _pairs(shuffler, one, n)
                total += sum_by_key(keys, values, n)
            name = noise_name(spec["noise"], one)
            noise = party_noise(name, total.shape, one.party_std)
            total += noise.view(np.uint64)
            total += mask(party, seeds, one.stream, one.number, total.shape)
            await _send_sums(server, one, total)
        except ProtocolError as error:
            raise ProtocolError(f"{own}, {one.words}: {error}") from None
    print(json.dumps({"server": server.sent, "shuffler": shuffler.sent}), flush=True)
    server.close()
    shuffler.close()


async def _pairs(shuffler: Link, one: Round, n: int) -> tuple[np.ndarray, np.ndarray, bool]:
    body, rows, last = await shuffler.receive(
        PAIRS,
        stream=STREAMS.index(one.stream),
        number=one.number,
        columns=one.columns,
        row_bytes=KEY_BYTES + one.columns * VALUE_BYTES,
    )
    keys = np.frombuffer(body, np.uint32, rows)
    if rows and keys.max() >= n:
        raise ProtocolError(f"{shuffler.other} sent key {keys.max()} of {n}")
    values = np.frombuffer(body, np.uint64, rows * one.columns, rows * KEY_BYTES)
    return keys.astype(np.int64), values.reshape(rows, one.columns), last


async def _send_sums(server: Link, one: Round, total: np.ndarray) -> None:
    n = len(total)
    step = max(1, FRAME_BYTES // (one.columns * VALUE_BYTES))
    for start in range(0, n, step):
        part = total[start : start + step]
        await server.send(
            SUMS,
            part.tobytes(),
            stream=STREAMS.index(one.stream),
            number=one.number,
            rows=len(part),
            columns=one.columns,
            last=start + step >= n,
        )


def _own_pairs(spec: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """(keys, chosen parties) of the party's dummies, drawn once for all rounds."""
    if not spec["count_std"]:
        return np.zeros(0, np.uint32), np.zeros((0, spec["shares"]), np.uint8)
    drawn = dummies(
        (spec["noise"], "dummies"), spec["num_keys"], spec["mean_dummies"], spec["count_std"]
    )
    keys = np.repeat(np.arange(spec["num_keys"], dtype=np.uint32), drawn)
    chosen = choose_parties(
        len(keys), spec["parties"], spec["shares"], (spec["secret"], "choice", spec["party"])
    )
    return keys, chosen


async def _send_zeros(
    shuffler: Link, one: Round, spec: dict[str, Any], keys: np.ndarray, chosen: np.ndarray
) -> None:
    name = (spec["secret"], "zeros", one.stream, one.number)
    rows = np.zeros((len(keys), one.columns), np.int64)
    values = split_rows(rows, spec["shares"], name)
    senders = np.full(len(keys), spec["num_keys"] + spec["party"], np.uint32)
    await send_shares(shuffler, one, senders, keys, chosen, values)


async def send_shares(
    shuffler: Link,
    one: Round,
    senders: np.ndarray,
    keys: np.ndarray,
    chosen: np.ndarray,
    values: np.ndarray,
) -> None:
    """Send shares, uint64 (t, P, C), of pairs to the shuffler: senders, parties, keys, values."""
    width = 9 + one.columns * VALUE_BYTES
    step = max(1, FRAME_BYTES // (width * len(values)))
    count = len(keys)
    for start in range(0, max(count, 1), step):
        part = slice(start, start + step)
        shown = values[:, part]
        body = b"".join(
            (
                np.tile(senders[part].astype(np.uint32), len(values)).tobytes(),
                np.ascontiguousarray(chosen[part].T).tobytes(),
                np.tile(keys[part].astype(np.uint32), len(values)).tobytes(),
                shown.tobytes(),
            )
        )
        await shuffler.send(
            PAIRS,
            body,
            stream=STREAMS.index(one.stream),
            number=one.number,
            rows=shown.shape[0] * shown.shape[1],
            columns=one.columns,
            last=start + step >= count,
        )


def main() -> int:
    """Run one party; 1 with a line on standard error if the session failed."""
    try:
        asyncio.run(work(json.loads(sys.stdin.readline())))
    except GraphDPError as error:
        print(error, file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
