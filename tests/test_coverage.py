"""How much of a grid has been run, counted on a small study."""

import numpy as np
import pandas as pd
import pytest

from graphdp import config, redraw
from graphdp.methods.settings import key
from graphdp.paper import coverage
from graphdp.workflow.grid import Grid

STUDY = {
    "study": "s",
    "datasets": ["cora", "pubmed"],
    "seeds": 5,
    "experiments": {
        "a": [{"method": "gap", "level": "edge", "epsilon": [1, 4], "hops": [1, 2]}],
        "b": [{"method": "gap", "level": "edge", "epsilon": 4, "hops": [2, 3]}],
    },
    "attacks": {"nmi": {"entries": [{"method": "mlp", "level": "none"}]}},
}


def models(cells, seeds):
    """Rows of all settings of some cells."""
    return pd.DataFrame(
        [
            {"dataset": cell.dataset, "method": cell.method, "level": cell.level,
             "epsilon": cell.epsilon, "hyperparameters": key(setting), "seed": seed,
             "cpu_seconds": 60.0 + 30 * seed}
            for cell in cells
            for setting in cell.settings
            for seed in range(seeds)
        ]
    )  # fmt: skip


def test_settings_are_counted_once_where_they_are_trained_first():
    study = config.validate(STUDY)
    grid = Grid(study)
    of = {(c.dataset, c.epsilon, c.experiment): c for c in grid.cells}
    some = [of["cora", "1", "a"], of["cora", "4", "b"], of["pubmed", "4", "a"]]
    rows = pd.concat([models(some[:2], 3), models(some[2:], 5).iloc[:-1]])
    attacked = models([grid.attacked[0]], 2)
    table = coverage.coverage(study, rows, attacked).set_index(["experiment", "dataset"])
    # Of 5 seeds; models of seeds 0 to 2 take 90 s in the mean, and all 9 of pubmed 1000 / 9.
    assert table.loc[("a", "cora")].tolist() == [4, 2, 3, 3, (2 * 2 + 2 * 5) * 90]
    assert table.loc[("a", "pubmed")].tolist() == [4, 2, 4, 5, pytest.approx(11 * 1020 / 9)]
    # Of b's two settings at ε = 4 the first is a's.
    assert table.loc[("b", "cora")].tolist() == [1, 1, 3, 3, 2 * 90]
    assert table.loc[("b", "pubmed")].tolist() == [1, 0, 0, 0, pytest.approx(5 * 1020 / 9)]
    assert table.loc[("nmi", "cora")].tolist() == [1, 1, 2, 2, 3 * 75]
    assert np.isnan(table.loc[("nmi", "pubmed"), "left"])  # no attack there tells what one takes
    assert coverage.coverage(study, rows)["run"].sum() == 5
    lines = list(coverage.lines_of(table.reset_index(), {"a": "Table 2"}))
    assert lines[2] == "| Table 2 | `a` | cora | 2 of 4 | 3 | 21 min |"
    assert lines[3] == "| | | pubmed | 2 of 4 | 4 to 5 | 21 min |"
    assert lines[5] == "| | | pubmed | 0 of 1 | – | 9 min |"
    assert lines[7] == "| | | pubmed | 0 of 1 | – | not known |"


@pytest.mark.parametrize("paper", ["gap", "dpdgc"])
def test_every_model_of_the_shipped_rows_is_counted(paper, monkeypatch):
    """So that a row whose setting the study no longer asks for is noticed."""
    said = redraw.shipped()
    rows = redraw.shipped_rows(said["papers"][paper]["rows"])
    study = redraw.shipped_study(f"config/papers/{paper}.yaml", sorted(set(rows["dataset"])))
    identity = ["dataset", "method", "level", "epsilon", "hyperparameters"]
    assert coverage.coverage(study, rows)["run"].sum() == len(rows[identity].drop_duplicates())
