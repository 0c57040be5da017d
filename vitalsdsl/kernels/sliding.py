"""The windows of one length over a stream at all closed steps of a run, and what is read of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from vitalsdsl.ground.types import SAMPLES, STEPS, Extent
from vitalsdsl.kernels import lines
from vitalsdsl.kernels.columns import Array, Column, Rows, Slack
from vitalsdsl.kernels.in_order import InOrder, midpoints
from vitalsdsl.kernels.trends import Trends, trends

if TYPE_CHECKING:
    from vitalsdsl.kernels.spread_out import Points

LARGEST = 1e100
"""Points beyond this are gone through one by one: the kernels know how to add what is too large for a float."""

_EXTRA = np.longdouble
_FINE = float(np.finfo(_EXTRA).eps)
_EPS = float(np.finfo(float).eps)
_TINY = 1e-300
"""What may be lost of a number that is too small for a float of full precision."""

_ROUNDED = 4 * _EPS
"""What the last roundings may take, relative to the result."""


class Windows:
    """The windows of one length over a stream, one for each closed step: the usable points `lo[i]` up to `hi[i]`.

    `warm` says where a window's span has been lived. What is read of a window is worked out once for each that differs
    from the one before.
    """

    def __init__(
        self,
        values: Array,
        lo: Array,
        hi: Array,
        warm: Array,
        slack: Slack = 0.0,
        steps: Array | None = None,
        halfway: Callable[[], Array] | None = None,
    ) -> None:
        self.values = values
        self.steps = steps
        self.lo = np.minimum(lo, hi)
        self.hi = hi
        self.warm = warm
        self.slack = slack
        self._halfway = halfway
        """Where the later half of each begins; None where that is halfway from lo to hi."""

    @classmethod
    def over(cls, points: Points, rows: Rows, extent: Extent, with_infinite: bool) -> Windows:
        """The windows that end at each closed step, as `Window` has them."""
        usable = ~np.isnan(points.values) if with_infinite else np.isfinite(points.values)
        at = np.arange(len(rows))
        if extent.unit == SAMPLES:
            seen = so_far(points.rows, len(rows))
            first_of_each = np.maximum(np.ceil(seen - extent.size).astype(np.int64), 0)
            before = np.concatenate([[0], np.cumsum(usable)])
            lo, hi = before[first_of_each], before[seen]
            steps = rows.steps[points.rows[usable]]
            return cls(points.values[usable], lo, hi, seen >= extent.size, points.slack, steps)
        now = rows.steps if extent.unit == STEPS else rows.times
        own = now[points.rows]
        placed = own == own
        keep: Any = usable & placed
        if keep.all():
            keep = slice(None)  # nothing has to be copied
        places = own[keep]
        hi = so_far(points.rows[keep], len(rows))
        lo = at_or_below(places, now - extent.size)
        if placed.any():
            first = np.argmax(placed)
            lived = now - own[first] + (extent.unit == STEPS)
            warm = (lived >= extent.size) & (at >= points.rows[first])
        else:
            warm = np.zeros(len(rows), bool)
        return cls(
            points.values[keep],
            lo,
            hi,
            warm,
            points.slack,
            places if extent.unit == STEPS else rows.steps[points.rows[keep]],
            lambda: at_or_below(places, now - extent.size / 2),
        )

    @classmethod
    def accepted(cls, points: Points, rows: Rows, extent: Extent) -> Windows:
        """What a reference knows at each closed step, if every finite point was let in: the points of earlier steps."""
        own = (rows.times if extent.unit not in (STEPS, SAMPLES) else rows.steps)[points.rows]
        placed = own == own
        keep = np.isfinite(points.values) & placed
        known = np.concatenate([[0], so_far(points.rows[keep], len(rows))])[:-1]
        counts = np.arange(int(keep.sum()) + 1)
        if extent.unit == SAMPLES:
            oldest, warm = np.maximum(counts - int(extent.size), 0), counts >= extent.size
        else:
            newest = np.concatenate([[-np.inf], own[keep]])
            oldest = at_or_below(own[keep], newest - extent.size)
            first = own[placed][0] if placed.any() else np.nan
            warm = newest - first + (extent.unit == STEPS) >= extent.size
        return cls(points.values[keep], oldest[known], known, warm[known], points.slack)

    def at(self, rows: Array) -> Windows:
        """Those that end at some of the rows, which are in order."""
        return Windows(self.values, self.lo[rows], self.hi[rows], self.warm[rows], self.slack, self.steps)

    # ---------------------------------------------------------------- what is read of them

    def count(self) -> Column:
        """How many usable points."""
        return Column(np.where(self.warm, (self.hi - self.lo).astype(float), np.nan))

    def median(self) -> Column:
        """As `Ordered.median`."""
        return self._told(1, lambda: midpoints(*self._in_order.middles), 1.0)

    def mad(self) -> Column | None:
        """As the function `mad`."""
        return self._told(5, lambda: 1.4826 * (2 * self._in_order.half_deviations), 3.0) if self._is_tame else None

    def noise(self) -> Column | None:
        """As `Accepted.noise`."""
        if not self._is_tame:
            return None

        def read() -> Array:
            apart = midpoints(*self._neighbours.middles) / 0.954
            return np.maximum(1.4826 * 2 * self._in_order.half_deviations, apart)

        return self._told(5, read, 3.0)

    def usual(self) -> Column:
        """As `Accepted.usual`."""
        return self._told(5, lambda: midpoints(*self._in_order.middles), 1.0)

    def quantile(self, above: int, below: int) -> Column | None:
        """As `Ordered.quantile`, off by what rounding does."""
        finite = self.values[np.isfinite(self.values)]
        if (np.abs(finite) > LARGEST).any():
            return None
        low, high = self._in_order.ranked(
            lambda n: (n - 1) * above // below, lambda n: min((n - 1) * above // below + 1, n - 1)
        )
        rows, which = self._distinct
        lengths = (self.hi - self.lo)[rows]
        share = np.zeros(int(lengths.max(initial=0)) + 1)
        for n in np.unique(lengths).tolist():
            share[n] = (n - 1) * above % below / below
        part = share[lengths]
        with np.errstate(invalid="ignore"):
            is_between = np.isfinite(low) & np.isfinite(high) & (low != high)
            found = np.where(
                (part == 0) | (low == high), low, np.where(is_between, low + (high - low) * part, low + high)
            )
        off = np.where(is_between & (part > 0), 4 * _EPS * (np.abs(low) + np.abs(high)), 0.0)
        known = self.is_known(1)
        values, slack = np.full(len(known), np.nan), np.zeros(len(known))
        values[known], slack[known] = found[which[known]], off[which[known]]
        return Column(values, self.slack + slack)

    def trends(self) -> Trends | None:
        """As `Halves.trend`."""
        if not self._is_tame or np.any(self.slack):
            return None
        halfway = self.lo + (self.hi - self.lo) // 2
        if self._halfway is not None:
            halfway = np.clip(self._halfway(), self.lo, self.hi)
        return trends(self.values, self.lo, halfway, self.hi, self.warm)

    def scores(self, newest: Array) -> Column | None:
        """As `Preceding.read`, `newest` being the point that each window comes before."""
        if not self._is_tame or np.any(self.slack):
            return None
        low, high = self._in_order.middles
        half, which = self._in_order.half_deviations, self._distinct[1]
        known = self.is_known(5) & np.isfinite(newest) & (np.abs(newest) <= LARGEST)
        values, slack = np.full(len(known), np.nan), np.zeros(len(known))
        x, low, high, half = newest[known], low[which[known]], high[which[known]], half[which[known]]
        above = np.where(low == high, x / 2 - low / 2, ((x - low.astype(_EXTRA)) / 4 + (x - high.astype(_EXTRA)) / 4))
        with np.errstate(divide="ignore", invalid="ignore"):
            score = (above.astype(float) / half) / 1.4826
            off = 4 * _EPS * np.abs(score) + 4 * _FINE * (np.abs(x) + np.abs(low) + np.abs(high)) / half
        values[known] = np.where((half == 0) | np.isinf(score), np.nan, score)
        slack[known] = np.where((low == high) | (half == 0), 0.0, off)
        if (np.abs(newest[np.isfinite(newest)]) > LARGEST).any():
            return None
        return Column(values, slack)

    def share_of_ones(self) -> Column:
        """Of points that are 1 or 0."""
        ones = np.concatenate([[0], np.cumsum(self.values == 1.0)])
        with np.errstate(divide="ignore", invalid="ignore"):
            values = (ones[self.hi] - ones[self.lo]) / (self.hi - self.lo)
        return Column(np.where(self.is_known(1), values, np.nan))

    def cv(self) -> Column | None:
        """The standard deviation as a share of the size of the mean."""
        mean, std = self.mean(), self.std()
        if mean is None or std is None:
            return None
        size, known = np.abs(mean.values), self.is_known(2)
        if (known & ~(size > 2 * mean.slack) & (np.asarray(mean.slack) > 0)).any():
            return None  # whether the mean is 0 is more than these sums can say
        with np.errstate(divide="ignore", invalid="ignore"):
            values = std.values / size
            off = 2 * (std.slack + values * mean.slack) / size + 4 * _EPS * values
        is_exact = (np.asarray(std.slack) == 0) & (np.asarray(mean.slack) == 0) & (std.values == 0)
        is_known = known & (size > 0)
        return Column(np.where(is_known, values, np.nan), np.where(is_exact | ~is_known, 0.0, off))

    def least(self) -> Column:
        """The least of each window."""
        return Column(self._extreme(np.minimum), self.slack)

    def greatest(self) -> Column:
        """The greatest of each window."""
        return Column(self._extreme(np.maximum), self.slack)

    def sum(self) -> Column | None:
        """The sum of each window, off by what rounding does."""
        if not self._is_tame:
            return None
        n, total, _, pivot = self._sums
        values = (total + n * _EXTRA(pivot)).astype(float)
        return self._column(values, 1, self._slack_of_sums(1) + _ROUNDED * np.abs(values))

    def mean(self) -> Column | None:
        """The mean of each window; of equal points that value."""
        if not self._is_tame:
            return None
        n, total, _, pivot = self._sums
        values = (total / np.maximum(n, 1) + pivot).astype(
            float
        )  # what is unknown in so many digits takes a hundred times as long
        slack = self._slack_of_sums(1)
        return self._column(values, 1, slack + _ROUNDED * np.abs(values) if slack else 0.0)

    def std(self) -> Column | None:
        """The standard deviation of each window."""
        if not self._is_tame:
            return None
        variance, slack = self._variance()
        values = np.sqrt(variance)
        with np.errstate(divide="ignore", invalid="ignore"):
            off = np.minimum(np.sqrt(slack), slack / values) + _ROUNDED * values if slack else 0.0
        return self._column(values, 2, off)

    def var(self) -> Column | None:
        """The variance of each window."""
        if not self._is_tame:
            return None
        values, slack = self._variance()
        return self._column(values, 2, slack + _ROUNDED * values if slack else 0.0)

    def slope(self) -> Column | None:
        """The least-squares slope a step."""
        return self._lined(lines.slopes, 2)

    def resid_std(self) -> Column | None:
        """The standard deviation about that line, with n - 2."""
        return self._lined(lines.scatters, 3)

    def _lined(self, read: lines.Read, minimum: int) -> Column | None:
        """What is read of the line through each window."""
        steps = self.steps
        assert steps is not None
        is_short = self._in_order.is_stacked or (
            lines.is_even(steps) and int((self.hi - self.lo).max()) <= lines.LONGEST
        )
        if not is_short or not self._is_tame or np.any(self.slack):
            return None
        rows, which = self._distinct
        found, off = lines.lined(read, minimum, self.values, steps, self.lo[rows], self.hi[rows])
        values, slack = np.full(len(which), np.nan), np.zeros(len(which))
        known = self.is_known(minimum)
        values[known], slack[known] = found[which[known]], off[which[known]]
        return Column(np.where(np.isfinite(values), values, np.nan), np.nan_to_num(slack, nan=0.0))

    def is_known(self, minimum: int) -> Array:
        """Where the window is warm and has so many usable points."""
        return self.warm & (self.hi - self.lo >= minimum)

    def _column(self, values: Array, minimum: int, slack: Slack) -> Column:
        known = self.is_known(minimum) & np.isfinite(values)
        off = self.slack + slack
        return Column(np.where(known, values, np.nan), np.where(known, off, 0.0) if np.ndim(off) else off)

    @functools.cached_property
    def _sums(self) -> tuple[Array, Array, Array, float]:
        """(n, sum, sum of squares) of each window about a pivot, and the pivot: in more digits than a float has."""
        pivot = float(self.values[0]) if len(self.values) else 0.0
        about = self.values.astype(_EXTRA) - pivot
        zero = np.zeros(1, _EXTRA)
        first, second = np.concatenate([zero, np.cumsum(about)]), np.concatenate([zero, np.cumsum(about * about)])
        return self.hi - self.lo, first[self.hi] - first[self.lo], second[self.hi] - second[self.lo], pivot

    def _slack_of_sums(self, power: int) -> float:
        """By how much a window's sum of the first or second powers may be off: nothing where all points are equal."""
        if not len(self.values):
            return 0.0
        with np.errstate(over="ignore"):
            size = np.abs(self.values - self.values[0]).max()
            return float(8 * _FINE * len(self.values) ** 2 * size**power) + _TINY if size else 0.0

    def _variance(self) -> tuple[Array, float]:
        n, total, squares, _ = self._sums
        values = ((squares - total * total / np.maximum(n, 1)) / np.maximum(n - 1, 1)).astype(float)
        return np.where(n > 1, np.maximum(values, 0.0), np.nan), 4 * self._slack_of_sums(2)

    @functools.cached_property
    def _distinct(self) -> tuple[Array, Array]:
        """The rows whose window has points and differs from that of the row before, and for each row which of these it
        has: -1 before the first."""
        held = self.warm & (self.hi > self.lo)
        differs = held.copy()
        differs[1:] &= (self.lo[1:] != self.lo[:-1]) | (self.hi[1:] != self.hi[:-1]) | ~held[:-1]
        return np.nonzero(differs)[0], np.cumsum(differs) - 1

    @functools.cached_property
    def _in_order(self) -> InOrder:
        """The distinct windows."""
        rows, _ = self._distinct
        return InOrder(self.values, self.lo[rows], self.hi[rows])

    @functools.cached_property
    def _neighbours(self) -> InOrder:
        return InOrder(*self.neighbours())

    def neighbours(self) -> tuple[Array, Array, Array]:
        """Of the distinct windows the distances between neighbours; of a window of one point that to the point before."""
        rows, _ = self._distinct
        hi = self.hi[rows] - 1
        return np.abs(np.diff(self.values)), np.minimum(self.lo[rows], hi - 1).clip(0), hi.clip(1)

    def _told(self, minimum: int, read: Callable[[], Array], spread: float) -> Column:
        """At each row what `read` gives of the distinct windows. `spread`: by how much an error of a point grows."""
        known = self.is_known(minimum)
        values = np.full(len(known), np.nan)
        if known.any():
            with np.errstate(all="ignore"):
                found = read()
            found = np.where(np.isinf(found) & ~self._has_infinite, np.nan, found)
            values[known] = found[self._distinct[1][known]]
        return Column(values, spread * self.slack)

    @functools.cached_property
    def _is_tame(self) -> bool:
        """Whether no point is so large that a sum of squares could be too large for a float."""
        return not (np.abs(self.values) > LARGEST).any()

    @functools.cached_property
    def _has_infinite(self) -> bool:
        return bool(np.isinf(self.values).any())

    def _extreme(self, better: Any) -> Array:
        """The extreme of each window, from those of the stretches of 1, 2, 4, … points: two of them cover a window."""
        known = self.is_known(1)
        out = np.full(len(known), np.nan)
        rows = np.nonzero(known)[0]
        lo, hi = self.lo[rows], self.hi[rows]
        level, width, found = self.values, 1, np.full(len(rows), np.nan)
        while len(rows):
            own = (hi - lo >= width) & (hi - lo < 2 * width)
            found[own] = better(level[lo[own]], level[hi[own] - width])
            if 2 * width > len(self.values) or not (hi - lo >= 2 * width).any():
                break
            level = better(level[:-width], level[width:])
            width *= 2
        out[rows] = found
        return out


def so_far(rows: Array, count: int) -> Array:
    """How many of some rows are at or before each of the first so many."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
        return np.clip(np.arange(1 - rows[0], count + 1 - rows[0]), 0, len(rows))
    marks = np.zeros(count, dtype=np.int64)
    marks[rows] = 1
    return np.cumsum(marks)


def at_or_below(places: Array, bounds: Array) -> Array:
    """How many places, which are in order, are at or below each bound."""
    if len(places) and places.dtype.kind == "i" and places[-1] - places[0] == len(places) - 1:
        return np.clip(np.floor(bounds) - places[0] + 1, 0, len(places)).astype(np.int64)
    return np.searchsorted(places, bounds, side="right")
