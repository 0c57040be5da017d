"""Roughly: between which bounds the medians, quantiles and deviations of many windows lie, without finding one of them.

Windows that end one after the other have most of their points in common. A number that stands at place k of n points in
order of size is at most the k-th of any of them, and at least the one so many places lower as there are points besides. So
the points that a block of windows have in common, put in order once, say within a few ranks what each of them holds. That
decides whatever lies far from the bulk, at the price of a window in a hundred.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from vitalsdsl.kernels.columns import Array, Column
from vitalsdsl.kernels.in_order import MOST_LENGTHS, at_places, stacks
from vitalsdsl.kernels.sliding import LARGEST, Windows

_SHARE = 8
"""A block of windows takes up so small a part of one: the bounds are that part of the points apart, in rank."""

SHORTEST = 3 * _SHARE
"""Points of a window below which a block would be of hardly any."""

_ROUNDED = 1e-14
"""What the roundings of an answer may take, relative to it: a dozen of them."""

Place = Callable[[int], int]
"""Of so many numbers in order of size the place of one, the least being at 0."""


def between(low: Array, high: Array) -> Column:
    """What lies between two bounds; where they are infinite nothing is known of it."""
    with np.errstate(invalid="ignore", over="ignore"):
        values, slack = low / 2 + high / 2, high / 2 - low / 2
        slack = slack + _ROUNDED * (np.abs(low) + np.abs(high))
    is_bounded = np.isfinite(slack)
    return Column(np.where(is_bounded, values, 0.0), np.where(is_bounded, slack, np.inf))


class Roughly(Windows):
    """The same windows, of which the order is only looked at roughly: what is read of it has a slack.

    >>> values = np.arange(100.0)
    >>> windows = Windows(values, np.arange(10), np.arange(80, 90), np.ones(10, bool))
    >>> column = Roughly(windows).median()
    >>> bool((np.abs(windows.median().values - column.values) <= column.slack).all()), round(column.slack.max())
    (True, 5)
    """

    def __init__(self, windows: Windows) -> None:
        super().__init__(windows.values, windows.lo, windows.hi, windows.warm, windows.slack, windows.steps)
        self._exactly = windows  # as long as there is this, its identity is nobody else's
        self._distinct = windows._distinct
        rows, _ = self._distinct
        if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
            rows = slice(int(rows[0]), int(rows[-1]) + 1)  # nothing has to be copied
        lo, hi = self.lo[rows], self.hi[rows]
        self._blocks = _Blocks(self.values, lo, hi, max(1, int((hi - lo).mean()) // _SHARE) if len(lo) else 1)

    @property
    def are_worth_it(self) -> bool:
        """Whether bounds are much sooner had than the numbers themselves."""
        return self._blocks.are_long and self._is_tame and not np.any(self.slack)

    def median(self) -> Column:
        return self._bounded(1, *self._blocks.middles)

    def usual(self) -> Column:
        return self._bounded(5, *self._blocks.middles)

    def quantile(self, above: int, below: int) -> Column:
        last = above % below != 0
        low, high = self._blocks.ranked(
            lambda n: (n - 1) * above // below, lambda n: min((n - 1) * above // below + last, n - 1)
        )
        return self._bounded(1, low, high)

    def mad(self) -> Column:
        low, high = self._blocks.half_deviations
        return self._bounded(5, 1.4826 * 2 * low, 1.4826 * 2 * high)

    def noise(self) -> Column:
        low, high = self._blocks.half_deviations
        least, most = _Blocks(*self.neighbours(), self._blocks.size).middles
        return self._bounded(5, *(np.maximum(2 * 1.4826 * a, b / 0.954) for a, b in ((low, least), (high, most))))

    def scores(self, newest: Array) -> Column | None:
        if (np.abs(newest[np.isfinite(newest)]) > LARGEST).any():
            return None
        (low, high), (least, most) = self._blocks.middles, self._blocks.half_deviations
        low, high, least, most = (bound[self._which] for bound in (low, high, least, most))
        with np.errstate(all="ignore"):
            below, above = (newest - high) / 2, (newest - low) / 2
            found = between(
                below / np.where(below > 0, most, least) / 1.4826, above / np.where(above > 0, least, most) / 1.4826
            )
        unknown = ~self.is_known(5) | ~np.isfinite(newest)
        # Where most points may be equal there may be no score.
        slack = np.where(least > 0, found.slack, np.inf)
        return Column(np.where(unknown, np.nan, found.values), np.where(unknown, 0.0, slack))

    def _bounded(self, minimum: int, low: Array, high: Array) -> Column:
        """At each row what lies between the bounds of its window's block."""
        found, known = between(low, high), self.is_known(minimum)
        values, slack = found.values[self._which], found.slack[self._which]
        unknown = ~known
        values[unknown], slack[unknown] = np.nan, 0.0
        return Column(values, slack)

    @functools.cached_property
    def _which(self) -> Array:
        """The block of each row; of rows before the first window any."""
        return np.maximum(self._distinct[1], 0) // self._blocks.size


