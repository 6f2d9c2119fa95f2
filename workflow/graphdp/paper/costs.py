"""What a model takes, by those of the same graph and kind that have run, or estimated."""

import json
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

#: Without an encoder GAP's aggregates are as wide as the features.
DEARER = {"encoder_layers": 0}


class Kind(NamedTuple):
    """Models that take about as long on the same graph."""

    source: str
    method: str
    level: str
    dearer: bool = False


def is_dearer(setting: Mapping[str, Any]) -> bool:
    """Whether a setting is one of `DEARER`: a kind of its own."""
    return any(setting.get(name) == value for name, value in DEARER.items())


class Costs:
    """CPU seconds of a model by graph and kind (source: a study, or its attacks)."""

    def __init__(self, sources: Mapping[str, pd.DataFrame]):
        """sources: name -> rows with dataset, method, level, hyperparameters and cpu_seconds."""
        self._known: dict[tuple[Kind, str], float] = {}
        for source, rows in sources.items():
            settings = {text: is_dearer(json.loads(text)) for text in set(rows["hyperparameters"])}
            dearer = rows["hyperparameters"].map(settings).astype(bool).rename("dearer")
            taken = rows.groupby(["dataset", "method", "level", dearer])["cpu_seconds"].mean()
            for (graph, *kind), seconds in taken.items():
                self._known[Kind(source, *kind), graph] = seconds
        self._fit = _Fit(self._known)

    def of(self, kind: Kind, graph: str) -> tuple[float, bool]:
        """CPU seconds (NaN where no model tells), and whether they are estimated.

        An estimate is what models of the kind take on other graphs, times how much dearer or
        cheaper the graph is for the other kinds that ran on both.
        """
        if (kind, graph) in self._known:
            return self._known[kind, graph], False
        return self._fit.estimate(kind, graph), True

    def knows(self, graph: str) -> bool:
        """Whether any model has run on a graph."""
        return self._fit.knows(graph)

    def off_by(self, share: float, graphs: Collection[str]) -> float:
        """The factor within which this share of the known costs on some graphs is estimated, each
        from all others; NaN if none of them can be."""
        off = [off for (_, graph), off in self._fit.off.items() if graph in graphs]
        off = [one for one in off if not np.isnan(one)]
        return float(np.exp(np.quantile(off, share))) if off else float("nan")


class _Fit:
    """log seconds = what the kind adds + what the graph adds, by least squares."""

    def __init__(self, known: Mapping[tuple[Kind, str], float]):
        names = [*dict.fromkeys(kind for kind, _ in known)]
        names += dict.fromkeys(graph for _, graph in known)
        self._column = {name: n for n, name in enumerate(names)}
        places = np.zeros((len(known), len(names)))
        for row, one in zip(places, known, strict=True):
            row[:] = self._place(*one)
        costs = np.log(list(known.values()))
        left, sizes, right = np.linalg.svd(places, full_matrices=False)
        there = sizes > 1e-9 * sizes.max(initial=0)
        left, sizes, self._told = left[:, there], sizes[there], right[there]
        self._added = self._told.T @ (left.T @ costs / sizes)
        # A fit without a value is off it by its residual / (1 - its leverage) (Cook and Weisberg,
        # Residuals and Influence in Regression, 1982, 2.2.1): one decomposition gives all of them.
        alone = 1 - np.square(left).sum(axis=1)
        off = np.full(len(known), np.nan)
        np.divide(np.abs(costs - places @ self._added), alone, out=off, where=alone > 1e-9)
        #: |log(estimate / cost)|, each estimated from all others; NaN where they say nothing of it.
        self.off = dict(zip(known, off, strict=True))

    def _place(self, kind: Kind, graph: str) -> np.ndarray:
        place = np.zeros(len(self._column))
        place[[self._column[kind], self._column[graph]]] = 1
        return place

    def knows(self, graph: str) -> bool:
        return graph in self._column

    def estimate(self, kind: Kind, graph: str) -> float:
        """Seconds; NaN where nothing that ran on the graph leads to anything of the kind."""
        if not (kind in self._column and graph in self._column):
            return float("nan")
        place = self._place(kind, graph)
        if not np.allclose(self._told.T @ (self._told @ place), place):
            return float("nan")
        return float(np.exp(place @ self._added))
