"""mad: how much x scatters in a window, whatever its spikes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vitalsdsl.kernels.ordered import Spread
from vitalsdsl.ops.base import Arguments, Windowed

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column
    from vitalsdsl.kernels.pieces import InWindow, Piece
    from vitalsdsl.kernels.sliding import Windows


class Mad(Windowed):
    """1.4826 times the median distance of the points of x in a window from their median, in x's own unit.

    The factor makes it the standard deviation of normal noise. Up to half of the points may be spikes before it moves.

    NaN and ±inf are dropped. Unknown until the window's span has been lived since x's first point (of samples: until it
    holds that many), and with fewer than five usable points: `mad(x, 4 samples)` is never known. Exactly 0 over equal
    points, and wherever more than half of them are equal.

    A trend adds to it, and an anomaly that lasts half the window enters it: `noise` does neither.

    Source: F. R. Hampel, The influence curve and its role in robust estimation, 1974.

    >>> from math import nan
    >>> from vitalsdsl.ops.base import stream
    >>> stream(Mad, [1, 2, 3, 4, 1000, nan, 6], W=(6, "steps"))
    [nan, nan, nan, nan, nan, 1.4826, 2.9652]
    """

    name = "mad"
    kernel = Spread
    minimum = 5
    example = "when loss > median(loss, 500 steps) + 8 * mad(loss, 500 steps) for 3 samples -> yellow"

    @staticmethod
    def value(window: Spread, arguments: Arguments) -> float:
        scatter = 1.4826 * (2 * window.half_deviation())
        return scatter if scatter < math.inf else math.nan

    @classmethod
    def over(cls, windows: Windows, arguments: Arguments) -> Column | None:
        return windows.mad()

    @classmethod
    def ahead(cls, window: InWindow, arguments: Arguments) -> Piece | None:
        return window.mad()
