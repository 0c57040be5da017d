"""One run that is watched from outside: read on, judged, acted upon, and remembered."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from vitalsdsl.acting.decision import Decision
from vitalsdsl.acting.dispatch import Dispatcher
from vitalsdsl.acting.journal import Journal
from vitalsdsl.acting.landing import Landed
from vitalsdsl.attaching.attachment import copy_of
from vitalsdsl.attaching.session import EARLY
from vitalsdsl.ground.errors import StateError
from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl.language.rules import Level
from vitalsdsl.planning.logged import WHY_UNKNOWN, Reads
from vitalsdsl.planning.unrecognised import otherwise_lacking, unrecognised
from vitalsdsl.policies.policy import LoadedPolicy
from vitalsdsl.streaming.stream import Stream
from vitalsdsl.verdicts.verdict import Transition
from vitalsdsl.watching.beginning import MUCH, Beginning, Together
from vitalsdsl.watching.feeds import Batch, Cursor, Feed
from vitalsdsl.watching.store import Bookmark, Store

logger = logging.getLogger("vitalsdsl")

SAVE_EVERY = 30.0
"""Seconds between bookmarks of one run. What comes after the last is read again after a crash, which costs time only."""

AT_ONCE = 300
"""From so many rows of one look on it pays to write code for them, if the run has begun: at fifty rules it takes 30 ms, and as much
again to go on without it, and a step then takes a twentieth of its time."""

_WRITING = 30.0

_STEPS = "steps"
"""Where the number of closed steps stands, beside the state of the rules."""

_HEARD = "heard"
"""Where the time of the newest point stands, and when it was heard of, by this machine's two clocks."""

_STEADY = 60.0
"""Seconds by which the two may differ in what they say has gone by, if that is to be believed."""


@dataclass
class Reading:
    """What one look at a run gave: what changed, and whether there is more to be had at once. `ends` where the run is over
    and was not when it was last seen, by whoever watched it from this store."""

    transitions: list[Transition] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    rows: int = 0
    more: bool = False
    is_over: bool = False
    ends: bool = False
    notes: list[str] = field(default_factory=list)
    unsaved: StateError | None = None
    """Why the bookmark could not be written, where it could not: it is tried again, and the run is read on meanwhile."""


@dataclass(frozen=True)
class _Landed:
    """What has been put on a run, as the store knows it."""

    store: Store
    uri: str
    digest: str

    def __contains__(self, what: str) -> bool:
        return self.store.has_landed(self.uri, self.digest, what)

    def add(self, what: str) -> None:
        self.store.land(self.uri, self.digest, what)


@dataclass
class _Anew:
    """A run that is being read from its beginning, up to the newest of its `rewinds`."""

    beginning: Beginning
    rewinds: list[int]
    cursor: Cursor | None = None
    seen: int = 0
    stream: Stream | None = None
    """Where its rows cannot be judged together any more: they are pushed from there on."""

    @property
    def counts_to(self) -> int:
        """Up to which step the rows now read still count: to where no later rewind went back beyond."""
        return min(self.rewinds[self.seen :])

    def take(self, row: Row) -> None:
        if self.stream is None and (self.beginning.is_full or not self.beginning.take([row])):
            self.stream, _, _ = self.beginning.judged()
        if self.stream is not None:
            self.stream.push_row(row)

    def judged(self) -> Stream:
        """Where it stands after what has been read."""
        return self.stream or self.beginning.judged()[0]


