"""`graphdp rows`: what is finished, whole and of one study goes into one file; nothing else."""

from pathlib import Path

import pandas as pd
import pytest

from graphdp import cli, seals
from graphdp.paper.rows import collect, read_rows

SHIPPED = Path(__file__).parent.parent / "workflow/report/degree-bounds-rows.csv.gz"
STUDY = "degree-bounds"


@pytest.fixture
def study(tmp_path, monkeypatch):
    """The shipped rows of a study as its jobs leave them: blocks of seeds, each with its seal."""
    monkeypatch.chdir(tmp_path)
    rows = pd.read_csv(SHIPPED, dtype=str, keep_default_na=False)
    for number, (place, some) in enumerate(rows.groupby(["dataset", "method", "level", "epsilon"])):
        folder = Path("results", STUDY, "fit", *place, "accuracy")
        if number % 2:  # a bundle of cells is one result, a folder with one seal
            folder = Path("results", STUDY, "fit/bundles", place[0], place[1], f"b{number}", "a")
        block = folder / "0-9" / "node-1.csv" if number % 2 else folder / "0-9.csv"
        block.parent.mkdir(parents=True)
        some.to_csv(block, index=False)
        seals.write(block.parent if number % 2 else block)
    return Path("results", STUDY), rows


def said(capsys, *words):
    """Exit code, and what is printed and complained of."""
    code = cli.main(["rows", *map(str, words)])
    printed = capsys.readouterr()
    return code, printed.out + printed.err


@pytest.mark.parametrize("name", ["all.csv", "all.csv.gz"])
def test_all_finished_models_are_joined(study, name, capsys):
    folder, rows = study
    assert len(rows.groupby(["dataset", "method", "level", "epsilon"])) > 3
    code, text = said(capsys, folder, "--output", name)
    assert code == 0 and f"{name}: {len(rows)} models of study {STUDY}" in text
    pd.testing.assert_frame_equal(read_rows(name), collect([SHIPPED]))
    first = Path(name).read_bytes()
    Path(name).unlink()
    assert said(capsys, folder, "--output", name)[0] == 0 and Path(name).read_bytes() == first


def test_files_and_folders_are_joined_and_no_model_stands_twice(study, capsys):
    folder, rows = study
    some = rows["epsilon"] == rows["epsilon"].iloc[0]
    rows[some].to_csv("some.csv", index=False)
    code, text = said(capsys, folder, "some.csv", "--output", "all.csv")
    assert code == 2 and f"{some.sum()} rows stand twice" in text
    rows[~some].to_csv("others.csv", index=False)
    code, _ = said(capsys, "some.csv", "others.csv", "--output", "all.csv")
    assert code == 0
    pd.testing.assert_frame_equal(read_rows("all.csv"), collect([SHIPPED]))


def test_what_is_not_whole_or_not_finished_is_refused(study, capsys):
    folder, _ = study
    whole = {file: file.read_bytes() for file in folder.glob("fit/**/*.csv")}
    for file, content in whole.items():
        file.write_bytes(content[:-200])
        code, text = said(capsys, folder, "--output", "all.csv")
        assert code == 2 and "altered or cut after it was made" in text and text.count("\n") == 1
        file.write_bytes(content)
    seal = seals.seal_of(next(file for file in whole if file.name == "0-9.csv"))
    seal.unlink()
    code, text = said(capsys, folder, "--output", "all.csv")
    assert code == 2 and "was not finished (it has no seal)" in text
    assert not Path("all.csv").exists()


def test_no_file_is_overwritten_and_every_wrong_input_is_one_line(study, capsys):
    folder, rows = study
    Path("there.csv").write_text("mine")
    rows.assign(study="other").to_csv("other.csv", index=False)
    rows.assign(release="private").to_csv("private.csv", index=False)
    Path("torn.csv").write_text("study,dataset\n")
    Path("latin.csv").write_bytes("study,dataset\nGarç,a\n".encode("latin-1"))
    Path("empty.csv").write_bytes(b"")
    Path("uneven.csv").write_text("study,dataset\na,b\na,b,c\n")
    zipped = SHIPPED.read_bytes()
    Path("cut.csv.gz").write_bytes(zipped[: len(zipped) // 2])
    Path("mixed.csv.gz").write_bytes(zipped[:2000] + bytes(500) + zipped[2500:])
    Path("plain.csv.gz").write_text("study,dataset\n")
    for words, message in (
        ([folder, "--output", "there.csv"], "there.csv is there already"),
        ([folder, "--output", "all.parquet"], "ends in .csv or .csv.gz"),
        (["results/none", "--output", "all.csv"], "results/none: no model is finished there"),
        ([folder, "other.csv", "--output", "all.csv"], "rows of degree-bounds, other: give those"),
        (["private.csv", "--output", "all.csv"], "a private release publishes its own row alone"),
        (["torn.csv", "--output", "all.csv"], "torn.csv"),
        (["latin.csv", "--output", "all.csv"], "latin.csv: not a rows.csv ('utf-8' codec"),
        (["empty.csv", "--output", "all.csv"], "empty.csv: not a rows.csv (No columns"),
        (["uneven.csv", "--output", "all.csv"], "uneven.csv: not a rows.csv (Error tokenizing"),
        (["cut.csv.gz", "--output", "all.csv"], "cut.csv.gz: not a rows.csv (Compressed file"),
        (["mixed.csv.gz", "--output", "all.csv"], "mixed.csv.gz: not a rows.csv (Error -3"),
        (["plain.csv.gz", "--output", "all.csv"], "plain.csv.gz: not a rows.csv (Not a gzipped"),
        ([folder, "--output", "there.csv/all.csv"], "cannot be written"),
    ):
        code, text = said(capsys, *words)
        assert code == 2 and message in text and text.count("\n") == 1, text
    assert Path("there.csv").read_text() == "mine" and not Path("all.csv").exists()
