"""The two halves of a window, and whether they differ by more than chance."""

from __future__ import annotations

import math
from collections import deque

from vitalsdsl.ground.types import SAMPLES, STEPS, Extent, Reason
from vitalsdsl.kernels.exact import midpoint, total
from vitalsdsl.kernels.ordered import middle
from vitalsdsl.kernels.ranked import Ranked
from vitalsdsl.kernels.selection import Selection, outwards
from vitalsdsl.kernels.window import Window

_LEAST = 4
"""A half of fewer points says nothing."""
_LARGE, _SMALLER = 1e300, 2.0**-20


class Halves(Window):
    """The earlier half of a window, the later half and half the differences of neighbours, each in order of size."""

    enough = 2 * _LEAST

    def __init__(self, extent: Extent) -> None:
        super().__init__(extent)
        self.clear()

    def clear(self) -> None:
        self._early = Ranked()
        self._late = Ranked()
        self._differences = Ranked()
        self._recent: deque[tuple[float, float]] = deque()
        """(place, value) of the later half, in order of arrival."""
        self._trend: tuple[float, float, float] | None = None
        self._is_current = False
        self._selection = Selection()

    def add(self, step: int, value: float) -> None:
        if len(self.trail) > 1:
            self._differences.add(abs(value / 2 - self.trail.value(-2) / 2))
        self._late.add(value)
        self._recent.append((self.trail.place(-1), value))
        self._is_current = False

    def drop(self, step: int, value: float) -> None:
        if len(self.trail):
            self._differences.remove(abs(self.trail.value(0) / 2 - value / 2))
        if self._early:
            self._early.remove(value)
        else:
            self._recent.popleft()
            self._late.remove(value)
        self._is_current = False

    def advance(self, step: int, time: float) -> None:
        super().advance(step, time)
        recent = self._recent
        if self.unit == SAMPLES:
            while len(self._early) < self.usable // 2:
                self._grow_old()
        else:
            bound = (step if self.unit == STEPS else time) - self.size / 2
            while recent and recent[0][0] <= bound:
                self._grow_old()

    def _grow_old(self) -> None:
        value = self._recent.popleft()[1]
        self._late.remove(value)
        self._early.add(value)
        self._is_current = False

    def trend(self) -> tuple[float, float, float] | None:
        """(d, se, median of the earlier half): by how much the later half is higher, and the standard error of that.

        All three in a unit of its own, in which none is too large for a float. None where a half has too few points.
        """
        if not self._is_current:
            self._trend = self._work_out()
            self._is_current = True
        return self._trend

    def _work_out(self) -> tuple[float, float, float] | None:
        early, late = len(self._early), len(self._late)
        if early < _LEAST or late < _LEAST:
            return None
        (a, b), (c, d) = middle(self._early), middle(self._late)
        sigma, wide = midpoint(*middle(self._differences)) / 0.954, 1.4826 * self._deviation((a, b), (c, d))
        if max(abs(a), abs(b), abs(c), abs(d), sigma, wide) > _LARGE:
            a, b, c, d, sigma, wide = (value * _SMALLER for value in (a, b, c, d, sigma, wide))
        rise = c / 2 - a / 2 if a == b and c == d else total((c / 4, d / 4, -a / 4, -b / 4))
        likeness = sigma / wide if wide else 1.0
        r = min(max(1 - likeness * likeness, 0.0), 0.95)
        error = 1.2533 * sigma * math.sqrt(1 / early + 1 / late) * math.sqrt((1 + r) / (1 - r))
        return rise, error, midpoint(a, b) / 2

    def _deviation(self, early: tuple[float, float], late: tuple[float, float]) -> float:
        """Half the median distance of the points from the median of their own half."""
        n = self.usable
        sequences = [*outwards(self._early, *early), *outwards(self._late, *late)]
        nearer, farther = self._selection.find(sequences, (n + 1) // 2)
        return nearer if n % 2 else midpoint(nearer, farther)

    def reason(self, step: int, time: float) -> Reason:
        few = self.is_warm(step, time) and (len(self._early) < _LEAST or len(self._late) < _LEAST)
        return Reason.TOO_FEW if few else super().reason(step, time)
