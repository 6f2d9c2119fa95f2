"""The privacy statement of a trained model: what is protected, how, and what is not.

A statement is made from a calibration entry (see `graphdp.privacy.calibrated`), so it reads the
same plan that set the noise and that the training loop executed. Its fields are those of
`graphdp.privacy.statement_form`.
"""

import math
from collections.abc import Sequence
from typing import Any

from graphdp.errors import GraphDPError
from graphdp.noise import as_drawn
from graphdp.privacy import accounting, calibrated
from graphdp.privacy.assumptions import CANDIDATES_ARE_PUBLIC
from graphdp.privacy.composition import epsilon_at
from graphdp.privacy.mechanisms.base import Output
from graphdp.privacy.plan import Plan
from graphdp.privacy.protection import (
    Words,
    delta_fault,
    edges_alone,
    is_private,
    neighbors,
    protects_nodes,
    unit_text,
)
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
from graphdp.privacy.statement_selection import Analyses, claim, select

_RNG = Rng(
    generator="AES-256 in counter mode for Gaussian noise, drawn in float64 and rounded to a "
    "public grid; Philox (samples of batches, randomised response), seeded counter hash (degree "
    "bound); every key is a SHA-256 of the study seed and the name of what is drawn",
    cryptographic=False,
    note="Whoever knows the study seed can draw all of it again: the ε speak of the mechanism, not "
    "of a copy whose seed is public. That sums of clipped gradients in float32 move by no more "
    "than the clip but for their rounding is not proven.",
    drawn_epsilon=None,
    drawn_delta=None,
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
    analyses: Analyses,
    words: Words,
) -> Statement:
    """The statement of a model whose noise is that of a calibration entry.

    entry: an entry of the cell's calibration file. data: the graph, with the entry's number of
    training nodes. checkpoint: "best_validation" or "last". tried: the calibration entry of every
    hyperparameter setting that the selection looked at, once per setting. repeats: seeds. charged:
    the search's ε, if an earlier statement of the same search has it. min_class_count,
    remove_isolated: the preprocessing that left nodes out. analyses: of the method at the entry's
    level. words: how the method speaks of edges.

    Raises GraphDPError when a corrected plan has a δ that is not below 1 / number of protected
    units, when the entry's plan is not one that its method states, and when `entry` is not among
    those tried.
    """
    plan = Plan.from_dict(entry["plan"])
    own = analyses(entry["settings"], entry["num_train"])
    if plan not in own:
        raise GraphDPError(
            f"{method}: the calibration's plan is none that the method states today; "
            f"run calibrate again"
        )
    if entry not in tried:
        raise GraphDPError("the statement's own setting is not among those tried; add it")
    delta = entry["delta"]
    fault = None
    if delta is not None and own[0].adjacency:
        fault = delta_fault(delta, own[0].adjacency, data.directed_edges, data.nodes)
    if fault and plan.basis == "corrected":
        raise GraphDPError(fault)
    multiplier = _noise(entry)
    return Statement(
        schema_version=1,
        method=method,
        settings=entry["settings"],
        data=data,
        guarantee=_guarantee(plan, entry["settings"], words),
        protection=_protection(plan, words),
        releases=_releases(plan),
        inference_privacy=_inference(plan),
        mechanisms=[
            MechanismEntry(**m.statement_entry(entry["noise_multiplier"])) for m in plan.mechanisms
        ],
        target=Target(
            basis=plan.basis,
            adjacency=plan.adjacency,
            epsilon=entry["target_epsilon"],
            delta=delta,
            noise_multiplier=entry["noise_multiplier"],
        ),
        accounting=[_account(analysis, plan, multiplier, delta) for analysis in own],
        selection=Selection(
            checkpoint=checkpoint,
            settings_tried=len(tried),
            repeats=repeats,
            entries=select(own, tried, delta, analyses) if charged is None else list(charged),
        ),
        uncounted=[
            *([f"Warning: {fault}."] if fault else []),
            *_uncounted(plan, checkpoint, len(tried), repeats),
            *_left_out(plan, min_class_count, remove_isolated),
        ],
        rng=_random_numbers(entry, delta),
    )


def _random_numbers(entry: dict[str, Any], delta: float | None) -> Rng:
    """What is drawn, and what that makes of the target."""
    target = entry["target_epsilon"]
    if target == "inf" or delta is None or not calibrated.phases(entry):
        return _RNG
    epsilon, delta = as_drawn(target, delta)
    return _RNG.model_copy(update={"drawn_epsilon": epsilon, "drawn_delta": delta})


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
    *,
    analyses: Analyses,
    words: Words,
) -> list[Statement]:
    """The statements of a cell (dataset, method, level, ε): one per calibration entry.

    entries: the calibrations of all its settings, in which a plan may stand twice. settings_tried:
    the plan settings of every hyperparameter setting of the cell, one per setting, so with
    repetitions where settings share a plan. The statements of one number of training nodes charge
    the search over the entries with that number. undirected: whether the graph is symmetrised,
    None if unknown. repeats: seeds per setting. The others: see `statement`.

    Raises GraphDPError if a setting tried has no calibration entry, and as `statement` does.
    """
    from graphdp.methods.settings import distinct
    from graphdp.privacy.calibrated import lookup

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
            analyses=analyses,
            words=words,
        )
        charged[num_train] = made.selection.entries
        statements.append(made)
    return statements


def _noise(entry: dict[str, Any]) -> float:
    """The entry's noise multiplier as the accountants read it; 0 where nothing is noised."""
    return entry["noise_multiplier"] or 0.0


