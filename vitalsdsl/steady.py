"""Steady: comparisons of windows over metrics that have a point at every row, worked out a cache's worth of rows at a time.

This is what most rules of most runs ask for. A window's sums are differences of running sums, about a pivot and begun anew
for each segment, and how far off they may be is one number for all rows of a block. Where a comparison is closer than that
the segment is halved; what is still too close is left open for the streaming kernel. A spike or a change of level therefore
costs the few rows around it, and no answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from vitalsdsl import nodes as nd
from vitalsdsl import operations as op
from vitalsdsl.blocks import EXTREMES, MOMENTS, Block, Buffers, NotSteady, Span, Window
from vitalsdsl.kernels.columns import Array
from vitalsdsl.kernels.running import Room, Running, TooLarge
from vitalsdsl.kernels.spread_out import Points
from vitalsdsl.possible import Possible
from vitalsdsl.run_columns import RunColumns
from vitalsdsl.types import SAMPLES, STEPS

SEGMENT = 1 << 16
"""Rows for which running sums are begun anew."""

BLOCK = 1 << 15
"""Rows that are worked out at once: what they need stays in the processor's cache."""

SHORTEST = 1 << 10
"""Rows of a segment that is not halved any more."""

MOST_OPEN = 32
"""Rows of a segment that may be too close to call before it is halved."""

MOST_BEFORE = 1 << 18
"""Rows before a segment that its windows may reach back to."""


class Steady:
    """The comparisons of a plan over one run that can be had in this way."""

    def __init__(self, columns: RunColumns) -> None:
        self._columns = columns
        self._found: dict[nd.Node, Possible] | None = None

    def said(self, node: op.Comparison) -> Possible | None:
        """What a comparison can be at each row; None where whole columns have to be worked out."""
        if self._found is None:
            self._found = {}
            for group in self._groups():
                try:
                    self._found.update(group.said())
                except NotSteady:
                    continue
        return self._found.get(node)

    def _groups(self) -> Iterator[_Group]:
        columns = self._columns
        steady = {name: points for name, points in columns.points.items() if _is_steady(points, columns.count)}
        stride = _stride(columns.rows.steps)
        firsts = {name: int(points.rows[0]) for name, points in steady.items()}
        layout: _Layout = columns.kept(
            ("steady", stride, *sorted(firsts.items())), lambda: _Layout(columns, firsts, stride)
        )
        rooms, buffers = [Room() for _ in range(max(map(len, layout.groups), default=0))], Buffers(BLOCK)
        for names, comparisons in layout.groups.items():
            points = {name: steady[name] for name in names}
            yield _Group(columns.count, comparisons, points, layout.windows, rooms, buffers)


class _Layout:
    """Which comparisons of a plan can be had, and from which row on each is known: the same for all runs in which the same
    metrics begin at the same rows."""

    def __init__(self, columns: RunColumns, firsts: Mapping[str, int], stride: int) -> None:
        self._columns = columns
        self._firsts = firsts
        self._stride = stride
        self.windows: dict[nd.Node, Window] = {}
        self.groups: dict[frozenset[str], dict[op.Comparison, int]] = {}
        """By the metrics that they rest on together."""
        for node in columns.comparisons():
            try:
                names, known_from = self._looked_into(node)
            except NotSteady:
                continue
            if names:
                self.groups.setdefault(names, {})[node] = known_from
        del self._columns  # what is kept for other runs holds nothing of this one

    def _looked_into(self, node: nd.Node) -> tuple[frozenset[str], int]:
        """The metrics below a node, and the row from which on it is known."""
        if isinstance(node, nd.Constant):
            return frozenset(), 0
        if isinstance(node, nd.MetricNode):
            return frozenset([node.name]), self._first(node.name)
        if isinstance(node, nd.Function):
            window = self.windows.get(node)
            if window is None:
                window = self.windows[node] = self._window(node)
            return frozenset([window.metric]), window.known_from
        if isinstance(node, (op.Comparison, op.Arithmetic, op.ArithmeticChain, op.Negative)):
            found = [self._looked_into(inner) for inner in node.inputs]
            return frozenset().union(*(names for names, _ in found)), max(known for _, known in found)
        raise NotSteady

    def _first(self, metric: str) -> int:
        first = self._firsts.get(metric)
        if first is None:
            raise NotSteady
        return first

    def _window(self, node: nd.Function) -> Window:
        if node.call is None or len(node.streams) != 1 or not isinstance(node.streams[0], nd.MetricNode):
            raise NotSteady
        function, fixed = node.call
        metric = node.streams[0].name
        first = self._first(metric)
        if function not in (*MOMENTS, *EXTREMES) or self._columns.since(node.state) > first:
            raise NotSteady
        extent = fixed["W"]
        if extent.unit == SAMPLES and extent.size == int(extent.size):
            length = warm = int(extent.size)
        elif extent.unit == STEPS and self._stride:
            length, warm = math.ceil(extent.size / self._stride), math.ceil((extent.size - 1) / self._stride) + 1
        else:
            raise NotSteady
        if not function.minimum <= length <= MOST_BEFORE:
            raise NotSteady
        return Window(function, metric, length, first + warm - 1)


