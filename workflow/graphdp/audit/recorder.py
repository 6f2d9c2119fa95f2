"""A cache of aggregates that remembers what a stage released through it."""

import os
from collections.abc import Sequence

import numpy as np

from graphdp.data.graph import Graph
from graphdp.releases.aggregation import Release
from graphdp.releases.cache import AggregateCache


class Recorder(AggregateCache):
    """`made`: what it was asked for, in order, each with its key."""

    def __init__(self, folder: str | os.PathLike) -> None:
        super().__init__(folder)
        self.made: list[tuple[Release, str]] = []

    def release(
        self, graph: Graph, keep: np.ndarray | None, releases: Sequence[Release], threads: int = 1
    ) -> list[str]:
        """See `AggregateCache.release`."""
        names = super().release(graph, keep, releases, threads)
        self.made += zip(releases, names, strict=True)
        return names
