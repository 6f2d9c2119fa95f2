"""Who is protected: levels, adjacencies and units, with the words for them.

A **level** says what kind of thing a method protects; configurations, rows and files name it. An
**adjacency** says exactly what two graphs differ in of which an ε speaks. Everything that depends
on either is asked here, so that a further one (local randomisation, several parties) is one entry
of a table.
"""

import math
import re
from dataclasses import dataclass
from typing import Any

from graphdp.errors import GraphDPError


@dataclass(frozen=True)
class Level:
    """A kind of level.

    kind: "none", "edge", "node", or "k" for every k-neighbour level "k<number>". order: where it
    stands in tables. suffix: of a method's title there ("{k}" is the number). protects_edges,
    protects_nodes: what is private; where nodes are (features and labels), training draws noise.
    """

    kind: str
    order: int
    suffix: str
    protects_edges: bool
    protects_nodes: bool


#: By kind. "k5" (any number) protects a node's features and label, and 5 of its neighbours.
KINDS: dict[str, Level] = {
    level.kind: level
    for level in (
        Level("none", 0, "-∞", protects_edges=False, protects_nodes=False),
        Level("edge", 1, "-EDP", protects_edges=True, protects_nodes=False),
        Level("k", 2, "-N{k}", protects_edges=True, protects_nodes=True),
        Level("node", 3, "-NDP", protects_edges=True, protects_nodes=True),
    )
}
#: A smaller target but 0 is refused: searches for noise end at rounding errors there.
LEAST_EPSILON = 1e-6
#: And a larger finite one: there is no noise of which they could be sure.
MOST_EPSILON = 1e6
#: Below, what accountants compute with leaves the range of floats.
LEAST_DELTA = 1e-300
#: As messages and documents name them.
LEVELS = ("none", "edge", "node", "k<number>")


def neighbors(level: Any) -> int | None:
    """The k of a k-neighbour level ("k5" gives 5); None at every other level."""
    found = re.fullmatch(r"k([1-9][0-9]*)", level) if isinstance(level, str) else None
    return None if found is None else int(found[1])


def level_kind(level: str) -> str:
    """The kind of a level: "none", "edge", "node", or "k" for every k-neighbour level."""
    return level if neighbors(level) is None else "k"


def is_level(level: Any) -> bool:
    """Whether `level` names a privacy level ("k" alone does not)."""
    return neighbors(level) is not None or (level in KINDS and level != "k")


def check_level(what: str, level: Any) -> None:
    """GraphDPError unless `level` is one of `LEVELS`."""
    if not is_level(level):
        raise GraphDPError(f"{what} is {level!r}; choose one of {', '.join(LEVELS)}")


def is_private(level: str) -> bool:
    """Whether anything is protected: every level but "none"."""
    return KINDS[level_kind(level)].protects_edges or protects_nodes(level)


def protects_nodes(level: str) -> bool:
    """Whether features and labels are private; training then draws noise."""
    return KINDS[level_kind(level)].protects_nodes


def whole_nodes(level: str) -> bool:
    """Whether a node is protected with all of its edges."""
    return protects_nodes(level) and neighbors(level) is None


def edges_alone(level: str) -> bool:
    """Whether edges are private, and features, labels and the set of nodes public."""
    return KINDS[level_kind(level)].protects_edges and not protects_nodes(level)


def level_text(level: str) -> str:
    """A level in words: "edge level", "5-neighbour level"; "no privacy" of none."""
    if not is_private(level):
        return "no privacy"
    k = neighbors(level)
    return f"{level} level" if k is None else f"{k}-neighbour level"


def level_order(level: str) -> tuple[int, int]:
    """A sort key of levels: none, edge, k-neighbour by k, node."""
    return KINDS[level_kind(level)].order, neighbors(level) or 0


def level_suffix(level: str) -> str:
    """What a method's title ends in at a level: "-EDP", "-N5"."""
    return KINDS[level_kind(level)].suffix.format(k=neighbors(level))


