"""Sums by key of several parties as they are run: shares, noise, frames, processes, failures."""

import asyncio
import datetime
import os
import signal
import ssl
import subprocess
import sys
import time
from ipaddress import ip_address

import numpy as np
import pytest
from scipy import stats

from graphdp.errors import GraphDPError
from graphdp.noise import GridNoise
from graphdp.parties import frames, memory, party, ring, shares, shuffler
from graphdp.parties import session as session_module
from graphdp.parties.fixed_point import decode, dummies, encode, party_noise, project
from graphdp.parties.frames import Link
from graphdp.parties.memory import InMemory
from graphdp.parties.session import Session
from graphdp.parties.shares import Round, link_bytes, mask, split_rows, sum_by_key, uniform
from graphdp.parties.waiting import PATIENCE, most_told, seconds_of_work
from graphdp.privacy import pair_sums
from graphdp.privacy.mechanisms.distributed_gaussian import party_std
from graphdp.words import Words, normals
from parties_watched import digests, received, watch, watched
from test_parties_frames import SECRET, STUDY, Writer

USERS, PAIRS_SENT, COLUMNS = 40, 120, 150  # three pieces
NOISE = ("noise", 7)
ROUNDS = [Round("features", 0, COLUMNS, 2.0), Round("features", 1, COLUMNS, 1.5),
          Round("labels", 0, 3, 4.0)]  # fmt: skip
#: Chance that a test of randomness fails though nothing is wrong.
FAILS = 1e-9


