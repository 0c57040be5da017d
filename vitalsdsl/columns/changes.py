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
from vitalsdsl.verdicts.episodes import Clearing, Rungs, Said, Turns, episodes
from vitalsdsl.verdicts.verdict import Change, Clause, ClearWhen, RuleState, Transition
from vitalsdsl.verdicts.wording import Reading, Run, in_words, without_words

_SHORT = 4
"""A rule is worked out by itself for the rows that it needs where these are so small a part of all."""


@dataclass(frozen=True)
class Stand:
    """Where a rule stands at the end of a run. `begin` is the first row of the phase that it is in, None where it is in none;
    `turns` are those that its clauses have taken."""

    level: Level
    onset: int | None
    begin: int | None
    turns: Mapping[Clause, Turns]


@dataclass(frozen=True)
class _Steps:
    """The changes of a rule: at each of these rows it goes from a level to another. `onsets` are steps, of no meaning on
    green; `ends` says whether it is because a phase is over, `places` which clause decides and `rungs` which rung it has
    taken (-1: none)."""

    rows: Array
    before: Array
    to: Array
    onsets: Array
    ends: Array
    places: Array
    rungs: Array

    def __len__(self) -> int:
        return len(self.rows)


_NO_STEPS = _Steps(*[np.arange(0)] * 7)
_LEVELS = tuple(Level)


class Changes:
    """The rules of one plan over one run, one after the other."""

    def __init__(self, screen: Screen, plan: Plan, run: str, digest: str, wordless: bool = False) -> None:
        self._wordless = wordless
        self._digest = digest
        self._earlier: dict[int, Changes] = {}
        self._screen = screen
        self._columns = screen.columns
        self._plan = plan
        self._known: dict[RuleState, dict[Clause, Turns]] = {}
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
        steps = self._steps_of(rule)
        if not len(steps):
            return []
        at = self._columns.rows
        reasons = ["nonfinite", "nonfinite"] if rule.guard is not None else ["condition", Reason.OUT_OF_PHASE.value]
        told = zip(
            at.steps[steps.rows].tolist(),
            at.times[steps.rows].tolist(),
            map(_LEVELS.__getitem__, steps.before.tolist()),
            map(_LEVELS.__getitem__, steps.to.tolist()),
            steps.onsets.tolist(),
            map(reasons.__getitem__, steps.ends.tolist()),
            steps.places.tolist(),
            steps.rungs.tolist(),
        )
        if self._wordless:
            return without_words(self._run, rule, told)
        reading, found = _ReadingColumns(self._screen, rule, np.unique(steps.rows)), []
        for row, (step, time, before, to, onset, reason, place, rung) in zip(steps.rows.tolist(), told):
            reading.row = row
            change = Change(before, to, onset if to else None, reason, rule.clauses[place] if place >= 0 else None)
            found.append(in_words(self._run, rule, change, rung, step, time, reading))
        return found

    def _steps_of(self, rule: RuleState) -> _Steps:
        return self._of_guard(rule) if rule.guard is not None else self._settled(rule, self._turns_of(rule))

    def stand(self, rule: RuleState) -> Stand:
        """Where a rule stands at the end. Raises CannotSay."""
        steps, begin, turns = self._steps_of(rule), None, {}
        if rule.guard is None:
            turns = self._turns_of(rule)
            stretches = self._stretches(rule)
            begin = stretches[-1][0] if stretches and stretches[-1][1] == self._columns.count else None
        level = Level(int(steps.to[-1])) if len(steps) else Level.GREEN
        return Stand(level, int(steps.onsets[-1]) if level else None, begin, turns)

    # ---------------------------------------------------------------- levels

    def _of_guard(self, rule: RuleState) -> _Steps:
        guard = rule.guard
        assert guard is not None
        points = self._columns.points.get(guard.metric.name)
        if points is None or np.isfinite(points.values).all():
            return _NO_STEPS
        rows = self._columns.evaluations(guard)
        values = np.broadcast_to(self._columns.number(guard.metric).values, (self._columns.count,))[rows]
        amiss = np.isnan(values) & guard.watches_nan | np.isinf(values) & guard.watches_inf
        differs = np.diff(amiss, prepend=False)
        rows, amiss, none = rows[differs], amiss[differs], np.full(int(differs.sum()), -1)
        level = int(rule.guard_level)
        return _Steps(rows, ~amiss * level, amiss * level, self._columns.rows.steps[rows], none * 0, none, none)

    def _turns_of(self, rule: RuleState) -> dict[Clause, Turns]:
        """The turns of those of its clauses whose condition is ever true."""
        if rule not in self._known:
            self._known[rule] = self._turned(rule)
        return self._known[rule]

    def _turned(self, rule: RuleState) -> dict[Clause, Turns]:
        said = {clause: found for clause in rule.clauses if (found := self._said(clause)) is not None}
        stretches = self._stretches(rule) if said else []
        return {clause: Turns.joined(list(self._turns(clause, found, stretches))) for clause, found in said.items()}

    def _settled(self, rule: RuleState, found: Mapping[Clause, Turns]) -> _Steps:
        """As `RuleState.settle` finds the rule's level from those of its clauses."""
        own = {place: found[clause] for place, clause in enumerate(rule.clauses) if clause in found}
        if not any(map(len, own.values())):
            return _NO_STEPS
        at = self._columns.rows.steps
        turns = list(own.values())
        rows = turns[0].rows if len(turns) == 1 else np.unique(np.concatenate([one.rows for one in turns]))
        newest = [np.searchsorted(one.rows, rows, side="right") - 1 for one in turns]
        levels, rungs, onsets = (
            np.array([np.where(which >= 0, getattr(one, name)[which], none) if len(one) else np.full(len(rows), none)
                      for one, which in zip(turns, newest)])
            for name, none in (("levels", 0), ("rungs", -1), ("onsets", -1))
        )  # fmt: skip
        to = levels.max(axis=0)
        before = np.concatenate([[0], to[:-1]])
        differs = np.nonzero(to != before)[0]
        rows, levels, to, before = rows[differs], levels[:, differs], to[differs], before[differs]
        deciding, is_on = levels.argmax(axis=0), to > 0
        since = np.where(levels == to, onsets[:, differs], self._columns.count).min(axis=0)
        return _Steps(
            rows,
            before,
            to,
            np.where(is_on, at[np.where(is_on, since, 0)], -1),
            np.isin(rows, [end for _, end in self._stretches(rule)]),
            np.where(is_on, np.array(list(own))[deciding], -1),
            np.where(is_on, rungs[deciding, differs], -1),
        )

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

    def _turns(self, clause: Clause, said: Said, stretches: Sequence[tuple[int, int]]) -> Iterator[Turns]:
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
            yield episodes(own, rungs, holds, clears, clearing is not None, at, begin, end)
            if end < count:
                yield Turns.of([(end, int(Level.GREEN), -1, -1)])

    def _said(self, root: Clause | ClearWhen, asks_all: bool = False) -> Said | None:
        """What a condition is at its evaluations; None where it never holds, unless that is asked for as well."""
        self._screen.settle(self._columns.references(root))
        is_soon_known = self._columns.is_soon_known(root.condition)
        if isinstance(root, Clause) and not asks_all and not is_soon_known and not len(self._screen.may_hold(root)):
            return None
        self._screen.settle(self._columns.references(root))
        possible = self._columns.condition(root.condition)
        if not possible.is_certain:
            raise CannotSay("a condition is too close to call")
        if is_soon_known and not asks_all and not np.any(possible.true):
            return None
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
