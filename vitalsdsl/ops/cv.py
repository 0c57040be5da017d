"""cv: how much x scatters in a window, as a share of its mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitalsdsl.ground.types import Kind
from vitalsdsl.kernels.moments import Moments
from vitalsdsl.ops.base import Arguments, Windowed

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column
    from vitalsdsl.kernels.sliding import Windows


class Cv(Windowed):
    """The coefficient of variation: std / abs(mean) of the points of x in a window. A ratio without a unit: 5% is 0.05.

    NaN and ±inf are dropped. Unknown until the window's span has been lived since x's first point (of samples: until it
    holds that many), with fewer than two usable points, and where the mean is 0.

    A trend scatters too: a loss that falls fast and in good health at the start has a large cv. `resid_std` takes the
    trend out. Of a metric that crosses 0 it says nothing.

    >>> from vitalsdsl.ops.base import stream
    >>> stream(Cv, [2, 2, 6, -6, 6], W=(2, "samples"))
    [nan, 0.0, 0.7071067811865476, nan, nan]
    """

    name = "cv"
    kernel = Moments
    minimum = 2
    result = Kind.RATIO
    example = "when cv(step_time, 200 steps) > 30% for 100 steps -> yellow"

    @staticmethod
    def value(window: Moments, arguments: Arguments) -> float:
        return window.cv()

    @classmethod
    def over(cls, windows: Windows, arguments: Arguments) -> Column | None:
        return windows.cv()
