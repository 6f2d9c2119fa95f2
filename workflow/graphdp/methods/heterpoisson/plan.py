"""What HeterPoisson releases at each level, and all analyses of that.

What the authors' code accounts and runs is read from its source (zihangxiang/PNPiGNNs, c317861).
"""

from dataclasses import replace
from typing import Any

from graphdp.errors import GraphDPError, one_of
from graphdp.privacy.assumptions import (
    CANDIDATES_ARE_PUBLIC,
    SELECTION_IS_UNCOUNTED,
    SIDES_FOLLOW_FROM_IDS,
    TRAINING_COUNT_IS_PUBLIC,
)
from graphdp.privacy.execution import Execution
from graphdp.privacy.plan import Plan, Sensitivity, SubGraphDPSGD, SubGraphLaplace, UnnoisedRelease
from graphdp.privacy.plan_parts import check_given, check_known_level, not_private
from graphdp.privacy.sub_graph_step import ANALYSES

_QUERY = "sum of clipped gradients of sub-graphs"
_PHASE = "training"

LISTS_STAY = (
    "Every other node keeps its list, and the rates at which nodes are drawn, M over the number of "
    "distinct lists that hold a node, are the same whether or not it takes part."
)
OWN_ROWS_ALONE = (
    "A sub-graph's gradient reads its own rows alone, scaled by public constants: no padding, no "
    "fill-in of isolated nodes, no statistic over several sub-graphs; the divisor is fixed."
)
COINS_STAY_HIDDEN = (
    "Centres, bags, their sizes, losses and seeds are not released: the analysis needs them hidden."
)
IT_TRAINS = (
    "The protected node is a training node: one that is never a centre, and so is never taken out "
    "of the bags, moves the sums by more."
)
RATES_ARE_PUBLIC = (
    "Every node is drawn at the one public rate M / max_degree, however many lists hold it."
)
_PUBLIC = CANDIDATES_ARE_PUBLIC, RATES_ARE_PUBLIC, SIDES_FOLLOW_FROM_IDS
_LISTS_ARE_COUNTED = "Beforehand it is known that no node is in more than {} lists."
IT_IS_NOT_READ = (
    "A node without a training label is neither a centre nor, in the inductive setting, anybody's "
    "neighbour in training: the weights do not depend on it."
)
_NO_TEST_FEATURES = (
    "What a prediction reads of nodes that did not train is not counted, nor their own features."
)
_ONE_DIMENSION = (
    "Two symmetric multivariate Laplace distributions are no farther apart than on a line (Lemma "
    "1); it is false in more dimensions, where the noise's norm tells its scale."
)
_SCALE_REVEALED = (
    "Taken as known: the noise's scale, who drew the node, and whether it is a centre."
)
_ADDED_OR_REMOVED = (
    "With a node gone the rates of all nodes that it lists change, and these may be in any number "
    "of lists: no finite ε is known for nodes added or removed."
)
_OFFICIAL_STEPS = (
    "The authors' code accounts floor(epochs / q) rounds and runs ceil(N / B) in each epoch."
)
_OFFICIAL_PADDING = (
    "It pads bags to the largest of the batch and standardises over the padding, so that one more "
    "neighbour moves the gradients of all sub-graphs."
)
_OFFICIAL_FILL_IN = "A node without neighbours draws M random nodes, which no rate accounts for."
_OFFICIAL_DIVISOR = "Sums are divided by the realised size of a batch, which is private."


