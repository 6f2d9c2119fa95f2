"""What validation nodes select without noise: what statements say of it, and that it is so."""

import math

import numpy as np

from graphdp.data.graph import csr_from_edges, in_edges
from graphdp.methods.registry import analyses, card
from graphdp.privacy.statement_selection import select
from graphdp.privacy.statement_words import (
    protection,
    releases,
    scores_read_protected,
    uncounted,
)
from graphdp.releases.aggregation import normalize_rows, sum_in_edges
from graphdp.training import DPAdam, Encoder, Member, train


def test_what_validation_nodes_choose_is_not_covered():
    """A kept epoch of GAP's encoder is chosen by private labels, features and own rows, and all
    later phases build on it; DPDGC's embedding keeps its last."""

    def said(method, checkpoint, **more):
        its = card(method)
        given = more if method == "mlp" else more | {"max_degree": 4}
        setting = its.settings("node")(**given)
        settings = its.plan("node", setting.model_dump(exclude_none=True))
        plan = analyses(method, "node", settings, 4100)[0]
        weights = releases(plan, its.words, "reproduction", checkpoint)[0]
        assert weights.what == "weights of the last epoch"
        open_ = protection(plan, its.words, "reproduction", checkpoint).not_protected
        (validation,) = (one for one in open_ if "validation" in one)
        assert "labels" in validation and "features" in validation
        assert ("checkpoints" in validation) == (checkpoint == "best_validation")
        assert ("own rows" in validation) == (method not in ("mlp", "dpa"))
        return weights.covered

    for method in ("gap", "progap"):
        assert not said(method, "best_validation")
        assert said(method, "last")
    assert not said("dpdgcofficial", "best_validation")
    for method in ("dpdgc", "mlp", "dpa"):
        assert said(method, "best_validation")
    # Without an encoder GAP has one phase that is trained.
    assert said("gap", "best_validation", encoder_layers=0)


def test_one_validation_node_moves_everybodys_sums():
    """That it is not covered is no caution: r sends to nobody, so that sums off its own row may not
    move at all, and its features alone choose another epoch of the encoder."""
    rng, n, width = np.random.default_rng(1), 400, 6
    labels = rng.integers(0, 2, n)
    x = (rng.standard_normal((n, width)) + 0.15 * (2 * labels[:, None] - 1)).astype(np.float32)
    sides, r = (np.arange(300), np.arange(300, 320), np.arange(320, n)), 300
    sender, receiver = np.repeat(np.arange(n), 5), rng.integers(0, n, 5 * n)
    kept = (sender != receiver) & (sender != r)
    edges = in_edges(*csr_from_edges(sender[kept], receiver[kept], n, symmetrise=False))

    def trained(x, stream, checkpoint):
        rounds = DPAdam(epochs=10, batch_size=30, sampling_rate=0.1, steps=100, max_grad_norm=1.0)
        member = Member(("kept epoch", stream), 0.01, 2.0, *sides)
        encoder = Encoder(width, 16, 2, 2, False)
        (fitted,) = train(encoder, x, labels, [member], rounds, checkpoint=checkpoint, device="cpu")
        return fitted

    def other(number):
        changed = x.copy()
        changed[r] = np.random.default_rng(number).standard_normal(width)
        return changed

    def moved(x, stream, checkpoint):
        fitted = [trained(one, stream, checkpoint) for one in (own, x)]
        sums = [sum_in_edges(edges, normalize_rows(one.embedding)) for one in fitted]
        return np.linalg.norm(np.delete(sums[0] - sums[1], r, axis=0))

    own = x
    stream, number = next(
        (stream, number)
        for stream in range(12)
        for number in range(6)
        if trained(other(number), stream, "best_validation").best_epoch
        != trained(x, stream, "best_validation").best_epoch
    )
    assert moved(other(number), stream, "best_validation") > 2 * math.sqrt(5)
    assert moved(other(number), stream, "last") == 0


def stated(method, setting, tried):
    """The analyses of a setting, and those of which ε is stated once one of `tried` was chosen."""
    its = card(method)

    def of(settings, num_train):
        return analyses(method, "node", settings, num_train)

    grid = [its.settings("node")(**setting | more).model_dump(exclude_none=True) for more in tried]
    entries = []
    for point in grid:
        settings = its.plan("node", point)
        plan = of(settings, 4100)[0]
        entries.append(
            {"plan": plan.to_dict(), "settings": settings, "num_train": 4100,
             "noise_multiplier": 4.0}
        )  # fmt: skip
    plans = of(entries[0]["settings"], 4100)
    found = select(plans, entries, 1e-5, of)
    return plans, {one.adjacency for one in found}


def test_no_epsilon_is_stated_of_a_choice_by_others_rows():
    """Exact inference: a training node's row stands in the accuracy of its neighbours, by which the
    setting is chosen."""
    setting = {"max_degree": 5, "inference": "exact"}
    plans, alone = stated("sage", setting, [{}])
    holds = {plan.adjacency for plan in plans if plan.status != "refuted"}
    assert alone == holds and "participant" in holds  # one setting is no choice
    plans, chosen = stated("sage", setting, [{}, {"epochs": 3}])
    assert chosen == set()
    words = card("sage").words
    (told,) = [
        one
        for one in uncounted(plans[0], words, "last", 2, 1, "reproduction")
        if one.startswith("No ε of")
    ]
    assert "predictions for validation nodes" in told
    assert not [
        one
        for one in uncounted(plans[0], words, "last", 1, 1, "reproduction")
        if one.startswith("No ε of")
    ]
    # With a noisy sum for inference the choice reads that alone.
    plans, chosen = stated("sage", {"max_degree": 5}, [{}, {"epochs": 3}])
    assert chosen == {plan.adjacency for plan in plans if plan.status != "refuted"} != set()


def test_no_epsilon_of_nodes_that_do_not_train_is_stated_of_a_choice_by_their_rows():
    """HeterPoisson's predictions read rows of nodes that do not train, of which the peripheral
    adjacencies speak; those of training nodes they do not read."""
    its = card("heterpoisson")
    settings = its.plan("node", its.settings("node")().model_dump(exclude_none=True))
    plans = [p for p in analyses("heterpoisson", "node", settings, 4100) if p.status != "refuted"]
    told = {plan.adjacency: scores_read_protected(plan) for plan in plans}
    assert told["participant_peripheral"] and not told["participant"]
    assert all(one.endswith("_peripheral") == reads for one, reads in told.items())


def test_what_chooses_epochs_of_dpdgcs_code_are_edges_of_validation_nodes():
    """Also at edge level, where labels are public and edges are not."""
    its = card("dpdgcofficial")
    settings = its.plan("edge", its.settings("edge")().model_dump(exclude_none=True))
    plan, words = analyses("dpdgcofficial", "edge", settings, 4100)[0], its.words
    (told,) = [
        one
        for one in uncounted(plan, words, "best_validation", 1, 1, "reproduction")
        if one.startswith("The best epoch")
    ]
    assert "edges are read without noise" in told and "they are public" not in told
    for checkpoint, covered in (("best_validation", False), ("last", True)):
        assert releases(plan, words, "reproduction", checkpoint)[0].covered == covered
    other = card("dpdgc").words
    assert releases(plan, other, "reproduction", "best_validation")[0].covered
