"""The points that a reference has accepted: what x usually is, learnt only while nothing is wrong."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import ClassVar

from vitalsdsl.ground.types import SAMPLES, STEPS, TIME, Extent, Reason
from vitalsdsl.kernels.exact import midpoint
from vitalsdsl.kernels.ordered import middle
from vitalsdsl.kernels.ranked import Ranked
from vitalsdsl.kernels.selection import Selection, outwards
from vitalsdsl.kernels.state import State
from vitalsdsl.kernels.trail import Trail

_ENOUGH = 5


class Accepted(State):
    """A window over accepted points that ends at the newest of them.

    A point waits until its step's conditions are known: `decide` lets it in or drops it. What is read at a step is
    therefore made of earlier steps' points alone, so a condition may stand on the reference that it freezes.
    """

    remembered = ("first", "count", "newest", "points", "pending")
    quicker: ClassVar[Mapping[str, str]] = {"points": "trail"}

    def __init__(self, extent: Extent) -> None:
        self.size = extent.size
        self.unit = extent.unit
        self.first = math.nan
        self.count = 0
        self.newest = math.nan
        self.trail = Trail(by_step=self.unit != TIME)
        self.pending: tuple[float, float] | None = None
        self.restored()

    def restored(self) -> None:
        self._selection = Selection()
        self._sorted = Ranked(value for _, value, _ in self.trail)
        self._steps: Ranked | None = None
        """The distances between neighbours, once somebody asks for the noise."""
        self._usual: float | None = None
        self._noise: float | None = None

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
        if self._steps is not None and len(trail):
            self._steps.add(abs(value - trail.value(-1)))
        self.count += 1
        self.newest = at
        trail.append(at, value, 0 if self.unit == TIME else int(at))
        self._sorted.add(value)
        if self.unit == SAMPLES:
            while len(trail) > self.size:
                self._forget()
        else:
            while trail.oldest <= at - self.size:
                self._forget()
        self._usual = self._noise = None

    def _forget(self) -> None:
        value, _ = self.trail.popleft()
        self._sorted.remove(value)
        if self._steps is not None and len(self.trail):
            self._steps.remove(abs(self.trail.value(0) - value))

    @property
    def points(self) -> deque[tuple[float, float]]:
        """(place, value) of the accepted points, as they are saved."""
        return deque((at, value) for at, value, _ in self.trail)

    @points.setter
    def points(self, points: deque[tuple[float, float]]) -> None:
        self.trail = Trail(by_step=self.unit != TIME)
        for at, value in points:
            self.trail.append(at, value, 0 if self.unit == TIME else int(at))

    @property
    def is_known(self) -> bool:
        return self._is_warm() and len(self.trail) >= _ENOUGH

    def _is_warm(self) -> bool:
        if self.unit == SAMPLES:
            return self.count >= self.size
        if self.unit == STEPS:
            return self.newest - self.first + 1 >= self.size
        return self.newest - self.first >= self.size

    def usual(self, step: int, time: float) -> float:
        """The median of the accepted points."""
        if self._usual is None:
            self._usual = midpoint(*middle(self._sorted)) if self.is_known else math.nan
        return self._usual

    def noise(self, step: int, time: float) -> float:
        """The greater of their mad and of the scatter between neighbours."""
        if self._noise is None:
            self._noise = math.nan
            if self.is_known:
                n = len(self._sorted)
                distances = outwards(self._sorted, *middle(self._sorted))
                nearer, farther = self._selection.find(distances, (n + 1) // 2)
                half = nearer if n % 2 else midpoint(nearer, farther)
                self._noise = max(1.4826 * 2 * half, midpoint(*middle(self._distances())) / 0.954)
        return self._noise

    def _distances(self) -> Ranked:
        if self._steps is None:
            values = [value for _, value, _ in self.trail]
            self._steps = Ranked(abs(b - a) for a, b in zip(values, values[1:]))
        return self._steps

    def reason(self, step: int, time: float) -> Reason:
        if self.first != self.first:
            return Reason.ABSENT
        return Reason.TOO_FEW if self._is_warm() else Reason.WARMING
