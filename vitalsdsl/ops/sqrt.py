"""sqrt: the square root."""

from __future__ import annotations

import math

from vitalsdsl.ops.base import Elementwise, Parameter, Takes


class Sqrt(Elementwise):
    """The square root of x: a norm out of a sum of squares.

    Unknown where x is below 0, or NaN. sqrt(inf) is inf.

    >>> Sqrt.value(9.0), Sqrt.value(-1.0)
    (3.0, nan)
    """

    name = "sqrt"
    parameters = (Parameter("x", Takes.OPERAND),)
    example = "when sqrt(sum(grad_norm_squared/layer_*)) > 10 for 5 steps -> yellow"

    @staticmethod
    def value(*operands: float) -> float:
        return math.sqrt(operands[0]) if operands[0] >= 0 else math.nan
