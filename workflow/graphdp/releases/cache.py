"""Private aggregations on disk: each is drawn once, and named by all that determines it."""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from graphdp import io
from graphdp.data.graph import Graph, in_edges
from graphdp.errors import GraphDPError, LostRelease
from graphdp.graphs import degree
from graphdp.progress import progress
from graphdp.releases.aggregation import (
    MECHANISM,
    NAP_MECHANISM,
    NoisySum,
    Release,
    private_hops,
)
from graphdp.rng import stream_key

# Releases that share one pass over the edges: as many as fit in this much of float64 sums.
_STACKED_BYTES = 1 << 30


class AggregateCache:
    """Releases on disk, under a key of everything that determines them.

    A noisy aggregate is made once; every later use is post-processing of the same bytes and costs
    no privacy. `<key>.npy` is the release, float32 (K, n, d); `<key>.json` beside it names in
    clear what the key stands for and holds the release's SHA-256.

    A noise stream serves one release. If its data changes (the encoder was trained anew after an
    edit, say), the new release takes the place of the old one, which is removed: the difference of
    the two would have no noise, so results of both must not be published side by side.

    `ledger` lists the noisy sums that this object had to make, in order; cached ones add nothing.
    """

    def __init__(self, folder: str | os.PathLike) -> None:
        self.folder = Path(folder)
        self.ledger: list[NoisySum] = []

    def release(
        self,
        graph: Graph,
        keep: np.ndarray | None,
        releases: Sequence[Release],
        threads: int = 1,
    ) -> list[str]:
        """Make the releases that are not there yet.

        Args:
          graph: the graph, n nodes and m edges.
          keep: bool (m,), the edges that the degree bound leaves; None for all.
          releases: what is needed; equal ones are made once.
          threads: does not change the result.

        Returns:
          the key of each release, in order.

        Raises:
          GraphDPError: two of the releases share a noise stream but differ in their data, a file
            in the cache is damaged, or an x0 does not fit the graph.
        """
        edges_name = {
            "graph": graph.fingerprint(),
            "degree_mask": None if keep is None else degree.mask_fingerprint(keep),
        }
        fields = [edges_name | _fields(release) for release in releases]
        keys = [key(release, field) for release, field in zip(releases, fields, strict=True)]
        _refuse_shared_noise(keys, releases)
        missing = {
            name: (release, field)
            for name, release, field in zip(keys, releases, fields, strict=True)
            if not self._holds(name)
        }
        if not missing:
            return keys
        kept = (graph.indptr, graph.indices)
        edges = in_edges(*(kept if keep is None else degree.apply_mask(*kept, keep)))
        batches = list(_batches(missing))
        for names in progress(batches, "private aggregation"):
            batch = [missing[name][0] for name in names]
            made = private_hops(edges, batch, threads, self.ledger)
            for name, array in zip(names, made, strict=True):
                self._write(name, array, missing[name][1])
        return keys

    def load(self, name: str) -> np.ndarray:
        """The release of a key, float32 (K, n, d).

        Raises:
          LostRelease: it is not in the cache, or damaged.
        """
        if not self._holds(name):
            raise LostRelease(
                f"release {name} is not in {self.folder} (removed, or replaced by one with other "
                "data): run again what made it"
            )
        array = self._open(name, mmap_mode="r")
        if io.sha256_arrays(array) != io.read_json(self._sidecar(name)).get("sha256"):
            raise self._damaged(name, "its SHA-256 is not the recorded one")
        return array

    def path(self, name: str) -> Path:
        """Where the release of a key lies."""
        return self.folder / f"{name}.npy"

    def _sidecar(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _holds(self, name: str) -> bool:
        """Whether the release is there and whole, by its header and size."""
        # The sidecar is written last: without it the release was not finished.
        if not (self.path(name).is_file() and self._sidecar(name).is_file()):
            return False
        self._open(name, mmap_mode="r")
        return True

    def _open(self, name: str, mmap_mode: str | None = None) -> np.ndarray:
        try:
            shape = tuple(io.read_json(self._sidecar(name))["shape"])
            array = np.load(self.path(name), mmap_mode=mmap_mode, allow_pickle=False)
        except (ValueError, KeyError, TypeError, OSError, EOFError) as error:
            raise self._damaged(name, str(error)) from error
        if array.shape != shape or array.dtype != np.float32:
            raise self._damaged(name, f"{array.dtype} {array.shape}, expected float32 {shape}")
        return array

    def _damaged(self, name: str, reason: str) -> LostRelease:
        return LostRelease(
            f"{self.path(name)} is damaged ({reason}): delete it and run again what made it, which "
            "writes the same bytes"
        )

    def _write(self, name: str, array: np.ndarray, fields: dict[str, Any]) -> None:
        noise = name.split("-")[0]
        if noise != "exact":
            for old in self.folder.glob(f"{noise}-*"):
                if old.stem != name:
                    old.unlink(missing_ok=True)
        io.save_npy(self.path(name), array)
        about = {"fields": fields, "shape": array.shape, "sha256": io.sha256_arrays(array)}
        io.write_json(self._sidecar(name), about)


def key(release: Release, fields: dict[str, Any]) -> str:
    """The cache key: name of the noise ("exact" without), then the SHA-256 of all fields."""
    noise = _sha256(release.noise_name)[:16] if release.private else "exact"
    return f"{noise}-{_sha256(fields)}"


def _fields(release: Release) -> dict[str, Any]:
    """All that determines a release besides the edges."""
    return {
        "mechanism": MECHANISM if release.renormalise else NAP_MECHANISM,
        "x0": io.sha256_arrays(release.x0),
        "hops": int(release.hops),
        "noise_std": repr(float(release.noise_std)),
        "private": release.private,
        # Without noise the stream determines nothing, and seeds that agree share a result.
        # Its name may hold a secret (`graphdp.keys`), and is not written down.
        "stream": stream_key("cached", *release.stream).hex() if release.private else None,
        "dtype": "float32",
    }


def _sha256(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _refuse_shared_noise(keys: list[str], releases: Sequence[Release]) -> None:
    """Two releases of different data with the same noise would cancel it: stop."""
    by_noise: dict[str, str] = {}
    for name, release in zip(keys, releases, strict=True):
        if release.private and by_noise.setdefault(name.split("-")[0], name) != name:
            raise GraphDPError(
                f"two releases of different data share the noise stream {release.stream}: "
                "name in the stream what tells them apart"
            )


def _batches(missing: dict[str, tuple[Release, Any]]) -> Iterator[list[str]]:
    """Split into runs whose float64 sums, side by side, fit in memory."""
    batch: list[str] = []
    size = 0
    for name, (release, _) in missing.items():
        if batch and size + 8 * release.x0.size > _STACKED_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(name)
        size += 8 * release.x0.size
    if batch:
        yield batch
