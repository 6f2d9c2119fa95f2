"""Degree bounds under node_add_remove: which keep a node's influence on the aggregate finite?

The setting. Ids come from a public universe; an absent id has no edges and sends nothing. With
weights w on the edges u → v and rows x_u of norm 1 the aggregate is M[v] = Σ_u w(u, v) x_u. The
adjacent graph lacks one node r: its features and all its edges, so it also vanishes from the lists
of the others. How far can M move, in Frobenius norm, the row of r left out?

GAP's sampler and the candidates below whose docstring has a counterexample let the edges of r
decide what others send to third nodes; then there is no bound. What survives:

    degree.public_candidates   √D            u may send to D ids that are drawn without its edges
    balanced_weights           2√(D g)       g = D (1 + ln((n - 1) / D)), own row included

Both are proven at their functions. The first keeps only D / (n - 1) of the edges on average. The
aggregate's signal grows with that share and its noise with √D, so its best D is n - 1: all edges,
with noise for √(n - 1). The second keeps nearly D messages per node whatever n is.

Two more that come to mind. Keeping every edge with a fixed public probability, or scaling by a
public constant, is no bound: a node with m edges still moves about m rows, √(n - 1) in the end.
Lipschitz extensions (Kasiviswanathan et al. 2013; Raskhodnikova and Smith 2016) extend scalars and
degree lists; `balanced_weights` is their argument, with an entropy for the norm of rows.

Graphs are CSR over the universe: indptr int64 (n + 1,), indices int32 (m,), row = sender. Each
candidate takes (indptr, indices, max_degree, seed) and returns one weight per edge, float64 (m,).
"""

import itertools
from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_matrix

from graphdp.errors import GraphDPError
from graphdp.graphs import degree


def without_node(
    indptr: np.ndarray, indices: np.ndarray, node: int
) -> tuple[np.ndarray, np.ndarray]:
    """The adjacent graph: no edge from or to `node`, the universe and all other edges as before."""
    senders = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    return degree.apply_mask(indptr, indices, (senders != node) & (indices != node))


def matrix(indptr: np.ndarray, indices: np.ndarray, weights: np.ndarray) -> csr_matrix:
    """The weights as a sparse matrix W, float64 (n, n), so that M = Wᵀ X."""
    n = len(indptr) - 1
    return csr_matrix((np.asarray(weights, dtype=np.float64), indices, indptr), shape=(n, n))


def move(before: csr_matrix, after: csr_matrix, x: np.ndarray, node: int | None) -> float:
    """‖M - M'‖_F for features x, float64 (n, d); without the row of `node` unless that is None."""
    difference = (before - after).T @ x
    if node is not None:
        difference[node] = 0
    return float(np.linalg.norm(difference))


# --- refuted --------------------------------------------------------------------------------------


def hash_priority(
    indptr: np.ndarray, indices: np.ndarray, max_degree: int, seed: int
) -> np.ndarray:
    """Refuted: every node keeps the D neighbours of smallest public hash; a gap is refilled.

    Counterexample: m nodes point to the same D + 1 nodes (`shared_receivers`). All m drop the same
    one of them, z. Remove any other receiver, and all m take z instead: row z moves by m.
    """
    n = len(indptr) - 1
    priority = degree.public_order(n, seed)
    keep = np.zeros(len(indices))
    for start, stop in itertools.pairwise(indptr):
        best = np.argsort(priority[indices[start:stop]], kind="stable")[:max_degree]
        keep[start + best] = 1
    return keep


def sender_scaling(
    indptr: np.ndarray, indices: np.ndarray, max_degree: int, seed: int = 0
) -> np.ndarray:
    """Refuted: every message of u is scaled by min(1, √(D / deg u)), to a total norm of √D.

    Counterexample: `shared_receivers`. Removing one of the D + 1 receivers brings the scale of m
    senders from √(D / (D + 1)) to 1, so that D rows move by m (1 - √(D / (D + 1))) each.

    With a public cap d ≥ deg u in place of the degree, r alone moves anything: √D, if the cap
    holds. Nobody can promise that for less than d = n - 1. `seed` is not read.
    """
    degrees = np.diff(indptr)
    with np.errstate(divide="ignore"):
        scale = np.minimum(1, np.sqrt(max_degree / degrees))
    return np.repeat(scale, degrees)


