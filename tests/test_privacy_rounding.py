"""A printed ε is no smaller than the one that is known, and a printed noise no larger."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdp.audit import outcomes
from graphdp.errors import GraphDPError
from graphdp.paper.labels import delta_text
from graphdp.privacy.rounding import at_least, at_most


@pytest.mark.parametrize(
    ("value", "digits", "above", "below"),
    [
        (11.6436, 3, "11.7", "11.6"),
        (1.8754544, 4, "1.876", "1.875"),
        (9.9999, 3, "10", "9.99"),
        (8.0, 4, "8", "8"),
        (1e-5, 4, "1e-05", "1e-05"),
        (0.1 + 0.2, 4, "0.3", "0.3"),  # an error of floating point is none
        (0.0, 4, "0", "0"),
        (math.inf, 4, "inf", "inf"),
    ],
)
def test_numbers_are_rounded_to_the_side_that_holds(value, digits, above, below):
    assert (at_most(value, digits), at_least(value, digits)) == (above, below)


@given(st.floats(1e-12, 1e12), st.integers(2, 6))
def test_what_is_printed_holds_and_is_within_one_digit(value, digits):
    above, below = float(at_most(value, digits)), float(at_least(value, digits))
    assert below * (1 - 1e-11) <= value <= above * (1 + 1e-11)
    step = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    assert above - below <= 1.01 * step or above == pytest.approx(below + step)


@pytest.mark.parametrize(
    ("delta", "told"),
    [(1e-7, "1e-7"), (0.02, "2e-2"), (15773**-1.1, "2.42e-5"), (9.9999e-6, "1e-5"), (0, "0")],
)
def test_a_delta_is_told_no_smaller_than_it_is(delta, told):
    assert delta_text(delta) == told and float(told) >= delta


def test_a_bound_and_a_claim_of_an_audit_are_not_told_nearer_to_each_other():
    """A bound is told no larger and a claim no smaller: it is no refutation by rounding."""
    near = {"claim": "x", "lower_bound": 3.9957, "claimed_epsilon": 4.0012, "expected": "below"}
    with pytest.raises(GraphDPError, match=r"x \(bound 3\.99, claimed 4\.01, must stay below\)"):
        outcomes.check([near | {"as_expected": False}])
