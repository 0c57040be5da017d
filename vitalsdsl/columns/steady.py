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

from vitalsdsl.columns.block_columns import EXTREMES, MOMENTS, Buffers, NotSteady, Span, Window, is_size
from vitalsdsl.columns.blocks import Block, Found
from vitalsdsl.columns.run_columns import RunColumns
from vitalsdsl.ground.types import SAMPLES, STEPS
from vitalsdsl.kernels.columns import Array
from vitalsdsl.kernels.running import Room, Running, TooLarge
from vitalsdsl.kernels.spread_out import Points
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes import operations as op
from vitalsdsl.nodes.possible import Possible
from vitalsdsl.ops.std import Std
from vitalsdsl.ops.var import Var

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

LONGEST_PAUSE = 16
"""Blocks for which ranges are not asked for at most."""


class Steady:
    """The comparisons of a plan over one run that can be had in this way."""

    def __init__(self, columns: RunColumns) -> None:
        self._columns = columns
        self._found: dict[nd.Node, Possible] | None = None

    def said(self, node: op.Comparison) -> Possible | None:
        """What a comparison can be at each row; None where whole columns have to be worked out."""
        if self._found is None:
            self._found = {}
            untrue: dict[int, Possible] = {}
            for group in self._groups():
                try:
                    found = group.found()
                except NotSteady:
                    continue
                self._found.update({node: one.possible(untrue) for node, one in found.items()})
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
            spans = {name: (steady[name], layout.reach[name], room) for name, room in zip(names, rooms)}
            yield _Group(columns.count, comparisons, spans, layout, buffers)


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
        self.reach: dict[str, int] = {}
        """Of each metric the longest of its windows."""
        self.scattered: set[op.Comparison] = set()
        """Those of how far points are scattered: of that the points by themselves say little."""
        for node in columns.comparisons():
            try:
                names, known_from = self._looked_into(node)
            except NotSteady:
                continue
            if not names:
                continue
            self.groups.setdefault(names, {})[node] = known_from
            for window in self._windows_below(node):
                if window.function in (Std, Var):
                    self.scattered.add(node)
            for name in names:
                longest = max((w.length for w in self._windows_below(node) if w.metric == name), default=1)
                self.reach[name] = max(longest, self.reach.get(name, 1))
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
        if isinstance(node, (op.Comparison, op.Arithmetic, op.ArithmeticChain, op.Negative)) or is_size(node):
            found = [self._looked_into(inner) for inner in node.inputs]
            return frozenset().union(*(names for names, _ in found)), max(known for _, known in found)
        raise NotSteady

    def _windows_below(self, node: nd.Node) -> Iterator[Window]:
        if node in self.windows:
            yield self.windows[node]
        else:
            for inner in node.inputs:
                yield from self._windows_below(inner)

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
    """Comparisons that rest on the same metrics: of each its points, how far its windows reach back, and room for it."""

    def __init__(
        self,
        count: int,
        comparisons: Mapping[op.Comparison, int],
        metrics: Mapping[str, tuple[Points, int, Room]],
        layout: _Layout,
        buffers: Buffers,
    ) -> None:
        self._count = count
        self._metrics = metrics
        self._layout = layout
        self._buffers = buffers
        self._found = {node: Found(count, known_from) for node, known_from in comparisons.items()}
        self._pauses: dict[op.Comparison, tuple[int, int]] = {}
        """For how many blocks ranges are not asked for when they say nothing again, and for how many that is so now."""

    def found(self) -> dict[op.Comparison, Found]:
        """Raises NotSteady."""
        begin = min(found.known_from for found in self._found.values())
        length = max(SEGMENT, *(reach for _, reach, _ in self._metrics.values()))
        for at in range(begin, self._count, length):
            self._segment(list(self._found), at, min(at + length, self._count))
        return self._found

    def _segment(self, nodes: Sequence[op.Comparison], begin: int, end: int) -> None:
        spans = {name: self._span(name, begin, end) for name in self._metrics}
        nodes = list(self._undecided(nodes, Block(self._layout.windows, spans, begin, end, self._buffers)))
        if not nodes:
            return
        open_rows: dict[op.Comparison, list[Array]] = {}
        for at in range(begin, end, BLOCK):
            block = Block(self._layout.windows, spans, at, min(at + BLOCK, end), self._buffers)
            for node in nodes:
                found = self._found.get(node)
                if found is None or found.known_from >= block.end:
                    continue
                first = max(at, found.known_from)
                try:
                    if self._is_decided(node, found, block, first):
                        continue
                    rows = block.compare(node, first, found)
                except NotSteady:
                    del self._found[node]
                    continue
                if rows is not None:
                    open_rows.setdefault(node, []).append(rows)
        again = []
        for node, rows in open_rows.items():
            if node not in self._found:
                continue
            if end - begin > SHORTEST and sum(map(len, rows)) > MOST_OPEN:
                again.append(node)
            else:
                self._found[node].open += rows
        if again:
            middle = (begin + end) // 2
            self._segment(again, begin, middle)
            self._segment(again, middle, end)

    def _is_decided(self, node: op.Comparison, found: Found, block: Block, first: int) -> bool:
        """Whether the ranges of a block's windows say what a comparison is there. To find them takes half as long as to
        compare: where they said nothing, the next blocks are not asked for them, ever more of these."""
        pause, left = self._pauses.get(node, (2, 0))
        if left:
            self._pauses[node] = pause, left - 1
            return False
        said = block.decided(node, closely=True)
        if said is None:
            self._pauses[node] = min(2 * pause, LONGEST_PAUSE), pause
            return False
        self._pauses.pop(node, None)
        block.put(node, first, found, said)
        return True

    def _undecided(self, nodes: Sequence[op.Comparison], whole: Block) -> Iterator[op.Comparison]:
        """Without those of which the points alone say what they are in a whole segment."""
        for node in nodes:
            said = None if node in self._layout.scattered else whole.decided(node, closely=False)
            if said is None:
                yield node
            else:
                found = self._found[node]
                whole.put(node, max(whole.begin, found.known_from), found, said)

    def _span(self, name: str, begin: int, end: int) -> Span:
        points, reach, room = self._metrics[name]
        first = int(points.rows[0])
        base = max(first, begin - reach + 1)
        try:
            return Span(base, Running(points.values[base - first : end - first], room))
        except TooLarge:
            raise NotSteady from None
