"""Results that are kept on disk, so that a backtest goes on where it was stopped, and reads only what has changed."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sqlite3
import zlib
from pathlib import Path

from vitalsdsl import __version__
from vitalsdsl.backtesting.judging import PolicyCopy
from vitalsdsl.backtesting.outcome import RunOutcome
from vitalsdsl.runs.places import Place

logger = logging.getLogger("vitalsdsl")

FILE = "backtests.db"
"""The file of kept results in the home."""

_BUSY = 10.0
"""Seconds to wait for another process that is writing."""

_TABLE = "CREATE TABLE IF NOT EXISTS kept (key TEXT PRIMARY KEY, runs BLOB)"


class Kept:
    """The results of places by policy. What cannot be kept or taken up is said once, and costs only time.

    Those of a file hold as long as its path, size and time of change do. Runs of trackers may have gone on: what was kept
    of them is taken only with `resume`.
    """

    def __init__(self, folder: str | os.PathLike[str], resume: bool = False) -> None:
        self.path = Path(folder) / FILE
        self._resume = resume
        self._db: sqlite3.Connection | None = None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self.path, timeout=_BUSY, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute(_TABLE)
        except (OSError, sqlite3.Error) as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        logger.warning("vitals: results are not kept: %s cannot be used: %s", self.path, error)
        self._db = None

    def get(self, place: Place, copy: PolicyCopy, step_key: str | None) -> tuple[RunOutcome, ...] | None:
        """What was kept of a place under a policy; None where nothing was, or it no longer holds."""
        if self._db is None or not (place.identity or self._resume):
            return None
        try:
            found = self._db.execute("SELECT runs FROM kept WHERE key = ?", (_key(place, copy, step_key),)).fetchone()
        except sqlite3.Error as error:
            self._give_up(error)
            return None
        if found is None:
            return None
        try:
            return _runs(found[0])
        except (ValueError, TypeError, zlib.error):  # written by nobody who is known: read the place anew
            return None

    def put(self, place: Place, copy: PolicyCopy, step_key: str | None, runs: tuple[RunOutcome, ...]) -> None:
        """Keep what came of a place: on disk when this returns, whatever becomes of this process."""
        if self._db is None:
            return
        try:
            self._db.execute("INSERT OR REPLACE INTO kept VALUES (?, ?)", (_key(place, copy, step_key), _blob(runs)))
        except sqlite3.Error as error:
            self._give_up(error)

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None


def _key(place: Place, copy: PolicyCopy, step_key: str | None) -> str:
    identity = place.identity or place.reference
    parts = (__version__, copy.digest, step_key or copy.axis, place.shown, identity)
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _blob(runs: tuple[RunOutcome, ...]) -> bytes:
    head = json.dumps([[one.as_record(), len(one.packed)] for one in runs]).encode()
    return b"%d\n" % len(head) + head + b"".join(one.packed for one in runs)


def _runs(blob: bytes) -> tuple[RunOutcome, ...]:
    size, _, rest = blob.partition(b"\n")
    at, runs = int(size), []
    for record, length in json.loads(rest[:at]):
        runs.append(RunOutcome.from_record(record, rest[at : at + length]))
        at += length
    return tuple(runs)
