"""exp: e to the power of x."""

from __future__ import annotations

import math

from vitalsdsl.ops.base import Elementwise, Parameter, Takes


class Exp(Elementwise):
    """e to the power of x: perplexity out of a loss in nats.

    Unknown where x is NaN, and where a finite x gives what is too large for a float (x above 709). exp(inf) is inf,
    exp(-inf) is 0.

    >>> Exp.value(0.0), Exp.value(1000.0), Exp.value(-1000.0)
    (1.0, nan, 0.0)
    """

    name = "exp"
    parameters = (Parameter("x", Takes.OPERAND),)
    example = "when exp(val_loss) > 50 for 3 samples -> yellow"

    @staticmethod
    def value(*operands: float) -> float:
        try:
            return math.exp(operands[0])
        except OverflowError:
            return math.nan
