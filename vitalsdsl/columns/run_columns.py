"""A plan over one recorded run: its rows and points, when its parts are evaluated, and what its references let in."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from vitalsdsl.columns.joined import Joined
from vitalsdsl.ground.types import Extent
from vitalsdsl.kernels.accepted import Accepted
from vitalsdsl.kernels.columns import Array, Column, dense
from vitalsdsl.kernels.spread_out import Points
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes import operations as op
from vitalsdsl.nodes import signals as sg
from vitalsdsl.nodes.possible import Possible
from vitalsdsl.nodes.table import Table
from vitalsdsl.planning.intake import Intake
from vitalsdsl.planning.plan import Plan

_MOST_KEPT = 16

MOST_NUMBERS = 20_000_000
"""So many numbers that were worked out are kept for whoever asks again, eight bytes each: more than a run of ten thousand
steps ever has, and of a long run what a few rules share."""


class CannotSay(Exception):
    """Of what there is no vectorised form: whatever stands on it is left to the stream."""


class RunColumns:
    """The base of what works out a plan's nodes column by column. The plan itself is not touched: it may serve for many
    runs whose names come in the same stages; `begins` are the rows at which those begin.

    `let_in` are the points that each reference lets in, as far as that has been looked into; whatever rests on references
    that are not `settled` is forgotten with `begin_round`.
    """

    def __init__(self, joined: Joined, begins: Sequence[int], table: Table, total_steps: float = math.nan) -> None:
        self._table = table
        self.rows = table.rows
        self.count = len(table)
        self.let_in: dict[int, Array] = {}
        self.settled: set[int] = set()
        self._joined = joined
        self._begins = [*begins, self.count]
        plan = joined.plan
        self._total = total_steps
        self.points = self._bound(table)
        self._no_points = Points(np.arange(0), np.zeros(0))
        """Of what the run does not log. Its own: points keep the windows that were made of them, and these are a run's."""
        self._counters = _counted(plan, table)
        self._known: dict[Any, Any] = {}
        """What rests on no reference, or on references that are settled."""
        self._trial: dict[Any, Any] = {}
        """What rests on references as they stand in this round."""
        self._rests_on = joined.rests_on
        self._costs = joined.costs
        self._freezes = {id(reference.accepted): reference.freezes for reference in plan.graph.references}
        self.readers = {node.state: node for node in plan.graph.memo.values() if isinstance(node, nd.Function)}
        """Of each memory a function that reads it, if only for a message."""

    def spare(self) -> None:
        """Between two rules: forget what has been worked out so far where it has become too much to keep."""
        if len(self._known) * self.count > MOST_NUMBERS:
            self.forget()

    def forget(self) -> None:
        """All that can be worked out again."""
        self._known.clear()
        self._trial.clear()
        for points in self.points.values():
            points.forget_windows()

    def let_go(self) -> None:
        """Give back all that has been worked out, now: parts of it know each other, so that it would be there for long."""
        self.forget()
        self.points.clear()

    def number(self, node: nd.Node) -> Column:
        """A number at each closed step. Raises CannotSay."""
        raise NotImplementedError

    def condition(self, node: nd.Node) -> Possible:
        """What a condition can be at each closed step. Raises CannotSay."""
        raise NotImplementedError

    def function(self, node: nd.Function) -> Column:
        """What a function answers at each closed step; of a condition 1, 0 and NaN. Raises CannotSay."""
        raise NotImplementedError

    def comparisons(self) -> Iterable[op.Comparison]:
        """All that the plan compares."""
        return [node for node in self._joined.plan.graph.order if isinstance(node, op.Comparison)]

    def kept(self, key: Any, make: Callable[[], Any]) -> Any:
        """What is made once for all runs of the plan that are alike in what the key says."""
        known = self._joined.kept
        if key not in known:
            if len(known) == _MOST_KEPT:
                del known[next(iter(known))]
            known[key] = make()
        return known[key]

    def joined_at(self, node: nd.Node) -> list[tuple[nd.Node, int]]:
        """The members that a function over a family has, and the rows at which they joined."""
        return [(inner, self._begins[stage]) for inner, stage in zip(node.inputs, self._joined.members[node])]

    def edges(self, event: sg.Event) -> Array:
        """The rows at which an event has its edges. Raises CannotSay."""
        raise NotImplementedError

    def since(self, part: Any) -> int:
        """The row from which on there is a root, a memory or a metric of the plan."""
        return self._begins[self._joined.since(part)]

    def evaluations(self, root: sg.Root) -> Array:
        """The rows at which a root is evaluated."""
        begin, paces = self.since(root), self._joined.paces(root)
        if len(paces) == 1:
            rows = self._due(*paces[0][1:])
        else:
            ends = [*[self._begins[stage] for stage, *_ in paces[1:]], self.count]
            pieces = []
            for (stage, names, always), end in zip(paces, ends):
                due = self._due(names, always)
                pieces.append(due[slice(*np.searchsorted(due, (self._begins[stage], end)))])
            rows = np.concatenate(pieces)
        return rows[np.searchsorted(rows, begin) :] if begin else rows

    def _due(self, names: frozenset[str], always: bool) -> Array:
        if always or not names:
            return np.arange(self.count)
        rows = [self.points[name].rows for name in names if name in self.points]
        if len(rows) == 1:
            return rows[0]
        marks = np.zeros(self.count, bool)
        for one in rows:
            marks[one] = True
        return np.nonzero(marks)[0]

    def cost(self, node: nd.Node) -> int:
        """How much there is to work out for a node: nothing for one that has been, else by the functions below it."""
        if node in self._memo(node):
            return 0
        if node not in self._costs:
            seen: set[nd.Node] = set()
            waiting, cost = [node], 1
            while waiting:
                here = waiting.pop()
                if here not in seen:
                    seen.add(here)
                    waiting += here.inputs
                    if isinstance(here, nd.Function):
                        # Two streams are gone through point by point; a reference has its conditions as well.
                        cost += 100 if len(here.streams) > 1 else 10 if isinstance(here.state, Accepted) else 3
            self._costs[node] = cost
        return self._costs[node]

    def _memo(self, node: nd.Node) -> dict[Any, Any]:
        return self._known if self.references(node) <= self.settled else self._trial

    # ---------------------------------------------------------------- references

    def begin_round(self) -> None:
        """The references stand anew."""
        self._trial.clear()

    def settle(self, references: frozenset[int]) -> None:
        """These are as they will stay."""
        self.settled |= references
        self._known.update(self._trial)
        self._trial.clear()

    def freezes(self, reference: int) -> Sequence[sg.Freeze]:
        """The conditions that freeze a reference."""
        return self._freezes[reference]

    def references(self, node: nd.Node) -> frozenset[int]:
        """The references that a node rests on, through what freezes them as well."""
        found = self._rests_on.get(node)
        if found is None:
            seen: set[nd.Node] = set()
            wanted: set[int] = set()
            waiting = [node]
            while waiting:
                here = waiting.pop()
                if here in seen:
                    continue
                seen.add(here)
                waiting += [*here.inputs, *here.pacers]
                if isinstance(here, nd.Function) and isinstance(here.state, Accepted):
                    wanted.add(id(here.state))
                    waiting += [freeze.condition for freeze in self._freezes.get(id(here.state), ())]
            found = self._rests_on[node] = frozenset(wanted)
        return found

    def reference_rows(self, state: Accepted) -> Array:
        """The rows at which a finite point waits to be let in."""
        points = self.reference_points(state)
        return points.rows[np.isfinite(points.values)]

    def reference_points(self, state: Accepted) -> Points:
        reader = self.readers.get(state)
        if reader is None:
            raise CannotSay("nothing reads this reference")
        points = self.stream(reader.streams[0], unknown_too=False)
        if len(points) and points.rows[0] < self.since(state):
            raise CannotSay("a reference of a member that joined when its stream had points already")
        return points

    def reference_known(self, state: Accepted) -> Array:
        points = self.let_in_points(state)
        windows = points.accepted(self.rows, Extent(state.size, state.unit))
        return windows.is_known(5)

    def let_in_points(self, state: Accepted) -> Points:
        """The points of a reference, those that are not let in as NaN: they count for its first point all the same."""
        points = self.reference_points(state)
        let_in = self.let_in.get(id(state))
        if let_in is None or let_in[points.rows].all():
            return points
        key = ("let in", id(state))
        memo: dict[Any, Any] = self._known if id(state) in self.settled else self._trial
        if key not in memo:
            memo[key] = Points(points.rows, np.where(let_in[points.rows], points.values, np.nan), points.slack)
        known: Points = memo[key]
        return known

    def stream(self, node: nd.Node, unknown_too: bool) -> Points:
        """The points that a function over this stream sees."""
        if isinstance(node, nd.MetricNode):
            return self.points.get(node.name, self._no_points)
        key, memo = ("points", node, unknown_too), self._memo(node)
        if key not in memo:
            memo[key] = self._points_of(node, unknown_too)
        known: Points = memo[key]
        return known

    def _points_of(self, node: nd.Node, unknown_too: bool) -> Points:
        if not isinstance(node, sg.Feed):
            raise CannotSay(f"{type(node).__name__} is no stream with a vectorised form")
        rows = self.evaluations(node)
        if isinstance(node, sg.EdgeFeed):
            rows = np.intersect1d(rows, self.edges(node.event))
        if node.source.is_condition:
            said = self.condition(node.source)
            if not said.is_certain:
                raise CannotSay("a condition is too close to call")
            values, slack = said.numbers(self.count)[rows], 0.0
        else:
            column = self.number(node.source)
            values, slack = np.broadcast_to(column.values, (self.count,))[rows], column.slack
            slack = float(np.max(slack)) if np.any(slack) else 0.0
        if not unknown_too:
            keep = values == values
            rows, values = rows[keep], values[keep]
        return Points(rows, values, slack)

    # ---------------------------------------------------------------- what was logged

    def counter(self, name: str, row: int) -> float:
        """The newest value of a counter that the run logs, at a row."""
        values = self._counters.get(name)
        return math.nan if values is None else float(values[row])

    def bound_to(self, intake: Intake) -> str | None:
        """The logged name that feeds a metric or a counter; None where none has come."""
        since = 0 if intake.is_counter else self.since(intake.metric)
        return _first_name(intake.names, self._table, since)

    def _bound(self, table: Table) -> dict[str, Points]:
        """The points of each metric: of its logged names the one that comes first in time."""
        found = {}
        for path, intake in self._joined.plan.metrics.intakes.items():
            points = _first(intake.names, table, self.since(intake.metric))
            if points is not None:
                found[path] = points
        return found


