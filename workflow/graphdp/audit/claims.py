"""Claims: whose ε is attacked, on which code, and what must come out.

Every claim is data, and so is its outcome (`run`): the claimed ε of a plan at a calibrated noise
multiplier, and a lower bound on the ε of the code at that noise. A method's own claims stand in
`audit.py` of its folder, as `CLAIMS`.
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from graphdp.audit import detectable
from graphdp.audit.bound import CONFIDENCE, Bound
from graphdp.errors import GraphDPError
from graphdp.methods import registry
from graphdp.privacy import composition
from graphdp.privacy.calibration import Calibration, calibrate
from graphdp.privacy.plan import Plan

#: What must come out: a bound above the claimed ε, one at or below it, or one at or below it that
#: comes within `TIGHT` of it.
EXPECTED = ("exceeds", "below", "tight")
#: A bound of at least this share of the claimed ε is tight.
TIGHT = 0.85
#: Runs per world of the cheapest attacks; the others take a share of them.
DRAWS = 200_000


@dataclass(frozen=True)
class Claim:
    """One ε that is held against an attack.

    name: of the claim and its file. family: the group in figure and table. title: what is attacked,
        in a few words, without the ε. attacks: the code that is run.
    plan: the analysis whose ε is claimed. reference: the plan that the noise is calibrated for.
    target_epsilon, delta: the privacy target of `reference`.
    adjacency: what the two worlds differ in; not always that of the plan (an undirected edge).
    expected: one of `EXPECTED`.
    attack: (claim, calibration, draws, seed) -> (bound, details for the record).
    share: runs per world, as a share of those of the cheapest attacks.
    scaled: how the noise that its code draws is multiplied, to see how much of it the attack needs
        to miss (`graphdp.audit.detectable`); None for an attack that does not test its scale.
        Code that draws other than Gaussian noise needs a context of its own kind.
    """

    name: str
    family: str
    title: str
    attacks: str
    plan: Plan
    reference: Plan
    target_epsilon: float
    delta: float
    adjacency: str
    expected: str
    attack: Callable[["Claim", Calibration, int, int], tuple[Bound, dict[str, Any]]]
    share: float = 1.0
    scaled: detectable.ScaledNoise | None = detectable.gaussian


def verdict(claimed_epsilon: float, lower: float) -> str:
    """ "refuted" (the bound is above the claim), "tight" (within 15 % of it) or "consistent"."""
    if lower > claimed_epsilon:
        return "refuted"
    return "tight" if lower >= TIGHT * claimed_epsilon else "consistent"


def meets(expected: str, found: str) -> bool:
    """Whether a verdict is what was expected."""
    return {
        "exceeds": found == "refuted",
        "below": found != "refuted",
        "tight": found == "tight",
    }[expected]


def run(claim: Claim, draws: int = DRAWS, seed: int = 0) -> dict[str, Any]:
    """Attack one claim; a JSON object with the claim, its ε, the bound on it and the verdict.

    draws: runs per world of the cheapest attacks; the claim takes its share, at least 100. seed:
    names the random streams.

    Raises GraphDPError as calibration and the attacks do.
    """
    calibration = calibrate(claim.reference, claim.target_epsilon, claim.delta)
    noise = calibration.noise_multiplier
    claimed = composition.epsilon_at(claim.plan, claim.reference, noise, claim.delta)
    bound, details = claim.attack(claim, calibration, max(100, round(draws * claim.share)), seed)
    found = verdict(claimed, bound.epsilon)
    return {
        "claim": claim.name,
        "family": claim.family,
        "title": claim.title,
        "attacks": claim.attacks,
        "method": claim.plan.method,
        "level": claim.plan.level,
        "basis": claim.plan.basis,
        "status": claim.plan.status,
        "claimed_adjacency": claim.plan.adjacency,
        "adjacency": claim.adjacency,
        "delta": claim.delta,
        "claimed_epsilon": claimed,
        "noise_multiplier": noise,
        "lower_bound": bound.epsilon,
        "analysis": bound.analysis,
        "confidence": CONFIDENCE,
        "failure_probability": 1 - CONFIDENCE,
        "draws": bound.draws,
        "seed": seed,
        "expected": claim.expected,
        "verdict": found,
        "as_expected": meets(claim.expected, found),
        "bound": bound.to_dict(),
        "details": details,
    }


@cache
def claims() -> Mapping[str, Claim]:
    """All claims by name, method by method. Raises `GraphDPError` if two have one name."""
    found: dict[str, Claim] = {}
    for module in registry.modules("audit").values():
        for claim in import_module(module).CLAIMS:
            if claim.name in found:
                raise GraphDPError(f"two audits are called {claim.name!r}; rename one")
            found[claim.name] = claim
    return found


def home(name: str) -> str:
    """The module that holds a claim; GraphDPError if there is none of that name."""
    get(name)
    return next(
        module
        for module in registry.modules("audit").values()
        if name in {claim.name for claim in import_module(module).CLAIMS}
    )


def get(name: str) -> Claim:
    """The claim of that name; GraphDPError if there is none."""
    if name not in claims():
        near = [known for known in claims() if known.startswith(name)]
        near = near or difflib.get_close_matches(name, claims(), cutoff=0.5)
        hint = (
            f"did you mean {' or '.join(near[:3])}?"
            if near
            else (
                f"there are {len(claims())}, such as {', '.join(list(claims())[:3])} (CLAIMS in "
                "workflow/graphdp/methods/*/audit.py)"
            )
        )
        raise GraphDPError(f"no audit of a claim {name!r}; {hint}")
    return claims()[name]
