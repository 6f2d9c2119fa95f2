"""Numbers of DPA-GNN's figures that no trained model gives: degrees as parties see them, and costs.

    python -m graphdp.methods.dpa.numbers [degrees] [cost] [large]
    python -m graphdp.methods.dpa.numbers quantiles

The first puts those of the named figures (all if none is named) into `numbers.csv` beside this
file, which figures, the table of costs and docs/dpa.md read; the second prints D, the c-quantiles
of degrees with the self-loop. `cost` takes some nine CPU minutes and 2 GB, `large`, the largest
sessions, seven and 12 GB, and no graph.
`degrees` and `quantiles` read the graphs that `snakemake data` leaves in results/data/graphs.
"""

import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from graphdp.errors import GraphDPError
from graphdp.methods.dpa.plan import COUNTS, dpa_plan
from graphdp.paper.shipped import Line, lines_of, make_lines
from graphdp.parties.fixed_point import dummies
from graphdp.parties.shares import Round, choose_parties, link_bytes, noise_secret
from graphdp.privacy.calibration import calibrate
from graphdp.privacy.mechanisms.distributed_gaussian import party_std
from graphdp.privacy.pair_sums import mean_dummies
from graphdp.progress import progress
from graphdp.rng import generator

FILE = Path(__file__).with_name("numbers.csv")
GRAPHS = Path("results/data/graphs")
#: Graph -> the paper's clipping rate c (section 7.2).
RATES = {"cora": 0.8, "citeseer": 0.8, "facebook-pages": 0.6, "computers": 0.4}
NODES, DUMMY_RATE, PARTIES, SHARES = 10, 0.5, 3, 2


def degree_at(degrees: np.ndarray, rate: float) -> int:
    """D as the authors' code takes it: of n degrees in order, that at place ⌊rate · n⌋ - 1.

    degrees: int (n,), the self-loop included.
    """
    return int(np.sort(degrees)[int(rate * len(degrees)) - 1])


def _degrees(name: str) -> np.ndarray:
    from graphdp.data.graph import Graph

    path = GRAPHS / f"{name}.npz"
    if not path.is_file():
        raise GraphDPError(
            f"there is no {path}; make it with: snakemake --cores 1 data --configfile "
            "config/papers/dpa-gnn.yaml"
        )
    return np.diff(Graph.load(path).indptr) + 1


# --- Figure 11 ------------------------------------------------------------------------------------


def degrees() -> Iterator[Line]:
    """Of ten nodes of each graph: the pairs that their key gets, those with dummies, and those that
    each of three parties gets, as the paper's text has it (each pair to two random parties)."""
    for name, rate in RATES.items():
        found = _degrees(name)
        draws = generator("dpa figure 11", name)
        chosen = np.sort(draws.choice(len(found), NODES, replace=False))
        kept = np.minimum(found[chosen], degree_at(found, rate))
        whole = kept + draws.geometric(DUMMY_RATE, NODES)
        reach = choose_parties(int(whole.sum()), PARTIES, SHARES, ("dpa figure 11", name))
        ends = np.cumsum(whole)
        for place, (pairs, total, end) in enumerate(zip(kept, whole, ends, strict=True), 1):
            yield "degrees", f"{name}, pairs", place, float(pairs)
            yield "degrees", f"{name}, with dummies", place, float(total)
            for party in range(PARTIES):
                seen = (reach[end - total : end] == party).sum()
                yield "degrees", f"{name}, party {party + 1}", place, float(seen)


# --- cost -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Size:
    """A model's rounds over TCP: m, t, n and P, then rounds and columns of each stream.

    dummies: whether the parties draw any (`_counts`).
    """

    parties: int
    shares: int
    users: int
    pairs: int
    features: tuple[int, int] = (10, 64)
    labels: tuple[int, int] = (8, 7)
    dummies: bool = False

    @property
    def name(self) -> str:
        """What its series begin with."""
        rounds = " and ".join(f"{count} of {columns}" for count, columns in self.streams.values())
        return (
            f"m = {self.parties}, t = {self.shares}, n = {self.users}, P = {self.pairs}, "
            f"rounds {rounds}{', dummies' * self.dummies}"
        )

    @property
    def streams(self) -> dict[str, tuple[int, int]]:
        """Stream -> rounds, columns."""
        return {"features": self.features, "labels": self.labels}

    @property
    def rounds(self) -> list[Round]:
        """All of them, in order; what σ is changes no cost."""
        return [
            Round(stream, number, columns, 1.0)
            for stream, (count, columns) in self.streams.items()
            for number in range(count)
        ]


