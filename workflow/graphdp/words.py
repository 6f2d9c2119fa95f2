"""The random words of a stream, and normals made of them without torch (`graphdp.noise` has why).

Nothing here imports torch: the processes of parties start with this.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from graphdp.rng import stream_key

#: u is 63 bits of a word; below 2⁻²⁰ it has further bits.
MASK = (1 << 63) - 1
RARE = 1 << 43


class Words:
    """The random words of one stream, in order."""

    def __init__(self, *name: int | str | float):
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        def encryptor(part: int):
            mode = modes.CTR((part << 126).to_bytes(16, "big"))
            return Cipher(algorithms.AES(stream_key(*name)), mode).encryptor()

        # Three parts of one counter, 2¹²⁶ blocks each.
        self._u, self._angles, self._further = (encryptor(part) for part in range(3))

    def fill(self, u: np.ndarray, angles: np.ndarray) -> None:
        """The words of the next pairs: uint64 (m,) each."""
        zeros = bytes(8 * len(u))
        for part, words in ((self._u, u), (self._angles, angles)):
            part.update_into(zeros, words.view(np.uint8).data)

    def fill_u(self, u: np.ndarray) -> None:
        """The next words of the part for u alone: uint64 (m,)."""
        self._u.update_into(bytes(8 * len(u)), u.view(np.uint8).data)

    def further_bits(self, size: int) -> np.ndarray:
        """126 bits each for `size` small u: float64 in [0, 1)."""
        words = np.empty((size, 2), np.uint64)
        self._further.update_into(bytes(words.nbytes), words.view(np.uint8).data)
        return (words >> np.uint64(1)).astype(np.float64) @ [2.0**-63, 2.0**-126]


def further_of(streams: Sequence[Words], rows: np.ndarray) -> np.ndarray:
    """The next further bits of small u: float64 in [0, 1). rows: each one's stream, ordered."""
    counts = np.bincount(rows, minlength=len(streams)).tolist()
    return np.concatenate(
        [stream.further_bits(n) for stream, n in zip(streams, counts, strict=True) if n]
    )


#: e^(iθ) in the middle of each of so many parts of the circle.
_ARC_BITS = 10
_ARCS = np.exp(2j * math.pi * (np.arange(1 << _ARC_BITS) + 0.5) / (1 << _ARC_BITS))


def normals(words: Words, pairs: int) -> np.ndarray:
    """The next 2 · `pairs` normals of a stream, float64: those of `GridNoise` but for last bits.

    Those of a pair stand next to each other.
    """
    u, angles = np.empty(pairs, np.uint64), np.empty(pairs, np.uint64)
    words.fill(u, angles)
    return of_words(u, angles, lambda rare: words.further_bits(rare.size))


def of_words(
    u_words: np.ndarray, angles: np.ndarray, further: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """The normals of the pairs that these words are, float64 (2 · pairs,); overwrites the words.

    further: gives the further bits of u, float64 in [0, 1), of pairs at these places.
    e^(iθ) is one in a table times e^(ix), |x| ≤ π 2⁻¹⁰, by its series up to x⁵, which leaves less
    than 2⁻⁵⁹: numpy's own sine takes thrice as long.
    """
    u_words &= np.uint64(MASK)
    u = u_words.view(np.int64).astype(np.float64)  # all below 2⁶³, and quicker than of uint64
    u += 0.5
    if u_words.min(initial=RARE) < RARE:
        rare = np.flatnonzero(u_words < np.uint64(RARE))
        u[rare] = u_words[rare].astype(np.float64) + further(rare)
    u *= 2.0**-63
    np.log(u, out=u)
    u *= -2.0
    r = np.sqrt(u, out=u)
    found = _ARCS.take((angles >> np.uint64(64 - _ARC_BITS)).view(np.int64))
    angles >>= np.uint64(11)
    angles &= np.uint64((1 << 53 - _ARC_BITS) - 1)
    x = angles.view(np.int64).astype(np.float64)
    x -= 2.0 ** (52 - _ARC_BITS)
    x *= 2 * math.pi * 2.0**-53
    square = x * x
    cosine, sine = square / 24, square / 120
    for series, (second, first) in ((cosine, (-1 / 2, 1)), (sine, (-1 / 6, 1))):
        series += second
        series *= square
        series += first
    sine *= x
    near = np.empty(u.size, np.complex128)
    np.multiply(cosine, r, out=near.real)
    np.multiply(sine, r, out=near.imag)
    found *= near
    return found.view(np.float64)
