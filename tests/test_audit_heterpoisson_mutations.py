"""Deliberate bugs in HeterPoisson, and what sees each of them.

| bug | seen by |
| --- | --- |
| half of the noise | audits `heterpoisson-*-all-eps4`, `heterpoissonsml-revealed-scale-eps2` |
| SML noise in place of Gaussian noise | the norms of noisy sums; refused if it is declared |
| clip C in place of C / 2 | audits `heterpoisson-*-all-eps4`; refused if it is declared |
| rate M in place of M / (number of lists) | audit `heterpoisson-hidden-rates-eps4` |
| rate by the length of the centre's own list | audit `heterpoisson-hidden-rates-eps4` |
| a list with a double edge | the number of bags that hold a node |
| padding in the standardisation | what one node moves |
| realised batch as divisor | refused |
| overlap dropped under hidden coins | bags of other centres; refused if it is declared |
| overlap kept under known multiplicities | what one node moves; refused if it is declared |
| lists cut once the node takes part | lists with and without it |
| random neighbours for isolated nodes | bags against lists |
| training neighbours for predictions | lists of predictions |
| a step more than accounted | refused |

(What is declared otherwise than planned, `test_heterpoisson.py` has refused.)
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from ensemble_fixture import one_thread  # noqa: F401
from graphdp.audit.claims import get, run
from graphdp.audit.detectable import gaussian
from graphdp.audit.front_door import audit_block, graph_of
from graphdp.data import graph as graphs
from graphdp.data.graph import InEdges, csr_from_edges
from graphdp.data.split import Split
from graphdp.errors import GraphDPError
from graphdp.methods.block import Block
from graphdp.methods.heterpoisson import bags, method, network, padding_attack
from graphdp.methods.heterpoisson.audit import ALONE, STEPS, corrected_plan, everyone
from graphdp.methods.heterpoisson.bags import Bags, Draw, HeterPoisson, Lists, without_overlap
from graphdp.methods.heterpoisson.noise import sml
from graphdp.methods.heterpoisson.official import OfficialModel
from graphdp.methods.heterpoisson.official_rows import DenseStandardised
from graphdp.methods.heterpoisson.worst_attack import along_e, noise_std, noisy_sums
from graphdp.privacy.calibration import calibrate
from graphdp.training import descent

ALPHA = 1e-6
ALL = tuple(f"heterpoisson-{one}-all-eps4" for one in ("hidden", "known"))
RATES = "heterpoisson-hidden-rates-eps4"
#: Of the cheapest attack: some hundred runs, enough for each bug.
DRAWS = {RATES: 60_000} | dict.fromkeys(ALL, 5_000)


def outcome(name, draws=None):
    result = run(get(name), draws=draws or DRAWS[name])
    print(f"{name}: claimed {result['claimed_epsilon']:.3g}, bound {result['lower_bound']:.3g}")
    return result["verdict"]


@pytest.mark.alike
@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWS)
def test_the_code_as_it_is_stays_below(name):
    assert outcome(name) != "refuted"


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_half_of_the_noise(name):
    with gaussian(0.5):
        assert outcome(name) == "refuted"


@pytest.mark.slow
def test_half_of_sml_noise():
    name = "heterpoissonsml-revealed-scale-eps2"
    assert outcome(name, 200_000) != "refuted"
    with gaussian(0.5):
        assert outcome(name, 200_000) == "refuted"


def norms_are_gaussian():
    """Mean squares of a round's noise within the limits of Gaussian noise: 1e-6 over all rounds."""
    unit = replace(everyone("kept"), hidden=16)
    calibration = calibrate(corrected_plan(unit, "hidden_coins"), 4, 1e-3)
    (sums,) = noisy_sums(unit, calibration, "absent", 30, (0, "norms"))
    _, squares = along_e(sums, unit.hidden)
    size = sums.shape[1] - 2 * unit.hidden - 2
    limits = stats.chi2.interval(1 - ALPHA / len(sums), size)
    # Sub-graphs' real gradients are there as well, three of norm 1/2 each.
    found = size * squares / noise_std(unit, calibration) ** 2
    low, high = np.sqrt(limits[0]), np.sqrt(limits[1])
    moved = 1.5 / noise_std(unit, calibration)
    return bool((np.abs(np.sqrt(found) - (low + high) / 2) < (high - low) / 2 + moved).all())


