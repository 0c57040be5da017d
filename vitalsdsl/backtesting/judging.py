"""One place read once and judged by each policy: what a worker does."""

from __future__ import annotations

import gc
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from vitalsdsl import rules
from vitalsdsl.backtesting.outcome import Change, RunOutcome, Steps
from vitalsdsl.backtesting.places import Place
from vitalsdsl.errors import SourceError, UsageError, VitalsError
from vitalsdsl.logged import Reads
from vitalsdsl.points import Rewind, Row
from vitalsdsl.policy import LoadedPolicy, load
from vitalsdsl.sources import Recording, read
from vitalsdsl.stream import Stream


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


@lru_cache(maxsize=64)
def _policy(copy: PolicyCopy) -> tuple[rules.Policy, Reads]:
    loaded = load("policy.vitals", text=copy.text)
    if loaded.digest != copy.digest:
        raise UsageError(f"the policy `{copy.name}` does not mean the same by itself: this is a mistake of vitalsdsl")
    return loaded.policy, Reads(loaded.policy)


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
        try:
            outcomes, count = _run(recording, run, copies, keep_rows=False)
        except _WentBack:
            outcomes, count = _run(recording, run, copies, keep_rows=True)
        points += count
        for runs, outcome in zip(by_policy, outcomes):
            runs.append(outcome)
    return tuple(map(tuple, by_policy)), points


def _key(place: Place, recording: Recording, number: int) -> str:
    """What a run is called among all: a path, with a number where it is not the file's first, or the tracker's name."""
    shown = place.shown if place.is_file else recording.info.name
    return shown if number == 1 or not place.is_file else f"{shown}#{number}"


class _WentBack(Exception):
    """The run goes back, and its rows were not kept."""


def _run(recording: Recording, run: str, copies: Sequence[PolicyCopy], keep_rows: bool) -> tuple[list[RunOutcome], int]:
    """One run under each policy, gone through once. Most runs never go back: then no row need be kept for that."""
    info = recording.info
    streams = [
        Stream(_policy(copy)[0], info.name, copy.digest, True, info.total_steps, keep_rows=keep_rows) for copy in copies
    ]
    changes: list[list[Change]] = [[] for _ in copies]
    pairs = list(zip(streams, changes))
    steps, newest, rows, points = Steps(), -math.inf, 0, 0
    event: Row | Rewind
    for event in recording.events:
        rows += 1
        if isinstance(event, Rewind):
            if not keep_rows:
                raise _WentBack
            for stream, found in pairs:
                found += map(Change.of, stream.rewind(event.step))
            closed = streams[0].closed
            newest = -math.inf if closed is None else closed
            continue
        points += len(event.values)
        if event.step > newest:
            newest = event.step
            steps.add(event.step)
        for stream, found in pairs:
            new = stream.push_row(event)
            if new:
                found += map(Change.of, new)
    if not len(steps):
        raise SourceError(f"`{run}` holds no rows")
    notes = (*info.notes, *recording.late_notes)
    known = {"run": run, "name": info.name, "title": info.title, "url": info.url, "rows": rows, "notes": notes}
    outcomes = []
    for copy, (stream, found) in zip(copies, pairs):
        found += map(Change.of, stream.finish())
        outcomes.append(RunOutcome.made(found, steps, level=stream.level, blind=_blind(copy, stream), **known))
    return outcomes, points


def _blind(copy: PolicyCopy, stream: Stream) -> tuple[str, ...]:
    """The rules of which a run does not log all that they read."""
    readers = {who for read in _policy(copy)[1].metrics if not read.is_among(stream.names) for who in read.readers}
    return tuple(name for name in copy.rules if name in readers)
