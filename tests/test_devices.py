"""A GPU trains what a CPU trains: `pytest --device cuda` where there is one."""

import functools
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from graphdp.data.csbm import csbm
from graphdp.errors import GraphDPError
from graphdp.methods.block import Block
from graphdp.methods.registry import card
from graphdp.releases.cache import AggregateCache
from graphdp.training import MLP, DPAdam, FullBatch, chunk, fit
from graphdp.training.replay import Replay
from graphdp.workflow.calibrations import calibrate_cell
from graphdp.workflow.stages import run_all
from study_fixture import every_level
from test_ensemble import BLOCKS, block, data, member, networks, private

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
SEEDS = [0, 1]
#: Few rounds, in which rounding has no time to grow, and no dropout, which a GPU draws otherwise.
SMALL = {
    "epochs": 3, "batch_size": 16, "hidden": 4, "max_degree": 20, "dropout": 0.0,
    "classifier_epochs": 3, "feature_layers": 2, "label_layers": 2, "encoder_epochs": 3,
}  # fmt: skip


@functools.cache
def graph():
    return csbm(200, 6, 8.0, 3.25, 0.5, 1)


def trained(method, level, device, folder):
    """The models of a method, as a job of the workflow trains them."""
    its = card(method)
    fields = its.settings(level).model_fields
    own = {name: value for name, value in SMALL.items() if name in fields}
    if "dropout" in own and fields["dropout"].default is None:
        del own["dropout"]  # there is none unless it is asked for
    setting = its.settings(level)(**own)
    setting = setting.model_dump(exclude_none=True)
    epsilon = "inf" if level == "none" else "8"
    one = Block(
        graph=graph(), dataset="small", method=method, level=level, epsilon=epsilon, seeds=SEEDS,
        study_seed=7, split_rule="shared", checkpoint=its.checkpoint(level, "last"), study="study",
        device=device,
    )  # fmt: skip
    entries = calibrate_cell(
        "small", method, level, epsilon, [its.plan(level, setting)], [one.split(0).train.size],
        graph().num_edges, "auto", "published", graph().num_nodes,
    )  # fmt: skip
    one = replace(one, calibrations=json.loads(json.dumps(entries)))
    return [model for _, _, model in run_all(one, its, setting, AggregateCache(folder))]


#: By how much of their norm parameters may differ. ProGAP's noisy sums are inputs of the next
#: stage: rounding moves some of them to another cell of the noise's grid, of up to σ/16.
FAR = {"progap": 2e-2, "progapsage": 2e-3}


def moved_by_rounding_alone(method, level, part):
    """A bias before a batch norm: its gradient is zero but for rounding, which Adam scales up."""
    before = part.startswith(("features", "joint")) and part.endswith(".bias")
    return method.startswith("dpdgc") and level in ("none", "edge") and before


@needs_gpu
@pytest.mark.parametrize(("method", "level"), every_level())
def test_a_method_is_the_same_on_both(method, level, tmp_path):
    """The same noise and samples to the last draw: parameters differ by rounding alone."""
    here = trained(method, level, "cpu", tmp_path / "cpu")
    there = trained(method, level, "cuda", tmp_path / "cuda")
    assert len(here) == len(there) == len(SEEDS)
    worst = 0.0
    for one, other in zip(here, there, strict=True):
        assert one.executed == other.executed
        for part, value in one.parameters.items():
            if not moved_by_rounding_alone(method, level, part):
                scale = np.linalg.norm(value) + 1e-6
                worst = max(worst, np.linalg.norm(other.parameters[part] - value) / scale)
        assert np.mean(one.predictions == other.predictions) >= 0.98
    assert worst < FAR.get(method, 1e-5)


@needs_gpu
@pytest.mark.parametrize(("name", "kind"), BLOCKS)
@pytest.mark.parametrize("training", [FullBatch(15), private()])
def test_rounding_is_all_that_differs(training, name, kind):
    """In float64, where a hundred steps leave twelve digits."""
    both = [
        block(training, name, kind, count=4, device=device, dtype=torch.float64)
        for device in ("cpu", "cuda")
    ]
    for one, other in zip(*both, strict=True):
        assert one.best_epoch == other.best_epoch and one.executed == other.executed
        for part, value in one.parameters.items():
            np.testing.assert_allclose(other.parameters[part], value, rtol=1e-7, atol=1e-9)


@needs_gpu
@pytest.mark.parametrize("training", [FullBatch(15), private()])
@pytest.mark.parametrize("name", ["mlp", "encoder"])
def test_sparse_rows_that_are_not_made_dense_are_summed_in_one_order(name, training, monkeypatch):
    dense = block(training, name, "sparse", count=4, dtype=torch.float64)
    monkeypatch.setattr(fit, "DENSE_BYTES", 0)
    sparse, again = (
        block(training, name, "sparse", count=4, dtype=torch.float64) for _ in range(2)
    )
    for one, other, third in zip(dense, sparse, again, strict=True):
        for part, value in one.parameters.items():
            np.testing.assert_allclose(other.parameters[part], value, rtol=1e-7, atol=1e-9)
            np.testing.assert_array_equal(third.parameters[part], other.parameters[part])


