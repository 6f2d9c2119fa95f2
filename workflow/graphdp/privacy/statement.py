"""The privacy statement of a trained model: what is protected, how, and what is not.

A statement is made from a calibration entry (see `graphdp.privacy.calibrated`), so it reads the
same plan that set the noise and that the training loop executed. Its fields are those of
`graphdp.privacy.statement_form`.
"""

import math
from collections.abc import Sequence
from typing import Any, TypeVar

from graphdp import coins, noise
from graphdp.errors import GraphDPError
from graphdp.privacy import accounting, calibrated
from graphdp.privacy.assumptions import (
    CANDIDATES_ARE_PUBLIC,
    of_release,
    sides_by_id,
)
from graphdp.privacy.composition import as_read, epsilon_at
from graphdp.privacy.pair_sums import MOST_LENGTH
from graphdp.privacy.plan import Plan, accounted_by
from graphdp.privacy.protection import (
    Words,
    delta_fault,
    replaces,
    unit_text,
)
from graphdp.privacy.statement_form import (
    AccountingEntry,
    Claim,
    Data,
    DegreeBound,
    Guarantee,
    MechanismEntry,
    Rng,
    Selection,
    SelectionEntry,
    Statement,
    Target,
)
from graphdp.privacy.statement_selection import Analyses, claim, select
from graphdp.privacy.statement_words import (
    inference,
    left_out,
    protection,
    releases,
    uncounted,
)

_C = TypeVar("_C", bound=Claim)
_GENERATORS = (
    "AES-256 in counter mode for Gaussian noise, drawn in float64 and rounded to a public grid, "
    "and for randomised response and discrete Laplace noise; AES-128 in counter mode for "
    "samples of batches and of neighbours in a round; Philox for initial parameters; a seeded "
    "counter hash for degree bounds; every key is of the SHA-256 of {root} and the name of what is "
    "drawn (of public candidates, and of columns that are drawn, of the name alone)"
)
_ROUNDING = (
    "Clipped gradients are summed in float64 and rounded once (of HeterPoisson and DP-GNN as their "
    "authors' code runs them in float32), so that one of B moves their sum by 2⁻²³ B clips more "
    "than its own at most, if those of the others are computed alike with it and without: a "
    "premise that data made against it break, and that no ε counts."
)
_OTHER_NOISE = "Gaussian noise alone is analysed as it is drawn; of {} noise nothing is said."
_SML_NOISE = (
    "Of symmetric Laplace noise the Gaussian numbers alone are analysed as they are drawn; the "
    "factor √W, W an Exp(1) number of numpy (float64, AES-128 in counter mode), which scales their "
    "grid too, is not. So nothing is said of what is drawn."
)
_RNG = {
    "reproduction": Rng(
        generator=_GENERATORS.format(root="the public study seed"),
        cryptographic=False,
        note="Whoever knows the study seed can draw all of it again: the ε speak of the mechanism, "
        f"not of a copy whose seed is public. {_ROUNDING}",
        drawn_epsilon=None,
        drawn_delta=None,
    ),
    "private": Rng(
        generator=_GENERATORS.format(root="a secret key of 256 bits"),
        cryptographic=True,
        note="The ε hold as long as the key is secret. How long a job takes and how much memory is "
        f"not hidden from who shares the machine. {_ROUNDING}",
        drawn_epsilon=None,
        drawn_delta=None,
    ),
}


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
    split: str = "shared by id",
    release: str = "reproduction",
    analyses: Analyses,
    words: Words,
) -> Statement:
    """The statement of a model whose noise is that of a calibration entry.

    entry: an entry of the cell's calibration file. data: the graph, with the entry's number of
    training nodes. checkpoint: "best_validation" or "last". tried: the calibration entry of every
    hyperparameter setting that the selection looked at, once per setting. repeats: seeds. charged:
    the search's ε, if an earlier statement of the same search has it. min_class_count,
    remove_isolated: the preprocessing that left nodes out. split: its rule, as rows name it.
    release: "reproduction" or "private". analyses: of the method at the entry's level. words: how
    the method speaks of edges.

    Raises GraphDPError when a corrected plan, or any plan of a private release, has a δ that is not
    below 1 / number of protected units, when the entry's plan is not one that its method states or
    needs another split, and when `entry` is not among those tried.
    """
    plan = Plan.from_dict(entry["plan"])
    own = accounted_by(plan.accountant, analyses(entry["settings"], entry["num_train"]))
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
    if fault and (plan.basis == "corrected" or release == "private"):
        raise GraphDPError(fault)
    if (by_id := sides_by_id(own)) and "by id" not in split:
        raise GraphDPError(
            f"{method}: with a node more or less the published split moves others to another side, "
            f"so {by_id[0]} does not hold; set split_sides: by_id"
        )
    multiplier = _noise(entry)
    return Statement(
        schema_version=2,
        release=release,
        method=method,
        settings=entry["settings"],
        data=data.published(release),
        guarantee=_guarantee(plan, entry["settings"], words),
        protection=protection(plan, words, release, checkpoint),
        releases=releases(plan, words, release, checkpoint),
        inference_privacy=inference(plan),
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
        accounting=_of_release(
            [
                _account(analysis, plan, multiplier, delta, read)
                for analysis, read in zip(own, _readings(entry, own), strict=True)
            ],
            release,
        ),
        selection=Selection(
            checkpoint=checkpoint,
            settings_tried=len(tried),
            repeats=repeats,
            entries=_of_release(
                select(own, tried, delta, analyses) if charged is None else charged, release
            ),
        ),
        uncounted=[
            *([f"Warning: {fault}."] if fault else []),
            *uncounted(plan, words, checkpoint, len(tried), repeats, release),
            *left_out(plan, own, min_class_count, remove_isolated, split, release),
        ],
        rng=_random_numbers(entry, data, release),
    )


