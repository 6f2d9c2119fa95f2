"""Claims about the noise itself: as the papers' code draws it, and as it is drawn here.

One ε, two generators. Under torch's float32 noise no accounting holds at any ε, since one round
shows whether a record was in it (`graphdp.audit.lattice`); the claims named "..-official" say so.
The others run the same attack on the project's own noise (`graphdp.noise`). Both look at the kind
of the noise alone: half of it is for the other audits to find, so they have no detectable factor.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from graphdp.audit import lattice
from graphdp.audit.bound import lower_bound
from graphdp.audit.canaries import Phase, Training
from graphdp.audit.claims import DRAWS, Claim
from graphdp.noise import GridNoise, NoiseSource
from graphdp.privacy.calibration import Calibration
from graphdp.privacy.plan import Plan

#: 1,500 runs in each world: to show more than 5 takes 1,100 that are evaluated without one alarm.
_SHARE = 1500 / DRAWS
_EPSILON, _DELTA = 0.5, 1e-5
_TRAINING = {"num_train": 24, "batch_size": 6, "epochs": 2}

#: (calibration, what draws the noise, world, runs, seed) -> scores, larger for "present".
Scores = Callable[[Calibration, NoiseSource, str, int, int], np.ndarray]


def two_claims(name: str, title: str, attacks: str, plan: Plan, scores: Scores) -> list[Claim]:
    """The same claim with the noise of the papers' code and with that of `graphdp.noise`.

    name: in the claims' names. title: of what is trained. attacks: the code that is run. plan:
    whose ε is claimed and calibrated for.
    """
    found = []
    implemented = replace(plan, basis="as_implemented", status="refuted")
    official = lattice.TorchNoise, "-official", "as the papers' code draws it", "exceeds"
    for (noise, suffix, words, expected), claimed in (
        (official, implemented),
        ((GridNoise, "", "as drawn here", "below"), plan),
    ):

        def attack(claim: Claim, calibration: Calibration, draws: int, seed: int, noise=noise):
            present, absent = (
                scores(calibration, noise, world, draws, seed) for world in ("present", "absent")
            )
            return lower_bound(present, absent, claim.delta), {
                "pairs_off_the_lattice": {
                    "present": float(present.mean()),
                    "absent": float(absent.mean()),
                }
            }

        found.append(
            Claim(
                name=f"noise_lattice_{name}{suffix}",
                family=f"Noise {words}",
                title=title,
                attacks=attacks,
                plan=claimed,
                reference=plan,
                target_epsilon=_EPSILON,
                delta=_DELTA,
                adjacency=plan.adjacency,
                expected=expected,
                attack=attack,
                share=_SHARE,
                scaled=None,
            )
        )
    return found


def lattice_claims(
    name: str, title: str, training: Training, make: Callable[[Mapping[str, Any]], Plan]
) -> list[Claim]:
    """The two claims of a stage that trains on features; arguments as of `training_claims`."""

    def scores(calibration, noise, world, draws, seed):
        phase = Phase(training, calibration, **_TRAINING)
        return lattice.training_scores(phase, noise, world, draws, seed)

    plan = make(_TRAINING | {"max_grad_norm": training.max_grad_norm})
    attacks = f"{training.stage.__module__}.{training.stage.__name__}"
    return two_claims(name, title, attacks, plan, scores)
