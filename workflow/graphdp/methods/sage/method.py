"""The GraphSAGE baselines (GAP, section 7.2): SAGE-∞, SAGE-EDP and SAGE-NDP; and ProGAP's.

none   GraphSAGE with sum aggregation and root weights (`graphdp.training.Sage`), full batches
edge   the same on a perturbed graph (Wu et al., LinkTeller, IEEE S&P 2022), which the `perturb`
       stage draws once per ε and seed: all settings, and every epoch, read that one release
node   DP-GNN (Daigavane et al., Node-Level Differentially Private Graph Neural Networks, 2021):

       1. in- and out-degrees are bounded by D (`degree.bound_degrees`)
       2. DP-Adam over fixed-size samples of the training nodes, one layer: a sample is a node with
          its in-neighbours, and a node is in D + 1 of them at most
       3. for inference, one noisy sum of in-neighbours' rows, drawn once and cached; all
          predictions, validation and test, come from it; with `inference: exact` the sum has no
          noise, no ε covers what predictions tell, and all of ε is spent on training

At node level the last epoch is kept: to validate in between would ask for the sum again each time,
and the plan holds it once. With `adjacency: node_replace` (DPDGC's DP-SAGE) that sum has noise for
2√D; training, whose samples have a fixed size and whose bound is one of replacement, is the same.
With `clipping: rows` rows are clipped instead of samples, as GAP's and DPDGC's code does it
(`SubGraphs.clipped_row_sum`).

ProGAP's baselines (its section 5.2; id "progapsage") are GraphSAGE, EdgeRand and DP-GNN in the same
three places, with another network (`graphdp.training.JumpingSage`). Their DP-GNN bounds out-degrees
alone, which is what D + 1 samples take, and predicts from sums of rows of any norm without noise.
As their code runs them (id "progapsageofficial") EdgeRand draws in chunks, and DP-GNN clips rows
likewise.

`plan.py` states all of it.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from graphdp.coins import Coins
from graphdp.graphs import perturbation
from graphdp.methods.block import Block, Run
from graphdp.methods.sage import PROGAPS, PROGAPS_OFFICIAL, plan_settings
from graphdp.methods.settings import key
from graphdp.privacy import calibrated
from graphdp.privacy.execution import Execution


def release_name(setting: dict[str, Any]) -> str:
    """What a perturbed graph is called: "asymmetric", or of ordered pairs "asymmetric-directed"."""
    return setting["perturbation"] + ("-directed" if setting.get("directed") else "")


def perturb(
    block: Block, settings: list[dict[str, Any]]
) -> dict[tuple[int, str], perturbation.Perturbed]:
    """Draw the perturbed graph of every seed x release setting of an edge-level cell.

    Returns (seed, `release_name`) -> the graph, and with what ε it was drawn.
    """
    max_edges = (block.memory_mb << 20) // perturbation.BYTES_PER_EDGE
    graphs = {}
    for seed, setting in block.runs(settings):
        entry = calibrated.lookup(block.calibrations, setting, block.num_train(seed))
        epsilons = calibrated.pure_epsilons(entry)
        # Another ε draws other noise.
        name = block.noise_stream(seed, "perturbation", key(setting), *epsilons.values())
        indptr, indices = perturbation.perturb(
            block.graph.indptr,
            block.graph.indices,
            setting["perturbation"],
            epsilons,
            Coins(*name),
            max_edges,
            directed=bool(setting.get("directed")),
        )
        graphs[seed, release_name(setting)] = perturbation.Perturbed(indptr, indices, epsilons)
    return graphs


def fit(
    block: Block, settings: list[dict[str, Any]], masks, cache, perturbed
) -> list[tuple[int, dict[str, Any], Any]]:
    """Train every seed of the block x setting; returns (seed, setting, fitted model) triples.

    masks: `bounds.bound_name` -> seed -> kept edges, bool (m,), at node level. cache: where the
    noisy sums for inference are kept. perturbed: what `perturb` returned, at edge level.
    """
    if block.level == "node":
        return _fit_private(block, settings, masks, cache)
    return _fit(block, settings, perturbed)


def _network(block: Block, setting: dict[str, Any]):
    """GAP's GraphSAGE or ProGAP's; at node level one message-passing layer and no batch norm."""
    from graphdp.training import JumpingSage, Sage

    node = block.level == "node"
    graph, depth = block.graph, 1 if node else setting["mp_layers"]
    shape = graph.num_features, setting["hidden"], depth, graph.num_classes
    if block.method in (PROGAPS, PROGAPS_OFFICIAL):
        return JumpingSage(*shape, batch_norm=not node)
    return Sage(*shape, batch_norm=not node, dropout=setting.get("dropout", 0.0))


def _fit(block: Block, settings: list[dict[str, Any]], perturbed) -> list:
    """Levels none and edge: those that see the same graph in the same shape train together."""
    from graphdp.data.graph import in_edges
    from graphdp.training import FullBatch, GraphInputs, Member, train

    graph, runs = block.graph, block.runs(settings)
    by_graph: dict[Any, dict[Any, list[int]]] = {}
    for index, (seed, setting) in enumerate(runs):
        seen = (seed, release_name(setting)) if block.level == "edge" else None
        shape = _network(block, setting), setting["epochs"]
        by_graph.setdefault(seen, {}).setdefault(shape, []).append(index)
    models: list[Any] = [None] * len(runs)
    for seen, groups in by_graph.items():
        read = perturbed[seen] if seen else graph
        edges = in_edges(read.indptr, read.indices)
        for (shape, epochs), indices in groups.items():
            members = []
            for seed, setting in (runs[i] for i in indices):
                nodes = block.split(seed)
                stream = block.stream(seed, "sage", key(setting))
                rate = setting["learning_rate"]
                members.append(Member(stream, rate, 0.0, nodes.train, nodes.val, nodes.test))
            fitted = train(
                shape,
                GraphInputs(graph.x, edges),
                graph.y,
                members,
                FullBatch(epochs),
                checkpoint=block.checkpoint,
                device=block.device,
                memory_mb=block.memory_mb,
                label=f"{block.method}, {shape.mp_layers} layers",
                posteriors=block.posteriors,
            )
            for index, one in zip(indices, fitted, strict=True):
                models[index] = replace(one, executed=read.executed() if seen else {})
    return [(*run, one) for run, one in zip(runs, models, strict=True)]


def _watched(block: Block, seed: int) -> Callable[..., None] | None:
    """What the training of one run shows its noisy rounds to, if somebody looks."""
    observe = block.observe
    return observe and (lambda *noisy_round: observe("classifier", [seed], *noisy_round))


def _fit_private(block: Block, settings: list[dict[str, Any]], masks, cache) -> list:
    from scipy.special import softmax

    from graphdp.methods.sage import network as model
    from graphdp.training import Fitted, Member

    graph, runs = block.graph, block.runs(settings)
    trained: dict[tuple[int, str], model.PrivateSage] = {}
    for count, (seed, setting) in enumerate(runs):
        nodes, plan = block.split(seed), plan_settings("node", setting)
        planned = block.phase(plan, seed, "classifier")
        member = Member(
            block.stream(seed, "sage", key(setting)),
            setting["learning_rate"],
            planned.noise_multiplier,
            nodes.train,
            nodes.val,
            nodes.test,
        )
        trained[seed, key(setting)] = model.train_private(
            _network(block, setting),
            graph.x,
            graph.y,
            _bounded(block, seed, setting, masks),
            member,
            model.FixedSizeDP(
                batch_size=planned.run.batch_size,
                steps=planned.run.count,
                max_grad_norm=planned.run.max_grad_norm,
                noise_std=planned.run.noise_std,
                rows=block.method == PROGAPS_OFFICIAL or setting.get("clipping") == "rows",
            ),
            noise=block.noise_source,
            observe=_watched(block, seed),
            device=block.device,
            memory_mb=block.memory_mb,
            label=f"{block.method} {count + 1} of {len(runs)}",
        )
    embeddings = {run: one.embedding for run, one in trained.items()}
    results = []
    for (seed, setting), (sums, drawn) in zip(
        runs, _sums(block, runs, masks, cache, embeddings), strict=True
    ):
        one, nodes = trained[seed, key(setting)], block.split(seed)
        logits = model.logits_of(_network(block, setting), one.parameters, one.embedding, sums)
        classes = logits.argmax(1)
        right = classes == graph.y
        accuracies = [float(right[part].mean()) for part in (nodes.train, nodes.val, nodes.test)]
        fitted = Fitted(
            *accuracies,
            best_epoch=setting["epochs"],
            predictions=classes.astype(np.int16),
            embedding=one.embedding,
            parameters=one.parameters,
            history=np.array(accuracies[1:2]),
            rounds=one.rounds,
            executed={"classifier": one.executed} | ({"aggregation": drawn} if drawn else {}),
            posteriors=softmax(logits, axis=1) if block.posteriors else None,
        )
        results.append((seed, setting, fitted))
    return results


def _bounded(block: Block, seed: int, setting: dict[str, Any], masks):
    """The in-edges that the degree bound of a run leaves."""
    from graphdp.data.graph import in_edges
    from graphdp.graphs.bounds import bound_name
    from graphdp.graphs.degree import apply_mask
    from graphdp.methods.release_runs import check_bound

    keep = masks[bound_name(setting)][seed]
    check_bound(block, keep, setting["max_degree"])
    return in_edges(*apply_mask(block.graph.indptr, block.graph.indices, keep))


def _sums(
    block: Block, runs: list[Run], masks, cache, embeddings: dict[tuple[int, str], np.ndarray]
) -> Iterator[tuple[np.ndarray, Execution | None]]:
    """What predictions read of in-neighbours, Aᵀ H⁰ of each run, and with what noise it was drawn:
    one release, in the cache; or exact, and of ProGAP's no release at all."""
    from graphdp.methods.release_runs import release_runs
    from graphdp.releases.aggregation import Release, sum_in_edges

    if block.method in (PROGAPS, PROGAPS_OFFICIAL):
        for seed, setting in runs:
            rows = embeddings[seed, key(setting)]
            sums = sum_in_edges(_bounded(block, seed, setting, masks), rows)
            yield sums.astype(np.float32), None
        return

    def inference(seed: int, setting: dict[str, Any]) -> Release:
        """Aᵀ H⁰ + N(0, σ²), of the trained network's H⁰; or exact, σ = 0."""
        noisy = "inference" not in setting
        run = noisy and block.phase(plan_settings("node", setting), seed, "aggregation").run
        return Release(
            x0=embeddings[seed, key(setting)],
            hops=1,
            noise_std=run.noise_std if noisy else 0.0,
            private=noisy,
            stream=block.noise_stream(seed, "aggregation", key(setting)),
            renormalise=False,
            sensitivity=run.sensitivity if noisy else 0.0,
        )

    for name, drawn in release_runs(block, runs, masks, cache, inference):
        yield cache.load(name)[0], drawn
