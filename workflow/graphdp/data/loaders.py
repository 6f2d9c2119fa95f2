"""Raw files to arrays, one function per format; `LOADERS` names them for the registry.

A loader reads files that `graphdp.data.download` has verified and changes nothing about the graph:
what is dropped or symmetrised is decided in `graphdp.data.preprocess`. PyG's dataset classes do the
reading where they exist; PyG is imported only then, and never gets to download anything.
"""

import json
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
import scipy.io
import scipy.sparse as sp

from graphdp.data.csbm import csbm
from graphdp.errors import GraphDPError

# Bag-of-words and one-hot features are stored sparse below this share of non-zeros: PubMed (10 %)
# and the Amazon graphs (35 %) are faster dense, everything sparser is far below it.
SPARSE_BELOW = 0.05
MOST_CLASSES = 10**6


@dataclass(frozen=True, eq=False)
class RawGraph:
    """A graph as its files give it.

    Attributes:
        x: float32 (n, f), dense or `scipy.sparse.csr_matrix`.
        y: int64 (n,), class of each node, −1 where it has none.
        sources, targets: integer (m,), directed entries in file order; an undirected edge may be
            given once or twice.
        ids: integer (n,), all different, what the nodes are called in a public universe
            0..num_ids-1, or None where the files do not say: then their places, 0..n-1.
        num_ids: size of the universe; by default the largest id + 1.
    """

    x: np.ndarray | sp.csr_matrix
    y: np.ndarray
    sources: np.ndarray
    targets: np.ndarray
    ids: np.ndarray | None = None
    num_ids: int | None = None


# (folder of the raw files, names of the registry's files, **parameters) -> RawGraph
Loader = Callable[..., RawGraph]


def load_csbm(folder: Path, files: Sequence[str], **parameters: Any) -> RawGraph:
    """The contextual stochastic block model; no files."""
    graph = csbm(**parameters)
    sources = np.repeat(np.arange(graph.num_nodes, dtype=np.int32), np.diff(graph.indptr))
    return RawGraph(graph.x, graph.y, sources, graph.indices)


def load_arrays(
    folder: Path,
    files: Sequence[str],
    file: str,
    num_ids: int | None = None,
    sparse: bool = False,
) -> RawGraph:
    """A user's own `.npz`: x (n, f) numbers, y (n,) integers (−1: no class), edge_index (2, m).

    It may also have ids (n,), integers of a universe 0..num_ids-1 (see `RawGraph`), and has them if
    num_ids is given. sparse: how features are kept, which is not decided by how many are 0: sums
    of sparse rows have other last bits, and that number is private.

    Raises:
        GraphDPError: an array is missing or has the wrong shape or type, or features are no
            finite float32 numbers.
    """
    path = folder / file
    if type(sparse) is not bool:  # any text would count as true
        raise GraphDPError(f"loader 'arrays': sparse must be true or false, not {sparse!r}")
    if not zipfile.is_zipfile(path):
        raise GraphDPError(f"{path} is no .npz file: write it with numpy.savez")
    with np.load(path, allow_pickle=False) as arrays:
        missing = {"x", "y", "edge_index"} - set(arrays.files)
        if missing:
            raise GraphDPError(
                f"{path} lacks the array(s) {', '.join(sorted(missing))}: it must hold x (nodes × "
                "features), y (nodes) and edge_index (2 × edges)"
            )
        x, y, edges = (_numbers(path, arrays, name) for name in ("x", "y", "edge_index"))
        ids = _numbers(path, arrays, "ids") if "ids" in arrays.files else None
        if num_ids is not None and ids is None:
            raise GraphDPError(
                f"{path} lacks the array ids (nodes), of a universe of {num_ids}: add it, or leave "
                "num_ids out of the dataset's parameters"
            )
    if edges.shape == (2, 0):  # which is float64 of an empty list
        edges = edges.astype(np.int64)
    if (
        x.ndim != 2
        or y.shape != x.shape[:1]
        or edges.ndim != 2
        or edges.shape[0] != 2
        or x.dtype.kind not in "biuf"
        or y.dtype.kind not in "iu"
        or edges.dtype.kind not in "iu"
    ):
        raise GraphDPError(
            f"{path}: need x (n, f), integer y (n,) and integer edge_index (2, m), got "
            f"x {x.dtype} {x.shape}, y {y.dtype} {y.shape}, edge_index {edges.dtype} {edges.shape}"
        )
    wrong = y[(y < -1) | (y >= MOST_CLASSES)]
    if len(wrong):
        raise GraphDPError(
            f"{path}: y has {wrong[0]}; number classes 0, 1, 2, ... and give nodes without one -1"
        )
    x = _float32(path, x)
    x = sp.csr_matrix(x) if sparse else x
    return RawGraph(x, y.astype(np.int64), edges[0], edges[1], ids, num_ids)


