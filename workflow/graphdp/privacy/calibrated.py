"""What a job reads of a calibration: the noise of a plan's phases, and what they account for."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphdp.errors import GraphDPError
from graphdp.privacy import execution
from graphdp.privacy.execution import Execution
from graphdp.privacy.plan import Plan


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


@dataclass(frozen=True)
class Phase:
    """One phase of a calibrated plan: the one source of what its loop does with noise.

    noise_multiplier: the plan's, which names noise streams. noise_unit: what σ is that multiple of.
    run: how the phase is run, with its σ.
    """

    noise_multiplier: float
    noise_unit: float
    run: Execution


def phases(entry: dict[str, Any]) -> dict[str, Phase]:
    """The phases of an entry's plan that have Gaussian noise, by name; {} where nothing is noised.

    Raises `GraphDPError` for noise of scale 0 with a finite ε, and for two mechanisms in one phase.
    """
    multiplier, found = noise_multiplier(entry), {}
    if multiplier == 0 and entry["target_epsilon"] == "inf":
        return {}
    clip = entry["settings"].get("max_grad_norm")
    for mechanism in Plan.from_dict(entry["plan"]).mechanisms:
        run = mechanism.execution(multiplier, entry["num_train"], clip)
        if run is None or mechanism.releases_nothing:
            continue
        if not (run.noise_std > 0 and math.isfinite(run.noise_std)):
            raise GraphDPError(f"noise of scale {run.noise_std} with a finite ε: calibrate again")
        if mechanism.phase in found:  # what a loop did is told by phase
            raise GraphDPError(
                f"the plan has two mechanisms in phase {mechanism.phase!r}; name them apart"
            )
        found[mechanism.phase] = Phase(multiplier, mechanism.noise_unit, run)
    return found


def phase(entry: dict[str, Any], name: str) -> Phase | None:
    """A phase of an entry's plan; None where the plan noises nothing (level none, ε = inf).

    Raises `GraphDPError` if the plan has noise but no such phase, and as `phases`.
    """
    found = phases(entry)
    if noise_multiplier(entry) == 0:
        return None
    if name not in found:
        raise GraphDPError(
            f"the plan of {entry['settings']} noises no {name!r}; run calibrate again"
        )
    return found[name]


def pure_epsilons(entry: dict[str, Any]) -> dict[str, float]:
    """Phase -> ε with which the releases with pure ε of an entry's plan perturb an answer: their
    share / noise multiplier, by the number of answers that differ, or an ε of their own.

    Raises `GraphDPError` without noise (ε = inf), where nothing is to be perturbed.
    """
    multiplier = noise_multiplier(entry)
    if multiplier == 0:
        raise GraphDPError("no noise was calibrated, so there is no ε to perturb with")
    mechanisms = Plan.from_dict(entry["plan"]).mechanisms
    epsilons = {m.phase: m.own_epsilon(multiplier) for m in mechanisms}
    return {phase: epsilon for phase, epsilon in epsilons.items() if epsilon is not None}


def answers(entry: dict[str, Any]) -> dict[str, Execution]:
    """The phases of an entry's plan that randomise answers, by name, and how; {} without noise."""
    multiplier = noise_multiplier(entry)
    if multiplier == 0:
        return {}
    mechanisms = Plan.from_dict(entry["plan"]).mechanisms
    found = {m.phase: m.answering(multiplier) for m in mechanisms if not m.releases_nothing}
    return {phase: run for phase, run in found.items() if run is not None}


def label(entry: dict[str, Any]) -> dict[str, str]:
    """How a row's ε is to be read: basis, adjacency and status of the plan's analysis."""
    return {
        "epsilon_basis": entry["basis"] if entry["adjacency"] else "",
        "adjacency": entry["adjacency"],
        "epsilon_status": entry["status"],
    }


def check_execution(entry: dict[str, Any], executed: Mapping[str, Execution]) -> None:
    """Refuse a model whose noise was not exactly that of its plan (`execution.check`).

    executed: phase -> what its loop wrote down, for all phases with Gaussian noise, and for those
    that randomise answers.
    """
    planned = {name: one.run for name, one in phases(entry).items()} | answers(entry)
    execution.check(planned, executed)
