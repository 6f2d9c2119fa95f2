"""L2 sensitivities of one sum aggregation M = Aᵀ X with unit-norm rows of X.

A[u, v] = 1 when u sends to v, so row v of M sums the rows of v's in-neighbours. `max_degree`
bounds the number of out-edges of every node. Each bound is on the Frobenius norm of M - M'. At
later hops X is the noisy, re-normalised output of the hop before (GAP), or a row-wise function of
all noisy sums so far, re-normalised (ProGAP); equal for both graphs up to post-processing, except
for the rows that a bound explicitly leaves out.
"""

import math

from graphdp.errors import GraphDPError
from graphdp.privacy.plan import Sensitivity


def _checked(max_degree: int) -> int:
    if isinstance(max_degree, bool) or not isinstance(max_degree, int) or max_degree < 0:
        raise GraphDPError(f"max_degree is {max_degree!r}; give a whole number of at least 0")
    return max_degree


def edge_directed() -> Sensitivity:
    """One entry A[u, v] differs: only row v changes, by ±x_u of norm 1. Tight."""
    return Sensitivity(1.0, "1", "GAP, Appendix A.1, Lemma 1")


def edge_undirected() -> Sensitivity:
    """A[u, v] and A[v, u] differ: row v changes by ±x_u and row u by ±x_v, so √(1 + 1). Tight."""
    return Sensitivity(
        math.sqrt(2),
        "sqrt(2)",
        "GAP, Appendix A.1, Lemma 1, applied to each of the two directed entries, "
        "which change different rows",
    )


def node_add_remove_as_published(max_degree: int) -> Sensitivity:
    """√D, as published for adding or removing a node.

    It holds when both graphs are D-bounded already, the other nodes' edges do not depend on the
    removed node r, and r's own row is left out: then r's at most D out-neighbours change by ±x_r.

    It does **not** hold for a degree bound by random sampling of neighbours. Let m nodes each
    point to the same D + 1 nodes: removing one of those makes every one of the m nodes keep all D
    others, each of which it kept with probability D / (D + 1) before. In expectation D rows move
    by m / (D + 1) each, that is m √D / (D + 1), without bound in m.
    """
    return Sensitivity(
        math.sqrt(_checked(max_degree)),
        "sqrt(max_degree)",
        "GAP, Theorem 2 and Appendix A.3, Lemma 3 (as published)",
    )


def participant(max_degree: int) -> Sensitivity:
    """√D when node r takes part or is never queried, and all other nodes' lists stay as they are.

    The lists of the others do not depend on whether r takes part, so only r's at most D
    out-neighbours change, each by ±x_r of norm 1. The own row of r is left out. Tight.
    """
    return Sensitivity(
        math.sqrt(_checked(max_degree)),
        "sqrt(max_degree)",
        "GAP, Appendix A.3, Lemma 3, whose condition holds under participant adjacency "
        "(own row excluded)",
    )


def node_replace(max_degree: int) -> Sensitivity:
    """2√D when node r's features and out-edges are replaced in a D-bounded graph; own row left out.

    A row that only one of the two lists reaches changes by norm 1, a row that both reach by
    ‖x_r - x_r'‖ ≤ 2. With a rows of the first kind and b of the second, a + 2b ≤ 2D, so
    a + 4b ≤ 4D, with equality for b = D and x_r' = -x_r. Tight.
    """
    return Sensitivity(
        2 * math.sqrt(_checked(max_degree)),
        "2*sqrt(max_degree)",
        "DPDGC, Theorem 5.1 and Appendix E (own row excluded)",
    )


def clipped_gradient_sum(max_grad_norm: float) -> Sensitivity:
    """C: adding or removing one record moves a sum of gradients clipped to norm C by at most C."""
    return Sensitivity(max_grad_norm, "C", "Abadi et al. 2016, Algorithm 1 (clipping norm C)")
