"""The words around every number: methods' names, and an ε that is never printed bare.

A printed ε carries its level, its basis (whose formula it comes from), δ, the adjacency that it is
about and whether that claim is proven, conditional or refuted.
"""

import math
import re
from collections.abc import Iterable, Mapping

from graphdp.errors import GraphDPError
from graphdp.privacy.plan import level_kind, neighbors

STATUSES = ("proven", "conditional", "refuted")

BASES = {
    "as_published": "as published",
    "as_implemented": "as implemented",
    "corrected": "corrected",
    "audited": "audited",
}

ADJACENCIES = {
    "edge_directed": "one directed edge added or removed (an undirected edge is two of them)",
    "edge_undirected": "one undirected edge (both directions) added or removed",
    "node_add_remove": "one node added or removed",
    "node_replace": "one node replaced",
    "participant": "one node takes part or not, other nodes' lists fixed",
}

# The same in a few words, for the head of a column.
_BRIEFLY = {
    "edge_directed": "directed edge",
    "edge_undirected": "undirected edge",
    "node_add_remove": "node added or removed",
    "node_replace": "node replaced",
    "participant": "participant",
    "k_neighbor": "k neighbours replaced",
}

# Methods that never read an edge: what they train without privacy has ε = 0 at the edge level.
EDGE_FREE_METHODS = frozenset({"mlp"})

_METHODS = {"gap": "GAP", "progap": "ProGAP", "sage": "SAGE", "dpdgc": "DPDGC", "mlp": "MLP"}
# A published method as its authors' code runs it: its name, and the method that it should be.
AS_IMPLEMENTED = {"dpdgcofficial": "dpdgc"}
_SUFFIXES = {"none": "-∞", "edge": "-EDP", "node": "-NDP"}


def method_name(method: str) -> str:
    """The papers' name of a method, whatever the level: `"gap"` is "GAP"."""
    if method in AS_IMPLEMENTED:
        return f"{method_name(AS_IMPLEMENTED[method])} (as implemented)"
    return _METHODS.get(method, method.upper())


def method_label(method: str, level: str) -> str:
    """The papers' name of a method at a level: `("gap", "node")` is "GAP-NDP".

    At a k-neighbour level "k5" it ends in "-N5" (DPDGC's notation).
    """
    if method in AS_IMPLEMENTED:
        return f"{method_label(AS_IMPLEMENTED[method], level)} (as implemented)"
    name = method_name(method)
    if method in EDGE_FREE_METHODS:
        return f"{name}-DP" if level == "node" else name
    return name + (_SUFFIXES.get(level) or f"-N{neighbors(level)}")


def level_text(level: str) -> str:
    """A level in words: "edge level", "5-neighbour level"."""
    k = neighbors(level)
    return f"{level} level" if k is None else f"{k}-neighbour level"


def level_order(level: str) -> tuple[int, int]:
    """A sort key of levels: none, edge, k-neighbour by k, node."""
    return {"none": 0, "edge": 1, "k": 2, "node": 3}[level_kind(level)], neighbors(level) or 0


def is_level(level: str) -> bool:
    """Whether `level` names a privacy level."""
    return level in _SUFFIXES or neighbors(level) is not None


def canonical_epsilon(token: str) -> str:
    """The one spelling of an ε token ("4.0" and "4" are the same cell).

    Raises GraphDPError for anything but a number ≥ 0 or "inf".
    """
    try:
        value = float(token)
    except (TypeError, ValueError):
        value = math.nan
    if not value >= 0:
        raise GraphDPError(f"epsilon {token!r} is not a token; use a number >= 0 or 'inf'")
    return f"{value:.12g}"


def delta_text(delta: float) -> str:
    """δ for people: 1e-07 is "1e-7"."""
    if delta == 0:
        return "0"
    mantissa, exponent = f"{delta:.2e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}e{int(exponent)}"


def basis_text(basis: str) -> str:
    """A basis in words; an unknown one is shown as it is, an empty one is the paper's."""
    return BASES.get(basis, basis.replace("_", " ")) if basis else BASES["as_published"]


def adjacency_text(adjacency: str) -> str:
    """An adjacency with its meaning: "node_add_remove: one node added or removed"."""
    meaning = ADJACENCIES.get(adjacency)
    if adjacency.startswith("k_neighbor("):
        k = adjacency[len("k_neighbor(") : -1]
        meaning = f"one node's features, label, and {k} each of its in- and out-edges replaced"
    return f"{adjacency}: {meaning}" if meaning else adjacency


def status_text(status: str) -> str:
    """What a status says about the ε beside it; the ε that holds under a refuted claim is none."""
    return {
        "proven": "proven",
        "conditional": "conditional",
        "refuted": "refuted, ε that holds: none",
        "": "status not stated",
    }.get(status, status)


def _unnumbered(adjacency: str) -> str:
    """ "k_neighbor" for every k_neighbor(k)."""
    return re.sub(r"\(\d+\)$", "", adjacency)


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
            adjacency = column.removeprefix(f"{name}_")
            return f"ε {words}, {_BRIEFLY.get(_unnumbered(adjacency), adjacency)}"
    return None


def reading_order(column: str) -> tuple[bool, str]:
    """A sort key of `reading_column` names: as the paper and its code have it, then corrected."""
    return column.startswith("epsilon_corrected"), column.replace("published", "")


def scope_text(level: str, basis: str = "", deltas: Iterable[float] = ()) -> str:
    """What stands in the brackets after an ε: level, basis and, where known, δ.

    Several different δ (a δ follows the size of the graph) are given as their range.
    """
    parts = [level_text(level), basis_text(basis)]
    known = sorted({delta for delta in deltas if not math.isnan(delta)})
    if known:
        ends = [delta_text(known[0]), delta_text(known[-1])]
        parts.append("δ = " + (ends[0] if len(known) == 1 else " to ".join(ends)))
    return ", ".join(parts)


