"""How the stages' results are kept in files: what a card's `store` names."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphdp import io
from graphdp.graphs import degree, perturbation
from graphdp.methods.block import Block
from graphdp.releases.cache import AggregateCache
from graphdp.workflow import job


def open_cache(folder: str, block: Block) -> AggregateCache:
    """The cache of aggregates in a folder."""
    return AggregateCache(folder)


def save_arrays(path: str, arrays: dict[str, np.ndarray], block: Block) -> None:
    """Write named arrays to an `.npz`."""
    io.save_npz(path, **arrays)


def load_arrays(paths: Sequence[str], block: Block) -> dict[str, np.ndarray]:
    """The named arrays of all files."""
    found: dict[str, np.ndarray] = {}
    for path in paths:
        found |= io.load_npz(path)
    return found


def save_releases(path: str, releases: list[dict[str, Any]], block: Block) -> None:
    """Write the records of releases (`seed`, `settings`, `key` in the cache) as JSON."""
    io.write_json(path, {"releases": releases, "usage": job.usage()})


def load_releases(paths: Sequence[str], block: Block) -> list[dict[str, Any]]:
    """The records of all files."""
    return [release for path in paths for release in io.read_json(path)["releases"]]


def save_graphs(path: str, graphs: dict, block: Block) -> None:
    """Write perturbed graphs, (seed, name) -> CSR, with the fingerprint of the true one."""
    perturbation.save_graphs(path, graphs, graph=block.graph.fingerprint())


def load_graphs(paths: Sequence[str], block: Block) -> dict:
    """The perturbed graphs of all files. Raises `GraphDPError` if they are of another graph."""
    return perturbation.load_files(paths, graph=block.graph.fingerprint()) if paths else {}


def save_masks(path: str, masks: dict[str, dict[int, np.ndarray]], block: Block) -> None:
    """Write the masks of one degree bound, bound -> seed -> kept edges, bool (m,), as bits."""
    ((bound, by_seed),) = masks.items()
    degree.save_masks(path, by_seed, bound=bound, graph=block.graph.fingerprint())


def load_masks(paths: Sequence[str], block: Block) -> dict[str, dict[int, np.ndarray]]:
    """The masks of all files. Raises `GraphDPError` if they are of another graph."""
    return degree.load_bounds(paths, graph=block.graph.fingerprint()) if paths else {}
