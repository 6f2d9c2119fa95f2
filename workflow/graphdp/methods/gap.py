"""GAP: graph neural networks with aggregation perturbation (Sajadmanesh et al., 2023).

Algorithm 2, in three stages that the workflow runs as jobs of their own:

1. encode      an MLP is trained on features and labels alone; X⁰ = its row-normalised output
2. aggregate   Algorithm 1 (PMA): for k = 1..K:  Xᵏ = normalise(Aᵀ Xᵏ⁻¹ + N(0, σ²))
3. fit         one base layer per hop on X⁰..Xᴷ, concatenated, then a linear head

At edge level only stage 2 reads what is protected (the edges); 1 and 3 are trained without noise.
At node level the out-degrees are bounded by D (`graphdp.degree` has two bounds), and stages 1 and 3
are DP-Adam with the same noise multiplier. With `adjacency: node_replace` that is GAP as DPDGC's
baseline (Chien et al. 2023, Algorithm 1 and Theorem 5.1): σ for 2√D, batches of a fixed size.
`graphdp.privacy.plans.gap_plan` states all of it.
"""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, field_validator
from scipy.sparse import issparse

from graphdp.errors import GraphDPError
from graphdp.methods.block import Block, Run
from graphdp.methods.settings import (
    DROPOUT,
    FullBatchTraining,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ReplaceableTraining,
    key,
)
from graphdp.privacy import cells

HOPS = Field(2, description="K, the number of aggregations")
ENCODER_LAYERS = Field(2, description="layers of the encoder; 0 aggregates the features themselves")
ENCODER_RATE = Field(None, description="the encoder's step size, if not `learning_rate`")


class Public(FullBatchTraining):
    """GAP-∞ and GAP-EDP: features and labels are public."""

    hops: PositiveInt = HOPS
    encoder_layers: NonNegativeInt = ENCODER_LAYERS
    encoder_learning_rate: PositiveFloat | None = ENCODER_RATE
    dropout: float | None = DROPOUT


class Node(ReplaceableTraining):
    """GAP-NDP."""

    hops: PositiveInt = HOPS
    max_degree: PositiveInt = Field(100, description="D, the bound on every out-degree")
    degree_bound: Literal["sampling", "public_candidates"] | None = Field(
        "sampling",
        validate_default=True,
        description="what keeps D: sampling of the node's edges (as published), or "
        "public_candidates, D ids drawn without them (holds when a node is added or removed)",
    )
    encoder_layers: NonNegativeInt = ENCODER_LAYERS
    encoder_learning_rate: PositiveFloat | None = ENCODER_RATE

    @field_validator("degree_bound")
    @classmethod
    def _published_one_is_not_named(cls, value: str | None) -> str | None:
        return None if value == "sampling" else value


LEVELS = {"none": Public, "edge": Public, "node": Node}
STAGES = ("encode", "aggregate")
USES_GRAPH = True


def plan_settings(level: str, setting: dict[str, Any]) -> dict[str, Any]:
    """What the plan reads of a setting."""
    if level != "node":
        return {"hops": setting["hops"]}
    names = ("hops", "max_degree", "epochs", "batch_size", "max_grad_norm", *_OF_PLAN)
    return _part(setting, names) | {"encoder": setting["encoder_layers"] > 0}


def encoder_settings(level: str, setting: dict[str, Any]) -> dict[str, Any] | None:
    """What determines the encoder of a setting; None for a setting without an encoder.

    At node level that includes K, which the shared noise multiplier depends on, but not D.
    """
    if setting["encoder_layers"] == 0:
        return None
    names = ["hidden", "encoder_layers", "epochs", "dropout"]
    if level == "node":
        names += ["hops", "batch_size", "max_grad_norm", "adjacency"]
    rate = setting.get("encoder_learning_rate", setting["learning_rate"])
    return _part(setting, names) | {"learning_rate": rate}


def release_settings(level: str, setting: dict[str, Any]) -> dict[str, Any]:
    """What determines the noisy aggregates of a setting: encoder, plan (hence noise), K and D."""
    names = ("hops", "max_degree", *_OF_PLAN) if level == "node" else ("hops",)
    return {
        "encoder": encoder_settings(level, setting),
        "plan": plan_settings(level, setting),
    } | _part(setting, names)


#: Hyperparameters that a setting names only where they are not as GAP publishes them.
_OF_PLAN = ("degree_bound", "adjacency")
_UNNAMED = (*_OF_PLAN, "dropout")


