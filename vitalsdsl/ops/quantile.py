"""quantile: the value below which a share of a window lies."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from vitalsdsl.kernels.ordered import Ordered
from vitalsdsl.ops.base import WINDOW, Arguments, Parameter, Takes, Windowed, X

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column
    from vitalsdsl.kernels.pieces import InWindow, Piece
    from vitalsdsl.kernels.sliding import Windows


class Quantile(Windowed):
    """The value that the share q of the points of x in a window lie below, in x's own unit; q from 0 to 1, or 0% to 100%.

    Between two points it lies on the line between them: of n points the one at (n - 1) × q, counted from 0 in order of
    size. NaN is dropped; ±inf takes part, and where the value would lie between -inf and inf it is unknown. Unknown until
    the window's span has been lived since x's first point (of samples: until it holds that many), and where only NaN is
    in it.

    A high quantile needs many points: `quantile(x, 99%, 50 samples)` is nearly the maximum.

    >>> from math import inf, nan
    >>> from vitalsdsl.ops.base import stream
    >>> stream(Quantile, [1, 2, 3, nan, inf, 5], q=0.75, W=(3, "samples"))
    [nan, nan, 2.5, 2.75, inf, inf]
    """

    name = "quantile"
    parameters = (X, Parameter("q", Takes.NUMBER), WINDOW)
    kernel = Ordered
    example = "when quantile(step_time, 95%, 500 steps) > 2 * median(step_time, 500 steps) for 100 steps -> yellow"

    @classmethod
    def check(cls, arguments: Arguments) -> str | None:
        return None if 0 <= arguments["q"] <= 1 else "q is a share from 0 to 1, such as 0.95 or 95%"

    @classmethod
    def reader(cls, state: Any, arguments: Arguments) -> Callable[[int, float], Any]:
        return super().reader(state, {"share": _as_written(arguments["q"])})

    @staticmethod
    def value(window: Ordered, arguments: Arguments) -> float:
        return window.quantile(*arguments["share"])

    @classmethod
    def over(cls, windows: Windows, arguments: Arguments) -> Column | None:
        return windows.quantile(*_as_written(arguments["q"]))

    @classmethod
    def ahead(cls, window: InWindow, arguments: Arguments) -> Piece | None:
        return window.quantile(*_as_written(arguments["q"]))


def _as_written(q: float) -> tuple[int, int]:
    """0.07 of 100 is 7, not 7.000000000000001."""
    return Fraction(repr(float(q))).as_integer_ratio()
