"""Private releases: the key, and whole runs on graphs that differ in one edge."""

import contextlib
import hashlib
import itertools
import json
import os
import re
import runpy
import shutil
import signal
import stat
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml

from graphdp import cli, io, keys, ledger, private, seals, training
from graphdp.config import validate
from graphdp.data import content
from graphdp.data.content import content_hashes
from graphdp.data.datasets import DatasetSpec, Preprocessing, Registry, load_registry
from graphdp.data.graph import Graph
from graphdp.data.loaders import RawGraph, load_arrays
from graphdp.data.preprocess import build
from graphdp.errors import GraphDPError
from graphdp.methods.block import Block
from graphdp.workflow import job, model_rows, preflight, publish, released_data, status
from project_fixture import ROOT, Project

NODE = {
    "method": "gap", "level": "node", "epsilon": 8, "hops": 1, "max_degree": 4,
    "batch_size": 32, "epochs": 2, "hidden": 4,
}  # fmt: skip
MLP = {"method": "mlp", "level": "node", "epsilon": 8, "batch_size": 32, "epochs": 2, "hidden": 4}
EDGE = {"method": "gap", "level": "edge", "epsilon": 4, "hops": 1, "epochs": 2, "hidden": 4}


def study(entry, **changes):
    own = {
        "study": "mine", "datasets": ["mine"], "release": "private", "key_file": "../key",
        "delta": 1e-5, "calibrate_for": "corrected", "train_nodes": 220, "mirror": "../raw",
        "device": "cpu", "experiments": {"accuracy": [entry]},
    }  # fmt: skip
    return own | changes


# --- The key --------------------------------------------------------------------------------------


def test_a_key_is_fresh_and_for_its_owner_alone(tmp_path):
    for name in "ab":
        assert cli.main(["key", str(tmp_path / name)]) == 0
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    first, second = (keys.read_key(tmp_path / name) for name in "ab")
    assert len(first) == 32 and first != second
    assert cli.main(["key", str(tmp_path / "a")]) == 2
    assert keys.read_key(tmp_path / "a") == first


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    [
        (None, 0o600, "no key file .*: make one with graphdp key"),
        ("ab" * 32, 0o640, "others may read .*: chmod 600"),
        ("ab" * 31, 0o600, "no key of 64"),
        ("xy" * 32, 0o600, "no key of 64"),
        ("ab" * 33, 0o600, "no key of 64"),
    ],
)
def test_a_bad_key_file_is_one_clear_line(tmp_path, text, mode, message):
    path = tmp_path / "key"
    if text is not None:
        path.write_text(text)
        path.chmod(mode)
    with pytest.raises(GraphDPError, match=message) as error:
        keys.read_key(path)
    assert "\n" not in str(error.value) and (text or "?") not in str(error.value)


