"""DPDGC's plans (Chien et al., NeurIPS 2023): corrected, as published, as its code runs.

Three phases read private data: "embedding" (DP-Emb, DP-Adam on rows of the adjacency matrix),
"release" (Z = AW + b + N, published once) and, where features and labels are private too,
"classifier" (DP-Adam on X and Z). Between adjacent graphs one node r is replaced: at node level its
features, label and all edges, at k-neighbour level its features, label, k entries of its row of A
and k of its column; at edge level one entry of A is replaced and features and labels are public.
The released matrix is covered except for r's own row (DPDGC, Definition 4.2: r's own prediction is
not asked for).

What the paper's analysis misses in the embedding phase, and `corrected_plan` counts: a row of A is
a training record. With r, up to 2D rows change at node level (Theorem 5.3 counts them itself: the
D out-neighbours lost and the D gained), not D, so the group has 2D + 1 records; and a group of g
records moves the clipped sum by up to 2gC, not 2√g C, with a sampling amplification of its own
(`graphdp.privacy.group`).
"""

import math

from graphdp.errors import GraphDPError
from graphdp.privacy import sensitivity
from graphdp.privacy.plan import (
    GaussianReleases,
    Mechanism,
    Plan,
    PoissonGroupDPSGD,
    Sensitivity,
    UnnoisedRelease,
    WithoutReplacementDPSGD,
    check_level,
    dpsgd_rounds,
    neighbors,
)
from graphdp.privacy.plans import (
    EDGE_COUNT_IS_PUBLIC,
    FEATURES_ARE_PUBLIC,
    ROW_IS_WITHHELD,
    SELECTION_IS_UNCOUNTED,
    TRAINING_COUNT_IS_PUBLIC,
)

VARIANTS = ("corrected", "as_implemented")

_DEGREES = (
    "Columns of A have at most D entries in both graphs, which differ in one node's row and column "
    "only; a bound made by sampling columns of a symmetrised graph breaks this, since an edge "
    "stands in two."
)
_EDGE = "One directed entry of the adjacency matrix is replaced; an undirected edge is two."
_WEIGHTS_BOUNDED = "The rows of W have a norm of at most c when the matrix is released."
_ONE_RECORD = (
    "The group of changed rows is accounted as one record with noise larger by the root of its "
    "size; that bounds neither the sum nor the chance that some of them are sampled."
)


def embedding_release(level: str, max_degree: int | None, undirected: bool = False) -> Sensitivity:
    """L2 norm of the change of A W off the replaced node's row, for rows of W of norm c = 1.

    node: column r of A loses up to D entries and gains up to D; each moves one row by W_r of norm
    at most c, so √(2D) c. k-neighbour: k entries of the column, √k c. edge: one entry moves one
    row, c. An undirected edge {i, j} moves row i by W_j and row j by W_i: √2 c. All tight.

    The appendix prints √(2Dc) and √(kc) (section K); by linearity in W it is c√(2D) and c√k.
    """
    if undirected:
        return Sensitivity(math.sqrt(2), "c*sqrt(2)", "DPDGC, Theorem G.1, for each of two entries")
    k = neighbors(level)
    if k is not None:
        return Sensitivity(math.sqrt(k), "c*sqrt(k)", "DPDGC, Theorem 5.4 and Appendix D")
    if level == "node":
        _check_count("max_degree", max_degree, 0)
        value = math.sqrt(2 * max_degree)
        return Sensitivity(value, "c*sqrt(2*max_degree)", "DPDGC, Theorem 5.3 and Appendix C")
    return Sensitivity(1.0, "c", "DPDGC, Theorem G.1")


def changed_rows(level: str, max_degree: int | None, undirected: bool = False) -> int:
    """The most rows of A (records of the embedding phase) in which adjacent graphs differ.

    node: r's own and those of the at most D lost and D gained out-neighbours, 2D + 1. k-neighbour:
    k + 1. edge: 1 for one entry, 2 for an undirected edge. The label of row r changes with the row.
    """
    k = neighbors(level)
    if k is not None:
        return k + 1
    if level == "node":
        _check_count("max_degree", max_degree, 0)
        return 2 * max_degree + 1
    return 2 if undirected else 1


