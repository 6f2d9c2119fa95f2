"""DPA-GNN, corrected: sums by key of several parties with noise in every round.

  0. every user keeps at most D of its edges (given, or a quantile of noisy lengths of lists);
     rows h⁰: features over their norms, or one-hot labels (test nodes: 0)
  1. in round l = 1..L of a stream every user sends the pair (i : hˡ⁻¹) for each edge to a user i,
     in shares, to the parties; these add up by key, add noise, and release
     Mˡ_i = Σ_{j: i ∈ L_j} hˡ⁻¹_j + N(0, σ² m / (m - t_c)) for all i
  2. hˡ = Mˡ over max(1, its norm): a public function of what was released
  3. a network (`network`) on h^(l_h); its targets are the largest entries of M^(l_y)

With `transport: tcp` parties and shuffler are processes (`graphdp.parties`), without it sums are
made in this one; the released numbers are the same, bit for bit: sums modulo 2⁶⁴ are exact, and
noise is named by party, stream and round. At level none rows are added up as they are, without
noise.

The paper scales by 1 / degree, cuts lists by their receivers, and adds noise in the first round
alone; `plan.py` has what that costs, `official.py` that method.
"""

import contextlib
import math
from typing import Any

import numpy as np
from scipy import sparse

from graphdp.errors import GraphDPError
from graphdp.methods.block import Block
from graphdp.methods.dpa import plan_settings
from graphdp.methods.dpa.plan import COUNTS, FIRST, LABELS, LATER, LENGTHS
from graphdp.methods.settings import key
from graphdp.parties.fixed_point import decode, encode, project
from graphdp.parties.ring import FRACTION_BITS
from graphdp.parties.shares import Round
from graphdp.privacy import calibrated, execution
from graphdp.privacy.execution import Execution
from graphdp.privacy.mechanisms.distributed_gaussian import party_std, shared_by
from graphdp.privacy.pair_sums import MOST_LENGTH, check_ring, mean_dummies
from graphdp.privacy.protection import edges_alone
from graphdp.rng import stream_seed

#: Hyperparameters that change how a model is made and not the model.
_CARRIED_OUT = ("transport", "listen", "hosts", "launch", "tls")


def fit(block: Block, settings: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any], Any]]:
    """Train every seed of the block x setting; returns (seed, setting, fitted model) triples."""
    return [(seed, setting, _fit(block, seed, setting)) for seed, setting in block.runs(settings)]


def _fit(block: Block, seed: int, setting: dict[str, Any]) -> Any:
    from graphdp.methods.dpa.features import chosen_columns, one_hot, unit_rows
    from graphdp.methods.dpa.network import train

    graph, split = block.graph, block.split(seed)
    x = chosen_columns(graph.x, setting, (block.dataset, seed))
    if setting.get("non_negative"):
        np.maximum(x, 0.0, out=x)
    y = one_hot(graph.y, graph.num_classes, split)
    pairs, counted, over = kept_pairs(block, seed, setting), {}, None
    if "degree_quantile" in setting:
        most, counted = _degree_at_quantile(block, seed, setting, pairs[0])
        pairs = kept_pairs(block, seed, setting | {"max_degree": most})
        if not edges_alone(block.level):  # the plan's σ is of sums over √D
            over = most
    widths = {"features": x.shape[1], "labels": y.shape[1]}
    rounds = _Rounds(block, seed, setting, widths, *pairs, over)
    stream = block.stream(seed, "dpa", asked(setting))
    with rounds:
        h = project(rounds.run("features", unit_rows(x)))
        sums = rounds.run("labels", y)
    return train(
        h, sums.argmax(1), graph.y, split, graph.num_classes, setting, stream, block.device,
        counted | rounds.executed(), block.posteriors,
    )  # fmt: skip


def asked(setting: dict[str, Any]) -> str:
    """What names a model's streams: its setting, however it is carried out."""
    return key({name: value for name, value in setting.items() if name not in _CARRIED_OUT})


def noise_of(block: Block, seed: int, setting: dict[str, Any], scale: float = 1.0) -> tuple:
    """What names a model's noise. Of a private release every σ is in it: at two of them, as for
    another δ, the same normals would cancel. (A reproduction's noise is public.)

    scale: what σ of the plan is multiplied by.
    """
    name = block.noise_stream(seed, "dpa", asked(setting))
    if block.release != "private":
        return name
    phases = calibrated.phases(block.entry(plan_settings(block.level, setting), seed))
    scales = (f"{phase} {one.run.noise_std * scale!r}" for phase, one in sorted(phases.items()))
    return *name, *scales


