"""Noise on a lattice: the generator that published code draws from, and an attack on it.

torch's `normal_` on a CPU fills float32 tensors by Box and Muller's formula from uniforms of 24
bits: of 16 numbers in a row, j and j + 8 are σ r (cos θ, sin θ) with exp(-r²/2) a multiple of 2⁻²⁴.
Opacus and the code of GAP, ProGAP and DPDGC take their noise from there. Where the sum beneath is
zero, the noise stands bare, and the attacker sees that it lies on that lattice; where it is
anything else, the noisy sum does not. (Mironov, CCS 2012, for Laplace noise; seen here on the real
loops.)
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from graphdp.noise import NoiseSource
from graphdp.rng import stream_seed

if TYPE_CHECKING:
    from torch import Tensor

    from graphdp.audit.canaries import Phase

#: Numbers that are drawn together, and how far apart the two of a pair are.
_BLOCK, _APART = 16, 8
#: Features of the canary's own.
OWN = 384
_STACK = 250  # models that are trained at once


class TorchNoise:
    """Noise as torch draws it in float32: as implemented by the papers' code.

    Only audits draw it, to show what it gives away (`graphdp.noise` is what methods draw).
    names: of the streams, one per row of what it is added to.
    """

    def __init__(self, names: Sequence[tuple]):
        self._seeds = [stream_seed(*name) for name in names]
        self._generators: list = []

    def add(self, sums: "Tensor", noise_std: "Tensor") -> None:
        """See `graphdp.noise.Noise.add`."""
        import torch

        if not self._generators:
            self._generators = [
                torch.Generator(sums.device).manual_seed(seed) for seed in self._seeds
            ]
        drawn = torch.empty_like(sums[0])
        for row, generator, scale in zip(sums, self._generators, noise_std.tolist(), strict=True):
            row.add_(drawn.normal_(generator=generator), alpha=scale)


def whole_blocks(own: np.ndarray) -> np.ndarray:
    """Which numbers lie in blocks that torch draws together, all of them in `own`: bool (P,)."""
    whole = np.zeros(len(own), bool)
    last = len(own) // _BLOCK * _BLOCK
    whole[:last] = np.repeat(own[:last].reshape(-1, _BLOCK).all(1), _BLOCK)
    return whole


def off_lattice(
    noisy: np.ndarray, noise_std: float, least: float = 3.6, far: float = 0.1
) -> np.ndarray:
    """How many pairs of each row of noisy sums cannot be bare noise of `TorchNoise`: int64 (S,).

    noisy: float32 (S, 16 m), whole blocks. Of pairs with r > `least`, where float32 still tells the
    multiples of 2⁻²⁴ apart, those farther than `far` from each.
    """
    blocks = np.asarray(noisy, np.float64).reshape(len(noisy), -1, _BLOCK) / noise_std
    squares = (blocks[..., :_APART] ** 2 + blocks[..., _APART:] ** 2).reshape(len(noisy), -1)
    row, pair = np.nonzero(squares > least**2)
    places = np.exp(-squares[row, pair] / 2) * 2.0**24
    off = np.abs(places - np.round(places)) > far
    return np.bincount(row[off], minlength=len(noisy))


def training_scores(
    phase: "Phase", noise: NoiseSource, world: str, draws: int, seed: int
) -> np.ndarray:
    """Pairs off the lattice in `draws` training runs with ("present") or without the canary.

    Of all nodes the canary alone has the first `OWN` features. So in the weights for these the
    noisy sum of a round without it is bare noise. All rounds of all phases count: float64 (draws,).
    """
    x = np.zeros((phase.num_train + 2, OWN + 1), np.float32)
    x[0, :OWN] = phase.training.feature / np.sqrt(OWN)
    labels = np.ones(len(x), np.int64)
    labels[0] = 0
    train = np.arange(0 if world == "present" else 1, phase.num_train)
    scores = np.zeros(draws)

    def observe(name, runs, parameters, noisy_sum):
        mask = parameters.gradients()
        layer = next(one for one in parameters.layout.leaves if one.inputs == OWN + 1)
        mask[f"{layer.name}.weight"][:, :, :OWN] = 1
        own = whole_blocks(mask.values[0].numpy() == 1)
        scores[runs] += off_lattice(noisy_sum.values.numpy()[:, own], phase.noise_std(name))

    for start in range(0, draws, _STACK):
        runs = list(range(start, min(start + _STACK, draws)))
        phase.train(
            x, labels, train, runs, lambda run: ("lattice", seed, world, run), observe, noise
        )
    return scores
