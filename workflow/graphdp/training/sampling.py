"""Samples of training nodes as the accountants assume them: Poisson, or of a fixed size."""

import numpy as np

from graphdp.errors import GraphDPError
from graphdp.rng import keyed_generator


def sample_generator(stream: tuple, noise: float) -> np.random.Generator:
    """What draws the samples of a training. Another scale of noise has other samples, so that two
    releases share neither."""
    return keyed_generator(*stream, "sampling", repr(noise))


# Gaps are drawn in blocks of this many: the stream must not depend on how rounds are asked for.
_BLOCK = 8192


class PoissonRounds:
    """An endless sequence of Poisson samples of `range(size)`: each round takes each item
    independently with probability `rate`.

    The rounds are one long Bernoulli sequence (round 0's items, then round 1's, ...), walked by its
    gaps, which are geometric: exact, and it costs only the items taken.

    Raises `GraphDPError` if `size` is not positive or `rate` is not in [1e-9, 1].
    """

    def __init__(self, size: int, rate: float, rng: np.random.Generator):
        if size < 1:
            raise GraphDPError("Poisson sampling needs at least one node to sample from")
        if not 1e-9 <= rate <= 1:
            raise GraphDPError(f"sampling rate {rate} is not in [1e-9, 1]: use batch size / nodes")
        self.size = size
        self.rate = rate
        self._rng = rng
        self._pending = np.empty(0, np.int64)  # places in the long sequence, of rounds to come
        self._last = -1
        self._start = 0  # where the next round starts

    def take(self, rounds: int) -> tuple[np.ndarray, np.ndarray]:
        """The next `rounds` samples: (counts int64 (rounds,), items int64 (counts.sum(),), sorted
        within each round)."""
        end = self._start + rounds * self.size
        parts = [self._pending]
        while self._last < end:
            places = self._last + np.cumsum(self._rng.geometric(self.rate, _BLOCK))
            self._last = int(places[-1])
            parts.append(places)
        places = np.concatenate(parts)
        cut = np.searchsorted(places, end)
        taken, self._pending = places[:cut] - self._start, places[cut:]
        self._start = end
        counts = np.bincount(taken // self.size, minlength=rounds)
        return counts, taken % self.size


class FixedRounds:
    """An endless sequence of samples of exactly `batch_size` of `range(size)`, each uniform among
    the subsets of that size and independent of the others.

    Raises `GraphDPError` if `batch_size` does not lie in 1..size.
    """

    def __init__(self, size: int, batch_size: int, rng: np.random.Generator):
        if not 1 <= batch_size <= size:
            raise GraphDPError(f"a sample of {batch_size} of {size} nodes: use 1 to {size}")
        self.size = size
        self.batch_size = batch_size
        self._rng = rng

    def take(self, rounds: int) -> tuple[np.ndarray, np.ndarray]:
        """The next `rounds` samples, in the form of `PoissonRounds.take`."""
        items = [fixed_size_sample(self.size, self.batch_size, self._rng) for _ in range(rounds)]
        counts = np.full(rounds, self.batch_size)
        return counts, np.sort(np.reshape(items, (rounds, self.batch_size)), 1).ravel()


def fixed_size_sample(population: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """A uniform sample of `size` of `range(population)`, without replacement: int64 (size,)."""
    return rng.choice(population, size, replace=False, shuffle=False)
