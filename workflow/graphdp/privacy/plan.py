"""Plans: what a method will release about the private data, with one free noise multiplier.

A plan is written down before anything is trained. Calibration, the privacy statement, the audit
and the training loop all read the same plan, so they cannot disagree: the loop executes exactly
the releases and steps that the plan holds.

Every mechanism's noise is `noise_multiplier` times its own sensitivity, with one multiplier for
the whole plan (GAP, section 7.3, "Privacy accounting and calibration": "we use the same noise
scale for perturbing the gradients (in DP-SGD) and the aggregations"). For releases with pure ε it
is 1 / ε, which is what a Laplace mechanism's scale is in units of its sensitivity.
"""

import math
import re
from collections import Counter
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar

from graphdp.errors import GraphDPError

#: "k5" (any number) protects a node's features and label, and 5 of its neighbours.
LEVELS = ("none", "edge", "node", "k<number>")
BASES = ("as_published", "as_implemented", "corrected")
STATUSES = ("proven", "conditional", "refuted")
#: Who differs between two adjacent graphs; `k_neighbor(k)` stands for every k ≥ 0.
ADJACENCIES = (
    "edge_directed",
    "edge_undirected",
    "node_add_remove",
    "node_replace",
    "participant",
    "k_neighbor(k)",
)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise GraphDPError(message)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _one_of(what: str, value: object, choices: tuple[str, ...]) -> None:
    _require(value in choices, f"{what} is {value!r}; choose one of {', '.join(choices)}")


def is_adjacency(value: object) -> bool:
    """Whether `value` names an adjacency of the project's vocabulary (`ADJACENCIES`)."""
    return isinstance(value, str) and (
        value in ADJACENCIES[:-1] or re.fullmatch(r"k_neighbor\(\d+\)", value) is not None
    )


def neighbors(level: str) -> int | None:
    """The k of a k-neighbour level ("k5" gives 5); None at every other level."""
    found = re.fullmatch(r"k(\d+)", level) if isinstance(level, str) else None
    return None if found is None else int(found[1])


def level_kind(level: str) -> str:
    """The kind of a level: "none", "edge", "node", or "k" for every k-neighbour level."""
    return level if neighbors(level) is None else "k"


def protected_units(adjacency: str, edges: int, train_nodes: int, nodes: int) -> int:
    """How many units an adjacency protects: δ has to lie below one over their number.

    Entries of the adjacency matrix (`edges`) at edge level. Training nodes for node_add_remove and
    participant, as GAP and ProGAP count ("auto" in their code). All nodes for node_replace and
    k_neighbor(k), as DPDGC counts (section 6: below 1/#edges or 1/#nodes): nodes without a training
    label are protected as well, and with 2.5 % of labels there are 40 times as many.
    """
    if adjacency.startswith("edge"):
        return edges
    return train_nodes if adjacency in ("node_add_remove", "participant") else nodes


def check_level(what: str, level: str) -> None:
    """GraphDPError unless `level` is one of `LEVELS`."""
    _require(
        level in LEVELS[:-1] or neighbors(level) is not None,
        f"{what} is {level!r}; choose one of {', '.join(LEVELS)}",
    )


@dataclass(frozen=True)
class Sensitivity:
    """An L2 sensitivity with the reason why it holds.

    value: the bound, finite and ≥ 0 (units of the query; 0 means the query reads no private data).
    formula: the bound as text, e.g. "sqrt(max_degree)".
    source: where it is proven: paper, theorem, page or equation.
    """

    value: float
    formula: str
    source: str

    def __post_init__(self) -> None:
        _require(
            _is_finite(self.value) and self.value >= 0,
            f"sensitivity is {self.value!r}; give a finite number of at least 0",
        )
        _require(
            bool(self.formula and self.source),
            "a sensitivity needs its formula and its source; give both as text",
        )
        # 1 and 1.0 are one sensitivity and must serialise alike.
        object.__setattr__(self, "value", float(self.value))


@dataclass(frozen=True)
class GaussianReleases:
    """`count` adaptive Gaussian releases of queries with one L2 sensitivity.

    The noise of each has standard deviation noise_multiplier × sensitivity.value per coordinate,
    so each release alone is μ-GDP with μ = 1 / noise_multiplier.
    """

    kind: ClassVar[str] = "gaussian"

    query: str
    sensitivity: Sensitivity
    count: int
    phase: str

    def __post_init__(self) -> None:
        _require(
            _is_count(self.count),
            f"{self.query}: count is {self.count!r}; give a whole number of at least 0",
        )

    @property
    def releases_nothing(self) -> bool:
        """True when no private data enters any output."""
        return self.count == 0 or self.sensitivity.value == 0