class _Blocks:
    """The windows `values[lo:hi]`, so many in a row together, and bounds for each such block. Neither lo nor hi goes back."""

    def __init__(self, values: Array, lo: Array, hi: Array, size: int) -> None:
        self.size = size
        self._values = values
        self._lengths = hi - lo
        self._starts = np.arange(0, len(lo), size)
        last = np.minimum(self._starts + size, len(lo)) - 1
        self._first, self._begins, self._end = lo[self._starts], lo[last], hi[last]
        self._common = np.maximum(hi[self._starts] - self._begins, 0)
        """How many points the windows of each block have in common."""

    @property
    def are_long(self) -> bool:
        return self.size * _SHARE >= SHORTEST and 0 < len(self._lengths_in_common) <= MOST_LENGTHS

    @functools.cached_property
    def _lengths_in_common(self) -> list[int]:
        """All but 0."""
        lengths: list[int] = np.nonzero(np.bincount(self._common))[0].tolist()
        return lengths[1:] if lengths and not lengths[0] else lengths

    @functools.cached_property
    def middles(self) -> tuple[Array, Array]:
        """Bounds of the median."""
        return self.ranked(lambda n: (n - 1) // 2, lambda n: n // 2)

    def ranked(self, first: Place, second: Place) -> tuple[Array, Array]:
        """A number that is at most what stands at the first place, and one that is at least what stands at the second."""
        low, high = self._looked_at(*self._places(first, second), lambda stack, own: stack)
        for block in np.nonzero(np.isinf(low) | np.isinf(high))[0].tolist():
            points = self._values[self._first[block] : self._end[block]]
            low[block], high[block] = max(low[block], points.min()), min(high[block], points.max())
        return low, high

    @functools.cached_property
    def half_deviations(self) -> tuple[Array, Array]:
        """Bounds of half the median distance from the median, of which the median's own bounds are a part."""
        low, high = self._looked_at(*self._places(lambda n: (n - 1) // 2, lambda n: n // 2), lambda stack, own: stack)
        with np.errstate(invalid="ignore"):
            middle, off = low / 2 + high / 2, high / 2 - low / 2
        off = off + _ROUNDED * (np.abs(low) + np.abs(high))
        nearer, farther = self._looked_at(
            *self._places(lambda n: (n - 1) // 2, lambda n: n // 2),
            lambda stack, own: np.abs(np.subtract(stack, middle[own, None], out=stack), out=stack),
        )
        with np.errstate(invalid="ignore"):
            least, most = np.maximum((nearer - off) / 2, 0.0), (farther + off) / 2
        return np.where(np.isfinite(least), least, 0.0), np.where(np.isfinite(off), most, np.inf)

    def _places(self, first: Place, second: Place) -> tuple[Array, Array]:
        """In the common points of each block the place that is surely low enough, and the one that is surely high enough."""
        least, most = int(self._lengths.min()), int(self._lengths.max())
        if least == most:
            return self._common + (first(least) - least), np.full(len(self._common), second(least))
        lengths = np.nonzero(np.bincount(self._lengths))[0].tolist()
        lowest, highest = np.zeros((2, lengths[-1] + 1), dtype=np.int64)
        for n in lengths:
            lowest[n], highest[n] = first(n) - n, second(n)
        return (
            np.minimum.reduceat(lowest[self._lengths], self._starts) + self._common,
            np.maximum.reduceat(highest[self._lengths], self._starts),
        )

    def _looked_at(
        self, lowest: Array, highest: Array, made_of: Callable[[Array, Array], Array]
    ) -> tuple[Array, Array]:
        """What stands at two places of each block's common points, or of what is made of them; infinite beyond them."""
        low, high = np.full(len(self._starts), -np.inf), np.full(len(self._starts), np.inf)
        for length in self._lengths_in_common:
            for own, (stack,) in stacks(self._begins, self._common, length, self._values):
                stack = made_of(stack, own)
                own_low, own_high = lowest[own], np.minimum(highest[own], length)
                at_low, at_high = at_places(stack, np.maximum(own_low, 0), np.minimum(own_high, length - 1))
                low[own] = np.where(own_low >= 0, at_low, -np.inf)
                high[own] = np.where(own_high < length, at_high, np.inf)
        return low, high