def test_no_flipped_bit_of_a_key_file_goes_unnoticed(tmp_path):
    """It is refused, or another key, which no MAC of the ledger is of: never the same key."""
    keys.make_key(tmp_path / "key")
    whole, key = (tmp_path / "key").read_bytes(), keys.read_key(tmp_path / "key")
    for place, bit in itertools.product(range(len(whole)), range(8)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << bit
        (tmp_path / "key").write_bytes(flipped)
        with contextlib.suppress(GraphDPError):
            assert keys.read_key(tmp_path / "key") != key, (place, bit)


def test_streams_follow_from_the_key_and_no_name_of_them_from_the_seed(tmp_path):
    for name in "ab":
        keys.make_key(tmp_path / name)
    config = {"release": "private", "study_seed": 1}
    roots = [keys.root(config | {"key_file": tmp_path / name}) for name in "aab"]
    assert roots[0] == roots[1] != roots[2]
    assert keys.root(config | {"release": "reproduction"}) == ""
    key = keys.read_key(tmp_path / "a").hex()
    assert key not in roots[0]
    block = Block(SimpleNamespace(), "d", [0], 1, release="private", secret=roots[0])
    assert block.stream(0)[0] == block.degree_stream(0, "4")[0] == roots[0]
    assert roots[0] not in repr(block) and roots[0] not in f"{block.stream(0)}"
    with pytest.raises(GraphDPError, match="without its key"):
        Block(SimpleNamespace(), "d", [0], 1, release="private").stream(0)


def test_nothing_else_may_stand_beside_what_is_published(tmp_path, monkeypatch):
    """As the rows of a reproduction of the same name, which nobody would look for there."""
    monkeypatch.chdir(tmp_path)
    private.check_published("mine")
    folder = tmp_path / "results" / "mine"
    folder.mkdir(parents=True)
    left = (".tmp-1.csv", ".DS_Store", ".nfs00012", ".~lock.row.csv#")
    for name in (*private.PUBLISHED, *left):
        (folder / name).touch()
    private.check_published("mine")
    (folder / "row.csv").unlink()
    (folder / "row.csv").mkdir()  # a job would delete it
    with pytest.raises(GraphDPError, match=r"row\.csv is a folder, where a file is to be"):
        private.check_published("mine")
    (folder / "row.csv").rmdir()
    for name in ("rows.csv", "logs", ".hidden", ".row.csv.seal", ".tmp-2"):
        (folder / name).mkdir()
        with pytest.raises(GraphDPError, match=f"{name} is nothing .* another name") as error:
            private.check_published("mine")
        assert "\n" not in str(error.value)
        (folder / name).rmdir()


def test_a_private_release_runs_on_one_machine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keys.make_key("key")
    private.prepare("key")
    with pytest.raises(GraphDPError, match="runs on one machine: give --cores"):
        private.prepare("key", local=False)


def test_snakemakes_records_are_closed_before_a_message_may_stand_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(private.RECORDS).mkdir(mode=0o755)
    with pytest.raises(GraphDPError, match="no key file key"):
        private.prepare("key")
    assert stat.S_IMODE(Path(private.RECORDS).stat().st_mode) == 0o700


def test_a_copy_that_a_reproduction_left_for_all_to_read_is_noticed(tmp_path, monkeypatch):
    registry = registered("mine", "other")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config/published").mkdir(parents=True)
    raw, graphs = Path("results/data/raw/mine"), Path("results/data/graphs")
    told = [
        graphs / name for name in ("mine.npz", "mine.json", ".mine.npz.seal", ".mine.json.seal")
    ]
    raw.mkdir(parents=True)  # empty, of a download that found nothing
    preflight.prepare(study(EDGE), registry)
    for path in (raw / "mine.npz", *told, Path("results/data/raw/other/other.npz")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    left = [raw, *told]
    while left:
        named = ", ".join(map(str, left))
        with pytest.raises(GraphDPError, match=f"'mine' where .* it: move {named} away") as error:
            preflight.prepare(study(EDGE), registry)
        assert "\n" not in str(error.value)
        gone = left.pop(0)
        shutil.rmtree(gone) if gone == raw else gone.unlink()
    preflight.prepare(study(EDGE), registry)


def test_a_key_lies_in_no_folder_of_results_be_it_a_link(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("scratch", "elsewhere"):
        Path(name).mkdir()
    Path("results").symlink_to("scratch")
    Path("loop").symlink_to("loop")
    validate(study(EDGE, key_file="key"))  # this is no project
    validate(study(EDGE, key_file="loop"))
    Path("Snakefile").touch()
    for place in ("key", "results/key", "scratch/key", f"{tmp_path}/elsewhere/key"):
        with pytest.raises(GraphDPError, match="lies in the project, of which copies are made"):
            validate(study(EDGE, key_file=place))
    Path("Snakefile").unlink()
    with pytest.raises(GraphDPError, match="lies in the project, of which copies are made"):
        validate(study(EDGE, key_file="results/key"))


# --- What can be a private release ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"key_file": None}, "needs key_file"),
        ({"key_file": "results/key"}, "key_file results/key lies in the project, of which"),
        ({"key_file": "private/key"}, "key_file private/key lies in the project, of which"),
        ({"key_file": "hospital.key"}, "key_file hospital.key lies in the project, of which"),
        ({"key_file": "0aF" * 21 + "0"}, "key_file is a key itself; name the file that it"),
        ({"key_file": "0aF" * 20}, "key_file is a key itself; name the file that it"),
        ({"key_file": "~/key"}, "nothing expands ~ here; write the whole path"),
        ({"seeds": 2}, "seeds: 1"),
        ({"missing_data": "skip"}, "missing_data: a private release has one dataset"),
        ({"checkpoint": "best_validation"}, "last epoch"),
        ({"delta": "auto"}, "delta: auto reads"),
        ({"delta": "train_nodes^-1.1"}, r"train_nodes\^-1.1 reads"),
        ({"train_nodes": None}, "needs train_nodes"),
        ({"split_sides": "published"}, "splits by_id"),
        ({"tables": ["accuracy"]}, "no tables"),
        ({"figures": ["figure6"]}, "no figures"),
        ({"known_rows": ["rows.csv"]}, "no known_rows"),
        ({"train": False}, "train: release: private trains its model; leave train out"),
        ({"datasets": ["mine", "cora"]}, "one model, not 2"),
        ({"experiments": {"a": [NODE | {"hops": [1, 2]}]}}, "one model, not 2"),
        ({"experiments": {"a": [NODE | {"epsilon": [4, 8]}]}}, "one model, not 2"),
        ({"epsilons": [4, 8]}, "one model, not 2"),
        ({"experiments": {"a": [NODE], "b": [EDGE]}}, "one model, not 2"),
        ({"experiments": {"a": [{"method": "mlp", "level": "none"}]}}, "level with privacy"),
        ({"release": "reproduction"}, "key_file is for release: private alone"),
        ({"threads": 2}, "threads: release: private trains with one thread"),
    ],
)
def test_what_a_private_study_cannot_be(changes, message):
    with pytest.raises(GraphDPError, match=message) as error:
        validate(study(NODE, **changes))
    assert "\n" not in str(error.value)


def test_a_private_study_has_private_defaults():
    made = validate(study(NODE))
    assert (made.seeds, made.checkpoint, made.tables, made.figures) == (1, "last", [], [])
    assert made.split_rule("mine") == "shared by id"


@pytest.mark.parametrize(
    ("entry", "preprocessing", "message"),
    [
        (NODE, {}, "announces the number of classes"),
        (NODE, {"num_classes": 3, "min_class_count": 2}, "min_class_count drops nodes"),
        (EDGE, {"remove_isolated": True}, "remove_isolated drops nodes"),
        (
            NODE | {"degree_bound": "public_candidates"},
            {"num_classes": 3},
            "need a universe of ids",
        ),
    ],
)
def test_what_is_dropped_or_counted_beforehand_is_refused(entry, preprocessing, message):
    spec = DatasetSpec(title="Mine", loader="arrays", preprocessing=Preprocessing(**preprocessing))
    with pytest.raises(GraphDPError, match=message) as error:
        private.check_data(validate(study(entry)), {"mine": spec})
    assert "\n" not in str(error.value)
    universe = DatasetSpec(
        title="Mine",
        loader="arrays",
        parameters={"num_ids": 400},
        preprocessing=Preprocessing(num_classes=3),
    )
    private.check_data(validate(study(entry)), {"mine": universe})


def test_a_node_less_takes_a_column_along_where_columns_are_counted(tmp_path):
    """So such loaders are refused where nodes are protected: parameters would differ in shape."""
    import scipy.io
    from scipy import sparse

    from graphdp.data.loaders import LOADERS

    info = np.ones((6, 7), np.int64)
    info[5, 2] = 9  # the only one of its major
    widths = []
    for count in (6, 5):
        edges = sparse.csc_matrix(np.ones((count, count)))
        scipy.io.savemat(tmp_path / "a.mat", {"A": edges, "local_info": info[:count]})
        widths.append(LOADERS["facebook100"](tmp_path, ["a.mat"]).x.shape[1])
    assert widths == [6, 5]
    for loader in ("facebook100", "musae"):
        spec = DatasetSpec(title="Mine", loader=loader, preprocessing=Preprocessing(num_classes=3))
        with pytest.raises(GraphDPError, match=f"loader {loader} may count columns"):
            private.check_data(validate(study(NODE)), {"mine": spec})
        private.check_data(validate(study(EDGE)), {"mine": spec})


@pytest.mark.parametrize(
    ("entry", "changes"),
    [
        (NODE, {"per_dataset": {"mine": {"degree_bound": "public_candidates"}}}),
        (MLP | {"method": "dpdgc", "max_degree": 4}, {}),  # it has no other bound
        (
            MLP | {"method": "heterpoisson", "max_degree": 4, "degree_bound": "public_candidates"},
            {},
        ),
    ],
)
@pytest.mark.parametrize("parameters", [{}, {"num_ids": None}])
def test_public_candidates_need_a_universe_however_they_are_asked_for(entry, changes, parameters):
    """Without ids of their own the nodes behind a removed one move up, and others are candidates;
    with a universe of the largest id and one more its size moves."""
    made = validate(study(entry, **changes))
    spec = {"title": "Mine", "loader": "arrays", "preprocessing": Preprocessing(num_classes=3)}
    with pytest.raises(GraphDPError, match="need a universe of ids"):
        private.check_data(made, {"mine": DatasetSpec(**spec, parameters=parameters)})
    private.check_data(made, {"mine": DatasetSpec(**spec, parameters={"num_ids": 400})})


def registered(*names):
    """A registry of datasets that a user brings, with ids of a universe."""
    mine = DatasetSpec(
        title="Mine",
        loader="arrays",
        parameters={"file": "mine.npz", "num_ids": 400},
        files=({"name": "mine.npz"},),
        by_hand="It is yours.",
        preprocessing=Preprocessing(num_classes=3),
    )
    return Registry(Path("datasets.yaml"), dict.fromkeys(names, mine))


@pytest.mark.parametrize(
    ("entry", "calibrate_for", "message"),
    [
        (NODE, "published", "the claim of node_add_remove is refuted, so nothing"),
        (MLP | {"adjacency": "node_replace"}, "corrected", "batches of a fixed size tell the num"),
        (MLP | {"method": "naiveofficial"}, "corrected", "batches of a fixed size tell the number"),
        (MLP | {"method": "heterpoissonsml"}, "corrected", "nothing is proven of its noise as it"),
    ],
)
def test_what_no_data_could_change_is_refused_before_the_first_job(entry, calibrate_for, message):
    registry = registered("mine")
    wrong = study(entry, calibrate_for=calibrate_for)
    with pytest.raises(GraphDPError, match=message) as error:
        preflight.prepare(wrong, registry)
    assert "\n" not in str(error.value)
    preflight.prepare(wrong | {"experiments": {"accuracy": [MLP]}}, registry)


@pytest.mark.parametrize(("release", "threads"), [("private", 1), ("reproduction", 2)])
def test_snakemake_says_nothing_of_a_private_releases_threads(
    release, threads, tmp_path, monkeypatch
):
    """`--set-threads stage=2` would round other sums: of 94,730 parameters one was another."""
    set_to = []
    monkeypatch.setattr(job, "run", lambda *_: None)
    monkeypatch.setattr(job, "set_threads", set_to.append)
    monkeypatch.setattr(Graph, "load", lambda _: None)
    keys.make_key(tmp_path / "key")
    script = runpy.run_path(str(ROOT / "workflow/scripts/stage.py"), {"snakemake": None})
    config = {"release": release, "key_file": tmp_path / "key", "study_seed": 1}
    given = {"params": SimpleNamespace(tasks=[]), "input": SimpleNamespace(graph=""), "threads": 2}
    script["main"](SimpleNamespace(config=config, **given))
    assert set_to == [threads]


def test_a_reproduction_of_what_was_released_is_refused(tmp_path, monkeypatch):
    """Anybody could draw its noise again, and it has accuracies and hashes without a key."""
    registry = registered("mine", "other")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config/published").mkdir(parents=True)
    same = {"study": "again", "experiments": {"accuracy": [EDGE]}, "tables": [], "figures": []}
    preflight.prepare(same | {"datasets": ["mine"]}, registry)
    entry = {"dataset": "mine", "noise": "x", "release": "s", "commit": "c", "made_with": {}}
    ledger.reserve(entry, {"files": ["f"]})
    ledger.publish("mine", "0" * 64)
    with pytest.raises(
        GraphDPError, match=r"'mine' has the name of a release in private/l"
    ) as error:
        preflight.prepare(same | {"datasets": ["mine"]}, registry)
    assert "\n" not in str(error.value)
    preflight.prepare(same | {"datasets": ["other"]}, registry)
    preflight.prepare(study(EDGE), registry)
    # Under another name, as by `definitions`, the files tell.
    other, manifest = (
        registry.resolve("other", {}).model_copy(update={"name": "other"}),
        tmp_path / "manifest.json",
    )
    graph = tmp_path / "graph.npz"
    released_data.check_made_not_released(other, manifest, graph)
    for sha256, found in (("f", True), ("g", False)):
        placed = {"files": [{"sha256": "e"}, {"sha256": sha256}]}
        manifest.write_text(json.dumps(placed))
        for check in (
            lambda sha256=sha256: released_data.check_files_not_released(other, ["e", sha256]),
            lambda: released_data.check_made_not_released(other, manifest, graph),
        ):
            refused = pytest.raises(
                GraphDPError, match="'other' has the raw files of a release in p"
            )
            with refused if found else contextlib.nullcontext():
                check()
    ledger_file = tmp_path / "private/ledger.jsonl"
    line = ledger_file.read_text()
    for damaged in ("{", line.replace('"mine"', '"nine"', 1)):
        ledger_file.write_text(damaged)
        with pytest.raises(GraphDPError, match=r"line 1 of the ledger .* is damaged"):
            preflight.prepare(same | {"datasets": ["other"]}, registry)
    for lose in (ledger_file.unlink, lambda: ledger_file.write_bytes(b"")):
        lose()
        with pytest.raises(GraphDPError, match="is empty or was missing, and its key is there"):
            preflight.prepare(same | {"datasets": ["other"]}, registry)
    ledger_file.write_text(line)
    ledger_file.with_suffix(".key").unlink()
    with pytest.raises(GraphDPError, match=r"ledger\.key, .* is missing: restore it"):
        preflight.prepare(same | {"datasets": ["other"]}, registry)
    ours = load_registry(ROOT / "config/datasets.yaml")
    preflight.prepare(same | {"datasets": ["csbm"]}, ours)  # nobody's data


def test_a_graph_of_released_data_is_known_by_what_is_in_it(tmp_path, monkeypatch):
    """Of another file of the same arrays, or made before the release, its manifest gone since."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    raw = RawGraph(
        rng.random((9, 4)).astype(np.float32), np.arange(9) % 3, np.array([0, 1]), np.array([2, 3])
    )
    made, manifest, file = (
        build("other", raw, Preprocessing()),
        Path("manifest.json"),
        Path("g.npz"),
    )
    spec = DatasetSpec(title="Other", loader="arrays", name="other")
    made.save(file)
    released_data.check_made_not_released(spec, manifest, file)
    entry = {"dataset": "mine", "noise": "x", "release": "s", "commit": "c", "made_with": {}}
    ledger.reserve(entry, {"files": ["f"]})
    released_data.check_graph_not_released(spec, made)
    for text in (None, "{", "[]", "{}", '{"files": null}'):
        if text is not None:
            manifest.write_text(text)
        with pytest.raises(GraphDPError, match=r"is missing or damaged, .* delete both and run"):
            released_data.check_made_not_released(spec, manifest, file)
        released_data.check_made_not_released(spec, manifest, "nowhere.npz")
    manifest.write_text('{"files": [{"sha256": "g"}]}')
    released_data.check_made_not_released(spec, manifest, file)
    edges = {"edges": content_hashes(made)["edges"]}
    ledger.reserve(entry | {"dataset": "its", "noise": "y"}, edges)
    for check in (
        lambda: released_data.check_made_not_released(spec, manifest, file),
        lambda: released_data.check_graph_not_released(spec, made),
    ):
        with pytest.raises(GraphDPError, match="'other' has the edges of a release in private/"):
            check()
    # A graph is looked at once, as long as neither it nor the ledger changes.
    own = {"edges": ["0"]}
    looked = []
    monkeypatch.setattr(content, "content_hashes", lambda graph: looked.append(graph) or own)
    for times in (1, 1):
        released_data.check_made_not_released(spec, manifest, file)
        assert len(looked) == times
    ledger.reserve(entry | {"dataset": "third", "noise": "z"}, {"edges": ["1"]})
    released_data.check_made_not_released(spec, manifest, file)
    assert len(looked) == 2
    made.save(file)
    released_data.check_made_not_released(spec, manifest, file)
    assert len(looked) == 3
    # As cp -p and tar have it: written again, under the old time.
    before = file.stat()
    time.sleep(0.05)  # a tick of the clock that files have
    file.write_bytes(file.read_bytes())
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    released_data.check_made_not_released(spec, manifest, file)
    assert len(looked) == 4
    for damaged in ("{", "[[1, 2]]", '{"a": NaN}', "[" * 99_999):
        Path(released_data.CHECKED).write_text(damaged)
        released_data.check_made_not_released(spec, manifest, file)
    assert len(looked) == 8
    ledger.reserve(entry | {"dataset": "fourth", "noise": "v"}, own)
    with pytest.raises(GraphDPError, match="'other' has the edges of a release in private/"):
        released_data.check_made_not_released(spec, manifest, file)
    file.write_bytes(file.read_bytes()[:-9])
    released_data.check_made_not_released(spec, manifest, file)  # the jobs that read it say so
    csbm = spec.model_copy(update={"loader": "csbm"})  # nobody's data
    released_data.check_made_not_released(csbm, "nowhere.json", file)
    released_data.check_graph_not_released(csbm, made)


def test_a_plan_of_edges_is_asked_for_no_number_of_training_nodes():
    """At edge level the true one is public, and plans may need it."""
    entry = MLP | {"method": "dpdgc", "level": "edge"}
    spec = {"title": "Mine", "loader": "arrays"}
    made = validate(study(entry, train_nodes=None))
    steps = Preprocessing(num_classes=3)
    private.check_data(made, {"mine": DatasetSpec(**spec, preprocessing=steps)})
    # Predictions are published by the numbers that classes have in the file.
    with pytest.raises(GraphDPError, match="classes, which keep their numbers"):
        private.check_data(made, {"mine": DatasetSpec(**spec)})


def test_announced_classes_stay_whichever_nodes_there_are():
    """Without the only node of class 1 the others are of classes 0 and 2 still, of three."""
    y, none = np.array([0, 1, 2, 2]), np.zeros(0, np.int64)
    for there in (y, y[[0, 2, 3]]):
        raw = RawGraph(np.zeros((len(there), 1), np.float32), there, none, none)
        built = build("mine", raw, Preprocessing(num_classes=3))
        assert built.num_classes == 3 and built.y.tolist() == there.tolist()
    with pytest.raises(GraphDPError, match="a node is of class 2"):
        build("mine", raw, Preprocessing(num_classes=2))


# --- Whole runs -----------------------------------------------------------------------------------


def graph(removed=None):
    """Arrays of a graph of 300 nodes, less one of its edges."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, 300)
    x = (rng.random((300, 12)) < 0.3 + 0.3 * (y[:, None] == np.arange(12) % 3)).astype(np.float32)
    edges = np.unique(np.sort(rng.integers(0, 300, (2, 1500)), axis=0), axis=1)
    edges = edges[:, edges[0] != edges[1]]
    if removed is not None:
        edges = np.delete(edges, removed, axis=1)
    return {"x": x, "y": y, "edge_index": edges}


def log_of(project):
    """All that jobs say, which is private."""
    return "".join(path.read_text() for path in (project.folder / "private").rglob("*.log.private"))


def register(config, name, file, **parameters):
    """Add a dataset of somebody's arrays to the registry in a folder of configurations."""
    registry = config / "datasets.yaml"
    known = yaml.safe_load(registry.read_text())
    known["datasets"][name] = {
        "title": name, "loader": "arrays", "parameters": {"file": file} | parameters,
        "files": [{"name": file}], "by_hand": "It is yours.", "preprocessing": {"num_classes": 3},
    }  # fmt: skip
    registry.write_text(yaml.safe_dump(known))


def private_run(folder, entry, removed=None, check=True, arrays=None, **changes):
    """A whole private run on the graph, or on other arrays with ids, and what it said."""
    (folder / "raw").mkdir(parents=True)
    np.savez(folder / "raw" / "mine.npz", **(arrays or graph(removed)))
    universe = {"num_ids": 400} if arrays else {}
    (folder / "project").mkdir()
    project = Project(folder / "project", study(entry, **changes))
    for name in ("mine", "renamed"):
        register(project.folder / "config", name, "mine.npz", **universe)
    project.graphdp("key", "../key")
    result = project.snakemake(check=check)
    return project, result.stdout + result.stderr


def released(project):
    """What a run publishes, file by file."""
    folder = project.folder / "results" / "mine"
    files = sorted(path.name for path in folder.rglob("*") if path.is_file())
    assert files == ["model.npz", "row.csv", "statement.json", "statement.md"]
    assert [path.name for path in (project.folder / "results").iterdir()] == ["mine"]
    (statement,) = json.loads((folder / "statement.json").read_text())
    row = pd.read_csv(folder / "row.csv", dtype=str, keep_default_na=False)
    assert len(row) == 1
    return statement, row.iloc[0].to_dict(), np.load(folder / "model.npz")


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=pytest.mark.slow) for name in ("node", "edge")]
)
def runs(request, tmp_path_factory):
    """Runs on G and on G less an edge, each with a key of its own."""
    entry = {"node": NODE, "edge": EDGE}[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    pair = [
        private_run(folder / name, entry, removed)
        for name, removed in (("whole", None), ("less", 700))
    ]
    return request.param, pair


def test_neighbouring_graphs_differ_in_released_values_alone(runs):
    """All that is published and said, but for the model and hashes that a secret keys."""
    level, ((whole, _), (less, _)) = runs
    (first, row, model), (second, other, changed) = released(whole), released(less)
    assert first["data"].pop("fingerprint") != second["data"].pop("fingerprint")
    assert first == second
    differ = {name for name in row if row[name] != other[name]}
    scores = {"val_accuracy", "test_accuracy", "test_precision", "test_precision_weighted"}
    values = scores if level == "edge" else set()
    assert {"graph", "model_sha256"} <= differ <= {"graph", "model_sha256", *values}
    assert model.files == changed.files
    assert any(not np.array_equal(model[name], changed[name]) for name in model.files)
    pages = [
        (project.folder / "results/mine/statement.md").read_text().splitlines()
        for project in (whole, less)
    ]
    lines = [(a, b) for a, b in zip(*pages, strict=True) if a != b]
    assert len(lines) == 1 and lines[0][0].startswith("- Data: mine, ")


@pytest.mark.alike
@pytest.mark.slow
@pytest.mark.parametrize(
    "entry",
    [
        MLP | {"method": "heterpoisson"},
        MLP | {"method": "heterpoisson", "max_degree": 4, "degree_bound": "public_candidates"},
        MLP | {"method": "dpdgc", "max_degree": 4},
        MLP,
        MLP | {"method": "naive"},
        {"method": "dpa", "level": "node", "epsilon": 8, "max_degree": 4, "epochs": 2},
    ],
    ids=["heterpoisson", "heterpoisson-candidates", "dpdgc", "mlp", "naive", "dpa"],
)
def test_a_node_less_changes_released_values_alone(entry, tmp_path):
    """Neither shapes nor sizes nor numbers of jobs nor anything but the model and keyed hashes."""
    whole = graph() | {"ids": np.random.default_rng(5).permutation(400)[:300]}
    edges = whole["edge_index"][:, (whole["edge_index"] != 17).all(0)]
    less = {name: np.delete(whole[name], 17, axis=0) for name in ("x", "y", "ids")}
    found = []
    for name, arrays in (("whole", whole), ("less", less | {"edge_index": edges - (edges > 17)})):
        project, said = private_run(tmp_path / name, entry, arrays=arrays)
        folder = project.folder / "results/mine"
        sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
        steps = re.findall(r"\d+ of \d+ steps \(\d+%\) done", said)
        found.append((*released(project), sizes, steps))
    (first, row, model, *seen), (second, other, changed, *then) = found
    assert first["data"].pop("fingerprint") != second["data"].pop("fingerprint")
    assert first == second and seen == then and seen[1]
    assert {name for name in row if row[name] != other[name]} == {"graph", "model_sha256"}
    assert model.files == changed.files
    for name in model.files:
        assert model[name].shape == changed[name].shape and model[name].dtype == changed[name].dtype
    assert any(not np.array_equal(model[name], changed[name]) for name in model.files)


def test_nothing_exact_is_published_or_said(runs):
    """Neither counts, nor hashes of the data, nor the key, in results or on the terminal; and the
    key nowhere at all."""
    _, pair = runs
    for (project, said), removed in zip(pair, (None, 700), strict=True):
        statistics = json.loads((project.folder / "private/data/graphs/mine.json").read_text())
        assert statistics["edges"] == 2 * graph(removed)["edge_index"].shape[1]
        # As a number of its own: some hash may hold its digits.
        secrets = [statistics["fingerprint"][:12], rf"(?<![\w.]){statistics['edges']}(?![\w.])"]
        key = (project.folder / "../key").read_text().strip()
        published = said + "".join(
            path.read_text(errors="replace")
            for path in (project.folder / "results").rglob("*")
            if path.is_file() and path.suffix != ".npz"
        )
        for secret in (*secrets, key):
            assert re.search(secret, published) is None
        root = keys.root(
            {"release": "private", "key_file": project.folder / "../key", "study_seed": 12345}
        )
        for path in project.folder.rglob("*"):
            if path.is_file():
                content = path.read_bytes()
                assert key.encode() not in content and root.encode() not in content, path
        for folder in ("private", ".snakemake"):
            assert stat.S_IMODE((project.folder / folder).stat().st_mode) == 0o700


def test_no_hash_of_a_private_file_stands_outside_of_its_folder(runs):
    """Neither of the graph nor of any other: who knows all but one edge could hash both. And in the
    ledger they are keyed."""
    _, pair = runs
    for project, _ in pair:
        folder = project.folder / "private"
        ledger = (folder / "ledger.jsonl").read_bytes()
        hashes = {
            hashlib.sha256(path.read_bytes()).hexdigest().encode(): path
            for path in [*folder.rglob("*"), project.folder / "../raw/mine.npz"]
            if path.is_file() and path.read_bytes()
        }
        assert any(path.match("private/data/graphs/mine.npz") for path in hashes.values())
        # The model itself is published, and its row has its hash.
        hashes = {h: path for h, path in hashes.items() if path.suffix != ".npz" or "fit" not in
                  path.parts}  # fmt: skip
        copies = {
            hashlib.sha256(path.read_bytes()).hexdigest().encode()
            for path in (project.folder / "results").rglob("*")
            if path.is_file()
        }
        for path in project.folder.rglob("*"):
            if path.is_file() and folder not in path.parents:
                found = path.read_bytes()
                assert not [p for h, p in hashes.items() if h not in copies and h in found], path
        assert not [path for h, path in hashes.items() if h in ledger]
        assert any((project.folder / ".snakemake").rglob("*"))


def test_statement_and_row_say_what_kind_of_release_it_is(runs):
    level, ((project, _), _) = runs
    statement, row, model = released(project)
    page = (project.folder / "results/mine/statement.md").read_text()
    assert page.startswith("# Privacy statement, release: private (secret key): gap on mine, ")
    assert statement["release"] == row["release"] == "private"
    assert statement["data"]["nodes"] is statement["data"]["directed_edges"] is None
    assert statement["data"]["train_nodes"] == 220
    empty = {name for name, value in row.items() if value == ""}
    assert {"cpu_seconds", "wall_seconds", "peak_rss_mb", "train_accuracy"} <= empty
    hidden = {"val_accuracy", "test_accuracy", "best_epoch", "test_precision"}
    hidden |= {"test_precision_weighted"}
    assert (hidden <= empty) if level == "node" else not (hidden & empty)
    covered = {one["what"]: one["covered"] for one in statement["releases"]}
    assert covered["weights of the last epoch"]
    assert ("predictions" in model.files) == covered["predictions"] == (level == "edge")
    assert any(name.startswith("encoder.") for name in model.files)
    if level == "edge":
        assert len(model["ids"]) == len(model["predictions"]) == 300
    # A number that is counted, since it is public, is not called announced.
    assert ("220 training nodes announced" in page) == (level == "node")
    for one in statement["releases"]:
        assert one["covered"] or one["why"].startswith("Not published.")


def test_a_statement_of_other_noise_than_the_models_is_not_published(runs, tmp_path, monkeypatch):
    """As of another δ, made anew by a run that is told to leave the model as it is."""
    _, ((project, _), _) = runs
    monkeypatch.chdir(project.folder)
    folder = project.folder / "private" / "mine"
    (row,) = (folder / "fit").rglob("*.csv")
    (page,) = (folder / "statements").rglob("*.md")
    (stated,) = json.loads(page.with_suffix(".json").read_text())
    targets = {name: tmp_path / "out" / name for name in ("row", "model", "json", "md")}
    target, settings = stated["target"], stated["settings"]
    others = {name: {"target": target | {name: target[name] * 2}} for name in (
        "epsilon", "delta", "noise_multiplier",
    )} | {
        # The same noise, as a refuted claim; another clip; another graph.
        "adjacency": {"target": target | {"adjacency": "node_add_remove"}},
        "basis": {"target": target | {"basis": "as_published"}},
        "settings": {"settings": settings | {"hops": 7}},
        "fingerprint": {"data": stated["data"] | {"fingerprint": "0" * 64}},
    }  # fmt: skip
    for name, other in others.items():
        (tmp_path / "8.json").write_text(json.dumps([stated | other]))
        with pytest.raises(GraphDPError, match=f"states the {name} .* run again"):
            publish.publish(row, tmp_path / "8", **targets)
    assert not (tmp_path / "out").exists()
    publish.publish(row, page.with_suffix(""), **targets)
    assert targets["json"].read_bytes() == page.with_suffix(".json").read_bytes()


def test_a_second_release_of_the_data_is_refused(runs):
    """With another ε, another learning rate alone, or under another name: before any noise is
    drawn. The terminal does not say why, since what is wrong may tell of the data."""
    _, ((project, _), _) = runs
    before = (project.folder / "private/ledger.jsonl").read_bytes()
    entry = project.study["experiments"]["accuracy"][0]
    for changes, name in (
        ({"experiments": {"accuracy": [entry | {"epsilon": 2}]}}, "mine"),
        ({"experiments": {"accuracy": [entry | {"learning_rate": 0.1}]}}, "mine"),
        ({"study": "again", "datasets": ["renamed"]}, "renamed"),
    ):
        project.configure(**changes)
        for log in (project.folder / "private").rglob("*.log.private"):
            log.unlink()
        result = project.snakemake(check=False)
        assert result.returncode != 0
        said = result.stdout + result.stderr
        assert "a job of a private release failed" in said and "released before" not in said
        assert f"{name} was released before (private/ledger.jsonl, line 1" in log_of(project)
        assert not (project.folder / "results/again").exists()
    assert (project.folder / "private/ledger.jsonl").read_bytes() == before
    project.configure()


@pytest.mark.slow
def test_a_second_release_after_an_edit_of_code_or_data_is_refused(runs):
    """Of code that another job than the one with noise runs, outside of any checkout; and of how
    the data are prepared, under another name."""
    level, ((project, _), _) = runs
    if level == "edge":
        pytest.skip("it bounds no degree")
    before = (project.folder / "private/ledger.jsonl").read_bytes()
    code = project.folder / "workflow/graphdp/graphs/degree.py"
    registry = project.folder / "config" / "datasets.yaml"
    known = yaml.safe_load(registry.read_text())
    known["datasets"]["renamed"]["preprocessing"]["symmetrise"] = False
    other = "keep = np.zeros(len(indices), dtype=bool) | True"
    for file, text, changes, message in (
        (
            code,
            code.read_text().replace("keep = np.ones(len(indices), dtype=bool)", other),
            {},
            r"another code \(.*bound_degree mine/",
        ),
        (
            registry,
            yaml.safe_dump(known),
            {"datasets": ["renamed"], "study": "other"},
            "renamed was released before .* with the same files, labels, features, rows, rows of",
        ),
    ):
        before_edit = file.read_text()
        assert text != before_edit
        file.write_text(text)
        project.configure(**changes)
        for log in (project.folder / "private").rglob("*.log.private"):
            log.unlink()
        assert project.snakemake(check=False).returncode != 0
        assert re.search(message, log_of(project))
        file.write_text(before_edit)
        project.configure()
    assert (project.folder / "private/ledger.jsonl").read_bytes() == before
    project.snakemake()  # with all as it was


@pytest.mark.slow
def test_a_lost_cache_gives_the_same_release_again(runs):
    _, (_, (project, _)) = runs
    before = {p.name: p.read_bytes() for p in (project.folder / "results/mine").iterdir()}
    for path in (project.folder / "private/mine").glob("fit"):
        path.rename(path.with_name("gone"))
    project.snakemake()
    after = {p.name: p.read_bytes() for p in (project.folder / "results/mine").iterdir()}
    assert after == before


@pytest.mark.slow
def test_a_damaged_manifest_is_noticed_before_the_ledger(runs):
    """Else a line would hold another hash of the raw files, by which no second release of them is
    known. Doing what is said, to delete it, gives the same release."""
    _, (_, (project, _)) = runs
    folder = project.folder
    files = [*(folder / "results/mine").iterdir(), folder / "private/ledger.jsonl"]
    before = {path: path.read_bytes() for path in files}
    manifest = folder / "private/data/raw/mine/manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b"a", b"b", 1))
    for path in (folder / "private/mine").glob("fit"):
        path.rename(path.with_name("before"))
    assert project.snakemake(check=False).returncode != 0
    assert re.search(r"manifest.json was altered or cut after it was made; delete", log_of(project))
    manifest.unlink()
    project.snakemake()
    assert {path: path.read_bytes() for path in files} == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entry", "changes", "message"),
    [
        (MLP, {"delta": 0.5}, "not below 1/300"),
        # Of a published claim that holds a warning would tell the number of edges.
        (EDGE, {"delta": 0.5, "calibrate_for": "published"}, "not below 1/29"),
    ],
)
def test_what_is_not_released_says_so_in_private(entry, changes, message, tmp_path):
    """And the terminal holds no number of the data."""
    project, said = private_run(tmp_path, entry, check=False, **changes)
    assert message in log_of(project)
    assert "a job of a private release failed" in said
    assert re.search(r"(?<![\w./:-])300(?![\w./:-])", said) is None
    assert not os.path.exists(tmp_path / "project/private/ledger.jsonl")
    assert not list((project.folder / "results").glob("*"))


