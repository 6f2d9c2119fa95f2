"""Claims about DP-Adam, of which one training node is replaced.

As `graphdp.audit.canaries`, with two classes: another label turns a node's clipped gradient round,
so that the sum moves by 2C, all that the claims allow.

- **Batches of a fixed size**: all other training nodes look as the node does in one of the worlds.
  There a round's sum is the same whoever is drawn; in the other one it is 2C away with probability
  q, as often as the node is in the batch. No worlds are known that are farther apart: a batch with
  the node is one without it in which it takes another's place.
- **Poisson samples**: with the node or without it a sample has the same others, so they are left
  without a feature, and projected out. A round's sum is C to the one side with probability q, or C
  to the other one, else 0.
"""

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from graphdp.audit.bound import lower_bound, noise_bound, noise_bound_of_worlds
from graphdp.audit.canaries import STACK, Phase, Training, clipped
from graphdp.audit.claims import Claim
from graphdp.methods.block import Observer
from graphdp.privacy import accounting
from graphdp.privacy.calibration import Calibration
from graphdp.privacy.plan import Plan
from graphdp.privacy.plan_parts import with_one_less

_CLASSES = 2
#: Half of the nodes in a batch, and all: there nothing is sampled, and the claim can be met.
_HALF = {"num_train": 24, "batch_size": 12, "epochs": 2}
_ALL = {"num_train": 8, "batch_size": 8, "epochs": 2}
_EPSILON, _DELTA = 4, 1e-3


def replaced_scores(phase: Phase, world: str, draws: int, seed: int) -> np.ndarray:
    """Log-likelihood ratios of `draws` training runs in which node 0 has the label of the others
    ("present") or the other one: float64 (draws,).

    Along the direction in which the gradient turns a round's sum is N(B a, σ²) in "present", and in
    "absent" with probability q N((B - 1) a + b, σ²), with a and b the two gradients there.
    """
    import torch

    x = np.full((phase.num_train + 1, 1), phase.training.feature, np.float32)
    labels = np.zeros(len(x), np.int64)
    labels[0] = int(world == "absent")
    size, rate = phase.batch_size, phase.mechanism.sampling_rate
    std = phase.noise_std()
    scores = np.zeros(draws)

    def observe(_, runs, parameters, noisy_sum):
        one, other = (
            clipped(phase, parameters, x[:1], np.array([label])).values.double() for label in (0, 1)
        )
        direction = one - other
        direction /= direction.norm(dim=1, keepdim=True)
        a, b = ((gradient * direction).sum(1) for gradient in (one, other))
        found = (noisy_sum.values.double() * direction).sum(1) - size * a
        without = -((found / std) ** 2) / 2
        within = -(((found + a - b) / std) ** 2) / 2
        mixture = within + math.log(rate)
        if rate < 1:
            mixture = torch.logaddexp(without + math.log1p(-rate), mixture)
        scores[np.asarray(runs)] += (without - mixture).numpy()

    _watched(phase, x, labels, draws, ("audit", seed, world), observe)
    return scores


def _watched(
    phase: Phase, x: np.ndarray, labels: np.ndarray, draws: int, name: tuple, observe: Observer
) -> None:
    """Train `draws` runs on all nodes but the last, stack by stack; name: of their streams."""
    for start in range(0, draws, STACK):
        runs = list(range(start, min(start + STACK, draws)))
        train = np.arange(phase.num_train)
        phase.train(x, labels, train, runs, lambda run: (*name, run), observe)


def poisson_scores(phase: Phase, world: str, draws: int, seed: int) -> np.ndarray:
    """As `replaced_scores`, on Poisson samples: float64 (draws,).

    Along the direction d in which the gradient turns a round's sum is N(0, σ²) with probability
    1 - q, else N(⟨a, d⟩, σ²) in "present" and N(⟨b, d⟩, σ²) in "absent".
    """
    import torch

    x = np.zeros((phase.num_train + 1, 1), np.float32)
    x[0] = phase.training.feature
    labels = np.ones(len(x), np.int64)
    labels[0] = int(world == "absent")
    rate, std = phase.mechanism.sampling_rate, phase.noise_std()
    none = math.log1p(-rate) if rate < 1 else -math.inf
    scores = np.zeros(draws)

    def observe(_, runs, parameters, noisy_sum):
        one, other, third = (
            clipped(phase, parameters, x[i : i + 1], np.array([label])).values.double()
            for i, label in ((0, 0), (0, 1), (1, 1))
        )
        away = third / third.norm(dim=1, keepdim=True)
        direction = one - other
        direction = direction - (direction * away).sum(1, keepdim=True) * away
        direction /= direction.norm(dim=1, keepdim=True)
        found = (noisy_sum.values.double() * direction).sum(1)

        def log_chance(gradient):
            moved = (gradient * direction).sum(1)
            ratio = math.log(rate) + (found - moved / 2) * moved / std**2
            return torch.logaddexp(torch.full_like(ratio, none), ratio)

        scores[np.asarray(runs)] += (log_chance(one) - log_chance(other)).numpy()

    _watched(phase, x, labels, draws, ("audit", seed, world), observe)
    return scores


