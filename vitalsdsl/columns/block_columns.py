"""Windows at some rows in a row, over metrics that have a point at each of them: a column for each, in memory that is kept."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from vitalsdsl.columns.at_rows import SYMBOLS
from vitalsdsl.kernels.columns import Array
from vitalsdsl.kernels.running import EPS, TINY, Running
from vitalsdsl.nodes import base as nd
from vitalsdsl.nodes import operations as op
from vitalsdsl.ops.abs import Abs
from vitalsdsl.ops.base import Windowed
from vitalsdsl.ops.max import Max
from vitalsdsl.ops.mean import Mean
from vitalsdsl.ops.min import Min
from vitalsdsl.ops.std import Std
from vitalsdsl.ops.sum import Sum
from vitalsdsl.ops.var import Var

HUGE = 1e300
"""Results beyond this may be too large for a float, and unknown."""

MOMENTS = (Mean, Std, Sum, Var)
EXTREMES = (Max, Min)


class NotSteady(Exception):
    """Something for which whole columns have to be worked out."""


@dataclass(frozen=True)
class Window:
    """A function over a metric's last `length` rows, known from the row `known_from` on."""

    function: type[Windowed]
    metric: str
    length: int
    known_from: int


@dataclass(frozen=True)
class Span:
    """A metric's points from a row on."""

    base: int
    running: Running


class Numbers(NamedTuple):
    """A number at each row of a block (or one for all), by how much they may be off, and how large they may be."""

    values: Any
    off: float
    most: float


