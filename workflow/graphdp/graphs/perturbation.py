"""Graph perturbation: one ε-private release of all edges of a graph.

Four mechanisms, each in time and memory proportional to the edges that go in and come out:

- asymmetric: randomised response whose ones are thinned so that the expected number of edges
  stays as it is (Imola, Murakami and Chaudhuri, USENIX Security 2022, as GAP's
  baseline SAGE-EDP uses it, section 7.2), with a private estimate of that number;
- edge_rand: randomised response (Wu et al., LinkTeller, IEEE S&P 2022, EdgeRand);
- lap_graph: Laplace noise on every pair, of which the largest are kept, as many as a private
  estimate of the number of edges says (Wu et al., LapGraph);
- asymmetric_chunks: asymmetric as GAP's, ProGAP's and DPDGC's code runs it, an estimate for every
  500 nodes, whose noise is too small for the ε that it claims (`_respond_in_chunks`).

What is protected is one **undirected** edge. A pair i < j is perturbed once and then stands in both
directions, so its ε is spent once. Of a directed graph every ordered pair is perturbed on its own,
and one **directed** edge is protected. (For the two directed entries of a connection that spends ε
twice.) asymmetric_chunks does that on any graph.

The set of nodes is public. Pairs i < j of n nodes are numbered by rows: N = n (n - 1) / 2.
"""

import json
import math
import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from graphdp import io
from graphdp.coins import Coins
from graphdp.data.graph import csr_from_edges, in_edges
from graphdp.errors import GraphDPError, one_of
from graphdp.privacy.execution import Execution, answered

PERTURBATIONS = ("asymmetric", "edge_rand", "lap_graph", "asymmetric_chunks")

#: Rows of the adjacency matrix that the authors' code perturbs at a time.
CHUNK = 500

#: Peak memory of a perturbation per undirected edge that comes out, in bytes (a test holds it).
BYTES_PER_EDGE = 100


class Perturbed(NamedTuple):
    """A perturbed graph: CSR as `perturb` returns it, and the ε of each part that drew it."""

    indptr: np.ndarray
    indices: np.ndarray
    epsilons: Mapping[str, float]

    def executed(self) -> dict[str, Execution]:
        """What was drawn, as a plan's phases say it."""
        return {part: answered(epsilon) for part, epsilon in self.epsilons.items()}


