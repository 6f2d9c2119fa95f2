"""Train, validation and test nodes."""

from dataclasses import dataclass

import numpy as np

from graphdp import rng
from graphdp.errors import GraphDPError

GAP_FRACTIONS = (0.75, 0.10, 0.15)  # GAP, section 7.1


@dataclass(frozen=True, eq=False)
class Split:
    """Disjoint node sets: sorted int64 indices into the nodes of a `Graph`."""

    train: np.ndarray
    val: np.ndarray
    test: np.ndarray


def split(
    raw_num_nodes: int,
    node_ids: np.ndarray,
    study_seed: int,
    split_seed: int,
    fractions: tuple[float, float, float] = GAP_FRACTIONS,
) -> Split:
    """A uniformly random split of the raw nodes, restricted to the nodes that preprocessing kept.

    GAP's authors split before they filter classes (with PyG's `RandomNodeSplit`), so which side a
    node falls on does not depend on which classes are kept, and the shares of the kept nodes are
    75/10/15 % only up to chance. As in PyG, round(fraction · n) raw nodes are drawn for validation
    and for test, and all others train.

    Args:
        raw_num_nodes: n of the raw graph (`Graph.raw_num_nodes`).
        node_ids: int64 (kept,), positions of the kept nodes in the raw graph (`Graph.node_ids`).
        study_seed, split_seed: name of the random stream; the same pair gives the same split.
        fractions: shares of (train, validation, test), positive, summing to 1. DPDGC's cSBM runs
            use (0.025, 0.025, 0.95).

    Raises:
        GraphDPError: the fractions are no shares, or one of the three sets would be empty.
    """
    if len(fractions) != 3 or min(fractions) <= 0 or abs(sum(fractions) - 1) > 1e-9:
        raise GraphDPError(
            f"split fractions {tuple(fractions)} must be three positive shares (train, validation, "
            "test) that sum to 1"
        )
    num_val = round(fractions[1] * raw_num_nodes)
    num_test = round(fractions[2] * raw_num_nodes)
    order = rng.generator(study_seed, split_seed, "split").permutation(raw_num_nodes)
    side = np.zeros(raw_num_nodes, dtype=np.int8)  # 0 train, 1 validation, 2 test
    side[order[:num_val]] = 1
    side[order[num_val : num_val + num_test]] = 2
    kept = side[node_ids]
    train, val, test = (np.flatnonzero(kept == which).astype(np.int64) for which in range(3))
    if min(len(train), len(val), len(test)) == 0:
        raise GraphDPError(
            f"the split of {raw_num_nodes} raw nodes ({len(node_ids)} kept) leaves {len(train)} "
            f"train, {len(val)} validation and {len(test)} test nodes: use a larger graph or other "
            "fractions"
        )
    return Split(train, val, test)


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