@dataclass(frozen=True)
class Adjacency:
    """What two adjacent graphs differ in.

    counts: the units among which one differs: "edges" (entries of the adjacency matrix) or "nodes"
    (all of them: those without a training label are protected as well). published_counts: those by
    whose number published code chooses δ, also "train": GAP's and ProGAP's code looks at training
    nodes alone. meaning: after its name;
    briefly: at the head of a column; unit: in a privacy statement; promise: what an ε means, in
    plain words; refuted: what to say where such a claim is refuted, if there is more to say.
    hides_presence: whether a unit is there or not is protected, so that the set of nodes is not
    public. graph_stays: both graphs hold it, edges and all; in one of them it does not take part.
    "{k}" in a text is the number of neighbours.
    """

    name: str
    counts: str
    meaning: str
    briefly: str
    unit: str
    promise: str
    published_counts: str = ""
    hides_presence: bool = False
    graph_stays: bool = False
    refuted: str = ""


ADJACENCIES: dict[str, Adjacency] = {
    adjacency.name: adjacency
    for adjacency in (
        Adjacency(
            "edge_directed",
            counts="edges",
            meaning="one directed edge added or removed (an undirected edge is two of them)",
            briefly="directed edge",
            unit="one directed edge (one entry of the adjacency matrix)",
            promise=(
                "Edge level, one directed edge: whether any single directed entry of the "
                "adjacency matrix is present changes the probability of any outcome by at most a "
                "factor exp(ε), except with probability about δ. Features and labels are taken as "
                "public. The graphs are symmetrised, so one friendship is two entries: for it the "
                "released sums move by √2 as much, and the ε that holds is larger than the one "
                "printed."
            ),
        ),
        Adjacency(
            "edge_undirected",
            counts="edges",
            meaning="one undirected edge (both directions) added or removed",
            briefly="undirected edge",
            unit="one undirected edge (both entries)",
            promise=(
                "Edge level, one undirected edge: whether any single connection (both directions) "
                "is present changes the probability of any outcome by at most a factor exp(ε), "
                "except with probability about δ. Features and labels are taken as public."
            ),
        ),
        Adjacency(
            "node_add_remove",
            counts="nodes",
            published_counts="train",
            hides_presence=True,
            meaning="one node added or removed",
            briefly="node added or removed",
            unit="one node with its features, label and edges, there or not",
            promise=(
                "Node level, one node added or removed: the claim is that the presence of any one "
                "person with features, label and all edges changes the probability of any outcome "
                "by at most a factor exp(ε), except with probability about δ."
            ),
            refuted=(
                "The claim fails: the degree bound samples each node's neighbours at random, and "
                "removing one person changes the samples of everybody who points to that person, "
                "so the released sums can move by far more than the claimed √D. The person's own "
                "row is not covered either. No ε is known to hold; the number printed is only the "
                "paper's claim for this amount of noise."
            ),
        ),
        Adjacency(
            "node_replace",
            counts="nodes",
            meaning="one node replaced",
            briefly="node replaced",
            unit="one node whose features, label and edges are replaced",
            promise=(
                "Node level, one node replaced: the claim is that exchanging one person's "
                "features, label and edges for any others changes the probability of any outcome "
                "by at most a factor exp(ε), except with probability about δ. The node's own row "
                "of released matrices is not covered."
            ),
        ),
        Adjacency(
            "node_replace_own_list",
            counts="nodes",
            meaning="one node's data and own list replaced, other nodes' lists fixed",
            briefly="node and own list replaced",
            unit="one node whose features, label and own list of neighbours are replaced",
            promise=(
                "Node level, one node's own data replaced: exchanging one person's features, label "
                "and own list of neighbours for any others changes the probability of any outcome "
                "by at most a factor exp(ε), except with probability about δ. Edges to that person "
                "that stand in others' lists stay and are not protected: where a friendship stands "
                "in both lists, that it is there is not hidden. Unless the method says so, the "
                "person's own row of released matrices is not covered."
            ),
        ),
        Adjacency(
            "participant",
            counts="nodes",
            published_counts="train",
            hides_presence=True,
            graph_stays=True,
            meaning="one node takes part or not, other nodes' lists fixed",
            briefly="participant",
            unit="one node that takes part with its features, label and what it sends along its "
            "edges, or does not",
            promise=(
                "Node level, participant: the graph is fixed and every other node keeps its list "
                "of neighbours; whether one person takes part changes the probability of any "
                "outcome by at most a factor exp(ε), except with probability about δ. The person's "
                "own row of released matrices is not covered."
            ),
        ),
        Adjacency(
            "participant_peripheral",
            counts="nodes",
            published_counts="train",
            hides_presence=True,
            graph_stays=True,
            meaning="one node without a training label takes part or not, other nodes' lists fixed",
            briefly="participant without a label",
            unit="one node without a training label that takes part with its features and what it "
            "sends along its edges, or does not",
            promise=(
                "Node level, participant without a training label: the graph is fixed and every "
                "other node keeps its list of neighbours; whether one person who is never trained "
                "on, but may be a neighbour of those who are, takes part changes the probability "
                "of any outcome by at most a factor exp(ε), except with probability about δ."
            ),
        ),
        Adjacency(
            "node_add_remove_peripheral",
            counts="nodes",
            published_counts="train",
            hides_presence=True,
            meaning="one node without a training label added or removed",
            briefly="node without a label added or removed",
            unit="one node without a training label, with its features and edges, there or not",
            promise=(
                "Node level, one node without a training label added or removed: the presence of "
                "any one person who is never trained on, but may be a neighbour of those who are, "
                "changes the probability of any outcome by at most a factor exp(ε), except with "
                "probability about δ."
            ),
        ),
        Adjacency(
            "k_neighbor",
            counts="nodes",
            meaning=(
                "one node's features and label replaced, {k} each of its in- and out-edges put in "
                "or left out"
            ),
            briefly="k neighbours replaced",
            unit=(
                "one node whose features and label are replaced, and {k} in-edges and {k} "
                "out-edges put in or left out (one exchanged for another is two)"
            ),
            promise=(
                "k-neighbour level: the claim is that exchanging one person's features and label, "
                "and putting in or leaving out k of the edges that arrive and k of those that "
                "leave (one exchanged for another is two), changes the probability of any outcome "
                "by at most a factor exp(ε), except with probability about δ. The person's own "
                "row of released matrices is not covered."
            ),
        ),
    )
}
#: Of a node whose data are exchanged for others (a k-neighbour's have accounting of their own).
REPLACED, OWN_LIST_REPLACED = "node_replace", "node_replace_own_list"
#: As messages and documents name them; `k_neighbor(k)` stands for every k ≥ 0.
ADJACENCY_NAMES = tuple(name if name != "k_neighbor" else "k_neighbor(k)" for name in ADJACENCIES)


