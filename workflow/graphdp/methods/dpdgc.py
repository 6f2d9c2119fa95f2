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
(`graphdp.privacy.dpdgc`). At edge level the classifier takes batches of the same size, without
noise, as the authors' scripts do.

This is the method as it has to be for its ε to hold: batches are Poisson samples, all changed rows
of a group are counted, at node level the entries of A that count are drawn without a look at A, W
is normalised after every step and the embedding keeps its last epoch.
`methods/dpdgcofficial.py` is the same code doing what the authors' code does.

c = 1, not the paper's 1e-8 (Appendix K): scaling W and the noise together changes nothing but the
precision. In float32, 1e-8 vanishes beside a bias of 0.1 (eps is 6e-8).
"""

from typing import Any

import numpy as np
from pydantic import Field

from graphdp.errors import GraphDPError
from graphdp.methods.block import Block
from graphdp.methods.settings import (
    PositiveFloat,
    PositiveInt,
    Settings,
    key,
)
from graphdp.privacy import cells
from graphdp.privacy.plan import (
    GaussianReleases,
    Plan,
    PoissonGroupDPSGD,
    WithoutReplacementDPSGD,
    level_kind,
)
from graphdp.rng import stream_seed


class Decoupled(Settings):
    """What DPDGC has at every level (Appendix K)."""

    hidden: PositiveInt = Field(64, description="h, width of W and of every hidden layer")
    learning_rate: PositiveFloat = Field(0.001, description="Adam's step size")
    embedding_learning_rate: PositiveFloat | None = Field(
        None, description="the embedding's step size, if not `learning_rate`"
    )
    epochs: PositiveInt = Field(100, description="passes of the embedding phase")
    classifier_epochs: PositiveInt = Field(100, description="passes of the classifier")
    feature_layers: PositiveInt = Field(1, description="linear layers on the features (MLP_X)")
    layers: PositiveInt = Field(2, description="linear layers on both inputs (MLP_W)")


DROPOUT = Field(0.5, ge=0, lt=1, description="dropout of the classifier")
CLIP = Field(1.0, description="C, L2 clip of a node's gradient")
RATIO = Field(
    1.0,
    description="shares the noise: noise std of the embedding phase is this times 2 sqrt(group "
    "size) C noise multipliers (ε stays exact, calibration makes up for it)",
)


class Public(Decoupled):
    """DPDGC without privacy."""

    batch_size: PositiveInt | None = Field(None, description="nodes a step; all of them if not set")
    dropout: float = DROPOUT


class OfficialEdge(Decoupled):
    """Edge level: features and labels are public."""

    batch_size: PositiveInt = Field(256, description="(expected) nodes in a step of either phase")
    max_grad_norm: PositiveFloat = CLIP
    dropout: float = DROPOUT


class OfficialNeighbors(Decoupled):
    """k-neighbour level, "k<number>"."""

    batch_size: PositiveInt = Field(256, description="expected nodes in a step of either phase")
    max_grad_norm: PositiveFloat = CLIP


class OfficialNode(OfficialNeighbors):
    """Node level."""

    max_degree: PositiveInt = Field(100, description="D, the bound on every column of A")


class Edge(OfficialEdge):
    """Edge level: features and labels are public."""

    embedding_noise_ratio: PositiveFloat = RATIO


class Neighbors(OfficialNeighbors):
    """k-neighbour level, "k<number>"."""

    embedding_noise_ratio: PositiveFloat = RATIO


class Node(OfficialNode):
    """Node level."""

    max_degree: PositiveInt = Field(
        100, description="D, number of ids that may list a node, drawn without its edges"
    )
    embedding_noise_ratio: PositiveFloat = RATIO


LEVELS = {"none": Public, "edge": Edge, "k": Neighbors, "node": Node}
STAGES = ("embed",)
USES_GRAPH = True

_PLAN = ("batch_size", "epochs", "classifier_epochs", "max_grad_norm", "max_degree",
         "embedding_noise_ratio")  # fmt: skip


def plan_settings(level: str, setting: dict[str, Any]) -> dict[str, Any]:
    """What the plan reads of a setting."""
    if level == "none":
        return {}
    names = [name for name in _PLAN if level != "edge" or name != "classifier_epochs"]
    return {name: setting[name] for name in names if name in setting}


def release_settings(level: str, setting: dict[str, Any]) -> dict[str, Any]:
    """What determines the released matrix of a setting: the embedding and the plan's noise."""
    rate = setting.get("embedding_learning_rate", setting["learning_rate"])
    names = ("hidden", "epochs", "batch_size", "max_degree", "embedding_dropout")
    return {name: setting[name] for name in names if name in setting} | {
        "learning_rate": rate,
        "plan": plan_settings(level, setting),
    }