@pytest.mark.slow
def test_what_nothing_can_be_trained_on_is_said_before_the_data_are_spent(tmp_path):
    """Else, once rescaled, they would be refused as released before."""
    arrays = graph() | {"ids": np.arange(300)}
    arrays["x"][7, 3] = 1e30
    project, said = private_run(tmp_path, NODE, check=False, arrays=arrays)
    assert "features must be finite and at most 1e+12: rescale them" in log_of(project)
    assert "a job of a private release failed" in said
    assert not (project.folder / "private/ledger.jsonl").exists()


def test_a_published_file_that_was_deleted_is_made_again(runs):
    _, (_, (project, _)) = runs
    model = project.folder / "results/mine/model.npz"
    before = model.read_bytes()
    model.unlink()
    project.snakemake()
    assert model.read_bytes() == before
    released(project)


@pytest.mark.parametrize("name", ["model.npz", "row.csv", "statement.md"])
def test_a_published_file_that_was_altered_is_noticed(name, runs):
    """Before anything is said to be up to date; doing as it says brings it back."""
    _, (_, (project, _)) = runs
    folder = project.folder / "results/mine"
    before = {path: path.read_bytes() for path in sorted(folder.iterdir())}
    (folder / name).write_bytes(before[folder / name].replace(b"8", b"1", 1) + b" ")
    result = project.snakemake("--dry-run", check=False)
    said = result.stdout + result.stderr
    assert result.returncode != 0 and "Traceback" not in said
    assert f"results/mine/{name} was altered after it was published: delete it and run" in said
    (folder / name).unlink()
    project.snakemake()
    assert {path: path.read_bytes() for path in sorted(folder.iterdir())} == before