def two_sided_scaling(
    indptr: np.ndarray, indices: np.ndarray, max_degree: int, seed: int = 0
) -> np.ndarray:
    """Refuted: u → v has weight D / max(D, out-degree of u, in-degree of v).

    No node sends or receives more than D, and `shared_receivers` does no harm: r's m senders would
    share no more than the receivers may take. But removing a hub changes the degrees of all its
    neighbours at once. Counterexample: `hub_of_stars`, a hub beside m stars with D leaves. Without
    it the centres' weights rise from D / (D + 1) to 1: m D leaves move by 1 / (D + 1) each, m
    centres by D / (D + 1) and their share of x_r: at least √(m D / (D + 1)) in all, for aligned
    leaves and x_r opposite to them. `seed` is not read.
    """
    out_degrees = np.diff(indptr)
    in_degrees = np.bincount(indices, minlength=len(out_degrees))
    larger = np.maximum(np.repeat(out_degrees, out_degrees), in_degrees[indices])
    return max_degree / np.maximum(max_degree, larger)


def edge_order_truncation(
    indptr: np.ndarray, indices: np.ndarray, max_degree: int, seed: int = 0
) -> np.ndarray:
    """Refuted: a symmetric graph's edges are added in a public order while both ends have room,
    that is degrees below D (Day, Li and Lyu 2016, edge addition).

    The order is that of the pairs of ids, smaller one first; `seed` is not read. Against an order
    that is drawn once the graph is fixed this says nothing: chains of changes then climb in a
    random order and are probably short. No bound for those is proven here.

    Counterexample: `saturated_path`, whose inner nodes have room for one of their two path edges.
    Every other one stays. Remove the first node, and it is the other half: the rows of all m - 1
    inner nodes change a neighbour, which moves the aggregate by √2 each for orthogonal rows and by
    2 for opposite ones. For x ≡ 1 the inner rows do not move at all: histograms of degrees are
    stable, which is what the method was made for, and sums of features are not.
    """
    n = len(indptr) - 1
    position = _positions(indptr, indices)
    keep, room = np.zeros(len(indices)), np.full(n, max_degree)
    for u, v in sorted(position):
        if u < v and room[u] and room[v]:
            room[[u, v]] -= 1
            keep[[position[u, v], position[v, u]]] = 1
    return keep


def first_edges_truncation(
    indptr: np.ndarray, indices: np.ndarray, max_degree: int, seed: int = 0
) -> np.ndarray:
    """Refuted: an edge of a symmetric graph stays if it is among the first D of both its ends, in a
    public order (Blocki et al. 2013).

    The order is that of the pairs of ids, smaller one first; `seed` is not read. Nothing cascades,
    but a hub still stands in all its neighbours' lists. Counterexample: `hub_of_stars`. The hub's
    edge is the first of each centre, which pushes out the last leaf. Without the hub all m come
    back: m leaves gain their centre and m centres a leaf, √(2 m) for orthogonal rows or more.
    """
    n = len(indptr) - 1
    position = _positions(indptr, indices)
    keep, seen = np.zeros(len(indices)), np.zeros(n, dtype=int)
    for u, v in sorted(position):
        if u < v:
            if seen[u] < max_degree and seen[v] < max_degree:
                keep[[position[u, v], position[v, u]]] = 1
            seen[[u, v]] += 1
    return keep


def _positions(indptr: np.ndarray, indices: np.ndarray) -> dict[tuple[int, int], int]:
    """(sender, receiver) -> position of the edge, of a symmetric graph."""
    senders = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    position = {(int(u), int(v)): i for i, (u, v) in enumerate(zip(senders, indices, strict=True))}
    if any((v, u) not in position for u, v in position):
        raise GraphDPError("truncation in an order of the edges needs a symmetric graph")
    return position


#: Name -> candidate without a bound, for audits.
REFUTED: dict[str, Callable[[np.ndarray, np.ndarray, int, int], np.ndarray]] = {
    "hash_priority": hash_priority,
    "sender_scaling": sender_scaling,
    "two_sided_scaling": two_sided_scaling,
    "edge_order_truncation": edge_order_truncation,
    "first_edges_truncation": first_edges_truncation,
}


# --- the families that refute them ----------------------------------------------------------------


