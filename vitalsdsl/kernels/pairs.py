"""Two streams together: the steps of a window at which both have a point."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import ClassVar

from vitalsdsl.ground.types import TIME, Extent
from vitalsdsl.kernels.exact import Grid, root
from vitalsdsl.kernels.window import Window


class Pairs(Window):
    """The sums of x, y, x², y² and x·y as whole numbers. A pair is usable where both of its values are finite."""

    remembered = (*Window.remembered, "seconds", "waiting_first", "waiting_second")
    quicker: ClassVar[Mapping[str, str]] = {"points": "trail"}
    enough = 2
    shares = False

    def __init__(self, extent: Extent) -> None:
        super().__init__(extent)
        self.seconds: deque[float] = deque()
        """y of the usable pairs, beside `points`, which has x."""
        self.waiting_first: tuple[float, float] = (math.nan, math.nan)
        self.waiting_second: tuple[float, float] = (math.nan, math.nan)
        self._first = Grid(self._first_widened)
        self._second = Grid(self._second_widened)
        self.clear()

    def clear(self) -> None:
        self._first.reset()
        self._second.reset()
        self._x = self._y = self._xx = self._yy = self._xy = 0

    def _first_widened(self, bits: int) -> None:
        self._x <<= bits
        self._xy <<= bits
        self._xx <<= 2 * bits

    def _second_widened(self, bits: int) -> None:
        self._y <<= bits
        self._xy <<= bits
        self._yy <<= 2 * bits

    def push(self, step: int, time: float, value: float) -> None:
        self.waiting_first = (step, value)
        if self.waiting_second[0] == step:
            self._pair(step, time)

    def push_second(self, step: int, time: float, value: float) -> None:
        self.waiting_second = (step, value)
        if self.waiting_first[0] == step:
            self._pair(step, time)

    def _pair(self, step: int, time: float) -> None:
        if self.unit == TIME and time != time:
            return  # a run without wall times has no windows of time
        first, second = self.waiting_first[1], self.waiting_second[1]
        usable = math.isfinite(first) and math.isfinite(second)
        if usable:
            self.seconds.append(second)
        super().push(step, time, first if usable else math.nan)

    def add(self, step: int, value: float) -> None:
        first, second = self._first.whole(value), self._second.whole(self.seconds[-1])
        self._x += first
        self._y += second
        self._xx += first * first
        self._yy += second * second
        self._xy += first * second

    def drop(self, step: int, value: float) -> None:
        other = self.seconds.popleft()
        if not self.usable:
            self.clear()
            return
        first, second = self._first.whole(value), self._second.whole(other)
        self._x -= first
        self._y -= second
        self._xx -= first * first
        self._yy -= second * second
        self._xy -= first * second

    def restored(self) -> None:
        points, seconds = list(self.trail), self.seconds
        self.points, self.seconds, self.usable = deque(), deque(), 0
        self.clear()
        for (at, value, step), second in zip(points, seconds):
            self.trail.append(at, value, step)
            self.seconds.append(second)
            self.usable += 1
            self.add(step, value)

    def correlation(self) -> float:
        """Pearson's r; NaN where one of the two does not vary."""
        n = self.usable
        first = n * self._xx - self._x * self._x
        second = n * self._yy - self._y * self._y
        together = n * self._xy - self._x * self._y
        if not first or not second:
            return math.nan
        size = root(together * together, first * second)
        return size if together > 0 else -size
