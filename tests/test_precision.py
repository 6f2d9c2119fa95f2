"""The precision columns of rows, and a δ that follows the number of training nodes."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from graphdp import config
from graphdp.errors import GraphDPError
from graphdp.paper import rows
from graphdp.paper.rows import PRECISIONS
from graphdp.workflow.calibrations import calibrate_cell
from graphdp.workflow.grid import Grid
from graphdp.workflow.model_rows import precisions

SHIPPED = Path(__file__).parents[1] / "workflow/report/dpdgc-rows.csv.gz"


def test_precision_by_hand():
    """Class 0: 2 of 3 right, class 1: 1 of 1, class 2 is never predicted; class 3 is neither."""
    labels = np.array([0, 0, 1, 1, 2, 3, 3])
    found = np.array([0, 0, 1, 2, 0, 3, 3], dtype=np.int16)
    macro, weighted = precisions(labels, found, np.array([0, 1, 2, 4])).values()
    assert macro == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert weighted == pytest.approx((2 * 2 / 3 + 1 * 1 + 1 * 0) / 4)
    # A class that is predicted without being anyone's counts in the mean, with precision 0.
    macro, weighted = precisions(labels, found, np.array([2, 3])).values()
    assert (macro, weighted) == (0.5, 1.0)


def test_precision_is_that_of_counting_every_node():
    generator = np.random.default_rng(4)
    labels = generator.integers(5, size=400)
    found = np.where(generator.random(400) < 0.6, labels, generator.integers(5, size=400))
    nodes = generator.choice(400, size=150, replace=False)
    per_class = {}
    for c in range(5):
        hits = [labels[i] == c for i in nodes if found[i] == c]
        per_class[c] = sum(hits) / len(hits)
    macro, weighted = precisions(labels, found, nodes).values()
    assert macro == pytest.approx(sum(per_class.values()) / 5)
    assert weighted == pytest.approx(np.mean([per_class[labels[i]] for i in nodes]))


def test_rows_without_precision_stay_usable(tmp_path):
    shipped = pd.read_csv(SHIPPED, dtype=str, keep_default_na=False)
    shipped.drop(columns=list(PRECISIONS)).to_csv(tmp_path / "older.csv", index=False)
    old = rows.read_rows(tmp_path / "older.csv")
    assert old[list(PRECISIONS)].isna().all(axis=None) and len(old) == len(shipped) > 2000
    rows.write_rows(old.iloc[:2], tmp_path / "old.csv")
    new = old.iloc[2:4].assign(test_precision=0.5, test_precision_weighted=0.75)
    rows.write_rows(new, tmp_path / "new.csv")
    together = rows.collect([tmp_path / "old.csv", tmp_path / "new.csv"])
    assert together["test_precision"].notna().sum() == 2
    rows.write_rows(new.assign(test_precision=1.5), tmp_path / "bad.csv")
    with pytest.raises(GraphDPError, match="test_precision is not a fraction"):
        rows.collect([tmp_path / "bad.csv"])


def test_delta_by_the_number_of_training_nodes():
    """PNPiGNNs, Appendix A.2, as its code counts: PubMed, 15,773 training nodes."""
    study = config.validate(
        {
            "study": "s",
            "datasets": ["pubmed"],
            "delta": "train_nodes^-1.1",
            "experiments": {"a": [{"method": "mlp", "level": "node", "epsilon": 2}]},
        }
    )
    setting = {"batch_size": 4096, "epochs": 9, "max_grad_norm": 1.0}
    (entry,) = calibrate_cell(
        "pubmed", "mlp", "node", "2", [setting], [15773], 88648, study.delta, num_nodes=19717
    )
    assert entry["delta"] == pytest.approx(2.41e-5, rel=2e-3)
    with pytest.raises(GraphDPError, match="must be auto, train_nodes"):
        config.validate({"study": "s", "datasets": ["pubmed"], "delta": "train_nodes"})


def test_experiments_with_fewer_repeats_and_their_own_analysis():
    entry = {"method": "mlp", "level": "node", "epsilon": 2}
    base = {
        "study": "s",
        "datasets": ["pubmed"],
        "seeds": 10,
        "experiments": {"a": [entry], "b": [entry | {"method": "gap"}]},
    }
    changes = {"experiment_seeds": {"b": 3}, "corrected_experiments": ["b"]}
    grid = Grid(config.validate(base | changes))
    assert {c.experiment: grid.blocks((), (), c.experiment) for c in grid.cells} == {
        "a": ["0-9"],
        "b": ["0-2"],
    }
    assert grid.blocks(["0-9"], (), "b") == ["0-2"]
    noise = {unit.method: grid.task(unit)["noise"] for unit in grid.units.values()}
    assert noise["mlp"]["calibrate_for"] == "published"
    assert noise["gap"]["calibrate_for"] == "corrected"
    assert [grid.calibrated(cell)["calibrate_for"] for cell in grid.cells] == [
        "published",
        "corrected",
    ]
    repeats = {one["name"]: one["repeats"] for one in grid.released("pubmed", grid.cells)}
    assert repeats == {"mlp/node/2": 10, "gap/node/2": 3}
    for name, value in (
        ("experiment_seeds", {"c": 3}),
        ("corrected_experiments", ["c"]),
        ("only", ["c"]),
    ):
        with pytest.raises(GraphDPError, match=f"{name}: there is no experiment 'c'; known: a, b"):
            config.validate(base | {name: value})
