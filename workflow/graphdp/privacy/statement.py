"""The privacy statement of a trained model: what is protected, how, and what is not.

A statement is made from a calibration entry (see `graphdp.privacy.cells`), so it reads the same
plan that set the noise and that the training loop executed. Its fields are those of
`graphdp.privacy.statement_form`.
"""

import math
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from graphdp.errors import GraphDPError
from graphdp.privacy import accounting, selection
from graphdp.privacy.bases import bases
from graphdp.privacy.composition import Parts, adjacent_epsilon, epsilon_at, parts
from graphdp.privacy.plan import (
    FixedSizeDPSGD,
    GaussianReleases,
    Mechanism,
    Plan,
    PoissonDPSGD,
    PoissonGroupDPSGD,
    PureRelease,
    UnnoisedRelease,
    WithoutReplacementDPSGD,
    level_kind,
    neighbors,
    protected_units,
)
from graphdp.privacy.plans import CANDIDATES_ARE_PUBLIC
from graphdp.privacy.statement_form import (
    AccountingEntry,
    Data,
    DegreeBound,
    Guarantee,
    MechanismEntry,
    Protection,
    Release,
    Rng,
    Selection,
    SelectionEntry,
    Statement,
    Target,
)

_UNITS = {
    "": "nobody",
    "edge_directed": "one directed edge (one entry of the adjacency matrix)",
    "edge_undirected": "one undirected edge (both entries)",
    "node_add_remove": "one node with its features, label and edges, there or not",
    "node_replace": "one node whose features, label and edges are replaced",
    "participant": "one node that takes part with its features, label and out-edges, or does not",
}
_RNG = Rng(
    generator="Philox (aggregation noise, sampling of batches), seeded counter hash (degree bound) "
    "and the seeded generator of torch (DP-Adam noise), all derived by SHA-256 from the study seed",
    cryptographic=False,
    note="Whoever knows the study seed can draw the noise again: the guarantees take it as secret. "
    "Floating-point samplers leave gaps that an attacker may use (Mironov 2012); no defence.",
)


def statement(
    entry: dict[str, Any],
    data: Data,
    *,
    method: str,
    checkpoint: str,
    tried: Sequence[dict[str, Any]],
    repeats: int = 1,
    charged: Sequence[SelectionEntry] | None = None,
    min_class_count: int = 1,
    remove_isolated: bool = False,
) -> Statement:
    """The statement of a model whose noise is that of a calibration entry.

    entry: an entry of the cell's calibration file. data: the graph, with the entry's number of
    training nodes. checkpoint: "best_validation" or "last". tried: the calibration entry of every
    hyperparameter setting that the selection looked at, once per setting. repeats: seeds. charged:
    the search's ε, if an earlier statement of the same search has it. min_class_count,
    remove_isolated: the preprocessing that left nodes out.

    Raises GraphDPError when δ is not below 1 / number of protected units, when the entry's plan is
    not the one that its method publishes, and when `entry` is not among those tried.
    """
    plan = Plan.from_dict(entry["plan"])
    analyses = bases(method, plan.level, entry["settings"], entry["num_train"])
    if plan not in analyses:
        raise GraphDPError(
            f"{method}: the calibration's plan is none that the method states today; "
            f"run calibrate again"
        )
    if entry not in tried:
        raise GraphDPError("the statement's own setting is not among those tried; add it")
    delta = entry["delta"]
    own = analyses[0].adjacency
    units = protected_units(own, data.directed_edges, data.train_nodes, data.nodes)
    if delta is not None and delta * units >= 1:
        raise GraphDPError(
            f"delta {delta:g} is not below 1/{units}, one over the number of protected units; "
            f"calibrate with a smaller delta"
        )
    noise = _noise(entry)
    return Statement(
        schema_version=1,
        method=method,
        settings=entry["settings"],
        data=data,
        guarantee=_guarantee(plan, entry["settings"]),
        protection=_protection(plan),
        releases=_releases(plan),
        inference_privacy=_inference(plan),
        mechanisms=[_mechanism(m, entry["noise_multiplier"]) for m in plan.mechanisms],
        target=Target(
            basis=plan.basis,
            adjacency=plan.adjacency,
            epsilon=entry["target_epsilon"],
            delta=delta,
            noise_multiplier=entry["noise_multiplier"],
        ),
        accounting=[_account(analysis, plan, noise, delta) for analysis in analyses],
        selection=Selection(
            checkpoint=checkpoint,
            settings_tried=len(tried),
            repeats=repeats,
            entries=_select(analyses, tried, delta) if charged is None else list(charged),
        ),
        uncounted=[
            *_uncounted(plan, checkpoint, len(tried), repeats),
            *_left_out(plan, min_class_count, remove_isolated),
        ],
        rng=_RNG,
    )


