"""Sums by key of several parties: sensitivities on lists of small graphs, noise and dummies."""

import itertools
import math

import numpy as np
import pytest
from scipy.signal import fftconvolve
from scipy.stats import norm

from graphdp.errors import GraphDPError
from graphdp.noise import MOST_DRAWS
from graphdp.parties import ring
from graphdp.privacy import pair_sums
from graphdp.privacy.accounting.closed_form import gaussian_delta
from graphdp.privacy.calibration import calibrate
from graphdp.privacy.mechanisms import distributed_gaussian, from_dict, to_dict
from graphdp.privacy.pair_sums import count_sensitivity, sum_sensitivity
from graphdp.privacy.plan import DistributedGaussian, GaussianReleases, Plan, Sensitivity

USERS = 4
OTHERS = [[v for v in range(USERS) if v != u] for u in range(USERS)]


def subsets(items, most=None):
    most = len(items) if most is None else most
    return [s for size in range(most + 1) for s in itertools.combinations(items, size)]


def sums(lists, rows):
    found = np.zeros((USERS, rows.shape[1]))
    for sender, targets in enumerate(lists):
        for key in targets:
            found[key] += rows[sender]
    return found


def rows_of(kind, seed=0):
    """Rows of norm at most 1: worst signs, random directions, or without negative entries."""
    rng = np.random.default_rng(seed)
    if kind == "signs":
        return rng.choice([-1.0, 1.0], (USERS, 1))
    rows = rng.normal(size=(USERS, 3))
    if kind == "non-negative":
        rows = np.eye(3)[rng.integers(3, size=USERS)]
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def moved(lists, others, rows, other_rows=None):
    other_rows = rows if other_rows is None else other_rows
    difference = sums(lists, rows) - sums(others, other_rows)
    return np.linalg.norm(difference), difference


def random_lists(rng, most):
    return [[v for v in OTHERS[u] if rng.random() < 0.6][:most] for u in range(USERS)]


@pytest.mark.parametrize("kind", ["signs", "directions"])
def test_an_edge_moves_whole_lists_by_no_more_and_as_much(kind):
    rng, worst = np.random.default_rng(1), {"edge_directed": 0.0, "edge_undirected": 0.0}
    for seed in range(200):
        rows = rows_of(kind, seed)
        lists = random_lists(rng, USERS)
        i, j = rng.permutation(USERS)[:2]
        for adjacency, ends in (
            ("edge_directed", [(j, i)]),
            ("edge_undirected", [(j, i), (i, j)]),
        ):
            others = [sorted(set(of) - {v for u, v in ends if u == s}) for s, of in
                      enumerate(lists)]  # fmt: skip
            for u, v in ends:
                lists[u] = sorted({*others[u], v})
            worst[adjacency] = max(worst[adjacency], moved(lists, others, rows)[0])
    for adjacency, most in worst.items():
        assert most == pytest.approx(sum_sensitivity(adjacency).value, rel=1e-12)


def sampled_pairs(listed, target, most):
    """Lists with and without `target` where at most `most` are kept, coupled: of a uniform sample
    that has the target another one takes its place."""
    whole = [*listed, target]
    for kept in itertools.combinations(whole, min(most, len(whole))):
        rest = [z for z in listed if z not in kept]
        less = tuple(z for z in kept if z != target)
        if target in kept and rest and len(kept) == most:
            yield from ((kept, (*less, z)) for z in rest)
        else:
            yield kept, less


def sampled_moves(most, undirected):
    """Every way in which an edge between users 0 and 1 moves sums over sampled lists."""
    others = [2, 3]
    first = [p for of in subsets(others) for p in sampled_pairs(of, 1, most)]
    second = [p for of in subsets(others) for p in sampled_pairs(of, 0, most)]
    for a, b in itertools.product(first, second if undirected else [((), ())]):
        yield [a[0], b[0], (), ()], [a[1], b[1], (), ()]


