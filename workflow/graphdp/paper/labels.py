"""The words around every number: methods' names, and an ε that is never printed bare.

A printed ε carries its level, its basis (whose formula it comes from), δ, the adjacency that it is
about and whether that claim is proven, conditional or refuted.
"""

import json
import math
from collections.abc import Iterable, Mapping
from functools import cache

from graphdp.methods.registry import cards
from graphdp.privacy import plan
from graphdp.privacy.protection import (
    adjacency,
    adjacency_text,
    is_private,
    level_kind,
    level_order,
    level_suffix,
    level_text,
)
from graphdp.privacy.rounding import at_most

#: Whose formula an ε comes from, in words; audits' ε are of no plan.
BASES = {name: name.replace("_", " ") for name in (*plan.BASES, "audited")}


@cache
def edge_free_methods() -> frozenset[str]:
    """The methods that never read an edge: what they train without privacy has ε = 0 there."""
    return frozenset(name for name, its in cards().items() if not its.reads_edges)


@cache
def as_implemented() -> dict[str, str]:
    """A published method as its authors' code runs it -> the method that it should be."""
    found = {name: its.as_implemented_of for name, its in cards().items()}
    return {name: method for name, method in found.items() if method}


def method_name(method: str) -> str:
    """The papers' name of a method, whatever the level; an unknown one in capitals."""
    if method not in cards():
        return method.upper()
    its = cards()[method]
    return f"{its.title} (its code)" if its.as_implemented_of else its.title


def method_label(method: str, level: str) -> str:
    """The papers' name of a method at a level: "GAP-NDP" at level "node".

    At a k-neighbour level "k5" it ends in "-N5" (DPDGC's notation).
    """
    its = cards().get(method)
    if its is None:
        return method.upper() + level_suffix(level)
    title = its.level_titles.get(level_kind(level), its.title + level_suffix(level))
    return f"{title} (its code)" if its.as_implemented_of else title


def covers_weights_alone(cell: Mapping) -> bool:
    """Whether the ε of a cell (method, level and hyperparameters as JSON) is of its weights, and of
    no prediction."""
    its = cards().get(cell["method"])
    settings = cell.get("hyperparameters")
    return (
        its is not None
        and isinstance(settings, str)
        and its.weights_alone(cell["level"], json.loads(settings))
    )


def delta_text(delta: float) -> str:
    """δ for people, rounded up to three digits: 1e-07 is "1e-7"."""
    if delta == 0:
        return "0"
    mantissa, exponent = f"{float(at_most(delta, 3)):.2e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}e{int(exponent)}"


def basis_text(basis: str) -> str:
    """A basis in words; an unknown one is shown as it is, an empty one is the paper's."""
    return BASES.get(basis, basis.replace("_", " ")) if basis else BASES["as_published"]


def status_text(status: str) -> str:
    """What a status says about the ε beside it: under a refuted claim it is no guarantee."""
    return {
        "proven": "proven",
        "conditional": "conditional",
        "refuted": "refuted, no guarantee",
        "": "status not stated",
    }.get(status, status)


def short_status(status: str) -> str:
    """A status in a word, where what it means stands elsewhere."""
    return status_text(status).partition(",")[0]


def reading_column(basis: str, adjacency: str) -> str:
    """The tidy column with what a model's noise is worth under one analysis.

    A method has one published analysis, so the adjacency tells only the corrected ones apart.
    """
    return f"epsilon_{basis}_{adjacency}" if basis == "corrected" else f"epsilon_{basis}"


def reading_title(column: str) -> str | None:
    """The head of a column named by `reading_column`; None for any other column."""
    for basis, words in BASES.items():
        name = f"epsilon_{basis}"
        if column == name:
            return f"ε {words}"
        if column.startswith(f"{name}_"):
            name = column.removeprefix(f"{name}_")
            known = adjacency(name)
            return f"ε {words}, {known.briefly if known else name}"
    return None


def reading_order(column: str) -> tuple[bool, str]:
    """A sort key of `reading_column` names: as the paper and its code have it, then corrected."""
    return column.startswith("epsilon_corrected"), column.replace("published", "")


def scope_text(
    level: str, basis: str = "", deltas: Iterable[float] = (), adjacent: str = ""
) -> str:
    """What stands in the brackets after an ε: level, basis and, where known, adjacency and δ.

    Several different δ (a δ follows the size of the graph) are given as their range.
    """
    parts = [level_text(level), basis_text(basis), *filter(None, [adjacent])]
    known = sorted({delta for delta in deltas if not math.isnan(delta)})
    if known:
        ends = [delta_text(known[0]), delta_text(known[-1])]
        parts.append("δ = " + (ends[0] if len(known) == 1 else " to ".join(ends)))
    return ", ".join(parts)


