"""Gaussian noise as it is drawn: keyed, off any lattice, and how far from ideal it can be.

**Bits.** AES-256 in counter mode (`cryptography`), a key for every stream (`rng.stream_key`).

**Normals.** Box and Muller (1958) in float64: of two words of 64 bits the pair (r cos θ, r sin θ)
with r = √(-2 ln u). u has 63 bits, and 126 more where it is below 2⁻²⁰; θ has 53.

**Sum and grid.** A sum f and its noise are added in float64 and rounded to multiples of g, the
power of two with σ/32 < g ≤ σ/16 (`grid_of`): y = g (k + rint(f/g - k + ẑ σ/g)), k = rint(f/g).
f/g, k and their difference are exact (short of underflow and overflow) and zero has one sign, so no
last bit of a sum gets out. g depends on σ alone, which is public: to round the ideal f + σ z to it
is post-processing. It adds less than 3.3e-4 to the variance. Large sums in float32 come out the
same by `graphdp.quick_noise`, sooner.

**How far from ideal.** Take the words as the leading bits of ideal uniforms, z as the ideal pair of
these, and measure in units of σ. u is wrong by a factor of 1 ± 2⁻⁵¹, where 2⁻²⁰ ≤ u < 2⁻¹³ of 1 ±
2⁻⁶⁴/u, which moves r by less than 2⁻⁴⁶; θ by 2⁻⁴⁹·³ at most, of which its last bit is 2π 2⁻⁵³ and
the rounding of its product 2⁻⁵¹. With logarithm, sine and cosine within two units of the last
place, the root within one and all else, the sum included, correctly rounded, each coordinate is
within η(r) = 2⁻⁵¹/r + 2⁻⁴⁵ of the ideal one for r ≤ 12: 2⁻⁴⁵ is 2.8e-14, what is not u's at most r
2⁻⁴⁹·³ + 9.4e-15, 2.7e-14 where r = 12, and all is below 2.7e-14 where u's 2⁻⁴⁶ counts, r < 5.3
(`tests/test_noise.py` holds ẑ against exact arithmetic). Where r > 12 take the ideal pair for the
drawn one; that changes what is drawn by no more than the chance s of such an r. A cell of the grid,
of ideal probability P, then has one between those of the cell made smaller and larger by η on all
sides where r ≤ 12:

- 2⁻⁴⁵ moves at most 4 · 2⁻⁴⁵ · 32 · e^1.1 P < 2⁻³⁶ P: sides are σ/32 or longer, and within a cell
  the density varies by a factor of less than e^1.1
- 2⁻⁵¹/r matters near the origin. Along a side that meets it lies ∫ 2 η(r) dr / 2π, for r > 2⁻²⁵,
  and within that radius 2⁻⁵¹ in all: together less than 2⁻⁴⁷, of a cell with P > 2⁻¹³, hence less
  than 2⁻³⁴ P

So a pair's cell has P (1 ± 1.5 · 2⁻³⁶), but for the nine cells at most that come within σ/32 of the
origin, which have P (1 ± 2⁻³³) and together less than 2⁻⁸ of all probability. The logarithm of
what is drawn over what is ideal, summed over N draws, is a martingale but for its drift. Its steps,
one for a pair (for a lone normal, whose cell is a strip, with less than a quarter of the variance),
are below c = 2⁻³², of variance below v = 2⁻⁷⁰, with a drift below v. By Freedman's inequality
(1975) it is below

    a = √(N v ln(2/t)) + c ln(2/t) + N v

but for a chance of t, and likewise its negative under the ideal noise. Hence what is (ε, δ)-DP with
ideal noise is, as it is drawn,

    (ε + 2a, e^a (δ + (1 + e^(ε + a)) (t + s + p)))-DP,   s < N 1e-31,   p < N² 2⁻¹³⁰

(`as_drawn`), p for blocks that never repeat, as those of a permutation do not: of a random one q
blocks are within q²/2¹²⁹ of random bits, and N draws take N/2, a few more for small u.

**What that rests on.** That AES in counter mode cannot be told from a random permutation, and that
whoever attacks does not know the key. In a study the key follows from its public seed, so that
anybody can replay it: its ε speaks of the mechanism, not of that copy. Samples of batches (AES-128,
`rng.keyed_generator`, and numpy's geometric numbers) are taken as ideal here. f is the sum as
computed, of which `training.sums` says how far a record moves it.

Sources: Mironov, "On Significance of the Least Significant Bits for Differential Privacy" (CCS
2012); Holohan and Braghin, "Secure Random Sampling in Differential Privacy" (ESORICS 2021).
"""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from graphdp.errors import GraphDPError
from graphdp.words import MASK, RARE, Words, further_of

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from graphdp.quick_noise import QuickSums

