"""A small study on a real Slurm of one node, disturbed: `make test-slurm`.

    python tests/slurm/run.py [--folder DIR] [--keep] [--only PART ...]

Runs as root, where Debian's slurm-wlm and munge are installed; leaves nothing behind. Each check
prints a line; ends with 1 at the first that fails, and shows what the run said.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))

import pandas as pd
import psutil
import yaml
from cluster import Cluster, missing

from project_fixture import Project
from test_parties import certificate

#: What two runs of a model may differ in.
OWN = ["cpu_seconds", "wall_seconds", "peak_rss_mb"]
PATIENCE = 500


def study(epsilons: list[float], seeds: int) -> dict:
    return {
        "study": "tiny",
        "datasets": ["mine"],
        "definitions": {"mine": {"base": "csbm", "parameters": {"n": 400, "f": 16, "d": 8}}},
        "device": "cpu",
        "seeds": seeds,
        "seed_block": 1,
        "experiments": {
            "accuracy": [
                {"method": "gap", "level": "edge", "epsilon": epsilons, "hops": [1], "epochs": 2},
                {"method": "mlp", "level": "none", "epochs": 2},
            ]
        },
        "tables": ["accuracy"],
        "figures": [],
    }


def of_parties(**how: str) -> dict:
    """A study of DPA-GNN; how: where its parties run."""
    entry = {"method": "dpa", "level": "node", "epsilon": [4], "feature_layers": [2],
             "label_layers": [1], "epochs": [2]}  # fmt: skip
    return study([], 1) | {"experiments": {"accuracy": [entry | how]}}


class Run:
    """Snakemake with a profile, at work in a project's folder."""

    def __init__(self, project: Project, *words: str, profile: str = "slurm"):
        self._said = Path(tempfile.mkstemp(prefix="said-", dir=project.folder.parent)[1])
        command = [
            sys.executable, "-m", "snakemake", "--profile", f"profiles/{profile}",
            "--slurm-init-seconds-before-status-checks", "2", "--seconds-between-status-checks",
            "2", "--slurm-status-command", "squeue", "--latency-wait", "5", *words,
            "--configfile", "study.yaml",
        ]  # fmt: skip
        with self._said.open("w") as file:
            self._process = subprocess.Popen(
                command, cwd=project.folder, env=project.environment, stdout=file, stderr=file
            )

    @property
    def said(self) -> str:
        return self._said.read_text(errors="replace")

    def wait(self) -> int:
        """The exit code."""
        return self._process.wait(PATIENCE)

    def kill(self) -> None:
        """SIGKILL to Snakemake alone."""
        self._process.kill()
        self._process.wait()

    def until(self, happens: Callable[[], object]) -> object:
        """Wait for something while it runs; what `happens` returns, if that is true."""
        while self._process.poll() is None:
            if found := happens():
                return found
            time.sleep(0.3)
        raise AssertionError("the run ended before it could be disturbed")


