"""The real workflow on a small generated graph: what runs, what runs again, what survives a kill.

Each test works on a copy of the project, so that it may edit the library.
"""

import base64
import fcntl
import gzip
import json
import math
import os
import re
import shutil
import signal
import subprocess
import time
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
import yaml

from graphdp import seals
from graphdp.privacy import calibrated
from graphdp.privacy.statement_form import read_statements
from project_fixture import SNAKEMAKE, Project, dry_run

STUDY = {
    "study": "tiny",
    "title": "Tiny",
    "datasets": ["small"],
    "definitions": {"small": {"base": "csbm", "parameters": {"n": 400, "f": 16, "d": 8}}},
    "seeds": 2,
    "seed_block": 2,
    "experiments": {
        "accuracy": [
            {"method": "gap", "level": "edge", "epsilon": [4], "hops": [1, 2], "epochs": 5,
             "encoder_learning_rate": 0.01},
            {"method": "gap", "level": "node", "epsilon": [8], "hops": [1], "max_degree": [4, 6],
             "epochs": 2, "batch_size": 64},
            {"method": "mlp", "level": "none", "epochs": 5},
        ]
    },
}  # fmt: skip

BLOCK = "small/gap/edge/4/accuracy/0-1"


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Project:
    """A project whose study has been run once."""
    project = Project(tmp_path_factory.mktemp("project"), STUDY)
    project.snakemake()
    return project


@pytest.fixture
def project(finished, tmp_path) -> Project:
    """A copy of the finished project that a test may change."""
    return finished.copy_to(tmp_path / "copy")


def test_rows_hold_every_model_with_what_made_it(finished):
    rows = pd.read_csv(finished.folder / "results/tiny/rows.csv", dtype={"epsilon": str})
    assert rows.groupby(["method", "level", "epsilon"]).size().to_dict() == {
        ("gap", "edge", "4"): 4,
        ("gap", "node", "8"): 4,
        ("mlp", "none", "inf"): 2,
    }
    assert rows["test_accuracy"].between(0, 1).all()
    private = rows[rows["level"] != "none"]
    assert (private["noise_multiplier"] > 0).all()
    assert rows[rows["level"] == "none"]["noise_multiplier"].isna().all()
    assert set(private["epsilon_status"]) == {"proven", "refuted"}
    edge = rows[rows["level"] == "edge"]
    hops = edge["hyperparameters"].map(lambda text: json.loads(text)["hops"])
    sigma = edge.groupby(hops)["noise_multiplier"].first()
    assert sigma[2] / sigma[1] == pytest.approx(2**0.5, rel=1e-4)  # K releases: σ grows as √K


def test_every_model_has_its_privacy_statement(finished):
    """One statement per plan; its noise is that of the rows, and the search is charged for."""
    results = finished.folder / "results/tiny"
    rows = pd.read_csv(results / "rows.csv", dtype={"epsilon": str})
    for (method, level, epsilon), models in rows.groupby(["method", "level", "epsilon"]):
        stem = f"{results}/statements/small/{method}/{level}/{epsilon}"
        statements = read_statements(f"{stem}.json")
        noises = {s.target.noise_multiplier or 0.0 for s in statements}
        assert noises == set(models["noise_multiplier"].fillna(0.0))
        for statement in statements:
            tried = models["hyperparameters"].nunique()
            assert statement.selection.settings_tried == tried
            assert statement.selection.repeats == models["seed"].nunique()
        page = Path(f"{stem}.md").read_text()
        assert page.count("# Privacy statement, release: reproduction (") == len(statements)
    edge = rows[rows["level"] == "edge"].iloc[0]
    readings = {r["adjacency"]: r["epsilon"] for r in json.loads(edge["epsilons"])}
    assert readings["edge_directed"] == pytest.approx(4, rel=1e-5)
    assert readings["edge_undirected"] > 5