def _part(setting: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The named hyperparameters of a setting."""
    return {name: setting[name] for name in names if name in setting or name not in _UNNAMED}


def encode(block: Block, settings: list[dict[str, Any]]) -> dict[str, Any]:
    """Stage 1: train the encoders of every seed x encoder setting.

    Returns `encoder_name(seed, setting)` -> X⁰, float32 (n, hidden) with rows of norm 1.
    """
    from graphdp.ensemble import Encoder
    from graphdp.methods.training import train_runs

    graph, runs = block.graph, block.runs(settings)

    def network(setting: dict[str, Any]) -> Encoder:
        shape = graph.num_features, setting["hidden"], setting["encoder_layers"], graph.num_classes
        dropout = setting.get("dropout", 0.0)
        return Encoder(*shape, batch_norm=block.level != "node", dropout=dropout)

    models = train_runs(
        block,
        runs,
        "encoder",
        network=network,
        noise=lambda seed, s: cells.noise_multiplier(_encoder_entry(block, seed, s)),
        features=lambda runs: graph.x,
    )
    embeddings = {}
    for (seed, setting), model in zip(runs, models, strict=True):
        if block.level == "node":
            cells.check_rounds(_encoder_entry(block, seed, setting), "encoder", model.rounds)
        embeddings[encoder_name(seed, setting)] = model.embedding
    return embeddings


def encoder_name(seed: int, setting: dict[str, Any]) -> str:
    """The name of an encoder's embedding in the encoders' file."""
    return f"{seed}:{key(setting)}"


def _encoder_entry(block: Block, seed: int, setting: dict[str, Any]) -> dict[str, Any]:
    """The calibration of a node-level encoder.

    The plans that share an encoder differ in D and its kind alone, which scale the noise of the
    aggregation and not the shared multiplier; so the calibration for any D is the encoder's.
    """
    shared = ("hops", "epochs", "batch_size", "max_grad_norm", "adjacency")
    for entry in block.calibrations:
        plan = entry["settings"]
        if plan["encoder"] and all(plan.get(name) == setting.get(name) for name in shared):
            return cells.lookup(block.calibrations, plan, block.split(seed).train.size)
    raise GraphDPError(
        f"no calibration for the encoder {key(setting)}; run the calibrate rule again"
    )


def aggregate(block: Block, settings: list[dict[str, Any]], encoders, masks, cache) -> list[dict]:
    """Stage 2: release the aggregates of every seed x release setting, each once.

    encoders: name -> X⁰, as `encode` returns; masks: `degree.bound_name` -> seed -> kept edges,
    bool (m,).
    Returns one record per release: `seed`, `settings` and the `key` under which `cache` holds
    Xᵏ for k = 1..K, float32 (K, n, d).
    """
    from graphdp.aggregation import Release
    from graphdp.methods.releases import release_runs

    def release(seed: int, setting: dict[str, Any]) -> Release:
        return Release(
            x0=initial_features(block.graph, encoders, seed, setting["encoder"]),
            hops=setting["hops"],
            noise_std=block.noise_std(setting["plan"], seed, "aggregation"),
            private=block.epsilon != "inf",
            stream=block.stream(seed, "aggregation", key(setting)),
        )

    runs = block.runs(settings)
    keys = release_runs(block, runs, masks, cache, release)
    return [
        {"seed": seed, "settings": setting, "key": name}
        for (seed, setting), name in zip(runs, keys, strict=True)
    ]


def initial_features(graph, encoders, seed: int, encoder: dict[str, Any] | None):
    """X⁰: the encoder's output, or the row-normalised features where there is no encoder."""
    from graphdp import aggregation

    if encoder is not None:
        return encoders[encoder_name(seed, encoder)]
    return aggregation.normalize_rows(graph.x.toarray() if issparse(graph.x) else graph.x)


def fit(
    block: Block, settings: list[dict[str, Any]], encoders, releases: list[dict], cache
) -> list[tuple[int, dict[str, Any], Any]]:
    """Stage 3: train the classifiers of every seed x setting on X⁰ and the cached aggregates.

    releases: the records that `aggregate` returned. Reads no edge.
    Returns (seed, setting, fitted model) triples.
    """
    from graphdp.ensemble import HopClassifier
    from graphdp.methods.training import train_runs

    graph, runs = block.graph, block.runs(settings)
    released = {(r["seed"], key(r["settings"])): r["key"] for r in releases}

    def network(setting: dict[str, Any]) -> HopClassifier:
        width = setting["hidden"] if setting["encoder_layers"] else graph.num_features
        shape = setting["hops"], width, setting["hidden"], graph.num_classes
        dropout = setting.get("dropout", 0.0)
        return HopClassifier(*shape, batch_norm=block.level != "node", dropout=dropout)

    def features(runs: list[Run]) -> list[list]:
        inputs = []
        for seed, setting in runs:
            release = release_settings(block.level, setting)
            x0 = initial_features(graph, encoders, seed, release["encoder"])
            inputs.append([x0, *cache.load(released[seed, key(release)])])
        return inputs

    models = train_runs(
        block,
        runs,
        "classifier",
        network=network,
        noise=lambda seed, s: block.noise_multiplier(plan_settings(block.level, s), seed),
        features=features,
    )
    return [(*run, model) for run, model in zip(runs, models, strict=True)]
