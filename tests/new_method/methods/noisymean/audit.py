"""A claim about NoisyMean: its release, with and without one node, by its own code."""

import numpy as np

from graphdp.audit import detectable
from graphdp.audit.bound import lower_bound
from graphdp.audit.claims import Claim
from graphdp.audit.front_door import calibration_entry
from graphdp.methods.noisymean import method
from graphdp.methods.noisymean.method import noisy_sums
from graphdp.methods.noisymean.plan import noisymean_plan
from graphdp.privacy import calibrated
from graphdp.privacy.calibration import Calibration
from graphdp.rng import generator

_CLIP, _EPSILON, _DELTA = 1.0, 2, 1e-3
#: The features of the node that is there or not, of norm C, and of one that always is.
_NODE, _OTHER = np.array([[0.6, 0.8]]), np.array([[-0.3, 0.1]])


def _attack(claim: Claim, calibration: Calibration, draws: int, seed: int):
    """Many runs in one call: each is a class of its own, with noise of its own.

    The score is the noisy sum along the node's features, which is the best one against Gaussian
    noise.
    """
    # The σ that the plan hands to the method: a plan with too little noise is caught.
    phase = calibrated.phases(calibration_entry(calibration))["sums"]
    scores = []
    for world, nodes in (("present", [_OTHER, _NODE]), ("absent", [_OTHER])):
        x = np.repeat(np.concatenate(nodes), draws, axis=0)
        runs = np.tile(np.arange(draws), len(nodes))
        stream = generator("audit", claim.name, seed, world)
        sums, _ = noisy_sums(x, runs, draws, _CLIP, phase.run.noise_std, stream)
        scores.append(sums @ _NODE[0])
    # No assumption on the noise: "gdp" would take it to be as good as Gaussian.
    return lower_bound(*scores, claim.delta), {"feature_clip": _CLIP}


def _scaled(factor: float):
    """Its noise is not that of `graphdp.noise`: the scale that it asks for is multiplied."""
    return detectable.replaced(
        method,
        "discrete_gaussian",
        lambda draw: lambda std, *others: draw(std * factor, *others),
    )


def _claim() -> Claim:
    plan = noisymean_plan("node", feature_clip=_CLIP)
    return Claim(
        name=f"noisymean-sums-eps{_EPSILON}",
        family="NoisyMean, one training node added or removed",
        title="sums of features",
        attacks="graphdp.methods.noisymean.method.noisy_sums",
        plan=plan,
        reference=plan,
        target_epsilon=_EPSILON,
        delta=_DELTA,
        adjacency="node_add_remove",
        expected="below",
        attack=_attack,
        scaled=_scaled,
    )


CLAIMS = (_claim(),)
