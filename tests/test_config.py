"""The configuration: what is refused and how, and that the generated files are up to date."""

import json
from pathlib import Path
from unittest.mock import Mock

import pytest
import yaml

from graphdp import config, config_reference, seals
from graphdp.data import datasets
from graphdp.data.split import GAP_FRACTIONS
from graphdp.errors import GraphDPError
from graphdp.workflow import asked as asked_for
from graphdp.workflow import calibrations, preflight
from graphdp.workflow.grid import Grid

ROOT = Path(__file__).parent.parent


def units(grid, stage, cell):
    """What a stage works on for a cell."""
    return [u for u in grid.units.values() if u.stage.name == stage and cell.path in u.cells]


STUDIES = sorted([ROOT / "config/config.yaml", *(ROOT / "config").glob("*/*.yaml")])


def minimal(**changes):
    entry = {"method": "gap", "level": "edge", "epsilon": [1, 4], "hops": [1, 2]}
    return {"study": "s", "datasets": ["csbm"], "experiments": {"a": [entry]}} | changes


def entry(**changes):
    base = {"method": "gap", "level": "edge", "epsilon": [1], "hops": [2]}
    return {"a": [{k: v for k, v in (base | changes).items() if v is not None}]}


MLP = {"method": "mlp", "level": "none"}


def attack(entries=(MLP,), **changes):
    return {"nmi": {"entries": list(entries)} | changes}


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_shipped_studies_are_valid(path):
    study = config.validate(yaml.safe_load(path.read_text()))
    grid = Grid(study)
    assert grid.cells or grid.attacked


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_every_shipped_cell_has_a_plan_on_its_graph(path, monkeypatch):
    """Batches, degree bounds and δ fit graphs of the registered sizes. What is calibrated for that
    plan is left out here: it takes seconds for each."""
    monkeypatch.setattr(calibrations, "calibrate", lambda *plan: Mock(to_dict=dict))
    monkeypatch.setattr(calibrations, "readings", lambda *plan: [])
    study = config.validate(yaml.safe_load(path.read_text()))
    grid, registry = Grid(study), datasets.load_registry(ROOT / "config/datasets.yaml")
    sizes = {name: registry.resolve(name, study.definitions).statistics for name in study.datasets}
    for cell in [*grid.cells, *grid.attacked]:
        if (size := sizes[cell.dataset]) is None:  # generated
            continue
        share, *_ = study.split_fractions.get(cell.dataset, GAP_FRACTIONS)
        num_train = int(size.nodes * share)
        if cell.nodes_per_class:
            num_train = min(num_train, cell.nodes_per_class * size.classes)
        asked = grid.calibrated(cell)
        entries = calibrations.calibrate_cell(
            *(asked[name] for name in ("dataset", "method", "level", "epsilon", "settings")),
            [num_train], size.edges, study.delta, asked["calibrate_for"], size.nodes,
        )  # fmt: skip
        assert [one["settings"] for one in entries] == asked["settings"]


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"sedes": 3}, ["'sedes'", "'seeds'"]),
        ({"seeds": 0}, ["seeds", "0"]),
        ({"seeds": "many"}, ["seeds", "'many'"]),
        ({"split": "shard"}, ["split", "'shared'", "'shard'"]),
        ({"delta": 2}, ["delta", "2"]),
        ({"delta": 1}, ["delta", "a number of at least 1e-300 and below 1, not 1"]),
        ({"epsilons": ["x"]}, ["epsilons", "'x'"]),
        ({"epsilons": [-1]}, ["epsilons", "-1"]),
        ({"epsilons": [1, "1.0"]}, ["epsilons", "repeated"]),
        ({"experiments": {}}, ["experiment", "attack"]),
        ({"experiments": {"a": []}}, ["experiment", "entry"]),
        ({"seeds": "two"}, ["seeds: give a whole number, not 'two'"]),
        ({"seeds": 1.5}, ["seeds: give a whole number, not 1.5"]),
        ({"datasets": []}, ["datasets: give at least one, not []"]),
        ({"delta": None}, ["delta: give a number, not None"]),
        ({"study": 12}, ["study: give text, in quotes where it looks like a number, not 12"]),
        ({"train": "maybe"}, ["train: give true or false, not 'maybe'"]),
        ({"attacks": {"nmy": {}}}, ["attacks", "'nmi'", "'nmy'"]),
        ({"attacks": attack(nodes=3)}, ["'nodes'", "'nodes_per_class'"]),
        ({"attacks": attack(nodes_per_class=0)}, ["nodes_per_class", "0"]),
        ({"attacks": {"nmi": {}}}, ["attacks.nmi", "'entries'", "missing"]),
        ({"attacks": attack([{"method": "mlp", "level": "nod"}])}, ["'nod'", "'node'"]),
        ({"attacks": attack([MLP | {"layer": 1}])}, ["'layer'", "'layers'"]),
        ({"attacks": attack([MLP | {"layers": [1, 2]}])}, ["layers", "takes one"]),
        ({"attacks": attack([MLP, MLP | {"layers": 2}])}, ["mlp", "none", "twice"]),
        ({"experiments": entry(method="gpa")}, ["'gpa'", "'gap'"]),
        ({"experiments": entry(level="egde")}, ["'egde'", "'edge'"]),
        ({"experiments": entry(epsilon=None)}, ["experiments.a.0", "'epsilon'", "missing"]),
        ({"experiments": entry(epsilon="inf")}, ["finite", "inf"]),
        ({"experiments": entry(hop=1)}, ["'hop'", "'hops'"]),
        ({"experiments": entry(hops=[1, 0])}, ["hops", "0"]),
        ({"experiments": entry(hops=10**30)}, ["hops", "less than or equal to 1000000000"]),
        ({"experiments": entry(level="node", max_degree=[10**30])}, ["max_degree", "1000000000"]),
        ({"experiments": entry(max_degree=10)}, ["unknown key 'max_degree'"]),
        ({"per_dataset": {"csbm": {"batchsize": 1}}}, ["'batchsize'", "'batch_size'"]),
    ],
)
def test_bad_input_is_one_line_that_names_key_and_fix(changes, parts):
    with pytest.raises(GraphDPError) as caught:
        config.validate(minimal(**changes))
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message