@pytest.mark.parametrize(("adjacency", "square"), [("edge_directed", 2), ("edge_undirected", 6)])
def test_an_edge_moves_sampled_lists_by_no_more_and_as_much(adjacency, square):
    worst, keys, counts = 0.0, 0, 0.0
    ones = np.ones((USERS, 1))
    for most in (1, 2):
        for lists, others in sampled_moves(most, adjacency == "edge_undirected"):
            for kind, seed in itertools.product(("signs", "directions"), range(4)):
                worst = max(worst, moved(lists, others, rows_of(kind, seed))[0])
            length, difference = moved(lists, others, ones)
            counts, keys = max(counts, length), max(keys, np.count_nonzero(difference))
    bound = sum_sensitivity(adjacency, sampled=True)
    assert bound.value == pytest.approx(math.sqrt(square))
    assert worst == pytest.approx(bound.value, rel=1e-12)
    assert counts == pytest.approx(count_sensitivity(adjacency, sampled=True).value, rel=1e-12)
    assert keys <= count_sensitivity(adjacency, sampled=True).value ** 2 + 1e-9


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_a_participant_moves_sums_by_no_more_and_as_much(degree):
    rng, worst = np.random.default_rng(degree), 0.0
    for seed in range(50):
        rows = rows_of("signs" if seed % 2 else "directions", seed)
        lists = random_lists(rng, degree)
        for own in subsets(OTHERS[0], degree):
            length, difference = moved([list(own), *lists[1:]], [[], *lists[1:]], rows)
            worst = max(worst, length)
            assert not difference[0].any()  # its own row stays
    assert worst == pytest.approx(sum_sensitivity("participant", degree).value, rel=1e-12)


@pytest.mark.parametrize(
    ("first", "non_negative", "multiple"),
    [(True, False, 4), (True, True, 2), (False, False, 2), (False, True, 2)],
)
@pytest.mark.parametrize("degree", [1, 2, 3])
def test_a_replaced_node_moves_sums_by_no_more(degree, first, non_negative, multiple):
    """Two lists share targets where `degree` of 3 others leave them no other choice: the bound of
    later rounds needs 2 D users besides the node to be attained, and the next test has these."""
    rng, worst = np.random.default_rng(degree), 0.0
    bound = sum_sensitivity(
        "node_replace_own_list", degree, first=first, non_negative=non_negative
    ).value
    assert bound == pytest.approx(math.sqrt(multiple * degree))
    choices = subsets(OTHERS[0], degree)
    for seed in range(12):
        rows = rows_of("non-negative" if non_negative else ("signs", "directions")[seed % 2], seed)
        other = rows.copy()
        if first:
            other[0] = np.eye(3)[seed % 3] if non_negative else -rows[0]
        lists = random_lists(rng, degree)
        for one, two in itertools.product(choices, choices):
            length, difference = moved(
                [list(one), *lists[1:]], [list(two), *lists[1:]], rows, other
            )
            assert not difference[0].any()
            worst = max(worst, length)
    assert worst <= bound * (1 + 1e-12)
    if first:
        assert worst == pytest.approx(bound, rel=1e-12)


def test_a_replaced_node_with_disjoint_lists_attains_the_bound_of_later_rounds():
    degree = 3
    change = np.zeros((2 * degree, 1))
    change[:degree], change[degree:] = 1, -1  # targets of the one list, and of the other
    bound = sum_sensitivity("node_replace_own_list", degree)
    assert np.linalg.norm(change) == pytest.approx(bound.value)


@pytest.mark.parametrize("longest", [2, 3])
def test_an_edge_or_a_user_moves_the_numbers_of_users_by_length_by_no_more_and_as_much(longest):
    """Over all pairs of lists of 4 users of which one user's, or both ends', differ in that."""

    def lengths(lists):
        return np.bincount([min(len(own), longest) for own in lists], minlength=longest + 1)

    worst = dict.fromkeys(pair_sums.ADJACENCIES, 0.0)
    for first, second in itertools.product(subsets(OTHERS[0][1:]), subsets(OTHERS[1][1:])):
        for third in ((), (0,), (0, 1)):
            lists = [first, second, third, ()]
            for adjacency, others in (
                ("edge_directed", [[(*first, 1), second, third, ()]]),
                ("edge_undirected", [[(*first, 1), (*second, 0), third, ()]]),
                ("participant", [[(), second, third, ()]]),
                ("node_replace_own_list", [[own, second, third, ()] for own in subsets(OTHERS[0])]),
            ):
                for other in others:
                    moved = np.linalg.norm(lengths(lists) - lengths(other))
                    worst[adjacency] = max(worst[adjacency], moved)
    for adjacency, most in worst.items():
        assert most == pytest.approx(pair_sums.length_sensitivity(adjacency).value)


def test_unknown_words_are_refused():
    with pytest.raises(GraphDPError, match="choose one of edge_directed"):
        sum_sensitivity("node_add_remove", 3)
    for wrong in (None, -1, 2.0, True):
        with pytest.raises(GraphDPError, match="max_degree is"):
            sum_sensitivity("participant", wrong)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((3, 1, 0), "shares is 1"),
        ((3, 4, 1), "shares is 4"),
        ((3, 2, 2), "colluding is 2 with 2 shares"),
        ((3, 2, -1), "colluding is -1"),
        ((101, 2, 1), "parties is 101; give at most 100"),
    ],
)
def test_parties_that_hide_nothing_are_refused(numbers, message):
    with pytest.raises(GraphDPError, match=message):
        distributed_gaussian.check_parties(*numbers)


