"""Train, validation and test nodes."""

import re
from dataclasses import dataclass

import numpy as np

from graphdp import rng
from graphdp.data.graph import Graph
from graphdp.errors import GraphDPError

GAP_FRACTIONS = (0.75, 0.10, 0.15)  # GAP, section 7.1


@dataclass(frozen=True, eq=False)
class Split:
    """Disjoint node sets: sorted int64 indices into the nodes of a `Graph`."""

    train: np.ndarray
    val: np.ndarray
    test: np.ndarray


def split_of(graph: Graph, study_seed: int, rule: str, seed: int) -> Split:
    """The split of repeat `seed`: equal arguments give equal splits.

    rule: "shared" (every repeat has that of seed 0) or "per_seed"; then " by id", " by torch", or
    nothing for the published way with numpy's permutation; then, where they are not GAP's, the
    shares of training, validation and test nodes: "shared by id", "per_seed 0.025/0.025/0.95"
    (DPDGC's block models).

    Raises:
        GraphDPError: another rule, shares that are none, or one of the three sets would be empty.
    """
    found = re.fullmatch(r"(shared|per_seed)(?: by (id|torch))?(?: ([0-9.e/-]+))?", rule)
    if not found:
        raise GraphDPError(f"split rule {rule!r}: give e.g. 'shared by id' or 'per_seed'")
    kind, by, shares = found.groups()
    fractions = tuple(map(float, shares.split("/"))) if shares else GAP_FRACTIONS
    if len(fractions) != 3 or min(fractions) <= 0 or abs(sum(fractions) - 1) > 1e-9:
        raise GraphDPError(
            f"split fractions {fractions} must be three positive shares (train, validation, test) "
            "that sum to 1"
        )
    draw = {"id": sides_by_id, "torch": torch_sides}.get(by, published_sides)
    side = draw(graph, fractions, study_seed, seed if kind == "per_seed" else 0)
    train, val, test = (np.flatnonzero(side == which).astype(np.int64) for which in range(3))
    if min(len(train), len(val), len(test)) == 0:
        raise GraphDPError(
            f"the split of {graph.raw_num_nodes} raw nodes ({graph.num_nodes} kept) leaves "
            f"{len(train)} train, {len(val)} validation and {len(test)} test nodes: use a larger "
            "graph or other fractions"
        )
    return Split(train, val, test)


def sides_by_id(
    graph: Graph, fractions: tuple[float, ...], study_seed: int, split_seed: int
) -> np.ndarray:
    """Each node's side by itself, from its id alone: 0 train, 1 validation, 2 test; int8 (n,).

    Which other nodes there are does not matter, so adding or removing one moves no other. The
    shares are those of (train, validation, test) up to chance.
    """
    # The number at place `id` of one stream: a hash of the id that is keyed by the stream's name.
    stream = rng.keyed_generator(study_seed, split_seed, "split by id")
    number = stream.random(graph.num_ids)[graph.ids]
    _, val, test = fractions
    return ((number < val + test).astype(np.int8)) + ((number < test).astype(np.int8))


def published_sides(
    graph: Graph, fractions: tuple[float, ...], study_seed: int, split_seed: int
) -> np.ndarray:
    """As GAP's authors draw them, over the raw nodes by a permutation: as `sides_by_id`.

    They split before they filter classes (with PyG's `RandomNodeSplit`), so which side a node
    falls on does not depend on which classes are kept. As in PyG, round(fraction · n) raw nodes are
    drawn for validation and for test, and all others train. Where one node more or less has a label
    the ranks of those after it move, and the permutation, and with them many nodes' sides.
    """
    draw = rng.generator(study_seed, split_seed, "split")
    return _sides(graph, fractions, draw.permutation(graph.raw_num_nodes))


def torch_sides(
    graph: Graph, fractions: tuple[float, ...], study_seed: int, split_seed: int
) -> np.ndarray:
    """As `published_sides`, with the permutation that PyG's `RandomNodeSplit` draws after
    `torch.manual_seed(study_seed)`: at the default study seed, 12345, the one split of DPDGC's
    authors (thupchnsky/dp-gnn, train.py: `seed_everything(12345)`, then the data are loaded and
    split once). Further split seeds, which they do not have, seed torch by a hash."""
    import torch

    own = rng.stream_seed(study_seed, split_seed, "split by torch") if split_seed else study_seed
    draw = torch.Generator().manual_seed(own)
    return _sides(graph, fractions, torch.randperm(graph.raw_num_nodes, generator=draw).numpy())


def _sides(graph: Graph, fractions: tuple[float, ...], order: np.ndarray) -> np.ndarray:
    nodes = graph.raw_num_nodes
    num_val, num_test = round(fractions[1] * nodes), round(fractions[2] * nodes)
    side = np.zeros(nodes, dtype=np.int8)
    side[order[:num_val]] = 1
    side[order[num_val : num_val + num_test]] = 2
    return side[graph.node_ids]
