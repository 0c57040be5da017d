"""The two halves of a window, and whether they differ by more than chance."""

from __future__ import annotations

import math

from vitalsdsl.ground.types import SAMPLES, STEPS, Reason
from vitalsdsl.kernels.deferred import Deferred
from vitalsdsl.kernels.exact import midpoint, total
from vitalsdsl.kernels.kept_in_order import KeptInOrder
from vitalsdsl.kernels.ordered import half_median_distance, middle
from vitalsdsl.kernels.selection import Selection

_LEAST = 4
"""A half of fewer points says nothing."""
_LARGE, _SMALLER = 1e300, 2.0**-20


class Halves(Deferred):
    """The earlier half of a window and the later half, and half the differences of neighbours, each in order of size."""

    __slots__ = ("_bound", "_differences", "_early", "_late", "_of", "_selection", "_trend")

    enough = 2 * _LEAST

    def clear(self) -> None:
        self._bound = math.nan
        self._early = KeptInOrder(self.trail)
        self._late = KeptInOrder(self.trail)
        self._differences = KeptInOrder(self.trail, _half_distance)
        self._trend: tuple[float, float, float] | None = None
        self._of: tuple[int, int, int] | None = None
        """The numbers of the points that it is the trend of: where the halves begin and end."""
        self._selection = Selection()

    def advance(self, step: int, time: float) -> None:
        super().advance(step, time)
        self._bound = (step if self.unit == STEPS else time) - self.size / 2

    def _halves(self) -> tuple[int, int, int]:
        trail = self.trail
        is_counted = self.unit == SAMPLES
        return trail.begin, trail.begin + self.usable // 2 if is_counted else trail.up_to(self._bound), trail.end

    def trend(self) -> tuple[float, float, float] | None:
        """(d, se, median of the earlier half): by how much the later half is higher, and the standard error of that.

        All three in a unit of its own, in which none is too large for a float. None where a half has too few points.
        """
        halves = self._halves()
        if halves != self._of:
            self._of, self._trend = halves, self._work_out(*halves)
        return self._trend

    def _work_out(self, begin: int, half: int, end: int) -> tuple[float, float, float] | None:
        early, late = half - begin, end - half
        if early < _LEAST or late < _LEAST:
            return None
        halves = self._early.between(begin, half), self._late.between(half, end)
        (a, b), (c, d) = map(middle, halves)
        sigma = midpoint(*middle(self._differences.between(begin, end))) / 0.954
        wide = 1.4826 * half_median_distance(halves, self._selection)
        if max(abs(a), abs(b), abs(c), abs(d), sigma, wide) > _LARGE:
            a, b, c, d, sigma, wide = (value * _SMALLER for value in (a, b, c, d, sigma, wide))
        rise = c / 2 - a / 2 if a == b and c == d else total((c / 4, d / 4, -a / 4, -b / 4))
        likeness = sigma / wide if wide else 1.0
        r = min(max(1 - likeness * likeness, 0.0), 0.95)
        error = 1.2533 * sigma * math.sqrt(1 / early + 1 / late) * math.sqrt((1 + r) / (1 - r))
        return rise, error, midpoint(a, b) / 2

    def reason(self, step: int, time: float) -> Reason:
        begin, half, end = self._halves()
        few = self.is_warm(step, time) and (half - begin < _LEAST or end - half < _LEAST)
        return Reason.TOO_FEW if few else super().reason(step, time)


def _half_distance(before: float, after: float) -> float:
    return abs(after / 2 - before / 2)
