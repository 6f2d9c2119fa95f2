"""Gaussian noise as it is drawn: its words, its normals against exact arithmetic, its grid."""

import hashlib
import json
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats

from graphdp import noise, quick_noise
from graphdp.audit.lattice import TorchNoise, off_lattice
from graphdp.errors import GraphDPError
from graphdp.noise import GridNoise, add_noise, as_drawn, grid_of
from graphdp.words import Words, normals

ALPHA = 1e-6


class Given:
    """A stream of given words."""

    def __init__(self, u, angles, further=()):
        self.u, self.angles, self.further = (np.array(x, np.uint64) for x in (u, angles, further))

    def fill(self, u, angles):
        u[:], angles[:] = self.u, self.angles

    def further_bits(self, size):
        pairs = self.further.reshape(-1, 2)
        assert size == len(pairs)
        return (pairs >> np.uint64(1)).astype(np.float64) @ [2.0**-63, 2.0**-126]


def normals_of(*words):
    source = GridNoise([])
    source._streams = [Given(*words)]
    return source._normals(len(words[0])).numpy().reshape(-1, 2)


def drawn(size, std=1.0, sums=None, name=("noise", 0)):
    sums = np.zeros(size) if sums is None else sums
    return add_noise(sums, std, GridNoise([name]))


def test_words_are_those_of_aes_256_in_counter_mode():
    """Against single blocks of the cipher, under the SHA-256 of the name."""
    name = ("a", 1, 0.5, "noise")
    key = hashlib.sha256(json.dumps(name).encode()).digest()
    block = Cipher(algorithms.AES(key), modes.ECB()).encryptor()

    def expected(part, size):
        counters = [((part << 126) + i).to_bytes(16, "big") for i in range(size)]
        return np.frombuffer(block.update(b"".join(counters)), np.uint64)[:size]

    stream, (u, angles) = Words(*name), np.empty((2, 7), np.uint64)
    for start in (0, 7):
        stream.fill(u, angles)
        # An odd word is the first half of a block, whose other half comes next.
        assert np.array_equal(u, expected(0, 14)[start : start + 7])
        assert np.array_equal(angles, expected(1, 14)[start : start + 7])
    for start in (0, 3):
        pairs = (expected(2, 12)[2 * start :][:6] >> np.uint64(1)).reshape(3, 2).tolist()
        exact = [float(Fraction(high, 2**63) + Fraction(low, 2**126)) for high, low in pairs]
        np.testing.assert_allclose(stream.further_bits(3), exact, rtol=2e-16)


RNG = np.random.default_rng(0)
TOP = 2**64 - 1
EDGES = [0, 1, 2**43 - 1, 2**43, 2**53 - 1, 2**53, 2**53 + 1, 2**61, 2**62, 2**63 - 2**10,
         2**63 - 2**9 - 1, 2**63 - 2**20, 2**63, TOP, 2**63 + 5]  # fmt: skip
QUARTERS = [0, 1 << 11, (1 << 62) - 1, 1 << 62, (1 << 62) + (1 << 11), (1 << 63) - 1, 1 << 63,
            3 << 62, TOP]  # fmt: skip


def numpy_normals_of(*words):
    return normals(Given(*words), len(words[0])).reshape(-1, 2)


@pytest.mark.parametrize("normals_of", [normals_of, numpy_normals_of])
def test_normals_are_near_those_of_the_ideal_uniforms(normals_of):
    """|ẑ - z| <= 2⁻⁵¹/r + 2⁻⁴⁵ for all ideal uniforms whose leading bits the words are: at the ends
    of what they leave open. Random words, and those where floats round worst."""
    words = [(a, b) for a in EDGES for b in QUARTERS]
    words += [(0, b) for b in [*QUARTERS, 5 << 60] * 5]
    random = RNG.integers(0, TOP, (2, 400), np.uint64, endpoint=True).tolist()
    shifts = RNG.integers(0, 60, 400).tolist()
    words += [(a >> s, b) for a, b, s in zip(*random, shifts, strict=True)]
    u, angles = (np.array(part, np.uint64) for part in zip(*words, strict=True))
    small = (u & np.uint64(2**63 - 1)) < 2**43
    further = RNG.integers(0, TOP, (int(small.sum()), 2), np.uint64, endpoint=True)
    # Deep into the tail: nothing but zeros in front of a bit of the further words.
    zeros = np.flatnonzero(u[small] == 0)[:41]
    further[zeros, 0] = 2 ** np.arange(23, 64, dtype=np.uint64)
    found, more = normals_of(u, angles, further.ravel()), iter(further.tolist())
    mpmath.mp.prec = 200
    checked = 0
    for (a, b), low, (x, y) in zip(words, small, found, strict=True):
        first, bits = a % 2**63, 63
        if low:
            high, last = next(more)
            first, bits = (first << 126) + (high >> 1 << 63) + (last >> 1), 189
        for at in (first, first + 1):
            ideal = mpmath.mpf(at) / mpmath.mpf(2) ** bits
            if not 0 < ideal < 1:
                continue
            r = mpmath.sqrt(-2 * mpmath.log(ideal))
            if not 2**-13 < r <= 12:
                continue
            allowed = 2.0**-51 / r + 2.0**-45
            turn = b >> 11
            for angle in (turn, turn + 1):
                theta = 2 * mpmath.pi * angle / mpmath.mpf(2) ** 53
                assert abs(x - r * mpmath.cos(theta)) <= allowed, (a, b)
                assert abs(y - r * mpmath.sin(theta)) <= allowed, (a, b)
                checked += 1
    assert checked > 1500 and np.hypot(*found.T).max() > 11.9


