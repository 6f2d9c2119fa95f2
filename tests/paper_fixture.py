"""A synthetic study for the tests of the paper's artefacts: seeded rows and their context."""

import itertools
import json
from pathlib import Path

import pandas as pd

from graphdp.paper.rows import COLUMNS
from graphdp.rng import generator

DELTAS = {"edge": 1e-7, "node": 1e-5}
CLAIMS = {
    ("gap", "edge"): ("as_published", "edge_directed", "proven"),
    ("gap", "node"): ("as_published", "node_add_remove", "refuted"),
    ("mlp", "node"): ("as_published", "node_add_remove", "conditional"),
    ("progap", "edge"): ("as_published", "edge_directed", "proven"),
    ("progap", "node"): ("as_published", "node_add_remove", "refuted"),
    ("naive", "node"): ("as_published", "node_add_remove", "conditional"),
    ("sage", "node"): ("as_published", "node_add_remove", "refuted"),
}
_FULL = {"hidden": 16, "learning_rate": 0.01, "epochs": 100}
_PRIVATE = {
    "hidden": 16,
    "learning_rate": 0.01,
    "epochs": 10,
    "batch_size": 256,
    "max_grad_norm": 1,
}


def experiments(edge=("0.5", "1", "4"), node=("2", "8"), degrees=(10, 100)):
    """The experiments of a small study, as the workflow writes them into the context."""
    gap = {"method": "gap", "hops": [1, 2], "encoder_layers": [2]}
    by_dataset = {"batch_size": {"default": [256], "elsewhere": [2048]}}
    return {
        "accuracy": [
            gap | {"level": "none", "epsilon": ["inf"]},
            gap | {"level": "edge", "epsilon": list(edge)},
            gap | {"level": "node", "epsilon": list(node), "max_degree": [100, 200]} | by_dataset,
            {"method": "mlp", "level": "none", "epsilon": ["inf"], "hidden": [16]},
            {"method": "mlp", "level": "node", "epsilon": list(node)} | by_dataset,
        ],
        "degree": [gap | {"level": "node", "epsilon": list(node), "max_degree": list(degrees)}],
        "encoder": [
            gap | {"level": "edge", "epsilon": list(edge), "encoder_layers": [0, 2]},
            gap
            | {
                "level": "node",
                "epsilon": list(node),
                "max_degree": [100, 200],
                "encoder_layers": [0, 2],
            },
        ],
    }


def context(datasets=("berkeley13", "pubmed"), published=None, unavailable=None, **grids):
    """The context of a study on `datasets`."""
    return {
        "study": "small",
        "title": "A small study",
        "paper": "gap" if published else None,
        "datasets": [*datasets, *(unavailable or {})],
        "unavailable": unavailable or {},
        "published": None if published is None else str(published),
        "orderings": None if published is None else str(Path(published).parent / "orderings.csv"),
        "experiments": experiments(**grids),
        "statistics": {
            name: {
                "nodes": 19000 + i,
                "edges": 1354934 + i,
                "average_degree": 71.25,
                "median_degree": 40.5,
                "max_out_degree": 3000,
                "features": 437,
                "classes": 6,
                "homophily": 0.25,
                "fingerprint": "0" * 64,
            }
            for i, name in enumerate(datasets)
        },
        "calibrations": [
            {
                "dataset": name,
                "method": method,
                "level": level,
                "epsilon": epsilon,
                "delta": DELTAS[level],
                "noise_multiplier": 12.5 / float(epsilon),
                "hyperparameters": {"hops": 2} if method == "gap" else {},
                "accountant": "autodp",
                "epsilon_accounted": float(epsilon) * 0.9999,
                "epsilon_dp_accounting": float(epsilon) * 0.9998,
                "basis": "as_published",
                "adjacency": CLAIMS[method, level][1],
                "status": CLAIMS[method, level][2],
            }
            for name in datasets
            for method, level, epsilon in [("gap", "edge", "4"), ("gap", "node", "8")]
        ],
    }


def published_with_an_unknown_method(published, folder):
    """A file of published numbers with "gin", which has no card, in place of "sage"."""
    path = Path(folder) / Path(published).name
    path.write_text(Path(published).read_text().replace(",sage,", ",gin,"))
    return str(path)


def synthetic_rows(context, seeds=5):
    """Rows for every cell and setting of a context's experiments, in the form of rows.csv."""
    rows = {}
    for dataset, specs in itertools.product(context["datasets"], context["experiments"].values()):
        if dataset in context["unavailable"]:
            continue
        for spec in specs:
            for setting, epsilon in itertools.product(_settings(spec), spec["epsilon"]):
                for seed in range(seeds):
                    row = _row(context["study"], dataset, spec, epsilon, setting, seed)
                    rows[tuple(row[k] for k in COLUMNS[:8])] = row
    return pd.DataFrame(list(rows.values()), columns=list(COLUMNS))


