"""log: the natural logarithm."""

from __future__ import annotations

import math

from vitalsdsl.ops.base import Elementwise, Parameter, Takes


class Log(Elementwise):
    """The natural logarithm of x: makes ratios into differences, so that noise which grows with the level is even.

    Unknown where x is 0 or less, or NaN. log(inf) is inf.

    A gradient norm scatters by factors: `log(grad_norm) > usual(log(grad_norm), W) + 5 * noise(log(grad_norm), W)`.

    >>> Log.value(1.0), Log.value(0.0)
    (0.0, nan)
    """

    name = "log"
    phrase = "the logarithm of {x}"
    parameters = (Parameter("x", Takes.OPERAND),)
    example = "when log(grad_norm) > usual(log(grad_norm), 500 steps) + 2 for 5 steps -> yellow"

    @staticmethod
    def value(*operands: float) -> float:
        return math.log(operands[0]) if operands[0] > 0 else math.nan
