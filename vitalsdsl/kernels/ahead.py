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
import struct
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from vitalsdsl.ground.types import STEPS
from vitalsdsl.kernels import pieces
from vitalsdsl.kernels.deferred import Deferred
from vitalsdsl.kernels.pieces import InShortWindow, InWindow

LONGEST, SHORTEST = 500, 32
"""So many points to come are prepared at once: no more than stay in the shortest window. For fewer it does not pay."""

REACH = 8.0
"""Points so many times farther from the pivot than all before them end a block: its bounds are those of smaller numbers."""

POOR, POORLY, RESTS = 16, 4, 1024
"""Where so few points use a block, so many times in a row, it is left for a while: gaps and steps that come and go."""

_SMALL, _LARGE = 1e-100, 1e100
"""The square of what is smaller or larger is no good number."""

_AT_ONCE = 64

CHUNK = 32
"""For so many points at a time it is asked whether anything can happen at all."""

_GREATEST = sys.float_info.max
"""Between this and its negative lies all that is finite."""

_U = 2.0**-53
_NEVER = (math.nan,)

Array = Any


class Ahead:
    """The windows of one metric, and its points since they were last handed over.

    `values` takes the points of a block, which are finite but for a first one, at steps that are equally far apart. Of
    several metrics that come together each has another `phase`, from 0 to 1: so their blocks end at different steps.
    """

    def __init__(self, windows: Sequence[Deferred], wanted: Sequence[tuple[Deferred, InWindow]], phase: float) -> None:
        self.values: list[float] = []
        self._windows = list(windows)
        self._wanted = list(wanted)
        self.lately: list[float] = []
        self.lately_away: list[float] = []
        self._first = self._stride = 0
        self._given = 0
        """How many of the block's points the windows have been handed."""
        self._phase = phase
        self._table: Array = np.empty((0, 0))
        self._pivot = math.nan
        self._summed = 0
        """How many of the block's points were in its sums when it was asked for an outlook last."""
        self._chunks: list[list[float]] = []
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
        newest = self._first + (count - 1) * stride
        if not given and not math.isfinite(self.values[0]):
            for window in self._windows:
                window.push(self._first, math.nan, self.values[0])
            given = 1
            if given == count:
                return
        if count - given == 1:
            for window in self._windows:
                window.push(newest, math.nan, self.values[-1])
            return
        values = array("d")
        values.frombytes(struct.pack(f"{count - given}d", *self.values[given:]))
        code = "i" if newest < 2**31 else "q"
        steps = array(code)
        steps.frombytes(np.arange(self._first + given * stride, newest + 1, stride, dtype=code).tobytes())
        for window in self._windows:
            window.push_finite(steps, values)

    # ---------------------------------------------------------------- blocks

    def renew(self, step: int, value: float, stride: int) -> tuple[Any, ...]:
        """Begin a block at a point, others to come every so many steps.

        The pivot, between what the points must lie, and bounds on sizes and errors (`NAMES`); what stands for the whole
        block; and its rows.
        """
        self.hand_over()
        used = len(self.values)
        self.values.clear()
        self._given = 0
        self._count += used
        self._first, self._stride = step, stride
        self._poor = self._poor + 1 if used < POOR else 0
        if self._poor >= POORLY:
            self._poor, self._rest = 0, RESTS
        self._rest = max(0, self._rest - used)
        if self._rest or not math.isfinite(value):
            return self._blank(value)
        with np.errstate(all="ignore"):
            return self._block(value)

    def outlook(self) -> tuple[float, ...]:
        """How many points are still to come in this chunk of the block, and between what each column of the rows lies
        there: low and high, window by window."""
        self._summed = count = len(self.values)
        chunk = count // CHUNK
        more = min((chunk + 1) * CHUNK, len(self._table)) - count
        if more <= 0:
            return (0, *_NEVER * 2 * self._columns)
        if not self._chunks:
            begins = range(0, len(self._table), CHUNK)
            lows, highs = (extreme.reduceat(self._table, begins, axis=0) for extreme in (np.minimum, np.maximum))
            self._chunks = np.stack((lows, highs), axis=2).reshape(len(begins), -1).tolist()
        return (more, *self._chunks[chunk])

    def resume(self, total: float, squares: float, low: float, high: float) -> tuple[Any, ...]:
        """The sums and extremes of the block with the points that have come since the outlook, and the rows from here on."""
        fresh = self.values[self._summed :]
        pivot = self._pivot
        away = [value - pivot for value in fresh]
        total, squares = sum(away, total), sum(map(operator.mul, away, away), squares)
        return (
            total,
            squares,
            min(low, *fresh, math.inf),
            max(high, *fresh, -math.inf),
            _rows(self._table[len(self.values) :]),
        )

    @property
    def _columns(self) -> int:
        return sum(len(asked.in_rows) for _, asked in self._wanted)

    def _blank(self, value: float) -> tuple[Any, ...]:
        """A block that says nothing: every comparison is left to the windows themselves."""
        self.lately.clear()
        self.lately_away.clear()
        self._table = np.empty((0, 0))
        stands: list[float] = []
        for _, asked in self._wanted:
            stands += (False, *_NEVER * 2 * (1 + len(asked.settled)), *[1] * isinstance(asked, InShortWindow))
        row = _NEVER * max(1, self._columns)
        rows = itertools.repeat(row, RESTS if math.isfinite(value) else 1)
        return (0.0, -_GREATEST, _GREATEST, *_NEVER * 6, math.inf, -math.inf, *stands, rows)

    def _block(self, value: float) -> tuple[Any, ...]:
        pasts: dict[tuple[Any, ...], _Past] = {}
        for window in sorted((window for window, _ in self._wanted), key=lambda window: -window.size):
            if _points(window) not in pasts:
                pasts[_points(window)] = _Past(window, self._first, self._stride)
        tracks = [_Track(window, pasts[_points(window)]) for window, _ in self._wanted]
        length = min([LONGEST, *(track.stays for track in tracks if not track.is_short)])
        if any(asked.settled for _, asked in self._wanted):
            length = min(length, pieces.MANY // 8)
        if length < SHORTEST:
            return self._blank(value)
        length -= (self._count + int(self._phase * length)) % length
        length = min(length, *(track.until_lived for track in tracks))
        length = min(track.look(length) if track.is_warm else length for track in tracks)
        newest = min(tracks, key=lambda track: track.window.size).values
        low, high = float(newest.min(initial=value)), float(newest.max(initial=value))
        pivot = self._pivot = value if low == high else _finite(float(newest.mean()))
        largest = max(abs(value - pivot), *(past.look(pivot) for past in pasts.values()))
        if largest and not _SMALL < largest < _LARGE:
            return self._blank(value)
        table = self._table = np.empty((length, self._columns))
        self._chunks.clear()
        stands: list[float | bool] = []
        at = 0
        for track, (_, asked) in zip(tracks, self._wanted):
            track.end_at(length)
            for name in asked.in_rows:
                table[:, at] = track.column(name)
                at += 1
            stands += track.shares()
            for what in asked.settled.values():
                stands += track.settled(what, length)
            if track.is_short:
                stands.append(max(1, track.count))
        longest = self._begin_lately(tracks)
        reach = REACH * largest
        roundings = (2 * max(length, longest) + 80) * _U
        size = abs(pivot) + reach
        off_var = 8 * roundings * reach * reach
        bounds = (size, 3 * reach * reach, 2 * reach, roundings * reach + 4 * _U * size, off_var, math.sqrt(off_var))
        usually = low - (high - low) / 8, high + (high - low) / 8
        return (pivot, pivot - reach, pivot + reach, *bounds, *usually, *stands, _rows(table))

    def _begin_lately(self, tracks: Sequence[_Track]) -> int:
        """Keep the newest points for short windows; how many."""
        self.lately.clear()
        self.lately_away.clear()
        longest = max((track for track in tracks if track.is_short), key=lambda track: track.count, default=None)
        if longest is None or not longest.count:
            return 0
        self.lately += longest.past.values[longest.begin :].tolist()
        self.lately_away += longest.past.away[longest.begin :].tolist()
        return longest.count


def _rows(table: Array) -> Iterator[list[float]]:
    """Row by row as numbers of Python, of which there are few at a time: they are large."""
    return itertools.chain.from_iterable(_pieces(table))


def _pieces(table: Array) -> Iterator[list[list[float]]]:
    """Few at first: often the next chunk of points needs none of them."""
    at, size = 0, 1
    while at < len(table):
        yield table[at : at + size].tolist()
        at, size = at + size, min(4 * size, _AT_ONCE)


def _points(window: Deferred) -> tuple[Any, ...]:
    """Windows that are alike in this hold the same points, as far as they reach."""
    return window.unit, window.with_infinite, window.first, window.seen


NAMES = (
    "pivot", "floor", "ceiling", "size", "size_var", "size_std", "off_mean", "off_var", "off_std", "lowest", "highest"
)  # fmt: skip
"""What `renew` gives before that which stands for a block. Between the last two most points to come will lie."""


class _Past:
    """The points behind windows of one unit, which are those of the longest of them; and the places of those to come."""

    def __init__(self, longest: Deferred, step: int, stride: int) -> None:
        self.places, self.values = map(np.asarray, longest.trail.columns())
        self.begin, self.stride = (step, stride) if longest.unit == STEPS else (longest.seen, 1)
        self.first = longest.first
        self.is_whole = self.places.dtype.kind == "i"

    def look(self, pivot: float) -> float:
        """How far the farthest point is from the pivot."""
        self._pivot = pivot
        if not len(self.values):
            return 0.0
        return max(pivot - float(self.values.min()), float(self.values.max()) - pivot)

    @functools.cached_property
    def away(self) -> Array:
        return self.values - self._pivot

    @functools.cached_property
    def squared(self) -> Array:
        return self.away * self.away


class _Track:
    """One window and the points to come: which of its points are left in it at each of them."""

    def __init__(self, window: Deferred, past: _Past) -> None:
        self.window = window
        self.past = past
        self.is_short = window.size <= pieces.SHORT
        self.count = self.begin = 0
        self.is_even = True
        """Whether one of its points goes for each that comes."""
        self.stays = int(window.size // past.stride)
        """So many points to come are all still in the window when the last of them has come."""
        warm = window.size + (past.first - 1 if window.unit == STEPS else -1)
        self.is_warm = past.begin >= warm
        self.until_lived = LONGEST if self.is_warm else math.ceil((warm - past.begin) / past.stride)
        """So many points come before its span has been lived."""

    def look(self, length: int) -> int:
        """Find from which point on it holds, at the first of so many points to come; how many come as long as one goes for
        each."""
        past, places = self.past, self.past.places
        size, stride = math.floor(self.window.size), past.stride
        bound = past.begin - size
        self.begin = begin = bisect_right(places, bound)
        self.count = len(places) - begin + 1
        last = begin + length - 2  # the last that goes
        if stride == 1 and past.is_whole and begin <= last < len(places) and places[last] - bound == length - 1:
            return length
        if self.is_short:
            return self._look_closely(length, bound)
        bounds = bound + stride * np.arange(length)
        if past.is_whole:  # else all the places would be converted first
            bounds = bounds.astype(places.dtype)
        goes = np.diff(places.searchsorted(bounds, side="right")) == 1
        return length if goes.all() else int(goes.argmin()) + 1

    def _look_closely(self, length: int, bound: float) -> int:
        """As long as all that it holds is as far apart as what comes, one goes for each. Else it is all new soon."""
        stride, places = self.past.stride, self.past.places[self.begin :]
        whole = int(self.window.size // stride)
        if len(places) == whole - 1 and (np.diff(places) == stride).all():
            return length
        self.is_even = False
        return min(length, max(whole, 1))

    def end_at(self, length: int) -> None:
        """So many points to come are looked at."""
        self._leaving = slice(self.begin, self.begin + length - 1)
        """What is in it at the first of them and not at the last, and what is in it at all of them."""
        self._staying = slice(self.begin + length - 1, None)
        self._length = length

    @property
    def values(self) -> Array:
        """The points that it holds."""
        return self.past.values[self.begin :]

    def shares(self) -> tuple[bool, float, float]:
        """Whether its span has not been lived; 1 / n and 1 / (n - 1)."""
        if not self.is_warm or not self.is_even:
            return not self.is_warm, math.nan, math.nan
        return False, 1.0 / self.count, 1.0 / (self.count - 1) if self.count > 1 else math.nan

    def column(self, name: str) -> Array:
        return getattr(self, f"_{name}")() if self.is_warm else math.nan

    def _older(self) -> Array:
        return self._summed(self.past.away)

    def _squares(self) -> Array:
        return self._summed(self.past.squared)

    def _summed(self, terms: Array) -> Array:
        sums = np.empty(self._length)
        sums[-1] = 0.0
        np.add.accumulate(terms[self._leaving][::-1], out=sums[-2::-1])
        sums += np.add.reduce(terms[self._staying])
        return sums

    def _high(self) -> Array:
        return self._extremes(np.maximum, -math.inf)

    def _low(self) -> Array:
        return self._extremes(np.minimum, math.inf)

    def _extremes(self, greater: Any, none: float) -> Array:
        values, best = self.past.values, np.empty(self._length)
        best[-1] = none
        greater.accumulate(values[self._leaving][::-1], out=best[-2::-1])
        return greater(best, greater.reduce(values[self._staying], initial=none))

    # ---------------------------------------------------------------- order

    def settled(self, what: tuple[str, ...], length: int) -> tuple[float, float]:
        """The middle of what a value of order may be during a block, and how far it may be from there: so many points
        come, as many go, and no rank moves farther than that."""
        if not self.is_warm:
            return math.nan, math.nan
        ordered = np.sort(self.values)
        if what[0] == "mad":
            low, high = self._between(ordered, length, 1, 2)
            if not math.isfinite(low) or not math.isfinite(high):
                return math.nan, math.nan
            middle, off = low / 2 + high / 2, high / 2 - low / 2
            low, high = self._between(np.sort(np.abs(ordered - middle)), length, 1, 2)
            low, high = 1.4826 * max(0.0, low - off) * (1 - 8 * _U), 1.4826 * (high + off) * (1 + 8 * _U)
        else:
            low, high = self._between(ordered, length, int(what[1]), int(what[2]))
        if math.isinf(low) or math.isinf(high):
            return math.nan, math.nan
        return low / 2 + high / 2, (high / 2 - low / 2) * (1 + 8 * _U) + 8 * _U * max(abs(low), abs(high))

    def _between(self, ordered: Array, length: int, above: int, below: int) -> tuple[float, float]:
        lowest = (self.count - 1) * above // below - length
        highest = -((self.count - 1) * -above // below) + length
        low = float(ordered[lowest]) if lowest >= 0 else -math.inf
        return low, float(ordered[highest]) if highest < len(ordered) else math.inf


def _finite(level: float) -> float:
    return level if math.isfinite(level) else 0.0
