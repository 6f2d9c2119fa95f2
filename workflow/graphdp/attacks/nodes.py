"""Whom node membership inference asks about: members and non-members of two models. No torch."""

import numpy as np

from graphdp.data.split import Split
from graphdp.errors import GraphDPError

ATTACK = "nmi"
ROLES = ("target", "shadow")


def class_counts(y: np.ndarray, nodes_per_class: int) -> np.ndarray:
    """How many nodes of each class each of the two models is given, int64 (classes,).

    `nodes_per_class`, or half of a smaller class. y: int64 (n,).
    """
    return np.minimum(np.bincount(y) // 2, nodes_per_class)


def members_per_class(y: np.ndarray, nodes_per_class: int) -> np.ndarray:
    """How many nodes of each class each model is trained on, int64 (classes,): 2/5 of its nodes.

    As many are queried as non-members. Raises `GraphDPError` if there are none at all.
    """
    counts = class_counts(y, nodes_per_class) * 2 // 5
    if not counts.any():
        raise GraphDPError(
            f"attack {ATTACK}: no class has the 6 nodes that two models need; attack a larger graph"
        )
    return counts


def sample_nodes(
    y: np.ndarray, nodes_per_class: int, random: np.random.Generator
) -> dict[str, Split]:
    """Role -> its nodes: `train` are the members, `test` the non-members, `val` the rest.

    The sets of the two roles are disjoint, uniform within each class. y: int64 (n,).
    """
    parts: dict[str, list[list[np.ndarray]]] = {role: [[], [], []] for role in ROLES}
    members = members_per_class(y, nodes_per_class)
    for label, count in enumerate(class_counts(y, nodes_per_class)):
        nodes = random.permutation(np.flatnonzero(y == label))
        for role, own in zip(ROLES, (nodes[:count], nodes[count : 2 * count]), strict=True):
            cuts = np.split(own, [members[label], count - members[label]])
            for part, cut in zip(parts[role], cuts, strict=True):
                part.append(cut)
    return {
        role: Split(*(np.sort(np.concatenate(part)).astype(np.int64) for part in own))
        for role, own in parts.items()
    }
