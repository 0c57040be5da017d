"""rising: whether x goes up by more than chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitalsdsl.ground.types import Kind
from vitalsdsl.kernels.halves import Halves
from vitalsdsl.ops.base import Arguments, Windowed

if TYPE_CHECKING:
    from vitalsdsl.kernels.columns import Column
    from vitalsdsl.kernels.sliding import Windows


class Rising(Windowed):
    """True where the later half of a window of x lies above the earlier half by more than three standard errors.

    d is the median of the later half less that of the earlier. Its standard error se comes from the scatter of
    neighbours, which no trend can swell: σ = their median absolute difference / 0.954, se = 1.2533 σ √(1/nA + 1/nB), made
    larger where neighbours resemble one another (by √((1 + r)/(1 - r)), r = 1 - (σ/σw)² held to 0 … 0.95, σw being the
    scatter about each half's own median). True where d > 3 se and d > 0.

    NaN and ±inf are dropped. A condition: unknown until the window's span has been lived since x's first point (of
    samples: until it holds that many), and while a half has fewer than four usable points. So a validation loss needs
    eight evaluations in the window; six that rise without a break are `monotone_up(val_loss, 6 samples)`.

    It says that there is a trend, not that it matters: with many points the smallest one is found. Never alarm on it
    alone; put a size beside it, as in the example below. A cosine schedule makes `falling(lr, W)` true for the whole run.

    >>> from vitalsdsl.ops.base import stream
    >>> stream(Rising, [1, 3, 1, 3, 11, 13, 11, 13], W=(8, "samples"))[-1]
    True
    >>> stream(Rising, [1, 3, 1, 3, 2, 4, 2, 4], W=(8, "samples"))[-1]
    False
    """

    name = "rising"
    phrase = "{x} rises over {W}"
    kernel = Halves
    minimum = 8
    result = Kind.CONDITION
    example = "when rising(loss, 2000 steps) and growth(mean(loss, 200 steps), 1000 steps) > 5% -> yellow"

    @staticmethod
    def value(window: Halves, arguments: Arguments) -> bool | None:
        trend = window.trend()
        if trend is None:
            return None
        rise, error, _ = trend
        return rise > 3 * error and rise > 0

    @classmethod
    def over(cls, windows: Windows, arguments: Arguments) -> Column | None:
        trends = windows.trends()
        return None if trends is None else trends.rising()
