"""min: the least of a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitalsdsl.kernels.extremes import Extremes
from vitalsdsl.ops.base import Aggregate, Arguments, Windowed

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column
    from vitalsdsl.kernels.pieces import InWindow, Piece
    from vitalsdsl.kernels.sliding import Windows


class Min(Windowed):
    """The least point of x in a window, in x's own unit.

    NaN is dropped, ±inf counts. Unknown until the window's span has been lived since x's first point (of samples: until
    it holds that many), and where only NaN is in it.

    For the best value of the whole run take `lowest(x)`; for the least of two numbers at one step, `least`.

    >>> from math import inf, nan
    >>> from vitalsdsl.ops.base import stream
    >>> stream(Min, [3, 1, 2, nan, None, inf], W=(3, "steps"))
    [nan, nan, 1.0, 1.0, 2.0, inf]
    """

    name = "min"
    phrase = "the least {x} over {W}"
    kernel = Extremes
    example = "when min(throughput, 100 steps) < 1000 for 100 steps -> yellow"

    @staticmethod
    def value(window: Extremes, arguments: Arguments) -> float:
        return window.least()

    @classmethod
    def over(cls, windows: Windows, arguments: Arguments) -> Column | None:
        return windows.least()

    @classmethod
    def ahead(cls, window: InWindow, arguments: Arguments) -> Piece:
        return window.least()


class MinOfMembers(Aggregate):
    """The least of the members of a family that are known: the slowest rank, the smallest entropy of a head.

    >>> MinOfMembers.value([3.0, 1.0, 2.0])
    1.0
    """

    name = "min"
    example = "when min(attn/*/entropy) < 0.1 for 3 samples -> yellow"

    @staticmethod
    def value(members: list[float]) -> float:
        return min(members)