class Buffers:
    """Room for a block's columns, taken again by the next block: asking for new memory takes longer than to fill it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._all: list[Array] = []
        self._taken = 0

    def take(self, size: int) -> Array:
        if self._taken == len(self._all):
            self._all.append(np.empty(self._size))
        self._taken += 1
        return self._all[self._taken - 1][:size]

    def taken(self) -> int:
        return self._taken

    def back_to(self, taken: int) -> None:
        """What has been taken since is free again."""
        self._taken = taken


class BlockColumns:
    """The rows from `begin` up to `end`, over metrics that have a point at each of them."""

    def __init__(
        self, windows: dict[nd.Node, Window], spans: dict[str, Span], begin: int, end: int, buffers: Buffers
    ) -> None:
        self.begin = begin
        self.end = end
        self._windows = windows
        self._spans = spans
        self._count = end - begin
        self._buffers = buffers
        self._is_whole = all(span.running.missing is None for span in spans.values())
        self._sums: dict[tuple[str, int, str], Array] = {}
        self._read: dict[Window, Numbers] = {}
        buffers.back_to(0)

    # ---------------------------------------------------------------- numbers

    def _prepare(self, node: nd.Node) -> None:
        """Work out the windows below a node: they stay until the block is done, for whoever else asks."""
        window = self._windows.get(node)
        if window is None:
            for inner in node.inputs:
                self._prepare(inner)
        elif window not in self._read:
            self._read[window] = self._values(window)

    def _number(self, node: nd.Node) -> Numbers:
        if isinstance(node, nd.Constant):
            return Numbers(node.value, 0.0, abs(node.value))
        if isinstance(node, nd.MetricNode):
            span = self._spans[node.name]
            return Numbers(span.running.values[self.begin - span.base : self.end - span.base], 0.0, span.running.most)
        if isinstance(node, op.Arithmetic):
            return self._worked_out(SYMBOLS[node.compute], self._number(node.left), self._number(node.right))
        if isinstance(node, op.ArithmeticChain):
            found = self._number(node.inputs[0])
            for compute, operand in node.steps:
                found = self._worked_out(SYMBOLS[compute], found, self._number(operand))
            return found
        if isinstance(node, op.Negative):
            inner = self._number(node.inputs[0])
            return Numbers(np.negative(inner.values), inner.off, inner.most)
        if is_size(node):
            inner = self._number(node.inputs[0])
            out = self._buffers.take(self._count) if np.ndim(inner.values) else None
            return Numbers(np.abs(inner.values, out=out), inner.off, inner.most)
        return self._read[self._windows[node]]

    def _worked_out(self, symbol: str, left: Numbers, right: Numbers) -> Numbers:
        a, b = left.values, right.values
        out = self._buffers.take(self._count) if np.ndim(a) or np.ndim(b) else None
        if symbol in "+-":
            values = np.add(a, b, out=out) if symbol == "+" else np.subtract(a, b, out=out)
            off, most = left.off + right.off, left.most + right.most
        elif symbol == "*":
            values = np.multiply(a, b, out=out)
            off = left.most * right.off + right.most * left.off + left.off * right.off
            most = left.most * right.most
        else:
            least = float(np.fmin.reduce(np.abs(b))) - right.off if np.ndim(b) else abs(b)
            if not least > TINY:
                raise NotSteady  # it may be 0
            values = np.divide(a, b, out=out)
            most = left.most / least
            off = (left.off + most * right.off) / least
        if not most < HUGE:
            raise NotSteady
        # Of exact operands the result is the stream's own.
        return Numbers(values, off * (1 + 8 * EPS) + 2 * EPS * most + TINY if off else 0.0, most)

    def _values(self, window: Window) -> Numbers:
        running, n, skip = self._spans[window.metric].running, window.length, self._skipped(window)
        if window.function in EXTREMES:
            lo = self._lowest(window)
            found = running.extremes(window.function is Max, n)[lo + skip : lo + self._count]
            if skip:
                out = self._buffers.take(self._count)
                out[:skip] = np.nan
                out[skip:] = found
                found = out
            return Numbers(found, 0.0, running.most)
        out, size = self._buffers.take(self._count), self._sizes(window)
        fewest = max(running.fewest(n), window.function.minimum)
        if window.function in (Mean, Sum):
            sums, off, times = self._difference("first", window), running.off(n), n if window.function is Sum else 1
            if times == 1:
                np.divide(sums, size, out=out)
                out += running.pivot
                off /= fewest
            else:
                np.multiply(size, running.pivot, out=out)
                out += sums
            most = times * running.most
            return Numbers(out, off + 4 * EPS * most + TINY if off else 0.0, most)
        off, most = off_of_spread(running, n) / (fewest * (fewest - 1)), (2 * running.apart) ** 2
        np.multiply(self._spread(window), self._share(window), out=out)
        np.maximum(out, 0.0, out=out)
        if window.function is Std:
            if off:
                least = float(np.fmin.reduce(out[skip:], initial=math.inf))
                off = math.sqrt(off) if least <= off else off / math.sqrt(least)
            np.sqrt(out, out=out)
            most = 2 * running.apart
        return Numbers(out, off + 4 * EPS * most + TINY if off else 0.0, most)

    # ---------------------------------------------------------------- sums

    def _lowest(self, window: Window) -> int:
        """Where in the metric's points the window of the block's first row begins."""
        return self.begin + 1 - window.length - self._spans[window.metric].base

    def _skipped(self, window: Window) -> int:
        """The rows at which there is no whole window yet: what stands there is not read."""
        return max(0, -self._lowest(window))

    def _sizes(self, window: Window) -> Any:
        """How many points there are in each window; NaN where there are too few."""
        running, n = self._spans[window.metric].running, window.length
        if running.missing is None:
            return float(n)
        key, minimum = (window.metric, n, "sizes"), window.function.minimum
        found = self._sums.get(key)
        if found is None:
            found = self._sums[key] = self._buffers.take(self._count)
            lo, skip = self._lowest(window), self._skipped(window)
            ends, begins = (
                running.missing[lo + skip + n : lo + n + self._count],
                running.missing[lo + skip : lo + self._count],
            )
            found[:skip] = np.nan
            np.subtract(begins, ends, out=found[skip:])
            found[skip:] += n
        return found if running.fewest(n) >= minimum else np.where(found >= minimum, found, np.nan)

    def _share(self, window: Window) -> Any:
        """What the variance is of what `_spread` has."""
        size = self._sizes(window)
        if not np.ndim(size):
            return 1 / (size * (size - 1))
        key = (window.metric, window.length, "share")
        found = self._sums.get(key)
        if found is None:
            found = self._sums[key] = self._buffers.take(self._count)
            np.subtract(size, 1.0, out=found)
            found *= size
            np.divide(1.0, found, out=found)
        return found

    def _difference(self, power: str, window: Window) -> Array:
        """The sum of each window: what runs up to its end less what runs up to its begin."""
        key = (window.metric, window.length, power)
        found = self._sums.get(key)
        if found is None:
            found = self._sums[key] = self._buffers.take(self._count)
            running: Array = getattr(self._spans[window.metric].running, power)
            n, lo, skip = window.length, self._lowest(window), self._skipped(window)
            found[:skip] = np.nan
            ends, begins = running[lo + skip + n : lo + n + self._count], running[lo + skip : lo + self._count]
            np.subtract(ends, begins, out=found[skip:])
        return found

    def _spread(self, window: Window) -> Array:
        """The variance of each window times n * (n - 1), as it comes: rounding may leave it below 0."""
        key = (window.metric, window.length, "spread")
        found = self._sums.get(key)
        if found is None:
            found = self._sums[key] = self._difference("second", window)
            sums, square = self._difference("first", window), self._buffers.take(self._count)
            found *= self._sizes(window)
            np.multiply(sums, sums, out=square)
            found -= square
        return found


def is_size(node: nd.Node) -> bool:
    """Whether a node is `abs` of another."""
    return isinstance(node, op.Elementwise) and node.compute is Abs.value


def off_of_spread(running: Running, n: int) -> float:
    """By how much a window's variance times n * (n - 1) may be off, of n points at most."""
    if not running.apart:
        return 0.0
    sums, squares, largest = running.off(n), running.off_squares(n), n * running.apart
    square = min(largest * largest, n * float(running.second[-1]))
    return (n * squares + 2 * largest * sums + sums * sums + 4 * EPS * square) * (1 + 16 * EPS) + TINY
