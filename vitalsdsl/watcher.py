"""Watch runs that already exist: find them, read each on, judge it, act, and go on after whatever breaks."""

from __future__ import annotations

import heapq
import itertools
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

from vitalsdsl.attachment import copy_of
from vitalsdsl.delivery import Retry
from vitalsdsl.dispatch import Dispatcher
from vitalsdsl.errors import RunGone, StateError, TrackerError
from vitalsdsl.feeds import Feed, Target
from vitalsdsl.journal import Journal, journal_of, signature
from vitalsdsl.points import RunInfo
from vitalsdsl.policy import LoadedPolicy
from vitalsdsl.store import LEASE, Store
from vitalsdsl.tracker import Port
from vitalsdsl.watched import Reading, Watched

logger = logging.getLogger("vitalsdsl")

FIND_EVERY = 30.0
"""Seconds between two looks for new runs."""

LOOK_AGAIN = 600.0
"""Seconds after which a run that has ended is looked at once more: it may have been resumed."""

MOST_PATIENT = 300.0
"""The longest pause, in seconds, between two tries at a tracker that does not answer."""

PATIENT = Retry(attempts=100_000, first=1.0, most=MOST_PATIENT, total=86_400.0)
"""For how long a watcher tries to deliver: a tracker that is down for an hour must not cost an alert."""

SETTLE = 2.5
"""Seconds between the looks of `once` at a run that goes on, until two bring nothing: the newest points, and the word
that a run is over, are given only once nothing more comes."""

_AT_THE_END = 10.0

_WORKERS = 8

_dice = random.Random()


@dataclass(frozen=True)
class Assignment:
    """A policy over all runs of a target. `ports` are what is told beside the run's own tracker: channels, control."""

    target: Target
    policy: LoadedPolicy
    ports: Callable[[RunInfo], Sequence[Port]] = lambda info: ()


class Shows:
    """Who is told what a watcher sees, for people to look at. Called from one thread; must not raise."""

    def saw(self, run: Watched, reading: Reading) -> None:
        """A run was read on."""

    def said(self, text: str) -> None:
        """Something that people should know, in one line."""


@dataclass
class _Run:
    """A run that is known, and how it goes with it. `watched` is there while it is read, and given up when it ends."""

    assignment: Assignment
    feed: Feed
    watched: Watched | None = None
    failures: int = 0
    is_off: bool = False
    is_over: bool = False
    quiet: int = 0
    leased: float = -LEASE
    notes: set[str] = field(default_factory=set)


