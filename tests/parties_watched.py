"""Sessions of which some programs are watched, hang, or spoil a frame of theirs.

`watched` gives a session whose programs named there are this module, with more in what they read:

    notes: a file that gets a line of JSON for every frame that is received, as it comes, and at the
        end one of what was sent: end of the link -> SHA-256 of all its bytes
    sends: a file that gets every byte that is sent
    hangs: [name of a function, at which call], of the party's module or the shuffler's
    keeps: a file that gets what a party received of every piece, as `read_kept` has it
    forgets: [name of a function, field of a round]: the function takes that of the first round
    spoils: {"kind": of frames, "number": of the round, "how": a key of `SPOILED`}, the first such
"""

import hashlib
import hmac
import json
import os
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from graphdp.parties import frames, party, process, shuffler
from graphdp.parties.frames import HEADER, MAC_BYTES, Link, pack
from graphdp.parties.session import Session
from graphdp.parties.shares import Round


def watched(programs, *arguments, **changes):
    """A `Session`; programs: name -> what it reads besides."""

    class Watched(Session):
        def _program(self, name):
            return "parties_watched" if name in programs else super()._program(name)

        async def _launch(self, name, spec):
            return await super()._launch(name, spec | programs.get(name, {}))

    own, there = str(Path(__file__).parent), os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if programs and own not in there:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [*there, own]))
    return Watched(*arguments, **changes)


def received(path):
    """Round -> kinds of the frames that were received of it, in order."""
    found = {}
    for line in map(json.loads, path.read_text().splitlines()):
        if "kind" in line:
            found.setdefault(line["number"], []).append(line["kind"])
    return found


def digests(path):
    """End of a link -> SHA-256 of what was sent to it."""
    (found,) = [one["sent"] for one in map(json.loads, path.read_text().splitlines())
                if "sent" in one]  # fmt: skip
    return found


def read_kept(path):
    """[(piece's stream, round, first column), keys of shares, (R,), values, uint64 (R, C)]."""
    kept = np.load(path)
    named = zip(kept["stream"], kept["number"], kept["start"], strict=True)
    return [((str(stream), int(number), int(start)), kept[f"keys {i}"], kept[f"values {i}"])
            for i, (stream, number, start) in enumerate(named)]  # fmt: skip


def forgetful(function, field):
    """A function that takes a field of its round, or of the name that it is given, from the first
    round of the first stream: what is to be fresh is drawn again."""
    first = {"stream": "features", "number": 0, "start": 0}
    place = list(first).index(field) - len(first)

    def without(argument):
        if isinstance(argument, Round):
            return replace(argument, **{field: first[field]})
        if isinstance(argument, tuple):  # the name of a stream ends with the three
            name = list(argument)
            name[place] = first[field]
            return tuple(name)
        return argument

    return lambda *arguments: function(*map(without, arguments))


def keep(module, file):
    """Write down what a party receives; returns what saves it."""
    ask, get, pieces, found = module._keys, module.values_of, [], {}

    async def keys(*arguments):
        found["due"] = await ask(*arguments)
        return found["due"]

    async def values(link, piece, rows, kind):
        given = await get(link, piece, rows, kind)
        found[f"keys {len(pieces)}"], found[f"values {len(pieces)}"] = found["due"], given
        pieces.append(piece)
        return given

    def save():
        names = {name: [getattr(one, name) for one in pieces]
                 for name in ("stream", "number", "start")}  # fmt: skip
        np.savez(file, **found, **names)

    module._keys, module.values_of = keys, values
    return save


def _of_ring(frame, key, place):
    """A frame of numbers with one more bit, or fraction bit, and a right HMAC."""
    head = list(HEADER.unpack(frame[: HEADER.size]))
    head[place] += 1
    whole = HEADER.pack(*head) + frame[HEADER.size : -MAC_BYTES]
    return whole + hmac.digest(key, whole, "sha256")


