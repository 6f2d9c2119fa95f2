"""Claims about DPA-GNN: corrected, and as its authors' code runs it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np

from graphdp.audit.bound import Bound, lower_bound
from graphdp.audit.claims import Claim
from graphdp.audit.detectable import replaced
from graphdp.methods.dpa import plan_settings, worlds
from graphdp.methods.dpa.official_attack import equal_scores, first_scores
from graphdp.methods.dpa.plan import analyses
from graphdp.methods.dpa.published_plan import published_plan
from graphdp.methods.dpa.sums_attack import sum_scores
from graphdp.methods.dpa.worlds import DEGREE, WORLDS, Pair
from graphdp.parties import memory
from graphdp.parties.session import Session
from graphdp.privacy.calibration import Calibration
from graphdp.privacy.plan import Plan

STAGE, OFFICIAL = "graphdp.methods.dpa.method.fit", "graphdp.methods.dpa.official.fit"
_EDGE_DELTA, _NODE_DELTA = 1e-6, 1e-5
#: Of the authors' code, a part for each stream.
_TWO_DELTAS = 2e-5

_PARTIES = {"parties": 3, "shares": 2, "colluding": 1}
_ROUNDS = {"feature_layers": 3, "label_layers": 2}
_TWO_ROUNDS = {"feature_layers": 2, "label_layers": 1}
_ONE_ROUND = {"feature_layers": 1, "label_layers": 1}
#: A replaced user moves most in first rounds alone (as an edge does where lists are cut), or in all
#: where no entry is negative.
_REPLACED = {"adjacency": "node_replace_own_list", "max_degree": DEGREE}
#: Shares go to all parties, so that each of them sees how many pairs there are.
_COUNTED = _TWO_ROUNDS | {"feature_share": 0.4, "label_share": 0.2}
_COUNTED |= {"parties": 3, "shares": 3, "colluding": 1, "transport": "tcp"}
#: The least D at which the numbers of pairs get the noise that a party has to draw (1.5).
_COUNTED_DEGREE = 2

#: (pair, calibration, setting, world, runs, seed) -> scores, larger for "present".
Scores = Callable[[Pair, Calibration, dict[str, Any], str, int, int], np.ndarray]


def _attack(scores: Scores, pair: Pair, setting: dict[str, Any], analysis: str):
    def attack(
        claim: Claim, calibration: Calibration, draws: int, seed: int
    ) -> tuple[Bound, dict[str, Any]]:
        found = [scores(pair, calibration, setting, world, draws, seed) for world in WORLDS]
        return lower_bound(*found, claim.delta, analysis=analysis), {
            "without_assumption": lower_bound(*found, claim.delta).epsilon,
            "pair": pair.name,
            "nodes": pair.num_nodes,
        }

    return attack


def _of_parties(factor: float) -> AbstractContextManager[None]:
    """All noise of all parties is multiplied, where they draw it in this process."""
    return replaced(
        memory, "party_noise", lambda draw: lambda name, shape, std: draw(name, shape, std * factor)
    )


def _of_processes(factor: float) -> AbstractContextManager[None]:
    """The same of parties that are processes, dummies included, by what each is told."""

    def less(spec: dict[str, Any]) -> dict[str, Any]:
        if "count_std" not in spec:
            return spec
        rounds = [one | {"party_std": one["party_std"] * factor} for one in spec["rounds"]]
        return spec | {"rounds": rounds, "count_std": spec["count_std"] * factor}

    return replaced(
        Session, "_launch", lambda launch: lambda self, name, spec: launch(self, name, less(spec))
    )


def plan_of(level: str, adjacency: str, setting: dict[str, Any]) -> Plan:
    """The plan's line for an adjacency."""
    lines = analyses(level, plan_settings(level, setting), None)
    return next(plan for plan in lines if plan.adjacency == adjacency)


def _sum_claims() -> list[Claim]:
    found = []
    cut, bounded = {"max_degree": 1}, {"max_degree": DEGREE}
    three = "one of three parties colludes"
    five = {"parties": 5, "shares": 3, "colluding": 2}
    for name, who, title, pair, level, adjacency, setting, epsilons, expected, share in (
        ("edge-directed", three, "whole lists", worlds.edge_pair(1),
         "edge", "edge_directed", _TWO_ROUNDS, (4,), "tight", 0.5),
        ("edge-undirected", three, "whole lists", worlds.edge_pair(2),
         "edge", "edge_undirected", _TWO_ROUNDS, (1, 4), "tight", 0.5),
        ("cut-directed", three, "lists that are cut", worlds.cut_pair(1),
         "edge", "edge_directed", _TWO_ROUNDS | cut, (4,), "tight", 0.5),
        ("cut-undirected", three, "lists that are cut", worlds.cut_pair(2),
         "edge", "edge_undirected", _ONE_ROUND | cut, (4,), "tight", 0.3),
        ("participant", three, "a list or none", worlds.participant_pair(),
         "node", "participant", _ROUNDS | bounded, (1, 4), "tight", 0.5),
        ("replace-turned", three, "the opposite row", worlds.turned_pair(),
         "node", "node_replace_own_list", _ONE_ROUND | _REPLACED, (4,), "tight", 0.5),
        ("replace-moved", three, "another list", worlds.moved_pair(),
         "node", "node_replace_own_list", _ROUNDS | _REPLACED | {"non_negative": True},
         (4,), "tight", 0.5),
        ("server", "seen by the server alone", "a list or none", worlds.participant_pair(),
         "node", "participant", _ROUNDS | bounded | {"colluding": 0}, (4,), "tight", 0.5),
        ("five", "two of five parties collude", "a list or none", worlds.participant_pair(),
         "node", "participant", _ROUNDS | bounded | five, (4,), "tight", 0.5),
    ):  # fmt: skip
        setting = _PARTIES | setting
        plan = plan_of(level, adjacency, setting)
        for epsilon in epsilons:
            found.append(
                Claim(
                    name=f"dpa-{name}-eps{epsilon}",
                    family=f"DPA-GNN, {who}",
                    title=title,
                    attacks=STAGE,
                    plan=plan,
                    reference=plan,
                    target_epsilon=epsilon,
                    delta=_EDGE_DELTA if level == "edge" else _NODE_DELTA,
                    adjacency=adjacency,
                    expected=expected,
                    attack=_attack(sum_scores, pair, setting, "gdp"),
                    share=2.0 if epsilon == 1 else share,
                    scaled=_of_parties,
                )
            )
    return found


