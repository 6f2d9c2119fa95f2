"""Authenticated frames over asyncio streams.

A frame is a header, a body and an HMAC-SHA-256 of both under the key of its link and direction. The
header names the study, the kind of frame, stream and round, the frame's place among those of the
round, the shape of the body and the ring. The reader knows all of it beforehand, but the number of
rows, and refuses what differs: a frame of another study or round, one that comes twice or out of
order, another ring or shape. Nothing of a frame is looked at before its HMAC but magic and length.
"""

import asyncio
import errno
import hashlib
import hmac
import socket
import ssl
import struct
from collections.abc import Coroutine, Mapping
from typing import Any

from graphdp.errors import GraphDPError
from graphdp.parties.ring import FRACTION_BITS, RING_BITS

HELLO, KEYS, DONE, PAIRS, SUMS = range(5)
KINDS = ("hello", "keys", "done", "pairs", "sums")
MAGIC = b"SBK1"
#: magic, kind, ring, fraction bits, stream, last of its kind in the round, study, round, place,
#: rows, columns, bytes of the body.
HEADER = struct.Struct("<4sBBBBB16sIIIIQ")
MAC_BYTES = 32
#: No body is longer; it bounds what a reader takes in before the HMAC is checked.
MOST_BYTES = 1 << 26


#: When an idle link is asked whether it is alive: seconds before and between, and how often. The
#: other machine answers, whatever the process at that end is at.
_ALIVE = {"TCP_KEEPIDLE": 3, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3}
#: What was sent and repeated so often, in some seven seconds, does not arrive any more. To what
#: waits for a process that reads nothing, the other machine answers.
_REPEATS = 5
#: What the system says of a link that is dead.
_CUT = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN)


#: Names of the ends that this process waits for just now.
WAITS_FOR: set[str] = set()


class ProtocolError(GraphDPError):
    """A frame that is refused, or an end of a link that is gone or silent."""


class LateError(ProtocolError):
    """An end of a link that is silent."""


def link_key(secret: str, sender: str, receiver: str) -> bytes:
    """The key of a link's direction, from the secret that both ends share."""
    return hashlib.sha256(f"{secret} {sender} {receiver}".encode()).digest()


def study_hash(study: str) -> bytes:
    """What frames name a session by: of its random secret, never of data."""
    return hashlib.sha256(study.encode()).digest()[:16]


def pack(
    key: bytes,
    study: bytes,
    kind: int,
    stream: int,
    number: int,
    place: int,
    rows: int,
    columns: int,
    body: bytes,
    last: bool = True,
) -> bytes:
    """A frame. Equal arguments give equal bytes, so that one sent again is the same."""
    head = HEADER.pack(
        MAGIC, kind, RING_BITS, FRACTION_BITS, stream, last, study, number, place, rows, columns,
        len(body),
    )  # fmt: skip
    return head + body + hmac.digest(key, head + body, "sha256")


