"""A synthetic run of DPA-GNN's study: its context, and seeded rows of three repeats."""

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
PUBLISHED = ROOT / "config/published/dpa-gnn.csv"
SIZES = {"cora": (2708, 10556, 1433, 7), "computers": (13471, 491722, 767, 10)}
CLAIMS = {
    "dpa": ("corrected", "conditional"),
    "dpaofficial": ("as_published", "refuted"),
    "gap": ("as_published", "refuted"),
}


def study():
    return config.validate(yaml.safe_load((ROOT / "config/papers/dpa-gnn.yaml").read_text()))


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
    cells = Grid(its, list(SIZES)).cells
    made = [
        _row(cell, setting, seed)
        for cell in cells
        for setting in cell.settings
        for seed in range(3)
    ]
    pd.DataFrame(made).to_csv(path, index=False)
    return path


def accuracy(cell, setting):
    """The mean accuracy around which a setting's models lie: each hyperparameter moves it."""
    budget = 0.0 if cell.epsilon == "inf" else 1 / float(cell.epsilon)
    base = 0.8 - 0.5 * budget - 0.3 * (cell.method == "dpa" and cell.level != "none")
    base -= 0.01 * abs(setting.get("feature_layers", 8) - 8)
    base -= 0.005 * abs(setting.get("label_layers", 6) - 6)
    base -= 0.1 * (setting.get("scaling") == "raw") + 0.05 * (setting.get("scaling") == "clipped")
    base -= 0.02 * abs(setting.get("dummy_rate", 0.5) - 0.5)
    base -= 0.1 * (setting.get("feature_share") == 0.2)
    return base - 5 / (setting.get("columns") or 10_000)


def _row(cell, setting, seed):
    private = is_private(cell.level)
    basis, status = CLAIMS.get(cell.method, ("corrected", "conditional"))
    noise = generator("row", cell.path, key(setting), seed).uniform(0, 0.004, 2)
    mean = accuracy(cell, setting)
    adjacency = "edge_undirected" if cell.level == "edge" else "participant"
    return dict.fromkeys(COLUMNS, "") | {
        "study": "dpa-gnn", "dataset": cell.dataset, "method": cell.method, "level": cell.level,
        "epsilon": cell.epsilon, "delta": 1e-5 if private else "", "seed": seed,
        "hyperparameters": key(setting), "val_accuracy": mean + noise[0],
        "test_accuracy": mean + noise[1], "noise_multiplier": 2.0 if private else "",
        "checkpoint": "last", "study_seed": "12345", "split": "per_seed 0.5/0.25/0.25",
        "graph": "89abcdef0123", "epsilon_basis": basis if private else "",
        "adjacency": adjacency if private else "", "epsilon_status": status if private else "",
        "epsilons": "[]", "cpu_seconds": 3, "wall_seconds": 3, "peak_rss_mb": 600,
        "versions": "{}", "noise": "aes-256-ctr, grid" if private else "",
    }  # fmt: skip


def at(table, line, dataset, epsilon, group=""):
    """The one cell of a table of accuracies."""
    found = table[
        (table["line"] == line)
        & (table["group"] == group)
        & (table["dataset"] == dataset)
        & (table["epsilon"] == epsilon)
    ]
    assert len(found) == 1
    return found.iloc[0]


def expected(study, experiment, method, dataset, epsilon, **settings):
    """The fixture's accuracy of one setting, in percent; its rows lie up to 0.4 above."""
    found = [
        100 * accuracy(cell, setting)
        for cell in Grid(study, list(SIZES)).cells
        if (cell.method, cell.dataset, cell.epsilon) == (method, dataset, epsilon)
        and cell.experiment == experiment
        for setting in cell.settings
        if all(setting.get(name) == value for name, value in settings.items())
    ]
    assert len(found) == 1
    return found[0]
