"""The windows of one length over a stream at all closed steps of a run, and what is read of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from vitalsdsl.kernels.columns import Array, Column, Rows, Slack
from vitalsdsl.types import SAMPLES, STEPS, Extent

if TYPE_CHECKING:
    from vitalsdsl.kernels.spread_out import Points

CHUNK = 1 << 20
"""Numbers that are laid out at once where windows overlap: 8 MB."""

LONGEST = 160
"""Points of a window up to which sorting each window anew is quicker than keeping one in order."""

MOST_LENGTHS = 64
"""Different lengths of windows up to which they are stacked length by length."""

LARGEST = 1e100
"""Points beyond this are gone through one by one: the kernels know how to add what is too large for a float."""

_EXTRA = np.longdouble
_EPS = float(np.finfo(_EXTRA).eps)
_ROUNDED = 4 * float(np.finfo(float).eps)
"""What the last roundings may take, relative to the result."""


class Windows:
    """The windows of one length over a stream, one for each closed step: the usable points `lo[i]` up to `hi[i]`.

    `warm` says where a window's span has been lived. What is read of a window is worked out once for each that differs
    from the one before.
    """

    def __init__(
        self, values: Array, lo: Array, hi: Array, warm: Array, slack: Slack = 0.0, steps: Array | None = None
    ) -> None:
        self.values = values
        self.steps = steps
        self.lo = np.minimum(lo, hi)
        self.hi = hi
        self.warm = warm
        self.slack = slack

    @classmethod
    def over(cls, points: Points, rows: Rows, extent: Extent, with_infinite: bool) -> Windows:
        """The windows that end at each closed step, as `Window` has them."""
        usable = ~np.isnan(points.values) if with_infinite else np.isfinite(points.values)
        at = np.arange(len(rows))
        if extent.unit == SAMPLES:
            seen = np.searchsorted(points.rows, at, side="right")
            places = np.nonzero(usable)[0]
            hi = np.searchsorted(places, seen - 1, side="right")
            lo = np.searchsorted(places, seen - extent.size, side="left")
            steps = rows.steps[points.rows[usable]]
            return cls(points.values[usable], lo, hi, seen >= extent.size, points.slack, steps)
        now = rows.steps if extent.unit == STEPS else rows.times
        own = now[points.rows]
        placed = own == own
        keep = usable & placed
        hi = np.searchsorted(points.rows[keep], at, side="right")
        lo = np.searchsorted(own[keep], now - extent.size, side="right")
        if placed.any():
            first = np.argmax(placed)
            lived = now - own[first] + (extent.unit == STEPS)
            warm = (lived >= extent.size) & (at >= points.rows[first])
        else:
            warm = np.zeros(len(rows), bool)
        return cls(points.values[keep], lo, hi, warm, points.slack, rows.steps[points.rows[keep]])

    @classmethod
    def accepted(cls, points: Points, rows: Rows, extent: Extent) -> Windows:
        """What a reference knows at each closed step, if every finite point was let in: the points of earlier steps."""
        own = (rows.times if extent.unit not in (STEPS, SAMPLES) else rows.steps)[points.rows]
        placed = own == own
        keep = np.isfinite(points.values) & placed
        known = np.searchsorted(points.rows[keep], np.arange(len(rows)), side="left")
        counts = np.arange(int(keep.sum()) + 1)
        if extent.unit == SAMPLES:
            oldest, warm = np.maximum(counts - int(extent.size), 0), counts >= extent.size
        else:
            newest = np.concatenate([[-np.inf], own[keep]])
            oldest = np.searchsorted(own[keep], newest - extent.size, side="right")
            first = own[placed][0] if placed.any() else np.nan
            warm = newest - first + (extent.unit == STEPS) >= extent.size
        return cls(points.values[keep], oldest[known], known, warm[known], points.slack)

    # ---------------------------------------------------------------- what is read of them

    def count(self) -> Column:
        """How many usable points."""
        return Column(np.where(self.warm, (self.hi - self.lo).astype(float), np.nan))

    def median(self) -> Column | None:
        """As `Ordered.median`."""
        return self._stacked(medians, 1, 1.0)

    def mad(self) -> Column | None:
        """As the function `mad`."""
        if not self._is_tame:
            return None
        return self._stacked(lambda stack: 1.4826 * (2 * half_deviations(stack)), 5, 3.0)

    def noise(self) -> Column | None:
        """As `Accepted.noise`."""
        if not self._is_tame:
            return None

        def read(stack: Array) -> Array:
            neighbours = medians(np.abs(np.diff(stack, axis=1))) / 0.954
            return np.maximum(1.4826 * 2 * half_deviations(stack), neighbours)

        return self._stacked(read, 5, 3.0)

    def usual(self) -> Column | None:
        """As `Accepted.usual`."""
        return self._stacked(medians, 5, 1.0)

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
        with np.errstate(divide="ignore", invalid="ignore"):
            values = (total / n + pivot).astype(float)
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
        if not self._is_tame:
            return None

        def read(stack: Array, steps: Array) -> Array:
            spread, together, _, off = _about_the_means(stack, steps)
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.stack([together / spread, off * np.sqrt(1.0 / spread)])

        return self._lined(read, 2)

    def resid_std(self) -> Column | None:
        """The standard deviation about that line, with n - 2."""
        if not self._is_tame:
            return None

        def read(stack: Array, steps: Array) -> Array:
            spread, together, about, off = _about_the_means(stack, steps)
            with np.errstate(divide="ignore", invalid="ignore"):
                rest = about[0] - about[1] * (together / spread)[:, None]
                values = np.sqrt((rest * rest).sum(axis=1) / (stack.shape[1] - 2))
            return np.stack([np.where(spread > 0, values, np.nan), off])

        return self._lined(read, 3)

    def _lined(self, read: Callable[[Array, Array], Array], minimum: int) -> Column | None:
        """What `read` gives for stacks of values and steps: values, and by how much they may be off."""
        if np.any(self.slack):
            return None
        steps = self.steps
        assert steps is not None
        found = self._read(read, minimum, (self.values, steps), 2)
        if found is None:
            return None
        values, slack = found
        return Column(np.where(np.isfinite(values), values, np.nan), np.nan_to_num(slack, nan=0.0))

    def is_known(self, minimum: int) -> Array:
        """Where the window is warm and has so many usable points."""
        return self.warm & (self.hi - self.lo >= minimum)

    def _column(self, values: Array, minimum: int, slack: Slack) -> Column:
        known = self.is_known(minimum) & np.isfinite(values)
        return Column(np.where(known, values, np.nan), self.slack + slack)

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
            return float(8 * _EPS * len(self.values) ** 2 * size**power)

    def _variance(self) -> tuple[Array, float]:
        n, total, squares, _ = self._sums
        with np.errstate(divide="ignore", invalid="ignore"):
            values = ((squares - total * total / n) / (n - 1)).astype(float)
        return np.where(n > 1, np.maximum(values, 0.0), np.nan), 4 * self._slack_of_sums(2)

    def _stacked(self, read: Callable[..., Array], minimum: int, spread: float) -> Column | None:
        """At each row what `read` gives for a stack of windows of one length (windows x points). None where they are too
        long, or of too many lengths, for this to be quick. `spread`: by how much an error of a point grows."""
        found = self._read(read, minimum, (self.values,), 1)
        if found is None:
            return None
        values = found[0]
        return Column(np.where(np.isinf(values) & ~self._has_infinite, np.nan, values), spread * self.slack)

    def _read(self, read: Callable[..., Array], minimum: int, laid: tuple[Array, ...], count: int) -> Array | None:
        known = self.is_known(minimum)
        lengths = np.unique((self.hi - self.lo)[known])
        if len(lengths) and (lengths[-1] > LONGEST or len(lengths) > MOST_LENGTHS):
            return None
        changes = np.ones(len(known), bool)
        changes[1:] = (np.diff(self.lo) != 0) | (np.diff(self.hi) != 0) | (known[1:] & ~known[:-1])
        rows = np.nonzero(changes & known)[0]
        out = np.full((count, len(known)), np.nan)
        lo, n = self.lo[rows], (self.hi - self.lo)[rows]
        for length in lengths:
            own = np.nonzero(n == length)[0]
            stacks = [np.lib.stride_tricks.sliding_window_view(one, int(length)) for one in laid]
            most = max(1, CHUNK // int(length))
            for begin in range(0, len(own), most):
                part = own[begin : begin + most]
                with np.errstate(all="ignore"):
                    out[:, rows[part]] = read(*[stack[lo[part]] for stack in stacks])
        newest = np.maximum.accumulate(np.where(changes, np.arange(len(known)), 0))
        return np.where(known, out[:, newest], np.nan)

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


# -------------------------------------------------------------------- of stacks of windows, one length each


def medians(windows: Array) -> Array:
    """The median of each row."""
    low, high = middles(windows)
    return midpoints(low, high)


def middles(windows: Array) -> tuple[Array, Array]:
    """The middle two of each row; of an odd number the middle one twice."""
    n = windows.shape[1]
    if n % 2:
        middle = np.partition(windows, n // 2, axis=1)[:, n // 2]
        return middle, middle
    parted = np.partition(windows, (n // 2 - 1, n // 2), axis=1)
    return parted[:, n // 2 - 1], parted[:, n // 2]


def midpoints(low: Array, high: Array) -> Array:
    """As `exact.midpoint` does it."""
    with np.errstate(over="ignore", invalid="ignore"):
        both = low + high
        return np.where(low == high, low, np.where(np.isfinite(both), both / 2, low / 2 + high / 2))


def half_deviations(windows: Array) -> Array:
    """Half the median distance of each row's numbers from their median, as `Spread.half_deviation` does it."""
    n = windows.shape[1]
    low, high = middles(windows)
    low, high = low[:, None] / 2, high[:, None] / 2
    half = windows / 2
    below = half <= low
    distances = np.where(below, midpoints(low - half, high - half), midpoints(half - low, half - high))
    k = (n + 1) // 2 - 1
    if n % 2:
        found: Array = np.partition(distances, k, axis=1)[:, k]
        return found
    parted = np.partition(distances, (k, k + 1), axis=1)
    return midpoints(parted[:, k], parted[:, k + 1])


def _about_the_means(stack: Array, steps: Array) -> tuple[Array, Array, tuple[Array, Array], Array]:
    """Of each row the sum of squares of its steps about their mean, that of their products with its values about theirs,
    both so centred, and by how much a value about a line may be off."""
    values = stack - stack.mean(axis=1, keepdims=True)
    places = steps - steps.mean(axis=1, keepdims=True)
    off = 1e-13 * (np.abs(values).max(axis=1) + np.abs(stack).max(axis=1) * 1e-2)
    return (places * places).sum(axis=1), (places * values).sum(axis=1), (values, places), off
