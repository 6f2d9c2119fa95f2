"""Claims about GAP: its aggregation at edge and node level, and the training of its classifier."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from types import SimpleNamespace
from typing import Any

from graphdp.audit import front_door, graph_pairs, whole_plan
from graphdp.audit.bound import CONFIDENCE, lower_bound
from graphdp.audit.canaries import HIDDEN, Training
from graphdp.audit.claims import Claim
from graphdp.audit.edge_claims import edge_claims
from graphdp.audit.graph_pairs import Construction, Mechanism
from graphdp.audit.lattice_claims import lattice_claims
from graphdp.audit.replacement import replacement_claims
from graphdp.audit.training_claims import training_claims
from graphdp.graphs.bounds import bound_name
from graphdp.methods.gap import release_settings, whole_attack
from graphdp.methods.gap.method import aggregate, encode, encoder_name, fit
from graphdp.methods.gap.plan import analyses, gap_plan
from graphdp.privacy import calibrated, execution
from graphdp.privacy.calibration import Calibration
from graphdp.privacy.plan import Plan
from graphdp.privacy.protection import protects_nodes

#: The plan settings of the README's example: `facebook` with D left open.
_NODE = {"num_train": 19800, "batch_size": 256, "epochs": 10, "max_grad_norm": 1.0}
#: Out-degree bound of the constructions. The noise multiplier does not depend on it.
_MAX_DEGREE = 4
_NODE_DELTA = 1e-5
#: Where noise for all terms of a row, 2 (D + 1) of them, is nearest to what a participant needs.
_ALL_TERMS_DEGREE = 1
#: Of the constructions for DP-Adam; its noise alone does not depend on it.
_HOPS = 2

AGGREGATION = "graphdp.methods.gap.method.aggregate"


def _scores(construction: Construction, mechanism: Mechanism, draws: int, seed: int) -> list:
    return [
        graph_pairs.draw_scores(construction, mechanism, world, draws, seed)
        for world in ("present", "absent")
    ]


@dataclass(frozen=True)
class _Aggregation(Mechanism):
    """GAP's stage "aggregate" under a calibration: the noise is what the stage reads of it."""

    entry: dict[str, Any] = field(default_factory=dict)

    def release(self, indptr, indices, keep, x0, stream):
        setting: dict[str, Any] = {"encoder": {}, "plan": {}, "hops": self.hops}
        masks = {}
        if keep is not None:
            setting |= {"max_degree": self.max_degree, "degree_bound": self.degree_bound}
            masks = {bound_name(setting): {0: keep}}
        encoders = {encoder_name(0, setting["encoder"]): x0}
        graph = front_door.graph_of(indptr, indices)
        block = front_door.audit_block(self.entry, graph, [0], lambda _: stream)
        return front_door.aggregated(aggregate, block, setting, (encoders, masks))


def _mechanism(
    calibration: Calibration, degree_bound: str = "sampling", max_degree: int = _MAX_DEGREE
) -> _Aggregation:
    """The aggregation of a calibrated plan, with the noise that its stage adds."""
    entry = front_door.calibration_entry(calibration)
    run = calibrated.phases(entry)["aggregation"].run
    bounded = max_degree if protects_nodes(calibration.plan.level) else None
    return _Aggregation(run.count, run.noise_std, bounded, degree_bound, entry)


def _anchors(mechanism: Mechanism) -> int:
    # Far more than the noise: then normalisation hides nothing.
    return math.ceil(8 * mechanism.noise_std)


def _attack_edge(claim: Claim, calibration: Calibration, draws: int, seed: int):
    mechanism = _mechanism(calibration)
    undirected = claim.adjacency == "edge_undirected"
    construction = graph_pairs.edge_pair(_anchors(mechanism), mechanism.hops, undirected)
    scores = _scores(construction, mechanism, draws, seed)
    return lower_bound(*scores, claim.delta, analysis="gdp"), {
        "construction": construction.name,
        "nodes": construction.num_nodes,
    }


def _attack_with(make: Callable[[], Construction]):
    def attack(claim: Claim, calibration: Calibration, draws: int, seed: int):
        construction, mechanism = make(), _mechanism(calibration)
        scores = _scores(construction, mechanism, draws, seed)
        return lower_bound(*scores, claim.delta), {
            "construction": construction.name,
            "nodes": construction.num_nodes,
            "max_degree": mechanism.max_degree,
        }

    return attack


def _attack_without_node(degree_bound: str):
    """All constructions of an adjacency: the largest bound, at a joint confidence (Bonferroni)."""

    def attack(claim: Claim, calibration: Calibration, draws: int, seed: int):
        mechanism = _mechanism(calibration, degree_bound)
        constructions = graph_pairs.without_node(claim.adjacency, _MAX_DEGREE, _anchors(mechanism))
        confidence = 1 - (1 - CONFIDENCE) / len(constructions)
        found = {
            construction.name: lower_bound(
                *_scores(construction, mechanism, draws, seed),
                claim.delta,
                analysis="gdp",
                confidence=confidence,
            )
            for construction in constructions
        }
        largest = max(found, key=lambda name: found[name].epsilon)
        return found[largest], {
            "construction": largest,
            "constructions": {name: bound.epsilon for name, bound in found.items()},
            "confidence_each": confidence,
            "max_degree": _MAX_DEGREE,
        }

    return attack


