"""DPDGC: differentially private decoupled graph convolutions (Chien et al., NeurIPS 2023).

Algorithm 2, in two stages that the workflow runs as jobs of their own:

1. embed   DP-Emb is trained with DP-Adam on rows of A, W kept at row norm c = 1;
           Z = normalise(A W + N(0, s²) + b), released once per seed and kept in the job's file
2. fit     a LINKX-like classifier on X and Z; plain Adam where X and the labels are public (edge
           level), DP-Adam otherwise

Row i of A lists the nodes that i points to, as in the authors' code (thupchnsky/dp-gnn,
core/data/loader/adj.py); that matters on directed graphs. At node level the columns of A, whose
sums the paper calls out-degrees, are bounded by D (`candidate_rows`). s = noise multiplier × √D
(node), √k (k-neighbour, level "k<number>"), 1 (edge); stage 1 has noise of its own
(`graphdp.methods.dpdgc.plan`). At edge level the classifier takes batches of the same size, without
noise, as the authors' scripts do.

This is the method as it has to be for its ε to hold: batches are Poisson samples, all changed rows
of a group are counted, at node level the entries of A that count are drawn without a look at A, W
is normalised after every step and the embedding keeps its last epoch.

c = 1, not the paper's 1e-8 (Appendix K): scaling W and the noise together changes nothing but the
precision. In float32, 1e-8 vanishes beside a bias of 0.1 (eps is 6e-8).

**As the authors' code runs it** ("dpdgcofficial"), to show what the published accuracies rest on.
What differs, read in that code (thupchnsky/dp-gnn):

- W is never brought to row norm c (a temporary copy is), while the noise on A W is set for c = 1e-8
- Z is not normalised
- batches have a fixed size, drawn without replacement; the noise of the embedding phase is
  2√(D + 1) or 2√(k + 1) times the multiplier, with the accounting of one record
- the classifier's MLP on the features has two layers (Appendix K: one); the embedding has an L2
  penalty (Appendix K: none), a head of another scale that all repeats share (`official_head`), and
  without privacy also a batch norm, on cSBM with dropout
- in the embedding phase a row of A without entries shifts the labels of the rows behind it: the
  loader numbers a batch's rows by where the row index of their entries changes

- at node level the columns of A are sampled, which bounds nothing (`graphdp.methods.dpdgc.plan`)

So its ε is a claim that no analysis supports, and its rows say so (basis "as implemented", status
"refuted"). Not repeated here: the classifier's loader drops the last, smaller batch of an epoch, so
that phase runs floor(N / B) rounds per epoch, and the embedding phase ceil(N / B), where in all
floor(epochs · N / B) are accounted for; at node level the column of the last node is lost.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from graphdp.errors import GraphDPError
from graphdp.methods.block import Block
from graphdp.methods.dpdgc import plan_settings, release_settings
from graphdp.methods.settings import key
from graphdp.privacy import calibrated, execution
from graphdp.privacy.execution import Execution
from graphdp.privacy.protection import is_private, protects_nodes
from graphdp.rng import stream_seed

#: (block, seed, setting, rows of A) -> what has `weight` W, float32 (n, h), `bias` b, float32 (h,),
#: and `executed`, None without noise.
Trained = Callable[[Block, int, dict[str, Any], Any], Any]


def embed(
    block: Block, settings: list[dict[str, Any]], trained: Trained | None = None
) -> dict[str, np.ndarray]:
    """Stage 1: train DP-Emb and release Z, once for every seed x release setting.

    trained: what gives W and b in place of the training; for audits, which fix them.
    Returns `embedding_name(seed, setting)` -> Z, float32 (n, hidden), and beside each with what
    noise it was made, if any (`execution.packed`).
    """
    made = release if block.method == "dpdgc" else release_as_implemented
    embeddings = {}
    for seed, setting in block.runs(settings):
        rows = _rows(block, seed, setting)
        model = (trained or _trained)(block, seed, setting, rows)
        planned = calibrated.phases(block.entry(setting["plan"], seed)).get("release")
        noise_std = planned.run.noise_std if planned else 0.0
        stream = block.noise_stream(seed, "embedding", key(setting), "release")
        drawn: list[float] = []
        name = embedding_name(seed, setting)
        embeddings[name] = made(rows, model.weight, model.bias, noise_std, stream, drawn)
        executed = {"embedding": model.executed} if model.executed else {}
        if drawn:
            bound = planned.run.sensitivity if planned else None
            size = embeddings[name].size
            each = [Execution("none", 1, s, sensitivity=bound, draws=size) for s in drawn]
            executed["release"] = execution.together(each)
        embeddings |= execution.packed(name, executed)
    return embeddings


def _rows(block: Block, seed: int, setting: dict[str, Any]):
    """The rows of A, with bounded columns where a setting bounds them: an `InEdges`, whose lists
    are what a node points to."""
    from graphdp.data.graph import InEdges

    graph = block.graph
    if "max_degree" not in setting:
        return InEdges(graph.indptr, graph.indices)
    bound = setting["max_degree"]
    if block.method == "dpdgc":
        return candidate_rows(graph, bound, (block.dataset, seed))
    name = block.root, seed, block.dataset, "columns", bound
    return bounded_rows(graph, bound, stream_seed(*name))


def _trained(block: Block, seed: int, setting: dict[str, Any], rows):
    """DP-Emb of one run, trained on the rows of A."""
    from graphdp.methods.dpdgc.network import train_embedding

    graph, corrected = block.graph, block.method == "dpdgc"
    split, stream = block.split(seed), block.stream(seed, "embedding", key(setting))
    shape = setting["hidden"], graph.num_classes
    fixed = (
        head(*shape, (*stream, "head"))
        if corrected
        else official_head(*shape, block.stream(0, "head", key(setting)))
    )
    return train_embedding(
        rows.indptr,
        rows.indices,
        graph.y,
        split.train,
        split.val,
        _rounds(block, seed, setting["plan"], "embedding", setting),
        head=fixed,
        learning_rate=setting["learning_rate"],
        stream=stream,
        normalised=corrected,
        batch_norm=not corrected and not is_private(block.level),
        dropout=setting.get("embedding_dropout", 0.0),
        labels_shift=not corrected,
        weight_decay=0.0 if corrected else OFFICIAL_WEIGHT_DECAY,
        # Where no noise protects the choice of an epoch, the corrected method makes none.
        checkpoint="last" if corrected and is_private(block.level) else block.checkpoint,
        device=block.device,
        label=f"embedding, seed {seed}",
        noise=block.noise_source,
        observe=_watched(block, "embedding", seed),
    )


def _watched(block: Block, phase: str, seed: int) -> Callable[..., None] | None:
    """What a phase of one run shows its noisy rounds to, if somebody looks."""
    observe = block.observe
    return observe and (lambda *noisy_round: observe(phase, [seed], *noisy_round))


def head(hidden: int, classes: int, stream: tuple) -> tuple[np.ndarray, np.ndarray]:
    """The fixed head R with orthonormal columns, float64 (h, C), and its bias 0 (C,).

    Raises GraphDPError for more classes than hidden units.
    """
    if classes > hidden:
        raise GraphDPError(f"a head from {hidden} units to {classes} classes: widen `hidden`")
    from graphdp import rng

    q, r = np.linalg.qr(rng.generator(*stream).standard_normal((hidden, classes)))
    return q * np.sign(np.diag(r)), np.zeros(classes)


def official_head(hidden: int, classes: int, stream: tuple) -> tuple[np.ndarray, np.ndarray]:
    """The head of the authors' code (core/modules/node/em.py): orthonormal columns times √(6/h).

    One head serves all repeats: the reset before each further one passes it over, since a lazy
    linear layer of PyG whose weight was assigned never learns its number of inputs.
    """
    columns, bias = head(hidden, classes, stream)
    return columns * np.sqrt(6 / hidden), bias


#: L2 penalty on the embedding in the authors' code (`encoder_wd`); Appendix K says there is none.
OFFICIAL_WEIGHT_DECAY = 1e-5


def candidate_rows(graph, max_degree: int, public: tuple):
    """The rows of A when a node may be listed by `max_degree` ids (and list as many), drawn without
    its edges by a seed named `public`: `graphdp.graphs.degree.public_candidates`."""
    from graphdp.data.graph import InEdges
    from graphdp.graphs import degree
    from graphdp.graphs.bounds import bound_name

    name = bound_name({"max_degree": max_degree, "degree_bound": "public_candidates"})
    keep = degree.keep_edges(graph, name, (), public)
    return InEdges(*degree.apply_mask(graph.indptr, graph.indices, keep))


def bounded_rows(graph, max_degree: int, seed: int):
    """The rows of A when every column keeps at most `max_degree` of its entries, chosen uniformly:
    the degree bound on the graph with its edges turned round. As the authors' code has it."""
    from graphdp.data.graph import in_edges
    from graphdp.graphs import degree

    columns = in_edges(graph.indptr, graph.indices)
    edges = columns.indptr.astype(np.int64), columns.indices
    kept = degree.apply_mask(*edges, degree.bound_out_degree(*edges, max_degree, seed))
    return in_edges(*kept)


