"""Degree-bounded sampling: at most `max_degree` out-edges per node, uniformly without replacement.

GAP (section 5.2) needs graphs of bounded out-degree at node level: a node's embedding then enters
at most `max_degree` rows of the aggregate, which bounds its sensitivity by √max_degree (Theorem 2
and Lemma 3, appendix A.3).

What a row keeps depends on (seed, row, degree of the row) and on nothing else: not on other rows,
on how many there are, or on blocks. A node that takes no part therefore leaves the samples of all
others as they are (the "participant" adjacency), as long as their own out-lists stay. It does not
repair node-level adjacency in which removing a node also shortens other nodes' lists: those draw
anew, and no bound on the number of changed rows holds (`graphdp.privacy.stability` has the
counterexamples). `public_candidates` is the bound that holds there.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphdp import io, rng
from graphdp.data.graph import Graph
from graphdp.errors import GraphDPError
from graphdp.graphs.bounds import parse_bound

# Entries of one rectangle of random keys (8 bytes each): bounds the working memory to about 100 MB.
_BLOCK_ENTRIES = 1 << 21

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def bound_out_degree(
    indptr: np.ndarray, indices: np.ndarray, max_degree: int, seed: int
) -> np.ndarray:
    """Choose at most `max_degree` out-edges of every node, uniformly without replacement.

    Each edge gets a 64-bit key, a hash of (seed, row, position in the row); a row keeps the edges
    with the `max_degree` smallest keys, and all of them where it has no more than `max_degree`.

    Args:
      indptr: int64 (n + 1,), CSR row pointers; row = source of the edges.
      indices: int32 (m,), targets. Only its length is read: the choice is by position in the row.
      max_degree: largest number of out-edges to keep, at least 1.
      seed: the sample's seed; equal seeds give equal samples.

    Returns:
      keep, bool (m,): True for the edges that stay.

    Raises:
      GraphDPError: `max_degree` below 1, or `indptr` and `indices` that do not fit together.
    """
    _check_max_degree(max_degree)
    degrees = _degrees(indptr, len(indices))
    keep = np.ones(len(indices), dtype=bool)
    rows = np.flatnonzero(degrees > max_degree)
    if not len(rows):
        return keep
    # Rows of nearly equal degree share a rectangle, so that little of it is padding.
    rows = rows[np.argsort(degrees[rows], kind="stable")]
    row_keys = _mix(np.uint64(rng.stream_seed("bound_out_degree", int(seed))) + _counter(rows))
    column_keys = _mix(_counter(np.arange(int(degrees[rows[-1]]))))
    for block in _rectangles(degrees[rows]):
        width = degrees[rows[block]]
        smallest = _smallest_keys(row_keys[block], column_keys, width, max_degree)
        columns = np.arange(smallest.shape[1])
        inside = columns < width[:, None]
        edges = indptr[rows[block], None] + columns
        keep[edges[inside]] = smallest[inside]
    return keep


def public_candidates(
    indptr: np.ndarray,
    indices: np.ndarray,
    max_degree: int,
    seed: int,
    ids: np.ndarray | None = None,
    num_ids: int | None = None,
) -> np.ndarray:
    """Keep the edges to the `max_degree` ids that a node may send to, drawn without its edges.

    The ids stand in a circle, in a public pseudorandom order; a node may send to the D ids that
    follow its own. So no node sends to more than D others, and none receives from more.

    Whether u → v stays depends on nothing but (seed, u, v, number of ids). A removed node r takes
    its own edges along and no other: its at most D receivers move by x_r, norm ≤ √D, the own row
    of r left out (`sensitivity.public_candidates`). With that row, which sums at most D others,
    it is √(D + D²), if rows of absent ids are released as well.

    An edge stays with probability D / (number of ids - 1) over the seed, which must be public or
    at least not depend on the graph. D ≥ number of ids - 1 keeps all edges but self-loops.

    Args:
      indptr: int64 (n + 1,). indices: int32 (m,). Row = source of the edges.
      max_degree: D, number of ids that a node may send to, at least 1.
      seed: of the order of the ids. Equal seeds give nested choices: D keeps what D - 1 keeps.
      ids: int64 (n,), each node's id in the public universe; by default its position.
      num_ids: size of the public universe; by default n.

    Returns:
      keep, bool (m,): True for the edges that stay.

    Raises:
      GraphDPError: `max_degree` below 1, `indptr` and `indices` that do not fit together, or ids
        that are not n different ones of the universe.
    """
    _check_max_degree(max_degree)
    degrees = _degrees(indptr, len(indices))
    n = len(degrees)
    num_ids = n if num_ids is None else num_ids
    ids = np.arange(n) if ids is None else ids
    if (
        len(ids) != n
        or len(np.unique(ids)) != n
        or (n and not 0 <= ids.min() <= ids.max() < num_ids)
    ):
        raise GraphDPError(
            f"ids must be {n} different numbers within 0..{num_ids - 1}, one for each node: "
            "give the graph's ids and num_ids"
        )
    places = public_order(num_ids, seed)[ids]
    keep = np.empty(len(indices), dtype=bool)
    for start in range(0, len(indices), _BLOCK_ENTRIES):
        stop = min(start + _BLOCK_ENTRIES, len(indices))
        first, last = np.searchsorted(indptr, [start, stop - 1], side="right") - 1
        lengths = np.diff(np.clip(indptr[first : last + 2], start, stop))
        ahead = places[indices[start:stop]] - np.repeat(places[first : last + 1], lengths)
        ahead[ahead < 0] += num_ids
        keep[start:stop] = (ahead >= 1) & (ahead <= max_degree)
    return keep


def public_order(num_ids: int, seed: int) -> np.ndarray:
    """Each id's place in a pseudorandom order that only `seed` decides: int64 (num_ids,)."""
    # The hash is one-to-one (as is SplitMix64), so there are no ties.
    key = np.uint64(rng.stream_seed("public_order", int(seed)))
    places = np.empty(num_ids, dtype=np.int64)
    places[np.argsort(_mix(key + _counter(np.arange(num_ids))))] = np.arange(num_ids)
    return places