def pairs(seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(USERS, size=PAIRS_SENT), rng.integers(USERS, size=PAIRS_SENT)


def rows_of(one, seed=0):
    rng = np.random.default_rng((seed, one.number, one.columns))
    return encode(project(rng.normal(size=(USERS, one.columns))), one.step_bits)


def session(programs=None, **changes):
    """programs: those that are watched (`parties_watched`)."""
    return watched(programs or {}, *pairs(), USERS, 3, 2, NOISE, ROUNDS, **changes)


# --- shares and masks -----------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3, 5])
def test_shares_add_up(count):
    rows = rows_of(ROUNDS[0])
    found = split_rows(rows, count, ("s", count))
    assert (found.sum(0, dtype=np.uint64).view(np.int64) == rows).all()


@pytest.mark.parametrize("row", [0, 1, -(2**24), 2**24])
def test_all_shares_but_one_are_uniform_whatever_the_row(row):
    """Every byte of each share, and the low nibbles of two of three shares together."""
    rows = np.full((20_000, 1), row, np.int64)
    found = split_rows(rows, 3, ("uniform", row))[:, :, 0]
    for share in found:
        counts = [
            np.bincount(column, minlength=256) for column in share.view(np.uint8).reshape(-1, 8).T
        ]
        assert min(stats.chisquare(c).pvalue for c in counts) > FAILS / 8
    for one, other in ((0, 1), (0, 2), (1, 2)):
        cells = (found[one] & np.uint64(15)) * np.uint64(16) + (found[other] & np.uint64(15))
        assert stats.chisquare(np.bincount(cells.astype(int), minlength=256)).pvalue > FAILS


@pytest.mark.parametrize("program", ["party", "shuffler"])
def test_a_process_starts_with_little(program):
    """What is imported and hashed at every start is most of what a short session takes."""
    code = f"import sys, graphdp.parties.{program}; print(*sys.modules)"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(made.stdout.split())
    assert not loaded & {"torch", "scipy", "pandas", "pydantic"}
    assert not [name for name in loaded if name.startswith(("graphdp.privacy", "graphdp.methods"))]


def test_masks_add_up_to_zero_and_every_round_has_its_own():
    parties = 4
    seeds = {frozenset((p, q)): f"{p} {q}" for p in range(parties) for q in range(p)}

    def masks(stream, number, start=0):
        one = Round(stream, number, 3, 1.0, start)
        return [
            mask(p, {q: seeds[frozenset((p, q))] for q in range(parties) if q != p}, one, 50)
            for p in range(parties)
        ]

    found = [masks("features", 0), masks("features", 1), masks("labels", 0)]
    found.append(masks("features", 0, 64))
    for one in found:
        assert not sum(one, np.zeros((50, 3), np.uint64)).any()
    for other in found[1:]:
        assert all((a != b).all() for a, b in zip(found[0], other, strict=True))


def test_with_its_mask_a_party_without_a_pair_sends_nothing_but_uniform_numbers():
    """Without it the server would see the party's noise, and t - t_c parties' would be left."""
    noise = party_noise(("n",), (40_000, 1), 2.0).view(np.uint64)
    sent = noise + mask(0, {1: "a", 2: "b"}, Round("features", 0, 1, 2.0), len(noise))
    high = (sent[:, 0] >> np.uint64(56)).astype(int)
    assert stats.chisquare(np.bincount(high, minlength=256)).pvalue > FAILS
    assert len(np.unique(noise >> np.uint64(56))) <= 2  # the noise alone is far from that


def test_sums_by_key_are_exact_modulo_the_ring():
    values, keys = uniform(("v",), (500, 2)), np.random.default_rng(0).integers(9, size=500)
    expected = np.zeros((11, 2), np.uint64)
    np.add.at(expected, keys, values)
    assert (sum_by_key(keys, values, 11) == expected).all()
    assert not sum_by_key(keys[:0], values[:0], 4).any()


def test_every_pair_goes_to_different_parties_each_as_often():
    chosen = shares.choose_parties(30_000, 3, 2, ("c",))
    assert (chosen[:, 0] != chosen[:, 1]).all()
    counts = np.bincount(chosen[:, 0] * 3 + chosen[:, 1], minlength=9)[[1, 2, 3, 5, 6, 7]]
    assert stats.chisquare(counts).pvalue > FAILS


# --- fixed point ----------------------------------------------------------------------------------


def test_rows_are_cut_towards_zero_and_never_grow():
    rows = project(np.random.default_rng(0).normal(size=(2000, 7)) * 3)
    assert ((rows**2).sum(1) < 1 + 1e-15).all()
    found = encode(rows)
    assert ((found**2).sum(1) <= 2**48).all()
    assert (np.abs(decode(found)) <= np.abs(rows)).all()
    assert np.abs(decode(found) - rows).max() < 2**-24
    corners = np.array([[1.0, 0], [-1, 0], [0.6, 0.8], [0, 0]])
    assert encode(corners)[:2].tolist() == [[2**24, 0], [-(2**24), 0]]


@pytest.mark.parametrize("shape", [(3000, 70), (1, 3), (2, 70_000)])
def test_whole_numbers_in_the_memory_of_the_rows_are_those_in_new_memory(shape):
    """Of several parts, and of rows that are longer than a part."""
    rows = project(np.random.default_rng(0).normal(size=shape))
    fresh, room = encode(rows, 5), rows.copy()
    found = encode(room, 5, out=room.view(np.int64))
    assert np.shares_memory(found, room) and (found == fresh).all() and fresh.any()
    assert (decode(found, out=room) == fresh * 2.0**-24).all()


@pytest.mark.parametrize("exact", [1 << 29, 0])
def test_sums_in_one_process_are_those_of_a_loop_over_pairs(monkeypatch, exact):
    """Of the largest rows there are, to the last of 24 bits, whichever numbers add them up."""
    monkeypatch.setattr(memory, "_EXACT", exact)
    rng = np.random.default_rng(2)
    rows = rng.choice([-(2**24), 2**24, 2**24 - 1, 1], size=(USERS, COLUMNS))
    expected = np.zeros_like(rows)
    for sender, receiver in zip(*pairs(), strict=True):
        expected[receiver] += rows[sender]
    found = InMemory(*pairs(), USERS, 0, NOISE).add_up(ROUNDS[0], rows)
    assert (found == expected).all()


@pytest.mark.parametrize("row", [[1.001, 0.0], [0.8, 0.8], [1e30, 0.0], [np.nan, 0.0]])
def test_rows_outside_of_the_ball_are_refused(row):
    with pytest.raises(GraphDPError, match=r"norm above 1|not finite"):
        encode(np.array([[0.1, 0.1], row]))


def test_normals_are_those_of_the_project_s_noise():
    theirs = GridNoise([("same",)])._normals(5000).numpy()[0]
    ours = normals(Words("same"), 5000)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=2**-45)


