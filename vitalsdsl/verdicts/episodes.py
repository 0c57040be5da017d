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
class Turn:
    """From a row on a clause is at a level, by one of its rungs (-1: green); `onset` is the row at which that began."""

    row: int
    level: Level
    rung: int = -1
    onset: int = -1


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
) -> Iterator[Turn]:
    """The turns of a clause that is first looked at at the row `begin`, up to the row `end`; `forgets`: what clears it is
    counted from where it fires."""
    climb = _climbs(rungs, said, at)
    after = begin - 1
    while True:
        fired = holds.first(after, after)
        if not 0 <= fired < end:
            return
        onset = holds.onset(fired, after)
        cleared = clears.first(fired if forgets else after, fired)
        over = cleared if 0 <= cleared < end else end
        yield Turn(fired, rungs.levels[0], 0, onset)
        for row, rung in climb(fired, over):
            yield Turn(row, rungs.levels[rung], rung, onset)
        if over == end:
            return
        yield Turn(cleared, Level.GREEN)
        after = cleared


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
