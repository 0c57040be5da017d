"""falling: whether x goes down by more than chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitalsdsl.ground.types import Kind
from vitalsdsl.kernels.halves import Halves
from vitalsdsl.ops.base import Arguments, Windowed

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column
    from vitalsdsl.kernels.sliding import Windows


class Falling(Windowed):
    """True where the later half of a window of x lies below the earlier half by more than three standard errors.

    The mirror of `rising`, which explains the standard error: -d > 3 se and d < 0, d being the median of the later half
    less that of the earlier.

    NaN and ±inf are dropped. A condition: unknown until the window's span has been lived since x's first point (of
    samples: until it holds that many), and while a half has fewer than four usable points.

    `not falling(loss, W)` is true of a loss that has settled, of one too noisy to tell, and of one that rises: ask
    `flat(loss, W)` for the first, `rising` for the last. Never alarm on a trend alone; put a size beside it.

    >>> from vitalsdsl.ops.base import stream
    >>> stream(Falling, [11, 13, 11, 13, 1, 3, 1, 3], W=(8, "samples"))[-1]
    True
    >>> stream(Falling, [3, 1, 3, 1, 2, 1, 3, 1], W=(8, "samples"))[-1]
    False
    """

    name = "falling"
    phrase = "{x} falls over {W}"
    kernel = Halves
    minimum = 8
    result = Kind.CONDITION
    example = "when falling(reward, 1000 steps) and growth(mean(reward, 100 steps), 500 steps) < -10% -> yellow"

    @staticmethod
    def value(window: Halves, arguments: Arguments) -> bool | None:
        trend = window.trend()
        if trend is None:
            return None
        rise, error, _ = trend
        return -rise > 3 * error and rise < 0

    @classmethod
    def over(cls, windows: Windows, arguments: Arguments) -> Column | None:
        trends = windows.trends()
        return None if trends is None else trends.falling()
