"""What every stage of a method is given: a block of seeds of one cell, and how its models train."""

import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from graphdp import io
from graphdp.data.graph import Graph
from graphdp.data.split import Split
from graphdp.methods.settings import key
from graphdp.privacy import cells
from graphdp.privacy.plan import dpsgd_rounds

Run = tuple[int, dict[str, Any]]  # a repeat's seed and one hyperparameter setting


def block_seeds(token: str) -> list[int]:
    """The seeds of a block token: "5-7" -> [5, 6, 7]."""
    first, last = map(int, token.split("-"))
    return list(range(first, last + 1))


@dataclass(frozen=True)
class Block:
    """A block of seeds of one cell (dataset, method, level, ε) with what its models share.

    `calibrations` are the entries of the cell's calibration file (empty where a stage needs none).
    """

    graph: Graph
    dataset: str
    method: str
    level: str
    epsilon: str
    seeds: list[int]
    study_seed: int
    split_rule: str
    checkpoint: str = "best_validation"
    device: str = "cpu"
    memory_mb: int = 3000
    calibrations: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of_job(cls, job: Any) -> "Block":
        """The block that a job of the workflow works on.

        `job` has Snakemake's script attributes: `wildcards`, `input`, `params`, `config`.
        """
        names, calibration = job.wildcards, job.input.get("calibration")
        return cls(
            graph=Graph.load(job.input.graph),
            dataset=names.dataset,
            method=names.method,
            level=names.level,
            epsilon=names.epsilon,
            seeds=block_seeds(names.block),
            study_seed=job.params.study_seed,
            split_rule=job.params.split,
            checkpoint=job.params.get("checkpoint", "last"),
            device=job.config["device"],
            memory_mb=job.config["memory_mb"],
            calibrations=io.read_json(calibration) if calibration else [],
        )

    def split(self, seed: int) -> Split:
        """The split of a repeat: the study's one split, or the repeat's own."""
        return cells.split_of(
            self.graph.raw_num_nodes, self.graph.node_ids, self.study_seed, self.split_rule, seed
        )

    def noise_multiplier(self, plan_settings: dict[str, Any], seed: int) -> float:
        """The calibrated noise multiplier for a plan's settings and a repeat's split.

        0 at ε = inf. Raises `GraphDPError` if the calibration file has no such entry.
        """
        entry = cells.lookup(self.calibrations, plan_settings, self.split(seed).train.size)
        return cells.noise_multiplier(entry)

    def stream(self, seed: int, *purpose: int | float | str) -> tuple:
        """The name of a repeat's random stream for a purpose (see `graphdp.rng`)."""
        return (
            self.study_seed, seed, self.dataset, self.method, self.level, self.epsilon, *purpose,
        )  # fmt: skip

    def trained_on(self) -> str:
        """The name of the device that `device` stands for: the CPU's architecture or the GPU's."""
        import torch

        if self.device == "cpu" or not torch.cuda.is_available():
            return f"cpu ({platform.machine()})"
        return torch.cuda.get_device_name()

    def runs(self, settings: list[dict[str, Any]]) -> list[Run]:
        """Every seed of the block x setting."""
        return [(seed, setting) for setting in settings for seed in self.seeds]


def train_runs(
    block: Block,
    runs: list[Run],
    purpose: str,
    *,
    network: Callable[[dict[str, Any]], Any],
    noise: Callable[[int, dict[str, Any]], float],
    features: Callable[[list[Run]], Any],
) -> list[Any]:
    """Train one model per run, those of equal shape together; returns them in the order of `runs`.

    Levels none and edge train with full batches; level node with DP-Adam, for exactly the Poisson
    rounds that `dpsgd_rounds` gives the plan. `network(setting)` states a model's shape,
    `noise(seed, setting)` its noise multiplier at node level, `features(runs)` the inputs of a
    group of runs; `purpose` names the streams and the log lines.
    """
    from graphdp.ensemble import FullBatch, Member, PoissonDP, train

    private = block.level == "node"

    def training(seed: int, setting: dict[str, Any]) -> Any:
        epochs = setting["epochs"]
        if not private:
            return FullBatch(epochs)
        num_train = block.split(seed).train.size
        batch_size = min(setting["batch_size"], num_train)
        sampling_rate, steps = dpsgd_rounds(num_train, batch_size, epochs)
        return PoissonDP(epochs, batch_size, sampling_rate, steps, setting["max_grad_norm"])

    groups: dict[Any, list[int]] = {}
    for index, (seed, setting) in enumerate(runs):
        groups.setdefault((network(setting), training(seed, setting)), []).append(index)

    models: list[Any] = [None] * len(runs)
    for (shape, rounds), indices in groups.items():
        members = []
        for seed, setting in (runs[i] for i in indices):
            nodes = block.split(seed)
            members.append(
                Member(
                    stream=block.stream(seed, purpose, key(setting)),
                    learning_rate=setting["learning_rate"],
                    noise_multiplier=noise(seed, setting) if private else 0.0,
                    train=nodes.train,
                    val=nodes.val,
                    test=nodes.test,
                )
            )
        fitted = train(
            shape,
            features([runs[i] for i in indices]),
            block.graph.y,
            members,
            rounds,
            checkpoint=block.checkpoint,
            device=block.device,
            memory_mb=block.memory_mb,
            label=purpose,
        )
        for index, model in zip(indices, fitted, strict=True):
            models[index] = model
    return models
