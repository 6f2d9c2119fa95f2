"""Loaders on small files written in the true raw formats (what the mirror does not have)."""

import gzip
import json
import zipfile

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from graphdp.data.datasets import DatasetSpec
from graphdp.data.loaders import LOADERS
from graphdp.data.preprocess import preprocess
from graphdp.errors import GraphDPError

pytestmark = pytest.mark.usefixtures("only_loopback")

X = np.arange(12, dtype=np.float32).reshape(4, 3) + 1
Y = np.array([1, 0, 1, 0])
EDGES = [(0, 1), (1, 0), (2, 3), (2, 3), (1, 1)]


def pairs(raw):
    return sorted(set(zip(raw.sources.tolist(), raw.targets.tolist(), strict=True)))


def dense(x):
    return x.toarray() if sp.issparse(x) else x


def load(registry, name, folder):
    spec = registry.resolve(name)
    return LOADERS[spec.loader](folder, [file.name for file in spec.files], **spec.parameters)


def unchecked(registry, name, **preprocessing):
    """The registered dataset without its counts, so that a tiny stand-in passes."""
    preprocessing = {"min_class_count": 1} | preprocessing
    return registry.resolve("toy", {"toy": {"base": name, "preprocessing": preprocessing}})


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("facebook-pages-128", "facebook.npz"),
        ("twitch-de-128", "DE.npz"),
        ("lastfm-128", "lastfm_asia.npz"),
    ],
)
def test_pyg_npz(registry, tmp_path, name, file):
    np.savez(tmp_path / file, features=X, target=Y, edges=np.array(EDGES))
    raw = load(registry, name, tmp_path)
    np.testing.assert_array_equal(dense(raw.x), X)
    assert raw.y.tolist() == Y.tolist() and raw.y.dtype == np.int64
    assert pairs(raw) == sorted(set(EDGES))
    graph = preprocess(unchecked(registry, name), tmp_path)
    assert graph.num_edges == 4


def test_reddit(registry, tmp_path):
    adjacency = sp.coo_matrix((np.ones(5), tuple(np.array(EDGES).T)), shape=(4, 4))
    np.savez(
        tmp_path / "reddit_data.npz",
        feature=X,
        label=Y,
        node_ids=np.arange(4),
        node_types=np.array([1, 2, 3, 1]),
    )
    sp.save_npz(tmp_path / "reddit_graph.npz", adjacency)
    raw_folder = tmp_path / "raw"
    raw_folder.mkdir()
    with zipfile.ZipFile(raw_folder / "reddit.zip", "w") as archive:
        for name in ("reddit_data.npz", "reddit_graph.npz"):
            archive.write(tmp_path / name, name)
    raw = load(registry, "reddit", raw_folder)
    np.testing.assert_array_equal(raw.x, X)
    assert raw.y.tolist() == Y.tolist()
    assert pairs(raw) == sorted(set(EDGES))
    graph = preprocess(unchecked(registry, "reddit"), raw_folder)
    assert (graph.num_nodes, graph.num_edges) == (4, 4)
    assert [path.name for path in raw_folder.iterdir()] == ["reddit.zip"], "raw folder is clean"


def test_ogbn_products(registry, tmp_path):
    tables = {
        "edge": "".join(f"{a},{b}\n" for a, b in EDGES),
        "node-feat": "".join(",".join(map(str, row)) + "\n" for row in X),
        "node-label": "".join(f"{label}\n" for label in Y),
        "num-node-list": "4\n",
        "num-edge-list": "5\n",
    }
    with zipfile.ZipFile(tmp_path / "products.zip", "w") as archive:
        for name, text in tables.items():
            archive.writestr(f"products/raw/{name}.csv.gz", gzip.compress(text.encode()))
        archive.writestr("products/split/sales_ranking/train.csv.gz", gzip.compress(b"0\n"))
    raw = load(registry, "amazon", tmp_path)
    np.testing.assert_array_equal(raw.x, X)
    assert raw.x.dtype == np.float32
    assert raw.y.tolist() == Y.tolist()
    assert pairs(raw) == sorted(set(EDGES))
    graph = preprocess(unchecked(registry, "amazon"), tmp_path)
    assert (graph.num_nodes, graph.num_edges) == (4, 4), "each edge is stored in one direction"


