"""What a stage of a method is given when an audit runs it: all that a job gives it, on a graph that
the audit made, with the one calibration that it attacks."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from graphdp.data.graph import Graph
from graphdp.data.split import Split
from graphdp.methods.block import Block, Observer
from graphdp.noise import NoiseSource
from graphdp.privacy import calibrated, execution
from graphdp.privacy.calibration import Calibration
from graphdp.privacy.execution import Execution
from graphdp.progress import brief
from graphdp.releases.cache import AggregateCache


@dataclass(frozen=True)
class AuditBlock(Block):
    """Runs of an audit, which are its seeds: all on one split, with streams that the audit names.

    names: seed -> the name of a run's random streams, in place of a study's.
    """

    names: Callable[[int], tuple[int | str, ...]] = lambda seed: ("audit", seed)
    nodes: Split | None = None

    def split(self, seed: int) -> Split:
        """The nodes that the audit chose."""
        return self.nodes

    def entry(self, plan_settings: dict[str, Any], seed: int) -> dict[str, Any]:
        """The calibration under attack: the one there is, for as many nodes as its claim says."""
        (entry,) = self.calibrations
        return entry

    def stream(self, seed: int, *purpose: int | float | str) -> tuple:
        """The name of a run's random stream for a purpose."""
        return *self.names(seed), *purpose


def audit_block(
    entry: dict[str, Any],
    graph: Graph,
    seeds: Iterable[int],
    names: Callable[[int], tuple[int | str, ...]],
    nodes: Split | None = None,
    observe: Observer | None = None,
    noise: NoiseSource | None = None,
) -> AuditBlock:
    """The block of some runs of the method and level that a calibration is of.

    entry: as `calibration_entry` gives it. nodes: what its stages train on, if they do. noise: what
    draws the noise of their rounds, in place of the project's own.
    """
    plan = entry["plan"]
    return AuditBlock(
        graph,
        graph.name,
        list(seeds),
        0,
        method=plan["method"],
        level=plan["level"],
        checkpoint="last",
        memory_mb=2048,
        calibrations=[entry],
        observe=observe,
        noise=noise,
        names=names,
        nodes=nodes,
    )


def calibration_entry(
    calibration: Calibration, num_train: int = 0, settings: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A calibration as a block holds it; num_train: training nodes, where the plan reads them;
    settings: those of the plan, of which a loop reads the clip of plans that have none."""
    about = {"settings": dict(settings or {}), "num_train": num_train}
    return calibration.to_dict() | about


def graph_of(
    indptr: np.ndarray,
    indices: np.ndarray,
    x: np.ndarray | None = None,
    labels: np.ndarray | None = None,
    classes: int = 2,
) -> Graph:
    """A graph of given edges; its nodes look all the same, unless features (n, f) and labels (n,)
    are given."""
    nodes = len(indptr) - 1
    return Graph(
        name="audit",
        x=np.zeros((nodes, 1), np.float32) if x is None else x,
        y=np.zeros(nodes, np.int64) if labels is None else labels,
        indptr=indptr,
        indices=indices,
        node_ids=np.arange(nodes),
        raw_num_nodes=nodes,
        num_classes=classes,
    )


def edgeless(x: np.ndarray, labels: np.ndarray, classes: int) -> Graph:
    """Nodes without an edge, of given features (n, f) and labels (n,)."""
    none = np.zeros(len(x) + 1, np.int64), np.zeros(0, np.int32)
    return graph_of(*none, x, labels, classes)


def trained(
    stage: Callable[..., list[tuple]],
    block: AuditBlock,
    setting: dict[str, Any],
    reads: tuple[Any, ...] = (),
) -> None:
    """Train a block's runs with a method's last stage.

    reads: what the stage is given of stages before it.
    Raises `GraphDPError` if other noise was drawn than the plan accounts, as a job does.
    """
    for seed, _, model in stage(block, [setting], *reads):
        calibrated.check_execution(block.entry({}, seed), model.executed)


def aggregated(
    aggregate: Callable[..., list[dict]],
    block: AuditBlock,
    setting: dict[str, Any],
    reads: tuple[Mapping, Mapping],
) -> np.ndarray:
    """What a method's stage "aggregate" releases of the one run of a block: float32 (K, n, d).

    aggregate: the function of the stage. setting: as the stage is given it. reads: what the stages
    "encode" and "bound_degree" leave.
    Raises `GraphDPError` if other noise was drawn than the plan accounts, as a job does.
    """
    with TemporaryDirectory(prefix="graphdp-audit-") as folder, brief():
        cache = AggregateCache(folder)
        (record,) = aggregate(block, [setting], *reads, cache)
        # Of a plan that has more phases this one alone is run.
        planned = calibrated.phases(block.entry({}, 0))["aggregation"].run
        execution.check({"aggregation": planned}, {"aggregation": Execution(**record["executed"])})
        return np.array(cache.load(record["key"]))
