"""Claims about DP-Adam on Poisson samples: one gradient canary, and many canaries in one run."""

from collections.abc import Callable, Mapping
from typing import Any

from graphdp.audit import canaries
from graphdp.audit.bound import CONFIDENCE, Bound, lower_bound, noise_bound
from graphdp.audit.canaries import Phase, Training
from graphdp.audit.claims import Claim
from graphdp.privacy import accounting
from graphdp.privacy.calibration import Calibration
from graphdp.privacy.plan import Plan

#: DP-Adam is audited on few nodes: its ε depends on the sampling rate and the steps alone.
_CANARY = {"num_train": 24, "batch_size": 6, "epochs": 2}
#: In one run everyone is in every round: what a canary does not show in this run it never shows.
_ONE_RUN = {"num_train": 4000, "batch_size": 4000, "epochs": 2}
#: A tenth is guessed: of 4,000 canaries that shows most if the noise is half (`docs/audits.md`).
_CANARIES, _GUESSES = 4000, 400
_CANARY_DELTA, _NODE_DELTA = 1e-3, 1e-5


def _attack_canary(training: Training):
    def attack(claim: Claim, calibration: Calibration, draws: int, seed: int):
        phase = Phase(training, calibration, **_CANARY)
        scores = [
            canaries.white_box_scores(phase, world, draws, seed) for world in ("present", "absent")
        ]
        rates = lower_bound(*scores, claim.delta, analysis="gdp")
        return noise_bound(rates, claim.plan), {
            "without_assumption": lower_bound(*scores, claim.delta).epsilon,
            "tight_epsilon": accounting.epsilon(
                claim.plan, calibration.noise_multiplier, claim.delta, "pld"
            ),
            "rounds": phase.mechanism.steps,
            "sampling_rate": phase.mechanism.sampling_rate,
        }

    return attack


def _attack_one_run(training: Training):
    def attack(claim: Claim, calibration: Calibration, draws: int, seed: int):
        phase = Phase(training, calibration, **_ONE_RUN)
        found = canaries.one_run(phase, _CANARIES, _GUESSES, claim.delta, seed, CONFIDENCE)
        bound = Bound(
            epsilon=found.epsilon,
            delta=claim.delta,
            analysis="noise",
            mu=None,
            favours="",
            threshold=0.0,
            rate_low=0.0,
            rate_high=0.0,
            draws=1,
            evaluated=1,
            confidence=CONFIDENCE,
            failure_probability=1 - CONFIDENCE,
            noise_multiplier=found.noise_multiplier,
        )
        return bound, {
            "canaries": found.canaries,
            "included": found.included,
            "guesses": found.guesses,
            "correct": found.correct,
            "without_assumption": found.without_assumption,
        }

    return attack


def training_claims(
    name: str, title: str, training: Training, make: Callable[[Mapping[str, Any]], Plan]
) -> list[Claim]:
    """The claims of a method's DP-Adam phase.

    name: in the claims' names. title: of what is trained. training: the stage that trains it. make:
    the settings of DP-Adam -> the plan of that phase alone.
    """
    stage = f"{training.stage.__module__}.{training.stage.__name__}"
    found = []
    for kind, words, settings, epsilon, delta, attack, share in (
        ("canary", "gradient canary", _CANARY, 4, _CANARY_DELTA, _attack_canary(training), 0.05),
        (
            "one-run",
            f"{_CANARIES:,} canaries in one run",
            _ONE_RUN,
            4,
            _NODE_DELTA,
            _attack_one_run(training),
            0.0,
        ),
    ):
        plan = make(settings | {"max_grad_norm": training.max_grad_norm})
        found.append(
            Claim(
                name=f"{kind}-{name}-eps{epsilon}",
                family="DP-Adam, one training node added or removed",
                title=f"{title}, {words}",
                attacks=stage,
                plan=plan,
                reference=plan,
                target_epsilon=epsilon,
                delta=delta,
                adjacency="node_add_remove",
                expected="below",
                attack=attack,
                share=share,
            )
        )
    return found
