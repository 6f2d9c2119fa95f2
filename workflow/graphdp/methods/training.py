"""How the models of a block train: grouped by shape, by the rounds that their plans account."""

from collections.abc import Callable
from typing import Any

from graphdp.ensemble import DPAdam, FullBatch, Member, train
from graphdp.methods.block import Block, Run
from graphdp.methods.settings import key
from graphdp.privacy.plan import dpsgd_rounds


def train_runs(
    block: Block,
    runs: list[Run],
    purpose: str,
    *,
    network: Callable[[dict[str, Any]], Any],
    noise: Callable[[int, dict[str, Any]], float],
    features: Callable[[list[Run]], Any],
    initial: Callable[[int, dict[str, Any]], dict[str, Any]] | None = None,
    train_history: bool = False,
) -> list[Any]:
    """Train one model per run, those of equal shape together; returns them in the order of `runs`.

    Levels none and edge train with full batches; level node with DP-Adam, for exactly the rounds
    that `dpsgd_rounds` gives the plan: Poisson samples, or of a fixed size under node_replace.
    `network(setting)` states a model's shape, `noise(seed, setting)` its noise multiplier at node
    level, `features(runs)` the inputs of a group of runs, `initial(seed, setting)` the parameters
    that a model starts from (none: all are drawn); `purpose` names the streams and the log lines.
    """
    private = block.level == "node"

    def training(seed: int, setting: dict[str, Any]) -> Any:
        epochs = setting["epochs"]
        if not private:
            return FullBatch(epochs)
        num_train = block.split(seed).train.size
        batch_size = min(setting["batch_size"], num_train)
        sampling_rate, steps = dpsgd_rounds(num_train, batch_size, epochs)
        sampling = "fixed" if setting.get("adjacency") == "node_replace" else "poisson"
        clip = setting["max_grad_norm"]
        return DPAdam(epochs, batch_size, sampling_rate, steps, clip, sampling=sampling)

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
                    initial=initial(seed, setting) if initial else {},
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
            train_history=train_history,
            posteriors=block.posteriors,
        )
        for index, model in zip(indices, fitted, strict=True):
            models[index] = model
    return models
