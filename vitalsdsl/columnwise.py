"""Column by column: the nodes that a plan has for streaming, each worked out for all closed steps of a recorded run."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from vitalsdsl import nodes as nd
from vitalsdsl import operations as op
from vitalsdsl import signals as sg
from vitalsdsl.kernels.accepted import Accepted
from vitalsdsl.kernels.columns import Array, Column, dense
from vitalsdsl.kernels.spread_out import Points
from vitalsdsl.ops.abs import Abs
from vitalsdsl.ops.greatest import Greatest
from vitalsdsl.ops.least import Least
from vitalsdsl.plan import Plan
from vitalsdsl.possible import NEVER_KNOWN, Possible, all_of, any_of, at_least, compared
from vitalsdsl.spells import Spells, spells
from vitalsdsl.table import Table
from vitalsdsl.types import SAMPLES, STEPS, TIME, Extent
from vitalsdsl.worked_out import worked_out


class CannotSay(Exception):
    """Of what there is no vectorised form: whatever stands on it is left to the stream."""


class Columnwise:
    """The nodes of a plan over one run. The plan itself is not touched: it may serve for many runs that log the same names.

    `let_in` are the points that each reference lets in, as far as that has been looked into; whatever rests on references
    that are not `settled` is forgotten with `begin_round`.
    """

    def __init__(self, plan: Plan, table: Table, total_steps: float = math.nan) -> None:
        self.rows = table.rows
        self.count = len(table)
        self.points = _bound(plan, table)
        self.let_in: dict[int, Array] = {}
        self.settled: set[int] = set()
        self._plan = plan
        self._total = total_steps
        self._counters = _counted(plan, table)
        self._known: dict[nd.Node, Any] = {}
        """What rests on no reference, or on references that are settled."""
        self._trial: dict[nd.Node, Any] = {}
        """What rests on references as they stand in this round."""
        self._rests_on: dict[nd.Node, frozenset[int]] = {}
        self._freezes = {id(reference.accepted): reference.freezes for reference in plan.graph.references}
        self._readers = {
            id(node.state): node
            for node in plan.graph.order
            if isinstance(node, nd.Function) and isinstance(node.state, Accepted)
        }

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

    # ---------------------------------------------------------------- references

    def reference_rows(self, state: Accepted) -> Array:
        """The rows at which a finite point waits to be let in."""
        points = self._reference_points(state)
        return points.rows[np.isfinite(points.values)]

    def _reference_points(self, state: Accepted) -> Points:
        reader = self._readers.get(id(state))
        if reader is None:
            raise CannotSay("nothing reads this reference")
        return self._stream(reader.streams[0], unknown_too=False)

    def reference_known(self, state: Accepted) -> Array:
        points = self._let_in_points(state)
        windows = points.accepted(self.rows, Extent(state.size, state.unit))
        return windows.is_known(5)

    def _let_in_points(self, state: Accepted) -> Points:
        """The points of a reference, those that are not let in as NaN: they count for its first point all the same."""
        points = self._reference_points(state)
        let_in = self.let_in.get(id(state))
        if let_in is None or let_in[points.rows].all():
            return points
        key = ("let in", id(state))
        memo: dict[Any, Any] = self._known if id(state) in self.settled else self._trial
        if key not in memo:
            memo[key] = Points(points.rows, np.where(let_in[points.rows], points.values, np.nan), points.slack)
        known: Points = memo[key]
        return known

    # ---------------------------------------------------------------- numbers

    def evaluations(self, root: sg.Root) -> Array:
        """The rows at which a root is evaluated."""
        names, always = self._plan.graph.pace(root)
        if always or not names:
            return np.arange(self.count)
        rows = [self.points[name].rows for name in names if name in self.points]
        if len(rows) == 1:
            return rows[0]
        return np.unique(np.concatenate(rows)) if rows else np.arange(0)

    def _memo(self, node: nd.Node) -> dict[nd.Node, Any]:
        return self._known if self.references(node) <= self.settled else self._trial

    def number(self, node: nd.Node) -> Column:
        found = self._memo(node).get(node)
        if found is None:
            build = _NUMBERS.get(type(node))
            if build is None:
                raise CannotSay(f"{type(node).__name__} has no vectorised form")
            found = self._memo(node)[node] = build(self, node)
        column: Column = found
        return column

    def condition(self, node: nd.Node) -> Possible:
        found = self._memo(node).get(node)
        if found is None:
            build = _CONDITIONS.get(type(node))
            if build is None:
                raise CannotSay(f"{type(node).__name__} has no vectorised form")
            found = self._memo(node)[node] = build(self, node)
        possible: Possible = found
        return possible

    def _stream(self, node: nd.Node, unknown_too: bool) -> Points:
        """The points that a function over this stream sees."""
        if isinstance(node, nd.MetricNode):
            return self.points.get(node.name, _NO_POINTS)
        key = ("points", node, unknown_too)
        memo: dict[Any, Any] = self._memo(node)
        if key not in memo:
            memo[key] = self._points_of(node, unknown_too)
        known: Points = memo[key]
        return known

    def _points_of(self, node: nd.Node, unknown_too: bool) -> Points:
        if type(node) not in (sg.Feed, sg.Let):
            raise CannotSay(f"{type(node).__name__} is no stream with a vectorised form")
        assert isinstance(node, sg.Feed)
        rows = self.evaluations(node)
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

    def _metric(self, node: nd.MetricNode) -> Column:
        points = self.points.get(node.name)
        return points.newest(self.rows) if points is not None else _UNKNOWN

    def _let(self, node: sg.Feed) -> Column:
        points = self._stream(node, unknown_too=True)
        return Column(dense(points.rows, points.values, self.count), points.slack)

    def _fresh(self, node: nd.Fresh) -> Column:
        column = self.number(node.source)
        stale = np.zeros(self.count, bool)
        for metric, limit, by_time in node.limits:
            points = self.points.get(metric.name)
            if points is not None:
                now = self.rows.times if by_time else self.rows.steps
                with np.errstate(invalid="ignore"):
                    stale |= now - dense(points.rows, now[points.rows].astype(float), self.count) > limit
        return Column(np.where(stale, np.nan, column.values), column.slack)

    def _counter(self, node: nd.CounterNode) -> Column:
        if node.text == "step":
            return Column(self.rows.steps.astype(float))
        if node.text == "elapsed":
            times = self.rows.times
            known = times == times
            return Column(times - times[np.argmax(known)]) if known.any() else _UNKNOWN
        values = self._counters.get(node.text)
        if node.text == "progress":
            total = self._counters.get("total_steps", np.nan) if self._total != self._total else self._total
            with np.errstate(all="ignore"):
                share = np.where(np.asarray(total) > 0, self.rows.steps / total, np.nan)
            return Column(share if values is None else np.where(np.isnan(values), share, values))
        return Column(values) if values is not None else _UNKNOWN

    def _arithmetic(self, node: op.Arithmetic) -> Column:
        return worked_out(_SYMBOLS[node.compute], self.number(node.left), self.number(node.right))

    def _chain(self, node: op.ArithmeticChain) -> Column:
        found = self.number(node.inputs[0])
        for compute, operand in node.steps:
            found = worked_out(_SYMBOLS[compute], found, self.number(operand))
        return found

    def _negative(self, node: op.Negative) -> Column:
        column = self.number(node.inputs[0])
        return Column(-column.values, column.slack)

    def _elementwise(self, node: op.Elementwise) -> Column:
        columns = [self.number(inner) for inner in node.inputs]
        if node.compute is Abs.value:
            return Column(np.abs(columns[0].values), columns[0].slack)
        extreme = _EXTREMES.get(node.compute)
        if extreme is not None:
            slack = functools.reduce(np.maximum, [column.slack for column in columns])
            return Column(functools.reduce(extreme, [column.values for column in columns]), slack)
        if any(np.any(column.slack) for column in columns):
            raise CannotSay("a function of a number that is not known to the last digit")
        wide = [np.broadcast_to(column.values, (self.count,)).tolist() for column in columns]
        return Column(np.fromiter(map(node.compute, *wide), float, self.count))

    def _function(self, node: nd.Function) -> Column:
        if isinstance(node.state, Accepted):
            points = self._let_in_points(node.state)
        elif node.streams:
            points = self._stream(node.streams[0], node.state.takes_unknown)
        else:
            points = _NO_POINTS
        if not any(isinstance(inner, sg.Event) for inner in node.inputs) and len(node.streams) == 1:
            made = (
                node.call[0].columns(points, self.rows, node.call[1])
                if node.call is not None
                else node.state.columns(points, self.rows)  # type: ignore[attr-defined]
            )
            if made is not None:
                column: Column = made
                return column
        return Column(self._gone_through(node))

    def _gone_through(self, node: nd.Function) -> Array:
        """The values of a function without a vectorised form, from its own memory, point by point."""
        if node.call is None or isinstance(node.state, Accepted):
            raise CannotSay(f"`{node.text}` has no vectorised form")
        function, fixed = node.call
        state = function.new(fixed)
        read = function.reader(state, fixed)
        pushes = [state.push, state.push_second]
        pending: list[tuple[int, int, Callable[..., Any], tuple[Any, ...]]] = []
        steps, times = self.rows.steps.tolist(), self.rows.times.tolist()
        for place, (stream, push) in enumerate(zip(node.streams, pushes)):
            points = self._stream(stream, state.takes_unknown)
            if np.any(points.slack):
                raise CannotSay("a function of a number that is not known to the last digit")
            for row, value in zip(points.rows.tolist(), points.values.tolist()):
                pending.append((row, place, push, (steps[row], times[row], value)))
        for inner in node.inputs:
            if isinstance(inner, sg.Event):
                told = self._event(inner)
                edges = set(told.edges.tolist())
                for row, known in zip(told.rows.tolist(), told.known.tolist()):
                    pending.append((row, 2, state.evaluated, (steps[row], times[row], known)))
                    if row in edges:
                        pending.append((row, 3, state.edge, (steps[row], times[row])))
        pending.sort(key=lambda one: one[:2])
        out, at = np.full(self.count, np.nan), 0
        for row in range(self.count):
            while at < len(pending) and pending[at][0] == row:
                pending[at][2](*pending[at][3])
                at += 1
            value = read(steps[row], times[row])
            if value is not None:
                out[row] = value
        return out

    # ---------------------------------------------------------------- conditions

    def _comparison(self, node: op.Comparison) -> Possible:
        return compared(node.symbol, self.number(node.left), self.number(node.right))

    def _is(self, node: op.Is) -> Possible:
        points = self.points.get(node.metric.name)
        if points is None:
            return NEVER_KNOWN
        held = np.array([node.test(value) != node.negated for value in points.values.tolist()], dtype=float)
        return Possible.of_numbers(dense(points.rows, held, self.count))

    def _missing(self, node: op.Missing) -> Possible:
        target = node.target
        points = self._stream(target, unknown_too=False)
        now = (self.rows.times if node.by_time else self.rows.steps).astype(float)
        newest = dense(points.rows, now[points.rows], self.count)
        if node.counts_from_start and self.count:
            first = now[np.argmax(now == now)] if (now == now).any() else np.nan
            first = first if node.by_time else now[0]
            before = np.arange(self.count) < (points.rows[0] if len(points) else self.count)
            newest = np.where(before, first, newest)
        age = now - newest
        return Possible.exactly(age >= node.limit, np.isnan(age))

    def _held(self, node: sg.Held) -> Possible:
        told = self._event(node)
        return Possible.of_numbers(dense(told.rows, told.held, self.count))

    def _function_condition(self, node: nd.ConditionFunction) -> Possible:
        return Possible.of_numbers(self._function(node).values)

    def _event(self, node: sg.Held) -> Spells:
        """An event, a phase or a held condition at its evaluations."""
        key = ("told", node)
        memo: dict[Any, Any] = self._memo(node)
        if key not in memo:
            said = self.condition(node.source)
            if not said.is_certain:
                raise CannotSay("a condition is too close to call")
            span = node.holding.span
            if any(extent.unit not in (SAMPLES, STEPS, TIME) for extent in span.extents):
                raise CannotSay("a span by the run's counters")
            rows = self.evaluations(node)
            apart = node.apart if isinstance(node, sg.Event) else None
            is_event = isinstance(node, sg.Event)
            memo[key] = spells(said.numbers(self.count)[rows], rows, self.rows, span, apart, is_event)
        told: Spells = memo[key]
        return told


def _bound(plan: Plan, table: Table) -> dict[str, Points]:
    """The points of each metric: of its logged names the one that comes first in time."""
    found = {}
    for path, intake in plan.metrics.intakes.items():
        points = _first(intake.names, table)
        if points is not None:
            found[path] = points
    return found


def _counted(plan: Plan, table: Table) -> dict[str, Array]:
    found = {}
    for name, intake in plan.metrics.counters.items():
        points = _first(intake.names, table)
        if points is not None:
            found[name] = dense(points.rows, points.values, len(table))
    return found


def _first(names: Sequence[str], table: Table) -> Points | None:
    logged = [table.points[name] for name in names if name in table.points]
    return min(logged, key=lambda points: int(points.rows[0])) if logged else None


_EXTREMES = {Greatest.value: np.maximum, Least.value: np.minimum}
_SYMBOLS = {compute: symbol for symbol, compute in op.ARITHMETIC.items()}
_NO_POINTS = Points(np.arange(0), np.zeros(0))
_UNKNOWN = Column(np.float64(np.nan))


def _constant(columns: Columnwise, node: nd.Node) -> Column:
    return Column(np.float64(node.value))


def _members(columns: Columnwise, node: Any) -> Any:
    """Of a family of which nothing is logged."""
    if node.inputs:
        raise CannotSay("a function over a family is worked out by the stream")
    return NEVER_KNOWN if node.is_condition else _UNKNOWN


def _parts(columns: Columnwise, node: nd.Node) -> Iterable[Possible]:
    return [columns.condition(inner) for inner in node.inputs]


def _two_of(columns: Columnwise, node: op.AtLeast) -> Possible:
    found = at_least(node.count, _parts(columns, node))
    if found is None:
        raise CannotSay("a condition is too close to call")
    return found


_NUMBERS: dict[type[nd.Node], Callable[[Columnwise, Any], Column]] = {
    nd.Constant: _constant,
    nd.MetricNode: Columnwise._metric,
    nd.Fresh: Columnwise._fresh,
    nd.CounterNode: Columnwise._counter,
    nd.Shown: lambda columns, node: columns.number(node.source),
    nd.Function: Columnwise._function,
    sg.Let: Columnwise._let,
    sg.Feed: Columnwise._let,
    op.Arithmetic: Columnwise._arithmetic,
    op.ArithmeticChain: Columnwise._chain,
    op.Negative: Columnwise._negative,
    op.Elementwise: Columnwise._elementwise,
    op.AggregateNode: _members,
    op.Share: _members,
}
_CONDITIONS: dict[type[nd.Node], Callable[[Columnwise, Any], Possible]] = {
    op.Comparison: Columnwise._comparison,
    op.And: lambda columns, node: all_of(_parts(columns, node)),
    op.Or: lambda columns, node: any_of(_parts(columns, node)),
    op.Not: lambda columns, node: columns.condition(node.inputs[0]).negated(),
    op.AtLeast: _two_of,
    op.Is: Columnwise._is,
    op.Missing: Columnwise._missing,
    op.ElementwiseCondition: lambda columns, node: columns.condition(node.inputs[0]).surely(),
    op.AggregateCondition: _members,
    nd.ConditionFunction: Columnwise._function_condition,
    sg.Held: Columnwise._held,
    sg.Event: Columnwise._held,
    sg.Phase: Columnwise._held,
    nd.ShownCondition: lambda columns, node: columns.condition(node.source),
}
