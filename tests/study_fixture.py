"""What synthetic runs of papers' studies share: their configuration, context and rows."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from matplotlib.text import Annotation

from graphdp import config
from graphdp.methods.registry import cards
from graphdp.methods.settings import key
from graphdp.paper import style
from graphdp.paper.rows import COLUMNS, read_rows
from graphdp.privacy.protection import is_private
from graphdp.workflow import asked
from graphdp.workflow.grid import Grid

ROOT = Path(__file__).parents[1]


def every_level():
    """(method, level) of every card, one k for all of its k."""
    return [
        (its.name, "k1" if kind == "k" else kind) for its in cards().values() for kind in its.levels
    ]


def published(paper):
    return ROOT / f"config/published/{paper}.csv"


def study(paper):
    return config.validate(yaml.safe_load((ROOT / f"config/papers/{paper}.yaml").read_text()))


def context(its, sizes):
    """sizes: dataset -> nodes, edges, features and classes; the others are not downloaded."""
    names = list(its.datasets)
    return {
        "study": its.study, "title": its.title, "paper": its.paper, "datasets": names,
        "unavailable": {n: "not downloaded" for n in names if n not in sizes},
        "published": str(published(its.paper)), "orderings": None, "calibrations": [],
        "experiments": asked.experiments(its),
        "statistics": {
            name: {"nodes": n, "edges": e, "average_degree": e / n, "max_out_degree": 99,
                   "features": f, "classes": c, "homophily": 0.5}
            for name, (n, e, f, c) in sizes.items()
        },
    }  # fmt: skip


def write_rows(its, sizes, row, path):
    """Three rows of every setting of the study on the graphs of `sizes`, by `row(cell, setting,
    seed)`; returns the path."""
    made = [
        row(cell, setting, seed)
        for cell in Grid(its, list(sizes)).cells
        for setting in cell.settings
        for seed in range(3)
    ]
    pd.DataFrame(made).to_csv(path, index=False)
    return path


def row(study, cell, setting, seed, delta, claim, **more):
    """A row without results. claim: basis, adjacency and status of a private cell."""
    private = is_private(cell.level)
    basis, adjacency, status = claim if private else ("", "", "")
    return dict.fromkeys(COLUMNS, "") | {
        "study": study, "dataset": cell.dataset, "method": cell.method, "level": cell.level,
        "epsilon": cell.epsilon, "delta": delta if private else "", "seed": seed,
        "hyperparameters": key(setting), "noise_multiplier": 2.0 if private else "",
        "checkpoint": "last", "study_seed": "12345", "graph": "89abcdef0123",
        "epsilon_basis": basis, "adjacency": adjacency, "epsilon_status": status,
        "epsilons": "[]", "cpu_seconds": 3, "wall_seconds": 3, "peak_rss_mb": 600,
        "versions": "{}", "noise": "aes-256-ctr, grid" if private else "",
    } | more  # fmt: skip


def fixtures(paper, sizes, make_row):
    """The pytest fixtures `study`, `context` and `frame` (its rows) of a module."""

    @pytest.fixture(scope="module", name="study")
    def its():
        return study(paper)

    @pytest.fixture(scope="module", name="context")
    def its_context(study):
        return context(study, sizes)

    @pytest.fixture(scope="module", name="frame")
    def its_rows(study, tmp_path_factory):
        path = tmp_path_factory.mktemp("rows") / "rows.csv"
        return read_rows(write_rows(study, sizes, make_row, path))

    return its, its_context, its_rows


def lines_of(ax):
    """Label -> points (n, 2) of the lines of a panel."""
    return {
        line.get_label(): np.column_stack([line.get_xdata(), line.get_ydata()]).astype(float)
        for line in ax.get_lines()
        if not line.get_label().startswith("_")
    }


def axis_titles(figure):
    """The titles of x axes, each as often as it is written: below a panel or a line of panels."""
    below = [
        text
        for ax in figure.axes
        for text in (ax.xaxis.label, *(one for one in ax.texts if isinstance(one, Annotation)))
    ]
    flat = [text.get_text().replace("\n", " ").replace("\u00a0", " ").strip() for text in below]
    return [text for text in flat if text]


def told(figure):
    """All text of a figure, and what it has no room for."""
    texts = [t.get_text() for t in figure.findobj(lambda o: hasattr(o, "get_text"))]
    texts.append(style.beside(figure))
    return " ".join(texts).replace("\n", " ").replace("\u00a0", " ")
