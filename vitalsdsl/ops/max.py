"""max: the greatest of a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitalsdsl.kernels.extremes import Extremes
from vitalsdsl.ops.base import Aggregate, Arguments, Windowed

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column
    from vitalsdsl.kernels.pieces import InWindow, Piece
    from vitalsdsl.kernels.sliding import Windows


class Max(Windowed):
    """The greatest point of x in a window, in x's own unit.

    NaN is dropped, ±inf counts. Unknown until the window's span has been lived since x's first point (of samples: until
    it holds that many), and where only NaN is in it.

    One spike keeps it high for the whole window. For the peak of the whole run take `highest(x)`; for the greater of two
    numbers at one step, `greatest`.

    >>> from math import inf, nan
    >>> from vitalsdsl.ops.base import stream
    >>> stream(Max, [3, 1, 2, nan, None, inf], W=(3, "steps"))
    [nan, nan, 3.0, 2.0, 2.0, inf]
    """

    name = "max"
    phrase = "the greatest {x} over {W}"
    kernel = Extremes
    example = "when max(grad_norm, 100 steps) > 20 for 100 steps -> yellow"

    @staticmethod
    def value(window: Extremes, arguments: Arguments) -> float:
        return window.greatest()

    @classmethod
    def over(cls, windows: Windows, arguments: Arguments) -> Column | None:
        return windows.greatest()

    @classmethod
    def ahead(cls, window: InWindow, arguments: Arguments) -> Piece:
        return window.greatest()


class MaxOfMembers(Aggregate):
    """The greatest of the members of a family that are known: the layer nearest to blowing up.

    >>> MaxOfMembers.value([3.0, 1.0, 2.0])
    3.0
    """

    name = "max"
    example = "when max(act_absmax/layer_*) > 1e4 for 2 samples -> orange"

    @staticmethod
    def value(members: list[float]) -> float:
        return max(members)