#: What rows and statements call this generator; other noise has another name.
GENERATOR = "aes-256-ctr, grid"
#: The shapes of noise that are drawn by it, by the names that `privacy.execution` has for them.
SHAPES = frozenset({"gaussian", "laplace", "sml"})
#: What `as_drawn` is stated for, and a model refused beyond (`privacy.execution.check`).
MOST_DRAWS = 2**36

_STEP, _VARIANCE = 2.0**-32, 2.0**-70  # c and v of the docstring
_PART = 1 << 15  # pairs whose noise is made at once


def grid_of(noise_std: float) -> float:
    """g, the grid of noisy sums: the power of two in (σ/32, σ/16].

    Raises `GraphDPError` unless `noise_std` is positive and finite, and floats have room around it.
    """
    if not 2.0**-900 < noise_std < 2.0**900:
        raise GraphDPError(f"noise of scale {noise_std} with a finite ε: calibrate the noise")
    return 2.0 ** (math.frexp(noise_std)[1] - 5)


def as_drawn(epsilon: float, delta: float, draws: int = MOST_DRAWS) -> tuple[float, float]:
    """(ε, δ) of a mechanism as it is drawn, from those with ideal noise: see above, t = 1e-25 e^-ε.

    draws: Gaussian numbers of a model, in all its phases. δ is at most 1.
    Raises `GraphDPError` for more than `MOST_DRAWS`, and for an ε that is not finite.
    """
    if not 0 <= draws <= MOST_DRAWS:
        raise GraphDPError(f"{draws} Gaussian draws: the sampler is analysed for up to 2^36")
    if not 0 <= epsilon < math.inf:
        raise GraphDPError(f"epsilon {epsilon}: there is no noise to speak of")
    logs = math.log(2e25) + epsilon
    a = math.sqrt(draws * _VARIANCE * logs) + _STEP * logs + draws * _VARIANCE
    if epsilon > 300:
        return epsilon + 2 * a, 1.0
    failure = 1e-25 * math.exp(-epsilon) + draws * 1e-31 + draws**2 * 2.0**-130
    return epsilon + 2 * a, min(1.0, math.exp(a) * (delta + (1 + math.exp(epsilon + a)) * failure))


class Noise(Protocol):
    """Gaussian noise of several streams, one per row of what it is added to."""

    def add(self, sums: "Tensor", noise_std: "Tensor") -> None:
        """Add N(0, noise_std²) to `sums` (S, P) in place; noise_std float64 (S,), positive."""


#: Names of streams -> their noise.
NoiseSource = Callable[[Sequence[tuple]], Noise]