def perturb(
    indptr: np.ndarray,
    indices: np.ndarray,
    perturbation: str,
    epsilons: Mapping[str, float],
    coins: Coins,
    max_edges: int,
    directed: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw a perturbed graph: (Σ epsilons)-DP for adding or removing one undirected edge, or with
    `directed` one directed edge; but asymmetric_chunks is that under neither.

    Args:
      indptr, indices: int64 (n + 1,), int32 (m,): CSR of a graph without self-loops, undirected
        unless `directed`.
      perturbation: one of `PERTURBATIONS`.
      epsilons: ε of each part, above 0: "link" for the pairs, and "density" for the number of
        edges, which edge_rand does not read.
      coins: those of this release (`graphdp.coins` says how far they are from ideal ones).
      max_edges: largest number of edges that memory allows (see `BYTES_PER_EDGE`).
      directed: perturb the ordered pairs (i, j), each on its own, as asymmetric_chunks always does.

    Returns:
      CSR of the perturbed graph, as the input: symmetric unless ordered pairs were perturbed,
      without self-loops.

    Raises:
      GraphDPError: the graph is directed and `directed` is not set, an ε is not above 0, or too
        many edges would come out.
    """
    nodes = len(indptr) - 1
    needed = ("link",) if perturbation == "edge_rand" else ("link", "density")
    one_of("perturbation", perturbation, PERTURBATIONS)
    if sorted(epsilons) != sorted(needed) or not all(value > 0 for value in epsilons.values()):
        raise GraphDPError(
            f"{perturbation} needs an ε above 0 for {' and '.join(needed)}, got {dict(epsilons)}"
        )
    link = epsilons["link"]
    if perturbation == "asymmetric_chunks":
        targets, sources = _respond_in_chunks(indptr, indices, epsilons, coins, max_edges)
        return csr_from_edges(sources, targets, nodes, symmetrise=False)
    pairs = (_Entries if directed else _Pairs)(nodes)
    edges = pairs.of_graph(indptr, indices)
    if perturbation == "edge_rand":
        goes, add = edge_rand_probabilities(link)
        if add * pairs.count > max_edges:
            least = math.log(pairs.count / max_edges - 1)
            raise GraphDPError(
                f"edge_rand at ε {link:g} makes about {add * pairs.count:.3g} edges of {nodes} "
                f"nodes and memory allows {max_edges:.3g}; the smallest ε that fits is "
                f"{math.ceil(least * 100) / 100:g}, or use perturbation: asymmetric"
            )
        noisy = _respond(edges, pairs.count, goes, add, coins)
    else:
        estimate = noisy_count(len(edges), epsilons["density"], coins)
        estimate = min(max(estimate, 0), pairs.count)
        _check_room(perturbation, estimate, epsilons, max_edges)
        if perturbation == "asymmetric":
            goes, add = asymmetric_probabilities(link, estimate / max(pairs.count, 1))
            noisy = _respond(edges, pairs.count, goes, add, coins)
        else:
            noisy = _largest(edges, pairs.count, link, estimate, coins)
    return csr_from_edges(*pairs.ends(noisy), nodes, symmetrise=not directed)


def _check_room(
    perturbation: str, edges: int, epsilons: Mapping[str, float], max_edges: int
) -> None:
    if edges > max_edges:
        raise GraphDPError(
            f"{perturbation} at ε {sum(epsilons.values()):g} makes about {edges:.3g} edges "
            f"and memory allows {max_edges:.3g}; raise memory_mb"
        )


def edge_rand_probabilities(epsilon: float) -> tuple[float, float]:
    """Randomised response: the chances that an edge goes, and that a missing one appears.

    Both are 1 / (1 + e^ε), so the likelihood ratio of either answer is e^±ε. (That an edge stays is
    the rest, which rounding would bring to 1.)
    """
    other = math.exp(-epsilon) / (1 + math.exp(-epsilon))
    return other, other


def asymmetric_probabilities(epsilon: float, density: float) -> tuple[float, float]:
    """Asymmetric randomised response: the chances that an edge goes, and that one appears.

    Randomised response with p = e^ε / (1 + e^ε), then every edge of its output is kept with
    probability q, so (1 - p q, (1 - p) q). The thinning is post-processing, hence ε-DP; the
    likelihood ratio of an edge in the output is e^ε exactly. With
    q = d / (p d + (1 - p)(1 - d)) the output has the expected density d of the input, in [0, 1];
    beyond d = 1/2 q would exceed 1, and is 1. At d = 0 nothing comes out: rounded, 1 - p q left an
    edge a chance of 2⁻⁵³ to stay, where no other pair has any.
    """
    if density <= 0:
        return 1.0, 0.0
    other, _ = edge_rand_probabilities(epsilon)
    p = 1 / (1 + math.exp(-epsilon))
    answers = p * density + other * (1 - density)
    if answers == 0:
        return 1.0, 0.0
    thinned = max(0.0, other * (1 - 2 * density) / answers)  # 1 - q
    return other + p * thinned, other * (1 - thinned)


def noisy_count(count: int, epsilon: float, coins: Coins) -> int:
    """`count` + discrete Laplace noise, P(k) ∝ e^(-ε |k|): ε-DP, for one edge changes it by 1.

    Whole numbers, so that no rounding of a float can leak.
    """
    return count + int(coins.laplace(1, epsilon)[0])


def _respond(edges: np.ndarray, pairs: int, goes: float, add: float, coins: Coins) -> np.ndarray:
    """Each edge goes with probability `goes`, each other pair appears with `add`, all apart."""
    stay = edges[~coins.flips(len(edges), goes)]
    return np.concatenate([stay, _non_edges(edges, coins.successes(pairs - len(edges), add))])


def _respond_in_chunks(
    indptr: np.ndarray,
    indices: np.ndarray,
    epsilons: Mapping[str, float],
    coins: Coins,
    max_edges: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Asymmetric randomised response of the directed entries, `CHUNK` targets at a time, each with
    an estimate of its own density: (targets, sources), int64 each.

    The r targets of a chunk have r n entries. To their density the authors' code adds Laplace noise
    for the sensitivity 1/n² of a whole matrix, where one entry moves it by 1/(r n). So of "density"
    ε_d a chunk's count has noise of scale r / (n ε_d), and costs ε_d n / r, not ε_d. Chunks are of
    different entries, so a directed entry costs ε_link + ε_d n / r with r of the smallest chunk,
    and an undirected edge, two entries in chunks of their own, at most twice that.

    Two things differ, both of which read no edge: the count's noise is of whole numbers, and of the
    n entries on the diagonal, which that code answers as well, none comes out.
    Source: sisaman/GAP and sisaman/ProGAP, AsymmetricRandResponse; thupchnsky/dp-gnn has it of GAP.
    """
    nodes = len(indptr) - 1
    incoming = in_edges(indptr, indices)
    entries = _Entries(nodes)
    edges = entries.of_graph(incoming.indptr, incoming.indices)
    drawn, made = [np.empty(0, np.int64)], 0
    for row in range(0, nodes, CHUNK):
        rows = min(CHUNK, nodes - row)
        start, count = row * entries.others, rows * (nodes - 1)
        first, last = np.searchsorted(edges, [start, start + count])
        estimate = noisy_count(int(last - first), epsilons["density"] * nodes / rows, coins)
        estimate = min(max(estimate, 0), count)
        made += estimate
        _check_room("asymmetric_chunks", made, epsilons, max_edges)
        goes, add = asymmetric_probabilities(epsilons["link"], estimate / (rows * nodes))
        drawn.append(start + _respond(edges[first:last] - start, count, goes, add, coins))
    return entries.ends(np.concatenate(drawn))


def _largest(edges: np.ndarray, pairs: int, epsilon: float, count: int, coins: Coins) -> np.ndarray:
    """The `count` largest of (1 for an edge, 0 for another pair) + Laplace noise over all pairs.

    In units of g = 2⁻ʲ, with ε g in (2⁻⁹, 2⁻⁸] (or g = 1), values are whole numbers and the noise
    is discrete Laplace, P(k) ∝ e^(-ε g |k|): an edge moves its pair's value by 1/g units, so this
    is ε-DP. Equal values are ordered at random.

    Only values of at least a threshold t ≥ 0 are drawn, exactly as if all were: a missing edge gets
    there with chance e^(-ε g t) / (1 + e^(-ε g)), and then its value is t and as many units more as
    there are failures before a success of chance 1 - e^(-ε g). t leaves more of them than are
    wanted, up to a chance below 1e-30 (12 standard deviations).
    """
    wanted = count + 12 * math.sqrt(count) + 100
    # Of the number of edges only what is asked for may decide.
    others = max(pairs - len(edges), 1)
    if 4 * wanted > pairs:
        raise GraphDPError(
            f"lap_graph keeps {count} of {pairs} pairs, too many for a sparse draw; "
            "use perturbation: asymmetric"
        )
    unit = epsilon * 2.0 ** -max(0, math.ceil(math.log2(epsilon)) + 8)
    threshold = max(0, math.floor(math.log(others / wanted / (1 + math.exp(-unit))) / unit))
    chance = math.exp(-unit * threshold) / (1 + math.exp(-unit))
    appear = _non_edges(edges, coins.successes(pairs - len(edges), chance))
    values = round(epsilon / unit) + coins.laplace(len(edges), unit)
    above = values >= threshold
    candidates = np.concatenate([edges[above], appear])
    more = coins.failures(len(appear), -math.expm1(-unit))
    values = np.concatenate([values[above], threshold + more])
    if len(candidates) < count:
        raise GraphDPError("lap_graph drew too few pairs (chance below 1e-30): report a bug")
    order = np.lexsort((coins.words(len(candidates)), -values))
    return candidates[order[:count]]


def _non_edges(edges: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """The numbers of the pairs that are no edges, from their ranks among these. Edges ascending."""
    # `before[i]` pairs without an edge lie before edge i.
    before = edges - np.arange(len(edges))
    return ranks + np.searchsorted(before, ranks, side="right")


class _Pairs:
    """The pairs i < j of n nodes, numbered row by row."""

    def __init__(self, nodes: int):
        self.nodes = nodes
        rows = np.arange(nodes + 1, dtype=np.int64)
        #: Number of the first pair of each row.
        self.starts = rows * (nodes - 1) - rows * (rows - 1) // 2
        self.count = nodes * (nodes - 1) // 2

    def of_graph(self, indptr: np.ndarray, indices: np.ndarray) -> np.ndarray:
        """The numbers, ascending, of an undirected graph's edges: int64 (m / 2,)."""
        entries = np.ones(len(indices), np.int8)
        adjacency = sp.csr_array((entries, indices, indptr), shape=(self.nodes, self.nodes))
        if (adjacency != adjacency.T.tocsr()).nnz:
            raise GraphDPError(
                "the graph is directed, and graph perturbation protects undirected edges: set "
                "`directed: true` for this dataset, or preprocessing symmetrise: true"
            )
        sources = np.repeat(np.arange(self.nodes, dtype=np.int64), np.diff(indptr))
        upper = sources < indices
        sources, targets = sources[upper], indices[upper].astype(np.int64)
        return self.starts[sources] + targets - sources - 1

    def ends(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(i, j) of pairs, int64 each."""
        sources = np.searchsorted(self.starts[:-1], pairs, side="right") - 1
        # The last row has no pair, and starts where the one before it ends.
        sources = np.minimum(sources, self.nodes - 2)
        return sources, pairs - self.starts[sources] + sources + 1


class _Entries:
    """The ordered pairs (i, j), i ≠ j, of n nodes, numbered row by row."""

    def __init__(self, nodes: int):
        self.others = max(nodes - 1, 1)
        self.count = nodes * (nodes - 1)

    def of_graph(self, indptr: np.ndarray, indices: np.ndarray) -> np.ndarray:
        """The numbers, ascending, of a directed graph's edges: int64 (m,)."""
        sources = np.repeat(np.arange(len(indptr) - 1, dtype=np.int64), np.diff(indptr))
        targets = indices.astype(np.int64)
        return np.sort(sources * self.others + targets - (targets > sources))

    def ends(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(i, j) of pairs, int64 each."""
        sources, targets = np.divmod(pairs, self.others)
        return sources, targets + (targets >= sources)


def save_graphs(
    path: str | os.PathLike,
    graphs: Mapping[tuple[int, str], Perturbed],
    *,
    graph: str,
) -> None:
    """Write the perturbed graphs of several (seed, perturbation) to one `.npz`.

    graph: `Graph.fingerprint()` of the true one.
    """
    arrays = {}
    for (seed, perturbation), (indptr, indices, epsilons) in graphs.items():
        arrays[f"{seed}/{perturbation}/indptr"] = indptr
        arrays[f"{seed}/{perturbation}/indices"] = indices
        arrays[f"{seed}/{perturbation}/epsilons"] = np.array(json.dumps(epsilons))
    io.save_npz(path, graph=np.array(graph), **arrays)


def load_graphs(path: str | os.PathLike, *, graph: str) -> dict[tuple[int, str], Perturbed]:
    """Read what `save_graphs` wrote, by (seed, perturbation).

    Raises `GraphDPError` if the file is not readable or belongs to another graph.
    """
    try:
        arrays = io.load_npz(path)
        found = str(arrays.pop("graph"))
        graphs = {}
        for name in arrays:
            seed, perturbation, part = name.split("/")
            if part == "indptr":
                indices, text = (
                    arrays[f"{seed}/{perturbation}/{other}"] for other in ("indices", "epsilons")
                )
                epsilons = json.loads(str(text))
                graphs[int(seed), perturbation] = Perturbed(arrays[name], indices, epsilons)
    except Exception as error:  # numpy and zipfile raise many kinds for a damaged file
        raise GraphDPError(
            f"{path} is not a readable file of perturbed graphs ({error}): delete it and run again"
        ) from error
    if found != graph:
        raise GraphDPError(
            f"{path} holds perturbed graphs of another graph (fingerprint {found[:12]}, "
            f"expected {graph[:12]}): delete it and run again"
        )
    return graphs


def load_files(
    paths: Iterable[str | os.PathLike], *, graph: str
) -> dict[tuple[int, str], Perturbed]:
    """All perturbed graphs of several files. Raises `GraphDPError` as `load_graphs` does."""
    found = {}
    for path in paths:
        found |= load_graphs(path, graph=graph)
    return found