def k_adjacency(k: int) -> str:
    """The name of the k-neighbour adjacency: "k_neighbor(5)"."""
    return f"k_neighbor({k})"


def _parsed(name: Any) -> tuple[str, str] | None:
    """(key of `ADJACENCIES`, k as text) of an adjacency's name; None for any other text."""
    found = re.fullmatch(r"(k_neighbor)\((\d+)\)", name) if isinstance(name, str) else None
    if found:
        return found[1], found[2]
    return (name, "") if name in ADJACENCIES and name != "k_neighbor" else None


def is_adjacency(name: Any) -> bool:
    """Whether `name` names an adjacency of the project's vocabulary (`ADJACENCY_NAMES`)."""
    return _parsed(name) is not None


def adjacency(name: str) -> Adjacency | None:
    """What is known of an adjacency; None of an unknown one ("" at level none)."""
    parsed = _parsed(name)
    return None if parsed is None else ADJACENCIES[parsed[0]]


def adjacency_text(name: str) -> str:
    """An adjacency with its meaning: "node_add_remove: one node added or removed"."""
    parsed = _parsed(name)
    if parsed is None:
        return name
    return f"{name}: {ADJACENCIES[parsed[0]].meaning.format(k=parsed[1])}"


def unit_text(name: str) -> str:
    """The protected unit in words; "nobody" for no adjacency."""
    parsed = _parsed(name)
    return "nobody" if parsed is None else ADJACENCIES[parsed[0]].unit.format(k=parsed[1])


