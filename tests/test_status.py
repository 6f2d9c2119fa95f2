"""`graphdp status`: what is done, at work, failed and left, by the files of a study."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from graphdp import cli, io, seals
from graphdp.errors import GraphDPError
from graphdp.workflow import job, preflight, status
from graphdp.workflow.grid import Grid
from graphdp.workflow.made import Made

ROOT = Path(__file__).parent.parent
STUDY = {
    "study": "tiny",
    "datasets": ["csbm"],
    "seeds": 4,
    "seed_block": 2,
    "experiments": {
        "accuracy": [
            {"method": "gap", "level": "edge", "epsilon": [1, 4], "hops": 2},
            {"method": "mlp", "level": "none"},
        ]
    },
}
DONE = "done: cpu_seconds 1.5, wall_seconds {}, peak_rss_mb 300\n"


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    (tmp_path / "config").symlink_to(ROOT / "config")
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(STUDY))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def jobs(stage=""):
    return [one for one in status.status(Path("study.yaml")) if one.stage.startswith(stage)]


def others_of(job):
    """What else its rule makes."""
    asked = yaml.safe_load(Path("study.yaml").read_text())
    made, (name,) = Made(preflight.prepare(asked)), asked["datasets"]
    return {
        "preprocess": [made.statistics_file(name)],
        "calibrate": [made.statements_folder(name)],
        "collect": [made.context_file()],
        "draw": [*made.table_files(), *made.figure_files()],
    }.get(job.stage, [])


def finish(job, seconds, made_of=""):
    for path in (job.made, *others_of(job)):
        io.write_text(path, "made")
        seals.write(path, made_of)
    io.write_text(job.log, DONE.format(seconds))


def digest_of(job):
    """What its job seals it with, as the rules say."""
    asked = yaml.safe_load(Path("study.yaml").read_text())
    made = Made(preflight.prepare(asked))
    (name,) = asked["datasets"]
    spec = preflight.prepare(asked).datasets[name]
    graph = seals.digest(spec.model_dump_json(exclude={"notes", "by_hand"}))
    if job.stage == "preprocess":
        return graph
    if job.stage == "collect_attacks":
        return made.attacks_made_of()
    if job.stage == "attack":
        return next(
            digest for file, digest in made.collected_attacks_made_of().items() if file == job.made
        )
    if job.stage == "collect":
        return made.rows_made_of()
    if job.stage == "calibrate":
        return made.calibrations_made_of(name)
    if job.stage == "draw":
        return made.report_made_of()
    grid = Grid(preflight.prepare(asked).study)
    (unit,) = [u for u in grid.units.values() if f"/{u.stage.name}/{u.place}/" in job.made]
    return seals.digest([[grid.task(unit), graph]])


def make_all():
    """Finish all jobs, as they are asked for now."""
    for one in jobs():
        finish(one, 1, digest_of(one))
    assert {one.state for one in jobs()} == {"done"}


def left_by(**changes):
    """The kinds of jobs that are left once a study asks for something else."""
    Path("study.yaml").write_text(yaml.safe_dump(STUDY | changes))
    return {one.stage for one in jobs() if one.state == "left"}


def test_every_job_of_a_study_is_there_once():
    """Two blocks of seeds: an encoder for both ε, an aggregation and a classifier each, an MLP."""
    found = [one.stage for one in jobs()]
    counts = {stage: found.count(stage) for stage in dict.fromkeys(found)}
    assert counts == {
        "preprocess": 1, "calibrate": 1, "encode": 2, "aggregate": 4, "fit": 6, "collect": 1,
        "draw": 1,
    }  # fmt: skip
    assert {one.state for one in jobs()} == {"left"}
    assert status.seconds_left(jobs()) == (0, list(counts))


def test_what_a_study_leaves_out_is_not_left_to_do(project):
    """A graph that is not there and may be skipped; calibrations that no row reads."""
    asked = STUDY | {"datasets": ["csbm", "cora"], "missing_data": "skip"}
    Path("study.yaml").write_text(yaml.safe_dump(asked))
    assert not any("cora" in one.made for one in jobs())
    io.write_json("results/data/raw/cora/manifest.json", {"files": []})
    assert {one.stage for one in jobs() if "cora" in one.made} == {
        "preprocess", "calibrate", "encode", "aggregate", "fit"
    }  # fmt: skip
    rows = project / "rows.csv"
    rows.write_text("study,dataset,method,level,epsilon,hyperparameters,checkpoint,seed\n")
    asked |= {"train": False, "known_rows": [str(rows)]}
    Path("study.yaml").write_text(yaml.safe_dump(asked))
    assert [one.stage for one in jobs()] == ["preprocess", "preprocess", "collect", "draw"]


def test_the_rows_of_attacks_are_a_job():
    attack = {"nmi": {"entries": [{"method": "mlp", "level": "none"}]}}
    Path("study.yaml").write_text(yaml.safe_dump(STUDY | {"attacks": attack}))
    found = [one.made for one in jobs("collect")]
    assert found == ["results/tiny/rows.csv", "results/tiny/attacks.csv"]


def test_states_follow_from_output_seal_and_log():
    first, second, third, fourth = jobs("aggregate")
    finish(first, 3, digest_of(first))
    finish(second, 3, "another configuration's")
    io.write_text(third.log, "warning\nerror: noise of scale 0; calibrate again\n")
    io.write_text(fourth.log, "aggregating\n")
    assert [one.state for one in jobs("aggregate")] == ["done", "left", "failed", "left"]
    assert jobs("aggregate")[2].cause == "error: noise of scale 0; calibrate again"
    file = os.open(job.lock_of(fourth.log), os.O_RDWR | os.O_CREAT)
    fcntl.flock(file, fcntl.LOCK_EX)
    assert [one.state for one in jobs("aggregate")] == ["done", "left", "failed", "running"]
    os.close(file)
    seals.remove(first.made)
    assert jobs("aggregate")[0].state == "left"
    io.write_text(third.log, "Traceback (most recent call last):\n  x\nKeyError: 'hops'\n")
    assert jobs("aggregate")[2].cause == "KeyError: 'hops'"


def no_locks(*_):
    raise OSError(errno.ENOLCK, "No locks available")


def test_what_was_killed_is_said(capsys):
    """As by the kernel for memory: of such a job Snakemake says no more than the signal."""
    one = jobs("fit")[0]
    io.write_text(one.log, "")
    job.lock_of(one.log).touch()
    assert cli.main(["status", "study.yaml"]) == 0
    said = f"left: {one.made} began and ended without a word: perhaps killed, as for memory ("
    assert said in capsys.readouterr().out
    # Where there are no locks it may be running.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(status.fcntl, "flock", no_locks)
        assert (jobs("fit")[0].state, jobs("fit")[0].cause) == ("left", "")
    one.log.unlink()  # as Snakemake does before a job is queued again
    assert jobs("fit")[0].cause == ""
    finish(one, 3, digest_of(one))
    assert jobs("fit")[0].state == "done"
    Path(one.made).unlink()  # by somebody: it ended as it should
    assert jobs("fit")[0].cause == ""


def test_what_was_altered_since_it_was_made_has_failed(capsys):
    """A run with nothing to do does not read it: who takes rows or a table away would not know."""
    for one in jobs():
        finish(one, 1, digest_of(one))
    found = [one for one in jobs() if one.stage in ("preprocess", "calibrate", "collect", "draw")]

    def states():
        return {one.stage: one.state for one in jobs() if one.kind in [each.kind for each in found]}

    assert {one.state for one in jobs()} == {"done"} and len(found) == 4
    checked = [(one.stage, path) for one in found for path in (one.made, *others_of(one))]
    for stage, path in checked:
        if path.endswith(".npz"):  # large, and checked by the job that reads it
            continue
        io.write_text(path, "m4de")
        assert {kind for kind, state in states().items() if state != "done"} == {stage}
        assert states()[stage] == "failed"
        assert cli.main(["status", "study.yaml"]) == 0
        (said,) = [x for x in capsys.readouterr().out.splitlines() if x.startswith("failed:")]
        assert f"{path} was altered or cut after it was made; delete it and run again" in said
        io.write_text(path, "made")
        assert set(states().values()) == {"done"}
    # What is not there, or was never finished, is left to do.
    for stage, path in checked:
        for lost in (Path(path), seals.seal_of(path)):
            lost.rename("kept")
            assert {kind: state for kind, state in states().items() if state != "done"} == {
                stage: "left"
            }
            Path("kept").rename(lost)
    asked = STUDY | {"tables": [*preflight.prepare(STUDY).study.tables, "leaderboard"]}
    Path("study.yaml").write_text(yaml.safe_dump(asked))
    assert states()["draw"] == "left"


def test_what_is_gone_and_read_by_nothing_that_is_left_is_to_be_named(capsys):
    """Snakemake makes it anew for what it is missing for, and the report is there."""
    make_all()
    one = jobs("fit")[1]
    Path(one.made).unlink()
    assert cli.main(["status", "study.yaml"]) == 0
    said = capsys.readouterr().out
    assert f"{one.made}: made and gone" in said
    assert f"snakemake --cores all all {one.made}" in said
    kept = jobs("fit")[0].made
    for path in (one.made, kept):  # that is there, and left for another reason
        io.write_text(path, "made")
    seals.remove(kept)
    seals.write(one.made, digest_of(one))
    assert cli.main(["status", "study.yaml"]) == 0
    assert "made and gone" not in capsys.readouterr().out
    Path(one.made).unlink()
    # Also where its last try failed, which is said as well.
    before = one.log.read_text()
    io.write_text(one.log, "error: no room\n")
    assert cli.main(["status", "study.yaml"]) == 0
    said = capsys.readouterr().out
    assert f"{one.made}: made and gone" in said and f"failed: {one.made} error: no room" in said
    io.write_text(one.log, before)
    seals.remove(jobs("draw")[0].made)  # then it is missing for that
    assert cli.main(["status", "study.yaml"]) == 0
    assert "made and gone" not in capsys.readouterr().out


def test_a_bundle_is_one_job_whatever_levels_are_in_it():
    entries = STUDY["experiments"]["accuracy"]
    levels = [*entries, {**entries[0], "level": "node", "max_degree": 4, "epsilon": [2]}]
    asked = {"experiments": {"accuracy": levels}, "cell_block": 8}
    left_by(**asked)
    found = [one.made for one in jobs()]
    assert len(found) == len(set(found))
    # By rule and place, as Snakemake counts them: two blocks of seeds, one bundle of each stage.
    aggregates = [one for one in jobs("aggregate")]
    assert [one.stage for one in jobs()].index("encode") < [
        *map(str, (x.stage for x in jobs()))
    ].index("fit")
    assert len(aggregates) == 2 and {one.kind for one in aggregates} == {"aggregate gap edge"}


def test_a_raw_file_that_is_not_what_the_graph_was_made_of_is_noticed():
    """No rule reads it again: with the graph there nothing would be done."""
    name, folder = "cora", Path("results/data/raw/cora")
    Path("study.yaml").write_text(yaml.safe_dump(STUDY | {"datasets": [name]}))
    file = folder / "ind.cora.allx"
    io.write_text(file, "raw")
    io.write_json(
        folder / "manifest.json",
        {"files": [{"name": file.name, "size": 3, "sha256": io.sha256_file(file)}]},
    )
    assert jobs()
    written = file.stat()
    file.write_text("war")
    os.utime(file, ns=(written.st_atime_ns, written.st_mtime_ns))  # as cp -p leaves it
    with pytest.raises(GraphDPError, match=r"'cora': .*allx was altered since") as refused:
        jobs()
    again = (
        f"to have {file.name} again, delete {file}, {folder}/manifest.json, "
        "results/data/graphs/cora.npz and results/data/graphs/cora.json, make them anew"
    )
    assert again in str(refused.value)
    file.write_text("raw")
    assert jobs()
    file.write_text("longer")  # though a copy of the folder has the manifest newer
    os.utime(folder / "manifest.json", (4e9, 4e9))
    with pytest.raises(GraphDPError, match="allx was altered since"):
        jobs()
    file.unlink()  # who has the graph may do without
    assert jobs()
    io.write_text(folder / "manifest.json", "[]")
    with pytest.raises(GraphDPError, match=r"manifest\.json is damaged"):
        jobs()
    (folder / "manifest.json").unlink()
    (folder / "manifest.json").mkdir()
    with pytest.raises(GraphDPError, match=r"manifest\.json is damaged"):
        jobs()


def test_what_may_not_be_read_is_one_line(monkeypatch):
    make_all()
    (one,) = jobs("calibrate")
    Path(one.made).unlink()
    io.write_text(f"{one.made}/deep/a.json", "{}")
    seals.write(one.made, digest_of(one))
    assert jobs("calibrate")[0].state == "done"
    listed = os.scandir

    def refused(path):
        raise PermissionError(13, "Permission denied", f"{path}")

    def all_but_one(path):
        return refused(path) if f"{path}".endswith("/deep") else listed(path)

    with monkeypatch.context() as patched:  # as of another user's folder: no file is missing
        patched.setattr(os, "scandir", all_but_one)
        with pytest.raises(GraphDPError, match=r"deep cannot be read \(Permission denied\): it"):
            jobs()
    with monkeypatch.context() as patched:
        patched.setattr(status, "Made", lambda prepared: refused("results/tiny"))
        with pytest.raises(GraphDPError, match=r"results/tiny cannot be read"):
            jobs()


def test_a_reproduction_does_not_write_beside_a_private_release():
    io.write_text("results/tiny/model.npz", "published")
    with pytest.raises(GraphDPError, match=r"model\.npz is a private release's.* than tiny"):
        jobs()


def test_another_delta_leaves_all_to_do_that_noise_is_in():
    """And what is made of it: rows and report are of this study once it is in them."""
    for one in jobs():
        finish(one, 1, digest_of(one))
    Path("study.yaml").write_text(yaml.safe_dump(STUDY | {"delta": 1e-6}))
    left = [(one.stage, one.kind) for one in jobs() if one.state == "left"]
    assert {stage for stage, _ in left} == {"calibrate", "aggregate", "fit", "collect", "draw"}
    assert "fit mlp none" not in {kind for _, kind in left}
    # A run that ends before the rows leaves those of the old δ.
    for one in [one for one in jobs() if one.stage in ("calibrate", "aggregate", "fit")]:
        finish(one, 1, digest_of(one))
    assert [one.stage for one in jobs() if one.state == "left"] == ["collect", "draw"]
    # More seeds of one cell: its own models, of which rows are.
    Path("study.yaml").write_text(yaml.safe_dump(STUDY | {"seeds": 6}))
    left = {one.stage for one in jobs() if one.state == "left"}
    assert left == {"calibrate", "encode", "aggregate", "fit", "collect", "draw"}


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ({"title": "another"}, {"collect", "draw"}),
        ({"paper": "gap"}, {"collect", "draw"}),  # whose numbers stand beside ours
        ({"experiments": STUDY["experiments"] | {"again": STUDY["experiments"]["accuracy"]}},
         {"collect", "draw"}),
        ({"tables": ["accuracy"]}, {"draw"}),
        ({"tables": [], "figures": []}, {"draw"}),
    ],
)  # fmt: skip
def test_rows_and_report_are_of_all_that_a_study_asks_for(changes, left):
    make_all()
    assert left_by(**changes) == left
    assert left_by() == set()


def test_a_table_of_an_earlier_run_is_no_finished_one():
    """It was not asked for in between, when rows and report were made anew."""
    tables = preflight.prepare(STUDY).study.tables
    assert len(tables) > 1
    make_all()
    left_by(tables=tables[:1], seeds=6)
    make_all()
    assert left_by(tables=tables, seeds=6) == {"draw"}
    # Nor where the report alone is of this study.
    report = next(one for one in jobs() if one.stage == "draw")
    seals.write(report.made, digest_of(report))
    assert left_by(tables=tables, seeds=6) == {"draw"}


def test_rows_of_attacks_are_of_the_attacks_that_are_asked_for():
    def attacks(nodes=30):
        entry = {"method": "mlp", "level": "none", "epochs": 2}
        return {"nmi": {"nodes_per_class": nodes, "entries": [entry]}}

    asked = {"experiments": {}, "attacks": attacks(), "tables": [], "figures": []}
    left_by(**asked)
    make_all()
    assert left_by(**asked | {"attacks": attacks(20)}) >= {"attack", "collect_attacks", "draw"}
    assert "collect_attacks" in left_by(**asked | {"seeds": 2})
    assert left_by(**asked | {"seeds": 6}) >= {"attack", "collect_attacks", "draw"}
    for one in jobs("attack"):  # a run that ends before their rows
        finish(one, 1, digest_of(one))
    assert {"collect_attacks", "draw"} <= {one.stage for one in jobs() if one.state == "left"}


def test_another_definition_of_a_graph_leaves_all_to_do_that_it_is_in():
    def asked(phi):
        parameters = {"n": 500, "f": 16, "d": 10, "epsilon": 3.0, "phi": phi}
        small = {"base": "csbm", "parameters": parameters}
        return {"datasets": ["small"], "definitions": {"small": small}}

    left_by(**asked(0.75))
    make_all()
    assert left_by(**asked(0.25)) == {one.stage for one in jobs()}
    (graph,) = jobs("preprocess")
    finish(graph, 1, digest_of(graph))
    assert {one.stage for one in jobs() if one.state == "done"} == {"preprocess"}


def made_from(stage, *paths):
    """Seal what a stage's first job makes as made from what is in these files now."""
    one = jobs(stage)[0]
    for path in (one.made, *others_of(one)):
        seals.write(path, digest_of(one), seals.contents(map(str, paths)))
    return one.made


