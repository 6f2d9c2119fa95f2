"""Claims about ProGAP: the sums that its stages release, their training, and its noise."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from graphdp.audit import whole_plan
from graphdp.audit.bound import lower_bound
from graphdp.audit.canaries import HIDDEN, Training
from graphdp.audit.claims import Claim
from graphdp.audit.edge_claims import edge_claims
from graphdp.audit.lattice_claims import lattice_claims
from graphdp.audit.training_claims import training_claims
from graphdp.graphs.bounds import bound_name
from graphdp.methods.progap import sum_attack, whole_attack
from graphdp.methods.progap.method import fit
from graphdp.methods.progap.plan import analyses, progap_plan
from graphdp.methods.progap.sum_attack import Sums
from graphdp.privacy.calibration import Calibration
from graphdp.privacy.plan import Plan
from graphdp.releases.cache import AggregateCache

STAGES = "graphdp.methods.progap.method.fit"
_NODE_DELTA = 1e-5
_MAX_DEGREE, _SENDERS = 4, 300
#: ProGAP as it is trained here: in a step or two, since it is the sums that are looked at.
_SMALL = {"hidden": 4, "base_layers": 1, "layerwise": False, "history": False}
_SMALL |= {"learning_rate": 0.01, "epochs": 1}
_NODE = {"batch_size": 6, "epochs": 1, "max_grad_norm": 1.0, "max_degree": _MAX_DEGREE}
#: All phases on few nodes. C is so small that every gradient is clipped.
_WHOLE = {"epochs": 1, "batch_size": 6, "max_grad_norm": 0.1}
_WHOLE_TRAIN = 24

_FIT = {
    "hidden": HIDDEN,
    "base_layers": 1,
    "depth": 1,
    "max_degree": _MAX_DEGREE,
    "layerwise": False,
    "history": False,
}


def _attack(sums: Sums, setting: dict[str, Any], analysis: str):
    def attack(claim: Claim, calibration: Calibration, draws: int, seed: int):
        scores = [
            sum_attack.sum_scores(sums, calibration, setting, world, draws, seed)
            for world in ("present", "absent")
        ]
        return lower_bound(*scores, claim.delta, analysis=analysis), {"nodes": sums.nodes}

    return attack


def _attack_one_edge(depth: int, adjacency: str):
    sums = sum_attack.edge(undirected=adjacency == "edge_undirected")
    return _attack(sums, _SMALL | {"depth": depth}, "gdp")


_EDGE_CLAIMS = edge_claims(
    "progap",
    "ProGAP",
    STAGES,
    ((1, 1, 4.0), (1, 4, 2.0), (2, 4, 2.0)),
    lambda depth: tuple(analyses("edge", {"depth": depth}, None)),
    _attack_one_edge,
    corrected="tight",
)


def _node_claims() -> list[Claim]:
    found = []
    settings = {"depth": 1} | _NODE
    published = analyses("node", settings, sum_attack.TRAIN)[0]
    sums = sum_attack.common_neighbours(_SENDERS, _MAX_DEGREE)
    for epsilon in (1, 4):
        found.append(
            Claim(
                name=f"progap-node-common-neighbours-k1-eps{epsilon}",
                family="ProGAP, node level, node added or removed",
                title="common neighbours, K = 1",
                attacks=f"graphdp.methods.bound_degree.bound_degree, {STAGES}",
                plan=published,
                reference=published,
                target_epsilon=epsilon,
                delta=_NODE_DELTA,
                adjacency="node_add_remove",
                expected="exceeds",
                attack=_attack(sums, _SMALL | settings, "dp"),
                share=0.02,
            )
        )
    return found


def _plan(settings: Mapping[str, Any]) -> Plan:
    """The whole plan as it holds, of a participant."""
    of_plan = {name: _FIT[name] for name in ("depth", "max_degree")}
    training = {name: value for name, value in settings.items() if name != "num_train"}
    found = analyses("node", of_plan | training, settings["num_train"])
    return next(p for p in found if p.adjacency == "participant" and p.status == "conditional")


def _reads(
    x: np.ndarray, seeds: list[int], setting: dict[str, Any], folder: str
) -> tuple[dict, AggregateCache]:
    """No edges, so that there are none to bound; the sums are released on the way."""
    masks = {bound_name(setting): {seed: np.zeros(0, bool) for seed in seeds}}
    return masks, AggregateCache(folder)


def _stage0(settings: Mapping[str, Any]) -> Plan:
    """The first DP-Adam phase alone."""
    plan = progap_plan("node", _STAGE0["depth"], _MAX_DEGREE, **settings)
    phase = tuple(m for m in plan.mechanisms if m.phase == "stage0")
    return replace(plan, status="conditional", mechanisms=phase)


#: Stage 0 reads no sums and is the same at every depth; later stages are trained by the same loop.
_STAGE0 = _FIT | {"depth": 0}
_TRAINING = Training(fit, _STAGE0, _reads, phase="stage0", max_grad_norm=0.1)


def _whole_scores(calibration: Calibration, world: str, draws: int, seed: int) -> np.ndarray:
    return whole_attack.whole_scores(calibration, _FIT | _WHOLE, _WHOLE_TRAIN, world, draws, seed)


def _whole_claim() -> Claim:
    """Both stages and the sums of one run, all together."""
    plan = _plan(_WHOLE | {"num_train": _WHOLE_TRAIN})
    return Claim(
        name="progap-node-whole-plan-eps4",
        family="ProGAP, node level, participant, whole plan",
        title="all phases, K = 1",
        attacks=STAGES,
        plan=plan,
        reference=plan,
        target_epsilon=4,
        delta=1e-3,
        adjacency="participant",
        expected="below",
        attack=whole_plan.whole_attack(_whole_scores),
        share=0.01,
    )


CLAIMS = (
    *_EDGE_CLAIMS,
    *_node_claims(),
    _whole_claim(),
    training_claims("progap-stage0", "ProGAP's stage 0", _TRAINING, _stage0)[0],
    *lattice_claims("progap", "ProGAP's stages", Training(fit, _FIT, _reads), _plan),
)