def test_sml_noise_in_place_of_gaussian_noise(monkeypatch):
    assert norms_are_gaussian()
    source = Block.noise_source
    monkeypatch.setattr(Block, "noise_source", lambda self, names: sml(
        lambda names: source(self, names)
    )(names))  # fmt: skip
    assert not norms_are_gaussian()


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_the_whole_clip(monkeypatch, name):
    add = network.Model.add_clipped

    def doubled(self, bags, labels, gradients, clip):
        add(self, bags, labels, gradients, 2 * clip)

    monkeypatch.setattr(network.Model, "add_clipped", doubled)
    assert outcome(name) == "refuted"


@pytest.mark.slow
def test_every_list_draws_a_node_m_times(monkeypatch):
    real = Lists.of.__func__

    def of(cls, *arguments):
        found = real(cls, *arguments)
        return replace(found, rate=np.full_like(found.rate, min(1, found.num_neighbors)))

    monkeypatch.setattr(Lists, "of", classmethod(of))
    assert outcome(RATES) == "refuted"


@pytest.mark.slow
def test_the_rate_by_the_length_of_the_centres_own_list(monkeypatch):
    """On an undirected graph the two may agree; here node 0 is all that four nodes list."""

    def sampled(self, centres, coins):
        whole = self.all_of(centres)
        rate = self.num_neighbors / np.maximum(whole.sizes, 1)
        return whole.kept(coins.random(len(whole.peripherals)) < rate[whole.owners])

    monkeypatch.setattr(Lists, "sampled", sampled)
    assert outcome(RATES) == "refuted"


NODES = 40


def graph(participates=True, nodes=NODES):
    """Node 0 is on the lists of 1 to 10, first; 2 and 3 list each other's neighbours; from 30 on
    nodes list nobody."""
    rng = np.random.default_rng(0)
    targets = rng.integers(1, 30, 200)
    pairs = [(s, t) for s, t in zip(rng.integers(1, nodes, 200), targets, strict=True) if s != t]
    if participates:
        pairs += [(0, t) for t in range(1, 11)]
    x = np.random.default_rng(1).normal(size=(nodes, 6)).astype(np.float32)
    return graph_of(*csr_from_edges(*np.array(pairs).T, nodes, symmetrise=False), x)


def lists_of(of, train=None, **setting):
    """Training's and predictions' lists, as the stage makes them."""
    train = np.arange(35) if train is None else train
    rest = np.setdiff1d(np.arange(of.num_nodes), train)
    entry = {"plan": {"method": "heterpoisson", "level": "node"}}
    block = audit_block(entry, of, [0], lambda run: ("lists", run), Split(train, rest, rest))
    setting = {"num_neighbors": 2, "test_neighbors": 5, "setting": "transductive"} | setting
    return method.lists_of(block, 0, setting)


def drawn(lists, centres, overlap="kept", seed=0) -> Bags:
    """A round's bags, by the method's own draw."""
    draw: Draw = HeterPoisson(lists, overlap, np.random.default_rng(seed))
    return draw(np.asarray(centres))


def node_0_is_in_no_more_bags_than_accounted():
    """Bags of 400 rounds that hold it, against Bin(400 D, M / D) with D different lists: at most
    too many with a chance of 1e-6."""
    lists, _ = lists_of(graph())
    rounds, centres, distinct = 400, np.arange(1, 30), 10
    held = 0
    for seed in range(rounds):
        bag = drawn(lists, centres, seed=seed)
        held += len(np.unique(bag.owners[bag.peripherals == 0]))
    return stats.binom.sf(held - 1, rounds * distinct, 2 / distinct) > ALPHA