def changed_rows_as_published(level: str, max_degree: int | None) -> int:
    """The paper's group size (Algorithm 2): D + 1, k + 1 or 1."""
    return max_degree + 1 if level == "node" else changed_rows(level, max_degree)


def embedding_noise_per_clip(level: str, max_degree: int | None, ratio: float = 1.0) -> float:
    """Noise std of the embedding phase / (noise multiplier · C), corrected: ratio · 2√g.

    2√g is how the authors' code shares the noise between the phases (with its g); `ratio` shares it
    differently. Any value is accounted exactly.
    """
    return ratio * 2 * math.sqrt(changed_rows(level, max_degree))


def corrected_plan(
    level: str,
    max_degree: int | None = None,
    num_train: int | None = None,
    batch_size: int | None = None,
    epochs: int | None = None,
    classifier_epochs: int | None = None,
    max_grad_norm: float | None = None,
    embedding_noise_ratio: float = 1.0,
    undirected: bool = False,
) -> Plan:
    """DPDGC with Poisson samples, groups counted, and rows of W kept at norm c = 1.

    Settings are counts, but max_grad_norm (C, an L2 norm) and embedding_noise_ratio (see
    `embedding_noise_per_clip`). max_degree (D) is read at node level alone, classifier_epochs
    where the classifier is private; undirected, at edge level, protects both entries of an edge.

    Raises GraphDPError for a missing, wrong or unknown setting.
    """
    check_level("dpdgc: level", level)
    if level == "none":
        return _not_private("dpdgc", "corrected")
    _check_given(level, num_train=num_train, batch_size=batch_size, max_grad_norm=max_grad_norm)
    clip = sensitivity.clipped_gradient_sum(max_grad_norm)

    def dp_adam(phase: str, size: int, per_clip: float, passes: int | None) -> PoissonGroupDPSGD:
        _check_given(level, **{f"epochs of the {phase}": passes})
        rate, steps = dpsgd_rounds(num_train, batch_size, passes)
        query = f"sum of clipped gradients of the {phase}"
        return PoissonGroupDPSGD(query, rate, steps, size, clip, per_clip, phase)

    size = changed_rows(level, max_degree, undirected)
    # The noise does not depend on which of the two edge adjacencies it is read under.
    per_clip = embedding_noise_per_clip(level, max_degree, embedding_noise_ratio)
    mechanisms: list[Mechanism] = [
        dp_adam("embedding", size, per_clip, epochs),
        _release(embedding_release(level, max_degree, undirected)),
    ]
    if level != "edge":
        mechanisms.append(dp_adam("classifier", 1, 2.0, classifier_epochs))
    return Plan(
        method="dpdgc",
        level=level,
        adjacency="edge_undirected" if undirected else _adjacency(level),
        basis="corrected",
        status="proven" if level == "edge" else "conditional",
        assumptions=_assumptions(level, _WEIGHTS_BOUNDED, undirected=undirected),
        own_row_covered=None if level == "edge" else False,
        mechanisms=tuple(mechanisms),
    )


