"""The points of windows in order of arrival, in eight bytes each as long as they come evenly; those of one stream are there
once."""

from __future__ import annotations

import base64
import math
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from vitalsdsl.ground.types import SAMPLES, STEPS, TIME
from vitalsdsl.kernels.stretches import Stretches

_DEAD = 16
_SHARE = 256
"""So many points that are gone may stay in memory, and one in so many, before the rest is moved down: hundreds of runs in
one process each hold the points of all their windows."""

_NONE = array("d")


class Ring:
    """The points behind all windows of one unit over one stream: a shorter window is the end of a longer one.

    Points have numbers, in order of arrival: from `kept` on they can be looked at, and the next one is `end`. Places that are
    steps are not kept twice. Arrays are made as long as they have to be: growing by themselves they would be longer.
    """

    __slots__ = ("_places", "_steps", "_times", "_trails", "_values", "end", "is_saved", "kept", "unit")

    def __init__(self, unit: str) -> None:
        self.unit = unit
        self._values = array("d")
        self._times = array("d") if unit == TIME else _NONE
        """The places of a unit of time; empty in others."""
        self._steps = Stretches(0)
        self._places = Stretches(0) if unit == SAMPLES else self._steps
        self.kept = self.end = 0
        self._trails: list[Trail] = []
        self.is_saved = False
        """Whether somebody saves it, so that a trail on it need only say which of its points it has."""

    def __len__(self) -> int:
        """How many points are in memory."""
        return self.end - self.kept

    def join(self, trail: Trail) -> None:
        """Keep what a trail has not left behind."""
        self._trails.append(trail)

    def leave(self, trail: Trail) -> None:
        """Keep nothing for a trail any more."""
        self._trails.remove(trail)

    # ---------------------------------------------------------------- points come

    def append(self, place: float, value: float, step: int) -> None:
        at = self.end - self.kept
        if at == len(self._values):
            self._make_room(1)
            at = self.end - self.kept
        self._steps.append(step)
        if self.unit == TIME:
            self._times[at] = place
        elif self.unit == SAMPLES:
            self._places.append(int(place))
        self._values[at] = value
        self.end += 1

    def extend(self, places: Sequence[Any], values: array[float], steps: Sequence[int]) -> None:
        """Append many points."""
        count = len(values)
        if len(self) + count > len(self._values):
            self._make_room(count)
        part = slice(len(self), len(self) + count)
        self._steps.extend(steps)
        if self.unit == TIME:
            self._times[part] = array("d", places)
        elif self.unit == SAMPLES:
            self._places.extend(places)
        self._values[part] = values
        self.end += count

    def precede(self, points: Sequence[tuple[float, float, int]]) -> None:
        """Put points before the first."""
        places, values, steps = map(list, zip(*points, *self.points(self.kept, self.end)))
        self.kept -= len(points)
        self._values = array("d", values)
        self._steps = _stretches(self.kept, steps)
        self._places = _stretches(self.kept, places) if self.unit == SAMPLES else self._steps
        if self.unit == TIME:
            self._times = array("d", places)

    # ---------------------------------------------------------------- state

    def save(self) -> list[Any]:
        """The points that trails have, as plain data."""
        begin = self._begin()
        at = slice(begin - self.kept, self.end - self.kept)
        places = _packed(self._times[at]) if self.unit == TIME else self._places.save(begin)
        return [_packed(self._values[at]), self._steps.save(begin), places]

    def load(self, saved: Sequence[Any]) -> None:
        """Have those points alone, before a trail has any. Raises ValueError where they make no sense."""
        values, steps, places = saved
        self._values = _unpacked(values)
        self._steps = Stretches.of(steps)
        self._places = Stretches.of(places) if self.unit == SAMPLES else self._steps
        if self.unit == TIME:
            self._times = _unpacked(places)
        count = self._steps.end
        if not count == len(self._values) == (len(self._times) if self.unit == TIME else self._places.end):
            raise ValueError("points without a place or a step")
        self.kept, self.end = 0, count

    def keep(self) -> Ring:
        """The same for `put_back` in this process."""
        begin = self._begin()
        return self.part(begin, self.end)

    def put_back(self, kept: Ring) -> None:
        """Have the points that were kept."""
        own = kept.part(kept.kept, kept.end)
        self._values, self._times, self._steps, self._places = own._values, own._times, own._steps, own._places
        self.kept, self.end = own.kept, own.end

    def _begin(self) -> int:
        """The number of the first point that a trail has."""
        self._trails = [trail for trail in self._trails if trail.ring is self]
        return min((trail.begin for trail in self._trails if len(trail)), default=self.end)

    def part(self, begin: int, end: int) -> Ring:
        """A ring of its own with some of the points, which keep their numbers."""
        own = Ring(self.unit)
        own.kept, own.end = begin, end
        own._values = self._values[begin - self.kept : end - self.kept]
        own._times = self._times[begin - self.kept : end - self.kept]
        own._steps = self._steps.part(begin, end)
        own._places = self._places.part(begin, end) if self.unit == SAMPLES else own._steps
        return own

    def _make_room(self, count: int) -> None:
        """For so many points, where those that are gone are."""
        begin = self._begin()
        used = self.end - begin
        kept = slice(begin - self.kept, self.end - self.kept)
        size = used + max(count, _DEAD, used // _SHARE)
        self._values = _moved(self._values, kept, size)
        if self.unit == TIME:
            self._times = _moved(self._times, kept, size)
        self._steps.forget(begin)
        if self._places is not self._steps:
            self._places.forget(begin)
        self.kept = begin

    # ---------------------------------------------------------------- what is there

    def is_at(self, number: int, place: float, step: int) -> bool:
        """Whether a point is that one."""
        steps = self._steps
        return (steps.last if number + 1 == self.end else steps.at(number)) == step and (
            self.unit == STEPS or self.place(number) == place
        )

    def are_at(self, number: int, places: Sequence[float], steps: Sequence[int]) -> bool:
        """Whether the points from a number on are those, one at least."""
        if not self._steps.are(number, steps):
            return False
        if self.unit == TIME:
            at = number - self.kept
            return self._times[at : at + len(places)] == array("d", places)
        return self._places is self._steps or self._places.are(number, places)  # type: ignore[arg-type]

    def number_of(self, place: float, step: int) -> int | None:
        """Which point that is, or would be as the next one; None where it lies between others."""
        if self.unit == TIME:
            number = bisect_left(self._times, place, 0, len(self)) + self.kept
        else:
            number = self._places.up_to(place - 1)
        return number if number == self.end or self.is_at(number, place, step) else None

    def place(self, number: int) -> float:
        """The place of a point."""
        return self._times[number - self.kept] if self.unit == TIME else self._places.at(number)

    def step(self, number: int) -> int:
        """The step of a point."""
        return self._steps.at(number)

    def value(self, number: int) -> float:
        """The value of a point."""
        return self._values[number - self.kept]

    def values(self, begin: int, end: int) -> array[float]:
        """The values of points by their numbers."""
        return self._values[begin - self.kept : end - self.kept]

    def steps(self, begin: int, end: int) -> Iterator[int]:
        """The steps of points by their numbers."""
        return self._steps.between(begin, end)

    def step_column(self, begin: int, end: int) -> Any:
        """The same as a NumPy array."""
        return self._steps.column(begin, end)

    def points(self, begin: int, end: int) -> Iterator[tuple[float, float, int]]:
        """(place, value, step) of points by their numbers."""
        at = slice(begin - self.kept, end - self.kept)
        places = self._times[at] if self.unit == TIME else self._places.between(begin, end)
        return zip(places, self._values[at], self._steps.between(begin, end))

    def up_to(self, bound: float, begin: int, end: int) -> int:
        """The number of the first of some points that is beyond a place."""
        if self.unit == TIME:
            return bisect_right(self._times, bound, begin - self.kept, end - self.kept) + self.kept
        return min(max(self._places.up_to(bound), begin), end)

    def columns(self, begin: int, end: int) -> tuple[Any, memoryview]:
        """The places and the values of points, as NumPy takes them: until the next one comes."""
        at = slice(begin - self.kept, end - self.kept)
        places = memoryview(self._times)[at] if self.unit == TIME else self._places.column(begin, end)
        return places, memoryview(self._values)[at]


def _packed(numbers: array[float]) -> str:
    """As text: the eight bytes of each."""
    numbers = array("d", numbers)
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode("ascii")


def _unpacked(text: str) -> array[float]:
    numbers = array("d", base64.b64decode(text, validate=True))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers[:]  # as long as it has to be


def _stretches(begin: int, places: Sequence[Any]) -> Stretches:
    found = Stretches(begin)
    found.extend(places)
    return found


def _moved(numbers: array[float], kept: slice, size: int) -> array[float]:
    """An array of some size that begins with a part of another: the same one, if it has the size."""
    count = kept.stop - kept.start
    into = numbers if size == len(numbers) else array("d", (0.0,)) * size
    memoryview(into)[:count] = memoryview(numbers)[kept]
    return into


class Trail:
    """A queue of points: (place, value, step). On a `ring` that others use as well, what one of them has brought is not kept
    again; where their points differ (one takes infinities in, the other does not) each goes on by itself.

    >>> ring = Ring("steps")
    >>> trail, other = Trail(ring), Trail(ring)
    >>> trail.append(3, 0.5, 3)
    >>> trail.append(4, 0.7, 4)
    >>> other.append(4, 0.7, 4)
    >>> trail.popleft(), trail.oldest, trail.value(-1), list(trail), list(other), len(ring)
    ((0.5, 3), 4, 0.7, [(4, 0.7, 4)], [(4, 0.7, 4)], 2)
    """

    __slots__ = ("begin", "end", "oldest", "ring")

    def __init__(self, ring: Ring) -> None:
        self.ring = ring
        ring.join(self)
        self.begin = self.end = ring.end
        """The numbers of the oldest point and of the next."""
        self.oldest: float = math.inf
        """The place of the first point; inf where there is none."""

    @classmethod
    def of(cls, points: Iterable[tuple[float, float, int]], ring: Ring) -> Trail:
        """With these points. Those of a longer window come before what the ring has of a shorter one."""
        points, found = list(points), cls(ring)
        more = len(points) - len(ring)
        if len(ring) and more > 0:
            told = ring.points(ring.kept, ring.end)
            if all(mine == others for mine, others in zip(points[more:], told)):
                ring.precede(points[:more])
        for point in points:
            found.append(*point)
        return found

    def which(self) -> list[int]:
        """How many points it has, and how many of its ring come after them."""
        return [len(self), self.ring.end - self.end if len(self) else 0]  # where it ended the ring may have left behind

    def have(self, count: int, after: int) -> None:
        """Have those points of its ring. Raises ValueError where there are not so many."""
        end = self.ring.end - after
        if not (count >= 0 and after >= 0 and end - count >= self.ring.kept):
            raise ValueError("more points than there are")
        self.begin, self.end = end - count, end
        self.oldest = self.ring.place(self.begin) if count else math.inf

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
            if ring.is_at(end, place, step):
                self.end = end + 1 if end + 1 != ring.end else ring.end  # the same number, where it is the newest
                return
            ring = self._part()
        self.end = end + 1  # before the ring looks at what is still needed
        ring.append(place, value, step)

    def extend(self, places: Sequence[Any], values: array[float], steps: Sequence[int]) -> None:
        """Append many points, one at least."""
        ring, end = self.ring, self.end
        if self.begin == end:
            end = self._begin(places[0], steps[0])
            ring = self.ring
        known = min(ring.end - end, len(values))
        if known and not ring.are_at(end, places[:known], steps[:known]):
            ring, known = self._part(), 0
        if known < len(values):
            ring.extend(places[known:], values[known:], steps[known:])
        self.end = end + len(values)

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
        self.leave()
        self.ring = self.ring.part(self.begin, self.end)
        self.ring.join(self)
        return self.ring

    def leave(self) -> None:
        """It is not used any more: nothing is kept for it."""
        self.ring.leave(self)

    def __copy__(self) -> Trail:
        other = Trail(self.ring.part(self.begin, self.end))
        other.begin, other.end, other.oldest = self.begin, self.end, self.oldest
        return other

    def forget(self, bound: float) -> int:
        """Take all points up to a place out; how many."""
        before, end, ring = self.begin, self.end, self.ring
        if self.oldest > bound:
            return 0
        begin = before + 1  # as a rule it is one
        oldest = ring.place(begin) if begin < end else math.inf
        if oldest <= bound:
            begin = ring.up_to(bound, begin, end)
            oldest = ring.place(begin) if begin < end else math.inf
        self.begin, self.oldest = begin, oldest
        return begin - before

    def up_to(self, bound: float) -> int:
        """The number of the first point beyond a place."""
        return self.ring.up_to(bound, self.begin, self.end)

    def between(self, begin: int, end: int) -> Iterator[tuple[float, int]]:
        """The values and steps of points by their numbers."""
        return zip(self.ring.values(begin, end), self.ring.steps(begin, end))

    def values(self, begin: int, end: int) -> array[float]:
        """The values of points by their numbers."""
        return self.ring.values(begin, end)

    def numbered(self, number: int) -> float:
        """The value of a point by its number."""
        return self.ring.value(number)

    def columns(self) -> tuple[Any, memoryview]:
        """The places and the values of all points, as NumPy takes them: until the next one comes."""
        return self.ring.columns(self.begin, self.end)

    def popleft(self) -> tuple[float, int]:
        """Take the oldest point out: its value and step."""
        ring, begin = self.ring, self.begin
        if begin == self.end:
            raise IndexError("no point is left")
        self.begin = begin + 1
        self.oldest = ring.place(begin + 1) if begin + 1 < self.end else math.inf
        return ring.value(begin), ring.step(begin)

    def value(self, at: int) -> float:
        """The value of a point: 0 is the oldest, -1 the newest."""
        return self.ring.value((self.end if at < 0 else self.begin) + at)

    def place(self, at: int) -> float:
        """The place of a point, likewise."""
        return self.ring.place((self.end if at < 0 else self.begin) + at)

    def __len__(self) -> int:
        return self.end - self.begin

    def __iter__(self) -> Iterator[tuple[float, float, int]]:
        return self.ring.points(self.begin, self.end)