@pytest.mark.parametrize("std", [10.0, 3000.0, 1.7 * 2.0**29])
def test_a_party_s_noise_has_the_law_that_is_accounted(std):
    """Kolmogorov and Smirnov against the Gaussian, in steps that are whole; the last bits of these,
    which a rounding might have turned to one side, against uniform."""
    found = party_noise(("law", std), (60_000, 1), std * 2.0**-24)[:, 0]
    steps, left = np.divmod(found, 2 ** ring.step_bits(std))
    assert not left.any()
    std /= 2 ** ring.step_bits(std)
    dithered = steps + np.random.default_rng(0).uniform(-0.5, 0.5, steps.size)
    assert stats.kstest(dithered / np.hypot(std, 12**-0.5), "norm").pvalue > FAILS
    if std > 2**10:
        assert stats.chisquare(np.bincount(steps & 255, minlength=256)).pvalue > FAILS


@pytest.mark.parametrize("std", [1e-4, 0.02, 14.6])
def test_what_is_released_is_on_the_steps_of_the_noise(std):
    """Of a sum whose last bits no noise covers the bits would tell of the rows."""
    one = Round("features", 0, 70, std)
    rows = rows_of(one)
    assert np.abs(decode(rows) - decode(encode(decode(rows)))).max() == 0
    found = InMemory(*pairs(), USERS, 3, NOISE).add_up(one, rows.copy())
    assert not (found % 2**one.step_bits).any() and (found % 2 ** (one.step_bits + 1)).any()
    assert (one.step_bits > 0) == (std > 0.01) and 2.0 ** (one.step_bits - 24) < max(std, 8) / 2**14


def test_noise_is_of_the_party_the_stream_and_the_round():
    secrets = [shares.noise_secret(NOISE, party) for party in range(3)]
    names = [shares.noise_name(secret, one) for secret in secrets for one in ROUNDS]
    names += [shares.noise_name(secrets[0], piece) for piece in ROUNDS[0].pieces[1:]]
    assert len(set(names)) == 11
    drawn = [party_noise(name, (50, 3), 1.0) for name in names]
    assert all((drawn[0] != other).any() for other in drawn[1:])
    assert (drawn[0] == party_noise(names[0], (50, 3), 1.0)).all()


def test_a_colluder_without_its_noise_still_faces_what_is_accounted():
    """Within six standard errors: wrong once in 1e-8 runs."""
    std = 2.0
    one = Round("features", 0, shares.PIECE_COLUMNS, party_std(std, 3, 1))
    rows = rows_of(one)
    found, exact = (InMemory(*pairs(), USERS, m, NOISE).add_up(one, rows.copy()) for m in (3, 0))
    name = shares.noise_name(shares.noise_secret(NOISE, 1), one)
    left = decode(found - exact - party_noise(name, rows.shape, one.party_std))
    assert abs(left.var() / std**2 - 1) < 6 * np.sqrt(2 / left.size)


def test_dummies_have_the_mean_and_deviation_that_are_accounted():
    """Within six standard errors: wrong once in 1e-8 runs."""
    std, count = 5.0, 40_000
    mean = pair_sums.mean_dummies(std, 3, 1)
    own = std / np.sqrt(2)
    found = dummies(("d",), count, mean, own)
    assert found.min() > 0 and mean >= 9 * own
    assert abs(found.mean() - mean) < 6 * own / np.sqrt(count)
    assert abs(found.var() / (own**2 + 1 / 12) - 1) < 6 * np.sqrt(2 / count)


# --- processes ------------------------------------------------------------------------------------


def released(transport):
    with transport as rounds:
        return [rounds.add_up(one, rows_of(one)) for one in ROUNDS]


def expected_bytes(dummies_sent=0):
    total = {}
    for one in ROUNDS:
        of = link_bytes(PAIRS_SENT, dummies_sent, USERS, one.columns, 3, 2)
        total = {link: total.get(link, 0) + size for link, size in of.items()}
    return total


def test_processes_release_what_one_process_does_bit_for_bit():
    over_tcp = session()
    found = released(over_tcp)
    in_memory = released(InMemory(*pairs(), USERS, 3, NOISE))
    assert all((a == b).all() for a, b in zip(found, in_memory, strict=True))
    assert over_tcp.traffic == expected_bytes()
    exact = released(InMemory(*pairs(), USERS, 0, NOISE))
    spread = np.concatenate([decode(a - b).ravel() / one.party_std for a, b, one in
                             zip(found, exact, ROUNDS, strict=True)])  # fmt: skip
    # 12,120 normals of variance 3: within six standard errors (wrong once in 1e-8 runs).
    assert abs(spread.var() / 3 - 1) < 6 * np.sqrt(2 / spread.size)