class GridNoise:
    """The noise of this module, of one stream per row; every `add` continues the streams.

    Equal names give equal noise, on a GPU as on a CPU up to a chance of 2⁻⁴⁰ or so a draw, where
    the last bits of ẑ decide between two cells.
    """

    def __init__(self, names: Sequence[tuple]):
        self._streams = [Words(*name) for name in names]
        self._rooms: dict[tuple[int, str], _Room] = {}
        self._quick: QuickSums | None = None

    def add(self, sums: "Tensor", noise_std: "Tensor") -> None:
        """See `Noise.add`. Raises `GraphDPError` for a scale that is not positive and finite, and
        unless every row has a stream and a scale."""
        import torch

        if not len(sums) == len(noise_std) == len(self._streams):
            raise GraphDPError(
                f"{len(sums)} rows of sums with {len(noise_std)} scales and {len(self._streams)} "
                "streams of noise: give one of each for every row"
            )
        if not sums.numel():
            return
        rows, size = sums.shape
        pairs = (size + 1) // 2
        grids = noise_std.new_tensor([grid_of(scale) for scale in noise_std.tolist()])
        if self._in_float32(sums, noise_std, grids):
            return
        grids = grids[:, None]
        per_grid = (1 / grids).to(sums.device, torch.float64)  # exact, as a product with it
        scales = noise_std[:, None].to(per_grid) * per_grid
        grids, zero = grids.to(per_grid), per_grid.new_zeros(())
        # On a CPU in equal parts that fit into a cache.
        parts = min(pairs, -(-pairs * rows // _PART)) if sums.device.type == "cpu" else 1
        step = -(-pairs // parts)
        for start in range(0, pairs, step):
            some = sums[:, 2 * start : 2 * (start + step)]
            here = min(step, pairs - start), sums.device
            noise = self._normals(*here)[:, : some.shape[1]]
            cells, nearest = self._room(*here).cells[:, :, : some.shape[1]]
            torch.round(cells.copy_(some).mul_(per_grid), out=nearest)
            cells.sub_(nearest).addcmul_(noise, scales).round_().add_(nearest)
            # 0 + : no -0, which would tell the sign of a small sum
            some.copy_(torch.addcmul(zero, cells, grids, out=noise))

    def _in_float32(self, sums: "Tensor", noise_std: "Tensor", grids: "Tensor") -> bool:
        """Add it as `graphdp.quick_noise` does, where that is quicker; whether it was."""
        import torch

        from graphdp import quick_noise as quick

        least, most = quick.GRIDS
        if sums.device.type != "cpu" or sums.dtype != torch.float32 or sums.numel() < quick.LEAST:
            return False
        if not least <= float(grids.min()) <= float(grids.max()) <= most:
            return False
        if self._quick is None:
            self._quick = quick.QuickSums(self._streams)
        self._quick.add(sums, noise_std.cpu().numpy(), grids.cpu().numpy())
        return True

    def _normals(self, pairs: int, device: "torch.device | str" = "cpu") -> "Tensor":
        """The next normals of every stream: float64 (S, 2 pairs), overwritten by the next call."""
        import torch

        room = self._room(pairs, device)
        for one, u, angle in zip(self._streams, *room.words, strict=True):
            one.fill(u, angle)
        bits, angles = room.drawn if room.on_cpu else room.drawn.to(room.pairs.device)
        u, angle, cosine = room.pairs
        bits.bitwise_and_(MASK)
        u.copy_(bits).add_(0.5)
        if int(bits.min()) < RARE:
            rare = (bits < RARE).nonzero()  # ordered by row, then by column
            more = further_of(self._streams, rare[:, 0].cpu().numpy())
            at = rare[:, 0], rare[:, 1]
            u[at] = bits[at].to(torch.float64) + torch.from_numpy(more).to(u)
        r = u.mul_(2.0**-63).log_().mul_(-2.0).sqrt_()
        angle.copy_(angles.bitwise_right_shift_(11)).mul_(2 * math.pi * 2.0**-53)
        torch.mul(torch.cos(angle, out=cosine), r, out=room.cosines)
        torch.mul(angle.sin_(), r, out=room.sines)
        return room.normals

    def _room(self, pairs: int, device: "torch.device | str") -> "_Room":
        """Where `pairs` pairs of every stream are made, the same as last time."""
        place = pairs, str(device)
        if place not in self._rooms:
            if len(self._rooms) > 3:
                self._rooms.clear()
            self._rooms[place] = _Room(len(self._streams), pairs, device)
        return self._rooms[place]


class _Room:
    """Memory for the noise of so many pairs: it costs time to make it anew for each part."""

    def __init__(self, rows: int, pairs: int, device: "torch.device | str"):
        import torch

        like = {"dtype": torch.float64, "device": device}
        self.words = np.empty((2, rows, pairs), np.uint64)
        self.drawn = torch.from_numpy(self.words.view(np.int64))
        self.pairs = torch.empty((3, rows, pairs), **like)
        self.on_cpu = self.pairs.device.type == "cpu"
        found = torch.empty((rows, pairs, 2), **like)
        self.cosines, self.sines = found.unbind(2)
        self.normals = found.view(rows, 2 * pairs)
        self.cells = torch.empty((2, rows, 2 * pairs), **like)


def add_noise(sums: np.ndarray, noise_std: float, noise: GridNoise) -> np.ndarray:
    """`sums`, float64 of any shape, with the noise of one stream: a new float64 array.

    Raises `GraphDPError` for a scale that is not positive and finite.
    """
    import torch

    noisy = np.array(sums, np.float64).reshape(1, -1)
    noise.add(torch.from_numpy(noisy), torch.tensor([noise_std], dtype=torch.float64))
    return noisy.reshape(np.shape(sums))
