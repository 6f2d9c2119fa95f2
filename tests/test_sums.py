"""How far a sum of clipped gradients moves with one of them: constructions that tell it in float32.

In each, big gradients bring a partial sum just above a power of two, and small ones of the other
sign follow. Without one of the big it stays just below, where floats are twice as dense: there each
small one counts, and above it none.
"""

import math

import numpy as np
import pytest
import torch
from scipy import sparse

from graphdp.methods.dpdgc.network import EmbeddingGradient
from graphdp.training import MLP, DPAdam, Member, train
from graphdp.training.descent import Rounds, descend
from graphdp.training.sparse_rows import SparseRows
from graphdp.training.sums import add_rows

CLIP = 0.1
COUNT = 8192


def bound(count: int) -> float:
    """Of `graphdp.training.sums`, in units of the clip, and 1e-6 for the clipping factor."""
    return 1 + count * 2.0**-23 + count**2 * 2.0**-52 + 1e-6


class Seen:
    """Noise that adds nothing and keeps what it is added to."""

    def __init__(self):
        self.sums = []

    def __call__(self, names):
        return self

    def add(self, sums, noise_std):
        self.sums.append(sums.clone().double())


def big_ones(each: float, count: int) -> tuple[int, float]:
    """How many of `each` bring a float32 sum just above a power of two, which one of them less does
    not, and how wide floats are above it. Of `count` they leave some."""
    top, total, many = 2.0 ** math.floor(math.log2(count * 0.5 * each)), np.float32(0), 0
    while total <= np.float32(top * (1 + 2**-21)):
        total, many = np.float32(total + np.float32(each)), many + 1
    assert many < count
    return many, top * 2.0**-23


def sums_of_an_mlp(values: np.ndarray, labels: np.ndarray, is_sparse: bool) -> torch.Tensor:
    """The clipped gradients of one round over all rows, summed; a linear classifier of column 0."""
    count = len(values)
    x = sparse.csr_matrix((values, (np.arange(count), np.zeros(count, int))), shape=(count, 50))
    member = Member(("sums",), 0.01, 1.0, np.arange(count), np.arange(1), np.arange(1))
    seen = Seen()
    train(
        MLP(50, 16, 1, 2, batch_norm=False), x if is_sparse else x.toarray(), labels, [member],
        DPAdam(1, count, 1.0, 1, CLIP), checkpoint="last", device="cpu", noise=seen,
    )  # fmt: skip
    return seen.sums[0]


@pytest.mark.parametrize("is_sparse", [True, False])
def test_a_record_moves_the_sum_of_an_mlp_by_no_more_than_the_clip(is_sparse):
    # A gradient's four numbers (weight and bias, two classes) are alike where x is 1.
    many, ulp = big_ones(CLIP / 2, COUNT)
    values = np.full(COUNT, 0.4 * ulp / (CLIP / math.sqrt(2)), np.float32)
    values[:many] = 1
    labels = np.ones(COUNT, np.int64)
    labels[:many] = 0
    whole = sums_of_an_mlp(values, labels, is_sparse)
    moved = whole - sums_of_an_mlp(np.delete(values, 5), np.delete(labels, 5), is_sparse)
    assert 0.999 < float(moved.norm()) / CLIP < bound(COUNT)


def test_an_entry_moves_the_sum_of_an_embedding_by_what_it_has_in_it():
    """Rows that list node COUNT; the small gradients' also list the one behind it, whose weights
    say their label."""
    head = torch.eye(2), torch.zeros(2)

    def network(weight: float, lists: list[list[int]], labels: np.ndarray, values: torch.Tensor):
        indptr = np.cumsum([0, *map(len, lists)])
        indices = np.array([j for one in lists for j in one], np.int32)
        rows = SparseRows(indptr, indices, None, values)
        made = EmbeddingGradient(rows, torch.from_numpy(labels), head, values)
        made.views["weight"][COUNT + 1] = torch.tensor([-weight, weight])
        return made

    def summed(weight: float, lists: list[list[int]], labels: np.ndarray) -> torch.Tensor:
        values = torch.zeros((COUNT + 2) * 2 + 2)
        made, seen = network(weight, [*lists, [], []], np.append(labels, [0, 0]), values), Seen()
        rounds = Rounds("poisson", 1, COUNT, 1.0, 1, CLIP, 1e-3)
        descend(values, made.add, rounds, np.arange(COUNT), 0.01, ("sums",), noise=seen)
        return seen.sums[0][0]

    def first(weight: float, row: list[int], label: int) -> float:
        """Its gradient's first number by the weights of node COUNT."""
        values = torch.zeros((COUNT + 2) * 2 + 2)
        lists, labels = [row, *[[] for _ in range(COUNT + 1)]], np.full(COUNT + 2, label)
        got = torch.zeros_like(values)
        network(weight, lists, labels, values).add(torch.tensor([0]), got, CLIP)
        return float(got.view(-1, 2)[COUNT, 0])

    each = first(0.0, [COUNT], 0)
    many, ulp = big_ones(abs(each), COUNT)
    low, high = 0.0, 40.0
    for _ in range(60):  # the weight with which the others' number is 0.4 of a float's width
        middle = (low + high) / 2
        small = first(middle, [COUNT, COUNT + 1], 1)
        assert small * each <= 0
        low, high = (middle, high) if abs(small) > 0.4 * ulp else (low, middle)
    assert 0.3 * ulp < abs(small) < 0.45 * ulp
    labels = np.ones(COUNT, np.int64)
    labels[:many] = 0
    lists = [[COUNT]] * many + [[COUNT, COUNT + 1]] * (COUNT - many)
    without = [*lists[:5], [], *lists[6:]]
    moved = float((summed(high, lists, labels) - summed(high, without, labels)).norm()) / CLIP
    # By the weights it moves by √½ C, all that it had; by the bias from √½ C to C, all it has then.
    expected = math.hypot(math.sqrt(0.5), 1 - math.sqrt(0.5))
    assert abs(moved - expected) < COUNT * 2.0**-23 + 1e-5


def test_sums_in_float32_would_move_by_more():
    """The same numbers one after the other in float32: the constructions are no empty ones."""
    many, ulp = big_ones(CLIP / 2, COUNT)
    rows = torch.full((COUNT, 1), -0.4 * ulp)
    rows[:many] = CLIP / 2
    kept = torch.arange(COUNT) != 5
    for dtype, least, most in (
        (torch.float32, 1.5, 3.0),
        (torch.float64, 1 - 1e-6, 1 + COUNT * 2.0**-23),
    ):
        sums = []
        for some in (rows, rows[kept]):
            total = torch.zeros(1, 1, dtype=dtype)
            add_rows(total, torch.zeros(len(some), dtype=torch.int64), some)
            sums.append(float(total.float()))
        assert least < (sums[0] - sums[1]) / (CLIP / 2) < most


@pytest.mark.parametrize("sampling", ["poisson", "full"])
def test_gradients_are_summed_in_float64_where_noise_is_added(sampling):
    kinds = []

    def add(nodes, gradients, clip):
        kinds.append((gradients.dtype, clip))

    rounds = (
        Rounds("poisson", 1, 4, 1.0, 1, CLIP, 1e-3) if sampling == "poisson" else Rounds("full", 1)
    )
    descend(torch.zeros(3), add, rounds, np.arange(4), 0.01, ("sums",), noise=Seen())
    expected = (torch.float64, CLIP) if sampling == "poisson" else (torch.float32, None)
    assert kinds == [expected]