def test_dummies_change_no_sum_and_are_counted():
    with_zeros = session(count_std=1.0, mean_dummies=3)
    found = released(with_zeros)
    in_memory = released(InMemory(*pairs(), USERS, 3, NOISE))
    assert all((a == b).all() for a, b in zip(found, in_memory, strict=True))
    secrets = [shares.noise_secret(NOISE, party) for party in range(3)]
    drawn = [dummies((secret, "dummies"), USERS, 3, 1.0) for secret in secrets]
    assert with_zeros.traffic == expected_bytes(int(np.sum(drawn)))
    # In one process they are the same, and where there are none only pairs are counted.
    sent = np.bincount(pairs()[1], minlength=USERS)
    counted = InMemory(*pairs(), USERS, 3, NOISE, count_std=1.0, mean_dummies=3)
    assert (counted.counts == sent + np.sum(drawn, axis=0)).all()
    assert (InMemory(*pairs(), USERS, 3, NOISE).counts == sent).all()
    assert all((a == b).all() for a, b in zip(released(counted), in_memory, strict=True))


def test_a_round_that_is_sent_again_has_the_same_bytes():
    sent = []
    for _ in range(2):
        again, writer = session(secret="one"), Writer()
        again._users = Link(None, writer, SECRET, "users", "shuffler", STUDY, 1.0)
        asyncio.run(again._announce(ROUNDS[1]))
        for piece in ROUNDS[1].pieces:
            asyncio.run(again._send(piece, rows_of(ROUNDS[1])))
        sent.append(writer.data)
    assert sent[0] == sent[1] and len(sent[0]) > PAIRS_SENT * 2 * COLUMNS * 8
    other = session()
    other._users = Link(None, writer, SECRET, "users", "shuffler", STUDY, 1.0)
    assert other._secret != session()._secret  # fresh where none is given


@pytest.mark.slow
def test_who_gives_a_secret_once_more_gets_the_same_bytes_on_every_link(tmp_path, monkeypatch):
    """Users, parties and shuffler, study, order, choices and masks included."""
    monkeypatch.setattr(Link, "__init__", Link.__init__)  # put back at the end, as the other
    monkeypatch.setattr(Link, "receive", Link.receive)
    users, names, sent = {}, ["shuffler", "party 0", "party 1", "party 2"], []
    watch(users, lambda *_: None)
    for number, secret in enumerate(["one", "one", "other"]):
        files = {name: tmp_path / f"{number} {name}" for name in names}
        programs = {name: {"notes": str(file)} for name, file in files.items()}
        released(session(programs, secret=secret, count_std=1.0, mean_dummies=3))
        found = {(name, to): one for name in names for to, one in digests(files[name]).items()}
        sent.append(found | {("users", "shuffler"): users["shuffler"].digest.hexdigest()})
    assert sent[0] == sent[1]
    # Of each party to server and shuffler, of these back, and of the users.
    assert set(sent[0]) == {
        ("users", "shuffler"), ("shuffler", "users"),
        *(("shuffler", name) for name in names[1:]),
        *((name, to) for name in names[1:] for to in ("server", "shuffler")),
    }  # fmt: skip
    differ = {link for link, one in sent[0].items() if one != sent[2][link]}
    assert differ == set(sent[0]) - {("shuffler", "users")}  # to which nothing is sent


def test_the_order_of_shares_is_drawn_anew_for_every_round_and_stream():
    """That of 300 shares agrees in two of them with chance 1/300!."""
    told = [np.zeros(n, [("sender", "u4"), ("party", "u1"), ("key", "u4")]) for n in (200, 100)]
    for number, one in enumerate(told):
        one["party"] = np.arange(len(one)) % 3 if number else 0
    spec = {"secret": "s", "parties": 3}
    rounds = [
        Round("features", 0, 1, 1.0),
        Round("features", 1, 1, 1.0),
        Round("labels", 0, 1, 1.0),
    ]
    orders = [shuffler._order(one, spec, told) for one in rounds]
    for order, counts in orders:
        assert counts == [200, 100]
        assert (np.sort(np.concatenate(order)) == np.arange(300)).all()
        assert set(order[1]) == set(200 + np.arange(100)[np.arange(100) % 3 == 1])
    firsts = [order[0].tolist() for order, _ in orders]
    assert firsts[0] != firsts[1] and firsts[0] != firsts[2] and firsts[1] != firsts[2]
    assert shuffler._order(rounds[0], spec, told)[0][0].tolist() == firsts[0]


