"""fraction: how much of the time a condition was true."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitalsdsl.ground.types import Kind
from vitalsdsl.kernels.moments import Moments
from vitalsdsl.ops.base import CONDITION, WINDOW, Arguments, Windowed

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column
    from vitalsdsl.kernels.sliding import Windows


class Fraction(Windowed):
    """The share of the known evaluations of a condition in a window at which it was true. A ratio: 50% is 0.5.

    Evaluations at which the condition was unknown are left out of both counts. Unknown until the window's span has been
    lived since the first known evaluation (of samples: until there were that many), and where none is in it.

    "Three times in 100 steps" is `fraction(cond, 100 steps) * 100 >= 3` for a metric logged at each step; it counts
    evaluations, where `onsets` counts beginnings. The condition is evaluated where a metric in it has a point: one that
    reads two metrics counts the steps of both.

    >>> from vitalsdsl.ops.base import stream
    >>> stream(Fraction, [True, False, None, False, True, True], W=(4, "samples"))
    [nan, nan, nan, nan, 0.5, 0.5]
    """

    name = "fraction"
    phrase = "the share of evaluations within {W} at which {cond}"
    parameters = (CONDITION, WINDOW)
    kernel = Moments
    result = Kind.RATIO
    example = "when fraction(grad_norm > 1, 200 steps) > 90% for 100 steps -> yellow"

    @staticmethod
    def value(window: Moments, arguments: Arguments) -> float:
        return window.mean()

    @classmethod
    def over(cls, windows: Windows, arguments: Arguments) -> Column | None:
        return windows.share_of_ones()
