"""Rows of attacks: one per repeat. No torch."""

import csv
import json
import os
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pandas as pd

from graphdp import io, job
from graphdp.attacks.auc import pooled_bound
from graphdp.errors import GraphDPError
from graphdp.methods.rows import accounted
from graphdp.methods.settings import key
from graphdp.paper.labels import canonical_epsilon
from graphdp.privacy import cells

if TYPE_CHECKING:
    from graphdp.attacks.membership import AttackBlock, Attacked

NUMBERS = (
    "delta",
    "auc",
    "auc_same_model",
    "train_accuracy",
    "test_accuracy",
    "membership_epsilon",
    "auc_bound",
    "noise_multiplier",
    "cpu_seconds",
    "wall_seconds",
    "peak_rss_mb",
)
IDENTITY = ("study", "attack", "dataset", "method", "level", "epsilon", "seed")


def write_rows(
    path: str | os.PathLike,
    study: str,
    block: "AttackBlock",
    method: ModuleType,
    setting: dict[str, Any],
    outcomes: "Sequence[Attacked]",
) -> None:
    """Write the rows of an attack's job as CSV.

    `auc` and `auc_same_model` as in `Attacked`, fractions; the accuracies are the target model's on
    its members and non-members. `epsilon` with its basis, adjacency, status and δ is that of the
    method's whole plan; `membership_epsilon` is what of it bears on the attack, and `auc_bound` the
    largest expected AUC that it allows (`graphdp.attacks.auc.pooled_bound`).

    Raises `GraphDPError` if a model was not trained for exactly the Poisson rounds of its plan.
    """
    from graphdp.attacks.membership import ATTACK, ROLES, membership_epsilon, model_seed

    used = job.usage()
    about = {
        "device": block.trained_on(),
        "git_commit": job.git_commit(),
        "versions": job.versions("torch", "numpy", "scipy", "autodp"),
    }
    rows = []
    for outcome in outcomes:
        entries = [
            accounted(block, method, model_seed(outcome.repeat, role), setting, model)
            for role, model in ((role, outcome.models[role]) for role in ROLES)
        ]
        entry, target = entries[0], outcome.models["target"]
        epsilon = membership_epsilon(entry)
        rows.append(
            {
                "study": study,
                "attack": ATTACK,
                "dataset": block.dataset,
                "method": block.method,
                "level": block.level,
                "epsilon": block.epsilon,
                "delta": entry["delta"],
                "seed": outcome.repeat,
                "hyperparameters": key(setting),
                "nodes_per_class": block.nodes_per_class,
                "members": block.split(model_seed(outcome.repeat, "target")).train.size,
                "auc": outcome.auc,
                "auc_same_model": outcome.auc_same_model,
                "train_accuracy": target.train_accuracy,
                "test_accuracy": target.test_accuracy,
                "membership_epsilon": epsilon,
                "auc_bound": pooled_bound(epsilon, entry["delta"] or 0.0),
                "noise_multiplier": cells.noise_multiplier(entry) or None,
                **cells.label(entry),
                "epsilons": json.dumps(entry["epsilons"], separators=(",", ":")),
                "cpu_seconds": used["cpu_seconds"] / len(outcomes),
                "wall_seconds": used["wall_seconds"] / len(outcomes),
                "peak_rss_mb": used["peak_rss_mb"],
                **about,
            }
        )
    with io.atomic_path(path) as temporary:
        pd.DataFrame(rows).to_csv(temporary, index=False)


def collect_rows(paths: Sequence[str | os.PathLike], output: str | os.PathLike) -> None:
    """Join the jobs' files in a fixed order. Raises GraphDPError if a repeat stands twice."""
    frames = [pd.read_csv(path, dtype=str, keep_default_na=False) for path in paths]
    columns = [*IDENTITY, "hyperparameters", *NUMBERS, "epsilon_basis", "adjacency",
               "epsilon_status"]  # fmt: skip
    rows = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)
    if rows.duplicated(list(IDENTITY)).any():
        twice = ", ".join(rows.loc[rows.duplicated(list(IDENTITY)), list(IDENTITY)].iloc[0])
        raise GraphDPError(f"attack {twice} stands twice; delete the stale file and collect again")
    rows = rows.sort_values([*IDENTITY], key=_as_order)
    with io.atomic_path(output) as temporary:
        rows.to_csv(temporary, index=False, quoting=csv.QUOTE_MINIMAL, lineterminator="\n")


def read_rows(path: str | os.PathLike) -> pd.DataFrame:
    """Read attacks.csv: `NUMBERS` as float64 (NaN where empty), `seed` int64, the rest str.

    Raises GraphDPError for a missing column, or an AUC that is no fraction.
    """
    rows = pd.read_csv(path, dtype=str, keep_default_na=False)
    missing = [name for name in (*IDENTITY, *NUMBERS) if name not in rows.columns]
    if missing:
        raise GraphDPError(f"{path}: no column {', '.join(missing)}; it is not an attacks.csv")
    for name in NUMBERS:
        rows[name] = pd.to_numeric(rows[name].where(rows[name] != "")).astype("float64")
    for name in ("auc", "auc_same_model"):
        if not rows[name].between(0, 1).all():
            raise GraphDPError(f"{path}: {name} is not a fraction between 0 and 1")
    rows["seed"] = rows["seed"].astype("int64")
    rows["epsilon"] = rows["epsilon"].map(canonical_epsilon).astype(str)
    return rows


def _as_order(column: pd.Series) -> pd.Series:
    return column.map(float) if column.name in ("epsilon", "seed") else column