def embedding_name(seed: int, setting: dict[str, Any]) -> str:
    """The name of a released matrix in the embeddings' file; `setting` as `release_settings`."""
    return f"{seed}:{key(setting)}"


def release(
    rows, weight, bias, noise_std: float, stream: tuple, drawn: list[float] | None = None
) -> np.ndarray:
    """Line 15 of Algorithm 2: Z = normalise(A W + N(0, s²) + b), float32 (n, h).

    The rows of W are brought to a norm that exceeds c = 1 not even by rounding, and the sums are
    exact in float64 (`graphdp.releases.aggregation`): without an edge, one row lacks exactly one
    row of W. drawn: receives s, if noise was added.
    """
    from graphdp.noise import GridNoise, add_noise
    from graphdp.releases import aggregation

    noisy = aggregation.sum_in_edges(rows, aggregation.normalize_rows(weight))
    if noise_std:
        noisy = add_noise(noisy, noise_std, GridNoise([(*stream, repr(noise_std))]))
        if drawn is not None:
            drawn.append(noise_std)
    return aggregation.normalize_rows(noisy + bias)


#: The authors' c (Appendix K): their noise is for rows of this norm, which their W never has.
OFFICIAL_ROW_NORM = 1e-8


def release_as_implemented(
    rows, weight, bias, noise_std: float, stream: tuple, drawn: list[float] | None = None
) -> np.ndarray:
    """What the authors' code computes: rows of W as they are, noise c·s with c = 1e-8, and Z not
    normalised. Float32 (n, h). No ε holds for it. drawn: receives s, as the plan claims it."""
    from graphdp.noise import GridNoise, add_noise
    from graphdp.releases import aggregation

    noisy = aggregation.sum_in_edges(rows, weight)
    if noise_std:
        noise = GridNoise([(*stream, repr(noise_std))])
        noisy = add_noise(noisy, OFFICIAL_ROW_NORM * noise_std, noise)
        if drawn is not None:
            drawn.append(noise_std)
    return (noisy + bias).astype(np.float32)