@pytest.mark.slow
def test_noise_calibrated_for_the_corrected_analysis_meets_the_target_there(project):
    """Edge level: one undirected edge moves √2, so the noise grows by √2 and its ε is the target.

    The encoder, which has no noise at edge level, is not trained again.
    """
    before = pd.read_csv(project.folder / "results/tiny/rows.csv")
    project.configure(calibrate_for="corrected")
    project.snakemake("rows")
    after = pd.read_csv(project.folder / "results/tiny/rows.csv")
    assert list(before["hyperparameters"]) == list(after["hyperparameters"])
    edge = (after["level"] == "edge").to_numpy()
    assert set(after[edge]["adjacency"]) == {"edge_undirected"}
    assert set(after[after["level"] == "node"]["adjacency"]) == {"participant"}
    assert set(after[after["level"] != "none"]["epsilon_basis"]) == {"corrected"}
    calibrations = project.folder / "results/tiny/calibrations/small/gap/edge/4/accuracy.json"
    ratio = after[edge]["noise_multiplier"] / before[edge]["noise_multiplier"]
    assert ratio.to_numpy() == pytest.approx(1, rel=1e-4)  # a multiplier counts sensitivities
    for entry in json.loads(calibrations.read_text()):
        sigma = calibrated.phase(entry, "aggregation").run.noise_std
        assert sigma == pytest.approx(math.sqrt(2) * entry["noise_multiplier"], rel=1e-12)
    for text in after[edge]["epsilons"]:
        readings = {r["adjacency"]: r["epsilon"] for r in json.loads(text)}
        assert readings["edge_undirected"] == pytest.approx(4, rel=1e-5)
        assert readings["edge_directed"] < 3
    assert not (before[edge]["test_accuracy"] == after[edge]["test_accuracy"]).all()


def test_a_finished_study_has_its_artefacts_and_nothing_to_do(finished):
    results = finished.folder / "results/tiny"
    for name in ("report.html", "tables/accuracy.tex", "figures/figure6.png"):
        assert (results / name).stat().st_size > 0
    assert finished.planned() == {}
    assert not list(finished.folder.glob("results/**/.tmp-*"))


@pytest.mark.slow
@pytest.mark.parametrize("target", ["figures", "tables", "report", "rows", "data"])
def test_targets_exist(finished, target):
    assert finished.planned(target) == {}


@pytest.mark.parametrize(
    ("module", "function", "jobs"),
    [
        ("paper/plots.py", "accuracy_figure", {}),
        ("methods/gap/figures.py", "figure7", {}),
        ("training/fit.py", "train", {"encode": 2, "aggregate": 2, "fit": 3}),
        ("graphs/degree.py", "bound_out_degree", {"bound_degree": 2, "aggregate": 1, "fit": 1}),
        ("releases/aggregation.py", "private_hops", {"aggregate": 2, "fit": 2}),
        (
            "privacy/calibration.py",
            "calibrate",
            {"calibrate": 1, "encode": 1, "aggregate": 2, "fit": 3},
        ),
        (
            "methods/gap/plan.py",
            "analyses",
            {"calibrate": 1, "encode": 1, "aggregate": 2, "fit": 2},
        ),
        ("privacy/statement.py", "cell_statements", {"calibrate": 1}),
        ("methods/mlp/method.py", "fit", {"fit": 1}),
    ],
)
def test_editing_a_function_reruns_the_jobs_that_use_it(project, module, function, jobs):
    """... and those that read what they make, but no other stage."""
    project.edit(module, function)
    expected = {name if name == "calibrate" else f"stage {name}": n for name, n in jobs.items()}
    downstream = {"collect": 1, "draw": 1} if jobs else {"draw": 1}
    assert project.planned() == expected | downstream


@pytest.mark.parametrize("module", ["training/fit.py", "privacy/calibration.py", "paper/plots.py"])
def test_a_comment_reruns_nothing(project, module):
    project.comment(module)
    assert project.planned() == {}