def test_missing_required_key_is_named():
    with pytest.raises(GraphDPError, match="'datasets' is missing"):
        config.validate({k: v for k, v in minimal().items() if k != "datasets"})


def test_attacked_cells_are_those_of_the_entries_and_not_of_the_experiments():
    entries = [MLP, {"method": "mlp", "level": "node", "epsilon": [1, 4], "batch_size": 9}]
    study = config.validate(minimal(attacks=attack(entries), epsilons=[3]))
    grid = Grid(study)
    assert [cell.path for cell in grid.attacked] == ["csbm/mlp/none/inf/nmi", "csbm/mlp/node/3/nmi"]
    assert all(len(cell.settings) == 1 for cell in grid.attacked)
    assert grid.attacked_cell("csbm/mlp/node/3/nmi").settings[0]["batch_size"] == 9
    assert [cell.method for cell in grid.cells] == ["gap"]
    alone = config.validate(minimal(experiments={}, attacks=attack(entries)))
    assert not Grid(alone).cells and len(Grid(alone).attacked) == 3


def test_equal_epsilons_have_equal_tokens():
    study = config.validate(minimal(epsilons=["1.0", 4, "0.50"]))
    assert study.epsilons == ["1", "4", "0.5"]


def test_epsilons_replace_the_finite_ones_and_leave_none_alone():
    experiments = {"a": [*entry()["a"], {"method": "gap", "level": "none", "hops": 2}]}
    grid = Grid(config.validate(minimal(experiments=experiments, epsilons=[3])))
    assert [(c.level, c.epsilon) for c in grid.cells] == [("edge", "3"), ("none", "inf")]


def test_settings_are_the_product_of_the_lists():
    study = config.validate(minimal(experiments=entry(hops=[1, 2], learning_rate=[0.1, 0.2])))
    (cell,) = Grid(study).cells
    assert len(cell.settings) == 4
    assert {(s["hops"], s["learning_rate"]) for s in cell.settings} == {
        (1, 0.1),
        (1, 0.2),
        (2, 0.1),
        (2, 0.2),
    }


