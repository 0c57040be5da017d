"""The exponential moving average."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from typing import Any

from vitalsdsl.ground.types import Extent, Reason
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

    def _weigh(self, gap: int) -> tuple[Decimal, Decimal]:
        """w and 1 - w."""
        if gap != self._gap:
            old = _DIGITS.power(self._keep, gap)
            self._gap, self._weights = gap, (old, _DIGITS.subtract(1, old))
        return self._weights

    def read(self, step: int, time: float) -> float:
        if self.level is None or self.first is None or step - self.first + 1 < self.size:
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
