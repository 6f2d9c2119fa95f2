"""What the kinds of mechanism share: checks, sensitivities, and what every kind has to answer."""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

from graphdp.errors import GraphDPError
from graphdp.privacy.execution import Execution

#: A function of the Rényi order.
Curve = Callable[[float], float]


def require(condition: bool, message: str) -> None:
    """GraphDPError with `message` unless the condition holds."""
    if not condition:
        raise GraphDPError(message)


def is_count(value: object) -> bool:
    """Whether `value` is a whole number of at least 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_finite(value: object) -> bool:
    """Whether `value` is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


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
        require(
            is_finite(self.value) and self.value >= 0,
            f"sensitivity is {self.value!r}; give a finite number of at least 0",
        )
        require(
            bool(self.formula and self.source),
            "a sensitivity needs its formula and its source; give both as text",
        )
        # 1 and 1.0 are one sensitivity and must serialise alike.
        object.__setattr__(self, "value", float(self.value))


class Output(NamedTuple):
    """What a mechanism publishes besides the model.

    what: its name in a statement. rows: whether it has a row for every node, so that the protected
    node's own row is a question of its own.
    """

    what: str
    rows: bool


class Term:
    """What of one or more mechanisms determines ε, and how the accountants read it.

    Subclasses are frozen dataclasses. Terms of one class merge into one (`plus`), so that neither
    the order nor the names of a plan's mechanisms matter. A term answers for the accountants that
    it names, with `noise`, the noise multiplier, finite and above 0:

    - "autodp" and "autodp_rdp": `log_moment`, or where that is None `rdp`.
    - "renyi": `renyi`.
    - "dp_accounting": `events`.
    - "pld": `events` if all terms of a plan have them, otherwise `loss_distributions`.
    - "mixture": `mean_square` and `squares`.
    - "published": `renyi`, at its own `orders`.
    """

    #: Its place among the terms of a plan. Sums and convolutions run in this order, and their
    #: rounding depends on it.
    place: ClassVar[int]
    #: What it is, for a message that some accountant does not know it.
    what: ClassVar[str]
    #: The accountants that know it, by the names of `graphdp.privacy.accounting`. "exact" is not
    #: named: it follows from `gaussian_count` and `pure_share`.
    accountants: ClassVar[tuple[str, ...]] = ()
    #: The neighbouring relation under which its accounting holds, by dp-accounting's names in small
    #: letters, or "" if it is the same under all.
    relation: ClassVar[str] = ""
    #: How its primary accountant composes it, in words; "" if there is nothing to add.
    method: ClassVar[str] = ""
    #: The same of privacy loss distributions, where they are asked for and not primary as it is.
    method_by_pld: ClassVar[str] = ""
    #: Whether its privacy losses are those of two worlds that it can be in: what an audit finds for
    #: one noise then holds for its ε at that noise. Else they bound them.
    tight: ClassVar[bool] = True
    #: Factor by which calibration moves the noise until it brackets the root.
    stride: ClassVar[float] = 4.0
    #: So many unsampled Gaussian releases it is exactly; None if it is something else.
    gaussian_count: ClassVar[int | None] = None
    #: Where its ε holds at δ = 0 and is `pure_share` / noise + `least_epsilon`; else None.
    pure_share: ClassVar[float | None] = None
    #: Where that is a published claim: δ of each of its releases, which its noise is set for
    #: whatever δ is asked for; else none.
    claimed_deltas: ClassVar[tuple[float, ...]] = ()
    #: The ε that is left however much noise there is.
    least_epsilon: ClassVar[float] = 0.0
    #: Chance, in all its steps together and in any two adjacent worlds alike, of what `renyi` does
    #: not follow; where an ε rests on it, it is charged to δ.
    unfollowed: ClassVar[float] = 0.0
    #: The increasing Rényi orders at which a published claim is read.
    orders: ClassVar[tuple[float, ...]] = ()

    @property
    def sketch(self) -> "Term":
        """A term that is quicker to read, with an ε of at most this one's and near it."""
        return self

    @property
    def replacing(self) -> "Term":
        """The term for a replaced record, where its own is for one that is added or removed and the
        noise is a multiple of what a replaced one moves; itself where it holds for both."""
        return self

    def plus(self, other: Self) -> Self:
        """Both terms as one."""
        raise NotImplementedError

    def log_moment(self, noise: float) -> Curve | None:
        """(α - 1) times the Rényi divergence of order α."""
        return None

    def rdp(self, noise: float) -> Curve:
        """The Rényi divergence of order α, as "autodp" reads it."""
        return self.renyi(noise)

    def renyi(self, noise: float) -> Curve:
        """The Rényi divergence of order α, without a library."""
        raise NotImplementedError

    def events(self, noise: float) -> list[tuple[Any, int]]:
        """dp-accounting's events, each with how often it happens."""
        raise NotImplementedError

    def loss_distributions(
        self, noise: float, interval: float, pessimistic: bool = True
    ) -> list[tuple[Any, int]]:
        """`PrivacyLossDistribution`s, each with how often it is composed.

        interval: width of their grid of losses, to which losses are rounded up if `pessimistic` (as
        accounting needs it), and down if not (as a lower bound on ε does).
        """
        raise NotImplementedError

    def mean_square(self, noise: float) -> float:
        """x times the chance that the sum of squared shifts is above x, as x grows."""
        raise NotImplementedError

    def squares(self, noise: float, width: float) -> list[tuple[Any, int]]:
        """Laws of squared shifts of Gaussians, in units of their noise, each with how often it
        happens: chances of 0, width, 2 width, ..., rounded up; what is missing lies beyond."""
        raise NotImplementedError


