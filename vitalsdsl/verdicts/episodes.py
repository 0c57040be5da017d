"""Episodes: from where a `when` fires to where it clears, of a recorded run at once; as `Clause` goes through it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from vitalsdsl.ground.types import SAMPLES, STEPS, TIME, Extent
from vitalsdsl.kernels.columns import Array, Rows
from vitalsdsl.language.rules import Level
from vitalsdsl.nodes.holding import Span
from vitalsdsl.nodes.spells import Reached


@dataclass(frozen=True)
class Turns:
    """From each of these rows on a clause is at a level, by one of its rungs (-1: green); `onsets` are the rows at which
    that began (-1 of green)."""

    rows: Array
    levels: Array
    rungs: Array
    onsets: Array

    @classmethod
    def of(cls, turns: Sequence[tuple[int, int, int, int]]) -> Turns:
        """From a row, a level, a rung and an onset each."""
        return cls(*np.array(turns, dtype=np.int64).reshape(-1, 4).T)

    @classmethod
    def joined(cls, parts: Sequence[Turns]) -> Turns:
        """Those of several, one after the other."""
        if len(parts) == 1:
            return parts[0]
        fields = zip(*((one.rows, one.levels, one.rungs, one.onsets) for one in parts))
        return cls(*map(np.concatenate, fields)) if parts else cls.of([])

    def since(self, place: int) -> Turns:
        """Those from a place on."""
        return Turns(self.rows[place:], self.levels[place:], self.rungs[place:], self.onsets[place:])

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Rungs:
    """The levels of a clause, and after how much each follows upon its firing."""

    levels: Sequence[Level]
    after: Sequence[Extent | None]


@dataclass(frozen=True)
class Said:
    """What a condition is at its evaluations, which are at `rows`: whether it is true, and whether it is known."""

    rows: Array
    true: Array
    known: Array

    def within(self, begin: int, end: int) -> Said:
        """At the rows from one up to another."""
        part = slice(*np.searchsorted(self.rows, (begin, end)).tolist())
        return Said(self.rows[part], self.true[part], self.known[part])

    def reached(self, span: Span, at: Rows, unknown_is_false: bool = False, opposite: bool = False) -> Reached:
        """Where it, or its opposite, has been true for a span."""
        rows, true = self.rows, self.true
        if not unknown_is_false:
            begin = int(np.argmax(self.known)) if len(rows) else 0
            rows, true, known = rows[begin:], true[begin:], self.known[begin:]
            if not known.all():
                rows, true = rows[known], true[known]
        return Reached(span, rows, ~true if opposite else true, at)


@dataclass(frozen=True)
class Clearing:
    """`clear when`: the condition, and for how long it must be true."""

    said: Said
    span: Span

    def within(self, begin: int, end: int) -> Clearing:
        return Clearing(self.said.within(begin, end), self.span)

    def reached(self, clause: Said, at: Rows) -> Reached:
        """Where it clears a clause: it does not while that is true."""
        rows, true = self.said.rows[self.said.known], self.said.true[self.said.known]
        # What the clause saw last counts, be it at the same row: it is evaluated first.
        newest = np.searchsorted(clause.rows, rows, side="right") - 1
        return Reached(self.span, rows, true, at, ~((newest >= 0) & clause.true[newest]))


def episodes(
    said: Said,
    rungs: Rungs,
    holds: Reached,
    clears: Reached,
    forgets: bool,
    at: Rows,
    begin: int,
    end: int,
) -> Turns:
    """The turns of a clause that is first looked at at the row `begin`, up to the row `end`; `forgets`: what clears it is
    counted from where it fires."""
    if not forgets and holds.is_plain and clears.is_plain:
        fired, onsets, cleared = _alternately(holds, clears)
    else:
        fired, onsets, cleared = _one_by_one(holds, clears, forgets, begin, end)
    over = np.append(cleared, end)[: len(fired)]
    if len(rungs.levels) > 1:
        return _climbed(rungs, said, at, fired, onsets, cleared, over)
    rows, count = np.empty(len(fired) + len(cleared), np.int64), len(fired)
    rows[::2], rows[1::2] = fired, cleared
    levels, taken, began = np.zeros_like(rows), np.full_like(rows, -1), np.full_like(rows, -1)
    levels[::2], taken[::2], began[::2] = int(rungs.levels[0]), 0, onsets[:count]
    return Turns(rows, levels, taken, began)


def _alternately(holds: Reached, clears: Reached) -> tuple[Array, Array, Array]:
    """Where a clause fires, and since when, and where it clears, if each stretch of true evaluations is long enough by
    itself, or not: nothing that is forgotten when it clears is of one that comes after."""
    (fires, begins), (ends, _) = holds.anew(), clears.anew()
    rows = np.concatenate([fires, ends])
    order = np.argsort(rows, kind="stable")
    is_end = (order >= len(fires)).astype(np.int8)
    # Of those that follow upon each other the first counts, and the first of all is one at which it fires.
    order = order[np.diff(is_end, prepend=1) != 0]
    fired, cleared = order[::2], order[1::2]
    return rows[fired], begins[fired], rows[cleared]


def _one_by_one(holds: Reached, clears: Reached, forgets: bool, begin: int, end: int) -> tuple[Array, Array, Array]:
    """The same where what is forgotten counts."""
    fires: list[int] = []
    onsets: list[int] = []
    ends: list[int] = []
    after = begin - 1
    while True:
        fired = holds.first(after, after)
        if not 0 <= fired < end:
            break
        fires.append(fired)
        onsets.append(holds.onset(fired, after))
        after = clears.first(fired if forgets else after, fired)
        if not 0 <= after < end:
            break
        ends.append(after)
    return np.array(fires, np.int64), np.array(onsets, np.int64), np.array(ends, np.int64)


def _climbed(rungs: Rungs, said: Said, at: Rows, fired: Array, onsets: Array, cleared: Array, over: Array) -> Turns:
    """The turns with the rungs that are taken between firing and clearing."""
    climb, turns = _climbs(rungs, said, at), []
    for i, (row, onset, until) in enumerate(zip(fired.tolist(), onsets.tolist(), over.tolist())):
        turns.append((row, int(rungs.levels[0]), 0, onset))
        turns += [(later, int(rungs.levels[rung]), rung, onset) for later, rung in climb(row, until)]
        if i < len(cleared):
            turns.append((until, int(Level.GREEN), -1, -1))
    return Turns.of(turns)


Climb = Callable[[int, int], Iterator[tuple[int, int]]]


def _climbs(rungs: Rungs, said: Said, at: Rows) -> Climb:
    """Where a clause takes a rung beyond its first, which rests on its true evaluations after the row at which it fired."""
    true = said.rows[said.true] if len(rungs.levels) > 1 else said.rows[:0]

    def climb(fired: int, over: int) -> Iterator[tuple[int, int]]:
        begin, end = np.searchsorted(true, (fired + 1, over)).tolist()
        own = true[begin:end]
        due: dict[int, int] = {}
        for rung in range(1, len(rungs.levels)):
            extent = rungs.after[rung]
            assert extent is not None
            reached = np.nonzero(_passed(extent, own, fired, at) >= extent.size)[0]
            if len(reached):
                row = int(own[reached[0]])
                due[row] = max(rung, due.get(row, 0))
        taken = 0
        for row, rung in sorted(due.items()):
            if rung > taken:
                taken = rung
                yield row, rung

    return climb


def _passed(extent: Extent, rows: Array, fired: int, at: Rows) -> Array:
    if extent.unit == SAMPLES:
        return np.arange(1, len(rows) + 1)
    now = {STEPS: at.steps, TIME: at.times}[extent.unit]
    return now[rows] - now[fired]
