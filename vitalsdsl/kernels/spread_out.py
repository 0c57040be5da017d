"""The points of a stream in a recorded run, all at once, and what a function without a window makes of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from vitalsdsl.ground.types import SAMPLES, STEPS, Extent
from vitalsdsl.kernels.columns import Array, Column, Rows, Slack, dense
from vitalsdsl.kernels.roughly import Roughly
from vitalsdsl.kernels.sliding import LARGEST, Windows, at_or_below, so_far

MOST_WINDOWS = 8
"""Windows that are kept of one stream: a run may be judged by many policies that differ in their lengths alone."""

_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Points:
    """What a stream has: the rows at which it has a point, and the values, NaN and ±inf among them."""

    rows: Array
    values: Array
    slack: Slack = 0.0
    _windows: dict[tuple[Any, ...], Windows] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Those asked for so far: functions over the same window share what has been sorted for one of them."""

    def __len__(self) -> int:
        return len(self.rows)

    def since(self, row: int) -> Points:
        """Those from a row on."""
        if not row or not len(self.rows) or self.rows[0] >= row:
            return self
        begin = int(np.searchsorted(self.rows, row))
        return Points(self.rows[begin:], self.values[begin:], self.slack)

    def before(self, row: int) -> Points:
        """Those before a row."""
        end = int(np.searchsorted(self.rows, row))
        return Points(self.rows[:end], self.values[:end], self.slack)

    def until(self, rows: Rows, step: float) -> Points:
        """Those at steps up to one."""
        return self.before(int(np.searchsorted(rows.steps, step, side="right")))

    def at_edges(self, edges: Array, rows: Rows, side: Literal["left", "right"]) -> Column:
        """The newest point before the latest of some edges (left), or at or before it (right)."""
        newest: Array = np.searchsorted(self.rows, edges, side=side) - 1
        values = np.full(len(edges), np.nan)
        values[newest >= 0] = self.values[newest[newest >= 0]]
        return Column(dense(edges, values, len(rows)), self.slack)

    def windows(self, rows: Rows, extent: Extent, with_infinite: bool) -> Windows:
        """The windows that end at each closed step, as `Window` has them."""
        with_infinite = with_infinite and bool(np.isinf(self.values).any())
        key = ("over", extent, with_infinite, id(rows))
        return self._kept(key, lambda: Windows.over(self, rows, extent, with_infinite))

    def accepted(self, rows: Rows, extent: Extent) -> Windows:
        """What a reference knows at each closed step, if every finite point was let in."""
        return self._kept(("accepted", extent, id(rows)), lambda: Windows.accepted(self, rows, extent))

    def forget_windows(self) -> None:
        """Those asked for so far are made anew where somebody asks again."""
        self._windows.clear()

    def _kept(self, key: tuple[Any, ...], make: Callable[[], Windows]) -> Windows:
        if key not in self._windows:
            if len(self._windows) == MOST_WINDOWS:
                del self._windows[next(iter(self._windows))]
            self._windows[key] = make()
        return self._windows[key]

    def scores(self, rows: Rows, extent: Extent) -> Column | None:
        """Of the newest point, how many scatters it lies above the points before it."""
        windows, values, at = self._preceding(rows, extent)
        return _at_each(windows.scores(values), at, len(rows))

    def scores_roughly(self, rows: Rows, extent: Extent) -> Column | None:
        """The same between bounds, where these are much sooner had."""
        windows, values, at = self._preceding(rows, extent)
        rough = Roughly(windows)
        return _at_each(rough.scores(values), at, len(rows)) if rough.are_worth_it else None

    def _preceding(self, rows: Rows, extent: Extent) -> tuple[Windows, Array, Array]:
        """Of each point the window of those before it, its value and its row."""
        own = np.arange(len(self.rows)) if extent.unit == SAMPLES else _axis(rows, extent)[self.rows]
        placed = own == own
        own, values = own[placed], self.values[placed]
        finite = np.isfinite(values)
        lo = np.searchsorted(own[finite], own - extent.size, side="left")
        hi = np.searchsorted(own[finite], own, side="left")
        warm = own - own[0] >= extent.size if len(own) else np.zeros(0, bool)
        return Windows(values[finite], lo, hi, warm, self.slack), values, self.rows[placed]

    def one_way(self, rows: Rows, n: int, up: bool) -> Column | None:
        """Whether each of the last n points but the first is above (below) the one before."""
        if np.any(self.slack):
            return None
        values, at = self.values, np.arange(len(self.values))
        before = np.concatenate([[np.nan], values[:-1]])
        goes_on = values > before if up else values < before
        length = at - np.maximum.accumulate(np.where(goes_on, 0, at)) + 1
        whole = at - np.maximum.accumulate(np.where(np.isnan(values), at, -1))
        return Column(dense(self.rows, np.where(whole >= n, (length >= n).astype(float), np.nan), len(rows)))

    def smoothed(self, rows: Rows, size: float) -> Column | None:
        """The exponential average as `Smoothed` has it, in floats, off by what they round."""
        values = self.values
        if np.any(self.slack) or (np.abs(values[np.isfinite(values)]) > LARGEST).any():
            return None
        keep, level, off, newest = (size - 1) / (size + 1), math.nan, 0.0, 0
        levels, offs = [], []
        for step, x in zip(rows.steps[self.rows].tolist(), values.tolist()):
            if x - x == 0.0:
                if level != level:
                    level = x
                else:
                    gap = step - newest
                    w = keep**gap
                    off *= w
                    if x != level:
                        off += (8 + 2 * gap) * _EPS * (abs(level) + abs(x))
                        level = w * level + (1 - w) * x
                newest = step
            levels.append(level)
            offs.append(off)
        count = len(rows)
        found, slack = dense(self.rows, np.array(levels), count), dense(self.rows, np.array(offs), count, before=0.0)
        if len(self.rows):
            found[rows.steps - rows.steps[self.rows[0]] + 1 < size] = np.nan
        return Column(found, slack)

    def newest(self, rows: Rows) -> Column:
        """The newest point."""
        return Column(dense(self.rows, self.values, len(rows)), self.slack)

    def count(self, rows: Rows) -> Column:
        """Finite points since the start."""
        places = self.rows[np.isfinite(self.values)]
        return Column(so_far(places, len(rows)).astype(float))

    def lowest(self, rows: Rows) -> Column:
        """The lowest finite point since the start."""
        return self._extreme(rows, np.fmin)

    def highest(self, rows: Rows) -> Column:
        """The highest finite point since the start."""
        return self._extreme(rows, np.fmax)

    def _extreme(self, rows: Rows, better: Any) -> Column:
        finite = np.where(np.isfinite(self.values), self.values, np.nan)
        found = better.accumulate(finite) if len(finite) else finite
        zero = np.nonzero(found == 0.0)[0]
        if len(zero):
            found[zero] = finite[zero[0]]  # 0.0 and -0.0 are equal: the first of them stays
        return Column(dense(self.rows, found, len(rows)), self.slack)

    def back(self, rows: Rows, extent: Extent) -> Column:
        """The latest point at or before each closed step less a length: of samples, so many before the newest."""
        if extent.unit == SAMPLES:
            at = so_far(self.rows, len(rows)) - 1 - int(extent.size)
            values = self.values
        else:
            now = rows.steps if extent.unit == STEPS else rows.times
            own = now[self.rows]
            placed = own == own
            values = self.values[placed]
            # Which points there are by then does not matter: a length is longer than nothing.
            at = at_or_below(own[placed], now - extent.size) - 1
            if now.dtype.kind == "f":
                at = np.where(now == now, at, -1)
            at = np.maximum.accumulate(at) if len(at) else at
        found = np.full(len(rows), np.nan)
        known = at >= 0
        found[known] = values[at[known]]
        return Column(found, self.slack)

    def change(self, rows: Rows, extent: Extent) -> Column:
        """The newest point less the one a length back, as `change.difference`."""
        now, earlier = self._then_and_now(rows, extent)
        with np.errstate(over="ignore", invalid="ignore"):
            change = now - earlier
        is_lost = ~np.isfinite(change) & np.isfinite(now) & np.isfinite(earlier)
        return Column(np.where(is_lost, np.nan, change), 2 * self.slack)

    def growth(self, rows: Rows, extent: Extent) -> Column | None:
        """The same as a share of the earlier one's size, as `change.growth`."""
        if np.any(self.slack):
            return None
        now, earlier = self._then_and_now(rows, extent)
        with np.errstate(all="ignore"):
            change = now - earlier
            share = change / np.abs(earlier)
        is_finite = np.isfinite(now) & np.isfinite(earlier)
        if not np.isfinite(change)[is_finite].all():
            return None  # numbers too far apart for a float: the kernel knows how
        return Column(np.where((earlier == 0) | (is_finite & ~np.isfinite(share)), np.nan, share))

    def _then_and_now(self, rows: Rows, extent: Extent) -> tuple[Array, Array]:
        own = rows.times[self.rows]
        placed = self if extent.unit in (STEPS, SAMPLES) else Points(self.rows[own == own], self.values[own == own])
        return dense(placed.rows, placed.values, len(rows)), placed.back(rows, extent).values

    def opening(self, rows: Rows, extent: Extent, skip: float, settle: Callable[[list[float]], float]) -> Column:
        """One number, made of the finite points of the first stretch after `skip`, from where that is complete on."""
        out = np.full(len(rows), np.nan)
        if extent.unit == SAMPLES:
            places = np.arange(len(self.rows))
            lived = np.searchsorted(self.rows, np.arange(len(rows)), side="right")
            values = self.values
        else:
            now = rows.steps if extent.unit == STEPS else rows.times
            own = now[self.rows]
            placed = own == own
            if not placed.any():
                return Column(out)
            first, values = own[placed][0], self.values[placed]
            places = own[placed] - first
            lived = now - first + (extent.unit == STEPS)
            lived = np.where(np.arange(len(rows)) >= self.rows[placed][0], lived, 0)
        with np.errstate(invalid="ignore"):
            complete = lived >= skip + extent.size
        if complete.any():
            within = (places >= skip) & (places < skip + extent.size) & np.isfinite(values)
            taken = [float(value) for value in values[within]]
            out[np.argmax(complete) :] = settle(taken) if taken else np.nan
        return Column(out, self.slack)


def _at_each(found: Column | None, at: Array, count: int) -> Column | None:
    """What has been found at some rows, at each since."""
    if found is None:
        return None
    return Column(dense(at, found.values, count), dense(at, np.asarray(found.slack), count, before=0.0))


def _axis(rows: Rows, extent: Extent) -> Array:
    return rows.steps if extent.unit == STEPS else rows.times
