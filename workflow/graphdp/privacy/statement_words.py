"""What a privacy statement says in words: what is protected, what is released, and what no ε
counts."""

from collections.abc import Sequence

from graphdp.privacy.assumptions import BOUND_IS_COUNTED
from graphdp.privacy.mechanisms.base import NoisySums, Output
from graphdp.privacy.plan import Plan
from graphdp.privacy.protection import (
    OWN_LIST_REPLACED,
    Words,
    edges_alone,
    graph_stays,
    hides_presence,
    is_private,
    neighbors,
    protects_nodes,
)
from graphdp.privacy.statement_form import Protection, Release

_NOT_OWN_PREDICTION = ["A node's own prediction: it reads the node's own data."]

_STAYS = (
    "That a node is there and that others' lists hold it: how these are bounded, and how often "
    "others are drawn, may depend on it. No ε speaks of a graph without it."
)


def protection(plan: Plan, words: Words, release: str, checkpoint: str) -> Protection:
    """What the guarantee speaks of, and what it does not.

    words: how the method speaks of edges. release, checkpoint: as `releases`.
    """
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
            edges = [f"Whether {k} edges to and {k} edges from a node are there ({splits})."]
            others = [f"A node's other edges, and whether it has more than {k} either way."]
        elif words.edges:
            participant = graph_stays(plan.adjacency) and words.participant
            edges = [(participant or words.edges).format(splits=splits)]
        # What is aggregated holds rows of all nodes.
        both = "Features of all nodes, labels of training nodes."
        protected = [
            both if _aggregates(plan) else "Features and labels of training nodes.",
            *edges,
        ]
        public = ["Number of training nodes: taken as public."]
        chosen = "checkpoints and settings" if checkpoint == "best_validation" else "settings"
        if release != "private":
            others.append(
                f"Of validation nodes what selects {chosen}: {_of_validation(plan, words)}, and "
                "that they are there."
            )
        if _exact_inference(plan):
            others.append("Features and edges of all nodes, as far as predictions read them.")
        if plan.adjacency == OWN_LIST_REPLACED:
            others.append("Edges to a node that stand in others' lists: they stay.")
        if _hides_sending_alone(plan):
            protected.append("Whether a user sends anything.")
            public = ["Which users there are, and who of them trains: taken as public."]
        elif graph_stays(plan.adjacency) and words.edges:
            trains = "" if plan.adjacency.endswith("_peripheral") else "trains, and "
            protected.append(f"Whether a node takes part: {trains}lets others have its row.")
            others += filter(None, (_STAYS, words.others))
            public = ["Which nodes there are, and a number of training nodes that is announced."]
        elif hides_presence(plan.adjacency):
            protected.append("Which ids of the universe are there.")
            public = ["The universe of ids, and a number of training nodes that is announced."]
        return Protection(
            protected=protected,
            not_protected=[
                *others,
                *public,
                *_NOT_OWN_PREDICTION[: not plan.own_row_covered],
            ],
        )
    return Protection(
        protected=[], not_protected=["What the model reads: it is trained without noise."]
    )


def _hides_sending_alone(plan: Plan) -> bool:
    """Whether a participant that is not there still has its row: then which rows there are, and who
    trains, is the same in both worlds, and no ε speaks of a graph with a row less."""
    return hides_presence(plan.adjacency) and plan.own_row_covered is True


def _outputs(plan: Plan) -> list[Output]:
    """What is published besides the model, each once; what has a row for every node first."""
    outputs = dict.fromkeys(m.publishes for m in plan.mechanisms if m.publishes is not None)
    return sorted(outputs, key=lambda output: not output.rows)


def _aggregates(plan: Plan) -> bool:
    return any(output.rows for output in _outputs(plan))


def _exact_inference(plan: Plan) -> str:
    """What a prediction reads, if that is neighbours without noise, or ""."""
    if _aggregates(plan):
        return ""
    return next((m.exact_inference for m in plan.mechanisms if m.exact_inference), "")


def reads_others(plan: Plan) -> bool:
    """Whether an accuracy reads nodes besides those that it is of, without noise."""
    return bool(_exact_inference(plan)) or any(m.unnoised_reads for m in plan.mechanisms)


def scores_read_protected(plan: Plan) -> bool:
    """Whether what is protected stands, without noise, in the accuracy of a validation node that it
    is not of: then no ε speaks of what was chosen by it.

    With exact inference that is a training node's row; where sub-graphs predict, a row of a node
    that does not train, of which the peripheral adjacencies speak.
    """
    if _exact_inference(plan):
        return True
    return plan.adjacency.endswith("_peripheral") and reads_others(plan)


def _of_validation(plan: Plan, words: Words) -> str:
    """What an accuracy of validation nodes reads without noise."""
    if reads_others(plan):
        return "labels, features and what predictions for them read of other nodes"
    own_rows = _aggregates(plan) and not plan.own_row_covered
    if words.chosen_by_edges:
        return f"labels, features{', own rows' if own_rows else ''} and edges"
    return "labels, features and own rows" if own_rows else "labels and features"


def _chosen_before(plan: Plan, words: Words, checkpoint: str) -> bool:
    """Whether a phase builds on an epoch of another that validation nodes chose, without noise."""
    if checkpoint != "best_validation":
        return False
    if words.chosen_by_edges:
        return True
    if words.keeps_last or not protects_nodes(plan.level):
        return False
    return len({one.phase for one in plan.mechanisms if isinstance(one, NoisySums)}) > 1