@dataclass(frozen=True)
class Steps(Term):
    """A term of sampled steps: sorted ((parameters of a step), number of such steps) pairs."""

    steps: tuple[tuple[Any, int], ...]

    def plus(self, other: Self) -> Self:
        """Both terms as one: steps with equal parameters are counted together."""
        total: Counter[Any] = Counter()
        for step, count in (*self.steps, *other.steps):
            total[step] += count
        return replace(self, steps=tuple(sorted(total.items())))


class Mechanism(ABC):
    """One thing that a plan releases. Subclasses are frozen dataclasses with at least these fields.

    query: what is released, in words. phase: the part of the method that releases it; analyses of
    the same releases are matched by it.
    """

    kind: ClassVar[str]
    #: What it publishes besides the model.
    publishes: ClassVar[Output | None] = None
    #: What a prediction reads, where this mechanism decides it.
    inference: ClassVar[str] = ""
    #: The same where the plan releases no noisy aggregate for predictions; "" if it needs none.
    exact_inference: ClassVar[str] = ""
    #: Why no ε covers all predictions, where it is not the queried node's own row alone.
    unnoised_reads: ClassVar[str] = ""

    query: str
    phase: str

    @property
    @abstractmethod
    def releases_nothing(self) -> bool:
        """True when no private data enters any output."""

    @property
    def noise_unit(self) -> float | None:
        """Standard deviation of its Gaussian noise per noise multiplier; None if it has none."""
        return None

    def noise_std(self, noise_multiplier: float) -> float | None:
        """Standard deviation of its Gaussian noise; None if it has none."""
        return None if self.noise_unit is None else noise_multiplier * self.noise_unit

    def noise_levels(self, noise_multiplier: float) -> dict[str, float]:
        """The deviations of its Gaussian noise by name, if it has any: σ, and who draws what."""
        std = self.noise_std(noise_multiplier)
        return {} if std is None else {"noise_std": std}

    def execution(
        self, noise_multiplier: float, num_train: int, max_grad_norm: float | None
    ) -> Execution | None:
        """How a loop has to run it, and what it then writes down; None without Gaussian noise.

        num_train: number of training nodes. max_grad_norm: C, as the plan's settings have it, for
        mechanisms whose sensitivity alone does not tell it.
        """
        return None

    def drawn_epsilon(self, noise_multiplier: float) -> float:
        """What its noise as drawn adds to ε where `graphdp.noise.as_drawn` does not hold for it."""
        return 0.0

    def drawn_delta(self, epsilon: float) -> float:
        """As `drawn_epsilon`, what it adds to δ at an ε."""
        return 0.0

    @property
    def scale_unit(self) -> float | None:
        """What its noise, of whatever shape, is a multiple of; None without noise to be set.

        At one noise, the multiplier under another analysis is as many times larger as this is
        smaller there.
        """
        return self.noise_unit

    def own_epsilon(self, noise_multiplier: float) -> float | None:
        """The pure ε with which one answer is perturbed; None for other mechanisms."""
        return None

    def answering(self, noise_multiplier: float) -> Execution | None:
        """How its answers have to be randomised, and what is then written down; None where it has
        no answers of an ε that the plan sets."""
        return None

    @abstractmethod
    def terms(self) -> tuple[Term, ...]:
        """What of it determines ε. Only asked if it releases something."""

    @abstractmethod
    def statement_entry(self, noise_multiplier: float | None) -> dict[str, Any]:
        """The fields of `statement_form.MechanismEntry`.

        noise_multiplier: the plan's; 0 without noise, None where the plan releases nothing.
        """

    def _entry(self, bound: Sensitivity | None, norm: str, **more: Any) -> dict[str, Any]:
        """The entry of one unsampled release; `more` adds to it and overrides it."""
        return {
            "kind": self.kind,
            "query": self.query,
            "phase": self.phase,
            "norm": norm,
            "sensitivity": None if bound is None else bound.value,
            "formula": "" if bound is None else bound.formula,
            "source": "" if bound is None else bound.source,
            "count": 1,
            "sampling": "none",
            "sampling_rate": None,
        } | more

    def _gaussian_entry(
        self, bound: Sensitivity, noise_multiplier: float | None, **more: Any
    ) -> dict[str, Any]:
        """As `_entry`, with Gaussian noise of `noise_multiplier` times the bound."""
        std = None if noise_multiplier is None else noise_multiplier * bound.value
        return self._entry(bound, "L2", noise_multiplier=noise_multiplier, noise_std=std, **more)


