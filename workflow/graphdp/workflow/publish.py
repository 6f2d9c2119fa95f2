"""A private release: what the ledger holds of it, and what of its files is published."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from graphdp import io, private
from graphdp.data.graph import Graph
from graphdp.errors import GraphDPError
from graphdp.methods.block import Block
from graphdp.paper.rows import read_rows
from graphdp.privacy import calibrated
from graphdp.rng import stream_key
from graphdp.workflow import job


def reserve(block: Block, study: Mapping[str, Any]) -> None:
    """Write a release into the ledger, before any of its noise is drawn.

    study: what its noise depends on besides data, method, level and ε, with all hyperparameters as
    `models`. What code and machine it is made with is part of a release: sums that are rounded
    otherwise, under the same noise, would be a second one.

    Raises `GraphDPError` for a claim that is refuted, for samples of a fixed size, whose rate would
    be another one than that of the announced number of training nodes, and as `private.reserve`.
    """
    for entry in block.calibrations:
        if entry["status"] == "refuted":
            raise GraphDPError(
                f"{block.method}: the claim of {entry['adjacency']} is refuted, so nothing is "
                "released; set calibrate_for: corrected"
            )
        if any(one.run.sampling == "fixed" for one in calibrated.phases(entry).values()):
            raise GraphDPError(
                f"{block.method}, {entry['adjacency']}: samples of a fixed size tell the number of "
                "training nodes; choose a method or an adjacency with Poisson samples"
            )
    versions = job.versions("torch", "numpy", "scipy", "cryptography", "randomgen")
    private.reserve(
        {
            "release": f"{block.study}: {block.method}, {block.level} level, ε = {block.epsilon}",
            "dataset": block.dataset,
            "data": content_hash(block.graph),
            "noise": stream_key(*block.stream(0), block.data).hex(),
            "plan": [study["models"], study["delta"], study["calibrate_for"], block.announced],
            "made_with": [job.git_commit(), versions, block.trained_on()],
        }
    )


def content_hash(graph: Graph) -> str:
    """Hex SHA-256 of what is in a graph, whatever it is called and its nodes' order: ids, features,
    classes and edges."""
    order = np.argsort(graph.ids)
    entries = np.ones(graph.num_edges, np.int8)
    shape = (graph.num_nodes, graph.num_nodes)
    edges = sparse.csr_array((entries, graph.indices, graph.indptr), shape=shape)
    edges = edges[order][:, order]
    edges.sort_indices()
    x = sparse.csr_array(graph.x)[order]
    arrays = graph.ids[order], graph.y[order], edges.indptr, edges.indices
    return io.sha256_arrays(*(np.asarray(a) for a in (*arrays, x.indptr, x.indices, x.data)))


def publish(
    row_file: str | os.PathLike,
    statement: str | os.PathLike,
    *,
    row: str | os.PathLike,
    model: str | os.PathLike,
    json: str | os.PathLike,
    md: str | os.PathLike,
) -> None:
    """Copy the row of a private model, the model and its privacy statement.

    row_file: as `model_rows.write_rows` leaves it, with the model beside it as `.npz`. statement:
    path of the statement, without a suffix. Raises `GraphDPError` for a row of another kind of
    release or of several models, and for a model that is not the one of which the row speaks.
    """
    found = read_rows(row_file)
    if list(found["release"]) != ["private"]:
        raise GraphDPError(f"{row_file} is not the row of one private model: run the study again")
    arrays = Path(row_file).with_suffix(".npz")
    if not arrays.is_file() or io.sha256_file(arrays) != found["model_sha256"].iloc[0]:
        raise GraphDPError(
            f"{arrays} is missing or damaged: delete {row_file} and run again, which makes the "
            "same model"
        )
    copies = {row: row_file, model: arrays, json: f"{statement}.json", md: f"{statement}.md"}
    for target, source in copies.items():
        with io.atomic_path(target) as temporary:
            temporary.write_bytes(Path(source).read_bytes())
