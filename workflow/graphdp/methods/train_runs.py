"""How the models of a block train: grouped by shape, by the rounds that their plans account."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from graphdp.methods.block import Block, Run
from graphdp.methods.settings import key
from graphdp.privacy import calibrated
from graphdp.privacy.calibrated import Phase
from graphdp.privacy.protection import protects_nodes
from graphdp.training import DPAdam, FullBatch, Member, train


def train_runs(
    block: Block,
    runs: list[Run],
    purpose: str,
    *,
    network: Callable[[dict[str, Any]], Any],
    phase: str,
    entry: Callable[[int, dict[str, Any]], dict[str, Any]],
    features: Callable[[list[Run]], Any],
    initial: Callable[[int, dict[str, Any]], dict[str, Any]] | None = None,
    train_history: bool = False,
) -> list[Any]:
    """Train one model per run, those of equal shape together; returns them in the order of `runs`.

    Where nodes are protected, with DP-Adam: rate, rounds, clip, kind of sampling, divisor and σ are
    those of the plan's `phase`, and a model's `executed` says by that name what was done. Else with
    full batches, and `executed` is empty.

    `network(setting)` states a model's shape, `entry(seed, setting)` the calibration that its noise
    is of, `features(runs)` the inputs of a group of runs, `initial(seed, setting)` the parameters
    that a model starts from (none: all are drawn); `purpose` names the streams and the log lines.
    """

    def noise(seed: int, setting: dict[str, Any]) -> Phase | None:
        private = protects_nodes(block.level)
        return calibrated.phase(entry(seed, setting), phase) if private else None

    def training(setting: dict[str, Any], planned: Phase | None) -> FullBatch | DPAdam:
        if planned is None:
            return FullBatch(setting["epochs"])
        run = planned.run
        return DPAdam(
            setting["epochs"],
            run.batch_size,
            run.sampling_rate,
            run.count,
            run.max_grad_norm,
            sampling=run.sampling,
            noise_unit=planned.noise_unit,
        )

    noises = [noise(*run) for run in runs]
    groups: dict[Any, list[int]] = {}
    for index, (_, setting) in enumerate(runs):
        rounds = training(setting, noises[index])
        groups.setdefault((network(setting), rounds), []).append(index)

    models: list[Any] = [None] * len(runs)
    for (shape, rounds), indices in groups.items():
        members = []
        for seed, setting, planned in ((*runs[i], noises[i]) for i in indices):
            nodes = block.split(seed)
            members.append(
                Member(
                    stream=block.stream(seed, purpose, key(setting)),
                    learning_rate=setting["learning_rate"],
                    noise_multiplier=planned.noise_multiplier if planned else 0.0,
                    train=nodes.train,
                    val=nodes.val,
                    test=nodes.test,
                    initial=initial(seed, setting) if initial else {},
                )
            )

        def watch(chunk: list[int], *noisy_round: Any, indices=indices) -> None:
            block.observe(phase, [runs[indices[i]][0] for i in chunk], *noisy_round)

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
            train_history=train_history,
            posteriors=block.posteriors,
            noise=block.noise_source,
            observe=watch if block.observe else None,
        )
        for index, model in zip(indices, fitted, strict=True):
            executed = {phase: model.executed} if model.executed else {}
            models[index] = replace(model, executed=executed)
    return models
