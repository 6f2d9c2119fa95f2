"""The area under the ROC curve of a membership attack, and what (ε, δ) leaves it. No torch."""

import math

import numpy as np

from graphdp.errors import GraphDPError


def auc(members: np.ndarray, others: np.ndarray) -> float:
    """The chance that a random member scores above a random other, ties counting half.

    members, others: scores, float (m,) and (k,), larger for "was a member"; none of them NaN.
    Exact: the Mann-Whitney statistic of the ranks. Raises GraphDPError for an empty or NaN input.
    """
    from scipy.stats import rankdata

    scores = np.concatenate([members, others])
    if not (len(members) and len(others)) or np.isnan(scores).any():
        raise GraphDPError(
            f"an AUC needs scores of members and others without NaN, got {len(members)} and "
            f"{len(others)}"
        )
    ranks = rankdata(scores)[: len(members)]
    above = ranks.sum() - len(members) * (len(members) + 1) / 2
    return float(above / (len(members) * len(others)))


def pooled_bound(epsilon: float, delta: float) -> float:
    """The largest expected AUC over members and non-members of one model.

    The attack scores many nodes from one model's answers, so its scores depend on each other, and
    the bound for a test of one node, 1 - (1 - δ)² / (1 + e^ε), does not apply. Members are drawn
    uniformly, a fixed number per class. Let E = {s_v > s_w} (ties by a coin) for a random member v
    and a random non-member w. Exchanging v for a random non-member of its class gives a training
    set in which neither v nor w is, drawn from the same distribution. If adding or removing a
    member is (ε, δ)-DP, the exchange is (2ε, (1 + e^ε) δ) =: (e, d)-DP (group privacy), so with
    β = P(E | neither is a member)

        P(E) ≤ g(β) = min(e^e β + d, 1 - e^-e (1 - d - β)).

    For classes a of v and b of w, β_ab + β_ba = 1; g is concave, so the average over both orders is
    at most g(1/2), whose second term is the smaller one for all e, d ≥ 0:

        E[AUC] ≤ 1 - e^-e (1/2 - d), and at most 1.
    """
    _check(epsilon, delta)
    exchange = (1 + math.exp(min(epsilon, 700.0))) * delta
    return min(1.0, 1 - math.exp(-2 * epsilon) * (0.5 - exchange))


def _check(epsilon: float, delta: float) -> None:
    if not (epsilon >= 0 and 0 <= delta <= 1):
        raise GraphDPError(f"no bound for ε = {epsilon!r}, δ = {delta!r}: give ε ≥ 0, 0 ≤ δ ≤ 1")