def failing(act, message, programs=None, **changes):
    """The seconds that the second of two rounds takes to fail, after `act` on the session."""
    start, begun = session(programs, **changes), []

    def rounds():
        with start:
            start.add_up(ROUNDS[0], rows_of(ROUNDS[0]))
            act(start)
            begun.append(time.monotonic())
            start.add_up(ROUNDS[1], rows_of(ROUNDS[1]))

    with pytest.raises(GraphDPError, match=message):
        rounds()
    for number in start.processes.values():
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)
    return time.monotonic() - begun[0]


def test_a_party_that_dies_ends_the_session_at_once():
    def kill(rounds):
        os.kill(rounds.processes["party 1"], signal.SIGKILL)

    assert failing(kill, r"round 2 of features: .*party 1 died", timeout=60.0) < 10


def test_who_is_cut_off_is_whom_most_say_that_of():
    """And not those of whom the one that is cut off says it."""
    by_shuffler, by_party = "shuffler, round 2: party 1 is cut off", "party 1, round 2: shuffler is"
    assert most_told([by_shuffler, f"{by_party} cut off"]) == [by_shuffler]
    others = [f"party {p}, round 2: shuffler is cut off" for p in (0, 2)]
    assert most_told(["shuffler, round 2: party 1 is cut off", *others]) == others[:1]
    assert most_told(["shuffler, round 2: users is cut off", others[1]]) == [others[1]]
    assert most_told([]) == []


def test_a_shuffler_that_dies_ends_the_session_at_once():
    def kill(rounds):
        os.kill(rounds.processes["shuffler"], signal.SIGKILL)

    message = r"^round 2 of features: .* is gone; shuffler died \(exit status -9\)$"
    assert failing(kill, message, timeout=60.0) < 10


@pytest.mark.slow
@pytest.mark.parametrize("name", ["party 1", "shuffler"])
def test_who_is_stopped_is_named_long_before_its_links_time_is_up(name):
    """It is asked after 3 s, and has as many to answer."""

    def stop(rounds):
        os.kill(rounds.processes[name], signal.SIGSTOP)

    message = f"^round 2 of features: {name} does not answer$"
    assert 6 <= failing(stop, message, timeout=60.0, patience=3.0) < 20


BY_SHUFFLER = "features: .*shuffler, round 2 .*: party 1 sent nothing for 2"


@pytest.mark.alike
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "function", "call", "message"),
    [
        ("party 1", "sum_by_key", 4, BY_SHUFFLER),
        pytest.param("party 1", "split_rows", 4, BY_SHUFFLER, marks=pytest.mark.slow),
        ("shuffler", "_order", 2, "features: shuffler is late: it is still at work$"),
        ("party 1", "sum_by_key", 7, "labels: party 1 is late: it is still at work$"),
    ],
)
def test_who_hangs_at_its_work_is_named_though_it_answers(name, function, call, message):
    """And not who waits for it: by the shuffler, or by the server if that one is late or done."""
    began, number = time.monotonic(), 1 if "labels" in message else 2
    with pytest.raises(GraphDPError, match=f"^round {number} of {message}"):
        released(session({name: {"hangs": [function, call]}}, timeout=2.0))
    assert time.monotonic() - began < 25


@pytest.mark.slow
def test_a_party_that_is_slow_as_its_work_is_long_is_waited_for():
    """Some 18,000 dummies take far longer than others would wait, going by 0.02 s alone."""
    many = session(timeout=0.02, count_std=1.0, mean_dummies=150)
    began = time.monotonic()
    found = released(many)
    assert time.monotonic() - began > 0.02 * max(PATIENCE.values())
    in_memory = released(InMemory(*pairs(), USERS, 3, NOISE))
    assert all((a == b).all() for a, b in zip(found, in_memory, strict=True))