@pytest.mark.slow
def test_no_run_reproduces_what_was_released(tmp_path):
    """Not from another file of it, nor from a graph that was there before its release, be it one
    that was made after this run has looked."""
    (tmp_path / "raw").mkdir()
    np.savez_compressed(tmp_path / "raw/other.npz", **graph())
    (tmp_path / "project").mkdir()
    own = {
        "study": "again", "datasets": ["other"], "mirror": "../raw",
        "experiments": {"accuracy": [EDGE]}, "tables": [], "figures": [],
    }  # fmt: skip
    project = Project(tmp_path / "project", own)
    register(project.folder / "config", "other", "other.npz")
    project.snakemake("data")
    made = project.folder / "results/data/graphs/other.npz"
    entry = {"dataset": "mine", "noise": "x", "release": "s", "commit": "c", "made_with": {}}
    hashes = {"rows": content_hashes(Graph.load(made))["rows"]}
    refused = "dataset 'other' has the rows of a release in private/ledger.jsonl"
    log = tmp_path / "log"
    with log.open("w") as file:
        run = subprocess.Popen(
            project.command(), cwd=project.folder, env=project.environment, stdout=file, stderr=file
        )
    until = time.monotonic() + 120
    while "Building DAG" not in log.read_text():
        assert run.poll() is None and time.monotonic() < until
        time.sleep(0.01)
    run.send_signal(signal.SIGSTOP)
    ledger.reserve(entry, hashes, project.folder / "private/ledger.jsonl")
    run.send_signal(signal.SIGCONT)
    assert run.wait(timeout=120) != 0 and refused in log.read_text()
    assert "rule " not in log.read_text()  # before the first job

    def said(*words):
        result = project.snakemake(*words, check=False)
        assert result.returncode != 0 and "Traceback" not in result.stdout + result.stderr
        return result.stdout + result.stderr

    assert refused in said("--dry-run")  # of the graph that is there
    manifest = project.folder / "results/data/raw/other/manifest.json"
    manifest.unlink()
    assert "delete both and run again" in said("--dry-run")
    made.unlink()
    again = said("data")  # by the job that makes it again
    assert refused in again and "(others may read results/data/raw/other" in again
    assert manifest.exists() and not made.exists()
    # Of the same file no copy is made.
    shutil.rmtree(manifest.parent)
    hashes = {"files": [io.sha256_file(tmp_path / "raw/other.npz")]}
    entry |= {"dataset": "its", "noise": "y"}
    ledger.reserve(entry, hashes, project.folder / "private/ledger.jsonl")
    assert "dataset 'other' has the raw files of a release" in said("data")
    assert not list(manifest.parent.glob("*"))