def test_a_list_with_a_double_edge(monkeypatch):
    """Two coins of the rate of distinct lists. Graphs with a double edge are refused beforehand."""
    assert node_0_is_in_no_more_bags_than_accounted()
    real = Lists.of.__func__

    def doubled(cls, lists, *arguments):
        sound = real(cls, lists, *arguments)
        twice = InEdges(2 * lists.indptr, np.repeat(lists.indices, 2))
        return replace(sound, lists=twice)

    monkeypatch.setattr(Lists, "of", classmethod(doubled))
    assert not node_0_is_in_no_more_bags_than_accounted()
    with pytest.raises(GraphDPError, match="strictly increasing"):
        graph_of(np.array([0, 2, 2]), np.array([1, 1], np.int32)).validate()


def moved_by_node_0(overlap="kept", centres=None):
    """How far the sum of clipped gradients moves with node 0, and how far it may, in units of C."""
    world = {name: padding_attack.world_graph(name) for name in ("present", "absent")}
    size = world["present"].num_nodes
    train = np.arange(padding_attack.NODES)
    shape = network.Convolution(3, 8, 2, "sage")
    values = torch.tensor(shape.initial(np.random.default_rng(2))).float()
    labels, sums, bound = torch.zeros(size, dtype=torch.long), [], 0.0
    for name, one in world.items():
        lists, _ = lists_of(one, train, num_neighbors=1)
        chosen = train[1:] if centres is None else centres
        if name == "absent":
            chosen = np.setdiff1d(chosen, [0])
        bag = drawn(lists, chosen, overlap)
        model = network.Model(shape, network.features_of(one.x, torch.empty(0)), values)
        total = torch.zeros_like(values)
        model.add_clipped(bag, labels, total, 0.5)
        sums.append(total.double())
        if name == "present":
            own = 0.5 * float(0 in bag.centres)
            held = float((bag.peripherals == 0).sum())
            # Where centres are dropped it is the one or the other.
            bound = own + held if overlap == "kept" else own or held
    return float((sums[0] - sums[1]).norm()), bound


def test_padding_in_the_standardisation(monkeypatch):
    moved, bound = moved_by_node_0()
    assert 0.01 < moved <= bound + 1e-4 and bound == 1

    def padded(shape, features, values):
        return OfficialModel(shape, DenseStandardised(features.x.numpy(), features.x), values)

    monkeypatch.setattr(network, "Model", padded)
    moved, bound = moved_by_node_0()
    assert moved > 1.5 * bound


def test_overlap_kept_under_known_multiplicities(monkeypatch):
    """Node 0 is a centre and on a list: half of C by the analysis, but more where it stays."""
    both = np.array([0, 1])
    moved, bound = moved_by_node_0("dropped", both)
    assert moved <= bound + 1e-4 and bound == 0.5
    monkeypatch.setattr(bags, "without_overlap", lambda found, overlap, nodes: found)
    moved, bound = moved_by_node_0("dropped", both)
    assert moved > bound + 0.01


def a_centre_is_in_other_bags_as_before():
    """Whether node 5 is a centre decides nothing of others' bags (what hidden coins ask for)."""
    lists, _ = lists_of(graph())
    lists = replace(lists, rate=np.ones(NODES))  # no coins but those of centres
    others = np.array([1, 2, 3, 4, 6, 7, 8])
    with_5 = drawn(lists, np.append(others, 5))
    without = drawn(lists, others)
    return np.array_equal(with_5.part(0, len(others)).peripherals, without.peripherals)