def cell_statements(
    entries: Sequence[dict[str, Any]],
    graph_name: str,
    fingerprint: str,
    num_nodes: int,
    num_edges: int,
    method: str,
    checkpoint: str,
    settings_tried: Sequence[dict[str, Any]],
    undirected: bool | None = None,
    repeats: int = 1,
    min_class_count: int = 1,
    remove_isolated: bool = False,
) -> list[Statement]:
    """The statements of a cell (dataset, method, level, ε): one per calibration entry.

    entries: the calibrations of all its settings, in which a plan may stand twice. settings_tried:
    the plan settings of every hyperparameter setting of the cell, one per setting, so with
    repetitions where settings share a plan. The statements of one number of training nodes charge
    the search over the entries with that number. undirected: whether the graph is symmetrised,
    None if unknown. repeats: seeds per setting. min_class_count, remove_isolated: see `statement`.

    Raises GraphDPError if a setting tried has no calibration entry, and as `statement` does.
    """
    from graphdp.methods.settings import distinct
    from graphdp.privacy.cells import lookup

    entries = distinct(list(entries))
    statements: list[Statement] = []
    charged: dict[int, list[SelectionEntry]] = {}  # one search per number of training nodes
    for entry in entries:
        num_train = entry["num_train"]
        made = statement(
            entry,
            Data(
                name=graph_name,
                fingerprint=fingerprint,
                nodes=num_nodes,
                directed_edges=num_edges,
                train_nodes=num_train,
                undirected=undirected,
            ),
            method=method,
            checkpoint=checkpoint,
            tried=[lookup(entries, tried, num_train) for tried in settings_tried],
            repeats=repeats,
            charged=charged.get(num_train),
            min_class_count=min_class_count,
            remove_isolated=remove_isolated,
        )
        charged[num_train] = made.selection.entries
        statements.append(made)
    return statements


def _noise(entry: dict[str, Any]) -> float:
    """The entry's noise multiplier as the accountants read it; 0 where nothing is noised."""
    return entry["noise_multiplier"] or 0.0


def _guarantee(plan: Plan, settings: dict[str, Any]) -> Guarantee:
    bound = None
    sampled = CANDIDATES_ARE_PUBLIC not in plan.assumptions
    if "max_degree" in settings:
        bound = DegreeBound(
            max_degree=settings["max_degree"],
            method=_bounded_by(plan, sampled),
            # With node r gone another neighbour takes its place in a sampled list.
            data_dependent=sampled,
        )
    return Guarantee(
        level=plan.level,
        adjacency=plan.adjacency,
        unit=_unit(plan),
        own_row_covered=plan.own_row_covered,
        degree_bound=bound,
    )


def _bounded_by(plan: Plan, sampled: bool) -> str:
    """A row of A names the nodes that it reads; elsewhere a list names those that it sends to."""
    if not sampled and _reads_rows(plan):
        return "edges from a node's public candidates to it, drawn without its edges"
    if not sampled:
        return "edges to a node's public candidates, drawn without its edges"
    lists = "each column of A" if _reads_rows(plan) else "each node's out-list"
    more = ", then of its in-list" if _samples_sub_graphs(plan) else ""
    return f"uniform sample without replacement of {lists}{more}"


def _unit(plan: Plan) -> str:
    k = neighbors(plan.level)
    if k is not None:
        return f"one node whose features, label, {k} in-edges and {k} out-edges are replaced"
    return _UNITS[plan.adjacency]


def _reads_rows(plan: Plan) -> bool:
    """Whether rows of the adjacency matrix are training records."""
    return plan.method in ("dpdgc", "dpdgcofficial")