#: What the figure varies -> a size for each value, with 5 pairs a user and the rounds of Cora.
VARIED = {
    "parties": [Size(m, 2, 1000, 5000) for m in (2, 3, 4, 5, 6)],
    "shares": [Size(6, t, 1000, 5000) for t in (2, 3, 4, 5)],
    "users": [Size(3, 2, n, 5 * n) for n in (2708, 10_000, 22_470)],
}
#: Users and pairs: of Cora in whole lists, of Computers at D = 17, of Facebook pages at D = 11.
CORA, COMPUTERS, FACEBOOK = (2_708, 10_556), (13_471, 181_041), (22_470, 152_097)
#: What the table shows. Of Computers and Facebook pages, and of 1,433 columns, one round a stream.
TABLE = (
    *(Size(m, t, *CORA) for m, t in ((2, 2), (3, 2), (3, 3), (5, 2), (5, 3))),
    Size(3, 2, *CORA, features=(10, 7)),
    Size(3, 2, *CORA, (1, 64), (1, 7)),
    Size(3, 2, *CORA, (1, 1433), (1, 7)),
    Size(3, 2, *COMPUTERS, (1, 64), (1, 10)),
    Size(3, 2, *FACEBOOK, (1, 64), (1, 4)),
    Size(3, 2, *CORA, dummies=True),
    Size(3, 2, *CORA, features=(10, 7), dummies=True),
    Size(3, 2, *CORA, (1, 64), (1, 7), dummies=True),
    Size(3, 2, *CORA, (1, 1433), (1, 7), dummies=True),
)
#: What takes minutes and many GB, beside the same without.
LARGE = (
    Size(3, 2, *COMPUTERS, (1, 64), (1, 10)),
    Size(3, 2, *COMPUTERS, (1, 64), (1, 10), dummies=True),
    Size(3, 2, *FACEBOOK, (1, 64), (1, 4)),
    Size(3, 2, *FACEBOOK, (1, 64), (1, 4), dummies=True),
    Size(3, 2, *FACEBOOK, (1, 4714), (1, 4)),
)
#: Sessions of which the one with the least CPU time is kept; where there are dummies there is one.
SESSIONS = 3
#: What names the parties' noise and dummies.
_NOISE = ("dpa cost",)


@cache
def count_noise() -> float:
    """s: of the numbers of pairs at edge level, ε = 2 (edge_undirected, corrected, conditional),
    δ = 1e-5, a fifth of μ². How many rounds there are does not matter to it."""
    rounds = {"feature_layers": 10, "label_layers": 8}
    plan = dpa_plan("edge", **rounds, feature_share=0.4, label_share=0.4)
    noise = calibrate(plan, 2.0, 1e-5).noise_multiplier
    (counts,) = (m for m in plan.mechanisms if m.phase == COUNTS)
    return counts.noise_std(noise)


def _counts(size: Size) -> dict[str, Any]:
    """How the parties draw dummies, as `Session` has it: any one of them may collude."""
    if not size.dummies:
        return {}
    std = count_noise()
    mean = mean_dummies(std, size.parties, 1)
    return {"count_std": party_std(std, size.parties, 1), "mean_dummies": mean}


def dummies_of(size: Size) -> int:
    """F: how many pairs of zeros the parties draw, which is the same in each round."""
    if not (drawn := _counts(size)):
        return 0
    return sum(
        int(dummies(
            (noise_secret(_NOISE, party), "dummies"), size.users, drawn["mean_dummies"],
            drawn["count_std"],
        ).sum())
        for party in range(size.parties)
    )  # fmt: skip


