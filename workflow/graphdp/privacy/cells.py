"""The calibration artefact of a cell: one entry per plan setting and number of training nodes."""

from collections.abc import Callable
from typing import Any

import numpy as np

from graphdp.data.split import Split, split
from graphdp.errors import GraphDPError
from graphdp.privacy.calibration import calibrate, default_delta
from graphdp.privacy.plan import Plan


def split_of(
    raw_num_nodes: int, node_ids: np.ndarray, study_seed: int, rule: str, seed: int
) -> Split:
    """The split of repeat `seed`: rule "shared" gives every repeat that of seed 0."""
    return split(raw_num_nodes, node_ids, study_seed, seed if rule == "per_seed" else 0)


def calibrate_cell(
    dataset: str,
    level: str,
    epsilon: str,
    plan: Callable[[str, dict[str, Any], int], Plan],
    settings: list[dict[str, Any]],
    num_trains: list[int],
    num_edges: int,
    delta: str | float,
) -> list[dict[str, Any]]:
    """Calibrate every plan setting x number of training nodes of a cell.

    delta: "auto" for 10^-digits of the number of protected units (directed edges at edge level,
    training nodes at node level), or a number; ignored at level none. Returns JSON-able entries:
    `dataset`, `settings`, `num_train` and what `Calibration.to_dict` gives. Raises `GraphDPError`
    as `calibrate` does, and if δ is not below 1 / number of units.
    """
    entries = []
    for setting in settings:
        for num_train in sorted(set(num_trains)):
            result = calibrate(
                plan(level, setting, num_train),
                float(epsilon),
                _delta(level, num_train if level == "node" else num_edges, delta),
            )
            entry = {"dataset": dataset, "settings": setting, "num_train": num_train}
            entries.append(entry | result.to_dict())
    return entries


def _delta(level: str, units: int, delta: str | float) -> float | None:
    if level == "none":
        return None
    if delta == "auto":
        return default_delta(units)
    if delta >= 1 / units:
        raise GraphDPError(
            f"config: delta {delta:g} must be below 1/{units}, one over the number of protected "
            f"{'training nodes' if level == 'node' else 'edges'}; use e.g. {default_delta(units):g}"
        )
    return float(delta)


def lookup(
    entries: list[dict[str, Any]], settings: dict[str, Any], num_train: int
) -> dict[str, Any]:
    """The entry of a plan setting and number of training nodes.

    Raises `GraphDPError` if there is none.
    """
    for entry in entries:
        if entry["settings"] == settings and entry["num_train"] == num_train:
            return entry
    raise GraphDPError(
        f"no calibration for {settings} with {num_train} training nodes; run calibrate again"
    )


def noise_multiplier(entry: dict[str, Any]) -> float:
    """The noise multiplier of an entry; 0.0 where nothing is noised (ε = inf or no release)."""
    return entry["noise_multiplier"] or 0.0


def label(entry: dict[str, Any]) -> dict[str, str]:
    """How a row's ε is to be read: basis, adjacency and status of the plan's analysis."""
    return {
        "epsilon_basis": entry["basis"] if entry["adjacency"] else "",
        "adjacency": entry["adjacency"],
        "epsilon_status": entry["status"],
    }


def check_rounds(entry: dict[str, Any], phase: str, rounds: int) -> None:
    """Refuse a model that was not trained for exactly the Poisson rounds that its plan accounts.

    Raises `GraphDPError` with both numbers.
    """
    planned = sum(m.get("steps", 0) for m in entry["plan"]["mechanisms"] if m["phase"] == phase)
    if planned != rounds:
        raise GraphDPError(
            f"{phase}: the plan accounts {planned} Poisson rounds but {rounds} were run; the ε of "
            "this model does not hold"
        )
