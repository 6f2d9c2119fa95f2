"""Shipped rows say of their ε what their study would: so `known_rows` takes all of them over."""

import functools
import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml

from graphdp.config import validate
from graphdp.data import datasets
from graphdp.data.split import GAP_FRACTIONS, sides_by_id, split_of
from graphdp.methods.registry import analyses, card
from graphdp.methods.settings import key
from graphdp.privacy.calibration import calibration_plan
from graphdp.privacy.composition import epsilon_at
from graphdp.privacy.plan import accounted_by
from graphdp.privacy.protection import canonical_epsilon
from graphdp.workflow.grid import Grid
from project_fixture import ROOT, Project

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


def _training(row, nodes, share, graph):
    """How many nodes train: about their share; where isolated ones were removed, of which a split
    has some or others, as many as it has of the graph; by id as many as the ids say, of all of
    which the graph is taken to have a node."""
    if graph is not None:
        return split_of(graph, int(row["study_seed"]), row["split"], int(row["seed"])).train.size
    if " by id" not in row["split"]:
        return int(nodes * share)
    every = SimpleNamespace(num_ids=nodes, ids=np.arange(nodes))
    seed = int(row["seed"]) if row["split"].startswith("per_seed") else 0
    return int((sides_by_id(every, GAP_FRACTIONS, int(row["study_seed"]), seed) == 0).sum())


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if "pnpignn" in name else ())
        for name in FILES
        if name in SHIPPED["rows"]
    ],
)
def test_the_same_noise_has_todays_epsilon_under_every_analysis(name, real_graph):
    """An analysis that was changed after its rows were trained shows here. Within 1 %: a split has
    a few training nodes more or less than the share of them that stands for it here."""
    rows = pd.read_csv(REPORT / name, dtype=str, keep_default_na=False)
    content = yaml.safe_load((ROOT / SHIPPED["rows"][name]).read_text())
    study = validate(content | {"datasets": list(dict.fromkeys(rows["dataset"]))})
    registry = datasets.load_registry(ROOT / "config/datasets.yaml")
    noiseless = set(rows["level"]) == {"none"}
    rows = rows[(rows["noise_multiplier"] != "") & ~rows["epsilons"].isin(["", "[]"])]
    by = ["dataset", "method", "level", "epsilon_basis", "adjacency", "git_commit"]
    checked = 0
    for row in rows.drop_duplicates(by).to_dict("records"):
        spec = registry.resolve(row["dataset"], study.definitions)
        size, graph = spec.statistics, None
        if spec.preprocessing.remove_isolated and row["dataset"] not in study.definitions:
            graph = real_graph(row["dataset"])
        if size is None:  # generated
            continue
        share, *_ = study.split_fractions.get(row["dataset"], GAP_FRACTIONS)
        settings = card(row["method"]).plan(row["level"], json.loads(row["hyperparameters"]))
        plans = accounted_by(
            study.accountant,
            analyses(
                row["method"], row["level"], settings, _training(row, size.nodes, share, graph)
            ),
        )
        label = tuple(row[column] for column in LABEL)
        own = next(p for p in plans if (p.basis, p.adjacency, p.status) == label)
        noise, delta = float(row["noise_multiplier"]), float(row["delta"])
        today = {(p.basis, p.adjacency): p for p in plans}
        for found in json.loads(row["epsilons"]):
            plan = today[found["basis"], found["adjacency"]]
            assert found["status"] == plan.status
            claimed = float(found["claimed_epsilon"])
            assert epsilon_at(plan, own, noise, delta) == pytest.approx(claimed, rel=0.01), row
            checked += 1
    assert bool(checked) != noiseless  # and what has no noise has no ε to read


@pytest.mark.slow
def test_rows_are_taken_over_where_their_accountant_rounds_off_most(mirror, tmp_path):
    """Many steps at δ = 1e-7: a change of its rounding once moved this noise beyond what
    `known_rows` takes for the same."""
    study = yaml.safe_load((ROOT / "config/papers/dpdgc.yaml").read_text())
    place, known = "berkeley13-connected", REPORT / "dpdgc-rows.csv.gz"
    project = Project(tmp_path, study)
    project.configure(
        datasets=[place], only=["accuracy", "edge-budget"], seeds=5, train=False,
        known_rows=[str(known)], mirror=str(mirror),
    )  # fmt: skip
    project.snakemake("rows")
    taken = pd.read_csv(project.folder / "results/dpdgc/rows.csv")
    shipped = pd.read_csv(known, low_memory=False)
    shipped = shipped[(shipped["dataset"] == place) & (shipped["seed"] < 5)]
    for rows in (taken, shipped):
        rows.set_index(["method", "level", "epsilon", "hyperparameters", "seed"], inplace=True)
    edge = shipped[shipped.index.isin(["edge"], "level")]
    assert set(edge.index.get_level_values("epsilon")) == {1, 2, 4, 8, 16}
    assert edge.index.isin(taken.index).all()
