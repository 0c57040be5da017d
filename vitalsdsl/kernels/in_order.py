"""Many windows of one column, each in order of size: what a run's medians, quantiles and deviations are read from."""

from __future__ import annotations

import functools
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from vitalsdsl.kernels.columns import Array
from vitalsdsl.kernels.exact import midpoint
from vitalsdsl.kernels.ordered import middle
from vitalsdsl.kernels.selection import Selection, outwards

CHUNK = 1 << 17
"""Numbers that are laid out at once where windows overlap: 1 MB, which stays in the processor's cache."""

KEPT = CHUNK
"""Numbers up to which windows that were sorted once are kept for the next question: no more than are laid out at once."""

LONGEST = 160
"""Points of a window, for each point by which it is further than the one before, up to which sorting each window anew is
quicker than keeping one in order."""

_LONG = 256
"""Numbers from which on to look for two places is quicker than to put all in order."""

MOST_LENGTHS = 64
"""Different lengths of windows up to which they are sorted length by length."""


class InOrder:
    """The windows `values[lo:hi]`, none of them empty. Neither lo nor hi ever goes back.

    >>> windows = InOrder(np.array([3.0, 1.0, 2.0, 9.0]), np.array([0, 1]), np.array([3, 4]))
    >>> [column.tolist() for column in windows.middles]
    [[2.0, 2.0], [2.0, 2.0]]
    """

    def __init__(self, values: Array, lo: Array, hi: Array) -> None:
        self._values = values
        self._lo = lo
        self._hi = hi
        self._lengths = hi - lo
        self._different = np.nonzero(np.bincount(self._lengths))[0].tolist()
        step = (hi[-1] - hi[0]) / (len(hi) - 1) if len(hi) > 1 else 1.0
        self.is_stacked = not self._different or (
            self._different[-1] <= LONGEST * max(1.0, step) and len(self._different) <= MOST_LENGTHS
        )
        self._sorted: dict[int, Array] = {}

    @functools.cached_property
    def middles(self) -> tuple[Array, Array]:
        """The middle two numbers of each; of an odd number the middle one twice."""
        return self.ranked(lambda n: (n - 1) // 2, lambda n: n // 2)

    @functools.cached_property
    def half_deviations(self) -> Array:
        """Half the median distance of each one's numbers from their median, as `Spread.half_deviation` has it."""
        found = np.empty(len(self._lo))
        if self.is_stacked:
            for own, stack in self._stacks():
                found[own] = half_deviations(stack)
            self._sorted.clear()
            return found
        selection = Selection()
        for i, ordered in enumerate(self._one_by_one()):
            n = len(ordered)
            nearer, farther = selection.find(outwards(ordered, *middle(ordered)), (n + 1) // 2)
            found[i] = nearer if n % 2 else midpoint(nearer, farther)
        return found

    def ranked(self, first: Callable[[int], int], second: Callable[[int], int]) -> tuple[Array, Array]:
        """The numbers at two places (of n numbers in order of size), the least being at 0."""
        if not self.is_stacked:
            return self._ranked_one_by_one(first, second)
        low, high = np.empty(len(self._lo)), np.empty(len(self._lo))
        if self._different and self._different[-1] >= _LONG:
            for length in self._different:
                for own, (stack,) in stacks(self._lo, self._lengths, length, self._values):
                    places = np.full((2, len(own)), [[first(length)], [second(length)]])
                    low[own], high[own] = at_places(stack, *places)
            return low, high
        for own, stack in self._stacks():
            n = stack.shape[1]
            low[own], high[own] = stack[:, first(n)], stack[:, second(n)]
        return low, high

    def _ranked_one_by_one(self, first: Callable[[int], int], second: Callable[[int], int]) -> tuple[Array, Array]:
        places = np.zeros((2, self._different[-1] + 1), dtype=np.int64)
        for n in self._different:
            places[:, n] = first(n), second(n)
        low: list[float] = []
        high: list[float] = []
        for ordered, i, j in zip(self._one_by_one(), *places[:, self._lengths].tolist()):
            low.append(ordered[i])
            high.append(ordered[j])
        return np.array(low), np.array(high)

    def _stacks(self) -> Iterator[tuple[Array, Array]]:
        """Which windows, and these sorted: (windows x points) of one length."""
        small = int(self._lengths.sum()) <= KEPT
        for length in self._different:
            for own, stack in stacks(self._lo, self._lengths, length, self._values):
                kept = self._sorted.get(length)
                if kept is None:
                    kept = stack[0]
                    kept.sort(axis=1)
                    if small:
                        self._sorted[length] = kept
                yield own, kept

    def _one_by_one(self) -> Iterator[Sequence[float]]:
        """Each window in turn, as one list that is kept in order."""
        values = self._values.tolist()
        ordered: list[float] = []
        begin = end = 0
        for lo, hi in zip(self._lo.tolist(), self._hi.tolist()):
            if lo >= end:
                ordered, begin, end = sorted(values[lo:hi]), lo, hi
            if hi == end + 1:
                insort(ordered, values[end])
            else:
                for value in values[end:hi]:
                    insort(ordered, value)
            if lo == begin + 1:
                del ordered[bisect_left(ordered, values[begin])]
            else:
                for value in values[begin:lo]:
                    del ordered[bisect_left(ordered, value)]
            begin, end = lo, hi
            yield ordered


def stacks(lo: Array, lengths: Array, length: int, *columns: Array) -> Iterator[tuple[Array, list[Array]]]:
    """The windows of one length, a chunk at a time: which they are, and of each column a copy of them, one a row."""
    own = np.nonzero(lengths == length)[0]
    laid = [np.lib.stride_tricks.sliding_window_view(column, length) for column in columns]
    most = max(1, CHUNK // length)
    for begin in range(0, len(own), most):
        part = own[begin : begin + most]
        yield part, [stack[lo[part]] for stack in laid]


def at_places(stack: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """What stands at two places of each row, one not beyond the other, once it is in order. The stack is spoilt."""
    first, last = int(low[0]), int(high[0])
    if stack.shape[1] < _LONG or (low != first).any() or (high != last).any():
        stack.sort(axis=1)
        rows = np.arange(len(stack))
        return stack[rows, low], stack[rows, high]
    stack.partition(last, axis=1)
    at_last = stack[:, last].copy()
    if first < last:
        stack[:, :last].partition(first, axis=1)
    return stack[:, first], at_last


def midpoints(low: Array, high: Array) -> Array:
    """As `exact.midpoint` does it."""
    with np.errstate(over="ignore", invalid="ignore"):
        both = low + high
        return np.where(low == high, low, np.where(np.isfinite(both), both / 2, low / 2 + high / 2))


def half_deviations(ordered: Array) -> Array:
    """Half the median distance of each row's finite numbers, which are in order of size, from their median.

    The k numbers that are nearest to the median stand side by side. Where they begin is found by halving: the farther
    to the right, the farther off the last of them is, and the nearer the first.
    """
    count, n = ordered.shape
    flat, row = ordered.ravel(), np.arange(count) * n
    low, high = flat[row + (n - 1) // 2] / 2, flat[row + n // 2] / 2

    def below(at: Array) -> Array:
        half = flat[row + at] / 2
        return low - half if n % 2 else midpoints(low - half, high - half)

    def above(at: Array) -> Array:
        half = flat[row + at] / 2
        return half - low if n % 2 else midpoints(half - low, half - high)

    k = (n + 1) // 2
    least, most = np.zeros(count, dtype=np.int64), np.full(count, n - k)
    for _ in range((n - k).bit_length()):
        at = (least + most) // 2
        is_enough = above(np.minimum(at + k - 1, n - 1)) >= below(at)
        least, most = np.where(is_enough, least, np.minimum(at + 1, most)), np.where(is_enough, at, most)
    before = np.maximum(most - 1, 0)
    begin = np.where((most > 0) & (below(before) < above(most + k - 1)), before, most)
    found: Array = np.maximum(below(begin), above(begin + k - 1))
    if n % 2:
        return found
    left = np.where(begin > 0, below(np.maximum(begin - 1, 0)), np.inf)
    right = np.where(begin + k < n, above(np.minimum(begin + k, n - 1)), np.inf)
    return midpoints(found, np.minimum(left, right))