def _numbers(path: Path, arrays: Any, name: str) -> np.ndarray:
    """An array of an open `.npz`. Raises GraphDPError where it holds Python objects."""
    try:
        return arrays[name]
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise GraphDPError(
            f"{path}: the array {name} holds Python objects, such as texts, and no numbers; encode "
            "them as numbers and save it with a numeric dtype"
        ) from None


def _float32(path: Path, x: np.ndarray) -> np.ndarray:
    """Features as float32. Raises GraphDPError naming the first that is none, or not finite."""
    with np.errstate(over="ignore"):
        found = np.asarray(x, dtype=np.float32)
    wrong = ~np.isfinite(found)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        value = x[row, column]
        why, fix = "", "give a number, or leave such nodes or columns out"
        if np.isfinite(value):
            why, fix = f", beyond float32's {np.finfo(np.float32).max:.2g}", "scale features down"
        raise GraphDPError(
            f"{path}: {np.count_nonzero(wrong)} of the features in x are no finite float32 "
            f"numbers, the first in row {row}, column {column} (from 0): {value:g}{why}; {fix}"
        )
    return found


# --- Facebook100 ----------------------------------------------------------------------------------

# Columns of `local_info`, with 0 for "missing"; a seventh one, the high school, is not used.
_STATUS, _GENDER, _MAJOR, _MINOR, _DORM, _YEAR = range(6)


def load_facebook100(folder: Path, files: Sequence[str]) -> RawGraph:
    """One school: class year from status, gender, major, minor and dormitory, as in GAP.

    Every value that occurs in the school gets a column, missing ones an empty entry: Berkeley13
    6 + 2 + 106 + 106 + 217 = 437. (The authors' code leaves an attribute that is never missing as
    one numeric column instead; that concerns the status of a few small schools.)
    """
    return _facebook100(folder, files, (_STATUS, _GENDER, _MAJOR, _MINOR, _DORM))


def load_facebook100_union(folder: Path, files: Sequence[str]) -> RawGraph:
    """All schools side by side: class year from status, gender and major, as in ProGAP's code."""
    return _facebook100(folder, files, (_STATUS, _GENDER, _MAJOR))


def _facebook100(folder: Path, files: Sequence[str], attributes: Sequence[int]) -> RawGraph:
    info, sources, targets, offset = [], [], [], 0
    for name in files:
        school = scipy.io.loadmat(folder / name)
        adjacency = school["A"].tocoo()
        info.append(school["local_info"])
        sources.append(adjacency.row.astype(np.int32) + np.int32(offset))
        targets.append(adjacency.col.astype(np.int32) + np.int32(offset))
        offset += adjacency.shape[0]
    table = np.concatenate(info).astype(np.int64)
    x = sp.hstack([_one_hot(table[:, attribute]) for attribute in attributes], format="csr")
    y = _codes(table[:, _YEAR], missing=0)
    return RawGraph(sp.csr_matrix(x), y, np.concatenate(sources), np.concatenate(targets))