def _check_rounds(mechanism: Any) -> None:
    """Refuse a sampled phase without a rate, a number of steps or a clip; the rate as a float."""
    query, rate, steps = mechanism.query, mechanism.sampling_rate, mechanism.steps
    _require(
        _is_finite(rate) and 0 < rate <= 1,
        f"{query}: sampling rate is {rate!r}; it must lie in (0, 1]",
    )
    _require(_is_count(steps), f"{query}: steps is {steps!r}; give a whole number of at least 0")
    _require(
        mechanism.max_grad_norm.value > 0,
        f"{query}: max_grad_norm is {mechanism.max_grad_norm.value}; it must be above 0",
    )
    object.__setattr__(mechanism, "sampling_rate", float(rate))


@dataclass(frozen=True)
class PoissonDPSGD:
    """DP-SGD or DP-Adam: `steps` noisy sums of clipped gradients over Poisson samples.

    Every step draws each record independently with probability `sampling_rate` and adds noise of
    standard deviation noise_multiplier × max_grad_norm.value to the sum of the per-record
    gradients, each clipped to L2 norm max_grad_norm.value (Abadi et al. 2016, Algorithm 1).
    """

    kind: ClassVar[str] = "poisson_dpsgd"

    query: str
    sampling_rate: float
    steps: int
    max_grad_norm: Sensitivity
    phase: str

    def __post_init__(self) -> None:
        _check_rounds(self)

    @property
    def releases_nothing(self) -> bool:
        """True when no private data enters any output."""
        return self.steps == 0


@dataclass(frozen=True)
class PoissonGroupDPSGD:
    """DP-SGD or DP-Adam over Poisson samples when up to `group_size` records are replaced at once.

    As `PoissonDPSGD`, but between two adjacent data sets the same `group_size` records may all have
    other contents. Every record keeps its own independent coin, so how many of the group are in a
    batch is binomial. `graphdp.privacy.group` holds the lemma by which this is accounted; the
    guarantee is that of replacement, not of adding or removing.

    max_grad_norm: C, the clip of one record's gradient. noise_per_clip: the noise on the sum has
    standard deviation noise_multiplier × noise_per_clip × max_grad_norm.value. Any value above 0 is
    accounted exactly; it shares the privacy loss between this phase and the plan's others.
    """

    kind: ClassVar[str] = "poisson_group_dpsgd"

    query: str
    sampling_rate: float
    steps: int
    group_size: int
    max_grad_norm: Sensitivity
    noise_per_clip: float
    phase: str

    def __post_init__(self) -> None:
        _check_rounds(self)
        _require(
            _is_count(self.group_size) and self.group_size >= 1,
            f"{self.query}: group_size is {self.group_size!r}; give a whole number of at least 1",
        )
        _require(
            _is_finite(self.noise_per_clip) and self.noise_per_clip > 0,
            f"{self.query}: noise_per_clip is {self.noise_per_clip!r}; it must be above 0",
        )
        object.__setattr__(self, "noise_per_clip", float(self.noise_per_clip))

    @property
    def releases_nothing(self) -> bool:
        """True when no private data enters any output."""
        return self.steps == 0


@dataclass(frozen=True)
class WithoutReplacementDPSGD:
    """DP-SGD or DP-Adam over samples of a fixed size without replacement, one record replaced.

    Noise of standard deviation noise_multiplier × max_grad_norm.value; max_grad_norm.value is what
    the sum is *taken* to move by, 2C for one replaced record.
    """

    kind: ClassVar[str] = "without_replacement_dpsgd"

    query: str
    sampling_rate: float
    steps: int
    max_grad_norm: Sensitivity
    phase: str

    def __post_init__(self) -> None:
        _check_rounds(self)

    @property
    def releases_nothing(self) -> bool:
        """True when no private data enters any output."""
        return self.steps == 0


@dataclass(frozen=True)
class FixedSizeDPSGD:
    """DP-SGD over fixed-size samples in which a protected unit moves up to `group` records.

    Every step draws `batch_size` of `population` records uniformly without replacement,
    independently of the other steps, and adds noise of standard deviation noise_multiplier ×
    max_grad_norm.value to the sum of the per-record gradients, each clipped to L2 norm C. At most
    `group` records differ between adjacent data, each by a gradient of norm 2C at most, so
    max_grad_norm.value = 2 · group · C bounds the sum's move when all of them are drawn.

    A step's Rényi DP at order α (Daigavane et al. 2021) has ρ of them, in expectation
    over ρ ~ Hypergeometric(population, group, batch_size):
    ln E[exp(α(α - 1) ρ² / (2 group² noise_multiplier²))] / (α - 1).
    """

    kind: ClassVar[str] = "fixed_size_dpsgd"

    query: str
    population: int
    batch_size: int
    group: int
    steps: int
    max_grad_norm: Sensitivity
    phase: str

    def __post_init__(self) -> None:
        for name, least, most in (
            ("population", 1, math.inf),
            ("batch_size", 1, self.population),
            ("group", 1, math.inf),
            ("steps", 0, math.inf),
        ):
            value = getattr(self, name)
            _require(
                _is_count(value) and least <= value <= most,
                f"{self.query}: {name} is {value!r}; it must lie in [{least}, {most}]",
            )
        _require(
            self.max_grad_norm.value > 0,
            f"{self.query}: max_grad_norm is {self.max_grad_norm.value}; it must be above 0",
        )

    @property
    def sampling(self) -> tuple[int, int, int]:
        """What one step's Rényi DP depends on: population, batch size, and how many can differ."""
        return self.population, self.batch_size, min(self.group, self.population)

    @property
    def releases_nothing(self) -> bool:
        """True when no private data enters any output."""
        return self.steps == 0


