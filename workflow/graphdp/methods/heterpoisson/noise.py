"""Symmetric multivariate Laplace noise (SML), as the paper has it in place of Gaussian noise."""

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from graphdp.noise import Noise, NoiseSource
from graphdp.rng import keyed_generator


class SMLNoise:
    """√W Z with W ~ Exp(1) and Z ~ N(0, σ²I) (Algorithm 4): one W a round, for all coordinates.

    Its norm tells W where there are many coordinates: the round then is one of Gaussian noise of
    scale σ√W, which may be small.
    """

    def __init__(self, names: Sequence[tuple], gaussian: Noise):
        self._gaussian = gaussian
        self._mixing = [keyed_generator(*name, "mixing") for name in names]

    def add(self, sums: Tensor, noise_std: Tensor) -> None:
        """See `graphdp.noise.Noise.add`; noise_std is σ, the standard deviation per coordinate."""
        mixed = [one.standard_exponential() for one in self._mixing]
        self._gaussian.add(sums, noise_std * noise_std.new_tensor(np.sqrt(mixed)))


def sml(gaussian: NoiseSource) -> NoiseSource:
    """SML noise made of a source of Gaussian noise."""
    return lambda names: SMLNoise(names, gaussian(names))
