"""Carry out what was decided, away from the training loop: first the journal's line, then each port in its own thread.

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
from dataclasses import dataclass
from enum import Enum

from vitalsdsl.errors import NotLetIn, TrackerError
from vitalsdsl.journal import Journal
from vitalsdsl.ledger import Record
from vitalsdsl.tracker import Port

logger = logging.getLogger("vitalsdsl")

_DICE = random.Random()
# The training's own random numbers must not depend on whether a tracker answers.

IDLE = 10.0
"""Seconds after which a thread that has nothing to do ends; the next thing to do starts another. A process that
watches hundreds of runs would otherwise hold a thread or two for each."""

MOST_WAITING = 1000
"""Jobs that may wait for one port; with a port that hangs, more are given up."""


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
    last is still worth doing. A text that `act` gives is what became of it, for the journal."""

    port: Port
    what: str
    act: Callable[[], object]
    deeds: tuple[tuple[str, int], ...] = ()
    run: str = ""
    expires: float = float("inf")
    newest: str = ""


@dataclass(frozen=True)
class Outcome:
    """What came of a job: `done` or `failed`, with what the journal is to say of it; open where there was no time."""

    type: str
    text: str = ""


_OPEN = Outcome("")

_AT_THE_END = "the end of a run"
"""Among what was said of ports: that something was left for them."""


class _Added(Enum):
    """What became of a job that was to wait."""

    AT_THE_END = 0
    INSTEAD = 1
    NOT = 2


class Delivery:
    """The queue, the threads behind it, and the end of it."""

    def __init__(
        self,
        journal: Journal,
        retry: Retry,
        clock: Callable[[], float],
        start: bool = True,
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
        self._threaded = start
        self._at_work = False

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
            if self._threaded and not self._at_work:
                self._at_work = True
                threading.Thread(target=self._work, name="vitals-dispatch", daemon=True).start()
            self._changed.notify_all()

    def flush(self, timeout: float) -> bool:
        """Wait until all is done; False where the time was too short."""
        if not self._threaded:
            self._drain()
            return True
        with self._changed:
            return self._changed.wait_for(lambda: self._pending == 0, timeout)

    def written(self, timeout: float) -> bool:
        """Wait until all records are in the journal, whether or not anything has come of them yet."""
        if not self._threaded:
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
        for lane in self._lanes.values():
            lane.wake()
        waiting = ", ".join(sorted(name for name, lane in self._lanes.items() if lane.is_busy)) or "the journal"
        if not done and (waiting, _AT_THE_END) not in self._failing:
            self._failing.add((waiting, _AT_THE_END))
            logger.warning("vitals: the run is over and %d things are not done (waiting for %s)", left, waiting)
        return done

    # ---------------------------------------------------------------- the threads

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._over.is_set(), IDLE)
                if not self._queue:
                    self._at_work = False
                    return
                batches = list(self._queue)
                self._queue.clear()
            self._carry_out(batches)
            self._settle(len(batches), written=len(batches))

    def _drain(self) -> None:
        while self._queue:
            batches = list(self._queue)
            self._queue.clear()
            self._carry_out(batches)
            self._settle(len(batches), written=len(batches))

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

    def _settle(self, count: int, written: int = 0) -> None:
        with self._changed:
            self._pending -= count
            self._unwritten -= written
            self._changed.notify_all()

    def _give(self, job: Job) -> None:
        if not self._threaded:
            self._finished(job, self.attempt(job))
            return
        lane = self._lanes.get(job.port.name)
        if lane is None:
            lane = self._lanes[job.port.name] = _Lane(self, job.port.name)
        with self._changed:
            self._pending += 1
        added = lane.add(job)
        if added is _Added.NOT:
            self._say(job, "Full", f"{MOST_WAITING} things wait for it")
            self._finished(job, Outcome("failed", "too many things wait for this port"))
        if added is not _Added.AT_THE_END:
            self._settle(1)

    def run(self, job: Job) -> None:
        """Do a job to its end, and settle it. After the end of the run nothing new is begun."""
        try:
            if not self._over.is_set():
                self._finished(job, self.attempt(job))
        finally:
            self._settle(1)

    def attempt(self, job: Job) -> Outcome:
        """Ask the port, again and again where it raises, unless the error `is_final`."""
        began, failures = time.monotonic(), 0
        while True:
            if self._clock() > job.expires:
                return Outcome("failed", "it had expired")
            try:
                said = job.act()
                self._worked.add(job.port.name)
                return Outcome("done", said if isinstance(said, str) else "")
            except BaseException as error:  # a port's SystemExit must not end its thread either
                failures += 1
                why = f"{type(error).__name__}: {error}"
                if isinstance(error, TrackerError) and error.is_final and not self._may_pass(job, error):
                    self._say(job, "", str(error))
                    return Outcome("failed", why)
                asked = error.retry_after if isinstance(error, TrackerError) else None
                if asked is None or asked > SOON:
                    self._say_again(job, type(error).__name__, f"{error or why}; trying again")
            pause = max(self._retry.pause(failures), asked or 0.0)
            if failures >= self._retry.attempts or time.monotonic() - began + pause > self._retry.total:
                self._say(job, "", f"given up after {failures} tries: {why}")
                return Outcome("failed", why)
            if self._over.wait(pause):
                return _OPEN

    def _may_pass(self, job: Job, error: TrackerError) -> bool:
        """Where a port has been let in, it may be so again: a key had expired, and somebody renews it. One that is known
        and was never let in may only read."""
        return isinstance(error, NotLetIn) and (error.is_unknown or job.port.name in self._worked)

    def _finished(self, job: Job, outcome: Outcome) -> None:
        if not job.deeds or outcome is _OPEN:
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
    """The thread of one port, and what waits for it."""

    def __init__(self, delivery: Delivery, name: str) -> None:
        self._delivery = delivery
        self._jobs: deque[Job | str] = deque()
        self._newest: dict[str, Job] = {}
        self._changed = threading.Condition()
        self._name = name
        self._at_work = False
        self.is_busy = False

    def add(self, job: Job) -> _Added:
        """Let a job wait. One whose `newest` waits already takes the place of the older."""
        with self._changed:
            if job.newest in self._newest:
                self._newest[job.newest] = job
                return _Added.INSTEAD
            if len(self._jobs) >= MOST_WAITING:
                return _Added.NOT
            if job.newest:
                self._newest[job.newest] = job
            self._jobs.append(job.newest or job)
            self.is_busy = True
            if not self._at_work:
                self._at_work = True
                threading.Thread(target=self._work, name=f"vitals-{self._name}", daemon=True).start()
            self._changed.notify()
            return _Added.AT_THE_END

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                self.is_busy = bool(self._jobs)
                self._changed.wait_for(lambda: self._jobs or self._delivery.is_over, IDLE)
                if not self._jobs:
                    self._at_work = False
                    return
                job = self._jobs.popleft()
                if isinstance(job, str):
                    job = self._newest.pop(job)
            self._delivery.run(job)
