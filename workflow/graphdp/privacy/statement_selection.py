"""What a privacy statement says of the search for hyperparameters, and how it writes a claim."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from graphdp.privacy import accounting, selection
from graphdp.privacy.composition import Parts, adjacent_epsilon, as_read, parts
from graphdp.privacy.plan import Plan, accounted_by
from graphdp.privacy.protection import edges_alone
from graphdp.privacy.statement_form import SelectionEntry
from graphdp.privacy.statement_words import reads_others, scores_read_protected

#: (plan settings, number of training nodes) -> every analysis of a method at its level.
Analyses = Callable[[dict[str, Any], int], tuple[Plan, ...]]


def claim(plan: Plan, epsilon: float, delta: float | None, *more: str) -> dict[str, Any]:
    """The fields of `Claim`: a refuted claim prints ε as none."""
    claimed = "inf" if epsilon == math.inf else epsilon
    return {
        "basis": plan.basis,
        "adjacency": plan.adjacency,
        "status": "conditional" if more and plan.status == "proven" else plan.status,
        "epsilon": "none" if plan.status == "refuted" else claimed,
        "claimed_epsilon": claimed,
        "delta": delta,
        "assumptions": [*plan.assumptions, *more],
    }


_GRID_WAS_FIXED = (
    "The number of trials is geometric with the number of settings as its mean, every trial draws "
    "a setting at random, and only the best is released. A study tries every setting of a fixed "
    "grid: for such a search the composition is what holds."
)
_PRIVATE_SCORE = (
    "The validation nodes that score the models are read without noise: this ε does not speak of "
    "them."
)
_SCORE_OF_OTHERS = (
    "The validation nodes that score the models, and the nodes that do not train and stand in "
    "their predictions, are read without noise: this ε does not speak of them."
)
_PUBLIC_SCORE = "The score that selects a model reads public labels."
_BY_QUADRATURE = (
    "Rényi divergences of sampled rounds are taken by quadrature: accurate, but no certified bound."
)
_ONE_SEED = "One model per setting takes part in the search; every further seed is a further trial."


def select(
    plans: Sequence[Plan],
    tried: Sequence[dict[str, Any]],
    delta: float | None,
    analyses: Analyses,
) -> list[SelectionEntry]:
    """ε of the selected model per analysis: composition, and the random-search bound."""
    if delta is None:
        return []

    def search(models: Sequence[Parts], delta: float) -> float:
        return selection.search_epsilon(models, len(models), delta)

    # Loss distributions of several models together, where asked for, would take minutes.
    accountant = "auto" if len(tried) > 1 else None
    entries = []
    for analysis in plans:
        if analysis.status == "refuted":  # the single model has no ε, so neither has the choice
            continue
        if len(tried) > 1 and scores_read_protected(analysis):
            continue
        models = [_parts_under(analysis, entry, analyses, accountant) for entry in tried]
        if None in models:
            continue
        score = _SCORE_OF_OTHERS if reads_others(analysis) else _PRIVATE_SCORE
        score = _PUBLIC_SCORE if edges_alone(analysis.level) else score
        charged = adjacent_epsilon(analysis.adjacency, selection.composition_epsilon, models, delta)
        entries.append(
            SelectionEntry(
                **claim(analysis, charged, delta, score, _ONE_SEED),
                how="composition",
                source=selection.COMPOSITION_SOURCE,
            )
        )
        charged = adjacent_epsilon(analysis.adjacency, search, models, delta)
        numeric = any(accounting.by_quadrature(part) for model in models for part, _ in model)
        entries.append(
            SelectionEntry(
                **claim(
                    analysis,
                    charged,
                    delta,
                    _GRID_WAS_FIXED,
                    score,
                    _ONE_SEED,
                    *([_BY_QUADRATURE] if numeric and len(models) > 1 else []),
                ),
                how="random_search",
                source=selection.SEARCH_SOURCE,
            )
        )
    return entries


def _parts_under(
    analysis: Plan, entry: dict[str, Any], analyses: Analyses, accountant: str | None
) -> Parts | None:
    """The releases of a tried setting under its own analysis of the same basis and adjacency.

    accountant: asked for instead of the entry's, or None. None if it has no such analysis, so that
    nothing is known of a search that includes it.
    """
    reference = Plan.from_dict(entry["plan"])
    own = accounted_by(
        accountant or reference.accountant, analyses(entry["settings"], entry["num_train"])
    )
    kind = analysis.basis, analysis.adjacency
    same = next((plan for plan in own if (plan.basis, plan.adjacency) == kind), None)
    noise = entry["noise_multiplier"] or 0.0
    return None if same is None else parts(as_read(same, reference, noise), reference, noise)
