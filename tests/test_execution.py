"""What a loop does with noise is what its plan says: every break of the wiring between the two is
refused, by a message that says which phase and what."""

import copy
import functools
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import graphdp.training
from ensemble_fixture import one_thread  # noqa: F401  (used by every test here)
from graphdp.data.csbm import csbm
from graphdp.errors import GraphDPError
from graphdp.methods import block as blocks
from graphdp.methods import registry, train_runs
from graphdp.methods.block import Block
from graphdp.methods.dpdgc import method as dpdgc
from graphdp.methods.dpdgc import network as dpdgc_network
from graphdp.methods.gap import method as gap
from graphdp.methods.gap.plan import gap_plan
from graphdp.methods.progap import method as progap
from graphdp.methods.registry import card
from graphdp.methods.sage import network as sage_network
from graphdp.noise import GridNoise
from graphdp.privacy import calibrated, composition, execution
from graphdp.privacy.calibration import calibration_plan
from graphdp.privacy.execution import Execution
from graphdp.privacy.mechanisms import KINDS
from graphdp.privacy.mechanisms import to_dict as mechanism_dict
from graphdp.privacy.plan import (
    FixedPureRelease,
    FixedSizeDPSGD,
    GaussianReleases,
    PoissonDPSGD,
    PoissonGroupDPSGD,
    PureRelease,
    Sensitivity,
    UnnoisedRelease,
    WithoutReplacementDPSGD,
)
from graphdp.releases import aggregation
from graphdp.releases.cache import AggregateCache
from graphdp.workflow.calibrations import calibrate_cell
from graphdp.workflow.model_rows import accounted, write_rows
from graphdp.workflow.stages import run_all
from study_fixture import every_level

_TRAINING = {"epochs": 2, "batch_size": 16, "hidden": 4, "max_grad_norm": 0.7}
_DECOUPLED = _TRAINING | {"classifier_epochs": 2}
#: Case -> method, level, ε, setting, and its noised phases with what runs them.
CASES = {
    "gap node": (
        "gap", "node", "8", _TRAINING | {"hops": 2, "max_degree": 4},
        {"encoder": "stack", "aggregation": "release", "classifier": "stack"},
    ),
    "gap edge": (
        "gap", "edge", "4", {"epochs": 2, "hidden": 4, "hops": 2, "encoder_layers": 0},
        {"aggregation": "release"},
    ),
    "mlp node": ("mlp", "node", "8", _TRAINING, {"classifier": "stack"}),
    "mlp node_replace": (
        "mlp", "node", "8", _TRAINING | {"adjacency": "node_replace"}, {"classifier": "stack"},
    ),
    "progap node": (
        "progap", "node", "8", _TRAINING | {"depth": 1, "max_degree": 4},
        {"stage0": "stack", "aggregation": "release", "stage1": "stack"},
    ),
    "progap edge": (
        "progap", "edge", "4", {"epochs": 2, "hidden": 4, "depth": 2}, {"aggregation": "release"},
    ),
    "sage node": (
        "sage", "node", "8", _TRAINING | {"max_degree": 4},
        {"classifier": "sage", "aggregation": "release"},
    ),
    "progapsage node": (
        "progapsage", "node", "8", _TRAINING | {"max_degree": 4}, {"classifier": "sage"},
    ),
    "progapsageofficial node": (
        "progapsageofficial", "node", "8", _TRAINING | {"max_degree": 4}, {"classifier": "sage"},
    ),
    "dpdgc k1": (
        "dpdgc", "k1", "8", _DECOUPLED,
        {"embedding": "descent", "release": "matrix", "classifier": "descent"},
    ),
    "dpdgc edge": (
        "dpdgc", "edge", "4", _DECOUPLED | {"dropout": 0.0},
        {"embedding": "descent", "release": "matrix"},
    ),
    "dpdgcofficial edge": (
        "dpdgcofficial", "edge", "4", _DECOUPLED,
        {"embedding": "descent", "release": "matrix"},
    ),
}  # fmt: skip
_OWN_LOOP = ("sage node", "progapsage node", "progapsageofficial node")
FIXED = ("mlp node_replace", *_OWN_LOOP, "dpdgcofficial edge")
PHASES = [(case, phase) for case, given in CASES.items() for phase in given[-1]]
TRAINED = [(c, phase) for c, phase in PHASES if CASES[c][-1][phase] in ("stack", "sage", "descent")]
RELEASED = [(c, phase) for c, phase in PHASES if CASES[c][-1][phase] in ("release", "matrix")]


