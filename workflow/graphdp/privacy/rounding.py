"""Numbers of a guarantee as they are printed: what is shown holds as well, so that it is rounded
away from what would promise more."""

from decimal import ROUND_CEILING, ROUND_FLOOR, Context


def at_most(value: float, digits: int) -> str:
    """An ε or δ with as many digits, not below it (but for errors of 1e-12 of floating point)."""
    return _shown(value * (1 - 1e-12), digits, ROUND_CEILING)


def at_least(value: float, digits: int) -> str:
    """A lower bound or a noise's scale with as many digits, not above it (likewise)."""
    return _shown(value * (1 + 1e-12), digits, ROUND_FLOOR)


def _shown(value: float, digits: int, rounding: str) -> str:
    rounded = Context(prec=digits, rounding=rounding).create_decimal_from_float(value)
    return f"{float(rounded):.{digits}g}"
