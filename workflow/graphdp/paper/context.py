"""The context of a study: what its tables, figures and report know besides the rows."""

from collections.abc import Mapping
from typing import Any


def study_context(
    study: Mapping[str, Any],
    statistics: Mapping[str, Mapping[str, Any]],
    calibrations: list[list[dict[str, Any]]],
) -> dict[str, Any]:
    """Put together the context that `graphdp.paper.cells` describes.

    study: what `graphdp.workflow.asked.about` says of it.
    statistics: dataset -> what `graphdp.data.preprocess.statistics` gives. calibrations: the
    calibration files' entries, one list per cell (see `graphdp.privacy.calibrated`).
    """
    return dict(study) | {
        "statistics": dict(statistics),
        "calibrations": [_calibration(entry) for entries in calibrations for entry in entries],
    }


def _calibration(entry: dict[str, Any]) -> dict[str, Any]:
    by_accountant = {a["accountant"]: a["epsilon"] for a in entry["accounting"]}
    return {
        "dataset": entry["dataset"],
        "method": entry["plan"]["method"],
        "level": entry["plan"]["level"],
        "epsilon": f"{float(entry['target_epsilon']):g}",
        "delta": entry["delta"],
        "noise_multiplier": entry["noise_multiplier"],
        "hyperparameters": entry["settings"],
        "accountant": entry["accounting"][0]["accountant"],
        "epsilon_accounted": entry["epsilon"],
        "epsilon_dp_accounting": by_accountant.get("dp_accounting"),
        "basis": entry["basis"],
        "adjacency": entry["adjacency"],
        "status": entry["status"],
        "assumptions": entry["plan"]["assumptions"],
    }