_EDGE_CLAIMS = edge_claims(
    "gap",
    "GAP",
    AGGREGATION,
    ((1, 1, 2.0), (1, 4, 1.0), (2, 4, 0.5)),
    lambda hops: tuple(analyses("edge", {"hops": hops}, None)),
    lambda hops, adjacency: _attack_edge,
    corrected="below",
)


def _node_claims() -> list[Claim]:
    def claim(name: str, title: str, epsilon: float, hops: int, attack, share: float) -> Claim:
        plan = gap_plan("node", hops, _MAX_DEGREE, **_NODE)
        return Claim(
            name=f"gap-node-{name}-k{hops}-eps{epsilon}",
            family="GAP, node level, node added or removed",
            title=f"{title}, K = {hops}",
            attacks=f"graphdp.graphs.degree.bound_out_degree, {AGGREGATION}",
            plan=plan,
            reference=plan,
            target_epsilon=epsilon,
            delta=_NODE_DELTA,
            adjacency="node_add_remove",
            expected="exceeds",
            attack=attack,
            share=share,
        )

    common = _attack_with(lambda: graph_pairs.common_neighbours(300, _MAX_DEGREE))
    own = _attack_with(lambda: graph_pairs.own_row(60))
    return [
        *(
            # To refute a large ε takes many runs: no bound exceeds ln(runs / 7.4).
            claim("common-neighbours", "common neighbours", epsilon, hops, common, share)
            for hops in (1, 2)
            for epsilon, share in ((1, 0.05), (2, 0.05), (4, 0.05), (8, 0.25))
        ),
        *(claim("own-row", "own row", epsilon, 1, own, 0.5) for epsilon in (1, 8)),
    ]


def _degree_bound_claims(
    name: str, title: str, adjacency: str, degree_bound: str = "sampling"
) -> list[Claim]:
    """A degree bound under an adjacency that its √D is claimed for: it must stay below.

    The aggregation alone is calibrated to ε, so that no noise is spent on training: the strictest
    reading.
    """
    found = []
    for hops in (1, 2):
        settings = {"hops": hops, "max_degree": _MAX_DEGREE, "encoder": False}
        settings |= {"degree_bound": degree_bound}
        steps = {k: v for k, v in _NODE.items() if k != "num_train"}
        claimed = next(
            plan
            for plan in analyses("node", settings | steps, _NODE["num_train"])
            if plan.adjacency == adjacency and plan.status == "conditional"
        )
        plan = replace(
            claimed, mechanisms=tuple(m for m in claimed.mechanisms if m.phase == "aggregation")
        )
        found.append(
            Claim(
                name=f"{name}-k{hops}-eps4",
                family=f"GAP, node level, {title}",
                title=f"all constructions, K = {hops}",
                attacks=f"the degree bound, {AGGREGATION}",
                plan=plan,
                reference=plan,
                target_epsilon=4,
                delta=_NODE_DELTA,
                adjacency=adjacency,
                expected="below",
                attack=_attack_without_node(degree_bound),
                share=0.05,
            )
        )
    return found


def _attack_all_terms(claim: Claim, calibration: Calibration, draws: int, seed: int):
    """Whoever lists a removed node, and for a participant, where √D is met, its D targets."""
    mechanism, analysis = _mechanism(calibration, max_degree=_ALL_TERMS_DEGREE), "dp"
    construction = graph_pairs.common_neighbours(100, _ALL_TERMS_DEGREE)
    if claim.adjacency == "participant":
        construction = graph_pairs.anchored_star(_ALL_TERMS_DEGREE, _anchors(mechanism))
        analysis = "gdp"
    scores = _scores(construction, mechanism, draws, seed)
    return lower_bound(*scores, claim.delta, analysis=analysis), {
        "construction": construction.name,
        "nodes": construction.num_nodes,
        "max_degree": _ALL_TERMS_DEGREE,
    }


def _all_terms_claims() -> list[Claim]:
    """Noise for all terms of a row, 2 (D + 1) times the published: refuted as well. A participant
    moves the sums by √D all the same, so that its ε at that noise is smaller than the claimed one;
    it is that of the aggregation alone, on which all of the claimed ε is spent."""
    settings = {"hops": 1, "max_degree": _ALL_TERMS_DEGREE, "encoder": False}
    settings |= {"differing_terms": "all"} | {k: v for k, v in _NODE.items() if k != "num_train"}
    plans = analyses("node", settings, _NODE["num_train"])
    published, participant = plans[0], next(p for p in plans if p.adjacency == "participant")
    alone = [
        replace(plan, mechanisms=tuple(m for m in plan.mechanisms if m.phase == "aggregation"))
        for plan in (published, participant)
    ]
    found = []
    for name, words, epsilon, plan, reference, expected, share in (
        ("all-terms", "node added or removed", 4, published, published, "exceeds", 0.05),
        ("all-terms-participant", "participant", 8, alone[1], alone[0], "tight", 0.25),
    ):
        found.append(
            Claim(
                name=f"gap-node-{name}-k1-eps{epsilon}",
                family=f"GAP, node level, noise for all terms, {words}",
                title=f"D = {_ALL_TERMS_DEGREE}, K = 1",
                attacks=f"graphdp.graphs.degree.bound_out_degree, {AGGREGATION}",
                plan=plan,
                reference=reference,
                target_epsilon=epsilon,
                delta=_NODE_DELTA,
                adjacency=plan.adjacency,
                expected=expected,
                attack=_attack_all_terms,
                share=share,
            )
        )
    return found