def _protects_nodes(plan: Plan) -> bool:
    return level_kind(plan.level) in ("node", "k")


def _protection(plan: Plan) -> Protection:
    splits = "training, validation and test nodes alike"
    if plan.level == "edge":
        return Protection(
            protected=[f"Edges of {splits}."],
            not_protected=[f"Features, labels and the set of nodes ({splits}): taken as public."],
        )
    if _protects_nodes(plan):
        edges, others = [], []
        k = neighbors(plan.level)
        if k is not None:
            edges = [f"{k} edges to and {k} edges from a node ({splits})."]
            others = [f"A node's other edges, and whether it has more than {k} either way."]
        elif _reads_rows(plan):
            edges = [f"Edges to and from a node ({splits})."]
        elif _aggregates(plan):
            edges = ["Out-edges of a node, as messages to others."]
        return Protection(
            protected=["Features and labels of training nodes.", *edges],
            not_protected=[
                *others,
                "Labels of validation nodes: they select checkpoints and settings.",
                "Number of training nodes: taken as public.",
                "A node's own prediction: it reads the node's own data.",
            ],
        )
    return Protection(
        protected=[], not_protected=["What the model reads: it is trained without noise."]
    )


def _samples_sub_graphs(plan: Plan) -> bool:
    return any(isinstance(m, FixedSizeDPSGD) for m in plan.mechanisms)


def _perturbs(plan: Plan) -> bool:
    return any(isinstance(m, PureRelease) for m in plan.mechanisms)


def _aggregates(plan: Plan) -> bool:
    return any(isinstance(m, GaussianReleases) for m in plan.mechanisms)


def _releases(plan: Plan) -> list[Release]:
    if plan.level == "none":
        why = "Trained without noise."
        return [Release(what="weights, predictions and accuracies", covered=False, why=why)]
    weights = "Post-processing of the mechanisms."
    own_row = "The prediction for a node reads its own row and features."
    releases = [Release(what="weights of the last epoch", covered=True, why=weights)]
    if _aggregates(plan):
        whole = plan.level == "edge"
        why = "The noisy rows are what the mechanism releases."
        releases.append(
            Release(
                what="noisy aggregates",
                covered=whole,
                why=why if whole else f"{why} The protected node's own row is not covered.",
            )
        )
    edge = plan.level == "edge"
    if _perturbs(plan):
        why = "It is what the mechanism releases."
        releases.append(Release(what="perturbed graph", covered=True, why=why))
    releases.append(
        Release(
            what="predictions",
            covered=edge,
            why="Post-processing; features are public." if edge else own_row,
        )
    )
    releases.append(
        Release(
            what="accuracies, and a choice made by them",
            covered=edge,
            why="Labels are public." if edge else "They are computed from labels without noise.",
        )
    )
    return releases


def _inference(plan: Plan) -> str:
    if _perturbs(plan):
        return (
            "Predictions read the perturbed graph, which is released once; no edge is read again."
        )
    if _samples_sub_graphs(plan):
        return (
            "Predictions use one noisy aggregate, released after training. Rows of other nodes are "
            "covered; the protected node's own row, and so its own prediction, is not."
        )
    if plan.level == "edge":
        return "Predictions use the aggregates released in training; no edge is read again."
    if _protects_nodes(plan) and _aggregates(plan):
        return (
            "Predictions use the aggregates released in training. Rows of other nodes are covered; "
            "the protected node's own row, and so its own prediction, is not."
        )
    if _protects_nodes(plan):
        return "A prediction reads the queried node's features and nothing of other nodes."
    return "None."


