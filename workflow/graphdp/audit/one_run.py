"""Auditing in one training run: each of many canaries is in or out by the toss of a coin.

Source: Steinke, Nasr and Jagielski, "Privacy Auditing with One (1) Training Run" (NeurIPS 2023),
the theorems for δ = 0 and for δ > 0 and the formula of its appendix; stated here from memory, and
held against exact tails in the tests.
"""

import numpy as np

from graphdp.errors import GraphDPError


def p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float = 0.0) -> float:
    """A bound on the probability of `correct` or more right guesses if the mechanism is (ε, δ)-DP.

    canaries: m, each included with probability 1/2, independently. guesses: r of them were guessed
    (in or out), m - r abstentions. correct: v guesses were right. The number of guesses may depend
    on the output.

    With W ~ Binomial(r, e^ε / (1 + e^ε)), for δ = 0 the number of right guesses is at most W in
    distribution, whatever the adversary does. For δ > 0,

        p ≤ P(W ≥ v) + 2 m δ max_{i = 1..v} P(v - i ≤ W < v) / i.

    The last term: under (ε, δ)-DP the guesses are right as often as W plus a variable whose mean is
    at most 2 m δ, and to be worth i more right guesses it costs i of that mean (Markov).

    Raises GraphDPError unless 0 ≤ correct ≤ guesses ≤ canaries, ε ≥ 0 and 0 ≤ δ ≤ 1.
    """
    from scipy.special import expit
    from scipy.stats import binom

    if not 0 <= correct <= guesses <= canaries:
        raise GraphDPError(
            f"{correct} right of {guesses} guesses about {canaries} canaries: each must be at "
            f"least 0 and at most the next"
        )
    if not (epsilon >= 0 and 0 <= delta <= 1):
        raise GraphDPError(f"epsilon {epsilon!r}, delta {delta!r}: give epsilon ≥ 0, delta in 0..1")
    rate = float(expit(epsilon))
    tail = float(binom.sf(correct - 1, guesses, rate))
    if delta == 0 or correct == 0:
        return min(1.0, tail)
    counts = np.arange(1, correct + 1)
    within = np.cumsum(binom.pmf(correct - counts, guesses, rate))
    return min(1.0, tail + 2 * canaries * delta * float((within / counts).max()))


def one_run_bound(
    canaries: int, guesses: int, correct: int, delta: float, confidence: float = 0.95
) -> float:
    """The largest ε that these guesses refute at this confidence: a lower bound on the true ε.

    Arguments as `p_value`. 0 where nothing is refuted. The bound is above the true ε with
    probability at most 1 - confidence, as long as the rule for the guesses was fixed beforehand.
    """
    failure = 1 - confidence

    def refuted(epsilon: float) -> bool:
        return p_value(canaries, guesses, correct, epsilon, delta) < failure

    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while refuted(high):
        low, high = high, 2 * high
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def guess(scores: np.ndarray, guesses: int) -> np.ndarray:
    """In (1), out (-1) or abstain (0) for each canary: the highest and lowest scores are guessed.

    scores: float (m,); guesses: an even number of at most m, half of them "in". Returns int (m,).
    """
    if guesses % 2 or not 0 <= guesses <= len(scores):
        raise GraphDPError(f"{guesses} guesses about {len(scores)} canaries; give an even number")
    order = np.argsort(scores, kind="stable")
    result = np.zeros(len(scores), dtype=int)
    result[order[: guesses // 2]] = -1
    result[order[len(scores) - guesses // 2 :]] = 1
    return result
