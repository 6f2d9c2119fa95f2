"""Graphs, preprocessing, splits, and the real datasets of the mirror."""

import csv
import dataclasses
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from graphdp import io
from graphdp.data.datasets import DatasetSpec, Preprocessing, Statistics
from graphdp.data.download import download
from graphdp.data.graph import Graph, csr_from_edges
from graphdp.data.loaders import RawGraph
from graphdp.data.preprocess import (
    build,
    check_statistics,
    class_insensitive_homophily,
    preprocess,
    statistics,
)
from graphdp.errors import GraphDPError

ROOT = Path(__file__).parents[1]


def edge_list(graph: Graph) -> list[tuple[int, int]]:
    sources = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    return [(int(a), int(b)) for a, b in zip(sources, graph.indices, strict=True)]


def raw_graph(y, edges, x=None) -> RawGraph:
    y = np.asarray(y, dtype=np.int64)
    ends = np.asarray(edges, dtype=np.int64).reshape(-1, 2)
    if x is None:
        x = np.arange(len(y), dtype=np.float32)[:, None]
    return RawGraph(x, y, ends[:, 0], ends[:, 1])


def small_graph(sparse: bool = False) -> Graph:
    x = np.array([[0, 1.5], [2, 0], [0, 0]], dtype=np.float32)
    return Graph(
        name="small",
        x=sp.csr_matrix(x) if sparse else x,
        y=np.array([0, 1, 0]),
        indptr=np.array([0, 2, 3, 3]),
        indices=np.array([1, 2, 0], dtype=np.int32),
        node_ids=np.array([0, 2, 3]),
        raw_num_nodes=5,
        num_classes=2,
    )


# --- Graph ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True])
def test_save_and_load_give_the_same_graph_and_bytes(tmp_path, sparse):
    graph = small_graph(sparse).validate()
    for name in ("a.npz", "b.npz"):
        graph.save(tmp_path / name)
    loaded = Graph.load(tmp_path / "a.npz").validate()
    assert loaded.fingerprint() == graph.fingerprint()
    assert sp.issparse(loaded.x) == sparse
    for field in dataclasses.fields(Graph):
        mine, theirs = getattr(graph, field.name), getattr(loaded, field.name)
        if sp.issparse(mine):
            mine, theirs = mine.toarray(), theirs.toarray()
        np.testing.assert_array_equal(mine, theirs)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_fingerprint_covers_everything():
    graph = small_graph()
    changed = [
        {"name": "other"},
        {"x": graph.x + 1},
        {"x": sp.csr_matrix(graph.x)},
        {"y": np.array([1, 1, 0])},
        {"indices": np.array([0, 2, 0], dtype=np.int32)},
        {"indptr": np.array([0, 1, 3, 3])},
        {"node_ids": np.array([0, 2, 4])},
        {"raw_num_nodes": 6},
        {"num_classes": 3},
    ]
    prints = {dataclasses.replace(graph, **change).fingerprint() for change in changed}
    assert len(prints | {graph.fingerprint()}) == len(changed) + 1


@pytest.mark.parametrize("sparse", [False, True])
def test_arrays_are_immutable_without_freezing_the_callers(sparse):
    graph = small_graph(sparse)
    with pytest.raises(ValueError, match="read-only"):
        graph.indices[0] = 2
    values = graph.x.data if sparse else graph.x
    with pytest.raises(ValueError, match="read-only"):
        values[0] = 2
    mine = np.array([0, 1, 0])
    dataclasses.replace(graph, y=mine)
    mine[0] = 1  # must not raise


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.array([0, 1, 0], dtype=np.int32)}, "y must be int64"),
        ({"indptr": np.array([0, 2, 3])}, "indptr must be"),
        ({"indices": np.array([1, 2, 0])}, "indices must be int32"),
        ({"x": np.zeros((2, 2), dtype=np.float32)}, "x must be float32 of shape"),
        ({"x": np.zeros((3, 2))}, "x must be float32"),
        ({"x": sp.csc_matrix(np.zeros((3, 2), dtype=np.float32))}, "must be CSR"),
    ],
)
def test_wrong_arrays_are_refused(change, message):
    with pytest.raises(GraphDPError, match=message):
        dataclasses.replace(small_graph(), **change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"indices": np.array([2, 1, 0], dtype=np.int32)}, "strictly increasing"),
        ({"indices": np.array([1, 1, 0], dtype=np.int32)}, "strictly increasing"),
        ({"indices": np.array([0, 2, 0], dtype=np.int32)}, "self-loops"),
        ({"indices": np.array([1, 3, 0], dtype=np.int32)}, "targets outside"),
        ({"indptr": np.array([0, 2, 1, 3])}, "indptr must rise"),
        ({"indptr": np.array([0, 2, 2, 2])}, "indptr must rise"),
        ({"y": np.array([0, 2, 0])}, "classes outside"),
        ({"node_ids": np.array([0, 3, 2])}, "node_ids"),
        ({"raw_num_nodes": 3}, "node_ids"),
        (
            {"x": np.array([[np.nan], [0], [0]], dtype=np.float32)},
            "1 features are not finite, the first in row 0, column 0",
        ),
        (
            {"x": sp.csr_matrix(np.array([[0, 1], [0, 0], [1, np.inf]], dtype=np.float32))},
            "first in row 2, column 1 ",
        ),
    ],
)
def test_validate_names_what_does_not_hold(change, message):
    with pytest.raises(GraphDPError, match=message):
        dataclasses.replace(small_graph(), **change).validate()


