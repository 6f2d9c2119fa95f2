"""The contextual stochastic block model: a generated graph whose signal is known exactly."""

import math

import numpy as np

from graphdp import rng
from graphdp.data.csbm_sizes import check_sizes, edge_probabilities, signal
from graphdp.data.graph import Graph, csr_from_edges


def csbm(n: int, f: int, d: float, epsilon: float, phi: float, seed: int) -> Graph:
    """Generate a graph (DPDGC, Appendix K; Deshpande et al. 2018).

    Two classes v_i = ±1 of equal size (an odd n gives the first one node more), in random order;
    u ~ N(0, I/f); features b_i = √(μ/n)·v_i·u + Z_i/√f with Z_i ~ N(0, I); undirected edges,
    independent, with probability (d + λ√d)/n within a class and (d − λ√d)/n between classes;
    no self-loops. λ and μ as in `signal`.

    The printed scale √(μ/n) is right though it looks odd: ‖u‖ ≈ 1 while a row's noise ‖Z_i‖/√f is
    also ≈ 1, so one row alone carries almost no signal (√(μ/n) → 0) and only all n together do.
    Appendix K writes n = 10,000 and f = 200; the authors' scripts run n = 30,000, f = 2,000,
    d = 10, ε = 3.25, with 2.5/2.5/95 % of the nodes to train, validate and test.

    Args:
        n, f: numbers of nodes and features. d: mean degree. epsilon: excess over the detection
            threshold (no privacy parameter). phi in [−1, 1]: −1 only a heterophilic graph, 0 only
            features, 1 only a homophilic graph. seed: names the random streams.

    Returns:
        a Graph with dense x, both directions of every edge, and `raw_num_nodes` = n. Time and
        memory are O(n·f + edges); no n × n array.

    Raises:
        GraphDPError: a parameter is out of range.
    """
    check_sizes("csbm", n, f, d, epsilon, phi)
    within, between = edge_probabilities(n, f, d, epsilon, phi)
    _, mu = signal(n, f, epsilon, phi)

    y = np.arange(n, dtype=np.int64) % 2
    rng.generator(seed, "csbm", "classes").shuffle(y)
    v = np.where(y == 0, 1.0, -1.0).astype(np.float32)

    draw = rng.generator(seed, "csbm", "features")
    u = draw.standard_normal(f, dtype=np.float32) / np.float32(math.sqrt(f))
    x = draw.standard_normal((n, f), dtype=np.float32)
    x /= np.float32(math.sqrt(f))
    x += np.float32(math.sqrt(mu / n)) * v[:, None] * u

    draw = rng.generator(seed, "csbm", "edges")
    first, second = np.flatnonzero(y == 0), np.flatnonzero(y == 1)
    blocks = [
        _pairs_within(first, within, draw),
        _pairs_within(second, within, draw),
        _pairs_between(first, second, between, draw),
    ]
    sources = np.concatenate([block[0] for block in blocks])
    targets = np.concatenate([block[1] for block in blocks])
    indptr, indices = csr_from_edges(sources, targets, n, symmetrise=True)
    return Graph("csbm", x, y, indptr, indices, np.arange(n, dtype=np.int64), n, 2)


def _distinct(total: int, probability: float, draw: np.random.Generator) -> np.ndarray:
    """Each of 0..total-1 independently: a binomial count, then a uniform set of that size."""
    count = draw.binomial(total, probability)
    return draw.choice(total, size=count, replace=False, shuffle=False)


def _pairs_within(
    nodes: np.ndarray, probability: float, draw: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    size = len(nodes)
    i, j = _pair(_distinct(size * (size - 1) // 2, probability, draw))
    return nodes[i], nodes[j]


def _pair(code: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The pair (i, j), j < i, at place `code` of the order (1,0), (2,0), (2,1), (3,0), ..."""
    i = ((1 + np.sqrt(8.0 * code + 1)) / 2).astype(np.int64)
    # The last pair of a huge row may round up to the next row. Nothing rounds down: at the first
    # pair of row i the root is the integer 2i - 1, which a double holds exactly.
    i -= i * (i - 1) // 2 > code
    return i, code - i * (i - 1) // 2


def _pairs_between(
    left: np.ndarray, right: np.ndarray, probability: float, draw: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    code = _distinct(len(left) * len(right), probability, draw)
    return left[code // len(right)], right[code % len(right)]
