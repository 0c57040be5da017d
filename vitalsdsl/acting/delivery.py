"""Carry out what was decided, away from the training loop: first the journal's line, then each port in a thread of a crew.

A port that raises is asked again, with growing pauses, a bounded number of times, unless it refuses for good; one that
hangs keeps only itself waiting. Each kind of failure is logged once.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from vitalsdsl.acting.crew import Crew
from vitalsdsl.acting.journal import Journal
from vitalsdsl.acting.ledger import Record
from vitalsdsl.acting.tracker import Port
from vitalsdsl.ground.errors import NotLetIn, TrackerError

logger = logging.getLogger("vitalsdsl")

_DICE = random.Random()
# The training's own random numbers must not depend on whether a tracker answers.

MOST_WAITING = 1000
"""Jobs of a run that may wait for one port; with a port that hangs, more are given up."""

SOON = 60.0
"""Seconds: a tracker that asks for no longer pause than this is waited for without a word."""


@dataclass(frozen=True)
class Retry:
    """How often, and for how long, a port that raises is asked again. Seconds; a pause is shortened at random, by up to
    half, so that a fleet of watchers does not knock in step."""

    attempts: int = 6
    first: float = 0.5
    most: float = 30.0
    total: float = 120.0

    def pause(self, failures: int) -> float:
        return min(self.most, self.first * 2.0 ** min(failures - 1, 60)) * _DICE.uniform(0.5, 1.0)


@dataclass(frozen=True)
class Job:
    """One call of one port. `deeds` are the lines of the journal that it carries out, each the id of an intent and the
    number of its deed (none: tags and copies, which the next ones make good). Of jobs with one `newest` key only the
    last is still worth doing; with `items`, it is with those of all. A text that `act` gives is what became of it, for the
    journal."""

    port: Port
    what: str
    act: Callable[..., object]
    deeds: tuple[tuple[str, int], ...] = ()
    run: str = ""
    expires: float = float("inf")
    newest: str = ""
    items: tuple[object, ...] = ()

    def do(self) -> object:
        return self.act(self.items) if self.items else self.act()

    def after(self, older: Job) -> Job:
        """What is to be done in place of both."""
        return replace(self, deeds=older.deeds + self.deeds, items=older.items + self.items)


@dataclass(frozen=True)
class Outcome:
    """What came of a job: `done` or `failed`, with what the journal is to say of it."""

    type: str
    text: str = ""


_AT_THE_END = "the end of a run"
"""Among what was said of ports: that something was left for them."""

_WRITING = "dispatch"
"""What the threads that write journals are called by."""


@dataclass
class _Tries:
    """A job that is being done, and how often it has failed."""

    job: Job
    began: float = field(default_factory=time.monotonic)
    failures: int = 0


class _Added(Enum):
    """What became of a job that was to wait."""

    AT_THE_END = 0
    INSTEAD = 1
    NOT = 2


class Delivery:
    """The queue of a run, what of a crew stands behind it, and the end of it. Without a crew all is done by who waits for
    it: in `flush`, `written` and `close`."""

    def __init__(
        self,
        journal: Journal,
        retry: Retry,
        clock: Callable[[], float],
        crew: Crew | None,
        failing: set[tuple[str, str]] | None = None,
    ) -> None:
        self._journal = journal
        self._retry = retry
        self._clock = clock
        self._pid = os.getpid()
        self._queue: deque[tuple[list[Record], list[Job]]] = deque()
        self._changed = threading.Condition()
        self._pending = 0
        self._unwritten = 0
        self._over = threading.Event()
        self._lanes: dict[str, _Lane] = {}
        self._said: set[tuple[str, str, str]] = set()
        self._failing = failing if failing is not None else set()
        self._worked: set[str] = set()
        self._crew = crew
        self._is_writing = False

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to be done."""
        return self._pending == 0

    def submit(self, records: list[Record], jobs: list[Job]) -> None:
        """Queue records to be written, and after them jobs to be done. Returns at once."""
        with self._changed:
            if self._over.is_set():
                return
            self._queue.append((records, jobs))
            self._pending += 1
            self._unwritten += 1
            if self._crew is not None and not self._is_writing:
                self._is_writing = True
                self._crew.call(_WRITING, self._write)

    def flush(self, timeout: float) -> bool:
        """Wait until all is done; False where the time was too short."""
        if self._crew is None:
            self._drain()
            return True
        with self._changed:
            return self._changed.wait_for(lambda: self._pending == 0, timeout)

    def written(self, timeout: float) -> bool:
        """Wait until all records are in the journal, whether or not anything has come of them yet."""
        if self._crew is None:
            self._drain()
            return True
        with self._changed:
            return self._changed.wait_for(lambda: self._unwritten == 0, timeout)

    def close(self, timeout: float) -> bool:
        """Finish what can be finished in time, and stop. What is left undone stays open in the journal."""
        if self._over.is_set():
            return True
        done = self.flush(timeout)
        with self._changed:
            self._over.set()
            left = self._pending
            self._changed.notify_all()
        waiting = ", ".join(sorted(name for name, lane in self._lanes.items() if lane.is_busy)) or "the journal"
        for lane in self._lanes.values():
            lane.drop()
        if not done and (waiting, _AT_THE_END) not in self._failing:
            self._failing.add((waiting, _AT_THE_END))
            logger.warning("vitals: the run is over and %d things are not done (waiting for %s)", left, waiting)
        return done

    # ---------------------------------------------------------------- the threads

    def _write(self) -> float | None:
        """What has been queued since, by a thread of the crew; again, where more has come meanwhile."""
        self._drain_once()
        with self._changed:
            self._is_writing = bool(self._queue)
            return 0.0 if self._is_writing else None

    def _drain(self) -> None:
        while self._queue:
            self._drain_once()

    def _drain_once(self) -> None:
        with self._changed:
            batches = list(self._queue)
            self._queue.clear()
        self._carry_out(batches)
        self.settle(len(batches), written=len(batches))

    def _carry_out(self, batches: Sequence[tuple[list[Record], list[Job]]]) -> None:
        try:
            records = [record for written, _ in batches for record in written]
            taken = self._journal.append(records) if records else set()
            for _, jobs in batches:
                for job in jobs:
                    if not job.deeds or any(intent not in taken for intent, _ in job.deeds):
                        self._give(job)
        except Exception:  # nothing here may end the thread: later decisions still want to be carried out
            logger.exception("vitals: carrying out decisions failed")

    def settle(self, count: int, written: int = 0) -> None:
        """Of what waited so many are done, or will not be, and of the records so many written."""
        with self._changed:
            self._pending -= count
            self._unwritten -= written
            self._changed.notify_all()

    def _give(self, job: Job) -> None:
        if self._crew is None:
            self._do(job)
            return
        lane = self._lanes.get(job.port.name)
        if lane is None:
            lane = self._lanes[job.port.name] = _Lane(self, self._crew, job.port.name)
        with self._changed:
            self._pending += 1
        added = lane.add(job)
        if added is _Added.NOT:
            self._say(job, "Full", f"{MOST_WAITING} things wait for it")
            self._finished(job, Outcome("failed", "too many things wait for this port"))
        if added is not _Added.AT_THE_END:
            self.settle(1)

    def _do(self, job: Job) -> None:
        """Do a job to its end, in this thread."""
        tries = _Tries(job)
        while isinstance(came := self.attempt(tries), float):
            if self._over.wait(came):
                return
        self._finished(job, came)

    def go_on(self, tries: _Tries) -> float | None:
        """Try a job once more; in how many seconds it is to be tried again, None where it has come to its end. After the
        end of the run nothing new is begun."""
        if self._over.is_set():
            return None
        try:
            came = self.attempt(tries)
            if isinstance(came, float):
                return came
            self._finished(tries.job, came)
        except Exception:  # as above
            logger.exception("vitals: carrying out decisions failed")
        return None

    def attempt(self, tries: _Tries) -> Outcome | float:
        """Ask the port. Where it raises, and it is not final, after how many seconds it is to be asked again."""
        job = tries.job
        if self._clock() > job.expires:
            return Outcome("failed", "it had expired")
        try:
            said = job.do()
            self._worked.add(job.port.name)
            return Outcome("done", said if isinstance(said, str) else "")
        except BaseException as error:  # a port's SystemExit must not end its thread either
            tries.failures += 1
            why = f"{type(error).__name__}: {error}"
            if isinstance(error, TrackerError) and error.is_final and not self._may_pass(job, error):
                self._say(job, "", str(error))
                return Outcome("failed", why)
            asked = error.retry_after if isinstance(error, TrackerError) else None
            if asked is None or asked > SOON:
                self._say_again(job, type(error).__name__, f"{error or why}; trying again")
        pause = max(self._retry.pause(tries.failures), asked or 0.0)
        if tries.failures >= self._retry.attempts or time.monotonic() - tries.began + pause > self._retry.total:
            self._say(job, "", f"given up after {tries.failures} tries: {why}")
            return Outcome("failed", why)
        return pause

    def _may_pass(self, job: Job, error: TrackerError) -> bool:
        """Where a port has been let in, it may be so again: a key had expired, and somebody renews it. One that is known
        and was never let in may only read."""
        return isinstance(error, NotLetIn) and (error.is_unknown or job.port.name in self._worked)

    def _finished(self, job: Job, outcome: Outcome) -> None:
        if not job.deeds:
            return
        word = "note" if outcome.type == "done" else "why"
        more = {word: outcome.text} if outcome.text else {}
        records: list[Record] = [
            {"type": outcome.type, "id": intent, "run": job.run, "deed": deed, "port": job.port.name,
             "at": self._clock(), **more} for intent, deed in job.deeds
        ]  # fmt: skip
        if self._over.is_set():
            self._journal.append(records)
        else:
            self.submit(records, [])

    def _say_again(self, job: Job, kind: str, text: str) -> None:
        """That a port fails for now: once for all who share what was said."""
        if (job.port.name, kind) not in self._failing:
            self._failing.add((job.port.name, kind))
            self._say(job, kind, text)

    def _say(self, job: Job, kind: str, text: str) -> None:
        key = (job.port.name, job.what, kind)
        if key not in self._said:
            self._said.add(key)
            logger.warning("vitals: %s: cannot %s: %s (said once)", job.port.name, job.what, text)


