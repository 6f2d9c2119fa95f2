"""ProGAP: progressive GNNs with aggregation perturbation (Sajadmanesh and Gatica-Perez, 2024).

Algorithm 2, in stages s = 0..K that one job runs:

    X̃⁽⁰⁾ = X;   for s ≥ 1   X̃⁽ˢ⁾ = NAP(A, X⁽ˢ⁻¹⁾; σ), released once and cached          (equation 8)
    X⁽ᵏ⁾ = MLP_base⁽ᵏ⁾(X̃⁽ᵏ⁾) for k = 0..s                                              (equation 9)
    Ŷ⁽ˢ⁾ = MLP_head⁽ˢ⁾(concatenation of X⁽⁰⁾..X⁽ˢ⁾)                                    (equation 10)

Stage s trains its bases and its own head, the bases from where stage s - 1 left them; only the last
head predicts. NAP normalises the rows of its input, sums over the in-edges and adds N(0, σ²); the
noisy sums are not normalised again. Inference reads the cached sums and no edge.

At edge level the K sums alone read what is protected. At node level the out-degrees are bounded by
D (`graphdp.graphs.degree`), and every stage is DP-Adam with the same noise multiplier.
`plan.py` states all of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphdp.methods.block import Block, Run
from graphdp.methods.progap import plan_settings
from graphdp.methods.settings import key
from graphdp.privacy import execution
from graphdp.privacy.execution import Execution
from graphdp.privacy.protection import protects_nodes


def stage_setting(level: str, setting: dict[str, Any], stage: int) -> dict[str, Any]:
    """What determines a setting's stage: runs that agree in it share the stage, noise and all.

    Without noise (level none, and stage 0 at edge level) K does not matter, since a shallow model
    is the beginning of a deep one; nor does keeping the history, nor freezing the bases before
    there is one. Where noise is drawn, every setting has its own: jobs that share a model compute
    it only up to rounding, and two releases under one noise would differ by what has none.
    """
    ignored: set[str] = set()
    if level == "none" or (level == "edge" and stage == 0):
        ignored |= {"depth", "history"}
        if stage == 0:
            ignored.add("layerwise")
    return {name: value for name, value in setting.items() if name not in ignored}


Name = tuple[int, str]  # of a submodel: its seed, and what determines its stage


def _name(block: Block, run: Run, stage: int) -> Name:
    return run[0], key(stage_setting(block.level, run[1], stage))


@dataclass(frozen=True)
class Submodel:
    """M_s after its stage: what the next stage and inference need.

    stages: the fitted stages 0..s (`graphdp.training.Fitted`); the embedding of the last is X⁽ˢ⁾.
    releases: the keys of X̃⁽¹⁾..X̃⁽ˢ⁾ in the cache, each with what noise it drew.
    """

    stages: tuple[Any, ...]
    releases: tuple[tuple[str, Execution | None], ...]


def fit(
    block: Block, settings: list[dict[str, Any]], masks, cache
) -> list[tuple[int, dict[str, Any], Any]]:
    """Train every seed of the block x setting; returns (seed, setting, fitted model) triples.

    A model is its last stage's, with what was executed in each phase and the histories of all
    stages. masks, cache: as in `train_progressively`.
    """
    models = []
    for seed, setting, submodel in train_progressively(block, settings, masks, cache):
        stages = submodel.stages
        model = replace(
            stages[-1],
            embedding=None,
            executed=_executed(submodel),
            history=[stage.history for stage in stages],
            train_history=[s.train_history for s in stages] if setting["history"] else None,
        )
        models.append((seed, setting, model))
    return models


def _executed(submodel: Submodel) -> dict[str, Execution]:
    """With what noise a submodel was made: its stages, and its aggregations together."""
    found = {phase: run for stage in submodel.stages for phase, run in stage.executed.items()}
    drawn = [run for _, run in submodel.releases if run]
    return found | ({"aggregation": execution.together(drawn)} if drawn else {})


def train_progressively(
    block: Block, settings: list[dict[str, Any]], masks, cache
) -> Iterator[tuple[int, dict[str, Any], Submodel]]:
    """Algorithm 2 for every seed x setting, all of equal depth K at once.

    masks: `bounds.bound_name` -> seed -> kept edges, bool (m,), at node level. cache: the
    `AggregateCache` that holds the releases. Yields (seed, setting, M_K) triples.
    """
    depths = sorted({setting["depth"] for setting in settings})
    groups = [[s for s in settings if s["depth"] == depth] for depth in depths]
    if block.level == "none":  # one run to the largest depth passes through all others
        groups = [settings]
    history = any(setting["history"] for setting in settings)
    first: dict[Name, Submodel] = {}  # stage 0, which at edge level all depths share
    for group in groups:
        first = first if block.level == "edge" else {}
        submodels: dict[Name, Submodel] = {}
        for stage in range(max(setting["depth"] for setting in group) + 1):
            active = block.runs([setting for setting in group if setting["depth"] >= stage])
            runs = {_name(block, run, stage): run for run in active}
            if stage == 0:
                new = {name: run for name, run in runs.items() if name not in first}
                first |= _train_stage(block, new, stage, {}, history, masks, cache)
                submodels = first
            else:
                earlier = {n: submodels[_name(block, run, stage - 1)] for n, run in runs.items()}
                submodels = _train_stage(block, runs, stage, earlier, history, masks, cache)
            for seed, setting in active:
                if setting["depth"] == stage:
                    yield seed, setting, submodels[_name(block, (seed, setting), stage)]


def _train_stage(
    block: Block,
    runs: dict[Name, Run],
    stage: int,
    earlier: dict[Name, Submodel],
    history: bool,
    masks,
    cache,
) -> dict[Name, Submodel]:
    """Stage s of distinct runs, from their M_{s-1} (`earlier`; none for stage 0)."""
    from graphdp.methods.train_runs import train_runs
    from graphdp.training import StageInputs

    if not runs:
        return {}
    level = block.level
    released = _release(block, runs, stage, earlier, masks, cache) if stage else {}

    def layerwise(setting: dict[str, Any]) -> bool:
        return stage > 0 and setting["layerwise"]

    def inputs(runs: list[Run]) -> StageInputs:
        aggregates = []
        for seed, setting in runs:
            name = seed, key(setting)
            sums = [cache.load(release)[0] for release, _ in released.get(name, ())]
            if layerwise(setting):
                sums = [*(one.embedding for one in earlier[name].stages), sums[-1]]
            aggregates.append(sums)
        return StageInputs(block.graph.x, aggregates)

    def warm_start(seed: int, setting: dict[str, Any]) -> dict[str, np.ndarray]:
        """𝔓_s* without its head (Algorithm 2, line 7); frozen bases are not in the network."""
        if stage == 0 or layerwise(setting):
            return {}
        parameters = earlier[seed, key(setting)].stages[-1].parameters
        return {name: value for name, value in parameters.items() if name.startswith("base")}

    fitted = train_runs(
        block,
        [(seed, stage_setting(level, setting, stage)) for seed, setting in runs.values()],
        f"stage{stage}",
        network=lambda setting: _network(block, setting, stage),
        phase=f"stage{stage}",
        entry=lambda seed, s: block.entry(plan_settings(level, s), seed),
        features=inputs,
        initial=warm_start,
        train_history=history,
    )
    submodels = {}
    for (name, (_, setting)), model in zip(runs.items(), fitted, strict=True):
        stages = earlier[name].stages if stage else ()
        if stage and not setting["layerwise"]:  # X⁽ˢ⁻¹⁾ is released: nobody reads it any more
            stages = (*stages[:-1], replace(stages[-1], embedding=None, predictions=None))
        submodels[name] = Submodel((*stages, model), released.get(name, ()))
    return submodels


def _network(block: Block, setting: dict[str, Any], stage: int):
    from graphdp.training import StageClassifier

    return StageClassifier(
        stage,
        block.graph.num_features,
        setting["hidden"],
        setting["base_layers"],
        block.graph.num_classes,
        batch_norm=not protects_nodes(block.level),
        layerwise=stage > 0 and setting["layerwise"],
    )


def _release(
    block: Block,
    runs: dict[Name, Run],
    stage: int,
    earlier: dict[Name, Submodel],
    masks,
    cache,
) -> dict[Name, tuple[tuple[str, Execution | None], ...]]:
    """X̃⁽ˢ⁾ = NAP(A, X⁽ˢ⁻¹⁾; σ) of each run (equations 7 and 8): `Submodel.releases`."""
    from graphdp.methods.release_runs import release_runs
    from graphdp.releases.aggregation import Release

    def nap(seed: int, setting: dict[str, Any]) -> Release:
        name = _name(block, (seed, setting), stage)
        planned = block.phase(plan_settings(block.level, setting), seed, "aggregation")
        return Release(
            x0=earlier[name].stages[-1].embedding,
            hops=1,
            noise_std=planned.run.noise_std if planned else 0.0,
            private=planned is not None,
            stream=block.noise_stream(seed, "aggregation", stage, name[1]),
            renormalise=False,
            sensitivity=planned.run.sensitivity if planned else 0.0,
        )

    keys = release_runs(block, list(runs.values()), masks, cache, nap)
    return {name: (*earlier[name].releases, made) for name, made in zip(runs, keys, strict=True)}


def predict(block: Block, setting: dict[str, Any], submodel: Submodel, cache) -> np.ndarray:
    """Ŷ⁽ᴷ⁾ of all nodes, int16 (n,), by Algorithm 1, whose sums are all in the cache.

    Reads the features and the cached releases; no edge, so it costs no privacy.
    """
    from graphdp import training

    *before, last = submodel.stages
    sums = [cache.load(release)[0] for release, _ in submodel.releases]
    if before and setting["layerwise"]:
        sums = [*(one.embedding for one in before), sums[-1]]
    inputs = training.StageInputs(block.graph.x, [sums])
    network = _network(block, setting, len(before))
    return training.predict(network, inputs, last.parameters, device=block.device)
