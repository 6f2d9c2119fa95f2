"""Noisy sums in float32: those of float64, and how far float32 alone is from these."""

import math

import numpy as np
import pytest
import torch

from graphdp import quick_noise
from graphdp.errors import GraphDPError
from graphdp.noise import GridNoise, grid_of
from graphdp.words import MASK, of_words
from test_noise import EDGES, QUARTERS, TOP, Given

NEVER = 1 << 62


def noisy(sums, std, monkeypatch, least, streams=None):
    """The sums with noise, twice in a row."""
    monkeypatch.setattr(quick_noise, "LEAST", least)
    source = GridNoise([("quick", i) for i in range(len(sums))])
    if streams:
        source._streams = streams
    found = [sums.clone() for _ in range(1 if streams else 2)]
    for each in found:
        source.add(each, torch.tensor(std, dtype=torch.float64))
    return torch.cat(found)


def same(one, other):
    """To the bit, signs of zero and what is no number included."""
    return torch.equal(one.view(torch.int32), other.view(torch.int32))


@pytest.mark.parametrize(("rows", "size"), [(1, 1_000_001), (7, 131_073), (10, 65_536)])
def test_sums_are_those_of_float64(rows, size, monkeypatch):
    """Millions of numbers: of all sizes, what float32 cannot divide by the grid, and near ties, of
    which float32 alone decides some wrongly."""
    rng = np.random.default_rng(rows)
    std = rng.uniform(0.01, 50, rows) * 10.0 ** rng.integers(-9, 9, rows)
    sizes = 10.0 ** rng.integers(-20, 9, (rows, size))
    sums = torch.tensor(rng.standard_normal((rows, size)) * std[:, None] * sizes).float()
    wild = [math.inf, -math.inf, math.nan, 3.4e38, -3.4e38, 1e-45, -1e-45, 0.0, -0.0]
    sums[:, 7 : 7 + len(wild)] = torch.tensor(wild)
    grids = np.array([grid_of(scale) for scale in std])[:, None]
    names = [("quick", i) for i in range(rows)]
    normals = GridNoise(names)._normals(20_000).numpy()[:, 100:]
    ties = rng.integers(-50, 50, normals.shape) + 0.5 - normals * std[:, None] / grids
    sums[:, 100:40_000] = torch.from_numpy(ties * grids).float()
    exact = noisy(sums, std, monkeypatch, NEVER)
    assert same(noisy(sums, std, monkeypatch, 1), exact)
    monkeypatch.setattr(quick_noise, "_SURE", np.float32(1))
    wrong = (noisy(sums, std, monkeypatch, 1) != exact)[:rows, 100:40_000].sum(1)
    assert (wrong > 1000).all()


def words_of_all_kinds():
    rng = np.random.default_rng(5)
    words = [(a, b) for a in EDGES for b in QUARTERS]
    # Near the ends of r: u from 1 - 2⁻¹³ on, and down to 2⁻²¹.
    ends = [2**63 - 1 - (1 << s) - i for s in range(40, 53) for i in (0, 3)]
    ends += [(1 << s) + i for s in range(42, 47) for i in (0, 12345)]
    words += [(a, int(b)) for a in ends for b in rng.integers(0, TOP, 40, np.uint64)]
    random = rng.integers(0, TOP, (2, 500_000), np.uint64, endpoint=True)
    u, angles = np.array(words, np.uint64).T
    return np.concatenate([u, random[0]]), np.concatenate([angles, random[1]])


def test_float32_is_as_near_as_the_argument_has_it():
    """|ẑ' - ẑ| ≤ 2⁻²⁴/r + 2e-6 r wherever the argument speaks, random words and the worst."""
    u, angles = words_of_all_kinds()
    rare = int(((u & np.uint64(MASK)) < 2**43).sum())
    room = quick_noise._Room(1, len(u))
    room._draw([Given(u, angles)])
    exact = of_words(u.copy(), angles.copy(), lambda places: np.full(len(places), 0.5))
    r = np.repeat(np.hypot(*exact.reshape(-1, 2).T), 2)
    spoken = (r >= 2.0**-8) & (r <= 5.25)
    assert rare > 10 and 0.99 < spoken.mean() < 1
    error = np.abs(room.normals[0].double().numpy() - exact)[spoken]
    bound = 2.0**-24 / r[spoken] + 2e-6 * r[spoken]
    assert (error <= bound).all()
    assert (error / bound).max() > 0.1  # the bound is of this size
    for end in (quick_noise._LEAST_R, quick_noise._MOST_R):
        most = 32 * (2.0**-24 / end + 2e-6 * end) + 3 * 2.0**-24 * (0.5 + 32 * end)
        assert 2 * most < 1.03 * (0.5 - quick_noise._SURE) and most < 5.1e-4


