"""The points of a window in order of size: median, quantiles, and how far the points lie from their median."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vitalsdsl.ground.types import Reason
from vitalsdsl.kernels.deferred import Deferred
from vitalsdsl.kernels.exact import midpoint
from vitalsdsl.kernels.kept_in_order import FEW
from vitalsdsl.kernels.ranked import Ranked
from vitalsdsl.kernels.selection import Selection, outwards
from vitalsdsl.kernels.trail import Trail
from vitalsdsl.kernels.window import Window

_SELDOM, _SHARE = 8, 8
"""Where somebody asks after so many points, of which one in so many are new, all are put in order at once."""


class Ordered(Deferred):
    """The points in order of size, ±inf among them."""

    __slots__ = ("_asked", "_sorted")

    _asked: int

    with_infinite = True

    def in_order(self) -> Sequence[float]:
        """The points, the lowest first."""
        trail = self.trail
        end: int = trail.end
        since, self._asked = end - self._asked, end
        if self.usable <= FEW or since > _SELDOM and trail.end - self._to > self.usable // _SHARE:
            return sorted(trail.values(trail.begin, trail.end))
        self.learn()
        return self._sorted.whole()

    def clear(self) -> None:
        self._sorted = Ranked()
        self._asked = -_SELDOM
        """How many points had come when somebody asked last."""

    def add(self, step: int, value: float) -> None:
        self._sorted.add(value)

    def drop(self, step: int, value: float) -> None:
        self._sorted.remove(value)

    def add_all(self, trail: Trail) -> None:
        self._sorted = Ranked(value for value, _ in trail.between(trail.begin, trail.end))

    def median(self) -> float:
        return midpoint(*middle(self.in_order()))

    def quantile(self, above: int, below: int) -> float:
        """The value at the fraction above / below of the way up, on the line between its two neighbours."""
        ordered = self.in_order()
        whole, part = divmod((len(ordered) - 1) * above, below)
        low = float(ordered[whole])
        return between(low, float(ordered[whole + 1]), part, below) if part else low

    def reason(self, step: int, time: float) -> Reason:
        known = self.usable and self.is_warm(step, time)
        return Reason.NONFINITE if known else super().reason(step, time)


class Spread(Ordered):
    """The finite points in order of size."""

    __slots__ = ("_selection",)

    with_infinite = False
    enough = 5

    def clear(self) -> None:
        super().clear()
        self._selection = Selection()

    def half_deviation(self) -> float:
        """Half the median distance from the median; the whole may be too large for a float."""
        return half_deviation(self.in_order(), self._selection)

    def reason(self, step: int, time: float) -> Reason:
        return Window.reason(self, step, time)


def middle(ordered: Sequence[float]) -> tuple[float, float]:
    """The middle two of sorted numbers; of an odd number the middle one twice. Their midpoint is the median."""
    n = len(ordered)
    high = float(ordered[n // 2])
    return (high, high) if n % 2 else (float(ordered[n // 2 - 1]), high)


def half_deviation(ordered: Sequence[float], selection: Selection) -> float:
    """Half the median distance of sorted numbers from their median.

    The nearest half of them stand side by side. Where they begin is searched for as in a list of distances that first fall
    and then rise. The middle two of an even number are kept apart: rounded to one float, their midpoint would spoil small
    distances between large numbers. Of so many that they are kept in pieces the selection finds the place from where it was
    last.

    >>> half_deviation([1.0, 2.0, 4.0, 9.0, 30.0], Selection()), half_deviation([1.0, 1.5, 2.0, 1e308], Selection())
    (1.5, 0.25)
    """
    if isinstance(ordered, Ranked):
        return half_median_distance([ordered], selection)
    low, high = (number / 2 for number in middle(ordered))

    def apart(at: int) -> float:
        half = ordered[at] / 2
        return abs(midpoint(half - low, half - high))

    def twice_apart(at: int) -> float:  # the same, sooner, where it is not too large
        half = ordered[at] / 2
        return abs((half - low) + (half - high))

    n, last = len(ordered), len(ordered) - 1
    is_large = math.isinf(twice_apart(0)) or math.isinf(twice_apart(last))
    distance = apart if is_large else twice_apart
    nearest = (n + 1) // 2
    begin, end = 0, n - nearest
    while begin < end:
        at = (begin + end) // 2
        if distance(at) > distance(at + nearest):
            begin = at + 1
        else:
            end = at
    near = max(distance(begin), distance(begin + nearest - 1))
    share = 1 if is_large else 2
    if n % 2:
        return near / share
    before, after = begin - 1, begin + nearest
    far = min(distance(at) for at in (before, after) if 0 <= at <= last)
    return midpoint(near / share, far / share)


def half_median_distance(groups: Sequence[Sequence[float]], selection: Selection) -> float:
    """Half the median distance of sorted numbers, in some groups, from the median of their own."""
    n = sum(map(len, groups))
    if n <= FEW:
        twice = []
        for ordered in groups:
            low, high = (number / 2 for number in middle(ordered))
            twice += [abs((number / 2 - low) + (number / 2 - high)) for number in ordered]
        twice.sort()
        if twice[-1] < math.inf:
            return twice[n // 2] / 2 if n % 2 else midpoint(twice[n // 2 - 1] / 2, twice[n // 2] / 2)
    distances = [each for ordered in groups for each in outwards(ordered, *middle(ordered))]
    nearer, farther = selection.find(distances, (n + 1) // 2)
    return nearer if n % 2 else midpoint(nearer, farther)


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
