"""Attacks on private aggregation: small graphs, released by the code that the workflow runs.

A construction is a graph with and without one protected unit. Many copies of it, side by side in
one graph that is not connected, go through degree bounding and aggregation in one call: every
row has its own sampling keys and its own noise, so the copies are independent runs. No shortcut is
taken: the scores are functions of the released Xᵏ alone, after noise and normalisation.

The score. Given Xᵏ⁻¹, both worlds' expected sums at hop k are known to the attacker: B without
the unit, B + G with it. A released row y is the direction of its noisy sum, which is near
c = B + G / 2. To first order in the noise the log-likelihood ratio of the two worlds is

    Σ_k Σ_v w_v ⟨y_v, G_v - (⟨G_v, c_v⟩ / w_v²) c_v⟩ / σ²,    w_v² = ‖c_v‖² + d σ²

(the second term of w is for sums that are smaller than the noise). Where ‖c‖ is many σ and G is
orthogonal to c, normalisation loses nothing, and the score is as good as the noisy sum itself:
constructions get there by "anchors", nodes whose messages all point in one direction. Any score
gives a valid lower bound; a better one gives a larger bound.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from graphdp.data.graph import in_edges
from graphdp.errors import GraphDPError, one_of
from graphdp.graphs import degree
from graphdp.releases import aggregation
from graphdp.rng import generator, stream_seed

WORLDS = ("absent", "present")
# Rows and edges of one call: bounds the memory to a few hundred MB.
_CALL_ROWS, _CALL_EDGES = 1 << 19, 1 << 22
# Runs of the degree bound that estimate how often it keeps each edge; for the score alone.
_KEEP_RUNS = 256
# Of the public order of candidates.
_PUBLIC_SEED = 0


@dataclass(frozen=True, eq=False)
class Construction:
    """A graph with and without one protected unit.

    x0: float32 (n, d), the rows that are aggregated. present, absent: int64 (m, 2), the edges
    (source, target) with and without the unit. hidden: nodes whose rows the attacker does not see.
    Both worlds have the same nodes: a removed one stays as a node without edges, whose row is
    hidden unless the attack is about that row.
    """

    name: str
    x0: np.ndarray
    present: np.ndarray
    absent: np.ndarray
    hidden: tuple[int, ...] = ()

    @property
    def num_nodes(self) -> int:
        return len(self.x0)

    def edges(self, world: str) -> np.ndarray:
        """The edges of a world, sorted by source: int64 (m, 2)."""
        edges = np.asarray(self.present if world == "present" else self.absent).reshape(-1, 2)
        return edges[np.lexsort((edges[:, 1], edges[:, 0]))]


@dataclass(frozen=True)
class Mechanism:
    """What is run on a construction: K hops, noise of std `noise_std`, lists of at most
    `max_degree` (None: not bounded) by sampling or by public candidates."""

    hops: int
    noise_std: float
    max_degree: int | None = None
    degree_bound: str = "sampling"

    def keep(self, indptr: np.ndarray, indices: np.ndarray, nodes: int, seed: int) -> np.ndarray:
        """The degree bound's mask over copies of `nodes` nodes each, bool (m,)."""
        if self.degree_bound == "sampling":
            return degree.bound_out_degree(indptr, indices, self.max_degree, seed)
        # The candidates are public, so every run has those of the one graph.
        one = indptr[: nodes + 1], indices[: indptr[nodes]]
        keep = degree.public_candidates(*one, self.max_degree, _PUBLIC_SEED)
        return np.tile(keep, (len(indptr) - 1) // nodes)

    def release(
        self,
        indptr: np.ndarray,
        indices: np.ndarray,
        keep: np.ndarray | None,
        x0: np.ndarray,
        stream: tuple[int | str, ...],
    ) -> np.ndarray:
        """X¹..Xᴷ of the kept edges, float32 (K, n, d): here the aggregation alone, in a method's
        claims its stage."""
        if keep is not None:
            indptr, indices = degree.apply_mask(indptr, indices, keep)
        one = aggregation.Release(x0, self.hops, self.noise_std, private=True, stream=stream)
        (hops,) = aggregation.private_hops(in_edges(indptr, indices), [one])
        return hops


def copies_of(
    construction: Construction, world: str, copies: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Disjoint copies of a world: (indptr int64, indices int32, x0 float32 (copies · n, d))."""
    edges, nodes = construction.edges(world), construction.num_nodes
    degrees = np.bincount(edges[:, 0], minlength=nodes)
    indptr = np.concatenate([[0], np.cumsum(np.tile(degrees, copies))]).astype(np.int64)
    offsets = np.arange(copies)[:, None] * nodes
    indices = (edges[:, 1] + offsets).ravel().astype(np.int32)
    return indptr, indices, np.tile(construction.x0, (copies, 1))


def released(
    construction: Construction, mechanism: Mechanism, world: str, copies: int, *stream: int | str
) -> np.ndarray:
    """X¹..Xᴷ of independent runs in one world: float32 (K, copies, n, d). `stream` names them."""
    indptr, indices, x0 = copies_of(construction, world, copies)
    keep = None
    if mechanism.max_degree is not None:
        seed = stream_seed(*stream, "degree")
        keep = mechanism.keep(indptr, indices, construction.num_nodes, seed)
    hops = mechanism.release(indptr, indices, keep, x0, (*stream, "noise"))
    return hops.reshape(mechanism.hops, copies, construction.num_nodes, -1)


def kept_edges(construction: Construction, mechanism: Mechanism, world: str) -> sp.csr_array:
    """How often each edge survives the degree bound, estimated: Aᵀ in expectation, (n, n)."""
    edges, nodes = construction.edges(world), construction.num_nodes
    rates = np.ones(len(edges))
    degrees = np.bincount(edges[:, 0], minlength=nodes)
    public = mechanism.degree_bound != "sampling"
    if mechanism.max_degree is not None and (
        public or degrees.max(initial=0) > mechanism.max_degree
    ):
        indptr, indices, _ = copies_of(construction, world, _KEEP_RUNS)
        seed = stream_seed("audit", construction.name, world, "kept")
        keep = mechanism.keep(indptr, indices, nodes, seed)
        rates = keep.reshape(_KEEP_RUNS, -1).mean(0)
    return sp.coo_array((rates, (edges[:, 1], edges[:, 0])), shape=(nodes, nodes)).tocsr()


def score(
    construction: Construction,
    mechanism: Mechanism,
    expected: dict[str, sp.csr_array],
    hops: np.ndarray,
) -> np.ndarray:
    """The score of the module's docstring: float64 (copies,), larger for "present".

    expected: world -> `kept_edges`. hops: as `released` gives them.
    """
    change = (expected["present"] - expected["absent"]).tocsr()
    change.eliminate_zeros()
    rows = np.setdiff1d(np.flatnonzero(np.diff(change.indptr)), construction.hidden)
    change, base = change[rows], expected["absent"][rows]
    copies, nodes, width = hops.shape[1:]
    total = np.zeros(copies)
    floor = width * mechanism.noise_std**2
    start = aggregation.normalize_rows(construction.x0).astype(np.float64)
    inputs = start[:, None, :]
    for k in range(len(hops)):
        flat = inputs.reshape(nodes, -1)
        shape = (len(rows), inputs.shape[1], width)
        gain = (change @ flat).reshape(shape)
        centre = (base @ flat).reshape(shape) + gain / 2
        square = (centre**2).sum(-1, keepdims=True) + floor
        gain = gain - (gain * centre).sum(-1, keepdims=True) / square * centre
        output = hops[k].transpose(1, 0, 2)
        total += (np.sqrt(square) * gain * output[rows]).sum((0, 2))
        inputs = _seen(construction, expected["present"], flat, output)
    return total


def _seen(
    construction: Construction, expected: sp.csr_array, before: np.ndarray, output: np.ndarray
) -> np.ndarray:
    """What the attacker takes for the input of the next hop: float64 (n, copies, d).

    output: (n, copies, d), this hop's. A hidden row is not seen; in its place stands what it is
    without noise if the unit is present (absent, it sends nothing anyway), from the inputs `before`
    of this hop, (n, copies · d).
    """
    inputs = output.astype(np.float64)
    hidden = list(construction.hidden)
    if hidden:
        guess = (expected[hidden] @ before).reshape(len(hidden), -1, output.shape[2])
        norms = np.linalg.norm(guess, axis=2, keepdims=True)
        inputs[hidden] = np.divide(guess, norms, out=np.zeros_like(guess), where=norms > 0)
    return inputs


def draw_scores(
    construction: Construction, mechanism: Mechanism, world: str, draws: int, seed: int
) -> np.ndarray:
    """Scores of `draws` independent runs in one world: float64 (draws,)."""
    one_of("world", world, WORLDS)
    expected = {w: kept_edges(construction, mechanism, w) for w in WORLDS}
    edges = max(1, len(construction.edges(world)))
    size = max(1, min(_CALL_ROWS // construction.num_nodes, _CALL_EDGES // edges))
    parts = []
    for start in range(0, draws, size):
        stream = ("audit", seed, construction.name, world, start)
        copies = min(size, draws - start)
        hops = released(construction, mechanism, world, copies, *stream)
        parts.append(score(construction, mechanism, expected, hops))
    return np.concatenate(parts)


# --- constructions --------------------------------------------------------------------------------


def _pairs(sources, targets) -> np.ndarray:
    """All pairs (source, target) without self-loops: int64 (m, 2)."""
    grid = np.stack(np.meshgrid(sources, targets, indexing="ij"), -1).reshape(-1, 2)
    return grid[grid[:, 0] != grid[:, 1]].astype(np.int64)


def _both_ways(edges: np.ndarray) -> np.ndarray:
    return np.unique(np.concatenate([edges, edges[:, ::-1]]), axis=0)


def _axes(directions: list[int], width: int) -> np.ndarray:
    """Unit rows: row i is the axis |directions[i]| - 1 with the sign of directions[i]."""
    directions = np.asarray(directions)
    x0 = np.zeros((len(directions), width), dtype=np.float32)
    x0[np.arange(len(directions)), np.abs(directions) - 1] = np.sign(directions)
    return x0


def edge_pair(anchors: int, hops: int, undirected: bool) -> Construction:
    """One edge u → v (with v → u if `undirected`), both ends held in place by anchors.

    v receives axis 1 from its `anchors` anchors and u sends axis 2, so the edge turns row v; the
    other way round for v → u. With several hops the anchors of v hear of each other, and so keep
    their direction. The anchors of u send **minus** axis 2: from the second hop on u sends the
    opposite of what it sent at first, so the attack subtracts one hop's noise from the other's.
    That costs nothing if they are independent and wins everything if one noise is used twice.
    """
    first = 2 + np.arange(anchors)
    second = first + anchors
    links = [_pairs(first, [1]), _pairs(second, [0])]
    if hops > 1:
        links += [_pairs(first, first), _pairs(second, second)]
    absent = np.concatenate(links)
    edge = np.array([[0, 1]])
    edge = _both_ways(edge) if undirected else edge
    x0 = _axes([2, 1] + [1] * anchors + [-2] * anchors, 2)
    kind = "undirected" if undirected else "directed"
    return Construction(f"edge-{kind}", x0, np.concatenate([absent, edge]), absent)


def common_neighbours(senders: int, max_degree: int) -> Construction:
    """K_{m, D+1}: m senders point to the same D + 1 nodes, one of which is removed.

    Without it every sender keeps all D others; with it each keeps a random D of D + 1. The row of
    the removed node is hidden. As many anchors as senders point to the D others, at right angles,
    so that a row's length shows in its direction.
    """
    targets = np.arange(max_degree + 1)
    first = max_degree + 1 + np.arange(senders)
    anchors = first + senders
    shared = np.concatenate([_pairs(first, targets[1:]), _pairs(anchors, targets[1:])])
    present = np.concatenate([shared, _pairs(first, [0])])
    x0 = _axes([1] * (max_degree + 1) + [1] * senders + [2] * senders, 2)
    return Construction(f"common-neighbours-{senders}", x0, present, shared, hidden=(0,))


def own_row(senders: int) -> Construction:
    """A node of in-degree m whose own row is released: with the node gone, nothing is in it."""
    first = 1 + np.arange(senders)
    x0 = _axes([1] * (senders + 1), 2)
    return Construction(f"own-row-{senders}", x0, _pairs(first, [0]), np.zeros((0, 2), np.int64))


def without_node(adjacency: str, max_degree: int, anchors: int) -> tuple[Construction, ...]:
    """Graphs with and without node 0, whose row is hidden.

    adjacency: "participant" (its out-edges vanish, all other lists stay) or "node_add_remove" (its
    in-edges vanish too, that is, it leaves the lists of others).

    Stars, complete bipartite graphs, cliques, K_{m, D+1} and random graphs, each with features that
    all agree, with node 0 opposed to all others and with random ones; stars also with anchors,
    where the sensitivity √D is reached.

    Raises GraphDPError for another adjacency.
    """
    if adjacency not in ("participant", "node_add_remove"):
        raise GraphDPError(f"adjacency is {adjacency!r}; use participant or node_add_remove")
    d = max_degree
    shapes: dict[str, tuple[int, np.ndarray]] = {}
    for leaves in (1, d, 3 * d):
        shapes[f"star-{leaves}"] = leaves + 1, _both_ways(_pairs([0], 1 + np.arange(leaves)))
    for left, right in ((2, d + 1), (d, d), (3 * d, 3 * d), (8 * d, d + 1)):
        nodes = np.arange(left + right)
        shapes[f"bipartite-{left}-{right}"] = (
            left + right,
            _both_ways(_pairs(nodes[:left], nodes[left:])),
        )
    # Node 0 is one of the D + 1 common neighbours, as in the counterexample.
    nodes = np.arange(8 * d + d + 1)
    shapes["common-neighbours"] = len(nodes), _both_ways(_pairs(nodes[d + 1 :], nodes[: d + 1]))
    for size in (d + 1, 3 * d):
        shapes[f"clique-{size}"] = size, _pairs(np.arange(size), np.arange(size))
    for density in (0.1, 0.3, 0.7):
        size = 6 * d
        pick = generator("audit", "random graph", density).random((size, size)) < density
        shapes[f"random-{density:g}"] = size, np.argwhere(pick & ~np.eye(size, dtype=bool))
        shapes[f"random-undirected-{density:g}"] = size, _both_ways(np.argwhere(np.triu(pick, 1)))
    found = []
    for name, (size, edges) in shapes.items():
        for kind in ("equal", "opposed", "random"):
            found.append(_without_node(adjacency, f"{name}-{kind}", _features(kind, size), edges))
        if name.startswith("star"):
            found.append(_anchored(adjacency, f"{name}-anchored", size, edges, anchors))
    return tuple(found)


def _without_node(adjacency: str, name: str, x0: np.ndarray, edges: np.ndarray) -> Construction:
    stays = edges[:, 0] != 0
    if adjacency == "node_add_remove":
        stays &= edges[:, 1] != 0
    return Construction(f"{adjacency}-{name}", x0, edges, edges[stays], hidden=(0,))


def _features(kind: str, nodes: int) -> np.ndarray:
    if kind == "random":
        random = generator("audit", "features", nodes).standard_normal((nodes, 3))
        return random.astype(np.float32)
    return _axes([-1 if kind == "opposed" else 1] + [1] * (nodes - 1), 2)


def anchored_star(max_degree: int, anchors: int) -> Construction:
    """A participant, node 0, of D targets, where √D is reached."""
    edges = _both_ways(_pairs([0], 1 + np.arange(max_degree)))
    return _anchored("participant", f"star-{max_degree}-anchored", max_degree + 1, edges, anchors)


def _anchored(
    adjacency: str, name: str, nodes: int, edges: np.ndarray, anchors: int
) -> Construction:
    """Every leaf of a star hears from `anchors` nodes of its own, at right angles to node 0."""
    links = [edges[edges[:, 0] == 0]]
    for leaf in range(1, nodes):
        links.append(_pairs(nodes + (leaf - 1) * anchors + np.arange(anchors), [leaf]))
    x0 = _axes([2] + [1] * (nodes - 1) + [1] * (anchors * (nodes - 1)), 2)
    return _without_node(adjacency, name, x0, np.concatenate(links))
