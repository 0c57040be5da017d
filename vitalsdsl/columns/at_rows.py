"""At rows: what a node is at some closed steps of a recorded run, to the last digit.

Whole columns add up in another order than the stream and say by how much they may be off. Where that decides something, or
where a number is told to somebody, the streaming kernel is handed the points that it would have there.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from vitalsdsl.columns.function_columns import FunctionColumns
from vitalsdsl.columns.run_columns import CannotSay, RunColumns
from vitalsdsl.ground.types import SAMPLES, STEPS
from vitalsdsl.kernels.accepted import Accepted
from vitalsdsl.kernels.at_once import MomentsAtOnce, bounds
from vitalsdsl.kernels.columns import Array, Column, Rows
from vitalsdsl.kernels.extremes import Extremes
from vitalsdsl.kernels.moments import Moments
from vitalsdsl.kernels.pairs import Pairs
from vitalsdsl.kernels.spread_out import Points
from vitalsdsl.kernels.window import Window
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes import operations as op
from vitalsdsl.nodes import signals as sg
from vitalsdsl.nodes.worked_out import worked_out

SYMBOLS = {compute: symbol for symbol, compute in op.ARITHMETIC.items()}

_SHARE = 64
"""To go through the points of a window takes as long as to find a function at so many rows of whole columns."""


class AtRows:
    """The nodes of a plan over one run, a few rows at a time. Rows are given in order."""

    def __init__(self, columns: FunctionColumns) -> None:
        self._columns = columns
        self._told: dict[nd.Node, dict[int, float]] = {}
        """What functions have been found to be: rules that share one go through its points once."""

    def number(self, node: nd.Node, rows: Array) -> Array:
        """A number, or a condition of a function as 1, 0 and NaN. Raises CannotSay."""
        columns = self._columns
        if type(node) in _OF_EXACT:
            return _BUILD[type(node)](self, node, rows)
        if isinstance(node, nd.Function) and (
            _is_read_at_once(node) or self._is_put_in_order(node) or self._is_soon_gone_through(node, rows)
        ):
            return self._remembered(node, rows)
        if isinstance(node, sg.Let) and columns.bounds(node) is not None:
            return self._let_at(node, rows)
        column = columns.function(node) if isinstance(node, nd.ConditionFunction) else columns.number(node)
        values: Array = np.broadcast_to(column.values, (columns.count,))[rows]
        if np.any(column.slack):
            is_open = np.broadcast_to(column.slack, (columns.count,))[rows] > 0
            if is_open.any():
                values = values.copy()
                values[is_open] = self._worked_out(node, rows[is_open])
        return values

    def _worked_out(self, node: nd.Node, rows: Array) -> Array:
        if isinstance(node, nd.Function):
            return self._remembered(node, rows)
        build = _BUILD.get(type(node))
        if build is None:
            raise CannotSay("a number that is not known to the last digit")
        return build(self, node, rows)

    def _metric(self, node: nd.MetricNode, rows: Array) -> Array:
        points = self._columns.points.get(node.name)
        if points is None:
            return np.full(len(rows), np.nan)
        newest = np.searchsorted(points.rows, rows, side="right") - 1
        return np.where(newest >= 0, points.values[newest], np.nan)

    def _arithmetic(self, node: op.Arithmetic, rows: Array) -> Array:
        return self._applied(SYMBOLS[node.compute], self.number(node.left, rows), self.number(node.right, rows))

    def _chain(self, node: op.ArithmeticChain, rows: Array) -> Array:
        found = self.number(node.inputs[0], rows)
        for compute, operand in node.steps:
            found = self._applied(SYMBOLS[compute], found, self.number(operand, rows))
        return found

    @staticmethod
    def _applied(symbol: str, left: Array, right: Array) -> Array:
        return worked_out(symbol, Column(left), Column(right)).values

    def _elementwise(self, node: op.Elementwise, rows: Array) -> Array:
        inputs = [self.number(inner, rows).tolist() for inner in node.inputs]
        return np.array([node.compute(*operands) for operands in zip(*inputs)], float)

    def _fresh(self, node: nd.Fresh, rows: Array) -> Array:
        stale = np.isnan(self._columns.number(node).values[rows])
        return np.where(stale, np.nan, self.number(node.source, rows))

    def _let(self, node: sg.Feed, rows: Array) -> Array:
        points = self._columns.stream(node, unknown_too=True)
        newest = np.searchsorted(points.rows, rows, side="right") - 1
        return self._of(node, points, newest)

    def _let_at(self, node: sg.Let, rows: Array) -> Array:
        """What a let was when it was last evaluated."""
        own = self._columns.evaluations(node)
        return self._earlier(node.source, np.append(own, -1)[np.searchsorted(own, rows, side="right") - 1])

    def _earlier(self, node: nd.Node, rows: Array) -> Array:
        """A number at rows that may come twice; -1 for none."""
        found, there = np.full(len(rows), np.nan), rows >= 0
        if there.any():
            own, place = np.unique(rows[there], return_inverse=True)
            found[there] = self.number(node, own)[place]
        return found

    def _across(self, node: op.AggregateNode, rows: Array) -> Array:
        if node.of_conditions:
            raise CannotSay("a condition is too close to call")
        members = [(self.number(inner, rows), since) for inner, since in self._columns.joined_at(node)]
        found = np.full(len(rows), np.nan)
        for i, row in enumerate(rows.tolist()):
            known = [v for values, since in members if since <= row and (v := float(values[i])) == v]
            if known:
                found[i] = node.compute(known)
        return found

    # ---------------------------------------------------------------- functions

    def _remembered(self, node: nd.Function, rows: Array) -> Array:
        told = self._told.setdefault(node, {})
        new = [row for row in rows.tolist() if row not in told]
        if new:
            told.update(zip(new, self._gone_through(node, new)))
        return np.array([told[row] for row in rows.tolist()])

    def _is_put_in_order(self, node: nd.Function) -> bool:
        """Whether it is quicker to put some windows in order than to work out whole columns, which nobody has done."""
        columns = self._columns
        if node.is_condition or columns.is_worked_out(node):
            return False
        return columns.windows_in_order(node) is not None or columns.looked_back(node) is not None

    def _is_soon_gone_through(self, node: nd.Function, rows: Array) -> bool:
        """Whether to go through the windows of so few rows point by point is quicker than to work out whole columns, which
        nobody has done, of a function of which bounds have been found."""
        columns = self._columns
        return (
            not (node.is_condition or columns.is_worked_out(node))
            and len(rows) * _SHARE <= columns.count
            and isinstance(node.state, Window)
            and node.call is not None
            and columns.roughly(node) is not None
        )

    def _put_in_order(self, node: nd.Function, rows: Array) -> list[float] | None:
        """What a function answers that has to put the points of its windows in order, at some rows."""
        windows = self._columns.windows_in_order(node)
        if windows is not None and node.call is not None:
            found = node.call[0].over(windows.at(rows), node.call[1])
            return None if found is None or np.any(found.slack) else found.values.tolist()
        back = self._columns.looked_back(node)
        return None if back is None else self._earlier(node.streams[0].source, back[rows]).tolist()  # type: ignore[attr-defined]

    def _gone_through(self, node: nd.Function, rows: Sequence[int]) -> list[float]:
        in_order = self._put_in_order(node, np.asarray(rows)) if self._is_put_in_order(node) else None
        if in_order is not None:
            return in_order
        if len(node.streams) != 1 or isinstance(node.state, (Accepted, Pairs)) or node.event is not None:
            raise CannotSay("a function of a number that is not known to the last digit")
        stream = node.streams[0]
        points = self._columns.stream(stream, node.state.takes_unknown).since(self._columns.since(node.state))
        if _is_read_at_once(node) and not np.any(points.slack):
            return list(_read_at_once(node, points, self._columns.rows, np.array(rows)))
        if node.call is None:
            values: list[float] = self._of(stream, points, self._looked_back(node, points, rows)).tolist()
            return values
        function, fixed = node.call
        new = functools.partial(function.new, fixed)
        state = new()
        read = function.reader(state, fixed)
        begins = _begins_of_windows(state, points, self._columns, rows) if isinstance(state, Window) else None
        ends = np.searchsorted(points.rows, rows, side="right").tolist()
        steps, times = self._columns.rows.steps, self._columns.rows.times
        found, at = [], 0
        for i, (row, end) in enumerate(zip(rows, ends)):
            if begins is not None and begins.at[i] > at:
                # What was pushed before has left the window: a fresh one begins where that does.
                state, at = new(), begins.at[i]
                read, state.seen, state.first = function.reader(state, fixed), begins.seen[i], begins.first
            part = slice(at, end)
            own = points.rows[part]
            values = self._of(stream, points, np.arange(at, end)).tolist()
            for step, time, value in zip(steps[own].tolist(), times[own].tolist(), values):
                state.push(step, time, value)
            at = max(at, end)
            value = read(int(steps[row]), float(times[row]))
            found.append(np.nan if value is None else float(value))
        return found

    def _looked_back(self, node: nd.Function, points: Points, rows: Sequence[int]) -> Array:
        """Which of its points a function that only looks back finds."""
        places = node.state.columns(Points(points.rows, np.arange(len(points), dtype=float)), self._columns.rows)  # type: ignore[attr-defined]
        if places is None:
            raise CannotSay("a function of a number that is not known to the last digit")
        which: Array = places.values[np.asarray(rows)]
        return np.where(which == which, which, -1).astype(np.int64)

    def _of(self, stream: nd.Node, points: Points, which: Array) -> Array:
        """The values of some points of a stream; -1 is none."""
        values = np.full(len(which), np.nan)
        there = which >= 0
        if not np.any(points.slack):
            values[there] = points.values[which[there]]
        elif there.any():
            rows, place = np.unique(points.rows[which[there]], return_inverse=True)
            values[there] = self.number(stream.source, rows)[place]  # type: ignore[attr-defined]
        return values


def _is_read_at_once(node: nd.Function) -> bool:
    return node.call is not None and type(node.state) in (Moments, Extremes) and not node.is_condition


def _read_at_once(node: nd.Function, points: Points, rows: Rows, at: Array) -> Iterator[float]:
    """What a function finds in the windows that end at some rows."""
    assert node.call is not None
    function, fixed = node.call
    extent = fixed.get("W")
    if extent is None:
        raise CannotSay("a function of a number that is not known to the last digit")
    for begin, end, warm in zip(*(part.tolist() for part in bounds(points.rows, rows, extent, at))):
        values = points.values[begin:end]
        values = values[~np.isnan(values) if function.kernel.with_infinite else np.isfinite(values)]
        if not warm or len(values) < function.minimum:
            yield math.nan
        elif function.kernel is Moments:
            yield function.value(MomentsAtOnce(extent, values), fixed)
        else:
            window = function.new(fixed)
            if function.kernel is Extremes:
                # Of equal points the first is the answer: 0.0 and -0.0 are equal.
                values = values[sorted({int(values.argmin()), int(values.argmax())})]
            for step, value in enumerate(values.tolist()):
                window.usable += 1
                window.add(step, value)
            yield function.value(window, fixed)


class _Begins:
    """Where in a stream the windows that end at some rows begin: the first point to be handed over, and how many a window
    would have seen before it; `first` is where its span begins to be lived."""

    def __init__(self, at: Sequence[int], seen: Sequence[int], first: float) -> None:
        self.at, self.seen, self.first = at, seen, first


def _begins_of_windows(state: Window, points: Points, columns: RunColumns, rows: Sequence[int]) -> _Begins | None:
    if not len(points):
        return None
    if state.unit == SAMPLES:
        axis = np.arange(len(points)).astype(float)
    else:
        axis = (columns.rows.steps if state.unit == STEPS else columns.rows.times)[points.rows].astype(float)
    # Without a time a point is in no window of time; such points come before all others.
    placed = np.nonzero(axis == axis)[0]
    if not len(placed):
        return None
    newest = np.maximum(np.searchsorted(points.rows, rows, side="right") - 1, 0)
    oldest = np.where(axis[newest] == axis[newest], axis[newest] - state.size, -np.inf)
    at = placed[0] + np.searchsorted(axis[placed], oldest, side="left")
    first = axis[placed[0]]
    return _Begins(at.tolist(), (at - placed[0]).tolist(), first.item() if state.unit != STEPS else int(first))


_OF_EXACT = (nd.MetricNode, op.Arithmetic, op.ArithmeticChain, op.Negative, op.Elementwise)
"""Of these exact operands give the stream's own result: whole columns need not be asked."""

_Build = Callable[[AtRows, Any, Array], Array]
_BUILD: dict[type[nd.Node], _Build] = {
    nd.Fresh: AtRows._fresh,
    nd.MetricNode: AtRows._metric,
    nd.Shown: lambda at, node, rows: at.number(node.source, rows),
    sg.Let: AtRows._let,
    sg.Feed: AtRows._let,
    op.Arithmetic: AtRows._arithmetic,
    op.ArithmeticChain: AtRows._chain,
    op.Negative: lambda at, node, rows: -at.number(node.inputs[0], rows),
    op.Elementwise: AtRows._elementwise,
    op.AggregateNode: AtRows._across,
}