def test_per_dataset_values_replace_defaults_but_not_what_an_entry_sets():
    node = {"method": "mlp", "level": "node", "epsilon": 1}
    experiments = {"a": [node, node | {"batch_size": 7}]}
    study = config.validate(
        minimal(experiments=experiments, per_dataset={"csbm": {"batch_size": 64}})
    )
    (cell,) = Grid(study).cells
    assert [s["batch_size"] for s in cell.settings] == [64, 7]


def test_a_quantile_of_degrees_takes_the_place_of_the_bound():
    """Of the default and of a dataset's own; with one that the entry gives, both are one line."""
    node = {"method": "dpa", "level": "node", "epsilon": 8}
    bounds = []
    for changes in ({}, {"degree_quantile": [0.5, 0.8]}):
        study = minimal(
            experiments={"a": [node | changes]}, per_dataset={"csbm": {"max_degree": 17}}
        )
        (cell,) = Grid(config.validate(study)).cells
        bounds.append([(s.get("max_degree"), s.get("degree_quantile")) for s in cell.settings])
    assert bounds == [[(17, None)], [(None, 0.5), (None, 0.8)]]
    (cell,) = Grid(
        config.validate(minimal(experiments={"a": [node | {"degree_quantile": [None]}]}))
    ).cells
    assert [s.get("max_degree") for s in cell.settings] == [6]
    both = node | {"degree_quantile": 0.8, "max_degree": 6}
    with pytest.raises(GraphDPError, match="give either max_degree or degree_quantile"):
        Grid(config.validate(minimal(experiments={"a": [both]})))


def test_a_setting_is_trained_by_the_first_experiment_that_names_it():
    experiments = {
        "first": entry(hops=[1, 2])["a"],
        "second": entry(hops=[2, 3])["a"],
        "third": entry(hops=[1])["a"],
    }
    cells = Grid(config.validate(minimal(experiments=experiments))).cells
    assert [(c.experiment, [s["hops"] for s in c.settings]) for c in cells] == [
        ("first", [1, 2]),
        ("second", [3]),
    ]


def test_edge_level_cells_share_one_encoder_over_all_epsilons():
    experiments = {
        "a": [*entry(epsilon=[1, 4])["a"], {"method": "gap", "level": "none", "hops": [1, 2, 3]}]
    }
    grid = Grid(config.validate(minimal(experiments=experiments)))
    (encoder,) = [unit for unit in grid.units.values() if unit.stage.name == "encode"]
    assert encoder.place == "csbm/gap/none/inf/a"
    assert encoder.cells == [cell.path for cell in grid.cells]
    assert len(encoder.settings) == 1
    for cell in grid.cells:
        for stage in ("aggregate", "fit"):
            assert grid.reads(grid.unit(stage, cell.path))["encode"] == [encoder.place]


def test_node_level_encoders_depend_on_hops_but_not_on_max_degree():
    node = {"method": "gap", "level": "node", "epsilon": 8, "hops": [1, 2], "max_degree": [5, 9]}
    grid = Grid(config.validate(minimal(experiments={"a": [node]})))
    (cell,) = grid.cells
    assert len(cell.settings) == 4
    (encoder,) = units(grid, "encode", cell)
    assert encoder.place == cell.path
    assert [s["hops"] for s in encoder.settings] == [1, 2]


def test_only_the_named_parts_are_asked_for():
    """Cells, attacked cells and what is set by experiment; a setting that an experiment left out
    would train is trained by the next."""
    entry = {"method": "mlp", "level": "node", "epsilon": 2}
    base = {
        "study": "s",
        "datasets": ["pubmed"],
        "experiments": {"a": [entry], "b": [entry, entry | {"method": "gap"}]},
        "experiment_seeds": {"a": 2, "b": 3},
        "corrected_experiments": ["a"],
        "attacks": {"nmi": {"entries": [entry]}},
    }
    whole, part = config.validate(base), config.validate(base | {"only": ["b"]})
    assert [(c.method, c.experiment) for c in Grid(whole).cells] == [("mlp", "a"), ("gap", "b")]
    assert [(c.method, c.experiment) for c in Grid(part).cells] == [("mlp", "b"), ("gap", "b")]
    assert part.attacks == {} and part.experiment_seeds == {"b": 3}
    assert part.corrected_experiments == [] and part.calibrated_for("b") == "published"
    attack = config.validate(base | {"only": "nmi"})
    assert attack.experiments == {} and list(attack.attacks) == ["nmi"]
    assert [entry.method for entry in attack.entries_of("pubmed")] == ["mlp"]