@dataclass(frozen=True)
class PureRelease:
    """A release with pure ε-DP: ε = share / noise_multiplier, at δ = 0.

    A Laplace mechanism has noise of scale noise_multiplier × sensitivity.value / share; randomised
    response has the ε itself. With sensitivity.value the L1 sensitivity, or the number of answers
    that differ, an analysis in which it is k times as large reads k times the ε. The shares of a
    plan's releases add up to 1, so that noise_multiplier = 1 / ε.
    """

    kind: ClassVar[str] = "pure"

    query: str
    sensitivity: Sensitivity
    share: float
    phase: str

    def __post_init__(self) -> None:
        _require(
            _is_finite(self.share) and 0 < self.share <= 1,
            f"{self.query}: share of ε is {self.share!r}; it must lie in (0, 1]",
        )
        object.__setattr__(self, "share", float(self.share))

    @property
    def releases_nothing(self) -> bool:
        """True when no private data enters any output."""
        return self.sensitivity.value == 0


@dataclass(frozen=True)
class UnnoisedRelease:
    """A release of private data without noise: ε = ∞ whatever the noise multiplier.

    It stands in the plan of a method that is not private (level "none"), so that such a plan can
    not be mistaken for one that releases nothing.
    """

    kind: ClassVar[str] = "unnoised"

    query: str
    phase: str

    @property
    def releases_nothing(self) -> bool:
        """Always False."""
        return False


Mechanism = (
    GaussianReleases
    | PoissonDPSGD
    | PoissonGroupDPSGD
    | FixedSizeDPSGD
    | WithoutReplacementDPSGD
    | PureRelease
    | UnnoisedRelease
)
_KINDS: dict[str, type] = {cls.kind: cls for cls in Mechanism.__args__}