def poisson_losses(rate: float, steps: int, noise: float, interval: float, up: bool) -> Any:
    """What `steps` rounds of these worlds are worth: dp-accounting's distribution of the loss of
    (1 - q) N(0, σ²) + q N(C, σ²) against its mirror image, rounded up or down.

    noise: of the plan, in units of the 2C that a replaced node moves a sum by, σ = 2C · noise.
    """
    from scipy.special import ndtr

    from graphdp.privacy import mirrored_loss

    at = 0.5 / noise  # C, in units of σ
    share = rate * math.exp(-(at**2) / 2)

    def above(losses: np.ndarray, sign: float) -> np.ndarray:
        """The chance of a larger loss, of the first (1) or the second of the pair (-1)."""
        if rate == 1:
            x = losses / (2 * at)
        else:
            # Of u = e^(x at): (1 - q + s u) = e^loss (1 - q + s / u), s = `share`; its root has two
            # forms, of which one loses no digits.
            grown = np.exp(losses)
            b = (1 - rate) * (grown - 1)
            larger = np.abs(b) + np.sqrt(b * b + 4 * share**2 * grown)
            u = np.where(b > 0, larger / (2 * share), 2 * share * grown / larger)
            x = np.log(u) / at
        return (1 - rate) * ndtr(-x) + rate * ndtr(sign * at - x)

    # A loss of one round is below that of the node in every batch.
    largest = 2 * at * (at + 12)
    if up:
        one = mirrored_loss.rounded_up(
            lambda e: np.maximum(above(e, 1) - np.exp(e) * above(e, -1), 0.0), largest, interval
        )
    else:
        one = mirrored_loss.rounded_down(
            lambda e: above(np.concatenate([-e[:0:-1], e]), 1), largest, interval
        )
    return one.self_compose(steps)


def _attack_poisson(training: Training, settings: Mapping[str, int]):
    def attack(claim: Claim, calibration: Calibration, draws: int, seed: int):
        phase = Phase(training, calibration, **settings, classes=_CLASSES)
        scores = [poisson_scores(phase, world, draws, seed) for world in ("present", "absent")]
        rates = lower_bound(*scores, claim.delta, analysis="gdp")
        rate, steps = phase.mechanism.sampling_rate, phase.mechanism.steps
        worlds = functools.partial(poisson_losses, rate, steps)
        return noise_bound_of_worlds(rates, worlds), {
            "without_assumption": lower_bound(*scores, claim.delta).epsilon,
            "worlds_epsilon": float(
                worlds(calibration.noise_multiplier, 1e-3, False).get_epsilon_for_delta(claim.delta)
            ),
            "rounds": steps,
            "sampling_rate": rate,
        }

    return attack


def _attack(training: Training, settings: Mapping[str, int]):
    def attack(claim: Claim, calibration: Calibration, draws: int, seed: int):
        phase = Phase(training, calibration, **settings, classes=_CLASSES)
        scores = [replaced_scores(phase, world, draws, seed) for world in ("present", "absent")]
        rates = lower_bound(*scores, claim.delta, analysis="gdp")
        # The worlds above are those of a Poisson round of sensitivity 2C, whose trade-off is known.
        worlds = replace(claim.plan, mechanisms=with_one_less(claim.plan, None))
        return noise_bound(rates, worlds), {
            "without_assumption": lower_bound(*scores, claim.delta).epsilon,
            "tight_epsilon": accounting.epsilon(
                replace(worlds, adjacency="node_add_remove"),
                calibration.noise_multiplier,
                claim.delta,
                "pld",
            ),
            "rounds": phase.mechanism.steps,
            "sampling_rate": phase.mechanism.sampling_rate,
        }

    return attack


def replacement_claims(
    name: str, title: str, training: Training, make: Callable[[Mapping[str, Any]], Plan]
) -> list[Claim]:
    """The claims of a method's DP-Adam phase "classifier" on batches of a fixed size under
    node_replace; arguments as of `graphdp.audit.training_claims.training_claims`."""
    return _claims(
        name,
        "batches of a fixed size",
        title,
        training,
        lambda settings: make(settings | {"adjacency": "node_replace"}),
        _attack,
    )


def poisson_replacement_claims(
    name: str, title: str, training: Training, make: Callable[[Mapping[str, Any]], Plan]
) -> list[Claim]:
    """As `replacement_claims`, on Poisson samples. make: the settings of DP-Adam -> the plan of
    that phase alone for a replaced node."""
    return _claims(f"poisson-{name}", "Poisson samples", title, training, make, _attack_poisson)


def _claims(
    name: str,
    sampling: str,
    title: str,
    training: Training,
    make: Callable[[Mapping[str, Any]], Plan],
    attack: Callable,
) -> list[Claim]:
    stage = f"{training.stage.__module__}.{training.stage.__name__}"
    found = []
    for kind, words, settings, expected, share in (
        ("half", "half in a batch", _HALF, "below", 0.05),
        ("all", "all in a batch", _ALL, "tight", 0.15),
    ):
        plan = make(settings | {"max_grad_norm": training.max_grad_norm})
        found.append(
            Claim(
                name=f"replaced-{name}-{kind}-eps{_EPSILON}",
                family=f"DP-Adam, {sampling}, one node replaced",
                title=f"{title}, {words}",
                attacks=stage,
                plan=plan,
                reference=plan,
                target_epsilon=_EPSILON,
                delta=_DELTA,
                adjacency="node_replace",
                expected=expected,
                attack=attack(training, settings),
                share=share,
            )
        )
    return found
