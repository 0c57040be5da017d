"""var: the variance of x in a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitalsdsl.kernels.moments import Moments
from vitalsdsl.ops.base import Arguments, Windowed

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column
    from vitalsdsl.kernels.pieces import InWindow, Piece
    from vitalsdsl.kernels.sliding import Windows


class Var(Windowed):
    """The variance of the points of x in a window, with n - 1, in x's own unit squared: the square of `std`.

    NaN and ±inf are dropped. Unknown until the window's span has been lived since x's first point (of samples: until it
    holds that many), with fewer than two usable points, and where it is too large for a float. Exactly 0 over equal
    points.

    A threshold on it grows with the square of the unit: most rules read better with `std`. A variance that falls to 0
    (rewards of a group, a frozen layer) is what it says best.

    >>> from math import nan
    >>> from vitalsdsl.ops.base import stream
    >>> stream(Var, [1, 3, nan, 1e8, 1e8 + 1], W=(2, "samples"))
    [nan, 2.0, nan, nan, 0.5]
    """

    name = "var"
    kernel = Moments
    minimum = 2
    example = "when var(reward, 100 steps) < 1e-6 for 100 steps -> yellow"

    @staticmethod
    def value(window: Moments, arguments: Arguments) -> float:
        return window.var()

    @classmethod
    def over(cls, windows: Windows, arguments: Arguments) -> Column | None:
        return windows.var()

    @classmethod
    def ahead(cls, window: InWindow, arguments: Arguments) -> Piece:
        return window.var()