def test_where_a_private_release_stands(tmp_path, monkeypatch):
    """It is done when its job has written down what was published, and left or failed before."""
    monkeypatch.chdir(tmp_path)
    Path("config/published").mkdir(parents=True)
    for name in ("datasets.yaml", "facebook100.tsv"):
        shutil.copy(ROOT / "config" / name, "config")
    register(Path("config"), "mine", "mine.npz")
    asked = study(EDGE, train_nodes=None)
    Path("study.yaml").write_text(yaml.safe_dump(asked))

    def state():
        (found,) = [one for one in status.status(Path("study.yaml")) if one.kind == "release"]
        return found.state, found.cause

    assert state() == ("left", "")
    entry = {"dataset": "mine", "noise": "x", "release": "s", "commit": "c", "made_with": {}}
    ledger.reserve(entry, {"files": ["f"]})
    for folder in ("results/mine", "private/mine"):
        Path(folder).mkdir(parents=True)
    files = [Path("results/mine", name) for name in private.PUBLISHED]
    for file in files:
        file.write_bytes(b"published")
    assert state() == ("left", "")  # a job that failed leaves no record
    files[1].write_text("dataset\nother\n")
    with pytest.raises(GraphDPError, match=r"dataset 'other', .* of 'mine': give it another name"):
        state()
    files[1].write_bytes(b"published")
    private.record_published(files, "private/mine/published.json")
    assert state() == ("done", "")
    for lost, record in (
        ("private/ledger.jsonl private/ledger.key", "private/mine/published"),
        ("private", "results/mine/model"),
        ("private results/mine/model.npz results/mine/statement.json", "results/mine/row"),
    ):
        for one in lost.split():
            Path(one).rename(f"{Path(one).name} kept")
        with pytest.raises(GraphDPError, match=rf"ledger\.jsonl is missing, and {record}"):
            state()
        for one in lost.split():
            Path(f"{Path(one).name} kept").rename(one)
    # A mount point without its disk is root's. What is published is one's own, or another's.
    Path("private").rename("disk")
    Path("private").mkdir(0o755)
    own, mine = ledger._own, Path("results/mine")
    with monkeypatch.context() as patched:
        patched.setattr(ledger, "_own", lambda one: one != Path("private") and own(one))
        with pytest.raises(GraphDPError, match=r"missing, and results/mine/model"):
            ledger.check_nothing_published()
        patched.setattr(
            ledger, "_own", lambda one: mine not in one.parents and one != Path("private")
        )
        ledger.check_nothing_published()
    Path("private").rmdir()
    Path("disk").rename("private")
    Path("private").rename("disk")
    Path("private").symlink_to("mounted")
    with pytest.raises(GraphDPError, match="private is a link to nothing"):
        state()
    Path("private").unlink()
    Path("disk").rename("private")
    whole = Path(ledger.LEDGER).read_bytes()
    Path(ledger.LEDGER).write_bytes(whole[1:])
    with pytest.raises(GraphDPError, match=r"line 1 of the ledger .* is damaged"):
        state()
    Path(ledger.LEDGER).write_bytes(whole)
    files[1].write_bytes(b"altered")
    assert state()[0] == "failed" and "row.csv was altered" in state()[1]
    files[1].unlink()
    assert state() == ("left", "")

    def refused(path, *args):
        raise PermissionError(13, "Permission denied", f"{path}")

    with monkeypatch.context() as patched:  # as of another user's private/
        patched.setattr(status.seals, "read", refused)
        made = Path("private/data/graphs/mine.npz")
        io.write_text(made, "made")
        seals.write(made)
        with pytest.raises(GraphDPError, match=r"mine.npz cannot be read \(Permission denied\)"):
            state()
    made.unlink()
    files[1].symlink_to("/proc/self/mem")
    assert state()[0] == "failed"
    assert re.fullmatch(r"results/mine/row\.csv (cannot be read \(.*\)|was .*)", state()[1])


