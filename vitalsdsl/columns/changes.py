"""Changes: the transitions of one rule over a recorded run, from columns alone.

Whatever its conditions are at each row says where its clauses fire and clear; what is said of a change is worked out at the
row at which it happens. The transitions are the stream's, to the last digit of their evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vitalsdsl.columns.run_columns import CannotSay
from vitalsdsl.columns.screen import Screen
from vitalsdsl.ground.types import SAMPLES, STEPS, TIME, Extent, Reason
from vitalsdsl.kernels.accepted import Accepted
from vitalsdsl.kernels.columns import Array
from vitalsdsl.language.rules import Level
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes import operations as op
from vitalsdsl.nodes import signals as sg
from vitalsdsl.planning.plan import Plan
from vitalsdsl.verdicts.episodes import Clearing, Rungs, Said, Turn, episodes
from vitalsdsl.verdicts.verdict import Change, Clause, ClearWhen, RuleState, Transition
from vitalsdsl.verdicts.wording import Reading, Run, in_words

_SHORT = 4
"""A rule is worked out by itself for the rows that it needs where these are so small a part of all."""


@dataclass(frozen=True)
class Stand:
    """Where a rule stands at the end of a run. `begin` is the first row of the phase that it is in, None where it is in none;
    `turns` are those that its clauses have taken."""

    level: Level
    onset: int | None
    begin: int | None
    turns: Mapping[Clause, list[Turn]]


_Step = tuple[int, Change, int]
"""The row of a change, the change, and the rung that was taken (-1: none)."""


class Changes:
    """The rules of one plan over one run, one after the other."""

    def __init__(self, screen: Screen, plan: Plan, run: str, digest: str, wordless: bool = False) -> None:
        self._wordless = wordless
        self._digest = digest
        self._earlier: dict[int, Changes] = {}
        self._screen = screen
        self._columns = screen.columns
        self._plan = plan
        self._known: dict[RuleState, dict[Clause, list[Turn]]] = {}
        self._run = Run(run, 0, digest, plan)
        self.clear_when = {
            clause: root for root in plan.graph.roots if isinstance(root, ClearWhen) for clause in root.clauses
        }

    def of(self, rule: RuleState) -> list[Transition]:
        """The transitions of a rule. Raises CannotSay."""
        rows = self._rows_needed(rule)
        if rows * _SHORT > self._columns.count:
            return self._of(rule)
        if rows not in self._earlier:
            screen = self._screen.before(rows)
            self._earlier[rows] = Changes(screen, self._plan, self._run.name, self._digest, self._wordless)
        return self._earlier[rows]._of(rule)

    def _rows_needed(self, rule: RuleState) -> int:
        """So many of the first rows say all of a rule: what comes after its last phase is over, and it is green, changes
        nothing. Of rules for the start of a run that is little; rounded up, so that several need the same."""
        stretches = self._stretches(rule)
        last = stretches[-1][1] if stretches else 0
        return 1 << (last + 1).bit_length()

    def _of(self, rule: RuleState) -> list[Transition]:
        steps = self._of_guard(rule) if rule.guard is not None else list(self._settled(rule, self._turns_of(rule)))
        if not steps:
            return []
        rows = np.array(sorted({row for row, _, _ in steps}), dtype=np.int64)
        at, reading = self._columns.rows, None if self._wordless else _ReadingColumns(self._screen, rule, rows)
        found = []
        for row, change, rung in steps:
            if reading is not None:
                reading.row = row
            found.append(in_words(self._run, rule, change, rung, int(at.steps[row]), float(at.times[row]), reading))
        return found

    def stand(self, rule: RuleState) -> Stand:
        """Where a rule stands at the end. Raises CannotSay."""
        if rule.guard is not None:
            steps, begin, turns = self._of_guard(rule), None, {}
        else:
            turns = self._turns_of(rule)
            steps = list(self._settled(rule, turns))
            stretches = self._stretches(rule)
            begin = stretches[-1][0] if stretches and stretches[-1][1] == self._columns.count else None
        newest = steps[-1][1] if steps else None
        if newest is None:
            return Stand(Level.GREEN, None, begin, turns)
        return Stand(newest.to, newest.onset, begin, turns)

    # ---------------------------------------------------------------- levels

    def _of_guard(self, rule: RuleState) -> list[_Step]:
        guard = rule.guard
        assert guard is not None
        points = self._columns.points.get(guard.metric.name)
        if points is None or np.isfinite(points.values).all():
            return []
        rows = self._columns.evaluations(guard)
        values = np.broadcast_to(self._columns.number(guard.metric).values, (self._columns.count,))[rows]
        amiss = np.isnan(values) & guard.watches_nan | np.isinf(values) & guard.watches_inf
        steps, before, level = self._columns.rows.steps, np.concatenate([[False], amiss[:-1]]), rule.guard_level
        found = []
        for row, is_amiss in zip(rows[amiss != before].tolist(), amiss[amiss != before].tolist()):
            if is_amiss:
                change = Change(Level.GREEN, level, int(steps[row]), "nonfinite", None)
            else:
                change = Change(level, Level.GREEN, None, "nonfinite", None)
            found.append((row, change, -1))
        return found

    def _turns_of(self, rule: RuleState) -> dict[Clause, list[Turn]]:
        """The turns of those of its clauses whose condition is ever true."""
        if rule not in self._known:
            self._known[rule] = self._turned(rule)
        return self._known[rule]

    def _turned(self, rule: RuleState) -> dict[Clause, list[Turn]]:
        said = {clause: found for clause in rule.clauses if (found := self._said(clause)) is not None}
        stretches = self._stretches(rule) if said else []
        return {clause: list(self._turns(clause, found, stretches)) for clause, found in said.items()}

    def _settled(self, rule: RuleState, found: Mapping[Clause, Sequence[Turn]]) -> Iterator[_Step]:
        """As `RuleState.settle` finds the rule's level from those of its clauses."""
        if not found:
            return
        stretches = self._stretches(rule)
        turns: dict[int, list[tuple[int, Turn]]] = {}
        for place, clause in enumerate(rule.clauses):
            for turn in found.get(clause, ()):
                turns.setdefault(turn.row, []).append((place, turn))
        ends = {end for _, end in stretches}
        now = [Turn(-1, Level.GREEN) for _ in rule.clauses]
        level = Level.GREEN
        for row in sorted(turns):
            for place, turn in turns[row]:
                now[place] = turn
            to = max(turn.level for turn in now)
            if to == level:
                continue
            onset, deciding, rung = None, None, -1
            if to:
                place = next(i for i, turn in enumerate(now) if turn.level == to)
                deciding, rung = rule.clauses[place], now[place].rung
                onset = int(self._columns.rows.steps[min(turn.onset for turn in now if turn.level == to)])
            reason = Reason.OUT_OF_PHASE.value if row in ends else "condition"
            yield row, Change(level, to, onset, reason, deciding), rung
            level = to

    def _stretches(self, rule: RuleState) -> Sequence[tuple[int, int]]:
        """The rows within the phases of a rule: from where to where."""
        count = self._columns.count
        if rule.gate is None:
            return [(0, count)]
        said = self._screen.inside(rule.gate.phases)
        if not said.is_certain:
            raise CannotSay("a condition is too close to call")
        inside = np.concatenate([[False], np.broadcast_to(said.true, (count,)), [False]])
        edges = np.nonzero(inside[1:] != inside[:-1])[0].tolist()
        return list(zip(edges[::2], edges[1::2]))

    def _turns(self, clause: Clause, said: Said, stretches: Sequence[tuple[int, int]]) -> Iterator[Turn]:
        at, count = self._columns.rows, self._columns.count
        when = self.clear_when.get(clause)
        until = None if when is None else self._said(when, asks_all=True)
        clearing = None if until is None else Clearing(until, clause.clear_holding.span)
        _measured_by_rows([*clause.holding.span.extents, *clause.clear_holding.span.extents])
        _measured_by_rows([extent for extent in clause.after if extent is not None])
        rungs = Rungs(clause.levels, clause.after)
        for begin, end in stretches:
            own = said.within(begin, end)
            if not own.true.any():
                continue
            holds = own.reached(clause.holding.span, at, clause.unknown_resets)
            if clearing is not None:
                clears = clearing.within(begin, end).reached(own, at)
            else:
                clears = own.reached(clause.clear_holding.span, at, opposite=True)
            yield from episodes(own, rungs, holds, clears, clearing is not None, at, begin, end)
            if end < count:
                yield Turn(end, Level.GREEN)

    def _said(self, root: Clause | ClearWhen, asks_all: bool = False) -> Said | None:
        """What a condition is at its evaluations; None where it never holds, unless that is asked for as well."""
        if isinstance(root, Clause) and not asks_all and not len(self._screen.may_hold(root)):
            return None
        self._screen.settle(self._columns.references(root))
        possible = self._columns.condition(root.condition)
        if not possible.is_certain:
            raise CannotSay("a condition is too close to call")
        rows, count = self._columns.evaluations(root), self._columns.count
        true, unknown = (np.broadcast_to(part, (count,)) for part in (possible.true, possible.unknown))
        return Said(rows, true, ~unknown) if len(rows) == count else Said(rows, true[rows], ~unknown[rows])


