"""The AUC that differential privacy leaves a test of one node."""

import math


def single_bound(epsilon: float, delta: float) -> float:
    """The largest AUC of any test for one node, if its membership is (ε, δ)-DP (add or remove).

    Everything else is fixed, and the scores with and without the node come from runs of their own.
    DP leaves a test of false positive rate x at most the power min(δ + e^ε x, 1 - e^-ε (1 - δ - x))
    (Kairouz, Oh, Viswanath 2015, Theorem 2.1). The two lines meet where x = 1 - power, at
    x* = (1 - δ) / (1 + e^ε). Above them lie two triangles of base 1 - δ and height x*, so

        AUC ≤ 1 - (1 - δ)² / (1 + e^ε).
    """
    return 1 - (1 - delta) ** 2 / (1 + math.exp(min(epsilon, 700.0)))
