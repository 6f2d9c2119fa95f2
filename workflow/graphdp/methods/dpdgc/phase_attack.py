"""An attack on the noisy gradients of DPDGC's DP-Emb phase.

What is run is the stage `graphdp.methods.dpdgc.method.embed`; the block's `observe` shows the noisy
sum of clipped gradients of every round. Node r is replaced:

    rows that list r       in one world {r}, in the other empty; the clipped gradient u of such a
                           row has one half of its square in W_r, or all of it in the bias. As
                           implemented each lists a node of its own besides, in both worlds: empty
                           rows shift the labels there
    row r                  its label differs, so its gradient is turned round

With two classes the labels turn gradients round. So rows that gain r have one label, rows that lose
it the other, and row r the one that makes its move agree with theirs: all moves add up. They do not
reach 2C each, as the lemma of `graphdp.privacy.group` allows for any vectors, but the directions of
W_r and b that a row of A can give. The learning rate is so small that W and b stay as they were
initialised (the ε does not depend on it).
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from graphdp.audit.front_door import AuditBlock, audit_block, calibration_entry, graph_of
from graphdp.data.graph import Graph
from graphdp.data.split import Split
from graphdp.errors import GraphDPError
from graphdp.methods.dpdgc import method as dpdgc
from graphdp.methods.settings import key
from graphdp.privacy import calibrated, execution
from graphdp.privacy.calibration import Calibration
from graphdp.privacy.plan import PoissonGroupDPSGD
from graphdp.privacy.protection import level_kind, neighbors
from graphdp.progress import brief

CLASSES, HIDDEN = 2, 4
LEARNING_RATE = 1e-9
# Nodes that each bystander lists: the more, the less of its gradient is in the bias.
_LISTED = 20
# Combinations of sampled records that are less likely than this are left out of a score.
_LEAST_CHANCE = 1e-10


@dataclass(frozen=True)
class Phase:
    """A DP-Emb phase as calibrated: what the plan accounts is what is trained.

    calibration: of a plan with a phase "embedding". Settings are those of that plan; `num_train`
    counts the changed rows too.
    """

    calibration: Calibration
    num_train: int
    batch_size: int
    epochs: int
    max_grad_norm: float
    max_degree: int | None = None

    def __post_init__(self) -> None:
        if sum(self.counts) > self.num_train:
            raise GraphDPError(
                f"{sum(self.counts)} changed rows among {self.num_train} training nodes: use more"
            )

    @property
    def mechanism(self) -> Any:
        """The plan's DP-Adam mechanism of this phase."""
        (found,) = (m for m in self.calibration.plan.mechanisms if m.phase == "embedding")
        return found

    @property
    def poisson(self) -> bool:
        """Whether samples are Poisson samples, and W is kept normalised: the corrected method."""
        return isinstance(self.mechanism, PoissonGroupDPSGD)

    @cached_property
    def counts(self) -> tuple[int, int, int]:
        """How many rows gain r in "present", how many lose it, and whether row r changes."""
        level = self.calibration.plan.level
        match level_kind(level):
            case "edge":
                return 1, 0, 0
            case "k":
                return neighbors(level), 0, 1
            case _:
                # On public candidates none is lost that is not gained in the other world.
                return self.max_degree, 0 if self.poisson else self.max_degree, 1

    @cached_property
    def noise_std(self) -> float:
        """σ of the noise on a sum of clipped gradients, as the plan has it."""
        return calibrated.phase(self.entry, "embedding").run.noise_std

    @cached_property
    def entry(self) -> dict[str, Any]:
        """The calibration, as a job reads it."""
        settings = {"max_grad_norm": self.max_grad_norm}
        return calibration_entry(self.calibration, self.num_train, settings)

    @cached_property
    def setting(self) -> dict[str, Any]:
        """The hyperparameters, as the stage is given them."""
        bound = {} if self.max_degree is None else {"max_degree": self.max_degree}
        return bound | {
            "hidden": HIDDEN,
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "learning_rate": LEARNING_RATE,
            "plan": {},
        }

    @cached_property
    def kinds(self) -> tuple[np.ndarray, ...]:
        """The changed rows: those that gain r, that lose it, and r itself if it changes."""
        gained, lost, own = self.counts
        return np.arange(1, 1 + gained), 1 + gained + np.arange(lost), np.arange(own)

    @cached_property
    def chances(self) -> tuple[np.ndarray, np.ndarray]:
        """What a batch may hold: numbers of each kind of changed row (m, 3), log-chances (m,)."""
        from scipy.stats import binom, hypergeom

        grids = np.meshgrid(*(np.arange(count + 1) for count in self.counts), indexing="ij")
        numbers = np.stack(grids, -1).reshape(-1, 3)
        log_chances = np.zeros(len(numbers))
        left, places = self.num_train, np.full(len(numbers), self.batch_size)
        for kind, count in enumerate(self.counts):
            drawn = numbers[:, kind]
            if self.poisson:
                log_chances += binom.logpmf(drawn, count, self.mechanism.sampling_rate)
            else:
                log_chances += hypergeom.logpmf(drawn, left, count, places)
                left, places = left - count, places - drawn
        kept = log_chances > math.log(_LEAST_CHANCE)
        return numbers[kept], log_chances[kept]

    @property
    def bystanders(self) -> int:
        """How many training nodes look the same in both worlds: those behind the changed rows."""
        return self.num_train - sum(self.counts)

    def graph(self, world: str) -> Graph:
        """A world: r, rows that gain it, that lose it, bystanders, and the nodes which these list.
        All but the last are training nodes."""
        gained, lost, own = self.counts
        changed = 1 + gained + lost
        first = changed + self.bystanders
        listed = first + np.arange(_LISTED if self.bystanders else 0)
        rows = [[]] * changed + [listed] * self.bystanders
        if not self.poisson:
            # A node of its own for every changed row, which is listed whatever the world.
            rows[:changed] = ([first + len(listed) + row] for row in range(changed))
        for row in self.kinds[0 if world == "present" else 1]:
            rows[row] = [0, *rows[row]]
        rows += [[]] * int(np.max([max(row, default=0) for row in rows]) + 1 - len(rows))
        labels = np.zeros(len(rows), np.int64)
        labels[self.kinds[1]] = 1
        labels[0] = int(own and world == "present")
        indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
        return graph_of(indptr, np.concatenate(rows).astype(np.int32), labels=labels)

    @property
    def train(self) -> np.ndarray:
        """The training nodes; where row r does not change, it is not among them."""
        first = 1 - self.counts[2]
        return np.arange(first, first + self.num_train)


