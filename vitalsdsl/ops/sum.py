"""sum: the total over a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitalsdsl.kernels.exact import total
from vitalsdsl.kernels.moments import Moments
from vitalsdsl.ops.base import Aggregate, Arguments, Windowed

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column
    from vitalsdsl.kernels.sliding import Windows


class Sum(Windowed):
    """The sum of the points of x in a window, in x's own unit: skipped batches, found overflows, lost tokens.

    NaN and ±inf are dropped. Unknown until the window's span has been lived since x's first point (of samples: until it
    holds that many), where no point of it is usable, and where it is too large for a float. Exact: rounded once.

    It sums what was logged. Of a metric logged every 10 steps, a window of 100 steps holds ten points, and a gap makes
    the sum smaller without saying so: `mean(x, W)` does not depend on how often x comes.

    >>> from math import nan
    >>> from vitalsdsl.ops.base import stream
    >>> stream(Sum, [1e20, 1, 2, nan, 4], W=(3, "samples"))
    [nan, nan, 1e+20, 3.0, 6.0]
    """

    name = "sum"
    phrase = "the sum of {x} over {W}"
    kernel = Moments
    example = "when sum(skipped_steps, 1000 steps) > 20 -> yellow"

    @staticmethod
    def value(window: Moments, arguments: Arguments) -> float:
        return window.sum()

    @classmethod
    def over(cls, windows: Windows, arguments: Arguments) -> Column | None:
        return windows.sum()


class SumOfMembers(Aggregate):
    """The sum over the members of a family that are known; unknown members are left out, so it may be short of them.

    >>> SumOfMembers.value([1e20, 1.0, -1e20])
    1.0
    """

    name = "sum"
    example = "when sum(dropped_tokens/rank_*) > 1000 for 10 steps -> yellow"

    @staticmethod
    def value(members: list[float]) -> float:
        return total(members)
