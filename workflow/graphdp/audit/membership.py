"""Membership inference from the scores of audits: how often it is right, in numbers for a figure.

    python -m graphdp.audit.membership

runs the attacks that the methods' `audit.py` name as `MEMBERSHIP`, at every ε of the papers' grid
that has no line in `membership.csv` beside this file, and puts them there: a line for each attack
and ε, with the claimed ε's basis, adjacency, δ and status, `accuracy`, `auc` and `tpr` as of
`membership`, and a lower bound on ε of 95 % confidence. What has no line was not measured.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from graphdp import io
from graphdp.attacks.auc import auc
from graphdp.audit.bound import CONFIDENCE, lower_bound
from graphdp.errors import GraphDPError
from graphdp.methods import registry
from graphdp.privacy.calibration import Calibration, calibrate
from graphdp.privacy.plan import Plan

EPSILONS = (2, 4, 8, 16)
#: What was measured, shipped.
FILE = Path(__file__).with_name("membership.csv")
#: False positive rate at which the power is told.
FALSE_POSITIVES = 0.01


def membership(present: np.ndarray, absent: np.ndarray) -> dict[str, Any]:
    """accuracy, auc and tpr of an attack with these scores, float (n,) each, larger for "present".

    accuracy: share of right answers where both worlds are equally likely, with the threshold that
    is best on the even runs, counted on the odd ones. tpr: share of "present" above the
    (1 - `FALSE_POSITIVES`) quantile of "absent". Raises GraphDPError for NaN, or without scores.
    """
    area = auc(present, absent)
    thresholds = np.unique(np.concatenate([present[::2], absent[::2]]))
    low, high = np.sort(absent[::2]), np.sort(present[::2])
    right = np.searchsorted(low, thresholds, side="right") / len(low)
    right += 1 - np.searchsorted(high, thresholds, side="right") / len(high)
    best = thresholds[int(np.argmax(right))]
    accuracy = ((present[1::2] > best).mean() + (absent[1::2] <= best).mean()) / 2
    least = np.quantile(absent, 1 - FALSE_POSITIVES, method="higher")
    return {
        "accuracy": float(accuracy),
        "auc": area,
        "tpr": float((present > least).mean()),
        "false_positive_rate": FALSE_POSITIVES,
    }


@dataclass(frozen=True)
class Attack:
    """One line of a figure of membership inference.

    method: whose code is attacked. title: what is looked at. plan: whose ε is claimed, and which is
    calibrated for. scores: (calibration, runs, seed) -> scores with and without the node, float
    (runs,) each. runs: in each world.
    """

    method: str
    title: str
    plan: Plan
    delta: float
    scores: Callable[[Calibration, int, int], tuple[np.ndarray, np.ndarray]]
    runs: int


def attacks() -> list[Attack]:
    """Those of all methods."""
    modules = map(import_module, registry.modules("audit").values())
    return [attack for module in modules for attack in getattr(module, "MEMBERSHIP", ())]


def point(attack: Attack, epsilon: float, seed: int = 0) -> dict[str, Any]:
    """A line of `membership.csv`. Raises GraphDPError as calibration and the attack do."""
    calibration = calibrate(attack.plan, epsilon, attack.delta)
    scores = attack.scores(calibration, attack.runs, seed)
    return {
        "method": attack.method,
        "attack": attack.title,
        "epsilon": epsilon,
        "delta": attack.delta,
        "basis": attack.plan.basis,
        "adjacency": attack.plan.adjacency,
        "status": attack.plan.status,
        **{name: round(value, 4) for name, value in membership(*scores).items()},
        "lower_bound": round(lower_bound(*scores, attack.delta).epsilon, 3),
        "confidence": CONFIDENCE,
        "runs": attack.runs,
        "noise_multiplier": round(calibration.noise_multiplier, 4),
        "seed": seed,
    }


def main(arguments: list[str] | None = None) -> None:
    """The command of the module's docstring."""
    import pandas as pd
    import torch

    parser = argparse.ArgumentParser(prog="python -m graphdp.audit.membership")
    parser.add_argument("--threads", type=int, default=1, help="of torch (default: 1)")
    torch.set_num_threads(parser.parse_args(arguments).threads)
    asked = {(one.method, one.title, e): one for one in attacks() for e in EPSILONS}
    lines = {}
    if FILE.exists():
        for line in pd.read_csv(FILE).to_dict("records"):
            lines[line["method"], line["attack"], line["epsilon"]] = line
    for place, attack in asked.items():
        if place in lines:
            continue
        lines[place] = point(attack, place[-1])
        print(*lines[place].values(), flush=True)
        found = pd.DataFrame([lines[one] for one in asked if one in lines])
        with io.atomic_path(FILE) as temporary:
            found.to_csv(temporary, index=False, lineterminator="\n")


if __name__ == "__main__":
    try:
        main()
    except GraphDPError as error:
        sys.exit(f"error: {error}")
