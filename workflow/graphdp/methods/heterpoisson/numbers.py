"""Numbers of PNPiGNNs' figures that no trained model gives: sensitivities, noise, a tail of δ.

    python -m graphdp.methods.heterpoisson.numbers [FIGURE ...]

puts those of the named figures (all: impact, lists, overlap, tail) into `numbers.csv` beside this
file, which the figures read; all take minutes. The columns are figure, series, x and y; `shipped`
reads them. Where not said otherwise everything is PubMed's: 15,773 training nodes, batches of 4096,
9 epochs, δ = 15773^-1.1, ε = 2.
"""

import math
import sys
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import numpy as np

from graphdp.errors import GraphDPError
from graphdp.paper.shipped import Line, lines_of, make_lines

FILE = Path(__file__).with_name("numbers.csv")
PUBMED, BATCH, EPOCHS = 15_773, 4096, 9
#: The training nodes of the study's graphs (80 %), whose σ the overlap study compares.
TRAINING_NODES = {
    "twitch-de": 7_598,
    "computers": 10_776,
    "berkeley13": 15_184,
    "pubmed": PUBMED,
    "facebook-pages": 17_976,
}
LISTS = (1, 2, 3, 4, 6, 10, 20, 50, 200, 1000)
ANALYSES = (
    ("hidden coins", "kept", "hidden_coins"),
    ("known multiplicities", "dropped", "known_multiplicities"),
    ("revealed centres", "dropped", "revealed_centres"),
)
TAIL_EPSILONS = (0.5, 0.75, 1, 1.25, 1.5, 2, 2.5, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
CHI = tuple(k / 10 for k in range(1, 11))
#: Coordinates of the noise in the attack: those of the network (SAGE, 500 features, hidden 128).
COORDINATES = 128_771


def default_delta(nodes: int) -> float:
    """The paper's δ."""
    return float(nodes) ** -1.1


# --- Figure 1 -------------------------------------------------------------------------------------


def impact(chi: float, seed: int, nodes: int = 100, classes: int = 10) -> tuple[float, float]:
    """‖g* − g'‖ where a node with chi · nodes out-edges joins a random graph: (of the gradient of
    the mean loss, of the sum of per-node gradients clipped to 1/2).

    Erdős–Rényi with edge probability 0.1, standard normal features (16), uniform labels, one
    layer of mean aggregation over in-neighbours and the node itself, 16 units, elu, and a linear
    classifier. (Section 4.1 names neither width, nor p, nor the network.)
    """
    generator = np.random.default_rng([20240502, seed])
    width = 16
    x = generator.standard_normal((nodes + 1, width))
    y = generator.integers(classes, size=nodes + 1)
    edges = np.triu(generator.random((nodes, nodes)) < 0.1, 1)
    reads = np.eye(nodes + 1, dtype=bool)  # reads[u, j]: u reads the features of j
    reads[:nodes, :nodes] |= edges | edges.T
    weights = generator.standard_normal((width, width)) / math.sqrt(width)
    head = generator.standard_normal((width, classes)) / math.sqrt(width)
    with_it = reads.copy()
    with_it[generator.choice(nodes, round(chi * nodes), replace=False), nodes] = True
    before = _gradients(reads[:nodes, :nodes], x[:nodes], y[:nodes], weights, head)
    after = _gradients(with_it, x, y, weights, head)
    mean = np.linalg.norm(before.mean(0) - after.mean(0))
    return float(mean), float(np.linalg.norm(_clipped_sum(before) - _clipped_sum(after)))


def _clipped_sum(gradients: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    return (gradients * np.minimum(1, 0.5 / norms)).sum(0)


def _gradients(reads, x, y, weights, head) -> np.ndarray:
    """Every node's gradient, (nodes, parameters)."""
    mean = (reads / reads.sum(1, keepdims=True)) @ x
    z = mean @ weights
    hidden = np.where(z > 0, z, np.expm1(np.minimum(z, 0)))
    scores = hidden @ head
    shares = np.exp(scores - scores.max(1, keepdims=True))
    g = shares / shares.sum(1, keepdims=True)
    g[np.arange(len(y)), y] -= 1
    delta = (g @ head.T) * np.where(z > 0, 1, hidden + 1)
    parts = (np.einsum("ni,nj->nij", mean, delta), np.einsum("ni,nj->nij", hidden, g))
    return np.concatenate([part.reshape(len(y), -1) for part in parts], axis=1)


def impacts(seeds: int = 100) -> Iterator[Line]:
    """The lines of Figure 1: means and ranges over the seeds, and what the proof allows."""
    for chi in CHI:
        found = np.array([impact(chi, seed) for seed in range(seeds)])
        for name, values in zip(("mean loss", "clipped sum"), found.T, strict=True):
            yield "impact", f"{name}, mean", chi, values.mean()
            yield "impact", f"{name}, lowest", chi, values.min()
            yield "impact", f"{name}, highest", chi, values.max()
        yield "impact", "bound", chi, 0.5 + 100 * chi


# --- noise ----------------------------------------------------------------------------------------


@cache
def corrected_noise(
    nodes: int, epsilon: float, neighbors: int, overlap: str, analysis: str, lists: int = 0
) -> float:
    """σ, the noise multiplier that meets ε; of a node in just `lists` lists, if that is given."""
    from graphdp.methods.heterpoisson.plan import heterpoisson_plan
    from graphdp.privacy.calibration import calibrate

    one = {"degree_bound": "public_candidates", "max_degree": lists} if lists else {}
    plan = heterpoisson_plan(
        "node", nodes, BATCH, EPOCHS, 1.0, neighbors, overlap, analysis or None, **one
    )
    return calibrate(plan, epsilon, default_delta(nodes)).noise_multiplier


@cache
def published_noise(nodes: int, epsilon: float, neighbors: int) -> float:
    """σ by the paper's analysis."""
    from graphdp.methods.heterpoisson.plan import laplace_plan
    from graphdp.privacy.calibration import calibrate

    plan = laplace_plan("node", "heterpoissonsml", nodes, BATCH, EPOCHS, 1.0, neighbors)
    return calibrate(plan, epsilon, default_delta(nodes)).noise_multiplier


def noise_by_lists() -> Iterator[Line]:
    """σ of the three analyses against the number D of lists that hold the node, by M."""
    for neighbors in (1, 2, 4):
        for name, overlap, analysis in ANALYSES:
            for lists in LISTS:
                if lists >= neighbors:
                    found = corrected_noise(PUBMED, 2, neighbors, overlap, analysis, lists)
                    yield "lists", f"{name}, M = {neighbors}", lists, found


def noise_by_overlap() -> Iterator[Line]:
    """σ against M with overlaps kept or dropped, by graph."""
    for dataset, nodes in TRAINING_NODES.items():
        for overlap in ("kept", "dropped"):
            for neighbors in (1, 2, 3, 4):
                found = corrected_noise(nodes, 2, neighbors, overlap, "")
                yield "overlap", f"{dataset}, {overlap}", neighbors, found
        for neighbors in (1, 2, 3, 4):
            found = published_noise(nodes, 2, neighbors)
            yield "overlap", f"{dataset}, as published (SML)", neighbors, found


# --- SML's tail -----------------------------------------------------------------------------------


def claimed_delta(epsilon: float, rate: float, rounds: int, lists: int, noise: float) -> float:
    """δ(ε) by Theorems 1 and 2, over the orders of the authors' code, M = 1."""
    from graphdp.privacy.symmetric_laplace import ORDERS, claimed_divergence

    logs = []
    for order in ORDERS:
        gamma = rounds * claimed_divergence(order, rate, 1, lists, noise)
        logs.append((order - 1) * (gamma - epsilon + math.log1p(-1 / order)) - math.log(order))
    return min(1.0, math.exp(min(logs)))


def tail_bound(
    epsilons: tuple[float, ...], rate: float, rounds: int, noise: float, spacing: float = 0.004
) -> list[float]:
    """A lower bound on δ of SML noise at each ε, as the dimension grows without bound.

    For a node that no list holds: it moves a round by 1/2 with probability `rate` if it takes part,
    and the noise's norm tells W. Given W the pair is (1 - q) N(0) + q N(s) against N(0) in units of
    the noise, s = 1 / (2 σ √W). The law of the loss under the first, averaged over W ~ Exp(1), is
    put on a grid, every loss rounded down and none above the grid's end; sums of rounded losses are
    below sums of losses, and (1 - e^(ε - loss))+ rises with the loss. W is rounded up to the next
    of 800 values from 1e-8 to 40, and left out above: a larger W is the same pair with further
    noise, so that its δ is smaller, whatever the other rounds reveal. 1e-10 is taken off for the
    rounding of transforms.
    """
    from scipy.signal import fftconvolve

    ends = np.geomspace(1e-8, 40, 800)
    chances = np.diff(-np.expm1(-ends), prepend=0.0)
    top = 2 * max(epsilons) + 10
    grid = np.arange(math.log1p(-rate), top, spacing)
    beyond = sum(
        chance * _beyond(grid, rate, 0.5 / (noise * math.sqrt(w)))
        for w, chance in zip(ends, chances, strict=True)
    )
    law = beyond - np.append(beyond[1:], 0.0)  # a loss between two points counts as the lower
    total, power, left = None, law, rounds
    while left:
        if left % 2:
            total = power if total is None else np.maximum(fftconvolve(total, power), 0)
        left //= 2
        if left:
            power = np.maximum(fftconvolve(power, power), 0)
    losses = rounds * grid[0] + spacing * np.arange(total.size)
    gains = [np.maximum(0, 1 - np.exp(np.minimum(0, e - losses))) for e in epsilons]
    return [max(0.0, float(total @ gain) - 1e-10) for gain in gains]


def _beyond(losses: np.ndarray, rate: float, shift: float) -> np.ndarray:
    """P(loss ≥ each of `losses`) under the mixture."""
    from scipy.special import ndtr

    inside = np.expm1(losses) + rate
    with np.errstate(divide="ignore", invalid="ignore"):
        x = (np.log(inside / rate) + shift**2 / 2) / shift
    x = np.where(inside > 0, x, -np.inf)
    return (1 - rate) * ndtr(-x) + rate * ndtr(shift - x)


def attacked(
    epsilons: tuple[float, ...], rate: float, rounds: int, noise: float, draws: int = 400_000
) -> list[float]:
    """δ at each ε that an attack shows with 95 % confidence at each ε, in `COORDINATES` dimensions.

    The attacker knows the node's gradient direction and reads W off the norm of what is orthogonal
    to it. It says "took part" where the likelihood ratio, at the W that it read, is above e^ε; δ ≥
    P(yes | took part) - e^ε P(yes | did not), each by Clopper-Pearson at 2.5 %.
    """
    from scipy.stats import beta

    generator = np.random.default_rng(20240502)
    losses = {}
    for took_part in (True, False):
        total = np.zeros(draws)
        for _ in range(rounds):
            w = generator.exponential(size=draws)
            read = w * 2 * generator.standard_gamma((COORDINATES - 1) / 2, draws) / COORDINATES
            moved = took_part * (generator.random(draws) < rate)
            seen = 0.5 * moved + noise * np.sqrt(w) * generator.standard_normal(draws)
            ratio = (0.5 * seen - 0.125) / (noise**2 * read)
            total += np.logaddexp(math.log1p(-rate), math.log(rate) + ratio)
        losses[took_part] = total
    found = []
    for epsilon in epsilons:
        yes, wrong = ((losses[world] > epsilon).sum() for world in (True, False))
        low = beta.ppf(0.025, yes, draws - yes + 1) if yes else 0.0
        high = beta.ppf(0.975, wrong + 1, draws - wrong)
        found.append(max(0.0, float(low - math.exp(min(epsilon, 700)) * high)))
    return found


def tails() -> Iterator[Line]:
    """δ(ε) at the σ that the paper has for ε = 2 and M = 1: claimed, at least, and attacked."""
    rate, noise = BATCH / PUBMED, published_noise(PUBMED, 2, 1)
    rounds = -(-EPOCHS * PUBMED // BATCH)
    yield "tail", "noise", 2, noise
    for series, values in (
        ("claimed", [claimed_delta(e, rate, rounds, PUBMED, noise) for e in TAIL_EPSILONS]),
        ("at least", tail_bound(TAIL_EPSILONS, rate, rounds, noise)),
        ("attack", attacked(TAIL_EPSILONS, rate, rounds, noise)),
    ):
        for epsilon, value in zip(TAIL_EPSILONS, values, strict=True):
            yield "tail", series, epsilon, value


shipped = partial(lines_of, FILE)


#: Figure -> what makes its lines.
MADE = {
    "impact": impacts,
    "lists": noise_by_lists,
    "overlap": noise_by_overlap,
    "tail": tails,
}


if __name__ == "__main__":
    try:
        make_lines(FILE, MADE, sys.argv[1:])
    except GraphDPError as error:
        sys.exit(f"error: {error}")