@pytest.mark.slow
def test_rows_that_were_cut_in_half_are_not_collected(project):
    """One line names the file; without it the same command makes the rows that were there."""
    rows, fit = (
        project.folder / f"results/tiny/{name}" for name in ("rows.csv", f"fit/{BLOCK}.csv")
    )
    before = pd.read_csv(rows)
    lines = fit.read_text().splitlines(keepends=True)
    fit.write_text("".join(lines[: 1 + len(lines) // 2]))  # at the end of a line
    result = project.snakemake("rows", check=False)
    text = result.stdout + result.stderr
    assert result.returncode != 0 and "Traceback" not in text
    said = {line for line in text.splitlines() if line.startswith("error: ")}
    file = f"results/tiny/fit/{BLOCK}.csv"
    assert said == {
        f"error: {file} was altered or cut after it was made; delete it and run again, which makes "
        f"it anew (if not, name it as a target: snakemake --cores all all {file} ...)"
    }
    fit.unlink()
    project.snakemake("rows")
    own = ["cpu_seconds", "wall_seconds", "peak_rss_mb"]
    assert pd.read_csv(rows).drop(columns=own).equals(before.drop(columns=own))
    # With the rows there it has to be named.
    made = pd.read_csv(fit)
    fit.unlink()
    project.snakemake("rows")
    assert not fit.exists()
    project.snakemake("rows", file)
    assert pd.read_csv(fit).drop(columns=own).equals(made.drop(columns=own))


@pytest.mark.slow
def test_known_rows_are_taken_over_and_nothing_is_trained(project):
    """The same rows.csv, byte for byte; seeds without a row are trained, or missing."""
    results = project.folder / "results"
    rows = (results / "tiny/rows.csv").read_bytes()
    kept = project.folder / "earlier.csv.gz"
    kept.write_bytes(gzip.compress(rows))
    for name in ("fit", "encode", "aggregate", "bound_degree", "rows.csv"):
        path = results / "tiny" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.rmtree(results / "cache")

    project.configure(known_rows=kept.name)
    assert project.planned("rows") == {"collect": 1}
    project.snakemake("rows")
    assert (results / "tiny/rows.csv").read_bytes() == rows
    assert project.planned("rows") == {}

    table = pd.read_csv(kept, dtype=str, keep_default_na=False)
    table[(table["method"] != "mlp") | (table["seed"] != "1")].to_csv(kept, index=False)
    assert project.planned("rows") == {"collect": 1, "stage fit": 1}
    assert "block=1-1" in project.snakemake("rows", "--dry-run").stdout

    table[table["level"] == "edge"].to_csv(kept, index=False)
    for name in ("calibrations", "statements"):
        shutil.rmtree(results / "tiny" / name)
    project.configure(known_rows=kept.name, train=False)
    project.snakemake()
    fewer = pd.read_csv(results / "tiny/rows.csv")
    assert set(fewer["level"]) == {"edge"} and len(fewer) == 4
    shown = pd.read_csv(results / "tiny/tables/accuracy.csv")
    missing = shown[shown["mean"].isna()]
    basis = dict(
        zip(missing["method"] + " " + missing["level"], missing["epsilon_basis"], strict=True)
    )
    assert set(basis) == {"gap node", "mlp none", "mlp edge"}
    assert basis["gap node"] == "not_calibrated"
    assert set(missing["missing_reason"]) == {"no result in rows.csv"}
    for name in ("calibrations", "statements"):  # only of what there is
        made = (results / "tiny" / name).rglob("*.json")
        assert {path.relative_to(results / "tiny" / name).parts[1:3] for path in made} == {
            ("gap", "edge")
        }


@pytest.mark.slow
def test_known_rows_of_other_data_or_another_noise_than_the_calibrated_are_refused(project):
    earlier = pd.read_csv(
        project.folder / "results/tiny/rows.csv", dtype=str, keep_default_na=False
    )
    table, edge = earlier.copy(), earlier["level"] == "edge"
    calibrated_noise = float(earlier.loc[edge, "noise_multiplier"].iloc[0])
    project.configure(known_rows=["earlier.csv"])
    for noise in (0.5, calibrated_noise * (1 - 4e-6), calibrated_noise * (1 + 6e-6)):
        table.loc[edge, "noise_multiplier"] = repr(noise)
        table.to_csv(project.folder / "earlier.csv", index=False)
        result = project.snakemake("rows", check=False)
        text = result.stdout + result.stderr
        assert result.returncode != 0
        assert f"small/gap/edge/4, seed 0, has noise_multiplier {noise}, the calibration " in text
        assert not (project.folder / "results/tiny/rows.csv").exists()

    mlp = earlier["method"] == "mlp"
    for column, value in (("study_seed", "1"), ("split", "per_seed"), ("graph", "0123456789ab")):
        changed = earlier.assign(**{column: earlier[column].where(~mlp, value)})
        changed.to_csv(project.folder / "earlier.csv", index=False)
        result = project.snakemake("rows", check=False)
        assert result.returncode != 0
        assert f"mlp/none/inf, seed 0, has {column} {value}, the study " in (
            result.stdout + result.stderr
        )

    table.assign(study="another").to_csv(project.folder / "earlier.csv", index=False)
    for names, message in [
        (["earlier.csv"], "rows of the study 'another' are not of 'tiny'"),
        (["later.csv"], "there is no file later.csv"),
    ]:
        project.configure(known_rows=names)
        result = project.snakemake("--dry-run", check=False)
        assert result.returncode != 0 and message in result.stdout + result.stderr
        assert "Traceback" not in result.stdout + result.stderr


@pytest.mark.slow
def test_data_that_is_not_there_is_left_out_on_demand_and_a_generated_graph_never(tmp_path):
    project = Project(tmp_path, STUDY)
    project.configure(datasets=["small", "cora"], missing_data="skip")
    result = project.snakemake("rows", "--dry-run")
    fits = re.findall(r"stage=\w+, place=(\w+)/.*block=", result.stdout + result.stderr)
    assert set(fits) == {"small"}


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 10])
def test_more_seeds_train_only_the_new_ones(project, size):
    """Also when the blocks of the finished run were shorter than the block size."""
    project.configure(seeds=4, seed_block=size)
    result = project.snakemake("--dry-run")
    text = result.stdout + result.stderr
    assert set(re.findall(r"block=(\S+?)(?:,|$)", text, flags=re.MULTILINE)) == {"2-3"}
    assert project.planned() == {
        "calibrate": 1,
        "collect": 1,
        "draw": 1,
        "stage aggregate": 2,
        "stage bound_degree": 2,
        "stage encode": 2,
        "stage fit": 3,
    }


@pytest.mark.slow
def test_another_epsilon_trains_just_that(project):
    """All calibrations of the dataset are written again, and nothing that reads the others' runs;
    the encoder is that of every ε."""
    made = {
        path: path.stat().st_mtime_ns
        for stage in ("bound_degree", "encode", "aggregate", "fit")
        for path in project.folder.glob(f"results/tiny/{stage}/**/*-*.*")
        if not path.name.startswith(".")  # its seal
    }
    assert len(made) == 2 + 2 + 2 + 3
    experiments = json.loads(json.dumps(STUDY["experiments"]))
    experiments["accuracy"][0]["epsilon"] = [4, 1]
    project.configure(experiments=experiments)
    new = {"calibrate": 1, "collect": 1, "draw": 1, "stage aggregate": 1, "stage fit": 1}
    assert project.planned() == new
    project.snakemake("rows")
    assert {path: path.stat().st_mtime_ns for path in made} == made
    assert project.planned("rows") == {}
    assert len(pd.read_csv(project.folder / "results/tiny/rows.csv")) == 10 + 4


@pytest.mark.slow
def test_cells_that_share_a_job_have_the_results_that_they_have_alone(finished, tmp_path):
    """One job per stage and method; a further ε and further seeds train just that; and a setting
    that changes trains the bundle that has it."""
    project = Project(tmp_path, STUDY)
    project.configure(cell_block=10)
    assert project.planned("rows") == {
        "bundle aggregate": 1,
        "bundle encode": 1,
        "bundle fit": 2,
        "calibrate": 1,
        "collect": 1,
        "download": 1,
        "preprocess": 1,
        "stage bound_degree": 2,
    }
    project.snakemake("rows")
    alone, together = (
        pd.read_csv(one.folder / "results/tiny/rows.csv", dtype=str) for one in (finished, project)
    )
    own = ["cpu_seconds", "wall_seconds", "peak_rss_mb", "git_commit"]
    assert together.drop(columns=own).equals(alone.drop(columns=own))
    assert (together["cpu_seconds"].astype(float) > 0).all()
    assert project.planned("rows") == {}
    experiments = json.loads(json.dumps(STUDY["experiments"]))
    experiments["accuracy"][0]["epsilon"] = [4, 1]
    project.configure(cell_block=10, experiments=experiments)
    again = {"bundle aggregate": 1, "bundle fit": 1, "calibrate": 1, "collect": 1}
    assert project.planned("rows") == again
    project.snakemake("rows")
    assert project.planned("rows") == {}
    assert len(pd.read_csv(project.folder / "results/tiny/rows.csv")) == 10 + 4
    project.configure(cell_block=10, experiments=experiments, seeds=3)
    more = again | {"bundle encode": 1, "bundle aggregate": 2, "bundle fit": 3}
    assert project.planned("rows") == more | {"stage bound_degree": 2}


@pytest.mark.parametrize(
    ("change", "jobs"),
    [
        # What has no noise stays.
        ({"delta": 0.0001}, {"encode": 1, "aggregate": 2, "fit": 2}),
        ({"calibrate_for": "corrected"}, {"encode": 1, "aggregate": 2, "fit": 3}),
        ({"hops": [1, 2, 3]}, {"aggregate": 1, "fit": 1}),
    ],
    ids=["delta", "calibrate_for", "hops"],
)
def test_another_noise_or_setting_of_the_plan_reruns_what_reads_it(project, change, jobs):
    """In the same run as the calibration, which is another as well."""
    experiments = json.loads(json.dumps(STUDY["experiments"]))
    if "hops" in change:
        experiments["accuracy"][0] |= change
        change = {"experiments": experiments}
    project.configure(**change)
    stages = {f"stage {name}": number for name, number in jobs.items()}
    assert project.planned() == {"calibrate": 1, "collect": 1, "draw": 1} | stages


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["deleted", "cut"])
def test_without_records_results_of_another_configuration_are_refused(project, lost):
    """Snakemake would take them as done; the seals tell. Of the same configuration they are."""
    records = [
        path for path in (project.folder / ".snakemake/metadata").rglob("*") if path.is_file()
    ]
    for path in records:
        path.write_text("") if lost == "cut" else path.unlink()
    assert records and project.planned() == {}
    more = {"small": {"base": "csbm", "parameters": {"n": 500, "f": 16, "d": 8}}}
    changed = {
        "graphs/small": {"definitions": more}, "tiny/": {"delta": 0.0001},
        "tiny/rows.csv": {"seeds": 3},
    }  # fmt: skip
    for place, change in changed.items():
        project.configure(**change)
        result = project.snakemake("--dry-run", check=False)
        said = result.stdout + result.stderr
        assert result.returncode == 1 and "Traceback" not in said
        (line,) = [one for one in said.splitlines() if "of another configuration" in one]
        assert f"/{place}" in line and "Snakemake has no record; delete it" in line
    shutil.rmtree(project.folder / "results/tiny")
    project.configure()
    mark = project.folder / ".snakemake/incomplete"
    name = "results/data/graphs/small.npz"
    mark.mkdir(exist_ok=True)
    (mark / base64.b64encode(name.encode()).decode()).write_text("{}")
    project.configure(definitions=more)
    # A killed run's: it is made again, and what depends on it.
    assert project.planned("rows")["preprocess"] == 1