def test_an_entry_may_be_about_all_datasets_but_some():
    """So that a study names no dataset that somebody adds."""
    entries = [
        {"method": "gap", "level": "none", "hops": 1, "except_datasets": ["csbm"]},
        {"method": "gap", "level": "none", "hops": 2, "datasets": ["csbm"]},
        {"method": "gap", "level": "none", "hops": 3, "datasets": None},
    ]
    names = ["csbm", "cora", "pubmed"]
    study = config.validate(minimal(datasets=names, experiments={"a": entries}))
    hops = {
        cell.dataset: {setting["hops"] for setting in cell.settings} for cell in Grid(study).cells
    }
    assert hops == {"csbm": {2, 3}, "cora": {1, 3}, "pubmed": {1, 3}}
    about = [spec.get("datasets") for spec in asked_for.experiments(study)["a"]]
    assert about == [["cora", "pubmed"], ["csbm"], None]


@pytest.mark.parametrize("dataset", ["csbm", "cora", "citeseer", "pubmed", "berkeley13"])
def test_every_method_of_the_leaderboard_is_there_for_any_graph(dataset):
    asked = yaml.safe_load((ROOT / "config/studies/leaderboard.yaml").read_text())
    study = config.validate(asked | {"datasets": [dataset]})
    found = {(cell.method, cell.level) for cell in Grid(study).cells}
    named = {(e["method"], e["level"]) for e in asked["experiments"]["accuracy"]}
    assert found == named and len({method for method, _ in found}) == 7


def test_an_experiment_is_about_one_adjacency():
    node = {"method": "mlp", "level": "node", "epsilon": 4}
    replaced = node | {"adjacency": "node_replace"}
    elsewhere = {"a": [node], "b": [replaced | {"epsilon": 8}]}
    study = config.validate(minimal(experiments=elsewhere))
    usual, other = (cell.settings[0] for cell in Grid(study).cells)
    assert "adjacency" not in usual and other["adjacency"] == "node_replace"
    with pytest.raises(GraphDPError, match="a mixes adjacencies, whose ε mean different things"):
        config.validate(minimal(experiments={"a": [node, replaced]}))
    # Nor do the searches of two experiments compose, which the statement of their ε would do.
    with pytest.raises(GraphDPError, match="mlp at level node and target epsilon 4 has two adj"):
        config.validate(minimal(experiments={"a": [node], "b": [replaced]}))


def test_the_published_degree_bound_has_no_name_in_settings():
    """So that the names and keys of what was trained before there was a choice stay."""
    node = {"method": "gap", "level": "node", "epsilon": 8, "max_degree": [9, 50]}
    public = node | {"degree_bound": "public_candidates"}
    experiments = {"a": [node | {"degree_bound": "sampling"}], "b": [public], "c": [node]}
    grid = Grid(config.validate(minimal(experiments=experiments)))
    a, b = grid.cells  # c is a
    assert not any("degree_bound" in setting for setting in a.settings)
    assert {setting["degree_bound"] for setting in b.settings} == {"public_candidates"}
    for cell, bounds in (
        (a, ["csbm/9", "csbm/50"]),
        (b, ["csbm/9-public_candidates", "csbm/50-public_candidates"]),
    ):
        (release,) = units(grid, "aggregate", cell)
        assert grid.reads(release)["bound_degree"] == bounds
        assert [unit.place for unit in units(grid, "bound_degree", cell)] == bounds
        for read in (grid.plan_settings(cell.path), release.settings):
            assert all(
                setting.get("degree_bound") == cell.settings[0].get("degree_bound")
                for setting in read
            )
    (mine,), (other,) = (units(grid, "encode", cell) for cell in (a, b))
    assert mine.settings == other.settings
    # Rows of one experiment are not taken for the other's.
    asked = asked_for.experiments(grid.study)
    assert asked["a"][0]["degree_bound"] == ["sampling"]
    assert asked["b"][0]["degree_bound"] == ["public_candidates"]


