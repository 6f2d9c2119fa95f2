"""A synthetic run of PNPiGNNs' study: its context, and seeded rows of three repeats."""

from pathlib import Path

import pandas as pd
import yaml

from graphdp import config
from graphdp.methods.settings import key
from graphdp.paper.rows import COLUMNS
from graphdp.privacy.protection import is_private
from graphdp.rng import generator
from graphdp.workflow import asked
from graphdp.workflow.grid import Grid

ROOT = Path(__file__).parents[1]
PUBLISHED = ROOT / "config/published/pnpignn.csv"
SIZES = {"pubmed": (19717, 88648, 500, 3), "twitch-de": (9498, 306276, 3170, 2)}
CLAIMS = {
    "heterpoisson": ("corrected", "conditional"),
    "heterpoissonsml": ("as_published", "refuted"),
    "heterpoissonofficial": ("as_published", "refuted"),
}


def study():
    return config.validate(yaml.safe_load((ROOT / "config/papers/pnpignn.yaml").read_text()))


def context(its):
    names = list(its.datasets)
    return {
        "study": its.study, "title": its.title, "paper": its.paper, "datasets": names,
        "unavailable": {n: "not downloaded" for n in names if n not in SIZES},
        "published": str(PUBLISHED), "orderings": None, "calibrations": [],
        "experiments": asked.experiments(its),
        "statistics": {
            name: {"nodes": n, "edges": e, "average_degree": e / n, "max_out_degree": 99,
                   "features": f, "classes": c, "homophily": 0.5, "published": {}}
            for name, (n, e, f, c) in SIZES.items()
        },
    }  # fmt: skip


def write_rows(its, path):
    """Rows of every setting of the study on the graphs of `SIZES`; returns the path."""
    made = []
    for cell in Grid(its, list(SIZES)).cells:
        for setting in cell.settings:
            for seed in range(3):
                made.append(_row(cell, setting, seed))
    pd.DataFrame(made).to_csv(path, index=False)
    return path


def accuracy(cell, setting):
    """The mean accuracy around which a setting's models lie."""
    budget = 0.0 if cell.epsilon == "inf" else 1 / float(cell.epsilon)
    neighbors = setting.get("num_neighbors", 0)
    base = 0.85 - 0.1 * budget - 0.02 * neighbors * budget
    base -= {"heterpoissonofficial": 0.02, "heterpoissonsml": 0.05}.get(cell.method, 0)
    base -= (
        0.01 * (setting.get("overlap") == "dropped")
        + 0.003 * (13 - setting.get("test_neighbors", 13)) / 3
    )
    return base - 0.2 * (cell.dataset == "twitch-de")


def _row(cell, setting, seed):
    private = is_private(cell.level)
    usual = "as_published" if cell.experiment == "papers" else "corrected"
    basis, status = CLAIMS.get(cell.method, (usual, "conditional"))
    noise = generator("row", cell.path, key(setting), seed).uniform(0, 0.01, 4)
    mean = accuracy(cell, setting)
    row = dict.fromkeys(COLUMNS, "") | {
        "study": "pnpignn", "dataset": cell.dataset, "method": cell.method, "level": cell.level,
        "epsilon": cell.epsilon, "delta": 2.4e-5 if private else "", "seed": seed,
        "hyperparameters": key(setting), "val_accuracy": mean + noise[0],
        "test_accuracy": mean + noise[1], "noise_multiplier": 2.0 if private else "",
        "checkpoint": "last", "study_seed": "12345", "split": "per_seed 0.8/0.01/0.19",
        "graph": "89abcdef0123", "epsilon_basis": basis if private else "",
        "adjacency": "participant" if private else "", "epsilon_status": status if private else "",
        "epsilons": "[]", "cpu_seconds": 3, "wall_seconds": 3, "peak_rss_mb": 600,
        "versions": "{}", "noise": "aes-256-ctr, grid" if private else "",
    }  # fmt: skip
    return row | {
        "test_precision": mean - 0.05 + noise[2],
        "test_precision_weighted": mean + noise[3],
    }
