"""The paper's own audit (Algorithm 5), as printed and repaired.

It runs the rounds without node 0, adds a canary k e to a round's sum, and compares <g, k e> with
<g - k e, k e>. As printed:

  twice sampled   k ~ ρ, which has the coin of a centre in it, and enters with probability q besides
  shared noise    both observations are made of one draw of the noise
  one direction   all that is looked at lies along the canary

With k ~ ρ the law is the theorem's own, which Lemma 1 covers on a line: whatever looks along one
direction stays below the claim, and the printed audit cannot see that it is violated. Repaired,
k ~ ρ always enters, the two worlds have noise of their own, and the norm of the rest of the sum
tells the noise's scale.

How observations become an ε is not printed: here a run's score is the sum over its rounds, in the
repaired audit of their log-likelihood ratios.
"""

from typing import Any

import numpy as np

from graphdp.methods.heterpoisson.worlds import Unit, log_density
from graphdp.methods.heterpoisson.worst_attack import along_e, noise_std, noisy_sums, worst
from graphdp.privacy.calibration import Calibration
from graphdp.rng import generator


def rho(unit: Unit) -> dict[float, float]:
    """The published law of k, in units of C, at D = max_degree lists: 1/2 where node 0 is a centre,
    else the number of lists that drew it."""
    import math

    q, lists = unit.batch_size / unit.nodes, unit.plan_settings["max_degree"]
    drawn = q * min(1.0, unit.num_neighbors / lists)
    found = {0.5: q}
    for j in range(lists + 1):
        chance = math.comb(lists, j) * drawn**j * (1 - drawn) ** (lists - j)
        found[float(j)] = (1 - q) * chance
    return {k: chance for k, chance in found.items() if chance > 0}


def audit_scores(
    unit: Unit, calibration: Calibration, draws: int, seed: int
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Kind of audit -> scores with and without the canary, float64 (draws,) each.

    "as_printed"; "rho_alone", where the canary enters as ρ says; "own_noise", where the worlds have
    noise of their own as well; "along_e", the best that can be made of one direction; "repaired".
    """
    law, std = rho(unit), noise_std(unit, calibration)
    coins = generator("audit", seed, "algorithm 5")
    seen: dict[str, Any] = {}
    for name in ("present", "absent"):
        parts = []
        with worst(unit.listers):
            stream = seed, "algorithm 5", name
            for sums in noisy_sums(unit, calibration, "absent", draws, stream):
                parts.append(along_e(sums, unit.hidden))
        seen[name] = [np.concatenate(part).reshape(draws, -1) for part in zip(*parts, strict=True)]
    (found, squares), (other, other_squares) = seen["present"], seen["absent"]
    k, other_k = coins.choice(list(law), (2, *found.shape), p=list(law.values()))
    entered = found + k * (coins.random(found.shape) < unit.batch_size / unit.nodes)

    def ratio(along: np.ndarray, scales: Any, laplace: bool = False) -> np.ndarray:
        without = log_density({0.0: 1.0}, along, scales, laplace)
        return log_density(law, along, scales, laplace) - without

    scores = {
        "as_printed": (k * entered, k * (entered - k)),
        "rho_alone": (k * (found + k), k * found),
        "own_noise": (k * (found + k), other_k * other),
        "along_e": (ratio(found + k, std, True), ratio(other, std, True)),
        "repaired": (ratio(found + k, np.sqrt(squares)), ratio(other, np.sqrt(other_squares))),
    }
    return {kind: (one.sum(1), two.sum(1)) for kind, (one, two) in scores.items()}