@functools.cache
def graph():
    return csbm(200, 6, 8.0, 3.25, 0.5, 1)


@functools.cache
def _entries(case, calibrate_for, accountant="auto"):
    """The block without calibrations, the setting, and the entries as JSON."""
    method, level, epsilon, values, _ = CASES[case]
    its = card(method)
    setting = its.settings(level)(**values).model_dump(exclude_none=True)
    block = Block(
        graph=graph(), dataset="small", method=method, level=level, epsilon=epsilon, seeds=[0],
        study_seed=7, split_rule="shared", checkpoint=its.checkpoint(level, "best_validation"),
        study="study",
    )  # fmt: skip
    entries = calibrate_cell(
        "small", method, level, epsilon, [its.plan(level, setting)], [block.split(0).train.size],
        graph().num_edges, "auto", calibrate_for, graph().num_nodes, accountant=accountant,
    )  # fmt: skip
    return block, setting, json.dumps(entries)


def prepared(case, calibrate_for="published", accountant="auto"):
    """A block with its calibrations, and the setting."""
    block, setting, entries = _entries(case, calibrate_for, accountant)
    return replace(block, calibrations=json.loads(entries)), copy.deepcopy(setting)


def trained(block, setting, folder):
    return run_all(block, card(block.method), setting, AggregateCache(folder))


def rows(block, models):
    """What a row is made of, of every model; refused as `write_rows` refuses it."""
    return [accounted(block, *one) for one in models]


def refused(case, folder, message):
    """The case gives no model, or one that is accounted for by no row."""
    block, setting = prepared(case)
    with pytest.raises(GraphDPError, match=message):
        rows(block, trained(block, setting, folder))


# --- honest models --------------------------------------------------------------------------------


HONEST = [(case, whose, "auto") for case in CASES for whose in ("published", "corrected")]
# Noise for a replaced node of a Poisson sample is a multiple of twice the clip.
HONEST += [
    (case, whose, "pld")
    for case, (method, level, *_) in CASES.items()
    if level == "node" and method in ("mlp", "gap", "progap", "sage")
    for whose in ("corrected", "replaced")
]


@pytest.mark.parametrize(("case", "calibrate_for", "accountant"), HONEST)
def test_an_honest_model_gives_its_row(case, calibrate_for, accountant, tmp_path, monkeypatch):
    """And says how many numbers were drawn for it."""
    drawn, add = [], GridNoise.add

    def counted(self, sums, noise_std):
        drawn.append(sums.numel())
        add(self, sums, noise_std)

    monkeypatch.setattr(GridNoise, "add", counted)
    block, setting = prepared(case, calibrate_for, accountant)
    models = trained(block, setting, tmp_path / "cache")
    write_rows(tmp_path / "rows.csv", models, block)
    assert len(pd.read_csv(tmp_path / "rows.csv")) == 1
    ((_, _, model),) = models
    assert model.executed.keys() == CASES[case][-1].keys()
    assert sum(one.draws for one in model.executed.values()) == sum(drawn) > 0


def test_more_numbers_than_the_generator_is_analysed_for_are_refused():
    phases = {name: Execution("none", 1, 2.0, sensitivity=1.0, draws=2**35) for name in "ab"}
    planned = {name: replace(one, draws=0) for name, one in phases.items()}
    execution.check(planned, phases)
    with pytest.raises(GraphDPError, match=r"took 68719476737 Gaussian numbers"):
        execution.check(planned, phases | {"a": replace(phases["a"], draws=2**35 + 1)})


# --- broken training ------------------------------------------------------------------------------