class Link:
    """One end of a stream. own, other: names of both ends; secret: what they share; timeout:
    seconds in which the other has to send or take something.

    It counts the bytes of bodies that it sent and received, by kind of frame.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        secret: str,
        own: str,
        other: str,
        study: bytes,
        timeout: float,
    ):
        self._reader, self._writer, self.other = reader, writer, other
        self._send_key = link_key(secret, own, other)
        self._receive_key = link_key(secret, other, own)
        self._study, self.timeout = study, timeout
        self._place_out: tuple = ()
        self._place_in: tuple = ()
        self.sent: dict[str, int] = {}
        self.received: dict[str, int] = {}

    async def send(
        self,
        kind: int,
        body: bytes,
        *,
        stream: int = 0,
        number: int = 0,
        rows: int = 0,
        columns: int = 0,
        last: bool = True,
    ) -> None:
        """Send a frame. Raises `ProtocolError` if the other end is gone or takes nothing."""
        place = self._next("_place_out", (kind, stream, number))
        frame = pack(
            self._send_key, self._study, kind, stream, number, place, rows, columns, body, last
        )
        self._writer.write(frame)
        await self._in_time(self._writer.drain(), "took")
        self.sent[KINDS[kind]] = self.sent.get(KINDS[kind], 0) + len(body)

    async def receive(
        self, kind: int, *, stream: int = 0, number: int = 0, columns: int = 0, row_bytes: int = 0
    ) -> tuple[bytes, int, bool]:
        """(body, rows, whether it is the last) of the next frame, which has to be as described.

        row_bytes: bytes of one row of the body. Raises `ProtocolError` for any other frame, and if
        the other end is gone or sends nothing for the link's timeout.
        """
        head = await self._exactly(HEADER.size, kind)
        (magic, got_kind, ring, fraction, got_stream, last, study, got_number, place, rows,
         got_columns, length) = HEADER.unpack(head)  # fmt: skip
        if magic != MAGIC or length > (0 if kind == HELLO else MOST_BYTES):
            raise ProtocolError(f"{self.other} sent no frame of this protocol")
        body = await self._exactly(length, kind)
        mac = await self._exactly(MAC_BYTES, kind)
        if not hmac.compare_digest(mac, hmac.digest(self._receive_key, head + body, "sha256")):
            raise ProtocolError(f"{self.other} sent a frame with a wrong HMAC")
        expected = self._next("_place_in", (kind, stream, number))
        if study != self._study:
            raise ProtocolError(f"{self.other} sent a frame of another study")
        if (ring, fraction) != (RING_BITS, FRACTION_BITS):
            raise ProtocolError(
                f"{self.other} sent numbers of {ring} bits, {fraction} of them fractions; this is "
                f"for {RING_BITS} and {FRACTION_BITS}"
            )
        got, wanted = (got_kind, got_stream, got_number), (kind, stream, number)
        if got == wanted and place < expected:
            raise ProtocolError(f"{self.other} sent frame {place} twice")
        if got != wanted or place != expected:
            what = KINDS[got_kind] if got_kind < len(KINDS) else str(got_kind)
            raise ProtocolError(
                f"{self.other} sent {what} {place} of stream {got_stream}, round {got_number + 1}; "
                f"{KINDS[kind]} {expected} of stream {stream}, round {number + 1} is due"
            )
        if got_columns != columns or rows * row_bytes != length:
            raise ProtocolError(
                f"{self.other} sent {rows} rows of {got_columns} columns in {length} bytes; "
                f"{columns} columns in {rows * row_bytes} bytes are due"
            )
        self.received[KINDS[kind]] = self.received.get(KINDS[kind], 0) + length
        return body, rows, bool(last)

    def _next(self, which: str, about: tuple) -> int:
        """The next place of a frame: it starts at 0 for each kind and round."""
        previous = getattr(self, which)
        place = previous[1] + 1 if previous and previous[0] == about else 0
        setattr(self, which, (about, place))
        return place

    async def _exactly(self, size: int, kind: int) -> bytes:
        try:
            return await self._in_time(self._reader.readexactly(size), "sent")
        except LateError as error:
            raise LateError(f"{error}; {KINDS[kind]} is due") from None

    async def _in_time(self, step: Coroutine, did: str) -> Any:
        """What a step of reading or writing gives. Raises `ProtocolError` if the other end is gone,
        its machine cut off, or time is up: seconds that this process waited, not those in which it
        was stopped or at work itself."""
        waiting, left = asyncio.ensure_future(step), self.timeout
        WAITS_FOR.add(self.other)
        try:
            while not waiting.done():
                if left <= 0:
                    raise LateError(f"{self.other} {did} nothing for {self.timeout:.3g} s")
                await asyncio.wait({waiting}, timeout=min(left, 1.0))
                left -= 1.0
                if not waiting.done() and _is_cut(self._writer):
                    raise ProtocolError(f"{self.other} is cut off")
            return waiting.result()
        except (asyncio.IncompleteReadError, OSError) as error:
            cut = getattr(error, "errno", None) in _CUT
            raise ProtocolError(f"{self.other} is {'cut off' if cut else 'gone'}") from None
        finally:
            WAITS_FOR.discard(self.other)
            waiting.cancel()

    def close(self) -> None:
        """End it."""
        self._writer.close()


def keep_alive(writer: asyncio.StreamWriter) -> None:
    """Notice within some ten seconds that the other machine of an idle link cannot be reached."""
    link = writer.get_extra_info("socket")
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _ALIVE.items():
        if hasattr(socket, name):
            link.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _is_cut(writer: asyncio.StreamWriter) -> bool:
    """Whether what was sent is repeated in vain; False where the system does not tell, and of a
    link that was given up just now, as its reader says."""
    link = writer.get_extra_info("socket")
    if link is None or not hasattr(socket, "TCP_INFO"):
        return False
    info = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)
    return info[2] >= _REPEATS  # tcpi_retransmits


def server_tls(tls: Mapping[str, str] | None) -> ssl.SSLContext | None:
    """Of who listens; None without TLS. tls: paths "certificate", "key" and "authority"."""
    if not tls:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=tls["authority"])
    context.load_cert_chain(tls["certificate"], tls["key"])
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_tls(tls: Mapping[str, str] | None) -> ssl.SSLContext | None:
    """Of who connects; both ends show a certificate of the authority, and that of who listens names
    the address that was called. Who is who beyond that the HMAC's keys say."""
    if not tls:
        return None
    context = ssl.create_default_context(cafile=tls["authority"])
    context.load_cert_chain(tls["certificate"], tls["key"])
    return context
