"""Audits of whole plans: all phases of a participant's run, and deliberate bugs."""

import numpy as np
import pytest

from ensemble_fixture import one_thread  # noqa: F401
from graphdp.audit.claims import get, run
from graphdp.errors import GraphDPError
from graphdp.methods import train_runs
from graphdp.methods.gap import whole_attack as gap
from graphdp.methods.progap import whole_attack as progap
from graphdp.noise import GridNoise
from graphdp.releases import aggregation

GAP, PROGAP = "gap-node-whole-plan-eps4", "progap-node-whole-plan-eps4"


def outcome(name, runs):
    claim = get(name)
    result = run(claim, draws=round(runs / claim.share))
    print(f"{name}: claimed {result['claimed_epsilon']:.3g}, bound {result['lower_bound']:.3g}")
    return result


@pytest.mark.parametrize("name", [GAP, PROGAP])
def test_the_claim_is_that_of_the_whole_plan(name):
    plan = get(name).plan
    phases = [m.phase for m in plan.mechanisms]
    assert phases in (
        ["encoder", "aggregation", "classifier"],
        ["stage0", "aggregation", "stage1"],
    )
    assert (plan.adjacency, plan.status) == ("participant", "conditional")


def test_the_worlds_differ_in_what_node_0_sends():
    for present, absent in (
        [gap.graph_of_world(world, 6, 4, 9) for world in ("present", "absent")],
        [progap.graph_of_world(world, 6, 4) for world in ("present", "absent")],
    ):
        assert np.array_equal(present.x, absent.x) and np.array_equal(present.y, absent.y)
        assert present.indices[: present.indptr[1]].tolist() == [6, 7, 8, 9]
        assert absent.indptr[1] == 0
        assert np.array_equal(present.indices[present.indptr[1] :], absent.indices)
        assert np.diff(present.indptr).max() == 4


@pytest.mark.slow
def test_half_of_the_noise(monkeypatch):
    """GAP's attack does not see it: rows that it cannot know blur its classifier's phase."""
    add = GridNoise.add
    monkeypatch.setattr(GridNoise, "add", lambda self, sums, std: add(self, sums, std / 2))
    assert outcome(PROGAP, 300)["verdict"] == "refuted"


@pytest.mark.slow
@pytest.mark.parametrize("name", [GAP, PROGAP])
def test_a_phase_with_other_noise_than_the_plan_s_is_refused(monkeypatch, name):
    """Broken in the wiring: of training, then of the sums."""
    with monkeypatch.context() as broken:
        member = train_runs.Member
        broken.setattr(
            train_runs,
            "Member",
            lambda *, noise_multiplier, **others: member(
                noise_multiplier=noise_multiplier / 2, **others
            ),
        )
        with pytest.raises(GraphDPError, match=r"(encoder|stage0): the plan accounts noise std"):
            outcome(name, 100)
    release = aggregation.Release
    monkeypatch.setattr(
        aggregation,
        "Release",
        lambda *, noise_std, **others: release(noise_std=noise_std / 2, **others),
    )
    with pytest.raises(GraphDPError, match="aggregation: the plan accounts noise std"):
        outcome(name, 100)
