"""Rows of attacks: one per repeat. No torch."""

import json
import os
from collections.abc import Sequence
from typing import Any

import pandas as pd

from graphdp import io
from graphdp.attacks.auc import pooled_bound
from graphdp.attacks.membership import AttackBlock, Attacked, membership_epsilon, model_seed
from graphdp.attacks.nodes import ATTACK, ROLES
from graphdp.methods.settings import key
from graphdp.privacy import calibrated
from graphdp.workflow import job
from graphdp.workflow.model_rows import accounted


def write_rows(
    path: str | os.PathLike,
    block: AttackBlock,
    setting: dict[str, Any],
    outcomes: Sequence[Attacked],
) -> None:
    """Write the rows of an attack's job as CSV.

    `auc` and `auc_same_model` as in `Attacked`, fractions; the accuracies are the target model's on
    its members and non-members. `epsilon` with its basis, adjacency, status and δ is that of the
    method's whole plan; `membership_epsilon` is what of it bears on the attack, and `auc_bound` the
    largest expected AUC that it allows (`graphdp.attacks.auc.pooled_bound`).

    Raises `GraphDPError` if a model was not trained for exactly the noisy rounds of its plan.
    """
    used = job.usage()
    about = {
        "device": block.trained_on(),
        "git_commit": job.git_commit(),
        "versions": job.versions("torch", "numpy", "scipy", "autodp"),
    }
    rows = []
    for outcome in outcomes:
        entries = [
            accounted(block, model_seed(outcome.repeat, role), setting, model)
            for role, model in ((role, outcome.models[role]) for role in ROLES)
        ]
        entry, target = entries[0], outcome.models["target"]
        epsilon = membership_epsilon(entry)
        rows.append(
            {
                "study": block.study,
                "attack": ATTACK,
                "dataset": block.dataset,
                "method": block.method,
                "level": block.level,
                "epsilon": block.epsilon,
                "delta": entry["delta"],
                "seed": outcome.repeat,
                "hyperparameters": key(setting),
                "nodes_per_class": block.nodes_per_class,
                **block.origin(),
                "members": block.split(model_seed(outcome.repeat, "target")).train.size,
                "auc": outcome.auc,
                "auc_same_model": outcome.auc_same_model,
                "train_accuracy": target.train_accuracy,
                "test_accuracy": target.test_accuracy,
                "membership_epsilon": epsilon,
                "auc_bound": pooled_bound(epsilon, entry["delta"] or 0.0),
                "noise_multiplier": calibrated.noise_multiplier(entry) or None,
                **calibrated.label(entry),
                "epsilons": json.dumps(entry["epsilons"], separators=(",", ":")),
                "cpu_seconds": used["cpu_seconds"] / len(outcomes),
                "wall_seconds": used["wall_seconds"] / len(outcomes),
                "peak_rss_mb": used["peak_rss_mb"],
                **about,
            }
        )
    with io.atomic_path(path) as temporary:
        pd.DataFrame(rows).to_csv(temporary, index=False)
