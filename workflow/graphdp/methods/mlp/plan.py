"""What MLP, MLP-DP and naive DP-SGD release, and all analyses of that."""

from dataclasses import replace
from typing import Any

from graphdp.methods.mlp import NORMALISED
from graphdp.privacy import sensitivity
from graphdp.privacy.assumptions import (
    FEATURES_ARE_PUBLIC,
    SAMPLES_ARE_COUPLED,
    SELECTION_IS_UNCOUNTED,
    SIDES_STAY,
    TRAINING_COUNT_IS_PUBLIC,
)
from graphdp.privacy.execution import Execution
from graphdp.privacy.plan import Plan, ShuffledDPSGD, ShuffledEpochs, UnnoisedRelease
from graphdp.privacy.plan_parts import (
    check_adjacency,
    check_given,
    check_known_level,
    dp_adam,
    not_private,
    with_one_less,
    with_sensitivity,
)


def mlp_plan(
    level: str,
    num_train: int | None = None,
    batch_size: int | None = None,
    epochs: int | None = None,
    max_grad_norm: float | None = None,
    adjacency: str = "node_add_remove",
    method: str = "mlp",
) -> Plan:
    """The graph-free baselines MLP and MLP-DP (GAP, section 7.2), or `method`, which is like them.

    edge: the edges are never read, so nothing is released about them and ε = 0.
    node: one DP-Adam phase over the training nodes: Poisson samples, or with `adjacency`
        "node_replace" (as DPDGC, section 6, runs it) samples of a fixed size and sensitivity 2C.
    none: no privacy, ε = ∞ only.

    Units: num_train, batch_size and epochs are counts; max_grad_norm is an L2 norm. Only node
    level reads them. Raises GraphDPError for a missing, wrong or unknown setting.
    """
    check_known_level(method, level)
    check_adjacency(method, adjacency)
    if level == "none":
        return not_private(method)
    if level == "edge":
        return Plan(
            method=method,
            level="edge",
            adjacency="edge_directed",
            basis="as_published",
            status="proven",
            assumptions=(FEATURES_ARE_PUBLIC,),
            own_row_covered=None,
            mechanisms=(),
        )
    check_given(
        method,
        num_train=num_train,
        batch_size=batch_size,
        epochs=epochs,
        max_grad_norm=max_grad_norm,
    )
    return Plan(
        method=method,
        level="node",
        adjacency=adjacency,
        basis="as_published",
        status="conditional",
        assumptions=(
            "Only the weights are released; a prediction also reads the queried node's features.",
            TRAINING_COUNT_IS_PUBLIC,
            SELECTION_IS_UNCOUNTED,
            *([SIDES_STAY] if adjacency == "node_add_remove" else []),
        ),
        own_row_covered=None,
        mechanisms=(
            dp_adam("classifier", num_train, batch_size, epochs, max_grad_norm, adjacency),
        ),
    )


def analyses(level: str, settings: dict[str, Any], num_train: int | None) -> tuple[Plan, ...]:
    published = mlp_plan(level, num_train=num_train, **settings)
    if level != "node":
        return _without_edges(published)
    # The official code's rounds are fewer, and not those that are run here: no ε of them is stated.
    # Without edges, taking part or not is being there or not.
    if published.adjacency == "node_replace":
        added = replace(
            published,
            adjacency="node_add_remove",
            basis="corrected",
            assumptions=(SAMPLES_ARE_COUPLED, *published.assumptions, SIDES_STAY),
            mechanisms=with_one_less(published, None),
        )
        holds = replace(published, basis="corrected")
        return (published, holds, _of_known_nodes(added, "participant"), added)
    participant = _of_known_nodes(published, "participant")
    replaced = replace(
        _of_known_nodes(published, "node_replace"),
        mechanisms=with_sensitivity(published, None, replaced=True),
    )
    return (published, participant, replaced)


def _of_known_nodes(plan: Plan, adjacency: str) -> Plan:
    """A corrected plan between graphs that have the same nodes, whose sides are the same."""
    kept = tuple(one for one in plan.assumptions if one != SIDES_STAY)
    return replace(plan, adjacency=adjacency, basis="corrected", assumptions=kept)


