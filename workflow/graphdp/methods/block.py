"""What every stage of a method is given: a block of seeds of one cell."""

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from graphdp import io
from graphdp.data.split import Split, split_of
from graphdp.errors import GraphDPError
from graphdp.graphs.bounds import parse_bound
from graphdp.keys import published_hash
from graphdp.privacy import calibrated
from graphdp.privacy.calibrated import Phase

if TYPE_CHECKING:  # every start of Snakemake reads this module
    from graphdp.data.graph import Graph
    from graphdp.noise import Noise, NoiseSource

Run = tuple[int, dict[str, Any]]  # a repeat's seed and one hyperparameter setting
#: (phase, seeds of the models that are trained together, their parameters before the step, their
#: noisy sums of clipped gradients): what a noisy round computes and releases. Parameters and sums
#: are the trainer's own objects. Where rows are summed: the rows that are sent, and their sums.
Observer = Callable[[str, list[int], Any, Any], None]


@dataclass(frozen=True)
class Block:
    """A block of seeds of one cell (dataset, method, level, ε) with what its models share.

    A stage of the graph alone has no method, level, ε and split. `calibrations` are the entries of
    the cell's calibration file (empty where a stage needs none).
    `posteriors`: whether its models keep every node's class probabilities. `study`: its name.
    `release`: "reproduction" or "private"; then `secret` (`graphdp.keys.root`) names all streams
    in place of the study seed. `announced`: the number of training nodes that sampling rate and
    steps are computed from, if it is not the true one.
    For audits alone, `observe`: called in every noisy round before its step is taken; `noise`: what
    draws the noise of the rounds, in place of `graphdp.noise`.
    """

    graph: "Graph"
    dataset: str
    seeds: list[int]
    study_seed: int
    method: str = ""
    level: str = ""
    epsilon: str = ""
    split_rule: str = ""
    checkpoint: str = "best_validation"
    device: str = "cpu"
    memory_mb: int = 3000
    calibrations: list[dict[str, Any]] = field(default_factory=list)
    posteriors: bool = False
    study: str = ""
    release: str = "reproduction"
    secret: str = field(default="", repr=False)
    announced: int | None = None
    observe: Observer | None = None
    noise: "NoiseSource | None" = None

    def split(self, seed: int) -> Split:
        """The split of a repeat: the study's one split, or the repeat's own."""
        return split_of(self.graph, self.root, self.split_rule, seed)

    def num_train(self, seed: int) -> int:
        """The number of training nodes that plans are made for: as announced, or of the split."""
        return self.announced or self.split(seed).train.size

    @property
    def root(self) -> int | str:
        """What names all streams."""
        if self.release == "private" and not self.secret:
            raise GraphDPError("a private release without its key: report a bug")
        return self.secret or self.study_seed

    def entry(self, plan_settings: dict[str, Any], seed: int) -> dict[str, Any]:
        """The calibration of a plan's settings and a repeat's split.

        Raises `GraphDPError` if the calibration file has no such entry.
        """
        return calibrated.lookup(self.calibrations, plan_settings, self.num_train(seed))

    def phase(self, plan_settings: dict[str, Any], seed: int, name: str) -> Phase | None:
        """A phase of the plan with its noise, for a repeat's split; None at ε = inf.

        Raises `GraphDPError` if there is no such entry, or the plan has noise but no such phase.
        """
        return calibrated.phase(self.entry(plan_settings, seed), name)

    def stream(self, seed: int, *purpose: int | float | str) -> tuple:
        """The name of a repeat's random stream for a purpose (see `graphdp.rng`).

        It holds split rule and checkpoint: studies that differ there share no noise, which their
        releases together would reveal. Noise is named by `noise_stream`.
        """
        return (
            self.root, seed, self.dataset, self.method, self.level, self.epsilon,
            self.split_rule, self.checkpoint, *purpose,
        )  # fmt: skip

    def noise_stream(self, seed: int, *purpose: int | float | str) -> tuple:
        """As `stream`, with the graph itself: a graph of one name that differs in one edge shares
        no noise either. What is no noise must not depend on the graph, and does not."""
        return *self.stream(seed, *purpose), self.data

    def noise_source(self, names: Sequence[tuple]) -> "Noise":
        """The noise of rounds (a `graphdp.noise.NoiseSource`): of streams of `names` and the
        graph."""
        from graphdp.noise import GridNoise

        return (self.noise or GridNoise)([(*name, self.data) for name in names])

    @cached_property
    def data(self) -> str:
        """The data as they name noise: the graph, and the ids, by which its nodes are split.

        Of a private release also the size of their universe, which decides whom public candidates
        leave: other edges are not to have the same noise. (A reproduction's noise is public.)
        """
        name = f"{self.fingerprint} {io.sha256_arrays(self.graph.ids)}"
        return f"{name} {self.graph.num_ids}" if self.release == "private" else name

    @cached_property
    def fingerprint(self) -> str:
        """Hex SHA-256 of the graph."""
        return self.graph.fingerprint()

    def degree_stream(self, seed: int, bound: str) -> tuple:
        """The name of the random stream of a degree bound: of no method, so that all share it."""
        return self.root, seed, self.dataset, "degree", parse_bound(bound)[0]

    def trained_on(self) -> str:
        """The name of the device that `device` stands for: the CPU's architecture or the GPU's."""
        import torch

        if self.device == "cpu" or not torch.cuda.is_available():
            return f"cpu ({platform.machine()})"
        return torch.cuda.get_device_name()

    def origin(self) -> dict[str, str]:
        """What a model of the block came from, as its row says it.

        `release`; `study_seed`, the root of every random stream; `split`, the split's rule;
        `graph`, the first 12 hexadecimal digits of the graph's fingerprint, in a private release
        of a hash of it that the secret keys.
        """
        return {
            "release": self.release,
            "study_seed": str(self.study_seed),
            "split": self.split_rule,
            "graph": published_hash(self.secret, self.fingerprint)[:12],
        }

    def runs(self, settings: list[dict[str, Any]]) -> list[Run]:
        """Every seed of the block x setting."""
        return [(seed, setting) for setting in settings for seed in self.seeds]