def fit(
    block: Block, settings: list[dict[str, Any]], embeddings: dict[str, np.ndarray]
) -> list[tuple[int, dict[str, Any], Any]]:
    """Stage 2: train the classifier of every seed x setting on X and the released matrix.

    embeddings: as `embed` returned them. Reads no edge.
    Returns (seed, setting, fitted model) triples.
    """
    import torch

    from graphdp.methods.dpdgc.classifier import Linkx, train_classifier
    from graphdp.training.features import check_features
    from graphdp.training.members import like_of
    from graphdp.training.sparse_rows import rows_of

    graph, private = block.graph, protects_nodes(block.level)
    check_features(graph.x)
    x = rows_of(graph.x, like_of(block.device, torch.float32))
    models = []
    for seed, setting in block.runs(settings):
        split = block.split(seed)
        passes = setting | {"epochs": setting["classifier_epochs"]}
        models.append(
            train_classifier(
                Linkx(
                    graph.num_features,
                    setting["hidden"],
                    graph.num_classes,
                    setting["feature_layers"],
                    setting["layers"],
                    batch_norm=not private,
                    dropout=setting.get("dropout", 0.0),
                ),
                x,
                embeddings[embedding_name(seed, release_settings(block.level, setting))],
                graph.y,
                (split.train, split.val, split.test),
                _rounds(block, seed, plan_settings(block.level, setting), "classifier", passes),
                learning_rate=setting["learning_rate"],
                stream=block.stream(seed, "classifier", key(setting)),
                noise=block.noise_source,
                observe=_watched(block, "classifier", seed),
                checkpoint=block.checkpoint,
                device=block.device,
                label=f"classifier, seed {seed}",
            )
        )
    found = []
    for (seed, setting), model in zip(block.runs(settings), models, strict=True):
        before = embedding_name(seed, release_settings(block.level, setting))
        executed = execution.unpacked(embeddings, before)
        if model.executed:
            executed["classifier"] = model.executed
        found.append((seed, setting, replace(model, executed=executed)))
    return found


def _rounds(block: Block, seed: int, plan: dict[str, Any], phase: str, setting: dict[str, Any]):
    """How a phase is trained: as the plan's own mechanism says if it has one, else without noise.

    setting: epochs, and batch_size (None: all nodes in a step).
    """
    from graphdp.training.descent import Rounds

    epochs, size = setting["epochs"], setting.get("batch_size")
    planned = calibrated.phases(block.entry(plan, seed)).get(phase)
    if planned is not None:
        return noisy_rounds(planned.run, epochs)
    return Rounds("shuffle", epochs, size) if size else Rounds("full", epochs)


def noisy_rounds(run: Execution, epochs: int):
    """The rounds of a phase of the plan: its samples and steps, and the noise that it accounts."""
    from graphdp.training.descent import rounds_of

    return rounds_of(run, epochs)