def _of_release(claims: Sequence[_C], release: str) -> list[_C]:
    """Claims with the assumptions that they rest on in that kind of release."""
    return [
        one.model_copy(update={"assumptions": of_release(one.assumptions, release)})
        for one in claims
    ]


def _random_numbers(entry: dict[str, Any], data: Data, release: str) -> Rng:
    """What is drawn, and what that makes of the target."""
    target, delta, rng = entry["target_epsilon"], entry["delta"], _RNG[release]
    multiplier = calibrated.noise_multiplier(entry)
    if target == "inf" or delta is None or not multiplier:
        return rng
    drawn = float(target), delta
    if calibrated.phases(entry):
        shapes = {one.run.noise for one in calibrated.phases(entry).values()} - {"gaussian"}
        if shapes:
            other = _OTHER_NOISE.format(" and ".join(sorted(shapes)))
            note = _SML_NOISE if shapes == {"sml"} else other
            return rng.model_copy(update={"note": f"{note} {rng.note}"})
        drawn = noise.as_drawn(*drawn)
        mechanisms = Plan.from_dict(entry["plan"]).mechanisms
        epsilon = drawn[0] + max(m.drawn_epsilon(multiplier) for m in mechanisms)
        cut = sum(m.drawn_delta(epsilon) for m in mechanisms)
        drawn = epsilon, min(1.0, drawn[1] + cut)
    if parts := calibrated.pure_epsilons(entry):  # every ordered pair of nodes at most
        pairs = data.nodes * (data.nodes - 1)
        drawn = coins.as_drawn(drawn[0], pairs, drawn[1], min(parts.values()))
    return rng.model_copy(update={"drawn_epsilon": drawn[0], "drawn_delta": drawn[1]})


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
    split: str = "shared by id",
    release: str = "reproduction",
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
            split=split,
            release=release,
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
    sampled = CANDIDATES_ARE_PUBLIC not in plan.assumptions and not words.declared
    quantile = settings.get("degree_quantile")
    if "max_degree" in settings or quantile is not None:
        found = f", cut at the {quantile:g} quantile of noisy lengths" if quantile else ""
        bound = DegreeBound(
            max_degree=MOST_LENGTH if quantile else settings["max_degree"],
            method=(
                f"uniform sample without replacement of {words.sampled}{found}"
                if sampled
                else words.candidates
                if CANDIDATES_ARE_PUBLIC in plan.assumptions
                else words.declared
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


def _epsilon(analysis: Plan, reference: Plan, noise: float, delta: float | None) -> float:
    if delta is None:  # ε = 0 or ∞, for every δ
        return 0.0 if analysis.composition.is_empty else math.inf
    return epsilon_at(analysis, reference, noise, delta)


def _readings(entry: dict[str, Any], own: Sequence[Plan]) -> list[float | None]:
    """ε of each analysis as it was read when the noise was calibrated; None where it was not."""
    read = entry.get("epsilons", [])
    if [(one["basis"], one["adjacency"]) for one in read] != [(p.basis, p.adjacency) for p in own]:
        return [None] * len(own)
    return [float(one["claimed_epsilon"]) for one in read]


def _account(
    analysis: Plan,
    reference: Plan,
    noise: float,
    delta: float | None,
    read: float | None = None,
) -> AccountingEntry:
    """read: its ε, where that is known; sampled rounds take seconds to account."""
    epsilon = _epsilon(analysis, reference, noise, delta) if read is None else read
    composition = as_read(analysis, reference, noise).composition
    accountant, method = "exact", ""
    if not 0 < epsilon < math.inf:
        accountant, method = "", "no computation needed"
    elif composition.is_pure:
        accountant, method = composition.adding_up
    elif composition.is_gaussian:
        method = "exact Gaussian: Balle and Wang 2018, Theorem 8"
    else:
        accountant, method = accounting.primary(composition), accounting.how(composition)
        if replaces(analysis.adjacency) and composition.adds_or_removes:
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