def bound_degrees(
    indptr: np.ndarray, indices: np.ndarray, max_degree: int, seed: int
) -> np.ndarray:
    """Keep at most `max_degree` out-edges **and** at most `max_degree` in-edges of every node.

    `bound_out_degree` first; then of what is left every node keeps the in-edges with the smallest
    keys, a hash of (seed, source, target). An edge's key depends on nothing else, so an edge that
    is not there changes another node's in-list by one place at most: its successor's.
    (The greedy sampler of GAP's code over a random order of the edges has no such bound.)

    Args and errors as `bound_out_degree`. Returns keep, bool (m,).
    """
    keep = bound_out_degree(indptr, indices, max_degree, seed)
    kept = np.flatnonzero(keep)
    sources = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))[kept]
    targets = indices[kept]
    keys = _edge_keys(sources, targets, rng.stream_seed("bound_degrees", int(seed)))
    order = np.lexsort((keys, targets))
    targets = targets[order]
    place = np.arange(len(targets)) - np.searchsorted(targets, targets)
    keep[kept[order[place >= max_degree]]] = False
    return keep


def first_targets(
    indptr: np.ndarray, indices: np.ndarray, max_degree: int, seed: int
) -> np.ndarray:
    """Keep the `max_degree` out-edges of every node with the smallest keys, a hash of (seed,
    source, target).

    An edge that is not there changes one list, by one place at most: its successor's. That holds
    for every seed, also a known one; in `bound_out_degree`, which chooses by position, an edge
    more draws the whole list anew, and only the laws of the two samples are close.

    Args and errors as `bound_out_degree`. Returns keep, bool (m,).
    """
    _check_max_degree(max_degree)
    degrees = _degrees(indptr, len(indices))
    sources = np.repeat(np.arange(len(degrees)), degrees)
    keys = _edge_keys(sources, indices, rng.stream_seed("first_targets", int(seed)))
    place = np.arange(len(indices)) - indptr[sources]
    keep = np.ones(len(indices), dtype=bool)
    keep[np.lexsort((keys, sources))[place >= max_degree]] = False
    return keep