def _mechanism(mechanism: Mechanism, noise: float | None) -> MechanismEntry:
    common = {"kind": mechanism.kind, "query": mechanism.query, "phase": mechanism.phase}
    if isinstance(mechanism, UnnoisedRelease):
        return MechanismEntry(
            **common,
            norm="",
            sensitivity=None,
            formula="",
            source="",
            noise_multiplier=0.0,
            noise_std=0.0,
            count=1,
            sampling="none",
            sampling_rate=None,
        )
    if isinstance(mechanism, PoissonGroupDPSGD):
        return _group_mechanism(mechanism, noise, common)
    if isinstance(mechanism, PureRelease):
        bound = mechanism.sensitivity
        return MechanismEntry(
            **common,
            norm="L1",
            sensitivity=bound.value,
            formula=bound.formula,
            source=bound.source,
            noise_multiplier=None if noise is None else noise / mechanism.share,
            noise_std=None,
            count=1,
            sampling="none",
            sampling_rate=None,
        )
    poisson = isinstance(mechanism, PoissonDPSGD)
    sampled = poisson or isinstance(mechanism, FixedSizeDPSGD | WithoutReplacementDPSGD)
    bound = mechanism.max_grad_norm if sampled else mechanism.sensitivity
    rate = None
    if isinstance(mechanism, FixedSizeDPSGD):
        rate = mechanism.batch_size / mechanism.population
    elif sampled:
        rate = mechanism.sampling_rate
    return MechanismEntry(
        **common,
        norm="L2",
        sensitivity=bound.value,
        formula=bound.formula,
        source=bound.source,
        noise_multiplier=noise,
        noise_std=None if noise is None else noise * bound.value,
        count=mechanism.steps if sampled else mechanism.count,
        sampling="poisson" if poisson else "without_replacement" if sampled else "none",
        sampling_rate=rate,
    )


def _group_mechanism(
    mechanism: PoissonGroupDPSGD, noise: float | None, common: dict[str, str]
) -> MechanismEntry:
    """The whole group may be in a batch, so the sum moves by up to 2gC."""
    clip, size = mechanism.max_grad_norm.value, mechanism.group_size
    std = None if noise is None else noise * mechanism.noise_per_clip * clip
    return MechanismEntry(
        **common,
        norm="L2",
        sensitivity=2 * size * clip,
        formula=f"2*{size}*C",
        source=f"triangle inequality over {size} replaced records; lemma of graphdp.privacy.group",
        noise_multiplier=None if std is None else std / (2 * size * clip),
        noise_std=std,
        count=mechanism.steps,
        sampling="poisson",
        sampling_rate=mechanism.sampling_rate,
    )


def _claim(plan: Plan, epsilon: float, delta: float | None, *more: str) -> dict[str, Any]:
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


def _epsilon(analysis: Plan, reference: Plan, noise: float, delta: float | None) -> float:
    if delta is None:  # ε = 0 or ∞, for every δ
        return 0.0 if analysis.composition.is_empty else math.inf
    return epsilon_at(analysis, reference, noise, delta)


def _account(analysis: Plan, reference: Plan, noise: float, delta: float | None) -> AccountingEntry:
    epsilon = _epsilon(analysis, reference, noise, delta)
    computed = 0 < epsilon < math.inf
    composition = analysis.composition
    renyi = computed and not (composition.is_gaussian or composition.is_pure)
    own = accounting.primary(composition) if computed else ""
    renyi = renyi and own == "autodp"
    google = f"dp-accounting {version('dp-accounting')}"
    if own == "pld":
        method, library = "privacy loss distribution of groups", google
    elif own == "dp_accounting":
        method, library = "Rényi DP, sampling without replacement", google
    elif renyi:
        method, library = "Rényi DP, Poisson amplification", f"autodp {version('autodp')}"
        if composition.fixed_size:
            method = accounting.FIXED_SIZE_METHOD
        if analysis.adjacency == "node_replace" and composition.sampled:
            method += ", as removal and addition (group privacy)"
    elif computed and composition.is_pure:
        method, library = "pure ε (δ = 0): the shares add up", ""
    elif computed:
        method, library = "exact Gaussian: Balle and Wang 2018, Theorem 8", ""
    else:
        method, library = "no computation needed", ""
    return AccountingEntry(
        **_claim(analysis, epsilon, delta),
        own_row_covered=analysis.own_row_covered,
        accountant=("exact" if own == "autodp" and not renyi else own),
        library=library,
        method=method,
        orders=accounting.RDP_ORDERS_TEXT if renyi else "",
        conversion=accounting.RDP_CONVERSION if renyi else "",
        direction="upper bound",
    )