@pytest.mark.slow
def test_another_experiment_trains_just_that(project):
    more = {"method": "mlp", "level": "none", "epochs": 5, "layers": [2, 3]}
    project.configure(experiments=STUDY["experiments"] | {"layers": [more]})
    assert project.planned() == {"calibrate": 1, "collect": 1, "draw": 1, "stage fit": 1}
    result = project.snakemake("--dry-run")
    places = re.findall(r"place=(\S+),", result.stdout + result.stderr)
    assert places == ["small/mlp/none/inf/layers"]


@pytest.mark.slow
def test_classifier_settings_rerun_no_aggregation_and_spend_no_budget(project):
    """Only the classifier's step size changes: the noisy aggregates stay, byte for byte."""
    cache = project.folder / "results/cache/aggregates"
    before = {path: path.stat().st_mtime_ns for path in cache.rglob("*.npy")}
    assert before
    experiments = json.loads(json.dumps(STUDY["experiments"]))
    experiments["accuracy"][0]["learning_rate"] = 0.02
    project.configure(experiments=experiments)
    planned = project.planned()
    assert planned == {"collect": 1, "draw": 1, "stage fit": 1}
    project.snakemake("rows")
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*.npy")} == before


@pytest.mark.slow
def test_regenerated_aggregates_have_the_same_bytes(project):
    def contents():
        cache = project.folder / "results/cache/aggregates"
        return {path.name: path.read_bytes() for path in cache.rglob("*.npy")}

    before = contents()
    shutil.rmtree(project.folder / "results/cache")
    stem = f"results/tiny/aggregate/{BLOCK}.json"
    project.snakemake(stem, "--force")
    after = contents()
    assert after
    assert all(before[name] == value for name, value in after.items())