def published_plan(
    level: str,
    max_degree: int | None = None,
    num_train: int | None = None,
    batch_size: int | None = None,
    epochs: int | None = None,
    classifier_epochs: int | None = None,
    max_grad_norm: float | None = None,
    basis: str = "as_published",
) -> Plan:
    """The paper's accounting (Corollaries H.1 to H.3, Algorithm 2), which sets its code's noise.

    Samples of a fixed size without replacement, one record replaced, noise 2√x C times the
    multiplier with x the group size D + 1, k + 1 or 1. As published the claim holds at edge level
    (x = 1) and is refuted elsewhere. basis "as_implemented" is the same noise in the authors' code,
    whose rows of W are never brought to norm c: then the release has no sensitivity bound at all.

    Settings as `corrected_plan`. Raises GraphDPError for a missing, wrong or unknown setting.
    """
    check_level("dpdgc: level", level)
    method = "dpdgcofficial"
    if level == "none":
        return _not_private(method, basis)
    _check_given(level, num_train=num_train, batch_size=batch_size, max_grad_norm=max_grad_norm)

    def dp_adam(phase: str, size: int, passes: int | None) -> WithoutReplacementDPSGD:
        _check_given(level, **{f"epochs of the {phase}": passes})
        rate, steps = dpsgd_rounds(num_train, batch_size, passes)
        claimed = Sensitivity(
            2 * math.sqrt(size) * max_grad_norm,
            "2*sqrt(group_size)*C",
            "DPDGC, Algorithm 2 (group size), and the factor in its code (a bound for 1 only)",
        )
        return WithoutReplacementDPSGD(
            f"sum of clipped gradients of the {phase}", rate, steps, claimed, phase
        )

    size = changed_rows_as_published(level, max_degree)
    mechanisms: list[Mechanism] = [
        dp_adam("embedding", size, epochs),
        _release(embedding_release(level, max_degree)),
    ]
    if level != "edge":
        mechanisms.append(dp_adam("classifier", 1, classifier_epochs))
    implemented = basis == "as_implemented"
    holds = level == "edge" and not implemented
    reasons = [_NOT_NORMALISED if implemented else _WEIGHTS_BOUNDED]
    if level == "edge":
        reasons.append(SELECTION_IS_UNCOUNTED)  # the best epoch, by the rows of private edges
    if level != "edge":
        reasons.append(_ONE_RECORD)
    return Plan(
        method=method,
        level=level,
        adjacency=_adjacency(level),
        basis=basis,
        status="conditional" if holds else "refuted",
        assumptions=_assumptions(level, *reasons),
        own_row_covered=None if level == "edge" else False,
        mechanisms=tuple(mechanisms),
    )


_NOT_NORMALISED = (
    "The noise is that for rows of W of norm c = 1e-8, and the rows are about 1e7 times as long: "
    "the code normalises a temporary copy. No sensitivity is bounded by anything the code does."
)


def implemented_bound(settings: dict, num_train: int, level: str) -> Plan:
    """What the authors' code guarantees: the release of A W is as good as noiseless, so nothing."""
    claim = published_plan(level, num_train=num_train, basis="as_implemented", **settings)
    released = (
        UnnoisedRelease("A W with rows of W of any norm", "release")
        if isinstance(mechanism, GaussianReleases)
        else mechanism
        for mechanism in claim.mechanisms
    )
    return Plan(
        method=claim.method,
        level=level,
        adjacency=claim.adjacency,
        basis="corrected",
        status="proven",
        assumptions=(_NOT_NORMALISED,),
        own_row_covered=claim.own_row_covered,
        mechanisms=tuple(released),
    )


def _release(bound: Sensitivity) -> GaussianReleases:
    return GaussianReleases("sums of the in-neighbours' rows of W", bound, 1, "release")


def _adjacency(level: str) -> str:
    k = neighbors(level)
    if k is not None:
        return f"k_neighbor({k})"
    return "edge_directed" if level == "edge" else "node_replace"


def _assumptions(level: str, *reasons: str, undirected: bool = False) -> tuple[str, ...]:
    if level == "edge":
        # The corrected embedding phase keeps its last epoch; what is chosen later is chosen by
        # public labels and the released matrix.
        first = "Both directed entries of one undirected edge differ." if undirected else _EDGE
        return (first, *reasons, FEATURES_ARE_PUBLIC, EDGE_COUNT_IS_PUBLIC)
    first = _DEGREES if level == "node" else _K_ENTRIES
    return (first, *reasons, ROW_IS_WITHHELD, TRAINING_COUNT_IS_PUBLIC, SELECTION_IS_UNCOUNTED)


_K_ENTRIES = (
    "Besides the node's features and label, k entries of its row and k of its column of the "
    "adjacency matrix differ, and no other."
)


def _not_private(method: str, basis: str) -> Plan:
    release = UnnoisedRelease(query="trained model", phase="training")
    return Plan(method, "none", "", basis, "", (), None, (release,))


def _check_given(level: str, **settings: object) -> None:
    missing = [name for name, value in settings.items() if value is None]
    if missing:
        raise GraphDPError(f"dpdgc, {level} level: give {', '.join(missing)}")


def _check_count(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise GraphDPError(f"{name} is {value!r}; give a whole number of at least {least}")