def _guarantee(plan: Plan, settings: dict[str, Any], words: Words) -> Guarantee:
    bound = None
    sampled = CANDIDATES_ARE_PUBLIC not in plan.assumptions
    if "max_degree" in settings:
        bound = DegreeBound(
            max_degree=settings["max_degree"],
            method=(
                f"uniform sample without replacement of {words.sampled}"
                if sampled
                else words.candidates
            ),
            # With node r gone another neighbour takes its place in a sampled list.
            data_dependent=sampled,
        )
    return Guarantee(
        level=plan.level,
        adjacency=plan.adjacency,
        unit=unit_text(plan.adjacency),
        own_row_covered=plan.own_row_covered,
        degree_bound=bound,
    )


def _protection(plan: Plan, words: Words) -> Protection:
    splits = "training, validation and test nodes alike"
    if edges_alone(plan.level):
        return Protection(
            protected=[f"Edges of {splits}."],
            not_protected=[f"Features, labels and the set of nodes ({splits}): taken as public."],
        )
    if protects_nodes(plan.level):
        edges, others = [], []
        k = neighbors(plan.level)
        if k is not None:
            edges = [f"{k} edges to and {k} edges from a node ({splits})."]
            others = [f"A node's other edges, and whether it has more than {k} either way."]
        elif words.edges:
            edges = [words.edges.format(splits=splits)]
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
    return any(m.reads_sub_graphs for m in plan.mechanisms)


def _outputs(plan: Plan) -> list[Output]:
    """What is published besides the model, each once; what has a row for every node first."""
    outputs = dict.fromkeys(m.publishes for m in plan.mechanisms if m.publishes is not None)
    return sorted(outputs, key=lambda output: not output.rows)


def _aggregates(plan: Plan) -> bool:
    return any(output.rows for output in _outputs(plan))


def _releases(plan: Plan) -> list[Release]:
    if not is_private(plan.level):
        why = "Trained without noise."
        return [Release(what="weights, predictions and accuracies", covered=False, why=why)]
    weights = "Post-processing of the mechanisms."
    own_row = "The prediction for a node reads its own row and features."
    releases = [Release(what="weights of the last epoch", covered=True, why=weights)]
    edge = edges_alone(plan.level)
    for output in _outputs(plan):
        covered, why = True, "It is what the mechanism releases."
        if output.rows:
            covered, why = edge, "The noisy rows are what the mechanism releases."
            why += "" if edge else " The protected node's own row is not covered."
        releases.append(Release(what=output.what, covered=covered, why=why))
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
    for mechanism in plan.mechanisms:
        if mechanism.inference:
            return mechanism.inference
    if edges_alone(plan.level):
        return "Predictions use the aggregates released in training; no edge is read again."
    if protects_nodes(plan.level) and _aggregates(plan):
        return (
            "Predictions use the aggregates released in training. Rows of other nodes are covered; "
            "the protected node's own row, and so its own prediction, is not."
        )
    if protects_nodes(plan.level):
        return "A prediction reads the queried node's features and nothing of other nodes."
    return "None."


def _epsilon(analysis: Plan, reference: Plan, noise: float, delta: float | None) -> float:
    if delta is None:  # ε = 0 or ∞, for every δ
        return 0.0 if analysis.composition.is_empty else math.inf
    return epsilon_at(analysis, reference, noise, delta)


def _account(analysis: Plan, reference: Plan, noise: float, delta: float | None) -> AccountingEntry:
    epsilon = _epsilon(analysis, reference, noise, delta)
    composition = analysis.composition
    accountant, method = "exact", ""
    if not 0 < epsilon < math.inf:
        accountant, method = "", "no computation needed"
    elif composition.is_pure:
        method = "pure ε (δ = 0): the shares add up"
    elif composition.is_gaussian:
        method = "exact Gaussian: Balle and Wang 2018, Theorem 8"
    else:
        accountant, method = accounting.primary(composition), composition.method
        if analysis.adjacency == "node_replace" and composition.adds_or_removes:
            method += ", as removal and addition (group privacy)"
    renyi = accountant == "autodp"
    return AccountingEntry(
        **claim(analysis, epsilon, delta),
        own_row_covered=analysis.own_row_covered,
        accountant=accountant,
        library=accounting.library(accountant),
        method=method,
        orders=accounting.RDP_ORDERS_TEXT if renyi else "",
        conversion=accounting.RDP_CONVERSION if renyi else "",
        direction="upper bound",
    )


def _uncounted(plan: Plan, checkpoint: str, tried: int, repeats: int) -> list[str]:
    uncounted = []
    if checkpoint == "best_validation":
        labels = "public" if edges_alone(plan.level) else "private, and read without noise"
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
    if edges_alone(plan.level):
        uncounted.append("The number of edges is published; δ is chosen by it.")
    if protects_nodes(plan.level):
        uncounted.append("The number of training nodes is published; δ and the steps depend on it.")
    return uncounted


def _left_out(plan: Plan, min_class_count: int, remove_isolated: bool) -> list[str]:
    """Preprocessing that reads what is private: the ε are between graphs with the same nodes."""
    if not is_private(plan.level):
        return []
    left_out = []
    if remove_isolated:
        left_out.append(
            "Nodes without an edge were dropped beforehand, so which nodes there are depends on "
            "the edges: a node whose only edge is replaced would be dropped or kept."
        )
    if min_class_count > 1 and protects_nodes(plan.level):
        left_out.append(
            f"Classes with fewer than {min_class_count} nodes were dropped beforehand, so which "
            f"classes and nodes there are depends on the labels."
        )
    return left_out
