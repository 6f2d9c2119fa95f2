"""How a block of seeds releases its noisy aggregates: the edges, the cache."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from graphdp.errors import GraphDPError
from graphdp.graphs.bounds import bound_name, parse_bound
from graphdp.methods.block import Block, Run
from graphdp.privacy.execution import Execution
from graphdp.privacy.protection import protects_nodes
from graphdp.releases.aggregation import Release
from graphdp.releases.cache import AggregateCache


def release_runs(
    block: Block,
    runs: list[Run],
    masks: Mapping[str, Mapping[int, np.ndarray]],
    cache: AggregateCache,
    release: Callable[[int, dict[str, Any]], Release],
) -> list[tuple[str, Execution | None]]:
    """Make `release(seed, setting)` for each run, once; returns, in order, the cache's keys and
    what was drawn (None without noise).

    masks: `bounds.bound_name` -> seed -> kept edges, bool (m,); read at node level, where settings
    have `max_degree`.
    """
    by_mask: dict[tuple[str, int] | None, list[int]] = {}
    for index, (seed, setting) in enumerate(runs):
        # Without a degree bound all seeds aggregate over the same edges, read once for all.
        bound = (bound_name(setting), seed) if protects_nodes(block.level) else None
        by_mask.setdefault(bound, []).append(index)
    made: list[Any] = [None] * len(runs)
    for bound, indices in by_mask.items():
        keep = masks[bound[0]][bound[1]] if bound else None
        if bound:
            check_bound(block, keep, parse_bound(bound[0])[0])
        wanted = [release(*runs[i]) for i in indices]
        names = cache.release(block.graph, keep, wanted)
        for index, name, one in zip(indices, names, wanted, strict=True):
            made[index] = (name, one.executed)
    return made


def check_bound(block: Block, keep: np.ndarray, max_degree: int) -> None:
    """Refuse edges that leave a node more out-edges than the plan is for: the sensitivity of sums,
    and how many sub-graphs a node is in."""
    kept = np.concatenate([[0], np.cumsum(keep)])
    most = int(np.diff(kept[block.graph.indptr]).max(initial=0))
    if most > max_degree:
        raise GraphDPError(
            f"degree bound: a node has {most} out-edges where the plan accounts {max_degree}; the "
            "ε of this model does not hold; run the bound_degree stage again"
        )