def test_loading_what_is_no_graph(tmp_path):
    with pytest.raises(GraphDPError, match="run the preprocess step first"):
        Graph.load(tmp_path / "absent.npz")
    small_graph().save(tmp_path / "graph.npz")
    content = (tmp_path / "graph.npz").read_bytes()
    (tmp_path / "graph.npz").write_bytes(content[: len(content) // 2])
    with pytest.raises(GraphDPError, match="not a readable graph file"):
        Graph.load(tmp_path / "graph.npz")
    small_graph().save(tmp_path / "graph.npz")
    arrays = io.load_npz(tmp_path / "graph.npz")
    for field in ("y", "indices", "indptr", "ids"):
        io.save_npz(tmp_path / "graph.npz", **(arrays | {field: np.int64(3)}))
        with pytest.raises(GraphDPError, match=f"{field} must be int"):
            Graph.load(tmp_path / "graph.npz")


# --- Preprocessing against brute force ------------------------------------------------------------

raw_graphs = st.integers(1, 9).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(-1, 3), min_size=n, max_size=n),
        st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=40),
    )
)


@given(raw_graphs, st.booleans(), st.integers(1, 3), st.booleans())
@settings(max_examples=400)
def test_build_against_brute_force(drawn, symmetrise, min_class_count, remove_isolated):
    y, edges = drawn
    steps = Preprocessing(
        symmetrise=symmetrise, min_class_count=min_class_count, remove_isolated=remove_isolated
    )
    classes = [c for c in range(4) if y.count(c) >= min_class_count]
    kept = [i for i, c in enumerate(y) if c in classes]
    wanted = {(a, b) for a, b in edges if a != b and a in kept and b in kept}
    if symmetrise:
        wanted |= {(b, a) for a, b in wanted}
    if remove_isolated:
        kept = [i for i in kept if any(i in edge for edge in wanted)]
    if not kept:
        with pytest.raises(GraphDPError):
            build("toy", raw_graph(y, edges), steps)
        return

    graph = build("toy", raw_graph(y, edges), steps).validate()
    new = {old: position for position, old in enumerate(kept)}
    assert edge_list(graph) == sorted((new[a], new[b]) for a, b in wanted)
    assert graph.y.tolist() == [classes.index(y[i]) for i in kept]
    assert graph.x[:, 0].tolist() == kept, "features must follow their nodes"
    labelled = [i for i, c in enumerate(y) if c >= 0]
    assert graph.node_ids.tolist() == [labelled.index(i) for i in kept]
    assert graph.raw_num_nodes == len(labelled)
    assert graph.ids.tolist() == kept and graph.num_ids == len(y)
    assert graph.num_classes == len(classes)


def test_last_node_and_duplicates():
    indptr, indices = csr_from_edges(
        np.array([2, 2, 0, 2, 1]), np.array([0, 0, 2, 2, 1]), 3, symmetrise=False
    )
    assert indptr.tolist() == [0, 1, 1, 2] and indices.tolist() == [2, 0]
    assert indptr.dtype == np.int64 and indices.dtype == np.int32


def test_many_duplicates_still_make_one_edge():
    """300 copies: a one-byte count would wrap around to 44, and 256 copies to nothing."""
    for copies in (256, 300):
        ends = np.zeros(copies, dtype=int), np.ones(copies, dtype=int)
        indptr, indices = csr_from_edges(*ends, 2, symmetrise=True)
        assert indptr.tolist() == [0, 1, 2] and indices.tolist() == [1, 0]


