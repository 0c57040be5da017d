"""The points of a window in order of size: median, quantiles, and how far the points lie from their median."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sortedcontainers import SortedList

from vitalsdsl.kernels.exact import midpoint
from vitalsdsl.kernels.window import Window
from vitalsdsl.types import Extent, Reason


class Ordered(Window):
    """The points in order of size, ±inf among them."""

    with_infinite = True

    def __init__(self, extent: Extent) -> None:
        super().__init__(extent)
        self.clear()

    def clear(self) -> None:
        self._sorted = SortedList()

    def add(self, step: int, value: float) -> None:
        self._sorted.add(value)

    def drop(self, step: int, value: float) -> None:
        self._sorted.remove(value)

    def median(self) -> float:
        return midpoint(*middle(self._sorted))

    def quantile(self, above: int, below: int) -> float:
        """The value at the fraction above / below of the way up, on the line between its two neighbours."""
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

    def deviation(self) -> float:
        """The median distance from the median."""
        return median_distance(self._sorted)

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


def median_distance(ordered: Sequence[float]) -> float:
    """The median of abs(x - median) over sorted finite numbers, without sorting the distances.

    The k nearest to the median are neighbours in the order, so a search over where that stretch begins is enough. The
    median of an even number of points is kept as its two halves: rounded, it would spoil small distances between large
    numbers.

    >>> median_distance([1.0, 2.0, 3.0, 5.0, 100.0]), median_distance([1e16, 1e16 + 2, 1e16 + 4, 1e16 + 10])
    (2.0, 2.0)
    """
    low, high = middle(ordered)
    n = len(ordered)
    k = (n + 1) // 2
    begin, end = 0, n - k
    while begin < end:
        at = (begin + end) // 2
        if -distance(ordered[at], low, high) > distance(ordered[at + k], low, high):
            begin = at + 1
        else:
            end = at
    first, last = distance(ordered[begin], low, high), distance(ordered[begin + k - 1], low, high)
    farthest = max(-first, last)
    if n % 2:
        return farthest
    beyond = [abs(distance(ordered[at], low, high)) for at in (begin - 1, begin + k) if 0 <= at < n]
    return midpoint(farthest, min(beyond))


def distance(x: float, low: float, high: float) -> float:
    """x less the midpoint of the middle two, for an x that is not strictly between them: nothing cancels."""
    return x - low if low == high else midpoint(x - low, x - high)
