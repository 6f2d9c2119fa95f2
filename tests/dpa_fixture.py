"""A synthetic run of DPA-GNN's study: its context, and seeded rows of three repeats."""

import json
from functools import partial

import study_fixture as shared
from graphdp.methods.settings import key
from graphdp.rng import generator
from graphdp.workflow.grid import Grid

ROOT, PUBLISHED = shared.ROOT, shared.published("dpa-gnn")
SIZES = {"cora": (2708, 10556, 1433, 7), "computers": (13471, 491722, 767, 10)}
CLAIMS = {
    "dpa": ("corrected", "conditional"),
    "dpaofficial": ("as_published", "refuted"),
    "gap": ("as_published", "refuted"),
}


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
    basis, status = CLAIMS.get(cell.method, ("corrected", "conditional"))
    adjacency = "edge_undirected" if cell.level == "edge" else "participant"
    mean = accuracy(cell, setting)
    noise = generator("row", cell.path, key(setting), seed).uniform(0, 0.004, 2)
    others = {}
    if cell.method == "gap":  # at 10 the other reading is the larger ε
        adjacency, epsilon = "node_add_remove", float(cell.epsilon)
        holds = {"adjacency": "participant", "basis": "corrected", "status": "conditional"}
        holds |= {"epsilon": epsilon * (0.9999 if epsilon < 10 else 1.1)}
        others = {"epsilons": json.dumps([holds])}
    return shared.row(
        "dpa-gnn", cell, setting, seed, 1e-5, (basis, adjacency, status),
        val_accuracy=mean + noise[0], test_accuracy=mean + noise[1],
        split="per_seed 0.5/0.25/0.25", **others,
    )  # fmt: skip


fixtures = partial(shared.fixtures, "dpa-gnn", SIZES, _row)


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
