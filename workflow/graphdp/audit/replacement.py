"""Claims about DP-Adam on batches of a fixed size, of which one training node is replaced.

As `graphdp.audit.canaries`, with two classes: another label turns a node's clipped gradient round,
so that the sum moves by 2C, all that the claims allow. All other training nodes look as the node
does in one of the worlds. There a round's sum is the same whoever is drawn; in the other one it is
2C away with probability q, as often as the node is in the batch. No worlds are known that are
farther apart: a batch with the node is one without it in which it takes another's place.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from graphdp.audit.bound import lower_bound, noise_bound
from graphdp.audit.canaries import STACK, Phase, Training, clipped
from graphdp.audit.claims import Claim
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

    for start in range(0, draws, STACK):
        runs = list(range(start, min(start + STACK, draws)))
        train = np.arange(phase.num_train)
        phase.train(x, labels, train, runs, lambda run: ("audit", seed, world, run), observe)
    return scores


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
    """The claims of a method's DP-Adam phase "classifier" under node_replace; arguments as of
    `graphdp.audit.training_claims.training_claims`."""
    stage = f"{training.stage.__module__}.{training.stage.__name__}"
    found = []
    for kind, words, settings, expected, share in (
        ("half", "half in a batch", _HALF, "below", 0.05),
        ("all", "all in a batch", _ALL, "tight", 0.15),
    ):
        of_plan = {"max_grad_norm": training.max_grad_norm, "adjacency": "node_replace"}
        plan = make(settings | of_plan)
        found.append(
            Claim(
                name=f"replaced-{name}-{kind}-eps{_EPSILON}",
                family="DP-Adam, batches of a fixed size, one node replaced",
                title=f"{title}, {words}",
                attacks=stage,
                plan=plan,
                reference=plan,
                target_epsilon=_EPSILON,
                delta=_DELTA,
                adjacency="node_replace",
                expected=expected,
                attack=_attack(training, settings),
                share=share,
            )
        )
    return found