def _classifier(settings: Mapping[str, Any]) -> Plan:
    """GAP's second DP-Adam phase alone; what the aggregation releases is fixed."""
    plan = gap_plan("node", _HOPS, _MAX_DEGREE, encoder=False, **settings)
    phase = tuple(m for m in plan.mechanisms if m.phase == "classifier")
    return replace(plan, status="conditional", mechanisms=phase)


def _encoder(settings: Mapping[str, Any]) -> Plan:
    """GAP's first DP-Adam phase alone."""
    plan = gap_plan("node", _HOPS, _MAX_DEGREE, encoder=True, **settings)
    phase = tuple(m for m in plan.mechanisms if m.phase == "encoder")
    return replace(plan, status="conditional", mechanisms=phase)


@wraps(encode)
def _encoded(block, settings: list[dict[str, Any]]) -> list[tuple]:
    """The stage, which leaves embeddings, as one that leaves models."""
    ((setting,), found) = settings, encode(block, settings)
    return [
        (
            seed,
            setting,
            SimpleNamespace(executed=execution.unpacked(found, encoder_name(seed, setting))),
        )
        for seed in block.seeds
    ]


_ENCODE = {"hidden": HIDDEN, "encoder_layers": 2, "hops": _HOPS}
_ENCODING = Training(_encoded, _ENCODE, phase="encoder", plan={"encoder": True, "hops": _HOPS})

#: Without an encoder: the features are what the aggregates are made of.
_FIT = {"hidden": HIDDEN, "encoder_layers": 0, "hops": _HOPS, "max_degree": _MAX_DEGREE}


def _released(
    x: Any, seeds: list[int], setting: dict[str, Any], folder: str
) -> tuple[dict, list[dict], Any]:
    """What "fit" reads where the aggregates, released before, are the features once more."""
    settings = release_settings("node", setting)
    records = [{"seed": s, "settings": settings, "key": "", "executed": None} for s in seeds]
    return {}, records, SimpleNamespace(load=lambda key: [x] * setting["hops"])


#: Rows of features have norm 1 (`initial_features`), and no aggregate's is longer.
_TRAINING = Training(
    fit, _FIT, reads=_released, feature=1.0, one_run_feature=1.0, max_grad_norm=0.1
)

#: All phases on few nodes.
_WHOLE_TRAIN = 24
_WHOLE = {"epochs": 1, "batch_size": 6, "max_grad_norm": 0.1, "hops": 1, "max_degree": _MAX_DEGREE}


def _whole_scores(calibration: Calibration, world: str, draws: int, seed: int):
    return whole_attack.whole_scores(calibration, _WHOLE, _WHOLE_TRAIN, world, draws, seed)


def _whole_claim() -> Claim:
    """Encoder, aggregation and classifier of one run, all together."""
    settings = _WHOLE | {"encoder": True}
    plan = next(p for p in analyses("node", settings, _WHOLE_TRAIN) if p.adjacency == "participant")
    return Claim(
        name="gap-node-whole-plan-eps4",
        family="GAP, node level, participant, whole plan",
        title=f"all phases, K = {_WHOLE['hops']}",
        attacks="graphdp.methods.gap.method.encode, .aggregate and .fit",
        plan=plan,
        reference=plan,
        target_epsilon=4,
        delta=1e-3,
        adjacency="participant",
        expected="below",
        attack=whole_plan.whole_attack(_whole_scores),
        share=0.015,
    )


#: Printed below the table of audits.
NOTES = (
    "node_add_remove, node level: the whole plan's ε is claimed, but only the aggregation is "
    "attacked. participant: the aggregation alone is calibrated to the claimed ε, and the bound is "
    "the largest over all constructions, at a joint confidence of 95 %.",
)
CLAIMS = (
    *_EDGE_CLAIMS,
    *_node_claims(),
    _whole_claim(),
    *_degree_bound_claims("gap-node-participant", "participant", "participant"),
    *_degree_bound_claims(
        "gap-node-candidates",
        "public candidates, node added or removed",
        "node_add_remove",
        "public_candidates",
    ),
    *_all_terms_claims(),
    # Many canaries in one run are the classifier's business: the loop is the same.
    training_claims("encoder", "GAP's encoder", _ENCODING, _encoder)[0],
    *lattice_claims("classifier", "GAP's classifier", _TRAINING, _classifier),
    *training_claims("classifier", "GAP's classifier", _TRAINING, _classifier),
    *replacement_claims("classifier", "GAP's classifier", _TRAINING, _classifier),
)
