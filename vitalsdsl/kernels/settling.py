"""Settling: between what medians, quantiles and the like of a window lie while some more points come.

No rank moves farther than by so many places as points come or go. So a value of order is known, near enough for most
comparisons, long after the points were put in order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from vitalsdsl.ground.types import STEPS
from vitalsdsl.kernels.deferred import Deferred
from vitalsdsl.kernels.preceding import Preceding

_SHARE = 12
"""One point in so many may come before they are put in order again."""

_LEAST = 8
"""Of fewer points nothing is said."""

_EVER = 1 << 62
_U = 2.0**-53
_UNKNOWN = math.nan, math.nan

Array = Any


class Settling:
    """One window and the points of a block to come."""

    def __init__(self, window: Deferred, what: Sequence[tuple[str, ...]]) -> None:
        self.window = window
        self._what = what
        self._old: Array = np.empty(0)
        self._places: Array = np.empty(0)
        self.is_warm = False
        self._stride = self._begun = self._back = 0
        self._bound: float = 0.0

    def until_lived(self, step: int, stride: int) -> int:
        """So many points come before its span has been lived, or ever so many if it has; the next one is at a step."""
        window = self.window
        at, apart = (step, stride) if window.unit == STEPS else (window.seen, 1)
        warm = window.size - (not isinstance(window, Preceding)) + (window.first if window.unit == STEPS else 0)
        self.is_warm = at >= warm
        return _EVER if self.is_warm else math.ceil((warm - at) / apart)

    def is_lived_before(self, step: int, stride: int, count: int) -> bool:
        """Whether its span, which had not been lived, has been before so many points have come."""
        return not self.is_warm and (self.until_lived(step, stride) < count or self.is_warm)

    @property
    def values(self) -> Array:
        """The points that came before the block."""
        return self._old

    def begin(self, step: int, stride: int, begun: int) -> None:
        """The next point will be at a step, others so many steps apart; the block has so many that the window has got."""
        window = self.window
        places, values = window.trail.columns()
        self._places, self._old = np.array(places), np.array(values)
        if isinstance(window, Preceding) and window.waiting:
            self._places = np.append(self._places, [place for place, _, _ in window.waiting])
            self._old = np.append(self._old, [value for _, value, _ in window.waiting])
        at, self._stride = (step, stride) if window.unit == STEPS else (window.seen, 1)
        self._begun = begun
        self._back = math.ceil(window.size) + isinstance(window, Preceding)
        self._bound = at - self._back

    def stop(self) -> None:
        """Nothing is known of the points to come."""
        self._stride = 0

    def settle(self, values: Sequence[float]) -> tuple[float, ...]:
        """Each value and how far it may be off, and for how many points more that stands; `values` are those of the block so
        far."""
        if not self._stride or not self.is_warm:
            return (*_UNKNOWN * _numbers(self._what), math.inf)
        index = len(values) - 1 - self._begun
        begin, gone = self._left(index)
        come = np.array(values[self._begun + gone : len(values) - isinstance(self.window, Preceding)])
        held = np.concatenate((self._old[begin:], come))
        held = held[held == held] if self.window.with_infinite else held[np.isfinite(held)]
        held.sort()
        more = max(1, len(held) // _SHARE)
        moves = max(more, sum(self._left(index + more)) - begin - gone)
        if len(held) - moves < _LEAST:
            return (*_UNKNOWN * _numbers(self._what), more)
        said: list[float] = []
        for what in self._what:
            said += _said(what, held, moves)
        return (*said, more)

    def _left(self, index: int) -> tuple[int, int]:
        """How many of the old points and of those of the block are gone when one of them has come."""
        old = int(self._places.searchsorted(self._bound + index * self._stride, side="right"))
        return old, max(0, (index * self._stride - self._back) // self._stride + 1)


def _numbers(what: Sequence[tuple[str, ...]]) -> int:
    return sum(2 if each[0] == "score" else 1 for each in what)


def _said(what: tuple[str, ...], held: Array, moves: int) -> tuple[float, ...]:
    if what[0] == "quantile":
        return _near(*_between(held, moves, int(what[1]), int(what[2])))
    low, high = _between(held, moves, 1, 2)
    level = _near(low, high)
    least = most = math.nan
    if math.isfinite(low) and math.isfinite(high):
        middle, off = low / 2 + high / 2, high / 2 - low / 2
        least, most = _between(np.sort(np.abs(held - middle)), moves, 1, 2)
        least, most = 1.4826 * max(0.0, least - off) * (1 - 8 * _U), 1.4826 * (most + off) * (1 + 8 * _U)
    if what[0] == "mad":
        return _near(least, most)
    return (*level, *(_near(1 / most, 1 / least) if least > 0.0 else _UNKNOWN))


def _between(ordered: Array, moves: int, above: int, below: int) -> tuple[float, float]:
    """Between what a quantile lies when up to so many numbers have come, and up to so many have gone."""
    last = len(ordered) - 1
    lowest = last * above // below - moves
    highest = -(last * -above // below) + moves
    low = float(ordered[lowest]) if lowest >= 0 else -math.inf
    return low, float(ordered[highest]) if highest <= last else math.inf


def _near(low: float, high: float) -> tuple[float, float]:
    """What lies in between, and how far off it may be, rounding included."""
    off = (high / 2 - low / 2) * (1 + 8 * _U) + 8 * _U * max(abs(low), abs(high))
    return (low / 2 + high / 2, off) if off < math.inf else _UNKNOWN