@dataclass(frozen=True)
class Composition:
    """A plan reduced to what determines its ε: the order and the names of mechanisms do not.

    gaussian: number of unsampled Gaussian releases (DP-SGD steps at sampling rate 1 included).
    sampled: sorted (sampling_rate, steps) pairs of Poisson-subsampled Gaussians, rates below 1.
    unnoised: whether something is released without noise.
    fixed_size: sorted (`FixedSizeDPSGD.sampling`, steps) pairs.
    pure: sum of the shares of releases with pure ε, whose ε is pure / noise multiplier.
    grouped: sorted (sampling_rate, group_size, noise_per_clip, steps) of `PoissonGroupDPSGD`.
    fixed: sorted (sampling_rate, steps) of `WithoutReplacementDPSGD`.
    """

    gaussian: int
    sampled: tuple[tuple[float, int], ...]
    unnoised: bool
    fixed_size: tuple[tuple[tuple[int, int, int], int], ...] = ()
    pure: float = 0.0
    grouped: tuple[tuple[float, int, float, int], ...] = ()
    fixed: tuple[tuple[float, int], ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is released, that is ε = 0 exactly."""
        return not (
            self.gaussian
            or self.sampled
            or self.unnoised
            or self.fixed_size
            or self.pure
            or self.grouped
            or self.fixed
        )

    @property
    def is_pure(self) -> bool:
        """Whether all there is are releases with pure ε, whose ε add up."""
        return self.pure > 0 and not self.gaussian and replace(self, pure=0.0).is_gaussian

    @property
    def is_gaussian(self) -> bool:
        """Whether all there is are Gaussian releases, which compose exactly (or nothing)."""
        return not (
            self.sampled
            or self.unnoised
            or self.fixed_size
            or self.pure
            or self.grouped
            or self.fixed
        )


@dataclass(frozen=True)
class Plan:
    """Everything that one trained model releases about the private data. Hashable.

    method: the method's name, e.g. "gap".
    level: "none", "edge", "node", or "k<number>" for so many neighbours.
    adjacency: one of `ADJACENCIES`; "" at level "none".
    basis: whose analysis this is, one of `BASES`.
    status: "proven", "conditional" (holds under `assumptions`) or "refuted" (a counterexample
        exists: an ε of this plan is a claim, not a guarantee); "" at level "none".
    assumptions: what the analysis takes for granted, one sentence each.
    own_row_covered: whether the protected node's own row of a released matrix is covered; None
        where the question does not arise (no matrix is released, or an edge is protected).
    mechanisms: what is released, in order.

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

    def __post_init__(self) -> None:
        object.__setattr__(self, "assumptions", tuple(self.assumptions))
        object.__setattr__(self, "mechanisms", tuple(self.mechanisms))
        _require(bool(self.method), "the plan has no method; give the method's name")
        check_level("level", self.level)
        _one_of("basis", self.basis, BASES)
        if self.level == "none":
            _require(
                self.adjacency == "" and self.status == "",
                "level none promises nothing; leave adjacency and status empty",
            )
        else:
            _require(
                is_adjacency(self.adjacency),
                f"adjacency is {self.adjacency!r}; choose one of {', '.join(ADJACENCIES)}",
            )
            _one_of("status", self.status, STATUSES)
            _require(
                self.status != "conditional" or bool(self.assumptions),
                "status is conditional but no assumption is given; name the conditions",
            )
        _require(
            self.own_row_covered in (True, False, None),
            f"own_row_covered is {self.own_row_covered!r}; give true, false or null",
        )
        for mechanism in self.mechanisms:
            _require(
                isinstance(mechanism, Mechanism),
                f"{mechanism!r} is no mechanism; use {', '.join(_KINDS)}",
            )

    @property
    def composition(self) -> Composition:
        """The plan's mechanisms, reduced to what determines ε."""
        gaussian = 0
        sampled: Counter[float] = Counter()
        fixed_size: Counter[tuple[int, int, int]] = Counter()
        pure = 0.0
        grouped: Counter[tuple[float, int, float]] = Counter()
        fixed: Counter[float] = Counter()
        unnoised = False
        for mechanism in self.mechanisms:
            match mechanism:
                case _ if mechanism.releases_nothing:
                    pass
                case GaussianReleases():
                    gaussian += mechanism.count
                # Sampling everyone is no sampling: the step is a plain Gaussian release.
                case PoissonDPSGD(sampling_rate=1.0) | WithoutReplacementDPSGD(sampling_rate=1.0):
                    gaussian += mechanism.steps
                case PoissonDPSGD():
                    sampled[mechanism.sampling_rate] += mechanism.steps
                case FixedSizeDPSGD():
                    fixed_size[mechanism.sampling] += mechanism.steps
                case PureRelease():
                    pure += mechanism.share
                case PoissonGroupDPSGD():
                    records = mechanism.group_size, mechanism.noise_per_clip
                    grouped[mechanism.sampling_rate, *records] += mechanism.steps
                case WithoutReplacementDPSGD():
                    fixed[mechanism.sampling_rate] += mechanism.steps
                case UnnoisedRelease():
                    unnoised = True
        return Composition(
            gaussian,
            tuple(sorted(sampled.items())),
            unnoised,
            tuple(sorted(fixed_size.items())),
            pure,
            tuple((*sort, steps) for sort, steps in sorted(grouped.items())),
            tuple(sorted(fixed.items())),
        )

    def to_dict(self) -> dict[str, Any]:
        """A JSON object; `Plan.from_dict` gives back an equal plan."""
        value = asdict(self) | {"assumptions": list(self.assumptions)}
        value["mechanisms"] = [{"kind": m.kind} | asdict(m) for m in self.mechanisms]
        return value

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> "Plan":
        """The plan that `to_dict` wrote. Raises GraphDPError on unknown or missing keys."""
        mechanisms = tuple(_mechanism_from_dict(item) for item in value.get("mechanisms", ()))
        return _build(cls, value | {"mechanisms": mechanisms})


def _build(cls: type, value: dict[str, Any]) -> Any:
    """`cls(**value)` after checking that the keys are exactly its fields."""
    names = {field.name for field in fields(cls)}
    for problem, keys in (("unknown", value.keys() - names), ("missing", names - value.keys())):
        _require(not keys, f"{cls.__name__}: {problem} key {', '.join(sorted(keys))}")
    return cls(**value)


def _mechanism_from_dict(value: dict[str, Any]) -> Mechanism:
    value = dict(value)
    kind = value.pop("kind", None)
    _one_of("kind of mechanism", kind, tuple(_KINDS))
    for key in ("sensitivity", "max_grad_norm"):
        if key in value:
            value[key] = _build(Sensitivity, value[key])
    return _build(_KINDS[kind], value)


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
        _require(
            _is_count(value) and value >= least,
            f"{name} is {value!r}; give a whole number of at least {least}",
        )
    batch_size = min(batch_size, num_train)
    return batch_size / num_train, epochs * num_train // batch_size
