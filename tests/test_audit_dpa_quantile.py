"""Attacks on DPA-GNN where D is a quantile of the noisy lengths of lists, by training that is run.

Every run is a graph of its own, since all users of a graph share one D. The score is the log
likelihood ratio of all that the server and one colluding party see: the noisy numbers of users by
length of list, and the sums of all rounds at the D that follows from them. As planned the worlds
are as far apart as μ says, within four standard errors: wrong once in 15,000 seeds. A bound is
above ε with a chance of 5 % where the claim is tight (`lower_bound`); seeds are fixed.
"""

import itertools
import math
from functools import cache
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
from scipy import sparse

from ensemble_fixture import one_thread  # noqa: F401
from graphdp.audit.bound import lower_bound
from graphdp.audit.front_door import trained
from graphdp.graphs.degree import first_targets
from graphdp.methods.dpa import method, network, sums_attack, worlds
from graphdp.methods.dpa.audit import plan_of
from graphdp.methods.dpa.plan import FIRST, LABELS, LENGTHS
from graphdp.methods.dpa.worlds import WORLDS
from graphdp.parties import memory
from graphdp.parties.fixed_point import decode, encode
from graphdp.parties.ring import FRACTION_BITS, step_bits
from graphdp.parties.shares import noise_secret
from graphdp.privacy import calibrated
from graphdp.privacy.calibration import calibrate
from graphdp.privacy.mechanisms.distributed_gaussian import party_std
from graphdp.privacy.pair_sums import MOST_LENGTH
from graphdp.progress import brief
from graphdp.rng import stream_seed
from test_audit_dpa import ONE, PARTIES

EPSILON, DELTA, QUANTILE = 4.0, 1e-6, 0.8
ROUNDS = PARTIES | {"feature_layers": 3, "label_layers": 2}
#: Of the crowd of `crowd_pair`: how many users there are, and the lengths of their lists, which
#: then are the quantile whatever the noise.
CROWD, MEDIAN = 300, 4


@cache
def listed_pair(each=8):
    """Of 150 users with lists of 8, which are so their quantile, one sends to 63 others or to
    nobody."""
    n = 150
    lists = [(u, (u + s) % n) for u in range(1, n) for s in range(1, 1 + each)]
    own = [(0, other) for other in range(1, 1 + MOST_LENGTH)]
    x = worlds._rows(n)
    return worlds.Pair("quantile-listed", worlds._world(own + lists, x), worlds._world(lists, x))


@cache
def moved_pair():
    """User 0 sends to 63 others, or to 62 others than these."""
    users = 2 * MOST_LENGTH
    lists = [
        [(0, 1 + i) for i in range(MOST_LENGTH)],
        [(0, 1 + MOST_LENGTH + i) for i in range(MOST_LENGTH - 1)],
    ]
    x = worlds._rows(users)
    return worlds.Pair("quantile-moved", *(worlds._world(own, x) for own in lists))


@cache
def crowd_pair():
    """One of many users with lists of 4 lists eight others, and one more or not; cut at 4, that one
    takes the place of another: users are looked for with whom it does, since how lists are cut is
    public."""
    n, x = CROWD, worlds._rows(CROWD)
    stream = stream_seed(0, 0, "audit", "degree", MEDIAN)  # as `AuditBlock.degree_stream`
    for one, start in itertools.product(range(0, 20, 2), range(20, n - 10, 3)):
        lists = [(one, start + i) for i in range(8)]
        lists += [(u, (u + s) % n) for u in range(n) if u != one for s in range(1, 1 + MEDIAN)]
        pair = worlds.Pair(
            "quantile-crowd",
            worlds._world([(one, one + 1), *lists], x),
            worlds._world(lists, x),
        )
        counts = []
        for world in WORLDS:
            graph = pair.graph(world, 1)
            keep = first_targets(graph.indptr, graph.indices, MEDIAN, stream)
            counts.append(np.bincount(graph.indices[keep], minlength=n))
        if ((counts[0] - counts[1]) ** 2).sum() == 2:
            return pair
    raise AssertionError("no list is cut so")


def degree_of(sums):
    """D as everybody computes it from what is released of lengths."""
    reached = np.flatnonzero(np.cumsum(sums[0]) >= QUANTILE * len(sums))
    return max(1, int(reached[0]) if reached.size else MOST_LENGTH)


def lists_at(block, setting, degree):
    """The pairs of a world, (n, n) with a row per key, at a D."""
    senders, keys = method.kept_pairs(block, 0, setting | {"max_degree": degree})
    n = block.graph.num_nodes
    return sparse.csr_matrix((np.ones(len(keys)), (keys, senders)), shape=(n, n))


