"""The points of a window in order of size: median, quantiles, and how far the points lie from their median."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vitalsdsl.ground.types import Reason
from vitalsdsl.kernels.deferred import Deferred
from vitalsdsl.kernels.exact import midpoint
from vitalsdsl.kernels.ranked import Ranked
from vitalsdsl.kernels.selection import Selection, outwards
from vitalsdsl.kernels.trail import Trail
from vitalsdsl.kernels.window import Window


class Ordered(Deferred):
    """The points in order of size, ±inf among them."""

    with_infinite = True

    def clear(self) -> None:
        self._sorted = Ranked()

    def add(self, step: int, value: float) -> None:
        self._sorted.add(value)

    def drop(self, step: int, value: float) -> None:
        self._sorted.remove(value)

    def add_all(self, trail: Trail) -> None:
        self._sorted = Ranked(value for value, _ in trail.between(trail.begin, trail.end))

    def median(self) -> float:
        self.learn()
        return midpoint(*middle(self._sorted))

    def quantile(self, above: int, below: int) -> float:
        """The value at the fraction above / below of the way up, on the line between its two neighbours."""
        self.learn()
        whole, part = divmod((len(self._sorted) - 1) * above, below)
        low = float(self._sorted[whole])
        return between(low, float(self._sorted[whole + 1]), part, below) if part else low

    def reason(self, step: int, time: float) -> Reason:
        known = self.usable and self.is_warm(step, time)
        return Reason.NONFINITE if known else super().reason(step, time)


class Spread(Ordered):
    """The finite points in order of size."""

    with_infinite = False
    enough = 5

    def clear(self) -> None:
        super().clear()
        self._selection = Selection()

    def half_deviation(self) -> float:
        """Half the median distance from the median; the whole may be too large for a float."""
        self.learn()
        n = len(self._sorted)
        nearer, farther = self._selection.find(outwards(self._sorted, *middle(self._sorted)), (n + 1) // 2)
        return nearer if n % 2 else midpoint(nearer, farther)

    def reason(self, step: int, time: float) -> Reason:
        return Window.reason(self, step, time)


def middle(ordered: Sequence[float]) -> tuple[float, float]:
    """The middle two of sorted numbers; of an odd number the middle one twice. Their midpoint is the median."""
    n = len(ordered)
    high = float(ordered[n // 2])
    return (high, high) if n % 2 else (float(ordered[n // 2 - 1]), high)


def between(low: float, high: float, part: int, of: int) -> float:
    """The number `part` parts `of` so many on the way from low to high, rounded once; -inf and inf give NaN.

    >>> between(-1.0, 1.0, 1, 4), between(1e308, -1e308, 1, 2), between(3.0, float("inf"), 1, 10)
    (-0.5, 0.0, inf)
    """
    if low == high:
        return low
    if math.isinf(low) or math.isinf(high):
        return low + high
    (a, b), (c, d) = low.as_integer_ratio(), high.as_integer_ratio()
    return (a * d * (of - part) + c * b * part) / (b * d * of)
