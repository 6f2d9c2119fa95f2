"""The shuffler: a process of its own, started with `python -m graphdp.parties.shuffler`.

It is told of all shares of a round, of all users and parties, and only then tells every party of
its own, in an order of the shuffler's. What rows hold follows some columns at a time, always of all
shares before any is sent on. It is trusted: it sees who sends how many pairs to whom, and all
shares of them. A user that is silent, or whose number of pairs is not what it says, ends the
session before anything of that round is forwarded: what the others' sums would show is its list.
"""

import asyncio
import sys
from typing import Any

import numpy as np

from graphdp.errors import GraphDPError
from graphdp.parties.frames import (
    DONE,
    HELLO,
    KEYS,
    PAIRS,
    Link,
    ProtocolError,
    keep_alive,
    server_tls,
    study_hash,
)
from graphdp.parties.party import SHARE, send_rows, send_values, values_of, whole
from graphdp.parties.process import run, say
from graphdp.parties.shares import KEY_BYTES, STREAMS, Round, uniform

#: What a user that is silent has in the list of numbers of pairs.
SILENT = 2**32 - 1


async def accept(spec: dict[str, Any], own: str, others: list[str], links: dict[str, Link]) -> Any:
    """Listen until all of `others` have connected; returns the server and a future for that."""
    ready = asyncio.get_running_loop().create_future()

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            wait = spec["start_timeout"]
            size = (await asyncio.wait_for(reader.readexactly(1), wait))[0]
            name = (await asyncio.wait_for(reader.readexactly(size), wait)).decode()
            if name not in others or name in links:
                raise ProtocolError(f"{own}: {name!r} is not due to connect")
            study, secret = study_hash(spec["study"]), spec["secrets"][name]
            link = Link(reader, writer, secret, own, name, study, spec["timeouts"][name])
            keep_alive(writer)
            await link.receive(HELLO)
            if name in links:  # by now
                raise ProtocolError(f"{own}: {name!r} has connected twice")
            links[name] = link
            if len(links) == len(others) and not ready.done():
                ready.set_result(None)
        except (GraphDPError, OSError, asyncio.IncompleteReadError, TimeoutError, ValueError):
            writer.close()  # a stranger; who is missing is named when time is up

    host, port = spec["listen"]
    try:
        listening = await asyncio.start_server(
            greet, host, port, ssl=server_tls(spec.get("tls")), limit=1 << 20
        )
    except OSError as error:
        raise ProtocolError(f"{own} cannot listen at {host} ({error})") from None
    return listening, ready


async def all_there(ready: Any, others: list[str], links: dict[str, Link], timeout: float) -> None:
    """Wait for those who have to connect. Raises `ProtocolError` naming who did not."""
    try:
        await asyncio.wait_for(ready, timeout)
    except TimeoutError:
        missing = [name for name in others if name not in links]
        raise ProtocolError(f"{', '.join(missing)} did not connect in {timeout:g} s") from None


async def work(spec: dict[str, Any]) -> None:
    """All rounds of a session."""
    parties = [f"party {p}" for p in range(spec["parties"])]
    others, links = ["users", *parties], {}
    listening, ready = await accept(spec, "shuffler", others, links)
    say({"port": listening.sockets[0].getsockname()[1]})
    await all_there(ready, others, links, spec["start_timeout"])
    listening.close()
    for fields in spec["rounds"]:
        one = Round(**fields)
        try:
            told = await asyncio.gather(*(_shares(links[name], one, spec) for name in others))
            await _check_users(links["users"], one, spec, told[0]["sender"])
            order, counts = _order(one, spec, told)
            everything, ends = np.concatenate(told), [links[name] for name in parties]
            await asyncio.gather(
                *(
                    send_rows(link, KEYS, one, everything["key"][mine])
                    for link, mine in zip(ends, order, strict=True)
                )
            )
            for piece in one.pieces:
                await _forward(piece, [links[name] for name in others], counts, order)
        except ProtocolError as error:
            raise ProtocolError(f"shuffler, {one.words}: {error}") from None
    say({"sent": {name: links[name].sent for name in parties}})
    for name in parties:
        links[name].close()


async def _shares(link: Link, one: Round, spec: dict[str, Any]) -> np.ndarray:
    """All shares that one end sends in a round, as it announces them: (R,) of `party.SHARE`."""
    found = np.frombuffer(await whole(link, KEYS, one, 0, SHARE.itemsize), SHARE)
    if found.size and found["party"].max() >= spec["parties"]:
        raise ProtocolError(
            f"{link.other} sent to party {found['party'].max()} of {spec['parties']}"
        )
    return found


async def _check_users(users: Link, one: Round, spec: dict[str, Any], senders: np.ndarray) -> None:
    """Refuse a round in which a user was silent or sent other than it said."""
    n = spec["num_keys"]
    body, _, _ = await users.receive(
        DONE,
        stream=STREAMS.index(one.stream),
        number=one.number,
        columns=1,
        row_bytes=KEY_BYTES,
    )
    said = np.frombuffer(body, np.uint32).astype(np.int64)
    if len(said) != n:
        raise ProtocolError(f"{len(said)} users said how many pairs they sent, of {n}")
    if (silent := np.flatnonzero(said == SILENT)).size:
        raise ProtocolError(
            f"user {silent[0]} is silent ({silent.size} in all); nothing was forwarded"
        )
    sent = np.bincount(senders, minlength=n)
    if (wrong := np.flatnonzero(sent[:n] != said * spec["shares"])).size or len(sent) > n:
        user = wrong[0] if wrong.size else len(sent) - 1
        raise ProtocolError(f"user {user} sent other pairs than it said; nothing was forwarded")


def _order(
    one: Round, spec: dict[str, Any], told: list[np.ndarray]
) -> tuple[list[np.ndarray], list[int]]:
    """Of each party, which shares of all it gets, in what order; and how many each end sends."""
    chosen = np.concatenate([some["party"] for some in told])
    name = (spec["secret"], "order", one.stream, one.number)
    order = np.argsort(uniform(name, (len(chosen),)))
    mine = chosen[order]
    return [order[mine == party] for party in range(spec["parties"])], [*map(len, told)]


async def _forward(
    piece: Round, ends: list[Link], counts: list[int], order: list[np.ndarray]
) -> None:
    """Take in a piece of all shares, then send every party its own."""
    found = await asyncio.gather(
        *(values_of(link, piece, count, PAIRS) for link, count in zip(ends, counts, strict=True))
    )
    values = np.concatenate(found)
    del found
    await asyncio.gather(
        *(
            send_values(link, piece, values[mine])
            for link, mine in zip(ends[1:], order, strict=True)
        )
    )


def main() -> int:
    """Run the shuffler."""
    return run(work)


if __name__ == "__main__":
    sys.exit(main())
