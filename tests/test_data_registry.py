"""The registry: names, variants, and one-line errors."""

import subprocess
import sys

import pytest

from graphdp.data.datasets import DatasetSpec, load_registry
from graphdp.errors import GraphDPError

NAMES = [
    *("facebook", "berkeley13", "uva16", "caltech36", "reed98", "uillinois20", "fb-100", "reddit"),
    *("amazon", "wenet", "cora", "citeseer", "pubmed", "computers", "photo", "chameleon"),
    *("squirrel", "facebook-pages", "twitch-de", "lastfm", "csbm"),
]


@pytest.mark.parametrize("name", NAMES)
def test_every_promised_name_resolves(registry, name):
    from graphdp.data.loaders import LOADERS

    spec = registry.resolve(name)
    assert spec.name == name
    assert spec.loader in LOADERS
    assert spec.files or name == "csbm"
    for file in spec.files:
        assert file.url or spec.by_hand, "a file must have a URL or instructions"


def test_facebook_is_uillinois20_with_the_papers_counts(registry):
    spec = registry.resolve("facebook")
    assert [file.name for file in spec.files] == ["UIllinois20.mat"]
    assert spec.files[0].git_sha1 == "140f9c6e2f4bf041abe5c7cdf838f92786420b3a"
    counts = spec.statistics
    assert (counts.nodes, counts.edges, counts.features, counts.classes) == (26406, 2117924, 501, 6)
    assert spec.preprocessing.min_class_count == 1000


def test_every_school_has_a_hash_and_the_union_has_every_school(registry):
    union = registry.resolve("fb-100")
    assert len(union.files) == len({file.name for file in union.files}) == 100
    for file in union.files:
        school = registry.resolve(file.name.removesuffix(".mat").lower())
        assert school.files == (file,)
        assert len(file.git_sha1) == 40


def test_unknown_name_gives_the_nearest_one(registry):
    with pytest.raises(
        GraphDPError, match=r"unknown dataset 'Berkely13'; did you mean 'berkeley13'"
    ):
        registry.resolve("Berkely13")


def test_variant_changes_parameters_and_nothing_else(registry):
    base = registry.resolve("csbm")
    variant = registry.resolve(
        "half", {"half": {"base": "csbm", "parameters": {"phi": -0.5, "d": 7}}}
    )
    assert variant.parameters == base.parameters | {"phi": -0.5, "d": 7.0}
    assert variant.name == "half" and variant.loader == base.loader
    assert base.parameters["phi"] == 0.5, "the registered dataset must not change"


def test_variant_of_preprocessing_drops_the_counts_it_invalidates(registry):
    definitions = {
        "connected": {"base": "berkeley13", "preprocessing": {"remove_isolated": True}},
        "counted": {
            "base": "berkeley13",
            "preprocessing": {"remove_isolated": True},
            "statistics": {"source": "own", "nodes": 18939},
        },
        "renamed": {"base": "berkeley13", "title": "Berkeley"},
    }
    connected = registry.resolve("connected", definitions)
    assert connected.preprocessing.remove_isolated
    assert connected.preprocessing.min_class_count == 1000
    assert connected.statistics is None
    assert registry.resolve("counted", definitions).statistics.nodes == 18939
    renamed = registry.resolve("renamed", definitions)
    assert renamed.statistics.nodes == 18980 and renamed.title == "Berkeley"


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ({"base": "csbm", "parameters": {"ph": 0.5}}, "unknown parameter 'ph'; did you mean 'phi'"),
        ({"base": "csbm", "parameters": {"phi": "x"}}, "'phi' must be of type float, got 'x'"),
        ({"base": "csbm", "parameters": {"n": 2.5}}, "'n' must be of type int, got 2.5"),
        ({"base": "csbn"}, "unknown dataset 'csbn'; did you mean 'csbm'"),
        (
            {"base": "csbm", "paramters": {}},
            "paramters: unknown key 'paramters'; did you mean 'parameters'",
        ),
        ({"base": "cora", "preprocessing": {"symmetrize": True}}, "did you mean 'symmetrise'"),
        ({"base": "cora", "preprocessing": {"min_class_count": 0}}, "min_class_count.*greater"),
        ({"base": "facebook", "parameters": {"n": 5}}, "unknown parameter 'n'; known: none"),
        ({"parameters": {}}, "base: the key 'base' is missing; add"),
    ],
)
def test_wrong_definitions_are_refused_in_one_line(registry, definition, message):
    with pytest.raises(GraphDPError, match=message) as error:
        registry.resolve("variant", {"variant": definition})
    assert "\n" not in str(error.value)


def test_specifications_survive_json(registry):
    """Jobs get their specification as JSON; types (10.0, not 10) must come back."""
    for name in registry.names:
        spec = registry.resolve(name)
        back = DatasetSpec.model_validate_json(spec.model_dump_json())
        assert back == spec
        assert repr(back.parameters) == repr(spec.parameters)


def test_definition_cannot_hide_a_registered_dataset(registry):
    with pytest.raises(GraphDPError, match="hides the registered dataset"):
        registry.resolve("cora", {"cora": {"base": "csbm"}})


def test_nearest_name_may_be_a_definition(registry):
    with pytest.raises(GraphDPError, match=r"did you mean 'csbm-phi-0\.5'"):
        registry.resolve("csbm-phi0.5", {"csbm-phi-0.5": {"base": "csbm"}})


def test_damaged_registry_names_the_place_and_the_nearest_key(registry, tmp_path):
    text = (registry._path).read_text()
    wrong = tmp_path / "datasets.yaml"
    wrong.write_text(text.replace("preprocessing: {symmetrise: false}", "preprocesing: {}", 1))
    with pytest.raises(
        GraphDPError, match=r"datasets\.chameleon\.preprocesing.*did you mean 'preprocessing'"
    ):
        load_registry(wrong)
    with pytest.raises(GraphDPError, match="cannot read the dataset registry"):
        load_registry(tmp_path / "absent.yaml")


@pytest.mark.parametrize(
    "content",
    ["title: Garçon".encode("latin-1"), b"when: 2024-13-01"],
    ids=["not UTF-8", "no such day"],
)
def test_a_registry_that_cannot_be_read_is_one_line(content, tmp_path):
    wrong = tmp_path / "datasets.yaml"
    wrong.write_bytes(content)
    with pytest.raises(
        GraphDPError, match=r"cannot read the dataset registry .*datasets\.yaml: "
    ) as error:
        load_registry(wrong)
    assert "\n" not in str(error.value)


def test_hashes_that_cannot_be_read_are_one_line(registry, tmp_path):
    (tmp_path / "datasets.yaml").write_bytes(registry._path.read_bytes())
    (tmp_path / "facebook100.tsv").write_bytes("file\tgit_sha1\nGarçon".encode("latin-1"))
    with pytest.raises(GraphDPError, match=r"cannot read the Facebook100 hashes .*: 'utf-8' codec"):
        load_registry(tmp_path / "datasets.yaml")


def test_data_modules_do_not_import_torch():
    code = (
        "import sys, graphdp.data.datasets, graphdp.data.download\n"
        "import graphdp.data.graph, graphdp.data.split, graphdp.data.csbm\n"
        "import graphdp.data.loaders, graphdp.data.preprocess\n"
        "sys.exit(any(name.split('.')[0] in ('torch', 'torch_geometric') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
