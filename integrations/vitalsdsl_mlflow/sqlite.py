"""MLflow's sqlite file as a store: read where it lies, in the order in which points arrived, never written to."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from vitalsdsl.ground.errors import RunGone, TrackerError
from vitalsdsl.watching.feeds import Wanted
from vitalsdsl_mlflow.rest import NotThere
from vitalsdsl_mlflow.rows import LoggedPoint
from vitalsdsl_mlflow.stores import Snapshot, fits, restored

PATIENCE_S = 5.0
"""How long a reading waits while a writer holds the file."""

FRESH = 50_000
"""Points that are read at once, at most: a reading holds up those who write."""

_POINT = "key, value, is_nan, step, timestamp"
_RUN = "run_uuid, experiment_id, status, start_time, end_time, lifecycle_stage, artifact_uri"


class SqliteStore:
    """One sqlite file of MLflow."""

    def __init__(self, file: Path) -> None:
        self._file = file.resolve()
        self._lock = threading.Lock()
        self._open: sqlite3.Connection | None = None

    @property
    def uri(self) -> str:
        return f"sqlite:///{self._file}"

    def run(self, run_id: str) -> Snapshot:
        found = self._snapshots(f"SELECT {_RUN} FROM runs WHERE run_uuid = ?", (run_id,))
        if not found:
            raise RunGone(f"there is no run {run_id} in {self._file}")
        return found[0]

    def experiment(self, name: str) -> str:
        for column in ("name", "CAST(experiment_id AS TEXT)"):
            found = self._rows(f"SELECT experiment_id FROM experiments WHERE {column} = ?", (name,))
            if found:
                return str(found[0][0])
        raise NotThere(f"there is no experiment called `{name}` in {self._file}")

    def experiments(self, pattern: str) -> list[str]:
        found = self._rows("SELECT experiment_id, name FROM experiments WHERE lifecycle_stage = 'active'", ())
        return [str(number) for number, name in found if fits(name, pattern)]

    def search(self, experiments: Sequence[str], wanted: Wanted) -> list[Snapshot]:
        marks = ", ".join("?" * len(experiments))
        active, values = "", [int(experiment) for experiment in experiments]
        if not wanted.finished:
            active = "AND (status = 'RUNNING' OR end_time > ?)"
            values.append(int(1000 * min(wanted.ended_after, 1e15)))
        sql = (
            f"SELECT {_RUN} FROM runs WHERE experiment_id IN ({marks}) AND lifecycle_stage = 'active' {active}"
            " ORDER BY start_time"
        )
        return [run for run in self._snapshots(sql, values) if run.has(wanted)]

    def page_url(self, snapshot: Snapshot) -> str:
        return ""

    def reference(self, snapshot: Snapshot) -> str:
        return snapshot.run_id

    def tail(self, run_id: str, key: str, offset: int, limit: int, mark: int) -> list[LoggedPoint]:
        return _points(self._rows(
            f"SELECT {_POINT} FROM metrics WHERE run_uuid = ? AND key = ? AND rowid <= ?"
            " ORDER BY timestamp, step, value, is_nan LIMIT ? OFFSET ?", (run_id, key, mark, limit, offset),
        ))  # fmt: skip

    def since(self, run_id: str, key: str, first: int, last: int) -> None:
        return None

    def since_of(self, runs: Sequence[str], key: str, first: int, last: int) -> Mapping[str, Sequence[LoggedPoint]]:
        return {}  # what is on this disk is read run by run: there is no way to be saved

    def mark(self, run_id: str) -> int:
        return int(self._rows("SELECT COALESCE(MAX(rowid), 0) FROM metrics", ())[0][0])

    def fresh(self, run_id: str, mark: int) -> tuple[Sequence[LoggedPoint], int]:
        upto = self.mark(run_id)
        found: list[LoggedPoint] = []
        while mark < upto:
            last = min(upto, mark + FRESH)
            found += _points(self._rows(
                f"SELECT {_POINT} FROM metrics NOT INDEXED WHERE rowid > ? AND rowid <= ? AND run_uuid = ? ORDER BY rowid",
                (mark, last, run_id),
            ))  # fmt: skip
            mark = last
        return found, upto

    def close(self) -> None:
        with self._lock:
            if self._open is not None:
                self._open.close()
            self._open = None

    def _snapshots(self, sql: str, values: Sequence[Any]) -> list[Snapshot]:
        return [
            Snapshot(
                run_id=run_id,
                experiment_id=str(experiment),
                status=status or "RUNNING",
                started=started or 0,
                ended=ended or 0,
                is_deleted=stage == "deleted",
                artifact_uri=artifacts or "",
                tags=dict(self._rows("SELECT key, COALESCE(value, '') FROM tags WHERE run_uuid = ?", (run_id,))),
                params=dict(self._rows("SELECT key, value FROM params WHERE run_uuid = ?", (run_id,))),
                latest={point.key: point for point in _points(
                    self._rows(f"SELECT {_POINT} FROM latest_metrics WHERE run_uuid = ?", (run_id,)))},
            )
            for run_id, experiment, status, started, ended, stage, artifacts in self._rows(sql, values)
        ]  # fmt: skip

    def _rows(self, sql: str, values: Sequence[Any]) -> list[Any]:
        with self._lock:
            try:
                if self._open is None:
                    self._open = sqlite3.connect(
                        f"file:{quote(str(self._file))}?mode=ro",
                        uri=True,
                        timeout=PATIENCE_S,
                        check_same_thread=False,
                        isolation_level=None,
                    )
                return self._open.execute(sql, values).fetchall()
            except sqlite3.Error as error:
                if not self._file.is_file():
                    raise TrackerError(f"there is no file {self._file}", is_final=True) from None
                if "no such table" in str(error) or "not a database" in str(error):
                    raise TrackerError(f"{self._file} is not a database of MLflow", is_final=True) from None
                raise TrackerError(f"{self._file} cannot be read now: {error}") from None


def _points(rows: Iterable[Any]) -> list[LoggedPoint]:
    return [
        LoggedPoint(key, float("nan") if is_nan else restored(float(value)), step or 0, timestamp or 0)
        for key, value, is_nan, step, timestamp in rows
    ]
