"""Shipped rows say of their ε what their study would: so `known_rows` takes all of them over."""

import functools
import json

import pandas as pd
import pytest
import yaml

from graphdp.config import validate
from graphdp.methods.registry import analyses, card
from graphdp.methods.settings import key
from graphdp.privacy.protection import canonical_epsilon
from graphdp.workflow.calibrations import calibration_plan
from graphdp.workflow.grid import Grid
from project_fixture import ROOT

REPORT = ROOT / "workflow/report"
SHIPPED = yaml.safe_load((REPORT / "shipped.yaml").read_text())
FILES = {name: of for kind in ("rows", "attacks") for name, of in SHIPPED[kind].items() if of}
#: Larger than any batch; no label depends on it.
MANY_NODES = 10**12
LABEL = ["epsilon_basis", "adjacency", "epsilon_status"]


@functools.cache
def labels(config: str, datasets: tuple[str, ...]) -> dict[tuple, tuple[str, ...]]:
    """(dataset, method, level, ε, setting) -> the label of its ε, over a study's whole grid."""
    content = yaml.safe_load((ROOT / config).read_text())
    study = validate(content | {"datasets": list(datasets)})
    grid, found = Grid(study), {}
    for cell in [*grid.cells, *grid.attacked]:
        for setting in cell.settings:
            settings = card(cell.method).plan(cell.level, setting)
            plans = analyses(cell.method, cell.level, settings, MANY_NODES)
            plan = calibration_plan(plans, study.calibrated_for(cell.experiment))
            where = cell.dataset, cell.method, cell.level, cell.epsilon, key(setting)
            named = plan.basis if plan.adjacency else "", plan.adjacency, plan.status
            found.setdefault(where, named)
    return found


@pytest.mark.parametrize("name", FILES)
def test_labels_are_those_of_the_study(name):
    rows = pd.read_csv(REPORT / name, dtype=str, keep_default_na=False)
    wanted = labels(FILES[name], tuple(dict.fromkeys(rows["dataset"])))
    kept = rows.drop_duplicates(
        ["dataset", "method", "level", "epsilon", "hyperparameters", *LABEL]
    )
    for row in kept.to_dict("records"):
        setting = key(json.loads(row["hyperparameters"]))
        epsilon = canonical_epsilon(row["epsilon"])
        where = row["dataset"], row["method"], row["level"], epsilon, setting
        assert tuple(row[column] for column in LABEL) == wanted[where], where
