"""An attack on DPA-GNN's noisy sums, by the server and some of the parties together.

They see every round's sums, and of these parties what they drew: the score of a run is the log
likelihood ratio of the two worlds of a pair, given what was released before. Lists are known in
both, since what they are cut by is. Over TCP (`curious_party`) the parties also see how many
pairs arrive for each key.

Copies of a pair lie side by side in one graph, which the stage `method.fit` is run on; each has its
own noise. Where lists are cut, copies whose lists a pair moves less than others are left out: who
knows how lists are cut knows which these are.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy import sparse

from graphdp.audit.detectable import replaced
from graphdp.audit.front_door import AuditBlock, audit_block, calibration_entry, trained
from graphdp.data.graph import Graph
from graphdp.data.split import Split
from graphdp.methods.dpa import curious_party, features, method
from graphdp.methods.dpa.plan import COUNTS, LABELS
from graphdp.methods.dpa.worlds import WORLDS, Pair
from graphdp.parties import memory
from graphdp.parties.fixed_point import decode, encode, project
from graphdp.parties.ring import FRACTION_BITS, step_bits
from graphdp.parties.shares import noise_secret
from graphdp.privacy import calibrated
from graphdp.privacy.calibration import Calibration
from graphdp.privacy.mechanisms.distributed_gaussian import party_std
from graphdp.privacy.pair_sums import mean_dummies
from graphdp.progress import brief

#: The network's; it is trained on what is released.
NETWORK = {
    "hidden": 1,
    "epochs": 1,
    "dropout": 0.0,
    "learning_rate": 0.01,
    "weight_decay": 0.0,
}
# Users of one call: bounds the memory to some hundred MB, and over TCP the time of a round.
CALL_USERS, _TCP_USERS = 1 << 18, 1 << 13


@dataclass
class View:
    """What the server and colluding parties see of some runs.

    rounds: (phase, rows that were sent, sums that were released), float64 (n, C) each. noise: what
    these parties drew, added up, one for each round, in steps of the grid. pairs: how many arrived
    for each key but for their own dummies, (n,), if they counted.
    """

    rounds: list[tuple[str, np.ndarray, np.ndarray]] = field(default_factory=list)
    noise: list[np.ndarray] = field(default_factory=list)
    pairs: np.ndarray | None = None

    def observe(self, phase: str, seeds: list[int], rows: np.ndarray, released: np.ndarray) -> None:
        """What a stage shows of a round (`methods.block.Observer`)."""
        self.rounds.append((phase, rows, released))


def sum_scores(
    pair: Pair,
    calibration: Calibration,
    setting: dict[str, Any],
    world: str,
    draws: int,
    seed: int,
) -> np.ndarray:
    """Log likelihood ratios of `draws` runs in one world: float64 (draws,).

    setting: of the plan and the protocol. Raises `GraphDPError` if other noise was drawn than the
    plan accounts, as a job does.
    """
    setting = NETWORK | setting
    most = (_TCP_USERS if setting.get("transport") else CALL_USERS) // pair.num_nodes
    found: list[np.ndarray] = []
    tried = 0
    while (missing := draws - sum(map(len, found))) > 0:
        # Of lists that are cut some copies count: how many, the first calls tell.
        share = sum(map(len, found)) / tried if tried else 1.0
        copies = min(most, math.ceil(missing / share))
        view = View()
        blocks = blocks_of(pair, calibration, copies, (seed, tried), world, view)
        _run(blocks[world], setting, view)
        found.append(_ratios(pair, blocks, setting, view)[:missing])
        tried += copies
    return np.concatenate(found)


def blocks_of(
    pair: Pair,
    calibration: Calibration,
    copies: int,
    name: tuple[int, int],
    world: str,
    view: View,
) -> dict[str, AuditBlock]:
    """Runs on `copies` of both graphs of a pair, of which `view` looks at that of `world`.

    name: of the random streams, seed and the number of the first copy.
    """
    seed, first = name
    return {
        one: block_of(
            pair.graph(one, copies),
            calibration,
            ("audit", seed, pair.name, one, first),
            view if one == world else None,
        )
        for one in WORLDS
    }


def block_of(
    graph: Graph, calibration: Calibration, name: tuple[int | str, ...], view: View | None
) -> AuditBlock:
    """A run on a graph that `view` looks at. name: of the random streams."""
    last = np.array([graph.num_nodes - 1])
    return audit_block(
        calibration_entry(calibration),
        graph,
        [0],
        lambda _: name,
        Split(np.arange(graph.num_nodes), last, last),
        view and view.observe,
    )


def _run(block: AuditBlock, setting: dict[str, Any], view: View) -> None:
    """Train on what is released, and note what is seen."""
    colluding = setting["colluding"]
    with ExitStack() as stack:
        stack.enter_context(brief())
        if setting.get("transport"):
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="graphdp-audit-")))
            stack.enter_context(curious_party.curious(folder, colluding))
            trained(method.fit, block, setting)
            view.noise, view.pairs = curious_party.read(folder, colluding)
            return
        name = method.noise_of(block, 0, setting)
        secrets = [noise_secret(name, party) for party in range(colluding)]
        drawn = stack.enter_context(_drawn_by(secrets))
        trained(method.fit, block, setting)
    numbers = range(len(view.rounds))
    view.noise = [sum(drawn[colluding * i : colluding * (i + 1)]) for i in numbers]


@contextmanager
def _drawn_by(secrets: list[str]) -> Iterator[list[np.ndarray]]:
    """The noise that parties of these secrets draw in this process."""
    found: list[np.ndarray] = []

    def watched(draw: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        def drawn(name: tuple, *arguments: Any) -> np.ndarray:
            noise = draw(name, *arguments)
            if name[0] in secrets:
                found.append(noise)
            return noise

        return drawn

    with replaced(memory, "party_noise", watched):
        yield found


def _ratios(
    pair: Pair, blocks: dict[str, AuditBlock], setting: dict[str, Any], view: View
) -> np.ndarray:
    """Of the copies whose lists differ most: float64 (copies,)."""
    runs = {
        name: one.run for name, one in calibrated.phases(blocks["present"].entry({}, 0)).items()
    }
    lists = {world: _lists(block, setting) for world, block in blocks.items()}
    streams, total, keep = set(), 0.0, None
    for (phase, sent, released), noise in zip(view.rounds, view.noise, strict=True):
        stream = "labels" if phase == LABELS else "features"
        rows = dict.fromkeys(WORLDS, sent)
        if stream not in streams:
            # Later rows are the same function of what was released, in both worlds.
            rows = {world: first_rows(block, setting, stream) for world, block in blocks.items()}
            streams.add(stream)
        std = runs[phase].noise_std
        own = party_std(std, setting["parties"], setting["colluding"])
        bits = step_bits(own * 2.0**FRACTION_BITS)
        means = {world: lists[world] @ decode(encode(rows[world], bits)) for world in WORLDS}
        if keep is None:
            moved = _by_copy(pair, (means["present"] - means["absent"]) ** 2)
            keep = moved > moved.max() - 1e-6
        total += ratio(pair, released - decode(noise), means, std)
    if view.pairs is not None and COUNTS in runs:
        std, sizes = runs[COUNTS].noise_std, (setting["parties"], setting["colluding"])
        dummies = (sizes[0] - sizes[1]) * mean_dummies(std, *sizes)
        counts = {world: np.asarray(lists[world].sum(1)).ravel() for world in WORLDS}
        total += ratio(pair, view.pairs - dummies, counts, std)
    return total[keep]


def ratio(pair: Pair, seen: np.ndarray, means: dict[str, np.ndarray], std: float) -> np.ndarray:
    """Of Gaussian noise around the means of either world, by copy: float64 (copies,)."""
    squares = {world: _by_copy(pair, (seen - mean) ** 2) for world, mean in means.items()}
    return (squares["absent"] - squares["present"]) / (2 * std**2)


def _by_copy(pair: Pair, values: np.ndarray) -> np.ndarray:
    return values.reshape(-1, pair.num_nodes * (values.shape[1] if values.ndim > 1 else 1)).sum(1)


def _lists(block: AuditBlock, setting: dict[str, Any]) -> Any:
    """The pairs of a world, (n, n) with a row per key."""
    senders, keys = method.kept_pairs(block, 0, setting)
    n = block.graph.num_nodes
    return sparse.csr_matrix((np.ones(len(keys)), (keys, senders)), shape=(n, n))


def first_rows(block: AuditBlock, setting: dict[str, Any], stream: str) -> np.ndarray:
    """The rows that users send in the first round of a world, (n, C)."""
    graph = block.graph
    if stream == "labels":
        return project(features.one_hot(graph.y, graph.num_classes, block.split(0)))
    x = np.array(graph.x, np.float64)
    return project(features.unit_rows(np.maximum(x, 0) if setting.get("non_negative") else x))
