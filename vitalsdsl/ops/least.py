"""least: the least of some numbers."""

from __future__ import annotations

import math

from vitalsdsl.ops.base import Elementwise, Parameter, Takes


class Least(Elementwise):
    """The least of two numbers or more at one step, in their own unit. `min(x, W)` is that of one x over a window.

    Unknown where one of them is. It puts a lid on a threshold: `loss > least(10, 2 * usual(loss, 500 steps))`.

    >>> Least.value(1.0, 3.0, 2.0), Least.value(1.0, math.nan)
    (1.0, nan)
    """

    name = "least"
    parameters = (Parameter("a", Takes.OPERAND), Parameter("b", Takes.OPERAND, many=True))
    example = "when loss > least(10, 2 * usual(loss, 500 steps)) for 5 steps -> yellow"

    @staticmethod
    def value(*operands: float) -> float:
        return math.nan if any(map(math.isnan, operands)) else min(operands)