def _party_claims() -> list[Claim]:
    """All that a party sees, of processes that are parties."""
    found = []
    degree = {"max_degree": _COUNTED_DEGREE}
    for name, title, pair, level, adjacency, setting in (
        ("edge", "whole lists", worlds.edge_pair(2), "edge", "edge_undirected", _COUNTED),
        ("participant", "a list or none",
         worlds.participant_pair(_COUNTED_DEGREE, _COUNTED_DEGREE),
         "node", "participant", _COUNTED | degree),
    ):  # fmt: skip
        plan = plan_of(level, adjacency, setting)
        found.append(
            Claim(
                name=f"dpa-party-{name}-eps4",
                family="DPA-GNN over TCP, one of three parties colludes and counts",
                title=title,
                attacks=f"{STAGE}, graphdp.parties",
                plan=plan,
                reference=plan,
                target_epsilon=4,
                delta=_EDGE_DELTA if level == "edge" else _NODE_DELTA,
                adjacency=adjacency,
                expected="below",
                attack=_attack(sum_scores, pair, setting, "gdp"),
                share=0.03,
                scaled=_of_processes,
            )
        )
    return found


_ONE_ROUND_EACH = (
    "One round of each stream; a user sends at most max_degree pairs, the one with itself "
    "included, and no list is cut.",
    "Numbers of pairs are not looked at, and features have no negative entry.",
    "The classical formula is taken below ε = 8.4, where it holds, though proven below 1 alone.",
)


def one_round_plan(feature_share: float) -> Plan:
    """What the authors' noise is worth where only noisy rounds are run: ε without that of dummies.

    A user that is replaced moves 2 D rows by 1, or its own by √2 and the others by 1: √(2 D).
    """
    plan = published_plan("node", DEGREE, feature_share=feature_share)
    return replace(
        plan,
        adjacency="node_replace_own_list",
        basis="corrected",
        status="conditional",
        assumptions=_ONE_ROUND_EACH,
        own_row_covered=True,
        mechanisms=plan.mechanisms[:2],
    )


def _official_claims() -> list[Claim]:
    setting = {"max_degree": DEGREE, "parties": 3, "shares": 2, "dummy_rate": 0.5}
    published = published_plan("node", DEGREE)
    repeated = "DPA-GNN as its code runs it"
    single = "DPA-GNN as its code runs it, one round of each stream"
    found = []
    for name, family, title, epsilon, plan, pair, scores, rounds, share in (
        ("rounds", repeated, "rounds without noise", 2, published, worlds.equal_pair(),
         equal_scores, _TWO_ROUNDS, 0.02),
        ("rounds", repeated, "rounds without noise", 8, published, worlds.equal_pair(),
         equal_scores, _TWO_ROUNDS, 0.25),
        ("senders", repeated, f"a user sends {worlds.SENT} pairs", 4, published,
         worlds.sender_pair(), first_scores, _ONE_ROUND, 0.25),
        ("labels", single, "a user replaced, 5 % for features", 4, one_round_plan(0.05),
         worlds.replaced_pair(), first_scores, _ONE_ROUND, 0.5),
        ("features", single, "a user replaced, 60 % for features", 4, one_round_plan(0.6),
         worlds.replaced_pair(), first_scores, _ONE_ROUND | {"feature_share": 0.6}, 0.5),
    ):  # fmt: skip
        refuted = plan is published
        found.append(
            Claim(
                name=f"dpaofficial-{name}-eps{epsilon}",
                family=family,
                title=title,
                attacks=OFFICIAL,
                plan=plan,
                reference=plan,
                target_epsilon=epsilon,
                delta=_TWO_DELTAS,
                adjacency=plan.adjacency,
                expected="exceeds" if refuted else "below",
                attack=_attack(
                    scores,
                    pair,
                    {"feature_share": 0.05} | setting | rounds,
                    "dp" if refuted else "gdp",
                ),
                share=share,
            )
        )
    return found


#: Printed below the table of audits.
NOTES = (
    "DPA-GNN: copies of a pair of graphs side by side in one run; where lists are cut, copies "
    "whose lists the pair moves less than others are left out, as their cutting is public.",
)
CLAIMS = (*_sum_claims(), *_party_claims(), *_official_claims())
