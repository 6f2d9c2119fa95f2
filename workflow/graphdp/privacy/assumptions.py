"""Assumptions shared by several plans, one sentence each."""

from collections.abc import Sequence
from typing import Any

TRAINING_COUNT_IS_PUBLIC = (
    "The number of training nodes is announced beforehand, the same whether or not a protected "
    "node is there: it sets the sampling rate and the steps. One that is replaced is kept, and "
    "trains, in both graphs or in neither."
)
SELECTION_IS_UNCOUNTED = (
    "Choosing checkpoints or hyperparameters by validation accuracy reads labels, features and own "
    "rows of validation nodes, and what else predictions for them read without noise, with no "
    "noise of its own; that is not counted."
)
FEATURES_ARE_PUBLIC = "Node features, labels and the set of nodes are public; only edges are not."
CANDIDATES_ARE_PUBLIC = (
    "Whom a node may send to is drawn from a public universe of ids with a seed that does not "
    "depend on the graph; an absent id sends nothing."
)
#: A statement of a plan that rests on this is refused for another split.
SIDES_FOLLOW_FROM_IDS = (
    "Which nodes train follows from each node's own id (split_sides: by_id), so that one node more "
    "or less moves no other to another side."
)
#: Of claims that a node is there, where no split is refused.
SIDES_STAY = (
    "A node more or less moves no other to another side of the split: with split_sides: by_id it "
    "does not, with a permutation of the nodes that are there it does."
)
ROW_IS_WITHHELD = (
    "The protected node's own row of each aggregate is not published and its prediction is not "
    "asked for; in training the row enters only its own clipped gradient."
)
BOUND_IS_COUNTED = (
    "max_degree is a quantile of noisy numbers of users by length of list, one release of the plan."
)
EDGE_COUNT_IS_PUBLIC = "The number of edges may be used to choose δ; it is taken as public."
#: What stands in its place in a private release, which has a δ of its own.
EDGE_COUNT_IS_PRIVATE = (
    "δ is given beforehand, not chosen by the number of edges, of which nothing is taken as public."
)
SAMPLES_ARE_COUPLED = (
    "Batch size and number of rounds do not depend on whether the protected node is there. A batch "
    "of fixed size that it is drawn into is one without it in which it takes another node's place: "
    "so each round is dominated by a Poisson round of sensitivity 2C."
)
OTHER_LISTS_STAY = (
    "The lists of all other nodes stay: edges to the protected node that stand there are not "
    "protected. In a symmetrised graph each of its edges stands in another list as well."
)
LISTS_ARE_SAMPLED_ALONE = (
    "Every out-list is sampled without looking at any other list; so a list does not depend on "
    "whether the protected node takes part."
)
OFFICIAL_STEPS = (
    "The official code runs floor(N / B) rounds in each epoch and accounts floor(epochs · N / B) "
    "in all, which are run here: its ε is of fewer rounds than the models here have."
)


def sides_by_id(plans: Sequence[Any]) -> list[str]:
    """The adjacencies of plans that are claimed and hold on a split by id alone, each once."""
    found = [p for p in plans if SIDES_FOLLOW_FROM_IDS in p.assumptions and p.status != "refuted"]
    return list(dict.fromkeys(plan.adjacency for plan in found))


def of_release(assumptions: Sequence[str], release: str) -> list[str]:
    """A plan's assumptions as they are made in a "reproduction" or a "private" release."""
    stands_for = {EDGE_COUNT_IS_PUBLIC: EDGE_COUNT_IS_PRIVATE} if release == "private" else {}
    return [stands_for.get(one, one) for one in assumptions]
