"""The calibration artefact of a cell: one entry per plan setting and number of training nodes."""

from typing import Any

import numpy as np

from graphdp.data.split import GAP_FRACTIONS, Split, split
from graphdp.errors import GraphDPError
from graphdp.privacy.bases import bases, calibration_plan
from graphdp.privacy.calibration import Calibration, calibrate, default_delta
from graphdp.privacy.composition import epsilon_at
from graphdp.privacy.plan import protected_units


def split_of(
    raw_num_nodes: int, node_ids: np.ndarray, study_seed: int, rule: str, seed: int
) -> Split:
    """The split of repeat `seed`.

    rule: "shared" (every repeat has that of seed 0) or "per_seed", with GAP's shares, or followed
    by other shares of training, validation and test nodes: "shared 0.025/0.025/0.95".
    """
    kind, _, shares = rule.partition(" ")
    fractions = tuple(map(float, shares.split("/"))) if shares else GAP_FRACTIONS
    return split(raw_num_nodes, node_ids, study_seed, seed if kind == "per_seed" else 0, fractions)


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
) -> list[dict[str, Any]]:
    """Calibrate every plan setting x number of training nodes of a cell.

    delta: "auto" for 10^-digits of the number of units that the method's own adjacency protects
    (`protected_units`; without num_nodes the training nodes stand for all), or a number; ignored at
    level none.
    calibrate_for: "published" or "corrected", the analysis that meets the target. Returns JSON-able
    entries: `dataset`, `settings`, `num_train`, what `Calibration.to_dict` gives and, as
    `epsilons`, what this noise is worth under every analysis of the method. num_nodes: nodes of the
    graph; with it a degree bound that bounds nothing is refused. Raises `GraphDPError` as
    `calibrate` does, and if δ is not below 1 / number of units.
    """
    entries = []
    for setting in settings:
        if num_nodes is not None and setting.get("max_degree", 0) >= num_nodes:
            raise GraphDPError(
                f"config: max_degree {setting['max_degree']} is larger than {dataset} allows: "
                f"{num_nodes} nodes have at most {num_nodes - 1} neighbours each, and noise grows "
                "with its square root; set max_degree to at most that"
            )
        for num_train in sorted(set(num_trains)):
            # Whatever the noise is calibrated for: a study has one δ for what it compares.
            adjacency = bases(method, level, setting, num_train)[0].adjacency
            units = protected_units(adjacency, num_edges, num_train, num_nodes or num_train)
            result = calibrate(
                calibration_plan(method, level, setting, num_train, calibrate_for),
                float(epsilon),
                _delta(level, units, delta),
            )
            entry = {"dataset": dataset, "settings": setting, "num_train": num_train}
            epsilons = _epsilons(method, level, setting, num_train, result)
            entries.append(entry | result.to_dict() | {"epsilons": epsilons})
    return entries


def _epsilons(
    method: str, level: str, setting: dict[str, Any], num_train: int, result: Calibration
) -> list[dict[str, Any]]:
    """ε of a calibration's noise under every analysis; "none" where none is known to hold."""
    if result.delta is None:
        return []
    readings = []
    for plan in bases(method, level, setting, num_train):
        value = epsilon_at(plan, result.plan, result.noise_multiplier or 0.0, result.delta)
        holds = plan.status != "refuted" and value < np.inf
        readings.append(
            {
                "basis": plan.basis,
                "adjacency": plan.adjacency,
                "status": plan.status,
                "claimed_epsilon": value if value < np.inf else "inf",
                "epsilon": value if holds else "none",
            }
        )
    return readings


def _delta(level: str, units: int, delta: str | float) -> float | None:
    if level == "none":
        return None
    if delta == "auto":
        return default_delta(units)
    if delta >= 1 / units:
        raise GraphDPError(
            f"config: delta {delta:g} must be below 1/{units}, one over the number of protected "
            f"{'edges' if level == 'edge' else 'nodes'}; use e.g. {default_delta(units):g}"
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


def noise_std(entry: dict[str, Any], phase: str) -> float:
    """σ of the Gaussian releases, or of the noisy gradient sums, of a phase: noise multiplier x
    sensitivity, both of the plan.

    0.0 where the plan noises nothing (level none). Raises `GraphDPError` if the plan has noise but
    no such phase.
    """
    if noise_multiplier(entry) == 0:
        return 0.0
    for mechanism in entry["plan"]["mechanisms"]:
        bound = mechanism.get("sensitivity") or mechanism.get("max_grad_norm")
        if mechanism["phase"] == phase and bound:
            return noise_multiplier(entry) * bound["value"]
    raise GraphDPError(f"the plan of {entry['settings']} noises no {phase!r}; run calibrate again")


def pure_epsilons(entry: dict[str, Any]) -> dict[str, float]:
    """Phase -> ε of the releases with pure ε of an entry's plan: share / noise multiplier.

    Raises `GraphDPError` without noise (ε = inf), where nothing is to be perturbed.
    """
    if noise_multiplier(entry) == 0:
        raise GraphDPError("no noise was calibrated, so there is no ε to perturb with")
    return {
        m["phase"]: m["share"] / noise_multiplier(entry)
        for m in entry["plan"]["mechanisms"]
        if "share" in m
    }


def label(entry: dict[str, Any]) -> dict[str, str]:
    """How a row's ε is to be read: basis, adjacency and status of the plan's analysis."""
    return {
        "epsilon_basis": entry["basis"] if entry["adjacency"] else "",
        "adjacency": entry["adjacency"],
        "epsilon_status": entry["status"],
    }


def private_phases(entry: dict[str, Any]) -> list[str]:
    """The phases of an entry's plan that train by DP-SGD, in order."""
    return [m["phase"] for m in entry["plan"]["mechanisms"] if "steps" in m]


def check_rounds(entry: dict[str, Any], phase: str, rounds: int) -> None:
    """Refuse a model that was not trained for exactly the noisy rounds that its plan accounts.

    Raises `GraphDPError` with both numbers.
    """
    planned = sum(m.get("steps", 0) for m in entry["plan"]["mechanisms"] if m["phase"] == phase)
    if planned != rounds:
        raise GraphDPError(
            f"{phase}: the plan accounts {planned} noisy rounds but {rounds} were run; the ε of "
            "this model does not hold"
        )
