"""DPDGC's plans (Chien et al., NeurIPS 2023): corrected, and as its code runs.

Three phases read private data: "embedding" (DP-Emb, DP-Adam on rows of the adjacency matrix),
"release" (Z = AW + b + N, published once) and, where features and labels are private too,
"classifier" (DP-Adam on X and Z). Between adjacent graphs one node r is replaced: at node level its
features, label and all edges, at k-neighbour level its features, label, k entries of its row of A
and k of its column; at edge level one entry of A is replaced and features and labels are public.
The released matrix is covered except for r's own row (DPDGC, Definition 4.2: r's own prediction is
not asked for).

What the paper's analysis misses, and `corrected_plan` counts:

- In the embedding phase a row of A is a training record, and r changes a group of rows. A group of
  g records moves the clipped sum by up to 2gC, not 2√g C, with a sampling amplification of its own
  (`graphdp.privacy.group`).
- At node level the paper takes columns of A with at most D entries in both graphs for granted (and
  even then 2D rows besides r's can change, by its own Theorem 5.3, where Algorithm 2 counts D). Its
  code makes them so by sampling each column. Then the entries of r push other rows' entries out of
  any number of columns, and neither bound holds: √(2D) and D + 1 are exceeded without limit (a test
  has the graphs). Here it is drawn without the edges which D nodes may list a node
  (`graphdp.graphs.degree.public_candidates`): r takes its own entries along and no other. So
  besides row r at most D rows change, each by W_r.

The classifier's phase reads row r of the released matrix in r's own gradient alone. Given all other
rows it is one replaced record, for any value of that row; by joint convexity so it is on average.
"""

import math
from typing import Any

from graphdp.errors import GraphDPError
from graphdp.privacy import sensitivity
from graphdp.privacy.assumptions import (
    CANDIDATES_ARE_PUBLIC,
    EDGE_COUNT_IS_PUBLIC,
    FEATURES_ARE_PUBLIC,
    ROW_IS_WITHHELD,
    SELECTION_IS_UNCOUNTED,
    TRAINING_COUNT_IS_PUBLIC,
)
from graphdp.privacy.plan import (
    GaussianReleases,
    Mechanism,
    Plan,
    PoissonGroupDPSGD,
    Sensitivity,
    UnnoisedRelease,
    WithoutReplacementDPSGD,
    dpsgd_rounds,
)
from graphdp.privacy.protection import check_level, k_adjacency, neighbors

_DEGREES = (
    "Columns of A have at most D entries in both graphs, which differ in one node's row and column "
    "only; a bound made by sampling columns breaks this, since an entry of that row pushes out "
    "another row's."
)
_EDGE = "One directed entry of the adjacency matrix is replaced; an undirected edge is two."
_WEIGHTS_BOUNDED = "The rows of W have a norm of at most c when the matrix is released."
_ONE_RECORD = (
    "The group of changed rows is accounted as one record with noise larger by the root of its "
    "size; that bounds neither the sum nor the chance that some of them are sampled."
)


def embedding_release(level: str, max_degree: int | None, undirected: bool = False) -> Sensitivity:
    """L2 norm of the change of A W off the replaced node's row, for rows of W of norm c = 1.

    node: at most D nodes may list r at all, the same in both graphs; each row moves by W_r of norm
    at most c, so √D c. k-neighbour: k entries of the column, √k c. edge: one entry moves one row,
    c. An undirected edge {i, j} moves row i by W_j and row j by W_i: √2 c. All tight.
    """
    if undirected:
        return Sensitivity(math.sqrt(2), "c*sqrt(2)", "DPDGC, Theorem G.1, for each of two entries")
    k = neighbors(level)
    if k is not None:
        return Sensitivity(math.sqrt(k), "c*sqrt(k)", "DPDGC, Theorem 5.4 and Appendix D")
    if level == "node":
        bound = sensitivity.public_candidates(max_degree)
        return Sensitivity(bound.value, f"c*{bound.formula}", bound.source)
    return Sensitivity(1.0, "c", "DPDGC, Theorem G.1")


def published_release(level: str, max_degree: int | None) -> Sensitivity:
    """The paper's: at node level √(2D) c, since column r loses up to D entries and gains up to D.

    The appendix prints √(2Dc) and √(kc) (section K); by linearity in W it is c√(2D) and c√k.
    """
    if level != "node":
        return embedding_release(level, max_degree)
    _check_count("max_degree", max_degree, 0)
    value = math.sqrt(2 * max_degree)
    return Sensitivity(value, "c*sqrt(2*max_degree)", "DPDGC, Theorem 5.3 and Appendix C")