def heterpoisson_plan(
    level: str,
    num_train: int | None = None,
    batch_size: int | None = None,
    epochs: int | None = None,
    max_grad_norm: float | None = None,
    num_neighbors: int | None = None,
    overlap: str = "kept",
    analysis: str | None = None,
    degree_bound: str | None = None,
    max_degree: int | None = None,
    setting: str = "transductive",
) -> Plan:
    """HeterPoisson with Gaussian noise: T = ceil(epochs / q) Poisson rounds, q = B / N.

    node: one node takes part or not (`graphdp.privacy.sub_graphs`). With `degree_bound`
        "public_candidates" at most max_degree public ids may list a node, and every node is drawn
        at the public rate M / max_degree: then adding or removing a node changes its own sub-graph
        and those of its candidates, nothing else, which is the same pair at D = max_degree. That
        needs a split in which no other node changes sides.
    none: no privacy, ε = ∞ only.

    setting: "transductive" or "inductive", which changes nothing for a training node.

    Units: counts, and for max_grad_norm an L2 norm. Raises GraphDPError for a missing, wrong or
    unknown setting, for a batch larger than the training set, and for an analysis that does not
    hold under the overlap rule.
    """
    check_known_level("heterpoisson", level)
    if level != "node":
        return _public("heterpoisson", level)
    shared = _rounds("heterpoisson", num_train, batch_size, epochs, max_grad_norm, num_neighbors)
    _check(max_degree, setting)
    if degree_bound not in (None, "public_candidates"):
        raise GraphDPError(
            f"heterpoisson: degree_bound is {degree_bound!r}; choose public_candidates"
        )
    if degree_bound and max_degree is None:
        raise GraphDPError("heterpoisson: degree_bound public_candidates needs max_degree; give it")
    one_of("heterpoisson: overlap", overlap, ANALYSES)
    if analysis not in (None, *ANALYSES[overlap]):
        known = " or ".join(one for one in ANALYSES[overlap] if one != "both")
        raise GraphDPError(
            f"heterpoisson: analysis {analysis} does not hold with overlap {overlap}; take {known}"
        )
    analysis = analysis or ANALYSES[overlap][0]
    return Plan(
        method="heterpoisson",
        level="node",
        adjacency="node_add_remove" if degree_bound else "participant",
        basis="corrected",
        status="conditional",
        assumptions=(
            *(_PUBLIC if degree_bound else (LISTS_STAY,)),
            *_counted(None if degree_bound else max_degree),
            *((IT_TRAINS,) if overlap == "dropped" else ()),
            OWN_ROWS_ALONE,
            COINS_STAY_HIDDEN,
            _NO_TEST_FEATURES,
            TRAINING_COUNT_IS_PUBLIC,
            SELECTION_IS_UNCOUNTED,
        ),
        own_row_covered=None,
        mechanisms=(
            SubGraphDPSGD(
                query=_QUERY,
                overlap=overlap,
                most_lists=max_degree or num_train,
                rate_lists=max_degree if degree_bound else 0,
                labelled=True,
                analysis=analysis,
                phase=_PHASE,
                **shared,
            ),
        ),
    )