# --- noise ----------------------------------------------------------------------------------------


def rounded(std):
    """Probabilities of rint(N(0, std²)) on [-most, most]."""
    most = math.ceil(11 * std) + 1
    x = np.arange(-most, most + 1)
    upper = norm.sf((np.abs(x) - 0.5) / std) - norm.sf((np.abs(x) + 0.5) / std)
    upper[most] = 1 - 2 * norm.sf(0.5 / std)
    return upper


def test_rounding_leaves_few_enough_cells_to_be_drawn_from_floats():
    for bits in np.linspace(3, 40, 500):
        std = 2.0**bits
        cells = std / 2.0 ** ring.step_bits(std)
        assert 8 <= cells < 2**16 and (cells == std or cells >= 2**15)
    with pytest.raises(GraphDPError, match="parties draw from 8"):
        ring.step_bits(7.9)


@pytest.mark.parametrize("parties", [1, 2])
@pytest.mark.parametrize("std", [8.0, 50.0, 40_000.0])
def test_noise_on_whole_numbers_is_worth_as_much_as_gaussian_noise(std, parties):
    """δ(ε) of shifts by whole numbers, summed over all values, is the Gaussian's (FFT: 1e-10)."""
    chances = rounded(std)
    for _ in range(parties - 1):
        chances = fftconvolve(chances, rounded(std))
    assert chances.sum() == pytest.approx(1, abs=1e-12)
    total = std * math.sqrt(parties)
    for shift in (1, round(total / 2), round(2.3 * total)):
        p = np.concatenate([chances, np.zeros(shift)])
        q = np.concatenate([np.zeros(shift), chances])
        for epsilon in (0.0, 0.1, 1.0, 4.0):
            found = np.maximum(p - math.exp(epsilon) * q, 0).sum()
            assert found <= gaussian_delta(shift / total, epsilon) + 1e-10


def test_what_colluders_do_not_know_has_the_noise_that_is_accounted():
    for parties, colluding in ((3, 1), (5, 2), (4, 0)):
        own = distributed_gaussian.party_std(2.0, parties, colluding)
        assert own * math.sqrt(parties - colluding) == pytest.approx(2.0)
        assert own * math.sqrt(parties) == pytest.approx(
            distributed_gaussian.delivered_std(2.0, parties, colluding)
        )


def test_sums_that_could_wrap_around_are_refused():
    step = 2.0**ring.FRACTION_BITS
    pair_sums.check_ring(2**38, 3, 30 * step)
    with pytest.raises(GraphDPError, match="may wrap around"):
        pair_sums.check_ring(2**39, 3, 30 * step)
    # All rows aligned and all noise at its largest still fits where it is let through.
    users, parties, std = 2**20, 100, 2.0**40
    pair_sums.check_ring(users, parties, std)
    largest = users * step + parties * 17 * std
    assert largest < 2**63


def test_dummies_of_two_parties_with_the_least_noise_are_as_good_as_gaussian():
    """Rounded apart and added: the loss of 5e-10 a key is all there is."""
    std = pair_sums.LEAST_COUNT_STD
    chances = np.convolve(rounded(std), rounded(std))
    p, q = np.append(chances, 0), np.insert(chances, 0, 0)
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
        found = np.maximum(p - math.exp(epsilon) * q, 0).sum()
        ideal = gaussian_delta(1 / (std * math.sqrt(2)), epsilon)
        assert found <= ideal + 1e-9 * (1 + math.exp(epsilon))
    with pytest.raises(GraphDPError, match="leave less for them"):
        pair_sums.mean_dummies(2.0, 3, 1)


# --- dummies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("tail", [1.0, 2.0, 3.0])
def test_dummies_that_are_cut_at_zero_lose_no_more_than_stated(tail, monkeypatch):
    """One key, one party: exact, with cuts that happen often enough to be seen."""
    std = 6.0
    monkeypatch.setattr(pair_sums, "TAIL", tail)
    mean = pair_sums.mean_dummies(std, 1, 0)
    noise = rounded(std)
    middle = len(noise) // 2
    drawn = np.zeros(mean + middle + 2)
    for value, chance in zip(np.arange(-middle, middle + 1), noise, strict=True):
        drawn[max(0, mean + value)] += chance
    more, less = np.concatenate([[0], drawn]), np.concatenate([drawn, [0]])
    seen = []
    for epsilon in (0.05, 0.2, 0.5, 1.0):
        most = gaussian_delta(1 / std, epsilon) + pair_sums.cut_loss(epsilon, 1.0, 1)
        for p, q in ((more, less), (less, more)):
            found = np.maximum(p - math.exp(epsilon) * q, 0).sum()
            assert found <= most + 1e-12
            seen.append(found > gaussian_delta(1 / std, epsilon))
    assert any(seen) or tail > 2  # without what the cut loses the bound would be wrong


