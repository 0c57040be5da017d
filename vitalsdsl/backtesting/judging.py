"""One place read once and judged by each policy: what a worker does."""

from __future__ import annotations

import gc
import logging
import math
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

from vitalsdsl.backtesting.outcome import Change, RunOutcome, Steps
from vitalsdsl.columns.batch import Batch
from vitalsdsl.ground.errors import SourceError, UsageError, VitalsError
from vitalsdsl.ground.points import Rewind, Row
from vitalsdsl.language import rules
from vitalsdsl.language.rules import Level
from vitalsdsl.nodes.table import Table
from vitalsdsl.planning.sight import Sight
from vitalsdsl.policies.policy import LoadedPolicy
from vitalsdsl.policies.policy import read as read_policy
from vitalsdsl.runs.places import Place
from vitalsdsl.runs.sources import Recording, read
from vitalsdsl.streaming.stream import Stream


@dataclass(frozen=True)
class PolicyCopy:
    """A policy as text that stands alone, so that it can be sent to another process; the digest is that of its meaning."""

    text: str
    digest: str
    name: str
    reference: str
    axis: str | None
    rules: tuple[str, ...]

    @classmethod
    def of(cls, loaded: LoadedPolicy) -> PolicyCopy:
        names = tuple(rule.name for rule in loaded.policy.of(rules.Rule) if not rule.body.disabled)
        return cls(loaded.bundle, loaded.digest, loaded.name, loaded.reference, loaded.axis, names)


@dataclass(frozen=True)
class Task:
    """A place for which results of some policies are wanted. `index` is its position among all places."""

    index: int
    place: Place
    copies: tuple[PolicyCopy, ...]
    step_key: str | None = None


@dataclass(frozen=True)
class Judged:
    """What came of a task: for each of its policies the runs that lie in the place, or why it cannot be read."""

    index: int
    runs: tuple[tuple[RunOutcome, ...], ...] = ()
    why: str = ""
    points: int = 0


@dataclass(frozen=True)
class _Policy:
    """What a copy means, made once in each process."""

    policy: rules.Policy
    batch: Batch


@lru_cache(maxsize=64)
def _policy(copy: PolicyCopy) -> _Policy:
    loaded, _ = read_policy("policy.vitals", text=copy.text)  # who made the copy has told what is wrong with it
    if loaded is None or loaded.digest != copy.digest:
        raise UsageError(f"the policy `{copy.name}` does not mean the same by itself: this is a mistake of vitalsdsl")
    return _Policy(loaded.policy, Batch(loaded.policy, copy.digest))


def judge(task: Task) -> Judged:
    """Whatever goes wrong with a place is said of it, and costs no other."""
    try:
        return _judged(task)
    except VitalsError as error:
        return Judged(task.index, why=str(error))
    except MemoryError:
        gc.collect()
        return Judged(task.index, why="there is not enough memory to read it")
    except RecursionError:
        return Judged(task.index, why="it is nested too deep to be read")
    except Exception as error:  # a reader's own mistake, of this package or another
        logging.getLogger("vitalsdsl").debug("vitals: reading %s failed", task.place.shown, exc_info=True)
        return Judged(task.index, why=f"its reader fails on it: {error or type(error).__name__}")


def _judged(task: Task) -> Judged:
    for copy in task.copies:
        _policy(copy)
    keys = {task.step_key or copy.axis for copy in task.copies}
    if len(keys) == 1:
        found, points = _read(task, keys.pop(), task.copies)
        return Judged(task.index, found, points=points)
    both = [_read(task, task.step_key or copy.axis, (copy,)) for copy in task.copies]  # each has a step of its own
    return Judged(task.index, tuple(runs for found, _ in both for runs in found), points=sum(n for _, n in both))


def _read(
    task: Task, step_key: str | None, copies: Sequence[PolicyCopy]
) -> tuple[tuple[tuple[RunOutcome, ...], ...], int]:
    """The outcomes by policy, and how many points were read."""
    by_policy: list[list[RunOutcome]] = [[] for _ in copies]
    points = 0
    for number, recording in enumerate(read(task.place.reference, step_key=step_key), 1):
        run = _key(task.place, recording, number)
        if isinstance(recording.events, Sequence):
            outcomes, count = _from_columns(recording, recording.events, run, copies)
        else:
            outcomes, count = _from_rows(recording, run, copies)
        points += count
        for runs, outcome in zip(by_policy, outcomes):
            runs.append(outcome)
    return tuple(map(tuple, by_policy)), points


