"""Who works a run out a step at a time, each as one would write it, or as its own documents would have it."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from tests.benchmarks.contest import Contender, Walk
from tests.benchmarks.work import Change, Watched, Work, conditions
from vitalsdsl.streaming.stream import Stream


class Ours:
    """As a training loop logs: a dict a step."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._values = work.values()
        self._stream = Stream(work.policy().policy, keep_rows=False)

    def put(self, stream: Stream) -> None:
        """Under another policy."""
        self._stream = stream

    def fill(self, until: int) -> None:
        self.walk(0, until)

    def walk(self, begin: int, end: int) -> list[Change]:
        values, push, close, found = self._values, self._stream.push, self._stream.close, []
        for step in range(begin, end):
            push(values[step], step)
            found += close()
        return self._work.changes(found)


class Window(Protocol):
    """The statistics of the last points of one metric."""

    def add(self, x: float) -> None:
        """One more point."""

    def read(self) -> dict[str, float]:
        """The statistics as they stand; asked for only where the window is full."""


class _Sums:
    """Running sums over a deque: quick, and wrong once a spike has been in it."""

    def __init__(self, window: int, wants_max: bool) -> None:
        self._window = window
        self._sign = 1.0 if wants_max else -1.0
        self._name = "max" if wants_max else "min"
        self._points: deque[float] = deque()
        self._candidates: deque[tuple[int, float]] = deque()
        self._total = self._squares = 0.0
        self._at = 0

    def add(self, x: float) -> None:
        points, candidates, window = self._points, self._candidates, self._window
        points.append(x)
        self._total += x
        self._squares += x * x
        if len(points) > window:
            old = points.popleft()
            self._total -= old
            self._squares -= old * old
        self._at += 1
        signed = self._sign * x
        while candidates and candidates[-1][1] <= signed:
            candidates.pop()
        candidates.append((self._at, signed))
        if candidates[0][0] <= self._at - window:
            candidates.popleft()

    def read(self) -> dict[str, float]:
        n, total = self._window, self._total
        spread = max(self._squares - total * total / n, 0.0)
        return {"mean": total / n, "std": math.sqrt(spread / (n - 1)), self._name: self._sign * self._candidates[0][1]}


class _Listed:
    """A list that is gone through anew at each step."""

    def __init__(self, window: int, wants_max: bool) -> None:
        self._window = window
        self._name, self._top = ("max", max) if wants_max else ("min", min)
        self._history: list[float] = []

    def add(self, x: float) -> None:
        self._history.append(x)

    def read(self) -> dict[str, float]:
        points = self._history[-self._window :]
        mean = sum(points) / len(points)
        spread = sum((x - mean) ** 2 for x in points)
        return {"mean": mean, "std": math.sqrt(spread / (len(points) - 1)), self._name: self._top(points)}


class _ByStatistics(_Listed):
    """The same with the standard library's module, which is exact."""

    def read(self) -> dict[str, float]:
        points = self._history[-self._window :]
        return {"mean": statistics.mean(points), "std": statistics.stdev(points), self._name: self._top(points)}


def _river(window: int, wants_max: bool) -> Window:
    from river import stats, utils

    mean, var = utils.Rolling(stats.Mean(), window), utils.Rolling(stats.Var(), window)
    top: Any = stats.RollingMax(window) if wants_max else stats.RollingMin(window)
    name = "max" if wants_max else "min"

    class River:
        def add(self, x: float) -> None:
            mean.update(x)
            var.update(x)
            top.update(x)

        def read(self) -> dict[str, float]:
            return {"mean": mean.get(), "std": math.sqrt(var.get()), name: top.get()}

    return River()


class _ByWindows:
    """A callback with two windows for each metric, and the five rules written out."""

    def __init__(self, work: Work, new: Callable[[int, bool], Window]) -> None:
        self._values = work.values()
        self._windows = {m: (new(work.short, True), new(work.long, False)) for m in work.columns}
        self._watched = Watched(len(work.columns), work.spans)

    def fill(self, until: int) -> None:
        for values in self._values[:until]:
            for m, x in values.items():
                short, long = self._windows[m]
                short.add(x)
                long.add(x)

    def walk(self, begin: int, end: int) -> list[Change]:
        windows, see = list(self._windows.values()), self._watched.see
        for step in range(begin, end):
            for i, (x, (short, long)) in enumerate(zip(self._values[step].values(), windows)):
                short.add(x)
                long.add(x)
                see(i, step, conditions(x, short.read(), long.read()))
        return self._watched.taken()


class _Limit:
    """What a caller pays for handing a dict over and having its floats taken out."""

    def __init__(self, work: Work) -> None:
        self._values = work.values()

    def fill(self, until: int) -> None:
        pass

    def walk(self, begin: int, end: int) -> list[Change]:
        def take(values: dict[str, float]) -> float:
            x = 0.0
            for x in values.values():  # noqa: B007
                pass
            return x

        for values in self._values[begin:end]:
            take(values)
        return []


def by_windows(new: Callable[[int, bool], Window]) -> Callable[[Work], Walk]:
    return lambda work: _ByWindows(work, new)


STEPS = (
    Contender("vitalsdsl, a step at a time", Ours),
    Contender("deques with running sums, written by hand", by_windows(_Sums)),
    Contender("river rolling", by_windows(_river), "river", steps=500),
    Contender("lists gone through anew", by_windows(_Listed), steps=40),
    Contender("the statistics module", by_windows(_ByStatistics), steps=8),
    Contender("limit: a call with the dict, its floats taken", _Limit, finds="nothing"),
)