def test_words_of_all_kinds_give_the_sums_of_float64(monkeypatch):
    """Further bits of rare u included, which each stream has of its own, in order."""
    u, angles = words_of_all_kinds()
    u, angles = u[:5000], angles[:5000]
    rng, streams = np.random.default_rng(6), []
    for i in range(3):
        mine = np.roll(u, 7 * i)
        rare = int(((mine & np.uint64(MASK)) < 2**43).sum())
        further = rng.integers(0, TOP, 2 * rare, np.uint64, endpoint=True)
        streams.append((mine, angles, further))
    sums = torch.from_numpy(rng.standard_normal((3, 10_000))).float()
    found = [
        noisy(sums, [1.0, 0.6, 77.0], monkeypatch, least, [Given(*each) for each in streams])
        for least in (1, NEVER)
    ]
    assert same(*found)


def near_ties(normals, std, rng):
    """Sums, float32, whose c lies within 2⁻⁵ of the middle between two whole numbers, or far
    nearer."""
    grid = grid_of(std)
    cells = normals * std / grid
    off = rng.choice([-1, 1], cells.shape) * 2.0 ** rng.uniform(-20, -5, cells.shape)
    return torch.from_numpy((np.rint(cells) + 0.5 - cells + off) * grid).float()


@pytest.mark.parametrize("end", ["near 1", "rare"])
def test_either_end_of_r_alone_is_left_to_float64(end, monkeypatch):
    """Words of one end, and of the middle; every sum near a tie of its own normal."""
    rng, n, std = np.random.default_rng(8), 8000, 1.99
    if end == "rare":
        u = (2.0 ** rng.uniform(20, 43, n)).astype(np.uint64)
    else:
        u = np.uint64(2**63 - 1) - (2.0 ** rng.uniform(20, 47, n)).astype(np.uint64)
    u = np.concatenate([u, (2.0**63 * rng.uniform(0.1, 0.9, n)).astype(np.uint64)])
    angles = rng.integers(0, TOP, 2 * n, np.uint64)
    further = rng.integers(0, TOP, 2 * int((u < 2**43).sum()), np.uint64)
    fractions = Given([], [], further).further_bits(len(further) // 2)
    normals = of_words(u.copy(), angles.copy(), lambda rare: fractions)
    sums = near_ties(normals, std, rng)[None]
    found = [
        noisy(sums, [std], monkeypatch, least, [Given(u, angles, further)]) for least in (1, NEVER)
    ]
    assert same(*found)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_the_last_number_of_a_row_is_checked_as_the_others_are(size, monkeypatch):
    rows, std = 3000, 1.99
    normals = GridNoise([("quick", i) for i in range(rows)])._normals((size + 1) // 2).numpy()
    sums = near_ties(normals[:, :size], std, np.random.default_rng(9))
    found = [noisy(sums, [std] * rows, monkeypatch, least) for least in (1, NEVER)]
    assert same(*found)


def test_what_float32_cannot_hold_is_made_in_float64(monkeypatch):
    """Sums in float64, and scales of which float32 has no grid, alone and beside others."""
    sums = torch.from_numpy(np.random.default_rng(1).standard_normal((1, 1001)) * 2.0**40)
    found = [noisy(sums, [1.0], monkeypatch, least) for least in (1, NEVER)]
    assert torch.equal(*found)
    for std in ([1e40], [1e-50], [1.0, 1e40], [1e-50, 1.0]):
        sums = torch.full((len(std), 1001), 0.3)
        found = [noisy(sums, std, monkeypatch, least) for least in (1, NEVER)]
        assert same(*found)


def test_normals_of_numpy_are_nearly_those_of_torch():
    """Nearer than the analysis of either needs: by 2⁻⁴⁷, and turned by less than θ's last bit."""
    rng = np.random.default_rng(1)
    middle = (2.0**63 * rng.uniform(0.1, 0.9, 20_000)).astype(np.uint64)
    u = np.concatenate([np.full(400, 2**43, np.uint64), middle])
    angles = rng.integers(0, TOP, len(u), np.uint64)
    source = GridNoise([])
    source._streams = [Given(u, angles)]
    torchs = source._normals(len(u)).numpy()[0].view(np.complex128)
    numpys = of_words(u.copy(), angles.copy(), None).view(np.complex128)
    assert np.abs(torchs - numpys).max() < 2.0**-47
    assert abs(np.angle(numpys * torchs.conj()).mean()) < 3e-16


def test_rows_without_a_scale_or_a_stream_are_refused():
    for sums, scales in ((torch.zeros(2, 5), [1.0]), (torch.zeros(1, 5), [1.0, 1.0])):
        with pytest.raises(GraphDPError, match="give one of each for every row"):
            GridNoise([("one",)]).add(sums, torch.tensor(scales, dtype=torch.float64))


def test_few_are_left_to_float64():
    """Of 2 million numbers 1 in 512, within 6 standard deviations (a chance of 2e-9), each with the
    other of its pair."""
    size = 2_000_000
    source, left = quick_noise.QuickSums([GridNoise([("few",)])._streams[0]]), []
    source._in_float64 = lambda sums, found, *rest: left.extend(found)
    source.add(torch.full((1, size), 0.3), np.array([1.3]), np.array([grid_of(1.3)]))
    pairs = sum(len(rows) for rows, *_ in left)
    assert abs(pairs - size / 512) < 6 * math.sqrt(size / 512) + size / 2 * 1e-5