def ratio_of(blocks, setting, view, scaled):
    """The log likelihood ratio of one run. scaled: whether σ is the plan's times √D."""
    runs = {n: one.run for n, one in calibrated.phases(blocks["present"].entry({}, 0)).items()}
    total, streams, degree = 0.0, set(), None
    for (phase, sent, released), noise in zip(view.rounds, view.noise, strict=True):
        seen, std = released - decode(noise), runs[phase].noise_std
        if phase == LENGTHS:
            means = {world: np.zeros_like(seen) for world in WORLDS}
            for world, block in blocks.items():
                held = np.minimum(np.diff(block.graph.indptr), MOST_LENGTH)
                means[world][0] = np.bincount(held, minlength=MOST_LENGTH + 1)
            degree = degree_of(released)
        else:
            std *= math.sqrt(degree) if scaled else 1.0
            stream, rows = (
                ("labels" if phase == LABELS else "features"),
                dict.fromkeys(WORLDS, sent),
            )
            if stream not in streams:
                rows = {w: sums_attack.first_rows(b, setting, stream) for w, b in blocks.items()}
                streams.add(stream)
            own = party_std(std, setting["parties"], setting["colluding"])
            bits = step_bits(own * 2.0**FRACTION_BITS)
            means = {
                world: lists_at(block, setting, degree) @ decode(encode(rows[world], bits))
                for world, block in blocks.items()
            }
        squares = {world: ((seen - mean) ** 2).sum() for world, mean in means.items()}
        total += (squares["absent"] - squares["present"]) / (2 * std**2)
    return total


def untrained(*given):
    """In place of the network, which reads what is released alone."""
    executed = next(one for one in given if isinstance(one, dict) and FIRST in one)
    return SimpleNamespace(executed=executed)


def scores(pair, calibration, setting, world, draws):
    found, setting, scaled = [], sums_attack.NETWORK | setting, calibration.plan.level == "node"
    colluding = setting["colluding"]
    with brief(), patch.object(network, "train", untrained):
        for number in range(draws):
            view = sums_attack.View()
            blocks = sums_attack.blocks_of(pair, calibration, 1, (0, number), world, view)
            name = method.noise_of(blocks[world], 0, setting)
            secrets = [noise_secret(name, party) for party in range(colluding)]
            with sums_attack._drawn_by(secrets) as drawn:
                trained(method.fit, blocks[world], setting)
            view.noise = [
                sum(drawn[colluding * i : colluding * (i + 1)]) for i in range(len(view.rounds))
            ]
            found.append(ratio_of(blocks, setting, view, scaled))
    return np.array(found)


def attack(pair, level, adjacency, setting, draws):
    """A lower bound of ε, as Gaussian noise, at 95 %; and how many standard errors the worlds are
    farther apart than μ says."""
    setting = setting | {"degree_quantile": QUANTILE}
    if adjacency not in ("participant", "edge_undirected"):
        setting = setting | {"adjacency": adjacency}
    calibration = calibrate(plan_of(level, adjacency, setting), EPSILON, DELTA)
    present, absent = (scores(pair, calibration, setting, world, draws) for world in WORLDS)
    apart = (present.mean() - absent.mean()) / math.sqrt((present.var() + absent.var()) / 2)
    claimed = math.sqrt(
        sum(
            one.count * (one.sensitivity.value / one.noise_std(calibration.noise_multiplier)) ** 2
            for one in calibration.plan.mechanisms
        )
    )
    found = lower_bound(present, absent, DELTA, analysis="gdp").epsilon
    return found, (apart - claimed) / math.sqrt(2 / draws)


def half_the_noise(monkeypatch):
    draw = memory.party_noise
    monkeypatch.setattr(memory, "party_noise", lambda n, size, std: draw(n, size, std / 2))


@pytest.mark.slow
def test_a_participant_is_hidden_at_a_quantile_and_not_by_half_the_noise_or_none_of_its_root(
    monkeypatch,
):
    case = listed_pair(), "node", "participant", ROUNDS
    found, off = attack(*case, 400)
    assert found < EPSILON and abs(off) < 4
    with monkeypatch.context() as half:
        half_the_noise(half)
        assert attack(*case, 400)[0] > EPSILON
    made = method._Rounds.__init__
    # All but D, whose root the plan's σ is multiplied by.
    monkeypatch.setattr(method._Rounds, "__init__", lambda self, *a: made(self, *a[:6]))
    assert attack(*case, 400)[0] > EPSILON


@pytest.mark.slow
def test_a_replaced_list_is_hidden_at_a_quantile_and_not_by_half_the_noise(monkeypatch):
    case = moved_pair(), "node", "node_replace_own_list", ROUNDS | {"non_negative": True}
    found, off = attack(*case, 600)
    assert found < EPSILON and abs(off) < 4
    half_the_noise(monkeypatch)
    assert attack(*case, 400)[0] > EPSILON


@pytest.mark.slow
def test_a_directed_edge_is_hidden_at_a_quantile_and_not_by_half_the_noise(monkeypatch):
    case = crowd_pair(), "edge", "edge_directed", ONE
    found, off = attack(*case, 500)
    assert found < EPSILON and abs(off) < 4
    half_the_noise(monkeypatch)
    assert attack(*case, 250)[0] > EPSILON