def with_field(cls, field, change, when=lambda: True):
    """The dataclass, whose new objects have another value of a field."""

    def __init__(self, *arguments, **named):
        cls.__init__(self, *arguments, **named)
        if when():
            object.__setattr__(self, field, change(getattr(self, field)))

    return type(cls.__name__, (cls,), {"__init__": __init__})


def break_training(monkeypatch, engine, phase, field, change):
    """Let the wiring hand over another value to the loop of one phase."""
    if engine == "stack":
        running, real = [], train_runs.train_runs

        def noted(*arguments, **named):
            running.append(named["phase"])
            found = real(*arguments, **named)
            running.pop()
            return found

        monkeypatch.setattr(train_runs, "train_runs", noted)
        field, name = {
            "noise_std": ("noise_multiplier", "Member"), "train": ("train", "Member"),
        }.get(field, (field, "DPAdam"))  # fmt: skip
        broken = with_field(getattr(train_runs, name), field, change, lambda: running[-1] == phase)
        monkeypatch.setattr(train_runs, name, broken)
    elif engine == "sage":
        place, name = (graphdp.training, "Member") if field == "train" else (
            sage_network, "FixedSizeDP")  # fmt: skip
        monkeypatch.setattr(place, name, with_field(getattr(place, name), field, change))
    elif field == "train":
        real = dpdgc_network.train_embedding
        monkeypatch.setattr(
            dpdgc_network,
            "train_embedding",
            lambda indptr, indices, y, train, *more, **named: real(
                indptr, indices, y, change(train), *more, **named
            ),
        )
    else:
        real = dpdgc._rounds

        def rounds(block, seed, plan, name, setting):
            made = real(block, seed, plan, name, setting)
            return replace(made, **{field: change(getattr(made, field))} if name == phase else {})

        monkeypatch.setattr(dpdgc, "_rounds", rounds)


#: What is broken -> what of the loop's orders is changed and how, and how the message calls it.
BREAKS = {
    "rounds": ("steps", lambda n: n + 1, "noisy rounds or releases [0-9]+ but it was [0-9]+"),
    "rate": ("sampling_rate", lambda q: 1.5 * q, "sampling rate 0.[0-9]+ but it was 0.[0-9]+"),
    "clip": ("max_grad_norm", lambda c: 2 * c, "clip norm 0.7 but it was 1.4"),
    "noise": ("noise_std", lambda s: s / 2, "noise std [0-9.]+ but it was [0-9.]+"),
    "kind": (
        "sampling",
        lambda kind: {"poisson": "fixed", "fixed": "poisson"}[kind],
        "sampling (poisson but it was fixed|fixed but it was poisson)",
    ),
    "divisor": ("batch_size", lambda b: b + 1, "batch divisor 16 but it was 17"),
}


#: SAGE's loop knows one kind of sampling alone: a plan with the other has a test of its own.
ORDERS = [
    (*one, broken)
    for one in TRAINED
    for broken in BREAKS
    if broken != "kind" or one[0] not in _OWN_LOOP
]


