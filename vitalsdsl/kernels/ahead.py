"""Ahead: what the windows of a stream will come to at its next points, as far as it is known today.

Of a window over 5,000 points, all but the newest few stay in it for a while. Here the older ones are summed once for a whole
block of points to come: for each of these the sum, the sum of squares and the extremes of what will be left of them then.
With what has come meanwhile added, that is the window: nothing is ever taken away, so nothing drifts and no spike lingers.

The answers are near, not exact, and each comes with a bound on its error. Whoever compares them with something that is no
farther off than that asks the window itself.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from vitalsdsl.ground.types import STEPS
from vitalsdsl.kernels.deferred import Deferred
from vitalsdsl.kernels.handed import handed
from vitalsdsl.kernels.newest import Newest, places_in
from vitalsdsl.kernels.pieces import InOrderWindow, InShortWindow, InWindow
from vitalsdsl.kernels.settling import Settling
from vitalsdsl.kernels.smoothed import Smoothed
from vitalsdsl.kernels.tracks import Past, Track, alike, ends_of, mean, parts
from vitalsdsl.kernels.trail import Trail

LONGEST, SHORTEST = 500, 32
"""So many points to come are prepared at once: no more than stay in the shortest window. For fewer it does not pay."""

REACH = 8.0
"""Points so many times farther from the pivot than all before them end a block: its bounds are those of smaller numbers."""

POOR, POORLY, RESTS = 16, 4, 1024
"""Where so few points use a block, so many times in a row, it is left for a while."""

_SMALL, _LARGE = 1e-100, 1e100
"""The square of what is smaller or larger is no good number."""

CHUNK = 32
"""For so many points at a time it is asked whether anything can happen at all."""

_GREATEST = sys.float_info.max
"""Between this and its negative lies all that is finite."""

_U = 2.0**-53
_NEVER = (math.nan,)

Array = Any
Late = Deferred | Smoothed
"""What may be handed its points late."""

Rows = Iterator[Sequence[float]]

NAMES = (
    "pivot", "floor", "ceiling", "size", "size_var", "size_std", "off_mean", "off_var", "off_std", "lowest", "highest"
)  # fmt: skip
"""What `renew` gives first. Between the last two most points to come will lie."""

SUMS = ("sum", "squares", "low", "high")
"""What the points of a block come to: how far they are from the pivot, the squares of that, the extremes."""


LINES = ("first", "lean", "times", "spread")
"""Where lines are asked for: the step of the block's first point; step times distance, step, and squared step of its
points, all from there."""


class Ahead:
    """The windows of one metric, and its points since they were last handed over.

    `values` takes the points of a block, at steps that are equally far apart; NaN and ±inf are not in its sums. Of several
    metrics that come together each has another `phase`, from 0 to 1: so their blocks end at different steps.
    """

    def __init__(self, windows: Sequence[Late], wanted: Sequence[tuple[Late, InWindow]], phase: float) -> None:
        self.values: list[float] = []
        self.lately: list[float] = []
        self.lately_away: list[float] = []
        self.missed: list[int] = []
        self._windows = list(windows)
        self._wanted: list[tuple[Deferred, InWindow]] = []
        self._settling: list[Settling] = []
        self._smoothed: list[Smoothed] = []
        for window, asked in wanted:
            if isinstance(window, Smoothed):
                self._smoothed.append(window)
            elif isinstance(asked, InOrderWindow):
                self._settling.append(Settling(window, list(asked.settled.values())))
            else:
                self._wanted.append((window, asked))
        self._first = self._stride = 0
        self._origin = 0
        """The step from which the block's lines count."""
        self._given = 0
        """How many of the block's points the windows have been handed."""
        self._phase = phase
        self._table: Array = np.empty((0, 0))
        self._length = 0
        self._counts: Array | None = None
        """How many points the windows hold at each point to come if all these are usable, where some are missing."""
        self._held: list[float] = []
        """How many they hold at its first point, likewise."""
        self._summed = 0
        """How many of the block's points were in its sums when it was asked for an outlook last."""
        self._ends: list[list[float]] = []
        self._shares: list[float] = []
        self._pivot = math.nan
        self._bounds: tuple[float, ...] = ()
        """The block's `NAMES`."""
        self._stands: list[tuple[float | bool, ...]] = []
        self._is_warm: dict[Deferred, bool] = {}
        self._marks: list[tuple[Deferred, Trail, int, int]] = []
        """Windows with their trails, and how far these had come when the block began."""
        self._count = 0
        self._poor = 0
        self._rest = 0

    # ---------------------------------------------------------------- points

    def hand_over(self) -> None:
        """Let the windows have the points that have come."""
        given, count = self._given, len(self.values)
        if given == count:
            return
        self._given = count
        stride = self._stride
        first, newest = self._first + given * stride, self._first + (count - 1) * stride
        if count - given == 1:
            for window in self._windows:
                window.push(newest, math.nan, self.values[-1])
            return
        finite, known = handed(self.values[given:], first, stride)
        for window in self._windows:
            window.push_many(known if getattr(window, "with_infinite", False) else finite)

    # ---------------------------------------------------------------- blocks

    def renew(self, step: int, value: float, stride: int) -> tuple[Any, ...]:
        """Begin a block at a point, others to come every so many steps.

        The pivot, between what the points must lie, and bounds on sizes and errors (`NAMES`); what stands for the whole
        block; its sums and extremes (`SUMS`), how many of its points are missing, its rows, and how many points the windows
        hold at each, None where that never changes.

        Where nothing has come in between but some points to the windows themselves, the block goes on.
        """
        self.hand_over()
        gone_on = self._go_on(step, value, stride)
        if gone_on is not None:
            return gone_on
        used = len(self.values)
        self.values.clear()
        self._given = 0
        self._count += used
        self._first, self._stride = step, stride
        self._origin = step
        self._poor = self._poor + 1 if used < POOR else 0
        if self._poor >= POORLY:
            self._poor, self._rest = 0, RESTS
        self._rest = max(0, self._rest - used)
        with np.errstate(all="ignore"):
            is_begun = not self._rest and self._block(value)
        if not is_begun:
            return self._blank()
        sums = (0.0, 0.0, math.inf, -math.inf, *((step, 0.0, 0.0, 0.0) if self._has_lines else ()))
        stands = self._standing(step, value, stride)
        return (*self._bounds, *stands, *sums, 0, self._rows(0), self._counted(0))

    def missing(self) -> Rows:
        """From here on the number of points does not go by the block's: how many the windows hold if the points to come, and
        all that have come in it, are usable."""
        if not self._length:
            return itertools.repeat(_NEVER * len(self._in_rows))
        if self._counts is None:
            self._counts = np.repeat(np.array(self._held)[:, None], self._length, axis=1)
        counted = self._counted(len(self.values))
        assert counted is not None
        return counted

    def _go_on(self, step: int, value: float, stride: int) -> tuple[Any, ...] | None:
        """As `renew`, but within the block, whose points the windows have got in some other way; None where that cannot be."""
        index = self._index(step)
        by_step = index > 0 and self._marks[0][0].unit == STEPS
        if not 0 < index < self._length or by_step and stride != self._stride:
            return None
        if any(settling.is_lived_before(step, stride, self._length - index) for settling in self._settling):
            return None
        if any(smoothed.until_lived(step, stride) < self._length - index for smoothed in self._smoothed):
            return None
        fullest = max(self._marks, key=lambda mark: mark[0].with_infinite)
        come = np.asarray(fullest[1].values(fullest[2], fullest[1].end))
        finite = come[np.isfinite(come)]
        pivot, floor, ceiling = self._bounds[:3]
        low, high = ends_of(finite, value)
        if len(come) > index or (len(finite) or math.isfinite(value)) and not floor <= low <= high <= ceiling:
            return None
        if not by_step:
            self._stride, self._first = stride, step - index * stride
        short = [window for window, asked in self._wanted if isinstance(asked, InShortWindow)]
        newest = Newest.of([window for window in short if self._is_warm[window]], step, self._stride, pivot)
        if len(newest.counts) < sum(self._is_warm[window] for window in short):
            return None
        self._begin_lately(newest)
        for at, (window, _) in enumerate(self._wanted):
            if window in newest.counts:
                self._stands[at] = _short_stands(newest.counts[window])
        self.values[:], self._given = [math.nan] * index, index
        for settling in self._settling:
            settling.begin(step, stride, index)
        counts: Rows | None = self._counted(index)
        if len(finite) != index or newest.missed:
            counts = self.missing()
        away = finite - pivot
        sums = [
            float(np.add.reduce(away)),
            float(np.add.reduce(away * away)),
            float(np.minimum.reduce(come, initial=math.inf)),
            float(np.maximum.reduce(come, initial=-math.inf)),
        ]
        if self._has_lines:
            steps = fullest[1].ring.step_column(fullest[2], fullest[1].end)[np.isfinite(come)] - float(self._origin)
            sums += [self._origin, *(float(np.add.reduce(each)) for each in (steps * away, steps, steps * steps))]
        stands = self._standing(step, value, stride)
        return (*self._bounds, *stands, *sums, index - len(finite), self._rows(index), counts)

    def _standing(self, step: int, value: float, stride: int) -> list[float | bool]:
        """What stands for the block, a next point coming at a step."""
        stands = list(itertools.chain.from_iterable(self._stands))
        for smoothed in self._smoothed:
            level, keep, lag = smoothed.level_before(step, value, stride)
            size = max(self._bounds[3], abs(level))
            stands += (not smoothed.is_warm(step), level, keep, lag, size, 16 * _U * size / (1 - keep))
        return stands

    def _index(self, step: int) -> int:
        """Which point of the block the next one is, if the windows have had nothing but its points; -1 where it is none."""
        if not self._length or not self._marks:
            return -1
        window, _, _, seen = self._marks[0]
        index, rest = divmod(step - self._first, self._stride) if window.unit == STEPS else (window.seen - seen, 0)
        if rest or not 0 < index < self._length:
            return -1
        for window, trail, end, seen in self._marks:
            is_other = window.trail is not trail or trail.begin > end
            if is_other or window.unit != STEPS and window.seen - seen != index:
                return -1
        return index

    def outlook(self, missing: int) -> tuple[float, ...]:
        """How many points are still to come in this chunk of the block; between what each column of the rows lies there, low
        and high, window by window; and 1 / n and 1 / (n - 1), least and greatest, of those windows that have sums."""
        self._summed = count = len(self.values)
        chunk = count // CHUNK
        more = min((chunk + 1) * CHUNK, self._length) - count
        if more <= 0:
            return self._no_outlook
        if not self._ends:
            begins = np.arange(0, self._length, CHUNK)
            ends = [extreme.reduceat(self._table, begins, axis=1) for extreme in (np.minimum, np.maximum)]
            self._ends = np.stack(ends, axis=1).reshape(-1, len(begins)).T.tolist()
        if self._counts is None:
            return (more, *self._ends[chunk], *self._shares)
        shares: list[float] = []
        counted = self._counts[:, count : count + more] - missing
        for window, fewest, most in zip(self._in_rows, counted.min(axis=1).tolist(), counted.max(axis=1).tolist()):
            if window.has_sums:
                if fewest - more < 2:
                    return self._no_outlook
                shares += (1.0 / most, 1.0 / fewest, 1.0 / (most - 1), 1.0 / (fewest - 1))
        return (more, *self._ends[chunk], *shares)

    def settle(self, settling: Settling, step: int) -> tuple[float, ...]:
        """Renew the brackets of a window at the newest point, at this step; the last is the step up to which they stand."""
        said = settling.settle(self.values)
        return (*said[:-1], step + said[-1] * self._stride)

    def resume(self, total: float, squares: float, low: float, high: float) -> tuple[Any, ...]:
        """The sums and extremes of the block with the points that have come since the outlook, all of them finite, and the
        rows from here on."""
        fresh = self.values[self._summed :]
        pivot = self._pivot
        away = [value - pivot for value in fresh]
        total, squares = sum(away, total), sum(map(operator.mul, away, away), squares)
        count = len(self.values)
        return (
            total,
            squares,
            min(low, *fresh, math.inf),
            max(high, *fresh, -math.inf),
            self._rows(count),
            self._counted(count),
        )

    def settlers(self) -> list[Callable[[int], tuple[float, ...]]]:
        """`settle` for each window that has brackets, in order."""
        return [functools.partial(self.settle, settling) for settling in self._settling]

    @functools.cached_property
    def _in_rows(self) -> list[InWindow]:
        return [asked for _, asked in self._wanted if asked.in_rows]

    @functools.cached_property
    def _has_lines(self) -> bool:
        return any(asked.has_line for _, asked in self._wanted)

    @functools.cached_property
    def _columns(self) -> int:
        return sum(len(asked.in_rows) for _, asked in self._wanted)

    @functools.cached_property
    def _no_outlook(self) -> tuple[float, ...]:
        return (0, *_NEVER * sum(len(asked.ends) + len(asked.ends_of_shares) for _, asked in self._wanted))

    def _rows(self, begin: int) -> Rows:
        """The rows of the block from a point on."""
        if not self._columns:
            return itertools.repeat((), self._length - begin)
        return itertools.chain.from_iterable(parts(self._table[:, begin:]))

    def _counted(self, begin: int) -> Rows | None:
        if self._counts is None:
            return None
        if not len(self._counts):
            return itertools.repeat(())
        return itertools.chain.from_iterable(parts(self._counts[:, begin:]))

    def _blank(self) -> tuple[Any, ...]:
        """A block that says nothing: every comparison is left to the windows themselves."""
        self._begin_lately(Newest())
        for settling in self._settling:
            settling.stop()
        self._table, self._length, self._counts = np.empty((0, 0)), 0, None
        stands: list[float] = []
        for _, asked in self._wanted:
            stands += (False, *_NEVER * 2, *[1] * isinstance(asked, InShortWindow), *_NEVER * (3 * asked.has_line))
        stands += [False] * len(self._settling)
        stands += (False, *_NEVER * 5) * len(self._smoothed)
        rows = itertools.repeat(_NEVER * self._columns, RESTS)
        sums = (0.0, 0.0, math.inf, -math.inf, *_NEVER * (4 * self._has_lines))
        return (0.0, -_GREATEST, _GREATEST, *_NEVER * 6, math.inf, -math.inf, *stands, *sums, 0, rows, None)

    def _block(self, value: float) -> bool:
        """Prepare a block; whether it would pay."""
        pasts: dict[tuple[Any, ...], Past] = {}
        for window in sorted((window for window, _ in self._wanted), key=lambda window: -window.size):
            if alike(window) not in pasts:
                pasts[alike(window)] = Past(window, self._first, self._stride)
        tracks = [Track(window, asked, pasts[alike(window)]) for window, asked in self._wanted]
        length = self._fitting(tracks)
        if not length:
            return False
        for settling in self._settling:
            settling.begin(self._first, self._stride, 0)
        held: list[tuple[float, Array]] = [(math.inf, np.empty(0))]
        held += [(track.window.size, track.values) for track in tracks]
        held += [(settling.window.size, settling.values) for settling in self._settling]
        shortest = min(held, key=lambda one: one[0])[1]
        low, high = ends_of(shortest, value)
        pivot = self._pivot = low if low == high else mean(shortest, low / 2 + high / 2)
        largest = max((past.farthest(pivot) for past in pasts.values()), default=max(high - pivot, pivot - low))
        if len(held) == 1:  # none but exponential averages, which keep no points
            pivot = self._pivot = 0.0
            largest = max(abs(low), *(smoothed.size_of_level for smoothed in self._smoothed))
        if math.isfinite(value):
            largest = max(largest, abs(value - pivot))
        if largest and not _SMALL < largest < _LARGE:
            return False
        newest = Newest.of([t.window for t in tracks if t.is_short and t.is_warm], self._first, self._stride, pivot)
        for track in tracks:
            if track.is_short and track.is_warm and track.window not in newest.counts:
                length = min(length, max(1, places_in(track.window, self._stride)))  # it is all new soon
        self._begin_lately(newest)
        self._fill(tracks, newest, length, (low, high), largest)
        return True

    def _fitting(self, tracks: Sequence[Track]) -> int:
        """For how many points to come; 0 where that would not pay."""
        length = min([LONGEST, *(track.stays for track in tracks if not track.is_short)])
        if length < SHORTEST or any(window.first is None or window.first != window.first for window in self._windows):
            return 0
        length -= (self._count + int(self._phase * length)) % length
        lived = [track.until_lived for track in tracks]
        lived += [settling.until_lived(self._first, self._stride) for settling in self._settling]
        lived += [smoothed.until_lived(self._first, self._stride) for smoothed in self._smoothed]
        return min(length, *lived)

    def _fill(
        self, tracks: Sequence[Track], newest: Newest, length: int, usual: tuple[float, float], largest: float
    ) -> None:
        table = self._table = np.empty((self._columns, length))
        self._length = length
        self._ends.clear()
        self._shares.clear()
        self._held.clear()
        self._stands.clear()
        self._marks = [(window, window.trail, window.trail.end, window.seen) for window, _ in self._wanted]
        self._marks.sort(key=lambda mark: mark[0].unit == STEPS, reverse=True)
        at, going = 0, length
        is_even = not newest.missed
        for track, (window, asked) in zip(tracks, self._wanted):
            track.reach(length)
            self._is_warm[window] = track.is_warm
            if track.is_short:
                self._stands.append(
                    _short_stands(newest.counts[window])
                    if window in newest.counts
                    else (not track.is_warm, math.nan, math.nan, 1)
                )
                continue
            shares = track.shares()
            self._stands.append(shares)
            if asked.in_rows:
                columns = len(asked.in_rows)
                track.fill(table[at : at + columns])
                at += columns
                self._held.append(track.count)
                is_even = is_even and track.is_even
                going = max(going, track.going)
                if asked.has_sums:
                    self._shares += (shares[1], shares[1], shares[2], shares[2])
        self._stands += [(not settling.is_warm,) for settling in self._settling]
        self._counts = None
        if not is_even:
            counts = [track.counts() for track, (_, asked) in zip(tracks, self._wanted) if asked.in_rows]
            self._counts = np.array(counts).reshape(len(counts), length)
        pivot, reach = self._pivot, REACH * largest
        roundings = (2 * max(going, len(newest.values)) + 80) * _U
        size = abs(pivot) + reach
        off_var = 8 * roundings * reach * reach
        bounds = (size, 3 * reach * reach, 2 * reach, roundings * reach + 4 * _U * size, off_var, math.sqrt(off_var))
        low, high = usual
        usually = low - (high - low) / 8, high + (high - low) / 8
        self._bounds = (pivot, pivot - reach, pivot + reach, *bounds, *usually)
        for at, (track, (_, asked)) in enumerate(zip(tracks, self._wanted)):
            if asked.has_line:
                self._stands[at] += track.bounds_of_line(reach, roundings, self._stride)

    def _begin_lately(self, newest: Newest) -> None:
        self.lately[:], self.lately_away[:], self.missed[:] = newest.values, newest.away, newest.missed


def _short_stands(count: int) -> tuple[float | bool, ...]:
    """What stands of a short window with points in so many places: it is known, 1 / n, 1 / (n - 1), n."""
    return False, 1.0 / count, 1.0 / (count - 1) if count > 1 else math.nan, count
