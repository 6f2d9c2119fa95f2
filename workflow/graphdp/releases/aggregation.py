"""Private multi-hop aggregation (GAP, Algorithm 1); `graphdp.releases.cache` keeps it to once.

    for k = 1..K:   S = Aᵀ Xᵏ⁻¹;   Xᵏ = normalise(S + N(0, σ²))

One hop that leaves its noisy sums as they are is ProGAP's NAP (equation 7).

A[u, v] = 1 when u sends to v, so row v of S sums the rows of v's in-neighbours. What S changes by
when the graph changes is stated in `graphdp.privacy.sensitivity`: 1 for one directed edge (GAP,
appendix A.1, Lemma 1), √D for a node of a D-bounded graph, its own row left out (A.3, Lemma 3).

These are statements about real numbers, and the arithmetic here keeps them to the letter. Rows are
normalised to a norm that never exceeds 1, not even by rounding, and to multiples of 2⁻³⁰; sums of
such values in float64 are **exact** up to an in-degree of 2²³. Hence removing an edge changes the
sum by exactly that edge's row, and no result depends on the order of summation, on the number of
threads, or on which columns are summed together. (Sums in float32 would not do: the row is rounded
anew when an edge goes, and one of 50,000 in-edges then moved it by 1.004, measured.) How far the
noise is from ideal is stated in `graphdp.noise`.
"""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from graphdp.data.graph import InEdges
from graphdp.errors import GraphDPError
from graphdp.noise import GridNoise, add_noise
from graphdp.privacy.execution import Execution

# Part of every cache key: raise it when a change alters the bytes of a release.
MECHANISM = "gap-pma-2"
NAP_MECHANISM = "progap-nap-2"

# Entries (edges × columns) that `sum_in_edges` gathers at a time: they stay in the processor's
# cache; but never fewer edges than make a block worth starting.
_BLOCK_ENTRIES = 1 << 18
_BLOCK_EDGES = 1 << 12
# Rows that are perturbed and normalised at a time: bounds the working memory.
_BLOCK_ROWS = 1 << 16

# Rounding to float32 adds at most 2⁻²⁴ relatively; this much is taken off before.
_BELOW_ONE = 1 - 2.0**-23
_GRID = np.float32(2.0**30)


def normalize_rows(x: np.ndarray) -> np.ndarray:
    """Divide each row by its Euclidean norm; rows of zeros stay zero.

    The norm of a result, in exact arithmetic, is at most 1, and short of it by less than 2⁻²¹ (up
    to 10⁴ columns). Entries are multiples of 2⁻³⁰, rounded towards zero, so that sums of rows are
    exact in float64.

    Args:
      x: float32 or float64 (n, d), finite.

    Returns:
      float32 (n, d).

    Raises:
      GraphDPError: `x` is not two-dimensional or not finite.
    """
    if x.ndim != 2:
        raise GraphDPError(f"features to normalise must be a matrix, got shape {x.shape}")
    unit = np.empty(x.shape, dtype=np.float32)
    for start in range(0, len(x), _BLOCK_ROWS):
        rows = x[start : start + _BLOCK_ROWS].astype(np.float64)
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        if not np.isfinite(norms).all():
            raise GraphDPError(
                f"row {start + int(np.argmin(np.isfinite(norms)))} of the features is not finite: "
                "check the features or the encoder's training"
            )
        rows *= np.divide(_BELOW_ONE, norms, out=np.zeros_like(norms), where=norms > 0)[:, None]
        scaled = rows.astype(np.float32)
        # Scaling by a power of two is exact, so only the truncation rounds.
        unit[start : start + _BLOCK_ROWS] = np.trunc(scaled * _GRID) / _GRID
    return unit


