"""Releases of private data: what a study may then be, and what is published of it.

With `release: reproduction` every key follows from the study seed, which rows state: anybody can
draw the noise again, so an ε speaks of the mechanism and not of that copy. With `release: private`
all streams are named by a secret (`graphdp.keys`), nothing is published that the plan does not
hold, and what was released is written down (`graphdp.ledger`, `graphdp.key_record`).
"""

import csv
import math
import os
import re
import stat
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from graphdp import io, keys
from graphdp.errors import GraphDPError

if TYPE_CHECKING:
    from graphdp.config import Study
    from graphdp.data.datasets import DatasetSpec
    from graphdp.privacy.plan import Plan

#: All that a private study makes but what it releases: data, cache, logs, and the ledger.
FOLDER = "private"
#: What stands in a private study's folder of results, and in no reproduction's.
PUBLISHED = ("model.npz", "row.csv", "statement.json", "statement.md")
#: In its folder of all else: what was published, with digests.
RECORD = "published.json"
#: What may stand beside it: what a killed job left of a copy, and what systems and editors leave.
_PASSED_OVER = (".tmp-*", ".DS_Store", ".directory", ".nfs*", ".~lock.*#")
#: What Snakemake writes down: names of files, settings, code.
RECORDS = ".snakemake"
#: What a private study is, unless its configuration says otherwise, and is refused.
DEFAULTS = {"seeds": 1, "checkpoint": "last", "tables": [], "figures": []}


def prepare(key_file: str | os.PathLike, local: bool = True) -> None:
    """Before a private run: the folder of what is not released, for its owner alone, and that of
    Snakemake's records of it.

    local: whether jobs run on this machine; elsewhere a process of Snakemake's own writes checksums
    of what they read. Raises `GraphDPError` if they do not, if others may read the first folder,
    and as `keys.read_key`.
    """
    if not local:
        raise GraphDPError(
            "a private release runs on one machine: give --cores in place of the cluster's "
            "profile, on a node of your own"
        )
    if os.path.isdir(RECORDS):
        try:
            os.chmod(RECORDS, 0o700)
        except PermissionError:
            raise GraphDPError(
                f"the folder {RECORDS}/ is not yours: run private releases in a checkout of yours"
            ) from None
    folder = Path(FOLDER)
    folder.mkdir(mode=0o700, exist_ok=True)
    if stat.S_IMODE(folder.stat().st_mode) & 0o077:
        raise GraphDPError(f"others may read the folder {FOLDER}/: chmod 700 {FOLDER}")
    keys.read_key(key_file)


def record_published(files: Iterable[str | os.PathLike], record: str | os.PathLike) -> None:
    """Write down the SHA-256 of what was published, for `check_published`."""
    io.write_json(record, {Path(file).name: io.sha256_file(file) for file in files})


def check_published(study: str) -> None:
    """Raise `GraphDPError` if a file of what a study has released is not as it was published, or if
    anything else stands beside it.

    One that is missing is published again, and so are all where there is no record: the job that
    writes it, last of all, has failed or was killed.
    """
    try:
        _check_published(study)
    except OSError as error:
        raise GraphDPError(f"{error.filename} cannot be read ({error.strerror})") from None


def _check_published(study: str) -> None:
    folder, record = Path("results", study), Path(FOLDER, study, RECORD)
    for found in sorted(folder.glob("*")):
        if found.is_file() and any(fnmatch(found.name, one) for one in _PASSED_OVER):
            continue
        if found.name in PUBLISHED and found.is_dir():
            raise GraphDPError(
                f"{found} is a folder, where a file is to be published: move it away, or give the "
                "study another name"
            )
        if found.name not in PUBLISHED:
            raise GraphDPError(
                f"{found} is nothing that a private release publishes: move what an earlier run "
                f"left in {folder}/ away, or give the study another name"
            )
    if not record.is_file():
        return
    try:
        said = io.read_json(record)
        known = {name: said[name] for name in PUBLISHED}
    except (ValueError, KeyError, TypeError, RecursionError):
        raise GraphDPError(f"{record} is damaged: delete it and run again") from None
    for name, digest in known.items():
        path = folder / name
        try:
            same = not path.exists() or (path.is_file() and io.sha256_file(path) == digest)
        except OSError as error:  # a read that fails does not say of what
            raise GraphDPError(f"{path} cannot be read ({error.strerror})") from None
        if not same:
            raise GraphDPError(
                f"{path} was altered after it was published: delete it and run again, which copies "
                f"it from {FOLDER}/"
            )


