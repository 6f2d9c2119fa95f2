"""Plans: what a method will release about the private data, with one free noise multiplier.

A plan is written down before anything is trained. Calibration, the privacy statement, the audit
and the training loop all read the same plan, so they cannot disagree: the loop executes exactly
the releases and steps that the plan holds.

Every mechanism's noise is `noise_multiplier` times its own sensitivity, with one multiplier for
the whole plan (GAP, section 7.3, "Privacy accounting and calibration": "we use the same noise
scale for perturbing the gradients (in DP-SGD) and the aggregations"). For releases with pure ε it
is 1 / ε, which is what a Laplace mechanism's scale is in units of its sensitivity. A release may
have an ε of its own instead, which the multiplier does not change (`FixedPureRelease`).

The kinds of mechanism are the files of `graphdp.privacy.mechanisms`.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from graphdp.errors import one_of
from graphdp.privacy import mechanisms
from graphdp.privacy.mechanisms.base import (
    Mechanism,
    Sensitivity,
    Term,
    is_count,
    require,
)
from graphdp.privacy.mechanisms.claimed_laplace import ClaimedLaplace
from graphdp.privacy.mechanisms.classical_gaussian import ClassicalGaussian
from graphdp.privacy.mechanisms.degree_scaled_gaussian import DegreeScaledGaussian
from graphdp.privacy.mechanisms.distributed_gaussian import DistributedGaussian
from graphdp.privacy.mechanisms.fixed_pure import FixedPureRelease
from graphdp.privacy.mechanisms.fixed_size_dpsgd import FixedSizeDPSGD
from graphdp.privacy.mechanisms.gaussian import GaussianReleases
from graphdp.privacy.mechanisms.poisson_dpsgd import PoissonDPSGD
from graphdp.privacy.mechanisms.poisson_group_dpsgd import PoissonGroupDPSGD
from graphdp.privacy.mechanisms.pure import PureRelease
from graphdp.privacy.mechanisms.shuffled_dpsgd import ShuffledDPSGD
from graphdp.privacy.mechanisms.shuffled_epochs import ShuffledEpochs
from graphdp.privacy.mechanisms.sub_graph_dpsgd import SubGraphDPSGD
from graphdp.privacy.mechanisms.sub_graph_laplace import SubGraphLaplace
from graphdp.privacy.mechanisms.unnoised import UnnoisedRelease
from graphdp.privacy.mechanisms.without_replacement_dpsgd import WithoutReplacementDPSGD
from graphdp.privacy.protection import (
    ADJACENCY_NAMES,
    check_level,
    is_adjacency,
    is_private,
    replaces,
)

#: The mechanisms that the methods of this project use, from their own files.
__all__ = [
    "ASKED",
    "BASES",
    "STATUSES",
    "ClaimedLaplace",
    "ClassicalGaussian",
    "Composition",
    "DegreeScaledGaussian",
    "DistributedGaussian",
    "FixedPureRelease",
    "FixedSizeDPSGD",
    "GaussianReleases",
    "Mechanism",
    "Plan",
    "PoissonDPSGD",
    "PoissonGroupDPSGD",
    "PureRelease",
    "Sensitivity",
    "ShuffledDPSGD",
    "ShuffledEpochs",
    "SubGraphDPSGD",
    "SubGraphLaplace",
    "UnnoisedRelease",
    "WithoutReplacementDPSGD",
    "accounted_by",
    "dpsgd_rounds",
]

BASES = ("as_published", "as_implemented", "corrected")
STATUSES = ("proven", "conditional", "refuted")
#: The accountants that a plan can ask for.
ASKED = ("auto", "pld")


@dataclass(frozen=True)
class Composition:
    """A plan reduced to what determines its ε: the order and the names of mechanisms do not.

    terms: one `Term` for each way of releasing, in their own order whatever the order given.
    accountant: the one that is asked for, as a plan has it.
    """

    terms: tuple[Term, ...] = ()
    accountant: str = "auto"

    def __post_init__(self) -> None:
        merged: dict[type, Term] = {}
        for term in self.terms:
            kind = type(term)
            merged[kind] = merged[kind].plus(term) if kind in merged else term
        in_order = sorted(merged.values(), key=lambda term: (term.place, type(term).__name__))
        object.__setattr__(self, "terms", tuple(in_order))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is released, that is ε = 0 exactly."""
        return not self.terms

    @property
    def least_epsilon(self) -> float:
        """The ε that is left however much noise there is."""
        return sum(term.least_epsilon for term in self.terms)

    @property
    def unnoised(self) -> bool:
        """Whether something is released without noise."""
        return self.least_epsilon == math.inf

    @property
    def asks_pld(self) -> bool:
        """Whether privacy loss distributions are asked for."""
        return self.accountant == "pld"

    @property
    def is_gaussian(self) -> bool:
        """Whether all there is are Gaussian releases, which compose exactly (or nothing)."""
        return all(term.gaussian_count is not None for term in self.terms)

    @property
    def gaussian(self) -> float:
        """Number of unsampled Gaussian releases (DP-SGD steps at sampling rate 1 included); of
        releases whose noise several parties draw Σ (Δ / unit)², any number."""
        return sum(term.gaussian_count or 0 for term in self.terms)

    @property
    def is_pure(self) -> bool:
        """Whether all there is are releases whose ε add up: pure ones, or claims."""
        return bool(self.terms) and all(term.pure_share is not None for term in self.terms)

    @property
    def claimed_deltas(self) -> tuple[float, ...]:
        """δ of each release whose ε is a published claim that is added up."""
        return tuple(delta for term in self.terms for delta in term.claimed_deltas)

    @property
    def adding_up(self) -> tuple[str, str]:
        """Of releases whose ε add up: who says so ("exact" or "published"), and at which δ."""
        deltas = self.claimed_deltas
        if not deltas:
            return "exact", "pure ε (δ = 0): the shares add up"
        if not any(deltas):
            return "published", "a claim: its parts of ε added up, at δ = 0"
        each = " and ".join(f"{delta:g}" for delta in dict.fromkeys(deltas))
        streams = f"each of {len(deltas)} Gaussian releases, {sum(deltas):g} together"
        where = streams if len(deltas) > 1 else "its Gaussian release"
        return "published", f"a claim: its parts of ε added up, with δ = {each} for {where}"

    @property
    def pure_share(self) -> float:
        """The part of a pure composition's ε that falls with the noise, times the noise."""
        return sum(term.pure_share or 0.0 for term in self.terms)

    def pure_epsilon(self, noise: float) -> float:
        """ε of a composition of pure releases at a noise multiplier above 0."""
        return self.pure_share / noise + self.least_epsilon

    @property
    def adds_or_removes(self) -> bool:
        """Whether some of its accounting holds for a record added or removed alone."""
        return any(term.relation == "add_or_remove_one" for term in self.terms)

    @property
    def sketch(self) -> "Composition":
        """The same of quicker terms, or the composition itself."""
        return replace(self, terms=tuple(term.sketch for term in self.terms))

    @property
    def lasting(self) -> "Composition":
        """What is left of it under infinite noise."""
        return replace(self, terms=tuple(t for t in self.terms if t.least_epsilon > 0))