class NoisySums(Mechanism):
    """`steps` noisy sums of clipped gradients: what all kinds of DP-SGD have in common."""

    steps: int
    max_grad_norm: Sensitivity

    @property
    def releases_nothing(self) -> bool:
        """True when no private data enters any output."""
        return self.steps == 0

    @property
    def noise_unit(self) -> float:
        """What the sum is taken to move by: the clip, where one record is added or removed."""
        return self.max_grad_norm.value


class SubGraphSums(NoisySums):
    """What rounds over sub-graphs have in common, whatever their noise.

    Fields besides those of `NoisySums`: sampling_rate (q), batch_size (the fixed divisor),
    num_neighbors (M), overlap (what is done with peripherals that are centres), most_lists.
    """

    #: Of its noise: "gaussian" or another shape's name, and its words in a statement.
    noise: ClassVar[str]
    noise_words: ClassVar[str]
    inference: ClassVar[str] = (
        "Transductive and inductive alike: a prediction for a node that did not train reads its "
        "features and those of some of its neighbours that did not train either, without noise, "
        "and no training node. So the ε of training nodes covers it, as post-processing of the "
        "weights; that of nodes without a training label does not. One for a training node reads "
        "other training nodes without noise, which no ε covers."
    )
    unnoised_reads: ClassVar[str] = (
        "A prediction reads features of neighbours without noise; see inference for whose."
    )

    sampling_rate: float
    batch_size: int
    num_neighbors: int
    overlap: str
    most_lists: int

    @property
    def rounds(self) -> int:
        """How many rounds are run."""
        return self.steps

    def execution(
        self, noise_multiplier: float, num_train: int, max_grad_norm: float | None
    ) -> Execution:
        """Poisson rounds of sub-graphs, each gradient clipped to C/2, divided by `batch_size`; the
        authors' code divides by what was drawn."""
        return Execution(
            "poisson",
            self.rounds,
            self.noise_std(noise_multiplier),
            self.sampling_rate,
            self.max_grad_norm.value / 2,
            None if self.overlap == "official" else self.batch_size,
            records=f"sub-graphs of {self.num_neighbors} neighbours, overlap {self.overlap}",
            noise=self.noise,
        )

    def statement_entry(self, noise_multiplier: float | None) -> dict[str, Any]:
        """As the base class says."""
        return self._gaussian_entry(
            self.max_grad_norm,
            noise_multiplier,
            query=f"{self.query}{self.noise_words}",
            count=self.steps,
            sampling="poisson",
            sampling_rate=self.sampling_rate,
        )


def check_rounds(mechanism: Any) -> None:
    """Refuse a sampled phase without a rate, a number of steps or a clip; the rate as a float."""
    query, rate, steps = mechanism.query, mechanism.sampling_rate, mechanism.steps
    require(
        is_finite(rate) and 0 < rate <= 1,
        f"{query}: sampling rate is {rate!r}; it must lie in (0, 1]",
    )
    require(is_count(steps), f"{query}: steps is {steps!r}; give a whole number of at least 0")
    check_clip(mechanism)
    object.__setattr__(mechanism, "sampling_rate", float(rate))


def check_clip(mechanism: Any) -> None:
    """Refuse a phase of DP-SGD whose gradients are not clipped."""
    require(
        mechanism.max_grad_norm.value > 0,
        f"{mechanism.query}: max_grad_norm is {mechanism.max_grad_norm.value}; it must be above 0",
    )


def check_sub_graphs(mechanism: Any) -> None:
    """`check_rounds`, and refuse counts that are none."""
    check_rounds(mechanism)
    for name in ("batch_size", "num_neighbors", "most_lists"):
        value = getattr(mechanism, name)
        require(
            is_count(value), f"{mechanism.query}: {name} is {value!r}; give a whole number, 0 or up"
        )