def _measured_by_rows(extents: Sequence[Extent]) -> None:
    if any(extent.unit not in (STEPS, SAMPLES, TIME) for extent in extents):
        raise CannotSay("a span by the run's counters")


class _ReadingColumns(Reading):
    """What nodes are at one of the rows at which a rule changes.

    A reference is told as it was when it decided; of one that nothing has asked for at that step, which has learnt since,
    the stream has to say what it is by then.
    """

    def __init__(self, screen: Screen, rule: RuleState, rows: Array) -> None:
        self.row = 0
        self._screen = screen
        self._columns = screen.columns
        self._rule = rule
        self._rows = rows
        self._found: dict[nd.Node, dict[int, Any]] = {}
        self._asked: dict[int, set[nd.Node]] = {}

    def value(self, node: nd.Node) -> Any:
        if isinstance(node, nd.Constant):
            return node.value
        if _is_reference(node) and node not in self._asked_for():
            raise CannotSay("a reference that has learnt since")
        found = self._found.get(node)
        if found is None:
            found = self._found[node] = dict(zip(self._rows.tolist(), self._at_rows(node)))
        return found[self.row]

    def _asked_for(self) -> set[nd.Node]:
        """The references that the rule's conditions have read at this row."""
        found = self._asked.get(self.row)
        if found is None:
            found = self._asked[self.row] = set()
            for clause in self._rule.clauses:
                if self._is_evaluated(clause):
                    found.update(filter(_is_reference, self._read_below(clause.condition)))
        return found

    def _read_below(self, node: nd.Node) -> Iterator[nd.Node]:
        """A node and all below it that this row has called for."""
        if isinstance(node, sg.Root) and not self._is_evaluated(node):
            return
        yield node
        for inner in node.inputs:
            yield from self._read_below(inner)

    def _is_evaluated(self, root: sg.Root) -> bool:
        rows = self._columns.evaluations(root)
        place = int(np.searchsorted(rows, self.row))
        return place < len(rows) and int(rows[place]) == self.row

    def _at_rows(self, node: nd.Node) -> list[Any]:
        self._screen.settle(self._columns.references(node))
        if not node.is_condition:
            values: list[Any] = self._columns.at_rows(node).number(node, self._rows).tolist()
            return values
        said = self._columns.condition(node)
        if not said.is_certain:
            raise CannotSay("a condition is too close to call")
        numbers = said.numbers(self._columns.count)[self._rows].tolist()
        return [None if number != number else bool(number) for number in numbers]

    def inputs(self, node: nd.Node) -> Sequence[nd.Node]:
        if not isinstance(node, (op.AggregateNode, op.Share)):
            return node.inputs
        return [inner for inner, since in self._columns.joined_at(node) if since <= self.row]

    def field(self, node: nd.Node) -> Any:
        for inner in _worked_out_anew(node):
            if _is_reference(inner) and inner not in self._asked_for():
                raise CannotSay("a reference that has learnt since")
        return self.value(node)

    def unknown(self, node: nd.Node) -> str:
        raise CannotSay("why a number in a message is unknown")


def _is_reference(node: nd.Node) -> bool:
    return isinstance(node, nd.Function) and isinstance(node.state, Accepted)


def _worked_out_anew(node: nd.Node) -> Iterator[nd.Node]:
    """A node and all below it that does not keep what it was."""
    if not isinstance(node, sg.Root):
        yield node
        for inner in node.inputs:
            yield from _worked_out_anew(inner)