def kept_pairs(block: Block, seed: int, setting: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """(senders, keys) of the pairs that users send, int64 (P,), by sender: at most max_degree each.

    Where edges are protected a list is cut so that one more edge takes the place of one other at
    most, whoever knows the seed (`first_targets`). Where nodes are, other lists stay anyway.

    Raises `GraphDPError` if a user would send more.
    """
    from graphdp.graphs.bounds import bound_name
    from graphdp.graphs.degree import apply_mask, first_targets, keep_edges

    graph, most = block.graph, setting.get("max_degree")
    edges = graph.indptr, graph.indices
    if most is not None:
        bound = bound_name(setting)
        stream = block.degree_stream(seed, bound)
        if edges_alone(block.level):
            keep = first_targets(*edges, most, stream_seed(*stream))
        else:
            keep = keep_edges(graph, bound, stream, (block.dataset, seed))
        edges = apply_mask(*edges, keep)
    sent = np.diff(edges[0])
    if most is not None and sent.max(initial=0) > most:
        raise GraphDPError(f"a user has {sent.max()} pairs where the plan accounts {most}")
    return np.repeat(np.arange(graph.num_nodes), sent), edges[1].astype(np.int64)


def _degree_at_quantile(
    block: Block, seed: int, setting: dict[str, Any], senders: np.ndarray
) -> tuple[int, dict[str, Execution]]:
    """D, a quantile of the noisy lengths of lists, at least 1; and what was drawn for it.

    Every user sends a one-hot row, of the length of its list, to one key: how many pairs arrive for
    it tells nothing. Longer lists than `MOST_LENGTH` count as that.
    """
    n = block.graph.num_nodes
    held = np.minimum(np.bincount(senders, minlength=n), MOST_LENGTH)
    everyone, one_key = np.arange(n), np.zeros(n, np.int64)
    rounds = _Rounds(block, seed, setting, {LENGTHS: MOST_LENGTH + 1}, everyone, one_key)
    with rounds:
        sums = rounds.run(LENGTHS, np.eye(MOST_LENGTH + 1)[held])
    reached = np.flatnonzero(np.cumsum(sums[0]) >= setting["degree_quantile"] * n)
    most = max(1, int(reached[0]) if reached.size else MOST_LENGTH)
    return most, rounds.executed()


class _Rounds:
    """The rounds of one model, with what they drew.

    widths: stream -> columns of its rows. over: D, if the plan's σ is of sums over √D. Raises
    `GraphDPError` if a list is longer than that, and for noise with which no round could be made,
    whatever D is.
    """

    def __init__(
        self,
        block: Block,
        seed: int,
        setting: dict[str, Any],
        widths: dict[str, int],
        senders: np.ndarray,
        keys: np.ndarray,
        over: int | None = None,
    ):
        self._scale = 1.0 if over is None else math.sqrt(over)
        if over is not None and (longest := np.bincount(senders).max(initial=0)) > over:
            raise GraphDPError(f"a user has {longest} pairs where there is noise for {over}")
        self._n, self._setting = block.graph.num_nodes, setting
        self._senders, self._keys = senders, keys
        self._observe, self._seed = block.observe, seed
        self._edges_alone = edges_alone(block.level)
        self._drawn: dict[str, list[Execution]] = {}
        entry = block.entry(plan_settings(block.level, setting), seed)
        self._runs = {name: phase.run for name, phase in calibrated.phases(entry).items()}
        self._due = [
            self._round(stream, number, widths[stream])
            for stream in widths
            for number in range(self._layers(stream))
            if self._runs
        ]
        self._transport: Any = contextlib.nullcontext()
        if self._runs:
            self._transport = self._connected(noise_of(block, seed, setting, self._scale))

    def _layers(self, stream: str) -> int:
        """The rounds of a stream."""
        return 1 if stream == LENGTHS else self._setting[f"{stream.rstrip('s')}_layers"]

    def _round(self, stream: str, number: int, columns: int) -> Round:
        """A round with the noise that its phase of the plan accounts."""
        run = self._runs[_phase(stream, number)]
        return Round(stream, number, columns, self._of_a_party(run.noise_std * self._scale))

    def _of_a_party(self, noise_std: float) -> float:
        return party_std(noise_std, *self._sizes())

    def _connected(self, name: tuple) -> Any:
        parties = self._setting["parties"]
        for scale in {self._scale, *self._later_scales()}:
            self._check(scale)
        counts = self._counts()
        if self._setting.get("transport") == "tcp":
            from graphdp.parties.places import links
            from graphdp.parties.session import Session

            shares, pairs = self._setting["shares"], (self._senders, self._keys, self._n)
            return Session(
                *pairs, parties, shares, name, self._due, **counts, **links(self._setting)
            )
        from graphdp.parties.memory import InMemory

        return InMemory(self._senders, self._keys, self._n, parties, name, **counts)

    def _later_scales(self) -> tuple[float, ...]:
        """The ends of what σ may yet be multiplied by, where D is still to be found: what cannot be
        made then is refused before anything is released."""
        counted = LENGTHS in {one.stream for one in self._due} and not self._edges_alone
        return (1.0, math.sqrt(MOST_LENGTH)) if counted else ()

    def _check(self, scale: float) -> None:
        """Refuse noise that may make sums wrap around, or is too little for numbers of pairs."""
        parties = self._setting["parties"]
        for phase, run in self._runs.items():
            std = run.noise_std * (1.0 if phase == LENGTHS else scale)
            if phase == COUNTS:
                mean_dummies(std, *self._sizes())
            else:
                check_ring(self._n, parties, self._of_a_party(std) * 2.0**FRACTION_BITS)

    def _counts(self) -> dict[str, Any]:
        """How the parties draw dummies, if they do: pairs of zeros, of which no sum tells."""
        run = self._runs.get(COUNTS)
        if run is None or LENGTHS in {one.stream for one in self._due}:
            return {}
        std = run.noise_std * self._scale
        mean = mean_dummies(std, *self._sizes())
        return {"count_std": self._of_a_party(std), "mean_dummies": mean}

    def __enter__(self) -> "_Rounds":
        self._add_up = self._transport.__enter__()
        if self._runs and self._add_up.count_std:
            self._note(COUNTS, self._add_up.count_std, self._n)
        return self

    def __exit__(self, *error: Any) -> None:
        self._transport.__exit__(*error)

    def run(self, stream: str, rows: np.ndarray) -> np.ndarray:
        """M of a stream's last round, float64 (n, C), for which rows are overwritten; of a stream
        without rounds its rows."""
        for number in range(self._layers(stream)):
            rows = project(rows)
            if self._runs:
                self._noisy(self._round(stream, number, rows.shape[1]), rows)
            else:
                rows = _matrix(self._senders, self._keys, self._n) @ rows
        return rows

    def _noisy(self, one: Round, rows: np.ndarray) -> None:
        """Put the sums that are released of a round in the place of its rows: where there are many
        columns new memory takes longer than what is done in it."""
        phase = _phase(one.stream, one.number)
        seen = rows.copy() if self._observe else None
        sums = self._add_up.add_up(one, encode(rows, one.step_bits, out=rows.view(np.int64)))
        decode(sums, out=rows)
        self._note(phase, one.party_std, rows.size)
        if self._observe:
            self._observe(phase, [self._seed], seen, rows.copy())

    def _note(self, phase: str, own: float, size: int) -> None:
        """Write down one release, of `size` numbers on each of which every party put noise of
        deviation `own`: the σ that the colluders do not know of it, over `scale` as in the plan,
        to the bit where it is the plan's."""
        run, parties, colluding = self._runs[phase], *self._sizes()
        std = run.noise_std
        if own != party_std(std * self._scale, parties, colluding):
            std = own * math.sqrt(parties - colluding) / self._scale
        done = Execution(
            "none",
            1,
            std,
            sensitivity=run.sensitivity,
            records=shared_by(parties, colluding),
            draws=parties * size,
        )
        self._drawn.setdefault(phase, []).append(done)

    def _sizes(self) -> tuple[int, int]:
        return self._setting["parties"], self._setting["colluding"]

    def executed(self) -> dict[str, Execution]:
        """What was drawn, by phase of the plan."""
        return {phase: execution.together(drawn) for phase, drawn in self._drawn.items()}


def _phase(stream: str, number: int) -> str:
    if stream == "features":
        return LATER if number else FIRST
    return {"labels": LABELS, LENGTHS: LENGTHS}[stream]


def _matrix(senders: np.ndarray, keys: np.ndarray, n: int) -> Any:
    return sparse.csr_matrix((np.ones(len(keys)), (keys, senders)), shape=(n, n))