def test_a_release_is_not_written_over_by_that_of_another_dataset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    private.check_same_dataset("mine", "a")
    row = Path("results/mine/row.csv")
    row.parent.mkdir(parents=True)
    row.write_text("study,dataset\nmine,a\n")
    private.check_same_dataset("mine", "a")
    with pytest.raises(
        GraphDPError, match=r"of a release of dataset 'a', .* of 'b': give it another"
    ):
        private.check_same_dataset("mine", "b")


def test_a_damaged_record_of_what_was_published_is_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("results/mine", "private/mine"):
        Path(folder).mkdir(parents=True)
    files = [Path("results/mine", name) for name in private.PUBLISHED]
    for file in files:
        file.write_bytes(b"published")
    record = Path("private/mine/published.json")
    private.check_published("mine")
    private.record_published(files, record)
    private.check_published("mine")
    files[0].unlink()
    private.check_published("mine")
    files[0].mkdir()
    with pytest.raises(GraphDPError, match=r"model\.npz is a folder"):
        private.check_published("mine")
    files[0].rmdir()
    for damaged in ("", "[]", "{}", '{"model.npz": 1}', "[" * 99_999):
        record.write_text(damaged)
        with pytest.raises(GraphDPError, match=r"published\.json is damaged: delete it"):
            private.check_published("mine")


