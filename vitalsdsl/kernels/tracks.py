"""Tracks: of one metric's windows, which of their points are left in them at each point to come, and what these come to."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from vitalsdsl.ground.types import STEPS
from vitalsdsl.kernels.deferred import Deferred
from vitalsdsl.kernels.pieces import InShortWindow, InWindow

_EVER = 1 << 62
_AT_ONCE = 64
_U = 2.0**-53

Array = Any


class Past:
    """The points behind windows that hold the same ones as far as they reach, which are those of the longest of them; and
    the place of the next point and of those after it."""

    def __init__(self, longest: Deferred, step: int, stride: int) -> None:
        self.trail = longest.trail
        self.places, self.values = map(np.asarray, longest.trail.columns())
        self.at, self.stride = (step, stride) if longest.unit == STEPS else (longest.seen, 1)
        self.first = longest.first
        self._step = step

    def farthest(self, pivot: float) -> float:
        """How far the farthest finite point is from the pivot."""
        self._pivot = pivot
        if not len(self.values):
            return 0.0
        low, high = float(np.minimum.reduce(self.values)), float(np.maximum.reduce(self.values))
        if high - low == math.inf or low == high and math.isinf(low):
            finite = self.values[np.isfinite(self.values)]
            low, high = float(finite.min(initial=pivot)), float(finite.max(initial=pivot))
        return max(pivot - low, high - pivot)

    @functools.cached_property
    def terms(self) -> Array:
        """How far each point is from the pivot, and the square of that."""
        terms = np.empty((2, len(self.values)))
        np.subtract(self.values, self._pivot, out=terms[0])
        np.multiply(terms[0], terms[0], out=terms[1])
        return terms

    @functools.cached_property
    def steps(self) -> Array:
        """How many steps after the next point each was: none."""
        return self.trail.ring.step_column(self.trail.begin, self.trail.end) - float(self._step)

    @functools.cached_property
    def leaning(self) -> Array:
        """Step times distance from the pivot of each point, step, and squared step."""
        return np.stack((self.steps * self.terms[0], self.steps, self.steps * self.steps))


class Track:
    """One window over the next points to come."""

    def __init__(self, window: Deferred, asked: InWindow, past: Past) -> None:
        self.window = window
        self.asked = asked
        self.past = past
        self.is_short = isinstance(asked, InShortWindow)
        self.stays = int(window.size // past.stride)
        """So many points to come are all still in the window when the last of them has come."""
        warm = window.size + (past.first - 1 if window.unit == STEPS else -1)
        self.is_warm = past.at >= warm
        self.until_lived = _EVER if self.is_warm else math.ceil((warm - past.at) / past.stride)
        """So many points come before its span has been lived."""
        self._bound = past.at - math.ceil(window.size)
        self.begin = past.trail.up_to(self._bound) - past.trail.begin
        """Which point is its first when the next one has come."""

    @property
    def values(self) -> Array:
        """The points that it holds."""
        return self.past.values[self.begin :]

    def reach(self, length: int) -> None:
        """Look at so many points to come, and find which of its points are left at each."""
        past, places, begin = self.past, self.past.places, self.begin
        self._length = length
        self._left: Array | None = None
        """The number of its first point at each; None where one goes for each that comes."""
        self._last = begin + length - 1
        if not self.is_short and not self._is_even(begin + length - 2):
            bounds = self._bound + past.stride * np.arange(length)
            if places.dtype.kind == "i":  # else all the places would be converted first
                bounds = bounds.astype(places.dtype)
            self._left = places.searchsorted(bounds, side="right")
            self._last = int(self._left[-1])

    def _is_even(self, last: int) -> bool:
        """Whether one of its points goes for each that comes, up to this one."""
        places, begin, stride = self.past.places, self.begin, self.past.stride
        if not begin <= last < len(places):
            return last < begin
        if not self._bound < places[begin] <= self._bound + stride:
            return False
        if places[last] - places[begin] != (last - begin) * stride:
            return False
        if last + 1 < len(places) and places[last + 1] <= self._bound + (last + 1 - begin) * stride:
            return False
        return stride == 1 and places.dtype.kind == "i" or bool((np.diff(places[begin : last + 1]) == stride).all())

    @property
    def is_even(self) -> bool:
        return self._left is None

    @property
    def going(self) -> int:
        """How many of its points go meanwhile."""
        return self._last - self.begin

    @property
    def count(self) -> int:
        """How many points it holds when the next one has come."""
        return len(self.past.places) - self.begin + 1

    def shares(self) -> tuple[bool, float, float]:
        """Whether its span has not been lived; 1 / n and 1 / (n - 1) where n stays the same."""
        if not self.is_warm or not self.is_even:
            return not self.is_warm, math.nan, math.nan
        count = self.count
        return False, 1.0 / count, 1.0 / (count - 1) if count > 1 else math.nan

    def counts(self) -> Array:
        """How many points it holds at each that comes, if all these are usable."""
        if self._left is None:
            return np.full(self._length, float(self.count))
        return np.arange(1.0, self._length + 1.0) + (len(self.past.places) - self._left)

    def bounds_of_line(self, reach: float, roundings: float, stride: int) -> tuple[float, float, float]:
        """Of how many points at least a slope is said; how large it can be, and how far off: of sums that are so far off, of
        points no farther from the pivot than `reach`."""
        fewest = int(self.counts().min()) // 2
        steps = self.past.steps[self.begin :]
        if fewest < 2 or not (np.diff(steps) > 0).all():
            return 2, math.nan, math.nan
        longest = max(-float(steps[0]) if len(steps) else 0.0, self._length * stride) + 1
        # The squares of so many different steps about their mean come to n (n² - 1) / 12 at least.
        size = 24 * longest * reach / (fewest * fewest - 1)
        return fewest, size, size * (2 * roundings + 96 * _U * (longest / fewest) ** 2)

    # ---------------------------------------------------------------- what is left of it

    def fill(self, table: Array) -> None:
        """The rows of its columns, in order."""
        at, names = 0, self.asked.in_rows
        while at < len(names):
            rows = table[at : at + 2]
            if not self.is_warm:
                rows[:] = math.nan
            elif names[at : at + 2] == ["older", "squares"]:
                self._sum(self.past.terms, rows)
            elif names[at] == "older":
                rows = rows[:1]
                self._sum(self.past.terms[:1], rows)
            elif names[at] == "squares":
                rows = rows[:1]
                self._sum(self.past.terms[1:], rows)
            elif names[at] in _LEANING:
                rows, which = rows[:1], _LEANING.index(names[at])
                self._sum(self.past.leaning[which : which + 1], rows)
            else:
                rows = rows[:1]
                self._extreme(names[at], rows[0])
            at += len(rows)

    def _sum(self, terms: Array, rows: Array) -> None:
        out = rows if self._left is None else np.empty((len(terms), self.going + 1))
        out[:, -1] = 0.0
        np.add.accumulate(
            terms[:, self.begin : self._last][:, ::-1], axis=1, out=out[:, -2::-1] if self.going else None
        )
        out += np.add.reduce(terms[:, self._last :], axis=1)[:, None]
        if self._left is not None:
            rows[:] = out[:, self._left - self.begin]

    def _extreme(self, which: str, row: Array) -> None:
        better, none = _EXTREMES[which]
        values = self.past.values
        out = row if self._left is None else np.empty(self.going + 1)
        out[-1] = none
        if self.going:
            better.accumulate(values[self.begin : self._last][::-1], out=out[-2::-1])
        better(out, better.reduce(values[self._last :], initial=none), out=out)
        if self._left is not None:
            row[:] = out[self._left - self.begin]


_LEANING = ["lean", "times", "spread"]
_EXTREMES: dict[str, tuple[Any, float]] = {"low": (np.minimum, math.inf), "high": (np.maximum, -math.inf)}


def alike(window: Deferred) -> tuple[Any, ...]:
    """Windows that are alike in this hold the same points, as far as they reach."""
    return window.unit, window.first, window.seen, id(window.trail.ring), window.trail.end


def ends_of(values: Array, value: float) -> tuple[float, float]:
    """Between what the finite ones lie; 0 where none is."""
    if math.isfinite(value):
        low = high = value
    else:
        low, high = math.inf, -math.inf
    low, high = float(np.minimum.reduce(values, initial=low)), float(np.maximum.reduce(values, initial=high))
    if not math.isfinite(low) or not math.isfinite(high):
        finite = values[np.isfinite(values)]
        if not len(finite):
            return (value, value) if math.isfinite(value) else (0.0, 0.0)
        low, high = float(finite.min()), float(finite.max())
        if math.isfinite(value):
            low, high = min(low, value), max(high, value)
    return low, high


def mean(values: Array, otherwise: float) -> float:
    """Where numbers are on average: about that their squares are least. Another number where it is not finite."""
    found = float(np.add.reduce(values)) / max(1, len(values))
    return found if math.isfinite(found) else otherwise


def parts(table: Array) -> Iterator[Iterator[Sequence[float]]]:
    """Row by row as numbers of Python, of which there are few at a time: they are large. Few at first: often the next chunk of
    points needs none of them."""
    at, size, length = 0, 1, table.shape[1]
    while at < length:
        yield zip(*table[:, at : at + size].tolist())
        at, size = at + size, min(4 * size, _AT_ONCE)
