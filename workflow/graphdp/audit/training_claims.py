"""Claims about DP-Adam on Poisson samples: one gradient canary, and many canaries in one run."""

from collections.abc import Callable, Mapping
from typing import Any

from graphdp.audit.bound import CONFIDENCE, Bound, lower_bound, noise_bound
from graphdp.audit.claims import Claim
from graphdp.privacy import accounting
from graphdp.privacy.calibration import Calibration
from graphdp.privacy.plan import Plan

DP_ADAM = "graphdp.training.train"

#: DP-Adam is audited on few nodes: its ε depends on the sampling rate and the steps alone.
_CANARY = {"num_train": 24, "batch_size": 6, "epochs": 2, "max_grad_norm": 1.0}
_ONE_RUN = {"num_train": 2000, "batch_size": 500, "epochs": 4, "max_grad_norm": 1.0}
_CANARIES, _GUESSES = 1000, 100
_CANARY_DELTA, _NODE_DELTA = 1e-3, 1e-5


def _attack_canary(network: Any):
    def attack(claim: Claim, calibration: Calibration, draws: int, seed: int):
        from graphdp.audit import canaries

        phase = canaries.Phase(network, calibration, **_without_clip(_CANARY))
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


def _attack_one_run(network: Any):
    def attack(claim: Claim, calibration: Calibration, draws: int, seed: int):
        from graphdp.audit import canaries

        phase = canaries.Phase(network, calibration, **_without_clip(_ONE_RUN))
        found = canaries.one_run(phase, _CANARIES, _GUESSES, claim.delta, seed, CONFIDENCE)
        bound = Bound(
            epsilon=found.epsilon,
            delta=claim.delta,
            analysis="dp",
            mu=None,
            favours="",
            threshold=0.0,
            rate_low=0.0,
            rate_high=0.0,
            draws=1,
            evaluated=1,
            confidence=CONFIDENCE,
            failure_probability=1 - CONFIDENCE,
        )
        return bound, {
            "canaries": found.canaries,
            "included": found.included,
            "guesses": found.guesses,
            "correct": found.correct,
        }

    return attack


def _without_clip(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name != "max_grad_norm"}


def training_claims(
    name: str, title: str, network: Any, make: Callable[[Mapping[str, Any]], Plan]
) -> list[Claim]:
    """The claims of a method's DP-Adam phase "classifier".

    name: in the claims' names. title: of what is trained. network: a `canaries.Network`. make: the
    settings of DP-Adam -> the plan of that phase alone.
    """
    found = []
    for kind, words, settings, epsilon, delta, attack, share in (
        ("canary", "gradient canary", _CANARY, 4, _CANARY_DELTA, _attack_canary(network), 0.05),
        (
            "one-run",
            f"{_CANARIES} canaries in one run",
            _ONE_RUN,
            8,
            _NODE_DELTA,
            _attack_one_run(network),
            0.0,
        ),
    ):
        plan = make(settings)
        found.append(
            Claim(
                name=f"{kind}-{name}-eps{epsilon}",
                family="DP-Adam, one training node added or removed",
                title=f"{title}, {words}",
                attacks=DP_ADAM,
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
