"""How much of a grid has been run, counted on a small study."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from graphdp import config, redraw
from graphdp.methods.settings import key
from graphdp.paper import costs, coverage
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
    whole = coverage.coverage(study, rows, attacked).set_index(["experiment", "dataset"])
    assert not whole["more"].any()
    table = whole.drop(columns=["rough", "more"])
    # Of 5 seeds; models of seeds 0 to 2 take 90 s in the mean, and all 9 of pubmed 1000 / 9.
    assert table.loc[("a", "cora")].tolist() == [4, 2, 3, 3, (2 * 2 + 2 * 5) * 90]
    assert table.loc[("a", "pubmed")].tolist() == [4, 2, 4, 5, pytest.approx(11 * 1020 / 9)]
    # Of b's two settings at ε = 4 the first is a's.
    assert table.loc[("b", "cora")].tolist() == [1, 1, 3, 3, 2 * 90]
    assert table.loc[("b", "pubmed")].tolist() == [1, 0, 0, 0, pytest.approx(5 * 1020 / 9)]
    assert table.loc[("nmi", "cora")].tolist() == [1, 1, 2, 2, 3 * 75]
    # No attack there tells what one takes: as much more than on Cora as GAP's models do.
    assert list(whole.index[whole["rough"]]) == [("nmi", "pubmed")]
    assert table.loc[("nmi", "pubmed"), "left"] == pytest.approx(5 * 75 * (1020 / 9) / 90)
    assert coverage.coverage(study, rows)["run"].sum() == 5
    lines = list(coverage.lines_of(whole.reset_index(), {"a": "Table 2"}))
    assert lines[2] == "| Table 2 | `a` | cora | 2 of 4 | 3 | 21 min |"
    assert lines[3] == "| | | pubmed | 2 of 4 | 4 to 5 | 21 min |"
    assert lines[5] == "| | | pubmed | 0 of 1 | – | 9 min |"
    assert lines[7] == "| | | pubmed | 0 of 1 | – | about 8 min |"
    # Without a model anywhere else nothing tells, and what has not run at all stands at the end.
    few = coverage.coverage(study, models([of["cora", "1", "a"]], 5))
    assert np.isnan(few.set_index(["experiment", "dataset"]).loc[("a", "pubmed"), "left"])
    assert list(coverage.lines_of(few, {}))[-1] == "| all | all | pubmed | 0 of 6 | – | not known |"


def test_what_is_dearer_than_all_that_ran_takes_more():
    content = STUDY | {
        "datasets": ["cora"],
        "attacks": {},
        "experiments": STUDY["experiments"]
        | {"c": [{"method": "gap", "level": "edge", "epsilon": 1, "encoder_layers": [0, 2]}]},
    }
    study = config.validate(content)
    cells = {cell.experiment: cell for cell in Grid(study).cells}
    rows = models([cells["a"]], 5)
    table = coverage.coverage(study, rows).set_index("experiment")
    assert table["more"].to_dict() == {"a": False, "b": False, "c": True}
    (line,) = [one for one in coverage.lines_of(table.reset_index(), {}) if "`c`" in one]
    assert " | more than " in line
    # One of its models has run, at 60 s, so that it tells what the others take.
    table = coverage.coverage(study, pd.concat([rows, models([cells["c"]], 1)[:1]]))
    assert not table["more"].any() and not table["rough"].any()
    (setting,) = (s for s in cells["c"].settings if s["encoder_layers"] == 0)
    assert key(setting) == models([cells["c"]], 1)["hyperparameters"].iloc[0]
    assert table.set_index("experiment").loc["c", "left"] == 4 * 60


def test_costs_are_estimated_from_the_other_kinds_on_a_graph():
    """Twice and three times as dear: by hand; and how far such estimates are off."""
    seconds = {
        ("x", "gap"): 1,
        ("y", "gap"): 2,
        ("z", "gap"): 3,
        ("x", "mlp"): 10,
        ("y", "mlp"): 20,
    }
    rows = pd.DataFrame(
        [{"dataset": graph, "method": method, "level": "none", "hyperparameters": "{}",
          "cpu_seconds": float(one)}
         for (graph, method), one in seconds.items()]
    )  # fmt: skip
    known = costs.Costs({"s": rows})
    assert known.of(costs.Kind("s", "mlp", "none"), "y") == (20, False)
    assert known.of(costs.Kind("s", "mlp", "none"), "z") == (pytest.approx(30), True)
    assert np.isnan(known.of(costs.Kind("s", "sage", "none"), "z")[0])
    assert np.isnan(known.of(costs.Kind("s", "mlp", "none"), "w")[0]) and not known.knows("w")
    assert known.off_by(0.9, {"x", "y"}) == pytest.approx(1)
    dearer = pd.concat(
        [
            rows,
            rows[-1:].assign(method="sage", dataset="x", cpu_seconds=5.0),
            rows[-1:].assign(method="sage", dataset="y", cpu_seconds=40.0),
        ]
    )
    # By the other two methods 10 were expected.
    assert costs.Costs({"s": dearer}).off_by(1, {"y"}) == pytest.approx(4)
    assert np.isnan(known.off_by(0.9, {"z"}))


def test_how_far_estimates_are_off_is_what_fits_without_each_cost_say():
    """Two groups of graphs that no method leads from one to the other; "lone" has one model."""
    rng = np.random.default_rng(3)
    groups = {"gap mlp sage gcn": "uvwxyz", "progap naive dpdgc": "abc", "mlp": ["lone"]}
    rows = pd.DataFrame(
        [{"dataset": graph, "method": method, "level": "none", "hyperparameters": "{}",
          "cpu_seconds": rng.lognormal()}
         for methods, graphs in groups.items() for method in methods.split() for graph in graphs
         if method != "gcn" or graph in "xyz"]
    )  # fmt: skip
    known, off = costs.Costs({"s": rows}), {}
    for n, row in rows.iterrows():
        kind = costs.Kind("s", row["method"], "none")
        estimate, _ = costs.Costs({"s": rows.drop(n)}).of(kind, row["dataset"])
        off[row["method"], row["dataset"]] = abs(np.log(estimate / row["cpu_seconds"]))
    assert {one for one, error in off.items() if np.isnan(error)} == {("mlp", "lone")}
    told = [error for (_, graph), error in off.items() if graph != "lone"]
    for share in (0.1, 0.5, 1):
        expected = np.exp(np.quantile(told, share))
        assert known.off_by(share, {*"uvwxyzabc", "lone"}) == pytest.approx(expected, rel=1e-6)
    assert np.isnan(known.of(costs.Kind("s", "gap", "none"), "a")[0])
    assert known.of(costs.Kind("s", "gap", "none"), "lone")[0] > 0
    nothing = costs.Costs({"s": rows[:0]})
    assert np.isnan(nothing.of(kind, "u")[0]) and np.isnan(nothing.off_by(0.5, {"u"}))


def test_the_papers_own_graphs_and_stand_ins_without_models_appear():
    text = (Path(__file__).parent.parent / "docs/coverage.md").read_text()
    for paper, names in {
        "ProGAP": ("5 (facebook to wenet)",),
        "GAP": ("facebook, reddit, amazon",),
        "DPDGC": ("uva16-connected", "facebook"),
    }.items():
        part = text.partition(f"## {paper}\n")[2].partition("\n## ")[0]
        ends = [line for line in part.splitlines() if line.startswith("| all | all |")]
        assert len(ends) == len(part.split("| all | all |")) - 1 > 0
        for name in names:
            assert any(name in line for line in ends), (paper, name)


@pytest.mark.parametrize("paper", ["gap", "dpdgc"])
def test_every_model_of_the_shipped_rows_is_counted(paper, monkeypatch):
    """So that a row whose setting the study no longer asks for is noticed."""
    said = redraw.shipped()
    rows = redraw.shipped_rows(said["papers"][paper]["rows"])
    study = redraw.shipped_study(f"config/papers/{paper}.yaml", sorted(set(rows["dataset"])))
    identity = ["dataset", "method", "level", "epsilon", "hyperparameters"]
    assert coverage.coverage(study, rows)["run"].sum() == len(rows[identity].drop_duplicates())