class Watched:
    """A run under one policy, from its first point to its last, over any number of processes.

    With `from_now`, what the run's history up to the first look says shows in its tags, and nobody is told of it. Not for
    several threads at once. Between `look`s nothing is held open but the feed.
    """

    def __init__(
        self,
        feed: Feed,
        policy: LoadedPolicy,
        dispatcher: Dispatcher,
        journal: Journal,
        store: Store | None,
        from_now: bool = False,
        together: Together | None = None,
    ) -> None:
        self.feed = feed
        self.policy = policy
        self.is_over = False
        self._dispatcher = dispatcher
        self._journal = journal
        self._store = store
        self._said: set[str] = set()
        self._stream = self._new_stream()
        self._cursor: Cursor | None = None
        self._rewinds: list[int] = []
        self._saved = time.monotonic()
        self._is_unsaved = False
        self._together = together or Together()
        self._beginning: Beginning | None = None
        self._anew: _Anew | None = None
        self._steps = 0
        self._newest = math.nan
        self._heard = time.monotonic()
        self._take_up()
        self._is_history = from_now and not self.is_known

    def introduce(self) -> None:
        """Have the policy's copy, and the first tags, put on the run: tried again until they are there, if need be by the
        process that comes after this one. Raises StateError where the store cannot be read."""
        landed: Landed = set() if self._store is None else _Landed(self._store, self.feed.uri, self.policy.digest)
        self._dispatcher.record_policy(copy_of(self.policy), landed)

    @property
    def is_known(self) -> bool:
        """Whether it has been read before, by this process or an earlier one."""
        return self._cursor is not None

    @property
    def level(self) -> Level:
        """The highest level of its rules."""
        return self._stream.level

    @property
    def step(self) -> int | None:
        """The newest closed step."""
        return self._stream.closed

    @property
    def attempt(self) -> int:
        return self._stream.attempt

    @property
    def firing(self) -> dict[str, Level]:
        """The rules that are not green, with their levels."""
        found: dict[str, Level] = {}
        for rule in self._stream.plan.rules:
            if rule.level:
                found[rule.name] = max(rule.level, found.get(rule.name, Level.GREEN))
        return found

    @property
    def is_unchecked(self) -> bool:
        """Whether a later look is to see to it that what was put on the run has stayed there."""
        return self._dispatcher.is_unchecked

    @property
    def is_delivered(self) -> bool:
        """Whether all that was decided so far has been done, or given up."""
        return self._dispatcher.is_idle

    @property
    def undelivered(self) -> int:
        """How many alerts, messages and requests are still to be delivered."""
        return sum(len(left) for _, left in self._journal.unfinished(self.feed.info.name))

    @property
    def is_unsaved(self) -> bool:
        """Whether something has been read that no bookmark tells of yet."""
        return self._is_unsaved

    def look(self) -> Reading:
        """Read on once, and act on what changed. Raises TrackerError, after which it can be called again; nothing is
        lost then."""
        self._journal.refresh()
        going_on = self._anew or self._beginning
        batch = self.feed.read(self._cursor if going_on is None else going_on.cursor)
        reading = Reading(rows=len(batch.events), more=batch.more, is_over=batch.is_over)
        reading.notes = [note for note in batch.notes if note not in self._said]
        self._said.update(reading.notes)
        steps = self._steps
        reading.transitions = self._judge(batch, reading)
        reading.notes += self._lacking(steps < EARLY <= self._steps, reading.is_over and not self.is_over)
        reading.ends = reading.is_over and not self.is_over
        self.is_over = reading.is_over
        if reading.ends:
            self._dispatcher.check_again()
        is_history, self._is_history = self._is_history, self._is_history and reading.more
        if reading.transitions:
            taken = self._dispatcher.take(
                reading.transitions, newest=self._now(), is_history=is_history, is_behind=reading.more
            )
            reading.decisions = list(taken)
        if not reading.more:
            self._dispatcher.heed()
        if self.is_over or time.monotonic() - self._saved >= SAVE_EVERY:
            try:
                self.save()
            except StateError as error:
                self._saved = time.monotonic()
                reading.unsaved = error
        return reading

    def save(self) -> None:
        """Write how far the run has been read, once what was decided up to there is on disk."""
        if self._store is None or not self._is_unsaved or self._anew is not None or self._beginning is not None:
            return
        if not self._dispatcher.written(_WRITING) or self._journal.is_behind:
            return  # what was decided would be lost with this process, and the points would not be read again
        heard = [time.time() - time.monotonic() + self._heard, self._heard]
        newest = self._newest if self._newest == self._newest else None
        state = {**self._stream.save(), _STEPS: self._steps, _HEARD: [newest, *heard]}
        bookmark = Bookmark(self._cursor, state, tuple(self._rewinds), self.is_over)
        self._store.keep(self.feed.uri, self.policy.digest, bookmark)
        self._saved, self._is_unsaved = time.monotonic(), False

    def close(self, timeout: float) -> bool:
        """The end of watching, not of the run: its bookmark is written, and what is queued may be finished in time. Whether
        nothing is left to do about the run for now."""
        try:
            self.save()
        except StateError as error:
            logger.warning("vitals: %s", error)
        done = self._dispatcher.close(timeout)
        self._journal.close()
        self.feed.close()
        return done and not self.is_unchecked and (self._store is None or not self._is_unsaved)

    # ---------------------------------------------------------------- the rules

    def _new_stream(self) -> Stream:
        info = self.feed.info
        return Stream(
            self.policy.policy,
            info.name,
            self.policy.digest,
            total_steps=info.total_steps,
            keep_rows=False,
            quick=False,
        )

    def _take_up(self) -> None:
        """Go on where the store says. A bookmark that does not fit is as good as none: the run is read from its start,
        and what was done about it is known from its journal."""
        kept = self._store.bookmark(self.feed.uri, self.policy.digest) if self._store is not None else None
        if kept is None or kept.state is None:
            return
        try:
            self._stream.load(kept.state)
        except StateError:
            self._stream = self._new_stream()
            return
        self._cursor, self._rewinds, self.is_over = kept.cursor, list(kept.rewinds), kept.is_over
        self._steps = int(kept.state.get(_STEPS, EARLY))
        newest, wall, steady = kept.state.get(_HEARD, (None, 0.0, 0.0))
        if newest is not None:
            self._newest = newest
            self._heard = _heard_at(wall, steady)

    def _judge(self, batch: Batch, reading: Reading) -> list[Transition]:
        """What a batch changes. Where it goes back, the rest of it waits until the run has been read anew."""
        out: list[Transition] = []
        events = batch.events
        if self._cursor is None and self._anew is None and self._stream.newest_step is None:
            rest = self._begin(batch, out)
            if rest is None:
                return out
            events = rest
        with self._many(events):
            return self._go_through(events, batch, reading, out)

    def _many(self, events: Sequence[Row | Rewind]) -> contextlib.AbstractContextManager[None]:
        """How the stream is given so many: it had none to read for a while."""
        first = events[0] if len(events) >= AT_ONCE and self._anew is None else None
        return self._stream.many(first.values) if isinstance(first, Row) else contextlib.nullcontext()

    def _go_through(
        self, events: Sequence[Row | Rewind], batch: Batch, reading: Reading, out: list[Transition]
    ) -> list[Transition]:
        for event in events:
            if self._anew is not None:
                out += self._read_anew(self._anew, event)
            elif isinstance(event, Row):
                out += self._push(event)
            elif self._goes_back(event):
                beginning = Beginning(self._together, self.policy, self._new_stream)
                self._anew = _Anew(beginning, [*self._rewinds, event.step])
                reading.more, reading.is_over = True, False
                return out
            else:
                self._rewinds.append(event.step)
                out += self._stream.rewind(event.step)
        if self._anew is not None:
            self._anew.cursor = batch.cursor
            reading.more, reading.is_over = True, False
            return out
        self._is_unsaved |= bool(batch.events) or batch.is_over or batch.cursor != self._cursor
        self._cursor = batch.cursor
        if batch.is_over:
            return out + self._stream.finish()
        return out if batch.more else out + self._tick(bool(batch.events))

    def _begin(self, batch: Batch, out: list[Transition]) -> Sequence[Row | Rewind] | None:
        """Take in the first rows of a run: together, where they are many. What of a batch is left to be gone through; None
        where there is more of them to come."""
        beginning = self._beginning
        if beginning is None:
            if not batch.more and len(batch.events) < MUCH:
                return batch.events
            beginning = self._beginning = Beginning(self._together, self.policy, self._new_stream)
        taken = beginning.take(batch.events)
        if taken == len(batch.events) and batch.more and not beginning.is_full:
            beginning.cursor = batch.cursor
            return None
        self._beginning = None
        self._stream, said, self._steps = beginning.judged()
        self._newest = beginning.newest_time
        out += said
        return batch.events[taken:]

    def _goes_back(self, event: Rewind) -> bool:
        newest = self._stream.newest_step
        return newest is not None and event.step < newest

    def _push(self, row: Row) -> list[Transition]:
        if row.time == row.time:
            self._newest = row.time if self._newest != self._newest else max(self._newest, row.time)
        before = self._stream.closed
        out = self._stream.push_row(row)
        self._steps += self._stream.closed != before
        return out

    def _read_anew(self, anew: _Anew, event: Row | Rewind) -> list[Transition]:
        """A run that went back is read from its beginning, a batch at a time: a watcher keeps no history."""
        if isinstance(event, Row):
            if event.step <= anew.counts_to:
                anew.take(event)
            return []
        anew.seen += 1
        if anew.seen < len(anew.rewinds):
            return []
        stream = anew.judged()
        out = stream.replace(self._stream, event.step)
        self._stream, self._rewinds, self._anew = stream, anew.rewinds, None
        return out

    def _lacking(self, is_early: bool, is_over: bool) -> list[str]:
        """What the policy reads and the run does not log: said once when that is likely to be a mistake, and at the end."""
        if not is_early and not (is_over and self._stream.closed is not None):
            return []
        reads, names = Reads(self.policy.policy), self._stream.names
        blind = unrecognised(reads, names)
        said = [one.told for one in blind]
        lacking = otherwise_lacking(reads, names, blind)
        if not is_over:
            due = [read for read in lacking if read.is_due(EARLY)]
            return said + ([f"not logged in the first {EARLY} steps: {reads.told(due, names)}"] if due else [])
        said += [f"never logged: {reads.told(lacking, names)}"] if lacking else []
        unknown = reads.never_known(self._stream.plan.graph.clock.counter)
        return said + [f"never known: {name} ({WHY_UNKNOWN[name]})" for name in unknown]

    def _tick(self, heard: bool) -> list[Transition]:
        """Time goes by without a point. It is counted on this machine's clock from when the last point was heard of:
        the clock of the machine that trains may differ by hours."""
        if heard:
            self._heard = time.monotonic()
            return []
        return self._stream.tick(self._now()) if self._newest == self._newest else []

    def _now(self) -> float:
        """What time it is for the run; NaN where its points carry no times."""
        return self._newest + time.monotonic() - self._heard


def _heard_at(wall: float, steady: float) -> float:
    """When an earlier process heard of the newest point, by the monotonic clock; now, where that cannot be told: the
    machine was started anew, it is another one, or its clock has been set."""
    now = time.monotonic()
    is_known = now - steady >= 0.0 and abs((time.time() - wall) - (now - steady)) <= _STEADY
    return steady if is_known else now
