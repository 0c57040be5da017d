"""Who does the work, each as its own documents would have it written. One that is not installed is left out."""

from __future__ import annotations

import importlib
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.benchmarks.work import SPANS, Array, Change, Watched, Work, changes_of, conditions
from vitalsdsl.batch import Batch
from vitalsdsl.kernels.columns import Rows
from vitalsdsl.kernels.spread_out import Points
from vitalsdsl.policy import load
from vitalsdsl.stream import Stream
from vitalsdsl.table import Table

Run = Callable[[], list[Change]]


@dataclass(frozen=True)
class Contender:
    """`prepare` does what is not measured, such as loading the policy and turning the data into the form that is wanted;
    what it gives is measured, and gives the changes in order of rule and step."""

    name: str
    prepare: Callable[[Work], Run]
    needs: str = ""

    @property
    def is_installed(self) -> bool:
        try:
            return not self.needs or importlib.import_module(self.needs) is not None
        except ImportError:
            return False


# -------------------------------------------------------------------- whole columns


def _batch(work: Work) -> Run:
    loaded, rows = load("work", text=work.policy()), work.rows()
    batch = Batch(loaded.policy)

    def run() -> list[Change]:
        steps = np.arange(work.steps)
        points = {name: Points(steps, column) for name, column in work.columns.items()}
        table = Table(Rows(steps, np.full(work.steps, math.nan)), points)
        return work.changes(batch.transitions(rows, table=table, wordless=True))

    return run


def _batch_of_rows(work: Work) -> Run:
    loaded, rows = load("work", text=work.policy()), work.rows()
    batch = Batch(loaded.policy)
    return lambda: work.changes(batch.transitions(rows))


def _of_columns(work: Work, statistics: Callable[[Array, int], dict[str, Array]]) -> Run:
    def run() -> list[Change]:
        found = []
        for i, x in enumerate(work.columns.values()):
            short, long = statistics(x, work.short), statistics(x, work.long)
            for n, true in enumerate(conditions(x, short, long)):
                found += changes_of(i * len(SPANS) + n, true, SPANS[n])
        return sorted(found)

    return run


def _pandas(work: Work) -> Run:
    import pandas as pd

    def statistics(x: Array, window: int) -> dict[str, Array]:
        rolling = pd.Series(x).rolling(window)
        return {"mean": rolling.mean().values, "std": rolling.std().values, "max": rolling.max().values}

    return _of_columns(work, statistics)


def _bottleneck(work: Work) -> Run:
    import bottleneck as bn

    def statistics(x: Array, window: int) -> dict[str, Array]:
        return {
            "mean": bn.move_mean(x, window), "std": bn.move_std(x, window, ddof=1), "max": bn.move_max(x, window)
        }  # fmt: skip

    return _of_columns(work, statistics)


def _polars(work: Work) -> Run:
    import polars as pl

    def statistics(x: Array, window: int) -> dict[str, Array]:
        column = pl.Series(x)
        made = {
            "mean": column.rolling_mean(window), "std": column.rolling_std(window), "max": column.rolling_max(window)
        }  # fmt: skip
        return {name: one.cast(pl.Float64).fill_null(math.nan).to_numpy() for name, one in made.items()}

    return _of_columns(work, statistics)


def _numba(work: Work) -> Run:
    import numba

    @numba.njit(cache=False)  # type: ignore[untyped-decorator]
    def moving(x: Array, window: int) -> Any:
        n = len(x)
        mean, std, top = np.full(n, np.nan), np.full(n, np.nan), np.full(n, np.nan)
        queue, first, last = np.empty(n, np.int64), 0, 0
        total, squares = 0.0, 0.0
        for i in range(n):
            v = x[i] - 1.0
            total += v
            squares += v * v
            if i >= window:
                old = x[i - window] - 1.0
                total -= old
                squares -= old * old
            while last > first and x[queue[last - 1]] <= x[i]:
                last -= 1
            queue[last] = i
            last += 1
            if queue[first] <= i - window:
                first += 1
            if i >= window - 1:
                mean[i] = total / window + 1.0
                std[i] = math.sqrt(max(squares - total * total / window, 0.0) / (window - 1))
                top[i] = x[queue[first]]
        return mean, std, top

    moving(np.ones(4), 2)

    def statistics(x: Array, window: int) -> dict[str, Array]:
        return dict(zip(("mean", "std", "max"), moving(x, window)))

    return _of_columns(work, statistics)


