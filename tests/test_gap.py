"""GAP's stages: which edges and which noise a setting's aggregates are made of."""

import math

import numpy as np
import pytest

from graphdp import degree
from graphdp.data.csbm import csbm
from graphdp.methods import gap
from graphdp.methods.block import Block
from graphdp.privacy.cells import calibrate_cell


class Recorder:
    """A cache that notes what it is asked to release."""

    def __init__(self):
        self.asked = []

    def release(self, graph, keep, releases):
        self.asked += [(keep, release) for release in releases]
        return [str(len(self.asked) - len(releases) + i) for i in range(len(releases))]


@pytest.mark.parametrize("max_degree", [3, 9])
def test_each_degree_bound_is_aggregated_over_its_own_edges(max_degree):
    graph = csbm(200, 6, 12, 3.25, 0.5, 0)
    points = [{}, {"degree_bound": "public_candidates"}]
    settings = [
        gap.Node(hops=1, max_degree=max_degree, encoder_layers=0, epochs=1, **point).model_dump(
            exclude_none=True
        )
        for point in points
    ]
    plans = [gap.plan_settings("node", setting) for setting in settings]
    block = Block(graph, "small", "gap", "node", "4", [0, 1], 7, "shared")
    train = block.split(0).train.size
    entries = calibrate_cell("small", "gap", "node", "4", plans, [train], graph.num_edges, "auto")
    block = Block(graph, "small", "gap", "node", "4", [0, 1], 7, "shared", calibrations=entries)
    edges = graph.indptr, graph.indices, max_degree
    masks = {
        f"{max_degree}": {seed: degree.bound_out_degree(*edges, seed) for seed in (0, 1)},
        f"{max_degree}-public_candidates": {
            seed: degree.public_candidates(*edges, seed, graph.node_ids, graph.raw_num_nodes)
            for seed in (0, 1)
        },
    }
    cache = Recorder()
    released = [gap.release_settings("node", setting) for setting in settings]
    records = gap.aggregate(block, released, None, masks, cache)

    assert [(r["seed"], r["settings"]) for r in records] == [
        (seed, setting) for setting in released for seed in (0, 1)
    ]
    streams = set()
    for record in records:
        keep, release = cache.asked[int(record["key"])]
        assert np.array_equal(keep, masks[degree.bound_name(record["settings"])][record["seed"]])
        # The same noise multiplier and sensitivity √D under both.
        multiplier = entries[0]["noise_multiplier"]
        assert release.noise_std == pytest.approx(multiplier * math.sqrt(max_degree), rel=1e-12)
        streams.add(release.stream)
    assert len(streams) == 4  # no noise is used twice
