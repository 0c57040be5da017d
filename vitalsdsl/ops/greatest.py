"""greatest: the greatest of some numbers."""

from __future__ import annotations

import math

from vitalsdsl.ops.base import Elementwise, Parameter, Takes


class Greatest(Elementwise):
    """The greatest of two numbers or more at one step, in their own unit. `max(x, W)` is that of one x over a window.

    Unknown where one of them is. It puts a floor under a threshold: `greatest(6 * noise(x, W), 5% * usual(x, W))` does
    not fall to 0 where x is constant.

    >>> Greatest.value(1.0, 3.0, 2.0), Greatest.value(1.0, math.nan)
    (3.0, nan)
    """

    name = "greatest"
    parameters = (Parameter("a", Takes.OPERAND), Parameter("b", Takes.OPERAND, many=True))
    example = "when loss - usual(loss, 500 steps) > greatest(0.1, 6 * noise(loss, 500 steps)) for 3 samples -> yellow"

    @staticmethod
    def value(*operands: float) -> float:
        return math.nan if any(map(math.isnan, operands)) else max(operands)