def _again(frame, key, **changes):
    """A frame with other fields and a right HMAC."""
    head = HEADER.unpack(frame[: HEADER.size])
    names = ("kind", "stream", "last", "study", "number", "place", "rows", "columns")
    fields = dict(zip(names, (head[1], *head[4:11]), strict=True))
    return pack(key, body=frame[HEADER.size : -MAC_BYTES], **(fields | changes))


def _number(frame, step):
    return HEADER.unpack(frame[: HEADER.size])[7] + step


def _rows(frame):
    return HEADER.unpack(frame[: HEADER.size])[9]


SPOILED = {
    "a bit": lambda f, key: f[: HEADER.size] + bytes([f[HEADER.size] ^ 4]) + f[HEADER.size + 1 :],
    "its HMAC": lambda f, key: f[:-1] + bytes([f[-1] ^ 1]),
    "sent twice": lambda f, key: f + f,
    "round": lambda f, key: _again(f, key, number=_number(f, 1)),
    "rows": lambda f, key: _again(f, key, rows=_rows(f) - 1),
    "columns": lambda f, key: _again(f, key, columns=3),
    "study": lambda f, key: _again(f, key, study=b"s" * 16),
    "stream": lambda f, key: _again(f, key, stream=1),
    "bits": lambda f, key: _of_ring(f, key, 2),
    "fraction bits": lambda f, key: _of_ring(f, key, 3),
}  # fmt: skip


class Watching:
    """What a link writes to: it passes all on, but for a frame that is spoiled. sends: a file that
    gets it as well."""

    def __init__(self, writer, key, spoils=None, sends=None):
        self._writer, self._key, self._spoils, self._sends = writer, key, spoils, sends
        self.digest = hashlib.sha256()

    def __getattr__(self, name):
        return getattr(self._writer, name)

    def write(self, data):
        kind, number = HEADER.unpack(data[: HEADER.size])[1], _number(data, 0)
        due = self._spoils or {}
        if due and (frames.KINDS[kind], number) == (due["kind"], due["number"]):
            data, self._spoils = SPOILED[due["how"]](data, self._key), None
        self.digest.update(data)
        if self._sends:
            self._sends.write(data)
        self._writer.write(data)


def watch(links, note, spoils=None, to=None, sends=None):
    """Watch all links of this process from now on; links: gets other end -> `Watching`. note: gets
    (kind, round, from whom) of every frame that is received. to: whose frames are spoiled. sends:
    a file that gets all that is sent over any of them."""
    begin, receive = Link.__init__, Link.receive

    def started(self, reader, writer, secret, own, other, *more):
        begin(self, reader, writer, secret, own, other, *more)
        spoiled = spoils if to in (None, other) else None
        self._writer = links[other] = Watching(writer, self._send_key, spoiled, sends)

    async def noted(self, kind, **due):
        found = await receive(self, kind, **due)
        note(frames.KINDS[kind], due.get("number", 0), self.other)
        return found

    Link.__init__, Link.receive = started, noted


async def work(spec):
    """As the program that it stands for."""
    module = party if "party" in spec else shuffler
    links, spoils = {}, spec.get("spoils")
    with open(spec.get("notes", os.devnull), "w") as file, \
         open(spec.get("sends", os.devnull), "wb") as sends:  # fmt: skip

        def note(kind, number, other):
            print(json.dumps({"kind": kind, "number": number, "from": other}), file=file,
                  flush=True)  # fmt: skip

        watch(links, note, spoils, spec.get("to"), sends)
        if "hangs" in spec:
            name, call = spec["hangs"]
            real, calls = getattr(module, name), Counter()

            def hanging(*arguments):
                calls[name] += 1
                if calls[name] == call:
                    time.sleep(3600)
                return real(*arguments)

            setattr(module, name, hanging)
        if "forgets" in spec:
            name, field = spec["forgets"]
            setattr(module, name, forgetful(getattr(module, name), field))
        save = keep(module, spec["keeps"]) if "keeps" in spec else None
        await module.work(spec)
        if save:
            save()
        sent = {name: link.digest.hexdigest() for name, link in links.items()}
        print(json.dumps({"sent": sent}), file=file)


if __name__ == "__main__":
    sys.exit(process.run(work))