def sum_in_edges(edges: InEdges, x: np.ndarray, threads: int = 1) -> np.ndarray:
    """Aᵀ x: for each node the sum of its in-neighbours' rows. Exact for rows of `normalize_rows`.

    Args:
      edges: the graph's in-edges, n nodes.
      x: float32 or float64 (n, c).
      threads: blocks of rows that are summed at the same time; does not change the result.

    Returns:
      float64 (n, c).

    Raises:
      GraphDPError: `x` has another number of rows than the graph has nodes.
    """
    if x.ndim != 2 or len(x) != edges.num_nodes:
        raise GraphDPError(
            f"features of shape {x.shape} do not fit a graph of {edges.num_nodes} nodes: "
            "give one row for each node"
        )
    x = np.ascontiguousarray(x)
    sums = np.empty(x.shape)
    size = max(_BLOCK_EDGES, _BLOCK_ENTRIES // max(1, x.shape[1]))
    starts = np.arange(0, len(edges.indices), size)
    cuts = np.unique([0, *np.searchsorted(edges.indptr, starts), edges.num_nodes])
    largest = int(np.diff(edges.indptr[cuts]).max(initial=0))
    ones, positions = np.ones(largest), np.arange(largest, dtype=np.int32)

    def add(first: int, last: int) -> None:
        start, stop = int(edges.indptr[first]), int(edges.indptr[last])
        # Gather first, in float32 as stored, then sum: the reads of a gather do not wait for each
        # other, those of a sum would (measured: 1.6 times as fast as one sparse product).
        # "clip" spares the bounds check of indices that `in_edges` made.
        rows = np.take(x, edges.indices[start:stop], axis=0, mode="clip").astype(np.float64)
        pointers = (edges.indptr[first : last + 1] - start).astype(np.int32)
        count = stop - start
        each = sp.csr_array(
            (ones[:count], positions[:count], pointers), shape=(last - first, count)
        )
        sums[first:last] = each @ rows

    firsts, lasts = cuts[:-1].tolist(), cuts[1:].tolist()
    if min(threads, len(firsts)) > 1:
        with ThreadPoolExecutor(threads) as pool:
            # list() raises what a thread raised.
            list(pool.map(add, firsts, lasts))
    else:
        list(map(add, firsts, lasts))
    return sums


@dataclass(frozen=True, eq=False)
class Release:
    """One private multi-hop aggregation: K Gaussian releases about the edges.

    x0: float32 (n, d), X⁰; its rows are normalised again, whatever they are.
    hops: K, at least 1.
    noise_std: σ, the standard deviation of the noise on every entry of a sum (a sum of unit rows):
      noise multiplier × sensitivity.
    private: False for ε = ∞, and only then σ is 0.
    stream: name of the noise stream. It must name all that tells this release from others (seed,
      dataset, level, ε, encoder, ...): two releases of different data under the same noise differ
      by an un-noised quantity. σ and K are added to it here.
    renormalise: whether the rows of a noisy sum are normalised, as Algorithm 1 does; without it
      (ProGAP's NAP) there is one hop alone, since what is summed must have rows of norm 1.
    sensitivity: what σ is set for, in units of a row's norm; to be written down.
    """

    x0: np.ndarray
    hops: int
    noise_std: float
    private: bool
    stream: tuple[int | str | float, ...]
    renormalise: bool = True
    sensitivity: float = 0.0

    def __post_init__(self) -> None:
        if self.x0.ndim != 2 or self.x0.dtype != np.float32:
            raise GraphDPError(
                f"x0 must be a float32 matrix, got {self.x0.dtype} of shape {self.x0.shape}"
            )
        if isinstance(self.hops, bool) or int(self.hops) != self.hops or self.hops < 1:
            raise GraphDPError(f"hops must be a whole number of at least 1, got {self.hops}")
        if not self.renormalise and self.hops != 1:
            raise GraphDPError(f"{self.hops} hops without normalising between them: release one")
        if not (math.isfinite(self.noise_std) and self.noise_std >= 0):
            raise GraphDPError(f"noise_std must be finite and not negative, got {self.noise_std}")
        if self.private and self.noise_std == 0:
            raise GraphDPError(
                "noise of scale 0 with a finite ε: calibrate the noise, or set ε to inf"
            )
        if not self.private and self.noise_std != 0:
            raise GraphDPError(f"noise of scale {self.noise_std} with ε = inf: set noise_std to 0")

    @property
    def executed(self) -> Execution | None:
        """What making it draws; None without noise."""
        if not self.private:
            return None
        draws = self.hops * self.x0.size
        return Execution(
            "none", self.hops, self.noise_std, sensitivity=self.sensitivity, draws=draws
        )

    @property
    def noise_name(self) -> tuple[int | str | float, ...]:
        """The name of the noise: equal for two releases only if their noise is."""
        return (*self.stream, repr(float(self.noise_std)), int(self.hops))


@dataclass(frozen=True)
class NoisySum:
    """A record of one Gaussian release that was really made, to be held against the plan."""

    stream: tuple[int | str | float, ...]
    hop: int
    noise_std: float


def private_hops(
    edges: InEdges,
    releases: Sequence[Release],
    threads: int = 1,
    ledger: list[NoisySum] | None = None,
) -> list[np.ndarray]:
    """Run Algorithm 1 for several releases over the same edges, reading these once per hop.

    Each result has the same bytes as if it were alone in the call.

    Args:
      edges: the graph's in-edges, n nodes.
      releases: what to release; x0 of shape (n, d) each, d may differ.
      threads: does not change the result.
      ledger: receives one entry for each noisy sum: `hops` for every private release.

    Returns:
      for each release X¹..Xᴷ, float32 (K, n, d), rows of norm 1 (or 0) if they are renormalised.

    Raises:
      GraphDPError: x0 does not fit the graph or is not finite.
    """
    current = [normalize_rows(release.x0) for release in releases]
    results = [np.empty((release.hops, *release.x0.shape), np.float32) for release in releases]
    with ThreadPoolExecutor(threads) as pool:
        for hop in range(1, max((release.hops for release in releases), default=0) + 1):
            active = [i for i, release in enumerate(releases) if release.hops >= hop]
            widths = [current[i].shape[1] for i in active]
            sums = sum_in_edges(edges, np.hstack([current[i] for i in active]), threads)
            parts = np.split(sums, np.cumsum(widths)[:-1], axis=1)
            made = pool.map(lambda i, part, k=hop: _perturb(part, releases[i], k), active, parts)
            for i, noisy in zip(active, made, strict=True):
                current[i] = results[i][hop - 1] = noisy
                if releases[i].private and ledger is not None:
                    ledger.append(NoisySum(releases[i].stream, hop, releases[i].noise_std))
    return results


def _perturb(sums: np.ndarray, release: Release, hop: int) -> np.ndarray:
    """Lines 3 to 5 of Algorithm 1: add the noise, normalise the rows if that is asked for."""
    if release.private:
        noise = GridNoise([(*release.noise_name, "hop", hop)])
        sums = add_noise(sums, release.noise_std, noise)
    return normalize_rows(sums) if release.renormalise else sums.astype(np.float32)