def test_lastfm_original_features_from_the_zip(registry, tmp_path):
    features = {"0": [2, 5], "2": [0], "1": [5, 5], "3": []}
    with zipfile.ZipFile(tmp_path / "lastfm_asia.zip", "w") as archive:
        folder = "lasftm_asia/"
        archive.writestr(folder + "lastfm_asia_features.json", json.dumps(features))
        archive.writestr(folder + "lastfm_asia_edges.csv", "node_1,node_2\n0,1\n3,2\n")
        # Rows need not be in order.
        archive.writestr(folder + "lastfm_asia_target.csv", "id,target\n1,7\n0,4\n3,7\n2,9\n")
    raw = load(registry, "lastfm", tmp_path)
    assert raw.y.tolist() == [0, 1, 2, 1]
    assert pairs(raw) == [(0, 1), (3, 2)]
    expected = np.zeros((4, 6))
    expected[[0, 0, 1, 2], [2, 5, 5, 0]] = 1
    np.testing.assert_array_equal(raw.x.toarray(), expected)


def test_musae_with_gaps_in_the_ids_is_refused(registry, tmp_path):
    (tmp_path / "facebook.json").write_text("{}")
    (tmp_path / "facebook_edges.csv").write_text("id_1,id_2\n")
    (tmp_path / "facebook_target.csv").write_text("id,page_type\n0,a\n2,b\n")
    with pytest.raises(GraphDPError, match=r"column id is not 0\.\.1"):
        load(registry, "facebook-pages", tmp_path)


# status, gender, major, minor, dorm, year, high school; 0 is missing.
INFO = np.array(
    [
        [1, 2, 10, 0, 7, 2005, 900],
        [2, 1, 0, 10, 0, 2006, 901],
        [1, 0, 11, 0, 8, 0, 902],
        [0, 1, 12, 11, 7, 2006, 903],
    ],
    dtype=np.uint16,
)
FRIENDS = sp.csc_matrix(np.array([[0, 1, 1, 0], [1, 0, 0, 0], [1, 0, 0, 1], [0, 0, 1, 0]], float))


def test_facebook100_school(registry, tmp_path):
    scipy.io.savemat(tmp_path / "UIllinois20.mat", {"A": FRIENDS, "local_info": INFO})
    raw = load(registry, "facebook", tmp_path)
    assert raw.y.tolist() == [0, 1, -1, 1]
    assert pairs(raw) == [(0, 1), (0, 2), (1, 0), (2, 0), (2, 3), (3, 2)]
    # status 1 2 | gender 1 2 | major 10 11 12 | minor 10 11 | dorm 7 8
    assert raw.x.toarray().tolist() == [
        [1, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0],
        [0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0],
        [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1],
        [0, 0, 1, 0, 0, 0, 1, 0, 1, 1, 0],
    ]
    graph = preprocess(unchecked(registry, "facebook"), tmp_path)
    # Node 2 has no year; node 3 loses its only friend with it and goes as isolated.
    assert graph.node_ids.tolist() == [0, 1] and graph.raw_num_nodes == 3
    assert graph.num_edges == 2 and graph.num_features == 11