class Checks:
    """A cluster, a project that is run on it, and what is checked."""

    def __init__(self, folder: Path, cluster: Cluster):
        self.folder, self.cluster = folder, cluster
        self.project = Project(self._sub("slurm"), study([4], 1))
        self.project.environment |= {
            name: cluster.environment[name] for name in ("SLURM_CONF", "PATH")
        }
        self._number = 0
        self.last: Run | None = None

    def _sub(self, name: str) -> Path:
        (self.folder / name).mkdir()
        return self.folder / name

    def start(self, *words: str, profile: str = "slurm") -> Run:
        self._before = set(self.cluster.jobs())
        self.last = Run(self.project, *words, profile=profile)
        return self.last

    def new_jobs(self) -> list[str]:
        """The Slurm jobs since `start`, each by its group, sorted."""
        jobs = self.cluster.jobs()
        comments = [comment for number, (_, comment) in jobs.items() if number not in self._before]
        return sorted(re.sub(r"^rule_|(_calibrate|_preprocess|_stage)+$", "", c) for c in comments)

    def running(self, name: str) -> list[int]:
        """The Slurm jobs of a rule or group that run now."""
        return [
            number
            for number, (state, comment) in self.cluster.jobs().items()
            if state == "RUNNING" and comment.startswith(f"rule_{name}")
        ]

    def script(self, made: str) -> psutil.Process | None:
        """The process of a job's script; made: a part of the path of its log, which it writes."""
        for log in self.project.folder.glob(f"results/tiny/logs/{made}/**/.*.lock"):
            for process in psutil.process_iter():
                try:
                    if any(file.path == str(log) for file in process.open_files()):
                        return process
                except psutil.Error:
                    continue
        return None

    def expect(self, what: str, found: object, wanted: object = True) -> None:
        self._number += 1
        if found != wanted:
            raise AssertionError(f"{what}: {found} instead of {wanted}")
        print(f"{self._number:3d}  {what}", flush=True)

    def programs(self) -> list[psutil.Process]:
        """The project's shuffler and parties that are at work."""
        found, library = [], str(self.project.folder.resolve() / "workflow")
        for process in psutil.process_iter():
            try:
                python, *_, module = process.cmdline() or [""] * 2
                own = process.environ().get("PYTHONPATH") == library
            except (psutil.Error, ValueError):
                continue
            if own and python == sys.executable and module.startswith("graphdp.parties."):
                found.append(process)
        return found

    def steps(self, name: str) -> int:
        """The steps of a rule's or group's job that runs now, without the one of its script."""
        lines = self.cluster.ask("squeue", "--steps", "--noheader", "--format=%i").split()
        (job,) = self.running(name)
        return sum(line.startswith(f"{job}.") and line[-1].isdigit() for line in lines)

    def rows(self, project: Project) -> pd.DataFrame:
        rows = pd.read_csv(
            project.folder / "results/tiny/rows.csv", dtype=str, keep_default_na=False
        )
        keys = ["method", "level", "epsilon", "seed"]
        return rows.drop(columns=OWN).sort_values(keys).set_index(keys)

    def whole_study(self) -> None:
        run = self.start()
        self.expect("a study runs through profiles/slurm", run.wait(), 0)
        self.expect(
            "its 6 jobs of work are 4 Slurm jobs; download, rows, report run on the login node",
            self.new_jobs(),
            ["data_mine", "stage_aggregate", "stage_encode", "stage_fit"],
        )

    def over_memory(self) -> None:
        """Another ε, whose jobs are given 200 MiB first."""
        self.project.study = study([4, 8], 1)
        self.project.configure()
        run = self.start("--set-resources", "stage:mem_mb=200 if attempt == 1 else 4500")
        self.expect(
            "a study with another ε ends though its jobs were over their memory", run.wait(), 0
        )
        jobs = self.cluster.jobs()
        over = {n for n in set(jobs) - self._before if jobs[n][0] == "OUT_OF_MEMORY"}
        lines = re.findall(r"^slurmstepd.* oom-kill event.* StepId=(\d+)\..*", run.said, flags=re.M)
        self.expect("of each a line says so, and no other", sorted(lines), sorted(map(str, over)))
        self.expect("they were two", len(over), 2)
        self.expect(
            "each was tried again with more; of the study, just the added ε's jobs were submitted",
            self.new_jobs(),
            ["data_mine"] + ["stage_aggregate"] * 2 + ["stage_fit"] * 2,
        )

    def scancelled(self) -> None:
        """Another seed; one of its jobs is cancelled."""
        self.project.study = study([4, 8], 2)
        self.project.configure()
        run = self.start("--retries", "0")
        (number, *_) = run.until(lambda: self.running("stage_aggregate"))
        self.cluster.ask("scancel", str(number))
        self.expect("a run whose job is cancelled fails", run.wait() != 0)
        self.expect("and says so", "CANCELLED" in run.said)
        self.expect(
            "of another seed just its jobs were submitted, and the one that writes the statements",
            self.new_jobs(),
            ["data_mine", "stage_aggregate", "stage_encode"],
        )
        run = self.start()
        self.expect("the next command ends well", run.wait(), 0)
        self.expect(
            "and submits what was cancelled and what reads it",
            self.new_jobs(),
            ["stage_aggregate", "stage_fit"],
        )

    def step_killed(self) -> None:
        """Another ε; the process of a fit is killed."""
        self.project.study = study([4, 8, 16], 2)
        self.project.configure()
        run = self.start()
        run.until(lambda: self.script("fit")).send_signal(signal.SIGKILL)
        self.expect("a run ends well though a job's process was killed (-9)", run.wait(), 0)
        self.expect(
            "it was tried again, and nothing else ran twice",
            self.new_jobs(),
            ["data_mine", "stage_aggregate", "stage_fit", "stage_fit"],
        )

    def head_killed(self) -> None:
        """Another ε; Snakemake is killed while a fit is at work."""
        self.project.study = study([4, 8, 16, 2], 2)
        self.project.configure()
        run = self.start()
        orphan = run.until(lambda: self.script("fit"))
        orphan.suspend()  # so that it is at work whenever the next run begins
        run.kill()
        (number,) = self.running("stage_fit")
        run = self.start()
        code = run.wait()
        self.expect("after Snakemake was killed (-9), the next command ends well", code, 0)
        self.expect(
            "it cancelled the job that was left, whose process is gone",
            (self.cluster.jobs()[number][0], f"that a killed run left: {number}" in run.said,
             orphan.is_running()),
            ("CANCELLED", True, False),
        )  # fmt: skip
        self.expect("and submitted just what was in flight", self.new_jobs(), ["stage_fit"])

    def slurmd_killed(self) -> None:
        """Another ε; slurmd is killed and started again while a fit is at work."""
        self.project.study = study([4, 8, 16, 2, 6], 2)
        self.project.configure()
        run = self.start()
        fit = run.until(lambda: self.script("fit"))
        fit.suspend()  # so that it is at work while there is no slurmd
        self.cluster.kill_node([])
        self.expect("a job goes on while slurmd is dead (-9)", fit.is_running())
        self.cluster.start_node("mixed", "allocated")
        fit.resume()
        self.expect("when slurmd was started again, the run ends well", run.wait(), 0)
        self.expect(
            "and nothing was submitted twice",
            self.new_jobs(),
            ["data_mine", "stage_aggregate", "stage_fit"],
        )

    def node_lost(self) -> None:
        """Another ε; slurmd, the job and Snakemake are killed, as where the machine is lost."""
        self.project.study = study([4, 8, 16, 2, 6, 5], 2)
        self.project.configure()
        run = self.start()
        run.until(lambda: self.script("fit"))
        (number,) = self.running("stage_fit")
        run.kill()
        self.cluster.kill_node([number])
        self.cluster.start_node("idle", "mixed", "allocated")
        run = self.start()
        self.expect("after a node is lost (-9), the next command ends well", run.wait(), 0)
        self.expect("and submitted just what was in flight", self.new_jobs(), ["stage_fit"])

    def node_lost_under_a_run(self) -> None:
        """Another ε; slurmd and the job are killed, Snakemake waits."""
        self.project.study = study([4, 8, 16, 2, 6, 5, 7], 2)
        self.project.configure()
        run = self.start()
        run.until(lambda: self.script("fit"))
        self.cluster.kill_node(self.running("stage_fit"))
        time.sleep(30)  # of a job that began just now Slurm misses no process
        self.cluster.start_node("idle", "mixed", "allocated")
        self.expect("a run whose node is lost and comes back ends well", run.wait(), 0)
        self.expect(
            "what was lost was tried again, and nothing else ran twice",
            self.new_jobs(),
            ["data_mine", "stage_aggregate", "stage_fit", "stage_fit"],
        )

    def gres(self) -> None:
        """Another ε, on a site where a GPU is asked for by --gres, and one where by --gpus."""
        for epsilon, profile, words in ((1, "slurm-gres", ()), (3, "slurm", ("--config", "gpu=1"))):
            self.project.study = study([4, 8, 16, 2, epsilon], 1)
            self.project.configure()
            run = self.start(*words, profile=profile)
            asked = {}
            for stage in ("aggregate", "fit"):
                (number, *_) = run.until(lambda stage=stage: self.running(f"stage_{stage}"))
                said = self.cluster.ask("scontrol", "show", "job", str(number))
                asked[stage] = "gres:gpu:1" in said or "gres/gpu=1" in said
            self.expect(f"profiles/{profile} ends well with GPUs", run.wait(), 0)
            self.expect(
                "a job that trains has one GPU, and no other has any",
                asked,
                {"aggregate": False, "fit": True},
            )

    def private(self) -> None:
        """A private release, which does not leave the machine."""
        registry = self.project.folder / "config/datasets.yaml"
        known = yaml.safe_load(registry.read_text())
        known["datasets"]["own"] = {
            "title": "Own", "loader": "arrays", "parameters": {"file": "own.npz"},
            "files": [{"name": "own.npz"}], "preprocessing": {"num_classes": 3},
        }  # fmt: skip
        registry.write_text(yaml.safe_dump(known))
        self.project.graphdp("key", "../key")
        self.project.study = {
            "study": "hospital", "datasets": ["own"], "release": "private", "key_file": "../key",
            "delta": 1e-5, "calibrate_for": "corrected", "train_nodes": 220, "mirror": ".",
            "experiments": {"model": [{"method": "mlp", "level": "node", "epsilon": 8}]},
        }  # fmt: skip
        self.project.configure()
        run = self.start()
        self.expect("a private release is refused", run.wait() != 0)
        self.expect("in a line", "runs on one machine: give --cores" in run.said)
        self.expect("before anything is submitted", self.new_jobs(), [])

    def parties(self) -> None:
        """DPA-GNN, whose shuffler and parties are steps of the job that trains."""
        keys = self._sub("keys")
        certificate(keys, [self.cluster.node])
        self.project.study = of_parties(
            transport="tcp", hosts="allocation", tls=str(keys),
            launch="srun --overlap --ntasks=1 --nodes=1 --nodelist={host}",
        )  # fmt: skip
        self.project.configure()
        run = self.start("--retries", "0")
        run.until(lambda: len(programs := self.programs()) == 4 and programs[0].suspend() is None)
        # One each, and one for the job that trains.
        self.expect("parties and shuffler are steps of their job", self.steps("stage_fit"), 5)
        programs = self.programs()
        self.cluster.ask("scancel", str(*self.running("stage_fit")))
        began = time.time()
        while self.programs():
            time.sleep(0.1)
        self.expect("scancel of it leaves none of the four", len(programs), 4)
        self.expect("in seconds", time.time() - began < 10)
        self.expect("its run fails", run.wait() != 0)
        rows = self.project.folder / "results/tiny/rows.csv"
        before = rows.read_text() if rows.exists() else ""
        self.expect("and no row is written", "dpa" not in before)
        run = self.start()
        self.expect("the next command ends well", run.wait(), 0)
        self.expect("and leaves no process", self.programs(), [])
        local = Project(self._sub("in one process"), of_parties())
        local.snakemake("rows")
        mine, theirs = (
            self.rows(one).drop(columns="hyperparameters") for one in (self.project, local)
        )
        self.expect("its row is that of one process, bit for bit", mine.equals(theirs))

    def same_rows(self) -> None:
        """A run on this machine, without Slurm."""
        local = Project(self._sub("local"), study([4, 8, 16, 2, 6, 5, 7], 2))
        local.snakemake("rows")
        mine, theirs = self.rows(self.project), self.rows(local)
        self.expect("the study has a row for each of 16 models", len(mine), 16)
        self.expect("its rows are those of a run without Slurm, bit for bit", mine.equals(theirs))
        run = self.start()
        self.expect("a last command has nothing to do", (run.wait(), self.new_jobs()), (0, []))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, help="where Slurm and the study go")
    parser.add_argument("--keep", action="store_true", help="keep that for a look")
    parser.add_argument("--only", nargs="*", help="names of the parts to run, whole_study first")
    given = parser.parse_args()
    if why := missing():
        print(f"error: {why}", file=sys.stderr)
        return 2
    folder, began = Path(tempfile.mkdtemp(prefix="graphdp-slurm-", dir=given.folder)), time.time()
    folder.chmod(0o755)
    cluster = Cluster(folder / "cluster")
    checks = Checks(folder, cluster)
    try:
        cluster.start()
        for part in (
            checks.whole_study, checks.over_memory, checks.scancelled, checks.step_killed,
            checks.head_killed, checks.slurmd_killed, checks.node_lost,
            checks.node_lost_under_a_run, checks.same_rows, checks.gres, checks.parties,
            checks.private,
        ):  # fmt: skip
            if given.only and part.__name__ not in given.only:
                continue
            part()
            print(f"     {time.time() - began:.0f} s", flush=True)
    except (AssertionError, RuntimeError, ValueError, subprocess.TimeoutExpired) as error:
        said = checks.last.said[-6000:] if checks.last else ""
        print(f"{said}\nFELL THROUGH: {error}", file=sys.stderr)
        return 1
    finally:
        if checks.last and checks.last._process.poll() is None:
            checks.last.kill()
        cluster.stop()
        if not given.keep:
            shutil.rmtree(folder)
    print("all as it should be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
