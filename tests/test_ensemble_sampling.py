"""The random parts of DP training: Poisson rounds and Gaussian noise.

Every statistical test states the probability that a right implementation fails it; the seeds are
fixed, so a passing test keeps passing.
"""

import numpy as np
import pytest
import torch
from scipy import stats

from ensemble_fixture import one_thread  # noqa: F401  (used by every test here)
from graphdp.errors import GraphDPError
from graphdp.noise import grid_of
from graphdp.rng import generator
from graphdp.training import MLP, DPAdam, Member, chunk, train
from graphdp.training.features import SharedDense
from graphdp.training.optimiser import Adam
from graphdp.training.sampling import FixedRounds, PoissonRounds, sample_generator

FAILURE = 1e-6


def drawn(m):
    """What draws the samples of a member."""
    return sample_generator(m.stream, m.noise_multiplier)


def indicators(size, rate, rounds, name="a"):
    """Poisson samples as a 0/1 matrix (rounds, size)."""
    counts, items = PoissonRounds(size, rate, generator(1, name)).take(rounds)
    taken = np.zeros((rounds, size), np.int64)
    taken[np.repeat(np.arange(rounds), counts), items] = 1
    assert taken.sum() == counts.sum()  # nobody twice in a round
    return taken


def assert_binomial(successes, trials, probability):
    """Every count lies where Binomial(trials, probability) puts it; a right count fails with
    probability at most `FAILURE` over all of `successes` together."""
    tail = FAILURE / (2 * np.size(successes))
    low, high = stats.binom.ppf([tail, 1 - tail], trials, probability)
    assert np.min(successes) >= low and np.max(successes) <= high