def test_sparse_features_stay_sparse():
    x = sp.csr_matrix(np.eye(4, dtype=np.float32))
    steps = Preprocessing(min_class_count=2)
    graph = build("toy", raw_graph([0, 1, 2, 1], [(1, 3)], x), steps)
    assert sp.issparse(graph.x) and graph.x.format == "csr"
    assert graph.x.toarray().tolist() == [[0, 1, 0, 0], [0, 0, 0, 1]]


def test_nothing_left_names_the_cause():
    with pytest.raises(GraphDPError, match=r"min_class_count = 5 .*largest has 2"):
        build("toy", raw_graph([0, 1, 1], []), Preprocessing(min_class_count=5))
    for steps in (Preprocessing(min_class_count=2), Preprocessing(num_classes=3)):
        with pytest.raises(GraphDPError, match="'toy': no node has a class: y is -1 for all 2"):
            build("toy", raw_graph([-1, -1], []), steps)


def test_edges_outside_the_graph_are_refused():
    for edge, node in (((0, 3), 3), ((-1, 0), -1)):
        message = rf"an edge names node {node} of 0\.\.2; edges name nodes by their row"
        with pytest.raises(GraphDPError, match=message):
            build("toy", raw_graph([0, 1, 1], [edge]), Preprocessing())


def test_statistics_mismatch_shows_both_numbers():
    graph = build("toy", raw_graph([0, 1, 1], [(0, 1), (1, 2)]), Preprocessing())
    right = Statistics(source="Table 9", nodes=3, edges=4, features=1, classes=2)
    spec = DatasetSpec(name="toy", title="Toy", loader="arrays", statistics=right)
    check_statistics(spec, graph)
    for key, wrong, found in (
        ("nodes", 1234, 3),
        ("edges", 5, 4),
        ("features", 7, 1),
        ("classes", 3, 2),
    ):
        bad = spec.model_copy(update={"statistics": right.model_copy(update={key: wrong})})
        with pytest.raises(
            GraphDPError, match=rf"Table 9: {key}: expected {wrong:,}, found {found}\."
        ):
            check_statistics(bad, graph)


def test_statistics_of_a_known_graph():
    # Classes 0, 0, 1; undirected edges 0-1, 1-2.
    graph = build("toy", raw_graph([0, 0, 1], [(0, 1), (1, 2)]), Preprocessing())
    found = statistics(graph)
    assert found == {
        "nodes": 3,
        "edges": 4,
        "average_degree": 4 / 3,
        "median_degree": 1.0,
        "max_out_degree": 2,
        "features": 1,
        "classes": 2,
        # Two of the three entries that leave class 0 stay; none of class 1's does.
        "homophily": pytest.approx((2 / 3 - 2 / 3) + 0.0),
        "fingerprint": graph.fingerprint(),
    }


def test_homophily_extremes():
    same = build("toy", raw_graph([0, 0, 1, 1], [(0, 1), (2, 3)]), Preprocessing())
    other = build("toy", raw_graph([0, 0, 1, 1], [(0, 2), (1, 3)]), Preprocessing())
    assert class_insensitive_homophily(same) == 1.0
    assert class_insensitive_homophily(other) == 0.0


def test_preprocess_wants_its_files_and_a_known_loader(tmp_path, registry):
    with pytest.raises(GraphDPError, match=r"lacks Berkeley13\.mat: download it first"):
        preprocess(registry.resolve("berkeley13"), tmp_path)
    spec = registry.resolve("berkeley13").model_copy(update={"loader": "nope"})
    with pytest.raises(GraphDPError, match="unknown loader 'nope'"):
        preprocess(spec, tmp_path)
    (tmp_path / "Berkeley13.mat").write_bytes(b"not a mat file at all")
    with pytest.raises(GraphDPError, match=r"cannot read the raw files .* 'facebook100'"):
        preprocess(registry.resolve("berkeley13"), tmp_path)


def test_csbm_through_the_registry(tmp_path, registry):
    small = {"small": {"base": "csbm", "parameters": {"n": 200, "f": 5, "phi": 1, "seed": 4}}}
    graph = preprocess(registry.resolve("small", small), tmp_path)
    assert (graph.name, graph.num_nodes, graph.num_features, graph.num_classes) == (
        "small",
        200,
        5,
        2,
    )
    assert graph.raw_num_nodes == 200
    edges = edge_list(graph)
    assert sorted((b, a) for a, b in edges) == edges


# --- The real graphs of the mirror ----------------------------------------------------------------

