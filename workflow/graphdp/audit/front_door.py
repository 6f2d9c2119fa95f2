"""What a stage of a method is given when an audit runs it: all that a job gives it, on a graph that
the audit made, with the one calibration that it attacks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from graphdp.data.graph import Graph
from graphdp.methods.block import Block
from graphdp.privacy import calibrated, execution
from graphdp.privacy.calibration import Calibration
from graphdp.privacy.execution import Execution
from graphdp.releases.cache import AggregateCache


@dataclass(frozen=True)
class AuditBlock(Block):
    """A block of one run of an audit, named by the audit.

    run: the name of its random streams, in place of a study's.
    """

    run: tuple[int | str, ...] = ()

    def entry(self, plan_settings: dict[str, Any], seed: int) -> dict[str, Any]:
        """The calibration under attack: the one there is, for as many nodes as its claim says."""
        (entry,) = self.calibrations
        return entry

    def stream(self, seed: int, *purpose: int | float | str) -> tuple:
        """The name of the run's random stream."""
        return self.run


def calibration_entry(calibration: Calibration, num_train: int = 0) -> dict[str, Any]:
    """A calibration as a block holds it; num_train: training nodes, where the plan reads them."""
    return calibration.to_dict() | {"settings": {}, "num_train": num_train}


def graph_of(indptr: np.ndarray, indices: np.ndarray) -> Graph:
    """A graph of given edges, all of whose nodes look the same."""
    nodes = len(indptr) - 1
    return Graph(
        name="audit",
        x=np.zeros((nodes, 1), np.float32),
        y=np.zeros(nodes, np.int64),
        indptr=indptr,
        indices=indices,
        node_ids=np.arange(nodes),
        raw_num_nodes=nodes,
        num_classes=2,
    )


def aggregated(
    aggregate: Callable[..., list[dict]],
    entry: dict[str, Any],
    level: str,
    setting: dict[str, Any],
    graph: Graph,
    reads: tuple[Mapping, Mapping],
    run: tuple[int | str, ...],
) -> np.ndarray:
    """What a method's stage "aggregate" releases of a graph: float32 (K, n, d).

    aggregate: the function of the stage. entry: as `calibration_entry` gives it. setting: as the
    stage is given it, of the repeat 0. reads: what the stages "encode" and "bound_degree" leave.
    run: the name of its noise.

    Raises `GraphDPError` if other noise was drawn than the plan accounts, as a job does.
    """
    block = AuditBlock(graph, "audit", [0], 0, level=level, calibrations=[entry], run=run)
    with TemporaryDirectory(prefix="graphdp-audit-") as folder:
        cache = AggregateCache(folder)
        (record,) = aggregate(block, [setting], *reads, cache)
        planned = calibrated.phases(entry)["aggregation"].run
        execution.check({"aggregation": planned}, {"aggregation": Execution(**record["executed"])})
        return np.array(cache.load(record["key"]))
