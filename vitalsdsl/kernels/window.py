"""The points of a stream in a window of steps, samples or time."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from vitalsdsl.ground.types import SAMPLES, STEPS, TIME, Extent, Reason
from vitalsdsl.kernels.state import State
from vitalsdsl.kernels.trail import Ring, Trail


class Window(State):
    """The base of all windows.

    A window of steps holds the points with step in (s - W, s], of time likewise; of samples the last W points, NaN
    included. It is warm once its span has been lived since the stream's first point, or once it holds W samples.
    Subclasses say what is learnt from a usable point (`add`) and forgotten with it (`drop`); points go in order.
    """

    __slots__ = ("first", "seen", "size", "trail", "unit", "usable")

    remembered: ClassVar[tuple[str, ...]] = ("first", "seen", "points")
    with_infinite: ClassVar[bool] = False
    """Whether ±inf is usable here; NaN never is."""
    enough: ClassVar[int] = 1
    """With so many usable points an unknown answer has another reason than `too few points`."""
    shares: ClassVar[bool] = True
    """Whether its points are those of its one stream."""
    learns_at_once: ClassVar[bool] = True
    """Whether `add` and `drop` come with the points, not when somebody asks."""

    def __init__(self, extent: Extent) -> None:
        self.size = extent.size
        self.unit = extent.unit
        self.first = math.nan
        self.seen = 0
        self.usable = 0
        self.trail = Trail(Ring(extent.unit))
        """Its points, which stand together with those of other windows over its stream."""

    def share(self, ring: Ring) -> None:
        """Keep its points there, before any has come."""
        ring.is_saved = True
        self.trail = Trail(ring)
        self.clear()

    def _begin_again(self, points: Iterable[tuple[float, float, int]] = ()) -> None:
        """On the same ring, with these points alone."""
        ring = self.trail.ring
        self.trail.leave()
        self.trail = Trail.of(points, ring)

    def add(self, step: int, value: float) -> None:
        raise NotImplementedError

    def drop(self, step: int, value: float) -> None:
        raise NotImplementedError

    def push(self, step: int, time: float, value: float) -> None:
        unit = self.unit
        at: float = step if unit == STEPS else self.seen if unit == SAMPLES else time
        if at != at:
            return  # a run without wall times has no windows of time
        if self.first != self.first:
            self.first = at
        self.seen += 1
        if value - value == 0.0 or (self.with_infinite and value == value):
            self.usable += 1
            self.trail.append(at, value, step)
            if self.learns_at_once:
                self.add(step, value)
        bound = at - self.size
        if self.trail.oldest <= bound:
            self._forget(bound)

    def advance(self, step: int, time: float) -> None:
        """Forget what the window has left behind at the close of this step."""
        if self.unit != SAMPLES:
            bound = (step if self.unit == STEPS else time) - self.size
            if self.trail.oldest <= bound:
                self._forget(bound)

    def _forget(self, bound: float) -> None:
        trail = self.trail
        while trail.oldest <= bound:
            value, at = trail.popleft()
            self.usable -= 1
            self.drop(at, value)

    def is_warm(self, step: int, time: float) -> bool:
        if self.unit == STEPS:
            return step - self.first + 1 >= self.size
        if self.unit == SAMPLES:
            return self.seen >= self.size
        return time - self.first >= self.size

    def reason(self, step: int, time: float) -> Reason:
        if not self.seen:
            return Reason.ABSENT
        if not self.is_warm(step, time):
            return Reason.WARMING
        return Reason.TOO_FEW if self.usable < self.enough else Reason.UNDEFINED

    def restored(self) -> None:
        points, self.usable = list(self.trail), 0
        self._begin_again()
        self.clear()
        for at, value, step in points:
            self.trail.append(at, value, step)
            self.usable += 1
            self.add(step, value)

    @property
    def points(self) -> deque[tuple[float, float, int]] | list[int]:
        """(place on the window's axis, value, step) in order of arrival, as they are saved; where its ring is, which of
        those it has."""
        return self.trail.which() if self.trail.ring.is_saved else deque(self.trail)

    @points.setter
    def points(self, points: Sequence[Any]) -> None:
        if len(points) == 2 and isinstance(points[0], int):
            self.trail.have(*points)
            return
        whole = self.unit != TIME
        self._begin_again((int(place), value, step) if whole else (place, value, step) for place, value, step in points)

    def clear(self) -> None:
        """Forget everything learnt by `add`."""
        raise NotImplementedError