def test_what_was_made_from_something_else_is_left_to_do():
    """As where a graph was made again of a corrected file, or rows and not the report; the same
    content again is nothing else, nor is an input that is gone."""
    make_all()
    (graph,) = jobs("preprocess")
    fit = made_from("fit", graph.made)
    rows = made_from("collect", fit, graph.made)
    made_from("draw", rows)
    assert {one.state for one in jobs()} == {"done"}
    for path, left in ((graph.made, {"fit", "collect"}), (fit, {"collect"}), (rows, {"draw"})):
        made_of = seals.read(Path(path))
        for content, expected in (("other", left), ("made", set())):
            io.write_text(path, content)
            seals.write(path, made_of["made_of"], made_of["read"])
            assert {one.stage for one in jobs() if one.state == "left"} == expected
        for gone in (Path(path), seals.seal_of(path)):
            gone.rename("kept")
            stages = {one.stage for one in jobs() if one.state == "left"}
            assert len(stages) == 1 and not stages & left
            Path("kept").rename(gone)


def test_other_known_rows_leave_rows_and_report_to_do(project):
    rows = project / "rows.csv"
    rows.write_text("study,dataset,method,level,epsilon,hyperparameters,checkpoint,seed\n")
    known = {"known_rows": [str(rows)]}
    left_by(**known)
    make_all()
    rows.write_text(rows.read_text() + "tiny,csbm,mlp,none,inf,{},last,0\n")
    assert left_by(**known) == {"collect", "draw"}