@pytest.mark.parametrize(
    ("dtype", "quick"), [(torch.float32, True), (torch.float32, False), (torch.float64, False)]
)
@pytest.mark.parametrize("std", [1e-9, 0.3, 1.0, 2.0, 3.7e5])
def test_a_noisy_sum_is_the_nearest_point_of_a_public_grid(std, dtype, quick, monkeypatch):
    """Exactly: in rational arithmetic, whatever the size of the sum; near ties included, which a
    sum of so many σ or a σ in float32 would decide otherwise."""
    monkeypatch.setattr(quick_noise, "LEAST", 1 if quick else 1 << 62)
    g = grid_of(std)
    assert std / 32 < g <= std / 16 and math.frexp(g)[0] == 0.5
    size = 600
    (z,) = GridNoise([("noise", 0)])._normals(size // 2).numpy()
    sums = RNG.standard_normal(size) * std * 10.0 ** RNG.integers(-20, 5, size)
    ties = np.rint(RNG.standard_normal(300) * 2**22) + 0.5 - z[:300] * std / g
    sums[:300] = (ties + RNG.choice([-1e-6, 1e-6], 300)) * g
    given = torch.tensor(sums, dtype=dtype)
    noisy = given[None].clone()
    GridNoise([("noise", 0)]).add(noisy, torch.tensor([std], dtype=torch.float64))
    sums, found, z = given.double().numpy(), noisy[0].double().numpy(), z.tolist()
    for f, normal, y in zip(sums.tolist(), z, found.tolist(), strict=True):
        exact = (Fraction(f) + Fraction(normal) * Fraction(std)) / Fraction(g)
        cell = Fraction(y) / Fraction(g)
        assert cell.denominator == 1
        if abs(cell) < 2**24:  # beyond, float32 rounds what is on the grid once more
            assert abs(cell - exact) <= Fraction(1, 2) + Fraction(1, 2**43)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_zero_has_one_sign(dtype):
    """A zero of either sign would tell the sign of a sum that is smaller than the grid."""
    for f in (-0.03, -1e-3, -1e-300, -0.0, 0.0, 1e-3):
        y = torch.full((1, 100_000), f, dtype=dtype)
        GridNoise([("zero",)]).add(y, torch.ones(1, dtype=torch.float64))
        zeros = y[y == 0]
        assert len(zeros) > 500 and not torch.signbit(zeros).any()


def test_rare_rows_take_further_bits_of_their_own_stream():
    source = GridNoise([])
    angles = [0, 0, 0]
    further = [[i << 58, 0] for i in range(1, 7)]
    source._streams = [
        Given([9 << 50, 5, 5], angles, further[:2]),
        Given([9 << 50] * 3, angles),
        Given([5] * 3, angles, further[2:5]),
    ]
    z = source._normals(3).numpy()[:, ::2]
    for row, places, bits in ((0, (1, 2), further[:2]), (2, (0, 1, 2), further[2:5])):
        for place, (high, _) in zip(places, bits, strict=True):
            exact = math.sqrt(-2 * math.log((5 + (high >> 1) * 2.0**-63) * 2.0**-63))
            assert z[row, place] == pytest.approx(exact, rel=1e-15)
    assert len(np.unique(z)) == 6  # five of further bits, one without


def test_cells_have_the_probabilities_of_the_gaussian():
    """4 million draws over a sum of 0.3: chi-square of the cells with 20 or more expected, and of
    pairs' quadrants and radii; fails with probability 1e-6 each."""
    size, f, std = 4_000_000, 0.3, 1.5
    y = drawn(size, std, np.full(size, f))
    g = grid_of(std)
    cells = np.arange(-120, 121)
    ends = np.concatenate([[-np.inf], (cells[1:] - 0.5) * g, [np.inf]])
    expected = size * np.diff(stats.norm.cdf((ends - f) / std))
    counts = np.bincount((np.clip(y / g, -120, 120) + 120).astype(int), minlength=241)
    kept = expected >= 20
    chi = ((counts - expected)[kept] ** 2 / expected[kept]).sum()
    assert stats.chi2.sf(chi, kept.sum() - 1) > ALPHA
    z = (y - f) / std
    for one, other in ((z[::2], z[1::2]), (z[:-1], z[1:]), (z[: size // 2], z[size // 2 :])):
        # Means of products of independent normals, and of their squares: near normal.
        for a, b, var in ((one, other, 1), (one**2 - 1, other**2 - 1, 4)):
            limit = stats.norm.isf(ALPHA / 2) * math.sqrt(var / len(a))
            assert abs((a * b).mean()) < limit + 1e-3
    radius = np.hypot(z[::2], z[1::2])
    for at in (1.0, 2.0, 3.0, 4.0):
        p = math.exp(-(at**2) / 2)
        # A grid of σ/24 moves a radius by less than σ/32.
        low, high = (math.exp(-((at + d) ** 2) / 2) for d in (1 / 32, -1 / 32))
        error = stats.norm.isf(ALPHA / 2) * math.sqrt(p * len(radius))
        assert len(radius) * low - error < (radius > at).sum() < len(radius) * high + error


def test_the_variance_is_that_of_the_plan_and_of_rounding():
    """σ² (1 + (g/σ)²/12), by exact chi-square quantiles: fails with probability 1e-6."""
    size, std = 2_000_000, 16.0  # g is the largest that there is, σ/16
    y = drawn(size, std, name=("noise", "variance"))
    low, high = stats.chi2.ppf([ALPHA / 2, 1 - ALPHA / 2], size) * (1 + 16**-2 / 12) * std**2
    assert low < (y**2).sum() < high


@pytest.mark.parametrize("least", [1, 1 << 62])
def test_streams_do_not_depend_on_company_parts_or_calls(least, monkeypatch):
    monkeypatch.setattr(quick_noise, "LEAST", least)
    names = [("m", i) for i in range(3)]
    std = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)

    def two_calls(names, std):
        source, sums = GridNoise(names), torch.ones(len(names), 1001)
        source.add(sums, std)
        again = torch.zeros(len(names), 500)
        source.add(again, std)
        return sums, again

    together = two_calls(names, std)
    for s in range(3):
        for stack, one in zip(together, two_calls(names[s : s + 1], std[s : s + 1]), strict=True):
            assert torch.equal(stack[s], one[0])
    assert not torch.equal(together[0][0, :500], together[1][0])
    monkeypatch.setattr(noise, "_PART", 64)
    monkeypatch.setattr(quick_noise, "PART", 64)
    for stack, one in zip(together, two_calls(names, std), strict=True):
        assert torch.equal(stack, one)
    assert not torch.equal(two_calls([("n", 0)] * 3, std)[0][0], together[0][0])
    # Two calls on zeros are one long call.
    source, longer = GridNoise(names), torch.zeros(3, 300)
    GridNoise(names).add(longer, std)
    parts = [torch.zeros(3, 100), torch.zeros(3, 200)]
    for part in parts:
        source.add(part, std)
    assert torch.equal(torch.cat(parts, 1), longer)
    source.add(torch.zeros(3, 0), std)
    GridNoise([]).add(torch.zeros(0, 5), std[:0])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_noise_on_a_gpu_is_that_on_a_cpu():
    std = torch.tensor([1.3], dtype=torch.float64)
    found = []
    for device in ("cpu", "cuda"):
        sums = torch.zeros(1, 1_000_001, device=device)
        GridNoise([("gpu",)]).add(sums, std)
        found.append(sums.cpu())
    assert torch.equal(*found)


@pytest.mark.parametrize("std", [0.0, -1.0, math.inf, math.nan, 1e-300, 1e300])
def test_noise_without_a_scale_is_refused(std):
    with pytest.raises(GraphDPError, match=r"noise of scale .* with a finite ε"):
        drawn(4, std)


def test_what_drawing_adds_to_epsilon_and_delta():
    """The bound of the docstring, term by term with a library's logarithms; nothing without draws
    but the step of the martingale; and small for the largest model of the papers."""
    mpmath.mp.prec = 200
    few, most = 10**6, 2**36
    cases = (1.0, 1e-7, few), (16.0, 1e-5, most), (0.5, 0, 0), (20.0, 0, most), (0.0, 0, 10**9)
    for epsilon, delta, draws in cases:
        t = mpmath.mpf("1e-25") * mpmath.exp(-epsilon)
        logs = mpmath.log(2 / t)
        a = mpmath.sqrt(draws * 2.0**-70 * logs) + 2.0**-32 * logs + draws * 2.0**-70
        chances = t + draws * mpmath.mpf("1e-31") + mpmath.mpf(draws) ** 2 / mpmath.mpf(2) ** 130
        both = mpmath.exp(a) * (delta + (1 + mpmath.exp(epsilon + a)) * chances)
        found = as_drawn(epsilon, delta, draws)
        assert found[0] == pytest.approx(float(epsilon + 2 * a), rel=1e-12)
        assert found[1] == pytest.approx(float(both), rel=1e-9, abs=0)
        assert found[0] - epsilon < 3e-4 and found[1] < 1.001 * delta + 1e-17 * math.exp(epsilon)
    assert as_drawn(1000.0, 1e-5)[1] == 1
    for arguments in ((1.0, 1e-5, 2**36 + 1), (math.inf, 1e-5, 1)):
        with pytest.raises(GraphDPError, match=r"draws|no noise"):
            as_drawn(*arguments)


def exact_cells(bits_u, bits_angle, g, offset):
    """P of every cell of a small sampler, by all of its words, and of the ideal Gaussian."""
    u = (np.arange(2**bits_u) + 0.5) / 2**bits_u
    theta = 2 * math.pi * np.arange(2**bits_angle) / 2**bits_angle
    r = np.sqrt(-2 * np.log(u))
    z = np.stack([np.outer(r, np.cos(theta)), np.outer(r, np.sin(theta))], -1).reshape(-1, 2)
    cells, counts = np.unique(np.rint((z + offset) / g).astype(int), axis=0, return_counts=True)
    sides = [(np.array([-0.5, 0.5]) + cells[..., None]) * g - np.array(offset)[:, None]]
    ideal = np.diff(stats.norm.cdf(sides[0]), axis=-1)[..., 0].prod(-1)
    return counts / counts.sum(), ideal


@pytest.mark.slow
@pytest.mark.parametrize(
    "offset",
    [(0.0, 0.0), *(pytest.param(o, marks=pytest.mark.slow) for o in ((0.5, 0.5), (0.13, 0.71)))],
)
def test_cells_of_a_small_sampler_are_within_its_displacement(offset):
    """The argument of the docstring at 2⁻¹¹ in place of 2⁻⁵³, where every word can be tried: cells
    away from origin and tail have P (1 ± 4 η e^(η 4) / g), η the displacement there."""
    g, bits = 0.5, 11
    found, ideal = exact_cells(bits, bits, g, offset)
    kept = ideal > 0.002
    assert kept.sum() > 30
    r = 2.6  # beyond it no cell of that probability reaches
    eta = 2.0**-bits / math.exp(-(r**2) / 2) / r / 2 + r * 2 * math.pi * 2.0**-bits
    error = np.abs(found / ideal - 1)[kept]
    assert error.max() < 4 * eta * math.exp(4 * eta) / g
    assert error.max() > 1e-4  # a lattice: not nothing


def test_bare_noise_of_torch_lies_on_a_lattice_and_that_of_the_grid_on_none():
    """What the lattice audits count: none in a bare sum by torch's generator, nearly all tail pairs
    over any other sum; by the grid's the same whatever lies beneath."""
    size = 400_000
    std = torch.tensor([1.7], dtype=torch.float64)

    def off(source, beneath):
        sums = torch.full((1, size), beneath)
        source([("lattice", beneath)]).add(sums, std)
        return int(off_lattice(sums.numpy(), 1.7)[0])

    tail = math.exp(-(3.6**2) / 2) * size / 2
    assert off(TorchNoise, 0.0) == 0
    assert off(TorchNoise, 0.01) > 0.5 * tail
    bare, over = off(GridNoise, 0.0), off(GridNoise, 0.01)
    assert abs(bare - over) < stats.norm.isf(ALPHA / 2) * math.sqrt(2 * tail)
