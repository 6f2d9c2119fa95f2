"""Two worlds of a round of HeterPoisson that its accounting allows: with node 0 and without it.

Along one direction, e, every sub-graph that holds node 0 has +C/2, and a list's own sub-graph
without it -C/2 (`worst_attack`). So a round is a mixture of Gaussians on a line, whose trade-off is
known. No worlds of one round are farther apart where at most M lists hold node 0: then hidden coins
account just these.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from graphdp.data.graph import Graph, csr_from_edges

CLASSES, FEATURES = 2, 4
#: Points on the line, and how far beyond the outermost mean, in standard deviations.
_POINTS, _REACH = 6001, 9.0


@dataclass(frozen=True)
class Unit:
    """Node 0 and who lists it. C is 1.

    nodes: training nodes, 0 among them. listers: 1 to `listers` list node 0 and nothing else.
    num_neighbors, batch_size, epochs: of the plan. overlap: of the method. hidden: width of the
    network; the more coordinates, the better does the norm of a noisy sum tell W.
    """

    nodes: int
    listers: int
    num_neighbors: int
    batch_size: int
    epochs: int
    overlap: str = "kept"
    hidden: int = 4

    @property
    def plan_settings(self) -> dict[str, Any]:
        """Settings of the plan, but for the overlap and its analysis."""
        return {
            "batch_size": self.batch_size,
            "epochs": self.epochs,
            "max_grad_norm": 1.0,
            "num_neighbors": self.num_neighbors,
            "max_degree": max(self.listers, 1),
        }

    def graph(self, world: str) -> Graph:
        """A world; the last node neither trains nor has an edge."""
        from graphdp.audit.front_door import graph_of

        size = self.nodes + 1
        to = np.arange(1, 1 + self.listers * (world == "present"))
        edges = csr_from_edges(np.zeros_like(to), to, size, symmetrise=False)
        return graph_of(*edges, np.eye(size, FEATURES, dtype=np.float32), None, CLASSES)

    def train(self, world: str) -> np.ndarray:
        """The training nodes of a world."""
        return np.arange(int(world == "absent"), self.nodes)

    @cached_property
    def places(self) -> dict[str, dict[float, float]]:
        """World -> where a round's sum may lie along e, in units of C -> the chance of that."""
        return {world: self._places(world) for world in ("present", "absent")}

    def _places(self, world: str) -> dict[float, float]:
        q, lists = self.batch_size / self.nodes, self.listers
        found: dict[float, float] = {}
        for own in (0, 1) if world == "present" else (0,):
            of_own = 1.0 if world == "absent" else q if own else 1 - q
            carry = min(1.0, self.num_neighbors / max(lists, 1)) if world == "present" else 0.0
            if own and self.overlap == "dropped":  # a centre is in no bag but its own
                carry = 0.0
            for n in range(lists + 1):
                of_n = math.comb(lists, n) * q**n * (1 - q) ** (lists - n)
                for j in range(n + 1):
                    chance = of_own * of_n * math.comb(n, j) * carry**j * (1 - carry) ** (n - j)
                    place = (2 * j - n + own) / 2
                    found[place] = found.get(place, 0.0) + chance
        return {place: chance for place, chance in found.items() if chance > 0}


def log_ratios(
    unit: Unit, found: np.ndarray, scales: np.ndarray | float, laplace: bool = False
) -> np.ndarray:
    """Log-likelihood ratios of rounds: found (n,) along e, under Gaussian noise of scales (n,), or
    with `laplace` under SML noise of which nothing but found is seen: a Laplace law on the line."""
    present, absent = unit.places.values()
    ratio = log_density(present, found, scales, laplace)
    return ratio - log_density(absent, found, scales, laplace)


def log_density(
    places: dict[float, float], found: np.ndarray, scales: np.ndarray | float, laplace: bool = False
) -> np.ndarray:
    """Logarithm of a mixture's density at found (n,), less that of the noise's constant."""
    total = np.full(found.shape, -np.inf)
    for place, chance in places.items():
        away = np.abs(found - place) / scales
        exponent = math.sqrt(2) * away if laplace else away**2 / 2
        total = np.logaddexp(total, math.log(chance) - exponent)
    return total


def losses(unit: Unit, rounds: int, noise: float, interval: float, pessimistic: bool) -> Any:
    """The privacy loss distribution of the two worlds, as dp-accounting's, for both directions.

    Within a cell of the line the loss moves by less than its slope's bound, the distance of the
    outermost places over σ², times the cell; it is rounded up or down by that and to the interval.
    """
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
    from scipy.special import ndtr

    everywhere = [place for places in unit.places.values() for place in places]
    spread = max(everywhere) - min(everywhere)
    line = np.linspace(min(everywhere) - _REACH * noise, max(everywhere) + _REACH * noise, _POINTS)
    slack = spread / noise**2 * (line[1] - line[0])
    ratios = log_ratios(unit, line, noise)
    parts = []
    for places, values in zip(unit.places.values(), (ratios, -ratios), strict=True):
        below = sum(chance * ndtr((line - place) / noise) for place, chance in places.items())
        masses = np.diff(below)
        if pessimistic:
            ends = np.ceil((np.maximum(values[1:], values[:-1]) + slack) / interval)
        else:
            ends = np.floor((np.minimum(values[1:], values[:-1]) - slack) / interval)
        lowest = int(ends.min())
        chances = np.bincount((ends - lowest).astype(int), masses)
        beyond = max(0.0, 1.0 - float(masses.sum())) if pessimistic else 0.0
        parts.append(pld_pmf.DensePLDPmf(interval, lowest, chances, beyond, pessimistic))
    return PrivacyLossDistribution(*parts).self_compose(rounds)