def epsilon_label(
    level: str,
    epsilon: str,
    basis: str = "",
    deltas: Iterable[float] = (),
    status: str = "",
    adjacent: str = "",
) -> str:
    """An ε with its label, e.g. "ε = 4 (edge level, as published, edge_directed, δ = 1e-7;
    proven)".

    A refuted one is printed as a claim: "claimed ε = 8 (...; refuted, no guarantee)".
    """
    if not is_private(level):
        return "ε = ∞ (no privacy)"
    value = "∞" if epsilon == "inf" else epsilon
    if float(epsilon) == 0:
        return f"ε = 0 ({level_text(level)}, the method reads no edges)"
    scope = scope_text(level, basis, deltas, adjacent)
    if basis == "not_calibrated" and not status:  # nothing is claimed of it
        return f"ε = {value} ({scope})"
    claimed = "claimed " if status == "refuted" else ""
    return f"{claimed}ε = {value} ({scope}; {status_text(status)})"


def explain(level: str, adjacent: str, status: str) -> str:
    """One paragraph in plain language on what an ε of this kind promises, and what it does not."""
    if not is_private(level):
        return (
            "ε = ∞ (no privacy): no noise was added. These results show what the methods reach "
            "without any protection."
        )
    known = adjacency(adjacent)
    promise = (
        known.promise
        if known
        else f"The ε at {level_text(level)} is stated under the adjacency "
        f"{adjacent or 'not stated'!r}."
    )
    refuted = known.refuted if known and status == "refuted" else ""
    return " ".join([promise, refuted or _VERDICTS[status]])


#: What drew the noise of rows that do not say it: they are older than `graphdp.noise`.
OLDER_NOISE = "float32 torch, float64 numpy"
#: Of models whose noise torch drew in float32.
LATTICE_MEANING = (
    "Noise of training that torch draws in float32 lies on a lattice, which gives records away to "
    "whoever sees the noisy sums, at any ε (audits noise_lattice_*). The accuracies stand; each ε "
    "is that of the mechanism with ideal noise, not of the noise that was drawn."
)
#: The same in short, under tables and figures.
LATTICE_NOTE = (
    "torch's float32 noise lies on a lattice (audits noise_lattice_*): each ε is the mechanism's"
)
EDGE_FREE_MEANING = (
    "ε = 0 (edge level): the method reads no edges, so nothing that it releases depends on them."
)

_VERDICTS = {
    "proven": "The claim is proven.",
    "conditional": "The claim holds only under its assumptions.",
    "refuted": (
        "The claim is refuted: a counterexample exists, so no ε is known to hold and the number "
        "printed is only the paper's claim for this amount of noise."
    ),
    "": "Whether the claim holds is not stated.",
}


def held_under(cell: Mapping, adjacency: str) -> dict | None:
    """The analysis of a cell by which its ε holds under another adjacency than its claim's: it is
    not refuted, and its ε at most the claimed one.

    cell: with the rows' `epsilons` (JSON), or with a tidy table's columns (`reading_column`), whose
    ε has four digits. Returns basis and status.
    """
    analyses = json.loads(cell.get("epsilons") or "[]")
    reading = cell.get(reading_column("corrected", adjacency)) or "none"
    if reading != "none":
        epsilon, status = reading.split(", ")
        analyses.append(
            {"adjacency": adjacency, "basis": "corrected", "epsilon": epsilon, "status": status}
        )
    for analysis in analyses:
        epsilon = math.inf if analysis["epsilon"] == "none" else float(analysis["epsilon"])
        held = math.isfinite(epsilon) and epsilon <= float(cell["epsilon"])
        if analysis["adjacency"] == adjacency and held:
            return {"basis": analysis["basis"], "status": analysis["status"]}
    return None


def notes(cells: list[Mapping]) -> list[str]:
    """The sentences that must stand under a table or figure: basis, adjacency, status and δ.

    `cells` are mappings with method, level, epsilon, epsilon_basis, adjacency, epsilon_status,
    delta and dataset, perhaps noise; cells without a result say nothing. Order of the result: edge,
    k-neighbour, node; then what drew the noise, where that is not `graphdp.noise`.
    """
    groups: dict[tuple, dict] = {}
    for cell in cells:
        if not is_private(cell["level"]) or float(cell["epsilon"]) == 0 or not cell["adjacency"]:
            continue
        key = (cell["level"], cell["epsilon_basis"], cell["adjacency"], cell["epsilon_status"])
        group = groups.setdefault(key, {"methods": set(), "deltas": {}})
        group["methods"].add(method_label(cell["method"], cell["level"]))
        group["deltas"].setdefault(delta_text(cell["delta"]), set()).add(cell["dataset"])
    sentences = []
    ordered = sorted(groups.items(), key=lambda item: (level_order(item[0][0]), item[0]))
    for (level, basis, adjacent, status), group in ordered:
        deltas = ", ".join(
            f"δ = {value}" + (f" ({', '.join(sorted(names))})" if len(group["deltas"]) > 1 else "")
            for value, names in sorted(group["deltas"].items())
        )
        sentences.append(
            f"{', '.join(sorted(group['methods']))}: ε at {level_text(level)}, "
            f"{basis_text(basis)}, {deltas}; adjacency {adjacency_text(adjacent)}; "
            f"{status_text(status)}."
        )
    older = {
        method_label(cell["method"], cell["level"])
        for cell in cells
        if cell.get("noise") == OLDER_NOISE
    }
    if older:
        sentences.append(f"{', '.join(sorted(older))}: {LATTICE_NOTE}.")
    return sentences