def told(sent):
    """What every party of a session is told when it starts, ports apart; sent: the pairs."""
    found = {}

    class Told(Session):
        async def _launch(self, name, spec):
            found[name] = {key: one for key, one in spec.items() if key != "addresses"}
            return await super()._launch(name, spec)

    released(
        Told(*sent, USERS, 3, 2, NOISE, ROUNDS, count_std=1.0, mean_dummies=3, secret="the same")
    )
    return {name: one for name, one in found.items() if name.startswith("party")}


@pytest.mark.slow
def test_a_party_is_told_nothing_that_depends_on_the_pairs():
    """Whoever sends how many to whom: what it may know of that is what it receives."""
    senders, keys = pairs()
    whole, without = told((senders, keys)), told((senders[40:], keys[40:]))
    assert whole == without and len(whole) == 3
    public = {"source", "study", "parties", "shares", "num_keys", "rounds", "timeouts", "tls",
              "start_timeout", "listen", "party", "count_std", "mean_dummies"}  # fmt: skip
    drawn = {"secrets", "secret", "seeds", "noise"}  # of the session's secret and the noise's name
    assert all(set(one) == public | drawn for one in whole.values())
    assert whole["party 0"]["timeouts"]["shuffler"] > 5 * 20


@pytest.mark.slow
def test_a_party_that_is_stopped_before_it_connects_is_named(monkeypatch):
    """After a minute, of which its links know nothing; here 12 s, in which the others start."""
    monkeypatch.setattr(session_module, "_BEGUN", 12.0)

    class Stopped(Session):
        async def _launch(self, started, spec):
            process = await super()._launch(started, spec)
            if started == "party 1":
                os.kill(process.pid, signal.SIGSTOP)
            return process

    stopped = Stopped(*pairs(), USERS, 3, 2, NOISE, ROUNDS, patience=4.0)
    began = time.monotonic()
    with pytest.raises(GraphDPError, match=r"^(party 0, )?party 1(, party 2)? does not"), stopped:
        pass
    assert time.monotonic() - began < 40


class _Says:
    """A link from which whole bodies come."""

    other = "shuffler"

    def __init__(self, body):
        self._body = body

    async def receive(self, *_, **__):
        return self._body, 0, True


def test_a_key_or_a_party_that_is_not_there_is_refused():
    keys = np.array([3, USERS], np.uint32).tobytes()
    with pytest.raises(GraphDPError, match=f"shuffler sent key {USERS} of {USERS}"):
        asyncio.run(party._keys(_Says(keys), ROUNDS[0], USERS))
    found = asyncio.run(party._keys(_Says(keys), ROUNDS[0], USERS + 1))
    assert found.tolist() == [3, USERS]
    share = np.array([(0, 3, 0)], party.SHARE).tobytes()
    with pytest.raises(GraphDPError, match="sent to party 3 of 3"):
        asyncio.run(shuffler._shares(_Says(share), ROUNDS[0], {"parties": 3}))


def test_how_long_work_may_take_follows_from_sizes():
    """Bytes of the widest piece, at 5 MB a second; `timeout` comes on top, and is 20 s."""
    sent = link_bytes(PAIRS_SENT, 3 * USERS * 7, USERS, 64, 3, 2)
    work = sum(sent.values()) / 5e6
    assert seconds_of_work(PAIRS_SENT, 3 * USERS * 7, USERS, 64, 3, 2) == work > 0.4
    assert session(count_std=1.0, mean_dummies=7)._timeout == 20 + work
    assert session()._timeout < 20.1
    # Cora's sizes with the dummies of three parties, 42 a key: minutes.
    assert 120 < seconds_of_work(10_556, 341_313, 2_708, 64, 3, 2) < 180


@pytest.mark.slow
def test_parties_hear_nothing_of_a_round_before_all_of_it_is_checked(tmp_path):
    """In which a user is silent, or sent other pairs than it says."""

    def mute(rounds):
        rounds.silent.add(3)

    def more(rounds):
        rounds._said = rounds._said + (np.arange(USERS) == 5)

    for act, message in (
        (mute, r"round 2 of features: .*user 3 is silent \(1 in all\); nothing was forwarded"),
        (more, r"user 5 sent other pairs than it said; nothing was forwarded"),
    ):
        notes = {f"party {p}": {"notes": str(tmp_path / f"{p}")} for p in range(3)}
        failing(act, message, notes)
        for number in range(3):
            assert received(tmp_path / f"{number}") == {0: ["keys", "pairs", "pairs", "pairs"]}


