"""What earlier runs left is found, whatever dataset it is of, and what lies beside it is not."""

import pytest

from graphdp import io, seals
from graphdp.config import validate
from graphdp.errors import GraphDPError, LostRelease
from graphdp.methods.card import RELEASES
from graphdp.workflow import stages
from graphdp.workflow.finished import bundled, finished_blocks
from graphdp.workflow.grid import Grid

ALONE = "berkeley13/gap/edge/4/accuracy/0-4.csv"
BUNDLE = "bundles/cora/gap/edge-1+edge-4/accuracy/5-9"


def test_blocks_and_bundles_are_found_and_seals_and_torn_files_are_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in (ALONE, f"{BUNDLE}/edge-1.csv", f"{BUNDLE}/edge-4.csv"):
        io.write_text(f"fit/{name}", "rows")
    for name in (ALONE, BUNDLE):
        seals.write(f"fit/{name}")
    for name in (ALONE, f"{BUNDLE}/edge-1.csv"):
        (tmp_path / "fit" / name).with_name(".tmp-a-b.csv").write_text("half")
    # A user's own notes.
    (tmp_path / "fit" / ALONE).with_name("my-notes.csv").write_text("0-9 was slow")
    notes = (tmp_path / "fit" / BUNDLE).with_name("my-notes")
    notes.mkdir()
    (notes / "edge-8.csv").write_text("not ours")
    place = "cora/gap/edge-1+edge-4/accuracy"
    assert finished_blocks(tmp_path / "fit") == {
        "berkeley13/gap/edge/4/accuracy": ["0-4"],
        place: ["5-9"],
    }
    assert sorted(bundled(tmp_path)) == [("fit", place, "edge-1"), ("fit", place, "edge-4")]
    assert finished_blocks(tmp_path / "nothing") == {} and bundled(tmp_path / "nothing") == []


def test_a_bundle_has_a_folder_whose_name_a_file_system_takes():
    """Forty ε in one would have 300 characters; none is left out, and their order stays."""
    tokens = [f"{number / 10:g}" for number in range(1, 41)]
    entry = {"method": "gap", "level": "edge", "epsilon": tokens}
    study = {"study": "s", "datasets": ["csbm"], "cell_block": 100, "experiments": {"a": [entry]}}
    grid = Grid(validate(study))
    bundles = {grid.bundle(unit): None for unit in grid.units.values() if unit.stage.name == "fit"}
    members = [place.split("/")[2] for place in bundles]
    assert max(map(len, members)) <= 200 and len(members) == 2
    assert "+".join(members).split("+") == [f"edge-{token}" for token in tokens]


def test_another_delta_changes_no_job_of_what_has_no_noise():
    """GAP at level none and the MLP are kept; what is trained with noise is not."""
    none = [{"method": name, "level": "none"} for name in ("gap", "mlp")]
    entries = [*none, {"method": "gap", "level": "edge", "epsilon": [1]}]
    study = {"study": "s", "datasets": ["csbm"], "experiments": {"a": entries}}
    one, other = (Grid(validate(study | {"delta": delta})) for delta in (1e-5, 1e-6))
    changed = {
        (unit.stage.name, unit.level)
        for place, unit in one.units.items()
        if one.task(unit) != other.task(other.units[place])
    }
    assert changed == {("aggregate", "edge"), ("fit", "edge")}


@pytest.mark.parametrize("bundle", [False, True])
def test_after_a_lost_release_what_names_it_is_deleted_whole(tmp_path, monkeypatch, bundle):
    """Of a bundle its folder: with one member less it would be refused as incomplete."""
    monkeypatch.chdir(tmp_path)
    made = f"aggregate/{BUNDLE}" if bundle else "aggregate/cora/gap/edge/1/a/0-1.json"
    files = [f"{made}/edge-{token}.json" for token in (1, 4)] if bundle else [made]
    for name in files:
        io.write_text(name, "{}")
    seals.write(made)

    def found(name):
        def run(*_):
            if name == "fit":
                raise LostRelease("r.npy is damaged; delete it")

        return run

    monkeypatch.setattr(stages, "resolve", found)
    task = {
        "run": "fit", "save": "save", "settings": [], "output": "out",
        "reads": {"aggregate": RELEASES[1]}, "files": {"aggregate": files},
    }  # fmt: skip
    with pytest.raises(GraphDPError, match="delete") as error:
        stages.run_stage(task, None, "cache")
    assert str(error.value) == f"r.npy is damaged; delete it: delete {made} as well"
