"""Private releases and reproductions of one dataset: what was released is not reproduced, and no
copy of it that others may read is passed over.

Anybody can draw a reproduction's noise again, which so shows what a release summed up. Nothing here
imports pandas or torch: every start of Snakemake does this.
"""

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from graphdp import io, ledger, private, seals
from graphdp.data.datasets import DatasetSpec
from graphdp.errors import GraphDPError
from graphdp.workflow import lock

if TYPE_CHECKING:
    from graphdp.data.graph import Graph
    from graphdp.workflow.made import Made

#: Graphs that are no release's, by file and by what the ledger held then.
CHECKED = f"{private.FOLDER}/checked.json"


def check_no_copy(datasets: Mapping[str, DatasetSpec]) -> None:
    """That no earlier reproduction left a private dataset where results are published, for all to
    read. Raises `GraphDPError`."""
    for name, spec in datasets.items():
        found = _copies(name)
        if spec.loader == "arrays" and found:
            raise GraphDPError(
                f"an earlier reproduction left dataset '{name}' where others may read it: move "
                f"{', '.join(found)} away, or delete that"
            )


def _copies(name: str) -> list[str]:
    """What reproductions have left of a dataset: its raw files, its graph, and what tells of it.
    Raises `GraphDPError` where that may not be looked at."""
    raw, graphs = Path("results/data/raw", name), Path("results/data/graphs")
    made = [graphs / f"{name}.npz", graphs / f"{name}.json"]
    try:
        found = [raw] if raw.is_dir() and any(raw.iterdir()) else []
        return [f"{one}" for one in (*found, *made, *map(seals.seal_of, made)) if one.exists()]
    except OSError as error:
        raise GraphDPError(f"{error.filename} cannot be read ({error.strerror})") from None


def check_ledger_there() -> None:
    """That the ledger is whole, and there where a private study has published: else nobody would
    know before the next release, or a reproduction of its data. Raises `GraphDPError`."""
    lock.check_folders(private.FOLDER)
    if not ledger.state():
        ledger.check_nothing_published()


def check_not_released(made: "Made") -> None:
    """Whether no dataset that users brought and a study reproduces is one that has releases, by
    name or by what earlier runs made of it. Raises `GraphDPError`."""
    if made.private:
        return
    check_datasets_not_released(made.datasets)
    for name, spec in made.datasets.items():
        check_made_not_released(spec, made.manifest_file(name), made.graph_file(name))


def check_datasets_not_released(datasets: Mapping[str, DatasetSpec]) -> None:
    """Whether no dataset that users brought stands in the ledger: anybody can draw a
    reproduction's noise, which so shows what was summed up."""
    brought = [name for name, spec in datasets.items() if spec.loader == "arrays"]
    if not brought:
        return
    check_ledger_there()
    released = ledger.datasets()
    for name in brought:
        if name in released:
            raise _released(name, "name")


def check_files_not_released(spec: DatasetSpec, files: Sequence[str]) -> None:
    """As `check_datasets_not_released`, by the SHA-256 of the raw files of a dataset that is
    reproduced, whatever its name. Raises `GraphDPError`."""
    if spec.loader == "arrays" and ledger.held({"files": files}):
        raise _released(spec.name, "raw files")


def check_graph_not_released(spec: DatasetSpec, graph: "Graph") -> None:
    """The same, by what is in its graph: of another file of the same arrays, too."""
    from graphdp.data.content import content_hashes

    if spec.loader != "arrays" or not ledger.state():
        return
    kind = ledger.held(content_hashes(graph))
    if kind:
        raise _released(spec.name, kind)


def check_made_not_released(
    spec: DatasetSpec, manifest: str | os.PathLike, graph: str | os.PathLike
) -> None:
    """The same of what earlier runs made of it, perhaps before its release, where no job looks
    again; of a graph without its manifest nobody knows the files. Raises `GraphDPError`."""
    placed, made = os.path.exists(manifest), os.path.exists(graph)
    if spec.loader != "arrays" or not (placed or made):
        return
    state = ledger.state()
    if not state:
        return
    try:
        files = [file["sha256"] for file in io.read_json(manifest)["files"]]
        check_files_not_released(spec, files)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        if made:
            raise GraphDPError(
                f"{manifest} is missing or damaged, which says of what files {graph} is, and "
                f"{ledger.LEDGER} has releases: delete both and run again"
            ) from None
    if made:
        _check_graph_file(spec, graph, state)


def _check_graph_file(spec: DatasetSpec, graph: str | os.PathLike, state: str) -> None:
    """`check_graph_not_released` of a file, once for every state of the ledger: to read a large
    graph takes seconds."""
    from graphdp.data.graph import Graph

    found = os.stat(graph)
    now = [found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, state]
    try:
        checked = dict(io.read_json(CHECKED))
    except (OSError, ValueError, TypeError, RecursionError):
        checked = {}
    if checked.get(str(graph)) == now:
        return
    try:
        made = Graph.load(graph).validate()
    except GraphDPError:
        return  # the jobs that read it say so
    check_graph_not_released(spec, made)
    with contextlib.suppress(OSError, ValueError, TypeError, RecursionError):  # checked again then
        io.write_json(CHECKED, checked | {str(graph): now})


def _released(name: str, part: str) -> GraphDPError:
    left = _copies(name)
    copies = f" (others may read {', '.join(left)}: move that away, or delete it)" if left else ""
    return GraphDPError(
        f"dataset '{name}' has the {part} of a release in {ledger.LEDGER}, and anybody can draw a "
        "reproduction's noise again: set release: private, or use another folder if its data are "
        f"public{copies}"
    )