TO_SERVER = ("party 1", "server", "sums", "^round 2 of features: party 1 sent ")
WRONG = "a frame with a wrong HMAC"


@pytest.mark.alike
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "to", "kind", "told", "how", "why"),
    [
        (*TO_SERVER, "a bit", WRONG),
        (*TO_SERVER, "its HMAC", WRONG),
        (*TO_SERVER, "sent twice", "frame 0 twice"),
        (*TO_SERVER, "round", "sums 0 of stream 0, round 3; sums 0 of stream 0, round 2 is due"),
        (*TO_SERVER, "rows", "39 rows of 64 columns in 20480 bytes"),
        (*TO_SERVER, "columns", "40 rows of 3 columns"),
        (*TO_SERVER, "study", "a frame of another study"),
        (*TO_SERVER, "stream", "sums 0 of stream 1, round 2; sums 0 of stream 0, round 2 is due"),
        (*TO_SERVER, "bits", "numbers of 65 bits, 24 of them fractions"),
        (*TO_SERVER, "fraction bits", "numbers of 64 bits, 25 of them fractions"),
        ("party 1", "shuffler", "pairs", "shuffler, round 2 .*: party 1 sent ", "a bit", WRONG),
        ("shuffler", "party 2", "pairs", "party 2, round 2 .*: shuffler sent ", "a bit", WRONG),
        ("shuffler", "party 2", "keys", "party 2, round 2 .*: shuffler sent ", "a bit", WRONG),
    ],
)
def test_a_frame_that_is_spoiled_on_its_way_ends_the_session(name, to, kind, told, how, why):
    spoils = {name: {"spoils": {"kind": kind, "number": 1, "how": how}, "to": to}}
    more = {"count_std": 1.0, "mean_dummies": 3}
    assert failing(lambda _: None, f"{told}{why}", spoils, **more) < 15


def test_a_user_that_falls_silent_within_a_round_ends_it_before_that_piece_is_forwarded():
    def cut(rounds):
        send = rounds._send

        async def less(piece, rows):
            if piece.start:
                rounds._talk = lambda: np.arange(PAIRS_SENT) > 0
            await send(piece, rows)

        rounds._send = less

    failing(cut, r"round 2 of features: .*shuffler, round 2 .*: users sent 238 rows of 240")


def quiet(kind, before, goes_on, kept):
    """What stops the users of a session in its second round, in which they are still connected:
    after so many frames of a kind they send half of the next one's rows, or nothing of a list of
    numbers of pairs, and then no frame of any kind. goes_on: the server waits for sums meanwhile.
    kept: gets the session."""

    def act(rounds):
        send, frames_sent, stopped = rounds._users.send, [], asyncio.Event()
        kept.append(rounds)

        async def less(sent, body, **about):
            if frames_sent.count(kind) <= before:
                frames_sent.append(frames.KINDS[sent])
                if frames_sent.count(kind) <= before:
                    return await send(sent, body, **about)
                if kind != "done":
                    half = about["rows"] // 2
                    part = body[: half * (len(body) // about["rows"])]
                    await send(sent, part, **about | {"rows": half, "last": False})
            if not goes_on:
                await stopped.wait()

        rounds._users.send = less

    return act


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "before", "goes_on"),
    [("keys", 0, False), ("done", 0, False), ("pairs", 1, False), ("done", 0, True)],
)
def test_users_who_send_no_more_end_a_round_before_it_is_forwarded(tmp_path, kind, before, goes_on):
    """Nobody says that they are silent: what is due does not come, on a link that stays open. The
    shuffler's time is up after four times 0.5 s, and says what is due; if the server waits for
    sums meanwhile, its own after two, and the users are named and not the parties. Parties get
    nothing of that round, or piece, and the server no sum of it."""
    kept = []
    notes = {f"party {p}": {"notes": str(tmp_path / f"{p}")} for p in range(3)}
    message = (
        rf"^round 2 of features: .*shuffler, round 2 .*: users sent nothing for 2.*s; {kind} is"
    )
    if goes_on:
        message = "^round 2 of features: users are late: the shuffler waits for what they send$"
    act = quiet(kind, before, goes_on, kept)
    assert failing(act, message, notes, timeout=0.5) < 30
    for number in range(3):
        of_rounds = received(tmp_path / f"{number}")
        assert of_rounds.pop(0) == ["keys", "pairs", "pairs", "pairs"]
        assert of_rounds == ({1: ["keys", "pairs"]} if kind == "pairs" else {})
    columns = COLUMNS + before * shares.PIECE_COLUMNS
    for link in kept[0]._links.values():
        assert link.received["sums"] == USERS * columns * 8


