"""What every stage of a method is given: a block of seeds of one cell."""

import platform
from dataclasses import dataclass, field
from typing import Any

from graphdp import io, job, methods
from graphdp.data.graph import Graph
from graphdp.data.split import Split
from graphdp.privacy import cells

Run = tuple[int, dict[str, Any]]  # a repeat's seed and one hyperparameter setting


@dataclass(frozen=True)
class Block:
    """A block of seeds of one cell (dataset, method, level, ε) with what its models share.

    `calibrations` are the entries of the cell's calibration file (empty where a stage needs none).
    `posteriors`: whether its models keep every node's class probabilities.
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
    posteriors: bool = False

    @classmethod
    def of_job(cls, snakemake: Any) -> "Block":
        """The block that a job of the workflow works on.

        `snakemake` has Snakemake's script attributes: `wildcards`, `input`, `params`, `config`.
        """
        names, calibration = snakemake.wildcards, snakemake.input.get("calibration")
        return cls(
            graph=Graph.load(snakemake.input.graph),
            dataset=names.dataset,
            method=names.method,
            level=names.level,
            epsilon=names.epsilon,
            seeds=job.block_seeds(names.block),
            study_seed=snakemake.params.study_seed,
            split_rule=snakemake.params.split,
            checkpoint=methods.checkpoint(names.method, names.level, snakemake.params.checkpoint),
            device=snakemake.config["device"],
            memory_mb=snakemake.config["memory_mb"],
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
        return cells.noise_multiplier(self._calibration(plan_settings, seed))

    def noise_std(self, plan_settings: dict[str, Any], seed: int, phase: str) -> float:
        """σ of the noisy sums of a phase of the plan: noise multiplier x the plan's sensitivity.

        0 at ε = inf. Raises `GraphDPError` if the calibration file has no such entry or phase.
        """
        return cells.noise_std(self._calibration(plan_settings, seed), phase)

    def _calibration(self, plan_settings: dict[str, Any], seed: int) -> dict[str, Any]:
        return cells.lookup(self.calibrations, plan_settings, self.split(seed).train.size)

    def stream(self, seed: int, *purpose: int | float | str) -> tuple:
        """The name of a repeat's random stream for a purpose (see `graphdp.rng`).

        It holds split rule and checkpoint: studies that differ there share no noise, which their
        releases together would reveal.
        """
        return (
            self.study_seed, seed, self.dataset, self.method, self.level, self.epsilon,
            self.split_rule, self.checkpoint, *purpose,
        )  # fmt: skip

    def trained_on(self) -> str:
        """The name of the device that `device` stands for: the CPU's architecture or the GPU's."""
        import torch

        if self.device == "cpu" or not torch.cuda.is_available():
            return f"cpu ({platform.machine()})"
        return torch.cuda.get_device_name()

    def origin(self) -> dict[str, str]:
        """What a model of the block came from, as its row says it.

        `study_seed`, the root of every random stream; `split`, the split's rule; `graph`, the first
        12 hexadecimal digits of the graph's fingerprint.
        """
        return {
            "study_seed": str(self.study_seed),
            "split": self.split_rule,
            "graph": self.graph.fingerprint()[:12],
        }

    def runs(self, settings: list[dict[str, Any]]) -> list[Run]:
        """Every seed of the block x setting."""
        return [(seed, setting) for setting in settings for seed in self.seeds]
