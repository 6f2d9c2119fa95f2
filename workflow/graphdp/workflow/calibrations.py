"""Calibration of a study's cells: one entry per plan setting and number of training nodes."""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from graphdp import io
from graphdp.errors import GraphDPError
from graphdp.methods.block import Block
from graphdp.methods.registry import analyses
from graphdp.privacy.calibration import (
    Calibration,
    calibrate,
    calibration_plan,
    default_delta,
)
from graphdp.privacy.composition import epsilon_at
from graphdp.privacy.plan import Plan, accounted_by
from graphdp.privacy.protection import (
    AT_MOST,
    TRAIN_POWER,
    delta_fault,
    edges_alone,
    is_private,
    protected_units,
    published_units,
)
from graphdp.workflow import code, job

#: The libraries that a kept calibration depends on.
LIBRARIES = ("autodp", "dp-accounting", "numpy", "scipy")


class Kept:
    """Calibrations on disk, so that a changed grid calibrates what is new in it alone.

    A calibration is a function of the plans, ε and δ, and is found by a hash of them, of
    the code and of the libraries' versions. It holds no data.

    cache: the folder. accounting: the digest of `stages.ACCOUNTING`.
    """

    def __init__(self, cache: str | Path, accounting: str) -> None:
        self._folder = Path(cache)
        self._made_with = [accounting, json.loads(job.versions(*LIBRARIES))]

    def entry(
        self, plans: Sequence[Plan], chosen: Plan, epsilon: str, delta: float | None, make: Callable
    ) -> dict[str, Any]:
        """What `make()` returns, from an earlier call with equal arguments if there was one."""
        about = [[plan.to_dict() for plan in plans], chosen.to_dict(), epsilon, delta]
        # Kinds of mechanism are found by looking: the digest of the accounting does not hold them.
        kinds = {type(m).__module__ for plan in (*plans, chosen) for m in plan.mechanisms}
        text = _canonical([about, code.digest(None, *sorted(kinds)), self._made_with])
        path = self._folder / f"{_sha256(text)[:32]}.json"
        try:
            kept = io.read_json(path)
            if kept["sha256"] == _sha256(text + _canonical(kept["entry"])):
                return kept["entry"]
        except (OSError, ValueError, KeyError, TypeError):
            pass  # not there, or damaged: made (again)
        entry = json.loads(_canonical(make()))  # in the order of what is read, so of equal bytes
        io.write_json(path, {"entry": entry, "sha256": _sha256(text + _canonical(entry))})
        return entry


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def of_block(block: Block, study: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The entries that a block of seeds reads, from those that are kept or made now.

    study: `settings` (of the cell's plan), `delta`, `calibrate_for`, `accountant`, and of what is
    kept `cache` (its folder) and `accounting` (the digest of `stages.ACCOUNTING`). Raises as
    `calibrate_cell`.
    """
    return calibrate_cell(
        block.dataset,
        block.method,
        block.level,
        block.epsilon,
        study["settings"],
        [block.num_train(seed) for seed in block.seeds],
        block.graph.num_edges,
        study["delta"],
        study["calibrate_for"],
        block.graph.num_nodes,
        Kept(study["cache"], study["accounting"]),
        block.release,
        study["accountant"],
    )


def calibrate_cell(
    dataset: str,
    method: str,
    level: str,
    epsilon: str,
    settings: list[dict[str, Any]],
    num_trains: list[int],
    num_edges: int,
    delta: str | float,
    calibrate_for: str = "published",
    num_nodes: int | None = None,
    kept: Kept | None = None,
    release: str = "reproduction",
    accountant: str = "auto",
) -> list[dict[str, Any]]:
    """Calibrate every plan setting x number of training nodes of a cell.

    delta: "auto" for 10^-digits of the number of units that the method's own adjacency protects,
    with calibrate_for "published" of those that published code counts (`published_units`);
    `TRAIN_POWER` for that power of the number of training nodes; a number; or one with `AT_MOST`
    before it, which is lowered where it would be refused; ignored at level none. Without num_nodes
    the training nodes stand for all.
    calibrate_for: one of `calibration.CALIBRATE_FOR`, the analysis that meets the target. Returns
    JSON-able entries: `dataset`, `settings`, `num_train`, what `Calibration.to_dict` gives and, as
    `epsilons`, what this noise is worth under every analysis of the method. num_nodes: nodes of the
    graph; with it a degree bound that bounds nothing is refused. kept: earlier calibrations.
    release: "reproduction" or "private". accountant: the plans', which see.
    Raises `GraphDPError` as `calibrate` does, and if δ is not below 1 / number of protected units
    (a published analysis has it stand in its statement, but for a private release: the number is
    that of the data, and so is whether a warning is there).
    """
    if edges_alone(level) and num_edges == 0:
        raise GraphDPError(
            f"dataset '{dataset}' has no edge, so level {level} has nothing to protect: leave its "
            "entries out, or name other datasets in them"
        )
    entries = []
    for setting in settings:
        if num_nodes is not None and setting.get("max_degree", 0) >= num_nodes:
            raise GraphDPError(
                f"config: max_degree {setting['max_degree']} is larger than {dataset} allows: "
                f"{num_nodes} nodes have at most {num_nodes - 1} neighbours each, and noise grows "
                "with its square root; set max_degree to at most that"
            )
        for num_train in sorted(set(num_trains)):
            plans = accounted_by(accountant, analyses(method, level, setting, num_train))
            chosen = calibration_plan(plans, calibrate_for)
            own_delta = None
            if is_private(level):
                nodes = num_nodes or num_train
                # Its own adjacency: a study has one δ for what it compares.
                counts = num_edges, num_train, nodes
                strict = release == "private" or chosen.basis == "corrected"
                own_delta = _delta(plans[0].adjacency, *counts, delta, chosen.basis, strict)

            def make(plans=plans, chosen=chosen, own_delta=own_delta) -> dict[str, Any]:
                result = calibrate(chosen, float(epsilon), own_delta)
                return result.to_dict() | {"epsilons": readings(plans, result)}

            made = kept.entry(plans, chosen, epsilon, own_delta, make) if kept else make()
            entries.append({"dataset": dataset, "settings": setting, "num_train": num_train} | made)
    return entries


def readings(plans: Sequence[Plan], result: Calibration) -> list[dict[str, Any]]:
    """ε of a calibration's noise under every analysis; "none" where none is known to hold."""
    if result.delta is None:
        return []
    found = []
    for plan in plans:
        value = epsilon_at(plan, result.plan, result.noise_multiplier or 0.0, result.delta)
        holds = plan.status != "refuted" and value < math.inf
        found.append(
            {
                "basis": plan.basis,
                "adjacency": plan.adjacency,
                "status": plan.status,
                "claimed_epsilon": value if value < math.inf else "inf",
                "epsilon": value if holds else "none",
            }
        )
    return found


def _delta(
    adjacency: str,
    edges: int,
    train_nodes: int,
    nodes: int,
    delta: str | float,
    basis: str,
    strict: bool,
) -> float:
    if delta == "auto" and basis == "corrected":
        return default_delta(protected_units(adjacency, edges, nodes))
    if delta == "auto":
        return default_delta(published_units(adjacency, edges, train_nodes, nodes))
    if delta == TRAIN_POWER:
        delta = float(train_nodes) ** -1.1
    given = float(str(delta).removeprefix(AT_MOST))
    fault = delta_fault(given, adjacency, edges, nodes)
    if fault and strict and str(delta).startswith(AT_MOST):
        return default_delta(protected_units(adjacency, edges, nodes))
    if fault and strict:
        raise GraphDPError(f"config: {fault}")
    return given