def test_another_device_or_mirror_is_no_reason_to_run_again(project):
    project.configure(mirror="elsewhere", memory_mb=999, device="cpu")
    assert project.planned() == {}


@pytest.mark.slow
def test_two_runs_at_once_are_refused(project):
    project.configure(seeds=4)
    descriptor = os.open(project.folder / ".snakemake/graphdp.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        result = project.snakemake("rows", check=False)
        assert result.returncode != 0
        assert "another run" in result.stdout + result.stderr
        assert "Traceback" not in result.stdout + result.stderr
        assert project.planned()["stage fit"] == 3, "a dry run needs no lock, and nothing was run"
    finally:
        os.close(descriptor)


@pytest.mark.slow
def test_progap_releases_in_its_own_training_jobs(tmp_path):
    """Stages and releases take turns, so a cell is bound_degree and one fit per block;
    the aggregates stay in the cache, and nothing is made again."""
    project = Project(tmp_path, STUDY)
    depth, quick = {"depth": [1, 2]}, {"epochs": 2, "batch_size": 64, "max_degree": 4}
    entries = [
        {"method": "progap", "level": "none", "epochs": 4} | depth,
        {"method": "progap", "level": "edge", "epsilon": [4], "epochs": 4} | depth,
        {"method": "progap", "level": "node", "epsilon": [8]} | depth | quick,
    ]
    curves = entries[1] | {"depth": 2, "history": True}
    project.configure(experiments={"accuracy": entries, "convergence": [curves]})
    assert project.planned("rows")["stage fit"] == 4
    project.snakemake("rows")
    rows = pd.read_csv(tmp_path / "results/tiny/rows.csv", dtype={"epsilon": str})
    assert rows.groupby("level").size().to_dict() == {"none": 4, "edge": 6, "node": 4}
    assert rows["test_accuracy"].between(0, 1).all()
    assert rows["curves"].notna().sum() == 2
    assert project.planned("rows") == {}
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("results/cache/**/*.npy")}
    # Per seed: two at ε = ∞, which the depths share; 1 + 2 at edge and node level, and the curves'.
    assert len(kept) == 2 * (2 + 3 + 3 + 2)
    shutil.rmtree(tmp_path / "results/tiny/fit")
    (tmp_path / "results/tiny/rows.csv").unlink()
    assert project.planned("rows")["stage fit"] == 4
    project.snakemake("rows")
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