class _Lane:
    """What waits for one port of a run. One thread of the crew is at it at a time, so that its order is kept; while a job
    waits to be tried again, none is."""

    def __init__(self, delivery: Delivery, crew: Crew, name: str) -> None:
        self._delivery = delivery
        self._crew = crew
        self._name = name
        self._jobs: deque[Job | str] = deque()
        self._newest: dict[str, Job] = {}
        self._tries: _Tries | None = None
        self._lock = threading.Lock()
        self._is_called = False

    @property
    def is_busy(self) -> bool:
        return bool(self._jobs) or self._tries is not None

    def add(self, job: Job) -> _Added:
        """Let a job wait. One whose `newest` waits already takes the place of the older."""
        with self._lock:
            if job.newest in self._newest:
                together = job.after(self._newest[job.newest])
                if len(together.items) > MOST_WAITING:
                    return _Added.NOT
                self._newest[job.newest] = together
                return _Added.INSTEAD
            if len(self._jobs) >= MOST_WAITING:
                return _Added.NOT
            if job.newest:
                self._newest[job.newest] = job
            self._jobs.append(job.newest or job)
            if not self._is_called:
                self._is_called = True
                self._crew.call(self._name, self._work)
            return _Added.AT_THE_END

    def drop(self) -> None:
        """After the end of the run nothing new is begun: nobody waits any more for what waits here."""
        with self._lock:
            count = len(self._jobs)
            self._jobs.clear()
            self._newest.clear()
        self._delivery.settle(count)
        self._crew.hasten(self._name, self._work)

    def _work(self) -> float | None:
        """Try one job, by a thread of the crew."""
        tries = self._next()
        pause = self._delivery.go_on(tries) if tries is not None else None
        with self._lock:
            self._tries = None if pause is None else tries
            self._is_called = bool(self._jobs) or pause is not None
            again = self._is_called
        if tries is not None and pause is None:
            self._delivery.settle(1)
        return (pause or 0.0) if again else None

    def _next(self) -> _Tries | None:
        with self._lock:
            if self._tries is None and self._jobs:
                job = self._jobs.popleft()
                self._tries = _Tries(self._newest.pop(job) if isinstance(job, str) else job)
            return self._tries
