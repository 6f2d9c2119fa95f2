"""What earlier runs left is found, whatever dataset it is of, and what lies beside it is not."""

from graphdp import io, seals
from graphdp.workflow.finished import bundled, finished_blocks

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