@pytest.mark.slow
def test_attacks_train_their_own_models_and_end_in_table_3(tmp_path):
    project = Project(tmp_path, STUDY)
    quick = {"epochs": 2, "batch_size": 64, "max_degree": 4, "hops": 1}
    entries = [
        {"method": "gap", "level": "node", "epsilon": [2, 4]} | quick,
        {"method": "mlp", "level": "none", "epochs": 5},
    ]
    attacks = {"nmi": {"nodes_per_class": 100, "entries": entries}}
    project.configure(experiments={}, attacks=attacks, tables=["table3"], figures=[])
    planned = project.planned()
    assert planned["attack"] == 3
    assert not any(job.startswith("stage") for job in planned)
    said = project.snakemake("--dry-run")
    assert "Exception" not in said.stdout + said.stderr
    project.snakemake()
    table = pd.read_csv(tmp_path / "results/tiny/tables/table3.csv")
    assert table["n"].tolist() == [2, 2, 2] and table["members"].tolist() == [80, 80, 80]
    assert table["mean"].between(0, 100).all()
    assert "Node membership inference" in (tmp_path / "results/tiny/report.html").read_text()
    assert project.planned() == {}
    project.configure(experiments={}, attacks=attacks, tables=["table3"], figures=[], seeds=3)
    assert project.planned("tables")["attack"] == 3, "the finished repeats stay"
    # Rows of earlier runs are taken over, and without training the rest is missing.
    results = tmp_path / "results/tiny"
    earlier = (results / "attacks.csv").read_text()
    (tmp_path / "earlier.csv").write_text(earlier)
    study = {"experiments": {}, "attacks": attacks, "tables": ["table3"], "figures": []}
    study |= {"known_rows": ["earlier.csv"]}
    for name in ("attacks", "attacks.csv"):
        path = results / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    project.configure(**study)
    assert "attack" not in project.planned("tables")
    project.snakemake("tables")
    assert (results / "attacks.csv").read_text() == earlier
    project.configure(**study, seeds=3)
    assert project.planned("tables")["attack"] == 3, "the third repeat of each"
    rows = pd.read_csv(tmp_path / "earlier.csv", dtype=str, keep_default_na=False)
    rows[rows["method"] == "gap"].to_csv(tmp_path / "earlier.csv", index=False)
    project.configure(**study, train=False)
    project.snakemake("tables")
    table = pd.read_csv(results / "tables/table3.csv")
    assert dict(zip(table["method"], table["n"].fillna(0), strict=True)) == {"gap": 2, "mlp": 0}
    rows["noise_multiplier"] = rows["noise_multiplier"].where(rows["method"] == "mlp", "0.5")
    rows.to_csv(tmp_path / "earlier.csv", index=False)
    refused = project.snakemake("tables", check=False)
    said = refused.stdout + refused.stderr
    assert refused.returncode and "noise_multiplier 0.5, the calibration " in said
    # An older file, whose rows do not say where they came from, beside a newer one.
    rows = pd.read_csv(StringIO(earlier), dtype=str, keep_default_na=False)
    origin = ["release", "study_seed", "split", "graph"]
    assert set(rows["split"]) == {"nmi"}
    older = rows["seed"] == "0"
    rows[older].drop(columns=origin).to_csv(tmp_path / "older.csv", index=False)
    project.configure(**study | {"known_rows": ["older.csv", "earlier.csv"]}, train=False)
    rows[~older].to_csv(tmp_path / "earlier.csv", index=False)
    project.snakemake("tables")
    both = pd.read_csv(results / "attacks.csv", dtype=str, keep_default_na=False)
    assert dict(zip(both["seed"], both["study_seed"], strict=True)) == {"0": "", "1": "12345"}
    for column, value in (("study_seed", "1"), ("split", "per_seed"), ("graph", "0123456789ab")):
        rows[~older].assign(**{column: value}).to_csv(tmp_path / "earlier.csv", index=False)
        refused = project.snakemake("tables", check=False)
        said = refused.stdout + refused.stderr
        assert refused.returncode and f"seed 1, has {column} {value}, the study " in said
    entries[1]["layers"] = 2
    rows.assign(attack="x").to_csv(tmp_path / "earlier.csv", index=False)
    project.configure(**study)
    assert project.planned("tables")["attack"] == 3, "another attack's rows are none of these"


