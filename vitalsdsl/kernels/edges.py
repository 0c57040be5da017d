"""The edges of an event: where it became true."""

from __future__ import annotations

import math
from collections import deque

from vitalsdsl.ground.types import SAMPLES, STEPS, Extent, Reason
from vitalsdsl.kernels.state import State


class Edges(State):
    """The steps of the two newest edges."""

    remembered = ("newest", "before")

    def __init__(self) -> None:
        self.newest = math.nan
        self.before = math.nan

    def push(self, step: int, time: float, value: float) -> None:
        """It has no stream but its event."""

    def edge(self, step: int, time: float) -> None:
        self.before, self.newest = self.newest, float(step)

    def since(self, step: int, time: float) -> float:
        """Steps since the newest edge; NaN before one."""
        return step - self.newest

    def interval(self, step: int, time: float) -> float:
        """Steps between the two newest; NaN before the second."""
        return self.newest - self.before

    def reason(self, step: int, time: float) -> Reason:
        return Reason.ABSENT if self.newest != self.newest else Reason.TOO_FEW


class EdgeCount(State):
    """The edges in a window. Of samples: those among the last W evaluations that were known."""

    remembered = ("count", "places")

    def __init__(self, extent: Extent) -> None:
        self.size = extent.size
        self.unit = extent.unit
        self.count = 0
        """Known evaluations."""
        self.places: deque[float] = deque()

    def push(self, step: int, time: float, value: float) -> None:
        """It has no stream but its event."""

    def evaluated(self, step: int, time: float, known: bool) -> None:
        self.count += known

    def _now(self, step: int, time: float) -> float:
        return step if self.unit == STEPS else self.count if self.unit == SAMPLES else time

    def edge(self, step: int, time: float) -> None:
        at = self._now(step, time)
        if at == at:
            self.places.append(at)
            self._forget(at)

    def _forget(self, at: float) -> None:
        while self.places and self.places[0] <= at - self.size:
            self.places.popleft()

    def read(self, step: int, time: float) -> float:
        """How many; NaN where a window of time meets a run without wall times."""
        at = self._now(step, time)
        self._forget(at)
        return float(len(self.places)) if at == at else math.nan

    def reason(self, step: int, time: float) -> Reason:
        return Reason.ABSENT
