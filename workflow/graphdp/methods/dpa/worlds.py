"""Pairs of graphs that DPA-GNN's sums have to hide from each other, as far apart as each allows.

Every user's row has norm 1. Where rows are noise or more (a later round's, of several columns) they
keep it, so that a pair which moves the first round by Δ moves all rounds by theirs.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from graphdp.audit.front_door import graph_of
from graphdp.data.graph import Graph, csr_from_edges

WORLDS = ("present", "absent")
#: D of the pairs; the noise multiplier does not depend on it.
DEGREE = 4
#: Columns of features: a noisy row of so many is hardly ever shorter than 1.
_COLUMNS = 4


@dataclass(frozen=True, eq=False)
class World:
    """A small graph. edges: int64 (m, 2), (sender, key). x: float32 (n, C). labels: int64 (n,)."""

    edges: np.ndarray
    x: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True, eq=False)
class Pair:
    """Two worlds with the same users."""

    name: str
    present: World
    absent: World

    @property
    def num_nodes(self) -> int:
        """n of one copy."""
        return len(self.present.x)

    def graph(self, world: str, copies: int) -> Graph:
        """So many copies of a world side by side."""
        one, n = getattr(self, world), self.num_nodes
        offsets = n * np.arange(copies)[:, None, None]
        senders, keys = (one.edges + offsets).reshape(-1, 2).T
        lists = csr_from_edges(senders, keys, copies * n, symmetrise=False)
        return graph_of(*lists, np.tile(one.x, (copies, 1)), np.tile(one.labels, copies))


def _world(edges: list[tuple[int, int]], x: np.ndarray, label: int = 0) -> World:
    labels = np.zeros(len(x), np.int64)
    labels[0] = label
    return World(np.array(edges, np.int64).reshape(-1, 2), x, labels)


def _rows(users: int, first: float = 1.0) -> np.ndarray:
    """All along the first axis; user 0's times `first`: float32 (n, C)."""
    x = np.zeros((users, _COLUMNS), np.float32)
    x[:, 0] = 1
    x[0] *= first
    return x


@cache
def edge_pair(entries: int) -> Pair:
    """Users 0 and 1, joined or not. entries: 1, user 1 sends to 0; or 2, both send."""
    return Pair(
        f"edge-{entries}", _world([(1, 0), (0, 1)][:entries], _rows(2)), _world([], _rows(2))
    )


@cache
def cut_pair(entries: int) -> Pair:
    """The same where both list users 2 and 3 as well, and keep one (D = 1).

    Where both keep the same of these, and each other if joined, its row moves by the sum of theirs:
    by 2 in the first round, where they are equal, and less later.
    """
    lists = [(user, other) for user in (0, 1) for other in (2, 3)]
    joined, x = [(1, 0), (0, 1)][:entries], _rows(4)
    return Pair(f"cut-{entries}", _world(lists + joined, x), _world(lists, x))


@cache
def participant_pair(max_degree: int = DEGREE, listed: int = 2 * DEGREE) -> Pair:
    """User 0 lists so many others, of whom it keeps D, or nobody."""
    lists, x = [(0, other) for other in range(1, 1 + listed)], _rows(1 + listed)
    return Pair(f"participant-{max_degree}-{listed}", _world(lists, x), _world([], x))


@cache
def turned_pair() -> Pair:
    """User 0 has the opposite row and another label, and the same list."""
    users = 1 + DEGREE
    lists = [(0, other) for other in range(1, users)]
    return Pair(
        "turned", _world(lists, _rows(users)), _world(lists, _rows(users, first=-1.0), label=1)
    )


@cache
def moved_pair() -> Pair:
    """User 0 sends to D others, or to D others than these."""
    users = 1 + 2 * DEGREE
    lists = [[(0, start + i) for i in range(DEGREE)] for start in (1, 1 + DEGREE)]
    return Pair("moved", *(_world(one, _rows(users)) for one in lists))


# --- for the authors' code, where every user sends to itself as well ------------------------------

#: Users to whom one sends: as many as on Cora.
SENT = 152


@cache
def equal_pair() -> Pair:
    """Users 1 and 2 send to each other; user 0 to user 1, or to nobody."""
    lists, x = [(1, 2), (2, 1)], _rows(3)
    return Pair("equal", _world([*lists, (0, 1)], x), _world(lists, x))


@cache
def sender_pair() -> Pair:
    """User 0 sends to `SENT` others, or to nobody."""
    lists, x = [(0, other) for other in range(1, 1 + SENT)], _rows(1 + SENT)
    return Pair("sender", _world(lists, x), _world([], x))


@cache
def replaced_pair() -> Pair:
    """User 0 sends to D - 1 others, or another in its place to other ones; nothing is cut."""
    others = DEGREE - 1
    lists = [[(0, start + i) for i in range(others)] for start in (1, 1 + others)]
    one, other = _rows(1 + 2 * others), _rows(1 + 2 * others)
    other[0] = [0, 1, 0, 0]
    return Pair("replaced", _world(lists[0], one), _world(lists[1], other, label=1))