class Watcher:
    """Policies over runs that go on elsewhere.

    `home` is the folder of its store and journals, shared by all watchers that should act as one. With `dry_run` all is
    decided and nothing done, written or remembered. With `from_now`, nobody is told of what runs had gone through before. `run` goes on until all runs of targets that are not open are over,
    or `stop` is called; with `once` it reads all runs up to now and ends.

    A tracker that does not answer is asked again, with growing pauses up to five minutes; that is said once, and once
    more when it answers. A run that fails to be judged is off, and the others go on.
    """

    def __init__(
        self,
        assignments: Sequence[Assignment],
        home: Path,
        *,
        dry_run: bool = False,
        from_now: bool = False,
        shows: Shows | None = None,
        workers: int = _WORKERS,
    ) -> None:
        self._assignments = list(assignments)
        self._home = home
        self._dry = dry_run
        self._from_now = from_now
        self._shows = shows or Shows()
        self._store = None if dry_run else Store(home / "watch.db")
        self._holder = signature()
        self._runs: dict[tuple[str, str], _Run] = {}
        self._due: list[tuple[float, int, _Run | Assignment]] = []
        self._count = itertools.count()
        self._pool = ThreadPoolExecutor(workers, "vitals-watch")
        self._flights: dict[Future[Reading | Sequence[Feed]], _Run | Assignment] = {}
        self._troubles: dict[str, set[int]] = {}
        self._failures: dict[int, int] = {}
        self._over = threading.Event()

    def stop(self) -> None:
        """End `run` soon: what is under way is finished."""
        self._over.set()

    def run(self, once: bool = False) -> None:
        """Watch. Raises TrackerError where a target cannot be watched at all: a key that is refused, no such project."""
        for assignment in self._assignments:
            self._schedule(assignment, 0.0)
        try:
            while not self._over.is_set() and (self._due or self._flights):
                self._start_what_is_due(once)
                self._land(once)
                if not once and self._all_done():
                    break
        finally:
            self._finish()

    # ---------------------------------------------------------------- the round

    def _schedule(self, what: _Run | Assignment, after: float) -> None:
        heapq.heappush(self._due, (time.monotonic() + after, next(self._count), what))

    def _start_what_is_due(self, once: bool) -> None:
        now = time.monotonic()
        while self._due and (self._due[0][0] <= now):
            _, _, what = heapq.heappop(self._due)
            if isinstance(what, Assignment):
                self._flights[self._pool.submit(what.target.find)] = what
            elif not what.is_off:
                self._flights[self._pool.submit(self._look, what)] = what

    def _land(self, once: bool) -> None:
        pause = max(0.0, min(1.0, self._due[0][0] - time.monotonic())) if self._due else 1.0
        if not self._flights:
            self._over.wait(pause)
            return
        done, _ = wait(self._flights, timeout=min(pause, 0.5) if self._due else 0.5, return_when=FIRST_COMPLETED)
        for future in done:
            what = self._flights.pop(future)
            if isinstance(what, Assignment):
                self._found(what, future, once)  # type: ignore[arg-type]
            else:
                self._looked(what, future, once)  # type: ignore[arg-type]

    def _all_done(self) -> bool:
        if self._flights or not self._runs or any(a.target.is_open for a in self._assignments):
            return False
        return all(run.is_off or run.is_over for run in self._runs.values())

    def _finish(self) -> None:
        self._pool.shutdown(wait=True)
        for run in self._runs.values():
            if run.watched is not None:
                run.watched.close(_AT_THE_END)
        for assignment in self._assignments:
            assignment.target.close()
        if self._store is not None:
            self._store.release(self._holder)
            self._store.close()

    # ---------------------------------------------------------------- finding runs

    def _found(self, assignment: Assignment, future: Future[Sequence[Feed]], once: bool) -> None:
        try:
            feeds = future.result()
        except TrackerError as error:
            known = any(run.assignment is assignment for run in self._runs.values())
            if error.is_final and not known:
                raise
            self._schedule(assignment, self._trouble(id(assignment), error))
            return
        except Exception as error:  # a reader's own fault must not end the watch over what has been found
            logger.exception("vitals: looking for runs failed; trying again")
            self._schedule(assignment, self._trouble(id(assignment), TrackerError(f"looking for runs failed: {error}")))
            return
        self._recovered(id(assignment))
        for feed in feeds:
            key = feed.uri, assignment.policy.digest
            if key not in self._runs:
                run = self._runs[key] = _Run(assignment, feed)
                self._schedule(run, 0.0)
        if not once:
            self._schedule(assignment, FIND_EVERY)

    def _open(self, run: _Run) -> Watched:
        """Begin, or go on, with a run: its journal tells what has been done about it."""
        info, policy = run.feed.info, run.assignment.policy
        journal = Journal(None if self._dry else journal_of(self._home, info.name, policy.name))
        ports = [*run.feed.ports(policy), *run.assignment.ports(info)]
        dispatcher = Dispatcher(policy.policy, ports, journal, info, dry_run=self._dry, retry=PATIENT)
        watched = Watched(run.feed, policy, dispatcher, journal, self._store, self._from_now)
        if not watched.is_known:
            dispatcher.record_policy(copy_of(policy))
        return watched

    # ---------------------------------------------------------------- reading a run

    def _look(self, run: _Run) -> Reading:
        """In a thread of the pool; one at a time for each run."""
        now = time.time()
        if self._store is not None and time.monotonic() - run.leased > LEASE / 3:
            if not self._store.lease(run.feed.uri, run.assignment.policy.digest, self._holder, now):
                raise _WatchedElsewhere
            run.leased = time.monotonic()
        if run.watched is None:
            run.watched = self._open(run)
        return run.watched.look()

    def _looked(self, run: _Run, future: Future[Reading], once: bool) -> None:
        name = run.feed.info.name
        try:
            reading = future.result()
        except _WatchedElsewhere:
            self._say_once(run, f"{name} is watched by another watcher with this store")
            if not once:
                self._schedule(run, LEASE / 2)
            return
        except RunGone as error:
            run.is_off = True
            self._shows.said(str(error))
            return
        except (TrackerError, StateError) as error:
            pause = self._trouble(id(run), error)
            if once and run.failures >= 3 or isinstance(error, TrackerError) and error.is_final:
                run.is_off = True
            else:
                run.failures += 1
                self._schedule(run, pause)
            return
        except Exception:  # one run that cannot be judged must not end the watch over the others
            run.is_off = True
            logger.exception("vitals: evaluation failed and is off for run %s; other runs are watched on", name)
            return
        run.failures = 0
        self._recovered(id(run))
        assert run.watched is not None
        self._shows.saw(run.watched, reading)
        for note in reading.notes:
            self._shows.said(f"{name}: {note}")
        run.is_over = reading.is_over
        if reading.more:
            self._schedule(run, 0.0)
        elif reading.is_over:
            self._pool.submit(run.watched.close, _AT_THE_END)
            run.watched = None
            if not once and self._store is not None:
                self._schedule(run, LOOK_AGAIN)
        elif not once:
            self._schedule(run, run.feed.interval * _dice.uniform(0.9, 1.1))
        else:
            run.quiet = 0 if reading.rows else run.quiet + 1
            if run.quiet < 2:
                self._schedule(run, SETTLE)

    def _say_once(self, run: _Run, text: str) -> None:
        if text not in run.notes:
            run.notes.add(text)
            self._shows.said(text)

    # ---------------------------------------------------------------- trouble

    def _trouble(self, who: int, error: TrackerError | StateError) -> float:
        """How long to wait after a failure. Many runs that fail alike are one line."""
        text = str(error)
        if text not in self._troubles:
            self._shows.said(text + ("" if getattr(error, "is_final", False) else "; trying again"))
        self._troubles.setdefault(text, set()).add(who)
        count = self._failures[who] = self._failures.get(who, 0) + 1
        asked = getattr(error, "retry_after", None)
        pause = min(MOST_PATIENT, 5.0 * 2.0 ** min(count - 1, 20)) * _dice.uniform(0.5, 1.0)
        return max(pause, asked) if asked is not None else pause

    def _recovered(self, who: int) -> None:
        if self._failures.pop(who, 0):
            for text, failing in list(self._troubles.items()):
                failing.discard(who)
                if not failing:
                    del self._troubles[text]
                    self._shows.said(f"all is well again after: {text}")


class _WatchedElsewhere(Exception):
    """Another watcher that shares the store has the run."""
