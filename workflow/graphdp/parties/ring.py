"""What rows and sums are as numbers: whole ones modulo 2⁶⁴, with 24 bits behind the point.

`graphdp.privacy.pair_sums` has why that is enough. Nothing else of the library is imported here:
the parties' processes start with this.
"""

import math

from graphdp.errors import GraphDPError

#: Rows are multiples of 2^-FRACTION_BITS, shares whole numbers modulo 2^RING_BITS.
FRACTION_BITS, RING_BITS = 24, 64
#: A party's deviation has fewer than 2^CELL_BITS of the cells that its noise is rounded to.
CELL_BITS = 16


def step_bits(noise_std: float) -> int:
    """log₂ B of a round in which a party's noise has the deviation `noise_std`, in steps of 2⁻²⁴.

    The rounding is then coarse enough to be drawn exactly from floating-point normals.
    Raises GraphDPError unless `noise_std` lies in [8, 2⁴⁰].
    """
    if not 8 <= noise_std <= 2.0**40:
        raise GraphDPError(
            f"noise of {noise_std:g} steps of 2^-{FRACTION_BITS} per party; parties draw from 8 "
            f"steps to 2^40: take another epsilon"
        )
    return max(0, math.frexp(noise_std)[1] - CELL_BITS)
