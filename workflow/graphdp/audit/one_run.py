"""Auditing in one training run: each of many canaries is in or out by the toss of a coin.

Two ways to read the guesses. `one_run_bound` takes (ε, δ)-DP at one ε: Steinke, Nasr and Jagielski,
"Privacy Auditing with One (1) Training Run" (NeurIPS 2023). It proves little of Gaussian noise: to
show ε takes some 3 e^ε guesses without one that is wrong. `one_run_noise_bound` takes the whole
trade-off of a plan: Mahloujifar, Melis and Chaudhuri, "Auditing f-Differential Privacy in One Run"
(2024). Both are held against jax_privacy's numbers and against formulations of the tests' own.
"""

from collections.abc import Callable

import numpy as np

from graphdp.audit.bound import refuted_noise
from graphdp.errors import GraphDPError
from graphdp.privacy.plan import Plan


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

    _check_counts(canaries, guesses, correct)
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


def least_rate(losses: np.ndarray, deltas: np.ndarray) -> Callable[[float], float]:
    """What (loss, δ)-DP for all of these (losses ≥ 0) says of two neighbouring worlds: the chance
    of an event in one -> the least that it can have in the other."""
    factors = np.exp(losses)

    def least(rate: float) -> float:
        # Of the event itself, and of its complement.
        below, above = (rate - deltas) / factors, 1 - deltas - factors * (1 - rate)
        return max(0.0, float(below.max()), float(above.max()))

    return least


def refutes(
    canaries: int,
    guesses: int,
    correct: int,
    least: Callable[[float], float],
    failure_probability: float,
) -> bool:
    """Whether so many right guesses have a chance below `failure_probability` under `least`.

    canaries, correct: as for `p_value`. guesses: fixed beforehand. least: as of `least_rate`.

    With p_k the chance of k right guesses, R_i = Σ_{k ≥ i} k p_k / m is that of a canary (drawn at
    random) that is guessed right, and i guesses or more in all; W_i = Σ_{k ≥ i} (r - k) p_k / m
    that of one that is guessed wrong. Turning a canary's coin makes the one event of the other with
    one right guess less: W_{i-1} ≥ least(R_i). From a tail p_v + p_{v+1} + .. of the failure
    probability, all of it at v, that is followed down to 0: if the p_k then add up to more than 1,
    the tail is smaller.

    Raises GraphDPError for counts that are none, as `p_value` does.
    """
    _check_counts(canaries, guesses, correct)
    right = failure_probability * correct / canaries
    wrong = failure_probability * (guesses - correct) / canaries
    for i in range(correct - 1, -1, -1):
        more = max(wrong, least(right))
        if more == wrong:
            break  # nothing changes any more
        right += i / (guesses - i) * (more - wrong)
        wrong = more
        if right + wrong > guesses / canaries:
            return True
    return False


def one_run_noise_bound(
    canaries: int, guesses: int, correct: int, plan: Plan, delta: float, confidence: float = 0.95
) -> tuple[float | None, float]:
    """The smallest noise multiplier of `plan` that these guesses refute, and its ε at `delta`.

    That ε is above the true one with probability at most 1 - confidence, for whatever runs the
    plan's steps with some noise, if the rule for the guesses was fixed beforehand. (None, 0) where
    nothing is refuted. Raises GraphDPError as `refutes` and `graphdp.audit.bound.refuted_noise` do.
    """

    def refuted(losses: np.ndarray, allowed: np.ndarray) -> bool:
        least = least_rate(losses, allowed)
        return refutes(canaries, guesses, correct, least, 1 - confidence)

    return refuted_noise(plan, delta, refuted)


def _check_counts(canaries: int, guesses: int, correct: int) -> None:
    if not 0 <= correct <= guesses <= canaries:
        raise GraphDPError(
            f"{correct} right of {guesses} guesses about {canaries} canaries: each must be at "
            f"least 0 and at most the next"
        )


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
