"""The points of a window in order of arrival, in twelve or twenty bytes each."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

_DEAD = 64
_SHARE = 8
"""So many points that are gone may stay in memory, and one in so many, before the rest is moved down: hundreds of runs in
one process each hold a trail for each window."""


class Trail:
    """A queue of points: (place, value, step). Where places are steps they are not kept twice, and steps take four bytes
    until one comes that needs eight.

    >>> trail = Trail(by_step=True)
    >>> trail.append(3, 0.5, 3)
    >>> trail.append(4, 0.7, 4)
    >>> trail.popleft(), trail.oldest, trail.value(-1), list(trail)
    ((0.5, 3), 4, 0.7, [(4, 0.7, 4)])
    """

    __slots__ = ("_gone", "_places", "_steps", "_values", "kept", "oldest")

    def __init__(self, by_step: bool) -> None:
        self._values = array("d")
        self._steps = array("i")
        self._places: array[Any] = self._steps if by_step else array("d")
        self._gone = 0
        self.kept = 0
        """Points have numbers, in order of arrival. From this one on they can be looked at, though they may be gone."""
        self.oldest: float = math.inf
        """The place of the first point; inf where there is none."""

    def append(self, place: float, value: float, step: int) -> None:
        if self._places is not self._steps:
            self._places.append(place)
        try:
            self._steps.append(step)
        except OverflowError:
            self._widen()
            self._steps.append(step)
        self._values.append(value)
        if self.oldest == math.inf:
            self.oldest = place

    def __copy__(self) -> Trail:
        other = Trail(self._places is self._steps)
        gone = self._gone
        other._values, other._steps = self._values[gone:], self._steps[gone:]
        other._places = other._steps if self._places is self._steps else self._places[gone:]
        other.oldest = self.oldest
        return other

    def extend(self, places: array[Any], values: array[float], steps: array[int]) -> None:
        """Append many points, one at least; steps in four bytes each, or in eight."""
        if self._places is not self._steps:
            self._places.extend(places)
        if self._steps.typecode != steps.typecode:
            if self._steps.typecode == "i":
                self._widen()
            steps = array("q", steps)
        self._steps.extend(steps)
        self._values.extend(values)
        if self.oldest == math.inf:
            self.oldest = self._places[self._gone]

    def forget(self, bound: float) -> int:
        """Take all points up to a place out; how many."""
        before, end, places = self._gone, len(self._values), self._places
        gone = self._gone = bisect_right(places, bound, before)
        self.oldest = places[gone] if gone < end else math.inf
        if gone >= _DEAD and gone * _SHARE >= end:
            self._move_down()
        return gone - before

    def up_to(self, bound: float) -> int:
        """The number of the first point beyond a place."""
        return self.kept + bisect_right(self._places, bound, self._gone)

    @property
    def begin(self) -> int:
        """The number of the oldest point."""
        return self.kept + self._gone

    @property
    def end(self) -> int:
        """The number of the next point."""
        return self.kept + len(self._values)

    def between(self, begin: int, end: int) -> Iterator[tuple[float, int]]:
        """The values and steps of points by their numbers."""
        begin, end = begin - self.kept, end - self.kept
        return zip(self._values[begin:end], self._steps[begin:end])

    def values(self, begin: int, end: int) -> array[float]:
        """The values of points by their numbers."""
        return self._values[begin - self.kept : end - self.kept]

    def numbered(self, number: int) -> float:
        """The value of a point by its number."""
        return self._values[number - self.kept]

    def columns(self) -> tuple[memoryview, memoryview]:
        """The places and the values of all points. While somebody holds them nothing can be appended."""
        gone = self._gone
        return memoryview(self._places)[gone:], memoryview(self._values)[gone:]

    def popleft(self) -> tuple[float, int]:
        """Take the oldest point out: its value and step."""
        gone = self._gone
        value, step = self._values[gone], self._steps[gone]
        self._gone = gone = gone + 1
        self.oldest = self._places[gone] if gone < len(self._values) else math.inf
        if gone >= _DEAD and gone * _SHARE >= len(self._values):
            self._move_down()
        return value, step

    def _widen(self) -> None:
        steps = array("q", self._steps)
        if self._places is self._steps:
            self._places = steps
        self._steps = steps

    def _move_down(self) -> None:
        gone, self._gone = self._gone, 0
        self.kept += gone
        del self._values[:gone], self._steps[:gone]
        if self._places is not self._steps:
            del self._places[:gone]

    def value(self, at: int) -> float:
        """The value of a point: 0 is the oldest, -1 the newest."""
        return self._values[at if at < 0 else at + self._gone]

    def place(self, at: int) -> float:
        """The place of a point, likewise."""
        place: float = self._places[at if at < 0 else at + self._gone]
        return place

    def __len__(self) -> int:
        return len(self._values) - self._gone

    def __iter__(self) -> Iterator[tuple[float, float, int]]:
        gone = self._gone
        return zip(self._places[gone:], self._values[gone:], self._steps[gone:])
