"""Who works a recorded run out at once, each as its own documents would have it written."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.benchmarks.contest import Contender, Run
from tests.benchmarks.work import Array, Change, Work, changes_of, conditions
from vitalsdsl.columns.batch import Batch
from vitalsdsl.kernels.columns import Rows
from vitalsdsl.kernels.spread_out import Points
from vitalsdsl.nodes.table import Table

Statistics = dict[str, Array]


def ours(work: Work) -> Run:
    """From columns, as the others have them; what is worked out is the transitions, without their messages."""
    rows = work.rows()
    batch = Batch(work.policy().policy)
    steps, times = np.arange(work.steps), np.full(work.steps, math.nan)

    def run() -> list[Change]:
        points = {name: Points(steps, column) for name, column in work.columns.items()}
        table = Table(Rows(steps, times), points)
        return work.changes(batch.transitions(rows, table=table, wordless=True))

    return run


def _of_rows(work: Work) -> Run:
    """From a dict a step, as a log is read; with the messages."""
    rows = work.rows()
    batch = Batch(work.policy().policy)
    return lambda: work.changes(batch.transitions(rows))


def _of_columns(work: Work, statistics: Callable[[Array, int, tuple[str, ...]], Statistics]) -> Run:
    def run() -> list[Change]:
        found = []
        for i, x in enumerate(work.columns.values()):
            short = statistics(x, work.short, ("mean", "std", "max"))
            long = statistics(x, work.long, ("mean", "std", "min"))
            for n, true in enumerate(conditions(x, short, long)):
                found += changes_of(i * len(work.rules) + n, true, work.spans[n])
        return sorted(found)

    return run


def _pandas(work: Work) -> Run:
    import pandas as pd

    def statistics(x: Array, window: int, wanted: tuple[str, ...]) -> Statistics:
        rolling = pd.Series(x).rolling(window)
        return {name: getattr(rolling, name)().values for name in wanted}

    return _of_columns(work, statistics)


def _bottleneck(work: Work) -> Run:
    import bottleneck as bn

    moving = {
        "mean": bn.move_mean, "max": bn.move_max, "min": bn.move_min, "std": lambda x, w: bn.move_std(x, w, ddof=1)
    }  # fmt: skip
    return _of_columns(work, lambda x, window, wanted: {name: moving[name](x, window) for name in wanted})


def _polars(work: Work) -> Run:
    import polars as pl

    frame = pl.DataFrame(dict(work.columns)).lazy()

    def run() -> list[Change]:
        wanted = []
        for m in work.columns:
            x = pl.col(m)
            s = {"mean": x.rolling_mean(work.short), "std": x.rolling_std(work.short), "max": x.rolling_max(work.short)}
            long = {"mean": x.rolling_mean(work.long), "std": x.rolling_std(work.long), "min": x.rolling_min(work.long)}
            wanted += [c.fill_null(False).alias(f"{m}_{n}") for n, c in enumerate(conditions(x, s, long))]
        done = frame.select(wanted).collect()
        found = []
        for rule, column in enumerate(done.iter_columns()):
            found += changes_of(rule, column.to_numpy(), work.spans[rule % len(work.rules)])
        return sorted(found)

    return run


def _duckdb(work: Work) -> Run:
    """On as many threads as it likes: all of them count."""
    import duckdb
    import pandas as pd

    frame = pd.DataFrame({"step": np.arange(work.steps), **work.columns})
    connection = duckdb.connect()
    connection.register("columns", frame)
    connection.execute("create table run as select * from columns")
    said = []
    for m in work.columns:
        short = {name: f"{sql}({m}) over s" for name, sql in (("mean", "avg"), ("std", "stddev_samp"), ("max", "max"))}
        long = {name: f"{sql}({m}) over l" for name, sql in (("mean", "avg"), ("std", "stddev_samp"), ("min", "min"))}
        for n, one in enumerate((
            f"{m} > {short['mean']} + 6 * {short['std']}",
            f"{long['min']} < 0.3 * {short['mean']}",
            f"{short['max']} > 4 * {long['mean']}",
            f"{short['mean']} > 1.2 * {long['mean']}",
            f"{short['std']} > 2 * {long['std']}",
        )):  # fmt: skip
            known = work.long - 1 if n else work.short - 1
            said.append(f"step >= {known} and {one} as {m}_{n}")
    query = (
        f"select {', '.join(said)} from run window s as (order by step rows {work.short - 1} preceding),"
        f" l as (order by step rows {work.long - 1} preceding) order by step"
    )

    def run() -> list[Change]:
        done = connection.execute(query).fetchnumpy()
        found = []
        for rule, column in enumerate(done.values()):
            found += changes_of(rule, np.asarray(column), work.spans[rule % len(work.rules)])
        return sorted(found)

    return run


def _numba(work: Work) -> Run:
    import numba

    @numba.njit(cache=False)  # type: ignore[untyped-decorator]
    def moving(x: Array, window: int, sign: float) -> Any:
        """Sums that are added to and taken from, and the greatest of sign * x."""
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
            while last > first and sign * x[queue[last - 1]] <= sign * x[i]:
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

    moving(np.ones(4), 2, 1.0)

    def statistics(x: Array, window: int, wanted: tuple[str, ...]) -> Statistics:
        return dict(zip(wanted, moving(x, window, 1.0 if wanted[2] == "max" else -1.0)))

    return _of_columns(work, statistics)


def _read(work: Work) -> Run:
    """One sum over all points."""
    table = np.column_stack(list(work.columns.values()))

    def run() -> list[Change]:
        table.sum()
        return []

    return run


RUNS = (
    Contender("vitalsdsl, a run at once", ours),
    Contender("vitalsdsl, from a dict a step, with messages", _of_rows),
    Contender("numba, one pass, written by hand", _numba, "numba"),
    Contender("bottleneck and NumPy", _bottleneck, "bottleneck"),
    Contender("pandas rolling", _pandas, "pandas"),
    Contender("polars rolling, lazy", _polars, "polars"),
    Contender("duckdb window functions", _duckdb, "duckdb", steps=100_000),
    Contender("limit: one sum over the data", _read, finds="nothing"),
)
