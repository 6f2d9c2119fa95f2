"""Attacks on the rounds of HeterPoisson with the worst gradients that its accounting allows.

Node 0 takes part or not. Before clipping a sub-graph's gradient is +L e where node 0 is in the bag,
as its centre or a peripheral, and -L e in the bags of the nodes that list it where it is not; other
sub-graphs' lie across e. The accounting holds for any gradients, and no worlds are farther apart:
where the lists that hold node 0 are no more than M, they are those of its proof. What is run is the
rest, by the stage `method.fit`: lists, rates, coins, bags, the overlap rule, clipping, sums, noise.

A round's score is its log-likelihood ratio along e (`worlds`). Under SML noise the whole noisy sum
is looked at: the mean square of all coordinates beside the last layer's tells W, and the ratio is
that of Gaussian noise of scale σ√W.

The learning rate is so small that the weights stay as they were, so that all rounds are alike: the
rounds of many runs are those of one long training, one run after the other. Its plan is that of the
claim with more rounds and the same noise, by which the stage is checked.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from graphdp.audit.front_door import audit_block, calibration_entry, trained
from graphdp.data.split import Split
from graphdp.methods.heterpoisson.method import fit
from graphdp.methods.heterpoisson.worlds import CLASSES, Unit, log_ratios
from graphdp.privacy import calibrated
from graphdp.privacy.calibration import Calibration
from graphdp.progress import brief

LEARNING_RATE = 1e-9
#: Long enough that clipping brings every gradient to C / 2.
_LENGTH = 1e3
#: Runs of which one training is made: rounds that one stage is asked for at a time.
_RUNS = 5_000


@contextmanager
def worst(listers: int) -> Iterator[None]:
    """Gradients, before clipping, that tell whether node 0 is in a bag."""
    import torch

    from graphdp.methods.heterpoisson.network import Model
    from graphdp.methods.heterpoisson.official import OfficialModel

    ours, theirs = Model._forward, OfficialModel._forward

    def turned(self: Any, bags: Any, training: bool = False) -> tuple:
        inputs, joint, z, t, scores, slope = ours(self, bags, training)
        if training:
            t, scores = turn(bags, z, listers), torch.zeros_like(scores)
        return inputs, joint, z, t, scores, slope

    def turned_padded(self: Any, bags: Any, longest: int, training: bool = False) -> tuple:
        *rest, z, t, scores = theirs(self, bags, longest, training)
        if training:
            t, scores = turn(bags, z, listers), torch.zeros_like(scores)
        return *rest, z, t, scores

    with (
        patch.object(Model, "_forward", turned),
        patch.object(OfficialModel, "_forward", turned_padded),
    ):
        yield


def turn(bags: Any, z: Any, listers: int) -> Any:
    """What takes the place of the last layer's inputs, t of (B, h): the gradient of V is tᵀg."""
    import torch

    holds = bags.centres == 0
    holds[bags.owners[bags.peripherals == 0]] = True
    listing = (bags.centres >= 1) & (bags.centres <= listers)
    rows = np.zeros((len(holds), z.shape[1]), np.float32)
    rows[:, 0] = np.where(holds, _LENGTH, np.where(listing, -_LENGTH, 0.0))
    rows[:, 1] = np.where(holds | listing, 0.0, _LENGTH)
    return torch.from_numpy(rows) + 0 * z[: len(rows)]  # so that all else has no gradient


def along_e(sums: np.ndarray, hidden: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy sums (n, P) along e, and the mean squares of their coordinates but the last layer's."""
    last = sums.shape[1] - CLASSES * hidden - CLASSES
    # Row 0 of V holds t₀ g with g = (-1/2, 1/2) for label 0.
    found = (sums[:, last + 1].astype(np.float64) - sums[:, last]) / math.sqrt(2)
    return found, np.einsum("ij,ij->i", sums[:, :last], sums[:, :last], dtype=np.float64) / last


def noisy_sums(
    unit: Unit,
    calibration: Calibration,
    world: str,
    runs: int,
    name: tuple[int | str, ...],
    more: dict[str, Any] | None = None,
) -> Iterator[np.ndarray]:
    """The noisy sums of runs that are trained one after the other: blocks (rounds, P), float32.

    name: of the random streams. more: of the stage's setting, over the unit's.
    Raises `GraphDPError` if other noise was drawn than the plan accounts, as a job does.
    """
    (training,) = calibration.plan.mechanisms
    setting = unit.plan_settings | {
        "hidden": unit.hidden,
        "learning_rate": LEARNING_RATE,
        "convolution": "sage",
        "test_neighbors": 1,
        "setting": "transductive",
    }
    if calibration.plan.method == "heterpoisson":
        setting["overlap"] = unit.overlap
    last = np.array([unit.nodes])
    for start in range(0, runs, _RUNS):
        count, seen = min(_RUNS, runs - start), []
        longer = {"steps": training.steps * count}
        if training.noise == "sml":
            longer["executed"] = training.executed * count
        plan = replace(calibration.plan, mechanisms=(replace(training, **longer),))
        entry = calibration_entry(replace(calibration, plan=plan), unit.nodes)
        block = audit_block(
            entry,
            unit.graph(world),
            [0],
            lambda _, start=start: ("audit", *name, world, start),
            Split(unit.train(world), last, last),
            lambda phase, seeds, values, noisy_sum, seen=seen: seen.append(
                noisy_sum.numpy().copy()
            ),
        )
        with brief():
            trained(fit, block, setting | {"epochs": unit.epochs * count} | (more or {}))
        yield np.array(seen)


def round_scores(
    unit: Unit, calibration: Calibration, world: str, draws: int, seed: int, norm: bool = True
) -> np.ndarray:
    """Log-likelihood ratios of `draws` runs in one world: float64 (draws,).

    norm: whether the scale of SML noise is read off its norm, or all but e is left out.
    """
    std = noise_std(unit, calibration)
    sml, ratios = calibration.plan.mechanisms[0].noise == "sml", []
    with worst(unit.listers):
        for sums in noisy_sums(unit, calibration, world, draws, (seed, "worst", unit.overlap)):
            found, squares = along_e(sums, unit.hidden)
            scales = np.sqrt(squares) if sml and norm else std
            ratios.append(log_ratios(unit, found, scales, laplace=sml and not norm))
    return np.concatenate(ratios).reshape(draws, -1).sum(1)


def noise_std(unit: Unit, calibration: Calibration) -> float:
    """σ of a round's noise, as the plan has it."""
    entry = calibration_entry(calibration, unit.nodes)
    return calibrated.phase(entry, "training").run.noise_std