def test_an_experiment_has_one_degree_bound():
    node = {"method": "gap", "level": "node", "epsilon": 8}
    both = [node, node | {"degree_bound": "public_candidates"}]
    mixed = [node | {"degree_bound": ["sampling", "public_candidates"]}]
    for entries in (both, mixed):
        with pytest.raises(GraphDPError, match="a mixes degree bounds"):
            config.validate(minimal(experiments={"a": entries}))


def test_a_model_is_selected_among_the_settings_of_all_experiments():
    """Settings that differ only in what the plan does not read are trials of their own."""
    first = entry(hops=[1, 2], learning_rate=[0.01, 0.02])["a"]
    experiments = {"first": first, "second": entry(hops=[2, 3])["a"]}
    grid = Grid(config.validate(minimal(experiments=experiments)))
    (released,) = {cell.released for cell in grid.cells}
    assert [cell.experiment for cell in grid.cells_of(released)] == ["first", "second"]
    tried = [setting["hops"] for setting in grid.settings_tried(released)]
    assert sorted(tried) == [1, 1, 2, 2, 3]
    # With rows of the first experiment alone, nothing is stated of the second.
    (stated,) = grid.released(grid.cells[0].dataset, grid.cells[:1])
    assert stated["cells"] == [grid.cells[0].name] and len(stated["tried"]) == 4
    (stated,) = grid.released(grid.cells[0].dataset, grid.cells)
    assert stated["cells"] == [cell.name for cell in grid.cells] and len(stated["tried"]) == 5


@pytest.mark.parametrize(
    ("seeds", "size", "blocks"),
    [(10, 10, ["0-9"]), (10, 4, ["0-3", "4-7", "8-9"]), (2, 1, ["0-0", "1-1"])],
)
def test_blocks_cover_every_seed_once(seeds, size, blocks):
    study = config.validate(minimal(seeds=seeds, seed_block=size))
    assert Grid(study).blocks() == blocks


@pytest.mark.parametrize(
    ("finished", "seeds", "size", "blocks"),
    [
        (["0-2"], 10, 10, ["0-2", "3-9"]),
        (["0-2", "0-9"], 10, 5, ["0-9"]),
        (["0-9"], 3, 10, ["0-2"]),
        (["4-5"], 8, 3, ["0-2", "3-3", "4-5", "6-7"]),
        (["0-0", "1-1"], 3, 10, ["0-0", "1-1", "2-2"]),
    ],
)
def test_finished_blocks_are_kept_so_that_more_seeds_train_only_the_new(
    finished, seeds, size, blocks
):
    study = config.validate(minimal(seeds=seeds, seed_block=size))
    assert Grid(study).blocks(finished) == blocks


def test_a_cell_keeps_its_own_finished_blocks_whatever_others_have():
    """Seeds 0 to 2 of one cell are not trained again because another has 0 to 9 in one block."""
    study = config.validate(minimal(seeds=10))
    grid = Grid(study)
    one, other = grid.cells[:2]
    finished = {one.path: ["0-2"], other.path: ["0-9"]}
    assert grid.trained(one, finished) == ["0-2", "3-9"]
    assert grid.trained(other, finished) == ["0-9"]
    assert grid.trained(one, finished, ["3-9"]) == ["0-2"]
    shown = config.validate(minimal(train=False, known_rows=["rows.csv"]))
    assert Grid(shown).trained(one, finished) == []


@pytest.mark.parametrize(
    ("known", "finished", "blocks"),
    [
        (["0-1"], ["0-9"], ["0-1", "2-5", "6-9"]),
        (["0-1", "4-4"], ["2-3", "5-7"], ["0-1", "2-3", "4-4", "5-7", "8-9"]),
        (["0-9"], ["0-4", "5-9"], ["0-9"]),
    ],
)
def test_known_blocks_are_kept_before_finished_ones(known, finished, blocks):
    study = config.validate(minimal(seeds=10, seed_block=4))
    assert Grid(study).blocks(finished, known) == blocks