def test_facebook100_union(tmp_path):
    second = INFO.copy()
    second[:, 2] = [20, 10, 0, 20]
    scipy.io.savemat(tmp_path / "A1.mat", {"A": FRIENDS, "local_info": INFO})
    scipy.io.savemat(tmp_path / "B2.mat", {"A": FRIENDS, "local_info": second})
    raw = LOADERS["facebook100_union"](tmp_path, ["A1.mat", "B2.mat"])
    # status 1 2 | gender 1 2 | major 10 11 12 20; no minor, no dormitory.
    assert raw.x.shape == (8, 8)
    assert raw.x.toarray()[4].tolist() == [1, 0, 0, 1, 0, 0, 0, 1]
    assert raw.y.tolist() == [0, 1, -1, 1] * 2
    one = [(0, 1), (0, 2), (1, 0), (2, 0), (2, 3), (3, 2)]
    assert pairs(raw) == one + [(a + 4, b + 4) for a, b in one]


def test_wenet_from_a_users_file(registry, tmp_path):
    arrays = {"x": X, "y": np.array([0, -1, 2, 2]), "edge_index": np.array(EDGES).T}
    np.savez(tmp_path / "wenet.npz", **arrays)
    graph = preprocess(unchecked(registry, "wenet"), tmp_path)
    assert graph.num_nodes == 2, "node 1 has no class, which leaves node 0 without an edge"
    assert graph.y.tolist() == [1, 1] and graph.num_classes == 2
    with pytest.raises(GraphDPError, match=r"nodes: expected 37,576, found 2"):
        preprocess(registry.resolve("wenet"), tmp_path)

    np.savez(tmp_path / "wenet.npz", x=X, y=Y)
    with pytest.raises(GraphDPError, match=r"lacks the array.* edge_index"):
        preprocess(registry.resolve("wenet"), tmp_path)
    np.savez(tmp_path / "wenet.npz", **(arrays | {"edge_index": np.array(EDGES)}))
    with pytest.raises(GraphDPError, match=r"edge_index int64 \(5, 2\)"):
        preprocess(registry.resolve("wenet"), tmp_path)


def test_missing_raw_file_of_a_pyg_class_is_an_error_not_a_download(registry, tmp_path):
    with pytest.raises(GraphDPError, match=r"Planetoid also needs .*ind\.cora\.x"):
        load(registry, "cora", tmp_path)


