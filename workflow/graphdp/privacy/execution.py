"""What a training loop or a release does with noise: as a plan says it, and as it was done.

A plan's mechanism says how its phase is run (`Mechanism.execution`); the loop reads that and
nothing else, and writes down what it did in the same terms. A row exists only if the two are equal.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from graphdp.errors import GraphDPError
from graphdp.noise import MOST_DRAWS

if TYPE_CHECKING:  # every start of Snakemake reads this module
    import numpy as np


@dataclass(frozen=True)
class Execution:
    """How a phase is, or was, run. Frozen and comparable; floats are compared exactly.

    sampling: "poisson", "fixed" (without replacement) or "partition" (of a shuffled epoch) for the
        rounds of DP-SGD, "none" for releases of whole queries.
    count: noisy rounds, or releases.
    noise_std: σ of the Gaussian noise on a round's sum of clipped gradients, or on a release, per
        coordinate; None for answers.
    sampling_rate: chance of a node to be in a sample, or the share that is drawn. max_grad_norm: C,
        the L2 clip of a record's gradient. batch_size: what a noisy sum is divided by. None for
        releases.
    sensitivity: L2 sensitivity that σ is set for; None for rounds.
    answer_epsilon: pure ε with which an answer is randomised, of releases that are answers; None
        for noise of a scale.
    records: what a record of a round is and how it is drawn, in words, where it is more than one
        node; "" else. noise: "gaussian", or another shape's name.
    draws: Gaussian numbers that were drawn, one per coordinate of what was noised; 0 in a plan,
        which does not know, and not compared.
    """

    sampling: str
    count: int
    noise_std: float | None
    sampling_rate: float | None = None
    max_grad_norm: float | None = None
    batch_size: int | None = None
    sensitivity: float | None = None
    answer_epsilon: float | None = None
    records: str = ""
    noise: str = "gaussian"
    draws: int = field(default=0, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """A JSON object; `Execution(**value)` gives back an equal one."""
        return asdict(self)


def answered(epsilon: float) -> Execution:
    """One release of answers, each randomised with a pure ε."""
    return Execution("none", 1, None, answer_epsilon=epsilon, noise="coins")


#: How the fields are called in a message, with the unit.
_WORDS = {
    "sampling": "sampling",
    "count": "noisy rounds or releases",
    "noise_std": "noise std",
    "sampling_rate": "sampling rate",
    "max_grad_norm": "clip norm",
    "batch_size": "batch divisor",
    "sensitivity": "sensitivity",
    "answer_epsilon": "ε of an answer",
    "records": "records",
    "noise": "noise",
}


def check(planned: Mapping[str, Execution], executed: Mapping[str, Execution]) -> None:
    """Refuse a model for which other noise was drawn than its plan accounts.

    planned, executed: phase -> how it is to be run, and how it was. Raises `GraphDPError` naming
    the phase, all that differs and both values, and for more draws in all than the generator is
    analysed for.
    """
    for phase in dict.fromkeys([*planned, *executed]):
        plan, done = planned.get(phase), executed.get(phase)
        if plan == done:
            continue
        if plan is None or done is None:
            some, none = ("run", "planned") if plan is None else ("planned", "run")
            raise GraphDPError(
                f"{phase}: noise is {some} but none was {none}; the ε of this model does not hold"
            )
        differ = [
            f"{_WORDS[one.name]} {getattr(plan, one.name)} but it was {getattr(done, one.name)}"
            for one in fields(Execution)
            if one.compare and getattr(plan, one.name) != getattr(done, one.name)
        ]
        raise GraphDPError(
            f"{phase}: the plan accounts {', '.join(differ)}; the ε of this model does not hold"
        )
    draws = sum(one.draws for one in executed.values())
    if draws > MOST_DRAWS:
        raise GraphDPError(
            f"the model took {draws} Gaussian numbers, and how far they are from ideal ones is "
            f"known for up to {MOST_DRAWS}: take fewer rounds or a smaller network"
        )


def together(releases: list[Execution]) -> Execution:
    """Several releases of one phase as one. Raises `GraphDPError` if they differ in anything but
    how many they are, or if there are none."""
    if not releases:
        raise GraphDPError("no release was made where the plan has some")
    first = releases[0]
    differ = [
        f"{_WORDS[one.name]} {sorted({str(getattr(release, one.name)) for release in releases})}"
        for one in fields(Execution)
        if one.compare
        and one.name != "count"
        and any(getattr(release, one.name) != getattr(first, one.name) for release in releases)
    ]
    if differ:
        raise GraphDPError(f"releases of one phase differ: {', '.join(differ)}")
    count = sum(one.count for one in releases)
    return replace(first, count=count, draws=sum(one.draws for one in releases))


def packed(name: str, executed: Mapping[str, Execution]) -> dict[str, "np.ndarray"]:
    """What was executed for a result called `name`, as an array to keep beside it, if anything."""
    import numpy as np

    text = json.dumps({phase: one.to_dict() for phase, one in executed.items()}, sort_keys=True)
    return {f"{name} executed": np.array(text)} if executed else {}


def unpacked(arrays: Mapping[str, "np.ndarray"], name: str) -> dict[str, Execution]:
    """What `packed` kept; {} if there is nothing."""
    text = arrays.get(f"{name} executed")
    found = {} if text is None else json.loads(str(text))
    return {phase: Execution(**one) for phase, one in found.items()}