_GRID_WAS_FIXED = (
    "The number of trials is geometric with the number of settings as its mean, every trial draws "
    "a setting at random, and only the best is released. A study tries every setting of a fixed "
    "grid: for such a search the composition is what holds."
)
_PRIVATE_SCORE = (
    "The validation labels that score the models are read without noise: this ε does not speak of "
    "them."
)
_PUBLIC_SCORE = "The score that selects a model reads public labels."
_ONE_SEED = "One model per setting takes part in the search; every further seed is a further trial."


def _select(
    analyses: Sequence[Plan], tried: Sequence[dict[str, Any]], delta: float | None
) -> list[SelectionEntry]:
    """ε of the selected model per analysis: composition, and the random-search bound."""
    if delta is None:
        return []

    def search(models: Sequence[Parts], delta: float) -> float:
        return selection.search_epsilon(models, len(models), delta)

    entries = []
    for analysis in analyses:
        if analysis.status == "refuted":  # the single model has no ε, so neither has the choice
            continue
        models = [_parts_under(analysis, entry) for entry in tried]
        if None in models:
            continue
        score = _PUBLIC_SCORE if analysis.level == "edge" else _PRIVATE_SCORE
        charged = adjacent_epsilon(analysis.adjacency, selection.composition_epsilon, models, delta)
        entries.append(
            SelectionEntry(
                **_claim(analysis, charged, delta, score, _ONE_SEED),
                how="composition",
                source=selection.COMPOSITION_SOURCE,
            )
        )
        charged = adjacent_epsilon(analysis.adjacency, search, models, delta)
        entries.append(
            SelectionEntry(
                **_claim(analysis, charged, delta, _GRID_WAS_FIXED, score, _ONE_SEED),
                how="random_search",
                source=selection.SEARCH_SOURCE,
            )
        )
    return entries


def _parts_under(analysis: Plan, entry: dict[str, Any]) -> Parts | None:
    """The releases of a tried setting under its own analysis of the same basis and adjacency.

    None if it has no such analysis, so that nothing is known of a search that includes it.
    """
    reference = Plan.from_dict(entry["plan"])
    own = bases(reference.method, reference.level, entry["settings"], entry["num_train"])
    kind = analysis.basis, analysis.adjacency
    same = next((plan for plan in own if (plan.basis, plan.adjacency) == kind), None)
    if same is None and analysis.basis == "as_implemented" and own[0].status != "refuted":
        same = own[0]  # for this setting the official code runs the published steps
    return None if same is None else parts(same, reference, _noise(entry))


def _uncounted(plan: Plan, checkpoint: str, tried: int, repeats: int) -> list[str]:
    uncounted = []
    if checkpoint == "best_validation":
        labels = "public" if plan.level == "edge" else "private, and read without noise"
        uncounted.append(f"The best epoch is chosen on the validation labels; they are {labels}.")
    plural = "settings were" if tried > 1 else "setting was"
    uncounted.append(
        f"{tried} hyperparameter {plural} tried; the single-model ε charges for one model, the "
        f"selection entries for the search."
    )
    if repeats > 1:
        uncounted.append(
            f"Every setting is trained with {repeats} seeds; publishing all of them, or their "
            f"mean accuracy, composes over the seeds."
        )
    uncounted.append("Degree bound, epochs and other ranges of the search come from the papers.")
    if plan.level == "edge":
        uncounted.append("The number of edges is published; δ is chosen by it.")
    if _protects_nodes(plan):
        uncounted.append("The number of training nodes is published; δ and the steps depend on it.")
    return uncounted


def _left_out(plan: Plan, min_class_count: int, remove_isolated: bool) -> list[str]:
    """Preprocessing that reads what is private: the ε are between graphs with the same nodes."""
    if plan.level == "none":
        return []
    left_out = []
    if remove_isolated:
        left_out.append(
            "Nodes without an edge were dropped beforehand, so which nodes there are depends on "
            "the edges: a node whose only edge is replaced would be dropped or kept."
        )
    if min_class_count > 1 and _protects_nodes(plan):
        left_out.append(
            f"Classes with fewer than {min_class_count} nodes were dropped beforehand, so which "
            f"classes and nodes there are depends on the labels."
        )
    return left_out