@pytest.mark.parametrize(("size", "rate"), [(40, 0.1), (7, 0.6), (3, 1.0), (300, 0.003)])
def test_poisson_rounds_take_each_item_independently(size, rate):
    """Inclusion of each item, of each pair in one round, and of each item in two rounds running.

    Fails a right sampler with probability at most 3e-6 per case (three families at 1e-6).
    """
    rounds = 30_000
    taken = indicators(size, rate, rounds)
    assert_binomial(taken.sum(0), rounds, rate)
    pairs = (taken.T.astype(float) @ taken.astype(float))[np.triu_indices(size, 1)]
    assert_binomial(pairs, rounds, rate**2)
    assert_binomial((taken[0::2] & taken[1::2]).sum(0), rounds // 2, rate**2)


def test_batch_sizes_are_binomial():
    """Chi-square test of the sizes against Binomial(60, 0.2): fails with probability 1e-6."""
    rounds = 50_000
    sizes = indicators(60, 0.2, rounds).sum(1)
    edges = np.arange(5, 21)
    observed = np.bincount(np.digitize(sizes, edges), minlength=edges.size + 1)
    below = stats.binom.cdf(edges - 1, 60, 0.2)
    expected = np.diff(np.concatenate([[0], below, [1]])) * rounds
    assert expected.min() > 50
    assert stats.chisquare(observed, expected).pvalue > FAILURE


def test_rounds_do_not_depend_on_how_many_are_asked_for():
    whole = PoissonRounds(50, 0.3, generator(2)).take(2000)
    piecemeal = PoissonRounds(50, 0.3, generator(2))
    parts = [piecemeal.take(k) for k in [1, 3, 996, 0, 1000]]
    np.testing.assert_array_equal(whole[0], np.concatenate([counts for counts, _ in parts]))
    np.testing.assert_array_equal(whole[1], np.concatenate([items for _, items in parts]))


@pytest.mark.parametrize(("size", "batch"), [(40, 4), (7, 5), (3, 3), (300, 1)])
def test_fixed_rounds_are_uniform_subsets_of_exactly_that_size(size, batch):
    """Sizes and distinctness are certain; inclusion of each item B / N, of each pair in one round
    B (B - 1) / (N (N - 1)), of each item in two rounds running (B / N)².

    Fails a right sampler with probability at most 3e-6 per case (three families at 1e-6).
    """
    rounds = 30_000
    counts, items = FixedRounds(size, batch, generator(1, "fixed")).take(rounds)
    assert (counts == batch).all()
    taken = np.zeros((rounds, size), np.int64)
    taken[np.repeat(np.arange(rounds), counts), items] = 1
    assert (taken.sum(1) == batch).all()  # nobody twice in a round
    if batch == size:
        return
    assert_binomial(taken.sum(0), rounds, batch / size)
    pairs = (taken.T.astype(float) @ taken.astype(float))[np.triu_indices(size, 1)]
    assert_binomial(pairs, rounds, batch * (batch - 1) / (size * (size - 1)))
    assert_binomial((taken[0::2] & taken[1::2]).sum(0), rounds // 2, (batch / size) ** 2)


def test_fixed_rounds_do_not_depend_on_how_many_are_asked_for():
    whole = FixedRounds(50, 7, generator(2)).take(200)
    piecemeal = FixedRounds(50, 7, generator(2))
    parts = [piecemeal.take(k) for k in [1, 3, 96, 0, 100]]
    np.testing.assert_array_equal(whole[1], np.concatenate([items for _, items in parts]))


def test_impossible_sampling_is_refused():
    for size, batch in ((0, 1), (5, 0), (5, 6)):
        with pytest.raises(GraphDPError, match="a sample of"):
            FixedRounds(size, batch, generator(1))
    for size, rate in ((0, 0.5), (5, 0.0), (5, 1.1), (5, float("nan"))):
        with pytest.raises(GraphDPError):
            PoissonRounds(size, rate, generator(1))


# The training loop


NODES = 200
NETWORK = MLP(in_features=6, hidden=8, layers=2, classes=3, batch_norm=False)


def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(NODES, 6)).astype(np.float32), rng.integers(0, 3, NODES)


def member(name, noise=1.0, nodes=150):
    return Member((name,), 0.01, noise, np.arange(nodes), np.arange(150, 170), np.arange(170, 200))


def spied(monkeypatch):
    """A list that gets what each optimiser step is given."""
    given = []
    step = Adam.step

    def spy(self, gradients):
        given.append(gradients.clone())
        step(self, gradients)

    monkeypatch.setattr(Adam, "step", spy)
    return given


@pytest.mark.parametrize("sampling", ["poisson", "fixed"])
@pytest.mark.parametrize(("steps", "epochs"), [(1, 1), (23, 5), (3, 7), (16, 2)])
def test_exactly_the_stated_rounds_are_executed(steps, epochs, sampling, monkeypatch):
    """Sampled, stepped and reported rounds are all `steps`, whatever the number of epochs."""
    given = spied(monkeypatch)
    training = DPAdam(epochs, 20, 20 / 150, steps, 1.0, sampling=sampling)
    fitted = train(NETWORK, *data(), [member("a"), member("b")], training)
    assert len(given) == steps
    assert [one.rounds for one in fitted] == [steps, steps]
    assert all(one.history.shape == (epochs,) for one in fitted)


def test_epochs_end_after_their_share_of_the_rounds(monkeypatch):
    """Epoch i ends after round floor(i · steps / epochs)."""
    given, ends = spied(monkeypatch), []
    end_epoch = chunk.Chunk._end_epoch
    monkeypatch.setattr(
        chunk.Chunk, "_end_epoch", lambda *a: (ends.append(len(given)), end_epoch(*a))
    )
    train(NETWORK, *data(), [member("a")], DPAdam(4, 20, 0.1, 11, 1.0))
    assert ends == [2, 5, 8, 11]


@pytest.mark.parametrize("batch_size", [1, 40])
def test_batches_hold_exactly_the_sampled_nodes(batch_size):
    """Also where a batch is many times wider than a pass (batch size 1: passes of 16)."""
    x, labels = data()
    members = [member("a"), member("b", nodes=90)]
    like = torch.empty(0)
    training = DPAdam(1, batch_size, 0.3, 20, 1.0)
    source = SharedDense(x, like)
    batches = chunk.Batches(training, source, np.stack([labels] * 2), members, like)
    expected = [PoissonRounds(m.train.size, 0.3, drawn(m)) for m in members]
    most = 0
    for _ in range(20):
        passes = batches.next()
        most = max(most, len(passes))
        for s, rounds in enumerate(expected):
            rows, targets, present = (
                torch.cat([part[i][s] for part in passes]).numpy() for i in range(3)
            )
            nodes = rounds.take(1)[1]
            np.testing.assert_array_equal(rows[present == 1], nodes)
            np.testing.assert_array_equal(targets[present == 1], labels[nodes])
    assert batches.rounds == 20
    assert most == 1 if batch_size == 40 else most > 2


def test_the_width_of_a_pass_changes_nothing(monkeypatch):
    results = []
    for width in (16, 256):
        monkeypatch.setattr(chunk, "width_of", lambda training, width=width: width)
        training = DPAdam(3, 60, 0.4, 30, 1.0)
        results.append(train(NETWORK, *data(), [member("a"), member("b")], training)[1])
    for name, value in results[0].parameters.items():
        np.testing.assert_allclose(value, results[1].parameters[name], atol=1e-4)


@pytest.mark.parametrize("batch_size", [1, 48, 150])
def test_fixed_batches_hold_exactly_the_sampled_nodes_in_one_pass(batch_size):
    x, labels = data()
    members = [member("a"), member("b")]
    training = DPAdam(1, batch_size, batch_size / 150, 20, 1.0, sampling="fixed")
    source = SharedDense(x, torch.empty(0))
    batches = chunk.Batches(training, source, np.stack([labels] * 2), members, torch.empty(0))
    expected = [FixedRounds(150, batch_size, drawn(m)) for m in members]
    for _ in range(20):
        ((rows, targets, present),) = batches.next()
        for s, rounds in enumerate(expected):
            nodes = rounds.take(1)[1]
            here = present[s].numpy() == 1
            np.testing.assert_array_equal(rows[s].numpy()[here], nodes)
            np.testing.assert_array_equal(targets[s].numpy()[here], labels[nodes])


def test_a_fixed_batch_must_be_the_share_that_is_accounted():
    training = DPAdam(1, 20, 0.2, 3, 1.0, sampling="fixed")
    with pytest.raises(GraphDPError, match=r"20 of 150 nodes .* not the share 0.2"):
        train(NETWORK, *data(), [member("a")], training)
    with pytest.raises(GraphDPError, match="choose poisson or fixed"):
        train(NETWORK, *data(), [member("a")], DPAdam(1, 30, 0.2, 3, 1.0, sampling="shuffle"))


def test_a_round_of_fixed_size_is_the_clipped_sum_of_its_nodes_and_noise_for_a_replaced_one():
    """Given the parameters of a round, what it releases less the clipped gradients of its nodes,
    by autograd one node at a time, is N(0, (noise multiplier · 2C)²) in every coordinate.

    Chi-square tests of the variance and Kolmogorov-Smirnov tests, per member: a right
    implementation fails with probability at most 1e-6.
    """
    (x, labels), clip, steps, batch_size = data(), 0.4, 40, 12
    multipliers = [0.5, 3.0]
    members = [member(f"m{i}", noise) for i, noise in enumerate(multipliers)]
    training = DPAdam(4, batch_size, batch_size / 150, steps, clip, sampling="fixed")
    seen = []
    train(
        NETWORK, x, labels, members, training,
        observe=lambda at, stack, sums: seen.append(
            ([one.arrays() for one in stack.members], [one.arrays() for one in sums.members])
        ),
        dtype=torch.float64,
    )  # fmt: skip
    assert len(seen) == steps
    rounds = [FixedRounds(150, batch_size, drawn(m)) for m in members]
    noise = [[], []]
    for parameters, released in seen:
        for s, sampled in enumerate(rounds):
            named = {n: torch.from_numpy(v).requires_grad_() for n, v in parameters[s].items()}
            total = {name: torch.zeros_like(value) for name, value in named.items()}
            for node in sampled.take(1)[1]:
                logits = plain_mlp(named, torch.from_numpy(x[node]).double())
                loss = torch.nn.functional.cross_entropy(logits, torch.tensor(labels[node]))
                grads = torch.autograd.grad(loss, list(named.values()))
                norm = torch.sqrt(sum(g.square().sum() for g in grads))
                for name, g in zip(named, grads, strict=True):
                    total[name] += g * min(1.0, clip / float(norm))
            noise[s] += [(released[s][n] - total[n].numpy()).ravel() for n in total]
    for multiplier, values in zip(multipliers, map(np.concatenate, noise), strict=True):
        scaled = values / (multiplier * 2 * clip)
        low, high = stats.chi2.ppf([FAILURE / 8, 1 - FAILURE / 8], scaled.size)
        # The clipping factor is rounded down by about 1e-6, far below what this test resolves.
        assert low <= (scaled**2).sum() <= high
        assert stats.kstest(scaled, "norm").pvalue > FAILURE / 4


def plain_mlp(parameters, x):
    """The two layers of `NETWORK` on one node."""
    (w0, b0, w1, b1) = parameters.values()
    return torch.nn.functional.selu(x @ w0.T + b0) @ w1.T + b1


# Noise


def noise_only_gradients(monkeypatch, multipliers, clip=2.5, batch_size=20, steps=400):
    """What Adam is given when (almost surely, failing with probability 6e-5) no node is sampled,
    in units of noise_multiplier · clip / batch_size: (steps, members, parameters)."""
    given = spied(monkeypatch)
    members = [member(f"m{i}", noise) for i, noise in enumerate(multipliers)]
    train(NETWORK, *data(), members, DPAdam(2, batch_size, 1e-9, steps, clip))
    unit = torch.tensor(multipliers)[:, None] * clip / batch_size
    return (torch.stack(given).cpu() / unit).double().numpy()


def test_noise_has_the_stated_standard_deviation(monkeypatch):
    """The update's noise is N(0, (noise multiplier · C / B)²), for every member and layer.

    Chi-square test of the variance per member and layer, Kolmogorov-Smirnov test per member:
    a right implementation fails with probability at most 1e-6.
    """
    multipliers = [0.3, 1.0, 7.0]
    draws = noise_only_gradients(monkeypatch, multipliers)
    ends = np.cumsum([6 * 8, 8, 8 * 3, 3])
    assert draws.shape[2] >= ends[-1]
    tests = 3 * 5
    for s in range(3):
        for layer in np.split(draws[:, s], ends, axis=1)[:4]:
            low, high = stats.chi2.ppf([FAILURE / tests / 2, 1 - FAILURE / tests / 2], layer.size)
            assert low <= (layer**2).sum() <= high
        values = draws[:, s, : ends[-1]].ravel()
        # Noise lies on a grid; spread evenly over its cells it is normal up to 1e-4.
        cell = grid_of(multipliers[s] * 2.5) / (multipliers[s] * 2.5)
        values += np.random.default_rng(s).uniform(-cell / 2, cell / 2, values.size)
        assert stats.kstest(values, "norm").pvalue > FAILURE / tests


def test_noise_streams_differ_between_members_layers_and_steps(monkeypatch):
    """No two members, parameters or steps share noise: all correlations are those of chance.

    A right implementation fails with probability at most 3e-6 (normal tails, three families).
    """
    draws = noise_only_gradients(monkeypatch, [1.0, 1.0, 1.0, 1.0])[:, :, : 6 * 8 + 8 + 8 * 3 + 3]
    for axis in range(3):
        rows = np.moveaxis(draws, axis, 0).reshape(draws.shape[axis], -1)
        correlation = np.corrcoef(rows)[np.triu_indices(len(rows), 1)]
        bound = stats.norm.isf(FAILURE / 2 / correlation.size) / np.sqrt(rows.shape[1])
        assert np.abs(correlation).max() < bound


def test_an_empty_batch_still_adds_noise_and_steps(monkeypatch):
    draws = noise_only_gradients(monkeypatch, [1.0], steps=5)
    assert draws.shape[0] == 5 and (np.abs(draws).max(axis=(1, 2)) > 0).all()


def test_members_that_differ_in_the_scale_of_their_noise_alone_do_not_share_it(monkeypatch):
    """The difference of two such models, rescaled, would have none. A right implementation fails
    with a probability below 6e-7 (a normal tail)."""
    given = spied(monkeypatch)
    members = [member("m", noise) for noise in (1.0, 2.0)]
    train(NETWORK, *data(), members, DPAdam(2, 20, 1e-9, 50, 2.5))
    draws = torch.stack(given).cpu().double().numpy()[:, :, : 6 * 8 + 8 + 8 * 3 + 3]
    one, other = draws[:, 0].ravel(), draws[:, 1].ravel()
    assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(one.size)