def test_what_is_published_stays_when_its_job_fails(runs):
    """It may be the only copy: elsewhere the same key gives other last bits. Nor is it said to be
    up to date, as long as the job fails."""
    _, (_, (project, _)) = runs
    published = sorted((project.folder / "results/mine").iterdir())
    before = {path: path.read_bytes() for path in published}
    (row,) = (project.folder / "private/mine/fit").rglob("*.csv")
    model = row.with_suffix(".npz")
    whole = model.read_bytes()
    model.write_bytes(whole + b"x")
    row.touch()
    for _ in range(2):
        assert project.snakemake(check=False).returncode != 0
        assert f"{model.name} is missing or damaged" in log_of(project)
        assert {path: path.read_bytes() for path in published} == before
    model.write_bytes(whole)
    assert "release" in project.snakemake().stderr
    assert {path: path.read_bytes() for path in published} == before
    released(project)


def test_a_corrected_file_of_the_mirror_is_not_passed_over(runs):
    _, (_, (project, _)) = runs
    raw = project.folder.parent / "raw" / "mine.npz"
    before = raw.read_bytes()
    np.savez(raw, **graph(5))
    for arguments in ([], ["-n"]):
        result = project.snakemake(*arguments, check=False)
        said = result.stdout + result.stderr
        assert result.returncode != 0 and "mine.npz has changed." in said
        placed, graphs = "private/data/raw/mine", "private/data/graphs/mine"
        gone = f"{placed}/mine.npz, {placed}/manifest.json, {placed}/recorded-hashes.json"
        assert f"delete {gone}, {graphs}.npz and {graphs}.json, make them anew" in said
        assert hashlib.sha256(raw.read_bytes()).hexdigest() not in said
    raw.write_bytes(before)
    project.snakemake()