def _is_steady(points: Points, count: int) -> bool:
    """Whether there is one at each row from the first on."""
    return len(points) > 0 and len(points) == count - int(points.rows[0])


def _stride(steps: Array) -> int:
    """From each step to the next; 0 where that differs."""
    if len(steps) < 2:
        return 1
    stride = int(steps[1] - steps[0])
    is_even = int(steps[-1] - steps[0]) == stride * (len(steps) - 1) and bool((np.diff(steps) == stride).all())
    return stride if is_even else 0


# -------------------------------------------------------------------- segments


class _Group:
    """Comparisons that rest on the same metrics."""

    def __init__(
        self,
        count: int,
        comparisons: dict[op.Comparison, int],
        points: dict[str, Points],
        windows: dict[nd.Node, Window],
        rooms: Sequence[Room],
        buffers: Buffers,
    ) -> None:
        self._count = count
        self._known_from = comparisons
        self._points = points
        self._windows = windows
        self._true = {node: np.zeros(count, bool) for node in comparisons}
        self._unknown = {node: np.zeros(count, bool) for node in comparisons}
        self._open: dict[nd.Node, list[Array]] = {node: [] for node in comparisons}
        for node, known_from in comparisons.items():
            self._unknown[node][:known_from] = True
        self._reach = dict.fromkeys(points, 1)
        for node in comparisons:
            for window in _windows_below(node, windows):
                self._reach[window.metric] = max(self._reach[window.metric], window.length)
        self._buffers = buffers
        self._rooms = dict(zip(points, rooms))

    def said(self) -> dict[nd.Node, Possible]:
        begin = min(min(self._known_from.values()), self._count)
        length = max(SEGMENT, *self._reach.values())
        for at in range(begin, self._count, length):
            self._segment(list(self._true), at, min(at + length, self._count))
        found: dict[nd.Node, Possible] = {}
        for node, true in self._true.items():
            unknown = self._unknown[node]
            false = ~(true | unknown)
            for rows in self._open[node]:
                true[rows] = false[rows] = True
            found[node] = Possible(true, false, unknown, not self._open[node])
        return found

    def _segment(self, nodes: Sequence[op.Comparison], begin: int, end: int) -> None:
        spans = {name: self._span(name, begin, end) for name in self._points}
        nodes = list(self._undecided(nodes, Block(self._windows, spans, begin, end, self._buffers)))
        if not nodes:
            return
        open_rows: dict[op.Comparison, list[Array]] = {}
        for at in range(begin, end, BLOCK):
            block = Block(self._windows, spans, at, min(at + BLOCK, end), self._buffers)
            for node in nodes:
                first = max(at, self._known_from[node])
                if first < block.end and node in self._true:
                    try:
                        rows = block.compare(node, first, self._true[node], self._unknown[node])
                    except NotSteady:
                        del self._true[node]
                        continue
                    if rows is not None:
                        open_rows.setdefault(node, []).append(rows)
        again = []
        for node, rows in open_rows.items():
            if node not in self._true:
                continue
            if end - begin > SHORTEST and sum(map(len, rows)) > MOST_OPEN:
                again.append(node)
            else:
                self._open[node] += rows
        if again:
            middle = (begin + end) // 2
            self._segment(again, begin, middle)
            self._segment(again, middle, end)

    def _undecided(self, nodes: Sequence[op.Comparison], whole: Block) -> Iterator[op.Comparison]:
        """Without those of which the points alone say what they are in a whole segment."""
        for node in nodes:
            said = whole.decided(node, closely=False)
            if said is None:
                yield node
            else:
                self._true[node][max(whole.begin, self._known_from[node]) : whole.end] = said

    def _span(self, name: str, begin: int, end: int) -> Span:
        points = self._points[name]
        first = int(points.rows[0])
        base = max(first, begin - self._reach[name] + 1)
        try:
            return Span(base, Running(points.values[base - first : end - first], self._rooms[name]))
        except TooLarge:
            raise NotSteady from None


def _windows_below(node: nd.Node, windows: dict[nd.Node, Window]) -> Iterator[Window]:
    if node in windows:
        yield windows[node]
    else:
        for inner in node.inputs:
            yield from _windows_below(inner, windows)
