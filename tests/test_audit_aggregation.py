"""Attacks on aggregation: independent runs of the real code, scores distributed as expected."""

import math

import numpy as np
import pytest
from scipy import stats

from graphdp.audit import graph_pairs as audit
from graphdp.audit.claims import get
from graphdp.audit.front_door import AuditBlock
from graphdp.audit.graph_pairs import Mechanism
from graphdp.data.graph import in_edges
from graphdp.graphs import degree
from graphdp.methods.gap.audit import _mechanism
from graphdp.privacy.calibration import calibrate
from graphdp.releases import aggregation
from graphdp.rng import stream_seed

ALPHA = 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("hops", [1, 2])
def test_copies_side_by_side_are_independent_runs(hops):
    """Scores of copies in one call against one call per run: one distribution (KS, 1e-6)."""
    construction = audit.common_neighbours(12, 3)
    mechanism = Mechanism(hops, 2.0, 3)
    expected = {w: audit.kept_edges(construction, mechanism, w) for w in audit.WORLDS}
    for world in audit.WORLDS:
        together = audit.draw_scores(construction, mechanism, world, 4000, 1)
        alone = np.concatenate(
            [
                audit.score(
                    construction,
                    mechanism,
                    expected,
                    audit.released(construction, mechanism, world, 1, "alone", world, run),
                )
                for run in range(400)
            ]
        )
        assert stats.ks_2samp(together, alone).pvalue > ALPHA
        # Neighbouring copies share nothing.
        correlation = np.corrcoef(together[:-1], together[1:])[0, 1]
        assert abs(correlation) * math.sqrt(len(together)) < stats.norm.isf(ALPHA / 2)


def test_a_copy_is_released_by_the_code_that_the_workflow_runs():
    """Degree bound, sums, noise and normalisation, step by step, give the same bytes."""
    construction, mechanism = audit.common_neighbours(6, 3), Mechanism(2, 1.5, 3)
    hops = audit.released(construction, mechanism, "present", 1, "one")
    indptr, indices, x0 = audit.copies_of(construction, "present", 1)
    keep = degree.bound_out_degree(indptr, indices, 3, stream_seed("one", "degree"))
    edges = in_edges(*degree.apply_mask(indptr, indices, keep))
    release = aggregation.Release(x0, 2, 1.5, True, ("one", "noise"))
    assert np.array_equal(hops[:, 0], aggregation.private_hops(edges, [release])[0])


@pytest.mark.parametrize("name", ["gap-edge-directed-k2-eps4", "gap-node-candidates-k2-eps4"])
def test_a_claim_runs_the_stage_of_its_method(name, monkeypatch):
    """With and without a degree bound: the bytes of the aggregation at the plan's noise."""
    claim = get(name)
    calibration = calibrate(claim.reference, claim.target_epsilon, claim.delta)
    mechanism = _mechanism(calibration)
    hops = next(m for m in calibration.plan.mechanisms if m.phase == "aggregation")
    assert mechanism.noise_std == calibration.noise_multiplier * hops.sensitivity.value
    alone = Mechanism(hops.count, mechanism.noise_std, mechanism.max_degree)
    construction = audit.common_neighbours(6, 4)
    # The stage names its noise by setting and graph too.
    monkeypatch.setattr(AuditBlock, "noise_stream", lambda self, seed, *purpose: self.names(seed))
    found, expected = (
        audit.released(construction, one, "present", 3, "stage") for one in (mechanism, alone)
    )
    assert found.shape == (2, 3, construction.num_nodes, 2)
    assert np.array_equal(found, expected)


@pytest.mark.alike
@pytest.mark.slow
@pytest.mark.parametrize(
    ("hops", "undirected", "mu"),
    [(1, False, 1), (1, True, math.sqrt(2)), (2, False, math.sqrt(2)), (2, True, 2)],
)
def test_edge_scores_are_gaussian_with_the_sensitivity_of_the_theory(hops, undirected, mu):
    """With noise of std σ the worlds are √(rows · hops) / σ standard deviations apart."""
    sigma, draws = 2.0, 20_000
    construction = audit.edge_pair(math.ceil(10 * sigma * math.sqrt(hops)), hops, undirected)
    mechanism = Mechanism(hops, sigma)
    present, absent = (
        audit.draw_scores(construction, mechanism, world, draws, 2)
        for world in ("present", "absent")
    )
    apart = (present.mean() - absent.mean()) / absent.std()
    # Standard error of the distance is below √(2 / draws) (1 + apart); normalisation costs 2 %.
    error = stats.norm.isf(ALPHA) * math.sqrt(2 / draws) * (1 + apart)
    assert 0.98 * mu / sigma - error < apart < mu / sigma + error


def test_expected_sums_are_those_of_the_degree_bound():
    """K_{m, D+1}: each of the D visible rows moves by m / (D + 1), and by nothing else."""
    construction, mechanism = audit.common_neighbours(20, 4), Mechanism(1, 1.0, 4)
    present = audit.kept_edges(construction, mechanism, "present")
    absent = audit.kept_edges(construction, mechanism, "absent")
    change = (present - absent).toarray()
    assert change[1:5].sum(1) == pytest.approx(np.full(4, -4.0), abs=1.0)
    assert np.abs(change[5:]).sum() == 0


def test_participant_constructions_only_drop_the_lists_of_node_0():
    constructions = audit.without_node("participant", 4, 5)
    assert len({c.name for c in constructions}) == len(constructions) >= 20
    for construction in constructions:
        assert construction.hidden == (0,)
        present, absent = (set(map(tuple, construction.edges(w))) for w in ("present", "absent"))
        assert absent == {edge for edge in present if edge[0] != 0} and present != absent
        assert all(source != target for source, target in present)
        assert construction.present.max() < construction.num_nodes
    for construction in audit.without_node("node_add_remove", 4, 5):
        absent = construction.edges("absent")
        assert (absent != 0).all() and len(absent) < len(construction.present)


def test_public_candidates_are_the_same_in_every_copy():
    """They are public: neither the run's seed nor the other copies decide them."""
    mechanism = Mechanism(1, 1.0, 2, "public_candidates")
    construction = audit.common_neighbours(5, 2)
    nodes = construction.num_nodes
    one = audit.copies_of(construction, "present", 1)[:2]
    many = audit.copies_of(construction, "present", 7)[:2]
    single = mechanism.keep(*one, nodes, 1)
    assert 0 < single.sum() < len(single)
    assert np.array_equal(mechanism.keep(*many, nodes, 2), np.tile(single, 7))
    # So the expectation that the score uses is the mask itself.
    kept = audit.kept_edges(construction, mechanism, "present")
    assert kept.sum() == single.sum() and set(kept.data) <= {0.0, 1.0}


def test_a_hidden_row_is_never_seen():
    """Whatever stands in the hidden row of the releases, the score is the same."""
    mechanism = Mechanism(2, 1.0, 3)
    construction = next(
        c for c in audit.without_node("node_add_remove", 3, 5) if c.name.endswith("clique-4-random")
    )
    expected = {w: audit.kept_edges(construction, mechanism, w) for w in audit.WORLDS}
    hops = audit.released(construction, mechanism, "present", 20, "test", 1)
    scores = audit.score(construction, mechanism, expected, hops)
    hops[:, :, construction.hidden] = 7.0
    np.testing.assert_array_equal(audit.score(construction, mechanism, expected, hops), scores)
    hops[0, :, 1] = -hops[0, :, 1]
    assert (audit.score(construction, mechanism, expected, hops) != scores).all()