def test_a_job_that_begins_while_it_is_looked_at_is_running(monkeypatch):
    """Snakemake removes what it makes just before the job takes its lock."""
    make_all()
    first, check = jobs("collect")[0], seals.check

    def removed(path, *args):
        if Path(path) == Path(first.made) and Path(path).exists():
            Path(path).unlink()
            file = os.open(job.lock_of(first.log), os.O_RDWR | os.O_CREAT)
            fcntl.flock(file, fcntl.LOCK_EX)
            held.append(file)
            raise FileNotFoundError(2, "No such file or directory", f"{path}")
        return check(path, *args)

    held: list[int] = []
    monkeypatch.setattr(seals, "check", removed)
    assert [one.state for one in jobs("collect")] == ["running"]
    os.close(held[0])


def test_the_rest_takes_as_long_as_what_was_like_it():
    took = {"preprocess": 1, "calibrate": 8, "encode": 10, "aggregate": 20, "collect": 2, "draw": 4}
    for stage, seconds in took.items():
        finish(jobs(stage)[0], seconds, digest_of(jobs(stage)[0]))
    gap = [one for one in jobs("fit") if "gap" in one.kind]
    finish(gap[0], 30, digest_of(gap[0]))
    finish(gap[1], 50, digest_of(gap[1]))
    # One encoder, three aggregations, two classifiers of GAP and two MLPs, which none was like.
    assert status.seconds_left(jobs()) == (10 + 3 * 20 + 2 * 40 + 2 * 40, [])
    mlp = next(one for one in jobs("fit") if "mlp" in one.kind)
    finish(mlp, 6, digest_of(mlp))
    assert status.seconds_left(jobs()) == (10 + 3 * 20 + 2 * 40 + 6, [])
    # In a first run rows and report are always left.
    for stage in ("collect", "draw"):
        seals.remove(jobs(stage)[0].made)
        Path(jobs(stage)[0].log).unlink()
    assert status.seconds_left(jobs()) == (10 + 3 * 20 + 2 * 40 + 6, ["collect", "draw"])
    said = status.render("study.yaml", jobs()).splitlines()[-1]
    assert said == (
        "The rest takes about 3 min, if one job runs at a time (not counted, since none was done "
        "yet: collect, draw)."
    )


