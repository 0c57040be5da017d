"""Many runs of one experiment that log at once, written straight into a tracking server's sqlite file.

So the server has the reading to do and nothing else. What it would have made of each point is written beside it: the latest
point of each metric, infinities as the largest float, NaN as 0 with a mark.
"""

from __future__ import annotations

import math
import random
import sqlite3
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.mlflow.watching import wave

Point = tuple[str, int, str]
"""Name, step and value: what is told of a point, and asked for again."""

_INSERT = "INSERT OR IGNORE INTO metrics (key, value, timestamp, run_uuid, step, is_nan) VALUES (?, ?, ?, ?, ?, ?)"

_LATEST = """
INSERT INTO latest_metrics (key, value, timestamp, run_uuid, step, is_nan) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (key, run_uuid) DO UPDATE SET value = excluded.value, timestamp = excluded.timestamp, step = excluded.step,
is_nan = excluded.is_nan WHERE (excluded.step, excluded.timestamp) >= (latest_metrics.step, latest_metrics.timestamp)
"""


LATE_MS = 3000


class _Row(NamedTuple):
    run: str
    key: str
    step: int
    value: float
    time: int

    def stored(self) -> tuple[str, float, int, str, int, bool]:
        is_nan = math.isnan(self.value)
        value = math.copysign(sys.float_info.max, self.value) if math.isinf(self.value) else self.value
        return self.key, 0.0 if is_nan else value, self.time, self.run, self.step, is_nan


class FleetWriter:
    """`runs` runs with `metrics` metrics each, of an experiment of its own. Run n begins `apart` steps after run n - 1.

    One point in fifty comes late, by up to three seconds. `written` are the points of each run.
    """

    def __init__(self, file: Path, name: str, runs: int, metrics: int, *, apart: int = 0, seed: int = 7) -> None:
        self._db = sqlite3.connect(file, timeout=60.0, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode = WAL")  # so that neither the server nor this waits for the other
        self._db.execute("PRAGMA synchronous = OFF")
        self._metrics = metrics
        self._dice = random.Random(seed)
        self._late: list[tuple[int, _Row]] = []
        now = _milliseconds()
        experiment = 1_000_000 + self._dice.randrange(10**6)
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute(
            "INSERT INTO experiments (experiment_id, name, artifact_location, lifecycle_stage) VALUES (?, ?, ?, 'active')",
            (experiment, name, f"mlflow-artifacts:/{experiment}"),
        )
        self.runs = [uuid.UUID(int=self._dice.getrandbits(128)).hex for _ in range(runs)]
        self.steps = [number * apart for number in range(runs)]
        self._db.executemany(
            "INSERT INTO runs (run_uuid, name, status, start_time, lifecycle_stage, experiment_id, artifact_uri, user_id)"
            " VALUES (?, ?, 'RUNNING', ?, 'active', ?, ?, 'trial')",
            [(run, f"run {n}", now + n, experiment, f"mlflow-artifacts:/{experiment}/{run}/artifacts")
             for n, run in enumerate(self.runs)],
        )  # fmt: skip
        self._db.execute("COMMIT")
        self.written: list[Counter[Point]] = [Counter() for _ in range(runs)]

    def step(self, numbers: Iterable[int]) -> None:
        """One step of each of these runs, but for points that come late, and of earlier steps those that come now."""
        now = _milliseconds()
        rows = [row for due, row in self._late if due <= now]
        self._late = [late for late in self._late if late[0] > now]
        for number in numbers:
            step = self.steps[number] = self.steps[number] + 1
            for key in range(self._metrics):
                value = wave(key, step)
                self.written[number][f"m/{key}", step, repr(value)] += 1
                row = _Row(self.runs[number], f"m/{key}", step, value, now)
                if self._dice.random() < 0.02:
                    self._late.append((now + self._dice.randrange(LATE_MS), row))
                else:
                    rows.append(row)
        self._write(rows)

    def again(self, number: int, back: int, value: float) -> None:
        """A run that was resumed from an older checkpoint: it logs its last steps once more, with this value."""
        first = max(1, self.steps[number] - back)
        now = _milliseconds()
        rows = []
        for step in range(first, first + back // 2):
            for key in range(self._metrics):
                self.written[number][f"m/{key}", step, repr(value)] += 1
                rows.append(_Row(self.runs[number], f"m/{key}", step, value, now + step - first))
        self._write(rows)

    def end(self) -> None:
        """All runs are finished, and what was late has come."""
        self._write([row for _, row in self._late])
        self._late = []
        self._db.execute("UPDATE runs SET status = 'FINISHED', end_time = ? WHERE status = 'RUNNING'"
                         f" AND run_uuid IN ({','.join('?' * len(self.runs))})", (_milliseconds(), *self.runs))  # fmt: skip

    def close(self) -> None:
        self._db.close()

    def _write(self, rows: Sequence[_Row]) -> None:
        stored = [row.stored() for row in rows]
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany(_INSERT, stored)
        self._db.executemany(_LATEST, stored)
        self._db.execute("COMMIT")


def _milliseconds() -> int:
    return time.time_ns() // 1_000_000
