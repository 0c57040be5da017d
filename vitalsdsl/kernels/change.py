"""What a stream is now, and what it was some way back."""

from __future__ import annotations

import math
from collections import deque

from vitalsdsl.ground.types import STEPS, Extent, Reason
from vitalsdsl.kernels.state import State


class Change(State):
    """The latest evaluation, and the latest at or before s - D (by time: t - D)."""

    takes_unknown = True
    remembered = ("seen", "newest", "earlier", "reached", "recent")

    def __init__(self, extent: Extent) -> None:
        self.size = extent.size
        self.unit = extent.unit
        self.seen = False
        self.newest = math.nan
        self.earlier = math.nan
        self.reached = False
        """Whether there is one far enough back."""
        self.recent: deque[tuple[float, float]] = deque()

    def push(self, step: int, time: float, value: float) -> None:
        at: float = step if self.unit == STEPS else time
        if at != at:
            return  # a run without wall times has no past that is measured in time
        self.seen = True
        self.newest = value
        self.recent.append((at, value))
        self._look_back(at)

    def _look_back(self, at: float) -> None:
        recent, bound = self.recent, at - self.size
        while recent and recent[0][0] <= bound:
            self.earlier = recent.popleft()[1]
            self.reached = True

    def difference(self, step: int, time: float) -> float:
        """Newest less earlier."""
        self._look_back(step if self.unit == STEPS else time)
        return difference(self.newest, self.earlier)

    def growth(self, step: int, time: float) -> float:
        """The difference as a share of the earlier value's size."""
        self._look_back(step if self.unit == STEPS else time)
        return growth(self.newest, self.earlier)

    def reason(self, step: int, time: float) -> Reason:
        if not self.seen:
            return Reason.ABSENT
        return _reason(self.newest, self.earlier) if self.reached else Reason.WARMING


class SampleChange(State):
    """The newest point, and the point n before it."""

    remembered = ("recent",)

    def __init__(self, n: int) -> None:
        self.recent: deque[float] = deque(maxlen=n + 1)

    def push(self, step: int, time: float, value: float) -> None:
        self.recent.append(value)

    def difference(self, step: int, time: float) -> float:
        """Newest less earlier."""
        recent = self.recent
        return difference(recent[-1], recent[0]) if len(recent) == recent.maxlen else math.nan

    def growth(self, step: int, time: float) -> float:
        """The difference as a share of the earlier value's size."""
        recent = self.recent
        return growth(recent[-1], recent[0]) if len(recent) == recent.maxlen else math.nan

    def reason(self, step: int, time: float) -> Reason:
        recent = self.recent
        if not recent:
            return Reason.ABSENT
        return _reason(recent[-1], recent[0]) if len(recent) == recent.maxlen else Reason.WARMING


def difference(now: float, earlier: float) -> float:
    """NaN where finite numbers are too far apart for a float.

    >>> difference(3.0, 1.0), difference(1e308, -1e308), difference(float("inf"), 1.0)
    (2.0, nan, inf)
    """
    change = now - earlier
    return change if change - change == 0.0 or now - now != 0.0 or earlier - earlier != 0.0 else math.nan


def growth(now: float, earlier: float) -> float:
    """The difference over abs(earlier); NaN over zero.

    >>> growth(3.0, 2.0), growth(-1.0, -2.0), growth(1.0, 0.0), growth(1e308, -1e308)
    (0.5, 0.5, nan, 2.0)
    """
    if not earlier:
        return math.nan
    finite = now - now == 0.0 and earlier - earlier == 0.0
    change = now - earlier
    if finite and change - change != 0.0:
        share = (now / 2 - earlier / 2) / abs(earlier) * 2
    else:
        share = change / abs(earlier)
    return share if share - share == 0.0 or not finite else math.nan


def _reason(now: float, earlier: float) -> Reason:
    is_number = now == now and earlier == earlier
    finite = math.isfinite(now) and math.isfinite(earlier)
    return Reason.UNDEFINED if is_number and (finite or not earlier) else Reason.NONFINITE
