"""clamp: a number held between two others."""

from __future__ import annotations

import math

from vitalsdsl.ops.base import Elementwise, Parameter, Takes


class Clamp(Elementwise):
    """x, but `low` where it is below that and `high` where it is above, in x's own unit.

    Unknown where one of the three is. ±inf is held like any other. Where low is above high the answer is high.

    It takes the sting out of a spike before it enters a mean: `mean(clamp(loss, 0, 10), 200 steps)`.

    >>> Clamp.value(5.0, 0.0, 1.0), Clamp.value(-5.0, 0.0, 1.0), Clamp.value(math.nan, 0.0, 1.0)
    (1.0, 0.0, nan)
    """

    name = "clamp"
    parameters = (Parameter("x", Takes.OPERAND), Parameter("low", Takes.OPERAND), Parameter("high", Takes.OPERAND))
    example = "when mean(clamp(loss, 0, 10), 200 steps) > 6 for 50 steps -> yellow"

    @staticmethod
    def value(*operands: float) -> float:
        x, low, high = operands
        return math.nan if any(map(math.isnan, operands)) else min(max(x, low), high)