def _codes(values: np.ndarray, missing: Any) -> np.ndarray:
    """Position of each value among the sorted distinct ones, −1 for `missing`; int64."""
    present = values != missing
    codes = np.full(len(values), -1, dtype=np.int64)
    codes[present] = np.unique(values[present], return_inverse=True)[1]
    return codes


def _one_hot(values: np.ndarray) -> sp.csr_matrix:
    """One column per distinct non-zero value; a zero gives an empty row. float32."""
    codes = _codes(values, missing=0)
    rows = np.flatnonzero(codes >= 0)
    ones = np.ones(len(rows), dtype=np.float32)
    return sp.csr_matrix(
        (ones, (rows, codes[rows])), shape=(len(values), codes.max(initial=-1) + 1)
    )


# --- MUSAE and FEATHER: features as JSON lists, edges and targets as CSV --------------------------


def load_musae(
    folder: Path,
    files: Sequence[str],
    features: str,
    edges: str,
    targets: str,
    id_column: str,
    label_column: str,
    archive: str = "",
) -> RawGraph:
    """Original (multi-hot) features of MUSAE's and FEATHER's graphs.

    Args:
        features: JSON object, node id -> list of feature ids (repetitions count once).
        edges: CSV with a header, two columns of node ids.
        targets: CSV with the columns `id_column` (node id) and `label_column` (class).
        archive: a zip that holds the three, in whatever folder; "" if they lie in `folder`.
    """
    opener = _zip_opener(folder / archive) if archive else lambda name: (folder / name).open("rb")
    with opener(targets) as file:
        table = pd.read_csv(file).set_index(id_column)[label_column].sort_index()
    n = len(table)
    if not np.array_equal(table.index, np.arange(n)):
        raise GraphDPError(f"{folder / targets}: column {id_column} is not 0..{n - 1}, each once")
    with opener(features) as file:
        lists = {int(node): ids for node, ids in json.load(file).items()}
    rows = np.repeat(list(lists), [len(ids) for ids in lists.values()])
    columns = np.concatenate([np.asarray(ids, dtype=np.int64) for ids in lists.values()])
    x = sp.csr_matrix(
        (np.ones(len(rows), dtype=np.float32), (rows, columns)), shape=(n, columns.max() + 1)
    )
    x.data[:] = 1  # the constructor added repetitions up
    with opener(edges) as file:
        pairs = pd.read_csv(file).to_numpy(dtype=np.int64)
    y = np.unique(table.to_numpy(), return_inverse=True)[1].astype(np.int64)
    return RawGraph(x, y, pairs[:, 0], pairs[:, 1])


def _zip_opener(path: Path) -> Callable[[str], BinaryIO]:
    """Opens members of a zip by base name."""

    def opener(name: str) -> BinaryIO:
        archive = zipfile.ZipFile(path)
        members = [member for member in archive.namelist() if member.split("/")[-1] == name]
        if len(members) != 1:
            raise GraphDPError(f"{path} holds {len(members)} files named {name}, expected one")
        return archive.open(members[0])  # type: ignore[return-value]

    return opener


# --- ogbn-products --------------------------------------------------------------------------------


def load_ogbn_products(folder: Path, files: Sequence[str]) -> RawGraph:
    """`products.zip` of the Open Graph Benchmark, read without the ogb package.

    Its `raw/` folder holds gzipped CSV without headers: edge (each undirected edge once), node-feat
    and node-label.
    """
    (archive,) = files
    opener = _zip_opener(folder / archive)

    def table(name: str, dtype: type) -> np.ndarray:
        with opener(f"{name}.csv.gz") as file:
            # In chunks: the parser's copies of the whole feature table would double the memory.
            chunks = pd.read_csv(
                file, compression="gzip", header=None, dtype=dtype, chunksize=1 << 20
            )
            return np.concatenate([chunk.to_numpy() for chunk in chunks])

    edges = table("edge", np.int32)
    y = table("node-label", np.int64)[:, 0]
    return RawGraph(table("node-feat", np.float32), y, edges[:, 0], edges[:, 1])


