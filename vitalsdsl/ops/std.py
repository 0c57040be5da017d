"""std: how much x scatters in a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitalsdsl.kernels.moments import Moments
from vitalsdsl.ops.base import Arguments, Windowed

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column
    from vitalsdsl.kernels.pieces import InWindow, Piece
    from vitalsdsl.kernels.sliding import Windows


class Std(Windowed):
    """The standard deviation of the points of x in a window, with n - 1, in x's own unit.

    NaN and ±inf are dropped. Unknown until the window's span has been lived since x's first point (of samples: until it
    holds that many), and with fewer than two usable points. Exact to the last digit, also for a small noise on a large
    level; exactly 0 over equal points.

    One spike fills it, and a trend adds to it: for a threshold take `noise` or `mad`, for noise beside a trend
    `resid_std`.

    >>> from math import nan
    >>> from vitalsdsl.ops.base import stream
    >>> stream(Std, [1, 3, nan, 1e8, 1e8 + 1], W=(2, "samples"))
    [nan, 1.4142135623730951, nan, nan, 0.7071067811865476]
    """

    name = "std"
    phrase = "the standard deviation of {x} over {W}"
    kernel = Moments
    minimum = 2
    example = "when std(loss, 200 steps) > 0.5 for 100 steps -> yellow"

    @staticmethod
    def value(window: Moments, arguments: Arguments) -> float:
        return window.std()

    @classmethod
    def over(cls, windows: Windows, arguments: Arguments) -> Column | None:
        return windows.std()

    @classmethod
    def ahead(cls, window: InWindow, arguments: Arguments) -> Piece:
        return window.std()
