"""The names of degree bounds, by which settings ask for them and masks are kept."""

from collections.abc import Mapping
from typing import Any


def bound_name(setting: Mapping[str, Any]) -> str:
    """The name of a setting's degree bound, e.g. "100" (sampling), "100-public_candidates" or
    "100-both_degrees" (`bound_degrees`)."""
    how = setting.get("degree_bound") or "sampling"
    return f"{setting['max_degree']}" + ("" if how == "sampling" else f"-{how}")


def parse_bound(name: str) -> tuple[int, str]:
    """(max_degree, "sampling", "public_candidates" or "both_degrees") of a `bound_name`."""
    max_degree, _, how = name.partition("-")
    return int(max_degree), how or "sampling"
