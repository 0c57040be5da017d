"""One window of a recorded run at once: what its kernel would know, without going through its points."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from vitalsdsl.ground.types import SAMPLES, STEPS, Extent
from vitalsdsl.kernels.columns import Array, Rows
from vitalsdsl.kernels.moments import Moments
from vitalsdsl.kernels.whole_sums import whole_sums


def bounds(points: Array, rows: Rows, extent: Extent, at: Array) -> tuple[Array, Array, Array]:
    """Of the windows of a stream that end at some rows, where in its points (whose rows are given) they begin and end, and
    whether they are warm; as `Window` has them."""
    end = np.searchsorted(points, at, side="right")
    if extent.unit == SAMPLES:
        return np.maximum(end - int(np.ceil(extent.size)), 0), end, end >= extent.size
    now, placed = rows.steps, 0
    if extent.unit != STEPS:
        # Before the first time there is a point in no window of time.
        now, known = rows.times, rows.times == rows.times
        placed = int(np.argmax(known)) if known.any() else len(now)
    first = int(np.searchsorted(points, placed))
    if first == len(points):
        return end, end, np.zeros(len(at), bool)
    gone = now[at] - extent.size
    if extent.unit == STEPS:
        gone = np.floor(gone).astype(now.dtype)  # of one type with the steps, which else were all made floats
    left = placed + np.searchsorted(now[placed:], gone, side="right")
    begin = np.clip(np.searchsorted(points, left), first, end)
    lived = now[at] - now[points[first]] + (extent.unit == STEPS)
    return np.minimum(begin, end), end, (end > first) & (lived >= extent.size)


_FINE = np.longdouble
_OFF = 128 * float(np.finfo(_FINE).eps)
"""What a sum of many digits may be off, as a share of what is summed: it is added pair by pair."""


class MomentsAtOnce(Moments):
    """The moments of finite points that are there at once: with as many digits as it takes to round them rightly."""

    def __init__(self, extent: Extent, values: Array) -> None:
        super().__init__(extent)
        self.usable = len(values)
        self._values = values
        self._is_summed = False

    def sum(self) -> float:
        return self._exactly(super().sum)

    def mean(self) -> float:
        fine, n = self._values.astype(_FINE), self.usable
        found = _rounded(fine.sum() / n, _OFF * np.abs(fine).sum() / n)
        return self._exactly(super().mean) if found is None else found

    def var(self) -> float:
        found = self._spread_out()
        return self._exactly(super().var) if found is None else found

    def std(self) -> float:
        square = self._spread_out()
        return math.sqrt(square) if square is not None and 1e-290 < square < 1e290 else self._exactly(super().std)

    def cv(self) -> float:
        return self._exactly(super().cv)

    def _spread_out(self) -> float | None:
        fine, n = self._values.astype(_FINE), self.usable
        fine -= _FINE(float(fine.sum() / n))
        first, second = fine.sum(), (fine * fine).sum()
        square = (second - first * first / n) / (n - 1)
        return _rounded(square, _OFF * (2 * second + np.abs(first) * np.sqrt(second)) / (n - 1)) if second else None

    def _exactly(self, read: Callable[[], float]) -> float:
        if not self._is_summed:
            self.put(*whole_sums(self._values), self.usable)
            self._is_summed = True
        return read()


def _rounded(value: Any, off: Any) -> float | None:
    """A number in floats; None where so many digits do not say to which side it is rounded."""
    low, high = float(value - off), float(value + off)
    return low if low == high != 0.0 and math.isfinite(low) else None
