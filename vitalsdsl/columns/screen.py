"""Screen: which rules of a policy can leave green in a recorded run. Whole columns at once; when in doubt, they can.

A reference (`usual`, `noise`) stands on what its rule says, and that on the reference: it is begun with every point let in,
and gone through again with what the rule then says until both agree. A step's verdict rests on earlier steps alone, so there
is one such answer.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from vitalsdsl.columns.bounded_columns import FEW
from vitalsdsl.columns.columnwise import Columnwise
from vitalsdsl.columns.joined import Joined
from vitalsdsl.columns.run_columns import CannotSay
from vitalsdsl.ground.types import SAMPLES, STEPS, TIME, Extent
from vitalsdsl.kernels.columns import Array, dense
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes import operations as op
from vitalsdsl.nodes import signals as sg
from vitalsdsl.nodes.possible import Possible, any_of
from vitalsdsl.nodes.spells import may_hold
from vitalsdsl.nodes.table import Table
from vitalsdsl.verdicts.verdict import Clause, RuleState

MOST_ROUNDS = 40
"""So often a reference and its rule are made to agree before the rule is left to the stream."""

TOGETHER = 6
"""Rounds in which all of a run is taken as its conditions find it. That is soon done with single points that are not let
in; of what lasts for hundreds it finds the end of each stretch one by one."""


class Stretch(NamedTuple):
    """Rows of a run: before `first` no condition of a rule can be true, after `last` it cannot leave green."""

    first: int
    last: int

    def joined_with(self, other: Stretch) -> Stretch:
        return Stretch(min(self.first, other.first), max(self.last, other.last))


class Screen:
    """The rules of one plan over one run; `begins` are the rows at which its stages begin."""

    def __init__(self, joined: Joined, begins: Sequence[int], table: Table, total_steps: float = math.nan) -> None:
        self._joined, self._begins, self._table, self._total = joined, begins, table, total_steps
        self.columns = Columnwise(joined, begins, table, total_steps)
        self._all_rows = np.ones(len(table), bool)
        self._at_odds: set[int] = set()
        """References that have been found not to come to agree with their conditions."""

    def before(self, row: int) -> Screen:
        """The same of the rows before one, as if the run had ended there."""
        return Screen(self._joined, [min(begin, row) for begin in self._begins], self._table.before(row), self._total)

    def may_fire(self) -> dict[str, Stretch]:
        """The names of the rules that may leave green, and where they may."""
        found: dict[str, Stretch] = {}
        for rule in self._joined.plan.rules:
            stretch = self.stretch(rule)
            if stretch is not None:
                found[rule.name] = stretch.joined_with(found.get(rule.name, stretch))
        return found

    def looked(self) -> set[str] | None:
        """The names of the rules of which a condition was known at some step, inside their phases. None where a condition
        has no vectorised form."""
        found: set[str] = set()
        try:
            for rule in self._joined.plan.rules:
                if rule.guard is not None:
                    points = self.columns.points.get(rule.guard.metric.name)
                    is_known = points is not None and len(points) > 0
                else:
                    is_known = any(self._was_known(clause) for clause in rule.clauses)
                if is_known:
                    found.add(rule.name)
        except CannotSay:
            return None
        return found

    def _was_known(self, clause: Clause) -> bool:
        possible, rows = self.can_be(clause), self.evaluations(clause)
        known = self._at(rows, possible.true) | self._at(rows, possible.false)
        if clause.gate is not None:
            known = known & self._at(rows, self.inside(clause.gate.phases).true)
        return bool(known.any())

    def stretch(self, rule: RuleState) -> Stretch | None:
        """Where a rule may leave green; None where it surely does not."""
        if rule.guard is not None:
            points = self.columns.points.get(rule.guard.metric.name)
            if points is None:
                return None
            nan, infinite = np.isnan(points.values), np.isinf(points.values)
            amiss = points.rows[nan & rule.guard.watches_nan | infinite & rule.guard.watches_inf]
            return Stretch(int(amiss[0]), int(amiss[-1])) if len(amiss) else None
        try:
            found = [stretch for clause in rule.clauses if (stretch := self._stretch_of(clause)) is not None]
        except CannotSay:
            return Stretch(0, self.columns.count - 1)
        return functools.reduce(Stretch.joined_with, found) if found else None

    def evaluations(self, clause: Clause) -> Array:
        """The rows at which a `when` is evaluated."""
        return self.columns.evaluations(clause)

    def can_be(self, clause: Clause) -> Possible:
        """What the condition of a `when` can be at each row. Raises CannotSay."""
        self.settle(self.columns.references(clause))
        return self.columns.condition(clause.condition)

    def _stretch_of(self, clause: Clause) -> Stretch | None:
        held = self.may_hold(clause)
        if not len(held):
            return None
        rows = self.evaluations(clause)
        true = self._at(rows, self.can_be(clause).true)
        return Stretch(int(rows[np.argmax(true)]), int(held[-1])) if true.any() else None

    def may_hold(self, clause: Clause) -> Array:
        """The rows at which a `when` can have held for its span, in one of its phases. Raises CannotSay.

        Of what has to be so together the parts are looked at one by one, the cheapest first, as long as anything is left:
        in a healthy run most rules are done with after a part or two. Where one cannot be worked out, the others may do.
        """
        rows = self.evaluations(clause)
        none, parts, trouble = rows[:0], self._parts(clause.condition), None
        true, false, held, is_certain = np.True_, np.False_, none, True
        if clause.gate is not None:
            true = self.inside(clause.gate.phases).at(rows, self.columns.count).true
        for part in parts:
            try:
                self.settle(self.columns.references(part))
                possible = self.columns.may_be(part).at(rows, self.columns.count)
            except CannotSay as why:
                trouble = why
                continue
            true = true & possible.true
            if not np.any(true):
                return none
            false = false | ~(possible.true | possible.unknown)
            held = rows[self._held(clause, rows, true, false)]
            if not len(held):
                return none
            is_certain = is_certain and possible.is_certain
        if trouble is not None:
            raise trouble
        if is_certain:
            return held
        return self._closely(clause, rows, np.array(np.broadcast_to(true, rows.shape)), false)

    def _closely(self, clause: Clause, rows: Array, true: Array, false: Array) -> Array:
        """The same once each part is looked at as closely as it takes where the whole may still be true."""
        false = np.array(np.broadcast_to(false, rows.shape))
        held = self._held(clause, rows, true, false)
        for part in self._parts(clause.condition):
            left = np.nonzero(true)[0]
            try:
                if len(left) > self.columns.count * FEW:
                    left, possible = np.arange(len(rows)), self.columns.condition(part).at(rows, self.columns.count)
                else:
                    possible = self.columns.decided(part, rows[left])
            except CannotSay:
                continue  # the bounds are all that there is
            true[left] &= possible.true
            false[left] |= ~(possible.true | possible.unknown)
            held = self._held(clause, rows, true, false)
            if not held.any():
                break
        return rows[held]

    def _held(self, clause: Clause, rows: Array, true: Array, false: Array) -> Array:
        true, false = np.broadcast_to(true, rows.shape), np.broadcast_to(false, rows.shape)
        return may_hold(clause.holding.span, true, false, self.columns.rows, rows)

    def inside(self, phases: Sequence[nd.Node]) -> Possible:
        """Where one of some phases is true. Raises CannotSay."""
        for phase in phases:
            self.settle(self.columns.references(phase))
        return any_of(self.columns.condition(phase) for phase in phases)

    def _parts(self, condition: nd.Node) -> list[nd.Node]:
        """What has to be so together, what costs least first."""
        if not isinstance(condition, op.And):
            return [condition]
        return sorted(condition.inputs, key=self.columns.cost)

    def _at(self, rows: Array, truths: Array) -> Array:
        found: Array = np.broadcast_to(truths, (self.columns.count,))[rows]
        return found

    # ---------------------------------------------------------------- references

    def settle(self, references: frozenset[int]) -> None:
        """Find what each of these lets in. Raises CannotSay where they do not come to agree with their conditions."""
        open_ = references - self.columns.settled
        if not open_:
            return
        if open_ & self._at_odds:
            raise CannotSay("a reference and its rule do not come to agree")
        let_in = self.columns.let_in
        votes: dict[int, Array] = {}
        for round_ in range(MOST_ROUNDS):
            self.columns.begin_round()
            before = {one: let_in.get(one, self._all_rows) for one in open_}
            now = {one: self._votes(one) for one in open_}
            first = min(_first_difference(before[one], now[one]) for one in open_)
            if first == self.columns.count:
                let_in.update(now)
                self.columns.settle(open_)
                return
            votes = now if round_ < TOGETHER else votes
            let_in.update(now)
            if round_ >= TOGETHER:
                let_in.update((one, self._guess(one, first, before[one], now[one], votes[one])) for one in open_)
        for one in open_:
            let_in.pop(one, None)
        self._at_odds |= open_
        raise CannotSay("a reference and its rule do not come to agree")

    def _guess(self, reference: int, row: int, before: Array, now: Array, votes: Array) -> Array:
        """What a reference may let in, if up to a row all is as it was taken to be: what is found there is so.

        Where it freezes there, it is taken to stay so: as long as that is right it holds still, and what its conditions
        find is right to where they let go. From there on it is anybody's guess.
        """
        if before[row] == now[row]:
            return before
        guess = before.copy()
        guess[row] = now[row]
        if now[row]:
            guess[row + 1 :] = votes[row + 1 :]
        else:
            points = self.columns.reference_rows(self.columns.freezes(reference)[0].reference)
            guess[points[points > row]] = False
        return guess

    def _votes(self, reference: int) -> Array:
        """Which of the rows' points would be let in, by what the conditions say as things stand."""
        ok = np.ones(self.columns.count, bool)
        for freeze in self.columns.freezes(reference):
            ok &= self._admitted(freeze)[0]
        return ok

    def left_frozen(self, freeze: sg.Freeze) -> tuple[bool, int, int | None]:
        """Whether a condition freezes its reference at the end, at how many evaluations it has, and since which row. Raises
        CannotSay."""
        reader = self.columns.readers.get(freeze.reference)
        if reader is not None:  # what is unknown freezes only what is known, and that hangs on what was let in
            self.settle(self.columns.references(reader))
        evaluated = self._freezing(freeze)
        _, count, start = self._admitted(freeze)
        return bool(len(evaluated) and evaluated[-1]), count, start if start >= 0 else None

    def _freezing(self, freeze: sg.Freeze) -> Array:
        """Whether a condition freezes its reference, at its evaluations."""
        said = self.columns.condition(freeze.condition)
        if not said.is_certain:
            raise CannotSay("a condition that freezes a reference is too close to call")
        known, rows = self.columns.reference_known(freeze.reference), self.columns.evaluations(freeze)
        return self._at(rows, said.true) | self._at(rows, said.unknown) & known[rows]

    def _admitted(self, freeze: sg.Freeze) -> tuple[Array, int, int]:
        """Which of the rows' points a condition lets in; at how many evaluations it has frozen the reference at the end, since
        which row (-1: it has not)."""
        rows, evaluated = self.columns.evaluations(freeze), self._freezing(freeze)
        admitted = np.ones(self.columns.count, bool)
        if not evaluated.any():
            return admitted, 0, -1
        latest = dense(rows, evaluated.astype(float), self.columns.count, before=0.0) > 0
        at_evaluation = np.zeros(self.columns.count, bool)
        at_evaluation[rows] = True
        point_rows = self.columns.reference_rows(freeze.reference)
        has_point = np.zeros(self.columns.count, bool)
        has_point[point_rows] = True
        if any(limit.unit not in (STEPS, SAMPLES, TIME) for limit in freeze.limits):
            raise CannotSay("a reference is frozen for a length that only the run's counters know")
        start, count = -1, 0
        looked_at = latest & (at_evaluation | has_point)
        looked_at[_let_go(latest, has_point)] = True
        for row in np.nonzero(looked_at)[0].tolist():
            if latest[row] and at_evaluation[row]:
                count += 1
                start = row if start < 0 else start
            if not has_point[row]:
                continue
            if latest[row]:
                start = row if start < 0 else start
                if not all(self._exceeded(limit, start, row, count) for limit in freeze.limits):
                    admitted[row] = False
                    continue
            start, count = -1, 0
        return admitted, count, start

    def _exceeded(self, limit: Extent, start: int, row: int, count: int) -> bool:
        if limit.unit == SAMPLES:
            return count > limit.size
        if limit.unit == STEPS:
            return bool(self.columns.rows.steps[row] - self.columns.rows.steps[start] + 1 > limit.size)
        return bool(self.columns.rows.times[row] - self.columns.rows.times[start] > limit.size)


def _first_difference(before: Array, now: Array) -> int:
    """The first row at which a round does not end as it began; one beyond the last where there is none."""
    differs = before != now
    return int(np.argmax(differs)) if differs.any() else len(differs)


def _let_go(freezing: Array, has_point: Array) -> Array:
    """The rows of the first points that come unfrozen after something froze: there a count ends."""
    free = np.nonzero(has_point & ~freezing)[0]
    frozen = np.cumsum(freezing)[free]
    found: Array = free[np.diff(frozen, prepend=0) > 0]
    return found
