"""What attacks on all phases of a method have in common: the rounds of training, and the bound.

The score of a run is the sum of the log-likelihood ratios of its phases, each nearly or quite
exact; the claim is that of the whole plan.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from graphdp.audit.bound import Bound, lower_bound, noise_bound
from graphdp.audit.claims import Claim
from graphdp.privacy import accounting
from graphdp.privacy.calibration import Calibration
from graphdp.privacy.execution import Execution

#: (calibration, world, runs, seed) -> scores, larger for "present".
Scores = Callable[[Calibration, str, int, int], np.ndarray]


def round_ratio(parameters: Any, noisy_sum: Any, own: Any, other: Any, run: Execution) -> Any:
    """The log-likelihood ratio of a Poisson round with or without a record: float64 tensor (S,).

    parameters, noisy_sum: as `methods.block.Observer` sees them. own, other: (input block of one
    row, label) of the record and of another one, whose direction is left out. As in
    `canaries.white_box_scores`, ln(1 - q + q exp((s L - L² / 2) / (σC)²)).
    """
    import torch

    from graphdp.training.inputs import Scratch
    from graphdp.training.private import add_clipped_gradients

    def gradient(block: Any, label: int) -> torch.Tensor:
        found, size = parameters.gradients(), len(parameters)
        add_clipped_gradients(
            parameters,
            block,
            torch.full((size, 1), label),
            parameters.values.new_ones(size, 1),
            run.max_grad_norm,
            found,
            Scratch(parameters.values),
        )
        return found.values.double()

    change, common = gradient(*own), gradient(*other)
    along = (change * common).sum(1) / (common * common).sum(1).clamp_min(1e-30)
    change -= along[:, None] * common
    found = (noisy_sum.values.double() * change).sum(1)
    exponent = (found - (change * change).sum(1) / 2) / run.noise_std**2
    return torch.logaddexp(
        torch.full_like(exponent, math.log1p(-run.sampling_rate)),
        exponent + math.log(run.sampling_rate),
    )


def whole_attack(scores: Scores):
    """The attack of a claim (`Claim.attack`): a bound on the plan's noise, all phases together."""

    def attack(
        claim: Claim, calibration: Calibration, draws: int, seed: int
    ) -> tuple[Bound, dict[str, Any]]:
        found = [scores(calibration, world, draws, seed) for world in ("present", "absent")]
        rates = lower_bound(*found, claim.delta, analysis="gdp")
        noise = calibration.noise_multiplier
        return noise_bound(rates, claim.plan), {
            "without_assumption": lower_bound(*found, claim.delta).epsilon,
            "tight_epsilon": accounting.epsilon(claim.plan, noise, claim.delta, "pld"),
        }

    return attack
