"""One row per trained model: what was run and what came of it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from graphdp import io
from graphdp.methods.block import Block
from graphdp.methods.registry import card
from graphdp.methods.settings import key
from graphdp.noise import GENERATOR, SHAPES
from graphdp.paper.rows import PRECISIONS
from graphdp.privacy import calibrated
from graphdp.privacy.execution import Execution
from graphdp.privacy.protection import protects_nodes
from graphdp.workflow import job


def write_rows(path: str, models: list[tuple[int, dict[str, Any], Any]], block: Block) -> None:
    """Write the rows of a training job's (seed, setting, fitted model) triples as CSV.

    A model's `executed` says how every phase of its plan was run; `noise` names the generator of
    its noise, if it has any, or the shapes that another one drew. If its training history was kept,
    the column `curves` holds the training and validation accuracies after each epoch of each stage:
    {"train": [[...], ...], "val": [[...], ...]}.

    Of a private release the row leaves out what its plan does not hold (`_unpublished`), and the
    model itself is written beside it, as `.npz` (`released_arrays`), whose SHA-256 the row has.

    `cpu_seconds` and `wall_seconds` are the job's own, process start included, divided by its
    models; `peak_rss_mb` is the job's. Raises `GraphDPError` if a model was not made with exactly
    the noise that its plan accounts.
    """
    used = job.usage()
    versions = job.versions("torch", "numpy", "scipy", "autodp")
    commit = job.git_commit()
    origin = block.origin()
    rows = []
    for seed, setting, model in models:
        entry = accounted(block, seed, setting, model)
        rows.append(
            {
                "study": block.study,
                "dataset": block.dataset,
                "method": block.method,
                "level": block.level,
                "epsilon": block.epsilon,
                "delta": entry["delta"],
                "seed": seed,
                "hyperparameters": key(setting),
                "val_accuracy": model.val_accuracy,
                "test_accuracy": model.test_accuracy,
                "train_accuracy": model.train_accuracy,
                **precisions(block.graph.y, model.predictions, block.split(seed).test),
                "noise_multiplier": calibrated.noise_multiplier(entry) or None,
                "noise": generator_of(model.executed),
                "best_epoch": model.best_epoch,
                "checkpoint": block.checkpoint,
                **origin,
                **calibrated.label(entry),
                "epsilons": json.dumps(entry["epsilons"], separators=(",", ":")),
                "cpu_seconds": used["cpu_seconds"] / len(models),
                "wall_seconds": used["wall_seconds"] / len(models),
                "peak_rss_mb": used["peak_rss_mb"],
                "device": block.trained_on(),
                "git_commit": commit,
                "versions": versions,
            }
        )
        if model.train_history is not None:
            curves = {"train": model.train_history, "val": model.history}
            rows[-1]["curves"] = key(
                {part: [np.round(c, 5).tolist() for c in of] for part, of in curves.items()}
            )
        if block.release == "private":
            file = Path(path).with_suffix(".npz")
            io.save_npz(file, **released_arrays(block, model))
            rows[-1]["model_sha256"] = io.sha256_file(file)
            rows[-1] |= dict.fromkeys(_unpublished(block.level), "")
    with io.atomic_path(path) as temporary:
        pd.DataFrame(rows).to_csv(temporary, index=False)


def released_arrays(block: Block, model: Any) -> dict[str, np.ndarray]:
    """What is released of a private model, by name: its parameters; at edge level, where the set of
    nodes, features and labels are public, every node's predicted class as well, beside its id."""
    arrays = dict(model.parameters)
    if protects_nodes(block.level):
        return arrays
    return arrays | {"predictions": model.predictions, "ids": block.graph.ids}


def _unpublished(level: str) -> list[str]:
    """Columns that a private release leaves empty: what the data decide and no noise covers.

    Time and memory follow the sizes of samples and lists. Accuracies and precisions read labels,
    which are public at edge level alone.
    """
    names = ["cpu_seconds", "wall_seconds", "peak_rss_mb", "train_accuracy", "curves"]
    read_labels = ["val_accuracy", "test_accuracy", *PRECISIONS, "best_epoch"]
    return names + read_labels * protects_nodes(level)


def precisions(labels: np.ndarray, predictions: np.ndarray, nodes: np.ndarray) -> dict[str, float]:
    """The precision of predictions for some nodes, as fractions by the names of `PRECISIONS`: the
    mean over classes, and the mean over nodes of that of their own class.

    labels: int64 (n,). predictions: int16 (n,). nodes: at least one. A class that stands among
    neither labels nor predictions of the nodes is left out; one that is never predicted counts 0.
    """
    true, found = labels[nodes], predictions[nodes]
    classes = np.union1d(true, found)
    chosen = np.array([(found == c).sum() for c in classes])
    right = np.array([((found == c) & (true == c)).sum() for c in classes])
    each = right / np.maximum(chosen, 1)
    shares = np.array([(true == c).mean() for c in classes])
    return dict(zip(PRECISIONS, (float(each.mean()), float(each @ shares)), strict=True))


def generator_of(executed: Mapping[str, Execution]) -> str:
    """What drew a model's noise: `GENERATOR`, or the shapes of noise that it does not draw; "" if
    no noise has a scale."""
    shapes = {one.noise for one in executed.values() if one.noise_std}
    return ", ".join(sorted(shapes - SHAPES)) or (GENERATOR if shapes else "")


def accounted(block: Block, seed: int, setting: dict[str, Any], model: Any) -> dict[str, Any]:
    """The calibration of a fitted model, with exactly the noise that its plan accounts.

    Raises `GraphDPError` if another noise was drawn in any phase.
    """
    entry = block.entry(card(block.method).plan(block.level, setting), seed)
    calibrated.check_execution(entry, model.executed)
    return entry
