"""Windows that learn when they are read."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from vitalsdsl.ground.types import STEPS, Extent
from vitalsdsl.kernels.trail import Trail
from vitalsdsl.kernels.window import Window


@dataclass(frozen=True)
class Points:
    """Points one after another: the steps and values of the usable ones and, where some are not, their `numbers` among all;
    how many there are, the steps of the first and the last, and the last value, which may be any."""

    steps: array[int]
    values: array[float]
    numbers: list[int] | None
    count: int
    first: int
    last: int
    newest: float


class Deferred(Window):
    """The base of windows that look at each point by itself, so that it does not matter when.

    Their points are noted at once, and `add` and `drop` come when somebody asks: what nobody reads costs one entry in a
    list.
    """

    __slots__ = ("_from", "_to")

    learns_at_once = False
    looks_at_steps: ClassVar[bool] = False
    """Whether `add` and `drop` need the steps of points: others may be given any."""

    def __init__(self, extent: Extent) -> None:
        super().__init__(extent)
        self._from = self._to = 0
        """Of which points it has learnt, by their numbers on the trail."""
        self.clear()

    def push_many(self, points: Points) -> None:
        """Many points at once, of a window that is not one of time."""
        places, last = self._placed(points)
        if points.values:
            self.usable += len(points.values)
            self.trail.extend(places, points.values, points.steps)
        bound = last - self.size
        if self.trail.oldest <= bound:
            self._forget(bound)

    def _placed(self, points: Points) -> tuple[Sequence[int], float]:
        """The places of the usable ones, and that of the last of all, which are all seen now."""
        seen, count = self.seen, points.count
        places: Sequence[int] = points.steps
        first, last = points.first, points.last
        if self.unit != STEPS:
            numbers = range(count) if points.numbers is None else points.numbers
            places, first, last = [seen + number for number in numbers], seen, seen + count - 1
        if self.first != self.first:
            self.first = first
        self.seen += count
        return places, last

    def _forget(self, bound: float) -> None:
        self.usable -= self.trail.forget(bound)

    def learn(self) -> None:
        """Be up to date: whoever reads what `add` and `drop` have learnt calls this before."""
        trail = self.trail
        begin, end = trail.begin, trail.end
        if self._to == end and self._from == begin:
            return
        come, gone = end - self._to, begin - self._from
        if come <= 1 and gone <= 1 and self._from >= trail.kept and self._to > begin:  # as a rule
            ring, told = trail.ring, self.looks_at_steps
            if come:
                self.add(ring.step(end - 1) if told else 0, ring.value(end - 1))
            if gone:
                self.drop(ring.step(begin - 1) if told else 0, ring.value(begin - 1))
        elif self._from < trail.kept or self._to <= begin or 2 * (end - self._to) > end - begin:
            self.clear()
            self.add_all(trail)
        else:
            self.add_between(self._to, end)
            self.drop_between(self._from, begin)
        self._from, self._to = begin, end

    def add_all(self, trail: Trail) -> None:
        """Learn a whole window, having forgotten everything."""
        self.add_between(trail.begin, trail.end)

    def add_between(self, begin: int, end: int) -> None:
        """Learn points, by their numbers on the trail."""
        for value, step in self.trail.between(begin, end):
            self.add(step, value)

    def drop_between(self, begin: int, end: int) -> None:
        """Forget points, likewise."""
        for value, step in self.trail.between(begin, end):
            self.drop(step, value)

    def restored(self) -> None:
        self.usable = len(self.trail)
        self.clear()
        self._from = self._to = self.trail.begin
