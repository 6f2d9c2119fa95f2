"""Noisy sums in float32 where that decides them: the numbers of `graphdp.noise`, sooner.

A noisy sum is g (k + rint(c)), k = rint(f/g), c = f/g - k + ẑ σ/g: of ẑ, which is made in float64,
nothing is left but a whole number. Here all is made in float32, c' in place of c: two numbers near
each other round to the same whole one, unless the middle between two lies there. So a pair is made
anew in float64 where

- c' is nearer than 2⁻¹⁰ to such a middle, one normal of 512
- r is above 5.25 (u has further bits where it is above 5.265), or below 2⁻⁸
- f/g is no number in float32

**Why that is enough.** Where 2⁻⁸ ≤ r ≤ 5.25, |c' - c| < 2⁻¹⁰. Take float32 logarithm, root, sine
and cosine within four units of the last place, 2⁻²¹ of the value, and sums and products correctly
rounded, 2⁻²⁴ of it. Then

- u is wrong by 2⁻²⁴ of it, so ln u by 2⁻²⁴ + 2⁻²¹ |ln u|, and r by 2⁻²⁴/r + 1.6 · 2⁻²¹ r (near
  u = 1, where the rounding of u is half as large, second order included)
- θ, in [-π, π), is wrong by 3 · 2⁻²⁴ π, its sine and cosine with their own error by 1.1e-6
- so ẑ is wrong by 2⁻²⁴/r + (1.6 · 2⁻²¹ + 1.1e-6 + 2⁻²⁴) r < 2⁻²⁴/r + 2e-6 r, c by σ/g < 32 times
  that, and by 3 · 2⁻²⁴ (1/2 + 32 r) more, of its scale, product and sum

32 (2⁻²⁴/r + 2e-6 r) + 3 · 2⁻²⁴ (1/2 + 32 r) is convex in r, 4.9e-4 at 2⁻⁸ and 4e-4 at 5.25: about
half of 2⁻¹⁰ at most. f/g, k and f/g - k are as exact in float32 as in float64 (but for underflow,
which moves c by less than 2⁻¹²⁵), and g (k + rint(c)) is rounded once.

So every sum is that of the ẑ of `of_words`, whatever the sum and whichever way it was made: what is
made anew depends on data and does not tell of them. And it is that of torch's float64 but for a
chance of 2⁻⁴⁰ or so a draw, where the last bits of ẑ decide, so that what `graphdp.noise` says of
the drawn noise holds. `tests/test_quick_noise.py` holds c' against c, and the sums against those of
float64.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from graphdp.words import MASK, Words, further_of, of_words

#: Pairs that are made at once. Fewer than `LEAST` numbers are quicker made in float64.
PART, LEAST = 1 << 16, 1 << 16
#: Grids for which a float32 sum is far from where floats end.
GRIDS = (2.0**-60, 2.0**60)
#: Nearer to the middle between two whole numbers, and for other r, float64 decides.
_SURE = np.float32(0.5 - 2.0**-10)
_LEAST_R, _MOST_R = 2.0**-8, 5.25


class QuickSums:
    """Makes noisy sums of streams, one per row of what noise is added to."""

    def __init__(self, streams: Sequence[Words]):
        self._streams = streams
        self._rooms: dict[int, _Room] = {}

    def add(self, sums: Tensor, noise_std: np.ndarray, grids: np.ndarray) -> None:
        """Add the next noise of every stream to `sums`, float32 (S, P), in place.

        noise_std, grids: of every row, float64 (S,), grids within `GRIDS`.
        """
        per_row = [
            torch.from_numpy(each.astype(np.float32))[:, None]
            for each in (1 / grids, noise_std / grids, grids)
        ]
        rows, size = sums.shape
        pairs = (size + 1) // 2
        step = -(-pairs // -(-rows * pairs // PART))
        left = []
        for start in range(0, pairs, step):
            here = min(step, pairs - start)
            if here not in self._rooms:
                if len(self._rooms) > 3:
                    self._rooms.clear()
                self._rooms[here] = _Room(rows, here)
            some = sums[:, 2 * start : 2 * (start + step)]
            left.append(self._rooms[here].add(some, self._streams, *per_row, start))
        self._in_float64(sums, left, noise_std, grids)

    def _in_float64(
        self,
        sums: Tensor,
        left: list[tuple[np.ndarray, ...]],
        noise_std: np.ndarray,
        grids: np.ndarray,
    ) -> None:
        """The noisy sums of pairs that float32 does not decide. left: as `_Room.add` gives them.

        Their words were taken with all others; of the streams no more than further bits are due.
        """
        rows, columns, u, angles, *f = (np.concatenate(each) for each in zip(*left, strict=True))
        # By row, then by column, as float64 takes further bits; some stand there twice.
        _, kept = np.unique(rows * sums.shape[1] + columns, return_index=True)
        if not kept.size:
            return
        rows, columns = rows[kept], columns[kept]
        normals = of_words(
            u[kept], angles[kept], lambda rare: further_of(self._streams, rows[rare])
        ).reshape(-1, 2)
        scales, grids = (noise_std / grids)[rows], grids[rows]
        out = sums.numpy()
        for i, one in enumerate(f):
            here = 2 * columns + i < sums.shape[1]
            with np.errstate(invalid="ignore"):  # of a sum that is not finite, as torch has it
                cells = one[kept].astype(np.float64) / grids
                whole = np.rint(cells)
                whole += np.rint(cells - whole + normals[:, i] * scales)
            out[rows[here], 2 * columns[here] + i] = (whole * grids + 0.0)[here]


class _Room:
    """Memory for the noisy sums of so many pairs of every row, used again."""

    def __init__(self, rows: int, pairs: int):
        self.words = np.empty((2, rows, pairs), np.uint64)
        self.bits, self.angles = torch.from_numpy(self.words.view(np.int64))
        like = {"dtype": torch.float32, "device": "cpu"}
        self.r, self.turns, self.cosine = torch.empty((3, rows, pairs), **like)
        normals = torch.empty((rows, pairs, 2), **like)
        self.cosines, self.sines = normals.unbind(2)
        self.normals = normals.view(rows, 2 * pairs)
        self.cells, self.nearest, self.whole = torch.empty((3, rows, 2 * pairs), **like)
        # Of an odd number of sums the last normal is not used: that is sure, and stays so.
        self.sure = np.ones((rows, 2 * pairs), bool)
        self.unsure = np.empty_like(self.sure)

    def add(
        self,
        sums: Tensor,
        streams: Sequence[Words],
        per_grid: Tensor,
        scales: Tensor,
        grids: Tensor,
        start: int,
    ) -> tuple[np.ndarray, ...]:
        """Noisy sums of the next pairs, in place; of the pairs that are not sure rows, columns (of
        pairs, counted from `start`), both words and both sums without noise."""
        self._draw(streams)
        used = slice(sums.shape[1])
        cells, nearest, whole = (x[:, used] for x in (self.cells, self.nearest, self.whole))
        torch.mul(sums, per_grid, out=cells)
        torch.round(cells, out=whole)
        cells.sub_(whole).addcmul_(self.normals[:, used], scales)
        torch.round(cells, out=nearest)
        cells.sub_(nearest).abs_()
        np.less_equal(cells.numpy(), _SURE, out=self.sure[:, used])  # false of what is no number
        left = self._left(sums.numpy(), start)
        # + 0: no -0, which would tell the sign of a small sum
        torch.add(nearest, whole, out=sums).mul_(grids).add_(0.0)
        return left

    def _draw(self, streams: Sequence[Words]) -> None:
        for stream, u, angles in zip(streams, *self.words, strict=True):
            stream.fill(u, angles)
        self.bits.bitwise_and_(MASK)
        torch.log(self.r.copy_(self.bits).mul_(2.0**-63), out=self.r).mul_(-2.0).sqrt_()
        self.turns.copy_(self.angles).mul_(2 * math.pi * 2.0**-64)
        torch.mul(torch.cos(self.turns, out=self.cosine), self.r, out=self.cosines)
        torch.mul(self.turns.sin_(), self.r, out=self.sines)

    def _left(self, sums: np.ndarray, start: int) -> tuple[np.ndarray, ...]:
        pairs = np.flatnonzero(np.logical_not(self.sure, out=self.unsure)) >> 1
        least, most = (float(end) for end in self.r.aminmax())
        if least < _LEAST_R or most > _MOST_R:
            r = self.r.numpy().ravel()
            pairs = np.concatenate([pairs, np.flatnonzero((r < _LEAST_R) | (r > _MOST_R))])
        u, angles = (words.ravel().take(pairs) for words in self.words)
        rows, columns = np.divmod(pairs, self.words.shape[2])
        first, second = 2 * columns, np.minimum(2 * columns + 1, sums.shape[1] - 1)
        return rows, columns + start, u, angles, sums[rows, first], sums[rows, second]
