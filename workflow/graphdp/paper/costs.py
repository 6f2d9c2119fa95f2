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
        self._kinds, self._graphs = _fit(self._known)

    def of(self, kind: Kind, graph: str) -> tuple[float, bool]:
        """CPU seconds (NaN where no model tells), and whether they are estimated.

        An estimate is what models of the kind take on other graphs, times how much dearer or
        cheaper the graph is for the other kinds that ran on both.
        """
        if (kind, graph) in self._known:
            return self._known[kind, graph], False
        return _estimate(self._kinds, self._graphs, kind, graph), True

    def knows(self, graph: str) -> bool:
        """Whether any model has run on a graph."""
        return graph in self._graphs

    def off_by(self, share: float, graphs: Collection[str]) -> float:
        """The factor within which this share of the known costs on some graphs is estimated, each
        from all others; NaN if none of them can be."""
        off = []
        for (kind, graph), seconds in self._known.items():
            if graph in graphs:
                rest = {p: s for p, s in self._known.items() if p != (kind, graph)}
                estimate = _estimate(*_fit(rest), kind, graph)
                off.append(abs(np.log(estimate) - np.log(seconds)))
        off = [one for one in off if not np.isnan(one)]
        return float(np.exp(np.quantile(off, share))) if off else float("nan")


def _estimate(
    kinds: Mapping[Kind, float], graphs: Mapping[str, float], kind: Kind, graph: str
) -> float:
    return float(np.exp(kinds.get(kind, np.nan) + graphs.get(graph, np.nan)))


def _fit(known: Mapping[tuple[Kind, str], float]) -> tuple[dict[Kind, float], dict[str, float]]:
    """Logarithms of a factor for each kind and each graph, by least squares."""
    kinds = {kind: n for n, kind in enumerate(dict.fromkeys(kind for kind, _ in known))}
    graphs = {graph: n for n, graph in enumerate(dict.fromkeys(graph for _, graph in known))}
    places = np.zeros((len(known), len(kinds) + len(graphs)))
    for row, (kind, graph) in enumerate(known):
        places[row, kinds[kind]] = places[row, len(kinds) + graphs[graph]] = 1
    found = np.linalg.lstsq(places, np.log(list(known.values())), rcond=None)[0]
    return (
        {kind: found[n] for kind, n in kinds.items()},
        {graph: found[len(kinds) + n] for graph, n in graphs.items()},
    )
