"""What the benchmarks of training share: the graph, and two ways to do the same work, compared."""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

ARMS = ("ensemble", "plain")


def parser(description: str, parts: list[str]) -> argparse.ArgumentParser:
    """The command line; `--arm` and `--work` are for the processes that `compare` starts."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--mirror", help="folder with the raw files of the dataset")
    made.add_argument("--dataset", default="berkeley13")
    made.add_argument("--seeds", type=int, default=10)
    made.add_argument("--plain-seeds", type=int, help="models of the plain loop, if not as many")
    made.add_argument("--part", choices=[*parts, "all"], default="all")
    made.add_argument("--device", default="cpu")
    made.add_argument("--arm", choices=ARMS, help=argparse.SUPPRESS)
    made.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    return made


def run(
    script: str,
    description: str,
    titles: dict[str, str],
    prepare: Callable[[argparse.Namespace, Path], None],
    run_arm: Callable[[argparse.Namespace], None],
) -> None:
    """A benchmark: `prepare` once, then both arms of every part that was asked for.

    titles: part -> its name in the output. run_arm: what a process that `compare` starts does.
    """
    args = parser(description, list(titles)).parse_args()
    if args.arm:
        run_arm(args)
        return
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        prepare(args, work)
        for part in titles if args.part == "all" else [args.part]:
            compare(script, titles[part], part, args, work)


def prepare_graph(dataset: str, mirror: str | None, work: Path):
    """The preprocessed graph, saved as `work`/graph.npz for the arms."""
    from graphdp.data.datasets import load_registry
    from graphdp.data.download import download
    from graphdp.data.preprocess import preprocess

    config = Path(__file__).resolve().parents[2] / "config" / "datasets.yaml"
    spec = load_registry(config).resolve(dataset)
    download(spec, work / "raw", mirror=mirror)
    graph = preprocess(spec, work / "raw")
    graph.save(work / "graph.npz")
    return graph


def compare(script: str, name: str, part: str, args: argparse.Namespace, work: Path) -> None:
    """Run both arms of `script` on a part and print what each took per model."""
    cpu, wall, after_start = {}, {}, {}
    for arm in ARMS:
        models = args.plain_seeds or args.seeds if arm == "plain" else args.seeds
        command = [sys.executable, script, "--arm", arm, "--work", str(work), "--part", part]
        command += ["--seeds", str(models), "--device", args.device]
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        # One thread each: CPU seconds then measure the work, not the waiting of threads.
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"the {arm} arm failed")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        cpu[arm], wall[arm] = seconds / models, (time.monotonic() - start) / models
        found = json.loads(done.stdout.splitlines()[-1])
        after_start[arm] = wall[arm] - found["start"] / models
        print(
            f"{name} {arm:<8} {models:4d} models: {cpu[arm]:7.3f} CPU s and {wall[arm]:7.3f} s per "
            f"model, of which start {found['start'] / models:.3f}; mean test accuracy "
            f"{np.mean(found['accuracies']):.4f} ± {np.std(found['accuracies']):.4f}",
            flush=True,
        )
    ratios = {"CPU time": cpu, "wall time": wall, "wall time after the start": after_start}
    print(
        f"{name} on {args.device}: plain / ensemble = "
        + ", ".join(f"{t['plain'] / t['ensemble']:.1f} in {name}" for name, t in ratios.items())
    )
