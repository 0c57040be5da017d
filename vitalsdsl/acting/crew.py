"""A bounded crew of threads for many runs: a few for each name, so that a port that hangs keeps only its own kind waiting."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable

IDLE = 10.0
"""Seconds after which a thread that has nothing to do ends; the next thing to do starts another."""

MOST = 4
"""Threads of one name, at most: so many of its calls may hang before others of that name wait."""

Work = Callable[[], float | None]
"""Does one thing that is short, or one that may hang. Gives in how many seconds it wants to be called again; None: it is
done. It must not raise."""


class Crew:
    """Threads that are shared by whoever has something to do, at most `most` for each name.

    Whoever wants to be called again goes behind those that wait. While it waits for its time it holds no thread. Threads
    are daemons: none keeps a process from ending.

    >>> crew, done, left = Crew(), threading.Event(), [1, 2, 3]
    >>> def work() -> float | None:
    ...     print(left.pop(0))
    ...     return 0.0 if left else done.set()
    >>> crew.call("numbers", work)
    >>> done.wait(5.0)
    1
    2
    3
    True
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._shifts: dict[str, _Shift] = {}
        self._lock = threading.Lock()

    def call(self, name: str, work: Work) -> None:
        """Have something done soon by a thread of that name. What has been called for must not be again before it is done."""
        with self._lock:
            shift = self._shifts.get(name)
            if shift is None:
                shift = self._shifts[name] = _Shift(name, self._most)
        shift.add(work, 0.0)

    def hasten(self, name: str, work: Work) -> None:
        """What waits for its time need not wait: it is over."""
        with self._lock:
            shift = self._shifts.get(name)
        if shift is not None:
            shift.hasten(work)


class _Shift:
    """The threads of one name, and what waits for them: what is due first comes first."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._waiting: list[tuple[float, int, Work]] = []
        self._count = itertools.count()
        self._changed = threading.Condition()
        self._threads = 0
        self._resting = 0

    def add(self, work: Work, after: float) -> None:
        with self._changed:
            heapq.heappush(self._waiting, (time.monotonic() + after, next(self._count), work))
            self._have_it_seen_to()

    def hasten(self, work: Work) -> None:
        with self._changed:
            self._waiting = [(0.0, number, other) if other == work else (at, number, other)
                             for at, number, other in self._waiting]  # fmt: skip
            heapq.heapify(self._waiting)
            self._have_it_seen_to()

    def _have_it_seen_to(self) -> None:
        """Where anything waits, a thread is to wait for it: one that rests, or another one."""
        if self._resting:
            self._changed.notify()
        elif self._waiting and self._threads < self._most:
            try:
                threading.Thread(target=self._work, name=f"vitals-{self._name}", daemon=True).start()
            except RuntimeError:  # the process is ending, or has no room: one that is at work does it later, if any
                return
            self._threads += 1

    def _work(self) -> None:
        while (work := self._next()) is not None:
            after = work()
            if after is not None:
                self.add(work, after)

    def _next(self) -> Work | None:
        """What is due, once it is; None where this thread may end: not the last one while anything waits for its time."""
        until = time.monotonic() + IDLE
        with self._changed:
            while True:
                now = time.monotonic()
                if self._waiting and self._waiting[0][0] <= now:
                    work = heapq.heappop(self._waiting)[2]
                    self._have_it_seen_to()
                    return work
                if now >= until and (self._threads > 1 or not self._waiting):
                    self._threads -= 1
                    return None
                first = self._waiting[0][0] if self._waiting else until
                self._resting += 1
                self._changed.wait(first - now if now >= until else min(first, until) - now)
                self._resting -= 1
