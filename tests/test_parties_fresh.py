"""Masks and shares of processes are fresh in every round, stream and piece of columns.

The difference of two messages under the same mask, or of two shares under the same key, is that of
what they hide. Of uniform numbers modulo 2⁶⁴ a difference is below 2⁴⁰ in size with chance 2⁻²³,
three at once with 2⁻⁶⁹; a test here looks at up to 100,000 triples, and fails once in 1e15 runs
though nothing is wrong.
"""

from itertools import combinations
from unittest.mock import patch

import numpy as np
import pytest

from graphdp.parties import session
from graphdp.parties.fixed_point import encode
from graphdp.parties.shares import PIECE_COLUMNS, Round
from parties_watched import forgetful, read_kept, watched

#: Two pieces each, as wide as each other: else the same numbers would stand in other places.
COLUMNS = 2 * PIECE_COLUMNS
ROUNDS = [Round(stream, number, COLUMNS, 2.0)
          for stream, number in (("features", 0), ("features", 1), ("labels", 0))]  # fmt: skip
USERS, PARTIES = 40, 3
SENDERS = np.arange(0, USERS, 2)
KEYS = np.random.default_rng(0).permutation(USERS)[: len(SENDERS)]


def exchanged(folder, dummies, who=None, function=None, field=None):
    """Of a session what each party sent to the server, and what it received: two lists of (piece,
    keys, values) each. dummies: of each party for a key, on average. who: "party" or "users", whose
    `function` forgets a `field` of rounds."""
    sent, get = {}, session.values_of

    async def kept(link, piece, rows, kind):
        values = await get(link, piece, rows, kind)
        place = piece.stream, piece.number, piece.start
        sent.setdefault(link.other, []).append((place, np.arange(rows), values))
        return values

    names = [f"party {party}" for party in range(PARTIES)]
    programs = {name: {"keeps": str(folder / f"{name}.npz")} for name in names}
    for one in programs.values() if who == "party" else ():
        one["forgets"] = [function, field]
    one = watched(programs, SENDERS, KEYS, USERS, PARTIES, 2, ("fresh",), ROUNDS,
                  count_std=1.0 if dummies else 0.0, mean_dummies=dummies)  # fmt: skip
    rows = encode(np.full((USERS, COLUMNS), 0.01))
    split = forgetful(session.split_rows, field) if who == "users" else session.split_rows
    with patch.object(session, "values_of", kept), patch.object(session, "split_rows", split), one:
        for due in ROUNDS:
            one.add_up(due, rows.copy())
    received = [read_kept(folder / f"{name}.npz") for name in names]
    assert all(len(pieces) == 6 for pieces in (*sent.values(), *received)) and len(sent) == PARTIES
    return list(sent.values()), received


def near(pieces):
    """Which fields differ of two pieces that have numbers of one key less than 2⁴⁰ apart, by three
    columns."""
    found = set()
    for (first, keys, values), (second, others, their) in combinations(pieces, 2):
        same = keys[:, None] == others[None, :]
        apart = (values[:, None, :3] - their[None, :, :3]).view(np.int64)
        if (same & (np.abs(apart) < 2**40).all(2)).any():
            names = zip(("stream", "number", "start"), first, second, strict=True)
            found.add(tuple(name for name, one, other in names if one != other))
    return found


@pytest.mark.parametrize("dummies", [0, 3])
def test_nothing_that_hides_another_is_drawn_twice(tmp_path, dummies):
    sent, received = exchanged(tmp_path, dummies)
    assert not any(near(pieces) for pieces in (*sent, *received))


@pytest.mark.parametrize("field", ["stream", "number", "start"])
@pytest.mark.parametrize(
    ("who", "function"), [("party", "mask"), ("party", "split_rows"), ("users", "split_rows")]
)
def test_what_is_drawn_twice_is_caught(tmp_path, who, function, field):
    """Of a party's masks by the server, at keys without a share; of users' shares, and of
    dummies', by the parties."""
    masks = function == "mask"
    sent, received = exchanged(tmp_path, 0 if masks else 3, who, function, field)
    assert all(near(pieces) == {(field,)} for pieces in (sent if masks else received))
    assert not any(near(pieces) for pieces in (received if masks else sent))