def _without_edges(plan: Plan) -> tuple[Plan, ...]:
    """The analyses of a plan of level none or edge."""
    if plan.level == "edge":
        return (plan,)
    # Without noise, but also without a look at the edges: ε = 0 for them.
    return plan, mlp_plan("edge", method=plan.method)


def naive_analyses(level: str, settings: dict[str, Any], num_train: int | None) -> tuple[Plan, ...]:
    """Naive DP-SGD as PNPiGNNs describes it: DP-SGD of a node's features alone."""
    published = mlp_plan(level, num_train=num_train, method="naive", **settings)
    if level != "node":
        return _without_edges(published)
    return published, _of_known_nodes(published, "participant")


_PARTITION = (
    "Shuffled batches of an epoch have the ε of Poisson samples; but every node is in one of them, "
    "and where it is in none the means of two batches change."
)
_LAST_BATCH = (
    "The last batch of an epoch is smaller, and its mean has the noise of a full one all the same."
)
_ONE_LEFT = "The last batch of an epoch is one node: without it there is a round less."
_NONE_LEFT = "The last batch of an epoch is full: with one node more there is a round more."
_EVERY_EPOCH = (
    "All that is known of an epoch: without the node another takes its place in its batch, and the "
    "last batch has one node less, so that the means move by 2C/B and by 2C/m."
)


def naive_official_plan(
    level: str,
    num_train: int | None = None,
    batch_size: int | None = None,
    epochs: int | None = None,
    max_grad_norm: float | None = None,
) -> Plan:
    """What the authors' code of naive DP-SGD claims: `mlp_plan`'s ε, for shuffled batches.

    Units and errors as `mlp_plan`. The number of rounds that are accounted and run, and the noise,
    are read from the source (zihangxiang/PNPiGNNs, c317861).
    """
    settings = (num_train, batch_size, epochs, max_grad_norm)
    claimed = mlp_plan(level, *settings, method="naiveofficial")
    if level != "node":
        return claimed
    (rounds,) = claimed.mechanisms
    shuffled = ShuffledDPSGD(
        query="sum of normalised gradients of the classifier",
        sampling_rate=rounds.sampling_rate,
        steps=rounds.steps,
        executed=epochs * -(-num_train // batch_size),
        max_grad_norm=rounds.max_grad_norm,
        records=NORMALISED,
        phase="classifier",
    )
    return replace(
        claimed,
        status="refuted",
        assumptions=(_PARTITION, _LAST_BATCH, *claimed.assumptions),
        mechanisms=(shuffled,),
    )


def naive_implemented(
    level: str, settings: dict[str, Any], num_train: int | None
) -> tuple[Plan, ...]:
    """The claim, and what holds: one full Gaussian per epoch (`shuffled_epoch`)."""
    claimed = naive_official_plan(level, num_train=num_train, **settings)
    if level != "node":
        return _without_edges(claimed)
    (training,) = claimed.mechanisms
    size = min(settings["batch_size"], num_train)
    rounds = -(-num_train // size)
    last = num_train - size * (rounds - 1)
    query = "means of an epoch's batches"
    counted = last in (1, settings["batch_size"])
    if counted:
        held = UnnoisedRelease(query=query, phase="classifier")
        why = _ONE_LEFT if last == 1 else _NONE_LEFT
    else:
        held = ShuffledEpochs(
            query=query,
            sensitivity=sensitivity.shuffled_epoch(size, last, settings["max_grad_norm"]),
            epochs=settings["epochs"],
            rounds=rounds,
            batch_size=size,
            max_grad_norm=training.max_grad_norm,
            records=training.records,
            phase="classifier",
        )
        why = _EVERY_EPOCH
    true = replace(
        claimed,
        basis="corrected",
        status="refuted" if counted else "conditional",
        assumptions=(why, *claimed.assumptions[2:]),
        mechanisms=(held,),
    )
    return claimed, true, _of_known_nodes(true, "participant")


def naive_rounds(method: str, setting: dict[str, Any], num_train: int) -> Execution:
    """The rounds of a method's plan, for training at ε = ∞ on the same samples."""
    settings = {name: setting[name] for name in ("batch_size", "epochs", "max_grad_norm")}
    make = naive_official_plan if method == "naiveofficial" else mlp_plan
    (training,) = make("node", num_train, **settings).mechanisms
    return training.execution(0.0, num_train, settings["max_grad_norm"])
