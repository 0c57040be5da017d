"""What a watcher remembers of its runs between readings and between processes: one SQLite file, no set-up.

For each run and policy: the cursor of its feed and the state of its rules, which belong together and are written
together; and what has been put on the run that is to be there once, such as the policy's copy. What was decided is not here but in the run's journal, which is written first: a watcher that dies in between
reads some points again, comes to the same transitions, and finds that they have been dealt with.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import socket
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vitalsdsl.acting.journal import is_alive
from vitalsdsl.ground.errors import StateError
from vitalsdsl.watching.feeds import Cursor

logger = logging.getLogger("vitalsdsl")

STORE = "watch.db"
"""The store's file in a watcher's folder."""

MARGIN = 600.0
"""How many seconds later than its own clock says a run may have ended."""

LEASE = 60.0
"""Seconds for which a run belongs to the watcher that renewed its lease last."""

_BUSY = 10.0
"""Seconds to wait for another process that is writing."""

_VERSION = 1

_MAGIC = b"SQLite format 3\0"

_TABLES = """
CREATE TABLE IF NOT EXISTS runs (
    uri TEXT, digest TEXT, cursor TEXT, state BLOB, rewinds TEXT, is_over INTEGER, saved REAL, PRIMARY KEY (uri, digest)
);
CREATE TABLE IF NOT EXISTS leases (uri TEXT, digest TEXT, holder TEXT, until REAL, PRIMARY KEY (uri, digest));
CREATE TABLE IF NOT EXISTS visits (target TEXT, digest TEXT, first REAL, at REAL, PRIMARY KEY (target, digest));
CREATE TABLE IF NOT EXISTS landed (uri TEXT, digest TEXT, what TEXT, PRIMARY KEY (uri, digest, what));
CREATE TABLE IF NOT EXISTS begun (target TEXT, digest TEXT, uri TEXT, PRIMARY KEY (target, digest, uri));
"""


@dataclass(frozen=True)
class Bookmark:
    """How far one run has been read under one policy. `rewinds` are the steps to which it has gone back so far."""

    cursor: Cursor | None
    state: Mapping[str, Any] | None
    rewinds: tuple[int, ...] = ()
    is_over: bool = False


@dataclass(frozen=True)
class Visit:
    """When a target was first and last looked at under a policy (unix seconds; infinity: never), and the runs that were
    found there and have not been read to their end."""

    first: float = math.inf
    at: float = math.inf
    begun: frozenset[str] = frozenset()

    @property
    def ended_after(self) -> float:
        """Since when a run that has ended may not have been seen. Clocks differ by minutes; what had ended when the target
        was first looked at is left alone."""
        return max(self.at - MARGIN, self.first)


class Store:
    """Bookmarks and leases of all watchers that share a folder. Safe to use from several threads and processes.

    A file that is damaged is set aside, and another begun: what was done about the runs stands in their journals, so that
    this costs only the time in which they are read anew.

    Raises StateError where the file cannot be opened and written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._lock = threading.RLock()
        self._file = 0
        self._seen: dict[tuple[str, str], tuple[tuple[str, float], float]] = {}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._connect()
            except sqlite3.DatabaseError as error:
                if not self._is_damaged(error):
                    raise
                logger.warning("vitals: %s", self._begin_anew())
        except (OSError, sqlite3.Error) as error:
            raise StateError(f"{self._path} cannot be used as the watcher's store: {error}") from error

    def _connect(self) -> None:
        self._db = sqlite3.connect(self._path, timeout=_BUSY, isolation_level=None, check_same_thread=False)
        self._db.executescript(_TABLES)
        self._db.execute(f"PRAGMA user_version = {_VERSION}")  # a write, so that a place without room is found out now
        self._file = self._path.stat().st_ino

    def _begin_anew(self) -> str:
        """Set the damaged file aside, unless another thread or watcher has done so; what to say of it."""
        aside = self._path.with_name(f"{self._path.name}.damaged")
        with self._lock:
            if not self._is_whole():
                with contextlib.suppress(sqlite3.Error):
                    self._db.close()
                if self._file in (0, self._path.stat().st_ino):
                    for end in ("", "-journal"):
                        with contextlib.suppress(FileNotFoundError):
                            self._path.with_name(self._path.name + end).replace(f"{aside}{end}")
                self._connect()
        return f"{self._path} was damaged: it lies as {aside.name} now, and runs are read anew from their beginning"

    def _is_damaged(self, error: sqlite3.Error) -> bool:
        """Whether a store of ours is broken: not one that is locked or full, and not somebody's file of another kind."""
        if type(error) is not sqlite3.DatabaseError:
            return False
        try:
            with self._path.open("rb") as file:
                return file.read(len(_MAGIC)) in (_MAGIC, bytes(len(_MAGIC)))
        except OSError:
            return False

    def _is_whole(self) -> bool:
        try:
            is_ours = self._file == self._path.stat().st_ino
            return is_ours and self._db.execute("PRAGMA quick_check").fetchone() == ("ok",)
        except (OSError, sqlite3.Error):
            return False

    def _failed(self, error: sqlite3.Error, what: str) -> StateError:
        if not self._is_damaged(error):
            return StateError(f"{self._path} cannot be {what}: {error}")
        try:
            return StateError(self._begin_anew())  # raised all the same: what was asked for has not been done
        except (OSError, sqlite3.Error) as second:
            return StateError(f"{self._path} is damaged, and no other can be begun: {second}")

    def bookmark(self, uri: str, digest: str) -> Bookmark | None:
        """Where to go on with a run; None for one that is new. One that is damaged is as good as none.

        Raises StateError where the file cannot be read.
        """
        try:
            with self._lock:
                row = self._db.execute(
                    "SELECT cursor, state, rewinds, is_over FROM runs WHERE uri = ? AND digest = ?", (uri, digest)
                ).fetchone()
        except sqlite3.Error as error:
            raise self._failed(error, "read") from error
        if row is None:
            return None
        try:
            state = json.loads(zlib.decompress(row[1])) if row[1] is not None else None
            return Bookmark(json.loads(row[0]), state, tuple(json.loads(row[2])), bool(row[3]))
        except (ValueError, TypeError, zlib.error):
            return None

    def keep(self, uri: str, digest: str, bookmark: Bookmark) -> None:
        """Write a bookmark, whole or not at all. Raises StateError where it cannot be written."""
        state = None if bookmark.state is None else zlib.compress(json.dumps(bookmark.state).encode(), 1)
        row = (
            uri,
            digest,
            json.dumps(bookmark.cursor),
            state,
            json.dumps(bookmark.rewinds),
            bookmark.is_over,
            time.time(),
        )
        try:
            with self._lock:
                self._db.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        except sqlite3.Error as error:
            raise self._failed(error, "written") from error

    def visit(self, target: str, digest: str) -> Visit:
        """The last look at a target under a policy. Raises StateError where the file cannot be read."""
        try:
            with self._lock:
                at = self._db.execute(
                    "SELECT first, at FROM visits WHERE target = ? AND digest = ?", (target, digest)
                ).fetchone()
                runs = self._db.execute(
                    "SELECT uri FROM begun WHERE target = ? AND digest = ?", (target, digest)
                ).fetchall()
        except sqlite3.Error as error:
            raise self._failed(error, "read") from error
        first, last = at or (math.inf, math.inf)
        return Visit(first, last, frozenset(uri for (uri,) in runs))

    def visited(self, target: str, digest: str, at: float, runs: Iterable[str]) -> None:
        """A target was looked at, and these runs were found that were not known before: one is not forgotten again until
        it is `settled`. Raises StateError where that cannot be written."""
        try:
            with self._lock, self._whole():
                self._db.executemany(
                    "INSERT OR IGNORE INTO begun VALUES (?, ?, ?)", [(target, digest, r) for r in runs]
                )
                self._db.execute(
                    "INSERT INTO visits VALUES (?, ?, ?, ?) ON CONFLICT (target, digest) DO UPDATE SET at = excluded.at",
                    (target, digest, at, at),
                )
        except sqlite3.Error as error:
            raise self._failed(error, "written") from error

    def settled(self, uri: str, digest: str) -> None:
        """A run has been read to its end, or is there no longer. Where that cannot be written it is looked at once more."""
        with self._lock, contextlib.suppress(sqlite3.Error):
            self._db.execute("DELETE FROM begun WHERE uri = ? AND digest = ?", (uri, digest))

    def has_landed(self, uri: str, digest: str, what: str) -> bool:
        """Whether something that is to be on a run once was put there. Raises StateError where the file cannot be read."""
        try:
            with self._lock:
                found = self._db.execute(
                    "SELECT 1 FROM landed WHERE uri = ? AND digest = ? AND what = ?", (uri, digest, what)
                ).fetchone()
        except sqlite3.Error as error:
            raise StateError(f"{self._path} cannot be read: {error}") from error
        return found is not None

    def land(self, uri: str, digest: str, what: str) -> None:
        """Something was put on a run. Where that cannot be written it is put there once more."""
        with self._lock, contextlib.suppress(sqlite3.Error):
            self._db.execute("INSERT OR IGNORE INTO landed VALUES (?, ?, ?)", (uri, digest, what))

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        """All of what is written within, or nothing."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._db.in_transaction:  # SQLite has gone back by itself where the disk is full
                self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def lease(self, uri: str, digest: str, holder: str, now: float) -> bool:
        """Take or renew the right to watch a run under a policy; False while another watcher has it.

        One that has died on this machine holds nothing; of one on another machine the lease must run out, by the clock or,
        as that machine's may be hours ahead, by not being renewed for so long.
        """
        try:
            with self._lock:
                row = self._db.execute(
                    "SELECT holder, until FROM leases WHERE uri = ? AND digest = ?", (uri, digest)
                ).fetchone()
                before = row[0] if row is not None else holder
                dead = before != holder and (_is_dead(before) or self._stands_still(uri, digest, row))
                done = self._db.execute(
                    "INSERT INTO leases VALUES (:uri, :digest, :holder, :until) ON CONFLICT (uri, digest) DO UPDATE "
                    "SET holder = :holder, until = :until "
                    "WHERE holder = :holder OR until < :now OR (:dead AND holder = :before)",
                    {"uri": uri, "digest": digest, "holder": holder, "until": now + LEASE, "now": now, "dead": dead,
                     "before": before},
                )  # fmt: skip
                return done.rowcount > 0
        except sqlite3.Error as error:
            raise self._failed(error, "written") from error

    def _stands_still(self, uri: str, digest: str, row: tuple[str, float]) -> bool:
        """Whether a lease has been seen for longer than it lasts, and nobody has renewed it meanwhile."""
        seen, since = self._seen.get((uri, digest), (None, 0.0))
        if seen != row:
            self._seen[uri, digest] = row, time.monotonic()
            return False
        return time.monotonic() - since > LEASE

    def release(self, holder: str) -> None:
        """Give up all leases of a watcher. Where that cannot be written they run out by themselves."""
        with self._lock, contextlib.suppress(sqlite3.Error):
            self._db.execute("DELETE FROM leases WHERE holder = ?", (holder,))

    def close(self) -> None:
        with self._lock:
            self._db.close()


def last_visit(home: Path, target: str, digest: str) -> Visit:
    """When a target was last looked at, by the store in a folder; never, where there is none yet."""
    path = home / STORE
    if not path.is_file():
        return Visit()
    store = Store(path)
    try:
        return store.visit(target, digest)
    finally:
        store.close()


def _is_dead(holder: str) -> bool:
    """Whether it was a process of this machine that runs no longer."""
    host, _, rest = holder.partition(":")
    return host == socket.gethostname() and not rest.startswith(f"{os.getpid()}:") and not is_alive(holder)