def test_the_command_shows_states_failures_and_logs(capsys):
    first, second, *_ = jobs("encode")
    finish(first, 3, digest_of(first))
    io.write_text(second.log, "error: no room\n")
    assert cli.main(["status", "study.yaml"]) == 0
    said = capsys.readouterr().out
    assert f"failed: {second.made} error: no room ({second.log})" in said
    (line,) = [line for line in said.splitlines() if line.startswith("encode")]
    assert line.split() == ["encode", "1", "0", "1", "0"]
    assert "(not counted, since none was done yet: preprocess, calibrate, " in said
    assert "The rest takes about 3 s, if" in said


def test_why_a_private_job_failed_stands_in_its_log_alone(capsys):
    first, second, *_ = jobs("encode")
    for one, end in ((first, ""), (second, "Traceback (most recent call last):\n")):
        io.write_text(f"{one.log}.private", f"{end}error: 18 training nodes list one node\n")
    assert cli.main(["status", "study.yaml"]) == 0
    said = capsys.readouterr().out
    assert f"failed: {first.made} ({first.log}.private)" in said
    assert f"failed: {second.made} ({second.log}.private)" in said and "18" not in said


@pytest.mark.parametrize(
    ("text", "words"),
    [(None, "no configuration file other.yaml"), ("a: [", "cannot be read"), ("3", "no config"),
     ("study: data", "no study's"), ("\x00", "cannot be read"),
     ("study: " + "[" * 3000, "cannot be read")],
)  # fmt: skip
def test_what_is_no_configuration_is_said_in_one_line(text, words, capsys):
    if text is not None:
        Path("other.yaml").write_text(text)
    assert cli.main(["status", "other.yaml"]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1


def test_the_studies_of_the_project_are_found_by_name():
    assert status.find_config("demo") == Path("config/config.yaml")
    assert status.find_config("degree-bounds") == Path("config/studies/degree-bounds.yaml")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_a_job_does_not_report_the_memory_of_what_started_it():
    ours = np.ones(2**26)  # half a GiB, every page of it touched
    # Its own peak may grow between two looks at it.
    program = (
        "from graphdp.workflow import job; "
        "print(job.peak_memory(), job.usage()['peak_rss_mb'], job.peak_memory())"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    before, told, after = map(float, done.stdout.split())
    assert 2**24 < before <= after < 2**28 < ours.nbytes < job.peak_memory()
    assert round(before / 1e6, 1) <= told <= round(after / 1e6, 1)