def python_of_the_page(word):
    """The piece of Python in docs/private.md that has a word in it."""
    page = (ROOT / "docs/private.md").read_text()
    (found,) = [code for code in re.findall(r"```python\n(.*?)```", page, re.S) if word in code]
    return found


def test_the_page_predicts_what_the_model_does(tmp_path, monkeypatch):
    """In numpy: without the library, of which a released model says nothing."""
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(1).normal(0, 3, (200, 5)).astype(np.float32)
    y = (x[:, 0] > 0) + (x[:, 1] > 0).astype(np.int64)
    network = training.MLP(5, hidden=8, layers=3, classes=3, batch_norm=False)
    sides = np.split(np.arange(200), [120, 160])
    one = training.Member(("predict",), 0.05, 0.1, *sides)
    rounds = training.DPAdam(30, 40, 40 / 120, 90, 1.0)
    (model,) = training.train(network, x, y, [one], rounds, checkpoint="last")
    Path("results/hospital").mkdir(parents=True)
    np.savez("results/hospital/model.npz", **model.parameters)
    found = {"numpy": np, "x": x.astype(np.float64)}
    exec(python_of_the_page("argmax"), found)
    np.testing.assert_array_equal(found["classes"], model.predictions)
    assert len(set(found["classes"])) == 3


def test_the_page_makes_a_file_that_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("nodes.csv").write_text("id,class,a,b\n7,0,1.5,2\n3,1,0,1\n9,-1,2,2\n")
    for edges, expected in (("0,1\n1,2\n", ([0, 1], [1, 2])), ("", ([], []))):
        Path("edges.csv").write_text("from,to\n" + edges)
        exec(python_of_the_page("savez"), {"numpy": np, "pandas": pd})
        raw = load_arrays(tmp_path, ["mine.npz"], "mine.npz", num_ids=10)
        assert raw.ids.tolist() == [7, 3, 9] and raw.y.tolist() == [0, 1, -1]
        assert raw.x.tolist() == [[1.5, 2], [0, 1], [2, 2]]
        assert (raw.sources.tolist(), raw.targets.tolist()) == expected


OF_THE_MACHINE = {"cpu_seconds", "wall_seconds", "peak_rss_mb", "train_accuracy", "curves"}


OF_LABELS = {
    "val_accuracy", "test_accuracy", "test_precision", "test_precision_weighted", "best_epoch",
}  # fmt: skip


@pytest.mark.parametrize(("level", "labels"), [("edge", False), ("k5", True), ("node", True)])
def test_nothing_that_reads_labels_is_released_where_nodes_are_protected(level, labels):
    assert set(model_rows._unpublished(level)) == OF_THE_MACHINE | (OF_LABELS if labels else set())
    model = SimpleNamespace(parameters={"W": np.ones(2)}, predictions=np.zeros(3, np.int16))
    block = SimpleNamespace(level=level, graph=SimpleNamespace(ids=np.array([4, 0, 7])))
    found = model_rows.released_arrays(block, model)
    assert set(found) == {"W"} | ({"predictions", "ids"} if not labels else set())
    assert labels or found["ids"].tolist() == [4, 0, 7]