def laplace_plan(
    level: str,
    method: str = "heterpoissonsml",
    num_train: int | None = None,
    batch_size: int | None = None,
    epochs: int | None = None,
    max_grad_norm: float | None = None,
    num_neighbors: int | None = None,
    max_degree: int | None = None,
    setting: str = "transductive",
) -> Plan:
    """HeterPoisson with symmetric Laplace noise as published (Theorem 2), which is refuted.

    Arguments and errors as `heterpoisson_plan`. The method "heterpoissonofficial" accounts and runs
    the numbers of rounds of the authors' code.
    """
    check_known_level(method, level)
    if level != "node":
        return _public(method, level)
    shared = _rounds(method, num_train, batch_size, epochs, max_grad_norm, num_neighbors)
    _check(max_degree, setting)
    official = method == "heterpoissonofficial"
    if official:  # the order of the operations is the code's
        shared["steps"] = int(epochs / (batch_size / num_train))
    return Plan(
        method=method,
        level="node",
        adjacency="participant",
        basis="as_published",
        status="refuted",
        assumptions=(
            _ONE_DIMENSION,
            LISTS_STAY,
            *_counted(max_degree),
            TRAINING_COUNT_IS_PUBLIC,
            SELECTION_IS_UNCOUNTED,
        ),
        own_row_covered=None,
        mechanisms=(
            SubGraphLaplace(
                query=_QUERY,
                executed=epochs * -(-num_train // batch_size) if official else shared["steps"],
                overlap="official" if official else "zeroed",
                most_lists=max_degree or num_train,
                accounted="one_dimension",
                phase=_PHASE,
                **shared,
            ),
        ),
    )


def rounds_without_noise(method: str, setting: dict[str, Any], num_train: int) -> Execution:
    """The rounds of a method's plan, for training at ε = ∞ on the same samples."""
    names = ("batch_size", "epochs", "max_grad_norm", "num_neighbors")
    chosen = {name: setting[name] for name in names}
    if method == "heterpoisson":
        plan = heterpoisson_plan("node", num_train, **chosen)
    else:
        plan = laplace_plan("node", method, num_train, **chosen)
    (training,) = plan.mechanisms
    return training.execution(0.0, num_train, None)


def _public(method: str, level: str) -> Plan:
    if level != "none":
        raise GraphDPError(f"{method} has no level {level}; choose node or none")
    return not_private(method)


def _rounds(
    method: str,
    num_train: int | None,
    batch_size: int | None,
    epochs: int | None,
    max_grad_norm: float | None,
    num_neighbors: int | None,
) -> dict[str, Any]:
    """The fields that all mechanisms here share."""
    check_given(
        method,
        num_train=num_train,
        batch_size=batch_size,
        epochs=epochs,
        max_grad_norm=max_grad_norm,
        num_neighbors=num_neighbors,
    )
    if not 1 <= batch_size <= num_train:
        raise GraphDPError(
            f"{method}: batch_size {batch_size} does not lie between 1 and the {num_train} "
            f"training nodes; give a smaller one"
        )
    bound = Sensitivity(
        max_grad_norm,
        "C",
        "each sub-graph that carries the node moves by at most C, the node's own by C/2; "
        "graphdp.privacy.sub_graphs accounts how many",
    )
    return {
        "sampling_rate": batch_size / num_train,
        "steps": -(-epochs * num_train // batch_size),
        "max_grad_norm": bound,
        "batch_size": batch_size,
        "num_neighbors": num_neighbors,
    }


def _check(max_degree: int | None, setting: str) -> None:
    if max_degree is not None and max_degree < 1:
        raise GraphDPError(f"max_degree is {max_degree!r}; give a whole number of at least 1")
    if setting not in ("transductive", "inductive"):
        raise GraphDPError(f"setting is {setting!r}; choose transductive or inductive")


def _counted(max_degree: int | None) -> tuple[str, ...]:
    return () if max_degree is None else (_LISTS_ARE_COUNTED.format(max_degree),)


def _added_or_removed(plan: Plan) -> Plan:
    """What is known of nodes added or removed: nothing."""
    return replace(
        plan,
        adjacency="node_add_remove",
        basis="corrected",
        status="refuted",
        assumptions=(_ADDED_OR_REMOVED,),
        mechanisms=(UnnoisedRelease(query="sub-graphs drawn at private rates", phase=_PHASE),),
    )


def corrected_analyses(
    level: str, settings: dict[str, Any], num_train: int | None
) -> tuple[Plan, ...]:
    """Of a training node, and of one without a training label, which is never a centre."""
    plan = heterpoisson_plan(level, num_train=num_train, **settings)
    if level == "none":
        return (plan,)
    (training,) = plan.mechanisms
    peripheral = replace(
        plan,
        adjacency=f"{plan.adjacency}_peripheral",
        assumptions=tuple(one for one in plan.assumptions if one != IT_TRAINS),
        mechanisms=(replace(training, labelled=False),),
    )
    if settings.get("setting") == "inductive":
        peripheral = _unread(peripheral)
    if plan.adjacency != "node_add_remove":
        return plan, peripheral, _added_or_removed(plan)
    one_of_both = replace(peripheral, adjacency="participant_peripheral")
    return plan, peripheral, replace(plan, adjacency="participant"), one_of_both


def _unread(peripheral: Plan) -> Plan:
    """Of a node without a training label that no sub-graph of the training reads."""
    (training,) = peripheral.mechanisms
    return replace(
        peripheral,
        assumptions=(IT_IS_NOT_READ, *peripheral.assumptions),
        mechanisms=(replace(training, steps=0),),
    )


def published_analyses(
    level: str, settings: dict[str, Any], num_train: int | None
) -> tuple[Plan, ...]:
    """The paper's claim, and what its noise is worth in every dimension."""
    plan = laplace_plan(level, num_train=num_train, **settings)
    if level == "none":
        return (plan,)
    (training,) = plan.mechanisms
    true = replace(
        plan,
        basis="corrected",
        status="conditional",
        assumptions=(_SCALE_REVEALED, LISTS_STAY, OWN_ROWS_ALONE, *plan.assumptions[2:]),
        mechanisms=(replace(training, accounted="revealed_scale"),),
    )
    peripheral = replace(true, adjacency="participant_peripheral")
    if settings.get("setting") == "inductive":
        peripheral = _unread(peripheral)
    return plan, true, peripheral, _added_or_removed(plan)


def implemented_analyses(
    level: str, settings: dict[str, Any], num_train: int | None
) -> tuple[Plan, ...]:
    """The claim with the rounds that the code accounts, with those that it runs, and the truth."""
    plan = laplace_plan(level, "heterpoissonofficial", num_train=num_train, **settings)
    if level == "none":
        return (plan,)
    (training,) = plan.mechanisms
    differs = (_OFFICIAL_STEPS, _OFFICIAL_PADDING, _OFFICIAL_FILL_IN, _OFFICIAL_DIVISOR)
    run = replace(
        plan,
        basis="as_implemented",
        assumptions=(*differs, *plan.assumptions),
        mechanisms=(replace(training, steps=training.executed),),
    )
    unknown = replace(
        plan,
        basis="corrected",
        assumptions=("No finite ε is known to hold for the code.", *differs[1:]),
        mechanisms=(UnnoisedRelease(query="gradients of padded bags", phase=_PHASE),),
    )
    return plan, run, unknown
