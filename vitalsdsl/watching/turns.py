"""Whose turn it is among the runs of a watcher: those that are due, and those that catch up, a few at a time."""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections import deque
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar


class Taking(Protocol):
    """Who takes turns. `due` is when, by the monotonic clock; infinity while it is at it, or is not to be. One that
    `is_behind` has not been read up to now yet."""

    due: float
    is_behind: bool


T = TypeVar("T", bound=Taking)


class Turns(Generic[T]):
    """What is due, in its order. Of those that are behind at most `most` are at it at once, and one that has begun goes on
    before another begins: each holds points in memory until it has been read to its end."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._due: list[tuple[float, int, T]] = []
        self._count = itertools.count()
        self._behind: deque[T] = deque()
        self._catching_up = 0

    def __bool__(self) -> bool:
        return bool(self._due or self._behind)

    def schedule(self, what: T, after: float) -> None:
        """In place of the time that was set before, if any."""
        what.due = time.monotonic() + after
        heapq.heappush(self._due, (what.due, next(self._count), what))

    def go_on(self, what: T) -> None:
        """One that is behind still has the next turn."""
        what.due = math.inf
        self._behind.appendleft(what)

    def taken(self, what: T) -> None:
        """A turn is over; to be said before `what` is changed."""
        self._catching_up -= what.is_behind

    @property
    def pause(self) -> float:
        """Seconds until something is due, a second at most."""
        return max(0.0, min(1.0, self._due[0][0] - time.monotonic())) if self._due else 1.0

    def begin(self) -> Iterator[tuple[T, float]]:
        """Those whose turn it is now, each with when it was due."""
        now = time.monotonic()
        while self._due and self._due[0][0] <= now:
            at, _, what = heapq.heappop(self._due)
            if what.due != at:
                continue
            what.due = math.inf
            if what.is_behind:
                self._behind.append(what)
            else:
                yield what, at
        while self._behind and self._catching_up < self._most:
            self._catching_up += 1
            yield self._behind.popleft(), now