@pytest.mark.slow
def test_sage_perturbs_once_per_cell_and_bounds_both_degrees(tmp_path):
    """All depths of an edge-level cell read one perturbed graph per seed, which a training that
    runs again does not draw again."""
    project = Project(tmp_path, STUDY)
    quick = {"method": "sage", "epochs": 2}
    entries = [
        {"level": "none", "mp_layers": [1, 2]} | quick,
        {"level": "edge", "epsilon": [4], "mp_layers": [1, 2]} | quick,
        {"level": "node", "epsilon": [8], "max_degree": [4, 6], "batch_size": 64} | quick,
    ]
    project.configure(experiments={"accuracy": entries})
    planned = project.planned("rows")
    stages = (planned[f"stage {name}"] for name in ("perturb", "bound_degree", "fit"))
    assert tuple(stages) == (1, 2, 3)
    project.snakemake("rows")
    rows = pd.read_csv(tmp_path / "results/tiny/rows.csv", dtype={"epsilon": str})
    assert rows.groupby("level").size().to_dict() == {"none": 4, "edge": 4, "node": 4}
    kept = rows.groupby("level")["checkpoint"].unique().map(list).to_dict()
    assert kept["node"] == ["last"] and kept["edge"] == ["best_validation"]
    assert project.planned("rows") == {}
    shutil.rmtree(tmp_path / "results/tiny/fit")
    (tmp_path / "results/tiny/rows.csv").unlink()
    assert set(project.planned("rows")) == {"stage fit", "collect"}


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["workflow", "job"])
def test_a_killed_run_resumes(tmp_path, victim):
    """`kill -9` in mid-run: the next run finishes and no half-written file is left in its way."""
    project = Project(tmp_path, STUDY)
    process = subprocess.Popen(
        project.command(),
        cwd=tmp_path,
        env=project.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    logs = tmp_path / "results/tiny/logs"
    deadline = time.monotonic() + 200
    while not list(logs.glob("encode/**/*.log")) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert list(logs.glob("encode/**/*.log")), "no training job was started"
    if victim == "workflow":
        process.kill()
    else:
        script = subprocess.run(
            ["pgrep", "-g", str(os.getpgid(process.pid)), "-f", r"\.stage\.py"],
            capture_output=True,
            text=True,
            check=True,
        )
        for pid in script.stdout.split():
            if int(pid) != process.pid:
                os.kill(int(pid), signal.SIGKILL)
    process.wait(timeout=200)
    # The graph is always there by then; calibrations and degree bounds may be.
    made = (
        "data/graphs/*.npz",
        "cache/calibrations/*.json",
        "tiny/calibrations/**/*.json",
        "tiny/bound_degree/**/*.npz",
    )
    finished_before = {
        path: path.stat().st_mtime_ns
        for pattern in made
        for path in (tmp_path / "results").glob(pattern)
        if not path.name.startswith(".")
    }
    assert finished_before
    project.snakemake()
    changed = [path for path, time in finished_before.items() if path.stat().st_mtime_ns != time]
    # One job makes all calibrations of a dataset; those that it had kept are not made again.
    folder = tmp_path / "results/tiny/calibrations/small"
    again = {folder if path.is_relative_to(folder) else path for path in changed}
    # Two cores: besides the encoder, one job was in flight when the workflow died, and it may have
    # left its output without Snakemake's having noted that it was done.
    in_flight = 1 if victim == "workflow" else 0
    assert len(again) <= in_flight, f"finished jobs were run again: {again}"
    rows = pd.read_csv(tmp_path / "results/tiny/rows.csv")
    assert len(rows) == 10
    assert project.planned() == {}


@pytest.mark.slow
def test_a_job_that_a_killed_run_left_at_work_is_ended_and_made_again(tmp_path):
    """It would write on into the folder that Snakemake removes because it is unfinished."""
    project = Project(tmp_path, STUDY)
    script = tmp_path / "workflow/scripts/calibrate.py"
    line = "    Path(out.statements).mkdir(parents=True)\n"
    # After the calibrations; in the first run alone, and for longer than any start takes.
    hold = "    __import__('time').sleep(float(__import__('os').environ.get('HOLD', 0)))\n"
    slow = script.read_text().replace(line, hold + line)
    assert slow != script.read_text()
    script.write_text(slow)
    made = tmp_path / "results/tiny/calibrations/small"
    held = project.environment | {"HOLD": "600"}
    process = subprocess.Popen(project.command(), cwd=tmp_path, env=held)
    deadline = time.monotonic() + 200
    while not list(made.rglob("*.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    scripts = f"{tmp_path}/.snakemake/scripts/.*calibrate.py"
    process.kill()
    process.wait()
    found = subprocess.run(["pgrep", "-f", f"^[^ ]*python[^ ]* {scripts}"], capture_output=True)
    pid = found.stdout.decode().strip()
    assert pid, "the job did not outlive its run"
    result = project.snakemake("results/tiny/calibrations/small")
    assert re.search(
        rf"^ended jobs that a killed run left: .*\b{pid}\b", result.stdout + result.stderr, re.M
    )
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "parts"),
    [
        ("sedes=3", ["unknown key 'sedes'", "'seeds'"]),
        ("datasets=[pubmad]", ["unknown dataset 'pubmad'", "pubmed"]),
        ("mirror=nowhere seeds=9", ["there is no folder 'nowhere'", "mirror"]),
    ],
)
def test_bad_input_ends_with_one_line_and_a_code(finished, config, parts):
    result = finished.snakemake("--config", *config.split(), check=False)
    assert result.returncode != 0
    text = result.stdout + result.stderr
    lines = [line for line in text.splitlines() if parts[0] in line]
    assert len(lines) == 1 and all(part in lines[0] for part in parts)
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        # Not merged with the demo's configuration, and its results left alone.
        (["--cores", "2", "--configfile", "mine.yaml"], "the key 'study' is missing"),
        # Snakemake itself waits for ever.
        (["--cores", "0", "--configfile", "study.yaml"], "--cores (JOBS) is 0; give at least 1"),
    ],
)
def test_a_configuration_without_a_study_and_no_cores_are_refused(finished, words, said):
    entry = {"method": "mlp", "level": "none"}
    mine = {"datasets": ["small"], "experiments": {"mine": [entry]}} | {
        "definitions": STUDY["definitions"]
    }
    (finished.folder / "mine.yaml").write_text(yaml.safe_dump(mine))
    result = subprocess.run(
        [*SNAKEMAKE[:3], *words, "--dry-run"],
        cwd=finished.folder,
        env=finished.environment,
        capture_output=True,
        text=True,
    )
    text = result.stdout + result.stderr
    assert result.returncode != 0 and said in text and "results/demo" not in text


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["slurm", "slurm-gres"])
def test_a_profile_of_a_cluster_names_no_cores_and_is_read(finished, profile):
    """In a run, not a dry one, for which Snakemake itself puts a number of cores."""
    command = [*SNAKEMAKE[:3], "rows", "--profile", f"profiles/{profile}"]
    result = finished.run(*command, "--configfile", "study.yaml")
    assert "Nothing to be done" in result.stdout + result.stderr


