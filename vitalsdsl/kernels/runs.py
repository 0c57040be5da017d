"""How long a stream has gone one way without a break."""

from __future__ import annotations

import math

from vitalsdsl.ground.types import Reason
from vitalsdsl.kernels.state import State


class Runs(State):
    """The lengths of the stretches that end at the newest point: without NaN, going up, going down."""

    remembered = ("seen", "whole", "up", "down", "newest")

    def __init__(self, n: int) -> None:
        self.n = n
        self.seen = 0
        self.whole = 0
        self.up = 0
        self.down = 0
        self.newest = math.nan

    def push(self, step: int, time: float, value: float) -> None:
        self.seen += 1
        if value != value:
            self.whole = self.up = self.down = 0
        else:
            self.whole += 1
            self.up = self.up + 1 if value > self.newest else 1
            self.down = self.down + 1 if value < self.newest else 1
        self.newest = value

    def rises(self, step: int, time: float) -> bool | None:
        """Whether each of the last n points but the first is above the one before."""
        return self.up >= self.n if self.whole >= self.n else None

    def falls(self, step: int, time: float) -> bool | None:
        """Whether each of the last n points but the first is below the one before."""
        return self.down >= self.n if self.whole >= self.n else None

    def reason(self, step: int, time: float) -> Reason:
        if not self.seen:
            return Reason.ABSENT
        return Reason.NONFINITE if self.seen >= self.n else Reason.WARMING
