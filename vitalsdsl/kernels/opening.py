"""The first stretch of a stream, or the first after an event: fixed once it is complete."""

from __future__ import annotations

import math

from vitalsdsl.ground.types import STEPS, TIME, Extent, Reason
from vitalsdsl.kernels.exact import mean, midpoint
from vitalsdsl.kernels.ordered import middle
from vitalsdsl.kernels.state import State


class Opening(State):
    """The usable points of N steps, samples or seconds after the first `skip`; one number once they are complete."""

    remembered = ("start", "start_time", "seen", "count", "newest", "values", "value")

    def __init__(self, extent: Extent, skip: float, by: str) -> None:
        self.size = extent.size
        self.unit = extent.unit
        self.skip = skip
        self.by = by
        self.start: int | None = None
        """The step of the first point or of the newest edge."""
        self.start_time = math.nan
        self.seen = False
        self.count = 0
        """Points since the start."""
        self.newest: tuple[float, float, float] = (math.nan, math.nan, math.nan)
        self.values: list[float] = []
        self.value: float | None = None

    def push(self, step: int, time: float, value: float) -> None:
        if self.unit == TIME and time != time:
            return  # a run without wall times has no stretches of time
        if self.start is None:
            self.start, self.start_time = step, time
        self.seen = True
        self.newest = (step, time, value)
        if self.value is None:
            self._take(self.start, step, time, value)

    def edge(self, step: int, time: float) -> None:
        self.start, self.start_time, self.count, self.value = step, time, 0, None
        self.values.clear()
        if self.newest[0] == step:
            self._take(step, step, *self.newest[1:])

    def _take(self, start: int, step: int, time: float, value: float) -> None:
        place: float = self.count
        if self.unit == STEPS:
            place = step - start
        elif self.unit == TIME:
            place = time - self.start_time
        self.count += 1
        if self.skip <= place < self.skip + self.size and math.isfinite(value):
            self.values.append(value)

    def _is_complete(self, step: int, time: float) -> bool:
        if self.start is None:
            return False
        lived: float = self.count
        if self.unit == STEPS:
            lived = step - self.start + 1
        elif self.unit == TIME:
            lived = time - self.start_time
        return lived >= self.skip + self.size

    def read(self, step: int, time: float) -> float:
        if self.value is None:
            if not self._is_complete(step, time):
                return math.nan
            self.value = self.settled(self.values)
            self.values.clear()
        return self.value

    def settled(self, values: list[float]) -> float:
        """The one number that a whole stretch comes to; NaN where nothing in it was usable."""
        if not values:
            return math.nan
        return midpoint(*middle(sorted(values))) if self.by == "median" else mean(values)

    def reason(self, step: int, time: float) -> Reason:
        if not self.seen:
            return Reason.ABSENT
        return Reason.TOO_FEW if self._is_complete(step, time) else Reason.WARMING
