"""A store in memory that answers as a tracking server does, for what would take a real one too long."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from vitalsdsl_mlflow.rows import LoggedPoint
from vitalsdsl_mlflow.stores import Snapshot

from vitalsdsl.ground.errors import RunGone, TrackerError
from vitalsdsl.watching.feeds import Wanted

RUN = "0123456789abcdef"


def _order(point: LoggedPoint) -> tuple[int, int, float, bool]:
    is_nan = math.isnan(point.value)
    return point.timestamp, point.step, 0.0 if is_nan else point.value, is_nan


class MemoryStore:
    """One run. `fails` says at which requests (by number) it fails; `has_intervals` is false of an old server."""

    uri = "http://memory"

    def __init__(self, *, has_intervals: bool = True, fails: frozenset[int] = frozenset()) -> None:
        self.status = "RUNNING"
        self.started = 1
        self.is_deleted = False
        self.requests = 0
        self.fails = fails
        self._has_intervals = has_intervals
        self._points: dict[str, dict[tuple[Any, ...], LoggedPoint]] = {}
        self._sorted: dict[str, list[LoggedPoint]] = {}

    def log(self, key: str, value: float, step: int, timestamp: int) -> None:
        point = LoggedPoint(key, value, step, timestamp)
        self._points.setdefault(key, {})[_order(point)] = point
        self._sorted.pop(key, None)

    def _answers(self) -> None:
        self.requests += 1
        if self.requests in self.fails:
            raise TrackerError("down")

    def _history(self, key: str) -> list[LoggedPoint]:
        if key not in self._sorted:
            self._sorted[key] = sorted(self._points[key].values(), key=_order)
        return self._sorted[key]

    def run(self, run_id: str) -> Snapshot:
        self._answers()
        if run_id != RUN:
            raise RunGone("no such run")
        latest = {
            key: max(points.values(), key=lambda p: (p.step, p.timestamp, _order(p)[2]))
            for key, points in self._points.items()
        }
        return Snapshot(RUN, "0", self.status, self.started, is_deleted=self.is_deleted, latest=latest)

    def experiment(self, name: str) -> str:
        return "0"

    def experiments(self, pattern: str) -> list[str]:
        return ["0"]

    def search(self, experiments: Sequence[str], wanted: Wanted) -> list[Snapshot]:
        return [self.run(RUN)]

    def page_url(self, snapshot: Snapshot) -> str:
        return ""

    def reference(self, snapshot: Snapshot) -> str:
        return snapshot.run_id

    def tail(self, run_id: str, key: str, offset: int, limit: int, mark: Any) -> Sequence[LoggedPoint]:
        self._answers()
        return self._history(key)[offset : offset + limit]

    def since(self, run_id: str, key: str, first: int, last: int) -> Sequence[LoggedPoint] | None:
        self._answers()
        return [point for point in self._history(key) if first <= point.step <= last] if self._has_intervals else None

    def since_of(self, runs: Sequence[str], key: str, first: int, last: int) -> dict[str, Sequence[LoggedPoint]]:
        found = self.since(RUN, key, first, last)
        return {} if found is None else {RUN: found}

    def mark(self, run_id: str) -> None:
        return None

    def fresh(self, run_id: str, mark: Any) -> tuple[Sequence[LoggedPoint], Any]:
        raise AssertionError("this store gives no marks")

    def close(self) -> None: ...