@dataclass(frozen=True)
class Plan:
    """Everything that one trained model releases about the private data. Hashable.

    method: the method's name.
    level: "none", "edge", "node", or "k<number>" for so many neighbours.
    adjacency: one of `graphdp.privacy.protection.ADJACENCY_NAMES`; "" at level "none".
    basis: whose analysis this is, one of `BASES`.
    status: "proven", "conditional" (holds under `assumptions`) or "refuted" (a counterexample
        exists: an ε of this plan is a claim, not a guarantee); "" at level "none".
    assumptions: what the analysis takes for granted, one sentence each.
    own_row_covered: whether the protected node's own row of a released matrix is covered; None
        where the question does not arise (no matrix is released, or an edge is protected).
    mechanisms: what is released, in order.
    accountant: one of `ASKED`: "auto" for whichever accountant comes first of those that know
        all releases, "pld" for privacy loss distributions, where these do.

    A plan whose mechanisms release nothing has ε = 0 exactly.

    Raises GraphDPError for a value outside these vocabularies.
    """

    method: str
    level: str
    adjacency: str
    basis: str
    status: str
    assumptions: tuple[str, ...]
    own_row_covered: bool | None
    mechanisms: tuple[Mechanism, ...]
    accountant: str = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "assumptions", tuple(self.assumptions))
        object.__setattr__(self, "mechanisms", tuple(self.mechanisms))
        require(bool(self.method), "the plan has no method; give the method's name")
        check_level("level", self.level)
        one_of("basis", self.basis, BASES)
        one_of("accountant", self.accountant, ASKED)
        if not is_private(self.level):
            require(
                self.adjacency == "" and self.status == "",
                "level none promises nothing; leave adjacency and status empty",
            )
        else:
            require(
                is_adjacency(self.adjacency),
                f"adjacency is {self.adjacency!r}; choose one of {', '.join(ADJACENCY_NAMES)}",
            )
            one_of("status", self.status, STATUSES)
            require(
                self.status != "conditional" or bool(self.assumptions),
                "status is conditional but no assumption is given; name the conditions",
            )
        require(
            self.own_row_covered in (True, False, None),
            f"own_row_covered is {self.own_row_covered!r}; give true, false or null",
        )
        for mechanism in self.mechanisms:
            require(
                isinstance(mechanism, Mechanism),
                f"{mechanism!r} is no mechanism; use {', '.join(mechanisms.KINDS)}",
            )

    @property
    def composition(self) -> Composition:
        """The plan's mechanisms and accountant, reduced to what determines ε.

        Of a replaced record privacy loss distributions know the worst case of a Poisson sample
        (`Term.replacing`); the other accountants that of one added or removed alone.
        """
        released = (m for m in self.mechanisms if not m.releases_nothing)
        terms = [term for mechanism in released for term in mechanism.terms()]
        if self.accountant == "pld" and replaces(self.adjacency):
            terms = [term.replacing for term in terms]
        return Composition(tuple(terms), self.accountant)

    def to_dict(self) -> dict[str, Any]:
        """A JSON object; `Plan.from_dict` gives back an equal plan."""
        value = asdict(self) | {"assumptions": list(self.assumptions)}
        value["mechanisms"] = [mechanisms.to_dict(m) for m in self.mechanisms]
        if self.accountant == "auto":  # as most have it
            del value["accountant"]
        return value

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> "Plan":
        """The plan that `to_dict` wrote. Raises GraphDPError on unknown or missing keys."""
        parts = tuple(map(mechanisms.from_dict, value.get("mechanisms", ())))
        return mechanisms.build(cls, {"accountant": "auto"} | value | {"mechanisms": parts})


def accounted_by(accountant: str, plans: Iterable[Plan]) -> tuple[Plan, ...]:
    """The same plans, with one accountant asked for."""
    return tuple(replace(plan, accountant=accountant) for plan in plans)


def dpsgd_rounds(num_train: int, batch_size: int, epochs: int) -> tuple[float, int]:
    """Sampling rate and number of rounds of one DP-SGD phase.

    q = min(B, N) / N and steps = floor(epochs · N / B), the number that the published GAP and
    ProGAP code accounts (it takes floor(N / B) steps per epoch, which is no more). The training
    loop here runs exactly `steps` rounds. A batch larger than the training set counts as the
    training set, so every epoch has at least one step.

    Returns (sampling_rate in (0, 1], steps ≥ 0); steps = 0 only when epochs = 0.
    Raises GraphDPError unless num_train and batch_size are at least 1 and epochs at least 0.
    """
    for name, value, least in (
        ("num_train", num_train, 1),
        ("batch_size", batch_size, 1),
        ("epochs", epochs, 0),
    ):
        require(
            is_count(value) and value >= least,
            f"{name} is {value!r}; give a whole number of at least {least}",
        )
    batch_size = min(batch_size, num_train)
    return batch_size / num_train, epochs * num_train // batch_size
