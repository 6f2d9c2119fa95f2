"""Claims about MLP-DP and naive DP-SGD: their training is all that they release."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from graphdp.audit.bound import lower_bound
from graphdp.audit.canaries import HIDDEN, Phase, Training
from graphdp.audit.claims import Claim
from graphdp.audit.lattice_claims import lattice_claims
from graphdp.audit.replacement import poisson_replacement_claims, replacement_claims
from graphdp.audit.training_claims import training_claims
from graphdp.methods.mlp import naive_attack
from graphdp.methods.mlp.method import fit
from graphdp.methods.mlp.plan import analyses, mlp_plan, naive_implemented
from graphdp.privacy.calibration import Calibration
from graphdp.privacy.plan import Plan

NAIVE = "graphdp.methods.mlp.naive.fit"


def _plan(settings: Mapping[str, Any]) -> Plan:
    return mlp_plan("node", **settings)


def _replaced_plan(settings: Mapping[str, Any]) -> Plan:
    """That of a replaced node, of Poisson samples: by the accountant that can calibrate for it."""
    of_plan = {name: value for name, value in settings.items() if name != "num_train"}
    (plan,) = (
        p for p in analyses("node", of_plan, settings["num_train"]) if p.adjacency == "node_replace"
    )
    return replace(plan, accountant="pld")


def _naive_plan(settings: Mapping[str, Any]) -> Plan:
    return mlp_plan("node", method="naive", **settings)


_TRAINING = Training(fit, {"hidden": HIDDEN, "layers": 3})
#: A node that is classified well has a small gradient, in one of its two worlds: clip it as well.
_REPLACED = replace(_TRAINING, max_grad_norm=0.1)
_NAIVE = Training(naive_attack.fit, {"hidden": HIDDEN, "layers": 2}, clipped=naive_attack.clipped)
#: Of all gradients alike: a feature of no great length is enough.
_OFFICIAL = replace(_NAIVE, feature=1.0)


def _naive_claim() -> Claim:
    """One network at a time is trained, at some cost: one canary, in fewer runs."""
    canary, _ = training_claims("naive", "Naive DP-SGD", _NAIVE, _naive_plan)
    return replace(canary, attacks=NAIVE, share=0.0075)


def _attack_shuffled(settings: Mapping[str, int], analysis: str):
    def attack(claim: Claim, calibration: Calibration, draws: int, seed: int):
        phase = Phase(_OFFICIAL, calibration, **settings, classes=naive_attack.CLASSES)
        scores = [
            naive_attack.shuffled_scores(phase, world, draws, seed)
            for world in ("present", "absent")
        ]
        return lower_bound(*scores, claim.delta, analysis=analysis), {
            "rounds": phase.mechanism.executed,
            "sampling_rate": phase.mechanism.sampling_rate,
        }

    return attack


def _official_claims() -> list[Claim]:
    """What is claimed for shuffled batches, and what holds of them."""
    found = []
    for name, title, nodes, size, epochs, epsilon, delta, holds, share in (
        ("shuffled", "two batches an epoch", 8, 4, 1, 2, 2e-2, False, 0.03),
        ("last-batch", "a last batch of two", 10, 8, 1, 2, 1e-3, False, 0.0125),
        # Not full: with a node more there would be a round more.
        ("epochs", "a batch an epoch", 8, 9, 2, 1, 1e-3, True, 0.03),
    ):
        settings = {"num_train": nodes, "batch_size": size, "epochs": epochs}
        of_plan = {k: v for k, v in settings.items() if k != "num_train"}
        of_plan["max_grad_norm"] = _OFFICIAL.max_grad_norm
        claimed, true, _ = naive_implemented("node", of_plan, settings["num_train"])
        words = "one Gaussian an epoch" if holds else "shuffled batches as Poisson samples"
        found.append(
            Claim(
                name=f"naiveofficial-{name}-eps{epsilon}",
                family=f"Naive DP-SGD as its code runs it, {words}",
                title=title,
                attacks=NAIVE,
                plan=true if holds else claimed,
                reference=claimed,
                target_epsilon=epsilon,
                delta=delta,
                adjacency=claimed.adjacency,
                expected="below" if holds else "exceeds",
                attack=_attack_shuffled(settings, "gdp" if holds else "dp"),
                share=share,
            )
        )
    return found


CLAIMS = (
    *training_claims("mlp", "MLP-DP", _TRAINING, _plan),
    *replacement_claims("mlp", "MLP-DP", _REPLACED, _plan),
    *poisson_replacement_claims("mlp", "MLP-DP", _REPLACED, _replaced_plan),
    *lattice_claims("mlp", "MLP-DP", _TRAINING, _plan),
    _naive_claim(),
    *_official_claims(),
)
