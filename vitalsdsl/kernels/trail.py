"""The points of windows in order of arrival, in twelve or twenty bytes each; those of one stream are there once."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Any
from weakref import ref

_DEAD = 64
_SHARE = 16
"""So many points that are gone may stay in memory, and one in so many, before the rest is moved down: hundreds of runs in
one process each hold the points of all their windows."""


class Ring:
    """The points behind all windows of one unit over one stream: a shorter window is the end of a longer one.

    Points have numbers, in order of arrival: from `kept` on they can be looked at, and the next one is `end`. Where places are
    steps they are not kept twice, and steps take four bytes until one comes that needs eight.
    """

    __slots__ = ("_limit", "_trails", "end", "kept", "places", "steps", "values")

    def __init__(self, by_step: bool) -> None:
        self.values = array("d")
        self.steps = array("i")
        self.places: array[Any] = self.steps if by_step else array("d")
        self.kept = self.end = 0
        self._limit = _DEAD
        self._trails: list[ref[Trail]] = []

    @property
    def by_step(self) -> bool:
        """Whether places are steps."""
        return self.places is self.steps

    def join(self, trail: Trail) -> None:
        """Keep what a trail has not left behind."""
        self._trails.append(ref(trail))

    def append(self, place: float, value: float, step: int) -> None:
        if self.places is not self.steps:
            self.places.append(place)
        try:
            self.steps.append(step)
        except OverflowError:
            self._widen()
            self.steps.append(step)
        self.values.append(value)
        self.end += 1
        if len(self.values) >= self._limit:
            self._move_down()

    def extend(self, places: array[Any], values: array[float], steps: array[int]) -> None:
        """Append many points; steps in four bytes each, or in eight."""
        if self.places is not self.steps:
            self.places.extend(places)
        if self.steps.typecode != steps.typecode:
            if self.steps.typecode == "i":
                self._widen()
            steps = array("q", steps)
        self.steps.extend(steps)
        self.values.extend(values)
        self.end += len(values)
        if len(self.values) >= self._limit:
            self._move_down()

    def precede(self, points: Iterable[tuple[float, float, int]]) -> None:
        """Put points before the first."""
        before = Ring(self.by_step)
        before._limit = 1 << 60
        for point in points:
            before.append(*point)
        self.kept -= len(before.values)
        before.extend(self.places, self.values, self.steps)
        self.values, self.steps, self.places = before.values, before.steps, before.places

    def number_of(self, place: float, step: int) -> int | None:
        """Which point that is, or would be as the next one; None where it lies between others."""
        at = bisect_left(self.places, place)
        if at == len(self.values) or self.places[at] == place and self.steps[at] == step:
            return self.kept + at
        return None

    def part(self, begin: int, end: int) -> Ring:
        """A ring of its own with some of the points, which keep their numbers."""
        own, part = Ring(self.by_step), slice(begin - self.kept, end - self.kept)
        own.values, own.steps = self.values[part], self.steps[part]
        own.places = own.steps if self.by_step else self.places[part]
        own.kept, own.end, own._limit = begin, end, _limit(end - begin)
        return own

    def _widen(self) -> None:
        steps = array("q", self.steps)
        if self.by_step:
            self.places = steps
        self.steps = steps

    def _move_down(self) -> None:
        trails = [trail for one in self._trails if (trail := one()) is not None and trail.ring is self]
        self._trails = [ref(trail) for trail in trails]
        gone = min((trail.begin for trail in trails if len(trail)), default=self.end) - self.kept
        if gone > 0:
            self.kept += gone
            del self.values[:gone], self.steps[:gone]
            if not self.by_step:
                del self.places[:gone]
        self._limit = _limit(len(self.values))


def _limit(used: int) -> int:
    """At how many points in memory it is looked whether some are gone."""
    return used + max(_DEAD, used // _SHARE)


class Trail:
    """A queue of points: (place, value, step). On a `ring` that others use as well, what one of them has brought is not kept
    again; where their points differ (one takes infinities in, the other does not) each goes on by itself.

    >>> ring = Ring(by_step=True)
    >>> trail, other = Trail(by_step=True, ring=ring), Trail(by_step=True, ring=ring)
    >>> trail.append(3, 0.5, 3)
    >>> trail.append(4, 0.7, 4)
    >>> other.append(4, 0.7, 4)
    >>> trail.popleft(), trail.oldest, trail.value(-1), list(trail), list(other), len(ring.values)
    ((0.5, 3), 4, 0.7, [(4, 0.7, 4)], [(4, 0.7, 4)], 2)
    """

    __slots__ = ("__weakref__", "begin", "end", "oldest", "ring")

    def __init__(self, by_step: bool, ring: Ring | None = None) -> None:
        self.ring = Ring(by_step) if ring is None else ring
        self.ring.join(self)
        self.begin = self.end = self.ring.end
        """The numbers of the oldest point and of the next."""
        self.oldest: float = math.inf
        """The place of the first point; inf where there is none."""

    @classmethod
    def of(cls, points: Iterable[tuple[float, float, int]], by_step: bool, ring: Ring | None = None) -> Trail:
        """With these points. Those of a longer window come before what the ring has of a shorter one."""
        points, found = list(points), cls(by_step, ring)
        ring = found.ring
        more = len(points) - len(ring.values)
        if len(ring.values) and more > 0:
            told = zip(ring.places, ring.values, ring.steps)
            if all(mine == others for mine, others in zip(points[more:], told)):
                ring.precede(points[:more])
        for point in points:
            found.append(*point)
        return found

    @property
    def kept(self) -> int:
        """The number from which on points can be looked at, though they may be gone."""
        return self.ring.kept

    def append(self, place: float, value: float, step: int) -> None:
        ring, end = self.ring, self.end
        if self.begin == end:
            end = self._begin(place, step)
            ring = self.ring
        if end != ring.end:
            at = end - ring.kept
            if ring.steps[at] == step and ring.places[at] == place:
                self.end = end + 1
                return
            ring = self._part()
        self.end = end + 1  # before the ring looks at what is still needed
        ring.append(place, value, step)

    def extend(self, places: array[Any], values: array[float], steps: array[int]) -> None:
        """Append many points, one at least; steps in four bytes each, or in eight."""
        ring, end = self.ring, self.end
        if self.begin == end:
            end = self._begin(places[0], steps[0])
            ring = self.ring
        known = min(ring.end - end, len(values))
        if known:
            part = slice(end - ring.kept, end - ring.kept + known)
            if ring.steps[part] != steps[:known] or ring.places[part] != places[:known]:
                ring, known = self._part(), 0
        self.end = end + len(values)
        if known < len(values):
            ring.extend(places[known:], values[known:], steps[known:])

    def _begin(self, place: float, step: int) -> int:
        """The number of the first point."""
        number = self.ring.number_of(place, step)
        if number is None:
            number = self._part().end
        self.begin = self.end = number
        self.oldest = place
        return number

    def _part(self) -> Ring:
        """Go on without the others."""
        self.ring = self.ring.part(self.begin, self.end)
        self.ring.join(self)
        return self.ring

    def __copy__(self) -> Trail:
        other = Trail(self.ring.by_step, self.ring.part(self.begin, self.end))
        other.begin, other.end, other.oldest = self.begin, self.end, self.oldest
        return other

    def forget(self, bound: float) -> int:
        """Take all points up to a place out; how many."""
        before, places, kept = self.begin, self.ring.places, self.ring.kept
        at = bisect_right(places, bound, before - kept, self.end - kept)
        begin = self.begin = at + kept
        self.oldest = places[at] if begin < self.end else math.inf
        return begin - before

    def up_to(self, bound: float) -> int:
        """The number of the first point beyond a place."""
        if self.begin == self.end:
            return self.end
        kept = self.ring.kept
        return kept + bisect_right(self.ring.places, bound, self.begin - kept, self.end - kept)

    def between(self, begin: int, end: int) -> Iterator[tuple[float, int]]:
        """The values and steps of points by their numbers."""
        ring = self.ring
        begin, end = begin - ring.kept, end - ring.kept
        return zip(ring.values[begin:end], ring.steps[begin:end])

    def values(self, begin: int, end: int) -> array[float]:
        """The values of points by their numbers."""
        kept = self.ring.kept
        return self.ring.values[begin - kept : end - kept]

    def numbered(self, number: int) -> float:
        """The value of a point by its number."""
        return self.ring.values[number - self.ring.kept]

    def columns(self) -> tuple[memoryview, memoryview]:
        """The places and the values of all points. While somebody holds them nothing can be appended."""
        part = slice(self.begin - self.ring.kept, self.end - self.ring.kept)
        return memoryview(self.ring.places)[part], memoryview(self.ring.values)[part]

    def popleft(self) -> tuple[float, int]:
        """Take the oldest point out: its value and step."""
        ring, at = self.ring, self.begin - self.ring.kept
        if self.begin == self.end:
            raise IndexError("no point is left")
        value, step = ring.values[at], ring.steps[at]
        self.begin += 1
        self.oldest = ring.places[at + 1] if self.begin < self.end else math.inf
        return value, step

    def value(self, at: int) -> float:
        """The value of a point: 0 is the oldest, -1 the newest."""
        return self.ring.values[(self.end if at < 0 else self.begin) + at - self.ring.kept]

    def place(self, at: int) -> float:
        """The place of a point, likewise."""
        place: float = self.ring.places[(self.end if at < 0 else self.begin) + at - self.ring.kept]
        return place

    def __len__(self) -> int:
        return self.end - self.begin

    def __iter__(self) -> Iterator[tuple[float, float, int]]:
        ring, part = self.ring, slice(self.begin - self.ring.kept, self.end - self.ring.kept)
        return zip(ring.places[part], ring.values[part], ring.steps[part])
