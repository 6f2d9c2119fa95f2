"""Rows as whole numbers, and the parties' noise on them (`graphdp.privacy.pair_sums` has why).

Nothing here imports torch: the parties' processes start with this.

**How far the drawn noise is from ideal.** Normals are those of `graphdp.noise`, wrong by less than
2⁻⁴⁵ each, mostly by 2⁻⁴⁹, and near u = 1 by 2⁻⁵⁴ / r besides. They are rounded to cells of 1/c of
their deviation, c < 2¹⁶, so that the chance of a cell is wrong by a factor within 1 ± 2⁻⁴³ c, near
the origin, whose cell has sides at r ≥ 1 / 2c, 1 ± 2⁻⁵⁰ c². As in `graphdp.noise`, for N numbers
and outside of a chance of 1e-25, ε grows by less than

    2 (√(N v · 60) + 2⁻⁵⁰ c² · 60 + N v),   v = (2⁻⁴³ c)²

which for ten rounds over 2,708 users by three parties is 0.0008 with 64 columns and 0.0018 with
1,433; for N = 2³⁶, the most that a model may draw, 0.031 (`pair_sums.DRAWN_EPSILON`, which
statements add).
"""

from collections.abc import Iterator

import numpy as np

from graphdp.errors import GraphDPError
from graphdp.parties.ring import FRACTION_BITS, step_bits
from graphdp.words import Words, normals

_PART = 1 << 16  # numbers that are worked on at once: they fit into a cache
_ONE = 2.0**FRACTION_BITS
_MOST = _ONE**2


def project(rows: np.ndarray) -> np.ndarray:
    """Rows divided by max(1, norm), in place: float64 (n, C) in the unit ball, up to rounding."""
    for part in parts_of(rows):
        norms = np.sqrt(np.einsum("ij,ij->i", part, part))
        part /= np.maximum(norms, 1.0)[:, None]
    return rows


def encode(rows: np.ndarray, bits: int = 0, out: np.ndarray | None = None) -> np.ndarray:
    """Rows (n, C) in the unit ball in steps of 2⁻²⁴, int64: cut towards zero to whole 2^bits.

    That Σ q² ≤ 2⁴⁸ is checked in whole numbers; a row that rounding let out of the ball is cut once
    more. out: where they are put, if not anew; it may be the memory of the rows.

    Raises `GraphDPError` for a row that is farther out.
    """
    found = np.empty(rows.shape, np.int64) if out is None else out
    for part, into in zip(parts_of(rows), parts_of(found), strict=True):
        into[:] = _encoded(part, bits)
    return found


def parts_of(rows: np.ndarray) -> Iterator[np.ndarray]:
    """Some rows at a time, to be changed in place."""
    step = max(1, _PART // max(1, rows.shape[1]))
    for start in range(0, len(rows), step):
        yield rows[start : start + step]


def _encoded(rows: np.ndarray, bits: int) -> np.ndarray:
    """As `encode`, float64: whole numbers below 2⁵³ and the sums of their squares are exact."""
    with np.errstate(over="ignore"):
        found = _cut(rows, bits)
        lengths = np.einsum("ij,ij->i", found, found)
    if not (lengths <= _MOST).all():
        if not np.isfinite(rows).all():
            raise GraphDPError("a row to be sent is not finite; check the features")
        out = np.flatnonzero(lengths > _MOST)
        found[out] = _cut(rows[out] * (1 - 2.0**-40), bits)
        if np.einsum("ij,ij->i", found[out], found[out]).max() > _MOST:
            raise GraphDPError("a row to be sent has a norm above 1; project it first")
    return found


def _cut(rows: np.ndarray, bits: int) -> np.ndarray:
    found = rows * 2.0 ** (FRACTION_BITS - bits)
    np.trunc(found, out=found)
    found *= 2.0**bits
    return found


def decode(found: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Real numbers, float64, of opened sums: int64. out: where they are put, (n, C) both, if not
    anew; it may be their memory."""
    if out is None:
        return found * 2.0**-FRACTION_BITS
    for part, into in zip(parts_of(found), parts_of(out), strict=True):
        into[:] = part * 2.0**-FRACTION_BITS
    return out


def party_noise(name: tuple, shape: tuple[int, int], noise_std: float) -> np.ndarray:
    """One party's noise for one piece of a round, int64 of `shape`, in steps of 2⁻²⁴.

    name: of its stream, which equal inputs alone may share. noise_std: the party's deviation, as a
    real number. Raises `GraphDPError` for one that cannot be drawn.
    """
    bits = step_bits(noise_std * _ONE)
    cells = noise_std * 2.0 ** (FRACTION_BITS - bits)
    words = Words(*name)
    flat = np.empty(shape[0] * shape[1], np.int64)
    for start in range(0, flat.size, _PART):
        part = flat[start : start + _PART]
        drawn = normals(words, (part.size + 1) // 2)[: part.size]
        drawn *= cells
        np.rint(drawn, out=drawn)
        drawn *= 2.0**bits
        part[:] = drawn
    return flat.reshape(shape)


def dummies(name: tuple, num_keys: int, mean: int, noise_std: float) -> np.ndarray:
    """How many pairs of zeros a party adds for each key: int64 (num_keys,), at least 0.

    noise_std: the party's deviation. mean: k0 (`pair_sums.mean_dummies`).
    """
    words = Words(*name)
    noise = np.rint(normals(words, (num_keys + 1) // 2)[:num_keys] * noise_std)
    return np.maximum(mean + noise, 0).astype(np.int64)