def embed(block: Block, settings: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Stage 1: train DP-Emb and release Z, once for every seed x release setting.

    Returns `embedding_name(seed, setting)` -> Z, float32 (n, hidden).
    """
    from graphdp.data.graph import InEdges
    from graphdp.decoupled import train_embedding

    graph, corrected = block.graph, block.method == "dpdgc"
    embeddings = {}
    for seed, setting in block.runs(settings):
        rows = InEdges(graph.indptr, graph.indices)  # sums over a node's list, whatever it lists
        if "max_degree" in setting:
            bound = setting["max_degree"]
            if corrected:
                rows = candidate_rows(graph, bound, (block.dataset, seed))
            else:
                name = block.study_seed, seed, block.dataset, "columns", bound
                rows = bounded_rows(graph, bound, stream_seed(*name))
        split = block.split(seed)
        rounds = _rounds(block, seed, setting["plan"], "embedding", setting)
        # Where no noise protects the choice of an epoch, the corrected method makes none.
        checkpoint = "last" if corrected and block.level != "none" else block.checkpoint
        stream = block.stream(seed, "embedding", key(setting))
        shape = setting["hidden"], graph.num_classes
        fixed = (
            head(*shape, (*stream, "head"))
            if corrected
            else official_head(*shape, block.stream(0, "head", key(setting)))
        )
        model = train_embedding(
            rows.indptr,
            rows.indices,
            graph.y,
            split.train,
            split.val,
            rounds,
            head=fixed,
            learning_rate=setting["learning_rate"],
            stream=stream,
            normalised=corrected,
            batch_norm=not corrected and block.level == "none",
            dropout=setting.get("embedding_dropout", 0.0),
            labels_shift=not corrected,
            weight_decay=0.0 if corrected else OFFICIAL_WEIGHT_DECAY,
            checkpoint=checkpoint,
            device=block.device,
            label=f"embedding, seed {seed}",
        )
        entry = _entry(block, seed, setting["plan"])
        cells.check_rounds(entry, "embedding", model.rounds)
        made = release if corrected else release_as_implemented
        embeddings[embedding_name(seed, setting)] = made(
            rows, model.weight, model.bias, release_noise(entry), (*stream, "release")
        )
    return embeddings


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
    its edges by a seed named `public`: `graphdp.degree.public_candidates`."""
    from graphdp import degree
    from graphdp.data.graph import InEdges

    name = degree.bound_name({"max_degree": max_degree, "degree_bound": "public_candidates"})
    keep = degree.keep_edges(graph, name, (), public)
    return InEdges(*degree.apply_mask(graph.indptr, graph.indices, keep))


def bounded_rows(graph, max_degree: int, seed: int):
    """The rows of A when every column keeps at most `max_degree` of its entries, chosen uniformly:
    `graphdp.degree` on the graph with its edges turned round. As the authors' code has it."""
    from graphdp import degree
    from graphdp.data.graph import in_edges

    columns = in_edges(graph.indptr, graph.indices)
    edges = columns.indptr.astype(np.int64), columns.indices
    kept = degree.apply_mask(*edges, degree.bound_out_degree(*edges, max_degree, seed))
    return in_edges(*kept)


def embedding_name(seed: int, setting: dict[str, Any]) -> str:
    """The name of a released matrix in the embeddings' file; `setting` as `release_settings`."""
    return f"{seed}:{key(setting)}"


def release_noise(entry: dict[str, Any]) -> float:
    """s: noise multiplier × sensitivity of the release at c = 1; 0 where nothing is protected.

    Raises GraphDPError for a finite ε with noise of scale 0 on something private.
    """
    planned = Plan.from_dict(entry["plan"])
    multiplier = cells.noise_multiplier(entry)
    for mechanism in planned.mechanisms:
        if isinstance(mechanism, GaussianReleases):
            if not mechanism.releases_nothing and not multiplier > 0:
                raise GraphDPError("noise of scale 0 with a finite ε: calibrate the noise")
            return multiplier * mechanism.sensitivity.value
    return 0.0


def release(rows, weight, bias, noise_std: float, stream: tuple) -> np.ndarray:
    """Line 15 of Algorithm 2: Z = normalise(A W + N(0, s²) + b), float32 (n, h).

    The rows of W are brought to a norm that exceeds c = 1 not even by rounding, and the sums are
    exact in float64 (`graphdp.aggregation`): without an edge, one row lacks exactly one row of W.
    """
    from graphdp import aggregation, rng

    noisy = aggregation.sum_in_edges(rows, aggregation.normalize_rows(weight))
    if noise_std:
        noisy += noise_std * rng.generator(*stream, repr(noise_std)).standard_normal(noisy.shape)
    return aggregation.normalize_rows(noisy + bias)


#: The authors' c (Appendix K): their noise is for rows of this norm, which their W never has.
OFFICIAL_ROW_NORM = 1e-8


def release_as_implemented(rows, weight, bias, noise_std: float, stream: tuple) -> np.ndarray:
    """What the authors' code computes: rows of W as they are, noise c·s with c = 1e-8, and Z not
    normalised. Float32 (n, h). No ε holds for it."""
    from graphdp import aggregation, rng

    noisy = aggregation.sum_in_edges(rows, weight)
    draw = rng.generator(*stream, repr(noise_std)).standard_normal(noisy.shape)
    return (noisy + OFFICIAL_ROW_NORM * noise_std * draw + bias).astype(np.float32)


def fit(
    block: Block, settings: list[dict[str, Any]], embeddings: dict[str, np.ndarray]
) -> list[tuple[int, dict[str, Any], Any]]:
    """Stage 2: train the classifier of every seed x setting on X and the released matrix.

    embeddings: as `embed` returned them. Reads no edge.
    Returns (seed, setting, fitted model) triples.
    """
    import torch

    from graphdp.decoupled import Linkx, train_classifier
    from graphdp.ensemble.members import like_of
    from graphdp.ensemble.rows import rows_of

    graph, private = block.graph, level_kind(block.level) in ("k", "node")
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
                checkpoint=block.checkpoint,
                device=block.device,
                label=f"classifier, seed {seed}",
            )
        )
    return [(*run, model) for run, model in zip(block.runs(settings), models, strict=True)]


