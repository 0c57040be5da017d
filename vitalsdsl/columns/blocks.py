"""Blocks: comparisons of windows at some rows in a row, as cheaply as they can be had.

Where all that the left side can be at these rows lies below all that the right side can be, there is nothing more to work
out: first by what the points themselves are, then by what the windows' sums come to. Only else is it looked at row by row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from vitalsdsl.columns.at_rows import SYMBOLS
from vitalsdsl.columns.block_columns import EXTREMES, HUGE, BlockColumns, Buffers, Span, Window, is_size, off_of_spread
from vitalsdsl.kernels.columns import Array
from vitalsdsl.kernels.running import EPS, TINY
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes import operations as op
from vitalsdsl.nodes.possible import COMPARE, Possible
from vitalsdsl.ops.mean import Mean
from vitalsdsl.ops.std import Std
from vitalsdsl.ops.sum import Sum


class Range(NamedTuple):
    """From where to where all numbers of a block lie, whatever they may be off."""

    low: float
    high: float

    def widened(self, off: float) -> Range:
        return Range(self.low - off, self.high + off)


class Found:
    """What a comparison is at the rows of a run: unknown up to the first at which it is looked at. Most are never true."""

    def __init__(self, count: int, known_from: int) -> None:
        self.known_from = known_from
        self.open: list[Array] = []
        """The rows at which it is too close to call."""
        self._count = count
        self._true: Array | None = None
        self._unknown: Array | None = None

    @property
    def true(self) -> Array:
        if self._true is None:
            self._true = np.zeros(self._count, bool)
        return self._true

    @property
    def unknown(self) -> Array:
        if self._unknown is None:
            self._unknown = np.zeros(self._count, bool)
            self._unknown[: self.known_from] = True
        return self._unknown

    def put(self, rows: slice, value: bool) -> None:
        if value or self._true is not None:
            self.true[rows] = value

    def possible(self, untrue: dict[int, Possible]) -> Possible:
        """`untrue` is what such comparisons have in common that are never true, by the row from which on they are known."""
        if self._true is None and self._unknown is None and not self.open:
            if self.known_from not in untrue:
                untrue[self.known_from] = Possible(np.False_, ~self.unknown, self.unknown, True)
            return untrue[self.known_from]
        true, unknown = self.true, self.unknown
        false = ~(true | unknown)
        for rows in self.open:
            true[rows] = false[rows] = True
        return Possible(true, false, unknown, not self.open)


class Block(BlockColumns):
    """What comparisons are at the rows of a block."""

    def __init__(
        self, windows: dict[nd.Node, Window], spans: dict[str, Span], begin: int, end: int, buffers: Buffers
    ) -> None:
        super().__init__(windows, spans, begin, end, buffers)
        self._ranges: dict[Any, Range] = {}

    # ---------------------------------------------------------------- comparisons

    def compare(self, node: op.Comparison, first: int, found: Found) -> Array | None:
        """Put what a comparison is from a row on; the rows at which it is too close to call, if there are any. Raises
        NotSteady."""
        rows = slice(first, self.end)
        for inner in (node.left, node.right):
            self._prepare(inner)
        taken = self._buffers.taken()
        left, right = self._number(node.left), self._number(node.right)
        gap = np.subtract(left.values, right.values, out=self._buffers.take(self._count))[first - self.begin :]
        self._buffers.back_to(taken)
        missing = None if self._is_whole else np.isnan(gap, out=found.unknown[rows])
        close = _put(node.symbol, gap, (left.off + right.off) * (1 + 4 * EPS), found.true[rows], missing)
        return None if close is None else close + first

    def put(self, node: op.Comparison, first: int, found: Found, value: bool) -> None:
        """Put what has been decided of a comparison, from a row on: it is so wherever it is known."""
        rows = slice(first, self.end)
        found.put(rows, value)
        if self._is_whole:
            return
        for name in self._metrics_below(node):
            span = self._spans[name]
            if span.running.missing is not None:
                blank = np.isnan(span.running.values[first - span.base : self.end - span.base])
                found.unknown[rows] |= blank
                if value:
                    found.true[rows] &= ~blank

    def _metrics_below(self, node: nd.Node) -> Iterator[str]:
        """The metrics whose newest points a node compares."""
        if isinstance(node, nd.MetricNode):
            yield node.name
        elif node not in self._windows:
            for inner in node.inputs:
                yield from self._metrics_below(inner)

    def _windows_are_known(self, node: nd.Node) -> bool:
        """Whether all windows below a node have as many points as it takes, NaN or not."""
        window = self._windows.get(node)
        if window is not None:
            return self._spans[window.metric].running.fewest(window.length) >= window.function.minimum
        return all(self._windows_are_known(inner) for inner in node.inputs)

    def decided(self, node: op.Comparison, closely: bool) -> bool | None:
        """What a comparison is at all rows, if that can be seen from the ranges of its sides: of the points that there are,
        or, closely, of what its windows come to."""
        if not self._is_whole and not self._windows_are_known(node):
            return None
        left, right = self._range(node.left, closely), self._range(node.right, closely)
        apart = left.high < right.low or left.low > right.high
        if node.symbol in ("==", "!="):
            return node.symbol == "!=" if apart else None
        if node.symbol in ("<", "<="):
            left, right = right, left
        if apart:
            return left.low > right.high
        # They may touch: then it depends on whether the comparison is strict.
        if left.high <= right.low and node.symbol in (">", "<"):
            return False
        return True if left.low >= right.high and node.symbol in (">=", "<=") else None

    # ---------------------------------------------------------------- ranges

    def _range(self, node: nd.Node, closely: bool) -> Range:
        if isinstance(node, nd.Constant):
            return Range(node.value, node.value)
        if isinstance(node, (op.Arithmetic, op.ArithmeticChain)):
            return self._range_of_arithmetic(node, closely)
        if isinstance(node, op.Negative):
            inner = self._range(node.inputs[0], closely)
            return Range(-inner.high, -inner.low)
        if is_size(node):
            low, high = self._range(node.inputs[0], closely)
            return Range(max(low, -high, 0.0), max(high, -low))
        key = (node, closely)
        found = self._ranges.get(key)
        if found is None:
            if isinstance(node, nd.MetricNode):
                found = self._range_of_points(self._spans[node.name], 1, closely)
            else:
                found = self._range_of_window(self._windows[node], closely)
            self._ranges[key] = found
        return found

    def _range_of_arithmetic(self, node: op.Arithmetic | op.ArithmeticChain, closely: bool) -> Range:
        if isinstance(node, op.Arithmetic):
            steps = [(node.compute, node.right)]
            found = self._range(node.left, closely)
        else:
            steps, found = node.steps, self._range(node.inputs[0], closely)
        for compute, operand in steps:
            other, symbol = self._range(operand, closely), SYMBOLS[compute]
            if symbol == "+":
                found = Range(found.low + other.low, found.high + other.high)
            elif symbol == "-":
                found = Range(found.low - other.high, found.high - other.low)
            else:
                if symbol == "/":
                    if other.low <= TINY and other.high >= -TINY:
                        return Range(-math.inf, math.inf)
                    other = Range(1 / other.high, 1 / other.low)
                products = [a * b for a in found for b in other]
                found = Range(min(products), max(products))
            most = max(abs(found.low), abs(found.high))
            if not most < HUGE:
                return Range(-math.inf, math.inf)
            found = found.widened(8 * EPS * most + TINY)
        return found

    def _range_of_points(self, span: Span, reach: int, closely: bool) -> Range:
        """Of the points from so many rows before a block on."""
        if not closely:
            return Range(span.running.least, span.running.greatest)
        points = span.running.values[max(0, self.begin + 1 - reach - span.base) : self.end - span.base]
        least, most = (np.minimum, np.maximum) if span.running.missing is None else (np.fmin, np.fmax)
        return Range(float(least.reduce(points)), float(most.reduce(points)))

    def _range_of_window(self, window: Window, closely: bool) -> Range:
        span, n, function = self._spans[window.metric], window.length, window.function
        running = span.running
        if function in EXTREMES:
            return self._range_of_points(span, n, closely)
        apart, pivot = running.apart, running.pivot
        fewest = max(running.fewest(n), function.minimum)
        if function in (Mean, Sum):
            if not apart:
                mean = Range(pivot, pivot)
            elif not closely:
                mean = Range(running.least, running.greatest)
            else:
                sums = self._range_of("first", window).widened(running.off(n))
                mean = Range(min(sums.low / fewest, sums.low / n), max(sums.high / fewest, sums.high / n))
                mean = Range(mean.low + pivot, mean.high + pivot)
            found = (
                mean
                if function is Mean
                else Range(min(fewest * mean.low, n * mean.low), max(fewest * mean.high, n * mean.high))
            )
            return found.widened(8 * EPS * (n if function is Sum else 1) * running.most)
        if not apart:
            spread = Range(0.0, 0.0)
        elif not closely:
            spread = Range(0.0, 4 * apart * apart * (1 + 1e-9))
        else:
            low, high = self._range_of("spread", window).widened(off_of_spread(running, n))
            spread = Range(max(low, 0.0) / (n * (n - 1)), max(high, 0.0) / (fewest * (fewest - 1)))
        if function is Std:
            spread = Range(math.sqrt(spread.low), math.sqrt(spread.high))
        return Range(spread.low * (1 - 8 * EPS) - TINY, spread.high * (1 + 8 * EPS) + TINY)

    def _range_of(self, kind: str, window: Window) -> Range:
        """Of what has been worked out of each window."""
        key = (kind, window.metric, window.length)
        found = self._ranges.get(key)
        if found is None:
            column = self._spread(window) if kind == "spread" else self._difference(kind, window)
            own = column[self._skipped(window) :]
            found = self._ranges[key] = Range(float(own.min()), float(own.max()))
        return found


def _put(symbol: str, gap: Array, off: float, true: Array, missing: Array | None) -> Array | None:
    """Put what a comparison is of a gap between its sides that may be off; where it is too close to call, if anywhere."""
    if not off:
        COMPARE[symbol](gap, 0.0, out=true)
        if missing is not None:
            true &= ~missing
        return None
    if symbol in ("==", "!="):
        close = np.abs(gap) <= off
        true[:] = symbol == "!="
        if missing is not None:
            true &= ~missing
    else:
        # Surely true, and not surely false: where these differ it is too close to call.
        is_more = symbol in (">", ">=")
        surely = np.greater(gap, off, out=true) if is_more else np.less(gap, -off, out=true)
        possibly = gap >= -off if is_more else gap <= off
        if np.count_nonzero(surely) == np.count_nonzero(possibly):
            return None
        close = possibly & ~surely
    found: Array = np.nonzero(close)[0]
    return found if len(found) else None
