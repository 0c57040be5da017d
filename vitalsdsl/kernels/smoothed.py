"""The exponential moving average."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from typing import Any

from vitalsdsl.ground.types import Extent, Reason
from vitalsdsl.kernels.deferred import Points
from vitalsdsl.kernels.state import State

_DIGITS = Context(prec=40)
"""Far more digits than a float has, so that rounding does not pile up, nor a spike leave its error behind."""


class Smoothed(State):
    """v += (1 - w)(x - v), w = (1 - 2/(N+1))^Δ, Δ the steps since the last usable point.

    Worked out as w v + (1 - w) x, so that the error of a past spike shrinks as the spike itself does.
    """

    remembered = ("first", "newest", "level")

    def __init__(self, extent: Extent) -> None:
        self.size = extent.size
        self.first: int | None = None
        self.newest = 0
        self.level: Decimal | None = None
        self._keep = _DIGITS.divide(Decimal(extent.size) - 1, Decimal(extent.size) + 1)
        self._gap = 0
        self._weights = (Decimal(1), Decimal(0))
        self._value = math.nan
        self._is_current = True

    def push(self, step: int, time: float, value: float) -> None:
        if self.first is None:
            self.first = step
        if value - value != 0.0:
            return
        x = Decimal(value)
        if self.level is None:
            self.level = x
        else:
            old, new = self._weigh(step - self.newest)
            self.level = _DIGITS.fma(old, self.level, _DIGITS.multiply(new, x))
        self.newest = step
        self._is_current = False

    def push_many(self, points: Points) -> None:
        if self.first is None:
            self.first = points.first
        if not points.values:
            return
        level, newest, gap, (old, new) = self.level, self.newest, self._gap, self._weights
        fma, multiply = _DIGITS.fma, _DIGITS.multiply
        for step, value in zip(points.steps, points.values):
            if level is None:
                level = Decimal(value)
            else:
                if step - newest != gap:
                    gap, (old, new) = step - newest, self._weigh(step - newest)
                level = fma(old, level, multiply(new, Decimal(value)))
            newest = step
        self.level, self.newest, self._is_current = level, newest, False

    @property
    def size_of_level(self) -> float:
        return abs(float(self.level)) if self.level is not None else 0.0

    def level_before(self, step: int, value: float, stride: int) -> tuple[float, float, float]:
        """For a next point at a step, others to come every so many steps: the level that a point so many steps before it would
        have, w, and how many times so many steps have gone by since the newest usable point. Near, not exact."""
        if self.level is None:
            return math.nan, math.nan, math.nan
        level, keep = float(self.level), float(self._keep)
        gap = step - self.newest
        if gap == stride or not math.isfinite(value) or not keep:
            return level, keep**stride, gap / stride
        return value + keep ** (gap - stride) * (level - value), keep**stride, 1.0

    def _weigh(self, gap: int) -> tuple[Decimal, Decimal]:
        """w and 1 - w."""
        if gap != self._gap:
            old = _DIGITS.power(self._keep, gap)
            self._gap, self._weights = gap, (old, _DIGITS.subtract(1, old))
        return self._weights

    def is_warm(self, step: int) -> bool:
        """Whether its span has been lived."""
        return self.first is not None and step - self.first + 1 >= self.size

    def until_lived(self, step: int, stride: int) -> int:
        """So many points come before that, or ever so many; the next one is at a step."""
        if self.first is None or self.is_warm(step):
            return 1 << 62
        return math.ceil((self.first + self.size - 1 - step) / stride)

    def read(self, step: int, time: float) -> float:
        if self.level is None or not self.is_warm(step):
            return math.nan
        if not self._is_current:
            self._value, self._is_current = float(self.level), True
        return self._value

    def reason(self, step: int, time: float) -> Reason:
        if self.first is None:
            return Reason.ABSENT
        return Reason.WARMING if step - self.first + 1 < self.size else Reason.TOO_FEW

    def save(self) -> list[Any]:
        return [self.first, self.newest, None if self.level is None else str(self.level)]

    def load(self, saved: list[Any]) -> None:
        self.first, self.newest, level = saved
        self.level = None if level is None else Decimal(level)
        self.restored()

    def restored(self) -> None:
        self._is_current = False