# As the mirror's README states them, independently of the registry:
# nodes, directed entries, features, classes.
REAL = {
    "cora": (2708, 10556, 1433, 7),
    "citeseer": (3327, 9104, 3703, 6),
    "pubmed": (19717, 88648, 500, 3),
    "computers": (13471, 491722, 767, 10),
    "photo": (7535, 238162, 745, 8),
    "chameleon": (2277, 36051, 2325, 5),
    "facebook-pages": (22470, 2 * (171002 - 179), 4714, 4),
    "twitch-de": (9498, 2 * 153138, 3170, 2),
    "berkeley13": (18980, 1354934, 437, 6),
    "uva16": (14676, 1371602, 340, 6),
    # Parsing its 22 MB of text takes seven seconds.
    "squirrel": (5201, 216933, 2089, 5),
}


def printed_homophily():
    """Of a graph, as DPDGC's Table 1 prints it."""
    with (ROOT / "config/published/dpdgc.csv").open(newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["metric"] == "homophily"]
    return {line["dataset"]: float(line["mean"]) for line in lines}


@pytest.mark.slow
@pytest.mark.real_data
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name == "squirrel" else name for name in REAL],
)
def test_real_graph_has_the_registered_and_the_stated_counts(real_graph, registry, name):
    graph = real_graph(name).validate()
    counts = (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes)
    assert counts == REAL[name]
    if name in ("cora", "citeseer", "pubmed", "computers", "photo"):  # 1 % ones, 10 % and more
        assert sp.issparse(graph.x) == (name in ("cora", "citeseer"))
    expected = registry.resolve(name).statistics
    assert counts == (expected.nodes, expected.edges, expected.features, expected.classes)
    if registry.resolve(name).preprocessing.symmetrise:
        adjacency = sp.csr_matrix((np.ones(graph.num_edges), graph.indices, graph.indptr))
        assert (adjacency != adjacency.T).nnz == 0
    if (printed := printed_homophily().get(name)) is not None:
        assert class_insensitive_homophily(graph) == pytest.approx(printed, abs=5e-5)


@pytest.mark.real_data
@pytest.mark.parametrize("name", ["berkeley13", "uva16"])
def test_facebook100_features_are_one_hot_per_attribute(real_graph, name):
    graph = real_graph(name)
    assert sp.issparse(graph.x), "one-hot features must stay sparse"
    assert (graph.x.data == 1).all()
    ones = np.diff(graph.x.indptr)
    assert ones.min() >= 1 and ones.max() == 5, "five attributes, some missing"
    # Status and gender are the first 6 + 2 columns; nobody has two of a kind.
    for columns in (slice(0, 6), slice(6, 8)):
        assert graph.x[:, columns].sum(1).max() == 1


@pytest.mark.real_data
def test_isolated_nodes_of_berkeley_and_the_papers_way_without_them(registry, mirror, tmp_path):
    definitions = {"connected": {"base": "berkeley13", "preprocessing": {"remove_isolated": True}}}
    spec = registry.resolve("connected", definitions)
    download(spec, tmp_path, mirror=mirror, offline=True)
    graph = preprocess(spec, tmp_path)
    assert (graph.num_nodes, graph.num_edges) == (18980 - 41, 1354934)
    assert np.diff(graph.indptr).min() == 1
    assert graph.raw_num_nodes == 19425, "nodes with a class year"


@pytest.mark.real_data
def test_small_schools_load(real_graph):
    for name in ("caltech36", "reed98"):
        graph = real_graph(name).validate()
        assert np.bincount(graph.y).min() >= 50 and graph.num_classes >= 4


@pytest.mark.slow
@pytest.mark.real_data
def test_edge_direction_is_kept_where_it_matters(real_graph, mirror):
    graph = real_graph("chameleon")
    lines = (mirror / "wikipedia/chameleon/out1_graph_edges.txt").read_text().splitlines()[1:]
    pairs = {tuple(map(int, line.split("\t"))) for line in lines}
    assert set(edge_list(graph)) == {(a, b) for a, b in pairs if a != b}


def test_nodes_keep_their_ids_whichever_others_are_dropped():
    """By them nodes are split and public candidates drawn."""
    y = np.array([0, -1, 1, 0, 2, 1, 0])
    ids = np.array([17, 3, 40, 8, 21, 5, 30])
    edges = np.array([0, 2, 3]), np.array([2, 3, 5])
    raw = RawGraph(np.eye(7, dtype=np.float32), y, *edges, ids=ids, num_ids=50)
    for steps, kept in (
        (Preprocessing(), [0, 2, 3, 4, 5, 6]),
        (Preprocessing(min_class_count=2), [0, 2, 3, 5, 6]),
        (Preprocessing(min_class_count=2, remove_isolated=True), [0, 2, 3, 5]),
    ):
        found = build("g", raw, steps)
        assert found.ids.tolist() == ids[kept].tolist() and found.num_ids == 50