def formula(size: Size) -> dict[str, int]:
    """Link -> bytes of all rounds, headers apart; without links that nothing goes over."""
    total: dict[str, int] = {}
    drawn = dummies_of(size)
    for one in size.rounds:
        sizes = link_bytes(size.pairs, drawn, size.users, one.columns, size.parties, size.shares)
        total = {link: total.get(link, 0) + count for link, count in sizes.items()}
    return {link: count for link, count in total.items() if count}


def measured(size: Size) -> dict[str, float]:
    """Link -> bytes that the processes count, as `formula`; and seconds: "cpu" of all processes and
    "wall", starts included, and "alone", CPU of the same sums in one process that has started."""
    from graphdp.parties.memory import InMemory
    from graphdp.parties.session import Session

    draws = generator("dpa cost", size.users)
    senders = np.sort(np.arange(size.pairs) % size.users)
    lists = senders, draws.integers(0, size.users, size.pairs), size.users
    rows = {
        stream: draws.integers(-(2**20), 2**20, (size.users, columns))
        for stream, (_, columns) in size.streams.items()
    }

    def add_up(sums: Any) -> None:
        for one in size.rounds:
            sums.add_up(one, rows[one.stream].copy())

    before = _cpu()
    with InMemory(*lists, size.parties, _NOISE) as sums:
        add_up(sums)
    start, middle = time.perf_counter(), _cpu()
    session = Session(
        *lists, size.parties, size.shares, _NOISE, size.rounds, timeout=300.0, **_counts(size)
    )
    with session:
        add_up(session)
    wall, end = time.perf_counter() - start, _cpu()
    counted = {link: float(count) for link, count in session.traffic.items() if count}
    return counted | {"cpu": end - middle, "wall": wall, "alone": middle - before}


def _cpu() -> float:
    """CPU seconds of this process and of those that it has waited for."""
    used: Any = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return sum(one.ru_utime + one.ru_stime for one in used)


def costs() -> Iterator[Line]:
    """What the processes count and take at each size of the figure and of the table."""
    sizes = list(dict.fromkeys([*(size for row in VARIED.values() for size in row), *TABLE]))
    return _lines("cost", sizes, SESSIONS)


def large() -> Iterator[Line]:
    """The same at the sizes of `LARGE`, of one session each."""
    return _lines("large", list(LARGE), 1)


def _lines(figure: str, sizes: list[Size], count: int) -> Iterator[Line]:
    """Of `count` sessions of each size (of one where there are dummies) the one with the least CPU
    time. Raises `GraphDPError` if other bytes are counted than the formula has."""
    for size in progress(sizes, "sessions over TCP"):
        sessions = [measured(size) for _ in range(1 if size.dummies else count)]
        found = min(sessions, key=lambda one: one["cpu"])
        if {link: found.get(link) for link in formula(size)} != formula(size):
            raise GraphDPError(f"{size.name}: {found} is not {formula(size)}")
        for what, value in found.items():
            yield figure, f"{size.name}: {what}", float(size.parties), value


def cost_of(size: Size, figure: str = "cost") -> dict[str, float]:
    """The shipped lines of a size, as `measured`."""
    lines = shipped(figure).set_index("series")["y"]
    begin = f"{size.name}: "
    return {name[len(begin) :]: y for name, y in lines.items() if name.startswith(begin)}


def quantiles() -> str:
    """D of each graph at the paper's c and at those of its Figure 9, for people."""
    told = []
    for name, rate in RATES.items():
        found = _degrees(name)
        at = ", ".join(f"{100 * c:.0f} %: {degree_at(found, c)}" for c in (0.2, 0.4, 0.6, 0.8, 1))
        told.append(f"{name}: D = {degree_at(found, rate)} at c = {100 * rate:.0f} %; {at}")
    return "\n".join(told)


shipped = partial(lines_of, FILE)

#: Figure -> what makes its lines.
MADE = {"degrees": degrees, "cost": costs, "large": large}

if __name__ == "__main__":
    try:
        if sys.argv[1:] == ["quantiles"]:
            print(quantiles())
        else:
            make_lines(FILE, MADE, sys.argv[1:])
    except GraphDPError as error:
        sys.exit(f"error: {error}")
