"""What hides a party's sums: a secret of every two parties, which nobody else is told, sees on a
link, or can compute.

The session deals it: the hash of 256 fresh bits, which it keeps, and of both names. Of real
processes are looked at: what each is told, its command line and environment, every byte that goes
over a link, and the sums that the server gets, at keys without a pair, where a party's message is
its mask and its noise. (A uniform number modulo 2⁶⁴ is below 2⁴⁰ in size with chance 2⁻²³, three at
once with 2⁻⁶⁹; some thousand are looked at. Noise is below 2²⁹ but for a chance of 1e-50.)
"""

import hashlib
import io
import json
import random
import re
import secrets
from itertools import combinations
from unittest.mock import patch

import numpy as np
import psutil
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from graphdp.parties import session
from graphdp.parties.fixed_point import encode
from graphdp.parties.frames import Link
from graphdp.parties.shares import Round
from parties_watched import watch, watched

USERS, PARTIES = 40, 3
COLUMNS = 3
ROUNDS = [Round("features", 0, COLUMNS, 2.0), Round("labels", 0, COLUMNS, 2.0)]
SENDERS = np.arange(0, USERS, 2)
KEYS = np.arange(0, USERS, 2)
ENDS = ["shuffler", *(f"party {party}" for party in range(PARTIES))]
PAIRS = list(combinations(range(PARTIES), 2))


class Seen:
    """What is seen of a session by whom. told: program -> what it is told. started: program -> its
    command line and environment. links: the bytes of all links. sums: round -> party -> what it
    sent to the server. secret: of all of the session's secrets."""

    def __init__(self, folder, **changes):
        self.told, self.started, self.sums = {}, {}, {}
        programs = {name: {"sends": str(folder / name)} for name in ENDS}
        start, get, own = session.Programs.start, session.values_of, io.BytesIO()

        async def started(programs, name, module, spec):
            self.told[name] = spec
            return await start(programs, name, module, spec)

        async def kept(link, piece, rows, kind):
            values = await get(link, piece, rows, kind)
            self.sums.setdefault(piece, {})[int(link.other.split()[1])] = values
            return values

        begin, receive = Link.__init__, Link.receive
        try:
            watch({}, lambda *_: None, sends=own)
            with patch.object(session.Programs, "start", started), \
                 patch.object(session, "values_of", kept):  # fmt: skip
                one = watched(
                    programs, SENDERS, KEYS, USERS, PARTIES, 2, ("secrets",), ROUNDS, **changes
                )
                self.secret = one._secret
                with one:
                    for name, number in one.processes.items():
                        program = psutil.Process(number)
                        self.started[name] = str((program.cmdline(), program.environ()))
                    for due in ROUNDS:
                        one.add_up(due, encode(np.zeros((USERS, COLUMNS))))
        finally:
            Link.__init__, Link.receive = begin, receive
        sent = [(folder / name).read_bytes() for name in ENDS]
        assert all(sent) and own.getvalue()
        self.links = b"".join([*sent, own.getvalue()])

    def seed(self, one, other):
        """What one party is told that it shares with another."""
        return self.told[f"party {one}"]["seeds"][other]

    def knows(self):
        """Every word of 64 hexadecimal digits that any program is told -> who is told it."""
        found = {}
        for name, spec in self.told.items():
            for word in re.findall(r"\b[0-9a-f]{64}\b", json.dumps(spec)):
                found.setdefault(word, set()).add(name)
        return found


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    return Seen(tmp_path_factory.mktemp("secrets"))


def by_hand(seed, piece):
    """The numbers that two parties draw of their secret for a piece: AES-256 in counter mode, the
    key a SHA-256 of the secret and the piece."""
    name = json.dumps([seed, "mask", piece.stream, piece.number, piece.start])
    cipher = Cipher(algorithms.AES(hashlib.sha256(name.encode()).digest()), modes.CTR(bytes(16)))
    words = cipher.encryptor().update(bytes(8 * USERS * COLUMNS))
    return np.frombuffer(words, np.uint64).reshape(USERS, COLUMNS)


def test_no_third_is_told_the_secret_of_two_parties(seen):
    knows = seen.knows()
    assert seen.secret not in knows
    for one, other in PAIRS:
        assert seen.seed(one, other) == seen.seed(other, one)
        assert knows[seen.seed(one, other)] == {f"party {one}", f"party {other}"}
    assert len({seen.seed(*pair) for pair in PAIRS}) == len(PAIRS)


def test_the_secret_of_two_parties_is_a_hash_of_fresh_bits_that_nobody_is_told(seen):
    """And of nothing else but their names: not of the study, say, which all are told."""
    for one, other in PAIRS:
        name = json.dumps([seen.secret, "ends", f"party {one}", f"party {other}"])
        assert seen.seed(one, other) == hashlib.sha256(name.encode()).hexdigest()


def test_fresh_bits_are_the_system_s():
    """256 of them, whatever generators of this process have been seeded with."""
    drawn, token_hex = [], secrets.token_hex

    def kept(size):
        drawn.append(token_hex(size))
        return drawn[-1]

    found = []
    with patch.object(secrets, "token_hex", kept):
        for _ in range(2):
            random.seed(0)
            np.random.seed(0)  # noqa: NPY002
            one = session.Session(SENDERS, KEYS, USERS, PARTIES, 2, ("secrets",), ROUNDS)
            found.append(one._secret)
    assert found == drawn and found[0] != found[1]
    assert all(re.fullmatch("[0-9a-f]{64}", one) for one in found)


@pytest.mark.slow
def test_two_sessions_with_the_same_arguments_share_no_secret(seen, tmp_path):
    """But for what names the noise, which a rerun repeats."""
    again = Seen(tmp_path)
    noise = {spec["noise"] for name, spec in seen.told.items() if name != "shuffler"}
    source = {seen.told["shuffler"]["source"]}
    same = set(seen.knows()) & set(again.knows())
    assert len(noise) == PARTIES and same <= noise | source and noise <= same
    for piece, sums in seen.sums.items():
        for party, values in sums.items():
            assert (values != again.sums[piece][party]).all(1).all()


def test_no_secret_is_seen_on_a_link_a_command_line_or_in_an_environment(seen):
    """As digits or as the bytes that they stand for, nor half of one."""
    knows = set(seen.knows()) - {seen.told["shuffler"]["source"]} | {seen.secret}
    assert len(knows) > 15 and set(seen.started) == set(ENDS)
    for word in knows:
        for half in (word[:32], word[32:]):
            assert half.encode() not in seen.links and bytes.fromhex(half) not in seen.links
            assert not [name for name, words in seen.started.items() if half in words]
    # What does go over links is found there.
    assert hashlib.sha256(seen.told["shuffler"]["study"].encode()).digest()[:16] in seen.links


def test_masks_are_drawn_of_the_secrets_of_two_parties_and_of_nothing_else(seen):
    """A party's message is its noise once both of its masks are taken away, and uniform while one
    is left: who colludes and knows the other one, or the server alone, sees no noise."""
    without = ~np.isin(np.arange(USERS), KEYS)

    def small(values):
        return (np.abs(values.view(np.int64)) < 2**40).all(1)[without]

    assert len(seen.sums) == len(ROUNDS) and all(len(one) == PARTIES for one in seen.sums.values())
    for piece, sums in seen.sums.items():
        for party, values in sums.items():
            masks = {}
            for other in set(range(PARTIES)) - {party}:
                drawn = by_hand(seen.seed(party, other), piece)
                masks[other] = drawn if party < other else -drawn
            assert not small(values).any()
            for one in masks.values():
                assert not small(values - one).any()
            assert small(values - sum(masks.values())).all()