def _entry(block: Block, seed: int, plan: dict[str, Any]) -> dict[str, Any]:
    return cells.lookup(block.calibrations, plan, block.split(seed).train.size)


def _rounds(block: Block, seed: int, plan: dict[str, Any], phase: str, setting: dict[str, Any]):
    """How a phase is trained: by the plan's own mechanism if it has one, else without noise.

    setting: epochs, and batch_size (None: all nodes in a step).
    """
    from graphdp.decoupled import Rounds

    entry, epochs = _entry(block, seed, plan), setting["epochs"]
    for mechanism in Plan.from_dict(entry["plan"]).mechanisms:
        if mechanism.phase == phase:
            size = min(setting["batch_size"], block.split(seed).train.size)
            multiplier = cells.noise_multiplier(entry)
            return noisy_rounds(mechanism, multiplier, epochs, size, plan["max_grad_norm"])
    size = setting.get("batch_size")
    return Rounds("shuffle", epochs, size) if size else Rounds("full", epochs)


def noisy_rounds(mechanism, multiplier: float, epochs: int, batch_size: int, max_grad_norm: float):
    """The rounds of a plan's DP-Adam mechanism: its samples and steps, and the noise it accounts.

    mechanism: `PoissonGroupDPSGD` (Poisson samples) or `WithoutReplacementDPSGD` (samples of a
    fixed size). multiplier: the noise multiplier. batch_size: at most the training nodes.
    max_grad_norm: C, the clip of one node's gradient.
    """
    from graphdp.decoupled import Rounds

    if isinstance(mechanism, PoissonGroupDPSGD):
        sampling = "poisson"
        std = multiplier * mechanism.noise_per_clip * mechanism.max_grad_norm.value
    else:
        assert isinstance(mechanism, WithoutReplacementDPSGD)
        sampling, std = "fixed", multiplier * mechanism.max_grad_norm.value
    return Rounds(
        sampling,
        epochs,
        batch_size,
        mechanism.sampling_rate,
        mechanism.steps,
        max_grad_norm,
        std,
    )
