"""Fixtures that several test modules share."""

import os
import socket
from pathlib import Path

import hypothesis
import pytest

from graphdp.data.datasets import Registry, load_registry
from graphdp.data.download import download
from graphdp.data.graph import Graph

ROOT = Path(__file__).resolve().parents[1]

# The same examples in every run, so that what is red can be repeated;
# HYPOTHESIS_PROFILE=explore draws new ones. None has a deadline: the machine may be busy.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.register_profile("explore", deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_addoption(parser):
    parser.addoption(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="what device: auto stands for in tests: a GPU if there is one, a CPU, or a GPU that "
        "must be there",
    )


def pytest_configure(config):
    device = config.getoption("--device")
    if device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # before torch looks, here and in what tests start
    elif device == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise pytest.UsageError("--device cuda: torch sees no GPU here")


#: Files that take longest, the longest first: what is short fills up the time of both processes.
LONG = (
    "test_workflow", "test_readme", "test_new_method", "test_audit_mutations",
    "test_audit_dpdgc_rounds", "test_audit_replacement", "test_audit_claims",
)  # fmt: skip


def part_of(things, part):
    """Every nth of `things` from the ith on, of "i/n"; all without a part."""
    first, every = map(int, (part or "1/1").split("/"))
    if not 1 <= first <= every:
        raise pytest.UsageError(f"{part!r} is no part; give one such as 2/3")
    return list(things)[first - 1 :: every]


def pytest_collection_modifyitems(config, items):
    part = os.environ.get("GRAPHDP_ALIKE")
    part_of((), part)  # what is no part is said whatever is collected
    variants = {}
    for item in items:
        if item.get_closest_marker("alike"):
            variants.setdefault((item.path, item.originalname), []).append(item)
    left = {one for some in variants.values() for one in some}
    left -= {one for some in variants.values() for one in part_of(some, part)}
    config.hook.pytest_deselected(items=list(left))
    rank = {name: number for number, name in enumerate(LONG)}
    items[:] = sorted(
        (item for item in items if item not in left),
        key=lambda item: rank.get(item.path.stem, len(LONG)),
    )


@pytest.fixture(scope="session")
def registry() -> Registry:
    """The project's own registry."""
    return load_registry(ROOT / "config" / "datasets.yaml")


@pytest.fixture(scope="session")
def mirror() -> Path:
    """Folder with raw files of real graphs: $GRAPHDP_MIRROR, else ../shared/data; or skip."""
    for folder in (os.environ.get("GRAPHDP_MIRROR"), ROOT.parent / "shared" / "data"):
        if folder and Path(folder).is_dir():
            return Path(folder)
    pytest.skip("no folder of raw files: GRAPHDP_MIRROR names none")


@pytest.fixture(scope="session")
def real_graph(registry, mirror, tmp_path_factory):
    """`real_graph(name)`: a registered dataset, loaded from the mirror once per session."""
    from graphdp.data.preprocess import preprocess

    graphs: dict[str, Graph] = {}

    def load(name: str) -> Graph:
        if name not in graphs:
            spec = registry.resolve(name)
            folder = tmp_path_factory.mktemp(name)
            download(spec, folder, mirror=mirror, offline=True)
            graphs[name] = preprocess(spec, folder)
        return graphs[name]

    return load


@pytest.fixture
def only_loopback(monkeypatch):
    """Make any connection of this process beyond the own machine an error."""
    connect = socket.socket.connect

    def guarded(self, address):
        host = address[0] if isinstance(address, tuple) else address
        if host not in ("127.0.0.1", "::1", "localhost"):
            raise AssertionError(f"a test tried to reach {address}")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