def test_the_cut_is_negligible_as_it_is():
    square = count_sensitivity("node_replace_own_list", 100).value ** 2
    assert 0 < pair_sums.cut_loss(10.0, square, 3) < 2e-12
    with pytest.raises(GraphDPError, match="no noise to speak of"):
        pair_sums.cut_loss(math.inf, square, 3)


# --- the kind of mechanism ------------------------------------------------------------------------


def plan_of(*mechanisms):
    return Plan("any", "edge", "edge_directed", "corrected", "conditional", ("x",), None,
                mechanisms)  # fmt: skip


def distributed(value, unit, count, phase):
    bound = Sensitivity(value, "x", "x")
    return DistributedGaussian("sums", bound, unit, count, phase, 3, 1)


def test_equal_releases_are_accounted_as_gaussian_ones():
    bound = Sensitivity(math.sqrt(2), "x", "x")
    plain = calibrate(plan_of(GaussianReleases("sums", bound, 18, "sums")), 2.0, 1e-5)
    ours = calibrate(plan_of(distributed(math.sqrt(2), math.sqrt(2), 18, "sums")), 2.0, 1e-5)
    assert ours.noise_multiplier == pytest.approx(plain.noise_multiplier, rel=1e-5)
    assert {e.accountant for e in ours.accounting} >= {"autodp", "exact", "dp_accounting"}


def test_releases_of_two_sensitivities_under_one_noise_add_up():
    """μ² = (4 · 6 + 17 · 2 · 6) / σ², which is all that ε depends on."""
    first = distributed(math.sqrt(24), math.sqrt(24), 1, "first")
    later = distributed(math.sqrt(12), math.sqrt(24), 17, "later")
    found = calibrate(plan_of(first, later), 2.0, 1e-5)
    std = found.noise_multiplier * math.sqrt(24)
    assert gaussian_delta(math.sqrt(228) / std, 2.0) == pytest.approx(1e-5, rel=1e-4)
    assert gaussian_delta(math.sqrt(228) / std, 2.0) <= 1e-5
    levels = [m.noise_levels(found.noise_multiplier) for m in found.plan.mechanisms]
    assert levels[0] == levels[1]
    assert levels[0]["noise_std_per_party"] == pytest.approx(std / math.sqrt(2))
    assert levels[0]["noise_std_delivered"] == pytest.approx(std * math.sqrt(3 / 2))


def test_it_is_written_and_read_back():
    one = distributed(1.0, 2.0, 3, "sums")
    assert from_dict(to_dict(one)) == one
    with pytest.raises(GraphDPError, match="unit of noise"):
        distributed(1.0, 0.0, 3, "sums")


def test_what_the_drawn_noise_may_lose_covers_all_deviations():
    """Of the most numbers of all: each of up to 2¹⁶ cells has its chance up to 4 · 2⁻⁴⁵ over its
    width wrong."""
    found = distributed(1.0, math.sqrt(2), 1, "sums").drawn_epsilon(1000.0)
    cells = max(2.0**b / 2.0 ** ring.step_bits(2.0**b) for b in np.linspace(3, 39.99, 1000))
    least = 2 * math.sqrt(MOST_DRAWS * (4 * 2.0**-45 * cells) ** 2 * 60)
    assert least <= found <= 0.031 < 1.05 * found


def test_rows_lose_the_chance_that_their_normals_are_farther_off():
    assert distributed(1.0, 1.0, 1, "sums").drawn_delta(2.0) == (1 + math.exp(2)) * 1e-25


def test_every_party_may_cut_at_every_key_that_moves():
    """A union over both: Δ² keys at most, and as many numbers of dummies at each as parties."""
    one = norm.sf(pair_sums.TAIL)
    for epsilon, square, parties in ((0.0, 1.0, 2), (2.0, 6.0, 3), (8.0, 200.0, 100)):
        most = (1 + math.exp(epsilon)) * square * parties * one
        lost = pair_sums.cut_loss(epsilon, square, parties)
        assert lost == pytest.approx(most, rel=1e-9, abs=0)


def test_what_the_cut_of_dummies_loses_is_of_the_squared_sensitivity():
    """Counts are whole: so many keys move at most."""
    bound = count_sensitivity("node_replace_own_list", 50)
    counts = DistributedGaussian("numbers of pairs", bound, 1.0, 1, "counts", 4, 1, rows=False)
    lost = pair_sums.cut_loss(2.0, 100.0, 4)
    assert counts.drawn_delta(2.0) == pytest.approx(lost, rel=1e-12, abs=0)