@pytest.mark.slow
def test_a_failing_job_says_why_in_its_log_and_stops_what_needs_it(project):
    """A δ that is too large for the graph: one line on the terminal, and in the log."""
    project.configure(delta=0.5, calibrate_for="corrected")
    result = project.snakemake("rows", check=False)
    assert result.returncode != 0
    log = project.folder / "results/tiny/logs/calibrate/small.log"
    assert re.search(r"error: config: delta 0.5 is not below 1/\d+", log.read_text())
    assert "Traceback" not in log.read_text()


@pytest.mark.slow
def test_in_the_demo_the_graph_helps_nodes_too(tmp_path):
    """The more the larger ε, so that the panel says something at a glance."""
    project = Project(tmp_path, "config/config.yaml")
    project.snakemake("rows")
    rows = pd.read_csv(tmp_path / "results/demo/rows.csv")
    cells = rows.groupby(["method", "level", "epsilon", "hyperparameters"])
    means = cells[["val_accuracy", "test_accuracy"]].mean().sort_values("val_accuracy")
    best = 100 * means.groupby(["method", "level", "epsilon"])["test_accuracy"].last()
    lead = (best["gap"] - best["mlp"])["node"]
    assert list(lead.index) == [4, 8, 16]
    assert lead[16] > 3 and lead.is_monotonic_increasing
    assert best["gap", "edge", 4] - best["mlp", "none", math.inf] > 5


def test_attacks_of_another_configuration_are_refused_without_records(tmp_path, monkeypatch):
    project = Project(tmp_path, STUDY)
    attack = {
        "nodes_per_class": 100, "entries": [{"method": "mlp", "level": "none", "epochs": 5}],
    }  # fmt: skip
    project.configure(experiments={}, attacks={"nmi": attack}, tables=["table3"], figures=[])
    monkeypatch.chdir(tmp_path)
    made = tmp_path / "results/tiny/attacks/small/mlp/none/inf/nmi/0-1.csv"
    made.parent.mkdir(parents=True)
    made.write_text("study\n")
    seals.write(made.relative_to(tmp_path), "of another")
    words = project.command()[len(SNAKEMAKE) - 2 :]
    said = dry_run(words, tmp_path, **project.environment)
    assert said.returncode == 1
    assert "0-1.csv is of another configuration, of which Snakemake" in said.stdout + said.stderr
