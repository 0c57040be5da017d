"""Column by column: the nodes that a plan has for streaming, each worked out for all closed steps of a recorded run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from vitalsdsl.columns.at_rows import SYMBOLS
from vitalsdsl.columns.bounded_columns import FEW, BoundedColumns
from vitalsdsl.columns.function_columns import UNKNOWN
from vitalsdsl.columns.run_columns import CannotSay
from vitalsdsl.columns.steady import Steady
from vitalsdsl.ground.types import SAMPLES, STEPS, TIME, Extent
from vitalsdsl.kernels.columns import Array, Column, dense
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes import operations as op
from vitalsdsl.nodes import signals as sg
from vitalsdsl.nodes.across_members import holds, how_many, numbers
from vitalsdsl.nodes.possible import NEVER_KNOWN, Possible, all_of, any_of, at_least, compared
from vitalsdsl.nodes.sequences import followed, unfollowed
from vitalsdsl.nodes.spells import Spells, spells
from vitalsdsl.nodes.worked_out import worked_out


class Columnwise(BoundedColumns):
    """The nodes of a plan over one run."""

    @functools.cached_property
    def _steady(self) -> Steady:
        return Steady(self)

    def forget(self) -> None:
        super().forget()
        self.__dict__.pop("_steady", None)

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

    def _metric(self, node: nd.MetricNode) -> Column:
        points = self.points.get(node.name)
        return points.newest(self.rows) if points is not None else UNKNOWN

    def _let(self, node: sg.Feed) -> Column:
        points = self.stream(node, unknown_too=True)
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
            return Column(times - times[np.argmax(known)]) if known.any() else UNKNOWN
        values = self._counters.get(node.text)
        if node.text == "progress":
            total = self._counters.get("total_steps", np.nan) if self._total != self._total else self._total
            with np.errstate(all="ignore"):
                share = np.where(np.asarray(total) > 0, self.rows.steps / total, np.nan)
            return Column(share if values is None else np.where(np.isnan(values), share, values))
        return Column(values) if values is not None else UNKNOWN

    def _arithmetic(self, node: op.Arithmetic) -> Column:
        return worked_out(SYMBOLS[node.compute], self.number(node.left), self.number(node.right))

    def _chain(self, node: op.ArithmeticChain) -> Column:
        found = self.number(node.inputs[0])
        for compute, operand in node.steps:
            found = worked_out(SYMBOLS[compute], found, self.number(operand))
        return found

    def _negative(self, node: op.Negative) -> Column:
        column = self.number(node.inputs[0])
        return Column(-column.values, column.slack)

    def _elementwise(self, node: op.Elementwise) -> Column:
        columns = [self.number(inner) for inner in node.inputs]
        applied = self.applied(node, columns)
        if applied is not None:
            return applied
        if any(np.any(column.slack) for column in columns):
            raise CannotSay("a function of a number that is not known to the last digit")
        if all(np.ndim(column.values) == 0 for column in columns):
            return Column(np.float64(node.compute(*(float(column.values) for column in columns))))
        wide = [np.broadcast_to(column.values, (self.count,)).tolist() for column in columns]
        return Column(np.fromiter(map(node.compute, *wide), float, self.count))

    # ---------------------------------------------------------------- families

    def _across(self, node: op.AggregateNode) -> Column:
        members = self.joined_at(node)
        if node.of_conditions:
            found = how_many([(self.condition(inner), since) for inner, since in members], self.count)
        else:
            found = numbers(node.compute, [(self.number(inner), since) for inner, since in members], self.count)
        if found is None:
            raise CannotSay("a function over a family is too close to call, or of numbers too large")
        return found

    def _holds_for(self, node: op.AggregateCondition) -> Possible:
        members = [(self.condition(inner), since) for inner, since in self.joined_at(node)]
        return holds(node.compute, members, self.count)

    def _share(self, node: op.Share) -> Column:
        missing, columns = np.zeros(self.count, bool), {}
        begins = dict(reversed(self.joined_at(node)))
        for inner, since in begins.items():
            points = self.stream(inner, unknown_too=False)
            if np.any(points.slack):
                raise CannotSay("a share of numbers that are not known to the last digit")
            column = columns[inner] = np.full(self.count, np.nan)
            column[points.rows] = points.values
            reported = np.zeros(self.count, bool)
            reported[points.rows] = True
            missing |= ~reported & (np.arange(self.count) >= since)
        out = np.full(self.count, np.nan)
        for row in np.nonzero(~missing)[0].tolist():
            parts, of = (
                [float(columns[one][row]) for one in family if begins[one] <= row]  # type: ignore[index]
                for family in (node.parts, node.of)
            )
            if parts and of:
                out[row] = node.compute(parts, of)
        return Column(out)

    # ---------------------------------------------------------------- conditions

    def _comparison(self, node: op.Comparison) -> Possible:
        said = self._steady.said(node)
        if said is not None:
            return self._decided(said, node)
        roughly = self.compared_roughly(node)
        if roughly is not None and np.count_nonzero(roughly.is_open) <= self.count * FEW:
            said = self._decided(roughly, node)
            if said.is_certain:
                return said
        return self._decided(compared(node.symbol, self.number(node.left), self.number(node.right)), node)

    # ---------------------------------------------------------------- bounds

    def is_soon_known(self, node: nd.Node) -> bool:
        """Whether what a condition is takes no longer to find than what it can be."""
        return node in self._memo(node) or isinstance(node, op.Comparison) and self._steady.said(node) is not None

    def may_be(self, node: nd.Node) -> Possible:
        """What a condition can be at each closed step, as far as that is soon known: much of it may be open. Raises
        CannotSay."""
        if node in self._memo(node):
            return self.condition(node)
        if isinstance(node, (op.And, op.Or)):
            return (all_of if isinstance(node, op.And) else any_of)(map(self.may_be, node.inputs))
        if isinstance(node, op.Comparison) and self._steady.said(node) is None:
            said = self.compared_roughly(node)
            if said is not None:
                return said
        return self.condition(node)

    def decided(self, node: nd.Node, rows: Array) -> Possible:
        """What a condition is at some rows, of which there are few. Raises CannotSay."""
        if node not in self._memo(node):
            if isinstance(node, (op.And, op.Or)):
                return (all_of if isinstance(node, op.And) else any_of)(self.decided(one, rows) for one in node.inputs)
            if isinstance(node, op.Comparison) and self.compared_roughly(node) is not None:
                return self.compared_at(node, rows)
        return self.condition(node).at(rows, self.count)

    def _decided(self, said: Possible, node: op.Comparison | nd.ConditionFunction) -> Possible:
        """What is too close to call is decided row by row, as far as there is a way."""
        if said.is_certain:
            return said
        rows = np.nonzero(np.broadcast_to(said.is_open, (self.count,)))[0]
        try:
            if isinstance(node, op.Comparison):
                exactly = self.compared_at(node, rows)
            else:
                exactly = Possible.of_numbers(self.at_rows(node).number(node, rows))
            return said.put(rows, exactly, self.count)
        except CannotSay:
            return said

    def _is(self, node: op.Is) -> Possible:
        points = self.points.get(node.metric.name)
        if points is None:
            return NEVER_KNOWN
        held = _STATES[node.test](points.values) != node.negated
        return Possible.of_numbers(dense(points.rows, held.astype(float), self.count))

    def _and(self, node: op.And) -> Possible:
        """Where one part is never true, it does not matter that another cannot be worked out."""
        parts, trouble = [], None
        for inner in node.inputs:
            try:
                parts.append(self.condition(inner))
            except CannotSay as why:
                trouble = why
        if trouble is None:
            return all_of(parts)
        if any(not np.any(part.true) for part in parts):
            return Possible(np.False_, np.True_, np.True_)
        raise trouble

    def _stalled(self, node: op.Stalled) -> Possible:
        with np.errstate(invalid="ignore"):
            if (np.diff(self.rows.times) >= node.limit).any():
                raise CannotSay("a run that was silent for so long is gone through by the clock")
        return Possible(np.False_, np.True_, np.False_)

    def _missing(self, node: op.Missing) -> Possible:
        target = node.target
        points = self.stream(target, unknown_too=False)
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
        told = self.told(node)
        return Possible.of_numbers(dense(told.rows, told.held, self.count))

    def _function_condition(self, node: nd.ConditionFunction) -> Possible:
        column = self.function(node)
        said = Possible.of_numbers(column.values)
        if not np.any(column.slack):
            return said
        is_open = (np.asarray(column.slack) > 0) & ~said.unknown
        return self._decided(Possible(said.true | is_open, said.false | is_open, said.unknown), node)

    def _probe(self, node: sg.Probe) -> Possible:
        rows = self.evaluations(node)
        return Possible.of_numbers(dense(rows, self._certain(node.source)[rows], self.count))

    def _then(self, node: sg.Then) -> Possible:
        rows, second = self.evaluations(node), self._certain(node.second)
        told = followed(self.told(node.first).edges, second[rows], rows, self.rows, _within(node))
        return Possible.of_numbers(dense(rows, told, self.count))

    def _then_no(self, node: sg.ThenNo) -> Possible:
        rows, since = self.evaluations(node), self.since(node)
        edges = self.told(node.first).edges
        answers = self.evaluations(node.second)
        answers = answers[self._certain(node.second)[answers] == 1.0]
        edges, answers = edges[edges >= since], answers[answers >= since]
        told = unfollowed(edges, answers, rows, self.rows, _within(node))
        return Possible.of_numbers(dense(rows, told, self.count))

    def _certain(self, node: nd.Node) -> Array:
        """1, 0 and NaN."""
        said = self.condition(node)
        if not said.is_certain:
            raise CannotSay("a condition is too close to call")
        return said.numbers(self.count)

    def edges(self, event: sg.Event) -> Array:
        return self.told(event).edges

    def told(self, node: sg.Held) -> Spells:
        """An event, a phase or a held condition at its evaluations."""
        key = ("told", node)
        memo: dict[Any, Any] = self._memo(node)
        if key not in memo:
            said = self._certain(node.source)
            span = node.holding.span
            if any(extent.unit not in (SAMPLES, STEPS, TIME) for extent in span.extents):
                raise CannotSay("a span by the run's counters")
            rows = self.evaluations(node)
            apart = node.apart if isinstance(node, sg.Event) else None
            is_event = isinstance(node, sg.Event)
            memo[key] = spells(said[rows], rows, self.rows, span, apart, is_event)
        told: Spells = memo[key]
        return told


_STATES = {op.IS_STATE["nan"]: np.isnan, op.IS_STATE["inf"]: np.isinf, op.IS_STATE["finite"]: np.isfinite}


def _constant(columns: Columnwise, node: nd.Node) -> Column:
    return Column(np.float64(node.value))


def _within(node: sg.Then | sg.ThenNo) -> Extent:
    return Extent(node.within, TIME if node.by_time else STEPS)


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
    nd.Function: Columnwise.function,
    sg.Let: Columnwise._let,
    sg.Feed: Columnwise._let,
    op.Arithmetic: Columnwise._arithmetic,
    op.ArithmeticChain: Columnwise._chain,
    op.Negative: Columnwise._negative,
    op.Elementwise: Columnwise._elementwise,
    op.AggregateNode: Columnwise._across,
    op.Share: Columnwise._share,
}
_CONDITIONS: dict[type[nd.Node], Callable[[Columnwise, Any], Possible]] = {
    op.Comparison: Columnwise._comparison,
    op.And: Columnwise._and,
    op.Or: lambda columns, node: any_of(_parts(columns, node)),
    op.Not: lambda columns, node: columns.condition(node.inputs[0]).negated(),
    op.AtLeast: _two_of,
    op.Is: Columnwise._is,
    op.Missing: Columnwise._missing,
    op.Stalled: Columnwise._stalled,
    op.ElementwiseCondition: lambda columns, node: columns.condition(node.inputs[0]).surely(),
    op.AggregateCondition: Columnwise._holds_for,
    nd.ConditionFunction: Columnwise._function_condition,
    sg.Held: Columnwise._held,
    sg.Event: Columnwise._held,
    sg.Phase: Columnwise._held,
    sg.Probe: Columnwise._probe,
    sg.Then: Columnwise._then,
    sg.ThenNo: Columnwise._then_no,
    nd.ShownCondition: lambda columns, node: columns.condition(node.source),
}
