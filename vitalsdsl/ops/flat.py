"""flat: whether x stays where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitalsdsl.ground.types import Kind
from vitalsdsl.kernels.halves import Halves
from vitalsdsl.ops.base import WINDOW, Arguments, Parameter, Takes, Windowed, X

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column
    from vitalsdsl.kernels.sliding import Windows


class Flat(Windowed):
    """True where the halves of a window of x differ by no more than chance, or by no more than a share `tol` of x.

    abs(d) ≤ max(3 se, tol × abs(median of the earlier half)), d and se being those that `rising` explains; `tol` is 2%
    unless said.

    NaN and ±inf are dropped. A condition: unknown until the window's span has been lived since x's first point (of
    samples: until it holds that many), and while a half has fewer than four usable points.

    It forgives whatever noise hides: of a metric that jumps about, nearly everything is flat. `tol` is a share of the
    level, so near 0 it allows nothing.

    >>> from vitalsdsl.ops.base import stream
    >>> stream(Flat, [5, 5, 5, 5, 5.05, 5.05, 5.05, 5.05], W=(8, "samples"))[-1]
    True
    >>> stream(Flat, [5, 5, 5, 5, 5.05, 5.05, 5.05, 5.05], W=(8, "samples"), tol=0.001)[-1]
    False
    """

    name = "flat"
    phrase = "{x} is flat over {W}"
    parameters = (X, WINDOW, Parameter("tol", Takes.NUMBER, keyword=True, required=False, default=0.02))
    kernel = Halves
    minimum = 8
    result = Kind.CONDITION
    example = "when flat(loss, 5000 steps, tol: 1%) for 1000 steps -> yellow"

    @classmethod
    def check(cls, arguments: Arguments) -> str | None:
        return None if arguments.get("tol", 0.02) >= 0 else "`tol` is a share of x, such as 2%, and not below 0"

    @staticmethod
    def value(window: Halves, arguments: Arguments) -> bool | None:
        trend = window.trend()
        if trend is None:
            return None
        rise, error, level = trend
        tolerance: float = arguments.get("tol", 0.02)
        return abs(rise) <= max(3 * error, tolerance * abs(level))

    @classmethod
    def over(cls, windows: Windows, arguments: Arguments) -> Column | None:
        trends = windows.trends()
        return None if trends is None else trends.flat(arguments.get("tol", 0.02))
