"""DPDGC through the real workflow on a small generated graph."""

import pandas as pd
import pytest

from project_fixture import Project
from test_workflow import STUDY

pytestmark = pytest.mark.slow

ENTRY = {
    "method": "dpdgc", "level": "k2", "epsilon": [8], "epochs": 2, "classifier_epochs": 2,
    "batch_size": 64,
}  # fmt: skip
NODE = ENTRY | {"method": "dpdgcofficial", "level": "node", "max_degree": 6}


def test_embeddings_are_released_once_and_the_classifier_trains_on_them(tmp_path):
    project = Project(tmp_path, STUDY)
    # The file of a study replaces what a test of the workflow trains.
    project.configure(experiments={"accuracy": [ENTRY, NODE]}, figures=["dpdgc_figure3b"])
    rows = f"results/{STUDY['study']}/rows.csv"
    planned = project.planned(rows)
    assert (planned["stage embed"], planned["stage fit"]) == (2, 2)
    assert not {"stage encode", "stage aggregate", "stage bound_degree"} & set(planned)
    project.snakemake(rows)
    table = pd.read_csv(tmp_path / rows)
    assert len(table) == 4
    found = table.drop_duplicates("method").set_index("method")
    assert found.loc["dpdgc", "adjacency"] == "k_neighbor(2)"
    assert found.loc["dpdgc", "epsilon_basis"] == "corrected"
    assert found.loc["dpdgcofficial", "epsilon_status"] == "refuted"
    assert (table["noise_multiplier"] > 0).all()
    # Another classifier trains on the same release.
    project.configure(experiments={"accuracy": [ENTRY | {"layers": 3}, NODE]})
    planned = project.planned(rows)
    assert planned["stage fit"] == 1 and "stage embed" not in planned
    # Another noise is another release.
    project.configure(experiments={"accuracy": [ENTRY | {"classifier_epochs": 3}, NODE]})
    assert project.planned(rows)["stage embed"] == 1


def test_a_perturbed_graph_has_the_split_of_its_calibration(tmp_path):
    """With shares of the dataset's own: the noise is found by the number of training nodes."""
    project = Project(tmp_path, STUDY)
    edge = {
        "method": "sage", "level": "edge", "epsilon": [4], "perturbation": "asymmetric",
        "directed": True, "epochs": 2,
    }  # fmt: skip
    project.configure(experiments={"accuracy": [edge]}, split_fractions={"small": [0.1, 0.1, 0.8]})
    rows = f"results/{STUDY['study']}/rows.csv"
    project.snakemake(rows)
    table = pd.read_csv(tmp_path / rows)
    assert list(table["split"]) == ["shared by id 0.1/0.1/0.8"] * 2
    assert (table["epsilon"] == 4).all()
