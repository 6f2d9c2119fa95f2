"""Sides of a split, and what one node more or less does to those of the others."""

from dataclasses import replace

import numpy as np
import pytest

from graphdp.data.datasets import Preprocessing
from graphdp.data.graph import Graph
from graphdp.data.loaders import RawGraph
from graphdp.data.preprocess import build
from graphdp.data.split import GAP_FRACTIONS, published_sides, sides_by_id, split_of, torch_sides
from graphdp.errors import GraphDPError
from graphdp.graphs.degree import keep_edges

RULES = ("shared", "shared by id", "shared by torch")


def nodes(num_raw, kept=None, **ids) -> Graph:
    """Nodes without an edge: those at the places `kept` of a raw graph, or all of it."""
    kept = np.arange(num_raw) if kept is None else np.asarray(kept)
    none = np.zeros(len(kept) + 1, np.int64), np.zeros(0, np.int32)
    x, y = np.zeros((len(kept), 1), np.float32), np.zeros(len(kept), np.int64)
    return Graph("nodes", x, y, *none, kept, num_raw, 1, **ids).validate()


def sides(split):
    return split.train, split.val, split.test


def test_published_sizes_over_all_nodes():
    parts = sides(split_of(nodes(1000), 1, "shared", 0))
    assert [len(part) for part in parts] == [750, 100, 150]
    parts = sides(split_of(nodes(4000), 1, "shared 0.025/0.025/0.95", 3))
    assert [len(part) for part in parts] == [100, 100, 3800]


def test_by_torch_it_is_the_split_of_the_authors():
    """As their code draws it: `seed_everything(12345)`, then PyG's `RandomNodeSplit`."""
    torch = pytest.importorskip("torch")
    from torch_geometric.data import Data
    from torch_geometric.transforms import RandomNodeSplit

    theirs = Data(y=torch.zeros(1003), num_nodes=1003)
    with torch.random.fork_rng():
        torch.manual_seed(12345)
        theirs = RandomNodeSplit(num_val=0.1, num_test=0.15)(theirs)
    ours = split_of(nodes(1003), 12345, "shared by torch", 7)
    for part, name in zip(sides(ours), ("train", "val", "test"), strict=True):
        assert part.tolist() == theirs[f"{name}_mask"].nonzero()[:, 0].tolist()


@pytest.mark.parametrize("rule", RULES)
def test_every_node_has_one_side(rule):
    parts = sides(split_of(nodes(1000), 1, rule, 0))
    assert np.sort(np.concatenate(parts)).tolist() == list(range(1000))
    for part in parts:
        assert part.dtype == np.int64 and (np.diff(part) > 0).all()


@pytest.mark.parametrize("rule", RULES)
def test_split_is_drawn_before_the_class_filter(rule):
    """Where a node falls depends on its place in the raw graph, or its id, alone."""
    everyone = split_of(nodes(1000), 1, rule, 0)
    kept = np.arange(0, 1000, 3)
    parts = split_of(nodes(1000, kept), 1, rule, 0)
    for part, whole in zip(sides(parts), sides(everyone), strict=True):
        assert kept[part].tolist() == sorted(set(kept) & set(whole))
    assert sum(map(len, sides(parts))) == len(kept)


@pytest.mark.parametrize("rule", RULES)
def test_split_depends_on_both_seeds_and_nothing_else(rule):
    own = rule.replace("shared", "per_seed")
    first = split_of(nodes(500), 1, rule, 0)
    for again in (split_of(nodes(500), 1, rule, 7), split_of(nodes(500), 1, own, 0)):
        assert all(map(np.array_equal, sides(first), sides(again)))
    for study_seed, seed in ((2, 0), (1, 1), (0, 1)):
        other = split_of(nodes(500), study_seed, own, seed)
        assert not np.array_equal(first.val, other.val)


@pytest.mark.parametrize("draw", [published_sides, torch_sides, sides_by_id])
def test_sides_are_uniform(draw):
    """Each of 40 nodes validates with probability 0.1 and tests with 0.15, over 4,000 seeds.

    Counts are Binomial(4000, p). Six standard deviations away lies at most 1e-8 of each, so over
    the 80 of them this fails with at most 1e-6.
    """
    graph, seeds = nodes(40), 4000
    drawn = np.array([draw(graph, GAP_FRACTIONS, 0, seed) for seed in range(seeds)])
    for side, share in ((1, 0.1), (2, 0.15)):
        counts = (drawn == side).sum(axis=0)
        assert abs(counts - seeds * share).max() < 6 * np.sqrt(seeds * share * (1 - share))


