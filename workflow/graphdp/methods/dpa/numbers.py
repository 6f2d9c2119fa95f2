"""Numbers of DPA-GNN's figures that no trained model gives: degrees as parties see them, and costs.

    python -m graphdp.methods.dpa.numbers [degrees] [cost]
    python -m graphdp.methods.dpa.numbers quantiles

The first puts those of the named figures (all if none is named) into `numbers.csv` beside this
file, which the figures read; the second prints D, the c-quantiles of degrees with the self-loop.
`degrees` and `quantiles` read the graphs that `snakemake data` leaves in results/data/graphs.
"""

import resource
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from graphdp.errors import GraphDPError
from graphdp.paper.shipped import Line, lines_of, make_lines
from graphdp.parties.shares import Round, choose_parties, link_bytes
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

#: What is varied -> (m, t, n) at each of its values; 5 pairs a user, and the rounds of Cora.
VARIED = {
    "m": [(m, 2, 1000) for m in (3, 4, 5, 6)],
    "t": [(6, t, 1000) for t in (2, 3, 4, 5)],
    "n": [(3, 2, n) for n in (500, 1000, 2000, 4000)],
}
PAIRS, COLUMNS, CLASSES, ROUNDS = 5, 64, 7, (10, 8)


def rounds_of_a_model(std: float = 1.0) -> list[Round]:
    """The rounds of one model: 10 of features with 64 columns, 8 of labels with 7."""
    return [
        Round(stream, number, columns, std)
        for stream, columns, count in zip(
            ("features", "labels"), (COLUMNS, CLASSES), ROUNDS, strict=True
        )
        for number in range(count)
    ]


def formula(parties: int, shares: int, users: int) -> dict[str, int]:
    """Link -> bytes of one model, headers apart."""
    total: dict[str, int] = {}
    for one in rounds_of_a_model():
        sizes = link_bytes(PAIRS * users, 0, users, one.columns, parties, shares)
        total = {link: total.get(link, 0) + size for link, size in sizes.items()}
    return {link: size for link, size in total.items() if size}


def measured(parties: int, shares: int, users: int) -> dict[str, float]:
    """Link -> bytes that the processes count, and "cpu" and "wall", in seconds."""
    from graphdp.parties.session import Session

    draws = generator("dpa cost", users)
    senders = np.repeat(np.arange(users), PAIRS)
    keys = draws.integers(0, users, len(senders))
    due = rounds_of_a_model()
    rows = {one.stream: draws.integers(-(2**20), 2**20, (users, one.columns)) for one in due}
    start, before = time.perf_counter(), _cpu()
    with Session(senders, keys, users, parties, shares, ("dpa cost",), due) as session:
        for one in due:
            session.add_up(one, rows[one.stream].copy())
    spent = {"cpu": _cpu() - before, "wall": time.perf_counter() - start}
    return {link: float(size) for link, size in session.traffic.items() if size} | spent


def _cpu() -> float:
    """CPU seconds of this process and of those that it has waited for."""
    used: Any = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return sum(one.ru_utime + one.ru_stime for one in used)


def costs() -> Iterator[Line]:
    """What the processes count at each point of `VARIED`, beside the formula."""
    for name, points in VARIED.items():
        for point in points:
            x = float(point["mtn".index(name)])
            for link, size in formula(*point).items():
                yield "cost", f"{name}, formula, {link}", x, size
            for what, value in measured(*point).items():
                yield "cost", f"{name}, measured, {what}", x, value


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
MADE = {"degrees": degrees, "cost": costs}

if __name__ == "__main__":
    try:
        if sys.argv[1:] == ["quantiles"]:
            print(quantiles())
        else:
            make_lines(FILE, MADE, sys.argv[1:])
    except GraphDPError as error:
        sys.exit(f"error: {error}")
