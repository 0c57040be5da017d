"""The least and the greatest of a window."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable

from vitalsdsl.kernels.deferred import Deferred
from vitalsdsl.kernels.trail import Trail


class Extremes(Deferred):
    """Two queues of candidates. Of the points on its trail each is made when somebody first asks for what it says: most
    windows are asked for one of the two."""

    __slots__ = ("_highs", "_lows")

    with_infinite = True

    def clear(self) -> None:
        self._lows: Candidates | None = None
        self._highs: Candidates | None = None

    def add(self, step: int, value: float) -> None:
        if self._lows is None and self._highs is None:
            self._lows, self._highs = Candidates(()), Candidates(())
        if self._lows is not None:
            self._lows.add(value)
        if self._highs is not None:
            self._highs.add(-value)

    def drop(self, step: int, value: float) -> None:
        if self._lows is not None:
            self._lows.drop(value)
        if self._highs is not None:
            self._highs.drop(-value)

    def add_all(self, trail: Trail) -> None:
        """Whoever asks goes through them."""

    def least(self) -> float:
        self.learn()
        if self._lows is None:
            self._lows = Candidates(self.trail.values(self.trail.begin, self.trail.end))
        return self._lows.least

    def greatest(self) -> float:
        self.learn()
        if self._highs is None:
            self._highs = Candidates(-value for value in self.trail.values(self.trail.begin, self.trail.end))
        return -self._highs.least


_GONE = 32


class Candidates:
    """Of a queue of numbers those that may become its least: one that is neither newer nor less than another cannot.

    >>> candidates = Candidates([1.0, 3.0, 2.0])
    >>> candidates.add(4.0)
    >>> candidates.least, candidates.drop(1.0), candidates.least
    (1.0, None, 2.0)
    """

    __slots__ = ("_gone", "_values")

    def __init__(self, values: Iterable[float]) -> None:
        self._values = array("d")
        self._gone = 0
        """How many at the front are not among them any more."""
        least = math.inf
        for value in reversed(list(values)):
            if value <= least:
                least = value
                self._values.append(value)
        self._values.reverse()

    def add(self, value: float) -> None:
        values, gone = self._values, self._gone
        while len(values) > gone and values[-1] > value:
            values.pop()
        values.append(value)

    def drop(self, value: float) -> None:
        """Take the oldest number of the queue out."""
        values, gone = self._values, self._gone
        if gone < len(values) and values[gone] == value:
            self._gone = gone + 1
            if gone > _GONE and 2 * gone > len(values):
                del values[: self._gone]
                self._gone = 0

    @property
    def least(self) -> float:
        return self._values[self._gone]
