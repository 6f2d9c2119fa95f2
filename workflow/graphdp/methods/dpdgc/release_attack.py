"""An attack on DPDGC's released embedding.

W and b have been released before, so they are the same in both worlds, and the attacker picks the
worst: all rows of W in one direction, the bias far longer than the noise and at right angles to it.
Then normalising after the noise hides nothing, and the worlds are as far apart as the sensitivity
says. Copies of a construction lie side by side in one graph, as in
`graphdp.audit.graph_pairs`; under public candidates, which are drawn for a whole graph, each is a
graph and a run of its own. What is run is the stage `graphdp.methods.dpdgc.method.embed`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphdp.audit.front_door import audit_block, calibration_entry, graph_of
from graphdp.audit.graph_pairs import Construction, copies_of
from graphdp.data.graph import in_edges
from graphdp.methods.dpdgc import method as dpdgc
from graphdp.privacy import calibrated, execution
from graphdp.privacy.calibration import Calibration
from graphdp.privacy.protection import level_kind, neighbors

#: Of the rows of W; `release` has to bring it down to c = 1.
ROW_NORM = 10.0
#: How much longer than the noise the bias is.
BIAS = 1e3
# Rows of one call: bounds the memory to some ten MB.
_CALL_ROWS = 1 << 19


def release_pair(level: str, max_degree: int | None = None, undirected: bool = False):
    """The worst pair of graphs: a `Construction` whose rows x0 are W, float32 (n, 2).

    An edge (source, target) is an entry of A in row `target` and column `source`. edge: one entry,
    with `undirected` both of a connection. k-neighbour: k entries of the column of node 0, and of
    its row, which is hidden. node: D entries of the column, and of the row.
    """
    kind, k = level_kind(level), neighbors(level)
    gained = {"edge": 1, "k": k, "node": max_degree}[kind]
    others = 1 + np.arange(gained)
    column = np.stack([np.zeros_like(others), others], 1)
    row = column[:, ::-1] if kind != "edge" or undirected else column[:0]
    weight = np.zeros((1 + len(others), 2), np.float32)
    weight[:, 1] = ROW_NORM
    return Construction(
        f"release-{level}-{max_degree}{'-undirected' * undirected}",
        weight,
        np.concatenate([column, row]),
        column[:0],
        hidden=() if kind == "edge" else (0,),
    )


def trained_pair(construction: Construction, hidden: int = 16) -> tuple[Construction, np.ndarray]:
    """The same graphs with W and b as the authors' code trains them: rows of any norm.

    Returns the construction, x0 float32 (n, hidden), and b, float32 (hidden,).
    """
    from graphdp.methods.dpdgc.network import train_embedding
    from graphdp.training.descent import Rounds

    rows = in_edges(*copies_of(construction, "present", 1)[:2])
    nodes = np.arange(construction.num_nodes)
    model = train_embedding(
        rows.indptr,
        rows.indices,
        nodes % 2,
        nodes,
        nodes[:0],
        Rounds("full", 10),
        head=dpdgc.official_head(hidden, 2, ("audit", construction.name, "head")),
        learning_rate=0.001,
        stream=("audit", construction.name),
        normalised=False,
        device="cpu",
    )
    name = f"{construction.name}-trained"
    edges = construction.present, construction.absent
    return Construction(name, model.weight, *edges, construction.hidden), model.bias


def least_row_norm(construction: Construction) -> float:
    """The least norm of the rows of W, in units of the c that the authors' noise is set for."""
    norms = np.linalg.norm(construction.x0.astype(np.float64), axis=1)
    return float(norms.min() / dpdgc.OFFICIAL_ROW_NORM)


def worst_bias(calibration: Calibration) -> np.ndarray:
    """The bias for `release_pair`, float64 (2,)."""
    run = calibrated.phases(calibration_entry(calibration))["release"].run
    return np.array([BIAS * run.noise_std, 0.0])


@dataclass(frozen=True)
class _Given:
    """W and b that were released before, as the stage takes them; made without noise here."""

    weight: np.ndarray
    bias: np.ndarray
    executed: None = None


def release_scores(
    construction: Construction,
    bias: np.ndarray,
    calibration: Calibration,
    world: str,
    draws: int,
    seed: int,
) -> np.ndarray:
    """Scores of independent releases in one world: float64 (draws,), larger for "present".

    Σ_v ⟨z_v, G_v⟩ over all rows but the hidden ones, G the change of A W. calibration: of a plan
    whose phase "release" is attacked; what comes before it is given.
    Raises `GraphDPError` if other noise was drawn than the plan accounts, as a job does.
    """
    weight, nodes = construction.x0, construction.num_nodes
    change = np.zeros((nodes, nodes))
    for sign, name in ((1, "present"), (-1, "absent")):
        edges = construction.edges(name)
        change[edges[:, 1], edges[:, 0]] += sign
    gain = change @ weight.astype(np.float64)
    gain[list(construction.hidden)] = 0

    entry, plan = calibration_entry(calibration), calibration.plan
    release = calibrated.phases(entry)["release"].run
    setting: dict[str, Any] = {"hidden": weight.shape[1], "plan": {}}
    alone = level_kind(plan.level) == "node" and plan.method == "dpdgc"
    if level_kind(plan.level) == "node":
        # A list has at most as many nodes as there are others.
        setting["max_degree"] = nodes - 1
    scores, size = np.empty(draws), max(1, _CALL_ROWS // nodes)
    for start in range(0, draws, size):
        count = min(size, draws - start)
        copies, runs = (1, range(start, start + count)) if alone else (count, [start])
        indptr, indices, stacked = copies_of(construction, world, copies)
        rows = in_edges(indptr, indices)  # a list of A is what the graph of a study points to
        graph = graph_of(rows.indptr.astype(np.int64), rows.indices.astype(np.int32))
        given = _Given(stacked, bias)

        def names(run: int) -> tuple[int | str, ...]:
            return "audit", seed, construction.name, world, run

        block = audit_block(entry, graph, runs, names)
        found = dpdgc.embed(block, [setting], lambda *_, given=given: given)
        z = []
        for run in runs:
            name = dpdgc.embedding_name(run, setting)
            execution.check({"release": release}, execution.unpacked(found, name))
            z.append(found[name])
        z = np.concatenate(z).reshape(count, nodes, -1)
        scores[start : start + count] = np.einsum("cvd,vd->c", z.astype(np.float64), gain)
    return scores