def hides_presence(name: str) -> bool:
    """Whether an adjacency protects which nodes there are; False where none is known."""
    known = adjacency(name)
    return known is not None and known.hides_presence


def graph_stays(name: str) -> bool:
    """Whether both of two adjacent graphs hold the unit, which takes part in one of them alone."""
    known = adjacency(name)
    return known is not None and known.graph_stays


def replaces(name: str) -> bool:
    """Whether a node's data are exchanged for others, so that one record stands for another."""
    return name in (REPLACED, OWN_LIST_REPLACED)


def protected_units(name: str, edges: int, nodes: int) -> int:
    """How many units an adjacency protects: δ has to lie below one over their number.

    edges: entries of the adjacency matrix. nodes: all nodes of the graph.

    Raises GraphDPError for an unknown adjacency.
    """
    return {"edges": edges, "nodes": nodes}[_known(name).counts]


def published_units(name: str, edges: int, train_nodes: int, nodes: int) -> int:
    """How many units published code chooses δ by: for node_add_remove and participant the training
    nodes, which may be 40 times fewer than there are nodes to protect.

    Raises GraphDPError for an unknown adjacency.
    """
    known = _known(name)
    sizes = {"edges": edges, "train": train_nodes, "nodes": nodes}
    return sizes[known.published_counts or known.counts]


#: A δ that follows the number N of training nodes: N^-1.1 (PNPiGNNs, Appendix A.2).
TRAIN_POWER = "train_nodes^-1.1"
#: "at most 1e-5": that number, where units are protected that it allows to publish one of, less.
AT_MOST = "at most "


def delta_fault(delta: float, name: str, edges: int, nodes: int) -> str | None:
    """What is wrong with a δ that a model which publishes one protected unit outright would meet.

    None where δ lies below one over the number of units. Raises GraphDPError for an unknown
    adjacency.
    """
    units = protected_units(name, edges, nodes)
    if delta * units < 1:
        return None
    what, most = _known(name).counts, f"1e-{len(str(units))}"
    return (
        f"delta {delta:g} is not below 1/{units}, one over the number of protected {what}: it "
        f"allows to publish one of them; take at most {most}"
    )


def _known(name: str) -> Adjacency:
    known = adjacency(name)
    if known is None:
        raise GraphDPError(f"adjacency is {name!r}; choose one of {', '.join(ADJACENCY_NAMES)}")
    return known


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


@dataclass(frozen=True)
class Words:
    """How the privacy statement of a method speaks of the edges that it reads.

    edges: what of a node's edges is protected at node level, as a sentence ("" for none; "{splits}"
    stands for the nodes that it speaks of). participant: the same of a node that takes part or not,
    if that is less. others: what of such a node, besides others' lists, is there in both graphs.
    sampled: what a degree bound by sampling draws from. candidates: which edges public candidates
    leave. declared: what a bound says that nothing enforces, where degrees are not bounded by
    sampling. keeps_last: whether every phase but the last keeps its last epoch, whatever the
    checkpoint. chosen_by_edges: whether an epoch of a phase is chosen by edges of validation nodes,
    and later phases build on it.
    """

    edges: str = ""
    participant: str = ""
    others: str = ""
    sampled: str = "each node's out-list"
    candidates: str = "edges to a node's public candidates, drawn without its edges"
    declared: str = ""
    keeps_last: bool = False
    chosen_by_edges: bool = False