@needs_gpu
@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("training", [FullBatch(15), private()])
@pytest.mark.parametrize(("name", "kind"), BLOCKS)
def test_a_replayed_step_is_the_step(training, name, kind, dropout, monkeypatch):
    """CUDA graphs launch what was launched one by one: bit for bit, dropout's masks included."""
    if dropout and (isinstance(training, DPAdam) or name.startswith("stage")):
        pytest.skip("has no dropout")
    full = isinstance(training, FullBatch)
    network = networks(full)[name]
    network = replace(network, dropout=dropout) if dropout else network
    features, _, labels = data(kind=kind, members=4)
    members = [member(s, 0.0 if full else 0.8) for s in range(4)]
    recorded = set()

    class Watched(Replay):
        def __call__(self, *inputs):
            found = super().__call__(*inputs)
            recorded.add(self._graph is not None)
            return found

    monkeypatch.setattr(chunk, "Replay", Watched)
    replayed = fit.train(network, features, labels, members, training)
    assert recorded == {False, True}
    monkeypatch.setattr(chunk, "Replay", lambda step, device, generators=(): step)
    eager = fit.train(network, features, labels, members, training)
    for one, other in zip(replayed, eager, strict=True):
        assert (one.history == other.history).all()
        for part, value in one.parameters.items():
            np.testing.assert_array_equal(other.parameters[part], value)


@needs_gpu
def test_memory_that_is_taken_is_given_back():
    """A chunk and its graphs are gone when the next one is trained."""
    block(FullBatch(3), count=2)
    before = torch.cuda.memory_allocated()
    for _ in range(3):
        block(FullBatch(3), count=10)
        block(private(), count=10)
    assert torch.cuda.memory_allocated() <= before


@needs_gpu
def test_a_full_gpu_is_shared_in_halves_with_the_same_results(capsys):
    """Of a card with room for a few of the models, as beside other jobs."""
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(20_000, 50)).astype(np.float32), rng.integers(0, 4, 20_000)
    nodes = np.arange(20_000)
    split = {"train": nodes[:15_000], "val": nodes[15_000:17_000], "test": nodes[17_000:]}
    members = [member(s, **split) for s in range(16)]
    network = MLP(layers=2, in_features=50, hidden=64, classes=4, batch_norm=True)
    arguments = (network, x, labels, members, FullBatch(3))
    whole = fit.train(*arguments, memory_mb=8000, device="cuda")
    assert "do not fit" not in capsys.readouterr().err
    torch.cuda.empty_cache()
    room = torch.cuda.memory_reserved() + (400 << 20)
    torch.cuda.set_per_process_memory_fraction(
        room / torch.cuda.get_device_properties(0).total_memory
    )
    try:
        halved = fit.train(*arguments, memory_mb=8000, device="cuda")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert "16 models do not fit into the memory that is free on the GPU: 8 at a time" in (
        capsys.readouterr().err
    )
    for one, other in zip(whole, halved, strict=True):
        assert np.mean(one.predictions == other.predictions) >= 0.999


def short_of_memory(monkeypatch, most):
    """GPU memory for `most` members at a time; returns the sizes that were tried."""
    tried, own = [], chunk.Chunk.fit

    def fitted(self, *arguments):
        tried.append(len(self.members))
        rounds = own(self, *arguments)
        if len(self.members) > most:  # after all rounds, which are then made once more
            raise torch.OutOfMemoryError("CUDA out of memory")
        return rounds

    monkeypatch.setattr(chunk.Chunk, "fit", fitted)
    return tried


def test_what_does_not_fit_is_trained_in_halves_with_the_same_results(monkeypatch, capsys):
    whole = block(private(), count=7)
    tried = short_of_memory(monkeypatch, 2)
    halved = block(private(), count=7)
    assert tried == [7, 4, 2, 2, 3, 2, 1]
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "7 models do not fit into the memory that is free on the GPU: 4 at a time"
    for one, other in zip(whole, halved, strict=True):
        assert one.best_epoch == other.best_epoch
        assert np.mean(one.predictions == other.predictions) >= 0.999


def test_what_is_observed_is_not_halved(monkeypatch):
    """Some rounds would be seen twice."""
    short_of_memory(monkeypatch, 2)
    with pytest.raises(GraphDPError, match="a model does not fit"):
        block(private(), count=7, observe=lambda *seen: None)


def test_a_recording_that_breaks_off_for_memory_is_one(monkeypatch):
    def fitted(self, *arguments):
        try:
            raise torch.OutOfMemoryError("CUDA out of memory")
        finally:
            raise RuntimeError("operation failed due to a previous error during capture")

    monkeypatch.setattr(chunk.Chunk, "fit", fitted)
    with pytest.raises(GraphDPError, match="a model does not fit"):
        block(private(), count=2)

    def broken(self, *arguments):
        raise RuntimeError("another error")

    monkeypatch.setattr(chunk.Chunk, "fit", broken)
    with pytest.raises(RuntimeError, match="another error"):
        block(private(), count=2)


def test_a_model_that_does_not_fit_alone_is_one_line(monkeypatch):
    short_of_memory(monkeypatch, 0)
    with pytest.raises(GraphDPError, match=r"a model does not fit .* device: cpu") as error:
        block(private(), count=2)
    assert "\n" not in str(error.value)


def test_a_replay_on_a_cpu_is_a_call():
    calls = []
    replay = Replay(lambda *inputs: calls.append(inputs) or sum(inputs), torch.device("cpu"))
    assert replay(1, 2) == 3 and replay(3, 4) == 7 and calls == [(1, 2), (3, 4)]