def clock_of(plan: Plan, table: Table, total_steps: float) -> nd.Clock:
    """The clock of a run at its end."""
    clock = nd.Clock()
    clock.total_steps = total_steps
    if len(table):
        times = table.rows.times
        known = times[times == times]
        clock.first_step, clock.step, clock.time = int(table.rows.steps[0]), int(table.rows.steps[-1]), float(times[-1])
        clock.first_time = float(known[0]) if len(known) else math.nan
    clock.counters = {name: float(values[-1]) for name, values in _counted(plan, table).items()}
    return clock


def _counted(plan: Plan, table: Table) -> dict[str, Array]:
    found = {}
    for name, intake in plan.metrics.counters.items():
        points = _first(intake.names, table)
        if points is not None:
            found[name] = dense(points.rows, points.values, len(table))
    return found


def _first(names: Sequence[str], table: Table, since: int = 0) -> Points | None:
    name = _first_name(names, table, since)
    return None if name is None else table.points[name].since(since)


def _first_name(names: Sequence[str], table: Table, since: int) -> str | None:
    """Of several logged names the one that comes first in time from a row on."""
    logged = {name: table.points[name].since(since) for name in names if name in table.points}
    come = [name for name, points in logged.items() if len(points)]
    return min(come, key=lambda name: int(logged[name].rows[0]), default=None)