def test_schema_and_reference_are_generated_from_the_types():
    """Fails when a type changes and `python -m graphdp.config` was not run."""
    assert json.loads((ROOT / "config/schema.json").read_text()) == config_reference.schema()
    assert (ROOT / "config/README.md").read_text() == config_reference.reference()


def test_a_part_of_a_study_keeps_what_is_of_a_dataset(monkeypatch):
    """Of its entries none may take a value of `per_dataset` that the whole study needs."""
    monkeypatch.chdir(ROOT)
    whole = yaml.safe_load((ROOT / "config/papers/dpa-gnn.yaml").read_text())
    assert "label_layers" in whole["per_dataset"]["cora"]
    part = preflight.prepare(whole | {"datasets": ["cora"], "only": ["central"]}).study
    assert set(part.experiments) == {"central"} and part.entries_of("cora")


def test_a_table_of_an_experiment_that_a_study_lacks_is_refused(monkeypatch):
    """Else its table and figure would be empty, without a word."""
    monkeypatch.chdir(ROOT)
    study = minimal(experiments={"mine": entry()["a"]})
    said = "config: tables: accuracy shows the experiment accuracy, and the study has mine; name"
    with pytest.raises(GraphDPError, match=said):
        preflight.prepare(study)
    with pytest.raises(GraphDPError, match="config: figures: figure6 shows"):
        preflight.prepare(study | {"tables": ["statistics"]})
    assert preflight.prepare(study | {"tables": ["statistics"], "figures": []}).study
    whole = study | {"experiments": {"accuracy": entry()["a"], "mine": entry()["a"]}}
    for only in ("accuracy", "mine"):
        assert preflight.prepare(whole | {"only": only}).study


def test_the_reference_names_the_values_that_a_key_may_have():
    """Those of some named values, in the line of each key that takes them."""
    text, keys = config_reference.reference(), {}

    def collect(name, part):
        if isinstance(part, dict):
            keys.setdefault(name, []).append(part.get("enum", []))
            for one in ("anyOf", "items"):
                collect(name, part.get(one))
        for one in part if isinstance(part, list) else ():
            collect(name, one)

    models = [config_reference.schema(), *config_reference.schema()["$defs"].values()]
    for model in models:
        for name, part in model.get("properties", {}).items():
            collect(name, part)
    found = {name: [v for v in values if len(v) > 1] for name, values in keys.items()}
    found = {name: values for name, values in found.items() if values}
    assert {"device", "split", "convolution", "overlap", "analysis"} <= set(found)
    for name, values in found.items():
        lines = [line for line in text.splitlines() if line.startswith(f"| `{name}` |")]
        for one in values:
            assert any(all(json.dumps(value) in line for value in one) for line in lines), name


@pytest.mark.parametrize(
    "change",
    [
        {"study_seed": 2}, {"split": "per_seed"}, {"split_sides": "published"},
        {"checkpoint": "last"}, {"delta": 1e-4}, {"calibrate_for": "corrected"},
        {"split_fractions": {"csbm": [0.5, 0.25, 0.25]}},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_what_determines_a_model_is_in_its_seal(change):
    """... so that a result of another configuration is told."""
    made = []
    for changes in ({"split_sides": "by_id"}, {"split_sides": "by_id"} | change):
        grid = Grid(config.validate(minimal(**changes)))
        (unit,) = [u for u in grid.units.values() if u.stage.name == "fit" and u.epsilon == "4"]
        made.append(seals.digest(grid.task(unit)))
    assert made[0] != made[1]


def test_a_block_is_as_the_study_asks():
    study = config.validate(minimal(split="per_seed", checkpoint="last", study_seed=7))
    study = study.model_copy(update={"train_nodes": 220})  # of a private release alone
    grid = Grid(study)
    assert grid.block(grid.cells[0]) == {
        "study": "s", "dataset": "csbm", "method": "gap", "level": "edge", "epsilon": "1",
        "study_seed": 7, "split_rule": study.split_rule("csbm"), "checkpoint": "last",
        "release": "reproduction", "announced": 220,
    }  # fmt: skip