def test_rounds_that_are_not_due_are_refused():
    with pytest.raises(GraphDPError, match="round 1 of labels is not due"), session() as rounds:
        rounds.add_up(ROUNDS[2], rows_of(ROUNDS[2]))


def test_links_may_be_encrypted(tmp_path):
    tls = certificate(tmp_path)
    found = released(session(tls=tls))
    in_memory = released(InMemory(*pairs(), USERS, 3, NOISE))
    assert all((a == b).all() for a, b in zip(found, in_memory, strict=True))


def greeting(spec, name):
    """What an end sends first: its name, and a frame under the key of its link."""
    key = frames.link_key(spec["secrets"][name], name, "shuffler")
    hello = frames.pack(key, frames.study_hash("s"), frames.HELLO, 0, 0, 0, 0, 0, b"")
    return bytes([len(name)]) + name.encode(), hello


def accepting(tls=None):
    """What a shuffler listens with that waits for party 0 and for another."""
    return {"study": "s", "start_timeout": 20.0, "tls": tls, "listen": ("127.0.0.1", 0),
            "secrets": {"party 0": "secret"}, "timeouts": {"party 0": 5.0}}  # fmt: skip


def test_an_end_that_connects_twice_stays_the_first():
    """Also where the second has said its name before the first one's greeting came."""

    async def both():
        spec, links = accepting(), {}
        listening, _ = await shuffler.accept(spec, "shuffler", ["party 0", "party 1"], links)
        port = listening.sockets[0].getsockname()[1]
        name, hello = greeting(spec, "party 0")
        late_in, late_out = await asyncio.open_connection("127.0.0.1", port)
        late_out.write(name)
        _, first = await asyncio.open_connection("127.0.0.1", port)
        first.write(name + hello)
        while not links:
            await asyncio.sleep(0.01)
        link = links["party 0"]
        late_out.write(hello)
        assert await asyncio.wait_for(late_in.read(), 10) == b""  # it is closed
        assert links == {"party 0": link}
        for one in (late_out, first, listening):
            one.close()

    asyncio.run(both())


@pytest.mark.parametrize("shown", [False, True])
def test_who_shows_no_certificate_is_not_listened_to(tmp_path, shown):
    async def connect():
        tls, links = certificate(tmp_path), {}
        spec = accepting(tls)
        listening, _ = await shuffler.accept(spec, "shuffler", ["party 0", "party 1"], links)
        port = listening.sockets[0].getsockname()[1]
        mine = frames.client_tls(tls)
        if not shown:
            mine = ssl.create_default_context(cafile=tls["authority"])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=mine)
        writer.write(b"".join(greeting(spec, "party 0")))
        heard = asyncio.ensure_future(reader.read())
        for _ in range(500):
            if links or heard.done():
                break
            await asyncio.sleep(0.01)
        found = set(links)
        heard.cancel()
        await asyncio.gather(heard, return_exceptions=True)
        writer.close()
        listening.close()
        return found

    assert asyncio.run(connect()) == ({"party 0"} if shown else set())


def certificate(folder, addresses=("127.0.0.1",)):
    """A certificate that is its own authority, for all ends; addresses: that it names, or names."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "graphdp test")])
    alternatives = [
        x509.DNSName(one) if one[0].isalpha() else x509.IPAddress(ip_address(one))
        for one in addresses
    ]
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .sign(key, hashes.SHA256())
    )
    for name in ("certificate.pem", "authority.pem"):
        (folder / name).write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return {name: str(folder / f"{name}.pem") for name in ("certificate", "key", "authority")}
