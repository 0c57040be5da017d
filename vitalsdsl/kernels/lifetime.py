"""A stream since its start: how many points, the lowest, the highest."""

from __future__ import annotations

import math

from vitalsdsl.ground.types import Reason
from vitalsdsl.kernels.state import State


class Lifetime(State):
    """All finite points since the start, as three numbers."""

    remembered = ("seen", "finite", "low", "high")

    def __init__(self) -> None:
        self.seen = False
        self.finite = 0
        self.low = math.nan
        self.high = math.nan

    def push(self, step: int, time: float, value: float) -> None:
        self.seen = True
        if value - value != 0.0:
            return
        self.finite += 1
        if not value >= self.low:
            self.low = value
        if not value <= self.high:
            self.high = value

    def count(self, step: int, time: float) -> float:
        """How many; 0 before the first."""
        return float(self.finite)

    def lowest(self, step: int, time: float) -> float:
        return self.low

    def highest(self, step: int, time: float) -> float:
        return self.high

    def reason(self, step: int, time: float) -> Reason:
        return Reason.NONFINITE if self.seen else Reason.ABSENT