def changed_rows(level: str, max_degree: int | None, undirected: bool = False) -> int:
    """The most rows of A (records of the embedding phase) in which adjacent graphs differ, r's own
    included, whose label changes with it; also the paper's group sizes (Algorithm 2).

    node: D + 1 (on public candidates). k-neighbour: k + 1. edge: 1, for an undirected edge 2.
    """
    k = neighbors(level)
    if k is not None:
        return k + 1
    if level == "node":
        _check_count("max_degree", max_degree, 0)
        return max_degree + 1
    return 2 if undirected else 1


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
        assumptions=_assumptions(level, _WEIGHTS_BOUNDED, undirected=undirected, corrected=True),
        own_row_covered=None if level == "edge" else False,
        mechanisms=tuple(mechanisms),
    )


def implemented_plan(
    level: str,
    max_degree: int | None = None,
    num_train: int | None = None,
    batch_size: int | None = None,
    epochs: int | None = None,
    classifier_epochs: int | None = None,
    max_grad_norm: float | None = None,
) -> Plan:
    """What the authors' code claims, by the paper's accounting (Corollaries H.1 to H.3,
    Algorithm 2), which sets its noise.

    Samples of a fixed size without replacement, one record replaced, noise 2√x C times the
    multiplier with x the group size D + 1, k + 1 or 1: a bound at edge level (x = 1) alone. And its
    code never brings the rows of W to norm c, so that the release has no sensitivity bound at all
    and the claim is refuted at every level.

    Settings as `corrected_plan`. Raises GraphDPError for a missing, wrong or unknown setting.
    """
    check_level("dpdgc: level", level)
    method = "dpdgcofficial"
    if level == "none":
        return _not_private(method, "as_implemented")
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

    size = changed_rows(level, max_degree)
    mechanisms: list[Mechanism] = [
        dp_adam("embedding", size, epochs),
        _release(published_release(level, max_degree)),
    ]
    if level != "edge":
        mechanisms.append(dp_adam("classifier", 1, classifier_epochs))
    # At edge level the best epoch of the embedding is chosen by the rows of private edges.
    missed = SELECTION_IS_UNCOUNTED if level == "edge" else _ONE_RECORD
    return Plan(
        method=method,
        level=level,
        adjacency=_adjacency(level),
        basis="as_implemented",
        status="refuted",
        assumptions=_assumptions(level, _NOT_NORMALISED, missed),
        own_row_covered=None if level == "edge" else False,
        mechanisms=tuple(mechanisms),
    )


_NOT_NORMALISED = (
    "The noise is that for rows of W of norm c = 1e-8, and the rows are about 1e7 times as long: "
    "the code normalises a temporary copy. No sensitivity is bounded by anything the code does."
)


def implemented_bound(settings: dict, num_train: int, level: str) -> Plan:
    """What the authors' code guarantees: the release of A W is as good as noiseless, so nothing."""
    claim = implemented_plan(level, num_train=num_train, **settings)
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
    query = "sums of the rows of W of the nodes that a row of A lists"
    return GaussianReleases(query, bound, 1, "release")


def _adjacency(level: str) -> str:
    k = neighbors(level)
    if k is not None:
        return k_adjacency(k)
    return "edge_directed" if level == "edge" else "node_replace"


def _assumptions(
    level: str, *reasons: str, undirected: bool = False, corrected: bool = False
) -> tuple[str, ...]:
    if level == "edge":
        # The corrected embedding phase keeps its last epoch; what is chosen later is chosen by
        # public labels and the released matrix.
        first = "Both directed entries of one undirected edge differ." if undirected else _EDGE
        return (first, *reasons, FEATURES_ARE_PUBLIC, EDGE_COUNT_IS_PUBLIC)
    first = (CANDIDATES_ARE_PUBLIC if corrected else _DEGREES) if level == "node" else _K_ENTRIES
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


def corrected_analyses(
    level: str, settings: dict[str, Any], num_train: int | None
) -> tuple[Plan, ...]:
    """With groups counted: the plan itself, and at edge level also of an undirected edge."""
    reference = corrected_plan(level, num_train=num_train, **settings)
    if level != "edge":
        return (reference,)
    both = corrected_plan(level, num_train=num_train, undirected=True, **settings)
    return reference, both


def implemented_analyses(
    level: str, settings: dict[str, Any], num_train: int | None
) -> tuple[Plan, ...]:
    """Of the authors' code: what it claims, and what is known of it, which is nothing."""
    if level == "none":
        return (implemented_plan(level),)
    claim = implemented_plan(level, num_train=num_train, **settings)
    return claim, implemented_bound(settings, num_train, level)