# -------------------------------------------------------------------- a step at a time


def _stream(work: Work) -> Run:
    loaded, rows = load("work", text=work.policy()), work.rows()

    def run() -> list[Change]:
        stream, found = Stream(loaded.policy, keep_rows=False), []
        for row in rows:
            found += stream.push_row(row)
        return work.changes(found + stream.finish())

    return run


class _Sums:
    """Running sums over a deque: quick, and wrong once a spike has been in it."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.points: deque[float] = deque()
        self.candidates: deque[tuple[int, float]] = deque()
        self.total = self.squares = 0.0
        self.at = 0

    def push(self, x: float) -> dict[str, float]:
        self.points.append(x)
        self.total += x
        self.squares += x * x
        self.at += 1
        if len(self.points) > self.window:
            old = self.points.popleft()
            self.total -= old
            self.squares -= old * old
        while self.candidates and self.candidates[-1][1] <= x:
            self.candidates.pop()
        self.candidates.append((self.at, x))
        if self.candidates[0][0] <= self.at - self.window:
            self.candidates.popleft()
        n = len(self.points)
        if n < self.window:
            return _UNKNOWN
        spread = max(self.squares - self.total * self.total / n, 0.0)
        return {"mean": self.total / n, "std": math.sqrt(spread / (n - 1)), "max": self.candidates[0][1]}


_UNKNOWN = {"mean": math.nan, "std": math.nan, "max": math.nan}


class _Naive:
    """A list, gone through anew at each step."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.points: list[float] = []

    def push(self, x: float) -> dict[str, float]:
        self.points = [*self.points[-self.window + 1 :], x]
        n = len(self.points)
        if n < self.window:
            return _UNKNOWN
        mean = sum(self.points) / n
        spread = sum((point - mean) ** 2 for point in self.points)
        return {"mean": mean, "std": math.sqrt(spread / (n - 1)), "max": max(self.points)}


def _river_window(window: int) -> Any:
    from river import stats, utils

    mean, var, top = utils.Rolling(stats.Mean(), window), utils.Rolling(stats.Var(), window), stats.RollingMax(window)

    class River:
        seen = 0

        def push(self, x: float) -> dict[str, float]:
            mean.update(x)
            var.update(x)
            top.update(x)
            self.seen += 1
            if self.seen < window:
                return _UNKNOWN
            return {"mean": mean.get(), "std": math.sqrt(var.get()), "max": top.get()}

    return River()


def _step_by_step(new: Callable[[int], Any]) -> Callable[[Work], Run]:
    def prepare(work: Work) -> Run:
        columns = [column.tolist() for column in work.columns.values()]

        def run() -> list[Change]:
            watched = Watched(len(columns))
            windows = [(new(work.short), new(work.long)) for _ in columns]
            for step, values in enumerate(zip(*columns)):
                for i, (x, (short, long)) in enumerate(zip(values, windows)):
                    watched.see(i, step, conditions(x, short.push(x), long.push(x)))
            return sorted(watched.changes)

        return run

    return prepare


BATCH = [
    Contender("vitalsdsl, a run at once", _batch),
    Contender("vitalsdsl, of rows, in words", _batch_of_rows),
    Contender("numba, one pass", _numba, "numba"),
    Contender("bottleneck + NumPy", _bottleneck, "bottleneck"),
    Contender("pandas rolling", _pandas, "pandas"),
    Contender("polars rolling", _polars, "polars"),
]
STREAM = [
    Contender("vitalsdsl, a step at a time", _stream),
    Contender("deque with running sums", _step_by_step(_Sums)),
    Contender("river rolling", _step_by_step(_river_window), "river"),
    Contender("lists, recomputed", _step_by_step(_Naive)),
]
"""The first of each is ours."""