# --- PyG's dataset classes ------------------------------------------------------------------------


def load_planetoid(folder: Path, files: Sequence[str], name: str) -> RawGraph:
    """Cora, CiteSeer or PubMed in Planetoid's format."""
    return _from_pyg("Planetoid", folder, name=name)


def load_amazon(folder: Path, files: Sequence[str], name: str) -> RawGraph:
    """Computers or Photo in gnn-benchmark's format."""
    return _from_pyg("Amazon", folder, name=name)


def load_wikipedia(folder: Path, files: Sequence[str], name: str) -> RawGraph:
    """Chameleon or Squirrel in geom-gcn's format (directed)."""
    return _from_pyg("WikipediaNetwork", folder, name=name, geom_gcn_preprocess=True)


def load_facebook_page_page(folder: Path, files: Sequence[str]) -> RawGraph:
    """Facebook page-page with 128 features."""
    return _from_pyg("FacebookPagePage", folder)


def load_twitch(folder: Path, files: Sequence[str], name: str) -> RawGraph:
    """Twitch with 128 features; `name` is the language, "DE"."""
    return _from_pyg("Twitch", folder, name=name)


def load_lastfm_asia(folder: Path, files: Sequence[str]) -> RawGraph:
    """LastFM Asia with 128 features."""
    return _from_pyg("LastFMAsia", folder)


def load_reddit(folder: Path, files: Sequence[str]) -> RawGraph:
    """GraphSAGE's Reddit: a zip of `reddit_data.npz` and `reddit_graph.npz`."""
    (archive,) = files
    with tempfile.TemporaryDirectory(prefix="graphdp-") as unpacked:
        with zipfile.ZipFile(folder / archive) as content:
            content.extractall(unpacked)
        return _from_pyg("Reddit", Path(unpacked))


def _from_pyg(class_name: str, raw: Path, **arguments: Any) -> RawGraph:
    """Let PyG's class of that name process the files in `raw`, in a temporary folder."""
    import torch_geometric.datasets

    def refuse(dataset: Any) -> None:
        absent = [path for path in dataset.raw_paths if not Path(path).exists()]
        raise GraphDPError(f"PyG's {class_name} also needs {', '.join(absent)}: download it first")

    # The raw files stay where they are; a missing one is an error instead of a download.
    local = type(
        class_name,
        (getattr(torch_geometric.datasets, class_name),),
        {"raw_dir": property(lambda dataset: str(raw)), "download": refuse},
    )
    with tempfile.TemporaryDirectory(prefix="graphdp-") as scratch:
        data = local(scratch, **arguments)[0]
    sources, targets = data.edge_index.numpy()
    return RawGraph(_compact(data.x.numpy()), data.y.numpy().astype(np.int64), sources, targets)


def _compact(x: np.ndarray) -> np.ndarray | sp.csr_matrix:
    """float32 features, sparse where few of them are non-zero."""
    x = np.asarray(x, dtype=np.float32)
    return sp.csr_matrix(x) if np.count_nonzero(x) < SPARSE_BELOW * x.size else x


LOADERS: dict[str, Loader] = {
    "amazon": load_amazon,
    "arrays": load_arrays,
    "csbm": load_csbm,
    "facebook100": load_facebook100,
    "facebook100_union": load_facebook100_union,
    "facebook_page_page": load_facebook_page_page,
    "lastfm_asia": load_lastfm_asia,
    "musae": load_musae,
    "ogbn_products": load_ogbn_products,
    "planetoid": load_planetoid,
    "reddit": load_reddit,
    "twitch": load_twitch,
    "wikipedia": load_wikipedia,
}