def apply_mask(
    indptr: np.ndarray, indices: np.ndarray, keep: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The CSR graph of the edges that `keep` marks.

    Args:
      indptr: int64 (n + 1,). indices: int32 (m,). keep: bool (m,).

    Returns:
      (indptr int64 (n + 1,), indices int32 (number kept,)); order within rows as before.

    Raises:
      GraphDPError: the three arrays do not fit together.
    """
    degrees = _degrees(indptr, len(indices))
    if keep.shape != indices.shape or keep.dtype != bool:
        raise GraphDPError(
            f"degree mask is {keep.dtype} {keep.shape}, the graph has {len(indices)} edges: "
            "make the mask from this graph with bound_out_degree"
        )
    bounded = np.zeros(len(indptr), dtype=np.int64)
    # reduceat does not know empty segments: sum over the rows that have edges.
    filled = np.flatnonzero(degrees)
    if len(filled):
        bounded[filled + 1] = np.add.reduceat(keep, indptr[filled], dtype=np.int64)
    return np.cumsum(bounded, out=bounded), indices[keep]


def keep_edges(graph: Graph, name: str, stream: Sequence[Any], public: Sequence[Any]) -> np.ndarray:
    """The edges that the degree bound of a `bound_name` leaves of a graph, bool (m,).

    stream: names the random stream of "sampling" and "both_degrees". public:
    names that of "public_candidates", and must not hold the study seed, which the noise depends on.
    """
    max_degree, how = parse_bound(name)
    edges = graph.indptr, graph.indices, max_degree
    if how != "public_candidates":
        sampled = bound_out_degree if how == "sampling" else bound_degrees
        return sampled(*edges, rng.stream_seed(*stream))
    order = rng.stream_seed("public candidates", *public)
    return public_candidates(*edges, order, graph.ids, graph.num_ids)


def mask_fingerprint(keep: np.ndarray) -> str:
    """Hex SHA-256 of a degree mask (bool (m,)), to name it in caches and records."""
    return io.sha256_arrays(np.array([len(keep)]), np.packbits(keep))


@dataclass(frozen=True)
class DegreeMasks:
    """The degree masks of one graph and one bound (`bound_name`): seed -> keep, bool (m,)."""

    bound: str
    masks: dict[int, np.ndarray]


def save_masks(
    path: str | os.PathLike, masks: Mapping[int, np.ndarray], *, bound: str, graph: str
) -> None:
    """Write the degree masks of several seeds to one `.npz`, one bit per edge.

    Args:
      path: the file to write (atomically).
      masks: seed -> keep, bool (m,), all of one graph.
      bound: name of the bound that they were made with (`bound_name`).
      graph: `Graph.fingerprint()` of the graph whose edges they mark.

    Raises:
      GraphDPError: no mask, masks of different lengths, or `max_degree` below 1.
    """
    _check_max_degree(parse_bound(bound)[0])
    lengths = {len(keep) for keep in masks.values()}
    if len(lengths) != 1:
        raise GraphDPError(
            f"degree masks of one graph must be of one length, got {sorted(lengths)}: "
            "make all of them from the same graph"
        )
    io.save_npz(
        path,
        graph=np.array(graph),
        bound=np.array(bound),
        num_edges=np.array(lengths.pop(), dtype=np.int64),
        **{f"seed_{seed}": np.packbits(keep) for seed, keep in masks.items()},
    )


def load_masks(path: str | os.PathLike, *, graph: str) -> DegreeMasks:
    """Read the degree masks that `save_masks` wrote.

    Args:
      path: the file.
      graph: `Graph.fingerprint()` of the graph that they are going to be applied to.

    Raises:
      GraphDPError: the file is not readable, or its masks are of another graph.
    """
    try:
        arrays = io.load_npz(path)
        found = str(arrays.pop("graph"))
        bound = str(arrays.pop("bound"))
        num_edges = int(arrays.pop("num_edges"))
        masks = {
            int(name.removeprefix("seed_")): np.unpackbits(bits, count=num_edges).astype(bool)
            for name, bits in arrays.items()
        }
    except Exception as error:  # numpy and zipfile raise many kinds for a damaged file
        raise GraphDPError(
            f"{path} is not a readable degree-mask file ({error}): delete it and run again"
        ) from error
    if found != graph:
        raise GraphDPError(
            f"{path} holds degree masks of another graph (fingerprint {found[:12]}, "
            f"expected {graph[:12]}): delete it and run again"
        )
    return DegreeMasks(bound, masks)


def load_bounds(
    paths: Iterable[str | os.PathLike], *, graph: str
) -> dict[str, dict[int, np.ndarray]]:
    """Read the masks of several degree bounds: `bound_name` -> seed -> kept edges, bool (m,).

    Raises `GraphDPError` as `load_masks` does.
    """
    loaded = [load_masks(path, graph=graph) for path in paths]
    return {found.bound: found.masks for found in loaded}


def _check_max_degree(max_degree: int) -> None:
    if isinstance(max_degree, bool) or int(max_degree) != max_degree or max_degree < 1:
        raise GraphDPError(f"max_degree must be a whole number of at least 1, got {max_degree}")


def _degrees(indptr: np.ndarray, num_edges: int) -> np.ndarray:
    """Row lengths, after checking that the pointers start at 0, never fall and end at the edges."""
    degrees = np.diff(indptr)
    if len(indptr) < 1 or indptr[0] != 0 or indptr[-1] != num_edges or (degrees < 0).any():
        raise GraphDPError(
            f"indptr is no CSR row pointer of {num_edges} edges: "
            "it must start at 0, never decrease and end at the number of edges"
        )
    return degrees


def _counter(positions: np.ndarray) -> np.ndarray:
    return (positions.astype(np.uint64) + np.uint64(1)) * _GOLDEN


def _edge_keys(sources: np.ndarray, targets: np.ndarray, seed: int) -> np.ndarray:
    """uint64, of each edge by itself; of one source, different targets have different keys."""
    return _mix(_mix(np.uint64(seed) + _counter(sources)) + _counter(targets))


def _mix(values: np.ndarray) -> np.ndarray:
    """The output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): uint64 to uint64.

    Counter based, so that all keys come from array arithmetic whatever rows they belong to; a numpy
    generator would have to be created anew for every row.
    """
    values = values ^ (values >> np.uint64(30))
    values *= np.uint64(0xBF58476D1CE4E5B9)
    values ^= values >> np.uint64(27)
    values *= np.uint64(0x94D049BB133111EB)
    values ^= values >> np.uint64(31)
    return values


def _rectangles(widths: np.ndarray) -> Iterable[slice]:
    """Cut ascending `widths` into runs of which (rows × largest width) stays within the block."""
    start = 0
    while start < len(widths):
        stop = min(start + max(1, _BLOCK_ENTRIES // int(widths[start])), len(widths))
        # It is the last row's width that counts: give back the surplus.
        stop = min(stop, start + max(1, _BLOCK_ENTRIES // int(widths[stop - 1])))
        yield slice(start, stop)
        start = stop


def _smallest_keys(
    row_keys: np.ndarray, column_keys: np.ndarray, widths: np.ndarray, count: int
) -> np.ndarray:
    """Mark the `count` smallest keys of each row: bool (rows, largest width).

    The lowest bits of a key are replaced by its position, as many as the row's degree needs: keys
    of a row are then distinct and exactly `count` of them are at or below the count-th smallest.
    The other bits decide; ties among them, which the position breaks, move the inclusion
    probability of an edge by less than 2 degree² × 2^-64.
    """
    columns = np.arange(int(widths.max()), dtype=np.uint64)
    keys = _mix(row_keys[:, None] + column_keys[: len(columns)])
    bits = np.ceil(np.log2(widths)).astype(np.uint64)[:, None]
    keys >>= bits
    keys <<= bits
    keys |= columns
    keys[columns >= widths[:, None].astype(np.uint64)] = np.iinfo(np.uint64).max
    threshold = np.partition(keys, count - 1, axis=1)[:, count - 1, None]
    return keys <= threshold