def _key(place: Place, recording: Recording, number: int) -> str:
    """What a run is called among all: a path, with a number where it is not the file's first, or the tracker's name."""
    shown = place.shown if place.is_file else recording.info.name
    return shown if number == 1 or not place.is_file else f"{shown}#{number}"


class _Walk:
    """What is counted of a run while it is gone through."""

    def __init__(self) -> None:
        self.steps = Steps()
        self.rows = 0
        self.points = 0
        self.names: set[str] = set()
        self._newest = -math.inf

    def see(self, row: Row) -> None:
        self.rows += 1
        self.points += len(row.values)
        self.names.update(row.values)
        if row.step > self._newest:
            self._newest = row.step
            self.steps.add(row.step)

    def go_back(self, closed: float) -> None:
        """The run is again where this step, of those that still count, had just been closed."""
        self.rows += 1
        self._newest = closed


def _from_columns(
    recording: Recording, events: Sequence[Row | Rewind], run: str, copies: Sequence[PolicyCopy]
) -> tuple[list[RunOutcome], int]:
    """A run that is in memory: whole columns say at once which rules stay green, for each policy."""
    walk = _Walk()
    counting: list[int] = []
    """The steps of the attempt that now counts, those before it that it goes on from included."""
    for event in events:
        if isinstance(event, Rewind):
            del counting[bisect_right(counting, event.step) :]
            walk.go_back(counting[-1] if counting else -math.inf)
            continue
        walk.see(event)
        if not counting or event.step > counting[-1]:
            counting.append(event.step)
    table = Table.of(events)
    info = recording.info
    changes = [
        [
            Change.of(t)
            for t in _policy(copy).batch.transitions(events, info.name, info.total_steps, table, wordless=True)
        ]
        for copy in copies
    ]
    return _outcomes(recording, run, copies, changes, walk)


def _from_rows(recording: Recording, run: str, copies: Sequence[PolicyCopy]) -> tuple[list[RunOutcome], int]:
    """A run that is too long to be held: row by row, once for all policies. Most never go back: then no row need be kept
    for that."""
    try:
        return _by_row(recording, run, copies, keep_rows=False)
    except _WentBack:
        return _by_row(recording, run, copies, keep_rows=True)


class _WentBack(Exception):
    """The run goes back, and its rows were not kept."""


def _by_row(
    recording: Recording, run: str, copies: Sequence[PolicyCopy], keep_rows: bool
) -> tuple[list[RunOutcome], int]:
    info = recording.info
    streams = [
        Stream(_policy(copy).policy, info.name, copy.digest, True, info.total_steps, keep_rows=keep_rows)
        for copy in copies
    ]
    changes: list[list[Change]] = [[] for _ in copies]
    pairs = list(zip(streams, changes))
    walk = _Walk()
    for event in recording.events:
        if isinstance(event, Rewind):
            if not keep_rows:
                raise _WentBack
            for stream, found in pairs:
                found += map(Change.of, stream.rewind(event.step))
            closed = streams[0].closed
            walk.go_back(-math.inf if closed is None else closed)
            continue
        walk.see(event)
        for stream, found in pairs:
            new = stream.push_row(event)
            if new:
                found += map(Change.of, new)
    for stream, found in pairs:
        found += map(Change.of, stream.finish())
    return _outcomes(recording, run, copies, changes, walk)


def _outcomes(
    recording: Recording, run: str, copies: Sequence[PolicyCopy], changes: Sequence[list[Change]], walk: _Walk
) -> tuple[list[RunOutcome], int]:
    if not len(walk.steps):
        raise SourceError(f"`{run}` holds no rows")
    info = recording.info
    known = {
        "run": run, "name": info.name, "title": info.title, "url": info.url, "rows": walk.rows,
        "notes": (*info.notes, *recording.late_notes),
    }  # fmt: skip
    outcomes = [
        RunOutcome.made(found, walk.steps, level=_end(found), blind=_blind(copy, walk.names), **known)
        for copy, found in zip(copies, changes)
    ]
    return outcomes, walk.points


def _end(changes: Sequence[Change]) -> Level:
    """The highest level at the end of a run."""
    newest = {change.subject: change.to for change in changes}
    return max(newest.values(), default=Level.GREEN)


def _blind(copy: PolicyCopy, names: Collection[str]) -> tuple[str, ...]:
    """The rules that could not fire on a run, since it does not log what they would need for it."""
    sight = Sight(_policy(copy).policy, names)
    lacking = {rule.name for rule in _policy(copy).policy.of(rules.Rule) if sight.lacking(rule)}
    return tuple(name for name in copy.rules if name in lacking)
