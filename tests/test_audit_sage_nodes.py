"""Audits of SAGE at node level: worlds that are adjacent as claimed, and deliberate bugs."""

from dataclasses import replace

import numpy as np
import pytest

from ensemble_fixture import one_thread  # noqa: F401
from graphdp.audit.claims import get, run
from graphdp.errors import GraphDPError
from graphdp.graphs import degree
from graphdp.methods.sage import method as sage
from graphdp.methods.sage import network, node_attack
from graphdp.privacy import calibrated

ADDED, PARTICIPANT = "sage-node-neighbours-eps1", "sage-node-participant-eps4"


def outcome(name, runs):
    claim = get(name)
    result = run(claim, draws=round(runs / claim.share))
    print(f"{name}: claimed {result['claimed_epsilon']:.3g}, bound {result['lower_bound']:.3g}")
    return result["verdict"]


def test_the_worlds_differ_in_node_0():
    for unit in (node_attack.neighbours(5), node_attack.participant()):
        present, absent = set(unit.present), set(unit.absent)
        assert absent == {pair for pair in present if 0 not in pair} != present
        assert 0 not in unit.train
        graphs = [unit.graph(world) for world in ("present", "absent")]
        assert np.array_equal(graphs[0].x, graphs[1].x)
    # A participant only sends: the lists of others stay as they are.
    assert all(target != 0 for _, target in node_attack.participant().present)


def test_node_0_takes_a_place_in_half_of_the_runs():
    """Chance of failure 1e-6."""
    unit = node_attack.participant()
    graph, runs = unit.graph("present"), 1000
    kept = np.array([degree.bound_degrees(graph.indptr, graph.indices, 1, s) for s in range(runs)])
    assert (kept.sum(1) == 1).all() and abs(kept[:, 0].mean() - 0.5) < 4.9 * 0.5 / runs**0.5


@pytest.mark.slow
def test_a_node_that_many_list_exceeds_the_published_claim():
    assert outcome(ADDED, 100) == "refuted"


@pytest.mark.alike
@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"noise_std": 9.0}, "noise std"),
        ({"steps": 1}, "noisy rounds or releases 2 but it was 1"),
        ({"batch_size": 1}, "sampling rate 1.0 but it was 0.5"),
    ],
)
def test_a_stage_that_trains_otherwise_than_its_plan_is_refused(monkeypatch, change, told):
    """Broken in the wiring of the stage: what it makes of the plan's rounds."""
    real = network.FixedSizeDP
    monkeypatch.setattr(network, "FixedSizeDP", lambda **given: replace(real(**given), **change))
    with pytest.raises(GraphDPError, match=f"classifier: the plan accounts .*{told}"):
        outcome(PARTICIPANT, 100)


@pytest.mark.slow
def test_a_stage_that_forgets_the_noise_of_its_sums_is_refused(monkeypatch):
    real = calibrated.phases

    def quiet(entry):
        found = real(entry)
        run = found["aggregation"].run
        return found | {
            "aggregation": replace(
                found["aggregation"], run=replace(run, noise_std=run.noise_std / 2)
            )
        }

    phase = sage.Block.phase
    monkeypatch.setattr(
        sage.Block,
        "phase",
        lambda self, plan, seed, name: (
            quiet(self.entry(plan, seed))[name]
            if name == "aggregation"
            else phase(self, plan, seed, name)
        ),
    )
    with pytest.raises(GraphDPError, match="aggregation: the plan accounts noise std"):
        outcome(PARTICIPANT, 100)