def published_in(folder: Path) -> list[Path]:
    """What a private release has published in a study's folder, even as a link to nothing. Raises
    `PermissionError` where that may not be looked at."""
    return [one for name in PUBLISHED if stands(one := folder / name)]


def stands(path: Path) -> bool:
    """Whether there is such a file, or a link of that name. Raises `PermissionError`, which
    `os.path.lexists` takes for no."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def check_no_release(study: str) -> None:
    """Raise `GraphDPError` if a study that is no private release would write beside one's model."""
    folder = Path("results", study)
    try:
        found = published_in(folder)
    except OSError as error:
        raise GraphDPError(f"{folder} cannot be read ({error.strerror})") from None
    for one in found:
        raise GraphDPError(
            f"{one} is a private release's, and this study is a reproduction: give "
            f"it another name than {study} (study: ...)"
        )


def check_same_dataset(study: str, dataset: str) -> None:
    """Raise `GraphDPError` if a private release by this name is of another dataset: its model would
    be written over."""
    row = Path("results", study, "row.csv")
    try:
        with row.open(encoding="utf-8", newline="") as file:
            of = next(csv.DictReader(file), {}).get("dataset", dataset)
    except (OSError, ValueError, csv.Error):
        return  # `check_published` says what it finds
    if of != dataset:
        raise GraphDPError(
            f"{row} is of a release of dataset '{of}', and this study is of '{dataset}': give it "
            f"another name than {study} (study: ...)"
        )


def check(study: "Study") -> None:
    """Whether a study can be a private release. Raises ValueError, naming the key to change."""
    from graphdp.privacy.protection import is_private, protects_nodes

    if study.release != "private":
        for name in ("key_file", "train_nodes"):
            if getattr(study, name) is not None:
                raise ValueError(f"{name} is for release: private alone; leave it out")
        return
    if not study.key_file:
        raise ValueError("release: private needs key_file; make one with graphdp key FILE")
    if re.fullmatch(r"[0-9a-fA-F]{32,}", study.key_file):  # or most of one
        raise ValueError("key_file is a key itself; name the file that it stands in")
    if study.key_file.startswith("~"):
        raise ValueError(f"key_file {study.key_file}: nothing expands ~ here; write the whole path")
    place = Path(os.path.realpath(study.key_file))
    # Of a configuration that is looked at from elsewhere the project is not this folder.
    folders = ("results", FOLDER, *([""] if Path("Snakefile").exists() else ()))
    if any(place.is_relative_to(os.path.realpath(folder)) for folder in folders):
        raise ValueError(
            f"key_file {study.key_file} lies in the project, of which copies are made; keep it "
            "elsewhere"
        )
    entries = [entry for entries in study.experiments.values() for entry in entries]
    models = [
        setting
        for dataset in study.datasets
        for entry in entries
        for setting in study.settings(dataset, entry)
        for _ in (study.epsilons or getattr(entry, "epsilon", [None]))
    ]
    wrong = {
        "seeds": study.seeds != 1,
        "attacks": bool(study.attacks),
        "known_rows": bool(study.known_rows),
        "tables": bool(study.tables),
        "figures": bool(study.figures),
    }
    for name, is_wrong in wrong.items():
        if is_wrong:
            raise ValueError(
                f"{name}: release: private trains one model, and publishes nothing that is "
                f"computed without noise; set {'seeds: 1' if name == 'seeds' else 'no ' + name}"
            )
    if not study.train:
        raise ValueError("train: release: private trains its model; leave train out")
    if study.missing_data != "fail":
        raise ValueError("missing_data: a private release has one dataset; leave missing_data out")
    if len(models) != 1:
        raise ValueError(
            f"release: private trains one model, not {len(models)}: give one dataset, method, "
            "level and ε, and one value of every hyperparameter (a choice among several by "
            "accuracy reads private labels)"
        )
    (entry,) = entries
    tokens = study.epsilons or getattr(entry, "epsilon", ["inf"])
    if not is_private(entry.level) or not 0 < float(tokens[0]) < math.inf:
        raise ValueError("release: private needs a level with privacy and a finite ε above 0")
    if study.checkpoint != "last":
        raise ValueError("checkpoint: release: private keeps the last epoch; leave it out")
    if study.split_sides != "by_id":
        raise ValueError("split_sides: release: private splits by_id; leave it out")
    if isinstance(study.delta, str):
        raise ValueError(
            f"delta: {study.delta} reads the numbers of nodes or edges; release: private needs a "
            "number"
        )
    if study.threads != 1:
        raise ValueError(
            "threads: release: private trains with one thread, since another number of them rounds "
            "sums otherwise under the same noise; leave it out"
        )
    if protects_nodes(entry.level) and study.train_nodes is None:
        raise ValueError(
            "release: private needs train_nodes, the number of training nodes to announce (with "
            "batch_size it sets the sampling rate): a round number near the true one"
        )