@pytest.mark.parametrize(("case", "phase", "broken"), ORDERS)
def test_other_training_than_planned_is_refused(case, phase, broken, monkeypatch, tmp_path):
    field, change, words = BREAKS[broken]
    engine = CASES[case][-1][phase]
    message = f"^{phase}: the plan accounts .*{words}"
    if case in FIXED and broken == "rate":
        # A sample of a fixed size reads no rate: it is another one of other nodes.
        field, change = "train", lambda nodes: nodes[: len(nodes) // 2]
    if case in FIXED and engine == "stack" and broken in ("rate", "divisor"):
        message = "are not the share 0.[0-9]+ that is accounted"  # before it trains
    break_training(monkeypatch, engine, phase, field, change)
    refused(case, tmp_path, message)


def test_sage_is_refused_where_its_plan_samples_otherwise(tmp_path):
    """Its loop knows samples of a fixed size alone, whatever the plan says."""
    block, setting = prepared("sage node")
    (entry,) = block.calibrations
    bound = Sensitivity(0.7, "C", "clipping")
    rate, steps = 16 / entry["num_train"], entry["plan"]["mechanisms"][0]["steps"]
    other = PoissonGroupDPSGD("sums", rate, steps, 5, bound, 10.0, "classifier")
    entry["plan"]["mechanisms"][0] = mechanism_dict(other)
    models = trained(block, setting, tmp_path)
    with pytest.raises(GraphDPError, match=r"^classifier: .* sampling poisson but it was fixed;"):
        rows(block, models)


# --- broken releases ------------------------------------------------------------------------------


def twice(rows, weight, bias, noise_std, stream, drawn, real):
    real(rows, weight, bias, noise_std, (*stream, "again"), drawn)
    return real(rows, weight, bias, noise_std, stream, drawn)


#: What is broken -> of `Release` the field and its change; how DPDGC's release function is called;
#: and how the message calls it.
RELEASE_BREAKS = {
    "number": (
        ("hops", lambda k: k + 1), twice, "noisy rounds or releases [0-9] but it was [0-9]",
    ),
    "noise": (
        ("noise_std", lambda s: s / 2),
        lambda rows, weight, bias, noise_std, *more, real: real(
            rows, weight, bias, noise_std / 2, *more
        ),
        "noise std [0-9.]+ but it was [0-9.]+",
    ),
    "sensitivity": (
        ("sensitivity", lambda s: 2 * s), None, "sensitivity [0-9.]+ but it was [0-9.]+",
    ),
}  # fmt: skip


@pytest.mark.parametrize("broken", RELEASE_BREAKS)
@pytest.mark.parametrize(("case", "phase"), RELEASED)
def test_other_releases_than_planned_are_refused(case, phase, broken, monkeypatch, tmp_path):
    (field, change), called, words = RELEASE_BREAKS[broken]
    if CASES[case][-1][phase] == "release":
        broken_release = with_field(aggregation.Release, field, change)
        monkeypatch.setattr(aggregation, "Release", broken_release)
        load = AggregateCache.load  # one hop more is released, and read by nobody
        monkeypatch.setattr(AggregateCache, "load", lambda self, name: load(self, name)[:2])
    elif called is None:
        monkeypatch.setattr(dpdgc, "Execution", with_field(Execution, field, change))
    else:
        for name in ("release", "release_as_implemented"):
            real = functools.partial(called, real=getattr(dpdgc, name))
            monkeypatch.setattr(dpdgc, name, real)
    refused(case, tmp_path, f"^{phase}: the plan accounts .*{words}")


# --- phases left out, and phases too many ---------------------------------------------------------


@pytest.mark.parametrize(("case", "phase"), PHASES)
def test_a_phase_without_its_noise_is_refused(case, phase, monkeypatch, tmp_path):
    """The loop asks for the phase's noise and is told that there is none."""
    engine, message = CASES[case][-1][phase], f"^{phase}: noise is planned but none was run;"

    def one(entry, name):
        return None if name == phase else calibrated.phase(entry, name)

    def several(entry):
        return {k: v for k, v in calibrated.phases(entry).items() if k != phase}

    deaf = SimpleNamespace(phase=one, phases=several, lookup=calibrated.lookup)
    if engine == "sage":
        message = "noise of scale 0.0 with a finite ε"
        break_training(monkeypatch, engine, phase, "noise_std", lambda s: 0.0)
    elif case == "sage node":
        silent = with_field(aggregation.Release, "private", lambda private: False)
        monkeypatch.setattr(aggregation, "Release", silent)
    else:
        module = {"stack": train_runs, "release": blocks, "descent": dpdgc, "matrix": dpdgc}
        monkeypatch.setattr(module[engine], "calibrated", deaf)
    refused(case, tmp_path, message)


@pytest.mark.parametrize(("case", "phase"), PHASES)
def test_a_phase_that_no_plan_has_is_refused(case, phase, tmp_path):
    """The accounted plan lacks a phase that was run."""
    block, setting = prepared(case)
    models = trained(block, setting, tmp_path)
    plan = block.calibrations[0]["plan"]
    plan["mechanisms"] = [m for m in plan["mechanisms"] if m["phase"] != phase]
    with pytest.raises(GraphDPError, match=f"^{phase}: noise is run but none was planned;"):
        rows(block, models)


NOISY = Execution("poisson", 3, 1.0, 0.1, 0.7, 15)


@pytest.mark.parametrize(
    ("case", "phase", "module"),
    [
        ("gap edge", "classifier", gap),
        ("progap edge", "stage0", progap),
        ("dpdgc edge", "classifier", dpdgc),
    ],
)
def test_noise_where_the_plan_has_none_is_refused(case, phase, module, monkeypatch, tmp_path):
    """At edge level one training too many reads its labels and features with noise of its own."""
    monkeypatch.setattr(module, "protects_nodes", lambda level: True)  # no batch norm
    if module is dpdgc:
        real = dpdgc._rounds
        monkeypatch.setattr(
            dpdgc,
            "_rounds",
            lambda *given: dpdgc.noisy_rounds(NOISY, 2) if given[3] == phase else real(*given),
        )
    else:
        monkeypatch.setattr(train_runs, "protects_nodes", lambda level: True)
        noise = SimpleNamespace(phase=lambda *given: calibrated.Phase(1.0, 1.0, NOISY))
        monkeypatch.setattr(train_runs, "calibrated", noise)
        real = train_runs.train_runs
        monkeypatch.setattr(
            train_runs, "train_runs", lambda *a, **k: real(*a, **k | {"entry": lambda *run: None})
        )
    refused(case, tmp_path, f"^{phase}: noise is run but none was planned;")


@pytest.mark.parametrize("case", CASES)
def test_a_finite_epsilon_without_noise_is_refused(case, tmp_path):
    """A calibration whose noise multiplier is 0 is no permission to train without noise."""
    block, setting = prepared(case)
    block.calibrations[0]["noise_multiplier"] = 0.0
    with pytest.raises(GraphDPError, match=r"noise of scale 0.0 with a finite ε"):
        trained(block, setting, tmp_path)


# --- the parts ------------------------------------------------------------------------------------

ROUNDS = Execution("poisson", 773, 1.3, 256 / 19800, 1.0, 256)
SUMS = Execution("none", 2, 13.0, sensitivity=10.0)


def test_equal_executions_are_accepted_in_any_order():
    execution.check({}, {})
    execution.check({"a": ROUNDS, "b": SUMS}, {"b": replace(SUMS), "a": replace(ROUNDS)})


@pytest.mark.parametrize(
    ("one", "change", "words"),
    [
        (ROUNDS, {"sampling": "fixed"}, "sampling poisson but it was fixed"),
        (ROUNDS, {"count": 774}, "noisy rounds or releases 773 but it was 774"),
        (ROUNDS, {"noise_std": 1.2}, "noise std 1.3 but it was 1.2"),
        (ROUNDS, {"sampling_rate": 0.5}, f"sampling rate {256 / 19800} but it was 0.5"),
        (ROUNDS, {"max_grad_norm": None}, "clip norm 1.0 but it was None"),
        (ROUNDS, {"batch_size": 255}, "batch divisor 256 but it was 255"),
        (SUMS, {"sensitivity": 5.0}, "sensitivity 10.0 but it was 5.0"),
        # The last digit counts.
        (SUMS, {"noise_std": np.nextafter(13.0, 0)}, "noise std 13.0 but it was 12.99999999"),
        (
            ROUNDS,
            {"max_grad_norm": 2.0, "noise_std": 2.6},
            "noise std 1.3 but it was 2.6, clip norm 1.0 but it was 2.0",
        ),
    ],
)
def test_whatever_differs_is_named(one, change, words):
    with pytest.raises(GraphDPError) as error:
        execution.check({"other": SUMS, "it": one}, {"other": SUMS, "it": replace(one, **change)})
    assert str(error.value).startswith(f"it: the plan accounts {words}")
    assert str(error.value).endswith("; the ε of this model does not hold")


def test_phases_are_the_plans():
    with pytest.raises(GraphDPError, match=r"^a: noise is planned but none was run;"):
        execution.check({"a": ROUNDS}, {})
    with pytest.raises(GraphDPError, match=r"^a: noise is planned but none was run;"):
        execution.check({"a": ROUNDS}, {"a": None})
    with pytest.raises(GraphDPError, match=r"^b: noise is run but none was planned;"):
        execution.check({"a": ROUNDS}, {"a": ROUNDS, "b": ROUNDS})


def test_releases_of_one_phase_count_together():
    one = replace(SUMS, count=1)
    assert execution.together([one]) == one
    assert execution.together([one, SUMS, one]) == replace(SUMS, count=4)
    with pytest.raises(GraphDPError, match="no release was made"):
        execution.together([])
    laplace = replace(one, noise="laplace", records="shared by three")
    assert execution.together([laplace, laplace]) == replace(laplace, count=2)
    for change, words in (
        ({"noise_std": 12.0}, r"noise std \['12.0', '13.0'\]"),
        ({"sensitivity": 9.0}, "sensitivity"),
        ({"sensitivity": None}, "sensitivity"),
        ({"noise": "laplace"}, r"noise \['gaussian', 'laplace'\]"),
        ({"records": "pairs"}, "records"),
        ({"sampling": "poisson"}, "sampling"),
        ({"max_grad_norm": 1.0}, "clip norm"),
    ):
        with pytest.raises(GraphDPError, match=f"releases of one phase differ: {words}"):
            execution.together([one, replace(one, **change)])


def test_a_file_keeps_every_digit(tmp_path):
    """Through an .npz file, as the encoders and embeddings of a job are kept."""
    executed = {"encoder": replace(ROUNDS, noise_std=1 / 3), "release": replace(SUMS, count=1)}
    arrays = {"0:{}": np.zeros(3)} | execution.packed("0:{}", executed)
    assert list(arrays) == ["0:{}", "0:{} executed"]
    np.savez(tmp_path / "x.npz", **arrays)
    with np.load(tmp_path / "x.npz", allow_pickle=False) as loaded:
        assert execution.unpacked(loaded, "0:{}") == executed
        assert execution.unpacked(loaded, "1:{}") == {}
    assert execution.packed("0:{}", {}) == {}
    assert Execution(**json.loads(json.dumps(ROUNDS.to_dict()))) == ROUNDS


# --- the mechanisms -------------------------------------------------------------------------------

#: A mechanism, and how it is run with multiplier 1.5 on 100 training nodes with C = 3.
OF_KIND = {
    "poisson_dpsgd": (
        lambda bound: PoissonDPSGD("sums", 0.2, 7, bound(3.0), "phase"),
        Execution("poisson", 7, 1.5 * 3, 0.2, 3.0, 20),
    ),
    "without_replacement_dpsgd": (  # a replaced record moves the sum by 2 C
        lambda bound: WithoutReplacementDPSGD("sums", 0.2, 7, bound(6.0), "phase"),
        Execution("fixed", 7, 1.5 * 6, 0.2, 3.0, 20),
    ),
    "poisson_group_dpsgd": (
        lambda bound: PoissonGroupDPSGD("sums", 0.2, 7, 4, bound(3.0), 2.5, "phase"),
        Execution("poisson", 7, 1.5 * 2.5 * 3, 0.2, 3.0, 20),
    ),
    "fixed_size_dpsgd": (  # five sub-graphs, each moved by 2 C
        lambda bound: FixedSizeDPSGD("sums", 100, 20, 5, 7, bound(30.0), "phase"),
        Execution("fixed", 7, 1.5 * 30, 0.2, 3.0, 20),
    ),
    "gaussian": (
        lambda bound: GaussianReleases("sums", bound(10.0), 2, "phase"),
        Execution("none", 2, 1.5 * 10, sensitivity=10.0),
    ),
    "pure": (lambda bound: PureRelease("pairs", bound(1.0), 1.0, "phase"), None),
    "fixed_pure": (lambda bound: FixedPureRelease("degrees", bound(1.0), 0.5, "phase"), None),
    "unnoised": (lambda bound: UnnoisedRelease("model", "phase"), None),
}


@pytest.mark.parametrize("kind", OF_KIND)
def test_how_each_kind_is_run(kind):
    """Against closed forms."""
    make, expected = OF_KIND[kind]
    mechanism = make(lambda value: Sensitivity(value, "x", "y"))
    assert mechanism.kind == kind and KINDS[kind] is type(mechanism)
    assert mechanism.execution(1.5, 100, 3.0) == expected


@pytest.mark.parametrize("multiplier", [0.7, 2.25])
def test_the_phases_of_gap_in_numbers(multiplier):
    """19,800 training nodes, B = 256, 10 epochs, C = 1, D = 100, K = 2."""
    settings = {
        "hops": 2, "max_degree": 100, "batch_size": 256, "epochs": 10, "max_grad_norm": 1.0,
        "encoder": True,
    }  # fmt: skip
    plan = gap_plan("node", num_train=19800, **settings)
    entry = {"settings": settings, "num_train": 19800, "noise_multiplier": multiplier}
    entry |= {"target_epsilon": 8.0, "plan": plan.to_dict()}
    found = calibrated.phases(entry)
    training = Execution("poisson", 773, multiplier, 256 / 19800, 1.0, 256)
    sums = Execution("none", 2, 10 * multiplier, sensitivity=10.0)
    assert {name: one.run for name, one in found.items()} == {
        "encoder": training,
        "aggregation": sums,
        "classifier": training,
    }
    assert all(one.noise_multiplier == multiplier for one in found.values())
    assert calibrated.phases(entry | {"noise_multiplier": 0.0, "target_epsilon": "inf"}) == {}
    # Of two mechanisms in one phase a check by phase would see the last alone.
    aggregation = plan.mechanisms[1]
    wider = replace(aggregation, sensitivity=Sensitivity(100.0, "100", "made up"))
    both = replace(plan, mechanisms=(*plan.mechanisms, wider))
    with pytest.raises(GraphDPError, match="two mechanisms in phase 'aggregation'"):
        calibrated.phases(entry | {"plan": both.to_dict()})
    with pytest.raises(GraphDPError, match="'aggregation' has noise of two scales"):
        composition.parts(plan, both, multiplier)


def test_lists_longer_than_the_bound_are_refused():
    """The sensitivity is for lists of at most D; a mask that keeps more gives no release."""
    from graphdp.methods.release_runs import check_bound

    indptr = np.array([0, 3, 3, 5])
    block = SimpleNamespace(graph=SimpleNamespace(indptr=indptr))
    keep = np.array([True, True, False, True, True])
    check_bound(block, keep, 2)
    with pytest.raises(GraphDPError, match="a node has 3 out-edges where the plan accounts 2"):
        check_bound(block, np.ones(5, bool), 2)


@pytest.mark.parametrize(("method", "level"), [one for one in every_level() if one[1] != "none"])
def test_noise_for_a_corrected_analysis_is_drawn_in_the_same_rounds(method, level):
    """Whichever analysis sets σ, it has the phases, rounds, samples, clip and divisor of the
    method's own plan, which is what a loop knows how to run."""
    its = card(method)
    fields = its.settings(level).model_fields
    setting = its.settings(level)(**({"max_degree": 4} if "max_degree" in fields else {}))
    settings = its.plan(level, setting.model_dump(exclude_none=True))
    plans = registry.analyses(method, level, settings, 4100)

    def runs(plan):
        clip = settings.get("max_grad_norm")
        made = {m.phase: m.execution(1.0, 4100, clip) for m in plan.mechanisms}
        same = {"noise_std": 1.0, "sensitivity": None}  # which σ and Δ is what differs
        return {phase: replace(run, **same) for phase, run in made.items() if run}

    own, corrected = (runs(calibration_plan(plans, k)) for k in ("published", "corrected"))
    assert own == corrected and (own or its.analyses.startswith("graphdp.methods.sage."))
