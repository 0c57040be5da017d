"""mean: what x is on average over a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitalsdsl.kernels import exact
from vitalsdsl.kernels.moments import Moments
from vitalsdsl.ops.base import Aggregate, Arguments, Windowed

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column
    from vitalsdsl.kernels.pieces import InWindow, Piece
    from vitalsdsl.kernels.sliding import Windows


class Mean(Windowed):
    """The arithmetic mean of the points of x in a window, in x's own unit.

    NaN and ±inf are dropped. Unknown until the window's span has been lived since x's first point (a window of samples:
    until it holds that many points), and where no point of it is usable. Exact: summed without rounding and rounded
    once, so a spike that has left the window leaves no trace.

    A threshold on a plain mean swallows what it should catch: the mean contains the jump. Compare with `usual`.

    >>> from math import nan
    >>> from vitalsdsl.ops.base import stream
    >>> stream(Mean, [1, 2, 6, nan, 1e300, -1e300, 4], W=(3, "samples"))
    [nan, nan, 3.0, 4.0, 5e+299, 0.0, 1.3333333333333333]
    """

    name = "mean"
    phrase = "the mean of {x} over {W}"
    kernel = Moments
    example = "when mean(loss, 200 steps) > 4 for 50 steps -> yellow"

    @staticmethod
    def value(window: Moments, arguments: Arguments) -> float:
        return window.mean()

    @classmethod
    def over(cls, windows: Windows, arguments: Arguments) -> Column | None:
        return windows.mean()

    @classmethod
    def ahead(cls, window: InWindow, arguments: Arguments) -> Piece:
        return window.mean()


class MeanOfMembers(Aggregate):
    """The mean over the members of a family that are known: `mean(act/layer_*)`.

    An infinite member gives ±inf, two of opposite sign give unknown.

    >>> MeanOfMembers.value([1.0, 2.0, 6.0])
    3.0
    """

    name = "mean"
    example = "when mean(grad_norm/layer_*) > 5 -> yellow"

    @staticmethod
    def value(members: list[float]) -> float:
        return exact.mean(members)
