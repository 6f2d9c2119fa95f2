"""Which contextual stochastic block models there are. No numpy: every start of Snakemake asks."""

import math
import sys

from graphdp.config_errors import short
from graphdp.errors import GraphDPError

#: Features of all nodes: 40 GB.
_MOST_NUMBERS = 10**10
#: Whole numbers beyond it, which configurations may hold, are no floats.
_LARGEST = sys.float_info.max


def signal(n: int, f: int, epsilon: float, phi: float) -> tuple[float, float]:
    """λ (signal in the graph) and μ (signal in the features) at φ.

    λ = √(1+ε)·sin(φπ/2) and μ = √(ξ(1+ε))·cos(φπ/2) with ξ = n/f, so that λ² + μ²/ξ = 1 + ε: the
    arc of DPDGC, Appendix K, above the detection threshold λ² + μ²/ξ = 1 of its Theorem K.1
    (Deshpande et al. 2018). At φ = ±1 and φ = 0 the vanishing one of the two is exactly 0.
    """
    lam = math.sqrt(1 + epsilon) * math.sin(phi * math.pi / 2)
    mu = math.sqrt(n / f * (1 + epsilon)) * math.cos(phi * math.pi / 2) if abs(phi) < 1 else 0.0
    return lam, mu


def edge_probabilities(n: int, f: int, d: float, epsilon: float, phi: float) -> tuple[float, float]:
    """P(A_ij = 1) for nodes of the same class and of different classes: (d ± λ√d)/n.

    Raises:
        GraphDPError: one of them is outside [0, 1].
    """
    lam, _ = signal(n, f, epsilon, phi)
    within, between = (d + lam * math.sqrt(d)) / n, (d - lam * math.sqrt(d)) / n
    if not (0 <= within <= 1 and 0 <= between <= 1):
        raise GraphDPError(
            f"csbm: edge probabilities (d ± λ√d)/n = {within:.4g}, {between:.4g} leave [0, 1] with "
            f"λ = {lam:.4g}: need λ² ≤ d ≤ n − |λ|√d (d = {d:g}, n = {n}, 1 + ε = {1 + epsilon:g})"
        )
    return within, between


def check_sizes(
    name: str, n: int, f: int, d: float, epsilon: float, phi: float, seed: int = 0
) -> None:
    """Whether there is a model with these parameters (`graphdp.data.csbm.csbm` says what they are).

    Raises `GraphDPError`, naming the dataset, if one is out of range or no number.
    """
    whole, numbers = {"n": n, "f": f, "seed": seed}, {"d": d, "epsilon": epsilon, "phi": phi}
    for which, value in (whole | numbers).items():
        kind, words = (int, "a whole number") if which in whole else (int | float, "a number")
        if not isinstance(value, kind) or isinstance(value, bool):
            raise GraphDPError(
                f"dataset '{name}': csbm: {which} must be {words} without quotes, not "
                f"{short(value)}"
            )
    ranges = n >= 2 and f >= 1 and 0 < d <= _LARGEST and -1 < epsilon <= _LARGEST and -1 <= phi <= 1
    if not ranges:
        got = {"n": n, "f": f, "d": d, "epsilon": epsilon, "phi": phi}
        raise GraphDPError(
            f"dataset '{name}': csbm: need n ≥ 2, f ≥ 1, d > 0, epsilon > -1 (both finite) and "
            f"-1 ≤ phi ≤ 1, got {', '.join(f'{which}={short(one)}' for which, one in got.items())}"
        )
    if n * f > _MOST_NUMBERS:
        raise GraphDPError(
            f"dataset '{name}': csbm: {short(n)} nodes with {short(f)} features are too many "
            f"numbers; give at most {_MOST_NUMBERS:.0e}"
        )
    try:
        edge_probabilities(n, f, d, epsilon, phi)
    except GraphDPError as error:
        raise GraphDPError(f"dataset '{name}': {error}") from None
