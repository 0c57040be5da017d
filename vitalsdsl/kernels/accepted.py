"""The points that a reference has accepted: what x usually is, learnt only while nothing is wrong."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import ClassVar

from vitalsdsl.ground.types import SAMPLES, STEPS, TIME, Extent, Reason
from vitalsdsl.kernels.exact import midpoint
from vitalsdsl.kernels.kept_in_order import KeptInOrder
from vitalsdsl.kernels.ordered import half_deviation, middle
from vitalsdsl.kernels.selection import Selection
from vitalsdsl.kernels.state import State
from vitalsdsl.kernels.trail import Ring, Trail

ENOUGH = 5
"""Of fewer points nothing is said."""


class Accepted(State):
    """A window over accepted points that ends at the newest of them.

    A point waits until its step's conditions are known: `decide` lets it in or drops it. What is read at a step is
    therefore made of earlier steps' points alone, so a condition may stand on the reference that it freezes. The points
    are put in order when somebody asks.
    """

    remembered = ("first", "count", "newest", "points", "pending")
    quicker: ClassVar[Mapping[str, str]] = {"points": "trail"}

    def __init__(self, extent: Extent) -> None:
        self.size = extent.size
        self.unit = extent.unit
        self.first = math.nan
        self.count = 0
        self.newest = math.nan
        self.trail = self._new_trail()
        self.pending: tuple[float, float] | None = None
        self.moved = 0
        """No more points than that have been let in, and no more have gone, since it was made."""
        self.restored()

    def restored(self) -> None:
        self._selection = Selection()
        self._values = KeptInOrder(self.trail)
        self._distances = KeptInOrder(self.trail, _distance)
        self._usual: float | None = None
        self._noise: float | None = None
        self.moved += len(self.trail) + 1

    def push(self, step: int, time: float, value: float) -> None:
        at: float = time if self.unit == TIME else step
        if at == at:
            if self.first != self.first:
                self.first = at
            self.pending = (at, value)

    def decide(self, accept: bool) -> None:
        """Let the waiting point in, or forget it."""
        pending, self.pending = self.pending, None
        if pending is None or not accept or not math.isfinite(pending[1]):
            return
        at, value = pending
        trail = self.trail
        self.count += 1
        self.newest = at
        self._append(at, value)
        gone = 0
        if self.unit == SAMPLES:
            while len(trail) > self.size:
                trail.popleft()
                gone += 1
        elif trail.oldest <= at - self.size:
            gone = trail.forget(at - self.size)
        self.moved += max(1, gone)
        self._usual = self._noise = None

    @property
    def points(self) -> deque[tuple[float, float]]:
        """(place, value) of the accepted points, as they are saved."""
        return deque((at, value) for at, value, _ in self.trail)

    @points.setter
    def points(self, points: deque[tuple[float, float]]) -> None:
        self.trail = self._new_trail()
        for at, value in points:
            self._append(at, value)

    def _new_trail(self) -> Trail:
        return Trail(Ring(TIME if self.unit == TIME else STEPS))

    def _append(self, at: float, value: float) -> None:
        """Where places are times, nobody asks for steps: points are counted there."""
        self.trail.append(at, value, self.trail.end if self.unit == TIME else int(at))

    @property
    def is_known(self) -> bool:
        return self._is_warm() and len(self.trail) >= ENOUGH

    def _is_warm(self) -> bool:
        if self.unit == SAMPLES:
            return self.count >= self.size
        if self.unit == STEPS:
            return self.newest - self.first + 1 >= self.size
        return self.newest - self.first >= self.size

    def usual(self, step: int, time: float) -> float:
        """The median of the accepted points."""
        if self._usual is None:
            self._usual = midpoint(*middle(self._ordered(self._values))) if self.is_known else math.nan
        return self._usual

    def noise(self, step: int, time: float) -> float:
        """The greater of their mad and of the scatter between neighbours."""
        if self._noise is None:
            self._noise = math.nan
            if self.is_known:
                half = half_deviation(self._ordered(self._values), self._selection)
                self._noise = max(1.4826 * 2 * half, midpoint(*middle(self._ordered(self._distances))) / 0.954)
        return self._noise

    def _ordered(self, of: KeptInOrder) -> Sequence[float]:
        return of.between(self.trail.begin, self.trail.end)

    def reason(self, step: int, time: float) -> Reason:
        if self.first != self.first:
            return Reason.ABSENT
        return Reason.TOO_FEW if self._is_warm() else Reason.WARMING


def _distance(before: float, after: float) -> float:
    return abs(after - before)