def shared_receivers(senders: int, max_degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes 0..D are receivers; `senders` more nodes point to all of them, and to nobody else."""
    receivers = max_degree + 1
    degrees = np.repeat([0, receivers], [receivers, senders])
    return _csr(degrees, np.tile(np.arange(receivers), senders))


def hub_of_stars(stars: int, max_degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Symmetric. Node 0 is joined to `stars` centres, each of which has D leaves of its own."""
    edges = []
    for star in range(stars):
        centre = 1 + star * (max_degree + 1)
        edges += [(0, centre), *((centre, centre + leaf) for leaf in range(1, max_degree + 1))]
    return symmetric_csr(1 + stars * (max_degree + 1), edges)


def saturated_path(length: int, max_degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Symmetric. A path of `length` edges whose inner nodes have D - 1 leaves of their own.

    The leaves have the smallest ids, so that their edges come first in the order of the pairs and
    leave room for one edge of the path; the path's ids rise along it.
    """
    leaves = (length - 1) * (max_degree - 1)
    path = leaves + np.arange(length + 1)
    edges = list(itertools.pairwise(path))
    edges += zip(range(leaves), np.repeat(path[1:-1], max_degree - 1), strict=True)
    return symmetric_csr(leaves + length + 1, edges)


def symmetric_csr(n: int, edges: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """The graph in which each of the undirected edges stands in both directions."""
    pairs = np.array([*edges, *((v, u) for u, v in edges)], dtype=np.int64).reshape(-1, 2)
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    return _csr(np.bincount(pairs[:, 0], minlength=n), pairs[:, 1])


def _csr(degrees: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64), targets.astype(np.int32)


# --- a bound that keeps more than public candidates do --------------------------------------------

_ROUNDS_PER_CHECK = 20


def balanced_weights(
    indptr: np.ndarray,
    indices: np.ndarray,
    max_degree: int,
    gap: float = 1e-9,
    max_rounds: int = 20_000,
) -> np.ndarray:
    """Survives: the weights nearest to 1, in relative entropy, with which nobody sends or receives
    more than D. `sensitivity.balanced_weights` is its bound.

    w minimises φ(w) = Σ_e (w_e ln w_e - w_e) over P(G) = {w ≥ 0: Σ_v w(u, v) ≤ D for every u and
    Σ_u w(u, v) ≤ D for every v}. The minimiser is w(u, v) = a_u b_v with a, b in (0, 1], where
    a_u < 1 only if u sends D in all, and likewise b: matrix scaling with a cap.

    Proof of the bound. Let w' be the minimiser for the graph without r, extended by 0.
      1. w' lies in P(G), and w is its minimiser: φ(w') - φ(w) ≥ B(w', w), the Bregman divergence
         Σ_e (w'_e ln(w'_e / w_e) - w'_e + w_e).
      2. w with the edges of r set to 0 lies in P(G - r), so φ(w') - φ(w) is at most the sum of
         w_e - w_e ln w_e over the edges of r. These are at most n - 1 each way, of weights ≤ 1
         with a sum ≤ D: at most 2 g, g = D (1 + ln((n - 1) / D)), or n - 1 where D ≥ n - 1.
      3. In each row p ln(p / q) - p + q ≥ (3 / 2) (p - q)² / (p + 2 q), so by Cauchy-Schwarz
         (Σ_u |w'(u, v) - w(u, v)|)² ≤ (2 / 3) (D + 2 D) B_v(w', w) = 2 D B_v(w', w).
    So the squared move is at most Σ_v 2 D B_v ≤ 4 D g, whatever the features and with row r
    included (of absent nodes, rows of zeros).

    The result is feasible and its φ lies within `gap` of the minimum, as the duality gap shows. By
    1. and 3. it then differs from the minimiser by at most √(2 D gap) in the same norm.

    Raises GraphDPError when `max_rounds` do not reach `gap`.
    """
    ones = matrix(indptr, indices, np.ones(len(indices)))
    incoming = ones.T.tocsr()
    n = len(indptr) - 1
    b = np.ones(n)
    senders = np.repeat(np.arange(n), np.diff(indptr))
    for _ in range(max_rounds // _ROUNDS_PER_CHECK):
        for _ in range(_ROUNDS_PER_CHECK):
            a = _capped(max_degree, ones @ b)
            b = _capped(max_degree, incoming @ a)
        # b came last, so nobody receives more than D; whoever sends more is scaled down.
        scaled = a[senders] * b[indices]
        sent = a * (ones @ b)
        weights = scaled / np.maximum(1, sent / max_degree)[senders]
        primal = float(np.sum(weights * np.log(weights) - weights))
        dual = max_degree * float(np.log(a).sum() + np.log(b).sum()) - float(scaled.sum())
        if primal - dual <= gap:
            return weights
    raise GraphDPError(
        f"balanced weights: duality gap {primal - dual:.3g} above {gap:g} after {max_rounds} "
        f"rounds; allow more rounds or a larger gap"
    )


def _capped(max_degree: int, load: np.ndarray) -> np.ndarray:
    """min(1, D / load), 1 where nothing is sent."""
    return max_degree / np.maximum(max_degree, load)
