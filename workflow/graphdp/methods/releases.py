"""How a block of seeds releases its noisy aggregates: the edges, the cache."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from graphdp.aggregation import AggregateCache, Release
from graphdp.degree import bound_name
from graphdp.methods.block import Block, Run


def release_runs(
    block: Block,
    runs: list[Run],
    masks: Mapping[str, Mapping[int, np.ndarray]],
    cache: AggregateCache,
    release: Callable[[int, dict[str, Any]], Release],
) -> list[str]:
    """Make `release(seed, setting)` for each run, once; returns the cache's keys, in order.

    masks: `degree.bound_name` -> seed -> kept edges, bool (m,); read at node level, where settings
    have `max_degree`.
    """
    by_mask: dict[tuple[str, int] | None, list[int]] = {}
    for index, (seed, setting) in enumerate(runs):
        # Without a degree bound all seeds aggregate over the same edges, read once for all.
        bound = (bound_name(setting), seed) if block.level == "node" else None
        by_mask.setdefault(bound, []).append(index)
    keys = [""] * len(runs)
    for bound, indices in by_mask.items():
        keep = masks[bound[0]][bound[1]] if bound else None
        made = cache.release(block.graph, keep, [release(*runs[i]) for i in indices])
        for index, name in zip(indices, made, strict=True):
            keys[index] = name
    return keys