def check_plan(method: str, plan: "Plan", num_train: int) -> None:
    """Whether anything may be released with a plan, of which neither data nor noise are needed.

    num_train: the training nodes that it is for. Raises `GraphDPError` for a claim that is refuted,
    for noise of which nothing is proven as it is drawn, and for batches of a fixed size, whose rate
    and number follow from the true number of training nodes, not from the announced one.
    """
    if plan.status == "refuted":
        raise GraphDPError(
            f"{method}: the claim of {plan.adjacency} is refuted, so nothing is released; set "
            "calibrate_for: corrected, or where that is set choose another method"
        )
    # Shape and sampling are the same at every noise multiplier and clip.
    noised = [one for one in plan.mechanisms if not one.releases_nothing]
    runs = [run for one in noised if (run := one.execution(1.0, num_train, 1.0))]
    if any(run.noise != "gaussian" for run in runs):
        raise GraphDPError(
            f"{method}: nothing is proven of its noise as it is drawn, so nothing is released; "
            "choose a method with Gaussian noise"
        )
    if not {run.sampling for run in runs} <= {"poisson", "none"}:
        raise GraphDPError(
            f"{method}, {plan.adjacency}: batches of a fixed size tell the number of training "
            "nodes; choose a method or an adjacency with Poisson samples"
        )


def check_data(study: "Study", datasets: Mapping[str, "DatasetSpec"]) -> None:
    """Whether what is prepared of a private study's data depends on one node, or edge, alone.

    Raises `GraphDPError` if nodes are dropped for what others are or have, if the number of classes
    (at edge level as well, where predictions are published by the file's numbers) or columns is
    counted instead of announced, or if public candidates, of whichever method, have
    no universe of ids.
    """
    from graphdp.methods.registry import analyses, card
    from graphdp.privacy.assumptions import CANDIDATES_ARE_PUBLIC
    from graphdp.privacy.protection import protects_nodes

    if study.release != "private":
        return
    ((entry,),), ((name, spec),) = study.experiments.values(), datasets.items()
    steps, nodes = spec.preprocessing, protects_nodes(entry.level)
    wrong = {
        "remove_isolated": steps.remove_isolated,
        "min_class_count": nodes and steps.min_class_count > 1,
    }
    for step, is_wrong in wrong.items():
        if is_wrong:
            raise GraphDPError(
                f"dataset '{name}': preprocessing {step} drops nodes for their edges or for what "
                "others are, which no ε counts; a private release leaves it out"
            )
    if nodes and spec.loader != "arrays":
        raise GraphDPError(
            f"dataset '{name}': loader {spec.loader} may count columns and classes by what nodes "
            "have; a private release reads loader: arrays, whose file says how wide features are"
        )
    if steps.num_classes is None:
        raise GraphDPError(
            f"dataset '{name}': a private release announces the number of classes, which keep "
            "their numbers in what is published: give preprocessing: {num_classes: ...}"
        )
    if not nodes:
        return
    (setting,) = study.settings(name, entry)
    plans = analyses(
        entry.method, entry.level, card(entry.method).plan(entry.level, setting), study.train_nodes
    )
    candidates = any(CANDIDATES_ARE_PUBLIC in plan.assumptions for plan in plans)
    if candidates and spec.parameters.get("num_ids") is None:
        raise GraphDPError(
            f"dataset '{name}': public candidates of a private release need a universe of ids: "
            "give parameters: {num_ids: ...}, and ids in the file"
        )