def test_overlap_dropped_under_hidden_coins(monkeypatch):
    assert a_centre_is_in_other_bags_as_before()
    real = without_overlap
    monkeypatch.setattr(
        bags, "without_overlap", lambda found, overlap, nodes: real(found, "dropped", nodes)
    )
    assert not a_centre_is_in_other_bags_as_before()


def lists_stay_but_for_node_0():
    """Every list without node 0 is that of the graph in which it takes no part."""
    present, absent = (lists_of(graph(takes_part))[0].lists for takes_part in (True, False))
    for node in range(1, NODES):
        one, other = (
            side.indices[side.indptr[node] : side.indptr[node + 1]] for side in (present, absent)
        )
        if not np.array_equal(one[one != 0], other):
            return False
    return True


def test_lists_cut_once_the_node_takes_part(monkeypatch):
    assert lists_stay_but_for_node_0()
    real = graphs.in_edges
    monkeypatch.setattr(graphs, "in_edges", lambda *edges: bags._cut(real(*edges), 5))
    assert not lists_stay_but_for_node_0()


def bags_hold_listed_nodes_alone():
    lists, _ = lists_of(graph())
    centres = np.arange(NODES)
    for seed in range(20):
        bag, whole = drawn(lists, centres, seed=seed), lists.all_of(centres)
        pairs = set(zip(whole.owners, whole.peripherals, strict=True))
        if not set(zip(bag.owners, bag.peripherals, strict=True)) <= pairs:
            return False
    return True


def test_random_neighbours_for_isolated_nodes(monkeypatch):
    assert bags_hold_listed_nodes_alone()
    monkeypatch.setattr(
        HeterPoisson,
        "__call__",
        lambda self, c: bags.Official(self.lists, np.arange(NODES), self.coins)(c),
    )
    assert not bags_hold_listed_nodes_alone()


def predictions_read_no_training_node():
    train = np.arange(20)
    _, lists = lists_of(graph(), train)
    read = lists.all_of(np.arange(20, NODES)).peripherals
    assert len(read)
    return not np.isin(read, train).any()


def test_training_neighbours_for_predictions(monkeypatch):
    assert predictions_read_no_training_node()
    monkeypatch.setattr(
        bags, "between", lambda indptr, indices, sides: graphs.in_edges(indptr, indices)
    )
    assert not predictions_read_no_training_node()


def one_run(unit=ALONE):
    plan = get("heterpoissonsml-norm-eps2").plan
    return list(noisy_sums(unit, calibrate(plan, 2, 1e-3), "present", 2, (0, "refused")))


def test_the_realised_batch_as_divisor_is_refused(monkeypatch):
    real = descent.descend

    def realised(*arguments, mean, **others):
        return real(*arguments, mean=lambda sums, size: sums.div_(max(size, 1)), **others)

    monkeypatch.setattr(descent, "descend", realised)
    with pytest.raises(GraphDPError, match="batch divisor 2 but it was None"):
        one_run()


def test_one_step_more_than_accounted_is_refused(monkeypatch):
    assert len(one_run()[0]) == 2
    real, rounds = descent.batches, method._rounds

    def more(*arguments):
        for epoch in real(*arguments):
            yield [*epoch, epoch[-1]]

    monkeypatch.setattr(descent, "batches", more)
    with pytest.raises(AssertionError, match="rounds executed must be accounted"):
        one_run()
    monkeypatch.setattr(descent, "batches", real)
    monkeypatch.setattr(
        method, "_rounds", lambda *a: replace(rounds(*a), steps=rounds(*a).steps + 1)
    )
    with pytest.raises(GraphDPError, match=r"accounts noisy rounds .* 2 but it was 3;"):
        one_run()


def test_the_authors_code_runs_more_rounds_than_it_accounts():
    (training,) = get("heterpoissonofficial-steps-eps2").plan.mechanisms
    assert (training.steps, training.rounds) == (1, 2) and training.sampling_rate == 0.95
    assert STEPS.batch_size * training.rounds > STEPS.nodes