def releases(plan: Plan, words: Words, release: str, checkpoint: str) -> list[Release]:
    """Every output of training, and whether the guarantee covers its publication.

    words: of the method. release: "reproduction", or "private", which publishes nothing that is not
    covered. checkpoint: "best_validation", or "last" epochs.
    """
    if not is_private(plan.level):
        why = "Trained without noise."
        return [Release(what="weights, predictions and accuracies", covered=False, why=why)]
    weights = "Post-processing of the mechanisms."
    own_row = "The prediction for a node reads its own row and features."
    own_row = next((m.unnoised_reads for m in plan.mechanisms if m.unnoised_reads), own_row)
    if _exact_inference(plan):
        own_row = "The prediction for a node reads its own and its neighbours' data without noise."
    chosen = _chosen_before(plan, words, checkpoint)
    if chosen:
        weights = (
            "Post-processing of the mechanisms for training nodes; but the kept epoch of an "
            "earlier phase is chosen on validation nodes without noise, and later ones build on it."
        )
    found = [Release(what="weights of the last epoch", covered=not chosen, why=weights)]
    edge = edges_alone(plan.level)
    rows = edge or plan.own_row_covered is True
    for output in _outputs(plan):
        covered, why = True, "It is what the mechanism releases."
        if output.rows:
            covered, why = rows, "The noisy rows are what the mechanism releases."
            why += "" if rows else " The protected node's own row is not covered."
            if chosen:
                covered = False
                why += " Which epoch they are of is chosen on validation nodes without noise."
        found.append(Release(what=output.what, covered=covered, why=why))
    if rows and not edge:
        own_row = "Post-processing of the noisy rows, own ones included."
    found.append(
        Release(
            what="predictions",
            covered=rows,
            why="Post-processing; features are public." if edge else own_row,
        )
    )
    found.append(
        Release(
            what="accuracies, and a choice made by them",
            covered=edge,
            why="Labels are public." if edge else "They are computed from labels without noise.",
        )
    )
    if release != "private":
        return found
    left_out = "Not published."
    return [
        one if one.covered else one.model_copy(update={"why": f"{left_out} {one.why}"})
        for one in found
    ]


def inference(plan: Plan) -> str:
    """What a prediction reads."""
    if _exact_inference(plan):
        return _exact_inference(plan)
    for mechanism in plan.mechanisms:
        if mechanism.inference:
            return mechanism.inference
    if edges_alone(plan.level):
        return "Predictions use the aggregates released in training; no edge is read again."
    if protects_nodes(plan.level) and plan.own_row_covered:
        return "Predictions use the aggregates released in training, and nothing else."
    if protects_nodes(plan.level) and _aggregates(plan):
        return (
            "Predictions use the aggregates released in training. Rows of other nodes are covered; "
            "the protected node's own row, and so its own prediction, is not."
        )
    if protects_nodes(plan.level):
        return "A prediction reads the queried node's features and nothing of other nodes."
    return "None."


def uncounted(
    plan: Plan, words: Words, checkpoint: str, tried: int, repeats: int, release: str
) -> list[str]:
    """What no ε counts. tried: settings. repeats: seeds of each. The others: as `releases`."""
    uncounted = []
    if checkpoint == "best_validation":
        which = " of the last phase" if words.keeps_last else ", of several phases each one's,"
        uncounted.append(
            "The best epoch is chosen on the validation labels; they are public."
            if edges_alone(plan.level) and not words.chosen_by_edges
            else f"The best epoch{which} is chosen on validation nodes, of which "
            f"{_of_validation(plan, words)} are read without noise."
        )
    plural = "settings were" if tried > 1 else "setting was"
    uncounted.append(
        f"{tried} hyperparameter {plural} tried; the single-model ε charges for one model, the "
        f"selection entries for the search."
    )
    if tried > 1 and scores_read_protected(plan):
        uncounted.append(
            f"No ε of {plan.adjacency} is stated of the setting that was chosen: predictions for "
            "validation nodes, by whose accuracy it was, read others' rows without noise."
        )
    if repeats > 1:
        uncounted.append(
            f"Every setting is trained with {repeats} seeds; publishing all of them, or their "
            f"mean accuracy, composes over the seeds."
        )
    if release == "private":
        return [
            *uncounted,
            "What led to this setting, δ and number of training nodes is not known.",
        ]
    bound = "" if BOUND_IS_COUNTED in plan.assumptions else "a degree bound where there is one, "
    uncounted.append(
        f"The ranges of the search ({bound}epochs, others) are those of the study, in one of a "
        "paper the paper's; how they were chosen is not counted."
    )
    if edges_alone(plan.level):
        uncounted.append("The number of edges is published; δ is chosen by it.")
    if hides_presence(plan.adjacency) and not _hides_sending_alone(plan):
        uncounted.append(
            "The number of training nodes that is announced is their true one: from it, who knows "
            "all others learns whether one is there, or takes part."
        )
    elif protects_nodes(plan.level):
        uncounted.append("The number of training nodes is published; the steps depend on it.")
    return uncounted


def left_out(
    plan: Plan,
    analyses: Sequence[Plan],
    min_class_count: int,
    remove_isolated: bool,
    split: str,
    release: str,
) -> list[str]:
    """What was decided beforehand by what is private: the ε are between graphs in which it is the
    same. analyses: all of the plan's. split: the split's rule, as rows name it. release: as
    `releases`."""
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
    if release != "private" and protects_nodes(plan.level):
        left_out.append(
            "Which columns features have, and how many classes there are, is that of the nodes "
            "that are there: one that alone has a feature or a class has a weight of its own."
        )
    others_leave = {
        one.adjacency
        for one in (plan, *(other for other in analyses if other.status != "refuted"))
        if hides_presence(one.adjacency) and not graph_stays(one.adjacency)
    }
    if others_leave and "by id" not in split:
        left_out.append(
            "The split is a permutation of the nodes that are there: with one node less others "
            "would train, validate or test. "
            f"No ε of {' or '.join(sorted(others_leave))} counts that."
        )
    return left_out
