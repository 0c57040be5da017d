"""Watch runs that already exist: find them, read each on, judge it, act, and go on after whatever breaks."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vitalsdsl.acting import dispatch
from vitalsdsl.acting.crew import Crew
from vitalsdsl.acting.delivery import Retry
from vitalsdsl.acting.dispatch import Dispatcher
from vitalsdsl.acting.journal import Journal, journal_of, signature
from vitalsdsl.ground.errors import NotLetIn, NotYet, RunGone, StateError, TrackerError
from vitalsdsl.policies.policy import LoadedPolicy
from vitalsdsl.watching.assignment import Assignment as Assignment
from vitalsdsl.watching.assignment import Search
from vitalsdsl.watching.assignment import Shows as Shows
from vitalsdsl.watching.beginning import Together
from vitalsdsl.watching.feeds import Feed
from vitalsdsl.watching.store import LEASE, STORE, Store
from vitalsdsl.watching.troubles import MOST_PATIENT, Troubles
from vitalsdsl.watching.turns import Turns
from vitalsdsl.watching.watched import Reading, Watched

logger = logging.getLogger("vitalsdsl")

FIND_EVERY = 30.0
"""Seconds between two looks for new runs."""

MANY = 8
"""From so many runs of a target on, one look at all of them before each reading is less than a question about each."""

LOOK_AGAIN = 600.0
"""Seconds after which a run that has ended is looked at once more: it may have been resumed."""

PATIENT = Retry(attempts=100_000, first=1.0, most=MOST_PATIENT, total=86_400.0)
"""For how long a watcher tries to deliver: a tracker that is down for an hour must not cost an alert."""

SETTLE = 2.5
"""Seconds between the looks of `once` at a run that goes on, until two bring nothing: the newest points, and the word
that a run is over, are given only once nothing more comes."""

MOST_FAILURES = 3
"""So often on end may a run fail to be read before `once` leaves it to the next call."""

MOST_LOOKS = 4
"""So often `once` looks at a run that goes on and on."""

GIVE_UP = 60.0
"""Seconds after which `once` ends where nothing answers any more: the next row of the cron table tries again."""

_AT_THE_END = 10.0

_WORKERS = 8

_SPARED = 2
"""Of the workers so many are kept for runs that have been read up to now, while others catch up."""

_dice = random.Random()


@dataclass(eq=False)
class _Run:
    """A run that is known, and how it goes with it. `watched` is there while it is read, and given up when it ends.

    `due` is when it is read next, by the monotonic clock; infinity while it is being read, or is not to be. It `is_behind`
    until it has been read up to now. One that is over `waits` until what was decided about it has been delivered, and for a
    last look at what was put on it: of `left` deeds none has come to its end `since` when.
    """

    search: Search
    feed: Feed
    watched: Watched | None = None
    due: float = math.inf
    failures: int = 0
    is_behind: bool = True
    is_off: bool = False
    is_over: bool = False
    is_settled: bool = False
    has_answered: bool = False
    is_elsewhere: bool = False
    waits: bool = False
    since: float = math.inf
    left: int = 0
    quiet: int = 0
    looks: int = 0
    leased: float = -LEASE
    unleased: StateError | None = None
    notes: set[str] = field(default_factory=set)

    @property
    def policy(self) -> LoadedPolicy:
        return self.search.assignment.policy

    @property
    def key(self) -> tuple[str, str]:
        return self.feed.uri, self.policy.digest


class Watcher:
    """Policies over runs that go on elsewhere.

    `home` is the folder of its store and journals, shared by all watchers that should act as one. With `dry_run` all is
    decided and nothing done, written or remembered. With `from_now`, nobody is told of what runs had gone through before.
    `run` goes on until all runs of targets that are not open are over, or `stop` is called; with `once` it reads all runs
    up to now and ends.

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
        self._searches = [Search(assignment) for assignment in assignments]
        self._home = home
        self._dry = dry_run
        self._from_now = from_now
        self._shows = shows or Shows()
        self._store = None if dry_run else Store(home / STORE)
        self._holder = signature()
        self._runs: dict[tuple[str, str], _Run] = {}
        self._turns: Turns[_Run | Search] = Turns(max(1, workers - _SPARED))
        self._pool = ThreadPoolExecutor(workers, "vitals-watch")
        self._flights: dict[Future[Any], _Run | Search] = {}
        self._ends: dict[Future[bool], _Run] = {}
        self._troubles = Troubles(self._shows.said)
        self._ended_by: set[str] = set()
        self._failing: set[tuple[str, str]] = set()
        self._crew = Crew()
        self._together = Together()
        self._answered = time.monotonic()
        self._over = threading.Event()
        self.found = 0
        """How many runs have been found so far."""
        self.lost: list[str] = []
        """What is wrong with the targets that could not be looked at, one of several."""
        self.has_looked = False
        """Whether a tracker has said which runs there are."""

    def stop(self) -> None:
        """End `run` soon: what is under way is finished."""
        self._over.set()

    def run(self, once: bool = False) -> None:
        """Watch. Raises TrackerError where a target cannot be watched at all: a key that is refused, no such project; with
        `once`, also where it does not answer for a minute."""
        self._answered = time.monotonic()
        for search in self._searches:
            self._turns.schedule(search, 0.0)
        try:
            while not self._over.is_set() and (self._turns or self._flights or self._ends):
                self._start_what_is_due()
                self._land(once)
                self._troubles.say_what_is_over()
                if once and self._gives_up() or not once and self._all_done():
                    break
        finally:
            self._finish()

    # ---------------------------------------------------------------- the round

    def _start_what_is_due(self) -> None:
        for what, due in self._turns.begin():
            if isinstance(what, Search):
                what.began, what.was_due = time.time(), due
                self._flights[self._pool.submit(what.assignment.target.find)] = what
            elif what.is_off:
                self._turns.taken(what)
            else:
                self._flights[self._pool.submit(self._look, what)] = what

    def _land(self, once: bool) -> None:
        pause = self._turns.pause
        waiting: list[Future[Any]] = [*self._flights, *self._ends]
        if not waiting:
            self._over.wait(pause)
            return
        done, _ = wait(waiting, timeout=min(pause, 0.5), return_when=FIRST_COMPLETED)
        for future in done:
            ended = self._ends.pop(future, None)
            if ended is not None:
                self._settle(ended, future.result(), once)
                continue
            what = self._flights.pop(future)
            self._turns.taken(what)
            if isinstance(what, Search):
                self._found(what, future, once)
            else:
                self._looked(what, future, once)

    def _all_done(self) -> bool:
        if self._flights or self._ends or not self._runs or any(s.assignment.target.is_open for s in self._searches):
            return False
        return all(run.is_off or (run.is_over and not run.waits) for run in self._runs.values())

    def _gives_up(self) -> bool:
        """Whether nothing has answered for so long that a watcher that is to end should end."""
        standing = self._troubles.standing
        if not standing or time.monotonic() - self._answered < GIVE_UP:
            return False
        why = standing[0]
        if not self._runs:
            raise TrackerError(why)
        self._shows.said(f"given up for now: {why}")
        return True

    def _finish(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._together.close()
        until = time.monotonic() + _AT_THE_END
        for run in self._runs.values():
            if run.watched is not None:
                run.watched.close(max(0.0, until - time.monotonic()))
        self._troubles.say_what_is_over(calm=0.0)
        for search in self._searches:
            search.assignment.target.close()
        if self._store is not None:
            self._store.release(self._holder)
            self._store.close()

    # ---------------------------------------------------------------- finding runs

    def _found(self, search: Search, future: Future[Sequence[Feed]], once: bool) -> None:
        try:
            feeds = future.result()
        except TrackerError as error:
            known = any(run.search is search for run in self._runs.values())
            may_come = isinstance(error, NotYet) and not once
            if error.is_final and not known and len(self._searches) == 1 and not may_come:
                raise
            if error.is_final and once:
                self.lost.append(str(error))
                self._shows.said(str(error))
            else:
                self._turns.schedule(search, self._troubles.failed(search, search, error))
            return
        except Exception as error:  # a reader's own fault must not end the watch over what has been found
            logger.exception("vitals: looking for runs failed; trying again")
            failed = TrackerError(f"looking for runs failed: {error}")
            self._turns.schedule(search, self._troubles.failed(search, search, failed))
            return
        self._answered = time.monotonic()
        self.has_looked = True
        digest = search.assignment.policy.digest
        new = [feed for feed in feeds if (feed.uri, digest) not in self._runs]
        for feed in new:
            run = self._runs[feed.uri, digest] = _Run(search, feed)
            search.fresh.add(feed.uri)
            self._turns.schedule(run, 0.0)
        self.found += len(new)
        if new and not once:
            self._shows.found(search.assignment.reference, [feed.info for feed in new])
        self._note(search)
        if search.assignment.target.is_open:
            self._forget(search, {feed.uri for feed in feeds})
        runs = [run for run in self._runs.values() if run.search is search and not (run.is_off or run.is_over)]
        if self._troubles.recovered(search, search):
            for run in (run for run in runs if run.failures and run.due < math.inf):
                self._turns.schedule(run, _dice.uniform(0.0, run.feed.interval))
        if not once:
            self._turns.schedule(search, self._lead(search, runs))

    def _lead(self, search: Search, runs: Sequence[_Run]) -> float:
        """When to look at a target next. The readings of many runs follow the look that spares them their questions."""
        search.leads = len(runs) >= MANY and search.assignment.target.tells_feeds
        if not search.leads:
            return FIND_EVERY
        for run in runs:
            if run.due < math.inf and not run.failures and not run.is_elsewhere:
                self._turns.schedule(run, 0.0)
        between = min(run.feed.interval for run in runs)
        lag = search.lag(len(runs), between)
        if lag is not None:
            self._shows.said(lag)
        return between * _dice.uniform(0.9, 1.1)

    def _note(self, search: Search) -> None:
        """Write down that the target was looked at, and what was found: also for who goes on after this process."""
        reference, digest = search.assignment.reference, search.assignment.policy.digest
        if self._store is None or not reference or not (search.fresh or search.began - search.noted >= FIND_EVERY):
            return
        try:
            self._store.visited(reference, digest, search.began, search.fresh)
            search.noted = search.began
            search.fresh.clear()
        except StateError as error:
            self._troubles.failed(self._store, search, error)
        else:
            self._troubles.recovered(self._store, search)

    def _forget(self, search: Search, found: set[str]) -> None:
        """Runs that are over and are no longer found: where one is resumed, it is found again."""
        for key, run in list(self._runs.items()):
            if run.search is search and run.is_settled and key[0] not in found:
                run.due = math.inf
                del self._runs[key]

    def _open(self, run: _Run) -> Watched:
        """Begin, or go on, with a run: its journal tells what has been done about it."""
        info, policy = run.feed.info, run.policy
        journal = Journal(None if self._dry else journal_of(self._home, info.name, policy.name))
        ports = [*run.feed.ports(policy), *run.search.assignment.ports(info)]
        dispatcher = Dispatcher(
            policy.policy,
            ports,
            journal,
            info,
            dry_run=self._dry,
            retry=PATIENT,
            failing=self._failing,
            crew=self._crew,
        )
        watched = Watched(run.feed, policy, dispatcher, journal, self._store, self._from_now, self._together)
        watched.introduce()
        return watched

    # ---------------------------------------------------------------- reading a run

    def _look(self, run: _Run) -> Reading:
        """In a thread of the pool; one at a time for each run."""
        now = time.time()
        if self._store is not None and time.monotonic() - run.leased > LEASE / 3:
            try:
                run.unleased = None
                if not self._store.lease(*run.key, self._holder, now):
                    raise _WatchedElsewhere
            except StateError as error:
                # Without a lease two may watch a run: the journal sees to it that only one acts. Nobody would be worse.
                run.unleased = error
            run.leased = time.monotonic()
        if run.watched is None:
            run.watched = self._open(run)
        return run.watched.look()

    def _looked(self, run: _Run, future: Future[Reading], once: bool) -> None:
        name = run.feed.info.label
        try:
            reading = future.result()
        except _WatchedElsewhere:
            run.is_elsewhere = True
            self._say_once(run, f"{name} is watched by another watcher with this store")
            if not once:
                self._turns.schedule(run, LEASE / 2)
            return
        except RunGone as error:
            run.is_off = True
            self._troubles.forget(run.search, run)
            self._shows.said(str(error))
            self._end(run)
            return
        except (TrackerError, StateError) as error:
            if isinstance(error, TrackerError) and error.is_final and not self._may_pass(run, error, once):
                run.is_off = True
                self._troubles.forget(run.search, run)
                self._say_of_all(str(error))
                return
            place = run.search if isinstance(error, TrackerError) else self._store
            pause = self._troubles.failed(place, run, error)
            run.failures += 1
            if once and run.failures > MOST_FAILURES:
                run.is_off = True
            else:
                self._turns.schedule(run, pause)
            return
        except Exception:  # one run that cannot be judged must not end the watch over the others
            run.is_off = True
            logger.exception("vitals: evaluation failed and is off for run %s; other runs are watched on", name)
            return
        self._answered = time.monotonic()
        run.failures, run.is_elsewhere, run.is_settled = 0, False, False
        run.has_answered = run.search.has_answered = True
        self._troubles.recovered(run.search, run)
        self._look_after_the_store(run, reading)
        assert run.watched is not None
        self._shows.saw(run.watched, reading)
        for note in reading.notes:
            self._shows.said(f"{name}: {note}")
        run.is_over, run.is_behind = reading.is_over, reading.more
        if reading.more:
            self._turns.go_on(run)
        elif reading.is_over and (pause := self._left(run, run.watched, once)):
            run.waits = True
            self._turns.schedule(run, pause)
        elif reading.is_over:
            run.waits, run.since = False, math.inf
            self._end(run)
        elif not once:
            between = run.feed.interval
            # Where looks lead, that is but for the case that they fail; a reading of its own costs more.
            leads = run.search.leads
            self._turns.schedule(run, 2.0 * (between + run.search.late) if leads else between * _dice.uniform(0.9, 1.1))
        else:
            run.quiet = 0 if reading.rows else run.quiet + 1
            run.looks += 1
            if run.quiet < 2 and run.looks < MOST_LOOKS:
                self._turns.schedule(run, SETTLE)

    def _left(self, run: _Run, watched: Watched, once: bool) -> float:
        """In how many seconds to look once more at a run that is over; 0 where nothing is left to do about it. Where
        nothing of it can be delivered for a while, that is left to a later look, or to the next watcher."""
        if once:
            return 0.0 if run.waits or not watched.is_unchecked else dispatch.CHECK_AFTER
        now, left = time.monotonic(), watched.undelivered
        run.since = now if left != run.left else min(run.since, now)
        run.left = left
        if now - run.since >= LOOK_AGAIN:
            return 0.0
        if not watched.is_delivered:
            return run.feed.interval
        return dispatch.CHECK_AFTER if watched.is_unchecked else 0.0

    def _end(self, run: _Run) -> None:
        """A run is over: what is still to be done about it is finished, as far as that can be in time."""
        if run.watched is not None:
            self._ends[self._pool.submit(run.watched.close, _AT_THE_END)] = run
        else:
            run.is_settled = True
            if self._store is not None:
                self._store.settled(*run.key)

    def _settle(self, run: _Run, is_done: bool, once: bool) -> None:
        """A run that is over was closed. What could not be delivered is tried again when it is looked at once more."""
        run.watched, run.is_settled = None, is_done or run.is_off
        if self._store is not None and run.is_settled:
            self._store.settled(*run.key)
        if not once and self._store is not None and not run.is_off:
            self._turns.schedule(run, LOOK_AGAIN)

    def _may_pass(self, run: _Run, error: TrackerError, once: bool) -> bool:
        """What was read before can be so again, whatever its tracker says meanwhile: somebody renews a key, or mends a
        gateway. A run that is gone says so by an error of its own."""
        return not once and (run.has_answered or run.search.has_answered and isinstance(error, NotLetIn))

    def _look_after_the_store(self, run: _Run, reading: Reading) -> None:
        """What the store could not take is said, and holds up nobody: a run that goes on must be watched on."""
        trouble = run.unleased or reading.unsaved
        if trouble is not None:
            self._troubles.failed(self._store, run, trouble)
        elif run.watched is not None and not run.watched.is_unsaved:
            self._troubles.recovered(self._store, run)

    def _say_of_all(self, text: str) -> None:
        """Many runs that end alike are one line."""
        if text not in self._ended_by:
            self._ended_by.add(text)
            self._shows.said(text)

    def _say_once(self, run: _Run, text: str) -> None:
        if text not in run.notes:
            run.notes.add(text)
            self._shows.said(text)


class _WatchedElsewhere(Exception):
    """Another watcher that shares the store has the run."""
