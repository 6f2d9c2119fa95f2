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

    As published it leaves the lists of the others alone. Sampled lists do not stay: in the graph of
    `node_add_remove_as_published`, replace one of the D + 1 nodes by one that nobody points to.
    """
    return Sensitivity(
        2 * math.sqrt(_checked(max_degree)),
        "2*sqrt(max_degree)",
        "DPDGC, Theorem 5.1 and Appendix E (own row excluded)",
    )


def all_terms_as_claimed(max_degree: int) -> Sensitivity:
    """2(D + 1)√D, √D times the factor by which PNPiGNNs' "corrected GAP" multiplies GAP's noise.

    It is argued for a row that sums at most D + 1 unit rows, of which all may differ. It does
    **not** hold: only out-degrees are bounded. A node that m others list sums m rows, and the
    counterexample of `node_add_remove_as_published`, m √D / (D + 1), passes it as well, once
    m > 2 (D + 1)².
    """
    degree = _checked(max_degree)
    return Sensitivity(
        2 * (degree + 1) * math.sqrt(degree),
        "2*(max_degree + 1)*sqrt(max_degree)",
        "PNPiGNNs, section 6.2 (as published), of GAP's Lemma 3",
    )


def public_candidates(max_degree: int) -> Sensitivity:
    """√D for adding or removing a node when each may send to D ids drawn without its edges.

    An edge u → v stays if v is a candidate of u, whatever other edges there are. Removing r takes
    away the edges of r and no other edge changes. Those into r change r's own row, which is left
    out; those out of r reach at most D rows, each changed by x_r of norm 1. Tight.
    """
    return Sensitivity(
        math.sqrt(_checked(max_degree)),
        "sqrt(max_degree)",
        "graphdp.graphs.degree.public_candidates, proof there: the condition of GAP, Appendix A.3, "
        "Lemma 3, holds (own row excluded)",
    )


def public_candidates_with_own_row(max_degree: int) -> Sensitivity:
    """√(D + D²): as `public_candidates`, and r's own row is released, of zeros where r is absent.

    Each id is a candidate of D others, so the row of r sums at most D unit rows. Tight.
    """
    degree = _checked(max_degree)
    return Sensitivity(
        math.sqrt(degree + degree**2),
        "sqrt(max_degree + max_degree^2)",
        "graphdp.graphs.degree.public_candidates, proof there (GAP, Appendix A.3, Lemma 3, and the "
        "own row's at most D terms)",
    )


def balanced_weights(max_degree: int, num_ids: int, gap: float = 0.0) -> Sensitivity:
    """2√(D g) + 2√(2 D gap), own row included: proof at `graphdp.privacy.stability`.

    g = D (1 + ln((n - 1) / D)), or n - 1 where D is at least that, is the largest Σ (w - w ln w)
    over n - 1 weights of sum ≤ D. num_ids: n, the size of the public universe. gap: the duality
    gap within which both graphs' weights are optimal.
    """
    degree, others = _checked(max_degree), max(num_ids - 1, 0)
    g = degree * (1 + math.log(others / degree)) if 0 < degree < others else min(degree, others)
    return Sensitivity(
        2 * math.sqrt(degree * g) + 2 * math.sqrt(2 * degree * gap),
        "2*sqrt(max_degree*g) + 2*sqrt(2*max_degree*gap), "
        "g = max_degree*(1 + ln((num_ids - 1)/max_degree))",
        "graphdp.privacy.stability.balanced_weights, proof there",
    )


def perturbed_pairs(pairs: int) -> Sensitivity:
    """`pairs` independently perturbed entries differ, or a count of edges moves by as much. Tight.

    One undirected edge is one pair where i < j is perturbed once, and two where both directed
    entries are perturbed apart.
    """
    return Sensitivity(
        pairs, f"{pairs}", "one pair i < j per undirected edge; group privacy for more"
    )


def participant_both_bounded(max_degree: int) -> Sensitivity:
    """2√D when node r takes part or not, and out-lists and then in-lists are bounded by D.

    `degree.bound_degrees` first samples every out-list without looking at any other, so that those
    of the others do not depend on r. Of its at most D out-edges then, each takes a place in its
    target's in-list, which without r goes to at most one other node s. So at most D rows change,
    each by ‖x_r - x_s‖ ≤ 2. The own row of r is left out. Tight (x_s = -x_r everywhere).
    """
    return Sensitivity(
        2 * math.sqrt(_checked(max_degree)),
        "2*sqrt(max_degree)",
        "at most max_degree rows, in each of which one unit-norm row takes another's place "
        "(own row excluded)",
    )


def replace_both_bounded(max_degree: int) -> Sensitivity:
    """2√(2D) when node r's features and out-edges are replaced; lists bounded as above.

    The at most D old and D new targets of r change, each by at most 2: r's row or another one takes
    the place of r's row or of another one. The own row of r is left out.
    """
    return Sensitivity(
        2 * math.sqrt(2 * _checked(max_degree)),
        "2*sqrt(2*max_degree)",
        "at most 2*max_degree rows, in each of which one unit-norm row takes another's place "
        "(own row excluded)",
    )


def clipped_group_gradient_sum(group: int, max_grad_norm: float) -> Sensitivity:
    """2 · G · C: at most G records change, each from one gradient of norm at most C to another."""
    return Sensitivity(
        2 * group * max_grad_norm,
        "2*G*C",
        f"Daigavane et al. 2021: G = {group} records differ (clipping norm C)",
    )


def clipped_union_rows(samples: int, max_degree: int, max_grad_norm: float) -> Sensitivity:
    """4 · G · (D + 1) · C: G samples of a batch change, and what is clipped to norm C are rows.

    A sample is a node with its at most D in-neighbours, and a batch is passed as one graph, the
    union of its samples. Every node of it is a row, whose gradient is that of the mean loss times
    the number n of rows. Let T hold the rows of the changed samples, before and after:
    |T| ≤ 2 G (D + 1). Any other row's gradient is only rescaled, as n is. Where n falls to n' < n
    such a row moves by at most (1 - n' / n) C, and there are at most n' of them: less than
    (n - n') C in all, and likewise where n rises. Of T let a rows leave the union, b enter it and c
    stay in it: they move by at most C, C and 2C. In all that is
    (a + b + 2c + |a - b|) C ≤ 2 |T| C. Batches have as many samples before and after.
    """
    rows = 2 * samples * (_checked(max_degree) + 1)
    return Sensitivity(
        2 * rows * max_grad_norm,
        "4*G*(max_degree + 1)*C",
        f"graphdp.privacy.sensitivity.clipped_union_rows, proof there: {rows} rows of "
        f"G = {samples} samples change (clipping norm C)",
    )


def clipped_gradient_sum(max_grad_norm: float) -> Sensitivity:
    """C: adding or removing one record moves a sum of gradients clipped to norm C by at most C."""
    return Sensitivity(max_grad_norm, "C", "Abadi et al. 2016, Algorithm 1 (clipping norm C)")


def shuffled_epoch(batch_size: int, last: int, max_grad_norm: float) -> Sensitivity:
    """2C√(1 + (B/m)²) for the means of an epoch's shuffled batches, times B; the last batch has m.

    Let a permutation of N nodes be cut into batches of B. Without node r the last node w of the
    permutation takes the place of r, which is uniform as well. So the batch of r has w in its
    place: its mean moves by at most 2C/B; and the last batch has one less: ‖w/m - Σ/(m(m - 1))‖ ≤
    2C/m, with Σ the sum of the m - 1 others. If r was in the last batch it is that alone.
    Needs m ≥ 2 (with m = 1 there is a round less).
    """
    ratio = batch_size / last
    return Sensitivity(
        2 * max_grad_norm * math.sqrt(1 + ratio**2),
        "2*C*sqrt(1 + (B/m)^2)",
        "graphdp.privacy.sensitivity.shuffled_epoch, proof there (B a batch, m an epoch's last)",
    )


def replaced_gradient_sum(max_grad_norm: float) -> Sensitivity:
    """2C: a gradient clipped to norm C leaves a sum, and another enters it. Tight."""
    return Sensitivity(
        2 * max_grad_norm,
        "2*C",
        "triangle inequality: one clipped gradient leaves the sum, another enters it",
    )