def test_shares_by_id_hold_up_to_chance():
    """Of 20,000 nodes: within six standard deviations, so it fails with at most 1e-8."""
    split = split_of(nodes(20_000), 1, "shared by id 0.025/0.025/0.95", 0)
    for part, share in zip(sides(split), (0.025, 0.025, 0.95), strict=True):
        assert abs(len(part) - 20_000 * share) < 6 * np.sqrt(20_000 * share * (1 - share))


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("shared 0.5/0.5/0.5", "sum to 1"),
        ("shared by id 1.0/0.0/0.0", "sum to 1"),
        ("shared 0.9/0.1", "sum to 1"),
        ("by id", "split rule 'by id'"),
        ("shared by rank", "split rule 'shared by rank'"),
    ],
)
def test_other_rules_are_refused(rule, message):
    with pytest.raises(GraphDPError, match=message):
        split_of(nodes(100), 1, rule, 0)


@pytest.mark.parametrize("rule", RULES)
def test_an_empty_side_is_refused(rule):
    with pytest.raises(GraphDPError, match="leaves"):
        split_of(nodes(1000, [0]), 1, rule, 0)


# --- One node less --------------------------------------------------------------------------------

NODES, UNIVERSE = 2000, 3000


@pytest.fixture(scope="module")
def raw():
    """Every tenth node has no class; ids are no places, and not all of the universe are there."""
    rng = np.random.default_rng(5)
    y = rng.integers(0, 3, NODES)
    y[rng.random(NODES) < 0.1] = -1
    edges = rng.integers(0, NODES, (2, 12_000))
    ids = rng.permutation(UNIVERSE)[:NODES]
    x = np.zeros((NODES, 1), np.float32)
    return RawGraph(x, y, edges[0], edges[1], ids, UNIVERSE)


def without(raw, node):
    """The raw graph less a node with its edges: those after it move up by one place."""
    there = np.arange(NODES) != node
    keep = there[raw.sources] & there[raw.targets]
    place = np.cumsum(there) - 1
    ends = (place[end[keep]] for end in (raw.sources, raw.targets))
    return replace(raw, x=raw.x[there], y=raw.y[there], ids=raw.ids[there]), *ends


def built(raw):
    return build("toy", raw, Preprocessing(symmetrise=True, min_class_count=1))


def side_of_id(graph, rule):
    split = split_of(graph, 1, rule, 0)
    found = np.full(UNIVERSE, -1)
    for side, part in enumerate(sides(split)):
        found[graph.ids[part]] = side
    return found


def candidate_edges(graph):
    """Pairs of ids that public candidates leave, each as one number."""
    keep = keep_edges(graph, "300-public_candidates", (), ("toy", 0))
    sources = np.repeat(graph.ids, np.diff(graph.indptr))[keep]
    return set((sources * UNIVERSE + graph.ids[graph.indices[keep]]).tolist())


@pytest.mark.slow
def test_removing_a_node_moves_no_other(raw):
    """A thousand removals: of every other node the side stays, and of its edges those to public
    candidates. By the published rule hundreds of sides move."""
    whole = built(raw)
    published = side_of_id(whole, "shared")
    by_id, edges = side_of_id(whole, "shared by id"), candidate_edges(whole)
    assert len(edges) > 1000
    moved = []
    for node in np.random.default_rng(6).permutation(NODES)[:1000]:
        rest, sources, targets = without(raw, node)
        less = built(replace(rest, sources=sources, targets=targets))
        gone = raw.ids[node]
        others = np.arange(UNIVERSE) != gone
        found = side_of_id(less, "shared by id")
        assert np.array_equal(found[others], by_id[others]) and found[gone] == -1
        ends = {edge for edge in edges if gone in divmod(edge, UNIVERSE)}
        assert candidate_edges(less) == edges - ends
        moved.append(int((side_of_id(less, "shared") != published)[others].sum()))
    assert np.median(moved) > 100


@pytest.mark.parametrize("ids", [[0, 0, 1], [0, 1, 5], [0, 1], [0.0, 1.0, 2.0]])
def test_ids_that_are_no_names_are_refused(ids):
    y = np.array([0, 1, 0])
    raw = RawGraph(np.zeros((3, 1), np.float32), y, y[:0], y[:0], np.array(ids), 5)
    with pytest.raises(GraphDPError, match=r"ids must be 3 different integers within 0\.\.4"):
        built(raw)