def _settings(spec):
    base = _PRIVATE if spec["level"] == "node" else _FULL
    grid = {k: v for k, v in spec.items() if k not in ("method", "level", "epsilon")}
    grid = {k: v["default"] if isinstance(v, dict) else v for k, v in grid.items()}
    for values in itertools.product(*grid.values()):
        yield base | dict(zip(grid, values, strict=True))


def _readings(method, level, epsilon):
    """ε of the row under every analysis, as the calibration writes them."""
    if level == "none":
        return "[]"
    adjacency, status = CLAIMS[method, level][1:]
    other = {"edge": "edge_undirected", "node": "participant"}[level]
    value = float(epsilon)
    published = "none" if status == "refuted" else value
    readings = [
        {"basis": "as_published", "adjacency": adjacency, "status": status, "epsilon": published},
        {
            "basis": "corrected",
            "adjacency": other,
            "status": "conditional",
            "epsilon": value * (1.5 if level == "edge" else 1),
        },
    ]
    return json.dumps([reading | {"claimed_epsilon": value} for reading in readings])


def _row(study, dataset, spec, epsilon, setting, seed):
    method, level = spec["method"], spec["level"]
    noise = generator("synthetic", dataset, method, level, epsilon, json.dumps(setting), seed)
    budget = 0.0 if level == "none" else 1 / float(epsilon)
    top = {"gap": 0.80, "mlp": 0.51, "naive": 0.47, "progap": 0.85, "sage": 0.7}[method] - 0.15 * (
        len(dataset) % 3
    )
    loss = {"none": 0.0, "edge": 0.05, "node": 0.25}[level] * min(budget, 2)
    loss += 0.01 * abs(setting.get("hops", setting.get("depth", 1)) - (2 if budget < 0.5 else 1))
    loss += 0.1 * (setting.get("encoder_layers", 2) == 0) + 0.08 * setting.get("layerwise", False)
    loss += 0.03 * abs(setting.get("max_degree", 100) - 100) / 100
    basis, adjacency, status = CLAIMS.get((method, level), ("", "", ""))
    return {
        "study": study,
        "dataset": dataset,
        "method": method,
        "level": level,
        "epsilon": epsilon,
        "delta": DELTAS.get(level, ""),
        "seed": seed,
        "hyperparameters": json.dumps(setting, sort_keys=True, separators=(",", ":")),
        "val_accuracy": top - loss + 0.01 * noise.standard_normal(),
        "test_accuracy": top - loss - 0.005 + 0.01 * noise.standard_normal(),
        "noise_multiplier": "" if level == "none" else 12.5 * budget,
        "best_epoch": 10,
        "checkpoint": "best_validation",
        "study_seed": "12345",
        "split": "shared",
        "graph": "89abcdef0123",
        "epsilon_basis": basis,
        "adjacency": adjacency,
        "epsilon_status": status,
        "epsilons": _readings(method, level, epsilon),
        "cpu_seconds": 2.5,
        "wall_seconds": 1.5,
        "peak_rss_mb": 812.0,
        "device": "cpu",
        "git_commit": "0123abc",
        "versions": '{"numpy":"2.4.0","torch":"2.13.0"}',
    }


def attacks():
    """What a context says of a small attack."""
    levels = {"level": "none", "epsilon": ["inf"]}, {"level": "node", "epsilon": ["1", "8"]}
    return {"nmi": [{"method": m} | level for m in ("gap", "mlp") for level in levels]}


def synthetic_attacks(path, datasets, skip=(), seeds=3):
    """Write an attacks.csv with repeats of every cell of `attacks`; returns its path.

    The AUC of repeat i is 0.51 + 0.01 i. skip: (dataset, method, epsilon) without rows.
    """
    lines = []
    for dataset, entry in itertools.product(datasets, attacks()["nmi"]):
        method, level = entry["method"], entry["level"]
        private = level == "node"
        basis, adjacency, status = CLAIMS[method, level] if private else ("", "", "")
        shared = {
            "study": "small", "attack": "nmi", "dataset": dataset, "method": method, "level": level,
            "hyperparameters": "{}", "members": 2400, "auc_same_model": 0.6,
            "delta": 1e-4 if private else "", "noise_multiplier": 2.0 if private else "",
            "train_accuracy": 0.9, "test_accuracy": 0.5,
            "membership_epsilon": 0.75 if private else "inf", "auc_bound": 0.93 if private else 1.0,
            "epsilon_basis": basis, "adjacency": adjacency, "epsilon_status": status,
            "cpu_seconds": 1, "wall_seconds": 1, "peak_rss_mb": 1,
        }  # fmt: skip
        for epsilon, seed in itertools.product(entry["epsilon"], range(seeds)):
            if (dataset, method, epsilon) not in skip:
                lines.append(shared | {"epsilon": epsilon, "seed": seed, "auc": 0.51 + 0.01 * seed})
    pd.DataFrame(lines).to_csv(path, index=False)
    return path
