"""What ProGAP releases at each level, and all analyses of that.

At edge level the official code releases what the paper says, so there is no plan "as implemented":
it only accounts for it by Rényi DP, which asks for about 6 % more noise than is needed. At node
level the number of rounds that it runs is read from its source (sisaman/ProGAP,
core/data/loader/node.py); it was not executed here.
"""

from typing import Any

from graphdp.errors import GraphDPError
from graphdp.privacy.perturbed_sums import all_analyses, published_plan
from graphdp.privacy.plan import Plan


def progap_plan(
    level: str,
    depth: int,
    max_degree: int | None = None,
    num_train: int | None = None,
    batch_size: int | None = None,
    epochs: int | None = None,
    max_grad_norm: float | None = None,
) -> Plan:
    """ProGAP (Sajadmanesh and Gatica-Perez, WSDM 2024) as published.

    edge: `depth` noisy aggregations, sensitivity 1 (Theorem 4.1, whose closed form is Rényi DP's;
        here they compose exactly). The K + 1 stages read public features and labels and the noisy
        aggregates: post-processing.
    node: DP-Adam in each of the depth + 1 stages, `epochs` each, and `depth` noisy aggregations
        with sensitivity √max_degree (Theorem 4.2 and its proof, which takes it from GAP, Lemma 3).
        One noise multiplier for all, as in the authors' code. The claim is refuted under
        node_add_remove for GAP's reason: see `sensitivity.node_add_remove_as_published`.
    none: no privacy, ε = ∞ only.

    Theorem 4.2 as printed is no bound: its term l = 2 has exp(C²/2σ²) where Zhu and Wang (2019),
    Theorem 11, has exp(C²/σ²). The accountants here use the theorem that holds.

    Units: depth, max_degree, num_train, batch_size and epochs are counts (depth 0 is an MLP);
    max_grad_norm is an L2 norm. Edge level reads `depth` alone, level none nothing.
    Raises GraphDPError for a missing, wrong or unknown setting.
    """
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 0:
        raise GraphDPError(f"progap: depth is {depth!r}; give a whole number of at least 0")
    stages = tuple(f"stage{stage}" for stage in range(depth + 1))
    training = (num_train, batch_size, epochs, max_grad_norm)
    return published_plan("progap", level, depth, stages[:1], stages[1:], max_degree, *training)


def analyses(level: str, settings: dict[str, Any], num_train: int | None) -> tuple[Plan, ...]:
    return all_analyses(progap_plan(level, num_train=num_train, **settings), settings, num_train)
