"""Frames of the parties' links: what is due is read, and all else refused."""

import asyncio
import socket

import pytest

from graphdp.parties import frames
from graphdp.parties.frames import PAIRS, Link, ProtocolError, pack

STUDY, SECRET = b"s" * 16, "secret"
KEY = frames.link_key(SECRET, "shuffler", "party 0")


class Writer:
    """What a link writes to, kept."""

    def __init__(self):
        self.data = b""

    def write(self, data):
        self.data += data

    async def drain(self):
        return None

    def get_extra_info(self, name):
        assert name == "socket"
        return socket.socket()  # which repeats nothing


def reading(data, **due):
    """What a party's link makes of bytes from the shuffler."""

    async def read():
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        link = Link(reader, Writer(), SECRET, "party 0", "shuffler", STUDY, 1.0)
        found = [await link.receive(PAIRS, **({"number": 2, "columns": 1, "row_bytes": 8} | due))]
        if len(data) > len(frame()):
            found.append(await link.receive(PAIRS, number=2, columns=1, row_bytes=8))
        return found

    return asyncio.run(read())


def frame(place=0, **changes):
    fields = {"key": KEY, "study": STUDY, "kind": PAIRS, "stream": 0, "number": 2, "place": place,
              "rows": 2, "columns": 1, "body": b"b" * 16}  # fmt: skip
    return pack(**(fields | changes))


def test_nothing_is_read_of_a_greeting_with_a_body():
    """Whoever connects may send one: 64 MiB before its HMAC is looked at would be too many."""
    greeting = frame(kind=frames.HELLO, number=0, rows=0, columns=0, body=b"b" * 16)

    async def greet(data):
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        link = Link(reader, Writer(), SECRET, "party 0", "shuffler", STUDY, 1.0)
        return await link.receive(frames.HELLO)

    with pytest.raises(ProtocolError, match="no frame of this protocol"):
        asyncio.run(greet(greeting))
    without = frame(kind=frames.HELLO, number=0, rows=0, columns=0, body=b"")
    assert asyncio.run(greet(without)) == (b"", 0, True)


def test_frames_that_are_due_are_read():
    assert reading(frame() + frame(1, last=False)) == [(b"b" * 16, 2, True), (b"b" * 16, 2, False)]


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (frame()[:-1] + b"x", "wrong HMAC"),
        (frame(key=b"k" * 32), "wrong HMAC"),
        (frame(key=frames.link_key(SECRET, "party 0", "shuffler")), "wrong HMAC"),
        (frame()[:70] + b"c" + frame()[71:], "wrong HMAC"),
        (frame() + frame(), "sent frame 0 twice"),
        (frame(1), "pairs 1 of stream 0, round 3; pairs 0 of stream 0, round 3 is due"),
        (frame(number=1), "round 2; pairs 0 of stream 0, round 3 is due"),
        (frame(stream=1), "of stream 1"),
        (frame(kind=frames.SUMS), "sent sums"),
        (frame(columns=2), "2 rows of 2 columns"),
        (frame(rows=3), "3 rows of 1 columns"),
        (frame(study=b"t" * 16), "another study"),
        (b"HTTP" + frame()[4:], "no frame of this protocol"),
        (frame()[:40], "shuffler is gone"),
        (b"", "shuffler is gone"),
    ],
)
def test_frames_that_are_not_due_are_refused(sent, message):
    with pytest.raises(ProtocolError, match=message):
        reading(sent)


def test_numbers_of_another_ring_are_refused(monkeypatch):
    monkeypatch.setattr(frames, "RING_BITS", 32)
    sent = frame()
    monkeypatch.undo()
    with pytest.raises(ProtocolError, match="numbers of 32 bits"):
        reading(sent)


def test_a_frame_that_is_too_long_is_refused_before_it_is_read():
    head = frames.HEADER.pack(
        frames.MAGIC, PAIRS, 64, 24, 0, 1, STUDY, 2, 0, 2, 1, frames.MOST_BYTES + 1
    )
    with pytest.raises(ProtocolError, match="no frame of this protocol"):
        reading(head)


def test_who_sends_nothing_is_named():
    async def read():
        link = Link(asyncio.StreamReader(), Writer(), SECRET, "party 0", "shuffler", STUDY, 0.05)
        await link.receive(PAIRS)

    with pytest.raises(ProtocolError, match=r"shuffler sent nothing for 0\.05 s; pairs is due$"):
        asyncio.run(read())


def test_a_link_that_was_given_up_while_it_is_waited_for_is_gone():
    """An encrypted one then has no socket any more."""

    class Lost(Writer):
        def get_extra_info(self, name):
            return None

    async def read():
        reader = asyncio.StreamReader()
        link = Link(reader, Lost(), SECRET, "party 0", "shuffler", STUDY, 20.0)
        lost = TimeoutError(110, "Connection timed out")
        asyncio.get_running_loop().call_later(1.5, reader.set_exception, lost)
        await link.receive(PAIRS)

    with pytest.raises(ProtocolError, match="shuffler is cut off"):
        asyncio.run(read())
