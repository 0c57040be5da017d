"""abs: the size of a number."""

from __future__ import annotations

from vitalsdsl.ops.base import Elementwise, Parameter, Takes


class Abs(Elementwise):
    """The size of x whatever its sign, in x's own unit: the distance of a difference.

    NaN gives NaN, -inf gives inf. "Near 0.5" is `abs(x - 0.5) < 0.01`; two floats are hardly ever equal.

    >>> Abs.value(-2.5)
    2.5
    """

    name = "abs"
    phrase = "the absolute value of {x}"
    parameters = (Parameter("x", Takes.OPERAND),)
    example = "when abs(train_loss - val_loss) > 1 for 3 samples on val_loss -> yellow"

    @staticmethod
    def value(*operands: float) -> float:
        return abs(operands[0])
