"""What the plans of several methods are made of: phases of DP-Adam, and the same releases under
another sensitivity, another sampling or the official code's number of steps."""

from dataclasses import replace
from typing import Any

from graphdp.errors import GraphDPError, one_of
from graphdp.privacy import sensitivity
from graphdp.privacy.assumptions import OFFICIAL_STEPS
from graphdp.privacy.plan import (
    GaussianReleases,
    Mechanism,
    Plan,
    PoissonDPSGD,
    Sensitivity,
    UnnoisedRelease,
    WithoutReplacementDPSGD,
    dpsgd_rounds,
)
from graphdp.privacy.protection import check_level, neighbors

#: What a node-level claim is about: a node there or not (GAP, ProGAP), or one replaced by another
#: (DPDGC, whose baselines run that way).
NODE_ADJACENCIES = ("node_add_remove", "node_replace")


def dp_adam(
    phase: str,
    num_train: int,
    batch_size: int,
    epochs: int,
    max_grad_norm: float,
    adjacency: str = "node_add_remove",
) -> PoissonDPSGD | WithoutReplacementDPSGD:
    """A phase of DP-Adam: Poisson samples, or where a node is replaced samples of a fixed size."""
    sampling_rate, steps = dpsgd_rounds(num_train, batch_size, epochs)
    kind, bound = PoissonDPSGD, sensitivity.clipped_gradient_sum(max_grad_norm)
    if adjacency == "node_replace":
        kind = WithoutReplacementDPSGD
        bound = sensitivity.replaced_gradient_sum(max_grad_norm)
    return kind(
        query=f"sum of clipped gradients of the {phase}",
        sampling_rate=sampling_rate,
        steps=steps,
        max_grad_norm=bound,
        phase=phase,
    )


def not_private(method: str) -> Plan:
    """The plan of any method at level "none": a model trained without noise."""
    return Plan(
        method=method,
        level="none",
        adjacency="",
        basis="as_published",
        status="",
        assumptions=(),
        own_row_covered=None,
        mechanisms=(UnnoisedRelease(query="trained model", phase="training"),),
    )


def check_known_level(method: str, level: str) -> None:
    check_level(f"{method}: level", level)
    if neighbors(level) is not None:
        raise GraphDPError(f"{method} knows no k-neighbour level; use node, which it equals there")


def check_adjacency(method: str, adjacency: str) -> None:
    one_of(f"{method}: adjacency", adjacency, NODE_ADJACENCIES)


def check_given(method: str, **settings: object) -> None:
    missing = [name for name, value in settings.items() if value is None]
    if missing:
        raise GraphDPError(f"{method}, node level: give {', '.join(missing)}")


#: Adjacency -> the published sensitivity of one aggregation.
PUBLISHED_SUM = {
    "node_add_remove": sensitivity.node_add_remove_as_published,
    "node_replace": sensitivity.node_replace,
}


def with_sensitivity(
    plan: Plan, aggregation: Sensitivity | None, replaced: bool = False
) -> tuple[Mechanism, ...]:
    """The plan's mechanisms with another sensitivity of the aggregations, and with `replaced` that
    of a replaced record of the Poisson rounds."""

    def moved(mechanism: Mechanism) -> Mechanism:
        if isinstance(mechanism, GaussianReleases) and aggregation is not None:
            return replace(mechanism, sensitivity=aggregation)
        if isinstance(mechanism, PoissonDPSGD) and replaced:
            bound = sensitivity.replaced_gradient_sum(mechanism.max_grad_norm.value)
            return replace(mechanism, max_grad_norm=bound)
        return mechanism

    return tuple(map(moved, plan.mechanisms))


def with_one_less(plan: Plan, aggregation: Sensitivity | None) -> tuple[Mechanism, ...]:
    """The mechanisms of a plan with fixed-size samples, between data with and without one record r.

    Let the larger data have N records, of which a round draws B, and q = B / N. Without r a round
    is a Gaussian around the sum of a uniform set S of B others. With r it is the same with
    probability 1 - q, and else, S being as before, around that sum with a uniform member of S
    exchanged for r, which moves it by at most 2C. Given S and the member these are the two sides
    of a Poisson round at rate q with sensitivity 2C, and hockey-stick divergences are jointly
    convex. The bound grows with q, so that the smaller data may as well be the N records.
    """

    def one_less(mechanism: Mechanism) -> Mechanism:
        if not isinstance(mechanism, WithoutReplacementDPSGD):
            return mechanism
        same = {name: getattr(mechanism, name) for name in ("query", "steps", "phase")}
        rate, bound = mechanism.sampling_rate, mechanism.max_grad_norm
        return PoissonDPSGD(sampling_rate=rate, max_grad_norm=bound, **same)

    return tuple(map(one_less, with_sensitivity(plan, aggregation)))


def with_official_steps(
    published: Plan, settings: dict[str, Any], num_train: int
) -> tuple[Plan, ...]:
    """The plan with the official code's number of DP-Adam steps; nothing where that is the same.

    Fewer than the published ones, which are run here: for claims alone that are refuted, since it
    is no bound for the models here.
    """
    # The node loaders of the three repositories stop before a batch that would reach beyond N
    # (drop_last), also where it is a sample. With B > N they train on nothing.
    steps = settings["epochs"] * (num_train // settings["batch_size"])
    if not steps:
        return ()
    mechanisms = tuple(
        replace(m, steps=steps) if isinstance(m, PoissonDPSGD | WithoutReplacementDPSGD) else m
        for m in published.mechanisms
    )
    if mechanisms == published.mechanisms:
        return ()
    return (
        replace(
            published,
            basis="as_implemented",
            assumptions=(OFFICIAL_STEPS, *published.assumptions),
            mechanisms=mechanisms,
        ),
    )
