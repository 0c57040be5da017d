"""Standing: what the roots of a plan remember at the end of a recorded run, from columns.

A root goes through its evaluations one by one; what it remembers at last rests on the newest of them, from where it began
anew: where its condition was last false, where it last cleared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vitalsdsl.columns.changes import Changes, Stand
from vitalsdsl.columns.run_columns import CannotSay
from vitalsdsl.columns.screen import Screen
from vitalsdsl.kernels.columns import Array
from vitalsdsl.language.rules import Level
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes import signals as sg
from vitalsdsl.nodes.holding import Holding, Moment
from vitalsdsl.planning.plan import Plan
from vitalsdsl.verdicts.episodes import Turns
from vitalsdsl.verdicts.verdict import Clause, ClearWhen, Gate, Guard


class Standing:
    """The roots of one plan after one run; each is put into its twin, in a plan made in the same way."""

    def __init__(self, screen: Screen, changes: Changes) -> None:
        self._screen = screen
        self._columns = screen.columns
        self._changes = changes

    def put(self, plan: Plan, into: Plan) -> None:
        """All roots and rules. Raises CannotSay."""
        twins = dict(zip(plan.graph.roots, into.graph.roots, strict=True))
        for rule, own in zip(plan.rules, into.rules, strict=True):
            self._columns.spare()
            stand = self._changes.stand(rule)
            own.level, own.onset = stand.level, stand.onset
            if rule.guard is not None and own.guard is not None:
                self._put_guard(rule.guard, own.guard)
            for clause in rule.clauses:
                twin = twins[clause]
                assert isinstance(twin, Clause)
                self._put_clause(clause, twin, stand)
        for root, twin in twins.items():
            if isinstance(root, Clause):
                continue
            self._columns.spare()
            self._screen.settle(self._columns.references(root))
            put = _PUT.get(type(root))
            if put is None:
                raise CannotSay(f"{type(root).__name__} has no vectorised form")
            put(self, root, twin)

    # ---------------------------------------------------------------- conditions

    def moment(self, row: int) -> tuple[int, float]:
        """The step of a row and its time."""
        return int(self._columns.rows.steps[row]), float(self._columns.rows.times[row])

    def _said(self, root: nd.Node, rows: Array) -> Array:
        """1, 0 and NaN."""
        said = self._columns.condition(root)
        if not said.is_certain:
            raise CannotSay("a condition is too close to call")
        found: Array = said.numbers(self._columns.count)[rows]
        return found

    def _newest(self, condition: nd.Node, root: sg.Root) -> bool | None:
        rows = self._columns.evaluations(root)[-1:]
        return as_truth(self._said(condition, rows)[0]) if len(rows) else None

    def _hold(self, holding: Holding, rows: Array, said: Array) -> None:
        """What following a condition comes to that is 1, 0 or NaN at some rows."""
        known = said == said
        rows, true = rows[known], said[known] == 1.0
        false = np.nonzero(~true)[0]
        since = int(false[-1]) + 1 if len(false) else 0
        holding.onset = self._moment_of(int(rows[since]), holding) if since < len(true) else None
        if holding.span.counts:
            holding.count = len(true) - since
        if holding.span.n:
            holding.recent = true[-holding.span.n :].tolist()
            holding.trues = sum(holding.recent)

    def _moment_of(self, row: int, holding: Holding) -> Moment:
        step, time = self.moment(row)
        found = Moment(step, time, holding.clock)
        found.counters = (self._columns.counter("epoch", row), self._columns.counter("tokens", row))
        return found

    # ---------------------------------------------------------------- rules

    def _put_clause(self, clause: Clause, own: Clause, stand: Stand) -> None:
        begin = stand.begin
        if begin is None:
            return  # outside its phases: it has left all behind
        turns = stand.turns.get(clause, Turns.of([]))
        rows = self._columns.evaluations(clause)
        rows = rows[np.searchsorted(rows, begin) :]
        self._screen.settle(self._columns.references(clause))
        said = self._said(clause.condition, rows)
        own.latest = as_truth(said[-1]) if len(said) else None
        cleared, episode = _newest_episode(turns)
        place = int(np.searchsorted(rows, cleared, side="right"))
        rows, said = rows[place:], said[place:]
        fired = int(episode.rows[0]) if len(episode) else self._columns.count
        later = rows > fired
        pending = np.where(np.isnan(said) & ~later, 0.0, said) if clause.unknown_resets else said
        self._hold(own.holding, rows, pending)
        if len(episode):
            own.fired = self._moment_of(fired, own.holding)
            if own.counts:
                own.trues = int((said[later] == 1.0).sum())
            own.level, own.rung = Level(int(episode.levels[-1])), int(episode.rungs[-1])
            own.onset, _ = self.moment(int(episode.onsets[-1]))
        if clause.waits_for_clear:
            if len(episode):
                self._hold(own.clear_holding, *self._clearing(clause, fired))
        elif clause.clear_holding.span.n:
            self._hold(own.clear_holding, rows, 1.0 - said)
        elif len(episode):
            self._hold(own.clear_holding, rows[later], 1.0 - said[later])

    def _clearing(self, clause: Clause, fired: int) -> tuple[Array, Array]:
        """What `clear when` has been since a row."""
        when = self._changes.clear_when[clause]
        self._screen.settle(self._columns.references(when))
        rows = self._columns.evaluations(when)
        rows = rows[np.searchsorted(rows, fired, side="right") :]
        return rows, self._said(when.condition, rows)

    def _put_clear_when(self, root: ClearWhen, own: ClearWhen) -> None:
        own.value = self._newest(root.condition, root)

    def _put_gate(self, root: Gate, own: Gate) -> None:
        last = np.arange(self._columns.count)[-1:]
        own.value = any(as_truth(x) is True for phase in root.phases for x in self._said(phase, last))

    def _put_guard(self, root: Guard, own: Guard) -> None:
        rows = self._columns.evaluations(root)
        values = np.broadcast_to(self._columns.number(root.metric).values, (self._columns.count,))[rows]
        amiss = np.isnan(values) & root.watches_nan | np.isinf(values) & root.watches_inf
        if len(amiss) and amiss[-1]:
            well = np.nonzero(~amiss)[0]
            own.value = True
            own.onset, _ = self.moment(int(rows[int(well[-1]) + 1 if len(well) else 0]))

    # ---------------------------------------------------------------- signals

    def _put_feed(self, root: sg.Feed, own: sg.Feed) -> None:
        points = self._columns.stream(root, unknown_too=True)
        if len(points):
            newest = float(points.values[-1])
            if np.any(points.slack) and newest == newest:
                newest = float(self._columns.at_rows(root.source).number(root.source, points.rows[-1:])[0])
            own.value = as_read(root.source, newest)
        known = np.nonzero(points.values == points.values)[0]
        if len(known):
            own.step, own.time = self.moment(int(points.rows[known[-1]]))

    def _put_freeze(self, root: sg.Freeze, own: sg.Freeze) -> None:
        own.freezing, count, start = self._screen.left_frozen(root)
        own.count = count if own.counts else 0
        if start is not None:
            counters = [self._columns.counter(name, start) for name in ("epoch", "tokens")]
            own.start = [*self.moment(start), *counters]

    def _put_probe(self, root: sg.Probe, own: sg.Probe) -> None:
        rows = self._columns.evaluations(root)
        if len(rows):
            own.value = self._newest(root.source, root)
            own.step, _ = self.moment(int(rows[-1]))

    def _put_held(self, root: sg.Held, own: sg.Held) -> None:
        told = self._columns.told(root)
        if len(told.rows):
            own.value = as_truth(told.held[-1])
        self._hold(own.holding, told.rows, self._said(root.source, told.rows))

    def _put_event(self, root: sg.Event, own: sg.Event) -> None:
        self._put_held(root, own)
        told = self._columns.told(root)
        own.since_edge = len(told.rows)
        if len(told.rows):
            own.evaluated_step, _ = self.moment(int(told.rows[-1]))
        if len(told.edges):
            own.edge_step, own.edge_time = self.moment(int(told.edges[-1]))
            own.since_edge = int((told.rows > told.edges[-1]).sum())

    def _put_then(self, root: sg.Then, own: sg.Then) -> None:
        own.value = self._newest(root, root)

    def _put_then_no(self, root: sg.ThenNo, own: sg.ThenNo) -> None:
        own.value = self._newest(root, root)
        if own.value is None:
            return  # it has not been evaluated
        since = self._columns.since(root)
        answers = self._columns.evaluations(root.second)
        answers = answers[(answers >= since) & (self._said(root.second, answers) == 1.0)]
        edges = self._columns.told(root.first).edges
        edges = edges[edges >= max(since, int(answers[-1]) if len(answers) else 0)]
        if len(edges):
            own.opened, own.opened_time = self.moment(int(edges[0]))


def as_truth(value: float) -> bool | None:
    """True, False or unknown, from 1, 0 or NaN."""
    return None if value != value else bool(value)


def as_read(node: nd.Node, value: float) -> Any:
    """What a column says of a node, as the node has it."""
    return as_truth(value) if node.is_condition else value


def _newest_episode(turns: Turns) -> tuple[int, Turns]:
    """The row at which a clause last cleared (-1: never), and the turns since."""
    cleared = np.nonzero(turns.levels == int(Level.GREEN))[0]
    if not len(cleared):
        return -1, turns
    return int(turns.rows[cleared[-1]]), turns.since(int(cleared[-1]) + 1)


_PUT: dict[type[sg.Root], Callable[[Standing, Any, Any], None]] = {
    sg.Feed: Standing._put_feed,
    sg.Let: Standing._put_feed,
    sg.EdgeFeed: Standing._put_feed,
    sg.Freeze: Standing._put_freeze,
    sg.Probe: Standing._put_probe,
    sg.Held: Standing._put_held,
    sg.Event: Standing._put_event,
    sg.Phase: Standing._put_event,
    sg.Then: Standing._put_then,
    sg.ThenNo: Standing._put_then_no,
    ClearWhen: Standing._put_clear_when,
    Gate: Standing._put_gate,
}