def epsilon_label(
    level: str, epsilon: str, basis: str = "", deltas: Iterable[float] = (), status: str = ""
) -> str:
    """An ε with its label, e.g. "ε = 4 (edge level, as published, δ = 1e-7)".

    A refuted one is printed as a claim: "claimed ε = 8 (...; refuted, ε that holds: none)".
    """
    if level == "none":
        return "ε = ∞ (no privacy)"
    value = "∞" if epsilon == "inf" else epsilon
    if float(epsilon) == 0:
        return f"ε = 0 ({level_text(level)}, the method reads no edges)"
    scope = scope_text(level, basis, deltas)
    if status == "refuted":
        return f"claimed ε = {value} ({scope}; {status_text(status)})"
    if status == "conditional":
        return f"ε = {value} ({scope}; conditional)"
    return f"ε = {value} ({scope})"


def explain(level: str, adjacency: str, status: str) -> str:
    """One paragraph in plain language on what an ε of this kind promises, and what it does not."""
    if level == "none":
        return (
            "ε = ∞ (no privacy): no noise was added. These results show what the methods reach "
            "without any protection."
        )
    promise = _PROMISES.get(
        _unnumbered(adjacency),
        f"The ε at {level_text(level)} is stated under the adjacency "
        f"{adjacency or 'not stated'!r}.",
    )
    return " ".join([promise, _VERDICTS.get((adjacency, status)) or _VERDICTS[status]])


EDGE_FREE_MEANING = (
    "ε = 0 (edge level): the method reads no edges, so nothing that it releases depends on them."
)

_PROMISES = {
    "edge_directed": (
        "Edge level, one directed edge: whether any single directed entry of the adjacency matrix "
        "is present changes the probability of any outcome by at most a factor exp(ε), except with "
        "probability about δ. Features and labels are taken as public. The graphs are "
        "symmetrised, so one friendship is two entries: for it the released sums move by √2 as "
        "much, and the ε that holds is larger than the one printed."
    ),
    "edge_undirected": (
        "Edge level, one undirected edge: whether any single connection (both directions) is "
        "present changes the probability of any outcome by at most a factor exp(ε), except with "
        "probability about δ. Features and labels are taken as public."
    ),
    "node_add_remove": (
        "Node level, one node added or removed: the claim is that the presence of any one person "
        "with features, label and all edges changes the probability of any outcome by at most a "
        "factor exp(ε), except with probability about δ."
    ),
    "node_replace": (
        "Node level, one node replaced: the claim is that exchanging one person's features, label "
        "and edges for any others changes the probability of any outcome by at most a factor "
        "exp(ε), except with probability about δ. The node's own row of released matrices is not "
        "covered."
    ),
    "k_neighbor": (
        "k-neighbour level: the claim is that exchanging one person's features, label, k of the "
        "edges that arrive and k of those that leave changes the probability of any outcome by at "
        "most a factor exp(ε), except with probability about δ. The person's own row of released "
        "matrices is not covered."
    ),
    "participant": (
        "Node level, participant: the graph is fixed and every other node keeps its list of "
        "neighbours; whether one person takes part changes the probability of any outcome by at "
        "most a factor exp(ε), except with probability about δ. The person's own row of released "
        "matrices is not covered."
    ),
}

_VERDICTS = {
    "proven": "The claim is proven.",
    "conditional": "The claim holds only under its assumptions.",
    "refuted": (
        "The claim is refuted: a counterexample exists, so no ε is known to hold and the number "
        "printed is only the paper's claim for this amount of noise."
    ),
    "": "Whether the claim holds is not stated.",
    ("node_add_remove", "refuted"): (
        "The claim fails: the degree bound samples each node's "
        "neighbours at random, and removing one person changes the samples of everybody who points "
        "to that person, so the released sums can move by far more than the claimed √D. The "
        "person's own row is not covered either. No ε is known to hold; the number printed is only "
        "the paper's claim for this amount of noise."
    ),
}


def notes(cells: list[Mapping]) -> list[str]:
    """The sentences that must stand under a table or figure: basis, adjacency, status and δ.

    `cells` are mappings with method, level, epsilon, epsilon_basis, adjacency, epsilon_status,
    delta and dataset; cells without a result say nothing. Order of the result: edge, k-neighbour,
    node.
    """
    groups: dict[tuple, dict] = {}
    for cell in cells:
        if cell["level"] == "none" or float(cell["epsilon"]) == 0 or not cell["adjacency"]:
            continue
        key = (cell["level"], cell["epsilon_basis"], cell["adjacency"], cell["epsilon_status"])
        group = groups.setdefault(key, {"methods": set(), "deltas": {}})
        group["methods"].add(method_label(cell["method"], cell["level"]))
        group["deltas"].setdefault(delta_text(cell["delta"]), set()).add(cell["dataset"])
    sentences = []
    ordered = sorted(groups.items(), key=lambda item: (level_order(item[0][0]), item[0]))
    for (level, basis, adjacency, status), group in ordered:
        deltas = ", ".join(
            f"δ = {value}" + (f" ({', '.join(sorted(names))})" if len(group["deltas"]) > 1 else "")
            for value, names in sorted(group["deltas"].items())
        )
        sentences.append(
            f"{', '.join(sorted(group['methods']))}: ε at {level_text(level)}, "
            f"{basis_text(basis)}, {deltas}; adjacency {adjacency_text(adjacency)}; "
            f"{status_text(status)}."
        )
    return sentences
