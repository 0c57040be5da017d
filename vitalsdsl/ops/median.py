"""median: the middle of a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitalsdsl.kernels.exact import midpoint
from vitalsdsl.kernels.ordered import Ordered, middle
from vitalsdsl.ops.base import Aggregate, Arguments, Windowed

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column
    from vitalsdsl.kernels.pieces import InWindow, Piece
    from vitalsdsl.kernels.sliding import Windows


class Median(Windowed):
    """The value that half of the points of x in a window lie below, in x's own unit: a level that spikes cannot move.

    Of an even number of points it is the mean of the middle two. NaN is dropped; ±inf takes part, as the greatest or the
    least, and where -inf and inf are the middle two the median is unknown. Unknown until the window's span has been
    lived since x's first point (of samples: until it holds that many), and where only NaN is in it.

    It follows a lasting new level as soon as half of the window has seen it; for a reference that does not learn from an
    anomaly take `usual`.

    >>> from math import inf, nan
    >>> from vitalsdsl.ops.base import stream
    >>> stream(Median, [1, 2, 9, nan, inf, 3], W=(3, "samples"))
    [nan, nan, 2.0, 5.5, inf, inf]
    """

    name = "median"
    phrase = "the median of {x} over {W}"
    kernel = Ordered
    example = "when loss > 2 * median(loss, 500 steps) for 5 steps -> yellow"

    @staticmethod
    def value(window: Ordered, arguments: Arguments) -> float:
        return window.median()

    @classmethod
    def over(cls, windows: Windows, arguments: Arguments) -> Column | None:
        return windows.median()

    @classmethod
    def ahead(cls, window: InWindow, arguments: Arguments) -> Piece | None:
        return window.quantile(1, 2)


class MedianOfMembers(Aggregate):
    """The median over the members of a family that are known: what the typical layer, rank or expert does.

    Beside it one odd member stands out: `layer > 5 * median(grad_norm/layer_*)` in a rule `each layer in …`.

    >>> MedianOfMembers.value([1.0, 100.0, 2.0])
    2.0
    """

    name = "median"
    example = "rule odd_layer each layer in grad_norm/layer_* { when layer > 5 * median(grad_norm/layer_*) -> yellow }"

    @staticmethod
    def value(members: list[float]) -> float:
        return midpoint(*middle(sorted(members)))
