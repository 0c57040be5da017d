"""The newest point against those before it."""

from __future__ import annotations

import math
from collections import deque

from vitalsdsl.ground.types import SAMPLES, STEPS, Extent, Reason
from vitalsdsl.kernels.deferred import Points
from vitalsdsl.kernels.exact import total
from vitalsdsl.kernels.ordered import Spread, half_deviation, middle


class Preceding(Spread):
    """The finite points in [p - W, p), p being the newest point; of samples, of the W points before it.

    It changes only when a point comes, so its answer stays until the next one.
    """

    __slots__ = ("_score", "newest", "place", "waiting")

    remembered = (*Spread.remembered, "place", "newest", "waiting")

    def __init__(self, extent: Extent) -> None:
        super().__init__(extent)
        self.place = math.nan
        self.newest = math.nan
        self.waiting: deque[tuple[float, float, int]] = deque()
        """Points at the newest place itself: they are before the next one only."""
        self._score: float | None = None

    def push(self, step: int, time: float, value: float) -> None:
        at: float = step if self.unit == STEPS else self.seen if self.unit == SAMPLES else time
        if at != at:
            return
        if self.first != self.first:
            self.first = at
        self.seen += 1
        while self.waiting and self.waiting[0][0] < at:
            place, point, own_step = self.waiting.popleft()
            self.usable += 1
            self.trail.append(place, point, own_step)
        while self.trail.oldest < at - self.size:
            self.trail.popleft()
            self.usable -= 1
        self.place, self.newest = at, value
        if math.isfinite(value):
            self.waiting.append((at, value, step))
        self._score = None

    def push_many(self, points: Points) -> None:
        before = len(self.trail)
        places, last = self._placed(points)
        for place, point, own_step in self.waiting:
            self.trail.append(place, point, own_step)
        self.waiting.clear()
        values, steps = points.values, points.steps
        if values and places[-1] == last:
            self.waiting.append((last, values[-1], steps[-1]))
            places, values, steps = places[:-1], values[:-1], steps[:-1]
        if values:
            self.trail.extend(places, values, steps)
        self.trail.forget(math.ceil(last - self.size) - 1)
        self.usable += len(self.trail) - before
        self.place, self.newest, self._score = last, points.newest, None

    def restored(self) -> None:
        super().restored()
        self._score = None

    def is_warm(self, step: int, time: float) -> bool:
        return self.place - self.first >= self.size

    def read(self, step: int, time: float) -> float:
        """(newest - median) / mad."""
        if self._score is None:
            self._score = self._work_out()
        return self._score

    def _work_out(self) -> float:
        x = self.newest
        if not self.place - self.first >= self.size or self.usable < 5 or x - x != 0.0:
            return math.nan
        ordered = self.in_order()
        scale = half_deviation(ordered, self._selection)
        if not scale:
            return math.nan
        low, high = middle(ordered)
        above = x / 2 - low / 2 if low == high else total((x / 4, x / 4, -low / 4, -high / 4))
        score = above / scale / 1.4826
        return score if score - score == 0.0 else math.nan

    def reason(self, step: int, time: float) -> Reason:
        if self.is_warm(step, time) and not math.isfinite(self.newest):
            return Reason.NONFINITE
        return super().reason(step, time)
