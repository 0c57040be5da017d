"""slope: how fast x changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitalsdsl.kernels.line import Line
from vitalsdsl.ops.base import Arguments, Windowed

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column
    from vitalsdsl.kernels.pieces import InWindow, Piece
    from vitalsdsl.kernels.sliding import Windows


class Slope(Windowed):
    """The slope of the least-squares line through the points of x in a window, in x's unit per step.

    Per step, also where the window is in samples or time, and whatever the gaps: the line goes through (step, value).
    NaN and ±inf are dropped. Unknown until the window's span has been lived since x's first point (of samples: until it
    holds that many), and with fewer than two usable points. Exact, rounded once; exactly 0 over equal points.

    Its sign says nothing: the slope of pure noise is above 0 half of the time. Ask `rising(x, W)` whether there is a
    trend, and beside it a size: `slope(x, W) * 1000 > 2% * mean(x, W)`.

    >>> from math import nan
    >>> from vitalsdsl.ops.base import stream
    >>> stream(Slope, [1, None, 5, nan, 9, 9, 9], W=(3, "steps"))
    [nan, nan, 2.0, nan, 2.0, 0.0, 0.0]
    """

    name = "slope"
    phrase = "the slope of {x} over {W}"
    kernel = Line
    minimum = 2
    example = "when rising(loss, 2000 steps) and slope(loss, 2000 steps) > 1e-4 for 500 steps -> yellow"

    @staticmethod
    def value(window: Line, arguments: Arguments) -> float:
        return window.slope()

    @classmethod
    def over(cls, windows: Windows, arguments: Arguments) -> Column | None:
        return windows.slope()

    @classmethod
    def ahead(cls, window: InWindow, arguments: Arguments) -> Piece | None:
        return window.slope()
