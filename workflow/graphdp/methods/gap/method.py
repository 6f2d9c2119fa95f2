"""GAP: graph neural networks with aggregation perturbation (Sajadmanesh et al., 2023).

Algorithm 2, in three stages that the workflow runs as jobs of their own:

1. encode      an MLP is trained on features and labels alone; X⁰ = its row-normalised output
2. aggregate   Algorithm 1 (PMA): for k = 1..K:  Xᵏ = normalise(Aᵀ Xᵏ⁻¹ + N(0, σ²))
3. fit         one base layer per hop on X⁰..Xᴷ, concatenated, then a linear head

At edge level only stage 2 reads what is protected (the edges); 1 and 3 are trained without noise.
At node level the out-degrees are bounded by D (`graphdp.graphs.degree` has two bounds), and stages
1 and 3 are DP-Adam with the same noise multiplier. With `adjacency: node_replace` that is GAP as
DPDGC's baseline (Chien et al. 2023, Algorithm 1 and Theorem 5.1): σ for 2√D, batches of a fixed
size. `plan.py` states all of it.
"""

from dataclasses import replace
from typing import Any

from scipy.sparse import issparse

from graphdp.errors import GraphDPError
from graphdp.methods.block import Block, Run
from graphdp.methods.gap import plan_settings, release_settings
from graphdp.methods.settings import key
from graphdp.privacy import execution
from graphdp.privacy.execution import Execution
from graphdp.privacy.protection import protects_nodes


def encode(block: Block, settings: list[dict[str, Any]]) -> dict[str, Any]:
    """Stage 1: train the encoders of every seed x encoder setting.

    Returns `encoder_name(seed, setting)` -> X⁰, float32 (n, hidden) with rows of norm 1, beside
    each with what noise it was trained, if any (`execution.packed`), and its parameters.
    """
    from graphdp.methods.train_runs import train_runs
    from graphdp.training import Encoder

    graph, runs = block.graph, block.runs(settings)

    def network(setting: dict[str, Any]) -> Encoder:
        shape = graph.num_features, setting["hidden"], setting["encoder_layers"], graph.num_classes
        dropout = setting.get("dropout", 0.0)
        return Encoder(*shape, batch_norm=not protects_nodes(block.level), dropout=dropout)

    models = train_runs(
        block,
        runs,
        "encoder",
        network=network,
        phase="encoder",
        entry=lambda seed, s: _encoder_entry(block, seed, s),
        features=lambda runs: graph.x,
    )
    embeddings = {}
    for run, model in zip(runs, models, strict=True):
        embeddings[encoder_name(*run)] = model.embedding
        embeddings |= execution.packed(encoder_name(*run), model.executed)
        for name, value in model.parameters.items():
            embeddings[f"{encoder_name(*run)} encoder.{name}"] = value
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
            return block.entry(plan, seed)
    raise GraphDPError(
        f"no calibration for the encoder {key(setting)}; run the calibrate rule again"
    )


def aggregate(block: Block, settings: list[dict[str, Any]], encoders, masks, cache) -> list[dict]:
    """Stage 2: release the aggregates of every seed x release setting, each once.

    encoders: name -> X⁰, as `encode` returns; masks: `bounds.bound_name` -> seed -> kept edges,
    bool (m,).
    Returns one record per release: `seed`, `settings`, the `key` under which `cache` holds
    Xᵏ for k = 1..K, float32 (K, n, d), and what noise was `executed` (null for none).
    """
    from graphdp.methods.release_runs import release_runs
    from graphdp.releases.aggregation import Release

    def release(seed: int, setting: dict[str, Any]) -> Release:
        planned = block.phase(setting["plan"], seed, "aggregation")
        return Release(
            x0=initial_features(block.graph, encoders, seed, setting["encoder"]),
            hops=setting["hops"] if planned is None else planned.run.count,
            noise_std=planned.run.noise_std if planned else 0.0,
            private=planned is not None,
            stream=block.noise_stream(seed, "aggregation", key(setting)),
            sensitivity=planned.run.sensitivity if planned else 0.0,
        )

    runs = block.runs(settings)
    made = release_runs(block, runs, masks, cache, release)
    return [
        {
            "seed": seed,
            "settings": setting,
            "key": name,
            "executed": drawn.to_dict() if drawn else None,
        }
        for (seed, setting), (name, drawn) in zip(runs, made, strict=True)
    ]


def initial_features(graph, encoders, seed: int, encoder: dict[str, Any] | None):
    """X⁰: the encoder's output, or the row-normalised features where there is no encoder."""
    from graphdp.releases import aggregation

    if encoder is not None:
        return encoders[encoder_name(seed, encoder)]
    return aggregation.normalize_rows(graph.x.toarray() if issparse(graph.x) else graph.x)


def fit(
    block: Block, settings: list[dict[str, Any]], encoders, releases: list[dict], cache
) -> list[tuple[int, dict[str, Any], Any]]:
    """Stage 3: train the classifiers of every seed x setting on X⁰ and the cached aggregates.

    releases: the records that `aggregate` returned. Reads no edge.
    Returns (seed, setting, fitted model) triples; a model has its encoder's parameters as well.
    """
    from graphdp.methods.train_runs import train_runs
    from graphdp.training import HopClassifier

    graph, runs = block.graph, block.runs(settings)
    released = {(r["seed"], key(r["settings"])): r for r in releases}

    def network(setting: dict[str, Any]) -> HopClassifier:
        width = setting["hidden"] if setting["encoder_layers"] else graph.num_features
        shape = setting["hops"], width, setting["hidden"], graph.num_classes
        dropout = setting.get("dropout", 0.0)
        return HopClassifier(*shape, batch_norm=not protects_nodes(block.level), dropout=dropout)

    def features(runs: list[Run]) -> list[list]:
        inputs, first = [], {}  # one X⁰ for all models that read it
        for seed, setting in runs:
            release = release_settings(block.level, setting)
            encoder = release["encoder"]
            name = None if encoder is None else encoder_name(seed, encoder)
            if name not in first:
                first[name] = initial_features(graph, encoders, seed, encoder)
            inputs.append([first[name], *cache.load(released[seed, key(release)]["key"])])
        return inputs

    models = train_runs(
        block,
        runs,
        "classifier",
        network=network,
        phase="classifier",
        entry=lambda seed, s: block.entry(plan_settings(block.level, s), seed),
        features=features,
    )

    def executed(seed: int, setting: dict[str, Any]) -> dict[str, Execution]:
        """What was drawn before the classifier: by its encoder and its aggregates."""
        release = release_settings(block.level, setting)
        drawn = released[seed, key(release)]["executed"]
        found = {"aggregation": Execution(**drawn)} if drawn else {}
        if release["encoder"] is not None:
            found |= execution.unpacked(encoders, encoder_name(seed, release["encoder"]))
        return found

    def parameters(seed: int, setting: dict[str, Any]) -> dict[str, Any]:
        encoder = release_settings(block.level, setting)["encoder"]
        own = f"{encoder_name(seed, encoder)} encoder." if encoder is not None else None
        return {
            name.partition(" ")[2]: value
            for name, value in encoders.items()
            if own and name.startswith(own)
        }

    return [
        (
            *run,
            replace(
                model,
                executed=executed(*run) | model.executed,
                parameters=parameters(*run) | model.parameters,
            ),
        )
        for run, model in zip(runs, models, strict=True)
    ]
