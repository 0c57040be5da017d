"""Whole numbers that grow, most of them by the same each time: kept as stretches of equal strides."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import chain
from typing import Any


class Stretches:
    """The places of points that have numbers: from `begin` on they are known, and the next one is `end`. Each is greater than
    the one before. A run that logs every so many steps takes one stretch, however long it is, and one more for each gap.

    >>> places = Stretches(0)
    >>> for place in (3, 4, 5, 15, 25, 26):
    ...     places.append(place)
    >>> list(places.between(0, 6)), places.at(4), places.up_to(15)
    ([3, 4, 5, 15, 25, 26], 25, 4)
    """

    __slots__ = ("_firsts", "_numbers", "_stride", "_strides", "begin", "end", "last")

    def __init__(self, begin: int) -> None:
        self._numbers = array("q")
        """Which point each stretch begins with."""
        self._firsts = array("q")
        self._strides = array("q")
        """1 of a stretch of one point."""
        self._stride = 0
        """That of the newest stretch; 0 where it has one point, or there is none."""
        self.begin = self.end = begin
        self.last = -1
        """The newest place."""

    def append(self, place: int) -> None:
        if self._stride and place == self.last + self._stride:
            pass
        elif self._numbers and not self._stride:
            self._strides[-1] = self._stride = place - self.last
        else:
            self._numbers.append(self.end)
            self._firsts.append(place)
            self._strides.append(1)
            self._stride = 0
        self.last = place
        self.end += 1

    def extend(self, places: Sequence[int]) -> None:
        """Append many, one at least."""
        count, stride = len(places), self._stride or 1
        if self._stride and places[0] == self.last + stride and _is_even(places, stride):
            self.last = places[-1]
            self.end += count
        else:
            for place in places:
                self.append(place)

    def at(self, number: int) -> int:
        """The place of a point."""
        numbers = self._numbers
        stretch = bisect_right(numbers, number) - 1 if len(numbers) > 1 else 0
        return self._firsts[stretch] + (number - numbers[stretch]) * self._strides[stretch]

    def up_to(self, bound: float) -> int:
        """The number of the first point beyond a place."""
        if not self._firsts or self._firsts[0] > bound:
            return self.begin
        if not self.last > bound:
            return self.end
        stretch = bisect_right(self._firsts, bound) - 1 if len(self._firsts) > 1 else 0
        after = self._numbers[stretch] + int((bound - self._firsts[stretch]) // self._strides[stretch]) + 1
        return min(after, self._numbers[stretch + 1]) if stretch + 1 < len(self._numbers) else after

    def are(self, begin: int, places: Sequence[int]) -> bool:
        """Whether the points from a number on have these places, one at least."""
        last = begin + len(places) - 1
        if self.at(begin) != places[0] or self.at(last) != places[-1]:
            return False
        return places[-1] - places[0] == last - begin or list(self.between(begin, last + 1)) == list(places)

    def between(self, begin: int, end: int) -> Iterator[int]:
        """The places of points by their numbers."""
        return iter(ranges[0]) if len(ranges := self._ranges(begin, end)) == 1 else chain.from_iterable(ranges)

    def column(self, begin: int, end: int) -> Any:
        """The same as a NumPy array."""
        np = import_module("numpy")  # only those who have it loaded ask for columns
        parts = [np.arange(part.start, part.stop, part.step, dtype=np.int64) for part in self._ranges(begin, end)]
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.int64), *parts])

    def _ranges(self, begin: int, end: int) -> list[range]:
        found = []
        while begin < end:
            stretch = bisect_right(self._numbers, begin) - 1
            stop = self._numbers[stretch + 1] if stretch + 1 < len(self._numbers) else self.end
            stop, stride = min(stop, end), self._strides[stretch]
            first = self._firsts[stretch] + (begin - self._numbers[stretch]) * stride
            found.append(range(first, first + (stop - begin) * stride, stride))
            begin = stop
        return found

    def forget(self, begin: int) -> None:
        """Leave out the points before a number."""
        whole = bisect_right(self._numbers, begin) - 1
        if begin == self.end:
            whole, self._stride = len(self._numbers), 0
        if whole > 0:
            del self._numbers[:whole], self._firsts[:whole], self._strides[:whole]
        if self._numbers and self._numbers[0] < begin:
            self._firsts[0] += (begin - self._numbers[0]) * self._strides[0]
            self._numbers[0] = begin
        self.begin = begin

    def save(self, begin: int) -> list[list[int]]:
        """[count, first, stride] of each stretch from a point on."""
        ranges = self._ranges(begin, self.end)
        if len(ranges) > 1:
            ranges = (part := self.part(begin, self.end))._ranges(begin, part.end)  # as they are if they begin there
        return [[len(each), each.start, each.step] for each in ranges]

    @classmethod
    def of(cls, saved: Sequence[Sequence[int]]) -> Stretches:
        """Those that were saved, from number 0 on. Raises ValueError where they make no sense."""
        found = cls(0)
        for count, first, stride in saved:
            if count < 1 or stride < 1 or (found._numbers and first <= found.last):
                raise ValueError("places that do not grow")
            found._numbers.append(found.end)
            found._firsts.append(first)
            found._strides.append(stride)
            found.end += count
            found.last = first + (count - 1) * stride
            found._stride = stride if count > 1 else 0
        return found

    def part(self, begin: int, end: int) -> Stretches:
        """Those of some points, which keep their numbers."""
        part = Stretches(begin)
        for place in self.between(begin, end):
            part.append(place)
        return part


def _is_even(places: Sequence[int], stride: int) -> bool:
    """Whether each is so much greater than the one before."""
    far: Any = places[-1] - places[0]
    return far == (len(places) - 1) * stride and (
        stride == 1 or list(places) == list(range(places[0], places[-1] + 1, stride))
    )