def phase_scores(phase: Phase, world: str, draws: int, seed: int) -> np.ndarray:
    """Log-likelihood ratios of `draws` training runs in one world: float64 (draws,).

    In every round the attacker, who knows W, b and both graphs, takes the noisy sum's part along
    the move of the whole group (bystanders, all equal, are projected out of it). Given how many
    changed rows of each kind are in the batch that part is Gaussian; the ratio is that of the
    mixtures over these numbers.
    """
    import torch

    from graphdp.methods.dpdgc.network import EmbeddingGradient
    from graphdp.training.sparse_rows import SparseRows

    like = torch.empty(0)
    graphs = {name: phase.graph(name) for name in ("present", "absent")}
    rows = {name: SparseRows(g.indptr, g.indices, None, like) for name, g in graphs.items()}
    labels = {name: torch.tensor(graph.y) for name, graph in graphs.items()}
    numbers, log_chances = phase.chances
    variance = phase.noise_std**2
    scores = np.zeros(draws)

    def names(run: int) -> tuple[int | str, ...]:
        return "audit", seed, "embedding", world, run

    def head(run: int) -> tuple[np.ndarray, np.ndarray]:
        """As the stage makes it."""
        of = key(phase.setting)
        if phase.poisson:
            return dpdgc.head(HIDDEN, CLASSES, (*names(run), "embedding", of, "head"))
        return dpdgc.official_head(HIDDEN, CLASSES, (*names(0), "head", of))

    def project(run: int, values) -> tuple[torch.Tensor, np.ndarray, np.ndarray]:
        """The direction (P,), and along it the mean gradient of each kind in both worlds (3,)."""
        fixed = tuple(torch.from_numpy(part).float() for part in head(run))
        networks = {
            name: EmbeddingGradient(rows[name], labels[name], fixed, values) for name in graphs
        }

        def gradient(name: str, nodes: np.ndarray) -> torch.Tensor:
            found = torch.zeros_like(values)
            if len(nodes):
                networks[name].add(torch.from_numpy(nodes), found, phase.max_grad_norm)
            return found

        present, absent = (
            torch.stack([gradient(name, nodes) for nodes in phase.kinds]) for name in graphs
        )
        direction = (present - absent).sum(0)
        if phase.bystanders:
            other = gradient("present", np.array([1 + sum(phase.counts[:2])]))
            direction -= (direction @ other) / (other @ other) * other
        direction /= direction.norm()
        each = np.maximum(phase.counts, 1)
        return direction, (present @ direction).numpy() / each, (absent @ direction).numpy() / each

    known: dict[int, tuple] = {}

    def observe(_, runs, values, noisy_sum):
        (run,) = runs
        if run not in known:
            known.clear()
            direction, *moves = project(run, values)
            known[run] = direction, *(numbers @ move.astype(float) for move in moves)
        direction, *means = known[run]
        found = float(noisy_sum @ direction)
        present, absent = (
            np.logaddexp.reduce(log_chances - (found - mean) ** 2 / (2 * variance))
            for mean in means
        )
        scores[run] += present - absent

    block = audit_block(
        phase.entry,
        graphs[world],
        range(draws),
        names,
        Split(phase.train, phase.train[:0], phase.train[:0]),
        observe,
    )
    embedded(block, phase.setting)
    return scores


def embedded(
    block: AuditBlock, setting: dict[str, Any], trained: dpdgc.Trained | None = None
) -> dict[str, np.ndarray]:
    """Run the stage on a block: what it returns. Refuses other noise than the plan accounts, as a
    job does.

    trained: as the stage takes it, in place of its own training.
    """
    with brief():
        found = dpdgc.embed(block, [setting], trained)
    for run in block.seeds:
        executed = execution.unpacked(found, dpdgc.embedding_name(run, setting))
        calibrated.check_execution(block.entry({}, run), executed)
    return found