@pytest.mark.parametrize("ones", [1, 100])
def test_how_a_users_features_are_kept_does_not_follow_from_how_many_are_0(
    registry, tmp_path, ones
):
    """One node could tip it, and sums of sparse rows have other last bits."""
    x = np.zeros((4, 100), dtype=np.float32)
    x[:, :ones] = 1
    np.savez(tmp_path / "wenet.npz", x=x, y=Y, edge_index=np.array(EDGES).T)
    for sparse in (False, True):
        found = LOADERS["arrays"](tmp_path, [], "wenet.npz", sparse=sparse).x
        assert sp.issparse(found) == sparse
        np.testing.assert_array_equal(dense(found), x)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": X + 1j}, "need x .* got x complex"),
        ({"x": X.astype("datetime64[s]")}, "need x .* got x datetime64"),
        ({"y": np.array([-5, 0, 1, 0])}, "y has -5; number classes 0, 1, 2"),
        ({"y": np.array([0, 1, 2, 2]) * 10**12}, "y has 1000000000000; number classes"),
        ({"y": np.array([2**63, 0, 1, 0], np.uint64)}, "y has 9223372036854775808; number"),
        ({"y": np.array([0, 0, 0, -1])}, "has 1 classes, and a model needs 2"),
        ({"x": X[:, :0]}, "has 0 features, and a model needs 1"),
        ({"ids": np.arange(4) * 10**10}, "universe of ids has 30000000001 members; a whole number"),
        ({"ids": np.array([2**62, 0, 1, 2])}, "universe of ids has 4611686018427387905 members"),
        (
            {"ids": np.array([2**64 - 1, 0, 1, 2], np.uint64)},
            "universe of ids has 1844674407370955",
        ),
        ({"ids": np.arange(4.0)}, "ids must be 4 different integers"),
        (
            {"x": np.array([[1, 2], [3, np.nan], [0, 0], [np.inf, np.nan]])},
            r"3 of the features in x are no finite .* in row 1, column 1 \(from 0\): nan; give",
        ),
        (
            {"x": np.array([[0.0], [0], [-1e39], [0]])},
            r"row 2, column 0 \(from 0\): -1e\+39, beyond float32's 3.4e\+38; scale features down",
        ),
        ({"x": np.array([[1, "b"]] * 4, dtype=object)}, "mine.npz: the array x holds Python obj"),
        ({"y": np.array([1, "b", 1, 0], dtype=object)}, "array y holds Python objects, such as"),
        ({"ids": np.array([1, "b", 2, 0], dtype=object)}, "array ids holds Python objects"),
        ({"edge_index": np.zeros((2, 1))}, r"edge_index float64 \(2, 1\)"),
        ({"edge_index": np.zeros((3, 0))}, r"edge_index float64 \(3, 0\)"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_what_a_users_arrays_cannot_be(tmp_path, changes, message):
    arrays = {"x": X, "y": Y, "edge_index": np.array(EDGES).T} | changes
    np.savez(tmp_path / "mine.npz", **arrays)
    spec = DatasetSpec(name="mine", title="Mine", loader="arrays", parameters={"file": "mine.npz"})
    with pytest.raises(GraphDPError, match=message) as error:
        preprocess(spec, tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("dtype", [np.float64, np.int32, bool, "U1"])
def test_without_edges_their_type_does_not_matter(tmp_path, dtype):
    np.savez(tmp_path / "mine.npz", x=X, y=Y, edge_index=np.empty((2, 0), dtype))
    spec = DatasetSpec(name="mine", title="Mine", loader="arrays", parameters={"file": "mine.npz"})
    assert preprocess(spec, tmp_path).num_edges == 0


def test_the_largest_float32_is_taken(tmp_path):
    largest = np.finfo(np.float32).max
    np.savez(tmp_path / "mine.npz", x=X + largest.astype(float), y=Y, edge_index=np.array(EDGES).T)
    assert LOADERS["arrays"](tmp_path, [], "mine.npz").x.max() == largest


def test_a_universe_wants_ids(tmp_path):
    np.savez(tmp_path / "mine.npz", x=X, y=Y, edge_index=np.array(EDGES).T)
    with pytest.raises(GraphDPError, match=r"lacks the array ids .* 9: add it, or leave num_ids"):
        LOADERS["arrays"](tmp_path, [], "mine.npz", num_ids=9)
    assert LOADERS["arrays"](tmp_path, [], "mine.npz").ids is None


def test_a_text_does_not_make_features_sparse(tmp_path):
    np.savez(tmp_path / "mine.npz", x=X, y=Y, edge_index=np.array(EDGES).T)
    with pytest.raises(GraphDPError, match="sparse must be true or false, not 'no'"):
        LOADERS["arrays"](tmp_path, [], "mine.npz", sparse="no")


@pytest.mark.parametrize("num_ids", ["1000", 1000.5, True, 10**12, -1])
def test_a_universe_is_a_number_that_can_be_drawn_for(tmp_path, num_ids):
    arrays = {"x": X, "y": Y, "edge_index": np.array(EDGES).T, "ids": np.arange(4)}
    np.savez(tmp_path / "mine.npz", **arrays)
    parameters = {"file": "mine.npz", "num_ids": num_ids}
    spec = DatasetSpec(name="mine", title="Mine", loader="arrays", parameters=parameters)
    with pytest.raises(GraphDPError, match=r"dataset 'mine': the universe of ids has .* members"):
        preprocess(spec, tmp_path)


def test_a_file_that_is_no_archive_is_said_to_be_none(tmp_path):
    """Numpy would advise to load it unsafely."""
    (tmp_path / "mine.npz").write_text("x,y\n1,2\n")
    with pytest.raises(GraphDPError, match=r"mine\.npz is no \.npz file: write it with numpy"):
        LOADERS["arrays"](tmp_path, ["mine.npz"], "mine.npz")
