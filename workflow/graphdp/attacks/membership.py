"""Node membership inference (GAP, section 7.4.2, Table 3): was this node a training node?

The attack is Olatunji et al.'s "TSTF" (2021): the models are trained with the labels of a part of
the nodes and answer for all of them, on the full graph. A shadow model, trained like the target
model on nodes that the attacker knows, shows an attack model how probabilities of training nodes
look:

1. sample   two disjoint sets of `nodes_per_class` nodes of each class, one for the target model and
            one for the shadow model; of each, 2/5 are trained on (members), 2/5 are not
            (non-members), and 1/5 is left out (the authors' validation nodes, which choose nothing)
2. train    both models, with the method's own code: graph, features and degree bound are those of
            all nodes, and only members' labels enter a loss. The last epoch is kept. (Olatunji et
            al. also hide the other nodes' edges in training; the authors of GAP do not)
3. query    each model's class probabilities of its members and non-members
4. attack   an MLP (3 layers, 64 units) on (probabilities, one-hot class) -> member or not, trained
            on 6/10 of the shadow model's nodes, at its best epoch on 1/10 of them
5. judge    AUC on the target model's nodes, which the attack model knows nothing of (the attack as
            the paper describes it), and on the 3/10 of the shadow model's nodes that are left (what
            the authors' code computes: by default it trains no target model). The latter is below
            1/2 where nothing leaks: classes have as many members as others, so what the 6/10 have
            too many of, the rest lacks

What the paper leaves open is as in the authors' code (sisaman/GAP, core/attacks, experiments.py):
the shares 2/5, 1/5, 2/5 and 6/10, 1/10, 3/10, the class among the inputs, the attack model's
training; and the attacked models' hidden 64, K = 2 and D = 100, which are the study's settings. The
authors leave out classes of fewer than 1,000 nodes; here a class gives each model up to half of
its nodes.

What ε covers. The queries read the aggregates that the training released once, and no edge: they
are post-processing. In question is whether a node was trained on; its edges and features are in the
graph either way. So of a node-level plan only the DP-Adam phases tell members from others, and they
are (`membership_epsilon`, δ)-DP for adding or removing one training node, whatever holds for the
aggregations, whose sensitivity plays no part.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphdp.attacks.auc import auc
from graphdp.attacks.nodes import ATTACK, ROLES, sample_nodes
from graphdp.data.split import Split
from graphdp.methods.block import Block
from graphdp.methods.card import Card
from graphdp.privacy import accounting
from graphdp.privacy.plan import GaussianReleases, Plan, PoissonDPSGD
from graphdp.privacy.protection import protects_nodes, replaces
from graphdp.rng import generator
from graphdp.workflow.stages import run_all

# The attack model and its training, as in the authors' experiments.
LAYERS, HIDDEN, EPOCHS, LEARNING_RATE = 3, 64, 100, 0.01


@dataclass(frozen=True)
class AttackBlock(Block):
    """The models that a block of repeats attacks and learns from: two per repeat.

    `seeds` number the models, see `model_seed`; `nodes` holds each one's members and non-members.
    """

    nodes_per_class: int = 1000
    nodes: Mapping[int, Split] = field(default_factory=dict)

    @classmethod
    def of_repeats(cls, repeats: list[int], nodes_per_class: int, **fields: Any) -> "AttackBlock":
        """The block of the given repeats; `fields` are `Block`'s, without seeds and split.

        All methods and ε of a study attack the same nodes in the same repeat.
        """
        nodes = {}
        for repeat in repeats:
            random = generator(
                fields["study_seed"], repeat, fields["dataset"], ATTACK, "nodes", nodes_per_class
            )
            sampled = sample_nodes(fields["graph"].y, nodes_per_class, random)
            nodes |= {model_seed(repeat, role): sampled[role] for role in ROLES}
        return cls(
            seeds=list(nodes),
            split_rule=ATTACK,
            # Which epoch is kept must not depend on labels that nothing protects.
            checkpoint="last",
            posteriors=True,
            nodes_per_class=nodes_per_class,
            nodes=nodes,
            **fields,
        )

    @property
    def repeats(self) -> list[int]:
        """The repeats' numbers, in order."""
        return list(dict.fromkeys(seed // len(ROLES) for seed in self.seeds))

    def split(self, seed: int) -> Split:
        """The nodes of a model."""
        return self.nodes[seed]

    def stream(self, seed: int, *purpose: int | float | str) -> tuple:
        """The name of a model's random stream: of no other role, study or number of nodes."""
        repeat, role = divmod(seed, len(ROLES))
        return super().stream(repeat, ATTACK, ROLES[role], self.nodes_per_class, *purpose)

    def degree_stream(self, seed: int, bound: str) -> tuple:
        """The name of a model's own degree bound."""
        return self.stream(seed, "degree", bound)


def model_seed(repeat: int, role: str) -> int:
    """The number of a repeat's model among the seeds of an `AttackBlock`."""
    return repeat * len(ROLES) + ROLES.index(role)


@dataclass(frozen=True)
class Attacked:
    """One repeat of the attack. models: role -> fitted model.

    auc: on the target model's nodes. auc_same_model: on those nodes of the shadow model that the
    attack model was not trained on.
    """

    repeat: int
    auc: float
    auc_same_model: float
    models: dict[str, Any]


def membership_inference(
    block: AttackBlock, its: Card, setting: dict[str, Any], cache
) -> list[Attacked]:
    """Train, query and attack every repeat of the block.

    its: the attacked method's card, whose stages are run as for any study. cache: an
    `AggregateCache`.
    """
    models = {seed: model for seed, _, model in run_all(block, its, setting, cache)}
    samples = {
        seed: attack_samples(model.posteriors, block.graph.y, block.split(seed))
        for seed, model in models.items()
    }
    fitted, cuts = _train_attacks(block, samples)
    outcomes = []
    for repeat, attack in zip(block.repeats, fitted, strict=True):
        scores = attack.posteriors[:, 1]

        def judged(rows: np.ndarray, member: np.ndarray, scores=scores) -> float:
            return auc(scores[rows[member]], scores[rows[~member]])

        target, shadow = (model_seed(repeat, role) for role in ROLES)
        held_out = cuts[repeat].test
        first, last = cuts[repeat].target
        outcomes.append(
            Attacked(
                repeat=repeat,
                auc=judged(np.arange(first, last), samples[target][1]),
                auc_same_model=judged(held_out, cuts[repeat].member[held_out - cuts[repeat].start]),
                models={"target": models[target], "shadow": models[shadow]},
            )
        )
    return outcomes


def attack_samples(
    posteriors: np.ndarray, y: np.ndarray, nodes: Split
) -> tuple[np.ndarray, np.ndarray]:
    """What the attack model is shown of a model's members and non-members.

    posteriors: float32 (n, classes); y: int64 (n,). Returns x, float32 (m, 2 · classes): a node's
    probabilities and its class, one-hot; and bool (m,), whether it is a member.
    """
    queried = np.concatenate([nodes.train, nodes.test])
    classes = np.eye(posteriors.shape[1], dtype=np.float32)[y[queried]]
    member = np.arange(queried.size) < nodes.train.size
    return np.hstack([posteriors[queried], classes]).astype(np.float32), member


@dataclass(frozen=True)
class _Cuts:
    """Where a repeat's samples stand among those of all repeats: the shadow model's from `start`
    on, in an order of their own (`member` follows it); the target model's as a range of rows."""

    start: int
    member: np.ndarray
    train: np.ndarray
    val: np.ndarray
    test: np.ndarray
    target: tuple[int, int]


def _train_attacks(
    block: AttackBlock, samples: Mapping[int, tuple[np.ndarray, np.ndarray]]
) -> tuple[list[Any], dict[int, _Cuts]]:
    """Step 4: the attack models of all repeats, as one block over all samples."""
    from graphdp.training import MLP, FullBatch, Member, train

    parts, labels, cuts, start = [], [], {}, 0
    for repeat in block.repeats:
        target, shadow = (model_seed(repeat, role) for role in ROLES)
        (x, member), (target_x, target_member) = samples[shadow], samples[target]
        order = generator(*block.stream(shadow, "attack", "order")).permutation(len(x))
        end = start + len(x)
        # 6/10 and 3/10 are the authors'; what rounding leaves is for validation.
        last_train, first_test = start + len(x) * 6 // 10, end - len(x) * 3 // 10
        cuts[repeat] = _Cuts(
            start,
            member[order],
            np.arange(start, last_train),
            np.arange(last_train, first_test),
            np.arange(first_test, end),
            (end, end + len(target_x)),
        )
        parts += [x[order], target_x]
        labels += [member[order], target_member]
        start = end + len(target_x)
    members = [
        Member(
            stream=block.stream(model_seed(repeat, "shadow"), "attack"),
            learning_rate=LEARNING_RATE,
            noise_multiplier=0.0,
            train=own.train,
            val=own.val,
            test=own.test,
        )
        for repeat, own in cuts.items()
    ]
    x = np.concatenate(parts)
    fitted = train(
        MLP(x.shape[1], HIDDEN, LAYERS, 2, batch_norm=True),
        x,
        np.concatenate(labels).astype(np.int64),
        members,
        FullBatch(EPOCHS),
        device=block.device,
        memory_mb=block.memory_mb,
        label="attack",
        posteriors=True,
    )
    return fitted, cuts


def membership_epsilon(entry: Mapping[str, Any]) -> float:
    """ε, at the δ of a calibration entry, of adding or removing one training node.

    The graph stays as it is, so the noisy sums of the plan's aggregations are post-processing of
    what was trained before, and only its DP-Adam phases count (the module's docstring). ∞ where
    training has no noise (levels none and edge) or is of a kind that this analysis does not know.
    """
    plan = Plan.from_dict(entry["plan"])
    known = all(isinstance(m, GaussianReleases | PoissonDPSGD) for m in plan.mechanisms)
    phases = tuple(m for m in plan.mechanisms if isinstance(m, PoissonDPSGD))
    if not protects_nodes(plan.level) or not known or not phases:
        return math.inf
    trained = Plan(
        plan.method, "node", "participant", "corrected", "proven", (), None, phases, plan.accountant
    )
    # Of a replaced node the noise is a multiple of 2C, and a node that comes or goes moves C.
    moves = 2 if replaces(plan.adjacency) else 1
    return accounting.epsilon(trained, moves * entry["noise_multiplier"], entry["delta"])
