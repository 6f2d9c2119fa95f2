"""A private release: what the ledger holds of it, and what of its files is published."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphdp import io, key_record, ledger
from graphdp.data.content import content_hashes
from graphdp.errors import GraphDPError
from graphdp.methods.block import Block
from graphdp.methods.registry import card
from graphdp.paper.rows import read_rows
from graphdp.privacy import calibrated
from graphdp.privacy.plan import Plan
from graphdp.private import check_plan
from graphdp.rng import stream_key
from graphdp.workflow import job
from graphdp.workflow.calibrations import LIBRARIES as ACCOUNTANTS

#: On what the sums, the noise and its σ depend.
LIBRARIES = (*ACCOUNTANTS, "torch", "cryptography", "randomgen")

#: Numbers of a statement's target that its model's row has too.
_TARGET = ("epsilon", "delta", "noise_multiplier")


def reserve(block: Block, study: Mapping[str, Any]) -> None:
    """Write a release into the ledger, before any of its noise is drawn.

    study: what its noise depends on besides data, method, level and ε, with all hyperparameters as
    `models`, `code` (job -> the digest of its code) and `parameters` (of all stages); and the
    files `graph`, `manifest` (of the raw files) and `key_file`. What code, libraries and machine it
    is made with is part of a release: other sums under the same noise would be a second one.

    Raises `GraphDPError` as `private.check_plan`, for features or a split that nothing can be
    trained on, and as `ledger.reserve` and `key_record.use`.
    """
    import torch

    from graphdp.training.features import check_features

    for entry in block.calibrations:
        check_plan(block.method, Plan.from_dict(entry["plan"]), entry["num_train"])
    # What would stop a job later, when nothing else could be released of the data.
    check_features(block.graph.x)
    for seed in block.seeds:
        block.split(seed)
    entry = {
        "release": f"{block.study}: {block.method}, {block.level} level, ε = {block.epsilon}",
        "dataset": block.dataset,
        "noise": stream_key(*block.stream(0), block.data).hex(),
        "commit": job.git_commit(),
        "made_with": {
            "settings": [
                study["models"], study["delta"], study["calibrate_for"], block.announced
            ],
            "parameters": _digest(study["parameters"]),
            "seeds": block.seeds,  # Snakemake may be asked for a file of other ones
            "code": study["code"],
            "libraries": json.loads(job.versions(*LIBRARIES)),
            "device": block.trained_on(),
            # What kernels there are, and how sums are cut into parts.
            "instructions": torch.backends.cpu.get_cpu_capability(),
            "memory_mb": block.memory_mb,
            "calibration": block.calibrations,
            "σ": [
                {name: one.run.noise_std for name, one in calibrated.phases(entry).items()}
                for entry in block.calibrations
            ],
        },
    }  # fmt: skip
    data = {
        "graph file": [io.sha256_file(study["graph"])],
        "files": [file["sha256"] for file in io.read_json(study["manifest"])["files"]],
        **content_hashes(block.graph),
    }
    ledger.reserve(entry, data, use_key=lambda: key_record.use(study["key_file"], entry, data))


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def publish(
    row_file: str | os.PathLike,
    statement: str | os.PathLike,
    *,
    row: str | os.PathLike,
    model: str | os.PathLike,
    json: str | os.PathLike,
    md: str | os.PathLike,
) -> None:
    """Copy the row of a private model, the model and its privacy statement, once it stands in the
    ledger that it is this model which is published.

    row_file: as `model_rows.write_rows` leaves it, with the model beside it as `.npz`. statement:
    path of the statement, without a suffix. Raises `GraphDPError` for a row of another kind of
    release or of several models, for a model that is not the one of which the row speaks, for a
    statement of another model, which a run that leaves out jobs (`--rerun-triggers`) may have made,
    and as `ledger.publish`.
    """
    found = read_rows(row_file)
    if list(found["release"]) != ["private"]:
        raise GraphDPError(f"{row_file} is not the row of one private model: run the study again")
    arrays = Path(row_file).with_suffix(".npz")
    if not arrays.is_file() or io.sha256_file(arrays) != found["model_sha256"].iloc[0]:
        raise GraphDPError(
            f"{arrays} is missing or damaged: delete {row_file} and run again, which makes the "
            "same model"
        )
    (stated,) = io.read_json(f"{statement}.json")
    _check_stated(stated, found.iloc[0].to_dict(), f"{statement}.json")
    ledger.publish(found["dataset"].iloc[0], found["model_sha256"].iloc[0])
    copies = {row: row_file, model: arrays, json: f"{statement}.json", md: f"{statement}.md"}
    for target, source in copies.items():
        with io.atomic_path(target) as temporary:
            temporary.write_bytes(Path(source).read_bytes())


def _check_stated(stated: Mapping[str, Any], row: Mapping[str, Any], path: str) -> None:
    """Raise `GraphDPError` unless a statement is that of a row's model: of its noise, its claim,
    what its plan reads, and its data."""
    target, plan = stated["target"], card(row["method"]).plan
    settings = plan(row["level"], json.loads(row["hyperparameters"]))
    pairs = {name: (target[name], float(row[name])) for name in _TARGET}
    pairs |= {
        "adjacency": (target["adjacency"], row["adjacency"]),
        "basis": (target["basis"], row["epsilon_basis"]),
        "settings": (stated["settings"], json.loads(json.dumps(settings))),
        "fingerprint": (stated["data"]["fingerprint"][: len(row["graph"])], row["graph"]),
    }
    for name, (said, made) in pairs.items():
        if said != made:
            raise GraphDPError(
                f"{path} states the {name} {said}, and the model has {made}: bring back the "
                "study's configuration and run again with all of Snakemake's triggers"
            )
