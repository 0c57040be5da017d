"""The median over 5000 points, told anew at each step: `x > 2 * median(x)`, a threshold far from the bulk."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from tests.benchmarks.contest import Contender, Run, Walk
from tests.benchmarks.runs import ours as ours_at_once
from tests.benchmarks.steps import Ours
from tests.benchmarks.work import Array, Change, Rule, Watched, Work, changes_of

RULES: tuple[Rule, ...] = (("{m} > 2 * median({m}, {l} steps)", 1),)


class Median(Protocol):
    def add(self, x: float) -> None:
        """One more point."""

    def read(self) -> float:
        """The median of the last ones."""


class _Sorted:
    """A list that is kept in order."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._points: deque[float] = deque()
        self._in_order: list[float] = []

    def add(self, x: float) -> None:
        if len(self._points) == self._window:
            old = self._points.popleft()
            del self._in_order[bisect_left(self._in_order, old)]
        self._points.append(x)
        insort(self._in_order, x)

    def read(self) -> float:
        middle = len(self._in_order) // 2
        return (self._in_order[middle - 1] + self._in_order[middle]) / 2


class _Ring:
    """NumPy over the last points."""

    def __init__(self, window: int) -> None:
        self._points = np.zeros(window)
        self._at = 0

    def add(self, x: float) -> None:
        self._points[self._at % len(self._points)] = x
        self._at += 1

    def read(self) -> float:
        return float(np.median(self._points))


def _river(window: int) -> Median:
    from river import stats

    rolling = stats.RollingQuantile(0.5, window)

    class River:
        add = rolling.update
        read = rolling.get

    return River()


class _ByMedian:
    def __init__(self, work: Work, new: Callable[[int], Median]) -> None:
        self._values = work.values()
        self._medians = [new(work.long) for _ in work.columns]
        self._watched = Watched(len(work.columns), work.spans)

    def fill(self, until: int) -> None:
        for values in self._values[:until]:
            for median, x in zip(self._medians, values.values()):
                median.add(x)

    def walk(self, begin: int, end: int) -> list[Change]:
        see = self._watched.see
        for step in range(begin, end):
            for i, (median, x) in enumerate(zip(self._medians, self._values[step].values())):
                median.add(x)
                see(i, step, [x > 2 * median.read()])
        return self._watched.taken()


def _by(new: Callable[[int], Median]) -> Callable[[Work], Walk]:
    return lambda work: _ByMedian(work, new)


def _of_columns(work: Work, median: Callable[[Array, int], Array]) -> Run:
    def run() -> list[Change]:
        found = []
        for i, x in enumerate(work.columns.values()):
            found += changes_of(i, x > 2 * median(x, work.long), 1)
        return sorted(found)

    return run


def _polars(work: Work) -> Run:
    import polars as pl

    def median(x: Array, window: int) -> Array:
        return pl.Series(x).rolling_median(window).cast(pl.Float64).fill_null(float("nan")).to_numpy()

    return _of_columns(work, median)


def _bottleneck(work: Work) -> Run:
    import bottleneck

    move_median: Any = bottleneck.move_median
    return _of_columns(work, move_median)


def _pandas(work: Work) -> Run:
    import pandas as pd

    return _of_columns(work, lambda x, window: pd.Series(x).rolling(window).median().values)


STEPS = (
    Contender("vitalsdsl, a step at a time", Ours),
    Contender("river RollingQuantile", _by(_river), "river"),
    Contender("a list kept in order", _by(_Sorted)),
    Contender("NumPy median of a ring", _by(_Ring), steps=50),
)
RUNS = (
    Contender("vitalsdsl, a run at once", ours_at_once),
    Contender("polars rolling_median", _polars, "polars"),
    Contender("bottleneck move_median", _bottleneck, "bottleneck"),
    Contender("pandas rolling median", _pandas, "pandas"),
)
