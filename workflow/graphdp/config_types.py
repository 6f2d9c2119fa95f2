"""The types of a configuration's values: names, ε and δ, lists, shares.

Nothing here imports torch: every start of Snakemake reads this module.
"""

import math
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from graphdp.config_errors import short
from graphdp.privacy.protection import (
    AT_MOST,
    LEAST_DELTA,
    LEAST_EPSILON,
    MOST_EPSILON,
    TRAIN_POWER,
)


def _epsilon_token(value: Any) -> str:
    """ε as the token that names files and rows: "inf", "0.5", "1"; equal values, equal tokens."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"ε must be a number or inf, not {short(value)}") from None
    if math.isnan(number) or number < 0:
        raise ValueError(f"ε must be at least 0, not {value!r}")
    token = f"{number:g}"
    if float(token) != number:
        raise ValueError(f"ε may have six digits, not {value!r}; give {token}")
    return token


def _positive(token: str) -> str:
    if not LEAST_EPSILON <= float(token) <= MOST_EPSILON:
        raise ValueError(
            f"a finite ε from {LEAST_EPSILON:g} to {MOST_EPSILON:g} is needed here, not {token}"
        )
    return token


def delta_choice(value: float | str) -> float | str:
    if value in ("auto", TRAIN_POWER):
        return value
    text = str(value)
    try:
        number = float(text.removeprefix(AT_MOST))
    except ValueError:
        number = math.nan
    if not LEAST_DELTA <= number < 1:
        what = (
            f"auto, {TRAIN_POWER}, {AT_MOST}1e-5 or a number of at least {LEAST_DELTA} and below 1"
        )
        raise ValueError(f"must be {what}, not {value!r}")
    return f"{AT_MOST}{number:g}" if text.startswith(AT_MOST) else number


def as_list(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


def _distinct(values: list) -> list:
    if len(set(values)) != len(values):
        raise ValueError(f"repeated values in {short(values)}")
    return values


def _sum_to_one(shares: tuple[float, ...]) -> tuple[float, ...]:
    if abs(math.fsum(shares) - 1) > 1e-9:
        raise ValueError(f"the three shares sum to {math.fsum(shares):g}, and must to 1")
    return shares


def no_folder_of_ours(name: str) -> str:
    if name.lower() in RESERVED:
        raise ValueError(f"results/{name.lower()}/ is no study's; choose another name than {name}")
    return name


Epsilon = Annotated[str, BeforeValidator(_epsilon_token), AfterValidator(_positive)]
OneOrMore = [BeforeValidator(as_list), AfterValidator(_distinct)]
Epsilons = Annotated[list[Epsilon], Field(min_length=1), *OneOrMore]
#: Names of files are made of it, with more before and behind it.
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
Share = Annotated[float, Field(gt=0, lt=1)]
Fractions = Annotated[tuple[Share, Share, Share], AfterValidator(_sum_to_one)]
KNeighbors = Annotated[str, Field(pattern=r"^k[1-9][0-9]{0,5}$")]
Names = Annotated[list[Name], AfterValidator(_distinct)]
#: Folders of results/ that belong to no study.
RESERVED = ("data", "cache", "audit")
